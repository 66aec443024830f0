/* gpu_sums.c: reductions of a vector of rows: each row has numbers of its own, in registers. */
#include "kernel/gpu_vectors.h"

/* The register holds what is kept of row `j`, and back. */
static void open_sum(hn_gpu_planner *pl, const hn_kernel_reduce *r, hn_expr j) {
    hn_fid value = hn_gpu_load(pl, pl->sums[r->slot], j),
           place = pl->places[r->slot] ? hn_gpu_load(pl, pl->places[r->slot], j) : 0;
    hn_form_set(pl->f, pl->registers[r->slot], value, place);
}

static void close_sum(hn_gpu_planner *pl, const hn_kernel_reduce *r, hn_expr j) {
    hn_freg reg = pl->registers[r->slot];
    hn_gpu_keep(pl, pl->sums[r->slot], j, hn_form_result(pl->f, reg, false));
    if (pl->places[r->slot])
        hn_gpu_keep(pl, pl->places[r->slot], j, hn_form_result(pl->f, reg, true));
}

/* Of ARGMIN and ARGMAX the position. */
hn_fid hn_gpu_emit_sum(hn_gpu_planner *pl, const hn_sop *op, hn_expr j) {
    hn_fmem places = pl->places[op->imm.i];
    hn_fid value = hn_gpu_load(pl, places ? places : pl->sums[op->imm.i], j);
    if (pl->f->stmts.items[value].op.dtype == op->dtype) return value;
    return hn_form_value(pl->f, (hn_sop){.kind = HN_SOP_CAST, .dtype = op->dtype, .args = {value}});
}

void hn_gpu_emit_sum_steps(hn_gpu_planner *pl, const hn_gpu_vec *v) {
    for (uint32_t k = 0; k < pl->phase->reduces.count; k++)
        open_sum(pl, &pl->phase->reduces.items[k], v->j);
    hn_gpu_emit_steps(pl);
    for (uint32_t k = 0; k < pl->phase->reduces.count; k++)
        close_sum(pl, &pl->phase->reduces.items[k], v->j);
}

hn_expr hn_gpu_open_rows(hn_gpu_planner *pl) {
    hn_expr j = hn_form_symbol(pl->f, hn_gpu_num(pl, pl->layout->vector));
    hn_form_unrolled(pl->f, j, pl->layout->vector);
    return j;
}

static hn_fmem add_sums(hn_gpu_planner *pl, hn_dtype dtype) {
    hn_form_memory memory = {
        .space = HN_SPACE_PRIVATE, .dtype = dtype, .elems = hn_gpu_num(pl, pl->layout->vector)};
    return hn_form_add_memory(pl->f, memory);
}

void hn_gpu_begin_sums(hn_gpu_planner *pl) {
    for (uint32_t k = 0; k < pl->phase->reduces.count; k++) {
        const hn_kernel_reduce *r = &pl->phase->reduces.items[k];
        pl->sums[r->slot] = add_sums(pl, r->dtype);
        if (hn_op_keeps_position(r->op)) pl->places[r->slot] = add_sums(pl, HN_DTYPE_I64);
        hn_expr j = hn_gpu_open_rows(pl);
        close_sum(pl, r, j);
        hn_form_close(pl->f);
    }
}

void hn_gpu_combine_sums(hn_gpu_planner *pl) {
    const hn_gpu_layout *l = pl->layout;
    for (uint32_t k = 0; k < pl->phase->reduces.count && l->width > 1; k++) {
        const hn_kernel_reduce *r = &pl->phase->reduces.items[k];
        hn_expr j = hn_gpu_open_rows(pl);
        open_sum(pl, r, j);
        hn_form_across_threads(pl->f, pl->registers[r->slot], l->width, hn_gpu_pitch(pl, l->rows));
        close_sum(pl, r, j);
        hn_form_close(pl->f);
    }
}
