/* passes.c: the first pass, and the first rewrite in it, behind which the graph is wrong.
 *
 * The interpreter runs primitives, so the first graph that it can judge is the one behind
 * `decompose`. Without outputs of PyTorch that one is the reference.
 *
 * A large model's graph is run as a program without fusion. Its kernels and calls may be wrong
 * themselves: then it is wrong behind every pass, and steps.c finds the one. */
#include "bisect/internal.h"

#include <math.h>
#include <string.h>

/* A pass and its limit being tried. */
typedef struct attempt {
    uint32_t pass;
    hn_limit *limit;     /* NULL: all rewrites */
    hn_finding *finding; /* gets the origin of the last rewrite; NULL: nobody asks */
} attempt;

static hn_status evaluate(hn_bisection *b, const attempt *a, hn_arena *arena, hn_build *build,
                          hn_results *out) {
    hn_limit no_fusion = {.most = 0};
    const hn_driver_limits limits = {.pass = a->pass, .last = a->limit, .behind = &no_fusion};
    b->result->runs++;
    hn_status status = hn_build_graph(b->s, &limits, build);
    if (!status) status = hn_build_evaluate(b->s, build, arena, out);
    return status;
}

static void name_rewrite(hn_bisection *b, const hn_graph *graph, const hn_limit *limit,
                         hn_finding *f) {
    hn_bisection_origin(b, graph, limit->origin, f);
    if (limit->other && limit->other < graph->origins.count)
        f->other = hn_bisection_keep(b, graph->origins.items[limit->other].node);
}

static hn_status judge(hn_bisection *b, const attempt *a, bool *out_right, hn_strbuf *why) {
    hn_arena arena;
    hn_build build;
    hn_results results;
    hn_arena_init(&arena);
    hn_status status = evaluate(b, a, &arena, &build, &results);
    if (!status) *out_right = hn_subject_judge(b->s, build.d.graph, &results, why);
    if (!status && a->finding) name_rewrite(b, build.d.graph, a->limit, a->finding);
    hn_build_deinit(&build);
    hn_arena_deinit(&arena);
    return status;
}

/* --- the oracle --- */

hn_status hn_bisect_oracle(hn_bisection *b) {
    hn_build build;
    const attempt a = {.pass = hn_driver_pass_number("decompose")};
    if (b->s->expected || b->s->oracle.count) return NULL;
    hn_bisection_note(b, b->s->runs_programs
                             ? "running the imported graph as a program without fusion"
                             : "running the imported graph by the reference interpreter");
    hn_status status = evaluate(b, &a, &b->s->arena, &build, &b->s->oracle);
    hn_build_deinit(&build);
    return status;
}

/* --- rewrites --- */

static hn_status try_rewrites(hn_bisection *b, void *context, hn_limit *limit, bool *out_right,
                              hn_strbuf *why) {
    const attempt *a = context;
    hn_bisection_note(b, "pass '%s' with %u rewrites", hn_driver_pass_name(a->pass), limit->most);
    return judge(b, &(attempt){.pass = a->pass, .limit = limit, .finding = a->finding}, out_right,
                 why);
}

/* Without any rewrite it is what the pass does besides. */
static hn_status find_rewrite(hn_bisection *b, uint32_t pass, hn_strbuf *why) {
    hn_limit all = {.most = UINT32_MAX}, none = {.most = 0}, first;
    bool right = false;
    hn_finding *f = hn_bisection_add(b, HN_FINDING_PASS);
    f->pass = hn_str_of(hn_driver_pass_name(pass));
    f->why = hn_bisection_keep(b, hn_strbuf_str(why));
    HN_TRY(judge(b, &(attempt){.pass = pass, .limit = &none}, &right, NULL));
    if (!right) return NULL;
    HN_TRY(judge(b, &(attempt){.pass = pass, .limit = &all}, &right, NULL));
    if (!all.count || right) return NULL;
    attempt a = {.pass = pass, .finding = f};
    HN_TRY(hn_bisection_halve(b, try_rewrites, &a, all.count, &first, why));
    if (!first.rule) return NULL;
    f->kind = HN_FINDING_REWRITE;
    f->rule = hn_str_of(first.rule);
    f->number = first.most;
    f->total = all.count;
    f->why = hn_bisection_keep(b, hn_strbuf_str(why));
    return NULL;
}

/* --- passes --- */

static hn_status judge_pass(hn_bisection *b, uint32_t pass, bool *out_right, hn_strbuf *why) {
    hn_strbuf_reset(why);
    hn_bisection_note(b, "the graph behind pass '%s'", hn_driver_pass_name(pass));
    return judge(b, &(attempt){.pass = pass}, out_right, why);
}

/* --- decompositions --- */

static bool fits(const hn_ref_tensor *got, const hn_ref_tensor *want, hn_strbuf *why) {
    hn_ref_tensor as = *want;
    double largest = 0;
    if (got->dtype == HN_DTYPE_BF16 && want->dtype == HN_DTYPE_F32) as.dtype = HN_DTYPE_BF16;
    bool is_same = got->dtype == as.dtype && got->rank == as.rank;
    for (uint32_t d = 0; is_same && d < got->rank; d++) is_same = got->sizes[d] == as.sizes[d];
    if (!is_same) return true; /* saved of something else */
    for (int64_t k = 0; hn_dtype_is_float(as.dtype) && k < as.numel; k++)
        if (isfinite(as.data.f[k])) largest = fmax(largest, fabs(as.data.f[k]));
    return hn_ref_compare(got, &as, 0, hn_subject_tolerance(as.dtype, largest), why);
}

/* The op of the imported graph at the node. */
static hn_status name_decomposition(hn_bisection *b, hn_str node, hn_finding *f) {
    const hn_driver_limits limits = {.pass = 0};
    hn_build build;
    hn_status status = hn_build_graph(b->s, &limits, &build);
    const hn_graph *g = build.d.graph;
    for (hn_node n = 1; !status && n < g->nodes.count; n++) {
        const hn_node_info *info = &g->nodes.items[n];
        if (info->dead || !hn_str_eq(g->origins.items[info->origin].node, node)) continue;
        f->rule = hn_str_of(hn_op_facts(info->op)->name);
        hn_bisection_origin(b, g, info->origin, f);
        break;
    }
    hn_build_deinit(&build);
    return status;
}

/* The first node whose value is not what PyTorch saved. */
static hn_status find_node(hn_bisection *b, hn_build *build, const hn_results *results,
                           uint32_t first, hn_arena *arena, hn_finding *f) {
    for (uint32_t k = first; k < results->count; k++) {
        const hn_str name = build->d.graph->outputs.items[k].name;
        hn_ref_tensor want;
        hn_strbuf why;
        bool found;
        HN_TRY(b->s->saved(b->s->saved_user, name, arena, &want, &found));
        hn_strbuf_init(&why);
        const bool right = !found || fits(&results->items[k], &want, &why);
        if (!right) f->why = hn_bisection_keep(b, hn_strbuf_str(&why));
        hn_strbuf_deinit(&why);
        if (!right) return name_decomposition(b, name, f);
    }
    return NULL;
}

static hn_status search_decompose(hn_bisection *b, hn_finding *f) {
    hn_limit no_fusion = {.most = 0};
    const hn_driver_limits limits = {.pass = hn_driver_pass_number("decompose"),
                                     .behind = &no_fusion};
    hn_arena arena;
    hn_build build;
    hn_results results;
    hn_bisection_note(b, "each node of the imported graph");
    hn_arena_init(&arena);
    b->result->runs++;
    hn_status status = hn_build_watched(b->s, &limits, &build);
    if (!status) status = hn_build_evaluate(b->s, &build, &arena, &results);
    if (!status)
        status = find_node(b, &build, &results, b->whole->d.graph->outputs.count, &arena, f);
    hn_build_deinit(&build);
    hn_arena_deinit(&arena);
    return status;
}

/* --- all --- */

static hn_status search(hn_bisection *b, bool *out_found, hn_strbuf *why) {
    const uint32_t last = hn_driver_last_pass();
    uint32_t pass = hn_driver_pass_number("decompose");
    bool right = true;
    HN_TRY(judge_pass(b, last, &right, why));
    *out_found = !right;
    if (right) return NULL;
    if (b->s->expected) {
        HN_TRY(judge_pass(b, pass, &right, why));
        if (!right) {
            hn_finding *f = hn_bisection_add(b, HN_FINDING_IMPORT);
            f->why = hn_bisection_keep(b, hn_strbuf_str(why));
            return b->s->saved ? search_decompose(b, f) : NULL;
        }
    }
    for (right = true; right && pass < last;) HN_TRY(judge_pass(b, ++pass, &right, why));
    return find_rewrite(b, pass, why);
}

hn_status hn_bisect_passes(hn_bisection *b, bool *out_found) {
    hn_strbuf why;
    hn_strbuf_init(&why);
    hn_status status = search(b, out_found, &why);
    hn_strbuf_deinit(&why);
    return status;
}
