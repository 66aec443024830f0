/* bisect.h: who turns a right result wrong: a pass and a rewrite in it, a fusion, a kernel, a call,
 * or memory that somebody else has overwritten.
 *
 * The model runs as usual. If its results are wrong, the graph is run by the reference interpreter
 * after each pass; of the first pass behind which it is wrong, the first wrong rewrite is found by
 * letting the pass do only its first N (base/limit.h) and halving. When all passes are right, each
 * step of a real run is compared with the reference of its line (interp/reference.h), and the first
 * wrong fusion is found by halving as well. */
#ifndef HN_BISECT_BISECT_H
#define HN_BISECT_BISECT_H

#include "bisect/subject.h"

typedef enum hn_finding_kind {
    HN_FINDING_IMPORT,  /* the import, functionalize or decompose: the reference is wrong itself */
    HN_FINDING_PASS,    /* a pass, and none of its rewrites */
    HN_FINDING_REWRITE, /* of a pass */
    HN_FINDING_FUSION,  /* or another rewrite behind the passes */
    HN_FINDING_KERNEL,  /* does not compute what its loops say */
    HN_FINDING_CALL,    /* of an operation, likewise */
    HN_FINDING_MEMORY,  /* a step has overwritten what a later one reads */
    HN_FINDING_LOWER    /* none of these: the lowering, or what only all steps together do wrong */
} hn_finding_kind;

/* Strings live as long as the subject; "" where there is nothing to tell. */
typedef struct hn_finding {
    hn_finding_kind kind;
    hn_str pass, rule;
    hn_str node, source; /* of the model */
    hn_str other;        /* a second node that the rule has brought together with it */
    hn_str step;         /* kernel or operation, */
    hn_str program;      /* of this program: hn_step_info.program */
    uint32_t number;     /* of the rewrite or fusion among `total`, from 1; of the step, from 0 */
    uint32_t total;
    hn_str why; /* the difference */
} hn_finding;

enum { HN_FINDINGS_MAX = 4 };

typedef struct hn_bisect_result {
    bool is_wrong;
    hn_str why; /* the difference of the whole program */
    hn_finding findings[HN_FINDINGS_MAX];
    uint32_t count;
    uint32_t runs; /* of the program or of its graph */
} hn_bisect_result;

/* "kernel". */
const char *hn_finding_name(hn_finding_kind kind);

/* `whole`: the subject as it is compiled usually, loaded. `note` (may be NULL) is told what comes
 * next, in a few words.
 * Errors: those of compiling and running, of which the program may have its own. */
hn_status hn_bisect(hn_subject *s, hn_build *whole, void (*note)(void *user, const char *text),
                    void *user, hn_bisect_result *out) HN_MUST_USE;

#endif
