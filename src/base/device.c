/* device.c: see device.h. */
#include "base/device.h"

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
