/* standin_work.h: what libraries share that stand in for NVIDIA's: numbers in memory, and work that
 * is given to a stream. */
#ifndef HN_TESTS_STANDIN_WORK_H
#define HN_TESTS_STANDIN_WORK_H

#include "tests/support/cuda_standin.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum standin_type { STANDIN_F32, STANDIN_F64, STANDIN_F16, STANDIN_BF16 } standin_type;

static inline size_t standin_bytes(standin_type type) {
    return type == STANDIN_F64 ? 8 : type == STANDIN_F32 ? 4 : 2;
}

static inline double standin_load(standin_type type, const void *from, int64_t at) {
    uint32_t bits;
    float x;
    switch (type) {
    case STANDIN_F64: return ((const double *)from)[at];
    case STANDIN_F32: return (double)((const float *)from)[at];
    case STANDIN_F16: return (double)((const _Float16 *)from)[at];
    case STANDIN_BF16: break;
    }
    bits = (uint32_t)((const uint16_t *)from)[at] << 16;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static inline void standin_store(standin_type type, void *to, int64_t at, double x) {
    const float narrow = (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    switch (type) {
    case STANDIN_F64: ((double *)to)[at] = x; break;
    case STANDIN_F32: ((float *)to)[at] = narrow; break;
    case STANDIN_F16: ((_Float16 *)to)[at] = (_Float16)x; break;
    case STANDIN_BF16: ((uint16_t *)to)[at] = (uint16_t)(bits >> 16); break;
    }
}

/* Where the driver stands in, too, a stream does the work when it comes to it; else it is done now.
 * 0: it went well. */
static inline int standin_give(void *stream, cuda_standin_run_fn there, void (*here)(const void *),
                               const void *work, size_t bytes) {
    cuda_standin_give_fn give_to;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *address = driver ? dlsym(driver, "cuda_standin_give") : NULL;
    if (driver) dlclose(driver);
    if (!address) {
        here(work);
        return 0;
    }
    memcpy(&give_to, &address, sizeof give_to);
    return give_to(stream, there, work, bytes);
}

#endif
