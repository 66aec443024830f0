/* standin_stats.c: the kernels of src/runtime/tensor_stats.cu for cuda_standin.c: their text, in C,
 * with one thread in a group. */
#include "tests/support/standin_stats.h"

#include <string.h>

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned char u8;

static double bits_as_f64(u64 bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static u64 f64_as_bits(double x) {
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static _Thread_local i64 group;

/* As stats_text.c and hn_scalar_type have them. */
enum { F64 = 1, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL };
#define RANK         8
#define BATCH        8
#define THREADS      1
#define AS_F64(x)    bits_as_f64(x)
#define AS_U64(x)    f64_as_bits(x)
#define FN           static
#define KERNEL       static
#define MEMORY(name) u8 *name##_begin
#define BEGIN(name)  ((void)status_begin, (void *)name##_begin)
#define GLOBAL
#define LOCAL
#define SHARED
#define GROUP  group
#define THREAD 0
#define BARRIER
#include "src/runtime/tensor_stats.cu"

void standin_stats(unsigned char *x, unsigned char *parts, unsigned groups, const uint64_t *args) {
    i64 n[21];
    memcpy(n, args, sizeof n);
    for (group = 0; group < groups; group++)
        hn_tensor_stats(x, parts, NULL, n[0], n[1], groups, n[3], n[4], n[5], n[6], n[7], n[8],
                        n[9], n[10], n[11], n[12], n[13], n[14], n[15], n[16], n[17], n[18], n[19],
                        n[20]);
}

void standin_stats_join(unsigned char *parts, uint64_t groups) {
    group = 0;
    hn_tensor_stats_join(parts, NULL, (i64)groups);
}
