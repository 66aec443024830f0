/* test_report.c: pages of reports and the objects in them. */
#include "unit/harness.h"

#include "base/file.h"
#include "report/report.h"

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

TEST_MAIN
