/* bench_conv.c: float convolutions of known networks by layer, against the oneDNN of the system.
 *
 *   bench_conv [-c] [-o] [-r] THREADS [resnet50 | mobilenet | vit] [index of a layer ...]
 *
 * -c: weights come from memory, as in a network whose weights no cache holds; else everything
 *     stays in cache.
 * -o: ours alone.
 * -r: a residual is added, ours alone.
 * Microseconds, best of many runs; GFLOP/s of the direct sum (so Winograd's may exceed what the
 * machine can do); the last line is the network: layers times how often they occur. oneDNN has the
 * layouts that it likes best. */
#include "bench.h"
#include "ops/cpu/conv/conv.h"
#include "henry/tensor.h"

#if __has_include(<oneapi/dnnl/dnnl.h>)
#define HAVE_DNNL 1
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#endif

/* more than any cache; of small weights no more than that */
enum { COLD_BYTES = 80 << 20, MAX_COPIES = 64 };

typedef struct layer {
    const char *network;
    int count, c, o, groups, in, kernel, stride, padding;
} layer;

static const layer layers[] = {
    {"resnet50", 1, 3, 64, 1, 224, 7, 2, 3},      {"resnet50", 1, 64, 64, 1, 56, 1, 1, 0},
    {"resnet50", 3, 64, 64, 1, 56, 3, 1, 1},      {"resnet50", 4, 64, 256, 1, 56, 1, 1, 0},
    {"resnet50", 2, 256, 64, 1, 56, 1, 1, 0},     {"resnet50", 1, 256, 128, 1, 56, 1, 1, 0},
    {"resnet50", 1, 128, 128, 1, 56, 3, 2, 1},    {"resnet50", 4, 128, 512, 1, 28, 1, 1, 0},
    {"resnet50", 1, 256, 512, 1, 56, 1, 2, 0},    {"resnet50", 3, 512, 128, 1, 28, 1, 1, 0},
    {"resnet50", 3, 128, 128, 1, 28, 3, 1, 1},    {"resnet50", 1, 512, 256, 1, 28, 1, 1, 0},
    {"resnet50", 1, 256, 256, 1, 28, 3, 2, 1},    {"resnet50", 6, 256, 1024, 1, 14, 1, 1, 0},
    {"resnet50", 1, 512, 1024, 1, 28, 1, 2, 0},   {"resnet50", 5, 1024, 256, 1, 14, 1, 1, 0},
    {"resnet50", 5, 256, 256, 1, 14, 3, 1, 1},    {"resnet50", 1, 1024, 512, 1, 14, 1, 1, 0},
    {"resnet50", 1, 512, 512, 1, 14, 3, 2, 1},    {"resnet50", 3, 512, 2048, 1, 7, 1, 1, 0},
    {"resnet50", 1, 1024, 2048, 1, 14, 1, 2, 0},  {"resnet50", 2, 2048, 512, 1, 7, 1, 1, 0},
    {"resnet50", 2, 512, 512, 1, 7, 3, 1, 1},     {"vit", 1, 3, 768, 1, 224, 16, 16, 0},
    {"mobilenet", 1, 3, 16, 1, 224, 3, 2, 1},     {"mobilenet", 1, 16, 16, 16, 112, 3, 1, 1},
    {"mobilenet", 1, 16, 16, 1, 112, 1, 1, 0},    {"mobilenet", 1, 16, 64, 1, 112, 1, 1, 0},
    {"mobilenet", 1, 64, 64, 64, 112, 3, 2, 1},   {"mobilenet", 1, 64, 24, 1, 56, 1, 1, 0},
    {"mobilenet", 2, 24, 72, 1, 56, 1, 1, 0},     {"mobilenet", 1, 72, 72, 72, 56, 3, 1, 1},
    {"mobilenet", 1, 72, 24, 1, 56, 1, 1, 0},     {"mobilenet", 1, 72, 72, 72, 56, 5, 2, 2},
    {"mobilenet", 1, 72, 24, 1, 1, 1, 1, 0},      {"mobilenet", 1, 24, 72, 1, 1, 1, 1, 0},
    {"mobilenet", 1, 72, 40, 1, 28, 1, 1, 0},     {"mobilenet", 2, 40, 120, 1, 28, 1, 1, 0},
    {"mobilenet", 2, 120, 120, 120, 28, 5, 1, 2}, {"mobilenet", 2, 120, 32, 1, 1, 1, 1, 0},
    {"mobilenet", 2, 120, 40, 1, 28, 1, 1, 0},    {"mobilenet", 1, 40, 240, 1, 28, 1, 1, 0},
    {"mobilenet", 1, 240, 240, 240, 28, 3, 2, 1}, {"mobilenet", 1, 240, 80, 1, 14, 1, 1, 0},
    {"mobilenet", 3, 80, 200, 1, 14, 1, 1, 0},    {"mobilenet", 3, 200, 200, 200, 14, 3, 1, 1},
    {"mobilenet", 3, 200, 80, 1, 14, 1, 1, 0},    {"mobilenet", 1, 80, 480, 1, 14, 1, 1, 0},
    {"mobilenet", 1, 480, 480, 480, 14, 3, 1, 1}, {"mobilenet", 1, 480, 112, 1, 14, 1, 1, 0},
    {"mobilenet", 2, 112, 672, 1, 14, 1, 1, 0},   {"mobilenet", 1, 672, 672, 672, 14, 3, 1, 1},
    {"mobilenet", 1, 672, 672, 672, 14, 5, 2, 2}, {"mobilenet", 2, 672, 168, 1, 1, 1, 1, 0},
    {"mobilenet", 1, 672, 160, 1, 7, 1, 1, 0},    {"mobilenet", 3, 160, 960, 1, 7, 1, 1, 0},
    {"mobilenet", 2, 960, 960, 960, 7, 5, 1, 2},  {"mobilenet", 2, 960, 240, 1, 1, 1, 1, 0},
    {"mobilenet", 2, 960, 160, 1, 7, 1, 1, 0}};

static int64_t out_of(const layer *l) {
    return (l->in + 2 * l->padding - l->kernel) / l->stride + 1;
}

static int copies_of(const layer *l, bool cold) {
    double bytes = 4.0 * l->o * l->c / l->groups * l->kernel * l->kernel;
    return !cold ? 1 : bytes * MAX_COPIES < COLD_BYTES ? MAX_COPIES : (int)(COLD_BYTES / bytes) + 1;
}

/* ---- ours ---- */

typedef struct conv_run {
    hn_ext_call calls[MAX_COPIES]; /* the same but for the weights */
    int count, next;
    void *scratch;
} conv_run;

static void run_ours(void *user) {
    conv_run *r = user;
    const hn_ext_call *call = &r->calls[r->next];
    r->next = (r->next + 1) % r->count;
    hn_status_free(call->impl->run(call, r->scratch));
}

static void must(hn_status status) {
    if (!status) return;
    fprintf(stderr, "%s\n", hn_status_message(status));
    exit(1);
}

static double measure_ours(const layer *l, int threads, bool cold, bool add, double budget) {
    int64_t out = out_of(l), in = l->in, k = l->kernel, cg = l->c / l->groups;
    int64_t p[HN_CONV_PARAM_COUNT] = {1,
                                      l->c,
                                      l->o,
                                      l->groups,
                                      1,
                                      in,
                                      in,
                                      1,
                                      k,
                                      k,
                                      1,
                                      out,
                                      out,
                                      1,
                                      l->stride,
                                      l->stride,
                                      0,
                                      l->padding,
                                      l->padding,
                                      1,
                                      1,
                                      1,
                                      0,
                                      l->c * in * in,
                                      in * in,
                                      in * in,
                                      in,
                                      1,
                                      cg * k * k,
                                      k * k,
                                      k * k,
                                      k,
                                      1,
                                      l->o * out * out,
                                      out * out,
                                      out * out,
                                      out,
                                      1,
                                      HN_EPILOGUE_RELU,
                                      1};
    hn_ext_shared *shared;
    must(hn_ext_shared_create(&shared));
    static conv_run r;
    r = (conv_run){.count = copies_of(l, cold)};
    float *y = bench_floats((size_t)(l->o * out * out), 1),
          *x = bench_floats((size_t)(l->c * in * in), 2), *bias = bench_floats((size_t)l->o, 4);
    float *residual = add ? bench_floats((size_t)(l->o * out * out), 6) : NULL;
    memcpy(p + HN_CONV_RESIDUAL, p + HN_CONV_OUT, 5 * sizeof *p);
    for (int i = 0; i < r.count; i++) {
        r.calls[i] = (hn_ext_call){.kind = HN_EXTERN_CONV,
                                   .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32},
                                   .is_constant = {[2] = true},
                                   .params = p,
                                   .param_count = HN_CONV_PARAM_COUNT,
                                   .threads = threads,
                                   .team = &bench_team,
                                   .shared = shared};
        r.calls[i].operands[0] = y, r.calls[i].operands[1] = NULL, r.calls[i].operands[3] = NULL;
        r.calls[i].operands[2] = bench_floats((size_t)(l->o * cg * k * k), 3 + (unsigned)i);
        if (add) r.calls[i].dtypes[4] = HN_F32;
        must(hn_ext_prepare(&r.calls[i]));
        r.calls[i].operands[1] = x, r.calls[i].operands[3] = bias,
        r.calls[i].operands[4] = residual;
    }
    r.scratch = bench_floats(r.calls[0].scratch_bytes / 4 + 16, 5);
    /* weights may be laid out in the second run */
    for (int i = 0; i < 2 * r.count; i++) run_ours(&r);
    double best = bench_best(run_ours, &r, threads, budget);
    for (int i = 0; i < r.count; i++) hn_ext_release(&r.calls[i]), free(r.calls[i].operands[2]);
    hn_ext_shared_destroy(shared);
    free(x), free(y), free(bias), free(residual), free(r.scratch);
    return best;
}

/* ---- oneDNN ---- */

#ifdef HAVE_DNNL
static void *dnnl;
#define DNNL(function) ((__typeof__(function) *)dlsym(dnnl, #function))

typedef struct dnnl_run {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[4];
    dnnl_memory_t weights[MAX_COPIES];
    int count, next;
    __typeof__(dnnl_primitive_execute) *execute;
    __typeof__(dnnl_stream_wait) *wait;
} dnnl_run;

static void run_dnnl(void *user) {
    dnnl_run *r = user;
    r->args[1].memory = r->weights[r->next];
    r->next = (r->next + 1) % r->count;
    r->execute(r->primitive, r->stream, 4, r->args);
    r->wait(r->stream);
}

/* Owns: nothing is freed; the process is short. */
static dnnl_memory_t dnnl_buffer(dnnl_engine_t engine, dnnl_primitive_desc_t pd, dnnl_query_t query,
                                 int index) {
    const dnnl_memory_desc_t *md = DNNL(dnnl_primitive_desc_query_md)(pd, query, index);
    dnnl_memory_t memory;
    DNNL(dnnl_memory_create)
    (&memory, md, engine, bench_floats(DNNL(dnnl_memory_desc_get_size)(md) / 4 + 16, 7));
    return memory;
}

static dnnl_primitive_desc_t describe_dnnl(const layer *l, dnnl_engine_t engine) {
    dnnl_dims_t xd = {1, l->c, l->in, l->in}, yd = {1, l->o, out_of(l), out_of(l)}, bd = {l->o};
    dnnl_dims_t wd = {l->groups, l->o / l->groups, l->c / l->groups, l->kernel, l->kernel};
    dnnl_dims_t s = {l->stride, l->stride}, pad = {l->padding, l->padding};
    dnnl_memory_desc_t x, w, y, b;
    DNNL(dnnl_memory_desc_init_by_tag)(&x, 4, xd, dnnl_f32, dnnl_format_tag_any);
    DNNL(dnnl_memory_desc_init_by_tag)
    (&w, l->groups > 1 ? 5 : 4, l->groups > 1 ? wd : wd + 1, dnnl_f32, dnnl_format_tag_any);
    DNNL(dnnl_memory_desc_init_by_tag)(&y, 4, yd, dnnl_f32, dnnl_format_tag_any);
    DNNL(dnnl_memory_desc_init_by_tag)(&b, 1, bd, dnnl_f32, dnnl_x);
    dnnl_convolution_desc_t cd;
    DNNL(dnnl_convolution_forward_desc_init)
    (&cd, dnnl_forward_inference, dnnl_convolution_auto, &x, &w, &b, &y, s, pad, pad);
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    DNNL(dnnl_primitive_attr_create)(&attr);
    DNNL(dnnl_post_ops_create)(&ops);
    DNNL(dnnl_post_ops_append_eltwise)(ops, 1.0f, dnnl_eltwise_relu, 0, 0);
    DNNL(dnnl_primitive_attr_set_post_ops)(attr, ops);
    dnnl_primitive_desc_t pd = NULL;
    DNNL(dnnl_primitive_desc_create)(&pd, &cd, attr, engine, NULL);
    return pd;
}

static double measure_dnnl(const layer *l, int threads, bool cold, double budget) {
    if (!dnnl) dnnl = dlopen("libdnnl.so.2", RTLD_NOW);
    if (!dnnl) return NAN;
    static dnnl_run r;
    r = (dnnl_run){.count = copies_of(l, cold),
                   .execute = DNNL(dnnl_primitive_execute),
                   .wait = DNNL(dnnl_stream_wait)};
    dnnl_engine_t engine;
    DNNL(dnnl_engine_create)(&engine, dnnl_cpu, 0);
    DNNL(dnnl_stream_create)(&r.stream, engine, dnnl_stream_default_flags);
    dnnl_primitive_desc_t pd = describe_dnnl(l, engine);
    if (!pd) return NAN;
    DNNL(dnnl_primitive_create)(&r.primitive, pd);
    r.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, dnnl_buffer(engine, pd, dnnl_query_src_md, 0)};
    r.args[1].arg = DNNL_ARG_WEIGHTS;
    for (int i = 0; i < r.count; i++)
        r.weights[i] = dnnl_buffer(engine, pd, dnnl_query_weights_md, 0);
    r.args[2] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, dnnl_buffer(engine, pd, dnnl_query_weights_md, 1)};
    r.args[3] = (dnnl_exec_arg_t){DNNL_ARG_DST, dnnl_buffer(engine, pd, dnnl_query_dst_md, 0)};
    double best = bench_best(run_dnnl, &r, threads, budget);
    for (int i = 0; i < r.count; i++) {
        void *data;
        DNNL(dnnl_memory_get_data_handle)(r.weights[i], &data);
        free(data);
    }
    return best;
}
#else
static double measure_dnnl(const layer *l, int threads, bool cold, double budget) {
    return (void)l, (void)threads, (void)cold, (void)budget, NAN;
}
#endif

/* ---- */

static bool is_asked_for(int index, int count, char **numbers) {
    for (int i = 0; i < count; i++)
        if (atoi(numbers[i]) == index) return true;
    return count <= 0;
}

int main(int argc, char **argv) {
    bool cold = false, ours_alone = false, add = false;
    for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
        if (strcmp(argv[1], "-c") == 0) cold = true;
        if (strcmp(argv[1], "-o") == 0) ours_alone = true;
        if (strcmp(argv[1], "-r") == 0) add = ours_alone = true;
    }
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *network = argc > 2 ? argv[2] : "resnet50";
    double sum = 0, sum_dnnl = 0;
    printf("kernels %s, %d threads, weights from %s\n", hn_ext_kernels_get()->name, threads,
           cold ? "memory" : "cache");
    printf(" # |    c    o size k s      | times |  us    GFLOP/s | oneDNN us | ratio\n");
    for (int i = 0; i < (int)(sizeof layers / sizeof *layers); i++) {
        const layer *l = &layers[i];
        if (strcmp(l->network, network) != 0 || !is_asked_for(i, argc - 3, argv + 3)) continue;
        double flops =
            2.0 * l->c / l->groups * l->o * (double)(out_of(l) * out_of(l)) * l->kernel * l->kernel;
        double t = measure_ours(l, threads, cold, add, 0.08),
               d = ours_alone ? NAN : measure_dnnl(l, threads, cold, 0.08);
        sum += t * l->count, sum_dnnl += d * l->count;
        printf("%2d | %4d %4d %4d %d %d %s | %5d | %6.1f %6.1f | %6.1f | %4.2f\n", i, l->c, l->o,
               l->in, l->kernel, l->stride, l->groups > 1 ? "each" : "    ", l->count, t * 1e6,
               flops / t * 1e-9, d * 1e6, t / d);
        fflush(stdout);
    }
    printf("network %.3f ms, oneDNN %.3f ms\n", sum * 1e3, sum_dnnl * 1e3);
    return 0;
}
