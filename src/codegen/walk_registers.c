/* walk_registers.c: registers: declarations, INIT, STEP, SET, ACROSS of lanes, RESULT. */
#include "codegen/walk_internal.h"

#include <math.h>

/* What a reduction begins with. */
typedef enum neutral { NEUTRAL_ZERO, NEUTRAL_ONE, NEUTRAL_LEAST, NEUTRAL_MOST } neutral;

/* How registers of a row combine: by an element-wise row, or by the row itself. */
typedef struct combining {
    hn_op by;
    neutral begin;
    bool keeps_last; /* of equal values the last position wins, so a register begins with one before
                        all; otherwise the first */
} combining;

static const combining combinings[HN_OP_COUNT] = {
    [HN_OP_SUM] = {HN_OP_ADD, NEUTRAL_ZERO},
    [HN_OP_PROD] = {HN_OP_MUL, NEUTRAL_ONE},
    [HN_OP_AMIN] = {HN_OP_MIN, NEUTRAL_MOST},
    [HN_OP_AMAX] = {HN_OP_MAX, NEUTRAL_LEAST},
    [HN_OP_ANY] = {HN_OP_OR, NEUTRAL_ZERO},
    [HN_OP_ALL] = {HN_OP_AND, NEUTRAL_ONE},
    [HN_OP_ARGMIN] = {HN_OP_ARGMIN, NEUTRAL_MOST},
    [HN_OP_ARGMAX] = {HN_OP_ARGMAX, NEUTRAL_LEAST},
    [HN_OP_CUMSUM] = {HN_OP_ADD, NEUTRAL_ZERO},
    [HN_OP_CUMPROD] = {HN_OP_MUL, NEUTRAL_ONE},
    [HN_OP_CUMMIN] = {HN_OP_CUMMIN, NEUTRAL_MOST, true},
    [HN_OP_CUMMAX] = {HN_OP_CUMMAX, NEUTRAL_LEAST, true},
    [HN_OP_LOGCUMSUMEXP] = {HN_OP_LOGCUMSUMEXP, NEUTRAL_LEAST},
};

/* Which of a register's vectors the place at hand works on. */
static uint32_t copy_of(const walk *w, hn_freg r) {
    return w->in_vector && w->vectors && w->vectors[r] > 1 ? w->copy : 0;
}

static bool keeps_position(const hn_form_register *reg) { return hn_op_keeps_position(reg->op); }

/* Bools are compared as the numbers 0 and 1 where a position is kept: vectors of bools are masks
 * otherwise. */
static hn_dtype number_dtype(const walk *w, const hn_form_register *reg) {
    return w->l->vectors && reg->dtype == HN_DTYPE_BOOL && keeps_position(reg) ? HN_DTYPE_I32
                                                                               : reg->dtype;
}

void walk_put_registers(walk *w) {
    for (hn_freg r = 1; r < w->f->registers.count; r++) {
        const hn_form_register *reg = &w->f->registers.items[r];
        for (uint32_t u = 0; u < (w->vectors ? w->vectors[r] : 1); u++) {
            walk_put_line(w, "$0 $1;", HN_DTYPE_NONE,
                          OPERANDS(TEXT(w->l->types.of[walk_class(reg->dtype)]),
                                   TEXT(walk_register(w, r, u).text)));
            if (keeps_position(reg))
                walk_put_line(w, "$0 $1;", HN_DTYPE_NONE,
                              OPERANDS(TEXT(w->l->types.of[HN_NUMBER_I64]),
                                       TEXT(walk_position(w, r, u).text)));
        }
    }
}

/* The least number of a dtype and not of its class: registers pass through memory of their dtype.
 */
static int64_t limit_of(hn_dtype d, bool most) {
    unsigned bits = hn_dtype_facts(d)->size_bytes * 8u;
    if (d == HN_DTYPE_BOOL || d == HN_DTYPE_U8) return !most ? 0 : d == HN_DTYPE_BOOL ? 1 : 255;
    int64_t largest = (int64_t)(UINT64_MAX >> (65 - bits));
    return most ? largest : -largest - 1;
}

static void put_neutral(walk *w, const hn_form_register *reg) {
    neutral n = combinings[reg->op].begin;
    bool is_limit = n == NEUTRAL_LEAST || n == NEUTRAL_MOST;
    if (hn_dtype_is_float(reg->dtype))
        walk_put_float(w, reg->dtype,
                       is_limit ? (n == NEUTRAL_MOST ? INFINITY : -INFINITY) : n == NEUTRAL_ONE);
    else
        walk_put_int(w, number_dtype(w, reg),
                     is_limit ? limit_of(reg->dtype, n == NEUTRAL_MOST) : n == NEUTRAL_ONE);
}

static void put_first_position(walk *w, const hn_form_register *reg) {
    walk_put_int(w, HN_DTYPE_I64, combinings[reg->op].keeps_last ? INT64_MIN : INT64_MAX);
}

static void put_init_of(walk *w, hn_freg r, uint32_t copy) {
    const hn_form_register *reg = &w->f->registers.items[r];
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "%s = ", walk_register(w, r, copy).text);
    put_neutral(w, reg);
    hn_strbuf_puts(&w->out, ";");
    if (keeps_position(reg)) {
        hn_strbuf_printf(&w->out, " %s = ", walk_position(w, r, copy).text);
        put_first_position(w, reg);
        hn_strbuf_puts(&w->out, ";");
    }
    hn_strbuf_putc(&w->out, '\n');
}

/* In a step of fewer vectors than the register has, only theirs; outside of LANES all. */
void walk_put_init(walk *w, hn_freg r) {
    uint32_t count = w->vectors ? w->vectors[r] : 1;
    for (uint32_t u = 0; u < count && (!w->step.lanes || u < w->step.vectors); u++)
        put_init_of(w, r, u);
}

/* Numbers that grow leave their dtype; a minimum stays. */
static hn_dtype result_of(hn_op by, hn_dtype dtype) {
    return by == HN_OP_ADD || by == HN_OP_MUL ? dtype : HN_DTYPE_NONE;
}

void walk_put_combine(walk *w, const hn_form_register *reg, const char *r, const char *p,
                      const char *value, const char *position) {
    hn_op by = combinings[reg->op].by;
    hn_dtype dtype = number_dtype(w, reg);
    walk_begin_line(w);
    if (keeps_position(reg)) {
        walk_put_op(w, by, dtype, HN_DTYPE_NONE,
                    OPERANDS(TEXT(r), TEXT(p), TEXT(value), TEXT(position)));
    } else {
        walk_put(w, "$0 = ", HN_DTYPE_NONE, OPERANDS(TEXT(r)));
        if (reg->loses_nan && w->l->vectors)
            walk_put(w, w->l->vectors->larger, dtype, OPERANDS(TEXT(r), TEXT(value)));
        else walk_put_op(w, by, dtype, result_of(by, dtype), OPERANDS(TEXT(r), TEXT(value)));
        hn_strbuf_putc(&w->out, ';');
    }
    hn_strbuf_putc(&w->out, '\n');
}

/* A value as its register holds it. */
static name number_of(walk *w, const hn_form_register *reg, hn_fid value) {
    name n = walk_value(w, value);
    if (number_dtype(w, reg) == reg->dtype) return n;
    name number = walk_begin_value(w, HN_DTYPE_I32);
    walk_put(w, w->l->vectors->of_bool, reg->dtype, OPERANDS(TEXT(n.text)));
    hn_strbuf_puts(&w->out, ";\n");
    return number;
}

/* A value, and in lanes that do not count what changes nothing. */
static name live_of(walk *w, const hn_form_register *reg, name value, bool is_position) {
    hn_dtype dtype = is_position ? HN_DTYPE_I64 : number_dtype(w, reg);
    name live = walk_begin_value(w, dtype);
    const char *rest = walk_open(w, w->l->vectors->only_live.of[walk_class(dtype)], dtype);
    hn_strbuf_printf(&w->out, "%s, ", value.text);
    if (is_position) put_first_position(w, reg);
    else put_neutral(w, reg);
    hn_strbuf_printf(&w->out, "%s;\n", rest);
    return live;
}

void walk_put_step(walk *w, const hn_form_stmt *s) {
    const hn_form_register *reg = &w->f->registers.items[s->reg];
    bool selects = walk_is_masked(w) && reg->across;
    name value = number_of(w, reg, s->value), position = {{0}};
    uint32_t copy = copy_of(w, s->reg);
    if (s->position) position = walk_value(w, s->position);
    if (selects) value = live_of(w, reg, value, false);
    if (selects && s->position) position = live_of(w, reg, position, true);
    walk_put_combine(w, reg, walk_register(w, s->reg, copy).text,
                     walk_position(w, s->reg, copy).text, value.text, position.text);
}

void walk_put_set(walk *w, const hn_form_stmt *s) {
    const hn_form_register *reg = &w->f->registers.items[s->reg];
    name value = number_of(w, reg, s->value);
    uint32_t first = copy_of(w, s->reg),
             end = w->in_vector || !w->vectors ? first + 1 : w->vectors[s->reg];
    for (uint32_t u = first; u < end; u++) {
        walk_put_line(w, "$0 = $1;", HN_DTYPE_NONE,
                      OPERANDS(TEXT(walk_register(w, s->reg, u).text), TEXT(value.text)));
        if (s->position)
            walk_put_line(w, "$0 = $1;", HN_DTYPE_NONE,
                          OPERANDS(TEXT(walk_position(w, s->reg, u).text),
                                   TEXT(walk_value(w, s->position).text)));
    }
}

/* All vectors into the first one, then its lanes. */
void walk_put_across_lanes(walk *w, hn_freg r) {
    const hn_form_register *reg = &w->f->registers.items[r];
    hn_dtype dtype = number_dtype(w, reg), result = result_of(combinings[reg->op].by, dtype);
    name first = walk_register(w, r, 0), place = walk_position(w, r, 0);
    for (uint32_t u = 1; u < w->vectors[r]; u++)
        walk_put_combine(w, reg, first.text, place.text, walk_register(w, r, u).text,
                         walk_position(w, r, u).text);
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "%s = ", keeps_position(reg) ? place.text : first.text);
    const char *rest = walk_open(w, hn_dtype_is_int(result) ? w->l->narrow[result] : NULL, result);
    walk_put(w, w->l->vectors->across[reg->op].of[walk_class(dtype)], dtype,
             OPERANDS(TEXT(first.text), TEXT(place.text)));
    hn_strbuf_printf(&w->out, "%s;\n", rest);
}

/* One that is the same in all lanes is in the first vector. */
void walk_put_result(walk *w, const hn_form_stmt *s) {
    const hn_sop *op = &s->op;
    hn_freg r = (hn_freg)op->imm.i;
    const hn_form_register *reg = &w->f->registers.items[r];
    uint32_t copy = s->in_lanes.varies ? copy_of(w, r) : 0;
    bool is_number = number_dtype(w, reg) != reg->dtype && op->op != HN_OP_ARGMAX;
    name n = op->op == HN_OP_ARGMAX ? walk_position(w, r, copy) : walk_register(w, r, copy);
    if (is_number) walk_put(w, w->l->vectors->to_bool, reg->dtype, OPERANDS(TEXT(n.text)));
    else hn_strbuf_puts(&w->out, n.text);
}
