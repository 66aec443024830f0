/* json_put.h: writing JSON. An opening bracket is followed by keys or items, then by the closing
 * one; commas are written where they are needed. Errors latch in the buffer. Reading: json.h. */
#ifndef HN_BASE_JSON_PUT_H
#define HN_BASE_JSON_PUT_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* An item of a list comes next. */
void hn_json_item_put(hn_strbuf *out);
/* `key` needs no escapes. */
void hn_json_key_put(hn_strbuf *out, const char *key);
/* As an item, or behind a key. */
void hn_json_open_put(hn_strbuf *out, char bracket);
void hn_json_close_put(hn_strbuf *out, char bracket);

/* A key with its value. */
void hn_json_text_put(hn_strbuf *out, const char *key, hn_str value);
void hn_json_int_put(hn_strbuf *out, const char *key, int64_t value);
void hn_json_bool_put(hn_strbuf *out, const char *key, bool value);
/* The shortest text that reads back as the same number; null for what is not finite. */
void hn_json_float_put(hn_strbuf *out, const char *key, double value);

#endif
