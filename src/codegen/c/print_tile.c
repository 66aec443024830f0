/* print_tile.c: kernels that read along another dimension than they write, such as transposes.
 *
 * The iteration runs in blocks of TILE_BLOCK x TILE_BLOCK. The strided loads of a block are transposed in registers, VF x VF at a
 * time, into an array in the first cache; then the body runs for the block's rows. So memory is read and written in runs
 * of a whole block's width: single lines, a large stride apart, cost twice the time and more, above all with stores that go
 * round the caches. Source: bench/kernels.c, transposes. */
#include "codegen/c/internal.h"

#include <string.h>

enum { TILE_BLOCK = 64 }; /* known to the tile_ and block_ snippets, too */

/* Below this the second cache holds all of it. */
enum { PREFETCH_BYTES = 1 << 19 };

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

/* The transposed blocks of all loads that need it: q<s>[u * TILE_BLOCK + v] is the element of row u, lane v. */
static void put_blocks(printer *pr) {
    for (hn_sid s = 1; s < pr->phase->body.count; s++) {
        const hn_sop *op = &pr->phase->body.items[s];
        hn_expr step;
        if (!pr->live[s] || !goes_through(pr, op)) continue;
        hn_dtype dtype = pr->p->buffers.items[op->buffer].dtype;
        (void)walk_of(pr, op->index, &step);
        put_line(pr, "%s q%u[%d] __attribute__((aligned(64)));", dtype == HN_DTYPE_I64 ? "ll" : hn_dtype_facts(dtype)->c_type, s,
                 TILE_BLOCK * TILE_BLOCK);
        put_begin(pr);
        hn_strbuf_printf(&pr->out, "block_%s(", hn_dtype_facts(dtype)->name);
        put_base(pr, op->buffer, false);
        hn_strbuf_puts(&pr->out, " + ");
        put_index(pr, op->index);
        hn_strbuf_puts(&pr->out, ", ");
        put_index(pr, step);
        hn_strbuf_printf(&pr->out, ", iw, jw, q%u);\n", s);
    }
}

static void put_lines(printer *pr, const hn_sop *op, const char *count) {
    put_begin(pr);
    hn_strbuf_printf(&pr->out, "for (ll l = 0; l < %s; l += %d) __builtin_prefetch(", count,
                     64 / (int)hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->size_bytes);
    put_base(pr, op->buffer, false);
    hn_strbuf_puts(&pr->out, " + ");
    put_index(pr, op->index);
    hn_strbuf_puts(&pr->out, " + l);\n");
}

/* While row u of a block is written, the lines of what will be lane u of the next block are fetched. From memory also row u of
 * the next block of what is read along the rows: nothing follows 64 rows at a time. */
static void put_next_lines(printer *pr, const char *name) {
    open_block(pr, "");
    put_line(pr, "const ll %s = ib, j = imin(jb + %d + u, je - 1); (void)%s; (void)j;", name, TILE_BLOCK, name);
    for (hn_sid s = 1; s < pr->phase->body.count; s++)
        if (pr->live[s] && goes_through(pr, &pr->phase->body.items[s])) put_lines(pr, &pr->phase->body.items[s], "iw");
    close_block(pr);
    bool any = false;
    for (hn_sid s = 1; s < pr->phase->body.count && pr->may_stream; s++) {
        const hn_sop *op = &pr->phase->body.items[s];
        hn_expr step;
        if (!pr->live[s] || op->kind != HN_SOP_LOAD || walk_of(pr, op->index, &step) != WALK_ONE) continue;
        if (!hn_sym_uses(pr->sym, op->index, pr->tile)) continue; /* the same for all rows: it is in the cache */
        if (!any) open_block(pr, "");
        if (!any) put_line(pr, "const ll %s = ib + u, j = jb + %d;", name, TILE_BLOCK);
        any = true;
        char count[8];
        snprintf(count, sizeof count, "%d", TILE_BLOCK);
        put_lines(pr, op, count);
    }
    if (any) close_block(pr);
}

bool put_tile_load(printer *pr, hn_sid s, const hn_sop *op) {
    if (!pr->in_tile || !goes_through(pr, op)) return false;
    hn_strbuf_printf(&pr->out, "ld_%s(q%u + u * %d + v)", hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->name, s, TILE_BLOCK);
    return true;
}

/* The body for VF lanes, or n. In the tail too, what went through the array is read from there. */
static void put_tile_vector(printer *pr, bool tail) {
    put_line(pr, tail ? "const ll j = jb + v, n = jw - v;" : "const ll j = jb + v;");
    pr->in_tile = true;
    pr->tail = tail;
    put_level_range(pr, 0, pr->phase->rank);
    put_phase_effects(pr);
    pr->in_tile = pr->tail = false;
}

/* One block. The tile's own variable is the innermost of the outer ones here: everything that uses it is printed in its loop. */
static void put_block(printer *pr, const char *name) {
    put_line(pr, "const ll jw = imin(je - jb, %d);", TILE_BLOCK);
    put_line(pr, "const ll %s = ib, j = jb; (void)%s; (void)j;", name, name);
    put_blocks(pr);
    put_line(pr, "for (ll u = 0; u < iw; u++) {");
    pr->indent++;
    if (pr->written_bytes > PREFETCH_BYTES) put_next_lines(pr, name);
    put_line(pr, "const ll %s = ib + u;", name);
    put_line(pr, "ll v = 0;");
    put_line(pr, "for (; v + VF <= jw; v += VF) {");
    pr->indent++;
    put_tile_vector(pr, false);
    close_block(pr);
    put_line(pr, "if (v < jw) {");
    pr->indent++;
    put_tile_vector(pr, true);
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
    hn_strbuf_printf(&pr->out, ", blocks = (ne + %d) / %d, ib = row %% blocks * %d, iw = imin(ne - ib, %d), je = ", TILE_BLOCK - 1,
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
    put_line(pr, "for (ll jb = 0; jb < je; jb += %d) {", TILE_BLOCK);
    pr->indent++;
    put_block(pr, name);
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
