/* test_math.c: the math functions of generated kernels against double precision, for each level of CPU that this machine can run.
 *
 * Inputs are floats of every exponent and sign: one of HENRY_SWEEP_STRIDE bit patterns (an odd number; 1 is all of them), then the edge
 * values. The bounds are those of the table in docs/ARCHITECTURE.md; the largest errors that were seen are printed. */
#include "codegen/c/c.h"
#include "compile_fixture.h"
#include "unit/harness.h"

#include <float.h>
#include <stdlib.h>

enum { COUNT = 1 << 16, STRIDE = 4099 };

/* What is exact; in double, which is enough for bounds of tenths of a float's ulp. */
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double gelu_tanh(double x) {
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u)); /* x (1 + tanh u) / 2 without the difference */
}
static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }

/* `ulp`: the bound. Results whose exact value is below `flushed` may be off by that much: 0 in place of the smallest. `of_input`: the error
 * counts in ulps of max(|x|, |f(x)|): a sum that ends in a product with x. `least`: and of at least this, beside a sine's zeros. */
typedef struct math_row {
    const char *name, *text;
    double (*exact)(double);
    double ulp;
    double flushed, least;
    bool of_input;
} math_row;

static const math_row rows[] = {
    {"exp", "exp(%x)", exp, .ulp = 1.5, .flushed = 0x1p-125},
    {"log", "log(%x)", log, .ulp = 1.5},
    {"tanh", "tanh(%x)", tanh, .ulp = 6},
    {"erf", "erf(%x)", erf, .ulp = 6.5},
    {"sin", "sin(%x)", sin, .ulp = 2, .least = 0x1p-10},
    {"cos", "cos(%x)", cos, .ulp = 2, .least = 0x1p-10},
    {"sigmoid", "sigmoid(%x)", sigmoid, .ulp = 3, .flushed = 0x1p-125},
    {"silu", "aten.silu.default(%x) : f32[65536]", silu, .ulp = 3, .flushed = 0x1p-121},
    {"gelu", "aten.gelu.default(%x) : f32[65536]", gelu, .ulp = 4, .of_input = true},
    {"gelu, by tanh", "aten.gelu.default(%x, approximate=\"tanh\") : f32[65536]", gelu_tanh, .ulp = 4, .of_input = true},
    {"softplus", "aten.softplus.default(%x) : f32[65536]", softplus, .ulp = 2, .flushed = 0x1p-24},
};
enum { ROWS = sizeof rows / sizeof *rows };

static hn_status compile_rows(const char *cpu, hn_module **out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "graph @g {\n  input user %%x : f32[%d] \"x\"\n", COUNT);
    for (int k = 0; k < ROWS; k++) hn_strbuf_printf(&text, "  %%y%d = %s\n", k, rows[k].text);
    for (int k = 0; k < ROWS; k++) hn_strbuf_printf(&text, "  output user %%y%d \"y%d\"\n", k, k);
    hn_strbuf_puts(&text, "}\n");
    hn_status status = compile_text(hn_strbuf_str(&text), cpu, 1, out);
    hn_strbuf_deinit(&text);
    return status;
}

static double ulp_at(double y) {
    int e;
    frexp(y, &e);
    return ldexp(1, (e < -125 ? -125 : e) - 24);
}

/* In ulps; infinity for a wrong NaN or zero. An infinite result counts as 2^128, and is what more than that should be. */
static double error_of(const math_row *r, float x, float got) {
    double want = r->exact((double)x);
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isinf(want)) return got == want ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (fabs(want) > 0x1p128) return (double)got == copysign(INFINITY, want) ? 0 : INFINITY;
    if (want == 0 && fabs(got) == 0) return !signbit(want) == !signbit(got) ? 0 : INFINITY;
    double value = isinf(got) ? copysign(0x1p128, got) : (double)got;
    if (fabs(want) < r->flushed) return fabs(value - want) <= r->flushed ? 0 : INFINITY;
    double scale = fmax(fabs(want), r->of_input ? fabs((double)x) : r->least);
    return fabs(value - want) / ulp_at(scale);
}

typedef struct sweep {
    float *x, *y[ROWS];
    hn_tensor *in, *out[ROWS];
    hn_module *module;
    double worst[ROWS];
    float where[ROWS];
} sweep;

static hn_status begin_sweep(sweep *s, const char *cpu) {
    HN_TRY(compile_rows(cpu, &s->module));
    hn_tensor_desc desc = {.type = HN_F32, .rank = 1, .sizes = (int64_t[]){COUNT}};
    desc.data = s->x = aligned_alloc(64, COUNT * sizeof(float));
    HN_TRY(hn_tensor_create(&desc, &s->in));
    for (int k = 0; k < ROWS; k++) {
        desc.data = s->y[k] = aligned_alloc(64, COUNT * sizeof(float));
        HN_TRY(hn_tensor_create(&desc, &s->out[k]));
    }
    return NULL;
}

static hn_status look(sweep *s) {
    HN_TRY(hn_module_run(s->module, &s->in, 1, s->out, ROWS));
    for (int k = 0; k < ROWS; k++)
        for (int i = 0; i < COUNT; i++) {
            double e = error_of(&rows[k], s->x[i], s->y[k][i]);
            if (e > s->worst[k]) s->worst[k] = e, s->where[k] = s->x[i];
        }
    return NULL;
}

static void end_sweep(sweep *s) {
    hn_module_release(s->module);
    hn_tensor_release(s->in);
    free(s->x);
    for (int k = 0; k < ROWS; k++) hn_tensor_release(s->out[k]), free(s->y[k]);
}

static hn_status run_sweep(sweep *s, uint32_t stride) {
    static const float edges[] = {0, -0.0f, INFINITY, -INFINITY, NAN, FLT_MIN, -FLT_MIN, 0x1p-149f, -0x1p-149f, FLT_MAX, -FLT_MAX, 1, -1,
                                  88.72283f, 88.72284f, 89.5f, -87.3f, -87.33655f, -87.4f, -88.8f, 9.4f, 4.08f, 8192, 8193};
    for (uint64_t at = 0; at <= UINT32_MAX;) {
        for (int i = 0; i < COUNT; i++, at += stride) memcpy(&s->x[i], &(uint32_t){(uint32_t)at}, sizeof *s->x);
        HN_TRY(look(s));
    }
    for (int i = 0; i < COUNT; i++) s->x[i] = edges[i % (int)(sizeof edges / sizeof *edges)];
    return look(s);
}

static void check_level(const char *cpu) {
    const char *given = getenv("HENRY_SWEEP_STRIDE");
    uint32_t stride = given ? (uint32_t)strtoul(given, NULL, 10) | 1 : STRIDE;
    sweep s = {0};
    hn_status status = begin_sweep(&s, cpu);
    if (!status) status = run_sweep(&s, stride);
    EXPECT_OK(status);
    for (int k = 0; k < ROWS && !status; k++) {
        printf("%-9s %-13s %6.3f ulp, bound %g, at %a\n", cpu, rows[k].name, s.worst[k], rows[k].ulp, (double)s.where[k]);
        if (!(s.worst[k] <= rows[k].ulp))
            HN_TEST_FAIL("%s: %s is off by %.3f ulp at %a, bound %g", cpu, rows[k].name, s.worst[k], (double)s.where[k], rows[k].ulp);
    }
    end_sweep(&s);
}

TEST(errors_of_the_plain_level) { check_level("generic"); }

TEST(errors_of_this_machine) {
    hn_c_target host;
    hn_c_target_host(&host);
    check_level(host.name);
}

TEST(errors_of_vectors_of_32_bytes) {
    hn_c_target host;
    hn_c_target_host(&host);
    if (host.vector_bytes > 32) check_level("x86-64-v3");
}

TEST_MAIN
