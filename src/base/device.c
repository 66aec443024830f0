/* device.c: see device.h. */
#include "base/device.h"

#include <string.h>

/* Each kind of henry/tensor.h. They are also in texts and JSON. */
static const char *const names[HN_DEVICE_KIND_COUNT] = {
    [HN_DEVICE_CPU] = "cpu", [HN_DEVICE_CUDA] = "cuda", [HN_DEVICE_OPENCL] = "opencl"};

const char *hn_device_name(uint32_t kind) {
    return kind < HN_DEVICE_KIND_COUNT ? names[kind] : "unknown";
}

hn_device_kind hn_device_named(hn_str name) {
    uint32_t kind = 0;
    while (kind < HN_DEVICE_KIND_COUNT && !hn_str_eq(name, hn_str_of(names[kind]))) kind++;
    return (hn_device_kind)kind;
}

static hn_status parse_error(const char *text) {
    hn_strbuf kinds;
    hn_strbuf_init(&kinds);
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++)
        hn_strbuf_printf(&kinds, "%s%s", k ? ", " : "", names[k]);
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT,
                                "'%s' is no device; give one of %s, or one with a number: '%s:0'",
                                text, kinds.ptr ? kinds.ptr : "", names[0]);
    hn_strbuf_deinit(&kinds);
    return status;
}

/* UUIDs, as NVIDIA's tools print them: of a GPU, of a part of one. */
static bool is_name(hn_device_kind kind, const char *text) {
    return kind == HN_DEVICE_CUDA &&
           (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0) && text[4];
}

hn_status hn_device_parse(const char *text, hn_device *out, const char **out_name) {
    const char *colon = strchr(text, ':');
    const hn_device_kind kind =
        hn_device_named((hn_str){text, colon ? (size_t)(colon - text) : strlen(text)});
    uint32_t number = 0;
    if (kind == HN_DEVICE_KIND_COUNT || (colon && !colon[1])) return parse_error(text);
    *out_name = colon && is_name(kind, colon + 1) ? colon + 1 : NULL;
    for (const char *c = colon && !*out_name ? colon + 1 : ""; *c; c++) {
        if (*c < '0' || *c > '9' || number > 1000) return parse_error(text);
        number = 10 * number + (uint32_t)(*c - '0');
    }
    *out = (hn_device){.kind = kind, .number = number};
    return NULL;
}
