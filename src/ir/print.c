/* print.c: the text form of graphs. Grammar: docs/ir.md. The same graph prints the same text
 * always: values are numbered in the order of their definitions, and a value whose name is a fit
 * and not yet taken goes by that name. */
#include "ir/check.h"
#include "ir/facts.h"
#include "ir/text.h"

typedef struct printer {
    const hn_graph *g;
    hn_strbuf *out;
    int depth; /* of indentation */
    hn_arena *scratch;
    uint32_t *numbers; /* per value: its place in the order of definitions, from 0 */
    uint8_t *marks;    /* per value */
    uint32_t next;
    bool is_whole; /* with all bytes */
} printer;
enum { DEFINED = 1, NAMED = 2 };

static void print_graph(const hn_graph *g, hn_strbuf *out, int depth, bool is_whole);

static void put(printer *p, const char *text) { hn_strbuf_puts(p->out, text); }

static void begin_line(printer *p) {
    for (int i = 0; i < p->depth; i++) put(p, "  ");
}

static void put_expr(printer *p, hn_expr e) { hn_text_print_expr(p->g->sym, e, p->out); }

/* --- labels --- */

static hn_status define_value(printer *p, hn_strmap *names, hn_value v) {
    if (!v || v >= p->g->values.count || (p->marks[v] & DEFINED)) return NULL;
    p->marks[v] = DEFINED;
    p->numbers[v] = p->next++;
    hn_str name = p->g->values.items[v].name;
    if (!hn_text_is_name(name) || hn_strmap_get(names, name)) return NULL;
    p->marks[v] |= NAMED;
    return hn_strmap_put(names, name, v);
}

static hn_status number_values(printer *p) {
    const hn_graph *g = p->g;
    hn_strmap names;
    hn_strmap_init(&names, p->scratch);
    HN_TRY(hn_arena_array(p->scratch, g->values.count, sizeof *p->numbers, &p->numbers));
    HN_TRY(hn_arena_array(p->scratch, g->values.count, sizeof *p->marks, &p->marks));
    for (uint32_t i = 0; i < g->inputs.count; i++)
        HN_TRY(define_value(p, &names, g->inputs.items[i].value));
    for (uint32_t n = 1; n < g->nodes.count; n++) {
        const hn_node_info *node = &g->nodes.items[n];
        for (uint32_t k = 0; !node->dead && k < node->result_count; k++)
            HN_TRY(define_value(p, &names, node->results[k]));
    }
    return NULL;
}

static void put_value(printer *p, hn_value v) {
    if (!v || v >= p->g->values.count || !(p->marks[v] & DEFINED)) {
        /* the graph does not verify; show it all the same */
        hn_strbuf_printf(p->out, v ? "%%undefined.%u" : "none", v);
    } else if (p->marks[v] & NAMED) {
        hn_strbuf_putc(p->out, '%');
        hn_strbuf_append(p->out, p->g->values.items[v].name.ptr, p->g->values.items[v].name.len);
    } else {
        hn_strbuf_putc(p->out, '%');
        hn_strbuf_i64(p->out, p->numbers[v]);
    }
}

static void put_type(printer *p, hn_value v) {
    static const char *const scalars[] = {[HN_VALUE_SYM_INT] = "symint",
                                          [HN_VALUE_SYM_FLOAT] = "symfloat",
                                          [HN_VALUE_SYM_BOOL] = "symbool"};
    const hn_value_info *info = hn_graph_value(p->g, v);
    if (info->kind == HN_VALUE_TENSOR) {
        hn_sizes_print(p->g, info->dtype, info->sizes, info->rank, p->out);
        if (info->strides) {
            put(p, " strides [");
            for (uint32_t i = 0; i < info->rank; i++) {
                if (i) put(p, ", ");
                put_expr(p, info->strides[i]);
            }
            put(p, "]");
        }
    } else {
        put(p, scalars[info->kind]);
        if (info->expr) {
            put(p, "(");
            put_expr(p, info->expr);
            put(p, ")");
        }
    }
    if (info->name.len && !(p->marks[v] & NAMED)) {
        put(p, " name ");
        hn_text_print_string(info->name, p->out);
    }
}

/* --- arguments --- */

static void put_element(printer *p, const hn_arg *arg, uint32_t i) {
    if (arg->kind == HN_ARG_VALUES) put_value(p, arg->as.values[i]);
    else if (arg->kind == HN_ARG_INTS) put_expr(p, arg->as.exprs[i]);
    else hn_text_print_float(arg->as.floats[i], p->out);
}

/* Bare only where nothing but a dtype is meant: u8 is also the name of a data symbol. */
static void put_dtype(printer *p, hn_dtype dtype, bool bare) {
    hn_strbuf_printf(p->out, bare ? "%s" : "dtype(%s)", hn_dtype_facts(dtype)->name);
}

static void put_arg(printer *p, const hn_arg *arg, hn_param_kind want) {
    switch (arg->kind) {
    case HN_ARG_NONE: put(p, "none"); return;
    case HN_ARG_VALUE: put_value(p, arg->as.value); return;
    case HN_ARG_INT: put_expr(p, arg->as.expr); return;
    case HN_ARG_FLOAT: hn_text_print_float(arg->as.f, p->out); return;
    case HN_ARG_BOOL: put(p, arg->as.b ? "true" : "false"); return;
    case HN_ARG_STRING: hn_text_print_string(arg->as.s, p->out); return;
    case HN_ARG_DTYPE: put_dtype(p, arg->as.dtype, want == HN_PARAM_DTYPE); return;
    case HN_ARG_GRAPH: print_graph(arg->as.graph, p->out, p->depth, p->is_whole); return;
    case HN_ARG_VALUES:
    case HN_ARG_INTS:
    case HN_ARG_FLOATS: break;
    }
    put(p, "[");
    for (uint32_t i = 0; i < arg->count; i++) {
        if (i) put(p, ", ");
        put_element(p, arg, i);
    }
    put(p, "]");
}

static void put_call(printer *p, const hn_node_info *node) {
    uint32_t count;
    const hn_param *params = hn_op_params(node->op, &count);
    put(p, hn_op_facts(node->op)->name);
    put(p, "(");
    for (uint32_t i = 0; i < node->arg_count; i++) {
        if (i) put(p, ", ");
        bool operand = node->args[i].kind == HN_ARG_VALUE || node->args[i].kind == HN_ARG_VALUES;
        if (!operand && i < count) {
            hn_strbuf_append(p->out, params[i].name.ptr, params[i].name.len);
            put(p, "=");
        }
        put_arg(p, &node->args[i], i < count ? params[i].kind : HN_PARAM_SCALAR);
    }
    put(p, ")");
}

/* --- statements --- */

static void put_results(printer *p, const hn_node_info *node, bool types) {
    for (uint32_t k = 0; k < node->result_count; k++) {
        if (k) put(p, ", ");
        if (!node->results[k]) put(p, "_");
        else if (types) put_type(p, node->results[k]);
        else put_value(p, node->results[k]);
    }
}

static void put_node(printer *p, const hn_node_info *node) {
    begin_line(p);
    if (node->result_count) {
        put_results(p, node, false);
        put(p, " = ");
    }
    put_call(p, node);
    if (node->result_count) {
        put(p, " : ");
        put_results(p, node, true);
    }
    if (node->origin && node->origin < p->g->origins.count) {
        put(p, " at ");
        hn_text_print_string(p->g->origins.items[node->origin].node, p->out);
        put(p, " ");
        hn_text_print_string(p->g->origins.items[node->origin].source, p->out);
    }
    put(p, "\n");
}

/* --- bytes --- */

enum { INLINE_BYTES = 64 };

static bool is_printed(const printer *p, size_t bytes) {
    return bytes && (p->is_whole || bytes <= INLINE_BYTES);
}

static void put_hex(printer *p, const uint8_t *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    put(p, " hex ");
    for (size_t i = 0; i < count; i++) {
        const char pair[] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        hn_strbuf_append(p->out, pair, sizeof pair);
    }
}

/* NULL: the graph does not have them. */
static const uint8_t *storage_bytes(printer *p, uint32_t index) {
    const uint8_t *bytes = p->g->storages.items[index].data;
    hn_status status = NULL;
    if (p->is_whole) status = hn_graph_storage_data(p->g, index, p->scratch, &bytes);
    if (status) p->out->failed = true; /* only memory can fail here */
    hn_status_free(status);
    return bytes;
}

static void put_storage(printer *p, uint32_t index) {
    const hn_storage *storage = &p->g->storages.items[index];
    const bool is_here =
        is_printed(p, storage->size_bytes) && !storage->computed && !storage->outer;
    const uint8_t *bytes = is_here ? storage_bytes(p, index) : NULL;
    begin_line(p);
    hn_strbuf_printf(p->out, "storage %u : %zu bytes", index, storage->size_bytes);
    if (storage->computed) hn_strbuf_printf(p->out, " computed %u", storage->computed - 1);
    if (storage->outer) hn_strbuf_printf(p->out, " outer %u", storage->outer);
    if (storage->file_record.len) {
        put(p, " record ");
        hn_text_print_string(storage->file_record, p->out);
    }
    if (storage->file_offset)
        hn_strbuf_printf(p->out, " offset %llu", (unsigned long long)storage->file_offset);
    if (bytes) put_hex(p, bytes, storage->size_bytes);
    put(p, "\n");
}

/* Behind the storages, which it names. */
static void put_weights_program(printer *p) {
    if (!p->g->weights_program) return;
    begin_line(p);
    put(p, "weights ");
    print_graph(p->g->weights_program, p->out, p->depth, p->is_whole);
    put(p, "\n");
}

static void put_example(printer *p, const hn_example *example) {
    if (!example || (example->size_bytes && !is_printed(p, example->size_bytes))) return;
    put(p, " example [");
    for (uint32_t d = 0; d < example->rank; d++)
        hn_strbuf_printf(p->out, "%s%lld", d ? ", " : "", (long long)example->sizes[d]);
    put(p, "]");
    if (example->size_bytes) put_hex(p, example->bytes, example->size_bytes);
}

static void put_input(printer *p, const hn_input *input) {
    static const char *const kinds[] = {[HN_INPUT_USER] = "user",
                                        [HN_INPUT_PARAMETER] = "parameter",
                                        [HN_INPUT_BUFFER] = "buffer",
                                        [HN_INPUT_CONSTANT] = "constant",
                                        [HN_INPUT_SCALAR] = "scalar"};
    begin_line(p);
    put(p, "input ");
    put(p, kinds[input->kind]);
    put(p, " ");
    if (input->kind == HN_INPUT_SCALAR) {
        hn_text_print_string(input->name, p->out);
        put(p, " = ");
        put_arg(p, &input->scalar, HN_PARAM_SCALAR);
        put(p, "\n");
        return;
    }
    put_value(p, input->value);
    put(p, " : ");
    if (input->value) put_type(p, input->value);
    if (input->storage)
        hn_strbuf_printf(p->out, " storage %u offset %lld", input->storage,
                         (long long)input->storage_offset_elems);
    put_example(p, input->example);
    put(p, " ");
    hn_text_print_string(input->name, p->out);
    put(p, "\n");
}

static void put_output(printer *p, const hn_output *output) {
    begin_line(p);
    if (output->kind == HN_OUTPUT_SCALAR) {
        put(p, "output scalar ");
        hn_text_print_string(output->name, p->out);
        put(p, " = ");
        put_arg(p, &output->scalar, HN_PARAM_SCALAR);
    } else {
        put(p, output->kind == HN_OUTPUT_USER ? "output user " : "output mutation ");
        put_value(p, output->value);
        if (output->kind == HN_OUTPUT_MUTATION) hn_strbuf_printf(p->out, " of %u", output->target);
        put(p, " ");
        hn_text_print_string(output->name, p->out);
    }
    put(p, "\n");
}

/* --- symbols and guards, of the outermost graph --- */

static hn_status collect_graph(hn_text_facts *c, const hn_graph *g);

static hn_status collect_arg(hn_text_facts *c, const hn_arg *arg) {
    switch (arg->kind) {
    case HN_ARG_INT: return hn_text_facts_collect(c, arg->as.expr);
    case HN_ARG_INTS: return hn_text_facts_collect_list(c, arg->as.exprs, arg->count);
    case HN_ARG_GRAPH: return collect_graph(c, arg->as.graph);
    default: return NULL;
    }
}

static hn_status collect_value(hn_text_facts *c, const hn_graph *g, hn_value v) {
    if (!v || v >= g->values.count) return NULL;
    const hn_value_info *info = &g->values.items[v];
    HN_TRY(hn_text_facts_collect(c, info->expr));
    HN_TRY(hn_text_facts_collect_list(c, info->sizes, info->rank));
    return hn_text_facts_collect_list(c, info->strides, info->rank);
}

/* Only what is printed counts, so that the text of a parsed text names the same symbols. */
static hn_status collect_graph(hn_text_facts *c, const hn_graph *g) {
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        HN_TRY(collect_value(c, g, g->inputs.items[i].value));
        HN_TRY(collect_arg(c, &g->inputs.items[i].scalar));
    }
    for (uint32_t n = 1; n < g->nodes.count; n++) {
        const hn_node_info *node = &g->nodes.items[n];
        for (uint32_t i = 0; !node->dead && i < node->arg_count; i++)
            HN_TRY(collect_arg(c, &node->args[i]));
        for (uint32_t k = 0; !node->dead && k < node->result_count; k++)
            HN_TRY(collect_value(c, g, node->results[k]));
    }
    for (uint32_t i = 0; i < g->outputs.count; i++)
        HN_TRY(collect_arg(c, &g->outputs.items[i].scalar));
    return NULL;
}

static hn_status put_facts(printer *p) {
    hn_text_facts facts;
    hn_text_facts_init(&facts, p->g->sym, p->scratch);
    HN_TRY(collect_graph(&facts, p->g));
    return hn_text_facts_print(&facts, p->g, p->depth, p->out);
}

/* --- graphs --- */

static hn_status put_body(printer *p) {
    const hn_graph *g = p->g;
    HN_TRY(number_values(p));
    put(p, "graph ");
    if (g->name.len) {
        put(p, "@");
        if (hn_text_is_name(g->name)) hn_strbuf_append(p->out, g->name.ptr, g->name.len);
        else hn_text_print_string(g->name, p->out);
        put(p, " ");
    }
    put(p, "{\n");
    p->depth++;
    if (p->depth == 1) HN_TRY(put_facts(p));
    for (uint32_t i = 1; i < g->storages.count; i++) put_storage(p, i);
    put_weights_program(p);
    for (uint32_t i = 0; i < g->inputs.count; i++) put_input(p, &g->inputs.items[i]);
    for (uint32_t n = 1; n < g->nodes.count; n++)
        if (!g->nodes.items[n].dead) put_node(p, &g->nodes.items[n]);
    for (uint32_t i = 0; i < g->outputs.count; i++) put_output(p, &g->outputs.items[i]);
    p->depth--;
    begin_line(p);
    put(p, "}");
    return NULL;
}

static void print_graph(const hn_graph *g, hn_strbuf *out, int depth, bool is_whole) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    printer p = {.g = g, .out = out, .depth = depth, .scratch = &scratch, .is_whole = is_whole};
    hn_status status = put_body(&p);
    if (status) out->failed = true; /* only memory can fail here, and the buffer reports that */
    hn_status_free(status);
    hn_arena_deinit(&scratch);
}

void hn_graph_print(const hn_graph *graph, hn_strbuf *out) {
    print_graph(graph, out, 0, false);
    hn_strbuf_putc(out, '\n');
}

void hn_graph_print_whole(const hn_graph *graph, hn_strbuf *out) {
    print_graph(graph, out, 0, true);
    hn_strbuf_putc(out, '\n');
}
