/* random_shared.c: steps of graphs whose values are all over the same few dims, in any order: what
 * fusion meets when many loops read the same. Batch norms and their gradients, sums over any dims of
 * what other nodes read too, transposed and reversed readers, pieces of rows and what is put together
 * of them. */
#include "tests/support/random_gen.h"

static known any_float(gen *r) {
    for (uint32_t attempt = 0; attempt < 4; attempt++) {
        known x = pick(r);
        if (is_float(r, x.v) && x.maxabs < 1e3 && !x.may_nan) return x;
    }
    return (known){0};
}

/* y over the dims of x: each goes to one of x's that has its size. 0: it has others. */
static hn_value over_dims_of(gen *r, hn_value y, hn_value x) {
    uint32_t rank = info(r, x)->rank, ry = info(r, y)->rank, order[HN_MAX_RANK] = {0}, count = 0;
    bool used[HN_MAX_RANK] = {false}, has[HN_MAX_RANK] = {false};
    const uint32_t first = below(r, rank ? rank : 1);
    for (uint32_t k = 0; k < rank; k++) {
        const uint32_t d = chance(r, 70) ? k : (k + first) % rank;
        for (uint32_t e = 0; e < ry && !has[d]; e++) {
            const uint32_t from = (e + first) % ry;
            if (used[from] || info(r, y)->sizes[from] != info(r, x)->sizes[d]) continue;
            used[from] = has[d] = true;
            order[d] = from;
        }
    }
    uint32_t dims[HN_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        if (has[d]) dims[count++] = order[d];
    if (count != ry) return 0;
    hn_value v = ry ? hn_b_permute(r->g, y, dims) : y;
    for (uint32_t d = 0; d < rank; d++)
        if (!has[d]) v = hn_b_unsqueeze(r->g, v, d);
    return v;
}

static void step_combine(gen *r) {
    known x = any_float(r), y = any_float(r);
    if (!x.v || !y.v || info(r, y.v)->rank > info(r, x.v)->rank) return;
    const hn_dtype dtype = info(r, x.v)->dtype;
    y = hn_gen_as_dtype(r, y, dtype);
    hn_value v = y.v ? over_dims_of(r, y.v, x.v) : 0;
    if (!v) return;
    const bool adds = chance(r, 60) || x.maxabs > 16 || y.maxabs > 16;
    const double unit = unit_error(dtype);
    if (adds)
        add(r, (known){hn_b_binary(r->g, chance(r, 50) ? HN_OP_ADD : HN_OP_SUB, x.v, v), false,
                       x.maxabs + y.maxabs, (x.error + y.error) * 3 + 2 * unit, false});
    else
        add(r, (known){hn_b_binary(r->g, HN_OP_MUL, x.v, v), false, x.maxabs * y.maxabs,
                       x.error + y.error + 2 * unit, false});
}

static void step_function(gen *r) {
    known x = any_float(r);
    if (!x.v) return;
    const double unit = unit_error(info(r, x.v)->dtype);
    static const hn_op ops[] = {HN_OP_RELU, HN_OP_NEG, HN_OP_ABS, HN_OP_TANH, HN_OP_SIGMOID};
    const uint32_t k = below(r, 5);
    add(r, (known){hn_b_unary(r->g, ops[k], x.v), x.exact && k < 3, k < 3 ? x.maxabs : 1,
                   k < 3 ? x.error : x.error * (2 + x.maxabs) + 4 * unit, false});
}

/* Some dims of x; `*out_elems`: how many elements meet. */
static uint32_t some_dims(gen *r, hn_value x, uint32_t dims[HN_MAX_RANK], int64_t *out_elems) {
    uint32_t count = 0;
    *out_elems = 1;
    for (uint32_t d = 0; d < info(r, x)->rank; d++)
        if (chance(r, 55)) dims[count++] = d, *out_elems *= size(r, x, d);
    return count;
}

static known float_for_sums(gen *r) {
    known x = any_float(r);
    if (!x.v || info(r, x.v)->dtype == HN_DTYPE_F64) return x;
    return hn_gen_as_dtype(r, x, HN_DTYPE_F32);
}

static void step_sum(gen *r) {
    known x = float_for_sums(r);
    uint32_t dims[HN_MAX_RANK];
    int64_t n;
    if (!x.v) return;
    const uint32_t count = some_dims(r, x.v, dims, &n);
    const bool sums = chance(r, 70);
    if (!n || x.maxabs * (double)n > 1e4) return;
    add(r,
        (known){hn_b_reduce(r->g, sums ? HN_OP_SUM : HN_OP_AMAX, x.v, dims, count, chance(r, 30)),
                false, sums ? x.maxabs * (double)n : x.maxabs,
                x.error * 4 + unit_error(HN_DTYPE_F32) * 8, false});
}

/* The norm of a batch, of rows or of anything between. */
static void step_norm(gen *r) {
    known x = float_for_sums(r);
    uint32_t dims[HN_MAX_RANK];
    int64_t n;
    if (!x.v || x.maxabs > 30 || x.error > 1e-3) return;
    const uint32_t count = some_dims(r, x.v, dims, &n);
    if (!n) return;
    const hn_value many = constant(r, (double)n, x.v);
    const hn_value mean = hn_b_binary(r->g, HN_OP_DIV,
                                      hn_b_reduce(r->g, HN_OP_SUM, x.v, dims, count, true), many),
                   centred = hn_b_binary(r->g, HN_OP_SUB, x.v, mean),
                   squares = hn_b_binary(r->g, HN_OP_MUL, centred, centred),
                   var =
                       hn_b_binary(r->g, HN_OP_DIV,
                                   hn_b_reduce(r->g, HN_OP_SUM, squares, dims, count, true), many);
    hn_value y = hn_b_binary(
        r->g, HN_OP_MUL, centred,
        hn_b_unary(r->g, HN_OP_RSQRT, hn_b_binary(r->g, HN_OP_ADD, var, constant(r, 0.5, x.v))));
    if (chance(r, 50)) y = hn_b_unary(r->g, HN_OP_RELU, y);
    add(r, (known){y, false, x.maxabs * 2,
                   (x.error + unit_error(info(r, x.v)->dtype)) * (8 + 8 * x.maxabs), false});
}

/* What a batch norm's backward pass does: two sums of the same, and what reads them. */
static void step_gradient(gen *r) {
    known x = float_for_sums(r), g = float_for_sums(r);
    uint32_t dims[HN_MAX_RANK];
    int64_t n;
    if (!x.v || !g.v || x.maxabs > 8 || g.maxabs > 8 || info(r, g.v)->rank != info(r, x.v)->rank)
        return;
    g = hn_gen_as_dtype(r, g, info(r, x.v)->dtype);
    const hn_value dy = g.v ? over_dims_of(r, g.v, x.v) : 0;
    const uint32_t count = some_dims(r, x.v, dims, &n);
    if (!dy || !n || n > 4000) return;
    const hn_value many = constant(r, (double)n, x.v),
                   sum = hn_b_binary(r->g, HN_OP_DIV,
                                     hn_b_reduce(r->g, HN_OP_SUM, dy, dims, count, true), many),
                   product = hn_b_binary(r->g, HN_OP_DIV,
                                         hn_b_reduce(r->g, HN_OP_SUM,
                                                     hn_b_binary(r->g, HN_OP_MUL, dy, x.v), dims,
                                                     count, true),
                                         many),
                   dx = hn_b_binary(r->g, HN_OP_SUB, hn_b_binary(r->g, HN_OP_SUB, dy, sum),
                                    hn_b_binary(r->g, HN_OP_MUL, x.v, product));
    const double error = (x.error + g.error) * 16 + unit_error(HN_DTYPE_F32) * 16;
    add(r, (known){dx, false, g.maxabs * 2 + x.maxabs * x.maxabs * g.maxabs, error * 4, false});
    if (chance(r, 60)) add(r, (known){product, false, x.maxabs * g.maxabs, error, false});
}

static void step_turn(gen *r) {
    known x = pick(r);
    const uint32_t rank = info(r, x.v)->rank;
    if (!rank) return;
    if (chance(r, 35)) x.v = hn_b_flip(r->g, x.v, below(r, rank));
    else if (rank > 1) x.v = hn_b_transpose(r->g, x.v, below(r, rank), below(r, rank));
    add(r, x);
}

/* The two halves of each row in the other order, one with the other sign: rotary embeddings. */
static void step_rotate(gen *r) {
    known x = any_float(r);
    if (!x.v || !info(r, x.v)->rank) return;
    const uint32_t d = chance(r, 70) ? info(r, x.v)->rank - 1 : below(r, info(r, x.v)->rank);
    const int64_t n = size(r, x.v, d), k = n / 2;
    hn_value parts[2] = {
        hn_b_unary(r->g, HN_OP_NEG, hn_b_slice(r->g, x.v, d, num(r, k), num(r, n - k), 1)),
        hn_b_slice(r->g, x.v, d, num(r, 0), num(r, k), 1)};
    if (n < 2) return;
    if (chance(r, 30)) {
        x.v = parts[below(r, 2)]; /* a piece of each row */
        add(r, x);
        return;
    }
    x.v = hn_b_cat(r->g, parts, 2, d);
    if (n % 2 == 0) add(r, x);
}

/* A few elements put behind the others, along one dim or two (windows that are shifted), or others put
 * in front (a token); and perhaps some of what that is, read by an op. */
static hn_value turned(gen *r, hn_value x, uint32_t d, int64_t head) {
    const int64_t n = size(r, x, d);
    hn_value parts[2] = {hn_b_slice(r->g, x, d, num(r, head), num(r, n - head), 1),
                         hn_b_slice(r->g, x, d, num(r, 0), num(r, head), 1)};
    return hn_b_cat(r->g, parts, 2, d);
}

void hn_gen_step_pieces(gen *r) {
    known x = any_float(r);
    if (!x.v || !info(r, x.v)->rank) return;
    const uint32_t rank = info(r, x.v)->rank, d = below(r, rank), e = below(r, rank);
    const int64_t n = size(r, x.v, d), head = n ? below(r, (uint32_t)n + 1) : 0;
    if (n < 2 || numel(r, x.v) * 2 > MAX_NUMEL) return;
    if (chance(r, 50)) {
        x.v = turned(r, x.v, d, head);
        if (chance(r, 60) && size(r, x.v, e) > 1)
            x.v = turned(r, x.v, e, 1 + below(r, (uint32_t)size(r, x.v, e) - 1));
    } else {
        hn_value parts[3] = {hn_b_slice(r->g, x.v, d, num(r, 0), num(r, head), 1), x.v,
                             hn_b_unary(r->g, HN_OP_NEG, x.v)};
        x.v = hn_b_cat(r->g, parts, 2 + (head < n && chance(r, 20)), d);
    }
    if (chance(r, 30)) x.v = hn_b_flip(r->g, x.v, d);
    if (chance(r, 30)) {
        const int64_t all = size(r, x.v, d), step = 1 + below(r, 2), from = below(r, 2);
        if (all > 2)
            x.v = hn_b_slice(r->g, x.v, d, num(r, from), num(r, (all - from) / step), step);
    }
    if (chance(r, 80)) x.v = hn_b_unary(r->g, HN_OP_NEG, x.v);
    add(r, x);
}

/* Two dims as one. */
static void step_merge(gen *r) {
    known x = pick(r);
    hn_expr sizes[HN_MAX_RANK];
    const uint32_t rank = info(r, x.v)->rank, d = rank > 1 ? below(r, rank - 1) : 0;
    if (rank < 2) return;
    for (uint32_t k = 0, at = 0; k < rank; k++)
        if (k == d + 1) sizes[at - 1] = num(r, size(r, x.v, d) * size(r, x.v, d + 1));
        else sizes[at++] = info(r, x.v)->sizes[k];
    x.v = hn_b_reshape(r->g, x.v, sizes, rank - 1);
    add(r, x);
}

void hn_gen_step_shared(gen *r) {
    static void (*const steps[])(gen *) = {step_combine, step_combine,  step_combine, step_function,
                                           step_sum,     step_sum,      step_norm,    step_norm,
                                           step_turn,    step_gradient, step_rotate,  step_merge};
    steps[below(r, sizeof steps / sizeof *steps)](r);
}

void hn_gen_inputs_shared(gen *r) {
    static const int64_t known_sizes[] = {2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 64, 65};
    hn_expr dims[4];
    const uint32_t rank = 2 + below(r, 3), inputs = 1 + below(r, 3);
    int64_t total = 1;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t n = chance(r, 4) ? 0 : chance(r, 8) ? 1 : known_sizes[below(r, 15)];
        if (total * n > MAX_NUMEL) n = 1;
        total *= n ? n : 1;
        dims[d] = r->symbolic && n > 1 && chance(r, 50) ? hn_gen_symbol(r, n) : num(r, n);
    }
    for (uint32_t k = 0; k < inputs; k++) {
        hn_expr sizes[4];
        uint32_t count = 0;
        const bool turned = chance(r, 30);
        for (uint32_t d = 0; d < rank; d++)
            if (!k || chance(r, 75)) sizes[count++] = dims[turned ? rank - 1 - d : d];
        const hn_dtype dtype = chance(r, 80)   ? HN_DTYPE_F32
                               : chance(r, 50) ? HN_DTYPE_F64
                                               : HN_DTYPE_BF16;
        add(r, (known){.v = hn_gen_input(r, dtype, sizes, count), .exact = true, .maxabs = 4});
    }
}
