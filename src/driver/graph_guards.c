/* graph_guards.c: see graph_guards.h. Layout: head, symbols, nodes, guards. Nodes are those of
 * bundle/format.h, and evaluated as those of a bundle. Numbers are the machine's own: a program for
 * another machine has another key. */
#include "driver/graph_guards.h"

#include "base/arena.h"
#include "base/checked.h"
#include "bundle/nodes.h"
#include "cache/variants.h"

typedef struct guards_head {
    uint32_t input_count, tensor_count; /* of the program */
    uint32_t symbol_count, node_count, guard_count, reserved;
} guards_head;

/* As hnb_symbol, without what is not needed to compute it. */
typedef struct guards_symbol {
    int64_t coeff;
    uint32_t input, tensor; /* its number among all inputs, and among those that are tensors */
    uint32_t dim, rest;
} guards_symbol;

typedef struct guards_relation {
    uint32_t relation, lhs, rhs, reserved;
} guards_relation;

/* ---- writing ---- */

/* Which nodes and symbols of a bundle guards need, and their numbers among these. */
typedef struct writer {
    const hn_bundle *b;
    hn_arena arena;
    uint8_t *by_data;                      /* of a node: only the data tells its value */
    uint32_t *node_number, *symbol_number; /* not 0: needed */
    guards_head head;
} writer;

static bool is_written(const writer *w, const hnb_guard *g) {
    return !w->by_data[g->lhs] && !w->by_data[g->rhs];
}

static void find_data(writer *w) {
    for (uint32_t k = 1; k < w->b->nodes_count; k++) {
        const hnb_node *n = &w->b->nodes[k];
        if (n->op == HNB_OP_SYMBOL) w->by_data[k] = w->b->symbols[n->a].input == HNB_BY_STEP;
        if (n->op >= HNB_OP_ADD) w->by_data[k] = w->by_data[n->a] || w->by_data[n->b];
    }
}

/* Whatever the nodes up to `last` that are needed are made of. */
static void need_operands(writer *w, uint32_t last) {
    for (uint32_t k = last; k > 0; k--) {
        const hnb_node *n = &w->b->nodes[k];
        if (!w->node_number[k]) continue;
        if (n->op == HNB_OP_SYMBOL) w->symbol_number[n->a] = 1;
        if (n->op >= HNB_OP_ADD) w->node_number[n->a] = w->node_number[n->b] = 1;
    }
}

/* The rest of a symbol uses earlier ones only. */
static void find_needed(writer *w) {
    const hn_bundle *b = w->b;
    for (uint32_t k = 0; k < b->guards_count; k++) {
        if (!is_written(w, &b->guards[k])) continue;
        w->node_number[b->guards[k].lhs] = w->node_number[b->guards[k].rhs] = 1;
        w->head.guard_count++;
    }
    need_operands(w, b->nodes_count - 1);
    for (uint32_t k = b->symbols_count; k-- > 0;) {
        if (!w->symbol_number[k] || !b->symbols[k].rest) continue;
        w->node_number[b->symbols[k].rest] = 1;
        need_operands(w, b->symbols[k].rest);
    }
}

static uint32_t number(uint32_t *numbers, uint32_t first, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t k = first; k < end; k++)
        if (numbers[k]) numbers[k] = ++count;
    return count;
}

static uint32_t tensors_before(const hn_bundle *b, uint32_t input) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < input && k < b->inputs_count; k++)
        count += b->inputs[k].kind == HNB_VALUE_TENSOR;
    return count;
}

static void put_parts(const writer *w, hn_strbuf *out) {
    const hn_bundle *b = w->b;
    hn_strbuf_append(out, (const char *)&w->head, sizeof w->head);
    for (uint32_t k = 0; k < b->symbols_count; k++) {
        const hnb_symbol *s = &b->symbols[k];
        const guards_symbol symbol = {s->coeff, s->input, tensors_before(b, s->input), s->dim,
                                      w->node_number[s->rest]};
        if (w->symbol_number[k]) hn_strbuf_append(out, (const char *)&symbol, sizeof symbol);
    }
    for (uint32_t k = 1; k < b->nodes_count; k++) {
        hnb_node node = b->nodes[k];
        if (!w->node_number[k]) continue;
        if (node.op == HNB_OP_SYMBOL) node.a = w->symbol_number[node.a] - 1;
        if (node.op >= HNB_OP_ADD) node.a = w->node_number[node.a], node.b = w->node_number[node.b];
        hn_strbuf_append(out, (const char *)&node, sizeof node);
    }
    for (uint32_t k = 0; k < b->guards_count; k++) {
        const hnb_guard *g = &b->guards[k];
        const guards_relation guard = {g->relation, w->node_number[g->lhs], w->node_number[g->rhs],
                                       0};
        if (is_written(w, g)) hn_strbuf_append(out, (const char *)&guard, sizeof guard);
    }
}

static hn_status write_guards(writer *w, hn_strbuf *out) {
    const hn_bundle *b = w->b;
    HN_NEW(&w->arena, w->by_data, b->nodes_count);
    HN_NEW(&w->arena, w->node_number, b->nodes_count);
    HN_NEW(&w->arena, w->symbol_number, b->symbols_count);
    find_data(w);
    find_needed(w);
    w->head.input_count = b->inputs_count;
    w->head.tensor_count = tensors_before(b, b->inputs_count);
    w->head.symbol_count = number(w->symbol_number, 0, b->symbols_count);
    w->head.node_count = number(w->node_number, 1, b->nodes_count) + 1;
    put_parts(w, out);
    return hn_strbuf_status(out);
}

hn_status hn_graph_guards_write(const hn_bundle *b, hn_strbuf *out) {
    writer w = {.b = b};
    hn_arena_init(&w.arena);
    hn_status status = write_guards(&w, out);
    hn_arena_deinit(&w.arena);
    return status;
}

/* ---- reading ---- */

typedef struct guards {
    guards_head head;
    guards_symbol *symbols;
    hnb_node *nodes; /* [0] filler */
    guards_relation *relations;
} guards;

static bool is_sound(const guards *g) {
    const guards_head *h = &g->head;
    for (uint32_t k = 0; k < h->symbol_count; k++)
        if (!g->symbols[k].coeff || g->symbols[k].rest >= h->node_count) return false;
    for (uint32_t k = 1; k < h->node_count; k++) {
        const hnb_node *n = &g->nodes[k];
        bool ok = n->op > HNB_OP_NONE && n->op < HNB_OP_COUNT;
        if (n->op >= HNB_OP_ADD) ok = ok && n->a < k && n->b >= 0 && n->b < (int64_t)k;
        if (n->op == HNB_OP_SYMBOL) ok = n->a < h->symbol_count;
        if (!ok) return false;
    }
    for (uint32_t k = 0; k < h->guard_count; k++) {
        const guards_relation *r = &g->relations[k];
        if (r->relation >= HNB_RELATION_COUNT || r->lhs >= h->node_count || r->rhs >= h->node_count)
            return false;
    }
    return true;
}

static const char *take(const char *from, void *to, size_t len) {
    memcpy(to, from, len);
    return from + len;
}

/* Copies, since the bytes may stand anywhere. Errors: corrupt, out-of-memory. */
static hn_status open_guards(hn_arena *arena, hn_str bytes, guards *out) {
    guards_head *h = &out->head;
    if (bytes.len < sizeof *h) return HN_ERROR(HN_CORRUPT, "guards are cut short");
    const char *at = take(bytes.ptr, h, sizeof *h);
    uint64_t nodes = h->node_count ? h->node_count - 1 : 0;
    uint64_t len = sizeof *h + h->symbol_count * (uint64_t)sizeof *out->symbols +
                   nodes * sizeof *out->nodes + h->guard_count * (uint64_t)sizeof *out->relations;
    if (!h->node_count || len != bytes.len) return HN_ERROR(HN_CORRUPT, "guards are damaged");
    HN_NEW(arena, out->symbols, h->symbol_count);
    HN_NEW(arena, out->nodes, h->node_count);
    HN_NEW(arena, out->relations, h->guard_count);
    at = take(at, out->symbols, h->symbol_count * sizeof *out->symbols);
    at = take(at, out->nodes + 1, (size_t)nodes * sizeof *out->nodes);
    take(at, out->relations, h->guard_count * sizeof *out->relations);
    return is_sound(out) ? NULL : HN_ERROR(HN_CORRUPT, "guards are damaged");
}

/* ---- comparing ---- */

typedef struct sizes {
    const hn_input_sizes *inputs;
    uint32_t count;
} sizes;

static bool size_of(const guards *g, const guards_symbol *s, const sizes *given, int64_t *out) {
    bool is_of_tensors =
        given->count != g->head.input_count && given->count == g->head.tensor_count;
    uint32_t index = is_of_tensors ? s->tensor : s->input;
    if (index >= given->count) return false;
    const hn_input_sizes *in = &given->inputs[index];
    if (s->dim == HNB_DIM_VALUE ? !in->has_value : s->dim >= in->rank) return false;
    *out = s->dim == HNB_DIM_VALUE ? in->value : in->sizes[s->dim];
    return true;
}

/* symbol = (size - rest) / coeff, without a remainder. */
static bool solve(const guards *g, const guards_symbol *s, const sizes *given,
                  const int64_t *values, const uint8_t *bad, int64_t *out) {
    int64_t size;
    if (!size_of(g, s, given, &size)) return false;
    if (s->rest && (bad[s->rest] || !hn_sub_i64(size, values[s->rest], &size))) return false;
    return hn_floor_div_i64(size, s->coeff, out) && hn_floor_mod(size, s->coeff) == 0;
}

/* Whether the sizes satisfy all guards; not when they cannot be computed. */
static hn_status compare(hn_arena *arena, const guards *g, const sizes *given, bool *out) {
    const hn_bundle view = {.nodes = g->nodes, .nodes_count = g->head.node_count};
    int64_t *symbols, *values;
    uint8_t *bad;
    HN_NEW(arena, symbols, g->head.symbol_count);
    HN_NEW(arena, values, g->head.node_count);
    HN_NEW(arena, bad, g->head.node_count);
    *out = false;
    for (uint32_t k = 0; k < g->head.symbol_count; k++) {
        const guards_symbol *s = &g->symbols[k];
        if (s->rest) hn_bundle_eval(&view, symbols, k, values, bad);
        if (!solve(g, s, given, values, bad, &symbols[k])) return NULL;
    }
    hn_bundle_eval(&view, symbols, g->head.symbol_count, values, bad);
    for (uint32_t k = 0; k < g->head.guard_count; k++) {
        const guards_relation *r = &g->relations[k];
        if (bad[r->lhs] || bad[r->rhs] ||
            !hn_bundle_relation_holds(r->relation, values[r->lhs], values[r->rhs]))
            return NULL;
    }
    *out = true;
    return NULL;
}

static bool takes(hn_arena *arena, const hn_variant *variant, const sizes *given) {
    guards g;
    bool does = false;
    hn_arena_reset(arena);
    hn_status status = open_guards(arena, variant->guards, &g);
    if (!status) status = compare(arena, &g, given, &does);
    hn_status_free(status); /* damaged, or no memory: as if it were not there */
    return does;
}

bool hn_graph_guards_find(hn_str table, const hn_input_sizes *inputs, uint32_t count,
                          hn_digest *out_key) {
    hn_arena arena;
    hn_variant variant;
    const sizes given = {inputs, count};
    bool is_found = false, is_default = false;
    hn_arena_init(&arena);
    for (size_t at = 0; !is_default && hn_variants_next(table, &at, &variant);) {
        bool is_of_use = inputs ? !is_found || variant.is_default : variant.is_default;
        if (!is_of_use || (inputs && !takes(&arena, &variant, &given))) continue;
        *out_key = variant.key;
        is_found = true;
        is_default = variant.is_default;
    }
    hn_arena_deinit(&arena);
    return is_found;
}

/* ---- for people ---- */

static hn_str name_of(const void *names, uint32_t symbol) {
    return ((const hn_str *)names)[symbol];
}

static hn_status name_symbol(hn_arena *arena, const guards *g, uint32_t k, hn_str *names) {
    const guards_symbol *s = &g->symbols[k];
    bool is_plain = s->coeff == 1 && !s->rest;
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (!is_plain) hn_strbuf_putc(&text, '(');
    hn_strbuf_printf(&text, "input %u", s->input);
    if (s->dim != HNB_DIM_VALUE) hn_strbuf_printf(&text, " dimension %u", s->dim);
    if (s->rest) {
        hn_strbuf_puts(&text, " - ");
        hn_nodes_print(&(hn_named_nodes){g->nodes, name_of, names}, s->rest, &text);
    }
    if (!is_plain) hn_strbuf_putc(&text, ')');
    if (s->coeff != 1) hn_strbuf_printf(&text, "/%lld", (long long)s->coeff);
    hn_str whole = hn_strbuf_str(&text);
    names[k] = (hn_str){hn_arena_strndup(arena, whole.ptr, whole.len), whole.len};
    hn_status status = hn_strbuf_status(&text);
    hn_strbuf_deinit(&text);
    return status || names[k].ptr ? status : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for guards");
}

static hn_status describe(hn_arena *arena, hn_str bytes, hn_strbuf *out) {
    guards g;
    hn_str *names;
    HN_TRY(open_guards(arena, bytes, &g));
    HN_NEW(arena, names, g.head.symbol_count);
    for (uint32_t k = 0; k < g.head.symbol_count; k++) HN_TRY(name_symbol(arena, &g, k, names));
    const hn_named_nodes nodes = {g.nodes, name_of, names};
    if (!g.head.guard_count) hn_strbuf_puts(out, "any size");
    for (uint32_t k = 0; k < g.head.guard_count; k++) {
        if (k) hn_strbuf_puts(out, ", ");
        hn_nodes_print(&nodes, g.relations[k].lhs, out);
        hn_strbuf_printf(out, " %s ", hn_bundle_relations[g.relations[k].relation]);
        hn_nodes_print(&nodes, g.relations[k].rhs, out);
    }
    return hn_strbuf_status(out);
}

hn_status hn_graph_guards_describe(hn_str bytes, hn_strbuf *out) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_status status = describe(&arena, bytes, out);
    hn_arena_deinit(&arena);
    return status;
}
