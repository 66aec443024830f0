/* core.c: the table of jobs, the queue, and what happens when a job ends. */
#include "service/core.h"

#include "cache/record.h"
#include "base/lock.h"
#include "base/trace.h"
#include "toolchain/headers.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    FIRST_BUCKETS = 256,
    FIRST_NS_PER_BYTE = 20000, /* a small kernel of C: 1 KB in 20 ms */
};

/* ---- jobs ---- */

hn_job *hn_job_create(const hn_digest *key, const hn_toolchain_row *row, const char *name) {
    hn_job *job = calloc(1, sizeof(*job));
    char *copy = strdup(name);
    if (!job || !copy) {
        free(job);
        free(copy);
        return NULL;
    }
    job->key = *key;
    job->row = row;
    job->name = copy;
    job->refs = 1;
    job->submitted_ns = hn_now_ns();
    hn_strbuf_init(&job->key_record);
    hn_strbuf_init(&job->headers);
    return job;
}

void hn_job_release(hn_job *job) {
    if (--job->refs) return;
    hn_artifact_release(job->artifact);
    hn_strbuf_deinit(&job->key_record);
    hn_strbuf_deinit(&job->headers);
    free(job->message);
    free(job->name);
    free(job);
}

static void list_add(hn_job_list *list, hn_job *job, bool at_front) {
    job->prev = at_front ? NULL : list->last;
    job->next = at_front ? list->first : NULL;
    *(job->prev ? &job->prev->next : &list->first) = job;
    *(job->next ? &job->next->prev : &list->last) = job;
    list->count++;
}

static void list_remove(hn_job_list *list, hn_job *job) {
    *(job->prev ? &job->prev->next : &list->first) = job->next;
    *(job->next ? &job->next->prev : &list->last) = job->prev;
    job->prev = job->next = NULL;
    list->count--;
}

/* ---- the table ---- */

/* A digest is its own hash. */
static hn_job **bucket_of(const hn_core *core, const hn_digest *key) {
    uint32_t hash;
    memcpy(&hash, key->bytes, sizeof(hash));
    return &core->buckets[hash & (core->bucket_count - 1)];
}

hn_job *hn_core_find(hn_core *core, const hn_digest *key) {
    hn_job *job = *bucket_of(core, key);
    while (job && memcmp(&job->key, key, sizeof(*key)) != 0) job = job->hash_next;
    return job;
}

static hn_status grow_table(hn_core *core) {
    uint32_t old_count = core->bucket_count, count = old_count ? old_count * 2 : FIRST_BUCKETS;
    hn_job **old = core->buckets, **buckets = calloc(count, sizeof(*buckets));
    if (!buckets) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the table of compile jobs");
    core->buckets = buckets;
    core->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++) {
        for (hn_job *job = old[i], *next; job; job = next) {
            next = job->hash_next;
            hn_job **bucket = bucket_of(core, &job->key);
            job->hash_next = *bucket;
            *bucket = job;
        }
    }
    free(old);
    return NULL;
}

hn_status hn_core_insert(hn_core *core, hn_job *job) {
    if (core->job_count >= core->bucket_count) HN_TRY(grow_table(core));
    hn_job **bucket = bucket_of(core, &job->key);
    job->hash_next = *bucket;
    *bucket = job;
    job->is_in_table = true;
    job->refs++;
    core->job_count++;
    return NULL;
}

void hn_core_forget(hn_core *core, hn_job *job) {
    if (!job->is_in_table) return;
    hn_job **at = bucket_of(core, &job->key);
    while (*at != job) at = &(*at)->hash_next;
    *at = job->hash_next;
    job->is_in_table = false;
    core->job_count--;
    hn_job_release(job);
}

static size_t job_bytes(const hn_job *job) {
    size_t len = 0;
    if (job->artifact) hn_artifact_bytes(job->artifact, &len);
    return len + sizeof(*job) + job->headers.len + (job->message ? strlen(job->message) : 0);
}

/* The memory level: the oldest results go when there are too many bytes of them. */
void hn_core_keep_done(hn_core *core, hn_job *job) {
    list_add(&core->done, job, false);
    core->done_bytes += job_bytes(job);
    while (core->done_bytes > HN_MEMORY_LEVEL_BYTES && core->done.first != job) {
        hn_job *oldest = core->done.first;
        list_remove(&core->done, oldest);
        core->done_bytes -= job_bytes(oldest);
        hn_core_forget(core, oldest);
    }
}

void hn_core_drop_done(hn_core *core, hn_job *job) {
    if (!job->is_in_table) return;
    list_remove(&core->done, job);
    core->done_bytes -= job_bytes(job);
    hn_core_forget(core, job);
}

/* ---- the queue ---- */

void hn_core_enqueue(hn_core *core, hn_job *job, bool at_front) {
    job->state = HN_JOB_QUEUED;
    list_add(&core->queue, job, at_front);
    core->parked += job->due_ns != 0;
    if (core->queue.count > core->stats.depth_max) core->stats.depth_max = core->queue.count;
}

void hn_core_dequeue(hn_core *core, hn_job *job) {
    list_remove(&core->queue, job);
    core->parked -= job->due_ns != 0;
}

void hn_core_note_end(hn_core *core) {
    core->running--;
    if (core->quiescing) hn_pool_wake(core);
}

bool hn_core_is_at_rest(const hn_core *core) {
    for (int i = 0; i < HN_WORKERS_MAX; i++)
        if (core->worker_pids[i]) return false;
    return !core->running && !core->running_inline && !core->storing &&
           (core->is_inline || !core->queue.count);
}

void hn_core_return(hn_core *core, hn_job *job, bool at_front) {
    core->stats.dequeued--;
    hn_core_note_end(core);
    if (job->wanted) {
        hn_core_enqueue(core, job, at_front);
    } else {
        hn_core_forget(core, job);
        job->state = HN_JOB_DONE;
        core->stats.cancelled++;
    }
    /* Without workers, any thread that waits may be the one that takes it. */
    if (core->is_inline) pthread_cond_broadcast(&core->changed);
    hn_job_release(job);
}

void hn_core_start(hn_core *core, hn_job *job) {
    hn_core_dequeue(core, job);
    job->state = HN_JOB_RUNNING;
    core->running++;
    job->refs++;
    job->started_ns = hn_now_ns();
    core->stats.dequeued++;
    /* its wait in our own queue was counted when it left it first */
    if (job->due_ns || job->retries) return;
    hn_trace_span_free((uint64_t)(uintptr_t)job, "queued", job->name, job->submitted_ns,
                       job->started_ns);
    core->waits[core->wait_count++ % HN_WAIT_SAMPLES] = job->started_ns - job->submitted_ns;
    int64_t wait_ns = job->started_ns - job->submitted_ns;
    if (wait_ns > core->stats.wait_longest_ns) core->stats.wait_longest_ns = wait_ns;
}

void hn_core_note_duration(hn_core *core, const hn_job *job, int64_t ns) {
    uint32_t idx = hn_toolchain_row_index(job->row);
    if (idx >= HN_SERVICE_LANGUAGES || idx >= HN_TOOLCHAIN_ROWS) return;
    core->stats.service_time[idx].count++;
    core->stats.service_time[idx].total_ns += ns;
    if (ns > core->stats.service_time[idx].longest_ns)
        core->stats.service_time[idx].longest_ns = ns;
    core->record_bytes[idx] += (int64_t)job->key_record.len;
}

/* The size of its record times the time for a byte of its language so far: a byte of C++ takes
 * several times what a byte of C takes. The longest one starts first, since everybody would wait
 * for it if it started last. */
static double expected_ns(const hn_core *core, const hn_job *job) {
    uint32_t idx = hn_toolchain_row_index(job->row);
    double ns_per_byte = FIRST_NS_PER_BYTE;
    if (idx < HN_SERVICE_LANGUAGES && idx < HN_TOOLCHAIN_ROWS && core->record_bytes[idx])
        ns_per_byte =
            (double)core->stats.service_time[idx].total_ns / (double)core->record_bytes[idx];
    return ns_per_byte * (double)job->key_record.len;
}

hn_job *hn_core_start_next(hn_core *core, bool parked_only) {
    hn_job *best = NULL;
    int64_t now_ns = hn_now_ns();
    double longest_ns = -1;
    if (parked_only && !core->parked) return NULL;
    for (hn_job *job = core->queue.first; job; job = job->next) {
        if (job->due_ns > now_ns || (parked_only && !job->due_ns)) continue;
        double ns = expected_ns(core, job);
        if (ns > longest_ns) best = job, longest_ns = ns;
    }
    if (best) hn_core_start(core, best);
    return best;
}

/* ---- the end of a job ---- */

static void set_failure(hn_job *job, const hn_job_outcome *outcome) {
    job->code = outcome->code;
    job->is_sure_to_fail = outcome->is_deterministic;
    job->message = strdup(hn_strbuf_str(&outcome->message).ptr);
    if (!job->message) job->code = HN_OUT_OF_MEMORY;
}

/* Whether the result may be used again: what was read is known, and a failure is certain to
 * repeat. */
static bool is_lasting(const hn_job *job) {
    if (job->code != HN_OK) return job->is_sure_to_fail && job->reads == HN_READS_NOTHING;
    return job->reads == HN_READS_NOTHING || (job->reads == HN_READS_HEADERS && job->headers.len);
}

/* Counts results that are not kept for a reason known beforehand. The store counts what the disk
 * refuses. */
static void count_bypass(hn_core *core, const hn_job *job) {
    if (job->code != HN_OK) return;
    hn_cache_bypass disk = hn_store_bypass(core->service->store);
    bool has_remote = core->cache.remote && !job->headers.len;
    if (disk != HN_BYPASS_OFF && !is_lasting(job)) disk = HN_BYPASS_UNCOVERED;
    else if (has_remote) disk = HN_BYPASS_NONE;
    core->stats.bypasses[disk]++;
}

/* Whether anything is left to do for a job after its waiters have been told. */
static bool is_to_be_published(const hn_core *core, const hn_job *job) {
    return job->lease || core->cache.remote || hn_store_dir(core->service->store)[0];
}

/* With the lock held. */
static void settle(hn_core *core, hn_job *job, hn_job_outcome *outcome) {
    if (outcome->is_unlisted) job->reads = HN_READS_FILES;
    if (outcome->code == HN_OK) {
        job->headers = outcome->headers;
        hn_strbuf_init(&outcome->headers);
        job->artifact = hn_artifact_from_bytes(&job->key, job->row, &outcome->bytes);
        if (!job->artifact)
            hn_job_outcome_fail(outcome, HN_ERROR(HN_OUT_OF_MEMORY, "no memory for compiled code"));
    }
    if (outcome->code != HN_OK) set_failure(job, outcome);
    job->made_ns = outcome->service_ns;
    count_bypass(core, job);
    job->state = HN_JOB_DONE;
    hn_core_note_end(core);
    if (job->is_sure_to_fail) job->expires_s = time(NULL) + HN_FAILURE_LIFETIME_S;
    if (outcome->code == HN_CANCELLED) { /* how long it took means nothing */
        core->stats.abandoned++;
    } else {
        hn_core_note_duration(core, job, outcome->service_ns);
        hn_core_note_time(core, job, outcome->service_ns);
        *(outcome->code == HN_OK ? &core->stats.compiled : &core->stats.failed) += 1;
    }
    /* Other results go to those who wait, and are then forgotten. */
    if (job->is_in_table && is_lasting(job)) hn_core_keep_done(core, job);
    else hn_core_forget(core, job);
    pthread_cond_broadcast(&core->changed);
}

bool hn_core_settle(hn_core *core, hn_job *job, hn_job_outcome *outcome) {
    if (job->worker)
        hn_trace_span_worker((uint32_t)job->worker, "compile", job->name, job->started_ns,
                             hn_now_ns());
    else hn_trace_span("compile", job->name, job->started_ns, hn_now_ns());
    hn_lock(&core->lock);
    settle(core, job, outcome);
    bool is_left = is_to_be_published(core, job);
    if (is_left) {
        job->unpublished_next = core->unpublished;
        core->unpublished = job;
        core->storing++;
    } else {
        hn_strbuf_deinit(&job->key_record);
        hn_strbuf_init(&job->key_record);
        hn_job_release(job);
    }
    hn_unlock(&core->lock);
    return is_left;
}

/* ---- publishing ---- */

static void store_failure(hn_core *core, const hn_job *job) {
    hn_store *store = core->service->store;
    hn_str text, key_record = hn_strbuf_str(&job->key_record);
    if (hn_record_find(key_record, "text", &text))
        hn_store_put_failed_source(store, &job->key, job->row->suffixes[0], text.ptr, text.len);
    if (!is_lasting(job) || !job->message) return;
    hn_strbuf payload;
    hn_job_outcome outcome;
    hn_strbuf_init(&payload);
    hn_job_outcome_init(&outcome);
    outcome.code = job->code;
    outcome.is_deterministic = true;
    hn_strbuf_puts(&outcome.message, job->message);
    hn_job_outcome_write(&outcome, &payload);
    if (!payload.failed && !outcome.message.failed)
        hn_cache_put(&core->cache, &(hn_store_put_args){.ns = HN_STORE_KERNEL,
                                                        .key = &job->key,
                                                        .bytes = payload.ptr,
                                                        .len = payload.len,
                                                        .record = key_record,
                                                        .is_failure = true,
                                                        .made_ns = job->made_ns,
                                                        .lifetime_s = HN_FAILURE_LIFETIME_S});
    hn_job_outcome_deinit(&outcome);
    hn_strbuf_deinit(&payload);
}

/* The list of headers is stored last, so that whoever finds it finds the result. It describes files
 * of this machine, so such a result stays on the machine. */
static void store_result(hn_core *core, const hn_job *job) {
    size_t len;
    hn_store *store = core->service->store;
    const void *bytes = hn_artifact_bytes(job->artifact, &len);
    hn_str headers = hn_strbuf_str(&job->headers);
    hn_digest key = headers.len ? hn_headers_key(&job->key, headers) : job->key,
              list_key = hn_headers_list_key(&job->key);
    const hn_store_put_args result = {.ns = HN_STORE_KERNEL,
                                      .key = &key,
                                      .bytes = bytes,
                                      .len = len,
                                      .record = hn_strbuf_str(&job->key_record),
                                      .made_ns = job->made_ns};
    if (!headers.len) {
        hn_cache_put(&core->cache, &result);
        return;
    }
    if (!hn_store_put(store, &result)) return;
    hn_store_put(store, &(hn_store_put_args){.ns = HN_STORE_TOOLCHAIN,
                                             .key = &list_key,
                                             .bytes = headers.ptr,
                                             .len = headers.len});
}

/* A job that is done does not change, so this needs no lock. */
static void publish(hn_core *core, hn_job *job) {
    int64_t begin_ns = hn_now_ns();
    if (job->code == HN_OK && is_lasting(job)) store_result(core, job);
    else if (job->code != HN_OK && job->code != HN_CANCELLED) store_failure(core, job);
    hn_trace_span("publish", job->name, begin_ns, hn_now_ns());
    hn_core_release_lease(core, job); /* now that others can find the result */
}

void hn_core_publish(hn_core *core) {
    hn_lock(&core->lock);
    for (hn_job *job; (job = core->unpublished);) {
        core->unpublished = job->unpublished_next;
        hn_unlock(&core->lock);
        publish(core, job);
        hn_lock(&core->lock);
        hn_strbuf_deinit(&job->key_record);
        hn_strbuf_init(&job->key_record);
        core->storing--;
        pthread_cond_broadcast(&core->changed);
        hn_job_release(job);
    }
    hn_unlock(&core->lock);
}

void hn_core_request(hn_core *core, const hn_job *job, const char *scratch_dir, int worker,
                     hn_strbuf *out) {
    char path[PATH_MAX + 128], pch[PATH_MAX + 16] = "";
    bool is_here = worker < 0;
    const hn_service *service = core->service;
    const char *cache_dir = hn_store_dir(service->store);
    hn_job_failed_path(core, job, path, sizeof(path));
    if (cache_dir[0]) snprintf(pch, sizeof(pch), "%s/" HN_STORE_PCH, cache_dir);
    const hn_job_limits limits = {
        .source_path = hn_str_of(path),
        .scratch_dir = hn_str_of(scratch_dir),
        .pch_dir = hn_str_of(pch),
        /* the pool kills a late worker itself */
        .timeout_ms = is_here ? service->job_timeout_ms : 0,
        .memory_bytes = service->job_memory_bytes,
        .cpu_seconds =
            service->job_timeout_ms > 0 ? (uint64_t)service->job_timeout_ms / 1000 + 2 : 0,
        .processes = is_here ? 0 : service->job_processes,
        .own_group = is_here,
        .no_standby = service->no_standby,
        .log_pid = service->worker_log_fd < 0 ? 0
                   : is_here                  ? getpid()
                                              : core->worker_pids[worker],
    };
    const hn_toolchain *toolchain = &core->toolchains[hn_toolchain_row_index(job->row)];
    hn_job_request_write(hn_strbuf_str(&job->key_record), hn_strbuf_str(&toolchain->record),
                         &limits, out);
}

/* ---- the core itself ---- */

static hn_status init_locks(hn_core *core) {
    pthread_condattr_t attr;
    if (pthread_mutex_init(&core->lock, NULL) || pthread_mutex_init(&core->probe_lock, NULL) ||
        pthread_condattr_init(&attr))
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for locks");
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&core->changed, &attr);
    pthread_condattr_destroy(&attr);
    return rc ? HN_ERROR(HN_OUT_OF_MEMORY, "no memory for locks") : NULL;
}

hn_status hn_core_create(hn_service *service, hn_core **out_core) {
    hn_core *core = calloc(1, sizeof(*core));
    if (!core) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a compile service");
    core->service = service;
    core->pid = getpid();
    core->budget_fd = -1;
    core->is_inline = service->threads <= 1 || !service->worker_path[0];
    if (service->worker_path[0]) core->guard.path = service->worker_path;
    for (int i = 0; i < HN_WORKERS_MAX; i++) core->worker_fds[i] = -1;
    for (int i = 0; i < HN_POOL_FDS; i++) core->pool_fds[i] = -1;
    hn_status status = init_locks(core);
    if (!status) status = grow_table(core);
    if (!status) status = hn_cache_init(service->store, service->remote_url, &core->cache);
    if (status) {
        free(core->buckets);
        free(core);
        return status;
    }
    *out_core = core;
    return NULL;
}

void hn_core_destroy(hn_core *core) {
    for (uint32_t i = 0; i < core->bucket_count; i++)
        while (core->buckets[i]) hn_core_forget(core, core->buckets[i]);
    for (int i = 0; i < HN_TOOLCHAIN_ROWS; i++)
        if (core->is_probed[i]) hn_toolchain_deinit(&core->toolchains[i]);
    hn_core_forget_times(core);
    hn_cache_deinit(&core->cache);
    if (core->budget_fd >= 0) close(core->budget_fd);
    pthread_cond_destroy(&core->changed);
    pthread_mutex_destroy(&core->probe_lock);
    pthread_mutex_destroy(&core->lock);
    free(core->buckets);
    free(core);
}

hn_status hn_core_toolchain(hn_core *core, const hn_toolchain_row *row, const hn_toolchain **out) {
    uint32_t idx = hn_toolchain_row_index(row);
    hn_status status = NULL;
    hn_lock(&core->probe_lock);
    if (!core->is_probed[idx]) {
        status = hn_toolchain_probe(row, core->service->store, &core->toolchains[idx]);
        core->is_probed[idx] = !status;
    }
    hn_unlock(&core->probe_lock);
    *out = &core->toolchains[idx];
    return status;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void store_stats(const hn_core *core, hn_service_stats *out) {
    hn_store_stats s;
    hn_store_stats_get(core->service->store, &s);
    out->bypasses[HN_BYPASS_NONE] = 0;
    for (int k = HN_BYPASS_NONE + 1; k < HN_BYPASS_COUNT; k++) out->bypasses[k] += s.bypasses[k];
}

static void remote_stats(const hn_core *core, hn_service_stats *out) {
    hn_remote_stats r;
    out->remote.is_on = core->cache.remote != NULL;
    if (!core->cache.remote) return;
    hn_remote_stats_get(core->cache.remote, &r);
    out->remote.hits = r.hits;
    out->remote.misses = r.misses;
    out->remote.puts = r.puts;
    out->remote.damaged = r.damaged;
    out->remote.too_large = r.too_large;
    out->remote.refused = r.refused;
    out->remote.failures = r.failures;
    out->remote.skipped = r.skipped;
    out->remote.received_bytes = r.received_bytes;
    out->remote.sent_bytes = r.sent_bytes;
    out->remote.total_ns = r.total_ns;
    out->remote.longest_ns = r.longest_ns;
}

/* P50 is element n/2 of the sorted waits, P95 element 95n/100 once there are 20: as Inductor counts
 * them. */
void hn_core_stats(hn_core *core, hn_service_stats *out) {
    int64_t *waits = malloc(sizeof(core->waits));
    hn_lock(&core->lock);
    *out = core->stats;
    out->depth_now = core->queue.count;
    out->workers_ready = core->workers_ready;
    size_t count = core->wait_count < HN_WAIT_SAMPLES ? (size_t)core->wait_count : HN_WAIT_SAMPLES;
    if (waits) memcpy(waits, core->waits, count * sizeof(*waits));
    for (int i = 0; i < HN_WORKERS_MAX; i++) out->workers_now += core->worker_pids[i] != 0;
    hn_unlock(&core->lock);
    if (waits && count) {
        qsort(waits, count, sizeof(*waits), by_value);
        out->wait_p50_ns = waits[count / 2];
        if (count >= 20) out->wait_p95_ns = waits[95 * count / 100];
    }
    free(waits);
    store_stats(core, out);
    remote_stats(core, out);
    out->language_count = HN_TOOLCHAIN_ROWS;
    for (uint32_t i = 0; i < HN_TOOLCHAIN_ROWS && i < HN_SERVICE_LANGUAGES; i++)
        out->service_time[i].language = hn_toolchain_row_at(i)->language;
}
