/* cpu_internal.h: what the files of the planner for CPUs share. */
#ifndef HN_KERNEL_CPU_INTERNAL_H
#define HN_KERNEL_CPU_INTERNAL_H

#include "kernel/cpu.h"

/* cost.c: of an element, in additions */
uint32_t hn_cpu_sop_cost(const hn_sop *op);
uint32_t hn_cpu_phase_cost(const hn_kernel_phase *phase);

static inline hn_expr hn_cpu_extent(const hn_cpu_plan *pl, hn_expr var) {
    return hn_sym_symbol_extent(pl->sym, var);
}
static inline int64_t hn_cpu_hint(const hn_cpu_plan *pl, hn_expr var, int64_t fallback) {
    return hn_sym_hint(pl->sym, hn_cpu_extent(pl, var), fallback);
}
static inline hn_dtype hn_cpu_dtype(const hn_cpu_plan *pl, hn_buf b) {
    return pl->program->buffers.items[b].dtype;
}
static inline int64_t hn_cpu_elem_bytes(const hn_cpu_plan *pl, hn_buf b) {
    return hn_dtype_facts(hn_cpu_dtype(pl, b))->size_bytes;
}

/* Whether phases have a loop over lanes as in hn_cpu_lane_loop. */
static inline bool hn_cpu_has_lane_loop(hn_cpu_form form) {
    return form == HN_CPU_FLAT || form == HN_CPU_ROWS || form == HN_CPU_ROWS_PIPELINED ||
           form == HN_CPU_ROWS_SPLIT || form == HN_CPU_ROWS_SLABS;
}

/* cpu_phase.c */
hn_status hn_cpu_analyse(hn_cpu_plan *pl, uint32_t f) HN_MUST_USE; /* pl->phases[f] */
bool hn_cpu_has_indirect(const hn_kernel_phase *phase);

/* cpu_simplify.c. Of a live op; the second one needs the levels. */
hn_rewrite hn_cpu_rewrite_of(const hn_cpu_phase *ph, const hn_sop *op, hn_sid *out_gate);
bool hn_cpu_divides_once(const hn_cpu_phase *ph, const hn_sop *op);
bool hn_cpu_is_narrow_indirect(const hn_cpu_phase *ph, const hn_sop *op);
/* Whether a NaN reaches every result even if the reduction loses it. */
bool hn_cpu_nan_comes_back(const hn_cpu_plan *pl, const hn_kernel_reduce *r);

/* cpu_rows.c, cpu_column.c, cpu_tile.c: whether a form is right for the kernel; and of one that is,
 * whether it pays. */
bool hn_cpu_can_pipeline(const hn_cpu_plan *pl);
bool hn_cpu_pipeline_pays(const hn_cpu_plan *pl);
bool hn_cpu_can_split(const hn_cpu_plan *pl);
bool hn_cpu_split_pays(const hn_cpu_plan *pl);
bool hn_cpu_can_strip(const hn_cpu_plan *pl);
bool hn_cpu_strip_pays(const hn_cpu_plan *pl);
/* The outer variable to tile with the lanes when loads are strided; 0: none. The others ask about
 * pl->tiles.var. */
hn_expr hn_cpu_tile_variable(const hn_cpu_plan *pl);
bool hn_cpu_tile_pays(const hn_cpu_plan *pl);
bool hn_cpu_can_tile_wide(const hn_cpu_plan *pl);
bool hn_cpu_wide_tile_pays(const hn_cpu_plan *pl);
/* The numbers of the form that was chosen. */
void hn_cpu_set_split(hn_cpu_plan *pl);
void hn_cpu_set_columns(hn_cpu_plan *pl);
void hn_cpu_set_tiles(hn_cpu_plan *pl);
/* Squares of `block` elements a side in all matrices. */
hn_expr hn_cpu_tile_count(const hn_cpu_plan *pl, uint32_t block);

/* cpu_memory.c */
double hn_cpu_written_bytes(const hn_cpu_plan *pl);
void hn_cpu_choose_stores(hn_cpu_plan *pl);

/* cpu_prefetch.c, cpu_loop.c: of a phase whose lanes run along its last variable; in this order */
hn_status hn_cpu_choose_prefetches(hn_cpu_phase *ph) HN_MUST_USE;
void hn_cpu_choose_loop(hn_cpu_phase *ph);

/* cpu_bases.c */
hn_status hn_cpu_find_bases(hn_cpu_plan *pl) HN_MUST_USE;

#endif
