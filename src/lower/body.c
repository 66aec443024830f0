/* body.c: the scalar expression of a value at given indices, as sops of a loop body. */
#include "lower/internal.h"

#include "base/hash.h"

#include <string.h>

void lower_body_init(lower_body *b, lower *l) {
    *b = (lower_body){.l = l, .origin = l->origin};
    hn_map_init(&b->memo, l->scratch);
}

static hn_sid fail(lower_body *b, hn_status status) {
    if (b->failed) hn_status_free(status);
    else b->failed = status;
    return 0;
}

hn_sid lower_gen_sop(lower_body *b, hn_sop sop) {
    if (b->failed) return 0;
    sop.origin = b->origin;
    hn_sid s = hn_body_add(b->l->arena, &b->body, &sop);
    return s ? s : fail(b, HN_ERROR(HN_OUT_OF_MEMORY, "out of memory in a loop body"));
}

hn_sid lower_gen_const_i(lower_body *b, int64_t value, hn_dtype dtype) {
    hn_sop sop = {.kind = HN_SOP_CONST, .dtype = dtype};
    if (hn_dtype_is_float(dtype)) sop.imm.f = (double)value;
    else sop.imm.i = value;
    return lower_gen_sop(b, sop);
}

static hn_sid gen_elem(lower_body *b, hn_op op, hn_dtype dtype, hn_sid x, hn_sid y, hn_sid z) {
    return lower_gen_sop(
        b, (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = dtype, .args = {x, y, z}});
}

static hn_sid gen_index(lower_body *b, hn_expr e) {
    return lower_gen_sop(b, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = e});
}

static hn_sid gen_cast(lower_body *b, hn_sid x, hn_dtype to) {
    if (!x || b->body.items[x].dtype == to) return x;
    return lower_gen_sop(b, (hn_sop){.kind = HN_SOP_CAST, .dtype = to, .args = {x}});
}

static hn_status note_index(lower *l, const hn_node_info *n, hn_expr symbol) {
    HN_PUSH(l->p->arena, &l->p->index_origins,
            ((hn_index_origin){symbol, l->is_branch ? l->origin : n->origin}));
    return NULL;
}

hn_expr lower_gen_indirect(lower_body *b, const hn_node_info *n, hn_sid value, hn_expr limit,
                           bool wrap) {
    if (b->failed || !value) return b->l->zero;
    value = gen_cast(b, value, HN_DTYPE_I64); /* any integers may be indices */
    if (!value) return b->l->zero;
    hn_body *body = &b->body;
    int64_t lo, hi;
    if (body->items[value].kind == HN_SOP_INDEX) { /* known to be inside: no need to look */
        hn_expr e = body->items[value].index;
        hn_sym_range(b->l->sym, e, &lo, &hi);
        if (lo >= 0 && hn_sym_prove_lt(b->l->sym, e, limit)) return e;
    }
    for (hn_sid s = 1; s < body->count; s++) { /* the same value, the same check: the same symbol */
        hn_sop *op = &body->items[s];
        if (op->kind == HN_SOP_INDIRECT && op->args[0] == value && (op->imm.i & 1) == wrap &&
            hn_sym_symbol_extent(b->l->sym, op->index) == limit)
            return op->index;
    }
    hn_expr symbol = hn_sym_indirect(b->l->sym, limit);
    lower_gen_sop(b, (hn_sop){.kind = HN_SOP_INDIRECT,
                              .dtype = HN_DTYPE_I64,
                              .args = {value},
                              .index = symbol,
                              .imm.i = wrap});
    if (!b->failed) b->failed = note_index(b->l, n, symbol);
    return symbol;
}

static const hn_value_info *info(const lower_body *b, hn_value v) {
    return hn_graph_value(b->l->g, v);
}

/* The scalar of operand `x` of an element-wise op whose result is indexed by idx[rank]: NumPy
 * broadcasting. */
static hn_sid gen_operand(lower_body *b, hn_value x, const hn_expr *idx, uint32_t rank) {
    const hn_value_info *xi = info(b, x);
    hn_expr sub[HN_MAX_RANK];
    for (uint32_t d = 0; d < xi->rank; d++)
        sub[d] =
            hn_sym_is_value(b->l->sym, xi->sizes[d], 1) ? b->l->zero : idx[rank - xi->rank + d];
    return lower_gen(b, x, sub);
}

static hn_sid gen_elementwise(lower_body *b, const hn_node_info *n, const hn_value_info *out,
                              const hn_expr *idx) {
    hn_sid args[3] = {0};
    uint32_t count = 0;
    for (uint32_t k = 0; k < n->arg_count && count < 3; k++)
        if (n->args[k].kind == HN_ARG_VALUE)
            args[count++] = gen_operand(b, n->args[k].as.value, idx, out->rank);
    if (b->failed) return 0;
    if (n->op == HN_OP_CAST) return gen_cast(b, args[0], out->dtype);
    return gen_elem(b, n->op, out->dtype, args[0], args[1], args[2]);
}

/* A constant is rounded to its dtype, as a tensor that holds it would be. */
static double round_to(double f, hn_dtype dtype) {
    if (dtype == HN_DTYPE_F16) return (double)hn_f16_to_f32(hn_f64_to_f16(f));
    if (dtype == HN_DTYPE_BF16) return (double)hn_bf16_to_f32(hn_f64_to_bf16(f));
    return f;
}

/* A number argument as a scalar of `dtype`. */
static hn_sid gen_number(lower_body *b, const hn_arg *arg, hn_dtype dtype) {
    hn_sop sop = {.kind = HN_SOP_CONST, .dtype = dtype};
    bool is_float = hn_dtype_is_float(dtype);
    int64_t i = 0;
    double f = 0;
    if (arg->kind == HN_ARG_FLOAT) {
        f = arg->as.f;
        i = f >= -9.2e18 && f <= 9.2e18 ? (int64_t)f : INT64_MIN;
    } else if (arg->kind == HN_ARG_BOOL) {
        f = (double)(i = arg->as.b);
    } else if (hn_sym_is_int(b->l->sym, arg->as.expr, &i)) {
        f = (double)i;
    } else {
        return gen_cast(b, gen_index(b, arg->as.expr), dtype);
    }
    if (dtype == HN_DTYPE_BOOL) i = arg->kind == HN_ARG_FLOAT ? f != 0 : i != 0;
    if (is_float) sop.imm.f = round_to(f, dtype);
    else sop.imm.i = i;
    return lower_gen_sop(b, sop);
}

/* A number as an expression; 0: it is not a whole one, or not a small one. */
static hn_expr whole_of(hn_sym *sym, const hn_arg *number) {
    if (number->kind == HN_ARG_INT) return number->as.expr;
    double f = number->kind == HN_ARG_FLOAT ? number->as.f : 0.5;
    return f >= -(1 << 20) && f <= 1 << 20 && (double)(int64_t)f == f ? hn_sym_int(sym, (int64_t)f)
                                                                      : 0;
}

/* start + i * step, computed in f64 for floats as eager PyTorch does, in i64 for ints. */
static hn_sid gen_iota(lower_body *b, const hn_node_info *n, hn_dtype dtype, hn_expr i) {
    hn_sym *sym = b->l->sym;
    const hn_arg *start = &n->args[0], *step = &n->args[1];
    /* exact in f64: the same numbers, without f64 */
    hn_expr first = whole_of(sym, start), by = whole_of(sym, step);
    if (first && by)
        return gen_cast(b, gen_index(b, hn_sym_add(sym, first, hn_sym_mul(sym, i, by))), dtype);
    hn_sid at = gen_cast(b, gen_index(b, i), HN_DTYPE_F64);
    hn_sid scaled = gen_elem(b, HN_OP_MUL, HN_DTYPE_F64, at, gen_number(b, step, HN_DTYPE_F64), 0);
    return gen_cast(
        b, gen_elem(b, HN_OP_ADD, HN_DTYPE_F64, gen_number(b, start, HN_DTYPE_F64), scaled, 0),
        dtype);
}

static hn_sid gen_random(lower_body *b, const hn_node_info *n, const hn_value_info *out,
                         const hn_expr *idx) {
    hn_expr strides[HN_MAX_RANK];
    hn_contiguous_strides(b->l->sym, out->sizes, out->rank, strides);
    hn_str kind = n->args[0].as.s;
    int64_t stream = lower_int(b->l, &n->args[4]);
    hn_sid seed = lower_gen(b, n->args[3].as.value, idx);
    hn_random_kind which = hn_str_eq(kind, HN_STR("normal")) ? HN_RANDOM_NORMAL
                           : hn_str_eq(kind, HN_STR("bits")) ? HN_RANDOM_BITS
                                                             : HN_RANDOM_UNIFORM;
    return lower_gen_sop(
        b, (hn_sop){.kind = HN_SOP_RANDOM,
                    .op = (hn_op)which,
                    .dtype = out->dtype,
                    .args = {seed},
                    .index = lower_index_linear(b->l, b->l->zero, idx, strides, out->rank),
                    .imm.i = stream});
}

/* Whether both hold; 0: what always does. */
static hn_sid gen_both(lower_body *b, hn_sid first, hn_sid second) {
    if (!first || !second) return first ? first : second;
    return gen_elem(b, HN_OP_AND, HN_DTYPE_BOOL, first, second, 0);
}

static bool is_empty(const lower_body *b, const hn_value_info *vi) {
    for (uint32_t d = 0; d < vi->rank; d++)
        if (hn_sym_is_value(b->l->sym, vi->sizes[d], 0)) return true;
    return false;
}

/* where(all lo <= i < hi, x[clamped], fill): the load stays inside x, the select hides it; without
 * the select where the clamped element does as well (window.c). Of nothing there is no such
 * element: all is fill. */
static hn_sid gen_pad(lower_body *b, const hn_node_info *n, const hn_value_info *out,
                      const hn_expr *idx) {
    hn_sym *sym = b->l->sym;
    hn_value x = n->args[0].as.value;
    const hn_value_info *xi = info(b, x);
    const hn_expr *lo = n->args[2].as.exprs, *hi = n->args[3].as.exprs;
    hn_expr inner[HN_MAX_RANK];
    hn_sid inside = 0;
    const bool clamps = b->clamps;
    if (is_empty(b, xi)) return gen_number(b, &n->args[1], out->dtype);
    for (uint32_t d = 0; d < xi->rank; d++) {
        hn_expr at = hn_sym_sub(sym, idx[d], lo[d]),
                last = hn_sym_sub(sym, xi->sizes[d], b->l->one);
        inner[d] = at;
        if (!hn_sym_is_value(sym, lo[d], 0)) inner[d] = hn_sym_max(sym, inner[d], b->l->zero);
        if (!hn_sym_is_value(sym, hi[d], 0)) inner[d] = hn_sym_min(sym, inner[d], last);
        if (clamps) continue;
        hn_sid ok = 0; /* along this dim: taps of a window share it */
        if (!hn_sym_is_value(sym, lo[d], 0) && !hn_sym_prove_le(sym, b->l->zero, at))
            ok = gen_elem(b, HN_OP_GE, HN_DTYPE_BOOL, gen_index(b, at),
                          lower_gen_const_i(b, 0, HN_DTYPE_I64), 0);
        if (!hn_sym_is_value(sym, hi[d], 0) && !hn_sym_prove_le(sym, at, last))
            ok = gen_both(
                b, ok,
                gen_elem(b, HN_OP_LE, HN_DTYPE_BOOL, gen_index(b, at), gen_index(b, last), 0));
        inside = gen_both(b, inside, ok);
    }
    b->clamps = false; /* holds for this PAD, not for those below */
    hn_sid value = lower_gen(b, x, inner);
    b->clamps = clamps;
    if (!inside) return value;
    return gen_elem(b, HN_OP_WHERE, out->dtype, inside, value,
                    gen_number(b, &n->args[1], out->dtype));
}

static hn_sid gen_gather(lower_body *b, const hn_node_info *n, const hn_expr *idx) {
    hn_value x = n->args[0].as.value;
    const hn_value_info *xi = info(b, x);
    uint32_t dim = (uint32_t)lower_int(b->l, &n->args[2]);
    hn_expr at[HN_MAX_RANK];
    memcpy(at, idx, xi->rank * sizeof *at);
    hn_sid t = gen_cast(b, lower_gen(b, n->args[1].as.value, idx), HN_DTYPE_I64);
    if (xi->rank) at[dim] = lower_gen_indirect(b, n, t, xi->sizes[dim], false);
    return lower_gen(b, x, at);
}

static hn_sid gen_index_op(lower_body *b, const hn_node_info *n, const hn_expr *idx) {
    hn_value x = n->args[0].as.value;
    const hn_value_info *xi = info(b, x);
    const hn_arg *indices = &n->args[1];
    uint32_t index_rank = indices->count ? info(b, indices->as.values[0])->rank : 0;
    hn_expr at[HN_MAX_RANK];
    for (uint32_t k = 0; k < indices->count; k++) {
        hn_sid t = gen_cast(b, lower_gen(b, indices->as.values[k], idx), HN_DTYPE_I64);
        at[k] = lower_gen_indirect(b, n, t, xi->sizes[k], n->args[2].as.b);
    }
    for (uint32_t d = indices->count; d < xi->rank; d++)
        at[d] = idx[index_rank + d - indices->count];
    return lower_gen(b, x, at);
}

/* where(i == chosen, src, background), for a scatter that is a select (nodes.c). */
static hn_sid gen_select(lower_body *b, const hn_node_info *n, const hn_value_info *out,
                         const hn_expr *idx) {
    const uint32_t dim = (uint32_t)lower_int(b->l, &n->args[3]);
    const hn_value index = n->args[1].as.value;
    hn_expr strides[HN_MAX_RANK], of_row[HN_MAX_RANK];
    memcpy(of_row, idx, out->rank * sizeof *of_row);
    of_row[dim] = b->l->zero;
    hn_contiguous_strides(b->l->sym, info(b, index)->sizes, out->rank, strides);
    const hn_sid chosen = lower_gen_sop(
        b, (hn_sop){.kind = HN_SOP_LOAD,
                    .dtype = HN_DTYPE_I64,
                    .buffer = b->l->values[n->results[0]].chosen,
                    .index = lower_index_linear(b->l, b->l->zero, of_row, strides, out->rank)});
    const hn_sid is_chosen =
        gen_elem(b, HN_OP_EQ, HN_DTYPE_BOOL, gen_index(b, idx[dim]), chosen, 0);
    const hn_sid background = lower_gen(b, n->args[0].as.value, idx);
    hn_sid value = lower_gen(b, n->args[2].as.value, of_row);
    if (hn_str_eq(n->args[4].as.s, HN_STR("add")))
        value = gen_elem(b, HN_OP_ADD, out->dtype, background, value, 0);
    return gen_elem(b, HN_OP_WHERE, out->dtype, is_chosen, value, background);
}

/* Indices of the operand of a view. */
static hn_sid gen_view(lower_body *b, const hn_node_info *n, const hn_value_info *out,
                       const hn_expr *idx) {
    lower *l = b->l;
    hn_sym *sym = l->sym;
    hn_value x = n->args[0].as.value;
    const hn_value_info *xi = info(b, x);
    hn_expr at[HN_MAX_RANK];
    memcpy(at, idx, (out->rank < xi->rank ? out->rank : xi->rank) * sizeof *at);
    if (n->op == HN_OP_RESHAPE) {
        lower_index_reshape(l, out->sizes, out->rank, idx, xi->sizes, xi->rank, at);
    } else if (n->op == HN_OP_PERMUTE) {
        for (uint32_t d = 0; d < out->rank; d++) {
            int64_t from = 0;
            (void)hn_sym_is_int(sym, n->args[1].as.exprs[d], &from);
            at[from] = idx[d];
        }
    } else if (n->op == HN_OP_EXPAND) {
        for (uint32_t d = 0; d < out->rank; d++)
            if (hn_sym_is_value(sym, xi->sizes[d], 1)) at[d] = l->zero;
    } else if (n->op == HN_OP_SLICE) {
        uint32_t dim = (uint32_t)lower_int(l, &n->args[1]);
        hn_expr step = n->args[4].as.expr;
        at[dim] = hn_sym_add(sym, n->args[2].as.expr, hn_sym_mul(sym, idx[dim], step));
    } else if (n->op == HN_OP_WINDOW) {
        uint32_t dim = (uint32_t)lower_int(l, &n->args[1]);
        at[dim] = hn_sym_add(sym, hn_sym_mul(sym, idx[dim], n->args[4].as.expr),
                             hn_sym_mul(sym, idx[xi->rank], n->args[5].as.expr));
    } else { /* AS_STRIDED: over x in row-major order */
        hn_expr linear =
            lower_index_linear(l, n->args[3].as.expr, idx, n->args[2].as.exprs, out->rank);
        hn_expr total = hn_sym_product(sym, xi->sizes, xi->rank);
        lower_index_reshape(l, &total, 1, &linear, xi->sizes, xi->rank, at);
    }
    return lower_gen(b, x, at);
}

static hn_sid gen_load(lower_body *b, hn_value v, const hn_expr *idx) {
    const lower_value *lv = &b->l->values[v];
    hn_expr at = lower_index_linear(b->l, lv->offset, idx, lv->strides, info(b, v)->rank);
    return lower_gen_sop(
        b, (hn_sop){
               .kind = HN_SOP_LOAD, .dtype = info(b, v)->dtype, .buffer = lv->buffer, .index = at});
}

static hn_sid gen_node(lower_body *b, hn_value v, const hn_expr *idx) {
    const hn_value_info *out = info(b, v);
    const hn_node_info *n = hn_graph_node(b->l->g, out->producer);
    if (hn_op_is_elementwise(n->op)) return gen_elementwise(b, n, out, idx);
    if (hn_op_facts(n->op)->op_class == HN_OPC_VIEW) return gen_view(b, n, out, idx);
    if (n->op == HN_OP_FULL) return gen_number(b, &n->args[0], out->dtype);
    if (n->op == HN_OP_IOTA) return gen_iota(b, n, out->dtype, idx[0]);
    if (n->op == HN_OP_RANDOM) return gen_random(b, n, out, idx);
    if (n->op == HN_OP_PAD) return gen_pad(b, n, out, idx);
    if (n->op == HN_OP_CAT) return lower_gen_cat(b, n, idx);
    if (n->op == HN_OP_GATHER) return gen_gather(b, n, idx);
    if (n->op == HN_OP_INDEX) return gen_index_op(b, n, idx);
    if (n->op == HN_OP_SCATTER) return gen_select(b, n, out, idx);
    return fail(b, HN_ERROR(HN_INTERNAL, "op '%s' is not an expression", hn_op_facts(n->op)->name));
}

/* The node that makes `v`. A view does nothing, and equal constants are one node: both count as part
 * of the node behind them. */
static uint32_t origin_of(const lower_body *b, hn_value v) {
    const hn_node_info *n = hn_graph_node(b->l->g, info(b, v)->producer);
    const bool is_part = hn_op_facts(n->op)->op_class == HN_OPC_VIEW || n->op == HN_OP_FULL;
    return is_part || b->l->is_branch ? b->origin : n->origin;
}

hn_sid lower_gen(lower_body *b, hn_value v, const hn_expr *idx) {
    if (b->failed) return 0;
    if (b->l->values[v].buffer) return gen_load(b, v, idx);
    /* The value is hashed with its indices. As the seed it met other values of swapped indices:
     * xxh3 adds the seed to one half of a short key and takes it from the other one. */
    hn_expr words[1 + HN_MAX_RANK] = {v};
    memcpy(words + 1, idx, info(b, v)->rank * sizeof *idx);
    uint64_t key = hn_hash64(words, (1 + info(b, v)->rank) * sizeof *words, 0),
             *known = hn_map_get(&b->memo, key);
    if (known) return (hn_sid)*known;
    const uint32_t outer = b->origin;
    b->origin = origin_of(b, v);
    hn_sid s = gen_node(b, v, idx);
    b->origin = outer;
    if (!s) return 0;
    hn_status status = hn_map_put(&b->memo, key, s);
    return status ? fail(b, status) : s;
}
