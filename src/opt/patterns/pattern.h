/* pattern.h: what the patterns share. Internal to src/opt. */
#ifndef HN_OPT_PATTERNS_PATTERN_H
#define HN_OPT_PATTERNS_PATTERN_H

#include "base/map.h"
#include "opt/fold/fold.h"

/* Each row: enum, name in the log. */
#define HN_PATTERNS(X)                                                                             \
    X(ATTENTION, "attention")           /* softmax between two products */                         \
    X(ATTENTION_MASK, "attention_mask") /* masks and heads of an attention made simpler */         \
    X(MATMUL_VIEW, "matmul_view")       /* batches flattened or repeated for nothing */            \
    X(MATMUL_OUTER, "matmul_outer")     /* a product over one element is point-wise */             \
    X(MATMUL_BIAS, "matmul_bias")                                                                  \
    X(CONV_BIAS, "conv_bias")                                                                      \
    X(CONV_SCALE, "conv_scale")     /* a factor for each channel goes into the weight */           \
    X(WEIGHT_TABLE, "weight_table") /* what is computed from weights becomes a table */            \
    X(ONE_HOT, "one_hot")           /* a sum of which one element is not 0 */

typedef enum hn_pattern {
#define X(name, text) HN_PATTERN_##name,
    HN_PATTERNS(X)
#undef X
        HN_PATTERN_COUNT
} hn_pattern;

typedef struct hn_patterns {
    hn_graph *g;
    hn_pass_context *context;
    hn_rewrite rewrite;
    hn_facts facts;
    hn_const_eval eval;
    bool is_nested;      /* a subgraph: it cannot hold constants */
    size_t weight_bytes; /* of weights made by the pass, all graphs together */
    hn_map masks;        /* value -> what is known of it as a mask, see mask.c */
    hn_map tables;       /* value computed from weights -> the table that stands for it, 0: none */
    uint32_t fired[HN_PATTERN_COUNT];
} hn_patterns;

/* Each gives what stands for the first result of the node; 0: it does not match. */
/* attention.c */
hn_status hn_pattern_attention(hn_patterns *p, const hn_node_info *matmul,
                               hn_value *out) HN_MUST_USE;
hn_status hn_pattern_gradient_mask(hn_patterns *p, const hn_node_info *gradient,
                                   hn_value *out) HN_MUST_USE;
hn_status hn_pattern_attention_mask(hn_patterns *p, const hn_node_info *attention,
                                    hn_value *out) HN_MUST_USE;
/* matmul.c */
hn_value hn_pattern_matmul(hn_patterns *p, const hn_node_info *matmul);
hn_value hn_pattern_add(hn_patterns *p, const hn_node_info *add);
/* one_hot.c */
hn_value hn_pattern_one_hot(hn_patterns *p, const hn_node_info *sum);
/* conv.c */
hn_status hn_pattern_channels(hn_patterns *p, const hn_node_info *node, hn_value *out) HN_MUST_USE;

/* --- masks (mask.c) --- */

enum { HN_MAX_MASKS = 8 };

/* The masks that scores pass through on their way to a softmax. */
typedef struct hn_masks {
    struct hn_mask_term {
        /* bool: true keeps the score (false, when negated); float: is added to it */
        hn_value value;
        bool is_negated;
        double fill; /* bool: what stands in place of a score that is not kept */
    } terms[HN_MAX_MASKS];
    uint32_t count;
} hn_masks;

typedef struct hn_mask_plan {
    bool causal;
    hn_value mask; /* for ATTENTION; 0: none */
    /* bool, [.., m or 1, 1]: rows with a key left. 0: all of them, or nobody asks */
    hn_value alive;
} hn_mask_plan;

/* Brings the masks of scores of the sizes [batch.., m, n] into the form that ATTENTION takes.
 * `ask_alive`: rows without a key are NaN in the program and 0 in ATTENTION. False when that cannot
 * be said by ATTENTION. */
hn_status hn_masks_plan(hn_patterns *p, const hn_masks *masks, const hn_expr *sizes, uint32_t rank,
                        bool ask_alive, hn_mask_plan *out, bool *out_done) HN_MUST_USE;

/* --- looking --- */

/* Whether the only reader of `v` is the one the pattern came from. */
static inline bool hn_read_once(const hn_patterns *p, hn_value v) {
    return hn_rewrite_uses(&p->rewrite, v) == 1;
}
static inline const hn_value_info *hn_info(const hn_patterns *p, hn_value v) {
    return hn_graph_value(p->g, v);
}
static inline hn_expr hn_last_size(const hn_patterns *p, hn_value v, uint32_t from_end) {
    const hn_value_info *info = hn_graph_value(p->g, v);
    return info->sizes[info->rank - 1 - from_end];
}
bool hn_in_memory(const hn_patterns *p, hn_value v); /* a bias that a call can read as it is */
/* Whether the last `count` sizes are the same. */
bool hn_same_tail(const hn_patterns *p, hn_value a, hn_value b, uint32_t count);
/* "op(x, number)" with the number on either side for MUL and ADD; 0 when not so. */
hn_value hn_by_number(const hn_patterns *p, hn_value v, hn_op op, double *out_number);

#endif
