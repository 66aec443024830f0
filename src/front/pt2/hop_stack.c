/* hop_stack.c: while_loop_stack_output: what each round of a while_loop hands on, side by side; without
 * a round what it begins with.
 *
 *   count  = the loop, with a number that counts the rounds; not if the counter of the loop tells
 *   n      = item(count), u0 = item(max(count, 1))     u0: the size that the file gives the results
 *   stacks = n rounds of the body, over the carried values and tensors of u0 elements, into whose
 *            element number `at` each round puts its results. They begin as the first values.
 *
 * So the rounds run twice: no memory can be made before their number is known. */
#include "front/pt2/hop.h"

#include "base/compiler.h"
#include "ir/build.h"

typedef struct stack {
    hn_pt2_scope *scope;
    hn_pt2_graph_text cond, body;
    hop_values carried, others;
    hn_pt2_results named; /* the node's results */
    hn_expr size, rounds; /* of the results; of the loop */
} stack;

/* A graph around `text`, whose inputs are a number, what is carried, maybe the results so far, and the
 * others. */
typedef struct stack_graph {
    hn_graph *g;
    hn_value at, *filled;
    hop_values results; /* of `text` */
} stack_graph;

static hn_status add_others(const stack *s, hn_graph *g, hop_values *operands) {
    for (uint32_t k = 0; k < s->others.count; k++) {
        if (!s->others.items[k]) continue;
        hn_value *in = &operands->items[s->carried.count + k];
        *in = hop_value_like(g, s->scope->graph, s->others.items[k]);
        HN_TRY(hop_graph_input(g, *in));
    }
    return NULL;
}

static hn_status add_filled(const stack *s, stack_graph *x) {
    HN_NEW(s->scope->im->scratch, x->filled, (size_t)s->carried.count + 1);
    for (uint32_t k = 0; k < s->carried.count; k++) {
        x->filled[k] = hop_value_like(x->g, s->scope->graph, s->named.items[k]);
        HN_TRY(hop_graph_input(x->g, x->filled[k]));
    }
    return NULL;
}

static hn_status make_graph(const stack *s, const hn_pt2_graph_text *text, bool is_filled,
                            stack_graph *x) {
    hop_values operands;
    HN_TRY(hn_graph_create(s->scope->im->arena, s->scope->im->sym, &x->g));
    HN_TRY(hop_values_make(s->scope, s->carried.count + s->others.count, &operands));
    hop_values_put(&operands, s->carried.count, &s->others);
    x->at = hn_graph_add_tensor(x->g, HN_DTYPE_I64, 0, NULL, NULL, HN_STR(""));
    HN_TRY(hop_graph_input(x->g, x->at));
    for (uint32_t k = 0; k < s->carried.count; k++) {
        operands.items[k] = hop_value_like(x->g, s->scope->graph, s->carried.items[k]);
        HN_TRY(hop_graph_input(x->g, operands.items[k]));
    }
    if (is_filled) HN_TRY(add_filled(s, x));
    HN_TRY(add_others(s, x->g, &operands));
    return hop_body_inline(s->scope, x->g, text, operands, &x->results);
}

/* The first results of a body: the next number, and what is carried on. */
static hn_status hand_on(const stack *s, stack_graph *x) {
    const hn_scalar one = hn_scalar_i(hn_sym_int(x->g->sym, 1));
    if (x->results.count != s->carried.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u outputs for %u carried tensors",
                        x->results.count, s->carried.count);
    HN_TRY(hop_graph_output(
        x->g, hn_b_binary(x->g, HN_OP_ADD, x->at, hn_b_full(x->g, one, NULL, 0, HN_DTYPE_I64))));
    for (uint32_t k = 0; k < x->results.count; k++)
        HN_TRY(hop_graph_output(x->g, x->results.items[k]));
    return NULL;
}

/* Runs a loop from number 0 on; `carried`: values behind the number. `results`: all that it carries;
 * 0: nobody asks for it. */
static hn_status run_loop(const stack *s, hn_graph *test, hn_graph *body, const hn_value *carried,
                          uint32_t carried_count, const hn_value *results) {
    hn_graph *g = s->scope->graph;
    hn_value *operands;
    uint32_t n = 0;
    HN_NEW(s->scope->im->scratch, operands, 1 + (size_t)carried_count + s->others.count);
    operands[n++] = hn_b_full(g, hn_scalar_i(hn_sym_int(g->sym, 0)), NULL, 0, HN_DTYPE_I64);
    for (uint32_t k = 0; k < carried_count; k++) operands[n++] = carried[k];
    const uint32_t all = n;
    for (uint32_t k = 0; k < s->others.count; k++)
        if (s->others.items[k]) operands[n++] = s->others.items[k];
    const hn_arg graph = {.kind = HN_ARG_GRAPH, .as.graph = test};
    const hn_arg args[] = {test ? hn_arg_none() : hn_arg_expr(s->rounds),
                           test ? graph : hn_arg_none(),
                           {.kind = HN_ARG_GRAPH, .as.graph = body},
                           hn_arg_values(operands, all),
                           hn_arg_values(operands + all, n - all)};
    hn_graph_add_node(g, HN_OP_LOOP, args, HN_COUNT_OF(args), results, all);
    return hn_graph_status(g);
}

/* ---- how many rounds ---- */

static bool has_word(hn_str text, const char *word) {
    const size_t len = strlen(word);
    for (size_t at = 0; at + len <= text.len; at++)
        if (memcmp(text.ptr + at, word, len) == 0) return true;
    return false;
}

/* Numbers that the two runs would not have alike. */
static hn_status check_same(const hn_pt2_graph_text *body) {
    static const char *const words[] = {"rand", "bernoulli", "multinomial", "normal", "dropout"};
    for (uint32_t k = 0; k < body->nodes.count; k++)
        for (uint32_t w = 0; w < HN_COUNT_OF(words); w++)
            if (has_word(body->nodes.items[k].target, words[w]))
                return HN_ERROR(HN_UNSUPPORTED,
                                "random numbers in a while_loop whose rounds are stacked; make "
                                "them before the loop");
    return NULL;
}

static hn_status count_rounds(const stack *s, hn_value *out) {
    stack_graph test = {0}, body = {0};
    hn_value *results;
    HN_TRY(check_same(&s->body));
    HN_TRY(hn_status_annotate(make_graph(s, &s->cond, false, &test), "condition"));
    if (test.results.count != 1)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a condition has %u results", test.results.count);
    HN_TRY(hop_graph_output(test.g, test.results.items[0]));
    HN_TRY(hn_status_annotate(make_graph(s, &s->body, false, &body), "body"));
    HN_TRY(hand_on(s, &body));
    HN_NEW(s->scope->im->scratch, results, 1 + (size_t)s->carried.count);
    *out = results[0] =
        hn_graph_add_tensor(s->scope->graph, HN_DTYPE_I64, 0, NULL, NULL, HN_STR(""));
    return run_loop(s, test.g, body.g, s->carried.items, s->carried.count, results);
}

/* Gives the symbol of the results' size its value. */
static hn_status define_size(const stack *s, hn_value count) {
    hn_graph *g = s->scope->graph;
    const hn_expr one = hn_sym_int(g->sym, 1);
    if (hn_sym_kind(g->sym, s->size) != HN_EXPR_SYMBOL)
        return HN_ERROR(HN_UNSUPPORTED, "stacked results of a while_loop whose size is no symbol");
    (void)hn_b_item(
        g, hn_b_binary(g, HN_OP_MAX, count, hn_b_full(g, hn_scalar_i(one), NULL, 0, HN_DTYPE_I64)),
        HN_VALUE_SYM_INT, s->size);
    return hn_graph_status(g);
}

static hn_status find_rounds(stack *s, int64_t known) {
    hn_graph *g = s->scope->graph;
    hn_value count = 0;
    hn_strbuf name;
    if (known >= 0) {
        s->rounds = hn_sym_int(g->sym, known);
        return define_size(s, hn_b_full(g, hn_scalar_i(s->rounds), NULL, 0, HN_DTYPE_I64));
    }
    HN_TRY(count_rounds(s, &count));
    hn_strbuf_init(&name);
    hn_strbuf_printf(&name, "rounds_" HN_STR_FMT, HN_STR_ARG(hn_sym_symbol_name(g->sym, s->size)));
    hn_status status = hn_strbuf_status(&name);
    if (!status)
        s->rounds = hn_sym_symbol(g->sym, hn_strbuf_str(&name), HN_SYMBOL_DATA, 0, INT64_MAX);
    hn_strbuf_deinit(&name);
    HN_TRY(status);
    (void)hn_b_item(g, count, HN_VALUE_SYM_INT, s->rounds);
    return define_size(s, count);
}

/* ---- the results ---- */

/* They begin as what is carried, as often as there are rounds. */
static hn_status first_values(const stack *s, hn_value *out) {
    hn_graph *g = s->scope->graph;
    for (uint32_t k = 0; k < s->carried.count; k++) {
        const hn_value_info *info = hn_graph_value(g, s->named.items[k]);
        hn_expr sizes[HN_MAX_RANK];
        memcpy(sizes, info->sizes, info->rank * sizeof *sizes);
        out[k] = s->carried.items[k];
        out[s->carried.count + k] =
            hn_b_expand(g, hn_b_unsqueeze(g, s->carried.items[k], 0), sizes, info->rank);
    }
    return hn_graph_status(g);
}

static hn_status fill(const stack *s) {
    stack_graph x = {0};
    hn_value *begin, *results;
    const uint32_t count = s->carried.count;
    HN_NEW(s->scope->im->scratch, begin, 2 * (size_t)count + 1);
    HN_NEW(s->scope->im->scratch, results, 2 * (size_t)count + 1);
    HN_TRY(hn_status_annotate(make_graph(s, &s->body, true, &x), "body"));
    HN_TRY(hand_on(s, &x));
    for (uint32_t k = 0; k < count; k++)
        HN_TRY(hop_graph_output(
            x.g, hn_b_index_put(x.g, x.filled[k], &x.at, 1, x.results.items[k], "set", false)));
    HN_TRY(first_values(s, begin));
    for (uint32_t k = 0; k < count; k++) results[1 + count + k] = s->named.items[k];
    return run_loop(s, NULL, x.g, begin, 2 * count, results);
}

/* A result for each carried tensor, with one dimension more, of one size. */
static hn_status check_results(stack *s) {
    const hn_graph *g = s->scope->graph;
    if (s->named.count != s->carried.count || !s->named.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u results of a loop that carries %u tensors",
                        s->named.count, s->carried.count);
    for (uint32_t k = 0; k < s->named.count; k++) {
        const hn_value_info *info = hn_graph_value(g, s->named.items[k]);
        if (info->kind != HN_VALUE_TENSOR ||
            info->rank != hn_graph_value(g, s->carried.items[k])->rank + 1)
            return HN_ERROR(HN_UNSUPPORTED, "result %u of a loop is no stack of tensors", k);
        if (k && info->sizes[0] != s->size)
            return HN_ERROR(HN_INVALID_ARGUMENT, "the stacks of a loop have different sizes");
        s->size = info->sizes[0];
    }
    return NULL;
}

/* (condition, body, [carried], [others]) */
hn_status hn_pt2_while_stack_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    stack s = {.scope = scope};
    hop_args args;
    int64_t known;
    HN_TRY(hop_args_read(scope, node, &args));
    HN_TRY(hop_graph(&args, 0, &s.cond));
    HN_TRY(hop_graph(&args, 1, &s.body));
    HN_TRY(hop_operands_read(scope, &args, 2, &s.carried));
    HN_TRY(hop_operands_read(scope, &args, 3, &s.others));
    HN_TRY(hop_rounds_read(scope, &s.cond, &s.body, &s.carried, &known));
    HN_TRY(hn_pt2_origin_set(scope, node));
    hop_values_to_tensors(scope->graph, &s.carried);
    HN_TRY(hn_pt2_results_read(scope, node, true, &s.named));
    HN_TRY(check_results(&s));
    HN_TRY(find_rounds(&s, known));
    return fill(&s);
}
