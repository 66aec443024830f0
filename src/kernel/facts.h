/* facts.h: what the planner knows of a processor. */
#ifndef HN_KERNEL_FACTS_H
#define HN_KERNEL_FACTS_H

#include <stdint.h>

/* A processor that runs groups of threads. */
typedef struct hn_gpu_facts {
    uint32_t warp;            /* threads that go together: they read memory side by side */
    uint32_t threads_max;     /* of a group */
    uint32_t shared_bytes;    /* of a group */
    uint32_t multiprocessors; /* groups run on each of them at once: */
    uint32_t resident;        /* so many threads on one */
    double bytes_per_ns;      /* of memory, all multiprocessors together */
    double ops_per_ns;        /* additions of f32, likewise */
    double barrier_ns;        /* a level of a tree in shared memory */
    double launch_ns;
} hn_gpu_facts;

#endif
