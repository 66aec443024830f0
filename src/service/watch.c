/* watch.c: see watch.h. */
#include "service/watch.h"

#include "base/process_tree.h"
#include "base/trace.h"
#include "toolchain/tool.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 512 << 10 };

struct hn_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int messages_fd;
    uint32_t limit;   /* 0: no job */
    int64_t begin_ns; /* of the job: tells one from the next */
};

int32_t hn_watch_step_ms(int32_t last_ms, uint32_t count, uint32_t limit) {
    if (count > limit / 4) return 1;
    return last_ms * 2 < HN_WATCH_MS ? last_ms * 2 : HN_WATCH_MS;
}

/* Until `due_ns`, or another job begins: false. With the lock held. */
static bool sleep_until(hn_watch *w, int64_t due_ns) {
    const struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    int64_t begin_ns = w->begin_ns;
    while (w->limit && w->begin_ns == begin_ns && hn_now_ns() < due_ns) pthread_cond_timedwait(&w->changed, &w->lock, &due);
    return w->limit && w->begin_ns == begin_ns;
}

/* All of the namespace but this process get the signal at one stroke: none starts another. Then the end of this one needs
 * no more than its turn. */
static void end_all(void) {
    if (getpid() == 1) kill(-1, SIGKILL);
    _exit(HN_WATCH_OVERGROWN);
}

static void *watch_main(void *argument) {
    hn_watch *w = argument;
    hn_process_tree_watcher();
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->limit) pthread_cond_wait(&w->changed, &w->lock);
        int64_t due_ns = w->begin_ns, step_ms = HN_WATCH_FIRST_MS;
        while (sleep_until(w, due_ns += step_ms * 1000000)) {
            uint32_t limit = w->limit;
            pthread_mutex_unlock(&w->lock);
            uint32_t count = hn_process_tree_count(getpid(), limit + HN_WATCH_OWN + 1);
            if (count > limit + HN_WATCH_OWN) end_all();
            hn_tool_messages_trim(w->messages_fd);
            step_ms = hn_watch_step_ms((int32_t)step_ms, count, limit);
            pthread_mutex_lock(&w->lock);
        }
    }
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

hn_watch *hn_watch_start(int messages_fd) {
    pthread_condattr_t attr;
    hn_watch *w = calloc(1, sizeof(*w));
    if (!w || pthread_condattr_init(&attr)) {
        free(w);
        return NULL;
    }
    w->messages_fd = messages_fd;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    bool ok = !pthread_mutex_init(&w->lock, NULL) && !pthread_cond_init(&w->changed, &attr) && start_thread(w);
    pthread_condattr_destroy(&attr);
    if (ok) return w;
    free(w);
    return NULL;
}

void hn_watch_set(hn_watch *watch, uint32_t limit) {
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    watch->limit = limit;
    watch->begin_ns = hn_now_ns();
    pthread_mutex_unlock(&watch->lock);
    if (limit) pthread_cond_signal(&watch->changed);
}
