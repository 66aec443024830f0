/* henry/tune.h: measure the kernels of a program on this machine, and keep what came out.
 *
 *     hn_compile_options options = {.tune = HN_TUNE_MISSING, .tune_budget_ns = 30000000000};
 *     hn_compiled *compiled;
 *     hn_tune_report *report;
 *     HN_TRY(hn_tune_file("model.pt2", &options, &compiled, &report));
 *     for (uint32_t k = 0; k < report->kernel_count; k++)
 *         printf("%s: %s\n", report->kernels[k].name,
 *                report->kernels[k].forms[report->kernels[k].pick].name);
 *     hn_tune_report_destroy(report);
 *
 * A kernel can be written in several forms: along rows or down columns, in tiles, with more or
 * fewer threads. A model of costs says which one is expected to be the fastest; tuning lets the
 * forms race (henry/bench.h). What was found out is kept as tuning records, in the cache and in the
 * report: docs/tuning.md. Later compilations of the model use the records and time nothing.
 *
 * Link libhenry. This part of the API is young: it may change more than the rest. */
#ifndef HENRY_TUNE_H
#define HENRY_TUNE_H

#include "henry/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hn_tuned_how {
    HN_TUNED_GUESS = 0, /* by the model of costs: nothing is known, `why` says why */
    HN_TUNED_KNOWN = 1, /* by records that were there */
    HN_TUNED_NOW = 2    /* by what was measured just now */
} hn_tuned_how;

/* A form of a kernel. Units: nanoseconds of one run of it. */
typedef struct hn_tuned_form {
    const char *name, *parameters; /* "rows-split", "streams=4"; parameters may be "" */
    uint32_t samples;              /* 0: it was not timed, and the three behind are 0 */
    double median_ns, low_ns, high_ns;
    /* Its time over that of the form that won, in the same rounds, and the interval that it lies
     * in; the winner's are 1. They say more than the times, which were not all taken together. 0:
     * not known. */
    double ratio, ratio_low, ratio_high;
    double predicted_ns; /* by the model of costs; 0: it has no opinion */
    bool is_extra;       /* found by a search; the planner does not offer it by itself */
    const char *why;     /* why it takes no part; "": it does */
} hn_tuned_form;

/* Equal kernels of a program, at one set of sizes. */
typedef struct hn_tuned_kernel {
    const char *name;   /* of the node that the kernel is named after */
    const char *digest; /* what records know it by: 64 hexadecimal digits */
    const char *target; /* "x86-64-v3" */
    const char *sizes;  /* "s0=64 s1=8"; "": all its sizes are known */
    uint32_t launches;  /* of a run */
    /* of the kernels' time, at the sizes that are expected, as the model of costs has it: 0 to 1;
     * at other sizes 0 */
    double share;
    hn_tuned_how how;
    const char
        *why; /* of GUESS: "it has one form"; of KNOWN where the records were: "the cache"; "" */
    const hn_tuned_form *forms; /* the first one is the model's guess */
    uint32_t form_count;        /* 1 or more */
    uint32_t pick;              /* of `forms` */
    bool is_certain;            /* every other form certainly takes longer */
} hn_tuned_kernel;

/* Whether loops of nodes of two operations are to be in one kernel. Units: nanoseconds of one run
 * of the kernels that are about it; 0: they failed. */
typedef struct hn_tuned_fusion {
    const char *name; /* "add and layer_norm" */
    bool is_apart;    /* they certainly take less apart */
    bool was_timed;   /* just now, not before */
    double fused_ns, apart_ns;
} hn_tuned_fusion;

typedef struct hn_tune_report {
    const hn_tuned_kernel *kernels; /* by their share, the largest first */
    uint32_t kernel_count;
    uint32_t timed_kernels; /* of those */
    uint64_t timed_calls;   /* of kernels, for samples; 0: all was known */
    int64_t elapsed_ns;     /* of the measurements, with the compilers that they waited for */
    bool is_complete;       /* the budget was enough */
    const char *records;    /* the text of a file for hn_compile_options.tuning: a record a line */
    size_t records_len;
    const hn_tuned_fusion *fusions; /* of hn_compile_options.tune_fusion, and of records */
    uint32_t fusion_count;
} hn_tune_report;

/* Compiles a model as hn_compile_file does, and tunes it as `options->tune` says; HN_TUNE_KNOWN is
 * taken as HN_TUNE_MISSING. The cache of graphs is not looked at, but gets the program. `out` may
 * be NULL. Owns: the caller releases `*out` and destroys `*out_report`. Errors: as hn_compile_file;
 * unsupported when this machine cannot run the kernels. A kernel whose forms all fail keeps the
 * form that is expected to be the fastest; that is a warning. */
HN_API hn_status hn_tune_file(const char *path, const hn_compile_options *options,
                              hn_compiled **out, hn_tune_report **out_report) HN_MUST_USE;
HN_API void hn_tune_report_destroy(hn_tune_report *report); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
