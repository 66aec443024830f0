/* gpu_there.h: tensors in memory of a device, for calls without copies. */
#ifndef HN_BENCH_GPU_THERE_H
#define HN_BENCH_GPU_THERE_H

#include "henry/henry.h"
#include "runtime/module_impl.h"

/* Puts in the place of `*t` a tensor with its content in memory of the device that runs the kernels;
 * the queue is idle when it returns. */
hn_status gpu_tensor_move(hn_module *m, hn_queue *queue, hn_tensor **t);

#endif
