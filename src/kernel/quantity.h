/* quantity.h: a number of elements, bytes or operations: at the hints, and as an expression for
 * other sizes. Internal to src/kernel. */
#ifndef HN_KERNEL_QUANTITY_H
#define HN_KERNEL_QUANTITY_H

#include "base/checked.h"
#include "sym/sym.h"

/* From here on there is no expression, whose numbers might overflow. */
#define HN_QUANTITY_MAX (INT64_C(1) << 60)

typedef struct hn_quantity {
    int64_t hint; /* at most INT64_MAX / 4 */
    hn_expr expr; /* 0: not known */
} hn_quantity;

static inline hn_quantity hn_quantity_fit(hn_quantity q) {
    if (q.hint >= HN_QUANTITY_MAX || q.hint <= -HN_QUANTITY_MAX) q.expr = 0;
    return q;
}

/* Of a size; what has no hint is 1024. */
static inline hn_quantity hn_quantity_of(hn_sym *sym, hn_expr e) {
    return hn_quantity_fit((hn_quantity){hn_sym_hint(sym, e, 1024), e});
}
static inline hn_quantity hn_quantity_int(hn_sym *sym, int64_t value) {
    return hn_quantity_fit((hn_quantity){value, hn_sym_int(sym, value)});
}

/* An expression over 0 or less of a hint may have large factors: it is left out. */
static inline hn_quantity hn_quantity_mul(hn_sym *sym, hn_quantity a, hn_quantity b) {
    hn_quantity out = {INT64_MAX / 4, 0};
    if (!hn_mul_i64(a.hint, b.hint, &out.hint)) return out;
    if (out.hint <= 0) return out;
    out = hn_quantity_fit(out);
    if (out.hint < HN_QUANTITY_MAX && a.expr && b.expr) out.expr = hn_sym_mul(sym, a.expr, b.expr);
    return out;
}
static inline hn_quantity hn_quantity_add(hn_sym *sym, hn_quantity a, hn_quantity b) {
    hn_quantity out = {INT64_MAX / 4, 0};
    if (!hn_add_i64(a.hint, b.hint, &out.hint)) return out;
    if (out.hint < HN_QUANTITY_MAX && a.expr && b.expr) out.expr = hn_sym_add(sym, a.expr, b.expr);
    return out;
}

#endif
