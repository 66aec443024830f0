/* run_graphs.c: random graphs of primitives, compiled and run, against the reference interpreter.
 *
 *     run_graphs FROM COUNT [--contractions | --loops | --shared | --pieces | --rare | --weights]
 *                [--no-fusion | --dump] [--target TARGET] [--kernels]
 *                [--pool MODE] [--donate] [--batch N] [--watch SECONDS] [--meets COUNTER]...
 *
 * --contractions: graphs of the kind with matrix products, convolutions and attention; --loops: of
 * that with loops and conditionals; --shared: of that with much to fuse; --pieces: of that with
 * concatenations; --rare: of that with losses and scans; --weights: of that with weights that are
 * computed from weights. --meets: fails when a counter (src/metrics/metrics.def) is still 0 after
 * all graphs. --target compiles for another level than this machine's, or for another device, which
 * then runs the graphs. --pool: what shares memory in the program; --donate: runs give up the
 * memory of the inputs that the graph does not change, on the CPU. --watch: in a process that is
 * watched (support/watch.h), a batch takes no longer than SECONDS. --kernels runs kernels alone, on
 * an OpenCL device, or in cuda_run_graphs as CUDA C++ on the CPU: of the plans for a kernel one is
 * taken by the seed, and every other time schedules are those of a processor with small limits.
 * --batch compiles N graphs (at most 16) as one program, which shares the fixed cost of a compiler
 * run among them; when one differs all of them are run again alone. For long runs: a process a CPU,
 * OMP_NUM_THREADS=1 and --batch 16; HENRY_CC may name a script that calls the compiler with a lower
 * -O behind its arguments.
 *
 * Prints how to run a failing seed again; --dump prints graph and kernels instead of running. Exit
 * 0 when all agree. */
#include "tests/support/random_graph.h"

#include "driver/driver.h"
#include "henry/metrics.h"
#include "opencl/graph_run.h"
#include "support/imaginary_gpu.h"
#include "support/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEETS_MAX = 8 };

typedef struct command {
    uint64_t from, count, batch;
    bool dumps;
    hn_compile_options how;
    bool as_kernels, donates;
    hn_random_family family;
    opencl_host *host;
    uint64_t watch_seconds; /* 0: nothing is watched */
    watch_board *board;
    const char *meets[MEETS_MAX]; /* counters */
    uint32_t meets_count;
    char again[112]; /* the options of `how`, as they are given */
    const char *program;
} command;

static void print_text(void *context, const char *text) {
    (void)context;
    puts(text);
}

static hn_status dump(hn_graph *graph, hn_service *service, const hn_compile_options *how) {
    hn_strbuf text;
    hn_compiled *compiled = NULL;
    hn_strbuf_init(&text);
    hn_graph_print(graph, &text);
    puts(text.ptr ? text.ptr : "");
    hn_strbuf_deinit(&text);
    hn_status status = hn_compile_graph(graph, service,
                                        &(hn_compile_options){.target = how->target,
                                                              .deterministic = how->deterministic,
                                                              .dump_after = "codegen",
                                                              .dump = print_text},
                                        &compiled);
    hn_compiled_release(compiled);
    return status;
}

static hn_status check_opencl(const command *c, uint64_t seed, hn_arena *arena, hn_graph *graph,
                              const hn_ref_tensor *inputs, const double *tolerance) {
    const graph_how how = {.any_plan = true,
                           .choice = seed,
                           .facts = seed % 2 ? &hn_test_gpu : NULL,
                           .no_fusion = c->how.no_fusion,
                           .deterministic = c->how.deterministic};
    hn_ref_tensor expected[HN_RANDOM_MAX_TENSORS], actual[HN_RANDOM_MAX_TENSORS];
    uint32_t input_count = graph->inputs.count; /* folding adds constants to them */
    hn_status status = hn_interpret(arena, graph, inputs, input_count, expected);
    if (status) return hn_status_annotate(status, "interpreter");
    HN_TRY(graph_run(c->host, arena, graph, &how, inputs, input_count, actual, NULL));
    return hn_outputs_compare(actual, expected, tolerance, graph->outputs.count);
}

static bool is_for_gpu(const command *c) {
    hn_target target;
    if (c->as_kernels || !c->how.target) return c->as_kernels;
    hn_status status = hn_target_named(hn_str_of(c->how.target), &target);
    const bool is_gpu = !status && target.kind->device != HN_DEVICE_CPU;
    hn_status_free(status);
    return is_gpu;
}

/* On a GPU every other batch of seeds scatters as it comes. */
static command on_this(const command *c, uint64_t seed) {
    command own = *c;
    own.how.deterministic = is_for_gpu(c) && seed / HN_RANDOM_MAX_BATCH % 2;
    return own;
}

/* The first graph of every fourth program is there twice: its kernels become segments. */
static bool is_again(uint64_t from, uint64_t count, uint64_t k) {
    return k == count && from / count % 4 == 1;
}

/* The graphs of `count` seeds as one. */
static hn_status check_seeds(const command *given, uint64_t from, uint64_t count,
                             hn_service *service) {
    const command own = on_this(given, from), *c = &own;
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    double tolerance[HN_RANDOM_MAX_TENSORS] = {0};
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_create(&arena, sym, &graph);
    for (uint64_t k = 0; (k < count || is_again(from, count, k)) && !status; k++) {
        const uint64_t seed = from + k % count;
        uint32_t first = graph->inputs.count;
        status = hn_random_family_add(c->family, seed, graph, tolerance);
        if (!status) status = hn_random_inputs(seed, &arena, graph, first, inputs);
    }
    if (!status && is_for_gpu(c) && !c->how.deterministic) hn_random_graph_any_order(graph);
    if (!status && c->dumps) status = dump(graph, service, &c->how);
    else if (!status && c->as_kernels)
        status = check_opencl(c, from, &arena, graph, inputs, tolerance);
    else if (!status)
        status =
            hn_check_against_interpreter(graph, service, inputs, tolerance, &c->how, c->donates);
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
    *out = (command){.batch = 1, .program = argv[0]};
    if (argc < 3 || !parse(argv[1], &out->from) || !parse(argv[2], &out->count)) return false;
    for (int k = 3; k < argc; k++) {
        if (hn_random_family_named(argv[k], &out->family)) continue;
        if (strcmp(argv[k], "--no-fusion") == 0) out->how.no_fusion = true;
        else if (strcmp(argv[k], "--dump") == 0) out->dumps = true;
        else if (strcmp(argv[k], "--kernels") == 0) out->as_kernels = true;
        else if (strcmp(argv[k], "--target") == 0 && k + 1 < argc) out->how.target = argv[++k];
        else if (strcmp(argv[k], "--donate") == 0) out->donates = true;
        else if (strcmp(argv[k], "--pool") == 0 && k + 1 < argc) {
            if (!hn_random_pool_named(argv[++k], &out->how.memory_pool)) return false;
        } else if (strcmp(argv[k], "--watch") == 0 && k + 1 < argc) {
            if (!parse(argv[++k], &out->watch_seconds)) return false;
        } else if (strcmp(argv[k], "--meets") == 0 && k + 1 < argc) {
            if (out->meets_count == MEETS_MAX) return false;
            out->meets[out->meets_count++] = argv[++k];
        } else if (strcmp(argv[k], "--batch") != 0 || ++k == argc || !parse(argv[k], &out->batch))
            return false;
    }
    const char *target = out->how.target;
    const hn_memory_pool pool = out->how.memory_pool;
    snprintf(out->again, sizeof out->again, "%s%s%s%s%.20s%s%s%s",
             hn_random_family_option(out->family), out->how.no_fusion ? " --no-fusion" : "",
             out->as_kernels ? " --kernels" : "", target ? " --target " : "", target ? target : "",
             pool ? " --pool " : "", pool ? hn_random_pool_name(pool) : "",
             out->donates ? " --donate" : "");
    if (out->donates && is_for_gpu(out))
        return false; /* an input that two devices read cannot be */
    if (out->family == HN_FAMILY_WEIGHTS && (out->donates || out->as_kernels)) return false;
    if (out->meets_count && out->watch_seconds) return false; /* what is counted, is so elsewhere */
    return out->batch > 0 && out->batch <= HN_RANDOM_MAX_BATCH;
}

/* Of one seed. */
static void run_alone(const command *c, uint64_t seed, hn_service *service) {
    watch_begin(c->board, 1, "seed %llu", (unsigned long long)seed);
    hn_status outcome = check_seeds(c, seed, 1, service);
    if (outcome)
        fprintf(stderr, "seed %llu: %s\n  again: %s %llu 1%s\n", (unsigned long long)seed,
                hn_status_message(outcome), c->program, (unsigned long long)seed, c->again);
    watch_end(c->board, !outcome, outcome != NULL, 0);
    watch_device(c->board, outcome);
    hn_status_free(outcome);
}

static void print_together(const command *c, uint64_t from, uint32_t count, hn_status outcome) {
    fprintf(stderr, "seeds %llu to %llu together: %s\n  again: %s %llu %u --batch %u%s\n",
            (unsigned long long)from, (unsigned long long)(from + count - 1),
            hn_status_message(outcome), c->program, (unsigned long long)from, count, count,
            c->again);
}

/* Seeds that fail together are run again, one by one. */
static void run_batch(const command *c, uint64_t from, uint32_t count, hn_service *service) {
    watch_begin(c->board, count, "seeds %llu to %llu", (unsigned long long)from,
                (unsigned long long)(from + count - 1));
    hn_status outcome = check_seeds(c, from, count, service);
    if (!outcome) return watch_end(c->board, count, 0, 0);
    if (hn_status_code(outcome) == HN_DEVICE) print_together(c, from, count, outcome);
    watch_device(c->board, outcome);
    const uint32_t before = c->board->failed;
    for (uint32_t k = 0; k < count; k++) run_alone(c, from + k, service);
    if (c->board->failed == before) { /* it is the company that makes them fail */
        c->board->failed += count;
        c->board->passed -= count;
        print_together(c, from, count, outcome);
    }
    hn_status_free(outcome);
}

/* The seeds that no process before this one has done. */
static void run_graphs(void *user) {
    const command *c = user;
    watch_board *board = c->board;
    hn_service *service = NULL;
    /* Inline: the caller runs several of these at once, one a CPU. */
    hn_status status =
        hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &service);
    if (status) {
        fprintf(stderr, "run_graphs: %s\n", hn_status_message(status));
        board->failed++;
        hn_status_free(status);
        return;
    }
    while (board->done < c->count) {
        const uint64_t left = c->count - board->done, seed = c->from + board->done;
        const uint32_t batch = (uint32_t)(left < c->batch ? left : c->batch);
        if (batch == 1 || board->done < board->alone_until) run_alone(c, seed, service);
        else run_batch(c, seed, batch, service);
    }
    hn_service_destroy(service);
}

/* Prints the counters that are asked for. How many are 0. */
static uint32_t print_met(const command *c) {
    hn_metrics sums;
    uint32_t missing = 0;
    hn_metrics_snapshot(&sums);
    for (uint32_t k = 0; k < c->meets_count; k++) {
        const int64_t value = hn_metrics_value(&sums, c->meets[k]);
        fprintf(stderr, "%8lld  %s\n", (long long)value, c->meets[k]);
        missing += value == 0;
    }
    if (missing) fprintf(stderr, "no graph has met the rewrites whose counters are 0\n");
    return missing;
}

int main(int argc, char **argv) {
    command c;
    if (!parse_command(argc, argv, &c) || !(c.board = watch_board_create())) {
        fprintf(
            stderr,
            "usage: %s FROM COUNT [--contractions | --loops | --shared | --pieces | --rare | --weights] "
            "[--no-fusion | --dump] [--target TARGET] "
            "[--kernels] [--pool MODE] [--donate] [--batch N] [--watch SECONDS] [--meets COUNTER]...\n",
            argv[0]);
        return 2;
    }
    int code = c.as_kernels ? opencl_host_open_or_skip(&c.host) : -1;
    if (code >= 0) return code;
    const bool is_whole = watch_run(c.board, (uint32_t)c.watch_seconds, run_graphs, &c);
    opencl_host_close(c.host);
    const uint32_t failed = c.board->failed + !is_whole + print_met(&c);
    printf("%u passed, %u failed\n", c.board->passed, failed);
    return failed != 0;
}
