/* lease_wait.c: which process compiles a job that several want, and how the others wait for its
 * result.
 *
 * Right before a job is compiled, its lease is tried (cache/lease.h). A process that gets it looks
 * once more for a result, since the last holder may have published one, and then compiles.
 * Otherwise the job is parked: it goes back to the queue with a time for the next look (after 1 ms,
 * then twice that, at most 50 ms). A parked job holds neither a worker nor a lease, so two
 * processes that each wait for a job of the other both continue. A parked job that has waited as
 * long as a job may take is compiled without a lease: the holder may be stopped, or on a machine
 * that cannot be reached. */
#include "service/core.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/trace.h"

#include <stdlib.h>

enum {
    PARK_FIRST_NS = 1000000,
    PARK_LONGEST_NS = 50000000,
    PATIENCE_MS = 300 * 1000, /* when jobs have no time limit */
};

/* Ends a started job as `made` was, which another process made. Takes the caller's references to
 * both. */
static void finish_as(hn_core *core, hn_job *job, hn_job *made) {
    hn_lock(&core->lock);
    hn_artifact *artifact = job->artifact; /* NULL, as is the message: nothing was compiled */
    job->artifact = made->artifact;
    made->artifact = artifact;
    job->message = made->message;
    made->message = NULL;
    job->code = made->code;
    job->expires_s = made->expires_s;
    job->found = made->found;
    job->made_ns = made->made_ns;
    hn_strbuf_deinit(&job->headers);
    job->headers = made->headers;
    hn_strbuf_init(&made->headers);
    hn_strbuf_deinit(&job->key_record);
    job->due_ns = 0;
    job->state = HN_JOB_DONE;
    hn_core_note_end(core);
    /* The one future that was to be answered by a compiler. */
    core->stats.hits[HN_HIT_NONE]--;
    core->stats.hits[job->found]++;
    core->stats.failure_hits += job->code != HN_OK;
    core->stats.time_saved_ns += job->made_ns;
    if (job->is_in_table) hn_core_keep_done(core, job);
    pthread_cond_broadcast(&core->changed);
    hn_job_release(made);
    hn_unlock(&core->lock);
    hn_core_release_lease(core, job);
    hn_lock(&core->lock);
    hn_job_release(job);
    hn_unlock(&core->lock);
}

static int64_t patience_ns(const hn_core *core) {
    int64_t limit_ms = core->service->job_timeout_ms;
    return (limit_ms > 0 && limit_ms < PATIENCE_MS ? limit_ms : PATIENCE_MS) * 1000000;
}

/* With the lock held. Takes the caller's reference. */
static void park(hn_core *core, hn_job *job) {
    int64_t now_ns = hn_now_ns();
    if (!job->due_ns) {
        job->give_up_ns = now_ns + patience_ns(core);
        core->stats.waited_elsewhere++;
        hn_log("service", HN_LOG_INFO, "kernel '%s': waiting for another process", job->name);
    }
    job->park_ns = job->park_ns ? job->park_ns * 2 : PARK_FIRST_NS;
    if (job->park_ns > PARK_LONGEST_NS) job->park_ns = PARK_LONGEST_NS;
    job->due_ns = now_ns + job->park_ns;
    hn_core_return(core, job, false);
}

hn_claim_answer hn_core_claim(hn_core *core, hn_job *job, bool may_compile) {
    if (job->reads != HN_READS_NOTHING && job->reads != HN_READS_HEADERS)
        return HN_CLAIM_COMPILE; /* the result is not kept: nobody could share it */
    bool is_late = job->due_ns && hn_now_ns() >= job->give_up_ns;
    hn_lease_answer answer = HN_LEASE_THEIRS;
    if (may_compile && is_late) answer = HN_LEASE_MINE;
    else if (may_compile)
        answer = hn_lease_try(core->cache.leases, HN_STORE_KERNEL, &job->key,
                              job->reads == HN_READS_NOTHING, &job->lease);
    /* Who waits looks whether the result is there; who has just got the lease does so for the last
     * time. */
    hn_job *made = hn_core_look_up(core, &job->key, job->reads, true, job->row, job->name);
    if (made) {
        finish_as(core, job, made);
        return HN_CLAIM_FOUND;
    }
    hn_lock(&core->lock);
    if (answer == HN_LEASE_MINE) job->due_ns = 0;
    else park(core, job);
    hn_unlock(&core->lock);
    return answer == HN_LEASE_MINE ? HN_CLAIM_COMPILE : HN_CLAIM_PARKED;
}

void hn_core_release_lease(hn_core *core, hn_job *job) {
    hn_lease_release(core->cache.leases, job->lease);
    job->lease = 0;
}

int64_t hn_core_next_due_ns(const hn_core *core) {
    int64_t first = 0;
    for (const hn_job *job = core->parked ? core->queue.first : NULL; job; job = job->next)
        if (job->due_ns && (!first || job->due_ns < first)) first = job->due_ns;
    return first;
}
