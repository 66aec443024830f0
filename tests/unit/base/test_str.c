/* test_str.c: borrowed strings and the text buffer. */
#include "unit/harness.h"

#include "base/str.h"

#include <limits.h>

static void expect_json(const char *bytes, size_t len, const char *expected) {
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    hn_strbuf_json(&buf, (hn_str){bytes, len});
    EXPECT_STR(buf.ptr, expected);
    hn_strbuf_deinit(&buf);
}

TEST(strings_compare) {
    EXPECT(hn_str_eq(HN_STR("ab"), hn_str_of("ab")));
    EXPECT(!hn_str_eq(HN_STR("ab"), HN_STR("abc")));
    EXPECT(!hn_str_eq(HN_STR("ab"), HN_STR("ac")));
    EXPECT(hn_str_eq(hn_str_of(NULL), HN_STR("")));
    EXPECT(hn_str_starts_with(HN_STR("abc"), HN_STR("ab")));
    EXPECT(hn_str_starts_with(HN_STR("abc"), HN_STR("abc")));
    EXPECT(hn_str_starts_with(hn_str_of(NULL), hn_str_of(NULL)));
    EXPECT(!hn_str_starts_with(HN_STR("ab"), HN_STR("abc")));
    EXPECT(!hn_str_starts_with(HN_STR("xbc"), HN_STR("ab")));
}

TEST(patterns) {
#define MATCHES(pattern, text) hn_str_matches(HN_STR(pattern), HN_STR(text))
    EXPECT(MATCHES("abc", "abc") && !MATCHES("abc", "ab") && !MATCHES("ab", "abc"));
    EXPECT(MATCHES("", "") && !MATCHES("", "a") && MATCHES("*", "") && MATCHES("**", "abc"));
    EXPECT(MATCHES("a*c", "abbc") && MATCHES("*b*", "abc") && !MATCHES("a*d", "abc"));
    EXPECT(MATCHES("*ab", "aab") && MATCHES("a?c", "abc") && !MATCHES("a?", "a"));
    EXPECT(!MATCHES("*a*b", "ba") && MATCHES("*.b*d", "x.a.bcd"));
    EXPECT(hn_str_matches(HN_STR("ab"), (hn_str){"abc", 2}));
#undef MATCHES
}

TEST(sizes_have_units) {
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"1K", 1024},
                {"500M", 500ll << 20},
                {"2g", 2ll << 30},
                {"3GiB", 3ll << 30},
                {"1kib", 1024},
                {"1T", 1ll << 40},
                {"9223372036854775807", INT64_MAX}};
    static const char *const bad[] = {"",        " 1", "-1",  "+1",   "M",    "1 M",
                                      "1MB",     "1X", "1Ki", "1.5G", "0x10", "9223372036854775808",
                                      "8388608T"};
    int64_t bytes;
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        EXPECT(hn_size_parse(good[k].text, &bytes));
        EXPECT_INT(bytes, good[k].bytes);
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) EXPECT(!hn_size_parse(bad[k], &bytes));
}

TEST(appends_add_up) {
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    EXPECT_INT(hn_strbuf_str(&buf).len, 0);
    hn_strbuf_puts(&buf, "");
    EXPECT_STR(buf.ptr, "");
    hn_strbuf_append(&buf, "abc", 2);
    hn_strbuf_append(&buf, NULL, 0);
    hn_strbuf_putc(&buf, '-');
    hn_strbuf_puts(&buf, "xyz");
    hn_strbuf_printf(&buf, "[%05d]", 42);
    EXPECT_STR(buf.ptr, "ab-xyz[00042]");
    EXPECT_INT(buf.len, 13);
    EXPECT(hn_str_eq(hn_strbuf_str(&buf), HN_STR("ab-xyz[00042]")));
    EXPECT_OK(hn_strbuf_status(&buf));
    const char *storage = buf.ptr;
    hn_strbuf_reset(&buf);
    EXPECT_STR(buf.ptr, "");
    hn_strbuf_puts(&buf, "again");
    EXPECT(buf.ptr == storage);
    hn_strbuf_deinit(&buf);
    EXPECT(buf.ptr == NULL && buf.len == 0);
}

TEST(growth_keeps_the_text) {
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    for (int i = 0; i < 10000; i++) hn_strbuf_putc(&buf, (char)('a' + i % 26));
    EXPECT_INT(buf.len, 10000);
    EXPECT_INT(strlen(buf.ptr), 10000);
    for (int i = 0; i < 10000; i++)
        if (buf.ptr[i] != 'a' + i % 26) EXPECT_INT(buf.ptr[i], 'a' + i % 26);
    hn_strbuf_deinit(&buf);
}

TEST(printf_at_every_fill_level) {
    for (int before = 0; before < 200; before++) {
        hn_strbuf buf;
        hn_strbuf_init(&buf);
        for (int i = 0; i < before; i++) hn_strbuf_putc(&buf, '.');
        hn_strbuf_printf(&buf, "%s|%*d", "value", 40, 9);
        EXPECT_INT(buf.len, before + 46);
        EXPECT_INT(strlen(buf.ptr), before + 46);
        EXPECT_INT(buf.ptr[before + 45], '9');
        hn_strbuf_deinit(&buf);
    }
}

TEST(a_failed_buffer_latches) {
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    hn_strbuf_puts(&buf, "kept");
    EXPECT(hn_strbuf_reserve(&buf, SIZE_MAX) == NULL);
    hn_strbuf_puts(&buf, " lost");
    hn_strbuf_printf(&buf, " %d", 1);
    hn_strbuf_i64(&buf, 5);
    hn_strbuf_json(&buf, HN_STR("x"));
    EXPECT_STR(buf.ptr, "kept");
    EXPECT_ERROR(hn_strbuf_status(&buf), HN_OUT_OF_MEMORY, "4 bytes");
    hn_strbuf_reset(&buf);
    EXPECT_OK(hn_strbuf_status(&buf));
    hn_strbuf_puts(&buf, "new");
    EXPECT_STR(buf.ptr, "new");
    hn_strbuf_deinit(&buf);
}

TEST(integers_match_printf) {
    const int64_t values[] = {0,   1,     -1,      9,       10,        -10,       99,
                              100, 12345, INT_MAX, INT_MIN, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char expected[32];
        snprintf(expected, sizeof(expected), "%lld", (long long)values[i]);
        hn_strbuf buf;
        hn_strbuf_init(&buf);
        hn_strbuf_i64(&buf, values[i]);
        EXPECT_STR(buf.ptr, expected);
        hn_strbuf_deinit(&buf);
    }
}

TEST(json_escapes) {
    expect_json("", 0, "\"\"");
    expect_json("plain", 5, "\"plain\"");
    expect_json("a\"b\\c\n\t\r", 8, "\"a\\\"b\\\\c\\n\\t\\r\"");
    expect_json("\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\"");
}

TEST(json_keeps_utf8_and_replaces_the_rest) {
    expect_json("\xc3\xa9", 2, "\"\xc3\xa9\"");
    expect_json("\xe2\x82\xac", 3, "\"\xe2\x82\xac\"");
    expect_json("\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\"");
    expect_json("x\xff y", 4, "\"x\\ufffd y\"");
    expect_json("\x80", 1, "\"\\ufffd\"");
    expect_json("\xc3", 1, "\"\\ufffd\"");                       /* cut off */
    expect_json("\xc0\xaf", 2, "\"\\ufffd\\ufffd\"");            /* over-long */
    expect_json("\xe0\x80\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""); /* over-long */
    expect_json("\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""); /* surrogate */
    expect_json("\xf4\x90\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    expect_json("\xf0\x8f\xbf\xbf", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void expect_clean(const char *text, bool one_line, const char *expected) {
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    hn_strbuf_clean(&buf, hn_str_of(text), one_line);
    EXPECT_STR(buf.ptr ? buf.ptr : "", expected);
    hn_strbuf_deinit(&buf);
}

TEST(text_from_outside_is_cleaned) {
    expect_clean("", false, "");
    expect_clean("a\tb\nc \xc3\xa9 \xf0\x9f\x98\x80", false, "a\tb\nc \xc3\xa9 \xf0\x9f\x98\x80");
    expect_clean("a\tb\nc", true, "a\tb\\nc");
    expect_clean("\033[31mred\r\a\x7f", false, "\\x1b[31mred\\x0d\\x07\\x7f");
    expect_clean("x\xff y \xc3", false, "x\\xff y \\xc3");
    /* a control character of two bytes */
    expect_clean("\xc2\x9b"
                 "2J \xc2\xa0",
                 false, "\\xc2\\x9b2J \xc2\xa0");
    expect_clean("\xe0\x80\x80", false, "\\xe0\\x80\\x80");
}

TEST(text_is_cut_between_characters) {
    hn_str text = HN_STR("ab\xe2\x82\xac"
                         "c");
    static const size_t cut[] = {0, 1, 2, 2, 2, 5, 6, 6};
    for (size_t most = 0; most < sizeof(cut) / sizeof(*cut); most++)
        EXPECT_INT(hn_str_cut(text, most), cut[most]);
}

TEST_MAIN
