/* verify.c: what must hold of a form. One walk over the tree of statements keeps what is in scope,
 * which memories are read and written, whether all threads of a group run the statement at hand,
 * and whether it is in a LANES or VECTOR. */
#include "ir/sop.h"
#include "kernel/check.h"

typedef struct scope_symbol {
    hn_expr symbol;
    bool varies;   /* its value may differ between the threads of a group */
    bool is_fixed; /* a number, where the loops around are unrolled */
} scope_symbol;

typedef struct checker {
    const hn_form *f;
    hn_arena *scratch;
    hn_form_sizes *sizes;       /* to be listed; NULL: not now */
    hn_form_place place;        /* that is being checked */
    bool *reached;              /* per statement */
    bool *defined;              /* per statement: a VALUE in scope */
    bool *ready;                /* per register: after an INIT in scope */
    bool *is_read, *is_written; /* per memory */
    bool *across;               /* per register: an ACROSS combines its lanes */
    struct {
        scope_symbol *items;
        uint32_t count, cap;
    } symbols; /* in scope */
    struct {
        bool **items;
        uint32_t count, cap;
    } marks;        /* in `defined` and `ready`, set in the open blocks */
    hn_fid divides; /* the innermost IF or FOR around that threads may run differently; 0: none */
    uint32_t depth;
    hn_form_region region;
    const hn_form_stmt *lanes; /* around the statement at hand; NULL: none */
} checker;

#define BAD(...) HN_ERROR(HN_INTERNAL, __VA_ARGS__)

/* --- expressions --- */

static const char *text_of(const checker *c, hn_expr e) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_sym_print(c->f->sym, e, &text);
    const char *kept = hn_arena_strndup(c->scratch, hn_strbuf_str(&text).ptr, text.len);
    hn_strbuf_deinit(&text);
    return kept ? kept : "a symbol";
}

static bool is_scoped(const checker *c, hn_expr symbol) {
    hn_symbol_kind kind = hn_sym_symbol_kind(c->f->sym, symbol);
    return kind == HN_SYMBOL_INDEX || kind == HN_SYMBOL_INDIRECT;
}

static const scope_symbol *find_symbol(const checker *c, hn_expr symbol) {
    for (uint32_t k = c->symbols.count; k--;)
        if (c->symbols.items[k].symbol == symbol) return &c->symbols.items[k];
    return NULL;
}

/* The symbols of an expression. */
typedef struct symbol_list {
    hn_expr few[16], *items;
    uint32_t count;
} symbol_list;

static hn_status list_symbols(checker *c, hn_expr e, symbol_list *out) {
    const uint32_t room = sizeof out->few / sizeof *out->few;
    out->items = out->few;
    out->count = hn_sym_symbols(c->f->sym, e, out->few, room);
    if (out->count <= room) return NULL;
    HN_NEW(c->scratch, out->items, out->count);
    hn_sym_symbols(c->f->sym, e, out->items, out->count);
    return NULL;
}

static hn_status note_size(checker *c, hn_expr symbol) {
    if (!c->sizes) return NULL;
    for (uint32_t k = 0; k < c->sizes->count; k++)
        if (c->sizes->items[k] == symbol) return NULL;
    HN_PUSH(c->f->arena, c->sizes, symbol);
    return NULL;
}

/* An expression that the kernel evaluates. *out_varies becomes true when threads may find different
 * values. */
static hn_status check_expr(checker *c, hn_expr e, const char *what, bool *out_varies) {
    symbol_list symbols;
    if (!e) return BAD("%s is missing", what);
    HN_TRY(list_symbols(c, e, &symbols));
    for (uint32_t k = 0; k < symbols.count; k++) {
        if (!is_scoped(c, symbols.items[k])) {
            HN_TRY(note_size(c, symbols.items[k]));
            continue;
        }
        const scope_symbol *known = find_symbol(c, symbols.items[k]);
        if (!known)
            return BAD("%s uses %s, which is not defined here", what, text_of(c, symbols.items[k]));
        *out_varies |= known->varies;
    }
    return NULL;
}

/* Registers have no addresses: which one is meant must be known. */
static hn_status check_fixed(checker *c, hn_fmem m, hn_expr index) {
    symbol_list symbols;
    if (c->f->memories.items[m].space != HN_SPACE_PRIVATE) return NULL;
    HN_TRY(list_symbols(c, index, &symbols));
    for (uint32_t k = 0; k < symbols.count; k++) {
        const scope_symbol *known = find_symbol(c, symbols.items[k]);
        if (!known || !known->is_fixed)
            return BAD("the index of m%u uses %s, which is not of an unrolled loop", m,
                       text_of(c, symbols.items[k]));
    }
    return NULL;
}

static hn_status check_unstaged(const checker *c, hn_fmem m) {
    return c->f->memories.items[m].space == HN_SPACE_STAGED ? BAD("only moves reach staged memory")
                                                            : NULL;
}

static hn_status check_plain(checker *c, hn_expr e, const char *what) {
    bool varies = false;
    return check_expr(c, e, what, &varies);
}

static hn_status check_index(checker *c, hn_expr e) { return check_plain(c, e, "the index"); }

/* An expression of sizes alone. */
static hn_status check_size(checker *c, hn_expr e, const char *what) {
    symbol_list symbols;
    if (!e) return BAD("%s is missing", what);
    HN_TRY(list_symbols(c, e, &symbols));
    for (uint32_t k = 0; k < symbols.count; k++)
        if (is_scoped(c, symbols.items[k]))
            return BAD("%s uses %s, but may use sizes only", what, text_of(c, symbols.items[k]));
    return NULL;
}

/* --- scopes --- */

/* Two index symbols of one number have one name. */
static bool have_one_name(const hn_sym *sym, hn_expr a, hn_expr b) {
    if (a == b) return true;
    return hn_sym_symbol_kind(sym, a) == HN_SYMBOL_INDEX &&
           hn_sym_symbol_kind(sym, b) == HN_SYMBOL_INDEX &&
           hn_sym_index_ordinal(sym, a) == hn_sym_index_ordinal(sym, b);
}

static hn_status define_symbol(checker *c, hn_expr symbol, bool varies) {
    bool taken = c->region == HN_FORM_IN_LANES && have_one_name(c->f->sym, c->lanes->var, symbol);
    for (uint32_t k = 0; k < c->symbols.count && !taken; k++)
        taken = have_one_name(c->f->sym, c->symbols.items[k].symbol, symbol);
    if (taken) return BAD("%s is defined already", text_of(c, symbol));
    HN_PUSH(c->scratch, &c->symbols, ((scope_symbol){.symbol = symbol, .varies = varies}));
    return NULL;
}

/* The symbol of a FOR, LET or LANES. Its extent is a fact that simplification may have used; the
 * text form prints it. */
static hn_status define_variable(checker *c, hn_expr var, bool varies) {
    const hn_sym *sym = c->f->sym;
    if (hn_sym_symbol_kind(sym, var) != HN_SYMBOL_INDEX)
        return BAD("what it defines is no index symbol");
    if (hn_sym_index_ordinal(sym, var) >= c->f->ordinals)
        return BAD("the number of %s is not below that of the form's index symbols",
                   text_of(c, var));
    hn_form_sizes *sizes = c->sizes;
    c->sizes = NULL; /* the kernel does not evaluate the extent */
    HN_TRY(check_plain(c, hn_sym_symbol_extent(sym, var), "the extent of the symbol"));
    c->sizes = sizes;
    return define_symbol(c, var, varies);
}

/* Until the block closes. What is marked in a block around it stays marked. */
static hn_status mark(checker *c, bool *flag) {
    if (*flag) return NULL;
    *flag = true;
    HN_PUSH(c->scratch, &c->marks, flag);
    return NULL;
}

static hn_status check_value(const checker *c, hn_fid value, const char *what) {
    if (!value) return BAD("%s is missing", what);
    if (value >= c->f->stmts.count || c->f->stmts.items[value].kind != HN_FORM_VALUE)
        return BAD("%s: statement %u computes no value", what, value);
    return c->defined[value] ? NULL : BAD("%s %%%u is not defined here", what, value);
}

static hn_dtype dtype_of(const checker *c, hn_fid value) {
    return c->f->stmts.items[value].op.dtype;
}

/* --- memories and registers --- */

static hn_status check_argument(checker *c, const hn_form_memory *memory) {
    const hn_program *p = c->f->program;
    if (!memory->buffer || memory->buffer >= p->buffers.count)
        return BAD("its buffer is not one of the program");
    const hn_buffer *buffer = &p->buffers.items[memory->buffer];
    if (buffer->dtype != memory->dtype)
        return BAD("its buffer b%u has another dtype", memory->buffer);
    if (memory->is_written && buffer->kind == HN_BUFFER_INPUT)
        return BAD("it writes b%u, an input of the program", memory->buffer);
    return memory->base ? check_size(c, memory->base, "its base") : NULL;
}

/* Its place among the arguments, from 0. */
static uint32_t argument_number(const hn_form *f, hn_fmem m) {
    uint32_t number = 0;
    for (hn_fmem e = 1; e < m; e++) number += f->memories.items[e].space == HN_SPACE_ARGUMENT;
    return number;
}

/* Where an argument may lie. */
static hn_status check_aliases(const checker *c, hn_fmem m) {
    const hn_form_memory *memory = &c->f->memories.items[m];
    uint32_t arguments = argument_number(c->f, c->f->memories.count);
    if (!memory->may_alias) return NULL;
    if (memory->space != HN_SPACE_ARGUMENT || !memory->is_written)
        return BAD("it lies over an argument, but is none that is written");
    if (arguments < HN_FORM_ALIASES_MAX && memory->may_alias >> arguments)
        return BAD("it lies over an argument that does not exist");
    uint32_t own = argument_number(c->f, m);
    return own < HN_FORM_ALIASES_MAX && memory->may_alias >> own & 1 ? BAD("it lies over itself")
                                                                     : NULL;
}

static hn_status check_private(const checker *c, const hn_form_memory *memory) {
    int64_t elems;
    if (c->f->lanes) return BAD("it is private, but in a form of ranges");
    if (!memory->elems || !hn_sym_is_int(c->f->sym, memory->elems, &elems) || elems < 1)
        return BAD("it is private, but the number of its elements is no number above 0");
    return memory->padded ? BAD("it is padded, but private") : NULL;
}

static hn_status check_memory(checker *c, hn_fmem m) {
    const hn_form_memory *memory = &c->f->memories.items[m];
    c->place = (hn_form_place){HN_FORM_PART_MEMORY, m};
    if ((uint32_t)memory->space >= HN_SPACE_COUNT) return BAD("it is in no memory space");
    if (memory->dtype == HN_DTYPE_NONE || memory->dtype >= HN_DTYPE_COUNT)
        return BAD("it has no dtype");
    if (memory->stale && memory->space != HN_SPACE_SCRATCH)
        return BAD("it is stale, but no scratch memory");
    if (memory->padded && memory->space == HN_SPACE_ARGUMENT)
        return BAD("it is padded, but an argument");
    HN_TRY(check_aliases(c, m));
    if (memory->space == HN_SPACE_ARGUMENT) return check_argument(c, memory);
    if (memory->space == HN_SPACE_PRIVATE) return check_private(c, memory);
    HN_TRY(check_size(c, memory->elems, "the number of its elements"));
    return check_plain(c, memory->elems, "the number of its elements");
}

/* Printers declare arguments by these marks: too many cost speed, too few are wrong. */
static hn_status check_access(checker *c, hn_fmem m) {
    const hn_form_memory *memory = &c->f->memories.items[m];
    c->place = (hn_form_place){HN_FORM_PART_MEMORY, m};
    if (c->is_read[m] != memory->is_read)
        return BAD("%s", memory->is_read ? "it is marked as read, but nothing reads it"
                                         : "it is read, but not marked as read");
    if (c->is_written[m] != memory->is_written)
        return BAD("%s", memory->is_written ? "it is marked as written, but nothing writes it"
                                            : "it is written, but not marked as written");
    return NULL;
}

static hn_status check_register(checker *c, hn_freg r) {
    const hn_form_register *reg = &c->f->registers.items[r];
    hn_op_class class = hn_op_facts(reg->op)->op_class;
    c->place = (hn_form_place){HN_FORM_PART_REGISTER, r};
    if (class != HN_OPC_REDUCE && class != HN_OPC_SCAN)
        return BAD("its op does not combine values");
    if (reg->dtype == HN_DTYPE_NONE || reg->dtype >= HN_DTYPE_COUNT) return BAD("it has no dtype");
    if (reg->loses_nan && (reg->op != HN_OP_AMAX || reg->dtype != HN_DTYPE_F32))
        return BAD("it loses a NaN, but is no amax of f32");
    return NULL;
}

static hn_status check_combined(checker *c, hn_freg r) {
    c->place = (hn_form_place){HN_FORM_PART_REGISTER, r};
    if (c->across[r] == c->f->registers.items[r].across) return NULL;
    return BAD("%s", c->across[r] ? "its lanes are combined, but it is not marked as across"
                                  : "it is marked as across, but nothing combines its lanes");
}

static hn_status check_register_id(const checker *c, int64_t r) {
    if (r > 0 && r < c->f->registers.count) return NULL;
    return BAD("there is no register r%lld", (long long)r);
}

static hn_status check_memory_id(const checker *c, hn_fmem m) {
    return m && m < c->f->memories.count ? NULL : BAD("there is no memory m%u", m);
}

static hn_status check_ready(const checker *c, hn_freg r) {
    HN_TRY(check_register_id(c, r));
    return c->ready[r] ? NULL : BAD("r%u is not initialised here", r);
}

/* --- values --- */

static hn_status check_load(checker *c, const hn_sop *op) {
    HN_TRY(check_memory_id(c, op->buffer));
    if (c->f->memories.items[op->buffer].dtype != op->dtype)
        return BAD("m%u has another dtype", op->buffer);
    c->is_read[op->buffer] = true;
    return NULL;
}

static hn_status check_result(const checker *c, const hn_sop *op) {
    HN_TRY(check_register_id(c, op->imm.i));
    hn_freg r = (hn_freg)op->imm.i;
    const hn_form_register *reg = &c->f->registers.items[r];
    HN_TRY(check_ready(c, r));
    if (op->op != HN_OP_NONE && op->op != HN_OP_ARGMAX)
        return BAD("it is neither the value nor the position of a register");
    if (op->op && !hn_op_keeps_position(reg->op)) return BAD("r%u keeps no position", r);
    if (op->dtype != (op->op ? HN_DTYPE_I64 : reg->dtype)) return BAD("r%u has another dtype", r);
    return NULL;
}

/* Data decides on a checked index, so threads may find different ones. */
static hn_status bind_index(checker *c, hn_expr symbol) {
    hn_expr limit = hn_sym_symbol_extent(c->f->sym, symbol);
    HN_TRY(check_size(c, limit, "the limit of the index"));
    HN_TRY(check_plain(c, limit, "the limit of the index"));
    return define_symbol(c, symbol, true);
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

static hn_status check_value_stmt(checker *c, hn_fid s, const hn_sop *op) {
    hn_dtype args[3] = {HN_DTYPE_NONE};
    for (uint32_t a = 0; a < 3; a++) {
        if (!op->args[a]) continue;
        HN_TRY(check_value(c, op->args[a], "its argument"));
        args[a] = dtype_of(c, op->args[a]);
    }
    const char *wrong = check_op(c, *op, args);
    if (wrong) return BAD("%s", wrong);
    if (op->kind == HN_SOP_LOAD) HN_TRY(check_load(c, op));
    if (op->kind == HN_SOP_RESULT) HN_TRY(check_result(c, op));
    if (hn_sop_has_index(op)) HN_TRY(check_index(c, op->index));
    if (op->kind == HN_SOP_LOAD) HN_TRY(check_unstaged(c, op->buffer));
    if (op->kind == HN_SOP_LOAD) HN_TRY(check_fixed(c, op->buffer, op->index));
    if (op->kind == HN_SOP_INDIRECT) HN_TRY(bind_index(c, op->index));
    return mark(c, &c->defined[s]);
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

static hn_status check_store(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(check_memory_id(c, stmt->memory));
    HN_TRY(check_value(c, stmt->value, "its value"));
    if (c->f->memories.items[stmt->memory].dtype != dtype_of(c, stmt->value))
        return BAD("m%u has another dtype than %%%u", stmt->memory, stmt->value);
    HN_TRY(check_index(c, stmt->index));
    HN_TRY(check_unstaged(c, stmt->memory));
    HN_TRY(check_fixed(c, stmt->memory, stmt->index));
    HN_TRY(check_mode(c, stmt));
    HN_TRY(check_whole_vectors(c, stmt));
    c->is_written[stmt->memory] = true;
    return NULL;
}

/* STEP and SET. */
static hn_status check_step(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(check_ready(c, stmt->reg));
    const hn_form_register *reg = &c->f->registers.items[stmt->reg];
    HN_TRY(check_value(c, stmt->value, "its value"));
    if (dtype_of(c, stmt->value) != reg->dtype)
        return BAD("r%u has another dtype than %%%u", stmt->reg, stmt->value);
    if (!hn_op_keeps_position(reg->op))
        return stmt->position ? BAD("a position, but r%u keeps none", stmt->reg) : NULL;
    if (!stmt->position) return BAD("no position, but r%u keeps one", stmt->reg);
    HN_TRY(check_value(c, stmt->position, "its position"));
    return dtype_of(c, stmt->position) == HN_DTYPE_I64 ? NULL : BAD("a position that is no i64");
}

static hn_status check_init(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(check_register_id(c, stmt->reg));
    return mark(c, &c->ready[stmt->reg]);
}

/* Where all threads of a group must come. */
static hn_status check_together(const checker *c, const char *what) {
    if (!c->divides) return NULL;
    return BAD("%s within statement %u, whose limits differ between threads", what, c->divides);
}

static hn_status check_let(checker *c, const hn_form_stmt *stmt) {
    bool varies = false;
    HN_TRY(check_expr(c, stmt->begin, "the value", &varies));
    return define_variable(c, stmt->var, varies);
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

static hn_status check_before(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(check_ready(c, stmt->reg));
    HN_TRY(check_ready(c, stmt->all));
    const hn_form_register *reg = &c->f->registers.items[stmt->reg],
                           *all = &c->f->registers.items[stmt->all];
    HN_TRY(check_rows(c, stmt));
    if (c->f->blocks > 1) return BAD("a before, but the group is several blocks");
    if (stmt->reg == stmt->all) return BAD("r%u is both registers", stmt->reg);
    if (reg->op != all->op || reg->dtype != all->dtype)
        return BAD("r%u and r%u combine in different ways", stmt->reg, stmt->all);
    return check_together(c, "a before");
}

static hn_status check_across(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(check_ready(c, stmt->reg));
    const hn_op op = c->f->registers.items[stmt->reg].op;
    if (!c->f->lanes) {
        HN_TRY(check_rows(c, stmt));
        if (hn_op_facts(op)->op_class != HN_OPC_REDUCE)
            return BAD("r%u is no reduction: the order of its steps counts", stmt->reg);
        HN_TRY(check_together(c, "an across"));
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

static hn_status check_move(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(check_memory_id(c, stmt->memory));
    HN_TRY(check_memory_id(c, stmt->from));
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
    HN_TRY(check_index(c, stmt->index));
    HN_TRY(check_plain(c, stmt->from_index, "the index that is read"));
    HN_TRY(check_fixed(c, stmt->memory, stmt->index));
    HN_TRY(check_fixed(c, stmt->from, stmt->from_index));
    c->is_read[stmt->from] = true;
    c->is_written[stmt->memory] = true;
    return NULL;
}

static hn_status check_prefetch(checker *c, const hn_form_stmt *stmt) {
    HN_TRY(check_memory_id(c, stmt->memory));
    HN_TRY(check_index(c, stmt->index));
    if (!stmt->every) return BAD("no vector asks");
    if (stmt->every > 1 && c->region != HN_FORM_IN_VECTOR)
        return BAD("there is one vector that could ask");
    return NULL;
}

static hn_status check_transpose(checker *c, const hn_form_stmt *stmt) {
    const hn_form_transpose *t = stmt->transpose;
    if (!t) return BAD("what it transposes is missing");
    HN_TRY(check_memory_id(c, stmt->memory));
    HN_TRY(check_memory_id(c, t->from));
    if (stmt->memory == t->from) return BAD("m%u is transposed into itself", t->from);
    if (c->f->memories.items[stmt->memory].dtype != c->f->memories.items[t->from].dtype)
        return BAD("m%u has another dtype than m%u", stmt->memory, t->from);
    HN_TRY(check_index(c, stmt->index));
    HN_TRY(check_plain(c, t->from_index, "the index that is read"));
    HN_TRY(check_plain(c, t->stride, "the stride"));
    HN_TRY(check_plain(c, t->rows, "the number of rows"));
    HN_TRY(check_plain(c, t->columns, "the number of columns"));
    if (t->pitch < 1) return BAD("the pitch is not above 0");
    c->is_read[t->from] = true;
    c->is_written[stmt->memory] = true;
    return NULL;
}

static hn_status check_block(checker *c, hn_fid first);

/* What is marked in a block is not known behind it. */
static void close_scope(checker *c, uint32_t symbols, uint32_t marks) {
    while (c->marks.count > marks) *c->marks.items[--c->marks.count] = false;
    c->symbols.count = symbols;
}

/* Whether its variable is a number in each copy of the body. */
static bool is_unrolled(const checker *c, hn_fid s) {
    const hn_form_stmt *stmt = &c->f->stmts.items[s];
    int64_t begin, end;
    if (stmt->kind != HN_FORM_FOR || !hn_sym_is_int(c->f->sym, stmt->begin, &begin) ||
        !hn_sym_is_int(c->f->sym, stmt->end, &end))
        return false;
    int64_t copies = stmt->unroll ? stmt->unroll : 1;
    return begin >= 0 && end - begin <= INT32_MAX && (end - begin) <= copies * stmt->step;
}

/* A block of statement `owner`, in which `var` is defined unless it is 0. */
static hn_status check_inner(checker *c, hn_fid owner, hn_fid first, hn_expr var, bool varies) {
    uint32_t symbols = c->symbols.count, marks = c->marks.count;
    hn_fid divides = c->divides;
    if (++c->depth > HN_FORM_DEPTH_MOST) return BAD("blocks are nested too deep");
    if (varies) c->divides = owner;
    if (var) HN_TRY(define_variable(c, var, varies));
    if (var) c->symbols.items[c->symbols.count - 1].is_fixed = is_unrolled(c, owner);
    HN_TRY(check_block(c, first));
    close_scope(c, symbols, marks);
    c->divides = divides;
    c->depth--;
    c->place = (hn_form_place){HN_FORM_PART_STMT, owner};
    return NULL;
}

static hn_status check_for(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    bool varies = false;
    HN_TRY(check_expr(c, stmt->begin, "the beginning", &varies));
    HN_TRY(check_expr(c, stmt->end, "the end", &varies));
    if (stmt->step < 1) return BAD("the step is not above 0");
    if (!stmt->var) return BAD("what it defines is no index symbol");
    return check_inner(c, s, stmt->body, stmt->var, varies);
}

static hn_status check_if(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    bool varies = false;
    HN_TRY(check_expr(c, stmt->begin, "the left side", &varies));
    HN_TRY(check_expr(c, stmt->end, "the right side", &varies));
    HN_TRY(check_inner(c, s, stmt->body, 0, varies));
    return check_inner(c, s, stmt->otherwise, 0, varies);
}

static hn_status check_if_aligned(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    HN_TRY(check_memory_id(c, stmt->memory));
    if (c->f->memories.items[stmt->memory].space != HN_SPACE_ARGUMENT)
        return BAD("m%u is no argument", stmt->memory);
    HN_TRY(check_inner(c, s, stmt->body, 0, false));
    return check_inner(c, s, stmt->otherwise, 0, false);
}

static hn_status check_lanes(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    HN_TRY(check_plain(c, stmt->begin, "the beginning"));
    HN_TRY(check_plain(c, stmt->end, "the end"));
    HN_TRY(hn_form_check_steps(stmt));
    if (hn_sym_symbol_kind(c->f->sym, stmt->var) != HN_SYMBOL_INDEX)
        return BAD("what it defines is no index symbol");
    c->lanes = stmt;
    c->region = HN_FORM_IN_LANES;
    HN_TRY(check_inner(c, s, stmt->body, 0, false));
    c->region = HN_FORM_IN_RANGE;
    c->lanes = NULL;
    return NULL;
}

static hn_status check_vector(checker *c, hn_fid s, const hn_form_stmt *stmt) {
    c->region = HN_FORM_IN_VECTOR;
    HN_TRY(check_inner(c, s, stmt->body, c->lanes->var, true));
    c->region = HN_FORM_IN_LANES;
    return NULL;
}

static hn_status check_stmt(checker *c, hn_fid s) {
    const hn_form_stmt *stmt = &c->f->stmts.items[s];
    HN_TRY(hn_form_check_place(stmt, c->region));
    HN_TRY(hn_form_check_attributes(stmt));
    switch (stmt->kind) {
    case HN_FORM_FOR: return check_for(c, s, stmt);
    case HN_FORM_IF: return check_if(c, s, stmt);
    case HN_FORM_LET: return check_let(c, stmt);
    case HN_FORM_VALUE: return check_value_stmt(c, s, &stmt->op);
    case HN_FORM_STORE: return check_store(c, stmt);
    case HN_FORM_INIT: return check_init(c, stmt);
    case HN_FORM_STEP:
    case HN_FORM_SET: return check_step(c, stmt);
    case HN_FORM_BARRIER: return check_together(c, "a barrier");
    case HN_FORM_BLOCK: return check_inner(c, s, stmt->body, 0, false);
    case HN_FORM_LANES: return check_lanes(c, s, stmt);
    case HN_FORM_VECTOR: return check_vector(c, s, stmt);
    case HN_FORM_ACROSS: return check_across(c, stmt);
    case HN_FORM_PREFETCH: return check_prefetch(c, stmt);
    case HN_FORM_BEFORE: return check_before(c, stmt);
    case HN_FORM_MOVE: return check_move(c, stmt);
    case HN_FORM_AWAIT:
        return stmt->count > HN_FORM_BATCHES_MOST
                   ? BAD("it leaves %u batches under way", stmt->count)
                   : NULL;
    case HN_FORM_TRANSPOSE: return check_transpose(c, stmt);
    case HN_FORM_IF_ALIGNED: return check_if_aligned(c, s, stmt);
    case HN_FORM_KIND_COUNT: break;
    }
    return BAD("no kind of statement");
}

static hn_status check_block(checker *c, hn_fid first) {
    for (hn_fid s = first; s; s = c->f->stmts.items[s].next) {
        if (s >= c->f->stmts.count)
            return BAD("behind it or in it is statement %u, which does not exist", s);
        c->place = (hn_form_place){HN_FORM_PART_STMT, s};
        if (c->reached[s]) return BAD("it stands in two places");
        c->reached[s] = true;
        HN_TRY(check_stmt(c, s));
    }
    return NULL;
}

/* --- forms --- */

static bool is_index(const hn_form *f, hn_expr symbol, hn_expr extent) {
    return hn_sym_symbol_kind(f->sym, symbol) == HN_SYMBOL_INDEX &&
           hn_sym_symbol_extent(f->sym, symbol) == extent;
}

static hn_status check_groups(checker *c) {
    const hn_form *f = c->f;
    c->region = HN_FORM_IN_GROUP;
    if (!f->threads) return BAD("a group has no threads");
    HN_TRY(hn_form_check_blocks(f));
    if (f->is_narrow && !hn_form_fits_words(f))
        return BAD("it is narrow, but an index may need more than 32 bits");
    HN_TRY(check_size(c, f->grid, "the number of groups"));
    if (!is_index(f, f->group, f->grid) || !is_index(f, f->thread, hn_sym_int(f->sym, f->threads)))
        return BAD("group or thread is no index symbol below the number of them");
    if (f->first || f->until) return BAD("groups, but the ends of a range");
    HN_TRY(define_variable(c, f->group, false));
    return define_variable(c, f->thread, true);
}

static hn_status check_range(checker *c) {
    const hn_form *f = c->f;
    c->region = HN_FORM_IN_RANGE;
    if (f->threads != 1 || f->blocks != 1) return BAD("a range is not run by one thread");
    if (f->is_narrow) return BAD("a range is narrow");
    if (f->resident) return BAD("ranges are on no multiprocessor");
    if (f->grain < 1) return BAD("the grain is not above 0");
    HN_TRY(check_size(c, f->grid, "the number of iterations"));
    hn_expr extent = hn_sym_add(f->sym, f->grid, hn_sym_int(f->sym, 1));
    if (!is_index(f, f->first, extent) || !is_index(f, f->until, extent))
        return BAD("first or until is no index symbol up to the number of iterations");
    if (f->group || f->thread) return BAD("ranges, but the numbers of a group");
    HN_TRY(define_variable(c, f->first, false));
    return define_variable(c, f->until, false);
}

static hn_status begin(checker *c) {
    const hn_form *f = c->f;
    HN_NEW(c->scratch, c->reached, f->stmts.count);
    HN_NEW(c->scratch, c->defined, f->stmts.count);
    HN_NEW(c->scratch, c->ready, f->registers.count);
    HN_NEW(c->scratch, c->across, f->registers.count);
    HN_NEW(c->scratch, c->is_read, f->memories.count);
    HN_NEW(c->scratch, c->is_written, f->memories.count);
    return NULL;
}

static hn_status check(checker *c) {
    const hn_form *f = c->f;
    HN_TRY(begin(c));
    HN_TRY(f->lanes ? check_range(c) : check_groups(c));
    for (hn_fmem m = 1; m < f->memories.count; m++) HN_TRY(check_memory(c, m));
    for (hn_freg r = 1; r < f->registers.count; r++) HN_TRY(check_register(c, r));
    c->place = (hn_form_place){HN_FORM_PART_WHOLE, 0};
    HN_TRY(check_block(c, f->body));
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        c->place = (hn_form_place){HN_FORM_PART_STMT, s};
        if (!c->reached[s]) return BAD("it is in no block");
    }
    for (hn_fmem m = 1; m < f->memories.count; m++) HN_TRY(check_access(c, m));
    for (hn_freg r = 1; r < f->registers.count; r++) HN_TRY(check_combined(c, r));
    c->place = (hn_form_place){HN_FORM_PART_WHOLE, 0};
    return hn_form_check_segments(f, c->scratch);
}

hn_status hn_form_check(const hn_form *f, hn_form_place *out_place, hn_form_sizes *out_sizes) {
    static const char *const names[] = {[HN_FORM_PART_MEMORY] = "memory m",
                                        [HN_FORM_PART_REGISTER] = "register r",
                                        [HN_FORM_PART_STMT] = "statement "};
    hn_arena scratch;
    hn_arena_init(&scratch);
    checker c = {.f = f, .scratch = &scratch, .sizes = out_sizes};
    if (out_sizes) out_sizes->count = 0;
    hn_status status = check(&c);
    hn_arena_deinit(&scratch);
    if (out_place) *out_place = c.place;
    if (hn_status_code(status) != HN_INTERNAL) return status;
    if (c.place.part == HN_FORM_PART_WHOLE) return hn_status_annotate(status, "kernel form");
    return hn_status_annotate(status, "kernel form, %s%u", names[c.place.part], c.place.id);
}

hn_status hn_form_verify(const hn_form *f) { return hn_form_check(f, NULL, NULL); }
