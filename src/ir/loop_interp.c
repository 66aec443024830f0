/* loop_interp.c: see the header. */
#include "ir/loop_interp.h"

#include "ir/interp_impl.h"
#include "ir/sop.h"

#include <inttypes.h>

/* A loop being run. `at` holds the size symbols, then the variables, then the checked indices in
 * the order of their ops. */
typedef struct runner {
    const hn_program *p;
    const hn_loop *loop;
    hn_ref_buffer *buffers;
    hn_ref_bindings at;
    uint32_t first_var; /* in `at` */
    int64_t extents[HN_MAX_RANK], point[HN_MAX_RANK];
    hn_ref_elem *values; /* per op, of the iteration at hand */
} runner;

hn_status hn_ref_buffer_init(hn_arena *arena, hn_dtype dtype, int64_t elems, hn_ref_buffer *out) {
    *out = (hn_ref_buffer){.dtype = dtype, .elems = elems};
    if (elems < 0) return HN_ERROR(HN_INTERNAL, "a buffer of %" PRId64 " elements", elems);
    HN_NEW(arena, out->items, elems);
    HN_NEW(arena, out->is_set, elems);
    return NULL;
}

/* --- memory --- */

/* The element that an index means. */
static hn_status find(runner *r, hn_buf buffer, hn_expr index, int64_t *out) {
    HN_TRY(hn_ref_eval(&r->at, index, out));
    if (*out >= 0 && *out < r->buffers[buffer].elems) return NULL;
    return HN_ERROR(HN_INTERNAL, "element %" PRId64 " of buffer b%u, which has %" PRId64, *out,
                    buffer, r->buffers[buffer].elems);
}

static hn_status load(runner *r, const hn_sop *op, hn_ref_elem *out) {
    const hn_ref_buffer *from = &r->buffers[op->buffer];
    int64_t at;
    HN_TRY(find(r, op->buffer, op->index, &at));
    if (from->dtype != op->dtype)
        return HN_ERROR(HN_INTERNAL, "buffer b%u is read as another dtype", op->buffer);
    if (!from->is_set[at])
        return HN_ERROR(HN_INTERNAL,
                        "element %" PRId64 " of buffer b%u is read before it is written", at,
                        op->buffer);
    *out = from->items[at];
    return NULL;
}

static hn_status store(runner *r, const hn_loop_store *to, hn_dtype dtype, hn_ref_elem value) {
    hn_ref_buffer *buffer = &r->buffers[to->buffer];
    int64_t at;
    HN_TRY(find(r, to->buffer, to->index, &at));
    if (buffer->dtype != dtype)
        return HN_ERROR(HN_INTERNAL, "buffer b%u is of %s and gets %s", to->buffer,
                        hn_dtype_facts(buffer->dtype)->name, hn_dtype_facts(dtype)->name);
    if (to->mode != HN_STORE_SET && !buffer->is_set[at])
        return HN_ERROR(HN_INTERNAL,
                        "element %" PRId64 " of buffer b%u is combined before it is written", at,
                        to->buffer);
    if (to->mode != HN_STORE_SET)
        HN_TRY(hn_ref_combine(to->mode, dtype, buffer->items[at], &value));
    buffer->items[at] = value;
    buffer->is_set[at] = true;
    return NULL;
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

/* What a reduction or scan stores: its value, or the position of it. */
static hn_status store_reduction(runner *r, const hn_ref_reduction *state, hn_dtype dtype) {
    bool position = hn_op_has(r->loop->reduce_op, HN_TRAIT_POSITION);
    HN_TRY(store(r, &r->loop->store, position ? HN_DTYPE_I64 : dtype,
                 position ? (hn_ref_elem){.i = state->position} : state->value));
    return r->loop->indices.buffer
               ? store(r, &r->loop->indices, HN_DTYPE_I64, (hn_ref_elem){.i = state->position})
               : NULL;
}

/* One point of the parallel variables: the reduction variables run from 0 on. */
static hn_status reduce_one(runner *r) {
    const hn_loop *loop = r->loop;
    hn_dtype dtype = loop->body.items[loop->store.value].dtype;
    hn_ref_reduction state = hn_ref_reduction_begin(loop->reduce_op, dtype);
    int64_t *inner = &r->point[loop->rank], steps = volume(&r->extents[loop->rank], loop->red_rank);
    for (int64_t k = 0; k < steps;
         k++, hn_ref_next(inner, &r->extents[loop->rank], loop->red_rank)) {
        place(r, r->point);
        HN_TRY(run_body(r));
        HN_TRY(
            hn_ref_reduction_step(loop->reduce_op, dtype, r->values[loop->store.value], k, &state));
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

static hn_status add_symbol(runner *r, hn_expr symbol, int64_t value) {
    HN_PUSH(r->at.arena, &r->at.symbols, symbol);
    HN_PUSH(r->at.arena, &r->at.values, value);
    return NULL;
}

static hn_status begin(runner *r, const hn_ref_sizes *sizes) {
    const hn_loop *loop = r->loop;
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
    return NULL;
}

hn_status hn_loop_run(const hn_program *p, const hn_loop *loop, const hn_ref_sizes *sizes,
                      hn_ref_buffer *buffers) {
    hn_arena arena;
    hn_arena_init(&arena);
    runner r = {.p = p, .loop = loop, .buffers = buffers, .at.arena = &arena};
    hn_status status = begin(&r, sizes);
    bool reduces = loop->kind == HN_LOOP_REDUCE || loop->kind == HN_LOOP_SCAN;
    if (!status) status = reduces ? run_reductions(&r) : run_points(&r);
    hn_arena_deinit(&arena);
    return status;
}
