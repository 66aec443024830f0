/* archive.h: the open .pt2 file behind pt2.h. Internal to front/pt2. */
#ifndef HN_FRONT_PT2_ARCHIVE_H
#define HN_FRONT_PT2_ARCHIVE_H

#include "base/file.h"
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
    bool *was_read; /* whether a pass computed with them (hn_storage.was_read); NULL: unknown. In the archive's arena. */
    bool is_in_program; /* they become part of the program: it cannot refer to them in the file */
} hn_pt2_unread;

struct hn_pt2 {
    hn_arena arena; /* directory, inflated records */
    hn_file_map map;
    hn_zip zip;
    hn_pt2_generation generation; /* FLAT or not; PICKLED and RAW are told apart model by model */
    hn_str root;                  /* "mlp/", or "" */
    struct { hn_str *items; uint32_t count, cap; } models;
    struct { hn_pt2_unread *items; uint32_t count, cap; } unread; /* by imports: verify.c */
};

/* The record ROOT + `prefix` + `name` + `suffix`; NULL when there is none or no memory. */
hn_zip_entry *hn_pt2_record(hn_pt2 *file, const char *prefix, hn_str name, const char *suffix);

#endif
