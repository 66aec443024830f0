/* test_variants.c: tables of variants: what is kept, in which order, and what damaged ones do. */
#include "cache/variants.h"

#include "unit/harness.h"

#include <stdlib.h>

static hn_digest key_of(int64_t number) { return hn_digest_of(&number, sizeof number); }

/* Adds variant `name`, whose guards are `guards`, to the table in place. */
static void add(hn_strbuf *table, const char *guards, int64_t name, bool is_default) {
    hn_strbuf next;
    hn_strbuf_init(&next);
    EXPECT_OK(hn_variants_add(hn_strbuf_str(table),
                              &(hn_variant){key_of(name), is_default, hn_str_of(guards)}, &next));
    EXPECT(hn_variants_is_table(hn_strbuf_str(&next)));
    hn_strbuf_deinit(table);
    *table = next;
}

/* "a=0* b=1": guards and names in order, '*' behind the default one. */
static void expect_table(const hn_strbuf *table, const char *want) {
    hn_strbuf text;
    hn_variant v;
    size_t at = 0;
    hn_strbuf_init(&text);
    while (hn_variants_next(hn_strbuf_str(table), &at, &v)) {
        int64_t name = 0;
        for (hn_digest key = key_of(name); name < 10 && memcmp(&key, &v.key, sizeof key) != 0;
             key = key_of(name))
            name++;
        hn_strbuf_printf(&text, "%s" HN_STR_FMT "=%d%s", text.len ? " " : "", HN_STR_ARG(v.guards),
                         (int)name, v.is_default ? "*" : "");
    }
    EXPECT_STR(text.len ? text.ptr : "", want);
    hn_strbuf_deinit(&text);
}

TEST(variants_are_listed_in_the_order_of_their_ages) {
    hn_strbuf table;
    hn_strbuf_init(&table);
    EXPECT(!hn_variants_is_table(hn_strbuf_str(&table)));
    expect_table(&table, "");
    add(&table, "a", 1, false);
    expect_table(&table, "a=1");
    add(&table, "bb", 2, true);
    add(&table, "", 3, false);
    expect_table(&table, "a=1 bb=2* =3");
    add(&table, "a", 4, false); /* the same guards: another program, at its place */
    expect_table(&table, "a=4 bb=2* =3");
    add(&table, "bb", 5, false); /* for callers that say no sizes all the same */
    add(&table, "", 3, true);
    expect_table(&table, "a=4 bb=5* =3*");
    hn_strbuf_deinit(&table);
}

TEST(merging_keeps_both) {
    hn_strbuf a, b, both;
    hn_strbuf_init(&a);
    hn_strbuf_init(&b);
    hn_strbuf_init(&both);
    add(&a, "x", 1, true);
    add(&a, "y", 2, false);
    add(&b, "y", 3, false);
    add(&b, "z", 4, false);
    EXPECT_OK(hn_variants_merge(hn_strbuf_str(&a), hn_strbuf_str(&b), &both));
    expect_table(&both, "x=1* y=3 z=4");
    hn_strbuf_reset(&both);
    EXPECT_OK(hn_variants_merge(HN_STR("nonsense"), hn_strbuf_str(&b), &both));
    expect_table(&both, "y=3 z=4");
    hn_strbuf_deinit(&a);
    hn_strbuf_deinit(&b);
    hn_strbuf_deinit(&both);
}

static bool has(const hn_strbuf *table, const char *guards) {
    hn_variant v;
    size_t at = 0;
    while (hn_variants_next(hn_strbuf_str(table), &at, &v))
        if (hn_str_eq(v.guards, hn_str_of(guards))) return true;
    return false;
}

/* The oldest ones go, but not the default one, however old it is. Also of two full tables. */
TEST(bounded) {
    enum { SURPLUS = 20, DEFAULT = 3 };
    hn_strbuf tables[2], both;
    hn_variant v;
    char guards[16];
    for (int t = 0; t < 2; t++) {
        hn_strbuf_init(&tables[t]);
        for (int k = 0; k < HN_VARIANTS_MAX + SURPLUS; k++) {
            snprintf(guards, sizeof guards, "%d %d", t, k);
            add(&tables[t], guards, k, !t && k == DEFAULT);
        }
        uint32_t count = 0;
        for (size_t at = 0; hn_variants_next(hn_strbuf_str(&tables[t]), &at, &v);) count++;
        EXPECT_INT(count, HN_VARIANTS_MAX);
    }
    EXPECT(!has(&tables[0], "0 0") && has(&tables[0], "0 3") && !has(&tables[0], "0 20") &&
           has(&tables[0], "0 21"));
    EXPECT(!has(&tables[1], "1 3") && !has(&tables[1], "1 19") && has(&tables[1], "1 20") &&
           has(&tables[1], "1 275"));
    hn_strbuf_init(&both);
    EXPECT_OK(hn_variants_merge(hn_strbuf_str(&tables[0]), hn_strbuf_str(&tables[1]), &both));
    EXPECT(hn_variants_is_table(hn_strbuf_str(&both)));
    EXPECT(has(&both, "0 3") && !has(&both, "0 275") && !has(&both, "1 20") && has(&both, "1 21"));
    hn_strbuf_deinit(&both);
    for (int t = 0; t < 2; t++) hn_strbuf_deinit(&tables[t]);
}

/* Whatever the bytes: an answer, no fault. Every byte changed, every length, at every place. */
TEST(damaged_tables) {
    hn_strbuf table, out;
    hn_variant v;
    hn_strbuf_init(&table);
    for (int k = 0; k < 3; k++) add(&table, k ? k == 1 ? "one" : "two and more" : "", k, k == 0);
    char *copy = malloc(table.len + 1);
    for (size_t len = 0; len < table.len; len++) {
        memcpy(copy + len % 2, table.ptr, len);
        hn_str part = {copy + len % 2, len};
        size_t at = 0;
        uint32_t count = 0;
        while (hn_variants_next(part, &at, &v)) count++;
        EXPECT(count < 3);
        hn_strbuf_init(&out);
        EXPECT_OK(hn_variants_add(part, &(hn_variant){key_of(9), true, HN_STR("nine")}, &out));
        EXPECT(hn_variants_is_table(hn_strbuf_str(&out)) && has(&out, "nine"));
        hn_strbuf_deinit(&out);
    }
    for (size_t byte = 0; byte < table.len; byte++) {
        for (int bit = 0; bit < 8; bit++) {
            hn_strbuf_init(&out);
            memcpy(copy, table.ptr, table.len);
            copy[byte] = (char)(copy[byte] ^ 1 << bit);
            for (size_t at = 0; hn_variants_next((hn_str){copy, table.len}, &at, &v);)
                EXPECT(v.guards.len <= table.len);
            EXPECT_OK(hn_variants_merge((hn_str){copy, table.len}, hn_strbuf_str(&table), &out));
            hn_strbuf_deinit(&out);
        }
    }
    free(copy);
    hn_strbuf_deinit(&table);
}

TEST_MAIN
