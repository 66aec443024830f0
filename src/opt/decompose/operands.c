/* operands.c: see operands.h. */
#include "opt/decompose/operands.h"

/* What promotion and casting need to know of one argument. */
typedef struct operand {
    hn_value tensor; /* 0: a number or None */
    bool number;
    hn_scalar scalar; /* of a number; its is_float also stands for a symbolic float */
    bool is_bool;
    bool known;   /* a constant */
    double value; /* when known */
} operand;

static operand read_symbol(hn_dec *d, const hn_value_info *info, hn_value v) {
    switch (info->kind) {
    case HN_VALUE_SYM_INT: return (operand){.number = true, .scalar = hn_scalar_i(info->expr)};
    case HN_VALUE_SYM_FLOAT: return (operand){.number = true, .scalar = hn_scalar_f(0)};
    case HN_VALUE_SYM_BOOL:
        return (operand){.number = true, .scalar = hn_scalar_i(hn_dec_i(d, 0)), .is_bool = true};
    case HN_VALUE_TENSOR:
    default: return (operand){.tensor = v};
    }
}

static operand read_operand(hn_dec *d, uint32_t arg) {
    if (arg >= d->node->arg_count) return (operand){0};
    const hn_arg *a = &d->node->args[arg];
    if (a->kind == HN_ARG_NONE) return (operand){0};
    if (a->kind == HN_ARG_VALUE) return read_symbol(d, hn_dec_info(d, a->as.value), a->as.value);
    if (a->kind == HN_ARG_FLOAT)
        return (operand){
            .number = true, .scalar = hn_scalar_f(a->as.f), .known = true, .value = a->as.f};
    operand o = {
        .number = true, .scalar = hn_dec_scalar(d, arg), .is_bool = a->kind == HN_ARG_BOOL};
    int64_t value = 0;
    o.known = hn_sym_is_int(d->g->sym, o.scalar.i, &value);
    o.value = (double)value;
    return o;
}

bool hn_dec_is_number(const hn_dec *d, uint32_t arg) {
    if (!hn_dec_has(d, arg)) return false;
    const hn_arg *a = &d->node->args[arg];
    return a->kind != HN_ARG_VALUE || hn_dec_info(d, a->as.value)->kind != HN_VALUE_TENSOR;
}

bool hn_dec_known_number(const hn_dec *d, uint32_t arg, double *out) {
    if (!hn_dec_has(d, arg)) return false;
    const hn_arg *a = &d->node->args[arg];
    int64_t value = 0;
    if (a->kind == HN_ARG_FLOAT) *out = a->as.f;
    else if (a->kind == HN_ARG_BOOL) *out = a->as.b;
    else if (a->kind == HN_ARG_INT && hn_sym_is_int(d->g->sym, a->as.expr, &value))
        *out = (double)value;
    else return false;
    return true;
}

static bool holds_exactly(hn_dtype dtype, double value) {
    double rounded = dtype == HN_DTYPE_F16 ? (double)hn_f16_to_f32(hn_f64_to_f16(value))
                                           : (double)hn_bf16_to_f32(hn_f64_to_bf16(value));
    return rounded == value || value != value;
}

static hn_dtype promoted(hn_dec *d, const operand *o, uint32_t count) {
    hn_value tensors[HN_MAX_OPERANDS];
    hn_scalar scalars[HN_MAX_OPERANDS];
    bool is_bool[HN_MAX_OPERANDS];
    uint32_t scalar_count = 0;
    for (uint32_t k = 0; k < count; k++) {
        tensors[k] = o[k].tensor;
        if (!o[k].number) continue;
        is_bool[scalar_count] = o[k].is_bool;
        scalars[scalar_count++] = o[k].scalar;
    }
    return hn_dec_promote(d, tensors, count, scalars, scalar_count, is_bool);
}

/* Whether some operand of a 16-bit computation has digits that the 16-bit dtype would drop. */
static bool has_wide_operand(hn_dec *d, const operand *o, uint32_t count, hn_dtype common) {
    for (uint32_t k = 0; k < count; k++) {
        if (o[k].tensor && hn_dec_info(d, o[k].tensor)->dtype != common) return true;
        if (o[k].number && (!o[k].known || !holds_exactly(common, o[k].value))) return true;
    }
    return false;
}

hn_operands hn_dec_operands(hn_dec *d, const uint32_t *args, uint32_t count, unsigned flags) {
    operand o[HN_MAX_OPERANDS] = {{0}};
    for (uint32_t k = 0; k < count; k++) o[k] = read_operand(d, args[k]);
    hn_operands out = {.common = promoted(d, o, count)};
    if ((flags & HN_OPERANDS_TO_FLOAT) && !hn_dtype_is_float(out.common)) out.common = HN_DTYPE_F32;
    out.compute = out.common;
    hn_dtype wide = hn_dec_opmath(out.common);
    if (flags & HN_OPERANDS_COMPOSITE) out.compute = wide;
    if ((flags & HN_OPERANDS_WIDE_NUMBERS) && wide != out.common &&
        has_wide_operand(d, o, count, out.common))
        out.compute = wide;
    for (uint32_t k = 0; k < count; k++) {
        if (o[k].tensor) out.v[k] = hn_b_cast(d->g, o[k].tensor, out.compute);
        if (o[k].number) out.v[k] = hn_dec_number(d, args[k], out.compute);
    }
    return out;
}

hn_operands hn_dec_first_operands(hn_dec *d, uint32_t count, unsigned flags) {
    static const uint32_t args[HN_MAX_OPERANDS] = {0, 1, 2, 3};
    return hn_dec_operands(d, args, count, flags);
}

void hn_dec_finish(hn_dec *d, uint32_t k, hn_value v, const hn_operands *operands) {
    hn_dec_result(d, k, v ? hn_b_cast(d->g, v, operands->common) : 0);
}
