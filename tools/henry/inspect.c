/* inspect.c: `henry inspect`: what is in a model file (models, signature, weights, operators) or in
 * a bundle. */
#include "tool.h"

#include "base/map.h"
#include "bundle/view.h"
#include "driver/driver.h"
#include "front/importer.h"

#include <stdlib.h>

typedef struct op_count {
    const char *name;
    uint32_t count;
} op_count;

/* A size symbol and where its value comes from. */
typedef struct symbol_place {
    hn_expr symbol;
    int32_t input, dim; /* input -1: from the data; dim -1: the value of a number */
} symbol_place;

typedef struct summary {
    const hn_graph *graph;
    hn_import_survey survey;
    op_count *ops; /* most frequent first */
    uint32_t op_kinds, op_total;
    uint64_t weight_bytes; /* storages, so tied weights count once */
    uint32_t parameters, buffers, constants;
    hn_arena *arena;
    struct {
        symbol_place *items;
        uint32_t count, cap;
    } symbols;
} summary;

static int by_count(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Counts equal names. */
static hn_status count_op(summary *s, hn_strmap *index, const char *name) {
    const uint64_t *at = hn_strmap_get(index, hn_str_of(name));
    s->op_total++;
    if (at) s->ops[*at].count++;
    else HN_TRY(hn_strmap_put(index, hn_str_of(name), s->op_kinds));
    if (!at) s->ops[s->op_kinds++] = (op_count){name, 1};
    return NULL;
}

/* Operators of the graph; where henry lacks some, as the file names them. */
static hn_status count_ops(summary *s) {
    const hn_graph *g = s->graph;
    hn_strmap index;
    hn_strmap_init(&index, s->arena);
    HN_NEW(s->arena, s->ops, (size_t)g->nodes.count + s->survey.target_count + 1);
    for (uint32_t k = 0; s->survey.missing_count && k < s->survey.target_count; k++)
        HN_TRY(count_op(s, &index, s->survey.targets[k].ptr));
    for (uint32_t n = 1; !s->survey.missing_count && n < g->nodes.count; n++)
        HN_TRY(count_op(s, &index, hn_op_facts(g->nodes.items[n].op)->name));
    qsort(s->ops, s->op_kinds, sizeof *s->ops, by_count);
    return NULL;
}

static hn_status add_symbol(summary *s, hn_expr symbol, int32_t input, int32_t dim) {
    for (uint32_t k = 0; k < s->symbols.count; k++)
        if (s->symbols.items[k].symbol == symbol) return NULL;
    HN_PUSH(s->arena, &s->symbols, ((symbol_place){symbol, input, dim}));
    return NULL;
}

/* The symbols in an expression. One that stands alone can be read there; the others are sized by
 * another input, or by data. */
static hn_status add_symbols_of(summary *s, hn_expr e, int32_t input, int32_t dim, bool alone) {
    hn_expr found[16];
    uint32_t count = hn_sym_symbols(s->graph->sym, e, found, 16);
    for (uint32_t k = 0; k < count && k < 16; k++)
        if (!alone || found[k] == e) HN_TRY(add_symbol(s, found[k], input, dim));
    return NULL;
}

static hn_status add_symbols(summary *s, const hn_value_info *info, int32_t input, bool alone) {
    if (info->kind == HN_VALUE_SYM_INT) return add_symbols_of(s, info->expr, input, -1, alone);
    for (uint32_t d = 0; info->kind == HN_VALUE_TENSOR && d < info->rank; d++)
        HN_TRY(add_symbols_of(s, info->sizes[d], input, (int32_t)d, alone));
    return NULL;
}

/* Each input of the caller's in order, then everything else, which shows the symbols that depend on
 * data. */
static hn_status find_symbols(summary *s) {
    const hn_graph *g = s->graph;
    for (int pass = 0; pass < 2; pass++) {
        int32_t input = 0;
        for (uint32_t k = 0; k < g->inputs.count; k++) {
            const hn_input *in = &g->inputs.items[k];
            if (in->kind != HN_INPUT_USER && in->kind != HN_INPUT_SCALAR) continue;
            if (in->value) HN_TRY(add_symbols(s, hn_graph_value(g, in->value), input, pass == 0));
            input++;
        }
    }
    for (uint32_t v = 1; v < g->values.count; v++)
        HN_TRY(add_symbols(s, hn_graph_value(g, v), -1, false));
    return NULL;
}

static hn_status summarise(const hn_graph *g, const hn_import_survey *survey, hn_arena *arena,
                           summary *out) {
    *out = (summary){.graph = g, .survey = *survey, .arena = arena};
    HN_TRY(count_ops(out));
    for (uint32_t k = 1; k < g->storages.count; k++)
        out->weight_bytes += g->storages.items[k].size_bytes;
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        out->parameters += g->inputs.items[k].kind == HN_INPUT_PARAMETER;
        out->buffers += g->inputs.items[k].kind == HN_INPUT_BUFFER;
        out->constants += g->inputs.items[k].kind == HN_INPUT_CONSTANT;
    }
    return find_symbols(out);
}

/* "f32[s0, 784]", "i64" for a scalar. */
static void print_value(const hn_graph *g, hn_value v, hn_strbuf *out) {
    const hn_value_info *info = hn_graph_value(g, v);
    if (info->kind != HN_VALUE_TENSOR) {
        hn_strbuf_puts(out, info->kind == HN_VALUE_SYM_INT     ? "int"
                            : info->kind == HN_VALUE_SYM_FLOAT ? "float"
                                                               : "bool");
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

static bool is_of_caller(const hn_input *in) {
    return in->kind == HN_INPUT_USER || in->kind == HN_INPUT_SCALAR;
}

/* --- as text --- */

static void text_value(const hn_graph *g, const char *what, hn_str name, hn_value value,
                       hn_strbuf *out) {
    hn_strbuf_printf(out, "  %-9s " HN_STR_FMT "  ", what, HN_STR_ARG(name));
    if (value) print_value(g, value, out);
    else hn_strbuf_puts(out, "constant");
    hn_strbuf_putc(out, '\n');
}

static void text_values(const hn_graph *g, hn_strbuf *out) {
    for (uint32_t k = 0; k < g->inputs.count; k++)
        if (is_of_caller(&g->inputs.items[k]))
            text_value(g, "input", g->inputs.items[k].name, g->inputs.items[k].value, out);
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        const hn_output *o = &g->outputs.items[k];
        bool is_mutation = o->kind == HN_OUTPUT_MUTATION;
        text_value(g, is_mutation ? "changes" : "output",
                   is_mutation ? g->inputs.items[o->target].name : o->name, o->value, out);
    }
}

/* The largest size that torch.export knows is one less than that of an int64: no bound either. */
static void range_of(const summary *s, hn_expr symbol, int64_t *lo, int64_t *hi) {
    hn_sym_range(s->graph->sym, symbol, lo, hi);
    if (*hi >= INT64_MAX - 1) *hi = INT64_MAX;
}

static void text_symbols(const summary *s, hn_strbuf *out) {
    for (uint32_t k = 0; k < s->symbols.count; k++) {
        const symbol_place *p = &s->symbols.items[k];
        hn_str name = hn_sym_symbol_name(s->graph->sym, p->symbol);
        int64_t lo, hi;
        range_of(s, p->symbol, &lo, &hi);
        hn_strbuf_printf(out, "  symbol    " HN_STR_FMT " in ", HN_STR_ARG(name));
        hn_bundle_range_print(lo, hi, out);
        if (p->input < 0) hn_strbuf_puts(out, " from the data");
        else hn_strbuf_printf(out, " from input %d", (int)p->input);
        if (p->dim >= 0 && p->input >= 0) hn_strbuf_printf(out, " dimension %d", (int)p->dim);
        hn_strbuf_putc(out, '\n');
    }
}

static const char *const relations[] = {"==", "!=", "<", "<="};

static void text_guards(const hn_graph *g, hn_strbuf *out) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(g->sym, &count);
    for (uint32_t k = 0; k < count; k++) {
        hn_strbuf_puts(out, "  guard     ");
        hn_sym_print(g->sym, guards[k].lhs, out);
        hn_strbuf_printf(out, " %s ", relations[guards[k].relation]);
        hn_sym_print(g->sym, guards[k].rhs, out);
        hn_strbuf_putc(out, '\n');
    }
}

static const char *plural(uint32_t count) { return count == 1 ? "" : "s"; }

static void text_missing(const hn_import_survey *survey, hn_strbuf *out) {
    if (!survey->missing_count) return;
    hn_strbuf_printf(
        out,
        "  cannot be compiled: %u operator%s not supported (outputs and changes are not shown)\n",
        survey->missing_count, survey->missing_count == 1 ? " is" : "s are");
    for (uint32_t k = 0; k < survey->missing_count; k++) {
        const hn_import_missing *m = &survey->missing[k];
        hn_strbuf_printf(
            out, "  %9u " HN_STR_FMT " (node '" HN_STR_FMT "'%s" HN_STR_FMT ")%s" HN_STR_FMT "\n",
            m->count, HN_STR_ARG(m->target), HN_STR_ARG(m->node), m->source.len ? ", " : "",
            HN_STR_ARG(m->source), m->reason.len ? ": " : "", HN_STR_ARG(m->reason));
    }
}

static void print_text(const char *path, hn_str model, const summary *s, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s, model '" HN_STR_FMT "'\n", path, HN_STR_ARG(model));
    text_values(s->graph, out);
    text_symbols(s, out);
    text_guards(s->graph, out);
    hn_strbuf_printf(out, "  weights   %llu bytes: %u parameter%s, %u buffer%s, %u constant%s\n",
                     (unsigned long long)s->weight_bytes, s->parameters, plural(s->parameters),
                     s->buffers, plural(s->buffers), s->constants, plural(s->constants));
    hn_strbuf_printf(out, "  operators %u, of %u kind%s\n", s->op_total, s->op_kinds,
                     plural(s->op_kinds));
    for (uint32_t k = 0; k < s->op_kinds; k++)
        hn_strbuf_printf(out, "  %9u %s\n", s->ops[k].count, s->ops[k].name);
    text_missing(&s->survey, out);
}

/* --- as JSON: keys as those of a bundle (bundle/describe_json.c) --- */

/* A number, or a string for an expression. */
static void json_expr(const hn_graph *g, const char *key, hn_expr e, tool_json *json) {
    int64_t value;
    hn_strbuf text;
    if (hn_sym_is_int(g->sym, e, &value)) {
        tool_json_int(json, key, value);
        return;
    }
    hn_strbuf_init(&text);
    hn_sym_print(g->sym, e, &text);
    tool_json_text(json, key, hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
}

static void json_value(const hn_graph *g, hn_str name, const char *target, hn_value value,
                       tool_json *json) {
    static const char *const kinds[] = {[HN_VALUE_TENSOR] = "tensor",
                                        [HN_VALUE_SYM_INT] = "int",
                                        [HN_VALUE_SYM_FLOAT] = "float",
                                        [HN_VALUE_SYM_BOOL] = "bool"};
    const hn_value_info *info = value ? hn_graph_value(g, value) : NULL;
    tool_json_open(json, NULL, '{');
    tool_json_text(json, "name", name);
    if (target) tool_json_str(json, "target", target);
    tool_json_str(json, "kind", info ? kinds[info->kind] : "constant");
    if (info && info->kind == HN_VALUE_TENSOR) {
        tool_json_str(json, "dtype", hn_dtype_facts(info->dtype)->name);
        tool_json_open(json, "shape", '[');
        for (uint32_t d = 0; d < info->rank; d++) json_expr(g, NULL, info->sizes[d], json);
        tool_json_close(json);
    }
    tool_json_close(json);
}

static void json_outputs(const hn_graph *g, bool mutations, tool_json *json) {
    tool_json_open(json, mutations ? "mutations" : "outputs", '[');
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        const hn_output *o = &g->outputs.items[k];
        if ((o->kind == HN_OUTPUT_MUTATION) != mutations) continue;
        const hn_input *in = mutations ? &g->inputs.items[o->target] : NULL;
        json_value(g, in ? in->name : o->name,
                   !in                ? NULL
                   : is_of_caller(in) ? "input"
                                      : "buffer",
                   o->value, json);
    }
    tool_json_close(json);
}

static void json_symbols(const summary *s, tool_json *json) {
    tool_json_open(json, "symbols", '[');
    for (uint32_t k = 0; k < s->symbols.count; k++) {
        const symbol_place *p = &s->symbols.items[k];
        int64_t lo, hi;
        range_of(s, p->symbol, &lo, &hi);
        tool_json_open(json, NULL, '{');
        tool_json_text(json, "name", hn_sym_symbol_name(s->graph->sym, p->symbol));
        if (lo != INT64_MIN) tool_json_int(json, "min", lo);
        if (hi != INT64_MAX) tool_json_int(json, "max", hi);
        if (p->input < 0) tool_json_str(json, "from", "data");
        else tool_json_int(json, "input", p->input);
        if (p->input >= 0 && p->dim >= 0) tool_json_int(json, "dim", p->dim);
        tool_json_close(json);
    }
    tool_json_close(json);
}

static void json_guards(const hn_graph *g, tool_json *json) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(g->sym, &count);
    tool_json_open(json, "guards", '[');
    for (uint32_t k = 0; k < count; k++) {
        tool_json_open(json, NULL, '{');
        json_expr(g, "lhs", guards[k].lhs, json);
        tool_json_str(json, "relation", relations[guards[k].relation]);
        json_expr(g, "rhs", guards[k].rhs, json);
        tool_json_close(json);
    }
    tool_json_close(json);
}

static void json_ops(const summary *s, tool_json *json) {
    tool_json_int(json, "nodes", s->op_total);
    tool_json_open(json, "operators", '{');
    for (uint32_t k = 0; k < s->op_kinds; k++) tool_json_int(json, s->ops[k].name, s->ops[k].count);
    tool_json_close(json);
    tool_json_open(json, "unsupported", '[');
    for (uint32_t k = 0; k < s->survey.missing_count; k++) {
        const hn_import_missing *m = &s->survey.missing[k];
        tool_json_open(json, NULL, '{');
        tool_json_text(json, "operator", m->target);
        tool_json_int(json, "count", m->count);
        tool_json_text(json, "node", m->node);
        tool_json_text(json, "source", m->source);
        tool_json_text(json, "reason", m->reason);
        tool_json_close(json);
    }
    tool_json_close(json);
}

static void print_json(hn_str model, const summary *s, tool_json *json) {
    const hn_graph *g = s->graph;
    tool_json_open(json, NULL, '{');
    tool_json_text(json, "model", model);
    tool_json_open(json, "inputs", '[');
    for (uint32_t k = 0; k < g->inputs.count; k++)
        if (is_of_caller(&g->inputs.items[k]))
            json_value(g, g->inputs.items[k].name, NULL, g->inputs.items[k].value, json);
    tool_json_close(json);
    json_outputs(g, false, json);
    json_outputs(g, true, json);
    json_symbols(s, json);
    json_guards(g, json);
    tool_json_int(json, "weights_bytes", (int64_t)s->weight_bytes);
    tool_json_int(json, "parameters", s->parameters);
    tool_json_int(json, "buffers", s->buffers);
    tool_json_int(json, "constants", s->constants);
    json_ops(s, json);
    tool_json_close(json);
}

/* Inputs and buffers that the model changes in place become outputs of the graph. */
static hn_status find_mutations(hn_graph *graph) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    hn_status status = hn_driver_pass_run(graph, "functionalize", &scratch);
    hn_arena_deinit(&scratch);
    return status;
}

static hn_status inspect_model(const tool_options *o, hn_model_file *file, hn_str model,
                               hn_strbuf *text, tool_json *json) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_import_survey survey;
    summary s;
    hn_arena_init(&arena);
    char *name = hn_arena_strndup(&arena, model.ptr, model.len);
    hn_status status =
        name ? hn_sym_create(&arena, &sym) : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    if (!status) status = file->importer->look(file, name, &arena, sym, &graph, &survey);
    if (!status) status = summarise(graph, &survey, &arena, &s);
    if (!status && !survey.missing_count) status = find_mutations(graph);
    if (!status && o->json) print_json(model, &s, json);
    if (!status && !o->json) print_text(o->args.items[0], model, &s, text);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status inspect_file(const tool_options *o) {
    hn_model_file *file;
    hn_strbuf text;
    tool_json json;
    hn_status status = NULL;
    HN_TRY(hn_model_open(o->args.items[0], &file));
    hn_strbuf_init(&text);
    tool_json_init(&json);
    tool_json_str(&json, "file", o->args.items[0]);
    tool_json_str(&json, "format", file->importer->name);
    tool_json_open(&json, "models", '[');
    if (o->verify)
        status = hn_status_annotate(file->importer->verify_all(file, 4), "'%s'", o->args.items[0]);
    bool found = !o->model_name;
    for (uint32_t k = 0; k < file->model_count && !status; k++) {
        if (o->model_name && !hn_str_eq(file->models[k], hn_str_of(o->model_name))) continue;
        found = true;
        status = inspect_model(o, file, file->models[k], &text, &json);
    }
    if (!status && !found)
        status = HN_ERROR(HN_NOT_FOUND, "'%s' holds no model called '%s'", o->args.items[0],
                          o->model_name);
    if (!status && o->json) status = tool_json_end(&json);
    if (!status) status = tool_deliver(o, o->json ? &json.text : &text);
    tool_json_deinit(&json);
    hn_strbuf_deinit(&text);
    hn_model_close(file);
    return status;
}

static hn_status inspect_bundle(const tool_options *o) {
    char *text;
    size_t len;
    if (o->index >= 0)
        return hn_bundle_object_extract(o->args.items[0], (unsigned)o->index, o->output);
    if (o->trusts.count || o->verify) HN_TRY(tool_bundle_verify(o, o->args.items[0]));
    HN_TRY(hn_bundle_describe_file(o->args.items[0], o->json ? HN_BUNDLE_JSON : HN_BUNDLE_TEXT,
                                   &text, &len));
    hn_strbuf all;
    hn_strbuf_init(&all);
    hn_str body = {text, len && text[len - 1] == '\n' ? len - 1 : len};
    if (o->json) {
        hn_strbuf_puts(&all, "{\"file\":");
        hn_strbuf_json(&all, hn_str_of(o->args.items[0]));
        hn_strbuf_puts(&all, ",\"format\":\"hnb\",\"models\":[");
    }
    hn_strbuf_append(&all, body.ptr, body.len);
    hn_strbuf_puts(&all, o->json ? "]}\n" : "\n");
    hn_bundle_text_free(text);
    hn_status status = tool_deliver(o, &all);
    hn_strbuf_deinit(&all);
    return status;
}

int tool_cmd_inspect(const tool_options *o) {
    const char *path = o->args.items[0];
    tool_kind kind;
    hn_status status = tool_kind_of(path, &kind);
    if (status) return tool_report(status);
    if (tool_options_check_kind("inspect", o, path, kind)) return TOOL_USAGE;
    if (o->index >= 0 && (!o->output || strcmp(o->output, "-") == 0))
        return tool_usage("inspect", "give the file for the object with -o FILE");
    if (o->index >= 0 && o->json)
        return tool_usage("inspect", "--json has no effect together with --object");
    return tool_report(kind == TOOL_MODEL ? inspect_file(o) : inspect_bundle(o));
}
