/* target.h: the target of a job for GPUs: a list of architectures. Not for other folders. */
#ifndef HN_TOOLCHAIN_TARGET_H
#define HN_TOOLCHAIN_TARGET_H

#include "toolchain/images.h"

typedef struct hn_gpu_arch {
    const char *name; /* "sm_90", "compute_90"; borrowed from the job */
    bool is_ptx;
} hn_gpu_arch;

typedef struct hn_gpu_target {
    hn_gpu_arch archs[HN_IMAGES_MAX];
    uint32_t count;
    bool is_host; /* the member "host" */
} hn_gpu_target;

/* `known`: a list of numbers ("75", "90"), or empty when nobody can tell. `compiler` and `version`
 * are for messages. Errors: invalid-argument for no architecture at all and for one that the
 * compiler does not know.
 */
hn_status hn_gpu_target_read(hn_str target, hn_str known, const char *compiler, const char *version,
                             hn_gpu_target *out) HN_MUST_USE;

#endif
