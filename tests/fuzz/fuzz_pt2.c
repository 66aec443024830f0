/* fuzz_pt2.c: the whole importer, and what follows it at once. An input that begins with '{' is the
 * JSON of a program, with the table of its weights behind a line "---": it is wrapped into an
 * archive with right checksums, so that the fuzzer need not find those. Other inputs are archives
 * as they are. */
#include "front/importer.h"
#include "base/log.h"
#include "opt/pass.h"
#include "unit/front/zip_writer.h"

#include <stdbool.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hn_status import_all(hn_model_file *file) {
    const hn_str *names = file->models;
    for (uint32_t k = 0; k < file->model_count && k < 4; k++) {
        hn_arena arena, scratch;
        hn_sym *sym = NULL;
        hn_graph *graph = NULL;
        char name[64] = {0};
        if (names[k].len < sizeof name) memcpy(name, names[k].ptr, names[k].len);
        hn_arena_init(&arena);
        hn_arena_init(&scratch);
        hn_pass_context context = {.scratch = &scratch};
        hn_status status = hn_sym_create(&arena, &sym);
        if (!status) status = file->importer->import(file, name, &arena, sym, &graph);
        if (!status) status = hn_graph_verify(graph, HN_LEGAL_ANY);
        if (!status) status = hn_pass_functionalize(graph, &context);
        hn_status_free(status);
        hn_graph_deinit(graph);
        hn_arena_deinit(&scratch);
        hn_arena_deinit(&arena);
    }
    return NULL;
}

static void wrap(zip_writer *w, const uint8_t *data, size_t size) {
    static const uint8_t weights[256] = {1, 2, 3};
    const uint8_t *line = memmem(data, size, "\n---\n", 5);
    size_t len = line ? (size_t)(line - data) : size;
    zip_writer_add(w, "m/models/model.json", data, len, false);
    zip_writer_add(w, "m/archive_format", "pt2", 3, false);
    zip_writer_add(w, "m/data/weights/weight_0", weights, sizeof weights, false);
    if (line)
        zip_writer_add(w, "m/data/weights/model_weights_config.json", line + 5, size - len - 5,
                       false);
    zip_writer_end(w);
}

/* Ignored guards are no news here. Once: a setting stays allocated, and libFuzzer looks for leaks,
 * for 40 ms, after each of the first thousand runs that allocate more than they free. */
static void be_quiet(void) {
    static bool is_quiet;
    if (!is_quiet) hn_log_configure("error");
    is_quiet = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    zip_writer w = {0};
    hn_model_file *file = NULL;
    be_quiet();
    if (size && data[0] == '{') {
        wrap(&w, data, size);
        data = w.bytes;
        size = w.len;
    }
    hn_status status = hn_model_open_memory(data, size, &file);
    if (!status) status = import_all(file);
    hn_status_free(status);
    hn_model_close(file);
    zip_writer_free(&w);
    return 0;
}
