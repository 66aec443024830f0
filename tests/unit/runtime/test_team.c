/* test_team.c: starting and waking a team's threads; shares of work. */
#include "unit/harness.h"

#include "runtime/ext_share.h"
#include "runtime/team.h"

#include <omp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, PIECES = 1000 };

/* How many threads of the team may run where the caller may. */
static int count_free(const cpu_set_t *mine) {
    int count = 0;
#pragma omp parallel num_threads(THREADS) reduction(+ : count)
    {
        cpu_set_t own;
        count += sched_getaffinity(0, sizeof own, &own) == 0 && CPU_EQUAL(&own, mine);
    }
    return count;
}

TEST(masks_stay) {
    cpu_set_t mine;
    EXPECT(sched_getaffinity(0, sizeof mine, &mine) == 0);
    hn_team_start(THREADS);
    EXPECT(count_free(&mine) == THREADS);
    hn_team_wake(THREADS);
    EXPECT(count_free(&mine) == THREADS);
    hn_team_wake(1);
}

/* Its threads are its parent's: it must not wait for them. */
TEST(a_forked_child_works_alone) {
    hn_team_start(THREADS);
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t mine;
        alarm(20);
        hn_team_wake(THREADS);
        _exit(sched_getaffinity(0, sizeof mine, &mine) == 0 ? count_free(&mine) : 0);
    }
    int how = -1;
    EXPECT(child > 0 && waitpid(child, &how, 0) == child);
    EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 1);
    cpu_set_t mine;
    EXPECT(sched_getaffinity(0, sizeof mine, &mine) == 0);
    EXPECT(count_free(&mine) == THREADS);
}

TEST(pieces_go_once) {
    hn_ext_share shares[THREADS];
    for (int64_t pieces = 0; pieces <= PIECES; pieces += pieces < 5 ? 1 : 331) {
        int times[PIECES] = {0};
#pragma omp parallel num_threads(THREADS)
        {
            const int rank = omp_get_thread_num(), size = omp_get_num_threads();
            hn_ext_share_set(shares, rank, size, pieces);
#pragma omp barrier
            for (int64_t k; (k = hn_ext_share_next(shares, rank, size)) >= 0;) __atomic_fetch_add(&times[k], 1, __ATOMIC_RELAXED);
        }
        for (int64_t k = 0; k < pieces; k++) EXPECT(times[k] == 1);
    }
}

/* Alone, a thread takes its own from the front and another's from the end. */
TEST(order_of_pieces) {
    hn_ext_share shares[2];
    hn_ext_share_set(shares, 0, 2, 5);
    hn_ext_share_set(shares, 1, 2, 5);
    const int64_t expected[] = {0, 1, 4, 3, 2, -1};
    for (int i = 0; i < 6; i++) EXPECT(hn_ext_share_next(shares, 0, 2) == expected[i]);
}

TEST_MAIN
