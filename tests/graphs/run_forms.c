/* run_forms.c: random graphs of primitives, scheduled and planned for an imaginary processor; the
 * forms are run by their interpreter, the loops before the schedule by theirs, and the outputs
 * compared.
 *
 *     run_forms FROM COUNT [--contractions | --shared | --pieces] [--cpu] [--best] [--dump]
 *
 * --contractions, --shared, --pieces: other kinds of random graphs (support/random_graph.h). The
 * processor is a GPU, or with --cpu one with vectors: how long they are, and whether it has caches
 * that the small tensors of tests fill, goes by the seed. Every fourth graph is there twice, so that
 * its kernels become segments. Of the plans that the planner offers for a kernel one is taken by the
 * seed; --best takes the first. Schedules differ by the seed as well. Prints how to run a failing
 * seed again. --dump prints graph and forms. Exit 0 when all agree. */
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
    bool cpu, best, dumps;
} command;

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
        if (hn_random_family_named(argv[k], &out->family) && out->family != HN_FAMILY_LOOPS)
            continue;
        if (strcmp(argv[k], "--cpu") == 0) out->cpu = true;
        else if (strcmp(argv[k], "--best") == 0) out->best = true;
        else if (strcmp(argv[k], "--dump") == 0) out->dumps = true;
        else return false;
    }
    return true;
}

int main(int argc, char **argv) {
    command c;
    uint64_t failed = 0, kernels = 0, bounds = 0, reordered = 0, merged = 0;
    if (!parse_command(argc, argv, &c)) {
        fprintf(
            stderr,
            "usage: %s FROM COUNT [--contractions | --shared | --pieces] [--cpu] [--best] [--dump]\n",
            argv[0]);
        return 2;
    }
    for (uint64_t seed = c.from; seed < c.from + c.count; seed++) {
        hn_forms_count of_seed = {0};
        hn_status outcome = check_seed(&c, seed, &of_seed);
        kernels += of_seed.kernels, bounds += of_seed.bounds, reordered += of_seed.reordered;
        merged += of_seed.merged;
        if (!outcome) continue;
        failed++;
        fprintf(stderr, "seed %llu: %s\n  again: %s %llu 1%s%s%s\n", (unsigned long long)seed,
                hn_status_message(outcome), argv[0], (unsigned long long)seed,
                hn_random_family_option(c.family), c.cpu ? " --cpu" : "", c.best ? " --best" : "");
        hn_status_free(outcome);
    }
    fprintf(
        stderr,
        "%llu kernels, the traffic of %llu is a bound; %llu loops reordered, %llu kernels merged\n",
        (unsigned long long)kernels, (unsigned long long)bounds, (unsigned long long)reordered,
        (unsigned long long)merged);
    printf("%llu passed, %llu failed\n", (unsigned long long)(c.count - failed),
           (unsigned long long)failed);
    return failed != 0;
}
