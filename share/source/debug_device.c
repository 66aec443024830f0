/* debug_device.c: what the debugger wants to know of tensors of a GPU, by the GPU that has them:
 * with the kernels of stats.cu, whose machine code a project has that is built with DEBUG=1. */
#include "debug.h"

#ifdef MODEL_DEBUG
#include "runtime/device/device.h"
#include "runtime/stats_kernels.h"

#include <stdlib.h>
#include <string.h>

/* A tensor whose statistics are under way. */
typedef struct later {
    debug_tensor tensor;
    int64_t dims[2 * MODEL_MAX_RANK]; /* its sizes and strides */
} later;

struct debug_gpu {
    hn_device_program *program; /* NULL: the kernels cannot be had */
    hn_stats_kernels kernels;
    bool has_refused;      /* a tensor of STATS, which was said */
    hn_stats_batch *batch; /* NULL: CHECK has not asked yet, or there is no memory for it */
    uint64_t call;         /* whose tensors these are */
    uint32_t count;
    later laters[HN_STATS_BATCH];
};

/* --- what stats_kernels.c asks of the library that it comes from --- */

void hn_dev_free(hn_dev *dev, void *memory) { dev->ops->free(dev, memory); }

/* --- the kernels --- */

/* Why a GPU does not do it. Takes `why`. */
static void complain(const char *what, hn_status why) {
    fprintf(stderr, "%s: %s\n", what, hn_status_message(why));
    hn_status_free(why);
}

static hn_status load(hn_dev *dev, const device_code *code, struct debug_gpu *gpu) {
    HN_TRY(dev->ops->load(dev, code->begin, (size_t)(code->end - code->begin), code->name,
                          &gpu->program));
    return hn_stats_kernels_find(dev, gpu->program, &gpu->kernels);
}

static void unload(hn_dev *dev, struct debug_gpu *gpu) {
    dev->ops->unload(gpu->program);
    gpu->program = NULL;
}

/* NULL: there is none. That is said once. */
static struct debug_gpu *gpu_of(model *m) {
    struct debug *d = m->debug;
    hn_dev *dev = device_queue(m)->dev;
    if (!d->gpu) {
        d->gpu = calloc(1, sizeof *d->gpu);
        if (!d->gpu) return NULL;
        hn_status status = load(dev, &debug_codes[device_target(m)], d->gpu);
        if (status) {
            unload(dev, d->gpu);
            complain("statistics of tensors are made on the host, to which each tensor is copied",
                     status);
        }
    }
    return d->gpu->program ? d->gpu : NULL;
}

static hn_stats_tensor stats_tensor(const debug_tensor *t) {
    return (hn_stats_tensor){(hn_scalar_type)t->operand->type, t->operand->rank, t->sizes,
                             t->strides, t->data};
}

static bool stats(model *m, const debug_tensor *t, hn_tensor_stats *out) {
    const hn_stats_tensor s = stats_tensor(t);
    if (!hn_stats_begin(&s, out)) return true;
    struct debug_gpu *gpu = gpu_of(m);
    if (!gpu || !hn_stats_kernels_take(&s)) return false;
    hn_status status = hn_stats_kernels_get(&gpu->kernels, device_queue(m), 0, &s, out);
    if (!status) return true;
    if (gpu->has_refused) hn_status_free(status);
    else complain("a tensor is copied to the host for its statistics", status);
    gpu->has_refused = true;
    return false;
}

/* --- CHECK, without waiting behind each tensor --- */

/* Weights of them are looked at again. */
static void forget(const model *m, struct debug_gpu *gpu) {
    for (uint32_t k = 0; k < gpu->count; k++) {
        const debug_operand *o = gpu->laters[k].tensor.operand;
        if (o->is_weight) m->debug->seen[o->buffer].mark = 0;
    }
    gpu->count = 0;
    if (gpu->batch) hn_stats_batch_reset(gpu->batch);
}

static int judge_all(model *m, const struct debug_gpu *gpu) {
    hn_status status = hn_stats_batch_read(gpu->batch, device_queue(m));
    if (status) {
        const int failed = fail(m, "%s", hn_status_message(status));
        hn_status_free(status);
        return failed;
    }
    for (uint32_t k = 0; k < gpu->count; k++) {
        hn_tensor_stats of_one;
        hn_stats_batch_get(gpu->batch, k, &of_one);
        TRY(debug_check(m, &gpu->laters[k].tensor, &of_one));
    }
    return 0;
}

static int check_all(model *m) {
    struct debug_gpu *gpu = m->debug->gpu;
    if (!gpu->count || gpu->call != m->calls) return 0;
    const int failed = judge_all(m, gpu);
    if (failed) forget(m, gpu);
    gpu->count = 0;
    hn_stats_batch_reset(gpu->batch);
    return failed;
}

static void keep(later *l, const debug_tensor *t) {
    const size_t bytes = t->operand->rank * sizeof *l->dims;
    memcpy(l->dims, t->sizes, bytes);
    memcpy(l->dims + t->operand->rank, t->strides, bytes);
    l->tensor = *t;
    l->tensor.sizes = l->dims;
    l->tensor.strides = l->dims + t->operand->rank;
}

/* What a run that failed has left is forgotten. */
static int check_later(model *m, const debug_tensor *t, bool *out_done) {
    const debug_wanted *w = &m->debug->wanted;
    const unsigned wanted =
        (w->ignore_nan ? 0u : HN_STATS_NAN) | (w->ignore_inf ? 0u : HN_STATS_INF);
    struct debug_gpu *gpu = gpu_of(m);
    const hn_stats_tensor s = stats_tensor(t);
    *out_done = false;
    if (!gpu) return 0;
    if (!gpu->batch) gpu->batch = hn_stats_batch_create(device_queue(m)->dev);
    if (!gpu->batch) return 0;
    if (gpu->call != m->calls) forget(m, gpu);
    gpu->call = m->calls;
    if (gpu->count == HN_STATS_BATCH) TRY(check_all(m));
    *out_done = hn_stats_batch_add(gpu->batch, &gpu->kernels, device_queue(m), 0, &s, wanted);
    if (*out_done) keep(&gpu->laters[gpu->count++], t);
    return 0;
}

static void close_gpu(model *m) {
    struct debug_gpu *gpu = m->debug->gpu;
    hn_stats_batch_destroy(gpu->batch);
    unload(device_queue(m)->dev, gpu);
    free(gpu);
}

const debug_device_calls debug_device_cuda = {
    .stats = stats,
    .check_later = check_later,
    .check_all = check_all,
    .close = close_gpu,
};
#else
typedef int debug_device_is_off; /* C wants something in a file */
#endif
