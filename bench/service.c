/* service.c: what the compile service costs, and what it saves.
 *
 *     bench_service [KERNELS]     0: all but 2.
 *
 * 1. From submit to result of a trivial job in a warm worker, less the time that the worker spent
 *    at its tools; and what of that is waking up: a message to a process that sleeps, works for
 *    3 ms over 4 MB, and answers one that sleeps.
 * 2. KERNELS (200) kernels that differ, by a service with two workers, nothing in any cache, its
 *    start included; and by `make -j2`, one run of the same compiler with the same flags for each
 *    kernel. In turns; what both made is loaded and called.
 * 3. A kernel of 5 KB from the disk: submit to callable function, in a service that has not seen
 *    it.
 *
 * Prints one JSON object. */
#include "bench/median.h"
#include "henry/kernel.h"

#include "base/file.h"
#include "base/str.h"
#include "base/trace.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TRIVIAL_ROUNDS = 100,
    MAKE_ROUNDS = 5,
    DISK_ROUNDS = 300,
    KERNELS_MAX = 2000,
    DISK_BYTES = 5000
};

static const char *const flags[] = {"-O2", "-mavx2", "-fno-math-errno"};
enum { FLAGS = sizeof flags / sizeof flags[0] };

static void fail(const char *what) {
    fprintf(stderr, "bench_service: %s\n", what);
    exit(1);
}

static void check(hn_status status) {
    if (status) fail(hn_status_message(status));
}

static double ms_since(int64_t begin_ns) { return (double)(hn_now_ns() - begin_ns) / 1e6; }

/* Element-wise kernels as models have them: a few operations, a scale and a bound of their own. */
static void kernel_text(int k, hn_strbuf *out) {
    static const char *const forms[] = {"a * b + %d.5f", "(a - b) * (a + %d.25f)",
                                        "a > b ? a : b * %d.75f", "a / (1.0f + b * b) - %d.0f"};
    char value[128];
    snprintf(value, sizeof value, forms[k % 4], k); /* the forms are ours */
    hn_strbuf_printf(
        out,
        "void kernel_%d(float *restrict p, const float *restrict q, const float *restrict r, long n) {\n"
        "    for (long i = 0; i < n; i++) {\n"
        "        float a = q[i], b = r[i], c = %s;\n"
        "        p[i] = c > 0 ? c : c * 0.01f;\n"
        "    }\n"
        "}\n",
        k, value);
}

static hn_future *submit(hn_scope *scope, const char *name, hn_str text) {
    hn_future *future;
    const hn_source source = {.name = name,
                              .language = "c",
                              .text = text.ptr,
                              .text_len = text.len,
                              .flags = flags,
                              .flag_count = FLAGS};
    check(hn_compile_submit(scope, &source, &future));
    return future;
}

static hn_service *open_service(const char *cache_dir) {
    hn_service *service;
    check(hn_service_create(
        &(hn_service_options){.threads = 2, .cache_dir = cache_dir, .remote_url = ""}, &service));
    return service;
}

/* ---- a trivial job ---- */

static int64_t tool_ns(hn_service *service) {
    hn_service_stats stats;
    int64_t all = 0;
    hn_service_stats_get(service, &stats);
    for (uint32_t i = 0; i < stats.language_count; i++) all += stats.service_time[i].total_ns;
    return all;
}

static void wait_ready(hn_service *service) {
    hn_service_stats stats;
    check(hn_service_warm(service));
    do {
        usleep(1000);
        hn_service_stats_get(service, &stats);
    } while (stats.workers_ready < 2);
}

static void measure_trivial(void) {
    double above[TRIVIAL_ROUNDS], all[TRIVIAL_ROUNDS];
    hn_service *service = open_service("");
    hn_scope *scope;
    check(hn_scope_create(service, &scope));
    wait_ready(service);
    for (int k = -10; k < TRIVIAL_ROUNDS; k++) { /* the first ones start the tools */
        char text[64];
        snprintf(text, sizeof text, "int trivial_%d(void) { return %d; }\n", k + 10, k);
        int64_t tool = tool_ns(service), begin = hn_now_ns();
        check(hn_future_wait(submit(scope, "trivial", hn_str_of(text)), -1, NULL));
        int64_t end = hn_now_ns();
        if (k < 0) continue;
        all[k] = (double)(end - begin) / 1e3;
        above[k] = all[k] - (double)(tool_ns(service) - tool) / 1e3;
    }
    printf("{\"trivial_above_us\": %.1f, \"trivial_us\": %.1f", median(above, TRIVIAL_ROUNDS),
           median(all, TRIVIAL_ROUNDS));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* ---- waking up ---- */

typedef struct echo {
    int64_t begin_ns, end_ns;
} echo;

static void answer_until_closed(int fd) {
    static char memory[4 << 20];
    char byte;
    for (;;) {
        if (recv(fd, &byte, 1, 0) <= 0) _exit(0);
        echo times = {.begin_ns = hn_now_ns()};
        while (hn_now_ns() < times.begin_ns + 3000000)
            for (size_t i = 0; i < sizeof memory; i += 64) memory[i]++;
        times.end_ns = hn_now_ns();
        if (send(fd, &times, sizeof times, MSG_NOSIGNAL) < 0) _exit(1);
    }
}

static void measure_waking(void) {
    double there[TRIVIAL_ROUNDS], back[TRIVIAL_ROUNDS];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("no socket");
    pid_t pid = fork();
    if (pid < 0) fail("no process");
    if (pid == 0) close(ends[0]), answer_until_closed(ends[1]);
    close(ends[1]);
    for (int k = 0; k < TRIVIAL_ROUNDS; k++) {
        echo times;
        int64_t begin = hn_now_ns();
        if (send(ends[0], "x", 1, MSG_NOSIGNAL) != 1 ||
            recv(ends[0], &times, sizeof times, MSG_WAITALL) != sizeof times)
            fail("no answer");
        int64_t end = hn_now_ns();
        there[k] = (double)(times.begin_ns - begin) / 1e3;
        back[k] = (double)(end - times.end_ns) / 1e3;
    }
    close(ends[0]);
    waitpid(pid, NULL, 0);
    printf(", \"message_us\": %.1f, \"wake_us\": %.1f", median(there, TRIVIAL_ROUNDS),
           median(back, TRIVIAL_ROUNDS));
}

/* ---- many kernels ---- */

static void call_kernel(void *address) {
    float p[8], q[8] = {1, 2, 3, 4, 5, 6, 7, 8}, r[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    ((void (*)(float *, const float *, const float *, long))address)(p, q, r, 8);
    if (!(p[0] == p[0])) fail("a kernel gave no number");
}

static double by_service(int count) {
    int64_t begin = hn_now_ns();
    hn_service *service = open_service("");
    hn_scope *scope;
    hn_future *futures[KERNELS_MAX];
    check(hn_scope_create(service, &scope));
    for (int k = 0; k < count; k++) {
        hn_strbuf text;
        hn_strbuf_init(&text);
        kernel_text(k, &text);
        futures[k] = submit(scope, "kernel", hn_strbuf_str(&text));
        hn_strbuf_deinit(&text);
    }
    check(hn_scope_wait(scope, NULL, NULL));
    double ms = ms_since(begin);
    for (int k = 0; k < count; k += 17) {
        char name[32];
        hn_artifact *artifact;
        hn_library *library;
        void *address;
        snprintf(name, sizeof name, "kernel_%d", k);
        check(hn_future_wait(futures[k], -1, &artifact));
        check(hn_artifact_load(artifact, &library));
        check(hn_library_symbol(library, name, &address));
        call_kernel(address);
        hn_library_close(library);
        hn_artifact_release(artifact);
    }
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return ms;
}

static void write_make(const char *dir, int count) {
    char path[PATH_MAX];
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (int k = 0; k < count; k++) {
        hn_strbuf_reset(&text);
        kernel_text(k, &text);
        snprintf(path, sizeof path, "%s/kernel_%d.c", dir, k);
        check(hn_file_write_atomic(path, text.ptr, text.len, false));
    }
    hn_strbuf_reset(&text);
    hn_strbuf_puts(&text, "all: $(patsubst %.c,%.so,$(wildcard *.c))\n%.so: %.c\n\t$(CC) ");
    for (int k = 0; k < FLAGS; k++) hn_strbuf_printf(&text, "%s ", flags[k]);
    hn_strbuf_puts(&text, "-fPIC -shared -o $@ $<\n");
    snprintf(path, sizeof path, "%s/Makefile", dir);
    check(hn_file_write_atomic(path, text.ptr, text.len, false));
    hn_strbuf_deinit(&text);
}

static double by_make(const char *dir, int count) {
    const char *cc = getenv("HENRY_CC");
    char command[PATH_MAX * 2], path[PATH_MAX];
    snprintf(command, sizeof command, "cd '%s' && rm -f *.so && make -s -r -j2 CC='%s'", dir,
             cc && cc[0] ? cc : "gcc");
    int64_t begin = hn_now_ns();
    if (system(command) != 0) fail("make failed");
    double ms = ms_since(begin);
    for (int k = 0; k < count; k += 17) {
        char name[32];
        snprintf(name, sizeof name, "kernel_%d", k);
        snprintf(path, sizeof path, "%s/%s.so", dir, name);
        void *library = dlopen(path, RTLD_NOW), *address = library ? dlsym(library, name) : NULL;
        if (!address) fail("what make built does not load");
        call_kernel(address);
        dlclose(library);
    }
    return ms;
}

static void measure_many(int count) {
    char dir[PATH_MAX - 300];
    double service[MAKE_ROUNDS], make[MAKE_ROUNDS], ratio[MAKE_ROUNDS];
    check(hn_dir_temp(dir, sizeof dir));
    write_make(dir, count);
    for (int r = 0; r < MAKE_ROUNDS; r++) {
        service[r] = by_service(count);
        make[r] = by_make(dir, count);
        ratio[r] = make[r] / service[r];
    }
    check(hn_dir_remove(dir));
    printf(", \"kernels\": %d, \"service_ms\": %.1f, \"make_ms\": %.1f, \"times\": %.2f", count,
           median(service, MAKE_ROUNDS), median(make, MAKE_ROUNDS), median(ratio, MAKE_ROUNDS));
}

/* ---- from the disk ---- */

static void disk_text(hn_strbuf *out) {
    hn_strbuf_puts(out, "static const unsigned char table[] = {");
    for (int k = 0; k < DISK_BYTES - 1200; k++) hn_strbuf_printf(out, "%d,", k * 37 % 251);
    hn_strbuf_puts(out, "};\nint look_up(int k) { return table[k & 2047]; }\n");
}

static void measure_disk(void) {
    char dir[PATH_MAX - 300];
    double us[DISK_ROUNDS];
    size_t len = 0;
    hn_strbuf text;
    check(hn_dir_temp(dir, sizeof dir));
    hn_strbuf_init(&text);
    disk_text(&text);
    for (int r = -2; r < DISK_ROUNDS; r++) {
        hn_service *service = open_service(dir);
        hn_scope *scope;
        hn_artifact *artifact;
        hn_library *library;
        void *address;
        hn_service_stats stats;
        check(hn_scope_create(service, &scope));
        /* The compiler is found by the first job of a service; that is no part of a hit. */
        static const char other[] = "int other(void) { return 0; }\n";
        check(hn_future_wait(submit(scope, "other", hn_str_of(other)), -1, NULL));
        int64_t begin = hn_now_ns();
        check(hn_future_wait(submit(scope, "look_up", hn_strbuf_str(&text)), -1, &artifact));
        check(hn_artifact_load(artifact, &library));
        check(hn_library_symbol(library, "look_up", &address));
        if (r >= 0) us[r] = ms_since(begin) * 1e3;
        if (((int (*)(int))address)(3) != 111) fail("a kernel from the disk is wrong");
        hn_service_stats_get(service, &stats);
        if (r >= 0 && stats.hits[HN_HIT_DISK] != 2) fail("not from the disk");
        hn_artifact_bytes(artifact, &len);
        hn_library_close(library);
        hn_artifact_release(artifact);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    hn_strbuf_deinit(&text);
    check(hn_dir_remove(dir));
    printf(", \"disk_hit_us\": %.1f, \"disk_bytes\": %zu}\n", median(us, DISK_ROUNDS), len);
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 200;
    if (count < 0 || count > KERNELS_MAX) fail("expected a number of kernels, at most 2000");
    measure_trivial();
    measure_waking();
    if (count) measure_many(count);
    measure_disk();
    return 0;
}
