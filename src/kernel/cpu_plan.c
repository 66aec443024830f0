/* cpu_plan.c: the form of a kernel on a CPU, as a list of rules, and what follows for threads and scratch memory. */
#include "kernel/cpu_internal.h"

#include "base/checked.h"

/* The first rule that fits. Each form is explained in the file that asks whether it fits. */
static hn_cpu_form choose_form(hn_cpu_plan *pl) {
    if (pl->kernel->mode == HN_VECTOR_OUTER) return hn_cpu_is_wide_column(pl) ? HN_CPU_COLUMNS_WIDE : HN_CPU_COLUMNS_NARROW;
    if (pl->kernel->mode == HN_VECTOR_FLAT) return HN_CPU_FLAT;
    pl->tiles.var = hn_cpu_tile_variable(pl);
    if (pl->tiles.var) return hn_cpu_is_wide_tile(pl) ? HN_CPU_TILES_WIDE : HN_CPU_TILES;
    if (hn_cpu_is_pipelined(pl)) return HN_CPU_ROWS_PIPELINED;
    if (hn_cpu_is_split(pl)) return HN_CPU_ROWS_SPLIT;
    return HN_CPU_ROWS;
}

/* The numbers of the form, and what it means for each phase. */
static hn_status choose_numbers(hn_cpu_plan *pl) {
    switch (pl->form) {
    case HN_CPU_TILES: case HN_CPU_TILES_WIDE: hn_cpu_set_tiles(pl); break;
    case HN_CPU_COLUMNS_NARROW: case HN_CPU_COLUMNS_WIDE: hn_cpu_set_columns(pl); break;
    case HN_CPU_ROWS_SPLIT: hn_cpu_set_split(pl); break;
    case HN_CPU_FLAT: case HN_CPU_ROWS: case HN_CPU_ROWS_PIPELINED: break;
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
    for (uint32_t d = 0; d < count; d++) rows = hn_sym_mul(pl->sym, rows, hn_cpu_extent(pl, pl->kernel->vars[d]));
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

/* Blocks of a flat kernel, squares, strips of columns, or rows. `work`: of a row; becomes that of an iteration. */
static hn_expr iterations_of(const hn_cpu_plan *pl, int64_t *work) {
    const hn_kernel *k = pl->kernel;
    switch (pl->form) {
    case HN_CPU_FLAT:
        *work = (int64_t)pl->facts->flat_block_elems * pl->phases[0].cost;
        return hn_sym_ceildiv(pl->sym, hn_cpu_extent(pl, k->phases.items[0].vars[0]), hn_sym_int(pl->sym, pl->facts->flat_block_elems));
    case HN_CPU_TILES: case HN_CPU_TILES_WIDE:
        *work *= pl->tiles.block;
        return hn_cpu_tile_count(pl, pl->tiles.block);
    case HN_CPU_COLUMNS_NARROW: case HN_CPU_COLUMNS_WIDE: {
        *work *= pl->columns.width;
        hn_expr last = k->rank ? hn_cpu_extent(pl, k->vars[k->rank - 1]) : hn_sym_int(pl->sym, 1);
        hn_expr strips = hn_sym_ceildiv(pl->sym, last, hn_sym_int(pl->sym, pl->columns.width));
        return hn_sym_mul(pl->sym, rows_of(pl, k->rank ? k->rank - 1 : 0), strips);
    }
    case HN_CPU_ROWS: case HN_CPU_ROWS_PIPELINED: case HN_CPU_ROWS_SPLIT: break;
    }
    return rows_of(pl, k->rank);
}

static void set_extent(hn_cpu_plan *pl) {
    int64_t work = work_of_row(pl);
    pl->extent = iterations_of(pl, &work);
    if (pl->kernel->serial) work = 0;
    pl->grain = work <= 0 ? INT64_MAX : work >= pl->facts->grain_work ? 1 : pl->facts->grain_work / work;
}

/* ---- scratch memory ---- */

/* Padded: whole vectors may be stored past a row's end only inside of the padding. */
static int64_t local_bytes(const hn_cpu_plan *pl, const hn_local *local) {
    enum { PADDING = 64 };
    size_t row = (size_t)(hn_cpu_known(pl, local->extent_elems) * hn_cpu_elem_bytes(pl, local->buffer));
    return (int64_t)hn_align_up(row, PADDING) + PADDING;
}

/* What the form needs for itself. */
static int64_t form_bytes(hn_cpu_plan *pl) {
    if (pl->form == HN_CPU_COLUMNS_WIDE) return hn_cpu_place_strip(pl);
    return pl->form == HN_CPU_TILES_WIDE ? 2 * HN_CPU_WIDE_TILE * HN_CPU_WIDE_TILE_PITCH * 4 : 0;
}

/* The form's own, then the local buffers one after the other. */
static hn_status place_scratch(hn_cpu_plan *pl) {
    HN_NEW(pl->arena, pl->locals, pl->kernel->locals.count);
    pl->scratch_bytes = form_bytes(pl);
    for (uint32_t k = 0; k < pl->kernel->locals.count; k++) {
        int64_t bytes = local_bytes(pl, &pl->kernel->locals.items[k]);
        pl->locals[k] = (hn_cpu_local){.offset_bytes = pl->scratch_bytes, .bytes = bytes};
        pl->scratch_bytes += bytes * (pl->form == HN_CPU_ROWS_PIPELINED ? 2 : 1);
    }
    return NULL;
}

/* ---- the whole ---- */

static void mark_narrow_checks(hn_cpu_plan *pl) {
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++)
        for (hn_sid s = 1; s < pl->kernel->phases.items[f].body.count; s++)
            pl->checks_narrow |= pl->phases[f].ops[s].live && pl->phases[f].ops[s].narrow;
}

static hn_status make_plan(hn_cpu_plan *pl) {
    HN_NEW(pl->arena, pl->phases, pl->kernel->phases.count);
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) HN_TRY(hn_cpu_analyse(pl, f));
    mark_narrow_checks(pl);
    pl->written_bytes = hn_cpu_written_bytes(pl);
    pl->nontemporal = pl->written_bytes > (double)pl->facts->nontemporal_bytes;
    pl->form = choose_form(pl);
    HN_TRY(choose_numbers(pl));
    set_extent(pl);
    HN_TRY(place_scratch(pl));
    return hn_cpu_find_bases(pl);
}

hn_status hn_cpu_plan_create(const hn_program *program, const hn_kernel *kernel, uint32_t vector_bytes, const hn_cpu_facts *facts,
                             hn_arena *arena, hn_cpu_plan **out) {
    HN_NEW(arena, *out, 1);
    **out = (hn_cpu_plan){.program = program, .kernel = kernel, .facts = facts, .sym = program->sym, .arena = arena,
                          .lanes = vector_bytes / 4, .lanes_are_rows = kernel->mode == HN_VECTOR_OUTER};
    return make_plan(*out);
}
