/* subject.c: see the header. */
#include "bisect/subject.h"

#include "tune/match.h"

#include <string.h>

hn_status hn_subject_init(hn_subject *s, const char *path, const hn_subject_options *options) {
    hn_model_file *file = NULL;
    *s = (hn_subject){.path = path};
    hn_arena_init(&s->arena);
    HN_TRY(hn_model_open(path, &file));
    hn_status status = hn_subject_init_file(s, file, options);
    s->path = path;
    return status;
}

hn_status hn_subject_init_file(hn_subject *s, hn_model_file *file,
                               const hn_subject_options *options) {
    const hn_compile_options *c = options->compile;
    *s = (hn_subject){.file = file, .options = *options};
    hn_arena_init(&s->arena);
    return hn_service_create(&(hn_service_options){.cache_dir = c->no_cache ? "" : c->cache_dir,
                                                   .remote_url = c->no_cache ? "" : c->remote_url,
                                                   .cache_tag = c->cache_tag,
                                                   .threads = c->compile_threads,
                                                   .no_standby = c->no_standby},
                             &s->service);
}

void hn_subject_deinit(hn_subject *s) {
    hn_service_destroy(s->service);
    hn_model_close(s->file);
    hn_arena_deinit(&s->arena);
}

/* --- compiling --- */

static hn_status import_model(hn_subject *s, const hn_driver_limits *limits, hn_build *b) {
    memset(b, 0, sizeof *b);
    hn_driver_init(&b->d, s->options.compile, s->service);
    hn_strbuf_init(&b->image);
    b->d.limits = limits;
    b->d.weights_path = s->path;
    b->d.weights = s->file->map;
    HN_TRY(hn_driver_targets(&b->d));
    HN_TRY(hn_sym_create(&b->d.arena, &b->d.sym));
    s->file->importer->forget_reads(s->file);
    return s->file->importer->import(s->file, s->options.compile->model, &b->d.arena, b->d.sym,
                                     &b->d.graph);
}

hn_status hn_build_graph(hn_subject *s, const hn_driver_limits *limits, hn_build *b) {
    HN_TRY(import_model(s, limits, b));
    return hn_driver_passes(&b->d);
}

/* Of nodes with one tensor as their result. */
static hn_status watch_node(hn_subject *s, hn_graph *g, const hn_node_info *node) {
    const hn_str name = g->origins.items[node->origin].node;
    const hn_value v = node->result_count ? node->results[0] : 0;
    hn_ref_tensor ignored;
    hn_arena arena;
    bool found = false;
    if (!v || hn_graph_value(g, v)->kind != HN_VALUE_TENSOR) return NULL;
    hn_arena_init(&arena);
    hn_status status = s->saved(s->saved_user, name, &arena, &ignored, &found);
    hn_arena_deinit(&arena);
    if (status || !found) return status;
    return hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = v, .name = name});
}

hn_status hn_build_watched(hn_subject *s, const hn_driver_limits *limits, hn_build *b) {
    HN_TRY(import_model(s, limits, b));
    for (hn_node n = 1; n < b->d.graph->nodes.count; n++)
        if (!b->d.graph->nodes.items[n].dead)
            HN_TRY(watch_node(s, b->d.graph, &b->d.graph->nodes.items[n]));
    return hn_driver_passes(&b->d);
}

hn_status hn_build_module(hn_subject *s, hn_build *b) {
    hn_module_options load = *s->options.load;
    HN_TRY(hn_driver_weights_begin(&b->d));
    HN_TRY(hn_driver_kernels(&b->d));
    HN_TRY(hn_driver_submit(&b->d));
    HN_TRY(hn_driver_wrapper(&b->d, &b->d.wrapper));
    HN_TRY(hn_driver_image(&b->d, b->d.wrapper, &b->image));
    if (!load.weights_path) load.weights_path = s->path;
    load.skip_digest = true; /* it was just made */
    return hn_module_load_memory(b->image.ptr, b->image.len, false, &load, &b->module);
}

void hn_build_deinit(hn_build *b) {
    hn_module_release(b->module);
    hn_strbuf_deinit(&b->image);
    if (b->d.graph) hn_graph_deinit(b->d.graph);
    hn_driver_deinit(&b->d);
}

/* --- inputs --- */

static hn_status read_tensor(hn_arena *arena, const hn_tensor *t, hn_ref_tensor *out) {
    void *bytes;
    const size_t elem_bytes = hn_scalar_type_bytes(hn_tensor_type(t));
    HN_TRY(hn_arena_array(arena, (size_t)hn_tensor_numel(t) + 1, elem_bytes, &bytes));
    HN_TRY(hn_tensor_copy_out(t, bytes));
    return hn_ref_tensor_load(arena, (hn_dtype)hn_tensor_type(t), hn_tensor_rank(t),
                              hn_tensor_sizes(t), NULL, bytes, out);
}

static hn_status copy_tensor(const hn_tensor *t, hn_tensor **out) {
    const hn_tensor_desc desc = {.type = hn_tensor_type(t),
                                 .rank = hn_tensor_rank(t),
                                 .sizes = hn_tensor_sizes(t),
                                 .strides = hn_tensor_strides(t)};
    hn_arena arena;
    void *bytes;
    hn_arena_init(&arena);
    hn_status status = hn_arena_array(&arena, (size_t)hn_tensor_numel(t) + 1,
                                      hn_scalar_type_bytes(desc.type), &bytes);
    if (!status) status = hn_tensor_copy_out(t, bytes);
    if (!status) status = hn_tensor_create(&desc, out);
    if (!status) status = hn_tensor_copy_in(*out, bytes);
    hn_arena_deinit(&arena);
    return status;
}

/* --- the reference --- */

hn_status hn_build_interpret(hn_subject *s, hn_build *b, hn_arena *arena, hn_results *out) {
    hn_ref_tensor *inputs;
    HN_NEW(arena, inputs, s->input_count);
    for (uint32_t k = 0; k < s->input_count; k++)
        HN_TRY(s->inputs[k] ? read_tensor(arena, s->inputs[k], &inputs[k])
                            : hn_ref_tensor_init(arena, HN_DTYPE_I64, 0, NULL, &inputs[k]));
    out->count = b->d.graph->outputs.count;
    HN_NEW(arena, out->items, out->count);
    return hn_interpret(arena, b->d.graph, inputs, s->input_count, out->items);
}

/* --- the module --- */

typedef struct call {
    hn_tensor **inputs, **outputs;
    uint32_t input_count, output_count;
} call;

static void call_deinit(call *c) {
    for (uint32_t k = 0; c->inputs && k < c->input_count; k++) hn_tensor_release(c->inputs[k]);
    for (uint32_t k = 0; c->outputs && k < c->output_count; k++) hn_tensor_release(c->outputs[k]);
}

static hn_status run_call(hn_subject *s, hn_build *b, hn_arena *arena, call *c) {
    c->input_count = s->input_count;
    c->output_count = hn_module_output_count(b->module);
    HN_NEW(arena, c->inputs, c->input_count);
    HN_NEW(arena, c->outputs, c->output_count);
    for (uint32_t k = 0; k < c->input_count; k++)
        if (s->inputs[k]) HN_TRY(copy_tensor(s->inputs[k], &c->inputs[k]));
    return hn_module_run(b->module, c->inputs, c->input_count, c->outputs, c->output_count);
}

static hn_status take_mutation(hn_build *b, const call *c, uint32_t index, hn_arena *arena,
                               hn_ref_tensor *out) {
    hn_module_mutation_info info;
    hn_tensor *buffer = NULL;
    HN_TRY(hn_module_mutation_info_get(b->module, index, &info));
    if (info.input >= 0) return read_tensor(arena, c->inputs[info.input], out);
    HN_TRY(hn_module_buffer_read(b->module, info.name, &buffer));
    hn_status status = read_tensor(arena, buffer, out);
    hn_tensor_release(buffer);
    return status;
}

static hn_status take_results(hn_build *b, const call *c, hn_arena *arena, hn_results *out) {
    const hn_graph *g = b->d.graph;
    uint32_t users = 0, mutations = 0;
    out->count = g->outputs.count;
    HN_NEW(arena, out->items, out->count);
    for (uint32_t k = 0; k < out->count; k++) {
        if (g->outputs.items[k].kind == HN_OUTPUT_MUTATION) {
            HN_TRY(take_mutation(b, c, mutations++, arena, &out->items[k]));
            continue;
        }
        const hn_tensor *t = users < c->output_count ? c->outputs[users++] : NULL;
        if (t) HN_TRY(read_tensor(arena, t, &out->items[k]));
    }
    return NULL;
}

hn_status hn_build_run(hn_subject *s, hn_build *b, hn_arena *arena, hn_results *out) {
    call c = {0};
    hn_status status = run_call(s, b, arena, &c);
    if (!status) status = take_results(b, &c, arena, out);
    call_deinit(&c);
    return status;
}

hn_status hn_build_evaluate(hn_subject *s, hn_build *b, hn_arena *arena, hn_results *out) {
    if (!s->runs_programs) return hn_build_interpret(s, b, arena, out);
    HN_TRY(hn_build_module(s, b));
    return hn_build_run(s, b, arena, out);
}

/* --- right or wrong --- */

double hn_subject_tolerance(hn_dtype dtype, double largest) {
    return hn_match_tolerance((hn_scalar_type)dtype, largest);
}

static bool is_right(const hn_subject *s, const hn_ref_tensor *got, const hn_ref_tensor *want,
                     hn_strbuf *why) {
    const hn_dtype_info *facts = hn_dtype_facts(got->dtype);
    hn_ref_tensor as = *want;
    if (got->dtype == HN_DTYPE_NONE || want->dtype == HN_DTYPE_NONE) return true;
    /* .npy has no bf16, which travels as f32 */
    if (got->dtype == HN_DTYPE_BF16 && want->dtype == HN_DTYPE_F32) as.dtype = HN_DTYPE_BF16;
    return hn_ref_compare(got, &as, s->options.rtol < 0 ? facts->rtol : s->options.rtol,
                          s->options.atol < 0 ? facts->atol : s->options.atol, why);
}

static bool judge_one(const hn_subject *s, uint32_t k, const hn_ref_tensor *got,
                      const hn_ref_tensor *want, hn_strbuf *why) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    const bool right = is_right(s, got, want, &text);
    if (!right && why)
        hn_strbuf_printf(why, "output %u: " HN_STR_FMT, k, HN_STR_ARG(hn_strbuf_str(&text)));
    hn_strbuf_deinit(&text);
    return right;
}

bool hn_subject_judge(const hn_subject *s, const hn_graph *graph, const hn_results *results,
                      hn_strbuf *why) {
    uint32_t users = 0;
    for (uint32_t k = 0; k < results->count; k++) {
        const bool is_user = graph->outputs.items[k].kind != HN_OUTPUT_MUTATION;
        const hn_ref_tensor *want = NULL;
        if (s->expected) want = is_user && users < s->expected_count ? &s->expected[users] : NULL;
        else if (k < s->oracle.count) want = &s->oracle.items[k];
        users += is_user;
        if (want && !judge_one(s, k, &results->items[k], want, why)) return false;
    }
    return true;
}
