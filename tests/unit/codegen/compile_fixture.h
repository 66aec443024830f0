/* compile_fixture.h: a graph's text becomes a module, with nothing kept. */
#ifndef HN_TEST_COMPILE_FIXTURE_H
#define HN_TEST_COMPILE_FIXTURE_H

#include "driver/driver.h"
#include "henry/module.h"

/* cpu: a level's name, or NULL for this machine's. Owns: the caller releases *out. */
static inline hn_status compile_text_with(hn_str text, const char *cpu,
                                          const hn_module_options *load, hn_module **out) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_service *service = NULL;
    hn_compiled *compiled = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_service_create(&(hn_service_options){.cache_dir = ""}, &service);
    if (!status) status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, text, &graph);
    if (!status)
        status = hn_compile_graph(graph, service,
                                  &(hn_compile_options){.threads = load->threads, .target = cpu},
                                  &compiled);
    if (!status) status = hn_compiled_load(compiled, load, out);
    hn_compiled_release(compiled);
    if (graph) hn_graph_deinit(graph);
    hn_service_destroy(service);
    hn_arena_deinit(&arena);
    return status;
}

static inline hn_status compile_text(hn_str text, const char *cpu, int threads, hn_module **out) {
    return compile_text_with(text, cpu, &(hn_module_options){.threads = threads}, out);
}

#endif
