/* pipeline.c: the passes, in one table that is read top to bottom. */
#include "driver/driver.h"

#include "base/compiler.h"
#include "base/nearest.h"
#include "base/log.h"
#include "base/trace.h"

#include <string.h>

typedef struct pass_row {
    const char *name;
    hn_pass_fn run;
    hn_legal legal_after;
    const char *why; /* it stands here */
} pass_row;

static const pass_row passes[] = {
    {"functionalize", hn_pass_functionalize, HN_LEGAL_ANY,
     "in-place ops are unknown to every later pass"},
    {"decompose", hn_pass_decompose, HN_LEGAL_PRIMITIVE, "the passes below know primitives only"},
    {"cse", hn_pass_cse, HN_LEGAL_PRIMITIVE,
     "decompositions repeat constants, masks and views; patterns want one of each"},
    {"fold", hn_pass_fold, HN_LEGAL_PRIMITIVE,
     "masks and positions of fixed shapes become constants before patterns look at them"},
    {"patterns", hn_pass_patterns, HN_LEGAL_PRIMITIVE,
     "needs the simplified graph; leaves dead chains behind"},
    {"dce", hn_pass_dce, HN_LEGAL_PRIMITIVE, "so that what follows sees live nodes only"},
    {"weights", hn_pass_weights, HN_LEGAL_PRIMITIVE,
     "last: the constants that it makes have no bytes that a pass could look at"},
};

_Static_assert(sizeof passes / sizeof *passes <= HN_PASSES_MAX, "each has statistics");

static bool wants(const hn_driver *d, const char *stage) {
    const char *wanted = HN_OPT(&d->options, dump_after);
    return wanted && HN_OPT(&d->options, dump) && strcmp(wanted, stage) == 0;
}

static void dump(hn_driver *d, hn_strbuf *text) {
    if (text->ptr) HN_OPT(&d->options, dump)(HN_OPT(&d->options, dump_context), text->ptr);
    hn_strbuf_deinit(text);
}

void hn_driver_dump_text(hn_driver *d, const char *stage, hn_strbuf *text) {
    if (wants(d, stage)) dump(d, text);
}

void hn_driver_dump_graph(hn_driver *d, const char *stage) {
    if (!wants(d, stage)) return;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_graph_print(d->graph, &text);
    dump(d, &text);
}

void hn_driver_dump_program(hn_driver *d, const char *stage) {
    if (!wants(d, stage)) return;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_program_print(d->program, &text);
    dump(d, &text);
}

/* Runs a pass and checks what it left. */
static hn_status run_checked(const pass_row *row, hn_graph *graph, hn_pass_context context) {
    int64_t begin = hn_now_ns();
    hn_status status = row->run(graph, &context);
    if (!status) status = hn_graph_status(graph);
    if (!status) status = hn_sym_status(graph->sym);
    if (!status && !context.is_unchanged) status = hn_graph_verify(graph, row->legal_after);
    hn_arena_reset(context.scratch);
    int64_t end = hn_now_ns();
    hn_trace_span("pass", row->name, begin, end);
    hn_log("pass", HN_LOG_INFO, "%s: %lld us, %u nodes", row->name, (long long)(end - begin) / 1000,
           graph->nodes.count - 1);
    return status;
}

const char *hn_driver_pass_name(uint32_t k) {
    return k < HN_COUNT_OF(passes) ? passes[k].name : NULL;
}

uint32_t hn_driver_pass_number(const char *name) {
    uint32_t k = 0;
    while (k < HN_COUNT_OF(passes) && strcmp(passes[k].name, name) != 0) k++;
    return k;
}

uint32_t hn_driver_last_pass(void) { return HN_COUNT_OF(passes) - 1; }

static hn_status no_pass(const char *name) {
    char near[HN_NEAREST_TEXT_BYTES];
    hn_nearest nearest;
    hn_strbuf list;
    hn_strbuf_init(&list);
    hn_nearest_begin(&nearest, hn_str_of(name));
    for (size_t k = 0; k < HN_COUNT_OF(passes); k++) {
        hn_nearest_offer(&nearest, hn_str_of(passes[k].name));
        hn_strbuf_printf(&list, "%s%s", k ? ", " : "", passes[k].name);
    }
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "there is no pass '%s'%s; there are: %s", name,
                                hn_nearest_text(&nearest, near), hn_strbuf_str(&list).ptr);
    hn_strbuf_deinit(&list);
    return status;
}

hn_status hn_driver_pass_run(hn_graph *graph, const char *name, hn_arena *scratch) {
    for (size_t k = 0; k < HN_COUNT_OF(passes); k++)
        if (strcmp(passes[k].name, name) == 0)
            return run_checked(&passes[k], graph, (hn_pass_context){.scratch = scratch});
    return no_pass(name);
}

/* As the options say; NULL: as the pass thinks. */
static const hn_weights_limits *weights_limits(const hn_driver *d, hn_weights_limits *out) {
    const int64_t bytes = HN_OPT(&d->options, computed_weights_bytes);
    *out = (hn_weights_limits){bytes > 0 ? (uint64_t)bytes : 0, HN_WEIGHTS_LEAST_GAIN};
    return bytes ? out : NULL;
}

static hn_status run_pass(hn_driver *d, const pass_row *row, hn_limit *limit) {
    const hn_operations *operations =
        d->level_count ? d->levels[0].target.kind->limits->operations : NULL;
    const uint32_t nodes = d->graph->nodes.count - 1;
    const int64_t begin = hn_now_ns();
    hn_weights_limits weights;
    const hn_pass_context context = {.scratch = &d->scratch,
                                     .operations = operations,
                                     .limit = limit,
                                     .weights = weights_limits(d, &weights)};
    hn_status status = run_checked(row, d->graph, context);
    const int64_t ns = hn_now_ns() - begin;
    hn_driver_dump_graph(d, row->name);
    if (status) return hn_status_annotate(status, "pass '%s'", row->name);
    d->passes[row - passes] = (hn_pass_stats){row->name, ns, nodes, d->graph->nodes.count - 1};
    return hn_driver_tables_pass(d, row->name, (uint32_t)(row - passes), ns, nodes);
}

hn_status hn_driver_passes(hn_driver *d) {
    hn_driver_dump_graph(d, "import");
    hn_driver_tables_begin(d);
    HN_TRY(hn_graph_note_weights(d->graph));
    const uint32_t last = d->limits ? d->limits->pass : hn_driver_last_pass();
    for (uint32_t k = 0; k <= last; k++)
        HN_TRY(run_pass(d, &passes[k], d->limits && k == last ? d->limits->last : NULL));
    return NULL;
}
