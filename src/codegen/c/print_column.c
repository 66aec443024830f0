/* print_column.c: kernels whose lanes are rows: reductions along a dimension that is not the last in memory. */
#include "codegen/c/internal.h"

/* A long sum of floats is taken in blocks, so that its error grows with the square root of blocks and block length instead
 * of with the length: what eager PyTorch's cascade does. */
enum { SUM_BLOCK = 32 };

static bool sums_in_blocks(printer *pr, const hn_kernel_reduce *r) {
    char c = lane_class(r->dtype);
    return r->op == HN_OP_SUM && (c == 'f' || c == 'd') && pr->phase->rank > 0;
}

static bool has_blocks(printer *pr) {
    if (!pr->phase->rank || pr->phase->scan) return false;
    int64_t extent = known(pr, extent_of(pr, pr->phase->vars[pr->phase->rank - 1]));
    bool any = false;
    for (uint32_t k = 0; k < pr->phase->reduces.count; k++) any |= sums_in_blocks(pr, &pr->phase->reduces.items[k]);
    return any && !(extent >= 0 && extent <= 2 * SUM_BLOCK);
}

/* The innermost loop of a column phase in blocks: each starts its sums at 0. */
static void open_blocks(printer *pr, uint32_t copies) {
    uint32_t ordinal = hn_sym_index_ordinal(pr->sym, pr->phase->vars[pr->phase->rank - 1]);
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "for (ll q = 0, e = ");
    put_index(pr, extent_of(pr, pr->phase->vars[pr->phase->rank - 1]));
    hn_strbuf_printf(&pr->out, "; q < e; q += %d) {\n", SUM_BLOCK);
    pr->indent++;
    for (uint32_t k = 0; k < pr->phase->reduces.count; k++)
        for (uint32_t u = 0; u < copies && sums_in_blocks(pr, &pr->phase->reduces.items[k]); u++)
            put_reduce_init(pr, &pr->phase->reduces.items[k], u);
    put_line(pr, "for (ll i%u = q, h = imin(q + %d, e); i%u < h; i%u++) {", ordinal, SUM_BLOCK, ordinal, ordinal);
    pr->indent++;
}

static void close_blocks(printer *pr, uint32_t copies) {
    close_block(pr);
    for (uint32_t k = 0; k < pr->phase->reduces.count; k++)
        for (uint32_t u = 0; u < copies && sums_in_blocks(pr, &pr->phase->reduces.items[k]); u++)
            put_line(pr, "w%u_%u += a%u_%u;", pr->phase->reduces.items[k].slot, u, pr->phase->reduces.items[k].slot, u);
    close_block(pr);
}

/* A phase whose lanes are rows: `copies` vectors of rows side by side. */
static hn_status put_phase_column(printer *pr, const hn_kernel_phase *phase, uint32_t copies, bool tail) {
    pr->phase = phase;
    HN_TRY(analyse_phase(pr));
    for (uint32_t k = 0; k < phase->reduces.count && !phase->scan; k++)
        for (uint32_t u = 0; u < copies; u++) {
            const hn_kernel_reduce *r = &phase->reduces.items[k];
            bool position = r->op == HN_OP_ARGMAX || r->op == HN_OP_ARGMIN;
            put_line(pr, "%s r%u_%u;", position ? "vl" : lane_type(r->dtype), r->slot, u);
        }
    open_block(pr, "");
    bool blocks = has_blocks(pr);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        for (uint32_t u = 0; u < copies; u++) {
            if (blocks && sums_in_blocks(pr, r))
                put_line(pr, "%s w%u_%u = sp_%c(0);", lane_type(r->dtype), r->slot, u, lane_class(r->dtype));
            else
                put_reduce_init(pr, r, u);
        }
    }
    open_loops(pr, 0, phase->rank - (blocks ? 1 : 0), false);
    if (blocks) open_blocks(pr, copies);
    for (uint32_t u = 0; u < copies; u++) {
        char head[128];
        if (tail)
            snprintf(head, sizeof head, "const ll j = jb + %u, n = imax(0, imin(VF, je - j)); (void)n;", u * pr->lanes);
        else
            snprintf(head, sizeof head, "const ll j = jb + %u; (void)j;", u * pr->lanes);
        put_vector(pr, head, 0, u, tail);
    }
    if (blocks) close_blocks(pr, copies);
    for (uint32_t d = 0; d + (blocks ? 1 : 0) < phase->rank; d++) close_block(pr);
    for (uint32_t k = 0; k < phase->reduces.count && blocks; k++)
        for (uint32_t u = 0; u < copies && sums_in_blocks(pr, &phase->reduces.items[k]); u++)
            put_line(pr, "const %s a%u_%u = w%u_%u;", lane_type(phase->reduces.items[k].dtype), phase->reduces.items[k].slot, u,
                     phase->reduces.items[k].slot, u);
    for (uint32_t k = 0; k < phase->reduces.count && !phase->scan; k++) put_reduce_finish(pr, &phase->reduces.items[k], copies);
    close_block(pr);
    return NULL;
}

/* --- narrow strips --- */

static uint32_t column_copies(printer *pr) {
    for (uint32_t f = 0; f < pr->k->phases.count; f++)
        if (pr->k->phases.items[f].scan) return 1;
    hn_expr last = pr->k->rank ? extent_of(pr, pr->k->vars[pr->k->rank - 1]) : 0;
    int64_t extent = last ? hn_sym_hint(pr->sym, last, 1024) : 1;
    uint32_t cost = 0;
    for (uint32_t f = 0; f < pr->k->phases.count; f++) cost += phase_cost(&pr->k->phases.items[f]);
    uint32_t copies = cost <= 4 ? MAX_UNROLL : cost <= 24 ? 4 : 2;
    while (copies > 1 && extent < (int64_t)(pr->lanes * copies)) copies /= 2;
    return copies;
}

static hn_status put_narrow_kernel(printer *pr) {
    const hn_kernel *k = pr->k;
    uint32_t copies = column_copies(pr), width = copies * pr->lanes;
    open_block(pr, "for (ll row = begin; row < end; row++) ");
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll je = ");
    put_index(pr, k->rank ? extent_of(pr, pr->lane) : hn_sym_int(pr->sym, 1));
    hn_strbuf_printf(&pr->out, ", strips = (je + %u) / %u, jb = row %% strips * %u, outer = row / strips; (void)outer;\n", width - 1,
                     width, width);
    if (k->rank > 1) put_rows(pr, "outer", k->rank - 1);
    int64_t extent = k->rank ? known(pr, extent_of(pr, pr->lane)) : 1;
    bool whole = extent >= 0 && extent % width == 0;
    char condition[48] = "";
    if (!whole) snprintf(condition, sizeof condition, "if (jb + %u <= je) ", width);
    open_block(pr, condition);
    for (uint32_t f = 0; f < k->phases.count; f++) HN_TRY(put_phase_column(pr, &k->phases.items[f], copies, false));
    close_block(pr);
    if (!whole) {
        open_block(pr, "else ");
        for (uint32_t f = 0; f < k->phases.count; f++) HN_TRY(put_phase_column(pr, &k->phases.items[f], copies, true));
        close_block(pr);
    }
    close_block(pr);
    return NULL;
}

/* --- wide strips --- */

/* Plain sums over many rows: a strip of results is kept in the first cache while memory is read in long runs, WIDE_STEP rows at
 * a time, instead of running down narrow columns with a jump from row to row. The rows of a step are a WIDE_STEP-th of
 * the sum apart, so that each is a stream that goes on where it ended (print_streams.c). Two levels of partial sums keep
 * the error small. Source: bench/kernels.c, "sum of columns": 2.3 times as fast from memory, and 1.25 for the distance. */
enum { WIDE_MIN_ROWS = 512, WIDE_MAX_ROWS = 2048, WIDE_STEP = 4, WIDE_BLOCK = SUM_BLOCK / WIDE_STEP, WIDE_MIN_STEPS = 48 };

static bool is_wide(printer *pr) {
    const hn_kernel *k = pr->k;
    const hn_kernel_phase *first = &k->phases.items[0];
    if (!k->rank || first->rank != 1 || first->stores.count || first->scan || !first->reduces.count || k->locals.count) return false;
    if (first->reduces.count > 2 || phase_cost(first) > 24) return false;
    if (hn_sym_hint(pr->sym, extent_of(pr, k->vars[k->rank - 1]), 0) < 128 || hn_sym_hint(pr->sym, extent_of(pr, first->vars[0]), 0) < WIDE_MIN_STEPS)
        return false;
    for (uint32_t r = 0; r < first->reduces.count; r++) {
        const hn_kernel_reduce *reduce = &first->reduces.items[r];
        if (reduce->op != HN_OP_SUM || (reduce->dtype != HN_DTYPE_F32 && reduce->dtype != HN_DTYPE_F64)) return false;
    }
    for (uint32_t f = 1; f < k->phases.count; f++)
        if (k->phases.items[f].rank || k->phases.items[f].reduces.count) return false;
    return true;
}

/* Long strips read memory best; short ones share out better when there is nothing else to share. */
static uint32_t wide_rows(printer *pr) {
    int64_t outer = 1;
    for (uint32_t d = 0; d + 1 < pr->k->rank; d++) outer *= hn_sym_hint(pr->sym, extent_of(pr, pr->k->vars[d]), 1);
    return pr->k->threads <= 1 || outer >= 2 * (int64_t)pr->k->threads ? WIDE_MAX_ROWS : WIDE_MIN_ROWS;
}

/* c<slot>: sums of this block of rows; w<slot>: of all blocks before. */
static void put_wide_arrays(printer *pr, const hn_kernel_phase *phase) {
    for (uint32_t r = 0; r < phase->reduces.count; r++) {
        const hn_kernel_reduce *reduce = &phase->reduces.items[r];
        const hn_dtype_info *type = hn_dtype_facts(reduce->dtype);
        for (uint32_t a = 0; a < 2; a++) {
            put_line(pr, "%s *%c%u = (%s *)((char *)scratch + %u);", type->c_type, "cw"[a], reduce->slot, type->c_type, pr->wide_bytes);
            pr->wide_bytes += wide_rows(pr) * (uint32_t)type->size_bytes;
        }
        put_line(pr, "for (ll k = 0; k < j1 - j0; k += VF) st_%s(w%u + k, sp_%c(0));", type->name, reduce->slot, lane_class(reduce->dtype));
    }
}

/* The sums of `copies` vectors from column jb on: row q of each stream. With `tail` n columns at most. */
static void put_wide_vectors(printer *pr, const hn_kernel_phase *phase, uint32_t copies, bool tail) {
    uint32_t ordinal = hn_sym_index_ordinal(pr->sym, phase->vars[0]);
    for (uint32_t r = 0; r < phase->reduces.count; r++)
        for (uint32_t u = 0; u < copies; u++) {
            const hn_kernel_reduce *reduce = &phase->reduces.items[r];
            char c = lane_class(reduce->dtype);
            put_line(pr, "%s a%u_%u = q > p ? ld_%s(c%u + (jb - j0) + %u) : sp_%c(0);", lane_type(reduce->dtype), reduce->slot, u,
                     hn_dtype_facts(reduce->dtype)->name, reduce->slot, u * pr->lanes, c);
        }
    int64_t steps = known(pr, extent_of(pr, phase->vars[0]));
    bool even = steps >= 0 && steps % WIDE_STEP == 0; /* otherwise the last stream may be shorter */
    put_line(pr, "_Pragma(\"GCC unroll %d\")", WIDE_STEP);
    char limit[24] = "e";
    if (even) snprintf(limit, sizeof limit, "q + %d * far", WIDE_STEP);
    put_line(pr, "for (ll i%u = q; i%u < %s; i%u += far) {", ordinal, ordinal, limit, ordinal);
    pr->indent++;
    for (uint32_t u = 0; u < copies; u++) {
        char head[96];
        snprintf(head, sizeof head, tail ? "const ll j = jb + %u, n = imin(VF, j1 - j); (void)n;" : "const ll j = jb + %u; (void)j;", u * pr->lanes);
        put_vector(pr, head, 0, u, tail);
    }
    close_block(pr);
    for (uint32_t r = 0; r < phase->reduces.count; r++)
        for (uint32_t u = 0; u < copies; u++)
            put_line(pr, "st_%s(c%u + (jb - j0) + %u, a%u_%u);", hn_dtype_facts(phase->reduces.items[r].dtype)->name,
                     phase->reduces.items[r].slot, u * pr->lanes, phase->reduces.items[r].slot, u);
}

static void put_wide_strip(printer *pr, const hn_kernel_phase *phase, uint32_t copies, bool whole) {
    put_line(pr, "ll jb = j0;");
    put_line(pr, "for (; jb + %u <= j1; jb += %u) {", copies * pr->lanes, copies * pr->lanes);
    pr->indent++;
    put_wide_vectors(pr, phase, copies, false);
    close_block(pr);
    if (whole) return;
    put_line(pr, "for (; jb + VF <= j1; jb += VF) {");
    pr->indent++;
    put_wide_vectors(pr, phase, 1, false);
    close_block(pr);
    put_line(pr, "if (jb < j1) {");
    pr->indent++;
    put_wide_vectors(pr, phase, 1, true);
    close_block(pr);
}

/* w += c */
static void put_wide_carry(printer *pr, const hn_kernel_phase *phase) {
    for (uint32_t r = 0; r < phase->reduces.count; r++) {
        const char *name = hn_dtype_facts(phase->reduces.items[r].dtype)->name;
        uint32_t slot = phase->reduces.items[r].slot;
        put_line(pr, "for (ll k = 0; k < j1 - j0; k += VF) st_%s(w%u + k, ld_%s(w%u + k) + ld_%s(c%u + k));", name, slot, name, slot, name, slot);
    }
}

static void put_wide_sums(printer *pr, const hn_kernel_phase *phase, uint32_t copies, bool whole) {
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll e = ");
    put_index(pr, extent_of(pr, phase->vars[0]));
    hn_strbuf_printf(&pr->out, ", far = (e + %d) / %d;\n", WIDE_STEP - 1, WIDE_STEP);
    put_line(pr, "for (ll p = 0; p < far; p += %d) {", WIDE_BLOCK);
    pr->indent++;
    put_line(pr, "for (ll q = p; q < imin(p + %d, far); q++) {", WIDE_BLOCK);
    pr->indent++;
    put_wide_strip(pr, phase, copies, whole);
    close_block(pr);
    put_wide_carry(pr, phase);
    close_block(pr);
}

/* The phases after the sums, for `copies` vectors. */
static hn_status put_wide_results(printer *pr, uint32_t copies, bool tail) {
    const hn_kernel_phase *first = &pr->k->phases.items[0];
    if (tail) put_line(pr, "const ll je = j1;");
    for (uint32_t r = 0; r < first->reduces.count; r++)
        for (uint32_t u = 0; u < copies; u++) {
            const hn_kernel_reduce *reduce = &first->reduces.items[r];
            put_line(pr, "const %s r%u_%u = ld_%s(w%u + (jb - j0) + %u);", lane_type(reduce->dtype), reduce->slot, u,
                     hn_dtype_facts(reduce->dtype)->name, reduce->slot, u * pr->lanes);
        }
    for (uint32_t f = 1; f < pr->k->phases.count; f++) HN_TRY(put_phase_column(pr, &pr->k->phases.items[f], copies, tail));
    return NULL;
}

static hn_status put_wide_kernel(printer *pr) {
    const hn_kernel *k = pr->k;
    const hn_kernel_phase *first = &k->phases.items[0];
    hn_expr rows = extent_of(pr, pr->lane);
    uint32_t copies = first->reduces.count == 1 && phase_cost(first) <= 8 ? 2 : 1;
    int64_t extent = known(pr, rows);
    bool whole = extent >= 0 && extent % (copies * pr->lanes) == 0;
    open_block(pr, "for (ll row = begin; row < end; row++) ");
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll rows = ");
    put_index(pr, rows);
    uint32_t width = wide_rows(pr);
    hn_strbuf_printf(&pr->out, ", strips = (rows + %u) / %u, j0 = row %% strips * %u, j1 = imin(rows, j0 + %u), outer = row / strips; (void)outer;\n",
                     width - 1, width, width, width);
    if (k->rank > 1) put_rows(pr, "outer", k->rank - 1);
    put_wide_arrays(pr, first);
    pr->phase = first;
    HN_TRY(analyse_phase(pr));
    put_wide_sums(pr, first, copies, whole);
    put_line(pr, "ll jb = j0;");
    put_line(pr, "for (; jb + %u <= j1; jb += %u) {", copies * pr->lanes, copies * pr->lanes);
    pr->indent++;
    HN_TRY(put_wide_results(pr, copies, false));
    close_block(pr);
    if (!whole) {
        put_line(pr, "for (; jb < j1; jb += VF) {");
        pr->indent++;
        HN_TRY(put_wide_results(pr, 1, true));
        close_block(pr);
    }
    close_block(pr);
    return NULL;
}

/* --- the choice --- */

hn_status put_column_kernel(printer *pr) {
    pr->column = true;
    pr->lane = pr->k->rank ? pr->k->vars[pr->k->rank - 1] : 0;
    return is_wide(pr) ? put_wide_kernel(pr) : put_narrow_kernel(pr);
}

uint32_t column_width(printer *pr) { return is_wide(pr) ? wide_rows(pr) : column_copies(pr) * pr->lanes; }
