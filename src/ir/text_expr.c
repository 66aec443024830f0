/* text_expr.c: expressions in the text form. hn_sym_print follows the order of a context's ids,
 * which another context that parses the text does not share; here terms and factors are sorted by
 * their own text. */
#include "ir/text.h"

#include <stdlib.h>

typedef struct piece {
    char *text; /* owned */
    size_t len;
    int64_t coeff;
    uint32_t terms; /* of a sum among factors; 0 otherwise */
    hn_expr_kind kind;
} piece;

static bool is_atom(hn_expr_kind kind) {
    return kind == HN_EXPR_CONST || kind == HN_EXPR_SYMBOL || kind == HN_EXPR_MIN ||
           kind == HN_EXPR_MAX;
}

static void put_operand(const hn_sym *sym, hn_expr e, hn_strbuf *out) {
    bool brackets = !is_atom(hn_sym_kind(sym, e));
    int64_t value;
    if (hn_sym_is_int(sym, e, &value)) brackets = value < 0;
    if (brackets) hn_strbuf_putc(out, '(');
    hn_text_print_expr(sym, e, out);
    if (brackets) hn_strbuf_putc(out, ')');
}

static void free_pieces(piece *pieces, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) free(pieces[i].text);
    free(pieces);
}

static uint32_t sum_terms(const hn_sym *sym, hn_expr e) {
    return hn_sym_kind(sym, e) == HN_EXPR_ADD ? hn_sym_sum(sym, e).count : 0;
}

/* The arguments as texts; `operands` puts them in brackets where a factor needs them. NULL without
 * memory. */
static piece *make_pieces(const hn_sym *sym, const hn_expr *args, const int64_t *coeffs,
                          uint32_t count, bool operands, hn_strbuf *out) {
    piece *pieces = calloc(count ? count : 1, sizeof *pieces);
    for (uint32_t i = 0; pieces && i < count; i++) {
        hn_strbuf text;
        hn_strbuf_init(&text);
        if (operands) put_operand(sym, args[i], &text);
        else hn_text_print_expr(sym, args[i], &text);
        if (text.failed) out->failed = true;
        pieces[i] = (piece){text.ptr, text.len, coeffs ? coeffs[i] : 1, sum_terms(sym, args[i]),
                            hn_sym_kind(sym, args[i])};
    }
    if (!pieces) out->failed = true;
    return pieces;
}

/* Sums lead, the longest first: multiplied in this order none of them is small enough to be
 * multiplied out again. Else by length and bytes, so that s2 stands before s10. */
static int compare_pieces(const void *left, const void *right) {
    const piece *a = left, *b = right;
    if (a->terms != b->terms) return a->terms > b->terms ? -1 : 1;
    if (a->len != b->len) return a->len < b->len ? -1 : 1;
    return a->len ? memcmp(a->text, b->text, a->len) : 0;
}

static void put_factors(const hn_sym *sym, const hn_expr *args, uint32_t count, hn_strbuf *out) {
    piece *pieces = make_pieces(sym, args, NULL, count, true, out);
    if (!pieces) return;
    qsort(pieces, count, sizeof *pieces, compare_pieces);
    for (uint32_t i = 0; i < count; i++) {
        if (i) hn_strbuf_putc(out, '*');
        hn_strbuf_append(out, pieces[i].text, pieces[i].len);
    }
    free_pieces(pieces, count);
}

static uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* " + " or " - " between, "-" in front. The magnitude of the smallest number is no number of its
 * own. */
static void put_sign(int64_t coeff, bool first, hn_strbuf *out) {
    if (first) hn_strbuf_puts(out, coeff < 0 ? "-" : "");
    else hn_strbuf_puts(out, coeff == INT64_MIN ? " + -" : coeff < 0 ? " - " : " + ");
}

/* A term behind its sign. A number or a leading minus binds tighter than // and %, and must not be
 * multiplied into a product of sums, which is one that starts with a bracket. */
static void put_term(const piece *p, bool first, hn_strbuf *out) {
    bool scaled = magnitude(p->coeff) != 1;
    bool plain = is_atom(p->kind) || (p->kind == HN_EXPR_MUL && p->len && p->text[0] != '(');
    bool brackets = (scaled || (first && p->coeff < 0)) && !plain;
    if (scaled) hn_strbuf_printf(out, "%llu*", (unsigned long long)magnitude(p->coeff));
    if (brackets) hn_strbuf_putc(out, '(');
    hn_strbuf_append(out, p->text, p->len);
    if (brackets) hn_strbuf_putc(out, ')');
}

/* A term that is added leads, if there is one; the constant closes. */
static void put_sum(const hn_sym *sym, hn_expr e, hn_strbuf *out) {
    hn_sum sum = hn_sym_sum(sym, e);
    piece *pieces = make_pieces(sym, sum.terms, sum.coeffs, sum.count, false, out);
    if (!pieces) return;
    qsort(pieces, sum.count, sizeof *pieces, compare_pieces);
    uint32_t lead = 0;
    while (lead < sum.count && pieces[lead].coeff < 0) lead++;
    if (lead == sum.count) lead = 0;
    for (uint32_t i = 0; i < sum.count; i++) {
        const piece *p = &pieces[i == 0 ? lead : i <= lead ? i - 1 : i];
        put_sign(p->coeff, i == 0, out);
        put_term(p, i == 0, out);
    }
    free_pieces(pieces, sum.count);
    if (!sum.constant) return;
    put_sign(sum.constant, false, out);
    hn_strbuf_printf(out, "%llu", (unsigned long long)magnitude(sum.constant));
}

static void put_call(const hn_sym *sym, const char *name, const hn_expr *args, uint32_t count,
                     hn_strbuf *out) {
    piece *pieces = make_pieces(sym, args, NULL, count, false, out);
    if (!pieces) return;
    /* no product: sums have no precedence */
    for (uint32_t i = 0; i < count; i++) pieces[i].terms = 0;
    qsort(pieces, count, sizeof *pieces, compare_pieces);
    hn_strbuf_puts(out, name);
    for (uint32_t i = 0; i < count; i++) {
        if (i) hn_strbuf_puts(out, ", ");
        hn_strbuf_append(out, pieces[i].text, pieces[i].len);
    }
    hn_strbuf_putc(out, ')');
    free_pieces(pieces, count);
}

static void put_division(const hn_sym *sym, const char *sign, const hn_expr *args, hn_strbuf *out) {
    put_operand(sym, args[0], out);
    hn_strbuf_puts(out, sign);
    put_operand(sym, args[1], out);
}

void hn_text_print_expr(const hn_sym *sym, hn_expr e, hn_strbuf *out) {
    uint32_t count;
    const hn_expr *args = hn_sym_args(sym, e, &count);
    switch (hn_sym_kind(sym, e)) {
    case HN_EXPR_INVALID: hn_strbuf_putc(out, '?'); return;
    case HN_EXPR_CONST:
    case HN_EXPR_SYMBOL: hn_sym_print(sym, e, out); return;
    case HN_EXPR_ADD: put_sum(sym, e, out); return;
    case HN_EXPR_MUL: put_factors(sym, args, count, out); return;
    case HN_EXPR_FLOORDIV: put_division(sym, "//", args, out); return;
    case HN_EXPR_MOD: put_division(sym, "%", args, out); return;
    case HN_EXPR_MIN: put_call(sym, "Min(", args, count, out); return;
    case HN_EXPR_MAX: put_call(sym, "Max(", args, count, out); return;
    }
}
