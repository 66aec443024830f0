/* values.c: see values.h. */
#include "wrapper/values.h"

#include <string.h>

static uint64_t float_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static hn_status scalar_value(hn_str name, const hn_arg *arg, hn_wvalue *out) {
    *out = (hn_wvalue){.name = name};
    switch (arg->kind) {
    case HN_ARG_INT: out->kind = HNB_VALUE_INT, out->expr = arg->as.expr; return NULL;
    case HN_ARG_FLOAT: out->kind = HNB_VALUE_FLOAT, out->bits = float_bits(arg->as.f); return NULL;
    case HN_ARG_BOOL: out->kind = HNB_VALUE_BOOL, out->bits = arg->as.b; return NULL;
    case HN_ARG_STRING: out->kind = HNB_VALUE_STRING, out->text = arg->as.s; return NULL;
    case HN_ARG_NONE: out->kind = HNB_VALUE_NONE; return NULL;
    default: return HN_ERROR(HN_UNSUPPORTED, "a scalar input or output of kind %d", (int)arg->kind);
    }
}

hn_status hn_winput_value(const hn_winput *in, hn_wvalue *out) {
    if (in->is_scalar) return scalar_value(in->name, &in->scalar, out);
    *out = (hn_wvalue){.name = in->name,
                       .kind = HNB_VALUE_TENSOR,
                       .dtype = in->dtype,
                       .rank = in->rank,
                       .sizes = in->sizes,
                       .strides = in->strides};
    return NULL;
}

hn_status hn_woutput_value(const hn_woutput *o, hn_wvalue *out) {
    if (o->kind == HN_WOUTPUT_SCALAR) return scalar_value(o->name, &o->scalar, out);
    *out = (hn_wvalue){.name = o->name,
                       .kind = HNB_VALUE_TENSOR,
                       .dtype = o->dtype,
                       .rank = o->rank,
                       .sizes = o->sizes,
                       .strides = o->strides};
    return NULL;
}
