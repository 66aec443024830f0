/* gpu_internal.h: what the files of the planner for groups of threads share. */
#ifndef HN_KERNEL_GPU_INTERNAL_H
#define HN_KERNEL_GPU_INTERNAL_H

#include "kernel/cost.h"
#include "kernel/plan_gpu.h"

/* A layout and what it is expected to cost. Elements are taken in vectors of `vector`, `unroll` of
 * them by each thread in a step. */
typedef struct hn_gpu_layout {
    uint32_t width, rows;    /* rows: threads of a row; rows of a group. elements: threads; 1 */
    uint32_t blocks;         /* of a group that is one row; else 1, or 0 */
    uint32_t vector, unroll; /* across rows: of a vector of rows, which counts as one row */
    bool keeps;              /* rows: registers keep a row over all phases: a phase is one step */
    bool ahead;              /* slabs that keep rows: the next row is read while one is computed */
    uint32_t stages;         /* ... or so many rows are on their way to staged memory; 0: none */
    uint32_t slabs;          /* of rows, one for each group; 0: a group has `rows` rows */
    bool peels;  /* rows: vectors from the row's first aligned element on; others are single */
    bool online; /* rows: a largest number and the sum of exponentials below it in one walk */
    uint32_t
        resident;  /* groups that a multiprocessor is to hold at once; 0: the compiler decides */
    uint32_t tile; /* elements: a group has a square of so many; 0: a run of them */
    uint32_t
        parts;    /* scatter: threads take turns by the element that is written, which is in one of
                       so many parts; 0: they meet */
    hn_expr size; /* vectors are for calls where this size is a multiple of them; others take single
                      elements. 0: for all calls */
    uint32_t guard; /* which one of those that the last extent has, from 1; 0: there is none */
    double ns;
} hn_gpu_layout;

/* The elements of a phase that a thread takes, in registers: of the buffer's `index`, which goes
 * along the last variable of the phase. */
typedef struct hn_gpu_array {
    hn_buf buffer;
    hn_expr index;
    hn_fmem memory; /* PRIVATE */
    hn_fmem next;   /* PRIVATE: what is read ahead; or 0 */
    hn_fmem stage;  /* STAGED: rows that are on their way; or 0 */
    hn_fmem square; /* SHARED, of a tile: it goes along the other variable of the square; or 0 */
    hn_fmem edge;   /* PRIVATE, of rows that begin anywhere: an element of no vector; or 0 */
    bool is_loaded; /* it has what is in memory */
} hn_gpu_array;

/* A phase that is at hand, and what is known of its ops. */
typedef struct hn_gpu_at {
    const hn_kernel_phase *phase;
    bool *live, *varies;
    hn_fid *values;
} hn_gpu_at;

/* The two phases of one walk (gpu_online.c). */
typedef struct hn_gpu_online {
    hn_gpu_at largest, sum;
    int64_t slot; /* of the largest */
    hn_freg largest_register, sum_register;
} hn_gpu_online;

typedef struct hn_gpu_planner {
    const hn_program *p;
    hn_sym *sym;
    const hn_kernel *k;
    const hn_gpu_facts *facts;
    hn_arena *scratch;
    hn_form *f;
    const hn_gpu_layout *layout;
    const struct hn_gpu_wish *wish; /* gpu_names.h: lists have such layouts alone; NULL: all */
    hn_expr size, multiple; /* a size that is known to be a multiple of something here; or 0 */
    bool is_backward;       /* whether the next walk over a row is */
    bool is_across;         /* threads that are neighbours have neighbouring rows */

    hn_form_cost work; /* of the kernel, in whatever layout */

    /* the rows layout */
    /* index symbols: which of the row's threads this is; the row's number in the group */
    hn_expr place, row;
    hn_expr number;     /* index symbol: the row's number in the kernel */
    hn_expr head;       /* index symbol: of a layout that peels, elements before the first vector */
    hn_expr begin;      /* of a vector of rows: the last variable of its first row */
    hn_fmem *locals;    /* per local buffer of the kernel; 0: registers */
    hn_freg *registers; /* per slot */
    /* per slot: the combined value, or of ARGMIN and ARGMAX its position */
    hn_fid *results;
    bool *unseen;     /* per buffer of the program: written since the last barrier */
    hn_expr rows_end; /* the rows of a slab end here; 0: with those of the kernel */
    hn_expr turn;     /* which stage has the row at hand */
    const hn_kernel_phase *last_read; /* the last phase that reads what is staged */
    /* slabs: per slot of `columns`, PRIVATE: what the thread's elements of a row are combined to */
    hn_fmem *columns;
    uint32_t first_column; /* of the phase at hand */
    /* vectors of rows, per slot: PRIVATE, the registers of a vector's rows; and positions, or 0 */
    hn_fmem *sums, *places;

    /* the phase at hand */
    const hn_kernel_phase *phase;
    bool *live;
    bool *varies;   /* per op: goes along the last variable */
    hn_fid *values; /* per op of its body */
    struct {
        hn_gpu_array *items;
        uint32_t count, cap;
    } arrays; /* of the phase, or kept of those before as well */
    struct {
        hn_gpu_array *items;
        uint32_t count, cap;
    } singles;                   /* elements that a row that is read ahead has beside them */
    bool holds_step;             /* arrays have the elements of this step from the phase before */
    bool is_edge;                /* the element at hand is of no vector */
    const hn_gpu_online *online; /* the two phases at hand; or NULL */
    hn_status failed;            /* the first lack of memory */
} hn_gpu_planner;

static inline hn_expr hn_gpu_num(const hn_gpu_planner *pl, int64_t value) {
    return hn_sym_int(pl->sym, value);
}
static inline hn_expr hn_gpu_extent(const hn_gpu_planner *pl, hn_expr var) {
    return hn_sym_symbol_extent(pl->sym, var);
}
static inline int64_t hn_gpu_size_of(const hn_gpu_planner *pl, hn_buf b) {
    return hn_dtype_facts(pl->p->buffers.items[b].dtype)->size_bytes;
}
/* How far thread numbers of neighbouring places of a row are apart. */
static inline uint32_t hn_gpu_pitch(const hn_gpu_planner *pl, uint32_t rows) {
    return pl->is_across ? rows : 1;
}

/* ---- gpu_emitter.c ---- */

hn_expr hn_gpu_extents(const hn_gpu_planner *pl, const hn_expr *vars, uint32_t count);
/* Its number among the kernel's local buffers, or their count. */
uint32_t hn_gpu_local(const hn_gpu_planner *pl, hn_buf b);
/* Which ops the phase needs. */
hn_status hn_gpu_begin_phase(hn_gpu_planner *pl, const hn_kernel_phase *phase) HN_MUST_USE;
/* The ops that bind checked indices of a live expression are live. */
void hn_gpu_mark_index(hn_gpu_planner *pl, hn_expr e);
/* Where an access of a buffer of the schedule goes: to an argument, or to this row's part of a
 * local buffer. */
hn_fmem hn_gpu_place(hn_gpu_planner *pl, hn_buf b, bool is_written, hn_expr *index);
void hn_gpu_emit_sop(hn_gpu_planner *pl, hn_sid s);
/* Registers of the phase's reductions take a step. */
void hn_gpu_emit_steps(hn_gpu_planner *pl);
/* The body for one element. */
void hn_gpu_emit_body(hn_gpu_planner *pl);
/* Row-major coordinates of element `at` of the space of `vars`. */
void hn_gpu_emit_coordinates(hn_gpu_planner *pl, hn_expr at, const hn_expr *vars, uint32_t count);
/* An element of memory of the form, read and written. */
hn_fid hn_gpu_load(hn_gpu_planner *pl, hn_fmem m, hn_expr index);
void hn_gpu_keep(hn_gpu_planner *pl, hn_fmem m, hn_expr index, hn_fid value);

/* ---- plan_gpu.c ---- */

bool hn_gpu_is_elementwise(const hn_gpu_planner *pl);
/* All variables of a kernel of elements, the one that is contiguous in memory last: at least
 * one. */
uint32_t hn_gpu_list_variables(const hn_gpu_planner *pl, hn_expr out[2 * HN_MAX_RANK]);
/* gpu_rows.c. Of a group, by the text of hn_gpu_plan_rows. */
int64_t hn_gpu_shared_bytes(const hn_gpu_planner *pl, const hn_gpu_layout *l);

/* ---- gpu_layouts.c: pl->f, of pl->layout ---- */

hn_status hn_gpu_plan_elements(hn_gpu_planner *pl, hn_arena *arena) HN_MUST_USE;
hn_status hn_gpu_plan_tiles(hn_gpu_planner *pl, hn_arena *arena) HN_MUST_USE;
hn_status hn_gpu_plan_rows(hn_gpu_planner *pl, hn_arena *arena) HN_MUST_USE;
/* Symbols for the threads of a row, but not which row; and room for what the phases share. */
hn_status hn_gpu_begin_rows(hn_gpu_planner *pl) HN_MUST_USE;
/* A phase for row pl->number. */
hn_status hn_gpu_emit_phase(hn_gpu_planner *pl, const hn_kernel_phase *phase) HN_MUST_USE;

/* ---- gpu_scatter.c ---- */

/* At least one, the best first. */
uint32_t hn_gpu_list_scatter(hn_gpu_planner *pl, hn_gpu_layout items[HN_GPU_PLANS_MAX]);
hn_status hn_gpu_plan_scatter(hn_gpu_planner *pl, hn_arena *arena) HN_MUST_USE;

/* ---- gpu_mixed.c: rows and reductions down their columns ---- */

/* At least one, the best first. */
uint32_t hn_gpu_list_mixed(const hn_gpu_planner *pl, hn_gpu_layout items[HN_GPU_PLANS_MAX]);
/* Adds layouts in which rows without columns go by way of staged memory. */
void hn_gpu_list_staged(const hn_gpu_planner *pl, hn_gpu_layout items[HN_GPU_PLANS_MAX],
                        uint32_t *count);
hn_status hn_gpu_plan_mixed(hn_gpu_planner *pl, hn_arena *arena) HN_MUST_USE;

/* ---- gpu_access.c ---- */

/* With the size that is a multiple here in place of the size. */
hn_expr hn_gpu_assume(const hn_gpu_planner *pl, hn_expr e);
/* The longest vectors that the phase may take along the last of `vars`; 1: single elements. */
uint32_t hn_gpu_vector(const hn_gpu_planner *pl, const hn_kernel_phase *phase, const hn_expr *vars,
                       uint32_t count);
/* Whether an index goes up by one with the variable. */
bool hn_gpu_is_contiguous(const hn_gpu_planner *pl, hn_expr index, hn_expr last);
/* Bytes that the phase reads from memory for an element: of buffers that go along the last of
 * the variables and along `outer`, unless it is 0. What only goes along one of them comes from
 * a cache. */
int64_t hn_gpu_bytes_read(const hn_gpu_planner *pl, const hn_kernel_phase *phase, hn_expr outer,
                          hn_expr last);
/* The variable along which some loads of a kernel of elements are contiguous that are not along the
 * last one; 0: there is none. */
hn_expr hn_gpu_transposed(const hn_gpu_planner *pl, const hn_expr *vars, uint32_t count);
/* The vectors that fit a square. */
uint32_t hn_gpu_tile_vector(const hn_gpu_planner *pl, hn_expr along, hn_expr last);
/* Bytes of loads that go along `along`, for an element. */
int64_t hn_gpu_transposed_bytes(const hn_gpu_planner *pl, hn_expr along, hn_expr last);
/* The vectors of rows that the kernel may take; 1: single rows. */
uint32_t hn_gpu_row_vector(const hn_gpu_planner *pl);

/* ---- gpu_arrays.c ---- */

/* Whether an index goes along the rows as well: what does not is the same for all rows, and a cache
 * has it. */
bool hn_gpu_is_streamed(const hn_gpu_planner *pl, hn_expr index);
/* Whether registers may keep what the phases of a row share: they all walk it alike. */
bool hn_gpu_may_keep(const hn_gpu_planner *pl);
/* Whether registers that keep a row may stand for a local buffer: each thread reads what it
 * wrote. */
bool hn_gpu_fits_registers(const hn_gpu_planner *pl, hn_buf b);
/* Bytes that the kernel reads and writes at the hints of the sizes, each element of the row
 * once. */
double hn_gpu_bytes_once(const hn_gpu_planner *pl);
/* Of a thread that keeps `elems` elements: registers of 32 bits. */
int64_t hn_gpu_kept_registers(const hn_gpu_planner *pl, int64_t elems);
/* Whether the phase reads what another thread may have written since the last barrier. */
bool hn_gpu_reads_unseen(const hn_gpu_planner *pl);

/* ---- gpu_ahead.c ---- */

/* Registers for what a row has once; NULL: there are none. Until pl->singles changes. */
hn_gpu_array *hn_gpu_find_single(hn_gpu_planner *pl, hn_buf b, hn_expr index);

/* ---- gpu_place.c ---- */

/* A square of elements: of two variables, from here on. */
typedef struct hn_gpu_tile {
    hn_expr along, last; /* the variables: what goes along the first one is transposed */
    hn_expr along_begin, last_begin; /* their first values */
    int64_t size, pitch;             /* of a side; of the square's lines in shared memory */
} hn_gpu_tile;

/* The elements of `vars`, vector by vector: the first one is `first`, those of a thread are `width`
 * apart. */
typedef struct hn_gpu_run {
    const hn_expr *vars;
    uint32_t count;
    hn_expr vectors; /* how many there are, at most if there is a limit */
    hn_expr limit;   /* how many there are; 0: that is `vectors` */
    hn_expr last;    /* vectors go along this variable: the last one, */
    hn_expr begin;   /* or one that is not of them, from here on; 0: the last one */
    hn_expr first;
    uint32_t width;
    bool is_whole;           /* there is an element for each */
    const hn_gpu_tile *tile; /* in place of all these but `last`, or NULL */
} hn_gpu_run;
/* Along the last of the variables. */
hn_gpu_run hn_gpu_run_of(const hn_gpu_planner *pl, const hn_expr *vars, uint32_t count);

/* ---- gpu_sums.c ---- */

/* Registers for the phase's reductions of a vector of rows; and they combine. */
void hn_gpu_begin_sums(hn_gpu_planner *pl);
void hn_gpu_combine_sums(hn_gpu_planner *pl);

/* ---- gpu_vectors.c ---- */

/* A phase without variables. */
void hn_gpu_emit_vector_once(hn_gpu_planner *pl, const hn_gpu_run *run);
/* Reads what is the same for all rows. */
void hn_gpu_emit_shared_reads(hn_gpu_planner *pl, const hn_gpu_run *run);
/* Of the phase at hand: registers for what it reads of a row, so that one may be read ahead. */
void hn_gpu_prepare_ahead(hn_gpu_planner *pl, const hn_gpu_run *run);
/* Reads what they are for of the row whose variables are defined: the next one, or the first. */
void hn_gpu_emit_row_reads(hn_gpu_planner *pl, const hn_gpu_run *run, bool is_next);
/* Of a layout with stages: sends the first rows on their way, from that of the number on. */
void hn_gpu_emit_first_stages(hn_gpu_planner *pl, const hn_gpu_run *run, hn_expr number);
/* The next row becomes the one at hand. */
void hn_gpu_emit_next_row(hn_gpu_planner *pl, const hn_gpu_run *run);
/* A block for each vector of the step: its first element, in memory for those of the thread; and
 * the last variable there. How many blocks are to be closed. */
uint32_t hn_gpu_open_vectors(hn_gpu_planner *pl, const hn_gpu_run *run, hn_expr *out_at,
                             hn_expr *out_begin);
/* One step of the phase at hand. */
void hn_gpu_emit_step(hn_gpu_planner *pl, const hn_gpu_run *run);

/* ---- gpu_scan.c ---- */

/* Whether a scan goes along its elements in memory. */
bool hn_gpu_scans_along(const hn_gpu_planner *pl);
/* A step of a scan: all that it reads, then vector after vector what the threads have combined, and
 * the results; `open_row` and hn_form_close are around what is done for rows that exist. */
void hn_gpu_emit_scan_step(hn_gpu_planner *pl, const hn_gpu_run *run, hn_freg all,
                           void (*open_row)(hn_gpu_planner *pl));

/* ---- gpu_peel.c ---- */

/* The vectors that rows may take from their first aligned element on, with local buffers in
 * registers; 1: there are none. */
uint32_t hn_gpu_peeled_vector(const hn_gpu_planner *pl);
/* Whether the first vector of a buffer's row is aligned. */
bool hn_gpu_is_peeled(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                      int64_t vector);
/* The vectors of the row at hand; and then its other elements: `emit` for each. */
hn_gpu_run hn_gpu_begin_peeled(hn_gpu_planner *pl);
void hn_gpu_emit_peeled(hn_gpu_planner *pl, const hn_gpu_run *run,
                        void (*emit)(hn_gpu_planner *pl, const hn_gpu_run *run));
/* Whether a thread has one of these at most. */
bool hn_gpu_has_one_edge(const hn_gpu_layout *l);
/* Where registers keep the row: has registers for it, and reads what the phase is the first to
 * read. */
void hn_gpu_keep_edges(hn_gpu_planner *pl, const hn_gpu_run *run);

/* ---- gpu_online.c ---- */

/* Whether phase `f` finds the largest number, and the next one sums the exponentials below it. */
bool hn_gpu_is_online(const hn_gpu_planner *pl, uint32_t f);
/* Registers for both; the first one is at hand. */
hn_status hn_gpu_begin_online(hn_gpu_planner *pl, const hn_kernel_phase *largest,
                              hn_gpu_online *out) HN_MUST_USE;
/* Of pl->online: a step, of which `elements` emits what one of the phases does. */
void hn_gpu_emit_online_step(hn_gpu_planner *pl, const hn_gpu_run *run,
                             void (*elements)(hn_gpu_planner *pl, const hn_gpu_run *run));
/* The threads of a row combine what they have. */
void hn_gpu_combine_online(hn_gpu_planner *pl);

#endif
