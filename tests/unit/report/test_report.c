/* test_report.c: pages of reports and the objects in them. */
#include "unit/driver/scheduled.h"

#include "base/file.h"
#include "driver/picked.h"
#include "report/internal.h"

#include <string.h>

static hn_str object_of(hn_strbuf *page, const char *object) {
    hn_str text = hn_str_of(object), found = {NULL, 0};
    hn_strbuf_init(page);
    EXPECT_OK(hn_report_page(&text, 1, page));
    EXPECT(hn_report_claims(hn_strbuf_str(page)));
    EXPECT_OK(hn_report_read(hn_strbuf_str(page), &found));
    return found;
}

static size_t count_of(const char *text, const char *word) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) count++;
    return count;
}

TEST(an_object_comes_out_of_its_page) {
    static const char object[] = "{\"henry_report\":1,\"kind\":\"trace\",\"path\":\"a b\"}";
    hn_strbuf page;
    const hn_str found = object_of(&page, object);
    EXPECT(hn_str_eq(found, HN_STR(object)));
    /* and a page has one frame around it */
    EXPECT_INT(count_of(page.ptr, "<!doctype html>"), 1);
    EXPECT_INT(count_of(page.ptr, "</html>"), 1);
    EXPECT_INT(count_of(page.ptr, "</script>"), 2); /* of the object, and of the scripts */
    EXPECT_INT(count_of(page.ptr, "/* STYLE */") + count_of(page.ptr, "/* SCRIPT */"), 0);
    hn_strbuf_deinit(&page);
}

TEST(nothing_in_an_object_ends_its_element) {
    hn_strbuf page;
    const hn_str found =
        object_of(&page, "{\"henry_report\":1,\"path\":\"</script><!-- <script>\"}");
    EXPECT(hn_str_eq(
        found,
        HN_STR("{\"henry_report\":1,\"path\":\"\\u003c/script>\\u003c!-- \\u003cscript>\"}")));
    hn_strbuf_deinit(&page);
}

TEST(of_two_objects_the_later_one_is_read) {
    const hn_str objects[] = {HN_STR("{\"henry_report\":1,\"path\":\"old\"}"),
                              HN_STR("{\"henry_report\":1,\"path\":\"new\"}")};
    hn_strbuf page;
    hn_str found;
    hn_strbuf_init(&page);
    EXPECT_OK(hn_report_page(objects, 2, &page));
    EXPECT_OK(hn_report_read(hn_strbuf_str(&page), &found));
    EXPECT(hn_str_eq(found, objects[1]));
    hn_strbuf_deinit(&page);
}

TEST(what_is_no_report_is_refused) {
    hn_str found;
    EXPECT(!hn_report_claims(HN_STR("{\"traceEvents\":[]}")));
    EXPECT(!hn_report_claims(HN_STR("<!doctype html>\n<p>another page")));
    EXPECT(!hn_report_claims(HN_STR("")));
    EXPECT_ERROR(hn_report_read(HN_STR("{\"henry_report\":99}"), &found), HN_INCOMPATIBLE,
                 "version 99");
    EXPECT_ERROR(hn_report_read(HN_STR("{\"henry_report\":0}"), &found), HN_INCOMPATIBLE,
                 "version 0");
    EXPECT_ERROR(hn_report_read(HN_STR("{\"henry_report\":1"), &found), HN_CORRUPT, "damaged");
    EXPECT_ERROR(hn_report_read(HN_STR("{\"henry_report\":1} x"), &found), HN_CORRUPT, "damaged");
    EXPECT_ERROR(hn_report_read(HN_STR("<!doctype html>\n<!-- henry report -->\n<html>"), &found),
                 HN_CORRUPT, "no report");
}

TEST(a_trace_is_one_value_that_browsers_read) {
    static const char *const bad[] = {"{\"traceEvents\":[foo]}", "{\"traceEvents\":[NaN]}", "{} {}",
                                      "{\"a\":", "[1,]"};
    hn_report_source source = {.kind = "trace", .path = "t.json"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        hn_strbuf out;
        hn_strbuf_init(&out);
        source.trace = hn_str_of(bad[k]);
        hn_status status = hn_report_data(&source, &out);
        EXPECT(status != NULL);
        hn_status_free(status);
        hn_strbuf_deinit(&out);
    }
    hn_strbuf out;
    hn_str found;
    hn_strbuf_init(&out);
    source.trace = HN_STR("{\"traceEvents\":[{\"ph\":\"X\",\"ts\":1.5,\"ok\":[true,null]}]}");
    EXPECT_OK(hn_report_data(&source, &out));
    EXPECT(strstr(hn_strbuf_str(&out).ptr, "\"trace\":{\"traceEvents\":[{\"ph\":\"X\",\"ts\":1.5"));
    EXPECT_OK(hn_report_read(hn_strbuf_str(&out), &found));
    hn_strbuf_deinit(&out);
}

/* ---- picks ---- */

/* As if records had decided: two forms were timed, a third is known by its name, and a fourth does
 * not build. */
static void pretend_picked(scheduled *x, uint32_t step) {
    static hn_form_timing forms[] = {
        {.form = {HN_STR("rows"), HN_STR("ahead=1")},
         .median_ns = 300,
         .low_ns = 290,
         .high_ns = 310,
         .samples = 7,
         .predicted_ns = 50},
        {.form = {HN_STR("rows"), HN_STR("ahead=2")},
         .median_ns = 100,
         .low_ns = 99,
         .high_ns = 102,
         .samples = 9},
        {.form = {HN_STR("rows"), HN_STR("ahead=3")}},
        {.form = {HN_STR("rows"), HN_STR("ahead=4")}, .dropped = HN_STR("does not build")}};
    hn_driver_level *level = &x->d.levels[0];
    hn_kernel_code *code = &level->step_kernels[step];
    hn_tuning_record r = {.kernel = HN_STR("soft"),
                          .digest = hn_digest_of("k", 1),
                          .forms = forms,
                          .form_count = 4,
                          .pick = 1,
                          .how = HN_TUNING_TIMED,
                          .tool = HN_STR("test")};
    EXPECT_OK(hn_driver_picks_device(&x->d, level, &r.device));
    EXPECT_OK(hn_tuning_list_add(&x->d.picks->decided, &r));
    r.device = HN_STR("name=another");
    forms[1].samples = 1;
    EXPECT_OK(hn_tuning_list_add(&x->d.picks->decided, &r));
    forms[1].samples = 9;
    code->is_picked = true;
    code->tuned = r.digest;
    code->form = "rows ahead=2";
}

TEST(picks_have_what_was_measured_on_this_device) {
    const hn_compile_options options = {.target = "x86-64-v3", .threads = 2};
    scheduled x;
    for (int is_picked = 0; is_picked < 2; is_picked++) {
        hn_strbuf out;
        hn_strbuf_init(&out);
        scheduled_begin(&x,
                        "input user %x : f32[64, 100] \"x\"\n%y = aten._softmax.default(%x, -1, "
                        "false) : f32[64, 100] at \"soft\" \"m.py:1\"\noutput user %y \"y\"",
                        &options);
        if (is_picked) pretend_picked(&x, 0);
        hn_json_open_put(&out, '{');
        EXPECT_OK(hn_report_put_picks(&x.d, &out));
        hn_json_close_put(&out, '}');
        const char *text = hn_strbuf_str(&out).ptr;
        if (!is_picked) EXPECT_STR(text, "{\"picks\":[]}");
        if (is_picked) {
            EXPECT(strstr(text, "\"node\":\"soft\",\"target\":\"x86-64-v3\",\"digest\":\""));
            EXPECT(strstr(text, "\"form\":\"rows ahead=2\"}],\"records\":[{\"sizes\":[],\"how\":"
                                "\"timed\",\"tool\":\"test\",\"is_certain\":true,\"untimed\":1,"));
            EXPECT(strstr(text, "{\"form\":\"rows ahead=1\",\"is_pick\":false,\"samples\":7,"
                                "\"median_ns\":300,\"low_ns\":290,\"high_ns\":310,"
                                "\"predicted_ns\":50}"));
            EXPECT(strstr(text, "{\"form\":\"rows ahead=2\",\"is_pick\":true,\"samples\":9,"));
            EXPECT(strstr(text, "\"dropped\":\"does not build\""));
            EXPECT_INT(count_of(text, "\"tool\""), 1); /* not that of another device */
        }
        scheduled_end(&x);
        hn_strbuf_deinit(&out);
    }
}

TEST_MAIN
