/* inline.c: a job in this process: with one thread, without workers, and until the first worker is
 * ready.
 *
 * The job has a thread of its own, so that a wait for it keeps to its limit, reports progress and
 * notices a cancellation as if a worker had the job. If no thread can be started it runs in the one
 * that waits. If every future of the job is cancelled its compiler is killed; what compiles in this
 * process (NVRTC) continues to its end.
 *
 * If this process is killed its compilers end with it, and all that they started: each is the first
 * process of a namespace, or below a guard (tool_guard.c). */
#include "service/core.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "service/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Numbered above the standard descriptors, which tools get. 0: the system gives none. */
static int make_cancel_fd(void) {
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd >= 0 && fd < 3) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        close(fd);
        fd = high;
    }
    return fd < 0 ? 0 : fd;
}

/* A job that no worker or thread has yet is checked again when one gets it. */
void hn_core_cancel_running(hn_core *core, hn_job *job) {
    const uint64_t one = 1;
    if (!job->cancel_fd && !job->worker) return;
    hn_core_forget(core, job); /* nobody else is to join a job that is being killed */
    if (job->worker) {
        core->has_unwanted = true;
        hn_pool_wake(core);
    } else if (write(job->cancel_fd, &one, sizeof(one)) < 0 && errno != EAGAIN) {
        hn_log("service", HN_LOG_DEBUG, "cannot end a job");
    }
}

/* The job may have been cancelled before it got here. */
static int begin(hn_core *core, hn_job *job) {
    int fd = make_cancel_fd();
    hn_lock(&core->lock);
    job->cancel_fd = fd;
    if (!job->wanted) hn_core_cancel_running(core, job);
    hn_unlock(&core->lock);
    return fd;
}

static void end(hn_core *core, hn_job *job, int fd, hn_code code) {
    hn_lock(&core->lock);
    job->cancel_fd = 0;
    core->stats.timed_out += code == HN_TIMEOUT;
    core->running_inline--;
    /* a worker may have waited for the core */
    if (core->queue.count && core->is_pool_running) hn_pool_wake(core);
    hn_unlock(&core->lock);
    if (fd) close(fd);
}

/* Carries a running job out in this thread. Takes the caller's reference. */
static void run_here(hn_core *core, hn_job *job) {
    char scratch[PATH_MAX];
    hn_strbuf request;
    hn_job_outcome outcome;
    hn_strbuf_init(&request);
    hn_job_outcome_init(&outcome);
    hn_scratch_name(scratch); /* by which it is found should this process be killed */
    hn_core_request(core, job, scratch, -1, &request);
    const hn_job_context context = {.cancel_fd = begin(core, job),
                                    .guard = core->guard.path ? &core->guard : NULL,
                                    .log_fd = core->service->worker_log_fd};
    int token = hn_budget_take(core); /* or none: one job goes on in any case */
    hn_status status = hn_strbuf_status(&request);
    if (status) hn_job_outcome_fail(&outcome, status);
    else hn_job_request_run(hn_strbuf_str(&request), &context, &outcome);
    hn_budget_give(core, token);
    end(core, job, context.cancel_fd, outcome.code);
    if (hn_core_settle(core, job, &outcome)) hn_core_publish(core);
    hn_strbuf_deinit(&request);
    hn_job_outcome_deinit(&outcome);
}

/* ---- threads ---- */

struct hn_inline_run {
    hn_core *core;
    hn_job *job;
    pthread_t thread;
    bool is_done; /* under the lock, its last use of the core */
    hn_inline_run *next;
};

static void run_or_park(hn_core *core, hn_job *job) {
    bool is_mine = hn_core_claim(core, job, true) == HN_CLAIM_COMPILE;
    if (is_mine) run_here(core, job);
    hn_lock(&core->lock);
    core->running_inline -= !is_mine;
    /* A job that was parked here, before the first worker was ready, is the pool's to look at
     * again. */
    if (!is_mine && core->is_pool_running) hn_pool_wake(core);
    hn_unlock(&core->lock);
}

static void *run_main(void *argument) {
    hn_inline_run *run = argument;
    hn_core *core = run->core;
    run_or_park(core, run->job);
    hn_lock(&core->lock);
    run->is_done = true;
    pthread_cond_broadcast(&core->changed);
    hn_unlock(&core->lock);
    return NULL;
}

/* With the lock held: forgets threads that have nothing left to do with the core. */
static void join_done(hn_core *core) {
    for (hn_inline_run **at = &core->inline_runs; *at;) {
        hn_inline_run *run = *at;
        if (!run->is_done) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        pthread_join(run->thread, NULL);
        free(run);
    }
}

void hn_core_run_inline(hn_core *core, hn_job *job) {
    join_done(core);
    hn_core_start(core, job);
    core->running_inline++;
    hn_inline_run *run = malloc(sizeof(*run));
    if (run) *run = (hn_inline_run){.core = core, .job = job, .next = core->inline_runs};
    if (run && !hn_thread_start(&run->thread, NULL, run_main,
                                run)) { /* it needs the lock before it is done */
        core->inline_runs = run;
        return;
    }
    free(run);
    hn_unlock(&core->lock);
    run_or_park(core, job);
    hn_lock(&core->lock);
}

void hn_core_end_inline(hn_core *core) {
    hn_lock(&core->lock);
    for (join_done(core); core->inline_runs; join_done(core))
        pthread_cond_wait(&core->changed, &core->lock);
    hn_unlock(&core->lock);
}
