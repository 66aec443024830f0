/* cublaslt.c: see cublaslt.h. */
#include "ops/cuda/cublaslt.h"

#include "base/compiler.h"
#include "ops/cuda/library.h"

#include <stdlib.h>

hn_nvidia_library hn_cublaslt_library(void) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    return (hn_nvidia_library){.subject = "cuBLASLt",
                               .variable = "HENRY_CUBLASLT",
                               .wanted = getenv("HENRY_CUBLASLT"),
                               .names = names,
                               .package = "nvidia-cublas"};
}

hn_status hn_cublaslt_load(hn_cublaslt *out) {
    const hn_nvidia_library all = hn_cublaslt_library();
    const hn_nvidia_function functions[] = {
#define PLACE(result, name, parameters) {&out->name, #name},
        HN_CUBLASLT_FUNCTIONS(PLACE)
#undef PLACE
    };
    return hn_nvidia_library_load(&all, functions, HN_COUNT_OF(functions));
}

void hn_cublaslt_open_early(void) {
    const hn_nvidia_library all = hn_cublaslt_library();
    (void)hn_nvidia_library_open(&all);
}

hn_status hn_cublaslt_status(const hn_cublaslt *lt, int code, const char *call) {
    if (code == HN_LT_SUCCESS) return NULL;
    const hn_code kind = code == HN_LT_NOT_SUPPORTED  ? HN_UNSUPPORTED
                         : code == HN_LT_ALLOC_FAILED ? HN_OUT_OF_MEMORY
                                                      : HN_DEVICE;
    const char *name = lt->cublasLtGetStatusName(code);
    return HN_ERROR(kind, "cuBLASLt: %s failed: %s (%d)", call, name ? name : "?", code);
}
