/* test_cuda_overhead.c: what a launch costs the host in the row of CUDA, above the driver's call,
 * and what a run costs above its launches and a wait. It prints figures: with the driver's own
 * function, and with one that does nothing in its place, which is what the row takes itself. With
 * the stand-in for the driver only the latter means something; tests/unit/runtime/cuda_row.h says
 * how a real driver is found. */
#define HN_FIXTURE_CUDA
#include "unit/runtime/module_fixture.h"

#include "base/trace.h"
#include "runtime/device/cuda.h"
#include "runtime/device/rows.h"
#include "runtime/module_impl.h"
#include "support/cuda_standin.h"

#include <stdlib.h>

enum { ROUNDS = 41, LAUNCHES = 256, ARGS_MAX = 200 };

static hn_cuda_result launch_nothing(hn_cuda_function function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, unsigned shared_bytes, hn_cuda_stream stream,
                                     void **params, void **extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y,
        (void)block_z, (void)shared_bytes, (void)stream, (void)params, (void)extra;
    return HN_CUDA_SUCCESS;
}

/* A kernel with so many addresses, a word and a number, as the stand-in or as PTX has it. */
static void put_kernel(uint32_t args, hn_strbuf *out) {
    hn_strbuf_init(out);
    if (cuda_standin_find()) {
        hn_strbuf_printf(out, "standin\nidle %u 0 1024\n", args + 2);
        return;
    }
    hn_strbuf_puts(out, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry idle(");
    for (uint32_t k = 0; k < args + 2; k++)
        hn_strbuf_printf(out, "%s.param .u64 p%u", k ? ", " : "", k);
    hn_strbuf_puts(out, ") { ret; }\n");
}

typedef struct bench {
    cuda_dev *dev;
    const hn_device_ops *ops;
    hn_queue *queue;
    hn_device_program *code;
    hn_device_launch launch;
    void *args[ARGS_MAX], *entries[ARGS_MAX + 3];
    long long param;
    hn_device_layout layout;
} bench;

static hn_status open_bench(uint32_t args, bench *b) {
    hn_strbuf text;
    hn_dev *dev = NULL;
    void *kernel;
    HN_TRY(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &dev));
    b->dev = (cuda_dev *)dev;
    b->ops = dev->ops;
    put_kernel(args, &text);
    hn_status status = b->ops->queue_create(dev, &(hn_queue_options){.step_count = 1}, &b->queue);
    if (!status) status = b->ops->load(dev, text.ptr, text.len, "idle", &b->code);
    if (!status) status = b->ops->find(b->code, "idle", &kernel);
    hn_strbuf_deinit(&text);
    HN_TRY(status);
    void *memory = b->ops->alloc(dev, 64);
    for (uint32_t k = 0; k < args; k++) b->args[k] = memory;
    b->launch = (hn_device_launch){.kernel = kernel,
                                   .args = b->args,
                                   .arg_count = args,
                                   .params = &b->param,
                                   .param_count = 1,
                                   .extent = 1,
                                   .groups = {1, 1, 1},
                                   .threads = {32, 1, 1},
                                   .layout = &b->layout};
    b->layout.entries = b->entries;
    return NULL;
}

static void close_bench(bench *b) {
    if (!b->dev) return;
    b->ops->free(&b->dev->base, b->args[0]);
    b->ops->unload(b->code);
    b->ops->queue_destroy(b->queue);
    hn_dev_release(&b->dev->base);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double launch_by_row(bench *b) {
    hn_device_fault fault;
    const int64_t begin = hn_now_ns();
    for (int k = 0; k < LAUNCHES; k++) {
        hn_status status = b->ops->launch(b->queue, &b->launch, &fault);
        if (status) EXPECT_OK(status);
    }
    return (double)(hn_now_ns() - begin) / LAUNCHES;
}

/* The same call, with its arguments laid out before. */
static double launch_bare(bench *b) {
    void *params[ARGS_MAX + 2];
    const uint32_t count = b->launch.arg_count;
    cuda_queue *q = (cuda_queue *)b->queue;
    cuda_kernel *kernel = b->launch.kernel;
    for (uint32_t k = 0; k < count; k++) params[k] = &b->args[k];
    params[count] = &q->words_at;
    params[count + 1] = &b->param;
    const int64_t begin = hn_now_ns();
    for (int k = 0; k < LAUNCHES; k++)
        EXPECT_INT(b->dev->cuda.cuLaunchKernel(kernel->function, 1, 1, 1, 32, 1, 1, 0, q->stream,
                                               params, NULL),
                   0);
    return (double)(hn_now_ns() - begin) / LAUNCHES;
}

/* Medians of rounds that take turns; between rounds the queue is finished. */
static void measure(bench *b, double *out_row, double *out_bare) {
    double row[ROUNDS], bare[ROUNDS];
    hn_device_fault fault;
    for (int k = 0; k < ROUNDS; k++) {
        row[k] = launch_by_row(b);
        EXPECT_OK(b->ops->finish(b->queue, &fault));
        bare[k] = launch_bare(b);
        EXPECT_OK(b->ops->finish(b->queue, &fault));
    }
    qsort(row, ROUNDS, sizeof *row, compare);
    qsort(bare, ROUNDS, sizeof *bare, compare);
    *out_row = row[ROUNDS / 2];
    *out_bare = bare[ROUNDS / 2];
}

static void measure_args(uint32_t args) {
    bench b = {.dev = NULL};
    double row, bare, own, none;
    hn_status status = open_bench(args, &b);
    if (hn_status_code(status) == HN_NOT_FOUND) {
        hn_test_lacks(status);
        return;
    }
    EXPECT_OK(status);
    for (int has_context = 0; !status && has_context < 2; has_context++) {
        /* with the context current, as in a program that uses CUDA itself, and without */
        if (has_context) (void)b.dev->cuda.cuCtxPushCurrent(b.dev->context);
        const hn_cuda real = b.dev->cuda;
        b.dev->cuda.cuLaunchKernel = launch_nothing;
        measure(&b, &own, &none);
        b.dev->cuda = real;
        if (!has_context) (void)b.dev->cuda.cuCtxPushCurrent(b.dev->context);
        measure(&b, &row, &bare);
        if (!has_context) (void)b.dev->cuda.cuCtxPopCurrent(&(hn_cuda_context){NULL});
        fprintf(stderr,
                "note: a launch with %u addresses, context %s: the row takes %.0f ns; %.0f ns "
                "with the driver's call, which alone takes %.0f\n",
                args, has_context ? "current" : "not current", own - none, row, bare);
        if (has_context) (void)b.dev->cuda.cuCtxPopCurrent(&(hn_cuda_context){NULL});
    }
    close_bench(&b);
}

TEST(launches) {
    measure_args(3);
    measure_args(20);
    measure_args(ARGS_MAX);
}

/* ---- runs: all that the runtime does, with a driver whose launches and waits do nothing ---- */

static hn_cuda_result wait_for_nothing(hn_cuda_stream stream) {
    (void)stream;
    return HN_CUDA_SUCCESS;
}

#define CHAIN_BEGIN                                                                                \
    "buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16) "                         \
    "buffer b3 : temp f32[4] bytes(16) buffer b4 : output f32[4] bytes(16) " KERNELS               \
    "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) "
#define TWO_MORE "call k4(b2 f32, out b3 f32) extent(4) call k4(b3 f32, out b2 f32) extent(4) "
#define CHAIN_END                                                                                  \
    "call k4(b2 f32, out b4 f32) extent(4) output tensor \"y\" : f32[4] strides [1] in b4"

static hn_tensor *there(void *data) {
    const int64_t count = 4;
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32,
                                                 .rank = 1,
                                                 .sizes = &count,
                                                 .data = data,
                                                 .device = {HN_DEVICE_CUDA, 0}},
                               &t));
    return t;
}

/* Runs that write to a given output, or make one. */
static double time_runs(hn_module *m, hn_tensor *in, hn_tensor *given) {
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t begin = hn_now_ns();
        for (int k = 0; k < LAUNCHES; k++) {
            hn_tensor *out = given;
            EXPECT_OK(hn_module_run_with(m, &(hn_run_options){.device_outputs = !given}, &in, 1,
                                         &out, 1));
            if (!given) hn_tensor_release(out);
        }
        times[round] = (double)(hn_now_ns() - begin) / LAUNCHES;
    }
    qsort(times, ROUNDS, sizeof *times, compare);
    return times[ROUNDS / 2];
}

static void measure_runs(const char *text, uint32_t launches) {
    hn_module *m = cuda_standin_find() ? load_text(text, NULL) : NULL;
    if (!m) return; /* a real driver does not know the kernels */
    cuda_dev *d = (cuda_dev *)m->device;
    void *memory = d->base.ops->alloc(&d->base, 128);
    hn_tensor *in = there(memory), *out = there((uint8_t *)memory + 64);
    EXPECT_OK(hn_module_run(m, &in, 1, &out, 1));
    const hn_cuda real = d->cuda;
    (void)real.cuCtxPushCurrent(d->context);
    d->cuda.cuLaunchKernel = launch_nothing;
    d->cuda.cuStreamSynchronize = wait_for_nothing;
    const double given_ns = time_runs(m, in, out), made_ns = time_runs(m, in, NULL);
    d->cuda = real;
    (void)real.cuCtxPopCurrent(&(hn_cuda_context){NULL});
    fprintf(stderr,
            "note: a run of %u launches, tensors on the device: %.0f ns without the driver; %.0f "
            "with an output that is made and released\n",
            launches, given_ns, made_ns);
    hn_tensor_release(in), hn_tensor_release(out);
    d->base.ops->free(&d->base, memory);
    hn_module_release(m);
}

/* ---- the same as a CUDA graph ---- */

static hn_cuda_result launch_no_graph(hn_cuda_graph_exec exec, hn_cuda_stream stream) {
    (void)exec, (void)stream;
    return HN_CUDA_SUCCESS;
}

static hn_cuda_result set_no_node(hn_cuda_graph_exec exec, hn_cuda_graph_node node,
                                  const hn_cuda_kernel_node *params) {
    (void)exec, (void)node, (void)params;
    return HN_CUDA_SUCCESS;
}

/* Runs whose outputs take turns: of one nothing changes, of four each has a graph, of more an
 * address is exchanged each time. */
static double time_turns(hn_module *m, hn_tensor *in, hn_tensor *const *outs, uint32_t count) {
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t begin = hn_now_ns();
        for (uint32_t k = 0; k < LAUNCHES; k++) {
            hn_tensor *out = outs[k % count];
            EXPECT_OK(hn_module_run_with(m, NULL, &in, 1, &out, 1));
        }
        times[round] = (double)(hn_now_ns() - begin) / LAUNCHES;
    }
    qsort(times, ROUNDS, sizeof *times, compare);
    return times[ROUNDS / 2];
}

static void measure_graphs(const char *text, uint32_t launches) {
    enum { TURNS = 8 };
    hn_module *m =
        cuda_standin_find() ? load_text(text, &(hn_module_options){.device_graphs = true}) : NULL;
    if (!m) return;
    cuda_dev *d = (cuda_dev *)m->device;
    uint8_t *memory = d->base.ops->alloc(&d->base, (TURNS + 1) * 64);
    hn_tensor *in = there(memory + (size_t)TURNS * 64), *outs[TURNS];
    for (size_t k = 0; k < TURNS; k++) outs[k] = there(memory + k * 64);
    for (uint32_t k = 0; k < TURNS; k++)
        EXPECT_OK(hn_module_run(m, &in, 1, (hn_tensor *[]){outs[k]}, 1));
    const hn_cuda real = d->cuda;
    (void)real.cuCtxPushCurrent(d->context);
    d->cuda.cuGraphLaunch = launch_no_graph;
    d->cuda.cuGraphExecKernelNodeSetParams = set_no_node;
    d->cuda.cuStreamSynchronize = wait_for_nothing;
    const double same_ns = time_turns(m, in, outs, 1), other_ns = time_turns(m, in, outs, TURNS);
    d->cuda = real;
    (void)real.cuCtxPopCurrent(&(hn_cuda_context){NULL});
    fprintf(stderr,
            "note: a graph of %u launches, tensors on the device: %.0f ns without the driver; %.0f "
            "with another output each time\n",
            launches, same_ns, other_ns);
    hn_tensor_release(in);
    for (size_t k = 0; k < TURNS; k++) hn_tensor_release(outs[k]);
    d->base.ops->free(&d->base, memory);
    hn_module_release(m);
}

TEST(runs) {
    measure_runs(CHAIN_BEGIN CHAIN_END, 2);
    measure_runs(CHAIN_BEGIN TWO_MORE TWO_MORE TWO_MORE TWO_MORE TWO_MORE TWO_MORE TWO_MORE TWO_MORE
                     TWO_MORE CHAIN_END,
                 20);
}

TEST(graphs) {
    measure_graphs(CHAIN_BEGIN CHAIN_END, 2);
    measure_graphs(CHAIN_BEGIN TWO_MORE TWO_MORE TWO_MORE TWO_MORE TWO_MORE TWO_MORE TWO_MORE
                       TWO_MORE TWO_MORE CHAIN_END,
                   20);
}

TEST_MAIN
