/* nodes.c: see nodes.h. */
#include "bundle/nodes.h"

#include "base/hash.h"

#include <string.h>

hn_status hn_nodes_init(hn_nodes *nodes, hn_arena *arena) {
    *nodes = (hn_nodes){.arena = arena};
    hn_map_init(&nodes->known, arena);
    HN_PUSH(arena, nodes, (hnb_node){0});
    return NULL;
}

hn_status hn_nodes_add(hn_nodes *nodes, hnb_op op, uint32_t a, int64_t b, uint32_t *out_node) {
    hnb_node node = {.op = op, .a = a, .b = b};
    /* Equal hashes of unequal nodes are chained by probing the next key. */
    uint64_t key = hn_hash64(&node, sizeof node, 0);
    for (uint64_t *known; (known = hn_map_get(&nodes->known, key)); key++) {
        if (memcmp(&nodes->items[*known], &node, sizeof node) == 0) {
            *out_node = (uint32_t)*known;
            return NULL;
        }
    }
    *out_node = nodes->count;
    HN_PUSH(nodes->arena, nodes, node);
    return hn_map_put(&nodes->known, key, *out_node);
}

bool hn_nodes_const(const hnb_node *nodes, uint32_t node, int64_t *out_value) {
    if (!node || nodes[node].op != HNB_OP_CONST) return false;
    *out_value = nodes[node].b;
    return true;
}

/* --- printing --- */

enum { PRINT_DEPTH_MAX = 40, PRINT_BYTES_MAX = 400 };

typedef struct printer {
    const hn_named_nodes *names;
    const hnb_node *nodes;
    hn_strbuf *out;
    size_t start; /* of the text in `out` */
} printer;

static bool is_negative_const(const printer *p, uint32_t node) {
    return p->nodes[node].op == HNB_OP_CONST && p->nodes[node].b < 0;
}
/* -1 * x, which prints as a subtraction */
static bool is_negated(const printer *p, uint32_t node) {
    const hnb_node *n = &p->nodes[node];
    return n->op == HNB_OP_MUL && p->nodes[n->a].op == HNB_OP_CONST && p->nodes[n->a].b == -1;
}

static void print_node(printer *p, uint32_t node, int precedence, int depth);

static void print_call(printer *p, const hnb_node *n, int depth) {
    hn_strbuf_puts(p->out, n->op == HNB_OP_MIN ? "Min(" : "Max(");
    print_node(p, n->a, 0, depth + 1);
    hn_strbuf_puts(p->out, ", ");
    print_node(p, (uint32_t)n->b, 0, depth + 1);
    hn_strbuf_putc(p->out, ')');
}

static const char *sign_of(uint32_t op) {
    return op == HNB_OP_ADD ? " + " : op == HNB_OP_MUL ? "*" : op == HNB_OP_MOD ? " % " : "//";
}

static void print_operands(printer *p, const hnb_node *n, int own, int depth) {
    const uint32_t right = (uint32_t)n->b;
    print_node(p, n->a, own, depth + 1);
    if (n->op == HNB_OP_ADD && is_negative_const(p, right) && p->nodes[right].b != INT64_MIN) {
        hn_strbuf_puts(p->out, " - ");
        hn_strbuf_i64(p->out, -p->nodes[right].b);
    } else if (n->op == HNB_OP_ADD && is_negated(p, right)) {
        hn_strbuf_puts(p->out, " - ");
        print_node(p, (uint32_t)p->nodes[right].b, 2, depth + 1);
    } else {
        hn_strbuf_puts(p->out, sign_of(n->op));
        print_node(p, right, own + (n->op != HNB_OP_ADD), depth + 1);
    }
}

static void print_binary(printer *p, uint32_t node, int precedence, int depth) {
    const hnb_node *n = &p->nodes[node];
    const int own = n->op == HNB_OP_ADD ? 1 : 2;
    if (own < precedence) hn_strbuf_putc(p->out, '(');
    if (is_negated(p, node)) {
        hn_strbuf_putc(p->out, '-');
        print_node(p, (uint32_t)n->b, 3, depth + 1);
    } else {
        print_operands(p, n, own, depth);
    }
    if (own < precedence) hn_strbuf_putc(p->out, ')');
}

static void print_node(printer *p, uint32_t node, int precedence, int depth) {
    const hnb_node *n = &p->nodes[node];
    if (!node || depth > PRINT_DEPTH_MAX || p->out->len - p->start > PRINT_BYTES_MAX) {
        hn_strbuf_puts(p->out, node ? "..." : "?");
    } else if (n->op == HNB_OP_CONST) {
        hn_strbuf_i64(p->out, n->b);
    } else if (n->op == HNB_OP_SYMBOL) {
        hn_str name = p->names->name(p->names->context, n->a);
        hn_strbuf_append(p->out, name.ptr, name.len);
    } else if (n->op == HNB_OP_MIN || n->op == HNB_OP_MAX) {
        print_call(p, n, depth);
    } else {
        print_binary(p, node, precedence, depth);
    }
}

void hn_nodes_print(const hn_named_nodes *names, uint32_t node, hn_strbuf *out) {
    printer p = {.names = names, .nodes = names->nodes, .out = out, .start = out->len};
    print_node(&p, node, 0, 0);
}
