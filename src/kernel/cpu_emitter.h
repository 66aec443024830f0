/* cpu_emitter.h: what the files share that make forms of ranges (form.h) from plans (cpu.h).
 *
 * cpu_emitter.c has the parts: the ops of a phase as VALUEs, its reductions, its stores, its loops.
 * cpu_form_rows.c, cpu_form_columns.c, cpu_form_strips.c and cpu_form_tiles.c put them together,
 * one function for each hn_cpu_form. */
#ifndef HN_KERNEL_CPU_EMITTER_H
#define HN_KERNEL_CPU_EMITTER_H

#include "kernel/cpu_internal.h"
#include "kernel/form.h"

/* Index symbols of the schedule that have another meaning in the part at hand, in every index that
 * is emitted. */
typedef struct hn_emitter_renaming {
    hn_expr from[HN_MAX_RANK], to[HN_MAX_RANK];
    uint32_t count;
} hn_emitter_renaming;

typedef struct hn_emitter {
    const hn_cpu_plan *plan;
    const hn_kernel *k; /* the plan's */
    hn_sym *sym;
    hn_arena *scratch;
    hn_form *f;
    hn_freg *registers;    /* per slot of the kernel; 0: none yet */
    hn_fmem *locals;       /* per local buffer of the kernel */
    hn_expr *local_begins; /* per local buffer: the element at which the row at hand begins */
    hn_emitter_renaming renaming;
    hn_fmem *result_memories; /* per slot: what a RESULT loads, at result_index, in place of the
                                 register; 0: none */
    hn_expr result_index;

    /* the phase at hand */
    const hn_cpu_phase *ph;
    hn_fid *values;      /* per op of its body; 0: not emitted */
    hn_fid *reciprocals; /* per op of its body: of one that is_divisor */
    hn_fmem *tiles;      /* per op of its body: the memory that a transposed LOAD reads; 0: none */
    hn_expr *tile_indices; /* ... and where */
    hn_expr *ahead_from,
        *ahead_to; /* in prefetches: checked indices of the row at hand, and of one ahead */
    uint32_t ahead_count;
    hn_freg *columns;        /* per column of the phase: a register to combine an element in */
    hn_expr slab_begin;      /* where the partial results of the slab at hand begin */
    bool stores_are_aligned; /* those of whole vectors, if the memory is */
    struct hn_emitter *interleaved; /* whose phase runs among the vectors of this one; NULL: none */
} hn_emitter;

static inline hn_expr hn_emitter_int(const hn_emitter *em, int64_t value) {
    return hn_sym_int(em->sym, value);
}
static inline hn_expr hn_emitter_extent(const hn_emitter *em, hn_expr var) {
    return hn_sym_symbol_extent(em->sym, var);
}

/* A name for what is used often, a LET with 0 <= e < extent. Numbers and symbols need none. */
static inline hn_expr hn_emitter_let(hn_emitter *em, hn_expr e, hn_expr extent) {
    if (!e || hn_sym_is_int(em->sym, e, NULL) || hn_sym_kind(em->sym, e) == HN_EXPR_SYMBOL)
        return e;
    hn_expr name = hn_form_symbol(em->f, extent);
    hn_form_let(em->f, name, e);
    return name;
}

/* Creates the form, and its memories for local buffers; no phase is at hand. Owns: the form lives
 * in `arena`, the rest in `scratch`. */
hn_status hn_emitter_begin(const hn_cpu_plan *plan, hn_arena *arena, hn_arena *scratch,
                           hn_emitter *out) HN_MUST_USE;

/* From here on `from` means `to`. */
void hn_emitter_rename(hn_emitter *em, hn_expr from, hn_expr to);
/* An index as it is in the part at hand. */
hn_expr hn_emitter_index(hn_emitter *em, hn_expr index);
/* The memory, and the index in it, that an access of buffer `b` at `index` goes to: an argument
 * with its base, or a local buffer. */
hn_fmem hn_emitter_place(hn_emitter *em, hn_buf b, bool is_written, hn_expr *index);

/* Phase `f` becomes the one at hand; nothing of it is emitted. */
hn_status hn_emitter_phase(hn_emitter *em, uint32_t f) HN_MUST_USE;
/* A register for reduction `r`, which becomes that of its slot, and its INIT. */
void hn_emitter_init(hn_emitter *em, const hn_kernel_reduce *r);
/* Those of all reductions of the phase, and of its columns. */
void hn_emitter_inits(hn_emitter *em);
/* The memory of a column's partial results, and the index in it of the element at hand. */
hn_fmem hn_emitter_column_place(hn_emitter *em, const hn_kernel_column *c, hn_expr *out_index);
/* ACROSS for all reductions of the phase. */
void hn_emitter_across(hn_emitter *em);
/* The live ops of loop levels `first` to `last` (hn_cpu_op.level). Those in narrower lanes,
 * rewritten and so on as the plan says. */
void hn_emitter_levels(hn_emitter *em, uint32_t first, uint32_t last);
/* STEPs of the phase's reductions, then its stores. Of a scan: results in between. */
void hn_emitter_effects(hn_emitter *em);
/* The prefetches of the phase; in a VECTOR. */
void hn_emitter_prefetches(hn_emitter *em);
/* All of a phase for one VECTOR: levels from `first` on, effects, prefetches. */
void hn_emitter_vector(hn_emitter *em, uint32_t first_level);
/* Opens the FOR over variable `d` of the phase at hand. */
void hn_emitter_loop(hn_emitter *em, uint32_t d);
/* Opens the LANES of the phase at hand, as its lane loop says. */
void hn_emitter_lanes(hn_emitter *em, hn_expr begin, hn_expr end);
/* LETs: vars[0..count) are the row-major coordinates of number `at`; the symbols that they are
 * renamed to, if they are. */
void hn_emitter_coordinates(hn_emitter *em, hn_expr at, const hn_expr *vars, uint32_t count);
/* Phase `f`, whose lanes run along its last variable, or which has none: registers, loops, LANES,
 * ACROSS. */
hn_status hn_emitter_inner(hn_emitter *em, uint32_t f) HN_MUST_USE;
/* Phase `f`, whose lanes are rows, within LANES over kernel variable plan->phases[f].lane: FORs
 * over its own variables. */
hn_status hn_emitter_column(hn_emitter *em, uint32_t f) HN_MUST_USE;

/* The body of a form. */
hn_status hn_form_flat(hn_emitter *em) HN_MUST_USE; /* cpu_form_rows.c */
hn_status hn_form_rows(hn_emitter *em) HN_MUST_USE;
hn_status hn_form_pipelined(hn_emitter *em) HN_MUST_USE;
hn_status hn_form_split(hn_emitter *em) HN_MUST_USE;
hn_status hn_form_slabs(hn_emitter *em) HN_MUST_USE;          /* cpu_form_slabs.c */
hn_status hn_form_columns_narrow(hn_emitter *em) HN_MUST_USE; /* cpu_form_columns.c */
hn_status hn_form_columns_wide(hn_emitter *em) HN_MUST_USE;   /* cpu_form_strips.c */
hn_status hn_form_tiles(hn_emitter *em) HN_MUST_USE;          /* cpu_form_tiles.c */
hn_status hn_form_tiles_wide(hn_emitter *em) HN_MUST_USE;

#endif
