/* roof.h: the least time that a step can take on a machine: its bytes at the rates of where they are,
 * or its operations, whichever takes longer. */
#ifndef HN_MEASURE_ROOF_H
#define HN_MEASURE_ROOF_H

#include "measure/reuse.h"

/* What a step must do, each byte once. */
typedef struct hn_roof_work {
    double read_bytes, written_bytes, operations;
    hn_ceiling_math math; /* what the operations are */
} hn_roof_work;

typedef struct hn_roof {
    double move_ns, math_ns; /* of the bytes, and of the operations */
    double ns;               /* the longer of the two */
    const char *limit;       /* "L2", "memory", "compute": what it comes from; "" for 0 */
} hn_roof;

/* `reuse`: where the step's operands are; the bytes of `work` are taken as shared out to levels as
 * these are. A step without operands finds all at the farthest level. */
hn_roof hn_roof_of(const hn_ceilings *ceilings, const hn_roof_work *work, const hn_reuse *reuse);

/* The same for a whole run that were one step: `given` bytes are read, `made` written, and nothing
 * between them leaves the processor. `operations_ns`: of all steps, by their ceilings. */
hn_roof hn_roof_of_run(const hn_ceilings *ceilings, double given_bytes, double made_bytes,
                       double operations_ns);

#endif
