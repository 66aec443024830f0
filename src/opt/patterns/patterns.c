/* patterns.c: several ops that are one: attention, biases, convolution and batch norm.
 *
 * Algorithm: one walk in order; each pattern is found from its last node backwards through what has
 * been built already, so a pattern sees what earlier ones made. Which pattern belongs to which op
 * stands in `rules`. Views simplify on the way, and the equal masks that several attentions have
 * made become one at the end.
 *
 * Requires: primitives, constants folded. Establishes: nothing that later passes rely on.
 * Preserves: order, dtypes, sizes; values up to rounding.
 *
 * Examples stand at the top of attention.c, matmul.c, conv.c and one_hot.c. */
#include "opt/patterns/pattern.h"

#include "base/compiler.h"
#include "base/log.h"

#include <string.h>

enum { MAX_DEPTH = 100 }; /* of subgraphs, each is a C frame */

typedef hn_status (*rule_fn)(hn_patterns *p, const hn_node_info *n, hn_value *out);

static hn_status match_matmul(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    *out = hn_pattern_matmul(p, n);
    return NULL;
}

static hn_status match_add(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    *out = hn_pattern_add(p, n);
    return NULL;
}

static hn_status match_sum(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    *out = hn_pattern_one_hot(p, n);
    return NULL;
}

/* Tried in this order until one matches. */
static const struct {
    hn_op op;
    rule_fn match;
} rules[] = {
    {HN_OP_MATMUL, hn_pattern_attention},
    {HN_OP_MATMUL, match_matmul},
    {HN_OP_ATTENTION, hn_pattern_attention_mask},
    {HN_OP_ATTENTION_BACKWARD, hn_pattern_gradient_mask},
    {HN_OP_SUM, match_sum},
    {HN_OP_ADD, match_add},
    {HN_OP_ADD, hn_pattern_channels},
    {HN_OP_SUB, hn_pattern_channels},
    {HN_OP_MUL, hn_pattern_channels},
    {HN_OP_DIV, hn_pattern_channels},
};

static const char *const names[] = {
#define X(name, text) text,
    HN_PATTERNS(X)
#undef X
};

/* The pattern that has matched since the counts were these; none: only views became simpler. */
static const char *name_of_match(const hn_patterns *p, const uint32_t *before) {
    for (uint32_t k = 0; k < HN_PATTERN_COUNT; k++)
        if (p->fired[k] > before[k]) return names[k];
    return "views of views";
}

/* `out`: a value for each result; the first one is 0 where nothing matches. */
static hn_status match_node(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    const bool is_single = n->result_count == 1;
    if (is_single && !n->results[0]) return NULL;
    for (size_t k = 0; k < HN_COUNT_OF(rules) && !*out; k++) {
        if (rules[k].op != n->op) continue;
        HN_TRY(rules[k].match(p, n, out));
        HN_TRY(hn_graph_status(p->g));
        HN_TRY(hn_facts_update(&p->facts));
    }
    if (!*out && is_single && hn_op_facts(n->op)->op_class == HN_OPC_VIEW)
        *out = hn_fold_view(p->g, n);
    return NULL;
}

/* The same where the limit of rewrites allows it. */
static hn_status match_allowed(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    uint32_t before[HN_PATTERN_COUNT];
    hn_limit *limit = p->context->limit;
    memset(out, 0, HN_RESULTS_MAX * sizeof *out);
    if (!hn_limit_is_open(limit)) return NULL;
    memcpy(before, p->fired, sizeof before);
    HN_TRY(match_node(p, n, out));
    if (*out && !hn_limit_allows(limit, name_of_match(p, before), n->origin, 0)) *out = 0;
    return NULL;
}

static hn_status match_graph(hn_patterns *outer, hn_graph *g, uint32_t depth);

static hn_status match_subgraphs(hn_patterns *p, const hn_node_info *n, uint32_t depth) {
    for (uint32_t k = 0; k < n->arg_count; k++)
        if (n->args[k].kind == HN_ARG_GRAPH) HN_TRY(match_graph(p, n->args[k].as.graph, depth + 1));
    return NULL;
}

/* `outer` holds the counts of all graphs together. */
static hn_status match_graph(hn_patterns *outer, hn_graph *g, uint32_t depth) {
    hn_patterns *p; /* not on the stack: subgraphs nest */
    hn_arena *scratch = outer->context->scratch;
    if (depth > MAX_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "subgraphs nest deeper than %d", MAX_DEPTH);
    HN_NEW(scratch, p, 1);
    *p = (hn_patterns){.g = g,
                       .context = outer->context,
                       .is_nested = depth > 0,
                       .weight_bytes = outer->weight_bytes};
    hn_map_init(&p->masks, scratch);
    hn_map_init(&p->tables, scratch);
    HN_TRY(hn_rewrite_begin(&p->rewrite, g, scratch));
    HN_TRY(hn_facts_init(&p->facts, g, scratch));
    HN_TRY(hn_const_eval_init(&p->eval, &p->facts, scratch));
    for (const hn_node_info *n; (n = hn_rewrite_next(&p->rewrite));) {
        hn_value found[HN_RESULTS_MAX];
        HN_TRY(match_subgraphs(p, n, depth));
        HN_TRY(match_allowed(p, n, found));
        HN_TRY(*found ? hn_rewrite_replace(&p->rewrite, found) : hn_rewrite_keep(&p->rewrite));
        HN_TRY(hn_facts_update(&p->facts));
    }
    HN_TRY(hn_rewrite_end(&p->rewrite));
    for (uint32_t k = 0; k < HN_PATTERN_COUNT; k++) outer->fired[k] += p->fired[k];
    outer->weight_bytes = p->weight_bytes;
    bool shares = p->fired[HN_PATTERN_ATTENTION] + p->fired[HN_PATTERN_ATTENTION_MASK] > 1;
    return shares ? hn_pass_cse(g, outer->context) : NULL;
}

static void report(const hn_patterns *p) {
    hn_strbuf text;
    if (!hn_log_on("pass", HN_LOG_INFO)) return;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < HN_PATTERN_COUNT; k++)
        if (p->fired[k])
            hn_strbuf_printf(&text, "%s%s %u", text.len ? ", " : "", names[k], p->fired[k]);
    hn_log("pass", HN_LOG_INFO, "patterns: %s", text.len ? hn_strbuf_str(&text).ptr : "none");
    hn_strbuf_deinit(&text);
}

hn_status hn_pass_patterns(hn_graph *graph, hn_pass_context *context) {
    hn_patterns all = {.g = graph, .context = context};
    HN_TRY(match_graph(&all, graph, 0));
    report(&all);
    return hn_sym_status(graph->sym);
}
