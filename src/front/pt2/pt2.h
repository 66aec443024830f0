/* pt2.h: reads the .pt2 files of torch.export into graph IR with ATen nodes. Facts on the format:
 * src/front/pt2/README.md. All generations are read: raw payloads (PyTorch 2.9 and later), pickled ones (2.8) and
 * the flat archives before that. Nothing in a file is ever executed. */
#ifndef HN_FRONT_PT2_PT2_H
#define HN_FRONT_PT2_PT2_H

#include "base/file.h"
#include "ir/graph.h"

/* An open archive. Graphs imported from it keep pointing at its weights (hn_storage.data), so it must
 * outlive them. Threads: one at a time. */
typedef struct hn_pt2 hn_pt2;

/* Maps the file and reads its directory. Errors: not-found, io, corrupt, unsupported, incompatible. */
hn_status hn_pt2_open(const char *path, hn_pt2 **out) HN_MUST_USE;
/* The same over bytes of the caller's, which must outlive the archive. */
hn_status hn_pt2_open_memory(const void *bytes, size_t len, hn_pt2 **out) HN_MUST_USE;
/* NULL is allowed. */
void hn_pt2_close(hn_pt2 *file);

/* The models in the archive: most hold one, named "model". Owns: borrowed from the archive. */
void hn_pt2_models(const hn_pt2 *file, const hn_str **out_names, uint32_t *out_count);

/* Builds the graph of one model: `model`, or with NULL the only one, or the one named "model".
 * Symbols, ranges, hints and guards go into `sym`. ATen ops stay as they are, in-place ones included;
 * every argument left at its default is filled in.
 * Owns: the graph lives in `arena`; its storages point into `file`; hn_graph_deinit before dropping it.
 * Errors: unsupported lists every operator that henry lacks, once each, with a node and a source line;
 * invalid-argument and corrupt for files that contradict themselves. */
hn_status hn_pt2_import(hn_pt2 *file, const char *model, hn_arena *arena, hn_sym *sym,
                        hn_graph **out) HN_MUST_USE;

/* An operator, or a kind of node, that henry lacks. */
typedef struct hn_pt2_missing {
    hn_str target;       /* "aten.foo.default" */
    hn_str node, source; /* the first of them; source: "model.py:12", "" when it is not recorded */
    hn_str reason;       /* "": there is no such operator; else what about this use is not supported */
    uint32_t count;
} hn_pt2_missing;

/* Which nodes a model has. In the arena of the import. */
typedef struct hn_pt2_survey {
    hn_str *targets; /* of each node, in order: "aten.relu.default" */
    uint32_t target_count;
    hn_pt2_missing *missing;
    uint32_t missing_count;
} hn_pt2_survey;

/* hn_pt2_import for looking at a model: operators that henry lacks are listed and are no error. Where there are any, the graph has
 * the inputs, and not all of the nodes and outputs. Errors and ownership: as hn_pt2_import. */
hn_status hn_pt2_look(hn_pt2 *file, const char *model, hn_arena *arena, hn_sym *sym, hn_graph **out, hn_pt2_survey *out_survey) HN_MUST_USE;

/* The file's bytes. */
hn_file_map hn_pt2_map(const hn_pt2 *file);
/* Before the same model is imported again: what was handed on, and computed with, by earlier imports is forgotten. */
void hn_pt2_forget_reads(hn_pt2 *file);

/* Checksums. What an import reads (JSON, tables, pickles) it checks as it reads; weights and constants are mapped and
 * handed on unread. A verifier compares these with the CRC-32 of the archive, on threads of its own, while the caller
 * goes on. An archive that was written without checksums passes.
 * Owns: `file` must outlive the verifier; no import may run between begin and end. */
typedef struct hn_pt2_verifier hn_pt2_verifier;
hn_status hn_pt2_verify_begin(hn_pt2 *file, uint32_t threads, hn_pt2_verifier **out) HN_MUST_USE;
/* Does what is left to do, waits for the threads and frees the verifier. Errors: corrupt, naming the record. */
hn_status hn_pt2_verify_end(hn_pt2_verifier *verifier) HN_MUST_USE;
/* Every record of the archive, whether a model uses it or not. Errors: corrupt, unsupported, out-of-memory;
 * invalid-argument when the archive holds no checksums. */
hn_status hn_pt2_verify_all(hn_pt2 *file, uint32_t threads) HN_MUST_USE;

#endif
