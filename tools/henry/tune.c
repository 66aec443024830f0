/* tune.c: `henry tune`: which form of each kernel of a model is the fastest on this machine. */
#include "tool.h"

#include "base/device.h"
#include "base/file.h"

#include <string.h>

static const hn_tuned_form *picked(const hn_tuned_kernel *k) { return &k->forms[k->pick]; }

/* How many times as long the form takes that nothing was measured for; 0: it is not known. By their
 * ratios, in the same rounds; records of earlier versions have none. */
static double gain_of(const hn_tuned_kernel *k) {
    const hn_tuned_form *guess = &k->forms[0], *pick = picked(k);
    if (guess->ratio > 0 && pick->ratio > 0) return guess->ratio / pick->ratio;
    return guess->median_ns > 0 && pick->median_ns > 0 ? guess->median_ns / pick->median_ns : 0;
}

static uint32_t count(const hn_tune_report *report, hn_tuned_how how) {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < report->kernel_count; k++) sum += report->kernels[k].how == how;
    return sum;
}

/* ---- text ---- */

static void put_form(const hn_tuned_form *f, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s%s%s", f->name, *f->parameters ? " " : "", f->parameters);
    if (f->samples) hn_strbuf_printf(out, " %.2f us", f->median_ns / 1e3);
    if (*f->why) hn_strbuf_puts(out, " (out)");
}

/* "12.1 %   24  layer_norm_1 [s0=64]  rows ahead=2 9.17 us, 1.29 times as fast as rows 11.85 us; 9
 * forms" */
static void put_kernel(const hn_tuned_kernel *k, hn_strbuf *out) {
    uint32_t timed = 0;
    for (uint32_t f = 0; f < k->form_count; f++) timed += k->forms[f].samples > 0;
    if (k->share > 0) hn_strbuf_printf(out, "%5.1f %% %4u  ", 100 * k->share, k->launches);
    else hn_strbuf_printf(out, "%12u  ", k->launches);
    hn_strbuf_clean(out, hn_str_of(k->name), true);
    if (*k->sizes) hn_strbuf_printf(out, " [%s]", k->sizes);
    hn_strbuf_puts(out, "  ");
    put_form(picked(k), out);
    if (k->pick && gain_of(k) > 0) {
        hn_strbuf_printf(out, ", %.2f times as fast as the guess, ", gain_of(k));
        put_form(&k->forms[0], out);
    }
    if (timed) hn_strbuf_printf(out, "; the fastest of %u", timed);
    if (timed && !k->is_certain) hn_strbuf_puts(out, ", others are as fast");
    if (k->how != HN_TUNED_NOW) hn_strbuf_printf(out, " (%s)", k->why);
    hn_strbuf_putc(out, '\n');
}

static void put_fusion(const hn_tuned_fusion *f, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s: %s, in one kernel %.2f us, apart %.2f us%s\n", f->name,
                     f->is_apart ? "apart" : "fused", f->fused_ns / 1e3, f->apart_ns / 1e3,
                     f->was_timed ? "" : " (known)");
}

static hn_status print_text(const tool_options *o, const hn_tune_report *report) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "share runs  kernel  form\n");
    for (uint32_t k = 0; k < report->kernel_count; k++)
        if (report->kernels[k].form_count > 1) put_kernel(&report->kernels[k], &text);
    for (uint32_t k = 0; k < report->fusion_count; k++) put_fusion(&report->fusions[k], &text);
    hn_strbuf_printf(
        &text,
        "%u kernels: %u timed, %u known, %u by the model of costs; %llu timed runs, %.1f s%s\n",
        report->kernel_count, report->timed_kernels, count(report, HN_TUNED_KNOWN),
        count(report, HN_TUNED_GUESS), (unsigned long long)report->timed_calls,
        (double)report->elapsed_ns / 1e9, report->is_complete ? "" : "; the budget was over");
    if (o->output && strcmp(o->output, "-") != 0)
        hn_strbuf_printf(&text, "%s: written\n", o->output);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

/* ---- JSON ---- */

static void json_form(const hn_tuned_form *f, tool_json *json) {
    tool_json_open(json, NULL, '{');
    tool_json_str(json, "form", f->name);
    tool_json_str(json, "parameters", f->parameters);
    tool_json_int(json, "samples", f->samples);
    tool_json_num(json, "median_ns", f->median_ns);
    tool_json_num(json, "low_ns", f->low_ns);
    tool_json_num(json, "high_ns", f->high_ns);
    tool_json_num(json, "ratio", f->ratio);
    tool_json_num(json, "ratio_low", f->ratio_low);
    tool_json_num(json, "ratio_high", f->ratio_high);
    tool_json_num(json, "predicted_ns", f->predicted_ns);
    tool_json_bool(json, "is_extra", f->is_extra);
    tool_json_str(json, "why", *f->why ? f->why : NULL);
    tool_json_close(json);
}

static void json_kernel(const hn_tuned_kernel *k, tool_json *json) {
    static const char *const how[] = {
        [HN_TUNED_GUESS] = "guess", [HN_TUNED_KNOWN] = "known", [HN_TUNED_NOW] = "timed"};
    tool_json_open(json, NULL, '{');
    tool_json_str(json, "name", k->name);
    tool_json_str(json, "digest", k->digest);
    tool_json_str(json, "target", k->target);
    tool_json_str(json, "sizes", k->sizes);
    tool_json_int(json, "launches", k->launches);
    tool_json_num(json, "share", k->share);
    tool_json_str(json, "how", how[k->how]);
    tool_json_str(json, "why", *k->why ? k->why : NULL);
    tool_json_int(json, "pick", k->pick);
    tool_json_bool(json, "is_certain", k->is_certain);
    tool_json_open(json, "forms", '[');
    for (uint32_t f = 0; f < k->form_count; f++) json_form(&k->forms[f], json);
    tool_json_close(json);
    tool_json_close(json);
}

static void json_fusion(const hn_tuned_fusion *f, tool_json *json) {
    tool_json_open(json, NULL, '{');
    tool_json_str(json, "name", f->name);
    tool_json_bool(json, "is_apart", f->is_apart);
    tool_json_bool(json, "was_timed", f->was_timed);
    tool_json_num(json, "fused_ns", f->fused_ns);
    tool_json_num(json, "apart_ns", f->apart_ns);
    tool_json_close(json);
}

static hn_status print_json(const hn_tune_report *report) {
    tool_json json;
    tool_json_init(&json);
    tool_json_int(&json, "timed_kernels", report->timed_kernels);
    tool_json_int(&json, "timed_calls", (int64_t)report->timed_calls);
    tool_json_ms(&json, "elapsed_ms", report->elapsed_ns);
    tool_json_bool(&json, "is_complete", report->is_complete);
    tool_json_open(&json, "kernels", '[');
    for (uint32_t k = 0; k < report->kernel_count; k++) json_kernel(&report->kernels[k], &json);
    tool_json_close(&json);
    tool_json_open(&json, "fusions", '[');
    for (uint32_t k = 0; k < report->fusion_count; k++) json_fusion(&report->fusions[k], &json);
    tool_json_close(&json);
    hn_status status = tool_json_finish(&json, true, NULL);
    tool_json_deinit(&json);
    return status;
}

/* ---- the whole ---- */

static hn_status write_records(const tool_options *o, const hn_tune_report *report) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_append(&text, report->records, report->records_len);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = tool_deliver(o, &text);
    hn_strbuf_deinit(&text);
    return status;
}

/* Of kinds that have no target for each device, the first one is what a program is made for. */
static hn_status check_device(const tool_options *o) {
    hn_device device;
    const char *name;
    if (!o->device) return NULL;
    HN_TRY(hn_device_parse(o->device, &device, &name));
    if (device.kind == HN_DEVICE_CUDA || (!device.number && !name)) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "cannot tune on '%s': tuning takes the first %s device",
                    o->device, hn_device_kind_name(device.kind));
}

int tool_cmd_tune(const tool_options *o) {
    hn_tune_report *report = NULL;
    tool_kind kind;
    const char *path = o->args.items[0];
    const bool is_to_stdout = o->output && strcmp(o->output, "-") == 0;
    if (tool_compile_check("tune", o)) return TOOL_USAGE;
    hn_status status = check_device(o);
    if (!status) status = tool_kind_of(path, &kind);
    if (!status && tool_options_check_kind("tune", o, path, kind)) return TOOL_USAGE;
    if (!status && kind == TOOL_HNB) return tool_report(tool_tune_bundle(o, path));
    if (!status) status = tool_tune(o, path, &report);
    if (!status && o->output) status = write_records(o, report);
    if (!status && o->json) status = print_json(report);
    else if (!status && !o->quiet && !is_to_stdout) status = print_text(o, report);
    hn_tune_report_destroy(report);
    return tool_report(status);
}
