/* decompose.c: the pass that rewrites ATen ops into primitives.
 *
 * Algorithm: the node list is set aside and built anew. Each old node in order has its operands
 * mapped to their new values; a primitive is appended as it is, an ATen node is handed to the
 * function of its row (decompose.h), whose builders append to the new list. Each result is then
 * checked against the dtype and sizes that the importer recorded, so a wrong rewrite stops here and
 * not in a kernel.
 *
 * Requires: functional ATen ops with metas. Establishes: HN_LEGAL_PRIMITIVE. Preserves: names,
 * origins, the recorded strides of outputs.
 *
 *   %y = aten.add.Tensor(%x, 1, alpha=1)   ->   %1 = full(1, [], f32);  %y = add(%x, %1)
 *
 * On an error the graph is left half rewritten and must be dropped. */
#include "opt/decompose/decompose.h"
#include "opt/pass.h"
#include "opt/rewrite.h"

#include "base/compiler.h"

/* Subgraphs nest (a cond in a cond); each level is a C frame. */
#define MAX_GRAPH_DEPTH 64

hn_dec_fn hn_dec_find(hn_op op) {
    static const hn_dec_fn functions[] = {
#define HN_ATEN(name, text, fn, ...) [HN_ATEN_##name - HN_ATEN_FIRST] = fn,
#include "ir/aten.def"
#undef HN_ATEN
    };
    if (op <= HN_ATEN_FIRST || op >= HN_ALL_OP_COUNT) return NULL;
    hn_dec_fn fn = functions[op - HN_ATEN_FIRST];
    return fn == hn_dec_none ? NULL : fn;
}

void hn_dec_none(hn_dec *d) { (void)d; }

/* --- the report of what cannot be rewritten --- */

typedef struct missing_op {
    hn_op op;
    const char *why; /* NULL: no function */
    hn_origin first; /* where it was met first */
    uint32_t count;
} missing_op;

typedef struct decompose_pass {
    hn_pass_context *context;
    uint32_t streams;
    struct {
        missing_op *items;
        uint32_t count, cap;
    } missing;
} decompose_pass;

/* One graph being rewritten. */
typedef struct hn_dec_rewrite {
    decompose_pass *pass;
    hn_graph *g;
    uint32_t value_count; /* values that existed before; `map` and `lost` have that many */
    hn_value *map;        /* old value -> new value; 0: none (yet) */
    bool *lost;           /* comes from a node that could not be rewritten */
    hn_node *maker;       /* old value -> the old node that made it */
    uint32_t *uses;       /* of old values, by old nodes and outputs */
    const hn_node_info *old_nodes;
} rewrite;

static bool same_reason(const char *a, const char *b) {
    if (!a || !b) return a == b;
    return strcmp(a, b) == 0;
}

static hn_status report_missing(rewrite *r, const hn_node_info *node, const char *why) {
    decompose_pass *pass = r->pass;
    for (uint32_t k = 0; k < pass->missing.count; k++) {
        missing_op *m = &pass->missing.items[k];
        if (m->op != node->op || !same_reason(m->why, why)) continue;
        m->count++;
        return NULL;
    }
    missing_op entry = {
        .op = node->op, .why = why, .first = r->g->origins.items[node->origin], .count = 1};
    HN_PUSH(pass->context->scratch, &pass->missing, entry);
    return NULL;
}

static void print_place(hn_strbuf *out, hn_origin origin) {
    if (origin.node.len) hn_strbuf_printf(out, " (node '" HN_STR_FMT "'", HN_STR_ARG(origin.node));
    if (origin.source.len)
        hn_strbuf_printf(out, "%s" HN_STR_FMT, origin.node.len ? ", " : " (",
                         HN_STR_ARG(origin.source));
    if (origin.node.len || origin.source.len) hn_strbuf_putc(out, ')');
}

static hn_status missing_status(const decompose_pass *pass) {
    if (!pass->missing.count) return NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < pass->missing.count; k++) {
        const missing_op *m = &pass->missing.items[k];
        hn_strbuf_printf(&text, "%s'%s'", k ? "; " : "", hn_op_facts(m->op)->name);
        print_place(&text, m->first);
        if (m->count > 1) hn_strbuf_printf(&text, " and %u more", m->count - 1);
        if (m->why) hn_strbuf_printf(&text, ": %s", m->why);
    }
    hn_status status =
        HN_ERROR(HN_UNSUPPORTED, "cannot decompose %u operator%s: %s", pass->missing.count,
                 pass->missing.count > 1 ? "s" : "", hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text);
    return status;
}

/* Puts node, op and place before a latched or returned error. NULL stays NULL. */
static hn_status at_node(hn_status status, const hn_graph *g, const hn_node_info *node) {
    if (!status) return NULL;
    hn_strbuf place;
    hn_strbuf_init(&place);
    print_place(&place, g->origins.items[node->origin]);
    status = hn_status_annotate(status, "cannot decompose '%s'%s", hn_op_facts(node->op)->name,
                                hn_strbuf_str(&place).ptr);
    hn_strbuf_deinit(&place);
    return status;
}

/* --- what functions may ask of the pass --- */

hn_value hn_dec_mapped(const hn_dec *d, hn_value imported) {
    return imported < d->rewrite->value_count ? d->rewrite->map[imported] : 0;
}

const hn_node_info *hn_dec_maker(const hn_dec *d, hn_value imported) {
    hn_node maker = imported < d->rewrite->value_count ? d->rewrite->maker[imported] : 0;
    return maker ? &d->rewrite->old_nodes[maker] : NULL;
}

const hn_operations *hn_dec_operations(const hn_dec *d) {
    return d->rewrite->pass->context->operations;
}

/* --- operands --- */

static hn_status map_value(rewrite *r, hn_value old, hn_value *out, bool *io_lost) {
    *out = 0;
    if (!old) return NULL;
    if (old >= r->value_count) return HN_ERROR(HN_INTERNAL, "operand %u is out of range", old);
    *out = r->map[old];
    if (r->lost[old]) *io_lost = true;
    if (*out || r->lost[old]) return NULL;
    hn_str name = r->g->values.items[old].name;
    return HN_ERROR(HN_INTERNAL,
                    "operand '" HN_STR_FMT
                    "' has no value: its decomposition leaves that result out or "
                    "it is used before its definition",
                    HN_STR_ARG(name));
}

static hn_status rewrite_graph(decompose_pass *pass, hn_graph *g, uint32_t depth);

static hn_status map_arg(rewrite *r, uint32_t depth, const hn_arg *old, hn_arg *out,
                         bool *io_lost) {
    *out = *old;
    if (old->kind == HN_ARG_VALUE) return map_value(r, old->as.value, &out->as.value, io_lost);
    if (old->kind == HN_ARG_GRAPH) return rewrite_graph(r->pass, old->as.graph, depth + 1);
    if (old->kind != HN_ARG_VALUES) return NULL;
    hn_value *values;
    HN_NEW(r->pass->context->scratch, values, old->count);
    for (uint32_t k = 0; k < old->count; k++)
        HN_TRY(map_value(r, old->as.values[k], &values[k], io_lost));
    out->as.values = values;
    return NULL;
}

/* --- results --- */

static void print_meta(hn_strbuf *out, const hn_graph *g, const hn_value_info *info) {
    hn_strbuf_printf(out, "%s[", hn_dtype_facts(info->dtype)->name);
    for (uint32_t k = 0; k < info->rank; k++) {
        if (k) hn_strbuf_puts(out, ", ");
        hn_sym_print(g->sym, info->sizes[k], out);
    }
    hn_strbuf_putc(out, ']');
}

static hn_status meta_mismatch(const hn_graph *g, const hn_value_info *want,
                               const hn_value_info *got, uint32_t result_idx) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "result %u is ", result_idx);
    print_meta(&text, g, got);
    hn_strbuf_puts(&text, " but the program records ");
    print_meta(&text, g, want);
    hn_strbuf_puts(
        &text,
        "; if the model runs in PyTorch, export it again with run_decompositions(), which records other nodes");
    hn_status status = HN_ERROR(HN_UNSUPPORTED, "%s", hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text);
    return status;
}

/* PyTorch computes some records with other code than results: versions up to 2.11 give the states
 * of nn.LSTM a dimension more in the raw dialect. Inference wins where nobody reads the result, and
 * where both have as many elements. */
static bool record_may_err(rewrite *r, hn_value old, hn_value fresh) {
    hn_graph *g = r->g;
    if (hn_graph_value(g, old)->dtype != hn_graph_value(g, fresh)->dtype) return false;
    return !r->uses[old] || hn_sym_prove_eq(g->sym, hn_numel(g, old), hn_numel(g, fresh));
}

static hn_status check_result(rewrite *r, uint32_t result_idx, hn_value old, hn_value fresh) {
    hn_graph *g = r->g;
    const hn_value_info *want = hn_graph_value(g, old), *got = hn_graph_value(g, fresh);
    if (want->kind != got->kind)
        return HN_ERROR(HN_INTERNAL, "result %u is a %s but the program records a %s", result_idx,
                        got->kind == HN_VALUE_TENSOR ? "tensor" : "scalar",
                        want->kind == HN_VALUE_TENSOR ? "tensor" : "scalar");
    if (want->kind != HN_VALUE_TENSOR) return NULL;
    bool differs = want->dtype != got->dtype || want->rank != got->rank;
    for (uint32_t k = 0; k < want->rank && !differs; k++)
        differs = hn_sym_prove_ne(g->sym, want->sizes[k], got->sizes[k]);
    if (differs)
        return record_may_err(r, old, fresh) ? NULL : meta_mismatch(g, want, got, result_idx);
    for (uint32_t k = 0; k < want->rank; k++) {
        if (hn_sym_prove_eq(g->sym, want->sizes[k], got->sizes[k])) continue;
        hn_sym_require(g->sym, HN_REL_EQ, got->sizes[k], want->sizes[k],
                       "a size differs from the one recorded at export");
    }
    return NULL;
}

/* The new value takes the old one's name unless it has one (an input, or a value that serves two
 * results). */
static void take_name(hn_graph *g, hn_value old, hn_value fresh) {
    hn_value_info *from = &g->values.items[old], *to = &g->values.items[fresh];
    if (old == fresh || to->producer == 0 || to->name.len) return;
    to->name = from->name;
    from->name = HN_STR("");
}

static hn_status take_result(rewrite *r, uint32_t result_idx, hn_value old, hn_value fresh) {
    hn_graph *g = r->g;
    /* A symbolic integer is its expression: no node need compute it. */
    if (!fresh && g->values.items[old].kind == HN_VALUE_SYM_INT && g->values.items[old].expr)
        fresh = old;
    if (fresh && fresh != old) {
        HN_TRY(check_result(r, result_idx, old, fresh));
        take_name(g, old, fresh);
    }
    g->values.items[old].producer = 0;
    r->map[old] = fresh;
    return NULL;
}

/* --- nodes --- */

static void lose_results(rewrite *r, const hn_node_info *node) {
    for (uint32_t k = 0; k < node->result_count; k++) {
        hn_value v = node->results[k];
        if (v) r->lost[v] = true;
    }
}

static hn_status keep_primitive(rewrite *r, const hn_node_info *node, const hn_arg *args) {
    for (uint32_t k = 0; k < node->result_count; k++) {
        hn_value v = node->results[k];
        if (!v) continue;
        r->g->values.items[v].producer = 0; /* add_node makes it the producer anew */
        r->map[v] = v;
    }
    hn_graph_add_node(r->g, node->op, args, node->arg_count, node->results, node->result_count);
    return hn_graph_status(r->g);
}

static hn_status rewrite_aten(rewrite *r, const hn_node_info *old, hn_arg *args) {
    hn_dec_fn fn = hn_dec_find(old->op);
    hn_node_info node = *old;
    node.args = args;
    hn_dec d = {.g = r->g,
                .node = &node,
                .aten = old,
                .scratch = r->pass->context->scratch,
                .rewrite = r,
                .streams = &r->pass->streams};
    HN_NEW(d.scratch, d.results, node.result_count);
    hn_node first = r->g->nodes.count;
    fn(&d);
    hn_status latched = hn_graph_status(r->g);
    if (d.unsupported) {
        hn_status_free(latched);
        lose_results(r, old);
        return report_missing(r, old, d.unsupported);
    }
    HN_TRY(latched);
    for (uint32_t k = 0; k < node.result_count; k++)
        if (old->results[k]) HN_TRY(take_result(r, k, old->results[k], d.results[k]));
    /* Builder calls nest, and C leaves the order of arguments to the compiler: without this the
     * text would too. */
    return hn_graph_sort_tail(r->g, first, d.results, node.result_count, d.scratch);
}

static hn_status rewrite_node(rewrite *r, const hn_node_info *node, uint32_t depth) {
    hn_arg *args;
    HN_NEW(r->pass->context->scratch, args, node->arg_count);
    bool lost = false;
    for (uint32_t k = 0; k < node->arg_count; k++)
        HN_TRY(map_arg(r, depth, &node->args[k], &args[k], &lost));
    bool no_function = hn_op_is_aten(node->op) && !hn_dec_find(node->op);
    if (lost || no_function) lose_results(r, node);
    if (no_function) return report_missing(r, node, NULL);
    if (lost) return NULL;
    r->g->current_origin = node->origin;
    return hn_op_is_aten(node->op) ? rewrite_aten(r, node, args) : keep_primitive(r, node, args);
}

/* --- outputs --- */

static hn_status rewrite_outputs(rewrite *r) {
    hn_graph *g = r->g;
    bool *claimed;
    HN_NEW(r->pass->context->scratch, claimed, g->values.count);
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        hn_output *output = &g->outputs.items[k];
        hn_value old = output->value;
        bool lost = false;
        hn_status status = map_value(r, old, &output->value, &lost);
        if (status) return hn_status_annotate(status, "output %u", k);
        if (!old || lost) continue;
        const hn_value_info *info = hn_graph_value(g, output->value);
        if (output->kind == HN_OUTPUT_USER && info->kind == HN_VALUE_SYM_INT && info->expr &&
            !info->producer) {
            *output = (hn_output){
                .kind = HN_OUTPUT_SCALAR, .scalar = hn_arg_expr(info->expr), .name = output->name};
            continue;
        }
        if (output->kind == HN_OUTPUT_USER) HN_TRY(hn_rewrite_lay_out(g, output, old, claimed));
    }
    return NULL;
}

/* --- the pass --- */

static void count_use(void *user, hn_value v) { ((uint32_t *)user)[v]++; }

static hn_status rewrite_begin(rewrite *r) {
    hn_graph *g = r->g;
    r->value_count = g->values.count;
    HN_NEW(r->pass->context->scratch, r->map, r->value_count);
    HN_NEW(r->pass->context->scratch, r->lost, r->value_count);
    HN_NEW(r->pass->context->scratch, r->maker, r->value_count);
    HN_NEW(r->pass->context->scratch, r->uses, r->value_count);
    r->old_nodes = g->nodes.items;
    for (uint32_t n = 1; n < g->nodes.count; n++)
        if (!r->old_nodes[n].dead) hn_node_each_value(&r->old_nodes[n], count_use, r->uses);
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        const hn_output *output = &g->outputs.items[k];
        r->uses[output->value]++; /* of 0, which is no value, too */
        if (output->scalar.kind == HN_ARG_VALUE) r->uses[output->scalar.as.value]++;
    }
    for (uint32_t v = 1; v < r->value_count; v++) {
        r->maker[v] = g->values.items[v].producer;
        if (!r->maker[v]) r->map[v] = v;
    }
    return NULL;
}

static hn_status rewrite_graph(decompose_pass *pass, hn_graph *g, uint32_t depth) {
    if (depth > MAX_GRAPH_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "subgraphs nest deeper than %d", MAX_GRAPH_DEPTH);
    rewrite r = {.pass = pass, .g = g};
    HN_TRY(rewrite_begin(&r));
    hn_node_info *old_nodes = g->nodes.items;
    uint32_t old_count = g->nodes.count;
    g->nodes.items = NULL;
    g->nodes.count = g->nodes.cap = 0;
    HN_PUSH(g->arena, &g->nodes, (hn_node_info){0}); /* id 0 is invalid */
    for (uint32_t n = 1; n < old_count; n++) {
        if (old_nodes[n].dead) continue;
        HN_TRY(at_node(rewrite_node(&r, &old_nodes[n], depth), g, &old_nodes[n]));
    }
    g->current_origin = 0;
    return rewrite_outputs(&r);
}

hn_status hn_pass_decompose(hn_graph *graph, hn_pass_context *context) {
    decompose_pass pass = {.context = context};
    HN_TRY(rewrite_graph(&pass, graph, 0));
    return missing_status(&pass);
}
