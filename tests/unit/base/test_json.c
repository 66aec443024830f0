/* The pull reader of JSON: values to their last digit, and every kind of malformed text. */
#include "unit/harness.h"

#include "base/json.h"

static hn_arena arena;

static hn_json reader(const char *text) {
    hn_json json;
    hn_arena_deinit(&arena);
    hn_arena_init(&arena);
    hn_json_init(&json, &arena, hn_str_of(text));
    return json;
}

static void expect_string(const char *text, const char *expected) {
    hn_json json = reader(text);
    hn_str s = {0};
    EXPECT_OK(hn_json_string(&json, &s));
    EXPECT(s.len == strlen(expected) && memcmp(s.ptr, expected, s.len) == 0);
    EXPECT_OK(hn_json_finish(&json));
}

TEST(strings) {
    expect_string("\"\"", "");
    expect_string(" \"plain\" ", "plain");
    expect_string("\"a\\\"b\\\\\"", "a\"b\\");
    expect_string("\"\\b\\f\\n\\r\\t\\/\"", "\b\f\n\r\t/");
    expect_string("\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac");
    expect_string("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80");
    expect_string("\"\\ud83dx\"", "\xef\xbf\xbdx"); /* half a pair */
}

TEST(bad_strings) {
    static const char *const texts[] = {"\"",        "\"abc",       "\"\\\"", "\"\\q\"",
                                        "\"\\u12\"", "\"\\u12g4\"", "abc"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        hn_json json = reader(texts[k]);
        hn_str s;
        EXPECT_ERROR(hn_json_string(&json, &s), HN_CORRUPT, "bad JSON at byte");
        EXPECT_ERROR(hn_json_status(&json), HN_CORRUPT, "bad JSON"); /* it stays */
    }
}

static void expect_int(const char *text, int64_t expected) {
    hn_json json = reader(text);
    int64_t value = 0;
    EXPECT_OK(hn_json_int(&json, &value));
    EXPECT_INT(value, expected);
}

TEST(integers) {
    expect_int("0", 0);
    expect_int("-7", -7);
    expect_int("9223372036854775807", INT64_MAX);
    expect_int("-9223372036854775808", INT64_MIN);
    expect_int("9007199254740993", 9007199254740993); /* 2^53 + 1, which double cannot hold */
    static const char *const bad[] = {
        "9223372036854775808", "-9223372036854775809", "1.0", "1e3", "-", "true", "\"1\"", ""};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        hn_json json = reader(bad[k]);
        int64_t value;
        EXPECT_ERROR(hn_json_int(&json, &value), HN_CORRUPT, "integer");
    }
}

static void expect_float(const char *text, double expected) {
    hn_json json = reader(text);
    double value = -1;
    EXPECT_OK(hn_json_float(&json, &value));
    EXPECT(memcmp(&value, &expected, sizeof value) == 0 || (isnan(value) && isnan(expected)));
}

TEST(floats) {
    expect_float("0.1", 0.1);
    expect_float("-2.5e-3", -2.5e-3);
    expect_float("3", 3.0);
    expect_float("1e-05", 1e-05);
    expect_float("1.0000000000000001e-05", 1.0000000000000001e-05);
    expect_float("0.3333333333333333", 0.3333333333333333);
    expect_float("1.7976931348623157e+308", 1.7976931348623157e+308);
    expect_float("5e-324", 5e-324);
    expect_float("123456789012345678901234567890", 123456789012345678901234567890.0);
    expect_float("-0.0", -0.0);
    expect_float("\"Infinity\"", INFINITY);
    expect_float("\"-Infinity\"", -INFINITY);
    expect_float("\"NaN\"", NAN);
    expect_float("NaN", NAN);
    expect_float("-Infinity", -INFINITY);
    static const char *const bad[] = {"\"1.0\"", "\"x\"",    "1..2", "1e", "0x10",
                                      "-",       "Infinite", "{}",   ""};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        hn_json json = reader(bad[k]);
        double value;
        EXPECT_ERROR(hn_json_float(&json, &value), HN_CORRUPT, "number");
    }
}

/* Sum of the integers of nested arrays and objects. */
static hn_status sum(hn_json *json, int64_t *out) {
    int64_t value = 0;
    hn_str key;
    switch (hn_json_peek(json)) {
    case HN_JSON_ARRAY:
        HN_TRY(hn_json_array(json));
        while (hn_json_item(json)) HN_TRY(sum(json, out));
        return hn_json_status(json);
    case HN_JSON_OBJECT:
        HN_TRY(hn_json_object(json));
        while (hn_json_key(json, &key)) HN_TRY(sum(json, out));
        return hn_json_status(json);
    case HN_JSON_NUMBER:
        HN_TRY(hn_json_int(json, &value));
        *out += value;
        return NULL;
    default: return hn_json_skip(json);
    }
}

TEST(containers) {
    static const struct {
        const char *text;
        int64_t sum;
    } good[] = {{"[]", 0},
                {"{}", 0},
                {"[1, 2 ,3]", 6},
                {"{\"a\":1,\"b\":[2,{\"c\":4}],\"d\":\"]}\"}", 7},
                {"[[],[[]],{},1]", 1},
                {"[true,false,null,5]", 5}};
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        hn_json json = reader(good[k].text), mark = json;
        int64_t total = 0;
        EXPECT_OK(sum(&json, &total));
        EXPECT_OK(hn_json_finish(&json));
        EXPECT_INT(total, good[k].sum);
        EXPECT_OK(hn_json_skip(&mark)); /* the copy is at the beginning still */
        EXPECT_OK(hn_json_finish(&mark));
    }
}

TEST(bad_containers) {
    static const char *const texts[] = {
        "[1 2]", "[1,]x", "[,1]",    "{\"a\" 1}", "{\"a\":1 \"b\":2}",
        "{1:2}", "[",     "{\"a\":", "{\"a\"",    "[1}",
        "tru",   "[nul]", "*"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        hn_json json = reader(texts[k]);
        int64_t total = 0;
        hn_status status = sum(&json, &total);
        EXPECT_INT(hn_status_code(status), HN_CORRUPT);
        hn_status_free(status);
    }
    hn_json json = reader("{} 1");
    EXPECT_OK(hn_json_skip(&json));
    EXPECT_ERROR(hn_json_finish(&json), HN_CORRUPT, "byte 3: text after the value");
}

TEST(depth) {
    char text[1000];
    for (int depth = HN_JSON_MAX_DEPTH; depth <= HN_JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = 0;
        for (int skip = 0; skip < 2; skip++) {
            hn_json json = reader(text);
            int64_t total = 0;
            hn_status status = skip ? hn_json_skip(&json) : sum(&json, &total);
            EXPECT((status == NULL) == (depth == HN_JSON_MAX_DEPTH));
            hn_status_free(status);
        }
    }
}

TEST(raw_strings_and_null) {
    hn_json json = reader("[\"a\\\\\\\"b\", null, 1]");
    hn_str raw = {0};
    EXPECT_OK(hn_json_array(&json));
    EXPECT(hn_json_item(&json));
    EXPECT_OK(hn_json_raw_string(&json, &raw));
    EXPECT(hn_str_eq(raw, HN_STR("a\\\\\\\"b")));
    EXPECT(hn_json_item(&json));
    EXPECT(hn_json_null(&json));
    EXPECT(hn_json_item(&json));
    EXPECT(!hn_json_null(&json));
    EXPECT_OK(hn_json_skip(&json));
    EXPECT(!hn_json_item(&json));
    EXPECT_OK(hn_json_finish(&json));
    hn_arena_deinit(&arena);
}

TEST_MAIN
