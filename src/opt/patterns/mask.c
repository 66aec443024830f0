/* mask.c: attention masks: which are causal, which are float masks that encode a bool, and how
 * several become one.
 *
 * A term either keeps scores by a bool and puts `fill` in place of the others, or adds a float. A
 * fill of -inf is what ATTENTION does with a bool mask. A finite fill (finfo.min) differs in one
 * case: a row without any key left is an average over all keys then, and 0 in ATTENTION. So it is
 * only taken for a causal mask, where the first key is always left; else it stays a float that is
 * added. Summands that hold 0 and such a fill are the same thing written differently.
 *
 * Causal is keep = (j <= i): a comparison whose sides differ by exactly i - j (opt/fold/facts.c),
 * or a table that says so. */
#include "opt/patterns/pattern.h"

#include <math.h>
#include <string.h>

/* Fills from here down count as "never": the least score must be far above. */
#define MASKED_OUT (-1e9)
/* A score disappears when it is added to such a number, in f32: then putting the fill or adding it
 * is the same. */
#define ABSORBS (-1e30)

static bool is_fill(double x, hn_dtype dtype) {
    return x <= MASKED_OUT || (dtype == HN_DTYPE_F16 && x == -65504);
}

static hn_value strip_expand(const hn_patterns *p, hn_value v) {
    for (const hn_node_info *n; (n = hn_made_by(p->g, v, HN_OP_EXPAND));) v = n->args[0].as.value;
    return v;
}

/* --- causal comparisons --- */

/* Whether d <= 0 is the same as j <= i, the last two coordinates. */
static bool is_lower_triangle(const hn_patterns *p, const hn_affine *d, uint32_t rank) {
    if (rank < 2 || d->coeff[rank - 1] != 1 || d->coeff[rank - 2] != -1 ||
        !hn_size_is(p->g, d->base, 0))
        return false;
    for (uint32_t k = 0; k + 2 < rank; k++)
        if (d->coeff[k]) return false;
    return true;
}

static bool is_causal_compare(const hn_patterns *p, hn_value v, bool negated) {
    hn_node producer = hn_info(p, v)->producer;
    if (!producer) return false;
    const hn_node_info *n = hn_graph_node(p->g, producer);
    hn_op op = n->op;
    hn_affine d;
    if (op != HN_OP_LE && op != HN_OP_LT && op != HN_OP_GE && op != HN_OP_GT) return false;
    if (negated)
        op = op == HN_OP_LE   ? HN_OP_GT
             : op == HN_OP_LT ? HN_OP_GE
             : op == HN_OP_GE ? HN_OP_LT
                              : HN_OP_LE;
    bool swap = op == HN_OP_GE || op == HN_OP_GT; /* x >= y is y - x <= 0 */
    uint32_t rank = hn_info(p, v)->rank;
    if (!hn_affine_difference(&p->facts, n->args[swap].as.value, n->args[!swap].as.value, rank, &d))
        return false;
    if (op == HN_OP_LT || op == HN_OP_GT)
        d.base = hn_sym_add(p->g->sym, d.base, hn_sym_int(p->g->sym, 1));
    return is_lower_triangle(p, &d, rank);
}

/* --- tables --- */

enum { TABLE_CAUSAL = 1, TABLE_CAUSAL_NEGATED = 2, TABLE_FINITE = 4 };

typedef struct table_facts {
    unsigned flags;
    double fill; /* of a causal float table */
} table_facts;

/* Bool: which triangle is true. Float: 0 in the lower triangle and one fill above it. */
static table_facts look_at_table(const hn_ref_tensor *t) {
    bool is_float = hn_dtype_is_float(t->dtype), lower = true, upper = true, finite = true;
    double fill = 0;
    table_facts facts = {0};
    if (t->rank < 2 || !t->numel) return facts;
    int64_t m = t->sizes[t->rank - 2], n = t->sizes[t->rank - 1];
    if (is_float && n > 1) fill = t->data.f[1];
    for (int64_t k = 0; k < t->numel; k++) {
        bool keep = k % n <= k / n % m;
        if (is_float) {
            finite &= isfinite(t->data.f[k]) != 0;
            lower &= keep ? t->data.f[k] == 0 : t->data.f[k] == fill;
        } else {
            lower &= (t->data.i[k] != 0) == keep;
            upper &= (t->data.i[k] != 0) != keep;
        }
    }
    facts.fill = fill;
    bool has_upper = m > 0 && n > 1; /* without a masked element there is nothing to see */
    if (lower && has_upper && (!is_float || is_fill(fill, t->dtype))) facts.flags |= TABLE_CAUSAL;
    if (upper && has_upper && !is_float) facts.flags |= TABLE_CAUSAL_NEGATED;
    if (is_float && finite) facts.flags |= TABLE_FINITE;
    return facts;
}

static hn_status table_of(hn_patterns *p, hn_value v, table_facts *out) {
    *out = (table_facts){0};
    const uint64_t *known = hn_map_get(&p->masks, v);
    if (known) {
        if (*known) memcpy(out, (const void *)(uintptr_t)*known, sizeof *out);
        return NULL;
    }
    if (hn_facts_constness(&p->facts, v) == HN_NOT_CONST) return NULL;
    hn_ref_tensor t;
    bool done;
    HN_TRY(hn_const_eval_value(&p->eval, v, HN_CONST_WEIGHT, &t, &done));
    if (done) *out = look_at_table(&t);
    table_facts *kept;
    HN_NEW(p->context->scratch, kept, 1);
    *kept = *out;
    return hn_map_put(&p->masks, v, (uint64_t)(uintptr_t)kept);
}

/* --- what a float may hold --- */

/* What is known of a value without its producer: a number, another dtype than a float, a table. */
static hn_status is_finite_itself(hn_patterns *p, hn_value v, bool *out) {
    double number;
    table_facts table;
    *out = true;
    if (hn_uniform_number(p->g, v, &number)) *out = isfinite(number);
    else if (hn_dtype_is_float(hn_info(p, v)->dtype)) {
        HN_TRY(table_of(p, v, &table));
        *out = table.flags & TABLE_FINITE;
    }
    return NULL;
}

static hn_status is_finite(hn_patterns *p, hn_value v, uint32_t depth, bool *out);

/* A narrower float may round to infinity; f32 and f64 hold every integer's size. */
static hn_status is_finite_cast(hn_patterns *p, const hn_node_info *n, uint32_t depth, bool *out) {
    hn_value x = n->args[0].as.value;
    hn_dtype from = hn_info(p, x)->dtype, to = hn_info(p, n->results[0])->dtype;
    uint32_t from_bytes = hn_dtype_facts(from)->size_bytes,
             to_bytes = hn_dtype_facts(to)->size_bytes;
    if (hn_dtype_is_float(from)) return to_bytes > from_bytes ? is_finite(p, x, depth, out) : NULL;
    *out = from == HN_DTYPE_BOOL || to_bytes >= 4;
    return NULL;
}

/* Whether no element can be -inf or NaN; looks `depth` nodes back. */
static hn_status is_finite(hn_patterns *p, hn_value v, uint32_t depth, bool *out) {
    *out = false;
    if (depth == 0) return NULL;
    HN_TRY(is_finite_itself(p, v, out));
    hn_node producer = hn_info(p, v)->producer;
    if (*out || !producer) return NULL;
    const hn_node_info *n = hn_graph_node(p->g, producer);
    switch (n->op) {
    case HN_OP_WHERE:
        HN_TRY(is_finite(p, n->args[1].as.value, depth - 1, out));
        return *out ? is_finite(p, n->args[2].as.value, depth - 1, out) : NULL;
    case HN_OP_RESHAPE:
    case HN_OP_EXPAND:
    case HN_OP_PERMUTE:
    case HN_OP_SLICE: return is_finite(p, n->args[0].as.value, depth - 1, out);
    case HN_OP_CAST: return is_finite_cast(p, n, depth - 1, out);
    default: return NULL;
    }
}

/* --- sorting terms --- */

typedef struct plan {
    hn_patterns *p;
    const hn_expr *sizes;
    uint32_t rank;
    /* bools with a fill of -inf; floats */
    struct {
        hn_value items[4 * HN_MAX_MASKS];
        uint32_t count;
    } keeps, sums;
    bool causal;         /* with a fill of -inf */
    bool soft_causal;    /* with a finite one */
    hn_value soft_value; /* the term that soft_causal stands for, as a summand */
    bool may_be_dead;    /* a row may be without keys, as far as is known */
    bool failed;
} plan;

/* Masks keep their sizes where they broadcast to the scores; other batch dims are split or merged
 * like the scores'. */
static hn_value fit(plan *a, hn_value v) {
    hn_graph *g = a->p->g;
    const hn_value_info *info = hn_graph_value(g, v);
    uint32_t rank = info->rank;
    bool broadcasts = rank <= a->rank, ones = true;
    for (uint32_t k = 0; k < rank && broadcasts; k++) {
        hn_expr to = a->sizes[a->rank - rank + k];
        broadcasts = hn_size_is(g, info->sizes[k], 1) || hn_same_sizes(g, &info->sizes[k], &to, 1);
    }
    if (broadcasts || rank < 2) return broadcasts ? v : 0;
    for (uint32_t k = 0; k + 2 < rank; k++) ones &= hn_size_is(g, info->sizes[k], 1);
    hn_expr shape[HN_MAX_RANK];
    if (ones) return hn_v_reshape(g, v, info->sizes + rank - 2, 2);
    /* all batches are there, in another grouping */
    memcpy(shape, a->sizes, (a->rank - 2) * sizeof *shape);
    memcpy(shape + a->rank - 2, info->sizes + rank - 2, 2 * sizeof *shape);
    hn_expr have = hn_sym_product(g->sym, info->sizes, rank - 2),
            want = hn_sym_product(g->sym, a->sizes, a->rank - 2);
    return have == want ? hn_v_reshape(g, v, shape, a->rank) : 0;
}

static void push(plan *a, bool is_sum, hn_value v) {
    hn_value fitted = fit(a, strip_expand(a->p, v));
    if (!fitted || (is_sum ? a->sums.count : a->keeps.count) == 4 * HN_MAX_MASKS) {
        a->failed = true;
        return;
    }
    if (is_sum) a->sums.items[a->sums.count++] = fitted;
    else a->keeps.items[a->keeps.count++] = fitted;
}

static hn_value negate(plan *a, hn_value v, bool negated) {
    return negated ? hn_b_unary(a->p->g, HN_OP_NOT, v) : v;
}

/* Whether a row or column of `v` stands for several of the scores, so that its number is not
 * theirs. */
static bool is_repeated(const plan *a, hn_value v) {
    const hn_value_info *info = hn_info(a->p, v);
    for (uint32_t k = 1; k <= 2 && k <= info->rank; k++)
        if (hn_size_is(a->p->g, info->sizes[info->rank - k], 1) &&
            !hn_size_is(a->p->g, a->sizes[a->rank - k], 1))
            return true;
    return false;
}

static hn_status is_causal(const plan *a, hn_value v, bool negated, bool *out) {
    table_facts table;
    *out = false;
    if (is_repeated(a, v)) return NULL;
    *out = is_causal_compare(a->p, v, negated);
    if (*out) return NULL;
    HN_TRY(table_of(a->p, v, &table));
    *out = table.flags & (negated ? TABLE_CAUSAL_NEGATED : TABLE_CAUSAL);
    return NULL;
}

/* A bool with a fill of -inf. Conjunctions fall apart, so that the causal part of "causal and not
 * padding" is found. */
static hn_status sort_keep(plan *a, hn_value v, bool negated, uint32_t depth) {
    hn_ref_elem e;
    bool causal = false;
    v = strip_expand(a->p, v);
    const hn_node_info *not = hn_made_by(a->p->g, v, HN_OP_NOT);
    if (not &&depth) return sort_keep(a, not ->args[0].as.value, !negated, depth - 1);
    if (hn_uniform(a->p->g, v, &e) && (e.i != 0) != negated) return NULL;
    const hn_node_info *and = hn_made_by(a->p->g, v, negated ? HN_OP_OR : HN_OP_AND);
    if (and&&depth) {
        HN_TRY(sort_keep(a, and->args[0].as.value, negated, depth - 1));
        return sort_keep(a, and->args[1].as.value, negated, depth - 1);
    }
    HN_TRY(is_causal(a, v, negated, &causal));
    if (causal) {
        a->causal = true;
        return NULL;
    }
    a->may_be_dead = true;
    push(a, false, negate(a, v, negated));
    return hn_graph_status(a->p->g);
}

/* where(keep, 0, fill) as a summand. */
static hn_value written_out(plan *a, hn_value keep, bool negated, double fill) {
    hn_graph *g = a->p->g;
    hn_value zero = hn_b_scalar(g, 0, HN_DTYPE_F32), other = hn_b_scalar(g, fill, HN_DTYPE_F32);
    return negated ? hn_b_where(g, keep, other, zero) : hn_b_where(g, keep, zero, other);
}

/* A bool with a finite fill. `summand` is the same thing as a float; 0: it has to be written
 * out. */
static hn_status sort_soft_keep(plan *a, hn_value keep, bool negated, double fill, hn_dtype dtype,
                                hn_value summand) {
    bool causal = false;
    keep = strip_expand(a->p, keep);
    HN_TRY(is_causal(a, keep, negated, &causal));
    if (!causal && !summand && (fill > ABSORBS || dtype == HN_DTYPE_F16)) a->failed = true;
    if (a->failed) return NULL;
    if (!summand) summand = written_out(a, keep, negated, fill);
    if (causal && !a->soft_causal) {
        a->soft_causal = true;
        a->soft_value = summand;
    } else {
        push(a, true, summand);
    }
    return hn_graph_status(a->p->g);
}

/* A float summand of 0 and one fill is a bool. */
static hn_status sort_sum(plan *a, hn_value v) {
    hn_patterns *p = a->p;
    hn_dtype dtype = hn_info(p, v)->dtype;
    v = strip_expand(p, v);
    const hn_node_info *where = hn_made_by(p->g, v, HN_OP_WHERE);
    double x, y;
    if (where && hn_uniform_number(p->g, where->args[1].as.value, &x) &&
        hn_uniform_number(p->g, where->args[2].as.value, &y)) {
        bool negated = y == 0;
        double fill = negated ? x : y, kept = negated ? y : x;
        if (kept == 0 && is_fill(fill, dtype)) {
            if (isinf(fill)) return sort_keep(a, where->args[0].as.value, negated, HN_MAX_MASKS);
            return sort_soft_keep(a, where->args[0].as.value, negated, fill, dtype, v);
        }
    }
    table_facts table;
    HN_TRY(table_of(p, v, &table));
    bool causal = (table.flags & TABLE_CAUSAL) && !is_repeated(a, v);
    if (causal && isinf(table.fill)) {
        a->causal = true;
        return NULL;
    }
    if (causal && !a->soft_causal) {
        a->soft_causal = true;
        a->soft_value = v;
        return NULL;
    }
    bool finite = false;
    HN_TRY(is_finite(p, v, HN_MAX_MASKS, &finite));
    a->may_be_dead |= !finite;
    push(a, true, v);
    return NULL;
}

static hn_status sort_term(plan *a, const struct hn_mask_term *term) {
    hn_dtype dtype = hn_info(a->p, term->value)->dtype;
    if (dtype != HN_DTYPE_BOOL) return sort_sum(a, term->value);
    if (isinf(term->fill)) return sort_keep(a, term->value, term->is_negated, HN_MAX_MASKS);
    return sort_soft_keep(a, term->value, term->is_negated, term->fill, HN_DTYPE_F32, 0);
}

/* --- putting together --- */

static hn_value join(hn_graph *g, hn_op op, const hn_value *values, uint32_t count) {
    hn_value all = count ? values[0] : 0;
    for (uint32_t k = 1; k < count; k++) {
        hn_value next = values[k];
        if (op == HN_OP_ADD && hn_graph_value(g, all)->dtype != hn_graph_value(g, next)->dtype) {
            all = hn_b_cast(g, all, HN_DTYPE_F32);
            next = hn_b_cast(g, next, HN_DTYPE_F32);
        }
        all = hn_b_binary(g, op, all, next);
    }
    return all;
}

static hn_value causal_bool(plan *a) {
    hn_graph *g = a->p->g;
    hn_scalar zero = hn_scalar_i(hn_sym_int(g->sym, 0)), one = hn_scalar_i(hn_sym_int(g->sym, 1));
    hn_value row =
        hn_b_unsqueeze(g, hn_b_iota(g, zero, one, a->sizes[a->rank - 2], HN_DTYPE_I64), 1);
    return hn_b_binary(g, HN_OP_LE, hn_b_iota(g, zero, one, a->sizes[a->rank - 1], HN_DTYPE_I64),
                       row);
}

/* [.., m or 1, 1]: whether a key is left in the row. */
static hn_value alive_rows(plan *a, hn_value keep, hn_value sum) {
    hn_graph *g = a->p->g;
    hn_value lives = 0;
    if (sum)
        lives =
            hn_b_binary(g, HN_OP_NE, sum, hn_b_scalar(g, -INFINITY, hn_graph_value(g, sum)->dtype));
    if (keep) lives = lives ? hn_b_binary(g, HN_OP_AND, lives, keep) : keep;
    if (a->causal && lives) lives = hn_b_binary(g, HN_OP_AND, lives, causal_bool(a));
    if (!lives) return 0;
    uint32_t rank = hn_graph_value(g, lives)->rank;
    if (!rank) return hn_b_expand(g, lives, (hn_expr[]){hn_sym_int(g->sym, 1)}, 1);
    return hn_b_reduce(g, HN_OP_ANY, lives, (uint32_t[]){rank - 1}, 1, true);
}

static hn_status finish(plan *a, bool ask_alive, hn_mask_plan *out) {
    hn_graph *g = a->p->g;
    if (a->soft_causal) { /* -inf is as good only when nothing else masks */
        if (a->sums.count || a->keeps.count || a->causal) push(a, true, a->soft_value);
        else a->causal = true;
    }
    if (a->failed) return NULL;
    hn_value keep = join(g, HN_OP_AND, a->keeps.items, a->keeps.count),
             sum = join(g, HN_OP_ADD, a->sums.items, a->sums.count);
    out->causal = a->causal;
    if (ask_alive && a->may_be_dead) out->alive = alive_rows(a, keep, sum);
    out->mask = keep ? keep : sum;
    if (keep && sum)
        out->mask =
            hn_b_where(g, keep, sum, hn_b_scalar(g, -INFINITY, hn_graph_value(g, sum)->dtype));
    return hn_graph_status(g);
}

hn_status hn_masks_plan(hn_patterns *p, const hn_masks *masks, const hn_expr *sizes, uint32_t rank,
                        bool ask_alive, hn_mask_plan *out, bool *out_done) {
    plan a = {.p = p, .sizes = sizes, .rank = rank};
    *out = (hn_mask_plan){0};
    for (uint32_t k = 0; k < masks->count && !a.failed; k++)
        HN_TRY(sort_term(&a, &masks->terms[k]));
    if (!a.failed) HN_TRY(finish(&a, ask_alive, out));
    *out_done = !a.failed;
    return NULL;
}
