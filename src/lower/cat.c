/* cat.c: concatenations. As memory each piece is stored by a loop of its own. Some are no memory:
 *
 * A target may prefer to choose between two cheap pieces for each element where they are read
 * (hn_operations.chooses_pieces). Anywhere else the loop that reads a concatenation is cut where one
 * piece ends and the next one begins, so that each part reads one piece, without a choice:
 *
 *   b3[i < 4] = -b1[4 + i], b3[4 + i] = b1[i]      b4[i < 4] = -b1[4 + i] * b2[i]
 *   b4[i < 8] = b3[i] * b2[i]                 ->   b4[4 + i < 4] = b1[i] * b2[4 + i]
 *
 * So there is a loop less, and b3 is neither written nor read: halves of rows turned (rotary
 * positions), windows that are shifted, a token in front of others. A variable is cut at a number
 * that the indices tell: of i + 3, of 2*i + j where j < 2, or of 7 - i. Where the indices tell none,
 * or what is read is not stored element by element, the concatenation becomes memory there.
 *
 * Bytes never grow by it: what the parts store has elements no larger than those of the
 * concatenation, which was written and read as often. Parts are never more than the loops that there
 * would be with memory. */
#include "lower/internal.h"

#include <string.h>

enum { NEAR = 256 }; /* nodes between a concatenation and who reads it */

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

/* ---- which ones are no memory ---- */

typedef struct reading {
    hn_value of;
    uint32_t count;
} reading;

static void count_value(void *user, hn_value v) {
    reading *r = user;
    r->count += v == r->of;
}

/* The next node behind `*at` that reads `v`: how often; 0: none is near. */
static uint32_t next_reader(const lower *l, hn_value v, hn_node *at) {
    reading r = {.of = v};
    const hn_node last = info(l, v)->producer + NEAR;
    while (++*at < l->g->nodes.count && *at <= last) {
        const hn_node_info *n = &l->g->nodes.items[*at];
        if (n->dead) continue;
        hn_node_each_value(n, count_value, &r);
        if (r.count) return r.count;
    }
    return 0;
}

/* Whether what reads `v`, one op, computes element by element. */
static bool is_read_by_element(const lower *l, hn_value v) {
    hn_node at = info(l, v)->producer;
    return next_reader(l, v, &at) && hn_op_is_elementwise(l->g->nodes.items[at].op);
}

/* Pieces have known sizes along `dim`. */
static bool sizes_are_known(const lower *l, const hn_arg *xs, uint32_t dim, int64_t least) {
    for (uint32_t k = 0; k < xs->count; k++) {
        int64_t size;
        if (!hn_sym_is_int(l->sym, info(l, xs->as.values[k])->sizes[dim], &size) || size < least)
            return false;
    }
    return true;
}

/* Computed for several readers, or though it is not wanted: so it is hardly more than a load. */
static bool is_cheap_piece(const lower *l, hn_value x) {
    enum { OPS_MAX = 2 };
    const lower_value *lv = &l->values[x];
    return lv->buffer || (lv->ops <= OPS_MAX && lv->loads <= 1 && !lv->costly);
}

static bool are_cheap_pieces(const lower *l, const hn_arg *xs) {
    for (uint32_t k = 0; k < xs->count; k++)
        if (!is_cheap_piece(l, xs->as.values[k])) return false;
    return true;
}

/* Half a row turned and put in front of the other half (rotary positions), say: not worth memory
 * and a kernel of its own where a kernel costs more than a second load. Numbers along `dim` are
 * there in any case: a load from a piece of none would be outside of memory. */
static bool is_choice(const lower *l, hn_value v, const hn_arg *xs, uint32_t dim) {
    return l->operations && l->operations->chooses_pieces && xs->count == 2 && l->uses[v] == 1 &&
           !l->output[v] && sizes_are_known(l, xs, dim, 1) && are_cheap_pieces(l, xs) &&
           is_read_by_element(l, v);
}

/* Results of operations that nobody else reads: these may take what is added to them, but not in
 * parts. */
static void find_call(void *user, hn_value x) {
    struct of_call {
        const lower *l;
        bool found;
    } *q = user;
    const hn_node producer = info(q->l, x)->producer;
    if (!producer || q->l->uses[x] != 1) return;
    const hn_op op = hn_graph_node(q->l->g, producer)->op;
    q->found |= hn_op_facts(op)->op_class == HN_OPC_CONTRACT;
}

static bool reads_a_call(const lower *l, const hn_node_info *n) {
    struct of_call {
        const lower *l;
        bool found;
    } q = {l, false};
    hn_node_each_value(n, find_call, &q);
    return q.found;
}

static bool sizes_are_equal(const hn_value_info *a, const hn_value_info *b) {
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
}

/* Whether all who read `v` do so element by element: at most `most` ops and concatenations, and
 * slices that are read so. */
static bool is_read_in_parts(const lower *l, hn_value v, uint32_t most, uint32_t depth) {
    enum { DEPTH_MAX = 3, SLICES_MAX = 8 };
    hn_node at = info(l, v)->producer;
    uint32_t left = l->uses[v], whole = 0;
    if (l->output[v] || depth == DEPTH_MAX || left > SLICES_MAX) return false;
    while (left) {
        const uint32_t times = next_reader(l, v, &at);
        const hn_node_info *n = &l->g->nodes.items[at];
        if (!times || times > left) return false;
        left -= times;
        if (n->op == HN_OP_SLICE) {
            if (!is_read_in_parts(l, n->results[0], most, depth + 1)) return false;
            continue;
        }
        whole += times;
        if (whole > most) return false;
        if (n->op == HN_OP_CAT) continue;
        if (!hn_op_is_elementwise(n->op) || reads_a_call(l, n) ||
            !sizes_are_equal(info(l, v), info(l, n->results[0])))
            return false;
    }
    return true;
}

/* Two readers of two cheap pieces make as many loops either way. */
static bool is_cut(const lower *l, hn_value v, const hn_arg *xs, uint32_t dim) {
    return xs->count <= LOWER_CUTS_MAX && sizes_are_known(l, xs, dim, 0) &&
           (l->uses[v] == 1 || are_cheap_pieces(l, xs)) &&
           is_read_in_parts(l, v, xs->count == 2 ? 2 : 1, 0);
}

/* ---- lowering ---- */

static hn_status store_pieces(lower *l, const hn_node_info *n) {
    const hn_value v = n->results[0];
    const hn_arg *xs = &n->args[0];
    const uint32_t dim = (uint32_t)lower_int(l, &n->args[1]);
    HN_TRY(lower_new_buffer(l, v, NULL));
    lower_value lv = l->values[v];
    hn_expr start = l->zero;
    for (uint32_t k = 0; k < xs->count; k++) {
        hn_value x = xs->as.values[k];
        hn_expr offset = hn_sym_add(l->sym, lv.offset, hn_sym_mul(l->sym, start, lv.strides[dim]));
        HN_TRY(lower_copy_loop(l, x, lv.buffer, offset, lv.strides));
        start = hn_sym_add(l->sym, start, info(l, x)->sizes[dim]);
    }
    return NULL;
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* A part computes one piece: the largest one counts. */
static void weigh_pieces(lower *l, const hn_arg *xs, lower_value *out) {
    for (uint32_t k = 0; k < xs->count; k++) {
        const lower_value *x = &l->values[xs->as.values[k]];
        out->ops = larger(out->ops, x->buffer ? 0 : x->ops);
        out->loads = larger(out->loads, x->buffer ? 1 : x->loads);
        out->depth = larger(out->depth, x->buffer ? 1 : x->depth + 1);
        out->costly |= !x->buffer && x->costly;
    }
}

static bool allows(const lower *l, const char *rule, const hn_node_info *n) {
    return hn_limit_allows(l->limit, rule, n->origin, 0);
}

hn_status lower_cat(lower *l, const hn_node_info *n) {
    const hn_value v = n->results[0];
    const hn_arg *xs = &n->args[0];
    const uint32_t dim = (uint32_t)lower_int(l, &n->args[1]);
    if (is_choice(l, v, xs, dim) &&
        allows(l, "readers choose between pieces of a concatenation (cat.c)", n)) {
        HN_TRY(lower_expression(l, n));
        l->values[v].chooses = true;
        return NULL;
    }
    if (!is_cut(l, v, xs, dim) ||
        !allows(l, "readers of a concatenation are cut where pieces end (cat.c)", n))
        return store_pieces(l, n);
    l->values[v] = (lower_value){.defined = true, .depth = 1};
    weigh_pieces(l, xs, &l->values[v]);
    l->p->cats_cut++;
    return NULL;
}

/* ---- where it is read ---- */

/* The piece that has index `at` along `dim`, and where it starts. */
static uint32_t piece_at(const lower *l, const hn_arg *xs, uint32_t dim, int64_t at,
                         int64_t *out_start) {
    int64_t start = 0, last_start = 0;
    uint32_t last = 0;
    for (uint32_t k = 0; k < xs->count; k++) {
        int64_t size = 0;
        (void)hn_sym_is_int(l->sym, info(l, xs->as.values[k])->sizes[dim], &size);
        if (size && start <= at) last = k, last_start = start;
        start += size;
    }
    *out_start = last_start;
    return last;
}

/* Whether coeff * var + rest, with rest in [lo, hi], is below `bound` exactly for `var` below
 * *out_at; of a negative coefficient: not below it. */
static bool find_turn(int64_t coeff, int64_t lo, int64_t hi, int64_t bound, int64_t *out_at) {
    const int64_t step = coeff < 0 ? -coeff : coeff,
                  way = coeff < 0 ? lo - bound : bound - lo - 1; /* the last one: way / step */
    if (way < 0) return false;
    const int64_t t = way / step + 1;
    *out_at = t;
    return coeff > 0 ? coeff * (t - 1) + hi < bound && coeff * t + lo >= bound
                     : coeff * (t - 1) + lo >= bound && coeff * t + hi < bound;
}

static bool is_small(int64_t a) { return a > -((int64_t)1 << 40) && a < (int64_t)1 << 40; }

/* Where a variable is to be cut so that index `e` is on one side of each bound in each part. */
static bool find_cuts(lower_cut *cut, hn_sym *sym, hn_expr e, const int64_t *bounds,
                      uint32_t count) {
    for (uint32_t d = 0; d < cut->rank; d++) {
        hn_expr coeff, rest;
        int64_t by, lo, hi, extent;
        uint32_t k = 0;
        if (!hn_sym_uses(sym, e, cut->vars[d]) ||
            !hn_sym_affine(sym, e, cut->vars[d], &coeff, &rest) ||
            !hn_sym_is_int(sym, coeff, &by) || !by || !is_small(by) ||
            !hn_sym_is_int(sym, hn_sym_symbol_extent(sym, cut->vars[d]), &extent))
            continue;
        hn_sym_range(sym, rest, &lo, &hi);
        if (!is_small(lo) || !is_small(hi)) continue;
        for (; k < count; k++) {
            const uint32_t to = by > 0 ? k : count - 1 - k;
            if (!find_turn(by, lo, hi, bounds[k], &cut->at[to]) || cut->at[to] < 1 ||
                cut->at[to] >= extent)
                break;
        }
        if (k < count) continue;
        cut->var = d;
        cut->count = count;
        return true;
    }
    return false;
}

/* Parts never are more than the loops would be that store the pieces and read them. */
static bool may_cut(const lower_cut *cut, uint32_t var, uint32_t parts) {
    const bool again = cut->is_cut[var];
    return again || cut->ways * parts <= cut->parts + parts + 1;
}

/* Whether the loop is to be cut for this concatenation. */
static bool ask_for_cut(lower_body *b, const hn_arg *xs, uint32_t dim, hn_dtype dtype, hn_expr e,
                        int64_t lo, int64_t hi) {
    lower_cut *cut = b->cut;
    int64_t bounds[LOWER_CUTS_MAX], start = 0;
    uint32_t count = 0;
    if (!cut || hn_dtype_facts(dtype)->size_bytes < cut->stored_bytes) return false;
    if (cut->count) return true; /* for another one, first */
    for (uint32_t k = 0; k < xs->count; k++) {
        int64_t size = 0;
        (void)hn_sym_is_int(b->l->sym, info(b->l, xs->as.values[k])->sizes[dim], &size);
        if (size && start > lo && start <= hi) bounds[count++] = start;
        start += size;
    }
    if (!find_cuts(cut, b->l->sym, e, bounds, count)) return false;
    if (may_cut(cut, cut->var, count + 1)) return true;
    cut->count = 0;
    return false;
}

/* where(i < size of the first, first[i], second[i - size]): loads stay inside of their piece, and
 * the select hides those of the other one. */
static hn_sid choose(lower_body *b, const hn_arg *xs, uint32_t dim, const hn_value_info *out,
                     const hn_expr *idx) {
    hn_sym *sym = b->l->sym;
    const hn_value *of = xs->as.values;
    const hn_expr size = info(b->l, of[0])->sizes[dim], last = hn_sym_sub(sym, size, b->l->one);
    hn_expr inner[HN_MAX_RANK];
    memcpy(inner, idx, out->rank * sizeof *inner);
    inner[dim] = hn_sym_min(sym, idx[dim], last);
    const hn_sid first = lower_gen(b, of[0], inner);
    inner[dim] = hn_sym_max(sym, hn_sym_sub(sym, idx[dim], size), b->l->zero);
    const hn_sid second = lower_gen(b, of[1], inner);
    const hn_sop at = {.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = idx[dim]},
                 end = {.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = last};
    hn_sop below = {.kind = HN_SOP_ELEM, .op = HN_OP_LE, .dtype = HN_DTYPE_BOOL};
    below.args[0] = lower_gen_sop(b, at);
    below.args[1] = lower_gen_sop(b, end);
    return lower_gen_sop(b, (hn_sop){.kind = HN_SOP_ELEM,
                                     .op = HN_OP_WHERE,
                                     .dtype = out->dtype,
                                     .args = {lower_gen_sop(b, below), first, second}});
}

/* It becomes memory after all. */
static hn_sid load_it(lower_body *b, const hn_node_info *n, const hn_expr *idx) {
    lower *l = b->l;
    const uint32_t outer = l->origin;
    if (!l->is_branch) l->origin = n->origin;
    b->failed = store_pieces(l, n);
    l->origin = outer;
    l->p->cats_cut--;
    return lower_gen(b, n->results[0], idx);
}

hn_sid lower_gen_cat(lower_body *b, const hn_node_info *n, const hn_expr *idx) {
    hn_sym *sym = b->l->sym;
    const uint32_t dim = (uint32_t)lower_int(b->l, &n->args[1]);
    const hn_arg *xs = &n->args[0];
    const hn_value_info *out = info(b->l, n->results[0]);
    hn_expr inner[HN_MAX_RANK];
    int64_t lo, hi, start, other;
    hn_sym_range(sym, idx[dim], &lo, &hi);
    const uint32_t piece = piece_at(b->l, xs, dim, lo, &start);
    if (hi < lo || piece_at(b->l, xs, dim, hi, &other) == piece) {
        memcpy(inner, idx, out->rank * sizeof *inner);
        inner[dim] = hn_sym_sub(sym, idx[dim], hn_sym_int(sym, start));
        return lower_gen(b, xs->as.values[piece], inner);
    }
    if (b->l->values[n->results[0]].chooses) return choose(b, xs, dim, out, idx);
    if (ask_for_cut(b, xs, dim, out->dtype, idx[dim], lo, hi))
        return lower_gen_const_i(b, 0, out->dtype); /* nobody sees it */
    return load_it(b, n, idx);
}
