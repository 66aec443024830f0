/* gpu_access.c: how accesses go along a variable, and the vectors that this allows. */
#include "kernel/gpu_vectors.h"

hn_expr hn_gpu_assume(const hn_gpu_planner *pl, hn_expr e) {
    return pl->size ? hn_sym_subst(pl->sym, e, &pl->size, &pl->multiple, 1) : e;
}

bool hn_gpu_is_contiguous(const hn_gpu_planner *pl, hn_expr index, hn_expr last) {
    hn_expr coeff, rest;
    return hn_sym_affine(pl->sym, index, last, &coeff, &rest) && hn_sym_is_value(pl->sym, coeff, 1);
}

/* Whether an index of a buffer goes up by one, and is aligned where the variable is a multiple of
 * `vector`. */
bool hn_gpu_is_vector(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                      int64_t vector) {
    hn_expr coeff, rest;
    return hn_gpu_is_contiguous(pl, index, last) &&
           hn_sym_affine(pl->sym, index, last, &coeff, &rest) &&
           hn_sym_divisor(pl->sym, hn_gpu_assume(pl, rest)) % vector == 0 &&
           hn_program_begin_of(pl->p, b) % vector == 0;
}

bool hn_gpu_is_local(const hn_gpu_planner *pl, hn_buf b) {
    return hn_gpu_local(pl, b) < pl->k->locals.count;
}

/* Shorter until the access fits into `bytes`. */
static void limit_vector(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                         int64_t bytes, uint32_t *vector, bool *any) {
    if (hn_gpu_is_local(pl, b) || !hn_gpu_is_contiguous(pl, index, last)) return;
    *any = true;
    while (*vector > 1 && (*vector * hn_gpu_size_of(pl, b) > bytes ||
                           !hn_gpu_is_vector(pl, b, index, last, *vector)))
        *vector /= 2;
}

/* Along any variable. What is written once for a whole row may take several accesses. Of other
 * stores the threads of a warp would each fill a part of a sector by several. */
static uint32_t vector_along(const hn_gpu_planner *pl, const hn_kernel_phase *phase, hn_expr last) {
    uint32_t vector = HN_FORM_MOVE_MOST;
    const int64_t bytes = pl->facts->vector_bytes * (phase->rank ? 1 : 4);
    bool any = false;
    hn_expr extent = hn_gpu_assume(pl, hn_gpu_extent(pl, last));
    while (vector > 1 && hn_sym_divisor(pl->sym, extent) % vector) vector /= 2;
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_LOAD)
            limit_vector(pl, phase->body.items[s].buffer, phase->body.items[s].index, last, bytes,
                         &vector, &any);
    for (uint32_t k = 0; k < phase->stores.count; k++)
        limit_vector(pl, phase->stores.items[k].buffer, phase->stores.items[k].index, last, bytes,
                     &vector, &any);
    return any ? vector : 1;
}

uint32_t hn_gpu_vector(const hn_gpu_planner *pl, const hn_kernel_phase *phase, const hn_expr *vars,
                       uint32_t count) {
    return count ? vector_along(pl, phase, vars[count - 1]) : 1;
}

/* What a vector of rows keeps goes through memory of its dtype: 16-bit floats would be rounded. */
static bool is_exact(const hn_kernel_phase *phase) {
    for (uint32_t k = 0; k < phase->reduces.count; k++) {
        hn_dtype d = phase->reduces.items[k].dtype;
        if (d == HN_DTYPE_F16 || d == HN_DTYPE_BF16) return false;
    }
    return !phase->scan;
}

uint32_t hn_gpu_row_vector(const hn_gpu_planner *pl) {
    uint32_t vector = HN_FORM_MOVE_MOST;
    if (!pl->is_across || !pl->k->rank || pl->k->locals.count) return 1;
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        uint32_t own = vector_along(pl, phase, pl->k->vars[pl->k->rank - 1]);
        if (!is_exact(phase)) return 1;
        if (phase->rank && own < vector) vector = own;
        if (!phase->rank && phase->stores.count && own < vector) vector = own;
    }
    return vector;
}

int64_t hn_gpu_bytes_read(const hn_gpu_planner *pl, const hn_kernel_phase *phase, hn_expr outer,
                          hn_expr last) {
    int64_t bytes = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (op->kind == HN_SOP_LOAD && !hn_gpu_is_local(pl, op->buffer) &&
            hn_sym_uses(pl->sym, op->index, last) &&
            (!outer || hn_sym_uses(pl->sym, op->index, outer)))
            bytes += hn_gpu_size_of(pl, op->buffer);
    }
    return bytes;
}

/* Ops that differ from element to element of a vector. */
void hn_gpu_mark_varying(hn_gpu_planner *pl, hn_expr last) {
    const hn_body *body = &pl->phase->body;
    for (hn_sid s = 1; s < body->count; s++) {
        const hn_sop *op = &body->items[s];
        bool varies =
            op->kind != HN_SOP_INDIRECT && op->index && hn_sym_uses(pl->sym, op->index, last);
        if (op->kind == HN_SOP_RESULT && (pl->sums || pl->phase->scan))
            varies = true; /* each row has its own, or each element */
        for (uint32_t a = 0; a < 3; a++) varies |= op->args[a] && pl->varies[op->args[a]];
        for (hn_sid e = 1; e < s && op->kind != HN_SOP_INDIRECT && op->index && !varies; e++)
            varies = body->items[e].kind == HN_SOP_INDIRECT && pl->varies[e] &&
                     hn_sym_uses(pl->sym, op->index, body->items[e].index);
        pl->varies[s] = varies;
    }
}

/* Whether an index uses a checked one that is computed along the vector, or any. */
bool hn_gpu_uses_indirect(const hn_gpu_planner *pl, hn_expr index, bool varying_only) {
    const hn_body *body = &pl->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && (pl->varies[s] || !varying_only) &&
            hn_sym_uses(pl->sym, index, body->items[s].index))
            return true;
    return false;
}

/* ---- squares ---- */

/* Whether an index is contiguous along another variable than the last one. */
bool hn_gpu_is_transposed(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr along,
                          hn_expr last, int64_t vector) {
    return along && hn_sym_uses(pl->sym, index, last) && !hn_gpu_is_contiguous(pl, index, last) &&
           hn_gpu_is_vector(pl, b, index, along, vector);
}

static bool is_read_across(const hn_gpu_planner *pl, const hn_sop *op, hn_expr along,
                           hn_expr last) {
    return op->kind == HN_SOP_LOAD &&
           hn_gpu_is_transposed(pl, op->buffer, op->index, along, last, 1);
}

hn_expr hn_gpu_transposed(const hn_gpu_planner *pl, const hn_expr *vars, uint32_t count) {
    const hn_body *body = &pl->k->phases.items[0].body;
    for (hn_sid s = 1; s < body->count; s++)
        for (uint32_t d = 0; d + 1 < count; d++)
            if (is_read_across(pl, &body->items[s], vars[d], vars[count - 1])) return vars[d];
    return 0;
}

int64_t hn_gpu_transposed_bytes(const hn_gpu_planner *pl, hn_expr along, hn_expr last) {
    const hn_body *body = &pl->k->phases.items[0].body;
    int64_t bytes = 0;
    for (hn_sid s = 1; s < body->count; s++)
        if (is_read_across(pl, &body->items[s], along, last))
            bytes += hn_gpu_size_of(pl, body->items[s].buffer);
    return bytes;
}

uint32_t hn_gpu_tile_vector(const hn_gpu_planner *pl, hn_expr along, hn_expr last) {
    const hn_kernel_phase *phase = &pl->k->phases.items[0];
    uint32_t vector = vector_along(pl, phase, last);
    while (vector > 1 && hn_sym_divisor(pl->sym, hn_gpu_extent(pl, along)) % vector) vector /= 2;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (!is_read_across(pl, op, along, last)) continue;
        while (vector > 1 && (vector * hn_gpu_size_of(pl, op->buffer) > pl->facts->vector_bytes ||
                              !hn_gpu_is_vector(pl, op->buffer, op->index, along, vector)))
            vector /= 2;
    }
    return vector;
}
