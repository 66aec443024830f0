/* index.c: see the header. */
#include "codegen/index.h"

#include <string.h>

static void put_int(const hn_index_words *words, int64_t value, hn_strbuf *out) {
    if (value == INT64_MIN) {
        hn_strbuf_printf(out, "(-9223372036854775807%s - 1)", words->suffix);
        return;
    }
    hn_strbuf_i64(out, value);
    if (value > INT32_MAX || value < INT32_MIN) hn_strbuf_puts(out, words->suffix);
}

static hn_status put_call(const hn_index_printer *p, const char *name, hn_expr a, hn_expr b,
                          hn_strbuf *out) {
    hn_strbuf_printf(out, "%s(", name);
    HN_TRY(hn_index_put(p, a, out));
    hn_strbuf_puts(out, ", ");
    HN_TRY(hn_index_put(p, b, out));
    hn_strbuf_putc(out, ')');
    return NULL;
}

/* ---- operands in any order ---- */

/* coefficient * term, printed. */
typedef struct part {
    size_t at, len;
} part;

enum { SORTED_MOST = 64 }; /* more keep the order that they have: sorting would take too long */

/* Long ones, of outer dimensions, first: "1024 * i0 + 32 * i1 + j". */
static bool comes_before(const hn_strbuf *text, part a, part b) {
    if (a.len != b.len) return a.len > b.len;
    return memcmp(text->ptr + a.at, text->ptr + b.at, a.len) < 0;
}

static void sort_parts(const hn_strbuf *text, part *parts, uint32_t count) {
    for (uint32_t k = 1; k < count; k++)
        for (uint32_t n = k; n && comes_before(text, parts[n], parts[n - 1]); n--) {
            part moved = parts[n];
            parts[n] = parts[n - 1], parts[n - 1] = moved;
        }
}

static hn_status put_part(const hn_index_printer *p, int64_t coefficient, hn_expr e,
                          hn_strbuf *out) {
    if (coefficient != 1) {
        put_int(p->words, coefficient, out);
        hn_strbuf_puts(out, " * ");
    }
    return hn_index_put(p, e, out);
}

/* Operands, perhaps with coefficients, and what stands between two of them. */
typedef struct operands {
    const int64_t *coeffs; /* NULL: none */
    const hn_expr *list;
    uint32_t count;
    const char *between;
} operands;

static hn_status put_operand(const hn_index_printer *p, const operands *o, uint32_t k,
                             hn_strbuf *out) {
    return put_part(p, o->coeffs ? o->coeffs[k] : 1, o->list[k], out);
}

static hn_status put_unsorted(const hn_index_printer *p, const operands *o, hn_strbuf *out) {
    for (uint32_t k = 0; k < o->count; k++) {
        if (k) hn_strbuf_puts(out, o->between);
        HN_TRY(put_operand(p, o, k, out));
    }
    return NULL;
}

static hn_status put_parts(const hn_index_printer *p, const operands *o, hn_strbuf *text,
                           part *parts) {
    for (uint32_t k = 0; k < o->count; k++) {
        parts[k].at = text->len;
        HN_TRY(put_operand(p, o, k, text));
        parts[k].len = text->len - parts[k].at;
    }
    return hn_strbuf_status(text);
}

static hn_status put_operands(const hn_index_printer *p, const operands *o, hn_strbuf *out) {
    part parts[SORTED_MOST];
    hn_strbuf text;
    if (o->count > SORTED_MOST) return put_unsorted(p, o, out);
    hn_strbuf_init(&text);
    hn_status status = put_parts(p, o, &text, parts);
    if (!status) sort_parts(&text, parts, o->count);
    for (uint32_t k = 0; k < o->count && !status; k++) {
        if (k) hn_strbuf_puts(out, o->between);
        hn_strbuf_append(out, text.ptr + parts[k].at, parts[k].len);
    }
    hn_strbuf_deinit(&text);
    return status;
}

/* ---- expressions ---- */

static hn_status put_choice(const hn_index_printer *p, hn_expr e, const char *name,
                            hn_strbuf *out) {
    operands args = {.between = ", "};
    args.list = hn_sym_args(p->sym, e, &args.count);
    hn_strbuf_printf(out, "%s(", name);
    HN_TRY(put_operands(p, &args, out));
    hn_strbuf_putc(out, ')');
    return NULL;
}

/* C's / and % truncate: they are floor only for operands that cannot be negative. */
static hn_status put_division(const hn_index_printer *p, hn_expr e, const char *op,
                              const char *floor_name, hn_strbuf *out) {
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
    HN_TRY(put_operands(p, &(operands){sum.coeffs, sum.terms, sum.count, " + "}, out));
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
    operands args = {.between = " * "};
    args.list = hn_sym_args(p->sym, e, &args.count);
    hn_strbuf_putc(out, '(');
    HN_TRY(put_operands(p, &args, out));
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
    case HN_EXPR_MIN: return put_choice(p, e, p->words->min, out);
    case HN_EXPR_MAX: return put_choice(p, e, p->words->max, out);
    default: return HN_ERROR(HN_INTERNAL, "an invalid index expression reached a printer");
    }
}
