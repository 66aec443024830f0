/* bench_conv.c: float convolutions of known networks, against oneDNN where it is there.
 *
 *   gcc -O3 -std=gnu17 -D_GNU_SOURCE -DHAVE_DNNL -fopenmp -Iinclude -Isrc bench/ext/bench_conv.c bench/ext/bench_call.c \
 *       src/runtime/ext_*.c src/bundle/names.c src/base/{status,hash,str,arena}.c ... -ldnnl -lm -o bench_conv
 *   ./bench_conv [threads] [resnet50 | mobilenet | vit] [index of one layer]
 *
 * Milliseconds and GFLOP/s (of the direct sum) per layer, and the sum over the network: layers times how often they occur. */
#include "bench.h"
#include "runtime/ext_conv.h"
#include "henry/tensor.h"

#ifdef HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

typedef struct layer {
    const char *network;
    int count, c, o, groups, in, kernel, stride, padding;
} layer;

static const layer layers[] = {
    {"resnet50", 1, 3, 64, 1, 224, 7, 2, 3},     {"resnet50", 1, 64, 64, 1, 56, 1, 1, 0},    {"resnet50", 3, 64, 64, 1, 56, 3, 1, 1},
    {"resnet50", 4, 64, 256, 1, 56, 1, 1, 0},    {"resnet50", 2, 256, 64, 1, 56, 1, 1, 0},   {"resnet50", 1, 256, 128, 1, 56, 1, 1, 0},
    {"resnet50", 1, 128, 128, 1, 56, 3, 2, 1},   {"resnet50", 4, 128, 512, 1, 28, 1, 1, 0},  {"resnet50", 1, 256, 512, 1, 56, 1, 2, 0},
    {"resnet50", 3, 512, 128, 1, 28, 1, 1, 0},   {"resnet50", 3, 128, 128, 1, 28, 3, 1, 1},  {"resnet50", 1, 512, 256, 1, 28, 1, 1, 0},
    {"resnet50", 1, 256, 256, 1, 28, 3, 2, 1},   {"resnet50", 6, 256, 1024, 1, 14, 1, 1, 0}, {"resnet50", 1, 512, 1024, 1, 28, 1, 2, 0},
    {"resnet50", 5, 1024, 256, 1, 14, 1, 1, 0},  {"resnet50", 5, 256, 256, 1, 14, 3, 1, 1},  {"resnet50", 1, 1024, 512, 1, 14, 1, 1, 0},
    {"resnet50", 1, 512, 512, 1, 14, 3, 2, 1},   {"resnet50", 3, 512, 2048, 1, 7, 1, 1, 0},  {"resnet50", 1, 1024, 2048, 1, 14, 1, 2, 0},
    {"resnet50", 2, 2048, 512, 1, 7, 1, 1, 0},   {"resnet50", 2, 512, 512, 1, 7, 3, 1, 1},
    {"vit", 1, 3, 768, 1, 224, 16, 16, 0},
    {"mobilenet", 1, 3, 16, 1, 224, 3, 2, 1},    {"mobilenet", 1, 16, 16, 16, 112, 3, 1, 1}, {"mobilenet", 1, 16, 16, 1, 112, 1, 1, 0},
    {"mobilenet", 1, 16, 64, 1, 112, 1, 1, 0},   {"mobilenet", 1, 64, 64, 64, 112, 3, 2, 1}, {"mobilenet", 1, 64, 24, 1, 56, 1, 1, 0},
    {"mobilenet", 2, 24, 72, 1, 56, 1, 1, 0},    {"mobilenet", 1, 72, 72, 72, 56, 3, 1, 1},  {"mobilenet", 1, 72, 24, 1, 56, 1, 1, 0},
    {"mobilenet", 1, 72, 72, 72, 56, 5, 2, 2},   {"mobilenet", 1, 72, 24, 1, 1, 1, 1, 0},    {"mobilenet", 1, 24, 72, 1, 1, 1, 1, 0},
    {"mobilenet", 1, 72, 40, 1, 28, 1, 1, 0},    {"mobilenet", 2, 40, 120, 1, 28, 1, 1, 0},  {"mobilenet", 2, 120, 120, 120, 28, 5, 1, 2},
    {"mobilenet", 2, 120, 32, 1, 1, 1, 1, 0},    {"mobilenet", 2, 120, 40, 1, 28, 1, 1, 0},  {"mobilenet", 1, 40, 240, 1, 28, 1, 1, 0},
    {"mobilenet", 1, 240, 240, 240, 28, 3, 2, 1}, {"mobilenet", 1, 240, 80, 1, 14, 1, 1, 0}, {"mobilenet", 3, 80, 200, 1, 14, 1, 1, 0},
    {"mobilenet", 3, 200, 200, 200, 14, 3, 1, 1}, {"mobilenet", 3, 200, 80, 1, 14, 1, 1, 0}, {"mobilenet", 1, 80, 480, 1, 14, 1, 1, 0},
    {"mobilenet", 1, 480, 480, 480, 14, 3, 1, 1}, {"mobilenet", 1, 480, 112, 1, 14, 1, 1, 0}, {"mobilenet", 2, 112, 672, 1, 14, 1, 1, 0},
    {"mobilenet", 1, 672, 672, 672, 14, 3, 1, 1}, {"mobilenet", 1, 672, 672, 672, 14, 5, 2, 2}, {"mobilenet", 2, 672, 168, 1, 1, 1, 1, 0},
    {"mobilenet", 1, 672, 160, 1, 7, 1, 1, 0},   {"mobilenet", 3, 160, 960, 1, 7, 1, 1, 0},  {"mobilenet", 2, 960, 960, 960, 7, 5, 1, 2},
    {"mobilenet", 2, 960, 240, 1, 1, 1, 1, 0},   {"mobilenet", 2, 960, 160, 1, 7, 1, 1, 0}};

typedef struct conv_run {
    hn_ext_call call;
    void *scratch;
} conv_run;

static void run_ours(void *user) {
    conv_run *r = user;
    hn_status_free(r->call.impl->run(&r->call, r->scratch));
}

static double measure_ours(const layer *l, int threads, double budget) {
    int64_t out = (l->in + 2 * l->padding - l->kernel) / l->stride + 1, in = l->in, k = l->kernel, cg = l->c / l->groups;
    int64_t p[HN_CONV_PARAM_COUNT] = {1, l->c, l->o, l->groups, 1, in, in, 1, k, k, 1, out, out, 1, l->stride, l->stride, 0, l->padding,
                                      l->padding, 1, 1, 1, 0, l->c * in * in, in * in, in * in, in, 1, cg * k * k, k * k, k * k, k, 1,
                                      l->o * out * out, out * out, out * out, out, 1, HN_EPILOGUE_RELU, 1};
    conv_run r = {.call = {.kind = HN_EXTERN_CONV, .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32}, .is_constant = {[2] = true},
                           .params = p, .param_count = HN_CONV_PARAM_COUNT, .threads = threads, .impl = &hn_ext_conv_f32}};
    r.call.operands[0] = bench_floats((size_t)(l->o * out * out), 1);
    r.call.operands[1] = bench_floats((size_t)(l->c * in * in), 2);
    r.call.operands[2] = bench_floats((size_t)(l->o * cg * k * k), 3);
    r.call.operands[3] = bench_floats((size_t)l->o, 4);
    hn_status status = hn_ext_shared_create(&r.call.shared);
    if (!status) status = hn_ext_conv_f32.prepare(&r.call);
    if (status) {
        fprintf(stderr, "%s\n", hn_status_message(status));
        exit(1);
    }
    r.scratch = bench_floats(r.call.scratch_bytes / 4 + 16, 5);
    double best = bench_best(run_ours, &r, threads, budget);
    hn_ext_conv_f32.release(&r.call);
    hn_ext_shared_destroy(r.call.shared);
    for (int i = 0; i < 4; i++) free(r.call.operands[i]);
    free(r.scratch);
    return best;
}

#ifdef HAVE_DNNL
typedef struct dnnl_run {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[4];
} dnnl_run;

static void run_dnnl(void *user) {
    dnnl_run *r = user;
    dnnl_primitive_execute(r->primitive, r->stream, 4, r->args);
    dnnl_stream_wait(r->stream);
}

/* In the layouts that it likes best: what a whole network in that layout would cost. */
static double measure_dnnl(const layer *l, double budget) {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_engine_create(&engine, dnnl_cpu, 0);
    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    int64_t out = (l->in + 2 * l->padding - l->kernel) / l->stride + 1;
    dnnl_dims_t xd = {1, l->c, l->in, l->in}, yd = {1, l->o, out, out}, bd = {l->o};
    dnnl_dims_t wd = {l->groups, l->o / l->groups, l->c / l->groups, l->kernel, l->kernel};
    dnnl_dims_t s = {l->stride, l->stride}, pad = {l->padding, l->padding};
    dnnl_memory_desc_t x, w, y, b;
    dnnl_memory_desc_init_by_tag(&x, 4, xd, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&w, l->groups > 1 ? 5 : 4, l->groups > 1 ? wd : wd + 1, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&y, 4, yd, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&b, 1, bd, dnnl_f32, dnnl_x);
    dnnl_convolution_desc_t cd;
    dnnl_convolution_forward_desc_init(&cd, dnnl_forward_inference, dnnl_convolution_auto, &x, &w, &b, &y, s, pad, pad);
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    dnnl_primitive_attr_create(&attr);
    dnnl_post_ops_create(&ops);
    dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0, 0);
    dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_primitive_desc_t pd;
    if (dnnl_primitive_desc_create(&pd, &cd, attr, engine, NULL)) return NAN;
    dnnl_run r = {.stream = stream};
    dnnl_primitive_create(&r.primitive, pd);
    const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_weights_md, dnnl_query_dst_md};
    const int index[] = {0, 0, 1, 0}, arg[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};
    for (int i = 0; i < 4; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, queries[i], index[i]);
        dnnl_memory_create(&r.args[i].memory, md, engine, bench_floats(dnnl_memory_desc_get_size(md) / 4 + 16, 7));
        r.args[i].arg = arg[i];
    }
    return bench_best(run_dnnl, &r, omp_get_max_threads(), budget);
}
#endif

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *network = argc > 2 ? argv[2] : "resnet50";
    double sum = 0, sum_dnnl = 0;
    omp_set_num_threads(threads);
    printf("kernels %s, %d threads\n  c    o groups size k s |   ms   GFLOP/s | onednn ms\n", hn_ext_kernels_get()->name, threads);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const layer *l = &layers[i];
        if (strcmp(l->network, network) != 0 || (argc > 3 && (int)i != atoi(argv[3]))) continue;
        int out = (l->in + 2 * l->padding - l->kernel) / l->stride + 1;
        double flops = 2.0 * l->c / l->groups * l->o * out * out * l->kernel * l->kernel;
        double t = measure_ours(l, threads, argc > 3 ? 2 : 0.1);
        sum += t * l->count;
        printf("%4d %4d %4d %4d %2d %d | %7.3f %6.1f", l->c, l->o, l->groups, l->in, l->kernel, l->stride, t * 1e3, flops / t * 1e-9);
#ifdef HAVE_DNNL
        double d = measure_dnnl(l, 0.1);
        sum_dnnl += d * l->count;
        printf(" | %7.3f", d * 1e3);
#endif
        printf("\n");
    }
    printf("network %.2f ms, onednn %.2f ms\n", sum * 1e3, sum_dnnl * 1e3);
    return 0;
}
