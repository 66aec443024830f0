/* bench.c: `henry bench`: time runs of one or several models. The models take turns run by run, so
 * that a machine that changes its speed meanwhile treats them alike; medians, since the slow tail
 * belongs to the machine. */
#include "tool.h"

#include "base/device.h"
#include "base/trace.h"
#include "measure/roofline.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARMUP_RUNS = 2, MIN_ROUNDS = 20, MAX_ROUNDS = 10000 };
#define ROUND_TIME_NS INT64_C(1000000000)
/* What `--roofline` without a model takes. */
#define MACHINE_OPTIONS " --roofline --measure --device --threads --cache-dir --no-cache --stats "

typedef struct subject {
    tool_model model;
    hn_tensor **inputs, **outputs;
    uint32_t input_count, output_count;
    int64_t first_ns;
    int64_t *times;
    hn_roofline roofline; /* with --roofline */
} subject;

typedef struct bench {
    const tool_options *options;
    subject *subjects;
    uint32_t count;
    int64_t rounds, rounds_max;
    tool_random random;
} bench;

/* --- measuring --- */

static hn_status run_once(subject *s, int64_t *out_ns) {
    int64_t begin = hn_now_ns();
    hn_status status =
        hn_module_run(s->model.module, s->inputs, s->input_count, s->outputs, s->output_count);
    /* outputs are written again in place: a run does not pay for fresh pages */
    *out_ns = hn_now_ns() - begin;
    return status;
}

static hn_status make_inputs(bench *b, subject *s) {
    bool found = b->options->inputs.count > 0;
    if (found) return tool_inputs_read(b->options, s->model.path, s->model.module, s->inputs);
    HN_TRY(tool_examples_read(b->options, s->model.path, s->model.module, s->inputs, &found));
    return found ? NULL : tool_random_inputs(&b->random, &s->model, s->input_count, s->inputs);
}

static hn_status prepare(bench *b, subject *s) {
    s->input_count = hn_module_input_count(s->model.module);
    s->output_count = hn_module_output_count(s->model.module);
    s->inputs = calloc(s->input_count + 1, sizeof(hn_tensor *));
    s->outputs = calloc(s->output_count + 1, sizeof(hn_tensor *));
    s->times = calloc((size_t)b->rounds_max, sizeof *s->times);
    if (!s->inputs || !s->outputs || !s->times) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    HN_TRY(make_inputs(b, s));
    HN_TRY(run_once(s, &s->first_ns));
    int64_t ignored;
    for (int k = 0; k < WARMUP_RUNS; k++) HN_TRY(run_once(s, &ignored));
    return NULL;
}

static hn_status measure(bench *b) {
    int64_t begin = hn_now_ns(), enough = ROUND_TIME_NS * b->count;
    for (b->rounds = 0; b->rounds < b->rounds_max; b->rounds++) {
        if (b->options->repeat < 1 && b->rounds >= MIN_ROUNDS && hn_now_ns() - begin > enough)
            break;
        for (uint32_t k = 0; k < b->count; k++)
            HN_TRY(run_once(&b->subjects[k], &b->subjects[k].times[b->rounds]));
    }
    return NULL;
}

/* After all runs: the machine is measured once, whatever is measured again. */
static hn_status find_rooflines(bench *b) {
    hn_ceilings_options ceilings = tool_ceilings_options(b->options);
    for (uint32_t k = 0; k < b->count && b->options->roofline; k++) {
        subject *s = &b->subjects[k];
        const tool_tensors tensors = {s->inputs, s->outputs, s->input_count, s->output_count};
        HN_TRY(hn_status_annotate(tool_roofline_make(&ceilings, &s->model, &tensors, &s->roofline),
                                  "'%s'", s->model.path));
        ceilings.known = s->roofline.ceilings;
        ceilings.known_count = s->roofline.device_count;
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* --- report --- */

static int64_t percentile(const bench *b, const subject *s, int64_t percent) {
    return s->times[(b->rounds - 1) * percent / 100];
}

static hn_status json_subject(const bench *b, const subject *s, tool_json *json) {
    tool_json_open(json, NULL, '{');
    tool_json_str(json, "model", s->model.path);
    tool_device_json(json, s->model.module);
    tool_json_int(json, "runs", b->rounds);
    tool_json_open(json, "inputs", '[');
    for (uint32_t k = 0; k < s->input_count; k++) {
        hn_strbuf text;
        hn_strbuf_init(&text);
        if (s->inputs[k]) {
            hn_strbuf_puts(&text, hn_scalar_type_name(hn_tensor_type(s->inputs[k])));
            tool_shape_print(s->inputs[k], &text);
        }
        tool_json_str(json, NULL, s->inputs[k] ? text.ptr : NULL);
        hn_strbuf_deinit(&text);
    }
    tool_json_close(json);
    tool_json_open(json, "timings_ms", '{');
    tool_phases_json(json, &s->model.stats);
    tool_json_ms(json, "load", s->model.load_ns);
    tool_json_ms(json, "first_run", s->first_ns);
    tool_json_ms(json, "median", percentile(b, s, 50));
    tool_json_ms(json, "min", percentile(b, s, 0));
    tool_json_ms(json, "p95", percentile(b, s, 95));
    tool_json_close(json);
    tool_compile_stats_json(json, &s->model.stats);
    HN_TRY(b->options->profile ? tool_steps_json(json, s->model.module) : NULL);
    if (b->options->roofline) tool_roofline_json(json, &s->roofline);
    tool_json_close(json);
    return NULL;
}

static hn_status report_json(const bench *b) {
    tool_json json;
    tool_json_init(&json);
    tool_json_open(&json, "models", '[');
    hn_status status = NULL;
    for (uint32_t k = 0; k < b->count && !status; k++)
        status = json_subject(b, &b->subjects[k], &json);
    if (!status) status = tool_json_finish(&json, b->options->json, b->options->stats);
    tool_json_deinit(&json);
    return status;
}

static hn_status text_steps(const subject *s, hn_strbuf *text) {
    hn_strbuf_printf(text, "\n%s\n%10s %10s  step\n", s->model.path, "mean us", "min us");
    for (uint32_t k = 0; k < hn_module_step_count(s->model.module); k++) {
        hn_module_step_profile step;
        HN_TRY(hn_module_profile(s->model.module, k, &step));
        hn_strbuf_printf(text, "%10.1f %10.1f  %s (%s)\n",
                         step.calls ? (double)step.total_ns / (double)step.calls / 1e3 : 0,
                         (double)step.min_ns / 1e3, step.name, step.origin);
    }
    return NULL;
}

static hn_status report_text(const bench *b) {
    hn_strbuf text;
    hn_status status = NULL;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%10s %10s %10s %10s %7s  model\n", "median ms", "min ms", "p95 ms",
                     "first ms", "runs");
    for (uint32_t k = 0; k < b->count; k++) {
        const subject *s = &b->subjects[k];
        hn_strbuf_printf(&text, "%10.3f %10.3f %10.3f %10.3f %7lld  %s\n",
                         (double)percentile(b, s, 50) / 1e6, (double)percentile(b, s, 0) / 1e6,
                         (double)percentile(b, s, 95) / 1e6, (double)s->first_ns / 1e6,
                         (long long)b->rounds, s->model.path);
    }
    for (uint32_t k = 0; k < b->count && b->options->profile && !status; k++)
        status = text_steps(&b->subjects[k], &text);
    for (uint32_t k = 0; k < b->count && b->options->roofline && !status; k++) {
        hn_strbuf_printf(&text, "\n%s\n", b->subjects[k].model.path);
        status = tool_roofline_print(b->options, &b->subjects[k].roofline, &text);
    }
    if (!status) status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static void deinit(bench *b) {
    for (uint32_t k = 0; k < b->count; k++) {
        subject *s = &b->subjects[k];
        if (s->inputs) tool_tensors_release(s->inputs, s->input_count);
        if (s->outputs) tool_tensors_release(s->outputs, s->output_count);
        free(s->inputs);
        free(s->outputs);
        free(s->times);
        hn_roofline_deinit(&s->roofline);
        tool_model_deinit(&s->model);
    }
    free(b->subjects);
}

static hn_status json_machine(const tool_options *options, const hn_ceilings *ceilings) {
    tool_json json;
    tool_json_init(&json);
    tool_json_open(&json, "ceilings", '[');
    tool_ceilings_json(&json, ceilings);
    hn_status status = tool_json_finish(&json, options->json, options->stats);
    tool_json_deinit(&json);
    return status;
}

static hn_status text_machine(const hn_ceilings *ceilings) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    tool_ceilings_print(ceilings, &text);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

/* Whether the options mean something for one of the models at least. */
static int check_options(const tool_options *o) {
    unsigned kinds = 0;
    if (!o->args.count && !o->roofline)
        return tool_usage("bench", "needs a model, or --roofline to look at the machine alone");
    if (tool_options_check_with("bench", o, "--measure", o->roofline, "without --roofline") ||
        tool_options_check_with("bench", o, "--limit", o->roofline, "without --roofline"))
        return TOOL_USAGE;
    if (!o->args.count) return tool_options_check_action("bench", o, "--roofline", MACHINE_OPTIONS);
    for (uint32_t k = 0; k < o->args.count; k++) {
        tool_kind kind;
        hn_status status = tool_kind_of(o->args.items[k], &kind);
        if (status) return tool_report(status);
        kinds |= kind;
    }
    if (tool_options_check_with("bench", o, "--size", !o->inputs.count,
                                "together with --input, which gives the sizes"))
        return TOOL_USAGE;
    if (tool_compile_check("bench", o)) return TOOL_USAGE;
    return tool_options_check_kind("bench", o, o->args.items[0], kinds);
}

/* What the machine can do, without a model. */
static hn_status show_machine(const tool_options *options) {
    hn_device device = {.kind = HN_DEVICE_CPU};
    hn_ceilings ceilings;
    const char *name = NULL;
    if (options->device) HN_TRY(hn_device_parse(options->device, &device, &name));
    if (name) return HN_ERROR(HN_INVALID_ARGUMENT, "give the number of the device, not '%s'", name);
    HN_TRY(tool_ceilings_get(options, device, &ceilings));
    if (options->json || options->stats) HN_TRY(json_machine(options, &ceilings));
    return options->json ? NULL : text_machine(&ceilings);
}

int tool_cmd_bench(const tool_options *options) {
    int refused = check_options(options);
    if (refused) return refused;
    if (!options->args.count) return tool_report(show_machine(options));
    bench b = {.options = options,
               .rounds_max = options->repeat > 0 ? options->repeat : MAX_ROUNDS};
    if (b.rounds_max > 100 * MAX_ROUNDS)
        return tool_usage("bench", "--repeat needs a whole number from 1 to %d here, not '%lld'",
                          100 * MAX_ROUNDS, (long long)b.rounds_max);
    if (!tool_random_init("bench", options, &b.random)) return TOOL_USAGE;
    hn_status status = tool_device_check(options);
    b.subjects = calloc(options->args.count, sizeof *b.subjects);
    if (!b.subjects && !status) status = HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    tool_options load = *options;
    load.profile |= tool_tables_time_steps(options);
    for (uint32_t k = 0; k < options->args.count && !status; k++) {
        b.count++;
        status = tool_model_load(&load, options->args.items[k], &b.subjects[k].model);
        if (!status)
            status =
                hn_status_annotate(prepare(&b, &b.subjects[k]), "'%s'", options->args.items[k]);
    }
    if (!status) status = tool_random_check(&b.random);
    if (!status) status = measure(&b);
    if (!status) status = find_rooflines(&b);
    for (uint32_t k = 0; k < b.count && !status; k++)
        status = tool_tables_of_bench(options, &b.subjects[k].model, b.subjects[k].inputs,
                                      b.subjects[k].input_count, b.rounds);
    for (uint32_t k = 0; k < b.count && !status; k++)
        qsort(b.subjects[k].times, (size_t)b.rounds, sizeof(int64_t), by_value);
    if (!status && (options->json || options->stats)) status = report_json(&b);
    if (!status && !options->json) status = report_text(&b);
    deinit(&b);
    return tool_report(status);
}
