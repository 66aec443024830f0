/* loops.h: loops by hand that do one thing as fast as this processor can: read, copy, fill, add,
 * multiply and add. One table of them for each width of vectors. */
#ifndef HN_MEASURE_LOOPS_H
#define HN_MEASURE_LOOPS_H

#include <stdint.h>

/* A thread's part. Addresses are multiples of 64, `elems` is one of HN_LOOP_ELEMS. */
typedef struct hn_loop_part {
    const float *from;
    float *to;
    int64_t elems, passes; /* floats of one pass; how often */
    float sum;             /* out: so that no read is in vain */
} hn_loop_part;

typedef void (*hn_loop_fn)(hn_loop_part *part);

enum { HN_LOOP_ELEMS = 1024, HN_LOOP_WAYS = 3 };

/* Of each kind all do the same in different ways, and which is the fastest is to be tried; NULL
 * behind the last. */
typedef struct hn_loops {
    const char *name; /* as in hn_cpu_level.ops */
    hn_loop_fn read[HN_LOOP_WAYS], copy[HN_LOOP_WAYS], fill[HN_LOOP_WAYS];
    /* In registers, which begin with HN_LOOP_ELEMS floats of `from`. A pass is HN_LOOP_ELEMS results:
     * additions of f32; products that are added up, of f32 and f64, which are two operations each */
    hn_loop_fn add, multiply_f32, multiply_f64;
} hn_loops;

/* The widest that this processor has. */
const hn_loops *hn_loops_get(void);

#endif
