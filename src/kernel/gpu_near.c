/* gpu_near.c: layouts around another one. See gpu_names.h. */
#include "kernel/gpu_names.h"

typedef hn_gpu_layout layout;

typedef struct near_list {
    layout *items;
    uint32_t count;
} near_list;

static void add(near_list *list, layout l) {
    if (list->count < HN_GPU_NEAR_MAX) list->items[list->count++] = l;
}

/* Where registers keep a row, a thread has as many vectors as it takes: with twice as many threads
 * half, perhaps one less. */
static void add_kept(near_list *list, layout l, const layout *was) {
    const uint64_t before = (uint64_t)was->width * was->vector, now = (uint64_t)l.width * l.vector,
                   most = (was->unroll * before + now - 1) / now,
                   least = (was->unroll - 1) * before / now;
    for (uint64_t unroll = most; unroll && unroll >= least && unroll + 4 > most; unroll--) {
        l.unroll = (uint32_t)unroll;
        add(list, l);
    }
}

static void add_row(near_list *list, layout l, const layout *was) {
    if (was->keeps) add_kept(list, l, was);
    else add(list, l);
}

/* The number is in `l`. */
static void both_ways(near_list *list, layout *l, uint32_t *number, const layout *was,
                      void (*put)(near_list *list, layout l, const layout *was)) {
    const uint32_t before = *number;
    if (before > 1) {
        *number = before / 2;
        put(list, *l, was);
    }
    if (before) {
        *number = before * 2;
        put(list, *l, was);
    }
    *number = before;
}

static void add_as_it_is(near_list *list, layout l, const layout *was) {
    (void)was;
    add(list, l);
}

static void add_stages(near_list *list, layout l) {
    const uint32_t before = l.stages;
    if (before > 1) {
        l.stages = before - 1;
        add(list, l);
    }
    l.stages = before + 1;
    if (before) add(list, l);
}

uint32_t hn_gpu_layouts_near(const layout *was, layout out[HN_GPU_NEAR_MAX]) {
    near_list list = {.items = out};
    layout l = *was;
    both_ways(&list, &l, &l.width, was, add_row);
    both_ways(&list, &l, &l.rows, was, add_as_it_is);
    both_ways(&list, &l, &l.vector, was, add_row);
    if (!was->keeps) both_ways(&list, &l, &l.unroll, was, add_as_it_is);
    if (was->blocks > 1) both_ways(&list, &l, &l.blocks, was, add_as_it_is);
    both_ways(&list, &l, &l.parts, was, add_as_it_is);
    if (was->stages) both_ways(&list, &l, &l.slabs, was, add_as_it_is);
    add_stages(&list, l);
    l.online = !l.online;
    add(&list, l);
    l.online = was->online;
    l.ahead = !l.ahead;
    if (was->slabs) add(&list, l);
    l.ahead = was->ahead;
    l.resident = 0;
    if (was->resident) add(&list, l);
    return list.count;
}
