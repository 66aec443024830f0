/* backward_block.h: what a block of keys and a block of queries give each other of the gradients of
 * attention. Matrices have keys or columns of heads along the lanes. */
#ifndef HN_OPS_CPU_ATTENTION_BACKWARD_BLOCK_H
#define HN_OPS_CPU_ATTENTION_BACKWARD_BLOCK_H

#include "ops/cpu/ext.h"
#include "ops/cpu/kernels.h"

enum { HN_EXT_BACKWARD_QUERIES = 64 }; /* of a block, which are summed over at a time */

/* What depends on the shape alone. */
typedef struct hn_ext_backward_plan {
    const hn_ext_kernels *kernels;
    int64_t batch, heads, kv_heads, group /* heads of a key head */, m, n, d, dv;
    float scale;
    bool causal;
    int64_t block, blocks;  /* keys in a block, the last one may have fewer; blocks, 1 or more */
    int64_t width, q_width; /* block and d in whole panels */
} hn_ext_backward_plan;

/* Of the weights of one query: they are e^(score - high) * factor. */
typedef struct hn_ext_backward_stats {
    float high, factor;
} hn_ext_backward_stats;

/* What a thread works with. */
typedef struct hn_ext_backward_worker {
    const hn_ext_backward_plan *plan;
    const hn_ext_call *call;
    float *k_t, *v_t;        /* of a block of keys, panels of keys: [panel][d or dv][tile_cols] */
    float *k;                /* panels of columns: [panel][block][tile_cols] */
    float *d_k_t, *d_v_t;    /* as k_t and v_t */
    float *q, *grad;         /* of a block of queries, in tiles of queries */
    float *q_t, *grad_t;     /* in tiles of columns */
    float *scores, *changes; /* [queries][width] */
    float *changes_tiles;    /* in tiles of queries */
    float *mask;             /* of one query: [width] */
    float *rows[2];          /* [queries][d or dv], converted or transposed */
    float dots[HN_EXT_BACKWARD_QUERIES];
} hn_ext_backward_worker;

/* Sets the addresses; returns how many floats they take from `memory` on. */
int64_t hn_ext_backward_worker_init(hn_ext_backward_worker *w, const hn_ext_backward_plan *plan,
                                    float *memory);

/* Queries of one head. */
typedef struct hn_ext_backward_queries {
    int64_t batch, head, first, count;
} hn_ext_backward_queries;

/* Whether the operands of a key head, and of the heads that share it, hold no infinity or NaN. */
bool hn_ext_backward_is_finite(const hn_ext_backward_worker *w, int64_t batch, int64_t kv_head);

/* Stats [x->count] of queries over all keys. */
void hn_ext_backward_find_stats(hn_ext_backward_worker *w, const hn_ext_backward_queries *x,
                                hn_ext_backward_stats *out);

/* Whether queries [first, first + count) see a key of a block. */
bool hn_ext_backward_sees(const hn_ext_backward_plan *plan, int64_t first, int64_t count,
                          int64_t block);

/* A block of keys, with all queries that see it: writes the gradients of keys and values. `stats`:
 * of all queries, [batch, heads, m]; NULL where there is one block. `d_q`: [group][m][q_width], the
 * gradients of queries but for the scale, are set, or added to; where there is one block
 * [HN_EXT_BACKWARD_QUERIES][q_width], and they are written to the operand. */
void hn_ext_backward_block(hn_ext_backward_worker *w, int64_t batch, int64_t kv_head, int64_t block,
                           const hn_ext_backward_stats *stats, float *d_q, bool adds);

/* Writes gradients of queries, `d_q` [x->count][q_width] times the scale, which is overwritten. */
void hn_ext_backward_store_queries(const hn_ext_backward_worker *w,
                                   const hn_ext_backward_queries *x, float *d_q);

#endif
