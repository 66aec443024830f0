/* verify_names.c: what a form speaks of: expressions and the symbols that are in scope in them,
 * values, memories and registers. */
#include "kernel/verify_impl.h"

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

hn_status hn_verify_expr(checker *c, hn_expr e, const char *what, bool *out_varies) {
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

hn_status hn_verify_fixed(checker *c, hn_fmem m, hn_expr index) {
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

hn_status hn_verify_unstaged(const checker *c, hn_fmem m) {
    return c->f->memories.items[m].space == HN_SPACE_STAGED ? BAD("only moves reach staged memory")
                                                            : NULL;
}

hn_status hn_verify_plain(checker *c, hn_expr e, const char *what) {
    bool varies = false;
    return hn_verify_expr(c, e, what, &varies);
}

hn_status hn_verify_index(checker *c, hn_expr e) { return hn_verify_plain(c, e, "the index"); }

hn_status hn_verify_size(checker *c, hn_expr e, const char *what) {
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

hn_status hn_verify_define_symbol(checker *c, hn_expr symbol, bool varies) {
    bool taken = c->region == HN_FORM_IN_LANES && have_one_name(c->f->sym, c->lanes->var, symbol);
    for (uint32_t k = 0; k < c->symbols.count && !taken; k++)
        taken = have_one_name(c->f->sym, c->symbols.items[k].symbol, symbol);
    if (taken) return BAD("%s is defined already", text_of(c, symbol));
    HN_PUSH(c->scratch, &c->symbols, ((scope_symbol){.symbol = symbol, .varies = varies}));
    return NULL;
}

hn_status hn_verify_define_variable(checker *c, hn_expr var, bool varies) {
    const hn_sym *sym = c->f->sym;
    if (hn_sym_symbol_kind(sym, var) != HN_SYMBOL_INDEX)
        return BAD("what it defines is no index symbol");
    if (hn_sym_index_ordinal(sym, var) >= c->f->ordinals)
        return BAD("the number of %s is not below that of the form's index symbols",
                   text_of(c, var));
    hn_form_sizes *sizes = c->sizes;
    c->sizes = NULL; /* the kernel does not evaluate the extent */
    HN_TRY(hn_verify_plain(c, hn_sym_symbol_extent(sym, var), "the extent of the symbol"));
    c->sizes = sizes;
    return hn_verify_define_symbol(c, var, varies);
}

hn_status hn_verify_mark(checker *c, bool *flag) {
    if (*flag) return NULL;
    *flag = true;
    HN_PUSH(c->scratch, &c->marks, flag);
    return NULL;
}

hn_status hn_verify_value(const checker *c, hn_fid value, const char *what) {
    if (!value) return BAD("%s is missing", what);
    if (value >= c->f->stmts.count || c->f->stmts.items[value].kind != HN_FORM_VALUE)
        return BAD("%s: statement %u computes no value", what, value);
    return c->defined[value] ? NULL : BAD("%s %%%u is not defined here", what, value);
}

hn_dtype hn_verify_dtype_of(const checker *c, hn_fid value) {
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
    return memory->base ? hn_verify_size(c, memory->base, "its base") : NULL;
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

hn_status hn_verify_memory(checker *c, hn_fmem m) {
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
    HN_TRY(hn_verify_size(c, memory->elems, "the number of its elements"));
    return hn_verify_plain(c, memory->elems, "the number of its elements");
}

hn_status hn_verify_access(checker *c, hn_fmem m) {
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

hn_status hn_verify_register(checker *c, hn_freg r) {
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

hn_status hn_verify_combined(checker *c, hn_freg r) {
    c->place = (hn_form_place){HN_FORM_PART_REGISTER, r};
    if (c->across[r] == c->f->registers.items[r].across) return NULL;
    return BAD("%s", c->across[r] ? "its lanes are combined, but it is not marked as across"
                                  : "it is marked as across, but nothing combines its lanes");
}

hn_status hn_verify_register_id(const checker *c, int64_t r) {
    if (r > 0 && r < c->f->registers.count) return NULL;
    return BAD("there is no register r%lld", (long long)r);
}

hn_status hn_verify_memory_id(const checker *c, hn_fmem m) {
    return m && m < c->f->memories.count ? NULL : BAD("there is no memory m%u", m);
}

hn_status hn_verify_ready(const checker *c, hn_freg r) {
    HN_TRY(hn_verify_register_id(c, r));
    return c->ready[r] ? NULL : BAD("r%u is not initialised here", r);
}
