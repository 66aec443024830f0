/* random_steps.c: the rarer steps of the generator of random graphs: what few models do, and what
 * they do seldom. */
#include "tests/support/random_gen.h"

static bool is_arithmetic(gen *r, hn_value v) {
    hn_dtype dtype = info(r, v)->dtype;
    return dtype == HN_DTYPE_F32 || dtype == HN_DTYPE_F64 || dtype == HN_DTYPE_I64;
}

hn_value hn_gen_weight(gen *r, const hn_expr *sizes, uint32_t rank, hn_dtype dtype) {
    hn_expr total = hn_sym_product(r->sym, sizes, rank);
    hn_value x = hn_b_iota(r->g, hn_scalar_i(num(r, below(r, 20))),
                           hn_scalar_i(num(r, 3 + 2 * (int64_t)below(r, 4))), total, HN_DTYPE_I64);
    x = hn_b_binary(r->g, HN_OP_REMAINDER, x, hn_b_scalar(r->g, 9, HN_DTYPE_I64));
    x = hn_b_binary(r->g, HN_OP_SUB, x, hn_b_scalar(r->g, 4, HN_DTYPE_I64));
    x = hn_b_cast(r->g, hn_b_reshape(r->g, x, sizes, rank), dtype);
    return hn_b_binary(r->g, HN_OP_MUL, x, hn_b_scalar(r->g, 0.25, dtype));
}

static void step_conv(gen *r) {
    known x = hn_gen_as_dtype(r, pick(r), HN_DTYPE_F32);
    if (!x.v || x.maxabs > 64) return;
    uint32_t rank = info(r, x.v)->rank;
    if (rank < 3 || rank > 4 || !numel(r, x.v) || size(r, x.v, 1) > 32 || numel(r, x.v) > 4000)
        return;
    hn_conv_params p = {.spatial = rank - 2, .groups = 1, .transposed = chance(r, 25)};
    hn_expr w[4], c = info(r, x.v)->sizes[1];
    int64_t channels, out = 1 + below(r, 5), taps = 1;
    bool fixed = hn_sym_is_int(r->sym, c, &channels);
    if (fixed && chance(r, 30)) p.groups = channels; /* depthwise */
    w[p.transposed] = num(r, p.transposed ? out : out * p.groups);
    w[!p.transposed] = p.transposed || p.groups == 1 ? c : num(r, 1);
    for (uint32_t k = 0; k < p.spatial; k++) {
        int64_t kernel = 1 + below(r, 3), stride = 1 + below(r, 2), dilation = 1 + below(r, 2),
                reach = dilation * (kernel - 1);
        if (!p.transposed && size(r, x.v, 2 + k) <= reach) kernel = 1, reach = 0;
        w[2 + k] = num(r, kernel);
        taps *= kernel;
        p.stride[k] = num(r, stride);
        p.dilation[k] = num(r, dilation);
        p.padding[k] = num(r, p.transposed ? 0 : below(r, (uint32_t)reach / 2 + 1));
        p.output_padding[k] = num(r, 0);
    }
    hn_value bias =
        chance(r, 50) ? hn_gen_weight(r, (hn_expr[]){num(r, out * p.groups)}, 1, HN_DTYPE_F32) : 0;
    double m = x.maxabs * (double)(taps * size(r, x.v, 1)) + 1;
    add(r, (known){hn_b_conv(r->g, x.v, hn_gen_weight(r, w, rank, HN_DTYPE_F32), bias, &p), false,
                   m, x.error * 4 + 1e-5, x.may_nan});
}

static void step_attention(gen *r) {
    known x = hn_gen_as_dtype(r, pick(r), HN_DTYPE_F32);
    if (!x.v || x.maxabs > 4 || x.may_nan || x.error > 1e-4) return;
    uint32_t rank = info(r, x.v)->rank;
    if (rank < 3 || rank > 4 || !numel(r, x.v) || numel(r, x.v) > 6000) return;
    int64_t d = size(r, x.v, rank - 1);
    hn_value k = hn_b_flip(r->g, x.v, rank - 2), v = hn_b_flip(r->g, x.v, rank - 1), mask = 0;
    if (chance(r, 40))
        mask = hn_gen_weight(r, (hn_expr[]){info(r, x.v)->sizes[rank - 2]}, 1, HN_DTYPE_F32);
    double scale = 1 / sqrt((double)d);
    add(r, (known){hn_b_attention(r->g, x.v, k, v, mask, scale, chance(r, 40)), false, x.maxabs,
                   (x.error + 3e-7) * (4 + 8 * x.maxabs * x.maxabs * (double)d) * 4, false});
}

static void step_matmul(gen *r) {
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_F64, HN_DTYPE_F16, HN_DTYPE_BF16,
                                      HN_DTYPE_I64};
    known x = pick(r);
    if (chance(r, 60)) x = hn_gen_as_dtype(r, x, dtypes[below(r, 5)]);
    if (!x.v || x.maxabs > 64 || info(r, x.v)->rank < 2 || info(r, x.v)->rank > 4) return;
    uint32_t rank = info(r, x.v)->rank;
    hn_dtype dtype = info(r, x.v)->dtype;
    bool known_dtype = false;
    for (int k = 0; k < 5; k++) known_dtype |= dtypes[k] == dtype;
    if (!known_dtype) return;
    int64_t k = size(r, x.v, rank - 1), n = 1 + below(r, 20);
    hn_expr sizes[HN_MAX_RANK];
    memcpy(sizes, info(r, x.v)->sizes, rank * sizeof *sizes);
    sizes[rank - 2] = sizes[rank - 1];
    sizes[rank - 1] = num(r, n);
    if (numel(r, x.v) / (k ? k : 1) * n > MAX_NUMEL || numel(r, x.v) * n > 200000) return;
    bool f = hn_dtype_is_float(dtype);
    hn_value b = f ? hn_gen_weight(r, sizes, rank, dtype)
                   : hn_b_cast(r->g, hn_gen_weight(r, sizes, rank, HN_DTYPE_F32), dtype);
    hn_value bias = f && chance(r, 40) ? hn_gen_weight(r, &sizes[rank - 1], 1, dtype) : 0;
    double m = x.maxabs * (double)(k + 1) + 1;
    if (dtype == HN_DTYPE_F16 && m > 1000) return;
    add(r, (known){hn_b_matmul(r->g, x.v, b, bias), !f, f ? m : 256,
                   f ? x.error * 4 + unit_error(dtype) * 16 + 1e-13 : 0, x.may_nan});
}

/* NaN is largest, and of equal values the first comes first: exact values only. */
static void step_topk(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank, d = rank ? below(r, rank) : 0;
    if (!rank || !x.exact || info(r, x.v)->dtype == HN_DTYPE_BOOL || !size(r, x.v, d)) return;
    hn_value at = 0, v = hn_b_topk(r->g, x.v, num(r, 1 + below(r, (uint32_t)size(r, x.v, d))), d,
                                   chance(r, 50), true, &at);
    /* which of equal ones is meant is free: the places are not compared */
    add(r, (known){v, true, x.maxabs, 0, x.may_nan});
}

static void step_product(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank, d = rank ? below(r, rank) : 0;
    if (!rank || !is_arithmetic(r, x.v) || size(r, x.v, d) > 6 ||
        (is_float(r, x.v) && x.maxabs > 4))
        return;
    bool f = is_float(r, x.v);
    double n = (double)size(r, x.v, d), m = f ? fmax(1, pow(x.maxabs, n)) : 256,
           e = f ? (x.error * n + unit_error(info(r, x.v)->dtype)) * 8 : 0;
    bool scan = chance(r, 50);
    hn_value v = scan ? hn_b_scan(r->g, HN_OP_CUMPROD, x.v, d, NULL)
                      : hn_b_reduce(r->g, HN_OP_PROD, x.v, &d, 1, chance(r, 50));
    add(r, (known){v, !f, m, e, x.may_nan});
}

static void step_logcumsumexp(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank;
    if (!rank || !is_float(r, x.v) || !is_arithmetic(r, x.v) || x.maxabs > 20) return;
    hn_value v = hn_b_scan(r->g, HN_OP_LOGCUMSUMEXP, x.v, below(r, rank), NULL);
    add(r, (known){v, false, x.maxabs + 10, (x.error + unit_error(info(r, x.v)->dtype)) * 64,
                   x.may_nan});
}

/* Every way to combine; of a clash of "set" the last wins, here as there. */
static void step_scatter(gen *r) {
    static const char *const modes[] = {"set", "add", "mul", "min", "max"};
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank, d = rank ? below(r, rank) : 0, mode = below(r, 5);
    if (!rank || !x.exact || info(r, x.v)->dtype == HN_DTYPE_BOOL) return;
    int64_t n = size(r, x.v, d);
    if (!n || (mode == 1 && x.maxabs * (double)(n + 1) > 100)) return;
    /* products round; on integers they wrap */
    if (mode == 2 && (is_float(r, x.v) || x.maxabs > 100)) return;
    if (mode == 1) x.maxabs *= (double)n + 1;
    /* sums of 16-bit floats round at every step */
    if (mode == 1 && unit_error(info(r, x.v)->dtype) > 1e-6) return;
    x.v = hn_b_scatter(r->g, x.v, hn_gen_indices(r, x.v, n), x.v, d, modes[mode]);
    add(r, x);
}

static void step_index_put(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank;
    if (!rank || !size(r, x.v, 0) || !x.exact || info(r, x.v)->dtype == HN_DTYPE_BOOL ||
        x.maxabs > 50)
        return;
    bool adds = chance(r, 50) && unit_error(info(r, x.v)->dtype) < 1e-6;
    hn_expr count = num(r, 1 + below(r, 6));
    hn_value at = hn_b_iota(r->g, hn_scalar_i(num(r, below(r, 5))),
                            hn_scalar_i(num(r, 1 + below(r, 3))), count, HN_DTYPE_I64);
    at = hn_b_binary(r->g, HN_OP_REMAINDER, at,
                     hn_b_scalar(r->g, (double)size(r, x.v, 0), HN_DTYPE_I64));
    hn_value one = hn_b_scalar(r->g, 1, info(r, x.v)->dtype);
    x.v = hn_b_index_put(r->g, x.v, &at, 1, one, adds ? "add" : "set", chance(r, 50));
    x.maxabs = fmax(x.maxabs, 1) + (adds ? 6 : 0);
    add(r, x);
}

static hn_value branch_input(gen *r, hn_graph *g, hn_value like) {
    const hn_value_info *vi = info(r, like);
    hn_value v = hn_graph_add_tensor(g, vi->dtype, vi->rank, vi->sizes, NULL, HN_STR("b"));
    hn_status s =
        hn_graph_add_input(g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = HN_STR("b")});
    if (s) hn_graph_fail(g, s);
    return v;
}

static bool branch_end(gen *r, hn_graph *g, hn_value v) {
    hn_status s = hn_graph_add_output(
        g, (hn_output){.kind = HN_OUTPUT_USER, .value = v, .name = HN_STR("c")});
    if (!s) s = hn_graph_status(g);
    if (s) hn_graph_fail(r->g, s);
    return !s;
}

static void step_cond(gen *r) {
    known x = pick(r), p = pick(r);
    hn_dtype dtype = info(r, x.v)->dtype;
    if (!p.exact || dtype == HN_DTYPE_BOOL || x.maxabs > 100) return;
    uint32_t dims[HN_MAX_RANK], rank = info(r, p.v)->rank;
    for (uint32_t k = 0; k < rank; k++) dims[k] = k;
    hn_value truth = hn_b_binary(r->g, HN_OP_GT, p.v, constant(r, 1, p.v));
    hn_value pred =
                 hn_b_reduce(r->g, chance(r, 50) ? HN_OP_ANY : HN_OP_ALL, truth, dims, rank, false),
             out = 0;
    hn_graph *branches[2];
    for (int k = 0; k < 2; k++) {
        hn_status s = hn_graph_create(r->arena, r->sym, &branches[k]);
        if (s) {
            hn_graph_fail(r->g, s);
            return;
        }
        hn_value v = branch_input(r, branches[k], x.v);
        v = hn_b_binary(branches[k], k ? HN_OP_MAX : HN_OP_MIN, v,
                        hn_b_scalar(branches[k], 1, dtype));
        if (!branch_end(r, branches[k], v)) return;
    }
    hn_b_cond(r->g, pred, branches[0], branches[1], &x.v, 1, &out, 1);
    x.v = out;
    x.maxabs = fmax(x.maxabs, 1);
    add(r, x);
}

static void step_arithmetic(gen *r) {
    known x = pick(r);
    hn_dtype dtype = info(r, x.v)->dtype;
    if (is_float(r, x.v)) {
        static const hn_op ops[] = {HN_OP_FMIN, HN_OP_FMAX, HN_OP_COPYSIGN};
        if (!x.exact || x.may_nan) return;
        hn_op op = ops[below(r, 3)];
        add(r, (known){hn_b_binary(r->g, op, x.v, constant(r, -1, x.v)), true, fmax(x.maxabs, 1), 0,
                       false});
        if (x.maxabs > 8 || unit_error(dtype) > 1e-6) return;
        static const hn_op smooth[] = {HN_OP_EXP2, HN_OP_EXPM1, HN_OP_ATAN, HN_OP_ASINH,
                                       HN_OP_SINH, HN_OP_COSH,  HN_OP_ERFC};
        add(r, (known){hn_b_unary(r->g, smooth[below(r, 7)], x.v), false, exp(x.maxabs),
                       unit_error(dtype) * 16, false});
    } else if (dtype != HN_DTYPE_BOOL) {
        hn_op op = chance(r, 50) ? HN_OP_SHL : HN_OP_SHR;
        add(r, (known){hn_b_binary(r->g, op, x.v, constant(r, (double)below(r, 4), x.v)), true, 256,
                       0, false});
    } else {
        add(r, (known){hn_b_unary(r->g, HN_OP_NOT, x.v), true, 1, 0, false});
    }
}

/* Several dimensions at once, then spread over them again. */
static void step_reduce_and_spread(gen *r) {
    known x = pick(r);
    uint32_t rank = info(r, x.v)->rank, dims[HN_MAX_RANK], count = 0;
    if (rank < 2 || !x.exact || !is_arithmetic(r, x.v) || !numel(r, x.v) || x.maxabs > 16) return;
    for (uint32_t d = 0; d < rank; d++)
        if (chance(r, 70)) dims[count++] = d;
    hn_value top =
        hn_b_reduce(r->g, chance(r, 50) ? HN_OP_AMAX : HN_OP_AMIN, x.v, dims, count, true);
    add(r, (known){hn_b_binary(r->g, HN_OP_SUB, x.v, top), true, 2 * x.maxabs, 0, x.may_nan});
}

void hn_gen_step_rarer(gen *r) {
    static void (*const steps[])(gen *) = {step_conv,    step_attention,        step_matmul,
                                           step_topk,    step_product,          step_logcumsumexp,
                                           step_scatter, step_index_put,        step_arithmetic,
                                           step_cond,    step_reduce_and_spread};
    steps[below(r, sizeof steps / sizeof *steps)](r);
}

hn_value hn_gen_mutation(gen *r, uint32_t *out_input, known *out_value) {
    for (uint32_t k = r->first_input; k < r->g->inputs.count; k++) {
        const hn_value_info *in = info(r, r->g->inputs.items[k].value);
        for (uint32_t j = r->count; j-- > 0;) {
            const hn_value_info *vi = info(r, r->values[j].v);
            if (!vi->producer || vi->dtype != in->dtype || vi->rank != in->rank ||
                memcmp(vi->sizes, in->sizes, in->rank * sizeof *in->sizes) != 0)
                continue;
            *out_input = k;
            *out_value = r->values[j];
            return r->values[j].v;
        }
    }
    return 0;
}
