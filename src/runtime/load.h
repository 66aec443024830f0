/* load.h: loading for hosts inside the library, such as the driver with its kernel store. */
#ifndef HN_RUNTIME_LOAD_H
#define HN_RUNTIME_LOAD_H

#include "base/hash.h"
#include "henry/module.h"

/* Finds the shared objects that an image only refers to. */
typedef struct hn_module_host {
    void *user;
    /* The bytes must stay until the load returns. Errors: not-found; they fail the load. */
    hn_status (*find_object)(void *user, const hn_digest *digest, const void **out_bytes,
                             size_t *out_len);
} hn_module_host;

/* hn_module_load_memory with a host; `host` may be NULL. */
hn_status hn_module_load_hosted(const void *bytes, size_t len, bool borrow,
                                const hn_module_options *options, const hn_module_host *host,
                                hn_module **out_module) HN_MUST_USE;

/* Threads of a run when its module does not say: HENRY_THREADS, else OMP_NUM_THREADS, else one per
 * processor; 1 to HN_THREADS_MAX. */
int hn_threads_default(void);

#endif
