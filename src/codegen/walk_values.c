/* walk_values.c: VALUE and STORE. */
#include "codegen/walk_internal.h"

name walk_begin_value(walk *w, hn_dtype dtype) {
    name n = walk_name('v', w->value_count++);
    walk_begin_line(w);
    walk_put(w, "const $0 $1 = ", HN_DTYPE_NONE,
             OPERANDS(TEXT(w->l->types.of[walk_class(dtype)]), TEXT(n.text)));
    return n;
}

/* ---- ops ---- */

/* Integers are cut to their dtype; floats are when they are cast or stored. */
static const char *narrow_of(const walk *w, hn_dtype d) {
    return hn_dtype_is_int(d) ? w->l->narrow[d] : NULL;
}

void walk_put_op(walk *w, hn_op op, hn_dtype operand_dtype, hn_dtype result,
                 const operand operands[OPERANDS_MAX]) {
    const char *text = w->l->ops[op].of[walk_class(operand_dtype)],
               *rest = walk_open(w, narrow_of(w, result), result);
    if (text) walk_put(w, text, operand_dtype, operands);
    else
        walk_fail(w,
                  HN_ERROR(HN_UNSUPPORTED, "op '%s' has no %s for dtype %s", hn_op_facts(op)->name,
                           w->l->name, hn_dtype_facts(operand_dtype)->name));
    hn_strbuf_puts(&w->out, rest);
}

/* What a language has for an op that the form says more about; NULL: what it always has. */
static const char *special_of(const walk *w, const hn_form_stmt *s) {
    return s->not_positive ? w->l->exp_not_positive : NULL;
}

static bool is_elem(const hn_sop *op, hn_op row) {
    return op->kind == HN_SOP_ELEM && op->op == row && op->dtype == HN_DTYPE_F32;
}

/* Of 1 + erf(x), x; else 0. */
static hn_fid one_plus_erf_of(const walk *w, const hn_sop *op) {
    if (!is_elem(op, HN_OP_ADD) || !w->l->one_plus_erf) return 0;
    for (uint32_t a = 0; a < 2; a++) {
        const hn_sop *erf = walk_op_of(w, op->args[a]), *one = walk_op_of(w, op->args[1 - a]);
        if (is_elem(erf, HN_OP_ERF) && one->kind == HN_SOP_CONST && one->imm.f == 1)
            return erf->args[0];
    }
    return 0;
}

static void put_bitcast(walk *w, const hn_sop *op, const operand *operands) {
    hn_dtype from = walk_op_of(w, op->args[0])->dtype;
    const char *text = hn_dtype_is_float(from) ? w->l->bits_of[from] : w->l->of_bits[op->dtype];
    walk_put(w, text ? text : "$0", from, operands);
}

static void put_elem(walk *w, const hn_form_stmt *s) {
    const hn_sop *op = &s->op;
    name args[3] = {0};
    const hn_fid of = one_plus_erf_of(w, op);
    if (of) {
        walk_put(w, w->l->one_plus_erf, op->dtype, OPERANDS(TEXT(walk_value(w, of).text)));
        return;
    }
    for (uint32_t a = 0; a < 3; a++)
        if (op->args[a]) args[a] = walk_value(w, op->args[a]);
    const operand *operands = OPERANDS(TEXT(args[0].text), TEXT(args[1].text), TEXT(args[2].text));
    hn_dtype dtype = walk_op_of(w, op->args[op->op == HN_OP_WHERE ? 1 : 0])->dtype;
    const char *special = special_of(w, s), *rest = "";
    if (s->rounded && w->l->vectors)
        rest = walk_open(w, w->l->vectors->rounded.of[walk_class(op->dtype)], op->dtype);
    if (special) walk_put(w, special, op->dtype, operands);
    else if (op->op == HN_OP_BITCAST) put_bitcast(w, op, operands);
    else walk_put_op(w, op->op, dtype, op->dtype, operands);
    hn_strbuf_puts(&w->out, rest);
}

static void put_cast(walk *w, const hn_sop *op) {
    hn_dtype from = walk_op_of(w, op->args[0])->dtype;
    const char *text = w->l->casts[walk_class(from)].of[walk_class(op->dtype)],
               *rest = walk_open(w, w->l->narrow[op->dtype], op->dtype);
    walk_put(w, text ? text : "$0", from, OPERANDS(TEXT(walk_value(w, op->args[0]).text)));
    hn_strbuf_puts(&w->out, rest);
}

static void put_const(walk *w, const hn_sop *op) {
    if (hn_dtype_is_float(op->dtype)) walk_put_float(w, op->dtype, op->imm.f);
    else walk_put_int(w, op->dtype, op->imm.i);
}

/* How many high bits of a word a uniform number of the dtype keeps, so that it stays below 1
 * (ir/interp_random.c). */
static const char *uniform_bits(hn_dtype d) {
    return d == HN_DTYPE_F64 ? "32" : d == HN_DTYPE_F16 ? "11" : d == HN_DTYPE_BF16 ? "8" : "24";
}

static void put_random(walk *w, const hn_sop *op) {
    char stream[24];
    snprintf(stream, sizeof stream, "%lld", (long long)op->imm.i);
    const char *text = w->l->random[op->op].of[walk_class(op->dtype)],
               *rest = walk_open(w, narrow_of(w, op->dtype), op->dtype);
    const char *lane = w->l->vectors ? "k" : NULL;
    if (text)
        walk_put(w, text, op->dtype,
                 OPERANDS(TEXT(walk_value(w, op->args[0]).text), INDEX_OF_LANE(op->index, lane),
                          TEXT(stream), TEXT(uniform_bits(op->dtype))));
    else
        walk_fail(w, HN_ERROR(HN_UNSUPPORTED, "no random numbers of this kind have dtype %s in %s",
                              hn_dtype_facts(op->dtype)->name, w->l->name));
    hn_strbuf_puts(&w->out, rest);
}

/* ---- memory ---- */

static void put_element(walk *w, hn_fmem m, hn_expr index) {
    walk_put(w, "$0[$1]", HN_DTYPE_NONE, OPERANDS(TEXT(walk_memory(m).text), INDEX(index)));
}

static void put_load(walk *w, const hn_sop *op) {
    const char *rest = walk_open(w, w->l->loads[op->dtype], op->dtype);
    put_element(w, op->buffer, op->index);
    hn_strbuf_puts(&w->out, rest);
}

/* A checked index, as the number that it is. */
static void put_check(walk *w, const hn_sop *op) {
    const char *text = op->imm.i & 1 ? w->l->check_wrapped : w->l->check;
    const operand *operands = OPERANDS(TEXT(walk_value(w, op->args[0]).text),
                                       INDEX(hn_sym_symbol_extent(w->f->sym, op->index)));
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "const %s %s = ", walk_index_type(w),
                     walk_define(w, op->index, SYMBOL_NUMBER).text);
    walk_put(w, text, HN_DTYPE_NONE, operands);
    hn_strbuf_puts(&w->out, ";\n");
}

static void put_plain_text(walk *w, const hn_sop *op) {
    if (op->kind == HN_SOP_LOAD) put_load(w, op);
    else walk_put_index(w, op->index);
}

static void put_value_text(walk *w, hn_fid s) {
    const hn_form_stmt *stmt = &w->f->stmts.items[s];
    const bool vectors = w->l->vectors;
    switch (stmt->op.kind) {
    case HN_SOP_ELEM: put_elem(w, stmt); return;
    case HN_SOP_CAST: put_cast(w, &stmt->op); return;
    case HN_SOP_CONST: put_const(w, &stmt->op); return;
    case HN_SOP_RANDOM: put_random(w, &stmt->op); return;
    case HN_SOP_RESULT: walk_put_result(w, stmt); return;
    default: break;
    }
    if (!vectors) put_plain_text(w, &stmt->op);
    else if (stmt->op.kind == HN_SOP_LOAD) walk_put_vector_load(w, s);
    else walk_put_vector_index(w, s);
}

void walk_put_value(walk *w, hn_fid s) {
    const hn_sop *op = walk_op_of(w, s);
    if (op->kind == HN_SOP_INDIRECT) {
        if (w->l->vectors) walk_put_vector_check(w, s);
        else put_check(w, op);
        return;
    }
    if (w->l->vectors && walk_put_clamped_load(w, s)) return;
    w->values[s] = w->value_count;
    walk_begin_value(w, op->dtype);
    put_value_text(w, s);
    hn_strbuf_puts(&w->out, ";\n");
}

/* ---- stores ---- */

hn_op walk_store_op(hn_store_mode mode) {
    static const hn_op ops[] = {
        [HN_STORE_ADD] = HN_OP_ADD,
        [HN_STORE_MUL] = HN_OP_MUL,
        [HN_STORE_MIN] = HN_OP_MIN,
        [HN_STORE_MAX] = HN_OP_MAX,
    };
    return ops[mode];
}

/* { const long e = index; const float x = m0[e]; const float y = x + v1; m0[e] = y; } */
static void put_combining_store(walk *w, const hn_form_stmt *s, hn_dtype dtype) {
    const char *type = w->l->types.of[walk_class(dtype)];
    name memory = walk_memory(s->memory), value = walk_value(w, s->value);
    walk_begin_line(w);
    walk_put(w, "{ const $0 e = $1; const $2 x = ", HN_DTYPE_NONE,
             OPERANDS(TEXT(walk_index_type(w)), INDEX(s->index), TEXT(type)));
    const char *rest = walk_open(w, w->l->loads[dtype], dtype);
    hn_strbuf_printf(&w->out, "%s[e]%s; const %s y = ", memory.text, rest, type);
    walk_put_op(w, walk_store_op(s->mode), dtype, dtype, OPERANDS(TEXT("x"), TEXT(value.text)));
    hn_strbuf_printf(&w->out, "; %s[e] = ", memory.text);
    rest = walk_open(w, w->l->stores[dtype], dtype);
    hn_strbuf_printf(&w->out, "y%s; }\n", rest);
}

/* { const long e = index; float seen = m0[e], next; do { const float x = seen; const float y = x + v1;
 * next = y; } while (!swapped(m0 + e, &seen, next)); } */
static void put_swapping_store(walk *w, const hn_form_stmt *s, hn_dtype dtype) {
    const char *type = w->l->types.of[walk_class(dtype)];
    name memory = walk_memory(s->memory), value = walk_value(w, s->value);
    walk_begin_line(w);
    walk_put(w, "{ const $0 e = $1; $2 seen = $3[e], next; do { const $4 x = ", HN_DTYPE_NONE,
             OPERANDS(TEXT(walk_index_type(w)), INDEX(s->index), TEXT(w->l->elements[dtype]),
                      TEXT(memory.text), TEXT(type)));
    const char *rest = walk_open(w, w->l->loads[dtype], dtype);
    hn_strbuf_printf(&w->out, "seen%s; const %s y = ", rest, type);
    walk_put_op(w, walk_store_op(s->mode), dtype, dtype, OPERANDS(TEXT("x"), TEXT(value.text)));
    hn_strbuf_puts(&w->out, "; next = ");
    rest = walk_open(w, w->l->stores[dtype], dtype);
    hn_strbuf_printf(&w->out, "y%s; } while (!", rest);
    walk_put(w, w->l->swapped[dtype], dtype,
             OPERANDS(TEXT(memory.text), TEXT("e"), TEXT("seen"), TEXT("next")));
    hn_strbuf_puts(&w->out, "); }\n");
}

static void put_atomic_store(walk *w, const hn_form_stmt *s, hn_dtype dtype) {
    const char *one = w->l->atomic[s->mode][dtype];
    if (one)
        walk_put_line(w, one, dtype,
                      OPERANDS(TEXT(walk_memory(s->memory).text), INDEX(s->index),
                               TEXT(walk_value(w, s->value).text)));
    else if (w->l->swapped[dtype]) put_swapping_store(w, s, dtype);
    else
        walk_fail(w, HN_ERROR(HN_UNSUPPORTED, "%s has no atomic stores of %s", w->l->name,
                              hn_dtype_facts(dtype)->name));
}

hn_fid walk_before_cast(const walk *w, hn_fid value, hn_dtype dtype) {
    const hn_sop *op = walk_op_of(w, value);
    const bool rounds = op->kind == HN_SOP_CAST && op->dtype == dtype && w->l->narrow[dtype] &&
                        (w->l->vectors || w->l->stores[dtype]);
    return rounds && hn_dtype_is_float(dtype) && walk_op_of(w, op->args[0])->dtype == HN_DTYPE_F32
               ? op->args[0]
               : value;
}

static void put_plain_store(walk *w, const hn_form_stmt *s, hn_dtype dtype) {
    walk_begin_line(w);
    put_element(w, s->memory, s->index);
    hn_strbuf_puts(&w->out, " = ");
    const char *rest = walk_open(w, w->l->stores[dtype], dtype);
    hn_strbuf_printf(&w->out, "%s%s;\n", walk_value(w, walk_before_cast(w, s->value, dtype)).text,
                     rest);
}

void walk_put_store(walk *w, const hn_form_stmt *s) {
    hn_dtype dtype = w->f->memories.items[s->memory].dtype;
    if (w->l->vectors) walk_put_vector_store(w, s);
    else if (s->mode != HN_STORE_SET && s->is_atomic) put_atomic_store(w, s, dtype);
    else if (s->mode != HN_STORE_SET) put_combining_store(w, s, dtype);
    else put_plain_store(w, s, dtype);
}
