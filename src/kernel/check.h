/* check.h: what the functions share that build, verify, print, read and run forms; internal to
 * src/kernel. */
#ifndef HN_KERNEL_CHECK_H
#define HN_KERNEL_CHECK_H

#include "kernel/form.h"

/* Blocks within blocks: more are refused, so that walks over a form may be recursive. */
enum { HN_FORM_DEPTH_MOST = 64 };

/* Arguments that hn_form_memory.may_alias can name. */
enum { HN_FORM_ALIASES_MAX = 64 };

/* Where a statement stands: bits. */
typedef enum hn_form_region {
    HN_FORM_IN_GROUP = 1, /* of a form of groups: anywhere */
    HN_FORM_IN_RANGE = 2, /* of a form of ranges: outside of LANES; */
    HN_FORM_IN_LANES = 4, /* in LANES, outside of VECTORs; */
    HN_FORM_IN_VECTOR = 8 /* in a VECTOR */
} hn_form_region;

/* verify_rules.c. Errors: internal. */
hn_status hn_form_check_place(const hn_form_stmt *stmt, hn_form_region region) HN_MUST_USE;
hn_status hn_form_check_attributes(const hn_form_stmt *stmt) HN_MUST_USE;
hn_status hn_form_check_steps(const hn_form_stmt *stmt) HN_MUST_USE; /* of a LANES */
hn_status hn_form_check_blocks(const hn_form *f) HN_MUST_USE;        /* of groups */
/* verify_segments.c. Errors: internal. */
hn_status hn_form_check_segments(const hn_form *f, hn_arena *scratch) HN_MUST_USE;

/* The part of a form that an error is about. */
typedef enum hn_form_part {
    HN_FORM_PART_WHOLE,
    HN_FORM_PART_MEMORY,
    HN_FORM_PART_REGISTER,
    HN_FORM_PART_STMT
} hn_form_part;
typedef struct hn_form_place {
    hn_form_part part;
    uint32_t id;
} hn_form_place;

/* Whether a statement of this kind has a body, and whether it has an else as well. */
static inline bool hn_form_kind_branches(hn_form_kind kind) {
    return kind == HN_FORM_IF || kind == HN_FORM_IF_ALIGNED;
}
static inline bool hn_form_kind_opens(hn_form_kind kind) {
    return hn_form_kind_branches(kind) || kind == HN_FORM_FOR || kind == HN_FORM_BLOCK ||
           kind == HN_FORM_LANES || kind == HN_FORM_VECTOR;
}

/* form_words.c. Whether an expression fits into 32 bits, with all that it is computed from; 0 does. */
bool hn_form_is_word(const hn_sym *sym, hn_expr e);

/* form_lanes.c. Sets hn_form_lane_facts of the statements behind `owner`, a LANES, which are its
 * own. Errors: out-of-memory. */
hn_status hn_form_set_lane_facts(hn_form *f, hn_fid owner) HN_MUST_USE;

/* hn_form_verify, which also tells the place, and lists the sizes in the form's arena. Either may
 * be NULL. */
hn_status hn_form_check(const hn_form *f, hn_form_place *out_place,
                        hn_form_sizes *out_sizes) HN_MUST_USE;

#endif
