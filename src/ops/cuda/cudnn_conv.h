/* cudnn_conv.h: CONV by cuDNN. */
#ifndef HN_OPS_CUDA_CUDNN_CONV_H
#define HN_OPS_CUDA_CUDNN_CONV_H

#include "ops/cpu/ext.h"
#include "ops/cuda/cudnn.h"

typedef struct hn_dnn_conv hn_dnn_conv;

/* Plans of the calls that are there: equal calls share one. All zeros is a good start, and what is
 * left when no call is there. With the handle's lock held. */
typedef struct hn_dnn_plans {
    struct hn_dnn_plan *first;
} hn_dnn_plans;

typedef struct hn_dnn_options {
    bool tf32;              /* f32 operands may be rounded to 11 bits first: several times faster */
    size_t workspace_bytes; /* at most */
    /* of the good engines in the heuristic's list, from 1 on; 0: the first that makes a plan */
    uint32_t candidate;
    /* Properties of a device (HN_DNN_DEVICEPROP) that plans are made for, in place of that of the
     * handle, which may be NULL then: for tests without a device. Such plans cannot run. */
    void *device;
    hn_dnn_plans *plans; /* of this handle; they stay longer than the call. NULL: it has its own */
} hn_dnn_options;

/* Chooses how: the first plan of the library's heuristic that computes as f32 does, has its kernels
 * at hand and fits the workspace, or the candidate that the options name, which is unsupported
 * where there is none or it makes no plan. The CUDA context of `handle` (of cudnnCreate) is
 * current, here and in each run; one thread at a time uses the handle, also between calls of this
 * header. Takes f32, f16 and bf16, and what convolution.h describes. `call` was checked, and stays
 * until `destroy`. Errors: unsupported for other calls; device; out-of-memory. */
hn_status hn_dnn_conv_create(const hn_cudnn *dnn, void *handle, const hn_dnn_options *options,
                             const hn_ext_call *call, hn_dnn_conv **out) HN_MUST_USE;
void hn_dnn_conv_destroy(hn_dnn_conv *c); /* NULL is allowed */

/* Memory of the device, aligned to 256 bytes, that a run wants. */
size_t hn_dnn_conv_scratch_bytes(const hn_dnn_conv *c);
/* `args`: addresses of the call's operands. */
hn_status hn_dnn_conv_run(hn_dnn_conv *c, void *const *args, void *scratch,
                          void *stream) HN_MUST_USE;

#endif
