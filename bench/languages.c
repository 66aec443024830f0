/* languages.c: what compiling costs in each language of the compile service: the first small kernel
 * (which may load the compiler), one more in a warm worker, ten kernels in ten jobs one after the
 * other, and the same ten in one job. Languages whose compiler is missing are left out with a line.
 *
 *     build/bench_languages [LANGUAGE]... */
#include "bench/median.h"
#include "henry/kernel.h"

#include "base/str.h"
#include "base/trace.h"

#include <stdio.h>
#include <stdlib.h>

enum { KERNELS = 10, ROUNDS = 5 };

typedef struct subject {
    /* text: with %d for the number of the kernel, twice */
    const char *language, *text, *entry, *target;
} subject;

static const subject subjects[] = {
    {"c", "void k%d(float *p, long n) { for (long i = 0; i < n; i++) p[i] = p[i] * %d + 1; }\n",
     "k%d", NULL},
    {"c++",
     "extern \"C\" void k%d(float *p, long n) { for (long i = 0; i < n; i++) p[i] = p[i] * %d + 1; }\n",
     "k%d", NULL},
    {"python",
     "extern \"C\" void k%d(float *p, long n) { for (long i = 0; i < n; i++) p[i] = p[i] * %d + 1; }\n",
     "void k%d(ptr, i64)", NULL},
    {"cuda",
     "extern \"C\" __global__ void k%d(float *p) { int i = blockIdx.x * 256 + threadIdx.x; p[i] = p[i] * %d + 1; }\n",
     "k%d", "sm_90"},
    {"nvcc",
     "extern \"C\" __global__ void k%d(float *p) { int i = blockIdx.x * 256 + threadIdx.x; p[i] = p[i] * %d + 1; }\n",
     "k%d", "sm_90"},
};

static void check(hn_status status) {
    if (!status) return;
    fprintf(stderr, "bench_languages: %s\n", hn_status_message(status));
    exit(1);
}

/* Submits kernels `first` to `first + count - 1` as one job. */
static hn_status submit(hn_scope *scope, const subject *s, int first, int count, hn_future **out) {
    char entries[KERNELS][32];
    const char *names[KERNELS], *flags[] = {"-O2"};
    bool is_gpu = s->target != NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (int k = 0; k < count; k++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        hn_strbuf_printf(&text, s->text, first + k, first + k);
        snprintf(entries[k], sizeof entries[k], s->entry, first + k);
#pragma GCC diagnostic pop
        names[k] = entries[k];
    }
    const hn_source source = {.name = s->language,
                              .language = s->language,
                              .text = hn_strbuf_str(&text).ptr,
                              .text_len = text.len,
                              .entries = names,
                              .entry_count = (size_t)count,
                              .flags = flags,
                              .flag_count = is_gpu ? 0 : 1,
                              .target = &s->target,
                              .target_count = is_gpu ? 1 : 0};
    hn_status status = hn_compile_submit(scope, &source, out);
    hn_strbuf_deinit(&text);
    return status;
}

static double run(hn_scope *scope, const subject *s, int first, int count) {
    hn_future *future;
    int64_t begin = hn_now_ns();
    check(submit(scope, s, first, count, &future));
    check(hn_future_wait(future, -1, NULL));
    return (double)(hn_now_ns() - begin) / 1e6;
}

static void measure(hn_scope *scope, const subject *s) {
    hn_future *future;
    int64_t begin = hn_now_ns();
    hn_status status = submit(scope, s, 0, 1, &future); /* this finds the compiler */
    if (status) {
        printf("%-8s left out: %s\n", s->language, hn_status_message(status));
        hn_status_free(status);
        return;
    }
    check(hn_future_wait(future, -1, NULL));
    double first = (double)(hn_now_ns() - begin) / 1e6, one[ROUNDS], ten[ROUNDS], joint[ROUNDS];
    int next = 1;
    for (int r = 0; r < ROUNDS; r++) {
        one[r] = run(scope, s, next++, 1);
        ten[r] = 0;
        for (int k = 0; k < KERNELS; k++) ten[r] += run(scope, s, next++, 1);
        joint[r] = run(scope, s, next, KERNELS);
        next += KERNELS;
    }
    printf("%-8s %9.1f %9.1f %9.1f %9.1f\n", s->language, first, median(one, ROUNDS),
           median(ten, ROUNDS), median(joint, ROUNDS));
}

int main(int argc, char **argv) {
    printf("ms       first job   one more  ten jobs  ten in one job\n");
    for (size_t k = 0; k < sizeof subjects / sizeof subjects[0]; k++) {
        hn_service *service;
        hn_scope *scope;
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], subjects[k].language) == 0;
        if (!wanted) continue;
        check(hn_service_create(
            &(hn_service_options){.threads = 2, .cache_dir = "", .remote_url = ""}, &service));
        check(hn_scope_create(service, &scope));
        measure(scope, &subjects[k]);
        fflush(stdout);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    return 0;
}
