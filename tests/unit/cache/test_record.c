/* test_record.c: records: round trip, damage, summary, difference. */
#include "cache/record.h"

#include "unit/harness.h"

#include <stdlib.h>

static void make(hn_strbuf *out, const char *flags, hn_str text) {
    hn_strbuf_init(out);
    hn_record_add(out, "language", HN_STR("c"));
    hn_record_add(out, "flags", hn_str_of(flags));
    hn_record_add_i64(out, "limit", -42);
    hn_record_add(out, "text", text);
}

TEST(fields_come_back_in_order) {
    hn_strbuf r;
    make(&r, "-O2", HN_STR("x\0y"));
    hn_str rest = hn_strbuf_str(&r);
    static const char *const names[] = {"language", "flags", "limit", "text"};
    hn_record_field field;
    for (int i = 0; i < 4; i++) {
        EXPECT(hn_record_next(&rest, &field));
        EXPECT(hn_str_eq(field.name, hn_str_of(names[i])));
    }
    EXPECT(hn_str_eq(field.value, HN_STR("x\0y")));
    EXPECT(!hn_record_next(&rest, &field));
    EXPECT_INT(rest.len, 0);
    hn_str value;
    EXPECT(hn_record_find(hn_strbuf_str(&r), "flags", &value) && hn_str_eq(value, HN_STR("-O2")));
    EXPECT(!hn_record_find(hn_strbuf_str(&r), "flag", &value));
    EXPECT_INT(value.len, 0);
    EXPECT_INT(hn_record_find_i64(hn_strbuf_str(&r), "limit", 7), -42);
    EXPECT_INT(hn_record_find_i64(hn_strbuf_str(&r), "flags", 7), 7);
    EXPECT_INT(hn_record_find_i64(hn_strbuf_str(&r), "none", 7), 7);
    hn_strbuf_deinit(&r);
}

TEST(every_cut_is_noticed_or_is_a_field_border) {
    hn_strbuf r;
    make(&r, "-O2", HN_STR("abc"));
    uint32_t whole = 0;
    for (size_t len = 0; len <= r.len; len++) {
        /* A copy of exactly that size, so that a read beyond the end is seen by the sanitizer. */
        char *bytes = malloc(len ? len : 1);
        memcpy(bytes, r.ptr, len);
        hn_status status = hn_record_check((hn_str){bytes, len});
        if (!status) whole++;
        hn_status_free(status);
        free(bytes);
    }
    EXPECT_INT(whole, 5); /* empty, and after each of four fields */
    char huge[6] = {1, 0, -1, -1, -1, -1};
    EXPECT_ERROR(hn_record_check((hn_str){huge, 6}), HN_CORRUPT, "damaged record");
    hn_strbuf_deinit(&r);
}

TEST(too_long_a_name_latches) {
    hn_strbuf r;
    hn_strbuf_init(&r);
    char *name = malloc(70000);
    memset(name, 'n', 69999);
    name[69999] = 0;
    hn_record_add(&r, name, HN_STR("v"));
    EXPECT(r.failed);
    free(name);
    hn_strbuf_deinit(&r);
}

TEST(a_difference_names_the_field) {
    hn_strbuf a, b, sa, sb, out;
    char *text = malloc(10000);
    memset(text, 'x', 10000);
    make(&a, "-O2", (hn_str){text, 10000});
    text[9999] = 'y';
    make(&b, "-O3", (hn_str){text, 10000});
    hn_record_add(&b, "extra", HN_STR("1\0"));
    hn_strbuf_init(&sa), hn_strbuf_init(&sb), hn_strbuf_init(&out);
    EXPECT_OK(hn_record_summarise(hn_strbuf_str(&a), &sa));
    EXPECT_OK(hn_record_summarise(hn_strbuf_str(&b), &sb));
    EXPECT(sa.len < 300);
    EXPECT_INT(hn_record_diff(hn_strbuf_str(&sa), hn_strbuf_str(&sa), NULL), 0);
    EXPECT_INT(hn_record_diff(hn_strbuf_str(&sa), hn_strbuf_str(&sb), &out), 3);
    EXPECT(strstr(out.ptr, "field 'flags' was '-O2', is '-O3'\n") != NULL);
    EXPECT(strstr(out.ptr, "field 'text' was '10000 bytes, digest ") != NULL);
    EXPECT(strstr(out.ptr, "field 'extra' did not exist, is '1'\n") != NULL);
    EXPECT_INT(hn_record_diff(hn_strbuf_str(&sb), hn_strbuf_str(&sa), NULL), 3);
    hn_strbuf_deinit(&a), hn_strbuf_deinit(&b), hn_strbuf_deinit(&sa), hn_strbuf_deinit(&sb),
        hn_strbuf_deinit(&out);
    free(text);
}

TEST_MAIN
