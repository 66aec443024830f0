/* gpu_lists.h: what the files share that list layouts: plan_gpu.c and gpu_rows.c. Internal to
 * src/kernel. */
#ifndef HN_KERNEL_GPU_LISTS_H
#define HN_KERNEL_GPU_LISTS_H

#include "kernel/gpu_costs.h"

/* Sizes of groups that are compared, of equals the first is taken; and vectors that a thread takes
 * in a step. */
static const uint32_t hn_gpu_group_sizes[] = {256, 128, 512, 64, 1024};
static const uint32_t hn_gpu_unrolls[] = {1, 2, 4, 8, 16};

/* Registers of a thread beside what it keeps: addresses, and what an element of a vector takes
 * while it is computed. */
enum { HN_GPU_OTHER_REGISTERS = 24, HN_GPU_ELEMENT_REGISTERS = 1 };

/* Of layouts that memory makes equal, that is best whose threads have so many bytes under way each:
 * of a row with fewer more threads wait for each other; with more the code is longer. A factor of
 * two is worth a hundredth (hn_gpu_balance). */
enum { HN_GPU_BYTES_ELEMENTS = 32, HN_GPU_BYTES_BUSY_ELEMENTS = 64, HN_GPU_BYTES_ROWS = 64 };

/* At the hints of the sizes. */
static inline int64_t hn_gpu_hint(const hn_gpu_planner *pl, hn_expr e) {
    return hn_sym_hint(pl->sym, e, 1024);
}

/* ---- plan_gpu.c ---- */

/* Whether a thread may take so many vectors in a step. */
bool hn_gpu_may_unroll(const hn_gpu_planner *pl, uint32_t vector, uint32_t unroll);
/* The first power of two that is not below the value, or `most`. */
uint32_t hn_gpu_power_of_two(int64_t value, uint32_t most);
/* What reads several vectors and then computes element by element: a compiler that is not told how
 * many groups there are at once saves registers, and reads a vector only where its elements are
 * needed. So it is told how many there is room for, some registers to spare. If they do not
 * suffice, the next best layout is the same without that. */
void hn_gpu_keep_both(const hn_gpu_planner *pl, hn_gpu_layout *items, uint32_t *count,
                      hn_gpu_layout l, const hn_gpu_launch *run, int64_t other_registers);
/* For calls where the size is a multiple of `vector`. */
hn_gpu_planner hn_gpu_where_multiple(const hn_gpu_planner *pl, hn_expr size, uint32_t vector);

/* Whether vectors may be for calls where the size, number `number` of its extent, is a multiple of
 * them: it is expected to be, or that is wished for. */
bool hn_gpu_may_guard(const hn_gpu_planner *pl, hn_expr size, uint32_t vector, uint32_t number);

/* ---- gpu_rows.c ---- */

/* The layouts of rows, the best first: how many. */
uint32_t hn_gpu_list_rows(const hn_gpu_planner *pl, hn_gpu_layout items[HN_GPU_PLANS_MAX]);

#endif
