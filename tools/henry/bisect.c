/* bisect.c: `henry bisect`: which kernel, fusion, pass or rewrite makes a model's results wrong. */
#include "subject.h"

#include "base/log.h"
#include "base/trace.h"
#include "bisect/bisect.h"

typedef struct state {
    const tool_options *options;
    tool_subject model;
    int64_t begin_ns;
    bool shows_progress;
} state;

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

/* Steps of the program of weights have numbers of their own. */
static const char *of_program(const hn_finding *f) {
    return f->program.len ? " of the program of weights" : "";
}

static void print_finding(const hn_finding *f, hn_strbuf *out) {
    switch (f->kind) {
    case HN_FINDING_IMPORT:
        hn_strbuf_puts(out, "import: the graph is wrong as soon as it can be run, behind "
                            "'functionalize' and 'decompose'\n");
        if (f->rule.len)
            hn_strbuf_printf(out, "  rule      the decomposition of " HN_STR_FMT "\n",
                             HN_STR_ARG(f->rule));
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
        hn_strbuf_printf(
            out, "kernel: step %u%s, '" HN_STR_FMT "', does not compute what its loops say\n",
            f->number, of_program(f), HN_STR_ARG(f->step));
        break;
    case HN_FINDING_CALL:
        hn_strbuf_printf(out, "call: step %u%s, '" HN_STR_FMT "', differs from its reference\n",
                         f->number, of_program(f), HN_STR_ARG(f->step));
        break;
    case HN_FINDING_MEMORY:
        hn_strbuf_printf(out, "memory: step %u%s, '" HN_STR_FMT "', overwrites what others read\n",
                         f->number, of_program(f), HN_STR_ARG(f->step));
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
    } texts[] = {{"pass", f->pass},       {"rule", f->rule},     {"node", f->node},
                 {"with", f->other},      {"source", f->source}, {"step", f->step},
                 {"program", f->program}, {"difference", f->why}};
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
    HN_TRY(tool_subject_open(s->options, &s->model));
    hn_status status = hn_bisect(&s->model.subject, &s->model.whole, note, s, r);
    if (s->shows_progress) fputs("\r\033[K", stderr);
    HN_TRY(status);
    return s->options->json ? print_json(s, r) : print_text(r);
}

int tool_cmd_bisect(const tool_options *options) {
    state s = {.options = options,
               .begin_ns = hn_now_ns(),
               .shows_progress = tool_is_terminal() && !options->json};
    hn_bisect_result result = {.is_wrong = false};
    hn_status status = run(&s, &result);
    tool_subject_deinit(&s.model);
    const int failed = tool_report(status);
    return failed ? failed : result.is_wrong ? TOOL_FAILED : TOOL_OK;
}
