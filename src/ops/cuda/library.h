/* library.h: how NVIDIA's libraries are found and opened. Nothing is linked with them. They stay in
 * the process: they have threads and state. */
#ifndef HN_OPS_CUDA_LIBRARY_H
#define HN_OPS_CUDA_LIBRARY_H

#include "henry/status.h"

#include <stddef.h>

typedef struct hn_nvidia_library {
    const char *subject;      /* "cuBLASLt" */
    const char *variable;     /* of the environment, that names a file */
    const char *wanted;       /* its value; "off": none; NULL: as if there were none */
    const char *const *names; /* of files, the best first; NULL ends them */
    const char *package;      /* of pip, that has it */
} hn_nvidia_library;

typedef struct hn_nvidia_function {
    void *place; /* a pointer to function; all have one size and form here */
    const char *name;
} hn_nvidia_function;

/* Opens the library that is wanted, or else the first of the names that the loader finds, or that is
 * in a toolkit (CUDA_HOME, /usr/local/cuda), and fills the places. Errors: not-found; incompatible
 * when a function is missing. */
hn_status hn_nvidia_library_load(const hn_nvidia_library *library,
                                 const hn_nvidia_function *functions, size_t count) HN_MUST_USE;

/* The same library, opened before anybody needs its functions: for another thread, since it takes
 * long. NULL: it is not there. Threads: any. */
void *hn_nvidia_library_open(const hn_nvidia_library *library);
/* Opens those of the names, which NULL ends, that are in the folder of an open library. Libraries
 * that it opens by these names when it needs them are there then. */
void hn_nvidia_library_open_beside(void *handle, const char *const *names);

#endif
