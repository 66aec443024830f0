/* random_contract.c: random graphs around contractions: a matrix product, a convolution or
 * attention, what may stand in front of it (views, casts, scales, sums), and what may stand behind
 * it (factors, shifts, residuals, activations, casts, views, reductions), read once or several
 * times. All that the scheduler joins with a call occurs, and much that looks like it.
 *
 * Errors: operands are quarters of at most 4. A sum of products of such numbers is exact in f32 in
 * any order, and rounded to 16 bits the same way once; only Winograd's transforms round. Sums of
 * numbers that were rounded before differ by the order of k additions, about sqrt(k) units of the
 * sum of magnitudes, since roundings are as often up as down. Attention: an error of a score
 * multiplies its weight by e to it. */
#include "tests/support/random_gen.h"

enum { OPERANDS_MAX = 6, INPUTS_MAX = 8, WORK_MAX = 1000000 };

static double absolute_error(known x) { return x.error * fmax(1, x.maxabs); }

static known rounded(hn_value v, double maxabs, double error) {
    return (known){.v = v, .maxabs = maxabs, .error = error / fmax(1, maxabs)};
}

static bool is_narrow(hn_dtype dtype) { return dtype == HN_DTYPE_F16 || dtype == HN_DTYPE_BF16; }

/* Of `x` after an op: the interpreter rounds its result, a kernel perhaps only what it stores, and
 * two ops may be one fma. */
static double error_of_op(gen *r, known x, double maxabs) {
    return absolute_error(x) + unit_error(info(r, x.v)->dtype) * fmax(1, maxabs);
}

static hn_dtype pick_dtype(gen *r) {
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_F32,  HN_DTYPE_F32, HN_DTYPE_F32,
                                      HN_DTYPE_F32, HN_DTYPE_F32,  HN_DTYPE_F32, HN_DTYPE_F32,
                                      HN_DTYPE_F64, HN_DTYPE_BF16, HN_DTYPE_F16, HN_DTYPE_BF16,
                                      HN_DTYPE_F16, HN_DTYPE_I64,  HN_DTYPE_I32};
    static const hn_dtype small[] = {HN_DTYPE_I16, HN_DTYPE_I8, HN_DTYPE_U8};
    return chance(r, 3) ? small[below(r, 3)] : dtypes[below(r, sizeof dtypes / sizeof *dtypes)];
}

static uint32_t input_count(gen *r) { return r->g->inputs.count - r->first_input; }

/* A size that the call gives: an input of its own has it, whatever becomes of the other ones. */
static hn_expr symbol(gen *r, int64_t n) {
    if (input_count(r) >= INPUTS_MAX) return num(r, n);
    hn_expr e = hn_gen_symbol(r, n);
    hn_gen_input(r, HN_DTYPE_F32, &e, 1);
    return e;
}

static hn_expr pick_extent(gen *r, bool may_be_zero) {
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  7,  8,  9,  13, 16,  17,  31,
                                    32, 33, 37, 48, 63, 64, 65, 96, 97, 127, 129, 257};
    if (may_be_zero && chance(r, 2)) return num(r, 0);
    int64_t n = sizes[below(r, chance(r, 60) ? 14 : sizeof sizes / sizeof *sizes)];
    return r->symbolic && n > 1 && chance(r, 40) ? symbol(r, n) : num(r, n);
}

static int64_t value_of(gen *r, hn_expr e) { return hn_sym_hint(r->sym, e, 0); }

static int64_t product_of(gen *r, const hn_expr *sizes, uint32_t rank) {
    int64_t n = 1;
    for (uint32_t d = 0; d < rank; d++) n *= value_of(r, sizes[d]);
    return n;
}

/* --- operands --- */

/* An input, or a constant. */
static known memory(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    bool is_input = input_count(r) < OPERANDS_MAX && chance(r, 60);
    bool f = hn_dtype_is_float(dtype);
    known x = {.exact = true, .maxabs = is_input ? 4 : 1};
    if (is_input) x.v = hn_gen_input(r, dtype, sizes, rank);
    else if (dtype == HN_DTYPE_BOOL || dtype == HN_DTYPE_U8)
        x.v = hn_b_cast(
            r->g, hn_b_unary(r->g, HN_OP_RELU, hn_gen_weight(r, sizes, rank, HN_DTYPE_F32)), dtype);
    else x.v = hn_b_cast(r->g, hn_gen_weight(r, sizes, rank, f ? dtype : HN_DTYPE_F32), dtype);
    return x;
}

/* A slice of larger memory: every element, or every second one. */
static known sliced(gen *r, hn_dtype dtype, hn_expr *sizes, uint32_t rank, uint32_t d) {
    int64_t start = below(r, 3), step = 1 + below(r, 2);
    hn_expr size = sizes[d];
    sizes[d] = hn_sym_add(r->sym, num(r, start + 1), hn_sym_mul(r->sym, num(r, step), size));
    known x = memory(r, dtype, sizes, rank);
    x.v = hn_b_slice(r->g, x.v, d, num(r, start), size, step);
    return x;
}

/* A view of these sizes. */
static known viewed(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    hn_expr of[HN_MAX_RANK];
    uint32_t d = below(r, rank), e = below(r, rank);
    memcpy(of, sizes, rank * sizeof *of);
    known x;
    switch (below(r, 9)) {
    case 0:
    case 1:
        of[d] = sizes[e];
        of[e] = sizes[d];
        x = memory(r, dtype, of, rank);
        x.v = hn_b_transpose(r->g, x.v, d, e);
        return x;
    case 2: return sliced(r, dtype, of, rank, d);
    case 3:
        of[d] = num(r, 1);
        x = memory(r, dtype, of, rank);
        x.v = hn_b_expand(r->g, x.v, sizes, rank);
        return x;
    case 4:
        x = memory(r, dtype, of, rank);
        x.v = hn_b_flip(r->g, x.v, d);
        return x;
    case 5:
        of[0] = hn_sym_product(r->sym, sizes, rank);
        x = memory(r, dtype, of, 1);
        x.v = hn_b_reshape(r->g, x.v, sizes, rank);
        return x;
    default: return memory(r, dtype, of, rank);
    }
}

static known sum(gen *r, known x, known y) {
    double m = x.maxabs + y.maxabs, e = absolute_error(y);
    bool exact = x.exact && y.exact && m <= 8;
    hn_value v = hn_b_binary(r->g, HN_OP_ADD, x.v, y.v);
    if (exact || !is_float(r, x.v)) return (known){.v = v, .exact = true, .maxabs = m};
    return rounded(v, m, error_of_op(r, x, m) + e);
}

static known product(gen *r, known x, known y) {
    double m = x.maxabs * y.maxabs, e = absolute_error(x) * y.maxabs + absolute_error(y) * x.maxabs;
    bool exact = x.exact && y.exact && x.maxabs <= 4 && y.maxabs <= 4;
    hn_value v = hn_b_binary(r->g, HN_OP_MUL, x.v, y.v);
    /* of exact ones it has four bits behind the point; what is summed and scaled once more, or in
     * 16 bits, has too many */
    if (exact || !is_float(r, x.v)) return (known){.v = v, .exact = !is_float(r, x.v), .maxabs = m};
    return rounded(v, m, e + error_of_op(r, (known){.v = x.v}, m));
}

/* Memory with one number for each index of dimension `d`, and perhaps of the first one. */
static known per_channel(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank, uint32_t d) {
    hn_expr of[HN_MAX_RANK];
    bool per_image = chance(r, 35);
    for (uint32_t k = 0; k < rank; k++)
        of[k] = k == d || (per_image && k == 0) ? sizes[k] : num(r, 1);
    if (chance(r, 40) && !per_image) { /* a vector, as modules hold it */
        known x = memory(r, dtype, &sizes[d], 1);
        x.v = hn_b_reshape(r->g, x.v, of, rank);
        return x;
    }
    return memory(r, dtype, of, rank);
}

static known sigmoid(gen *r, known x) {
    return rounded(hn_b_unary(r->g, HN_OP_SIGMOID, x.v), 1,
                   absolute_error(x) + 4 * unit_error(info(r, x.v)->dtype));
}

static known cast_from(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    static const hn_dtype floats[] = {HN_DTYPE_F32, HN_DTYPE_F64, HN_DTYPE_BF16, HN_DTYPE_F16,
                                      HN_DTYPE_I8};
    hn_dtype from = hn_dtype_is_float(dtype) ? floats[below(r, 5)] : HN_DTYPE_U8;
    known x = viewed(r, from, sizes, rank);
    x.v = hn_b_cast(r->g, x.v, dtype);
    return x;
}

/* A value of the graph with these sizes. */
static known existing(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    for (uint32_t attempt = 0; attempt < 12 && r->count; attempt++) {
        known x = pick(r);
        const hn_value_info *vi = info(r, x.v);
        if (vi->dtype == dtype && vi->rank == rank && !x.may_nan && x.maxabs <= 64 &&
            memcmp(vi->sizes, sizes, rank * sizeof *sizes) == 0)
            return x;
    }
    return (known){0};
}

/* What a contraction reads. `d`: its channels. */
static known prepared(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank, uint32_t d) {
    bool f = hn_dtype_is_float(dtype);
    known x = {0};
    switch (below(r, 18)) {
    case 0:
    case 1: return cast_from(r, dtype, sizes, rank);
    case 2:
    case 3:
    case 4:
    case 5: {
        x = viewed(r, dtype, sizes, rank);
        known scale = per_channel(r, dtype, sizes, rank, d);
        return product(r, x, f && chance(r, 50) ? sigmoid(r, scale) : scale);
    }
    case 6:
        x = viewed(r, dtype, sizes, rank);
        if (dtype != HN_DTYPE_U8) x.v = hn_b_unary(r->g, HN_OP_RELU, x.v);
        return x;
    case 7: x = viewed(r, dtype, sizes, rank); return sum(r, x, memory(r, dtype, sizes, rank));
    case 8:
    case 9: x = existing(r, dtype, sizes, rank); break;
    default: break;
    }
    return x.v ? x : viewed(r, dtype, sizes, rank);
}

/* The same; perhaps others read it as well. */
static known operand(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank, uint32_t d) {
    known x = prepared(r, dtype, sizes, rank, d);
    if (info(r, x.v)->producer && chance(r, 20)) add(r, x);
    return x;
}

/* A value of the graph that a contraction may read; 0: none, or one shall be made. */
static known previous(gen *r, uint32_t least, uint32_t most) {
    for (uint32_t attempt = 0; attempt < 6 && r->count && chance(r, 85); attempt++) {
        known x = pick(r);
        const hn_value_info *vi = info(r, x.v);
        if (vi->rank >= least && vi->rank <= most && !x.may_nan && x.maxabs <= 64 &&
            absolute_error(x) < 1e-2 && vi->dtype != HN_DTYPE_BOOL)
            return x;
    }
    return (known){0};
}

/* Of a sum of k products, bounded by m. */
static known contraction(gen *r, hn_value v, known x, known w, int64_t k, double m,
                         bool rounds_always) {
    hn_dtype dtype = info(r, x.v)->dtype;
    if (!hn_dtype_is_float(dtype)) return (known){.v = v, .exact = true, .maxabs = 256};
    if (x.exact && w.exact && !rounds_always && unit_error(dtype) > 3e-7) return rounded(v, m, 0);
    double e = (absolute_error(x) * w.maxabs + absolute_error(w) * x.maxabs) * (double)k;
    double unit = fmin(unit_error(dtype), unit_error(HN_DTYPE_F32)); /* sums of 16 bits are f32 */
    e += unit * sqrt((double)k) * fmax(1, m);
    if (is_narrow(dtype)) e += unit_error(dtype) * fmax(1, m);
    /* F(4 x 4, 3 x 3): its transforms multiply by up to 8, twice */
    if (rounds_always) e += 16 * unit_error(HN_DTYPE_F32) * fmax(1, m);
    return rounded(v, m, e);
}

static bool fits(hn_dtype dtype, double maxabs) { return dtype != HN_DTYPE_F16 || maxabs < 2e4; }

/* --- matrix products --- */

static known product_operand(gen *r) {
    hn_expr sizes[4];
    known x = previous(r, 2, 5);
    if (x.v && info(r, x.v)->rank <= 4 && chance(r, 60)) return x;
    if (x.v && numel(r, x.v)) { /* rows of all the dimensions in front */
        uint32_t rank = info(r, x.v)->rank;
        const hn_expr flat[] = {hn_sym_product(r->sym, info(r, x.v)->sizes, rank - 1),
                                info(r, x.v)->sizes[rank - 1]};
        x.v = hn_b_reshape(r->g, x.v, flat, 2);
        return x;
    }
    uint32_t rank = chance(r, 55) ? 2 : 3 + below(r, 2);
    for (uint32_t d = 0; d < rank; d++)
        sizes[d] = d + 2 < rank ? num(r, 1 + below(r, 4)) : pick_extent(r, true);
    if (product_of(r, sizes, rank) > MAX_NUMEL) return (known){0};
    return operand(r, pick_dtype(r), sizes, rank, rank - 1);
}

/* Sizes that broadcast to the result; mostly a row. */
static hn_value bias_of(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank,
                        double *maxabs) {
    hn_expr of[HN_MAX_RANK];
    uint32_t from = chance(r, 60) ? rank - 1 : below(r, rank);
    if (chance(r, 50)) return 0;
    for (uint32_t d = from; d < rank; d++)
        of[d - from] = from + 1 < rank && chance(r, 40) ? num(r, 1) : sizes[d];
    known x = memory(r, dtype, of, rank - from);
    *maxabs += x.maxabs;
    return x.v;
}

static known step_matmul(gen *r) {
    known a = product_operand(r), b = {0};
    hn_expr sizes[HN_MAX_RANK];
    if (!a.v) return a;
    uint32_t rank = info(r, a.v)->rank;
    hn_dtype dtype = info(r, a.v)->dtype;
    if (chance(r, 20)) a.v = hn_b_transpose(r->g, a.v, rank - 1, rank - 2);
    memcpy(sizes, info(r, a.v)->sizes, rank * sizeof *sizes);
    hn_expr m = sizes[rank - 2], k = sizes[rank - 1], n = pick_extent(r, true);
    bool is_square = chance(r, 8);
    if (is_square) n = m;
    int64_t batch = product_of(r, sizes, rank - 2);
    if (batch * value_of(r, m) * value_of(r, n) > MAX_NUMEL ||
        batch * value_of(r, k) * value_of(r, n) > MAX_NUMEL ||
        batch * value_of(r, m) * value_of(r, n) * value_of(r, k) > WORK_MAX)
        return (known){0};
    sizes[rank - 2] = k;
    sizes[rank - 1] = n;
    if (is_square) b = a, b.v = hn_b_transpose(r->g, a.v, rank - 1, rank - 2);
    else b = operand(r, dtype, sizes, rank, rank - 1);
    bool swaps = chance(r, 15);
    hn_value x = swaps ? hn_b_transpose(r->g, b.v, rank - 1, rank - 2) : a.v,
             y = swaps ? hn_b_transpose(r->g, a.v, rank - 1, rank - 2) : b.v;
    sizes[rank - 2] = swaps ? n : m;
    sizes[rank - 1] = swaps ? m : n;
    double maxabs = a.maxabs * b.maxabs * (double)value_of(r, k) + 1;
    hn_value bias = bias_of(r, dtype, sizes, rank, &maxabs);
    if (!fits(dtype, maxabs)) return (known){0};
    return contraction(r, hn_b_matmul(r->g, x, y, bias), a, b, value_of(r, k), maxabs, false);
}

/* --- convolutions --- */

static known conv_input(gen *r, uint32_t *out_spatial) {
    hn_expr sizes[5];
    known x = previous(r, 3, 4);
    *out_spatial = x.v ? info(r, x.v)->rank - 2 : chance(r, 70) ? 2 : 1 + 2 * below(r, 2);
    /* positions of a kernel are chosen by the size */
    if (x.v && numel(r, x.v) && !r->symbolic) return x;
    uint32_t rank = *out_spatial + 2;
    sizes[0] = num(r, chance(r, 3) ? 0 : 1 + below(r, 3));
    sizes[1] = num(r, (int64_t[]){1, 2, 3, 4, 6, 8, 12, 16, 17, 32, 33}[below(r, 11)]);
    for (uint32_t d = 2; d < rank; d++)
        sizes[d] = num(r, rank == 5 ? 1 + below(r, 6)
                                    : (int64_t[]){1, 2, 3, 5, 7, 8, 9, 14, 16, 17, 20, 28, 31,
                                                  33}[below(r, 14)]);
    if (r->symbolic) sizes[0] = symbol(r, 2);
    if (product_of(r, sizes, rank) > MAX_NUMEL) return (known){0};
    hn_dtype dtype = chance(r, 50) ? HN_DTYPE_F32 : pick_dtype(r);
    if (chance(r, 60)) return operand(r, dtype, sizes, rank, 1);
    x = product(r, memory(r, dtype, sizes, rank), per_channel(r, dtype, sizes, rank, 1));
    if (chance(r, 20)) add(r, x);
    return x;
}

/* Mostly a constant, as in modules. */
static known conv_weights(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    if (!hn_dtype_is_float(dtype) || chance(r, 40)) return operand(r, dtype, sizes, rank, 0);
    return (known){.v = hn_gen_weight(r, sizes, rank, dtype), .exact = true, .maxabs = 1};
}

/* Kernel, stride and padding of dimension `d`. */
static int64_t pick_window(gen *r, hn_conv_params *p, uint32_t d, bool is_pointwise, int64_t in) {
    bool plain = is_pointwise || chance(r, 40);
    int64_t kernel = is_pointwise ? 1
                     : plain      ? 3
                                  : 1 + below(r, 5),
            dilation = plain ? 1 : 1 + below(r, 3), stride = plain ? 1 : 1 + below(r, 3);
    if (is_pointwise && chance(r, 15)) stride = 2;
    int64_t reach = dilation * (kernel - 1), padding = plain && !is_pointwise ? 1 : 0;
    if (!plain) padding = below(r, (uint32_t)reach + 1);
    if (!p->transposed && in + 2 * padding <= reach) kernel = 1, reach = padding = 0;
    if (p->transposed && (in - 1) * stride + reach + 1 <= 2 * padding) padding = 0;
    p->stride[d] = num(r, stride);
    p->dilation[d] = num(r, dilation);
    p->padding[d] = num(r, padding);
    p->output_padding[d] =
        num(r, p->transposed ? below(r, (uint32_t)(stride > dilation ? stride : dilation)) : 0);
    return kernel;
}

static int64_t pick_groups(gen *r, int64_t channels) {
    int64_t groups = chance(r, 30) ? channels : 2 + below(r, 2);
    return chance(r, 45) && channels && channels % groups == 0 ? groups : 1;
}

static known step_conv(gen *r) {
    hn_conv_params p = {.transposed = chance(r, 20)};
    known x = conv_input(r, &p.spatial);
    hn_expr w[5];
    int64_t channels, taps = 1, out = 1 + below(r, chance(r, 50) ? 5 : 40);
    if (!x.v || !hn_sym_is_int(r->sym, info(r, x.v)->sizes[1], &channels) || !channels)
        return (known){0};
    hn_dtype dtype = info(r, x.v)->dtype;
    p.groups = pick_groups(r, channels);
    if (p.groups > 4) out = 1 + below(r, 2);
    w[p.transposed] = num(r, p.transposed ? out : channels / p.groups);
    w[!p.transposed] = num(r, p.transposed ? channels : out * p.groups);
    bool is_pointwise = chance(r, 35);
    for (uint32_t d = 0; d < p.spatial; d++) {
        int64_t kernel = pick_window(r, &p, d, is_pointwise, size(r, x.v, 2 + d));
        w[2 + d] = num(r, kernel);
        taps *= kernel;
    }
    int64_t k = taps * channels / p.groups;
    if (numel(r, x.v) / channels * out * p.groups > MAX_NUMEL ||
        numel(r, x.v) * out * taps > WORK_MAX)
        return (known){0};
    if (!p.transposed) { /* as in modules: out channels first */
        w[0] = num(r, out * p.groups);
        w[1] = num(r, channels / p.groups);
    }
    known weights = conv_weights(r, dtype, w, p.spatial + 2);
    hn_value bias = 0;
    double maxabs = x.maxabs * weights.maxabs * (double)k + 1;
    hn_expr outputs = num(r, out * p.groups);
    if (chance(r, 40)) bias = memory(r, dtype, &outputs, 1).v, maxabs += 4;
    if (!fits(dtype, maxabs)) return (known){0};
    return contraction(r, hn_b_conv(r->g, x.v, weights.v, bias, &p), x, weights, k, maxabs, true);
}

/* --- attention --- */

/* True where a query sees a key. Whole rows may be false. */
static hn_value visible(gen *r, const hn_expr *sizes, uint32_t rank) {
    hn_expr of[HN_MAX_RANK];
    uint32_t from = chance(r, 50) ? rank - 2 : below(r, rank);
    for (uint32_t d = from; d < rank; d++) of[d - from] = chance(r, 30) ? num(r, 1) : sizes[d];
    hn_value v = memory(r, HN_DTYPE_BOOL, of, rank - from).v;
    if (rank - from < 2 || !chance(r, 40)) return v;
    of[rank - from - 1] = num(r, 1);
    return hn_b_binary(r->g, HN_OP_AND, v, memory(r, HN_DTYPE_BOOL, of, rank - from).v);
}

static hn_value mask_of(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    hn_value v = visible(r, sizes, rank);
    switch (below(r, 3)) {
    case 0: return v;
    case 1:
        return hn_b_where(r->g, v, hn_b_scalar(r->g, 0, dtype),
                          hn_b_scalar(r->g, (double)-INFINITY, dtype));
    default: return hn_b_cast(r->g, v, dtype);
    }
}

/* Sizes of a projection that is split into heads: [batch, rows, heads, d], permuted. */
static known heads_of(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    hn_expr of[4] = {sizes[0], sizes[2], sizes[1], sizes[3]};
    if (rank != 4 || !chance(r, 40)) return operand(r, dtype, sizes, rank, rank - 3);
    known x = operand(r, dtype, of, 4, 2);
    x.v = hn_b_transpose(r->g, x.v, 1, 2);
    return x;
}

static known step_attention(gen *r) {
    uint32_t rank = 3 + below(r, 2);
    hn_dtype dtype = pick_dtype(r);
    int64_t heads = 1 + below(r, 3), sharing = chance(r, 60) ? 1 : 2 + below(r, 3);
    hn_expr q[4], k[4], v[4], scores[4];
    if (!hn_dtype_is_float(dtype)) dtype = HN_DTYPE_F32;
    q[0] = num(r, 1 + below(r, 2));
    q[rank - 3] = num(r, heads * sharing);
    q[rank - 2] = pick_extent(r, true);
    q[rank - 1] = num(r, (int64_t[]){1, 2, 5, 8, 16, 17, 32, 33, 64}[below(r, 9)]);
    memcpy(k, q, sizeof k);
    k[rank - 3] = num(r, heads);
    k[rank - 2] = chance(r, 50) ? q[rank - 2] : pick_extent(r, true);
    memcpy(v, k, sizeof v);
    if (chance(r, 30)) v[rank - 1] = num(r, 1 + below(r, 40));
    memcpy(scores, q, sizeof scores);
    scores[rank - 1] = k[rank - 2];
    if (product_of(r, q, rank) > MAX_NUMEL || product_of(r, k, rank) > MAX_NUMEL ||
        product_of(r, v, rank) > MAX_NUMEL || product_of(r, scores, rank) > MAX_NUMEL)
        return (known){0};
    known of_q = heads_of(r, dtype, q, rank), of_k = heads_of(r, dtype, k, rank),
          of_v = heads_of(r, dtype, v, rank);
    double d = (double)value_of(r, q[rank - 1]), scale = chance(r, 80) ? 1 / sqrt(d) : 0.125;
    double m = of_q.maxabs * of_k.maxabs * d;
    hn_value mask = chance(r, 55) ? mask_of(r, dtype, scores, rank) : 0;
    known score = contraction(r, of_q.v, of_q, of_k, (int64_t)d, m, false);
    double of_score = fmax(absolute_error(score), 3e-7 * m) * scale;
    if (is_narrow(dtype) && !(of_q.exact && of_k.exact)) return (known){0};
    if (of_score > 0.05) return (known){0};
    double e = absolute_error(of_v) + of_v.maxabs * (2 * of_score + 4 * unit_error(dtype) +
                                                     1e-7 * (double)value_of(r, k[rank - 2]));
    return rounded(hn_b_attention(r->g, of_q.v, of_k.v, of_v.v, mask, scale, chance(r, 35)),
                   of_v.maxabs, e);
}

/* --- what stands behind it --- */

static hn_value number(gen *r, double c, hn_value like) { return constant(r, c, like); }

static hn_value clamp6(gen *r, hn_value x) {
    hn_value v = hn_b_binary(r->g, HN_OP_ADD, x, number(r, 3, x));
    v = hn_b_binary(r->g, HN_OP_MAX, v, number(r, 0, x));
    return hn_b_binary(r->g, HN_OP_MIN, v, number(r, 6, x));
}

static hn_value gate(gen *r, hn_value x, hn_op op, hn_value argument) {
    hn_value g = hn_b_binary(r->g, HN_OP_ADD, hn_b_unary(r->g, op, argument), number(r, 1, x));
    return hn_b_binary(r->g, HN_OP_MUL, hn_b_binary(r->g, HN_OP_MUL, x, number(r, 0.5, x)), g);
}

static hn_value gelu_tanh(gen *r, hn_value x) {
    hn_value cube = hn_b_binary(r->g, HN_OP_MUL, hn_b_binary(r->g, HN_OP_MUL, x, x), x);
    if (chance(r, 50)) cube = hn_b_binary(r->g, HN_OP_POW, x, number(r, 3, x));
    hn_value y = hn_b_binary(r->g, HN_OP_MUL, cube, number(r, 0.044715, x));
    y = hn_b_binary(r->g, HN_OP_MUL, hn_b_binary(r->g, HN_OP_ADD, x, y),
                    number(r, 0.7978845608028654, x));
    return gate(r, x, HN_OP_TANH, y);
}

/* Slopes are at most 1.5. Products with a gate are in the order of activation and gate, or the
 * other way round; a factor beside the right one is no activation. */
static known activation(gen *r, known x, uint32_t which) {
    hn_graph *g = r->g;
    hn_dtype dtype = info(r, x.v)->dtype;
    hn_value v = 0, y;
    double m = x.maxabs + 1, e = 1.5 * absolute_error(x) + 8 * unit_error(dtype) * fmax(1, m);
    bool odd = which % 2;
    switch (which / 2) {
    case 0:
    case 1:
        v = odd ? hn_b_binary(g, HN_OP_MAX, x.v, number(r, 0, x.v))
                : hn_b_unary(g, HN_OP_RELU, x.v);
        return (known){v, x.exact, x.maxabs, x.error, false};
    case 2: v = hn_b_unary(g, odd ? HN_OP_TANH : HN_OP_SIGMOID, x.v), m = 1; break;
    case 3:
        y = hn_b_unary(g, HN_OP_SIGMOID, x.v);
        v = odd ? hn_b_binary(g, HN_OP_MUL, x.v, y) : hn_b_binary(g, HN_OP_MUL, y, x.v);
        break;
    case 4:
        v = odd ? gelu_tanh(r, x.v)
                : gate(r, x.v, HN_OP_ERF,
                       hn_b_binary(g, HN_OP_MUL, x.v, number(r, 0.7071067811865476, x.v)));
        break;
    case 5:
        y = clamp6(r, x.v);
        v = odd ? hn_b_binary(g, HN_OP_MUL, x.v, hn_b_binary(g, HN_OP_DIV, y, number(r, 6, x.v)))
                : hn_b_binary(g, HN_OP_DIV, hn_b_binary(g, HN_OP_MUL, x.v, y), number(r, 6, x.v));
        break;
    case 6: v = hn_b_binary(g, HN_OP_DIV, clamp6(r, x.v), number(r, odd ? 6 : 5, x.v)); break;
    default: /* nearly one */
        v = odd ? hn_b_binary(g, HN_OP_MAX, x.v, number(r, 0.25, x.v))
                : hn_b_binary(g, HN_OP_MUL, x.v, hn_b_unary(g, HN_OP_RELU, x.v));
        if (!odd) e = 2 * e * fmax(1, m), m *= m;
    }
    if (!odd && which / 2 == 7 && dtype == HN_DTYPE_F16 && m > 1e4) return x;
    return rounded(v, m, e);
}

/* A matrix product of these sizes: by the time of the call in front of it, it is not there yet. */
static known other_product(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank) {
    hn_expr left[HN_MAX_RANK], right[HN_MAX_RANK];
    int64_t k = 1 + below(r, 9);
    if (rank < 2 || product_of(r, sizes, rank) * k > MAX_NUMEL) return (known){0};
    memcpy(left, sizes, rank * sizeof *left);
    memcpy(right, sizes, rank * sizeof *right);
    left[rank - 1] = right[rank - 2] = num(r, k);
    known a = memory(r, dtype, left, rank), b = memory(r, dtype, right, rank);
    return contraction(r, hn_b_matmul(r->g, a.v, b.v, 0), a, b, k, 16 * (double)k, false);
}

static known residual(gen *r, known x) {
    const hn_value_info *vi = info(r, x.v);
    hn_expr sizes[HN_MAX_RANK];
    memcpy(sizes, vi->sizes, vi->rank * sizeof *sizes);
    uint32_t rank = vi->rank;
    hn_dtype dtype = vi->dtype;
    known y = chance(r, 40) ? existing(r, dtype, sizes, rank) : (known){0};
    if (!y.v && chance(r, 30)) y = other_product(r, dtype, sizes, rank);
    if (!y.v) y = viewed(r, dtype, sizes, rank);
    return chance(r, 50) ? sum(r, x, y) : sum(r, y, x);
}

static known channels(gen *r, known x, bool is_factor) {
    const hn_value_info *vi = info(r, x.v);
    hn_expr sizes[HN_MAX_RANK];
    uint32_t rank = vi->rank, d = chance(r, 70) && rank > 1 ? 1 : below(r, rank);
    memcpy(sizes, vi->sizes, rank * sizeof *sizes);
    known y = per_channel(r, vi->dtype, sizes, rank, d);
    if (is_factor) return x.maxabs > 500 ? x : product(r, x, y);
    return sum(r, x, y);
}

static known other_view(gen *r, known x) {
    hn_expr sizes[HN_MAX_RANK];
    uint32_t rank = info(r, x.v)->rank, d = below(r, rank), e = below(r, rank);
    memcpy(sizes, info(r, x.v)->sizes, rank * sizeof *sizes);
    switch (below(r, 5)) {
    case 0:
    case 1: x.v = hn_b_transpose(r->g, x.v, d, e); break;
    case 2:
        if (rank < 2) break;
        d = below(r, rank - 1); /* two dimensions as one */
        sizes[d] = hn_sym_mul(r->sym, sizes[d], sizes[d + 1]);
        memmove(&sizes[d + 1], &sizes[d + 2], (rank - d - 2) * sizeof *sizes);
        x.v = hn_b_reshape(r->g, x.v, sizes, rank - 1);
        break;
    case 3:
        if (!r->symbolic && size(r, x.v, d) > 1) {
            int64_t start = below(r, 2);
            x.v = hn_b_slice(r->g, x.v, d, num(r, start), num(r, size(r, x.v, d) - start), 1);
        }
        break;
    default: {
        int64_t n = size(r, x.v, d), part = n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 1;
        if (r->symbolic || !n || rank > 4) break;
        memmove(&sizes[d + 1], &sizes[d], (rank - d) * sizeof *sizes);
        sizes[d] = num(r, n / part);
        sizes[d + 1] = num(r, part);
        x.v = hn_b_reshape(r->g, x.v, sizes, rank + 1);
    }
    }
    return x;
}

static known reduction(gen *r, known x) {
    uint32_t rank = info(r, x.v)->rank, d = below(r, rank);
    int64_t n = size(r, x.v, d);
    hn_dtype dtype = info(r, x.v)->dtype;
    bool sums = chance(r, 60);
    if (!n || rank < 2) return x;
    if (sums && hn_dtype_is_int(dtype) && dtype != HN_DTYPE_I64) return x;
    if (sums && is_narrow(dtype)) x.v = hn_b_cast(r->g, x.v, HN_DTYPE_F32), dtype = HN_DTYPE_F32;
    hn_value v = hn_b_reduce(r->g, sums ? HN_OP_SUM : HN_OP_AMAX, x.v, &d, 1, chance(r, 60));
    if (!sums || hn_dtype_is_int(dtype)) return (known){v, x.exact, x.maxabs, x.error, false};
    double m = x.maxabs * (double)n;
    return rounded(v, m, absolute_error(x) * (double)n + unit_error(dtype) * 4 * fmax(1, m));
}

static known other_dtype(gen *r, known x) {
    static const hn_dtype floats[] = {HN_DTYPE_F32, HN_DTYPE_F64, HN_DTYPE_BF16, HN_DTYPE_F16};
    hn_dtype to = floats[below(r, 4)], from = info(r, x.v)->dtype;
    if (!hn_dtype_is_float(from) || !fits(to, x.maxabs) || to == from) return x;
    hn_value v = hn_b_cast(r->g, x.v, to);
    /* the same number becomes the same number, but two that differ may part by a step */
    double e = absolute_error(x);
    return rounded(v, x.maxabs,
                   e == 0 || !is_narrow(to) ? e : e + unit_error(to) * fmax(1, x.maxabs));
}

/* x joins what was made of it: an op in the middle has two users. */
static known gated(gen *r, known x) {
    known y = activation(r, x, below(r, 16));
    if (chance(r, 60) || x.maxabs > 30 || y.maxabs > 30) return sum(r, y, x);
    return product(r, x, y);
}

/* What an operation can do behind a product, in its order; now and then a step is left out. */
static known follow_in_order(gen *r, known x) {
    if (!is_float(r, x.v) || !info(r, x.v)->rank) return x;
    if (chance(r, 50)) x = channels(r, x, true);
    if (chance(r, 50)) x = channels(r, x, false);
    if (chance(r, 30)) x = other_view(r, x);
    if (chance(r, 50)) x = residual(r, x);
    if (chance(r, 70)) x = chance(r, 25) ? gated(r, x) : activation(r, x, below(r, 14));
    return x;
}

/* One thing more behind `x`. */
static known follow(gen *r, known x) {
    bool f = is_float(r, x.v);
    if (!info(r, x.v)->rank) return x;
    switch (below(r, 15)) {
    case 14: return f ? gated(r, x) : x;
    case 0:
    case 1: return channels(r, x, true);
    case 2: return channels(r, x, false);
    case 3:
    case 4:
    case 5: return residual(r, x);
    case 6:
    case 7:
    case 8:
    case 9:
        return f ? activation(r, x, below(r, 16))
                 : sum(r, x, (known){number(r, 1, x.v), true, 1, 0, false});
    case 10: return other_dtype(r, x);
    case 11:
    case 12: return other_view(r, x);
    default: return reduction(r, x);
    }
}

/* The same activation behind two readers, or another one. */
static void follow_twice(gen *r, known x) {
    uint32_t which = below(r, 16), other = chance(r, 70) ? which : below(r, 16);
    if (!is_float(r, x.v) || !info(r, x.v)->rank) return;
    known y = activation(r, other_view(r, x), other);
    add(r, chance(r, 50) ? reduction(r, y) : residual(r, y));
    x = activation(r, x, which);
    add(r, chance(r, 50) ? reduction(r, x) : channels(r, x, false));
}

void hn_gen_step_contraction(gen *r) {
    static known (*const steps[])(gen *) = {step_matmul, step_matmul, step_matmul,   step_conv,
                                            step_conv,   step_conv,   step_attention};
    known x = steps[below(r, sizeof steps / sizeof *steps)](r);
    if (!x.v || numel(r, x.v) > MAX_NUMEL) return;
    if (chance(r, 15)) add(r, x);
    if (chance(r, 15)) follow_twice(r, x);
    if (chance(r, 50)) x = follow_in_order(r, x);
    for (uint32_t k = below(r, 5); k > 0 && x.maxabs < 1e5; k--) {
        x = follow(r, x);
        if (numel(r, x.v) > MAX_NUMEL) return;
        if (chance(r, 8)) add(r, x);
    }
    add(r, x);
}
