/* cpu_rows.c: forms of kernels of rows from memory: software pipelining and split streams. */
#include "kernel/cpu_internal.h"

/* ---- software pipelining ----
 *
 * A kernel of rows from memory whose last phase only takes up what the phase before left in a local
 * buffer (softmax: the division) has a pass of pure non-temporal stores after one of pure
 * arithmetic: neither the stores' ports nor the others have work all the time. Pipelined, row i is
 * computed while row i - 1 is stored. The first iteration stores what the scratch memory holds,
 * over a row that the second one stores again; the last one computes the last row once more, for
 * nothing: one row too many for a thread, and no condition in the loop.
 * Source: bench_ceilings softmax. */

/* Whether the phase uses nothing but local buffers, results and constants, and writes one
 * argument. */
static bool only_stores(const hn_cpu_plan *pl, const hn_kernel_phase *phase) {
    if (phase->rank != 1 || phase->scan || phase->reduces.count || phase->stores.count != 1)
        return false;
    if (hn_cpu_is_local(pl, phase->stores.items[0].buffer)) return false;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        bool own = op->kind == HN_SOP_CONST || op->kind == HN_SOP_ELEM || op->kind == HN_SOP_CAST ||
                   op->kind == HN_SOP_RESULT;
        if (!own && !(op->kind == HN_SOP_LOAD && hn_cpu_is_local(pl, op->buffer))) return false;
    }
    return true;
}

/* Whether a phase may run twice for a row, and leaves nothing but local buffers and results. */
static bool stays_in_row(const hn_cpu_plan *pl, const hn_kernel_phase *phase) {
    if (phase->scan || phase->rank > 1) return false;
    for (uint32_t k = 0; k < phase->stores.count; k++)
        if (!hn_cpu_is_local(pl, phase->stores.items[k].buffer)) return false;
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        if (hn_op_has(phase->reduces.items[k].op, HN_TRAIT_POSITION)) return false;
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_INDIRECT ||
            phase->body.items[s].kind == HN_SOP_RANDOM)
            return false;
    return true;
}

/* Whether every row begins at a whole vector of its buffer. */
static bool has_rows_of_vectors(const hn_cpu_plan *pl, const hn_kernel_phase *phase) {
    hn_expr e = phase->stores.items[0].index, coeff;
    if (hn_cpu_dtype(pl, phase->stores.items[0].buffer) != HN_DTYPE_F32) return false;
    for (uint32_t d = 0; d < pl->kernel->rank; d++) {
        if (!hn_sym_affine(pl->sym, e, pl->kernel->vars[d], &coeff, &e)) return false;
        int64_t pitch = hn_cpu_known(pl, coeff);
        if (pitch < 0 || pitch % pl->lanes) return false;
    }
    return e == phase->vars[0];
}

bool hn_cpu_can_pipeline(const hn_cpu_plan *pl) {
    const hn_kernel *k = pl->kernel;
    uint32_t count = k->phases.count;
    if (k->mode != HN_VECTOR_INNER || k->serial || !k->rank || count < 2 || !k->locals.count)
        return false;
    const hn_kernel_phase *last = &k->phases.items[count - 1], *busy = last - 1;
    if (!only_stores(pl, last) || !has_rows_of_vectors(pl, last) || busy->rank != 1) return false;
    if (hn_cpu_extent(pl, last->vars[0]) != hn_cpu_extent(pl, busy->vars[0])) return false;
    for (uint32_t f = 0; f + 1 < count; f++)
        if (!stays_in_row(pl, &k->phases.items[f])) return false;
    return true;
}

bool hn_cpu_pipeline_pays(const hn_cpu_plan *pl) {
    return pl->nontemporal &&
           pl->phases[pl->kernel->phases.count - 2].cost >= pl->facts->pipelined_cost_min;
}

/* ---- split streams ----
 *
 * A loop that only reads is bound by how soon each page's lines are asked for, and the prefetchers
 * start anew on every page. A thread reads four streams at once: its rows are cut in four parts,
 * and row q of each part is read together, so the starts of their pages overlap. Rows next to each
 * other do less: when one ends, its next page is another stream's.
 * Source: bench_ceilings sums. */

/* How much the kernel's first phase reads in rows of their own, as far as sizes are known. */
static double read_bytes(const hn_cpu_plan *pl, const hn_kernel_phase *phase) {
    hn_expr outer = pl->kernel->vars[0], coeff, rest;
    double elems =
        (double)hn_cpu_hint(pl, outer, 1024) * (double)hn_cpu_hint(pl, phase->vars[0], 1024);
    double bytes = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (op->kind != HN_SOP_LOAD || !hn_sym_affine(pl->sym, op->index, outer, &coeff, &rest))
            continue;
        if (!hn_sym_is_value(pl->sym, coeff, 0))
            bytes += elems * (double)hn_cpu_elem_bytes(pl, op->buffer);
    }
    return bytes;
}

/* Whether the phase reduces rows to one value each, and does nothing else. */
static bool only_reads(const hn_kernel_phase *phase) {
    if (phase->rank != 1 || phase->scan || phase->reduces.count != 1 || phase->stores.count)
        return false;
    return !hn_op_has(phase->reduces.items[0].op, HN_TRAIT_POSITION) && !hn_cpu_has_indirect(phase);
}

bool hn_cpu_can_split(const hn_cpu_plan *pl) {
    const hn_kernel *k = pl->kernel;
    if (k->mode != HN_VECTOR_INNER || k->serial || k->rank != 1 || k->locals.count ||
        !only_reads(&k->phases.items[0]))
        return false;
    for (uint32_t f = 1; f < k->phases.count; f++)
        if (k->phases.items[f].rank) return false;
    return true;
}

/* Of rows of a few vectors each has a chain of its own, which the others go on beside. */
static bool has_short_rows(const hn_cpu_plan *pl) {
    return hn_cpu_hint(pl, pl->kernel->phases.items[0].vars[0], 1024) <=
           (int64_t)pl->facts->split_short_vectors * pl->lanes;
}

bool hn_cpu_split_pays(const hn_cpu_plan *pl) {
    if (has_short_rows(pl)) return true;
    if (pl->phases[0].cost > pl->facts->split_cost_max) return false;
    return read_bytes(pl, &pl->kernel->phases.items[0]) > (double)pl->facts->split_min_bytes;
}

void hn_cpu_set_split(hn_cpu_plan *pl) {
    int64_t extent = hn_cpu_known(pl, hn_cpu_extent(pl, pl->phases[0].lane));
    /* shorter chains, smaller errors; eight sums leave registers */
    uint32_t accumulators = pl->lanes < 16 ? 2 : 1;
    pl->split =
        (struct hn_cpu_split){.streams = pl->facts->split_streams,
                              .accumulators = accumulators,
                              .is_whole = extent >= 0 && extent % (accumulators * pl->lanes) == 0};
}
