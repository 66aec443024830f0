/* shipped.h: steps of a bundle that it has in several forms, kernels and calls of operations, as
 * subjects of a race: at which sizes, on which arguments, and how each form is called. Internal to
 * src/tune. */
#ifndef HN_TUNE_SHIPPED_H
#define HN_TUNE_SHIPPED_H

#include "base/arena.h"
#include "bundle/view.h"
#include "henry/bench.h"
#include "tune/calls.h"
#include "tune/record.h"

enum { HN_SHIPPED_SAMPLES = 24 };

/* A step with a table. */
typedef struct hn_shipped {
    const hn_bundle *b;
    const hnb_choice *choice;
    const hnb_step *step;
    uint32_t target;
    uint32_t symbols[HN_TUNING_SIZES_MAX]; /* of the bundle, that its calls depend on, */
    uint32_t axes[HN_TUNING_SIZES_MAX];    /* and their expressions */
    uint32_t symbol_count;
    uint32_t sample_count;
    int64_t sizes[HN_SHIPPED_SAMPLES * HN_TUNING_SIZES_MAX]; /* [sample][symbol]; the hints first */
    int64_t *values;  /* of the bundle's symbols, at the sample at hand, */
    int64_t *numbers; /* and of its expressions; `bad`: it has no value */
    uint8_t *bad;
} hn_shipped;

/* False in `*out_is_tunable`: its sizes are known only as the program runs, or are too many. Owns:
 * in `arena`; borrows the bundle. Errors: out-of-memory. */
hn_status hn_shipped_init(const hn_bundle *b, const hnb_choice *choice, hn_arena *arena,
                          hn_shipped *out, bool *out_is_tunable) HN_MUST_USE;
/* From here on sizes are those of sample k. */
void hn_shipped_at(hn_shipped *s, uint32_t sample);
/* The arguments and calls of all forms, at the sample at hand. Owns: in `arena`. Errors:
 * unsupported for what cannot be made up; corrupt; out-of-memory. */
hn_status hn_shipped_subject(const hn_shipped *s, hn_arena *arena, hn_bench_subject *out_subject,
                             hn_bench_kernel **out_kernels) HN_MUST_USE;
/* The same of a call of an operation, without its device and threads; its forms, and their names.
 * Errors: as above. */
hn_status hn_shipped_call(const hn_shipped *s, hn_arena *arena, hn_call_subject *out_subject,
                          hn_ext_form **out_forms, const char ***out_names) HN_MUST_USE;
/* What decides the times of the forms, at all samples: steps with the same digest are timed once.
 * Errors: as hn_shipped_subject. */
hn_status hn_shipped_digest(hn_shipped *s, hn_arena *arena, hn_digest *out) HN_MUST_USE;

#endif
