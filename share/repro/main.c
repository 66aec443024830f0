/* Runs one kernel on the inputs that it had in a run of the model, compares what it writes with
 * what the reference computed, and times it. repro.h, written by henry, says what there is.
 *
 *     repro [RTOL]      exit status 0: equal within RTOL of the largest expected element */
#include "check.h"

int REPRO_KERNEL(void *const *buffers, const long long *sizes, long long first, long long until,
                 void *scratch);

static void *buffers[COUNT];

static void measure(void *scratch) {
    static double times[RUNS_MAX];
    const double begin = now();
    int runs = 0;
    while (runs < RUNS_MAX && (runs < RUNS_MIN || now() - begin < 1)) {
        const double start = now();
        REPRO_KERNEL(buffers, sizes, 0, REPRO_EXTENT, scratch);
        times[runs++] = now() - start;
    }
    report_times(times, runs, "on one thread");
}

int main(int argc, char **argv) {
    const double rtol = argc > 1 ? atof(argv[1]) : 1e-4;
    void *scratch = allocate(REPRO_SCRATCH_BYTES);
    load();
    for (int k = 0; k < COUNT; k++) buffers[k] = memory[k] + operands[k].begin;
    const int failed = REPRO_KERNEL(buffers, sizes, 0, REPRO_EXTENT, scratch);
    if (failed) {
        printf("the kernel reports an index out of range (%d)\n", failed);
        return 1;
    }
    const int good = compare_all(rtol);
    measure(scratch);
    puts(good ? "equal" : "DIFFERENT");
    return !good;
}
