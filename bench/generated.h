/* generated.h: Henry's side of benchmarks that have loops by hand: a graph compiled for one size, on
 * memory of the caller's. */
#ifndef HN_BENCH_GENERATED_H
#define HN_BENCH_GENERATED_H

#include "driver/driver.h"
#include "henry/module.h"

enum { GENERATED_INPUTS = 4 };

typedef struct generated {
    hn_module *module; /* with a profile */
    hn_tensor *inputs[GENERATED_INPUTS], *output;
    uint32_t input_count; /* so far */
} generated;

typedef struct generated_wanted {
    const char *name; /* "softmax": of the table in generated.c */
    int64_t rows, cols, depth;
    int threads;
} generated_wanted;

/* Errors: not-found for a name that the table has not; those of compiling. */
hn_status generated_make(const generated_wanted *wanted, hn_service *service,
                         generated *out) HN_MUST_USE;
/* The inputs in order, and then the output. */
hn_status generated_give(generated *g, void *memory) HN_MUST_USE;
hn_status generated_run(generated *g) HN_MUST_USE;
void generated_deinit(generated *g);

#endif
