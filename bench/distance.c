/* distance.c: how far two processors are from each other: nanoseconds for a cache line to go there
 * and back.
 *
 *     distance [FIRST SECOND]
 *
 * A virtual machine's processors are moved about by its host: threads of one core (60 ns on a Zen
 * 3), cores that share an L3 (100), or not (400). Whatever two threads hand to each other through
 * memory depends on it, so a figure without it may be off by a half. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIPS = 20000 };

static _Alignas(64) atomic_int turn;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void stay_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) perror("distance: sched_setaffinity");
}

/* Waits for `first`, says the number after it, and so on. */
static void play(int first) {
    for (int i = first; i < 2 * TRIPS; i += 2) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != i) continue;
        atomic_store_explicit(&turn, i + 1, memory_order_release);
    }
}

static void *other_side(void *cpu) {
    stay_on(*(int *)cpu);
    play(1);
    return NULL;
}

int main(int argc, char **argv) {
    int cpus[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1};
    int64_t best = INT64_MAX;
    pthread_t thread;
    stay_on(cpus[0]);
    for (int round = 0; round < 5; round++) {
        atomic_store(&turn, 0);
        if (pthread_create(&thread, NULL, other_side, &cpus[1]) != 0) return 1;
        int64_t begin = now_ns();
        play(0);
        pthread_join(thread, NULL);
        int64_t ns = (now_ns() - begin) / TRIPS;
        if (ns < best) best = ns;
    }
    printf("processors %d and %d: %lld ns there and back\n", cpus[0], cpus[1], (long long)best);
    return 0;
}
