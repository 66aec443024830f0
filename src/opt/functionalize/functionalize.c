/* functionalize.c: in-place ops become pure ones.
 *
 * Algorithm: one walk in order. Every value has a root, the tensor whose memory it looks into, and,
 * when it is a view, a parent and the node that made it. A write gives the value new content,
 * scatters that content into its parent and so on up to the root, and counts the root's writes; a
 * view that is read when its root has been written since is made anew from its parent. At the end
 * each graph input that was written gets a MUTATION output, unless the signature has one for it.
 * Source: the scheme of torch/_subclasses' functional tensors (alias sets with lazy regeneration).
 *
 * Requires: ATen ops as imported. Establishes: no op with a mutated parameter; training batch norms
 * are _native_batch_norm_legit_functional. Preserves: names, origins, recorded metas.
 *
 *   %v = aten.select.int(%x, 0, 1)             %v = aten.select.int(%x, 0, 1)
 *   %a = aten.add_.Tensor(%v, %y)        ->    %a = aten.add.Tensor(%v, %y)
 *   %s = aten.sum.default(%x)                  %1 = aten.select_scatter.default(%x, %a, 0, 1)
 *                                              %s = aten.sum.default(%1)
 *                                              output mutation %1 of input %x
 *
 * On an error the graph is left half rewritten and must be dropped. */
#include "opt/decompose/decompose.h"
#include "opt/functionalize/functionalize.h"

#include "base/compiler.h"

enum { MAX_GRAPH_DEPTH = 64, MAX_ARGS = 64, MAX_VIEW_CHAIN = 1000 };

/* What is known of one value of the graph as it was. */
typedef struct value_state {
    hn_value root, parent; /* parent 0: no view; root is itself then */
    hn_node view;          /* the emitted node that makes it from its parent; 0: it is the parent */
    uint32_t result_idx;
    hn_value current; /* its content as a value of the new graph */
    uint32_t seen;    /* the root's count of writes when `current` was made */
    uint32_t writes;  /* of a root */
} value_state;

typedef struct pair {
    hn_value a, b;
} pair;

typedef struct walk {
    hn_graph *g;
    hn_arena *scratch;
    value_state *states;
    uint32_t state_count;
    /* values that may or may not share memory */
    struct {
        pair *items;
        uint32_t count, cap;
    } unclear;
} walk;

static hn_str name_of(const hn_graph *g, hn_value v) { return hn_graph_value(g, v)->name; }

/* --- is there anything to do? --- */

/* Batch norms whose schema does not say that they write their running statistics. */
static bool updates_statistics(const hn_node_info *node) {
    static const struct {
        hn_op op;
        uint32_t mean, training;
    } norms[] = {{HN_ATEN_batch_norm_default, 3, 5},
                 {HN_ATEN_native_batch_norm_default, 3, 5},
                 {HN_ATEN_cudnn_batch_norm_default, 3, 5},
                 {HN_ATEN_instance_norm_default, 3, 5}};
    for (size_t k = 0; k < HN_COUNT_OF(norms); k++) {
        if (norms[k].op != node->op) continue;
        const hn_arg *training = &node->args[norms[k].training];
        return node->args[norms[k].mean].kind == HN_ARG_VALUE &&
               !(training->kind == HN_ARG_BOOL && !training->as.b);
    }
    return false;
}

/* The first mutated parameter; -1 for a pure op. */
static int mutated_param(hn_op op) {
    uint32_t count = 0;
    const hn_param *params = hn_op_params(op, &count);
    for (uint32_t k = 0; k < count; k++)
        if (params[k].mutated) return (int)k;
    return -1;
}

static bool has_writes(const hn_graph *g, uint32_t depth) {
    for (uint32_t n = 1; n < g->nodes.count; n++) {
        const hn_node_info *node = &g->nodes.items[n];
        if (node->dead) continue;
        if (mutated_param(node->op) >= 0 || updates_statistics(node)) return true;
        for (uint32_t k = 0; depth < MAX_GRAPH_DEPTH && k < node->arg_count; k++)
            if (node->args[k].kind == HN_ARG_GRAPH && has_writes(node->args[k].as.graph, depth + 1))
                return true;
    }
    return false;
}

/* --- reading --- */

/* The content of `v` now, made anew when its root was written since. */
static hn_status read_value(walk *w, hn_value v, uint32_t depth, hn_value *out) {
    *out = 0;
    if (!v) return NULL;
    if (v >= w->state_count) return HN_ERROR(HN_INTERNAL, "operand %u is out of range", v);
    value_state *s = &w->states[v];
    if (s->parent && s->seen != w->states[s->root].writes) {
        hn_value parent = 0;
        if (depth > MAX_VIEW_CHAIN)
            return HN_ERROR(HN_UNSUPPORTED, "views chained deeper than %d", MAX_VIEW_CHAIN);
        HN_TRY(read_value(w, s->parent, depth + 1, &parent));
        s->current =
            s->view ? hn_view_regenerate(w->g, hn_graph_node(w->g, s->view), s->result_idx, parent)
                    : parent;
        s->seen = w->states[s->root].writes;
        HN_TRY(hn_graph_status(w->g));
    }
    *out = s->current;
    return NULL;
}

static hn_status functionalize_graph(hn_graph *g, hn_arena *scratch, uint32_t depth);

static hn_status read_arg(walk *w, const hn_arg *old, hn_arg *out, uint32_t depth) {
    *out = *old;
    if (old->kind == HN_ARG_VALUE) return read_value(w, old->as.value, 0, &out->as.value);
    if (old->kind == HN_ARG_GRAPH) {
        hn_graph *inner = old->as.graph;
        HN_TRY(functionalize_graph(inner, w->scratch, depth + 1));
        for (uint32_t k = 0; k < inner->outputs.count; k++)
            if (inner->outputs.items[k].kind == HN_OUTPUT_MUTATION)
                return HN_ERROR(
                    HN_UNSUPPORTED, "a branch writes its operand '" HN_STR_FMT "'",
                    HN_STR_ARG(inner->inputs.items[inner->outputs.items[k].target].name));
    }
    if (old->kind != HN_ARG_VALUES) return NULL;
    hn_value *values = NULL;
    HN_TRY(hn_arena_array(w->scratch, old->count, sizeof *values, &values));
    for (uint32_t k = 0; k < old->count; k++)
        HN_TRY(read_value(w, old->as.values[k], 0, &values[k]));
    out->as.values = values;
    return NULL;
}

/* --- writing --- */

static hn_status unclear_check(const walk *w, hn_value root) {
    for (uint32_t k = 0; k < w->unclear.count; k++) {
        pair p = w->unclear.items[k];
        if (w->states[p.a].root == root || w->states[p.b].root == root)
            return HN_ERROR(HN_UNSUPPORTED,
                            "cannot tell whether '" HN_STR_FMT "' shares the memory of '" HN_STR_FMT
                            "', which is written",
                            HN_STR_ARG(name_of(w->g, p.a)), HN_STR_ARG(name_of(w->g, p.b)));
    }
    return NULL;
}

/* New content of the parent when its view `v` has the content `source`. */
static hn_status scatter(walk *w, hn_value v, hn_value base, hn_value source, hn_value *out) {
    const value_state *s = &w->states[v];
    *out = source;
    if (!s->view) return NULL;
    hn_view_write write = {.g = w->g,
                           .view = hn_graph_node(w->g, s->view),
                           .result_idx = s->result_idx,
                           .base = base,
                           .source = source,
                           .base_info = *hn_graph_value(w->g, s->parent),
                           .view_info = *hn_graph_value(w->g, v)};
    const hn_view_rule *rule = hn_view_rule_find(write.view->op);
    if (!rule || !rule->scatter)
        return HN_ERROR(HN_UNSUPPORTED, "cannot write through '%s'",
                        hn_op_facts(write.view->op)->name);
    *out = rule->scatter(&write);
    return hn_graph_status(w->g);
}

/* Gives `v` the content `source`, and all that it looks into with it. */
static hn_status write_value(walk *w, hn_value v, hn_value source) {
    value_state *s = &w->states[v], *root = &w->states[s->root];
    hn_value base = 0;
    HN_TRY(unclear_check(w, s->root));
    HN_TRY(read_value(w, s->parent, 0, &base)); /* brings the whole chain up to date */
    root->writes++;
    s->current = source;
    s->seen = root->writes;
    for (hn_value child = v; w->states[child].parent; child = w->states[child].parent) {
        value_state *parent = &w->states[w->states[child].parent];
        HN_TRY(scatter(w, child, parent->current, source, &source));
        parent->current = source;
        parent->seen = root->writes;
    }
    return NULL;
}

/* --- states of results --- */

static void state_fresh(walk *w, hn_value v) {
    w->states[v] = (value_state){.root = v, .current = v};
}

/* `v` looks into `parent` by the emitted node `view`; 0: it is the parent. A row of in-place ops on
 * each other's results stays one step deep. */
static void state_view(walk *w, hn_value v, hn_value parent, hn_node view, uint32_t result_idx) {
    hn_value root = w->states[parent].root;
    if (!view && !w->states[parent].view && w->states[parent].parent)
        parent = w->states[parent].parent;
    w->states[v] = (value_state){.root = root,
                                 .parent = parent,
                                 .view = view,
                                 .result_idx = result_idx,
                                 .current = v,
                                 .seen = w->states[root].writes};
}

static bool starts_at_root(const walk *w, hn_value v) {
    return w->states[v].root == v || (!w->states[v].view && starts_at_root(w, w->states[v].parent));
}

/* as_strided looks at the memory and not at its operand: its parent is the root. */
static hn_status as_strided_state(walk *w, hn_value v, hn_value operand, const hn_node_info *node,
                                  hn_node emitted) {
    if (starts_at_root(w, operand) || node->args[3].kind != HN_ARG_NONE) {
        state_view(w, v, w->states[operand].root, emitted, 0);
        return NULL;
    }
    state_fresh(w, v);
    HN_PUSH(w->scratch, &w->unclear, ((pair){v, operand}));
    return NULL;
}

/* Records what the results of a kept node look into. `old` has the operands as they were. */
static hn_status states_of_results(walk *w, const hn_node_info *old, hn_node emitted) {
    const hn_view_rule *rule = hn_view_rule_find(old->op);
    for (uint32_t k = 0; k < old->result_count; k++)
        if (old->results[k]) state_fresh(w, old->results[k]);
    if (!rule) return NULL;
    const hn_arg *operand = &old->args[hn_view_operand(old->op)];
    if (operand->kind != HN_ARG_VALUE || old->result_count == 0 || !old->results[0]) return NULL;
    hn_alias alias = rule->alias ? rule->alias(w->g, old) : HN_ALIAS_VIEW;
    if (old->op == HN_ATEN_as_strided_default)
        return as_strided_state(w, old->results[0], operand->as.value, old, emitted);
    for (uint32_t k = 0; k < old->result_count && alias != HN_ALIAS_NONE; k++) {
        hn_value v = old->results[k];
        if (!v) continue;
        if (alias == HN_ALIAS_UNCLEAR)
            HN_PUSH(w->scratch, &w->unclear, ((pair){v, operand->as.value}));
        else state_view(w, v, operand->as.value, alias == HN_ALIAS_VIEW ? emitted : 0, k);
    }
    return NULL;
}

/* Inputs over the same bytes: the same tensor twice, or views that cannot be kept in step. */
static hn_status states_of_inputs(walk *w) {
    const hn_graph *g = w->g;
    hn_map first_of;
    hn_map_init(&first_of, w->scratch);
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        const hn_input *input = &g->inputs.items[k];
        if (!input->storage || !input->value) continue;
        const uint64_t *known = hn_map_get(&first_of, input->storage);
        if (!known) {
            HN_TRY(hn_map_put(&first_of, input->storage, k));
            continue;
        }
        const hn_input *first = &g->inputs.items[*known];
        const hn_value_info *a = hn_graph_value(g, first->value),
                            *b = hn_graph_value(g, input->value);
        bool same = first->storage_offset_elems == input->storage_offset_elems &&
                    a->dtype == b->dtype && a->rank == b->rank && !a->strides == !b->strides;
        for (uint32_t d = 0; same && d < a->rank; d++)
            same = a->sizes[d] == b->sizes[d] && (!a->strides || a->strides[d] == b->strides[d]);
        if (same) state_view(w, input->value, first->value, 0, 0);
        else HN_PUSH(w->scratch, &w->unclear, ((pair){input->value, first->value}));
    }
    return NULL;
}

/* --- pure counterparts --- */

static const struct {
    hn_op in_place, pure;
} exceptions[] = {
    {HN_ATEN_bernoulli__float, HN_ATEN_bernoulli_p},
    {HN_ATEN_ldexp__default, HN_ATEN_ldexp_Tensor},
    {HN_ATEN_normal__default, HN_ATEN_normal_functional_default},
    {HN_ATEN_transpose__default, HN_ATEN_transpose_int},
    {HN_ATEN_zero__default, HN_ATEN_fill_Scalar},
};

/* "aten.add_.Tensor" -> "aten.add.Tensor", "aten.__iand__.Tensor" -> "aten.__and__.Tensor",
 * "aten.maximum.out" -> "aten.maximum.default"; HN_OP_NONE when there is none. */
static hn_op pure_find(hn_op op) {
    for (size_t k = 0; k < HN_COUNT_OF(exceptions); k++)
        if (exceptions[k].in_place == op) return exceptions[k].pure;
    const char *name = hn_op_facts(op)->name, *dot = strrchr(name, '.');
    char text[128];
    size_t base = dot ? (size_t)(dot - name) : 0, len = strlen(name);
    if (!dot || len + 8 >= sizeof text) return HN_OP_NONE;
    if (strcmp(dot, ".out") == 0) {
        memcpy(text, name, base);
        memcpy(text + base, ".default", 9);
    } else if (strncmp(name, "aten.__i", 8) == 0) {
        memcpy(text, name, 7);
        memcpy(text + 7, name + 8, len - 7);
    } else if (dot[-1] == '_') {
        memcpy(text, name, base - 1);
        memcpy(text + base - 1, dot, len - base + 1);
    } else {
        return HN_OP_NONE;
    }
    return hn_op_find(hn_str_of(text));
}

/* Ops whose pure form gives bool where the in-place one keeps the operand's dtype. */
static bool gives_bool(hn_op pure) {
    static const char *const names[] = {
        "aten.eq.", "aten.ne.",  "aten.lt.",     "aten.le.",       "aten.gt.",
        "aten.ge.", "aten.less", "aten.greater", "aten.not_equal", "aten.logical_"};
    hn_str name = hn_str_of(hn_op_facts(pure)->name);
    for (size_t k = 0; k < HN_COUNT_OF(names); k++)
        if (hn_str_starts_with(name, hn_str_of(names[k]))) return true;
    return false;
}

/* Arithmetic of several tensors promotes; the in-place form then casts back. */
static bool promotes(hn_op pure) {
    static const char *const names[] = {
        "aten.add.",       "aten.sub.",      "aten.mul.",     "aten.div.",
        "aten.pow.",       "aten.addcmul.",  "aten.addcdiv.", "aten.floor_divide.",
        "aten.remainder.", "aten.bitwise_",  "aten.__",       "aten.lerp.",
        "aten.multiply.",  "aten.subtract.", "aten.divide.",  "aten.true_divide.",
        "aten.fmod.",      "aten.copysign.", "aten.xlogy.",   "aten.atan2.",
        "aten.hypot.",     "aten.clamp.",    "aten.clip.",    "aten.gcd.",
        "aten.lcm."};
    hn_str name = hn_str_of(hn_op_facts(pure)->name);
    for (size_t k = 0; k < HN_COUNT_OF(names); k++)
        if (hn_str_starts_with(name, hn_str_of(names[k]))) return true;
    return false;
}

/* The dtype of the pure op's result. */
static hn_dtype pure_dtype(walk *w, hn_op pure, const hn_arg *args, uint32_t count, hn_dtype own) {
    hn_value tensors[MAX_ARGS];
    uint32_t tensor_count = 0;
    if (gives_bool(pure)) return HN_DTYPE_BOOL;
    if (!promotes(pure)) return own;
    for (uint32_t k = 0; k < count; k++)
        if (args[k].kind == HN_ARG_VALUE &&
            hn_graph_value(w->g, args[k].as.value)->kind == HN_VALUE_TENSOR)
            tensors[tensor_count++] = args[k].as.value;
    hn_dec promotion = {.g = w->g, .scratch = w->scratch};
    return hn_dec_promote(&promotion, tensors, tensor_count, NULL, 0, NULL);
}

/* --- nodes --- */

/* The pure op's arguments by the names of its parameters; `self` goes by position, its name
 * varies. */
static hn_status pure_args(const hn_node_info *node, const hn_arg *args, hn_op pure, hn_sym *sym,
                           hn_arg *out, uint32_t *out_count) {
    uint32_t count = 0, from_count = 0;
    const hn_param *params = hn_op_params(pure, &count),
                   *from = hn_op_params(node->op, &from_count);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t j = k;
        if (k && !(k < from_count && hn_str_eq(from[k].name, params[k].name))) {
            j = 0;
            while (j < from_count && !hn_str_eq(from[j].name, params[k].name)) j++;
        }
        if (j < from_count) out[k] = args[j];
        else if (node->op == HN_ATEN_zero__default) out[k] = hn_arg_expr(hn_sym_int(sym, 0));
        else
            return HN_ERROR(HN_INTERNAL, "'%s' lacks the argument '" HN_STR_FMT "' of '%s'",
                            hn_op_facts(node->op)->name, HN_STR_ARG(params[k].name),
                            hn_op_facts(pure)->name);
    }
    *out_count = count;
    return NULL;
}

/* Metadata only: the result is a view (detach_, squeeze_, t_...). */
static hn_status emit_view(walk *w, const hn_node_info *old, hn_op pure, const hn_arg *args,
                           uint32_t count) {
    hn_node emitted = hn_graph_add_node(w->g, pure, args, count, old->results, old->result_count);
    HN_TRY(hn_graph_status(w->g));
    const hn_view_rule *rule = hn_view_rule_find(pure);
    hn_value v = old->result_count ? old->results[0] : 0;
    if (v) state_view(w, v, old->args[0].as.value, rule->alias ? 0 : emitted, 0);
    return NULL;
}

/* The new content of `self`: in the value of the node's result when it has one, so that names
 * stay. */
static hn_status emit_pure(walk *w, const hn_node_info *old, hn_op pure, const hn_arg *args,
                           uint32_t count, hn_value self, hn_value *out) {
    hn_graph *g = w->g;
    hn_value_info info = *hn_graph_value(g, self);
    hn_dtype dtype = pure_dtype(w, pure, args, count, info.dtype);
    hn_value result = old->result_count ? old->results[0] : 0;
    if (!result)
        result =
            hn_graph_add_tensor(g, info.dtype, info.rank, info.sizes, info.strides, HN_STR(""));
    if (dtype == info.dtype) {
        hn_graph_add_node(g, pure, args, count, &result, 1);
    } else {
        hn_value wide =
            hn_graph_add_tensor(g, dtype, info.rank, info.sizes, info.strides, HN_STR(""));
        const hn_arg cast[] = {hn_arg_value(wide), hn_arg_dtype(info.dtype)};
        hn_graph_add_node(g, pure, args, count, &wide, 1);
        hn_graph_add_node(g, HN_OP_CAST, cast, 2, &result, 1);
    }
    *out = result;
    return hn_graph_status(g);
}

static hn_status in_place_node(walk *w, const hn_node_info *old, const hn_arg *args) {
    hn_op pure = pure_find(old->op);
    hn_arg new_args[MAX_ARGS];
    uint32_t count = 0;
    int target = mutated_param(old->op);
    if (pure == HN_OP_NONE)
        return HN_ERROR(HN_UNSUPPORTED, "'%s' has no pure counterpart", hn_op_facts(old->op)->name);
    if (old->args[target].kind != HN_ARG_VALUE || old->result_count > 1)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' writes no tensor", hn_op_facts(old->op)->name);
    HN_TRY(pure_args(old, args, pure, w->g->sym, new_args, &count));
    const hn_view_rule *rule = hn_view_rule_find(pure);
    bool is_view = rule && target == 0 && (!rule->alias || pure == HN_ATEN_detach_default);
    if (is_view) return emit_view(w, old, pure, new_args, count);
    hn_value self = old->args[target].as.value, content = 0;
    HN_TRY(emit_pure(w, old, pure, new_args, count, self, &content));
    HN_TRY(write_value(w, self, content));
    if (old->result_count && old->results[0]) state_view(w, old->results[0], self, 0, 0);
    return NULL;
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps, ...) -> the functional
 * form, whose last two results are the new statistics. */
static hn_status batch_norm_node(walk *w, const hn_node_info *old, const hn_arg *args) {
    hn_graph *g = w->g;
    hn_value results[5] = {0};
    bool writes = !(args[5].kind == HN_ARG_BOOL && !args[5].as.b);
    if (old->op == HN_ATEN_instance_norm_default || old->op == HN_ATEN_cudnn_batch_norm_default)
        return HN_ERROR(HN_UNSUPPORTED, "'%s' that updates running statistics",
                        hn_op_facts(old->op)->name);
    if (args[4].kind != HN_ARG_VALUE)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a running mean without a running variance");
    for (uint32_t k = 0; k < old->result_count && k < 3; k++) results[k] = old->results[k];
    for (uint32_t k = 0; k < 2 && writes; k++) {
        hn_value_info info = *hn_graph_value(g, old->args[3 + k].as.value);
        results[3 + k] =
            hn_graph_add_tensor(g, info.dtype, info.rank, info.sizes, info.strides, HN_STR(""));
    }
    hn_graph_add_node(g, HN_ATEN__native_batch_norm_legit_functional_default, args, 8, results, 5);
    HN_TRY(hn_graph_status(g));
    for (uint32_t k = 0; k < old->result_count; k++)
        if (old->results[k]) state_fresh(w, old->results[k]);
    for (uint32_t k = 0; k < 2 && writes; k++)
        HN_TRY(write_value(w, old->args[3 + k].as.value, results[3 + k]));
    return NULL;
}

static hn_status rewrite_node(walk *w, const hn_node_info *old, uint32_t depth) {
    hn_graph *g = w->g;
    hn_arg args[MAX_ARGS];
    if (old->arg_count > MAX_ARGS)
        return HN_ERROR(HN_INTERNAL, "node with %u arguments", old->arg_count);
    g->current_origin = old->origin;
    for (uint32_t k = 0; k < old->arg_count; k++)
        HN_TRY(read_arg(w, &old->args[k], &args[k], depth));
    if (updates_statistics(old) || old->op == HN_ATEN__native_batch_norm_legit_default)
        return batch_norm_node(w, old, args);
    if (mutated_param(old->op) >= 0) return in_place_node(w, old, args);
    hn_node emitted =
        hn_graph_add_node(g, old->op, args, old->arg_count, old->results, old->result_count);
    HN_TRY(hn_graph_status(g));
    return states_of_results(w, old, emitted);
}

/* --- outputs --- */

static bool is_listed(const hn_graph *g, uint32_t input) {
    for (uint32_t k = 0; k < g->outputs.count; k++)
        if (g->outputs.items[k].kind == HN_OUTPUT_MUTATION && g->outputs.items[k].target == input)
            return true;
    return false;
}

/* Mutations stand before the user's outputs: those of the signature first, then the new ones. */
static hn_status outputs_rewrite(walk *w) {
    hn_graph *g = w->g;
    struct {
        hn_output *items;
        uint32_t count, cap;
    } outputs = {0};
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        HN_TRY(read_value(w, g->outputs.items[k].value, 0, &g->outputs.items[k].value));
        HN_TRY(read_arg(w, &g->outputs.items[k].scalar, &g->outputs.items[k].scalar, 0));
        if (g->outputs.items[k].kind == HN_OUTPUT_MUTATION)
            HN_PUSH(g->arena, &outputs, g->outputs.items[k]);
    }
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        hn_value v = g->inputs.items[k].value;
        if (!v || w->states[v].root != v || w->states[v].writes == 0 || is_listed(g, k)) continue;
        /* a tensor that the model made while it was exported and writes into, such as a cache's
         * length, is state from then on */
        if (g->inputs.items[k].kind == HN_INPUT_CONSTANT) g->inputs.items[k].kind = HN_INPUT_BUFFER;
        hn_output output = {.kind = HN_OUTPUT_MUTATION,
                            .value = w->states[v].current,
                            .target = k,
                            .name = g->inputs.items[k].name};
        HN_PUSH(g->arena, &outputs, output);
    }
    for (uint32_t k = 0; k < g->outputs.count; k++)
        if (g->outputs.items[k].kind != HN_OUTPUT_MUTATION)
            HN_PUSH(g->arena, &outputs, g->outputs.items[k]);
    g->outputs.items = outputs.items;
    g->outputs.count = outputs.count;
    g->outputs.cap = outputs.cap;
    return NULL;
}

/* --- the pass --- */

static hn_status at_node(hn_status status, const hn_graph *g, const hn_node_info *node) {
    if (!status) return NULL;
    hn_origin origin = g->origins.items[node->origin];
    const char *comma = origin.source.len ? ", " : "";
    return hn_status_annotate(
        status, "cannot functionalize '%s' (node '" HN_STR_FMT "'%s" HN_STR_FMT ")",
        hn_op_facts(node->op)->name, HN_STR_ARG(origin.node), comma, HN_STR_ARG(origin.source));
}

static hn_status walk_begin(walk *w) {
    w->state_count = w->g->values.count;
    HN_NEW(w->scratch, w->states, w->state_count);
    for (uint32_t v = 1; v < w->state_count; v++) state_fresh(w, v);
    return states_of_inputs(w);
}

static hn_status functionalize_graph(hn_graph *g, hn_arena *scratch, uint32_t depth) {
    walk w = {.g = g, .scratch = scratch};
    if (depth > MAX_GRAPH_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "subgraphs nest deeper than %d", MAX_GRAPH_DEPTH);
    if (!has_writes(g, depth)) return NULL;
    HN_TRY(walk_begin(&w));
    hn_node_info *old = g->nodes.items;
    uint32_t count = g->nodes.count;
    g->nodes.items = NULL;
    g->nodes.count = g->nodes.cap = 0;
    HN_PUSH(g->arena, &g->nodes, ((hn_node_info){.dead = true})); /* id 0 is invalid */
    for (uint32_t n = 1; n < count; n++)
        if (!old[n].dead) HN_TRY(at_node(rewrite_node(&w, &old[n], depth), g, &old[n]));
    g->current_origin = 0;
    return outputs_rewrite(&w);
}

hn_status hn_pass_functionalize(hn_graph *graph, hn_pass_context *context) {
    return functionalize_graph(graph, context->scratch, 0);
}
