/* run_models.c: whole models on OpenCL against the outputs that PyTorch stored beside them.
 *
 *     opencl_run_models FOLDER...        each with model.pt2, input_K.npy and output_K.npy
 *
 * A folder is one test. It also fails when kernels reduce and in none of them threads of a group
 * add up together, or when a step is left to the host. Tolerances are those of tests/models/run.sh:
 * whole models sum in other orders than PyTorch, so rtol 1e-4, atol 1e-5; models of one operator
 * each (NAME_backward) are held to what torch.testing.assert_close asks of float32. */
#include "opencl/graph_run.h"

#include "base/file.h"
#include "base/npy.h"
#include "front/importer.h"

#include <stdio.h>

enum { MAX_TENSORS = 64 };

static opencl_host *host;

static hn_dtype dtype_of(const hn_npy *npy) {
    for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++)
        if (strcmp(hn_dtype_facts((hn_dtype)d)->npy_descr, npy->descr) == 0) return (hn_dtype)d;
    return HN_DTYPE_NONE;
}

static hn_status parse_array(hn_arena *arena, hn_str bytes, hn_ref_tensor *out) {
    hn_npy npy;
    void *dense;
    HN_TRY(hn_npy_parse(bytes.ptr, bytes.len, &npy));
    HN_TRY(hn_arena_array(arena, npy.numel + 1, npy.elem_bytes, &dense));
    hn_npy_copy(&npy, dense);
    return hn_ref_tensor_load(arena, dtype_of(&npy), npy.rank, npy.sizes, NULL, dense, out);
}

/* FOLDER/KIND_K.npy for K from 0, until there is none. */
static hn_status read_arrays(hn_arena *arena, const char *folder, const char *kind,
                             hn_ref_tensor *out, uint32_t *out_count) {
    hn_status status = NULL;
    for (*out_count = 0; *out_count < MAX_TENSORS && !status; ++*out_count) {
        char path[512];
        hn_strbuf bytes;
        snprintf(path, sizeof path, "%s/%s_%u.npy", folder, kind, *out_count);
        if (!hn_file_exists(path)) break;
        hn_strbuf_init(&bytes);
        status = hn_file_read(path, &bytes);
        if (!status)
            status = hn_status_annotate(parse_array(arena, hn_strbuf_str(&bytes), &out[*out_count]),
                                        "'%s'", path);
        hn_strbuf_deinit(&bytes);
    }
    return status;
}

/* The outputs of the user's in order. */
static hn_status compare(const hn_graph *graph, const hn_ref_tensor *actual,
                         const hn_ref_tensor *expected, uint32_t count, const char *folder) {
    bool exact = strstr(folder, "_backward") != NULL;
    const hn_dtype_info *f32 = hn_dtype_facts(HN_DTYPE_F32);
    uint32_t at = 0;
    for (uint32_t k = 0; k < graph->outputs.count && at < count; k++) {
        hn_strbuf why;
        if (graph->outputs.items[k].kind == HN_OUTPUT_MUTATION) continue;
        hn_strbuf_init(&why);
        bool same = hn_ref_compare(&actual[k], &expected[at], exact ? f32->rtol : 1e-4,
                                   exact ? f32->atol : 1e-5, &why);
        hn_status status =
            same ? NULL : HN_ERROR(HN_INTERNAL, "output %u: %s", at, why.ptr ? why.ptr : "");
        hn_strbuf_deinit(&why);
        HN_TRY(status);
        at++;
    }
    return at == count ? NULL
                       : HN_ERROR(HN_INTERNAL, "the model has %u outputs, expected %u", at, count);
}

static hn_status run_file(hn_arena *arena, hn_model_file *file, const char *folder,
                          graph_counts *counts) {
    hn_ref_tensor *inputs, *expected, *actual;
    uint32_t input_count, expected_count;
    hn_sym *sym;
    hn_graph *graph;
    HN_NEW(arena, inputs, MAX_TENSORS);
    HN_NEW(arena, expected, MAX_TENSORS);
    HN_TRY(read_arrays(arena, folder, "input", inputs, &input_count));
    HN_TRY(read_arrays(arena, folder, "output", expected, &expected_count));
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(file->importer->import(file, NULL, arena, sym, &graph));
    hn_status status = hn_arena_array(arena, graph->outputs.count + 1, sizeof *actual, &actual);
    if (!status)
        status =
            graph_run(host, arena, graph, &(graph_how){0}, inputs, input_count, actual, counts);
    if (!status) status = compare(graph, actual, expected, expected_count, folder);
    if (!status && counts->reductions && !counts->together)
        status = HN_ERROR(HN_INTERNAL, "%u kernels reduce, and each row is added up by one thread",
                          counts->reductions);
    if (!status && counts->calls)
        status =
            HN_ERROR(HN_INTERNAL, "%u steps are calls of operations, on the host", counts->calls);
    hn_graph_deinit(graph);
    return status;
}

static hn_status run_folder(const char *folder, graph_counts *counts) {
    char path[512];
    hn_model_file *file;
    hn_arena arena;
    snprintf(path, sizeof path, "%s/model.pt2", folder);
    HN_TRY(hn_model_open(path, &file));
    hn_arena_init(&arena);
    hn_status status = run_file(&arena, file, folder, counts);
    hn_arena_deinit(&arena);
    hn_model_close(file);
    return status;
}

int main(int argc, char **argv) {
    int failed = 0, code = opencl_host_open_or_skip(&host);
    if (code >= 0) return code;
    for (int k = 1; k < argc; k++) {
        graph_counts counts = {0};
        hn_status status = run_folder(argv[k], &counts);
        if (status) printf("FAILED %s: %s\n", argv[k], hn_status_message(status));
        else
            printf("%s: %u kernels, %u different; %u reduce, threads together in %u\n", argv[k],
                   counts.kernels, counts.different, counts.reductions, counts.together);
        failed += status != NULL;
        hn_status_free(status);
    }
    opencl_host_close(host);
    printf("%d passed, %d failed\n", argc - 1 - failed, failed);
    return failed != 0;
}
