/* sop_text.c: scalar ops and stores as text, both ways. */
#include "ir/sop_text.h"

#include "ir/text.h"

#include <inttypes.h>

static const char *const random_names[] = {"uniform", "normal", "bits"};
enum { RANDOM_KIND_COUNT = HN_RANDOM_BITS + 1 };

/* --- printing --- */

void hn_sop_print_access(const hn_sym *sym, char letter, uint32_t memory, hn_expr index,
                         hn_strbuf *out) {
    hn_strbuf_printf(out, "%c%u[", letter, memory);
    hn_text_print_expr(sym, index, out);
    hn_strbuf_putc(out, ']');
}

static void put_args(const hn_sop *op, hn_strbuf *out) {
    hn_strbuf_putc(out, '(');
    for (uint32_t a = 0; a < 3 && op->args[a]; a++)
        hn_strbuf_printf(out, a ? ", %%%u" : "%%%u", op->args[a]);
    hn_strbuf_putc(out, ')');
}

static void put_const(const hn_sop *op, hn_strbuf *out) {
    hn_strbuf_puts(out, "const ");
    if (hn_dtype_is_float(op->dtype)) hn_text_print_float(op->imm.f, out);
    else hn_strbuf_i64(out, op->imm.i);
}

static void put_check(const hn_sym *sym, const hn_sop *op, hn_strbuf *out) {
    hn_text_print_expr(sym, op->index, out);
    hn_strbuf_printf(out, " := check(%s%%%u < ", op->imm.i & 1 ? "wrap " : "", op->args[0]);
    hn_text_print_expr(sym, hn_sym_symbol_extent(sym, op->index), out);
    hn_strbuf_putc(out, ')');
}

static void put_random(const hn_sym *sym, const hn_sop *op, hn_strbuf *out) {
    uint32_t kind = (uint32_t)op->op < RANDOM_KIND_COUNT ? (uint32_t)op->op : 0;
    hn_strbuf_printf(out, "random %s(%%%u, ", random_names[kind], op->args[0]);
    hn_text_print_expr(sym, op->index, out);
    hn_strbuf_printf(out, ", stream %" PRId64 ")", op->imm.i);
}

void hn_sop_print(const hn_sym *sym, char letter, const hn_sop *op, hn_strbuf *out) {
    switch (op->kind) {
    case HN_SOP_ELEM:
    case HN_SOP_CAST:
        hn_strbuf_puts(out, op->kind == HN_SOP_CAST ? "cast" : hn_op_facts(op->op)->name);
        put_args(op, out);
        break;
    case HN_SOP_CONST: put_const(op, out); break;
    case HN_SOP_LOAD: hn_sop_print_access(sym, letter, op->buffer, op->index, out); break;
    case HN_SOP_INDEX:
        hn_strbuf_puts(out, "index(");
        hn_text_print_expr(sym, op->index, out);
        hn_strbuf_putc(out, ')');
        break;
    case HN_SOP_INDIRECT: put_check(sym, op, out); break;
    case HN_SOP_RANDOM: put_random(sym, op, out); break;
    case HN_SOP_RESULT:
        hn_strbuf_printf(out, "%s r%" PRId64, op->op ? "position" : "result", op->imm.i);
        break;
    }
    hn_strbuf_printf(out, " : %s", hn_dtype_facts(op->dtype)->name);
}

void hn_sop_print_store(const hn_sym *sym, char letter, const hn_loop_store *store,
                        hn_strbuf *out) {
    static const char *const modes[] = {"=", "+=", "*=", "min=", "max="};
    hn_sop_print_access(sym, letter, store->buffer, store->index, out);
    const char *mode = (uint32_t)store->mode <= HN_STORE_MAX ? modes[store->mode] : "?";
    hn_strbuf_printf(out, " %s %%%u", mode, store->value);
}

/* --- reading: words --- */

uint32_t hn_text_accept_one_of(hn_lex *lex, const char *const *words, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (hn_lex_accept_word(lex, words[k])) return k;
    return count;
}

bool hn_text_peek_numbered(hn_lex *lex, char letter, uint32_t *out) {
    hn_str word = hn_lex_peek_word(lex);
    uint64_t number = 0;
    if (word.len < 2 || word.len > 10 || word.ptr[0] != letter) return false;
    if (word.ptr[1] == '0' && word.len > 2) return false;
    for (size_t k = 1; k < word.len; k++) {
        if (!hn_text_is_digit(word.ptr[k])) return false;
        number = number * 10 + (uint64_t)(word.ptr[k] - '0');
    }
    *out = (uint32_t)number;
    return true;
}

hn_status hn_text_read_numbered(hn_lex *lex, char letter, const char *what, uint32_t *out) {
    if (!hn_text_peek_numbered(lex, letter, out)) return hn_lex_fail(lex, lex->p, what);
    lex->p += hn_lex_peek_word(lex).len;
    return NULL;
}

hn_status hn_text_read_dtype(hn_lex *lex, hn_dtype *out) {
    hn_str word;
    HN_TRY(hn_lex_word(lex, "expected a dtype", &word));
    *out = hn_dtype_parse(word);
    return *out ? NULL : hn_lex_fail(lex, word.ptr, "unknown dtype");
}

hn_status hn_text_read_size(hn_lex *lex, hn_sym *sym, hn_expr *out) {
    const char *where = hn_lex_here(lex);
    hn_expr symbols[16];
    HN_TRY(hn_lex_expr(lex, sym, out));
    uint32_t count = hn_sym_symbols(sym, *out, symbols, 16);
    if (count > 16) return hn_lex_fail(lex, where, "more than 16 symbols in an expression");
    for (uint32_t k = 0; k < count; k++)
        if (hn_sym_symbol_extent(sym, symbols[k]))
            return hn_lex_fail(lex, where, "a loop variable outside of its loop");
    return NULL;
}

hn_status hn_sop_read_memory(const hn_sop_reader *r, uint32_t *out) {
    hn_lex *lex = r->lex;
    const char *where = hn_lex_here(lex);
    if (!hn_text_peek_numbered(lex, r->letter, out))
        return hn_lex_blame(lex, where,
                            HN_ERROR(HN_INVALID_ARGUMENT, "expected a %s", r->memory_name));
    lex->p += hn_lex_peek_word(lex).len;
    if (*out && *out < r->memory_count) return NULL;
    return hn_lex_blame(lex, where,
                        HN_ERROR(HN_INVALID_ARGUMENT, "the %s is not declared", r->memory_name));
}

hn_status hn_sop_read_access(const hn_sop_reader *r, uint32_t *out_memory, hn_expr *out_index) {
    HN_TRY(hn_sop_read_memory(r, out_memory));
    HN_TRY(hn_lex_expect(r->lex, '['));
    HN_TRY(hn_lex_expr(r->lex, r->sym, out_index));
    return hn_lex_expect(r->lex, ']');
}

hn_status hn_sop_read_value(const hn_sop_reader *r, hn_sid *out) {
    HN_TRY(hn_lex_expect(r->lex, '%'));
    const char *where = r->lex->p;
    HN_TRY(hn_lex_u32(r->lex, out));
    if (*out && *out < r->value_count) return NULL;
    return hn_lex_fail(r->lex, where, "the op is not defined");
}

/* --- reading: ops --- */

/* (%1, %2) */
static hn_status read_args(const hn_sop_reader *r, hn_sop *op) {
    uint32_t count = 0;
    HN_TRY(hn_lex_expect(r->lex, '('));
    do {
        if (count == 3) return hn_lex_fail(r->lex, r->lex->p, "too many arguments");
        HN_TRY(hn_sop_read_value(r, &op->args[count++]));
    } while (hn_lex_accept(r->lex, ','));
    return hn_lex_expect(r->lex, ')');
}

/* const 1.5 : f32. What the digits are depends on the dtype behind them. */
static hn_status read_const(const hn_sop_reader *r, hn_sop *op) {
    hn_lex *lex = r->lex;
    hn_str digits = hn_lex_number(lex);
    op->kind = HN_SOP_CONST;
    HN_TRY(hn_lex_expect(lex, ':'));
    HN_TRY(hn_text_read_dtype(lex, &op->dtype));
    if (hn_dtype_is_float(op->dtype)) {
        if (hn_text_read_float(digits, &op->imm.f)) return NULL;
        return hn_lex_fail(lex, digits.ptr, "expected a float");
    }
    hn_lex number = {.start = lex->start, .p = digits.ptr, .end = digits.ptr + digits.len};
    HN_TRY(hn_lex_i64(&number, &op->imm.i));
    return number.p == number.end ? NULL : hn_lex_fail(lex, digits.ptr, "expected an integer");
}

/* t0 := check(wrap %3 < s0) */
static hn_status read_check(const hn_sop_reader *r, uint32_t number, hn_sop *op) {
    const char *where = hn_lex_here(r->lex);
    hn_expr limit;
    op->kind = HN_SOP_INDIRECT;
    r->lex->p += hn_lex_peek_word(r->lex).len;
    HN_TRY(hn_lex_expect(r->lex, ':'));
    HN_TRY(hn_lex_expect(r->lex, '='));
    HN_TRY(hn_lex_expect_word(r->lex, "check"));
    HN_TRY(hn_lex_expect(r->lex, '('));
    op->imm.i = hn_lex_accept_word(r->lex, "wrap");
    HN_TRY(hn_sop_read_value(r, &op->args[0]));
    HN_TRY(hn_lex_expect(r->lex, '<'));
    HN_TRY(hn_text_read_size(r->lex, r->sym, &limit));
    op->index = hn_sym_indirect_named(r->sym, number, limit);
    HN_TRY(hn_lex_blame(r->lex, where, hn_sym_status(r->sym)));
    if (!op->index) return hn_lex_fail(r->lex, where, "the index has another limit elsewhere");
    return hn_lex_expect(r->lex, ')');
}

/* random normal(%1, i0, stream 3) */
static hn_status read_random(const hn_sop_reader *r, hn_sop *op) {
    uint32_t kind = hn_text_accept_one_of(r->lex, random_names, RANDOM_KIND_COUNT);
    if (kind == RANDOM_KIND_COUNT)
        return hn_lex_fail(r->lex, r->lex->p, "expected 'uniform', 'normal' or 'bits'");
    op->kind = HN_SOP_RANDOM;
    op->op = (hn_op)kind;
    HN_TRY(hn_lex_expect(r->lex, '('));
    HN_TRY(hn_sop_read_value(r, &op->args[0]));
    HN_TRY(hn_lex_expect(r->lex, ','));
    HN_TRY(hn_lex_expr(r->lex, r->sym, &op->index));
    HN_TRY(hn_lex_expect(r->lex, ','));
    HN_TRY(hn_lex_expect_word(r->lex, "stream"));
    HN_TRY(hn_lex_i64(r->lex, &op->imm.i));
    return hn_lex_expect(r->lex, ')');
}

/* index(i0 + 1) */
static hn_status read_index(const hn_sop_reader *r, hn_sop *op) {
    op->kind = HN_SOP_INDEX;
    HN_TRY(hn_lex_expect(r->lex, '('));
    HN_TRY(hn_lex_expr(r->lex, r->sym, &op->index));
    return hn_lex_expect(r->lex, ')');
}

/* result r1, position r1 */
static hn_status read_result(const hn_sop_reader *r, hn_op op, hn_sop *out) {
    uint32_t number;
    out->kind = HN_SOP_RESULT;
    out->op = op;
    HN_TRY(hn_text_read_numbered(r->lex, 'r', "expected a register", &number));
    out->imm.i = number;
    return NULL;
}

static hn_status read_op(const hn_sop_reader *r, hn_sop *op) {
    uint32_t number;
    if (hn_text_peek_numbered(r->lex, 't', &number)) return read_check(r, number, op);
    if (hn_text_peek_numbered(r->lex, r->letter, &number)) {
        op->kind = HN_SOP_LOAD;
        return hn_sop_read_access(r, &op->buffer, &op->index);
    }
    if (hn_lex_accept_word(r->lex, "index")) return read_index(r, op);
    if (hn_lex_accept_word(r->lex, "random")) return read_random(r, op);
    if (hn_lex_accept_word(r->lex, "result")) return read_result(r, HN_OP_NONE, op);
    if (hn_lex_accept_word(r->lex, "position")) return read_result(r, HN_OP_ARGMAX, op);
    hn_str word = hn_lex_peek_word(r->lex);
    op->kind = hn_str_eq(word, HN_STR("cast")) ? HN_SOP_CAST : HN_SOP_ELEM;
    if (op->kind == HN_SOP_ELEM && !(op->op = hn_op_find(word)))
        return hn_lex_fail(r->lex, r->lex->p, "unknown op");
    r->lex->p += word.len;
    return read_args(r, op);
}

hn_status hn_sop_read(const hn_sop_reader *r, hn_sop *out) {
    *out = (hn_sop){0};
    if (hn_lex_accept_word(r->lex, "const")) return read_const(r, out);
    HN_TRY(read_op(r, out));
    HN_TRY(hn_lex_expect(r->lex, ':'));
    return hn_text_read_dtype(r->lex, &out->dtype);
}

/* --- reading: stores --- */

static hn_status read_mode(hn_lex *lex, hn_store_mode *out) {
    static const char signs[] = {[HN_STORE_ADD] = '+', [HN_STORE_MUL] = '*'};
    *out = HN_STORE_SET;
    for (int k = HN_STORE_ADD; k <= HN_STORE_MUL; k++)
        if (hn_lex_accept(lex, signs[k])) *out = (hn_store_mode)k;
    if (hn_lex_accept_word(lex, "min")) *out = HN_STORE_MIN;
    if (hn_lex_accept_word(lex, "max")) *out = HN_STORE_MAX;
    return hn_lex_expect(lex, '=');
}

hn_status hn_sop_read_store(const hn_sop_reader *r, hn_loop_store *out) {
    HN_TRY(hn_sop_read_access(r, &out->buffer, &out->index));
    HN_TRY(read_mode(r->lex, &out->mode));
    return hn_sop_read_value(r, &out->value);
}
