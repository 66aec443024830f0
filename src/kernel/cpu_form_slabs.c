/* cpu_form_slabs.c: rows and reductions down their columns in one kernel (sched/mixed.c).
 *
 * An iteration takes a slab of rows, one after the other, and adds what each element of a row gives
 * to its column into the slab's row of partial results, which stays in a cache of the core:
 *
 *     t[s, c] = nothing, for all c
 *     for rows of slab s { the phases of a row; t[s, c] += %9 }
 *
 * Rows are read from memory once. How many slabs there are does not depend on the threads, so
 * neither do results.
 *
 * Source: `henry bench` of norm backward against separate kernels, in turns, 1 and 2 threads
 * of a shared Xeon with AVX-512, caches of 48 KiB and 2 MiB: RMS and layer norm, bf16 and f32,
 * are 1.5 to 2.5 times as fast from 16384 x 256 to 8192 x 8192, 1 to 1.9 times at 1024 x 128
 * and 1024 x 256, 1.4 times at 4096 x 64; rows of 16 elements are 1.1 to 1.5 times as slow. The
 * traffic says 5/3 where memory decides: rows and gradients are read once and not twice. */
#include "kernel/cpu_emitter.h"

/* The loops of the phase at hand around its lanes. */
static void open_elements(hn_emitter *em) {
    for (uint32_t d = 0; d + 1 < em->ph->phase->rank; d++) hn_emitter_loop(em, d);
    hn_emitter_lanes(em, hn_emitter_int(em, 0), hn_emitter_extent(em, em->ph->lane));
    hn_form_vector(em->f);
}

static void close_elements(hn_emitter *em) {
    for (uint32_t d = 0; d < em->ph->phase->rank + 1; d++) hn_form_close(em->f);
}

/* The partial results of phase `f` before the first row. */
static hn_status begin_columns(hn_emitter *em, uint32_t f) {
    hn_fid *nothing;
    HN_TRY(hn_emitter_phase(em, f));
    const hn_kernel_phase *phase = em->ph->phase;
    if (!phase->columns.count) return NULL;
    HN_NEW(em->scratch, nothing, phase->columns.count);
    hn_form_block(em->f);
    for (uint32_t k = 0; k < phase->columns.count; k++) {
        const hn_kernel_column *c = &phase->columns.items[k];
        hn_freg reg = hn_form_add_register(em->f, c->op, c->dtype);
        hn_form_init(em->f, reg);
        nothing[k] = hn_form_result(em->f, reg, false);
    }
    open_elements(em);
    for (uint32_t k = 0; k < phase->columns.count; k++) {
        hn_expr index;
        hn_fmem memory = hn_emitter_column_place(em, &phase->columns.items[k], &index);
        hn_form_store(em->f, memory, index, nothing[k], HN_STORE_SET);
    }
    close_elements(em);
    hn_form_close(em->f);
    return NULL;
}

/* Opens the loop over the rows of a slab, whose variables are known in it. */
static void open_rows(hn_emitter *em, hn_expr slab) {
    hn_expr rows = hn_emitter_int(em, 1), slabs = hn_emitter_int(em, em->k->slabs);
    for (uint32_t d = 0; d < em->k->rank; d++)
        rows = hn_sym_mul(em->sym, rows, hn_emitter_extent(em, em->k->vars[d]));
    hn_expr each = hn_sym_ceildiv(em->sym, rows, slabs), begin = hn_sym_mul(em->sym, slab, each),
            row = hn_form_symbol(em->f, rows);
    hn_form_for(em->f, row, begin, hn_sym_min(em->sym, hn_sym_add(em->sym, begin, each), rows), 1);
    hn_emitter_coordinates(em, row, em->k->vars, em->k->rank);
}

hn_status hn_form_slabs(hn_emitter *em) {
    hn_expr slab = hn_form_symbol(em->f, em->plan->extent);
    hn_form_for(em->f, slab, em->f->first, em->f->until, 1);
    em->slab_begin = hn_sym_mul(em->sym, slab, em->k->slab_elems);
    for (uint32_t f = 0; f < em->k->phases.count; f++) HN_TRY(begin_columns(em, f));
    open_rows(em, slab);
    for (uint32_t f = 0; f < em->k->phases.count; f++) HN_TRY(hn_emitter_inner(em, f));
    hn_form_close(em->f);
    hn_form_close(em->f);
    return NULL;
}
