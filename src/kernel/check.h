/* check.h: what the verifier and the reader of the text form share; internal to src/kernel. */
#ifndef HN_KERNEL_CHECK_H
#define HN_KERNEL_CHECK_H

#include "kernel/form.h"

/* Blocks within blocks: more are refused, so that walks over a form may be recursive. */
enum { HN_FORM_DEPTH_MOST = 64 };

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

/* hn_form_verify, which also tells the place. */
hn_status hn_form_check(const hn_form *f, hn_form_place *out_place) HN_MUST_USE;

#endif
