/* check.h: what the programs of these folders share: reading operands, comparing what was written,
 * times. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "repro.h"

enum { COUNT = sizeof operands / sizeof *operands, RUNS_MIN = 20, RUNS_MAX = 10000 };
static unsigned char *memory[COUNT];

static void *allocate(long long bytes) {
    void *p = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "out of memory for %lld bytes\n", bytes);
        exit(2);
    }
    return p;
}

static void read_file(const char *name, void *to, long long bytes) {
    FILE *file = fopen(name, "rb");
    if (!file || (bytes && fread(to, 1, (size_t)bytes, file) != (size_t)bytes)) {
        fprintf(stderr, "cannot read %lld bytes of '%s'\n", bytes, name);
        exit(2);
    }
    fclose(file);
}

/* Operands that are one buffer have one memory. */
static void load(void) {
    for (int k = 0; k < COUNT; k++) {
        const struct operand *o = &operands[k];
        if (o->same_as < k) memory[k] = memory[o->same_as];
        else {
            if (!memory[k]) memory[k] = allocate(o->bytes);
            if (o->file) read_file(o->file, memory[k], o->bytes);
        }
    }
}

static double half(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double sign = h >> 15 ? -1 : 1;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double element(const char *type, const void *bytes, long long k) {
    uint16_t u;
    uint32_t wide;
    float f;
    if (!strcmp(type, "f64")) return ((const double *)bytes)[k];
    if (!strcmp(type, "f32")) return ((const float *)bytes)[k];
    if (!strcmp(type, "i64")) return (double)((const int64_t *)bytes)[k];
    if (!strcmp(type, "i32")) return ((const int32_t *)bytes)[k];
    if (!strcmp(type, "i16")) return ((const int16_t *)bytes)[k];
    if (!strcmp(type, "i8")) return ((const int8_t *)bytes)[k];
    if (strcmp(type, "f16") && strcmp(type, "bf16")) return ((const uint8_t *)bytes)[k];
    memcpy(&u, (const char *)bytes + 2 * k, 2);
    if (!strcmp(type, "f16")) return half(u);
    wide = (uint32_t)u << 16;
    memcpy(&f, &wide, 4);
    return f;
}

/* Whether operand k is as expected. */
static int compare(int k, double rtol) {
    const struct operand *o = &operands[k];
    const long long count = o->bytes / o->elem_bytes;
    unsigned char *expected = allocate(o->bytes);
    double largest = 0, worst = 0;
    long long differ = 0, first = -1;
    read_file(o->expected, expected, o->bytes);
    for (long long e = 0; e < count; e++) {
        const double want = element(o->type, expected, e);
        if (isfinite(want)) largest = fmax(largest, fabs(want));
    }
    for (long long e = 0; e < count; e++) {
        const double got = element(o->type, memory[k], e), want = element(o->type, expected, e);
        const double off = got == want || (isnan(got) && isnan(want)) ? 0 : fabs(got - want);
        if (off <= rtol * largest) {
            worst = fmax(worst, off);
            continue;
        }
        if (!differ++) first = e;
        worst = isnan(off) ? INFINITY : fmax(worst, off);
    }
    printf("operand %d (%s): ", k, o->type);
    if (differ)
        printf("%lld of %lld elements differ; element %lld is %.9g, expected %.9g; ", differ, count,
               first, element(o->type, memory[k], first), element(o->type, expected, first));
    printf("largest difference %g, largest element %g\n", worst, largest);
    free(expected);
    return !differ;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Ends the measurement of so many runs, in seconds. */
static void report_times(double *times, int runs, const char *where) {
    qsort(times, (size_t)runs, sizeof *times, by_value);
    printf("%.3f us %s, median of %d runs; best %.3f us\n", 1e6 * times[runs / 2], where, runs,
           1e6 * times[0]);
}

static int compare_all(double rtol) {
    int good = 1;
    for (int k = 0; k < COUNT; k++)
        if (operands[k].expected) good &= compare(k, rtol);
    return good;
}
