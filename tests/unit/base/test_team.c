/* test_team.c: work that callers and the workers of the process share; shares of work. */
#include "unit/harness.h"

#include "base/team.h"
#include "ops/cpu/share.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3, PIECES = 1000, CALLERS = 8, JOBS = 300, CROWD = 80 };

static int64_t now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* --- who runs what --- */

typedef struct counts {
    atomic_int times[HN_THREADS_MAX], at_once, most, elsewhere;
    pthread_t caller;
    long pause_ns;
} counts;

static void count_task(void *context, int task) {
    counts *c = context;
    const int at_once = atomic_fetch_add(&c->at_once, 1) + 1;
    for (int most = atomic_load(&c->most);
         at_once > most && !atomic_compare_exchange_weak(&c->most, &most, at_once);)
        continue;
    atomic_fetch_add(&c->times[task], 1);
    if (!pthread_equal(c->caller, pthread_self())) atomic_fetch_add(&c->elsewhere, 1);
    if (c->pause_ns) nanosleep(&(struct timespec){.tv_nsec = c->pause_ns}, NULL);
    atomic_fetch_sub(&c->at_once, 1);
}

static bool all_once(const counts *c, int tasks) {
    for (int k = 0; k < HN_THREADS_MAX; k++)
        if (atomic_load(&c->times[k]) != (k < tasks)) return false;
    return true;
}

TEST(each_task_runs_once) {
    const int counts_of_tasks[] = {1, 2, 3, 31, 32, 33, 34, 500, HN_THREADS_MAX};
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    hn_team team = {0};
    for (int i = 0; i < 9; i++)
        for (int round = 0; round < 50; round++) {
            counts c = {.caller = pthread_self()};
            hn_team_run(&team, counts_of_tasks[i], count_task, &c);
            EXPECT(all_once(&c, counts_of_tasks[i]));
        }
    hn_team_end(&team);
    EXPECT(hn_threads_count() <= WORKERS);
}

TEST(without_workers_the_caller_does_everything) {
    EXPECT_OK(hn_threads_limit_set(0));
    EXPECT(hn_threads_limit_get() == 0);
    hn_team team = {0};
    for (int alone = 0; alone < 2; alone++) {
        counts c = {.caller = pthread_self()};
        hn_team_run(alone ? NULL : &team, 4, count_task, &c);
        EXPECT(all_once(&c, 4) && atomic_load(&c.elsewhere) == 0 && atomic_load(&c.most) == 1);
    }
    hn_team_end(&team);
    EXPECT(hn_threads_count() == 0);
    EXPECT_OK(hn_threads_limit_set(WORKERS));
}

/* Until a worker came: how long that takes is the system's affair. */
static bool is_helped(hn_team *team, int tasks, counts *c) {
    for (int64_t end = now_s() + 60; now_s() < end;) {
        *c = (counts){.caller = pthread_self(), .pause_ns = 1000000};
        hn_team_run(team, tasks, count_task, c);
        hn_team_end(team);
        if (!all_once(c, tasks)) return false;
        if (atomic_load(&c->elsewhere)) return true;
    }
    return false;
}

TEST(workers_help) {
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    hn_team team = {0};
    counts c;
    EXPECT(is_helped(&team, 4, &c));
    EXPECT(is_helped(&team, 200, &c));
    EXPECT(hn_threads_count() >= 1);
}

TEST(a_run_has_a_limit) {
    EXPECT_OK(hn_threads_limit_set(5));
    hn_team team = {.limit = 2};
    for (int round = 0; round < 50; round++) {
        counts c = {.caller = pthread_self(), .pause_ns = 100000};
        hn_team_run(&team, round % 2 ? 6 : 40, count_task, &c);
        EXPECT(all_once(&c, round % 2 ? 6 : 40) && atomic_load(&c.most) <= 2);
    }
    hn_team_end(&team);
    team.limit = 1;
    counts c = {.caller = pthread_self()};
    hn_team_run(&team, 6, count_task, &c);
    EXPECT(all_once(&c, 6) && atomic_load(&c.elsewhere) == 0);
}

TEST(limits_are_checked) {
    EXPECT_ERROR(hn_threads_limit_set(-1), HN_INVALID_ARGUMENT, "-1");
    EXPECT_ERROR(hn_threads_limit_set(HN_THREADS_MAX), HN_INVALID_ARGUMENT, "1024");
    EXPECT_OK(hn_threads_limit_set(2));
    EXPECT(hn_threads_limit_get() == 2);
}

/* Workers above a new limit are gone when the call returns; stopped ones start again when there is
 * work. */
TEST(workers_end_and_start) {
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    hn_team team = {0};
    counts c;
    EXPECT(is_helped(&team, 4, &c));
    EXPECT_OK(hn_threads_limit_set(1));
    EXPECT(hn_threads_count() <= 1);
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    for (int round = 0; round < 3; round++) {
        hn_threads_stop();
        EXPECT(hn_threads_count() == 0);
        EXPECT(is_helped(&team, 4, &c));
    }
    hn_threads_stop();
    hn_threads_stop();
}

/* --- several callers --- */

/* Two phases: the second reads what all tasks of the first wrote. */
typedef struct phases {
    int64_t in[8], out[8];
    int64_t seed;
} phases;

static void write_task(void *context, int task) {
    phases *p = context;
    p->in[task] = p->seed + task;
}
static void read_task(void *context, int task) {
    phases *p = context;
    p->out[task] = 0;
    for (int k = 0; k < 8; k++) p->out[task] += p->in[k];
}

static atomic_int wrong;

static void *call_often(void *own) {
    hn_team team = {0};
    phases p = {0};
    for (int i = 0; i < JOBS; i++) {
        p.seed = (int64_t)(intptr_t)own * 1000 + i;
        hn_team_run(&team, 8, write_task, &p);
        hn_team_run(&team, 8, read_task, &p);
        for (int k = 0; k < 8; k++)
            if (p.out[k] != 8 * p.seed + 28) atomic_fetch_add(&wrong, 1);
        if (i % 7 == 0) hn_team_end(&team);
    }
    hn_team_end(&team);
    return NULL;
}

static void run_callers(int count) {
    pthread_t threads[CROWD];
    atomic_store(&wrong, 0);
    for (int k = 0; k < count; k++)
        EXPECT(pthread_create(&threads[k], NULL, call_often, (void *)(intptr_t)k) == 0);
    for (int k = 0; k < count; k++) EXPECT(pthread_join(threads[k], NULL) == 0);
    EXPECT(atomic_load(&wrong) == 0);
}

TEST(callers_do_not_disturb_each_other) {
    for (int workers = 0; workers < 6; workers += 5) {
        EXPECT_OK(hn_threads_limit_set(workers));
        for (int callers = 1; callers <= CALLERS; callers *= 2) run_callers(callers);
    }
}

/* More than the pool has places for: those that find none work alone. */
TEST(a_crowd_of_callers) {
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    run_callers(CROWD);
}

static void *stop_often(void *done) {
    while (!atomic_load((atomic_bool *)done)) {
        hn_threads_stop();
        hn_status_free(hn_threads_limit_set(1 + rand() % WORKERS));
        sched_yield();
    }
    return NULL;
}

TEST(stopping_beside_runs) {
    atomic_bool done = false;
    pthread_t stopper;
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    EXPECT(pthread_create(&stopper, NULL, stop_often, &done) == 0);
    run_callers(4);
    atomic_store(&done, true);
    EXPECT(pthread_join(stopper, NULL) == 0);
}

/* --- threads as the host's --- */

static void check_thread(void *context, int task) {
    sigset_t blocked;
    cpu_set_t own;
    const cpu_set_t *mine = context;
    (void)task;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (sched_getaffinity(0, sizeof own, &own) || !CPU_EQUAL(&own, mine))
        atomic_fetch_add(&wrong, 1);
    if (getpid() == gettid()) return;
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) || !sigismember(&blocked, SIGTERM) ||
        !sigismember(&blocked, SIGCHLD))
        atomic_fetch_add(&wrong, 1);
}

TEST(workers_block_signals_and_may_run_where_the_caller_may) {
    cpu_set_t mine;
    sigset_t before, after;
    sigemptyset(&before), sigemptyset(&after); /* the system fills in a part of them */
    hn_team team = {0};
    counts c;
    EXPECT(sched_getaffinity(0, sizeof mine, &mine) == 0 &&
           pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    hn_threads_stop();
    EXPECT(is_helped(&team, 4, &c));
    EXPECT(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    for (int k = 1; k < NSIG; k++) EXPECT_INT(sigismember(&before, k), sigismember(&after, k));
    atomic_store(&wrong, 0);
    hn_team_run(&team, 20, check_thread, &mine);
    hn_team_end(&team);
    EXPECT(atomic_load(&wrong) == 0);
}

/* A child has none of its parent's workers, and must not wait for them; without any in the parent
 * it starts its own. */
static int run_in_child(void) {
    const pid_t child = fork();
    if (child == 0) {
        hn_team team = {0};
        counts c = {.caller = pthread_self()};
        alarm(60);
        for (int round = 0; round < 100; round++) hn_team_run(&team, 4, count_task, &c);
        hn_team_end(&team);
        for (int k = 0; k < 4; k++)
            if (atomic_load(&c.times[k]) != 100) _exit(100);
        _exit(hn_threads_count());
    }
    int how = -1;
    EXPECT(child > 0 && waitpid(child, &how, 0) == child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

TEST(a_forked_child_works) {
    hn_team team = {0};
    counts c;
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    EXPECT(is_helped(&team, 4, &c));
    EXPECT(run_in_child() == 0);
    EXPECT(is_helped(&team, 4, &c));
#if !defined(__SANITIZE_THREAD__) /* which forbids a forked child threads */
    hn_threads_stop();
    EXPECT(run_in_child() == WORKERS);
#endif
    EXPECT(is_helped(&team, 4, &c));
}

/* --- a pool of the host's --- */

/* Backwards on the caller, but for the last task, which has a thread of its own. */
typedef struct other_thread {
    void (*task)(void *data, int k);
    void *data;
    int k;
} other_thread;
static void *run_other(void *context) {
    other_thread *o = context;
    o->task(o->data, o->k);
    return NULL;
}
static void run_host(void *context, int count, void (*task)(void *data, int k), void *data) {
    pthread_t thread;
    other_thread last = {task, data, count - 1};
    ++*(int *)context;
    EXPECT(pthread_create(&thread, NULL, run_other, &last) == 0);
    for (int k = count - 2; k >= 0; k--) task(data, k);
    EXPECT(pthread_join(thread, NULL) == 0);
}

TEST(a_pool_of_the_host) {
    int calls = 0;
    const hn_executor executor = {.context = &calls, .threads = 3, .run = run_host};
    hn_threads_stop();
    for (int limit = 0; limit < 4; limit++) {
        hn_team team = {.limit = limit, .executor = &executor};
        counts c = {.caller = pthread_self()};
        hn_team_run(&team, 8, count_task, &c);
        hn_team_end(&team);
        EXPECT(all_once(&c, 8) && atomic_load(&c.most) <= (limit ? limit : 3));
    }
    EXPECT(calls == 3); /* not for one thread */
    EXPECT(hn_threads_count() == 0);
}

/* --- shares --- */

typedef struct piece_job {
    hn_ext_share shares[4];
    int times[PIECES];
} piece_job;

static void take_pieces(void *context, int rank) {
    piece_job *j = context;
    for (int64_t k; (k = hn_ext_share_next(j->shares, rank, 4)) >= 0;)
        __atomic_fetch_add(&j->times[k], 1, __ATOMIC_RELAXED);
}

TEST(pieces_go_once) {
    hn_team team = {0};
    EXPECT_OK(hn_threads_limit_set(WORKERS));
    for (int64_t pieces = 0; pieces <= PIECES; pieces += pieces < 5 ? 1 : 331) {
        piece_job j = {0};
        for (int rank = 0; rank < 4; rank++) hn_ext_share_set(j.shares, rank, 4, pieces);
        hn_team_run(&team, 4, take_pieces, &j);
        for (int64_t k = 0; k < pieces; k++) EXPECT(j.times[k] == 1);
    }
    hn_team_end(&team);
}

/* Alone, a task takes its own from the front and another's from the end. */
TEST(order_of_pieces) {
    hn_ext_share shares[2];
    hn_ext_share_set(shares, 0, 2, 5);
    hn_ext_share_set(shares, 1, 2, 5);
    const int64_t expected[] = {0, 1, 4, 3, 2, -1};
    for (int i = 0; i < 6; i++) EXPECT(hn_ext_share_next(shares, 0, 2) == expected[i]);
}

TEST_MAIN
