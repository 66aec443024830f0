/* cuda_operations.c: operations of the row of CUDA, by NVIDIA's libraries. Each is opened when the
 * first operation that it may do is prepared, and belongs to the device. */
#include "runtime/device/cuda.h"

#include "base/log.h"
#include "base/trace.h"
#include "ops/cuda/cublaslt_matmul.h"
#include "ops/cuda/cudnn_conv.h"

#include <stdlib.h>
#include <string.h>

/* Bytes at most: what cuBLASLt's fastest kernels for sm_90 may want; what cuDNN wants to bring the
 * planes of large images into the order that its kernels have. */
enum { LT_WORKSPACE_MAX = 32 << 20, DNN_WORKSPACE_MAX = 256 << 20 };

/* Whether a library is there. */
typedef struct library_state {
    bool is_tried;
    atomic_bool is_asked; /* for the first operation it loads what it has for the device */
    void *handle;
    char missing[256]; /* why it is not there */
} library_state;

struct cuda_libraries {
    hn_cublaslt lt;
    hn_cudnn dnn;
    library_state lt_state, dnn_state;
    hn_lt_choices choices;    /* of cuBLASLt's handle */
    pthread_mutex_t dnn_lock; /* one thread at a time uses cuDNN's handle, and ... */
    hn_dnn_plans plans;       /* ... these */
    int64_t open_ns;          /* that opening them took */
};

struct hn_device_operation {
    cuda_dev *dev;
    bool has_run;
    uint32_t arg_count;   /* operands, up to the last that is there */
    hn_lt_matmul *matmul; /* NULL: it is ... */
    hn_dnn_conv *conv;    /* ... this one */
};

/* ---- the libraries ---- */

static hn_status open_cublaslt(cuda_libraries *l) {
    HN_TRY(hn_cublaslt_load(&l->lt));
    return hn_cublaslt_status(&l->lt, l->lt.cublasLtCreate(&l->lt_state.handle), "cublasLtCreate");
}

static hn_status open_cudnn(cuda_libraries *l) {
    HN_TRY(hn_cudnn_load(&l->dnn));
    return hn_cudnn_status(&l->dnn, l->dnn.cudnnCreate(&l->dnn_state.handle), "cudnnCreate");
}

/* The device's lock is held. */
static void try_library(cuda_libraries *l, library_state *state,
                        hn_status (*open)(cuda_libraries *l)) {
    if (state->is_tried) return;
    const int64_t begin = hn_now_ns();
    state->is_tried = true;
    hn_status status = open(l);
    const int64_t end = hn_now_ns();
    l->open_ns += end - begin;
    hn_trace_span("run", "a library is loaded", begin, end);
    if (status) {
        state->handle = NULL;
        snprintf(state->missing, sizeof state->missing, "%s", hn_status_message(status));
    }
    hn_status_free(status);
}

static cuda_libraries *make_libraries(void) {
    cuda_libraries *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    pthread_mutex_init(&l->dnn_lock, NULL);
    hn_lt_choices_init(&l->choices);
    return l;
}

/* Those that may do operations of a kind are tried. The context is current. */
static hn_status libraries_for(cuda_dev *d, hn_extern_kind kind, cuda_libraries **out) {
    pthread_mutex_lock(&d->lock);
    if (!d->libraries) d->libraries = make_libraries();
    *out = d->libraries;
    if (*out && kind == HN_EXTERN_MATMUL) try_library(*out, &(*out)->lt_state, open_cublaslt);
    if (*out && kind == HN_EXTERN_CONV) try_library(*out, &(*out)->dnn_state, open_cudnn);
    if (*out) d->libraries_ns = (*out)->open_ns;
    pthread_mutex_unlock(&d->lock);
    return *out ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the libraries of a device");
}

void hn_cuda_operations_deinit(cuda_dev *d) {
    cuda_libraries *l = d->libraries;
    if (!l) return;
    if (l->lt_state.handle) (void)l->lt.cublasLtDestroy(l->lt_state.handle);
    if (l->dnn_state.handle) (void)l->dnn.cudnnDestroy(l->dnn_state.handle);
    pthread_mutex_destroy(&l->dnn_lock);
    hn_lt_choices_deinit(&l->choices);
    free(l);
    d->libraries = NULL;
}

/* Whether f32 may be rounded to TF32. */
static bool allows_tf32(void) {
    const char *value = getenv("HENRY_TF32");
    return value && strcmp(value, "1") == 0;
}

/* Which way of its library's heuristic the call asks for; 0: the first. */
static hn_status read_candidate(const hn_ext_call *call, uint32_t *out) {
    const hn_ext_form *form = call->form;
    *out = form ? (uint32_t)form->candidate : 0;
    if (!form || !form->kind || strcmp(form->kind, "library") == 0) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "there is no form '%s' on CUDA", form->kind);
}

/* ---- operations ---- */

static hn_status prepare_matmul(cuda_libraries *l, const hn_ext_call *call,
                                hn_device_operation *o) {
    hn_lt_options options = {
        .tf32 = allows_tf32(), .workspace_bytes = LT_WORKSPACE_MAX, .choices = &l->choices};
    HN_TRY(read_candidate(call, &options.candidate));
    if (!l->lt_state.handle) {
        hn_warn_once("run", "cublaslt", "cuBLASLt is not there: matrix products are slower: %s",
                     l->lt_state.missing);
        return HN_ERROR(HN_UNSUPPORTED, "%s", l->lt_state.missing);
    }
    return hn_lt_matmul_create(&l->lt, l->lt_state.handle, &options, call, &o->matmul);
}

static hn_status prepare_conv(cuda_libraries *l, const hn_ext_call *call, hn_device_operation *o) {
    hn_dnn_options options = {
        .tf32 = allows_tf32(), .workspace_bytes = DNN_WORKSPACE_MAX, .plans = &l->plans};
    HN_TRY(read_candidate(call, &options.candidate));
    if (!l->dnn_state.handle) {
        hn_warn_once("run", "cudnn", "cuDNN is not there: convolutions are slower: %s",
                     l->dnn_state.missing);
        return HN_ERROR(HN_UNSUPPORTED, "%s", l->dnn_state.missing);
    }
    pthread_mutex_lock(&l->dnn_lock);
    hn_status status = hn_dnn_conv_create(&l->dnn, l->dnn_state.handle, &options, call, &o->conv);
    pthread_mutex_unlock(&l->dnn_lock);
    return status;
}

static void add_time(cuda_dev *d, int64_t *sum, int64_t begin_ns, const char *what) {
    const int64_t end_ns = hn_now_ns();
    hn_trace_span("run", what, begin_ns, end_ns);
    pthread_mutex_lock(&d->lock);
    *sum += end_ns - begin_ns;
    pthread_mutex_unlock(&d->lock);
}

static hn_status prepare_here(cuda_dev *d, const hn_ext_call *call, hn_device_operation *o) {
    cuda_libraries *l;
    if (call->kind != HN_EXTERN_MATMUL && call->kind != HN_EXTERN_CONV)
        return HN_ERROR(HN_UNSUPPORTED, "there is no such operation on CUDA");
    HN_TRY(libraries_for(d, call->kind, &l));
    const bool is_conv = call->kind == HN_EXTERN_CONV;
    library_state *state = is_conv ? &l->dnn_state : &l->lt_state;
    const int64_t begin = hn_now_ns();
    hn_status status = is_conv ? prepare_conv(l, call, o) : prepare_matmul(l, call, o);
    if (atomic_exchange(&state->is_asked, true))
        add_time(d, &d->choose_ns, begin, "an operation is chosen");
    else add_time(d, &d->start_ns, begin, "a library is asked first");
    return status;
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
        for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
            if (call->dtypes[k]) o->arg_count = k + 1;
        status = prepare_here(d, call, o);
        if (status) free(o);
        else *out = o;
    }
    hn_cuda_leave(d, pushed);
    return status;
}

static size_t operation_scratch_bytes(const hn_device_operation *o) {
    return o->conv ? hn_dnn_conv_scratch_bytes(o->conv) : hn_lt_matmul_scratch_bytes(o->matmul);
}

static hn_status run_conv(hn_device_operation *o, void *const *args, void *scratch, void *stream) {
    pthread_mutex_t *lock = &o->dev->libraries->dnn_lock;
    pthread_mutex_lock(lock);
    hn_status status = hn_dnn_conv_run(o->conv, args, scratch, stream);
    pthread_mutex_unlock(lock);
    return status;
}

static hn_status run_here(hn_device_operation *o, void *const *args, void *scratch, void *stream) {
    return o->conv ? run_conv(o, args, scratch, stream)
                   : hn_lt_matmul_run(o->matmul, args, scratch, stream);
}

/* The library loads its kernel. */
HN_NOINLINE static hn_status run_first(hn_device_operation *o, void *const *args, void *scratch,
                                       void *stream) {
    const int64_t begin = hn_now_ns();
    hn_status status = run_here(o, args, scratch, stream);
    add_time(o->dev, &o->dev->first_ns, begin, "the first run of an operation");
    o->has_run = true;
    return status;
}

static hn_status run_any(hn_device_operation *o, void *const *args, void *scratch, void *stream) {
    return HN_LIKELY(o->has_run) ? run_here(o, args, scratch, stream)
                                 : run_first(o, args, scratch, stream);
}

/* Of a recording. */
HN_NOINLINE static hn_status run_recorded(cuda_queue *q, hn_device_operation *o, void *const *args,
                                          void *scratch) {
    void *values[HN_EXT_MAX_OPERANDS + 1];
    uint32_t count = 0;
    for (; count < o->arg_count; count++) values[count] = (void *)(uintptr_t)&args[count];
    values[count++] = &scratch;
    const cuda_call call = {
        .kind = CUDA_OPERATION, .of = o, .values = values, .value_count = count};
    if (hn_cuda_call_compare(q, &call)) return NULL;
    HN_TRY(run_any(o, args, scratch, q->stream));
    hn_cuda_call_note(q, &call);
    return NULL;
}

static hn_status operation_run(hn_queue *queue, hn_device_operation *o, uint32_t step,
                               void *const *args, void *scratch, hn_device_fault *out) {
    cuda_queue *q = (cuda_queue *)queue;
    bool pushed;
    (void)step;
    *out = (hn_device_fault){.is_set = false};
    HN_TRY(hn_cuda_enter_queue(q, &pushed));
    hn_cuda_note_launches(q, &(cuda_launches){.operations = 1});
    hn_status status = HN_UNLIKELY(q->calls != NULL) ? run_recorded(q, o, args, scratch)
                                                     : run_any(o, args, scratch, q->stream);
    hn_cuda_leave(o->dev, pushed);
    return status;
}

static void destroy_conv(hn_device_operation *o) {
    pthread_mutex_t *lock = &o->dev->libraries->dnn_lock;
    pthread_mutex_lock(lock);
    hn_dnn_conv_destroy(o->conv);
    pthread_mutex_unlock(lock);
}

static void operation_release(hn_device_operation *o) {
    if (!o) return;
    const bool pushed = o->dev->cuda.cuCtxPushCurrent(o->dev->context) == HN_CUDA_SUCCESS;
    hn_lt_matmul_destroy(o->matmul);
    if (o->conv) destroy_conv(o);
    hn_cuda_leave(o->dev, pushed);
    free(o);
}

static void operations_load_early(uint32_t kinds) {
    if (kinds & 1u << HN_EXTERN_MATMUL) hn_cublaslt_open_early();
    if (kinds & 1u << HN_EXTERN_CONV) hn_cudnn_open_early();
}

/* Those that `prepare` would open. */
static void operations_identify(char *out, size_t size) {
    hn_cublaslt lt;
    hn_cudnn dnn;
    hn_status lt_status = hn_cublaslt_load(&lt), dnn_status = hn_cudnn_load(&dnn);
    const size_t lt_version = lt_status ? 0 : lt.cublasLtGetVersion(),
                 dnn_version = dnn_status ? 0 : dnn.cudnnGetVersion();
    *out = 0;
    if (lt_version) snprintf(out, size, "cuBLASLt %zu", lt_version);
    const size_t len = strlen(out);
    if (dnn_version) snprintf(out + len, size - len, "%scuDNN %zu", len ? " " : "", dnn_version);
    hn_status_free(lt_status);
    hn_status_free(dnn_status);
}

const hn_device_operations hn_cuda_operations = {
    .identify = operations_identify,
    .load_early = operations_load_early,
    .prepare = operation_prepare,
    .scratch_bytes = operation_scratch_bytes,
    .run = operation_run,
    .release = operation_release,
};
