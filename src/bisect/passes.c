/* passes.c: the first pass, and the first rewrite in it, behind which the graph is wrong.
 *
 * The interpreter runs primitives, so the first graph that it can judge is the one behind
 * `decompose`. Without outputs of PyTorch that one is the reference.
 *
 * A large model's graph is run as a program without fusion. Its kernels and calls may be wrong
 * themselves: then it is wrong behind every pass, and steps.c finds the one. */
#include "bisect/internal.h"

#include <string.h>

static uint32_t pass_number(const char *name) {
    uint32_t k = 0;
    while (hn_driver_pass_name(k) && strcmp(hn_driver_pass_name(k), name) != 0) k++;
    return k;
}

/* A pass and its limit being tried. */
typedef struct attempt {
    uint32_t pass;
    hn_limit *limit;     /* NULL: all rewrites */
    hn_finding *finding; /* gets the origin of the last rewrite; NULL: nobody asks */
} attempt;

static hn_status evaluate(hn_bisection *b, const attempt *a, hn_arena *arena, hn_build *build,
                          hn_results *out) {
    hn_limit no_fusion = {.most = 0};
    const hn_driver_limits limits = {.pass = a->pass, .last = a->limit, .sched = &no_fusion};
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
    const attempt a = {.pass = pass_number("decompose")};
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

static hn_status search(hn_bisection *b, bool *out_found, hn_strbuf *why) {
    const uint32_t last = hn_driver_last_pass();
    uint32_t pass = pass_number("decompose");
    bool right = true;
    HN_TRY(judge_pass(b, last, &right, why));
    *out_found = !right;
    if (right) return NULL;
    if (b->s->expected) {
        HN_TRY(judge_pass(b, pass, &right, why));
        if (!right) {
            hn_finding *f = hn_bisection_add(b, HN_FINDING_IMPORT);
            f->why = hn_bisection_keep(b, hn_strbuf_str(why));
            return NULL;
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
