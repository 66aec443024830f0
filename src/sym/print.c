/* print.c: expressions as text that parses back to the same id. See the grammar in parse.c. */
#include "sym/internal.h"

static void print_operand(const hn_sym *sym, hn_expr e, hn_strbuf *out) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    bool atom = node->kind == HN_EXPR_SYMBOL || node->kind == HN_EXPR_MIN ||
                node->kind == HN_EXPR_MAX || (node->kind == HN_EXPR_CONST && node->constant >= 0);
    if (!atom) hn_strbuf_putc(out, '(');
    hn_sym_print(sym, e, out);
    if (!atom) hn_strbuf_putc(out, ')');
}

static void print_call(const hn_sym *sym, const char *name, const hn_sym_node *node,
                       hn_strbuf *out) {
    hn_strbuf_puts(out, name);
    hn_sym_print(sym, node->args[0], out);
    hn_strbuf_puts(out, ", ");
    hn_sym_print(sym, node->args[1], out);
    hn_strbuf_putc(out, ')');
}

static void print_division(const hn_sym *sym, const char *op, const hn_sym_node *node,
                           hn_strbuf *out) {
    print_operand(sym, node->args[0], out);
    hn_strbuf_puts(out, op);
    print_operand(sym, node->args[1], out);
}

/* The sums among the factors come first, the longest ahead: multiplied in this order none of them
 * is small enough to be multiplied out, so the parser gets the same product. */
static void print_product(const hn_sym *sym, const hn_sym_node *node, hn_strbuf *out) {
    uint32_t longest = HN_SYM_TERMS_MAX + 1;
    bool first = true;
    while (node->flags & HN_NODE_HAS_SUM && longest > 0) {
        uint32_t next = 0;
        for (uint32_t k = 0; k < node->count; k++) {
            const hn_sym_node *factor = hn_sym_at(sym, node->args[k]);
            if (factor->kind != HN_EXPR_ADD) continue;
            if (factor->count < longest && factor->count > next) next = factor->count;
            if (factor->count != longest) continue;
            if (!first) hn_strbuf_putc(out, '*');
            print_operand(sym, node->args[k], out);
            first = false;
        }
        longest = next;
    }
    for (uint32_t k = 0; k < node->count; k++) {
        if (hn_sym_kind(sym, node->args[k]) == HN_EXPR_ADD) continue;
        if (!first) hn_strbuf_putc(out, '*');
        print_operand(sym, node->args[k], out);
        first = false;
    }
}

static uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static void print_magnitude(uint64_t value, hn_strbuf *out) {
    if (value > (uint64_t)INT64_MAX) hn_strbuf_puts(out, "9223372036854775808");
    else hn_strbuf_i64(out, (int64_t)value);
}

/* coeff * term without its sign, which the sum has written. */
static void print_scaled(const hn_sym *sym, hn_expr term, uint64_t coeff, hn_strbuf *out) {
    const hn_sym_node *node = hn_sym_at(sym, term);
    if (coeff == 1) {
        hn_sym_print(sym, term, out);
        return;
    }
    print_magnitude(coeff, out);
    hn_strbuf_putc(out, '*');
    if (node->kind == HN_EXPR_MUL && !(node->flags & HN_NODE_HAS_SUM))
        print_product(sym, node, out);
    else print_operand(sym, term, out);
}

/* " + " or " - " between, "-" in front. The magnitude of the smallest number is no number of its
 * own. */
static void print_sign(int64_t coeff, bool first, hn_strbuf *out) {
    if (first) hn_strbuf_puts(out, coeff < 0 ? "-" : "");
    else hn_strbuf_puts(out, coeff == INT64_MIN ? " + -" : coeff < 0 ? " - " : " + ");
}

/* A leading minus binds to the first operand only, which matters for these. */
static bool needs_brackets(const hn_sym_node *term) {
    return term->kind == HN_EXPR_FLOORDIV || term->kind == HN_EXPR_MOD ||
           term->flags & HN_NODE_HAS_SUM;
}

/* A term that is added leads, if there is one; the constant closes. */
static void print_sum(const hn_sym *sym, const hn_sym_node *node, hn_strbuf *out) {
    uint32_t lead = 0;
    while (lead < node->count && node->coeffs[lead] < 0) lead++;
    if (lead == node->count) lead = 0;
    for (uint32_t k = 0; k < node->count; k++) {
        uint32_t at = k == 0 ? lead : k <= lead ? k - 1 : k;
        int64_t coeff = node->coeffs[at];
        print_sign(coeff, k == 0, out);
        if (k == 0 && coeff == -1 && needs_brackets(hn_sym_at(sym, node->args[at])))
            print_operand(sym, node->args[at], out);
        else print_scaled(sym, node->args[at], magnitude(coeff), out);
    }
    if (!node->constant) return;
    print_sign(node->constant, false, out);
    print_magnitude(magnitude(node->constant), out);
}

void hn_sym_print(const hn_sym *sym, hn_expr e, hn_strbuf *out) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    switch ((hn_expr_kind)node->kind) {
    case HN_EXPR_INVALID: hn_strbuf_puts(out, "<invalid>"); break;
    case HN_EXPR_CONST: hn_strbuf_i64(out, node->constant); break;
    case HN_EXPR_SYMBOL: {
        hn_str name = hn_sym_symbol_name(sym, e);
        hn_strbuf_append(out, name.ptr, name.len);
        break;
    }
    case HN_EXPR_ADD: print_sum(sym, node, out); break;
    case HN_EXPR_MUL: print_product(sym, node, out); break;
    case HN_EXPR_FLOORDIV: print_division(sym, "//", node, out); break;
    case HN_EXPR_MOD: print_division(sym, "%", node, out); break;
    case HN_EXPR_MIN: print_call(sym, "Min(", node, out); break;
    case HN_EXPR_MAX: print_call(sym, "Max(", node, out); break;
    }
}
