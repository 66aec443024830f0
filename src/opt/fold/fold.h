/* fold.h: what constant folding and the patterns share: facts about values, views that simplify as
 * they are built, and the evaluation of constant parts. Internal to src/opt. */
#ifndef HN_OPT_FOLD_FOLD_H
#define HN_OPT_FOLD_FOLD_H

#include "ir/interp.h"
#include "opt/pass.h"
#include "opt/rewrite.h"

/* Tables made by a pass are at most so large; so are the constants that are looked into. */
#define HN_FOLD_TABLE_BYTES ((size_t)64 << 10)

/* --- facts about values (facts.c) --- */

/* An integer tensor whose element at (i0, i1..) is base + sum(coeff[k] * i_k), without wrapping
 * around. */
typedef struct hn_affine {
    hn_expr base;
    int64_t coeff[HN_MAX_RANK];
} hn_affine;

typedef enum hn_constness {
    HN_NOT_CONST,
    HN_CONST_WEIGHT, /* computed from numbers and from parameters, buffers or large constants */
    HN_CONST_NUMBER  /* computed from numbers and small constants */
} hn_constness;

typedef struct hn_value_facts {
    hn_affine *affine; /* NULL: unknown */
    hn_constness constness;
    /* point-wise ops behind a CONST_NUMBER, each as often as it is read; saturates */
    uint32_t ops;
    bool is_table;  /* a small constant in memory, or a view of one */
    uint32_t input; /* 1 + index of the graph input that the value is */
} hn_value_facts;

typedef struct hn_facts {
    hn_graph *g;
    hn_arena *arena;
    uint32_t next_node, next_input; /* not looked at yet */
    struct {
        hn_value_facts *items;
        uint32_t count, cap;
    } values;
    uint8_t *is_mutated; /* by input */
    uint32_t input_count;
} hn_facts;

hn_status hn_facts_init(hn_facts *facts, hn_graph *graph, hn_arena *arena) HN_MUST_USE;
/* Learns the nodes and inputs that were added since. */
hn_status hn_facts_update(hn_facts *facts) HN_MUST_USE;
static inline const hn_affine *hn_facts_affine(const hn_facts *facts, hn_value v) {
    return v < facts->values.count ? facts->values.items[v].affine : NULL;
}
static inline hn_constness hn_facts_constness(const hn_facts *facts, hn_value v) {
    return v < facts->values.count ? facts->values.items[v].constness : HN_NOT_CONST;
}
static inline bool hn_facts_is_table(const hn_facts *facts, hn_value v) {
    return v < facts->values.count && facts->values.items[v].is_table;
}
/* The input of kind PARAMETER, BUFFER or CONSTANT that `v` is, with bytes and never written to;
 * NULL otherwise. */
const hn_input *hn_facts_stored(const hn_facts *facts, hn_value v);
/* Of the first result of a node whose operands are in the graph; it need not be itself. */
bool hn_facts_node_affine(const hn_facts *facts, const hn_node_info *node, hn_affine *out);
hn_constness hn_facts_node_constness(const hn_facts *facts, const hn_node_info *node);
uint32_t hn_facts_node_ops(const hn_facts *facts, const hn_node_info *node);
/* The single dim with a coefficient, or -1 when there is none, or -2 for several. */
int hn_affine_dim(const hn_affine *affine, uint32_t rank);
/* Smallest and largest element of a tensor of these sizes, unless it is empty. False when
 * unknown. */
bool hn_affine_bounds(hn_sym *sym, const hn_affine *affine, const hn_expr *sizes, uint32_t rank,
                      hn_expr *out_lo, hn_expr *out_hi);
/* out = a - b, broadcast to `rank`; both of one integer dtype. */
bool hn_affine_difference(const hn_facts *facts, hn_value a, hn_value b, uint32_t rank,
                          hn_affine *out);

/* Whether every element of `v` is one known number. */
bool hn_uniform(const hn_graph *g, hn_value v, hn_ref_elem *out);
/* The same as a double; integers beyond 2^53 are refused. */
bool hn_uniform_number(const hn_graph *g, hn_value v, double *out);
hn_value hn_full_like(hn_graph *g, hn_ref_elem value, const hn_value_info *like);

/* --- views that simplify as they are built (view.c): the results are as those of hn_b_* --- */

hn_value hn_v_reshape(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank);
hn_value hn_v_permute(hn_graph *g, hn_value x, const uint32_t *dims);
hn_value hn_v_transpose(hn_graph *g, hn_value x, uint32_t dim0, uint32_t dim1);
hn_value hn_v_expand(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank);
hn_value hn_v_slice(hn_graph *g, hn_value x, uint32_t dim, hn_expr start, hn_expr size,
                    int64_t step);
/* What stands for the first result of a VIEW node; 0: itself. */
hn_value hn_fold_view(hn_graph *g, const hn_node_info *node);
bool hn_permute_dims(const hn_graph *g, const hn_node_info *permute, uint32_t dims[HN_MAX_RANK]);
bool hn_size_is(const hn_graph *g, hn_expr e, int64_t value);

/* --- evaluation (const.c) --- */

typedef struct hn_const_eval {
    const hn_facts *facts;
    hn_arena *scratch;
    hn_sym *sym;       /* of the graphs that are interpreted */
    int64_t work_left; /* scalar operations that may still be spent */
} hn_const_eval;

hn_status hn_const_eval_init(hn_const_eval *e, const hn_facts *facts,
                             hn_arena *scratch) HN_MUST_USE;
/* Results of a node whose operands are at least `least` constant. `*out_done` is false when that is
 * not so, when it would be too much work, or when the evaluation fails (an index out of range: to
 * be reported at run time).
 * Owns: in the scratch arena. */
hn_status hn_const_eval_node(hn_const_eval *e, const hn_node_info *node, hn_constness least,
                             hn_ref_tensor out[2], bool *out_done) HN_MUST_USE;
/* The elements of a value. */
hn_status hn_const_eval_value(hn_const_eval *e, hn_value v, hn_constness least, hn_ref_tensor *out,
                              bool *out_done) HN_MUST_USE;
/* The tensor as a value of the graph: FULL when uniform, IOTA when that says it all, else a
 * constant. */
hn_status hn_const_place(const hn_facts *facts, const hn_ref_tensor *tensor, bool allow_table,
                         hn_value *out) HN_MUST_USE;

/* --- the pass --- */

typedef struct hn_fold {
    hn_graph *g;
    hn_pass_context *context;
    hn_rewrite rewrite;
    hn_facts facts;
    hn_const_eval eval;
    bool is_nested; /* a subgraph: it cannot hold constants */
} hn_fold;

/* What stands for the first result of the current node; 0: nothing better. */
hn_value hn_fold_elementwise(hn_fold *f, const hn_node_info *node); /* elementwise.c */
hn_value hn_fold_cast(hn_fold *f, const hn_node_info *node);        /* cast.c */
hn_value hn_fold_affine(hn_fold *f, const hn_node_info *node);      /* index.c */
hn_value hn_fold_index(hn_fold *f, const hn_node_info *node);
hn_value hn_fold_gather(hn_fold *f, const hn_node_info *node);
hn_value hn_fold_reduce(hn_fold *f, const hn_node_info *node); /* data.c */
hn_value hn_fold_scan(hn_fold *f, const hn_node_info *node);
hn_value hn_fold_cat(hn_fold *f, const hn_node_info *node);
hn_value hn_fold_pad(hn_fold *f, const hn_node_info *node);

static inline const hn_value_info *hn_fold_result(const hn_fold *f, const hn_node_info *node) {
    return hn_graph_value(f->g, node->results[0]);
}

#endif
