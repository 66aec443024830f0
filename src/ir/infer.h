/* infer.h: what the inference rules share; internal to src/ir. */
#ifndef HN_IR_INFER_H
#define HN_IR_INFER_H

#include "ir/build.h"
#include "ir/check.h"

/* One question: the arguments, already of the kinds that the row wants, and room for the answer. */
typedef struct hn_infer_state {
    hn_graph *g;
    hn_op op;
    const hn_arg *args;
    hn_meta *out; /* as many as the row has results; out[0] is zeroed */
} hn_infer_state;
typedef hn_status (*hn_infer_rule)(hn_infer_state *in);

static inline const hn_value_info *hn_infer_arg(const hn_infer_state *in, uint32_t arg) {
    return hn_graph_value(in->g, in->args[arg].as.value);
}
static inline bool hn_infer_has(const hn_infer_state *in, uint32_t arg) {
    return in->args[arg].kind != HN_ARG_NONE;
}

void hn_infer_set(hn_meta *out, hn_dtype dtype, uint32_t rank, const hn_expr *sizes);
hn_status hn_infer_const(const hn_infer_state *in, uint32_t arg, int64_t *out) HN_MUST_USE;
/* A dimension in [0, rank). */
hn_status hn_infer_dim(const hn_infer_state *in, uint32_t arg, uint32_t rank,
                       uint32_t *out) HN_MUST_USE;
/* One of the words, NULL-terminated. */
hn_status hn_infer_word(const hn_infer_state *in, uint32_t arg,
                        const char *const *words) HN_MUST_USE;
hn_status hn_infer_same_dtype(const hn_infer_state *in, hn_dtype a, hn_dtype b) HN_MUST_USE;
/* The column "dtypes" of the row. */
hn_status hn_infer_defined(const hn_infer_state *in, hn_dtype dtype) HN_MUST_USE;
hn_status hn_infer_int_dtype(const hn_infer_state *in, hn_dtype dtype,
                             const char *what) HN_MUST_USE;
hn_status hn_infer_relation(const hn_infer_state *in, hn_relation relation, hn_expr a, hn_expr b,
                            const char *what) HN_MUST_USE;
hn_status hn_infer_at_least(const hn_infer_state *in, hn_expr e, int64_t least,
                            const char *what) HN_MUST_USE;
/* The list argument `arg` as the sizes of the result; each at least 0. */
hn_status hn_infer_sizes(const hn_infer_state *in, uint32_t arg, hn_meta *out) HN_MUST_USE;

/* infer_view.c */
hn_status hn_infer_reshape(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_permute(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_expand(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_slice(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_window(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_as_strided(hn_infer_state *in) HN_MUST_USE;
/* infer_data.c */
hn_status hn_infer_pad(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_cat(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_gather(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_index(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_index_put(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_scatter(hn_infer_state *in) HN_MUST_USE;
/* infer_contract.c */
hn_status hn_infer_matmul(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_grouped_matmul(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_conv(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_attention(hn_infer_state *in) HN_MUST_USE;
hn_status hn_infer_attention_backward(hn_infer_state *in) HN_MUST_USE;

#endif
