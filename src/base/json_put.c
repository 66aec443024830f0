/* json_put.c: see json_put.h. */
#include "base/json_put.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void hn_json_item_put(hn_strbuf *out) {
    const char last = out->len ? out->ptr[out->len - 1] : '{';
    if (last != '[' && last != '{' && last != ':') hn_strbuf_putc(out, ',');
}

void hn_json_key_put(hn_strbuf *out, const char *key) {
    hn_json_item_put(out);
    hn_strbuf_putc(out, '"');
    hn_strbuf_puts(out, key);
    hn_strbuf_puts(out, "\":");
}

void hn_json_open_put(hn_strbuf *out, char bracket) {
    hn_json_item_put(out);
    hn_strbuf_putc(out, bracket);
}

void hn_json_close_put(hn_strbuf *out, char bracket) { hn_strbuf_putc(out, bracket); }

void hn_json_text_put(hn_strbuf *out, const char *key, hn_str value) {
    hn_json_key_put(out, key);
    hn_strbuf_json(out, value);
}

void hn_json_int_put(hn_strbuf *out, const char *key, int64_t value) {
    hn_json_key_put(out, key);
    hn_strbuf_i64(out, value);
}

void hn_json_bool_put(hn_strbuf *out, const char *key, bool value) {
    hn_json_key_put(out, key);
    hn_strbuf_puts(out, value ? "true" : "false");
}

void hn_json_float_put(hn_strbuf *out, const char *key, double value) {
    char text[32];
    hn_json_key_put(out, key);
    if (!isfinite(value)) {
        hn_strbuf_puts(out, "null");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    hn_strbuf_puts(out, text);
}
