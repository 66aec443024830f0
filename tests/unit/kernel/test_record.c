/* test_record.c: what forms by hand are made of, in numbers. */
#include "base/file.h"
#include "kernel/record.h"
#include "unit/kernel/form_fixture.h"

/* Of a form of the fuzz target's corpus. */
static hn_form_record record_of(const char *name) {
    fixture x;
    hn_form *f;
    hn_strbuf text;
    hn_form_record r = {0};
    char path[80];
    snprintf(path, sizeof path, "tests/fuzz/corpus/form_text/%s.hnir", name);
    hn_strbuf_init(&text);
    hn_status status = fixture_init(&x);
    if (!status) status = hn_file_read(path, &text);
    if (!status) status = hn_form_parse(x.program, &x.arena, hn_strbuf_str(&text), &f);
    if (!status) r = hn_form_record_of(f);
    EXPECT_OK(status);
    hn_strbuf_deinit(&text);
    fixture_deinit(&x);
    return r;
}

TEST(a_sum_with_a_tree_in_shared_memory) {
    const hn_form_record r = record_of("row_sum");
    EXPECT_INT(r.arguments, 2);
    EXPECT_INT(r.loads, 1);
    EXPECT_INT(r.stores, 1);
    EXPECT_INT(r.atomics, 0);
    EXPECT_INT(r.loops, 2);
    EXPECT_INT(r.barriers, 2);
    EXPECT_INT(r.reductions, 2);
    EXPECT_INT(r.threads, 256);
    EXPECT_INT(r.lanes, 0);
    EXPECT(!r.is_vectorized);
    EXPECT_NEAR(r.cost.bytes, 266240, 0);
}

TEST(moves_are_vectors) {
    const hn_form_record r = record_of("registers");
    EXPECT_INT(r.loads, 1);
    EXPECT_INT(r.stores, 1);
    EXPECT_INT(r.loops, 4);
    EXPECT_INT(r.reductions, 1);
    EXPECT(r.is_vectorized);
}

TEST(stores_at_which_threads_meet) { EXPECT_INT(record_of("scatter").atomics, 2); }

TEST(a_form_of_ranges) {
    const hn_form_record r = record_of("range_rows");
    EXPECT(r.lanes > 1 && r.is_vectorized);
    EXPECT_INT(r.barriers, 0);
}

TEST_MAIN
