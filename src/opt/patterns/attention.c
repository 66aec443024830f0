/* attention.c: softmax between two products becomes ATTENTION.
 *
 *   s = matmul(q, k^T), through scales, masks, casts and views that regroup the batch
 *   p = exp(s - amax(s)) / sum(exp(s - amax(s)))
 *       or where(any key is left, p, 0): "safe" softmax
 *   matmul(p, v)      ->      attention(q, k, v, mask, scale, causal)
 *
 * Found from the last product backwards. Scales may stand on q, on k (as the square root on both)
 * or on the scores, in front of the masks. q, k and v are wanted as [B, H, *, *]: every regrouping
 * of the batch on the way is looked at for a form of rank 4. Keys and values that were repeated for
 * their queries ([B, Hkv, 1..] expanded to H heads) are taken unrepeated. Every value on the way
 * has no other reader, or it would be computed twice.
 *
 * In a row without a key ATTENTION gives 0. A safe softmax does, too; the plain one gives NaN,
 * which is put back unless there is provably a key. A masked key whose value is inf or NaN counts
 * for nothing, where 0 * inf would be NaN. */
#include "opt/patterns/pattern.h"

#include <math.h>
#include <string.h>

enum { MAX_STEPS = 24, MAX_LEVELS = 8, MAX_VIEWS = 8 };

typedef struct match {
    hn_patterns *p;
    hn_value q, k_t, v; /* of the products, as they stand */
    double scale;
    hn_masks masks;
    bool safe;
    /* values whose sizes are a grouping of the batch, and m, n or m, dv */
    hn_value levels[MAX_LEVELS];
    uint32_t level_count;
} match;

/* --- small looks --- */

bool hn_same_tail(const hn_patterns *p, hn_value a, hn_value b, uint32_t count) {
    const hn_value_info *x = hn_info(p, a), *y = hn_info(p, b);
    return x->rank >= count && y->rank >= count &&
           hn_same_sizes(p->g, x->sizes + x->rank - count, y->sizes + y->rank - count, count);
}

hn_value hn_by_number(const hn_patterns *p, hn_value v, hn_op op, double *out_number) {
    const hn_node_info *n = hn_made_by(p->g, v, op);
    for (uint32_t k = 0; n && k < 1u + hn_op_has(op, HN_TRAIT_COMMUTES); k++) {
        hn_value x = n->args[k].as.value;
        if (hn_uniform_number(p->g, n->args[1 - k].as.value, out_number) &&
            hn_info(p, x)->rank == hn_info(p, v)->rank &&
            hn_same_tail(p, x, v, hn_info(p, v)->rank))
            return x;
    }
    return 0;
}

static bool is_float_cast(const hn_patterns *p, const hn_node_info *cast) {
    return hn_dtype_is_float(hn_info(p, cast->args[0].as.value)->dtype) &&
           hn_dtype_is_float(cast->args[1].as.dtype);
}

/* A reduction over the last dim that keeps it, of `x`. */
static bool reduces_last(const hn_patterns *p, hn_value v, hn_op op, hn_value x) {
    const hn_node_info *n = hn_made_by(p->g, v, op);
    if (!n || !n->args[2].as.b || n->args[1].count != 1 || (x && n->args[0].as.value != x))
        return false;
    return hn_size_is(p->g, n->args[1].as.exprs[0], hn_info(p, n->args[0].as.value)->rank - 1);
}

static bool is_regrouping(const hn_patterns *p, const hn_node_info *reshape, hn_value v) {
    return hn_same_tail(p, reshape->args[0].as.value, v, 2);
}

static void note_level(match *m, hn_value v) {
    if (m->level_count < MAX_LEVELS) m->levels[m->level_count++] = v;
}

/* --- probabilities --- */

/* Back through regroupings and casts that nothing else reads. */
static hn_value skip_views(match *m, hn_value v) {
    const hn_patterns *p = m->p;
    for (uint32_t k = 0; k < MAX_VIEWS; k++) {
        const hn_node_info *n = hn_made_by(p->g, v, HN_OP_RESHAPE);
        if (n && is_regrouping(p, n, v)) note_level(m, v);
        else if (!(n = hn_made_by(p->g, v, HN_OP_CAST)) || !is_float_cast(p, n)) break;
        if (!hn_read_once(p, v)) return 0;
        v = n->args[0].as.value;
    }
    return v;
}

static bool is_minus_inf(const hn_patterns *p, hn_value v) {
    double number;
    return hn_uniform_number(p->g, v, &number) && number == -INFINITY;
}

/* x where `cond` is OP(x, -inf). */
static hn_value against_minus_inf(const hn_patterns *p, hn_value cond, hn_op op) {
    const hn_node_info *n = hn_made_by(p->g, cond, op);
    for (uint32_t k = 0; n && k < 2; k++)
        if (is_minus_inf(p, n->args[1 - k].as.value)) return n->args[k].as.value;
    return 0;
}

/* What is asked in `cond`: whether a row of some scores has a key left (1) or has none (-1); 0:
 * neither. `*out_scores` is the scores or, with `*out_is_max`, their maximum. */
static int row_question(const hn_patterns *p, hn_value cond, hn_value *out_scores,
                        bool *out_is_max) {
    const hn_node_info *n;
    int sign = 1;
    for (; (n = hn_made_by(p->g, cond, HN_OP_NOT)); cond = n->args[0].as.value) sign = -sign;
    *out_is_max = true;
    if ((*out_scores = against_minus_inf(p, cond, HN_OP_EQ))) return -sign;
    if ((*out_scores = against_minus_inf(p, cond, HN_OP_NE))) return sign;
    *out_is_max = false;
    bool any = reduces_last(p, cond, HN_OP_ANY, 0), negated = false;
    if (!any && !reduces_last(p, cond, HN_OP_ALL, 0)) return 0;
    cond = hn_made_by(p->g, cond, any ? HN_OP_ANY : HN_OP_ALL)->args[0].as.value;
    for (; (n = hn_made_by(p->g, cond, HN_OP_NOT)); cond = n->args[0].as.value) negated = !negated;
    /* any(s != -inf) has a key, all(s == -inf) has none */
    *out_scores = against_minus_inf(p, cond, any != negated ? HN_OP_NE : HN_OP_EQ);
    return *out_scores ? (any ? sign : -sign) : 0;
}

/* where(row has a key, softmax, 0), in its spellings. Gives the softmax and what the question was
 * about. */
static hn_value skip_safety(match *m, hn_value v, hn_value *out_asked, bool *out_is_max) {
    const hn_patterns *p = m->p;
    const hn_node_info *n = hn_made_by(p->g, v, HN_OP_WHERE);
    double zero;
    *out_asked = 0;
    if (!n) return v;
    int sign = row_question(p, n->args[0].as.value, out_asked, out_is_max);
    hn_value alive = n->args[sign > 0 ? 1 : 2].as.value, dead = n->args[sign > 0 ? 2 : 1].as.value;
    if (!sign || !hn_uniform_number(p->g, dead, &zero) || zero != 0 || !hn_read_once(p, v))
        return 0;
    m->safe = true;
    return alive;
}

/* The scores of a softmax; 0 when it is none, or when something else reads its parts. */
static hn_value scores_of(match *m, hn_value v) {
    const hn_patterns *p = m->p;
    hn_value asked;
    bool asks_max = false;
    v = skip_safety(m, v, &asked, &asks_max);
    const hn_node_info *div = v && hn_read_once(p, v) ? hn_made_by(p->g, v, HN_OP_DIV) : NULL;
    if (!div) return 0;
    hn_value e = div->args[0].as.value, sum = div->args[1].as.value;
    const hn_node_info *exp = hn_made_by(p->g, e, HN_OP_EXP);
    if (!exp || !reduces_last(p, sum, HN_OP_SUM, e) || hn_rewrite_uses(&p->rewrite, e) != 2 ||
        !hn_read_once(p, sum))
        return 0;
    hn_value shifted = exp->args[0].as.value;
    const hn_node_info *sub = hn_made_by(p->g, shifted, HN_OP_SUB);
    if (!sub || !hn_read_once(p, shifted)) return 0;
    hn_value s = sub->args[0].as.value, max = sub->args[1].as.value;
    bool asks_scores = asked && !asks_max;
    if (!reduces_last(p, max, HN_OP_AMAX, s) || (asked && asked != (asks_max ? max : s))) return 0;
    if (hn_rewrite_uses(&p->rewrite, s) != 2u + asks_scores) return 0;
    if (hn_rewrite_uses(&p->rewrite, max) != 1u + (asked && asks_max)) return 0;
    note_level(m, s);
    return s;
}

/* --- scores --- */

/* Whether a product lies behind `v`, with only scales, masks, casts and views between. `fuel`
 * bounds the search: of a sum both sides are tried. */
static bool leads_to_product(const hn_patterns *p, hn_value v, uint32_t *fuel) {
    while (*fuel > 0) {
        hn_node producer = hn_info(p, v)->producer;
        if (!producer) return false;
        const hn_node_info *n = hn_graph_node(p->g, producer);
        double number;
        hn_value x;
        --*fuel;
        if (n->op == HN_OP_MATMUL) return true;
        if ((x = hn_by_number(p, v, HN_OP_MUL, &number)) ||
            (x = hn_by_number(p, v, HN_OP_DIV, &number)))
            v = x;
        else if (n->op == HN_OP_RESHAPE || n->op == HN_OP_CAST) v = n->args[0].as.value;
        else if (n->op == HN_OP_WHERE)
            v = n->args[hn_uniform_number(p->g, n->args[1].as.value, &number) ? 2 : 1].as.value;
        else if (n->op != HN_OP_ADD) return false;
        else if (leads_to_product(p, n->args[0].as.value, fuel)) return true;
        else v = n->args[1].as.value;
    }
    return false;
}

static bool add_mask(match *m, hn_value value, bool negated, double fill) {
    if (m->masks.count == HN_MAX_MASKS) return false;
    m->masks.terms[m->masks.count++] =
        (struct hn_mask_term){.value = value, .is_negated = negated, .fill = fill};
    return true;
}

/* One step back from `v`; 0 when it is no step on the way to the product. */
static hn_value skip_mask(match *m, hn_value v) {
    const hn_patterns *p = m->p;
    const hn_node_info *n = hn_made_by(p->g, v, HN_OP_ADD);
    uint32_t rank = hn_info(p, v)->rank;
    if (n) {
        uint32_t fuel = MAX_STEPS, side = leads_to_product(p, n->args[0].as.value, &fuel) ? 0 : 1;
        hn_value x = n->args[side].as.value;
        if (m->scale != 1 || hn_info(p, x)->rank != rank || !hn_same_tail(p, x, v, rank)) return 0;
        return add_mask(m, n->args[1 - side].as.value, false, 0) ? x : 0;
    }
    n = hn_made_by(p->g, v, HN_OP_WHERE);
    double fill;
    if (!n || m->scale <= 0) return 0;
    bool negated = hn_uniform_number(p->g, n->args[1].as.value, &fill);
    if (!negated && !hn_uniform_number(p->g, n->args[2].as.value, &fill)) return 0;
    hn_value x = n->args[negated ? 2 : 1].as.value;
    bool lowest_f16 = fill == -65504 && hn_info(p, v)->dtype == HN_DTYPE_F16;
    if (!(fill * m->scale <= -1e9) && !(lowest_f16 && m->scale == 1)) return 0;
    if (hn_info(p, x)->rank != rank || !hn_same_tail(p, x, v, rank)) return 0;
    return add_mask(m, n->args[0].as.value, negated, fill * m->scale) ? x : 0;
}

static hn_value skip_step(match *m, hn_value v) {
    const hn_patterns *p = m->p;
    double number;
    const hn_node_info *n = hn_made_by(p->g, v, HN_OP_RESHAPE);
    if (n) {
        note_level(m, n->args[0].as.value);
        return is_regrouping(p, n, v) ? n->args[0].as.value : 0;
    }
    if ((n = hn_made_by(p->g, v, HN_OP_CAST))) return is_float_cast(p, n) ? n->args[0].as.value : 0;
    hn_value x = hn_by_number(p, v, HN_OP_MUL, &number);
    if (!x && (x = hn_by_number(p, v, HN_OP_DIV, &number))) number = 1 / number;
    if (!x) return skip_mask(m, v);
    m->scale *= number;
    return x;
}

/* Back from the scores to q @ k^T. */
static bool find_product(match *m, hn_value s) {
    const hn_patterns *p = m->p;
    for (uint32_t k = 0; k < MAX_STEPS; k++) {
        const hn_node_info *n = hn_made_by(p->g, s, HN_OP_MATMUL);
        if (n) {
            m->q = n->args[0].as.value;
            m->k_t = n->args[1].as.value;
            note_level(m, s);
            return n->args[2].kind == HN_ARG_NONE ||
                   (m->scale == 1 && add_mask(m, n->args[2].as.value, false, 0));
        }
        s = skip_step(m, s);
        if (!s || !hn_read_once(p, s)) return false;
    }
    return false;
}

/* --- operands --- */

/* The operand without a factor that stands on it or behind views of it. Builds the views anew. */
static hn_value without_scale(match *m, hn_value v, uint32_t depth) {
    hn_graph *g = m->p->g;
    double number;
    hn_value x = hn_by_number(m->p, v, HN_OP_MUL, &number);
    if (!x && (x = hn_by_number(m->p, v, HN_OP_DIV, &number))) number = 1 / number;
    if (x && isfinite(number) && number != 0) {
        m->scale *= number;
        return x;
    }
    const hn_node_info *reshape = hn_made_by(g, v, HN_OP_RESHAPE),
                       *permute = hn_made_by(g, v, HN_OP_PERMUTE);
    const hn_node_info *view = reshape ? reshape : permute;
    uint32_t dims[HN_MAX_RANK];
    if (!view || !depth || (permute && !hn_permute_dims(g, permute, dims))) return v;
    x = without_scale(m, view->args[0].as.value, depth - 1);
    if (x == view->args[0].as.value) return v;
    return reshape ? hn_v_reshape(g, x, hn_graph_value(g, v)->sizes, hn_graph_value(g, v)->rank)
                   : hn_v_permute(g, x, dims);
}

/* The grouping of the batch to build in: [B, H, m, n] if there is one. */
static bool choose_batch(match *m, hn_expr batch[2], uint32_t *out_rank) {
    const hn_patterns *p = m->p;
    const hn_node_info *view = hn_made_by(p->g, m->q, HN_OP_RESHAPE);
    if (view && is_regrouping(p, view, m->q)) note_level(m, view->args[0].as.value);
    for (uint32_t rank = 4; rank >= 2; rank--) {
        for (uint32_t k = 0; k < m->level_count; k++) {
            const hn_value_info *info = hn_info(p, m->levels[k]);
            if (info->rank != rank) continue;
            *out_rank = rank == 2 ? 1 : rank - 2;
            batch[0] = rank == 2 ? hn_sym_int(p->g->sym, 1) : info->sizes[0];
            if (rank == 4) batch[1] = info->sizes[1];
            return true;
        }
    }
    return false;
}

static hn_value regroup(match *m, hn_value v, const hn_expr *batch, uint32_t batch_rank) {
    hn_expr sizes[HN_MAX_RANK] = {0};
    if (!v) return 0;
    memcpy(sizes, batch, batch_rank * sizeof *sizes);
    sizes[batch_rank] = hn_last_size(m->p, v, 1);
    sizes[batch_rank + 1] = hn_last_size(m->p, v, 0);
    return hn_v_reshape(m->p->g, v, sizes, batch_rank + 2);
}

static hn_value swap_last(match *m, hn_value v) {
    if (!v) return 0;
    uint32_t rank = hn_info(m->p, v)->rank;
    return hn_v_transpose(m->p->g, v, rank - 2, rank - 1);
}

/* k from k^T. Whichever comes first, the views that made k^T cancel. */
static hn_value keys(match *m, const hn_expr *batch, uint32_t batch_rank) {
    hn_value k_t = without_scale(m, m->k_t, MAX_VIEWS);
    if (hn_made_by(m->p->g, k_t, HN_OP_PERMUTE))
        return regroup(m, swap_last(m, k_t), batch, batch_rank);
    return swap_last(m, regroup(m, k_t, batch, batch_rank));
}

/* --- grouped queries --- */

/* x [B, Hkv, n, d] behind reshape(expand(x as [B, Hkv, 1, n, d] to [B, Hkv, G, n, d])), or behind
 * expand([B, 1, n, d]). */
static hn_value unrepeated(const hn_patterns *p, hn_value v) {
    hn_graph *g = p->g;
    const hn_value_info *info = hn_info(p, v);
    const hn_node_info *expand = hn_made_by(g, v, HN_OP_EXPAND),
                       *reshape = hn_made_by(g, v, HN_OP_RESHAPE);
    if (info->rank != 4) return 0;
    if (expand) {
        hn_value x = expand->args[0].as.value;
        const hn_value_info *from = hn_info(p, x);
        bool only_heads =
            hn_size_is(g, from->sizes[1], 1) && hn_same_sizes(g, from->sizes, info->sizes, 1);
        return only_heads && hn_same_tail(p, x, v, 2) ? x : 0;
    }
    if (!reshape || !(expand = hn_made_by(g, reshape->args[0].as.value, HN_OP_EXPAND))) return 0;
    hn_value wide = reshape->args[0].as.value, x = expand->args[0].as.value;
    const hn_value_info *to = hn_info(p, wide), *from = hn_info(p, x);
    if (to->rank != 5 || !hn_same_sizes(g, to->sizes, info->sizes, 1) ||
        !hn_same_tail(p, wide, v, 2))
        return 0;
    if (!hn_size_is(g, from->sizes[2], 1) || !hn_same_sizes(g, from->sizes, to->sizes, 2) ||
        !hn_same_tail(p, x, wide, 2))
        return 0;
    hn_expr sizes[4] = {from->sizes[0], from->sizes[1], from->sizes[3], from->sizes[4]};
    return hn_v_reshape(g, x, sizes, 4);
}

/* Both or none: keys and values have as many heads. */
static bool share_heads(const hn_patterns *p, hn_value *k, hn_value *v) {
    hn_value few_k = unrepeated(p, *k), few_v = few_k ? unrepeated(p, *v) : 0;
    if (!few_k || !few_v) return false;
    if (!hn_same_sizes(p->g, hn_info(p, few_k)->sizes, hn_info(p, few_v)->sizes, 2)) return false;
    int64_t heads, few;
    bool known = hn_sym_is_int(p->g->sym, hn_info(p, *k)->sizes[1], &heads) &&
                 hn_sym_is_int(p->g->sym, hn_info(p, few_k)->sizes[1], &few) && few > 0 &&
                 heads % few == 0;
    if (!known && !hn_size_is(p->g, hn_info(p, few_k)->sizes[1], 1)) return false;
    *k = few_k;
    *v = few_v;
    return true;
}

/* --- the node --- */

/* Square roots on both sides, rounded to the dtype, multiply to nearly 1/sqrt(d): then that is what
 * is meant, and equal attentions stay equal. */
static double exact_scale(const hn_patterns *p, double scale, hn_value q) {
    int64_t d;
    double slack = hn_dtype_facts(hn_info(p, q)->dtype)->size_bytes == 2 ? 0x1p-7 : 1e-6;
    if (!hn_sym_is_int(p->g->sym, hn_last_size(p, q, 0), &d) || d < 1) return scale;
    double meant = 1 / sqrt((double)d);
    return fabs(scale - meant) <= slack * meant ? meant : scale;
}

/* NaN where the plain softmax had no key. */
static hn_value with_dead_rows(hn_graph *g, hn_value y, hn_value alive) {
    return alive ? hn_b_where(g, alive, y, hn_b_scalar(g, NAN, hn_graph_value(g, y)->dtype)) : y;
}

static hn_status build(match *m, const hn_node_info *root, hn_value *out) {
    hn_patterns *p = m->p;
    hn_graph *g = p->g;
    hn_expr batch[2];
    uint32_t batch_rank = 0;
    if (!choose_batch(m, batch, &batch_rank)) return NULL;
    hn_expr sizes[4] = {batch[0], batch_rank > 1 ? batch[1] : 0, 0, 0};
    sizes[batch_rank] = hn_last_size(p, m->q, 1);
    sizes[batch_rank + 1] = hn_last_size(p, m->k_t, 0);
    hn_mask_plan plan;
    bool done;
    HN_TRY(hn_masks_plan(p, &m->masks, sizes, batch_rank + 2, !m->safe, &plan, &done));
    if (!done) return NULL;
    hn_value q = regroup(m, without_scale(m, m->q, MAX_VIEWS), batch, batch_rank);
    hn_value k = keys(m, batch, batch_rank), v = regroup(m, m->v, batch, batch_rank);
    HN_TRY(hn_graph_status(g));
    if (!isfinite(m->scale) || m->scale == 0) return NULL;
    share_heads(p, &k, &v);
    hn_value y = with_dead_rows(
        g, hn_b_attention(g, q, k, v, plan.mask, exact_scale(p, m->scale, q), plan.causal),
        plan.alive);
    const hn_value_info *to = hn_info(p, root->results[0]);
    *out = y ? hn_v_reshape(g, y, to->sizes, to->rank) : 0;
    return hn_graph_status(g);
}

hn_status hn_pattern_attention(hn_patterns *p, const hn_node_info *root, hn_value *out) {
    match m = {.p = p, .v = root->args[1].as.value, .scale = 1};
    hn_value probabilities = root->args[0].as.value;
    if (root->args[2].kind != HN_ARG_NONE || !hn_read_once(p, probabilities)) return NULL;
    if (!hn_dtype_is_float(hn_info(p, m.v)->dtype)) return NULL;
    note_level(&m, root->results[0]);
    probabilities = skip_views(&m, probabilities);
    hn_value s = probabilities ? scores_of(&m, probabilities) : 0;
    if (!s || !find_product(&m, s)) return NULL;
    hn_dtype dtype = hn_info(p, m.v)->dtype;
    if (hn_info(p, m.q)->dtype != dtype || hn_info(p, m.k_t)->dtype != dtype) return NULL;
    HN_TRY(build(&m, root, out));
    if (*out) p->fired[HN_PATTERN_ATTENTION]++;
    return NULL;
}

/* --- attention as imported --- */

/* The mask of a node that is ATTENTION already, or its gradient. It is rebuilt only when that
 * helps: when it is causal in whole or part, a bool written as floats, or repeated. Returns
 * whether. */
static hn_status find_smaller_mask(hn_patterns *p, hn_value q, hn_value k, const hn_arg *mask_arg,
                                   bool causal, hn_mask_plan *plan, bool *smaller) {
    const hn_value mask = mask_arg->kind == HN_ARG_VALUE ? mask_arg->as.value : 0;
    const hn_value_info *info = hn_info(p, q);
    hn_expr sizes[HN_MAX_RANK];
    bool done;
    *smaller = false;
    *plan = (hn_mask_plan){.mask = mask, .causal = causal};
    if (!mask) return NULL;
    memcpy(sizes, info->sizes, info->rank * sizeof *sizes);
    sizes[info->rank - 1] = hn_last_size(p, k, 1);
    hn_masks masks = {.terms = {{.value = mask, .fill = -INFINITY}}, .count = 1};
    hn_mask_plan found = *plan;
    HN_TRY(hn_masks_plan(p, &masks, sizes, info->rank, false, &found, &done));
    if (!done) found = (hn_mask_plan){.mask = mask};
    found.causal |= causal;
    *smaller = !found.mask || found.causal != causal || hn_made_by(p->g, mask, HN_OP_EXPAND) ||
               hn_info(p, found.mask)->dtype != hn_info(p, mask)->dtype;
    if (*smaller) *plan = found;
    return NULL;
}

/* Masks and repeated heads. */
hn_status hn_pattern_attention_mask(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    hn_value q = n->args[0].as.value, k = n->args[1].as.value, v = n->args[2].as.value;
    hn_mask_plan plan;
    bool smaller;
    HN_TRY(find_smaller_mask(p, q, k, &n->args[3], n->args[5].as.b, &plan, &smaller));
    bool fewer = share_heads(p, &k, &v);
    if (!fewer && !smaller) return hn_graph_status(p->g);
    *out = hn_b_attention(p->g, q, k, v, plan.mask, n->args[4].as.f, plan.causal);
    p->fired[HN_PATTERN_ATTENTION_MASK]++;
    return hn_graph_status(p->g);
}

/* Masks of gradients, as those of the attention itself: `out` has three results. */
hn_status hn_pattern_gradient_mask(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    enum { GRAD, Q, K, V, OUT, MASK, SCALE, CAUSAL };
    const hn_value q = n->args[Q].as.value, k = n->args[K].as.value;
    hn_mask_plan plan;
    bool smaller;
    HN_TRY(find_smaller_mask(p, q, k, &n->args[MASK], n->args[CAUSAL].as.b, &plan, &smaller));
    if (!smaller) return hn_graph_status(p->g);
    const hn_attention_grad grad = {.grad = n->args[GRAD].as.value,
                                    .q = q,
                                    .k = k,
                                    .v = n->args[V].as.value,
                                    .out = n->args[OUT].as.value,
                                    .mask = plan.mask,
                                    .scale = n->args[SCALE].as.f,
                                    .causal = plan.causal};
    out[0] = hn_b_attention_backward(p->g, &grad, &out[1]);
    p->fired[HN_PATTERN_ATTENTION_MASK]++;
    return hn_graph_status(p->g);
}
