/* device_stats.c: statistics by the kernels of tensor_stats.cu. Their text is compiled here, when
 * it is first needed: by the driver of OpenCL, or by NVRTC where there is one.
 *
 * Why a text, and no program of the compiler's own: a graph has kernels for one shape and dtype, so
 * that a model with a hundred shapes would have to compile a hundred groups of reductions before
 * its first line is printed, and this library has no compiler. One text with sizes and strides as
 * arguments is compiled once. Why not by the compile service: it is not in this library, either,
 * and programs that run bundles are the ones that are debugged. */
#include "runtime/device_stats.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "base/log.h"

#include <stdlib.h>

__asm__(".pushsection .rodata\n.hidden hn_tensor_stats_text\n.globl hn_tensor_stats_text\n"
        "hn_tensor_stats_text:\n.incbin \"" HN_TENSOR_STATS_TEXT "\"\n.byte 0\n.popsection\n");
extern const char hn_tensor_stats_text[];

enum { THREADS = 128, GROUPS_MAX = 512, BATCH = 8, RANK = 8 };

/* `part` of the text. */
typedef struct record {
    hn_stats_part part;
    double bad_value;
} record;
_Static_assert(sizeof(record) == 9 * 8 && sizeof(hn_stats_part) == 8 * 8, "as in the text");

struct hn_device_stats {
    pthread_mutex_t lock; /* of what follows */
    bool is_asked;
    hn_device_program *program;
    void *look, *join; /* `join` is NULL: they cannot be had */
};

/* ---- code ---- */

void hn_device_stats_text(hn_strbuf *out) {
    static const struct {
        const char *name;
        int number;
    } words[] = {{"F64", HN_F64},   {"F32", HN_F32},      {"F16", HN_F16},  {"BF16", HN_BF16},
                 {"I64", HN_I64},   {"I32", HN_I32},      {"I16", HN_I16},  {"I8", HN_I8},
                 {"BOOL", HN_BOOL}, {"THREADS", THREADS}, {"BATCH", BATCH}, {"RANK", RANK}};
    for (size_t k = 0; k < HN_COUNT_OF(words); k++)
        hn_strbuf_printf(out, "#define %s %d\n", words[k].name, words[k].number);
    hn_strbuf_puts(out, hn_tensor_stats_text);
}

static hn_status load(hn_dev *dev, hn_device_stats *s) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_device_stats_text(&text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = dev->ops->load_text(dev, text.ptr, "statistics of tensors", &s->program);
    hn_strbuf_deinit(&text);
    if (!status) status = dev->ops->find(s->program, "hn_tensor_stats", &s->look);
    if (!status) status = dev->ops->find(s->program, "hn_tensor_stats_join", &s->join);
    return status;
}

static void load_once(hn_dev *dev, hn_device_stats *s) {
    if (s->is_asked) return;
    s->is_asked = true;
    hn_status status = load(dev, s);
    if (status)
        hn_warn_once("run", dev->facts.name,
                     "statistics of tensors are made on the host, to which each tensor is copied: "
                     "%s",
                     hn_status_message(status));
    hn_status_free(status);
}

/* NULL: there is none. */
static const hn_device_stats *code_of(const hn_module *m) {
    hn_device_stats *s = m->device_stats;
    hn_lock(&s->lock);
    load_once(m->device, s);
    hn_unlock(&s->lock);
    return s->join ? s : NULL;
}

hn_status hn_device_stats_init(hn_module *m) {
    m->device_stats = calloc(1, sizeof *m->device_stats);
    if (!m->device_stats) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    pthread_mutex_init(&m->device_stats->lock, NULL);
    return NULL;
}

void hn_device_stats_deinit(hn_module *m) {
    if (!m->device_stats) return;
    hn_dev_unload(m->device, m->device_stats->program);
    pthread_mutex_destroy(&m->device_stats->lock);
    free(m->device_stats);
}

/* ---- launches ---- */

typedef struct look {
    const hn_device_stats *code;
    hn_dev *dev;
    hn_queue *queue;
    uint32_t step;
    record *records; /* on the device: of each group, and of all */
    int64_t groups;
} look;

static hn_status launch(const look *l, void *kernel, int64_t groups, void *const *args,
                        uint32_t arg_count, const long long *params, uint32_t param_count) {
    hn_device_fault fault; /* these kernels find none */
    return l->dev->ops->launch(l->queue,
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
    HN_TRY(launch(l, l->code->look, l->groups, args, 2, params, HN_COUNT_OF(params)));
    return l->groups > 1 ? launch(l, l->code->join, 1, args + 1, 1, &(long long){l->groups}, 1)
                         : NULL;
}

/* What the device knows of the tensor in the order of the walk. */
static hn_status look_once(const look *l, const hn_stats_walk *w, int64_t elems, record *out) {
    HN_TRY(launch_look(l, w, elems, HN_STATS_NAN | HN_STATS_INF));
    return l->dev->ops->read(l->queue, out, record_of_all(l), sizeof *out);
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
static hn_status look_with_memory(look *l, const hn_stats_tensor *t, hn_tensor_stats *out) {
    l->groups = groups_of(out->count);
    l->records = l->dev->ops->alloc(l->dev, (size_t)(l->groups + 1) * sizeof *l->records);
    if (!l->records) return HN_ERROR(HN_OUT_OF_MEMORY, "the device has no memory for statistics");
    hn_status status = look_at(l, t, out);
    if (status) {
        record any;
        hn_status_free(l->dev->ops->read(l->queue, &any, l->records, sizeof any));
    }
    hn_dev_free(l->dev, l->records);
    return status;
}

bool hn_device_stats_get(hn_context *c, const hn_module *m, uint32_t step, const hn_stats_tensor *t,
                         hn_tensor_stats *out) {
    hn_stats_walk w;
    if (!m->device->ops->load_text) return false;
    if (!hn_stats_begin(t, out)) return true;
    hn_stats_walk_init(&w, t, false);
    if (w.rank > RANK) return false;
    look l = {.code = code_of(m),
              .dev = m->device,
              .queue = c->places[HN_PLACE_KERNELS].queue,
              .step = step};
    if (!l.code) return false;
    hn_status status = look_with_memory(&l, t, out);
    if (status)
        hn_warn_once("run", "statistics", "a tensor is copied to the host for its statistics: %s",
                     hn_status_message(status));
    const bool is_done = !status;
    hn_status_free(status);
    return is_done;
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

hn_stats_batch *hn_stats_batch_create(const hn_module *m) {
    hn_stats_batch *b = m->device->facts.is_host || !m->device->ops->load_text || !code_of(m)
                            ? NULL
                            : calloc(1, sizeof *b);
    if (!b) return NULL;
    b->dev = m->device;
    b->records = hn_dev_alloc(b->dev, (HN_STATS_BATCH + GROUPS_MAX + 1) * sizeof *b->records);
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

bool hn_stats_batch_add(hn_stats_batch *b, hn_context *c, const hn_module *m, uint32_t step,
                        const hn_stats_tensor *t, unsigned wanted) {
    hn_stats_walk w;
    hn_tensor_stats all;
    if (b->count == HN_STATS_BATCH || !hn_stats_begin(t, &all)) return false;
    hn_stats_walk_init(&w, t, true);
    if (w.rank > RANK) return false;
    const look l = {.code = code_of(m),
                    .dev = b->dev,
                    .queue = c->places[HN_PLACE_KERNELS].queue,
                    .step = step,
                    .records = b->groups,
                    .groups = groups_of(all.count)};
    hn_status status = add_to_batch(b, &l, &w, all.count, wanted);
    const bool is_done = !status;
    hn_status_free(status); /* who looks at the tensor by itself finds the same */
    if (is_done) b->elems[b->count++] = all.count;
    return is_done;
}

hn_status hn_stats_batch_read(hn_stats_batch *b, hn_context *c) {
    if (!b->count) return NULL;
    return b->dev->ops->read(c->places[HN_PLACE_KERNELS].queue, b->read, b->records,
                             b->count * sizeof *b->read);
}

void hn_stats_batch_get(const hn_stats_batch *b, uint32_t k, hn_tensor_stats *out) {
    *out = (hn_tensor_stats){.count = b->elems[k]};
    hn_stats_put(&b->read[k].part, out);
    out->first_bad = b->read[k].part.first_bad;
    if (out->first_bad >= 0) out->first_bad_value = b->read[k].bad_value;
}

void hn_stats_batch_reset(hn_stats_batch *b) { b->count = 0; }
