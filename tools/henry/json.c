/* json.c: writing one JSON object, indented, commas kept right by the writer. */
#include "tool.h"

#include "base/file.h"

#include <math.h>

void tool_json_init(tool_json *json) {
    *json = (tool_json){.depth = 0};
    hn_strbuf_init(&json->text);
    tool_json_open(json, NULL, '{');
}

void tool_json_deinit(tool_json *json) { hn_strbuf_deinit(&json->text); }

static void indent(tool_json *json) {
    hn_strbuf_putc(&json->text, '\n');
    for (uint32_t k = 0; k < json->depth; k++) hn_strbuf_puts(&json->text, "  ");
}

static void begin(tool_json *json, const char *key) {
    if (json->depth) {
        if (json->has_items[json->depth - 1]) hn_strbuf_putc(&json->text, ',');
        json->has_items[json->depth - 1] = true;
        indent(json);
    }
    if (!key) return;
    hn_strbuf_json(&json->text, hn_str_of(key));
    hn_strbuf_puts(&json->text, ": ");
}

void tool_json_open(tool_json *json, const char *key, char bracket) {
    begin(json, key);
    hn_strbuf_putc(&json->text, bracket);
    if (json->depth == sizeof json->closing) {
        json->text.failed = true; /* deeper than anything the tool writes */
        return;
    }
    json->has_items[json->depth] = false;
    json->closing[json->depth++] = bracket == '{' ? '}' : ']';
}

void tool_json_close(tool_json *json) {
    if (!json->depth) return;
    json->depth--;
    if (json->has_items[json->depth]) indent(json);
    hn_strbuf_putc(&json->text, json->closing[json->depth]);
}

void tool_json_text(tool_json *json, const char *key, hn_str value) {
    begin(json, key);
    hn_strbuf_json(&json->text, value);
}

void tool_json_str(tool_json *json, const char *key, const char *value) {
    if (value) {
        tool_json_text(json, key, hn_str_of(value));
        return;
    }
    begin(json, key);
    hn_strbuf_puts(&json->text, "null");
}

void tool_json_ints(tool_json *json, const char *key, const int64_t *values, uint32_t count) {
    begin(json, key);
    hn_strbuf_putc(&json->text, '[');
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(&json->text, ", ");
        hn_strbuf_i64(&json->text, values[k]);
    }
    hn_strbuf_putc(&json->text, ']');
}

void tool_json_int(tool_json *json, const char *key, int64_t value) {
    begin(json, key);
    hn_strbuf_i64(&json->text, value);
}

void tool_json_num(tool_json *json, const char *key, double value) {
    begin(json, key);
    if (isfinite(value)) hn_strbuf_printf(&json->text, "%.6g", value);
    else hn_strbuf_puts(&json->text, isnan(value) ? "\"nan\"" : value < 0 ? "\"-inf\"" : "\"inf\"");
}

void tool_json_bool(tool_json *json, const char *key, bool value) {
    begin(json, key);
    hn_strbuf_puts(&json->text, value ? "true" : "false");
}

void tool_json_ms(tool_json *json, const char *key, int64_t ns) {
    begin(json, key);
    hn_strbuf_printf(&json->text, "%.3f", (double)ns / 1e6);
}

hn_status tool_json_end(tool_json *json) {
    while (json->depth) tool_json_close(json);
    hn_strbuf_putc(&json->text, '\n');
    return hn_strbuf_status(&json->text);
}

hn_status tool_json_finish(tool_json *json, bool print, const char *path) {
    HN_TRY(tool_json_end(json));
    if (path) HN_TRY(hn_file_write_atomic(path, json->text.ptr, json->text.len, false));
    return print ? tool_print(&json->text) : NULL;
}
