/* fusion.c: the first fusion that makes the program wrong: the scheduler may do its first N, and
 * the program is compiled and run with each N that halving asks for. */
#include "bisect/internal.h"

typedef struct attempt {
    hn_finding *finding; /* gets the nodes of the last fusion; NULL: nobody asks */
} attempt;

static void name_fusion(hn_bisection *b, const hn_graph *graph, const hn_limit *limit,
                        hn_finding *f) {
    hn_bisection_origin(b, graph, limit->origin, f);
    if (limit->other && limit->other < graph->origins.count)
        f->other = hn_bisection_keep(b, graph->origins.items[limit->other].node);
}

static hn_status build_and_run(hn_bisection *b, hn_limit *limit, hn_build *build, hn_arena *arena,
                               hn_results *out) {
    const hn_driver_limits limits = {.pass = hn_driver_last_pass(), .behind = limit};
    b->result->runs++;
    HN_TRY(hn_build_graph(b->s, &limits, build));
    HN_TRY(hn_build_module(b->s, build));
    return hn_build_run(b->s, build, arena, out);
}

static hn_status try_fusions(hn_bisection *b, void *context, hn_limit *limit, bool *out_right,
                             hn_strbuf *why) {
    const attempt *a = context;
    hn_arena arena;
    hn_build build;
    hn_results results;
    if (limit->most == UINT32_MAX) hn_bisection_note(b, "the program with all fusions");
    else hn_bisection_note(b, "the program with %u fusions", limit->most);
    hn_arena_init(&arena);
    hn_status status = build_and_run(b, limit, &build, &arena, &results);
    if (!status) *out_right = hn_subject_judge(b->s, build.d.graph, &results, why);
    if (!status && a->finding) name_fusion(b, build.d.graph, limit, a->finding);
    hn_build_deinit(&build);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status search(hn_bisection *b, bool *out_found, hn_strbuf *why) {
    hn_limit all = {.most = UINT32_MAX}, none = {.most = 0}, first;
    hn_finding named;
    attempt a = {0};
    bool right = false;
    *out_found = false;
    HN_TRY(try_fusions(b, &a, &none, &right, why));
    if (!right) return NULL;
    HN_TRY(try_fusions(b, &a, &all, &right, why));
    if (right || !all.count) return NULL;
    a.finding = &named;
    HN_TRY(hn_bisection_halve(b, try_fusions, &a, all.count, &first, why));
    if (!first.rule) return NULL;
    hn_finding *f = hn_bisection_add(b, HN_FINDING_FUSION);
    f->node = named.node;
    f->source = named.source;
    if (first.other) f->other = named.other;
    f->rule = hn_str_of(first.rule);
    f->number = first.most;
    f->total = all.count;
    f->why = hn_bisection_keep(b, hn_strbuf_str(why));
    *out_found = true;
    return NULL;
}

hn_status hn_bisect_fusion(hn_bisection *b, bool *out_found) {
    hn_strbuf why;
    hn_strbuf_init(&why);
    hn_status status = search(b, out_found, &why);
    hn_strbuf_deinit(&why);
    return status;
}
