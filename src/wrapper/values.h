/* values.h: what an input or output of a program is, for printers. */
#ifndef HN_WRAPPER_VALUES_H
#define HN_WRAPPER_VALUES_H

#include "bundle/format.h"
#include "wrapper/wrapper.h"

typedef struct hn_wvalue {
    hn_str name;
    hnb_value_kind kind;
    hn_dtype dtype; /* of a tensor, as the next three */
    uint32_t rank;
    const hn_expr *sizes, *strides;
    hn_expr expr;  /* of INT; 0 for others */
    uint64_t bits; /* of FLOAT: a double; of BOOL: 0 or 1 */
    hn_str text;   /* of STRING */
} hn_wvalue;

/* Errors: unsupported for a scalar of another kind. */
hn_status hn_winput_value(const hn_winput *in, hn_wvalue *out) HN_MUST_USE;
hn_status hn_woutput_value(const hn_woutput *o, hn_wvalue *out) HN_MUST_USE;

#endif
