/* print_column.c: kernels whose lanes are rows: reductions along a dimension that is not the last in memory. */
#include "codegen/c/internal.h"

/* The innermost loop of a column phase in blocks: each starts its sums at 0. */
static void open_blocks(printer *pr, uint32_t copies) {
    uint32_t ordinal = hn_sym_index_ordinal(pr->sym, pr->at->phase->vars[pr->at->phase->rank - 1]);
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "for (ll q = 0, e = ");
    c_put_index(pr, extent_of(pr, pr->at->phase->vars[pr->at->phase->rank - 1]));
    hn_strbuf_printf(&pr->out, "; q < e; q += %d) {\n", HN_CPU_SUM_BLOCK);
    pr->indent++;
    for (uint32_t k = 0; k < pr->at->phase->reduces.count; k++)
        for (uint32_t u = 0; u < copies && pr->at->reduces[k].in_blocks; u++)
            c_put_reduce_init(pr, &pr->at->phase->reduces.items[k], u);
    c_put_line(pr, "for (ll i%u = q, h = imin(q + %d, e); i%u < h; i%u++) {", ordinal, HN_CPU_SUM_BLOCK, ordinal, ordinal);
    pr->indent++;
}

static void close_blocks(printer *pr, uint32_t copies) {
    c_close_block(pr);
    for (uint32_t k = 0; k < pr->at->phase->reduces.count; k++)
        for (uint32_t u = 0; u < copies && pr->at->reduces[k].in_blocks; u++)
            c_put_line(pr, "w%u_%u += a%u_%u;", pr->at->phase->reduces.items[k].slot, u, pr->at->phase->reduces.items[k].slot, u);
    c_close_block(pr);
}

/* A phase whose lanes are rows: `copies` vectors of rows side by side. */
static void put_phase_column(printer *pr, const hn_cpu_phase *ph, uint32_t copies, bool tail) {
    const hn_kernel_phase *phase = ph->phase;
    pr->at = ph;
    for (uint32_t k = 0; k < phase->reduces.count && !phase->scan; k++)
        for (uint32_t u = 0; u < copies; u++) {
            const hn_kernel_reduce *r = &phase->reduces.items[k];
            c_put_line(pr, "%s r%u_%u;", c_result_type(r), r->slot, u);
        }
    c_open_block(pr, "");
    bool blocks = ph->sums_in_blocks;
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        for (uint32_t u = 0; u < copies; u++) {
            if (pr->at->reduces[k].in_blocks)
                c_put_line(pr, "%s w%u_%u = sp_%c(0);", c_lane_type(r->dtype), r->slot, u, c_lane_class(r->dtype));
            else
                c_put_reduce_init(pr, r, u);
        }
    }
    c_open_loops(pr, 0, phase->rank - (blocks ? 1 : 0), false);
    if (blocks) open_blocks(pr, copies);
    for (uint32_t u = 0; u < copies; u++) {
        char head[128];
        if (tail)
            snprintf(head, sizeof head, "const ll j = jb + %u, n = imax(0, imin(VF, je - j)); (void)n;", u * pr->lanes);
        else
            snprintf(head, sizeof head, "const ll j = jb + %u; (void)j;", u * pr->lanes);
        c_put_vector(pr, head, 0, u, tail);
    }
    if (blocks) close_blocks(pr, copies);
    for (uint32_t d = 0; d + (blocks ? 1 : 0) < phase->rank; d++) c_close_block(pr);
    for (uint32_t k = 0; k < phase->reduces.count && blocks; k++)
        for (uint32_t u = 0; u < copies && ph->reduces[k].in_blocks; u++)
            c_put_line(pr, "const %s a%u_%u = w%u_%u;", c_lane_type(phase->reduces.items[k].dtype), phase->reduces.items[k].slot, u,
                       phase->reduces.items[k].slot, u);
    for (uint32_t k = 0; k < phase->reduces.count && !phase->scan; k++) c_put_reduce_finish(pr, &phase->reduces.items[k], copies);
    c_close_block(pr);
}

/* --- narrow columns --- */

static void put_narrow_kernel(printer *pr) {
    const hn_kernel *k = pr->k;
    uint32_t copies = pr->plan->columns.copies, width = pr->plan->columns.width;
    c_open_block(pr, "for (ll row = begin; row < end; row++) ");
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll je = ");
    c_put_index(pr, k->rank ? extent_of(pr, pr->at->lane) : hn_sym_int(pr->sym, 1));
    hn_strbuf_printf(&pr->out, ", strips = (je + %u) / %u, jb = row %% strips * %u, outer = row / strips; (void)outer;\n", width - 1,
                     width, width);
    if (k->rank > 1) c_put_rows(pr, "outer", k->rank - 1);
    bool whole = pr->plan->columns.is_whole;
    char condition[48] = "";
    if (!whole) snprintf(condition, sizeof condition, "if (jb + %u <= je) ", width);
    c_open_block(pr, condition);
    for (uint32_t f = 0; f < k->phases.count; f++) put_phase_column(pr, &pr->plan->phases[f], copies, false);
    c_close_block(pr);
    if (!whole) {
        c_open_block(pr, "else ");
        for (uint32_t f = 0; f < k->phases.count; f++) put_phase_column(pr, &pr->plan->phases[f], copies, true);
        c_close_block(pr);
    }
    c_close_block(pr);
}

/* --- wide columns: the sums of a strip --- */

/* c<slot>: sums of this block of rows; w<slot>: of all blocks before. */
static void put_wide_arrays(printer *pr) {
    const hn_cpu_phase *ph = pr->at;
    for (uint32_t r = 0; r < ph->phase->reduces.count; r++) {
        const hn_kernel_reduce *reduce = &ph->phase->reduces.items[r];
        const hn_dtype_info *type = hn_dtype_facts(reduce->dtype);
        const uint32_t at[2] = {ph->reduces[r].block_sums, ph->reduces[r].all_sums};
        for (uint32_t a = 0; a < 2; a++)
            c_put_line(pr, "%s *%c%u = (%s *)((char *)scratch + %u);", type->c_type, "cw"[a], reduce->slot, type->c_type, at[a]);
        c_put_line(pr, "for (ll k = 0; k < j1 - j0; k += VF) st_%s(w%u + k, sp_%c(0));", type->name, reduce->slot, c_lane_class(reduce->dtype));
    }
}

/* The sums of `copies` vectors from column jb on: row q of each stream. With `tail` n columns at most. */
static void put_wide_vectors(printer *pr, const hn_kernel_phase *phase, uint32_t copies, bool tail) {
    uint32_t ordinal = hn_sym_index_ordinal(pr->sym, phase->vars[0]);
    for (uint32_t r = 0; r < phase->reduces.count; r++)
        for (uint32_t u = 0; u < copies; u++) {
            const hn_kernel_reduce *reduce = &phase->reduces.items[r];
            char c = c_lane_class(reduce->dtype);
            c_put_line(pr, "%s a%u_%u = q > p ? ld_%s(c%u + (jb - j0) + %u) : sp_%c(0);", c_lane_type(reduce->dtype), reduce->slot, u,
                       hn_dtype_facts(reduce->dtype)->name, reduce->slot, u * pr->lanes, c);
        }
    uint32_t step = pr->plan->facts->strip_step;
    c_put_line(pr, "_Pragma(\"GCC unroll %u\")", step);
    char limit[32] = "e"; /* the last stream may be shorter */
    if (pr->plan->columns.even_steps) snprintf(limit, sizeof limit, "q + %u * far", step);
    c_put_line(pr, "for (ll i%u = q; i%u < %s; i%u += far) {", ordinal, ordinal, limit, ordinal);
    pr->indent++;
    for (uint32_t u = 0; u < copies; u++) {
        char head[96];
        snprintf(head, sizeof head, tail ? "const ll j = jb + %u, n = imin(VF, j1 - j); (void)n;" : "const ll j = jb + %u; (void)j;", u * pr->lanes);
        c_put_vector(pr, head, 0, u, tail);
    }
    c_close_block(pr);
    for (uint32_t r = 0; r < phase->reduces.count; r++)
        for (uint32_t u = 0; u < copies; u++)
            c_put_line(pr, "st_%s(c%u + (jb - j0) + %u, a%u_%u);", hn_dtype_facts(phase->reduces.items[r].dtype)->name,
                       phase->reduces.items[r].slot, u * pr->lanes, phase->reduces.items[r].slot, u);
}

static void put_wide_strip(printer *pr, const hn_kernel_phase *phase, uint32_t copies, bool whole) {
    c_put_line(pr, "ll jb = j0;");
    c_put_line(pr, "for (; jb + %u <= j1; jb += %u) {", copies * pr->lanes, copies * pr->lanes);
    pr->indent++;
    put_wide_vectors(pr, phase, copies, false);
    c_close_block(pr);
    if (whole) return;
    c_put_line(pr, "for (; jb + VF <= j1; jb += VF) {");
    pr->indent++;
    put_wide_vectors(pr, phase, 1, false);
    c_close_block(pr);
    c_put_line(pr, "if (jb < j1) {");
    pr->indent++;
    put_wide_vectors(pr, phase, 1, true);
    c_close_block(pr);
}

/* w += c */
static void put_wide_carry(printer *pr, const hn_kernel_phase *phase) {
    for (uint32_t r = 0; r < phase->reduces.count; r++) {
        const char *name = hn_dtype_facts(phase->reduces.items[r].dtype)->name;
        uint32_t slot = phase->reduces.items[r].slot;
        c_put_line(pr, "for (ll k = 0; k < j1 - j0; k += VF) st_%s(w%u + k, ld_%s(w%u + k) + ld_%s(c%u + k));", name, slot, name, slot, name, slot);
    }
}

static void put_wide_sums(printer *pr, const hn_kernel_phase *phase, uint32_t copies, bool whole) {
    uint32_t step = pr->plan->facts->strip_step, block = pr->plan->columns.block_steps;
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll e = ");
    c_put_index(pr, extent_of(pr, phase->vars[0]));
    hn_strbuf_printf(&pr->out, ", far = (e + %u) / %u;\n", step - 1, step);
    c_put_line(pr, "for (ll p = 0; p < far; p += %u) {", block);
    pr->indent++;
    c_put_line(pr, "for (ll q = p; q < imin(p + %u, far); q++) {", block);
    pr->indent++;
    put_wide_strip(pr, phase, copies, whole);
    c_close_block(pr);
    put_wide_carry(pr, phase);
    c_close_block(pr);
}

/* The phases after the sums, for `copies` vectors. */
static void put_wide_results(printer *pr, uint32_t copies, bool tail) {
    const hn_kernel_phase *first = &pr->k->phases.items[0];
    if (tail) c_put_line(pr, "const ll je = j1;");
    for (uint32_t r = 0; r < first->reduces.count; r++)
        for (uint32_t u = 0; u < copies; u++) {
            const hn_kernel_reduce *reduce = &first->reduces.items[r];
            c_put_line(pr, "const %s r%u_%u = ld_%s(w%u + (jb - j0) + %u);", c_lane_type(reduce->dtype), reduce->slot, u,
                       hn_dtype_facts(reduce->dtype)->name, reduce->slot, u * pr->lanes);
        }
    for (uint32_t f = 1; f < pr->k->phases.count; f++) put_phase_column(pr, &pr->plan->phases[f], copies, tail);
}

static void put_wide_kernel(printer *pr) {
    const hn_kernel *k = pr->k;
    const hn_kernel_phase *first = pr->at->phase;
    uint32_t width = pr->plan->columns.width, copies = pr->plan->columns.copies;
    bool whole = pr->plan->columns.is_whole;
    c_open_block(pr, "for (ll row = begin; row < end; row++) ");
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll rows = ");
    c_put_index(pr, extent_of(pr, pr->at->lane));
    hn_strbuf_printf(&pr->out, ", strips = (rows + %u) / %u, j0 = row %% strips * %u, j1 = imin(rows, j0 + %u), outer = row / strips; (void)outer;\n",
                     width - 1, width, width, width);
    if (k->rank > 1) c_put_rows(pr, "outer", k->rank - 1);
    put_wide_arrays(pr);
    put_wide_sums(pr, first, copies, whole);
    c_put_line(pr, "ll jb = j0;");
    c_put_line(pr, "for (; jb + %u <= j1; jb += %u) {", copies * pr->lanes, copies * pr->lanes);
    pr->indent++;
    put_wide_results(pr, copies, false);
    c_close_block(pr);
    if (!whole) {
        c_put_line(pr, "for (; jb < j1; jb += VF) {");
        pr->indent++;
        put_wide_results(pr, 1, true);
        c_close_block(pr);
    }
    c_close_block(pr);
}

void c_put_column_kernel(printer *pr) {
    if (pr->plan->form == HN_CPU_COLUMNS_WIDE) put_wide_kernel(pr);
    else put_narrow_kernel(pr);
}
