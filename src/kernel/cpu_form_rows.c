/* cpu_form_rows.c: forms whose lanes run along rows: the elements of a flat kernel, row after row,
 * pipelined rows and split streams. cpu_rows.c tells what the last two are good for. */
#include "kernel/cpu_former.h"

/* ---- flat ---- */

/* A part of the elements: blocks are whole steps, so that the last block's rest is the whole's. */
hn_status hn_form_flat(hn_former *fm) {
    HN_TRY(hn_former_phase(fm, 0));
    hn_expr block = hn_former_int(fm, fm->plan->facts->flat_block_elems),
            extent = hn_former_extent(fm, fm->ph->lane);
    hn_expr begin = hn_sym_mul(fm->sym, fm->f->first, block),
            end = hn_sym_mul(fm->sym, fm->f->until, block);
    bool serial = fm->k->serial; /* all of them, in one go */
    if (serial) hn_form_if(fm->f, hn_former_int(fm, 0), extent);
    hn_former_levels(fm, 0, 0);
    hn_former_lanes(fm, serial ? hn_former_int(fm, 0) : begin,
                    serial ? extent : hn_sym_min(fm->sym, extent, end));
    hn_former_vector(fm, 1);
    hn_form_close(fm->f);
    if (serial) hn_form_close(fm->f);
    return NULL;
}

/* ---- row after row ---- */

/* The phases from `from` on, of the row whose variables are known. */
static hn_status emit_phases(hn_former *fm, uint32_t from) {
    for (uint32_t f = from; f < fm->k->phases.count; f++) HN_TRY(hn_former_inner(fm, f));
    return NULL;
}

static hn_status emit_rows(hn_former *fm, hn_expr first, hn_expr until) {
    hn_expr row = hn_form_symbol(fm->f, fm->plan->extent);
    hn_form_for(fm->f, row, first, until, 1);
    hn_former_coordinates(fm, row, fm->k->vars, fm->k->rank);
    HN_TRY(emit_phases(fm, 0));
    hn_form_close(fm->f);
    return NULL;
}

hn_status hn_form_rows(hn_former *fm) {
    if (fm->k->serial) return emit_rows(fm, hn_former_int(fm, 0), fm->plan->extent);
    return emit_rows(fm, fm->f->first, fm->f->until);
}

/* ---- split streams ---- */

/* Row `rows[u]` of each part, read together: a register for each of them. */
static hn_status emit_streams(hn_former *fm, const hn_expr *rows, hn_freg *registers) {
    const struct hn_cpu_split *split = &fm->plan->split;
    const hn_kernel_reduce *sum = &fm->k->phases.items[0].reduces.items[0];
    HN_TRY(hn_former_phase(fm, 0));
    for (uint32_t u = 0; u < split->streams; u++) {
        hn_former_init(fm, sum);
        registers[u] = fm->registers[sum->slot];
    }
    hn_form_lanes lanes = {.whole = true,
                           .rest = split->is_whole ? HN_FORM_REST_NONE : HN_FORM_REST_MASKED};
    hn_form_lanes_in(fm->f, fm->ph->lane, hn_former_int(fm, 0), hn_former_extent(fm, fm->ph->lane),
                     split->accumulators, lanes);
    for (uint32_t u = 0; u < split->streams; u++) {
        fm->renaming.to[0] = rows[u];
        fm->registers[sum->slot] = registers[u];
        hn_former_vector(fm, 0);
    }
    hn_form_close(fm->f);
    return NULL;
}

/* The results of a row, and what is made of them. */
static hn_status emit_stream_results(hn_former *fm, hn_expr row, hn_freg reg) {
    hn_form_block(fm->f);
    fm->renaming.to[0] = row;
    fm->registers[fm->k->phases.items[0].reduces.items[0].slot] = reg;
    hn_form_across(fm->f, reg);
    HN_TRY(emit_phases(fm, 1));
    hn_form_close(fm->f);
    return NULL;
}

/* Row number `at` of each of the parts, which have `part` rows. */
static hn_status emit_split_row(hn_former *fm, hn_expr at, hn_expr part) {
    uint32_t streams = fm->plan->split.streams;
    hn_expr *rows;
    hn_freg *registers;
    HN_NEW(fm->scratch, rows, streams);
    HN_NEW(fm->scratch, registers, streams);
    for (uint32_t u = 0; u < streams; u++) {
        rows[u] = hn_form_symbol(fm->f, hn_former_extent(fm, fm->k->vars[0]));
        hn_form_let(fm->f, rows[u],
                    hn_sym_add(fm->sym, at, hn_sym_mul(fm->sym, hn_former_int(fm, u), part)));
    }
    hn_former_rename(fm, fm->k->vars[0], rows[0]);
    HN_TRY(emit_streams(fm, rows, registers));
    for (uint32_t u = 0; u < streams; u++) HN_TRY(emit_stream_results(fm, rows[u], registers[u]));
    fm->renaming.count = 0;
    return NULL;
}

hn_status hn_form_split(hn_former *fm) {
    hn_form *f = fm->f;
    hn_expr streams = hn_former_int(fm, fm->plan->split.streams),
            extent = hn_sym_add(fm->sym, f->grid, hn_former_int(fm, 1));
    hn_expr part = hn_form_symbol(f, extent), row = hn_form_symbol(f, f->grid);
    hn_form_let(f, part,
                hn_sym_floordiv(fm->sym, hn_sym_sub(fm->sym, f->until, f->first), streams));
    hn_form_for(f, row, f->first, hn_sym_add(fm->sym, f->first, part), 1);
    HN_TRY(emit_split_row(fm, row, part));
    hn_form_close(f);
    /* the last rows, one by one */
    return emit_rows(fm, hn_sym_add(fm->sym, f->first, hn_sym_mul(fm->sym, part, streams)),
                     f->until);
}

/* ---- pipelined rows ---- */

/* A register for each result of the kernel, for the row before. */
static hn_status init_kept(hn_former *fm, hn_freg **out) {
    hn_freg *kept;
    HN_NEW(fm->scratch, kept, fm->k->slots + 1);
    for (uint32_t f = 0; f < fm->k->phases.count; f++)
        for (uint32_t k = 0; k < fm->k->phases.items[f].reduces.count; k++) {
            const hn_kernel_reduce *r = &fm->k->phases.items[f].reduces.items[k];
            kept[r->slot] = hn_form_add_register(fm->f, r->op, r->dtype);
            hn_form_init(fm->f, kept[r->slot]);
        }
    *out = kept;
    return NULL;
}

static void keep_results(hn_former *fm, const hn_freg *kept) {
    for (uint32_t slot = 0; slot < fm->k->slots; slot++)
        if (kept[slot])
            hn_form_set(fm->f, kept[slot], hn_form_result(fm->f, fm->registers[slot], false), 0);
}

/* Local buffers are double: the row at hand has one half, `side` tells which. */
static hn_status take_side(hn_former *fm, hn_expr side) {
    HN_NEW(fm->scratch, fm->local_begins, fm->k->locals.count);
    for (uint32_t k = 0; k < fm->k->locals.count; k++)
        fm->local_begins[k] =
            hn_sym_mul(fm->sym, side, hn_former_int(fm, fm->plan->local_elems[k]));
    return NULL;
}

/* A symbol that is `e`, from 0 to below `extent`. */
static hn_expr let_new(hn_former *fm, hn_expr extent, hn_expr e) {
    hn_expr var = hn_form_symbol(fm->f, extent);
    hn_form_let(fm->f, var, e);
    return var;
}

/* What stores row `before`: the kernel's variables and the lanes have other names there. */
static hn_status begin_follower(const hn_former *fm, hn_expr before, hn_freg *kept, hn_expr side,
                                hn_former *out) {
    const hn_kernel_phase *last = &fm->k->phases.items[fm->k->phases.count - 1];
    *out = *fm;
    out->registers = kept;
    out->stores_are_aligned = true;
    for (uint32_t d = 0; d < fm->k->rank; d++)
        hn_former_rename(out, fm->k->vars[d],
                         hn_form_symbol(fm->f, hn_former_extent(fm, fm->k->vars[d])));
    if (last->vars[0] != last[-1].vars[0]) hn_former_rename(out, last->vars[0], last[-1].vars[0]);
    HN_TRY(take_side(out, side));
    HN_TRY(hn_former_phase(out, fm->k->phases.count - 1));
    hn_former_coordinates(out, before, fm->k->vars, fm->k->rank);
    hn_former_levels(out, 0, 0);
    return NULL;
}

/* The phases of row `now`, with the last one for `before`. */
static hn_status emit_turn(hn_former *fm, hn_expr row, hn_freg *kept) {
    hn_sym *sym = fm->sym;
    hn_former follower;
    hn_expr one = hn_former_int(fm, 1), two = hn_former_int(fm, 2), grid = fm->f->grid;
    hn_expr now = let_new(fm, grid, hn_sym_min(sym, row, hn_sym_sub(sym, fm->f->until, one)));
    hn_expr before = let_new(fm, grid, hn_sym_max(sym, hn_sym_sub(sym, row, one), fm->f->first));
    hn_expr here = let_new(fm, two, hn_sym_mod(sym, row, two)),
            there = let_new(fm, two, hn_sym_sub(sym, one, here));
    hn_former_coordinates(fm, now, fm->k->vars, fm->k->rank);
    HN_TRY(begin_follower(fm, before, kept, there, &follower));
    HN_TRY(take_side(fm, here));
    for (uint32_t f = 0; f + 1 < fm->k->phases.count; f++) {
        fm->follower = f + 2 == fm->k->phases.count ? &follower : NULL;
        HN_TRY(hn_former_inner(fm, f));
    }
    fm->follower = NULL;
    keep_results(fm, kept);
    return NULL;
}

static hn_status emit_turns(hn_former *fm) {
    hn_form *f = fm->f;
    hn_freg *kept;
    hn_expr *whole = fm->local_begins, one = hn_former_int(fm, 1),
            row = hn_form_symbol(f, hn_sym_add(fm->sym, f->grid, one));
    HN_TRY(init_kept(fm, &kept));
    hn_form_if(f, f->first, f->until);
    hn_form_for(f, row, f->first, hn_sym_add(fm->sym, f->until, one), 1);
    HN_TRY(emit_turn(fm, row, kept));
    hn_form_close(f);
    hn_form_close(f);
    fm->local_begins = whole;
    return NULL;
}

hn_status hn_form_pipelined(hn_former *fm) {
    const hn_kernel_phase *last = &fm->k->phases.items[fm->k->phases.count - 1];
    hn_expr index = last->stores.items[0].index;
    hn_form_if_aligned(fm->f, hn_former_place(fm, last->stores.items[0].buffer, true, &index));
    HN_TRY(emit_turns(fm));
    hn_form_else(fm->f);
    HN_TRY(hn_form_rows(fm));
    hn_form_close(fm->f);
    return NULL;
}
