/* inspect.c: `henry inspect`: what is in a .pt2 (models, signature, weights, operators) or in a bundle. */
#include "tool.h"

#include "base/file.h"
#include "front/pt2/pt2.h"

#include <stdlib.h>

typedef struct op_count {
    hn_op op;
    uint32_t count;
} op_count;

typedef struct summary {
    const hn_graph *graph;
    op_count *ops; /* most frequent first */
    uint32_t op_kinds, op_total;
    uint64_t weight_bytes; /* storages, so tied weights count once */
    uint32_t parameters, buffers, constants;
} summary;

static int by_count(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(hn_op_facts(x->op)->name, hn_op_facts(y->op)->name);
}

static hn_status summarise(const hn_graph *g, hn_arena *arena, summary *out) {
    *out = (summary){.graph = g};
    HN_NEW(arena, out->ops, HN_ALL_OP_COUNT);
    uint32_t *counts;
    HN_NEW(arena, counts, HN_ALL_OP_COUNT);
    for (uint32_t n = 1; n < g->nodes.count; n++) {
        counts[g->nodes.items[n].op]++;
        out->op_total++;
    }
    for (uint32_t op = 0; op < HN_ALL_OP_COUNT; op++)
        if (counts[op]) out->ops[out->op_kinds++] = (op_count){(hn_op)op, counts[op]};
    qsort(out->ops, out->op_kinds, sizeof *out->ops, by_count);
    for (uint32_t k = 1; k < g->storages.count; k++) out->weight_bytes += g->storages.items[k].size_bytes;
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        out->parameters += g->inputs.items[k].kind == HN_INPUT_PARAMETER;
        out->buffers += g->inputs.items[k].kind == HN_INPUT_BUFFER;
        out->constants += g->inputs.items[k].kind == HN_INPUT_CONSTANT;
    }
    return NULL;
}

/* "f32[s0, 784]", "i64" for a scalar. */
static void print_value(const hn_graph *g, hn_value v, hn_strbuf *out) {
    const hn_value_info *info = hn_graph_value(g, v);
    if (info->kind != HN_VALUE_TENSOR) {
        hn_strbuf_puts(out, info->kind == HN_VALUE_SYM_INT ? "int" : info->kind == HN_VALUE_SYM_FLOAT ? "float" : "bool");
        return;
    }
    hn_strbuf_puts(out, hn_dtype_facts(info->dtype)->name);
    hn_strbuf_putc(out, '[');
    for (uint32_t d = 0; d < info->rank; d++) {
        if (d) hn_strbuf_puts(out, ", ");
        hn_sym_print(g->sym, info->sizes[d], out);
    }
    hn_strbuf_putc(out, ']');
}

/* A line, or a list element, for each user input and output. */
typedef void (*value_writer)(void *context, const char *what, hn_str name, hn_str type);

static void each_value(const hn_graph *g, value_writer write, void *context, bool outputs) {
    static const char *const kinds[] = {"output", "mutation", "scalar"};
    hn_strbuf type;
    hn_strbuf_init(&type);
    for (uint32_t k = 0; k < (outputs ? g->outputs.count : g->inputs.count); k++) {
        const hn_input *in = outputs ? NULL : &g->inputs.items[k];
        const hn_output *out = outputs ? &g->outputs.items[k] : NULL;
        if (in && in->kind != HN_INPUT_USER && in->kind != HN_INPUT_SCALAR) continue;
        hn_value value = in ? in->value : out->value;
        hn_str name = in ? in->name : out->name;
        if (out && out->kind == HN_OUTPUT_MUTATION) name = g->inputs.items[out->target].name;
        hn_strbuf_reset(&type);
        if (value) print_value(g, value, &type);
        else hn_strbuf_puts(&type, "constant");
        write(context, in ? "input" : kinds[out->kind], name, hn_strbuf_str(&type));
    }
    hn_strbuf_deinit(&type);
}

static void write_line(void *context, const char *what, hn_str name, hn_str type) {
    hn_strbuf_printf(context, "  %-9s " HN_STR_FMT "  " HN_STR_FMT "\n", what, HN_STR_ARG(name), HN_STR_ARG(type));
}

static void write_item(void *context, const char *what, hn_str name, hn_str type) {
    tool_json *json = context;
    tool_json_open(json, NULL, '{');
    tool_json_text(json, "name", name);
    tool_json_str(json, "kind", what);
    tool_json_text(json, "type", type);
    tool_json_close(json);
}

static void print_guards(const hn_graph *g, hn_strbuf *out) {
    static const char *const relations[] = {" == ", " != ", " < ", " <= "};
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(g->sym, &count);
    for (uint32_t k = 0; k < count; k++) {
        hn_strbuf_puts(out, "  guard     ");
        hn_sym_print(g->sym, guards[k].lhs, out);
        hn_strbuf_puts(out, relations[guards[k].relation]);
        hn_sym_print(g->sym, guards[k].rhs, out);
        hn_strbuf_putc(out, '\n');
    }
}

static void print_text(const char *path, hn_str model, const summary *s, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s, model '" HN_STR_FMT "'\n", path, HN_STR_ARG(model));
    each_value(s->graph, write_line, out, false);
    each_value(s->graph, write_line, out, true);
    print_guards(s->graph, out);
    hn_strbuf_printf(out, "  weights   %llu bytes: %u parameters, %u buffers, %u constants\n", (unsigned long long)s->weight_bytes,
                     s->parameters, s->buffers, s->constants);
    hn_strbuf_printf(out, "  operators %u, of %u kinds\n", s->op_total, s->op_kinds);
    for (uint32_t k = 0; k < s->op_kinds; k++)
        hn_strbuf_printf(out, "  %9u %s\n", s->ops[k].count, hn_op_facts(s->ops[k].op)->name);
}

static void print_json(hn_str model, const summary *s, tool_json *json) {
    tool_json_open(json, NULL, '{');
    tool_json_text(json, "name", model);
    tool_json_open(json, "inputs", '[');
    each_value(s->graph, write_item, json, false);
    tool_json_close(json);
    tool_json_open(json, "outputs", '[');
    each_value(s->graph, write_item, json, true);
    tool_json_close(json);
    tool_json_int(json, "weight_bytes", (int64_t)s->weight_bytes);
    tool_json_int(json, "parameters", s->parameters);
    tool_json_int(json, "buffers", s->buffers);
    tool_json_int(json, "constants", s->constants);
    tool_json_int(json, "nodes", s->op_total);
    tool_json_open(json, "operators", '{');
    for (uint32_t k = 0; k < s->op_kinds; k++) tool_json_int(json, hn_op_facts(s->ops[k].op)->name, s->ops[k].count);
    tool_json_close(json);
    tool_json_close(json);
}

static hn_status inspect_model(const tool_options *o, hn_pt2 *file, hn_str model, hn_strbuf *text, tool_json *json) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    summary s;
    hn_arena_init(&arena);
    char *name = hn_arena_strndup(&arena, model.ptr, model.len);
    hn_status status = name ? hn_sym_create(&arena, &sym) : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    if (!status) status = hn_pt2_import(file, name, &arena, sym, &graph);
    if (!status) status = summarise(graph, &arena, &s);
    if (!status && o->json) print_json(model, &s, json);
    if (!status && !o->json) print_text(o->args.items[0], model, &s, text);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status inspect_pt2(const tool_options *o) {
    hn_pt2 *file;
    const hn_str *models;
    uint32_t count;
    hn_strbuf text;
    tool_json json;
    hn_status status = NULL;
    HN_TRY(hn_pt2_open(o->args.items[0], &file));
    hn_strbuf_init(&text);
    tool_json_init(&json);
    tool_json_str(&json, "file", o->args.items[0]);
    tool_json_open(&json, "models", '[');
    if (o->verify) status = hn_status_annotate(hn_pt2_verify_all(file, 4), "'%s'", o->args.items[0]);
    hn_pt2_models(file, &models, &count);
    bool found = !o->model_name;
    for (uint32_t k = 0; k < count && !status; k++) {
        if (o->model_name && !hn_str_eq(models[k], hn_str_of(o->model_name))) continue;
        found = true;
        status = inspect_model(o, file, models[k], &text, &json);
    }
    if (!status && !found) status = HN_ERROR(HN_NOT_FOUND, "'%s' holds no model called '%s'", o->args.items[0], o->model_name);
    if (!status && o->output && !o->json) status = hn_file_write_atomic(o->output, text.ptr, text.len, false);
    else if (!status) status = o->json ? tool_json_finish(&json, !o->output, o->output) : tool_print(&text);
    tool_json_deinit(&json);
    hn_strbuf_deinit(&text);
    hn_pt2_close(file);
    return status;
}

static hn_status inspect_bundle(const tool_options *o) {
    char *text;
    size_t len;
    if (o->index >= 0) {
        if (!o->output) return HN_ERROR(HN_INVALID_ARGUMENT, "--object needs -o FILE");
        return hn_bundle_object_extract(o->args.items[0], (unsigned)o->index, o->output);
    }
    if (o->trusts.count) HN_TRY(tool_bundle_verify(o, o->args.items[0]));
    else if (o->verify) HN_TRY(hn_bundle_verify_file(o->args.items[0], true));
    HN_TRY(hn_bundle_describe_file(o->args.items[0], o->json ? HN_BUNDLE_JSON : HN_BUNDLE_TEXT, &text, &len));
    hn_strbuf all;
    hn_strbuf_init(&all);
    hn_strbuf_append(&all, text, len);
    if (len && text[len - 1] != '\n') hn_strbuf_putc(&all, '\n');
    hn_bundle_text_free(text);
    hn_status status = o->output ? hn_file_write_atomic(o->output, all.ptr, all.len, false) : tool_print(&all);
    hn_strbuf_deinit(&all);
    return status;
}

int tool_cmd_inspect(const tool_options *o) {
    tool_kind kind;
    hn_status status = tool_kind_of(o->args.items[0], &kind);
    if (!status && kind == TOOL_PT2 && o->index >= 0) return tool_usage("inspect", "--object is for bundles");
    if (!status) status = kind == TOOL_PT2 ? inspect_pt2(o) : inspect_bundle(o);
    return tool_report(status);
}
