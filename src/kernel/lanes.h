/* lanes.h: how an index moves from lane to lane: what the planner for CPUs and forms of ranges
 * share; internal to src/kernel. */
#ifndef HN_KERNEL_LANES_H
#define HN_KERNEL_LANES_H

#include "kernel/form.h"

/* What differs from lane to lane. */
typedef struct hn_lane_view {
    hn_sym *sym;
    hn_expr lane; /* goes up by 1 from lane to lane; 0: nothing does */
    /* whether `e` uses a checked index that differs */
    bool (*varies)(const void *context, hn_expr e);
    const void *context;
} hn_lane_view;

/* Whether an index uses the lane variable, or a checked index that differs from lane to lane. */
bool hn_lane_uses(const hn_lane_view *view, hn_expr e);
/* How it moves; *out_stride is set for CONTIGUOUS and STRIDED. */
hn_access hn_lane_access(const hn_lane_view *view, hn_expr e, hn_expr *out_stride);
/* False when the index has no clamp, or more than one. */
bool hn_lane_find_clamp(const hn_lane_view *view, hn_expr index, hn_form_clamp *out);

#endif
