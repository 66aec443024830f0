/* compile_service.c: the compile service on its own: ten kernels in two languages, compiled in
 * parallel, then called.
 *
 *     cc compile_service.c $(pkg-config --cflags --libs henry) -o compile_service
 *     ./compile_service
 *
 * The second run finds all of them in the cache. */
#include <henry/kernel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS = 10, COUNT = 5 };

/* Even numbers are C, odd ones C++ with its library. Kernel k adds up the k-th powers of its
 * input. */
static const char c_text[] = "double power_sum_%d(const double *x, int n) {\n"
                             "    double sum = 0;\n"
                             "    for (int i = 0; i < n; i++) {\n"
                             "        double p = 1;\n"
                             "        for (int k = 0; k < %d; k++) p *= x[i];\n"
                             "        sum += p;\n"
                             "    }\n"
                             "    return sum;\n"
                             "}\n";
static const char cxx_text[] =
    "#include <cmath>\n"
    "#include <numeric>\n"
    "extern \"C\" double power_sum_%d(const double *x, int n) {\n"
    "    return std::accumulate(x, x + n, 0.0, [](double s, double v) { return s + std::pow(v, %d); });\n"
    "}\n";

static void check(hn_status status) {
    if (!status) return;
    fprintf(stderr, "compile_service: %s\n", hn_status_message(status));
    exit(1);
}

/* One line that is overwritten. */
static bool show(void *context, const hn_scope_progress *p) {
    char line[256];
    (void)context;
    fprintf(stderr, "\r%s\033[K", hn_scope_progress_line(p, line, sizeof line));
    return true; /* false would cancel the rest */
}

static double call(hn_future *future, const char *name) {
    const double x[COUNT] = {1, 2, 3, 4, 5};
    hn_artifact *artifact;
    hn_library *library;
    void *address;
    double (*kernel)(const double *, int);
    check(hn_future_wait(future, -1, &artifact));
    check(hn_artifact_load(artifact, &library));
    check(hn_library_symbol(library, name, &address));
    memcpy(&kernel, &address, sizeof kernel); /* ISO C has no cast from data to code */
    double result = kernel(x, COUNT);
    hn_library_close(library);
    hn_artifact_release(artifact);
    return result;
}

int main(void) {
    static char names[KERNELS][32], texts[KERNELS][512];
    hn_service *service;
    hn_scope *scope;
    hn_future *futures[KERNELS];
    check(hn_service_create(NULL, &service));
    check(hn_scope_create(service, &scope));
    for (int k = 0; k < KERNELS; k++) {
        const char *entries[] = {names[k]}, *flags[] = {"-O2"};
        snprintf(names[k], sizeof names[k], "power_sum_%d", k);
        snprintf(texts[k], sizeof texts[k], k % 2 ? cxx_text : c_text, k, k);
        check(hn_compile_submit(scope,
                                &(hn_source){.name = names[k],
                                             .language = k % 2 ? "c++" : "c",
                                             .text = texts[k],
                                             .text_len = strlen(texts[k]),
                                             .entries = entries,
                                             .entry_count = 1,
                                             .flags = flags,
                                             .flag_count = 1},
                                &futures[k]));
    }
    bool is_terminal = isatty(2) == 1;
    check(hn_scope_wait(scope, is_terminal ? show : NULL, NULL));
    if (is_terminal) fputc('\n', stderr);
    for (int k = 0; k < KERNELS; k++) printf("%s: %.0f\n", names[k], call(futures[k], names[k]));

    hn_service_stats stats;
    hn_service_stats_get(service, &stats);
    fprintf(stderr, "%llu compiled, %llu found in the cache\n", (unsigned long long)stats.compiled,
            (unsigned long long)stats.hits[HN_HIT_DISK]);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return 0;
}
