/* graph.c: the graph's arrays: making values and nodes, inputs and outputs, and the sweeps that
 * passes share. */
#include "ir/graph.h"

#include "base/checked.h"
#include "ir/check.h"

#include <assert.h>

hn_status hn_graph_create(hn_arena *arena, hn_sym *sym, hn_graph **out) {
    hn_graph *g = NULL;
    HN_NEW(arena, g, 1);
    g->arena = arena;
    g->sym = sym;
    g->name = HN_STR("");
    HN_PUSH(arena, &g->values, ((hn_value_info){.name = HN_STR("")}));
    HN_PUSH(arena, &g->nodes, ((hn_node_info){.dead = true}));
    HN_PUSH(arena, &g->origins, ((hn_origin){HN_STR(""), HN_STR("")}));
    HN_PUSH(arena, &g->storages, ((hn_storage){.file_record = HN_STR("")}));
    *out = g;
    return NULL;
}

void hn_graph_deinit(hn_graph *graph) {
    if (!graph) return;
    hn_status_free(graph->failed);
    graph->failed = NULL;
    for (uint32_t n = 1; n < graph->nodes.count; n++) {
        const hn_node_info *node = &graph->nodes.items[n];
        for (uint32_t i = 0; i < node->arg_count; i++)
            if (node->args[i].kind == HN_ARG_GRAPH) hn_graph_deinit(node->args[i].as.graph);
    }
}

hn_status hn_graph_status(hn_graph *graph) {
    hn_status status = graph->failed;
    graph->failed = NULL;
    return status;
}

void hn_graph_fail(hn_graph *graph, hn_status status) {
    if (graph->failed) hn_status_free(status);
    else graph->failed = status;
}

/* --- values --- */

static hn_status copy_bytes(hn_arena *arena, const void *from, size_t count, size_t elem_bytes,
                            const void *out) {
    void *to = NULL;
    HN_TRY(hn_arena_array(arena, count, elem_bytes, &to));
    if (count) memcpy(to, from, count * elem_bytes);
    memcpy((void *)(uintptr_t)out, &to, sizeof to);
    return NULL;
}

static hn_status copy_str(hn_arena *arena, hn_str *s) {
    if (!s->len) {
        *s = HN_STR("");
        return NULL;
    }
    const char *copy = hn_arena_strndup(arena, s->ptr, s->len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a name of a graph");
    s->ptr = copy;
    return NULL;
}

/* A 0 among expressions comes from a failure in the symbol context, which knows the reason. */
static hn_status check_exprs(const hn_graph *g, const hn_expr *exprs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!exprs[i]) {
            HN_TRY(hn_sym_status(g->sym));
            return HN_ERROR(HN_INTERNAL, "expression %u of a list is invalid", i);
        }
    return NULL;
}

void hn_contiguous_strides(hn_sym *sym, const hn_expr *sizes, uint32_t rank, hn_expr *out_strides) {
    hn_expr stride = hn_sym_int(sym, 1);
    for (uint32_t d = rank; d-- > 0;) {
        out_strides[d] = stride;
        if (d > 0) stride = hn_sym_mul(sym, stride, sizes[d]);
    }
}

hn_expr hn_strided_extent(hn_sym *sym, const hn_expr *sizes, const hn_expr *strides,
                          uint32_t rank) {
    const hn_expr one = hn_sym_int(sym, 1);
    hn_expr extent = one;
    for (uint32_t d = 0; d < rank; d++) {
        if (hn_sym_is_value(sym, sizes[d], 0)) return hn_sym_int(sym, 0);
        extent =
            hn_sym_add(sym, extent, hn_sym_mul(sym, hn_sym_sub(sym, sizes[d], one), strides[d]));
    }
    return extent;
}

void hn_value_strides(hn_sym *sym, const hn_value_info *info, hn_expr *out_strides) {
    if (!info->strides) hn_contiguous_strides(sym, info->sizes, info->rank, out_strides);
    else if (info->rank) memcpy(out_strides, info->strides, info->rank * sizeof *out_strides);
}

static hn_status push_value(hn_graph *g, const hn_value_info *info, hn_value *out) {
    if (g->values.count == UINT32_MAX)
        return HN_ERROR(HN_OUT_OF_MEMORY, "too many values in a graph");
    HN_PUSH(g->arena, &g->values, *info);
    *out = g->values.count - 1;
    return NULL;
}

static hn_status add_tensor(hn_graph *g, hn_value_info info, hn_value *out) {
    if (info.rank > HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "a tensor of rank %u exceeds the limit of %d", info.rank,
                        HN_MAX_RANK);
    if ((uint32_t)info.dtype >= HN_DTYPE_COUNT || info.dtype == HN_DTYPE_NONE)
        return HN_ERROR(HN_INTERNAL, "a tensor needs an element type");
    HN_TRY(check_exprs(g, info.sizes, info.rank));
    HN_TRY(copy_bytes(g->arena, info.sizes, info.rank, sizeof *info.sizes, &info.sizes));
    if (info.strides) {
        HN_TRY(check_exprs(g, info.strides, info.rank));
        HN_TRY(copy_bytes(g->arena, info.strides, info.rank, sizeof *info.strides, &info.strides));
    }
    HN_TRY(copy_str(g->arena, &info.name));
    return push_value(g, &info, out);
}

hn_value hn_graph_add_tensor(hn_graph *graph, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                             const hn_expr *strides, hn_str name) {
    if (graph->failed) return 0;
    hn_value v = 0;
    hn_status status = add_tensor(graph,
                                  (hn_value_info){.kind = HN_VALUE_TENSOR,
                                                  .dtype = dtype,
                                                  .rank = rank,
                                                  .sizes = sizes,
                                                  .strides = strides,
                                                  .name = name},
                                  &v);
    if (status) hn_graph_fail(graph, status);
    return v;
}

static hn_status add_scalar(hn_graph *g, hn_value_kind kind, hn_expr expr, hn_str name,
                            hn_value *out) {
    static const hn_dtype dtypes[] = {[HN_VALUE_SYM_INT] = HN_DTYPE_I64,
                                      [HN_VALUE_SYM_FLOAT] = HN_DTYPE_F64,
                                      [HN_VALUE_SYM_BOOL] = HN_DTYPE_BOOL};
    if (kind != HN_VALUE_SYM_INT && kind != HN_VALUE_SYM_FLOAT && kind != HN_VALUE_SYM_BOOL)
        return HN_ERROR(HN_INTERNAL, "a symbolic scalar is an int, a float or a bool");
    if (kind == HN_VALUE_SYM_INT) HN_TRY(check_exprs(g, &expr, 1));
    HN_TRY(copy_str(g->arena, &name));
    hn_value_info info = {.kind = kind, .dtype = dtypes[kind], .expr = expr, .name = name};
    return push_value(g, &info, out);
}

hn_value hn_graph_add_scalar(hn_graph *graph, hn_value_kind kind, hn_expr expr, hn_str name) {
    if (graph->failed) return 0;
    hn_value v = 0;
    hn_status status = add_scalar(graph, kind, expr, name, &v);
    if (status) hn_graph_fail(graph, status);
    return v;
}

/* --- nodes --- */

static hn_status copy_arg(hn_graph *g, hn_arg *arg) {
    switch (arg->kind) {
    case HN_ARG_VALUES:
        return copy_bytes(g->arena, arg->as.values, arg->count, sizeof *arg->as.values,
                          &arg->as.values);
    case HN_ARG_INTS:
        HN_TRY(check_exprs(g, arg->as.exprs, arg->count));
        return copy_bytes(g->arena, arg->as.exprs, arg->count, sizeof *arg->as.exprs,
                          &arg->as.exprs);
    case HN_ARG_FLOATS:
        return copy_bytes(g->arena, arg->as.floats, arg->count, sizeof *arg->as.floats,
                          &arg->as.floats);
    case HN_ARG_INT: return check_exprs(g, &arg->as.expr, 1);
    case HN_ARG_STRING: return copy_str(g->arena, &arg->as.s);
    default: return NULL;
    }
}

static hn_status add_node(hn_graph *g, hn_node_info info, hn_node *out) {
    const hn_arg *args = info.args;
    HN_TRY(copy_bytes(g->arena, args, info.arg_count, sizeof *args, &info.args));
    for (uint32_t i = 0; i < info.arg_count; i++)
        HN_TRY(hn_status_annotate(copy_arg(g, &info.args[i]), "argument %u of '%s'", i,
                                  hn_op_facts(info.op)->name));
    HN_TRY(
        copy_bytes(g->arena, info.results, info.result_count, sizeof *info.results, &info.results));
    for (uint32_t i = 0; i < info.result_count; i++)
        if (info.results[i] >= g->values.count)
            return HN_ERROR(HN_INTERNAL, "result %u of '%s' is no value", i,
                            hn_op_facts(info.op)->name);
    HN_PUSH(g->arena, &g->nodes, info);
    *out = g->nodes.count - 1;
    for (uint32_t i = 0; i < info.result_count; i++) {
        if (!info.results[i]) continue;
        g->values.items[info.results[i]].producer = *out;
        g->values.items[info.results[i]].result_idx = i;
    }
    return NULL;
}

hn_node hn_graph_add_node(hn_graph *graph, hn_op op, const hn_arg *args, uint32_t arg_count,
                          const hn_value *results, uint32_t result_count) {
    if (graph->failed) return 0;
    hn_node n = 0;
    hn_node_info info = {.op = op,
                         .arg_count = arg_count,
                         .result_count = result_count,
                         /* only read: add_node puts its copy here */
                         .args = (hn_arg *)(uintptr_t)args,
                         .results = results,
                         .origin = graph->current_origin};
    hn_status status = add_node(graph, info, &n);
    if (status) hn_graph_fail(graph, status);
    return n;
}

/* --- inputs, outputs, storages, origins --- */

hn_status hn_graph_add_input(hn_graph *graph, hn_input input) {
    if (input.value >= graph->values.count)
        return HN_ERROR(HN_INTERNAL, "an input's value does not exist");
    if (input.storage >= graph->storages.count)
        return HN_ERROR(HN_INTERNAL, "an input's storage does not exist");
    HN_TRY(copy_str(graph->arena, &input.name));
    HN_TRY(copy_arg(graph, &input.scalar));
    HN_PUSH(graph->arena, &graph->inputs, input);
    return NULL;
}

hn_status hn_graph_note_weights(hn_graph *graph) {
    graph->weights.count = 0;
    for (uint32_t k = 0; k < graph->inputs.count; k++) {
        const hn_input *in = &graph->inputs.items[k];
        const hn_value_info *v = &graph->values.items[in->value];
        if (!in->storage || !in->value || !in->name.len) continue;
        hn_storage *storage = &graph->storages.items[in->storage];
        if (!storage->was_read) HN_NEW(graph->arena, storage->was_read, 1);
        HN_PUSH(graph->arena, &graph->weights,
                ((hn_graph_weight){in->kind, in->name, in->storage, in->storage_offset_elems,
                                   v->dtype, v->rank, v->sizes, v->strides}));
    }
    return NULL;
}

hn_status hn_graph_add_output(hn_graph *graph, hn_output output) {
    if (output.value >= graph->values.count)
        return HN_ERROR(HN_INTERNAL, "an output's value does not exist");
    HN_TRY(copy_str(graph->arena, &output.name));
    HN_TRY(copy_arg(graph, &output.scalar));
    HN_PUSH(graph->arena, &graph->outputs, output);
    return NULL;
}

static hn_status add_storage(hn_graph *g, hn_storage storage, uint32_t *out) {
    HN_TRY(copy_str(g->arena, &storage.file_record));
    HN_PUSH(g->arena, &g->storages, storage);
    *out = g->storages.count - 1;
    return NULL;
}

uint32_t hn_graph_add_storage(hn_graph *graph, hn_storage storage) {
    if (graph->failed) return 0;
    uint32_t index = 0;
    hn_status status = add_storage(graph, storage, &index);
    if (status) hn_graph_fail(graph, status);
    return index;
}

static hn_status read_plain(const hn_graph *graph, uint32_t storage, const uint8_t **out) {
    const hn_storage *s = &graph->storages.items[storage];
    *out = s->data;
    return !s->data && s->computed ? hn_weights_program_read(graph, s->computed - 1, out) : NULL;
}

hn_status hn_graph_storage_data(const hn_graph *graph, uint32_t storage, hn_arena *arena,
                                const uint8_t **out) {
    const hn_storage *s = &graph->storages.items[storage];
    uint8_t *made;
    if (!s->piece_count) return read_plain(graph, storage, out);
    *out = NULL;
    HN_NEW(arena, made, s->size_bytes);
    for (uint32_t k = 0; k < s->piece_count; k++) {
        const uint8_t *from;
        HN_TRY(read_plain(graph, s->pieces[k].storage, &from));
        if (!from) return NULL;
        hn_box_copy(&s->pieces[k].box, from, 0, s->size_bytes, made, NULL);
    }
    *out = made;
    return NULL;
}

static hn_status add_origin(hn_graph *g, hn_origin origin, uint32_t *out) {
    HN_TRY(copy_str(g->arena, &origin.node));
    HN_TRY(copy_str(g->arena, &origin.source));
    HN_PUSH(g->arena, &g->origins, origin);
    *out = g->origins.count - 1;
    return NULL;
}

uint32_t hn_graph_add_origin(hn_graph *graph, hn_origin origin) {
    if (graph->failed) return 0;
    uint32_t index = 0;
    hn_status status = add_origin(graph, origin, &index);
    if (status) hn_graph_fail(graph, status);
    return index;
}

static hn_status check_constant_size(hn_graph *g, hn_dtype dtype, uint32_t rank,
                                     const hn_expr *sizes, size_t len) {
    size_t want = hn_dtype_facts(dtype)->size_bytes;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t size;
        if (!hn_sym_is_int(g->sym, sizes[i], &size) || size < 0)
            return HN_ERROR(HN_INTERNAL, "size %u of a constant is not a known number", i);
        if (!hn_mul_size(want, (size_t)size, &want))
            return HN_ERROR(HN_INTERNAL, "the size of a constant overflows");
    }
    if (want != len)
        return HN_ERROR(HN_INTERNAL, "a constant of %zu bytes was given %zu", want, len);
    return NULL;
}

static hn_status add_constant(hn_graph *g, hn_value v, const void *bytes, size_t len) {
    void *copy = hn_arena_alloc(g->arena, len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a constant of %zu bytes", len);
    if (len) memcpy(copy, bytes, len);
    hn_input input = {.kind = HN_INPUT_CONSTANT, .value = v, .name = HN_STR("")};
    HN_TRY(add_storage(g, (hn_storage){.data = copy, .size_bytes = len, .file_record = HN_STR("")},
                       &input.storage));
    return hn_graph_add_input(g, input);
}

hn_value hn_graph_add_constant(hn_graph *graph, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                               const void *bytes, size_t len) {
    hn_value v = hn_graph_add_tensor(graph, dtype, rank, sizes, NULL, HN_STR(""));
    if (!v) return 0;
    hn_status status = check_constant_size(graph, dtype, rank, sizes, len);
    if (!status) status = add_constant(graph, v, bytes, len);
    if (!status) return v;
    hn_graph_fail(graph, status);
    return 0;
}

/* --- sweeps --- */

static hn_value replaced(const hn_graph *g, const hn_value *map, hn_value v) {
    /* The bound stops a map with a cycle, which no pass should make. */
    for (uint32_t steps = 0; map[v] && map[v] != v && steps < g->values.count; steps++) v = map[v];
    return v;
}

void hn_graph_replace_uses(hn_graph *graph, const hn_value *map) {
    for (uint32_t n = 1; n < graph->nodes.count; n++) {
        hn_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        for (uint32_t i = 0; i < node->arg_count; i++) {
            hn_arg *arg = &node->args[i];
            if (arg->kind == HN_ARG_VALUE) arg->as.value = replaced(graph, map, arg->as.value);
            if (arg->kind != HN_ARG_VALUES) continue;
            /* the graph's own copy, made by add_node */
            hn_value *list = (hn_value *)(uintptr_t)arg->as.values;
            for (uint32_t k = 0; k < arg->count; k++) list[k] = replaced(graph, map, list[k]);
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        hn_output *output = &graph->outputs.items[i];
        output->value = replaced(graph, map, output->value);
        if (output->scalar.kind == HN_ARG_VALUE)
            output->scalar.as.value = replaced(graph, map, output->scalar.as.value);
    }
}

void hn_node_each_value(const hn_node_info *node, hn_value_visitor visit, void *user) {
    for (uint32_t i = 0; i < node->arg_count; i++) {
        const hn_arg *arg = &node->args[i];
        if (arg->kind == HN_ARG_VALUE && arg->as.value) visit(user, arg->as.value);
        if (arg->kind != HN_ARG_VALUES) continue;
        for (uint32_t k = 0; k < arg->count; k++)
            if (arg->as.values[k]) visit(user, arg->as.values[k]);
    }
}

static void set_producer(hn_graph *g, const hn_node_info *node, hn_node producer) {
    for (uint32_t i = 0; i < node->result_count; i++)
        if (node->results[i]) g->values.items[node->results[i]].producer = producer;
}

/* A pass may have given the results of a dead node to a new one: those are left alone. */
static void clear_producer(hn_graph *g, hn_node dead) {
    const hn_node_info *node = &g->nodes.items[dead];
    for (uint32_t i = 0; i < node->result_count; i++)
        if (g->values.items[node->results[i]].producer == dead)
            g->values.items[node->results[i]].producer = 0;
}

void hn_graph_compact(hn_graph *graph) {
    uint32_t kept = 1;
    for (uint32_t n = 1; n < graph->nodes.count; n++)
        if (graph->nodes.items[n].dead) clear_producer(graph, n);
    for (uint32_t n = 1; n < graph->nodes.count; n++) {
        if (graph->nodes.items[n].dead) continue;
        graph->nodes.items[kept] = graph->nodes.items[n];
        set_producer(graph, &graph->nodes.items[kept], kept);
        kept++;
    }
    graph->nodes.count = kept;
}

/* Depth-first in the original order, with a stack of our own: chains are as long as the graph. */
typedef struct sorter {
    hn_graph *g;
    hn_arena *arena;
    hn_node first; /* nodes in front of it stay where they are */
    hn_node_info *sorted;
    uint32_t sorted_count;
    uint8_t *state; /* per node from `first` on: 0 new, 1 on the stack, 2 placed */
    struct {
        hn_node *items;
        uint32_t count, cap;
    } stack;
    hn_status failed;
} sorter;

static hn_status push_producer(sorter *s, hn_value v) {
    if (v >= s->g->values.count)
        return HN_ERROR(HN_INTERNAL, "a node uses a value that does not exist");
    hn_node producer = s->g->values.items[v].producer;
    if (producer < s->first || s->state[producer - s->first] == 2 ||
        s->g->nodes.items[producer].dead)
        return NULL;
    if (s->state[producer - s->first] == 1) return HN_ERROR(HN_INTERNAL, "the graph has a cycle");
    HN_PUSH(s->arena, &s->stack, producer);
    return NULL;
}

static void visit_producer(void *user, hn_value v) {
    sorter *s = user;
    if (!s->failed) s->failed = push_producer(s, v);
}

/* The stack hands out the last one first; operands shall come in their order. */
static void reverse_above(sorter *s, uint32_t bottom) {
    for (uint32_t lo = bottom, hi = s->stack.count; lo + 1 < hi; lo++) {
        hn_node last = s->stack.items[--hi];
        s->stack.items[hi] = s->stack.items[lo];
        s->stack.items[lo] = last;
    }
}

static hn_status sort_from(sorter *s, hn_node root) {
    HN_PUSH(s->arena, &s->stack, root);
    while (s->stack.count) {
        hn_node n = s->stack.items[s->stack.count - 1];
        const hn_node_info *node = &s->g->nodes.items[n];
        uint8_t *state = &s->state[n - s->first];
        if (*state == 0) {
            uint32_t bottom = s->stack.count;
            *state = 1;
            hn_node_each_value(node, visit_producer, s);
            HN_TRY(s->failed);
            reverse_above(s, bottom);
            continue;
        }
        s->stack.count--;
        if (*state == 1) s->sorted[s->sorted_count++] = *node;
        *state = 2;
    }
    return NULL;
}

static hn_status sorter_init(sorter *s, hn_graph *g, hn_arena *arena, hn_node first) {
    *s = (sorter){.g = g, .arena = arena, .first = first};
    HN_NEW(arena, s->sorted, g->nodes.count - first + 1);
    HN_NEW(arena, s->state, g->nodes.count - first + 1);
    return NULL;
}

/* Puts the sorted nodes in the place of all from `first` on. */
static void sorter_commit(sorter *s) {
    hn_graph *g = s->g;
    for (uint32_t n = s->first; n < g->nodes.count; n++)
        if (g->nodes.items[n].dead || s->state[n - s->first] != 2) clear_producer(g, n);
    for (uint32_t n = 0; n < s->sorted_count; n++) {
        g->nodes.items[s->first + n] = s->sorted[n];
        set_producer(g, &s->sorted[n], s->first + n);
    }
    g->nodes.count = s->first + s->sorted_count;
}

static hn_status sort_nodes(hn_graph *g, hn_arena *arena) {
    sorter s;
    HN_TRY(sorter_init(&s, g, arena, 1));
    for (uint32_t n = 1; n < g->nodes.count; n++)
        if (!g->nodes.items[n].dead && s.state[n - 1] != 2) HN_TRY(sort_from(&s, n));
    sorter_commit(&s);
    return NULL;
}

hn_status hn_graph_sort(hn_graph *graph) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    hn_status status = sort_nodes(graph, &scratch);
    hn_arena_deinit(&scratch);
    return status;
}

hn_status hn_graph_sort_tail(hn_graph *graph, hn_node first, const hn_value *roots,
                             uint32_t root_count, hn_arena *scratch) {
    if (first + 1 >= graph->nodes.count) return NULL;
    sorter s;
    HN_TRY(sorter_init(&s, graph, scratch, first));
    for (uint32_t n = first; n < graph->nodes.count; n++)
        if (!hn_op_is_pure(graph->nodes.items[n].op) && s.state[n - first] != 2)
            HN_TRY(sort_from(&s, n));
    for (uint32_t k = 0; k < root_count; k++) {
        hn_node producer = roots[k] ? graph->values.items[roots[k]].producer : 0;
        if (producer >= first && s.state[producer - first] != 2) HN_TRY(sort_from(&s, producer));
    }
    sorter_commit(&s);
    return NULL;
}
