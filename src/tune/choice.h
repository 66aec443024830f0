/* choice.h: from times at some sizes to a decision table over all sizes: which variant of a kernel
 * runs where. A pure function: equal times give equal tables. Tables: base/choice.h.
 *
 * At each size that was timed, those variants will do that are within `least_gain` of the one that
 * was picked there (without a pick: of the fastest); or within 10 %, where their intervals of
 * confidence meet. Where the fallback is one of them it stays. Between two sizes that were timed,
 * the border is their geometric mean; beyond the outermost ones there is none. Combinations of
 * sizes that were not timed are like the nearest one that was, by the sum of the differences of
 * log2. Neighbours for which the same variant will do become one box. */
#ifndef HN_TUNE_CHOICE_H
#define HN_TUNE_CHOICE_H

#include "base/choice.h"
#include "tune/record.h"

/* Of a variant at one set of sizes. Units: nanoseconds. `ns` 0: not timed, or it cannot run there.
 * Without an interval `low` and `high` are `ns`. */
typedef struct hn_choice_time {
    double ns, low_ns, high_ns;
} hn_choice_time;

/* The sizes at which a variant may run, both ends included: INT64_MIN, INT64_MAX: no bound. */
typedef struct hn_choice_limit {
    int64_t lo[HN_TUNING_SIZES_MAX], hi[HN_TUNING_SIZES_MAX];
} hn_choice_limit;

#define HN_CHOICE_LEAST_GAIN 0.02
#define HN_CHOICE_ANY        UINT32_MAX

typedef struct hn_choice_times {
    uint32_t size_count;           /* at most HN_TUNING_SIZES_MAX */
    uint32_t variant_count;        /* 1 to HN_CHOICE_VARIANTS */
    uint32_t sample_count;         /* sets of sizes, at most 65536; 0: the table has no boxes */
    const int64_t *sizes;          /* [sample_count][size_count] */
    const hn_choice_time *times;   /* [sample_count][variant_count] */
    const hn_choice_limit *limits; /* of each variant; NULL: there are none */
    /* of each sample: the variant that was picked, which has a time; HN_CHOICE_ANY: the
     * fastest. NULL: no sample has one. A pick is the verdict of a race, whose pairs say more
     * than medians */
    const uint32_t *picks;
    /* the variant for all other sizes, without limits; HN_CHOICE_ANY: the one without limits that
     * is nearest to the fastest over all samples, of equal ones the first. Where all samples are of
     * the same sizes, it is the one that is the fastest there, whatever stands here */
    uint32_t fallback;
    double least_gain; /* 0: HN_CHOICE_LEAST_GAIN */
} hn_choice_times;

typedef struct hn_choice_made {
    hn_choice_table table;
    uint32_t axes[HN_CHOICE_AXES]; /* which of the sizes the table looks at, ascending */
} hn_choice_made;

/* Makes the table. It looks at three sizes at most: those that a limit is about, then those with
 * the most values. Where there are more than HN_CHOICE_BOXES, those stay that gain most. Errors:
 * invalid-argument for counts out of range, times that are none, or no variant that runs at every
 * size; out-of-memory. */
hn_status hn_choice_make(const hn_choice_times *times, hn_arena *scratch,
                         hn_choice_made *out) HN_MUST_USE;

/* Times from records of one kernel, set and device: `variants` are the forms that can be chosen. A
 * record's pick is that of its sample, and times are by the ratios to it, where they are known. Of
 * a record whose pick was "forced" the pick alone counts, and it is certain. Records of another
 * number of sizes are left out. Owns: lists live in `arena`. */
hn_status hn_choice_times_of(const hn_tuning_record *const *records, uint32_t record_count,
                             const hn_form_name *variants, uint32_t variant_count, hn_arena *arena,
                             hn_choice_times *out) HN_MUST_USE;

#endif
