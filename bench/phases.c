/* phases.c: what each phase of a compilation takes in a fresh process. Prints one JSON object.
 *
 *     phases MODEL.pt2
 *
 * The cache of graphs is not asked; kernels come from the cache of kernels when a run before has
 * filled it, so that no compiler disturbs the clock. */
#include "henry/program.h"

#include <stdio.h>

static void print_phases(const hn_compile_stats *s) {
    const int64_t source = s->import_ns + s->opt_ns + s->lower_ns + s->sched_ns + s->codegen_ns;
    printf(
        "{\"nodes_imported\": %u, \"nodes\": %u, \"loops\": %u, \"kernels\": %u, \"unique\": %u, \"compiled\": %u, \"extern\": %u",
        s->nodes_imported, s->nodes, s->loops, s->kernels_generated, s->kernels_unique,
        s->kernels_compiled, s->kernels_extern);
    printf(", \"import_ms\": %.3f, \"opt_ms\": %.3f, \"lower_ms\": %.3f",
           (double)s->import_ns / 1e6, (double)s->opt_ns / 1e6, (double)s->lower_ns / 1e6);
    printf(", \"sched_ms\": %.3f, \"codegen_ms\": %.3f, \"to_source_ms\": %.3f",
           (double)s->sched_ns / 1e6, (double)s->codegen_ns / 1e6, (double)source / 1e6);
    printf(", \"count_ms\": %.4f, \"bundle_ms\": %.3f, \"total_ms\": %.3f",
           (double)s->count_ns / 1e6, (double)s->bundle_ns / 1e6, (double)s->total_ns / 1e6);
    printf(", \"count_percent\": %.2f}\n", 100.0 * (double)s->count_ns / (double)s->total_ns);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: phases MODEL.pt2\n");
        return 2;
    }
    hn_compiled *compiled = NULL;
    hn_compile_stats stats;
    /* Asking for a dump keeps the compilation from ending in the cache of graphs; nobody receives
     * the dump. */
    hn_status status =
        hn_compile_file(argv[1], &(hn_compile_options){.dump_after = "import"}, &compiled);
    if (status) {
        fprintf(stderr, "phases: %s\n", hn_status_message(status));
        hn_status_free(status);
        return 1;
    }
    hn_compiled_stats_get(compiled, &stats);
    print_phases(&stats);
    hn_compiled_release(compiled);
    return 0;
}
