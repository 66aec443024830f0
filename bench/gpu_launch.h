/* gpu_launch.h: what launches cost when the driver is called directly. */
#ifndef HN_BENCH_GPU_LAUNCH_H
#define HN_BENCH_GPU_LAUNCH_H

#include "henry/status.h"

#include <stdint.h>

typedef struct bare_launches {
    double launch_ns; /* of the host, for one launch of many behind each other */
    double run_us;    /* of the host, for `count` launches and waiting for them */
} bare_launches;

/* Launches of a kernel that does nothing, with four addresses, on the CUDA device of this number. */
hn_status bare_launches_measure(uint32_t device, uint32_t count, bare_launches *out) HN_MUST_USE;

#endif
