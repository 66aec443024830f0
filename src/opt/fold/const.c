/* const.c: the value of a constant part of the graph, by the reference interpreter.
 *
 * The node and what it is computed from are copied into a graph of their own, whose inputs are the
 * constants; that graph is interpreted. What an evaluation may cost is bounded: nodes and elements
 * of one, scalar operations of all. */
#include "opt/fold/fold.h"

#include "base/checked.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 512 };                  /* of one evaluation */
#define MAX_ELEMS       ((int64_t)1 << 20) /* of one value on the way */
#define MAX_WORK        ((int64_t)1 << 21) /* scalar operations of a pass: tenths of a second */
#define EVALUATION_WORK ((int64_t)1 << 12) /* what an evaluation costs beside them */

hn_status hn_const_eval_init(hn_const_eval *e, const hn_facts *facts, hn_arena *scratch) {
    *e = (hn_const_eval){.facts = facts, .scratch = scratch, .work_left = MAX_WORK};
    return hn_sym_create(scratch, &e->sym);
}

/* --- what is to be copied --- */

typedef struct extract {
    hn_const_eval *e;
    hn_graph *from, *to;
    hn_map copies; /* value of `from` -> value of `to` */
    struct {
        hn_node *items;
        uint32_t count, cap;
    } nodes; /* of `from` */
    struct {
        hn_value *items;
        uint32_t count, cap;
    } stack;
    hn_map seen; /* producers */
    hn_status failed;
} extract;

static int64_t elems(const hn_graph *g, hn_value v) {
    const hn_value_info *info = hn_graph_value(g, v);
    int64_t count = 1;
    for (uint32_t k = 0; k < info->rank; k++) {
        int64_t size;
        if (!hn_sym_is_int(g->sym, info->sizes[k], &size) || !hn_mul_i64(count, size, &count))
            return INT64_MAX;
    }
    return count;
}

static void push_operand(void *user, hn_value v) {
    extract *x = user;
    if (x->failed) return;
    if (x->stack.count == x->stack.cap)
        x->failed = hn_arena_grow(x->e->scratch, &x->stack.items, &x->stack.cap, x->stack.count,
                                  x->stack.count + 1, sizeof v);
    if (!x->failed) x->stack.items[x->stack.count++] = v;
}

static int compare_nodes(const void *a, const void *b) {
    hn_node x = *(const hn_node *)a, y = *(const hn_node *)b;
    return (x > y) - (x < y);
}

/* The nodes behind the values on the stack, in order. */
static hn_status collect(extract *x, bool *out_fits) {
    *out_fits = false;
    while (x->stack.count) {
        hn_value v = x->stack.items[--x->stack.count];
        hn_node n = hn_graph_value(x->from, v)->producer;
        if (!n || hn_map_get(&x->seen, n)) continue;
        if (x->nodes.count == MAX_NODES) return NULL;
        HN_TRY(hn_map_put(&x->seen, n, 1));
        HN_PUSH(x->e->scratch, &x->nodes, n);
        hn_node_each_value(&x->from->nodes.items[n], push_operand, x);
        HN_TRY(x->failed);
    }
    if (x->nodes.count)
        qsort(x->nodes.items, x->nodes.count, sizeof *x->nodes.items, compare_nodes);
    *out_fits = true;
    return NULL;
}

/* --- what it costs --- */

typedef struct cost {
    const hn_graph *g;
    int64_t most; /* elements of the largest operand */
} cost;

static void visit_cost(void *user, hn_value v) {
    cost *c = user;
    int64_t count = elems(c->g, v);
    if (count > c->most) c->most = count;
}

/* Scalar operations of a node; contractions multiply every element of the result with a row. -1:
 * too many. */
static int64_t node_work(const hn_graph *g, const hn_node_info *n) {
    cost c = {.g = g, .most = 1};
    int64_t work, row = 1;
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k]) visit_cost(&c, n->results[k]);
    hn_node_each_value(n, visit_cost, &c);
    if (c.most > MAX_ELEMS) return -1;
    if (hn_op_facts(n->op)->op_class == HN_OPC_CONTRACT) row = elems(g, n->args[1].as.value);
    return hn_mul_i64(c.most, row < 1 ? 1 : row, &work) ? work : -1;
}

static bool is_affordable(extract *x, const hn_node_info *last) {
    int64_t total = last ? node_work(x->from, last) : 0;
    if (total < 0) return false;
    for (uint32_t k = 0; k < x->nodes.count; k++) {
        int64_t work = node_work(x->from, &x->from->nodes.items[x->nodes.items[k]]);
        if (work < 0 || !hn_add_i64(total, work, &total)) return false;
    }
    if (total > x->e->work_left) return false;
    x->e->work_left -= total;
    return true;
}

/* --- the copy --- */

static hn_expr copy_expr(const extract *x, hn_expr e) {
    int64_t value = 0;
    hn_sym_is_int(x->from->sym, e, &value); /* constness has made sure */
    return hn_sym_int(x->to->sym, value);
}

static hn_status copy_value(extract *x, hn_value v, hn_value *out) {
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK];
    const hn_value_info *info = hn_graph_value(x->from, v);
    for (uint32_t k = 0; k < info->rank; k++) sizes[k] = copy_expr(x, info->sizes[k]);
    for (uint32_t k = 0; info->strides && k < info->rank; k++)
        strides[k] = copy_expr(x, info->strides[k]);
    bool keep_strides = info->strides && !info->producer; /* an input's bytes lie so */
    *out = hn_graph_add_tensor(x->to, info->dtype, info->rank, sizes, keep_strides ? strides : NULL,
                               HN_STR(""));
    HN_TRY(hn_graph_status(x->to));
    return hn_map_put(&x->copies, v, *out);
}

static hn_status copy_input(extract *x, hn_value v) {
    const hn_input *in = hn_facts_stored(x->e->facts, v);
    hn_input copy = {.kind = HN_INPUT_CONSTANT, .name = HN_STR("")};
    if (!in) return HN_ERROR(HN_INTERNAL, "a constant part of the graph reads an input");
    copy.storage_offset_elems = in->storage_offset_elems;
    HN_TRY(copy_value(x, v, &copy.value));
    const hn_storage *storage = &x->from->storages.items[in->storage];
    copy.storage = hn_graph_add_storage(x->to, (hn_storage){.data = hn_storage_bytes(storage),
                                                            .size_bytes = storage->size_bytes,
                                                            .file_record = HN_STR("")});
    HN_TRY(hn_graph_status(x->to));
    return hn_graph_add_input(x->to, copy);
}

static hn_status copied(extract *x, hn_value v, hn_value *out) {
    const uint64_t *known = hn_map_get(&x->copies, v);
    if (!known) {
        if (hn_graph_value(x->from, v)->producer)
            return HN_ERROR(HN_INTERNAL, "a constant part of the graph is not in order");
        HN_TRY(copy_input(x, v));
        known = hn_map_get(&x->copies, v);
    }
    *out = (hn_value)*known;
    return NULL;
}

static hn_status copy_arg(extract *x, const hn_arg *from, hn_arg *out) {
    *out = *from;
    if (from->kind == HN_ARG_VALUE) return copied(x, from->as.value, &out->as.value);
    if (from->kind == HN_ARG_INT) out->as.expr = copy_expr(x, from->as.expr);
    if (from->kind != HN_ARG_VALUES && from->kind != HN_ARG_INTS) return NULL;
    uint32_t *list;
    HN_NEW(x->e->scratch, list, from->count);
    for (uint32_t k = 0; k < from->count; k++) {
        if (from->kind == HN_ARG_INTS) list[k] = copy_expr(x, from->as.exprs[k]);
        else HN_TRY(copied(x, from->as.values[k], &list[k]));
    }
    if (from->kind == HN_ARG_INTS) out->as.exprs = list;
    else out->as.values = list;
    return NULL;
}

static hn_status copy_node(extract *x, const hn_node_info *n) {
    hn_arg *args;
    hn_value results[2] = {0, 0};
    HN_NEW(x->e->scratch, args, n->arg_count);
    for (uint32_t k = 0; k < n->arg_count; k++) HN_TRY(copy_arg(x, &n->args[k], &args[k]));
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k]) HN_TRY(copy_value(x, n->results[k], &results[k]));
    hn_graph_add_node(x->to, n->op, args, n->arg_count, results, n->result_count);
    return hn_graph_status(x->to);
}

static hn_status add_output(extract *x, hn_value v) {
    hn_output out = {.kind = HN_OUTPUT_USER, .name = HN_STR("")};
    HN_TRY(copied(x, v, &out.value));
    return hn_graph_add_output(x->to, out);
}

static hn_status build(extract *x, const hn_node_info *last, hn_value value) {
    for (uint32_t k = 0; k < x->nodes.count; k++)
        HN_TRY(copy_node(x, &x->from->nodes.items[x->nodes.items[k]]));
    if (!last) return add_output(x, value);
    HN_TRY(copy_node(x, last));
    for (uint32_t k = 0; k < last->result_count; k++)
        if (last->results[k]) HN_TRY(add_output(x, last->results[k]));
    return NULL;
}

/* Evaluates the results of `last`, or with NULL the one value. */
static hn_status evaluate(hn_const_eval *e, const hn_node_info *last, hn_value value,
                          hn_ref_tensor out[2], bool *out_done) {
    extract x = {.e = e, .from = e->facts->g};
    *out_done = false;
    if (e->work_left < EVALUATION_WORK) return NULL;
    e->work_left -= EVALUATION_WORK; /* also of one that is given up: looking takes time */
    hn_map_init(&x.copies, e->scratch);
    hn_map_init(&x.seen, e->scratch);
    if (last) hn_node_each_value(last, push_operand, &x);
    else push_operand(&x, value);
    HN_TRY(x.failed);
    bool fits = false;
    HN_TRY(collect(&x, &fits));
    if (!fits || !is_affordable(&x, last)) return NULL;
    HN_TRY(hn_graph_create(e->scratch, e->sym, &x.to));
    HN_TRY(build(&x, last, value));
    hn_status status = hn_interpret(e->scratch, x.to, NULL, 0, out);
    hn_graph_deinit(x.to);
    if (!status) {
        *out_done = true;
        return NULL;
    }
    if (hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    hn_status_free(status); /* the program will say so when it runs */
    return NULL;
}

hn_status hn_const_eval_node(hn_const_eval *e, const hn_node_info *node, hn_constness least,
                             hn_ref_tensor out[2], bool *out_done) {
    *out_done = false;
    bool has_gap = node->result_count > 2 ||
                   (node->result_count == 2 && (!node->results[0] || !node->results[1]));
    if (has_gap || node->result_count == 0 || hn_facts_node_constness(e->facts, node) < least)
        return NULL;
    return evaluate(e, node, 0, out, out_done);
}

hn_status hn_const_eval_value(hn_const_eval *e, hn_value v, hn_constness least, hn_ref_tensor *out,
                              bool *out_done) {
    *out_done = false;
    return hn_facts_constness(e->facts, v) < least ? NULL : evaluate(e, NULL, v, out, out_done);
}

/* --- back into the graph --- */

static bool is_uniform(const hn_ref_tensor *t) {
    for (int64_t k = 1; k < t->numel; k++)
        if (t->data.i[k] != t->data.i[0]) return false; /* floats by their bits */
    return true;
}

/* start + k * step along the only dim that has more than one element */
static bool is_arithmetic(const hn_ref_tensor *t, uint32_t *out_dim) {
    uint32_t dims = 0;
    if (!hn_dtype_is_int(t->dtype) || t->numel < 2) return false;
    for (uint32_t k = 0; k < t->rank; k++)
        if (t->sizes[k] != 1) *out_dim = k, dims++;
    int64_t step, limit = (int64_t)1 << 31;
    if (dims != 1 || !hn_sub_i64(t->data.i[1], t->data.i[0], &step)) return false;
    if (t->data.i[0] > limit || t->data.i[0] < -limit || step > limit || step < -limit)
        return false;
    for (int64_t k = 1; k < t->numel; k++) {
        int64_t gap;
        if (!hn_sub_i64(t->data.i[k], t->data.i[k - 1], &gap) || gap != step) return false;
    }
    return true;
}

static hn_value place_arithmetic(hn_graph *g, const hn_ref_tensor *t, uint32_t dim,
                                 const hn_expr *sizes) {
    hn_scalar start = hn_scalar_i(hn_sym_int(g->sym, t->data.i[0]));
    hn_scalar step = hn_scalar_i(hn_sym_int(g->sym, t->data.i[1] - t->data.i[0]));
    return hn_v_reshape(g, hn_b_iota(g, start, step, sizes[dim], t->dtype), sizes, t->rank);
}

hn_status hn_const_place(const hn_facts *facts, const hn_ref_tensor *t, bool allow_table,
                         hn_value *out) {
    hn_graph *g = facts->g;
    hn_expr sizes[HN_MAX_RANK];
    uint32_t dim = 0;
    size_t bytes;
    *out = 0;
    for (uint32_t k = 0; k < t->rank; k++) sizes[k] = hn_sym_int(g->sym, t->sizes[k]);
    if (is_uniform(t)) {
        hn_ref_elem e = {.i = 0};
        if (t->numel) e.i = t->data.i[0]; /* the bits of a double, too */
        hn_value_info like = {.dtype = t->dtype, .rank = t->rank, .sizes = sizes};
        *out = hn_full_like(g, e, &like);
        return hn_graph_status(g);
    }
    if (is_arithmetic(t, &dim)) {
        *out = place_arithmetic(g, t, dim, sizes);
        return hn_graph_status(g);
    }
    if (!allow_table ||
        !hn_mul_size((size_t)t->numel, hn_dtype_facts(t->dtype)->size_bytes, &bytes))
        return NULL;
    if (bytes > HN_FOLD_TABLE_BYTES) return NULL;
    uint8_t *data;
    HN_NEW(facts->arena, data, bytes);
    hn_ref_tensor_store(t, data);
    *out = hn_graph_add_constant(g, t->dtype, t->rank, sizes, data, bytes);
    return hn_graph_status(g);
}
