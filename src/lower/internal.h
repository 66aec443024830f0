/* internal.h: what the files of lower/ share. */
#ifndef HN_LOWER_INTERNAL_H
#define HN_LOWER_INTERNAL_H

#include "base/limit.h"
#include "base/map.h"
#include "ir/build.h"
#include "ir/loop.h"

/* How a graph value is available. */
typedef struct lower_value {
    bool defined;
    hn_buf buffer;          /* 0: an expression, computed where it is used */
    const hn_expr *strides; /* of memory, elements */
    hn_expr offset;
    int64_t zeros; /* behind each row of memory, that is each run along the dimension of stride 1 */
    /* size of the expression, saturating */
    uint32_t ops, loads, depth;
    bool costly;   /* holds a transcendental or a gather */
    bool chooses;  /* of a concatenation that is no memory: readers choose for each element */
    hn_buf chosen; /* of a scatter that is a select: its indices, i64, row-major; 0: of others */
} lower_value;

typedef struct lower {
    hn_graph *g;
    hn_sym *sym;
    hn_program *p;
    hn_limit *limit;   /* of rewrites; NULL: all */
    hn_arena *arena;   /* of the program */
    hn_arena *scratch; /* of the pass */
    lower_value *values;
    uint32_t *uses;   /* per value: operands and outputs that read it */
    uint32_t *output; /* per value: 1 + index of the first graph output that is it, 0: none */
    /* per value: its memory has channels last, where the choice is free; NULL: the target has no
     * such wish */
    bool *channels_last;
    bool *longer_rows; /* per value: rows.c; NULL: likewise */
    hn_expr zero, one;
    hn_map sums;                     /* of index.c: hash of (offset, indices, strides) -> the sum */
    const hn_operations *operations; /* of hn_lower_options */
    bool deterministic;              /* likewise */
    uint32_t origin;                 /* of the node being lowered, in the outermost graph */
    hn_graph *root;                  /* the outermost graph */
    bool is_branch;                  /* a subgraph: every node has the origin of the conditional */
    /* per value, of a loop's body: a put into what is carried, whose memory it may keep; NULL:
     * none */
    bool *in_place;
} lower;

enum { LOWER_CUTS_MAX = 64 }; /* pieces of a concatenation whose readers are cut */

/* What a loop that stores elements is to be cut at (cat.c), so that each part reads one piece of a
 * concatenation. */
typedef struct lower_cut {
    const hn_expr *vars; /* of the loop */
    uint32_t rank;
    size_t stored_bytes;      /* of an element */
    uint32_t parts, ways;     /* of the cuts so far: their sum, and how many loops that makes */
    bool is_cut[HN_MAX_RANK]; /* per variable: so far */
    /* the next one: variable `var`, so that a part begins at each `at`, ascending; count 0: none */
    uint32_t var, count;
    int64_t at[LOWER_CUTS_MAX];
} lower_cut;

/* A loop body under construction. */
typedef struct lower_body {
    lower *l;
    lower_cut *cut; /* NULL: it cannot be cut */
    hn_body body;
    hn_map memo;      /* hash of (value, indices) -> sid */
    bool clamps;      /* the next PAD repeats its border instead of filling it */
    uint32_t origin;  /* of ops that are added: the node at hand, in the outermost graph */
    hn_status failed; /* first error; owned until the caller takes it */
} lower_body;

/* index.c: index maps of views */
/* Indices of `in_sizes` for the element that `out_idx` names in `out_sizes`: same row-major
 * position. */
void lower_index_reshape(lower *l, const hn_expr *out_sizes, uint32_t out_rank,
                         const hn_expr *out_idx, const hn_expr *in_sizes, uint32_t in_rank,
                         hn_expr *in_idx);
/* Strides of the reshaped view, when memory with `in_strides` can be seen so without a copy. */
bool lower_strides_reshape(lower *l, const hn_expr *in_sizes, const hn_expr *in_strides,
                           uint32_t in_rank, const hn_expr *out_sizes, uint32_t out_rank,
                           hn_expr *out_strides);
/* offset + sum(idx * stride) */
hn_expr lower_index_linear(lower *l, hn_expr offset, const hn_expr *idx, const hn_expr *strides,
                           uint32_t rank);
/* A store of `value` into the buffer of `v`, at the element that `idx` names. */
hn_loop_store lower_store_at(lower *l, hn_value v, const hn_expr *idx, uint32_t rank, hn_sid value);

/* body.c: expressions */
void lower_body_init(lower_body *b, lower *l);
/* The scalar of `v` at `idx` (one expression per dimension). 0 after a failure. */
hn_sid lower_gen(lower_body *b, hn_value v, const hn_expr *idx);
hn_sid lower_gen_sop(lower_body *b, hn_sop sop);
hn_sid lower_gen_const_i(lower_body *b, int64_t value, hn_dtype dtype);
/* An I64 scalar as an index below `limit`, for node `n`: wrapped when negative if `wrap`,
 * checked. */
hn_expr lower_gen_indirect(lower_body *b, const hn_node_info *n, hn_sid value, hn_expr limit,
                           bool wrap);

/* cat.c: the scalar of concatenation `n`, which is no memory. Where b->cut asks for cuts then, the
 * body is to be dropped, and made for each part. */
hn_sid lower_gen_cat(lower_body *b, const hn_node_info *n, const hn_expr *idx);

/* realize.c: memory */
/* A fresh buffer for `v` (with the strides of layout.c, or the recorded ones when `v` is a graph
 * output); state becomes memory. */
hn_status lower_new_buffer(lower *l, hn_value v, const hn_expr *strides_or_null) HN_MUST_USE;
/* A temporary beside the values of the graph, row-major. */
hn_status lower_new_temp(lower *l, hn_dtype dtype, const hn_expr *sizes, uint32_t rank,
                         hn_buf *out) HN_MUST_USE;
/* Makes `v` memory, if it is not. */
hn_status lower_realize(lower *l, hn_value v) HN_MUST_USE;
/* Makes `v` memory that is row-major contiguous. */
hn_status lower_realize_contiguous(lower *l, hn_value v) HN_MUST_USE;
/* The same, from the first byte of its memory on: for items that read one element there. */
hn_status lower_realize_at_start(lower *l, hn_value v) HN_MUST_USE;
/* Copies `v` into memory with these strides. */
hn_status lower_realize_in(lower *l, hn_value v, const hn_expr *strides) HN_MUST_USE;
/* Pointwise loops over the elements of `x` that store them to `buffer` at offset + strides: one, or
 * one for each part (lower_cut). */
hn_status lower_copy_loop(lower *l, hn_value x, hn_buf buffer, hn_expr offset,
                          const hn_expr *strides) HN_MUST_USE;
void lower_loop_vars(lower *l, hn_loop *loop, const hn_expr *extents, uint32_t count);

/* layout.c: channels in front of places, or behind them */
hn_status lower_layouts(lower *l) HN_MUST_USE; /* fills l->channels_last */
/* Those of fresh memory. */
void lower_default_strides(lower *l, hn_value v, hn_expr *out);
/* The dimensions as they lie in memory, the outermost first. */
void lower_order(uint32_t rank, bool channels_last, uint32_t *out);
bool lower_are_last(const lower *l, const hn_expr *strides, uint32_t rank);
/* Makes `v` memory with channels last. */
hn_status lower_realize_last(lower *l, hn_value v) HN_MUST_USE;

/* longer.c: memory that is longer than its value. It has `size` elements along dimension `dim`:
 * those of the value, then zeros. Dimension `along` is the innermost, and from one row along it to
 * the next are `row` elements: `size` if along == dim, else as many as the value has, or more. In
 * constants these are zeros as well, in copies they are not set. */
typedef struct lower_longer {
    uint32_t dim, along;
    int64_t size, row;
} lower_longer;
typedef struct lower_place {
    hn_buf buffer; /* 0: the value's own, or none */
    const hn_expr *sizes, *strides;
} lower_place;
/* No buffer yet. */
hn_status lower_longer_shape(lower *l, hn_value v, const lower_longer *how,
                             lower_place *out) HN_MUST_USE;
/* A loop that makes it. */
hn_status lower_copy_longer(lower *l, hn_value v, const lower_longer *how,
                            lower_place *out) HN_MUST_USE;
/* Zeros behind the rows of `v`, which has memory for them. */
hn_status lower_end_rows(lower *l, hn_value v, int64_t row) HN_MUST_USE;
/* A constant; no buffer where the bytes of the weight are not known (lower_can_be_longer). */
bool lower_can_be_longer(const lower *l, hn_value w, const lower_longer *how);
hn_status lower_weight_longer(lower *l, hn_value w, const lower_longer *how,
                              lower_place *out) HN_MUST_USE;

/* rows.c: products whose rows are no whole number of aligned pieces */
hn_status lower_rows(lower *l) HN_MUST_USE; /* fills l->longer_rows */
/* The elements from one row of `v` to the next; 0: it has no longer rows. */
int64_t lower_longer_row(const lower *l, hn_value v);
typedef struct lower_product {
    lower_place a, b, bias;        /* without sizes */
    hn_expr depth, columns;        /* more than the values have; 0: as many */
    int64_t few_rows, few_columns; /* the last ones, which the operation better leaves to loops */
} lower_product;
/* Memory for the operands and the result of product `n`. */
hn_status lower_product_memory(lower *l, const hn_node_info *n, lower_product *out) HN_MUST_USE;
/* Adds the loops of few rows and columns, and takes these from the call. */
hn_status lower_product_split(lower *l, hn_extern *call, const lower_product *product) HN_MUST_USE;
/* Additions and multiplications of product `n`, with sizes as they are expected. */
double lower_product_flops(const lower *l, const hn_node_info *n);
/* Whether the memory of `v` is, perhaps by views, what leaves the program. */
bool lower_leaves(const lower *l, hn_value v);

/* weights.c: other strides, for a weight whose bytes are known; it stays as it is otherwise. */
bool lower_can_relay_weight(const lower *l, hn_value v, const hn_expr *strides);
hn_status lower_relay_weight(lower *l, hn_value v, const hn_expr *strides) HN_MUST_USE;
/* Weights side by side in one constant. */
typedef struct lower_joint {
    hn_dtype dtype;
    uint32_t rank, count;
    const hn_expr *sizes, *strides; /* of all together, without gaps */
    const hn_value *parts;          /* all known (lower_can_relay_weight); 0: numbers of 0 */
    const int64_t *offsets;         /* of each: its first element */
} lower_joint;
/* *out is 0 where sizes are too large for numbers. */
hn_status lower_join_weights(lower *l, const lower_joint *joint, hn_buf *out) HN_MUST_USE;

/* channels.c: memory of the input and the weight of convolution `n` with more channels; no buffers
 * where those that there are do. */
hn_status lower_add_channels(lower *l, const hn_node_info *n, lower_place *out_x,
                             lower_place *out_w) HN_MUST_USE;

/* join.c: one product in the place of `n` and later ones that read the same; *out_done: `n` is
 * done, now or with an earlier one. */
hn_status lower_join_products(lower *l, const hn_node_info *n, bool *out_done) HN_MUST_USE;

/* lower.c: `v` is constant `input` of the program. */
hn_status lower_constant(lower *l, hn_value v, uint32_t input, const hn_expr *strides) HN_MUST_USE;
/* externs.c: the sizes among the parameters of a convolution. */
void lower_conv_sizes(lower *l, const hn_node_info *n, hn_extern *e);

/* nodes.c: the loop of a reduction: its parallel dims are those of the operand of `n` not in
 * `is_red`, as the result lies in memory, followed by those that are. Fills at[d] with the variable
 * of dim d. */
void lower_split_loop(lower *l, hn_loop *loop, const hn_node_info *n, const bool *is_red,
                      hn_expr *at);

/* window.c: a reduction over windows of a few elements (`is_red`: per dim of the operand), and its
 * lowering. */
bool lower_is_small_window(lower *l, const hn_node_info *n, const bool *is_red);
hn_status lower_window_reduce(lower *l, const hn_node_info *n, const bool *is_red) HN_MUST_USE;

/* lower.c: every node of l->g, inputs being defined */
hn_status lower_nodes(lower *l) HN_MUST_USE;
hn_status lower_count_uses(lower *l) HN_MUST_USE;

/* cond.c: a lowering of `graph`, a subgraph of a node of `outer`: its first inputs are `operands`,
 * the values of `outer`. */
hn_status lower_subgraph_init(lower *l, lower *outer, hn_graph *graph, const hn_value *operands,
                              uint32_t count) HN_MUST_USE;

/* call_loops.c: fills call->loops, when the target lacks the operation and there are loops for
 * it */
hn_status lower_call_loops(lower *l, hn_extern *call) HN_MUST_USE;
/* The same for any target. */
hn_status lower_loops_of(lower *l, hn_extern *call) HN_MUST_USE;

/* nodes.c, scatter.c, cat.c, cond.c, dynamic.c and externs.c: one function per op, found in the
 * table of lower.c */
typedef hn_status (*lower_fn)(lower *l, const hn_node_info *n);
/* element-wise, create, pad, gather, index */
hn_status lower_expression(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_view(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_cat(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_reduce(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_scan(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_scatter(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_index_put(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_matmul(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_conv(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_attention(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_attention_backward(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_sort(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_cond(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_repeat(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_assert(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_nms(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_grouped_matmul(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_nonzero(lower *l, const hn_node_info *n) HN_MUST_USE;
hn_status lower_item(lower *l, const hn_node_info *n) HN_MUST_USE;

/* Dimension arguments: INT as a number, INTS as numbers. */
static inline int64_t lower_int(const lower *l, const hn_arg *arg) {
    int64_t value = 0;
    if (arg->kind == HN_ARG_BOOL) return arg->as.b;
    if (arg->kind == HN_ARG_INT) (void)hn_sym_is_int(l->sym, arg->as.expr, &value);
    return value;
}

#endif
