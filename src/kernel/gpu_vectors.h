/* gpu_vectors.h: what the files that take a phase's elements in vectors share. */
#ifndef HN_KERNEL_GPU_VECTORS_H
#define HN_KERNEL_GPU_VECTORS_H

#include "kernel/gpu_internal.h"

/* ---- gpu_access.c ---- */

/* Whether an index of a buffer goes up by one, and is aligned where the variable is a multiple of
 * `vector`. */
bool hn_gpu_is_vector(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                      int64_t vector);
bool hn_gpu_is_local(const hn_gpu_planner *pl, hn_buf b);
/* Sets pl->varies: ops that differ from element to element of a vector. */
void hn_gpu_mark_varying(hn_gpu_planner *pl, hn_expr last);
/* Whether an index uses a checked one that is computed along the vector, or any. */
bool hn_gpu_uses_indirect(const hn_gpu_planner *pl, hn_expr index, bool varying_only);
/* Whether an index is contiguous along another variable than the last one. */
bool hn_gpu_is_transposed(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr along,
                          hn_expr last, int64_t vector);

/* ---- gpu_arrays.c ---- */

/* NULL: the access goes to memory. Until pl->arrays changes. */
hn_gpu_array *hn_gpu_find_array(hn_gpu_planner *pl, hn_buf b, hn_expr index);
/* Sets pl->arrays for the phase at hand. */
void hn_gpu_list_arrays(hn_gpu_planner *pl, const hn_gpu_run *run);
/* Whether the phase reads it; */
bool hn_gpu_is_read(const hn_gpu_planner *pl, const hn_gpu_array *a);
/* ... and nothing before has. */
bool hn_gpu_is_missing(const hn_gpu_planner *pl, const hn_gpu_array *a);
/* Whether it is the same for all rows and read-only, so that one read is for all rows. */
bool hn_gpu_is_same_for_rows(const hn_gpu_planner *pl, const hn_gpu_array *a);
/* Whether the kernel writes to it. */
bool hn_gpu_is_written(const hn_gpu_planner *pl, hn_buf b);
/* Whether something is missing that goes along the rows. */
bool hn_gpu_any_missing(const hn_gpu_planner *pl);

/* ---- gpu_place.c ---- */

/* What is known of the vector at hand. */
typedef struct hn_gpu_vec {
    const hn_gpu_run *run;
    hn_expr u;            /* its number in the step */
    hn_expr begin;        /* the last variable, of its first element */
    hn_expr first;        /* its first element's number among all of the run; 0: not known */
    hn_expr j;            /* the element's number in it */
    hn_expr square, step; /* in the lines of a square: of its first element; from one to the next */
    uint32_t open;        /* blocks */
} hn_gpu_vec;

/* Opens the loop over the vectors of a step. */
hn_gpu_vec hn_gpu_begin_unrolled(hn_gpu_planner *pl, const hn_gpu_run *run);
/* Opens the block of the vector at hand. */
void hn_gpu_begin_vector(hn_gpu_planner *pl, hn_gpu_vec *v);
/* Opens the block of vector after vector. */
hn_gpu_vec hn_gpu_begin_vectors(hn_gpu_planner *pl, const hn_gpu_run *run, bool turned);
void hn_gpu_end_vectors(hn_gpu_planner *pl, const hn_gpu_vec *v);
/* The first of the vector's elements in an array. */
hn_expr hn_gpu_first_in(const hn_gpu_planner *pl, const hn_gpu_vec *v);
/* An index of the vector's first element. */
hn_expr hn_gpu_first_index(const hn_gpu_planner *pl, const hn_gpu_vec *v, hn_expr index);

/* ---- gpu_ahead.c ---- */

/* What the phase reads of the vector at hand, from staged memory. */
void hn_gpu_emit_staged_reads(hn_gpu_planner *pl, const hn_gpu_vec *v);
/* Behind the last phase that reads them the next row's vector takes the place of the one at hand. */
void hn_gpu_emit_refill(hn_gpu_planner *pl, const hn_gpu_vec *v);

/* ---- gpu_sums.c ---- */

/* The loop over the rows of a vector, or its elements; its variable. */
hn_expr hn_gpu_open_rows(hn_gpu_planner *pl);
/* A result of row `j`. Of ARGMIN and ARGMAX the position. */
hn_fid hn_gpu_emit_sum(hn_gpu_planner *pl, const hn_sop *op, hn_expr j);
void hn_gpu_emit_sum_steps(hn_gpu_planner *pl, const hn_gpu_vec *v);

/* ---- gpu_vectors.c ---- */

/* Which arrays are read: those that come from memory, or from a cache. */
typedef enum hn_gpu_reads {
    HN_GPU_READS_MEMORY = 1,
    HN_GPU_READS_CACHE = 2,
    HN_GPU_READS_ALL = 3
} hn_gpu_reads;

/* Ops that all elements of a vector share, and what they are divided by. */
void hn_gpu_emit_shared_ops(hn_gpu_planner *pl);
/* The vector at hand, into the array's registers or others like them. */
void hn_gpu_emit_read(hn_gpu_planner *pl, const hn_gpu_vec *v, const hn_gpu_array *a, hn_fmem to);
void hn_gpu_emit_reads(hn_gpu_planner *pl, const hn_gpu_vec *v, hn_gpu_reads which);
/* Of all vectors of the step, from memory. */
void hn_gpu_emit_memory_reads(hn_gpu_planner *pl, const hn_gpu_run *run);
void hn_gpu_emit_writes(hn_gpu_planner *pl, const hn_gpu_vec *v);
/* The loop over the elements of the vector. */
void hn_gpu_open_elements(hn_gpu_planner *pl, hn_gpu_vec *v);
void hn_gpu_close_elements(hn_gpu_planner *pl);
/* Ops of an element: those that are results of a scan so far, or the others. */
void hn_gpu_emit_ops(hn_gpu_planner *pl, const hn_gpu_vec *v, bool results);
void hn_gpu_emit_stores(hn_gpu_planner *pl, const hn_gpu_vec *v);

#endif
