/* What depends on weights alone as a program of its own: random graphs say the same before and
 * after, their text parses back, and what is not worth keeping stays. */
#include "unit/opt/equivalence.h"

enum { POOL = 12, WEIGHTS = 4 };

/* Shapes: weights f32[rows, cols], rows or cols of which may be 0, 1 or a prime. */
typedef struct maker {
    hn_graph *g;
    uint64_t state;
    hn_value pool[POOL]; /* f32 of rank 2, that depend on weights alone */
    uint32_t count;
    int64_t rows, cols;
} maker;

static uint32_t pick(maker *m, uint32_t count) { return (uint32_t)(eq_random(&m->state) % count); }
static hn_value some(maker *m) { return m->pool[pick(m, m->count)]; }

static hn_value add_input(maker *m, hn_input_kind kind, const char *name) {
    hn_graph *g = m->g;
    const hn_expr sizes[] = {hn_sym_int(g->sym, m->rows), hn_sym_int(g->sym, m->cols)};
    hn_input in = {.kind = kind, .name = hn_str_of(name)};
    in.value = hn_graph_add_tensor(g, HN_DTYPE_F32, 2, sizes, NULL, in.name);
    if (kind != HN_INPUT_USER)
        in.storage =
            hn_graph_add_storage(g, (hn_storage){.size_bytes = (size_t)(m->rows * m->cols) * 4,
                                                 .file_record = HN_STR("")});
    EXPECT_OK(hn_graph_add_input(g, in));
    return in.value;
}

/* Square again: x times the other's rows, and the same the other way round. */
static hn_value product(maker *m, hn_value x, hn_value y) {
    const hn_value square = hn_b_matmul(m->g, x, hn_b_transpose(m->g, y, 0, 1), 0);
    return hn_b_matmul(m->g, square, y, 0);
}

static hn_value norm(maker *m, hn_value x) {
    const hn_value sum =
        hn_b_reduce(m->g, HN_OP_SUM, hn_b_binary(m->g, HN_OP_MUL, x, x), (uint32_t[]){1}, 1, true);
    return hn_b_binary(m->g, HN_OP_DIV, x, hn_b_unary(m->g, HN_OP_SQRT, sum));
}

static hn_value halves(maker *m, hn_value x, hn_value y) {
    hn_sym *sym = m->g->sym;
    const int64_t half = m->rows / 2;
    const hn_value parts[] = {
        hn_b_slice(m->g, x, 0, hn_sym_int(sym, 0), hn_sym_int(sym, half), 1),
        hn_b_slice(m->g, y, 0, hn_sym_int(sym, half), hn_sym_int(sym, m->rows - half), 1)};
    return hn_b_cat(m->g, parts, 2, 0);
}

static hn_value make(maker *m) {
    const hn_value x = some(m), y = some(m);
    switch (pick(m, 7)) {
    case 0: return product(m, x, y);
    case 1: return norm(m, x);
    case 2: return halves(m, x, y);
    case 3: return hn_b_binary(m->g, HN_OP_ADD, x, y);
    case 4: return hn_b_unary(m->g, HN_OP_COS, hn_b_binary(m->g, HN_OP_MUL, x, y));
    case 5: return hn_b_cast(m->g, hn_b_cast(m->g, x, HN_DTYPE_BF16), HN_DTYPE_F32);
    default: return hn_b_scan(m->g, HN_OP_CUMSUM, x, 0, NULL);
    }
}

static void add_output(maker *m, hn_value v) {
    EXPECT_OK(hn_graph_add_output(
        m->g, (hn_output){.kind = HN_OUTPUT_USER, .value = v, .name = HN_STR("")}));
}

/* The same graph for a seed each time. */
static void make_graph(eq_graph *e, uint64_t seed) {
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 17};
    static const char *const names[WEIGHTS] = {"p0", "p1", "p2", "p3"};
    eq_begin(e);
    EXPECT_OK(hn_graph_create(&e->arena, e->sym, &e->g));
    maker m = {.g = e->g, .state = seed};
    m.rows = sizes[pick(&m, HN_COUNT_OF(sizes))], m.cols = sizes[pick(&m, HN_COUNT_OF(sizes))];
    const hn_value x = add_input(&m, HN_INPUT_USER, "x");
    for (uint32_t k = 0; k < WEIGHTS; k++)
        m.pool[m.count++] = add_input(&m, k % 2 ? HN_INPUT_BUFFER : HN_INPUT_PARAMETER, names[k]);
    for (; m.count < POOL; m.count++) m.pool[m.count] = make(&m);
    add_output(&m, hn_b_binary(m.g, HN_OP_MUL, x, some(&m)));
    add_output(&m, product(&m, x, some(&m)));
    add_output(&m, some(&m));
    if (pick(&m, 2)) /* and what the program changes is no weight */
        EXPECT_OK(hn_graph_add_output(m.g, (hn_output){.kind = HN_OUTPUT_MUTATION,
                                                       .value = hn_b_unary(m.g, HN_OP_NEG, x),
                                                       .target = 1,
                                                       .name = HN_STR("p0")}));
    EXPECT_OK(hn_graph_status(m.g));
    eq_fill_storages(&e->arena, e->g);
}

static hn_status split(eq_graph *e, uint64_t most_bytes, double least_gain) {
    const hn_weights_limits limits = {most_bytes, least_gain};
    hn_pass_context context = {.scratch = &e->scratch, .weights = &limits};
    hn_status status = hn_pass_dce(e->g, &context);
    if (!status) status = hn_pass_weights(e->g, &context);
    if (!status) status = hn_graph_verify(e->g, HN_LEGAL_PRIMITIVE);
    hn_arena_reset(&e->scratch);
    return status;
}

static void expect_text_parses_back(const hn_graph *g, const char *what) {
    eq_graph again;
    hn_strbuf first, second;
    hn_strbuf_init(&first);
    hn_strbuf_init(&second);
    hn_graph_print(g, &first);
    if (eq_parse(&again, first.ptr)) {
        EXPECT_OK(hn_graph_verify(again.g, HN_LEGAL_PRIMITIVE));
        hn_graph_print(again.g, &second);
        if (strcmp(first.ptr, second.ptr) != 0) HN_TEST_FAIL("%s: another text", what);
    }
    eq_end(&again);
    hn_strbuf_deinit(&first);
    hn_strbuf_deinit(&second);
}

static uint32_t count_computed(const hn_graph *g, uint64_t *out_bytes) {
    uint32_t count = 0;
    *out_bytes = 0;
    for (uint32_t k = 1; k < g->storages.count; k++) {
        count += g->storages.items[k].computed != 0;
        *out_bytes += g->storages.items[k].computed ? g->storages.items[k].size_bytes : 0;
    }
    return count;
}

TEST(random_graphs_say_the_same_with_a_program_of_weights) {
    const eq_options exact = {.finite = true};
    uint32_t with_program = 0, limited = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        eq_graph before, after;
        uint64_t bytes;
        char what[32];
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        make_graph(&before, seed);
        make_graph(&after, seed);
        const uint64_t most = seed % 4 ? UINT32_MAX : 200;
        EXPECT_OK(split(&after, most, 0));
        const uint32_t kept = count_computed(after.g, &bytes);
        EXPECT(bytes <= most && (kept != 0) == (after.g->weights_program != NULL));
        with_program += kept != 0;
        limited += kept && most == 200;
        eq_expect_same(&before, &after, what, &exact);
        expect_text_parses_back(after.g, what);
        eq_end(&before);
        eq_end(&after);
    }
    EXPECT(with_program > 200 && limited > 10);
}

static uint32_t kept(const char *text) {
    eq_graph e;
    uint64_t bytes;
    uint32_t count = 0;
    if (eq_parse(&e, text)) {
        EXPECT_OK(split(&e, UINT32_MAX, 0));
        count = count_computed(e.g, &bytes);
    }
    eq_end(&e);
    return count;
}

#define WEIGHT(type, bytes)                                                                        \
    "graph { storage 1 : " bytes " bytes input parameter %w : " type " storage 1 offset 0 \"w\" "
#define TIMES_X "input user %x : f32[2048, 1024] \"x\" %y = mul(%x, %v) output user %y \"\" }"

TEST(what_is_larger_than_its_weights_or_cheap_stays) {
    /* an expanded weight, a cast that a kernel does as it reads, and a product of one operation */
    EXPECT_INT(kept(WEIGHT("f32[1, 1024]", "4096") "%v = expand(%w, sizes=[2048, 1024]) " TIMES_X),
               0);
    EXPECT_INT(kept(WEIGHT("i8[2048, 1024]", "2097152") "%v = cast(%w, f32) " TIMES_X), 0);
    EXPECT_INT(kept(WEIGHT("f32[2048, 1024]", "8388608") "%v = neg(%w) " TIMES_X), 0);
    /* worth it, and twice the bytes at most: an outer product is more */
    EXPECT_INT(kept(WEIGHT("f32[2048, 1024]", "8388608") "%v = exp(%w) " TIMES_X), 1);
    EXPECT_INT(kept(WEIGHT("f32[2048, 1]", "8192") "%e = expand(%w, sizes=[2048, 1024]) "
                                                   "%v = exp(%e) " TIMES_X),
               0);
    /* an operation wants it in memory: of two bytes four, but of one byte four are too many */
    EXPECT_INT(kept(WEIGHT("bf16[1024, 1024]",
                           "2097152") "%v = cast(%w, f32) input user %x : f32[4, 1024] \"x\" "
                                      "%y = matmul(%x, %v, none) output user %y \"\" }"),
               1);
    EXPECT_INT(kept(WEIGHT("i8[1024, 1024]",
                           "1048576") "%v = cast(%w, f32) input user %x : f32[4, 1024] \"x\" "
                                      "%y = matmul(%x, %v, none) output user %y \"\" }"),
               0);
}

TEST(what_stays_needs_its_operands) {
    /* the sum of each row is kept, and the large difference is not */
    eq_graph e;
    uint64_t bytes;
    if (eq_parse(
            &e,
            WEIGHT("f32[2048, 1024]",
                   "8388608") "%s = sum(%w, dims=[1], keepdim=true) %v = sub(%w, %s) " TIMES_X)) {
        EXPECT_OK(split(&e, 100000, 0));
        EXPECT_INT(count_computed(e.g, &bytes), 1);
        EXPECT_INT(bytes, 8192);
        EXPECT_INT(eq_count(e.g, HN_OP_SUM), 0);
        EXPECT_INT(eq_count(e.g, HN_OP_SUB), 1);
    }
    eq_end(&e);
}

TEST(a_small_gain_is_not_worth_a_program) {
    eq_graph e;
    uint64_t bytes;
    make_graph(&e, 5);
    EXPECT_OK(split(&e, UINT32_MAX, HN_WEIGHTS_LEAST_GAIN));
    EXPECT_INT(count_computed(e.g, &bytes), 0);
    eq_end(&e);
}

TEST(a_program_that_does_not_fit_its_graph_is_refused) {
    static const char *const texts[] = {
        /* no program; another size; more outputs than there are; an input of the user; no such
         * storage */
        "graph { storage 1 : 4 bytes computed 0 }",
        "graph { storage 1 : 8 bytes computed 0 weights graph { %a = full(1.0, [1], f32) output user %a \"\" } }",
        "graph { storage 1 : 4 bytes computed 1 weights graph { %a = full(1.0, [1], f32) output user %a \"\" } }",
        "graph { weights graph { input user %a : f32[1] \"a\" output user %a \"\" } }",
        "graph { weights graph { storage 1 : 4 bytes outer 1 } }",
        "graph { storage 1 : 8 bytes weights graph { storage 1 : 4 bytes outer 1 } }",
        "graph { storage 1 : 4 bytes weights graph { storage 1 : 4 bytes computed 0 } }"};
    for (size_t k = 0; k < HN_COUNT_OF(texts); k++) {
        eq_graph e;
        if (eq_parse(&e, texts[k])) {
            hn_status status = hn_graph_verify(e.g, HN_LEGAL_PRIMITIVE);
            if (!status) HN_TEST_FAIL("verifies: %s", texts[k]);
            hn_status_free(status);
        }
        eq_end(&e);
    }
}

TEST_MAIN
