/* device.h: the names of the kinds of devices that memory lies on (hn_device_kind of
 * henry/tensor.h). Memory of which nothing else is said is the CPU's, which is number 0. */
#ifndef HN_BASE_DEVICE_H
#define HN_BASE_DEVICE_H

#include "base/str.h"
#include "henry/tensor.h"

/* "cpu"; "unknown" out of range. Static storage. */
const char *hn_device_name(uint32_t kind);
/* The reverse; HN_DEVICE_KIND_COUNT: there is no device of that name. */
hn_device_kind hn_device_named(hn_str name);

/* "opencl", which is number 0, "opencl:1", or "cuda:GPU-8f2c": then `out_name` is "GPU-8f2c", in
 * `text`, and the number is for the driver to tell; otherwise it is NULL. Errors:
 * invalid-argument. */
hn_status hn_device_parse(const char *text, hn_device *out, const char **out_name) HN_MUST_USE;

#endif
