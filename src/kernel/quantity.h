/* quantity.h: a number of elements, bytes or operations: at the hints, and as an expression for
 * other sizes. Internal to src/kernel. */
#ifndef HN_KERNEL_QUANTITY_H
#define HN_KERNEL_QUANTITY_H

#include "base/checked.h"
#include "sym/sym.h"

/* From here on there is no expression, whose numbers might overflow. */
#define HN_QUANTITY_MAX (INT64_C(1) << 60)

typedef struct hn_quantity {
    int64_t hint;   /* at most INT64_MAX / 4 */
    hn_expr expr;   /* 0: not known, or a number */
    bool is_number; /* `hint` for all sizes: most are, and an expression of each would take longer
                       than to count */
} hn_quantity;

static inline hn_quantity hn_quantity_fit(hn_quantity q) {
    if (q.hint >= HN_QUANTITY_MAX || q.hint <= -HN_QUANTITY_MAX) q = (hn_quantity){.hint = q.hint};
    return q;
}

static inline hn_quantity hn_quantity_int(int64_t value) {
    return hn_quantity_fit((hn_quantity){.hint = value, .is_number = true});
}
/* Of a size; what has no hint is 1024. */
static inline hn_quantity hn_quantity_of(hn_sym *sym, hn_expr e) {
    int64_t value;
    if (hn_sym_is_int(sym, e, &value)) return hn_quantity_int(value);
    return hn_quantity_fit((hn_quantity){.hint = hn_sym_hint(sym, e, 1024), .expr = e});
}
/* 0: not known. */
static inline hn_expr hn_quantity_expr(hn_sym *sym, hn_quantity q) {
    return q.is_number ? hn_sym_int(sym, q.hint) : q.expr;
}

/* An expression over 0 or less of a hint may have large factors: it is left out. */
static inline hn_quantity hn_quantity_mul(hn_sym *sym, hn_quantity a, hn_quantity b) {
    hn_quantity out = {.hint = INT64_MAX / 4};
    if (!hn_mul_i64(a.hint, b.hint, &out.hint) || out.hint <= 0) return out;
    if (a.is_number && b.is_number) return hn_quantity_int(out.hint);
    if (out.hint < HN_QUANTITY_MAX)
        out.expr = hn_sym_mul(sym, hn_quantity_expr(sym, a), hn_quantity_expr(sym, b));
    return out;
}
static inline hn_quantity hn_quantity_add(hn_sym *sym, hn_quantity a, hn_quantity b) {
    hn_quantity out = {.hint = INT64_MAX / 4};
    if (!hn_add_i64(a.hint, b.hint, &out.hint)) return out;
    if (a.is_number && b.is_number) return hn_quantity_int(out.hint);
    if (out.hint < HN_QUANTITY_MAX)
        out.expr = hn_sym_add(sym, hn_quantity_expr(sym, a), hn_quantity_expr(sym, b));
    return out;
}

#endif
