/* test_options.c: no option is read that the key of the graph cache does not cover. */
#include "driver/options.h"

#include "cache/record.h"
#include "unit/harness.h"

#include <stdlib.h>

static int by_offset(const void *a, const void *b) {
    const hn_option_row *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The rows, in the order of the struct, leave out nothing but padding: a new member without a row
 * fails here. */
TEST(every_member_has_a_row) {
    uint32_t count;
    const hn_option_row *rows = hn_option_rows(&count);
    hn_option_row sorted[HN_OPTION_ROWS_MAX];
    size_t end = 0;
    memcpy(sorted, rows, count * sizeof *rows);
    qsort(sorted, count, sizeof *sorted, by_offset);
    for (uint32_t k = 0; k < count; k++) {
        EXPECT(sorted[k].offset >= end);
        size_t padding =
            sorted[k].offset % sizeof(void *) == 0 ? sizeof(void *) - 1 : sorted[k].bytes - 1;
        if (sorted[k].offset - end > padding)
            HN_TEST_FAIL("the %zu bytes before '%s' have no row in driver/options.c",
                         sorted[k].offset - end, sorted[k].name);
        end = sorted[k].offset + sorted[k].bytes;
    }
    EXPECT(sizeof(hn_compile_options) - end < sizeof(void *));
}

TEST(every_row_says_how_it_is_covered) {
    uint32_t count;
    const hn_option_row *rows = hn_option_rows(&count);
    for (uint32_t k = 0; k < count; k++) {
        if (rows[k].option_class == HN_OPTION_KEYED) EXPECT(rows[k].field && rows[k].put);
        else EXPECT(rows[k].why && *rows[k].why);
    }
}

typedef struct fixture {
    hn_compile_options given;
    hn_option_marks marks;
    hn_options options;
    hn_target target;
    const hn_target *targets[1];
    hn_strbuf record;
} fixture;

static void begin(fixture *f) {
    *f = (fixture){.target = {.vector_bytes = 32, .flags = "-mavx2", .name = "x86-64-v3"}};
    hn_options_init(&f->options, &f->given, &f->marks);
    f->targets[0] = &f->target;
    f->options.targets = f->targets;
    f->options.target_count = 1;
    hn_strbuf_init(&f->record);
}

static void key(fixture *f) {
    hn_strbuf_reset(&f->record);
    hn_options_key(&f->options, &f->record);
}

TEST(what_is_read_is_in_the_key) {
    fixture f;
    begin(&f);
    key(&f);
    EXPECT(!HN_OPT(&f.options, no_fusion));
    EXPECT(!HN_OPT(&f.options, model));
    EXPECT(HN_OPT(&f.options, threads) == 0);
    EXPECT(!HN_OPT(&f.options, target));
    EXPECT(!HN_OPT(&f.options, progress));
    EXPECT(!HN_OPT(&f.options, inputs));
    EXPECT_OK(hn_options_check(&f.options, hn_strbuf_str(&f.record)));
    hn_strbuf_deinit(&f.record);
}

/* A row that somebody forgot to put into the key: the check is silent until the option is read, and
 * then names it. */
TEST(an_option_that_is_not_keyed_is_found) {
    static const hn_option_row rows[] = {
        {"model", offsetof(hn_compile_options, model), sizeof(char *), HN_OPTION_KEYED, "model",
         NULL, ""},
        {"no_fusion", offsetof(hn_compile_options, no_fusion), 1, HN_OPTION_KEYED, NULL, NULL, ""},
        {"progress", offsetof(hn_compile_options, progress), sizeof(void *), HN_OPTION_FREE, NULL,
         NULL, "tells"},
    };
    fixture f;
    begin(&f);
    f.options.rows = rows;
    f.options.row_count = 3;
    key(&f);
    EXPECT(!HN_OPT(&f.options, progress));
    EXPECT_OK(hn_options_check(&f.options, hn_strbuf_str(&f.record)));
    EXPECT(!HN_OPT(&f.options, no_fusion));
    EXPECT_ERROR(hn_options_check(&f.options, hn_strbuf_str(&f.record)), HN_INTERNAL,
                 "'no_fusion' was read and is not in the key");
    f.marks = (hn_option_marks){0};
    EXPECT(!HN_OPT(&f.options, model));
    EXPECT_ERROR(hn_options_check(&f.options, hn_strbuf_str(&f.record)), HN_INTERNAL,
                 "'model' was read");
    hn_record_add(&f.record, "model", HN_STR(""));
    EXPECT_OK(hn_options_check(&f.options, hn_strbuf_str(&f.record)));
    hn_strbuf_deinit(&f.record);
}

/* A new member that is read and has no row at all. */
TEST(an_option_without_a_row_is_found) {
    static const hn_option_row rows[] = {
        {"progress", offsetof(hn_compile_options, progress), sizeof(void *), HN_OPTION_FREE, NULL,
         NULL, "tells"},
    };
    fixture f;
    begin(&f);
    f.options.rows = rows;
    f.options.row_count = 1;
    EXPECT(!HN_OPT(&f.options, source_dir));
    EXPECT_ERROR(hn_options_check(&f.options, HN_STR("")), HN_INTERNAL,
                 "has no row in driver/options.c");
    hn_strbuf_deinit(&f.record);
}

/* Each keyed option changes the key, and nothing else does. */
TEST(values_change_the_key) {
    fixture f;
    begin(&f);
    key(&f);
    hn_strbuf before = f.record;
    hn_strbuf_init(&f.record);
#define CHANGES(member, value, yes)                                                                \
    do {                                                                                           \
        hn_compile_options old = f.given;                                                          \
        f.given.member = (value);                                                                  \
        key(&f);                                                                                   \
        if (hn_str_eq(hn_strbuf_str(&f.record), hn_strbuf_str(&before)) == (yes))                  \
            HN_TEST_FAIL("key and " #member);                                                      \
        f.given = old;                                                                             \
    } while (0)
    CHANGES(model, "other", true);
    CHANGES(no_fusion, true, true);
    CHANGES(deterministic, true, true);
    CHANGES(forms, "softmax=rows", true);
    CHANGES(forms_shipped, 4, true);
    CHANGES(threads, 61, true);
    CHANGES(embed_weights, true, true);
    CHANGES(tune_radius, 2, false);
    CHANGES(tune_fusion, true, false);
    CHANGES(verify, true, false);
    CHANGES(compile_threads, 3, false);
    CHANGES(no_standby, true, false);
    CHANGES(cache_dir, "x", false);
    CHANGES(remote_url, "x", false);
    f.given.embed_weights = true;
    hn_strbuf_deinit(&before);
    key(&f);
    before = f.record;
    hn_strbuf_init(&f.record);
    CHANGES(verify, true, false);
    f.target.vector_bytes = 64;
    CHANGES(progress_context, &f, true); /* through the target */
    hn_strbuf_deinit(&before);
    hn_strbuf_deinit(&f.record);
}

TEST(what_keeps_the_cache_out) {
    fixture f;
    begin(&f);
    EXPECT(!hn_options_uncached(&f.options));
    f.given.cache_dir = "x";
    EXPECT(!hn_options_uncached(&f.options));
    f.given.dump_after = "import";
    EXPECT(hn_options_uncached(&f.options));
    f.given.dump_after = NULL;
    f.given.source_dir = "project";
    EXPECT(hn_options_uncached(&f.options));
    hn_strbuf_deinit(&f.record);
}

TEST_MAIN
