/* interp.c: see the header. Expressions, values, what one thread does, and preparation. */
#include "kernel/interp_impl.h"

#include <inttypes.h>

/* --- expressions --- */

hn_status hn_run_no_value(const hn_run *r, hn_expr e) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (e) hn_sym_print(r->f->sym, e, &text);
    hn_status status =
        HN_ERROR(HN_INTERNAL, "'" HN_STR_FMT "' has no value", HN_STR_ARG(hn_strbuf_str(&text)));
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_run_eval(const hn_run *r, hn_expr e, uint32_t thread, int64_t *out) {
    if (hn_sym_is_int(r->f->sym, e, out)) return NULL;
    bool known = hn_sym_eval(r->f->sym, e, r->symbols.items, hn_run_numbers(r, thread),
                             r->symbols.count, out);
    return known ? NULL : hn_run_no_value(r, e);
}

bool hn_run_eval_size(const hn_run *r, hn_expr e, int64_t *out) {
    return hn_sym_eval(r->f->sym, e, r->sizes->symbols, r->sizes->values, r->sizes->count, out);
}

static void bind(hn_run *r, uint32_t symbol, uint32_t thread, int64_t value) {
    bool for_all = r->f->lanes && !r->in_vector;
    if (!for_all) hn_run_numbers(r, thread)[symbol] = value;
    for (uint32_t t = 0; for_all && t < r->width; t++) hn_run_numbers(r, t)[symbol] = value;
}

hn_status hn_run_define(hn_run *r, hn_fid s, uint32_t thread, hn_expr symbol, int64_t value) {
    int64_t extent = r->stmts[s].extent;
    if (extent < 0)
        HN_TRY(hn_run_eval(r, hn_sym_symbol_extent(r->f->sym, symbol), thread, &extent));
    if (value < 0 || value >= extent)
        return HN_ERROR(HN_INTERNAL, HN_STR_FMT " is %" PRId64 ", but its extent is %" PRId64,
                        HN_STR_ARG(hn_sym_symbol_name(r->f->sym, symbol)), value, extent);
    bind(r, r->stmts[s].symbol, thread, value);
    return NULL;
}

void hn_run_bind(hn_run *r, uint32_t which, int64_t value) {
    for (uint32_t t = 0; t < r->width; t++) hn_run_numbers(r, t)[r->group_symbols[which]] = value;
}

/* --- values --- */

static hn_ref_elem *value_at(const hn_run *r, hn_fid s, uint32_t thread) {
    return &r->stmts[s].values[r->stmts[s].is_uniform ? 0 : thread];
}

static hn_status run_load(hn_run *r, const hn_sop *op, uint32_t thread, hn_ref_elem *out) {
    hn_run_access a = {.does = "reads", .m = op->buffer, .thread = thread};
    HN_TRY(hn_run_eval(r, op->index, thread, &a.at));
    HN_TRY(hn_run_find(r, a.m, a.at, thread, &a.at));
    return hn_run_read(r, &a, out);
}

static hn_status run_result(hn_run *r, hn_fid s, uint32_t thread, hn_ref_elem *out) {
    const hn_sop *op = &hn_run_stmt_of(r, s)->op;
    const hn_ref_reduction *reg = &hn_run_registers(r, op->imm.i)[thread];
    if (r->f->lanes) HN_TRY(hn_run_check_result(r, s));
    *out = op->op == HN_OP_ARGMAX ? (hn_ref_elem){.i = reg->position} : reg->value;
    return NULL;
}

static hn_status run_indirect(hn_run *r, hn_fid s, uint32_t thread, int64_t given,
                              hn_ref_elem *out) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    const hn_sop *op = &stmt->op;
    int64_t limit;
    HN_TRY(hn_run_eval(r, hn_sym_symbol_extent(r->f->sym, op->index), thread, &limit));
    if (!hn_ref_checked_index(given, limit, op->imm.i & 1, &out->i)) {
        out->i = 0;
        if (!stmt->quiet) r->index_fault = true;
    }
    bind(r, r->stmts[s].symbol, thread, out->i);
    return NULL;
}

static hn_status run_scalar(hn_run *r, hn_fid s, const hn_ref_elem args[3], uint32_t thread,
                            hn_ref_elem *out) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    const hn_sop *op = &stmt->op;
    int64_t index = 0;
    if (hn_sop_has_index(op)) HN_TRY(hn_run_eval(r, op->index, thread, &index));
    if (op->kind == HN_SOP_INDEX && op->dtype == HN_DTYPE_I32 && index != (int32_t)index)
        return HN_ERROR(HN_INTERNAL, "an index of %" PRId64 " in an i32", index);
    if (stmt->not_positive && args[0].f > 0)
        return HN_ERROR(HN_INTERNAL, "the argument of an exp is %g, but is said not to be positive",
                        args[0].f);
    return hn_ref_scalar(op, hn_run_stmt_of(r, op->args[0])->op.dtype, args, index, out);
}

hn_status hn_run_value(hn_run *r, hn_fid s, uint32_t thread) {
    const hn_sop *op = &hn_run_stmt_of(r, s)->op;
    hn_ref_elem args[3] = {{0}}, *out = value_at(r, s, thread);
    if (op->kind == HN_SOP_LOAD) return run_load(r, op, thread, out);
    if (op->kind == HN_SOP_RESULT) return run_result(r, s, thread, out);
    for (uint32_t a = 0; a < 3; a++)
        if (op->args[a]) args[a] = *value_at(r, op->args[a], thread);
    if (op->kind == HN_SOP_INDIRECT) return run_indirect(r, s, thread, args[0].i, out);
    return run_scalar(r, s, args, thread, out);
}

/* --- statements of one thread --- */

hn_status hn_run_store(hn_run *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    hn_ref_elem value = *value_at(r, stmt->value, thread);
    bool combines = stmt->mode != HN_STORE_SET;
    hn_run_access a = {.does = "writes", .m = stmt->memory, .thread = thread};
    if (stmt->in_order || stmt->is_atomic || (combines && r->f->lanes)) a.in_order = s;
    a.is_atomic = stmt->is_atomic;
    HN_TRY(hn_run_eval(r, stmt->index, thread, &a.at));
    HN_TRY(hn_run_find(r, a.m, a.at, thread, &a.at));
    if (combines) {
        hn_ref_elem old;
        HN_TRY(hn_run_read(r, &a, &old));
        HN_TRY(hn_ref_combine(stmt->mode, r->memories[a.m].info->dtype, old, &value));
    }
    return hn_run_write(r, &a, value);
}

hn_status hn_run_init(hn_run *r, hn_fid s, uint32_t thread) {
    hn_freg reg = hn_run_stmt_of(r, s)->reg;
    const hn_form_register *info = &r->f->registers.items[reg];
    hn_run_registers(r, reg)[thread] = hn_ref_reduction_begin(info->op, info->dtype);
    r->value_lost[reg] = false;
    return NULL;
}

static int64_t position_of(const hn_run *r, const hn_form_stmt *stmt, uint32_t thread) {
    return stmt->position ? value_at(r, stmt->position, thread)->i : 0;
}

hn_status hn_run_step(hn_run *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    const hn_form_register *info = &r->f->registers.items[stmt->reg];
    if (r->value_lost[stmt->reg])
        return HN_ERROR(HN_INTERNAL, "r%u has lost its value: its lanes were combined", stmt->reg);
    return hn_ref_reduction_step(info->op, info->dtype, *value_at(r, stmt->value, thread),
                                 position_of(r, stmt, thread),
                                 &hn_run_registers(r, stmt->reg)[thread]);
}

hn_status hn_run_set(hn_run *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    hn_run_registers(r, stmt->reg)[thread] = (hn_ref_reduction){
        .value = *value_at(r, stmt->value, thread), .position = position_of(r, stmt, thread)};
    r->value_lost[stmt->reg] = false;
    return NULL;
}

/* Where a side of a MOVE begins. All its elements are there. */
static hn_status find_side(const hn_run *r, const hn_form_stmt *stmt, hn_expr index,
                           hn_run_access *a) {
    const int64_t size = hn_dtype_facts(r->f->memories.items[a->m].dtype)->size_bytes,
                  bytes = stmt->count * size,
                  access = bytes < HN_FORM_ACCESS_BYTES ? bytes : HN_FORM_ACCESS_BYTES;
    int64_t first, last;
    HN_TRY(hn_run_eval(r, index, a->thread, &first));
    HN_TRY(hn_run_find(r, a->m, first + stmt->count - 1, a->thread, &last));
    HN_TRY(hn_run_find(r, a->m, first, a->thread, &a->at));
    if (first * size % access == 0 && (r->memories[a->m].first * size) % access == 0) return NULL;
    return HN_ERROR(HN_INTERNAL, "a move at element %" PRId64 " of memory m%u is not aligned",
                    first, a->m);
}

hn_status hn_run_move(hn_run *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    hn_run_access from = {.does = "reads", .m = stmt->from, .thread = thread},
                  to = {.does = "writes", .m = stmt->memory, .thread = thread};
    HN_TRY(find_side(r, stmt, stmt->from_index, &from));
    HN_TRY(find_side(r, stmt, stmt->index, &to));
    for (uint32_t k = 0; k < stmt->count; k++, from.at++, to.at++) {
        hn_ref_elem value;
        HN_TRY(hn_run_read(r, &from, &value));
        HN_TRY(hn_run_write(r, &to, value));
    }
    return NULL;
}

hn_status hn_run_await(hn_run *r, hn_fid s, uint32_t thread) {
    const uint32_t but = hn_run_stmt_of(r, s)->count;
    const uint64_t ended = r->batches[thread]++;
    if (ended > but && ended - but > r->arrived[thread]) r->arrived[thread] = ended - but;
    return NULL;
}

hn_status hn_run_let(hn_run *r, hn_fid s, uint32_t thread) {
    int64_t value;
    HN_TRY(hn_run_eval(r, hn_run_stmt_of(r, s)->begin, thread, &value));
    return hn_run_define(r, s, thread, hn_run_stmt_of(r, s)->var, value);
}

/* --- preparation --- */

/* Where a symbol is among the symbols: one that several statements define has one place. */
static hn_status place_symbol(hn_run *r, hn_expr symbol, uint32_t *out) {
    for (*out = 0; *out < r->symbols.count; ++*out)
        if (r->symbols.items[*out] == symbol) return NULL;
    HN_PUSH(r->arena, &r->symbols, symbol);
    return NULL;
}

static hn_expr symbol_of(const hn_form_stmt *stmt) {
    switch (stmt->kind) {
    case HN_FORM_FOR:
    case HN_FORM_LET:
    case HN_FORM_LANES: return stmt->var;
    case HN_FORM_VALUE: return stmt->op.kind == HN_SOP_INDIRECT ? stmt->op.index : 0;
    default: return 0;
    }
}

static hn_status prepare_stmt(hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    hn_run_stmt *state = &r->stmts[s];
    hn_expr symbol = symbol_of(stmt);
    if (symbol) HN_TRY(place_symbol(r, symbol, &state->symbol));
    state->extent = -1;
    if (symbol) (void)hn_run_eval_size(r, hn_sym_symbol_extent(r->f->sym, symbol), &state->extent);
    if (stmt->kind == HN_FORM_VALUE)
        HN_NEW(r->arena, state->values, state->is_uniform ? 1 : r->width);
    if (r->f->lanes || (stmt->kind != HN_FORM_FOR && stmt->kind != HN_FORM_IF)) return NULL;
    HN_NEW(r->arena, state->active, r->width);
    HN_NEW(r->arena, state->otherwise, r->width);
    HN_NEW(r->arena, state->next, r->width);
    HN_NEW(r->arena, state->end, r->width);
    return NULL;
}

static hn_status prepare_symbols(hn_run *r) {
    const hn_form *f = r->f;
    HN_TRY(place_symbol(r, f->lanes ? f->first : f->group, &r->group_symbols[0]));
    HN_TRY(place_symbol(r, f->lanes ? f->until : f->thread, &r->group_symbols[1]));
    for (hn_fid s = 1; s < f->stmts.count; s++) HN_TRY(prepare_stmt(r, s));
    uint32_t first_size = r->symbols.count;
    for (uint32_t k = 0; k < r->sizes->count; k++)
        HN_PUSH(r->arena, &r->symbols, r->sizes->symbols[k]);
    HN_NEW(r->arena, r->numbers, (size_t)r->width * r->symbols.count);
    for (uint32_t t = 0; t < r->width; t++) {
        for (uint32_t k = 0; k < r->sizes->count; k++)
            hn_run_numbers(r, t)[first_size + k] = r->sizes->values[k];
        hn_run_numbers(r, t)[r->group_symbols[1]] = t;
    }
    return NULL;
}

static hn_status run(hn_run *r) {
    const hn_form *f = r->f;
    HN_NEW(r->arena, r->memories, f->memories.count);
    HN_NEW(r->arena, r->stmts, f->stmts.count);
    HN_NEW(r->arena, r->value_lost, f->registers.count);
    r->width = f->threads;
    if (f->lanes) HN_TRY(hn_run_prepare_lanes(r));
    HN_NEW(r->arena, r->registers, (size_t)f->registers.count * r->width);
    HN_NEW(r->arena, r->batches, r->width);
    HN_NEW(r->arena, r->arrived, r->width);
    for (uint32_t t = 0; t < r->width; t++) r->batches[t] = 1;
    for (hn_fmem m = 1; m < f->memories.count; m++) HN_TRY(hn_run_prepare_memory(r, m));
    HN_TRY(prepare_symbols(r));
    return f->lanes ? hn_run_ranges(r) : hn_run_groups(r);
}

/* The first argument of each buffer has what all of them have moved. */
static void sum_moved(const hn_run *r, hn_form_moved *out) {
    *out = (hn_form_moved){0};
    for (hn_fmem m = 1; m < r->f->memories.count; m++) {
        const hn_run_memory *memory = &r->memories[m];
        bool is_first = memory->moved != NULL;
        for (hn_fmem e = 1; e < m; e++) is_first &= r->memories[e].moved != memory->moved;
        if (!is_first) continue;
        const int64_t bytes = hn_dtype_facts(memory->info->dtype)->size_bytes;
        for (int64_t k = 0; k < memory->end; k++) {
            if (memory->moved[k] & HN_RUN_READ) out->read_bytes += bytes;
            if (memory->moved[k] & HN_RUN_WRITTEN) out->written_bytes += bytes;
        }
    }
}

/* A form without segments. */
static hn_status run_one(const hn_form *f, const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                         bool *out_index_fault, hn_form_moved *out_moved) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_run r = {
        .f = f, .sizes = sizes, .buffers = buffers, .arena = &arena, .counts = out_moved != NULL};
    hn_status status = run(&r);
    *out_index_fault = r.index_fault;
    if (!status && out_moved) sum_moved(&r, out_moved);
    hn_arena_deinit(&arena);
    return status;
}

/* --- segments --- */

/* A segment as a form of its own, and the sizes that it has. */
static hn_status take_segment(const hn_form *f, uint32_t k, const hn_ref_sizes *sizes,
                              hn_arena *arena, hn_form *out, hn_ref_sizes *out_sizes) {
    const hn_form_segment *segment = &f->segments.items[k];
    uint32_t number = 0, count = sizes->count;
    hn_expr *symbols;
    int64_t *values;
    *out = *f;
    out->segments.count = 0;
    HN_NEW(arena, out->memories.items, f->memories.count);
    for (hn_fmem m = 0; m < f->memories.count; m++) {
        out->memories.items[m] = f->memories.items[m];
        if (m && f->memories.items[m].space == HN_SPACE_ARGUMENT)
            out->memories.items[m].buffer = segment->buffers[number++];
    }
    HN_NEW(arena, symbols, count + 1);
    HN_NEW(arena, values, count + 1);
    for (uint32_t s = 0; s < count; s++)
        symbols[s] = sizes->symbols[s], values[s] = sizes->values[s];
    if (segment->length) {
        symbols[count] = f->segment_length;
        if (!hn_sym_eval(f->sym, segment->length, symbols, values, count, &values[count]))
            return HN_ERROR(HN_INTERNAL, "the length of segment %u has no value", k);
        count++;
    }
    *out_sizes = (hn_ref_sizes){.symbols = symbols, .values = values, .count = count};
    return NULL;
}

static hn_status run_segment(const hn_form *f, uint32_t k, const hn_ref_sizes *sizes,
                             hn_ref_buffer *buffers, bool *out_index_fault,
                             hn_form_moved *out_moved) {
    hn_arena arena;
    hn_form own;
    hn_ref_sizes own_sizes;
    hn_arena_init(&arena);
    hn_status status = take_segment(f, k, sizes, &arena, &own, &own_sizes);
    if (!status) status = run_one(&own, &own_sizes, buffers, out_index_fault, out_moved);
    hn_arena_deinit(&arena);
    return status ? hn_status_annotate(status, "segment %u", k) : NULL;
}

/* One after the other: the verifier has seen that they do not meet. */
static hn_status run_segments(const hn_form *f, const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                              bool *out_index_fault, hn_form_moved *out_moved) {
    *out_index_fault = false;
    for (uint32_t k = 0; k < f->segments.count; k++) {
        hn_form_moved moved = {0};
        bool fault = false;
        HN_TRY(run_segment(f, k, sizes, buffers, &fault, out_moved ? &moved : NULL));
        *out_index_fault |= fault;
        if (!out_moved) continue;
        out_moved->read_bytes += moved.read_bytes;
        out_moved->written_bytes += moved.written_bytes;
    }
    return NULL;
}

hn_status hn_form_run_counted(const hn_form *f, const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                              bool *out_index_fault, hn_form_moved *out_moved) {
    if (!f->segments.count) return run_one(f, sizes, buffers, out_index_fault, out_moved);
    if (out_moved) *out_moved = (hn_form_moved){0};
    return run_segments(f, sizes, buffers, out_index_fault, out_moved);
}

hn_status hn_form_run(const hn_form *f, const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                      bool *out_index_fault) {
    return hn_form_run_counted(f, sizes, buffers, out_index_fault, NULL);
}
