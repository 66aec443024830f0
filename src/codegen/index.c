/* index.c: see the header. */
#include "codegen/index.h"

static void put_int(const hn_index_words *words, int64_t value, hn_strbuf *out) {
    if (value == INT64_MIN) {
        hn_strbuf_printf(out, "(-9223372036854775807%s - 1)", words->suffix);
        return;
    }
    hn_strbuf_i64(out, value);
    if (value > INT32_MAX || value < INT32_MIN) hn_strbuf_puts(out, words->suffix);
}

static hn_status put_call(const hn_index_printer *p, const char *name, hn_expr a, hn_expr b, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s(", name);
    HN_TRY(hn_index_put(p, a, out));
    hn_strbuf_puts(out, ", ");
    HN_TRY(hn_index_put(p, b, out));
    hn_strbuf_putc(out, ')');
    return NULL;
}

static hn_status put_pair(const hn_index_printer *p, hn_expr e, const char *name, hn_strbuf *out) {
    uint32_t count;
    const hn_expr *args = hn_sym_args(p->sym, e, &count);
    return put_call(p, name, args[0], args[1], out);
}

/* C's / and % truncate: they are floor only for operands that cannot be negative. */
static hn_status put_division(const hn_index_printer *p, hn_expr e, const char *op, const char *floor_name, hn_strbuf *out) {
    uint32_t count;
    const hn_expr *args = hn_sym_args(p->sym, e, &count);
    hn_expr a = args[0], b = args[1];
    int64_t lo_a, lo_b, hi;
    hn_sym_range(p->sym, a, &lo_a, &hi);
    hn_sym_range(p->sym, b, &lo_b, &hi);
    if (lo_a < 0 || lo_b < 0) return put_call(p, floor_name, a, b, out);
    hn_strbuf_putc(out, '(');
    HN_TRY(hn_index_put(p, a, out));
    hn_strbuf_printf(out, " %s ", op);
    HN_TRY(hn_index_put(p, b, out));
    hn_strbuf_putc(out, ')');
    return NULL;
}

static hn_status put_sum(const hn_index_printer *p, hn_expr e, hn_strbuf *out) {
    hn_sum sum = hn_sym_sum(p->sym, e);
    hn_strbuf_putc(out, '(');
    for (uint32_t k = 0; k < sum.count; k++) {
        if (k) hn_strbuf_puts(out, " + ");
        if (sum.coeffs[k] != 1) {
            put_int(p->words, sum.coeffs[k], out);
            hn_strbuf_puts(out, " * ");
        }
        HN_TRY(hn_index_put(p, sum.terms[k], out));
    }
    if (sum.constant) {
        hn_strbuf_puts(out, " + ");
        put_int(p->words, sum.constant, out);
    }
    hn_strbuf_putc(out, ')');
    return NULL;
}

static hn_status put_product(const hn_index_printer *p, hn_expr e, hn_strbuf *out) {
    hn_sum sum = hn_sym_sum(p->sym, e);
    if (sum.count == 1 && sum.terms[0] != e) return put_sum(p, e, out);
    uint32_t count;
    const hn_expr *args = hn_sym_args(p->sym, e, &count);
    hn_strbuf_putc(out, '(');
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(out, " * ");
        HN_TRY(hn_index_put(p, args[k], out));
    }
    hn_strbuf_putc(out, ')');
    return NULL;
}

hn_status hn_index_put(const hn_index_printer *p, hn_expr e, hn_strbuf *out) {
    int64_t value;
    switch (hn_sym_kind(p->sym, e)) {
    case HN_EXPR_CONST:
        (void)hn_sym_is_int(p->sym, e, &value);
        put_int(p->words, value, out);
        return NULL;
    case HN_EXPR_SYMBOL: p->put_symbol(p->user, e, out); return NULL;
    case HN_EXPR_ADD: return put_sum(p, e, out);
    case HN_EXPR_MUL: return put_product(p, e, out);
    case HN_EXPR_FLOORDIV: return put_division(p, e, "/", p->words->floordiv, out);
    case HN_EXPR_MOD: return put_division(p, e, "%", p->words->mod, out);
    case HN_EXPR_MIN: return put_pair(p, e, p->words->min, out);
    case HN_EXPR_MAX: return put_pair(p, e, p->words->max, out);
    default: return HN_ERROR(HN_INTERNAL, "an invalid index expression reached a printer");
    }
}
