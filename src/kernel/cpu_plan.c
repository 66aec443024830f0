/* cpu_plan.c: the forms that a kernel may have on a CPU, and what one of them means for threads and
 * local buffers. */
#include "kernel/cpu_internal.h"

#include "base/checked.h"

/* ---- candidates ---- */

/* The fastest first. */
static void keep(hn_cpu_plan *pl, hn_cpu_candidate c) {
    uint32_t at = pl->candidate_count++;
    for (; at > 0 && pl->candidates[at - 1].speed < c.speed; at--)
        pl->candidates[at] = pl->candidates[at - 1];
    pl->candidates[at] = c;
}

/* Beside one of speed `plain`: faster by `gain` where it pays, elsewhere slower. */
static double speed_of(double plain, double gain, bool pays) {
    return pays ? plain * gain : plain / gain;
}

static void list_columns(hn_cpu_plan *pl) {
    keep(pl, (hn_cpu_candidate){HN_CPU_COLUMNS_NARROW, 1});
    if (hn_cpu_can_strip(pl))
        keep(pl, (hn_cpu_candidate){HN_CPU_COLUMNS_WIDE,
                                    speed_of(1, pl->facts->strip_gain, hn_cpu_strip_pays(pl))});
}

static void list_tiles(hn_cpu_plan *pl) {
    double speed = speed_of(1, pl->facts->tile_gain, hn_cpu_tile_pays(pl));
    keep(pl, (hn_cpu_candidate){HN_CPU_TILES, speed});
    if (!hn_cpu_can_tile_wide(pl)) return;
    keep(pl, (hn_cpu_candidate){HN_CPU_TILES_WIDE, speed_of(speed, pl->facts->wide_tile_gain,
                                                            hn_cpu_wide_tile_pays(pl))});
}

/* Pipelined rows keep local buffers, split streams have none, and tiles no second phase. */
static void list_rows(hn_cpu_plan *pl) {
    const hn_cpu_facts *facts = pl->facts;
    keep(pl, (hn_cpu_candidate){HN_CPU_ROWS, 1});
    pl->tiles.var = hn_cpu_tile_variable(pl);
    if (pl->tiles.var) list_tiles(pl);
    else if (hn_cpu_can_pipeline(pl))
        keep(pl, (hn_cpu_candidate){HN_CPU_ROWS_PIPELINED,
                                    speed_of(1, facts->pipelined_gain, hn_cpu_pipeline_pays(pl))});
    else if (hn_cpu_can_split(pl))
        keep(pl, (hn_cpu_candidate){HN_CPU_ROWS_SPLIT,
                                    speed_of(1, facts->split_gain, hn_cpu_split_pays(pl))});
}

/* Each form is explained in the file that asks whether it is right. */
static void list_candidates(hn_cpu_plan *pl) {
    if (pl->kernel->slabs) {
        keep(pl, (hn_cpu_candidate){HN_CPU_ROWS_SLABS, 1});
        return;
    }
    switch (pl->kernel->mode) {
    case HN_VECTOR_FLAT: keep(pl, (hn_cpu_candidate){HN_CPU_FLAT, 1}); break;
    case HN_VECTOR_OUTER: list_columns(pl); break;
    case HN_VECTOR_INNER: list_rows(pl); break;
    }
}

/* ---- the form ---- */

/* The numbers of the form, and what it means for each phase. */
static hn_status choose_numbers(hn_cpu_plan *pl) {
    switch (pl->form) {
    case HN_CPU_TILES:
    case HN_CPU_TILES_WIDE: hn_cpu_set_tiles(pl); break;
    case HN_CPU_COLUMNS_NARROW:
    case HN_CPU_COLUMNS_WIDE: hn_cpu_set_columns(pl); break;
    case HN_CPU_ROWS_SPLIT: hn_cpu_set_split(pl); break;
    case HN_CPU_FLAT:
    case HN_CPU_ROWS:
    case HN_CPU_ROWS_SLABS:
    case HN_CPU_ROWS_PIPELINED: break;
    }
    for (uint32_t f = 0; f < pl->kernel->phases.count && hn_cpu_has_lane_loop(pl->form); f++) {
        if (!pl->phases[f].lane) continue;
        HN_TRY(hn_cpu_choose_prefetches(&pl->phases[f]));
        hn_cpu_choose_loop(&pl->phases[f]);
    }
    hn_cpu_choose_stores(pl);
    return NULL;
}

/* ---- threads ---- */

static hn_expr rows_of(const hn_cpu_plan *pl, uint32_t count) {
    hn_expr rows = hn_sym_int(pl->sym, 1);
    for (uint32_t d = 0; d < count; d++)
        rows = hn_sym_mul(pl->sym, rows, hn_cpu_extent(pl, pl->kernel->vars[d]));
    return rows;
}

/* Elements times cost. */
static int64_t work_of_row(const hn_cpu_plan *pl) {
    int64_t work = 0;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
        int64_t elems = 1;
        for (uint32_t d = 0; d < phase->rank; d++) elems *= hn_cpu_hint(pl, phase->vars[d], 1024);
        work += elems * pl->phases[f].cost;
    }
    return work;
}

/* Blocks of a flat kernel, squares, strips of columns, slabs, or rows. `work`: of a row; becomes
 * that of an iteration. */
static hn_expr iterations_of(const hn_cpu_plan *pl, int64_t *work) {
    const hn_kernel *k = pl->kernel;
    switch (pl->form) {
    case HN_CPU_FLAT:
        *work = (int64_t)pl->flat_block_elems * pl->phases[0].cost;
        return hn_sym_ceildiv(pl->sym, hn_cpu_extent(pl, k->phases.items[0].vars[0]),
                              hn_sym_int(pl->sym, pl->flat_block_elems));
    case HN_CPU_TILES:
    case HN_CPU_TILES_WIDE: *work *= pl->tiles.block; return hn_cpu_tile_count(pl, pl->tiles.block);
    case HN_CPU_COLUMNS_NARROW:
    case HN_CPU_COLUMNS_WIDE: {
        *work *= pl->columns.width;
        hn_expr last = k->rank ? hn_cpu_extent(pl, k->vars[k->rank - 1]) : hn_sym_int(pl->sym, 1);
        hn_expr strips = hn_sym_ceildiv(pl->sym, last, hn_sym_int(pl->sym, pl->columns.width));
        return hn_sym_mul(pl->sym, rows_of(pl, k->rank ? k->rank - 1 : 0), strips);
    }
    case HN_CPU_ROWS_SLABS:
        for (uint32_t d = 0; d < k->rank; d++) *work *= hn_cpu_hint(pl, k->vars[d], 1024);
        *work /= k->slabs;
        return hn_sym_int(pl->sym, k->slabs);
    case HN_CPU_ROWS:
    case HN_CPU_ROWS_PIPELINED:
    case HN_CPU_ROWS_SPLIT: break;
    }
    return rows_of(pl, k->rank);
}

static void set_extent(hn_cpu_plan *pl) {
    int64_t work = work_of_row(pl);
    pl->extent = iterations_of(pl, &work);
    if (pl->kernel->serial) work = 0;
    pl->grain = work <= 0                       ? INT64_MAX
                : work >= pl->facts->grain_work ? 1
                                                : pl->facts->grain_work / work;
    if (pl->choice.grain && !pl->kernel->serial) pl->grain = pl->choice.grain;
}

/* ---- local buffers ---- */

/* Rows begin at lines of memory, and have a vector's room behind them. */
static hn_status set_locals(hn_cpu_plan *pl) {
    enum { PADDING = 64 };
    HN_NEW(pl->arena, pl->local_elems, pl->kernel->locals.count);
    for (uint32_t k = 0; k < pl->kernel->locals.count; k++) {
        const hn_local *local = &pl->kernel->locals.items[k];
        int64_t elem_bytes = hn_cpu_elem_bytes(pl, local->buffer);
        size_t row = (size_t)(hn_cpu_known(pl, local->extent_elems) * elem_bytes);
        pl->local_elems[k] = ((int64_t)hn_align_up(row, PADDING) + PADDING) / elem_bytes;
    }
    return NULL;
}

/* ---- the whole ---- */

static hn_status analyse(hn_cpu_plan *pl) {
    HN_NEW(pl->arena, pl->phases, pl->kernel->phases.count);
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) HN_TRY(hn_cpu_analyse(pl, f));
    pl->written_bytes = hn_cpu_written_bytes(pl);
    pl->nontemporal = pl->written_bytes >= (double)pl->facts->nontemporal_bytes;
    list_candidates(pl);
    return NULL;
}

hn_status hn_cpu_plan_begin(const hn_program *program, const hn_kernel *kernel,
                            uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                            hn_cpu_plan **out) {
    HN_NEW(arena, *out, 1);
    **out = (hn_cpu_plan){.program = program,
                          .kernel = kernel,
                          .facts = facts,
                          .sym = program->sym,
                          .arena = arena,
                          .lanes = vector_bytes / 4,
                          .lanes_are_rows = kernel->mode == HN_VECTOR_OUTER};
    return analyse(*out);
}

static void take_choice(hn_cpu_plan *pl, const hn_cpu_choice *choice) {
    pl->choice = *choice;
    pl->form = choice->form;
    if (choice->stores) pl->nontemporal = choice->stores == HN_CPU_STORES_STREAMING;
    pl->flat_block_elems = choice->width ? choice->width : pl->facts->flat_block_elems;
}

hn_status hn_cpu_plan_complete(hn_cpu_plan *plan, hn_cpu_form form) {
    return hn_cpu_plan_complete_as(plan, &(hn_cpu_choice){.form = form});
}

hn_status hn_cpu_plan_complete_as(hn_cpu_plan *plan, const hn_cpu_choice *choice) {
    const hn_cpu_form form = choice->form;
    take_choice(plan, choice);
    if (form != HN_CPU_TILES && form != HN_CPU_TILES_WIDE) plan->tiles.var = 0;
    HN_TRY(choose_numbers(plan));
    set_extent(plan);
    HN_TRY(set_locals(plan));
    return hn_cpu_find_bases(plan);
}

hn_status hn_cpu_plan_create(const hn_program *program, const hn_kernel *kernel,
                             uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                             hn_cpu_plan **out) {
    HN_TRY(hn_cpu_plan_begin(program, kernel, vector_bytes, facts, arena, out));
    return hn_cpu_plan_complete(*out, (*out)->candidates[0].form);
}
