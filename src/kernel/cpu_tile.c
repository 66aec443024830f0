/* cpu_tile.c: kernels that read along another dimension than they write, such as transposes.
 *
 * The iteration runs in squares. The strided loads of a square are transposed in registers, a
 * vector by a vector at a time, into an array; then the body runs for the square's rows. So memory
 * is read and written in runs of a whole square's width: single lines, a large stride apart, cost
 * twice the time and more, above all with stores that bypass the caches.
 *
 * A tile's array is in the first cache. Between memory and memory tiles are wide, and reads and
 * writes go on together, as in a copy: there are two arrays, and with each vector by vector that is
 * transposed into one, as many elements of the tile before leave the other. The next tile is the
 * one beside this in what is read: its rows continue.
 * Source: bench_ceilings transpose, x.t. */
#include "kernel/cpu_internal.h"

/* The outer variable along which a strided load is contiguous; 0: none. */
static hn_expr contiguous_var(const hn_cpu_plan *pl, hn_expr index) {
    for (uint32_t d = 0; d < pl->kernel->rank; d++) {
        hn_expr var = pl->kernel->vars[d], coeff, rest;
        if (hn_sym_affine(pl->sym, index, var, &coeff, &rest) && hn_sym_is_value(pl->sym, coeff, 1))
            return var;
    }
    return 0;
}

static bool is_worth_a_tile(const hn_cpu_plan *pl, hn_expr var) {
    return hn_cpu_hint(pl, var, 1024) >= pl->facts->tile_min_elems;
}

/* Whether the index goes along `var` by another step than 0 and 1. */
static bool is_strided(const hn_cpu_plan *pl, hn_expr index, hn_expr var) {
    hn_expr step, rest;
    if (!hn_sym_affine(pl->sym, index, var, &step, &rest)) return false;
    return !hn_sym_is_value(pl->sym, step, 0) && !hn_sym_is_value(pl->sym, step, 1);
}

hn_expr hn_cpu_tile_variable(const hn_cpu_plan *pl) {
    const hn_kernel *k = pl->kernel;
    const hn_kernel_phase *phase = &k->phases.items[0];
    if (k->mode != HN_VECTOR_INNER || k->serial || k->phases.count != 1 || k->rank == 0) return 0;
    if (phase->rank != 1 || phase->reduces.count || hn_cpu_has_indirect(phase)) return 0;
    hn_expr found = 0;
    for (hn_sid s = 1; s < phase->body.count && !found; s++) {
        const hn_sop *op = &phase->body.items[s];
        bool loads = op->kind == HN_SOP_LOAD && pl->phases[0].ops[s].live;
        if (loads && is_strided(pl, op->index, phase->vars[0]))
            found = contiguous_var(pl, op->index);
    }
    return found;
}

bool hn_cpu_tile_pays(const hn_cpu_plan *pl) {
    return is_worth_a_tile(pl, pl->tiles.var) &&
           is_worth_a_tile(pl, pl->kernel->phases.items[0].vars[0]);
}

/* Whether load `s` is one of those that go through the array. */
static bool goes_through(const hn_cpu_plan *pl, hn_sid s) {
    const hn_sop *op = &pl->kernel->phases.items[0].body.items[s];
    const hn_cpu_op *facts = &pl->phases[0].ops[s];
    if (op->kind != HN_SOP_LOAD || !facts->live || facts->access != HN_ACCESS_STRIDED) return false;
    return contiguous_var(pl, op->index) == pl->tiles.var;
}

hn_expr hn_cpu_tile_count(const hn_cpu_plan *pl, uint32_t block) {
    hn_expr count =
        hn_sym_ceildiv(pl->sym, hn_cpu_extent(pl, pl->tiles.var), hn_sym_int(pl->sym, block));
    for (uint32_t d = 0; d < pl->kernel->rank; d++)
        if (pl->kernel->vars[d] != pl->tiles.var)
            count = hn_sym_mul(pl->sym, count, hn_cpu_extent(pl, pl->kernel->vars[d]));
    return count;
}

/* One array of words. */
bool hn_cpu_can_tile_wide(const hn_cpu_plan *pl) {
    const hn_body *body = &pl->kernel->phases.items[0].body;
    uint32_t arrays = 0;
    bool words = true;
    for (hn_sid s = 1; s < body->count; s++) {
        if (!goes_through(pl, s)) continue;
        arrays++;
        words &= hn_cpu_elem_bytes(pl, body->items[s].buffer) == 4;
    }
    return arrays == 1 && words;
}

/* Sides that fill no vector: a wide tile has twice as many of them. Source: bench_picks, 20,011 x
 * 12 and 7 x 30,011. */
static bool is_narrow(const hn_cpu_plan *pl) {
    const int64_t least = (int64_t)pl->facts->narrow_tile_vectors * pl->lanes;
    return hn_cpu_hint(pl, pl->tiles.var, 1024) < least ||
           hn_cpu_hint(pl, pl->kernel->phases.items[0].vars[0], 1024) < least;
}

/* From memory to memory, enough parts. */
bool hn_cpu_wide_tile_pays(const hn_cpu_plan *pl) {
    if (is_narrow(pl) && hn_cpu_tile_pays(pl)) return true;
    if (!pl->nontemporal) return false;
    return hn_sym_hint(pl->sym, hn_cpu_tile_count(pl, HN_CPU_WIDE_TILE), 1) >=
           pl->facts->wide_tile_parts_min;
}

void hn_cpu_set_tiles(hn_cpu_plan *pl) {
    hn_cpu_phase *ph = &pl->phases[0];
    bool wide = pl->form == HN_CPU_TILES_WIDE;
    pl->tiles.block = wide ? HN_CPU_WIDE_TILE : HN_CPU_TILE;
    pl->tiles.pitch = wide ? HN_CPU_WIDE_TILE_PITCH : HN_CPU_TILE;
    /* else that cache holds all of it */
    pl->tiles.prefetches = !wide && pl->written_bytes > (double)pl->facts->tile_ahead_bytes;
    if (pl->choice.ahead && !wide) pl->tiles.prefetches = pl->choice.ahead != HN_CPU_AHEAD_NONE;
    for (hn_sid s = 1; s < ph->phase->body.count; s++) {
        const hn_sop *op = &ph->phase->body.items[s];
        bool along =
            op->kind == HN_SOP_LOAD && ph->ops[s].live && ph->ops[s].access == HN_ACCESS_CONTIGUOUS;
        ph->ops[s].transposed = goes_through(pl, s);
        /* what is the same for all rows is in the cache */
        ph->ops[s].rows_ahead = wide && along && hn_sym_uses(pl->sym, op->index, pl->tiles.var);
    }
}
