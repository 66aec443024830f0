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

/* Statistics of several tensors, which the device makes when its queue comes to them and the host
 * reads together: the content counts that a tensor has at this place of the queue. */
typedef struct hn_stats_batch hn_stats_batch;
enum { HN_STATS_BATCH = 256 };
enum { HN_STATS_INF = 1, HN_STATS_NAN = 2 };
/* NULL: the device does not do it, or there is no memory. */
hn_stats_batch *hn_stats_batch_create(const hn_module *m);
/* Nothing of it may be under way. NULL is allowed. */
void hn_stats_batch_destroy(hn_stats_batch *b);
/* `wanted`: what the first bad element may be. false: the batch is full, the tensor is empty, or it
 * is one that hn_device_stats_get has to look at. */
bool hn_stats_batch_add(hn_stats_batch *b, hn_context *c, const hn_module *m, uint32_t step,
                        const hn_stats_tensor *tensor, unsigned wanted);
/* Waits for all of them. */
hn_status hn_stats_batch_read(hn_stats_batch *b, hn_context *c) HN_MUST_USE;
/* Behind _read: of number `k`, by the order of _add. */
void hn_stats_batch_get(const hn_stats_batch *b, uint32_t k, hn_tensor_stats *out);
void hn_stats_batch_reset(hn_stats_batch *b);

/* Appends the text of the kernels, without the words of a language. Errors latch in `out`. */
void hn_device_stats_text(hn_strbuf *out);

/* A part of a load. */
hn_status hn_device_stats_init(hn_module *m) HN_MUST_USE;
/* Before the device is given back. */
void hn_device_stats_deinit(hn_module *m);

#endif
