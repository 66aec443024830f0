/* explained.c: the public API on one model, with explanations.
 *
 *     cc explained.c $(pkg-config --cflags --libs henry) -o explained
 *     ./explained data/digits/model.pt2
 *
 * Every function that can fail returns an hn_status. NULL means success. Anything else is an error
 * object that the caller owns, and frees or returns. HN_TRY returns it. */
#include <henry/henry.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- 1. compile, and keep the result as a file ---- */

static hn_status compile(const char *model_path, const char *bundle_path) {
    /* Zeros mean defaults, so name only what you want. With embed_weights the bundle needs no other
     * file; without it, the bundle refers to the .pt2 and its weights are mapped from there. */
    hn_compile_options options = {.embed_weights = true};
    hn_compiled *compiled;
    HN_TRY(hn_compile_file(model_path, &options, &compiled));

    hn_compile_stats stats;
    hn_compiled_stats_get(compiled, &stats);
    printf(
        "compiled %u nodes into %" PRIu32 " kernels and %" PRIu32 " library calls in %.1f ms%s\n",
        (unsigned)stats.nodes_imported, stats.kernels_generated, stats.kernels_extern,
        (double)stats.total_ns / 1e6, stats.graph_cache == HN_CACHE_HIT ? " (from the cache)" : "");

    /* The file is written under a temporary name and renamed, so no reader sees an incomplete
     * file. */
    hn_status status = hn_compiled_save(compiled, bundle_path);
    hn_compiled_release(compiled);
    return status;
}

/* ---- 2. look at a module's inputs ---- */

static hn_status print_signature(const hn_module *module) {
    for (uint32_t k = 0; k < hn_module_input_count(module); k++) {
        hn_module_value_info info;
        HN_TRY(hn_module_input_info(module, k, &info));
        printf("input %u '%s': %s[", (unsigned)k, info.name, hn_scalar_type_name(info.type));
        for (uint32_t d = 0; d < info.rank; d++) printf("%s%s", d ? ", " : "", info.sizes[d].text);
        printf("]\n");
    }
    return NULL;
}

/* ---- 3. run ---- */

/* Both tensors borrow the caller's memory, so a run allocates nothing and copies nothing. */
static hn_status run(hn_module *module, int64_t batch, float *images, float *probabilities) {
    int64_t in_sizes[] = {batch, 1, 8, 8}, out_sizes[] = {batch, 10};
    hn_tensor *input = NULL, *output = NULL;
    hn_status status = hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 4, .sizes = in_sizes, .data = images}, &input);
    if (!status)
        status = hn_tensor_create(
            &(hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = out_sizes, .data = probabilities},
            &output);
    if (!status) status = hn_module_run(module, &input, 1, &output, 1);
    hn_tensor_release(input); /* NULL is allowed, so one exit path is enough */
    hn_tensor_release(output);
    return status;
}

/* The batch is a size symbol: one compiled program serves every batch size in its range. */
static hn_status run_batches(hn_module *module) {
    enum { MOST = 5 };
    static float images[MOST * 64], probabilities[MOST * 10];
    for (int k = 0; k < MOST * 64; k++) images[k] = (float)(k % 8 == 4);
    for (int64_t batch = 1; batch <= MOST; batch += 2) {
        HN_TRY(run(module, batch, images, probabilities));
        int best = 0;
        for (int k = 1; k < 10; k++)
            if (probabilities[k] > probabilities[best]) best = k;
        printf("batch of %" PRId64 ": the first image is a %d (%.1f %%)\n", batch, best,
               100.0 * (double)probabilities[best]);
    }
    return NULL;
}

/* ---- 4. errors say what is wrong ---- */

/* A wrong shape is found before anything runs, and the message names the input and the
 * constraint. */
static hn_status show_error(hn_module *module) {
    static float image[64];
    int64_t sizes[] = {1, 1, 4, 16};
    hn_tensor *input, *output = NULL;
    HN_TRY(hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 4, .sizes = sizes, .data = image}, &input));
    hn_status status = hn_module_run(module, &input, 1, &output, 1);
    hn_tensor_release(input);
    if (!status) {
        hn_tensor_release(output);
        return HN_ERROR(HN_INTERNAL, "a wrong shape was accepted");
    }
    printf("a wrong shape gives %s: %s\n", hn_code_name(hn_status_code(status)),
           hn_status_message(status));
    hn_status_free(status);
    return NULL;
}

static hn_status explain(const char *model_path, const char *bundle_path) {
    HN_TRY(compile(model_path, bundle_path));
    /* From here on the compiler is not needed: a program that only runs bundles links
     * libhenry_rt. */
    hn_module *module;
    HN_TRY(hn_module_load_file(bundle_path, NULL, &module));
    hn_status status = print_signature(module);
    if (!status) status = run_batches(module);
    if (!status) status = show_error(module);
    hn_module_release(module);
    return status;
}

int main(int argc, char **argv) {
    const char *model_path = argc > 1 ? argv[1] : "examples/data/digits/model.pt2";
    const char *bundle_path = argc > 2 ? argv[2] : "digits.hnb";
    hn_status status = explain(model_path, bundle_path);
    if (!status) return 0;
    fprintf(stderr, "explained: %s\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}
