/* device.h: the kinds of devices that memory lies on. */
#ifndef HN_BASE_DEVICE_H
#define HN_BASE_DEVICE_H

#include "base/str.h"

/* Kind; name in texts and JSON. The numbers are part of the bundle format: append only. */
#define HN_DEVICE_KINDS(X) \
    X(HN_DEVICE_CPU, "cpu") \
    X(HN_DEVICE_CUDA, "cuda") \
    X(HN_DEVICE_OPENCL, "opencl")

/* Programs run on the CPU only, so far. It is number 0: memory of which nothing else is said is the
 * CPU's. */
typedef enum hn_device_kind {
#define HN_DEVICE_MEMBER(kind, name) kind,
    HN_DEVICE_KINDS(HN_DEVICE_MEMBER)
#undef HN_DEVICE_MEMBER
        HN_DEVICE_KIND_COUNT
} hn_device_kind;

/* "cpu"; "unknown" out of range. Static storage. */
const char *hn_device_name(uint32_t kind);
/* The reverse; HN_DEVICE_KIND_COUNT: there is no device of that name. */
hn_device_kind hn_device_named(hn_str name);

#endif
