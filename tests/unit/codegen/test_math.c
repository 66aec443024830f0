/* test_math.c: the math functions of generated kernels against double precision, for each level of
 * CPU that this machine can run.
 *
 * Inputs are floats of every exponent and sign: one of HENRY_SWEEP_STRIDE bit patterns (an odd
 * number; 1 is all of them), then the edge values. HENRY_SWEEP_PART=K/N takes the K-th of N equal
 * parts of them, K from 0. The bounds are those of the table in docs/ARCHITECTURE.md; the largest
 * errors that were seen are printed. */
#include "codegen/codegen.h"
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

/* `ulp`: the bound. Results whose exact value is below `flushed` may be off by that much: 0 in
 * place of the smallest. `of_input`: the error counts in ulps of max(|x|, |f(x)|): a sum that ends
 * in a product with x. `least`: and of at least this, beside a sine's zeros. */
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
    {"tanh", "tanh(%x)", tanh, .ulp = 6.25},
    {"erf", "erf(%x)", erf, .ulp = 6.75},
    {"sin", "sin(%x)", sin, .ulp = 2, .least = 0x1p-10},
    {"cos", "cos(%x)", cos, .ulp = 2, .least = 0x1p-10},
    {"sigmoid", "sigmoid(%x)", sigmoid, .ulp = 3, .flushed = 0x1p-125},
    {"silu", "aten.silu.default(%x) : f32[65536]", silu, .ulp = 3, .flushed = 0x1p-121},
    {"gelu", "aten.gelu.default(%x) : f32[65536]", gelu, .ulp = 4, .of_input = true},
    {"gelu, by tanh", "aten.gelu.default(%x, approximate=\"tanh\") : f32[65536]", gelu_tanh,
     .ulp = 4, .of_input = true},
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

/* Of a float of this size: 2^-149 at least. */
static double ulp_at(double y) {
    uint64_t bits;
    memcpy(&bits, &y, sizeof bits);
    int64_t e = (int64_t)(bits >> 52 & 2047);
    bits = (uint64_t)((e < 897 ? 897 : e) - 23) << 52;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* In ulps; infinity for a wrong NaN or zero. An infinite result counts as 2^128, and is what more
 * than that should be. */
static double error_of(const math_row *r, double want, float x, float got) {
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

/* One level of CPU. */
typedef struct level {
    const char *cpu;
    hn_module *module;
    hn_tensor *out[ROWS];
    float *y[ROWS];
    double worst[ROWS];
    float where[ROWS];
} level;

enum { LEVELS = 3 };
typedef struct sweep {
    float *x;
    hn_tensor *in;
    level levels[LEVELS];
    int level_count;
    uint32_t stride;
    uint64_t begin, end;
} sweep;

static hn_status begin_level(level *l, hn_tensor_desc *desc) {
    HN_TRY(compile_rows(l->cpu, &l->module));
    for (int k = 0; k < ROWS; k++) {
        desc->data = l->y[k] = aligned_alloc(64, COUNT * sizeof(float));
        HN_TRY(hn_tensor_create(desc, &l->out[k]));
    }
    return NULL;
}

static hn_status begin_sweep(sweep *s) {
    hn_tensor_desc desc = {.type = HN_F32, .rank = 1, .sizes = (int64_t[]){COUNT}};
    desc.data = s->x = aligned_alloc(64, COUNT * sizeof(float));
    HN_TRY(hn_tensor_create(&desc, &s->in));
    for (int n = 0; n < s->level_count; n++) HN_TRY(begin_level(&s->levels[n], &desc));
    return NULL;
}

/* The exact value is what costs time: once for all levels. A result that is it, rounded, needs no
 * look once something is worse. */
static void compare(sweep *s, int k) {
    for (int i = 0; i < COUNT; i++) {
        double want = rows[k].exact((double)s->x[i]);
        float rounded = (float)want;
        for (int n = 0; n < s->level_count; n++) {
            level *l = &s->levels[n];
            if (memcmp(&rounded, &l->y[k][i], sizeof rounded) == 0 && l->worst[k] >= 0.5) continue;
            double e = error_of(&rows[k], want, s->x[i], l->y[k][i]);
            if (e > l->worst[k]) l->worst[k] = e, l->where[k] = s->x[i];
        }
    }
}

static hn_status look(sweep *s) {
    for (int n = 0; n < s->level_count; n++)
        HN_TRY(hn_module_run(s->levels[n].module, &s->in, 1, s->levels[n].out, ROWS));
    for (int k = 0; k < ROWS; k++) compare(s, k);
    return NULL;
}

static void end_sweep(sweep *s) {
    for (int n = 0; n < s->level_count; n++) {
        level *l = &s->levels[n];
        hn_module_release(l->module);
        for (int k = 0; k < ROWS; k++) hn_tensor_release(l->out[k]), free(l->y[k]);
    }
    hn_tensor_release(s->in);
    free(s->x);
}

static hn_status run_sweep(sweep *s) {
    static const float edges[] = {0,        -0.0f,     INFINITY,   -INFINITY, NAN,      FLT_MIN,
                                  -FLT_MIN, 0x1p-149f, -0x1p-149f, FLT_MAX,   -FLT_MAX, 1,
                                  -1,       88.72283f, 88.72284f,  89.5f,     -87.3f,   -87.33655f,
                                  -87.4f,   -88.8f,    9.4f,       4.08f,     8192,     8193};
    for (uint64_t at = s->begin; at < s->end;) {
        for (int i = 0; i < COUNT; i++, at += s->stride)
            memcpy(&s->x[i], &(uint32_t){(uint32_t)at}, sizeof *s->x);
        HN_TRY(look(s));
    }
    for (int i = 0; i < COUNT; i++) s->x[i] = edges[i % (int)(sizeof edges / sizeof *edges)];
    return look(s);
}

/* What the environment asks for. */
static void choose(sweep *s) {
    const char *stride = getenv("HENRY_SWEEP_STRIDE"), *part = getenv("HENRY_SWEEP_PART");
    unsigned long long number = 0, count = 1;
    s->stride = stride ? (uint32_t)strtoul(stride, NULL, 10) | 1 : STRIDE;
    EXPECT(!part ||
           (sscanf(part, "%llu/%llu", &number, &count) == 2 && number < count && count <= COUNT));
    s->begin = (number << 32) / count;
    s->end = ((number + 1) << 32) / count;
}

static void report(const level *l) {
    for (int k = 0; k < ROWS; k++) {
        printf("%-9s %-13s %6.3f ulp, bound %g, at %a\n", l->cpu, rows[k].name, l->worst[k],
               rows[k].ulp, (double)l->where[k]);
        if (!(l->worst[k] <= rows[k].ulp))
            HN_TEST_FAIL("%s: %s is off by %.3f ulp at %a, bound %g", l->cpu, rows[k].name,
                         l->worst[k], (double)l->where[k], rows[k].ulp);
    }
}

TEST(errors_of_every_level) {
    const hn_target host = hn_target_host();
    sweep s = {.levels = {{.cpu = "generic"}, {.cpu = host.name}, {.cpu = "x86-64-v3"}},
               .level_count = host.vector_bytes > 32 ? 3 : 2};
    choose(&s);
    hn_status status = begin_sweep(&s);
    if (!status) status = run_sweep(&s);
    EXPECT_OK(status);
    for (int n = 0; n < s.level_count && !status; n++) report(&s.levels[n]);
    end_sweep(&s);
}

TEST_MAIN
