/* fuzz_hnir.c: graphs as text as models. Any bytes give a graph that verifies, and whose passes give
 * a graph or an error; or an error. The grammar alone is the matter of fuzz_ir_text. */
#include "base/log.h"
#include "front/importer.h"
#include "opt/pass.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hn_status run_passes(hn_graph *graph) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    hn_pass_context context = {.scratch = &scratch};
    hn_status status = hn_pass_functionalize(graph, &context);
    if (!status) status = hn_graph_verify(graph, HN_LEGAL_ANY);
    if (!status) status = hn_pass_decompose(graph, &context);
    hn_arena_deinit(&scratch);
    return status;
}

static hn_status import_all(hn_model_file *file) {
    hn_arena arena;
    hn_sym *sym = NULL;
    hn_graph *graph = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = file->importer->import(file, NULL, &arena, sym, &graph);
    if (!status) {
        hn_status verified = hn_graph_verify(graph, HN_LEGAL_ANY);
        if (verified) {
            fprintf(stderr, "imported, and does not verify: %s\n", hn_status_message(verified));
            abort();
        }
        status = run_passes(graph);
    }
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

/* Once: a setting stays allocated. Ignored guards are no news here. */
static void be_quiet(void) {
    static bool is_quiet;
    if (!is_quiet) hn_log_configure("error");
    is_quiet = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_model_file *file = NULL;
    be_quiet();
    hn_status status = hn_model_open_memory(data, size, &file);
    if (!status) status = import_all(file);
    hn_status_free(status);
    hn_model_close(file);
    return 0;
}
