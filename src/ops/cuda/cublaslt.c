/* cublaslt.c: see cublaslt.h. */
#include "ops/cuda/cublaslt.h"

#include "base/compiler.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* ---- where it is ---- */

static void *open_at(const char *folder, const char *tail, const char *name) {
    char path[PATH_BYTES];
    if (!folder || !*folder) return NULL;
    const int len = snprintf(path, sizeof path, "%s%s/%s", folder, tail, name);
    return len > 0 && len < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)
                                             : NULL;
}

static void *open_named(const char *name) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) handle = open_at(getenv("CUDA_HOME"), "/lib64", name);
    return handle ? handle : open_at("/usr/local/cuda", "/lib64", name);
}

static hn_status open_library(void **out) {
    const char *wanted = getenv("HENRY_CUBLASLT");
    if (wanted && strcmp(wanted, "off") == 0)
        return HN_ERROR(HN_NOT_FOUND, "cuBLASLt is switched off (HENRY_CUBLASLT)");
    if (wanted && *wanted) {
        *out = dlopen(wanted, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        const char *why = *out ? NULL : dlerror();
        return *out ? NULL
                    : HN_ERROR(HN_NOT_FOUND, "cannot load '%s' (HENRY_CUBLASLT): %s", wanted,
                               why ? why : "");
    }
    *out = open_named("libcublasLt.so.13");
    if (!*out) *out = open_named("libcublasLt.so.12");
    return *out ? NULL
                : HN_ERROR(HN_NOT_FOUND,
                           "cannot load 'libcublasLt.so.13' or 'libcublasLt.so.12'; install the "
                           "CUDA toolkit (or pip's nvidia-cublas, and name the library in "
                           "HENRY_CUBLASLT)");
}

/* ---- functions ---- */

hn_status hn_cublaslt_load(hn_cublaslt *out) {
    void *handle = NULL;
    HN_TRY(open_library(&handle));
    const struct {
        void *place; /* a pointer to function; all have one size and form here */
        const char *name;
    } functions[] = {
#define PLACE(result, name, parameters) {&out->name, #name},
        HN_CUBLASLT_FUNCTIONS(PLACE)
#undef PLACE
    };
    for (size_t k = 0; k < HN_COUNT_OF(functions); k++) {
        void *address = dlsym(handle, functions[k].name);
        if (!address)
            return HN_ERROR(HN_INCOMPATIBLE, "the library of cuBLASLt has no function '%s'",
                            functions[k].name);
        memcpy(functions[k].place, &address, sizeof address);
    }
    return NULL;
}

hn_status hn_cublaslt_status(const hn_cublaslt *lt, int code, const char *call) {
    if (code == HN_LT_SUCCESS) return NULL;
    const hn_code kind = code == HN_LT_NOT_SUPPORTED  ? HN_UNSUPPORTED
                         : code == HN_LT_ALLOC_FAILED ? HN_OUT_OF_MEMORY
                                                      : HN_DEVICE;
    const char *name = lt->cublasLtGetStatusName(code);
    return HN_ERROR(kind, "cuBLASLt: %s failed: %s (%d)", call, name ? name : "?", code);
}
