/* cpu_form_rows.c: forms whose lanes run along rows: the elements of a flat kernel, row after row,
 * software pipelining and split streams. cpu_rows.c tells what the last two are good for. */
#include "kernel/cpu_emitter.h"

/* ---- flat ---- */

/* A part of the elements: blocks are whole steps, so that the last block's rest is the whole's. */
hn_status hn_form_flat(hn_emitter *em) {
    HN_TRY(hn_emitter_phase(em, 0));
    hn_expr block = hn_emitter_int(em, em->plan->flat_block_elems),
            extent = hn_emitter_extent(em, em->ph->lane);
    hn_expr begin = hn_sym_mul(em->sym, em->f->first, block),
            end = hn_sym_mul(em->sym, em->f->until, block);
    bool serial = em->k->serial; /* all of them, in one go */
    if (serial) hn_form_if(em->f, hn_emitter_int(em, 0), extent);
    hn_emitter_levels(em, 0, 0);
    hn_emitter_lanes(em, serial ? hn_emitter_int(em, 0) : begin,
                     serial ? extent : hn_sym_min(em->sym, extent, end));
    hn_emitter_vector(em, 1);
    hn_form_close(em->f);
    if (serial) hn_form_close(em->f);
    return NULL;
}

/* ---- row after row ---- */

/* The phases from `from` on, of the row whose variables are known. */
static hn_status emit_phases(hn_emitter *em, uint32_t from) {
    for (uint32_t f = from; f < em->k->phases.count; f++) HN_TRY(hn_emitter_inner(em, f));
    return NULL;
}

static hn_status emit_rows(hn_emitter *em, hn_expr first, hn_expr until) {
    hn_expr row = hn_form_symbol(em->f, em->plan->extent);
    hn_form_for(em->f, row, first, until, 1);
    hn_emitter_coordinates(em, row, em->k->vars, em->k->rank);
    HN_TRY(emit_phases(em, 0));
    hn_form_close(em->f);
    return NULL;
}

hn_status hn_form_rows(hn_emitter *em) {
    if (em->k->serial) return emit_rows(em, hn_emitter_int(em, 0), em->plan->extent);
    return emit_rows(em, em->f->first, em->f->until);
}

/* ---- split streams ---- */

/* Row `rows[u]` of each part, read together: a register for each of them. */
static hn_status emit_streams(hn_emitter *em, const hn_expr *rows, hn_freg *registers) {
    const struct hn_cpu_split *split = &em->plan->split;
    const hn_kernel_reduce *sum = &em->k->phases.items[0].reduces.items[0];
    HN_TRY(hn_emitter_phase(em, 0));
    for (uint32_t u = 0; u < split->streams; u++) {
        hn_emitter_init(em, sum);
        registers[u] = em->registers[sum->slot];
    }
    hn_form_lanes lanes = {.whole = true,
                           .rest = split->is_whole ? HN_FORM_REST_NONE : HN_FORM_REST_MASKED};
    hn_form_lanes_in(em->f, em->ph->lane, hn_emitter_int(em, 0),
                     hn_emitter_extent(em, em->ph->lane), split->accumulators, lanes);
    for (uint32_t u = 0; u < split->streams; u++) {
        em->renaming.to[0] = rows[u];
        em->registers[sum->slot] = registers[u];
        hn_emitter_vector(em, 0);
    }
    hn_form_close(em->f);
    return NULL;
}

/* The results of a row, and what is made of them. */
static hn_status emit_stream_results(hn_emitter *em, hn_expr row, hn_freg reg) {
    hn_form_block(em->f);
    em->renaming.to[0] = row;
    em->registers[em->k->phases.items[0].reduces.items[0].slot] = reg;
    hn_form_across(em->f, reg);
    HN_TRY(emit_phases(em, 1));
    hn_form_close(em->f);
    return NULL;
}

/* Row number `at` of each of the parts, which have `part` rows. */
static hn_status emit_split_row(hn_emitter *em, hn_expr at, hn_expr part) {
    uint32_t streams = em->plan->split.streams;
    hn_expr *rows;
    hn_freg *registers;
    HN_NEW(em->scratch, rows, streams);
    HN_NEW(em->scratch, registers, streams);
    for (uint32_t u = 0; u < streams; u++) {
        rows[u] = hn_form_symbol(em->f, hn_emitter_extent(em, em->k->vars[0]));
        hn_form_let(em->f, rows[u],
                    hn_sym_add(em->sym, at, hn_sym_mul(em->sym, hn_emitter_int(em, u), part)));
    }
    hn_emitter_rename(em, em->k->vars[0], rows[0]);
    HN_TRY(emit_streams(em, rows, registers));
    for (uint32_t u = 0; u < streams; u++) HN_TRY(emit_stream_results(em, rows[u], registers[u]));
    em->renaming.count = 0;
    return NULL;
}

hn_status hn_form_split(hn_emitter *em) {
    hn_form *f = em->f;
    hn_expr streams = hn_emitter_int(em, em->plan->split.streams),
            extent = hn_sym_add(em->sym, f->grid, hn_emitter_int(em, 1));
    hn_expr part = hn_form_symbol(f, extent), row = hn_form_symbol(f, f->grid);
    hn_form_let(f, part,
                hn_sym_floordiv(em->sym, hn_sym_sub(em->sym, f->until, f->first), streams));
    hn_form_for(f, row, f->first, hn_sym_add(em->sym, f->first, part), 1);
    HN_TRY(emit_split_row(em, row, part));
    hn_form_close(f);
    /* the last rows, one by one */
    return emit_rows(em, hn_sym_add(em->sym, f->first, hn_sym_mul(em->sym, part, streams)),
                     f->until);
}

/* ---- software pipelining: row i - 1 is stored while row i is computed ---- */

/* A register for each result of the kernel, for the row before. */
static hn_status init_previous_results(hn_emitter *em, hn_freg **out) {
    hn_freg *previous;
    HN_NEW(em->scratch, previous, em->k->slots + 1);
    for (uint32_t f = 0; f < em->k->phases.count; f++)
        for (uint32_t k = 0; k < em->k->phases.items[f].reduces.count; k++) {
            const hn_kernel_reduce *r = &em->k->phases.items[f].reduces.items[k];
            previous[r->slot] = hn_form_add_register(em->f, r->op, r->dtype);
            hn_form_init(em->f, previous[r->slot]);
        }
    *out = previous;
    return NULL;
}

static void save_results(hn_emitter *em, const hn_freg *previous) {
    for (uint32_t slot = 0; slot < em->k->slots; slot++)
        if (previous[slot])
            hn_form_set(em->f, previous[slot], hn_form_result(em->f, em->registers[slot], false),
                        0);
}

/* Local buffers are double: the row at hand has one half, `half` tells which. */
static hn_status use_half(hn_emitter *em, hn_expr half) {
    HN_NEW(em->scratch, em->local_begins, em->k->locals.count);
    for (uint32_t k = 0; k < em->k->locals.count; k++)
        em->local_begins[k] =
            hn_sym_mul(em->sym, half, hn_emitter_int(em, em->plan->local_elems[k]));
    return NULL;
}

/* A symbol that is `e`, from 0 to below `extent`. */
static hn_expr let_new(hn_emitter *em, hn_expr extent, hn_expr e) {
    hn_expr var = hn_form_symbol(em->f, extent);
    hn_form_let(em->f, var, e);
    return var;
}

/* What stores row `before`: the kernel's variables and the lanes have other names there. */
static hn_status begin_interleaved(const hn_emitter *em, hn_expr before, hn_freg *previous,
                                   hn_expr half, hn_emitter *out) {
    const hn_kernel_phase *last = &em->k->phases.items[em->k->phases.count - 1];
    *out = *em;
    out->registers = previous;
    out->stores_are_aligned = true;
    for (uint32_t d = 0; d < em->k->rank; d++)
        hn_emitter_rename(out, em->k->vars[d],
                          hn_form_symbol(em->f, hn_emitter_extent(em, em->k->vars[d])));
    if (last->vars[0] != last[-1].vars[0]) hn_emitter_rename(out, last->vars[0], last[-1].vars[0]);
    HN_TRY(use_half(out, half));
    HN_TRY(hn_emitter_phase(out, em->k->phases.count - 1));
    hn_emitter_coordinates(out, before, em->k->vars, em->k->rank);
    hn_emitter_levels(out, 0, 0);
    return NULL;
}

/* The phases of row `now`, with the last one for `before`. */
static hn_status emit_iteration(hn_emitter *em, hn_expr row, hn_freg *previous) {
    hn_sym *sym = em->sym;
    hn_emitter interleaved;
    hn_expr one = hn_emitter_int(em, 1), two = hn_emitter_int(em, 2), grid = em->f->grid;
    hn_expr now = let_new(em, grid, hn_sym_min(sym, row, hn_sym_sub(sym, em->f->until, one)));
    hn_expr before = let_new(em, grid, hn_sym_max(sym, hn_sym_sub(sym, row, one), em->f->first));
    hn_expr this_half = let_new(em, two, hn_sym_mod(sym, row, two)),
            other_half = let_new(em, two, hn_sym_sub(sym, one, this_half));
    hn_emitter_coordinates(em, now, em->k->vars, em->k->rank);
    HN_TRY(begin_interleaved(em, before, previous, other_half, &interleaved));
    HN_TRY(use_half(em, this_half));
    for (uint32_t f = 0; f + 1 < em->k->phases.count; f++) {
        em->interleaved = f + 2 == em->k->phases.count ? &interleaved : NULL;
        HN_TRY(hn_emitter_inner(em, f));
    }
    em->interleaved = NULL;
    save_results(em, previous);
    return NULL;
}

static hn_status emit_iterations(hn_emitter *em) {
    hn_form *f = em->f;
    hn_freg *previous;
    hn_expr *whole = em->local_begins, one = hn_emitter_int(em, 1),
            row = hn_form_symbol(f, hn_sym_add(em->sym, f->grid, one));
    HN_TRY(init_previous_results(em, &previous));
    hn_form_if(f, f->first, f->until);
    hn_form_for(f, row, f->first, hn_sym_add(em->sym, f->until, one), 1);
    HN_TRY(emit_iteration(em, row, previous));
    hn_form_close(f);
    hn_form_close(f);
    em->local_begins = whole;
    return NULL;
}

hn_status hn_form_pipelined(hn_emitter *em) {
    const hn_kernel_phase *last = &em->k->phases.items[em->k->phases.count - 1];
    hn_expr index = last->stores.items[0].index;
    hn_form_if_aligned(em->f, hn_emitter_place(em, last->stores.items[0].buffer, true, &index));
    HN_TRY(emit_iterations(em));
    hn_form_else(em->f);
    HN_TRY(hn_form_rows(em));
    hn_form_close(em->f);
    return NULL;
}
