/* watch.c: see watch.h. */
#include "service/watch.h"

#include "base/lock.h"
#include "base/process_tree.h"
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
struct hn_watch {
    pthread_mutex_t lock;
    int timer_fd;
    int messages_fd, socket_fd;
    uint32_t limit;   /* 0: no job */
    int64_t begin_ns; /* of the job: tells one from the next */
};

/* How long to wait for the next count: twice as long as before, but a millisecond when they are many already. A fork bomb
 * is easy to end while it is small. */
static int32_t next_step_ms(int32_t last_ms, uint32_t count, uint32_t limit) {
    if (count > limit / 4) return 1;
    return last_ms * 2 < LONGEST_MS ? last_ms * 2 : LONGEST_MS;
}

static void set_timer(const hn_watch *w, int32_t ms) {
    const struct itimerspec due = {.it_value = {.tv_nsec = ms * 1000000L}};
    timerfd_settime(w->timer_fd, 0, &due, NULL);
}

/* With the lock held, so that the worker cannot report a tool that was killed before it ends, and sends nothing else meanwhile.
 * All of a namespace but this process get the signal at one stroke: none starts another. Then the end of this one needs no more than
 * its turn. Without a namespace this process must stay until the pool, which stops the whole group at one stroke, has found all
 * below it. */
static void end_all(const hn_watch *w) {
    const hn_frame_header message = {.magic = HN_FRAME_MAGIC, .kind = HN_FRAME_OVERGROWN};
    bool is_isolated = getpid() == 1;
    if (is_isolated) kill(-1, SIGKILL);
    if (send(w->socket_fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) kill(getpid(), SIGTERM); /* the pool is gone */
    if (is_isolated) _exit(0);
    for (;;) pause();
}

/* A look at the processes of the job that runs, if one does, and the time of the next look. */
static void look(hn_watch *w, int64_t *last_ns, int32_t *step_ms) {
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
        if (count > limit + OWN_PROCESSES) end_all(w);
        set_timer(w, *step_ms);
    }
    hn_unlock(&w->lock);
}

static void *watch_main(void *argument) {
    hn_watch *w = argument;
    uint64_t number;
    int64_t last_ns = 0;
    int32_t step_ms = FIRST_MS;
    hn_process_tree_watcher();
    for (;;)
        if (read(w->timer_fd, &number, sizeof(number)) == sizeof(number)) look(w, &last_ns, &step_ms);
    return NULL;
}

static bool start_thread(hn_watch *w) {
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr)) return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = !pthread_attr_setstacksize(&attr, STACK_BYTES) && !pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) &&
              !pthread_create(&thread, &attr, watch_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return ok;
}

hn_watch *hn_watch_start(int messages_fd, int socket_fd) {
    hn_watch *w = calloc(1, sizeof(*w));
    if (!w) return NULL;
    w->messages_fd = messages_fd;
    w->socket_fd = socket_fd;
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (w->timer_fd >= 0 && !pthread_mutex_init(&w->lock, NULL) && start_thread(w)) return w;
    if (w->timer_fd >= 0) close(w->timer_fd);
    free(w);
    return NULL;
}

void hn_watch_set(hn_watch *watch, uint32_t limit) {
    if (!watch) return;
    hn_lock(&watch->lock);
    watch->limit = limit;
    watch->begin_ns = hn_now_ns();
    if (limit) set_timer(watch, FIRST_MS);
    hn_unlock(&watch->lock);
}
