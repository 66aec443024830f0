/* bisect.c: the order of the search, see bisect.h. */
#include "bisect/internal.h"

#include <stdarg.h>
#include <stdio.h>

const char *hn_finding_name(hn_finding_kind kind) {
    static const char *const names[] = {
        [HN_FINDING_IMPORT] = "import",   [HN_FINDING_PASS] = "pass",
        [HN_FINDING_REWRITE] = "rewrite", [HN_FINDING_FUSION] = "fusion",
        [HN_FINDING_KERNEL] = "kernel",   [HN_FINDING_CALL] = "call",
        [HN_FINDING_MEMORY] = "memory",   [HN_FINDING_LOWER] = "lowering",
    };
    return names[kind];
}

void hn_bisection_note(const hn_bisection *b, const char *fmt, ...) {
    char text[200];
    va_list args;
    if (!b->note) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    b->note(b->user, text);
}

hn_str hn_bisection_keep(hn_bisection *b, hn_str text) {
    char *copy = hn_arena_strndup(&b->s->arena, text.ptr ? text.ptr : "", text.len);
    return copy ? (hn_str){copy, text.len} : HN_STR("");
}

hn_finding *hn_bisection_add(hn_bisection *b, hn_finding_kind kind) {
    if (b->result->count == HN_FINDINGS_MAX) b->result->count--;
    hn_finding *f = &b->result->findings[b->result->count++];
    *f = (hn_finding){.kind = kind,
                      .pass = HN_STR(""),
                      .rule = HN_STR(""),
                      .node = HN_STR(""),
                      .source = HN_STR(""),
                      .other = HN_STR(""),
                      .step = HN_STR(""),
                      .program = HN_STR(""),
                      .why = HN_STR("")};
    return f;
}

void hn_bisection_origin(hn_bisection *b, const hn_graph *graph, uint32_t origin,
                         hn_finding *finding) {
    if (origin >= graph->origins.count) return;
    finding->node = hn_bisection_keep(b, graph->origins.items[origin].node);
    finding->source = hn_bisection_keep(b, graph->origins.items[origin].source);
}

hn_status hn_bisection_halve(hn_bisection *b, hn_bisection_try try, void *context, uint32_t total,
                             hn_limit *out, hn_strbuf *why) {
    uint32_t right = 0, wrong = total;
    bool is_right = false;
    while (wrong - right > 1) {
        hn_limit limit = {.most = right + (wrong - right) / 2};
        hn_strbuf_reset(why);
        HN_TRY(try(b, context, &limit, &is_right, why));
        *(is_right ? &right : &wrong) = limit.most;
    }
    *out = (hn_limit){.most = wrong};
    hn_strbuf_reset(why);
    HN_TRY(try(b, context, out, &is_right, why));
    if (is_right) out->rule = NULL;
    return NULL;
}

static hn_status run_whole(hn_bisection *b, bool *out_right) {
    hn_arena arena;
    hn_results results;
    hn_strbuf why;
    hn_arena_init(&arena);
    hn_strbuf_init(&why);
    b->result->runs++;
    hn_status status = hn_build_run(b->s, b->whole, &arena, &results);
    if (!status) *out_right = hn_subject_judge(b->s, b->whole->d.graph, &results, &why);
    b->result->why = hn_bisection_keep(b, hn_strbuf_str(&why));
    hn_strbuf_deinit(&why);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status search(hn_bisection *b) {
    bool found, fused;
    HN_TRY(hn_bisect_passes(b, &found));
    const bool is_import = found && b->result->findings[0].kind == HN_FINDING_IMPORT;
    if (found && !(is_import && b->s->runs_programs)) return NULL;
    HN_TRY(hn_bisect_steps(b, &found));
    if (is_import) {
        if (found) b->result->findings[0] = b->result->findings[--b->result->count];
        return NULL;
    }
    HN_TRY(hn_bisect_fusion(b, &fused));
    if (found || fused) return NULL;
    hn_finding *f = hn_bisection_add(b, HN_FINDING_LOWER);
    f->why = b->result->why;
    return NULL;
}

hn_status hn_bisect(hn_subject *s, hn_build *whole, void (*note)(void *user, const char *text),
                    void *user, hn_bisect_result *out) {
    hn_bisection b = {.s = s, .whole = whole, .result = out, .note = note, .user = user};
    bool right = false;
    *out = (hn_bisect_result){.why = HN_STR("")};
    HN_TRY(hn_bisect_oracle(&b));
    hn_bisection_note(&b, "running the program");
    HN_TRY(run_whole(&b, &right));
    out->is_wrong = !right;
    return right ? NULL : search(&b);
}
