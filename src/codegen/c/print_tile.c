/* print_tile.c: kernels that read along another dimension than they write, such as transposes.
 *
 * The iteration runs in blocks of TILE_BLOCK x TILE_BLOCK, so that the lines that a block touches stay in the
 * cache, and within a block in squares of VF x VF: the strided loads of a square are made contiguous, transposed in
 * registers and kept in a small array; then the body runs for each of its VF rows. Edges take the plain path.
 * Source: reference/performance.md 1.7, transposes. */
#include "codegen/c/internal.h"

#include <string.h>

enum { TILE_BLOCK = 64 };

/* The outer variable along which a strided load is contiguous; 0: none. */
static hn_expr contiguous_var(printer *pr, hn_expr index) {
    for (uint32_t d = 0; d < pr->k->rank; d++) {
        hn_expr coeff, rest;
        if (hn_sym_affine(pr->sym, index, pr->k->vars[d], &coeff, &rest) && hn_sym_is_value(pr->sym, coeff, 1)) return pr->k->vars[d];
    }
    return 0;
}

static bool worth_a_tile(printer *pr, hn_expr var) {
    hn_expr extent = hn_sym_symbol_extent(pr->sym, var);
    return hn_sym_hint(pr->sym, extent, 1024) >= 8;
}

hn_expr tile_variable(printer *pr) {
    const hn_kernel *k = pr->k;
    if (k->mode != HN_VECTOR_INNER || k->serial || k->phases.count != 1 || k->rank == 0) return 0;
    const hn_kernel_phase *phase = &k->phases.items[0];
    if (phase->rank != 1 || phase->reduces.count || !worth_a_tile(pr, phase->vars[0])) return 0;
    hn_expr found = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        hn_expr step, rest;
        if (op->kind == HN_SOP_INDIRECT) return 0;
        if (op->kind != HN_SOP_LOAD || !hn_sym_affine(pr->sym, op->index, phase->vars[0], &step, &rest)) continue;
        if (hn_sym_is_value(pr->sym, step, 0) || hn_sym_is_value(pr->sym, step, 1)) continue;
        hn_expr var = contiguous_var(pr, op->index);
        if (!found) found = var;
    }
    return found && worth_a_tile(pr, found) ? found : 0;
}

/* Whether load `op` is one of those that go through the array. */
static bool goes_through(printer *pr, const hn_sop *op) {
    hn_expr step;
    return op->kind == HN_SOP_LOAD && walk_of(pr, op->index, &step) == WALK_STRIDE && contiguous_var(pr, op->index) == pr->tile;
}

static void put_extent_of(printer *pr, hn_expr var) { put_index(pr, hn_sym_symbol_extent(pr->sym, var)); }

/* The transposed squares of all loads that need it: q<s>[u * VF + k] is the element of row u, lane k. */
static void put_squares(printer *pr) {
    for (hn_sid s = 1; s < pr->phase->body.count; s++) {
        const hn_sop *op = &pr->phase->body.items[s];
        hn_expr step;
        if (!pr->live[s] || !goes_through(pr, op)) continue;
        hn_dtype dtype = pr->p->buffers.items[op->buffer].dtype;
        (void)walk_of(pr, op->index, &step);
        put_line(pr, "%s q%u[VF * VF] __attribute__((aligned(64)));", dtype == HN_DTYPE_I64 ? "ll" : hn_dtype_facts(dtype)->c_type, s);
        put_begin(pr);
        hn_strbuf_printf(&pr->out, "tile_%s(", hn_dtype_facts(dtype)->name);
        put_base(pr, op->buffer, false);
        hn_strbuf_puts(&pr->out, " + ");
        put_index(pr, op->index);
        hn_strbuf_puts(&pr->out, ", ");
        put_index(pr, step);
        hn_strbuf_printf(&pr->out, ", q%u);\n", s);
    }
}

bool put_tile_load(printer *pr, hn_sid s, const hn_sop *op) {
    if (!pr->in_tile || !goes_through(pr, op)) return false;
    hn_strbuf_printf(&pr->out, "ld_%s(q%u + u * VF)", hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->name, s);
    return true;
}

/* The tile's own variable is the innermost of the outer ones here: everything that uses it is printed in its loop. */
static void put_square_loops(printer *pr, const char *name) {
    put_line(pr, "if (%s0 + VF <= ie && j + VF <= je) {", name);
    pr->indent++;
    put_line(pr, "ll %s = %s0;", name, name);
    put_squares(pr);
    put_line(pr, "for (int u = 0; u < VF; u++, %s++) {", name);
    pr->indent++;
    pr->in_tile = true;
    put_level_range(pr, 0, pr->phase->rank);
    put_phase_effects(pr);
    pr->in_tile = false;
    close_block(pr);
    close_block(pr);
    open_block(pr, "else ");
    put_line(pr, "const ll n = imin(VF, je - j);");
    put_line(pr, "for (ll %s = %s0; %s < imin(%s0 + VF, ie); %s++) {", name, name, name, name, name);
    pr->indent++;
    pr->tail = true;
    put_level_range(pr, 0, pr->phase->rank);
    put_phase_effects(pr);
    pr->tail = false;
    close_block(pr);
    close_block(pr);
}

hn_status put_tile_kernel(printer *pr) {
    const hn_kernel *k = pr->k;
    pr->phase = &k->phases.items[0];
    pr->lane = pr->phase->vars[0];
    HN_TRY(analyse_phase(pr));
    char name[16];
    snprintf(name, sizeof name, "i%u", hn_sym_index_ordinal(pr->sym, pr->tile));
    open_block(pr, "for (ll row = begin; row < end; row++) ");
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll ne = ");
    put_extent_of(pr, pr->tile);
    hn_strbuf_printf(&pr->out, ", blocks = (ne + %d) / %d, ib = row %% blocks * %d, ie = imin(ne, ib + %d), je = ", TILE_BLOCK - 1,
                     TILE_BLOCK, TILE_BLOCK, TILE_BLOCK);
    put_extent_of(pr, pr->lane);
    hn_strbuf_puts(&pr->out, ";\n");
    put_line(pr, "ll o = row / blocks; (void)o;");
    for (uint32_t d = k->rank; d-- > 0;) {
        if (k->vars[d] == pr->tile) continue;
        put_begin(pr);
        hn_strbuf_printf(&pr->out, "const ll i%u = o %% ", hn_sym_index_ordinal(pr->sym, k->vars[d]));
        put_extent_of(pr, k->vars[d]);
        hn_strbuf_puts(&pr->out, "; o /= ");
        put_extent_of(pr, k->vars[d]);
        hn_strbuf_puts(&pr->out, ";\n");
    }
    put_line(pr, "for (ll jb = 0; jb < je; jb += %d)", TILE_BLOCK);
    put_line(pr, "for (ll %s0 = ib; %s0 < ie; %s0 += VF)", name, name, name);
    put_line(pr, "for (ll j = jb; j < imin(je, jb + %d); j += VF) {", TILE_BLOCK);
    pr->indent++;
    put_square_loops(pr, name);
    close_block(pr);
    close_block(pr);
    return NULL;
}

hn_expr tile_extent(printer *pr) {
    hn_expr rows = hn_sym_ceildiv(pr->sym, hn_sym_symbol_extent(pr->sym, pr->tile), hn_sym_int(pr->sym, TILE_BLOCK));
    for (uint32_t d = 0; d < pr->k->rank; d++)
        if (pr->k->vars[d] != pr->tile) rows = hn_sym_mul(pr->sym, rows, hn_sym_symbol_extent(pr->sym, pr->k->vars[d]));
    return rows;
}
