/* gpu_ahead.c: rows that are read ahead, while one is computed.
 *
 * The next row goes into registers of its own; or, where these do not suffice, the next rows are on
 * their way to staged memory, and each phase reads from there. When a row's last phase has read a
 * vector, one of a later row takes its place.
 *
 *     for rows of the slab { await; the phases of a row: { move m2[V*u] = m7[turn, u, thread] ...
 *                            in the last one: move m7[turn, u, thread] = the same of a later row } }
 *
 * Single elements that a row has beside those that go along it, such as its mean, are read ahead as
 * well: each would be a read that all threads wait for, and one of a sector of rows comes from memory. */
#include "kernel/gpu_vectors.h"

hn_gpu_array *hn_gpu_find_single(hn_gpu_planner *pl, hn_buf b, hn_expr index) {
    for (uint32_t k = 0; k < pl->singles.count; k++)
        if (pl->singles.items[k].buffer == b && pl->singles.items[k].index == index)
            return &pl->singles.items[k];
    return NULL;
}

static hn_status push_single(hn_gpu_planner *pl, const hn_sop *load) {
    const hn_form_memory memory = {
        .space = HN_SPACE_PRIVATE, .dtype = load->dtype, .elems = hn_gpu_num(pl, 1)};
    const hn_gpu_array single = {.buffer = load->buffer,
                                 .index = load->index,
                                 .memory = hn_form_add_memory(pl->f, memory),
                                 .next = hn_form_add_memory(pl->f, memory)};
    HN_PUSH(pl->scratch, &pl->singles, single);
    return NULL;
}

static bool uses_phase(const hn_gpu_planner *pl, hn_expr index) {
    for (uint32_t d = 0; d < pl->phase->rank; d++)
        if (hn_sym_uses(pl->sym, index, pl->phase->vars[d])) return true;
    return false;
}

/* What the phase reads once for a row, of buffers that the kernel only reads. */
static void list_singles(hn_gpu_planner *pl) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++) {
        const hn_sop *op = &pl->phase->body.items[s];
        if (!pl->live[s] || op->kind != HN_SOP_LOAD || uses_phase(pl, op->index) ||
            !hn_gpu_is_streamed(pl, op->index) || hn_gpu_uses_indirect(pl, op->index, false) ||
            hn_gpu_is_written(pl, op->buffer) || hn_gpu_find_single(pl, op->buffer, op->index))
            continue;
        hn_status status = push_single(pl, op);
        if (pl->failed) hn_status_free(status);
        else pl->failed = status;
    }
}

/* ---- staged memory: each thread reads what it has moved there itself ---- */

static hn_fmem add_stage(hn_gpu_planner *pl, const hn_gpu_array *a) {
    const hn_gpu_layout *l = pl->layout;
    const hn_form_memory memory = {
        .space = HN_SPACE_STAGED,
        .dtype = pl->p->buffers.items[a->buffer].dtype,
        .elems = hn_gpu_num(pl, (int64_t)l->stages * l->unroll * l->vector * l->width * l->rows)};
    return hn_form_add_memory(pl->f, memory);
}

/* Threads that are neighbours have neighbouring pieces. */
static hn_expr place_in_stage(const hn_gpu_planner *pl, const hn_gpu_vec *v, hn_expr turn) {
    const hn_gpu_layout *l = pl->layout;
    hn_expr at = hn_sym_add(pl->sym, hn_sym_mul(pl->sym, turn, hn_gpu_num(pl, l->unroll)), v->u);
    at = hn_sym_mul(pl->sym, at, hn_gpu_num(pl, (int64_t)l->width * l->rows));
    return hn_sym_mul(pl->sym, hn_sym_add(pl->sym, at, pl->f->thread), hn_gpu_num(pl, l->vector));
}

/* The vector at hand, of the row of that number. */
static void emit_staging(hn_gpu_planner *pl, const hn_gpu_vec *v, hn_expr number, hn_expr turn) {
    hn_expr vars[HN_MAX_RANK];
    for (uint32_t d = 0; d < pl->k->rank; d++)
        vars[d] = hn_form_symbol(pl->f, hn_gpu_extent(pl, pl->k->vars[d]));
    hn_gpu_emit_coordinates(pl, number, vars, pl->k->rank);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (!a->stage) continue;
        hn_expr from = hn_gpu_first_index(pl, v, a->index);
        hn_form_move(pl->f, a->stage, place_in_stage(pl, v, turn),
                     hn_form_argument(pl->f, a->buffer, 0, false),
                     hn_sym_subst(pl->sym, from, pl->k->vars, vars, pl->k->rank),
                     pl->layout->vector);
    }
}

void hn_gpu_emit_first_stages(hn_gpu_planner *pl, const hn_gpu_run *run, hn_expr number) {
    const uint32_t stages = pl->layout->stages;
    for (uint32_t s = 0; s < stages; s++) {
        hn_expr row = hn_sym_add(pl->sym, number, hn_gpu_num(pl, (int64_t)s * pl->layout->rows));
        hn_form_if(pl->f, row, pl->rows_end);
        hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
        emit_staging(pl, &v, row, hn_gpu_num(pl, s));
        hn_gpu_end_vectors(pl, &v);
        hn_form_close(pl->f);
        if (s + 1 < stages) hn_form_await(pl->f, stages - 1);
    }
}

void hn_gpu_emit_staged_reads(hn_gpu_planner *pl, const hn_gpu_vec *v) {
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (a->stage && hn_gpu_is_read(pl, a))
            hn_form_move(pl->f, a->memory, hn_gpu_first_in(pl, v), a->stage,
                         place_in_stage(pl, v, pl->turn), pl->layout->vector);
    }
}

void hn_gpu_emit_refill(hn_gpu_planner *pl, const hn_gpu_vec *v) {
    const hn_gpu_layout *l = pl->layout;
    if (!l->stages || pl->phase != pl->last_read) return;
    hn_expr next = hn_sym_add(pl->sym, pl->number, hn_gpu_num(pl, (int64_t)l->stages * l->rows));
    hn_form_if(pl->f, next, pl->rows_end);
    emit_staging(pl, v, next, pl->turn);
    hn_form_close(pl->f);
}

/* ---- */

void hn_gpu_prepare_ahead(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_mark_varying(pl, run->last);
    hn_gpu_list_arrays(pl, run);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        hn_gpu_array *a = &pl->arrays.items[k];
        if (!hn_gpu_is_missing(pl, a) || !hn_gpu_is_streamed(pl, a->index) ||
            hn_gpu_uses_indirect(pl, a->index, false))
            continue;
        if (pl->layout->stages) a->stage = add_stage(pl, a);
        else a->next = hn_form_add_memory(pl->f, pl->f->memories.items[a->memory]);
        a->is_loaded = true;
    }
    for (uint32_t k = 0; k < pl->arrays.count; k++)
        if (pl->arrays.items[k].stage && hn_gpu_is_read(pl, &pl->arrays.items[k]))
            pl->last_read = pl->phase;
    list_singles(pl);
}

static void read_vectors(hn_gpu_planner *pl, const hn_gpu_run *run, bool is_next) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (a->next) hn_gpu_emit_read(pl, &v, a, is_next ? a->next : a->memory);
    }
    hn_gpu_end_vectors(pl, &v);
}

void hn_gpu_emit_row_reads(hn_gpu_planner *pl, const hn_gpu_run *run, bool is_next) {
    if (!pl->layout->stages) read_vectors(pl, run, is_next);
    for (uint32_t k = 0; k < pl->singles.count; k++) {
        const hn_gpu_array *a = &pl->singles.items[k];
        hn_expr index = a->index;
        hn_fmem from = hn_gpu_place(pl, a->buffer, false, &index);
        hn_gpu_keep(pl, is_next ? a->next : a->memory, hn_gpu_num(pl, 0),
                    hn_gpu_load(pl, from, index));
    }
}

static void take_vectors(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    hn_expr at = hn_gpu_first_in(pl, &v);
    if (pl->layout->vector > 1) at = hn_sym_add(pl->sym, at, hn_gpu_open_rows(pl));
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (a->next) hn_gpu_keep(pl, a->memory, at, hn_gpu_load(pl, a->next, at));
    }
    if (pl->layout->vector > 1) hn_form_close(pl->f);
    hn_gpu_end_vectors(pl, &v);
}

void hn_gpu_emit_next_row(hn_gpu_planner *pl, const hn_gpu_run *run) {
    if (!pl->layout->stages) take_vectors(pl, run);
    const hn_expr zero = hn_gpu_num(pl, 0);
    for (uint32_t k = 0; k < pl->singles.count; k++)
        hn_gpu_keep(pl, pl->singles.items[k].memory, zero,
                    hn_gpu_load(pl, pl->singles.items[k].next, zero));
}
