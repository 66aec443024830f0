/* parse.c: reads the text form of graphs. One recursive-descent reader; each function stands for a
 * rule of the grammar in docs/ir.md. */
#include "base/checked.h"
#include "ir/build.h"
#include "ir/check.h"
#include "ir/facts.h"
#include "ir/text.h"

typedef struct parser {
    hn_lex lex;
    hn_arena *arena;
    hn_sym *sym;
    uint32_t depth;
    hn_text_facts_reader facts;
    hn_graph *g; /* the one being read */
    hn_strmap labels;
} parser;

static hn_status parse_graph(parser *ps, hn_graph **out);

static hn_status read_expr(parser *ps, hn_expr *out) { return hn_lex_expr(&ps->lex, ps->sym, out); }

static hn_status read_exprs(parser *ps, hn_expr out[HN_MAX_RANK], uint32_t *out_count) {
    *out_count = 0;
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    if (hn_lex_accept(&ps->lex, ']')) return NULL;
    do {
        if (*out_count == HN_MAX_RANK) return hn_lex_fail(&ps->lex, ps->lex.p, "too many sizes");
        HN_TRY(read_expr(ps, &out[(*out_count)++]));
    } while (hn_lex_accept(&ps->lex, ','));
    return hn_lex_expect(&ps->lex, ']');
}

/* --- values --- */

static hn_status read_value(parser *ps, hn_value *out) {
    HN_TRY(hn_lex_expect(&ps->lex, '%'));
    hn_str label;
    HN_TRY(hn_lex_word(&ps->lex, "expected the name of a value", &label));
    uint64_t *known = hn_strmap_get(&ps->labels, label);
    if (!known) return hn_lex_fail(&ps->lex, label.ptr, "the value is not defined");
    *out = (hn_value)*known;
    return NULL;
}

typedef struct value_type {
    hn_value_kind kind;
    hn_dtype dtype;
    uint32_t rank;
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK];
    bool has_strides;
    hn_expr expr;
    hn_str name;
} value_type;

static hn_status read_scalar_type(parser *ps, hn_value_kind kind, value_type *out) {
    out->kind = kind;
    if (hn_lex_accept(&ps->lex, '(')) {
        HN_TRY(read_expr(ps, &out->expr));
        return hn_lex_expect(&ps->lex, ')');
    }
    return kind == HN_VALUE_SYM_INT
               ? hn_lex_fail(&ps->lex, ps->lex.p, "a symint needs its expression")
               : NULL;
}

/* f32[s0, 4] strides [4, 1] name "x" | symint(s0) | symfloat | symbool */
static hn_status read_type(parser *ps, value_type *out) {
    hn_str word;
    HN_TRY(hn_lex_word(&ps->lex, "expected a type", &word));
    *out = (value_type){.kind = HN_VALUE_TENSOR, .dtype = hn_dtype_parse(word), .name = HN_STR("")};
    if (hn_str_eq(word, HN_STR("symint"))) {
        HN_TRY(read_scalar_type(ps, HN_VALUE_SYM_INT, out));
    } else if (hn_str_eq(word, HN_STR("symfloat"))) {
        HN_TRY(read_scalar_type(ps, HN_VALUE_SYM_FLOAT, out));
    } else if (hn_str_eq(word, HN_STR("symbool"))) {
        HN_TRY(read_scalar_type(ps, HN_VALUE_SYM_BOOL, out));
    } else {
        if (!out->dtype) return hn_lex_fail(&ps->lex, word.ptr, "unknown type");
        HN_TRY(read_exprs(ps, out->sizes, &out->rank));
        if (hn_lex_accept_word(&ps->lex, "strides")) {
            uint32_t count;
            out->has_strides = true;
            HN_TRY(read_exprs(ps, out->strides, &count));
            if (count != out->rank)
                return hn_lex_fail(&ps->lex, ps->lex.p, "sizes and strides differ in number");
        }
    }
    return hn_lex_accept_word(&ps->lex, "name") ? hn_lex_string(&ps->lex, &out->name) : NULL;
}

static hn_status define_value(parser *ps, hn_str label, const value_type *type, hn_value *out) {
    if (hn_strmap_get(&ps->labels, label))
        return hn_lex_fail(&ps->lex, label.ptr, "the value is defined twice");
    hn_str name = type->name.len ? type->name : hn_text_is_name(label) ? label : HN_STR("");
    if (type->kind == HN_VALUE_TENSOR)
        *out = hn_graph_add_tensor(ps->g, type->dtype, type->rank, type->sizes,
                                   type->has_strides ? type->strides : NULL, name);
    else *out = hn_graph_add_scalar(ps->g, type->kind, type->expr, name);
    HN_TRY(hn_lex_blame(&ps->lex, label.ptr, hn_graph_status(ps->g)));
    return hn_strmap_put(&ps->labels, label, *out);
}

static hn_status read_label(parser *ps, hn_str *out) {
    HN_TRY(hn_lex_expect(&ps->lex, '%'));
    return hn_lex_word(&ps->lex, "expected the name of a value", out);
}

/* --- arguments --- */

typedef struct arg_list {
    hn_arg *items;
    uint32_t count, cap;
} arg_list;

static hn_status read_arg(parser *ps, hn_param_kind want, hn_arg *out);

static hn_status read_number_or_expr(parser *ps, hn_arg *out) {
    hn_str text = hn_lex_expr_text(&ps->lex);
    double value;
    if (hn_text_read_float(text, &value)) {
        ps->lex.p += text.len;
        *out = hn_arg_float(value);
        return NULL;
    }
    *out = (hn_arg){.kind = HN_ARG_INT};
    return read_expr(ps, &out->as.expr);
}

static hn_status read_graph_arg(parser *ps, hn_arg *out) {
    *out = (hn_arg){.kind = HN_ARG_GRAPH};
    if (ps->depth >= HN_MAX_GRAPH_DEPTH)
        return hn_lex_fail(&ps->lex, ps->lex.p, "subgraphs are nested too deep");
    parser inner = {.lex = ps->lex, .arena = ps->arena, .sym = ps->sym, .depth = ps->depth + 1};
    HN_TRY(parse_graph(&inner, &out->as.graph));
    ps->lex.p = inner.lex.p;
    return NULL;
}

/* Gathers the elements of a list that are all of one kind into one argument; none counts as a
 * value. */
static hn_status pack_list(parser *ps, const char *where, const arg_list *list, hn_param_kind want,
                           hn_arg *out) {
    hn_arg_kind kind = want == HN_PARAM_TENSORS  ? HN_ARG_VALUE
                       : want == HN_PARAM_FLOATS ? HN_ARG_FLOAT
                                                 : HN_ARG_INT;
    if (list->count) kind = list->items[0].kind == HN_ARG_NONE ? HN_ARG_VALUE : list->items[0].kind;
    void *elements = NULL;
    HN_TRY(hn_arena_array(ps->arena, list->count, sizeof(double), &elements));
    for (uint32_t i = 0; i < list->count; i++) {
        const hn_arg *item = &list->items[i];
        if (item->kind != kind && !(kind == HN_ARG_VALUE && item->kind == HN_ARG_NONE))
            return hn_lex_fail(&ps->lex, where, "the elements of a list differ in kind");
        if (kind == HN_ARG_VALUE)
            ((hn_value *)elements)[i] = item->kind == HN_ARG_NONE ? 0 : item->as.value;
        if (kind == HN_ARG_INT) ((hn_expr *)elements)[i] = item->as.expr;
        if (kind == HN_ARG_FLOAT) ((double *)elements)[i] = item->as.f;
    }
    if (kind == HN_ARG_VALUE) *out = hn_arg_values(elements, list->count);
    else if (kind == HN_ARG_INT) *out = hn_arg_exprs(elements, list->count);
    else if (kind == HN_ARG_FLOAT) *out = hn_arg_floats(elements, list->count);
    else return hn_lex_fail(&ps->lex, where, "a list holds values, integers or floats");
    return NULL;
}

static hn_status read_list(parser *ps, hn_param_kind want, hn_arg *out) {
    const char *where = ps->lex.p;
    arg_list list = {0};
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    if (!hn_lex_accept(&ps->lex, ']')) {
        do {
            hn_arg item;
            if (hn_lex_peek(&ps->lex) == '[')
                return hn_lex_fail(&ps->lex, ps->lex.p, "lists do not nest");
            HN_TRY(read_arg(ps, HN_PARAM_SCALAR, &item));
            HN_PUSH(ps->arena, &list, item);
        } while (hn_lex_accept(&ps->lex, ','));
        HN_TRY(hn_lex_expect(&ps->lex, ']'));
    }
    return pack_list(ps, where, &list, want, out);
}

/* "none", "true", "false", and a dtype where one is wanted. */
static bool read_keyword(parser *ps, hn_param_kind want, hn_arg *out) {
    hn_str word = hn_lex_peek_word(&ps->lex);
    hn_dtype dtype = want == HN_PARAM_DTYPE ? hn_dtype_parse(word) : HN_DTYPE_NONE;
    if (hn_str_eq(word, HN_STR("none"))) *out = hn_arg_none();
    else if (hn_str_eq(word, HN_STR("true")) || hn_str_eq(word, HN_STR("false")))
        *out = hn_arg_bool(word.len == 4);
    else if (dtype) *out = hn_arg_dtype(dtype);
    else return false;
    ps->lex.p += word.len;
    return true;
}

/* dtype(f32) */
static hn_status read_dtype(parser *ps, hn_arg *out) {
    hn_str word;
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    HN_TRY(hn_lex_word(&ps->lex, "expected a dtype", &word));
    *out = hn_arg_dtype(hn_dtype_parse(word));
    if (!out->as.dtype && !hn_str_eq(word, HN_STR("none")))
        return hn_lex_fail(&ps->lex, word.ptr, "unknown dtype");
    return hn_lex_expect(&ps->lex, ')');
}

static hn_status read_arg(parser *ps, hn_param_kind want, hn_arg *out) {
    char c = hn_lex_peek(&ps->lex);
    *out = hn_arg_none();
    if (c == '%') {
        out->kind = HN_ARG_VALUE;
        return read_value(ps, &out->as.value);
    }
    if (c == '"') {
        out->kind = HN_ARG_STRING;
        return hn_lex_string(&ps->lex, &out->as.s);
    }
    if (c == '[') return read_list(ps, want, out);
    if (read_keyword(ps, want, out)) return NULL;
    if (hn_lex_accept_word(&ps->lex, "dtype")) return read_dtype(ps, out);
    if (hn_str_eq(hn_lex_peek_word(&ps->lex), HN_STR("graph"))) return read_graph_arg(ps, out);
    return read_number_or_expr(ps, out);
}

/* The "name=" in front of an argument; without one nothing is read. */
static hn_str accept_param_name(parser *ps) {
    hn_str word = hn_lex_peek_word(&ps->lex);
    const char *before = ps->lex.p;
    ps->lex.p += word.len;
    if (word.len && hn_lex_accept(&ps->lex, '=')) return word;
    ps->lex.p = before;
    return (hn_str){NULL, 0};
}

/* What a parameter is when the text leaves it out. */
static hn_status fill_default(parser *ps, const hn_param *param, hn_arg *out) {
    *out = hn_arg_none();
    if (param->has_default)
        return hn_lex_blame(&ps->lex, ps->lex.p, hn_graph_default_arg(ps->g, param, out));
    if (param->optional) return NULL;
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "argument '" HN_STR_FMT "' is missing",
                                HN_STR_ARG(param->name));
    return hn_lex_blame(&ps->lex, ps->lex.p, status);
}

static hn_status read_args(parser *ps, hn_op op, arg_list *out) {
    uint32_t count;
    const hn_param *params = hn_op_params(op, &count);
    hn_arg arg;
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    bool more = !hn_lex_accept(&ps->lex, ')');
    while (more) {
        const char *where = hn_lex_here(&ps->lex);
        hn_str name = accept_param_name(ps);
        uint32_t at = out->count;
        while (name.len && at < count && !hn_str_eq(params[at].name, name)) at++;
        if (at >= count)
            return hn_lex_fail(&ps->lex, where,
                               name.len ? "no such parameter, or out of order"
                                        : "too many arguments");
        for (; out->count < at;) {
            HN_TRY(fill_default(ps, &params[out->count], &arg));
            HN_PUSH(ps->arena, out, arg);
        }
        HN_TRY(read_arg(ps, params[at].kind, &arg));
        HN_PUSH(ps->arena, out, arg);
        more = hn_lex_accept(&ps->lex, ',');
        if (!more) HN_TRY(hn_lex_expect(&ps->lex, ')'));
    }
    while (out->count < count) {
        HN_TRY(fill_default(ps, &params[out->count], &arg));
        HN_PUSH(ps->arena, out, arg);
    }
    return NULL;
}

/* --- nodes --- */

typedef struct label_list {
    hn_str *items; /* len 0: absent result, "_" */
    uint32_t count, cap;
} label_list;

static hn_status read_results(parser *ps, label_list *out) {
    do {
        hn_str label = {NULL, 0};
        if (!hn_lex_accept_word(&ps->lex, "_")) HN_TRY(read_label(ps, &label));
        HN_PUSH(ps->arena, out, label);
    } while (hn_lex_accept(&ps->lex, ','));
    return hn_lex_expect(&ps->lex, '=');
}

/* Results whose types the text leaves to inference. */
static hn_status infer_results(parser *ps, hn_op op, const arg_list *args, const label_list *labels,
                               hn_value *results) {
    hn_meta metas[HN_RESULTS_MAX];
    uint32_t count = 0;
    HN_TRY(hn_lex_blame(&ps->lex, ps->lex.p,
                        hn_infer(ps->g, op, args->items, args->count, metas, &count)));
    if (count != labels->count || (op == HN_OP_NONZERO))
        return hn_lex_fail(&ps->lex, ps->lex.p, "the types of the results are missing");
    for (uint32_t k = 0; k < count; k++) {
        value_type type = {.kind = HN_VALUE_TENSOR,
                           .dtype = metas[k].dtype,
                           .rank = metas[k].rank,
                           .name = HN_STR("")};
        memcpy(type.sizes, metas[k].sizes, metas[k].rank * sizeof *type.sizes);
        if (labels->items[k].len) HN_TRY(define_value(ps, labels->items[k], &type, &results[k]));
    }
    return NULL;
}

static hn_status read_result_types(parser *ps, const label_list *labels, hn_value *results) {
    for (uint32_t k = 0; k < labels->count; k++) {
        value_type type;
        if (k) HN_TRY(hn_lex_expect(&ps->lex, ','));
        if (!labels->items[k].len) {
            if (!hn_lex_accept_word(&ps->lex, "_"))
                return hn_lex_fail(&ps->lex, ps->lex.p, "expected '_' for an absent result");
            continue;
        }
        HN_TRY(read_type(ps, &type));
        HN_TRY(define_value(ps, labels->items[k], &type, &results[k]));
    }
    return NULL;
}

static hn_status read_origin(parser *ps) {
    hn_origin origin;
    ps->g->current_origin = 0;
    if (!hn_lex_accept_word(&ps->lex, "at")) return NULL;
    HN_TRY(hn_lex_string(&ps->lex, &origin.node));
    HN_TRY(hn_lex_string(&ps->lex, &origin.source));
    ps->g->current_origin = hn_graph_add_origin(ps->g, origin);
    return hn_graph_status(ps->g);
}

/* %a, _ = op(...) : f32[2], _ at "node" "file:1" */
static hn_status read_node(parser *ps) {
    label_list labels = {0};
    arg_list args = {0};
    hn_value *results = NULL;
    hn_str name;
    if (hn_lex_peek(&ps->lex) == '%' || hn_str_eq(hn_lex_peek_word(&ps->lex), HN_STR("_")))
        HN_TRY(read_results(ps, &labels));
    HN_TRY(hn_lex_word(&ps->lex, "expected a statement", &name));
    hn_op op = hn_op_find(name);
    if (!op) return hn_lex_fail(&ps->lex, name.ptr, "unknown op");
    HN_TRY(read_args(ps, op, &args));
    HN_TRY(hn_arena_array(ps->arena, labels.count, sizeof *results, &results));
    if (labels.count) {
        if (hn_lex_accept(&ps->lex, ':')) HN_TRY(read_result_types(ps, &labels, results));
        else HN_TRY(infer_results(ps, op, &args, &labels, results));
    }
    HN_TRY(read_origin(ps));
    hn_graph_add_node(ps->g, op, args.items, args.count, results, labels.count);
    ps->g->current_origin = 0;
    return hn_lex_blame(&ps->lex, name.ptr, hn_graph_status(ps->g));
}

/* --- other statements --- */

/* computed 0 | outer 2, in front of nothing else */
static hn_status read_link(parser *ps, hn_storage *storage) {
    if (hn_lex_accept_word(&ps->lex, "computed")) {
        HN_TRY(hn_lex_u32(&ps->lex, &storage->computed));
        if (++storage->computed == 0)
            return hn_lex_fail(&ps->lex, ps->lex.p, "the number of an output is too large");
    }
    if (hn_lex_accept_word(&ps->lex, "outer")) HN_TRY(hn_lex_u32(&ps->lex, &storage->outer));
    return NULL;
}

/* weights graph { ... }: what computes storages of this graph */
static hn_status read_weights_program(parser *ps) {
    if (ps->depth || ps->g->weights_program)
        return hn_lex_fail(&ps->lex, ps->lex.p, "a graph has one program of weights, at its top");
    parser inner = {.lex = ps->lex, .arena = ps->arena, .sym = ps->sym, .depth = 1};
    HN_TRY(parse_graph(&inner, &ps->g->weights_program));
    ps->lex.p = inner.lex.p;
    return NULL;
}

/* Its storages have the bytes of those that they are. */
static void link_outer(hn_graph *g) {
    const hn_graph *program = g->weights_program;
    for (uint32_t k = 1; program && k < program->storages.count; k++) {
        hn_storage *storage = &program->storages.items[k];
        if (!storage->outer || storage->outer >= g->storages.count) continue;
        storage->data = g->storages.items[storage->outer].data;
    }
}

/* storage 1 : 2560 bytes record "data/weights/weight_0" offset 64 hex 00ff */
static hn_status read_storage(parser *ps) {
    hn_storage storage = {.file_record = HN_STR("")};
    uint32_t index;
    int64_t number;
    HN_TRY(hn_lex_u32(&ps->lex, &index));
    if (index != ps->g->storages.count)
        return hn_lex_fail(&ps->lex, ps->lex.p, "storages are numbered from 1 in order");
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    HN_TRY(hn_lex_i64(&ps->lex, &number));
    if (number < 0 || !hn_lex_accept_word(&ps->lex, "bytes"))
        return hn_lex_fail(&ps->lex, ps->lex.p, "expected a size in bytes");
    storage.size_bytes = (size_t)number;
    HN_TRY(read_link(ps, &storage));
    if (hn_lex_accept_word(&ps->lex, "record"))
        HN_TRY(hn_lex_string(&ps->lex, &storage.file_record));
    if (hn_lex_accept_word(&ps->lex, "offset")) {
        HN_TRY(hn_lex_i64(&ps->lex, &number));
        if (number < 0) return hn_lex_fail(&ps->lex, ps->lex.p, "an offset is not negative");
        storage.file_offset = (uint64_t)number;
    }
    if (hn_lex_accept_word(&ps->lex, "hex")) {
        uint8_t *bytes = NULL;
        HN_TRY(hn_lex_hex(&ps->lex, storage.size_bytes, &bytes));
        storage.data = bytes;
    }
    hn_graph_add_storage(ps->g, storage);
    return hn_graph_status(ps->g);
}

static hn_status read_named_scalar(parser *ps, hn_str *out_name, hn_arg *out) {
    HN_TRY(hn_lex_string(&ps->lex, out_name));
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    return read_arg(ps, HN_PARAM_SCALAR, out);
}

static hn_status read_input_kind(parser *ps, hn_input_kind *out) {
    static const char *const words[] = {"user", "parameter", "buffer", "constant", "scalar"};
    for (int i = 0; i < 5; i++)
        if (hn_lex_accept_word(&ps->lex, words[i])) {
            *out = (hn_input_kind)i;
            return NULL;
        }
    return hn_lex_fail(&ps->lex, ps->lex.p, "expected the kind of an input");
}

static hn_status read_example_sizes(parser *ps, int64_t sizes[HN_MAX_RANK], uint32_t *out_rank) {
    *out_rank = 0;
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    if (hn_lex_accept(&ps->lex, ']')) return NULL;
    do {
        if (*out_rank == HN_MAX_RANK) return hn_lex_fail(&ps->lex, ps->lex.p, "too many sizes");
        const char *where = hn_lex_here(&ps->lex);
        HN_TRY(hn_lex_i64(&ps->lex, &sizes[*out_rank]));
        if (sizes[(*out_rank)++] < 0) return hn_lex_fail(&ps->lex, where, "a size is not negative");
    } while (hn_lex_accept(&ps->lex, ','));
    return hn_lex_expect(&ps->lex, ']');
}

/* example [2, 3] hex 00ff... */
static hn_status read_example(parser *ps, const hn_value_info *value, const hn_example **out) {
    const char *where = hn_lex_here(&ps->lex);
    int64_t bytes = hn_dtype_facts(value->dtype)->size_bytes, sizes[HN_MAX_RANK];
    hn_example *example;
    uint8_t *data = NULL;
    HN_NEW(ps->arena, example, 1);
    HN_TRY(read_example_sizes(ps, sizes, &example->rank));
    if (example->rank != value->rank)
        return hn_lex_fail(&ps->lex, where, "the example has another rank than the input");
    bool is_empty = false;
    for (uint32_t d = 0; d < example->rank; d++) is_empty |= sizes[d] == 0;
    for (uint32_t d = 0; d < example->rank && !is_empty; d++)
        if (!hn_mul_i64(bytes, sizes[d], &bytes))
            return hn_lex_fail(&ps->lex, where, "the bytes of the example exceed 64 bits");
    example->size_bytes = is_empty ? 0 : (size_t)bytes;
    int64_t *copy;
    HN_NEW(ps->arena, copy, example->rank + 1u);
    if (example->rank) memcpy(copy, sizes, example->rank * sizeof *copy);
    example->sizes = copy;
    if (!is_empty) {
        HN_TRY(hn_lex_expect_word(&ps->lex, "hex"));
        HN_TRY(hn_lex_hex(&ps->lex, example->size_bytes, &data));
    }
    example->bytes = data;
    *out = example;
    return NULL;
}

/* input parameter %w : f32[10, 64] storage 1 offset 0 "linear.weight" */
static hn_status read_input(parser *ps) {
    hn_input input = {.name = HN_STR("")};
    value_type type;
    hn_str label;
    HN_TRY(read_input_kind(ps, &input.kind));
    if (input.kind == HN_INPUT_SCALAR) {
        HN_TRY(read_named_scalar(ps, &input.name, &input.scalar));
        return hn_lex_blame(&ps->lex, ps->lex.p, hn_graph_add_input(ps->g, input));
    }
    HN_TRY(read_label(ps, &label));
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    HN_TRY(read_type(ps, &type));
    HN_TRY(define_value(ps, label, &type, &input.value));
    if (hn_lex_accept_word(&ps->lex, "storage")) {
        HN_TRY(hn_lex_u32(&ps->lex, &input.storage));
        HN_TRY(hn_lex_expect_word(&ps->lex, "offset"));
        HN_TRY(hn_lex_i64(&ps->lex, &input.storage_offset_elems));
    }
    if (hn_lex_accept_word(&ps->lex, "example"))
        HN_TRY(read_example(ps, hn_graph_value(ps->g, input.value), &input.example));
    HN_TRY(hn_lex_string(&ps->lex, &input.name));
    return hn_lex_blame(&ps->lex, ps->lex.p, hn_graph_add_input(ps->g, input));
}

/* output user %y "y" | output mutation %s of 2 "state" | output scalar "n" = 3 */
static hn_status read_output(parser *ps) {
    hn_output output = {.kind = HN_OUTPUT_USER, .name = HN_STR("")};
    if (hn_lex_accept_word(&ps->lex, "scalar")) {
        output.kind = HN_OUTPUT_SCALAR;
        HN_TRY(read_named_scalar(ps, &output.name, &output.scalar));
        return hn_lex_blame(&ps->lex, ps->lex.p, hn_graph_add_output(ps->g, output));
    }
    if (hn_lex_accept_word(&ps->lex, "mutation")) output.kind = HN_OUTPUT_MUTATION;
    else if (!hn_lex_accept_word(&ps->lex, "user"))
        return hn_lex_fail(&ps->lex, ps->lex.p, "expected the kind of an output");
    HN_TRY(read_value(ps, &output.value));
    if (output.kind == HN_OUTPUT_MUTATION) {
        HN_TRY(hn_lex_expect_word(&ps->lex, "of"));
        HN_TRY(hn_lex_u32(&ps->lex, &output.target));
    }
    HN_TRY(hn_lex_string(&ps->lex, &output.name));
    return hn_lex_blame(&ps->lex, ps->lex.p, hn_graph_add_output(ps->g, output));
}

static hn_status read_statement(parser *ps) {
    bool facts;
    HN_TRY(hn_text_facts_read(&ps->facts, &facts));
    if (facts) return NULL;
    HN_TRY(hn_text_facts_apply(&ps->facts));
    if (hn_lex_accept_word(&ps->lex, "storage")) return read_storage(ps);
    if (hn_lex_accept_word(&ps->lex, "weights")) return read_weights_program(ps);
    if (hn_lex_accept_word(&ps->lex, "input")) return read_input(ps);
    if (hn_lex_accept_word(&ps->lex, "output")) return read_output(ps);
    return read_node(ps);
}

static hn_status read_graph_name(parser *ps) {
    if (!hn_lex_accept(&ps->lex, '@')) return NULL;
    hn_str name;
    if (hn_lex_peek(&ps->lex) == '"') HN_TRY(hn_lex_string(&ps->lex, &name));
    else HN_TRY(hn_lex_word(&ps->lex, "expected the name of the graph", &name));
    const char *copy = hn_arena_strndup(ps->arena, name.ptr, name.len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the name of a graph");
    ps->g->name = (hn_str){copy, name.len};
    return NULL;
}

/* graph @name { statement... } */
static hn_status parse_graph(parser *ps, hn_graph **out) {
    HN_TRY(hn_graph_create(ps->arena, ps->sym, &ps->g));
    ps->facts = (hn_text_facts_reader){.lex = &ps->lex, .g = ps->g};
    hn_strmap_init(&ps->labels, ps->arena);
    HN_TRY(hn_lex_expect_word(&ps->lex, "graph"));
    HN_TRY(read_graph_name(ps));
    HN_TRY(hn_lex_expect(&ps->lex, '{'));
    while (!hn_lex_accept(&ps->lex, '}')) {
        if (!hn_lex_peek(&ps->lex)) return hn_lex_fail(&ps->lex, ps->lex.p, "expected '}'");
        HN_TRY(read_statement(ps));
    }
    HN_TRY(hn_text_facts_apply(&ps->facts));
    link_outer(ps->g);
    *out = ps->g;
    return NULL;
}

hn_status hn_graph_parse(hn_arena *arena, hn_sym *sym, hn_str text, hn_graph **out) {
    const char *start = text.ptr ? text.ptr : "";
    parser ps = {.lex = {.arena = arena, .start = start, .p = start, .end = start + text.len},
                 .arena = arena,
                 .sym = sym};
    hn_graph *g = NULL;
    HN_TRY(parse_graph(&ps, &g));
    if (hn_lex_here(&ps.lex) < ps.lex.end)
        return hn_lex_fail(&ps.lex, ps.lex.p, "expected the end of the text");
    *out = g;
    return NULL;
}
