/* eval.c: evaluating and printing a bundle's expressions. */
#include "bundle/view.h"

#include "base/checked.h"

/* One binary node; false when undefined. */
static bool apply(uint32_t op, int64_t x, int64_t y, int64_t *out) {
    switch (op) {
    case HNB_OP_ADD: return hn_add_i64(x, y, out);
    case HNB_OP_MUL: return hn_mul_i64(x, y, out);
    case HNB_OP_FLOORDIV: return hn_floor_div_i64(x, y, out);
    case HNB_OP_MOD: return y != 0 && (*out = hn_floor_mod(x, y), true);
    case HNB_OP_MIN: return *out = x < y ? x : y, true;
    case HNB_OP_MAX: return *out = x > y ? x : y, true;
    default: return false;
    }
}

void hn_bundle_eval_range(const hn_bundle *b, const int64_t *symbols, uint32_t symbol_count, uint32_t first,
                          uint32_t end, int64_t *values, uint8_t *bad) {
    for (uint32_t i = first; i < end; i++) {
        const hnb_node *n = &b->nodes[i];
        bool ok;
        values[i] = 0;
        if (n->op == HNB_OP_CONST) {
            values[i] = n->b;
            ok = true;
        } else if (n->op == HNB_OP_SYMBOL) {
            ok = n->a < symbol_count;
            if (ok) values[i] = symbols[n->a];
        } else {
            ok = n->op >= HNB_OP_ADD && !bad[n->a] && !bad[n->b] &&
                 apply(n->op, values[n->a], values[n->b], &values[i]);
        }
        bad[i] = !ok;
    }
}

void hn_bundle_eval(const hn_bundle *b, const int64_t *symbols, uint32_t symbol_count, int64_t *out_values,
                    uint8_t *out_bad) {
    out_values[0] = 0;
    out_bad[0] = 1;
    hn_bundle_eval_range(b, symbols, symbol_count, 1, b->nodes_count, out_values, out_bad);
}

bool hn_bundle_expr_const(const hn_bundle *b, uint32_t node, int64_t *out_value) {
    if (!node || b->nodes[node].op != HNB_OP_CONST) return false;
    *out_value = b->nodes[node].b;
    return true;
}

enum { PRINT_DEPTH_MAX = 40, PRINT_BYTES_MAX = 400 };

static bool is_negative_const(const hn_bundle *b, uint32_t node) {
    return b->nodes[node].op == HNB_OP_CONST && b->nodes[node].b < 0;
}
/* -1 * x, which prints as a subtraction */
static bool is_negated(const hn_bundle *b, uint32_t node) {
    const hnb_node *n = &b->nodes[node];
    return n->op == HNB_OP_MUL && b->nodes[n->a].op == HNB_OP_CONST && b->nodes[n->a].b == -1;
}

static void print_node(const hn_bundle *b, uint32_t node, int precedence, int depth, hn_strbuf *out,
                       size_t start);

static void print_call(const hn_bundle *b, const hnb_node *n, int depth, hn_strbuf *out, size_t start) {
    hn_strbuf_puts(out, n->op == HNB_OP_MIN ? "Min(" : "Max(");
    print_node(b, n->a, 0, depth + 1, out, start);
    hn_strbuf_puts(out, ", ");
    print_node(b, (uint32_t)n->b, 0, depth + 1, out, start);
    hn_strbuf_putc(out, ')');
}

static void print_binary(const hn_bundle *b, const hnb_node *n, int precedence, int depth, hn_strbuf *out,
                         size_t start) {
    int own = n->op == HNB_OP_ADD ? 1 : 2;
    uint32_t right = (uint32_t)n->b;
    if (own < precedence) hn_strbuf_putc(out, '(');
    if (n->op == HNB_OP_MUL && b->nodes[n->a].op == HNB_OP_CONST && b->nodes[n->a].b == -1) {
        hn_strbuf_putc(out, '-');
        print_node(b, right, 3, depth + 1, out, start);
    } else {
        print_node(b, n->a, own, depth + 1, out, start);
        if (n->op == HNB_OP_ADD && is_negative_const(b, right) && b->nodes[right].b != INT64_MIN) {
            hn_strbuf_puts(out, " - ");
            hn_strbuf_i64(out, -b->nodes[right].b);
        } else if (n->op == HNB_OP_ADD && is_negated(b, right)) {
            hn_strbuf_puts(out, " - ");
            print_node(b, (uint32_t)b->nodes[right].b, 2, depth + 1, out, start);
        } else {
            hn_strbuf_puts(out, n->op == HNB_OP_ADD   ? " + "
                                : n->op == HNB_OP_MUL ? "*"
                                : n->op == HNB_OP_MOD ? " % "
                                                      : "//");
            print_node(b, right, own + (n->op != HNB_OP_ADD), depth + 1, out, start);
        }
    }
    if (own < precedence) hn_strbuf_putc(out, ')');
}

static void print_node(const hn_bundle *b, uint32_t node, int precedence, int depth, hn_strbuf *out,
                       size_t start) {
    const hnb_node *n = &b->nodes[node];
    if (!node || depth > PRINT_DEPTH_MAX || out->len - start > PRINT_BYTES_MAX) {
        hn_strbuf_puts(out, node ? "..." : "?");
    } else if (n->op == HNB_OP_CONST) {
        hn_strbuf_i64(out, n->b);
    } else if (n->op == HNB_OP_SYMBOL) {
        hn_str name = hn_bundle_str(b, b->symbols[n->a].name);
        hn_strbuf_append(out, name.ptr, name.len);
    } else if (n->op == HNB_OP_MIN || n->op == HNB_OP_MAX) {
        print_call(b, n, depth, out, start);
    } else {
        print_binary(b, n, precedence, depth, out, start);
    }
}

void hn_bundle_expr_print(const hn_bundle *b, uint32_t node, hn_strbuf *out) {
    print_node(b, node, 0, 0, out, out->len);
}
