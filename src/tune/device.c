/* device.c: see device.h. */
#include "tune/device.h"

#include "base/cpu.h"
#include "base/device.h"
#include "tune/record.h"

#include <inttypes.h>

/* ---- identities ---- */

/* What a driver says may be anything: printable ASCII of it. */
static void add(hn_strbuf *out, const char *name, const char *value) {
    char text[HN_TUNING_TEXT_MAX + 1];
    snprintf(text, sizeof text, "%s", value ? value : "");
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    hn_device_field_add(out, hn_str_of(name), hn_str_of(text));
}

static void add_number(hn_strbuf *out, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    add(out, name, text);
}

static void add_compiler(hn_strbuf *out, const hn_tuning_code *code) {
    if (code->compiler) add(out, "compiler", code->compiler);
}

void hn_tuning_device_host(const hn_tuning_code *code, int threads, hn_strbuf *out) {
    char name[128];
    int64_t caches[3];
    const hn_cpu_level *level = hn_cpu_level_named(hn_str_of(code->target));
    hn_cpu_name(name, sizeof name);
    hn_cpu_caches(caches);
    add(out, "kind", hn_device_name(HN_DEVICE_CPU));
    add(out, "name", name);
    add(out, "target", level ? level->name : code->target);
    if (level) add_number(out, "vector_bytes", level->vector_bytes);
    add_number(out, "L1", caches[0]);
    add_number(out, "L2", caches[1]);
    add_number(out, "L3", caches[2]);
    add_number(out, "threads", threads);
    add_compiler(out, code);
}

static void add_libraries(const hn_dev *dev, hn_strbuf *out) {
    char text[HN_TUNING_TEXT_MAX] = "";
    const hn_device_operations *operations = dev->ops->operations;
    if (operations && operations->identify) operations->identify(text, sizeof text);
    if (*text) add(out, "libraries", text);
}

void hn_tuning_device_of(const hn_dev *dev, const hn_tuning_code *code, hn_strbuf *out) {
    const uint64_t gib = (dev->facts.memory_bytes + (UINT64_C(1) << 29)) >> 30;
    add(out, "kind", hn_device_name(dev->ops->kind));
    add(out, "name", dev->facts.name);
    add_number(out, "memory_GiB", (int64_t)gib);
    add(out, "driver", dev->facts.driver);
    add_libraries(dev, out);
    add(out, "target", code->target);
    add_compiler(out, code);
}

bool hn_tuning_device_find(hn_device device, const hn_tuning_code *code, hn_strbuf *out) {
    const hn_device_ops *ops = hn_device_ops_of(device.kind);
    hn_dev *dev = NULL;
    if (!ops) return false;
    hn_status status = hn_dev_open(ops, &(hn_device_options){.number = device.number}, &dev);
    const bool is_there = !status;
    if (is_there && out) hn_tuning_device_of(dev, code, out);
    hn_dev_release(dev);
    hn_status_free(status);
    return is_there;
}

/* ---- differences ---- */

static bool find(hn_str device, hn_str wanted, hn_str *out_value) {
    for (hn_str name, value; hn_device_field_next(&device, &name, &value);)
        if (hn_str_eq(name, wanted)) {
            *out_value = value;
            return true;
        }
    *out_value = HN_STR("");
    return false;
}

static void put(hn_strbuf *out, hn_str name, const hn_str *was, const hn_str *is) {
    if (!out) return;
    hn_strbuf_printf(out, "'" HN_STR_FMT "' ", HN_STR_ARG(name));
    if (was) hn_strbuf_printf(out, "was '" HN_STR_FMT "'", HN_STR_ARG(*was));
    else hn_strbuf_puts(out, "was not there");
    if (is) hn_strbuf_printf(out, ", is '" HN_STR_FMT "'\n", HN_STR_ARG(*is));
    else hn_strbuf_puts(out, ", is no more\n");
}

uint32_t hn_tuning_device_diff(hn_str was, hn_str is, hn_strbuf *out) {
    uint32_t count = 0;
    hn_str name, value, other;
    for (hn_str rest = was; hn_device_field_next(&rest, &name, &value);) {
        const bool is_there = find(is, name, &other);
        if (is_there && hn_str_eq(value, other)) continue;
        put(out, name, &value, is_there ? &other : NULL);
        count++;
    }
    for (hn_str rest = is; hn_device_field_next(&rest, &name, &value);)
        if (!find(was, name, &other)) put(out, name, NULL, &value), count++;
    return count;
}
