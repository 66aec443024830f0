/* test_bench_load.c: two ways that differ by a fifth, while other processes want the same processors:
 * the faster one wins each time, although it is not the first. By the clock of the system. */
#include "henry/bench.h"

#include "unit/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RIVALS_MAX = 4, RACES = 3 };

static volatile uint64_t sink;

static hn_status work(void *user) {
    uint64_t x = sink;
    for (int64_t k = 0; k < *(const int64_t *)user; k++) x = x * 6364136223846793005u + 1;
    sink = x;
    return NULL;
}

static pid_t begin_rival(void) {
    const pid_t parent = getpid(), child = fork();
    if (child) return child;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        for (int k = 0; k < 1000000; k++) sink++;
    _exit(0);
}

TEST(others_at_work_do_not_change_the_winner) {
    static int64_t slow = 24000, fast = 20000;
    const hn_bench_candidate ways[] = {{.name = "slow", .run = work, .user = &slow},
                                       {.name = "fast", .run = work, .user = &fast}};
    /* seconds in the worst case; usually some tens of milliseconds */
    const hn_bench_options options = {.budget_ns = INT64_C(10000000000), .max_rounds = 1000};
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const int rivals = processors < 1 ? 1 : processors > RIVALS_MAX ? RIVALS_MAX : (int)processors;
    pid_t children[RIVALS_MAX];
    for (int k = 0; k < rivals; k++) children[k] = begin_rival();
    for (int race = 0; race < RACES; race++) {
        hn_bench_report *report = NULL;
        EXPECT_OK(hn_bench(&options, ways, 2, &report));
        if (!report) continue;
        const hn_bench_result *r = report->results;
        EXPECT_INT(report->winner, 1);
        if (report->winner != 1)
            fprintf(stderr, "%s: ratio %g, %g to %g, %u samples, %u disturbed\n",
                    hn_bench_end_name(report->end), r[1].ratio, r[1].ratio_low, r[1].ratio_high,
                    r[1].samples, r[1].disturbed);
        hn_bench_report_destroy(report);
    }
    for (int k = 0; k < rivals; k++) {
        if (children[k] <= 0) continue;
        (void)kill(children[k], SIGKILL);
        (void)waitpid(children[k], NULL, 0);
    }
}

TEST_MAIN
