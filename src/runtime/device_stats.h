/* device_stats.h: statistics of a module's tensors that the host cannot read, by the device that
 * has them. */
#ifndef HN_RUNTIME_DEVICE_STATS_H
#define HN_RUNTIME_DEVICE_STATS_H

#include "runtime/module_impl.h"
#include "runtime/stats_kernels.h"

/* The kernels, on the device that runs those of the module; its first call compiles them. NULL: the
 * device does not do it, and tensors have to be copied, which is said once a process, as a warning.
 * Threads: any. */
const hn_stats_kernels *hn_device_stats_kernels(const hn_module *m);

/* `tensor`: in memory of that device. Behind the work that the queue of the context has; only a
 * record of some bytes comes to the host. `step`: of the launches.
 *
 * false: the device does not do it, and the tensor has to be copied. Threads: any. */
bool hn_device_stats_get(hn_context *c, const hn_module *m, uint32_t step,
                         const hn_stats_tensor *tensor, hn_tensor_stats *out);

/* A part of a load. */
hn_status hn_device_stats_init(hn_module *m) HN_MUST_USE;
/* Before the device is given back. */
void hn_device_stats_deinit(hn_module *m);

#endif
