/* report.c: what a service tells of single jobs: of those that take long while they run, and how
 * long each has taken afterwards. Neither may disturb a result: the former goes to the log, without
 * the lock; the latter to the statistics and, on request, to a file. */
#include "service/core.h"

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/trace.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- jobs that take long ---- */

void hn_core_expect_slow(hn_core *core, hn_job *job) {
    if (!core->service->slow_job_ns) return;
    job->report_ns = job->submitted_ns + core->service->slow_job_ns;
    if (!core->slow_due_ns) core->slow_due_ns = job->report_ns; /* those before are due before */
}

static void describe(const hn_core *core, const hn_job *job, int64_t now_ns, hn_strbuf *out) {
    hn_strbuf_printf(out, "kernel '%s' was asked for %.1f s ago: ", job->name,
                     (double)(now_ns - job->submitted_ns) / 1e9);
    if (job->state == HN_JOB_QUEUED)
        hn_strbuf_puts(out, job->due_ns ? "another process compiles it" : "queued");
    else if (job->worker)
        hn_strbuf_printf(out, "compiling in worker %d for %.1f s",
                         (int)core->worker_pids[job->worker - 1],
                         (double)(now_ns - job->started_ns) / 1e9);
    else
        hn_strbuf_printf(out, "compiling in this process for %.1f s",
                         (double)(now_ns - job->started_ns) / 1e9);
    hn_strbuf_append(out, "", 1);
}

/* With the lock held: a text for each job whose time has come, and when the next one is due. */
static void collect_slow(hn_core *core, int64_t now_ns, hn_strbuf *out) {
    core->slow_due_ns = 0;
    for (uint32_t i = 0; i < core->bucket_count; i++) {
        for (hn_job *job = core->buckets[i]; job; job = job->hash_next) {
            if (job->state == HN_JOB_DONE || !job->report_ns) continue;
            if (job->report_ns <= now_ns) {
                describe(core, job, now_ns, out);
                job->report_ns = now_ns + core->service->slow_job_ns;
            }
            if (!core->slow_due_ns || job->report_ns < core->slow_due_ns)
                core->slow_due_ns = job->report_ns;
        }
    }
}

void hn_core_report_slow(hn_core *core) {
    hn_strbuf lines;
    hn_strbuf_init(&lines);
    hn_lock(&core->lock);
    int64_t now_ns = hn_now_ns();
    if (core->slow_due_ns && core->slow_due_ns <= now_ns) collect_slow(core, now_ns, &lines);
    hn_unlock(&core->lock);
    for (size_t at = 0; !lines.failed && at < lines.len; at += strlen(lines.ptr + at) + 1)
        hn_log("service", HN_LOG_WARN, "%s", lines.ptr + at);
    hn_strbuf_deinit(&lines);
}

/* ---- how long jobs took ---- */

struct hn_job_time {
    char *name;
    const char *language;
    hn_digest key;
    int64_t ns;
};

static void note_slowest(hn_service_stats *stats, const char *name, int64_t ns) {
    uint32_t at = stats->slowest_count;
    if (at == HN_SERVICE_SLOWEST && stats->slowest[at - 1].ns >= ns) return;
    if (at < HN_SERVICE_SLOWEST) stats->slowest_count++;
    if (at == HN_SERVICE_SLOWEST) at--;
    for (; at && stats->slowest[at - 1].ns < ns; at--) stats->slowest[at] = stats->slowest[at - 1];
    snprintf(stats->slowest[at].kernel, sizeof(stats->slowest[at].kernel), "%s", name);
    stats->slowest[at].ns = ns;
}

void hn_core_note_time(hn_core *core, const hn_job *job, int64_t ns) {
    note_slowest(&core->stats, job->name, ns);
    if (!core->service->compile_times_path) return;
    if (core->time_count == core->time_cap) {
        uint32_t cap = core->time_cap ? core->time_cap * 2 : 64;
        hn_job_time *times = realloc(core->times, cap * sizeof(*times));
        if (!times) return;
        core->times = times;
        core->time_cap = cap;
    }
    char *name = strdup(job->name);
    if (name)
        core->times[core->time_count++] =
            (hn_job_time){.name = name, .language = job->row->language, .key = job->key, .ns = ns};
}

void hn_core_forget_times(hn_core *core) {
    for (uint32_t i = 0; i < core->time_count; i++) free(core->times[i].name);
    free(core->times);
}

/* Equal names in the order of their keys, so that two runs give the same list. */
static int by_name(const void *a, const void *b) {
    const hn_job_time *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : memcmp(&x->key, &y->key, sizeof(x->key));
}

/* With the lock held. */
static void print_times(hn_core *core, hn_strbuf *out) {
    if (core->time_count) qsort(core->times, core->time_count, sizeof(*core->times), by_name);
    hn_strbuf_puts(out, "{\"kernels\": [");
    for (uint32_t i = 0; i < core->time_count; i++) {
        const hn_job_time *t = &core->times[i];
        char hex[HN_DIGEST_HEX_BYTES];
        hn_digest_hex(&t->key, hex);
        hn_strbuf_puts(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        hn_strbuf_json(out, hn_str_of(t->name));
        hn_strbuf_puts(out, ", \"language\": ");
        hn_strbuf_json(out, hn_str_of(t->language));
        hn_strbuf_printf(out, ", \"compile_ns\": %lld, \"key\": \"%s\"}", (long long)t->ns, hex);
    }
    hn_strbuf_puts(out, "\n]}\n");
}

void hn_core_write_times(hn_core *core) {
    const char *path = core->service->compile_times_path;
    if (!path) return;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_lock(&core->lock);
    print_times(core, &text);
    hn_unlock(&core->lock);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = hn_file_write_atomic(path, text.ptr, text.len, false);
    if (status)
        hn_warn_once("service", "compile-times", "compile times are lost: %s",
                     hn_status_message(status));
    hn_status_free(status);
    hn_strbuf_deinit(&text);
}
