/* random_graph.c: see the header. */
#include "tests/support/random_graph.h"
#include "tests/support/random_gen.h"

#include "driver/driver.h"
#include "henry/module.h"

#include <stdlib.h>
#include <string.h>

enum { OUTPUTS_MAX = 5 };

/* Equal sizes are one symbol half of the time. */
hn_expr hn_gen_symbol(gen *r, int64_t n) {
    uint32_t number = r->first_input * 100 + (chance(r, 50) ? (uint32_t)n : 70 + below(r, 30));
    hn_expr e = hn_sym_symbol(r->sym, hn_str_of(hn_arena_printf(r->arena, "s%u", number)),
                              HN_SYMBOL_SIZE, 2, 4096);
    int64_t hint = hn_sym_hint(r->sym, e, -1);
    /* taken, for another size */
    if (hint != -1 && hint != n && hn_sym_hint(r->sym, e, 4000) == hint) return num(r, n);
    hn_sym_set_hint(r->sym, e, n);
    return e;
}

hn_value hn_gen_input(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    hn_value v =
        hn_graph_add_tensor(r->g, dtype, rank, sizes, NULL,
                            hn_str_of(hn_arena_printf(r->arena, "x%u", r->g->inputs.count)));
    hn_status s = hn_graph_add_input(
        r->g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = info(r, v)->name});
    if (s) hn_graph_fail(r->g, s);
    return v;
}

static void add_input(gen *r) {
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_F32, HN_DTYPE_F32,  HN_DTYPE_F32,
                                      HN_DTYPE_F64, HN_DTYPE_F16, HN_DTYPE_BF16, HN_DTYPE_I64,
                                      HN_DTYPE_I64, HN_DTYPE_I32, HN_DTYPE_I16,  HN_DTYPE_I8,
                                      HN_DTYPE_U8,  HN_DTYPE_BOOL};
    hn_expr sizes[5];
    uint32_t rank = below(r, 5);
    int64_t total = 1;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t n = pick_size(r);
        if (total * n > MAX_NUMEL / 4) n = 1;
        total *= n;
        sizes[d] = r->symbolic && n > 1 && chance(r, 60) ? hn_gen_symbol(r, n) : num(r, n);
    }
    hn_dtype dtype = dtypes[below(r, sizeof dtypes / sizeof *dtypes)];
    hn_value v = hn_gen_input(r, dtype, sizes, rank);
    add(r, (known){.v = v, .exact = true, .maxabs = dtype == HN_DTYPE_BOOL ? 1 : 4});
}

/* x cast so that arithmetic on it is well behaved. */
known hn_gen_as_dtype(gen *r, known x, hn_dtype dtype) {
    hn_dtype from = info(r, x.v)->dtype;
    if (from == dtype) return x;
    bool to_float = hn_dtype_is_float(dtype), from_float = hn_dtype_is_float(from);
    if (from_float && !to_float && (!x.exact || x.may_nan || x.maxabs > 100)) return (known){0};
    /* negative to unsigned is undefined from floats */
    if (dtype == HN_DTYPE_U8 && from != HN_DTYPE_BOOL) {
        if (from_float) return (known){0};
    }
    known out = x;
    out.v = hn_b_cast(r->g, x.v, dtype);
    out.error = fmax(x.error, x.exact ? 0 : unit_error(dtype));
    if (x.exact && to_float && x.maxabs > 100) out.exact = false, out.error = unit_error(dtype) * 4;
    if (dtype == HN_DTYPE_BOOL) out.exact = x.exact, out.maxabs = 1;
    if (!to_float && dtype != HN_DTYPE_BOOL) out.exact = true, out.maxabs = 256;
    return out;
}

static known cast_for_float(gen *r, known x) {
    return is_float(r, x.v) ? x
                            : hn_gen_as_dtype(r, x, chance(r, 80) ? HN_DTYPE_F32 : HN_DTYPE_F64);
}

static known unary_safe(gen *r, hn_op op, known x, double maxabs, double amplify) {
    known out = {.v = hn_b_unary(r->g, op, x.v), .maxabs = maxabs, .may_nan = x.may_nan};
    out.error = x.error * amplify + unit_error(info(r, x.v)->dtype) * 4;
    return out;
}

static void step_unary(gen *r) {
    known x = cast_for_float(r, pick(r));
    if (!x.v || x.maxabs > 1e4) return;
    double m = x.maxabs;
    switch (below(r, 15)) {
    case 0:
        add(r, (known){hn_b_unary(r->g, HN_OP_NEG, x.v), x.exact, m, x.error, x.may_nan});
        return;
    case 1:
        add(r, (known){hn_b_unary(r->g, HN_OP_ABS, x.v), x.exact, m, x.error, x.may_nan});
        return;
    case 2:
        add(r, (known){hn_b_unary(r->g, HN_OP_RELU, x.v), x.exact, m, x.error, x.may_nan});
        return;
    case 3: add(r, unary_safe(r, HN_OP_TANH, x, 1, 2)); return;
    case 4: add(r, unary_safe(r, HN_OP_SIGMOID, x, 1, 2 + m)); return;
    case 5: add(r, unary_safe(r, HN_OP_ERF, x, 1, 2)); return;
    case 6:
        if (m <= 6) add(r, unary_safe(r, HN_OP_EXP, x, exp(m), 1 + m));
        return;
    case 7:
        if (m <= 100 && (x.exact || x.error * m < 1e-2))
            add(r, unary_safe(r, chance(r, 50) ? HN_OP_SIN : HN_OP_COS, x, 1, 1 + m * 20));
        return;
    case 8: {
        known y = {
            hn_b_binary(r->g, HN_OP_ADD, hn_b_unary(r->g, HN_OP_ABS, x.v), constant(r, 0.5, x.v)),
            false, m + 0.5, x.error * (1 + 2 * m) + unit_error(info(r, x.v)->dtype), x.may_nan};
        static const hn_op ops[] = {HN_OP_SQRT, HN_OP_LOG, HN_OP_RSQRT, HN_OP_RECIPROCAL,
                                    HN_OP_LOG1P};
        add(r, unary_safe(r, ops[below(r, 5)], y, m + 2, 3));
        return;
    }
    case 9:
    case 10: {
        static const hn_op ops[] = {HN_OP_FLOOR, HN_OP_CEIL, HN_OP_TRUNC, HN_OP_ROUND, HN_OP_SIGN};
        if (x.exact)
            add(r, (known){hn_b_unary(r->g, ops[below(r, 5)], x.v), true, m + 1, 0, x.may_nan});
        return;
    }
    case 11: add(r, (known){hn_b_unary(r->g, HN_OP_ISNAN, x.v), true, 1, 0, false}); return;
    default: {
        hn_dtype to = (hn_dtype)(1 + below(r, HN_DTYPE_COUNT - 1));
        known y = hn_gen_as_dtype(r, x, to);
        if (y.v) add(r, y);
    }
    }
}

/* y brought to x's dtype and a shape that broadcasts with x's. */
static known partner(gen *r, known x) {
    for (uint32_t attempt = 0; attempt < 6; attempt++) {
        known y = hn_gen_as_dtype(r, pick(r), info(r, x.v)->dtype);
        if (!y.v) continue;
        uint32_t ry = info(r, y.v)->rank, rx = info(r, x.v)->rank;
        bool fits = true;
        for (uint32_t d = 0; d < ry && d < rx; d++) {
            hn_expr a = info(r, x.v)->sizes[rx - 1 - d], b = info(r, y.v)->sizes[ry - 1 - d];
            bool same = size(r, x.v, rx - 1 - d) == size(r, y.v, ry - 1 - d);
            /* n - 1 that happens to be 1 does not repeat */
            fits &= same || hn_sym_is_value(r->sym, a, 1) || hn_sym_is_value(r->sym, b, 1);
        }
        if (fits) return y;
    }
    double c = (double)below(r, 9) - 4;
    if (info(r, x.v)->dtype == HN_DTYPE_U8 || info(r, x.v)->dtype == HN_DTYPE_BOOL) c = fabs(c);
    if (info(r, x.v)->dtype == HN_DTYPE_BOOL) c = c != 0;
    return (known){constant(r, c, x.v), true, fabs(c), 0, false};
}

static void step_binary(gen *r) {
    known x = pick(r), y = partner(r, x);
    hn_dtype dtype = info(r, x.v)->dtype;
    bool f = hn_dtype_is_float(dtype), b = dtype == HN_DTYPE_BOOL, nan = x.may_nan || y.may_nan,
         exact = x.exact && y.exact;
    double m = fmax(x.maxabs, y.maxabs), unit = exact ? 0 : unit_error(dtype),
           e = fmax(x.error, y.error);
    /* 16-bit floats hold few bits: their sums and products are exact only while tiny */
    bool keeps = !f || m <= (dtype == HN_DTYPE_BF16 ? 1 : dtype == HN_DTYPE_F16 ? 4 : 256);
    if (f && !keeps) unit = unit_error(dtype);
    switch (below(r, 11)) {
    case 0:
    case 1:
        add(r, (known){hn_b_binary(r->g, HN_OP_ADD, x.v, y.v), exact && keeps, x.maxabs + y.maxabs,
                       (e * 3 + unit) * 2, nan});
        return;
    case 2:
        if (!b)
            add(r, (known){hn_b_binary(r->g, HN_OP_SUB, x.v, y.v), exact && keeps,
                           x.maxabs + y.maxabs, (e * 3 + unit) * 2, nan});
        return;
    case 3:
    case 4:
        if (f && m > 64) return;
        add(r, (known){hn_b_binary(r->g, HN_OP_MUL, x.v, y.v),
                       exact && keeps && m <= 8 &&
                           !(f && dtype != HN_DTYPE_F32 && dtype != HN_DTYPE_F64),
                       f ? x.maxabs * y.maxabs : m,
                       x.error + y.error + fmax(unit, f ? unit_error(dtype) : 0), nan});
        return;
    case 5:
    case 6:
        add(r, (known){hn_b_binary(r->g, chance(r, 50) ? HN_OP_MIN : HN_OP_MAX, x.v, y.v), exact, m,
                       e, nan});
        return;
    case 7: {
        static const hn_op ops[] = {HN_OP_EQ, HN_OP_NE, HN_OP_LT, HN_OP_LE, HN_OP_GT, HN_OP_GE};
        if (exact)
            add(r, (known){hn_b_binary(r->g, ops[below(r, 6)], x.v, y.v), true, 1, 0, false});
        return;
    }
    case 8:
        if (f && m < 1e3) {
            hn_value d =
                hn_b_binary(r->g, HN_OP_ADD, hn_b_unary(r->g, HN_OP_ABS, y.v), constant(r, 1, y.v));
            add(r, (known){hn_b_binary(r->g, HN_OP_DIV, x.v, d), false, x.maxabs,
                           (x.error + y.error * (1 + y.maxabs)) * 2 + 4 * unit_error(dtype), nan});
        } else if (!f && !b) {
            static const hn_op ops[] = {HN_OP_DIV, HN_OP_FLOORDIV, HN_OP_REMAINDER, HN_OP_FMOD};
            add(r, (known){hn_b_binary(r->g, ops[below(r, 4)], x.v, y.v), true, 256, 0, false});
        }
        return;
    case 9:
        if (!f) {
            static const hn_op ops[] = {HN_OP_AND, HN_OP_OR, HN_OP_XOR};
            add(r, (known){hn_b_binary(r->g, ops[below(r, 3)], x.v, y.v), true, m * 2, 0, false});
        } else if (exact && m <= 64 && !nan) {
            static const hn_op ops[] = {HN_OP_FLOORDIV, HN_OP_REMAINDER, HN_OP_FMOD};
            add(r, (known){hn_b_binary(r->g, ops[below(r, 3)], x.v,
                                       hn_b_binary(r->g, HN_OP_ADD, y.v, constant(r, 0.5, y.v))),
                           false, m * 32, 1e-2, true});
            /* jumps: computed, but nobody may build on it; kept only as a live output below */
            r->count -= r->count > 1;
        }
        return;
    default: {
        /* the condition must meet both, so its partner is their broadcast */
        known both = {hn_b_binary(r->g, HN_OP_EQ, x.v, y.v), true, 1, 0, false};
        known c = hn_gen_as_dtype(r, partner(r, both), HN_DTYPE_BOOL);
        if (!c.v || !c.exact) return;
        add(r, (known){hn_b_where(r->g, c.v, x.v, y.v), exact, m, e, nan});
    }
    }
}

/* What a view step makes of `x`; 0: nothing. `d`: one of its dims, if it has any. */
typedef hn_value make_view(gen *r, hn_value x, uint32_t d);

static void copy_sizes(gen *r, hn_value x, hn_expr *sizes) {
    for (uint32_t k = 0; k < info(r, x)->rank; k++) sizes[k] = info(r, x)->sizes[k];
}

/* Flattens, or splits a dim. */
static hn_value make_reshape(gen *r, hn_value x, uint32_t d) {
    hn_expr sizes[HN_MAX_RANK];
    uint32_t rank = info(r, x)->rank;
    if (chance(r, 50) || !rank) {
        hn_expr n = num(r, numel(r, x));
        return hn_b_reshape(r->g, x, &n, 1);
    }
    copy_sizes(r, x, sizes);
    int64_t n = size(r, x, d), divisor = n % 2 == 0 && n ? 2 : n % 3 == 0 && n ? 3 : 1;
    memmove(&sizes[d + 1], &sizes[d], (rank - d) * sizeof *sizes);
    bool front = chance(r, 50);
    sizes[d] = num(r, front ? divisor : n / divisor);
    sizes[d + 1] = num(r, front ? n / divisor : divisor);
    return rank < 6 ? hn_b_reshape(r->g, x, sizes, rank + 1) : 0;
}

static hn_value make_permute(gen *r, hn_value x, uint32_t d) {
    uint32_t order[HN_MAX_RANK], rank = info(r, x)->rank;
    (void)d;
    for (uint32_t k = 0; k < rank; k++) order[k] = k;
    for (uint32_t k = rank; k-- > 1;) {
        uint32_t o = below(r, k + 1), t = order[k];
        order[k] = order[o];
        order[o] = t;
    }
    return hn_b_permute(r->g, x, order);
}

/* A dim of size 1 more, and perhaps an expand. */
static hn_value make_expand(gen *r, hn_value x, uint32_t d) {
    hn_expr sizes[HN_MAX_RANK];
    uint32_t rank = info(r, x)->rank;
    (void)d;
    if (rank >= 5) return 0;
    hn_value v = hn_b_unsqueeze(r->g, x, below(r, rank + 1));
    if (!chance(r, 60)) return v;
    for (uint32_t k = 0; k <= rank; k++) {
        bool grows = size(r, v, k) == 1 && chance(r, 50);
        int64_t n = grows ? 1 + below(r, 9) : size(r, v, k);
        /* a literal 1 only, see partner */
        bool is_one = hn_sym_is_value(r->sym, info(r, v)->sizes[k], 1);
        sizes[k] = num(r, is_one ? n : size(r, v, k));
    }
    return hn_b_expand(r->g, v, sizes, rank + 1);
}

static hn_value make_slice(gen *r, hn_value x, uint32_t d) {
    if (!info(r, x)->rank) return 0;
    int64_t n = size(r, x, d), start = n ? below(r, (uint32_t)n) : 0, step = 1 + below(r, 3);
    int64_t count = n ? (n - start + step - 1) / step : 0;
    if (chance(r, 25)) return hn_b_flip(r->g, x, d);
    return hn_b_slice(r->g, x, d, num(r, start), num(r, count), step);
}

static hn_value make_window(gen *r, hn_value x, uint32_t d) {
    uint32_t rank = info(r, x)->rank;
    if (!rank || rank >= 5 || size(r, x, d) < 3) return 0;
    int64_t n = size(r, x, d), k = 1 + below(r, 3), step = 1 + below(r, 2);
    return hn_b_window(r->g, x, d, num(r, (n - k) / step + 1), num(r, k), num(r, step), num(r, 1));
}

static hn_value make_pad(gen *r, hn_value x, uint32_t d) {
    hn_expr low[HN_MAX_RANK], high[HN_MAX_RANK];
    (void)d;
    for (uint32_t k = 0; k < info(r, x)->rank; k++) {
        low[k] = num(r, chance(r, 40) ? below(r, 3) : 0);
        high[k] = num(r, chance(r, 40) ? below(r, 3) : 0);
    }
    return hn_b_pad(r->g, x, is_float(r, x) ? hn_scalar_f(1) : hn_scalar_i(num(r, 1)), low, high);
}

static void step_view(gen *r) {
    static make_view *const views[] = {make_reshape, make_permute, make_permute, make_expand,
                                       make_slice,   make_slice,   make_window,  make_pad};
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank, d = rank ? below(r, rank) : 0;
    make_view *make = views[below(r, 8)];
    x.v = make(r, x.v, d);
    if (make == make_pad) x.maxabs = fmax(x.maxabs, 1);
    add(r, x);
}

/* An I64 value of x's shape (or its own) with 0 <= element < n. */
hn_value hn_gen_indices(gen *r, hn_value like, int64_t n) {
    known k = pick(r);
    hn_value base = 0;
    if (!is_float(r, k.v) && numel(r, k.v) <= 4096) base = hn_b_cast(r->g, k.v, HN_DTYPE_I64);
    if (!base || like) {
        hn_value shape = like ? like : k.v;
        int64_t total = numel(r, shape);
        base =
            hn_b_iota(r->g, hn_scalar_i(num(r, (int64_t)below(r, 50))),
                      hn_scalar_i(num(r, 1 + (int64_t)below(r, 7))), num(r, total), HN_DTYPE_I64);
        base = hn_b_reshape(r->g, base, info(r, shape)->sizes, info(r, shape)->rank);
    }
    return hn_b_binary(r->g, HN_OP_REMAINDER, base, hn_b_scalar(r->g, (double)n, HN_DTYPE_I64));
}

static void step_move(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank, d = rank ? below(r, rank) : 0;
    if (!rank) return;
    int64_t n = size(r, x.v, d);
    switch (below(r, 5)) {
    case 0:
    case 1: {
        hn_value parts[3] = {x.v, hn_b_flip(r->g, x.v, d), x.v};
        known y = partner(r, x);
        if (info(r, y.v)->rank == rank) {
            bool fits = true;
            for (uint32_t k = 0; k < rank; k++)
                fits &= k == d || size(r, x.v, k) == size(r, y.v, k);
            if (fits)
                parts[1] = y.v, x.maxabs = fmax(x.maxabs, y.maxabs), x.exact &= y.exact,
                x.may_nan |= y.may_nan, x.error = fmax(x.error, y.error);
        }
        x.v = hn_b_cat(r->g, parts, 1 + below(r, 3), d);
        break;
    }
    case 2:
        if (!n) return;
        x.v = hn_b_gather(r->g, x.v, hn_gen_indices(r, x.v, n), d);
        break;
    case 3: {
        if (!size(r, x.v, 0)) return;
        hn_value at = hn_gen_indices(r, 0, size(r, x.v, 0));
        if (info(r, at)->rank + rank - 1 > 6 ||
            numel(r, at) * numel(r, x.v) / size(r, x.v, 0) > MAX_NUMEL)
            return;
        x.v = hn_b_index(r->g, x.v, &at, 1, chance(r, 50));
        break;
    }
    /* distinct indices unless the mode adds: the winner of a clash is the last, here as there */
    default: {
        if (!n || info(r, x.v)->dtype == HN_DTYPE_BOOL) return;
        bool adds = chance(r, 50);
        hn_value at = hn_gen_indices(r, x.v, n);
        x.v = hn_b_scatter(r->g, x.v, at, x.v, d, adds ? "add" : "set");
        if (adds)
            x.maxabs *= (double)n + 1, x.exact &= x.maxabs < 100,
                x.error = x.error * 4 + (x.exact ? 0 : unit_error(info(r, x.v)->dtype) * 4);
    }
    }
    add(r, x);
}

static void step_reduce(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank, dims[HN_MAX_RANK], count = 0;
    int64_t n = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (chance(r, 50)) dims[count++] = d, n *= size(r, x.v, d);
    bool keep = chance(r, 40), f = is_float(r, x.v), is_bool = info(r, x.v)->dtype == HN_DTYPE_BOOL;
    hn_dtype dtype = info(r, x.v)->dtype;
    switch (below(r, 6)) {
    case 0:
    case 1: {
        if (dtype == HN_DTYPE_F16 || dtype == HN_DTYPE_BF16 || (!f && dtype != HN_DTYPE_I64)) {
            x = hn_gen_as_dtype(r, x, f ? HN_DTYPE_F32 : HN_DTYPE_I64);
            if (!x.v) return;
        }
        double m = x.maxabs * (double)(n > 0 ? n : 1);
        add(r, (known){hn_b_reduce(r->g, HN_OP_SUM, x.v, dims, count, keep), x.exact && m < 1e4, m,
                       f ? x.error * 4 + unit_error(HN_DTYPE_F32) * 8 : 0, x.may_nan});
        return;
    }
    case 2:
    case 3:
        if (!n) return;
        add(r, (known){hn_b_reduce(r->g, chance(r, 50) ? HN_OP_AMAX : HN_OP_AMIN, x.v, dims, count,
                                   keep),
                       x.exact, x.maxabs, x.error, x.may_nan});
        return;
    case 4:
        if (is_bool)
            add(r, (known){hn_b_reduce(r->g, chance(r, 50) ? HN_OP_ANY : HN_OP_ALL, x.v, dims,
                                       count, keep),
                           true, 1, 0, false});
        return;
    default:
        if (!n || !x.exact || is_bool) return;
        add(r, (known){hn_b_reduce(r->g, chance(r, 50) ? HN_OP_ARGMAX : HN_OP_ARGMIN, x.v, dims,
                                   count, keep),
                       true, 1e6, 0, false});
    }
}

/* x[.., k] * sums over the row: the softmax and norm shapes that fusion is for. */
static void step_normalise(gen *r) {
    known x = cast_for_float(r, pick(r));
    if (!x.v) return;
    uint32_t rank = info(r, x.v)->rank, d = rank ? rank - 1 : 0;
    hn_dtype dtype = info(r, x.v)->dtype;
    if (!rank || !size(r, x.v, d) || (dtype != HN_DTYPE_F32 && dtype != HN_DTYPE_F64) ||
        x.maxabs > 1e3)
        return;
    if (chance(r, 20)) d = below(r, rank);
    if (!size(r, x.v, d)) return;
    if (chance(r, 50)) {
        hn_value e = hn_b_unary(
            r->g, HN_OP_EXP,
            hn_b_binary(r->g, HN_OP_SUB, x.v, hn_b_reduce(r->g, HN_OP_AMAX, x.v, &d, 1, true)));
        add(r,
            (known){hn_b_binary(r->g, HN_OP_DIV, e, hn_b_reduce(r->g, HN_OP_SUM, e, &d, 1, true)),
                    false, 1,
                    (x.error + unit_error(dtype)) * (4 + 4 * x.maxabs) + 8 * unit_error(dtype),
                    x.may_nan});
        return;
    }
    hn_value n = constant(r, (double)size(r, x.v, d), x.v);
    hn_value c = hn_b_binary(
        r->g, HN_OP_SUB, x.v,
        hn_b_binary(r->g, HN_OP_DIV, hn_b_reduce(r->g, HN_OP_SUM, x.v, &d, 1, true), n));
    hn_value var = hn_b_binary(
        r->g, HN_OP_DIV,
        hn_b_reduce(r->g, HN_OP_SUM, hn_b_binary(r->g, HN_OP_MUL, c, c), &d, 1, true), n);
    hn_value rstd =
        hn_b_unary(r->g, HN_OP_RSQRT, hn_b_binary(r->g, HN_OP_ADD, var, constant(r, 0.5, x.v)));
    add(r, (known){hn_b_binary(r->g, HN_OP_MUL, c, rstd), false, x.maxabs * 2,
                   (x.error + unit_error(dtype)) * (8 + 8 * x.maxabs), x.may_nan});
}

static void step_rare(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank;
    if (!rank) return;
    uint32_t d = below(r, rank);
    hn_dtype dtype = info(r, x.v)->dtype;
    bool arithmetic = dtype == HN_DTYPE_F32 || dtype == HN_DTYPE_F64 || dtype == HN_DTYPE_I64;
    double m = x.maxabs * (double)(size(r, x.v, d) + 1);
    switch (below(r, 4)) {
    case 0:
        if (arithmetic)
            add(r, (known){hn_b_scan(r->g, HN_OP_CUMSUM, x.v, d, NULL), x.exact && m < 1e3, m,
                           x.error * 4 + unit_error(dtype) * 32, x.may_nan});
        return;
    case 1: {
        hn_value at = 0;
        if (!x.exact || dtype == HN_DTYPE_BOOL) return;
        hn_value v = hn_b_sort(r->g, x.v, d, chance(r, 50), true, &at);
        add(r, (known){v, true, x.maxabs, 0, x.may_nan});
        add(r, (known){at, true, 1e6, 0, false});
        return;
    }
    case 2: {
        if (dtype != HN_DTYPE_F32 || rank < 2 || rank > 3 || x.maxabs > 64) return;
        int64_t k = size(r, x.v, rank - 1);
        hn_value b = hn_b_transpose(r->g, x.v, rank - 1, rank - 2);
        add(r, (known){hn_b_matmul(r->g, x.v, b, 0), false, x.maxabs * x.maxabs * (double)(k + 1),
                       x.error * 4 + 1e-5, x.may_nan});
        return;
    }
    default:
        if (!x.exact || !arithmetic || !size(r, x.v, d)) return;
        hn_value at = 0,
                 v = hn_b_scan(r->g, chance(r, 50) ? HN_OP_CUMMAX : HN_OP_CUMMIN, x.v, d, &at);
        add(r, (known){v, true, x.maxabs, 0, x.may_nan});
        add(r, (known){at, true, 1e6, 0, false});
    }
}

void hn_gen_step(gen *r) {
    static void (*const steps[])(gen *) = {
        hn_gen_step_rarer, hn_gen_step_rarer, hn_gen_step_rarer, step_unary,  step_unary,
        step_unary,        step_binary,       step_binary,       step_binary, step_binary,
        step_view,         step_view,         step_view,         step_move,   step_reduce,
        step_reduce,       step_normalise,    step_rare};
    steps[below(r, sizeof steps / sizeof *steps)](r);
}

static hn_status add_output(gen *r, const known *x, double *out_tolerance) {
    out_tolerance[r->g->outputs.count] = x->error * fmax(1, x->maxabs) * 4;
    return hn_graph_add_output(
        r->g, (hn_output){.kind = HN_OUTPUT_USER, .value = x->v, .name = HN_STR("y")});
}

static hn_status add_outputs(gen *r, double *out_tolerance) {
    uint32_t outputs = 1 + below(r, 4), first = r->g->inputs.count - r->first_input;
    for (uint32_t k = 0; k < outputs && k < r->count; k++) {
        if (r->count - 1 - k < first && k) break;
        HN_TRY(add_output(r, &r->values[r->count - 1 - k], out_tolerance));
    }
    return NULL;
}

/* The last value, and some of those before. */
static hn_status add_some_outputs(gen *r, double *out_tolerance) {
    uint32_t count = 0;
    for (uint32_t k = r->count; k-- > 0 && count < OUTPUTS_MAX;) {
        if (k + 1 < r->count && !chance(r, 30)) continue;
        HN_TRY(add_output(r, &r->values[k], out_tolerance));
        count++;
    }
    return NULL;
}

static hn_status add_mutation(gen *r, double *out_tolerance) {
    uint32_t input;
    known x;
    hn_value v = chance(r, 15) ? hn_gen_mutation(r, &input, &x) : 0;
    if (!v) return NULL;
    out_tolerance[r->g->outputs.count] = x.error * fmax(1, x.maxabs) * 4;
    return hn_graph_add_output(r->g, (hn_output){.kind = HN_OUTPUT_MUTATION,
                                                 .value = v,
                                                 .target = input,
                                                 .name = r->g->inputs.items[input].name});
}

static hn_status begin(uint64_t state, hn_graph *g, gen **out) {
    gen *r;
    HN_NEW(g->arena, r, 1);
    *r = (gen){.state = state,
               .arena = g->arena,
               .sym = g->sym,
               .g = g,
               .first_input = g->inputs.count,
               .rounds = 1};
    r->symbolic = chance(r, 25);
    *out = r;
    return NULL;
}

hn_status hn_random_graph_add(uint64_t seed, hn_graph *g, double *out_tolerance) {
    gen *r;
    HN_TRY(begin(seed * 0x2545F4914F6CDD1Dull + 1, g, &r));
    uint32_t inputs = 1 + below(r, 3), steps = 3 + below(r, 20);
    for (uint32_t k = 0; k < inputs; k++) add_input(r);
    for (uint32_t k = 0; k < steps; k++) hn_gen_step(r);
    HN_TRY(add_outputs(r, out_tolerance));
    HN_TRY(add_mutation(r, out_tolerance));
    return hn_graph_status(g);
}

hn_status hn_random_contractions_add(uint64_t seed, hn_graph *g, double *out_tolerance) {
    gen *r;
    HN_TRY(begin(seed * 0x9E3779B97F4A7C15ull + 2, g, &r));
    uint32_t contractions = 1 + below(r, 3);
    for (uint32_t k = 0; (k < contractions || !r->count) && !hn_graph_status(g); k++) {
        hn_gen_step_contraction(r);
        for (uint32_t more = chance(r, 40) ? below(r, 4) : 0; more > 0 && r->count; more--)
            hn_gen_step(r);
    }
    HN_TRY(add_some_outputs(r, out_tolerance));
    return hn_graph_status(g);
}

hn_status hn_random_loops_add(uint64_t seed, hn_graph *g, double *out_tolerance) {
    gen *r;
    HN_TRY(begin(seed * 0xD1342543DE82EF95ull + 3, g, &r));
    const uint32_t inputs = 2 + below(r, 3), steps = 1 + below(r, 5);
    for (uint32_t k = 0; k < inputs; k++) add_input(r);
    for (uint32_t k = 0; k < steps; k++) {
        for (uint32_t more = below(r, 4); more > 0; more--) hn_gen_step(r);
        hn_gen_step_control(r);
    }
    for (uint32_t more = below(r, 3); more > 0; more--) hn_gen_step(r);
    HN_TRY(add_some_outputs(r, out_tolerance));
    HN_TRY(add_mutation(r, out_tolerance));
    return hn_graph_status(g);
}

hn_status hn_random_shared_add(uint64_t seed, hn_graph *g, double *out_tolerance) {
    gen *r;
    HN_TRY(begin(seed * 0xA24BAED4963EE407ull + 4, g, &r));
    hn_gen_inputs_shared(r);
    for (uint32_t steps = 4 + below(r, 12); steps > 0; steps--) {
        hn_gen_step_shared(r);
        if (chance(r, 8)) hn_gen_step(r);
    }
    HN_TRY(add_some_outputs(r, out_tolerance));
    return hn_graph_status(g);
}

hn_status hn_random_pieces_add(uint64_t seed, hn_graph *g, double *out_tolerance) {
    gen *r;
    HN_TRY(begin(seed * 0xE7037ED1A0B428DBull + 5, g, &r));
    hn_gen_inputs_shared(r);
    for (uint32_t steps = 2 + below(r, 6); steps > 0; steps--) {
        hn_gen_step_pieces(r);
        if (chance(r, 60)) hn_gen_step_shared(r);
        if (chance(r, 8)) hn_gen_step(r);
    }
    HN_TRY(add_some_outputs(r, out_tolerance));
    return hn_graph_status(g);
}

hn_status hn_random_rare_add(uint64_t seed, hn_graph *g, double *out_tolerance) {
    gen *r;
    HN_TRY(begin(seed * 0xBF58476D1CE4E5B9ull + 6, g, &r));
    hn_gen_inputs_rare(r);
    for (uint32_t steps = 2 + below(r, 5); steps > 0; steps--) {
        hn_gen_step_rare(r);
        if (chance(r, 8)) hn_gen_step(r);
    }
    HN_TRY(add_some_outputs(r, out_tolerance));
    return hn_graph_status(g);
}

hn_status hn_random_weights_add(uint64_t seed, hn_graph *g, double *out_tolerance) {
    gen *r;
    HN_TRY(begin(seed * 0x94D049BB133111EBull + 7, g, &r));
    for (uint32_t steps = 1 + below(r, 2); steps > 0; steps--) {
        hn_gen_step_weights(r);
        if (chance(r, 30)) hn_gen_step_shared(r);
    }
    HN_TRY(add_some_outputs(r, out_tolerance));
    return hn_graph_status(g);
}

/* Indexed by hn_random_family. */
static const struct {
    const char *option; /* behind a space */
    hn_status (*add)(uint64_t seed, hn_graph *g, double *out_tolerance);
} families[] = {{"", hn_random_graph_add},
                {" --contractions", hn_random_contractions_add},
                {" --loops", hn_random_loops_add},
                {" --shared", hn_random_shared_add},
                {" --pieces", hn_random_pieces_add},
                {" --rare", hn_random_rare_add},
                {" --weights", hn_random_weights_add}};

bool hn_random_family_named(const char *option, hn_random_family *out) {
    for (size_t k = 1; k < sizeof families / sizeof *families; k++) {
        if (strcmp(option, families[k].option + 1) != 0) continue;
        *out = (hn_random_family)k;
        return true;
    }
    return false;
}

const char *hn_random_family_option(hn_random_family family) { return families[family].option; }

hn_status hn_random_family_add(hn_random_family family, uint64_t seed, hn_graph *g,
                               double *out_tolerance) {
    return families[family].add(seed, g, out_tolerance);
}

hn_status hn_random_graph(uint64_t seed, hn_arena *arena, hn_sym *sym, hn_graph **out,
                          double *out_tolerance) {
    HN_TRY(hn_graph_create(arena, sym, out));
    return hn_random_graph_add(seed, *out, out_tolerance);
}

/* Among the first `count` inputs. */
static uint32_t user_input_count(const hn_graph *g, uint32_t count) {
    uint32_t users = 0;
    for (uint32_t k = 0; k < count; k++) users += g->inputs.items[k].kind == HN_INPUT_USER;
    return users;
}

hn_status hn_random_inputs(uint64_t seed, hn_arena *arena, hn_graph *graph, uint32_t first,
                           hn_ref_tensor *out) {
    uint64_t state = seed ^ 0xABCDEF;
    out += user_input_count(graph, first);
    for (uint32_t k = first; k < graph->inputs.count; k++) {
        if (graph->inputs.items[k].kind != HN_INPUT_USER) continue;
        const hn_value_info *vi = hn_graph_value(graph, graph->inputs.items[k].value);
        int64_t sizes[HN_MAX_RANK];
        for (uint32_t d = 0; d < vi->rank; d++) sizes[d] = hn_sym_hint(graph->sym, vi->sizes[d], 8);
        HN_TRY(hn_ref_tensor_init(arena, vi->dtype, vi->rank, sizes, out));
        bool f = hn_dtype_is_float(vi->dtype);
        for (int64_t i = 0; i < out->numel; i++) {
            int64_t n = (int64_t)(next(&state) % 33) - 16;
            if (f) out->data.f[i] = (double)n / 4;
            else
                out->data.i[i] = vi->dtype == HN_DTYPE_BOOL ? n > 0
                                 : vi->dtype == HN_DTYPE_U8 ? (n < 0 ? -n : n) / 4
                                                            : n / 4;
        }
        out++;
    }
    return NULL;
}

/* --- scatters --- */

static void take_largest(hn_arg *mode) {
    if (hn_str_eq(mode->as.s, HN_STR("set"))) mode->as.s = HN_STR("max");
}

void hn_random_graph_any_order(hn_graph *g) {
    for (hn_node n = 1; n < g->nodes.count; n++) {
        hn_node_info *node = hn_graph_node(g, n);
        if (node->op == HN_OP_SCATTER) take_largest(&node->args[4]);
        if (node->op == HN_OP_INDEX_PUT) take_largest(&node->args[3]);
        for (uint32_t k = 0; k < node->arg_count; k++)
            if (node->args[k].kind == HN_ARG_GRAPH)
                hn_random_graph_any_order(node->args[k].as.graph);
    }
}

/* --- running --- */

static hn_status make_tensor(hn_arena *arena, const hn_ref_tensor *from, hn_tensor **out) {
    void *bytes;
    HN_TRY(hn_arena_array(arena, (size_t)from->numel + 1, hn_dtype_facts(from->dtype)->size_bytes,
                          &bytes));
    hn_ref_tensor_store(from, bytes);
    HN_TRY(hn_tensor_create(&(hn_tensor_desc){.type = (hn_scalar_type)from->dtype,
                                              .rank = from->rank,
                                              .sizes = from->sizes},
                            out));
    hn_tensor_copy_in(*out, bytes);
    return NULL;
}

static hn_status compare(hn_arena *arena, const hn_tensor *actual, const hn_ref_tensor *expected,
                         double tolerance, uint32_t k) {
    void *bytes;
    hn_ref_tensor got;
    HN_TRY(hn_arena_array(arena, (size_t)hn_tensor_numel(actual) + 1,
                          hn_scalar_type_bytes(hn_tensor_type(actual)), &bytes));
    hn_tensor_copy_out(actual, bytes);
    HN_TRY(hn_ref_tensor_load(arena, (hn_dtype)hn_tensor_type(actual), hn_tensor_rank(actual),
                              hn_tensor_sizes(actual), NULL, bytes, &got));
    hn_strbuf why;
    hn_strbuf_init(&why);
    hn_status status = NULL;
    if (!hn_ref_compare(&got, expected, tolerance, tolerance, &why))
        status = HN_ERROR(HN_INTERNAL, "output %u differs from the interpreter: %s", k,
                          why.ptr ? why.ptr : "");
    hn_strbuf_deinit(&why);
    return status;
}

/* What the module wrote into an input. */
static hn_status compare_mutation(hn_arena *arena, const hn_module *module, hn_tensor *const *in,
                                  uint32_t k, const hn_ref_tensor *expected, double tolerance,
                                  uint32_t output) {
    hn_module_mutation_info info;
    HN_TRY(hn_module_mutation_info_get(module, k, &info));
    if (info.input < 0) return HN_ERROR(HN_INTERNAL, "mutation %u is of no input", k);
    return compare(arena, in[info.input], expected, tolerance, output);
}

/* Which inputs the program may take, for a run that gives up all of these. */
static hn_status donated_inputs(const hn_module *module, uint32_t input_count, uint32_t *out,
                                uint32_t *out_count) {
    hn_module_value_info info;
    *out_count = 0;
    for (uint32_t k = 0; k < input_count; k++) {
        HN_TRY(hn_module_input_info(module, k, &info));
        if (info.is_donated) out[(*out_count)++] = k;
    }
    return NULL;
}

static hn_status run_module(hn_module *module, hn_tensor *const *in, uint32_t input_count,
                            hn_tensor **out, uint32_t out_count) {
    uint32_t donated[HN_RANDOM_MAX_TENSORS];
    hn_run_options options = {.donated = donated};
    HN_TRY(donated_inputs(module, input_count, donated, &options.donated_count));
    return hn_module_run_with(module, &options, in, input_count, out, out_count);
}

static hn_status run(hn_arena *arena, hn_module *module, const hn_graph *g,
                     const hn_ref_tensor *inputs, uint32_t input_count,
                     const hn_ref_tensor *expected, const double *tolerance) {
    hn_tensor *in[HN_RANDOM_MAX_TENSORS] = {NULL}, *out[HN_RANDOM_MAX_TENSORS] = {NULL};
    uint32_t user = 0, mutation = 0, users = hn_module_output_count(module);
    hn_status status = NULL;
    for (uint32_t k = 0; k < input_count && !status; k++)
        status = make_tensor(arena, &inputs[k], &in[k]);
    if (!status) status = run_module(module, in, input_count, out, users);
    for (uint32_t k = 0; k < g->outputs.count && !status; k++)
        status =
            g->outputs.items[k].kind == HN_OUTPUT_MUTATION
                ? compare_mutation(arena, module, in, mutation++, &expected[k], tolerance[k], k)
                : compare(arena, out[user++], &expected[k], tolerance[k], k);
    for (uint32_t k = 0; k < HN_RANDOM_MAX_TENSORS; k++) {
        hn_tensor_release(in[k]);
        hn_tensor_release(out[k]);
    }
    return status;
}

static const char *const pool_names[] = {[HN_MEMORY_POOL_INTERMEDIATES] = "intermediates",
                                         [HN_MEMORY_POOL_NONE] = "none",
                                         [HN_MEMORY_POOL_OUTPUTS] = "outputs",
                                         [HN_MEMORY_POOL_COMBINED] = "combined"};

bool hn_random_pool_named(const char *name, hn_memory_pool *out) {
    for (size_t k = 0; k < sizeof pool_names / sizeof *pool_names; k++)
        if (strcmp(name, pool_names[k]) == 0) return *out = (hn_memory_pool)k, true;
    return false;
}

const char *hn_random_pool_name(hn_memory_pool pool) { return pool_names[pool]; }

/* By number: every input that the graph does not change. */
static hn_status list_donated(hn_arena *arena, const hn_graph *g, hn_compile_options *out) {
    const char **names;
    HN_NEW(arena, names, g->inputs.count);
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        bool is_changed = false;
        for (uint32_t o = 0; o < g->outputs.count; o++)
            is_changed |=
                g->outputs.items[o].kind == HN_OUTPUT_MUTATION && g->outputs.items[o].target == k;
        if (!is_changed) names[out->donated_count++] = hn_arena_printf(arena, "%u", k);
    }
    out->donated = names;
    return NULL;
}

hn_status hn_check_against_interpreter(hn_graph *graph, hn_service *service,
                                       const hn_ref_tensor *inputs, const double *tolerance,
                                       const hn_compile_options *how, bool donates) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_compile_options options = {.no_fusion = how && how->no_fusion,
                                  .target = how ? how->target : NULL,
                                  .deterministic = how && how->deterministic,
                                  .memory_pool =
                                      how ? how->memory_pool : HN_MEMORY_POOL_INTERMEDIATES,
                                  .compile_threads = 1,
                                  .threads = 2};
    hn_ref_tensor expected[HN_RANDOM_MAX_TENSORS];
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    uint32_t input_count = user_input_count(graph, graph->inputs.count);
    hn_status status = hn_interpret(&arena, graph, inputs, input_count, expected);
    if (status) status = hn_status_annotate(status, "interpreter");
    if (!status && donates) status = list_donated(&arena, graph, &options);
    if (!status) status = hn_compile_graph(graph, service, &options, &compiled);
    if (!status) status = hn_compiled_load(compiled, &(hn_module_options){.threads = 2}, &module);
    if (!status) status = run(&arena, module, graph, inputs, input_count, expected, tolerance);
    hn_module_release(module);
    hn_compiled_release(compiled);
    hn_arena_deinit(&arena);
    return status;
}
