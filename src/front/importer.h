/* importer.h: readers of model files. A format is a row of functions; the rest of Henry knows
 * models only through it. Rules for importers, and how to add one: src/front/README.md. */
#ifndef HN_FRONT_IMPORTER_H
#define HN_FRONT_IMPORTER_H

#include "base/file.h"
#include "base/hash.h"
#include "base/kind.h"
#include "ir/graph.h"

typedef struct hn_importer hn_importer;

/* An open model file, or a model in memory. An importer keeps what it knows besides in a struct of
 * its own that begins with this one. Graphs imported from a file keep pointing at its weights
 * (hn_storage.data), so it must outlive them.
 * Threads: one at a time. */
typedef struct hn_model_file {
    const hn_importer *importer; /* file->importer->import(file, ...) */
    /* the file, in which storages lie at their file_offset; data NULL: a model in memory */
    hn_file_map map;
    /* names of the models in the file; most files hold one. Owned by the importer */
    const hn_str *models;
    uint32_t model_count;
    bool has_checksums; /* of weights; without them, damage to weights is not found */
    /* a program of this file can serve other files with an equal graph: weights have places in the
     * file, and the records that a program computed with can be told (`reads`) and compared */
    bool may_share;
    bool has_examples; /* its user inputs may have recorded values (hn_input.example) */
} hn_model_file;

/* An operator, or a kind of node, that henry lacks. */
typedef struct hn_import_missing {
    hn_str target;       /* "aten.foo.default" */
    hn_str node, source; /* the first of them; source: "model.py:12", "" when it is not recorded */
    /* "": there is no such operator; else what about this use is not supported */
    hn_str reason;
    uint32_t count;
} hn_import_missing;

/* Which nodes a model has. In the arena of the import. */
typedef struct hn_import_survey {
    hn_str *targets; /* of each node, in order: "aten.relu.default" */
    uint32_t target_count;
    hn_import_missing *missing;
    uint32_t missing_count;
} hn_import_survey;

/* A part of the graph cache's key (driver/key.h). A record is a piece of the file that the importer
 * can name by a number, such as an entry of an archive. */
typedef struct hn_key_part {
    uint32_t records;
    uint64_t bytes; /* of the records whose sizes count */
    hn_digest digest;
} hn_key_part;

typedef struct hn_model_key {
    hn_key_part graph;   /* everything that is read to make a graph, byte for byte */
    hn_key_part weights; /* where everything else lies */
} hn_model_key;

struct hn_importer {
    const char *name; /* "pt2", as `henry inspect --json` gives the format */
    hn_kind kind;     /* of its files (base/kind.h) */
    /* Whether bytes of no known kind may be a damaged file of this format: then `open` says what is
     * wrong with it. */
    bool (*claims)(const void *bytes, size_t len);

    /* The bytes outlive the file. Sets models, model_count, has_checksums and may_share.
     * Errors: corrupt, unsupported, incompatible. */
    hn_status (*open)(const void *bytes, size_t len, hn_model_file **out);
    void (*close)(hn_model_file *file);

    /* Builds the graph of one model: `model`, or with NULL the only one, or the one named "model".
     * Symbols, ranges, hints and guards go into `sym`. Operators stay as they are, in-place ones
     * included; every argument left at its default is filled in.
     * Owns: the graph lives in `arena`; its storages point into `file`; hn_graph_deinit before
     * dropping it.
     * Errors: not-found; unsupported lists every operator that henry lacks, once each, with a node
     * and a source line; invalid-argument and corrupt for files that contradict themselves. */
    hn_status (*import)(hn_model_file *file, const char *model, hn_arena *arena, hn_sym *sym,
                        hn_graph **out);
    /* The same for looking at a model: operators that henry lacks are listed and are no error.
     * Where there are any, the graph has the inputs, and not all of the nodes and outputs. */
    hn_status (*look)(hn_model_file *file, const char *model, hn_arena *arena, hn_sym *sym,
                      hn_graph **out, hn_import_survey *out_survey);
    /* Before the same model is imported again: what was handed on, and computed with, by earlier
     * imports is forgotten. */
    void (*forget_reads)(hn_model_file *file);

    /* What an import reads it checks as it reads; weights are handed on unread. From begin to end,
     * these are compared with their checksums on up to `threads` threads, while the caller goes on.
     * A file without checksums passes. No import may run in between, and each begin without an
     * error needs its end. Errors: corrupt, naming the record (end); out-of-memory. */
    hn_status (*verify_begin)(hn_model_file *file, uint32_t threads);
    hn_status (*verify_end)(hn_model_file *file);
    /* Every record, whether a model uses it or not. Errors: corrupt, unsupported, out-of-memory;
     * invalid-argument when the file has no checksums. */
    hn_status (*verify_all)(hn_model_file *file, uint32_t threads);

    /* The parts of the key. With `is_shared`, files with equal graphs have equal keys: where
     * weights lie counts, and their checksums do not. Errors: corrupt, unsupported,
     * out-of-memory. */
    hn_status (*key_parts)(hn_model_file *file, bool is_shared, hn_model_key *out);
    /* Whether the graph part of a shared key covers all that imports read. Errors: internal, naming
     * the record that it lacks. */
    hn_status (*key_check)(const hn_model_file *file);
    /* The numbers of the records whose values programs of this file may depend on, in any order:
     * passes computed with them, or they became part of the program. Owns: borrowed from the file.
     * Errors: out-of-memory. */
    hn_status (*reads)(hn_model_file *file, const uint32_t **out_records, uint32_t *out_count);
    /* A digest of the values of records. Errors: corrupt, also for a number that no record has. */
    hn_status (*values_digest)(hn_model_file *file, const uint32_t *records, uint32_t count,
                               hn_digest *out);
    /* A digest of the places of all weights in the file. Errors: corrupt. */
    hn_status (*places_digest)(hn_model_file *file, hn_digest *out);
};

/* The importer of a file with these bytes. Errors: invalid-argument: what the bytes are, what can
 * be read instead, and what to do about it. */
hn_status hn_importer_find(const void *bytes, size_t len, const hn_importer **out) HN_MUST_USE;
/* Appends what can be read, with `joiner` between: "a PyTorch model (.pt2) or a graph ...". Latches
 * in `out`. */
void hn_importer_kinds(const char *joiner, hn_strbuf *out);

/* Maps a file and opens it with its importer. Errors: not-found, io; those of hn_importer_find and
 * of the importer's open. */
hn_status hn_model_open(const char *path, hn_model_file **out) HN_MUST_USE;
/* The same over bytes of the caller's, which must outlive the file. */
hn_status hn_model_open_memory(const void *bytes, size_t len, hn_model_file **out) HN_MUST_USE;
/* NULL is allowed. */
void hn_model_close(hn_model_file *file);

#endif
