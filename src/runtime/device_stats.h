/* device_stats.h: statistics of tensors that the host cannot read, by the device that has them. */
#ifndef HN_RUNTIME_DEVICE_STATS_H
#define HN_RUNTIME_DEVICE_STATS_H

#include "runtime/module_impl.h"
#include "runtime/tensor_stats.h"

/* `tensor`: in memory of the device that runs the kernels. Behind the work that the queue of the
 * context has; only a record of some bytes comes to the host. `step`: of the launches. The first
 * call of a module compiles the kernels.
 *
 * false: the device does not do it, and the tensor has to be copied. That it cannot is said once a
 * process, as a warning. Threads: any. */
bool hn_device_stats_get(hn_context *c, const hn_module *m, uint32_t step,
                         const hn_stats_tensor *tensor, hn_tensor_stats *out);

/* Appends the text of the kernels, without the words of a language. Errors latch in `out`. */
void hn_device_stats_text(hn_strbuf *out);

/* A part of a load. */
hn_status hn_device_stats_init(hn_module *m) HN_MUST_USE;
/* Before the device is given back. */
void hn_device_stats_deinit(hn_module *m);

#endif
