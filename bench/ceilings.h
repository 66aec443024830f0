/* ceilings.h: what ceilings.c (the loops) and ceilings_turns.c (their times) share. */
#ifndef HN_BENCH_CEILINGS_H
#define HN_BENCH_CEILINGS_H

#include "bench/generated.h"
#include "bench/kernels_by_hand.h"

enum { ROWS = 16384, COLS = 1024, SIDE = 4096, DEPTH = 50257, LOOPS_MAX = 32 };

/* `unit`: rows (of a square: columns) of a unit of work. `words`: what the kernel must move, in
 * 4-byte elements for each of the rows times cols. */
typedef struct loop {
    const char *kernel, *name;
    hand_fn *fn;
    int unit, words;
    /* square: SIDE x SIDE; table: the index picks rows of a table of DEPTH rows */
    bool part, square, table;
} loop;

typedef struct run_options {
    int threads;
    double seconds;
    bool small_pages;
    const char *part;
} run_options;

static inline bool has_index(const loop *l) { return l->table || strcmp(l->kernel, "gather") == 0; }

/* The loops of one kernel, at most LOOPS_MAX, and the generated kernel, in turns; a line for each on
 * stdout. `own_out`: memory for the generated kernel's results. Errors: a result is wrong; those of
 * compiling. */
hn_status run_kernel(const loop *first, int count, hand_args a, const hand_args *copied,
                     float *own_out, const run_options *o, hn_service *service) HN_MUST_USE;

#endif
