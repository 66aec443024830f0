/* facts.c: what is known of values: which integer tensors are affine in their coordinates, and
 * which values are computed from constants alone.
 *
 * Positions and causal masks are made of iota, cat, differences and comparisons. As sums over
 * coordinates they stay exact for symbolic sizes, where a table of elements is not to be had. One
 * look at each node, in order. */
#include "opt/fold/fold.h"

#include "base/checked.h"

#include <string.h>

/* Constants beyond these are left alone, so that no sum of products can overflow. */
#define MAX_FACTOR ((int64_t)1 << 20)
#define MAX_NUMBER ((int64_t)1 << 40)

/* --- numbers --- */

bool hn_size_is(const hn_graph *g, hn_expr e, int64_t value) {
    return hn_sym_is_value(g->sym, e, value);
}

bool hn_uniform(const hn_graph *g, hn_value v, hn_ref_elem *out) {
    const hn_node_info *full = hn_made_by(g, v, HN_OP_FULL);
    if (!full) return false;
    const hn_arg *value = &full->args[0];
    hn_dtype dtype = hn_graph_value(g, v)->dtype;
    hn_ref_elem e;
    if (value->kind == HN_ARG_FLOAT) {
        e.f = value->as.f;
        return hn_ref_apply(HN_OP_CAST, HN_DTYPE_F64, dtype, &e, out);
    }
    e.i = value->kind == HN_ARG_BOOL ? value->as.b : 0;
    if (value->kind != HN_ARG_BOOL && !hn_sym_is_int(g->sym, value->as.expr, &e.i)) return false;
    return hn_ref_apply(HN_OP_CAST, HN_DTYPE_I64, dtype, &e, out);
}

bool hn_uniform_number(const hn_graph *g, hn_value v, double *out) {
    hn_ref_elem e;
    if (!hn_uniform(g, v, &e)) return false;
    if (hn_dtype_is_float(hn_graph_value(g, v)->dtype)) {
        *out = e.f;
        return true;
    }
    *out = (double)e.i;
    return e.i >= -(1ll << 53) && e.i <= 1ll << 53;
}

hn_value hn_full_like(hn_graph *g, hn_ref_elem value, const hn_value_info *like) {
    hn_scalar s = hn_dtype_is_float(like->dtype) ? hn_scalar_f(value.f)
                                                 : hn_scalar_i(hn_sym_int(g->sym, value.i));
    return hn_b_full(g, s, like->sizes, like->rank, like->dtype);
}

/* --- affine arithmetic --- */

static bool is_moderate(const hn_sym *sym, hn_expr e) {
    if (!e) return false;
    hn_sum sum = hn_sym_sum(sym, e);
    bool fits = sum.constant >= -MAX_NUMBER && sum.constant <= MAX_NUMBER;
    for (uint32_t k = 0; k < sum.count; k++)
        fits &= sum.coeffs[k] >= -MAX_NUMBER && sum.coeffs[k] <= MAX_NUMBER;
    return fits;
}

static bool is_factor(int64_t c) { return c >= -MAX_FACTOR && c <= MAX_FACTOR; }

/* a + scale * b */
static bool combine(const hn_facts *f, const hn_affine *a, const hn_affine *b, int64_t scale,
                    uint32_t rank, hn_affine *out) {
    hn_sym *sym = f->g->sym;
    if (!is_factor(scale)) return false;
    out->base = hn_sym_add(sym, a->base, hn_sym_mul(sym, hn_sym_int(sym, scale), b->base));
    for (uint32_t k = 0; k < rank; k++) {
        out->coeff[k] = a->coeff[k] + scale * b->coeff[k];
        if (!is_factor(out->coeff[k])) return false;
    }
    return is_moderate(f->g->sym, out->base);
}

int hn_affine_dim(const hn_affine *a, uint32_t rank) {
    int dim = -1;
    for (uint32_t k = 0; k < rank; k++) {
        if (!a->coeff[k]) continue;
        if (dim != -1) return -2;
        dim = (int)k;
    }
    return dim;
}

bool hn_affine_bounds(hn_sym *sym, const hn_affine *a, const hn_expr *sizes, uint32_t rank,
                      hn_expr *out_lo, hn_expr *out_hi) {
    hn_expr one = hn_sym_int(sym, 1);
    *out_lo = *out_hi = a->base;
    for (uint32_t k = 0; k < rank; k++) {
        if (!a->coeff[k]) continue;
        if (!is_moderate(sym, sizes[k])) return false;
        hn_expr reach =
            hn_sym_mul(sym, hn_sym_int(sym, a->coeff[k]), hn_sym_sub(sym, sizes[k], one));
        hn_expr *end = a->coeff[k] > 0 ? out_hi : out_lo;
        *end = hn_sym_add(sym, *end, reach);
    }
    return *out_lo && *out_hi;
}

/* Whether the numbers fit the dtype, so that nothing wraps. Sizes are below 2^62, so i64 holds
 * every moderate sum. */
static bool fits_dtype(const hn_facts *f, const hn_affine *a, const hn_value_info *info) {
    if (info->dtype == HN_DTYPE_I64) return true;
    hn_expr lo, hi;
    int64_t low, high, unused, bits = hn_dtype_facts(info->dtype)->size_bytes * 8;
    if (!hn_affine_bounds(f->g->sym, a, info->sizes, info->rank, &lo, &hi)) return false;
    hn_sym_range(f->g->sym, lo, &low, &unused);
    hn_sym_range(f->g->sym, hi, &unused, &high);
    if (info->dtype == HN_DTYPE_U8) return low >= 0 && high <= 255;
    return low >= -((int64_t)1 << (bits - 1)) && high < (int64_t)1 << (bits - 1);
}

/* `v` seen as an operand of an element-wise op of rank `rank`. */
static bool broadcast_affine(const hn_facts *f, hn_value v, uint32_t rank, hn_affine *out) {
    const hn_affine *a = hn_facts_affine(f, v);
    const hn_value_info *info = hn_graph_value(f->g, v);
    if (!a || info->rank > rank) return false;
    *out = (hn_affine){.base = a->base};
    /* a size of 1 has one coordinate, 0, which says nothing about the others it broadcasts to */
    for (uint32_t k = 0; k < info->rank; k++)
        out->coeff[rank - info->rank + k] = hn_size_is(f->g, info->sizes[k], 1) ? 0 : a->coeff[k];
    return true;
}

bool hn_affine_difference(const hn_facts *f, hn_value a, hn_value b, uint32_t rank,
                          hn_affine *out) {
    hn_affine x, y;
    if (!broadcast_affine(f, a, rank, &x) || !broadcast_affine(f, b, rank, &y)) return false;
    return combine(f, &x, &y, -1, rank, out);
}

/* --- affine results, one function a form of node --- */

static bool scalar_expr(const hn_facts *f, const hn_arg *arg, hn_expr *out) {
    if (arg->kind != HN_ARG_INT) return false;
    *out = arg->as.expr;
    return is_moderate(f->g->sym, *out);
}

static bool affine_full(const hn_facts *f, const hn_node_info *n, hn_affine *out) {
    return scalar_expr(f, &n->args[0], &out->base);
}

static bool affine_iota(const hn_facts *f, const hn_node_info *n, hn_affine *out) {
    hn_expr step;
    return scalar_expr(f, &n->args[0], &out->base) && scalar_expr(f, &n->args[1], &step) &&
           hn_sym_is_int(f->g->sym, step, &out->coeff[0]) && is_factor(out->coeff[0]);
}

static bool affine_sum(const hn_facts *f, const hn_node_info *n, uint32_t rank, hn_affine *out) {
    hn_affine x, y;
    return broadcast_affine(f, n->args[0].as.value, rank, &x) &&
           broadcast_affine(f, n->args[1].as.value, rank, &y) &&
           combine(f, &x, &y, n->op == HN_OP_ADD ? 1 : -1, rank, out);
}

static bool affine_product(const hn_facts *f, const hn_node_info *n, uint32_t rank,
                           hn_affine *out) {
    hn_ref_elem e;
    hn_affine x, zero = {.base = hn_sym_int(f->g->sym, 0)};
    for (uint32_t k = 0; k < 2; k++)
        if (hn_uniform(f->g, n->args[k].as.value, &e))
            return broadcast_affine(f, n->args[1 - k].as.value, rank, &x) &&
                   combine(f, &zero, &x, e.i, rank, out);
    return false;
}

static bool affine_negation(const hn_facts *f, const hn_node_info *n, uint32_t rank,
                            hn_affine *out) {
    hn_affine zero = {.base = hn_sym_int(f->g->sym, 0)};
    const hn_affine *x = hn_facts_affine(f, n->args[0].as.value);
    return x && combine(f, &zero, x, -1, rank, out);
}

/* Dims with a coefficient must come through a reshape whole: the same size at the same place among
 * the others. */
static bool affine_reshape(const hn_facts *f, const hn_node_info *n, const hn_value_info *to,
                           hn_affine *out) {
    const hn_affine *a = hn_facts_affine(f, n->args[0].as.value);
    const hn_value_info *from = hn_graph_value(f->g, n->args[0].as.value);
    uint32_t i = 0, k = 0;
    if (!a) return false;
    out->base = a->base;
    if (hn_affine_dim(a, from->rank) == -1) return true;
    while (i < from->rank || k < to->rank) {
        bool from_one = i < from->rank && hn_size_is(f->g, from->sizes[i], 1);
        bool to_one = k < to->rank && hn_size_is(f->g, to->sizes[k], 1);
        if (from_one) i++;
        else if (to_one) k++;
        else if (i < from->rank && k < to->rank && from->sizes[i] == to->sizes[k])
            out->coeff[k++] = a->coeff[i++];
        else return false;
    }
    return true;
}

static bool affine_permute(const hn_facts *f, const hn_node_info *n, hn_affine *out) {
    const hn_affine *a = hn_facts_affine(f, n->args[0].as.value);
    uint32_t dims[HN_MAX_RANK];
    if (!a || !hn_permute_dims(f->g, n, dims)) return false;
    out->base = a->base;
    for (uint32_t k = 0; k < n->args[1].count; k++) out->coeff[k] = a->coeff[dims[k]];
    return true;
}

static bool affine_slice(const hn_facts *f, const hn_node_info *n, uint32_t rank, hn_affine *out) {
    const hn_affine *a = hn_facts_affine(f, n->args[0].as.value);
    hn_sym *sym = f->g->sym;
    int64_t dim, step;
    if (!a || !hn_sym_is_int(sym, n->args[1].as.expr, &dim) ||
        !hn_sym_is_int(sym, n->args[4].as.expr, &step))
        return false;
    if (dim < 0 || dim >= rank || !is_factor(step) || !is_moderate(f->g->sym, n->args[2].as.expr))
        return false;
    *out = *a;
    out->base = hn_sym_add(sym, a->base,
                           hn_sym_mul(sym, hn_sym_int(sym, a->coeff[dim]), n->args[2].as.expr));
    out->coeff[dim] *= step;
    return is_factor(out->coeff[dim]) && is_moderate(f->g->sym, out->base);
}

/* Piece by piece along one dim: each must go on where the others would be at its place. A piece of
 * size 1 has no slope of its own. */
/* What members that have more than one element along `dim` grow by there. Two single elements: what
 * lies between them.
 * False: members differ, or one is not affine. */
static bool cat_slope(const hn_facts *f, const hn_arg *xs, int64_t dim, int64_t *out) {
    bool has_slope = false;
    *out = 0;
    for (uint32_t k = 0; k < xs->count; k++) {
        const hn_affine *a = hn_facts_affine(f, xs->as.values[k]);
        if (!a) return false;
        if (hn_size_is(f->g, hn_graph_value(f->g, xs->as.values[k])->sizes[dim], 1)) continue;
        if (has_slope && a->coeff[dim] != *out) return false;
        *out = a->coeff[dim];
        has_slope = true;
    }
    if (has_slope || xs->count != 2) return true;
    hn_sym *sym = f->g->sym;
    const hn_affine *a = hn_facts_affine(f, xs->as.values[0]),
                    *b = hn_facts_affine(f, xs->as.values[1]);
    return hn_sym_is_int(sym, hn_sym_sub(sym, b->base, a->base), out) && is_factor(*out);
}

/* Whether a member that begins at `start`, its base less what comes before, continues `first`. */
static bool continues(const hn_affine *first, const hn_affine *a, hn_expr start, uint32_t rank,
                      int64_t dim) {
    for (uint32_t j = 0; j < rank; j++)
        if ((int64_t)j != dim && a->coeff[j] != first->coeff[j]) return false;
    return start == first->base;
}

static bool affine_cat(const hn_facts *f, const hn_node_info *n, uint32_t rank, hn_affine *out) {
    hn_sym *sym = f->g->sym;
    const hn_arg *xs = &n->args[0];
    int64_t dim, slope;
    if (!hn_sym_is_int(sym, n->args[1].as.expr, &dim) || dim < 0 || dim >= rank) return false;
    if (!cat_slope(f, xs, dim, &slope)) return false;
    hn_expr at = hn_sym_int(sym, 0);
    for (uint32_t k = 0; k < xs->count; k++) {
        const hn_affine *a = hn_facts_affine(f, xs->as.values[k]);
        hn_expr start = hn_sym_sub(sym, a->base, hn_sym_mul(sym, hn_sym_int(sym, slope), at));
        if (k == 0) {
            *out = *a;
            out->base = start;
            out->coeff[dim] = slope;
        }
        if (!continues(out, a, start, rank, dim)) return false;
        at = hn_sym_add(sym, at, hn_graph_value(f->g, xs->as.values[k])->sizes[dim]);
        if (!is_moderate(sym, at)) return false;
    }
    return is_moderate(sym, out->base);
}

static bool affine_form(const hn_facts *f, const hn_node_info *n, const hn_value_info *info,
                        hn_affine *out) {
    switch (n->op) {
    case HN_OP_FULL: return affine_full(f, n, out);
    case HN_OP_IOTA: return affine_iota(f, n, out);
    case HN_OP_ADD:
    case HN_OP_SUB: return affine_sum(f, n, info->rank, out);
    case HN_OP_MUL: return affine_product(f, n, info->rank, out);
    case HN_OP_NEG: return affine_negation(f, n, info->rank, out);
    case HN_OP_CAST:
        return hn_dtype_is_int(hn_graph_value(f->g, n->args[0].as.value)->dtype) &&
               broadcast_affine(f, n->args[0].as.value, info->rank, out);
    case HN_OP_EXPAND: return broadcast_affine(f, n->args[0].as.value, info->rank, out);
    case HN_OP_RESHAPE: return affine_reshape(f, n, info, out);
    case HN_OP_PERMUTE: return affine_permute(f, n, out);
    case HN_OP_SLICE: return affine_slice(f, n, info->rank, out);
    case HN_OP_CAT: return affine_cat(f, n, info->rank, out);
    default: return false;
    }
}

bool hn_facts_node_affine(const hn_facts *f, const hn_node_info *n, hn_affine *out) {
    if (n->result_count != 1 || !n->results[0]) return false;
    const hn_value_info *info = hn_graph_value(f->g, n->results[0]);
    *out = (hn_affine){0};
    if (info->kind != HN_VALUE_TENSOR || !hn_dtype_is_int(info->dtype)) return false;
    if (!affine_form(f, n, info, out)) return false;
    for (uint32_t k = 0; k < info->rank; k++) /* one spelling for each tensor */
        if (hn_size_is(f->g, info->sizes[k], 1)) out->coeff[k] = 0;
    return fits_dtype(f, out, info);
}

/* --- constness --- */

typedef struct const_walk {
    const hn_facts *facts;
    hn_constness least;
} const_walk;

static void visit_constness(void *user, hn_value v) {
    const_walk *w = user;
    hn_constness c = hn_facts_constness(w->facts, v);
    if (c < w->least) w->least = c;
}

hn_constness hn_facts_node_constness(const hn_facts *f, const hn_node_info *n) {
    if (hn_op_is_aten(n->op) || hn_op_facts(n->op)->purity != HN_PURITY_PURE) return HN_NOT_CONST;
    for (uint32_t k = 0; k < n->result_count; k++) {
        if (!n->results[k]) continue;
        const hn_value_info *info = hn_graph_value(f->g, n->results[k]);
        if (info->kind != HN_VALUE_TENSOR) return HN_NOT_CONST;
        for (uint32_t d = 0; d < info->rank; d++)
            if (!hn_sym_is_int(f->g->sym, info->sizes[d], NULL)) return HN_NOT_CONST;
    }
    for (uint32_t k = 0; k < n->arg_count; k++) {
        const hn_arg *arg = &n->args[k];
        if (arg->kind == HN_ARG_GRAPH) return HN_NOT_CONST;
        if (arg->kind == HN_ARG_INT && !hn_sym_is_int(f->g->sym, arg->as.expr, NULL))
            return HN_NOT_CONST;
        for (uint32_t i = 0; arg->kind == HN_ARG_INTS && i < arg->count; i++)
            if (!hn_sym_is_int(f->g->sym, arg->as.exprs[i], NULL)) return HN_NOT_CONST;
    }
    const_walk w = {.facts = f, .least = HN_CONST_NUMBER};
    hn_node_each_value(n, visit_constness, &w);
    return w.least;
}

/* --- inputs --- */

const hn_input *hn_facts_stored(const hn_facts *f, hn_value v) {
    uint32_t index = v < f->values.count ? f->values.items[v].input : 0;
    if (!index) return NULL;
    const hn_input *in = &f->g->inputs.items[index - 1];
    if (in->kind != HN_INPUT_PARAMETER && in->kind != HN_INPUT_BUFFER &&
        in->kind != HN_INPUT_CONSTANT)
        return NULL;
    if (index - 1 < f->input_count && f->is_mutated[index - 1]) return NULL;
    return f->g->storages.items[in->storage].data ? in : NULL;
}

static size_t stored_bytes(const hn_facts *f, const hn_value_info *info) {
    size_t bytes = hn_dtype_facts(info->dtype)->size_bytes;
    for (uint32_t k = 0; k < info->rank; k++) {
        int64_t size;
        if (!hn_sym_is_int(f->g->sym, info->sizes[k], &size) ||
            !hn_mul_size(bytes, (size_t)size, &bytes))
            return SIZE_MAX;
    }
    return bytes;
}

/* --- learning --- */

static hn_status set_facts(hn_facts *f, hn_value v, hn_value_facts facts) {
    static const hn_value_facts nothing;
    while (f->values.count <= v) HN_PUSH(f->arena, &f->values, nothing);
    f->values.items[v] = facts;
    return NULL;
}

static hn_status learn_input(hn_facts *f, uint32_t index) {
    const hn_input *in = &f->g->inputs.items[index];
    if (!in->value) return NULL;
    HN_TRY(set_facts(f, in->value, (hn_value_facts){.input = index + 1}));
    if (!hn_facts_stored(f, in->value)) return NULL;
    bool is_small = stored_bytes(f, hn_graph_value(f->g, in->value)) <= HN_FOLD_TABLE_BYTES;
    f->values.items[in->value].is_table = in->kind == HN_INPUT_CONSTANT && is_small;
    f->values.items[in->value].constness =
        f->values.items[in->value].is_table ? HN_CONST_NUMBER : HN_CONST_WEIGHT;
    return NULL;
}

typedef struct chain_walk {
    const hn_facts *facts;
    uint32_t ops;
} chain_walk;

static void visit_chain(void *user, hn_value v) {
    chain_walk *w = user;
    uint32_t ops = v < w->facts->values.count ? w->facts->values.items[v].ops : 0;
    w->ops = w->ops > UINT16_MAX - ops ? UINT16_MAX : w->ops + ops;
}

uint32_t hn_facts_node_ops(const hn_facts *f, const hn_node_info *n) {
    chain_walk w = {.facts = f, .ops = hn_op_is_elementwise(n->op)};
    hn_node_each_value(n, visit_chain, &w);
    return w.ops;
}

static hn_status learn_node(hn_facts *f, const hn_node_info *n) {
    hn_value_facts facts = {.constness = hn_facts_node_constness(f, n)};
    if (facts.constness == HN_CONST_NUMBER) facts.ops = hn_facts_node_ops(f, n);
    if (hn_op_facts(n->op)->op_class == HN_OPC_VIEW)
        facts.is_table = hn_facts_is_table(f, n->args[0].as.value);
    hn_affine affine;
    if (hn_facts_node_affine(f, n, &affine)) {
        HN_NEW(f->arena, facts.affine, 1);
        *facts.affine = affine;
    }
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k]) HN_TRY(set_facts(f, n->results[k], facts));
    return NULL;
}

/* Inputs that lie in one storage change together. */
static void mark_mutated(hn_facts *f, uint32_t target) {
    uint32_t storage = f->g->inputs.items[target].storage;
    f->is_mutated[target] = 1;
    for (uint32_t k = 0; storage && k < f->input_count; k++)
        if (f->g->inputs.items[k].storage == storage) f->is_mutated[k] = 1;
}

hn_status hn_facts_init(hn_facts *f, hn_graph *graph, hn_arena *arena) {
    *f = (hn_facts){.g = graph, .arena = arena, .next_node = 1, .input_count = graph->inputs.count};
    HN_NEW(arena, f->is_mutated, f->input_count);
    for (uint32_t k = 0; k < graph->outputs.count; k++) {
        const hn_output *out = &graph->outputs.items[k];
        if (out->kind == HN_OUTPUT_MUTATION && out->target < f->input_count)
            mark_mutated(f, out->target);
    }
    HN_TRY(hn_arena_grow(arena, &f->values.items, &f->values.cap, 0, graph->values.count + 16,
                         sizeof *f->values.items));
    return hn_facts_update(f);
}

hn_status hn_facts_update(hn_facts *f) {
    for (; f->next_input < f->g->inputs.count; f->next_input++)
        HN_TRY(learn_input(f, f->next_input));
    for (; f->next_node < f->g->nodes.count; f->next_node++)
        HN_TRY(learn_node(f, &f->g->nodes.items[f->next_node]));
    return NULL;
}
