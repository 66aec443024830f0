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
 * Rows whose length is a size of the call take vectors where it is a multiple of them, and single
 * elements elsewhere: both stand in the form.
 * Where registers keep a row, what one phase has moved or stored the next ones find there. */
#include "base/compiler.h"
#include "kernel/gpu_internal.h"

/* ---- how accesses go along a variable ---- */

/* How many elements behind the begin of its memory, which is aligned, a buffer begins: a parameter
 * may be a part of its storage. */
int64_t hn_gpu_begin_of(const hn_gpu_planner *pl, hn_buf b) {
    const hn_buffer *buffer = &pl->p->buffers.items[b];
    if (buffer->kind != HN_BUFFER_INPUT || buffer->input >= pl->p->graph->inputs.count) return 0;
    const hn_input *in = &pl->p->graph->inputs.items[buffer->input];
    return in->kind == HN_INPUT_USER ? 0 : in->storage_offset_elems;
}

hn_expr hn_gpu_assume(const hn_gpu_planner *pl, hn_expr e) {
    return pl->size ? hn_sym_subst(pl->sym, e, &pl->size, &pl->multiple, 1) : e;
}

bool hn_gpu_is_contiguous(const hn_gpu_planner *pl, hn_expr index, hn_expr last) {
    hn_expr coeff, rest;
    return hn_sym_affine(pl->sym, index, last, &coeff, &rest) && hn_sym_is_value(pl->sym, coeff, 1);
}

/* Whether an index of a buffer goes up by one, and is aligned where the variable is a multiple of
 * `vector`. */
static bool is_vector(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                      int64_t vector) {
    hn_expr coeff, rest;
    return hn_gpu_is_contiguous(pl, index, last) &&
           hn_sym_affine(pl->sym, index, last, &coeff, &rest) &&
           hn_sym_divisor(pl->sym, hn_gpu_assume(pl, rest)) % vector == 0 &&
           hn_gpu_begin_of(pl, b) % vector == 0;
}

static bool is_local(const hn_gpu_planner *pl, hn_buf b) {
    return hn_gpu_local(pl, b) < pl->k->locals.count;
}

/* Shorter until the access fits into `bytes`. */
static void limit_vector(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr last,
                         int64_t bytes, uint32_t *vector, bool *any) {
    if (is_local(pl, b) || !hn_gpu_is_contiguous(pl, index, last)) return;
    *any = true;
    while (*vector > 1 &&
           (*vector * hn_gpu_size_of(pl, b) > bytes || !is_vector(pl, b, index, last, *vector)))
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
        if (op->kind == HN_SOP_LOAD && !is_local(pl, op->buffer) &&
            hn_sym_uses(pl->sym, op->index, last) &&
            (!outer || hn_sym_uses(pl->sym, op->index, outer)))
            bytes += hn_gpu_size_of(pl, op->buffer);
    }
    return bytes;
}

/* Ops that differ from element to element of a vector. */
static void mark_varying(hn_gpu_planner *pl, hn_expr last) {
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
static bool uses_indirect(const hn_gpu_planner *pl, hn_expr index, bool varying_only) {
    const hn_body *body = &pl->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && (pl->varies[s] || !varying_only) &&
            hn_sym_uses(pl->sym, index, body->items[s].index))
            return true;
    return false;
}

/* ---- squares ---- */

/* Whether an index is contiguous along another variable than the last one. */
static bool is_transposed(const hn_gpu_planner *pl, hn_buf b, hn_expr index, hn_expr along,
                          hn_expr last, int64_t vector) {
    return along && hn_sym_uses(pl->sym, index, last) && !hn_gpu_is_contiguous(pl, index, last) &&
           is_vector(pl, b, index, along, vector);
}

static bool is_read_across(const hn_gpu_planner *pl, const hn_sop *op, hn_expr along,
                           hn_expr last) {
    return op->kind == HN_SOP_LOAD && is_transposed(pl, op->buffer, op->index, along, last, 1);
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
                              !is_vector(pl, op->buffer, op->index, along, vector)))
            vector /= 2;
    }
    return vector;
}

/* ---- arrays ---- */

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

static hn_gpu_array *find_array(hn_gpu_planner *pl, hn_buf b, hn_expr index) {
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
    if (find_array(pl, b, index)) return;
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
    if (!hn_sym_uses(pl->sym, index, last) || uses_indirect(pl, index, true)) return false;
    if (l->peels && !hn_gpu_is_peeled(pl, b, index, last, l->vector)) return false;
    if (l->vector > 1 && !l->peels && !is_vector(pl, b, index, last, l->vector)) return false;
    return is_own(pl, b, index);
}

/* A load along the other variable of a square goes through shared memory, too. */
static bool add_square(hn_gpu_planner *pl, const hn_gpu_run *run, const hn_sop *op) {
    const hn_gpu_tile *tile = run->tile;
    if (!tile ||
        !is_transposed(pl, op->buffer, op->index, tile->along, tile->last, pl->layout->vector) ||
        uses_indirect(pl, op->index, false) || !is_own(pl, op->buffer, op->index))
        return false;
    add_array(pl, op->buffer, op->index);
    hn_gpu_array *a = find_array(pl, op->buffer, op->index);
    hn_form_memory memory = {.space = HN_SPACE_SHARED,
                             .dtype = op->dtype,
                             .elems = hn_gpu_num(pl, tile->size * tile->pitch)};
    if (a && !a->square) a->square = hn_form_add_memory(pl->f, memory);
    return true;
}

static void list_arrays(hn_gpu_planner *pl, const hn_gpu_run *run) {
    const hn_kernel_phase *phase = pl->phase;
    hn_expr last = run->last;
    if (!pl->layout->keeps) pl->arrays.count = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (pl->live[s] && op->kind == HN_SOP_LOAD && add_square(pl, run, op)) continue;
        if (pl->live[s] && op->kind == HN_SOP_LOAD && has_array(pl, op->buffer, op->index, last))
            add_array(pl, op->buffer, op->index);
    }
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        bool pays = pl->layout->vector > 1 || pl->layout->keeps || is_local(pl, store->buffer);
        if (pays && has_array(pl, store->buffer, store->index, last))
            add_array(pl, store->buffer, store->index);
    }
}

static bool is_missing(const hn_gpu_planner *pl, const hn_gpu_array *a) {
    if (a->is_loaded || is_local(pl, a->buffer)) return false;
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

/* ... and read-only, so that one read is for all rows. */
static bool is_same_for_rows(const hn_gpu_planner *pl, const hn_gpu_array *a) {
    if (hn_gpu_is_streamed(pl, a->index) || uses_indirect(pl, a->index, false)) return false;
    for (uint32_t f = 0; f < pl->k->phases.count; f++)
        for (uint32_t k = 0; k < pl->k->phases.items[f].stores.count; k++)
            if (pl->k->phases.items[f].stores.items[k].buffer == a->buffer) return false;
    return true;
}

static bool any_missing(const hn_gpu_planner *pl) {
    for (uint32_t k = 0; k < pl->arrays.count; k++)
        if (!pl->arrays.items[k].square && is_missing(pl, &pl->arrays.items[k]) &&
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
            bool counts = op->kind == HN_SOP_LOAD && !is_local(pl, op->buffer) &&
                          (!phase->rank || is_first_read(pl, f, s));
            if (counts) bytes += elems * (double)hn_gpu_size_of(pl, op->buffer);
        }
        for (uint32_t k = 0; k < phase->stores.count; k++)
            if (!is_local(pl, phase->stores.items[k].buffer))
                bytes += elems * (double)hn_gpu_size_of(pl, phase->stores.items[k].buffer);
    }
    return bytes * rows;
}

/* ---- a step ---- */

/* What is known of the vector at hand. */
typedef struct vector {
    const hn_gpu_run *run;
    hn_expr u;            /* its number in the step */
    hn_expr begin;        /* the last variable, of its first element */
    hn_expr j;            /* the element's number in it */
    hn_expr square, step; /* in the lines of a square: of its first element; from one to the next */
    uint32_t open;        /* blocks */
} vector;

hn_gpu_run hn_gpu_run_of(const hn_gpu_planner *pl, const hn_expr *vars, uint32_t count) {
    return (hn_gpu_run){
        .vars = vars,
        .count = count,
        .last = vars[count - 1],
        .vectors = hn_sym_floordiv(pl->sym, hn_gpu_assume(pl, hn_gpu_extents(pl, vars, count)),
                                   hn_gpu_num(pl, pl->layout->vector))};
}

/* Where the vector lies: all variables but the last one, and that of its first element. */
static void emit_place(hn_gpu_planner *pl, vector *v, hn_expr at) {
    const hn_gpu_run *run = v->run;
    if (run->begin) {
        hn_gpu_emit_coordinates(pl, at, run->vars, run->count);
        v->begin = run->begin;
        return;
    }
    hn_expr all = hn_gpu_assume(pl, hn_gpu_extent(pl, run->last)),
            width = hn_gpu_num(pl, pl->layout->vector),
            parts = hn_sym_floordiv(pl->sym, all, width);
    if (hn_sym_is_value(pl->sym, parts, 0)) parts = hn_gpu_num(pl, 1);
    hn_expr part = at;
    if (run->count > 1) {
        part = hn_form_symbol(pl->f, parts);
        hn_form_let(pl->f, part, hn_sym_mod(pl->sym, at, parts));
        hn_gpu_emit_coordinates(pl, hn_sym_floordiv(pl->sym, at, parts), run->vars, run->count - 1);
    }
    v->begin = hn_sym_mul(pl->sym, part, width);
    if (run->limit) v->begin = hn_sym_add(pl->sym, v->begin, pl->head);
}

/* Unless it is there for certain. */
static void open_if(hn_gpu_planner *pl, vector *v, hn_expr at, hn_expr extent, int64_t size) {
    if (hn_sym_divisor(pl->sym, extent) % size == 0) return;
    hn_form_if(pl->f, at, extent);
    v->open++;
}

/* A vector of a square: along the last variable, or turned around along the other one. */
static void emit_square_place(hn_gpu_planner *pl, vector *v, bool turned) {
    const hn_gpu_tile *t = v->run->tile;
    const uint32_t count = pl->layout->vector;
    hn_expr width = hn_gpu_num(pl, count), side = hn_gpu_num(pl, t->size),
            parts = hn_gpu_num(pl, t->size / count), line = hn_form_symbol(pl->f, side),
            part = hn_form_symbol(pl->f, parts), pitch = hn_gpu_num(pl, t->pitch);
    hn_expr number = hn_sym_add(pl->sym, pl->f->thread,
                                hn_sym_mul(pl->sym, v->u, hn_gpu_num(pl, pl->layout->width)));
    hn_form_let(pl->f, line, hn_sym_floordiv(pl->sym, number, parts));
    hn_form_let(pl->f, part, hn_sym_mod(pl->sym, number, parts));
    hn_expr inner = hn_sym_mul(pl->sym, part, width), of_line = turned ? t->last : t->along,
            at = hn_sym_add(pl->sym, turned ? t->last_begin : t->along_begin, line);
    v->begin = hn_sym_add(pl->sym, turned ? t->along_begin : t->last_begin, inner);
    open_if(pl, v, at, hn_gpu_extent(pl, of_line), t->size);
    open_if(pl, v, v->begin, hn_gpu_extent(pl, turned ? t->along : t->last), t->size);
    hn_form_let(pl->f, of_line, at);
    v->square = hn_sym_add(pl->sym, turned ? inner : hn_sym_mul(pl->sym, inner, pitch),
                           turned ? hn_sym_mul(pl->sym, line, pitch) : line);
    v->step = turned ? hn_gpu_num(pl, 1) : pitch;
}

/* Opens the loop over the vectors of a step. */
static vector open_unrolled(hn_gpu_planner *pl, const hn_gpu_run *run) {
    const uint32_t unroll = pl->layout->unroll;
    vector v = {.run = run, .u = hn_gpu_num(pl, 0)};
    if (unroll > 1) {
        v.u = hn_form_symbol(pl->f, hn_gpu_num(pl, unroll));
        hn_form_unrolled(pl->f, v.u, unroll);
        v.open++;
    }
    return v;
}

/* Opens the block of the vector at hand. */
static void open_vector(hn_gpu_planner *pl, vector *v) {
    const hn_gpu_run *run = v->run;
    hn_expr number =
        hn_sym_add(pl->sym, run->first, hn_sym_mul(pl->sym, v->u, hn_gpu_num(pl, run->width)));
    if (!run->is_whole) {
        hn_form_if(pl->f, number, run->limit ? run->limit : run->vectors);
        v->open++;
    }
    hn_expr at = hn_form_symbol(pl->f, run->vectors);
    hn_form_let(pl->f, at, number);
    emit_place(pl, v, at);
}

/* Opens the block of vector after vector. */
static vector open_vectors(hn_gpu_planner *pl, const hn_gpu_run *run, bool turned) {
    vector v = open_unrolled(pl, run);
    if (run->tile) emit_square_place(pl, &v, turned);
    else open_vector(pl, &v);
    return v;
}

static void close_vectors(hn_gpu_planner *pl, const vector *v) {
    for (uint32_t k = 0; k < v->open; k++) hn_form_close(pl->f);
}

/* The first of the vector's elements in an array. */
static hn_expr first_in(const hn_gpu_planner *pl, const vector *v) {
    return hn_sym_mul(pl->sym, v->u, hn_gpu_num(pl, pl->layout->vector));
}

/* ---- reductions of a vector of rows ---- */

static hn_fid load_of(hn_gpu_planner *pl, hn_fmem m, hn_expr index) {
    pl->f->memories.items[m].is_read = true;
    return hn_form_value(pl->f, (hn_sop){.kind = HN_SOP_LOAD,
                                         .dtype = pl->f->memories.items[m].dtype,
                                         .buffer = m,
                                         .index = index});
}

static void keep(hn_gpu_planner *pl, hn_fmem m, hn_expr index, hn_fid value) {
    pl->f->memories.items[m].is_written = true;
    hn_form_store(pl->f, m, index, value, HN_STORE_SET);
}

/* The register holds what is kept of row `j`, and back. */
static void open_sum(hn_gpu_planner *pl, const hn_kernel_reduce *r, hn_expr j) {
    hn_fid value = load_of(pl, pl->sums[r->slot], j),
           place = pl->places[r->slot] ? load_of(pl, pl->places[r->slot], j) : 0;
    hn_form_set(pl->f, pl->registers[r->slot], value, place);
}

static void close_sum(hn_gpu_planner *pl, const hn_kernel_reduce *r, hn_expr j) {
    hn_freg reg = pl->registers[r->slot];
    keep(pl, pl->sums[r->slot], j, hn_form_result(pl->f, reg, false));
    if (pl->places[r->slot]) keep(pl, pl->places[r->slot], j, hn_form_result(pl->f, reg, true));
}

/* Of ARGMIN and ARGMAX the position. */
static hn_fid emit_sum(hn_gpu_planner *pl, const hn_sop *op, hn_expr j) {
    hn_fmem places = pl->places[op->imm.i];
    hn_fid value = load_of(pl, places ? places : pl->sums[op->imm.i], j);
    if (pl->f->stmts.items[value].op.dtype == op->dtype) return value;
    return hn_form_value(pl->f, (hn_sop){.kind = HN_SOP_CAST, .dtype = op->dtype, .args = {value}});
}

static void emit_sum_steps(hn_gpu_planner *pl, const vector *v) {
    for (uint32_t k = 0; k < pl->phase->reduces.count; k++)
        open_sum(pl, &pl->phase->reduces.items[k], v->j);
    hn_gpu_emit_steps(pl);
    for (uint32_t k = 0; k < pl->phase->reduces.count; k++)
        close_sum(pl, &pl->phase->reduces.items[k], v->j);
}

static hn_expr open_rows(hn_gpu_planner *pl) {
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
        hn_expr j = open_rows(pl);
        close_sum(pl, r, j);
        hn_form_close(pl->f);
    }
}

void hn_gpu_combine_sums(hn_gpu_planner *pl) {
    const hn_gpu_layout *l = pl->layout;
    for (uint32_t k = 0; k < pl->phase->reduces.count && l->width > 1; k++) {
        const hn_kernel_reduce *r = &pl->phase->reduces.items[k];
        hn_expr j = open_rows(pl);
        open_sum(pl, r, j);
        hn_form_across_threads(pl->f, pl->registers[r->slot], l->width, hn_gpu_pitch(pl, l->rows));
        close_sum(pl, r, j);
        hn_form_close(pl->f);
    }
}

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
static void emit_shared_ops(hn_gpu_planner *pl) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++) {
        if (!pl->live[s]) continue;
        if (!pl->varies[s]) hn_gpu_emit_sop(pl, s);
        else if (divides_once(pl, s))
            pl->values[s] =
                emit_elem(pl, HN_OP_RECIPROCAL, pl->values[pl->phase->body.items[s].args[1]], 0);
    }
}

/* Which arrays are read: those that come from memory, or from a cache. */
typedef enum reads { READS_MEMORY = 1, READS_CACHE = 2, READS_ALL = 3 } reads;

static void emit_read(hn_gpu_planner *pl, const vector *v, const hn_gpu_array *a) {
    hn_expr from = hn_sym_subst(pl->sym, hn_gpu_assume(pl, a->index), &v->run->last, &v->begin, 1);
    hn_form_move(pl->f, a->memory, first_in(pl, v), hn_form_argument(pl->f, a->buffer, 0, false),
                 from, pl->layout->vector);
}

static void emit_reads(hn_gpu_planner *pl, const vector *v, reads which) {
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (a->square || !is_missing(pl, a) ||
            !(which & (hn_gpu_is_streamed(pl, a->index) ? READS_MEMORY : READS_CACHE)))
            continue;
        emit_read(pl, v, a);
    }
}

static void emit_writes(hn_gpu_planner *pl, const vector *v) {
    hn_expr last = v->run->last;
    for (uint32_t k = 0; k < pl->phase->stores.count; k++) {
        const hn_kernel_store *store = &pl->phase->stores.items[k];
        hn_gpu_array *a = find_array(pl, store->buffer, store->index);
        if (!a || is_local(pl, store->buffer)) continue;
        hn_expr to = hn_sym_subst(pl->sym, hn_gpu_assume(pl, a->index), &last, &v->begin, 1);
        hn_form_move(pl->f, hn_form_argument(pl->f, a->buffer, 0, true), to, a->memory,
                     first_in(pl, v), pl->layout->vector);
    }
}

/* An op of an element. A load is of registers where the element is there. */
static void emit_op(hn_gpu_planner *pl, const vector *v, hn_sid s) {
    const hn_sop *op = &pl->phase->body.items[s];
    hn_gpu_array *a = op->kind == HN_SOP_LOAD ? find_array(pl, op->buffer, op->index) : NULL;
    if (op->kind == HN_SOP_RESULT && pl->sums) {
        pl->values[s] = emit_sum(pl, op, v->j);
        return;
    }
    if (!a) {
        if (divides_once(pl, s))
            pl->values[s] = emit_elem(pl, HN_OP_MUL, pl->values[op->args[0]], pl->values[s]);
        else hn_gpu_emit_sop(pl, s);
        return;
    }
    hn_expr step = a->square ? hn_sym_mul(pl->sym, v->j, v->step) : v->j;
    pl->values[s] = load_of(pl, a->square ? a->square : a->memory,
                            hn_sym_add(pl->sym, a->square ? v->square : first_in(pl, v), step));
}

static void emit_store(hn_gpu_planner *pl, const vector *v, const hn_kernel_store *store) {
    hn_gpu_array *a = find_array(pl, store->buffer, store->index);
    hn_expr index = a ? hn_sym_add(pl->sym, first_in(pl, v), v->j) : store->index;
    hn_fmem memory = a ? a->memory : hn_gpu_place(pl, store->buffer, true, &index);
    pl->f->memories.items[memory].is_written = true;
    hn_form_store(pl->f, memory, index, pl->values[store->value], store->mode);
}

/* What the rows before have come to, and this one. */
static void emit_column_steps(hn_gpu_planner *pl, const vector *v) {
    for (uint32_t k = 0; k < pl->phase->columns.count; k++) {
        const hn_kernel_column *c = &pl->phase->columns.items[k];
        const hn_fmem m = pl->columns[pl->first_column + k];
        hn_expr at = hn_sym_add(pl->sym, first_in(pl, v), v->j);
        hn_freg reg = hn_form_add_register(pl->f, c->op, c->dtype);
        hn_form_init(pl->f, reg);
        hn_form_set(pl->f, reg, load_of(pl, m, at), 0);
        hn_form_step(pl->f, reg, pl->values[c->value], 0);
        keep(pl, m, at, hn_form_result(pl->f, reg, false));
    }
}

static void open_elements(hn_gpu_planner *pl, vector *v) {
    const uint32_t width = pl->layout->vector;
    v->j = hn_gpu_num(pl, 0);
    if (width > 1) {
        v->j = hn_form_symbol(pl->f, hn_gpu_num(pl, width));
        hn_form_unrolled(pl->f, v->j, width);
    }
    hn_form_let(pl->f, v->run->last, hn_sym_add(pl->sym, v->begin, v->j));
}

static void close_elements(hn_gpu_planner *pl) {
    if (pl->layout->vector > 1) hn_form_close(pl->f);
}

/* Those that are results of a scan so far, or the others. */
static void emit_ops(hn_gpu_planner *pl, const vector *v, bool results) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++) {
        bool is_result = pl->phase->scan && pl->phase->body.items[s].kind == HN_SOP_RESULT;
        if (pl->live[s] && pl->varies[s] && is_result == results) emit_op(pl, v, s);
    }
}

static void emit_stores(hn_gpu_planner *pl, const vector *v) {
    for (uint32_t k = 0; k < pl->phase->stores.count; k++)
        emit_store(pl, v, &pl->phase->stores.items[k]);
}

static void emit_elements(hn_gpu_planner *pl, vector *v) {
    open_elements(pl, v);
    emit_ops(pl, v, false);
    if (pl->sums) emit_sum_steps(pl, v);
    else hn_gpu_emit_steps(pl);
    emit_column_steps(pl, v);
    emit_stores(pl, v);
    close_elements(pl);
}

/* Reads may need indices that are computed of what is read. */
static bool needs_ops(const hn_gpu_planner *pl) {
    for (uint32_t k = 0; k < pl->arrays.count; k++)
        if (is_missing(pl, &pl->arrays.items[k]) &&
            uses_indirect(pl, pl->arrays.items[k].index, false))
            return true;
    return false;
}

void hn_gpu_emit_vector_once(hn_gpu_planner *pl, const hn_gpu_run *run) {
    vector v = {.run = run, .u = hn_gpu_num(pl, 0), .begin = run->begin};
    mark_varying(pl, run->last);
    list_arrays(pl, run);
    emit_shared_ops(pl);
    emit_reads(pl, &v, READS_ALL);
    emit_elements(pl, &v);
    emit_writes(pl, &v);
}

/* ---- squares: in lines along the one variable, out along the other ---- */

static void emit_square_reads(hn_gpu_planner *pl, const hn_gpu_run *run) {
    vector v = open_vectors(pl, run, true);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (!a->square) continue;
        hn_expr from = hn_sym_subst(pl->sym, a->index, &run->tile->along, &v.begin, 1);
        hn_form_move(pl->f, a->memory, first_in(pl, &v),
                     hn_form_argument(pl->f, a->buffer, 0, false), from, pl->layout->vector);
    }
    close_vectors(pl, &v);
}

static void emit_square_writes(hn_gpu_planner *pl, const hn_gpu_run *run) {
    vector v = open_vectors(pl, run, true);
    v.j = open_rows(pl);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        const hn_gpu_array *a = &pl->arrays.items[k];
        if (!a->square) continue;
        hn_fid value = load_of(pl, a->memory, hn_sym_add(pl->sym, first_in(pl, &v), v.j));
        keep(pl, a->square, hn_sym_add(pl->sym, v.square, hn_sym_mul(pl->sym, v.j, v.step)), value);
    }
    hn_form_close(pl->f);
    close_vectors(pl, &v);
}

static void emit_memory_reads(hn_gpu_planner *pl, const hn_gpu_run *run) {
    vector v = open_vectors(pl, run, false);
    if (needs_ops(pl)) emit_shared_ops(pl);
    emit_reads(pl, &v, READS_MEMORY);
    close_vectors(pl, &v);
}

void hn_gpu_emit_shared_reads(hn_gpu_planner *pl, const hn_gpu_run *run) {
    mark_varying(pl, run->last);
    list_arrays(pl, run);
    bool any = false;
    for (uint32_t k = 0; k < pl->arrays.count && !any; k++)
        any = is_missing(pl, &pl->arrays.items[k]) && is_same_for_rows(pl, &pl->arrays.items[k]);
    if (!any) return;
    vector v = open_vectors(pl, run, false);
    for (uint32_t k = 0; k < pl->arrays.count; k++) {
        hn_gpu_array *a = &pl->arrays.items[k];
        if (!is_missing(pl, a) || !is_same_for_rows(pl, a)) continue;
        emit_read(pl, &v, a);
        a->is_loaded = true;
    }
    close_vectors(pl, &v);
}

uint32_t hn_gpu_open_vectors(hn_gpu_planner *pl, const hn_gpu_run *run, hn_expr *out_at,
                             hn_expr *out_begin) {
    vector v = open_vectors(pl, run, false);
    *out_at = first_in(pl, &v);
    *out_begin = v.begin;
    return v.open;
}

void hn_gpu_emit_step(hn_gpu_planner *pl, const hn_gpu_run *run) {
    mark_varying(pl, run->last);
    list_arrays(pl, run);
    bool apart = (pl->layout->unroll > 1 || run->tile) && any_missing(pl) &&
                 (pl->layout->keeps || !pl->k->slabs);
    if (run->tile) emit_square_reads(pl, run);
    if (apart) emit_memory_reads(pl, run);
    if (run->tile) {
        emit_square_writes(pl, run);
        hn_form_barrier(pl->f);
    }
    vector v = open_vectors(pl, run, false);
    emit_shared_ops(pl);
    emit_reads(pl, &v, apart ? READS_CACHE : READS_ALL);
    emit_elements(pl, &v);
    emit_writes(pl, &v);
    close_vectors(pl, &v);
    for (uint32_t k = 0; k < pl->arrays.count; k++) pl->arrays.items[k].is_loaded = true;
}

/* ---- scans ---- */

bool hn_gpu_scans_along(const hn_gpu_planner *pl) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        if (!phase->scan || !phase->rank) continue;
        for (hn_sid s = 1; s < phase->body.count; s++)
            if (phase->body.items[s].kind == HN_SOP_LOAD &&
                hn_gpu_is_contiguous(pl, phase->body.items[s].index, phase->vars[phase->rank - 1]))
                return true;
    }
    return false;
}

/* Where the row and the vector are there: what is done with the vector of loop `u`. */
static vector open_scanned(hn_gpu_planner *pl, const vector *u,
                           void (*open_row)(hn_gpu_planner *pl)) {
    vector v = {.run = u->run, .u = u->u, .open = 1};
    open_row(pl);
    open_vector(pl, &v);
    emit_shared_ops(pl);
    return v;
}

/* A vector: what the thread has of it, what the threads before have, and then the results. */
static void emit_scanned(hn_gpu_planner *pl, const vector *u, hn_freg all, reads which,
                         void (*open_row)(hn_gpu_planner *pl)) {
    const hn_freg reg = pl->registers[pl->phase->reduces.items[0].slot];
    hn_form_init(pl->f, reg);
    vector v = open_scanned(pl, u, open_row);
    emit_reads(pl, &v, which);
    open_elements(pl, &v);
    emit_ops(pl, &v, false);
    hn_gpu_emit_steps(pl);
    close_elements(pl);
    close_vectors(pl, &v);
    hn_form_before(pl->f, reg, all, pl->layout->width);
    v = open_scanned(pl, u, open_row);
    open_elements(pl, &v);
    emit_ops(pl, &v, false);
    hn_gpu_emit_steps(pl);
    emit_ops(pl, &v, true);
    emit_stores(pl, &v);
    close_elements(pl);
    emit_writes(pl, &v);
    close_vectors(pl, &v);
}

void hn_gpu_emit_scan_step(hn_gpu_planner *pl, const hn_gpu_run *run, hn_freg all,
                           void (*open_row)(hn_gpu_planner *pl)) {
    mark_varying(pl, run->last);
    list_arrays(pl, run);
    const bool apart = pl->layout->unroll > 1 && any_missing(pl);
    if (apart) {
        open_row(pl);
        emit_memory_reads(pl, run);
        hn_form_close(pl->f);
    }
    vector u = open_unrolled(pl, run);
    emit_scanned(pl, &u, all, apart ? READS_CACHE : READS_ALL, open_row);
    close_vectors(pl, &u);
}
