/* interp_impl.h: what the files of the reference interpreter share. Private to src/ir/interp*.c. */
#ifndef HN_IR_INTERP_IMPL_H
#define HN_IR_INTERP_IMPL_H

#include "ir/build.h"
#include "ir/interp.h"

#include <math.h>

/* --- tensors on the heap (interp_tensor.c) --- */

/* Owns: `out->data` is malloc'ed; hn_ref_free releases it. */
hn_status hn_ref_alloc(hn_dtype dtype, uint32_t rank, const int64_t *sizes,
                       hn_ref_tensor *out) HN_MUST_USE;
void hn_ref_free(hn_ref_tensor *tensor);
/* Product of sizes. Errors: invalid-argument when a size is negative or the product is out of
 * reach. */
hn_status hn_ref_numel(uint32_t rank, const int64_t *sizes, int64_t *out) HN_MUST_USE;
/* What the dtype can hold: nearest even for floats, two's complement for ints, != 0 for bools. */
double hn_ref_round_f(hn_dtype dtype, double value);
int64_t hn_ref_narrow_i(hn_dtype dtype, int64_t value);
void hn_ref_round(hn_ref_tensor *tensor);
/* Fills an allocated tensor from memory; `strides` in elements, NULL: contiguous. */
void hn_ref_read(hn_ref_tensor *tensor, const int64_t *strides, const uint8_t *bytes);
/* "[2, 3]" */
void hn_ref_sizes_print(uint32_t rank, const int64_t *sizes, hn_strbuf *out);

static inline bool hn_ref_is_float(const hn_ref_tensor *t) { return hn_dtype_is_float(t->dtype); }

static inline hn_ref_elem hn_ref_get(const hn_ref_tensor *t, int64_t at) {
    return hn_ref_is_float(t) ? (hn_ref_elem){.f = t->data.f[at]}
                              : (hn_ref_elem){.i = t->data.i[at]};
}

static inline void hn_ref_set(hn_ref_tensor *t, int64_t at, hn_ref_elem e) {
    if (hn_ref_is_float(t)) t->data.f[at] = e.f;
    else t->data.i[at] = e.i;
}

/* Element `from` of `src`, of the same dtype, to `to` of `dst`. */
static inline void hn_ref_move(hn_ref_tensor *dst, int64_t to, const hn_ref_tensor *src,
                               int64_t from) {
    hn_ref_set(dst, to, hn_ref_get(src, from));
}

/* Steps `coord` to the next in row-major order; back to zeros after the last. */
static inline void hn_ref_next(int64_t *coord, const int64_t *sizes, uint32_t rank) {
    for (uint32_t d = rank; d-- > 0;) {
        if (++coord[d] < sizes[d]) return;
        coord[d] = 0;
    }
}

/* Position of a coordinate of t's own rank. */
static inline int64_t hn_ref_offset(const hn_ref_tensor *t, const int64_t *coord) {
    int64_t at = 0;
    for (uint32_t d = 0; d < t->rank; d++) at = at * t->sizes[d] + coord[d];
    return at;
}

/* Position of a coordinate of a result of `rank` dims to which `t` broadcasts. */
static inline int64_t hn_ref_offset_broadcast(const hn_ref_tensor *t, const int64_t *coord,
                                              uint32_t rank) {
    int64_t at = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        at = at * t->sizes[d] + (t->sizes[d] == 1 ? 0 : coord[rank - t->rank + d]);
    return at;
}

/* --- symbols (interp_bind.c) --- */

typedef struct hn_ref_bindings {
    hn_arena *arena;
    hn_sym *sym;
    struct {
        hn_expr *items;
        uint32_t count, cap;
    } symbols;
    struct {
        int64_t *items;
        uint32_t count, cap;
    } values; /* of symbols.items[k] */
} hn_ref_bindings;

/* Errors: invalid-argument, naming the symbol that has no value, or the overflow. */
hn_status hn_ref_eval(const hn_ref_bindings *bindings, hn_expr e, int64_t *out) HN_MUST_USE;
hn_status hn_ref_eval_sizes(const hn_ref_bindings *bindings, uint32_t rank, const hn_expr *sizes,
                            int64_t *out) HN_MUST_USE;
/* Makes `e` have `value`: binds a symbol without one, else checks. Checks the symbol's range.
 * `what` begins the message. */
hn_status hn_ref_bind(hn_ref_bindings *bindings, hn_expr e, int64_t value,
                      const char *what) HN_MUST_USE;
/* The symbol has no value: that of a round of a loop ends with it. */
void hn_ref_unbind(hn_ref_bindings *bindings, hn_expr symbol);
/* Checks the guards that can be evaluated and, when `symbol` is not 0, mention it. */
hn_status hn_ref_check_guards(const hn_ref_bindings *bindings, hn_expr symbol) HN_MUST_USE;
/* Checks the USER inputs of `graph` against `inputs` and binds its size symbols. */
hn_status hn_ref_bind_inputs(hn_ref_bindings *bindings, hn_graph *graph,
                             const hn_ref_tensor *const *inputs, uint32_t input_count) HN_MUST_USE;

/* --- a run of one graph (interp.c) --- */

typedef struct hn_ref_slot {
    hn_ref_tensor tensor;
    uint32_t last_use; /* node after which nobody reads the value; UINT32_MAX: a graph output */
    uint32_t input;    /* 1 + index of the graph input that gives the value; 0: a node does */
    bool full;
} hn_ref_slot;

typedef struct hn_ref_run {
    hn_graph *graph;
    hn_arena *arena;   /* small things that live as long as the run */
    hn_arena *scratch; /* reset after each node */
    hn_ref_bindings *bindings;
    hn_ref_slot *slots;       /* by value */
    hn_ref_tensor absent[2];  /* results that the graph does not name */
    const hn_node_info *node; /* being executed */
    hn_node node_id;
    uint32_t depth; /* of nested graphs */
} hn_ref_run;

typedef hn_status (*hn_ref_fn)(hn_ref_run *run);

hn_status hn_ref_run_init(hn_ref_run *run, hn_arena *arena, hn_arena *scratch, hn_graph *graph,
                          uint32_t depth) HN_MUST_USE;
hn_status hn_ref_run_nodes(hn_ref_run *run, const hn_ref_tensor *const *inputs,
                           uint32_t input_count) HN_MUST_USE;
/* Borrowed until the run's end. A scalar value is a rank 0 tensor of I64, F64 or BOOL. */
hn_status hn_ref_run_value(hn_ref_run *run, hn_value value, const hn_ref_tensor **out) HN_MUST_USE;
void hn_ref_run_deinit(hn_ref_run *run);

/* --- arguments of the node being executed, by the names of its row (interp_args.c) --- */

hn_status hn_ref_arg_tensor(hn_ref_run *run, const char *name,
                            const hn_ref_tensor **out) HN_MUST_USE;
hn_status hn_ref_arg_optional(hn_ref_run *run, const char *name,
                              const hn_ref_tensor **out) HN_MUST_USE; /* NULL when absent */
hn_status hn_ref_arg_tensors(hn_ref_run *run, const char *name, const hn_ref_tensor ***out,
                             uint32_t *out_count) HN_MUST_USE;
hn_status hn_ref_arg_int(hn_ref_run *run, const char *name, int64_t *out) HN_MUST_USE;
hn_status hn_ref_arg_ints(hn_ref_run *run, const char *name, int64_t out[HN_MAX_RANK],
                          uint32_t *out_count) HN_MUST_USE;
/* Exactly `count` of them. */
hn_status hn_ref_arg_ints_n(hn_ref_run *run, const char *name, int64_t out[HN_MAX_RANK],
                            uint32_t count) HN_MUST_USE;
/* 0 <= dim < rank */
hn_status hn_ref_arg_dim(hn_ref_run *run, const char *name, uint32_t rank,
                         uint32_t *out) HN_MUST_USE;
hn_status hn_ref_arg_float(hn_ref_run *run, const char *name, double *out) HN_MUST_USE;
hn_status hn_ref_arg_bool(hn_ref_run *run, const char *name, bool *out) HN_MUST_USE;
hn_status hn_ref_arg_string(hn_ref_run *run, const char *name, hn_str *out) HN_MUST_USE;
hn_status hn_ref_arg_dtype(hn_ref_run *run, const char *name, hn_dtype *out) HN_MUST_USE;
hn_status hn_ref_arg_graph(hn_ref_run *run, const char *name, hn_graph **out) HN_MUST_USE;
/* A number as an element of `dtype`, rounded or wrapped by the rules of CAST. */
hn_status hn_ref_arg_scalar(hn_ref_run *run, const char *name, hn_dtype dtype,
                            hn_ref_elem *out) HN_MUST_USE;

/* The recorded dtype of result k; `fallback` when the graph does not name the result. */
hn_dtype hn_ref_result_dtype(const hn_ref_run *run, uint32_t k, hn_dtype fallback);
/* Result k, zeroed. The op computes sizes by itself; here they are checked against the recorded
 * ones. Whatever the op writes is rounded to the dtype after it returns. Errors: internal when they
 * differ. */
hn_status hn_ref_result(hn_ref_run *run, uint32_t k, hn_dtype dtype, uint32_t rank,
                        const int64_t *sizes, hn_ref_tensor **out) HN_MUST_USE;

/* Operand dtypes that a row needs. Errors: internal, naming the argument. */
hn_status hn_ref_need_int(const hn_ref_tensor *t, const char *name) HN_MUST_USE;
hn_status hn_ref_need_dtype(const hn_ref_tensor *t, hn_dtype dtype, const char *name) HN_MUST_USE;

/* --- element-wise --- */

hn_status hn_ref_run_elementwise(hn_ref_run *run) HN_MUST_USE;
/* CAST of one element. */
hn_ref_elem hn_ref_cast(hn_ref_elem e, hn_dtype from, hn_dtype to);
double hn_ref_erfinv(double x);
double hn_ref_digamma(double x);
double hn_ref_zeta(double x, double q);

/* NumPy's rule. Errors: internal when the shapes do not broadcast. */
hn_status hn_ref_broadcast(const hn_ref_tensor *const *xs, uint32_t count, uint32_t *out_rank,
                           int64_t *out_sizes) HN_MUST_USE;
/* Whether `x` broadcasts to the given shape. */
bool hn_ref_broadcasts_to(const hn_ref_tensor *x, uint32_t rank, const int64_t *sizes);

/* --- one function a row, in the file that is named after the class --- */

hn_status hn_ref_full(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_iota(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_random(hn_ref_run *run) HN_MUST_USE;

hn_status hn_ref_reshape(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_permute(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_expand(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_slice(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_window(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_as_strided(hn_ref_run *run) HN_MUST_USE;

hn_status hn_ref_pad(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_cat(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_gather(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_index(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_index_put(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_scatter(hn_ref_run *run) HN_MUST_USE;

hn_status hn_ref_reduce(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_scan(hn_ref_run *run) HN_MUST_USE;

hn_status hn_ref_sort(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_topk(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_nms(hn_ref_run *run) HN_MUST_USE;

hn_status hn_ref_matmul(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_grouped_matmul(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_conv(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_attention(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_attention_backward(hn_ref_run *run) HN_MUST_USE;

hn_status hn_ref_nonzero(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_item(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_cond(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_loop(hn_ref_run *run) HN_MUST_USE;
hn_status hn_ref_assert(hn_ref_run *run) HN_MUST_USE;

#endif
