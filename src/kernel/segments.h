/* segments.h: kernels of several segments (sched/foreach.c) as forms. */
#ifndef HN_KERNEL_SEGMENTS_H
#define HN_KERNEL_SEGMENTS_H

#include "kernel/form.h"
#include "sched/sched.h"

/* Gives the segments of the kernel to the form that was planned for it, before hn_form_end; nothing
 * for a kernel without segments. */
hn_status hn_form_set_segments(hn_form *f, const hn_kernel *kernel) HN_MUST_USE;

#endif
