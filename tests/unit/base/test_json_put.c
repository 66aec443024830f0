/* test_json_put.c: commas, escapes and numbers of written JSON, read back. */
#include "unit/harness.h"

#include "base/json.h"
#include "base/json_put.h"

#include <math.h>

TEST(commas_stand_between_items_and_keys) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_json_open_put(&out, '{');
    hn_json_int_put(&out, "a", INT64_MIN);
    hn_json_text_put(&out, "b", HN_STR("x\"\n"));
    hn_json_key_put(&out, "c"), hn_json_open_put(&out, '[');
    for (int k = 0; k < 3; k++) hn_json_item_put(&out), hn_strbuf_i64(&out, k);
    hn_json_open_put(&out, '['), hn_json_close_put(&out, ']');
    hn_json_close_put(&out, ']');
    hn_json_key_put(&out, "d"), hn_json_open_put(&out, '{'), hn_json_close_put(&out, '}');
    hn_json_bool_put(&out, "e", true);
    hn_json_bool_put(&out, "f", false);
    hn_json_close_put(&out, '}');
    EXPECT_STR(
        hn_strbuf_str(&out).ptr,
        "{\"a\":-9223372036854775808,\"b\":\"x\\\"\\n\",\"c\":[0,1,2,[]],\"d\":{},\"e\":true,"
        "\"f\":false}");
    hn_strbuf_deinit(&out);
}

TEST(floats_are_short_and_read_back) {
    static const double values[] = {0, -0.5, 0.1, 1e300, 5e-324, 123456789.125, 1.0 / 3};
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        hn_strbuf out;
        double back = NAN;
        hn_strbuf_init(&out);
        hn_json_float_put(&out, "x", values[k]);
        const hn_str text = hn_strbuf_str(&out);
        EXPECT(hn_text_to_double((hn_str){text.ptr + 4, text.len - 4}, &back));
        EXPECT(back == values[k]);
        hn_strbuf_deinit(&out);
    }
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_json_float_put(&out, "x", 0.1);
    hn_json_float_put(&out, "y", NAN);
    hn_json_float_put(&out, "z", -INFINITY);
    EXPECT_STR(hn_strbuf_str(&out).ptr, "\"x\":0.1,\"y\":null,\"z\":null");
    hn_strbuf_deinit(&out);
}

TEST_MAIN
