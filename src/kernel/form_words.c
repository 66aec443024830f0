/* form_words.c: whether the indices of a form fit into 32 bits, and everything on the way to them. */
#include "kernel/check.h"

/* What terms of a sum come to in any order. As doubles: products of bounds may leave 64 bits. */
typedef struct bounds {
    double lo, hi;
} bounds;

static bool is_word(bounds b) { return b.lo >= (double)INT32_MIN && b.hi <= (double)INT32_MAX; }

static bounds range_of(const hn_sym *sym, hn_expr e) {
    int64_t lo, hi;
    hn_sym_range(sym, e, &lo, &hi);
    return (bounds){(double)lo, (double)hi};
}

static bounds times(bounds b, double k) {
    return k < 0 ? (bounds){b.hi * k, b.lo * k} : (bounds){b.lo * k, b.hi * k};
}

static bool fits_sum(const hn_sym *sym, hn_expr e) {
    const hn_sum sum = hn_sym_sum(sym, e);
    const double constant = (double)sum.constant;
    bounds all = {constant < 0 ? constant : 0, constant > 0 ? constant : 0};
    for (uint32_t k = 0; k < sum.count; k++) {
        const bounds term = times(range_of(sym, sum.terms[k]), (double)sum.coeffs[k]);
        if (!hn_form_is_word(sym, sum.terms[k]) || !is_word(term)) return false;
        all.lo += term.lo < 0 ? term.lo : 0;
        all.hi += term.hi > 0 ? term.hi : 0;
    }
    return is_word(all);
}

static bool fits_product(const hn_sym *sym, const hn_expr *args, uint32_t count) {
    double most = 1;
    for (uint32_t k = 0; k < count; k++) {
        const bounds b = range_of(sym, args[k]);
        double own = b.hi > -b.lo ? b.hi : -b.lo;
        if (!hn_form_is_word(sym, args[k])) return false;
        most *= own < 1 ? 1 : own;
    }
    return most <= (double)INT32_MAX;
}

bool hn_form_is_word(const hn_sym *sym, hn_expr e) {
    uint32_t count;
    if (!e || !is_word(range_of(sym, e))) return !e;
    const hn_expr_kind kind = hn_sym_kind(sym, e);
    if (kind == HN_EXPR_CONST || kind == HN_EXPR_SYMBOL) return true;
    const hn_sum sum = hn_sym_sum(sym, e);
    if (sum.count != 1 || sum.terms[0] != e) return fits_sum(sym, e);
    const hn_expr *args = hn_sym_args(sym, e, &count);
    if (kind == HN_EXPR_MUL) return fits_product(sym, args, count);
    for (uint32_t k = 0; k < count; k++)
        if (!hn_form_is_word(sym, args[k])) return false;
    return true;
}

static bool fits_stmt(const hn_sym *sym, const hn_form_stmt *s) {
    bool fits = hn_form_is_word(sym, s->begin) && hn_form_is_word(sym, s->end) &&
                hn_form_is_word(sym, s->index) && hn_form_is_word(sym, s->from_index);
    if (fits && s->kind == HN_FORM_VALUE) fits = hn_form_is_word(sym, s->op.index);
    if (!fits || s->kind != HN_FORM_FOR) return fits;
    /* behind the last iteration, too */
    return range_of(sym, s->end).hi + (double)s->step <= (double)INT32_MAX;
}

bool hn_form_fits_words(const hn_form *f) {
    if (f->lanes || !hn_form_is_word(f->sym, f->grid)) return false;
    for (hn_fmem m = 1; m < f->memories.count; m++) /* they are found by bytes */
        if (f->memories.items[m].space == HN_SPACE_SCRATCH) return false;
    for (hn_fid s = 1; s < f->stmts.count; s++)
        if (!fits_stmt(f->sym, &f->stmts.items[s])) return false;
    return true;
}
