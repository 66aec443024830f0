/* page.c: the page: texts of share/report around the objects; and the object of a page again. */
#include "report/internal.h"

#include "base/arena.h"
#include "base/compiler.h"
#include "base/json.h"

#include <string.h>

/* A text of share/report, in the library. */
#define TEXT(name, file)                                                                           \
    __asm__(".pushsection .rodata\n.hidden " #name "\n.globl " #name "\n" #name ":\n"              \
            ".incbin \"" HN_REPORT_TEXTS file "\"\n.hidden " #name "_end\n.globl " #name           \
            "_end\n" #name "_end:\n.byte 0\n.popsection\n");                                       \
    extern const char name[], name##_end[]
TEXT(hn_report_page_html, "page.html");
TEXT(hn_report_style_css, "style.css");
TEXT(hn_report_base_js, "base.js");
TEXT(hn_report_data_js, "data.js");
TEXT(hn_report_table_js, "table.js");
TEXT(hn_report_step_js, "step.js");
TEXT(hn_report_summary_js, "summary.js");
TEXT(hn_report_timeline_js, "timeline.js");
TEXT(hn_report_graph_js, "graph.js");
TEXT(hn_report_kernels_js, "kernels.js");
TEXT(hn_report_fusions_js, "fusions.js");
TEXT(hn_report_memory_js, "memory.js");
TEXT(hn_report_variants_js, "variants.js");
TEXT(hn_report_environment_js, "environment.js");
TEXT(hn_report_compare_js, "compare.js");
TEXT(hn_report_main_js, "main.js");

#define ROW(name)                                                                                  \
    { name, name##_end }
/* In the order in which they run: each uses those before it. */
static const struct {
    const char *begin, *end;
} scripts[] = {
    ROW(hn_report_base_js),    ROW(hn_report_data_js),     ROW(hn_report_table_js),
    ROW(hn_report_step_js),    ROW(hn_report_summary_js),  ROW(hn_report_timeline_js),
    ROW(hn_report_graph_js),   ROW(hn_report_kernels_js),  ROW(hn_report_fusions_js),
    ROW(hn_report_memory_js),  ROW(hn_report_variants_js), ROW(hn_report_environment_js),
    ROW(hn_report_compare_js), ROW(hn_report_main_js),
};

/* ---- writing ---- */

/* What stands in the frame in place of the rest. */
static const char style_mark[] = "/* STYLE */", script_mark[] = "/* SCRIPT */",
                  object_mark[] = "<!-- REPORTS -->";

/* Before and behind an object. */
static const char object_begin[] = "<script type=\"application/json\" class=\"henry-report\">",
                  object_end[] = "</script>";

/* Nothing in an object may look like an element of the page: a '<' stands in strings only. */
static void put_object(hn_str object, hn_strbuf *out) {
    hn_strbuf_puts(out, object_begin);
    for (const char *at = object.ptr, *end = at + object.len; at < end;) {
        const char *next = memchr(at, '<', (size_t)(end - at));
        hn_strbuf_append(out, at, (size_t)((next ? next : end) - at));
        if (next) hn_strbuf_puts(out, "\\u003c");
        at = next ? next + 1 : end;
    }
    hn_strbuf_puts(out, object_end);
    hn_strbuf_putc(out, '\n');
}

/* The frame up to a mark; `*at` moves behind it. */
static void put_frame(const char **at, const char *mark, hn_strbuf *out) {
    const char *found = strstr(*at, mark);
    hn_strbuf_append(out, *at, (size_t)(found - *at));
    *at = found + strlen(mark);
}

hn_status hn_report_page(const hn_str *objects, uint32_t count, hn_strbuf *out) {
    const char *at = hn_report_page_html;
    put_frame(&at, style_mark, out);
    hn_strbuf_append(out, hn_report_style_css,
                     (size_t)(hn_report_style_css_end - hn_report_style_css));
    put_frame(&at, object_mark, out);
    for (uint32_t k = 0; k < count; k++) put_object(objects[k], out);
    put_frame(&at, script_mark, out);
    for (size_t k = 0; k < HN_COUNT_OF(scripts); k++)
        hn_strbuf_append(out, scripts[k].begin, (size_t)(scripts[k].end - scripts[k].begin));
    hn_strbuf_puts(out, at);
    return hn_strbuf_status(out);
}

/* ---- reading ---- */

static const char page_begin[] = "<!doctype html>\n<!-- henry report -->\n",
                  bare_begin[] = "{\"henry_report\":";

bool hn_report_claims(hn_str bytes) {
    return hn_str_starts_with(bytes, hn_str_of(page_begin)) ||
           hn_str_starts_with(bytes, hn_str_of(bare_begin));
}

/* The last object of a page. */
static bool find_object(hn_str page, hn_str *out) {
    const char *end = page.ptr + page.len, *begin = NULL;
    const size_t len = sizeof object_begin - 1;
    for (const char *at = page.ptr; (at = memmem(at, (size_t)(end - at), object_begin, len));)
        begin = at += len;
    const char *behind =
        begin ? memmem(begin, (size_t)(end - begin), object_end, sizeof object_end - 1) : NULL;
    if (!behind) return false;
    *out = (hn_str){begin, (size_t)(behind - begin)};
    return true;
}

/* One whole value, of a version that the scripts know. */
static hn_status check_object(hn_str object) {
    hn_arena arena;
    hn_json json;
    int64_t version = 0;
    hn_arena_init(&arena);
    hn_json_init(&json, &arena, object);
    hn_status status = hn_json_object(&json);
    for (hn_str key; !status && hn_json_key(&json, &key);)
        status = hn_str_eq(key, HN_STR("henry_report")) ? hn_json_int(&json, &version)
                                                        : hn_report_check_value(&json);
    if (!status) status = hn_json_status(&json);
    if (!status) status = hn_json_finish(&json);
    hn_arena_deinit(&arena);
    if (status) {
        hn_status damaged =
            HN_ERROR(HN_CORRUPT, "the report is damaged: %s", hn_status_message(status));
        hn_status_free(status);
        return damaged;
    }
    if (version >= 1 && version <= HN_REPORT_VERSION) return NULL;
    return HN_ERROR(HN_INCOMPATIBLE,
                    "the report has version %lld, and this henry reads version %d and earlier ones",
                    (long long)version, HN_REPORT_VERSION);
}

hn_status hn_report_read(hn_str bytes, hn_str *out) {
    *out = bytes;
    if (hn_str_starts_with(bytes, hn_str_of(page_begin)) && !find_object(bytes, out))
        return HN_ERROR(HN_CORRUPT, "the page has no report in it");
    while (out->len && out->ptr[out->len - 1] == '\n') out->len--;
    return check_object(*out);
}
