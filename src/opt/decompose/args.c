/* args.c: the readers of decompose.h, type promotion and scalar helpers. */
#include "opt/decompose/decompose.h"

#include "base/compiler.h"

/* --- failing --- */

void hn_dec_unsupported(hn_dec *d, const char *why) {
    if (!d->unsupported) d->unsupported = why;
}

static const char *param_name(const hn_dec *d, uint32_t arg) {
    uint32_t count = 0;
    const hn_param *params = hn_op_params(d->node->op, &count);
    return arg < count ? params[arg].name.ptr : "?";
}

static int param_name_len(const hn_dec *d, uint32_t arg) {
    uint32_t count = 0;
    const hn_param *params = hn_op_params(d->node->op, &count);
    return arg < count ? (int)params[arg].name.len : 1;
}

static void bad_arg(hn_dec *d, uint32_t arg, const char *wanted) {
    hn_graph_fail(d->g, HN_ERROR(HN_INVALID_ARGUMENT, "argument '%.*s' is not %s",
                                 param_name_len(d, arg), param_name(d, arg), wanted));
}

static void symbolic_arg(hn_dec *d, uint32_t arg) {
    char *why = hn_arena_printf(d->scratch, "argument '%.*s' must be a constant",
                                param_name_len(d, arg), param_name(d, arg));
    hn_dec_unsupported(d, why ? why : "an argument must be a constant");
}

/* --- readers --- */

static const hn_arg *arg_at(const hn_dec *d, uint32_t arg) {
    static const hn_arg none = {.kind = HN_ARG_NONE};
    return arg < d->node->arg_count ? &d->node->args[arg] : &none;
}

bool hn_dec_has(const hn_dec *d, uint32_t arg) { return arg_at(d, arg)->kind != HN_ARG_NONE; }

const hn_value_info *hn_dec_info(const hn_dec *d, hn_value v) { return hn_graph_value(d->g, v); }

/* A number as a rank-0 tensor of the dtype that PyTorch gives to it. */
static hn_value wrapped_number(hn_dec *d, uint32_t arg) {
    hn_arg_kind kind = arg_at(d, arg)->kind;
    return hn_dec_number(d, arg,
                         kind == HN_ARG_FLOAT  ? HN_DTYPE_F32
                         : kind == HN_ARG_BOOL ? HN_DTYPE_BOOL
                                               : HN_DTYPE_I64);
}

hn_value hn_dec_tensor(hn_dec *d, uint32_t arg) {
    const hn_arg *a = arg_at(d, arg);
    switch (a->kind) {
    case HN_ARG_NONE: return 0;
    case HN_ARG_INT:
    case HN_ARG_FLOAT:
    case HN_ARG_BOOL: return wrapped_number(d, arg);
    case HN_ARG_VALUE: {
        const hn_value_info *info = hn_dec_info(d, a->as.value);
        if (info->kind == HN_VALUE_TENSOR) return a->as.value;
        hn_dtype dtype = info->kind == HN_VALUE_SYM_INT    ? HN_DTYPE_I64
                         : info->kind == HN_VALUE_SYM_BOOL ? HN_DTYPE_BOOL
                                                           : HN_DTYPE_F32;
        return hn_dec_number(d, arg, dtype);
    }
    default: bad_arg(d, arg, "a tensor"); return 0;
    }
}

uint32_t hn_dec_tensors(hn_dec *d, uint32_t arg, const hn_value **out) {
    const hn_arg *a = arg_at(d, arg);
    *out = NULL;
    if (a->kind == HN_ARG_NONE) return 0;
    if (a->kind == HN_ARG_VALUE) {
        *out = &a->as.value;
        return 1;
    }
    if (a->kind != HN_ARG_VALUES) {
        /* an empty list carries no element kind */
        if (a->count != 0 || (a->kind != HN_ARG_INTS && a->kind != HN_ARG_FLOATS))
            bad_arg(d, arg, "a list of tensors");
        return 0;
    }
    *out = a->as.values;
    return a->count;
}

hn_expr hn_dec_expr(hn_dec *d, uint32_t arg) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_INT) return a->as.expr;
    if (a->kind == HN_ARG_BOOL) return hn_dec_i(d, a->as.b);
    if (a->kind == HN_ARG_INTS && a->count == 1) return a->as.exprs[0];
    if (a->kind == HN_ARG_VALUE && hn_dec_info(d, a->as.value)->kind == HN_VALUE_SYM_INT)
        return hn_dec_info(d, a->as.value)->expr;
    bad_arg(d, arg, "an integer");
    return 0;
}

int64_t hn_dec_int(hn_dec *d, uint32_t arg) {
    int64_t value = 0;
    hn_expr e = hn_dec_expr(d, arg);
    if (e && !hn_sym_is_int(d->g->sym, e, &value)) symbolic_arg(d, arg);
    return value;
}

static hn_expr list_element(hn_dec *d, uint32_t arg, const hn_arg *a, uint32_t k) {
    if (a->kind == HN_ARG_INTS) return a->as.exprs[k];
    const hn_value_info *info = hn_dec_info(d, a->as.values[k]);
    if (info->kind == HN_VALUE_SYM_INT && info->expr) return info->expr;
    bad_arg(d, arg, "a list of integers");
    return 0;
}

uint32_t hn_dec_exprs(hn_dec *d, uint32_t arg, hn_expr out[HN_MAX_RANK]) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_NONE) return 0;
    if (a->kind == HN_ARG_INT || a->kind == HN_ARG_VALUE) {
        out[0] = hn_dec_expr(d, arg);
        return 1;
    }
    bool empty = a->count == 0 && a->kind == HN_ARG_FLOATS;
    if (a->kind != HN_ARG_INTS && a->kind != HN_ARG_VALUES && !empty) {
        bad_arg(d, arg, "a list of integers");
        return 0;
    }
    if (a->count > HN_MAX_RANK) {
        hn_dec_unsupported(d, "more than 16 dimensions");
        return 0;
    }
    for (uint32_t k = 0; k < a->count; k++) out[k] = list_element(d, arg, a, k);
    return a->count;
}

double hn_dec_float(hn_dec *d, uint32_t arg) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_FLOAT) return a->as.f;
    if (a->kind == HN_ARG_VALUE && hn_dec_info(d, a->as.value)->kind != HN_VALUE_SYM_INT) {
        symbolic_arg(d, arg);
        return 0;
    }
    return (double)hn_dec_int(d, arg);
}

uint32_t hn_dec_floats(hn_dec *d, uint32_t arg, const double **out) {
    const hn_arg *a = arg_at(d, arg);
    *out = NULL;
    if (a->kind == HN_ARG_NONE || a->count == 0) return 0;
    if (a->kind == HN_ARG_FLOATS) {
        *out = a->as.floats;
        return a->count;
    }
    hn_expr exprs[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, arg, exprs);
    double *values = hn_arena_alloc(d->scratch, (count + 1) * sizeof *values);
    for (uint32_t k = 0; values && k < count; k++) {
        int64_t value = 0;
        if (!hn_sym_is_int(d->g->sym, exprs[k], &value)) symbolic_arg(d, arg);
        values[k] = (double)value;
    }
    *out = values;
    return values ? count : 0;
}

bool hn_dec_bool(hn_dec *d, uint32_t arg) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_BOOL) return a->as.b;
    if (a->kind == HN_ARG_NONE) return false;
    if (a->kind == HN_ARG_VALUE) {
        symbolic_arg(d, arg);
        return false;
    }
    return hn_dec_int(d, arg) != 0;
}

hn_str hn_dec_string(hn_dec *d, uint32_t arg) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_STRING) return a->as.s;
    if (a->kind != HN_ARG_NONE) bad_arg(d, arg, "a string");
    return HN_STR("");
}

/* c10::ScalarType numbers, as default arguments of schemas write them ("dtype=4"). */
static hn_dtype dtype_of_schema_code(int64_t code) {
    static const struct {
        uint8_t code, dtype;
    } rows[] = {
        {0, HN_DTYPE_U8},    {1, HN_DTYPE_I8},    {2, HN_DTYPE_I16}, {3, HN_DTYPE_I32},
        {4, HN_DTYPE_I64},   {5, HN_DTYPE_F16},   {6, HN_DTYPE_F32}, {7, HN_DTYPE_F64},
        {11, HN_DTYPE_BOOL}, {15, HN_DTYPE_BF16},
    };
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++)
        if (rows[k].code == code) return (hn_dtype)rows[k].dtype;
    return HN_DTYPE_NONE;
}

hn_dtype hn_dec_dtype(hn_dec *d, uint32_t arg, hn_dtype when_none) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_NONE) return when_none;
    hn_dtype dtype = a->kind == HN_ARG_DTYPE ? a->as.dtype : HN_DTYPE_NONE;
    if (a->kind == HN_ARG_INT) dtype = dtype_of_schema_code(hn_dec_int(d, arg));
    if (dtype == HN_DTYPE_NONE) bad_arg(d, arg, "a dtype");
    return dtype;
}

hn_scalar hn_dec_scalar(hn_dec *d, uint32_t arg) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_FLOAT) return hn_scalar_f(a->as.f);
    if (a->kind == HN_ARG_VALUE && hn_dec_info(d, a->as.value)->kind != HN_VALUE_SYM_INT) {
        symbolic_arg(d, arg);
        return hn_scalar_i(hn_dec_i(d, 0));
    }
    return hn_scalar_i(hn_dec_expr(d, arg));
}

/* --- dimensions --- */

static uint32_t wrap_dim(hn_dec *d, uint32_t arg, int64_t dim, uint32_t rank) {
    int64_t limit = rank ? rank : 1; /* a rank-0 tensor accepts 0 and -1 */
    int64_t wrapped = dim < 0 ? dim + limit : dim;
    if (wrapped >= 0 && wrapped < limit) return (uint32_t)wrapped;
    hn_graph_fail(d->g, HN_ERROR(HN_INVALID_ARGUMENT,
                                 "dimension %lld in '%.*s' is out of range for rank %u",
                                 (long long)dim, param_name_len(d, arg), param_name(d, arg), rank));
    return 0;
}

uint32_t hn_dec_dim(hn_dec *d, uint32_t arg, uint32_t rank) {
    return wrap_dim(d, arg, hn_dec_int(d, arg), rank);
}

uint32_t hn_dec_dims(hn_dec *d, uint32_t arg, uint32_t rank, bool all_when_empty,
                     uint32_t out[HN_MAX_RANK]) {
    hn_expr dims[HN_MAX_RANK];
    uint32_t listed = hn_dec_exprs(d, arg, dims), count = 0;
    bool used[HN_MAX_RANK + 1] = {false};
    for (uint32_t k = 0; k < listed; k++) {
        int64_t dim = 0;
        if (!hn_sym_is_int(d->g->sym, dims[k], &dim)) symbolic_arg(d, arg);
        used[wrap_dim(d, arg, dim, rank)] = true;
    }
    for (uint32_t k = 0; k < rank; k++)
        if (used[k] || (!listed && all_when_empty)) out[count++] = k;
    return count;
}

/* --- metas and results --- */

const hn_value_info *hn_dec_meta(const hn_dec *d, uint32_t k) {
    return hn_graph_value(d->g, k < d->node->result_count ? d->node->results[k] : 0);
}

const hn_value_info *hn_dec_arg_meta(const hn_dec *d, uint32_t arg) {
    if (arg >= d->aten->arg_count || d->aten->args[arg].kind != HN_ARG_VALUE) return NULL;
    return hn_graph_value(d->g, d->aten->args[arg].as.value);
}

void hn_dec_result(hn_dec *d, uint32_t k, hn_value v) {
    if (k < d->node->result_count) d->results[k] = v;
}

/* --- promotion --- */

hn_dtype hn_dec_opmath(hn_dtype dtype) {
    return dtype == HN_DTYPE_F16 || dtype == HN_DTYPE_BF16 ? HN_DTYPE_F32 : dtype;
}

hn_dtype hn_dec_promote_types(hn_dtype a, hn_dtype b) {
    if (a == HN_DTYPE_NONE || a == b) return b;
    if (b == HN_DTYPE_NONE) return a;
    const hn_dtype_info *x = hn_dtype_facts(a), *y = hn_dtype_facts(b);
    if (x->category != y->category) return x->category > y->category ? a : b;
    /* neither of f16 and bf16 holds the other; nor of u8 and i8 */
    if (x->size_bytes == y->size_bytes)
        return x->category == HN_CATEGORY_FLOAT ? HN_DTYPE_F32 : HN_DTYPE_I16;
    return x->size_bytes > y->size_bytes ? a : b;
}

/* A lower-priority dtype counts only when its category is higher. */
static hn_dtype combine_priorities(hn_dtype higher, hn_dtype lower) {
    if (higher == HN_DTYPE_NONE) return lower;
    if (lower == HN_DTYPE_NONE) return higher;
    return hn_dtype_facts(lower)->category > hn_dtype_facts(higher)->category ? lower : higher;
}

hn_dtype hn_dec_promote(hn_dec *d, const hn_value *tensors, uint32_t count,
                        const hn_scalar *scalars, uint32_t scalar_count,
                        const bool *scalar_is_bool) {
    hn_dtype dims = HN_DTYPE_NONE, zero_dim = HN_DTYPE_NONE, wrapped = HN_DTYPE_NONE;
    for (uint32_t k = 0; k < count; k++) {
        if (!tensors[k]) continue;
        const hn_value_info *info = hn_dec_info(d, tensors[k]);
        hn_dtype *slot = info->rank ? &dims : &zero_dim;
        *slot = hn_dec_promote_types(*slot, info->dtype);
    }
    for (uint32_t k = 0; k < scalar_count; k++) {
        bool is_bool = scalar_is_bool && scalar_is_bool[k];
        hn_dtype dtype = scalars[k].is_float ? HN_DTYPE_F32
                         : is_bool           ? HN_DTYPE_BOOL
                                             : HN_DTYPE_I64;
        wrapped = hn_dec_promote_types(wrapped, dtype);
    }
    return combine_priorities(dims, combine_priorities(zero_dim, wrapped));
}

/* --- scalars --- */

hn_value hn_dec_scalar_value(hn_dec *d, hn_scalar s, hn_dtype dtype) {
    return hn_b_full(d->g, s, NULL, 0, dtype);
}

hn_value hn_dec_const(hn_dec *d, double value, hn_dtype dtype) {
    return hn_b_scalar(d->g, value, dtype);
}

static bool is_input(const hn_graph *g, hn_value v) {
    for (uint32_t k = 0; k < g->inputs.count; k++)
        if (g->inputs.items[k].value == v) return true;
    return false;
}

/* The tensor that a symbolic float or bool was read from: the operand of its ITEM. */
static hn_value item_source(hn_dec *d, hn_value scalar) {
    const hn_value_info *info = hn_dec_info(d, scalar);
    /* one element */
    if (!info->producer && info->kind != HN_VALUE_SYM_INT && is_input(d->g, scalar)) return scalar;
    const hn_node_info *node = info->producer ? hn_graph_node(d->g, info->producer) : NULL;
    if (!node || node->op != HN_OP_ITEM || node->args[0].kind != HN_ARG_VALUE) return 0;
    return node->args[0].as.value;
}

hn_value hn_dec_number(hn_dec *d, uint32_t arg, hn_dtype dtype) {
    const hn_arg *a = arg_at(d, arg);
    if (a->kind == HN_ARG_VALUE) {
        const hn_value_info *info = hn_dec_info(d, a->as.value);
        hn_value source = info->kind == HN_VALUE_TENSOR ? a->as.value : item_source(d, a->as.value);
        if (source) return hn_b_cast(d->g, hn_b_reshape(d->g, source, NULL, 0), dtype);
    }
    return hn_dec_scalar_value(d, hn_dec_scalar(d, arg), dtype);
}
