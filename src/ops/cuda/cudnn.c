/* cudnn.c: see cudnn.h. */
#include "ops/cuda/cudnn.h"

#include "base/compiler.h"
#include "ops/cuda/cublaslt.h"
#include "ops/cuda/library.h"

#include <stdlib.h>

static hn_nvidia_library library(void) {
    static const char *const names[] = {"libcudnn.so.9", NULL};
    return (hn_nvidia_library){.subject = "cuDNN",
                               .variable = "HENRY_CUDNN",
                               .wanted = getenv("HENRY_CUDNN"),
                               .names = names,
                               .package = "nvidia-cudnn-cu13"};
}

hn_status hn_cudnn_load(hn_cudnn *out) {
    const hn_nvidia_library all = library();
    const hn_nvidia_function functions[] = {
#define PLACE(result, name, parameters) {&out->name, #name},
        HN_CUDNN_FUNCTIONS(PLACE)
#undef PLACE
    };
    return hn_nvidia_library_load(&all, functions, HN_COUNT_OF(functions));
}

/* Without this cuDNN opens its parts, and cuBLASLt, when a plan is made of the first convolution; and
 * NVRTC for each plan, which it closes then. */
void hn_cudnn_open_early(void) {
    static const char *const parts[] = {"libcudnn_graph.so.9", "libcudnn_engines_precompiled.so.9",
                                        "libcudnn_heuristic.so.9",
                                        "libcudnn_engines_runtime_compiled.so.9", NULL};
    static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    const hn_nvidia_library all = library(), cublaslt = hn_cublaslt_library();
    void *handle = hn_nvidia_library_open(&all);
    if (!handle) return;
    hn_nvidia_library_open_beside(handle, parts);
    handle = hn_nvidia_library_open(&cublaslt);
    if (handle) hn_nvidia_library_open_beside(handle, compilers);
}

static hn_code kind_of(int code) {
    if (code == HN_DNN_DEVICE_ALLOCATION_FAILED || code == HN_DNN_HOST_ALLOCATION_FAILED)
        return HN_OUT_OF_MEMORY;
    return code >= HN_DNN_BAD_PARAM && code < HN_DNN_NOT_SUPPORTED_END ? HN_UNSUPPORTED : HN_DEVICE;
}

hn_status hn_cudnn_status(const hn_cudnn *dnn, int code, const char *call) {
    char why[200] = "";
    if (code == HN_DNN_SUCCESS) return NULL;
    const char *name = dnn->cudnnGetErrorString(code);
    dnn->cudnnGetLastErrorString(why, sizeof why);
    return HN_ERROR(kind_of(code), "cuDNN: %s failed: %s (%d)%s%s", call, name ? name : "?", code,
                    why[0] ? ": " : "", why);
}
