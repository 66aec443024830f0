/* watchdog.c: see watchdog.h. */
#include "service/watchdog.h"

#include "base/lock.h"
#include "base/process_tree.h"
#include "base/thread.h"
#include "base/trace.h"
#include "service/job.h"
#include "toolchain/standby.h"
#include "toolchain/tool.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    STACK_BYTES = 512 << 10,
    FIRST_MS = 3,    /* when the processes of a job are counted first */
    LONGEST_MS = 50, /* between two counts */
    OWN_PROCESSES = HN_STANDBY_TOOLS,
};

/* The thread sleeps on a timer, which a job sets as it begins: to wake the thread itself would cost
 * a small job more. After the job the timer goes off once for nothing. */
struct hn_watchdog {
    pthread_mutex_t lock;
    int timer_fd;
    int messages_fd, socket_fd;
    uint32_t limit;   /* 0: no job */
    int64_t begin_ns; /* of the job: tells one from the next */
};

/* How long to wait for the next count: twice as long as before, but a millisecond when they are
 * many already. A fork bomb is easy to end while it is small. */
static int32_t next_step_ms(int32_t last_ms, uint32_t count, uint32_t limit) {
    if (count > limit / 4) return 1;
    return last_ms * 2 < LONGEST_MS ? last_ms * 2 : LONGEST_MS;
}

static void set_timer(const hn_watchdog *w, int32_t ms) {
    const struct itimerspec due = {.it_value = {.tv_nsec = ms * 1000000L}};
    timerfd_settime(w->timer_fd, 0, &due, NULL);
}

/* With the lock held, so that the worker sends nothing else meanwhile, such as the result of a tool
 * that was killed here. In a namespace one call signals all processes but this one, so that none
 * can start another; then this one ends, and the namespace with it. Without a namespace this
 * process must stay until the pool, which stops the whole group with one call, has found all below
 * it. */
static void end_job_processes(const hn_watchdog *w) {
    const hn_frame_header message = {.magic = HN_FRAME_MAGIC, .kind = HN_FRAME_TOO_MANY_PROCESSES};
    bool is_isolated = getpid() == 1;
    if (is_isolated) kill(-1, SIGKILL);
    /* the pool is gone */
    if (send(w->socket_fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        kill(getpid(), SIGTERM);
    if (is_isolated) _exit(0);
    for (;;) pause();
}

/* Counts the processes of the running job, if there is one, and sets the time of the next count. */
static void count_processes(hn_watchdog *w, int64_t *last_ns, int32_t *step_ms) {
    hn_lock(&w->lock);
    uint32_t limit = w->limit;
    int64_t begin_ns = w->begin_ns;
    hn_unlock(&w->lock);
    if (!limit) return;
    if (begin_ns != *last_ns) *step_ms = FIRST_MS;
    *last_ns = begin_ns;
    uint32_t count = hn_process_tree_count(getpid(), limit + OWN_PROCESSES + 1);
    hn_tool_messages_trim(w->messages_fd);
    *step_ms = next_step_ms(*step_ms, count, limit);
    hn_lock(&w->lock);
    if (w->limit && w->begin_ns == begin_ns) {
        if (count > limit + OWN_PROCESSES) end_job_processes(w);
        set_timer(w, *step_ms);
    }
    hn_unlock(&w->lock);
}

static void *watchdog_main(void *argument) {
    hn_watchdog *w = argument;
    uint64_t number;
    int64_t last_ns = 0;
    int32_t step_ms = FIRST_MS;
    hn_process_tree_watcher();
    for (;;)
        if (read(w->timer_fd, &number, sizeof(number)) == sizeof(number))
            count_processes(w, &last_ns, &step_ms);
    return NULL;
}

static bool start_thread(hn_watchdog *w) {
    pthread_t thread;
    pthread_attr_t attr;
    if (pthread_attr_init(&attr)) return false;
    bool ok = !pthread_attr_setstacksize(&attr, STACK_BYTES) &&
              !pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) &&
              !hn_thread_start(&thread, &attr, watchdog_main, w);
    pthread_attr_destroy(&attr);
    return ok;
}

hn_watchdog *hn_watchdog_start(int messages_fd, int socket_fd) {
    hn_watchdog *w = calloc(1, sizeof(*w));
    if (!w) return NULL;
    w->messages_fd = messages_fd;
    w->socket_fd = socket_fd;
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (w->timer_fd >= 0 && !pthread_mutex_init(&w->lock, NULL) && start_thread(w)) return w;
    if (w->timer_fd >= 0) close(w->timer_fd);
    free(w);
    return NULL;
}

void hn_watchdog_set_limit(hn_watchdog *watchdog, uint32_t limit) {
    if (!watchdog) return;
    hn_lock(&watchdog->lock);
    watchdog->limit = limit;
    watchdog->begin_ns = hn_now_ns();
    if (limit) set_timer(watchdog, FIRST_MS);
    hn_unlock(&watchdog->lock);
}
