/* loop_interp.c: see the header. */
#include "ir/loop_interp.h"

#include "ir/interp_impl.h"
#include "ir/sop.h"

#include <inttypes.h>
#include <string.h>

/* A loop being run. `at` holds the size symbols, then the variables, then the checked indices in
 * the order of their ops. */
typedef struct runner {
    const hn_program *p;
    const hn_loop *loop;
    const hn_loop_how *how;
    hn_ref_buffer *buffers;
    hn_ref_bindings at;
    uint32_t first_var; /* in `at` */
    int64_t extents[HN_MAX_RANK], point[HN_MAX_RANK];
    hn_ref_elem *values; /* per op, of the iteration at hand */
    bool *is_needed;     /* per op: what is stored, or where, depends on it */
} runner;

hn_status hn_ref_buffer_init(hn_arena *arena, hn_dtype dtype, int64_t elems, hn_ref_buffer *out) {
    *out = (hn_ref_buffer){.dtype = dtype, .elems = elems};
    if (elems < 0) return HN_ERROR(HN_INTERNAL, "a buffer of %" PRId64 " elements", elems);
    HN_NEW(arena, out->items, elems);
    HN_NEW(arena, out->is_set, elems);
    return NULL;
}

/* --- memory --- */

static int64_t elem_bytes(hn_dtype dtype) { return hn_dtype_facts(dtype)->size_bytes; }

/* The element that an index means, or one behind it. */
static hn_status find(runner *r, hn_buf buffer, hn_expr index, int64_t behind, int64_t *out) {
    HN_TRY(hn_ref_eval(&r->at, index, out));
    *out += behind;
    if (*out >= 0 && *out < r->buffers[buffer].elems) return NULL;
    return HN_ERROR(HN_INTERNAL, "element %" PRId64 " of buffer b%u, which has %" PRId64, *out,
                    buffer, r->buffers[buffer].elems);
}

static hn_status load(runner *r, const hn_sop *op, hn_ref_elem *out) {
    const hn_ref_buffer *from = &r->buffers[op->buffer];
    int64_t at;
    HN_TRY(find(r, op->buffer, op->index, 0, &at));
    if (from->dtype != op->dtype)
        return HN_ERROR(HN_INTERNAL, "buffer b%u is read as another dtype", op->buffer);
    if (from->bytes) {
        *out = hn_ref_elem_read(from->dtype, from->bytes + at * elem_bytes(from->dtype));
        return NULL;
    }
    if (!from->is_set[at])
        return HN_ERROR(HN_INTERNAL,
                        "element %" PRId64 " of buffer b%u is read before it is written", at,
                        op->buffer);
    *out = from->items[at];
    return NULL;
}

/* `behind`: elements behind the store's own index. */
static hn_status store_at(runner *r, const hn_loop_store *to, int64_t behind, hn_dtype dtype,
                          hn_ref_elem value) {
    hn_ref_buffer *buffer = &r->buffers[to->buffer];
    int64_t at;
    HN_TRY(find(r, to->buffer, to->index, behind, &at));
    if (buffer->dtype != dtype)
        return HN_ERROR(HN_INTERNAL, "buffer b%u is of %s and gets %s", to->buffer,
                        hn_dtype_facts(buffer->dtype)->name, hn_dtype_facts(dtype)->name);
    uint8_t *bytes = buffer->bytes ? buffer->bytes + at * elem_bytes(dtype) : NULL;
    if (to->mode != HN_STORE_SET && !bytes && !buffer->is_set[at])
        return HN_ERROR(HN_INTERNAL,
                        "element %" PRId64 " of buffer b%u is combined before it is written", at,
                        to->buffer);
    if (to->mode != HN_STORE_SET)
        HN_TRY(hn_ref_combine(to->mode, dtype,
                              bytes ? hn_ref_elem_read(dtype, bytes) : buffer->items[at], &value));
    if (bytes) {
        hn_ref_elem_write(dtype, value, bytes);
        return NULL;
    }
    buffer->items[at] = value;
    buffer->is_set[at] = true;
    return NULL;
}

static hn_status store(runner *r, const hn_loop_store *to, hn_dtype dtype, hn_ref_elem value) {
    return store_at(r, to, 0, dtype, value);
}

/* --- one iteration --- */

/* `symbol` is where the op's checked index is in r->at. */
static hn_status check_index(runner *r, const hn_sop *op, uint32_t symbol, hn_ref_elem *out) {
    int64_t limit, given = r->values[op->args[0]].i;
    HN_TRY(hn_ref_eval(&r->at, hn_sym_symbol_extent(r->p->sym, op->index), &limit));
    if (!hn_ref_checked_index(given, limit, op->imm.i & 1, &out->i))
        return HN_ERROR(HN_INVALID_ARGUMENT, "index %" PRId64 " is outside of %" PRId64 " elements",
                        given, limit);
    r->at.values.items[symbol] = out->i;
    return NULL;
}

static hn_status run_op(runner *r, const hn_sop *op, uint32_t *symbol, hn_ref_elem *out) {
    const hn_sop *ops = r->loop->body.items;
    hn_ref_elem args[3];
    int64_t index = 0;
    if (op->kind == HN_SOP_LOAD) return load(r, op, out);
    if (op->kind == HN_SOP_INDIRECT) return check_index(r, op, (*symbol)++, out);
    for (uint32_t a = 0; a < 3; a++) args[a] = r->values[op->args[a]];
    if (hn_sop_has_index(op)) HN_TRY(hn_ref_eval(&r->at, op->index, &index));
    return hn_ref_scalar(op, ops[op->args[0]].dtype, args, index, out);
}

static hn_status run_body(runner *r) {
    uint32_t symbol = r->first_var + r->loop->rank + r->loop->red_rank;
    for (hn_sid s = 1; s < r->loop->body.count; s++) {
        if (!r->is_needed[s]) {
            symbol += r->loop->body.items[s].kind == HN_SOP_INDIRECT;
            continue;
        }
        hn_status status = run_op(r, &r->loop->body.items[s], &symbol, &r->values[s]);
        if (status) return hn_status_annotate(status, "op %%%u", s);
    }
    return NULL;
}

/* --- all of them --- */

static void place(runner *r, const int64_t *point) {
    uint32_t count = r->loop->rank + r->loop->red_rank;
    for (uint32_t d = 0; d < count; d++) r->at.values.items[r->first_var + d] = point[d];
}

static int64_t volume(const int64_t *extents, uint32_t count) {
    int64_t n = 1;
    for (uint32_t d = 0; d < count; d++) n *= extents[d];
    return n;
}

static hn_status run_points(runner *r) {
    const hn_loop_store *to = &r->loop->store;
    uint32_t rank = r->loop->rank + r->loop->red_rank;
    for (int64_t left = volume(r->extents, rank); left > 0;
         left--, hn_ref_next(r->point, r->extents, rank)) {
        place(r, r->point);
        HN_TRY(run_body(r));
        HN_TRY(store(r, to, r->loop->body.items[to->value].dtype, r->values[to->value]));
    }
    return NULL;
}

/* In which the state of a reduction is rounded after each step. */
static hn_dtype state_dtype(const runner *r) {
    const hn_dtype dtype = r->loop->body.items[r->loop->store.value].dtype;
    return r->how->is_wide && hn_dtype_is_float(dtype) ? HN_DTYPE_F64 : dtype;
}

static hn_ref_elem rounded(hn_dtype dtype, hn_ref_elem value) {
    if (hn_dtype_is_float(dtype)) value.f = hn_ref_round_f(dtype, value.f);
    return value;
}

/* What a reduction or scan stores: its value, or the position of it. */
static hn_status store_reduction(runner *r, const hn_ref_reduction *state, hn_dtype dtype) {
    bool position = hn_op_has(r->loop->reduce_op, HN_TRAIT_POSITION);
    HN_TRY(store(r, &r->loop->store, position ? HN_DTYPE_I64 : dtype,
                 position ? (hn_ref_elem){.i = state->position} : rounded(dtype, state->value)));
    return r->loop->indices.buffer
               ? store(r, &r->loop->indices, HN_DTYPE_I64, (hn_ref_elem){.i = state->position})
               : NULL;
}

/* One point of the parallel variables: the reduction variables run from 0 on. */
static hn_status reduce_one(runner *r) {
    const hn_loop *loop = r->loop;
    const hn_dtype dtype = loop->body.items[loop->store.value].dtype, of_state = state_dtype(r);
    hn_ref_reduction state = hn_ref_reduction_begin(loop->reduce_op, of_state);
    int64_t *inner = &r->point[loop->rank], steps = volume(&r->extents[loop->rank], loop->red_rank);
    for (int64_t k = 0; k < steps;
         k++, hn_ref_next(inner, &r->extents[loop->rank], loop->red_rank)) {
        place(r, r->point);
        HN_TRY(run_body(r));
        HN_TRY(hn_ref_reduction_step(loop->reduce_op, of_state, r->values[loop->store.value], k,
                                     &state));
        if (loop->kind == HN_LOOP_SCAN) HN_TRY(store_reduction(r, &state, dtype));
    }
    if (loop->kind == HN_LOOP_SCAN) return NULL;
    if (steps == 0 && hn_ref_reduction_needs_elements(loop->reduce_op))
        return HN_ERROR(HN_INTERNAL, "'%s' of no elements", hn_op_facts(loop->reduce_op)->name);
    place(r, r->point);
    return store_reduction(r, &state, dtype);
}

static hn_status run_reductions(runner *r) {
    for (int64_t left = volume(r->extents, r->loop->rank); left > 0;
         left--, hn_ref_next(r->point, r->extents, r->loop->rank))
        HN_TRY(reduce_one(r));
    return NULL;
}

/* Rows [first, first + count) of columns, which are the last variables: states[c] of column c. */
static hn_status reduce_rows(runner *r, int64_t first, int64_t count, int64_t columns,
                             hn_ref_reduction *states) {
    const uint32_t rank = r->loop->rank;
    for (int64_t k = first * columns; k < (first + count) * columns; k++) {
        int64_t left = k;
        for (uint32_t d = rank; d-- > 0; left /= r->extents[d]) r->point[d] = left % r->extents[d];
        place(r, r->point);
        HN_TRY(run_body(r));
        HN_TRY(hn_ref_reduction_step(r->loop->reduce_op, state_dtype(r),
                                     r->values[r->loop->store.value], k / columns,
                                     &states[k % columns]));
    }
    return NULL;
}

/* The variables of rows are 0: the index of what is stored has none of them. */
static hn_status store_columns(runner *r, int64_t columns, int64_t behind,
                               const hn_ref_reduction *states) {
    const hn_dtype dtype = r->loop->body.items[r->loop->store.value].dtype;
    const uint32_t rows = r->how->row_rank, rank = r->loop->rank;
    memset(r->point, 0, sizeof r->point);
    for (int64_t c = 0; c < columns;
         c++, hn_ref_next(&r->point[rows], &r->extents[rows], rank - rows)) {
        place(r, r->point);
        HN_TRY(store_at(r, &r->loop->store, behind, dtype, rounded(dtype, states[c].value)));
    }
    return NULL;
}

static hn_status run_slabs(runner *r) {
    const uint32_t row_rank = r->how->row_rank;
    const int64_t rows = volume(r->extents, row_rank), slabs = r->how->slabs,
                  columns = volume(&r->extents[row_rank], r->loop->rank - row_rank),
                  of_slab = (rows + slabs - 1) / slabs;
    hn_ref_reduction *states;
    int64_t slab_elems;
    HN_TRY(hn_ref_eval(&r->at, r->how->slab_elems, &slab_elems));
    HN_NEW(r->at.arena, states, columns);
    for (int64_t s = 0; s < slabs; s++) {
        const int64_t first = s * of_slab < rows ? s * of_slab : rows, left = rows - first;
        for (int64_t c = 0; c < columns; c++)
            states[c] = hn_ref_reduction_begin(r->loop->reduce_op, state_dtype(r));
        HN_TRY(reduce_rows(r, first, left < of_slab ? left : of_slab, columns, states));
        HN_TRY(store_columns(r, columns, s * slab_elems, states));
    }
    return NULL;
}

static hn_status add_symbol(runner *r, hn_expr symbol, int64_t value) {
    HN_PUSH(r->at.arena, &r->at.symbols, symbol);
    HN_PUSH(r->at.arena, &r->at.values, value);
    return NULL;
}

/* Whether something behind op `s` that is needed is at a place which the index of `s` tells. */
static bool is_place(const runner *r, hn_sid s) {
    const hn_body *body = &r->loop->body;
    const hn_expr symbol = body->items[s].index;
    for (hn_sid k = s + 1; k < body->count; k++)
        if (r->is_needed[k] && hn_sop_has_index(&body->items[k]) &&
            hn_sym_uses(r->p->sym, body->items[k].index, symbol))
            return true;
    return hn_sym_uses(r->p->sym, r->loop->store.index, symbol);
}

/* What fusion and folding leave of other loops may load or check what nobody wants: a kernel does
 * not. */
static hn_status find_needed(runner *r) {
    const hn_body *body = &r->loop->body;
    HN_NEW(r->at.arena, r->is_needed, body->count);
    r->is_needed[r->loop->store.value] = true;
    for (hn_sid s = body->count; s-- > 1;) {
        const hn_sop *op = &body->items[s];
        if (op->kind == HN_SOP_INDIRECT) r->is_needed[s] |= is_place(r, s);
        for (uint32_t a = 0; a < 3 && r->is_needed[s]; a++) r->is_needed[op->args[a]] = true;
    }
    return NULL;
}

static hn_status begin(runner *r) {
    const hn_loop *loop = r->loop;
    const hn_ref_sizes *sizes = &r->how->sizes;
    r->at.sym = r->p->sym;
    for (uint32_t k = 0; k < sizes->count; k++)
        HN_TRY(add_symbol(r, sizes->symbols[k], sizes->values[k]));
    r->first_var = r->at.symbols.count;
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++) {
        HN_TRY(hn_ref_eval(&r->at, hn_sym_symbol_extent(r->p->sym, loop->vars[d]), &r->extents[d]));
        HN_TRY(add_symbol(r, loop->vars[d], 0));
    }
    for (hn_sid s = 1; s < loop->body.count; s++)
        if (loop->body.items[s].kind == HN_SOP_INDIRECT)
            HN_TRY(add_symbol(r, loop->body.items[s].index, 0));
    HN_NEW(r->at.arena, r->values, loop->body.count);
    return find_needed(r);
}

hn_status hn_loop_run_how(const hn_program *p, const hn_loop *loop, const hn_loop_how *how,
                          hn_ref_buffer *buffers) {
    hn_arena arena;
    hn_arena_init(&arena);
    runner r = {.p = p, .loop = loop, .how = how, .buffers = buffers, .at.arena = &arena};
    hn_status status = begin(&r);
    bool reduces = loop->kind == HN_LOOP_REDUCE || loop->kind == HN_LOOP_SCAN;
    if (!status)
        status = how->slabs ? run_slabs(&r) : reduces ? run_reductions(&r) : run_points(&r);
    hn_arena_deinit(&arena);
    return status;
}

hn_status hn_loop_run(const hn_program *p, const hn_loop *loop, const hn_ref_sizes *sizes,
                      hn_ref_buffer *buffers) {
    return hn_loop_run_how(p, loop, &(hn_loop_how){.sizes = *sizes}, buffers);
}
