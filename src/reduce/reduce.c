/* reduce.c: the order of the search, see reduce.h. */
#include "reduce/reduce.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/trace.h"
#include "bisect/subject.h"
#include "reduce/part.h"
#include "reduce/sizes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const hn_reduce_options *options;
    hn_trial_options trial;
    hn_reduction *r;
    hn_map tried; /* digests of attempts that did not fail in this way */
} search;

static void note(const search *s, const char *fmt, ...) HN_PRINTF(2, 3);
static void note(const search *s, const char *fmt, ...) {
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    hn_log("run", HN_LOG_INFO, "reduce: %s", text);
    if (s->options->note) s->options->note(s->options->user, text);
}

static bool is_stopped(const search *s) { return s->trial.stop && *s->trial.stop; }

static hn_status copy_slice(const hn_slice *slice, hn_arena *arena, hn_slice *out) {
    hn_graph *g;
    HN_TRY(hn_slice_graph(slice, arena, &g));
    hn_status status = hn_slice_init(g, out);
    hn_graph_deinit(g);
    return status;
}

/* --- one attempt --- */

/* Graphs of equal text may differ in their bytes: so do those of smaller sizes. */
static uint64_t key_of(const hn_slice *slice) {
    uint64_t key;
    const hn_digest digest = hn_digest_of(slice->text.ptr, slice->text.len);
    memcpy(&key, digest.bytes, sizeof key);
    return key | 1;
}

static hn_status take_best(search *s, hn_slice *slice, const hn_failure *failure) {
    hn_slice_deinit(&s->r->best);
    s->r->best = *slice;
    s->r->last = *failure;
    s->r->nodes_after = slice->node_count;
    return NULL;
}

static hn_status run_trial(search *s, hn_slice *slice, bool *out_fails) {
    hn_failure failure;
    const uint64_t key = key_of(slice);
    *out_fails = false;
    if (hn_map_get(&s->tried, key)) return NULL;
    s->r->trials++;
    HN_TRY(hn_trial_run(slice, &s->trial, &failure));
    hn_log("run", HN_LOG_DEBUG, "reduce: %u nodes: %s: %s", slice->node_count,
           hn_failure_name(failure.kind), failure.text);
    *out_fails = hn_failure_same(&failure, &s->r->failure);
    if (*out_fails) return take_best(s, slice, &failure);
    return hn_map_put(&s->tried, key, 1);
}

/* Makes the graph an attempt. It becomes the best one if it fails. An edit that gives no graph is
 * an attempt that does not. */
static hn_status try_graph(search *s, hn_graph *graph, bool *out_fails) {
    hn_slice slice;
    *out_fails = false;
    if (!graph->outputs.count) return NULL;
    hn_status status = hn_slice_init(graph, &slice);
    if (!status) status = run_trial(s, &slice, out_fails);
    if (status || !*out_fails) hn_slice_deinit(&slice);
    return status;
}

/* What `edit` does to a copy of `from`. Its errors mean that it cannot be done. */
typedef hn_status (*edit_fn)(search *s, hn_graph *graph, const void *context);

static hn_status try_edit(search *s, const hn_slice *from, edit_fn edit, const void *context,
                          bool *out_fails) {
    hn_arena arena;
    hn_graph *graph = NULL;
    *out_fails = false;
    if (is_stopped(s)) return NULL;
    hn_arena_init(&arena);
    hn_status status = hn_slice_graph(from, &arena, &graph);
    if (!status) {
        hn_status edited = edit(s, graph, context);
        if (!edited) edited = hn_graph_verify(graph, HN_LEGAL_ANY);
        if (!edited) status = try_graph(s, graph, out_fails);
        hn_status_free(edited);
        hn_graph_deinit(graph);
    }
    hn_arena_deinit(&arena);
    return status;
}

/* --- nodes --- */

typedef struct node_set {
    hn_node *items;
    uint32_t count;
} node_set;

typedef struct cut {
    const hn_part_values *values;
    const node_set *nodes;
    uint32_t first, count; /* a run of `nodes` */
    bool keeps;            /* this run, or all others */
} cut;

static hn_status edit_cut(search *s, hn_graph *g, const void *context) {
    const cut *c = context;
    bool *kept;
    HN_NEW(g->arena, kept, g->nodes.count);
    for (uint32_t k = 0; k < c->nodes->count; k++)
        kept[c->nodes->items[k]] = (k >= c->first && k < c->first + c->count) == c->keeps;
    return hn_part_cut(g, kept, c->values, &s->r->arena);
}

static void keep_run(node_set *nodes, const cut *c) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < nodes->count; k++)
        if ((k >= c->first && k < c->first + c->count) == c->keeps)
            nodes->items[count++] = nodes->items[k];
    nodes->count = count;
}

/* One round over `parts` runs of the nodes: each alone, or all but each. */
static hn_status try_runs(search *s, const hn_slice *whole, const hn_part_values *values,
                          node_set *nodes, uint32_t parts, bool keeps, bool *out_found) {
    for (uint32_t k = 0; k < parts; k++) {
        const uint32_t first = (uint32_t)((uint64_t)nodes->count * k / parts),
                       end = (uint32_t)((uint64_t)nodes->count * (k + 1) / parts);
        const cut c = {values, nodes, first, end - first, keeps};
        if (end == first) continue;
        note(s, "%u of %u nodes, attempt %u", nodes->count, s->r->nodes_before, s->r->trials + 1);
        HN_TRY(try_edit(s, whole, edit_cut, &c, out_found));
        if (*out_found) keep_run(nodes, &c);
        if (*out_found) return NULL;
    }
    return NULL;
}

/* With runs down to a `most_parts`th of the nodes. */
static hn_status reduce_nodes(search *s, const hn_slice *whole, const hn_part_values *values,
                              node_set *nodes, uint32_t most_parts) {
    for (uint32_t parts = 2; nodes->count >= 2 && parts <= most_parts && !is_stopped(s);) {
        bool found = false;
        if (parts > nodes->count) parts = nodes->count;
        HN_TRY(try_runs(s, whole, values, nodes, parts, true, &found));
        if (found) {
            parts = 2;
            continue;
        }
        if (parts > 2) HN_TRY(try_runs(s, whole, values, nodes, parts, false, &found));
        if (found) parts = parts > 3 ? parts - 1 : 2;
        else if (parts == nodes->count) return NULL;
        else parts *= 2;
    }
    return NULL;
}

/* --- outputs --- */

static hn_status edit_output(search *s, hn_graph *g, const void *context) {
    const uint32_t *output = context;
    if (*output >= g->outputs.count || g->outputs.count < 2)
        return HN_ERROR(HN_INVALID_ARGUMENT, "there is no output to drop");
    return hn_part_drop_output(g, *output, &s->r->arena);
}

static hn_status count_outputs(const hn_slice *slice, uint32_t *out) {
    hn_arena arena;
    hn_graph *g;
    hn_arena_init(&arena);
    hn_status status = hn_slice_graph(slice, &arena, &g);
    if (!status) {
        *out = g->outputs.count;
        hn_graph_deinit(g);
    }
    hn_arena_deinit(&arena);
    return status;
}

static hn_status reduce_outputs(search *s) {
    uint32_t count;
    HN_TRY(count_outputs(&s->r->best, &count));
    for (uint32_t k = count; k-- > 0 && !is_stopped(s);) {
        bool fails;
        note(s, "%u nodes, output %u of %u", s->r->nodes_after, k + 1, count);
        HN_TRY(try_edit(s, &s->r->best, edit_output, &k, &fails));
    }
    return NULL;
}

/* --- sizes --- */

typedef struct shrink {
    int64_t from, to;
} shrink;

/* Storages that nobody uses any more are dropped. */
static hn_status edit_sizes(search *s, hn_graph *g, const void *context) {
    const shrink *step = context;
    HN_TRY(hn_sizes_shrink(g, step->from, step->to, &s->r->arena));
    return hn_part_tidy(g, &s->r->arena);
}

static hn_status sizes_of(const hn_slice *slice, hn_arena *arena, int64_t **out,
                          uint32_t *out_count, uint64_t *out_elements) {
    hn_graph *g;
    HN_TRY(hn_slice_graph(slice, arena, &g));
    *out_elements = hn_sizes_elements(g);
    hn_status status = hn_sizes_list(g, arena, out, out_count);
    hn_graph_deinit(g);
    return status;
}

/* The smallest number that does, of some. */
static hn_status shrink_size(search *s, int64_t from, bool *out_found) {
    const int64_t steps[] = {1, 2, 3, 4, 8, 16, 32, from / 2};
    for (size_t k = 0; k < sizeof steps / sizeof *steps && !*out_found; k++) {
        const shrink step = {from, steps[k]};
        if (steps[k] < 1 || steps[k] >= from || is_stopped(s)) continue;
        note(s, "%u nodes, sizes of %lld as %lld", s->r->nodes_after, (long long)from,
             (long long)steps[k]);
        HN_TRY(try_edit(s, &s->r->best, edit_sizes, &step, out_found));
    }
    return NULL;
}

static hn_status shrink_round(search *s, bool *out_found) {
    hn_arena arena;
    int64_t *sizes;
    uint32_t count;
    hn_arena_init(&arena);
    *out_found = false;
    hn_status status = sizes_of(&s->r->best, &arena, &sizes, &count, &s->r->elements_after);
    for (uint32_t k = 0; !status && !*out_found && k < count; k++)
        status = shrink_size(s, sizes[k], out_found);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status reduce_sizes(search *s) {
    for (bool found = true; found;) HN_TRY(shrink_round(s, &found));
    return NULL;
}

/* --- the model --- */

/* What nodes have recorded, by number of the value. The slice's text has the numbers of its
 * graph. */
static hn_status spread_values(hn_graph *g, const hn_example **recorded, uint32_t count,
                               hn_arena *arena, hn_part_values *out) {
    const hn_example **items;
    uint32_t at = 0;
    HN_NEW(arena, items, g->values.count);
    for (hn_node n = 1; n < g->nodes.count; n++)
        for (uint32_t k = 0; k < g->nodes.items[n].result_count; k++) {
            const hn_value v = g->nodes.items[n].results[k];
            if (v && hn_graph_value(g, v)->kind == HN_VALUE_TENSOR && at < count)
                items[v] = recorded[at++];
        }
    *out = (hn_part_values){items, g->values.count};
    return NULL;
}

static hn_status list_nodes(const hn_graph *g, hn_arena *arena, node_set *out) {
    out->count = g->nodes.count - 1;
    HN_NEW(arena, out->items, g->nodes.count);
    for (uint32_t k = 0; k < out->count; k++) out->items[k] = k + 1;
    return NULL;
}

static hn_status reduce_round(search *s, hn_slice *whole, uint32_t most_parts, hn_arena *arena) {
    const hn_example **recorded;
    uint32_t count;
    hn_graph *g;
    hn_part_values values;
    node_set nodes;
    note(s, "recording the values of %u nodes", whole->node_count);
    HN_TRY(hn_trial_record(whole, &s->trial, &s->r->arena, &recorded, &count));
    HN_TRY(hn_slice_graph(whole, arena, &g));
    hn_status status = spread_values(g, recorded, count, arena, &values);
    if (!status) status = list_nodes(g, arena, &nodes);
    hn_graph_deinit(g);
    if (!status) status = reduce_nodes(s, whole, &values, &nodes, most_parts);
    if (!status) status = reduce_outputs(s);
    return status ? status : reduce_sizes(s);
}

/* First roughly: attempts with small sizes take no time, and most are made at the end. */
static hn_status reduce_all(search *s, hn_slice *whole, hn_arena *arena) {
    enum { ROUGH_PARTS = 8 };
    hn_slice rough = {.node_count = 0};
    s->r->has_best = true;
    HN_TRY(copy_slice(whole, arena, &s->r->best));
    HN_TRY(reduce_round(s, whole, ROUGH_PARTS, arena));
    hn_status status = copy_slice(&s->r->best, arena, &rough);
    if (!status) status = reduce_round(s, &rough, UINT32_MAX, arena);
    hn_slice_deinit(&rough);
    return status;
}

/* Whether a trial tells anything of the model. */
static hn_status check_failure(const hn_failure *f) {
    if (f->stage != HN_TRIAL_REFERENCE || f->kind == HN_FAILURE_CANCELLED) return NULL;
    return HN_ERROR(HN_UNSUPPORTED,
                    "the reference interpreter, which is to judge, cannot run the model (%s: %s); "
                    "give a command that judges with --test",
                    hn_failure_name(f->kind), f->text);
}

/* Slow attempts are no hang. */
static void limit_time(search *s, int64_t took_ms) {
    enum { LEAST_MS = 10000, TIMES = 4 };
    const int64_t usual = LEAST_MS + TIMES * took_ms;
    if (s->r->failure.kind != HN_FAILURE_HANG && usual < s->trial.limit_ms)
        s->trial.limit_ms = usual;
}

static hn_status run_whole(search *s, const hn_slice *whole) {
    const int64_t begin_ns = hn_now_ns();
    s->r->trials++;
    HN_TRY(hn_trial_run(whole, &s->trial, &s->r->failure));
    s->r->last = s->r->failure;
    HN_TRY(check_failure(&s->r->failure));
    limit_time(s, (hn_now_ns() - begin_ns) / 1000000);
    return NULL;
}

/* What is wrong with a kernel shows in a program without fusion, too. */
static hn_status begin(search *s, hn_slice *whole) {
    int64_t *ignored;
    uint32_t count;
    hn_arena arena;
    hn_arena_init(&arena);
    hn_status status = sizes_of(whole, &arena, &ignored, &count, &s->r->elements_before);
    hn_arena_deinit(&arena);
    HN_TRY(status);
    s->r->nodes_before = s->r->nodes_after = whole->node_count;
    s->r->elements_after = s->r->elements_before;
    note(s, "running the model");
    HN_TRY(run_whole(s, whole));
    if (s->r->failure.kind || s->trial.test || whole->weight_bytes <= HN_INTERPRETED_BYTES)
        return NULL;
    note(s, "running the model and the interpreter, which takes minutes");
    s->trial.interprets = true;
    return run_whole(s, whole);
}

hn_status hn_reduce(hn_graph *graph, const hn_reduce_options *options, hn_reduction *out) {
    hn_slice whole;
    hn_arena arena;
    *out = (hn_reduction){.has_best = false};
    hn_arena_init(&out->arena);
    search s = {.options = options, .trial = options->trial, .r = out};
    HN_TRY(hn_part_tidy(graph, &out->arena));
    hn_arena_init(&arena);
    hn_map_init(&s.tried, &arena);
    hn_status status = hn_slice_init(graph, &whole);
    if (!status) status = begin(&s, &whole);
    const bool fails =
        out->failure.kind != HN_FAILURE_NONE && out->failure.kind != HN_FAILURE_CANCELLED;
    if (!status && fails) status = reduce_all(&s, &whole, &arena);
    out->is_complete = !is_stopped(&s);
    hn_slice_deinit(&whole);
    hn_arena_deinit(&arena);
    return status;
}

void hn_reduction_deinit(hn_reduction *r) {
    if (r->has_best) hn_slice_deinit(&r->best);
    hn_arena_deinit(&r->arena);
}
