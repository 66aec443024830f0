/* check.h: the questions that all the files that check a bundle ask. */
#ifndef HENRY_BUNDLE_CHECK_H
#define HENRY_BUNDLE_CHECK_H

#include "bundle/internal.h"

#define CORRUPT(...) HN_ERROR(HN_CORRUPT, "bundle is damaged: " __VA_ARGS__)

static inline bool str_ok(const hn_bundle *b, hnb_str s) {
    if (!s.len) return true;
    uint64_t end = (uint64_t)s.offset + s.len;
    return end < b->strings_bytes && b->strings[end] == 0;
}

/* An expression, or none. */
static inline bool expr_ok(const hn_bundle *b, uint32_t e) { return e < b->nodes_count; }
static inline bool need_expr(const hn_bundle *b, uint32_t e) { return e && e < b->nodes_count; }

static inline bool span_ok(uint32_t first, uint64_t count, uint32_t limit) {
    return first + count <= limit;
}

static inline bool dtype_ok(uint32_t dtype) { return dtype > 0 && dtype < HN_SCALAR_TYPE_COUNT; }

/* check_steps.c: steps with all that they point to, when everything else is whole. */
hn_status hn_bundle_check_steps(const hn_bundle *b) HN_MUST_USE;

/* check_steps.c: a launch of a KERNEL step, or of an EXTERN step with a kernel, with so many
 * operands. */
bool hn_bundle_launch_ok(const hn_bundle *b, const hnb_step *s, const hnb_launch *l,
                         uint32_t arg_count);
/* variants.c: tables, and how variants are called, when steps and kernels are whole. */
hn_status hn_bundle_check_variants(const hn_bundle *b) HN_MUST_USE;

/* check_steps.c: that no round of a loop changes sizes of what is made once in a run. The steps are
 * whole. */
hn_status hn_bundle_check_rounds(const hn_bundle *b) HN_MUST_USE;

#endif
