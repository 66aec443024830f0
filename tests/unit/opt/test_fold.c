/* Constant folding: every rule on edge values, by exhaustion where the rules are tables; what must
 * stay; bounds; speed. */
#include "unit/opt/equivalence.h"

#include "base/trace.h"
#include "ir/build.h"

static const eq_options exact = {0};

/* Two copies of what `make` builds, one of them folded. */
typedef void (*make_fn)(hn_graph *g, const void *how);

static void build(eq_graph *e, make_fn make, const void *how) {
    eq_begin(e);
    EXPECT_OK(hn_graph_create(&e->arena, e->sym, &e->g));
    make(e->g, how);
    EXPECT_OK(hn_graph_status(e->g));
}

static void add_output(hn_graph *g, hn_value v) {
    EXPECT_OK(hn_graph_add_output(
        g, (hn_output){.kind = HN_OUTPUT_USER, .value = v, .name = HN_STR("")}));
}

static hn_value add_input(hn_graph *g, hn_dtype dtype, const int64_t *sizes, uint32_t rank,
                          const char *name) {
    hn_expr list[HN_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) list[k] = hn_sym_int(g->sym, sizes[k]);
    hn_value v = hn_graph_add_tensor(g, dtype, rank, list, NULL, HN_STR(""));
    EXPECT_OK(hn_graph_add_input(
        g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = hn_str_of(name)}));
    return v;
}

/* Returns how many nodes are left. */
static uint32_t expect_folds(make_fn make, const void *how, const char *what,
                             const eq_options *options) {
    eq_graph before, after;
    build(&before, make, how);
    build(&after, make, how);
    hn_status status = eq_run_pass(&after, hn_pass_fold, false);
    if (status) HN_TEST_FAIL("%s: %s", what, hn_status_message(status));
    if (!status) eq_expect_same(&before, &after, what, options);
    uint32_t left = after.g->nodes.count - 1;
    hn_status_free(status);
    eq_end(&before);
    eq_end(&after);
    return left;
}

/* --- all element-wise ops with all constants that may be special --- */

typedef struct scalar_case {
    hn_op op;
    hn_dtype dtype;
    double number;
    bool left; /* the constant stands on the left */
} scalar_case;

static void make_scalar_case(hn_graph *g, const void *how) {
    const scalar_case *c = how;
    hn_value x = add_input(g, c->dtype, (int64_t[]){2, 24}, 2, "x");
    hn_value k = hn_b_scalar(g, c->number, c->dtype);
    add_output(g, c->left ? hn_b_binary(g, c->op, k, x) : hn_b_binary(g, c->op, x, k));
}

TEST(binary_ops_with_every_special_number) {
    static const double floats[] = {0.0, -0.0, 1.0, -1.0, 2.0, INFINITY, -INFINITY, NAN};
    static const double ints[] = {0,   1,     -1,     2,          127,          -128,
                                  255, 32767, -32768, 2147483647, -2147483648.0};
    char what[128];
    for (hn_op op = 1; op < HN_OP_COUNT; op++) {
        hn_op_class class = hn_op_facts(op)->op_class;
        if (class != HN_OPC_BINARY && class != HN_OPC_COMPARE) continue;
        for (hn_dtype dtype = 1; dtype < HN_DTYPE_COUNT; dtype++) {
            bool is_float = hn_dtype_is_float(dtype), is_bool = dtype == HN_DTYPE_BOOL;
            if (!hn_op_takes(op, dtype)) continue;
            for (size_t k = 0; k < (is_float  ? HN_COUNT_OF(floats)
                                    : is_bool ? 2
                                              : HN_COUNT_OF(ints));
                 k++)
                for (int left = 0; left < 2; left++) {
                    scalar_case c = {op, dtype, is_float ? floats[k] : ints[k], left};
                    snprintf(what, sizeof what, "%s on %s with %g on the %s", hn_op_facts(op)->name,
                             hn_dtype_facts(dtype)->name, c.number, left ? "left" : "right");
                    expect_folds(make_scalar_case, &c, what, &exact);
                }
        }
    }
}

static void make_same_operands(hn_graph *g, const void *how) {
    const scalar_case *c = how;
    hn_value x = add_input(g, c->dtype, (int64_t[]){40}, 1, "x");
    add_output(g, hn_b_binary(g, c->op, x, x));
}

TEST(binary_ops_of_one_operand) {
    for (hn_op op = 1; op < HN_OP_COUNT; op++) {
        hn_op_class class = hn_op_facts(op)->op_class;
        if (class != HN_OPC_BINARY && class != HN_OPC_COMPARE) continue;
        for (hn_dtype dtype = 1; dtype < HN_DTYPE_COUNT; dtype++) {
            scalar_case c = {.op = op, .dtype = dtype};
            if (hn_op_takes(op, dtype))
                expect_folds(make_same_operands, &c, hn_op_facts(op)->name, &exact);
        }
    }
}

typedef struct unary_case {
    hn_op inner, outer;
    hn_dtype dtype;
} unary_case;

static void make_unary_case(hn_graph *g, const void *how) {
    const unary_case *c = how;
    hn_value x = add_input(g, c->dtype, (int64_t[]){40}, 1, "x");
    add_output(g, hn_b_unary(g, c->outer, hn_b_unary(g, c->inner, x)));
}

static bool has_unary(hn_op op, hn_dtype dtype) {
    hn_op_class class = hn_op_facts(op)->op_class;
    return (class == HN_OPC_UNARY || class == HN_OPC_PREDICATE) && hn_op_takes(op, dtype);
}

TEST(pairs_of_unary_ops) {
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_BF16, HN_DTYPE_I32, HN_DTYPE_U8,
                                      HN_DTYPE_BOOL};
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++)
        for (hn_op inner = 1; inner < HN_OP_COUNT; inner++)
            for (hn_op outer = 1; outer < HN_OP_COUNT; outer++) {
                unary_case c = {inner, outer, dtypes[d]};
                bool predicate = hn_op_facts(inner)->op_class == HN_OPC_PREDICATE;
                if (has_unary(inner, dtypes[d]) &&
                    has_unary(outer, predicate ? HN_DTYPE_BOOL : dtypes[d]))
                    expect_folds(make_unary_case, &c, hn_op_facts(outer)->name, &exact);
            }
}

/* --- all chains of two casts --- */

typedef struct cast_case {
    hn_dtype from, mid, to;
} cast_case;

static void make_cast_case(hn_graph *g, const void *how) {
    const cast_case *c = how;
    hn_value x = add_input(g, c->from, (int64_t[]){60}, 1, "x");
    add_output(g, hn_b_unary(g, c->to == HN_DTYPE_BOOL ? HN_OP_NOT : HN_OP_ABS,
                             hn_b_cast(g, hn_b_cast(g, x, c->mid), c->to)));
}

TEST(chains_of_casts) {
    uint32_t shortened = 0;
    char what[64];
    for (hn_dtype from = 1; from < HN_DTYPE_COUNT; from++)
        for (hn_dtype mid = 1; mid < HN_DTYPE_COUNT; mid++)
            for (hn_dtype to = 1; to < HN_DTYPE_COUNT; to++) {
                cast_case c = {from, mid, to};
                snprintf(what, sizeof what, "%s to %s to %s", hn_dtype_facts(from)->name,
                         hn_dtype_facts(mid)->name, hn_dtype_facts(to)->name);
                uint32_t left = expect_folds(make_cast_case, &c, what, &exact);
                shortened += from != mid && mid != to && left < 3;
            }
    EXPECT(shortened > 100); /* the rules are not asleep */
}

/* --- where --- */

typedef struct where_case {
    hn_dtype dtype;
    double x, y; /* NAN: an input instead */
    int cond;    /* 0, 1, 2: an input, 3: its negation */
} where_case;

static void make_where_case(hn_graph *g, const void *how) {
    const where_case *c = how;
    int64_t sizes[] = {2, 9};
    hn_value cond = c->cond < 2 ? hn_b_scalar(g, c->cond, HN_DTYPE_BOOL)
                                : add_input(g, HN_DTYPE_BOOL, sizes, 2, "c");
    if (c->cond == 3) cond = hn_b_unary(g, HN_OP_NOT, cond);
    hn_value x =
        isnan(c->x) ? add_input(g, c->dtype, sizes, 2, "x") : hn_b_scalar(g, c->x, c->dtype);
    hn_value y =
        isnan(c->y) ? add_input(g, c->dtype, sizes + 1, 1, "y") : hn_b_scalar(g, c->y, c->dtype);
    add_output(g, hn_b_where(g, cond, x, y));
}

TEST(where_of_every_kind) {
    static const double numbers[] = {NAN, 0.0, -0.0, 1.0};
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_BOOL, HN_DTYPE_I64};
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++)
        for (size_t x = 0; x < HN_COUNT_OF(numbers); x++)
            for (size_t y = 0; y < HN_COUNT_OF(numbers); y++)
                for (int cond = 0; cond < 4; cond++) {
                    where_case c = {dtypes[d], numbers[x], numbers[y], cond};
                    expect_folds(make_where_case, &c, "where", &exact);
                }
}

/* --- random chains of views and of integer arithmetic --- */

static uint32_t pick(uint64_t *state, uint32_t count) {
    return (uint32_t)(eq_random(state) % count);
}
static int64_t size_of(const hn_graph *g, hn_value v, uint32_t dim) {
    int64_t size = 0;
    hn_sym_is_int(g->sym, hn_graph_value(g, v)->sizes[dim], &size);
    return size;
}
static hn_expr num(hn_graph *g, int64_t n) { return hn_sym_int(g->sym, n); }

static hn_value random_reshape(hn_graph *g, hn_value x, uint64_t *state) {
    hn_expr sizes[HN_MAX_RANK];
    const hn_value_info info = *hn_graph_value(g, x);
    uint32_t how = pick(state, 3), at = pick(state, info.rank + 1);
    if (how == 0 && info.rank < 5) return hn_b_unsqueeze(g, x, at);
    if (how == 1 && info.rank >= 2) { /* merge two */
        uint32_t dim = pick(state, info.rank - 1), out = 0;
        for (uint32_t k = 0; k < info.rank; k++) {
            sizes[out++] =
                k == dim ? hn_sym_mul(g->sym, info.sizes[k], info.sizes[k + 1]) : info.sizes[k];
            k += k == dim;
        }
        return hn_b_reshape(g, x, sizes, out);
    }
    if (info.rank >= 1 && info.rank < 5) { /* split one that is even */
        uint32_t dim = pick(state, info.rank), out = 0;
        int64_t size = size_of(g, x, dim);
        if (size % 2) return x;
        for (uint32_t k = 0; k < info.rank; k++) {
            if (k == dim) sizes[out++] = num(g, 2);
            sizes[out++] = k == dim ? num(g, size / 2) : info.sizes[k];
        }
        return hn_b_reshape(g, x, sizes, out);
    }
    return x;
}

static hn_value random_permute(hn_graph *g, hn_value x, uint64_t *state) {
    uint32_t rank = hn_graph_value(g, x)->rank;
    return rank >= 2 ? hn_b_transpose(g, x, pick(state, rank), pick(state, rank)) : x;
}

static hn_value random_slice(hn_graph *g, hn_value x, uint64_t *state) {
    uint32_t rank = hn_graph_value(g, x)->rank;
    if (!rank) return x;
    uint32_t dim = pick(state, rank);
    int64_t n = size_of(g, x, dim), step = 1 + pick(state, 2);
    if (n < 1) return x;
    if (pick(state, 4) == 0) return hn_b_flip(g, x, dim);
    int64_t start = pick(state, (uint32_t)n),
            count = 1 + pick(state, (uint32_t)((n - 1 - start) / step + 1));
    return hn_b_slice(g, x, dim, num(g, start), num(g, count), step);
}

static hn_value random_expand(hn_graph *g, hn_value x, uint64_t *state) {
    hn_expr sizes[HN_MAX_RANK];
    const hn_value_info info = *hn_graph_value(g, x);
    for (uint32_t k = 0; k < info.rank; k++)
        sizes[k] =
            hn_sym_is_value(g->sym, info.sizes[k], 1) && pick(state, 2) ? num(g, 2) : info.sizes[k];
    return hn_b_expand(g, x, sizes, info.rank);
}

static hn_value random_cat(hn_graph *g, hn_value x, uint64_t *state) {
    uint32_t rank = hn_graph_value(g, x)->rank;
    if (!rank) return x;
    uint32_t dim = pick(state, rank);
    hn_value parts[2] = {x, x};
    if (size_of(g, x, dim) > 12) return x;
    if (pick(state, 2)) { /* in two, and together again */
        int64_t n = size_of(g, x, dim), cut = pick(state, (uint32_t)n + 1);
        parts[0] = hn_b_slice(g, x, dim, num(g, 0), num(g, cut), 1);
        parts[1] = hn_b_slice(g, x, dim, num(g, cut < n ? cut : 0), num(g, n - cut), 1);
    }
    return hn_b_cat(g, parts, 2, dim);
}

static hn_value random_view(hn_graph *g, hn_value x, uint64_t *state) {
    switch (pick(state, 6)) {
    case 0:
    case 1: return random_reshape(g, x, state);
    case 2: return random_permute(g, x, state);
    case 3: return random_slice(g, x, state);
    case 4: return random_cat(g, x, state);
    default: return random_expand(g, x, state);
    }
}

static void make_view_chain(hn_graph *g, const void *how) {
    uint64_t state = *(const uint64_t *)how;
    hn_value x = add_input(g, HN_DTYPE_F32, (int64_t[]){2, 1, 4, 3}, 4, "x");
    if (pick(&state, 4) == 0)
        x = hn_b_full(g, hn_scalar_f(2), hn_graph_value(g, x)->sizes, 4, HN_DTYPE_F32);
    for (uint32_t k = 0; k < 9; k++) x = random_view(g, x, &state);
    add_output(g, x);
}

TEST(random_chains_of_views) {
    for (uint64_t seed = 1; seed <= 400; seed++) {
        char what[32];
        snprintf(what, sizeof what, "view chain %llu", (unsigned long long)seed);
        uint64_t state = seed * 7919;
        expect_folds(make_view_chain, &state, what, &exact);
    }
}

static hn_value random_positions(hn_graph *g, uint64_t *state, hn_dtype dtype) {
    hn_scalar start = hn_scalar_i(num(g, (int64_t)pick(state, 7) - 3)),
              step = hn_scalar_i(num(g, (int64_t)pick(state, 5) - 2));
    if (pick(state, 4) == 0) return hn_b_full(g, start, (hn_expr[]){num(g, 4)}, 1, dtype);
    return hn_b_iota(g, start, step, num(g, 4), dtype);
}

static hn_value random_integer_step(hn_graph *g, hn_value x, uint64_t *state) {
    hn_dtype dtype = hn_graph_value(g, x)->dtype;
    hn_value k = hn_b_full(g, hn_scalar_i(num(g, (int64_t)pick(state, 9) - 4)), NULL, 0, dtype);
    switch (pick(state, 8)) {
    case 0: return hn_b_binary(g, HN_OP_ADD, x, k);
    case 1: return hn_b_binary(g, HN_OP_SUB, k, x);
    case 2: return hn_b_binary(g, HN_OP_MUL, x, k);
    case 3: return hn_b_unary(g, HN_OP_NEG, x);
    case 4: return hn_b_cast(g, x, pick(state, 2) ? HN_DTYPE_I8 : HN_DTYPE_U8);
    case 5: return hn_b_cast(g, x, HN_DTYPE_I64);
    case 6: return hn_graph_value(g, x)->rank ? hn_b_scan(g, HN_OP_CUMSUM, x, 0, NULL) : x;
    default: return random_view(g, x, state);
    }
}

/* Two integer tensors that are compared and looked up with. */
static void make_integer_program(hn_graph *g, const void *how) {
    static const hn_op compares[] = {HN_OP_EQ, HN_OP_NE, HN_OP_LT, HN_OP_LE, HN_OP_GT, HN_OP_GE};
    uint64_t state = *(const uint64_t *)how;
    hn_value x[2], table = add_input(g, HN_DTYPE_F32, (int64_t[]){64, 2}, 2, "table");
    for (uint32_t k = 0; k < 2; k++) {
        x[k] = random_positions(g, &state, pick(&state, 2) ? HN_DTYPE_I64 : HN_DTYPE_I8);
        for (uint32_t steps = pick(&state, 7); steps > 0; steps--)
            x[k] = random_integer_step(g, x[k], &state);
        add_output(g, x[k]);
        x[k] = hn_b_cast(g, x[k], HN_DTYPE_I64);
    }
    hn_value flat = hn_b_reshape(g, x[0], (hn_expr[]){hn_numel(g, x[0]), num(g, 1)}, 2);
    hn_value other = hn_b_reshape(g, x[1], (hn_expr[]){hn_numel(g, x[1])}, 1);
    add_output(g, hn_b_binary(g, compares[pick(&state, 6)], flat, other));
    /* clamped into the table, so that the program is one without the pass, too */
    hn_value low = hn_b_binary(g, HN_OP_MAX, other, hn_b_scalar(g, -64, HN_DTYPE_I64));
    hn_value at = hn_b_binary(g, HN_OP_MIN, low, hn_b_scalar(g, 63, HN_DTYPE_I64));
    add_output(g, hn_b_index(g, table, &at, 1, true));
    hn_value small = hn_b_iota(g, hn_scalar_i(num(g, pick(&state, 40))),
                               hn_scalar_i(num(g, 1 + pick(&state, 4))), num(g, 5), HN_DTYPE_I64);
    add_output(g, hn_b_index(g, table, &small, 1, false));
}

TEST(random_integer_programs) {
    uint32_t nodes = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        char what[40];
        snprintf(what, sizeof what, "integer program %llu", (unsigned long long)seed);
        uint64_t state = seed * 104729;
        nodes += expect_folds(make_integer_program, &state, what, &exact);
    }
    EXPECT(nodes / 500 < 12); /* some 20 before */
}

/* --- what must stay --- */

/* Folds a text and counts an op. */
static uint32_t left_of(const char *text, hn_op op) {
    eq_graph e;
    uint32_t count = UINT32_MAX;
    if (eq_parse(&e, text)) {
        EXPECT_OK(eq_run_pass(&e, hn_pass_fold, false));
        count = eq_count(e.g, op);
    }
    eq_end(&e);
    return count;
}

TEST(wrong_index_stays) {
    /* the program fails when it runs, and must go on to */
    EXPECT_INT(
        left_of("graph { input user %x : f32[4] \"x\" %i = iota(start=2, step=1, size=3, dtype=i64)"
                "%y = index(%x, [%i], wrap=false) output user %y \"\" }",
                HN_OP_INDEX),
        1);
    EXPECT_INT(
        left_of(
            "graph { %x = iota(start=0, step=1, size=3, dtype=f32) %k = cumsum(%x, dim=0) %i = full(value=7, sizes=[2], dtype=i64)"
            "%y = index(%k, [%i], wrap=false) output user %y \"\" }",
            HN_OP_INDEX),
        1);
}

TEST(dear_constants_stay) {
    /* a small result of a large computation */
    EXPECT_INT(
        left_of(
            "graph { %x = iota(start=0, step=1, size=1000000, dtype=f32) %a = reshape(%x, sizes=[1000000, 1])"
            "%b = expand(%a, sizes=[1000000, 1000]) %y = sum(%b, dims=[0, 1], keepdim=false) output user %y \"\" }",
            HN_OP_SUM),
        1);
    /* a large result */
    EXPECT_INT(
        left_of(
            "graph { %x = iota(start=0, step=1, size=20000, dtype=f32) %y = cumsum(%x, dim=0) output user %y \"\" }",
            HN_OP_CUMSUM),
        1);
    EXPECT_INT(
        left_of(
            "graph { %x = iota(start=0, step=1, size=2000, dtype=f32) %y = cumsum(%x, dim=0) output user %y \"\" }",
            HN_OP_CUMSUM),
        0);
}

TEST(random_numbers_stay) {
    eq_graph e;
    if (eq_parse(
            &e,
            "graph { storage 1 : 8 bytes hex 0700000000000000 input constant %s : i64[] storage 1 offset 0 \"seed\""
            "%y = random(\"uniform\", sizes=[4], dtype=f32, seed=%s, stream=0) %z = cumsum(%y, dim=0) output user %z \"\" }")) {
        EXPECT_OK(eq_run_pass(&e, hn_pass_fold, false));
        const hn_node_info *random = eq_find(e.g, HN_OP_RANDOM);
        /* another seed can be set */
        EXPECT(random && random->args[3].as.value == e.g->inputs.items[0].value);
    }
    eq_end(&e);
    EXPECT_INT(
        left_of(
            "graph { %s = full(value=1, sizes=[], dtype=i64) %y = random(\"uniform\", sizes=[4], dtype=f32, seed=%s, stream=0)"
            "%z = cumsum(%y, dim=0) output user %z \"\" }",
            HN_OP_RANDOM),
        1);
}

TEST(numbers_near_the_limits) {
    /* sums that leave the range of expressions: nothing may latch */
    EXPECT_INT(
        left_of(
            "graph { %i = iota(start=9223372036854775807, step=9223372036854775807, size=4, dtype=i64)"
            "%j = add(%i, %i) %k = mul(%j, %i) %c = lt(%k, %i) output user %c \"\" }",
            HN_OP_LT),
        1);
    EXPECT_INT(
        left_of(
            "graph { symbol size s0 in [0, inf] hint 3 input user %x : f32[s0] \"x\" %i = iota(start=0, step=1000000, size=1125899906842624*s0, dtype=i64)"
            "%j = full(value=5, sizes=[], dtype=i64) %c = ge(%i, %j) output user %c \"\" }",
            HN_OP_GE),
        1);
    /* 8 bits wrap: position 200 is not 200 */
    EXPECT_INT(
        left_of(
            "graph { %i = iota(start=0, step=1, size=300, dtype=u8) %w = cast(%i, dtype=i64) %k = full(value=299, sizes=[], dtype=i64)"
            "%c = le(%w, %k) output user %c \"\" }",
            HN_OP_LE),
        1);
    EXPECT_INT(
        left_of(
            "graph { %i = iota(start=0, step=1, size=200, dtype=u8) %w = cast(%i, dtype=i64) %k = full(value=199, sizes=[], dtype=i64)"
            "%c = le(%w, %k) output user %c \"\" }",
            HN_OP_LE),
        0);
}

TEST(nearly_one_number) {
    /* 0.0 and -0.0 are two numbers: exp would not tell, 1/x does */
    EXPECT_INT(
        left_of(
            "graph { storage 1 : 8 bytes hex 0000000000000080 input constant %k : f32[2] storage 1 offset 0 \"k\" input user %x : f32[2] \"x\""
            "%y = div(%x, %k) output user %y \"\" }",
            HN_OP_FULL),
        0);
    EXPECT_INT(
        left_of(
            "graph { storage 1 : 8 bytes hex 0000008000000080 input constant %k : f32[2] storage 1 offset 0 \"k\" input user %x : f32[2] \"x\""
            "%y = div(%x, %k) output user %y \"\" }",
            HN_OP_FULL),
        1);
}

TEST(nearly_counting) {
    /* rows that go on along the columns but start elsewhere */
    EXPECT_INT(
        left_of(
            "graph { input user %x : i64[4, 4] \"x\" %i = iota(start=0, step=1, size=4, dtype=i64) %j = reshape(%i, sizes=[4, 1]) %a = expand(%j, sizes=[4, 2])"
            "%t = iota(start=0, step=2, size=4, dtype=i64) %u = reshape(%t, sizes=[4, 1]) %b = expand(%u, sizes=[4, 2]) %c = cat([%a, %b], dim=1)"
            "%y = add(%x, %c) output user %y \"\" }",
            HN_OP_IOTA),
        0); /* a table */
}

TEST(bytes_that_are_not_there) {
    EXPECT_INT(
        left_of("graph { storage 1 : 12 bytes input constant %k : f32[3] storage 1 offset 0 \"k\""
                "%y = cumsum(%k, dim=0) output user %y \"\" }",
                HN_OP_CUMSUM),
        1);
}

TEST(empty_tensors) {
    EXPECT_INT(
        left_of(
            "graph { %x = iota(start=0, step=1, size=0, dtype=f32) %y = cumsum(%x, dim=0) output user %y \"\" }",
            HN_OP_CUMSUM),
        0);
    EXPECT_INT(
        left_of(
            "graph { symbol size s0 in [0, 8] hint 2 input user %x : f32[s0] \"x\" %a = full(value=1, sizes=[s0], dtype=bool)"
            "%y = any(%a, dims=[0], keepdim=false) output user %y \"\" }",
            HN_OP_ANY),
        1);
}

/* --- outputs --- */

TEST(outputs_keep_their_layout) {
    eq_graph e;
    if (eq_parse(
            &e,
            "graph { input user %x : f32[2, 3] \"x\" %one = full(value=1.0, sizes=[], dtype=f32) %y = exp(%x)"
            "%a = mul(%y, %one) : f32[2, 3] strides [1, 2] %b = div(%y, %one) %c = mul(%x, %one)"
            "output user %a \"\" output user %b \"\" output user %c \"\" output mutation %c of 0 \"\" }")) {
        EXPECT_OK(eq_run_pass(&e, hn_pass_fold, false));
        EXPECT_INT(eq_count(e.g, HN_OP_EXP), 1);
        EXPECT_INT(eq_count(e.g, HN_OP_MUL), 0);
        hn_value a = e.g->outputs.items[0].value, b = e.g->outputs.items[1].value;
        const hn_value_info *ai = hn_graph_value(e.g, a);
        EXPECT(a != b); /* one value cannot lie in two layouts */
        EXPECT(ai->strides && hn_sym_is_value(e.sym, ai->strides[1], 2));
        EXPECT(!hn_graph_value(e.g, b)->strides);
        EXPECT_INT(e.g->outputs.items[2].value, e.g->inputs.items[0].value);
        EXPECT_INT(e.g->outputs.items[3].value, e.g->inputs.items[0].value);
    }
    eq_end(&e);
}

TEST(written_constants_are_no_constants) {
    eq_graph e;
    if (eq_parse(
            &e,
            "graph { storage 1 : 4 bytes hex 0000803f input buffer %n : f32[] storage 1 offset 0 \"n\" input user %x : f32[] \"x\""
            "%y = mul(%x, %n) %z = add(%n, %y) output user %y \"\" output mutation %z of 0 \"\" }")) {
        EXPECT_OK(eq_run_pass(&e, hn_pass_fold, false));
        EXPECT_INT(e.g->nodes.count - 1, 2);
    }
    eq_end(&e);
}

/* --- size --- */

/* A long chain: each node folds into the one before; and a long one that is all constant. */
static void make_long_chain(hn_graph *g, uint32_t count, bool constant) {
    hn_value x = constant ? hn_b_iota(g, hn_scalar_f(0), hn_scalar_f(1), num(g, 8), HN_DTYPE_F32)
                          : add_input(g, HN_DTYPE_F32, (int64_t[]){2, 4}, 2, "x");
    hn_value one = hn_b_scalar(g, constant ? 2 : 1, HN_DTYPE_F32);
    for (uint32_t k = 0; k < count; k++) {
        x = k % 3
                ? hn_b_binary(g, HN_OP_MUL, x, one)
                : hn_b_reshape(g, x, (hn_expr[]){num(g, k % 2 ? 4 : 8), num(g, k % 2 ? 2 : 1)}, 2);
        if (k % 5 == 0) x = hn_b_unary(g, HN_OP_NEG, x);
    }
    add_output(g, constant ? hn_b_scan(g, HN_OP_CUMSUM, x, 0, NULL) : x);
}

TEST(ten_thousand_nodes) {
    for (int constant = 0; constant < 2; constant++) {
        eq_graph e;
        eq_begin(&e);
        EXPECT_OK(hn_graph_create(&e.arena, e.sym, &e.g));
        make_long_chain(e.g, 10000, constant);
        uint32_t before = e.g->nodes.count;
        hn_pass_context context = {.scratch = &e.scratch};
        int64_t begin = hn_now_ns();
        EXPECT_OK(hn_pass_fold(e.g, &context));
        double ms = (double)(hn_now_ns() - begin) * 1e-6;
        fprintf(stderr, "fold: %u nodes to %u in %.1f ms\n", before - 1, e.g->nodes.count - 1, ms);
        EXPECT(ms < 1000); /* some ms; only a square would take seconds, even when instrumented */
        EXPECT_OK(hn_graph_verify(e.g, HN_LEGAL_PRIMITIVE));
        eq_end(&e);
    }
}

TEST_MAIN
