/* json_words.h: what the printers of JSON share. An opening function is followed by keys or items, then
 * by the closing one; commas are written where they are needed. Internal to src/wrapper. */
#ifndef HN_WRAPPER_JSON_WORDS_H
#define HN_WRAPPER_JSON_WORDS_H

#include "wrapper/wrapper.h"

typedef struct hn_json_out {
    const hn_sym *sym;
    hn_strbuf *out;
} hn_json_out;

/* An item of a list comes next. */
void hn_json_put_item(hn_json_out *p);
void hn_json_put_key(hn_json_out *p, const char *name);
void hn_json_put_open(hn_json_out *p, char bracket);
void hn_json_put_close(hn_json_out *p, char bracket);
void hn_json_put_text(hn_json_out *p, const char *name, hn_str value);
void hn_json_put_number(hn_json_out *p, const char *name, int64_t value);
void hn_json_put_truth(hn_json_out *p, const char *name, bool value);
/* A number, or a string where it has symbols: docs/program-json.md. 0: null. */
void hn_json_put_expr(hn_json_out *p, hn_expr e);
void hn_json_put_exprs(hn_json_out *p, const char *name, const hn_expr *list, uint32_t count);
/* Nothing for 0. */
void hn_json_put_optional(hn_json_out *p, const char *name, hn_expr e);

#endif
