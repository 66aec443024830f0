/* generated.c: see generated.h. */
#include "bench/generated.h"

#include "base/compiler.h"

/* In a text R, C, H and D stand for rows, columns, half of the columns and depth. */
#define GRAPH(inputs, body) "graph @g {\n" inputs body "  output user %y \"y\"\n}\n"
#define X                   "  input user %x : f32[R, C] \"x\"\n"

static const struct {
    const char *name, *text;
} graphs[] = {
    {"softmax", GRAPH(X, "  %y = aten._softmax.default(%x, -1, false) : f32[R, C]\n")},
    {"layer_norm",
     GRAPH(X "  input user %w : f32[C] \"w\"\n  input user %b : f32[C] \"b\"\n",
           "  %y = aten.layer_norm.default(%x, [C], %w, %b, 1e-05, false) : f32[R, C]\n")},
    {"silu(a*b+c)",
     GRAPH(X "  input user %b : f32[R, C] \"b\"\n  input user %c : f32[R, C] \"c\"\n",
           "  %m = mul(%x, %b)\n  %s = add(%m, %c)\n  %y = aten.silu.default(%s) : f32[R, C]\n")},
    {"sum of rows", GRAPH(X, "  %y = sum(%x, dims=[1], keepdim=false)\n")},
    {"sum of columns", GRAPH(X, "  %y = sum(%x, dims=[0], keepdim=false)\n")},
    {"transpose",
     GRAPH("  input user %x : f32[C, R] \"x\"\n", "  %y = permute(%x, dims=[1, 0])\n")},
    {"x.t() + y", GRAPH("  input user %x : f32[C, R] \"x\"\n  input user %b : f32[R, C] \"b\"\n",
                        "  %t = permute(%x, dims=[1, 0])\n  %y = add(%t, %b)\n")},
    {"cat", GRAPH("  input user %x : f32[R, H] \"x\"\n  input user %b : f32[R, H] \"b\"\n",
                  "  %y = cat([%x, %b], dim=1)\n")},
    {"embedding", GRAPH("  input user %x : f32[D, C] \"x\"\n  input user %i : i64[R] \"i\"\n",
                        "  %y = aten.embedding.default(%x, %i, -1, false, false) : f32[R, C]\n")},
    {"gather", GRAPH(X "  input user %i : i64[R, C] \"i\"\n", "  %y = gather(%x, %i, dim=1)\n")},
};

static const char *text_of(const char *name) {
    for (size_t k = 0; k < HN_COUNT_OF(graphs); k++)
        if (strcmp(graphs[k].name, name) == 0) return graphs[k].text;
    return NULL;
}

/* Capital letters that stand alone become numbers. */
static void fill_in(const char *text, const generated_wanted *w, hn_strbuf *out) {
    for (const char *p = text; *p; p++) {
        bool alone = p > text && (p[-1] == '[' || p[-1] == ' ') && (p[1] == ']' || p[1] == ',');
        int64_t n = *p == 'R'   ? w->rows
                    : *p == 'C' ? w->cols
                    : *p == 'H' ? w->cols / 2
                    : *p == 'D' ? w->depth
                                : 0;
        if (alone && n) hn_strbuf_printf(out, "%lld", (long long)n);
        else hn_strbuf_printf(out, "%c", *p);
    }
}

static hn_status compile_text(hn_str text, hn_service *service, int threads, hn_module **out) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_compiled *compiled = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, text, &graph);
    if (!status)
        status =
            hn_compile_graph(graph, service, &(hn_compile_options){.threads = threads}, &compiled);
    if (!status)
        status = hn_compiled_load(compiled,
                                  &(hn_module_options){.threads = threads, .profile = true}, out);
    hn_compiled_release(compiled);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

hn_status generated_make(const generated_wanted *wanted, hn_service *service, generated *out) {
    const char *text = text_of(wanted->name);
    hn_strbuf filled;
    *out = (generated){.module = NULL};
    if (!text) return HN_ERROR(HN_NOT_FOUND, "no graph is called '%s'", wanted->name);
    hn_strbuf_init(&filled);
    fill_in(text, wanted, &filled);
    hn_status status =
        compile_text((hn_str){filled.ptr, filled.len}, service, wanted->threads, &out->module);
    hn_strbuf_deinit(&filled);
    return status;
}

hn_status generated_give(generated *g, void *memory) {
    const bool is_output = g->input_count == hn_module_input_count(g->module);
    hn_module_value_info info;
    int64_t sizes[HN_TENSOR_MAX_RANK];
    HN_TRY(is_output ? hn_module_output_info(g->module, 0, &info)
                     : hn_module_input_info(g->module, g->input_count, &info));
    for (uint32_t d = 0; d < info.rank; d++) sizes[d] = info.sizes[d].value;
    HN_TRY(hn_tensor_create(
        &(hn_tensor_desc){.type = info.type, .rank = info.rank, .sizes = sizes, .data = memory},
        is_output ? &g->output : &g->inputs[g->input_count]));
    g->input_count += !is_output;
    return NULL;
}

hn_status generated_run(generated *g) {
    return hn_module_run(g->module, g->inputs, g->input_count, &g->output, 1);
}

void generated_deinit(generated *g) {
    for (uint32_t k = 0; k < g->input_count; k++) hn_tensor_release(g->inputs[k]);
    hn_tensor_release(g->output);
    hn_module_release(g->module);
}
