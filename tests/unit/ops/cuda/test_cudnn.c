/* test_cudnn.c: calls of CONV as convolutions of cuDNN, against the reference of the operations.
 * The library is a stand-in that computes on memory of the host (tests/support/cudnn_standin.c), so
 * what is tested is what it is asked for. With HENRY_TEST_CUDNN, the path of the real library, that
 * is asked for plans for an H200, which takes no device. */
#include "base/compiler.h"
#include "henry/tensor.h"
#include "ops/cuda/alignment.h"
#include "ops/cuda/convolution.h"
#include "ops/cuda/cudnn_conv.h"
#include "tests/support/cudnn_standin.h"
#include "unit/harness.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 14, OPERANDS = 6 }; /* elements of an operand's memory */
enum { OUT, X, W, BIAS, RESIDUAL, SCALE };

static hn_cudnn dnn;
static cudnn_standin *standin;
static void *handle;

static bool open_library(void) {
    cudnn_standin_fn *record;
    if (handle) return true;
    setenv("HENRY_CUDNN", HN_CUDNN_STANDIN, 1);
    EXPECT_OK(hn_cudnn_load(&dnn));
    void *library = dlopen(HN_CUDNN_STANDIN, RTLD_NOW), *address;
    EXPECT(library != NULL);
    if (!library) return false;
    address = dlsym(library, "cudnnStandin");
    memcpy(&record, &address, sizeof record);
    standin = record();
    EXPECT(dnn.cudnnCreate(&handle) == HN_DNN_SUCCESS);
    return handle != NULL;
}

static void reset(void) {
    const uint32_t objects = standin->objects;
    *standin = (cudnn_standin){.objects = objects};
}

/* ---- calls ---- */

/* A call with memory of its own, filled with quarters of at most 2: sums of them are exact. */
typedef struct conv {
    int64_t params[HN_CONV_PARAM_COUNT];
    hn_ext_call call;
    uint8_t *memory[OPERANDS]; /* ROOM elements, and where the operand is in it */
    int64_t at[OPERANDS];
    uint8_t *expected;
    bool tf32;
    uint32_t candidate;
    uint64_t random;
} conv;

static uint32_t bytes_of(const conv *c) {
    return (uint32_t)hn_scalar_type_bytes((hn_scalar_type)c->call.dtypes[OUT]);
}

static void put(uint8_t dtype, uint8_t *to, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (dtype == HN_F32) memcpy(to, &x, 4);
    if (dtype == HN_F16) memcpy(to, &(_Float16){(_Float16)x}, 2);
    if (dtype == HN_BF16) memcpy(to, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
}

/* Strides of packed memory: [n, c, s0, s1, s2]. */
static void pack(const int64_t *sizes, bool channels_last, int64_t *strides) {
    static const uint8_t last[] = {1, 4, 3, 2, 0}, first[] = {4, 3, 2, 1, 0};
    int64_t step = 1;
    for (uint32_t k = 0; k < 5; k++) {
        const uint32_t d = channels_last ? last[k] : first[k];
        strides[d] = step;
        step *= sizes[d];
    }
}

/* Of the params: sizes of an operand. */
static void sizes_of(const int64_t *p, uint32_t operand, int64_t *out) {
    const bool is_w = operand == W;
    out[0] = is_w ? p[HN_CONV_O] : p[HN_CONV_N];
    out[1] = is_w ? p[HN_CONV_C] / p[HN_CONV_GROUPS] : operand == X ? p[HN_CONV_C] : p[HN_CONV_O];
    memcpy(out + 2,
           &p[is_w           ? HN_CONV_KERNEL
              : operand == X ? HN_CONV_IN
                             : HN_CONV_OUTSIZE],
           3 * sizeof *out);
}

static void lay_out(conv *c, uint32_t operand, bool channels_last) {
    static const int at[OPERANDS] = {HN_CONV_OUT, HN_CONV_X, HN_CONV_W, 0, HN_CONV_RESIDUAL};
    int64_t sizes[5];
    c->call.dtypes[operand] = c->call.dtypes[OUT];
    if (operand == BIAS) return;
    sizes_of(c->params, operand, sizes);
    pack(sizes, channels_last, &c->params[at[operand]]);
}

typedef struct shape {
    int64_t images, channels, outputs, groups, in[3], kernel[3];
    int64_t stride, padding, dilation;
} shape;

static void begin(conv *c, uint8_t dtype, const shape *s, bool channels_last) {
    memset(c, 0, sizeof *c);
    int64_t *p = c->params;
    c->call = (hn_ext_call){.kind = HN_EXTERN_CONV,
                            .params = p,
                            .param_count = HN_CONV_PARAM_COUNT,
                            .threads = 1,
                            .dtypes = {dtype}};
    p[HN_CONV_N] = s->images;
    p[HN_CONV_C] = s->channels;
    p[HN_CONV_O] = s->outputs;
    p[HN_CONV_GROUPS] = s->groups;
    for (uint32_t d = 0; d < 3; d++) {
        const bool is_none = s->in[d] == 1 && s->kernel[d] == 1;
        p[HN_CONV_IN + d] = s->in[d];
        p[HN_CONV_KERNEL + d] = s->kernel[d];
        p[HN_CONV_STRIDE + d] = is_none ? 1 : s->stride;
        p[HN_CONV_PADDING + d] = is_none ? 0 : s->padding;
        p[HN_CONV_DILATION + d] = is_none ? 1 : s->dilation;
        p[HN_CONV_OUTSIZE + d] = (s->in[d] + 2 * p[HN_CONV_PADDING + d] -
                                  (s->kernel[d] - 1) * p[HN_CONV_DILATION + d] - 1) /
                                     p[HN_CONV_STRIDE + d] +
                                 1;
    }
    for (uint32_t k = 0; k < 3; k++) lay_out(c, k, channels_last);
}

static void fill(conv *c) {
    const uint32_t bytes = bytes_of(c);
    for (uint32_t k = 0; k < OPERANDS; k++) {
        if (!c->call.dtypes[k]) continue;
        c->memory[k] = aligned_alloc(256, ROOM * (size_t)bytes);
        for (int64_t e = 0; e < ROOM; e++) {
            c->random = c->random * 6364136223846793005u + 1442695040888963407u;
            put(c->call.dtypes[OUT], c->memory[k] + e * bytes,
                (float)((c->random >> 33) % 17) / 4 - 2);
        }
        c->call.rooms[k] =
            (hn_ext_room){.before = c->at[k] * bytes, .behind = (ROOM - c->at[k]) * bytes};
    }
    c->call.knows_rooms = true;
    c->expected = malloc(ROOM * (size_t)bytes);
    memcpy(c->expected, c->memory[OUT], ROOM * (size_t)bytes);
}

static void end(conv *c) {
    for (uint32_t k = 0; k < OPERANDS; k++) free(c->memory[k]);
    free(c->expected);
}

static void args_of(conv *c, void **args) {
    for (uint32_t k = 0; k < OPERANDS; k++)
        args[k] = c->memory[k] ? c->memory[k] + c->at[k] * bytes_of(c) : NULL;
}

/* As src/ops on the host does it. */
static void run_reference(conv *c) {
    hn_ext_call call = c->call;
    hn_ext_shared *shared = NULL;
    EXPECT_OK(hn_ext_shared_create(&shared));
    call.shared = shared;
    EXPECT_OK(hn_ext_check(&call));
    EXPECT_OK(hn_ext_reference.prepare(&call));
    args_of(c, call.operands);
    call.operands[OUT] = c->expected + c->at[OUT] * bytes_of(c);
    void *scratch = aligned_alloc(64, (call.scratch_bytes + 64) / 64 * 64);
    EXPECT_OK(hn_ext_reference.run(&call, scratch));
    free(scratch);
    if (hn_ext_reference.release) hn_ext_reference.release(&call);
    hn_ext_shared_destroy(shared);
}

static hn_status run_library(conv *c, uint32_t times) {
    const hn_dnn_options options = {
        .tf32 = c->tf32, .workspace_bytes = 1 << 20, .candidate = c->candidate};
    hn_dnn_conv *made = NULL;
    void *args[OPERANDS];
    HN_TRY(hn_ext_check(&c->call));
    HN_TRY(hn_dnn_conv_create(&dnn, handle, &options, &c->call, &made));
    const size_t bytes = hn_dnn_conv_scratch_bytes(made);
    void *scratch = aligned_alloc(256, (bytes + 256) / 256 * 256);
    args_of(c, args);
    hn_status status = NULL;
    while (times-- && !status) status = hn_dnn_conv_run(made, args, scratch, NULL);
    free(scratch);
    hn_dnn_conv_destroy(made);
    return status;
}

static void expect_right(conv *c) {
    EXPECT_OK(run_library(c, 1));
    run_reference(c);
    EXPECT(memcmp(c->memory[OUT], c->expected, ROOM * (size_t)bytes_of(c)) == 0);
    EXPECT_INT(standin->objects, 1);
    EXPECT_STR(standin->misuse, "");
}

static const shape plain = {2, 8, 16, 1, {1, 7, 6}, {1, 3, 3}, 1, 1, 1};

/* ---- what it is asked for ---- */

/* Of the stand-in's engines two are never good; of the others two make no plan. */
TEST(a_candidate_of_the_heuristic) {
    static const struct {
        uint32_t candidate;
        int engine; /* -1: there is none */
    } cases[] = {{0, CUDNN_STANDIN_TENSOR_CORE}, {1, -1}, {2, -1}, {3, CUDNN_STANDIN_TENSOR_CORE},
                 {4, CUDNN_STANDIN_PLAIN},       {5, -1}};
    if (!open_library()) return;
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        conv c;
        begin(&c, HN_F16, &plain, true);
        c.candidate = cases[k].candidate;
        fill(&c);
        reset();
        if (cases[k].engine < 0) {
            EXPECT_ERROR(run_library(&c, 1), HN_UNSUPPORTED, "no good plan");
            EXPECT_INT(standin->objects, 1);
        } else {
            expect_right(&c);
            EXPECT_INT(standin->engine, cases[k].engine);
        }
        end(&c);
    }
}

TEST(shapes_and_dtypes) {
    static const shape shapes[] = {
        {2, 8, 16, 1, {1, 7, 6}, {1, 3, 3}, 1, 1, 1},
        {1, 3, 8, 1, {1, 9, 9}, {1, 5, 5}, 2, 2, 1}, /* the first of a network */
        {2, 16, 8, 1, {1, 5, 5}, {1, 1, 1}, 2, 0, 1},
        {1, 12, 8, 4, {1, 6, 6}, {1, 3, 3}, 1, 2, 2}, /* groups, holes */
        {3, 8, 8, 1, {1, 1, 12}, {1, 1, 3}, 1, 1, 1}, /* of a row */
        {1, 4, 8, 1, {4, 5, 6}, {3, 3, 2}, 1, 1, 1},
        {2, 8, 8, 1, {1, 1, 1}, {1, 1, 1}, 1, 0, 1},
        {1, 1, 1, 1, {1, 4, 4}, {1, 2, 2}, 1, 0, 1},
    };
    static const uint8_t types[] = {HN_F32, HN_F16, HN_BF16};
    if (!open_library()) return;
    for (size_t k = 0; k < HN_COUNT_OF(shapes) * 6; k++) {
        conv c;
        begin(&c, types[k % 3], &shapes[k / 6], k % 6 < 3);
        fill(&c);
        reset();
        expect_right(&c);
        EXPECT_INT(standin->operations, 1);
        end(&c);
    }
}

TEST(sums_and_relu) {
    if (!open_library()) return;
    for (uint32_t k = 0; k < 8; k++) {
        conv c;
        const bool bias = k & 1, residual = k & 2, relu = k & 4;
        begin(&c, k % 3 ? HN_BF16 : HN_F32, &plain, true);
        if (bias) lay_out(&c, BIAS, true);
        if (residual) lay_out(&c, RESIDUAL, true);
        if (relu) c.params[HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU;
        fill(&c);
        reset();
        if (bias || k == 0) {
            expect_right(&c);
            EXPECT_INT(standin->operations, 1u + bias + residual + relu);
        } else {
            EXPECT_ERROR(run_library(&c, 1), HN_UNSUPPORTED, "there is no bias");
        }
        end(&c);
    }
}

/* Places of one element, and their strides, say nothing of the order. */
TEST(strides_of_single_elements) {
    static const shape one = {4, 8, 16, 1, {1, 1, 1}, {1, 1, 1}, 1, 0, 1};
    if (!open_library()) return;
    for (uint32_t k = 0; k < 2; k++) {
        conv c;
        begin(&c, HN_F16, &one, k);
        for (uint32_t d = 2; d < 5; d++)
            c.params[HN_CONV_X + d] = c.params[HN_CONV_OUT + d] = 77 * d;
        c.params[HN_CONV_W + 3] = 0;
        fill(&c);
        reset();
        expect_right(&c);
        EXPECT(standin->channels_last);
        end(&c);
    }
}

TEST(parts_of_memory) {
    if (!open_library()) return;
    conv c;
    begin(&c, HN_F16, &plain, true);
    for (uint32_t d = 0; d < 5; d++)
        if (d != 1) c.params[HN_CONV_X + d] *= 2; /* half of the channels */
    c.at[X] = 8;
    fill(&c);
    reset();
    expect_right(&c);
    EXPECT_INT(standin->align_x, 16);
    end(&c);
    c.at[X] = 2; /* which the plan is told */
    fill(&c);
    reset();
    expect_right(&c);
    EXPECT_INT(standin->align_x, 4);
    end(&c);
}

/* An operand in a buffer that begins somewhere in its memory, as a part of a state does. */
TEST(buffers_that_begin_somewhere) {
    hn_ext_call call = {.knows_rooms = true, .begins = {0, 4, 8, 2}};
    call.rooms[2].before = 8;
    call.rooms[3].before = 32;
    EXPECT_INT(hn_align_of_operand(&call, 0, 2), 16);
    EXPECT_INT(hn_align_of_operand(&call, 1, 2), 4);
    EXPECT_INT(hn_align_of_operand(&call, 2, 2), 16);
    EXPECT_INT(hn_align_of_operand(&call, 3, 2), 2);
}

static void expect_refused(conv *c, const char *why) {
    reset();
    fill(c);
    EXPECT_ERROR(run_library(c, 1), HN_UNSUPPORTED, why);
    EXPECT_INT(standin->objects, 1);
    EXPECT_STR(standin->misuse, "");
    end(c);
}

TEST(what_is_refused) {
    if (!open_library()) return;
    conv c;
    begin(&c, HN_BF16, &plain, true);
    lay_out(&c, W, false);
    expect_refused(&c, "neither all with channels last nor all with planes");
    begin(&c, HN_BF16, &plain, false);
    c.params[HN_CONV_X + 4] = 0; /* a row that repeats */
    expect_refused(&c, "neither all with channels last nor all with planes");
    begin(&c, HN_BF16, &plain, true);
    lay_out(&c, BIAS, true);
    c.params[HN_CONV_EPILOGUE] = HN_EPILOGUE_SILU;
    expect_refused(&c, "another function");
    begin(&c, HN_F32, &plain, true);
    c.call.dtypes[SCALE] = HN_F32;
    c.params[HN_CONV_SCALE + 1] = c.params[HN_CONV_SCALE_OUT] = 1;
    expect_refused(&c, "it scales channels");
    begin(&c, HN_BF16, &(shape){1, 0, 8, 1, {1, 4, 4}, {1, 2, 2}, 1, 0, 1}, true);
    expect_refused(&c, "adds nothing up");
    begin(&c, HN_F64, &plain, true);
    expect_refused(&c, "narrow floats only");
    begin(&c, HN_F32, &(shape){1, 8, 8, 1, {1, 3, 3}, {1, 1, 1}, 1, 0, 1}, true);
    c.params[HN_CONV_TRANSPOSED] = 1;
    expect_refused(&c, "it is transposed");
}

TEST(nothing_to_do) {
    if (!open_library()) return;
    conv c;
    begin(&c, HN_F32, &(shape){0, 8, 8, 1, {1, 3, 3}, {1, 1, 1}, 1, 0, 1}, false);
    fill(&c);
    reset();
    expect_right(&c);
    EXPECT_INT(standin->convolutions, 0);
    end(&c);
}

/* ---- which plan ---- */

TEST(engines) {
    static const struct {
        uint8_t dtype;
        bool tf32;
        cudnn_standin_engine engine;
    } cases[] = {{HN_BF16, false, CUDNN_STANDIN_TENSOR_CORE},
                 {HN_F16, true, CUDNN_STANDIN_TENSOR_CORE},
                 {HN_F32, false, CUDNN_STANDIN_PLAIN},
                 {HN_F32, true, CUDNN_STANDIN_TENSOR_CORE}};
    if (!open_library()) return;
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        conv c;
        begin(&c, cases[k].dtype, &plain, true);
        c.tf32 = cases[k].tf32;
        fill(&c);
        reset();
        expect_right(&c);
        EXPECT_INT(standin->engine, cases[k].engine);
        end(&c);
    }
}

TEST(second_list_of_the_heuristic) {
    if (!open_library()) return;
    conv c;
    begin(&c, HN_BF16, &plain, true);
    fill(&c);
    reset();
    standin->has_fallback_only = true;
    expect_right(&c);
    EXPECT_INT(standin->engine, CUDNN_STANDIN_PLAIN);
    standin->has_nothing = true;
    EXPECT_ERROR(run_library(&c, 1), HN_UNSUPPORTED, "no good plan");
    EXPECT_INT(standin->objects, 1);
    end(&c);
    reset();
}

/* What does not change from run to run is made once. */
TEST(runs) {
    if (!open_library()) return;
    conv c;
    begin(&c, HN_BF16, &plain, true);
    fill(&c);
    reset();
    EXPECT_OK(run_library(&c, 3));
    EXPECT_INT(standin->convolutions, 3);
    EXPECT_INT(standin->packs, 1);
    EXPECT_STR(standin->misuse, "");
    end(&c);
}

/* ---- errors ---- */

/* A plan that fails is none, and there are others; any other call's error comes out. */
TEST(each_call_of_the_library_fails) {
    static const struct {
        uint32_t code;
        hn_code status;
    } codes[] = {{5000, HN_DEVICE},        {4000, HN_DEVICE},        {1008, HN_DEVICE},
                 {4003, HN_OUT_OF_MEMORY}, {4004, HN_OUT_OF_MEMORY}, {3000, HN_UNSUPPORTED}};
    if (!open_library()) return;
    for (size_t k = 0; k < HN_COUNT_OF(codes); k++) {
        bool failed = true, is_told = false;
        for (uint32_t n = 1; failed && n < 500; n++) {
            conv c;
            begin(&c, HN_BF16, &plain, true);
            for (uint32_t e = BIAS; e <= RESIDUAL; e++) lay_out(&c, e, true);
            c.params[HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU;
            fill(&c);
            reset();
            standin->fail_at = n;
            standin->fail_code = codes[k].code;
            hn_status status = run_library(&c, 1);
            failed = standin->calls >= n;
            if (!failed) {
                EXPECT(n > 100 && !status);
            } else if (status && !strstr(hn_status_message(status), "no good plan")) {
                is_told = true;
                EXPECT_INT(hn_status_code(status), codes[k].status);
                EXPECT(strstr(hn_status_message(status), "cuDNN: cudnn") != NULL);
            }
            EXPECT_INT(standin->objects, 1);
            EXPECT_STR(standin->misuse, "");
            hn_status_free(status);
            end(&c);
        }
        EXPECT(!failed && is_told);
    }
    reset();
}

TEST(without_the_library) {
    hn_cudnn none;
    setenv("HENRY_CUDNN", "off", 1);
    EXPECT_ERROR(hn_cudnn_load(&none), HN_NOT_FOUND, "cuDNN is switched off (HENRY_CUDNN)");
    setenv("HENRY_CUDNN", "/nowhere/libcudnn.so", 1);
    EXPECT_ERROR(hn_cudnn_load(&none), HN_NOT_FOUND, "cannot load '/nowhere/libcudnn.so'");
    setenv("HENRY_CUDNN", "libm.so.6", 1);
    EXPECT_ERROR(hn_cudnn_load(&none), HN_INCOMPATIBLE, "has no function 'cudnnCreate'");
    unsetenv("HENRY_CUDNN");
}

/* ---- the real library ---- */

/* What cuDNN 9.26 wants to know of a device. */
static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"cudaDeviceId\":0,"
    "\"deviceVer\":900,\"driverVer\":13000,\"totalGlobalMem\":150000000000,\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"smCountOrigin\":0,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"oversizedSharedMemoryPerBlock\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,"
    "\"deviceName\":\"NVIDIA H200\"}";

static hn_status plan_really(const hn_cudnn *real, void *device, conv *c) {
    const hn_dnn_options options = {
        .tf32 = c->tf32, .workspace_bytes = 256 << 20, .device = device};
    hn_dnn_conv *made = NULL;
    HN_TRY(hn_ext_check(&c->call));
    HN_TRY(hn_dnn_conv_create(real, NULL, &options, &c->call, &made));
    hn_dnn_conv_destroy(made);
    return NULL;
}

/* All kinds of convolutions of ResNet-50, eight images, and some besides. */
TEST(plans_of_the_real_library) {
    static const shape shapes[] = {
        {8, 3, 64, 1, {1, 224, 224}, {1, 7, 7}, 2, 3, 1},
        {8, 64, 64, 1, {1, 56, 56}, {1, 1, 1}, 1, 0, 1},
        {8, 64, 64, 1, {1, 56, 56}, {1, 3, 3}, 1, 1, 1},
        {8, 64, 256, 1, {1, 56, 56}, {1, 1, 1}, 1, 0, 1},
        {8, 128, 128, 1, {1, 56, 56}, {1, 3, 3}, 2, 1, 1},
        {8, 256, 512, 1, {1, 56, 56}, {1, 1, 1}, 2, 0, 1},
        {8, 256, 256, 1, {1, 14, 14}, {1, 3, 3}, 1, 1, 1},
        {8, 512, 512, 1, {1, 7, 7}, {1, 3, 3}, 1, 1, 1},
        {8, 2048, 512, 1, {1, 7, 7}, {1, 1, 1}, 1, 0, 1},
        {8, 512, 2048, 1, {1, 7, 7}, {1, 1, 1}, 1, 0, 1},
        {2, 64, 64, 8, {1, 28, 28}, {1, 3, 3}, 1, 1, 1},
        {2, 32, 64, 1, {1, 1, 400}, {1, 1, 3}, 1, 1, 1},
        {1, 32, 32, 1, {8, 28, 28}, {3, 3, 3}, 1, 1, 1},
        {8, 768, 768, 1, {1, 224, 224}, {1, 16, 16}, 16, 0, 1},
    };
    hn_cudnn real;
    void *device = NULL;
    if (!getenv("HENRY_TEST_CUDNN")) {
        hn_test_skip("HENRY_TEST_CUDNN does not name the real library");
        return;
    }
    setenv("HENRY_CUDNN", getenv("HENRY_TEST_CUDNN"), 1);
    EXPECT_OK(hn_cudnn_load(&real));
    EXPECT_INT(real.cudnnBackendCreateDescriptor(HN_DNN_DEVICEPROP, &device), HN_DNN_SUCCESS);
    EXPECT_INT(real.cudnnBackendSetAttribute(device, HN_DNN_DEVICEPROP_JSON, HN_DNN_TYPE_CHAR,
                                             sizeof h200, h200),
               HN_DNN_SUCCESS);
    EXPECT_OK(hn_cudnn_status(&real, real.cudnnBackendFinalize(device), "cudnnBackendFinalize"));
    for (size_t s = 0; s < HN_COUNT_OF(shapes); s++)
        for (uint32_t k = 0; k < 4 * 5; k++) {
            static const uint8_t types[] = {HN_BF16, HN_F16, HN_F32, HN_F32, HN_BF16};
            const uint32_t ending = k % 4;
            conv c;
            begin(&c, types[k / 4], &shapes[s], k / 4 != 4 && k / 4 != 2);
            c.tf32 = k / 4 == 3;
            if (ending) lay_out(&c, BIAS, true);
            if (ending == 3) lay_out(&c, RESIDUAL, k / 4 != 4 && k / 4 != 2);
            if (ending >= 2) c.params[HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU;
            c.call.knows_rooms = true;
            for (uint32_t o = 0; o < OPERANDS; o++) c.call.rooms[o].behind = INT64_C(1) << 40;
            hn_status status = plan_really(&real, device, &c);
            if (status)
                HN_TEST_FAIL("shape %u, dtype %u, tf32 %d, ending %u: %s", (unsigned)s,
                             (unsigned)types[k / 4], c.tf32, ending, hn_status_message(status));
            hn_status_free(status);
        }
    EXPECT_INT(real.cudnnBackendDestroyDescriptor(device), HN_DNN_SUCCESS);
    unsetenv("HENRY_CUDNN");
}

TEST_MAIN
