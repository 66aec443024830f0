/* run_forms.c: random graphs of primitives, scheduled and planned for an imaginary processor; the
 * forms are run by their interpreter, the loops before the schedule by theirs, and the outputs
 * compared.
 *
 *     run_forms FROM COUNT [--contractions | --shared | --pieces | --rare] [--cpu] [--best] [--dump]
 *     run_forms FROM COUNT --rewrites
 *
 * --contractions, --shared, --pieces, --rare: other kinds of random graphs
 * (support/random_graph.h). The processor is a GPU, or with --cpu one with vectors: how long they
 * are, and whether it has caches that the small tensors of tests fill, goes by the seed. Every
 * fourth graph is there twice, so that its kernels become segments. Of the plans that the planner
 * offers for a kernel one is taken by the seed; --best takes the first. Schedules differ by the
 * seed as well. Prints how to run a failing seed again. --dump prints graph and forms. Exit 0 when
 * all agree.
 *
 * --rewrites: the seeds in each kind of graphs, for both processors. Prints how many graphs met
 * each rewrite of the scheduler (sched/rewrites.def), and fails when none met one of them. */
#include "kernel/plan_cpu.h"
#include "kernel/plan_gpu.h"
#include "tests/support/form_run.h"
#include "tests/support/imaginary_cpu.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct command {
    uint64_t from, count;
    hn_random_family family;
    bool cpu, best, dumps, rewrites;
} command;

/* Of several graphs: how many kernels there were, and how many graphs met a rewrite. */
typedef struct totals {
    uint64_t passed, failed, kernels, bounds;
    uint64_t rewrites[HN_SCHED_REWRITE_COUNT], of_phases, with_locals, scatters_selected, cats_cut;
} totals;

/* The kernels of one seed. */
typedef struct chooser {
    const command *c;
    uint64_t seed, choice;
} chooser;

static void print_graph(hn_graph *graph) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_graph_print(graph, &text);
    puts(hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text);
}

static void print_form(const hn_form *f) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_form_print(f, &text);
    puts(hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text);
}

/* Enough for either processor. */
enum { PLANS_MAX = HN_GPU_PLANS_MAX + HN_CPU_PLANS_MAX };

static hn_status list_plans(const chooser *by, const hn_program *p, const hn_kernel *kernel,
                            hn_arena *arena, hn_arena *scratch, hn_form **out, uint32_t *count) {
    uint32_t most = by->c->best ? 1 : PLANS_MAX;
    if (!by->c->cpu)
        return hn_form_plans_gpu(p, kernel, &hn_test_gpu, most, arena, scratch, out, count);
    const hn_cpu_facts facts = hn_test_cpu(by->seed % 2);
    uint32_t vector_bytes = 16u << by->seed % 3;
    return hn_form_plans_cpu(p, kernel, vector_bytes, &facts, most, arena, scratch, out, count);
}

static hn_status choose(void *context, const hn_program *p, const hn_kernel *kernel,
                        hn_arena *arena, hn_arena *scratch, hn_form **out) {
    chooser *by = context;
    hn_form *plans[PLANS_MAX];
    uint32_t count = 0;
    HN_TRY(list_plans(by, p, kernel, arena, scratch, plans, &count));
    if (!count) return HN_ERROR(HN_INTERNAL, "the planner offers nothing");
    *out = plans[by->choice++ % count];
    if (by->c->dumps) print_form(*out);
    return NULL;
}

static hn_status check_graph(const command *c, uint64_t seed, hn_arena *arena, hn_graph *graph,
                             const double *tolerance, hn_forms_count *out) {
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    chooser by = {c, seed, seed};
    hn_forms_check how = {
        .plan = choose,
        .context = &by,
        .facts = c->cpu ? NULL : &hn_test_gpu,
        .schedule = {.threads = c->cpu ? 2 : hn_test_gpu.multiprocessors,
                     .limits = seed % 2 ? &hn_test_gpu.limits : &hn_cpu_facts_common.limits,
                     .no_fusion = seed % 8 == 7,
                     .deterministic = seed / 2 % 2}};
    HN_TRY(hn_random_inputs(seed, arena, graph, 0, inputs));
    if (c->dumps) print_graph(graph);
    return hn_check_forms(graph, inputs, tolerance, &how, out);
}

static hn_status check_seed(const command *c, uint64_t seed, hn_forms_count *out) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    double tolerance[HN_RANDOM_MAX_TENSORS];
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_create(&arena, sym, &graph);
    for (int copies = seed % 4 == 1 ? 2 : 1; copies && !status; copies--)
        status = hn_random_family_add(c->family, seed, graph, tolerance);
    if (!status) status = check_graph(c, seed, &arena, graph, tolerance, out);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

static bool parse(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return *text && !*end;
}

static bool parse_command(int argc, char **argv, command *out) {
    *out = (command){0};
    if (argc < 3 || !parse(argv[1], &out->from) || !parse(argv[2], &out->count)) return false;
    for (int k = 3; k < argc; k++) {
        if (hn_random_family_named(argv[k], &out->family) && out->family != HN_FAMILY_LOOPS &&
            out->family != HN_FAMILY_WEIGHTS)
            continue;
        if (strcmp(argv[k], "--cpu") == 0) out->cpu = true;
        else if (strcmp(argv[k], "--best") == 0) out->best = true;
        else if (strcmp(argv[k], "--dump") == 0) out->dumps = true;
        else if (strcmp(argv[k], "--rewrites") == 0) out->rewrites = true;
        else return false;
    }
    return !out->rewrites || (!out->family && !out->cpu);
}

static void add_to(totals *t, const hn_forms_count *of_seed) {
    t->kernels += of_seed->kernels, t->bounds += of_seed->bounds;
    for (uint32_t k = 0; k < HN_SCHED_REWRITE_COUNT; k++)
        t->rewrites[k] += of_seed->rewrites[k] > 0;
    t->of_phases += of_seed->of_phases > 0, t->with_locals += of_seed->with_locals > 0;
    t->scatters_selected += of_seed->scatters_selected > 0;
    t->cats_cut += of_seed->cats_cut > 0;
}

static void run_seeds(const command *c, const char *program, totals *out) {
    for (uint64_t seed = c->from; seed < c->from + c->count; seed++) {
        hn_forms_count of_seed = {0};
        hn_status outcome = check_seed(c, seed, &of_seed);
        add_to(out, &of_seed);
        *(outcome ? &out->failed : &out->passed) += 1;
        if (!outcome) continue;
        fprintf(stderr, "seed %llu: %s\n  again: %s %llu 1%s%s%s\n", (unsigned long long)seed,
                hn_status_message(outcome), program, (unsigned long long)seed,
                hn_random_family_option(c->family), c->cpu ? " --cpu" : "",
                c->best ? " --best" : "");
        hn_status_free(outcome);
    }
}

/* ---- what the graphs have met ---- */

static void run_families(const command *c, const char *program, totals *out) {
    static const hn_random_family families[] = {HN_FAMILY_ANY, HN_FAMILY_CONTRACTIONS,
                                                HN_FAMILY_SHARED, HN_FAMILY_PIECES, HN_FAMILY_RARE};
    for (size_t k = 0; k < sizeof families / sizeof *families; k++)
        for (int cpu = 0; cpu < 2; cpu++) {
            command own = *c;
            own.family = families[k];
            own.cpu = cpu;
            run_seeds(&own, program, out);
        }
}

/* A row of the table. A rewrite that no graph has met is not tested: that is a failure. */
static void print_met(totals *t, const char *what, uint64_t graphs) {
    fprintf(stderr, "%8llu  %s\n", (unsigned long long)graphs, what);
    if (graphs) return;
    fprintf(stderr, "no graph has met this rewrite\n");
    t->failed++;
}

static void print_rewrites(totals *t) {
    fprintf(stderr, "  graphs  have met\n");
    for (uint32_t k = 0; k < HN_SCHED_REWRITE_COUNT; k++)
        print_met(t, hn_sched_rewrite_kind_of((hn_sched_rewrite)k)->sentence, t->rewrites[k]);
    print_met(t, "a kernel of several inner loops", t->of_phases);
    print_met(t, "a kernel with buffers of a row", t->with_locals);
    print_met(t, "a scatter into a constant is a select", t->scatters_selected);
    print_met(t, "a concatenation is no memory", t->cats_cut);
}

int main(int argc, char **argv) {
    command c;
    totals t = {0};
    if (!parse_command(argc, argv, &c)) {
        fprintf(
            stderr,
            "usage: %s FROM COUNT [--contractions | --shared | --pieces | --rare] [--cpu] [--best] [--dump]\n"
            "       %s FROM COUNT --rewrites\n",
            argv[0], argv[0]);
        return 2;
    }
    if (c.rewrites) {
        run_families(&c, argv[0], &t);
        print_rewrites(&t);
    } else {
        run_seeds(&c, argv[0], &t);
    }
    fprintf(stderr, "%llu kernels, the traffic of %llu is a bound\n", (unsigned long long)t.kernels,
            (unsigned long long)t.bounds);
    printf("%llu passed, %llu failed\n", (unsigned long long)t.passed,
           (unsigned long long)t.failed);
    return t.failed != 0;
}
