/* early.h: what a module will need, made while its device is opened. A driver takes 100 ms for a
 * context; to load a library of NVIDIA's takes half of that, and memory for the copies of weights as
 * long as the copies. */
#ifndef HN_RUNTIME_EARLY_H
#define HN_RUNTIME_EARLY_H

#include "runtime/module_impl.h"

/* All zeros: nothing is made. */
typedef struct hn_early {
    pthread_t loader, maker;
    bool has_loader, has_maker;
    void (*load)(uint32_t kinds);
    uint32_t kinds; /* of operations */
    hn_copy_memory memory;
} hn_early;

/* Threads load what the operations of the program want, and make memory that copies of its weights
 * go through. Without threads both come when they are needed. `e` stays where it is until `end`. */
void hn_early_begin(const hn_module *m, hn_early *e);
/* The memory, which is the caller's now. */
hn_copy_memory hn_early_memory_take(hn_early *e);
/* Waits for the threads; how long counts as loading of libraries. */
void hn_early_end(hn_module *m, hn_early *e);

#endif
