/* roofline.c: `henry bench --roofline MODEL`: each step beside the least time that it can take. */
#include "tool.h"

#include "measure/roofline.h"

#include <stdlib.h>

enum { ROWS = 20 };

hn_status tool_roofline_make(const struct hn_ceilings_options *ceilings, const tool_model *model,
                             const tool_tensors *tensors, struct hn_roofline *out) {
    return hn_roofline_make(&(hn_roofline_run){.module = model->module,
                                               .inputs = tensors->inputs,
                                               .input_count = tensors->input_count,
                                               .outputs = tensors->outputs,
                                               .output_count = tensors->output_count,
                                               .ceilings = *ceilings},
                            out);
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

/* ---- text ---- */

static int by_lost(const void *a, const void *b) {
    const hn_roofline_step *x = *(const hn_roofline_step *const *)a,
                           *y = *(const hn_roofline_step *const *)b;
    if (x->lost_ns != y->lost_ns) return x->lost_ns < y->lost_ns ? 1 : -1;
    if (x->is_known != y->is_known) return x->is_known ? -1 : 1;
    return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : (x->step > y->step) - (x->step < y->step);
}

static void print_step(const hn_roofline_step *s, const hn_roofline *r, hn_strbuf *out) {
    const double bytes = s->work.read_bytes + s->work.written_bytes;
    hn_strbuf_printf(out, "%10.1f ", s->ns / 1e3);
    if (s->is_known)
        hn_strbuf_printf(out, "%9.1f %8.2f  %-7s %9.1f %6.1f %%  %9.2f %7.1f %8.1f",
                         s->roof.ns / 1e3, ratio(s->roof.ns, s->ns), s->roof.limit,
                         s->lost_ns / 1e3, 100 * ratio(s->lost_ns, r->lost_ns), bytes / 1e6,
                         ratio(bytes, s->ns), ratio(s->work.operations, s->ns));
    else
        hn_strbuf_printf(out, "%9s %8s  %-7s %9s %8s  %9s %7s %8s", "?", "", "", "", "", "", "",
                         "");
    hn_strbuf_printf(out, "  %s%s", s->is_bound ? "at most: " : "", s->name);
    if (s->calls > 1) hn_strbuf_printf(out, " x %u", s->calls);
    hn_strbuf_printf(out, " (%s)\n", s->node);
}

static void print_rows(const hn_roofline *r, uint32_t most, const hn_roofline_step **order,
                       hn_strbuf *out) {
    double rest_ns = 0;
    for (uint32_t k = 0; k < r->count; k++) order[k] = &r->steps[k];
    qsort(order, r->count, sizeof *order, by_lost);
    hn_strbuf_printf(out, "%10s %9s %8s  %-7s %9s %8s  %9s %7s %8s  %s\n", "us", "limit us",
                     "of limit", "limit", "lost us", "of loss", "MB", "GB/s", "Gop/s", "step");
    for (uint32_t k = 0; k < r->count && k < most; k++) print_step(order[k], r, out);
    for (uint32_t k = most; k < r->count; k++) rest_ns += order[k]->lost_ns;
    if (r->count > most)
        hn_strbuf_printf(out, "%38s %9.1f %6.1f %%  %u more step%s; --limit N shows more\n", "",
                         rest_ns / 1e3, 100 * ratio(rest_ns, r->lost_ns), r->count - most,
                         r->count - most == 1 ? "" : "s");
}

/* How many steps are faster than they can be, by a tenth or more: the ceilings are too low. */
static uint32_t count_too_fast(const hn_roofline *r) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < r->count; k++)
        count += r->steps[k].is_known && r->steps[k].roof.limit != NULL &&
                 r->steps[k].roof.move_ns > 1.1 * r->steps[k].ns;
    return count;
}

static void print_sums(const hn_roofline *r, hn_strbuf *out) {
    hn_strbuf_printf(
        out,
        "steps %.1f us; at the limits of this machine %.1f us (%.2f): the rest, %.1f us, "
        "is what better kernels could gain\n",
        r->ns / 1e3, r->roof_ns / 1e3, ratio(r->roof_ns, r->ns), r->lost_ns / 1e3);
    hn_strbuf_printf(out,
                     "if nothing between inputs and outputs went through memory: %.1f us (%s)\n",
                     r->whole.ns / 1e3, r->whole.limit);
    if (r->unknown_ns > 0)
        hn_strbuf_printf(out, "steps of which nothing is known, besides: %.1f us\n",
                         r->unknown_ns / 1e3);
    const uint32_t too_fast = count_too_fast(r);
    if (too_fast)
        hn_strbuf_printf(
            out,
            "%u step%s faster than the ceilings: these were measured while the machine "
            "was busy, perhaps. --measure measures again.\n",
            too_fast, too_fast == 1 ? " is" : "s are");
}

hn_status tool_roofline_print(const tool_options *options, const struct hn_roofline *r,
                              hn_strbuf *out) {
    const hn_roofline_step **order = calloc(r->count + 1u, sizeof *order);
    if (!order) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    for (uint32_t d = 0; d < r->device_count; d++) tool_ceilings_print(&r->ceilings[d], out);
    hn_strbuf_putc(out, '\n');
    print_rows(r,
               options->limit > 0 && options->limit < UINT32_MAX ? (uint32_t)options->limit : ROWS,
               order, out);
    print_sums(r, out);
    free(order);
    return NULL;
}

/* ---- JSON ---- */

static void json_step(const hn_roofline_step *s, tool_json *json) {
    tool_json_open(json, NULL, '{');
    tool_json_int(json, "step", s->step);
    tool_json_str(json, "name", s->name);
    tool_json_str(json, "node", s->node);
    tool_json_str(json, "category", s->category);
    tool_json_str(json, "device", hn_device_kind_name(s->device.kind));
    tool_json_int(json, "calls", s->calls);
    tool_json_num(json, "us", s->ns / 1e3);
    tool_json_bool(json, "is_known", s->is_known);
    if (s->is_known) {
        tool_json_num(json, "read_bytes", s->work.read_bytes);
        tool_json_num(json, "written_bytes", s->work.written_bytes);
        tool_json_bool(json, "is_bound", s->is_bound);
        tool_json_num(json, "operations", s->work.operations);
        tool_json_str(json, "limit", s->roof.limit);
        tool_json_num(json, "move_us", s->roof.move_ns / 1e3);
        tool_json_num(json, "compute_us", s->roof.math_ns / 1e3);
        tool_json_num(json, "limit_us", s->roof.ns / 1e3);
        tool_json_num(json, "of_limit", ratio(s->roof.ns, s->ns));
        tool_json_num(json, "lost_us", s->lost_ns / 1e3);
    }
    tool_json_close(json);
}

void tool_roofline_json(tool_json *json, const struct hn_roofline *r) {
    tool_json_open(json, "roofline", '{');
    tool_json_num(json, "us", r->ns / 1e3);
    tool_json_num(json, "limit_us", r->roof_ns / 1e3);
    tool_json_num(json, "lost_us", r->lost_ns / 1e3);
    tool_json_num(json, "unknown_us", r->unknown_ns / 1e3);
    tool_json_num(json, "one_step_us", r->whole.ns / 1e3);
    tool_json_str(json, "one_step_limit", r->whole.limit);
    tool_json_open(json, "ceilings", '[');
    for (uint32_t d = 0; d < r->device_count; d++) tool_ceilings_json(json, &r->ceilings[d]);
    tool_json_close(json);
    tool_json_open(json, "steps", '[');
    for (uint32_t k = 0; k < r->count; k++) json_step(&r->steps[k], json);
    tool_json_close(json);
    tool_json_close(json);
}
