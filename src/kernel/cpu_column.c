/* cpu_column.c: kernels whose lanes are rows: reductions along a dimension that is not the last in
 * memory.
 *
 * Narrow columns run a few vectors of rows down all phases. Wide columns are for plain sums over
 * many rows: a strip of results is kept in the first cache while memory is read in long runs, a few
 * rows at a time, instead of running down narrow columns with a jump from row to row. The rows of a
 * step are that part of the sum apart, so that each is a stream that goes on where it ended
 * (cpu_rows.c). Two levels of partial sums keep the error small. */
#include "kernel/cpu_internal.h"

/* ---- blocks of sums ---- */

static bool sums_in_blocks(const hn_kernel_reduce *r) {
    hn_lane_kind kind = hn_lane_of(r->dtype);
    return r->op == HN_OP_SUM && (kind == HN_LANE_F32 || kind == HN_LANE_F64);
}

static void choose_blocks(hn_cpu_phase *ph) {
    const hn_kernel_phase *phase = ph->phase;
    if (!phase->rank || phase->scan) return;
    int64_t extent = hn_cpu_known(ph->plan, hn_cpu_extent(ph->plan, phase->vars[phase->rank - 1]));
    if (extent >= 0 && extent <= 2 * HN_CPU_SUM_BLOCK) return;
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        ph->reduces[k].in_blocks = sums_in_blocks(&phase->reduces.items[k]);
        ph->sums_in_blocks |= ph->reduces[k].in_blocks;
    }
}

/* ---- narrow columns ---- */

static hn_expr rows_of(const hn_cpu_plan *pl) {
    return pl->kernel->rank ? hn_cpu_extent(pl, pl->kernel->vars[pl->kernel->rank - 1])
                            : hn_sym_int(pl->sym, 1);
}

/* Of the longest phase. */
static int64_t steps_of(const hn_cpu_plan *pl) {
    int64_t most = 0;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
        const int64_t steps = phase->rank ? hn_cpu_hint(pl, phase->vars[phase->rank - 1], 0) : 0;
        if (steps > most) most = steps;
    }
    return most;
}

static uint32_t narrow_copies(const hn_cpu_plan *pl) {
    uint32_t cost = 0;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        if (pl->kernel->phases.items[f].scan) return 1;
        cost += hn_cpu_phase_cost(&pl->kernel->phases.items[f]);
    }
    int64_t rows = hn_sym_hint(pl->sym, rows_of(pl), 1024);
    uint32_t copies = hn_count_for_cost(&pl->facts->column_vectors, cost);
    if (copies > pl->facts->far_column_vectors && pl->lanes * sizeof(float) >= 64 &&
        steps_of(pl) >= pl->facts->far_column_steps)
        copies = pl->facts->far_column_vectors;
    /* the last vectors of a group may have no rows, but not half of them */
    while (copies > 1 && rows <= (int64_t)(pl->lanes * copies / 2)) copies /= 2;
    return copies;
}

/* ---- wide columns ---- */

/* Whether the phase is one or two plain sums. */
static bool is_plain_sum(const hn_kernel_phase *phase) {
    if (phase->rank != 1 || phase->stores.count || phase->scan || !phase->reduces.count)
        return false;
    if (phase->reduces.count > 2) return false;
    for (uint32_t r = 0; r < phase->reduces.count; r++) {
        const hn_kernel_reduce *reduce = &phase->reduces.items[r];
        if (reduce->op != HN_OP_SUM ||
            (reduce->dtype != HN_DTYPE_F32 && reduce->dtype != HN_DTYPE_F64))
            return false;
    }
    return true;
}

bool hn_cpu_can_strip(const hn_cpu_plan *pl) {
    const hn_kernel *k = pl->kernel;
    if (k->mode != HN_VECTOR_OUTER || !k->rank || k->locals.count ||
        !is_plain_sum(&k->phases.items[0]))
        return false;
    for (uint32_t f = 1; f < k->phases.count; f++)
        if (k->phases.items[f].rank || k->phases.items[f].reduces.count) return false;
    return true;
}

bool hn_cpu_strip_pays(const hn_cpu_plan *pl) {
    const hn_kernel *k = pl->kernel;
    if (pl->phases[0].cost > pl->facts->strip_cost_max) return false;
    if (hn_cpu_hint(pl, k->vars[k->rank - 1], 0) < pl->facts->strip_min_cols) return false;
    return hn_cpu_hint(pl, k->phases.items[0].vars[0], 0) >= pl->facts->strip_min_rows;
}

static uint32_t strip_width(const hn_cpu_plan *pl) {
    int64_t outer = 1;
    for (uint32_t d = 0; d + 1 < pl->kernel->rank; d++)
        outer *= hn_cpu_hint(pl, pl->kernel->vars[d], 1);
    bool shared = pl->kernel->threads <= 1 || outer >= 2 * (int64_t)pl->kernel->threads;
    return shared ? (uint32_t)pl->facts->limits.column_strip : pl->facts->strip_cols_short;
}

static void set_wide(hn_cpu_plan *pl) {
    const hn_kernel_phase *first = &pl->kernel->phases.items[0];
    int64_t steps = hn_cpu_known(pl, hn_cpu_extent(pl, first->vars[0])),
            step = pl->facts->strip_step;
    const hn_cost_steps *vectors = &pl->facts->strip_vectors;
    bool is_one = first->reduces.count == 1;
    pl->columns.copies = is_one ? hn_count_for_cost(vectors, pl->phases[0].cost) : 1;
    pl->columns.width = strip_width(pl);
    pl->columns.even_steps = steps >= 0 && steps % step == 0;
    pl->columns.block_steps = HN_CPU_SUM_BLOCK / pl->facts->strip_step;
}

/* In place of the rules' numbers. */
static void take_choice(hn_cpu_plan *pl) {
    struct hn_cpu_columns *c = &pl->columns;
    const bool is_wide = pl->form == HN_CPU_COLUMNS_WIDE;
    const uint32_t copies = c->copies, width = c->width;
    if (pl->choice.vectors && (!is_wide || pl->kernel->phases.items[0].reduces.count == 1))
        c->copies = pl->choice.vectors;
    if (is_wide && pl->choice.width) c->width = pl->choice.width;
    if (!is_wide) c->width = c->copies * pl->lanes;
    c->is_usual = c->copies == copies && (!is_wide || c->width == width);
}

void hn_cpu_set_columns(hn_cpu_plan *pl) {
    int64_t rows = hn_cpu_known(pl, rows_of(pl));
    if (pl->form == HN_CPU_COLUMNS_WIDE) set_wide(pl);
    else pl->columns.copies = narrow_copies(pl);
    take_choice(pl);
    pl->columns.is_whole = rows >= 0 && rows % (pl->columns.copies * pl->lanes) == 0;
    for (uint32_t f = 0; f < pl->kernel->phases.count && pl->form == HN_CPU_COLUMNS_NARROW; f++)
        choose_blocks(&pl->phases[f]);
}
