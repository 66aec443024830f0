/* The reference implementations of the extern operations, the checks before them, and what the
 * calls of a module share. Random small cases against the interpreter of the graph IR, for every
 * dtype and with scattered memory; what the interpreter does not have (epilogues, masked NaN)
 * against numbers by hand. A random case prints its seed: HN_SEED=N in the environment runs only
 * that one. */
#include "ops/cpu/ext.h"

#include "henry/tensor.h"
#include "ir/dtype.h"
#include "unit/ir/interp_cases.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- random cases ---- */

typedef struct rng {
    uint64_t state;
} rng;

static uint64_t rng_next(rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int64_t rng_in(rng *r, int64_t low, int64_t high) {
    return low + (int64_t)(rng_next(r) % (uint64_t)(high - low + 1));
}
/* Mostly 1 to `high`, sometimes 0. */
static int64_t rng_size(rng *r, int64_t high) {
    return rng_in(r, 0, 24) == 0 ? 0 : rng_in(r, 1, high);
}

/* Runs fn(seed) for `count` seeds and names the first that fails. */
static void for_seeds(uint64_t count, void (*fn)(rng *r)) {
    const char *only = getenv("HN_SEED");
    for (uint64_t seed = only ? strtoull(only, NULL, 10) : 0; seed < count || only; seed++) {
        int before = hn_test_failures;
        rng r = {seed * 7919};
        fn(&r);
        if (hn_test_failures != before) {
            fprintf(stderr, "seed %llu failed\n", (unsigned long long)seed);
            return;
        }
        if (only) return;
    }
}

/* An input of the graph with random values: small whole numbers for floats, so that sums are exact
 * in any order, all the width for integers, so that they wrap. */
static hn_value random_input(fixture *f, rng *r, hn_dtype dtype, shape s) {
    double values[4096];
    int64_t count = 1;
    for (uint32_t d = 0; d < s.rank; d++) count *= s.sizes[d];
    EXPECT(count <= 4096);
    for (int64_t n = 0; n < count; n++) {
        if (dtype == HN_DTYPE_BOOL) values[n] = (double)rng_in(r, 0, 1);
        else if (hn_dtype_is_float(dtype)) values[n] = (double)rng_in(r, -3, 3);
        else values[n] = (double)(int32_t)rng_next(r);
        if (dtype == HN_DTYPE_I64) values[n] *= 0x1p30;
    }
    return input(f, dtype, s, values, (size_t)count);
}

/* Memory of an operand: elements scattered in a random order of dimensions with gaps between
 * them. */
typedef struct memory {
    unsigned char *bytes, *used; /* of malloc; `used` marks the bytes of elements */
    size_t count;
    int64_t strides[8];
} memory;

enum { GAP = 0xa5 };

static memory memory_scatter(rng *r, const hn_ref_tensor *t, bool contiguous) {
    memory m = {0};
    uint32_t order[8];
    const size_t bytes = hn_scalar_type_bytes((hn_scalar_type)t->dtype);
    for (uint32_t d = 0; d < t->rank; d++) order[d] = d;
    for (uint32_t d = t->rank; !contiguous && d > 1; d--) {
        uint32_t other = (uint32_t)rng_in(r, 0, d - 1), kept = order[d - 1];
        order[d - 1] = order[other];
        order[other] = kept;
    }
    int64_t step = contiguous ? 1 : rng_in(r, 1, 2);
    for (uint32_t d = t->rank; d-- > 0;) {
        int64_t size = t->sizes[order[d]];
        m.strides[order[d]] = step;
        step *= size > 1 ? size : 1;
        if (!contiguous) step += rng_in(r, 0, 2);
    }
    int64_t last = 0;
    for (uint32_t d = 0; d < t->rank; d++) last += t->numel ? (t->sizes[d] - 1) * m.strides[d] : 0;
    m.count = t->numel ? (size_t)(last + 1) * bytes : 0;
    m.bytes = malloc(m.count + !m.count);
    m.used = calloc(1, m.count + !m.count);
    memset(m.bytes, GAP, m.count);
    int64_t coord[8] = {0};
    for (int64_t n = 0; n < t->numel; n++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < t->rank; d++) at += coord[d] * m.strides[d];
        memset(m.used + at * (int64_t)bytes, 1, bytes);
        for (uint32_t d = t->rank; d-- > 0 && ++coord[d] == t->sizes[d];) coord[d] = 0;
    }
    return m;
}

static memory memory_of(fixture *f, rng *r, const hn_ref_tensor *t, bool contiguous) {
    memory m = memory_scatter(r, t, contiguous);
    const size_t bytes = hn_scalar_type_bytes((hn_scalar_type)t->dtype);
    unsigned char *dense = hn_arena_alloc(&f->arena, (size_t)t->numel * bytes + 1);
    hn_ref_tensor_store(t, dense);
    int64_t coord[8] = {0};
    for (int64_t n = 0; n < t->numel; n++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < t->rank; d++) at += coord[d] * m.strides[d];
        memcpy(m.bytes + at * (int64_t)bytes, dense + n * (int64_t)bytes, bytes);
        for (uint32_t d = t->rank; d-- > 0 && ++coord[d] == t->sizes[d];) coord[d] = 0;
    }
    return m;
}

static void memory_free(memory *m) {
    free(m->bytes);
    free(m->used);
}

/* The elements are the expected ones, the gaps untouched. */
static void memory_expect(fixture *f, const memory *m, const hn_ref_tensor *want, double rtol,
                          double atol) {
    hn_ref_tensor got;
    hn_strbuf why;
    hn_strbuf_init(&why);
    EXPECT_OK(hn_ref_tensor_load(&f->arena, want->dtype, want->rank, want->sizes, m->strides,
                                 m->bytes, &got));
    if (!hn_ref_compare(&got, want, rtol, atol, &why))
        HN_TEST_FAIL("%s: %s", hn_dtype_facts(want->dtype)->name, why.ptr ? why.ptr : "?");
    hn_strbuf_deinit(&why);
    for (size_t n = 0; n < m->count; n++)
        if (!m->used[n] && m->bytes[n] != GAP)
            HN_TEST_FAIL("byte %zu between the elements was written", n);
}

/* Checks the call as the runtime does, then runs it with the reference, whatever ops/cpu/table.c
 * says. */
static void run_reference(hn_ext_call *call) {
    void *operands[HN_EXT_MAX_OPERANDS], *scratch = NULL;
    if (!call->threads) call->threads = 1;
    memcpy(operands, call->operands, sizeof operands);
    for (int k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (!call->is_constant[k]) call->operands[k] = NULL;
    EXPECT_OK(hn_ext_shared_create(&call->shared));
    EXPECT_OK(hn_ext_prepare(call));
    hn_ext_release(call);
    EXPECT(call->impl == NULL);
    call->impl = &hn_ext_reference;
    EXPECT_OK(hn_ext_reference.prepare(call));
    memcpy(call->operands, operands, sizeof operands);
    if (call->scratch_bytes) scratch = aligned_alloc(64, (call->scratch_bytes + 63) / 64 * 64);
    EXPECT_OK(hn_ext_run(call, scratch));
    free(scratch);
    hn_ext_release(call);
    hn_ext_shared_destroy(call->shared);
}

static const hn_dtype all_dtypes[] = {HN_DTYPE_F64,  HN_DTYPE_F32, HN_DTYPE_F16,
                                      HN_DTYPE_BF16, HN_DTYPE_I64, HN_DTYPE_I32,
                                      HN_DTYPE_I16,  HN_DTYPE_I8,  HN_DTYPE_U8};
static hn_dtype random_dtype(rng *r, int64_t count) { return all_dtypes[rng_in(r, 0, count - 1)]; }

/* A shape that broadcasts to the last dimensions of `s`. */
static shape random_broadcast(rng *r, shape s) {
    shape b = {.rank = (uint32_t)rng_in(r, 1, s.rank)};
    for (uint32_t d = 0; d < b.rank; d++)
        b.sizes[d] = rng_in(r, 0, 1) ? 1 : s.sizes[s.rank - b.rank + d];
    return b;
}

/* Strides of a broadcast operand at the end of `count` stride parameters. */
static void put_strides(const hn_ref_tensor *t, const memory *m, bool broadcast, int64_t *out,
                        uint32_t count) {
    for (uint32_t d = 0; d < t->rank; d++)
        out[count - t->rank + d] = broadcast && t->sizes[d] == 1 ? 0 : m->strides[d];
}

/* ---- matmul ---- */

static void random_matmul(rng *r) {
    fixture f;
    begin(&f);
    hn_dtype dtype = random_dtype(r, 9);
    shape a = {.rank = (uint32_t)rng_in(r, 2, 5)}, b, out;
    for (uint32_t d = 0; d < a.rank; d++) a.sizes[d] = rng_size(r, d + 2 < a.rank ? 3 : 5);
    b = out = a;
    b.sizes[a.rank - 2] = a.sizes[a.rank - 1];
    b.sizes[a.rank - 1] = out.sizes[a.rank - 1] = rng_size(r, 5);
    bool biased = rng_in(r, 0, 1);
    hn_value va = random_input(&f, r, dtype, a), vb = random_input(&f, r, dtype, b),
             bias = biased ? random_input(&f, r, dtype, random_broadcast(r, out)) : 0;
    output(&f, hn_b_matmul(f.g, va, vb, bias));
    EXPECT_OK(run(&f));

    int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1};
    memory ma = memory_of(&f, r, &f.inputs[0], false), mb = memory_of(&f, r, &f.inputs[1], false),
           mo = memory_scatter(r, &f.outputs[0], false), mc = {0};
    for (uint32_t d = 0; d + 2 < a.rank; d++)
        p[HN_MATMUL_BATCH + HN_EXTERN_BATCH - (a.rank - 2) + d] = a.sizes[d];
    p[HN_MATMUL_M] = a.sizes[a.rank - 2];
    p[HN_MATMUL_N] = b.sizes[a.rank - 1];
    p[HN_MATMUL_K] = a.sizes[a.rank - 1];
    put_strides(&f.inputs[0], &ma, false, p + HN_MATMUL_A, 6);
    put_strides(&f.inputs[1], &mb, false, p + HN_MATMUL_B, 6);
    put_strides(&f.outputs[0], &mo, false, p + HN_MATMUL_OUT, 6);
    const uint8_t type = (uint8_t)dtype;
    hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                        .dtypes = {type, type, type},
                        .params = p,
                        .param_count = HN_MATMUL_PARAM_COUNT,
                        .operands = {mo.bytes, ma.bytes, mb.bytes}};
    if (biased) {
        mc = memory_of(&f, r, &f.inputs[2], false);
        put_strides(&f.inputs[2], &mc, true, p + HN_MATMUL_BIAS, 6);
        call.dtypes[3] = type;
        call.operands[3] = mc.bytes;
    }
    run_reference(&call);
    memory_expect(&f, &mo, &f.outputs[0], 0, 0);
    memory_free(&ma), memory_free(&mb), memory_free(&mo), memory_free(&mc);
    end(&f);
}

TEST(matmul_is_the_interpreter) { for_seeds(400, random_matmul); }

/* out = epilogue(a * b + bias), each one number. */
static void matmul_1x1(hn_scalar_type type, hn_epilogue epilogue, const void *a, const void *b,
                       const void *bias, void *out) {
    int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1, 1, 1, 1};
    p[HN_MATMUL_EPILOGUE] = epilogue;
    const uint8_t t = (uint8_t)type;
    hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                        .dtypes = {t, t, t, t},
                        .params = p,
                        .param_count = HN_MATMUL_PARAM_COUNT,
                        .operands = {out, (void *)a, (void *)b, (void *)bias}};
    run_reference(&call);
}

/* x = 2 * b - 1: the bias is added before. Values: the definitions, to 16 digits. 1e-15: last
 * digits of libm. */
TEST(epilogues) {
    static const struct {
        hn_epilogue epilogue;
        double at_1, at_minus_1, at_4;
    } rows[] = {
        {HN_EPILOGUE_NONE, 1, -1, 4},
        {HN_EPILOGUE_RELU, 1, 0, 4},
        {HN_EPILOGUE_GELU_ERF, 0.8413447460685429, -0.15865525393145707, 3.9998733150326675},
        {HN_EPILOGUE_GELU_TANH, 0.8411919906082768, -0.15880800939172324, 3.9999297540518075},
        {HN_EPILOGUE_SILU, 0.7310585786300049, -0.2689414213699951, 3.928055160151634},
        {HN_EPILOGUE_HARDSWISH, 4.0 / 6, -2.0 / 6, 4},
        {HN_EPILOGUE_SIGMOID, 0.7310585786300049, 0.2689414213699951, 0.9820137900379085},
        {HN_EPILOGUE_TANH, 0.7615941559557649, -0.7615941559557649, 0.999329299739067},
        {HN_EPILOGUE_HARDSIGMOID, 4.0 / 6, 2.0 / 6, 1},
    };
    const double two = 2, minus_one = -1, b[4] = {1, 0, 2.5, NAN};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        double out[4];
        for (int k = 0; k < 4; k++)
            matmul_1x1(HN_F64, rows[n].epilogue, &two, &b[k], &minus_one, &out[k]);
        EXPECT_NEAR(out[0], rows[n].at_1, 1e-15);
        EXPECT_NEAR(out[1], rows[n].at_minus_1, 1e-15);
        EXPECT_NEAR(out[2], rows[n].at_4, 1e-15);
        EXPECT(isnan(out[3]));
    }
}

TEST(relu_of_integers_sees_the_wrapped_sum) {
    const int8_t a = 100, b = 2, zero = 0; /* 200 is -56 */
    int8_t out = 1;
    matmul_1x1(HN_I8, HN_EPILOGUE_RELU, &a, &b, &zero, &out);
    EXPECT_INT(out, 0);
    const uint8_t ua = 100, ub = 2, uz = 0;
    uint8_t u_out = 1;
    matmul_1x1(HN_U8, HN_EPILOGUE_RELU, &ua, &ub, &uz, &u_out);
    EXPECT_INT(u_out, 200);
}

TEST(matmul_of_bools_is_any) {
    /* 256 products must not wrap to 0 either, hence "not 0" */
    const uint8_t a[4] = {1, 1, 0, 1}, b[2] = {1, 1};
    uint8_t out[2] = {7, 7};
    int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1, 2, 1, 2};
    p[HN_MATMUL_A + 4] = 2, p[HN_MATMUL_A + 5] = 1;
    p[HN_MATMUL_B + 4] = 1;
    p[HN_MATMUL_OUT + 4] = 1;
    hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                        .dtypes = {HN_BOOL, HN_BOOL, HN_BOOL},
                        .params = p,
                        .param_count = HN_MATMUL_PARAM_COUNT,
                        .operands = {out, (void *)a, (void *)b}};
    run_reference(&call);
    EXPECT_INT(out[0], 1);
    EXPECT_INT(out[1], 1);
}

/* m products a[i] * b[i] of 16-bit floats, each rounded to that type. */
static void multiply_16(hn_scalar_type type, const uint16_t *a, const uint16_t *b, uint16_t *out,
                        int64_t count) {
    int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1, 1, 1, 1};
    p[HN_MATMUL_BATCH + 3] = count;
    p[HN_MATMUL_A + 3] = p[HN_MATMUL_B + 3] = p[HN_MATMUL_OUT + 3] = 1;
    const uint8_t t = (uint8_t)type;
    hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                        .dtypes = {t, t, t},
                        .params = p,
                        .param_count = HN_MATMUL_PARAM_COUNT,
                        .operands = {out, (void *)a, (void *)b}};
    run_reference(&call);
}

enum { ALL_16 = 1 << 16 };

static bool is_nan_16(uint16_t bits, uint16_t infinity) { return (bits & 0x7fff) > infinity; }

/* Every 16-bit float times 1 is itself; times any other it is what the IR's conversions give. */
TEST(sixteen_bit_floats_are_converted_exactly) {
    static uint16_t a[ALL_16], b[ALL_16], out[ALL_16];
    rng r = {1};
    for (int pass = 0; pass < 8; pass++) {
        const bool half = pass % 2 == 0, ones = pass < 2;
        const uint16_t infinity = half ? 0x7c00 : 0x7f80, one = half ? 0x3c00 : 0x3f80;
        for (int n = 0; n < ALL_16; n++) {
            a[n] = (uint16_t)n;
            b[n] = ones ? one : (uint16_t)rng_next(&r);
        }
        multiply_16(half ? HN_F16 : HN_BF16, a, b, out, ALL_16);
        for (int n = 0; n < ALL_16; n++) {
            double product = half ? (double)hn_f16_to_f32(a[n]) * (double)hn_f16_to_f32(b[n])
                                  : (double)hn_bf16_to_f32(a[n]) * (double)hn_bf16_to_f32(b[n]);
            uint16_t want = ones ? a[n] : half ? hn_f64_to_f16(product) : hn_f64_to_bf16(product);
            /* The sum starts from +0, which swallows the sign of -0. */
            if (product == 0) want = 0;
            if (is_nan_16(want, infinity) ? !is_nan_16(out[n], infinity) : out[n] != want) {
                HN_TEST_FAIL("%s: %04x * %04x is %04x, expected %04x", half ? "f16" : "bf16", a[n],
                             b[n], out[n], want);
                return;
            }
        }
    }
}

/* ---- convolution ---- */

static void random_conv(rng *r) {
    fixture f;
    begin(&f);
    hn_dtype dtype = random_dtype(r, 9);
    hn_conv_params cp = {.spatial = (uint32_t)rng_in(r, 1, 3),
                         .transposed = rng_in(r, 0, 1),
                         .groups = rng_in(r, 1, 3)};
    const uint32_t spatial = cp.spatial;
    const int64_t c = rng_in(r, 1, 2), o = rng_in(r, 1, 2);
    shape x = {2 + spatial, {rng_size(r, 2), c * cp.groups}};
    shape w = {2 + spatial, {cp.transposed ? c * cp.groups : o * cp.groups, cp.transposed ? o : c}};
    int64_t p[HN_CONV_PARAM_COUNT] = {x.sizes[0], c * cp.groups, o * cp.groups, cp.groups};
    for (int k = 0; k < 3; k++) {
        p[HN_CONV_IN + k] = p[HN_CONV_KERNEL + k] = p[HN_CONV_OUTSIZE + k] = 1;
        p[HN_CONV_STRIDE + k] = p[HN_CONV_DILATION + k] = 1;
    }
    for (uint32_t k = 0; k < spatial; k++) {
        uint32_t at = 3 - spatial + k;
        int64_t kernel = rng_in(r, 1, 3), dilation = rng_in(r, 1, 2), stride = rng_in(r, 1, 3);
        /* Padding that leaves something of a transposed result, input that holds the window of a
         * plain one. */
        int64_t padding = rng_in(r, 0, cp.transposed ? (kernel - 1) * dilation / 2 : 2);
        int64_t in = rng_in(r, 1, 4), span = (kernel - 1) * dilation + 1;
        if (!cp.transposed && in + 2 * padding < span) in = span - 2 * padding;
        x.sizes[2 + k] = p[HN_CONV_IN + at] = in;
        w.sizes[2 + k] = p[HN_CONV_KERNEL + at] = kernel;
        cp.stride[k] = num(&f, p[HN_CONV_STRIDE + at] = stride);
        cp.padding[k] = num(&f, p[HN_CONV_PADDING + at] = padding);
        cp.dilation[k] = num(&f, p[HN_CONV_DILATION + at] = dilation);
        cp.output_padding[k] = num(&f, cp.transposed ? rng_in(r, 0, stride - 1) : 0);
    }
    p[HN_CONV_TRANSPOSED] = cp.transposed;
    bool biased = rng_in(r, 0, 1);
    hn_value vx = random_input(&f, r, dtype, x), vw = random_input(&f, r, dtype, w),
             bias = biased ? random_input(&f, r, dtype, S(o * cp.groups)) : 0;
    output(&f, hn_b_conv(f.g, vx, vw, bias, &cp));
    EXPECT_OK(run(&f));

    memory mx = memory_of(&f, r, &f.inputs[0], false), mw = memory_of(&f, r, &f.inputs[1], false),
           mo = memory_scatter(r, &f.outputs[0], false), mc = {0};
    const memory *parts[3] = {&mx, &mw, &mo};
    const int at[3] = {HN_CONV_X, HN_CONV_W, HN_CONV_OUT};
    for (int k = 0; k < 3; k++) {
        p[at[k]] = parts[k]->strides[0];
        p[at[k] + 1] = parts[k]->strides[1];
        for (uint32_t d = 0; d < spatial; d++)
            p[at[k] + 5 - (int)spatial + (int)d] = parts[k]->strides[2 + d];
    }
    for (uint32_t d = 0; d < spatial; d++)
        p[HN_CONV_OUTSIZE + 3 - spatial + d] = f.outputs[0].sizes[2 + d];
    const uint8_t type = (uint8_t)dtype;
    hn_ext_call call = {.kind = HN_EXTERN_CONV,
                        .dtypes = {type, type, type},
                        .params = p,
                        .param_count = HN_CONV_PARAM_COUNT,
                        .operands = {mo.bytes, mx.bytes, mw.bytes}};
    if (biased) {
        mc = memory_of(&f, r, &f.inputs[2], true);
        call.dtypes[3] = type;
        call.operands[3] = mc.bytes;
    }
    run_reference(&call);
    memory_expect(&f, &mo, &f.outputs[0], 0, 0);
    memory_free(&mx), memory_free(&mw), memory_free(&mo), memory_free(&mc);
    end(&f);
}

TEST(conv_is_the_interpreter) { for_seeds(400, random_conv); }

/* 1 2 3 padded by one, kernel 1 1: 1 3 5 3; bias -4; ReLU. */
TEST(conv_adds_bias_then_epilogue) {
    const float x[3] = {1, 2, 3}, w[2] = {1, 1}, bias = -4;
    float out[4] = {9, 9, 9, 9};
    int64_t p[HN_CONV_PARAM_COUNT] = {1, 1, 1, 1, 1, 1, 3, 1, 1, 2, 1,
                                      1, 4, 1, 1, 1, 0, 0, 1, 1, 1, 1};
    p[HN_CONV_X + 4] = p[HN_CONV_W + 4] = p[HN_CONV_OUT + 4] = 1;
    p[HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU;
    hn_ext_call call = {.kind = HN_EXTERN_CONV,
                        .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32},
                        .params = p,
                        .param_count = HN_CONV_PARAM_COUNT,
                        .operands = {out, (void *)x, (void *)w, (void *)&bias}};
    run_reference(&call);
    const double want[4] = {0, 0, 1, 0};
    for (int n = 0; n < 4; n++) EXPECT_NEAR((double)out[n], want[n], 0);
}

/* Two channels, 1 x 1: 2 (10 x0) + 3 (100 x1) + bias 1 + residual; ReLU comes last. */
TEST(conv_scales_its_input_and_adds_the_residual) {
    const float x[4] = {1, 2, 3, 4}, w[2] = {2, 3}, bias = 1, residual[3] = {5, 0, -2000},
                scale[2] = {10, 100};
    float out[2] = {9, 9};
    int64_t p[HN_CONV_PARAM_COUNT] = {1, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1,
                                      1, 2, 1, 1, 1, 0, 0, 0, 1, 1, 1};
    p[HN_CONV_X + 1] = 2, p[HN_CONV_X + 4] = p[HN_CONV_W + 1] = p[HN_CONV_OUT + 4] =
                              p[HN_CONV_SCALE + 1] = 1;
    p[HN_CONV_RESIDUAL + 4] = 2;
    p[HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU;
    hn_ext_call call = {
        .kind = HN_EXTERN_CONV,
        .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32, HN_F32, HN_F32},
        .params = p,
        .param_count = HN_CONV_PARAM_COUNT,
        .operands = {out, (void *)x, (void *)w, (void *)&bias, (void *)residual, (void *)scale}};
    run_reference(&call);
    EXPECT_NEAR((double)out[0], 20 + 900 + 1 + 5, 0);
    EXPECT_NEAR((double)out[1], 0, 0); /* 40 + 1200 + 1 - 2000 */
}

/* ---- attention ---- */

static void random_attention(rng *r) {
    fixture f;
    begin(&f);
    hn_dtype dtype = random_dtype(r, 4);
    const uint32_t rank = (uint32_t)rng_in(r, 3, 4);
    const int64_t batch = rank == 4 ? rng_in(r, 1, 2) : 1, kv = rng_in(r, 1, 2),
                  heads = kv * rng_in(r, 1, 2), m = rng_in(r, 1, 4), n = rng_size(r, 4),
                  d = rng_size(r, 3), dv = rng_in(r, 1, 3);
    const shape q4 = S(batch, heads, m, d), k4 = S(batch, kv, n, d), v4 = S(batch, kv, n, dv),
                scores4 = S(batch, heads, m, n);
    shape shapes[4] = {q4, k4, v4, scores4};
    for (int k = 0; k < 4 && rank == 3; k++) {
        shapes[k].rank = 3;
        memmove(shapes[k].sizes, shapes[k].sizes + 1, 3 * sizeof(int64_t));
    }
    const double scale = (double)rng_in(r, 1, 4) / 4;
    const bool causal = rng_in(r, 0, 1);
    const int64_t masked = rng_in(r, 0, 2);
    const hn_dtype mask_dtype = masked == 1 ? HN_DTYPE_BOOL : dtype;
    hn_value q = random_input(&f, r, dtype, shapes[0]), k = random_input(&f, r, dtype, shapes[1]),
             v = random_input(&f, r, dtype, shapes[2]),
             mask = masked ? random_input(&f, r, mask_dtype, random_broadcast(r, shapes[3])) : 0;
    for (int64_t e = 0; masked == 2 && e < f.inputs[3].numel; e++)
        if (rng_in(r, 0, 2) == 0) f.inputs[3].data.f[e] = -INFINITY;
    output(&f, hn_b_attention(f.g, q, k, v, mask, scale, causal));
    EXPECT_OK(run(&f));

    int64_t p[HN_ATTENTION_PARAM_COUNT] = {batch, heads, kv, m, n, d, dv};
    memory mem[5] = {memory_scatter(r, &f.outputs[0], false)};
    hn_ext_call call = {.kind = HN_EXTERN_ATTENTION,
                        .params = p,
                        .param_count = HN_ATTENTION_PARAM_COUNT,
                        .dtypes = {(uint8_t)dtype},
                        .operands = {mem[0].bytes}};
    put_strides(&f.outputs[0], &mem[0], false, p + HN_ATTENTION_OUT, 4);
    for (int n_in = 0; n_in < (masked ? 4 : 3); n_in++) {
        static const int at[4] = {HN_ATTENTION_Q, HN_ATTENTION_K, HN_ATTENTION_V,
                                  HN_ATTENTION_MASK};
        mem[n_in + 1] = memory_of(&f, r, &f.inputs[n_in], false);
        put_strides(&f.inputs[n_in], &mem[n_in + 1], n_in == 3, p + at[n_in], 4);
        call.dtypes[n_in + 1] = (uint8_t)f.inputs[n_in].dtype;
        call.operands[n_in + 1] = mem[n_in + 1].bytes;
    }
    p[HN_ATTENTION_CAUSAL] = causal;
    memcpy(&p[HN_ATTENTION_SCALE], &scale, sizeof scale);
    run_reference(&call);
    /* Exponentials are rounded by libm: the tolerance is that of one result of the dtype. */
    memory_expect(&f, &mem[0], &f.outputs[0], hn_dtype_facts(dtype)->rtol,
                  hn_dtype_facts(dtype)->atol);
    for (int e = 0; e < 5; e++) memory_free(&mem[e]);
    end(&f);
}

TEST(attention_is_the_interpreter) { for_seeds(400, random_attention); }

/* Two queries, three keys of width 1, equal scores for every key that is seen: the result is the
 * mean of its values. */
typedef struct small_attention {
    float q[2], k[3], v[3], out[2];
} small_attention;

static void small_run(small_attention *s, hn_scalar_type mask_type, const void *mask, bool causal) {
    const double scale = 1;
    int64_t p[HN_ATTENTION_PARAM_COUNT] = {1, 1, 1, 2, 3, 1, 1};
    p[HN_ATTENTION_Q + 2] = p[HN_ATTENTION_K + 2] = p[HN_ATTENTION_V + 2] =
        p[HN_ATTENTION_OUT + 2] = 1;
    p[HN_ATTENTION_MASK + 2] = 3, p[HN_ATTENTION_MASK + 3] = 1;
    p[HN_ATTENTION_CAUSAL] = causal;
    memcpy(&p[HN_ATTENTION_SCALE], &scale, sizeof scale);
    hn_ext_call call = {.kind = HN_EXTERN_ATTENTION,
                        .params = p,
                        .param_count = HN_ATTENTION_PARAM_COUNT,
                        .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32, (uint8_t)mask_type},
                        .operands = {s->out, s->q, s->k, s->v, (void *)mask}};
    run_reference(&call);
}

TEST(masked_keys_leak_nothing) {
    const uint8_t seen[6] = {1, 0, 1, 0, 0, 0};
    const float added[6] = {0, -INFINITY, 0, -INFINITY, -INFINITY, -INFINITY};
    const float bad[3] = {NAN, INFINITY, -INFINITY};
    for (int n = 0; n < 3; n++)
        for (int as_float = 0; as_float < 2; as_float++) {
            small_attention s = {{1, 1}, {1, bad[n], 1}, {2, bad[n], 6}, {9, 9}};
            small_run(&s, as_float ? HN_F32 : HN_BOOL, as_float ? (const void *)added : seen,
                      false);
            EXPECT_NEAR((double)s.out[0], 4, 0);
            EXPECT_NEAR((double)s.out[1], 0, 0); /* sees no key */
        }
}

TEST(causal_keys_leak_nothing) {
    small_attention s = {{1, 1}, {1, 1, NAN}, {2, 6, NAN}, {9, 9}};
    small_run(&s, HN_NO_TYPE, NULL, true);
    EXPECT_NEAR((double)s.out[0], 2, 0);
    EXPECT_NEAR((double)s.out[1], 4, 0);
}

TEST(seen_nan_spreads) {
    small_attention s = {{1, 1}, {NAN, 1, 1}, {2, 6, 7}, {9, 9}};
    small_run(&s, HN_NO_TYPE, NULL, false);
    EXPECT(isnan(s.out[0]));
    EXPECT(isnan(s.out[1]));
}

/* Scores of 1000 and 999: exp of either is infinite. Weights 1 and 1/e. */
TEST(large_scores_do_not_overflow) {
    small_attention s = {{1, 0}, {1000, 999, -1000}, {1, 0, 5}, {9, 9}};
    small_run(&s, HN_NO_TYPE, NULL, false);
    EXPECT_NEAR((double)s.out[0], 0.7310585786300049, 1e-7); /* one rounding to f32 */
    EXPECT_NEAR((double)s.out[1], 2, 0);
}

/* ---- sort and top-k ---- */

static void random_sort(rng *r) {
    fixture f;
    begin(&f);
    const hn_dtype dtype = rng_in(r, 0, 9) == 9 ? HN_DTYPE_BOOL : random_dtype(r, 9);
    const shape s = S(rng_size(r, 3), rng_size(r, 9), rng_size(r, 3));
    const bool topk = rng_in(r, 0, 1), descending = rng_in(r, 0, 1);
    hn_value x = random_input(&f, r, dtype, s), values, indices = 0;
    hn_ref_tensor *in = &f.inputs[0];
    for (int64_t n = 0; n < in->numel; n++) { /* equal elements, NaN, zeros of both signs */
        int64_t pick = rng_in(r, 0, 5);
        if (!hn_dtype_is_float(dtype) && pick < 3) in->data.i[n] = pick & 1;
        if (hn_dtype_is_float(dtype) && pick < 3)
            in->data.f[n] = pick == 0 ? NAN : pick == 1 ? -0.0 : INFINITY;
    }
    const int64_t k = topk ? rng_in(r, 0, s.sizes[1]) : s.sizes[1];
    values = topk ? hn_b_topk(f.g, x, num(&f, k), 1, descending, true, &indices)
                  : hn_b_sort(f.g, x, 1, descending, true, &indices);
    output(&f, values);
    output(&f, indices);
    EXPECT_OK(run(&f));
    memory mx = memory_of(&f, r, in, true), mv = memory_scatter(r, &f.outputs[0], true),
           mi = memory_scatter(r, &f.outputs[1], true);
    int64_t p[HN_SORT_PARAM_COUNT] = {s.sizes[0], s.sizes[1], s.sizes[2], k, descending, 1};
    hn_ext_call call = {.kind = topk ? HN_EXTERN_TOPK : HN_EXTERN_SORT,
                        .params = p,
                        .param_count = HN_SORT_PARAM_COUNT,
                        .dtypes = {(uint8_t)dtype, HN_I64, (uint8_t)dtype},
                        .operands = {mv.bytes, mi.bytes, mx.bytes}};
    run_reference(&call);
    memory_expect(&f, &mv, &f.outputs[0], 0, 0);
    memory_expect(&f, &mi, &f.outputs[1], 0, 0);
    memory_free(&mx), memory_free(&mv), memory_free(&mi);
    end(&f);
}

TEST(sort_is_the_interpreter) { for_seeds(600, random_sort); }

TEST(sort_is_stable_with_nan_largest) {
    const float x[6] = {1, NAN, 0, 1, -0.0f, -INFINITY};
    static const int64_t want[2][6] = {{5, 2, 4, 0, 3, 1}, {1, 0, 3, 2, 4, 5}};
    for (int descending = 0; descending < 2; descending++) {
        float values[6];
        int64_t indices[6], p[HN_SORT_PARAM_COUNT] = {1, 6, 1, 6, descending, 1};
        hn_ext_call call = {.kind = HN_EXTERN_SORT,
                            .params = p,
                            .param_count = HN_SORT_PARAM_COUNT,
                            .dtypes = {HN_F32, HN_I64, HN_F32},
                            .operands = {values, indices, (void *)x}};
        run_reference(&call);
        for (int n = 0; n < 6; n++) {
            EXPECT_INT(indices[n], want[descending][n]);
            EXPECT(memcmp(&values[n], &x[want[descending][n]], sizeof *x) == 0); /* -0 stays -0 */
        }
    }
}

/* ---- checks before a call ---- */

static hn_status prepare_once(hn_ext_call call) {
    HN_TRY(hn_ext_shared_create(&call.shared));
    hn_status status = hn_ext_prepare(&call);
    EXPECT((status == NULL) == (call.impl != NULL));
    hn_ext_release(&call);
    hn_ext_shared_destroy(call.shared);
    return status;
}

typedef struct change {
    int param;
    int64_t value;
    const char *message;
} change;

/* A good call, spoilt at one parameter at a time. */
static void expect_refused(hn_ext_call call, const change *changes, size_t count) {
    int64_t p[HN_CONV_PARAM_COUNT];
    const int64_t *good = call.params;
    EXPECT_OK(prepare_once(call));
    for (size_t n = 0; n < count; n++) {
        memcpy(p, good, call.param_count * sizeof *p);
        p[changes[n].param] = changes[n].value;
        call.params = p;
        EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, changes[n].message);
    }
}

static hn_ext_call good_matmul(int64_t *p) {
    const int64_t sizes[7] = {1, 1, 1, 2, 3, 4, 5};
    memset(p, 0, HN_MATMUL_PARAM_COUNT * sizeof *p);
    memcpy(p, sizes, sizeof sizes);
    p[HN_MATMUL_A + 4] = 5, p[HN_MATMUL_A + 5] = 1;
    p[HN_MATMUL_B + 4] = 4, p[HN_MATMUL_B + 5] = 1;
    p[HN_MATMUL_OUT + 3] = 12, p[HN_MATMUL_OUT + 4] = 4, p[HN_MATMUL_OUT + 5] = 1;
    return (hn_ext_call){.kind = HN_EXTERN_MATMUL,
                         .dtypes = {HN_F32, HN_F32, HN_F32},
                         .params = p,
                         .param_count = HN_MATMUL_PARAM_COUNT,
                         .threads = 1};
}

TEST(matmul_parameters_are_checked) {
    int64_t p[HN_MATMUL_PARAM_COUNT];
    const change changes[] = {
        {HN_MATMUL_M, -1, "'matmul': parameter 4 is -1"},
        {HN_MATMUL_BATCH, INT64_MIN, "parameter 0"},
        {HN_MATMUL_K, INT64_MAX, "operand 1 is too large"},
        {HN_MATMUL_N, INT64_C(1) << 60, "operand 0 is too large"},
        {HN_MATMUL_B + 4, INT64_MAX, "operand 2 is too large"},
        {HN_MATMUL_B + 4, INT64_MIN, "operand 2 is too large"},
        {HN_MATMUL_EPILOGUE, 9, "parameter 31 is 9"},
        {HN_MATMUL_B_CONSTANT, 2, "parameter 32"},
    };
    expect_refused(good_matmul(p), changes, sizeof changes / sizeof *changes);
}

TEST(operands_are_checked) {
    int64_t p[HN_MATMUL_PARAM_COUNT];
    hn_ext_call call = good_matmul(p);
    call.kind = HN_EXTERN_KIND_COUNT;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "unknown extern operation 11");
    call.kind = HN_EXTERN_NONE;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "unknown extern operation 0");
    call = good_matmul(p), call.param_count = 32;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "32 parameters given, must be 39");
    call = good_matmul(p), call.threads = 0;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "0 threads");
    call = good_matmul(p), call.dtypes[2] = HN_NO_TYPE;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "operand 2 is missing");
    call = good_matmul(p), call.dtypes[1] = HN_SCALAR_TYPE_COUNT;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "unknown dtype 11");
    call = good_matmul(p), call.dtypes[5] = HN_F32;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "one too many");
    call = good_matmul(p), call.dtypes[4] = HN_F64;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "operand 4 is f64, but operand 0 is f32");
    call = good_matmul(p), call.dtypes[4] = HN_F32, p[HN_MATMUL_RESIDUAL + 4] = INT64_MAX;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "operand 4 is too large");
    call = good_matmul(p), call.dtypes[3] = HN_F64;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "operand 3 is f64, but operand 0 is f32");
    call = good_matmul(p), call.is_constant[0] = true;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "marked constant");
    call = good_matmul(p), call.is_constant[2] = true;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "constant operand 2 has no address");
    call = good_matmul(p), call.dtypes[0] = call.dtypes[1] = call.dtypes[2] = HN_I32;
    p[HN_MATMUL_EPILOGUE] = HN_EPILOGUE_TANH;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "needs floats");
}

TEST(conv_parameters_are_checked) {
    int64_t p[HN_CONV_PARAM_COUNT] = {1, 4, 6, 2, 1, 1, 9, 1, 1, 3, 1,
                                      1, 4, 1, 1, 2, 0, 0, 0, 1, 1, 1};
    p[HN_CONV_X + 1] = 9, p[HN_CONV_X + 4] = 1;
    p[HN_CONV_W] = 6, p[HN_CONV_W + 1] = 3, p[HN_CONV_W + 4] = 1;
    p[HN_CONV_OUT + 1] = 4, p[HN_CONV_OUT + 4] = 1;
    const change changes[] = {
        {HN_CONV_GROUPS, 0, "parameter 3 is 0"},
        {HN_CONV_GROUPS, 3, "do not split into 3 groups"},
        {HN_CONV_C, -4, "parameter 1"},
        {HN_CONV_KERNEL + 2, 0, "parameter 9 is 0"},
        {HN_CONV_STRIDE + 1, 0, "parameter 14 is 0"},
        {HN_CONV_DILATION + 2, 0, "parameter 21 is 0"},
        {HN_CONV_PADDING + 2, -1, "parameter 18 is -1"},
        {HN_CONV_PADDING + 2, INT64_MAX, "positions of spatial dimension 2"},
        {HN_CONV_DILATION + 2, INT64_MAX, "positions of spatial dimension 2"},
        {HN_CONV_STRIDE + 2, INT64_MAX / 2, "positions of spatial dimension 2"},
        {HN_CONV_OUTSIZE + 2, 5, "output size 5"},
        {HN_CONV_TRANSPOSED, 2, "parameter 22"},
        {HN_CONV_EPILOGUE, -1, "parameter 38"},
        {HN_CONV_N, INT64_MAX, "operand 0 is too large"},
        {HN_CONV_X + 1, INT64_MAX, "operand 1 is too large"},
    };
    expect_refused((hn_ext_call){.kind = HN_EXTERN_CONV,
                                 .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32},
                                 .params = p,
                                 .param_count = HN_CONV_PARAM_COUNT,
                                 .threads = 1},
                   changes, sizeof changes / sizeof *changes);
}

TEST(attention_parameters_are_checked) {
    int64_t p[HN_ATTENTION_PARAM_COUNT] = {1, 4, 2, 3, 5, 8, 8};
    const int64_t strides[20] = {0, 24, 8, 1, 0, 40, 8, 1, 0, 40, 8, 1, 0, 24, 8, 1, 0, 0, 5, 1};
    memcpy(p + HN_ATTENTION_Q, strides, sizeof strides);
    hn_ext_call call = {.kind = HN_EXTERN_ATTENTION,
                        .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32, HN_BOOL},
                        .params = p,
                        .param_count = HN_ATTENTION_PARAM_COUNT,
                        .threads = 1};
    const change changes[] = {
        {HN_ATTENTION_KV_HEADS, 3, "4 heads are no multiple of 3"},
        {HN_ATTENTION_KV_HEADS, 0, "4 heads are no multiple of 0"},
        {HN_ATTENTION_N, -5, "parameter 4 is -5"},
        {HN_ATTENTION_CAUSAL, 3, "parameter 27"},
        {HN_ATTENTION_MASK + 2, INT64_MAX, "operand 4 is too large"},
    };
    expect_refused(call, changes, sizeof changes / sizeof *changes);
    call.dtypes[4] = HN_I64;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "the mask is i64");
    call = (hn_ext_call){.kind = HN_EXTERN_ATTENTION,
                         .dtypes = {HN_I32, HN_I32, HN_I32, HN_I32},
                         .params = p,
                         .param_count = HN_ATTENTION_PARAM_COUNT,
                         .threads = 1};
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "attention needs floats");
}

TEST(sort_parameters_are_checked) {
    int64_t p[HN_SORT_PARAM_COUNT] = {2, 5, 3, 4, 0, 1};
    hn_ext_call call = {.kind = HN_EXTERN_TOPK,
                        .dtypes = {HN_F32, HN_I64, HN_F32},
                        .params = p,
                        .param_count = HN_SORT_PARAM_COUNT,
                        .threads = 1};
    const change changes[] = {
        {HN_SORT_K, 6, "parameter 3 is 6, must be in [0, 5]"},
        {HN_SORT_K, -1, "parameter 3 is -1"},
        {HN_SORT_OUTER, -1, "parameter 0"},
        {HN_SORT_INNER, INT64_MAX, "too large"},
        {HN_SORT_DESCENDING, 2, "parameter 4"},
    };
    expect_refused(call, changes, sizeof changes / sizeof *changes);
    call.kind = HN_EXTERN_SORT;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "parameter 3 is 4, must be in [5, 5]");
    p[HN_SORT_K] = 5;
    EXPECT_OK(prepare_once(call));
    call.dtypes[1] = HN_I32;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "the indices are i32");
}

TEST(attention_backward_parameters_are_checked) {
    int64_t p[HN_ATTENTION_BACKWARD_PARAM_COUNT] = {1, 4, 2, 3, 5, 2, 2};
    hn_ext_call call = {.kind = HN_EXTERN_ATTENTION_BACKWARD,
                        .params = p,
                        .param_count = HN_ATTENTION_BACKWARD_PARAM_COUNT,
                        .threads = 1};
    const change changes[] = {
        {HN_ATTENTION_N, -1, "parameter 4 is -1"},
        {HN_ATTENTION_KV_HEADS, 3, "4 heads are no multiple of 3 key heads"},
        {HN_ATTENTION_BACKWARD_CAUSAL, 2, "parameter 31 is 2"},
        {HN_ATTENTION_BACKWARD_D_V + 2, INT64_MAX, "operand 2 is too large"},
        {HN_ATTENTION_BACKWARD_OUT + 2, INT64_MAX, "operand 7 is too large"},
    };
    for (uint32_t k = 0; k < 8; k++) call.dtypes[k] = HN_F32;
    EXPECT_OK(prepare_once(call));
    expect_refused(call, changes, sizeof changes / sizeof *changes);
    call.dtypes[8] = HN_I64;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "the mask is i64");
    call.dtypes[8] = HN_NO_TYPE, call.dtypes[6] = HN_F64;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "operand 6 is f64, but operand 0 is f32");
    for (uint32_t k = 0; k < 8; k++) call.dtypes[k] = HN_I32;
    EXPECT_ERROR(prepare_once(call), HN_INVALID_ARGUMENT, "attention needs floats");
}

TEST(kinds_have_operands_and_parameters) {
    EXPECT_INT(hn_ext_operand_count(HN_EXTERN_MATMUL), 5);
    EXPECT_INT(hn_ext_operand_count(HN_EXTERN_CONV), 6);
    EXPECT_INT(hn_ext_operand_count(HN_EXTERN_ATTENTION), 5);
    EXPECT_INT(hn_ext_operand_count(HN_EXTERN_NONE), 0);
    EXPECT_INT(hn_ext_operand_count((hn_extern_kind)-1), 0);
    EXPECT_INT(hn_ext_param_count(HN_EXTERN_CONV), HN_CONV_PARAM_COUNT);
    EXPECT_INT(hn_ext_param_count(HN_EXTERN_TOPK), HN_SORT_PARAM_COUNT);
    EXPECT_INT(hn_ext_param_count(HN_EXTERN_KIND_COUNT), 0);
}

/* ---- shared entries ---- */

typedef struct maker {
    atomic_int made, freed;
    atomic_bool fail;
    hn_ext_shared *shared;
} maker;

static void count_freed(void *value) { atomic_fetch_add(&((maker *)value)->freed, 1); }

static hn_status make_counted(void *user, hn_ext_entry *out) {
    maker *m = user;
    atomic_fetch_add(&m->made, 1);
    if (atomic_load(&m->fail)) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot make it");
    *out = (hn_ext_entry){.value = m, .free_value = count_freed, .bytes = 100};
    return NULL;
}

static void *get_many(void *user) {
    maker *m = user;
    for (int n = 0; n < 2000; n++) {
        uint32_t key = (uint32_t)n % 50;
        void *value = NULL;
        EXPECT_OK(hn_ext_shared_get(m->shared, &key, sizeof key, make_counted, m, &value));
        EXPECT(value == m);
    }
    return NULL;
}

TEST(equal_keys_are_made_once_by_any_thread) {
    maker m = {0};
    pthread_t threads[4];
    EXPECT_OK(hn_ext_shared_create(&m.shared));
    for (int n = 0; n < 4; n++) EXPECT_INT(pthread_create(&threads[n], NULL, get_many, &m), 0);
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    EXPECT_INT(m.made, 50);
    EXPECT_INT(hn_ext_shared_bytes(m.shared), 5000);
    EXPECT_INT(m.freed, 0);
    hn_ext_shared_destroy(m.shared);
    EXPECT_INT(m.freed, 50);
    hn_ext_shared_destroy(NULL);
}

TEST(a_failed_entry_is_tried_again) {
    maker m = {.fail = true};
    void *value = &m;
    EXPECT_OK(hn_ext_shared_create(&m.shared));
    EXPECT_ERROR(hn_ext_shared_get(m.shared, "key", 3, make_counted, &m, &value), HN_OUT_OF_MEMORY,
                 "cannot make it");
    EXPECT(value == NULL);
    EXPECT_INT(hn_ext_shared_bytes(m.shared), 0);
    m.fail = false;
    EXPECT_OK(hn_ext_shared_get(m.shared, "key", 3, make_counted, &m, &value));
    EXPECT(value == &m);
    /* a longer key is another one */
    EXPECT_OK(hn_ext_shared_get(m.shared, "key2", 4, make_counted, &m, &value));
    EXPECT_INT(m.made, 3);
    hn_ext_shared_destroy(m.shared);
    EXPECT_INT(m.freed, 2);
}

/* A maker may ask for another entry of the same module. */
static hn_status make_nested(void *user, hn_ext_entry *out) {
    maker *m = user;
    void *inner = NULL;
    HN_TRY(hn_ext_shared_get(m->shared, "inner", 5, make_counted, m, &inner));
    *out = (hn_ext_entry){.value = inner};
    return NULL;
}

TEST(makers_may_nest) {
    maker m = {0};
    void *value = NULL;
    EXPECT_OK(hn_ext_shared_create(&m.shared));
    EXPECT_OK(hn_ext_shared_get(m.shared, "outer", 5, make_nested, &m, &value));
    EXPECT(value == &m);
    EXPECT_INT(m.made, 1);
    hn_ext_shared_destroy(m.shared);
    EXPECT_INT(m.freed, 1);
}

TEST_MAIN
