/* reuse.h: how far away a step's memory is: what was touched since it was touched last.
 *
 * A run is taken as one of many: what its first steps read was touched by the run before. The caches
 * are taken as full of what was touched last, whatever that was. A byte is at the nearest level that
 * holds all that was touched since, beginning with the step that touched the byte itself. Where that
 * is more than a level holds, the part that it holds is there and the rest farther away: the best that
 * any cache could keep. */
#ifndef HN_MEASURE_REUSE_H
#define HN_MEASURE_REUSE_H

#include "measure/ceilings.h"

/* Memory that a step reads or writes. */
typedef struct hn_touch {
    uint32_t step; /* its number in the order of the run, not that of the program; ascending */
    bool is_written;
    uint64_t address;
    int64_t bytes;
} hn_touch;

/* Of one step: how many bytes it finds at each level, of what it reads and of what it writes. */
typedef struct hn_reuse {
    double read[HN_CEILING_LEVELS], written[HN_CEILING_LEVELS];
} hn_reuse;

/* Of a whole run. */
typedef struct hn_footprint {
    double bytes;       /* different ones that it touches; of these: */
    double given_bytes; /* it reads them before it writes them: inputs and weights */
} hn_footprint;

/* `out`: one for each of `step_count` steps. Time: linear in the touches, but for a logarithm, where
 * memory is not cut into ever smaller pieces. Errors: invalid-argument for a step out of order;
 * out-of-memory. */
hn_status hn_reuse_of(const hn_touch *touches, uint32_t count, uint32_t step_count,
                      const hn_ceilings *ceilings, hn_reuse *out,
                      hn_footprint *out_footprint) HN_MUST_USE;

#endif
