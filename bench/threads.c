/* threads.c: what a call takes when threads are shared: by callers, and with other processes.
 *
 *     threads BUNDLE [BATCH [SECONDS]]
 *
 * BUNDLE: a compiled model; sizes that vary are BATCH (8). The cases take turns, SECONDS (0.2) for
 * each, in ROUNDS rounds, and each call is timed. Prints one JSON object: of each case the median,
 * the 99th percentile and the number of calls, in microseconds, and how much longer two threads
 * take beside busy processes than one.
 *
 *   one         one thread
 *   two         two threads
 *   moved       two threads, in a host thread that did not call the model first
 *   callers     two host threads at the same time, two threads each
 *   busy_one    one thread, beside processes that leave one processor free
 *   busy_two    two threads, beside the same
 *
 * Only public headers: the program can be linked with the library of another tree, to compare. */
#include "henry/module.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 10, MAX_VALUES = 8, MAX_BUSY = 1024 };

typedef struct series {
    double *us;
    size_t count, cap;
} series;

/* Calls of one module by one thread, for some time. */
typedef struct caller {
    hn_module *module;
    double seconds;
    int64_t batch;
    series times;
} caller;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void must(hn_status status) {
    if (!status) return;
    fprintf(stderr, "threads: %s\n", hn_status_message(status));
    exit(1);
}

static void push(series *s, double us) {
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4096;
        s->us = realloc(s->us, s->cap * sizeof *s->us);
        if (!s->us) exit(1);
    }
    s->us[s->count++] = us;
}

static hn_tensor *input_of(hn_module *m, uint32_t index, int64_t batch) {
    hn_module_value_info info;
    hn_tensor *t = NULL;
    int64_t sizes[16];
    must(hn_module_input_info(m, index, &info));
    for (uint32_t d = 0; d < info.rank; d++)
        sizes[d] = info.sizes[d].is_static ? info.sizes[d].value : batch;
    must(hn_tensor_create(&(hn_tensor_desc){.type = info.type, .rank = info.rank, .sizes = sizes},
                          &t));
    memset(hn_tensor_data(t), 0, (size_t)hn_tensor_numel(t) * hn_scalar_type_bytes(info.type));
    return t;
}

static void *call(void *context) {
    caller *c = context;
    const uint32_t inputs = hn_module_input_count(c->module),
                   outputs = hn_module_output_count(c->module);
    hn_tensor *in[MAX_VALUES] = {0}, *out[MAX_VALUES] = {0};
    if (inputs > MAX_VALUES || outputs > MAX_VALUES) exit(1);
    for (uint32_t k = 0; k < inputs; k++) in[k] = input_of(c->module, k, c->batch);
    const double end = now_us() + c->seconds * 1e6;
    for (double begin = now_us(), after; begin < end; begin = after) {
        must(hn_module_run(c->module, in, inputs, out, outputs));
        after = now_us();
        push(&c->times, after - begin);
    }
    for (uint32_t k = 0; k < inputs; k++) hn_tensor_release(in[k]);
    for (uint32_t k = 0; k < outputs; k++) hn_tensor_release(out[k]);
    return NULL;
}

/* Calls in `count` new threads at the same time. */
static void call_in_threads(caller *c, int count) {
    pthread_t threads[2];
    for (int k = 0; k < count; k++)
        if (pthread_create(&threads[k], NULL, call, &c[k])) exit(1);
    for (int k = 0; k < count; k++) pthread_join(threads[k], NULL);
}

static int start_busy(pid_t *children) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) - 1 : 1;
    if (count < 1) count = 1;
    if (count > MAX_BUSY) count = MAX_BUSY;
    for (int k = 0; k < count; k++) {
        children[k] = fork();
        if (children[k] < 0) exit(1);
        if (children[k] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile unsigned long n = 0;; n = n + 1) continue;
        }
    }
    return count;
}

static void call_beside_busy(caller *c) {
    static pid_t children[MAX_BUSY];
    const int count = start_busy(children);
    call(c);
    for (int k = 0; k < count; k++) kill(children[k], SIGKILL), waitpid(children[k], NULL, 0);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints a case and returns its median. */
static double report(const char *name, series *s) {
    qsort(s->us, s->count, sizeof *s->us, compare);
    const double median = s->us[s->count / 2];
    printf("\"%s\": {\"us\": %.1f, \"p99\": %.1f, \"calls\": %zu}, ", name, median,
           s->us[s->count * 99 / 100], s->count);
    return median;
}

int main(int argc, char **argv) {
    enum { ONE, TWO, MOVED, CALLERS, BUSY_ONE = CALLERS + 2, BUSY_TWO, CASES };
    hn_module *one, *two, *other;
    caller c[CASES];
    if (argc < 2) {
        fprintf(stderr, "usage: threads BUNDLE [BATCH [SECONDS]]\n");
        return 2;
    }
    must(hn_module_load_file(argv[1], &(hn_module_options){.threads = 1}, &one));
    must(hn_module_load_file(argv[1], &(hn_module_options){.threads = 2}, &two));
    must(hn_module_load_file(argv[1], &(hn_module_options){.threads = 2}, &other));
    for (int k = 0; k < CASES; k++)
        c[k] = (caller){.module = k == ONE || k == BUSY_ONE          ? one
                                  : k == CALLERS || k == CALLERS + 1 ? other
                                                                     : two,
                        .batch = argc > 2 ? atoll(argv[2]) : 8,
                        .seconds = argc > 3 ? atof(argv[3]) : 0.2};
    for (int round = -1; round < ROUNDS; round++) {
        if (round == 0) /* the first one was for caches */
            for (int k = 0; k < CASES; k++) c[k].times.count = 0;
        call(&c[ONE]);
        call(&c[TWO]);
        call_in_threads(&c[MOVED], 1);
        call_in_threads(&c[CALLERS], 2);
        call_beside_busy(&c[BUSY_ONE]);
        call_beside_busy(&c[BUSY_TWO]);
    }
    for (size_t k = 0; k < c[CALLERS + 1].times.count; k++)
        push(&c[CALLERS].times, c[CALLERS + 1].times.us[k]);
    printf("{");
    (void)report("one", &c[ONE].times);
    (void)report("two", &c[TWO].times);
    (void)report("moved", &c[MOVED].times);
    (void)report("callers", &c[CALLERS].times);
    const double alone = report("busy_one", &c[BUSY_ONE].times),
                 together = report("busy_two", &c[BUSY_TWO].times);
    printf("\"busy_ratio\": %.2f}\n", together / alone);
    for (int k = 0; k < CASES; k++) free(c[k].times.us);
    hn_module_release(one);
    hn_module_release(two);
    hn_module_release(other);
    return 0;
}
