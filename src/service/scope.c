/* scope.c: scopes and futures: submitting, joining, cancelling, waiting. */
#include "base/log.h"
#include "base/trace.h"
#include "cache/record.h"
#include "service/core.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PROGRESS_EVERY_MS = 100 };

struct hn_future {
    hn_scope *scope;
    hn_job *job; /* one reference */
    char *name;
    bool is_cancelled;
    hn_hit_level level;
};

struct hn_scope {
    hn_core *core;
    hn_future **futures; /* owned, in the order of submission; under the core's lock */
    uint32_t count, cap;
};

/* ---- scopes ---- */

hn_status hn_scope_create(hn_service *service, hn_scope **out_scope) {
    hn_core *core;
    HN_TRY(hn_core_current(service, &core));
    hn_scope *scope = calloc(1, sizeof(*scope));
    if (!scope) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a compile scope");
    scope->core = core;
    *out_scope = scope;
    return NULL;
}

static bool is_foreign(const hn_core *core) { return core->pid != getpid(); }

static hn_status foreign_error(void) {
    return HN_ERROR(HN_CANCELLED,
                    "the compile scope was made before this process was forked; make a new one");
}

/* With the lock held. A job that nobody wants leaves the queue. */
static void cancel_future(hn_future *future) {
    hn_core *core = future->scope->core;
    hn_job *job = future->job;
    if (future->is_cancelled || job->state == HN_JOB_DONE) return;
    future->is_cancelled = true;
    if (--job->wanted == 0 && job->state == HN_JOB_QUEUED) {
        hn_core_dequeue(core, job);
        hn_core_forget(core, job);
        job->state = HN_JOB_DONE; /* nobody looks at it any more */
        core->stats.cancelled++;
    }
    pthread_cond_broadcast(&core->changed);
}

void hn_scope_destroy(hn_scope *scope) {
    if (!scope || is_foreign(scope->core)) return;
    pthread_mutex_lock(&scope->core->lock);
    for (uint32_t i = 0; i < scope->count; i++) {
        hn_future *future = scope->futures[i];
        cancel_future(future);
        hn_job_release(future->job);
        free(future->name);
        free(future);
    }
    pthread_mutex_unlock(&scope->core->lock);
    free(scope->futures);
    free(scope);
}

/* With the lock held. Takes over the caller's reference to `job`, also when it fails. */
static hn_status add_future(hn_scope *scope, hn_job *job, const char *name, hn_hit_level level,
                            hn_future **out) {
    hn_core *core = scope->core;
    hn_future *future = calloc(1, sizeof(*future));
    char *copy = strdup(name);
    if (scope->count == scope->cap) {
        uint32_t cap = scope->cap ? scope->cap * 2 : 16;
        hn_future **futures = realloc(scope->futures, cap * sizeof(hn_future *));
        if (futures) scope->futures = futures, scope->cap = cap;
    }
    if (!future || !copy || scope->count == scope->cap) {
        free(future);
        free(copy);
        hn_job_release(job);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a future");
    }
    *future = (hn_future){.scope = scope, .job = job, .name = copy, .level = level};
    job->wanted++;
    scope->futures[scope->count++] = future;
    core->stats.submitted++;
    core->stats.hits[level]++;
    if (job->state == HN_JOB_DONE && job->code != HN_OK) core->stats.failure_hits++;
    *out = future;
    return NULL;
}

/* ---- submitting ---- */

static hn_status check_source(const hn_source *source) {
    if (!source->name || !source->language || (!source->text && source->text_len))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot submit a job without name, language or text");
    if ((source->flag_count && !source->flags) || (source->entry_count && !source->entries) ||
        (source->target_count && !source->target))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot submit '%s': a list is NULL", source->name);
    if (source->text_len > HN_FRAME_LIMIT_BYTES / 2)
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot submit '%s': %zu bytes of source are too many",
                        source->name, source->text_len);
    return NULL;
}

/* A finished job from the disk, or NULL. */
static hn_job *job_from_disk(hn_core *core, const hn_digest *key, const hn_toolchain_row *row,
                             const char *name) {
    hn_store_entry entry;
    hn_store *store = core->service->store;
    if (!hn_store_get(store, HN_STORE_KERNEL, key, &entry)) return NULL;
    hn_job *job = hn_job_create(key, row, name);
    bool ok = job != NULL;
    if (ok && entry.is_failure) {
        hn_job_outcome outcome;
        hn_job_outcome_init(&outcome);
        hn_status status = hn_job_outcome_read((hn_str){(const char *)entry.bytes, entry.len}, &outcome);
        ok = !status && outcome.code != HN_OK;
        hn_status_free(status);
        job->code = outcome.code;
        job->message = ok ? strdup(hn_strbuf_str(&outcome.message).ptr) : NULL;
        ok = ok && job->message;
        hn_job_outcome_deinit(&outcome);
    } else if (ok) {
        job->artifact = hn_artifact_from_entry(store, key, &entry);
        ok = job->artifact != NULL;
    }
    if (ok) job->state = HN_JOB_DONE;
    hn_store_entry_deinit(&entry);
    if (ok || !job) return job;
    hn_job_release(job);
    return NULL;
}

/* With the lock held. Puts a new job into the queue and makes sure that somebody works on it. */
static hn_status enqueue_new(hn_core *core, hn_job *job) {
    HN_TRY(hn_core_insert(core, job));
    job->id = ++core->next_job_id;
    core->stats.enqueued++;
    hn_core_enqueue(core, job, false);
    if (core->is_inline) return NULL;
    hn_status status = core->is_pool_running ? NULL : hn_pool_start(core);
    if (status) {
        hn_warn_once("service", "no-pool", "compiling without worker processes: %s",
                     hn_status_message(status));
        hn_status_free(status);
        core->is_inline = true;
        return NULL;
    }
    hn_pool_wake(core);
    return NULL;
}

/* Joins the job of that key, if there is one. */
static bool try_join(hn_scope *scope, const hn_digest *key, const char *name, hn_future **out,
                     hn_status *out_status) {
    pthread_mutex_lock(&scope->core->lock);
    hn_job *job = hn_core_find(scope->core, key);
    if (job) {
        job->refs++;
        hn_hit_level level = job->state == HN_JOB_DONE ? HN_HIT_MEMORY : HN_HIT_INFLIGHT;
        *out_status = add_future(scope, job, name, level, out);
    }
    pthread_mutex_unlock(&scope->core->lock);
    return job != NULL;
}

/* With the lock held: gives the scope a future of `job`, which is new, unless another thread was faster.
 * Takes over the caller's reference. */
static hn_status admit(hn_scope *scope, hn_job *job, const char *name, hn_future **out) {
    hn_core *core = scope->core;
    hn_job *other = hn_core_find(core, &job->key);
    hn_hit_level level = job->state == HN_JOB_DONE ? HN_HIT_DISK : HN_HIT_NONE;
    hn_status status = NULL;
    if (other) {
        hn_job_release(job);
        job = other;
        job->refs++;
        level = job->state == HN_JOB_DONE ? HN_HIT_MEMORY : HN_HIT_INFLIGHT;
    } else if (job->state == HN_JOB_DONE) {
        status = hn_core_insert(core, job);
        if (!status) hn_core_keep_done(core, job);
    } else {
        status = enqueue_new(core, job);
    }
    if (!status) return add_future(scope, job, name, level, out);
    hn_job_release(job);
    return status;
}

static hn_status submit_record(hn_scope *scope, const hn_source *source, const hn_toolchain *toolchain,
                               hn_strbuf *record, hn_future **out) {
    hn_core *core = scope->core;
    hn_status status = NULL;
    hn_digest key = hn_digest_of(record->ptr, record->len);
    if (try_join(scope, &key, source->name, out, &status)) return status;
    hn_str flags;
    hn_record_find(hn_strbuf_str(record), "flags", &flags);
    bool is_kept = !toolchain->row->reads_files((hn_str){source->text, source->text_len}, flags);
    hn_job *job = is_kept ? job_from_disk(core, &key, toolchain->row, source->name) : NULL;
    if (!job) {
        job = hn_job_create(&key, toolchain->row, source->name);
        if (!job) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for compile job '%s'", source->name);
        job->is_kept = is_kept;
        job->key_record = *record;
        hn_strbuf_init(record);
    }
    pthread_mutex_lock(&core->lock);
    status = admit(scope, job, source->name, out);
    pthread_mutex_unlock(&core->lock);
    return status;
}

hn_status hn_core_build_record(hn_core *core, const hn_source *source, const hn_toolchain **out_toolchain,
                               hn_strbuf *out) {
    const hn_toolchain_row *row;
    HN_TRY(check_source(source));
    HN_TRY(hn_toolchain_row_find(hn_str_of(source->language), &row));
    HN_TRY(hn_core_toolchain(core, row, out_toolchain));
    return hn_job_key_record(source, *out_toolchain, out);
}

hn_status hn_compile_submit(hn_scope *scope, const hn_source *source, hn_future **out_future) {
    if (is_foreign(scope->core)) return foreign_error();
    const hn_toolchain *toolchain;
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_status status = hn_core_build_record(scope->core, source, &toolchain, &record);
    if (!status) status = submit_record(scope, source, toolchain, &record, out_future);
    hn_strbuf_deinit(&record);
    return status;
}

/* ---- waiting ---- */

static struct timespec timespec_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static bool is_settled(const hn_future *future) {
    return future->is_cancelled || future->job->state == HN_JOB_DONE;
}

/* With the lock held. The outcome of a settled future as a status of its own. */
static hn_status outcome_of(const hn_future *future) {
    const hn_job *job = future->job;
    if (future->is_cancelled) return HN_ERROR(HN_CANCELLED, "kernel '%s' was cancelled", future->name);
    if (job->code == HN_OK) return NULL;
    return HN_ERROR(job->code, "cannot compile kernel '%s': %s", future->name,
                    job->message ? job->message : "no memory for the reason");
}

/* With the lock held, which is given up meanwhile. True when the job ran here. */
static bool run_if_inline(hn_future *future) {
    hn_core *core = future->scope->core;
    hn_job *job = future->job;
    if (!core->is_inline || job->state != HN_JOB_QUEUED) return false;
    hn_core_start(core, job);
    pthread_mutex_unlock(&core->lock);
    hn_core_run_inline(core, job);
    pthread_mutex_lock(&core->lock);
    return true;
}

/* With the lock held. `until_ns` 0: no limit. False when that time is over. */
static bool wait_change(hn_core *core, int64_t until_ns) {
    if (!until_ns) return pthread_cond_wait(&core->changed, &core->lock) == 0;
    struct timespec until = timespec_of(until_ns);
    return pthread_cond_timedwait(&core->changed, &core->lock, &until) != ETIMEDOUT;
}

hn_status hn_future_wait(hn_future *future, int64_t timeout_ms, hn_artifact **out_artifact) {
    hn_core *core = future->scope->core;
    if (is_foreign(core)) return foreign_error();
    int64_t until_ns =
        timeout_ms >= 0 && timeout_ms < INT64_MAX / 2000000 ? hn_now_ns() + timeout_ms * 1000000 : 0;
    hn_status status = NULL;
    pthread_mutex_lock(&core->lock);
    while (!status && !is_settled(future)) {
        if (!run_if_inline(future) && !wait_change(core, until_ns) && !is_settled(future))
            status = HN_ERROR(HN_TIMEOUT, "kernel '%s' is still being compiled", future->name);
    }
    if (!status) status = outcome_of(future);
    if (!status && out_artifact) *out_artifact = hn_artifact_retain(future->job->artifact);
    pthread_mutex_unlock(&core->lock);
    return status;
}

bool hn_future_is_done(hn_future *future) {
    hn_core *core = future->scope->core;
    if (is_foreign(core)) return true;
    pthread_mutex_lock(&core->lock);
    bool is_done = is_settled(future);
    pthread_mutex_unlock(&core->lock);
    return is_done;
}

void hn_future_cancel(hn_future *future) {
    hn_core *core = future->scope->core;
    if (is_foreign(core)) return;
    pthread_mutex_lock(&core->lock);
    cancel_future(future);
    pthread_mutex_unlock(&core->lock);
}

hn_hit_level hn_future_hit_level(const hn_future *future) { return future->level; }

/* With the lock held. Counts, and returns the first future that is not settled. */
static hn_future *survey(const hn_scope *scope, hn_scope_progress *progress) {
    hn_future *first = NULL;
    progress->total = scope->count;
    progress->done = progress->failed = 0;
    for (uint32_t i = 0; i < scope->count; i++) {
        hn_future *future = scope->futures[i];
        if (!is_settled(future)) {
            if (!first) first = future;
            continue;
        }
        progress->done++;
        progress->failed += future->is_cancelled || future->job->code != HN_OK;
    }
    progress->waiting_for = first ? first->name : NULL;
    return first;
}

/* With the lock held. The first failure, and how many more there are. */
static hn_status scope_outcome(const hn_scope *scope, uint32_t failed) {
    for (uint32_t i = 0; failed && i < scope->count; i++) {
        hn_status status = outcome_of(scope->futures[i]);
        if (!status) continue;
        if (failed == 1) return status;
        return hn_status_annotate(status, "%u of %u kernels failed, the first one", failed, scope->count);
    }
    return NULL;
}

/* Tells about progress without the lock. False: the caller wants to stop. */
static bool tell(hn_core *core, hn_scope_progress_fn report, void *context,
                 const hn_scope_progress *progress) {
    if (!report) return true;
    pthread_mutex_unlock(&core->lock);
    bool go_on = report(context, progress);
    pthread_mutex_lock(&core->lock);
    return go_on;
}

hn_status hn_scope_wait(hn_scope *scope, hn_scope_progress_fn progress, void *context) {
    hn_core *core = scope->core;
    if (is_foreign(core)) return foreign_error();
    int64_t start_ns = hn_now_ns();
    hn_scope_progress now = {.total = 0};
    pthread_mutex_lock(&core->lock);
    for (;;) {
        hn_future *next = survey(scope, &now);
        now.elapsed_ns = hn_now_ns() - start_ns;
        if (!tell(core, progress, context, &now)) {
            for (uint32_t i = 0; i < scope->count; i++) cancel_future(scope->futures[i]);
            progress = NULL; /* it has had its say */
            continue;
        }
        if (!next) break;
        /* It may have been settled while the lock was not held. */
        if (is_settled(next) || run_if_inline(next)) continue;
        wait_change(core, progress ? hn_now_ns() + PROGRESS_EVERY_MS * 1000000LL : 0);
    }
    hn_status status = scope_outcome(scope, now.failed);
    pthread_mutex_unlock(&core->lock);
    return status;
}
