/* inline.c: a job in the thread that waits for it: with one thread, without workers, and until the first worker is ready.
 *
 * Such a thread cannot look at anything else meanwhile. If every future of the job is cancelled, by other threads, the
 * compiler is killed, so that a wait ends with its cancellation as it does when a worker has the job. What compiles in this
 * process (NVRTC) goes on to its end.
 *
 * If this process is killed its compilers end with it, and all that they started: each is the first process of a namespace, or
 * below a guard (guard.c). */
#include "service/core.h"

#include "base/log.h"
#include "service/scratch.h"

#include <errno.h>
#include <fcntl.h>
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

void hn_core_cancel_inline(hn_core *core, hn_job *job) {
    const uint64_t one = 1;
    if (!job->cancel_fd) return;
    if (write(job->cancel_fd, &one, sizeof(one)) < 0 && errno != EAGAIN) hn_log("service", HN_LOG_DEBUG, "cannot end a job");
    hn_core_forget(core, job); /* who asks for the same now is not to have a job that is being killed */
}

/* The job may have been cancelled before it got here. */
static int begin(hn_core *core, hn_job *job) {
    int fd = make_cancel_fd();
    pthread_mutex_lock(&core->lock);
    job->cancel_fd = fd;
    if (!job->wanted) hn_core_cancel_inline(core, job);
    pthread_mutex_unlock(&core->lock);
    return fd;
}

static void end(hn_core *core, hn_job *job, int fd, hn_code code) {
    pthread_mutex_lock(&core->lock);
    job->cancel_fd = 0;
    core->stats.timed_out += code == HN_TIMEOUT;
    core->running_inline--;
    if (core->queue.count && core->is_pool_running) hn_pool_wake(core); /* a worker may have waited for the core */
    pthread_mutex_unlock(&core->lock);
    if (fd) close(fd);
}

void hn_core_run_inline(hn_core *core, hn_job *job) {
    char scratch[PATH_MAX];
    hn_strbuf request;
    hn_job_outcome outcome;
    hn_strbuf_init(&request);
    hn_job_outcome_init(&outcome);
    hn_scratch_name(scratch); /* by which it is found should this process be killed */
    hn_core_request(core, job, scratch, true, &request);
    const hn_job_place place = {.cancel_fd = begin(core, job), .guard = core->guard.path ? &core->guard : NULL};
    int token = hn_budget_take(core); /* or none: one job goes on in any case */
    hn_status status = hn_strbuf_status(&request);
    if (status)
        hn_job_outcome_fail(&outcome, status);
    else
        hn_job_request_run(hn_strbuf_str(&request), &place, &outcome);
    hn_budget_give(core, token);
    end(core, job, place.cancel_fd, outcome.code);
    if (hn_core_settle(core, job, &outcome)) hn_core_publish(core);
    hn_strbuf_deinit(&request);
    hn_job_outcome_deinit(&outcome);
}
