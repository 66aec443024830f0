/* json_words.c: see json_words.h. */
#include "wrapper/json_words.h"

#include "base/json_put.h"
#include "ir/text.h"

void hn_json_put_item(hn_json_out *p) { hn_json_item_put(p->out); }

void hn_json_put_key(hn_json_out *p, const char *name) { hn_json_key_put(p->out, name); }

void hn_json_put_open(hn_json_out *p, char bracket) { hn_json_open_put(p->out, bracket); }

void hn_json_put_close(hn_json_out *p, char bracket) { hn_json_close_put(p->out, bracket); }

void hn_json_put_text(hn_json_out *p, const char *name, hn_str value) {
    hn_json_text_put(p->out, name, value);
}

void hn_json_put_number(hn_json_out *p, const char *name, int64_t value) {
    hn_json_int_put(p->out, name, value);
}

void hn_json_put_truth(hn_json_out *p, const char *name, bool value) {
    hn_json_bool_put(p->out, name, value);
}

void hn_json_put_expr(hn_json_out *p, hn_expr e) {
    int64_t value;
    if (!e) {
        hn_strbuf_puts(p->out, "null");
    } else if (hn_sym_is_int(p->sym, e, &value)) {
        hn_strbuf_i64(p->out, value);
    } else {
        hn_strbuf_putc(p->out, '"'); /* names of symbols and operators: nothing to escape */
        hn_text_print_expr(p->sym, e, p->out);
        hn_strbuf_putc(p->out, '"');
    }
}

void hn_json_put_exprs(hn_json_out *p, const char *name, const hn_expr *list, uint32_t count) {
    hn_json_put_key(p, name);
    hn_json_put_open(p, '[');
    for (uint32_t k = 0; k < count; k++) hn_json_put_item(p), hn_json_put_expr(p, list[k]);
    hn_json_put_close(p, ']');
}

void hn_json_put_optional(hn_json_out *p, const char *name, hn_expr e) {
    if (!e) return;
    hn_json_put_key(p, name);
    hn_json_put_expr(p, e);
}
