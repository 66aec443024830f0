/* test_memory.c: models that are compiled from memory: the same programs, with their weights
 * inside, and kept in the cache by content. */
#include "unit/harness.h"

#include "base/file.h"
#include "bundle/view.h"
#include "henry/henry.h"

#include <limits.h>
#include <stdlib.h>

static const char model_path[] = "examples/data/digits/model.pt2";

typedef struct fixture {
    char dir[PATH_MAX], cache[PATH_MAX + 16];
    hn_strbuf file;
    hn_compile_options options;
} fixture;

static void setup(fixture *f) {
    EXPECT_OK(hn_dir_temp(f->dir, sizeof f->dir));
    snprintf(f->cache, sizeof f->cache, "%s/cache", f->dir);
    hn_strbuf_init(&f->file);
    EXPECT_OK(hn_file_read(model_path, &f->file));
    f->options = (hn_compile_options){.cache_dir = f->cache};
}

static void teardown(fixture *f) {
    hn_strbuf_deinit(&f->file);
    EXPECT_OK(hn_dir_remove(f->dir));
}

/* What a compiled model makes of some images. Releases it. */
static void run(hn_compiled *compiled, float out[20]) {
    static float images[128];
    const int64_t in_sizes[] = {2, 1, 8, 8}, out_sizes[] = {2, 10};
    hn_module *module;
    hn_tensor *input, *output;
    for (int k = 0; k < 128; k++) images[k] = (float)(k % 13) / 16;
    EXPECT_OK(hn_compiled_load(compiled, NULL, &module));
    hn_compiled_release(compiled);
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 4, .sizes = in_sizes, .data = images}, &input));
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = out_sizes, .data = out}, &output));
    EXPECT_OK(hn_module_run(module, &input, 1, &output, 1));
    hn_tensor_release(input);
    hn_tensor_release(output);
    hn_module_release(module);
}

/* Compiles from a copy at `shift` bytes behind an aligned address; the copy is gone when this
 * returns. */
static hn_status compile_copy(const fixture *f, size_t shift, hn_compiled **out) {
    size_t len = f->file.len;
    char *copy = aligned_alloc(64, (len + shift + 64) / 64 * 64);
    if (!copy) abort();
    memcpy(copy + shift, f->file.ptr, len);
    hn_status status = hn_compile_memory(copy + shift, len, &f->options, out);
    memset(copy, 0xee, len + shift);
    free(copy);
    return status;
}

TEST(a_model_in_memory_computes_what_its_file_does) {
    fixture f;
    hn_compiled *compiled;
    hn_compile_stats stats;
    float from_file[20], from_memory[20];
    setup(&f);
    EXPECT_OK(hn_compile_file(model_path, &f.options, &compiled));
    run(compiled, from_file);
    for (size_t shift = 0; shift < 2; shift++) {
        EXPECT_OK(compile_copy(&f, shift, &compiled));
        hn_compiled_stats_get(compiled, &stats);
        /* another program: it has its weights inside */
        EXPECT_INT(stats.graph_cache, shift ? HN_CACHE_HIT : HN_CACHE_MISS);
        run(compiled, from_memory);
        EXPECT(memcmp(from_file, from_memory, sizeof from_file) == 0);
    }
    teardown(&f);
}

TEST(it_may_be_saved_and_needs_no_other_file) {
    fixture f;
    hn_compiled *compiled;
    hn_module *module;
    char bundle[PATH_MAX + 16];
    setup(&f);
    snprintf(bundle, sizeof bundle, "%s/m.hnb", f.dir);
    f.options.verify = true; /* records the digest of the weights */
    EXPECT_OK(compile_copy(&f, 0, &compiled));
    EXPECT_OK(hn_compiled_save(compiled, bundle));
    hn_compiled_release(compiled);
    EXPECT_OK(hn_bundle_verify_file(bundle, true));
    EXPECT_OK(hn_module_load_file(bundle, NULL, &module));
    hn_module_release(module);
    teardown(&f);
}

TEST(weights_in_a_file_of_their_own) {
    fixture f;
    hn_compiled *compiled;
    float inside[20], beside[20];
    char weights[PATH_MAX + 16];
    setup(&f);
    snprintf(weights, sizeof weights, "%s/m.safetensors", f.dir);
    EXPECT_OK(compile_copy(&f, 0, &compiled));
    run(compiled, inside);
    f.options.safetensors = weights;
    EXPECT_OK(compile_copy(&f, 0, &compiled));
    EXPECT(hn_file_exists(weights));
    run(compiled, beside);
    EXPECT(memcmp(inside, beside, sizeof inside) == 0);
    teardown(&f);
}

/* A program for each kind of device, and the weights once: the bytes beyond those of the CPU's file
 * alone are the other program's. */
TEST(programs_for_several_devices) {
    fixture f;
    hn_compiled *compiled;
    hn_module *module;
    hn_bundle one, several, opencl;
    float alone[20], among[20];
    size_t len;
    setup(&f);
    f.options.target = "generic";
    EXPECT_OK(compile_copy(&f, 0, &compiled));
    const void *image = hn_compiled_image(compiled, &len);
    EXPECT_OK(hn_bundle_open(image, len, true, &one));
    const uint64_t weights_bytes = one.weights_bytes;
    run(compiled, alone);
    f.options.target = "opencl,generic";
    EXPECT_OK(compile_copy(&f, 0, &compiled));
    image = hn_compiled_image(compiled, &len);
    EXPECT_OK(hn_bundle_open(image, len, true, &several));
    EXPECT_OK(hn_bundle_programs_check(&several, true));
    EXPECT_INT(hn_bundle_program_count(&several), 2);
    EXPECT_OK(hn_bundle_program_open(&several, 1, true, &opencl));
    EXPECT_STR(hn_bundle_text(&opencl, opencl.targets[0].name), "opencl");
    EXPECT_INT(several.weights_bytes, weights_bytes);
    EXPECT_INT(several.blob_bytes, one.blob_bytes);
    EXPECT_ERROR(hn_compiled_load(compiled, &(hn_module_options){.device = "cuda"}, &module),
                 HN_INVALID_ARGUMENT,
                 "no program for 'cuda'; it has: cpu (generic), opencl (opencl)");
    run(compiled, among);
    EXPECT(memcmp(alone, among, sizeof alone) == 0);
    teardown(&f);
}

/* The last record before the directory is small; a weight lies somewhere in the middle of the
 * file. */
TEST(changed_bytes_are_another_model) {
    fixture f;
    hn_compiled *compiled;
    setup(&f);
    EXPECT_OK(compile_copy(&f, 0, &compiled));
    hn_compiled_release(compiled);
    static const char data[] = "data/weights/weight_0";
    char *record = memmem(f.file.ptr, f.file.len, data, strlen(data));
    EXPECT(record);
    size_t at = ((size_t)(record - f.file.ptr) + strlen(data) + 256) / 64 * 64;
    f.file.ptr[at] = (char)(f.file.ptr[at] ^ 1);
    EXPECT_ERROR(compile_copy(&f, 0, &compiled), HN_CORRUPT, "cannot compile a model in memory: ");
    teardown(&f);
}

TEST(a_source_project_takes_the_weights_along) {
    fixture f;
    hn_compiled *compiled;
    char project[PATH_MAX + 16], weights[PATH_MAX + 32];
    setup(&f);
    snprintf(project, sizeof project, "%s/project", f.dir);
    snprintf(weights, sizeof weights, "%s/weights.bin", project);
    f.options.source_dir = project;
    EXPECT_OK(compile_copy(&f, 0, &compiled));
    hn_compiled_release(compiled);
    EXPECT(hn_file_exists(weights));
    teardown(&f);
}

TEST(options_that_are_refused) {
    hn_compiled *c = NULL;
    const int64_t sizes[1] = {-2};
    const hn_input_sizes negative = {.rank = 1, .sizes = sizes}, none = {.rank = 1},
                         many = {.rank = 17, .sizes = sizes};
    const struct {
        hn_compile_options options;
        const char *message;
    } cases[] = {
        {{.threads = -1}, "'threads' is -1, must be 1 to 1024, or 0 for the default"},
        {{.threads = 100000}, "'threads' is 100000"},
        {{.compile_threads = -5}, "'compile_threads' is -5"},
        {{.input_count = 2}, "'inputs' is NULL, but 'input_count' is 2"},
        {{.inputs = &negative, .input_count = 1},
         "input 0 dimension 0 is -2, must not be negative"},
        {{.inputs = &none, .input_count = 1}, "the sizes of input 0 are NULL"},
        {{.inputs = &many, .input_count = 1}, "input 0 has 17 dimensions"},
        {{.embed_weights = true, .safetensors = "w"},
         "'embed_weights' and 'safetensors' are both set"},
        {{.target = "x86-64-v9"}, "x86-64-v9"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        EXPECT_ERROR(hn_compile_file(model_path, &cases[k].options, &c), HN_INVALID_ARGUMENT,
                     cases[k].message);
    EXPECT_ERROR(hn_compile_file(NULL, NULL, &c), HN_INVALID_ARGUMENT, "'path' is NULL");
    EXPECT_ERROR(hn_compile_file(model_path, NULL, NULL), HN_INVALID_ARGUMENT, "'out' is NULL");
    EXPECT_ERROR(hn_compiled_load(NULL, NULL, NULL), HN_INVALID_ARGUMENT, "'compiled' is NULL");
    EXPECT_ERROR(hn_compiled_save(NULL, "x"), HN_INVALID_ARGUMENT, "'compiled' is NULL");
    size_t len = 1;
    EXPECT(!hn_compiled_image(NULL, &len) && len == 0 && !hn_compiled_image(NULL, NULL));
    hn_compile_stats stats = {.nodes = 3};
    hn_compiled_stats_get(NULL, &stats);
    EXPECT_INT(stats.nodes, 0);
    hn_compiled_stats_get(NULL, NULL);
    hn_public_key key;
    EXPECT_ERROR(hn_public_key_read(NULL, &key), HN_INVALID_ARGUMENT, "'path' is NULL");
    EXPECT_ERROR(hn_bundle_keys_create(NULL, "x"), HN_INVALID_ARGUMENT, "'secret_path' is NULL");
    EXPECT_ERROR(hn_bundle_sign_file(NULL, "x", NULL), HN_INVALID_ARGUMENT, "'path' is NULL");
    EXPECT_ERROR(hn_bundle_verify_file(NULL, false), HN_INVALID_ARGUMENT, "'path' is NULL");
    EXPECT_ERROR(hn_bundle_verify_signed(NULL, NULL, &key, 1), HN_INVALID_ARGUMENT,
                 "'path' is NULL");
    EXPECT_ERROR(hn_bundle_verify_signed(model_path, NULL, NULL, 1), HN_INVALID_ARGUMENT,
                 "'trusted' is NULL");
}

TEST_MAIN
