/* stats_kernels.c: launches the kernels of tensor_stats.cu and reads their records. */
#include "runtime/stats_kernels.h"

#include "base/compiler.h"
#include "runtime/stats_text.h"

#include <stdlib.h>

enum {
    THREADS = HN_STATS_THREADS,
    GROUPS_MAX = 512,
    BATCH = HN_STATS_BATCH_ELEMS,
    RANK = HN_STATS_RANK
};

/* `part` of the text. */
typedef struct record {
    hn_stats_part part;
    double bad_value;
} record;
_Static_assert(sizeof(record) == 9 * 8 && sizeof(hn_stats_part) == 8 * 8, "as in the text");

hn_status hn_stats_kernels_find(hn_dev *dev, hn_device_program *program, hn_stats_kernels *out) {
    HN_TRY(dev->ops->find(program, HN_STATS_LOOK_NAME, &out->look));
    return dev->ops->find(program, HN_STATS_JOIN_NAME, &out->join);
}

bool hn_stats_kernels_take(const hn_stats_tensor *tensor) {
    hn_stats_walk w;
    hn_stats_walk_init(&w, tensor, false);
    return w.rank <= RANK;
}

/* ---- launches ---- */

typedef struct look {
    const hn_stats_kernels *kernels;
    hn_queue *queue;
    uint32_t step;
    record *records; /* on the device: of each group, and of all */
    int64_t groups;
} look;

static hn_status launch(const look *l, void *kernel, int64_t groups, void *const *args,
                        uint32_t arg_count, const long long *params, uint32_t param_count) {
    hn_device_fault fault; /* these kernels find none */
    return l->queue->dev->ops->launch(l->queue,
                                      &(hn_device_launch){.kernel = kernel,
                                                          .step = l->step,
                                                          .args = args,
                                                          .arg_count = arg_count,
                                                          .params = params,
                                                          .param_count = param_count,
                                                          .extent = groups,
                                                          .parts = 1,
                                                          .groups = {groups, 1, 1},
                                                          .threads = {THREADS, 1, 1}},
                                      &fault);
}

static record *record_of_all(const look *l) { return l->records + (l->groups > 1 ? l->groups : 0); }

static hn_status launch_look(const look *l, const hn_stats_walk *w, int64_t elems,
                             unsigned wanted) {
    enum { FIRST = 5 };
    long long params[FIRST + 2 * RANK] = {w->type, elems, l->groups, wanted, w->rank};
    for (uint32_t d = 0; d < RANK; d++) {
        params[FIRST + d] = d < w->rank ? w->sizes[d] : 1;
        params[FIRST + RANK + d] = d < w->rank ? w->strides[d] : 0;
    }
    void *args[] = {(void *)(uintptr_t)w->data, l->records};
    HN_TRY(launch(l, l->kernels->look, l->groups, args, 2, params, HN_COUNT_OF(params)));
    return l->groups > 1 ? launch(l, l->kernels->join, 1, args + 1, 1, &(long long){l->groups}, 1)
                         : NULL;
}

/* What the device knows of the tensor in the order of the walk. */
static hn_status look_once(const look *l, const hn_stats_walk *w, int64_t elems, record *out) {
    HN_TRY(launch_look(l, w, elems, HN_STATS_NAN | HN_STATS_INF));
    return l->queue->dev->ops->read(l->queue, out, record_of_all(l), sizeof *out);
}

/* The first bad element is asked for again where memory has another order than the indices. */
static hn_status look_at(const look *l, const hn_stats_tensor *t, hn_tensor_stats *out) {
    hn_stats_walk w;
    record all;
    hn_stats_walk_init(&w, t, false);
    HN_TRY(look_once(l, &w, out->count, &all));
    hn_stats_put(&all.part, out);
    if (all.part.first_bad >= 0 && !w.is_row_major) {
        hn_stats_walk_init(&w, t, true);
        if (w.rank > RANK) return HN_ERROR(HN_UNSUPPORTED, "%u dimensions", w.rank);
        HN_TRY(look_once(l, &w, out->count, &all));
    }
    out->first_bad = all.part.first_bad;
    if (out->first_bad >= 0) out->first_bad_value = all.bad_value;
    return NULL;
}

static int64_t groups_of(int64_t elems) {
    const int64_t batches = (elems - 1) / (THREADS * BATCH) + 1;
    return batches < GROUPS_MAX ? batches : GROUPS_MAX;
}

/* Memory is given back behind `read`, or behind an error, which work that waits has to come to. */
hn_status hn_stats_kernels_get(const hn_stats_kernels *kernels, hn_queue *queue, uint32_t step,
                               const hn_stats_tensor *t, hn_tensor_stats *out) {
    hn_dev *dev = queue->dev;
    look l = {.kernels = kernels, .queue = queue, .step = step};
    if (!hn_stats_begin(t, out)) return NULL;
    l.groups = groups_of(out->count);
    l.records = dev->ops->alloc(dev, (size_t)(l.groups + 1) * sizeof *l.records);
    if (!l.records) return HN_ERROR(HN_OUT_OF_MEMORY, "the device has no memory for statistics");
    hn_status status = look_at(&l, t, out);
    if (status) {
        record any;
        hn_status_free(dev->ops->read(queue, &any, l.records, sizeof any));
    }
    hn_dev_free(dev, l.records);
    return status;
}

/* ---- records that are read together ---- */

struct hn_stats_batch {
    hn_dev *dev;
    uint32_t count;
    int64_t elems[HN_STATS_BATCH]; /* of each */
    record *records;               /* on the device: one for each, */
    record *groups;                /* and room for those of groups, which all looks use in turn */
    record read[HN_STATS_BATCH];
};

hn_stats_batch *hn_stats_batch_create(hn_dev *dev) {
    hn_stats_batch *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->dev = dev;
    b->records = hn_dev_alloc(dev, (HN_STATS_BATCH + GROUPS_MAX + 1) * sizeof *b->records);
    if (b->records) {
        b->groups = b->records + HN_STATS_BATCH;
        return b;
    }
    free(b);
    return NULL;
}

void hn_stats_batch_destroy(hn_stats_batch *b) {
    if (!b) return;
    hn_dev_free(b->dev, b->records);
    free(b);
}

static hn_status add_to_batch(hn_stats_batch *b, const look *l, const hn_stats_walk *w,
                              int64_t elems, unsigned wanted) {
    HN_TRY(launch_look(l, w, elems, wanted));
    return b->dev->ops->copy(l->queue, b->records + b->count, record_of_all(l), sizeof(record));
}

bool hn_stats_batch_add(hn_stats_batch *b, const hn_stats_kernels *kernels, hn_queue *queue,
                        uint32_t step, const hn_stats_tensor *t, unsigned wanted) {
    hn_stats_walk w;
    hn_tensor_stats all;
    if (b->count == HN_STATS_BATCH || !hn_stats_begin(t, &all)) return false;
    hn_stats_walk_init(&w, t, true);
    if (w.rank > RANK) return false;
    const look l = {.kernels = kernels,
                    .queue = queue,
                    .step = step,
                    .records = b->groups,
                    .groups = groups_of(all.count)};
    hn_status status = add_to_batch(b, &l, &w, all.count, wanted);
    const bool is_done = !status;
    hn_status_free(status); /* who looks at the tensor by itself finds the same */
    if (is_done) b->elems[b->count++] = all.count;
    return is_done;
}

hn_status hn_stats_batch_read(hn_stats_batch *b, hn_queue *queue) {
    if (!b->count) return NULL;
    return b->dev->ops->read(queue, b->read, b->records, b->count * sizeof *b->read);
}

void hn_stats_batch_get(const hn_stats_batch *b, uint32_t k, hn_tensor_stats *out) {
    *out = (hn_tensor_stats){.count = b->elems[k]};
    hn_stats_put(&b->read[k].part, out);
    out->first_bad = b->read[k].part.first_bad;
    if (out->first_bad >= 0) out->first_bad_value = b->read[k].bad_value;
}

void hn_stats_batch_reset(hn_stats_batch *b) { b->count = 0; }
