/* steps.c: what a step of a module costs above its kernel.
 *
 *     steps [KERNELS]
 *
 * A chain of KERNELS (1,000) tiny kernels that depend on each other, one thread, is run as a
 * module; then the same kernels are called with the same arguments in a bare loop. Prints one JSON
 * object: nanoseconds a step of both, least of many rounds that take turns. */
#include "base/trace.h"
#include "bundle/view.h"
#include "driver/driver.h"
#include "henry/bundle.h"
#include "henry/abi/kernel_abi.h"
#include "henry/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 8, ROUNDS = 300, MAX_BUFFERS = 4 };

typedef struct chain {
    uint32_t length;
    hn_compiled *compiled;
    hn_module *module;
    hn_tensor *input, *output;
    void *object;
    struct {
        hn_kernel_fn fn;
        void *buffers[MAX_BUFFERS];
        long long extent;
    } * calls;
    uint32_t call_count;
    float *memory;
} chain;

/* A reduction, and an element-wise step that uses its result, in turns: with fusion off each is a
 * kernel. */
static void write_graph(uint32_t length, hn_strbuf *out) {
    hn_strbuf_printf(out, "graph @g {\n  input user %%v0 : f32[%d, %d] \"x\"\n", WIDTH, WIDTH);
    for (uint32_t k = 0; k < length; k++) {
        if (k % 2 == 0)
            hn_strbuf_printf(out, "  %%v%u = amax(%%v%u, dims=[1], keepdim=true)\n", k + 1, k);
        else hn_strbuf_printf(out, "  %%v%u = sub(%%v%u, %%v%u)\n", k + 1, k - 1, k);
    }
    hn_strbuf_printf(out, "  output user %%v%u \"y\"\n}\n", length);
}

static hn_status build(chain *c, hn_service *service) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    write_graph(c->length, &text);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, (hn_str){text.ptr, text.len}, &graph);
    if (!status)
        status = hn_compile_graph(
            graph, service, &(hn_compile_options){.threads = 1, .no_fusion = true}, &c->compiled);
    if (!status)
        status = hn_compiled_load(c->compiled, &(hn_module_options){.threads = 1}, &c->module);
    hn_strbuf_deinit(&text);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

/* --- the bare loop: the kernels of the image, on memory of our own --- */

static hn_status open_library(chain *c) {
    char bundle[] = "/tmp/henry-steps-XXXXXX", object[sizeof bundle + 3];
    int fd = mkstemp(bundle);
    if (fd < 0) return HN_ERROR(HN_IO, "cannot make a temporary file");
    close(fd);
    snprintf(object, sizeof object, "%s.so", bundle);
    hn_status status = hn_compiled_save(c->compiled, bundle);
    if (!status) status = hn_bundle_object_extract(bundle, 0, object);
    if (!status && !(c->object = dlopen(object, RTLD_NOW)))
        status = HN_ERROR(HN_IO, "%s", dlerror());
    unlink(bundle);
    unlink(object);
    return status;
}

static void *address(const chain *c, const hn_bundle *b, const int64_t *values, uint32_t buffer) {
    const hnb_buffer *f = &b->buffers[buffer];
    if (f->kind == HNB_BUFFER_INPUT) return hn_tensor_data(c->input);
    if (f->kind == HNB_BUFFER_OUTPUT) return hn_tensor_data(c->output);
    return (char *)c->memory + values[f->offset];
}

static hn_status resolve_step(chain *c, const hn_bundle *b, const int64_t *values, uint32_t at) {
    const hnb_step *step = &b->steps[at];
    if (step->kind != HNB_STEP_KERNEL || step->operand_count > MAX_BUFFERS)
        return HN_ERROR(HN_INTERNAL, "a step is no plain kernel");
    const char *name = hn_bundle_text(b, b->kernels[step->kernel].name);
    c->calls[c->call_count].fn = (hn_kernel_fn)dlsym(c->object, name);
    if (!c->calls[c->call_count].fn)
        return HN_ERROR(HN_INTERNAL, "no kernel '%s' in its object", name);
    c->calls[c->call_count].extent = values[hn_bundle_call_of(b, at, 0, 0).launch->extent];
    for (uint32_t k = 0; k < step->operand_count; k++)
        c->calls[c->call_count].buffers[k] =
            address(c, b, values, b->operands[step->operands + k].buffer);
    c->call_count++;
    return NULL;
}

static hn_status resolve(chain *c) {
    hn_bundle b;
    size_t len;
    const void *image = hn_compiled_image(c->compiled, &len);
    HN_TRY(hn_bundle_open(image, len, false, &b));
    int64_t *values = calloc(b.nodes_count + 1u, sizeof *values);
    uint8_t *bad = calloc(b.nodes_count + 1u, 1);
    c->calls = calloc(b.steps_count + 1u, sizeof *c->calls);
    hn_status status =
        values && bad && c->calls ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    if (!status) hn_bundle_eval(&b, NULL, 0, values, bad);
    /* values[0] is that of no expression: 0. */
    size_t workspace = status ? 0 : (size_t)values[hn_bundle_workspace(&b, HN_DEVICE_CPU)];
    if (!status && !(c->memory = aligned_alloc(64, (workspace + 127) / 64 * 64)))
        status = HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    for (uint32_t k = 0; !status && k < b.steps_count; k++) status = resolve_step(c, &b, values, k);
    free(values);
    free(bad);
    return status;
}

/* --- measuring --- */

static double bare_ns(const chain *c) {
    int64_t begin = hn_now_ns();
    for (uint32_t k = 0; k < c->call_count; k++)
        c->calls[k].fn(c->calls[k].buffers, NULL, 0, c->calls[k].extent, NULL);
    return (double)(hn_now_ns() - begin) / c->call_count;
}

static hn_status module_ns(const chain *c, double *out) {
    hn_tensor *output = c->output;
    int64_t begin = hn_now_ns();
    HN_TRY(hn_module_run(c->module, &c->input, 1, &output, 1));
    *out = (double)(hn_now_ns() - begin) / c->call_count;
    return NULL;
}

static hn_status measure(chain *c) {
    double module = 1e30, bare = 1e30;
    for (int k = 0; k < ROUNDS; k++) {
        double t;
        HN_TRY(module_ns(c, &t));
        if (t < module) module = t;
        t = bare_ns(c);
        if (t < bare) bare = t;
    }
    printf("{\"steps\": %u, \"module_ns\": %.2f, \"kernel_ns\": %.2f, \"above_ns\": %.2f}\n",
           c->call_count, module, bare, module - bare);
    return NULL;
}

int main(int argc, char **argv) {
    chain c = {.length = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000};
    const int64_t sizes[] = {WIDTH, WIDTH};
    hn_tensor_desc desc = {.type = HN_F32, .rank = 2, .sizes = sizes};
    hn_service *service = NULL;
    hn_status status =
        c.length % 2 ? HN_ERROR(HN_INVALID_ARGUMENT, "the number of kernels must be even") : NULL;
    if (!status) status = hn_service_create(&(hn_service_options){.cache_dir = ""}, &service);
    if (!status) status = build(&c, service);
    if (!status) status = hn_tensor_create(&desc, &c.input);
    if (!status) status = hn_tensor_create(&desc, &c.output);
    for (int k = 0; !status && k < WIDTH * WIDTH; k++)
        ((float *)hn_tensor_data(c.input))[k] = (float)k;
    if (!status) status = open_library(&c);
    if (!status) status = resolve(&c);
    if (!status) status = measure(&c);
    if (status) fprintf(stderr, "steps: %s\n", hn_status_message(status));
    int failed = status != NULL;
    hn_status_free(status);
    hn_tensor_release(c.input);
    hn_tensor_release(c.output);
    hn_module_release(c.module);
    hn_compiled_release(c.compiled);
    hn_service_destroy(service);
    if (c.object) dlclose(c.object);
    free(c.calls);
    free(c.memory);
    return failed;
}
