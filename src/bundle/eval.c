/* eval.c: evaluating a bundle's expressions; reading and printing them. */
#include "bundle/view.h"

#include "base/checked.h"
#include "bundle/nodes.h"

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

void hn_bundle_eval_range(const hn_bundle *b, const int64_t *symbols, uint32_t symbol_count,
                          uint32_t first, uint32_t end, int64_t *values, uint8_t *bad) {
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

void hn_bundle_eval(const hn_bundle *b, const int64_t *symbols, uint32_t symbol_count,
                    int64_t *out_values, uint8_t *out_bad) {
    out_values[0] = 0;
    out_bad[0] = 1;
    hn_bundle_eval_range(b, symbols, symbol_count, 1, b->nodes_count, out_values, out_bad);
}

bool hn_bundle_relation_holds(uint32_t relation, int64_t x, int64_t y) {
    switch (relation) {
    case HNB_EQ: return x == y;
    case HNB_NE: return x != y;
    case HNB_LT: return x < y;
    default: return x <= y;
    }
}

bool hn_bundle_expr_const(const hn_bundle *b, uint32_t node, int64_t *out_value) {
    return hn_nodes_const(b->nodes, node, out_value);
}

static hn_str symbol_name(const void *bundle, uint32_t symbol) {
    const hn_bundle *b = bundle;
    return hn_bundle_str(b, b->symbols[symbol].name);
}

void hn_bundle_expr_print(const hn_bundle *b, uint32_t node, hn_strbuf *out) {
    hn_nodes_print(&(hn_named_nodes){.nodes = b->nodes, .name = symbol_name, .context = b}, node,
                   out);
}
