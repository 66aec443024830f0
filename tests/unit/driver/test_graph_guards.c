/* test_graph_guards.c: which program of a table is found for which sizes. */
#include "driver/graph_guards.h"

#include "cache/variants.h"
#include "unit/harness.h"

#include <stdlib.h>

/* Two inputs: input 0 a number, input 1 a tensor [s0, s1]. Nodes: 1 s0, 2 s1, 4 s0 % 4, then
 * constants as asked for. */
typedef struct facts {
    hnb_input inputs[2];
    hnb_symbol symbols[2];
    hnb_node nodes[64];
    hnb_guard guards[16];
    uint32_t node_count, guard_count;
} facts;

static void facts_init(facts *f) {
    *f = (facts){.inputs = {{.kind = HNB_VALUE_INT}, {.kind = HNB_VALUE_TENSOR, .rank = 2}},
                 .symbols = {{.input = 1, .dim = 0, .coeff = 1, .hint = 7},
                             {.input = 1, .dim = 1, .coeff = 1}}};
    f->nodes[1] = (hnb_node){HNB_OP_SYMBOL, 0, 0};
    f->nodes[2] = (hnb_node){HNB_OP_SYMBOL, 1, 0};
    f->nodes[3] = (hnb_node){HNB_OP_CONST, 0, 4};
    f->nodes[4] = (hnb_node){HNB_OP_MOD, 1, 3};
    f->node_count = 5;
}

static uint32_t number(facts *f, int64_t value) {
    f->nodes[f->node_count] = (hnb_node){HNB_OP_CONST, 0, value};
    return f->node_count++;
}

static void guard(facts *f, uint32_t lhs, hnb_relation relation, uint32_t rhs) {
    f->guards[f->guard_count++] = (hnb_guard){.relation = relation,
                                              .lhs = lhs,
                                              .rhs = rhs,
                                              .reason = {.offset = f->guard_count, .len = 3}};
}

static void write_guards(const facts *f, hn_strbuf *out) {
    const hn_bundle b = {.nodes = f->nodes,
                         .nodes_count = f->node_count,
                         .symbols = f->symbols,
                         .symbols_count = 2,
                         .guards = f->guards,
                         .guards_count = f->guard_count,
                         .inputs = f->inputs,
                         .inputs_count = 2};
    hn_strbuf_reset(out);
    EXPECT_OK(hn_graph_guards_write(&b, out));
}

static hn_digest key_of(int64_t number) { return hn_digest_of(&number, sizeof number); }

/* Adds a variant to the table in place. */
static void add(hn_strbuf *table, const facts *f, int64_t name, bool is_default) {
    hn_strbuf next, guards;
    hn_strbuf_init(&next);
    hn_strbuf_init(&guards);
    write_guards(f, &guards);
    EXPECT_OK(hn_variants_add(hn_strbuf_str(table),
                              &(hn_variant){key_of(name), is_default, hn_strbuf_str(&guards)},
                              &next));
    hn_strbuf_deinit(table);
    hn_strbuf_deinit(&guards);
    *table = next;
}

/* The name of the variant for a tensor [a, b], -1 for none. */
static int64_t find(const hn_strbuf *table, int64_t a, int64_t b, int64_t names) {
    const int64_t sizes[2] = {a, b};
    hn_input_sizes inputs[1] = {{.rank = 2, .sizes = sizes}};
    hn_digest found;
    bool hit = hn_graph_guards_find(hn_strbuf_str(table), inputs, 1, &found);
    for (int64_t k = 0; hit && k < names; k++) {
        hn_digest key = key_of(k);
        if (memcmp(&key, &found, sizeof key) == 0) return k;
    }
    return hit ? -2 : -1;
}

TEST(no_guards_take_all) {
    hn_strbuf table;
    facts f;
    hn_digest found, key = key_of(0);
    facts_init(&f);
    hn_strbuf_init(&table);
    EXPECT_INT(find(&table, 3, 4, 1), -1);
    add(&table, &f, 0, true);
    EXPECT_INT(find(&table, 3, 4, 1), 0);
    EXPECT(hn_graph_guards_find(hn_strbuf_str(&table), NULL, 0, &found) &&
           memcmp(&found, &key, sizeof key) == 0);
    hn_strbuf_deinit(&table);
}

TEST(each_relation) {
    static const struct {
        uint32_t lhs;
        hnb_relation relation;
        int64_t value;
        bool flipped;
        int64_t yes, no;
    } rows[] = {
        {1, HNB_EQ, 5, false, 5, 6},          {1, HNB_NE, 5, false, 6, 5},
        {1, HNB_LT, 5, false, 4, 5},          {1, HNB_LE, 5, false, 5, 6},
        {1, HNB_LT, 5, true, 6, 5},           {1, HNB_LE, 5, true, 5, 4},
        {4, HNB_EQ, 0, false, 8, 9},          {4, HNB_NE, 0, false, 9, 8},
        {1, HNB_LT, INT64_MIN, false, -1, 5},
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
        if (rows[k].yes >= 0) EXPECT_INT(find(&table, rows[k].yes, 1, 1), 0);
        EXPECT_INT(find(&table, rows[k].no, 1, 1), -1);
        hn_strbuf_deinit(&table);
    }
}

TEST(bounds_and_an_exception) {
    static const struct {
        int64_t size;
        int64_t found;
    } rows[] = {{3, -1}, {4, 0}, {12, 0}, {13, -1}, {14, 0}, {64, 0}, {65, -1}};
    hn_strbuf table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&table);
    guard(&f, number(&f, 3), HNB_LT, 1);
    guard(&f, 1, HNB_NE, number(&f, 13));
    guard(&f, 1, HNB_LE, number(&f, 64));
    add(&table, &f, 0, false);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        EXPECT_INT(find(&table, rows[k].size, 1, 1), rows[k].found);
    hn_strbuf_deinit(&table);
}

TEST(two_sides_and_solved_symbols) {
    hn_strbuf table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&table);
    guard(&f, 1, HNB_EQ, 2); /* s0 == s1 */
    add(&table, &f, 0, false);
    EXPECT_INT(find(&table, 7, 7, 1), 0);
    EXPECT_INT(find(&table, 7, 8, 1), -1);
    hn_strbuf_deinit(&table);
    /* s1 = (d - s0) / 2 */
    facts_init(&f);
    hn_strbuf_init(&table);
    f.symbols[1].coeff = 2;
    f.symbols[1].rest = 1;
    guard(&f, 2, HNB_EQ, number(&f, 3));
    add(&table, &f, 0, false);
    EXPECT_INT(find(&table, 4, 10, 1), 0);
    EXPECT_INT(find(&table, 4, 11, 1), -1); /* not whole */
    EXPECT_INT(find(&table, 5, 10, 1), -1);
    hn_strbuf_deinit(&table);
}

TEST(what_cannot_be_computed_is_not_taken) {
    hn_strbuf table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&table);
    f.nodes[5] = (hnb_node){HNB_OP_MUL, 1, 1};
    f.nodes[6] = (hnb_node){HNB_OP_MOD, 3, 2}; /* 4 % s1 */
    f.node_count = 7;
    guard(&f, number(&f, 0), HNB_LE, 5);
    guard(&f, number(&f, 0), HNB_LE, 6);
    add(&table, &f, 0, false);
    EXPECT_INT(find(&table, 1000, 1, 1), 0);
    EXPECT_INT(find(&table, INT64_MAX, 1, 1), -1); /* too large */
    EXPECT_INT(find(&table, 1000, 0, 1), -1);      /* a division by 0 */
    hn_strbuf_deinit(&table);
}

TEST(inputs_all_or_tensors) {
    hn_strbuf table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&table);
    guard(&f, 1, HNB_EQ, number(&f, 7));
    add(&table, &f, 0, false);
    const int64_t sizes[2] = {7, 1};
    hn_input_sizes all[3] = {
        {.has_value = true, .value = 1}, {.rank = 2, .sizes = sizes}, {.rank = 0}};
    hn_digest found;
    EXPECT(hn_graph_guards_find(hn_strbuf_str(&table), all, 2, &found));
    EXPECT(hn_graph_guards_find(hn_strbuf_str(&table), all + 1, 1, &found));
    EXPECT(hn_graph_guards_find(hn_strbuf_str(&table), all, 3, &found)); /* input 1 of them */
    all[1].rank = 0;                                                     /* too few dimensions */
    EXPECT(!hn_graph_guards_find(hn_strbuf_str(&table), all, 2, &found));
    f.symbols[0] = (hnb_symbol){.input = 0, .dim = HNB_DIM_VALUE, .coeff = 1};
    hn_strbuf_deinit(&table);
    hn_strbuf_init(&table);
    add(&table, &f, 0, false); /* of a number: 7 */
    EXPECT(!hn_graph_guards_find(hn_strbuf_str(&table), all, 2, &found));
    all[0].value = 7;
    EXPECT(hn_graph_guards_find(hn_strbuf_str(&table), all, 2, &found));
    all[0].has_value = false;
    EXPECT(!hn_graph_guards_find(hn_strbuf_str(&table), all, 2, &found));
    hn_strbuf_deinit(&table);
}

/* The same guards in another program, with other nodes beside them, names and reasons, are the same
 * bytes. */
TEST(bytes_are_of_the_guards_alone) {
    facts a, b;
    hn_strbuf x, y, text;
    hn_strbuf_init(&x);
    hn_strbuf_init(&y);
    hn_strbuf_init(&text);
    facts_init(&a);
    facts_init(&b);
    guard(&a, 1, HNB_LE, number(&a, 9));
    guard(&a, 4, HNB_EQ, number(&a, 0));
    number(&b, 77);
    b.symbols[0].lo = 3;
    b.symbols[0].name.len = 2;
    b.symbols[1].dim = 0; /* not used */
    guard(&b, 1, HNB_LE, number(&b, 9));
    guard(&b, 4, HNB_EQ, number(&b, 0));
    b.guards[0].reason.len = 0;
    write_guards(&a, &x);
    write_guards(&b, &y);
    EXPECT(hn_str_eq(hn_strbuf_str(&x), hn_strbuf_str(&y)));
    EXPECT_OK(hn_graph_guards_describe(hn_strbuf_str(&x), &text));
    EXPECT_STR(text.ptr, "input 1 dimension 0 <= 9, input 1 dimension 0 % 4 == 0");
    guard(&b, 2, HNB_NE, 1);
    b.symbols[1] = (hnb_symbol){.input = 1, .dim = 1, .coeff = 2, .rest = 1};
    write_guards(&b, &y);
    EXPECT(!hn_str_eq(hn_strbuf_str(&x), hn_strbuf_str(&y)));
    hn_strbuf_reset(&text);
    EXPECT_OK(hn_graph_guards_describe(hn_strbuf_str(&y), &text));
    EXPECT(strstr(text.ptr,
                  ", (input 1 dimension 1 - input 1 dimension 0)/2 != input 1 dimension 0") !=
           NULL);
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
    f.symbols[1] = (hnb_symbol){.input = HNB_BY_STEP};
    f.nodes[5] = (hnb_node){HNB_OP_ADD, 2, 1};
    f.node_count = 6;
    guard(&f, 5, HNB_EQ, number(&f, 3));
    add(&table, &f, 0, false);
    EXPECT_INT(find(&table, 1, 1, 1), 0);
    hn_strbuf_deinit(&table);
}

TEST(the_default_one_comes_first_then_the_oldest) {
    hn_strbuf table;
    facts f;
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < 3; k++) {
        facts_init(&f);
        guard(&f, 1, HNB_LE, number(&f, 10 * (k + 1)));
        add(&table, &f, k, k == 2);
    }
    EXPECT_INT(find(&table, 25, 1, 3), 2);
    EXPECT_INT(find(&table, 5, 1, 3), 2);
    add(&table, &f, 0, false); /* the guards of variant 2 with another program: replaced */
    EXPECT_INT(find(&table, 25, 1, 3), 0);
    hn_strbuf_deinit(&table);
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < 3; k++) {
        facts_init(&f);
        guard(&f, 1, HNB_LE, number(&f, 10 * (3 - k)));
        add(&table, &f, k, false);
    }
    EXPECT_INT(find(&table, 5, 1, 3), 0);
    EXPECT_INT(find(&table, 31, 1, 3), -1);
    hn_digest found;
    EXPECT(!hn_graph_guards_find(hn_strbuf_str(&table), NULL, 0, &found));
    hn_strbuf_deinit(&table);
}

/* As many programs as a table holds, each for one size of two. */
TEST(a_full_table) {
    enum { SIDE = 16 };
    _Static_assert(SIDE * SIDE == HN_VARIANTS_MAX, "the table is full");
    hn_strbuf table;
    facts f;
    hn_strbuf_init(&table);
    for (int64_t k = 0; k < SIDE * SIDE; k++) {
        facts_init(&f);
        guard(&f, 1, HNB_EQ, number(&f, k / SIDE));
        guard(&f, 2, HNB_LE, number(&f, k % SIDE));
        guard(&f, number(&f, k % SIDE), HNB_LE, 2);
        add(&table, &f, k, false);
    }
    for (int64_t k = 0; k < SIDE * SIDE; k++)
        EXPECT_INT(find(&table, k / SIDE, k % SIDE, SIDE * SIDE), k);
    EXPECT_INT(find(&table, SIDE, 0, SIDE * SIDE), -1);
    hn_strbuf_deinit(&table);
}

/* Whatever the bytes, and wherever they stand: an answer, no fault. Every byte changed, every
 * length. */
TEST(damaged_guards) {
    hn_strbuf guards, text, table;
    facts f;
    facts_init(&f);
    hn_strbuf_init(&guards);
    hn_strbuf_init(&text);
    f.symbols[1].rest = 1;
    guard(&f, 1, HNB_EQ, number(&f, 5));
    guard(&f, 4, HNB_NE, number(&f, 3));
    guard(&f, 2, HNB_LE, 1);
    write_guards(&f, &guards);
    char *copy = malloc(guards.len + 1);
    const int64_t sizes[2] = {5, 9};
    hn_input_sizes inputs[1] = {{.rank = 2, .sizes = sizes}};
    hn_digest found;
    for (size_t len = 0; len <= guards.len; len++) {
        memcpy(copy + 1, guards.ptr, len);
        const hn_variant part = {key_of(1), false, {copy + 1, len}};
        hn_strbuf_init(&table);
        EXPECT_OK(hn_variants_add(HN_STR(""), &part, &table));
        EXPECT(hn_graph_guards_find(hn_strbuf_str(&table), inputs, 1, &found) ==
               (len == guards.len));
        hn_strbuf_deinit(&table);
    }
    for (size_t at = 0; at < guards.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, guards.ptr, guards.len);
            copy[at] = (char)(copy[at] ^ 1 << bit);
            const hn_variant odd = {key_of(1), false, {copy, guards.len}};
            hn_strbuf_init(&table);
            hn_strbuf_reset(&text);
            EXPECT_OK(hn_variants_add(HN_STR(""), &odd, &table));
            (void)hn_graph_guards_find(hn_strbuf_str(&table), inputs, 1, &found);
            hn_status_free(hn_graph_guards_describe(odd.guards, &text));
            hn_strbuf_deinit(&table);
        }
    }
    free(copy);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&guards);
}

TEST_MAIN
