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

/* step 256 unroll 4 extent s0 */
static hn_status read_options(parser *ps, hn_form_stmt *stmt, hn_expr *extent) {
    stmt->step = 1;
    if (hn_lex_accept_word(&ps->lex, "step")) HN_TRY(hn_lex_i64(&ps->lex, &stmt->step));
    if (hn_lex_accept_word(&ps->lex, "unroll")) HN_TRY(hn_lex_u32(&ps->lex, &stmt->unroll));
    *extent = stmt->end;
    return hn_lex_accept_word(&ps->lex, "extent") ? read_expr(ps, extent) : NULL;
}

/* i66 in [i65, s0) step 256 { */
static hn_status read_for(parser *ps, hn_form_stmt *stmt) {
    uint32_t ordinal;
    hn_expr extent;
    HN_TRY(read_ordinal(ps, &ordinal));
    HN_TRY(hn_lex_expect_word(&ps->lex, "in"));
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    HN_TRY(read_expr(ps, &stmt->begin));
    HN_TRY(hn_lex_expect(&ps->lex, ','));
    HN_TRY(read_expr(ps, &stmt->end));
    HN_TRY(hn_lex_expect(&ps->lex, ')'));
    HN_TRY(read_options(ps, stmt, &extent));
    HN_TRY(make_symbol(ps, ordinal, extent, &stmt->var));
    return hn_lex_expect(&ps->lex, '{');
}

/* i65 < 128 { */
static hn_status read_if(parser *ps, hn_form_stmt *stmt) {
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

/* r1 %5 at %6 */
static hn_status read_step(parser *ps, hn_form_stmt *stmt) {
    const hn_sop_reader r = sops(ps);
    HN_TRY(read_register(ps, &stmt->reg));
    HN_TRY(hn_sop_read_value(&r, &stmt->value));
    return hn_lex_accept_word(&ps->lex, "at") ? hn_sop_read_value(&r, &stmt->position) : NULL;
}

static hn_status read_init(parser *ps, hn_form_stmt *stmt) { return read_register(ps, &stmt->reg); }

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
        {"for", HN_FORM_FOR, read_for},    {"if", HN_FORM_IF, read_if},
        {"let", HN_FORM_LET, read_let},    {"init", HN_FORM_INIT, read_init},
        {"step", HN_FORM_STEP, read_step}, {"barrier", HN_FORM_BARRIER, read_barrier},
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

static hn_status read_stmt(parser *ps) {
    hn_form_stmt stmt = {0};
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(read_any(ps, &stmt));
    HN_PUSH(ps->arena, &ps->stmts, where);
    (void)hn_form_add(ps->f, stmt);
    return NULL;
}

/* Behind the "}" of an inner block. */
static hn_status close_block(parser *ps) {
    const struct hn_form_block *block = &ps->f->open.items[ps->f->open.count - 1];
    bool may_go_on = ps->f->stmts.items[block->owner].kind == HN_FORM_IF && !block->is_otherwise;
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
        return fail(ps, "expected 'argument', 'shared' or 'scratch'");
    bool argument = memory.space == HN_SPACE_ARGUMENT;
    HN_TRY(argument ? read_argument(ps, &memory) : read_local(ps, &memory));
    memory.is_read = hn_lex_accept_word(&ps->lex, "read");
    memory.is_written = hn_lex_accept_word(&ps->lex, "write");
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
    (void)hn_form_add_register(ps->f, op, dtype);
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

/* group i64 < s0 */
static hn_status read_role(parser *ps, const char *role, uint32_t ordinal) {
    uint32_t number;
    HN_TRY(hn_lex_expect_word(&ps->lex, role));
    const char *where = hn_lex_here(&ps->lex);
    HN_TRY(hn_text_read_numbered(&ps->lex, 'i', "expected an index symbol", &number));
    if (number != ordinal) return hn_lex_fail(&ps->lex, where, "the group is i64, the thread i65");
    return hn_lex_expect(&ps->lex, '<');
}

/* form (group i64 < s0; thread i65 < 256) { */
static hn_status read_header(parser *ps) {
    hn_expr grid;
    uint32_t threads;
    ps->begin = hn_lex_here(&ps->lex);
    HN_TRY(hn_lex_expect_word(&ps->lex, "form"));
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    HN_TRY(read_role(ps, "group", HN_FORM_FIRST_ORDINAL));
    HN_TRY(hn_text_read_size(&ps->lex, ps->program->sym, &grid));
    HN_TRY(hn_lex_expect(&ps->lex, ';'));
    HN_TRY(read_role(ps, "thread", HN_FORM_FIRST_ORDINAL + 1));
    HN_TRY(hn_lex_u32(&ps->lex, &threads));
    HN_TRY(hn_lex_expect(&ps->lex, ')'));
    HN_TRY(hn_lex_expect(&ps->lex, '{'));
    return hn_form_create(ps->program, ps->arena, threads, grid, &ps->f);
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
    status = hn_form_check(ps->f, &place);
    return hn_lex_blame(&ps->lex, where_is(ps, place), status);
}

static hn_status read_form(parser *ps) {
    HN_TRY(read_header(ps));
    HN_TRY(read_cost(ps));
    while (is_declaration(ps, 'm')) HN_TRY(read_memory(ps));
    while (is_declaration(ps, 'r')) HN_TRY(read_declared_register(ps));
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
