/* defaults.c: the default values of ATen schemas ("1", "None", "[0, 1]", "1e-05", "\"none\"") as
 * arguments. */
#include "ir/graph.h"

#include <errno.h>
#include <stdlib.h>

/* ScalarType defaults are numbers of c10, not those of .pt2 files; only these occur. */
static hn_dtype dtype_of_c10(long long number) {
    switch (number) {
    case 4: return HN_DTYPE_I64;
    case 6: return HN_DTYPE_F32;
    case 7: return HN_DTYPE_F64;
    case 11: return HN_DTYPE_BOOL;
    default: return HN_DTYPE_NONE;
    }
}

/* MemoryFormat defaults likewise: 0 is contiguous. */
static hn_status layout_of_c10(long long number, hn_arg *out) {
    if (number != 0) return HN_ERROR(HN_INTERNAL, "a default memory format is not contiguous");
    *out = hn_arg_string(HN_STR("contiguous_format"));
    return NULL;
}

typedef struct number {
    bool is_float;
    long long i;
    double f;
} number;

/* True, False, 3, -100, 0.5, 1., 1e-05 */
static bool read_number(hn_str text, number *out) {
    char buffer[40], *end;
    if (hn_str_eq(text, HN_STR("True")) || hn_str_eq(text, HN_STR("False"))) {
        *out = (number){.i = text.len == 4, .f = text.len == 4};
        return true;
    }
    if (!text.len || text.len >= sizeof buffer) return false;
    memcpy(buffer, text.ptr, text.len);
    buffer[text.len] = 0;
    errno = 0;
    out->i = strtoll(buffer, &end, 10);
    out->is_float = *end != 0 || errno;
    out->f = out->is_float ? strtod(buffer, &end) : (double)out->i;
    return end != buffer && *end == 0;
}

static hn_status add_item(hn_graph *g, const hn_param *p, hn_str text, hn_expr *exprs,
                          double *floats, uint32_t *count) {
    number n;
    if (*count == HN_MAX_RANK || !read_number(text, &n) || (n.is_float && p->kind == HN_PARAM_INTS))
        return HN_ERROR(HN_INTERNAL, "a default is no list of numbers");
    exprs[*count] = hn_sym_int(g->sym, n.i);
    floats[(*count)++] = n.f;
    return NULL;
}

/* "[0, 1]", "[]", or one number that stands for list_size equal ones. */
static hn_status read_list(hn_graph *g, const hn_param *p, hn_str text, hn_arg *out) {
    hn_expr exprs[HN_MAX_RANK];
    double floats[HN_MAX_RANK];
    uint32_t count = 0;
    bool brackets = text.len >= 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']';
    if (brackets) text = (hn_str){text.ptr + 1, text.len - 2};
    while (text.len) {
        size_t end = 0;
        while (end < text.len && text.ptr[end] != ',') end++;
        HN_TRY(add_item(g, p, (hn_str){text.ptr, end}, exprs, floats, &count));
        while (end < text.len && (text.ptr[end] == ',' || text.ptr[end] == ' ')) end++;
        text = (hn_str){text.ptr + end, text.len - end};
    }
    if (!brackets)
        while (count && count < p->list_size && count < HN_MAX_RANK) {
            exprs[count] = exprs[0];
            floats[count++] = floats[0];
        }
    void *copy = NULL;
    bool ints = p->kind == HN_PARAM_INTS;
    HN_TRY(hn_arena_array(g->arena, count, ints ? sizeof *exprs : sizeof *floats, &copy));
    if (count)
        memcpy(copy, ints ? (void *)exprs : (void *)floats,
               count * (ints ? sizeof *exprs : sizeof *floats));
    *out = ints ? hn_arg_exprs(copy, count) : hn_arg_floats(copy, count);
    return NULL;
}

static hn_status read_scalar(hn_graph *g, const hn_param *p, hn_str text, hn_arg *out) {
    number n;
    if (!read_number(text, &n)) return HN_ERROR(HN_INTERNAL, "a default is no number");
    bool is_bool = text.ptr[0] == 'T' || text.ptr[0] == 'F';
    switch (p->kind) {
    case HN_PARAM_BOOL: *out = hn_arg_bool(n.i != 0); return NULL;
    case HN_PARAM_FLOAT: *out = hn_arg_float(n.f); return NULL;
    case HN_PARAM_DTYPE: *out = hn_arg_dtype(dtype_of_c10(n.i)); return NULL;
    case HN_PARAM_STRING: return layout_of_c10(n.i, out);
    case HN_PARAM_INT:
        if (n.is_float) return HN_ERROR(HN_INTERNAL, "a default is no integer");
        *out = hn_arg_expr(hn_sym_int(g->sym, n.i));
        return NULL;
    case HN_PARAM_SCALAR:
        *out = is_bool      ? hn_arg_bool(n.i != 0)
               : n.is_float ? hn_arg_float(n.f)
                            : hn_arg_expr(hn_sym_int(g->sym, n.i));
        return NULL;
    default: return HN_ERROR(HN_INTERNAL, "a default of this kind is unknown");
    }
}

hn_status hn_graph_default_arg(hn_graph *graph, const hn_param *param, hn_arg *out) {
    hn_str text = param->default_text;
    *out = hn_arg_none();
    if (!param->has_default)
        return HN_ERROR(HN_INTERNAL, "parameter '" HN_STR_FMT "' has no default",
                        HN_STR_ARG(param->name));
    if (hn_str_eq(text, HN_STR("None"))) return NULL;
    if (text.len >= 2 && text.ptr[0] == '"') {
        *out = hn_arg_string((hn_str){text.ptr + 1, text.len - 2});
        return NULL;
    }
    bool list = param->kind == HN_PARAM_INTS || param->kind == HN_PARAM_FLOATS;
    return hn_status_annotate(list ? read_list(graph, param, text, out)
                                   : read_scalar(graph, param, text, out),
                              "default '" HN_STR_FMT "' of parameter '" HN_STR_FMT "'",
                              HN_STR_ARG(text), HN_STR_ARG(param->name));
}
