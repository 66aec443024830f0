/* debug_line.c: what the debugger saw, as lines of text. */
#include "runtime/debug.h"

#include <math.h>

static const char *kind_of(hn_module_step_kind kind) {
    switch (kind) {
    case HN_MODULE_STEP_KERNEL: return "kernel ";
    case HN_MODULE_STEP_EXTERN: return "extern ";
    default: return ""; /* the name says it */
    }
}

enum { NODES_SHOWN = 6 };

/* ", node add" or ", nodes add mul relu". */
static void print_nodes(const hn_step_info *step, hn_strbuf *out) {
    for (uint32_t k = 0; k < step->node_count && k < NODES_SHOWN; k++) {
        const char *node = "";
        hn_status_free(hn_step_node_get(step, k, &node, NULL)); /* there are as many */
        const char *before = step->node_count > 1 ? ", nodes " : ", node ";
        if (*node) hn_strbuf_printf(out, "%s%s", k ? " " : before, node);
    }
    if (step->node_count > NODES_SHOWN)
        hn_strbuf_printf(out, " and %u more", step->node_count - NODES_SHOWN);
}

void hn_debug_print_step(const hn_step_info *step, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s %llu step %u %s%s", *step->program ? step->program : "call",
                     (unsigned long long)step->call, step->index, kind_of(step->kind), step->name);
    if (*step->form) hn_strbuf_printf(out, " as %s", step->form);
    const hn_module *m = step->run->m;
    if (!hn_place_dev(m, hn_place_of(m, step->device.kind))->facts.is_host)
        hn_strbuf_printf(out, " on %s:%u", hn_device_kind_name(step->device.kind),
                         step->device.number);
    print_nodes(step, out);
    if (*step->source) hn_strbuf_printf(out, ", %s", step->source);
}

void hn_debug_print_name(const hn_step_operand *o, hn_strbuf *out) {
    hn_strbuf_printf(out, "b%u", o->buffer);
    if (*o->name) hn_strbuf_printf(out, " '%s'", o->name);
    if (*o->node) hn_strbuf_printf(out, " (%s)", o->node);
}

static void print_dims(const char *open, uint32_t rank, const int64_t *dims, hn_strbuf *out) {
    hn_strbuf_puts(out, open);
    for (uint32_t d = 0; d < rank; d++)
        hn_strbuf_printf(out, "%s%lld", d ? ", " : "", (long long)dims[d]);
    hn_strbuf_putc(out, ']');
}

void hn_debug_print_index(const hn_step_operand *o, int64_t index, hn_strbuf *out) {
    int64_t at[HN_TENSOR_MAX_RANK];
    for (uint32_t d = o->rank; d-- > 0; index /= o->sizes[d]) at[d] = index % o->sizes[d];
    print_dims("[", o->rank, at, out);
}

static void print_stats(const hn_step_operand *o, const hn_tensor_stats *s, hn_strbuf *out) {
    if (!s->count) {
        hn_strbuf_puts(out, " empty");
        return;
    }
    if (s->count > s->nan_count + s->inf_count)
        hn_strbuf_printf(out, " min %.6g max %.6g mean %.6g std %.6g", s->min, s->max, s->mean,
                         s->std);
    if (s->first_bad < 0) return;
    hn_strbuf_printf(out, " nan %lld inf %lld, first ", (long long)s->nan_count,
                     (long long)s->inf_count);
    hn_debug_print_index(o, s->first_bad, out);
    hn_strbuf_printf(out, " is %g", isnan(s->first_bad_value) ? (double)NAN : s->first_bad_value);
}

void hn_debug_print_tensor(const hn_debug_tensor *t, bool has_stats, hn_strbuf *out) {
    static const char *const whens[] = {"input", "before", "after"};
    const hn_step_operand *o = t->operand;
    if (t->when == HN_DEBUG_INPUT) hn_strbuf_printf(out, "call %llu", (unsigned long long)t->call);
    else hn_debug_print_step(t->step, out);
    hn_strbuf_printf(out, ": %s ", whens[t->when]);
    hn_debug_print_name(o, out);
    hn_strbuf_printf(out, " %s", hn_scalar_type_name(o->type));
    if (!o->has_shape) return;
    print_dims("[", o->rank, o->sizes, out);
    print_dims(" strides [", o->rank, o->strides, out);
    if (o->is_partial) hn_strbuf_puts(out, " (later steps write the rest)");
    if (has_stats) print_stats(o, &t->seen->stats, out);
}
