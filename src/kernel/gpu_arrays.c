/* gpu_arrays.c: what a phase takes by way of registers, and what a thread keeps over the phases. */
#include "base/compiler.h"
#include "kernel/gpu_vectors.h"

/* Whether every access of a buffer that the kernel writes is of the thread's own elements, so that
 * registers may stand for it; others may be read by other threads. */
static bool is_own(const hn_gpu_planner *pl, hn_buf b, hn_expr index) {
    bool is_written = false, same = true;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        for (hn_sid s = 1; s < phase->body.count; s++)
            if (phase->body.items[s].kind == HN_SOP_LOAD && phase->body.items[s].buffer == b)
                same &= (phase->rank || pl->sums) && phase->body.items[s].index == index;
        for (uint32_t k = 0; k < phase->stores.count; k++) {
            if (phase->stores.items[k].buffer != b) continue;
            is_written = true;
            same &= (phase->rank || pl->sums) && phase->stores.items[k].index == index;
        }
    }
    return same || !is_written;
}

bool hn_gpu_fits_registers(const hn_gpu_planner *pl, hn_buf b) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        for (uint32_t k = 0; k < phase->stores.count; k++)
            if (phase->stores.items[k].buffer == b)
                return is_own(pl, b, phase->stores.items[k].index);
    }
    return false;
}

hn_gpu_array *hn_gpu_find_array(hn_gpu_planner *pl, hn_buf b, hn_expr index) {
    for (uint32_t k = 0; k < pl->arrays.count; k++)
        if (pl->arrays.items[k].buffer == b && pl->arrays.items[k].index == index)
            return &pl->arrays.items[k];
    return NULL;
}

static hn_status push_array(hn_gpu_planner *pl, hn_gpu_array array) {
    HN_PUSH(pl->scratch, &pl->arrays, array);
    return NULL;
}

static void add_array(hn_gpu_planner *pl, hn_buf b, hn_expr index) {
    if (hn_gpu_find_array(pl, b, index)) return;
    hn_form_memory memory = {.space = HN_SPACE_PRIVATE,
                             .dtype = pl->p->buffers.items[b].dtype,
                             .elems =
                                 hn_gpu_num(pl, (int64_t)pl->layout->vector * pl->layout->unroll)};
    hn_status status = push_array(
        pl,
        (hn_gpu_array){.buffer = b, .index = index, .memory = hn_form_add_memory(pl->f, memory)});
    if (pl->failed) hn_status_free(status);
    else pl->failed = status;
}

/* Whether a load or store of the phase goes by way of registers. */
static bool has_array(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last) {
    const hn_gpu_layout *l = pl->layout;
    uint32_t local = hn_gpu_local(pl, b);
    if (local < pl->k->locals.count) return l->keeps && !pl->locals[local];
    if (l->vector == 1 && l->unroll == 1 && !l->keeps) return false;
    if (!hn_sym_uses(pl->sym, index, last) || hn_gpu_uses_indirect(pl, index, true)) return false;
    if (l->peels && !hn_gpu_is_peeled(pl, b, index, last, l->vector)) return false;
    if (l->vector > 1 && !l->peels && !hn_gpu_is_vector(pl, b, index, last, l->vector))
        return false;
    return is_own(pl, b, index);
}

/* A load along the other variable of a square goes through shared memory, too. */
static bool add_square(hn_gpu_planner *pl, const hn_gpu_run *run, const hn_sop *op) {
    const hn_gpu_tile *tile = run->tile;
    if (!tile ||
        !hn_gpu_is_transposed(pl, op->buffer, op->index, tile->along, tile->last,
                              pl->layout->vector) ||
        hn_gpu_uses_indirect(pl, op->index, false) || !is_own(pl, op->buffer, op->index))
        return false;
    add_array(pl, op->buffer, op->index);
    hn_gpu_array *a = hn_gpu_find_array(pl, op->buffer, op->index);
    hn_form_memory memory = {.space = HN_SPACE_SHARED,
                             .dtype = op->dtype,
                             .elems = hn_gpu_num(pl, tile->size * tile->pitch)};
    if (a && !a->square) a->square = hn_form_add_memory(pl->f, memory);
    return true;
}

void hn_gpu_list_arrays(hn_gpu_planner *pl, const hn_gpu_run *run) {
    const hn_kernel_phase *phase = pl->phase;
    hn_expr last = run->last;
    if (!pl->layout->keeps && !pl->holds_step) pl->arrays.count = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (pl->live[s] && op->kind == HN_SOP_LOAD && add_square(pl, run, op)) continue;
        if (pl->live[s] && op->kind == HN_SOP_LOAD && has_array(pl, op->buffer, op->index, last))
            add_array(pl, op->buffer, op->index);
    }
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        bool pays =
            pl->layout->vector > 1 || pl->layout->keeps || hn_gpu_is_local(pl, store->buffer);
        if (pays && has_array(pl, store->buffer, store->index, last))
            add_array(pl, store->buffer, store->index);
    }
}

bool hn_gpu_is_missing(const hn_gpu_planner *pl, const hn_gpu_array *a) {
    return !a->is_loaded && !hn_gpu_is_local(pl, a->buffer) && hn_gpu_is_read(pl, a);
}

bool hn_gpu_is_read(const hn_gpu_planner *pl, const hn_gpu_array *a) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++) {
        const hn_sop *op = &pl->phase->body.items[s];
        if (pl->live[s] && op->kind == HN_SOP_LOAD && op->buffer == a->buffer &&
            op->index == a->index)
            return true;
    }
    return false;
}

bool hn_gpu_is_streamed(const hn_gpu_planner *pl, hn_expr index) {
    if (!pl->k->rank || pl->is_across) return true;
    for (uint32_t d = 0; d < pl->k->rank; d++)
        if (hn_sym_uses(pl->sym, index, pl->k->vars[d])) return true;
    return false;
}

bool hn_gpu_is_written(const hn_gpu_planner *pl, hn_buf b) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        for (uint32_t k = 0; k < pl->k->phases.items[f].stores.count; k++)
            if (pl->k->phases.items[f].stores.items[k].buffer == b) return true;
    return false;
}

/* ... and read-only, so that one read is for all rows. */
bool hn_gpu_is_same_for_rows(const hn_gpu_planner *pl, const hn_gpu_array *a) {
    return !hn_gpu_is_streamed(pl, a->index) && !hn_gpu_uses_indirect(pl, a->index, false) &&
           !hn_gpu_is_written(pl, a->buffer);
}

bool hn_gpu_any_missing(const hn_gpu_planner *pl) {
    for (uint32_t k = 0; k < pl->arrays.count; k++)
        if (!pl->arrays.items[k].square && hn_gpu_is_missing(pl, &pl->arrays.items[k]) &&
            hn_gpu_is_streamed(pl, pl->arrays.items[k].index))
            return true;
    return false;
}

bool hn_gpu_reads_unseen(const hn_gpu_planner *pl) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++) {
        const hn_sop *op = &pl->phase->body.items[s];
        if (!pl->live[s] || op->kind != HN_SOP_LOAD || !pl->unseen[op->buffer]) continue;
        if (!pl->layout->keeps || !is_own(pl, op->buffer, op->index)) return true;
    }
    return false;
}

/* ---- what a thread keeps ---- */

bool hn_gpu_may_keep(const hn_gpu_planner *pl) {
    if (pl->facts->few_registers) return false;
    const hn_kernel_phase *first = NULL;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        if (phase->scan) return false;
        if (!phase->rank) continue;
        if (!first) first = phase;
        if (phase->rank != first->rank) return false;
        for (uint32_t d = 0; d < phase->rank; d++)
            if (phase->vars[d] != first->vars[d]) return false;
    }
    return first && !pl->is_across;
}

/* Whether op `s` of phase `f` is the first that reads its buffer along the row. */
static bool is_first_read(const hn_gpu_planner *pl, uint32_t f, hn_sid s) {
    const hn_buf b = pl->k->phases.items[f].body.items[s].buffer;
    for (uint32_t e = 0; e <= f; e++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[e];
        for (hn_sid k = 1; k < (e < f ? phase->body.count : s); k++)
            if (phase->rank && phase->body.items[k].kind == HN_SOP_LOAD &&
                phase->body.items[k].buffer == b &&
                hn_sym_uses(pl->sym, phase->body.items[k].index, phase->vars[phase->rank - 1]))
                return false;
    }
    return true;
}

/* Each buffer that goes along the row once, whatever its index. */
int64_t hn_gpu_kept_registers(const hn_gpu_planner *pl, int64_t elems) {
    int64_t registers = 0;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        for (hn_sid s = 1; s < phase->body.count && phase->rank; s++) {
            const hn_sop *op = &phase->body.items[s];
            if (op->kind == HN_SOP_LOAD &&
                hn_sym_uses(pl->sym, op->index, phase->vars[phase->rank - 1]) &&
                hn_gpu_is_streamed(pl, op->index) && is_first_read(pl, f, s))
                registers += (elems * hn_gpu_size_of(pl, op->buffer) + 3) / 4;
        }
    }
    return registers;
}

double hn_gpu_bytes_once(const hn_gpu_planner *pl) {
    double bytes = 0,
           rows = (double)hn_sym_hint(pl->sym, hn_gpu_extents(pl, pl->k->vars, pl->k->rank), 1024);
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        double elems =
            (double)hn_sym_hint(pl->sym, hn_gpu_extents(pl, phase->vars, phase->rank), 1024);
        for (hn_sid s = 1; s < phase->body.count; s++) {
            const hn_sop *op = &phase->body.items[s];
            bool counts = op->kind == HN_SOP_LOAD && !hn_gpu_is_local(pl, op->buffer) &&
                          (!phase->rank || is_first_read(pl, f, s));
            if (counts) bytes += elems * (double)hn_gpu_size_of(pl, op->buffer);
        }
        for (uint32_t k = 0; k < phase->stores.count; k++)
            if (!hn_gpu_is_local(pl, phase->stores.items[k].buffer))
                bytes += elems * (double)hn_gpu_size_of(pl, phase->stores.items[k].buffer);
    }
    return bytes * rows;
}
