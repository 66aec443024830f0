/* place.h: where the memory of a planned program lies. */
#ifndef HN_WRAPPER_PLACE_H
#define HN_WRAPPER_PLACE_H

#include "base/map.h"
#include "bundle/format.h"
#include "wrapper/wrapper.h"

/* A buffer. */
typedef struct hn_wplace {
    hnb_buffer_kind kind;
    /* INPUT: its number; CONSTANT: number of the storage; SLOT: of the slot; OUTPUT: 1 + the pool of
     * the plan that it lies in, 0: it has memory of its own */
    uint32_t source;
    uint64_t byte_offset; /* of CONSTANT */
    uint32_t rank;        /* of the tensor in it */
    const hn_expr *sizes, *strides;
    hn_expr bytes; /* of TEMP, SLOT and OUTPUT */
    /* of TEMP: bytes, in the workspace; of OUTPUT with `source`: in the pool */
    hn_expr offset;
} hn_wplace;

/* Bytes of weights that the program reads or changes. */
typedef struct hn_wstorage {
    uint32_t storage; /* of the graph */
    bool is_mutable;
    hn_str name; /* of the first parameter, buffer or constant in it, else of the file's record */
} hn_wstorage;

/* The parameter or buffer of the model that a mutation changes. */
typedef struct hn_wtarget {
    uint32_t storage; /* number among the program's; 0: the output changes no such thing */
    hn_expr offset_elems;
    const hn_expr *strides; /* as many as the output's rank */
} hn_wtarget;

typedef struct hn_wplaces {
    hn_wplace *buffers;  /* per buffer */
    hn_wtarget *targets; /* per output */
    struct {
        hn_wstorage *items;
        uint32_t count, cap;
    } storages;             /* [0] unused; in order of use */
    hn_map storage_numbers; /* storage of the graph -> number */
} hn_wplaces;

/* The storage of the graph that an output changes; 0: it changes none, or none that the graph
 * knows. */
uint32_t hn_woutput_storage(const hn_wrapper *w, const hn_woutput *o);

/* A temporary that no line mentions, and a view, which is a part of another buffer, have no bytes and
 * no elements. Owns: lists live in `arena`.
 * Errors: unsupported when a mutation has another rank or dtype than its target; internal for a
 * storage or target that the graph does not know; out-of-memory. */
hn_status hn_wrapper_place(const hn_wrapper *w, const hn_memory_plan *plan, hn_arena *arena,
                           hn_wplaces *out) HN_MUST_USE;

/* The sizes of a weight, then its strides. False in `out_fixed` when the model does not fix them.
 * Errors: unsupported when the weight is too large to be addressed. */
hn_status hn_wrapper_weight_dims(hn_sym *sym, const hn_graph_weight *weight,
                                 hn_expr out_dims[2 * HN_MAX_RANK], bool *out_fixed) HN_MUST_USE;

#endif
