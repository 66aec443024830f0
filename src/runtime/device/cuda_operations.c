/* cuda_operations.c: operations of the row of CUDA, by NVIDIA's libraries. They are opened when the
 * first operation is prepared, and belong to the device. */
#include "runtime/device/cuda.h"

#include "base/log.h"
#include "ops/cuda/cublaslt_matmul.h"

#include <stdlib.h>

enum { WORKSPACE_MAX = 32 << 20 }; /* bytes: what cuBLASLt's fastest kernels for sm_90 may want */

struct cuda_libraries {
    hn_cublaslt lt;
    void *lt_handle;
    char missing[256]; /* why there is no cuBLASLt; "": it is there */
    bool tf32;
};

struct hn_device_operation {
    cuda_dev *dev;
    hn_lt_matmul *matmul;
};

/* ---- the libraries ---- */

static hn_status open_cublaslt(cuda_libraries *l) {
    HN_TRY(hn_cublaslt_load(&l->lt));
    return hn_cublaslt_status(&l->lt, l->lt.cublasLtCreate(&l->lt_handle), "cublasLtCreate");
}

static cuda_libraries *open_libraries(void) {
    cuda_libraries *l = calloc(1, sizeof *l);
    const char *tf32 = getenv("HENRY_TF32");
    if (!l) return NULL;
    l->tf32 = tf32 && strcmp(tf32, "1") == 0;
    hn_status status = open_cublaslt(l);
    if (status) snprintf(l->missing, sizeof l->missing, "%s", hn_status_message(status));
    hn_status_free(status);
    return l;
}

/* The context is current. */
static hn_status libraries_of(cuda_dev *d, cuda_libraries **out) {
    pthread_mutex_lock(&d->lock);
    if (!d->libraries) d->libraries = open_libraries();
    *out = d->libraries;
    pthread_mutex_unlock(&d->lock);
    if (!*out) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the libraries of a device");
    return NULL;
}

void hn_cuda_operations_deinit(cuda_dev *d) {
    cuda_libraries *l = d->libraries;
    if (l && l->lt_handle) (void)l->lt.cublasLtDestroy(l->lt_handle);
    free(l);
    d->libraries = NULL;
}

/* ---- operations ---- */

static hn_status prepare_matmul(cuda_libraries *l, const hn_ext_call *call,
                                hn_device_operation *o) {
    const hn_lt_options options = {.tf32 = l->tf32, .workspace_bytes = WORKSPACE_MAX};
    if (l->missing[0]) {
        hn_warn_once("run", "cublaslt", "cuBLASLt is not there: matrix products are slower: %s",
                     l->missing);
        return HN_ERROR(HN_UNSUPPORTED, "%s", l->missing);
    }
    return hn_lt_matmul_create(&l->lt, l->lt_handle, &options, call, &o->matmul);
}

static hn_status prepare_here(cuda_dev *d, const hn_ext_call *call, hn_device_operation *o) {
    cuda_libraries *l;
    HN_TRY(libraries_of(d, &l));
    if (call->kind == HN_EXTERN_MATMUL) return prepare_matmul(l, call, o);
    return HN_ERROR(HN_UNSUPPORTED, "there is no such operation on CUDA");
}

static hn_status operation_prepare(hn_dev *dev, const hn_ext_call *call,
                                   hn_device_operation **out) {
    cuda_dev *d = (cuda_dev *)dev;
    bool pushed;
    HN_TRY(hn_cuda_enter(d, &pushed));
    hn_device_operation *o = calloc(1, sizeof *o);
    hn_status status = o ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an operation");
    if (!status) {
        o->dev = d;
        status = prepare_here(d, call, o);
        if (status) free(o);
        else *out = o;
    }
    hn_cuda_leave(d, pushed);
    return status;
}

static size_t operation_scratch_bytes(const hn_device_operation *o) {
    return hn_lt_matmul_scratch_bytes(o->matmul);
}

static hn_status operation_run(hn_queue *queue, hn_device_operation *o, uint32_t step,
                               void *const *args, void *scratch, hn_device_fault *out) {
    cuda_queue *q = (cuda_queue *)queue;
    bool pushed;
    (void)step;
    *out = (hn_device_fault){.is_set = false};
    HN_TRY(hn_cuda_enter(o->dev, &pushed));
    hn_cuda_note_launches(q, &(cuda_launches){.operations = 1});
    hn_status status = hn_lt_matmul_run(o->matmul, args, scratch, q->stream);
    hn_cuda_leave(o->dev, pushed);
    return status;
}

static void operation_release(hn_device_operation *o) {
    if (!o) return;
    const bool pushed = o->dev->cuda.cuCtxPushCurrent(o->dev->context) == HN_CUDA_SUCCESS;
    hn_lt_matmul_destroy(o->matmul);
    hn_cuda_leave(o->dev, pushed);
    free(o);
}

const hn_device_operations hn_cuda_operations = {
    .prepare = operation_prepare,
    .scratch_bytes = operation_scratch_bytes,
    .run = operation_run,
    .release = operation_release,
};
