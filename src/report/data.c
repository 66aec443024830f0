/* data.c: the object: what file it is of, where and under what it was made, times, counters and the
 * trace. */
#include "report/internal.h"

#include "base/arena.h"
#include "base/compiler.h"
#include "base/json.h"
#include "cache/record.h"
#include "henry/version.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- environment ---- */

static void put_field(hn_strbuf *out, hn_str name, hn_str value) {
    hn_json_open_put(out, '[');
    hn_json_item_put(out), hn_strbuf_json(out, name);
    hn_json_item_put(out), hn_strbuf_json(out, value);
    hn_json_close_put(out, ']');
}

static void put_words(hn_strbuf *out, const char *name, const char *value) {
    put_field(out, hn_str_of(name), hn_str_of(value));
}

/* "model name : ..." of the first processor; nothing where the kernel tells none. */
static void put_processor(hn_strbuf *out) {
    static const char key[] = "model name\t: ";
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status status = hn_file_read("/proc/cpuinfo", &text);
    const char *at = status ? NULL : strstr(hn_strbuf_str(&text).ptr, key);
    if (at) {
        at += sizeof key - 1;
        put_field(out, HN_STR("processor"), (hn_str){at, strcspn(at, "\n")});
    }
    hn_status_free(status);
    hn_strbuf_deinit(&text);
}

static void put_machine(hn_strbuf *out) {
    struct utsname system;
    char text[200];
    put_words(out, "henry", hn_version_string());
    if (uname(&system) == 0) {
        snprintf(text, sizeof text, "%s %s, %s", system.sysname, system.release, system.machine);
        put_words(out, "system", text);
    }
    put_processor(out);
    snprintf(text, sizeof text, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    put_words(out, "processors", text);
}

/* What the program was compiled under. */
static void put_key(const hn_bundle *b, hn_strbuf *out) {
    hn_record_field field;
    hn_str rest = {b->key, (size_t)b->key_bytes};
    hn_json_key_put(out, "key"), hn_json_open_put(out, '[');
    while (b->key && hn_record_next(&rest, &field)) put_field(out, field.name, field.value);
    hn_json_close_put(out, ']');
}

static void put_environment(const hn_report_source *s, hn_strbuf *out) {
    hn_module_device_info device;
    hn_json_key_put(out, "environment"), hn_json_open_put(out, '[');
    put_machine(out);
    if (s->run && s->run->module) {
        hn_module_device_get(s->run->module, &device);
        put_words(out, "device", device.name);
    }
    hn_json_close_put(out, ']');
    if (s->bundle) put_key(s->bundle, out);
}

/* ---- times and counters ---- */

static void put_phases(const hn_compile_stats *s, hn_strbuf *out) {
    const struct {
        const char *name;
        int64_t ns;
    } phases[] = {{"import", s->import_ns},     {"passes", s->opt_ns},      {"lower", s->lower_ns},
                  {"schedule", s->sched_ns},    {"kernels", s->codegen_ns}, {"count", s->count_ns},
                  {"compilers", s->compile_ns}, {"bundle", s->bundle_ns}};
    hn_json_key_put(out, "phases"), hn_json_open_put(out, '[');
    for (size_t k = 0; k < HN_COUNT_OF(phases); k++) {
        hn_json_open_put(out, '{');
        hn_json_text_put(out, "name", hn_str_of(phases[k].name));
        hn_json_int_put(out, "ns", phases[k].ns);
        hn_json_close_put(out, '}');
    }
    hn_json_close_put(out, ']');
}

static void put_passes(const hn_driver *d, hn_strbuf *out) {
    hn_json_key_put(out, "passes"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < HN_PASSES_MAX && d->passes[k].name; k++) {
        const hn_pass_stats *pass = &d->passes[k];
        hn_json_open_put(out, '{');
        hn_json_text_put(out, "name", hn_str_of(pass->name));
        hn_json_int_put(out, "ns", pass->ns);
        hn_json_int_put(out, "nodes_before", pass->nodes_before);
        hn_json_int_put(out, "nodes_after", pass->nodes_after);
        hn_json_close_put(out, '}');
    }
    hn_json_close_put(out, ']');
}

static void put_compilation(const hn_compiled *compiled, hn_strbuf *out) {
    hn_compile_stats stats;
    hn_metrics metrics;
    hn_compiled_stats_get(compiled, &stats);
    hn_compiled_metrics_get(compiled, &metrics);
    hn_json_key_put(out, "compilation"), hn_json_open_put(out, '{');
    hn_json_int_put(out, "total_ns", stats.total_ns);
    hn_json_int_put(out, "saved_ns", stats.time_saved_ns);
    put_phases(&stats, out);
    hn_json_close_put(out, '}');
    hn_json_key_put(out, "metrics"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < hn_metric_count(); k++) {
        const hn_metric *metric = hn_metric_get(k);
        hn_json_open_put(out, '{');
        hn_json_text_put(out, "name", hn_str_of(metric->name));
        hn_json_text_put(out, "unit", hn_str_of(metric->unit));
        hn_json_text_put(out, "meaning", hn_str_of(metric->meaning));
        hn_json_int_put(out, "value", metrics.values[k]);
        hn_json_close_put(out, '}');
    }
    hn_json_close_put(out, ']');
}

static void put_run(const hn_report_run *run, hn_strbuf *out) {
    hn_json_key_put(out, "run"), hn_json_open_put(out, '{');
    hn_json_int_put(out, "count", run->count);
    hn_json_int_put(out, "profiled", run->profiled);
    if (run->count) hn_json_int_put(out, "first_ns", run->first_ns);
    if (run->count) hn_json_int_put(out, "median_ns", run->median_ns);
    hn_json_bool_put(out, "is_random", run->is_random);
    if (run->problem) hn_json_text_put(out, "problem", hn_str_of(run->problem));
    hn_json_close_put(out, '}');
}

/* ---- the trace ---- */

hn_status hn_report_check_value(hn_json *json) {
    hn_str text;
    double number;
    bool truth;
    switch (hn_json_peek(json)) {
    case HN_JSON_OBJECT:
        HN_TRY(hn_json_object(json));
        while (hn_json_key(json, &text)) HN_TRY(hn_report_check_value(json));
        return hn_json_status(json);
    case HN_JSON_ARRAY:
        HN_TRY(hn_json_array(json));
        while (hn_json_item(json)) HN_TRY(hn_report_check_value(json));
        return hn_json_status(json);
    case HN_JSON_STRING: return hn_json_string(json, &text);
    case HN_JSON_NUMBER:
        HN_TRY(hn_json_float(json, &number));
        return isfinite(number) ? NULL : hn_json_error(json, "a number that is not finite");
    case HN_JSON_BOOL: return hn_json_bool(json, &truth);
    case HN_JSON_NULL: return hn_json_null(json) ? NULL : hn_json_status(json);
    default: return hn_json_error(json, "no value");
    }
}

/* It goes in as it is. */
static hn_status put_trace(hn_str trace, hn_strbuf *out) {
    hn_arena arena;
    hn_json json;
    hn_arena_init(&arena);
    hn_json_init(&json, &arena, trace);
    hn_status status = hn_report_check_value(&json);
    if (!status) status = hn_json_finish(&json);
    hn_arena_deinit(&arena);
    if (status) return hn_status_annotate(status, "the trace is damaged");
    hn_json_key_put(out, "trace");
    hn_strbuf_append(out, trace.ptr, trace.len);
    return NULL;
}

/* ---- the object ---- */

static void put_made(hn_strbuf *out) {
    char text[32];
    struct tm made;
    const time_t now = time(NULL);
    gmtime_r(&now, &made);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &made);
    hn_json_text_put(out, "made", hn_str_of(text));
}

hn_status hn_report_data(const hn_report_source *s, hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_json_int_put(out, "henry_report", HN_REPORT_VERSION);
    hn_json_text_put(out, "kind", hn_str_of(s->kind));
    hn_json_text_put(out, "path", hn_str_of(s->path));
    put_made(out);
    put_environment(s, out);
    if (s->compiled) put_compilation(s->compiled, out);
    if (s->run) put_run(s->run, out);
    if (s->run && s->run->roofline) hn_report_put_roofline(s->run->roofline, out);
    if (s->graph) HN_TRY(hn_report_put_nodes(s->graph, out));
    if (s->bundle) HN_TRY(hn_report_put_program(s, out));
    if (s->driver) put_passes(s->driver, out);
    if (s->driver) hn_report_put_fusions(s->driver, out);
    if (s->driver) HN_TRY(hn_report_put_kernels(s->driver, out));
    if (s->driver) HN_TRY(hn_report_put_picks(s->driver, out));
    if (s->trace.len) HN_TRY(put_trace(s->trace, out));
    hn_json_close_put(out, '}');
    return hn_strbuf_status(out);
}
