/* chains.h: several kernels, one behind the other, as one candidate: two ways to divide work among
 * kernels. Internal: for the compiler. */
#ifndef HN_TUNE_CHAINS_H
#define HN_TUNE_CHAINS_H

#include "henry/bench.h"

/* Kernels in the order in which they run, each with arguments of its own. Borrowed. */
typedef struct hn_bench_chain {
    const char *name;
    const hn_bench_subject *const *subjects;
    const hn_bench_kernel *const *kernels;
    uint32_t count;
    double more_ns; /* that a program takes for them besides: for calling, or launching */
} hn_bench_chain;

/* Lets chains race, as hn_bench_kernels does kernels: a chain is out when one of its kernels does
 * not compile, load or run, or is not what its subject's reference makes. A time is the sum of the
 * kernels', by the clock of the device, if it has one. `options` may be NULL. Owns: the caller
 * destroys the report. Errors: as hn_bench. */
hn_status hn_bench_chains(const hn_bench_options *options, const hn_bench_chain *chains,
                          uint32_t count, hn_bench_report **out) HN_MUST_USE;

#endif
