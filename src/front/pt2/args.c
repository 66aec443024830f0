/* args.c: one argument of a node. The file says what the exporter had (U Argument); the op's row
 * says what the parameter wants. Where PyTorch converts silently (an int for a float, one number
 * for a list of equal ones), so does arg_coerce. */
#include "front/pt2/import.h"

#include "base/compiler.h"

typedef struct exprs {
    hn_expr *items;
    uint32_t count, cap;
} exprs;
typedef struct floats {
    double *items;
    uint32_t count, cap;
} floats;
typedef struct values {
    hn_value *items;
    uint32_t count, cap;
} values;

typedef hn_status (*arg_reader)(hn_pt2_scope *scope, hn_json *json, hn_arg *out);

/* --- tensors --- */

static hn_status tensor_read(hn_pt2_scope *scope, hn_json *json, hn_value *out) {
    hn_str name;
    HN_TRY(hn_pt2_name_read(json, &name));
    return hn_pt2_use_value(scope, name, out);
}

/* U OptionalTensorArgument: as_tensor or as_none */
static hn_status optional_tensor_read(hn_pt2_scope *scope, hn_json *json, hn_value *out) {
    hn_str key;
    *out = 0;
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_tensor"))) HN_TRY(tensor_read(scope, json, out));
    else HN_TRY(hn_json_skip(json));
    return hn_pt2_union_end(json);
}

typedef hn_status (*value_reader)(hn_pt2_scope *scope, hn_json *json, hn_value *out);

static hn_status one_value(hn_pt2_scope *scope, hn_json *json, value_reader read, hn_arg *out) {
    hn_value value = 0;
    HN_TRY(read(scope, json, &value));
    *out = hn_arg_value(value);
    return NULL;
}

static hn_status list_of_values(hn_pt2_scope *scope, hn_json *json, value_reader read,
                                hn_arg *out) {
    values list = {0};
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        hn_value value = 0;
        HN_TRY(read(scope, json, &value));
        HN_PUSH(scope->im->scratch, &list, value);
    }
    *out = hn_arg_values(list.items, list.count);
    return hn_json_status(json);
}

static hn_status as_tensor(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return one_value(scope, json, tensor_read, out);
}

static hn_status as_tensors(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return list_of_values(scope, json, tensor_read, out);
}

static hn_status as_optional_tensor(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return one_value(scope, json, optional_tensor_read, out);
}

static hn_status as_optional_tensors(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return list_of_values(scope, json, optional_tensor_read, out);
}

/* --- numbers --- */

static hn_status int_expr_read(hn_pt2_scope *scope, hn_json *json, hn_expr *out) {
    int64_t value = 0;
    HN_TRY(hn_json_int(json, &value));
    *out = hn_sym_int(scope->im->sym, value);
    return *out ? NULL : hn_sym_status(scope->im->sym);
}

/* U SymIntArgument: a name of the graph, or a number. */
static hn_status sym_int_read(hn_pt2_scope *scope, hn_json *json, hn_expr *out) {
    hn_str key, name;
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_name"))) {
        hn_pt2_name *entry = NULL;
        HN_TRY(hn_json_string(json, &name));
        HN_TRY(hn_pt2_use(scope, name, &entry));
        *out = entry->expr;
        if (!*out)
            return HN_ERROR(HN_INVALID_ARGUMENT, "value '" HN_STR_FMT "' is no integer",
                            HN_STR_ARG(name));
    } else if (hn_str_eq(key, HN_STR("as_int"))) {
        HN_TRY(int_expr_read(scope, json, out));
    } else {
        return HN_ERROR(HN_UNSUPPORTED, "symbolic integer of kind '" HN_STR_FMT "'",
                        HN_STR_ARG(key));
    }
    return hn_pt2_union_end(json);
}

typedef hn_status (*expr_reader)(hn_pt2_scope *scope, hn_json *json, hn_expr *out);

static hn_status one_expr(hn_pt2_scope *scope, hn_json *json, expr_reader read, hn_arg *out) {
    hn_expr expr = 0;
    HN_TRY(read(scope, json, &expr));
    *out = hn_arg_expr(expr);
    return NULL;
}

static hn_status list_of_exprs(hn_pt2_scope *scope, hn_json *json, expr_reader read, hn_arg *out) {
    exprs list = {0};
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        hn_expr expr = 0;
        HN_TRY(read(scope, json, &expr));
        HN_PUSH(scope->im->scratch, &list, expr);
    }
    *out = hn_arg_exprs(list.items, list.count);
    return hn_json_status(json);
}

static hn_status as_int(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return one_expr(scope, json, int_expr_read, out);
}

static hn_status as_ints(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return list_of_exprs(scope, json, int_expr_read, out);
}

static hn_status as_sym_int(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return one_expr(scope, json, sym_int_read, out);
}

static hn_status as_sym_ints(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return list_of_exprs(scope, json, sym_int_read, out);
}

static hn_status as_float(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    double value = 0;
    (void)scope;
    HN_TRY(hn_json_float(json, &value));
    *out = hn_arg_float(value);
    return NULL;
}

static hn_arg floats_arg(const floats *list) {
    return (hn_arg){.kind = HN_ARG_FLOATS, .count = list->count, .as.floats = list->items};
}

static hn_status as_floats(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    floats list = {0};
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        double value = 0;
        HN_TRY(hn_json_float(json, &value));
        HN_PUSH(scope->im->scratch, &list, value);
    }
    *out = floats_arg(&list);
    return hn_json_status(json);
}

static hn_status as_bool(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    bool value = false;
    (void)scope;
    HN_TRY(hn_json_bool(json, &value));
    *out = hn_arg_bool(value);
    return NULL;
}

static hn_status bool_expr_read(hn_pt2_scope *scope, hn_json *json, hn_expr *out) {
    bool value = false;
    HN_TRY(hn_json_bool(json, &value));
    *out = hn_sym_int(scope->im->sym, value);
    return NULL;
}

static hn_status as_bools(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return list_of_exprs(scope, json, bool_expr_read, out);
}

/* U SymBoolArgument and U SymFloatArgument: a name, or a constant read by `constant`. */
static hn_status name_or_constant(hn_pt2_scope *scope, hn_json *json, arg_reader constant,
                                  hn_arg *out) {
    hn_str key, name;
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_name"))) {
        hn_value value = 0;
        HN_TRY(hn_json_string(json, &name));
        HN_TRY(hn_pt2_use_value(scope, name, &value));
        *out = hn_arg_value(value);
    } else {
        HN_TRY(constant(scope, json, out));
    }
    return hn_pt2_union_end(json);
}

static hn_status as_sym_bool(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    return name_or_constant(scope, json, as_bool, out);
}
/* A float that is a size becomes the size: where it matters, the recorded dtypes tell them
 * apart. */
static hn_status as_sym_float(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    hn_pt2_place peek = *json;
    hn_str key, name;
    hn_expr size = 0;
    HN_TRY(hn_pt2_union_begin(&peek, &key));
    if (hn_str_eq(key, HN_STR("as_name"))) {
        hn_pt2_name *entry = NULL;
        HN_TRY(hn_json_string(&peek, &name));
        HN_TRY(hn_pt2_use(scope, name, &entry));
        if (entry->kind == HN_PT2_SYM_FLOAT && !entry->value)
            HN_TRY(hn_pt2_sym_float_read(scope, entry, &size));
    }
    if (!size) return name_or_constant(scope, json, as_float, out);
    *out = hn_arg_expr(size);
    return hn_json_skip(json);
}

static hn_status as_sym_floats(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    floats list = {0};
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        hn_arg one;
        HN_TRY(as_sym_float(scope, json, &one));
        if (one.kind != HN_ARG_FLOAT)
            return HN_ERROR(HN_UNSUPPORTED, "list of floats that are known only at run time");
        HN_PUSH(scope->im->scratch, &list, one.as.f);
    }
    *out = floats_arg(&list);
    return hn_json_status(json);
}

/* --- the rest --- */

static hn_status as_none(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    (void)scope;
    *out = hn_arg_none();
    return hn_json_skip(json); /* true, or the empty tuple of schema 8.1 */
}

static hn_status as_string(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    hn_str text;
    (void)scope;
    HN_TRY(hn_json_string(json, &text));
    *out = hn_arg_string(text);
    return NULL;
}

static hn_status as_scalar_type(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    int64_t code = 0;
    (void)scope;
    HN_TRY(hn_json_int(json, &code));
    *out = hn_arg_none();
    if (code == 0) return NULL;
    hn_dtype dtype = hn_dtype_from_pt2(code);
    if (dtype == HN_DTYPE_NONE)
        return HN_ERROR(HN_UNSUPPORTED, "dtype %s (%lld)", hn_pt2_dtype_name(code),
                        (long long)code);
    *out = hn_arg_dtype(dtype);
    return NULL;
}

static hn_status enum_read(hn_json *json, const char *const *names, size_t count, const char *what,
                           hn_arg *out) {
    int64_t code = 0;
    HN_TRY(hn_json_int(json, &code));
    if (code < 0 || (size_t)code >= count)
        return HN_ERROR(HN_UNSUPPORTED, "%s %lld", what, (long long)code);
    *out = names[code] ? hn_arg_string(hn_str_of(names[code])) : hn_arg_none();
    return NULL;
}

static hn_status as_memory_format(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    static const char *const names[] = {NULL, "contiguous_format", "channels_last",
                                        "channels_last_3d", "preserve_format"};
    (void)scope;
    return enum_read(json, names, HN_COUNT_OF(names), "memory format", out);
}

static hn_status as_layout(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    static const char *const names[] = {NULL,         "sparse_coo", "sparse_csr", "sparse_csc",
                                        "sparse_bsr", "sparse_bsc", "mkldnn",     "strided"};
    (void)scope;
    return enum_read(json, names, HN_COUNT_OF(names), "layout", out);
}

/* {"type": "cuda", "index": 0} -> "cuda:0" */
static hn_status as_device(hn_pt2_scope *scope, hn_json *json, hn_arg *out) {
    hn_str type = HN_STR("");
    int64_t index = -1;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("type"))) HN_TRY(hn_json_string(json, &type));
        else if (hn_str_eq(key, HN_STR("index")) && !hn_json_null(json))
            HN_TRY(hn_json_int(json, &index));
        else if (!hn_str_eq(key, HN_STR("index"))) HN_TRY(hn_json_skip(json));
    }
    HN_TRY(hn_json_status(json));
    if (index >= 0) {
        char *text = hn_arena_printf(scope->im->scratch, HN_STR_FMT ":%lld", HN_STR_ARG(type),
                                     (long long)index);
        if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an argument");
        type = hn_str_of(text);
    }
    *out = hn_arg_string(type);
    return NULL;
}

static hn_arg_kind list_kind(const hn_param *param) {
    return param && param->kind == HN_PARAM_FLOATS ? HN_ARG_FLOATS : HN_ARG_INTS;
}

static const struct {
    const char *key;
    arg_reader read;
} readers[] = {
    {"as_tensor", as_tensor},
    {"as_int", as_int},
    {"as_ints", as_ints},
    {"as_float", as_float},
    {"as_bool", as_bool},
    {"as_none", as_none},
    {"as_scalar_type", as_scalar_type},
    {"as_device", as_device},
    {"as_layout", as_layout},
    {"as_tensors", as_tensors},
    {"as_sym_ints", as_sym_ints},
    {"as_sym_int", as_sym_int},
    {"as_memory_format", as_memory_format},
    {"as_string", as_string},
    {"as_bools", as_bools},
    {"as_floats", as_floats},
    {"as_sym_float", as_sym_float},
    {"as_sym_floats", as_sym_floats},
    {"as_sym_bool", as_sym_bool},
    {"as_optional_tensor", as_optional_tensor},
    {"as_optional_tensors", as_optional_tensors},
};

static arg_reader reader_find(hn_str key) {
    for (size_t k = 0; k < HN_COUNT_OF(readers); k++)
        if (hn_str_eq(key, hn_str_of(readers[k].key))) return readers[k].read;
    return NULL;
}

/* --- what the parameter wants --- */

static bool int_value(hn_pt2_importer *im, const hn_arg *arg, int64_t *out) {
    if (arg->kind == HN_ARG_BOOL) *out = arg->as.b;
    return arg->kind == HN_ARG_BOOL ||
           (arg->kind == HN_ARG_INT && hn_sym_is_int(im->sym, arg->as.expr, out));
}

/* One number where the row says int[2]: so many equal ones. */
static hn_status list_of_one(hn_pt2_importer *im, const hn_param *param, hn_arg *arg) {
    uint32_t count = param->list_size ? param->list_size : 1;
    hn_expr *list = NULL;
    hn_expr one = arg->kind == HN_ARG_BOOL ? hn_sym_int(im->sym, arg->as.b) : arg->as.expr;
    HN_TRY(hn_arena_array(im->scratch, count, sizeof *list, &list));
    for (uint32_t k = 0; k < count; k++) list[k] = one;
    *arg = hn_arg_exprs(list, count);
    return NULL;
}

static hn_status floats_coerce(hn_pt2_importer *im, const hn_param *param, hn_arg *arg) {
    floats list = {0};
    int64_t whole = 0;
    if (arg->kind == HN_ARG_FLOAT) {
        for (uint32_t k = 0; k < (param->list_size ? param->list_size : 1u); k++)
            HN_PUSH(im->scratch, &list, arg->as.f);
    } else if (arg->kind == HN_ARG_INTS) {
        for (uint32_t k = 0; k < arg->count; k++) {
            if (!hn_sym_is_int(im->sym, arg->as.exprs[k], &whole)) return NULL;
            HN_PUSH(im->scratch, &list, (double)whole);
        }
    } else {
        return NULL;
    }
    *arg = floats_arg(&list);
    return NULL;
}

/* What fits no rule is left for the check against the row, which names it. */
static hn_status arg_coerce(hn_pt2_importer *im, const hn_param *param, hn_arg *arg) {
    int64_t whole = 0;
    bool is_number = arg->kind == HN_ARG_INT || arg->kind == HN_ARG_BOOL;
    switch (param->kind) {
    case HN_PARAM_INT:
        if (arg->kind == HN_ARG_BOOL) *arg = hn_arg_expr(hn_sym_int(im->sym, arg->as.b));
        return NULL;
    case HN_PARAM_FLOAT:
        if (is_number && int_value(im, arg, &whole)) *arg = hn_arg_float((double)whole);
        return NULL;
    case HN_PARAM_BOOL:
        if (arg->kind == HN_ARG_INT && int_value(im, arg, &whole)) *arg = hn_arg_bool(whole != 0);
        return NULL;
    case HN_PARAM_INTS:
        if (is_number) return list_of_one(im, param, arg);
        if (arg->kind == HN_ARG_VALUES && arg->count == 0) *arg = hn_arg_exprs(NULL, 0);
        return NULL;
    case HN_PARAM_FLOATS:
        if (arg->kind == HN_ARG_VALUES && arg->count == 0) *arg = hn_arg_exprs(NULL, 0);
        return floats_coerce(im, param, arg);
    case HN_PARAM_TENSORS:
        if (arg->count == 0 && arg->kind == list_kind(param)) *arg = hn_arg_values(NULL, 0);
        return NULL;
    default: return NULL;
    }
}

hn_status hn_pt2_arg_read(hn_pt2_scope *scope, hn_json *json, const hn_param *param, hn_arg *out) {
    hn_str key;
    HN_TRY(hn_pt2_union_begin(json, &key));
    arg_reader read = reader_find(key);
    if (!read)
        return HN_ERROR(HN_UNSUPPORTED, "argument of kind '" HN_STR_FMT "'", HN_STR_ARG(key));
    HN_TRY(read(scope, json, out));
    HN_TRY(hn_pt2_union_end(json));
    return param ? arg_coerce(scope->im, param, out) : NULL;
}

hn_status hn_pt2_defaults(hn_pt2_importer *im, hn_graph *graph, hn_op op, const hn_arg **out) {
    uint32_t count = 0;
    const hn_param *params = hn_op_params(op, &count);
    if (!im->defaults)
        HN_TRY(hn_arena_array(im->scratch, HN_ALL_OP_COUNT, sizeof *im->defaults, &im->defaults));
    if (!im->defaults[op]) {
        hn_arg *args = NULL;
        HN_TRY(hn_arena_array(im->scratch, count + 1, sizeof *args, &args));
        for (uint32_t k = 0; k < count; k++)
            if (params[k].has_default) HN_TRY(hn_graph_default_arg(graph, &params[k], &args[k]));
        im->defaults[op] = args;
    }
    *out = im->defaults[op];
    return NULL;
}
