/* cudnn.c: see cudnn.h. */
#include "ops/cuda/cudnn.h"

#include "base/compiler.h"
#include "ops/cuda/library.h"

#include <stdlib.h>

hn_status hn_cudnn_load(hn_cudnn *out) {
    static const char *const names[] = {"libcudnn.so.9", NULL};
    const hn_nvidia_library library = {.subject = "cuDNN",
                                       .variable = "HENRY_CUDNN",
                                       .wanted = getenv("HENRY_CUDNN"),
                                       .names = names,
                                       .package = "nvidia-cudnn-cu13"};
    const hn_nvidia_function functions[] = {
#define PLACE(result, name, parameters) {&out->name, #name},
        HN_CUDNN_FUNCTIONS(PLACE)
#undef PLACE
    };
    return hn_nvidia_library_load(&library, functions, HN_COUNT_OF(functions));
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
