/* libraries.h: libraries of a device, loaded while the device is opened. Drivers take 100 ms for a
 * context, and loading a library of NVIDIA's takes half of that. */
#ifndef HN_RUNTIME_LIBRARIES_H
#define HN_RUNTIME_LIBRARIES_H

#include "runtime/module_impl.h"

/* All zeros: nothing is loaded. */
typedef struct hn_libraries {
    bool has_thread;
    pthread_t thread;
    void (*load)(uint32_t kinds);
    uint32_t kinds;
} hn_libraries;

/* A thread loads what the program of `m` will ask for. Without one they are loaded when they are
 * needed. `l` stays where it is until `end`. */
void hn_libraries_begin(const hn_module *m, hn_libraries *l);
/* Waits for it. */
void hn_libraries_end(hn_module *m, hn_libraries *l);

#endif
