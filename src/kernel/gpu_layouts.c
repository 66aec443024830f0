/* gpu_layouts.c: the layouts of plan_gpu.c as forms. */
#include "kernel/gpu_internal.h"

#include <string.h>

typedef hn_gpu_planner planner;

/* ---- elements ---- */

/* Vectors that a group takes in a step. */
static int64_t vectors_of_step(const planner *pl) {
    return (int64_t)pl->layout->width * pl->layout->unroll;
}

/* Step number `step` of all groups together. Each group takes `steps` of them. */
static hn_status emit_element_step(planner *pl, const hn_expr *vars, uint32_t count, hn_expr step,
                                   int64_t steps) {
    hn_gpu_run run = hn_gpu_run_of(pl, vars, count);
    run.width = pl->layout->width;
    run.first = hn_sym_add(pl->sym, hn_sym_mul(pl->sym, step, hn_gpu_num(pl, vectors_of_step(pl))),
                           pl->f->thread);
    run.is_whole = hn_sym_divisor(pl->sym, run.vectors) % (steps * vectors_of_step(pl)) == 0;
    HN_TRY(hn_gpu_begin_phase(pl, &pl->k->phases.items[0]));
    hn_gpu_emit_step(pl, &run);
    return NULL;
}

/* Where the size is a multiple of the vectors, `times` so many. */
static void open_multiple(planner *pl) {
    const hn_gpu_layout *l = pl->layout;
    hn_expr vector = hn_gpu_num(pl, l->vector), one = hn_gpu_num(pl, 1),
            count = hn_sym_floordiv(pl->sym, l->size, vector),
            times = hn_form_symbol(pl->f, hn_sym_add(pl->sym, count, one));
    hn_form_if(pl->f, hn_sym_mod(pl->sym, l->size, vector), one);
    hn_form_let(pl->f, times, count);
    pl->size = l->size;
    pl->multiple = hn_sym_mul(pl->sym, times, vector);
}

/* Elsewhere single elements, by another layout; hn_form_close and the first layout are behind it. */
static void open_single(planner *pl, hn_gpu_layout *single) {
    *single = *pl->layout;
    single->vector = 1;
    hn_form_else(pl->f);
    pl->size = 0;
    pl->layout = single;
}

/* In place of a vector a thread takes as many steps of single elements. */
static hn_status emit_guarded_elements(planner *pl, const hn_expr *vars, uint32_t count) {
    const hn_gpu_layout *l = pl->layout;
    hn_gpu_layout single;
    open_multiple(pl);
    HN_TRY(emit_element_step(pl, vars, count, pl->f->group, 1));
    open_single(pl, &single);
    hn_expr vector = hn_gpu_num(pl, l->vector), part = hn_form_symbol(pl->f, vector);
    hn_form_for(pl->f, part, hn_gpu_num(pl, 0), vector, 1);
    hn_expr steps = hn_sym_mul(pl->sym, pl->f->group, vector);
    hn_status status =
        emit_element_step(pl, vars, count, hn_sym_add(pl->sym, steps, part), l->vector);
    pl->layout = l;
    hn_form_close(pl->f);
    hn_form_close(pl->f);
    return status;
}

/* Of all groups together. */
static hn_expr element_steps(const planner *pl, const hn_expr *vars, uint32_t count) {
    const hn_gpu_layout *l = pl->layout;
    const int64_t vectors = vectors_of_step(pl);
    if (!l->size)
        return hn_sym_ceildiv(pl->sym, hn_gpu_run_of(pl, vars, count).vectors,
                              hn_gpu_num(pl, vectors));
    return hn_sym_ceildiv(pl->sym, hn_gpu_extents(pl, vars, count),
                          hn_gpu_num(pl, vectors * l->vector));
}

hn_status hn_gpu_plan_elements(planner *pl, hn_arena *arena) {
    hn_expr vars[2 * HN_MAX_RANK];
    const uint32_t count = hn_gpu_list_variables(pl, vars);
    HN_TRY(hn_form_create(pl->p, arena, pl->layout->width, element_steps(pl, vars, count), &pl->f));
    if (pl->layout->size) return emit_guarded_elements(pl, vars, count);
    return emit_element_step(pl, vars, count, pl->f->group, 1);
}

/* Which square the group has: the last two variables of its number are those of the squares. */
static void name_square(planner *pl, hn_gpu_tile *t, const hn_expr *others, uint32_t count) {
    hn_expr size = hn_gpu_num(pl, t->size),
            across = hn_sym_ceildiv(pl->sym, hn_gpu_extent(pl, t->last), size),
            down = hn_sym_ceildiv(pl->sym, hn_gpu_extent(pl, t->along), size);
    if (hn_sym_is_value(pl->sym, across, 0)) across = hn_gpu_num(pl, 1); /* there are no groups */
    if (hn_sym_is_value(pl->sym, down, 0)) down = hn_gpu_num(pl, 1);
    hn_expr a = hn_form_symbol(pl->f, across), d = hn_form_symbol(pl->f, down),
            rest = hn_sym_floordiv(pl->sym, pl->f->group, across);
    hn_form_let(pl->f, a, hn_sym_mod(pl->sym, pl->f->group, across));
    hn_form_let(pl->f, d, hn_sym_mod(pl->sym, rest, down));
    hn_gpu_emit_coordinates(pl, hn_sym_floordiv(pl->sym, rest, down), others, count);
    t->last_begin = hn_sym_mul(pl->sym, a, size);
    t->along_begin = hn_sym_mul(pl->sym, d, size);
}

hn_status hn_gpu_plan_tiles(planner *pl, hn_arena *arena) {
    const hn_gpu_layout *l = pl->layout;
    hn_expr vars[2 * HN_MAX_RANK], others[2 * HN_MAX_RANK];
    uint32_t count = hn_gpu_list_variables(pl, vars), rest = 0;
    /* an odd pitch: the lines of a square begin in different banks */
    hn_gpu_tile tile = {.along = hn_gpu_transposed(pl, vars, count),
                        .last = vars[count - 1],
                        .size = l->tile,
                        .pitch = l->tile + 1};
    for (uint32_t d = 0; d + 1 < count; d++)
        if (vars[d] != tile.along) others[rest++] = vars[d];
    hn_expr size = hn_gpu_num(pl, l->tile), groups = hn_gpu_extents(pl, others, rest);
    groups =
        hn_sym_mul(pl->sym, groups, hn_sym_ceildiv(pl->sym, hn_gpu_extent(pl, tile.along), size));
    groups =
        hn_sym_mul(pl->sym, groups, hn_sym_ceildiv(pl->sym, hn_gpu_extent(pl, tile.last), size));
    HN_TRY(hn_form_create(pl->p, arena, l->width, groups, &pl->f));
    name_square(pl, &tile, others, rest);
    HN_TRY(hn_gpu_begin_phase(pl, &pl->k->phases.items[0]));
    hn_gpu_emit_step(pl, &(hn_gpu_run){.last = tile.last, .tile = &tile});
    return NULL;
}

/* ---- rows ---- */

static bool is_across(const planner *pl) { return pl->is_across; }

/* Local buffers are in registers that keep a row, or in memory of the group. */
static void add_locals(planner *pl, bool in_shared) {
    const hn_kernel *k = pl->k;
    for (uint32_t b = 0; b < k->locals.count; b++) {
        if (pl->layout->keeps && hn_gpu_fits_registers(pl, k->locals.items[b].buffer)) continue;
        hn_expr rows = hn_gpu_num(pl, pl->layout->rows);
        pl->locals[b] = hn_form_add_memory(
            pl->f,
            (hn_form_memory){.space = in_shared ? HN_SPACE_SHARED : HN_SPACE_SCRATCH,
                             .elems = hn_sym_mul(pl->sym, k->locals.items[b].extent_elems, rows),
                             .dtype = pl->p->buffers.items[k->locals.items[b].buffer].dtype});
    }
}

static void name_threads(planner *pl) {
    hn_expr thread = pl->f->thread, width = hn_gpu_num(pl, pl->layout->width),
            rows = hn_gpu_num(pl, pl->layout->rows);
    pl->place = hn_form_symbol(pl->f, width);
    pl->row = hn_form_symbol(pl->f, rows);
    hn_form_let(pl->f, pl->place,
                is_across(pl) ? hn_sym_floordiv(pl->sym, thread, rows)
                              : hn_sym_mod(pl->sym, thread, width));
    hn_form_let(pl->f, pl->row,
                is_across(pl) ? hn_sym_mod(pl->sym, thread, rows)
                              : hn_sym_floordiv(pl->sym, thread, width));
}

static void name_row(planner *pl) {
    hn_expr rows = hn_gpu_num(pl, pl->layout->rows);
    pl->number = hn_form_symbol(pl->f, hn_sym_mul(pl->sym, pl->f->grid, rows));
    hn_form_let(pl->f, pl->number,
                hn_sym_add(pl->sym, hn_sym_mul(pl->sym, pl->f->group, rows), pl->row));
}

/* A vector of rows counts as one. */
static hn_expr count_rows(const planner *pl) {
    hn_expr all = hn_gpu_extents(pl, pl->k->vars, pl->k->rank);
    if (!is_across(pl)) return all;
    return hn_sym_floordiv(pl->sym, all, hn_gpu_num(pl, pl->layout->vector));
}

static hn_status begin_rows(planner *pl, hn_arena *arena) {
    const hn_kernel *k = pl->k;
    const hn_gpu_layout *l = pl->layout;
    HN_TRY(hn_form_create(pl->p, arena, l->rows * l->width,
                          hn_sym_ceildiv(pl->sym, count_rows(pl), hn_gpu_num(pl, l->rows)),
                          &pl->f));
    if (l->blocks > 1) pl->f->blocks = l->blocks;
    pl->sums = NULL;
    pl->is_backward = false;
    if (is_across(pl) && l->vector > 1) {
        HN_NEW(pl->scratch, pl->sums, k->slots + 1);
        HN_NEW(pl->scratch, pl->places, k->slots + 1);
    }
    HN_TRY(hn_gpu_begin_rows(pl));
    name_row(pl);
    return NULL;
}

hn_status hn_gpu_begin_rows(planner *pl) {
    name_threads(pl);
    HN_NEW(pl->scratch, pl->locals, pl->k->locals.count + 1);
    HN_NEW(pl->scratch, pl->registers, pl->k->slots + 1);
    HN_NEW(pl->scratch, pl->results, pl->k->slots + 1);
    HN_NEW(pl->scratch, pl->unseen, pl->p->buffers.count);
    add_locals(pl, hn_gpu_shared_bytes(pl, pl->layout) <= pl->facts->shared_bytes);
    return NULL;
}

static void emit_barrier(planner *pl) {
    hn_form_barrier(pl->f);
    memset(pl->unseen, 0, pl->p->buffers.count * sizeof *pl->unseen);
}

/* Coordinates of a vector of rows: all variables but the last one. */
static void emit_vector_place(planner *pl) {
    hn_expr vector = hn_gpu_num(pl, pl->layout->vector),
            parts =
                hn_sym_floordiv(pl->sym, hn_gpu_extent(pl, pl->k->vars[pl->k->rank - 1]), vector),
            part = hn_form_symbol(pl->f, parts);
    if (hn_sym_is_value(pl->sym, parts, 0)) parts = hn_gpu_num(pl, 1);
    hn_form_let(pl->f, part, hn_sym_mod(pl->sym, pl->number, parts));
    hn_gpu_emit_coordinates(pl, hn_sym_floordiv(pl->sym, pl->number, parts), pl->k->vars,
                            pl->k->rank - 1);
    pl->begin = hn_sym_mul(pl->sym, part, vector);
}

/* The threads of rows that the kernel has; those of a last group that is not full do nothing. */
static void open_row(planner *pl) {
    hn_expr all = count_rows(pl);
    if (pl->rows_end) hn_form_if(pl->f, pl->number, pl->rows_end);
    else if (hn_sym_divisor(pl->sym, all) % pl->layout->rows == 0) hn_form_block(pl->f);
    else hn_form_if(pl->f, pl->number, all);
    if (pl->sums) emit_vector_place(pl);
    else hn_gpu_emit_coordinates(pl, pl->number, pl->k->vars, pl->k->rank);
}

/* The row's elements, shared out over its threads. A phase without dimensions is one element. */
static void emit_single(planner *pl) {
    const hn_kernel_phase *phase = pl->phase;
    hn_expr elems = hn_gpu_extents(pl, phase->vars, phase->rank), at = hn_form_symbol(pl->f, elems);
    hn_form_for(pl->f, at, pl->place, elems, pl->layout->width);
    hn_gpu_emit_coordinates(pl, at, phase->vars, phase->rank);
    hn_gpu_emit_body(pl);
    hn_form_close(pl->f);
}

/* Where a step begins: every second walk over a row begins at its end, which the caches still have.
 * Of rows whose length is known: an index that might be below 0 takes longer to compute. */
static hn_expr turn_around(planner *pl, hn_expr first, hn_expr vectors, int64_t step) {
    int64_t count;
    if (!hn_sym_is_int(pl->sym, vectors, &count) || is_across(pl)) return first;
    pl->is_backward = !pl->is_backward;
    if (pl->is_backward) return first; /* the next walk */
    return hn_sym_sub(pl->sym, hn_gpu_num(pl, (count - 1) / step * step), first);
}

/* Of the phase at hand: what is done in a step, or with an element. */
typedef void emit_part(planner *pl, const hn_gpu_run *run);

/* ... in vectors; all of them in one step, or in a loop of steps. */
static void emit_run(planner *pl, hn_gpu_run run, emit_part *emit) {
    const int64_t step = (int64_t)pl->layout->width * pl->layout->unroll;
    run.first = pl->place;
    run.width = pl->layout->width;
    if (pl->layout->keeps || hn_sym_prove_le(pl->sym, run.vectors, hn_gpu_num(pl, step))) {
        run.is_whole = !run.limit && hn_sym_is_value(pl->sym, run.vectors, step);
        emit(pl, &run);
        return;
    }
    hn_expr first = hn_form_symbol(pl->f, run.vectors);
    run.first = hn_sym_add(pl->sym, turn_around(pl, first, run.vectors, step), pl->place);
    run.is_whole = !run.limit && hn_sym_divisor(pl->sym, run.vectors) % step == 0;
    hn_form_for(pl->f, first, hn_gpu_num(pl, 0), run.vectors, step);
    emit(pl, &run);
    hn_form_close(pl->f);
}

static void emit_peeled_run(planner *pl, emit_part *step, emit_part *single) {
    const hn_gpu_run run = hn_gpu_begin_peeled(pl);
    if (pl->layout->keeps) hn_gpu_keep_edges(pl, &run);
    emit_run(pl, run, step);
    hn_gpu_emit_peeled(pl, &run, single);
}

static void emit_one(planner *pl, const hn_gpu_run *run) {
    (void)run;
    hn_gpu_emit_body(pl);
}

static void emit_online_step(planner *pl, const hn_gpu_run *run) {
    hn_gpu_emit_online_step(pl, run, hn_gpu_emit_step);
}

static void emit_online_one(planner *pl, const hn_gpu_run *run) {
    hn_gpu_emit_online_step(pl, run, emit_one);
}

/* Each thread has a vector of rows: the elements of each go down the rows. */
static void emit_row_vectors(planner *pl) {
    const hn_kernel_phase *phase = pl->phase;
    hn_gpu_run run = {.vars = phase->vars,
                      .count = phase->rank,
                      .vectors = hn_gpu_extents(pl, phase->vars, phase->rank),
                      .last = pl->k->vars[pl->k->rank - 1],
                      .begin = pl->begin};
    if (phase->rank) {
        emit_run(pl, run, hn_gpu_emit_step);
        return;
    }
    hn_form_if(pl->f, pl->place, hn_gpu_num(pl, 1));
    hn_gpu_emit_vector_once(pl, &run);
    hn_form_close(pl->f);
}

/* A scan by the threads of a row: in steps, what they have combined so far in a register of all.
 * Across rows the vectors of a thread are single elements, one behind the other. */
static void emit_scan(planner *pl) {
    const hn_kernel_phase *phase = pl->phase;
    const hn_kernel_reduce *r = &phase->reduces.items[0];
    hn_gpu_run run = hn_gpu_run_of(pl, phase->vars, phase->rank);
    hn_freg all = hn_form_add_register(pl->f, r->op, r->dtype);
    hn_expr first = hn_form_symbol(pl->f, run.vectors), place = pl->place;
    const int64_t step = (int64_t)pl->layout->width * pl->layout->unroll;
    run.width = is_across(pl) ? 1 : pl->layout->width;
    if (is_across(pl)) place = hn_sym_mul(pl->sym, place, hn_gpu_num(pl, pl->layout->unroll));
    run.first = hn_sym_add(pl->sym, first, place);
    run.is_whole = hn_sym_divisor(pl->sym, run.vectors) % step == 0;
    hn_form_init(pl->f, all);
    hn_form_for(pl->f, first, hn_gpu_num(pl, 0), run.vectors, step);
    hn_gpu_emit_scan_step(pl, &run, all, open_row);
    hn_form_close(pl->f);
}

/* The threads of a row combine their registers: then all of them have the results. All registers one
 * behind the other: they may go through the same barrier. */
static void emit_combine(planner *pl, const hn_kernel_phase *phase) {
    const hn_gpu_layout *l = pl->layout;
    for (uint32_t k = 0; k < phase->reduces.count && l->width > 1; k++)
        hn_form_across_threads(pl->f, pl->registers[phase->reduces.items[k].slot], l->width,
                               hn_gpu_pitch(pl, l->rows));
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        pl->results[r->slot] =
            hn_form_result(pl->f, pl->registers[r->slot], hn_op_keeps_position(r->op));
    }
}

/* What the phase has written is not seen by other threads before a barrier. */
static void mark_written(planner *pl) {
    for (uint32_t k = 0; k < pl->phase->stores.count; k++)
        pl->unseen[pl->phase->stores.items[k].buffer] = true;
}

hn_status hn_gpu_emit_phase(planner *pl, const hn_kernel_phase *phase) {
    HN_TRY(hn_gpu_begin_phase(pl, phase));
    if (pl->layout->width > 1 && hn_gpu_reads_unseen(pl)) emit_barrier(pl);
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &phase->reduces.items[k];
        pl->registers[r->slot] = hn_form_add_register(pl->f, r->op, r->dtype);
        hn_form_init(pl->f, pl->registers[r->slot]);
    }
    if (phase->scan && phase->rank) {
        emit_scan(pl);
        mark_written(pl);
        return NULL;
    }
    if (pl->sums) hn_gpu_begin_sums(pl);
    open_row(pl);
    if (pl->sums) emit_row_vectors(pl);
    else if (is_across(pl) || phase->scan || !phase->rank) emit_single(pl);
    else if (pl->layout->peels) emit_peeled_run(pl, hn_gpu_emit_step, emit_one);
    else emit_run(pl, hn_gpu_run_of(pl, phase->vars, phase->rank), hn_gpu_emit_step);
    hn_form_close(pl->f);
    mark_written(pl);
    if (pl->sums) hn_gpu_combine_sums(pl);
    else if (!phase->scan) emit_combine(pl, phase);
    return NULL;
}

/* Two phases that take one walk. */
static hn_status emit_online(planner *pl, const hn_kernel_phase *first) {
    hn_gpu_online online;
    HN_TRY(hn_gpu_begin_online(pl, first, &online));
    pl->online = &online;
    if (pl->layout->width > 1 && hn_gpu_reads_unseen(pl)) emit_barrier(pl);
    open_row(pl);
    if (pl->layout->peels) emit_peeled_run(pl, emit_online_step, emit_online_one);
    else emit_run(pl, hn_gpu_run_of(pl, first->vars, first->rank), emit_online_step);
    hn_form_close(pl->f);
    hn_gpu_combine_online(pl);
    pl->online = NULL;
    return NULL;
}

/* Two phases in one walk go over the elements of a step twice, each time in a loop of its own. */
static bool is_online(const planner *pl, uint32_t f) {
    const hn_gpu_layout *l = pl->layout;
    return l->online && (l->vector > 1 || l->unroll > 1) && hn_gpu_is_online(pl, f);
}

static hn_status emit_phases(planner *pl) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        if (is_online(pl, f)) HN_TRY(emit_online(pl, &pl->k->phases.items[f++]));
        else HN_TRY(hn_gpu_emit_phase(pl, &pl->k->phases.items[f]));
    }
    return NULL;
}

static hn_status emit_guarded(planner *pl) {
    const hn_gpu_layout *l = pl->layout;
    hn_gpu_layout single;
    open_multiple(pl);
    HN_TRY(emit_phases(pl));
    open_single(pl, &single);
    memset(pl->unseen, 0, pl->p->buffers.count * sizeof *pl->unseen);
    hn_status status = emit_phases(pl);
    pl->layout = l;
    hn_form_close(pl->f);
    return status;
}

hn_status hn_gpu_plan_rows(planner *pl, hn_arena *arena) {
    HN_TRY(begin_rows(pl, arena));
    return pl->layout->size ? emit_guarded(pl) : emit_phases(pl);
}
