/* run_graphs.c: random graphs of primitives, compiled and run, against the reference interpreter.
 *
 *     run_graphs FROM COUNT [--no-fusion | --dump]
 *
 * Prints how to run a failing seed again; --dump prints graph and kernels instead of running. Exit 0 when all agree. */
#include "tests/support/random_graph.h"

#include "driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUTPUTS = 16, MAX_INPUTS = 16 };

typedef enum mode { MODE_FUSED, MODE_NO_FUSION, MODE_DUMP } mode;

static void print_text(void *context, const char *text) {
    (void)context;
    puts(text);
}

static hn_status dump(hn_graph *graph, hn_service *service) {
    hn_strbuf text;
    hn_compiled *compiled = NULL;
    hn_strbuf_init(&text);
    hn_graph_print(graph, &text);
    puts(text.ptr ? text.ptr : "");
    hn_strbuf_deinit(&text);
    hn_status status = hn_compile_graph(graph, service, &(hn_compile_options){.dump_after = "codegen", .dump = print_text}, &compiled);
    hn_compiled_release(compiled);
    return status;
}

static hn_status check_seed(uint64_t seed, hn_service *service, mode how) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    double tolerance[MAX_OUTPUTS] = {0};
    hn_ref_tensor inputs[MAX_INPUTS];
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_random_graph(seed, &arena, sym, &graph, tolerance);
    if (!status) status = hn_random_inputs(seed, &arena, graph, inputs);
    if (!status && how == MODE_DUMP) status = dump(graph, service);
    else if (!status) status = hn_check_against_interpreter(graph, service, inputs, graph->inputs.count, tolerance, how == MODE_NO_FUSION);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

static bool parse(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return *text && !*end;
}

/* Of the last word; false for an unknown one. */
static bool parse_mode(int argc, char **argv, mode *out) {
    *out = MODE_FUSED;
    if (argc == 3) return true;
    if (strcmp(argv[3], "--no-fusion") == 0) *out = MODE_NO_FUSION;
    else if (strcmp(argv[3], "--dump") == 0) *out = MODE_DUMP;
    else return false;
    return argc == 4;
}

static uint64_t run(uint64_t from, uint64_t count, hn_service *service, mode how, const char *program) {
    uint64_t failed = 0;
    for (uint64_t seed = from; seed < from + count; seed++) {
        hn_status outcome = check_seed(seed, service, how);
        if (!outcome) continue;
        failed++;
        fprintf(stderr, "seed %llu: %s\n  again: %s %llu 1%s\n", (unsigned long long)seed, hn_status_message(outcome), program,
                (unsigned long long)seed, how == MODE_NO_FUSION ? " --no-fusion" : "");
        hn_status_free(outcome);
    }
    return failed;
}

int main(int argc, char **argv) {
    uint64_t from, count;
    mode how;
    if (argc < 3 || !parse_mode(argc, argv, &how) || !parse(argv[1], &from) || !parse(argv[2], &count)) {
        fprintf(stderr, "usage: %s FROM COUNT [--no-fusion | --dump]\n", argv[0]);
        return 2;
    }
    hn_service *service = NULL;
    /* Inline: the caller runs several of these at once, one a CPU. */
    hn_status status = hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &service);
    if (status) {
        fprintf(stderr, "run_graphs: %s\n", hn_status_message(status));
        hn_status_free(status);
        return 1;
    }
    uint64_t failed = run(from, count, service, how, argv[0]);
    hn_service_destroy(service);
    printf("%llu passed, %llu failed\n", (unsigned long long)(count - failed), (unsigned long long)failed);
    return failed != 0;
}
