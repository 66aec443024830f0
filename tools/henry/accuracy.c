/* accuracy.c: `henry accuracy`: one run of a model, each of its kernels beside the reference. */
#include "tool.h"

#include "driver/driver.h"
#include "interp/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_DEFAULT = 20 };

typedef struct subject {
    const tool_options *options;
    tool_random random;
    tool_model model;
    hn_kept *kept;
    hn_accuracy *accuracy, *of_weights; /* NULL: not begun, or there is no such program */
    hn_tensor **inputs, **outputs;
    uint32_t input_count, output_count;
    hn_accuracy_row *rows; /* the worst first, then those without a comparison */
    uint32_t count, compared;
    int64_t reference_ns;
} subject;

/* ---- the run ---- */

static hn_status make_inputs(subject *s) {
    s->input_count = hn_module_input_count(s->model.module);
    s->output_count = hn_module_output_count(s->model.module);
    s->inputs = calloc(s->input_count + 1, sizeof(hn_tensor *));
    s->outputs = calloc(s->output_count + 1, sizeof(hn_tensor *));
    if (!s->inputs || !s->outputs) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    bool found = s->options->inputs.count > 0;
    if (found) return tool_inputs_read(s->options, s->model.path, s->model.module, s->inputs);
    HN_TRY(tool_examples_read(s->options, s->model.path, s->model.module, s->inputs, &found));
    if (found) return NULL;
    HN_TRY(tool_random_inputs(&s->random, &s->model, s->input_count, s->inputs));
    return tool_random_check(&s->random);
}

/* What depends on weights alone has been computed when the module was opened. */
static hn_status run_weights(subject *s) {
    hn_module *program = hn_module_weights_program(s->model.module);
    if (!program) return NULL;
    const hn_driver *d = hn_driver_weights_get(hn_kept_driver(s->kept));
    HN_TRY(hn_accuracy_create(d->wrapper, program, NULL, 0, &s->of_weights));
    return hn_module_weights_recompute(s->model.module);
}

static hn_status collect_rows(subject *s) {
    uint32_t count, more = 0;
    const hn_accuracy_row *rows = hn_accuracy_rows(s->accuracy, &count);
    const hn_accuracy_row *of_weights =
        s->of_weights ? hn_accuracy_rows(s->of_weights, &more) : NULL;
    s->rows = calloc((size_t)count + more + 1, sizeof *s->rows);
    if (!s->rows) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    s->count = count + more;
    memcpy(s->rows, rows, count * sizeof *rows);
    if (more) memcpy(s->rows + count, of_weights, more * sizeof *rows);
    hn_accuracy_sort(s->rows, s->count);
    return NULL;
}

/* The forms that the sizes do not pick: the run with form K is like the one before otherwise. */
static hn_status run_forms(subject *s) {
    const uint32_t forms = hn_accuracy_forms(s->accuracy);
    hn_accuracy_add_forms(s->accuracy);
    for (uint32_t form = 1; forms > 1 && form <= forms; form++)
        HN_TRY(hn_module_run_with(s->model.module, &(hn_run_options){.form = form}, s->inputs,
                                  s->input_count, s->outputs, s->output_count));
    return NULL;
}

static hn_status run(subject *s) {
    HN_TRY(make_inputs(s));
    HN_TRY(run_weights(s));
    HN_TRY(hn_accuracy_create(hn_kept_driver(s->kept)->wrapper, s->model.module, s->inputs,
                              s->input_count, &s->accuracy));
    HN_TRY(hn_module_run(s->model.module, s->inputs, s->input_count, s->outputs, s->output_count));
    HN_TRY(run_forms(s));
    HN_TRY(collect_rows(s));
    for (uint32_t k = 0; k < s->count; k++) {
        s->compared += s->rows[k].calls > 0;
        s->reference_ns += s->rows[k].reference_ns;
    }
    return NULL;
}

static uint32_t rows_shown(const subject *s, int64_t otherwise) {
    const int64_t limit = s->options->limit > 0 ? s->options->limit : otherwise;
    return limit < s->compared ? (uint32_t)limit : s->compared;
}

/* ---- text ---- */

static void print_where(const hn_accuracy_row *row, hn_strbuf *text) {
    hn_strbuf_printf(text, "%s", row->name);
    if (*row->form) hn_strbuf_printf(text, " as %s", row->form);
    if (row->node[0]) hn_strbuf_printf(text, "  %s", row->node);
    if (row->source[0]) hn_strbuf_printf(text, " (%s)", row->source);
    if (*row->program) hn_strbuf_puts(text, ", program of weights");
    if (!row->is_picked) hn_strbuf_puts(text, ", not picked for these sizes");
    hn_strbuf_putc(text, '\n');
}

static void print_row(const hn_accuracy_row *row, hn_strbuf *text) {
    char relative[32] = "all 0";
    if (!isnan(row->max_rel)) snprintf(relative, sizeof relative, "%.3g", row->max_rel);
    hn_strbuf_printf(text, "%9.3g %10s %10.3g %10.3g  %-5s %5u  ", row->rel_ulp, relative,
                     row->max_ulp, row->mean_ulp, hn_dtype_facts(row->dtype)->name, row->step);
    print_where(row, text);
    if (row->rel_ulp == 0) return;
    hn_strbuf_printf(text, "%53s[", "at ");
    for (uint32_t d = 0; d < row->rank; d++)
        hn_strbuf_printf(text, "%s%lld", d ? ", " : "", (long long)row->index[d]);
    hn_strbuf_printf(text, "] %.9g, reference %.9g\n", row->got, row->want);
}

static void print_missing(const subject *s, hn_strbuf *text) {
    for (uint32_t k = 0; k < s->count; k++) {
        const hn_accuracy_row *row = &s->rows[k];
        if (!row->missing[0]) continue;
        hn_strbuf_printf(text, "not compared: step %u  ", row->step);
        print_where(row, text);
        hn_strbuf_printf(text, "              %s\n", row->missing);
    }
}

static hn_status report_text(const subject *s) {
    hn_strbuf text;
    const uint32_t shown = rows_shown(s, ROWS_DEFAULT);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%20s %21s\n%9s %10s %10s %10s  %-5s %5s  %s\n", "of the largest",
                     "ulp of each", "ulp", "relative", "largest", "mean", "dtype", "step",
                     "kernel");
    for (uint32_t k = 0; k < shown; k++) print_row(&s->rows[k], &text);
    if (shown < s->compared)
        hn_strbuf_printf(&text, "... and %u with smaller errors; see --limit\n",
                         s->compared - shown);
    print_missing(s, &text);
    hn_strbuf_printf(&text,
                     "%u of %u kernels and operations compared; the references took %.1f s\n",
                     s->compared, s->count, (double)s->reference_ns / 1e9);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

/* ---- JSON ---- */

static void json_errors(const hn_accuracy_row *row, tool_json *json) {
    tool_json_str(json, "dtype", hn_dtype_facts(row->dtype)->name);
    tool_json_int(json, "operand", row->operand);
    tool_json_int(json, "elements", row->elems);
    tool_json_num(json, "ulp_of_largest", row->rel_ulp);
    if (isnan(row->max_rel)) tool_json_str(json, "relative_to_largest", NULL);
    else tool_json_num(json, "relative_to_largest", row->max_rel);
    tool_json_num(json, "max_ulp", row->max_ulp);
    tool_json_num(json, "mean_ulp", row->mean_ulp);
    tool_json_ints(json, "index", row->index, row->rank);
    tool_json_num(json, "got", row->got);
    tool_json_num(json, "reference", row->want);
    tool_json_ms(json, "reference_ms", row->reference_ns);
}

static void json_row(const hn_accuracy_row *row, tool_json *json) {
    tool_json_open(json, NULL, '{');
    tool_json_int(json, "step", row->step);
    if (*row->program) tool_json_str(json, "program", row->program);
    tool_json_str(json, "name", row->name);
    tool_json_str(json, "node", row->node);
    tool_json_str(json, "source", row->source);
    if (row->variant_count > 1) {
        tool_json_str(json, "form", row->form);
        tool_json_int(json, "variant", row->variant);
        tool_json_int(json, "variants", row->variant_count);
        tool_json_bool(json, "picked", row->is_picked);
    }
    tool_json_int(json, "calls", row->calls);
    if (row->calls) json_errors(row, json);
    tool_json_str(json, "missing", row->missing[0] ? row->missing : NULL);
    tool_json_close(json);
}

static hn_status report_json(const subject *s) {
    tool_json json;
    const uint32_t shown = rows_shown(s, INT64_MAX);
    tool_json_init(&json);
    tool_json_str(&json, "model", s->model.path);
    tool_device_json(&json, s->model.module);
    tool_json_int(&json, "compared", s->compared);
    tool_json_int(&json, "not_compared", s->count - s->compared);
    tool_json_ms(&json, "reference_ms", s->reference_ns);
    tool_json_open(&json, "steps", '[');
    for (uint32_t k = 0; k < s->count; k++)
        if (k < shown || s->rows[k].missing[0]) json_row(&s->rows[k], &json);
    tool_json_close(&json);
    hn_status status = tool_json_finish(&json, s->options->json, s->options->stats);
    tool_json_deinit(&json);
    return status;
}

/* ---- the command ---- */

static void deinit(subject *s) {
    hn_accuracy_destroy(s->accuracy);
    hn_accuracy_destroy(s->of_weights);
    free(s->rows);
    if (s->inputs) tool_tensors_release(s->inputs, s->input_count);
    if (s->outputs) tool_tensors_release(s->outputs, s->output_count);
    free(s->inputs);
    free(s->outputs);
    tool_model_deinit(&s->model);
    hn_kept_destroy(s->kept);
}

int tool_cmd_accuracy(const tool_options *options) {
    subject s = {.options = options};
    if (tool_options_check_with("accuracy", options, "--size", !options->inputs.count,
                                "with --input"))
        return TOOL_USAGE;
    if (tool_compile_check("accuracy", options)) return TOOL_USAGE;
    if (!tool_random_init("accuracy", options, &s.random)) return TOOL_USAGE;
    hn_status status = tool_device_check(options);
    if (!status) status = tool_model_load_kept(options, options->args.items[0], &s.model, &s.kept);
    if (!status) status = run(&s);
    if (!status && (options->json || options->stats)) status = report_json(&s);
    if (!status && !options->json) status = report_text(&s);
    deinit(&s);
    return tool_report(status);
}
