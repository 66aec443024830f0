/* subject.c: see the header. */
#include "tune/subject.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "runtime/module_impl.h"
#include "runtime/tensor_stats.h"
#include "tune/match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLD_CACHES = 2, LINE = 64 };
#define COLD_BYTES ((size_t)64 << 20) /* of a device that does not tell its cache */

/* ---- arguments ---- */

static hn_status bad_arg(uint32_t k, const char *what) {
    return HN_ERROR(HN_INVALID_ARGUMENT, "argument %u of a benchmark %s", k, what);
}

static hn_status check_arg(const hn_bench_subject *s, uint32_t k) {
    const hn_bench_arg *a = &s->args[k];
    if (!hn_scalar_type_bytes(a->type)) return bad_arg(k, "has no element type");
    if (a->rank > HN_TENSOR_MAX_RANK) return bad_arg(k, "has too many dimensions");
    if (a->rank && !a->sizes) return bad_arg(k, "has no sizes");
    if (a->offset_bytes < 0) return bad_arg(k, "begins before its memory");
    if (a->offset_bytes % (int64_t)hn_scalar_type_bytes(a->type))
        return bad_arg(k, "does not begin at a whole element");
    if (a->same_as > k) return bad_arg(k, "lies in the memory of one that is not before it");
    if (a->index_limit < 0) return bad_arg(k, "has a limit of its indices below 0");
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->sizes[d] < 0) return bad_arg(k, "has a size below 0");
    return NULL;
}

static hn_status measure_arg(const hn_bench_arg *a, uint32_t k, int64_t *out) {
    int64_t dense[HN_TENSOR_MAX_RANK], next = 1;
    for (uint32_t d = a->rank; d-- > 0;) {
        dense[d] = next;
        if (!hn_mul_i64(next, a->sizes[d] ? a->sizes[d] : 1, &next))
            return bad_arg(k, "is too large to be addressed");
    }
    return hn_status_annotate(hn_extent_bytes(a->rank, a->sizes, a->strides ? a->strides : dense,
                                              (uint32_t)hn_scalar_type_bytes(a->type), out),
                              "argument %u of a benchmark", k);
}

/* What an argument adds to the memory that it lies in. */
static hn_status note_arg(hn_trial *t, uint32_t k) {
    const hn_bench_arg *a = &t->subject->args[k];
    int64_t end;
    HN_TRY(check_arg(t->subject, k));
    HN_TRY(measure_arg(a, k, &t->extents[k]));
    t->owner[k] = a->same_as ? t->owner[a->same_as - 1] : k;
    hn_subject_memory *m = &t->memories[t->owner[k]];
    if (!hn_add_i64(a->offset_bytes, t->extents[k], &end))
        return bad_arg(k, "is too large to be addressed");
    if ((size_t)end > m->bytes) m->bytes = (size_t)end;
    m->is_read |= a->access == HN_BENCH_READ || a->access == HN_BENCH_UPDATE;
    m->is_written |= a->access != HN_BENCH_READ;
    m->is_scratch |= a->access == HN_BENCH_SCRATCH;
    return NULL;
}

/* ---- memory ---- */

static hn_status no_memory(void) {
    return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the arguments of a benchmark");
}

static hn_status make_memory(hn_trial *t, hn_subject_memory *m) {
    m->at = hn_dev_alloc(t->dev, m->bytes + 1);
    if (!m->at) return no_memory();
    if (t->dev->facts.is_host && !m->is_written) {
        m->initial = m->at;
        return NULL;
    }
    m->initial = malloc(m->bytes + 1);
    if (m->is_written && !m->is_scratch) m->expected = malloc(m->bytes + 1);
    return m->initial && (m->expected || !m->is_written || m->is_scratch) ? NULL : no_memory();
}

static hn_status make_memories(hn_trial *t) {
    size_t most = 0;
    for (uint32_t k = 0; k < t->subject->arg_count; k++) {
        if (t->owner[k] != k) continue;
        HN_TRY(make_memory(t, &t->memories[k]));
        if (t->memories[k].bytes > most) most = t->memories[k].bytes;
    }
    t->got = malloc(most + 1);
    if (!t->got) return no_memory();
    if (!t->subject->is_cold || t->dev->facts.is_host) return NULL;
    t->cold_bytes =
        t->dev->facts.cache_bytes ? COLD_CACHES * (size_t)t->dev->facts.cache_bytes : COLD_BYTES;
    t->cold = hn_dev_alloc(t->dev, t->cold_bytes);
    return t->cold ? NULL : no_memory();
}

static hn_status open_device(hn_trial *t) {
    const hn_device device = t->subject->device;
    const hn_device_ops *ops = hn_device_ops_of(device.kind);
    if (!ops) return HN_ERROR(HN_NOT_FOUND, "this library has no such kind of device");
    HN_TRY(hn_dev_open(ops, &(hn_device_options){.number = device.number}, &t->dev));
    return ops->queue_create(t->dev,
                             &(hn_queue_options){.step_count = 1,
                                                 .team = &t->team,
                                                 .threads = t->threads,
                                                 .profile = ops->event_time != NULL},
                             &t->queue);
}

hn_status hn_trial_init(hn_trial *t, const hn_bench_subject *subject) {
    const uint32_t count = subject->arg_count;
    *t = (hn_trial){.subject = subject, .threads = subject->threads};
    if (count && !subject->args)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the arguments of a benchmark are missing");
    if (t->threads < 0 || t->threads > HN_THREADS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a benchmark has 1 to %d threads, not %d",
                        HN_THREADS_MAX, t->threads);
    if (!t->threads) t->threads = hn_team_default_threads();
    t->team.limit = t->threads;
    t->memories = calloc(count + 1u, sizeof *t->memories);
    t->owner = calloc(count + 1u, sizeof *t->owner);
    t->extents = calloc(count + 1u, sizeof *t->extents);
    t->host_args = calloc(count + 1u, sizeof *t->host_args);
    if (!t->memories || !t->owner || !t->extents || !t->host_args) return no_memory();
    for (uint32_t k = 0; k < count; k++) HN_TRY(note_arg(t, k));
    HN_TRY(open_device(t));
    return make_memories(t);
}

void hn_trial_deinit(hn_trial *t) {
    /* work that waits ends before its memory goes */
    if (t->queue) hn_status_free(hn_trial_finish(t));
    for (uint32_t k = 0; t->memories && k < t->subject->arg_count; k++) {
        hn_subject_memory *m = &t->memories[k];
        if (m->initial != m->at) free(m->initial);
        free(m->expected);
        if (m->at) hn_dev_free(t->dev, m->at);
    }
    if (t->cold) hn_dev_free(t->dev, t->cold);
    hn_queue_destroy(t->queue);
    hn_dev_release(t->dev);
    hn_team_end(&t->team);
    free(t->memories);
    free(t->owner);
    free(t->extents);
    free(t->host_args);
    free(t->got);
}

/* ---- what is in it ---- */

hn_status hn_trial_finish(hn_trial *t) {
    hn_device_fault fault = {.is_set = false};
    HN_TRY(t->dev->ops->finish(t->queue, &fault));
    return fault.is_set ? HN_ERROR(HN_INVALID_ARGUMENT, "an index is out of bounds") : NULL;
}

static hn_status time_between(const hn_device_ops *ops, hn_event *begin, hn_event *end,
                              double *out_ns) {
    int64_t from, to;
    HN_TRY(ops->event_time(begin, &from));
    HN_TRY(ops->event_time(end, &to));
    *out_ns = (double)(to - from);
    return NULL;
}

hn_status hn_trial_time(hn_trial *t, hn_status (*give)(void *user), void *user, uint32_t calls,
                        double *out_ns) {
    const hn_device_ops *ops = t->dev->ops;
    hn_event *begin = NULL, *end = NULL;
    hn_status status = ops->record(t->queue, &begin);
    for (uint32_t k = 0; k < calls && !status; k++) status = give(user);
    if (!status) status = ops->record(t->queue, &end);
    hn_status late = hn_trial_finish(t);
    if (status) hn_status_free(late);
    else status = late;
    if (!status) status = time_between(ops, begin, end, out_ns);
    ops->event_free(begin);
    ops->event_free(end);
    return status;
}

static hn_status put(hn_trial *t, const hn_subject_memory *m) {
    return m->initial == m->at ? NULL : t->dev->ops->copy_in(t->queue, m->at, m->initial, m->bytes);
}

/* The elements of all arguments in the memory of argument `owner`. */
static void make_content(hn_trial *t, uint32_t owner) {
    const hn_bench_subject *s = t->subject;
    hn_subject_memory *m = &t->memories[owner];
    memset(m->initial, 0, m->bytes);
    /* from the first element on, with what lies between elements */
    const size_t begin = (size_t)s->args[owner].offset_bytes;
    hn_make_up(&s->args[owner], t->how, owner, m->initial + begin, m->bytes - begin);
    for (uint32_t k = owner; k < s->arg_count; k++)
        if (t->owner[k] == owner && s->args[k].content && t->extents[k])
            memcpy(m->initial + s->args[k].offset_bytes, s->args[k].content, (size_t)t->extents[k]);
}

hn_status hn_trial_fill(hn_trial *t, hn_made_up how) {
    t->how = how;
    for (uint32_t k = 0; k < t->subject->arg_count; k++) {
        hn_subject_memory *m = &t->memories[k];
        if (t->owner[k] != k) continue;
        make_content(t, k);
        if (m->expected) memcpy(m->expected, m->initial, m->bytes);
        if (!m->is_written) m->hash = hn_hash64(m->initial, m->bytes, 0);
        HN_TRY(put(t, m));
    }
    return hn_trial_finish(t);
}

hn_status hn_trial_repair(hn_trial *t) {
    for (uint32_t k = 0; k < t->subject->arg_count; k++) {
        const hn_subject_memory *m = &t->memories[k];
        if (t->owner[k] != k || m->is_written) continue;
        if (m->initial == m->at) make_content(t, k);
        HN_TRY(put(t, m));
    }
    return hn_trial_finish(t);
}

hn_status hn_trial_restore(hn_trial *t, bool is_all) {
    for (uint32_t k = 0; k < t->subject->arg_count; k++) {
        const hn_subject_memory *m = &t->memories[k];
        if (t->owner[k] != k || !m->is_written) continue;
        if (is_all || hn_memory_needs_restore(m)) HN_TRY(put(t, m));
    }
    return hn_trial_finish(t);
}

/* What the device has in a memory: `t->got`, or the memory itself. */
static hn_status get(hn_trial *t, const hn_subject_memory *m, const uint8_t **out) {
    *out = t->dev->facts.is_host ? m->at : t->got;
    if (*out == m->at) return NULL;
    HN_TRY(t->dev->ops->copy_out(t->queue, t->got, m->at, m->bytes));
    return hn_trial_finish(t);
}

hn_status hn_trial_take_expected(hn_trial *t) {
    for (uint32_t k = 0; k < t->subject->arg_count; k++) {
        const hn_subject_memory *m = &t->memories[k];
        const uint8_t *now;
        if (t->owner[k] != k || !m->expected) continue;
        HN_TRY(get(t, m, &now));
        memcpy(m->expected, now, m->bytes);
    }
    return NULL;
}

hn_status hn_trial_run_reference(hn_trial *t) {
    const hn_bench_subject *s = t->subject;
    for (uint32_t k = 0; k < s->arg_count; k++) {
        const hn_subject_memory *m = &t->memories[t->owner[k]];
        if (m->expected && t->owner[k] == k) memcpy(m->expected, m->initial, m->bytes);
        t->host_args[k] = (m->expected ? m->expected : m->initial) + s->args[k].offset_bytes;
    }
    return s->reference(s->reference_user, t->host_args);
}

/* ---- whether it is right ---- */

static bool is_result(const hn_bench_arg *a) {
    return a->access == HN_BENCH_WRITE || a->access == HN_BENCH_UPDATE;
}

static int64_t count_of(const hn_trial *t, uint32_t k) {
    return t->extents[k] / (int64_t)hn_scalar_type_bytes(t->subject->args[k].type);
}

double hn_trial_bad_share(const hn_trial *t) {
    int64_t bad = 0, all = 0;
    for (uint32_t k = 0; k < t->subject->arg_count; k++) {
        const hn_bench_arg *a = &t->subject->args[k];
        const hn_subject_memory *m = &t->memories[t->owner[k]];
        const int64_t count = count_of(t, k), stride = 1;
        hn_tensor_stats stats;
        if (!is_result(a) || !m->expected || !count) continue;
        hn_tensor_stats_get(&(hn_stats_tensor){.type = a->type,
                                               .rank = 1,
                                               .sizes = &count,
                                               .strides = &stride,
                                               .data = m->expected + a->offset_bytes},
                            NULL, 1, &stats);
        bad += stats.nan_count + stats.inf_count;
        all += count;
    }
    return all ? (double)bad / (double)all : 0;
}

static hn_status wrong(uint32_t k, const hn_strbuf *why) {
    return HN_ERROR(HN_INTERNAL, "the result is wrong: argument %u: %s", k,
                    why->len ? why->ptr : "");
}

static hn_status check_result(hn_trial *t, uint32_t k, const uint8_t *now) {
    const hn_bench_arg *a = &t->subject->args[k];
    const uint8_t *want = t->memories[t->owner[k]].expected;
    hn_strbuf why;
    hn_strbuf_init(&why);
    hn_status status = NULL;
    if (!hn_elements_match(a->type, now + a->offset_bytes, want + a->offset_bytes, count_of(t, k),
                           &why))
        status = wrong(k, &why);
    hn_strbuf_deinit(&why);
    return status;
}

/* All results in the memory of argument `owner`; or that nobody has written there. */
static hn_status check_memory(hn_trial *t, uint32_t owner) {
    const hn_subject_memory *m = &t->memories[owner];
    const uint8_t *now;
    if (m->is_scratch) return NULL;
    HN_TRY(get(t, m, &now));
    if (!m->is_written && hn_hash64(now, m->bytes, 0) != m->hash)
        return HN_ERROR(HN_INTERNAL, "argument %u, which is only read, was changed", owner);
    for (uint32_t k = owner; k < t->subject->arg_count; k++)
        if (t->owner[k] == owner && is_result(&t->subject->args[k]))
            HN_TRY(check_result(t, k, now));
    return NULL;
}

hn_status hn_trial_check(hn_trial *t) {
    for (uint32_t k = 0; k < t->subject->arg_count; k++)
        if (t->owner[k] == k) HN_TRY(check_memory(t, k));
    return NULL;
}

/* ---- caches ---- */

void hn_trial_evict(void *trial) {
    hn_trial *t = trial;
    if (t->cold) {
        /* a fault of the device shows in the call that follows */
        hn_status_free(t->dev->ops->fill(t->queue, t->cold, 0, t->cold_bytes));
        hn_status_free(hn_trial_finish(t));
    }
    if (!t->dev->facts.is_host) return;
    for (uint32_t k = 0; k < t->subject->arg_count; k++)
        for (size_t at = 0; t->owner[k] == k && at < t->memories[k].bytes; at += LINE)
            HN_EVICT_LINE((uint8_t *)t->memories[k].at + at);
}
