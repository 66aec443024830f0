/* gpu_vectors.c: the elements of a phase in vectors.
 *
 * A thread takes `vector` neighbours along the last variable at a time, `unroll` such vectors in a
 * step. What goes along that variable by one is moved in one access into registers (MOVE): first all
 * that the step reads, so that many reads are under way, then the body for each element, in loops
 * that are unrolled; what is stored is gathered in registers and moved out. What does not go along
 * the variable is computed once for a vector. All else is read and written element by element.
 *
 *     for u unrolled { if vector u is there { move m5[V*u] = m1[...] count V } }
 *     for u unrolled { if vector u is there {
 *         for j unrolled { %1 = m5[V*u + j]; ...; m6[j] = %9 }
 *         move m2[...] = m6[0] count V } }
 *
 * Of a square what goes along the other variable is read first, and goes through shared memory.
 * Rows and elements whose last extent has a size of the call take vectors where it is a multiple of them, and single
 * elements elsewhere: both stand in the form.
 * Where registers keep a row, what one phase has moved or stored the next ones find there. */
#include "kernel/gpu_vectors.h"

/* ---- elements ---- */

/* What a reduction combines; NULL: it is no reduction's result. */
static const hn_sop *reduced_by(const hn_gpu_planner *pl, const hn_sop *result, hn_op op) {
    for (uint32_t f = 0; f < pl->k->phases.count && result->kind == HN_SOP_RESULT; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        for (uint32_t k = 0; k < phase->reduces.count; k++)
            if (phase->reduces.items[k].slot == (uint32_t)result->imm.i &&
                phase->reduces.items[k].op == op)
                return &phase->body.items[phase->reduces.items[k].value];
    }
    return NULL;
}

static bool is_elem(const hn_sop *op, hn_op row) {
    return op->kind == HN_SOP_ELEM && op->op == row && op->dtype == HN_DTYPE_F32;
}

/* x / s is x * (1 / s) where s is one number for all elements and 1 / s cannot overflow: the rule of
 * cpu_simplify.c. A division takes ten times as long as a product. */
static bool divides_once(const hn_gpu_planner *pl, hn_sid s) {
    const hn_body *body = &pl->phase->body;
    const hn_sop *op = &body->items[s], *by = &body->items[op->args[1]];
    if (!is_elem(op, HN_OP_DIV) || pl->varies[op->args[1]]) return false;
    if (is_elem(by, HN_OP_SQRT)) return true;
    const hn_sop *summed = reduced_by(pl, by, HN_OP_SUM);
    return summed && is_elem(summed, HN_OP_EXP);
}

static hn_fid emit_elem(hn_gpu_planner *pl, hn_op op, hn_fid a, hn_fid b) {
    return hn_form_value(
        pl->f, (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = HN_DTYPE_F32, .args = {a, b}});
}

/* Ops that all elements of a vector share, and what they are divided by. */
void hn_gpu_emit_shared_ops(hn_gpu_planner *pl) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++) {
        if (!pl->live[s]) continue;
        if (!pl->varies[s]) hn_gpu_emit_sop(pl, s);
        else if (divides_once(pl, s))
            pl->values[s] =
                emit_elem(pl, HN_OP_RECIPROCAL, pl->values[pl->phase->body.items[s].args[1]], 0);
    }
}

void hn_gpu_emit_read(hn_gpu_planner *pl, const hn_gpu_vec *v, const hn_gpu_array *a, hn_fmem to) {
    hn_form_move(pl->f, to, hn_gpu_first_in(pl, v), hn_form_argument(pl->f, a->buffer, 0, false),
                 hn_gpu_first_index(pl, v, a->index), pl->layout->vector);
}

void hn_gpu_emit_reads(hn_gpu_planner *pl, const hn_gpu_vec *v, hn_gpu_reads which) {
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (a->square || !hn_gpu_is_missing(pl, a) ||
            !(which &
              (hn_gpu_is_streamed(pl, a->index) ? HN_GPU_READS_MEMORY : HN_GPU_READS_CACHE)))
            continue;
        hn_gpu_emit_read(pl, v, a, a->memory);
    }
}

void hn_gpu_emit_writes(hn_gpu_planner *pl, const hn_gpu_vec *v) {
    for (uint32_t k = 0; k < pl->phase->stores.count; k++) {
        const hn_kernel_store *store = &pl->phase->stores.items[k];
        hn_gpu_array *a = hn_gpu_find_array(pl, store->buffer, store->index);
        if (!a || hn_gpu_is_local(pl, store->buffer)) continue;
        hn_form_move(pl->f, hn_form_argument(pl->f, a->buffer, 0, true),
                     hn_gpu_first_index(pl, v, a->index), a->memory, hn_gpu_first_in(pl, v),
                     pl->layout->vector);
    }
}

/* An op of an element. A load is of registers where the element is there. */
static void emit_op(hn_gpu_planner *pl, const hn_gpu_vec *v, hn_sid s) {
    const hn_sop *op = &pl->phase->body.items[s];
    hn_gpu_array *a = op->kind == HN_SOP_LOAD ? hn_gpu_find_array(pl, op->buffer, op->index) : NULL;
    if (op->kind == HN_SOP_RESULT && pl->sums) {
        pl->values[s] = hn_gpu_emit_sum(pl, op, v->j);
        return;
    }
    if (!a) {
        if (divides_once(pl, s))
            pl->values[s] = emit_elem(pl, HN_OP_MUL, pl->values[op->args[0]], pl->values[s]);
        else hn_gpu_emit_sop(pl, s);
        return;
    }
    hn_expr step = a->square ? hn_sym_mul(pl->sym, v->j, v->step) : v->j;
    pl->values[s] =
        hn_gpu_load(pl, a->square ? a->square : a->memory,
                    hn_sym_add(pl->sym, a->square ? v->square : hn_gpu_first_in(pl, v), step));
}

static void emit_store(hn_gpu_planner *pl, const hn_gpu_vec *v, const hn_kernel_store *store) {
    hn_gpu_array *a = hn_gpu_find_array(pl, store->buffer, store->index);
    hn_expr index = a ? hn_sym_add(pl->sym, hn_gpu_first_in(pl, v), v->j) : store->index;
    hn_fmem memory = a ? a->memory : hn_gpu_place(pl, store->buffer, true, &index);
    pl->f->memories.items[memory].is_written = true;
    hn_form_store(pl->f, memory, index, pl->values[store->value], store->mode);
}

/* What the rows before have come to, and this one. */
static void emit_column_steps(hn_gpu_planner *pl, const hn_gpu_vec *v) {
    for (uint32_t k = 0; k < pl->phase->columns.count; k++) {
        const hn_kernel_column *c = &pl->phase->columns.items[k];
        const hn_fmem m = pl->columns[pl->first_column + k];
        hn_expr at = hn_sym_add(pl->sym, hn_gpu_first_in(pl, v), v->j);
        hn_freg reg = hn_form_add_register(pl->f, c->op, c->dtype);
        hn_form_init(pl->f, reg);
        hn_form_set(pl->f, reg, hn_gpu_load(pl, m, at), 0);
        hn_form_step(pl->f, reg, pl->values[c->value], 0);
        hn_gpu_keep(pl, m, at, hn_form_result(pl->f, reg, false));
    }
}

void hn_gpu_open_elements(hn_gpu_planner *pl, hn_gpu_vec *v) {
    const uint32_t width = pl->layout->vector;
    v->j = hn_gpu_num(pl, 0);
    if (width > 1) {
        v->j = hn_form_symbol(pl->f, hn_gpu_num(pl, width));
        hn_form_unrolled(pl->f, v->j, width);
    }
    hn_form_let(pl->f, v->run->last, hn_sym_add(pl->sym, v->begin, v->j));
}

void hn_gpu_close_elements(hn_gpu_planner *pl) {
    if (pl->layout->vector > 1) hn_form_close(pl->f);
}

/* Those that are results of a scan so far, or the others. */
void hn_gpu_emit_ops(hn_gpu_planner *pl, const hn_gpu_vec *v, bool results) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++) {
        bool is_result = pl->phase->scan && pl->phase->body.items[s].kind == HN_SOP_RESULT;
        if (pl->live[s] && pl->varies[s] && is_result == results) emit_op(pl, v, s);
    }
}

void hn_gpu_emit_stores(hn_gpu_planner *pl, const hn_gpu_vec *v) {
    for (uint32_t k = 0; k < pl->phase->stores.count; k++)
        emit_store(pl, v, &pl->phase->stores.items[k]);
}

static void emit_elements(hn_gpu_planner *pl, hn_gpu_vec *v) {
    hn_gpu_open_elements(pl, v);
    hn_gpu_emit_ops(pl, v, false);
    if (pl->sums) hn_gpu_emit_sum_steps(pl, v);
    else hn_gpu_emit_steps(pl);
    emit_column_steps(pl, v);
    hn_gpu_emit_stores(pl, v);
    hn_gpu_close_elements(pl);
}

/* Reads may need indices that are computed of what is read. */
static bool needs_ops(const hn_gpu_planner *pl) {
    for (uint32_t k = 0; k < pl->arrays.count; k++)
        if (hn_gpu_is_missing(pl, &pl->arrays.items[k]) &&
            hn_gpu_uses_indirect(pl, pl->arrays.items[k].index, false))
            return true;
    return false;
}

void hn_gpu_emit_vector_once(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_vec v = {.run = run, .u = hn_gpu_num(pl, 0), .begin = run->begin};
    hn_gpu_mark_varying(pl, run->last);
    hn_gpu_list_arrays(pl, run);
    hn_gpu_emit_shared_ops(pl);
    hn_gpu_emit_reads(pl, &v, HN_GPU_READS_ALL);
    emit_elements(pl, &v);
    hn_gpu_emit_writes(pl, &v);
}

/* ---- squares: in lines along the one variable, out along the other ---- */

static void emit_square_reads(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, true);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (!a->square) continue;
        hn_expr from = hn_sym_subst(pl->sym, a->index, &run->tile->along, &v.begin, 1);
        hn_form_move(pl->f, a->memory, hn_gpu_first_in(pl, &v),
                     hn_form_argument(pl->f, a->buffer, 0, false), from, pl->layout->vector);
    }
    hn_gpu_end_vectors(pl, &v);
}

static void emit_square_writes(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, true);
    v.j = hn_gpu_open_rows(pl);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (!a->square) continue;
        hn_fid value =
            hn_gpu_load(pl, a->memory, hn_sym_add(pl->sym, hn_gpu_first_in(pl, &v), v.j));
        hn_gpu_keep(pl, a->square, hn_sym_add(pl->sym, v.square, hn_sym_mul(pl->sym, v.j, v.step)),
                    value);
    }
    hn_form_close(pl->f);
    hn_gpu_end_vectors(pl, &v);
}

void hn_gpu_emit_memory_reads(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    if (needs_ops(pl)) hn_gpu_emit_shared_ops(pl);
    hn_gpu_emit_reads(pl, &v, HN_GPU_READS_MEMORY);
    hn_gpu_end_vectors(pl, &v);
}

void hn_gpu_emit_shared_reads(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_mark_varying(pl, run->last);
    hn_gpu_list_arrays(pl, run);
    bool any = false;
    for (uint32_t k = 0; k < pl->arrays.count && !any; k++)
        any = hn_gpu_is_missing(pl, &pl->arrays.items[k]) &&
              hn_gpu_is_same_for_rows(pl, &pl->arrays.items[k]);
    if (!any) return;
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        hn_gpu_array *a = &pl->arrays.items[k];
        if (!hn_gpu_is_missing(pl, a) || !hn_gpu_is_same_for_rows(pl, a)) continue;
        hn_gpu_emit_read(pl, &v, a, a->memory);
        a->is_loaded = true;
    }
    hn_gpu_end_vectors(pl, &v);
}

uint32_t hn_gpu_open_vectors(hn_gpu_planner *pl, const hn_gpu_run *run, hn_expr *out_at,
                             hn_expr *out_begin) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    *out_at = hn_gpu_first_in(pl, &v);
    *out_begin = v.begin;
    return v.open;
}

/* Whether the phase reads or writes it: arrays of later phases may be listed already. */
static bool is_touched(const hn_gpu_planner *pl, const hn_gpu_array *a) {
    bool touched = hn_gpu_is_read(pl, a);
    for (uint32_t k = 0; k < pl->phase->stores.count && !touched; k++)
        touched = pl->phase->stores.items[k].buffer == a->buffer &&
                  pl->phase->stores.items[k].index == a->index;
    return touched;
}

void hn_gpu_emit_step(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_mark_varying(pl, run->last);
    hn_gpu_list_arrays(pl, run);
    bool apart = (pl->layout->unroll > 1 || run->tile) && hn_gpu_any_missing(pl) &&
                 (pl->layout->keeps || !pl->k->slabs);
    if (run->tile) emit_square_reads(pl, run);
    if (apart) hn_gpu_emit_memory_reads(pl, run);
    if (run->tile) {
        emit_square_writes(pl, run);
        hn_form_barrier(pl->f);
    }
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    hn_gpu_emit_shared_ops(pl);
    hn_gpu_emit_reads(pl, &v, apart ? HN_GPU_READS_CACHE : HN_GPU_READS_ALL);
    hn_gpu_emit_staged_reads(pl, &v);
    emit_elements(pl, &v);
    hn_gpu_emit_writes(pl, &v);
    hn_gpu_emit_refill(pl, &v);
    hn_gpu_end_vectors(pl, &v);
    for (uint32_t k = 0; k < pl->arrays.count; k++)
        pl->arrays.items[k].is_loaded |= is_touched(pl, &pl->arrays.items[k]);
}
