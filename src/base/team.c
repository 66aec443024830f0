/* team.c: one pool of workers for all callers of the process.
 *
 * A caller has a place in a list while it works, with one word that says which tasks of its present
 * job are open. To claim one is one compare-and-swap of that word, by the caller or by a worker,
 * and who has claimed a task runs it. So a job never waits for a worker that has not come, jobs of
 * different callers do not wait for each other, and there is no queue to be kept.
 *
 * Free workers look at the places. They do so for SPIN_NS after their last task, then they sleep
 * until a caller rings. Waking costs some microseconds of the caller's, so it rings when its work
 * is long or when its calls follow each other closely.
 *
 * Where processors are busy a second thread does harm: the system stops it for milliseconds, with a
 * task that the caller waits for. A worker sees that in the difference between the time that passed
 * and the time that it ran, and rests, longer each time it happens again. A caller that was stopped
 * itself does not ring for a while. Callers need processors too: with as many callers as processors
 * workers sleep. */
#include "base/team.h"

#include "base/compiler.h"
#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PLACES = 64, /* callers at the same time; others work alone */
    MASK_TASKS = 32,
    CHECK_SPINS = 32,     /* between two looks at the clock */
    SPIN_NS = 1000000,    /* a worker looks for work for so long */
    WAIT_SPIN_NS = 20000, /* a caller that waits for claimed tasks looks for so long, */
    WAIT_NS = 1000000,    /* then lets others have the processor, then sleeps */
    CALL_NS = 100000,     /* between two calls for workers */
    LONG_RUN_NS = 50000,  /* as long as it takes a worker to wake up */
    REST_NS = 200000,     /* calls that are closer than this follow each other closely */
    LOOK_NS = 20000,      /* how often a worker counts the callers */
    RECENT_NS = 1000000,  /* who has worked in this time counts as a caller */
    WATCH_NS = 1000000,   /* how often a worker asks whether it has a processor of its own: */
    LOST_NS = 300000,     /* it has none when it was stopped for so long, */
    LOST_PART = 8,        /* and for such a part of the time */
    BACK_OFF_NS = 10000000,
    BACK_OFF_MAX_NS = 320000000,
    LATELY_NS = 5000000 /* a caller that was stopped in this time rings for nobody */
};

/* The word of a place. Low half: tasks that are open, as a mask or, of more than MASK_TASKS (WIDE),
 * the next one and their number; 0: none. Then how many more workers may join. Then the number of
 * the job. */
static const uint64_t JOIN_ONE = 1ull << 32, WIDE = 1ull << 63;
enum { JOB_SHIFT = 48, JOB_MASK = 0x7fff, NO_JOB = 0x10000, SLEEPER = 1 << 30 };

typedef struct place {
    _Alignas(128) _Atomic uint64_t open;
    _Atomic uint32_t done; /* tasks that workers have finished; SLEEPER: the caller sleeps on it */
    uint32_t job;
    hn_task_fn fn; /* these are read by who has claimed a task, and written when there are none */
    void *context;
    _Alignas(128) _Atomic int64_t active_ns; /* when the caller came or went last */
} place;

static struct pool {
    place places[PLACES];
    _Alignas(128) _Atomic uint64_t taken; /* of the places */
    _Alignas(128) _Atomic uint32_t used;  /* places that were ever taken: the first ones */
    _Atomic int limit;                    /* of workers, plus 1; 0: not known yet */
    _Atomic int started;
    _Atomic int sleeping; /* those that a caller may ring for */
    _Atomic int awake;
    _Atomic int caller_cpu;
    _Atomic uint32_t bell, stop;
    _Atomic int64_t quiet_ns; /* until then nobody rings */
    _Atomic bool alone;       /* a forked child, which has none of its parent's workers */
    pthread_mutex_t lock;     /* of what follows, and of `started` */
    pthread_t threads[HN_THREADS_MAX];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}
static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns when woken, after `ns` (0: never), or when *word is not `value`; callers look again in
 * all cases. */
static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns) {
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns ? &t : NULL, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word, int count) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static int min_int(int x, int y) { return x < y ? x : y; }

/* --- claims --- */

static uint64_t open_word(uint32_t job, int tasks, int helpers) {
    const uint64_t head = (uint64_t)(job & JOB_MASK) << JOB_SHIFT | (uint64_t)helpers << 32;
    if (tasks > MASK_TASKS) return WIDE | head | (uint64_t)1 << 16 | (uint64_t)tasks;
    return head | (UINT32_MAX >> (MASK_TASKS - tasks) & ~1u); /* the first one is the caller's */
}

/* One of the open tasks, of a mask the first one from `wish` on; *rest: the low half without it. */
static int pick(uint64_t word, unsigned wish, uint32_t *rest) {
    const uint32_t open = (uint32_t)word;
    if (word & WIDE) {
        const uint32_t next = open >> 16, count = open & 0xffff;
        *rest = next + 1 == count ? 0 : (next + 1) << 16 | count;
        return (int)next;
    }
    const unsigned turn = wish % MASK_TASKS;
    const uint32_t turned = turn ? open >> turn | open << (MASK_TASKS - turn) : open;
    const unsigned task = ((unsigned)__builtin_ctz(turned) + turn) % MASK_TASKS;
    *rest = open & ~(1u << task);
    return (int)task;
}

/* Claims a task, as one who takes part in job *joined or joins the present one; -1: none is open,
 * or enough take part. */
static int claim(place *p, uint32_t *joined, unsigned wish) {
    uint64_t word = atomic_load_explicit(&p->open, memory_order_relaxed), next;
    int task;
    do {
        const bool is_in = *joined == (word >> JOB_SHIFT & JOB_MASK);
        uint32_t rest;
        if (!(uint32_t)word || (!is_in && (word >> 32 & 0xffff) == 0)) return -1;
        task = pick(word, wish, &rest);
        next = (word & ~(uint64_t)UINT32_MAX) | rest;
        if (!is_in) next -= JOIN_ONE;
    } while (!atomic_compare_exchange_weak_explicit(&p->open, &word, next, memory_order_acquire,
                                                    memory_order_relaxed));
    *joined = word >> JOB_SHIFT & JOB_MASK;
    return task;
}

/* --- workers --- */

typedef struct worker {
    int index;
    uint32_t at; /* the place where it helped last */
    /* when it was last asked how much of the time it ran, and the answer */
    int64_t wall_ns, ran_ns;
    int64_t rest_ns, rested_ns; /* the last rest: how long, and when it ended */
} worker;

typedef enum outcome { IDLE, CROWDED, STOPPED_BY_OTHERS } outcome;

/* Works on the first place that has an open task. */
static bool help_once(worker *w) {
    const uint32_t used = atomic_load_explicit(&pool.used, memory_order_relaxed);
    for (uint32_t k = 0, at = w->at; k < used; k++, at = at + 1 < used ? at + 1 : 0) {
        place *p = &pool.places[at];
        if (!(uint32_t)atomic_load_explicit(&p->open, memory_order_relaxed)) continue;
        uint32_t joined = NO_JOB;
        int task = claim(p, &joined, (unsigned)w->index + 1);
        if (task < 0) continue;
        for (; task >= 0; task = claim(p, &joined, (unsigned)w->index + 1)) {
            p->fn(p->context, task);
            if (atomic_fetch_add_explicit(&p->done, 1, memory_order_release) & SLEEPER)
                futex_wake(&p->done, 1);
        }
        w->at = at;
        return true;
    }
    return false;
}

/* Whether somebody else had this thread's processor since the last question. */
static bool was_stopped(worker *w, int64_t now) {
    const int64_t ran = clock_ns(CLOCK_THREAD_CPUTIME_ID), passed = now - w->wall_ns,
                  lost = passed - (ran - w->ran_ns);
    w->wall_ns = now;
    w->ran_ns = ran;
    return lost > LOST_NS && lost > passed / LOST_PART;
}

/* How many callers work now or did so a moment ago. */
static int count_callers(int64_t now) {
    const uint32_t used = atomic_load_explicit(&pool.used, memory_order_relaxed);
    const uint64_t taken = atomic_load_explicit(&pool.taken, memory_order_relaxed);
    int count = 0;
    for (uint32_t k = 0; k < used; k++)
        count +=
            (taken >> k & 1) ||
            now - atomic_load_explicit(&pool.places[k].active_ns, memory_order_relaxed) < RECENT_NS;
    return count;
}

static bool is_crowded(int64_t now) {
    return atomic_load_explicit(&pool.awake, memory_order_relaxed) >
           atomic_load_explicit(&pool.limit, memory_order_relaxed) - count_callers(now);
}

static bool must_stop(void) { return atomic_load_explicit(&pool.stop, memory_order_acquire); }

/* Helps until there was nothing to do for a while, or processors are busy. */
static outcome help(worker *w) {
    int64_t now = now_ns(), until = now + SPIN_NS, look = now;
    (void)was_stopped(w, now);
    for (unsigned spins = 1;; spins++) {
        const bool helped = help_once(w);
        if (!helped && spins % CHECK_SPINS) {
            relax();
            continue;
        }
        now = now_ns();
        if (helped) until = now + SPIN_NS;
        if (now - w->wall_ns > WATCH_NS && was_stopped(w, now)) return STOPPED_BY_OTHERS;
        if (now > until || must_stop()) return IDLE;
        if (now < look) continue;
        if (is_crowded(now)) return CROWDED;
        look = now + LOOK_NS;
    }
}

static bool has_open_task(void) {
    const uint32_t used = atomic_load_explicit(&pool.used, memory_order_relaxed);
    for (uint32_t k = 0; k < used; k++)
        if ((uint32_t)atomic_load_explicit(&pool.places[k].open, memory_order_relaxed)) return true;
    return false;
}

/* To the processor that is `steps` places behind the caller's among the allowed ones, by narrowing
 * the thread's own mask for a moment. Best effort. A new thread is often put on the processor of
 * its maker, and one that wakes up on that of its waker; there both would have half of it for
 * milliseconds. */
static void move_on(int steps) {
    cpu_set_t allowed, one;
    int cpu = atomic_load_explicit(&pool.caller_cpu, memory_order_relaxed);
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    const int count = CPU_COUNT(&allowed);
    if (count < 2 || cpu < 0 || cpu >= CPU_SETSIZE || steps % count == 0) return;
    for (int left = steps % count; left > 0; left -= CPU_ISSET(cpu, &allowed) != 0)
        cpu = (cpu + 1) % CPU_SETSIZE;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0)
        (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

static void sleep_until_called(const worker *w, outcome why) {
    const uint32_t rung = atomic_load(&pool.bell);
    atomic_fetch_add(&pool.sleeping, 1);
    if (!must_stop() && (why == CROWDED || !has_open_task())) futex_wait(&pool.bell, rung, 0);
    atomic_fetch_sub(&pool.sleeping, 1);
    if (sched_getcpu() == atomic_load_explicit(&pool.caller_cpu, memory_order_relaxed))
        move_on(w->index + 1);
}

static void rest(worker *w) {
    const bool again = w->rest_ns && w->wall_ns - w->rested_ns < 4 * w->rest_ns;
    w->rest_ns = !again                             ? BACK_OFF_NS
                 : 2 * w->rest_ns < BACK_OFF_MAX_NS ? 2 * w->rest_ns
                                                    : BACK_OFF_MAX_NS;
    const int64_t until = w->wall_ns + w->rest_ns;
    for (int64_t now; !must_stop() && (now = now_ns()) < until;)
        futex_wait(&pool.stop, 0, until - now);
    w->rested_ns = now_ns();
}

static void *run_worker(void *index) {
    worker w = {.index = (int)(intptr_t)index};
    (void)pthread_setname_np(pthread_self(), "henry");
    move_on(w.index + 1);
    while (!must_stop()) {
        const outcome why = help(&w);
        atomic_fetch_sub(&pool.awake, 1);
        if (why == STOPPED_BY_OTHERS) rest(&w);
        sleep_until_called(&w, why);
        atomic_fetch_add(&pool.awake, 1);
    }
    atomic_fetch_sub(&pool.awake, 1);
    return NULL;
}

/* --- starting and ending them --- */

static void before_fork(void) { pthread_mutex_lock(&pool.lock); }
static void after_fork(void) { pthread_mutex_unlock(&pool.lock); }

/* The child has none of its parent's workers and callers: their places are free, and their open
 * tasks are nobody's. */
static void in_child(void) {
    if (atomic_load(&pool.started)) atomic_store(&pool.alone, true);
    atomic_store(&pool.started, 0);
    atomic_store(&pool.taken, 0);
    for (int k = 0; k < PLACES; k++) atomic_store(&pool.places[k].open, 0);
    pthread_mutex_unlock(&pool.lock);
}
/* without memory for it a child must not run modules */
static void watch_forks(void) { (void)pthread_atfork(before_fork, after_fork, in_child); }

static int processors(void) {
    cpu_set_t allowed;
    const int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                          ? CPU_COUNT(&allowed)
                          : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : min_int(count, HN_THREADS_MAX);
}

/* Threads that may work for one caller, itself among them. */
static int limit_now(void) {
    int limit = atomic_load_explicit(&pool.limit, memory_order_relaxed);
    if (HN_UNLIKELY(!limit)) {
        int unknown = 0;
        limit = processors();
        if (!atomic_compare_exchange_strong(&pool.limit, &unknown, limit)) limit = unknown;
    }
    return limit;
}

/* With the lock held. */
static void start_locked(int count) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    for (int k = atomic_load(&pool.started); k < count && !atomic_load(&pool.alone); k++) {
        atomic_fetch_add(&pool.awake, 1);
        if (hn_thread_start(&pool.threads[k], NULL, run_worker, (void *)(intptr_t)k) == 0) {
            atomic_store(&pool.started, k + 1);
        } else {
            atomic_fetch_sub(&pool.awake, 1);
            atomic_store(&pool.limit, k + 1); /* the system allows no more */
            break;
        }
    }
}

static void start(int count) {
    if (pthread_mutex_trylock(&pool.lock)) return; /* another caller is at it */
    start_locked(min_int(count, limit_now() - 1));
    pthread_mutex_unlock(&pool.lock);
}

static void stop_locked(void) {
    const int count = atomic_load(&pool.started);
    atomic_store(&pool.stop, 1);
    atomic_fetch_add(&pool.bell, 1);
    futex_wake(&pool.stop, INT32_MAX);
    futex_wake(&pool.bell, INT32_MAX);
    for (int k = 0; k < count; k++) pthread_join(pool.threads[k], NULL);
    atomic_store(&pool.started, 0);
    atomic_store(&pool.stop, 0);
}

void hn_team_stop(void) {
    pthread_mutex_lock(&pool.lock);
    stop_locked();
    pthread_mutex_unlock(&pool.lock);
}

/* Code that is unloaded must not run on in a worker. */
__attribute__((destructor)) static void stop_at_unload(void) { hn_team_stop(); }

void hn_team_limit_set(int workers) {
    pthread_mutex_lock(&pool.lock);
    if (atomic_load(&pool.started) > workers) stop_locked();
    atomic_store(&pool.limit, workers + 1);
    pthread_mutex_unlock(&pool.lock);
}

int hn_team_limit_get(void) { return limit_now() - 1; }
int hn_team_workers(void) { return atomic_load(&pool.started); }

int hn_team_default_threads(void) {
    const char *text = getenv("OMP_NUM_THREADS"); /* may be a list, for nested teams */
    char *end = NULL;
    const long number = text ? strtol(text, &end, 10) : 0;
    const bool is_number = end && end != text && (!*end || *end == ',') && number >= 1;
    return !is_number ? processors() : number > HN_THREADS_MAX ? HN_THREADS_MAX : (int)number;
}

/* --- callers --- */

/* The first free place, so that places in use are few. */
static place *begin(hn_team *t) {
    uint64_t taken = atomic_load_explicit(&pool.taken, memory_order_relaxed);
    uint32_t at;
    do {
        if (taken == UINT64_MAX) return NULL;
        at = (uint32_t)__builtin_ctzll(~taken);
    } while (!atomic_compare_exchange_weak_explicit(&pool.taken, &taken, taken | 1ull << at,
                                                    memory_order_acquire, memory_order_relaxed));
    uint32_t used = atomic_load_explicit(&pool.used, memory_order_relaxed);
    while (used < at + 1 && !atomic_compare_exchange_weak(&pool.used, &used, at + 1)) continue;
    t->place = at + 1;
    t->begin_ns = now_ns();
    t->calls = t->last_ns == 0 || t->last_ns > LONG_RUN_NS || t->begin_ns - t->end_ns < REST_NS;
    atomic_store_explicit(&pool.places[at].active_ns, t->begin_ns, memory_order_relaxed);
    return &pool.places[at];
}

void hn_team_end(hn_team *t) {
    if (!t->place) return;
    const uint32_t at = t->place - 1;
    t->end_ns = now_ns();
    t->last_ns = t->end_ns - t->begin_ns;
    t->place = 0;
    atomic_store_explicit(&pool.places[at].active_ns, t->end_ns, memory_order_relaxed);
    atomic_fetch_and_explicit(&pool.taken, ~(1ull << at), memory_order_release);
}

/* Whether the caller lost its processor to others lately: one of its own is better for it than a
 * worker. */
static bool was_preempted(hn_team *t, int64_t now) {
    struct rusage used;
    if (getrusage(RUSAGE_THREAD, &used)) return false;
    const bool was = now - t->watch_ns < LATELY_NS && used.ru_nivcsw > t->preempted;
    t->watch_ns = now;
    t->preempted = used.ru_nivcsw;
    return was;
}

/* Starts or wakes workers, up to `wanted` for this caller. */
static void call_workers(hn_team *t, int wanted) {
    const int64_t now = now_ns();
    if (!t->calls || now < t->call_ns) return;
    t->call_ns = now + CALL_NS;
    atomic_store_explicit(&pool.caller_cpu, sched_getcpu(), memory_order_relaxed);
    if (atomic_load_explicit(&pool.started, memory_order_relaxed) < wanted) start(wanted);
    const int free =
        limit_now() - count_callers(now) - atomic_load_explicit(&pool.awake, memory_order_relaxed);
    const int count =
        min_int(min_int(wanted, free), atomic_load_explicit(&pool.sleeping, memory_order_relaxed));
    if (count <= 0 || now < atomic_load_explicit(&pool.quiet_ns, memory_order_relaxed)) return;
    if (was_preempted(t, now)) {
        atomic_store_explicit(&pool.quiet_ns, now + BACK_OFF_NS, memory_order_relaxed);
        return;
    }
    atomic_fetch_add(&pool.bell, 1);
    futex_wake(&pool.bell, count);
}

/* Until workers have finished `count` tasks. */
static void wait_for(place *p, uint32_t count) {
    int64_t begin = 0;
    for (unsigned spins = 1; atomic_load_explicit(&p->done, memory_order_acquire) != count;
         spins++) {
        relax();
        if (spins % CHECK_SPINS) continue;
        const int64_t now = now_ns();
        if (!begin) begin = now;
        if (now - begin > WAIT_NS) break;
        /* the worker may be waiting for this processor */
        if (now - begin > WAIT_SPIN_NS) sched_yield();
    }
    uint32_t done = atomic_load_explicit(&p->done, memory_order_acquire);
    while ((done & ~(uint32_t)SLEEPER) != count) {
        if (!(done & SLEEPER) &&
            !atomic_compare_exchange_weak_explicit(&p->done, &done, done | SLEEPER,
                                                   memory_order_acquire, memory_order_acquire))
            continue;
        futex_wait(&p->done, done | SLEEPER, 0);
        done = atomic_load_explicit(&p->done, memory_order_acquire);
    }
}

static void run_shared(hn_team *t, place *p, int tasks, int limit, hn_task_fn fn, void *context) {
    uint32_t job = ++p->job & JOB_MASK, others = (uint32_t)tasks - 1;
    p->fn = fn;
    p->context = context;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->open, open_word(job, tasks, limit - 1), memory_order_release);
    if (atomic_load_explicit(&pool.sleeping, memory_order_relaxed) ||
        atomic_load_explicit(&pool.started, memory_order_relaxed) < limit - 1)
        call_workers(t, limit - 1);
    fn(context, 0);
    for (int task; (task = claim(p, &job, 0)) >= 0; others--) fn(context, task);
    wait_for(p, others);
}

/* With fewer threads than tasks, each takes the next task that is left. */
typedef struct handout {
    hn_task_fn fn;
    void *context;
    int tasks;
    atomic_int next;
} handout;

static void take_tasks(void *data, int k) {
    (void)k;
    handout *h = data;
    for (int task;
         (task = atomic_fetch_add_explicit(&h->next, 1, memory_order_relaxed)) < h->tasks;)
        h->fn(h->context, task);
}

static void run_executor(const hn_executor *e, int tasks, int limit, hn_task_fn fn, void *context) {
    if (limit >= tasks) {
        e->run(e->context, tasks, fn, context);
        return;
    }
    handout h = {.fn = fn, .context = context, .tasks = tasks};
    e->run(e->context, limit, take_tasks, &h);
}

void hn_team_run(hn_team *t, int tasks, hn_task_fn fn, void *context) {
    int limit = t && tasks > 1 ? min_int(tasks, t->limit > 0 ? t->limit : tasks) : 1;
    if (limit > 1 && t->executor) {
        run_executor(t->executor, tasks, min_int(limit, t->executor->threads), fn, context);
        return;
    }
    if (limit > 1)
        limit = atomic_load_explicit(&pool.alone, memory_order_relaxed)
                    ? 1
                    : min_int(limit, limit_now());
    place *p = limit <= 1 ? NULL : t->place ? &pool.places[t->place - 1] : begin(t);
    if (p) {
        run_shared(t, p, tasks, limit, fn, context);
        return;
    }
    for (int k = 0; k < tasks; k++) fn(context, k);
}
