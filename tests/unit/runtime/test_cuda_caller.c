/* test_cuda_caller.c: what a host of Henry's has itself on a CUDA device: its own context, and an
 * allocator. On the stand-in for CUDA's driver. */
#define HN_FIXTURE_CUDA
#include "unit/runtime/module_fixture.h"

#include "base/cuda.h"
#include "support/cuda_standin.h"

#include <dlfcn.h>

#define SCALED                                                                                                            \
    "buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16) buffer b3 : output f32[4] bytes(16) " KERNELS    \
    "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) call k4(b2 f32, out b3 f32) extent(4) " \
    "output tensor \"y\" : f32[4] strides [1] in b3"

static cuda_standin *begin(hn_cuda *cuda) {
    cuda_standin *s = cuda_standin_find();
    if (!s) {
        hn_test_skip("this is another driver than the stand-in");
        return NULL;
    }
    cuda_standin_reset(s);
    EXPECT_OK(hn_cuda_load(cuda));
    return s;
}

static void expect_nothing_left(const cuda_standin *s) {
    EXPECT_INT(s->memories, 0);
    EXPECT_INT(s->pinned, 0);
    EXPECT_INT(s->streams, 0);
    EXPECT_INT(s->events, 0);
    EXPECT_INT(s->modules, 0);
    EXPECT_INT(s->pools, 0);
}

/* y = 4 * x of four numbers that begin with `first`. */
static void run_scaled(hn_module *m, float first) {
    float x[4];
    hn_tensor *out[1] = {NULL};
    for (int k = 0; k < 4; k++) x[k] = first + (float)k;
    hn_tensor *in[1] = {F32(x, 4)};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    const float *y = out[0] ? hn_tensor_data(out[0]) : NULL;
    for (int k = 0; k < 4 && y; k++) EXPECT(y[k] == 4 * x[k]);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
}

/* ---- contexts ---- */

typedef hn_cuda_result (*context_create_fn)(hn_cuda_context *out, unsigned flags, int device);
typedef hn_cuda_result (*context_destroy_fn)(hn_cuda_context context);

static void *function_of_driver(const char *name) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return handle ? dlsym(handle, name) : NULL;
}

/* A context of the host's on the device; it is not the current one. */
static hn_cuda_context make_context(const hn_cuda *cuda, int device) {
    void *symbol = function_of_driver("cuCtxCreate_v2");
    context_create_fn create;
    hn_cuda_context context = NULL, popped = NULL;
    memcpy(&create, &symbol, sizeof create);
    EXPECT(symbol && create(&context, 0, device) == 0);
    EXPECT_INT(cuda->cuCtxPopCurrent(&popped), 0);
    return context;
}

static void destroy_context(hn_cuda_context context) {
    void *symbol = function_of_driver("cuCtxDestroy_v2");
    context_destroy_fn destroy;
    memcpy(&destroy, &symbol, sizeof destroy);
    EXPECT(symbol && destroy(context) == 0);
}

/* The stand-in ends the program when something is left in a context that goes, and for a stream or
 * kernel of another context than the current one. */
TEST(a_context_of_the_caller) {
    hn_cuda cuda;
    hn_cuda_context current = NULL;
    cuda_standin *s = begin(&cuda);
    if (!s) return;
    hn_cuda_context own = make_context(&cuda, 0), other = make_context(&cuda, 0);
    EXPECT_INT(cuda.cuCtxPushCurrent(other), 0);
    hn_module *m = load_text(SCALED, &(hn_module_options){.device_context = own});
    for (int k = 0; k < 3 && m; k++) run_scaled(m, (float)k);
    EXPECT_INT(cuda.cuCtxGetCurrent(&current), 0);
    EXPECT(current == other);
    EXPECT_INT(s->contexts, 2); /* and no primary one */
    hn_module_release(m);
    EXPECT_INT(cuda.cuCtxPopCurrent(&current), 0);
    expect_nothing_left(s);
    destroy_context(own), destroy_context(other);
    EXPECT_INT(s->contexts, 0);
}

TEST(a_context_of_another_device) {
    hn_cuda cuda;
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    cuda_standin *s = begin(&cuda);
    if (!s) return;
    hn_cuda_context second = make_context(&cuda, 1);
    hn_module_options options = {.device_context = second};
    program_init(&p);
    EXPECT_OK(program_image(&p, SCALED, NULL, &image));
    EXPECT_ERROR(
        hn_module_load_memory(image.ptr, image.len, false, &options, &m), HN_INVALID_ARGUMENT,
        "the context given is of cuda:1, but the module is to run on cuda:0; name the device");
    options.device = "cuda:1";
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false, &options, &m));
    if (m) run_scaled(m, 1);
    hn_module_release(m);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    expect_nothing_left(s);
    destroy_context(second);
}

/* ---- an allocator ---- */

/* Memory of the driver, in the current context, and what was asked for. */
typedef struct counter {
    const hn_cuda *cuda;
    hn_cuda_context context; /* that is to be current */
    long calls, alive;
    size_t bytes;   /* alive */
    long refuse_at; /* this call gives none; 0: all give some */
    size_t shift;   /* added to the address */
    void *stream;
} counter;

static void check_call(counter *c, void *stream) {
    hn_cuda_context current = NULL;
    EXPECT_INT(c->cuda->cuCtxGetCurrent(&current), 0);
    if (!c->context) c->context = current;
    EXPECT(current && current == c->context);
    if (!c->stream) c->stream = stream;
    EXPECT(stream && stream == c->stream);
}

static void *count_alloc(void *context, size_t bytes, void *stream) {
    counter *c = context;
    hn_cuda_address at = 0;
    check_call(c, stream);
    if (++c->calls == c->refuse_at || c->cuda->cuMemAlloc(&at, bytes) != 0) return NULL;
    c->alive++;
    c->bytes += bytes;
    return (void *)(uintptr_t)(at + c->shift);
}

static void count_free(void *context, void *memory, size_t bytes, void *stream) {
    counter *c = context;
    check_call(c, stream);
    c->alive--;
    c->bytes -= bytes;
    EXPECT_INT(c->cuda->cuMemFree((uintptr_t)memory - c->shift), 0);
}

static hn_device_allocator allocator_of(counter *c) {
    return (hn_device_allocator){.context = c, .alloc = count_alloc, .free = count_free};
}

TEST(all_memory_of_the_device_is_the_callers) {
    hn_cuda cuda;
    cuda_standin *s = begin(&cuda);
    counter c = {.cuda = &cuda};
    const hn_device_allocator allocator = allocator_of(&c);
    if (!s) return;
    hn_module *m = load_text(SCALED, &(hn_module_options){.device_allocator = &allocator});
    for (int k = 0; k < 3 && m; k++) run_scaled(m, (float)k);
    EXPECT(c.alive > 3 && c.alive == s->memories && c.bytes == s->memory && !s->pools);
    const long calls = c.calls;
    if (m) run_scaled(m, 1);
    EXPECT_INT(c.calls, calls); /* a run with known sizes asks for nothing */
    hn_module_release(m);
    EXPECT(!c.alive && !c.bytes);
    expect_nothing_left(s);
}

/* It counts against the limit, too. */
TEST(an_allocator_with_a_limit) {
    hn_cuda cuda;
    cuda_standin *s = begin(&cuda);
    counter c = {.cuda = &cuda};
    const hn_device_allocator allocator = allocator_of(&c);
    if (!s) return;
    hn_module *m = load_text(
        SCALED, &(hn_module_options){.device_allocator = &allocator, .device_memory_bytes = 200});
    float x[4] = {0};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    if (m) EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_OUT_OF_MEMORY, "");
    EXPECT(c.bytes <= 200 + 64);
    hn_tensor_release(in[0]);
    hn_module_release(m);
    EXPECT(!c.alive && !c.bytes);
    expect_nothing_left(s);
}

/* Each call that fails is an error of the load or of the run, and the module is as good as
 * before. */
TEST(an_allocator_that_refuses) {
    hn_cuda cuda;
    cuda_standin *s = begin(&cuda);
    bool was_refused = true;
    if (!s) return;
    for (long at = 1; was_refused && at < 50; at++) {
        counter c = {.cuda = &cuda, .refuse_at = at};
        const hn_device_allocator allocator = allocator_of(&c);
        const hn_module_options options = {.device_allocator = &allocator};
        program p;
        hn_strbuf image;
        hn_module *m = NULL;
        float x[4] = {0};
        hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
        program_init(&p);
        EXPECT_OK(program_image(&p, SCALED, NULL, &image));
        hn_status status = hn_module_load_memory(image.ptr, image.len, false, &options, &m);
        if (!status) status = hn_module_run(m, in, 1, out, 1);
        was_refused = c.calls >= at;
        EXPECT_INT(hn_status_code(status), was_refused ? HN_OUT_OF_MEMORY : HN_OK);
        hn_status_free(status);
        if (m) run_scaled(m, 1);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
        hn_module_release(m);
        EXPECT(!c.alive && !c.bytes);
        hn_strbuf_deinit(&image);
        program_deinit(&p);
    }
    EXPECT(!was_refused);
    expect_nothing_left(s);
}

static hn_status load_with(const hn_device_allocator *allocator) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    program_init(&p);
    EXPECT_OK(program_image(&p, SCALED, NULL, &image));
    hn_status status = hn_module_load_memory(
        image.ptr, image.len, false, &(hn_module_options){.device_allocator = allocator}, &m);
    hn_module_release(m);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    return status;
}

TEST(allocators_that_cannot_be_used) {
    hn_cuda cuda;
    cuda_standin *s = begin(&cuda);
    counter c = {.cuda = &cuda, .shift = 64};
    hn_device_allocator odd = allocator_of(&c);
    if (!s) return;
    EXPECT_ERROR(load_with(&odd), HN_OUT_OF_MEMORY,
                 "the caller's allocator gave an address that is no multiple of 256");
    EXPECT(!c.alive && !c.bytes);
    odd.free = NULL;
    EXPECT_ERROR(load_with(&odd), HN_INVALID_ARGUMENT, "the device allocator has no 'free'");
    odd = (hn_device_allocator){.free = count_free};
    EXPECT_ERROR(load_with(&odd), HN_INVALID_ARGUMENT, "the device allocator has no 'alloc'");
    expect_nothing_left(s);
}

TEST_MAIN
