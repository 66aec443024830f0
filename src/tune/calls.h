/* calls.h: which form of a call of an operation (ops/cpu/forms.h) is the fastest, on operands that
 * are made up. */
#ifndef HN_TUNE_CALLS_H
#define HN_TUNE_CALLS_H

#include "henry/bench.h"
#include "ops/cpu/forms.h"

/* A call at one set of sizes. */
typedef struct hn_call_subject {
    hn_extern_kind kind;
    const int64_t *params; /* as many as the kind has */
    /* per operand; of one that is absent the dtype is 0 */
    uint8_t dtypes[HN_EXT_MAX_OPERANDS];
    bool is_constant[HN_EXT_MAX_OPERANDS], is_written[HN_EXT_MAX_OPERANDS];
    int64_t bytes[HN_EXT_MAX_OPERANDS], offset_bytes[HN_EXT_MAX_OPERANDS]; /* of its buffer */
    /* Constants of all calls of the program: a run goes through them before it comes back. 0: those
     * of this call. */
    int64_t constant_bytes;
    int threads;      /* of the CPU, 1 or more */
    hn_device device; /* that does it */
} hn_call_subject;

/* Lets the forms race; names are for messages. A form that the call cannot have, or whose result is
 * not that of the first one that runs, is out. Constants are packed once for all forms, as they are
 * once for a module. Of a program with more constants there are several copies of the call's, which
 * its calls take in turn: so caches have no more of them than they have in a run. Owns: the caller destroys the report. Errors: those of hn_bench;
 * out-of-memory; unsupported for memory that is too large to be made up. */
hn_status hn_bench_call_forms(const hn_bench_options *options, const hn_call_subject *subject,
                              const hn_ext_form *forms, const char *const *names, uint32_t count,
                              hn_bench_report **out) HN_MUST_USE;

#endif
