/* tune_bundle.c: `henry tune BUNDLE`: which of the forms that a bundle was shipped with are the
 * fastest on this machine. No compiler is needed. */
#include "tool.h"

#include "base/file.h"
#include "henry/bench.h"

static const hn_bench_result *winner(const hn_module_race *r) {
    return &r->report->results[r->report->winner];
}

static void put_form(const hn_bench_result *f, hn_strbuf *out) {
    hn_strbuf_clean(out, hn_str_of(f->name), true);
    if (f->state == HN_BENCH_DROPPED) hn_strbuf_puts(out, " (out)");
    else hn_strbuf_printf(out, " %.2f us", f->median_ns / 1e3);
}

/* "   2  softmax [s0=64]  rows ahead=2 9.17 us, 1.29 times as fast as rows 11.85 us, of 4" */
static void put_race(const hn_module_race *r, hn_strbuf *out) {
    const hn_bench_result *was = &r->report->results[r->was], *now = winner(r);
    hn_strbuf_printf(out, "%5u  ", r->steps);
    hn_strbuf_clean(out, hn_str_of(r->node), true);
    if (*r->sizes) hn_strbuf_printf(out, " [%s]", r->sizes);
    hn_strbuf_puts(out, "  ");
    put_form(now, out);
    if (r->was != r->report->winner && was->median_ns > 0 && now->median_ns > 0) {
        hn_strbuf_printf(out, ", %.2f times as fast as ", was->median_ns / now->median_ns);
        put_form(was, out);
    }
    hn_strbuf_printf(out, "; of %u\n", r->report->count);
}

static hn_status print_text(const tool_options *o, const hn_module_tuning *t) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, "steps  kernel  form\n");
    for (uint32_t k = 0; k < t->race_count; k++) put_race(&t->races[k], &text);
    hn_strbuf_printf(&text, "%u kernels of several forms; %llu timed runs, %.1f s%s\n",
                     t->kernel_count, (unsigned long long)t->timed_calls,
                     (double)t->elapsed_ns / 1e9, t->is_complete ? "" : "; the budget was over");
    if (o->output) hn_strbuf_printf(&text, "%s: written, not signed\n", o->output);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static void json_race(const hn_module_race *r, tool_json *json) {
    tool_json_open(json, NULL, '{');
    tool_json_str(json, "name", r->node);
    tool_json_str(json, "sizes", r->sizes);
    tool_json_int(json, "steps", r->steps);
    tool_json_int(json, "was", r->was);
    tool_json_int(json, "pick", r->report->winner);
    tool_json_open(json, "forms", '[');
    for (uint32_t f = 0; f < r->report->count; f++) {
        const hn_bench_result *result = &r->report->results[f];
        tool_json_open(json, NULL, '{');
        tool_json_str(json, "form", result->name);
        tool_json_int(json, "samples", result->samples);
        tool_json_num(json, "median_ns", result->median_ns);
        tool_json_num(json, "low_ns", result->low_ns);
        tool_json_num(json, "high_ns", result->high_ns);
        tool_json_str(json, "why", *result->why ? result->why : NULL);
        tool_json_close(json);
    }
    tool_json_close(json);
    tool_json_close(json);
}

static hn_status print_json(const hn_module_tuning *t) {
    tool_json json;
    tool_json_init(&json);
    tool_json_int(&json, "kernels", t->kernel_count);
    tool_json_int(&json, "timed_calls", (int64_t)t->timed_calls);
    tool_json_ms(&json, "elapsed_ms", t->elapsed_ns);
    tool_json_bool(&json, "is_complete", t->is_complete);
    tool_json_open(&json, "races", '[');
    for (uint32_t k = 0; k < t->race_count; k++) json_race(&t->races[k], &json);
    tool_json_close(&json);
    hn_status status = tool_json_finish(&json, true, NULL);
    tool_json_deinit(&json);
    return status;
}

hn_status tool_tune_bundle(const tool_options *o, const char *path) {
    hn_module_options options;
    hn_module *module = NULL;
    hn_module_tuning *tuning = NULL;
    const hn_module_tune_options how = {.budget_ns = o->budget_ns > 0 ? o->budget_ns : 0};
    if (o->output && strcmp(o->output, "-") == 0)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "a bundle cannot go to standard output; name a file with -o");
    tool_load_options(o, &options);
    hn_status status = hn_module_load_file(path, &options, &module);
    if (!status) status = hn_module_tune(module, &how, &tuning);
    if (!status && o->output)
        status = hn_file_write_atomic(o->output, tuning->image, tuning->image_len, false);
    if (!status && o->json) status = print_json(tuning);
    else if (!status && !o->quiet) status = print_text(o, tuning);
    hn_module_tuning_destroy(tuning);
    hn_module_release(module);
    return hn_status_annotate(status, "cannot tune '%s'", path);
}
