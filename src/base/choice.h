/* choice.h: which of several variants of a kernel runs at which sizes: a decision table over at most
 * three sizes. It is evaluated when a shape is bound, never in a call of a bound shape. It has no
 * pointers, so that it may lie in a file. How one is made of measurements: tune/choice.h.
 *
 * A table is a list of boxes that do not overlap, each with a variant, and a fallback for all other
 * sizes. So it answers for every size, negative ones too.
 *
 *     s0 in [1, 96]:                      1
 *     s0 in [97, 512], s1 in [1, 2896]:   2
 *     all others:                         0 */
#ifndef HN_BASE_CHOICE_H
#define HN_BASE_CHOICE_H

#include "base/str.h"

#include <assert.h>
#include <stdint.h>

enum {
    HN_CHOICE_AXES = 3,   /* sizes that one table may look at */
    HN_CHOICE_BOXES = 32, /* of one table */
    HN_CHOICE_VARIANTS = 64
};

/* The sizes `lo` to `hi`, both included. INT64_MIN and INT64_MAX: no bound. Of axes that the table
 * does not have, both are 0. */
typedef struct hn_choice_box {
    int64_t lo[HN_CHOICE_AXES], hi[HN_CHOICE_AXES];
    uint32_t variant, reserved;
} hn_choice_box;

/* A table without its boxes, which may lie elsewhere. */
typedef struct hn_choice {
    uint32_t axis_count;    /* 0: no sizes, and no boxes */
    uint32_t variant_count; /* 1 or more */
    uint32_t fallback;      /* the variant of all sizes that are in no box */
    uint32_t box_count;     /* in ascending order of `lo` */
} hn_choice;
static_assert(sizeof(hn_choice_box) == 56 && sizeof(hn_choice) == 16, "layout");

/* With its boxes: only the first box_count ones are ever read. */
typedef struct hn_choice_table {
    hn_choice head;
    hn_choice_box boxes[HN_CHOICE_BOXES];
} hn_choice_table;

/* The variant for `values`, axis_count sizes. The table has been checked, or was made by
 * hn_choice_make. Some 2 ns a box. */
uint32_t hn_choice_find(const hn_choice *choice, const hn_choice_box *boxes, const int64_t *values);
static inline uint32_t hn_choice_pick(const hn_choice_table *table, const int64_t *values) {
    return hn_choice_find(&table->head, table->boxes, values);
}

/* Of a table that comes from a file. `boxes`: at least box_count ones, if those are not more than
 * HN_CHOICE_BOXES.
 * Errors: corrupt, naming the box: bounds, order, overlap, a variant that is not there. */
hn_status hn_choice_check(const hn_choice *choice, const hn_choice_box *boxes) HN_MUST_USE;

/* Names for people: `axes` as many as the table has, `variants` likewise. */
typedef struct hn_choice_names {
    const hn_str *axes, *variants;
} hn_choice_names;

/* A line for each box, and one for the fallback: "s0 1..96, s1 *: looped". */
void hn_choice_print(const hn_choice *choice, const hn_choice_box *boxes,
                     const hn_choice_names *names, hn_strbuf *out);
/* As a value of JSON: {"axes": ["s0"], "fallback": NAME, "boxes": [{"variant": NAME, "sizes": [[1, 96]]},
 * ...]}, with bounds for each axis; null: there is none. */
void hn_choice_json(const hn_choice *choice, const hn_choice_box *boxes,
                    const hn_choice_names *names, hn_strbuf *out);

#endif
