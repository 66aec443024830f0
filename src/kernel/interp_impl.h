/* interp_impl.h: what the files of the interpreter of kernel forms share; internal to src/kernel.
 *
 * interp.c has expressions, values and what one thread does; interp_memory.c memories and races;
 * interp_groups.c and interp_range.c run the two kinds of forms.
 *
 * A thread is one of a group, or a lane of a vector. Time counts barriers, VECTORs, groups and
 * ranges: accesses of one time are those of one group without a barrier between, or of one VECTOR.
 * Each element of a memory that the form writes remembers who wrote and read it last. */
#ifndef HN_KERNEL_INTERP_IMPL_H
#define HN_KERNEL_INTERP_IMPL_H

#include "ir/sop.h"
#include "kernel/interp.h"

enum { HN_RUN_NOBODY = UINT32_MAX }; /* instead of a thread or group */

/* The last accesses of an element. */
typedef struct hn_run_cell {
    uint64_t write_time, read_time;       /* 0: never */
    uint32_t writer, readers[2];          /* threads, at that time; two readers stand for all */
    uint32_t write_group, read_groups[2]; /* in the whole run */
    hn_fid in_order;                      /* the last write: see hn_run_access */
    uint64_t batch; /* of the writer's MOVEs to STAGED memory, from 1 on; 0: none */
} hn_run_cell;

/* Of an element: read before it was written; written. */
enum { HN_RUN_READ = 1, HN_RUN_WRITTEN = 2 };

typedef struct hn_run_memory {
    const hn_form_memory *info;
    hn_ref_elem *items;
    bool *is_set;       /* ARGUMENT */
    hn_run_cell *cells; /* NULL: the form does not write here */
    uint8_t *moved; /* ARGUMENT, if elements are counted: HN_RUN_READ | HN_RUN_WRITTEN of each */
    int64_t first, end; /* elements of `items` that an access may reach, from index 0 on; */
    int64_t apart;      /* PRIVATE: from thread to thread; else 0 */
} hn_run_memory;

/* What the interpreter knows of a statement beside the form. */
typedef struct hn_run_stmt {
    hn_ref_elem *values; /* VALUE: per thread, or one if is_uniform */
    bool is_uniform;     /* VALUE of a form of ranges, in no VECTOR */
    bool *active;        /* FOR, IF in a form of groups: the threads that run the body, */
    bool *otherwise;     /* IF: and those that run the other block */
    int64_t *next, *end; /* FOR: per thread */
    uint32_t symbol;     /* of what defines one: where it is among the symbols */
    int64_t extent;      /* of that symbol; below 0: not known from sizes alone */
} hn_run_stmt;

typedef struct hn_run {
    const hn_form *f;
    const hn_ref_sizes *sizes;
    hn_ref_buffer *buffers;
    hn_arena *arena;
    uint32_t width; /* threads of a group, or lanes of all vectors of the widest step */
    hn_run_memory *memories;
    hn_run_stmt *stmts;
    hn_ref_reduction *registers; /* [register][thread] */
    struct {
        hn_expr *items;
        uint32_t count, cap;
    } symbols;        /* index symbols, then sizes */
    int64_t *numbers; /* [thread][symbol] */
    uint64_t *batches,
        *arrived;              /* per thread: the one at hand, from 1 on; the last that is there */
    uint32_t group_symbols[2]; /* group and thread, or first and until: where they are */
    uint32_t group;            /* or range: its number */
    uint64_t time;
    bool index_fault;
    bool counts; /* elements of arguments that are read and written */

    /* forms of ranges */
    uint32_t *vectors; /* per register: that it has a number for, in each lane */
    bool *value_lost;  /* per register: an ACROSS has kept the position alone */
    bool in_vector;
    hn_fid lanes;         /* the LANES at hand, */
    int64_t at;           /* the element of its first lane, */
    uint32_t count, room; /* how many lanes count, and how many its vectors have */
} hn_run;

/* An access to an element of memory `m`. */
typedef struct hn_run_access {
    const char *does; /* "reads" */
    hn_fmem m;
    int64_t at;
    uint32_t thread;
    hn_fid
        in_order; /* a STORE that goes lane by lane, or atomic: its lanes or threads may meet; 0: none */
    bool is_atomic; /* ... and those of other groups */
} hn_run_access;

static inline const hn_form_stmt *hn_run_stmt_of(const hn_run *r, hn_fid s) {
    return &r->f->stmts.items[s];
}
static inline int64_t *hn_run_numbers(const hn_run *r, uint32_t thread) {
    return r->numbers + (size_t)thread * r->symbols.count;
}
static inline hn_ref_reduction *hn_run_registers(const hn_run *r, int64_t reg) {
    return r->registers + (size_t)reg * r->width;
}

/* ---- interp.c ---- */

hn_status hn_run_no_value(const hn_run *r, hn_expr e) HN_MUST_USE; /* the error */
hn_status hn_run_eval(const hn_run *r, hn_expr e, uint32_t thread, int64_t *out) HN_MUST_USE;
bool hn_run_eval_size(const hn_run *r, hn_expr e, int64_t *out);
/* Binds the symbol that the statement defines: for one thread, or for all lanes outside of
 * VECTORs. */
hn_status hn_run_define(hn_run *r, hn_fid s, uint32_t thread, hn_expr symbol,
                        int64_t value) HN_MUST_USE;
/* Binds group_symbols[which] for all threads. */
void hn_run_bind(hn_run *r, uint32_t which, int64_t value);

/* What one thread does. */
typedef hn_status (*hn_run_fn)(hn_run *r, hn_fid s, uint32_t thread);
hn_status hn_run_value(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;
hn_status hn_run_store(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;
hn_status hn_run_init(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;
hn_status hn_run_step(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;
hn_status hn_run_set(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;
hn_status hn_run_let(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;
hn_status hn_run_move(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;
hn_status hn_run_await(hn_run *r, hn_fid s, uint32_t thread) HN_MUST_USE;

/* ---- interp_memory.c ---- */

hn_status hn_run_prepare_memory(hn_run *r, hn_fmem m) HN_MUST_USE;
/* The element that an index of a thread means. */
hn_status hn_run_find(const hn_run *r, hn_fmem m, int64_t index, uint32_t thread,
                      int64_t *out) HN_MUST_USE;
hn_status hn_run_read(hn_run *r, const hn_run_access *a, hn_ref_elem *out) HN_MUST_USE;
hn_status hn_run_write(hn_run *r, const hn_run_access *a, hn_ref_elem value) HN_MUST_USE;
/* Instead of what is in memory by chance: what no result may come from. */
hn_ref_elem hn_run_odd_number(hn_dtype dtype, int64_t at);

/* ---- interp_groups.c ---- */

hn_status hn_run_groups(hn_run *r) HN_MUST_USE;

/* ---- interp_range.c ---- */

/* Which values are uniform, and the vectors of each register. */
hn_status hn_run_prepare_lanes(hn_run *r) HN_MUST_USE;
/* Whether RESULT `s` may be read where it stands. */
hn_status hn_run_check_result(const hn_run *r, hn_fid s) HN_MUST_USE;
hn_status hn_run_ranges(hn_run *r) HN_MUST_USE;

#endif
