/* values.c: the names of one graph. tensor_values may hold a hundred thousand entries that nothing
 * uses, so a scope only notes where each one is and reads it when a node or an input defines it. */
#include "front/pt2/import.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "ir/build.h"

/* --- tensor metas --- */

enum { LAYOUT_UNKNOWN = 0, LAYOUT_STRIDED = 7 };

const char *hn_pt2_dtype_name(int64_t code) {
    static const struct {
        int code;
        const char *name;
    } names[] = {{0, "unknown"},         {9, "complex32"},        {10, "complex64"},
                 {11, "complex128"},     {28, "uint16"},          {29, "float8_e4m3fn"},
                 {30, "float8_e5m2"},    {31, "float8_e4m3fnuz"}, {32, "float8_e5m2fnuz"},
                 {33, "float8_e8m0fnu"}, {34, "uint32"},          {35, "uint64"}};
    for (size_t k = 0; k < HN_COUNT_OF(names); k++)
        if (names[k].code == code) return names[k].name;
    hn_dtype known = hn_dtype_from_pt2(code);
    return known ? hn_dtype_facts(known)->name : "unknown";
}

/* One list of U SymInt; numbers are kept as numbers until something symbolic appears. */
static hn_status dims_read(hn_pt2_importer *im, hn_json *json, hn_expr *exprs, int64_t *ints,
                           bool *io_constant, uint32_t *out_rank) {
    uint32_t rank = 0;
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        if (rank == HN_MAX_RANK)
            return HN_ERROR(HN_UNSUPPORTED, "more than %d dimensions", HN_MAX_RANK);
        HN_TRY(hn_pt2_sym_int_read(im, json, &exprs[rank]));
        if (!hn_sym_is_int(im->sym, exprs[rank], &ints[rank])) *io_constant = false;
        else if (ints[rank] < 0)
            return HN_ERROR(HN_INVALID_ARGUMENT, "negative size or stride %lld",
                            (long long)ints[rank]);
        rank++;
    }
    *out_rank = rank;
    return hn_json_status(json);
}

static hn_status offset_read(hn_pt2_importer *im, hn_json *json, int64_t *out) {
    hn_expr expr = 0;
    if (hn_json_null(json)) return NULL;
    HN_TRY(hn_pt2_sym_int_read(im, json, &expr));
    if (!hn_sym_is_int(im->sym, expr, out)) *out = -1;
    else if (*out < 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "negative storage offset %lld", (long long)*out);
    return NULL;
}

/* Row-major, with any stride in dimensions of size 1. */
static bool is_contiguous_ints(const hn_pt2_meta *meta) {
    int64_t stride = 1;
    for (uint32_t k = meta->rank; k-- > 0;) {
        if (meta->ints[k] != 1 && meta->int_strides[k] != stride) return false;
        stride *= meta->ints[k] > 1 ? meta->ints[k] : 1; /* no overflow: numel_check */
    }
    return true;
}

/* PyTorch writes the stride above a dimension s as s times or as max(1, s) times the one below. */
static bool is_contiguous_exprs(hn_sym *sym, const hn_pt2_meta *meta) {
    hn_expr one = hn_sym_int(sym, 1), plain = one, clamped = one;
    for (uint32_t k = meta->rank; k-- > 0;) {
        if (!hn_sym_is_value(sym, meta->sizes[k], 1) && meta->strides[k] != plain &&
            meta->strides[k] != clamped)
            return false;
        plain = hn_sym_mul(sym, plain, meta->sizes[k]);
        clamped = hn_sym_mul(sym, clamped, hn_sym_max(sym, one, meta->sizes[k]));
    }
    return true;
}

/* Products of sizes up to here cannot overflow even when multiplied by an element's size. */
static hn_status numel_check(const hn_pt2_meta *meta) {
    int64_t product = 1;
    for (uint32_t k = 0; k < meta->rank; k++)
        if (meta->ints[k] > 1 &&
            (!hn_mul_i64(product, meta->ints[k], &product) || product > INT64_MAX / 16))
            return HN_ERROR(HN_INVALID_ARGUMENT, "tensor with more elements than fit in memory");
    return NULL;
}

static hn_status meta_finish(hn_pt2_importer *im, hn_pt2_meta *meta, uint32_t stride_count,
                             int64_t layout) {
    if (stride_count != meta->rank)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u sizes but %u strides", meta->rank, stride_count);
    if (layout != LAYOUT_STRIDED && layout != LAYOUT_UNKNOWN)
        return HN_ERROR(HN_UNSUPPORTED,
                        "layout %lld is sparse or opaque; only strided tensors are supported",
                        (long long)layout);
    meta->dtype = hn_dtype_from_pt2(meta->dtype_code);
    if (meta->constant) HN_TRY(numel_check(meta));
    meta->contiguous =
        meta->constant ? is_contiguous_ints(meta) : is_contiguous_exprs(im->sym, meta);
    return NULL;
}

hn_status hn_pt2_meta_read(hn_pt2_importer *im, hn_json *json, hn_pt2_meta *out) {
    uint32_t stride_count = 0;
    int64_t layout = LAYOUT_STRIDED;
    out->rank = 0;
    out->dtype_code = 0;
    out->offset = 0;
    out->constant = true;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("dtype"))) HN_TRY(hn_json_int(json, &out->dtype_code));
        else if (hn_str_eq(key, HN_STR("sizes")))
            HN_TRY(dims_read(im, json, out->sizes, out->ints, &out->constant, &out->rank));
        else if (hn_str_eq(key, HN_STR("strides")))
            HN_TRY(
                dims_read(im, json, out->strides, out->int_strides, &out->constant, &stride_count));
        else if (hn_str_eq(key, HN_STR("storage_offset")))
            HN_TRY(offset_read(im, json, &out->offset));
        else if (hn_str_eq(key, HN_STR("layout"))) HN_TRY(hn_json_int(json, &layout));
        else HN_TRY(hn_json_skip(json));
    }
    HN_TRY(hn_json_status(json));
    return meta_finish(im, out, stride_count, layout);
}

/* --- the scope --- */

static hn_status names_note(hn_pt2_scope *scope, const hn_pt2_place *place, hn_pt2_name_kind kind) {
    hn_json json = *place;
    if (!json.at || hn_json_null(&json)) return NULL;
    HN_TRY(hn_json_object(&json));
    for (hn_str key; hn_json_key(&json, &key);) {
        hn_pt2_name name = {.name = key, .kind = kind, .text = json.at};
        if (hn_strmap_get(&scope->index, key))
            return HN_ERROR(HN_INVALID_ARGUMENT, "value '" HN_STR_FMT "' is described twice",
                            HN_STR_ARG(key));
        HN_TRY(hn_strmap_put(&scope->index, key, scope->names.count));
        HN_PUSH(scope->im->scratch, &scope->names, name);
        HN_TRY(hn_json_skip(&json));
    }
    return hn_json_status(&json);
}

hn_status hn_pt2_scope_init(hn_pt2_scope *scope, hn_pt2_importer *im, hn_graph *graph,
                            const hn_pt2_graph_text *text) {
    *scope = (hn_pt2_scope){.im = im, .graph = graph, .text = *text};
    hn_strmap_init(&scope->index, im->scratch);
    HN_TRY(names_note(scope, &text->tensor_values, HN_PT2_TENSOR));
    HN_TRY(names_note(scope, &text->sym_int_values, HN_PT2_SYM_INT));
    HN_TRY(names_note(scope, &text->sym_bool_values, HN_PT2_SYM_BOOL));
    HN_TRY(names_note(scope, &text->sym_float_values, HN_PT2_SYM_FLOAT));
    return names_note(scope, &text->custom_obj_values, HN_PT2_CUSTOM);
}

hn_pt2_name *hn_pt2_name_find(hn_pt2_scope *scope, hn_str name) {
    const uint64_t *index = hn_strmap_get(&scope->index, name);
    return index ? &scope->names.items[*index] : NULL;
}

/* A reader at the text of `name`. The text lies in the same JSON as the nodes. */
static hn_json name_json(const hn_pt2_scope *scope, const hn_pt2_name *name) {
    hn_json json = scope->text.tensor_values;
    json.at = name->text;
    json.depth++;
    json.fresh = false;
    return json;
}

static hn_status find_kind(hn_pt2_scope *scope, hn_str name, hn_pt2_name_kind kind,
                           hn_pt2_name **out) {
    hn_pt2_name *entry = hn_pt2_name_find(scope, name);
    if (!entry)
        return HN_ERROR(HN_INVALID_ARGUMENT, "value '" HN_STR_FMT "' is not described in the graph",
                        HN_STR_ARG(name));
    if (entry->kind != kind)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "value '" HN_STR_FMT "' is described as another kind than it is used as",
                        HN_STR_ARG(name));
    *out = entry;
    return NULL;
}

/* Values with a problem are errors only for those that use them. */
static hn_status tensor_define(hn_pt2_scope *scope, hn_pt2_name *entry) {
    hn_json json = name_json(scope, entry);
    hn_pt2_meta meta;
    HN_TRY(hn_status_annotate(hn_pt2_meta_read(scope->im, &json, &meta), "tensor '" HN_STR_FMT "'",
                              HN_STR_ARG(entry->name)));
    if (meta.dtype == HN_DTYPE_NONE) {
        const char *name = hn_pt2_dtype_name(meta.dtype_code);
        entry->problem =
            meta.dtype_code && strcmp(name, "unknown") == 0
                ? hn_arena_printf(scope->im->scratch,
                                  "has dtype %lld, which no version of PyTorch known here has",
                                  (long long)meta.dtype_code)
                : hn_arena_printf(scope->im->scratch, "has dtype %s, which henry does not support",
                                  name);
        return entry->problem ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a value");
    }
    entry->value = hn_graph_add_tensor(scope->graph, meta.dtype, meta.rank, meta.sizes,
                                       meta.contiguous ? NULL : meta.strides, entry->name);
    return entry->value ? NULL : hn_graph_status(scope->graph);
}

static hn_status sym_int_define(hn_pt2_scope *scope, hn_pt2_name *entry) {
    hn_json json = name_json(scope, entry);
    hn_status status = hn_pt2_sym_int_read(scope->im, &json, &entry->expr);
    if (hn_status_code(status) != HN_UNSUPPORTED)
        return hn_status_annotate(status, "symbolic integer '" HN_STR_FMT "'",
                                  HN_STR_ARG(entry->name));
    entry->problem =
        hn_arena_printf(scope->im->scratch, "is no integer expression that henry can compute: %s",
                        hn_status_message(status));
    hn_status_free(status);
    return entry->problem ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a value");
}

hn_status hn_pt2_define(hn_pt2_scope *scope, hn_str name, hn_pt2_name_kind kind,
                        hn_pt2_name **out) {
    hn_pt2_name *entry = NULL;
    HN_TRY(find_kind(scope, name, kind, &entry));
    if (entry->defined)
        return HN_ERROR(HN_INVALID_ARGUMENT, "value '" HN_STR_FMT "' is defined twice",
                        HN_STR_ARG(name));
    entry->defined = true;
    if (kind == HN_PT2_TENSOR) HN_TRY(tensor_define(scope, entry));
    if (kind == HN_PT2_SYM_INT) HN_TRY(sym_int_define(scope, entry));
    if (out) *out = entry;
    return NULL;
}

hn_status hn_pt2_bind(hn_pt2_scope *scope, hn_str name, hn_value value, hn_expr expr) {
    hn_pt2_name *entry = hn_pt2_name_find(scope, name);
    if (!entry || entry->defined)
        return HN_ERROR(HN_INVALID_ARGUMENT, "value '" HN_STR_FMT "' is %s", HN_STR_ARG(name),
                        entry ? "defined twice" : "not described in the graph");
    bool is_tensor = value && hn_graph_value(scope->graph, value)->kind == HN_VALUE_TENSOR;
    if (is_tensor != (entry->kind == HN_PT2_TENSOR))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "value '" HN_STR_FMT "' changes its kind between graphs", HN_STR_ARG(name));
    entry->defined = true;
    entry->value = value;
    entry->expr = expr;
    return NULL;
}

hn_status hn_pt2_use(hn_pt2_scope *scope, hn_str name, hn_pt2_name **out) {
    hn_pt2_name *entry = hn_pt2_name_find(scope, name);
    if (!entry || !entry->defined)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "value '" HN_STR_FMT "' is used but not defined before", HN_STR_ARG(name));
    if (entry->problem && entry->lost) scope->im->used_lost = true;
    if (entry->problem)
        return HN_ERROR(HN_UNSUPPORTED, "value '" HN_STR_FMT "' %s", HN_STR_ARG(name),
                        entry->problem);
    *out = entry;
    return NULL;
}

static const hn_value_kind value_kinds[] = {[HN_PT2_TENSOR] = HN_VALUE_TENSOR,
                                            [HN_PT2_SYM_INT] = HN_VALUE_SYM_INT,
                                            [HN_PT2_SYM_BOOL] = HN_VALUE_SYM_BOOL,
                                            [HN_PT2_SYM_FLOAT] = HN_VALUE_SYM_FLOAT};

hn_status hn_pt2_use_value(hn_pt2_scope *scope, hn_str name, hn_value *out) {
    hn_pt2_name *entry = NULL;
    HN_TRY(hn_pt2_use(scope, name, &entry));
    if (!entry->value && entry->kind != HN_PT2_TENSOR && entry->kind != HN_PT2_CUSTOM)
        entry->value =
            hn_graph_add_scalar(scope->graph, value_kinds[entry->kind], entry->expr, entry->name);
    *out = entry->value;
    if (*out) return NULL;
    HN_TRY(hn_graph_status(scope->graph));
    return HN_ERROR(HN_INVALID_ARGUMENT, "value '" HN_STR_FMT "' is no tensor or number",
                    HN_STR_ARG(name));
}

/* --- symbolic bools --- */

/* The text of {"as_expr": {"expr_str": ...}}, behind its key; "" when there is none. */
static hn_status expr_text_read(hn_json *json, hn_str *out) {
    *out = HN_STR("");
    HN_TRY(hn_json_object(json));
    for (hn_str field; hn_json_key(json, &field);) {
        if (hn_str_eq(field, HN_STR("expr_str"))) HN_TRY(hn_json_string(json, out));
        else HN_TRY(hn_json_skip(json));
    }
    return hn_json_status(json);
}

/* U SymBool: {"as_bool": true} or {"as_expr": {"expr_str": ...}} */
hn_status hn_pt2_sym_bool_read(hn_pt2_scope *scope, const hn_pt2_name *name,
                               const hn_pt2_relation **out, uint32_t *out_count) {
    hn_json json = name_json(scope, name);
    hn_str key, text = HN_STR("");
    bool value = false;
    HN_TRY(hn_pt2_union_begin(&json, &key));
    if (hn_str_eq(key, HN_STR("as_bool"))) {
        HN_TRY(hn_json_bool(&json, &value));
        text = value ? HN_STR("true") : HN_STR("false");
    } else {
        HN_TRY(expr_text_read(&json, &text));
    }
    return hn_pt2_condition_parse(&scope->im->env, text, out, out_count);
}

/* U SymFloat: {"as_float": 0.5} or {"as_expr": {"expr_str": ...}}. Floats that a node reads from
 * data are no expressions of sizes. */
hn_status hn_pt2_sym_float_read(hn_pt2_scope *scope, const hn_pt2_name *name, hn_expr *out) {
    hn_json json = name_json(scope, name);
    hn_str key, text;
    *out = 0;
    if (!json.at) return NULL;
    HN_TRY(hn_pt2_union_begin(&json, &key));
    if (!hn_str_eq(key, HN_STR("as_expr"))) return NULL;
    HN_TRY(expr_text_read(&json, &text));
    hn_status status = hn_pt2_whole_parse(&scope->im->env, text, out);
    if (hn_status_code(status) != HN_UNSUPPORTED) return status;
    hn_status_free(status);
    return NULL;
}

hn_value hn_pt2_relations_build(hn_graph *graph, const hn_pt2_relation *relations, uint32_t count) {
    static const hn_op ops[] = {[HN_REL_EQ] = HN_OP_EQ,
                                [HN_REL_NE] = HN_OP_NE,
                                [HN_REL_LT] = HN_OP_LT,
                                [HN_REL_LE] = HN_OP_LE};
    hn_value all = count ? 0 : hn_b_scalar(graph, 1, HN_DTYPE_BOOL);
    for (uint32_t k = 0; k < count; k++) {
        hn_value lhs = hn_b_full(graph, hn_scalar_i(relations[k].lhs), NULL, 0, HN_DTYPE_I64);
        hn_value rhs = hn_b_full(graph, hn_scalar_i(relations[k].rhs), NULL, 0, HN_DTYPE_I64);
        hn_value holds = hn_b_binary(graph, ops[relations[k].relation], lhs, rhs);
        all = k ? hn_b_binary(graph, HN_OP_AND, all, holds) : holds;
    }
    return all;
}
