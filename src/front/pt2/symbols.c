/* symbols.c: size symbols with their ranges and hints, expression texts, and guards. */
#include "front/pt2/import.h"

#include "base/log.h"

/* --- symbols --- */

static const hn_pt2_range *range_find(const hn_pt2_importer *im, hn_str name) {
    const uint64_t *index = hn_strmap_get(&im->range_index, name);
    return index ? &im->ranges.items[*index] : NULL;
}

/* Names are a kind letter and a number: "s77" a size, "u0" data-dependent, "zf3" and "zuf3"
 * floats. */
static hn_expr symbol_make(void *user, hn_str name, int64_t lo) {
    hn_pt2_importer *im = user;
    const hn_pt2_range *range = range_find(im, name);
    if (name.len < 2 || name.ptr[0] == 'z') return 0;
    if (name.ptr[0] != 's' && name.ptr[0] != 'u' && !range) return 0;
    hn_symbol_kind kind = name.ptr[0] == 'u' ? HN_SYMBOL_DATA : HN_SYMBOL_SIZE;
    int64_t hi = HN_SYM_MAX;
    if (range) {
        /* PyTorch traces sizes as if they were 2 or more, writes that down as a range (and as
         * "positive"), and takes 0 and 1 in a call all the same. Only a larger minimum was asked
         * for. */
        bool as_traced = kind == HN_SYMBOL_SIZE && range->lo >= 0 && range->lo <= 2;
        lo = as_traced ? 0 : range->lo > lo ? range->lo : lo;
        hi = range->hi;
    } else if (kind == HN_SYMBOL_SIZE && lo < 0) {
        lo = 0;
    }
    return hn_sym_symbol(im->sym, name, kind, lo, hi);
}

/* {"min_val": 2, "max_val": null} */
static hn_status range_read(hn_json *json, hn_pt2_range *out) {
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        bool is_min = hn_str_eq(key, HN_STR("min_val")), is_max = hn_str_eq(key, HN_STR("max_val"));
        if (!is_min && !is_max) HN_TRY(hn_json_skip(json));
        else if (!hn_json_null(json)) HN_TRY(hn_json_int(json, is_min ? &out->lo : &out->hi));
    }
    return hn_json_status(json);
}

static hn_status ranges_read(hn_pt2_importer *im) {
    hn_json json = im->program.range_constraints;
    if (!json.at) return NULL;
    HN_TRY(hn_json_object(&json));
    for (hn_str key; hn_json_key(&json, &key);) {
        hn_pt2_range range = {.name = key, .lo = HN_SYM_MIN, .hi = HN_SYM_MAX};
        HN_TRY(range_read(&json, &range));
        if (range.lo > range.hi)
            return HN_ERROR(HN_INVALID_ARGUMENT, "range of '" HN_STR_FMT "' is empty",
                            HN_STR_ARG(key));
        HN_TRY(hn_strmap_put(&im->range_index, key, im->ranges.count));
        HN_PUSH(im->scratch, &im->ranges, range);
    }
    return hn_json_status(&json);
}

static hn_expr input_find(void *user, hn_str path, bool stride, int64_t dim);

typedef struct guard_env {
    hn_pt2_importer *im;
    hn_graph *graph;
} guard_env;

static hn_expr guard_symbol(void *user, hn_str name, int64_t lo) {
    return symbol_make(((guard_env *)user)->im, name, lo);
}

hn_status hn_pt2_symbols_init(hn_pt2_importer *im) {
    hn_strmap_init(&im->range_index, im->scratch);
    hn_strmap_init(&im->expr_cache, im->scratch);
    im->env = (hn_pt2_expr_env){
        .sym = im->sym, .scratch = im->scratch, .user = im, .symbol = symbol_make};
    return ranges_read(im);
}

/* --- expressions --- */

hn_status hn_pt2_expr_of(hn_pt2_importer *im, hn_str text, hn_expr *out) {
    const uint64_t *known = hn_strmap_get(&im->expr_cache, text);
    if (known) {
        *out = (hn_expr)*known;
        return NULL;
    }
    HN_TRY(hn_pt2_expr_parse(&im->env, text, out));
    return hn_strmap_put(&im->expr_cache, text, *out);
}

/* U SymExprHint or null; only integers are of use. */
static hn_status hint_read(hn_json *json, int64_t *out, bool *out_found) {
    hn_str key;
    if (hn_json_null(json)) return NULL;
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_int"))) {
        HN_TRY(hn_json_int(json, out));
        *out_found = true;
    } else {
        HN_TRY(hn_json_skip(json));
    }
    return hn_pt2_union_end(json);
}

/* {"expr_str": ..., "hint": ...}; versions before hints wrote the text alone. */
static hn_status sym_expr_read(hn_pt2_importer *im, hn_json *json, hn_expr *out) {
    hn_str text = {0};
    int64_t hint = 0;
    bool has_hint = false;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("expr_str"))) HN_TRY(hn_json_string(json, &text));
        else if (hn_str_eq(key, HN_STR("hint"))) HN_TRY(hint_read(json, &hint, &has_hint));
        else HN_TRY(hn_json_skip(json));
    }
    HN_TRY(hn_json_status(json));
    if (!text.ptr) return hn_json_error(json, "expected an \"expr_str\"");
    HN_TRY(hn_pt2_expr_of(im, text, out));
    if (has_hint && hn_sym_kind(im->sym, *out) == HN_EXPR_SYMBOL)
        hn_sym_set_hint(im->sym, *out, hint);
    return NULL;
}

hn_status hn_pt2_sym_int_read(hn_pt2_importer *im, hn_json *json, hn_expr *out) {
    hn_str key;
    int64_t value = 0;
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_int"))) {
        HN_TRY(hn_json_int(json, &value));
        *out = hn_sym_int(im->sym, value);
        if (!*out) HN_TRY(hn_sym_status(im->sym));
    } else if (hn_str_eq(key, HN_STR("as_expr"))) {
        HN_TRY(sym_expr_read(im, json, out));
    } else {
        return HN_ERROR(HN_UNSUPPORTED, "symbolic integer of kind '" HN_STR_FMT "'",
                        HN_STR_ARG(key));
    }
    return hn_pt2_union_end(json);
}

/* --- guards --- */

static hn_expr input_find(void *user, hn_str path, bool stride, int64_t dim) {
    hn_graph *graph = ((guard_env *)user)->graph;
    for (uint32_t k = 0; k < graph->inputs.count; k++) {
        const hn_input *input = &graph->inputs.items[k];
        if (input->kind != HN_INPUT_USER || !hn_str_eq(input->name, path)) continue;
        const hn_value_info *info = hn_graph_value(graph, input->value);
        if (dim < 0) return info->kind == HN_VALUE_SYM_INT ? info->expr : 0;
        if (info->kind != HN_VALUE_TENSOR || dim >= info->rank) return 0;
        if (!stride) return info->sizes[dim];
        hn_expr strides[HN_MAX_RANK];
        hn_value_strides(graph->sym, info, strides);
        return strides[dim];
    }
    return 0;
}

/* Guards that speak of things henry does not know (attributes, floats, disjunctions) are let go:
 * the sizes that they protect are checked against the recorded metas anyway. */
static hn_status guard_read(const hn_pt2_expr_env *env, hn_graph *graph, hn_str text) {
    const hn_pt2_relation *relations = NULL;
    uint32_t count = 0;
    hn_status status = hn_pt2_condition_parse(env, text, &relations, &count);
    if (status) {
        hn_code code = hn_status_code(status);
        if (code != HN_UNSUPPORTED && code != HN_INVALID_ARGUMENT) return status;
        hn_log("pt2", HN_LOG_INFO, "ignored a guard: %s", hn_status_message(status));
        hn_status_free(status);
        return NULL;
    }
    const char *reason = hn_arena_strndup(graph->arena, text.ptr, text.len);
    if (!reason) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a guard");
    for (uint32_t k = 0; k < count; k++)
        hn_sym_require(graph->sym, relations[k].relation, relations[k].lhs, relations[k].rhs,
                       reason);
    return NULL;
}

/* "2*s77": 4..128. Ranges of plain symbols were given to the symbols when those were made. */
static hn_status derived_range_read(hn_pt2_importer *im, const hn_pt2_range *range) {
    hn_expr expr = 0;
    hn_status status = hn_pt2_expr_of(im, range->name, &expr);
    if (status) {
        hn_log("pt2", HN_LOG_INFO, "ignored a range: %s", hn_status_message(status));
        hn_code code = hn_status_code(status);
        if (code != HN_UNSUPPORTED && code != HN_INVALID_ARGUMENT) return status;
        hn_status_free(status);
        return NULL;
    }
    if (hn_sym_kind(im->sym, expr) == HN_EXPR_SYMBOL) return NULL;
    const char *reason =
        hn_arena_printf(im->arena, "range of " HN_STR_FMT, HN_STR_ARG(range->name));
    if (!reason) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a guard");
    if (range->lo != HN_SYM_MIN)
        hn_sym_require(im->sym, HN_REL_LE, hn_sym_int(im->sym, range->lo), expr, reason);
    if (range->hi != HN_SYM_MAX)
        hn_sym_require(im->sym, HN_REL_LE, expr, hn_sym_int(im->sym, range->hi), reason);
    return NULL;
}

hn_status hn_pt2_guards_read(hn_pt2_importer *im, hn_graph *graph) {
    for (uint32_t k = 0; k < im->ranges.count; k++)
        HN_TRY(derived_range_read(im, &im->ranges.items[k]));
    hn_json json = im->program.guards_code;
    if (!json.at || hn_json_null(&json)) return hn_sym_status(im->sym);
    guard_env user = {im, graph};
    hn_pt2_expr_env env = {.sym = im->sym,
                           .scratch = im->scratch,
                           .user = &user,
                           .symbol = guard_symbol,
                           .input = input_find};
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) {
        hn_str text;
        HN_TRY(hn_json_string(&json, &text));
        HN_TRY(guard_read(&env, graph, text));
    }
    HN_TRY(hn_json_status(&json));
    return hn_sym_status(im->sym);
}
