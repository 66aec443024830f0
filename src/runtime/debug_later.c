/* debug_later.c: CHECK on a device without waiting for it behind each tensor: the device writes
 * down what it finds, and the host reads that at the end of the run, or when a batch is full. */
#include "runtime/debug.h"
#include "runtime/device_stats.h"

#include <stdlib.h>

/* A tensor whose statistics are under way. Names are the module's. */
typedef struct look {
    hn_step_info step;
    hn_step_operand operand;
    hn_debug_when when;
    hn_debug_seen *seen;
} look;

/* What a context owes a debugger. */
typedef struct hn_debug_pending {
    struct hn_debug_pending *next;
    hn_debug *d;
    uint64_t call;
    hn_stats_batch *batch; /* NULL: the device cannot do it */
    uint32_t count;
    look looks[HN_STATS_BATCH];
} hn_debug_pending;

void hn_debug_pending_destroy(hn_context *c) {
    for (hn_debug_pending *p = c->pending, *next; p; p = next) {
        next = p->next;
        hn_stats_batch_destroy(p->batch);
        free(p);
    }
    c->pending = NULL;
}

static hn_stats_batch *create_batch(const hn_module *m) {
    const bool can = !m->device->facts.is_host && hn_device_stats_kernels(m);
    return can ? hn_stats_batch_create(m->device) : NULL;
}

/* What an earlier run, which failed, has left is forgotten. NULL: there is no memory. */
static hn_debug_pending *pending_of(hn_debug *d, const hn_step_info *step) {
    hn_context *c = step->run->c;
    hn_debug_pending *p = c->pending;
    while (p && p->d != d) p = p->next;
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p) return NULL;
        *p = (hn_debug_pending){.next = c->pending, .d = d};
        p->batch = create_batch(step->run->m);
        c->pending = p;
    }
    if (p->call != step->call && p->batch) hn_stats_batch_reset(p->batch);
    if (p->call != step->call) p->count = 0;
    p->call = step->call;
    return p;
}

/* ---- reading ---- */

static hn_status judge(const hn_debug *d, const look *l, const hn_tensor_stats *stats) {
    hn_debug_seen seen = {.stats = *stats};
    const hn_debug_tensor t = {.call = l->step.call,
                               .when = l->when,
                               .step = &l->step,
                               .operand = &l->operand,
                               .seen = &seen};
    return hn_debug_check(d, &t, NULL);
}

/* What ends the run is looked at by the next one, too. */
static void forget(const hn_debug_pending *p) {
    pthread_mutex_lock(&p->d->out->lock);
    for (uint32_t k = 0; k < p->count; k++) p->looks[k].seen->mark = 0;
    pthread_mutex_unlock(&p->d->out->lock);
}

static hn_status read_batch(hn_debug_pending *p, hn_context *c) {
    hn_status status = hn_stats_batch_read(p->batch, c->places[HN_PLACE_KERNELS].queue);
    for (uint32_t k = 0; k < p->count && !status; k++) {
        hn_tensor_stats stats;
        hn_stats_batch_get(p->batch, k, &stats);
        status = judge(p->d, &p->looks[k], &stats);
        if (!status) continue;
        c->names_step = true;
        status = hn_steps_blame(p->d->m, c, p->looks[k].step.index, status);
    }
    if (status) forget(p);
    hn_stats_batch_reset(p->batch);
    p->count = 0;
    return status;
}

hn_status hn_debug_end(hn_context *c) {
    for (hn_debug_pending *p = c->pending; p; p = p->next)
        if (p->count && p->call == c->call) HN_TRY(read_batch(p, c));
    return NULL;
}

/* ---- adding ---- */

static unsigned wanted_of(const hn_debug *d) {
    return (d->options.ignore_nan ? 0u : HN_STATS_NAN) |
           (d->options.ignore_inf ? 0u : HN_STATS_INF);
}

hn_status hn_debug_look_later(hn_debug *d, const hn_debug_tensor *t, bool *out_done) {
    const hn_step_operand *o = t->operand;
    hn_context *c = t->step->run->c;
    *out_done = false;
    if (!t->queue || t->queue != c->places[HN_PLACE_KERNELS].queue) return NULL;
    hn_debug_pending *p = pending_of(d, t->step);
    if (!p || !p->batch) return NULL;
    if (p->count == HN_STATS_BATCH) HN_TRY(read_batch(p, c));
    const hn_stats_tensor s = {.type = o->type,
                               .rank = o->rank,
                               .sizes = o->sizes,
                               .strides = o->strides,
                               .data = o->data};
    *out_done = hn_stats_batch_add(p->batch, hn_device_stats_kernels(t->step->run->m), t->queue,
                                   t->step->index, &s, wanted_of(d));
    if (!*out_done) return NULL;
    p->looks[p->count] = (look){.step = *t->step, .operand = *o, .when = t->when, .seen = t->seen};
    p->looks[p->count++].step.run = NULL; /* which ends with the step */
    return NULL;
}
