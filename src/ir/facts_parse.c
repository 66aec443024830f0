/* facts_parse.c: reads `symbol` and `guard` statements. Grammar: docs/ir.md. */
#include "ir/check.h"
#include "ir/facts.h"
#include "ir/text.h"

static hn_status read_bound(hn_text_facts_reader *r, int64_t *out) {
    const char *before = hn_lex_here(r->lex);
    bool negative = hn_lex_accept(r->lex, '-');
    if (hn_lex_accept_word(r->lex, "inf")) {
        *out = negative ? HN_SYM_MIN : HN_SYM_MAX;
        return NULL;
    }
    r->lex->p = before;
    return hn_lex_i64(r->lex, out);
}

/* Whether the ranges that are known by now leave nothing but 0 for a divisor in `e`. */
static bool divides_by_zero(hn_sym *sym, hn_expr e) {
    const hn_expr_kind kind = hn_sym_kind(sym, e);
    uint32_t count = 0;
    const hn_expr *args = NULL;
    if (kind == HN_EXPR_ADD) {
        hn_sum sum = hn_sym_sum(sym, e);
        args = sum.terms, count = sum.count;
    } else if (kind != HN_EXPR_CONST && kind != HN_EXPR_SYMBOL && kind != HN_EXPR_INVALID) {
        args = hn_sym_args(sym, e, &count);
    }
    const bool divides = (kind == HN_EXPR_FLOORDIV || kind == HN_EXPR_MOD) && count == 2;
    if (divides && hn_sym_prove_eq(sym, args[1], hn_sym_int(sym, 0))) return true;
    for (uint32_t k = 0; k < count; k++)
        if (divides_by_zero(sym, args[k])) return true;
    return false;
}

/* Each guard was possible when it was read; later ones may have narrowed the ranges. */
static hn_status check_guards(hn_text_facts_reader *r) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(r->g->sym, &count);
    if (count == r->checked && hn_sym_epoch(r->g->sym) == r->epoch) return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (hn_size_refuted(r->g, guards[i].relation, guards[i].lhs, guards[i].rhs))
            return hn_lex_fail(r->lex, r->lex->p, "the guards contradict each other");
    for (uint32_t i = 0; i < count; i++)
        if (divides_by_zero(r->g->sym, guards[i].lhs) || divides_by_zero(r->g->sym, guards[i].rhs))
            return hn_lex_fail(r->lex, r->lex->p, "a guard divides by 0");
    r->checked = count;
    r->epoch = hn_sym_epoch(r->g->sym);
    return NULL;
}

hn_status hn_text_facts_apply(hn_text_facts_reader *r) {
    for (uint32_t i = 0; i < r->pending.count; i++) {
        const hn_symbol_facts *facts = &r->pending.items[i];
        hn_sym_assume_range(r->g->sym, facts->symbol, facts->lo, facts->hi);
        if (facts->divisor > 1) hn_sym_assume_divisor(r->g->sym, facts->symbol, facts->divisor);
    }
    r->pending.count = 0;
    HN_TRY(hn_lex_blame(r->lex, r->lex->p, hn_sym_status(r->g->sym)));
    return check_guards(r);
}

static hn_status read_symbol_facts(hn_text_facts_reader *r, hn_symbol_facts *out) {
    HN_TRY(hn_lex_expect_word(r->lex, "in"));
    HN_TRY(hn_lex_expect(r->lex, '['));
    HN_TRY(read_bound(r, &out->lo));
    HN_TRY(hn_lex_expect(r->lex, ','));
    HN_TRY(read_bound(r, &out->hi));
    HN_TRY(hn_lex_expect(r->lex, ']'));
    if (out->lo > out->hi) return hn_lex_fail(r->lex, r->lex->p, "the range is empty");
    if (hn_lex_accept_word(r->lex, "divisor")) HN_TRY(hn_lex_i64(r->lex, &out->divisor));
    return out->divisor >= 0 ? NULL : hn_lex_fail(r->lex, r->lex->p, "a divisor is positive");
}

static bool is_symbol_name(hn_str name) {
    static const char *const words[] = {"none", "true",  "false", "inf",
                                        "nan",  "graph", "dtype", NULL};
    for (const char *const *word = words; *word; word++)
        if (hn_str_eq(name, hn_str_of(*word))) return false;
    return hn_text_is_name(name);
}

/* symbol size s0 in [2, 64] divisor 8 hint 16 */
static hn_status read_symbol(hn_text_facts_reader *r) {
    hn_str name;
    int64_t hint;
    hn_symbol_facts facts = {0};
    bool data = hn_lex_accept_word(r->lex, "data");
    if (!data) HN_TRY(hn_lex_expect_word(r->lex, "size"));
    HN_TRY(hn_lex_word(r->lex, "expected the name of a symbol", &name));
    if (!is_symbol_name(name)) return hn_lex_fail(r->lex, name.ptr, "not a fit name for a symbol");
    facts.symbol = hn_sym_symbol(r->g->sym, name, data ? HN_SYMBOL_DATA : HN_SYMBOL_SIZE,
                                 HN_SYM_MIN, HN_SYM_MAX);
    HN_TRY(hn_lex_blame(r->lex, name.ptr, hn_sym_status(r->g->sym)));
    if (hn_sym_kind(r->g->sym, facts.symbol) != HN_EXPR_SYMBOL)
        return hn_lex_fail(r->lex, name.ptr, "not a fit name for a symbol");
    HN_TRY(read_symbol_facts(r, &facts));
    HN_PUSH(r->g->arena, &r->pending, facts);
    if (!hn_lex_accept_word(r->lex, "hint")) return NULL;
    HN_TRY(hn_lex_i64(r->lex, &hint));
    hn_sym_set_hint(r->g->sym, facts.symbol, hint);
    return NULL;
}

static bool accept_relation(hn_text_facts_reader *r, hn_relation *out) {
    static const struct {
        char text[3];
        hn_relation relation;
    } signs[] = {{"==", HN_REL_EQ}, {"!=", HN_REL_NE}, {"<=", HN_REL_LE}, {"<", HN_REL_LT}};
    (void)hn_lex_here(r->lex);
    for (int i = 0; i < 4; i++) {
        size_t len = strlen(signs[i].text);
        if ((size_t)(r->lex->end - r->lex->p) < len || memcmp(r->lex->p, signs[i].text, len) != 0)
            continue;
        r->lex->p += len;
        *out = signs[i].relation;
        return true;
    }
    return false;
}

/* One side of a guard. Anything but a bare symbol or number must see all facts. */
static hn_status read_guard_side(hn_text_facts_reader *r, hn_expr *out) {
    hn_str text = hn_lex_expr_text(r->lex);
    bool bare = text.len > 0;
    for (size_t i = 0; i < text.len; i++)
        bare &= hn_text_is_label_char(text.ptr[i]) || (i == 0 && text.ptr[i] == '-');
    if (!bare) HN_TRY(hn_text_facts_apply(r));
    return hn_lex_expr(r->lex, r->g->sym, out);
}

/* guard s0 <= 64 "reason" */
static hn_status read_guard(hn_text_facts_reader *r) {
    hn_expr lhs, rhs;
    hn_relation relation;
    hn_str reason;
    HN_TRY(read_guard_side(r, &lhs));
    if (!accept_relation(r, &relation))
        return hn_lex_fail(r->lex, r->lex->p, "expected a relation");
    HN_TRY(read_guard_side(r, &rhs));
    HN_TRY(hn_lex_string(r->lex, &reason));
    const char *text = hn_arena_strndup(r->g->arena, reason.ptr, reason.len);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a guard");
    /* Symbols learn from guards on them alone, and a range must not become empty. */
    bool bare = hn_sym_kind(r->g->sym, lhs) == HN_EXPR_SYMBOL ||
                hn_sym_kind(r->g->sym, rhs) == HN_EXPR_SYMBOL;
    if (bare && hn_size_refuted(r->g, relation, lhs, rhs))
        return hn_lex_fail(r->lex, r->lex->p, "the guard never holds");
    hn_guard_add(r->g, relation, lhs, rhs, text);
    return hn_lex_blame(r->lex, r->lex->p, hn_sym_status(r->g->sym));
}

hn_status hn_text_facts_read(hn_text_facts_reader *r, bool *out_found) {
    *out_found = true;
    if (hn_lex_accept_word(r->lex, "symbol")) return read_symbol(r);
    if (hn_lex_accept_word(r->lex, "guard")) return read_guard(r);
    *out_found = false;
    return NULL;
}
