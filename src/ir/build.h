/* build.h: typed builders of primitives. Each infers the result's dtype and sizes (hn_infer), adds
 * a node and returns its value; wrong operands latch an internal error in the graph and give 0, and
 * 0 operands give 0, so that a decomposition reads like the formula and checks once.
 *
 * Constants have one spelling for each dtype (a float for float dtypes, an integer otherwise), so
 * that equal ones merge. gather, scatter, scans and sorts take rank 0 as one element in a row. The
 * promoting helpers live in opt/. */
#ifndef HN_IR_BUILD_H
#define HN_IR_BUILD_H

#include "ir/graph.h"

/* A number that may be an integer expression, a float or a bool. */
typedef struct hn_scalar {
    bool is_float;
    double f;  /* when is_float */
    hn_expr i; /* otherwise */
} hn_scalar;
static inline hn_scalar hn_scalar_f(double f) { return (hn_scalar){.is_float = true, .f = f}; }
static inline hn_scalar hn_scalar_i(hn_expr i) { return (hn_scalar){.is_float = false, .i = i}; }

/* element-wise: NumPy broadcasting; x and y of one dtype */
hn_value hn_b_unary(hn_graph *g, hn_op op, hn_value x);
hn_value hn_b_binary(hn_graph *g, hn_op op, hn_value x, hn_value y); /* BINARY and COMPARE rows */
hn_value hn_b_where(hn_graph *g, hn_value cond, hn_value x, hn_value y);
hn_value hn_b_cast(hn_graph *g, hn_value x, hn_dtype dtype); /* x itself when it has the dtype */
/* float <-> signed int of one width */
hn_value hn_b_bitcast(hn_graph *g, hn_value x, hn_dtype dtype);

/* creation */
hn_value hn_b_full(hn_graph *g, hn_scalar value, const hn_expr *sizes, uint32_t rank,
                   hn_dtype dtype);
hn_value hn_b_scalar(hn_graph *g, double value, hn_dtype dtype); /* rank 0 full */
hn_value hn_b_iota(hn_graph *g, hn_scalar start, hn_scalar step, hn_expr size, hn_dtype dtype);
hn_value hn_b_random(hn_graph *g, const char *kind, const hn_expr *sizes, uint32_t rank,
                     hn_dtype dtype, hn_value seed, hn_expr stream);

/* views; dims are 0 <= dim < rank */
/* x itself when equal */
hn_value hn_b_reshape(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank);
/* x itself when identity */
hn_value hn_b_permute(hn_graph *g, hn_value x, const uint32_t *dims);
hn_value hn_b_transpose(hn_graph *g, hn_value x, uint32_t dim0, uint32_t dim1);
/* adds leading dims too */
hn_value hn_b_expand(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank);
hn_value hn_b_unsqueeze(hn_graph *g, hn_value x, uint32_t dim);
hn_value hn_b_squeeze(hn_graph *g, hn_value x, uint32_t dim); /* size must be 1 */
/* x itself when everything is taken */
hn_value hn_b_slice(hn_graph *g, hn_value x, uint32_t dim, hn_expr start, hn_expr size,
                    int64_t step);
hn_value hn_b_select(hn_graph *g, hn_value x, uint32_t dim, hn_expr index); /* slice + squeeze */
hn_value hn_b_flip(hn_graph *g, hn_value x, uint32_t dim);                  /* slice with step -1 */
hn_value hn_b_window(hn_graph *g, hn_value x, uint32_t dim, hn_expr count, hn_expr size,
                     hn_expr step, hn_expr dilation);
hn_value hn_b_as_strided(hn_graph *g, hn_value x, const hn_expr *sizes, const hn_expr *strides,
                         uint32_t rank, hn_expr offset);

/* data movement */
hn_value hn_b_pad(hn_graph *g, hn_value x, hn_scalar value, const hn_expr *lo, const hn_expr *hi);
hn_value hn_b_cat(hn_graph *g, const hn_value *xs, uint32_t count, uint32_t dim);
hn_value hn_b_gather(hn_graph *g, hn_value x, hn_value index, uint32_t dim);
hn_value hn_b_index(hn_graph *g, hn_value x, const hn_value *indices, uint32_t count, bool wrap);
/* `values` broadcast to the shape that indexing gives */
hn_value hn_b_index_put(hn_graph *g, hn_value x, const hn_value *indices, uint32_t count,
                        hn_value values, const char *mode, bool wrap);
/* a larger `src` is cut to the sizes of `index` */
hn_value hn_b_scatter(hn_graph *g, hn_value x, hn_value index, hn_value src, uint32_t dim,
                      const char *mode);

/* reductions and scans */
/* `dims` ascending; ANY and ALL cast x to bool */
hn_value hn_b_reduce(hn_graph *g, hn_op op, hn_value x, const uint32_t *dims, uint32_t dim_count,
                     bool keepdim);
/* CUMMAX and CUMMIN also write *out_indices (may be NULL otherwise). */
hn_value hn_b_scan(hn_graph *g, hn_op op, hn_value x, uint32_t dim, hn_value *out_indices);
hn_value hn_b_sort(hn_graph *g, hn_value x, uint32_t dim, bool descending, bool stable,
                   hn_value *out_indices);
hn_value hn_b_nms(hn_graph *g, hn_value boxes, double threshold);
hn_value hn_b_topk(hn_graph *g, hn_value x, hn_expr k, uint32_t dim, bool largest, bool sorted,
                   hn_value *out_indices);

/* contractions */
hn_value hn_b_matmul(hn_graph *g, hn_value a, hn_value b, hn_value bias); /* bias 0: none */
hn_value hn_b_grouped_matmul(hn_graph *g, hn_value a, hn_value b, hn_value ends);
typedef struct hn_conv_params {
    uint32_t spatial; /* 1..3 */
    hn_expr stride[3], padding[3], dilation[3], output_padding[3];
    bool transposed;
    int64_t groups;
} hn_conv_params;
hn_value hn_b_conv(hn_graph *g, hn_value x, hn_value w, hn_value bias,
                   const hn_conv_params *params);
/* The operands of ATTENTION_BACKWARD; mask 0: there is none. */
typedef struct hn_attention_grad {
    hn_value grad, q, k, v, out, mask;
    double scale;
    bool causal;
} hn_attention_grad;
/* Gives the gradient of q, and by `out_k_v` those of k and v. */
hn_value hn_b_attention_backward(hn_graph *g, const hn_attention_grad *a, hn_value out_k_v[2]);
hn_value hn_b_attention(hn_graph *g, hn_value q, hn_value k, hn_value v, hn_value mask,
                        double scale, bool causal);

/* control */
hn_value hn_b_item(hn_graph *g, hn_value x, hn_value_kind kind, hn_expr symbol);
hn_value hn_b_nonzero(hn_graph *g, hn_value x, hn_expr count_symbol);
/* returns 0; look at hn_graph_status */
hn_value hn_b_assert(hn_graph *g, hn_value cond, hn_str message);
/* Fills `out[k]` for each of then's outputs; both graphs must agree. */
void hn_b_cond(hn_graph *g, hn_value pred, hn_graph *then_graph, hn_graph *else_graph,
               const hn_value *operands, uint32_t count, hn_value *out, uint32_t out_count);

/* Either `rounds` (an expression, 0: none) or `test` (a graph, NULL: none). `operands`: what is
 * carried, then the others. Fills `out[k]` for each that is carried. */
typedef struct hn_b_loop_parts {
    hn_expr rounds;
    hn_graph *test, *body;
    const hn_value *operands;
    uint32_t carried_count, other_count;
} hn_b_loop_parts;
void hn_b_loop(hn_graph *g, const hn_b_loop_parts *parts, hn_value *out);

/* Result metas of a primitive from its arguments: what the builders and the verifier use. */
typedef struct hn_meta {
    hn_dtype dtype;
    uint32_t rank;
    hn_expr sizes[HN_MAX_RANK];
} hn_meta;
enum { HN_RESULTS_MAX = 3 }; /* of a primitive but COND and LOOP */
/* Writes at most HN_RESULTS_MAX metas. The first size of NONZERO is 0: any. Sizes that must relate and are
 * neither proved nor refuted are guarded (hn_sym_require). Errors: internal, with what does not
 * fit. Not for COND, LOOP, ITEM, ASSERT. */
hn_status hn_infer(hn_graph *g, hn_op op, const hn_arg *args, uint32_t arg_count,
                   hn_meta out[HN_RESULTS_MAX], uint32_t *out_count) HN_MUST_USE;

/* Broadcast of two shapes by NumPy's rule into `out`. Of sizes that cannot be proved equal one may
 * be 1 by a guard or by the hints, and is guarded to be; else they are required to be equal
 * (guard). Builders make literal ones of such sizes. */
hn_status hn_broadcast(hn_graph *g, const hn_expr *a, uint32_t a_rank, const hn_expr *b,
                       uint32_t b_rank, hn_expr *out, uint32_t *out_rank) HN_MUST_USE;
/* Equal by proof or by a guard recorded before; asks for nothing new. A literal 1, which
 * broadcasts, is the same as another only. */
bool hn_same_sizes(hn_graph *g, const hn_expr *a, const hn_expr *b, uint32_t rank);
hn_expr hn_numel(hn_graph *g, hn_value v);
/* The primitive arguments of a row as a node sees them: position in args of the parameter `name`;
 * -1 when there is none. */
int hn_op_param_index(hn_op op, const char *name);

#endif
