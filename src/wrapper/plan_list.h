/* plan_list.h: where a memory plan puts each buffer, and for how long, at the hints of the sizes. */
#ifndef HN_WRAPPER_PLAN_LIST_H
#define HN_WRAPPER_PLAN_LIST_H

#include "wrapper/wrapper.h"

typedef struct hn_plan_box {
    hn_wbuf buffer;
    bool is_used;
    uint32_t first, end; /* lines at which it is alive */
    /* 0: it has no place; 1 + the device of its workspace; HN_DEVICE_KIND_COUNT + 1 + its pool */
    uint32_t space;
    int64_t at, bytes; /* in that memory */
    hn_str node;       /* its name, or that of the node that writes it first */
} hn_plan_box;

/* Of each buffer of a planned wrapper. Owns: the list lives in `arena`. */
hn_status hn_memory_plan_boxes(const hn_wrapper *w, const hn_memory_plan *plan, hn_arena *arena,
                               hn_plan_box **out) HN_MUST_USE;

#endif
