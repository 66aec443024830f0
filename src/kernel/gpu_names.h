/* gpu_names.h: layouts by name: a kind, "rows-kept", and numbers, "threads=256 rows=1 ...", which
 * say all that was decided by the sizes that are expected. Internal to src/kernel. */
#ifndef HN_KERNEL_GPU_NAMES_H
#define HN_KERNEL_GPU_NAMES_H

#include "kernel/gpu_internal.h"

/* The kinds, and numbers of a name. */
enum { HN_GPU_SHAPES = 7, HN_GPU_NUMBERS = 10 };

/* A layout that somebody names. */
typedef struct hn_gpu_wish {
    uint32_t shape;
    bool is_whole; /* all numbers are given: `layout`, but its `size` and `ns`; else the best layout
                      that has those that are */
    unsigned has;  /* bit k: number k is given */
    uint32_t numbers[HN_GPU_NUMBERS];
    hn_gpu_layout layout;
} hn_gpu_wish;

/* The planner's words for a layout: "rows, kept". Static. */
const char *hn_gpu_shape(const hn_gpu_planner *pl, const hn_gpu_layout *l);
/* Owns: in `arena`; NULL without memory. */
const char *hn_gpu_parameters(const hn_gpu_planner *pl, const hn_gpu_layout *l, hn_arena *arena);
/* The number of a kind by its name; HN_GPU_SHAPES: there is none. */
uint32_t hn_gpu_shape_named(hn_str name);
const char *hn_gpu_shape_name(uint32_t shape); /* "rows-kept" */
/* Errors: invalid-argument for what is no parameter. */
hn_status hn_gpu_wish_parse(uint32_t shape, hn_str parameters, hn_gpu_wish *out) HN_MUST_USE;
/* The wish for this layout, whole. */
void hn_gpu_wish_of(uint32_t shape, const hn_gpu_layout *l, hn_gpu_wish *out);
/* gpu_near.c: layouts that differ in one number by one step: twice as much, or half; one stage more
 * or less. Not all of them fit. */
enum { HN_GPU_NEAR_MAX = 48 };
uint32_t hn_gpu_layouts_near(const hn_gpu_layout *l, hn_gpu_layout out[HN_GPU_NEAR_MAX]);
/* Whether the layout is one that is wished for. */
bool hn_gpu_is_wished(const hn_gpu_planner *pl, const hn_gpu_layout *l);
/* The layout that is wished for, with all its numbers; NULL: whichever is good. */
static inline const hn_gpu_layout *hn_gpu_wished(const hn_gpu_planner *pl) {
    return pl->wish && pl->wish->is_whole ? &pl->wish->layout : NULL;
}
static inline bool hn_gpu_is_power_of_two(uint32_t value) {
    return value && (value & (value - 1)) == 0;
}

#endif
