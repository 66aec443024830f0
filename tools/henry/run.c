/* run.c: `henry run`: load, run, print or write or compare the outputs. */
#include "compare.h"
#include "tool.h"

#include "base/file.h"
#include "base/trace.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef struct run_state {
    const tool_options *options;
    tool_model model;
    hn_tensor **inputs, **outputs;
    uint32_t input_count, output_count;
    uint32_t *donated; /* indices, as many as --donate is given */
    tool_times times;
    int64_t run_ns;               /* the median of all runs but the first, or the only one */
    tool_difference *differences; /* one for each --expect */
    uint32_t differing;
    tool_compare *compare; /* NULL: without --compare */
} run_state;

/* --- running --- */

/* The inputs of --donate, by name or number. */
static hn_status find_donated(run_state *r) {
    const tool_list *names = &r->options->donated;
    r->donated = calloc(names->count + 1u, sizeof *r->donated);
    if (!r->donated) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    for (uint32_t k = 0; k < names->count; k++) {
        char *end;
        const unsigned long number = strtoul(names->items[k], &end, 10);
        if (names->items[k][0] >= '0' && names->items[k][0] <= '9' && !*end &&
            number < r->input_count)
            r->donated[k] = (uint32_t)number;
        else HN_TRY(hn_module_input_find(r->model.module, names->items[k], &r->donated[k]));
    }
    return NULL;
}

static hn_status prepare(run_state *r) {
    r->input_count = hn_module_input_count(r->model.module);
    r->output_count = hn_module_output_count(r->model.module);
    r->inputs = calloc(r->input_count + 1, sizeof(hn_tensor *));
    r->outputs = calloc(r->output_count + 1, sizeof(hn_tensor *));
    r->differences = calloc(r->options->expects.count + 1, sizeof *r->differences);
    if (!r->inputs || !r->outputs || !r->differences)
        return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    if (r->options->expects.count > r->output_count)
        return HN_ERROR(
            HN_INVALID_ARGUMENT, "--expect is given %u times, and the model has %u output%s",
            r->options->expects.count, r->output_count, r->output_count == 1 ? "" : "s");
    if (r->options->compare) HN_TRY(tool_compare_begin(r->options, r->model.module, &r->compare));
    HN_TRY(find_donated(r));
    return tool_inputs_read(r->options, r->model.path, r->model.module, r->inputs);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static hn_status run_once(run_state *r, int64_t *out_ns) {
    tool_tensors_release(r->outputs, r->output_count);
    for (uint32_t k = 0; k < r->output_count; k++) r->outputs[k] = NULL;
    int64_t begin = hn_now_ns();
    const hn_run_options options = {.donated = r->donated,
                                    .donated_count = r->options->donated.count};
    hn_status status = hn_module_run_with(r->model.module, &options, r->inputs, r->input_count,
                                          r->outputs, r->output_count);
    *out_ns = hn_now_ns() - begin;
    return status;
}

static hn_status run_all(run_state *r) {
    int64_t repeat = r->options->repeat < 1 ? 1 : r->options->repeat;
    HN_TRY(run_once(r, &r->times.first_ns));
    r->run_ns = r->times.first_ns;
    if (repeat == 1) return NULL;
    int64_t *times = calloc((size_t)repeat - 1, sizeof *times);
    if (!times)
        return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %lld timings", (long long)repeat);
    hn_status status = NULL;
    for (int64_t k = 0; k + 1 < repeat && !status; k++) status = run_once(r, &times[k]);
    qsort(times, (size_t)repeat - 1, sizeof *times, by_value);
    r->run_ns = times[(repeat - 1) / 2];
    free(times);
    return status;
}

/* --- output files --- */

static void output_path(const run_state *r, uint32_t k, char out[PATH_MAX]) {
    snprintf(out, PATH_MAX, "%s/output_%u.npy", r->options->output_dir, k);
}

static void mutated_path(const run_state *r, const char *name, char out[PATH_MAX]) {
    int len = snprintf(out, PATH_MAX, "%s/mutated_", r->options->output_dir);
    for (; *name && len + 8 < PATH_MAX; name++) {
        bool plain = (*name >= '0' && *name <= '9') || (*name >= 'a' && *name <= 'z') ||
                     (*name >= 'A' && *name <= 'Z') || strchr("._-", *name);
        out[len++] = plain ? *name : '_';
    }
    snprintf(out + len, (size_t)(PATH_MAX - len), ".npy");
}

static hn_status write_mutation(run_state *r, uint32_t k) {
    hn_module_mutation_info info;
    char path[PATH_MAX];
    hn_tensor *buffer = NULL;
    HN_TRY(hn_module_mutation_info_get(r->model.module, k, &info));
    mutated_path(r, info.name, path);
    if (info.input >= 0) return tool_tensor_write(r->inputs[info.input], path);
    HN_TRY(hn_module_buffer_read(r->model.module, info.name, &buffer));
    hn_status status = tool_tensor_write(buffer, path);
    hn_tensor_release(buffer);
    return status;
}

static hn_status write_outputs(run_state *r) {
    char path[PATH_MAX];
    if (!r->options->output_dir) return NULL;
    HN_TRY(hn_dir_create_public(r->options->output_dir));
    for (uint32_t k = 0; k < r->output_count; k++) {
        output_path(r, k, path);
        if (r->outputs[k]) HN_TRY(tool_tensor_write(r->outputs[k], path));
    }
    for (uint32_t k = 0; k < hn_module_mutation_count(r->model.module); k++)
        HN_TRY(write_mutation(r, k));
    return NULL;
}

/* --- --expect --- */

static hn_status compare(run_state *r) {
    const tool_options *o = r->options;
    for (uint32_t k = 0; k < o->expects.count; k++) {
        if (!r->outputs[k])
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "output %u is no array and cannot be compared with '%s'", k,
                            o->expects.items[k]);
        hn_status status = tool_tensor_compare(r->outputs[k], o->expects.items[k], o->rtol, o->atol,
                                               &r->differences[k]);
        if (status) return hn_status_annotate(status, "output %u", k);
        r->differing += !r->differences[k].same;
    }
    return NULL;
}

static hn_status difference_status(const run_state *r) {
    for (uint32_t k = 0; k < r->options->expects.count; k++) {
        const tool_difference *d = &r->differences[k];
        if (d->same) continue;
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "output %u differs from '%s': %lld of %lld elements beyond rtol %g, atol %g; largest absolute difference %g, relative "
            "%g; element %lld is %.9g, expected %.9g",
            k, r->options->expects.items[k], (long long)d->count,
            (long long)hn_tensor_numel(r->outputs[k]), d->rtol, d->atol, d->abs, d->rel,
            (long long)d->first, d->got, d->want);
    }
    return NULL;
}

/* --- reports --- */

static void json_output(run_state *r, tool_json *json, uint32_t k) {
    char path[PATH_MAX];
    hn_module_value_info info;
    hn_status status = hn_module_output_info(r->model.module, k, &info);
    tool_json_open(json, NULL, '{');
    if (!status) tool_json_str(json, "name", info.name);
    hn_status_free(status);
    if (r->outputs[k]) {
        tool_json_ints(json, "shape", hn_tensor_sizes(r->outputs[k]),
                       hn_tensor_rank(r->outputs[k]));
        tool_json_str(json, "dtype", hn_scalar_type_name(hn_tensor_type(r->outputs[k])));
    }
    if (r->options->output_dir) output_path(r, k, path);
    tool_json_str(json, "file", r->options->output_dir && r->outputs[k] ? path : NULL);
    if (k < r->options->expects.count) {
        const tool_difference *d = &r->differences[k];
        tool_json_open(json, "expect", '{');
        tool_json_str(json, "file", r->options->expects.items[k]);
        tool_json_bool(json, "same", d->same);
        tool_json_num(json, "max_abs", d->abs);
        tool_json_num(json, "max_rel", d->rel);
        tool_json_int(json, "beyond", d->count);
        tool_json_close(json);
    }
    tool_json_close(json);
}

static void json_timings(const run_state *r, tool_json *json) {
    hn_module_stats stats;
    hn_module_stats_get(r->model.module, &stats);
    tool_json_open(json, "timings_ms", '{');
    tool_phases_json(json, &r->model.stats);
    tool_json_ms(json, "load", r->model.load_ns);
    tool_json_ms(json, "first_run", r->times.first_ns);
    tool_json_ms(json, "run", r->run_ns);
    tool_start_json(json, &stats);
    tool_json_ms(json, "total", hn_now_ns() - r->times.begin_ns);
    tool_json_close(json);
}

static int64_t peak_memory_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

static void json_metrics(const run_state *r, tool_json *json) {
    hn_module_stats stats;
    hn_module_stats_get(r->model.module, &stats);
    tool_json_open(json, "metrics", '{');
    tool_counters_json(json, &r->model.metrics);
    tool_json_int(json, "steps", stats.steps);
    tool_json_int(json, "objects", stats.objects);
    tool_json_int(json, "runs", (int64_t)stats.runs);
    tool_json_int(json, "shapes_bound", (int64_t)stats.shapes_bound);
    tool_json_int(json, "inputs_copied", (int64_t)stats.inputs_copied);
    tool_json_int(json, "workspace_bytes", (int64_t)stats.peak_workspace_bytes);
    tool_json_int(json, "weights_mapped_bytes", (int64_t)stats.weights_mapped_bytes);
    tool_json_int(json, "weights_copied_bytes", (int64_t)stats.weights_copied_bytes);
    tool_json_int(json, "weights_packed_bytes", (int64_t)stats.weights_packed_bytes);
    tool_json_int(json, "weights_uploaded_bytes", (int64_t)stats.weights_uploaded_bytes);
    tool_json_int(json, "host_steps", stats.host_steps);
    tool_json_int(json, "bytes_to_device", (int64_t)stats.bytes_to_device);
    tool_json_int(json, "bytes_from_device", (int64_t)stats.bytes_from_device);
    tool_json_int(json, "graphs_made", (int64_t)stats.graphs_made);
    tool_json_int(json, "graph_runs", (int64_t)stats.graph_runs);
    tool_json_int(json, "objects_loaded", stats.objects_loaded);
    tool_device_memory_json(json, &stats);
    tool_json_close(json);
}

static hn_status report_json(run_state *r) {
    tool_json json;
    tool_json_init(&json);
    tool_json_str(&json, "model", r->model.path);
    tool_device_json(&json, r->model.module);
    tool_json_open(&json, "outputs", '[');
    for (uint32_t k = 0; k < r->output_count; k++) json_output(r, &json, k);
    tool_json_close(&json);
    json_timings(r, &json);
    tool_compile_stats_json(&json, &r->model.stats);
    tool_json_int(&json, "peak_memory_bytes", peak_memory_bytes());
    json_metrics(r, &json);
    if (r->compare) tool_compare_json(r->compare, &json);
    hn_status status = r->options->profile ? tool_steps_json(&json, r->model.module) : NULL;
    if (!status) status = tool_json_finish(&json, r->options->json, r->options->stats);
    tool_json_deinit(&json);
    return status;
}

static hn_status text_steps(run_state *r, hn_strbuf *text) {
    if (!r->options->profile) return NULL;
    hn_strbuf_printf(text, "\n%10s %10s %7s  step\n", "total ms", "min ms", "calls");
    for (uint32_t k = 0; k < hn_module_step_count(r->model.module); k++) {
        hn_module_step_profile step;
        HN_TRY(hn_module_profile(r->model.module, k, &step));
        hn_strbuf_printf(text, "%10.3f %10.3f %7llu  %s (%s)", (double)step.total_ns / 1e6,
                         (double)step.min_ns / 1e6, (unsigned long long)step.calls, step.name,
                         step.origin);
        if (*step.form) hn_strbuf_printf(text, " as %s", step.form);
        hn_strbuf_putc(text, '\n');
    }
    return NULL;
}

static hn_status report_text(run_state *r) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < r->output_count; k++) {
        hn_strbuf_printf(&text, "output_%u  ", k);
        if (r->outputs[k]) tool_tensor_summary(r->outputs[k], &text);
        else hn_strbuf_puts(&text, "none");
        if (k < r->options->expects.count)
            hn_strbuf_printf(
                &text, "\n          %s %s  largest difference %.3g absolute, %.3g relative",
                r->differences[k].same ? "equals" : "DIFFERS FROM", r->options->expects.items[k],
                r->differences[k].abs, r->differences[k].rel);
        hn_strbuf_putc(&text, '\n');
    }
    if (r->compare) tool_compare_print(r->compare, &text);
    int64_t runs = r->options->repeat;
    if (runs == 1) hn_strbuf_printf(&text, "time  %.3f ms\n", (double)r->run_ns / 1e6);
    if (runs > 1)
        hn_strbuf_printf(
            &text, "time  %.3f ms, median of %lld run%s after the first, which took %.3f ms\n",
            (double)r->run_ns / 1e6, (long long)(runs - 1), runs == 2 ? "" : "s",
            (double)r->times.first_ns / 1e6);
    if (r->options->timing) tool_timing_print(&r->model, &r->times, &text);
    hn_status status = text_steps(r, &text);
    if (!status) status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static void deinit(run_state *r) {
    if (r->inputs) tool_tensors_release(r->inputs, r->input_count);
    if (r->outputs) tool_tensors_release(r->outputs, r->output_count);
    free(r->inputs);
    free(r->outputs);
    free(r->differences);
    free(r->donated);
    tool_model_deinit(&r->model);
    tool_compare_destroy(r->compare);
}

/* Whether the options go together, and with the kind of file. */
static int check_options(const tool_options *o) {
    tool_kind kind;
    const bool compares = o->expects.count > 0 || o->compare;
    if (tool_options_check_with("run", o, "--rtol", compares, "without --expect or --compare") ||
        tool_options_check_with("run", o, "--atol", compares, "without --expect or --compare"))
        return TOOL_USAGE;
    if (o->donated.count && o->repeat > 1)
        return tool_usage("run", "--donate is for one run: the next one would find other inputs");
    if (tool_compile_check("run", o)) return TOOL_USAGE;
    hn_status status = tool_kind_of(o->args.items[0], &kind);
    return status ? tool_report(status) : tool_options_check_kind("run", o, o->args.items[0], kind);
}

int tool_cmd_run(const tool_options *options) {
    run_state r = {.options = options, .times.begin_ns = hn_now_ns()};
    int refused = check_options(options);
    if (refused) return refused;
    hn_status status = tool_device_check(options);
    if (!status) status = tool_model_load(options, options->args.items[0], &r.model);
    if (!status) status = prepare(&r);
    if (!status) status = run_all(&r);
    if (!status && r.compare) status = tool_compare_end(r.compare);
    if (!status) status = compare(&r);
    if (!status) status = write_outputs(&r);
    if (!status && (options->json || options->stats)) status = report_json(&r);
    if (!status && !options->json && !options->quiet) status = report_text(&r);
    if (!status && r.compare) status = tool_compare_status(r.compare);
    if (!status) status = difference_status(&r);
    deinit(&r);
    return tool_report(status);
}
