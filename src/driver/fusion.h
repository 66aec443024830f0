/* fusion.h: fusions that tuning found to be slower than the kernels apart, and the tuning of them.
 *
 * What is decided is a pair of operations, "add" and "layer_norm": whether loops of such nodes may
 * be in one kernel. So equal layers have one decision. It is a tuning record of two forms, "fused"
 * and "apart", whose digest is that of the two names. */
#ifndef HN_DRIVER_FUSION_H
#define HN_DRIVER_FUSION_H

#include "driver/picked.h"

enum { HN_FUSION_PAIRS_MAX = 64 };

typedef struct hn_fusion_pair {
    hn_str a, b; /* operations, in the order of their names */
    bool is_apart;
    bool is_known; /* a record said so before */
    bool is_timed; /* ... or says so now */
} hn_fusion_pair;

/* Of a compilation: what the scheduler asks (base/limit.h). hn_driver.fusion is NULL where nothing
 * is apart, and nothing is to be tuned: then it asks nobody. */
typedef struct hn_driver_fusion {
    hn_limit limit;
    const hn_graph *graph;
    /* those that a record is about, and those that the scheduler has asked about */
    hn_fusion_pair pairs[HN_FUSION_PAIRS_MAX];
    uint32_t count;
    uint64_t timed_calls; /* of races */
} hn_driver_fusion;

/* A record's forms, and what it knows the pair by. */
enum { HN_FUSION_FUSED, HN_FUSION_APART, HN_FUSION_FORMS };
extern const hn_form_name hn_fusion_forms[HN_FUSION_FORMS];
hn_digest hn_fusion_digest(const hn_fusion_pair *p);
/* The pair of a record; false: it is about something else. */
bool hn_fusion_read(const hn_tuning_record *r, hn_fusion_pair *out);

/* fusion.c: takes the decisions of the records that count here, before anything is scheduled. Once
 * the picks are there. Errors: those of reading records; out-of-memory. */
hn_status hn_driver_fusion_begin(hn_driver *d) HN_MUST_USE;

/* tune_fusion.c: where the options say so, pairs of the scheduled program race: the kernels that
 * are other ones without the pair, against those with it. What is certainly faster apart is apart
 * from then on, and the program is scheduled again. Errors: out-of-memory; cancelled; those of
 * scheduling. */
hn_status hn_driver_tune_fusion(hn_driver *d) HN_MUST_USE;

#endif
