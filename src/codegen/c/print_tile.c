/* print_tile.c: squares of kernels that read along another dimension than they write (kernel/cpu_tile.c). */
#include "codegen/c/internal.h"

#include <string.h>

/* The block_ and wide_ functions of snippets.c are made for these. */
enum { NARROW = HN_CPU_TILE, WIDE = HN_CPU_WIDE_TILE, WIDE_PITCH = HN_CPU_WIDE_TILE_PITCH };

static bool is_wide(const printer *pr) { return pr->plan->form == HN_CPU_TILES_WIDE; }

/* Words of a line of memory. */
static uint32_t line_words(const printer *pr) { return pr->plan->facts->line_bytes / 4; }

static void put_extent_of(printer *pr, hn_expr var) { c_put_index(pr, hn_sym_symbol_extent(pr->sym, var)); }

static const char *type_of(hn_dtype d) { return d == HN_DTYPE_I64 ? "ll" : hn_dtype_facts(d)->c_type; }

/* Where load `op` begins in the block whose first row and lane are in scope. */
static void put_start(printer *pr, const hn_sop *op) {
    c_put_address(pr, op->buffer, op->index);
}

/* q<s>: the transposed block of load s, by a loop of its own. */
static void put_block_load(printer *pr, hn_sid s, const hn_sop *op) {
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "%s_%s(", is_wide(pr) ? "wide" : "block", hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->name);
    put_start(pr, op);
    hn_strbuf_puts(&pr->out, ", ");
    c_put_index(pr, pr->at->ops[s].step);
    hn_strbuf_printf(&pr->out, ", iw, jw, q%u);\n", s);
}

/* The transposed blocks of all loads that need it: q<s>[u * NARROW + v] is the element of row u, lane v. */
static void put_blocks(printer *pr) {
    for (hn_sid s = 1; s < pr->at->phase->body.count; s++) {
        const hn_sop *op = &pr->at->phase->body.items[s];
        if (!pr->at->ops[s].live || !pr->at->ops[s].transposed) continue;
        c_put_line(pr, "%s q%u[%d] __attribute__((aligned(64)));", type_of(pr->p->buffers.items[op->buffer].dtype), s, NARROW * NARROW);
        put_block_load(pr, s, op);
    }
}

/* While row u of a narrow block is written, the lines of what will be lane u of the next one. */
static void put_next_lane(printer *pr, const hn_sop *op, const char *name) {
    c_open_block(pr, "");
    c_put_line(pr, "const ll %s = ib, j = imin(jb + %d + u, je - 1); (void)%s; (void)j;", name, NARROW, name);
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "for (ll l = 0; l < iw; l += %d) __builtin_prefetch(",
                     (int)pr->plan->facts->line_bytes / (int)hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->size_bytes);
    put_start(pr, op);
    hn_strbuf_puts(&pr->out, " + l);\n");
    c_close_block(pr);
}

static void put_next_lanes(printer *pr, const char *name) {
    for (hn_sid s = 1; s < pr->at->phase->body.count; s++) {
        const hn_sop *op = &pr->at->phase->body.items[s];
        if (pr->at->ops[s].live && pr->at->ops[s].transposed) put_next_lane(pr, op, name);
    }
}

bool c_put_tile_load(printer *pr, hn_sid s, const hn_sop *op) {
    if (!pr->in_tile || !pr->at->ops[s].transposed) return false;
    hn_strbuf_printf(&pr->out, "ld_%s(q%u + u * %u + v)", hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->name, s,
                     pr->plan->tiles.pitch);
    return true;
}

/* The body for VF lanes, or n. In the tail too, what went through the array is read from there. */
static void put_tile_vector(printer *pr, bool tail) {
    c_put_line(pr, tail ? "const ll j = jb + v, n = jw - v;" : "const ll j = jb + v;");
    pr->in_tile = true;
    pr->tail = tail;
    c_put_level_range(pr, 0, pr->at->phase->rank);
    c_put_phase_effects(pr);
    pr->in_tile = pr->tail = false;
}

/* The body for the block at ib, jb. The tile's own variable is the innermost of the outer ones here: everything that uses it is
 * printed in its loop. */
static void put_block_rows(printer *pr, const char *name) {
    c_put_line(pr, "for (ll u = 0; u < iw; u++) {");
    pr->indent++;
    if (pr->plan->tiles.prefetches) put_next_lanes(pr, name);
    c_put_line(pr, "const ll %s = ib + u;", name);
    c_put_line(pr, "ll v = 0;");
    c_put_line(pr, "for (; v + VF <= jw; v += VF) {");
    pr->indent++;
    put_tile_vector(pr, false);
    c_close_block(pr);
    c_put_line(pr, "if (v < jw) {");
    pr->indent++;
    put_tile_vector(pr, true);
    c_close_block(pr);
    c_close_block(pr);
}

/* What is read along the rows, some of them on: the waiting block's, then those of the one at ti, tj. */
static void put_row_prefetches(printer *pr, const char *name) {
    uint32_t rows = pr->plan->facts->tile_rows_ahead;
    bool any = false;
    for (hn_sid s = 1; s < pr->at->phase->body.count; s++) {
        if (!pr->at->ops[s].rows_ahead) continue;
        if (!any) c_put_line(pr, "if (d %% %u == 0) {", line_words(pr));
        if (!any) pr->indent++;
        if (!any) c_put_line(pr, "const ll r = u + %u, next = r >= %d, %s = next ? ti + r - %d : wi + r, j = (next ? tj : wj) + v;", rows, WIDE, name, WIDE);
        any = true;
        c_put_begin(pr);
        hn_strbuf_puts(&pr->out, "__builtin_prefetch(");
        put_start(pr, &pr->at->phase->body.items[s]);
        hn_strbuf_puts(&pr->out, ");\n");
    }
    if (any) c_close_block(pr);
}

/* As many elements of the block that waits, which is at wi, wj in w, as a square has: a run of a row, or whole rows. */
static void put_waiting_run(printer *pr, hn_sid s, const char *type, const char *name) {
    uint32_t square = pr->lanes * pr->lanes, run = square < WIDE ? square : WIDE;
    c_put_line(pr, "for (unsigned e = k * %u; waits && e < k * %u + %u; e += %u) {", square, square, square, run);
    pr->indent++;
    c_put_line(pr, "const ll ib = wi, jb = wj, u = e / %d, %s = ib + u;", WIDE, name);
    c_put_line(pr, "const %s *q%u = w;", type, s);
    c_put_line(pr, "_Pragma(\"GCC unroll 8\") for (int d = 0; d < %u; d += VF) {", run);
    pr->indent++;
    c_put_line(pr, "const ll v = e %% %d + d;", WIDE);
    put_row_prefetches(pr, name);
    put_tile_vector(pr, false);
    c_close_block(pr);
    c_close_block(pr);
}

/* A whole block, square by square: lines VF rows ahead, the square, and its share of the block that waits. */
static void put_squares(printer *pr, hn_sid s, const hn_sop *op, const char *name) {
    const char *dtype = hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->name;
    const char *type = type_of(pr->p->buffers.items[op->buffer].dtype);
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll s = ");
    c_put_index(pr, pr->at->ops[s].step);
    hn_strbuf_puts(&pr->out, ";\n");
    c_put_line(pr, "unsigned k = 0;");
    c_put_line(pr, "for (unsigned x = 0; x < %d; x += VF) {", WIDE);
    pr->indent++;
    c_put_line(pr, "const %s *g = x + VF < %d ? p + (x + VF) * s : f;", type, WIDE);
    c_put_line(pr, "for (unsigned y = 0; y < %d; y += VF, k++) {", WIDE);
    pr->indent++;
    c_put_line(pr, "const %s *h = g + y * VF / %d * s + y * VF %% %d;", type, WIDE, WIDE);
    c_put_line(pr, "_Pragma(\"GCC unroll 16\") for (int d = 0; d < VF * VF; d += %u) __builtin_prefetch(h + d / %d * s + d %% %d);", line_words(pr), WIDE, WIDE);
    c_put_line(pr, "tile_%s(p + x * s + y, s, m + y * %d + x, %d);", dtype, WIDE_PITCH, WIDE_PITCH);
    put_waiting_run(pr, s, type, name);
    c_close_block(pr);
    c_close_block(pr);
}

/* f: where the load begins in the block after this one. */
static void put_following(printer *pr, const hn_sop *op, const char *name) {
    c_put_line(pr, "const %s *p = (void *)0, *f = p;", type_of(pr->p->buffers.items[op->buffer].dtype));
    for (uint32_t k = 0; k < 2; k++) {
        c_open_block(pr, "");
        c_put_line(pr, "const ll n = imin(t + %u, steps - 1), %s = (first + n %% across - o0) * %d, j = n / across * %d; (void)%s; (void)j;", k, name, WIDE,
                   WIDE, name);
        c_put_begin(pr);
        hn_strbuf_puts(&pr->out, k ? "f = " : "p = ");
        put_start(pr, op);
        hn_strbuf_puts(&pr->out, ";\n");
        c_close_block(pr);
    }
}

/* One block of a wide kernel, number t of `steps`; after them, the one that still waits. */
static void put_wide_step(printer *pr, const char *name) {
    hn_sid s = 1;
    while (!pr->at->ops[s].transposed) s++;
    const hn_sop *op = &pr->at->phase->body.items[s];
    const char *type = type_of(pr->p->buffers.items[op->buffer].dtype);
    c_put_line(pr, "const ll last = t == steps, ti = (first + t %% across - o0) * %d, tj = t / across * %d;", WIDE, WIDE);
    c_put_line(pr, "const ll whole = !last && ne - ti >= %d && je - tj >= %d;", WIDE, WIDE);
    c_put_line(pr, "%s *m = (%s *)scratch + turn * %d, *w = (%s *)scratch + !turn * %d;", type, type, WIDE * WIDE_PITCH, type, WIDE * WIDE_PITCH);
    c_open_block(pr, "if (whole) ");
    put_following(pr, op, name);
    put_squares(pr, s, op, name);
    c_close_block(pr);
    c_open_block(pr, "else if (!last || waits) ");
    c_put_line(pr, "const ll ib = last ? wi : ti, jb = last ? wj : tj, iw = imin(ne - ib, %d), jw = imin(je - jb, %d);", WIDE, WIDE);
    c_put_line(pr, "%s *q%u = last ? w : m;", type, s);
    c_open_block(pr, "if (!last) ");
    c_put_line(pr, "const ll %s = ib, j = jb; (void)%s; (void)j;", name, name);
    put_block_load(pr, s, op);
    c_close_block(pr);
    put_block_rows(pr, name);
    c_close_block(pr);
    c_put_line(pr, "if (whole) { waits = 1; wi = ti; wj = tj; turn = !turn; }");
}

/* The variables of the outer dimensions but the tile's, from o. */
static void put_outer(printer *pr) {
    const hn_kernel *k = pr->k;
    for (uint32_t d = k->rank; d-- > 0;) {
        if (k->vars[d] == pr->plan->tiles.var) continue;
        c_put_begin(pr);
        hn_strbuf_printf(&pr->out, "const ll i%u = o %% ", hn_sym_index_ordinal(pr->sym, k->vars[d]));
        put_extent_of(pr, k->vars[d]);
        hn_strbuf_puts(&pr->out, "; o /= ");
        put_extent_of(pr, k->vars[d]);
        hn_strbuf_puts(&pr->out, ";\n");
    }
}

static void put_extents(printer *pr) {
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll ne = ");
    put_extent_of(pr, pr->plan->tiles.var);
    hn_strbuf_printf(&pr->out, ", blocks = (ne + %u) / %u, je = ", pr->plan->tiles.block - 1, pr->plan->tiles.block);
    put_extent_of(pr, pr->at->lane);
    hn_strbuf_puts(&pr->out, ";\n");
}

/* The thread's rows of blocks, as far as they are of one matrix: block row by block row of what is read. */
static void put_wide_kernel(printer *pr, const char *name) {
    put_extents(pr);
    c_open_block(pr, "for (ll first = begin, until; first < end; first = until) ");
    c_put_line(pr, "ll o = first / blocks;");
    c_put_line(pr, "const ll o0 = o * blocks;");
    c_put_line(pr, "until = imin(end, o0 + blocks);");
    put_outer(pr);
    c_put_line(pr, "const ll across = until - first, steps = across * ((je + %d) / %d);", WIDE - 1, WIDE);
    c_put_line(pr, "ll waits = 0, wi = 0, wj = 0, turn = 0; /* a block that is transposed, but not written */");
    c_put_line(pr, "for (ll t = 0; t <= steps; t++) {");
    pr->indent++;
    put_wide_step(pr, name);
    c_close_block(pr);
    c_close_block(pr);
}

static void put_narrow_kernel(printer *pr, const char *name) {
    c_open_block(pr, "for (ll row = begin; row < end; row++) ");
    put_extents(pr);
    c_put_line(pr, "const ll ib = row %% blocks * %d, iw = imin(ne - ib, %d);", NARROW, NARROW);
    c_put_line(pr, "ll o = row / blocks; (void)o;");
    put_outer(pr);
    c_put_line(pr, "for (ll jb = 0; jb < je; jb += %d) {", NARROW);
    pr->indent++;
    c_put_line(pr, "const ll jw = imin(je - jb, %d);", NARROW);
    c_put_line(pr, "const ll %s = ib, j = jb; (void)%s; (void)j;", name, name);
    put_blocks(pr);
    put_block_rows(pr, name);
    c_close_block(pr);
    c_close_block(pr);
}

void c_put_tile_kernel(printer *pr) {
    char name[16];
    snprintf(name, sizeof name, "i%u", hn_sym_index_ordinal(pr->sym, pr->plan->tiles.var));
    if (is_wide(pr)) put_wide_kernel(pr, name);
    else put_narrow_kernel(pr, name);
}
