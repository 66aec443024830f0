/* gpu_ahead.c: rows that are read ahead: the next row goes into registers while one is computed.
 *
 * So do single elements that a row has beside those that go along it, such as its mean: each would be
 * a read that all threads wait for, and one of a sector of rows comes from memory. */
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

void hn_gpu_prepare_ahead(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_mark_varying(pl, run->last);
    hn_gpu_list_arrays(pl, run);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        hn_gpu_array *a = &pl->arrays.items[k];
        if (!hn_gpu_is_missing(pl, a) || !hn_gpu_is_streamed(pl, a->index) ||
            hn_gpu_uses_indirect(pl, a->index, false))
            continue;
        a->next = hn_form_add_memory(pl->f, pl->f->memories.items[a->memory]);
        a->is_loaded = true;
    }
    list_singles(pl);
}

void hn_gpu_emit_row_reads(hn_gpu_planner *pl, const hn_gpu_run *run, bool is_next) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (a->next) hn_gpu_emit_read(pl, &v, a, is_next ? a->next : a->memory);
    }
    hn_gpu_end_vectors(pl, &v);
    for (uint32_t k = 0; k < pl->singles.count; k++) {
        const hn_gpu_array *a = &pl->singles.items[k];
        hn_expr index = a->index;
        hn_fmem from = hn_gpu_place(pl, a->buffer, false, &index);
        hn_gpu_keep(pl, is_next ? a->next : a->memory, hn_gpu_num(pl, 0),
                    hn_gpu_load(pl, from, index));
    }
}

void hn_gpu_emit_next_row(hn_gpu_planner *pl, const hn_gpu_run *run) {
    hn_gpu_vec v = hn_gpu_begin_vectors(pl, run, false);
    hn_expr at = hn_gpu_first_in(pl, &v);
    if (pl->layout->vector > 1) at = hn_sym_add(pl->sym, at, hn_gpu_open_rows(pl));
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (a->next) hn_gpu_keep(pl, a->memory, at, hn_gpu_load(pl, a->next, at));
    }
    if (pl->layout->vector > 1) hn_form_close(pl->f);
    hn_gpu_end_vectors(pl, &v);
    const hn_expr zero = hn_gpu_num(pl, 0);
    for (uint32_t k = 0; k < pl->singles.count; k++)
        hn_gpu_keep(pl, pl->singles.items[k].memory, zero,
                    hn_gpu_load(pl, pl->singles.items[k].next, zero));
}
