/* stats_kernels.h: statistics of tensors by a device that has them: how the kernels of
 * tensor_stats.cu are launched, and what they write. Modules have the kernels from a text
 * (device_stats.h), C projects as machine code (share/source/debug_device.c). */
#ifndef HN_RUNTIME_STATS_KERNELS_H
#define HN_RUNTIME_STATS_KERNELS_H

#include "runtime/device/device.h"
#include "runtime/tensor_stats.h"

/* Of a loaded program, which has to outlive it. */
typedef struct hn_stats_kernels {
    void *look, *join;
} hn_stats_kernels;

/* Errors: not-found. */
hn_status hn_stats_kernels_find(hn_dev *dev, hn_device_program *program,
                                hn_stats_kernels *out) HN_MUST_USE;

/* Whether the kernels can walk over the tensor: of many dimensions, some have to be joined. */
bool hn_stats_kernels_take(const hn_stats_tensor *tensor);

/* Of a tensor that they take, whose memory is the device's, behind the work that the queue has.
 * Waits; only a record of some bytes comes to the host. `step`: of the launches. Errors: device;
 * out-of-memory. Threads: as of the queue. */
hn_status hn_stats_kernels_get(const hn_stats_kernels *kernels, hn_queue *queue, uint32_t step,
                               const hn_stats_tensor *tensor, hn_tensor_stats *out) HN_MUST_USE;

/* Statistics of several tensors, which the device makes when its queue comes to them and the host
 * reads together: the content counts that a tensor has at this place of the queue. */
typedef struct hn_stats_batch hn_stats_batch;
enum { HN_STATS_BATCH = 256 };
enum { HN_STATS_INF = 1, HN_STATS_NAN = 2 };
/* NULL: there is no memory. */
hn_stats_batch *hn_stats_batch_create(hn_dev *dev);
/* Nothing of it may be under way. NULL is allowed. */
void hn_stats_batch_destroy(hn_stats_batch *b);
/* `wanted`: what the first bad element may be. false: the batch is full, the tensor is empty, or
 * the kernels do not take it. */
bool hn_stats_batch_add(hn_stats_batch *b, const hn_stats_kernels *kernels, hn_queue *queue,
                        uint32_t step, const hn_stats_tensor *tensor, unsigned wanted);
/* Waits for all of them. Errors: device. */
hn_status hn_stats_batch_read(hn_stats_batch *b, hn_queue *queue) HN_MUST_USE;
/* Behind _read: of number `k`, by the order of _add. */
void hn_stats_batch_get(const hn_stats_batch *b, uint32_t k, hn_tensor_stats *out);
void hn_stats_batch_reset(hn_stats_batch *b);

#endif
