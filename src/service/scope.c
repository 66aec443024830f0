/* scope.c: scopes and futures: submitting, joining, cancelling, waiting. */
#include "base/lock.h"
#include "base/log.h"
#include "base/trace.h"
#include "cache/record.h"
#include "service/core.h"
#include "toolchain/headers.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PROGRESS_EVERY_MS = 100, OVERSLEPT_MS = 100 };

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

static bool is_from_before_fork(const hn_core *core) { return core->pid != getpid(); }

static hn_status fork_error(void) {
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
        job->state = HN_JOB_DONE; /* nobody has it any more */
        core->stats.cancelled++;
    } else if (!job->wanted) {
        hn_core_cancel_running(core, job);
    }
    pthread_cond_broadcast(&core->changed);
}

void hn_scope_destroy(hn_scope *scope) {
    if (!scope || is_from_before_fork(scope->core)) return;
    hn_lock(&scope->core->lock);
    for (uint32_t i = 0; i < scope->count; i++) {
        hn_future *future = scope->futures[i];
        cancel_future(future);
        hn_job_release(future->job);
        free(future->name);
        free(future);
    }
    hn_unlock(&scope->core->lock);
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
    if (job->state == HN_JOB_DONE) core->stats.time_saved_ns += job->made_ns;
    *out = future;
    return NULL;
}

/* ---- submitting ---- */

static hn_status check_source(const hn_source *source) {
    if (!source->name || !source->language || (!source->text && source->text_len))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot submit a job without name, language or text");
    if ((source->flag_count && !source->flags) || (source->entry_count && !source->entries) ||
        (source->target_count && !source->target) || (source->env_count && !source->env))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot submit '%s': a list is NULL", source->name);
    if (source->text_len > HN_FRAME_LIMIT_BYTES / 2)
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot submit '%s': %zu bytes of source are too many",
                        source->name, source->text_len);
    return NULL;
}

/* With `again`, when the result of another process is awaited, a miss is not counted. */
static hn_cache_level get_entry(hn_core *core, hn_store_ns ns, const hn_digest *key, bool again,
                                hn_store_entry *out) {
    return again ? hn_cache_look_again(&core->cache, ns, key, out)
                 : hn_cache_get(&core->cache, ns, key, out);
}

/* The headers that the job read when it was last compiled, if they are still the same, appended to
 * `out`; and the key of the result that goes with them. */
static bool find_headers(hn_core *core, const hn_digest *key, bool again, hn_strbuf *out,
                         hn_digest *out_key) {
    hn_store_entry entry;
    hn_digest list_key = hn_headers_list_key(key);
    if (get_entry(core, HN_STORE_TOOLCHAIN, &list_key, again, &entry) == HN_LEVEL_NONE)
        return false;
    hn_str headers = {(const char *)entry.bytes, entry.len};
    bool ok = hn_headers_unchanged(headers);
    if (ok) hn_strbuf_append(out, headers.ptr, headers.len);
    *out_key = hn_headers_key(key, headers);
    hn_store_entry_deinit(&entry);
    return ok && !out->failed;
}

static hn_job *job_from_entry(hn_core *core, const hn_digest *key, const hn_digest *entry_key,
                              bool again, const hn_toolchain_row *row, const char *name) {
    hn_store_entry entry;
    hn_cache_level level = get_entry(core, HN_STORE_KERNEL, entry_key, again, &entry);
    if (level == HN_LEVEL_NONE) return NULL;
    hn_job *job = hn_job_create(key, row, name);
    int64_t made_ns = entry.made_ns;
    bool ok = job != NULL;
    if (ok && entry.is_failure) {
        hn_job_outcome outcome;
        hn_job_outcome_init(&outcome);
        hn_status status =
            hn_job_outcome_read((hn_str){(const char *)entry.bytes, entry.len}, &outcome);
        ok = !status && outcome.code != HN_OK;
        hn_status_free(status);
        job->code = outcome.code;
        job->message = ok ? strdup(hn_strbuf_str(&outcome.message).ptr) : NULL;
        job->expires_s = entry.expires_s;
        ok = ok && job->message;
        hn_job_outcome_deinit(&outcome);
    } else if (ok) {
        job->artifact = hn_artifact_from_entry(core->service->store, key, row, entry_key, &entry);
        ok = job->artifact != NULL;
    }
    hn_store_entry_deinit(&entry);
    if (ok) {
        job->state = HN_JOB_DONE;
        job->found = level == HN_LEVEL_REMOTE ? HN_HIT_REMOTE : HN_HIT_DISK;
        job->made_ns = made_ns;
        return job;
    }
    if (job) hn_job_release(job);
    return NULL;
}

hn_job *hn_core_look_up(hn_core *core, const hn_digest *key, hn_toolchain_reads reads, bool again,
                        const hn_toolchain_row *row, const char *name) {
    hn_strbuf headers;
    hn_digest entry_key = *key;
    hn_strbuf_init(&headers);
    bool found =
        reads == HN_READS_NOTHING ||
        (reads == HN_READS_HEADERS && find_headers(core, key, again, &headers, &entry_key));
    hn_job *job = found ? job_from_entry(core, key, &entry_key, again, row, name) : NULL;
    if (job) {
        job->reads = reads;
        job->headers = headers;
    } else {
        hn_strbuf_deinit(&headers);
    }
    return job;
}

/* With the lock held. Puts a new job into the queue. */
static hn_status enqueue_new(hn_core *core, hn_job *job) {
    HN_TRY(hn_core_insert(core, job));
    job->id = ++core->next_job_id;
    core->stats.enqueued++;
    hn_core_enqueue(core, job, false);
    hn_core_expect_slow(core, job);
    hn_core_need_workers(core, 1);
    return NULL;
}

void hn_core_need_workers(hn_core *core, int32_t count) {
    if (core->is_inline) return;
    hn_status status = core->is_pool_running ? NULL : hn_pool_start(core);
    if (!status) {
        core->workers_wanted += count;
        hn_pool_wake(core);
        return;
    }
    hn_warn_once("service", "no-pool", "compiling without worker processes: %s",
                 hn_status_message(status));
    hn_status_free(status);
    core->is_inline = true;
}

/* With the lock held, which is given up meanwhile: whether a finished job would have the same
 * result now: its headers are unchanged, and a failure has not expired. Drops it if not. The caller
 * has a reference. */
static bool is_current(hn_core *core, hn_job *job) {
    if (job->expires_s && job->expires_s <= time(NULL)) {
        hn_core_drop_done(core, job);
        return false;
    }
    if (!job->headers.len) return true;
    hn_unlock(&core->lock);
    bool same = hn_headers_unchanged(hn_strbuf_str(&job->headers));
    hn_lock(&core->lock);
    if (!same) hn_core_drop_done(core, job);
    return same;
}

/* Joins the job of that key, if there is one. */
static bool try_join(hn_scope *scope, const hn_digest *key, const char *name, hn_future **out,
                     hn_status *out_status) {
    hn_lock(&scope->core->lock);
    hn_job *job = hn_core_find(scope->core, key);
    if (job) job->refs++;
    if (job && job->state == HN_JOB_DONE && !is_current(scope->core, job)) {
        hn_job_release(job);
        job = NULL;
    }
    if (job) {
        hn_hit_level level = job->state == HN_JOB_DONE ? HN_HIT_MEMORY : HN_HIT_INFLIGHT;
        *out_status = add_future(scope, job, name, level, out);
    }
    hn_unlock(&scope->core->lock);
    return job != NULL;
}

/* With the lock held: gives the scope a future of `job`, which is new, unless another thread was
 * faster. Takes over the caller's reference. */
static hn_status add_job(hn_scope *scope, hn_job *job, const char *name, hn_future **out) {
    hn_core *core = scope->core;
    hn_job *other = hn_core_find(core, &job->key);
    hn_hit_level level = job->state == HN_JOB_DONE ? job->found : HN_HIT_NONE;
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

static hn_status submit_record(hn_scope *scope, const hn_source *source,
                               const hn_toolchain *toolchain, hn_strbuf *record, hn_future **out) {
    hn_core *core = scope->core;
    hn_status status = NULL;
    hn_digest key = hn_digest_of(record->ptr, record->len);
    if (try_join(scope, &key, source->name, out, &status)) return status;
    hn_str flags;
    hn_record_find(hn_strbuf_str(record), "flags", &flags);
    hn_toolchain_reads reads =
        toolchain->row->reads((hn_str){source->text, source->text_len}, flags);
    hn_job *job = hn_core_look_up(core, &key, reads, false, toolchain->row, source->name);
    if (!job) {
        job = hn_job_create(&key, toolchain->row, source->name);
        if (!job) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for compile job '%s'", source->name);
        job->reads = reads;
        job->key_record = *record;
        hn_strbuf_init(record);
    }
    hn_lock(&core->lock);
    status = add_job(scope, job, source->name, out);
    hn_unlock(&core->lock);
    return status;
}

hn_status hn_core_build_record(hn_core *core, const hn_source *source,
                               const hn_toolchain **out_toolchain, hn_strbuf *out) {
    const hn_toolchain_row *row;
    HN_TRY(check_source(source));
    HN_TRY(hn_toolchain_row_find(hn_str_of(source->language), &row));
    HN_TRY(hn_core_toolchain(core, row, out_toolchain));
    /* Without a tag there is no field: keys are what they were. */
    if (core->service->cache_tag[0]) hn_record_add(out, "tag", hn_str_of(core->service->cache_tag));
    return hn_job_key_record(source, *out_toolchain, out);
}

hn_status hn_compile_submit(hn_scope *scope, const hn_source *source, hn_future **out_future) {
    if (is_from_before_fork(scope->core)) return fork_error();
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
    if (future->is_cancelled)
        return HN_ERROR(HN_CANCELLED, "kernel '%s' was cancelled", future->name);
    if (job->code == HN_OK) return NULL;
    return hn_core_failure(job, future->name);
}

/* With the lock held: whether the job may start in this process now. Until the first worker is
 * ready, it may if the caller waits without a limit. */
static bool is_ready_inline(const hn_future *future, bool has_limit) {
    const hn_job *job = future->job;
    const hn_core *core = future->scope->core;
    return (core->is_inline || (!core->workers_ready && !has_limit)) && !future->is_cancelled &&
           job->state == HN_JOB_QUEUED && (!job->due_ns || job->due_ns <= hn_now_ns());
}

/* With the lock held, which may be given up meanwhile. True when the job was started in this
 * process. */
static bool run_if_inline(hn_future *future, bool has_limit) {
    if (!is_ready_inline(future, has_limit)) return false;
    hn_core_run_inline(future->scope->core, future->job);
    return true;
}

/* With the lock held: when this thread should look at the parked job again. 0: others do, or it is
 * not parked. */
static int64_t due_inline_ns(const hn_future *future) {
    const hn_job *job = future->job;
    return future->scope->core->is_inline && job->state == HN_JOB_QUEUED ? job->due_ns : 0;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns) {
    return !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns;
}

/* With the lock held, which is given up meanwhile: until something changes for the future.
 * `until_ns` 0: no limit. False when that time is over. */
static bool wait_change(const hn_future *future, int64_t until_ns) {
    hn_core *core = future->scope->core;
    if (!until_ns) return pthread_cond_wait(&core->changed, &core->lock) == 0;
    struct timespec until = timespec_of(until_ns);
    return pthread_cond_timedwait(&core->changed, &core->lock, &until) != ETIMEDOUT;
}

/* With the lock held, which is given up meanwhile. A job that was compiled in this process is on
 * the disk when a wait without a limit returns: a program may end without ending its service. */
static void wait_published(const hn_future *future) {
    hn_core *core = future->scope->core;
    while (core->is_inline && !future->is_cancelled && future->job->key_record.len)
        pthread_cond_wait(&core->changed, &core->lock);
}

/* Whether the time is over. A thread that wakes much too late was stopped together with the threads
 * that would have reported the result: these get some more time. */
static bool has_timed_out(int64_t *until_ns, bool *had_grace) {
    int64_t now_ns = hn_now_ns();
    if (!*until_ns || now_ns < *until_ns) return false;
    if (*had_grace || now_ns - *until_ns < OVERSLEPT_MS * 1000000LL) return true;
    *had_grace = true;
    *until_ns = now_ns + OVERSLEPT_MS * 1000000LL;
    return false;
}

/* With the lock held, which may be given up meanwhile: without workers, waiting threads report the
 * jobs that take long. Returns when that is due next; 0: not by this thread. */
static int64_t report_slow(hn_core *core) {
    if (!core->is_inline || !core->slow_due_ns) return 0;
    if (hn_now_ns() >= core->slow_due_ns) {
        hn_unlock(&core->lock);
        hn_core_report_slow(core);
        hn_lock(&core->lock);
    }
    return core->slow_due_ns;
}

hn_status hn_future_wait(hn_future *future, int64_t timeout_ms, hn_artifact **out_artifact) {
    hn_core *core = future->scope->core;
    if (is_from_before_fork(core)) return fork_error();
    int64_t until_ns = timeout_ms >= 0 && timeout_ms < INT64_MAX / 2000000
                           ? hn_now_ns() + timeout_ms * 1000000
                           : 0;
    bool had_grace = timeout_ms == 0;
    hn_status status = NULL;
    hn_lock(&core->lock);
    while (!status && !is_settled(future)) {
        if (timeout_ms && run_if_inline(future, until_ns != 0)) continue;
        int64_t slow_ns = report_slow(core);
        if (is_settled(future) ||
            wait_change(future, earlier(earlier(until_ns, due_inline_ns(future)), slow_ns)))
            continue;
        if (!is_settled(future) && has_timed_out(&until_ns, &had_grace))
            status = HN_ERROR(HN_TIMEOUT, "kernel '%s' is still being compiled", future->name);
    }
    if (!status && !until_ns) wait_published(future);
    if (!status) status = outcome_of(future);
    if (!status && out_artifact) *out_artifact = hn_artifact_retain(future->job->artifact);
    hn_unlock(&core->lock);
    return status;
}

bool hn_future_is_done(hn_future *future) {
    hn_core *core = future->scope->core;
    if (is_from_before_fork(core)) return true;
    hn_lock(&core->lock);
    bool is_done = is_settled(future);
    hn_unlock(&core->lock);
    return is_done;
}

void hn_future_cancel(hn_future *future) {
    hn_core *core = future->scope->core;
    if (is_from_before_fork(core)) return;
    hn_lock(&core->lock);
    cancel_future(future);
    hn_unlock(&core->lock);
}

hn_hit_level hn_future_hit_level(const hn_future *future) {
    hn_core *core = future->scope->core;
    if (is_from_before_fork(core)) return future->level;
    hn_lock(&core->lock);
    bool is_found = future->level == HN_HIT_NONE && future->job->state == HN_JOB_DONE;
    hn_hit_level level = is_found ? future->job->found : future->level;
    hn_unlock(&core->lock);
    return level;
}

const char *hn_scope_progress_line(const hn_scope_progress *p, char *out, size_t bytes) {
    char failed[32] = "", elsewhere[64] = "";
    if (p->failed) snprintf(failed, sizeof(failed), ", %u failed", p->failed);
    if (p->elsewhere)
        snprintf(elsewhere, sizeof(elsewhere), ", %u waiting for another process", p->elsewhere);
    snprintf(out, bytes, "%u/%u, %u hits, %u workers%s%s%s%.60s", p->done, p->total, p->hits,
             p->workers, failed, elsewhere, p->waiting_for ? ", kernel " : "",
             p->waiting_for ? p->waiting_for : "");
    return out;
}

/* How many jobs of a scope run in this process at once. While workers start it is one: the others
 * are for the workers. */
static uint32_t inline_limit(const hn_core *core) {
    return core->is_inline ? (uint32_t)core->service->threads : 1;
}

/* With the lock held. Counts, and returns the first future that is not settled. `*out_ready`: one
 * whose job should start in this process now, or NULL. `*out_due_ns`: when there will be one that
 * was parked. */
static hn_future *count_progress(const hn_scope *scope, bool has_limit, hn_scope_progress *progress,
                                 hn_future **out_ready, int64_t *out_due_ns) {
    hn_future *first = NULL, *ready = NULL;
    uint32_t running = 0;
    *out_due_ns = 0;
    progress->total = scope->count;
    progress->done = progress->failed = progress->elsewhere = progress->hits = progress->workers =
        0;
    for (int i = 0; i < HN_WORKERS_MAX; i++) progress->workers += scope->core->worker_pids[i] != 0;
    for (uint32_t i = 0; i < scope->count; i++) {
        hn_future *future = scope->futures[i];
        if (!is_settled(future)) {
            if (!first) first = future;
            running += future->job->state == HN_JOB_RUNNING;
            if (!ready && is_ready_inline(future, has_limit)) ready = future;
            *out_due_ns = earlier(*out_due_ns, due_inline_ns(future));
            progress->elsewhere += future->job->due_ns != 0;
            continue;
        }
        progress->done++;
        progress->hits += future->level != HN_HIT_NONE || future->job->found != HN_HIT_NONE;
        progress->failed += future->is_cancelled || future->job->code != HN_OK;
    }
    progress->waiting_for = first ? first->name : NULL;
    *out_ready = running < inline_limit(scope->core) ? ready : NULL;
    return first;
}

/* With the lock held. The first failure, and how many more there are. */
static hn_status scope_outcome(const hn_scope *scope, uint32_t failed) {
    for (uint32_t i = 0; failed && i < scope->count; i++) {
        hn_status status = outcome_of(scope->futures[i]);
        if (!status) continue;
        if (failed == 1) return status;
        return hn_status_annotate(status, "%u of %u kernels failed, the first one", failed,
                                  scope->count);
    }
    return NULL;
}

/* Tells about progress without the lock. False: the caller wants to stop. */
static bool report_progress(hn_core *core, hn_scope_progress_fn report, void *context,
                            const hn_scope_progress *progress) {
    if (!report) return true;
    hn_unlock(&core->lock);
    bool go_on = report(context, progress);
    hn_lock(&core->lock);
    return go_on;
}

hn_status hn_scope_wait(hn_scope *scope, hn_scope_progress_fn progress, void *context) {
    hn_core *core = scope->core;
    if (is_from_before_fork(core)) return fork_error();
    int64_t start_ns = hn_now_ns();
    hn_scope_progress now = {.total = 0};
    int64_t due_ns;
    hn_lock(&core->lock);
    for (;;) {
        hn_future *ready, *next = count_progress(scope, progress != NULL, &now, &ready, &due_ns);
        now.elapsed_ns = hn_now_ns() - start_ns;
        if (!report_progress(core, progress, context, &now)) {
            for (uint32_t i = 0; i < scope->count; i++) cancel_future(scope->futures[i]);
            progress = NULL; /* it is not asked again */
            continue;
        }
        if (!next) break;
        /* They may have been settled while the lock was not held. */
        if (is_settled(next) || (ready && run_if_inline(ready, progress != NULL))) continue;
        due_ns = earlier(due_ns, report_slow(core));
        if (is_settled(next)) continue;
        wait_change(next,
                    earlier(due_ns, progress ? hn_now_ns() + PROGRESS_EVERY_MS * 1000000LL : 0));
    }
    for (uint32_t i = 0; i < scope->count; i++) wait_published(scope->futures[i]);
    hn_status status = scope_outcome(scope, now.failed);
    hn_unlock(&core->lock);
    return status;
}
