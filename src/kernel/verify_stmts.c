/* verify_stmts.c: what must hold of a statement without a body, where it stands. */
#include "ir/sop.h"
#include "kernel/verify_impl.h"

/* --- values --- */

static hn_status check_load(checker *c, const hn_sop *op) {
    HN_TRY(hn_verify_memory_id(c, op->buffer));
    if (c->f->memories.items[op->buffer].dtype != op->dtype)
        return BAD("m%u has another dtype", op->buffer);
    c->is_read[op->buffer] = true;
    return NULL;
}

static hn_status check_result(const checker *c, const hn_sop *op) {
    HN_TRY(hn_verify_register_id(c, op->imm.i));
    hn_freg r = (hn_freg)op->imm.i;
    const hn_form_register *reg = &c->f->registers.items[r];
    HN_TRY(hn_verify_ready(c, r));
    if (op->op != HN_OP_NONE && op->op != HN_OP_ARGMAX)
        return BAD("it is neither the value nor the position of a register");
    if (op->op && !hn_op_keeps_position(reg->op)) return BAD("r%u keeps no position", r);
    if (op->dtype != (op->op ? HN_DTYPE_I64 : reg->dtype)) return BAD("r%u has another dtype", r);
    return NULL;
}

/* Data decides on a checked index, so threads may find different ones. */
static hn_status bind_index(checker *c, hn_expr symbol) {
    hn_expr limit = hn_sym_symbol_extent(c->f->sym, symbol);
    HN_TRY(hn_verify_size(c, limit, "the limit of the index"));
    HN_TRY(hn_verify_plain(c, limit, "the limit of the index"));
    return hn_verify_define_symbol(c, symbol, true);
}

/* Lanes of ranges may hold indices as words. */
static bool is_index_dtype(const checker *c, hn_dtype dtype) {
    return dtype == HN_DTYPE_I64 || (c->f->lanes && dtype == HN_DTYPE_I32);
}

/* hn_sop_check, which knows no indices in words. */
static const char *check_op(const checker *c, hn_sop op, hn_dtype args[3]) {
    if (op.kind == HN_SOP_INDEX && !is_index_dtype(c, op.dtype)) return "an index that is no i64";
    if (op.kind == HN_SOP_INDIRECT && is_index_dtype(c, args[0]) && is_index_dtype(c, op.dtype))
        args[0] = op.dtype = HN_DTYPE_I64;
    return hn_sop_check(c->f->sym, &op, args);
}

hn_status hn_verify_value_stmt(checker *c, hn_fid s, const hn_sop *op) {
    hn_dtype args[3] = {HN_DTYPE_NONE};
    for (uint32_t a = 0; a < 3; a++) {
        if (!op->args[a]) continue;
        HN_TRY(hn_verify_value(c, op->args[a], "its argument"));
        args[a] = hn_verify_dtype_of(c, op->args[a]);
    }
    const char *wrong = check_op(c, *op, args);
    if (wrong) return BAD("%s", wrong);
    if (op->kind == HN_SOP_LOAD) HN_TRY(check_load(c, op));
    if (op->kind == HN_SOP_RESULT) HN_TRY(check_result(c, op));
    if (hn_sop_has_index(op)) HN_TRY(hn_verify_index(c, op->index));
    if (op->kind == HN_SOP_LOAD) HN_TRY(hn_verify_unstaged(c, op->buffer));
    if (op->kind == HN_SOP_LOAD) HN_TRY(hn_verify_fixed(c, op->buffer, op->index));
    if (op->kind == HN_SOP_INDIRECT) HN_TRY(bind_index(c, op->index));
    return hn_verify_mark(c, &c->defined[s]);
}

/* --- statements --- */

static bool has_one_thread(const hn_form *f) {
    if (f->lanes && f->grain == INT64_MAX) return true;
    return f->threads == 1 && hn_sym_prove_eq(f->sym, f->grid, hn_sym_int(f->sym, 1));
}

/* What a store says of several threads. */
static hn_status check_threads(const checker *c, const hn_form_stmt *stmt) {
    if (!stmt->is_apart && !stmt->is_atomic) return NULL;
    if (c->f->lanes) return BAD("a store that is apart or atomic in a form of ranges");
    if (stmt->is_apart && (stmt->is_atomic || stmt->mode == HN_STORE_SET))
        return BAD("a store that is apart, but is atomic or does not combine");
    if (stmt->is_atomic && c->f->memories.items[stmt->memory].space != HN_SPACE_ARGUMENT)
        return BAD("a store that is atomic to a memory that is no argument");
    return NULL;
}

/* Combining is a read and a write: another thread must not come between, and nothing may be done
 * twice. */
static hn_status check_mode(checker *c, const hn_form_stmt *stmt) {
    if ((uint32_t)stmt->mode > HN_STORE_MAX) return BAD("it has no store mode");
    HN_TRY(check_threads(c, stmt));
    if (stmt->mode == HN_STORE_SET) return NULL;
    if (!has_one_thread(c->f) && !stmt->is_apart && !stmt->is_atomic)
        return BAD("a store that combines in a form of more than one thread");
    if (c->lanes && c->lanes->lanes.rest == HN_FORM_REST_OVERLAPPING)
        return BAD("a store that combines in lanes that overlap");
    c->is_read[stmt->memory] = true;
    return NULL;
}

/* Whole vectors: what is said of them needs them. */
static hn_status check_whole_vectors(const checker *c, const hn_form_stmt *stmt) {
    if (stmt->in_order && c->region != HN_FORM_IN_VECTOR)
        return BAD("a store in order outside of a vector");
    if (!stmt->streams && !stmt->is_aligned) return NULL;
    bool whole = c->region == HN_FORM_IN_VECTOR && stmt->in_lanes.access == HN_ACCESS_CONTIGUOUS;
    if (!whole || stmt->in_order || stmt->mode != HN_STORE_SET)
        return BAD("a store that streams or is aligned, but is no whole vector");
    if (c->f->memories.items[stmt->memory].space == HN_SPACE_ARGUMENT) return NULL;
    return stmt->streams ? BAD("a store that streams to a memory that is no argument") : NULL;
}

hn_status hn_verify_store(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_memory_id(c, stmt->memory));
    HN_TRY(hn_verify_value(c, stmt->value, "its value"));
    if (c->f->memories.items[stmt->memory].dtype != hn_verify_dtype_of(c, stmt->value))
        return BAD("m%u has another dtype than %%%u", stmt->memory, stmt->value);
    HN_TRY(hn_verify_index(c, stmt->index));
    HN_TRY(hn_verify_unstaged(c, stmt->memory));
    HN_TRY(hn_verify_fixed(c, stmt->memory, stmt->index));
    HN_TRY(check_mode(c, stmt));
    HN_TRY(check_whole_vectors(c, stmt));
    c->is_written[stmt->memory] = true;
    return NULL;
}

hn_status hn_verify_step(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_ready(c, stmt->reg));
    const hn_form_register *reg = &c->f->registers.items[stmt->reg];
    HN_TRY(hn_verify_value(c, stmt->value, "its value"));
    if (hn_verify_dtype_of(c, stmt->value) != reg->dtype)
        return BAD("r%u has another dtype than %%%u", stmt->reg, stmt->value);
    if (!hn_op_keeps_position(reg->op))
        return stmt->position ? BAD("a position, but r%u keeps none", stmt->reg) : NULL;
    if (!stmt->position) return BAD("no position, but r%u keeps one", stmt->reg);
    HN_TRY(hn_verify_value(c, stmt->position, "its position"));
    return hn_verify_dtype_of(c, stmt->position) == HN_DTYPE_I64 ? NULL
                                                                 : BAD("a position that is no i64");
}

hn_status hn_verify_init(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_register_id(c, stmt->reg));
    return hn_verify_mark(c, &c->ready[stmt->reg]);
}

hn_status hn_verify_together(const checker *c, const char *what) {
    if (!c->divides) return NULL;
    return BAD("%s within statement %u, whose limits differ between threads", what, c->divides);
}

hn_status hn_verify_let(checker *c, const hn_form_stmt *stmt) {
    bool varies = false;
    HN_TRY(hn_verify_expr(c, stmt->begin, "the value", &varies));
    return hn_verify_define_variable(c, stmt->var, varies);
}

static bool is_power_of_two(uint32_t n) { return n && !(n & (n - 1)); }

/* The rows that a group falls into. */
static hn_status check_rows(const checker *c, const hn_form_stmt *stmt) {
    if (!is_power_of_two(stmt->width) || !is_power_of_two(stmt->pitch))
        return BAD("a row whose width or pitch is no power of two");
    if (c->f->threads % ((uint64_t)stmt->width * stmt->pitch))
        return BAD("a group that is not made of rows of %u threads", stmt->width);
    if (c->f->blocks > 1 && stmt->width < c->f->threads)
        return BAD("a row of %u threads, but a group of several blocks is one row", stmt->width);
    return NULL;
}

hn_status hn_verify_before(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_ready(c, stmt->reg));
    HN_TRY(hn_verify_ready(c, stmt->all));
    const hn_form_register *reg = &c->f->registers.items[stmt->reg],
                           *all = &c->f->registers.items[stmt->all];
    HN_TRY(check_rows(c, stmt));
    if (c->f->blocks > 1) return BAD("a before, but the group is several blocks");
    if (stmt->reg == stmt->all) return BAD("r%u is both registers", stmt->reg);
    if (reg->op != all->op || reg->dtype != all->dtype)
        return BAD("r%u and r%u combine in different ways", stmt->reg, stmt->all);
    return hn_verify_together(c, "a before");
}

hn_status hn_verify_across(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_ready(c, stmt->reg));
    const hn_op op = c->f->registers.items[stmt->reg].op;
    if (!c->f->lanes) {
        HN_TRY(check_rows(c, stmt));
        if (hn_op_facts(op)->op_class != HN_OPC_REDUCE)
            return BAD("r%u is no reduction: the order of its steps counts", stmt->reg);
        HN_TRY(hn_verify_together(c, "an across"));
    } else if (stmt->width || stmt->pitch) return BAD("threads of a row in a form of ranges");
    c->across[stmt->reg] = true;
    return NULL;
}

/* In one access, which no thread waits for on the way in. */
static hn_status check_staged(const checker *c, const hn_form_stmt *stmt) {
    const hn_form_memory *to = &c->f->memories.items[stmt->memory],
                         *from = &c->f->memories.items[stmt->from];
    const bool in = to->space == HN_SPACE_STAGED;
    if (in ? from->space != HN_SPACE_ARGUMENT
           : from->space == HN_SPACE_STAGED && to->space != HN_SPACE_PRIVATE)
        return BAD(
            "staged memory gets what is in arguments, and private memory gets it from there");
    if (stmt->count * hn_dtype_facts(to->dtype)->size_bytes != HN_FORM_ACCESS_BYTES)
        return BAD("it is no move of %d bytes, but of staged memory", HN_FORM_ACCESS_BYTES);
    return NULL;
}

hn_status hn_verify_move(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_memory_id(c, stmt->memory));
    HN_TRY(hn_verify_memory_id(c, stmt->from));
    const hn_form_memory *to = &c->f->memories.items[stmt->memory],
                         *from = &c->f->memories.items[stmt->from];
    if (to->dtype != from->dtype)
        return BAD("m%u has another dtype than m%u", stmt->memory, stmt->from);
    if (to->space == HN_SPACE_STAGED || from->space == HN_SPACE_STAGED)
        HN_TRY(check_staged(c, stmt));
    else if ((to->space == HN_SPACE_PRIVATE) == (from->space == HN_SPACE_PRIVATE))
        return BAD("one of the two memories is private, the other one is not");
    if (!is_power_of_two(stmt->count) || stmt->count > HN_FORM_MOVE_MOST)
        return BAD("the count is no power of two up to %d", HN_FORM_MOVE_MOST);
    HN_TRY(hn_verify_index(c, stmt->index));
    HN_TRY(hn_verify_plain(c, stmt->from_index, "the index that is read"));
    HN_TRY(hn_verify_fixed(c, stmt->memory, stmt->index));
    HN_TRY(hn_verify_fixed(c, stmt->from, stmt->from_index));
    c->is_read[stmt->from] = true;
    c->is_written[stmt->memory] = true;
    return NULL;
}

hn_status hn_verify_prefetch(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(hn_verify_memory_id(c, stmt->memory));
    HN_TRY(hn_verify_index(c, stmt->index));
    if (!stmt->every) return BAD("no vector asks");
    if (stmt->every > 1 && c->region != HN_FORM_IN_VECTOR)
        return BAD("there is one vector that could ask");
    return NULL;
}

hn_status hn_verify_transpose(checker *c, const hn_form_stmt *stmt) {
    const hn_form_transpose *t = stmt->transpose;
    if (!t) return BAD("what it transposes is missing");
    HN_TRY(hn_verify_memory_id(c, stmt->memory));
    HN_TRY(hn_verify_memory_id(c, t->from));
    if (stmt->memory == t->from) return BAD("m%u is transposed into itself", t->from);
    if (c->f->memories.items[stmt->memory].dtype != c->f->memories.items[t->from].dtype)
        return BAD("m%u has another dtype than m%u", stmt->memory, t->from);
    HN_TRY(hn_verify_index(c, stmt->index));
    HN_TRY(hn_verify_plain(c, t->from_index, "the index that is read"));
    HN_TRY(hn_verify_plain(c, t->stride, "the stride"));
    HN_TRY(hn_verify_plain(c, t->rows, "the number of rows"));
    HN_TRY(hn_verify_plain(c, t->columns, "the number of columns"));
    if (t->pitch < 1) return BAD("the pitch is not above 0");
    c->is_read[t->from] = true;
    c->is_written[stmt->memory] = true;
    return NULL;
}
