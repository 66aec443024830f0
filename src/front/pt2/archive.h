/* archive.h: the open .pt2 file behind pt2.h. Internal to front/pt2. */
#ifndef HN_FRONT_PT2_ARCHIVE_H
#define HN_FRONT_PT2_ARCHIVE_H

#include "front/pt2/pt2.h"
#include "front/pt2/zip.h"

/* How an archive keeps its tensors. */
typedef enum hn_pt2_generation {
    HN_PT2_FLAT,    /* up to 2.7: no root folder, torch.save archives inside the archive */
    HN_PT2_PICKLED, /* 2.8: a root folder, data/weights/MODEL.pt */
    HN_PT2_RAW      /* 2.9 on: a root folder, one record a storage, a JSON table of tensors */
} hn_pt2_generation;

/* A record whose bytes were handed on without being read. */
typedef struct hn_pt2_unread {
    const hn_zip *zip;
    const hn_zip_entry *entry;
    const uint8_t *bytes;
    /* whether a pass computed with them (hn_storage.was_read); NULL: unknown. In the archive's
     * arena. */
    bool *was_read;
    bool is_in_program; /* they become part of the program: it cannot refer to them in the file */
} hn_pt2_unread;

typedef struct hn_pt2_verifier hn_pt2_verifier; /* verify.c */

typedef struct hn_pt2 {
    hn_model_file base;
    hn_arena arena; /* directory, inflated records */
    hn_zip zip;
    hn_pt2_generation generation; /* FLAT or not; PICKLED and RAW are told apart model by model */
    hn_str root;                  /* "mlp/", or "" */
    struct {
        hn_str *items;
        uint32_t count, cap;
    } models;
    struct {
        hn_pt2_unread *items;
        uint32_t count, cap;
    } unread;                  /* by imports: verify.c */
    hn_pt2_verifier *verifier; /* between begin and end */
} hn_pt2;

/* The archive that a file of this importer is. */
static inline hn_pt2 *hn_pt2_of(hn_model_file *file) { return (hn_pt2 *)file; }

/* The record ROOT + `prefix` + `name` + `suffix`; NULL when there is none or no memory. */
hn_zip_entry *hn_pt2_record(hn_pt2 *file, const char *prefix, hn_str name, const char *suffix);

/* The functions of the importer's row (pt2.c), as front/importer.h describes them. */
/* import.c */
hn_status hn_pt2_import(hn_model_file *file, const char *model, hn_arena *arena, hn_sym *sym,
                        hn_graph **out) HN_MUST_USE;
hn_status hn_pt2_look(hn_model_file *file, const char *model, hn_arena *arena, hn_sym *sym,
                      hn_graph **out, hn_import_survey *out_survey) HN_MUST_USE;
/* verify.c */
void hn_pt2_forget_reads(hn_model_file *file);
hn_status hn_pt2_verify_begin(hn_model_file *file, uint32_t threads) HN_MUST_USE;
hn_status hn_pt2_verify_end(hn_model_file *file) HN_MUST_USE;
hn_status hn_pt2_verify_all(hn_model_file *file, uint32_t threads) HN_MUST_USE;
/* key.c */
bool hn_pt2_may_share(const hn_pt2 *file);
hn_status hn_pt2_key_parts(hn_model_file *file, bool is_shared, hn_model_key *out) HN_MUST_USE;
hn_status hn_pt2_key_check(const hn_model_file *file) HN_MUST_USE;
hn_status hn_pt2_reads(hn_model_file *file, const uint32_t **out_records,
                       uint32_t *out_count) HN_MUST_USE;
hn_status hn_pt2_values_digest(hn_model_file *file, const uint32_t *records, uint32_t count,
                               hn_digest *out) HN_MUST_USE;
hn_status hn_pt2_places_digest(hn_model_file *file, hn_digest *out) HN_MUST_USE;

#endif
