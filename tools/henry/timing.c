/* timing.c: where the time of a start and the memory of a device go: for `henry run`. */
#include "tool.h"

#include "base/trace.h"

void tool_start_json(tool_json *json, const hn_module_stats *stats) {
    tool_json_ms(json, "device_open", stats->device_open_ns);
    tool_json_ms(json, "kernels_load", stats->kernels_load_ns);
    tool_json_ms(json, "libraries_load", stats->libraries_load_ns);
    tool_json_ms(json, "resolve", stats->resolve_ns);
    tool_json_ms(json, "libraries_start", stats->libraries_start_ns);
    tool_json_ms(json, "operations_choose", stats->operations_choose_ns);
    tool_json_ms(json, "operations_first", stats->operations_first_ns);
    tool_json_ms(json, "weights_upload", stats->weights_upload_ns);
}

void tool_device_memory_json(tool_json *json, const hn_module_stats *stats) {
    tool_json_int(json, "device_bytes", (int64_t)stats->device_bytes);
    tool_json_int(json, "device_peak_bytes", (int64_t)stats->device_peak_bytes);
    tool_json_int(json, "device_weights_bytes", (int64_t)stats->device_weights_bytes);
    tool_json_int(json, "device_states_bytes", (int64_t)stats->device_states_bytes);
    tool_json_int(json, "plan_bytes", (int64_t)stats->plan_bytes);
    tool_json_int(json, "plan_least_bytes", (int64_t)stats->plan_least_bytes);
    tool_json_int(json, "scratch_bytes", (int64_t)stats->scratch_bytes);
}

static double ms(int64_t ns) { return (double)ns / 1e6; }
static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

static void print_ms(hn_strbuf *out, const char *what, int64_t ns, const char *more) {
    hn_strbuf_printf(out, "%-24s %10.3f ms%s%s\n", what, ms(ns), more[0] ? "  " : "", more);
}

static void print_upload(hn_strbuf *out, const hn_module_stats *s) {
    char more[64];
    if (!s->weights_uploaded_bytes) return;
    snprintf(more, sizeof more, "%.1f MiB, %.1f GB/s, while the rest goes on",
             mib(s->weights_uploaded_bytes),
             (double)s->weights_uploaded_bytes / (double)(s->weights_upload_ns | 1));
    print_ms(out, "weights to the device", s->weights_upload_ns, more);
}

static void print_memory(hn_strbuf *out, const hn_module_stats *s) {
    const uint64_t kept = s->device_weights_bytes + s->device_states_bytes;
    if (!s->device_peak_bytes) return;
    hn_strbuf_printf(out,
                     "device memory  %.1f MiB at most: weights %.1f, states %.1f, runs %.1f; "
                     "the plan: %.1f, at least %.1f; scratch %.1f\n",
                     mib(s->device_peak_bytes), mib(s->device_weights_bytes),
                     mib(s->device_states_bytes),
                     mib(s->device_peak_bytes > kept ? s->device_peak_bytes - kept : 0),
                     mib(s->plan_bytes), mib(s->plan_least_bytes), mib(s->scratch_bytes));
}

void tool_timing_print(const tool_model *model, const tool_times *times, hn_strbuf *out) {
    hn_module_stats s;
    char count[48];
    hn_module_stats_get(model->module, &s);
    snprintf(count, sizeof count, "%u of %u objects", s.objects_loaded, s.objects);
    if (model->kind == TOOL_MODEL)
        print_ms(out, "compilation", model->stats.total_ns,
                 model->stats.graph_cache == HN_CACHE_HIT ? "from the cache" : "");
    print_ms(out, "opening", s.open_ns, "");
    if (s.device_open_ns) print_ms(out, "  the device", s.device_open_ns, "its driver and context");
    print_ms(out, "first run", times->first_ns, "");
    print_ms(out, "  steps resolved", s.resolve_ns, "");
    if (s.libraries_load_ns) print_ms(out, "    libraries", s.libraries_load_ns, "");
    if (s.libraries_start_ns)
        print_ms(out, "    their start", s.libraries_start_ns, "with the first question to each");
    if (s.operations_choose_ns)
        print_ms(out, "    operations chosen", s.operations_choose_ns, "by libraries");
    if (s.operations_first_ns)
        print_ms(out, "  operations' first runs", s.operations_first_ns,
                 "their kernels are loaded");
    print_ms(out, "kernels loaded", s.kernels_load_ns, count);
    print_upload(out, &s);
    print_ms(out, "all", hn_now_ns() - times->begin_ns, "");
    print_memory(out, &s);
}
