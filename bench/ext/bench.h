/* bench.h: what the micro-benchmarks of the extern operations share. */
#ifndef HN_BENCH_EXT_H
#define HN_BENCH_EXT_H

#include "base/team.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of all calls. */
static hn_team bench_team;

static double bench_now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Best seconds of a call within about `budget` seconds. One thread is timed by its processor time,
 * so that a busy machine hardly matters; more threads by wall time, where the best of many runs
 * must do. */
static double bench_best(void (*call)(void *), void *user, int threads, double budget) {
    clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double best = 1e30, start = bench_now(CLOCK_MONOTONIC);
    call(user);
    for (int i = 0; i < 3 || bench_now(CLOCK_MONOTONIC) - start < budget; i++) {
        double t = bench_now(clock);
        call(user);
        t = bench_now(clock) - t;
        if (t < best) best = t;
    }
    return best;
}

static float *bench_floats(size_t count, unsigned seed) {
    float *x = aligned_alloc(64, (count * sizeof *x + 127) / 64 * 64);
    if (!x) exit(1);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
    return x;
}

#endif
