/* bisect.c: `henry bisect`: which kernel, fusion, pass or rewrite makes a model's results wrong. */
#include "tool.h"

#include "base/log.h"
#include "base/trace.h"
#include "bisect/bisect.h"

#include <stdlib.h>

typedef struct state {
    const tool_options *options;
    hn_compile_options compile;
    hn_module_options load;
    hn_subject subject;
    hn_build whole;
    bool has_subject, has_build;
    hn_arena arena;
    hn_tensor **inputs;
    uint32_t input_count;
    int64_t begin_ns;
    bool shows_progress;
} state;

/* --- the model --- */

static hn_status read_expected(state *s) {
    const tool_list *files = &s->options->expects;
    const uint32_t outputs = hn_module_output_count(s->whole.module);
    hn_ref_tensor *expected;
    if (files->count > outputs)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "--expect is given %u times, and the model has %u output%s", files->count,
                        outputs, outputs == 1 ? "" : "s");
    if (!files->count) return NULL;
    HN_NEW(&s->arena, expected, files->count);
    for (uint32_t k = 0; k < files->count; k++) {
        hn_module_value_info info;
        HN_TRY(hn_module_output_info(s->whole.module, k, &info));
        HN_TRY(tool_array_read(&s->arena, files->items[k], info.type, &expected[k]));
    }
    s->subject.expected = expected;
    s->subject.expected_count = files->count;
    return NULL;
}

/* Weights that the interpreter takes a few seconds for. */
enum { INTERPRETED_BYTES = 32 << 20 };

static uint64_t weight_bytes(const hn_graph *graph) {
    uint64_t bytes = 0;
    for (uint32_t k = 1; k < graph->storages.count; k++)
        bytes += graph->storages.items[k].size_bytes;
    return bytes;
}

static hn_status open_model(state *s) {
    const hn_driver_limits all = {.pass = hn_driver_last_pass()};
    tool_compile_options(s->options, &s->compile);
    tool_load_options(s->options, &s->load);
    s->has_subject = true;
    HN_TRY(hn_subject_init(
        &s->subject, s->options->args.items[0],
        &(hn_subject_options){&s->compile, &s->load, s->options->rtol, s->options->atol}));
    s->has_build = true;
    HN_TRY(hn_build_graph(&s->subject, &all, &s->whole));
    s->subject.runs_programs = weight_bytes(s->whole.d.graph) > INTERPRETED_BYTES;
    HN_TRY(hn_build_module(&s->subject, &s->whole));
    s->input_count = hn_module_input_count(s->whole.module);
    s->inputs = calloc(s->input_count + 1u, sizeof *s->inputs);
    if (!s->inputs) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    HN_TRY(tool_inputs_read(s->whole.module, &s->options->inputs, s->inputs));
    s->subject.inputs = s->inputs;
    s->subject.input_count = s->input_count;
    return read_expected(s);
}

static void deinit(state *s) {
    if (s->has_build) hn_build_deinit(&s->whole);
    if (s->has_subject) hn_subject_deinit(&s->subject);
    if (s->inputs) tool_tensors_release(s->inputs, s->input_count);
    free(s->inputs);
    hn_arena_deinit(&s->arena);
}

/* --- reports --- */

static void note(void *user, const char *text) {
    const state *s = user;
    hn_log("run", HN_LOG_INFO, "bisect: %s", text);
    if (s->shows_progress)
        fprintf(stderr, "\r%.1f s: %s\033[K", (double)(hn_now_ns() - s->begin_ns) / 1e9, text);
}

static void print_node(const hn_finding *f, hn_strbuf *out) {
    if (f->node.len) hn_strbuf_printf(out, "  node      " HN_STR_FMT "\n", HN_STR_ARG(f->node));
    if (f->other.len) hn_strbuf_printf(out, "  with      " HN_STR_FMT "\n", HN_STR_ARG(f->other));
    if (f->source.len) hn_strbuf_printf(out, "  source    " HN_STR_FMT "\n", HN_STR_ARG(f->source));
    if (f->why.len) hn_strbuf_printf(out, "  there     " HN_STR_FMT "\n", HN_STR_ARG(f->why));
}

static void print_finding(const hn_finding *f, hn_strbuf *out) {
    switch (f->kind) {
    case HN_FINDING_IMPORT:
        hn_strbuf_puts(out, "import: the graph is wrong as soon as it can be run, behind "
                            "'functionalize' and 'decompose'\n");
        break;
    case HN_FINDING_PASS:
        hn_strbuf_printf(out, "pass: '" HN_STR_FMT "', and none of its rewrites\n",
                         HN_STR_ARG(f->pass));
        break;
    case HN_FINDING_REWRITE:
        hn_strbuf_printf(out, "rewrite: number %u of %u of pass '" HN_STR_FMT "': " HN_STR_FMT "\n",
                         f->number, f->total, HN_STR_ARG(f->pass), HN_STR_ARG(f->rule));
        break;
    case HN_FINDING_FUSION:
        hn_strbuf_printf(out, "fusion: number %u of %u: " HN_STR_FMT "\n", f->number, f->total,
                         HN_STR_ARG(f->rule));
        break;
    case HN_FINDING_KERNEL:
        hn_strbuf_printf(out,
                         "kernel: step %u, '" HN_STR_FMT "', does not compute what its loops say\n",
                         f->number, HN_STR_ARG(f->step));
        break;
    case HN_FINDING_CALL:
        hn_strbuf_printf(out, "call: step %u, '" HN_STR_FMT "', differs from its reference\n",
                         f->number, HN_STR_ARG(f->step));
        break;
    case HN_FINDING_MEMORY:
        hn_strbuf_printf(out, "memory: step %u, '" HN_STR_FMT "', overwrites what others read\n",
                         f->number, HN_STR_ARG(f->step));
        break;
    case HN_FINDING_LOWER:
        hn_strbuf_puts(out, "lowering: every pass, step and fusion by itself is right\n");
        break;
    }
    print_node(f, out);
}

static hn_status print_text(const hn_bisect_result *r) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (!r->is_wrong) hn_strbuf_puts(&text, "nothing is wrong: the results are as expected\n");
    else hn_strbuf_printf(&text, "wrong: " HN_STR_FMT "\n", HN_STR_ARG(r->why));
    for (uint32_t k = 0; k < r->count; k++) print_finding(&r->findings[k], &text);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static void json_finding(tool_json *json, const hn_finding *f) {
    const struct {
        const char *key;
        hn_str value;
    } texts[] = {{"pass", f->pass},     {"rule", f->rule},     {"node", f->node},
                 {"with", f->other},    {"source", f->source}, {"step", f->step},
                 {"difference", f->why}};
    tool_json_open(json, NULL, '{');
    tool_json_str(json, "kind", hn_finding_name(f->kind));
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
        if (texts[k].value.len) tool_json_text(json, texts[k].key, texts[k].value);
    tool_json_int(json, "number", f->number);
    if (f->total) tool_json_int(json, "total", f->total);
    tool_json_close(json);
}

static hn_status print_json(const state *s, const hn_bisect_result *r) {
    tool_json json;
    tool_json_init(&json);
    tool_json_str(&json, "model", s->options->args.items[0]);
    tool_json_bool(&json, "wrong", r->is_wrong);
    if (r->is_wrong) tool_json_text(&json, "difference", r->why);
    tool_json_open(&json, "findings", '[');
    for (uint32_t k = 0; k < r->count; k++) json_finding(&json, &r->findings[k]);
    tool_json_close(&json);
    tool_json_int(&json, "runs", r->runs);
    tool_json_ms(&json, "total_ms", hn_now_ns() - s->begin_ns);
    hn_status status = tool_json_finish(&json, true, NULL);
    tool_json_deinit(&json);
    return status;
}

static hn_status run(state *s, hn_bisect_result *r) {
    HN_TRY(tool_device_check(s->options));
    HN_TRY(open_model(s));
    hn_status status = hn_bisect(&s->subject, &s->whole, note, s, r);
    if (s->shows_progress) fputs("\r\033[K", stderr);
    HN_TRY(status);
    return s->options->json ? print_json(s, r) : print_text(r);
}

int tool_cmd_bisect(const tool_options *options) {
    state s = {.options = options,
               .begin_ns = hn_now_ns(),
               .shows_progress = tool_is_terminal() && !options->json};
    hn_bisect_result result = {.is_wrong = false};
    tool_kind kind;
    hn_status status = tool_kind_of(options->args.items[0], &kind);
    if (!status && kind == TOOL_HNB)
        status = HN_ERROR(HN_INVALID_ARGUMENT,
                          "'%s' is a bundle; bisect needs the model that it was compiled from",
                          options->args.items[0]);
    hn_arena_init(&s.arena);
    if (!status) status = run(&s, &result);
    deinit(&s);
    const int failed = tool_report(status);
    return failed ? failed : result.is_wrong ? TOOL_FAILED : TOOL_OK;
}
