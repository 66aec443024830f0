/* print_tile.c: kernels that read along another dimension than they write, such as transposes.
 *
 * The iteration runs in square blocks. The strided loads of a block are transposed in registers, VF x VF at a time, into an
 * array; then the body runs for the block's rows. So memory is read and written in runs of a whole block's width: single
 * lines, a large stride apart, cost twice the time and more, above all with stores that go round the caches.
 * A block is NARROW x NARROW, its array in the first cache; between memory and memory it is WIDE x WIDE, its array in the
 * second cache, and the lines of the next block are asked for evenly, half of them while this one is transposed, half while it
 * is written. Source: bench_ceilings transpose, x.t. */
#include "codegen/c/internal.h"

#include <string.h>

enum { NARROW = 64, WIDE = 128, WIDE_PITCH = 144, LINE_WORDS = 16 }; /* known to the block_ and wide_ snippets, too */

/* A wide block takes a cache's worth of memory and makes fewer parts for threads. */
enum { MIN_WIDE_PARTS = 16 };

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

/* Wide blocks: words from memory to memory, one array, enough parts. */
void choose_tile_block(printer *pr) {
    const hn_body *body = &pr->k->phases.items[0].body;
    uint32_t arrays = 0;
    bool words = true;
    pr->tile_block = NARROW;
    pr->phase = &pr->k->phases.items[0];
    pr->lane = pr->phase->vars[0];
    for (hn_sid s = 1; s < body->count; s++) {
        if (!goes_through(pr, &body->items[s])) continue;
        arrays++;
        words &= hn_dtype_facts(pr->p->buffers.items[body->items[s].buffer].dtype)->size_bytes == 4;
    }
    if (!pr->may_stream || arrays != 1 || !words) return;
    pr->tile_block = WIDE;
    if (hn_sym_hint(pr->sym, tile_extent(pr), 1) < MIN_WIDE_PARTS) pr->tile_block = NARROW;
}

static bool is_wide(const printer *pr) { return pr->tile_block == WIDE; }

static void put_extent_of(printer *pr, hn_expr var) { put_index(pr, hn_sym_symbol_extent(pr->sym, var)); }

/* Of a wide block: f<s> is where load s begins in the next one. */
static void put_next_start(printer *pr, hn_sid s, const hn_sop *op, const char *type, const char *name) {
    put_line(pr, "const %s *f%u;", type, s);
    open_block(pr, "");
    put_line(pr, "const ll %s = jb + %u < je ? ib : ib + %u, j = jb + %u < je ? jb + %u : 0; (void)%s; (void)j;", name, WIDE, WIDE, WIDE, WIDE, name);
    put_begin(pr);
    hn_strbuf_printf(&pr->out, "f%u = ", s);
    put_base(pr, op->buffer, false);
    hn_strbuf_puts(&pr->out, " + ");
    put_index(pr, op->index);
    hn_strbuf_puts(&pr->out, ";\n");
    close_block(pr);
}

/* The transposed blocks of all loads that need it: q<s>[u * pitch + v] is the element of row u, lane v. */
static void put_blocks(printer *pr, const char *name) {
    for (hn_sid s = 1; s < pr->phase->body.count; s++) {
        const hn_sop *op = &pr->phase->body.items[s];
        hn_expr step;
        if (!pr->live[s] || !goes_through(pr, op)) continue;
        hn_dtype dtype = pr->p->buffers.items[op->buffer].dtype;
        (void)walk_of(pr, op->index, &step);
        const char *type = dtype == HN_DTYPE_I64 ? "ll" : hn_dtype_facts(dtype)->c_type;
        if (is_wide(pr)) {
            pr->wide_bytes = WIDE * WIDE_PITCH * 4;
            put_next_start(pr, s, op, type, name);
            put_line(pr, "%s *q%u = scratch;", type, s);
        } else
            put_line(pr, "%s q%u[%d] __attribute__((aligned(64)));", type, s, NARROW * NARROW);
        put_begin(pr);
        hn_strbuf_printf(&pr->out, "%s_%s(", is_wide(pr) ? "wide" : "block", hn_dtype_facts(dtype)->name);
        put_base(pr, op->buffer, false);
        hn_strbuf_puts(&pr->out, " + ");
        put_index(pr, op->index);
        hn_strbuf_puts(&pr->out, ", ");
        put_index(pr, step);
        hn_strbuf_printf(&pr->out, ", iw, jw, q%u", s);
        if (is_wide(pr)) hn_strbuf_printf(&pr->out, ", f%u", s);
        hn_strbuf_puts(&pr->out, ");\n");
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

/* While row u of a wide block is written, half a row of the second half of the next block. */
static void put_next_half(printer *pr, hn_sid s, const hn_sop *op) {
    hn_expr step;
    (void)walk_of(pr, op->index, &step);
    put_begin(pr);
    hn_strbuf_printf(&pr->out, "for (ll l = 0; l < %d; l += %d) __builtin_prefetch(f%u + (%d + u / 2) * ", WIDE / 2, LINE_WORDS, s, WIDE / 2);
    put_index(pr, step);
    hn_strbuf_printf(&pr->out, " + u %% 2 * %d + l);\n", WIDE / 2);
}

/* While row u of a narrow block is written, the lines of what will be lane u of the next one. */
static void put_next_lane(printer *pr, const hn_sop *op, const char *name) {
    open_block(pr, "");
    put_line(pr, "const ll %s = ib, j = imin(jb + %d + u, je - 1); (void)%s; (void)j;", name, NARROW, name);
    put_lines(pr, op, "iw");
    close_block(pr);
}

/* While row u of a block is written: lines of the next block of what goes through the array. From memory also row u of the next
 * block of what is read along the rows: nothing else follows so many rows at a time. */
static void put_next_lines(printer *pr, const char *name) {
    bool any = false;
    for (hn_sid s = 1; s < pr->phase->body.count; s++) {
        const hn_sop *op = &pr->phase->body.items[s];
        if (!pr->live[s] || !goes_through(pr, op)) continue;
        if (is_wide(pr)) put_next_half(pr, s, op);
        else put_next_lane(pr, op, name);
    }
    for (hn_sid s = 1; s < pr->phase->body.count && pr->may_stream; s++) {
        const hn_sop *op = &pr->phase->body.items[s];
        hn_expr step;
        if (!pr->live[s] || op->kind != HN_SOP_LOAD || walk_of(pr, op->index, &step) != WALK_ONE) continue;
        if (!hn_sym_uses(pr->sym, op->index, pr->tile)) continue; /* the same for all rows: it is in the cache */
        if (!any) open_block(pr, "");
        if (!any) put_line(pr, "const ll %s = ib + u, j = jb + %u;", name, pr->tile_block);
        any = true;
        char count[12];
        snprintf(count, sizeof count, "%u", pr->tile_block);
        put_lines(pr, op, count);
    }
    if (any) close_block(pr);
}

bool put_tile_load(printer *pr, hn_sid s, const hn_sop *op) {
    if (!pr->in_tile || !goes_through(pr, op)) return false;
    hn_strbuf_printf(&pr->out, "ld_%s(q%u + u * %d + v)", hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->name, s,
                     is_wide(pr) ? WIDE_PITCH : NARROW);
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
    put_line(pr, "const ll jw = imin(je - jb, %u);", pr->tile_block);
    put_line(pr, "const ll %s = ib, j = jb; (void)%s; (void)j;", name, name);
    put_blocks(pr, name);
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
    hn_strbuf_printf(&pr->out, ", blocks = (ne + %u) / %u, ib = row %% blocks * %u, iw = imin(ne - ib, %u), je = ", pr->tile_block - 1,
                     pr->tile_block, pr->tile_block, pr->tile_block);
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
    put_line(pr, "for (ll jb = 0; jb < je; jb += %u) {", pr->tile_block);
    pr->indent++;
    put_block(pr, name);
    close_block(pr);
    close_block(pr);
    return NULL;
}

hn_expr tile_extent(printer *pr) {
    hn_expr rows = hn_sym_ceildiv(pr->sym, hn_sym_symbol_extent(pr->sym, pr->tile), hn_sym_int(pr->sym, pr->tile_block));
    for (uint32_t d = 0; d < pr->k->rank; d++)
        if (pr->k->vars[d] != pr->tile) rows = hn_sym_mul(pr->sym, rows, hn_sym_symbol_extent(pr->sym, pr->k->vars[d]));
    return rows;
}
