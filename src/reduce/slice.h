/* slice.h: a part of a model that is a model again: a graph as text, the bytes that are not in it,
 * and a value for each of its inputs. A slice is copied by reading its text, so each attempt has a
 * graph and symbols of its own. */
#ifndef HN_REDUCE_SLICE_H
#define HN_REDUCE_SLICE_H

#include "front/importer.h"

typedef struct hn_slice {
    hn_model_file file; /* its importer gives copies of the graph; nothing lies behind it */
    hn_arena arena;     /* text and lists; not the bytes, which outlive all slices */
    hn_str text;
    const uint8_t **storages;    /* bytes by number; [0] unused */
    const hn_example **examples; /* by position of the input */
    uint32_t storage_count, input_count, node_count;
    uint64_t weight_bytes;
    /* copies have an output for each tensor that a node makes, in the order of the nodes */
    bool is_watched;
} hn_slice;

/* Takes the graph apart: storages lose their places in a file. What it points at outlives the
 * slice. Owns: deinit also after an error. */
hn_status hn_slice_init(hn_graph *graph, hn_slice *out) HN_MUST_USE;
void hn_slice_deinit(hn_slice *slice);

/* A copy of the graph. Owns: it lives in `arena`; hn_graph_deinit. */
hn_status hn_slice_graph(const hn_slice *slice, hn_arena *arena, hn_graph **out) HN_MUST_USE;
/* All of it as text, in a line behind each of the `count` comments. */
hn_status hn_slice_write(const hn_slice *slice, const char *const *comments, uint32_t count,
                         hn_strbuf *out) HN_MUST_USE;

#endif
