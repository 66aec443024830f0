/* gpu_peel.c: rows that begin anywhere, in vectors.
 *
 * A row whose length is odd begins at a multiple of nothing. Where all buffers that go along it
 * begin at the same place of a vector, the first elements are taken one by one, up to the first
 * that is aligned; then vectors follow, and the rest is single again.
 *
 *     let head < V = (V - 1) * begin of the row mod V
 *     vectors of the elements head + V * k
 *     for e in [place, head + rest) { element e, or of the rest V * vectors + e: ... } */
#include "kernel/gpu_vectors.h"

/* Index of the row's first element in a buffer that goes along the row and over the rows; or 0. */
static hn_expr begin_of_row(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last) {
    hn_expr coeff, rest;
    if (!hn_gpu_is_contiguous(pl, index, last) || !hn_gpu_is_streamed(pl, index)) return 0;
    if (hn_program_begin_of(pl->p, b) % HN_FORM_MOVE_MOST) return 0;
    return hn_sym_affine(pl->sym, index, last, &coeff, &rest) ? rest : 0;
}

/* What all begins of rows are compared with. */
static hn_expr any_begin(const hn_gpu_planner *pl) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        for (hn_sid s = 1; s < phase->body.count && phase->rank == 1; s++) {
            const hn_sop *op = &phase->body.items[s];
            hn_expr begin = op->kind == HN_SOP_LOAD
                                ? begin_of_row(pl, op->buffer, op->index, phase->vars[0])
                                : 0;
            if (begin) return begin;
        }
    }
    return 0;
}

bool hn_gpu_is_peeled(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                      int64_t vector) {
    hn_expr all = any_begin(pl), begin = begin_of_row(pl, b, index, last);
    if (!all || !begin) return false;
    hn_expr apart = hn_sym_sub(pl->sym, begin, all);
    return hn_sym_is_value(pl->sym, apart, 0) || hn_sym_divisor(pl->sym, apart) % vector == 0;
}

static void limit(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                  uint32_t *vector) {
    if (!hn_gpu_is_contiguous(pl, index, last) || !hn_gpu_is_streamed(pl, index)) return;
    while (*vector > 1 && (*vector * hn_gpu_size_of(pl, b) > pl->facts->vector_bytes ||
                           !hn_gpu_is_peeled(pl, b, index, last, *vector)))
        *vector /= 2;
}

/* Shorter rows are hardly worth it; longer ones have a vector wherever they begin. */
enum { ELEMS_LEAST = 256 };

static bool may_peel(const hn_gpu_planner *pl, const hn_kernel_phase *phase) {
    int64_t elems;
    if (!phase->rank) return true;
    return phase->rank == 1 && !phase->scan &&
           hn_sym_is_int(pl->sym, hn_gpu_extent(pl, phase->vars[0]), &elems) &&
           elems >= ELEMS_LEAST;
}

static bool fit_registers(const hn_gpu_planner *pl) {
    for (uint32_t k = 0; k < pl->k->locals.count; k++)
        if (!hn_gpu_fits_registers(pl, pl->k->locals.items[k].buffer)) return false;
    return true;
}

uint32_t hn_gpu_peeled_vector(const hn_gpu_planner *pl) {
    uint32_t vector = HN_FORM_MOVE_MOST;
    if (pl->is_across || !fit_registers(pl) || !any_begin(pl)) return 1;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        if (!may_peel(pl, phase)) return 1;
        for (hn_sid s = 1; s < phase->body.count && phase->rank; s++)
            if (phase->body.items[s].kind == HN_SOP_LOAD)
                limit(pl, phase->body.items[s].buffer, phase->body.items[s].index, phase->vars[0],
                      &vector);
        for (uint32_t k = 0; k < phase->stores.count && phase->rank; k++)
            limit(pl, phase->stores.items[k].buffer, phase->stores.items[k].index, phase->vars[0],
                  &vector);
    }
    return vector;
}

/* Of the row at hand: elements before the first vector. */
static void name_head(hn_gpu_planner *pl) {
    hn_expr vector = hn_gpu_num(pl, pl->layout->vector),
            less = hn_gpu_num(pl, (int64_t)pl->layout->vector - 1);
    pl->head = hn_form_symbol(pl->f, vector);
    hn_form_let(pl->f, pl->head,
                hn_sym_mod(pl->sym, hn_sym_mul(pl->sym, less, any_begin(pl)), vector));
}

hn_gpu_run hn_gpu_begin_peeled(hn_gpu_planner *pl) {
    hn_gpu_run run = hn_gpu_run_of(pl, pl->phase->vars, pl->phase->rank);
    name_head(pl);
    run.limit = hn_sym_floordiv(pl->sym, hn_sym_sub(pl->sym, hn_gpu_extent(pl, run.last), pl->head),
                                hn_gpu_num(pl, pl->layout->vector));
    return run;
}

/* Element `e` of those that are in no vector: the row's first ones, then its last ones. */
static void name_edge(hn_gpu_planner *pl, const hn_gpu_run *run, hn_expr e) {
    hn_expr zero = hn_gpu_num(pl, 0), one = hn_gpu_num(pl, 1),
            elems = hn_sym_mul(pl->sym, hn_gpu_num(pl, pl->layout->vector), run->limit);
    /* 1 behind the vectors, or 0 */
    hn_expr behind = hn_sym_max(
        pl->sym, zero,
        hn_sym_min(pl->sym, one, hn_sym_add(pl->sym, hn_sym_sub(pl->sym, e, pl->head), one)));
    hn_form_let(pl->f, run->last, hn_sym_add(pl->sym, e, hn_sym_mul(pl->sym, behind, elems)));
}

static hn_expr count_edges(const hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_expr elems = hn_sym_mul(pl->sym, hn_gpu_num(pl, pl->layout->vector), run->limit);
    return hn_sym_sub(pl->sym, hn_gpu_extent(pl, run->last), elems);
}

bool hn_gpu_has_one_edge(const hn_gpu_layout *l) { return l->width >= 2 * l->vector; }

/* Opens the block of a thread's first one, which is there. */
static void open_first(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_form_if(pl->f, pl->place, count_edges(pl, run));
    name_edge(pl, run, pl->place);
}

void hn_gpu_emit_peeled(hn_gpu_planner *pl, const hn_gpu_run *run,
                        void (*emit)(hn_gpu_planner *pl, const hn_gpu_run *run)) {
    if (hn_gpu_has_one_edge(pl->layout)) open_first(pl, run);
    else {
        hn_expr e = hn_form_symbol(pl->f, hn_gpu_num(pl, 2 * (int64_t)pl->layout->vector));
        hn_form_for(pl->f, e, pl->place, count_edges(pl, run), pl->layout->width);
        name_edge(pl, run, e);
    }
    pl->is_edge = true;
    emit(pl, run);
    pl->is_edge = false;
    hn_form_close(pl->f);
}

static bool is_read_first(const hn_gpu_planner *pl, const hn_gpu_array *a) {
    return !a->edge && hn_gpu_is_missing(pl, a) && hn_gpu_is_streamed(pl, a->index) &&
           !hn_gpu_uses_indirect(pl, a->index, false) && !hn_gpu_is_written(pl, a->buffer);
}

static void add_edge(hn_gpu_planner *pl, hn_gpu_array *a) {
    hn_form_memory memory = {.space = HN_SPACE_PRIVATE,
                             .dtype = pl->p->buffers.items[a->buffer].dtype,
                             .elems = hn_gpu_num(pl, 1)};
    a->edge = hn_form_add_memory(pl->f, memory);
}

static void read_edges(hn_gpu_planner *pl, const hn_gpu_run *run) {
    open_first(pl, run);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        hn_gpu_array *a = &pl->arrays.items[k];
        if (!is_read_first(pl, a)) continue;
        add_edge(pl, a);
        hn_form_move(pl->f, a->edge, hn_gpu_num(pl, 0),
                     hn_form_argument(pl->f, a->buffer, 0, false), a->index, 1);
    }
    hn_form_close(pl->f);
}

void hn_gpu_keep_edges(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_mark_varying(pl, run->last);
    hn_gpu_list_arrays(pl, run);
    if (!hn_gpu_has_one_edge(pl->layout)) return;
    bool any = false;
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        hn_gpu_array *a = &pl->arrays.items[k];
        any |= is_read_first(pl, a);
        if (!a->edge && hn_gpu_is_local(pl, a->buffer)) add_edge(pl, a);
    }
    if (any) read_edges(pl, run);
}
