/* interp.c: see the header.
 *
 * Time counts barriers and groups: accesses of one time are those of one group without a barrier
 * between. Each element of a memory that the form writes remembers who wrote and read it last. */
#include "kernel/interp.h"

#include "ir/sop.h"

#include <inttypes.h>

enum { NOBODY = UINT32_MAX }; /* instead of a thread or group */

/* The last accesses of an element. */
typedef struct cell {
    uint64_t write_time, read_time;       /* 0: never */
    uint32_t writer, readers[2];          /* threads, at that time; two readers stand for all */
    uint32_t write_group, read_groups[2]; /* in the whole run */
} cell;

typedef struct memory_state {
    const hn_form_memory *info;
    hn_ref_elem *items;
    bool *is_set;       /* ARGUMENT */
    cell *cells;        /* NULL: the form does not write here */
    int64_t first, end; /* elements of `items` that an access may reach, from index 0 on */
} memory_state;

/* What the interpreter knows of a statement beside the form. */
typedef struct stmt_state {
    hn_ref_elem *values; /* VALUE: per thread */
    bool *active;        /* FOR, IF: the threads that run the body, */
    bool *otherwise;     /* IF: and those that run the other block */
    int64_t *next, *end; /* FOR: per thread */
    uint32_t symbol;     /* FOR, LET, INDIRECT: where it is among the symbols */
    int64_t extent;      /* of that symbol; below 0: not known from sizes alone */
} stmt_state;

typedef struct runner {
    const hn_form *f;
    const hn_ref_sizes *sizes;
    hn_ref_buffer *buffers;
    hn_arena *arena;
    memory_state *memories;
    stmt_state *stmts;
    hn_ref_fold *registers; /* [register][thread] */
    struct {
        hn_expr *items;
        uint32_t count, cap;
    } symbols;        /* index symbols, then sizes */
    int64_t *numbers; /* [thread][symbol] */
    uint32_t group;
    uint64_t time;
    bool index_fault;
} runner;

static const hn_form_stmt *stmt_of(const runner *r, hn_fid s) { return &r->f->stmts.items[s]; }

/* --- expressions --- */

static hn_status cannot_evaluate(const runner *r, hn_expr e) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (e) hn_sym_print(r->f->sym, e, &text);
    hn_status status =
        HN_ERROR(HN_INTERNAL, "'" HN_STR_FMT "' has no value", HN_STR_ARG(hn_strbuf_str(&text)));
    hn_strbuf_deinit(&text);
    return status;
}

static int64_t *numbers_of(const runner *r, uint32_t thread) {
    return r->numbers + (size_t)thread * r->symbols.count;
}

static hn_status eval(const runner *r, hn_expr e, uint32_t thread, int64_t *out) {
    if (hn_sym_is_int(r->f->sym, e, out)) return NULL;
    bool known =
        hn_sym_eval(r->f->sym, e, r->symbols.items, numbers_of(r, thread), r->symbols.count, out);
    return known ? NULL : cannot_evaluate(r, e);
}

static bool eval_size(const runner *r, hn_expr e, int64_t *out) {
    return hn_sym_eval(r->f->sym, e, r->sizes->symbols, r->sizes->values, r->sizes->count, out);
}

/* Binds the symbol that the statement defines. */
static hn_status define(runner *r, hn_fid s, uint32_t thread, hn_expr symbol, int64_t value) {
    int64_t extent = r->stmts[s].extent;
    if (extent < 0) HN_TRY(eval(r, hn_sym_symbol_extent(r->f->sym, symbol), thread, &extent));
    if (value < 0 || value >= extent)
        return HN_ERROR(HN_INTERNAL, HN_STR_FMT " is %" PRId64 ", but its extent is %" PRId64,
                        HN_STR_ARG(hn_sym_symbol_name(r->f->sym, symbol)), value, extent);
    numbers_of(r, thread)[r->stmts[s].symbol] = value;
    return NULL;
}

/* --- memory --- */

/* The element of m that an index means. */
static hn_status find(const runner *r, hn_fmem m, hn_expr index, uint32_t thread, int64_t *out) {
    const memory_state *memory = &r->memories[m];
    int64_t at;
    HN_TRY(eval(r, index, thread, &at));
    if (at < 0 || at >= memory->end - memory->first)
        return HN_ERROR(HN_INTERNAL, "element %" PRId64 " of memory m%u, which has %" PRId64, at, m,
                        memory->end - memory->first);
    *out = memory->first + at;
    return NULL;
}

typedef struct access {
    const char *does; /* "reads" */
    hn_fmem m;
    int64_t at;
    uint32_t thread;
} access;

static hn_status race_of_threads(const runner *r, const access *a, uint32_t other,
                                 const char *other_does) {
    return HN_ERROR(HN_INTERNAL,
                    "a race: thread %u %s element %" PRId64 " of memory m%u, which thread %u %s "
                    "without a barrier between",
                    a->thread, a->does, a->at - r->memories[a->m].first, a->m, other, other_does);
}

static hn_status race_of_groups(const runner *r, const access *a, uint32_t other,
                                const char *other_does) {
    return HN_ERROR(HN_INTERNAL,
                    "a race: group %u %s element %" PRId64 " of memory m%u, which group %u %s",
                    r->group, a->does, a->at - r->memories[a->m].first, a->m, other, other_does);
}

static hn_status check_written(const runner *r, const access *a, const cell *c) {
    bool shared_by_groups = r->memories[a->m].info->space == HN_SPACE_ARGUMENT;
    if (c->write_time == r->time && c->writer != a->thread)
        return race_of_threads(r, a, c->writer, "writes");
    if (shared_by_groups && c->write_time && c->write_group != r->group)
        return race_of_groups(r, a, c->write_group, "writes");
    return NULL;
}

static hn_status check_read(const runner *r, const access *a, const cell *c) {
    bool shared_by_groups = r->memories[a->m].info->space == HN_SPACE_ARGUMENT;
    for (int k = 0; k < 2 && c->read_time; k++) {
        if (c->read_time == r->time && c->readers[k] != a->thread && c->readers[k] != NOBODY)
            return race_of_threads(r, a, c->readers[k], "reads");
        if (shared_by_groups && c->read_groups[k] != r->group && c->read_groups[k] != NOBODY)
            return race_of_groups(r, a, c->read_groups[k], "reads");
    }
    return NULL;
}

/* One more of those who came: two that differ are enough to find one that is not oneself. */
static void note(uint32_t who[2], uint32_t comer) {
    if (who[0] != comer && who[1] == NOBODY) who[who[0] != NOBODY] = comer;
}

static hn_status read_cell(runner *r, const access *a) {
    cell *c = &r->memories[a->m].cells[a->at];
    HN_TRY(check_written(r, a, c));
    if (!c->read_time) c->read_groups[0] = c->read_groups[1] = NOBODY;
    if (c->read_time != r->time) c->readers[0] = c->readers[1] = NOBODY;
    c->read_time = r->time;
    note(c->readers, a->thread);
    note(c->read_groups, r->group);
    return NULL;
}

static hn_status write_cell(runner *r, const access *a) {
    cell *c = &r->memories[a->m].cells[a->at];
    HN_TRY(check_written(r, a, c));
    HN_TRY(check_read(r, a, c));
    c->write_time = r->time;
    c->writer = a->thread;
    c->write_group = r->group;
    return NULL;
}

static bool is_set(const runner *r, hn_fmem m, int64_t at) {
    const memory_state *memory = &r->memories[m];
    if (memory->info->space == HN_SPACE_ARGUMENT) return memory->is_set[at];
    return memory->cells && memory->cells[at].write_time &&
           memory->cells[at].write_group == r->group;
}

static hn_status read(runner *r, const access *a, hn_ref_elem *out) {
    const memory_state *memory = &r->memories[a->m];
    if (memory->cells) HN_TRY(read_cell(r, a));
    if (!is_set(r, a->m, a->at))
        return HN_ERROR(HN_INTERNAL,
                        "element %" PRId64 " of memory m%u is read before it is written",
                        a->at - memory->first, a->m);
    *out = memory->items[a->at];
    return NULL;
}

static hn_status write(runner *r, const access *a, hn_ref_elem value) {
    memory_state *memory = &r->memories[a->m];
    if (!memory->cells) return HN_ERROR(HN_INTERNAL, "memory m%u is not written", a->m);
    HN_TRY(write_cell(r, a));
    memory->items[a->at] = value;
    if (memory->is_set) memory->is_set[a->at] = true;
    return NULL;
}

/* --- statements of one thread --- */

static hn_status run_load(runner *r, const hn_sop *op, uint32_t thread, hn_ref_elem *out) {
    access a = {.does = "reads", .m = op->buffer, .thread = thread};
    HN_TRY(find(r, a.m, op->index, thread, &a.at));
    return read(r, &a, out);
}

static hn_status run_indirect(runner *r, hn_fid s, uint32_t thread, int64_t given,
                              hn_ref_elem *out) {
    const hn_sop *op = &stmt_of(r, s)->op;
    int64_t limit;
    HN_TRY(eval(r, hn_sym_symbol_extent(r->f->sym, op->index), thread, &limit));
    if (!hn_ref_checked_index(given, limit, op->imm.i & 1, &out->i)) {
        out->i = 0;
        r->index_fault = true;
    }
    numbers_of(r, thread)[r->stmts[s].symbol] = out->i;
    return NULL;
}

static hn_status run_value(runner *r, hn_fid s, uint32_t thread) {
    const hn_sop *op = &stmt_of(r, s)->op;
    hn_ref_elem args[3] = {{0}}, *out = &r->stmts[s].values[thread];
    int64_t index = 0;
    if (op->kind == HN_SOP_LOAD) return run_load(r, op, thread, out);
    if (op->kind == HN_SOP_RESULT) {
        const hn_ref_fold *reg = &r->registers[(size_t)op->imm.i * r->f->threads + thread];
        *out = op->op == HN_OP_ARGMAX ? (hn_ref_elem){.i = reg->position} : reg->value;
        return NULL;
    }
    for (uint32_t a = 0; a < 3; a++)
        if (op->args[a]) args[a] = r->stmts[op->args[a]].values[thread];
    if (op->kind == HN_SOP_INDIRECT) return run_indirect(r, s, thread, args[0].i, out);
    if (hn_sop_has_index(op)) HN_TRY(eval(r, op->index, thread, &index));
    return hn_ref_scalar(op, stmt_of(r, op->args[0])->op.dtype, args, index, out);
}

static hn_status run_store(runner *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = stmt_of(r, s);
    hn_ref_elem value = r->stmts[stmt->value].values[thread];
    access a = {.does = "writes", .m = stmt->memory, .thread = thread};
    HN_TRY(find(r, a.m, stmt->index, thread, &a.at));
    if (stmt->mode != HN_STORE_SET) {
        hn_ref_elem old;
        HN_TRY(read(r, &a, &old));
        HN_TRY(hn_ref_combine(stmt->mode, r->memories[a.m].info->dtype, old, &value));
    }
    return write(r, &a, value);
}

static hn_status run_init(runner *r, hn_fid s, uint32_t thread) {
    hn_freg reg = stmt_of(r, s)->reg;
    const hn_form_register *info = &r->f->registers.items[reg];
    r->registers[(size_t)reg * r->f->threads + thread] = hn_ref_fold_begin(info->op, info->dtype);
    return NULL;
}

static hn_status run_step(runner *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = stmt_of(r, s);
    const hn_form_register *info = &r->f->registers.items[stmt->reg];
    int64_t position = stmt->position ? r->stmts[stmt->position].values[thread].i : 0;
    return hn_ref_fold_step(info->op, info->dtype, r->stmts[stmt->value].values[thread], position,
                            &r->registers[(size_t)stmt->reg * r->f->threads + thread]);
}

static hn_status run_let(runner *r, hn_fid s, uint32_t thread) {
    int64_t value;
    HN_TRY(eval(r, stmt_of(r, s)->begin, thread, &value));
    return define(r, s, thread, stmt_of(r, s)->var, value);
}

static hn_status enter_for(runner *r, hn_fid s, uint32_t thread) {
    HN_TRY(eval(r, stmt_of(r, s)->begin, thread, &r->stmts[s].next[thread]));
    return eval(r, stmt_of(r, s)->end, thread, &r->stmts[s].end[thread]);
}

static hn_status take_step(runner *r, hn_fid s, uint32_t thread) {
    stmt_state *state = &r->stmts[s];
    int64_t value = state->next[thread];
    state->next[thread] += stmt_of(r, s)->step;
    return define(r, s, thread, stmt_of(r, s)->var, value);
}

static hn_status decide(runner *r, hn_fid s, uint32_t thread) {
    int64_t left, right;
    HN_TRY(eval(r, stmt_of(r, s)->begin, thread, &left));
    HN_TRY(eval(r, stmt_of(r, s)->end, thread, &right));
    r->stmts[s].active[thread] = left < right;
    r->stmts[s].otherwise[thread] = left >= right;
    return NULL;
}

/* --- statements of a group --- */

typedef hn_status (*thread_fn)(runner *r, hn_fid s, uint32_t thread);

static hn_status each_thread(runner *r, hn_fid s, const bool *active, thread_fn fn) {
    for (uint32_t t = 0; t < r->f->threads; t++) {
        hn_status status = active[t] ? fn(r, s, t) : NULL;
        if (status)
            return hn_status_annotate(status, "statement %u, group %u, thread %u", s, r->group, t);
    }
    return NULL;
}

static hn_status run_block(runner *r, hn_fid first, const bool *active);

/* A block for the threads that are active, if there are any. */
static hn_status run_inner(runner *r, hn_fid first, const bool *active) {
    for (uint32_t t = 0; t < r->f->threads; t++)
        if (active[t]) return run_block(r, first, active);
    return NULL;
}

static hn_status run_for(runner *r, hn_fid s, const bool *active) {
    stmt_state *state = &r->stmts[s];
    HN_TRY(each_thread(r, s, active, enter_for));
    for (bool any = true; any;) {
        any = false;
        for (uint32_t t = 0; t < r->f->threads; t++)
            any |= state->active[t] = active[t] && state->next[t] < state->end[t];
        HN_TRY(each_thread(r, s, state->active, take_step));
        HN_TRY(run_inner(r, stmt_of(r, s)->body, state->active));
    }
    return NULL;
}

static hn_status run_if(runner *r, hn_fid s, const bool *active) {
    stmt_state *state = &r->stmts[s];
    for (uint32_t t = 0; t < r->f->threads; t++) state->active[t] = state->otherwise[t] = false;
    HN_TRY(each_thread(r, s, active, decide));
    HN_TRY(run_inner(r, stmt_of(r, s)->body, state->active));
    return run_inner(r, stmt_of(r, s)->otherwise, state->otherwise);
}

static hn_status run_barrier(runner *r, hn_fid s, const bool *active) {
    for (uint32_t t = 0; t < r->f->threads; t++)
        if (!active[t])
            return HN_ERROR(HN_INTERNAL,
                            "statement %u, group %u: a barrier that thread %u does not reach", s,
                            r->group, t);
    r->time++;
    return NULL;
}

static hn_status run_stmt(runner *r, hn_fid s, const bool *active) {
    switch (stmt_of(r, s)->kind) {
    case HN_FORM_FOR: return run_for(r, s, active);
    case HN_FORM_IF: return run_if(r, s, active);
    case HN_FORM_LET: return each_thread(r, s, active, run_let);
    case HN_FORM_VALUE: return each_thread(r, s, active, run_value);
    case HN_FORM_STORE: return each_thread(r, s, active, run_store);
    case HN_FORM_INIT: return each_thread(r, s, active, run_init);
    case HN_FORM_STEP: return each_thread(r, s, active, run_step);
    case HN_FORM_BARRIER: return run_barrier(r, s, active);
    case HN_FORM_KIND_COUNT: break;
    }
    return HN_ERROR(HN_INTERNAL, "statement %u is of no kind", s);
}

static hn_status run_block(runner *r, hn_fid first, const bool *active) {
    for (hn_fid s = first; s; s = stmt_of(r, s)->next) HN_TRY(run_stmt(r, s, active));
    return NULL;
}

/* --- preparation --- */

/* Elements of a buffer that several arguments name have one set of cells. */
static hn_status cells_of(runner *r, hn_fmem m, cell **out) {
    const hn_form_memory *info = r->memories[m].info;
    for (hn_fmem e = 1; e < m; e++)
        if (r->memories[e].info->space == HN_SPACE_ARGUMENT &&
            r->memories[e].info->buffer == info->buffer)
            *out = r->memories[e].cells;
    bool is_written = false;
    for (hn_fmem e = 1; e < r->f->memories.count; e++)
        is_written |= r->f->memories.items[e].space == HN_SPACE_ARGUMENT &&
                      r->f->memories.items[e].buffer == info->buffer &&
                      r->f->memories.items[e].is_written;
    if (!*out && is_written) HN_NEW(r->arena, *out, r->memories[m].end);
    return NULL;
}

static hn_status prepare_argument(runner *r, hn_fmem m) {
    memory_state *memory = &r->memories[m];
    hn_ref_buffer *buffer = &r->buffers[memory->info->buffer];
    if (buffer->dtype != memory->info->dtype)
        return HN_ERROR(HN_INTERNAL, "memory m%u has another dtype than its buffer", m);
    memory->items = buffer->items;
    memory->is_set = buffer->is_set;
    memory->end = buffer->elems;
    if (memory->info->base && !eval_size(r, memory->info->base, &memory->first))
        return cannot_evaluate(r, memory->info->base);
    if (memory->first < 0) return HN_ERROR(HN_INTERNAL, "memory m%u begins before its buffer", m);
    return cells_of(r, m, &memory->cells);
}

static hn_status prepare_memory(runner *r, hn_fmem m) {
    memory_state *memory = &r->memories[m];
    memory->info = &r->f->memories.items[m];
    if (memory->info->space == HN_SPACE_ARGUMENT) return prepare_argument(r, m);
    if (!eval_size(r, memory->info->elems, &memory->end))
        return cannot_evaluate(r, memory->info->elems);
    if (memory->end < 0)
        return HN_ERROR(HN_INTERNAL, "memory m%u has %" PRId64 " elements", m, memory->end);
    HN_NEW(r->arena, memory->items, memory->end);
    HN_NEW(r->arena, memory->cells, memory->end);
    return NULL;
}

/* Where a symbol is among the symbols: one that several statements define has one place. */
static hn_status place_symbol(runner *r, hn_expr symbol, uint32_t *out) {
    for (*out = 0; *out < r->symbols.count; ++*out)
        if (r->symbols.items[*out] == symbol) return NULL;
    HN_PUSH(r->arena, &r->symbols, symbol);
    return NULL;
}

static hn_expr symbol_of(const hn_form_stmt *stmt) {
    if (stmt->kind == HN_FORM_FOR || stmt->kind == HN_FORM_LET) return stmt->var;
    return stmt->kind == HN_FORM_VALUE && stmt->op.kind == HN_SOP_INDIRECT ? stmt->op.index : 0;
}

static hn_status prepare_stmt(runner *r, hn_fid s) {
    const hn_form_stmt *stmt = stmt_of(r, s);
    stmt_state *state = &r->stmts[s];
    hn_expr symbol = symbol_of(stmt);
    if (symbol) HN_TRY(place_symbol(r, symbol, &state->symbol));
    state->extent = -1;
    if (symbol) (void)eval_size(r, hn_sym_symbol_extent(r->f->sym, symbol), &state->extent);
    if (stmt->kind == HN_FORM_VALUE) HN_NEW(r->arena, state->values, r->f->threads);
    if (stmt->kind == HN_FORM_FOR || stmt->kind == HN_FORM_IF)
        HN_NEW(r->arena, state->active, r->f->threads);
    if (stmt->kind == HN_FORM_IF) HN_NEW(r->arena, state->otherwise, r->f->threads);
    if (stmt->kind != HN_FORM_FOR) return NULL;
    HN_NEW(r->arena, state->next, r->f->threads);
    HN_NEW(r->arena, state->end, r->f->threads);
    return NULL;
}

static hn_status prepare_symbols(runner *r, uint32_t *out_group, uint32_t *out_thread) {
    HN_TRY(place_symbol(r, r->f->group, out_group));
    HN_TRY(place_symbol(r, r->f->thread, out_thread));
    for (hn_fid s = 1; s < r->f->stmts.count; s++) HN_TRY(prepare_stmt(r, s));
    uint32_t first_size = r->symbols.count;
    for (uint32_t k = 0; k < r->sizes->count; k++)
        HN_PUSH(r->arena, &r->symbols, r->sizes->symbols[k]);
    HN_NEW(r->arena, r->numbers, (size_t)r->f->threads * r->symbols.count);
    for (uint32_t t = 0; t < r->f->threads; t++) {
        for (uint32_t k = 0; k < r->sizes->count; k++)
            numbers_of(r, t)[first_size + k] = r->sizes->values[k];
        numbers_of(r, t)[*out_thread] = t;
    }
    return NULL;
}

static hn_status run_groups(runner *r, uint32_t group_symbol) {
    int64_t grid;
    bool *all;
    if (!eval_size(r, r->f->grid, &grid)) return cannot_evaluate(r, r->f->grid);
    if (grid < 0 || grid >= NOBODY) return HN_ERROR(HN_INTERNAL, "%" PRId64 " groups", grid);
    HN_NEW(r->arena, all, r->f->threads);
    for (uint32_t t = 0; t < r->f->threads; t++) all[t] = true;
    for (r->group = 0; r->group < grid; r->group++) {
        r->time++;
        for (uint32_t t = 0; t < r->f->threads; t++) numbers_of(r, t)[group_symbol] = r->group;
        HN_TRY(run_block(r, r->f->body, all));
    }
    return NULL;
}

static hn_status run(runner *r) {
    uint32_t group_symbol, thread_symbol;
    HN_NEW(r->arena, r->memories, r->f->memories.count);
    HN_NEW(r->arena, r->stmts, r->f->stmts.count);
    HN_NEW(r->arena, r->registers, (size_t)r->f->registers.count * r->f->threads);
    for (hn_fmem m = 1; m < r->f->memories.count; m++) HN_TRY(prepare_memory(r, m));
    HN_TRY(prepare_symbols(r, &group_symbol, &thread_symbol));
    return run_groups(r, group_symbol);
}

hn_status hn_form_run(const hn_form *f, const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                      bool *out_index_fault) {
    hn_arena arena;
    hn_arena_init(&arena);
    runner r = {.f = f, .sizes = sizes, .buffers = buffers, .arena = &arena};
    hn_status status = run(&r);
    *out_index_fault = r.index_fault;
    hn_arena_deinit(&arena);
    return status;
}
