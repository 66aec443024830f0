/* run_pt2.c: .pt2 files, compiled, against the reference interpreter on random inputs. For files
 * without stored outputs.
 *
 *     run_pt2 [--no-fusion] [--target TARGET] FILE.pt2...
 *
 * Outputs and mutations must agree within the tolerances of whole models (rtol 1e-4, atol 1e-5:
 * sums in other orders). */
#include "front/importer.h"
#include "henry/program.h"
#include "opt/pass.h"
#include "support/module_run.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_VALUES = 64 };
static const double model_rtol = 1e-4, model_atol = 1e-5;

/* One model on its way through the interpreter. */
typedef struct reference {
    hn_arena arena;
    hn_graph *graph;
    hn_ref_tensor tensors[MAX_VALUES], outputs[MAX_VALUES];
    uint32_t tensor_count;
    int place[MAX_VALUES]; /* per input of the module: its tensor, or -1 for a recorded number */
    uint32_t input_count;
} reference;

static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    return z ^ (z >> 31);
}

/* The next input of the module; the interpreter sees tensors only. */
static hn_status add_place(reference *r, bool is_tensor, hn_ref_tensor **out) {
    if (r->input_count == MAX_VALUES)
        return HN_ERROR(HN_UNSUPPORTED, "too many inputs for the test");
    if (is_tensor) *out = &r->tensors[r->tensor_count];
    r->place[r->input_count++] = is_tensor ? (int)r->tensor_count++ : -1;
    return NULL;
}

static hn_status make_inputs(reference *r) {
    uint64_t state = 1;
    for (uint32_t k = 0; k < r->graph->inputs.count; k++) {
        const hn_input *in = &r->graph->inputs.items[k];
        if (in->kind == HN_INPUT_SCALAR) HN_TRY(add_place(r, false, NULL));
        if (in->kind != HN_INPUT_USER) continue;
        const hn_value_info *info = hn_graph_value(r->graph, in->value);
        int64_t sizes[HN_MAX_RANK];
        if (info->kind != HN_VALUE_TENSOR)
            return HN_ERROR(HN_UNSUPPORTED, "input '" HN_STR_FMT "' is a symbolic number",
                            HN_STR_ARG(in->name));
        for (uint32_t d = 0; d < info->rank; d++)
            sizes[d] = hn_sym_hint(r->graph->sym, info->sizes[d], 4);
        hn_ref_tensor *t = NULL;
        HN_TRY(add_place(r, true, &t));
        HN_TRY(hn_ref_tensor_init(&r->arena, info->dtype, info->rank, sizes, t));
        for (int64_t e = 0; e < t->numel; e++) {
            uint64_t bits = next_random(&state);
            /* exact in f32 */
            if (hn_dtype_is_float(t->dtype))
                t->data.f[e] = (double)(int64_t)(bits % 4097) / 2048 - 1;
            else t->data.i[e] = (int64_t)(bits % 2);
        }
    }
    return NULL;
}

static hn_status interpret(reference *r, hn_model_file *file, const char *model) {
    hn_sym *sym;
    hn_pass_context context;
    HN_TRY(hn_sym_create(&r->arena, &sym));
    HN_TRY(file->importer->import(file, model, &r->arena, sym, &r->graph));
    HN_TRY(make_inputs(r));
    context = (hn_pass_context){.scratch = &r->arena};
    HN_TRY(hn_pass_functionalize(r->graph, &context));
    HN_TRY(hn_pass_decompose(r->graph, &context));
    if (r->graph->outputs.count > MAX_VALUES)
        return HN_ERROR(HN_UNSUPPORTED, "too many outputs for the test");
    return hn_interpret(&r->arena, r->graph, r->tensors, r->tensor_count, r->outputs);
}

/* The reference's outputs in the module's order: the user's and scalars, then mutations. */
static uint32_t order_outputs(const reference *r, hn_ref_tensor *out) {
    uint32_t count = 0;
    for (int mutations = 0; mutations < 2; mutations++)
        for (uint32_t k = 0; k < r->graph->outputs.count; k++)
            if ((r->graph->outputs.items[k].kind == HN_OUTPUT_MUTATION) == (mutations == 1))
                out[count++] = r->outputs[k];
    return count;
}

static hn_status compare(reference *r, const hn_ref_tensor *actual) {
    hn_ref_tensor expected[MAX_VALUES];
    uint32_t count = order_outputs(r, expected);
    for (uint32_t k = 0; k < count; k++) {
        if (expected[k].dtype == HN_DTYPE_NONE) continue;
        hn_strbuf why;
        hn_strbuf_init(&why);
        bool same = hn_ref_compare(&actual[k], &expected[k], model_rtol, model_atol, &why);
        hn_status status =
            same ? NULL : HN_ERROR(HN_INTERNAL, "output %u: %s", k, why.ptr ? why.ptr : "");
        hn_strbuf_deinit(&why);
        HN_TRY(status);
    }
    return NULL;
}

/* How models are compiled, but for their name. */
static hn_compile_options how = {.threads = 2};

static hn_status run_compiled(reference *r, const char *path, const char *model) {
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    hn_ref_tensor actual[MAX_VALUES] = {{0}}, inputs[MAX_VALUES] = {{0}};
    for (uint32_t k = 0; k < r->input_count; k++)
        if (r->place[k] >= 0) inputs[k] = r->tensors[r->place[k]];
    hn_compile_options options = how;
    options.model = model;
    hn_status status = hn_compile_file(path, &options, &compiled);
    if (!status) status = hn_compiled_load(compiled, &(hn_module_options){.threads = 2}, &module);
    if (!status)
        status = hn_test_module_run(&r->arena, module, inputs, r->input_count, actual, MAX_VALUES);
    if (!status) status = compare(r, actual);
    hn_module_release(module);
    hn_compiled_release(compiled);
    return status;
}

static hn_status check_model(hn_model_file *file, const char *path, hn_str name) {
    reference *r = calloc(1, sizeof *r);
    if (!r) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    hn_arena_init(&r->arena);
    const char *model = hn_arena_strndup(&r->arena, name.ptr, name.len);
    hn_status status = model ? hn_status_annotate(interpret(r, file, model), "interpreter")
                             : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    if (!status) status = run_compiled(r, path, model);
    if (r->graph) hn_graph_deinit(r->graph);
    hn_arena_deinit(&r->arena);
    free(r);
    return hn_status_annotate(status, "model '" HN_STR_FMT "'", HN_STR_ARG(name));
}

static hn_status check_file(const char *path) {
    hn_model_file *file;
    hn_status status = NULL;
    HN_TRY(hn_model_open(path, &file));
    for (uint32_t k = 0; k < file->model_count && !status; k++)
        status = check_model(file, path, file->models[k]);
    hn_model_close(file);
    return status;
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0;
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--no-fusion") == 0) {
            how.no_fusion = true;
            continue;
        }
        if (strcmp(argv[k], "--target") == 0 && k + 1 < argc) {
            how.target = argv[++k];
            continue;
        }
        hn_status status = check_file(argv[k]);
        if (status) fprintf(stderr, "%s: %s\n", argv[k], hn_status_message(status));
        if (status) failed++;
        else passed++;
        hn_status_free(status);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
