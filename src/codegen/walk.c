/* walk.c: see the header. */
#include "codegen/walk.h"

#include <math.h>
#include <string.h>

/* An index symbol that is defined here, and its number in the text. */
typedef struct defined {
    hn_expr symbol;
    uint32_t number;
} defined;

typedef struct walk {
    const hn_form *f;
    const hn_language *l;
    hn_arena *arena, *scratch;
    hn_strbuf out;
    uint32_t depth;
    struct { defined *items; uint32_t count, cap; } defined; /* innermost last */
    struct { hn_expr *items; uint32_t count, cap; } sizes;
    uint32_t *values; /* per statement: the number of its value */
    uint32_t index_count, value_count;
    hn_status failed; /* the first error */
} walk;

static void fail(walk *w, hn_status status) {
    if (w->failed) hn_status_free(status);
    else w->failed = status;
}

static void keep(walk *w, hn_status status) {
    if (status) fail(w, status);
}

/* ---- dtypes ---- */

static hn_number_class class_of(hn_dtype d) {
    switch (d) {
    case HN_DTYPE_F64: return HN_NUMBER_F64;
    case HN_DTYPE_F32: case HN_DTYPE_F16: case HN_DTYPE_BF16: return HN_NUMBER_F32;
    case HN_DTYPE_I64: return HN_NUMBER_I64;
    case HN_DTYPE_BOOL: return HN_NUMBER_BOOL;
    default: return HN_NUMBER_I32;
    }
}

static char letter_of(hn_number_class c) { return "fdilm"[c]; }

/* ---- templates ---- */

void hn_template_put(const char *text, char letter, const char *const operands[4], hn_strbuf *out) {
    for (const char *c = text; *c; c++) {
        if (*c == '$') hn_strbuf_puts(out, operands[*++c - '0']);
        else if (*c == '#' && letter) hn_strbuf_putc(out, letter);
        else hn_strbuf_putc(out, *c);
    }
}

#define OPERANDS(...) ((const char *const[4]){__VA_ARGS__})

static void put(walk *w, const char *text, const char *const operands[4]) { hn_template_put(text, 0, operands, &w->out); }

static void put_wrapped(walk *w, const char *text, const char *operand) { put(w, text ? text : "$0", OPERANDS(operand)); }

static void begin_line(walk *w) {
    for (uint32_t k = 0; k < w->depth; k++) hn_strbuf_puts(&w->out, "  ");
}

static void put_line(walk *w, const char *text, const char *const operands[4]) {
    begin_line(w);
    put(w, text, operands);
    hn_strbuf_putc(&w->out, '\n');
}

/* "v12" and the like. */
typedef struct name {
    char text[16];
} name;

static name name_of(char letter, uint32_t number) {
    name n;
    snprintf(n.text, sizeof n.text, "%c%u", letter, number);
    return n;
}

static name memory_name(hn_fmem m) { return name_of('m', m - 1); }
static name register_name(hn_freg r) { return name_of('r', r - 1); }
static name position_name(hn_freg r) { return name_of('p', r - 1); }
static name value_name(const walk *w, hn_fid value) { return name_of('v', w->values[value]); }

/* ---- index expressions ---- */

static hn_status find_size(walk *w, hn_expr symbol, uint32_t *out) {
    for (*out = 0; *out < w->sizes.count; ++*out)
        if (w->sizes.items[*out] == symbol) return NULL;
    HN_PUSH(w->arena, &w->sizes, symbol);
    return NULL;
}

static bool find_defined(const walk *w, hn_expr symbol, uint32_t *out) {
    for (uint32_t k = w->defined.count; k-- > 0;) {
        if (w->defined.items[k].symbol != symbol) continue;
        *out = w->defined.items[k].number;
        return true;
    }
    return false;
}

static void put_symbol(void *user, hn_expr symbol, hn_strbuf *out) {
    walk *w = user;
    hn_symbol_kind kind = hn_sym_symbol_kind(w->f->sym, symbol);
    uint32_t number = 0;
    if (symbol == w->f->group || symbol == w->f->thread) {
        hn_strbuf_puts(out, symbol == w->f->group ? "group" : "thread");
    } else if (find_defined(w, symbol, &number)) {
        hn_strbuf_printf(out, "i%u", number);
    } else if (kind == HN_SYMBOL_INDEX || kind == HN_SYMBOL_INDIRECT) {
        fail(w, HN_ERROR(HN_INTERNAL, "a form uses an index that nothing defines"));
    } else {
        keep(w, find_size(w, symbol, &number));
        hn_strbuf_printf(out, "n%u", number);
    }
}

static void put_index(walk *w, hn_expr e) {
    keep(w, hn_index_put(&(hn_index_printer){w->f->sym, &w->l->index_words, put_symbol, w}, e, &w->out));
}

/* As an operand. Lives in the scratch arena. */
static const char *index_text(walk *w, hn_expr e) {
    hn_strbuf text = w->out;
    hn_strbuf_init(&w->out);
    put_index(w, e);
    hn_str own = hn_strbuf_str(&w->out);
    const char *copy = w->out.failed ? NULL : hn_arena_strndup(w->scratch, own.ptr, own.len);
    hn_strbuf_deinit(&w->out);
    w->out = text;
    if (!copy) fail(w, HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while printing a kernel"));
    return copy ? copy : "";
}

static hn_status push_defined(walk *w, hn_expr symbol, uint32_t number) {
    defined d = {symbol, number};
    HN_PUSH(w->scratch, &w->defined, d);
    return NULL;
}

/* The name by which `symbol` goes from here to the end of the block. */
static name define(walk *w, hn_expr symbol) {
    uint32_t number = w->index_count++;
    keep(w, push_defined(w, symbol, number));
    return name_of('i', number);
}

/* "const long i3 = " */
static void begin_index(walk *w, hn_expr symbol) {
    begin_line(w);
    hn_strbuf_printf(&w->out, "const %s %s = ", w->l->index_type, define(w, symbol).text);
}

/* ---- constants ---- */

static void put_integer(walk *w, int64_t value, hn_number_class c) {
    const char *suffix = c == HN_NUMBER_I64 ? w->l->long_suffix : "";
    bool least = value == (c == HN_NUMBER_I64 ? INT64_MIN : INT32_MIN); /* there are no negative literals */
    if (least) hn_strbuf_printf(&w->out, "(%lld%s - 1)", (long long)value + 1, suffix);
    else hn_strbuf_printf(&w->out, "%lld%s", (long long)value, suffix);
}

/* In hexadecimal: exact. */
static void put_float(walk *w, double value, hn_number_class c) {
    bool single = c == HN_NUMBER_F32;
    if (isnan(value)) hn_strbuf_puts(&w->out, w->l->nan.of[c]);
    else if (isinf(value) || (single && isinf((float)value))) hn_strbuf_printf(&w->out, "%s%s", value < 0 ? "-" : "", w->l->infinity.of[c]);
    else hn_strbuf_printf(&w->out, "%a%s", single ? (double)(float)value : value, single ? w->l->float_suffix : "");
}

static void put_const(walk *w, const hn_sop *op) {
    hn_number_class c = class_of(op->dtype);
    if (hn_dtype_is_float(op->dtype)) put_float(w, op->imm.f, c);
    else put_integer(w, c == HN_NUMBER_BOOL ? op->imm.i != 0 : op->imm.i, c);
}

/* ---- ops ---- */

/* A row of ops.def on operands of one dtype. */
static void put_op(walk *w, hn_op op, hn_dtype operand, const char *const operands[4]) {
    hn_number_class c = class_of(operand);
    const char *text = w->l->ops[op].of[c];
    if (text) hn_template_put(text, letter_of(c), operands, &w->out);
    else fail(w, HN_ERROR(HN_UNSUPPORTED, "op '%s' has no %s for dtype %s", hn_op_facts(op)->name, w->l->name, hn_dtype_facts(operand)->name));
}

/* The part of a template in front of "$0"; the part behind it is returned. */
static const char *open_template(walk *w, const char *text) {
    const char *at = text ? strstr(text, "$0") : NULL;
    if (!at) return "";
    hn_strbuf_append(&w->out, text, (size_t)(at - text));
    return at + 2;
}

/* Integers are cut to their dtype; floats are when they are cast or stored. */
static const char *narrow_of(const walk *w, hn_dtype d) { return hn_dtype_is_int(d) ? w->l->narrow[d] : NULL; }

static void put_narrow_op(walk *w, hn_op op, hn_dtype operand, hn_dtype result, const char *const operands[4]) {
    const char *rest = open_template(w, narrow_of(w, result));
    put_op(w, op, operand, operands);
    hn_strbuf_puts(&w->out, rest);
}

static const hn_sop *op_of(const walk *w, hn_fid value) { return &w->f->stmts.items[value].op; }

static void put_elem(walk *w, const hn_sop *op) {
    name args[3] = {0};
    for (uint32_t a = 0; a < 3; a++)
        if (op->args[a]) args[a] = value_name(w, op->args[a]);
    hn_dtype operand = op_of(w, op->args[op->op == HN_OP_WHERE ? 1 : 0])->dtype;
    if (op->op == HN_OP_BITCAST) put_wrapped(w, hn_dtype_is_float(operand) ? w->l->bits_of[operand] : w->l->of_bits[op->dtype], args[0].text);
    else put_narrow_op(w, op->op, operand, op->dtype, OPERANDS(args[0].text, args[1].text, args[2].text));
}

static void put_cast(walk *w, const hn_sop *op) {
    hn_number_class from = class_of(op_of(w, op->args[0])->dtype), to = class_of(op->dtype);
    const char *rest = open_template(w, w->l->narrow[op->dtype]);
    put_wrapped(w, w->l->casts[from].of[to], value_name(w, op->args[0]).text);
    hn_strbuf_puts(&w->out, rest);
}

/* How many high bits of a word a uniform number of the dtype keeps, so that it stays below 1 (ir/interp_random.c). */
static const char *uniform_bits(hn_dtype d) { return d == HN_DTYPE_F64 ? "32" : d == HN_DTYPE_F16 ? "11" : d == HN_DTYPE_BF16 ? "8" : "24"; }

static void put_random(walk *w, const hn_sop *op) {
    char stream[24];
    snprintf(stream, sizeof stream, "%lld", (long long)op->imm.i);
    const char *text = w->l->random[op->op].of[class_of(op->dtype)];
    const char *element = index_text(w, op->index), *rest = open_template(w, narrow_of(w, op->dtype));
    if (text) put(w, text, OPERANDS(value_name(w, op->args[0]).text, element, stream, uniform_bits(op->dtype)));
    else fail(w, HN_ERROR(HN_UNSUPPORTED, "no random numbers of this kind have dtype %s in %s", hn_dtype_facts(op->dtype)->name, w->l->name));
    hn_strbuf_puts(&w->out, rest);
}

/* "m0[...]" */
static const char *element_text(walk *w, hn_fmem m, const char *index) {
    const char *text = hn_arena_printf(w->scratch, "%s[%s]", memory_name(m).text, index);
    if (!text) fail(w, HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while printing a kernel"));
    return text ? text : "";
}

static void put_check(walk *w, const hn_sop *op) {
    const char *extent = index_text(w, hn_sym_symbol_extent(w->f->sym, op->index));
    begin_index(w, op->index);
    put(w, op->imm.i & 1 ? w->l->check_wrapped : w->l->check, OPERANDS(value_name(w, op->args[0]).text, extent));
    hn_strbuf_puts(&w->out, ";\n");
}

static void put_value_text(walk *w, const hn_sop *op) {
    switch (op->kind) {
    case HN_SOP_ELEM: put_elem(w, op); return;
    case HN_SOP_CAST: put_cast(w, op); return;
    case HN_SOP_CONST: put_const(w, op); return;
    case HN_SOP_LOAD: put_wrapped(w, w->l->loads[op->dtype], element_text(w, op->buffer, index_text(w, op->index))); return;
    case HN_SOP_INDEX: put_index(w, op->index); return;
    case HN_SOP_RANDOM: put_random(w, op); return;
    default: {
        hn_freg r = (hn_freg)op->imm.i;
        hn_strbuf_puts(&w->out, (op->op == HN_OP_ARGMAX ? position_name(r) : register_name(r)).text);
    }
    }
}

static void put_value(walk *w, hn_fid s) {
    const hn_sop *op = op_of(w, s);
    if (op->kind == HN_SOP_INDIRECT) {
        put_check(w, op);
        return;
    }
    w->values[s] = w->value_count++;
    begin_line(w);
    hn_strbuf_printf(&w->out, "const %s %s = ", w->l->types.of[class_of(op->dtype)], value_name(w, s).text);
    put_value_text(w, op);
    hn_strbuf_puts(&w->out, ";\n");
}

/* ---- stores and registers ---- */

static const hn_op store_ops[] = {
    [HN_STORE_ADD] = HN_OP_ADD, [HN_STORE_MUL] = HN_OP_MUL, [HN_STORE_MIN] = HN_OP_MIN, [HN_STORE_MAX] = HN_OP_MAX,
};

/* { const long e = index; const float x = m0[e]; const float y = x + v1; m0[e] = y; } */
static void put_combining_store(walk *w, const hn_form_stmt *s, hn_dtype dtype) {
    const char *type = w->l->types.of[class_of(dtype)], *element = element_text(w, s->memory, "e");
    begin_line(w);
    hn_strbuf_printf(&w->out, "{ const %s e = ", w->l->index_type);
    put_index(w, s->index);
    hn_strbuf_printf(&w->out, "; const %s x = ", type);
    put_wrapped(w, w->l->loads[dtype], element);
    hn_strbuf_printf(&w->out, "; const %s y = ", type);
    put_narrow_op(w, store_ops[s->mode], dtype, dtype, OPERANDS("x", value_name(w, s->value).text));
    hn_strbuf_printf(&w->out, "; %s = ", element);
    put_wrapped(w, w->l->stores[dtype], "y");
    hn_strbuf_puts(&w->out, "; }\n");
}

static void put_store(walk *w, const hn_form_stmt *s) {
    hn_dtype dtype = w->f->memories.items[s->memory].dtype;
    if (s->mode != HN_STORE_SET) {
        put_combining_store(w, s, dtype);
        return;
    }
    const char *element = element_text(w, s->memory, index_text(w, s->index));
    begin_line(w);
    hn_strbuf_printf(&w->out, "%s = ", element);
    put_wrapped(w, w->l->stores[dtype], value_name(w, s->value).text);
    hn_strbuf_puts(&w->out, ";\n");
}

/* What a reduction begins with. */
typedef enum neutral { NEUTRAL_ZERO, NEUTRAL_ONE, NEUTRAL_LEAST, NEUTRAL_MOST } neutral;

/* How registers of a row combine: by an element-wise row, or by the row itself. */
typedef struct combining {
    hn_op by;
    neutral begin;
    bool keeps_last; /* of equal values the last position wins, so a register begins with one before all; otherwise the first */
} combining;

static const combining combinings[HN_OP_COUNT] = {
    [HN_OP_SUM] = {HN_OP_ADD, NEUTRAL_ZERO},     [HN_OP_PROD] = {HN_OP_MUL, NEUTRAL_ONE},
    [HN_OP_AMIN] = {HN_OP_MIN, NEUTRAL_MOST},    [HN_OP_AMAX] = {HN_OP_MAX, NEUTRAL_LEAST},
    [HN_OP_ANY] = {HN_OP_OR, NEUTRAL_ZERO},      [HN_OP_ALL] = {HN_OP_AND, NEUTRAL_ONE},
    [HN_OP_ARGMIN] = {HN_OP_ARGMIN, NEUTRAL_MOST}, [HN_OP_ARGMAX] = {HN_OP_ARGMAX, NEUTRAL_LEAST},
    [HN_OP_CUMSUM] = {HN_OP_ADD, NEUTRAL_ZERO},  [HN_OP_CUMPROD] = {HN_OP_MUL, NEUTRAL_ONE},
    [HN_OP_CUMMIN] = {HN_OP_CUMMIN, NEUTRAL_MOST, true}, [HN_OP_CUMMAX] = {HN_OP_CUMMAX, NEUTRAL_LEAST, true},
    [HN_OP_LOGCUMSUMEXP] = {HN_OP_LOGCUMSUMEXP, NEUTRAL_LEAST},
};

/* The least number of a dtype and not of its class: registers pass through memory of their dtype. */
static int64_t limit_of(hn_dtype d, bool most) {
    unsigned bits = hn_dtype_facts(d)->size_bytes * 8u;
    if (d == HN_DTYPE_BOOL || d == HN_DTYPE_U8) return !most ? 0 : d == HN_DTYPE_BOOL ? 1 : 255;
    int64_t largest = (int64_t)(UINT64_MAX >> (65 - bits));
    return most ? largest : -largest - 1;
}

static void put_neutral(walk *w, hn_dtype d, neutral n) {
    hn_number_class c = class_of(d);
    bool is_float = hn_dtype_is_float(d);
    if (n == NEUTRAL_ZERO || n == NEUTRAL_ONE) {
        if (is_float) put_float(w, n == NEUTRAL_ONE, c);
        else put_integer(w, n == NEUTRAL_ONE, c);
    } else if (is_float) {
        put_float(w, n == NEUTRAL_MOST ? INFINITY : -INFINITY, c);
    } else {
        put_integer(w, limit_of(d, n == NEUTRAL_MOST), c);
    }
}

static void put_init(walk *w, hn_freg r) {
    const hn_form_register *reg = &w->f->registers.items[r];
    begin_line(w);
    hn_strbuf_printf(&w->out, "%s = ", register_name(r).text);
    put_neutral(w, reg->dtype, combinings[reg->op].begin);
    hn_strbuf_puts(&w->out, ";");
    if (hn_op_keeps_position(reg->op)) {
        hn_strbuf_printf(&w->out, " %s = ", position_name(r).text);
        put_integer(w, combinings[reg->op].keeps_last ? INT64_MIN : INT64_MAX, HN_NUMBER_I64);
        hn_strbuf_puts(&w->out, ";");
    }
    hn_strbuf_putc(&w->out, '\n');
}

static void put_step(walk *w, const hn_form_stmt *s) {
    const hn_form_register *reg = &w->f->registers.items[s->reg];
    name r = register_name(s->reg), p = position_name(s->reg), value = value_name(w, s->value);
    hn_op by = combinings[reg->op].by;
    begin_line(w);
    if (hn_op_keeps_position(reg->op)) {
        put_op(w, by, reg->dtype, OPERANDS(r.text, p.text, value.text, value_name(w, s->position).text));
    } else {
        hn_strbuf_printf(&w->out, "%s = ", r.text);
        put_narrow_op(w, by, reg->dtype, reg->dtype, OPERANDS(r.text, value.text));
        hn_strbuf_putc(&w->out, ';');
    }
    hn_strbuf_putc(&w->out, '\n');
}

/* ---- blocks ---- */

static void put_block(walk *w, hn_fid first);

/* What is defined in a block is not known behind it. */
static void put_inner(walk *w, hn_fid first, uint32_t keep_defined) {
    w->depth++;
    put_block(w, first);
    w->depth--;
    w->defined.count = keep_defined;
}

static void put_for(walk *w, const hn_form_stmt *s) {
    uint32_t before = w->defined.count;
    char number[24];
    snprintf(number, sizeof number, "%u", s->unroll);
    if (s->unroll > 1 && w->l->unroll) put_line(w, w->l->unroll, OPERANDS(number));
    const char *begin = index_text(w, s->begin), *end = index_text(w, s->end);
    name var = define(w, s->var);
    begin_line(w);
    hn_strbuf_printf(&w->out, "for (%s %s = %s; %s < %s; %s += %lld) {\n", w->l->index_type, var.text, begin, var.text, end, var.text,
                     (long long)s->step);
    put_inner(w, s->body, before);
    put_line(w, "}", NULL);
}

static void put_if(walk *w, const hn_form_stmt *s) {
    begin_line(w);
    hn_strbuf_puts(&w->out, "if (");
    put_index(w, s->begin);
    hn_strbuf_puts(&w->out, " < ");
    put_index(w, s->end);
    hn_strbuf_puts(&w->out, ") {\n");
    put_inner(w, s->body, w->defined.count);
    if (s->otherwise) {
        put_line(w, "} else {", NULL);
        put_inner(w, s->otherwise, w->defined.count);
    }
    put_line(w, "}", NULL);
}

static void put_let(walk *w, const hn_form_stmt *s) {
    const char *text = index_text(w, s->begin); /* of a symbol's last meaning, when it is defined again */
    begin_index(w, s->var);
    hn_strbuf_printf(&w->out, "%s;\n", text);
}

static void put_stmt(walk *w, hn_fid at) {
    const hn_form_stmt *s = &w->f->stmts.items[at];
    switch (s->kind) {
    case HN_FORM_FOR: put_for(w, s); return;
    case HN_FORM_IF: put_if(w, s); return;
    case HN_FORM_LET: put_let(w, s); return;
    case HN_FORM_VALUE: put_value(w, at); return;
    case HN_FORM_STORE: put_store(w, s); return;
    case HN_FORM_INIT: put_init(w, s->reg); return;
    case HN_FORM_STEP: put_step(w, s); return;
    case HN_FORM_BARRIER: put_line(w, w->l->barrier, NULL); return;
    default: fail(w, HN_ERROR(HN_INTERNAL, "a form has a statement of kind %d", (int)s->kind));
    }
}

static void put_block(walk *w, hn_fid first) {
    for (hn_fid s = first; s && !w->failed; s = w->f->stmts.items[s].next) put_stmt(w, s);
}

/* ---- memories and registers ---- */

enum { SCRATCH_ALIGN = 16 };

/* Of one memory in a group's part of the scratch memory. */
static hn_expr scratch_bytes_of(const hn_form *f, const hn_form_memory *m) {
    hn_expr align = hn_sym_int(f->sym, SCRATCH_ALIGN);
    hn_expr bytes = hn_sym_mul(f->sym, m->elems, hn_sym_int(f->sym, hn_dtype_facts(m->dtype)->size_bytes));
    return hn_sym_mul(f->sym, hn_sym_ceildiv(f->sym, bytes, align), align);
}

/* 0: none. */
static hn_expr scratch_bytes(const hn_form *f) {
    hn_expr all = 0;
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        if (f->memories.items[m].space != HN_SPACE_SCRATCH) continue;
        hn_expr bytes = scratch_bytes_of(f, &f->memories.items[m]);
        all = all ? hn_sym_add(f->sym, all, bytes) : bytes;
    }
    return all;
}

static void put_scratch_memories(walk *w, hn_expr group_bytes) {
    if (!group_bytes) return;
    const hn_form *f = w->f;
    hn_expr at = hn_sym_mul(f->sym, f->group, group_bytes);
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_SCRATCH) continue;
        put_line(w, w->l->part, OPERANDS(w->l->elements[memory->dtype], memory_name(m).text, index_text(w, at)));
        at = hn_sym_add(f->sym, at, scratch_bytes_of(f, memory));
    }
}

static void put_shared_memories(walk *w) {
    for (hn_fmem m = 1; m < w->f->memories.count; m++) {
        const hn_form_memory *memory = &w->f->memories.items[m];
        if (memory->space != HN_SPACE_SHARED) continue;
        if (!hn_sym_is_int(w->f->sym, memory->elems, NULL))
            fail(w, HN_ERROR(HN_UNSUPPORTED, "shared memory whose extent is not known has no %s", w->l->name));
        put_line(w, w->l->shared, OPERANDS(w->l->elements[memory->dtype], memory_name(m).text, index_text(w, memory->elems)));
    }
}

static void put_registers(walk *w) {
    for (hn_freg r = 1; r < w->f->registers.count; r++) {
        const hn_form_register *reg = &w->f->registers.items[r];
        put_line(w, "$0 $1;", OPERANDS(w->l->types.of[class_of(reg->dtype)], register_name(r).text));
        if (hn_op_keeps_position(reg->op)) put_line(w, "$0 $1;", OPERANDS(w->l->types.of[HN_NUMBER_I64], position_name(r).text));
    }
}

/* ---- the function ---- */

static void put_arguments(walk *w, bool has_scratch) {
    const hn_form *f = w->f;
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_ARGUMENT) continue;
        put(w, memory->is_written ? w->l->write : w->l->read, OPERANDS(w->l->elements[memory->dtype], memory_name(m).text));
        hn_strbuf_puts(&w->out, ", ");
    }
    if (has_scratch) put(w, w->l->scratch, NULL), hn_strbuf_puts(&w->out, ", ");
    put(w, w->l->status, NULL);
    for (uint32_t k = 0; k < w->sizes.count; k++) {
        hn_strbuf_puts(&w->out, ", ");
        put(w, w->l->size, OPERANDS(name_of('n', k).text));
    }
}

/* The body first: it tells which sizes there are. */
static hn_status put_function(walk *w, hn_expr group_bytes) {
    char threads[16];
    snprintf(threads, sizeof threads, "%u", w->f->threads);
    w->depth = 1;
    put_line(w, w->l->numbers, NULL);
    put_scratch_memories(w, group_bytes);
    put_shared_memories(w);
    put_registers(w);
    put_block(w, w->f->body);
    hn_strbuf body = w->out;
    hn_strbuf_init(&w->out);
    put(w, w->l->head, OPERANDS(threads));
    put_arguments(w, group_bytes != 0);
    hn_strbuf_puts(&w->out, ") {\n");
    hn_strbuf_append(&w->out, body.ptr ? body.ptr : "", body.len);
    hn_strbuf_puts(&w->out, "}\n");
    w->out.failed |= body.failed;
    hn_strbuf_deinit(&body);
    if (w->failed) return w->failed;
    HN_TRY(hn_sym_status(w->f->sym));
    return hn_strbuf_status(&w->out);
}

static hn_status list_arguments(const hn_form *f, hn_arena *arena, hn_kernel_code *out) {
    hn_buf *buffers;
    hn_expr *offsets;
    bool *written;
    uint64_t *over;
    HN_NEW(arena, buffers, f->memories.count);
    HN_NEW(arena, offsets, f->memories.count);
    HN_NEW(arena, written, f->memories.count);
    HN_NEW(arena, over, f->memories.count);
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_ARGUMENT) continue;
        buffers[out->buffer_count] = memory->buffer;
        offsets[out->buffer_count] = memory->base;
        written[out->buffer_count++] = memory->is_written;
    }
    out->buffers = buffers;
    out->offsets = offsets;
    out->written = written;
    out->over = over;
    return NULL;
}

static hn_status finish(walk *w, hn_kernel_code *out) {
    char *text = hn_arena_strndup(w->arena, w->out.ptr, w->out.len);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while printing a kernel");
    hn_kernel_code_name(out, (hn_str){text, w->out.len});
    out->sizes = w->sizes.items;
    out->size_count = w->sizes.count;
    return list_arguments(w->f, w->arena, out);
}

hn_status hn_form_text(const hn_form *f, const hn_language *language, hn_arena *arena, hn_arena *scratch, hn_kernel_code *out) {
    walk w = {.f = f, .l = language, .arena = arena, .scratch = scratch};
    *out = (hn_kernel_code){.extent = f->grid, .grain = 1, .threads = f->threads, .scratch_bytes = scratch_bytes(f)};
    hn_strbuf_init(&w.out);
    HN_NEW(scratch, w.values, f->stmts.count);
    hn_status status = put_function(&w, out->scratch_bytes);
    if (!status) status = finish(&w, out);
    hn_strbuf_deinit(&w.out);
    return status;
}
