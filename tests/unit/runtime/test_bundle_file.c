/* test_bundle_file.c: bundle files with their weights inside or in another file, moved, damaged and
 * replaced. */
#include "unit/runtime/module_fixture.h"

#include "bundle/view.h"
#include "runtime/load.h"

#include <sys/stat.h>
#include <unistd.h>

typedef struct files {
    char dir[PATH_MAX], weights[PATH_MAX + 16], bundle[PATH_MAX + 16];
    float weight[4];
} files;

static const char *const program_text =
    "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : output f32[4] bytes(16) buffer b4 : constant f32[4] source 2 "
    "buffer b5 : temp f32[4] bytes(16) " KERNELS
    "input \"x\" : f32[4] strides [1] in b1 call k1(b1 f32, b2 f32, out b5 f32) extent(4) call k1(b5 f32, b4 f32, out b3 f32) extent(4) "
    "output tensor \"y\" : f32[4] strides [1] in b3";

/* A weights file whose weight lies at offset 128; a second constant was made by a pass. */
static void setup(files *f, bool embed) {
    program p;
    hn_memory_plan plan;
    hn_file_map map;
    uint8_t bytes[512] = {0};
    static const float made[4] = {1000, 1000, 1000, 1000};
    *f = (files){.weight = {10, 20, 30, 40}};
    EXPECT_OK(hn_dir_temp(f->dir, sizeof f->dir));
    snprintf(f->weights, sizeof f->weights, "%s/model.pt2", f->dir);
    snprintf(f->bundle, sizeof f->bundle, "%s/model.hnb", f->dir);
    memcpy(bytes + 128, f->weight, sizeof f->weight);
    EXPECT_OK(hn_file_write_atomic(f->weights, bytes, sizeof bytes, false));
    EXPECT_OK(hn_file_map_init(&map, f->weights));
    program_init(&p);
    hn_expr four = hn_sym_int(p.sym, 4);
    uint32_t storage = hn_graph_add_storage(p.graph, (hn_storage){.data = map.data + 128,
                                                                  .size_bytes = 16,
                                                                  .file_record = HN_STR("w"),
                                                                  .file_offset = 128});
    hn_value v = hn_graph_add_tensor(p.graph, HN_DTYPE_F32, 1, &four, NULL, HN_STR("w"));
    EXPECT_OK(hn_graph_add_input(p.graph, (hn_input){.kind = HN_INPUT_PARAMETER,
                                                     .value = v,
                                                     .name = HN_STR("w"),
                                                     .storage = storage}));
    (void)hn_graph_add_constant(p.graph, HN_DTYPE_F32, 1, &four, made, sizeof made);
    hn_to_bundle_options options = {.embed_weights = embed,
                                    .weights_path = hn_str_of("model.pt2"),
                                    .weights_data = map.data,
                                    .weights_bytes = map.size_bytes,
                                    .full_digest = true,
                                    .cpu_features = {"sse2\0", 5}};
    hn_strbuf image;
    EXPECT_OK(program_image(&p, program_text, &options, &image));
    EXPECT_OK(hn_wrapper_plan(p.w, &plan));
    const hn_strbuf *object = kernel_object();
    hn_bundle_object item = {.bytes = object->ptr,
                             .len = object->len,
                             .name = HN_STR("kernels"),
                             .digest = hn_digest_of(object->ptr, object->len)};
    EXPECT_OK(hn_wrapper_save_bundle(p.w, &plan, &(hn_bundle_objects){.items = &item, .count = 1},
                                     &options, f->bundle));
    hn_strbuf saved;
    hn_strbuf_init(&saved);
    EXPECT_OK(hn_file_read(f->bundle, &saved));
    /* both ways give the same bytes */
    EXPECT(saved.len == image.len && memcmp(saved.ptr, image.ptr, saved.len) == 0);
    hn_strbuf_deinit(&saved);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    hn_file_map_deinit(&map);
}
static void teardown(files *f) { EXPECT_OK(hn_dir_remove(f->dir)); }

static void check_run(hn_module *m) {
    float x[4] = {1, 2, 3, 4};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    if (m) EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[0] == 1011 &&
           ((float *)hn_tensor_data(out[0]))[3] == 1044);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
}

static hn_status load(const files *f, const hn_module_options *options) {
    hn_module *m = NULL;
    HN_TRY(hn_module_load_file(f->bundle, options, &m));
    check_run(m);
    hn_module_release(m);
    return NULL;
}

TEST(embedded_weights) {
    files f;
    setup(&f, true);
    EXPECT_INT(unlink(f.weights), 0);
    EXPECT_OK(load(&f, NULL));
    EXPECT_OK(hn_bundle_verify_file(f.bundle, true));
    hn_module *m = NULL;
    hn_module_stats stats;
    EXPECT_OK(hn_module_load_file(f.bundle, &(hn_module_options){.verify_weights = true}, &m));
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.weights_mapped_bytes, 32);
    EXPECT_INT(stats.weights_copied_bytes, 0);
    hn_module_release(m);
    /* A damaged weight is found when asked for; the meta part's digest does not cover it. */
    FILE *file = fopen(f.bundle, "r+b");
    fseek(file, -1, SEEK_END);
    fputc(0x55, file);
    fclose(file);
    EXPECT_OK(hn_bundle_verify_file(f.bundle, false));
    EXPECT_ERROR(hn_bundle_verify_file(f.bundle, true), HN_CORRUPT, "weights are damaged");
    EXPECT_ERROR(load(&f, &(hn_module_options){.verify_weights = true}), HN_CORRUPT,
                 "weights are damaged");
    teardown(&f);
}

TEST(referred_weights) {
    files f;
    char moved[PATH_MAX + 32];
    setup(&f, false);
    EXPECT_OK(load(&f, NULL)); /* beside the bundle */
    EXPECT_OK(hn_bundle_verify_file(f.bundle, true));
    snprintf(moved, sizeof moved, "%s/other.pt2", f.dir);
    EXPECT_INT(rename(f.weights, moved), 0);
    EXPECT_ERROR(load(&f, NULL), HN_NOT_FOUND, "weights file 'model.pt2' is not there");
    EXPECT_OK(load(&f, &(hn_module_options){.weights_path = moved}));
    /* another size; another content; another content in the middle, which only a full digest finds
     * (here the ends are all) */
    EXPECT_INT(truncate(moved, 500), 0);
    EXPECT_ERROR(load(&f, &(hn_module_options){.weights_path = moved}), HN_INCOMPATIBLE,
                 "has 500 bytes, expected 512");
    EXPECT_INT(truncate(moved, 512), 0);
    FILE *file = fopen(moved, "r+b");
    fputc(1, file);
    fclose(file);
    EXPECT_ERROR(load(&f, &(hn_module_options){.weights_path = moved}), HN_INCOMPATIBLE,
                 "its content differs");
    teardown(&f);
}

TEST(files_that_are_no_bundles) {
    files f;
    hn_module *m;
    char *text;
    size_t len;
    setup(&f, true);
    EXPECT_ERROR(hn_module_load_file(f.weights, NULL, &m), HN_CORRUPT, "not a bundle");
    EXPECT_ERROR(hn_module_load_file("/nonexistent/x.hnb", NULL, &m), HN_NOT_FOUND, "x.hnb");
    EXPECT_ERROR(hn_module_load_file(f.dir, NULL, &m), HN_INVALID_ARGUMENT, "");
    EXPECT_OK(hn_bundle_describe_file(f.bundle, HN_BUNDLE_JSON, &text, &len));
    EXPECT(strstr(text, "\"kernel_calls\":2") != NULL && len == strlen(text));
    hn_bundle_text_free(text);
    char out[PATH_MAX + 16];
    hn_strbuf bytes;
    snprintf(out, sizeof out, "%s/k.so", f.dir);
    hn_strbuf_init(&bytes);
    EXPECT_OK(hn_bundle_object_extract(f.bundle, 0, out));
    EXPECT_OK(hn_file_read(out, &bytes));
    EXPECT(bytes.len == kernel_object()->len &&
           memcmp(bytes.ptr, kernel_object()->ptr, bytes.len) == 0);
    EXPECT_ERROR(hn_bundle_object_extract(f.bundle, 1, out), HN_INVALID_ARGUMENT,
                 "no object 1; it has 1");
    hn_strbuf_deinit(&bytes);
    teardown(&f);
}

static hn_status find_kernels(void *user, const hn_digest *digest, const void **out_bytes,
                              size_t *out_len) {
    const hn_strbuf *object = kernel_object();
    hn_digest own = hn_digest_of(object->ptr, object->len);
    ++*(int *)user;
    if (memcmp(&own, digest, sizeof own) != 0) return HN_ERROR(HN_NOT_FOUND, "no such object");
    *out_bytes = object->ptr;
    *out_len = object->len;
    return NULL;
}

TEST(objects_of_a_host) {
    program p;
    hn_memory_plan plan;
    hn_strbuf image, second;
    hn_module *m = NULL;
    int asked = 0;
    hn_module_host host = {&asked, find_kernels};
    program_init(&p);
    EXPECT_OK(program_image(
        &p,
        "buffer b1 : input f32[4] source 0 buffer b2 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) "
        "output tensor \"y\" : f32[4] strides [1] in b2",
        NULL, &image));
    const hn_strbuf *object = kernel_object();
    hn_bundle_object item = {.digest = hn_digest_of(object->ptr, object->len)};
    hn_strbuf_init(&second);
    EXPECT_OK(hn_wrapper_plan(p.w, &plan));
    EXPECT_OK(hn_wrapper_to_bundle(p.w, &plan, &(hn_bundle_objects){.items = &item, .count = 1},
                                   &(hn_to_bundle_options){0}, &second));
    EXPECT(second.len + object->len <= image.len);
    EXPECT_ERROR(hn_module_load_memory(second.ptr, second.len, false, NULL, &m), HN_INCOMPATIBLE,
                 "object 0 is not in the bundle");
    EXPECT_OK(hn_module_load_hosted(second.ptr, second.len, false, NULL, &host, &m));
    EXPECT_INT(asked, 1);
    float x[4] = {1, 2, 3, 4};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[3] == 8);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
    hn_strbuf_deinit(&image);
    hn_strbuf_deinit(&second);
    program_deinit(&p);
}

TEST(cpu_without_the_features) {
    program p;
    hn_strbuf image;
    hn_module *m;
    hn_to_bundle_options options = {.cpu_features = {"sse2\0avx9000\0", 13}};
    program_init(&p);
    EXPECT_OK(program_image(
        &p,
        "buffer b1 : input f32[4] source 0 " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 output tensor \"y\" : f32[4] strides [1] in b1",
        &options, &image));
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false, NULL, &m), HN_INCOMPATIBLE,
                 "'cpu' needs 'avx9000', which this CPU lacks");
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false,
                                       &(hn_module_options){.target = "cpu"}, &m),
                 HN_INCOMPATIBLE, "needs 'avx9000'");
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false,
                                       &(hn_module_options){.target = "x86-64-v9"}, &m),
                 HN_INVALID_ARGUMENT, "no code for 'x86-64-v9'; it has: cpu");
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

#define ONE_CALL                                                                                   \
    "buffer b1 : input f32[4] source 0 buffer b2 : output f32[4] bytes(16) " KERNELS               \
    "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) "                \
    "output tensor \"y\" : f32[4] strides [1] in b2"

/* The same kernels for two targets; on the second the one step has another grain, and its arguments
 * another order (of which this kernel knows nothing: nothing but the launch record decides what it
 * gets). */
static void two_targets(program *p, const char *missing, hn_strbuf *out) {
    const hn_strbuf *object = kernel_object();
    const hn_bundle_target targets[] = {
        {.name = HN_STR("better"), .features = {missing, strlen(missing) + 1}},
        {.name = HN_STR("plain")}};
    hn_bundle_object items[] = {
        {.name = HN_STR("one"), .bytes = object->ptr, .len = object->len},
        {.name = HN_STR("two"), .bytes = object->ptr, .len = object->len, .target = 1}};
    static const uint32_t order[] = {0, 1};
    hn_memory_plan plan;
    hn_strbuf first;
    EXPECT_OK(program_image(p, ONE_CALL, NULL, &first));
    hn_strbuf_deinit(&first);
    p->w->target_count = 2;
    for (uint32_t k = 1; k < p->w->kernels.count; k++) {
        hn_wkernel_info *other = calloc(1, sizeof *other);
        *other = (hn_wkernel_info){.name = p->w->kernels.items[k].name, .object = 1};
        p->w->kernels.items[k].others = other;
    }
    for (uint32_t k = 0; k < p->w->lines.count; k++) {
        hn_line *line = &p->w->lines.items[k];
        if (line->kind != HN_LINE_KERNEL) continue;
        hn_wlaunch *launch = calloc(1, sizeof *launch);
        *launch = (hn_wlaunch){
            .arg_count = line->operand_count, .order = order, .extent = line->extent, .grain = 2};
        line->others = launch;
    }
    hn_strbuf_init(out);
    EXPECT_OK(hn_wrapper_plan(p->w, &plan));
    EXPECT_OK(hn_wrapper_to_bundle(p->w, &plan, &(hn_bundle_objects){items, 2, targets, 2},
                                   &(hn_to_bundle_options){0}, out));
    for (uint32_t k = 1; k < p->w->kernels.count; k++)
        free((void *)(uintptr_t)p->w->kernels.items[k].others);
    for (uint32_t k = 0; k < p->w->lines.count; k++)
        free((void *)(uintptr_t)p->w->lines.items[k].others);
}

/* What a bundle has no record for is refused, and not written as something else. */
TEST(devices_that_bundles_do_not_know) {
    const hn_bundle_target target = {.name = HN_STR("sm_90"), .device = HN_DEVICE_KIND_COUNT};
    const hn_bundle_object item = {.name = HN_STR("one"), .bytes = "x", .len = 1};
    static const hn_to_bundle_options none;
    program p;
    hn_memory_plan plan;
    hn_strbuf first, image;
    program_init(&p);
    EXPECT_OK(program_image(&p, ONE_CALL, NULL, &first));
    hn_strbuf_init(&image);
    EXPECT_OK(hn_wrapper_plan(p.w, &plan));
    const hn_bundle_objects objects = {&item, 1, &target, 1};
    EXPECT_ERROR(hn_wrapper_to_bundle(p.w, &plan, &objects, &none, &image), HN_UNSUPPORTED,
                 "bundles have no programs for unknown, the device of 'sm_90'");
    hn_strbuf_deinit(&image);
    hn_strbuf_deinit(&first);
    program_deinit(&p);
}

static hn_status load_and_run(const hn_strbuf *image, const hn_module_options *options,
                              hn_module_stats *before, hn_module_stats *after) {
    hn_module *m;
    float x[4] = {1, 2, 3, 4};
    HN_TRY(hn_module_load_memory(image->ptr, image->len, false, options, &m));
    hn_module_stats_get(m, before);
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    hn_status status = hn_module_run(m, in, 1, out, 1);
    if (!status) EXPECT(((float *)hn_tensor_data(out[0]))[3] == 8);
    hn_module_stats_get(m, after);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
    return status;
}

TEST(the_best_target_is_run_and_loaded_when_it_is_called) {
    program p;
    hn_strbuf image;
    hn_bundle b;
    hn_module_stats before, after;
    program_init(&p);
    for (int fits = 0; fits < 2; fits++) {
        two_targets(&p, fits ? "sse2" : "avx9000", &image);
        EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
        EXPECT_INT(b.steps[0].launch_count, 2);
        EXPECT_INT(hn_bundle_call_of(&b, 0, 1, 0).launch->grain, 2);
        EXPECT_OK(load_and_run(&image, NULL, &before, &after));
        EXPECT(before.objects == 1 && before.objects_loaded == 0 && after.objects_loaded == 1);
        EXPECT_OK(load_and_run(&image, &(hn_module_options){.load_all = true}, &before, &after));
        EXPECT(before.objects_loaded == 1);
        EXPECT_OK(load_and_run(&image, &(hn_module_options){.target = "plain"}, &before, &after));
        hn_status status =
            load_and_run(&image, &(hn_module_options){.target = "better"}, &before, &after);
        EXPECT_INT(hn_status_code(status), fits ? HN_OK : HN_INCOMPATIBLE);
        hn_status_free(status);
        /* A damaged object is found when it is wanted, and hurts nobody else. */
        uint8_t *code = (uint8_t *)image.ptr + b.header->code_offset;
        code[b.objects[0].offset + 200] ^= 1;
        EXPECT_OK(load_and_run(&image, &(hn_module_options){.target = "plain"}, &before, &after));
        code[b.objects[1].offset + 200] ^= 1;
        EXPECT_ERROR(load_and_run(&image, &(hn_module_options){.target = "plain"}, &before, &after),
                     HN_CORRUPT, "object 1 ('two') does not match its digest");
        EXPECT_ERROR(load_and_run(&image, &(hn_module_options){.target = "plain", .load_all = true},
                                  &before, &after),
                     HN_CORRUPT, "object 1");
        hn_strbuf_deinit(&image);
    }
    program_deinit(&p);
}

TEST(programs_that_cannot_be_bundled) {
    program p;
    hn_strbuf image;
    program_init(&p);
    EXPECT_ERROR(
        program_image(
            &p,
            "symbol size s0 in [1, 9] buffer b1 : input f32[4] source 0 input \"x\" : f32[4] strides [1] in b1 "
            "output tensor \"y\" : f32[s0] strides [1] in b1",
            NULL, &image),
        HN_UNSUPPORTED, "size 's0' is not determined by the shape of any input");
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    program_init(&p);
    EXPECT_ERROR(
        program_image(
            &p,
            "symbol data u0 in [1, 9] buffer b1 : input f32[4] source 0 input \"x\" : f32[4] strides [1] in b1 "
            "output tensor \"y\" : f32[u0] strides [1] in b1",
            NULL, &image),
        HN_UNSUPPORTED, "size 'u0' depends on data");
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST_MAIN
