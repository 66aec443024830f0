/* module_fixture.h: programs for tests of the runtime: a wrapper from text, kernels compiled by the
 * system's C compiler, together as a bundle image. */
#ifndef HN_TESTS_MODULE_FIXTURE_H
#define HN_TESTS_MODULE_FIXTURE_H

#include "base/compiler.h"
#include "base/file.h"
#include "base/process.h"
#include "bundle/format.h"
#include "henry/henry.h"
#include "ir/graph.h"
#include "unit/harness.h"
#include "wrapper/to_bundle.h"
#include "wrapper/workspaces.h"
#include "wrapper/wrapper.h"

#include <limits.h>
#include <stdlib.h>

static const char *const kernel_source =
    "int add(void *const *b, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    const float *x = b[0], *y = b[1]; float *z = b[2];\n"
    "    for (long long i = begin; i < end; i++) z[i] = x[i] + y[i];\n"
    "    return 0;\n"
    "}\n"
    /* out[row] = sum of x[row, 0..s[0]); each thread marks its scratch and checks that nobody else
     * writes to it */
    "int row_sum(void *const *b, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    const float *x = b[0]; float *z = b[1]; volatile long long *mine = scratch;\n"
    "    for (long long i = begin; i < end; i++) {\n"
    "        float sum = 0;\n"
    "        mine[0] = i;\n"
    "        for (long long j = 0; j < s[0]; j++) sum += x[i * s[0] + j];\n"
    "        if (mine[0] != i) return 1;\n"
    "        z[i] = sum;\n"
    "    }\n"
    "    return 0;\n"
    "}\n"
    "int gather(void *const *b, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    const float *x = b[0]; const long long *at = b[1]; float *z = b[2];\n"
    "    for (long long i = begin; i < end; i++) { if (at[i] < 0 || at[i] >= s[0]) return 1; z[i] = x[at[i]]; }\n"
    "    return 0;\n"
    "}\n"
    "int scale2(void *const *b, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    const float *x = b[0]; float *z = b[1];\n"
    "    for (long long i = begin; i < end; i++) z[i] = 2 * x[i];\n"
    "    return 0;\n"
    "}\n"
    "double exp(double);\n"
    "int exps(void *const *b, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    const float *x = b[0]; float *z = b[1];\n"
    "    for (long long i = begin; i < end; i++) z[i] = (float)exp(x[i]);\n"
    "    return 0;\n"
    "}\n"
    /* how many of s[0] bools are true */
    "int count(void *const *b, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    const unsigned char *x = b[0]; long long *z = b[1];\n"
    "    z[0] = 0; for (long long i = 0; i < s[0]; i++) z[0] += x[i] != 0;\n"
    "    return 0;\n"
    "}\n"
    /* calls the function whose address is in x[0] */
    "int callback(void *const *b, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    const long long *x = b[0]; ((void (*)(void))x[0])(); return 0;\n"
    "}\n"
    /* out, a, b: a product of matrices by rows */
    "int product(void *const *o, const long long *s, long long begin, long long end, void *scratch) {\n"
    "    float *out = o[0]; const float *a = o[1], *b = o[2];\n"
    "    if (o[3] || o[4] || end != 1) return 1;\n"
    "    for (long long m = 0; m < s[4]; m++) for (long long n = 0; n < s[5]; n++) {\n"
    "        float sum = 0; for (long long k = 0; k < s[6]; k++) sum += a[m * s[6] + k] * b[k * s[5] + n];\n"
    "        out[m * s[5] + n] = sum; }\n"
    "    return 0;\n"
    "}\n"
    "int nothing(void *const *b, const long long *s, long long begin, long long end, void *scratch) { return 0; }\n";

/* The same kernels, as the stand-in for CUDA's driver has them (tests/support/cuda_standin.c). */
HN_UNUSED static const char standin_kernels[] =
    "standin\n"
    "add 4 0 1024 4,4,4,4\nrow_sum 5 0 1024 4,4,4,0,64\n"
    "gather 5 0 1024 4,8,4,4\nscale2 3 0 1024 4,4,4\n"
    "exps 3 0 1024\nnothing -1 0 1024\n"
    "count 4 0 1024\ncallback 3 0 1024\n";

/* The compiled kernels, made once. */
static hn_strbuf *kernel_object(void) {
    static hn_strbuf object;
    char dir[PATH_MAX], source[PATH_MAX + 8], out[PATH_MAX + 8];
    int exit_code = -1;
    hn_strbuf output;
    if (object.len) return &object;
#ifdef HN_FIXTURE_CUDA
    hn_strbuf_puts(&object, standin_kernels);
    return &object;
#endif
    hn_strbuf_init(&output);
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(source, sizeof source, "%s/k.c", dir);
    snprintf(out, sizeof out, "%s/k.so", dir);
    EXPECT_OK(hn_file_write_atomic(source, kernel_source, strlen(kernel_source), false));
    const char *argv[] = {"cc",        "-O1", "-w", "-fPIC", "-shared",
                          "-nostdlib", "-o",  out,  source,  NULL};
    EXPECT_OK(
        hn_process_run(&(hn_spawn){.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1},
                       60000, &output, &exit_code));
    if (exit_code) HN_TEST_FAIL("cc: %s", output.ptr ? output.ptr : "");
    EXPECT_OK(hn_file_read(out, &object));
    EXPECT_OK(hn_dir_remove(dir));
    hn_strbuf_deinit(&output);
    return &object;
}

#define KERNELS                                                                                                                                          \
    "kernel k1 : object 0 name \"add\" kernel k2 : object 0 name \"row_sum\" kernel k3 : object 0 name \"gather\" "                                      \
    "kernel k4 : object 0 name \"scale2\" kernel k5 : object 0 name \"exps\" kernel k6 : object 0 name \"nothing\" kernel k7 : object 0 name \"count\" " \
    "kernel k8 : object 0 name \"callback\" kernel k9 : object 0 name \"product\" "

typedef struct program {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph; /* for constants and origins; storages may be added before program_image */
    hn_wrapper *w;
} program;

static void program_init(program *p) {
    hn_arena_init(&p->arena);
    EXPECT_OK(hn_sym_create(&p->arena, &p->sym));
    EXPECT_OK(hn_graph_create(&p->arena, p->sym, &p->graph));
    (void)hn_graph_add_origin(p->graph, (hn_origin){HN_STR("node_one"), HN_STR("model.py:12")});
    (void)hn_graph_add_origin(p->graph, (hn_origin){HN_STR("node_two"), HN_STR("")});
}
static void program_deinit(program *p) {
    hn_graph_deinit(p->graph);
    hn_arena_deinit(&p->arena);
}

#ifdef HN_FIXTURE_OPERATIONS
enum { FIXTURE_HAS_OPERATIONS = 1 };
#else
enum { FIXTURE_HAS_OPERATIONS = 0 };
#endif

#if defined(HN_FIXTURE_REMOTE) || defined(HN_FIXTURE_CUDA)
/* The same tests with a device that is not the host: programs are for it, as a compiler would have
 * made them. tests/support/imaginary_device.h in place of OpenCL, tests/support/cuda_standin.h in
 * place of CUDA's driver. With HN_FIXTURE_OPERATIONS, for a device that has all operations; else a
 * line says where its operation runs. */
enum { FIXTURE_IS_REMOTE = 1 };
#ifdef HN_FIXTURE_CUDA
#define FIXTURE_DEVICE HN_DEVICE_CUDA
static const hn_bundle_target fixture_target = {.name = HN_STR("sm_90"), .device = HN_DEVICE_CUDA};
#else
#define FIXTURE_DEVICE HN_DEVICE_OPENCL
static const hn_bundle_target fixture_target = {.name = HN_STR("opencl"),
                                                .device = HN_DEVICE_OPENCL};
#endif
static const hn_bundle_target *const fixture_targets = &fixture_target;

/* Lists of a parsed line are the wrapper's own. */
static hn_status fixture_place_variants(const hn_wrapper *w, const hn_line *line) {
    for (uint32_t v = 1; v < hn_line_variants(line); v++)
        for (uint32_t t = 0; t < w->target_count; t++)
            ((hn_wlaunch *)(uintptr_t)line->variants[v - 1].launches)[t].threads = 1;
    return NULL;
}

static hn_status fixture_place(hn_wrapper *w) {
    for (uint32_t b = 1; b < w->buffers.count; b++) w->buffers.items[b].device = FIXTURE_DEVICE;
    for (uint32_t k = 0; k < w->lines.count; k++) {
        hn_line *line = &w->lines.items[k];
        if (line->kind == HN_LINE_EXTERN && FIXTURE_HAS_OPERATIONS) line->device = FIXTURE_DEVICE;
        if (line->kind != HN_LINE_KERNEL) continue;
        line->device = FIXTURE_DEVICE;
        line->threads = 1;
        HN_TRY(fixture_place_variants(w, line));
        HN_TRY(hn_wrapper_add_workspace(w, FIXTURE_DEVICE, hn_workspace_of_groups(w, line),
                                        &line->workspace));
    }
    return hn_wrapper_host_memory(w);
}
#else
enum { FIXTURE_IS_REMOTE = 0 };
static const hn_bundle_target *const fixture_targets = NULL; /* that of this machine */
static hn_status fixture_place(hn_wrapper *w) {
    (void)w;
    return NULL;
}
#endif

/* For what the text form of a wrapper does not have; NULL: nothing. */
static void (*fixture_edit)(hn_wrapper *w);
/* How memory is planned; kernels' results take the memory of operands if `fixture_reuses`. */
static hn_plan_options fixture_plan;
static bool fixture_reuses;

/* Parses `text` (between the braces), plans and prints the bundle. */
static hn_status program_image(program *p, const char *text, const hn_to_bundle_options *options,
                               hn_strbuf *out) {
    hn_memory_plan plan;
    hn_strbuf full;
    const hn_strbuf *object = kernel_object();
    hn_bundle_object item = {.name = HN_STR("kernels"),
                             .bytes = object->ptr,
                             .len = object->len,
                             .digest = hn_digest_of(object->ptr, object->len)};
    hn_strbuf_init(&full);
    hn_strbuf_init(out);
    hn_strbuf_printf(&full, "wrapper { %s }", text);
    hn_status status = hn_wrapper_parse(&p->arena, p->sym, hn_strbuf_str(&full), &p->w);
    if (!status) {
        p->w->graph = p->graph;
        if (fixture_edit) fixture_edit(p->w);
        status = fixture_place(p->w);
    }
    if (!status) {
        status = hn_wrapper_verify(p->w);
    }
    if (!status) status = hn_graph_note_weights(p->graph);
    if (!status && fixture_reuses) status = hn_wrapper_reuse(p->w);
    if (!status) status = hn_wrapper_plan_with(p->w, &fixture_plan, &plan);
    if (!status) status = hn_wrapper_verify(p->w);
    if (!status) status = hn_wrapper_plan_verify(p->w, &plan);
    static const hn_to_bundle_options none;
    if (!status)
        status = hn_wrapper_to_bundle(p->w, &plan,
                                      &(hn_bundle_objects){.items = &item,
                                                           .count = 1,
                                                           .targets = fixture_targets,
                                                           .target_count = FIXTURE_IS_REMOTE},
                                      options ? options : &none, out);
    hn_strbuf_deinit(&full);
    return status;
}

/* Entry `index` of a section in the image of a program. */
HN_UNUSED static void *entry_of(hn_strbuf *image, uint32_t kind, uint32_t index) {
    const hnb_header *header = (const hnb_header *)(const void *)image->ptr;
    const hnb_section *table = (const hnb_section *)(const void *)(image->ptr + sizeof *header);
    for (uint32_t i = 0; i < header->section_count; i++)
        if (table[i].kind == kind)
            return image->ptr + table[i].offset + index * table[i].elem_bytes;
    return NULL;
}

/* A parameter or buffer of one dimension, the only tensor in its storage. */
typedef struct fixture_weight {
    const char *name;
    hn_input_kind kind;
    hn_dtype dtype;
    int64_t count;
    const void *bytes;
} fixture_weight;

static void program_add_weight(program *p, const fixture_weight *w) {
    hn_expr size = hn_sym_int(p->sym, w->count);
    hn_value value = hn_graph_add_tensor(p->graph, w->dtype, 1, &size, NULL, hn_str_of(w->name));
    hn_storage storage = {.data = w->bytes,
                          .size_bytes = (size_t)w->count * hn_dtype_facts(w->dtype)->size_bytes,
                          .file_record = hn_str_of(w->name)};
    EXPECT_OK(hn_graph_add_input(p->graph,
                                 (hn_input){.kind = w->kind,
                                            .value = value,
                                            .name = hn_str_of(w->name),
                                            .storage = hn_graph_add_storage(p->graph, storage)}));
}

/* With HN_FIXTURE_GRAPHS runs are launched as graphs, where that is possible. */
static hn_module_options fixture_options(const hn_module_options *options) {
    hn_module_options all = options ? *options : (hn_module_options){.threads = 2};
#ifdef HN_FIXTURE_GRAPHS
    all.device_graphs = true;
#endif
    return all;
}

/* A module from text and weights, which are its constants from 1 on; NULL after a failure, which is
 * reported. */
static hn_module *load_weights(const char *text, const fixture_weight *weights, uint32_t count,
                               const hn_module_options *options) {
    program p;
    hn_strbuf image;
    hn_module *module = NULL;
    const hn_module_options all = fixture_options(options);
    program_init(&p);
    for (uint32_t k = 0; k < count; k++) program_add_weight(&p, &weights[k]);
    hn_status status = program_image(&p, text, NULL, &image);
    if (!status) status = hn_module_load_memory(image.ptr, image.len, false, &all, &module);
    EXPECT_OK(status);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    return module;
}

HN_UNUSED static hn_module *load_text(const char *text, const hn_module_options *options) {
    return load_weights(text, NULL, 0, options);
}

HN_UNUSED static hn_tensor *tensor_of(hn_scalar_type type, uint32_t rank, const int64_t *sizes,
                                      const int64_t *strides, void *data) {
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){
            .type = type, .rank = rank, .sizes = sizes, .strides = strides, .data = data},
        &t));
    return t;
}
#define F32(data, ...)                                                                             \
    tensor_of(HN_F32, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                          \
              (int64_t[]){__VA_ARGS__}, NULL, data)

#endif
