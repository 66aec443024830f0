/* sched.h: loop IR -> kernels. Which loops share a kernel, in which form.
 *
 * A kernel runs rows: the outer dimensions are its parallel range. Within a row it runs phases one
 * after the other; a phase is a loop nest over its inner dimensions (none: once per row) with one
 * body of scalar ops, stores and reductions. Softmax is three phases of one kernel, a chain of
 * activations one phase. What a phase needs of an earlier one is a reduction's result, a row of a
 * local buffer, or computed again when that is cheaper.
 *
 * Owns: everything lives in the arena given to hn_schedule. */
#ifndef HN_SCHED_SCHED_H
#define HN_SCHED_SCHED_H

#include "base/limit.h"
#include "ir/loop.h"

typedef struct hn_kernel_store {
    hn_buf buffer;
    hn_expr index; /* elements; for a local buffer relative to the row's start */
    hn_sid value;
    hn_store_mode mode;
} hn_kernel_store;

typedef struct hn_kernel_reduce {
    hn_op op;       /* a REDUCE or SCAN row */
    hn_dtype dtype; /* of the values combined */
    hn_sid value;
    hn_expr position; /* ARGMIN, ARGMAX, CUMMIN, CUMMAX: the I64 index to report */
    uint32_t slot;    /* HN_SOP_RESULT's number */
} hn_kernel_reduce;

/* A reduction down the columns of the rows: each slab of rows has a row of partial results. */
typedef struct hn_kernel_column {
    hn_op op;       /* a REDUCE row without positions */
    hn_dtype dtype; /* of the values combined, and of the buffer */
    hn_sid value;
    hn_buf buffer; /* [slabs, columns] */
    hn_expr index; /* of slab 0; over inner variables only, each element of a row another one */
} hn_kernel_column;

typedef struct hn_kernel_phase {
    uint32_t rank;
    hn_expr vars[HN_MAX_RANK]; /* inner loops, outermost first */
    hn_body body;
    struct {
        hn_kernel_store *items;
        uint32_t count, cap;
    } stores;
    struct {
        hn_kernel_reduce *items;
        uint32_t count, cap;
    } reduces;
    struct {
        hn_kernel_column *items;
        uint32_t count, cap;
    } columns;
    /* reduces[0] is a scan: its running value is HN_SOP_RESULT(slot) within this phase */
    bool scan;
} hn_kernel_phase;

typedef enum hn_vector_mode {
    HN_VECTOR_INNER, /* lanes run along the last inner dimension of each phase */
    /* one phase, one inner dimension, no rows: the inner dimension is the parallel range */
    HN_VECTOR_FLAT,
    HN_VECTOR_OUTER /* lanes run along the last outer dimension */
} hn_vector_mode;

typedef struct hn_local {
    hn_buf buffer;
    hn_expr extent_elems; /* of one row */
} hn_local;

/* A loop of a kernel as it was before planning took it apart: what the kernel is to compute. */
typedef struct hn_kernel_loop {
    hn_loop loop;
    uint32_t origin; /* hn_graph.origins */
    /* a reduction down columns, of the kernel's slabs: a POINTWISE loop whose first row_rank
     * variables are rows, and which combines by its reduce_op what it stores */
    bool is_column;
    uint32_t row_rank;
} hn_kernel_loop;

/* One of the kernels that became one: foreach.c. */
typedef struct hn_kernel_segment {
    /* for each of hn_kernel.segment_buffers the one that it stands for here */
    const hn_buf *buffers;
    hn_expr length;                /* what hn_kernel.segment_length is here; 0: there is none */
    const struct hn_kernel *alone; /* the kernel that it was */
} hn_kernel_segment;

typedef struct hn_kernel {
    uint32_t rank; /* outer dimensions */
    hn_expr vars[HN_MAX_RANK];
    hn_vector_mode mode;
    bool serial;   /* may not be split (scatter), */
    bool in_order; /* and the order counts in which threads combine what meets; any is right else */
    /* phases have reductions down columns: slab s of rows are those from s * ceil(rows / slabs) on,
     * and its partial results begin at s * slab_elems. 0: there are none */
    uint32_t slabs;
    hn_expr slab_elems;
    struct {
        hn_kernel_phase *items;
        uint32_t count, cap;
    } phases;
    struct {
        hn_local *items;
        uint32_t count, cap;
    } locals;
    uint32_t threads;      /* that it is planned for */
    uint32_t slots;        /* reductions in all phases */
    uint32_t origin;       /* of the last loop in it */
    hn_origins origins;    /* all nodes that it does */
    uint32_t loop_count;   /* how many loops were fused, */
    hn_kernel_loop *loops; /* and which, in order */
    /* Independent kernels that do the same to other memory: two or more, and this one says what they
     * do, with the buffers of the first; none: an ordinary kernel. Their order does not matter */
    struct {
        hn_kernel_segment *items;
        uint32_t count, cap;
    } segments;
    const hn_buf *segment_buffers; /* each once */
    uint32_t segment_buffer_count;
    /* a symbol: the extent of the one dimension; 0: all sizes are the same in all segments */
    hn_expr segment_length;
} hn_kernel;

typedef enum hn_step_kind { HN_STEP_KERNEL, HN_STEP_EXTERN, HN_STEP_OTHER } hn_step_kind;
typedef struct hn_step {
    hn_step_kind kind;
    hn_kernel *kernel;
    hn_item item; /* EXTERN; OTHER: an assertion or a bracket of a conditional */
} hn_step;

/* Why two loops, or a call and a loop, do not share a step (refusals.def). */
typedef enum hn_refusal_reason {
#define HN_REFUSAL(id, name, sentence) HN_REFUSED_##id,
#include "sched/refusals.def"
#undef HN_REFUSAL
} hn_refusal_reason;

/* Static. */
typedef struct hn_refusal_kind {
    const char *name;     /* "other_rows": stable */
    const char *sentence; /* "it reads what other rows make" */
} hn_refusal_kind;
const hn_refusal_kind *hn_refusal_kind_of(hn_refusal_reason why);

/* How two loops that do not line up walk what they share (mismatches.def). */
typedef enum hn_mismatch {
#define HN_MISMATCH(id, name, sentence) HN_MISMATCH_##id,
#include "sched/mismatches.def"
#undef HN_MISMATCH
} hn_mismatch;

/* Static. */
typedef struct hn_mismatch_kind {
    const char *name;     /* "order": stable */
    const char *sentence; /* "the dims come in another order" */
} hn_mismatch_kind;
const hn_mismatch_kind *hn_mismatch_kind_of(hn_mismatch mismatch);

/* What the scheduler does to loops and calls (rewrites.def). */
typedef enum hn_sched_rewrite {
#define HN_SCHED_REWRITE(id, name, sentence) HN_SCHED_##id,
#include "sched/rewrites.def"
#undef HN_SCHED_REWRITE
    HN_SCHED_REWRITE_COUNT
} hn_sched_rewrite;

/* Static. */
typedef struct hn_sched_rewrite_kind {
    const char *name;     /* "split": stable */
    const char *sentence; /* "a reduction is split in two (split.c)" */
} hn_sched_rewrite_kind;
const hn_sched_rewrite_kind *hn_sched_rewrite_kind_of(hn_sched_rewrite rewrite);

enum { HN_REFUSAL_SHARED_MAX = 4 };
#define HN_REFUSAL_NO_STEP UINT32_MAX

/* A fusion that was looked at and refused. */
typedef struct hn_refusal {
    hn_refusal_reason why;
    hn_mismatch mismatch; /* NONE: `why` is about something else than indices */
    uint32_t first,
        second; /* nodes, hn_graph.origins: the last one in a step, and what did not join */
    /* in hn_schedule.steps; NO_STEP: of an operation's end, and of what is in no step any more */
    uint32_t first_step, second_step;
    int64_t bytes; /* that the fusion would have saved, at the hints */
    uint32_t shared_count;
    hn_buf shared[HN_REFUSAL_SHARED_MAX]; /* what both touch: the first ones */
} hn_refusal;

typedef struct hn_schedule {
    struct {
        hn_step *items;
        uint32_t count, cap;
    } steps;
    struct {
        hn_refusal *items;
        uint32_t count, cap;
    } refusals;          /* in the order in which they were looked at */
    int64_t saved_bytes; /* that loops need not move since they share kernels, at the hints */
    uint32_t rewrites
        [HN_SCHED_REWRITE_COUNT]; /* how often each was done; ORDER_KERNEL: to how many loops */
} hn_schedule;

/* What a target has, and what its memory and threads are good for: from where on a decision pays.
 * In elements. */
typedef struct hn_sched_limits {
    /* Calls of others that have loops beside them run as those; NULL: it has none. */
    const hn_operations *operations;
    /* A loop of at most so many ops and loads is computed again in the loops of such a call. */
    int64_t prologue_max_ops, prologue_max_loads;
    /* of a product's result: a costly activation of more is a kernel */
    int64_t costly_epilogue_max_elems;
    int64_t split_min_elems; /* of a reduction, to become two kernels, */
    /* ... if rows are fewer than so many for 100 threads, or columns make fewer strips: on a GPU
     * many threads go down one strip, so that few strips keep memory busy */
    int64_t split_rows, split_strips;
    int64_t split_parts_max; /* of so many parts, a power of two, */
    /* of a scan, to be done in pieces where it has few rows, or strips of columns, for the threads; 0:
     * none is. And of a piece, at least. Of a scan down columns that is `column_min_steps` */
    int64_t scan_min_elems, scan_piece_elems;
    int64_t column_strip;     /* columns that a reduction down columns takes at a time, */
    int64_t column_min_steps; /* and the rows below which a part of one is too short */
    int64_t long_row_elems;   /* fewer such rows than threads are not fused into a row kernel */
    /* a longer row stays in its global buffer: a copy would leave the cache anyway */
    int64_t local_max_elems;
    /* ... and in a row that long what a phase needs of an earlier one, of the same element or of one
     * that an index picks, is computed again up to this
     * cost, in ops: it is cheaper than memory. 0: only what is cheap everywhere */
    int64_t long_row_again_ops;
    /* Reductions down columns of what a row kernel reads join it (mixed.c): the fewest slabs of
     * rows, 0: none do; the elements of a slab's partial results below which there are more slabs,
     * up to so many times as many; */
    int64_t mixed_slabs, mixed_slab_elems, mixed_slabs_factor;
    int64_t mixed_min_elems;   /* rows x columns: less is in some cache, */
    int64_t mixed_columns_min; /* columns: shorter rows are better taken side by side, */
    int64_t mixed_min_rows;    /* of a slab, if there are the fewest slabs, */
    int64_t mixed_slab_rows;   /* and if there are more, */
    int64_t mixed_columns_max; /* of one such reduction, and of all of a kernel together */
    int64_t mixed_all_columns_max;
    /* What a phase needs of an earlier one is kept if more than so many loads of 16-bit floats make
     * it: each is widened again. 0: it is computed again, if it is as short as others */
    uint32_t mixed_narrow_loads;
    /* Slabs are fewer where a kernel has several such reductions. */
    bool mixed_shares_slabs;
    /* Values of so many bytes are computed by the kernels that read them (remade.c): smaller ones are
     * in a first-level cache. 0: none are */
    int64_t remade_min_bytes;
    /* Values are computed again behind the peak of memory (again.c) if that is lower by so many bytes
     * then, more than is in a second-level cache anyway. 0: none are */
    int64_t again_min_bytes;
    /* Kernels that do the same to other memory become one (foreach.c), with at most so many memories
     * and numbers as arguments. 0: none do. Results that wait longer for who reads them have at most
     * so many bytes */
    uint32_t segment_arguments_max;
    int64_t segment_waiting_bytes;
    /* Lengths that are multiples of so many elements stay apart from others: all segments are moved
     * in vectors, or none is. 0: it does not matter */
    int64_t segment_vector_elems;
} hn_sched_limits;

/* What to plan for. */
typedef struct hn_sched_options {
    uint32_t threads;
    const hn_sched_limits *limits;
    bool no_fusion; /* one kernel a loop: the reference for tests of fusion */
    /* loops that join a kernel, and what calls take; NULL: all that may. Asked with the two nodes */
    hn_limit *limit;
    bool deterministic; /* scatters give the same bits each time: those of one thread */
    hn_strbuf *explain; /* when not NULL: a line per refused fusion */
    /* when not NULL: the program's text after fusion; planning takes the loops apart */
    hn_strbuf *fused;
} hn_sched_options;

hn_status hn_schedule_program(hn_program *program, const hn_sched_options *options, hn_arena *arena,
                              hn_arena *scratch, hn_schedule *out) HN_MUST_USE;

#endif
