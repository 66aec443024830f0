/* Attention: every combination of how models write it down, against the interpreter on masked,
 * unmasked and fully masked rows; and graphs that look alike and are not. */
#include "unit/opt/equivalence.h"

#include "base/trace.h"
#include "ir/build.h"

#include <float.h>

enum { B = 2, H = 4, M = 5, D = 4 };

typedef enum scale_kind {
    SCALE_NONE,
    SCALE_Q,
    SCALE_BOTH,
    SCALE_MUL,
    SCALE_DIV,
    SCALE_K,
    SCALE_KINDS
} scale_kind;
typedef enum mask_kind {
    MASK_NONE,
    MASK_WHERE_INF,        /* where(keep, s, -inf), keep from outside */
    MASK_WHERE_MIN,        /* where(keep, s, finfo.min) */
    MASK_NOT_WHERE_INF,    /* where(drop, -inf, s) */
    MASK_ADD,              /* s + mask from outside */
    MASK_ADD_WHERE_INF,    /* s + where(keep, 0, -inf) */
    MASK_ADD_WHERE_MIN,    /* s + where(keep, 0, finfo.min) */
    MASK_CAUSAL_WHERE_INF, /* keep: j <= i */
    MASK_CAUSAL_WHERE_MIN,
    MASK_CAUSAL_ADD_MIN,
    MASK_CAUSAL_TABLE,       /* bool constant */
    MASK_CAUSAL_FLOAT_TABLE, /* 0 and finfo.min */
    MASK_CAUSAL_AND_KEEP,
    MASK_CAUSAL_PLUS_ADD, /* where(causal, s, finfo.min) + mask from outside */
    MASK_KINDS
} mask_kind;
typedef enum safe_kind { SAFE_NO, SAFE_ANY, SAFE_MAX, SAFE_ALL, SAFE_KINDS } safe_kind;

typedef struct form {
    scale_kind scale;
    mask_kind mask;
    safe_kind safe;
    bool flat;    /* products of rank 3 */
    bool k_first; /* flat, with k merged before it is transposed */
    bool grouped; /* k and v repeated for groups of queries */
    hn_dtype dtype;
    bool symbolic; /* the number of positions */
    int64_t n;     /* keys */
} form;

/* --- making one --- */

static hn_expr num(hn_graph *g, int64_t n) { return hn_sym_int(g->sym, n); }

static hn_value input(hn_graph *g, hn_dtype dtype, const hn_expr *sizes, uint32_t rank,
                      const char *name) {
    hn_value v = hn_graph_add_tensor(g, dtype, rank, sizes, NULL, HN_STR(""));
    EXPECT_OK(hn_graph_add_input(
        g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = hn_str_of(name)}));
    return v;
}

static hn_value by(hn_graph *g, hn_op op, hn_value x, double c) {
    return hn_b_binary(g, op, x, hn_b_scalar(g, c, hn_graph_value(g, x)->dtype));
}

static hn_value repeat_heads(hn_graph *g, hn_value x, uint32_t groups) {
    const hn_value_info i = *hn_graph_value(g, x);
    hn_expr one[5] = {i.sizes[0], i.sizes[1], num(g, 1), i.sizes[2], i.sizes[3]};
    hn_expr all[5] = {i.sizes[0], i.sizes[1], num(g, groups), i.sizes[2], i.sizes[3]};
    hn_expr out[4] = {i.sizes[0], hn_sym_mul(g->sym, i.sizes[1], num(g, groups)), i.sizes[2],
                      i.sizes[3]};
    return hn_b_reshape(g, hn_b_expand(g, hn_b_reshape(g, x, one, 5), all, 5), out, 4);
}

static hn_value merge_batch(hn_graph *g, hn_value x) {
    const hn_value_info i = *hn_graph_value(g, x);
    return hn_b_reshape(
        g, x, (hn_expr[]){hn_sym_mul(g->sym, i.sizes[0], i.sizes[1]), i.sizes[2], i.sizes[3]}, 3);
}

static hn_value causal_bool(hn_graph *g, hn_expr m, hn_expr n) {
    hn_scalar zero = hn_scalar_i(num(g, 0)), one = hn_scalar_i(num(g, 1));
    hn_value i = hn_b_unsqueeze(g, hn_b_iota(g, zero, one, m, HN_DTYPE_I64), 1),
             j = hn_b_iota(g, zero, one, n, HN_DTYPE_I64);
    return hn_b_binary(g, HN_OP_LE, j, i);
}

static hn_value causal_table(hn_graph *g, int64_t m, int64_t n, bool is_float) {
    hn_expr sizes[4] = {num(g, 1), num(g, 1), num(g, m), num(g, n)};
    uint8_t bools[64];
    float floats[64];
    for (int64_t k = 0; k < m * n; k++) {
        bools[k] = k % n <= k / n;
        floats[k] = bools[k] ? 0 : -FLT_MAX;
    }
    return is_float ? hn_graph_add_constant(g, HN_DTYPE_F32, 4, sizes, floats, (size_t)(m * n) * 4)
                    : hn_graph_add_constant(g, HN_DTYPE_BOOL, 4, sizes, bools, (size_t)(m * n));
}

static hn_value masked(hn_graph *g, const form *f, hn_value s, hn_expr m, hn_expr n) {
    hn_dtype dtype = hn_graph_value(g, s)->dtype;
    double lowest = dtype == HN_DTYPE_F16 ? -65504 : -FLT_MAX;
    hn_value inf = hn_b_scalar(g, -INFINITY, dtype), min = hn_b_scalar(g, lowest, dtype),
             zero = hn_b_scalar(g, 0, dtype);
    hn_expr keep_sizes[4] = {num(g, B), num(g, 1), f->mask % 2 ? num(g, 1) : m, n};
    bool wants_keep = f->mask != MASK_NONE && f->mask != MASK_ADD &&
                      (f->mask < MASK_CAUSAL_WHERE_INF || f->mask == MASK_CAUSAL_AND_KEEP);
    hn_value keep = wants_keep ? input(g, HN_DTYPE_BOOL, keep_sizes, 4, "keep") : 0;
    bool is_causal = f->mask >= MASK_CAUSAL_WHERE_INF;
    hn_value causal = is_causal ? causal_bool(g, m, n) : 0;
    switch (f->mask) {
    case MASK_WHERE_INF: return hn_b_where(g, keep, s, inf);
    case MASK_WHERE_MIN: return hn_b_where(g, keep, s, min);
    case MASK_NOT_WHERE_INF: return hn_b_where(g, keep, inf, s);
    case MASK_ADD: return hn_b_binary(g, HN_OP_ADD, input(g, dtype, keep_sizes, 4, "mask"), s);
    case MASK_ADD_WHERE_INF: return hn_b_binary(g, HN_OP_ADD, s, hn_b_where(g, keep, zero, inf));
    case MASK_ADD_WHERE_MIN: return hn_b_binary(g, HN_OP_ADD, s, hn_b_where(g, keep, zero, min));
    case MASK_CAUSAL_WHERE_INF: return hn_b_where(g, causal, s, inf);
    case MASK_CAUSAL_WHERE_MIN: return hn_b_where(g, causal, s, min);
    case MASK_CAUSAL_ADD_MIN: return hn_b_binary(g, HN_OP_ADD, s, hn_b_where(g, causal, zero, min));
    case MASK_CAUSAL_TABLE: return hn_b_where(g, causal_table(g, M, f->n, false), s, inf);
    case MASK_CAUSAL_FLOAT_TABLE:
        return hn_b_binary(g, HN_OP_ADD, s, hn_b_cast(g, causal_table(g, M, f->n, true), dtype));
    case MASK_CAUSAL_AND_KEEP:
        return hn_b_where(g, hn_b_binary(g, HN_OP_AND, causal, keep), s, inf);
    case MASK_CAUSAL_PLUS_ADD:
        return hn_b_binary(g, HN_OP_ADD, hn_b_where(g, causal, s, min),
                           input(g, dtype, keep_sizes, 4, "mask"));
    default: return s;
    }
}

static hn_value softmax(hn_graph *g, const form *f, hn_value s) {
    uint32_t last[1] = {hn_graph_value(g, s)->rank - 1};
    hn_dtype dtype = hn_graph_value(g, s)->dtype;
    hn_value max = hn_b_reduce(g, HN_OP_AMAX, s, last, 1, true);
    hn_value e = hn_b_unary(g, HN_OP_EXP, hn_b_binary(g, HN_OP_SUB, s, max));
    hn_value p = hn_b_binary(g, HN_OP_DIV, e, hn_b_reduce(g, HN_OP_SUM, e, last, 1, true));
    hn_value inf = hn_b_scalar(g, -INFINITY, dtype), zero = hn_b_scalar(g, 0, dtype);
    hn_value eq = f->safe == SAFE_ANY || f->safe == SAFE_ALL ? hn_b_binary(g, HN_OP_EQ, s, inf) : 0;
    if (f->safe == SAFE_ANY) {
        hn_value any = hn_b_reduce(g, HN_OP_ANY, hn_b_unary(g, HN_OP_NOT, eq), last, 1, true);
        return hn_b_where(g, hn_b_unary(g, HN_OP_NOT, any), zero, p);
    }
    if (f->safe == SAFE_ALL)
        return hn_b_where(g, hn_b_reduce(g, HN_OP_ALL, eq, last, 1, true), zero, p);
    if (f->safe == SAFE_MAX) return hn_b_where(g, hn_b_binary(g, HN_OP_EQ, max, inf), zero, p);
    return p;
}

/* The graph of a form. */
static void make(hn_graph *g, const form *f) {
    hn_sym *sym = g->sym;
    hn_expr m = num(g, M), n = num(g, f->n), kv_heads = num(g, f->grouped ? H / 2 : H);
    if (f->symbolic) {
        m = n = hn_sym_symbol(sym, HN_STR("s0"), HN_SYMBOL_SIZE, 2, 4096);
        hn_sym_set_hint(sym, n, f->n);
    }
    hn_value q = input(g, f->dtype, (hn_expr[]){num(g, B), num(g, H), m, num(g, D)}, 4, "q");
    hn_value k = input(g, f->dtype, (hn_expr[]){num(g, B), kv_heads, n, num(g, D)}, 4, "k");
    hn_value v = input(g, f->dtype, (hn_expr[]){num(g, B), kv_heads, n, num(g, 3)}, 4, "v");
    if (f->grouped) k = repeat_heads(g, k, 2), v = repeat_heads(g, v, 2);
    if (f->k_first) k = merge_batch(g, k);
    uint32_t rank = hn_graph_value(g, k)->rank;
    k = hn_b_transpose(g, k, rank - 2, rank - 1);
    if (f->scale == SCALE_Q || f->scale == SCALE_BOTH)
        q = by(g, HN_OP_MUL, q, f->scale == SCALE_Q ? 0.5 : sqrt(0.5));
    if (f->scale == SCALE_K || f->scale == SCALE_BOTH)
        k = by(g, HN_OP_MUL, k, f->scale == SCALE_K ? 0.5 : sqrt(0.5));
    if (f->flat) q = merge_batch(g, q), v = merge_batch(g, v);
    if (f->flat && !f->k_first) k = merge_batch(g, k);
    hn_value s = hn_b_matmul(g, q, k, 0);
    if (f->flat) s = hn_b_reshape(g, s, (hn_expr[]){num(g, B), num(g, H), m, n}, 4);
    if (f->scale == SCALE_MUL) s = by(g, HN_OP_MUL, s, 0.5);
    if (f->scale == SCALE_DIV) s = by(g, HN_OP_DIV, s, 2);
    bool wide = hn_dtype_facts(f->dtype)->size_bytes == 2;
    if (wide) s = hn_b_cast(g, s, HN_DTYPE_F32);
    hn_value p = softmax(g, f, masked(g, f, s, m, n));
    if (wide) p = hn_b_cast(g, p, f->dtype);
    if (f->flat) p = merge_batch(g, p);
    hn_value y = hn_b_matmul(g, p, v, 0);
    if (f->flat) y = hn_b_reshape(g, y, (hn_expr[]){num(g, B), num(g, H), m, num(g, 3)}, 4);
    EXPECT_OK(hn_graph_add_output(
        g, (hn_output){.kind = HN_OUTPUT_USER, .value = y, .name = HN_STR("")}));
}

static void build(eq_graph *e, const form *f) {
    eq_begin(e);
    EXPECT_OK(hn_graph_create(&e->arena, e->sym, &e->g));
    make(e->g, f);
    EXPECT_OK(hn_graph_status(e->g));
}

/* --- what is expected --- */

static bool causal_expected(const form *f) {
    /* its -3e38 meets another mask */
    return f->mask >= MASK_CAUSAL_WHERE_INF && f->mask != MASK_CAUSAL_PLUS_ADD;
}

static bool mask_expected(const form *f) {
    if (f->mask == MASK_NONE) return false;
    return f->mask < MASK_CAUSAL_WHERE_INF || f->mask == MASK_CAUSAL_AND_KEEP ||
           f->mask == MASK_CAUSAL_PLUS_ADD;
}

static void expect_form(const form *f) {
    eq_graph before, after;
    char what[160];
    snprintf(what, sizeof what,
             "scale %d mask %d safe %d flat %d k_first %d grouped %d %s symbolic %d n %d", f->scale,
             f->mask, f->safe, f->flat, f->k_first, f->grouped, hn_dtype_facts(f->dtype)->name,
             f->symbolic, (int)f->n);
    build(&before, f);
    build(&after, f);
    EXPECT_OK(eq_run_pass(&after, hn_pass_cse, false));
    EXPECT_OK(eq_run_pass(&after, hn_pass_fold, false));
    EXPECT_OK(eq_run_pass(&after, hn_pass_patterns, false));
    const hn_node_info *y = eq_find(after.g, HN_OP_ATTENTION);
    if (!y || eq_count(after.g, HN_OP_MATMUL)) {
        HN_TEST_FAIL("%s: not found", what);
    } else {
        bool causal = y->args[5].as.b, mask = y->args[3].kind == HN_ARG_VALUE;
        if (causal != causal_expected(f)) HN_TEST_FAIL("%s: causal is %d", what, causal);
        if (mask != mask_expected(f)) HN_TEST_FAIL("%s: mask is %d", what, mask);
        double scale = f->scale == SCALE_NONE ? 1 : 0.5;
        if (y->args[4].as.f != scale) HN_TEST_FAIL("%s: scale is %.17g", what, y->args[4].as.f);
        if (hn_graph_value(after.g, y->args[0].as.value)->producer)
            HN_TEST_FAIL("%s: q is not the input itself", what);
        if (hn_graph_value(after.g, y->args[1].as.value)->producer)
            HN_TEST_FAIL("%s: k is not the input itself", what);
        if (hn_graph_value(after.g, y->args[2].as.value)->producer)
            HN_TEST_FAIL("%s: v is not the input itself", what);
    }
    /* 16-bit products and probabilities round on the way, attention does not */
    bool narrow = hn_dtype_facts(f->dtype)->size_bytes == 2;
    eq_options o = {.rtol = narrow ? 3e-2 : 1e-5, .atol = narrow ? 3e-2 : 2e-6, .finite = true};
    eq_expect_same(&before, &after, what, &o);
    eq_end(&before);
    eq_end(&after);
}

TEST(masks_by_safety) {
    for (int mask = 0; mask < MASK_KINDS; mask++)
        for (int safe = 0; safe < SAFE_KINDS; safe++)
            for (int flat = 0; flat < 2; flat++)
                expect_form(&(form){.scale = SCALE_MUL,
                                    .mask = mask,
                                    .safe = safe,
                                    .flat = flat,
                                    .dtype = HN_DTYPE_F32,
                                    .n = M});
}

TEST(scales_by_form) {
    for (int scale = 0; scale < SCALE_KINDS; scale++)
        for (int how = 0; how < 3; how++)
            for (int grouped = 0; grouped < 2; grouped++)
                expect_form(&(form){.scale = scale,
                                    .flat = how > 0,
                                    .k_first = how == 2,
                                    .grouped = grouped,
                                    .dtype = HN_DTYPE_F32,
                                    .n = 7});
}

TEST(dtypes) {
    static const hn_dtype dtypes[] = {HN_DTYPE_F64, HN_DTYPE_F32, HN_DTYPE_F16, HN_DTYPE_BF16};
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++)
        for (int mask = 0; mask < MASK_KINDS; mask++)
            expect_form(&(form){.scale = SCALE_BOTH,
                                .mask = mask,
                                .flat = d % 2,
                                .safe = SAFE_MAX,
                                .dtype = dtypes[d],
                                .n = M});
}

TEST(symbolic_lengths) {
    for (int mask = 0; mask < MASK_KINDS; mask++) {
        /* of one length */
        if (mask == MASK_CAUSAL_TABLE || mask == MASK_CAUSAL_FLOAT_TABLE) continue;
        expect_form(&(form){.scale = SCALE_DIV,
                            .mask = mask,
                            .flat = true,
                            .grouped = mask % 2,
                            .dtype = HN_DTYPE_F32,
                            .symbolic = true,
                            .n = 6});
    }
}

TEST(more_keys_than_queries) {
    for (int mask = 0; mask < MASK_KINDS; mask++)
        expect_form(&(form){.mask = mask, .dtype = HN_DTYPE_F32, .n = 8});
}

/* --- single queries: sizes of 1 make permutes of reshapes --- */

TEST(one_query) {
    static const char text[] =
        "graph { input user %q : f32[2, 1, 4, 8] \"q\" input user %k : f32[2, 4, 6, 8] \"k\" input user %v : f32[2, 4, 6, 8] \"v\""
        "%qp = permute(%q, dims=[0, 2, 1, 3]) %kt = permute(%k, dims=[0, 1, 3, 2]) %s = matmul(%qp, %kt, bias=none)"
        "%m = amax(%s, dims=[3], keepdim=true) %d = sub(%s, %m) %e = exp(%d) %n = sum(%e, dims=[3], keepdim=true) %p = div(%e, %n)"
        "%y = matmul(%p, %v, bias=none) %z = permute(%y, dims=[0, 2, 1, 3]) output user %z \"\" }";
    eq_graph before, after;
    bool parsed = eq_parse(&before, text);
    if (eq_parse(&after, text) && parsed) {
        EXPECT_OK(eq_run_pass(&after, hn_pass_fold, false));
        EXPECT_OK(eq_run_pass(&after, hn_pass_patterns, false));
        EXPECT_INT(eq_count(after.g, HN_OP_ATTENTION), 1);
        eq_expect_same(&before, &after, "one query",
                       &(eq_options){.rtol = 1e-5, .atol = 1e-6, .finite = true});
    }
    eq_end(&before);
    eq_end(&after);
}

/* --- look alike, are not --- */

#define HEAD                                                                                                                     \
    "graph { input user %q : f32[2, 3, 5, 4] \"q\" input user %k : f32[2, 3, 5, 4] \"k\" input user %v : f32[2, 3, 5, 4] \"v\" " \
    "%kt = permute(%k, dims=[0, 1, 3, 2]) %s0 = matmul(%q, %kt, bias=none) "
#define MAX  "%m = amax(%s, dims=[3], keepdim=true) "
#define REST "%e = exp(%d) %n = sum(%e, dims=[3], keepdim=true) %p = div(%e, %n) "
#define TAIL "%y = matmul(%p, %v, bias=none) output user %y \"\" }"
#define SAME "%one = full(value=1.0, sizes=[], dtype=f32) %s = sub(%s0, %one) "

static void expect_attentions(const char *text, uint32_t count, uint32_t causal) {
    eq_graph before, after;
    bool parsed = eq_parse(&before, text);
    if (eq_parse(&after, text) && parsed) {
        EXPECT_OK(eq_run_pass(&after, hn_pass_fold, false));
        EXPECT_OK(eq_run_pass(&after, hn_pass_patterns, false));
        uint32_t found = 0;
        for (hn_node n = 1; n < after.g->nodes.count; n++)
            found += after.g->nodes.items[n].op == HN_OP_ATTENTION &&
                     after.g->nodes.items[n].args[5].as.b;
        if (eq_count(after.g, HN_OP_ATTENTION) != count || found != causal)
            HN_TEST_FAIL("%s\ngives %u attentions, %u causal; expected %u and %u", text,
                         eq_count(after.g, HN_OP_ATTENTION), found, count, causal);
        eq_expect_same(&before, &after, text,
                       &(eq_options){.rtol = 1e-5, .atol = 2e-6, .finite = true});
    }
    eq_end(&before);
    eq_end(&after);
}

TEST(near_misses) {
    /* the one that is: scores less a number */
    expect_attentions(HEAD "%s = neg(%s0) " MAX "%d = sub(%s, %m) " REST TAIL, 0, 0);
    /* the maximum of other scores; the minimum; along another dim; without keepdim elsewhere */
    expect_attentions(
        HEAD
        "%s = exp(%s0) %m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST
        "%y = matmul(%p, %v, bias=none) %z = matmul(%s, %v, bias=none) output user %y \"\" output user %z \"\" }",
        0, 0);
    expect_attentions(HEAD "%m = amin(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST TAIL, 0,
                      0);
    expect_attentions(HEAD "%m = amax(%s0, dims=[2], keepdim=true) %d = sub(%s0, %m) " REST TAIL, 0,
                      0);
    expect_attentions(HEAD "%m = amax(%s0, dims=[3], keepdim=true) %d = sub(%m, %s0) " REST TAIL, 0,
                      0);
    /* the sum of something else; the quotient upside down */
    expect_attentions(
        HEAD
        "%m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) %e = exp(%d) %e2 = mul(%e, %e) %n = sum(%e2, dims=[3], keepdim=true) %p = div(%e, %n) " TAIL,
        0, 0);
    expect_attentions(
        HEAD
        "%m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) %e = exp(%d) %n = sum(%e, dims=[3], keepdim=true) %p = div(%n, %e) %y = matmul(%p, %v, bias=none) output user %y \"\" }",
        0, 0);
    /* probabilities on the right */
    expect_attentions(
        HEAD
        "%m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST
        "%vt = permute(%v, dims=[0, 1, 3, 2]) %y = matmul(%vt, %p, bias=none) output user %y \"\" }",
        0, 0);
    /* a bias behind the values */
    expect_attentions(
        "graph { input user %b : f32[4] \"b\" "
        "input user %q : f32[2, 3, 5, 4] \"q\" input user %k : f32[2, 3, 5, 4] \"k\" input user %v : f32[2, 3, 5, 4] \"v\" "
        "%kt = permute(%k, dims=[0, 1, 3, 2]) %s0 = matmul(%q, %kt, bias=none) %m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST
        "%y = matmul(%p, %v, %b) output user %y \"\" }",
        0, 0);
    /* where(.., p, 1) is no safety, nor is one that asks other scores */
    expect_attentions(
        HEAD
        "%inf = full(value=-inf, sizes=[], dtype=f32) %one = full(value=1.0, sizes=[], dtype=f32) %m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST
        "%c = ne(%m, %inf) %w = where(%c, %p, %one) %y = matmul(%w, %v, bias=none) output user %y \"\" }",
        0, 0);
    expect_attentions(
        HEAD
        "%inf = full(value=-inf, sizes=[], dtype=f32) %zero = full(value=0.0, sizes=[], dtype=f32) %m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST
        "%o = amax(%q, dims=[3], keepdim=true) %c = ne(%o, %inf) %w = where(%c, %p, %zero) %y = matmul(%w, %v, bias=none) output user %y \"\" }",
        0, 0);
    /* the safety asks about scores of its own */
    expect_attentions(
        HEAD
        "%inf = full(value=-inf, sizes=[], dtype=f32) %zero = full(value=0.0, sizes=[], dtype=f32) %m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST
        "%k2 = neg(%k) %kt2 = permute(%k2, dims=[0, 1, 3, 2]) %s2 = matmul(%q, %kt2, bias=none) %log = log(%s2)"
        "%c0 = ne(%log, %inf) %c = any(%c0, dims=[3], keepdim=true) %w = where(%c, %p, %zero) %y = matmul(%w, %v, bias=none) output user %y \"\" }",
        0, 0);
    /* the safety asks the wrong way round */
    expect_attentions(
        HEAD
        "%inf = full(value=-inf, sizes=[], dtype=f32) %zero = full(value=0.0, sizes=[], dtype=f32) %m = amax(%s0, dims=[3], keepdim=true) %d = sub(%s0, %m) " REST
        "%c = eq(%m, %inf) %w = where(%c, %p, %zero) %y = matmul(%w, %v, bias=none) output user %y \"\" }",
        0, 0);
}

#define FILLED(fill, after)                                                                                                       \
    "graph { input user %keep : bool[5, 5] \"keep\" input user %q : f32[2, 3, 5, 4] \"q\" input user %k : f32[2, 3, 5, 4] \"k\" " \
    "input user %v : f32[2, 3, 5, 4] \"v\" %kt = permute(%k, dims=[0, 1, 3, 2]) %s0 = matmul(%q, %kt, bias=none) "                \
    "%i = iota(start=0, step=1, size=5, dtype=i64) %r = reshape(%i, sizes=[5, 1]) %le = le(%i, %r) "                              \
    "%f = full(value=" fill ", sizes=[], dtype=f32) " after MAX "%d = sub(%s, %m) " REST TAIL

TEST(fills) {
    expect_attentions(FILLED("-1e9", "%s = where(%le, %s0, %f) "), 1, 1);
    /* an empty row averages: scores do not vanish in it */
    expect_attentions(FILLED("-1e9", "%s = where(%keep, %s0, %f) "), 0, 0);
    expect_attentions(FILLED("-1e38", "%s = where(%keep, %s0, %f) "), 1, 0);
    expect_attentions(FILLED("-10000.0", "%s = where(%le, %s0, %f) "), 0, 0);
    expect_attentions(FILLED("0.0", "%s = where(%le, %s0, %f) "), 0, 0);
    expect_attentions(
        FILLED(
            "inf",
            "%w = where(%le, %s0, %f) %t = full(value=-2.0, sizes=[], dtype=f32) %s = mul(%w, %t) "),
        0, 0);
    expect_attentions(
        FILLED(
            "-inf",
            "%w = where(%le, %s0, %f) %t = full(value=2.0, sizes=[], dtype=f32) %s = mul(%w, %t) "),
        1, 1);
    expect_attentions(
        FILLED(
            "-inf",
            "%w = where(%le, %s0, %f) %t = full(value=-2.0, sizes=[], dtype=f32) %s = mul(%w, %t) "),
        0, 0);
    expect_attentions(FILLED("-inf", "%w = where(%keep, %s0, %f) %s = where(%le, %w, %f) "), 1, 1);
}

TEST(other_heads) {
    /* keys for two groups, values for one: no common number of heads */
    expect_attentions(
        "graph { input user %q : f32[2, 4, 5, 4] \"q\" input user %k : f32[2, 2, 5, 4] \"k\" input user %v : f32[2, 1, 5, 4] \"v\" "
        "%k1 = reshape(%k, sizes=[2, 2, 1, 5, 4]) %k2 = expand(%k1, sizes=[2, 2, 2, 5, 4]) %k3 = reshape(%k2, sizes=[2, 4, 5, 4])"
        "%v3 = expand(%v, sizes=[2, 4, 5, 4]) %y = attention(%q, %k3, %v3, none, scale=0.5, causal=true) output user %y \"\" }",
        1, 1);
    /* heads repeated in another order: 0 1 0 1 */
    expect_attentions(
        "graph { input user %q : f32[2, 4, 5, 4] \"q\" input user %k : f32[2, 2, 5, 4] \"k\" "
        "%k1 = reshape(%k, sizes=[2, 1, 2, 5, 4]) %k2 = expand(%k1, sizes=[2, 2, 2, 5, 4]) %k3 = reshape(%k2, sizes=[2, 4, 5, 4])"
        "%y = attention(%q, %k3, %k3, none, scale=0.5, causal=true) output user %y \"\" }",
        1, 1);
}

#define CAUSAL(compare)                                                                                                           \
    HEAD                                                                                                                          \
        "%i = iota(start=0, step=1, size=5, dtype=i64) %r = reshape(%i, sizes=[5, 1]) %one = full(value=1, sizes=[], dtype=i64) " \
        "%inf = full(value=-inf, sizes=[], dtype=f32) " compare " %s = where(%c, %s0, %inf) " MAX                                 \
        "%d = sub(%s, %m) " REST TAIL

TEST(causal_in_all_spellings) {
    expect_attentions(CAUSAL("%c = le(%i, %r)"), 1, 1);
    expect_attentions(CAUSAL("%c = ge(%r, %i)"), 1, 1);
    expect_attentions(CAUSAL("%x = add(%r, %one) %c = lt(%i, %x)"), 1, 1);
    expect_attentions(CAUSAL("%x = add(%r, %one) %c = gt(%x, %i)"), 1, 1);
    expect_attentions(
        CAUSAL("%x = sub(%r, %i) %z = full(value=0, sizes=[], dtype=i64) %c = ge(%x, %z)"), 1, 1);
    expect_attentions(CAUSAL("%x = sub(%i, %r) %c = lt(%x, %one)"), 1, 1);
    expect_attentions(CAUSAL("%x = gt(%i, %r) %c = not(%x)"), 1, 1);
    expect_attentions(
        CAUSAL(
            "%x = lt(%r, %i) %y0 = not(%x) %e0 = reshape(%y0, sizes=[1, 1, 5, 5]) %c = expand(%e0, sizes=[2, 3, 5, 5])"),
        1, 1);
}

TEST(nearly_causal) {
    /* the diagonal is masked, so row 0 is empty */
    expect_attentions(CAUSAL("%c = lt(%i, %r)"), 1, 0);
    /* the other triangle */
    expect_attentions(CAUSAL("%c = ge(%i, %r)"), 1, 0);
    expect_attentions(CAUSAL("%x = add(%r, %one) %c = le(%i, %x)"), 1, 0); /* one key ahead */
    expect_attentions(CAUSAL("%x = mul(%r, %r) %c = le(%i, %x)"), 1, 0);
    expect_attentions(
        CAUSAL("%t = full(value=2, sizes=[], dtype=i64) %x = mul(%r, %t) %c = le(%i, %x)"), 1, 0);
    expect_attentions(CAUSAL("%c = le(%i, %i)"), 1, 0); /* nothing masked */
    expect_attentions(CAUSAL("%c = eq(%i, %r)"), 1, 0);
    /* a window of two keys: causal, and the rest as a mask */
    expect_attentions(CAUSAL("%a = le(%i, %r) %w = sub(%r, %one) %b = ge(%i, %w) %c = and(%a, %b)"),
                      1, 1);
}

/* Old models keep the triangle in a buffer and cut out what they need. */
TEST(causal_buffer) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, "graph { storage 1 : 64 bytes hex ");
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) hn_strbuf_puts(&text, j <= i ? "01" : "00");
    hn_strbuf_puts(
        &text,
        " input buffer %bias : bool[1, 1, 8, 8] storage 1 offset 0 \"bias\" "
        "input user %q : f32[2, 3, 5, 4] \"q\" input user %k : f32[2, 3, 5, 4] \"k\" input user %v : f32[2, 3, 5, 4] \"v\" "
        "%kt = permute(%k, dims=[0, 1, 3, 2]) %s0 = matmul(%q, %kt, bias=none) "
        "%a = slice(%bias, dim=2, start=0, size=5, step=1) %c = slice(%a, dim=3, start=0, size=5, step=1) "
        "%low = full(value=-3.4028234663852886e+38, sizes=[], dtype=f32) %s = where(%c, %s0, %low) " MAX
        "%d = sub(%s, %m) " REST TAIL);
    expect_attentions(text.ptr, 1, 1);
    hn_strbuf_deinit(&text);
}

/* --- attention as imported --- */

TEST(masks_of_attention_nodes) {
#define ATTEND(mask, op)                                                                                                         \
    "graph { input user %q : f32[2, 3, 5, 4] \"q\" input user %k : f32[2, 3, 5, 4] \"k\" input user %v : f32[2, 3, 5, 4] \"v\" " \
    "input user %keep : bool[2, 1, 1, 5] \"keep\" %i = iota(start=0, step=1, size=5, dtype=i64) %r = reshape(%i, sizes=[5, 1]) " \
    "%le = le(%i, %r) " mask " %y = attention(%q, %k, %v, " op                                                                   \
    ", scale=0.5, causal=false) output user %y \"\" }"
    expect_attentions(ATTEND("", "%le"), 1, 1);
    expect_attentions(ATTEND("%b = and(%keep, %le)", "%b"), 1, 1);
    expect_attentions(ATTEND("%b = or(%keep, %le)", "%b"), 1, 0);
    expect_attentions(
        ATTEND(
            "%z = full(value=0.0, sizes=[], dtype=f32) %n = full(value=-inf, sizes=[], dtype=f32) %b = where(%le, %z, %n)",
            "%b"),
        1, 1);
    expect_attentions(
        ATTEND(
            "%z = full(value=0.0, sizes=[], dtype=f32) %n = full(value=-inf, sizes=[], dtype=f32) %b = where(%keep, %z, %n)",
            "%b"),
        1, 0);
    expect_attentions(ATTEND("%t = full(value=1, sizes=[5, 5], dtype=bool)", "%t"), 1, 0);
    /* all rows are 0 */
    expect_attentions(ATTEND("%f = full(value=0, sizes=[5, 5], dtype=bool)", "%f"), 1, 0);
}

/* --- size --- */

TEST(many_layers) {
    eq_graph e;
    form f = {.scale = SCALE_BOTH,
              .mask = MASK_ADD_WHERE_MIN,
              .flat = true,
              .dtype = HN_DTYPE_F32,
              .n = M};
    eq_begin(&e);
    EXPECT_OK(hn_graph_create(&e.arena, e.sym, &e.g));
    for (int k = 0; k < 300; k++) make(e.g, &f);
    uint32_t before = e.g->nodes.count;
    hn_pass_context context = {.scratch = &e.scratch};
    int64_t begin = hn_now_ns();
    EXPECT_OK(hn_pass_patterns(e.g, &context));
    double ms = (double)(hn_now_ns() - begin) * 1e-6;
    fprintf(stderr, "patterns: %u nodes to %u in %.1f ms\n", before - 1, e.g->nodes.count - 1, ms);
    EXPECT_INT(eq_count(e.g, HN_OP_ATTENTION), 300);
    EXPECT(ms < 1000); /* some ms; only a square would take seconds, even when instrumented */
    eq_end(&e);
}

TEST_MAIN
