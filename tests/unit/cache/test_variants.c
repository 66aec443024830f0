/* test_variants.c: tables of variants: what is found for which sizes, and how much is looked at for it. */
#include "cache/variants.h"

#include "unit/harness.h"

#include <stdlib.h>

/* Two inputs: input 0 a number, input 1 a tensor [s0, s1]. Nodes: 1 s0, 2 s1, 3 s0 % 4, then constants as asked for. */
typedef struct facts {
    hn_vsymbol symbols[2];
    hn_vnode nodes[64];
    hn_vguard guards[16];
    uint32_t node_count, guard_count;
} facts;

static void facts_init(facts *f) {
    *f = (facts){.symbols = {{.input = 1, .tensor = 0, .dim = 0, .coeff = 1}, {.input = 1, .tensor = 0, .dim = 1, .coeff = 1}}};
    f->nodes[1] = (hn_vnode){HN_VOP_SYMBOL, 0, 0};
    f->nodes[2] = (hn_vnode){HN_VOP_SYMBOL, 1, 0};
    f->nodes[3] = (hn_vnode){HN_VOP_CONST, 0, 4};
    f->nodes[4] = (hn_vnode){HN_VOP_MOD, 1, 3};
    f->node_count = 5;
}

static uint32_t number(facts *f, int64_t value) {
    f->nodes[f->node_count] = (hn_vnode){HN_VOP_CONST, 0, value};
    return f->node_count++;
}

static void guard(facts *f, uint32_t lhs, hn_vrelation relation, uint32_t rhs) { f->guards[f->guard_count++] = (hn_vguard){relation, lhs, rhs}; }

static hn_variant_guards guards_of(const facts *f) {
    return (hn_variant_guards){.symbols = f->symbols, .nodes = f->nodes, .guards = f->guards, .symbol_count = 2, .node_count = f->node_count,
                               .guard_count = f->guard_count, .input_count = 2, .tensor_count = 1};
}

static void canonical(const facts *f, hn_strbuf *out) {
    hn_variant_guards guards = guards_of(f);
    hn_strbuf_reset(out);
    EXPECT_OK(hn_variant_canonical(&guards, out));
}

static hn_digest key_of(int64_t number) { return hn_digest_of(&number, sizeof number); }

/* Adds a variant to the table in place. */
static void add(hn_strbuf *table, const facts *f, int64_t name, bool is_default) {
    hn_strbuf next, text;
    hn_digest key = key_of(name);
    hn_strbuf_init(&next);
    hn_strbuf_init(&text);
    canonical(f, &text);
    EXPECT_OK(hn_variants_add(hn_strbuf_str(table), hn_strbuf_str(&text), &key, is_default, &next));
    hn_strbuf_deinit(table);
    hn_strbuf_deinit(&text);
    *table = next;
}

/* The name of the variant for a tensor [a, b], -1 for none. `out_compared` may be NULL. */
static int64_t find(const hn_strbuf *table, int64_t a, int64_t b, int64_t names, uint32_t *out_compared) {
    const int64_t sizes[2] = {a, b};
    hn_variant_input inputs[1] = {{.rank = 2, .sizes = sizes}};
    hn_variants_found found;
    bool hit = hn_variants_find(hn_strbuf_str(table), inputs, 1, &found);
    if (out_compared) *out_compared = found.compared;
    for (int64_t k = 0; hit && k < names; k++) {
        hn_digest key = key_of(k);
        if (memcmp(&key, &found.key, sizeof key) == 0) return k;
    }
    return hit ? -2 : -1;
}

TEST(no_guards_take_all) {
    hn_strbuf table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&table);
    EXPECT_INT(find(&table, 3, 4, 1, NULL), -1);
    add(&table, &f, 0, true);
    EXPECT_INT(find(&table, 3, 4, 1, NULL), 0);
    hn_variants_found found;
    EXPECT(hn_variants_find(hn_strbuf_str(&table), NULL, 0, &found) && found.is_default);
    hn_strbuf_deinit(&table);
}

TEST(each_relation) {
    static const struct { uint32_t lhs, relation; int64_t value; bool flipped; int64_t yes, no; } rows[] = {
        {1, HN_VREL_EQ, 5, false, 5, 6},  {1, HN_VREL_NE, 5, false, 6, 5},  {1, HN_VREL_LT, 5, false, 4, 5}, {1, HN_VREL_LE, 5, false, 5, 6},
        {1, HN_VREL_LT, 5, true, 6, 5},   {1, HN_VREL_LE, 5, true, 5, 4},   {4, HN_VREL_EQ, 0, false, 8, 9}, {4, HN_VREL_NE, 0, false, 9, 8},
        {1, HN_VREL_LT, INT64_MIN, false, -1, 5},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        hn_strbuf table;
        facts f;
        facts_init(&f);
        hn_strbuf_init(&table);
        uint32_t c = number(&f, rows[k].value);
        if (rows[k].flipped) guard(&f, c, rows[k].relation, rows[k].lhs);
        else guard(&f, rows[k].lhs, rows[k].relation, c);
        add(&table, &f, 0, false);
        if (rows[k].yes >= 0) EXPECT_INT(find(&table, rows[k].yes, 1, 1, NULL), 0);
        EXPECT_INT(find(&table, rows[k].no, 1, 1, NULL), -1);
        hn_strbuf_deinit(&table);
    }
}

/* Bounds on one expression become one interval; an exception stays one, before or behind them. */
TEST(intervals_and_an_exception) {
    for (int order = 0; order < 3; order++) {
        hn_strbuf table;
        facts f;
        facts_init(&f);
        hn_strbuf_init(&table);
        uint32_t low = number(&f, 3), odd = number(&f, 13), high = number(&f, 64);
        if (order == 0) guard(&f, 1, HN_VREL_NE, odd);
        guard(&f, low, HN_VREL_LT, 1);
        if (order == 1) guard(&f, 1, HN_VREL_NE, odd);
        guard(&f, 1, HN_VREL_LE, high);
        if (order == 2) guard(&f, 1, HN_VREL_NE, odd);
        add(&table, &f, 0, false);
        static const struct { int64_t size; int64_t found; } rows[] = {{3, -1}, {4, 0}, {12, 0}, {13, -1}, {14, 0}, {64, 0}, {65, -1}};
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) EXPECT_INT(find(&table, rows[k].size, 1, 1, NULL), rows[k].found);
        hn_strbuf_deinit(&table);
    }
}

TEST(two_sides_and_solved_symbols) {
    hn_strbuf table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&table);
    guard(&f, 1, HN_VREL_EQ, 2); /* s0 == s1 */
    add(&table, &f, 0, false);
    EXPECT_INT(find(&table, 7, 7, 1, NULL), 0);
    EXPECT_INT(find(&table, 7, 8, 1, NULL), -1);
    hn_strbuf_deinit(&table);
    /* s1 = (d - s0) / 2 */
    facts_init(&f);
    hn_strbuf_init(&table);
    f.symbols[1].coeff = 2;
    f.symbols[1].rest = 1;
    guard(&f, 2, HN_VREL_EQ, number(&f, 3));
    add(&table, &f, 0, false);
    EXPECT_INT(find(&table, 4, 10, 1, NULL), 0);
    EXPECT_INT(find(&table, 4, 11, 1, NULL), -1); /* not whole */
    EXPECT_INT(find(&table, 5, 10, 1, NULL), -1);
    hn_strbuf_deinit(&table);
}

TEST(inputs_all_or_tensors) {
    hn_strbuf table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&table);
    guard(&f, 1, HN_VREL_EQ, number(&f, 7));
    add(&table, &f, 0, false);
    const int64_t sizes[2] = {7, 1};
    hn_variant_input all[3] = {{.has_value = true, .value = 1}, {.rank = 2, .sizes = sizes}, {.rank = 0}};
    hn_variants_found found;
    EXPECT(hn_variants_find(hn_strbuf_str(&table), all, 2, &found));
    EXPECT(hn_variants_find(hn_strbuf_str(&table), all + 1, 1, &found));
    EXPECT(!hn_variants_find(hn_strbuf_str(&table), all, 3, &found) || found.variants == 1);
    all[1].rank = 0; /* too few dimensions */
    EXPECT(!hn_variants_find(hn_strbuf_str(&table), all, 2, &found));
    hn_strbuf_deinit(&table);
}

/* The same guards in another order, made by another program, are the same bytes; what they say decides, not the numbers of
 * nodes. */
TEST(canonical_form) {
    facts a, b;
    hn_strbuf x, y;
    hn_strbuf_init(&x);
    hn_strbuf_init(&y);
    facts_init(&a);
    facts_init(&b);
    guard(&a, 1, HN_VREL_LE, number(&a, 9));
    guard(&a, 1, HN_VREL_EQ, 2);
    guard(&a, 4, HN_VREL_EQ, number(&a, 0));
    number(&b, 77);
    guard(&b, 4, HN_VREL_EQ, number(&b, 0));
    guard(&b, 2, HN_VREL_EQ, 1);
    guard(&b, 1, HN_VREL_LE, number(&b, 12));
    guard(&b, 1, HN_VREL_LT, number(&b, 10));
    canonical(&a, &x);
    canonical(&b, &y);
    EXPECT(hn_str_eq(hn_strbuf_str(&x), hn_strbuf_str(&y)));
    guard(&b, 2, HN_VREL_NE, number(&b, 3));
    canonical(&b, &y);
    EXPECT(!hn_str_eq(hn_strbuf_str(&x), hn_strbuf_str(&y)));
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(hn_variant_describe(hn_strbuf_str(&y), &text));
    EXPECT_STR(text.ptr, "input 1 dimension 0 <= 9, input 1 dimension 1 != 3, input 1 dimension 0 % 4 == 0, "
                         "input 1 dimension 0 - input 1 dimension 1 == 0");
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&x);
    hn_strbuf_deinit(&y);
}

/* A guard on what only the data tells says nothing of sizes. */
TEST(data_symbols_are_left_out) {
    facts f;
    hn_strbuf table;
    facts_init(&f);
    hn_strbuf_init(&table);
    f.symbols[1].input = HN_VINPUT_NONE;
    guard(&f, 2, HN_VREL_EQ, number(&f, 3));
    add(&table, &f, 0, false);
    EXPECT_INT(find(&table, 1, 1, 1, NULL), 0);
    hn_strbuf_deinit(&table);
}

TEST(the_default_one_comes_first_then_the_oldest) {
    hn_strbuf table;
    facts f;
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < 3; k++) {
        facts_init(&f);
        guard(&f, 1, HN_VREL_LE, number(&f, 10 * (k + 1)));
        add(&table, &f, k, k == 2);
    }
    EXPECT_INT(find(&table, 25, 1, 3, NULL), 2);
    EXPECT_INT(find(&table, 5, 1, 3, NULL), 2);
    add(&table, &f, 0, false); /* the guards of variant 2 with another program: replaced */
    EXPECT_INT(find(&table, 25, 1, 3, NULL), 0);
    hn_strbuf_deinit(&table);
}

/* 1,000 programs, each for one size: a lookup compares as many as a binary search, whatever the size. */
TEST(a_thousand_variants) {
    enum { COUNT = 1000 };
    hn_strbuf table;
    facts f;
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < COUNT; k++) {
        facts_init(&f);
        guard(&f, 1, HN_VREL_EQ, number(&f, k * 3));
        guard(&f, 4, HN_VREL_EQ, number(&f, k * 3 % 4));
        add(&table, &f, k, k == 0);
    }
    uint32_t most = 0;
    for (int64_t size = 0; size < 3 * COUNT; size++) {
        uint32_t compared;
        EXPECT_INT(find(&table, size, 1, COUNT, &compared), size % 3 ? -1 : size / 3);
        if (compared > most) most = compared;
    }
    EXPECT_INT(most, 1);
    hn_strbuf_deinit(&table);
}

/* Two sizes guarded, 32 x 32 programs: the ones that agree in the first are compared in the second. */
TEST(two_dimensions) {
    enum { SIDE = 32 };
    hn_strbuf table;
    facts f;
    uint32_t compared;
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < SIDE * SIDE; k++) {
        facts_init(&f);
        guard(&f, 1, HN_VREL_EQ, number(&f, k / SIDE));
        guard(&f, 2, HN_VREL_LE, number(&f, k % SIDE));
        guard(&f, number(&f, k % SIDE), HN_VREL_LE, 2);
        add(&table, &f, k, false);
    }
    for (int64_t k = 0; k < SIDE * SIDE; k += 7) {
        EXPECT_INT(find(&table, k / SIDE, k % SIDE, SIDE * SIDE, &compared), k);
        EXPECT(compared <= SIDE);
    }
    EXPECT_INT(find(&table, SIDE, 0, SIDE * SIDE, NULL), -1);
    hn_strbuf_deinit(&table);
}

/* Intervals that overlap: whoever is found takes the size, and one is found where one is there. Against a plain scan. */
TEST(random_intervals_against_a_scan) {
    enum { COUNT = 60 };
    int64_t lo[COUNT], hi[COUNT];
    uint32_t seed = 12345;
    hn_strbuf table;
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < COUNT; k++) {
        facts f;
        seed = seed * 1664525 + 1013904223;
        lo[k] = seed >> 16 & 255;
        seed = seed * 1664525 + 1013904223;
        hi[k] = lo[k] + (seed >> 16 & 31);
        facts_init(&f);
        guard(&f, number(&f, lo[k]), HN_VREL_LE, 1);
        guard(&f, 1, HN_VREL_LE, number(&f, hi[k]));
        add(&table, &f, k, false);
    }
    for (int64_t size = -3; size < 300; size++) {
        int64_t want = -1;
        for (int64_t k = COUNT; k-- > 0;)
            if (size >= lo[k] && size <= hi[k]) want = k; /* the oldest */
        int64_t got = find(&table, size, 1, COUNT, NULL);
        bool same = got == want || (got >= 0 && want >= 0 && lo[got] == lo[want] && hi[got] == hi[want]);
        EXPECT(same);
    }
    hn_strbuf_deinit(&table);
}

TEST(merging_keeps_both) {
    hn_strbuf a, b, both;
    facts f;
    hn_strbuf_init(&a);
    hn_strbuf_init(&b);
    hn_strbuf_init(&both);
    for (int64_t k = 0; k < 4; k++) {
        facts_init(&f);
        guard(&f, 1, HN_VREL_EQ, number(&f, k));
        if (k < 3) add(&a, &f, k, k == 0);
        if (k > 0) add(&b, &f, k, false);
    }
    EXPECT_OK(hn_variants_merge(hn_strbuf_str(&a), hn_strbuf_str(&b), &both));
    for (int64_t k = 0; k < 4; k++) EXPECT_INT(find(&both, k, 1, 4, NULL), k);
    hn_variants_found found;
    EXPECT(hn_variants_find(hn_strbuf_str(&both), NULL, 0, &found));
    EXPECT_INT(found.variants, 4);
    hn_strbuf_deinit(&a);
    hn_strbuf_deinit(&b);
    hn_strbuf_deinit(&both);
}

/* The size that variant k is for: the oldest has the largest. */
static int64_t size_of(int64_t k) { return 10000 - k; }

/* Joins variants [first, end), each for its own size, to the table; variant `by_default` is the default one. In parts: adding
 * one by one writes the table each time. */
static void join(hn_strbuf *table, int64_t first, int64_t end, int64_t by_default) {
    facts f;
    hn_strbuf part, next;
    hn_strbuf_init(&part);
    hn_strbuf_init(&next);
    for (int64_t k = first; k < end; k++) {
        facts_init(&f);
        guard(&f, 1, HN_VREL_EQ, number(&f, size_of(k)));
        add(&part, &f, k, k == by_default);
    }
    EXPECT_OK(hn_variants_merge(hn_strbuf_str(table), hn_strbuf_str(&part), &next));
    hn_strbuf_deinit(table);
    hn_strbuf_deinit(&part);
    *table = next;
}

/* The oldest ones go, but not the default one, however old it is. */
TEST(bounded) {
    enum { PART = 64, SURPLUS = 2 * PART, COUNT = HN_VARIANTS_MAX + SURPLUS, DEFAULT = 3 };
    hn_strbuf table;
    hn_variants_found found;
    hn_digest key = key_of(DEFAULT);
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < COUNT; k += PART) join(&table, k, k + PART, DEFAULT);
    EXPECT(hn_variants_find(hn_strbuf_str(&table), NULL, 0, &found));
    EXPECT_INT(found.variants, HN_VARIANTS_MAX);
    EXPECT(found.is_default && memcmp(&found.key, &key, sizeof key) == 0);
    EXPECT_INT(find(&table, size_of(0), 1, COUNT, NULL), -1);
    EXPECT_INT(find(&table, size_of(DEFAULT), 1, COUNT, NULL), DEFAULT);
    EXPECT_INT(find(&table, size_of(SURPLUS), 1, COUNT, NULL), -1); /* in the default one's place */
    EXPECT_INT(find(&table, size_of(SURPLUS + 1), 1, COUNT, NULL), SURPLUS + 1);
    EXPECT_INT(find(&table, size_of(COUNT - 1), 1, COUNT, NULL), COUNT - 1);
    hn_strbuf_deinit(&table);
}

/* Whatever the bytes: an answer, no fault. Every byte changed, every length. */
TEST(damaged_tables) {
    hn_strbuf table;
    facts f;
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < 3; k++) {
        facts_init(&f);
        guard(&f, 1, HN_VREL_EQ, number(&f, k));
        guard(&f, 4, HN_VREL_NE, number(&f, 3));
        add(&table, &f, k, k == 0);
    }
    char *copy = malloc(table.len);
    const int64_t sizes[2] = {1, 1};
    hn_variant_input inputs[1] = {{.rank = 2, .sizes = sizes}};
    hn_variants_found found;
    for (size_t len = 0; len < table.len; len++) {
        hn_strbuf out;
        hn_digest key = key_of(9);
        memcpy(copy, table.ptr, len);
        EXPECT(!hn_variants_find((hn_str){copy, len}, inputs, 1, &found));
        if (len % 16) continue;
        hn_strbuf_init(&out);
        EXPECT_OK(hn_variants_add((hn_str){copy, len}, (hn_str){"\1\0\0\0\1\0\0\0\0\0\0\0", 12}, &key, true, &out));
        hn_strbuf_deinit(&out);
    }
    for (size_t at = 0; at < table.len; at++) {
        for (int bit = 0; bit < 8; bit += 3) {
            hn_strbuf out;
            hn_strbuf_init(&out);
            memcpy(copy, table.ptr, table.len);
            copy[at] = (char)(copy[at] ^ 1 << bit);
            (void)hn_variants_find((hn_str){copy, table.len}, inputs, 1, &found);
            hn_status_free(hn_variants_merge((hn_str){copy, table.len}, hn_strbuf_str(&table), &out));
            hn_strbuf_deinit(&out);
        }
    }
    free(copy);
    hn_strbuf_deinit(&table);
}

TEST(guards_that_cannot_be_written) {
    facts f;
    hn_strbuf out;
    hn_strbuf_init(&out);
    facts_init(&f);
    guard(&f, 63, HN_VREL_EQ, 1);
    hn_variant_guards guards = guards_of(&f);
    EXPECT_ERROR(hn_variant_canonical(&guards, &out), HN_INVALID_ARGUMENT, "node 63");
    f.guard_count = 0;
    f.symbols[0].rest = 4; /* uses itself */
    guard(&f, 1, HN_VREL_EQ, number(&f, 1));
    guards = guards_of(&f);
    EXPECT_ERROR(hn_variant_canonical(&guards, &out), HN_INVALID_ARGUMENT, "too deep");
    hn_strbuf_deinit(&out);
}

TEST_MAIN
