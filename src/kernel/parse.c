/* parse.c: reads the text of a form. Each function stands for a rule of the grammar in
 * docs/kernel-forms.md. It builds with the functions of form.h. Then the form is verified, and
 * errors of that name a line and a column, too. */
#include "ir/sop_text.h"
#include "ir/text.h"
#include "kernel/check.h"
#include "kernel/text.h"

/* An interpreter may keep a table of them. */
enum { ORDINALS_MOST = 1 << 16 };

typedef struct places {
    const char **items;
    uint32_t count, cap;
} places;

typedef struct parser {
    hn_lex lex;
    const hn_program *program;
    hn_arena *arena;
    hn_form *f;
    const char *begin;                 /* of the form */
    places memories, registers, stmts; /* where they stand, by number */
    struct {
        struct alias {
            hn_fmem m, other;
            const char *where;
        } * items;
        uint32_t count, cap;
    } aliases; /* memories that may lie where others do, which may come later */
} parser;

static hn_status fail(parser *ps, const char *what) {
    return hn_lex_fail(&ps->lex, ps->lex.p, what);
}

static hn_status read_expr(parser *ps, hn_expr *out) {
    return hn_lex_expr(&ps->lex, ps->program->sym, out);
}

/* What values and stores may refer to. */
static hn_sop_reader sops(parser *ps) {
    return (hn_sop_reader){.lex = &ps->lex,
                           .sym = ps->program->sym,
                           .letter = 'm',
                           .memory_name = "memory",
                           .memory_count = ps->f->memories.count,
                           .value_count = ps->f->stmts.count};
}

/* --- symbols --- */

/* The number of an index symbol. */
static hn_status read_ordinal(parser *ps, uint32_t *out) {
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(hn_text_read_numbered(&ps->lex, 'i', "expected an index symbol", out));
    if (*out < ORDINALS_MOST) return NULL;
    return hn_lex_fail(&ps->lex, where, "the number of the index symbol is too large");
}

static hn_status make_symbol(parser *ps, uint32_t ordinal, hn_expr extent, hn_expr *out) {
    *out = hn_sym_index(ps->program->sym, ordinal, extent);
    if (ps->f->ordinals <= ordinal) ps->f->ordinals = ordinal + 1;
    return hn_lex_blame(&ps->lex, ps->lex.p, hn_sym_status(ps->program->sym));
}

/* --- statements --- */

/* i66 in [i65, s0) */
static hn_status read_interval(parser *ps, uint32_t *ordinal, hn_form_stmt *stmt) {
    HN_TRY(read_ordinal(ps, ordinal));
    HN_TRY(hn_lex_expect_word(&ps->lex, "in"));
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    HN_TRY(read_expr(ps, &stmt->begin));
    HN_TRY(hn_lex_expect(&ps->lex, ','));
    HN_TRY(read_expr(ps, &stmt->end));
    return hn_lex_expect(&ps->lex, ')');
}

/* unroll 4 */
static hn_status read_unroll(parser *ps, hn_form_stmt *stmt) {
    return hn_lex_accept_word(&ps->lex, "unroll") ? hn_lex_u32(&ps->lex, &stmt->unroll) : NULL;
}

/* extent s0 {, behind an interval */
static hn_status read_extent(parser *ps, uint32_t ordinal, hn_form_stmt *stmt) {
    hn_expr extent = stmt->end;
    if (hn_lex_accept_word(&ps->lex, "extent")) HN_TRY(read_expr(ps, &extent));
    HN_TRY(make_symbol(ps, ordinal, extent, &stmt->var));
    return hn_lex_expect(&ps->lex, '{');
}

/* i66 in [i65, s0) step 256 unroll 4 extent s0 { */
static hn_status read_for(parser *ps, hn_form_stmt *stmt) {
    uint32_t ordinal;
    HN_TRY(read_interval(ps, &ordinal, stmt));
    stmt->step = 1;
    if (hn_lex_accept_word(&ps->lex, "step")) HN_TRY(hn_lex_i64(&ps->lex, &stmt->step));
    HN_TRY(read_unroll(ps, stmt));
    return read_extent(ps, ordinal, stmt);
}

static hn_form_rest read_rest(parser *ps) {
    uint32_t first = HN_FORM_REST_NONE + 1, count = HN_FORM_REST_MASKED_STEP + 1 - first;
    uint32_t found = hn_text_accept_one_of(&ps->lex, hn_rest_names + first, count);
    return found < count ? (hn_form_rest)(first + found) : HN_FORM_REST_NONE;
}

/* i3 in [0, s1) unroll 4 whole single masked extent s1 { */
static hn_status read_lanes(parser *ps, hn_form_stmt *stmt) {
    uint32_t ordinal;
    HN_TRY(read_interval(ps, &ordinal, stmt));
    stmt->unroll = 1;
    HN_TRY(read_unroll(ps, stmt));
    stmt->lanes.whole = hn_lex_accept_word(&ps->lex, "whole");
    stmt->lanes.single = hn_lex_accept_word(&ps->lex, "single");
    stmt->lanes.rest = read_rest(ps);
    return read_extent(ps, ordinal, stmt);
}

/* { */
static hn_status read_open(parser *ps, hn_form_stmt *stmt) {
    (void)stmt;
    return hn_lex_expect(&ps->lex, '{');
}

/* i65 < 128 {, or aligned m1 { */
static hn_status read_if(parser *ps, hn_form_stmt *stmt) {
    if (hn_lex_accept_word(&ps->lex, "aligned")) {
        const hn_sop_reader r = sops(ps);
        stmt->kind = HN_FORM_IF_ALIGNED;
        HN_TRY(hn_sop_read_memory(&r, &stmt->memory));
        return hn_lex_expect(&ps->lex, '{');
    }
    HN_TRY(read_expr(ps, &stmt->begin));
    HN_TRY(hn_lex_expect(&ps->lex, '<'));
    HN_TRY(read_expr(ps, &stmt->end));
    return hn_lex_expect(&ps->lex, '{');
}

/* i66 < s0 = 256*i64 + i65 */
static hn_status read_let(parser *ps, hn_form_stmt *stmt) {
    uint32_t ordinal;
    hn_expr extent;
    HN_TRY(read_ordinal(ps, &ordinal));
    HN_TRY(hn_lex_expect(&ps->lex, '<'));
    HN_TRY(read_expr(ps, &extent));
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    HN_TRY(read_expr(ps, &stmt->begin));
    return make_symbol(ps, ordinal, extent, &stmt->var);
}

/* %5 = add(%3, %4) : f32 */
static hn_status read_value(parser *ps, hn_form_stmt *stmt) {
    const char *where = hn_lex_here(&ps->lex);
    const hn_sop_reader r = sops(ps);
    uint32_t number;
    HN_TRY(hn_lex_expect(&ps->lex, '%'));
    HN_TRY(hn_lex_u32(&ps->lex, &number));
    if (number != ps->f->stmts.count)
        return hn_lex_fail(&ps->lex, where, "a value has the number of its statement, from 1");
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    return hn_sop_read(&r, &stmt->op);
}

/* m3[i65] += %5 */
static hn_status read_store(parser *ps, hn_form_stmt *stmt) {
    const hn_sop_reader r = sops(ps);
    hn_loop_store store;
    HN_TRY(hn_sop_read_store(&r, &store));
    stmt->memory = store.buffer;
    stmt->index = store.index;
    stmt->value = store.value;
    stmt->mode = store.mode;
    return NULL;
}

static hn_status read_register(parser *ps, hn_freg *out) {
    return hn_text_read_numbered(&ps->lex, 'r', "expected a register", out);
}

/* r1 %5 at %6: STEP and SET */
static hn_status read_step(parser *ps, hn_form_stmt *stmt) {
    const hn_sop_reader r = sops(ps);
    HN_TRY(read_register(ps, &stmt->reg));
    HN_TRY(hn_sop_read_value(&r, &stmt->value));
    return hn_lex_accept_word(&ps->lex, "at") ? hn_sop_read_value(&r, &stmt->position) : NULL;
}

/* r1 */
static hn_status read_init(parser *ps, hn_form_stmt *stmt) { return read_register(ps, &stmt->reg); }

/* 32 pitch 8 */
static hn_status read_row(parser *ps, hn_form_stmt *stmt) {
    stmt->pitch = 1;
    HN_TRY(hn_lex_u32(&ps->lex, &stmt->width));
    return hn_lex_accept_word(&ps->lex, "pitch") ? hn_lex_u32(&ps->lex, &stmt->pitch) : NULL;
}

/* r1 width 32 pitch 8, or of lanes r1 */
static hn_status read_across(parser *ps, hn_form_stmt *stmt) {
    HN_TRY(read_register(ps, &stmt->reg));
    return hn_lex_accept_word(&ps->lex, "width") ? read_row(ps, stmt) : NULL;
}

/* r1 all r2 width 32 pitch 8 */
static hn_status read_before(parser *ps, hn_form_stmt *stmt) {
    HN_TRY(read_register(ps, &stmt->reg));
    HN_TRY(hn_lex_expect_word(&ps->lex, "all"));
    HN_TRY(read_register(ps, &stmt->all));
    HN_TRY(hn_lex_expect_word(&ps->lex, "width"));
    return read_row(ps, stmt);
}

/* m3[4*i66] = m1[4*i65] count 4 */
static hn_status read_move(parser *ps, hn_form_stmt *stmt) {
    const hn_sop_reader r = sops(ps);
    HN_TRY(hn_sop_read_access(&r, &stmt->memory, &stmt->index));
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    HN_TRY(hn_sop_read_access(&r, &stmt->from, &stmt->from_index));
    HN_TRY(hn_lex_expect_word(&ps->lex, "count"));
    return hn_lex_u32(&ps->lex, &stmt->count);
}

/* 1 */
static hn_status read_await(parser *ps, hn_form_stmt *stmt) {
    return hn_lex_u32(&ps->lex, &stmt->count);
}

/* m1[i65 + 64] write every 2 */
static hn_status read_prefetch(parser *ps, hn_form_stmt *stmt) {
    const hn_sop_reader r = sops(ps);
    HN_TRY(hn_sop_read_access(&r, &stmt->memory, &stmt->index));
    if (hn_lex_accept_word(&ps->lex, "write")) stmt->fetch = HN_FETCH_WRITE;
    else if (hn_lex_accept_word(&ps->lex, "far")) stmt->fetch = HN_FETCH_FAR;
    stmt->every = 1;
    return hn_lex_accept_word(&ps->lex, "every") ? hn_lex_u32(&ps->lex, &stmt->every) : NULL;
}

/* stride s1, rows 8, columns 8 */
static hn_status read_square(parser *ps, hn_form_transpose *t) {
    HN_TRY(hn_lex_expect_word(&ps->lex, "stride"));
    HN_TRY(read_expr(ps, &t->stride));
    HN_TRY(hn_lex_expect(&ps->lex, ','));
    HN_TRY(hn_lex_expect_word(&ps->lex, "rows"));
    HN_TRY(read_expr(ps, &t->rows));
    HN_TRY(hn_lex_expect(&ps->lex, ','));
    HN_TRY(hn_lex_expect_word(&ps->lex, "columns"));
    return read_expr(ps, &t->columns);
}

/* m3[0] pitch 64 = m1[i65] stride s1, rows 8, columns 8 */
static hn_status read_transpose(parser *ps, hn_form_stmt *stmt) {
    const hn_sop_reader r = sops(ps);
    hn_form_transpose *t;
    HN_NEW(ps->arena, t, 1);
    stmt->transpose = t;
    HN_TRY(hn_sop_read_access(&r, &stmt->memory, &stmt->index));
    HN_TRY(hn_lex_expect_word(&ps->lex, "pitch"));
    HN_TRY(hn_lex_i64(&ps->lex, &t->pitch));
    HN_TRY(hn_lex_expect(&ps->lex, '='));
    HN_TRY(hn_sop_read_access(&r, &t->from, &t->from_index));
    return read_square(ps, t);
}

static hn_status read_barrier(parser *ps, hn_form_stmt *stmt) {
    (void)ps, (void)stmt;
    return NULL;
}

static hn_status read_any(parser *ps, hn_form_stmt *stmt) {
    static const struct {
        const char *word;
        hn_form_kind kind;
        hn_status (*read)(parser *ps, hn_form_stmt *stmt);
    } kinds[] = {
        {"for", HN_FORM_FOR, read_for},
        {"if", HN_FORM_IF, read_if},
        {"let", HN_FORM_LET, read_let},
        {"init", HN_FORM_INIT, read_init},
        {"step", HN_FORM_STEP, read_step},
        {"barrier", HN_FORM_BARRIER, read_barrier},
        {"set", HN_FORM_SET, read_step},
        {"block", HN_FORM_BLOCK, read_open},
        {"lanes", HN_FORM_LANES, read_lanes},
        {"vector", HN_FORM_VECTOR, read_open},
        {"across", HN_FORM_ACROSS, read_across},
        {"before", HN_FORM_BEFORE, read_before},
        {"move", HN_FORM_MOVE, read_move},
        {"await", HN_FORM_AWAIT, read_await},
        {"prefetch", HN_FORM_PREFETCH, read_prefetch},
        {"transpose", HN_FORM_TRANSPOSE, read_transpose},
    };
    uint32_t ignored;
    stmt->kind = HN_FORM_VALUE;
    if (hn_lex_peek(&ps->lex) == '%') return read_value(ps, stmt);
    stmt->kind = HN_FORM_STORE;
    if (hn_text_peek_numbered(&ps->lex, 'm', &ignored)) return read_store(ps, stmt);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        stmt->kind = kinds[k].kind;
        if (hn_lex_accept_word(&ps->lex, kinds[k].word)) return kinds[k].read(ps, stmt);
    }
    return fail(ps, "expected a statement");
}

/* rounded, streams in_order: each at most once, in the order of the table */
static void read_attributes(parser *ps, hn_form_stmt *stmt) {
    for (uint32_t k = 0; k < HN_ATTRIBUTE_COUNT; k++) {
        const hn_attribute *a = &hn_attributes[k];
        if (a->kind == stmt->kind && hn_lex_accept_word(&ps->lex, a->name))
            *(bool *)((char *)stmt + a->offset) = true;
    }
}

static hn_status read_stmt(parser *ps) {
    hn_form_stmt stmt = {0};
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(read_any(ps, &stmt));
    read_attributes(ps, &stmt);
    HN_PUSH(ps->arena, &ps->stmts, where);
    (void)hn_form_add(ps->f, stmt);
    return NULL;
}

/* Behind the "}" of an inner block. */
static hn_status close_block(parser *ps) {
    const struct hn_form_block *block = &ps->f->open.items[ps->f->open.count - 1];
    hn_form_kind kind = ps->f->stmts.items[block->owner].kind;
    bool may_go_on = hn_form_kind_branches(kind) && !block->is_otherwise;
    if (may_go_on && hn_lex_accept_word(&ps->lex, "else")) {
        hn_form_else(ps->f);
        return hn_lex_expect(&ps->lex, '{');
    }
    hn_form_close(ps->f);
    return NULL;
}

/* All statements, with their blocks, and the "}" of the form. */
static hn_status read_stmts(parser *ps) {
    while (!ps->f->failed) {
        if (!hn_lex_peek(&ps->lex)) return fail(ps, "expected '}'");
        if (!hn_lex_accept(&ps->lex, '}')) HN_TRY(read_stmt(ps));
        else if (ps->f->open.count == 1) return NULL;
        else HN_TRY(close_block(ps));
    }
    return NULL;
}

/* --- memories and registers --- */

/* b1[s0] f32 */
static hn_status read_argument(parser *ps, hn_form_memory *memory) {
    HN_TRY(hn_text_read_numbered(&ps->lex, 'b', "expected a buffer", &memory->buffer));
    if (hn_lex_accept(&ps->lex, '[')) {
        HN_TRY(read_expr(ps, &memory->base));
        HN_TRY(hn_lex_expect(&ps->lex, ']'));
    }
    return hn_text_read_dtype(&ps->lex, &memory->dtype);
}

/* f32[256] */
static hn_status read_local(parser *ps, hn_form_memory *memory) {
    HN_TRY(hn_text_read_dtype(&ps->lex, &memory->dtype));
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    HN_TRY(read_expr(ps, &memory->elems));
    return hn_lex_expect(&ps->lex, ']');
}

/* over m1, m3: behind memory `m` */
static hn_status read_aliases(parser *ps, hn_fmem m) {
    if (!hn_lex_accept_word(&ps->lex, "over")) return NULL;
    do {
        struct alias alias = {.m = m, .where = hn_lex_here(&ps->lex)};
        HN_TRY(hn_text_read_numbered(&ps->lex, 'm', "expected a memory", &alias.other));
        HN_PUSH(ps->arena, &ps->aliases, alias);
    } while (hn_lex_accept(&ps->lex, ','));
    return NULL;
}

/* When all memories are known. */
static hn_status set_alias(parser *ps, const struct alias *alias) {
    const hn_form_memory *items = ps->f->memories.items;
    bool known = alias->other && alias->other < ps->f->memories.count;
    if (!known || items[alias->other].space != HN_SPACE_ARGUMENT)
        return hn_lex_fail(&ps->lex, alias->where, "it is no argument");
    uint32_t number = 0;
    for (hn_fmem m = 1; m < alias->other; m++) number += items[m].space == HN_SPACE_ARGUMENT;
    if (number >= HN_FORM_ALIASES_MAX)
        return hn_lex_fail(&ps->lex, alias->where, "it is behind the first 64 arguments");
    ps->f->memories.items[alias->m].may_alias |= UINT64_C(1) << number;
    return NULL;
}

/* m1 : argument b1 f32 read write */
static hn_status read_memory(parser *ps) {
    hn_form_memory memory = {0};
    uint32_t number;
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(hn_text_read_numbered(&ps->lex, 'm', "expected a memory", &number));
    if (number != ps->f->memories.count)
        return hn_lex_fail(&ps->lex, where, "memories are numbered from m1 in order");
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    memory.space = (hn_space)hn_text_accept_one_of(&ps->lex, hn_space_names, HN_SPACE_COUNT);
    if (memory.space == HN_SPACE_COUNT)
        return fail(ps, "expected 'argument', 'shared', 'scratch' or 'private'");
    bool argument = memory.space == HN_SPACE_ARGUMENT;
    HN_TRY(argument ? read_argument(ps, &memory) : read_local(ps, &memory));
    memory.is_read = hn_lex_accept_word(&ps->lex, "read");
    memory.is_written = hn_lex_accept_word(&ps->lex, "write");
    memory.stale = hn_lex_accept_word(&ps->lex, "stale");
    memory.padded = hn_lex_accept_word(&ps->lex, "padded");
    HN_TRY(read_aliases(ps, number));
    HN_PUSH(ps->arena, &ps->memories, where);
    (void)hn_form_add_memory(ps->f, memory);
    return NULL;
}

/* r1 : sum f32 */
static hn_status read_declared_register(parser *ps) {
    uint32_t number;
    hn_str word;
    hn_dtype dtype;
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(read_register(ps, &number));
    if (number != ps->f->registers.count)
        return hn_lex_fail(&ps->lex, where, "registers are numbered from r1 in order");
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    HN_TRY(hn_lex_word(&ps->lex, "expected what is combined by", &word));
    hn_op op = hn_op_find(word);
    if (!op) return hn_lex_fail(&ps->lex, word.ptr, "unknown op");
    HN_TRY(hn_text_read_dtype(&ps->lex, &dtype));
    HN_PUSH(ps->arena, &ps->registers, where);
    hn_freg reg = hn_form_add_register(ps->f, op, dtype);
    ps->f->registers.items[reg].across = hn_lex_accept_word(&ps->lex, "across");
    ps->f->registers.items[reg].loses_nan = hn_lex_accept_word(&ps->lex, "loses_nan");
    return NULL;
}

/* Whether a letter, a number and a colon are next. */
static bool is_declaration(parser *ps, char letter) {
    uint32_t ignored;
    if (!hn_text_peek_numbered(&ps->lex, letter, &ignored)) return false;
    hn_lex ahead = ps->lex;
    ahead.p += hn_lex_peek_word(&ahead).len;
    return hn_lex_peek(&ahead) == ':';
}

/* --- forms --- */

/* i64; `what`: an error */
static hn_status read_fixed(parser *ps, uint32_t ordinal, const char *what) {
    uint32_t number;
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(hn_text_read_numbered(&ps->lex, 'i', "expected an index symbol", &number));
    return number == ordinal ? NULL : hn_lex_fail(&ps->lex, where, what);
}

/* group i64 < */
static hn_status read_role(parser *ps, const char *role, uint32_t ordinal) {
    HN_TRY(hn_lex_expect_word(&ps->lex, role));
    HN_TRY(read_fixed(ps, ordinal, "the group is i64, the thread i65"));
    return hn_lex_expect(&ps->lex, '<');
}

/* group i64 < s0; thread i65 < 256; blocks 2; resident 4; narrow */
static hn_status read_groups(parser *ps) {
    hn_expr grid;
    uint32_t threads;
    HN_TRY(read_role(ps, "group", HN_FORM_FIRST_ORDINAL));
    HN_TRY(hn_text_read_size(&ps->lex, ps->program->sym, &grid));
    HN_TRY(hn_lex_expect(&ps->lex, ';'));
    HN_TRY(read_role(ps, "thread", HN_FORM_FIRST_ORDINAL + 1));
    HN_TRY(hn_lex_u32(&ps->lex, &threads));
    HN_TRY(hn_form_create(ps->program, ps->arena, threads, grid, &ps->f));
    if (!hn_lex_accept(&ps->lex, ';')) return NULL;
    if (hn_lex_accept_word(&ps->lex, "blocks")) {
        HN_TRY(hn_lex_u32(&ps->lex, &ps->f->blocks));
        if (!hn_lex_accept(&ps->lex, ';')) return NULL;
    }
    if (hn_lex_accept_word(&ps->lex, "resident")) {
        HN_TRY(hn_lex_u32(&ps->lex, &ps->f->resident));
        if (!hn_lex_accept(&ps->lex, ';')) return NULL;
    }
    ps->f->is_narrow = true;
    return hn_lex_expect_word(&ps->lex, "narrow");
}

/* i64 to i65 of s0; lanes 8; grain 5: behind "range" */
static hn_status read_range(parser *ps) {
    static const char what[] = "a range goes from i64 to i65";
    hn_expr grid;
    uint32_t lanes;
    HN_TRY(read_fixed(ps, HN_FORM_FIRST_ORDINAL, what));
    HN_TRY(hn_lex_expect_word(&ps->lex, "to"));
    HN_TRY(read_fixed(ps, HN_FORM_FIRST_ORDINAL + 1, what));
    HN_TRY(hn_lex_expect_word(&ps->lex, "of"));
    HN_TRY(hn_text_read_size(&ps->lex, ps->program->sym, &grid));
    HN_TRY(hn_lex_expect(&ps->lex, ';'));
    HN_TRY(hn_lex_expect_word(&ps->lex, "lanes"));
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(hn_lex_u32(&ps->lex, &lanes));
    if (!lanes) return hn_lex_fail(&ps->lex, where, "a vector has no lanes");
    HN_TRY(hn_form_create_range(ps->program, ps->arena, lanes, grid, &ps->f));
    HN_TRY(hn_lex_expect(&ps->lex, ';'));
    HN_TRY(hn_lex_expect_word(&ps->lex, "grain"));
    return hn_lex_i64(&ps->lex, &ps->f->grain);
}

/* form (group ...) { */
static hn_status read_header(parser *ps) {
    hn_expr length;
    ps->begin = hn_lex_here(&ps->lex);
    HN_TRY(hn_lex_expect_word(&ps->lex, "form"));
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    HN_TRY(hn_form_read_length(&ps->lex, ps->program->sym, &length));
    HN_TRY(hn_lex_accept_word(&ps->lex, "range") ? read_range(ps) : read_groups(ps));
    ps->f->segment_length = length;
    HN_TRY(hn_lex_expect(&ps->lex, ')'));
    return hn_lex_expect(&ps->lex, '{');
}

static hn_status read_amount(parser *ps, const char *unit, double *out) {
    hn_str text = hn_lex_number(&ps->lex);
    if (!hn_text_read_float(text, out)) return hn_lex_fail(&ps->lex, text.ptr, "expected a float");
    return hn_lex_expect_word(&ps->lex, unit);
}

/* cost 8192.0 bytes 1024.0 operations 3500.0 ns */
static hn_status read_cost(parser *ps) {
    if (!hn_lex_accept_word(&ps->lex, "cost")) return NULL;
    HN_TRY(read_amount(ps, "bytes", &ps->f->cost.bytes));
    HN_TRY(read_amount(ps, "operations", &ps->f->cost.operations));
    return read_amount(ps, "ns", &ps->f->cost.ns);
}

static const char *where_is(const parser *ps, hn_form_place place) {
    switch (place.part) {
    case HN_FORM_PART_MEMORY: return ps->memories.items[place.id - 1];
    case HN_FORM_PART_REGISTER: return ps->registers.items[place.id - 1];
    case HN_FORM_PART_STMT: return ps->stmts.items[place.id - 1];
    case HN_FORM_PART_WHOLE: break;
    }
    return ps->begin;
}

/* What building says, then what the verifier says. */
static hn_status finish(parser *ps) {
    hn_form_place place;
    hn_status status = ps->f->failed;
    ps->f->failed = NULL;
    if (!status) status = hn_sym_status(ps->program->sym);
    if (status) return status;
    status = hn_form_check(ps->f, &place, &ps->f->sizes);
    return hn_lex_blame(&ps->lex, where_is(ps, place), status);
}

static hn_status read_form(parser *ps) {
    HN_TRY(read_header(ps));
    HN_TRY(read_cost(ps));
    while (is_declaration(ps, 'm')) HN_TRY(read_memory(ps));
    for (uint32_t k = 0; k < ps->aliases.count; k++) HN_TRY(set_alias(ps, &ps->aliases.items[k]));
    while (is_declaration(ps, 'r')) HN_TRY(read_declared_register(ps));
    HN_TRY(hn_form_read_segments(&ps->lex, ps->f));
    HN_TRY(read_stmts(ps));
    if (ps->f->failed) return finish(ps);
    if (hn_lex_peek(&ps->lex)) return fail(ps, "expected the end of the text");
    return finish(ps);
}

hn_status hn_form_parse(const hn_program *program, hn_arena *arena, hn_str text, hn_form **out) {
    const char *start = text.ptr ? text.ptr : "";
    parser ps = {.lex = {.arena = arena, .start = start, .p = start, .end = start + text.len},
                 .program = program,
                 .arena = arena};
    hn_status status = read_form(&ps);
    if (status && ps.f) hn_status_free(ps.f->failed);
    if (!status) *out = ps.f;
    return status;
}
