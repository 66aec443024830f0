/* device.c: the ceilings of any device that runs texts of kernels, by the table of devices.
 *
 * Times are those of the host, around launches that take long beside a launch. */
#include "measure/ceilings.h"

#include "base/trace.h"
#include "runtime/device/device.h"

#include <time.h>

__asm__(".pushsection .rodata\n.hidden hn_ceilings_text\n.globl hn_ceilings_text\n"
        "hn_ceilings_text:\n.incbin \"" HN_CEILINGS_TEXT "\"\n.byte 0\n.popsection\n");
extern const char hn_ceilings_text[];

#define MIB ((int64_t)1 << 20)
enum { THREADS = 256, GROUPS = 1024, CACHE_GROUPS = 256, BLOCK_BYTES = 4 * 16 * THREADS };
enum { LONG_NS = 2000000, ROUNDS = 5 };
/* Additions of a step of all threads are so many for each. */
enum { STEP_ADDITIONS = 8, MATH_STEPS = 1024 };
/* of matrix products: a side, at least and at most */
enum { SIDE_MIN = 256, SIDE_MAX = 4096 };

typedef struct bench {
    hn_dev *dev;
    hn_queue *queue;
    hn_device_program *program;
    uint8_t *from, *to;
    int64_t bytes; /* of each of the two */
} bench;

typedef struct shape {
    int64_t groups, steps;
} shape;

static hn_status find(const bench *b, const char *name, void **out) {
    return b->dev->ops->find(b->program, name, out);
}

static hn_status finish(const bench *b) {
    hn_device_fault fault;
    return b->dev->ops->finish(b->queue, &fault);
}

static hn_status launch(const bench *b, void *kernel, shape s, int64_t third, int64_t fourth) {
    hn_device_fault fault; /* these kernels find none */
    void *args[] = {b->from, b->to};
    const long long params[] = {s.groups, s.steps, third, fourth};
    return b->dev->ops->launch(b->queue,
                               &(hn_device_launch){.kernel = kernel,
                                                   .args = args,
                                                   .arg_count = 2,
                                                   .params = params,
                                                   .param_count = 4,
                                                   .extent = s.groups,
                                                   .parts = 1,
                                                   .groups = {s.groups, 1, 1},
                                                   .threads = {THREADS, 1, 1}},
                               &fault);
}

static hn_status time_of(const bench *b, void *kernel, shape s, int64_t passes, double *out_ns) {
    const int64_t begin = hn_now_ns();
    HN_TRY(launch(b, kernel, s, passes, 0));
    HN_TRY(finish(b));
    *out_ns = (double)(hn_now_ns() - begin) / (double)passes;
    return NULL;
}

/* The least time of a pass. The first run is for clocks and pages. */
static hn_status best_of(const bench *b, const char *name, shape s, double *out_ns) {
    void *kernel;
    double ns;
    HN_TRY(find(b, name, &kernel));
    HN_TRY(time_of(b, kernel, s, 1, &ns));
    HN_TRY(time_of(b, kernel, s, 1, out_ns));
    const int64_t passes = *out_ns < LONG_NS ? (int64_t)(LONG_NS / (*out_ns + 1)) + 1 : 1;
    for (int k = 0; k < ROUNDS; k++) {
        HN_TRY(time_of(b, kernel, s, passes, &ns));
        if (ns < *out_ns) *out_ns = ns;
    }
    return NULL;
}

/* ---- memory ---- */

static hn_status measure_level(const bench *b, const char *name, shape s, int64_t holds,
                               hn_ceilings *out) {
    hn_ceiling_level *level = &out->levels[out->level_count++];
    const double bytes = (double)(s.groups * s.steps * BLOCK_BYTES);
    double read, copy, fill;
    HN_TRY(best_of(b, "hn_ceiling_read", s, &read));
    HN_TRY(best_of(b, "hn_ceiling_copy", s, &copy));
    HN_TRY(best_of(b, "hn_ceiling_fill", s, &fill));
    *level = (hn_ceiling_level){
        .bytes = holds, .read = bytes / read, .copy = 2 * bytes / copy, .fill = bytes / fill};
    snprintf(level->name, sizeof level->name, "%s", name);
    return NULL;
}

static hn_status measure_memory(const bench *b, hn_ceilings *out) {
    const int64_t cache = (int64_t)b->dev->facts.cache_bytes;
    const shape near = {CACHE_GROUPS, 1}, far = {GROUPS, b->bytes / (GROUPS * BLOCK_BYTES)};
    /* a copy has twice the data of a read, and half of the cache is not its own, perhaps */
    if (cache >= 4 * near.groups * BLOCK_BYTES) HN_TRY(measure_level(b, "cache", near, cache, out));
    return measure_level(b, "memory", far, INT64_MAX, out);
}

/* ---- arithmetic ---- */

static hn_status measure_add(const bench *b, hn_ceilings *out) {
    const shape s = {GROUPS, MATH_STEPS};
    double ns;
    HN_TRY(best_of(b, "hn_ceiling_add", s, &ns));
    out->math[HN_CEILING_ADD] = (double)GROUPS * THREADS * MATH_STEPS * STEP_ADDITIONS / ns;
    return NULL;
}

/* ---- matrix products, by the operations of the device ---- */

typedef struct product {
    hn_ext_call call;
    int64_t params[HN_MATMUL_PARAM_COUNT];
    hn_device_operation *operation;
    void *scratch, *args[HN_EXT_MAX_OPERANDS];
} product;

static hn_status run_product(const bench *b, const product *p, double *out_ns) {
    hn_device_fault fault;
    const int64_t begin = hn_now_ns();
    HN_TRY(b->dev->ops->operations->run(b->queue, p->operation, 0, p->args, p->scratch, &fault));
    HN_TRY(finish(b));
    *out_ns = (double)(hn_now_ns() - begin);
    return NULL;
}

static void describe(const bench *b, product *p, hn_scalar_type type, int64_t side) {
    *p = (product){.call = {.kind = HN_EXTERN_MATMUL,
                            .dtypes = {type, type, type},
                            .params = p->params,
                            .param_count = HN_MATMUL_PARAM_COUNT,
                            .threads = 1},
                   .args = {b->to, b->from, b->from + b->bytes / 2}};
    for (int k = 0; k < HN_EXTERN_BATCH; k++) p->params[HN_MATMUL_BATCH + k] = 1;
    p->params[HN_MATMUL_M] = p->params[HN_MATMUL_N] = p->params[HN_MATMUL_K] = side;
    for (int at = HN_MATMUL_A; at <= HN_MATMUL_OUT; at += HN_EXTERN_BATCH + 2) {
        p->params[at + HN_EXTERN_BATCH] = side;
        p->params[at + HN_EXTERN_BATCH + 1] = 1;
    }
}

static hn_status time_prepared(const bench *b, product *p, double *out_ns) {
    const size_t bytes = b->dev->ops->operations->scratch_bytes(p->operation);
    double ns;
    if (bytes) p->scratch = b->dev->ops->alloc(b->dev, bytes);
    if (bytes && !p->scratch) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a matrix product");
    hn_status status = run_product(b, p, out_ns);
    for (int k = 0; k < ROUNDS && !status; k++) {
        status = run_product(b, p, &ns);
        if (!status && ns < *out_ns) *out_ns = ns;
    }
    hn_dev_free(b->dev, p->scratch);
    return status;
}

/* `*out_ns` 0: the device has no such product. */
static hn_status time_product(const bench *b, hn_scalar_type type, int64_t side, double *out_ns) {
    product p;
    *out_ns = 0;
    describe(b, &p, type, side);
    hn_status status = b->dev->ops->operations->prepare(b->dev, &p.call, &p.operation);
    if (hn_status_code(status) == HN_UNSUPPORTED) {
        hn_status_free(status);
        return NULL;
    }
    HN_TRY(status);
    status = time_prepared(b, &p, out_ns);
    hn_dev_operation_release(b->dev, p.operation);
    return status;
}

/* From small to large, until one takes long. */
static hn_status measure_type(bench *b, hn_scalar_type type, int64_t elem_bytes, double *out) {
    double ns = 1;
    for (int64_t side = SIDE_MIN; side <= SIDE_MAX && ns > 0 && ns < LONG_NS / 2; side *= 2) {
        if (2 * side * side * elem_bytes > b->bytes) break;
        HN_TRY(time_product(b, type, side, &ns));
        const double operations = 2.0 * (double)side * (double)side * (double)side;
        if (ns > 0 && operations / ns > *out) *out = operations / ns;
    }
    return NULL;
}

/* Into `from`, which it takes for `to`. */
static hn_status make_noise(bench *b, int64_t bits, int64_t mask) {
    void *kernel;
    const bench other = {
        .dev = b->dev, .queue = b->queue, .program = b->program, .from = b->to, .to = b->from};
    HN_TRY(find(b, "hn_ceiling_noise", &kernel));
    HN_TRY(launch(&other, kernel, (shape){GROUPS, b->bytes / (4 * THREADS * GROUPS)}, bits, mask));
    return finish(b);
}

static hn_status measure_products(bench *b, hn_ceilings *out) {
    double *math = out->math;
    /* an addition's time is also that of a product which is added up */
    math[HN_CEILING_PRODUCTS] = math[HN_CEILING_PRODUCTS_HALF] = 2 * math[HN_CEILING_ADD];
    if (!b->dev->ops->operations) return NULL;
    HN_TRY(make_noise(b, 0x3f800000, 0x807fffff));
    HN_TRY(measure_type(b, HN_F32, 4, &math[HN_CEILING_PRODUCTS]));
    HN_TRY(make_noise(b, 0x3f803f80, 0x807f807f));
    HN_TRY(measure_type(b, HN_BF16, 2, &math[HN_CEILING_PRODUCTS_HALF]));
    HN_TRY(make_noise(b, 0x3ff00000, 0x800fffff)); /* also as the upper half of an f64 */
    return measure_type(b, HN_F64, 8, &math[HN_CEILING_PRODUCTS_F64]);
}

/* ---- all ---- */

/* Both arrays are no more than a quarter of the memory, and whole steps. */
static int64_t array_bytes(const hn_dev *dev) {
    const int64_t memory = (int64_t)(dev->facts.memory_bytes / 8), step = GROUPS * BLOCK_BYTES;
    const int64_t bytes = memory && memory < 256 * MIB ? memory : 256 * MIB;
    return bytes < step ? step : bytes / step * step;
}

static hn_status load(bench *b) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "#define THREADS %d\n", THREADS);
    hn_strbuf_puts(&text, hn_ceilings_text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = b->dev->ops->load_text(b->dev, text.ptr, "ceilings", &b->program);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status measure(bench *b, hn_ceilings *out) {
    HN_TRY(b->dev->ops->queue_create(b->dev, &(hn_queue_options){.step_count = 1}, &b->queue));
    HN_TRY(load(b));
    b->bytes = array_bytes(b->dev);
    b->from = b->dev->ops->alloc(b->dev, (size_t)b->bytes);
    b->to = b->dev->ops->alloc(b->dev, (size_t)b->bytes);
    if (!b->from || !b->to)
        return HN_ERROR(HN_OUT_OF_MEMORY, "the device has no memory to measure it");
    HN_TRY(b->dev->ops->fill(b->queue, b->from, 0, (size_t)b->bytes));
    HN_TRY(b->dev->ops->fill(b->queue, b->to, 0, (size_t)b->bytes));
    HN_TRY(measure_add(b, out));
    HN_TRY(measure_memory(b, out));
    return measure_products(b, out);
}

hn_status hn_ceilings_measure_device(hn_dev *dev, hn_ceilings *out) {
    bench b = {.dev = dev};
    *out = (hn_ceilings){.device = {.kind = dev->ops->kind, .number = dev->number},
                         .own_share = 1,
                         .measured_s = (int64_t)time(NULL)};
    snprintf(out->name, sizeof out->name, "%s", dev->facts.name);
    if (!dev->ops->load_text)
        return HN_ERROR(HN_UNSUPPORTED, "device '%s' has no compiler for the loops that measure it",
                        dev->facts.name);
    hn_status status = measure(&b, out);
    /* work that waits ends before its memory goes */
    if (status && b.queue) hn_status_free(finish(&b));
    hn_dev_free(dev, b.from);
    hn_dev_free(dev, b.to);
    hn_dev_unload(dev, b.program);
    hn_queue_destroy(b.queue);
    return hn_status_annotate(status, "cannot measure '%s'", dev->facts.name);
}
