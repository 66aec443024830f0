/* test_operations.c: kernels of operations in CUDA C++ (codegen/cuda/operations.c), run on the CPU
 * (tests/support/cuda_on_cpu.c), against the reference of the operations: sizes that fill no tile,
 * strides, batches and groups, masks, and every dtype. */
#include "base/compiler.h"
#include "henry/tensor.h"
#include "opencl/fixture.h"
#include "ops/cpu/ext.h"

#include <math.h>

enum { OPERANDS = HN_EXT_MAX_OPERANDS, ELEMS = 40000, PARAMS_MAX = HN_CONV_PARAM_COUNT };

/* A call, with memory of ELEMS numbers for each operand. */
typedef struct operation {
    hn_extern_kind kind;
    uint32_t operand_count, param_count;
    hn_dtype dtypes[OPERANDS]; /* NONE: absent */
    int64_t params[PARAMS_MAX];
    double tolerance; /* times the largest number */
    int64_t infinity; /* which number of operand 3 is infinite; 0: none */
    bool is_least;    /* the numbers of operand 4 are the least one of bf16 */
} operation;

/* ---- numbers ---- */

static double next_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 40 & 0xff) / 64 - 2;
}

static void put(hn_dtype dtype, void *to, int64_t at, double x) {
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    switch (dtype) {
    case HN_DTYPE_F64: ((double *)to)[at] = x; break;
    case HN_DTYPE_F32: ((float *)to)[at] = f; break;
    case HN_DTYPE_F16: ((_Float16 *)to)[at] = (_Float16)f; break;
    case HN_DTYPE_BF16: ((uint16_t *)to)[at] = (uint16_t)(bits >> 16); break;
    default: ((uint8_t *)to)[at] = x > -1; break;
    }
}

static double get(hn_dtype dtype, const void *from, int64_t at) {
    float f;
    switch (dtype) {
    case HN_DTYPE_F64: return ((const double *)from)[at];
    case HN_DTYPE_F32: return (double)((const float *)from)[at];
    case HN_DTYPE_F16: return (double)((const _Float16 *)from)[at];
    default: {
        const uint32_t bits = (uint32_t)((const uint16_t *)from)[at] << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    }
}

/* ---- both ways ---- */

static void run_reference(const operation *o, void *const *memory) {
    hn_ext_call call = {
        .kind = o->kind, .params = o->params, .param_count = o->param_count, .threads = 1};
    hn_ext_shared *shared = NULL;
    EXPECT_OK(hn_ext_shared_create(&shared));
    call.shared = shared;
    for (uint32_t k = 0; k < o->operand_count; k++) {
        call.dtypes[k] = (uint8_t)o->dtypes[k];
        call.operands[k] = o->dtypes[k] ? memory[k] : NULL;
    }
    EXPECT_OK(hn_ext_check(&call));
    EXPECT_OK(hn_ext_reference.prepare(&call));
    void *scratch = aligned_alloc(64, (call.scratch_bytes + 64) / 64 * 64);
    EXPECT_OK(hn_ext_reference.run(&call, scratch));
    free(scratch);
    if (hn_ext_reference.release) hn_ext_reference.release(&call);
    hn_ext_shared_destroy(shared);
}

static hn_extern call_of(const operation *o, fixture *x, void *const *memory) {
    hn_extern call = {
        .kind = o->kind, .operand_count = o->operand_count, .param_count = o->param_count};
    for (uint32_t k = 0; k < o->param_count; k++) call.params[k] = num(x, o->params[k]);
    for (uint32_t k = 0; k < o->operand_count; k++) {
        if (!o->dtypes[k]) continue;
        call.operands[k].buffer =
            k ? add_input(x, o->dtypes[k], ELEMS, memory[k]) : add_output(x, o->dtypes[k], ELEMS);
        call.operands[k].written = k == 0;
        call.operands[k].offset_elems = num(x, 0);
    }
    return call;
}

static hn_status run_kernel(fixture *x, const hn_extern *call) {
    hn_target target;
    hn_kernel_code code = {.threads = 0};
    opencl_program *program = NULL;
    HN_TRY(kernel_target(&target));
    HN_TRY(target.kind->operation(x->program, call, &x->arena, &code));
    if (!code.text.ptr) return HN_ERROR(HN_INTERNAL, "there is no kernel");
    HN_TRY(kernel_build(host, (const hn_kernel_code *const[]){&code}, 1, &program));
    hn_status status =
        kernel_run(program, &code, &(kernel_env){.program = x->program, .buffers = x->memory});
    opencl_program_free(program);
    return status;
}

static void compare(const operation *o, const void *expected, const void *got) {
    double largest = 0;
    uint32_t wrong = 0;
    for (int64_t k = 0; k < ELEMS; k++)
        largest = fmax(largest, fabs(get(o->dtypes[0], expected, k)));
    for (int64_t k = 0; k < ELEMS; k++) {
        const double a = get(o->dtypes[0], expected, k), b = get(o->dtypes[0], got, k);
        if (fabs(a - b) <= o->tolerance * largest || (isnan(a) && isnan(b))) continue;
        if (!wrong++) fprintf(stderr, "element %lld is %g, not %g\n", (long long)k, b, a);
    }
    EXPECT_INT(wrong, 0);
}

static void check(operation o) {
    void *memory[OPERANDS] = {NULL};
    fixture x;
    uint64_t state = 7;
    EXPECT_OK(fixture_init(&x));
    for (uint32_t k = 0; k < o.operand_count; k++) {
        memory[k] = calloc(ELEMS, 8);
        for (int64_t e = 0; e < ELEMS && o.dtypes[k] && k; e++)
            put(o.dtypes[k], memory[k], e, next_number(&state));
    }
    for (int64_t e = 0; e < ELEMS && o.is_least; e++) put(o.dtypes[4], memory[4], e, -0x1.fep127);
    if (o.infinity) put(o.dtypes[3], memory[3], o.infinity, INFINITY);
    const hn_extern call = call_of(&o, &x, memory);
    void *got = x.memory[call.operands[0].buffer].bytes;
    memset(got, 0, x.memory[call.operands[0].buffer].size);
    run_reference(&o, memory);
    EXPECT_OK(run_kernel(&x, &call));
    compare(&o, memory[0], got);
    for (uint32_t k = 0; k < o.operand_count; k++) free(memory[k]);
    fixture_deinit(&x);
}

/* ---- dtypes: sums of 16-bit numbers are of f32, and rounded at the end ---- */

static const struct {
    hn_dtype dtype;
    double tolerance;
} floats[] = {{HN_DTYPE_F32, 1e-5}, {HN_DTYPE_BF16, 8e-3}, {HN_DTYPE_F16, 1e-3}};

static void strides(int64_t *to, const int64_t *from, uint32_t count) {
    memcpy(to, from, count * sizeof *to);
}
#define STRIDES(o, at, ...)                                                                        \
    strides(&(o).params[at], (const int64_t[]){__VA_ARGS__},                                       \
            sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- products ---- */

static operation matmul(hn_dtype dtype, double tolerance, int64_t batch, int64_t m, int64_t n,
                        int64_t k) {
    operation o = {.kind = HN_EXTERN_MATMUL,
                   .operand_count = 5,
                   .param_count = HN_MATMUL_PARAM_COUNT,
                   .dtypes = {dtype, dtype, dtype},
                   .tolerance = tolerance};
    STRIDES(o, HN_MATMUL_BATCH, 1, 1, 1, batch, m, n, k);
    STRIDES(o, HN_MATMUL_A, 0, 0, 0, m * k, k, 1);
    STRIDES(o, HN_MATMUL_B, 0, 0, 0, k * n, n, 1);
    STRIDES(o, HN_MATMUL_OUT, 0, 0, 0, m * n, n, 1);
    return o;
}

TEST(products) {
    for (size_t d = 0; d < HN_COUNT_OF(floats); d++) {
        const hn_dtype dtype = floats[d].dtype;
        check(matmul(dtype, floats[d].tolerance, 1, 70, 90, 75));
        operation o = matmul(dtype, floats[d].tolerance, 2, 33, 65, 40);
        STRIDES(o, HN_MATMUL_A, 0, 0, 0, 33 * 40, 1, 33); /* by columns */
        STRIDES(o, HN_MATMUL_B, 0, 0, 0, 0, 1, 40);
        STRIDES(o, HN_MATMUL_BIAS, 0, 0, 0, 0, 0, 1);
        STRIDES(o, HN_MATMUL_RESIDUAL, 0, 0, 0, 33 * 65, 65, 1);
        o.dtypes[3] = o.dtypes[4] = dtype;
        o.params[HN_MATMUL_EPILOGUE] = HN_EPILOGUE_RELU;
        check(o);
        o.params[HN_MATMUL_EPILOGUE] = HN_EPILOGUE_GELU_TANH;
        check(o);
        check(matmul(dtype, floats[d].tolerance, 1, 3, 2, 0));
    }
    check(matmul(HN_DTYPE_F64, 1e-13, 3, 20, 66, 17));
}

/* More than a tile in each direction, in rows that are copied 16 bytes at a time: of both operands the
 * dimension of the sum inside, and the other one. */
TEST(wide_products) {
    for (size_t d = 0; d < HN_COUNT_OF(floats); d++)
        for (int ways = 0; ways < 4; ways++) {
            operation o = matmul(floats[d].dtype, floats[d].tolerance, 1, 136, 144, 120);
            if (ways & 1) STRIDES(o, HN_MATMUL_A, 0, 0, 0, 0, 1, 136);
            if (ways & 2) STRIDES(o, HN_MATMUL_B, 0, 0, 0, 0, 1, 120);
            check(o);
        }
    operation o = matmul(HN_DTYPE_BF16, 8e-3, 2, 30, 34, 90); /* no stride of which is 1 */
    STRIDES(o, HN_MATMUL_A, 0, 0, 0, 2, 360, 4);
    STRIDES(o, HN_MATMUL_B, 0, 0, 0, 2, 4, 360);
    STRIDES(o, HN_MATMUL_OUT, 0, 0, 0, 1, 2, 60);
    check(o);
}

/* ---- convolutions ---- */

static operation conv(hn_dtype dtype, double tolerance, int64_t groups, bool channels_last) {
    enum { N = 2, C = 6, O = 20, H = 9, W = 7, KH = 3, KW = 2, OH = 5, OW = 7 };
    const int64_t each = C / groups;
    operation o = {.kind = HN_EXTERN_CONV,
                   .operand_count = 6,
                   .param_count = HN_CONV_PARAM_COUNT,
                   .dtypes = {dtype, dtype, dtype, dtype},
                   .tolerance = tolerance};
    STRIDES(o, HN_CONV_N, N, C, O, groups, 1, H, W, 1, KH, KW, 1, OH, OW, 1, 2, 1, 0, 1, 1, 1, 1,
            2);
    if (channels_last) {
        STRIDES(o, HN_CONV_X, C * H * W, 1, 0, W * C, C);
        STRIDES(o, HN_CONV_W, each * KH * KW, 1, 0, KW * each, each);
        STRIDES(o, HN_CONV_OUT, O * OH * OW, 1, 0, OW * O, O);
    } else {
        STRIDES(o, HN_CONV_X, C * H * W, H * W, 0, W, 1);
        STRIDES(o, HN_CONV_W, each * KH * KW, KH * KW, 0, KW, 1);
        STRIDES(o, HN_CONV_OUT, O * OH * OW, OH * OW, 0, OW, 1);
    }
    return o;
}

TEST(convolutions) {
    for (size_t d = 0; d < HN_COUNT_OF(floats); d++)
        for (int last = 0; last < 2; last++) {
            check(conv(floats[d].dtype, floats[d].tolerance, 1, last));
            operation o = conv(floats[d].dtype, floats[d].tolerance, 2, last);
            o.dtypes[3] = HN_DTYPE_NONE;
            o.dtypes[4] = floats[d].dtype;
            memcpy(&o.params[HN_CONV_RESIDUAL], &o.params[HN_CONV_OUT], 5 * sizeof *o.params);
            o.params[HN_CONV_EPILOGUE] = HN_EPILOGUE_HARDSWISH;
            check(o);
        }
}

/* Channels that are read in eights: of a group, of a part of memory, of one place. */
static operation conv_of_eights(hn_dtype dtype, double tolerance, int64_t groups, int64_t more) {
    enum { N = 2, C = 48, O = 70, H = 6, W = 5, K = 3, OH = 3, OW = 5 };
    const int64_t each = C / groups, all = C + more;
    operation o = {.kind = HN_EXTERN_CONV,
                   .operand_count = 6,
                   .param_count = HN_CONV_PARAM_COUNT,
                   .dtypes = {dtype, dtype, dtype, dtype},
                   .tolerance = tolerance};
    STRIDES(o, HN_CONV_N, N, C, O, groups, 1, H, W, 1, K, K, 1, OH, OW, 1, 2, 1, 0, 1, 2, 1, 1, 2);
    STRIDES(o, HN_CONV_X, all * H * W, 1, 0, W * all, all);
    STRIDES(o, HN_CONV_W, each * K * K, 1, 0, K * each, each);
    STRIDES(o, HN_CONV_OUT, O * OH * OW, 1, 0, OW * O, O);
    return o;
}

/* Weights that begin at some element of their storage are read in eights if that is a multiple. */
static void expect_weights_from(int64_t offset, bool in_eights) {
    operation o = conv_of_eights(HN_DTYPE_BF16, 0, 1, 0);
    void *memory[OPERANDS] = {NULL};
    fixture x;
    hn_target target;
    hn_kernel_code code = {.threads = 0};
    EXPECT_OK(fixture_init(&x));
    for (uint32_t k = 0; k < o.operand_count; k++) memory[k] = calloc(ELEMS, 8);
    const hn_extern call = call_of(&o, &x, memory);
    EXPECT_OK(hn_graph_add_input(
        x.graph, (hn_input){.kind = HN_INPUT_PARAMETER, .storage_offset_elems = offset}));
    x.program->buffers.items[call.operands[2].buffer].input = x.graph->inputs.count - 1;
    EXPECT_OK(kernel_target(&target));
    EXPECT_OK(target.kind->operation(x.program, &call, &x.arena, &code));
    EXPECT((strstr(code.text.ptr, "eight") != NULL) == in_eights);
    for (uint32_t k = 0; k < o.operand_count; k++) free(memory[k]);
    fixture_deinit(&x);
}

TEST(weights_that_begin_within_their_storage) {
    expect_weights_from(0, true);
    expect_weights_from(16, true);
    expect_weights_from(3, false);
}

TEST(convolutions_of_eights) {
    for (size_t d = 1; d < HN_COUNT_OF(floats); d++) {
        const hn_dtype dtype = floats[d].dtype;
        check(conv_of_eights(dtype, floats[d].tolerance, 1, 0));
        check(conv_of_eights(dtype, floats[d].tolerance, 2, 0));
        check(conv_of_eights(dtype, floats[d].tolerance, 1, 16));
        check(conv_of_eights(dtype, floats[d].tolerance, 1, 3)); /* no eights, after all */
        operation o = conv_of_eights(dtype, floats[d].tolerance, 1, 0);
        STRIDES(o, HN_CONV_IN, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0);
        STRIDES(o, HN_CONV_X, 48, 1, 0, 1, 1);
        STRIDES(o, HN_CONV_W, 48, 1, 0, 1, 1);
        o.params[HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU;
        check(o);
    }
}

/* ---- attention ---- */

static operation attention(hn_dtype dtype, double tolerance, int64_t m, int64_t n, int64_t d,
                           int64_t dv) {
    enum { B = 2, H = 4, KV = 2 };
    const double scale = 0.25;
    operation o = {.kind = HN_EXTERN_ATTENTION,
                   .operand_count = 5,
                   .param_count = HN_ATTENTION_PARAM_COUNT,
                   .dtypes = {dtype, dtype, dtype, dtype},
                   .tolerance = tolerance};
    STRIDES(o, HN_ATTENTION_BATCH, B, H, KV, m, n, d, dv);
    STRIDES(o, HN_ATTENTION_Q, m * H * d, d, H * d, 1);
    STRIDES(o, HN_ATTENTION_K, n * KV * d, d, KV * d, 1);
    STRIDES(o, HN_ATTENTION_V, n * KV * dv, n * dv, dv, 1);
    STRIDES(o, HN_ATTENTION_OUT, m * H * dv, dv, H * dv, 1);
    memcpy(&o.params[HN_ATTENTION_SCALE], &scale, sizeof scale);
    return o;
}

TEST(attentions) {
    for (size_t d = 0; d < HN_COUNT_OF(floats); d++) {
        const hn_dtype dtype = floats[d].dtype;
        const double tolerance = floats[d].tolerance;
        check(attention(dtype, tolerance, 70, 50, 40, 24));
        operation o = attention(dtype, tolerance, 37, 70, 16, 100); /* shared key heads, causal */
        o.params[HN_ATTENTION_CAUSAL] = 1;
        check(o);
        o = attention(dtype, tolerance, 20, 45, 128, 30);
        o.dtypes[4] = dtype;
        STRIDES(o, HN_ATTENTION_MASK, 0, 20 * 45, 45, 1);
        check(o);
        o = attention(dtype, tolerance, 20, 45, 8, 8);
        o.dtypes[4] = HN_DTYPE_BOOL;
        STRIDES(o, HN_ATTENTION_MASK, 0, 0, 45, 1);
        check(o);
    }
    /* nobody sees the last key */
    operation o = attention(HN_DTYPE_F32, 1e-5, 40, 45, 8, 8);
    o.params[HN_ATTENTION_CAUSAL] = 1;
    o.infinity = 44 * 8;
    check(o);
}

/* More keys than wait in shared memory at a time, in rows that are copied 16 bytes at a time, and not. */
TEST(long_attentions) {
    for (size_t d = 0; d < HN_COUNT_OF(floats); d++) {
        const hn_dtype dtype = floats[d].dtype;
        const double tolerance = floats[d].tolerance;
        check(attention(dtype, tolerance, 65, 150, 64, 64));
        operation o = attention(dtype, tolerance, 75, 150, 64, 64);
        o.params[HN_ATTENTION_CAUSAL] = 1;
        check(o);
        o = attention(dtype, tolerance, 70, 200, 24, 40); /* keys, then values in columns */
        STRIDES(o, HN_ATTENTION_K, 200 * 2 * 24, 200 * 24, 1, 200);
        check(o);
        STRIDES(o, HN_ATTENTION_V, 200 * 2 * 40, 200 * 40, 1, 200);
        STRIDES(o, HN_ATTENTION_OUT, 70 * 4 * 40, 70 * 40, 1, 70);
        check(o);
        o = attention(dtype, tolerance, 20, 150, 30, 20); /* rows of 32, of which 30 are there */
        STRIDES(o, HN_ATTENTION_K, 150 * 2 * 32, 32, 2 * 32, 1);
        check(o);
        check(attention(dtype, tolerance, 5, 0, 16, 16));
    }
}

/* Of a row that sees nothing the mean: the least number, added to all scores, makes them equal. */
TEST(a_mask_of_the_least_number) {
    operation o = attention(HN_DTYPE_BF16, 8e-3, 20, 70, 16, 16);
    o.dtypes[4] = HN_DTYPE_BF16;
    o.is_least = true;
    STRIDES(o, HN_ATTENTION_MASK, 0, 0, 0, 0);
    check(o);
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
