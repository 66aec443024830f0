/* test_cublaslt.c: calls of MATMUL as products of cuBLASLt, against the reference of the operations.
 * The library is a stand-in that computes on memory of the host (tests/support/cublaslt_standin.c),
 * so what is tested is what it is asked for: strides, batches, sums, alignment. */
#include "base/compiler.h"
#include "henry/tensor.h"
#include "ops/cuda/cublaslt_matmul.h"
#include "tests/support/cublaslt_standin.h"
#include "unit/harness.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 14, OPERANDS = 5 }; /* elements of an operand's memory */
enum { OUT, A, B, BIAS, RESIDUAL };

static hn_cublaslt lt;
static cublaslt_standin *standin;
static void *handle;

static bool open_library(void) {
    cublaslt_standin_fn *record;
    if (handle) return true;
    setenv("HENRY_CUBLASLT", HN_CUBLASLT_STANDIN, 1);
    EXPECT_OK(hn_cublaslt_load(&lt));
    void *library = dlopen(HN_CUBLASLT_STANDIN, RTLD_NOW), *address;
    EXPECT(library != NULL);
    if (!library) return false;
    address = dlsym(library, "cublasLtStandin");
    memcpy(&record, &address, sizeof record);
    standin = record();
    EXPECT(lt.cublasLtCreate(&handle) == HN_LT_SUCCESS);
    return handle != NULL;
}

static void reset(void) {
    const uint32_t objects = standin->objects;
    *standin = (cublaslt_standin){.objects = objects};
}

/* ---- calls ---- */

/* A call with memory of its own, filled with quarters of at most 2: sums of them are exact. */
typedef struct product {
    int64_t params[HN_MATMUL_PARAM_COUNT];
    hn_ext_call call;
    uint8_t *memory[OPERANDS]; /* ROOM elements, and where the operand is in it */
    int64_t at[OPERANDS];
    uint8_t *expected;
    uint64_t random;
} product;

static uint32_t next(product *p, uint32_t below) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->random >> 33) % below;
}

static uint32_t bytes_of(const product *p) {
    return (uint32_t)hn_scalar_type_bytes((hn_scalar_type)p->call.dtypes[OUT]);
}

static void put(uint8_t dtype, uint8_t *to, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (dtype == HN_F32) memcpy(to, &x, 4);
    if (dtype == HN_F64) memcpy(to, &(double){(double)x}, 8);
    if (dtype == HN_F16) memcpy(to, &(_Float16){(_Float16)x}, 2);
    if (dtype == HN_BF16) memcpy(to, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
}

static void begin(product *p, uint8_t dtype, int64_t m, int64_t n, int64_t k) {
    memset(p, 0, sizeof *p);
    for (uint32_t d = 0; d < HN_EXTERN_BATCH; d++) p->params[HN_MATMUL_BATCH + d] = 1;
    p->params[HN_MATMUL_M] = m;
    p->params[HN_MATMUL_N] = n;
    p->params[HN_MATMUL_K] = k;
    p->call = (hn_ext_call){.kind = HN_EXTERN_MATMUL,
                            .params = p->params,
                            .param_count = HN_MATMUL_PARAM_COUNT,
                            .threads = 1,
                            .dtypes = {dtype, dtype, dtype}};
}

static uint32_t param_of(uint32_t operand) {
    static const uint32_t at[OPERANDS] = {HN_MATMUL_OUT, HN_MATMUL_A, HN_MATMUL_B, HN_MATMUL_BIAS,
                                          HN_MATMUL_RESIDUAL};
    return at[operand];
}

/* Strides of the innermost batch dimension and of the two of the matrix. */
static void strides(product *p, uint32_t operand, int64_t batch, int64_t first, int64_t second) {
    int64_t *s = &p->params[param_of(operand)];
    p->call.dtypes[operand] = p->call.dtypes[OUT];
    s[HN_EXTERN_BATCH - 1] = batch;
    s[HN_EXTERN_BATCH] = first;
    s[HN_EXTERN_BATCH + 1] = second;
}

static void fill(product *p) {
    const uint32_t bytes = bytes_of(p);
    for (uint32_t k = 0; k < OPERANDS; k++) {
        if (!p->call.dtypes[k]) continue;
        p->memory[k] = aligned_alloc(256, ROOM * (size_t)bytes);
        for (int64_t e = 0; e < ROOM; e++)
            put(p->call.dtypes[OUT], p->memory[k] + e * bytes, (float)next(p, 17) / 4 - 2);
        p->call.rooms[k] =
            (hn_ext_room){.before = p->at[k] * bytes, .behind = (ROOM - p->at[k]) * bytes};
        p->call.operands[k] = NULL;
    }
    p->call.knows_rooms = true;
    p->expected = malloc(ROOM * (size_t)bytes);
    memcpy(p->expected, p->memory[OUT], ROOM * (size_t)bytes);
}

static void end(product *p) {
    for (uint32_t k = 0; k < OPERANDS; k++) free(p->memory[k]);
    free(p->expected);
}

static void args_of(product *p, void **args) {
    for (uint32_t k = 0; k < OPERANDS; k++)
        args[k] = p->memory[k] ? p->memory[k] + p->at[k] * bytes_of(p) : NULL;
}

/* As src/ops on the host does it. */
static void run_reference(product *p) {
    hn_ext_call call = p->call;
    hn_ext_shared *shared = NULL;
    EXPECT_OK(hn_ext_shared_create(&shared));
    call.shared = shared;
    EXPECT_OK(hn_ext_check(&call));
    EXPECT_OK(hn_ext_reference.prepare(&call));
    args_of(p, call.operands);
    call.operands[OUT] = p->expected + p->at[OUT] * bytes_of(p);
    void *scratch = aligned_alloc(64, (call.scratch_bytes + 64) / 64 * 64);
    EXPECT_OK(hn_ext_reference.run(&call, scratch));
    free(scratch);
    if (hn_ext_reference.release) hn_ext_reference.release(&call);
    hn_ext_shared_destroy(shared);
}

/* By the library; what it refuses is a status. */
static hn_status run_library(product *p) {
    const hn_lt_options options = {.workspace_bytes = 1 << 20};
    hn_lt_matmul *m = NULL;
    void *args[OPERANDS];
    HN_TRY(hn_lt_matmul_create(&lt, handle, &options, &p->call, &m));
    uint8_t *scratch = aligned_alloc(256, hn_lt_matmul_scratch_bytes(m) / 256 * 256 + 256);
    args_of(p, args);
    hn_status status = hn_lt_matmul_run(m, args, scratch, NULL);
    free(scratch);
    hn_lt_matmul_destroy(m);
    return status;
}

/* ---- random ones ---- */

/* Strides for a matrix of these sizes in one of several layouts, and of its batches. */
static void random_layout(product *p, uint32_t operand, int64_t first, int64_t second) {
    const int64_t *sizes = &p->params[HN_MATMUL_BATCH];
    int64_t *s = &p->params[param_of(operand)], step;
    const bool by_rows = next(p, 2);
    const int64_t pad = next(p, 3) ? 0 : next(p, 5);
    p->call.dtypes[operand] = p->call.dtypes[OUT];
    s[HN_EXTERN_BATCH] = by_rows ? second + pad : 1;
    s[HN_EXTERN_BATCH + 1] = by_rows ? 1 : first + pad;
    step = by_rows ? first * (second + pad) : second * (first + pad);
    for (uint32_t d = HN_EXTERN_BATCH; d-- > 0;) {
        const bool repeats = operand != OUT && next(p, 5) == 0;
        s[d] = repeats ? 0 : step;
        if (!repeats) step *= sizes[d] + (next(p, 6) == 0);
    }
    if (operand == A && next(p, 8) == 0) s[HN_EXTERN_BATCH + next(p, 2)] = 2 + next(p, 9);
    p->at[operand] = next(p, 3) ? 0 : next(p, 32);
}

static void random_bias(product *p, int64_t m, int64_t n) {
    const uint32_t which = next(p, 5);
    if (which == 0) return;
    if (which == 1) strides(p, BIAS, 0, 0, 1);
    else if (which == 2) strides(p, BIAS, 0, 1, 0);
    else random_layout(p, BIAS, m, n);
    p->at[BIAS] = next(p, 2) * next(p, 8);
}

static void random_product(product *p, uint64_t seed) {
    static const uint8_t types[] = {HN_F32, HN_F32, HN_F64, HN_F16, HN_BF16};
    static const uint8_t counts[] = {1, 1, 1, 2, 3};
    product r = {.random = seed * 2654435761u + 17};
    const int64_t m = 1 + next(&r, 6), n = 1 + next(&r, 6), k = 1 + next(&r, 6);
    begin(p, types[next(&r, HN_COUNT_OF(types))], m, n, k);
    p->random = r.random;
    for (uint32_t d = 1; d < HN_EXTERN_BATCH; d++)
        p->params[HN_MATMUL_BATCH + d] = counts[next(p, HN_COUNT_OF(counts))];
    if (next(p, 40) == 0) p->params[HN_MATMUL_BATCH] = 0;
    random_layout(p, OUT, m, n);
    random_layout(p, A, m, k);
    random_layout(p, B, k, n);
    random_bias(p, m, n);
    if (next(p, 3) == 0) random_layout(p, RESIDUAL, m, n);
    if (next(p, 3) == 0) p->params[HN_MATMUL_EPILOGUE] = HN_EPILOGUE_RELU;
    fill(p);
}

TEST(random_products) {
    uint32_t taken = 0, refused = 0;
    if (!open_library()) return;
    reset();
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        product p;
        random_product(&p, seed);
        run_reference(&p);
        hn_status status = run_library(&p);
        if (!status) {
            taken++;
            if (memcmp(p.memory[OUT], p.expected, ROOM * (size_t)bytes_of(&p)) != 0)
                HN_TEST_FAIL("product %llu is wrong", (unsigned long long)seed);
        } else {
            refused++;
            EXPECT(hn_status_code(status) == HN_UNSUPPORTED);
        }
        hn_status_free(status);
        end(&p);
        if (standin->misuse[0]) break;
    }
    EXPECT_STR(standin->misuse, "");
    EXPECT_INT(standin->objects, 1);
    if (taken < 1000 || refused < 1000) HN_TEST_FAIL("%u taken, %u refused", taken, refused);
}

/* ---- what is taken, and how ---- */

static void check_taken(product *p, uint32_t products, int batch_count, uint32_t epilogue) {
    reset();
    fill(p);
    run_reference(p);
    EXPECT_OK(run_library(p));
    EXPECT(memcmp(p->memory[OUT], p->expected, ROOM * (size_t)bytes_of(p)) == 0);
    EXPECT_INT(standin->products, products);
    EXPECT_INT(standin->last_batch_count, batch_count);
    EXPECT_INT(standin->last_epilogue, epilogue);
    EXPECT_STR(standin->misuse, "");
    end(p);
}

static void check_refused(product *p, const char *why) {
    fill(p);
    EXPECT_ERROR(run_library(p), HN_UNSUPPORTED, why);
    end(p);
}

static void rows(product *p, uint8_t dtype, int64_t batch, int64_t m, int64_t n, int64_t k) {
    begin(p, dtype, m, n, k);
    p->params[HN_MATMUL_BATCH + HN_EXTERN_BATCH - 1] = batch;
    strides(p, OUT, m * n, n, 1);
    strides(p, A, m * k, k, 1);
    strides(p, B, k * n, n, 1);
}

TEST(layers_are_one_product) {
    product p;
    if (!open_library()) return;
    rows(&p, HN_F32, 1, 5, 6, 7);
    strides(&p, BIAS, 0, 0, 1);
    p.params[HN_MATMUL_EPILOGUE] = HN_EPILOGUE_RELU;
    check_taken(&p, 1, 1, HN_LT_EPILOGUE_RELU | HN_LT_EPILOGUE_BIAS);
    rows(&p, HN_BF16, 3, 5, 6, 7); /* weights that all batches share: more rows */
    strides(&p, B, 0, 1, 7);
    strides(&p, BIAS, 0, 0, 1);
    strides(&p, RESIDUAL, 30, 6, 1);
    check_taken(&p, 1, 1, HN_LT_EPILOGUE_BIAS);
    rows(&p, HN_F16, 3, 5, 6, 7);
    check_taken(&p, 1, 3, HN_LT_EPILOGUE_DEFAULT);
    rows(&p, HN_F64, 1, 1, 6, 7);
    check_taken(&p, 1, 1, HN_LT_EPILOGUE_DEFAULT);
    rows(&p, HN_F32, 1, 6, 1, 7);
    check_taken(&p, 1, 1, HN_LT_EPILOGUE_DEFAULT);
    rows(&p, HN_F32, 1, 5, 6, 7); /* a bias for each element is C */
    strides(&p, BIAS, 0, 6, 1);
    check_taken(&p, 1, 1, HN_LT_EPILOGUE_DEFAULT);
}

/* Heads of attention, [batch, m, head, d] in memory: a stride for heads, a loop for the batch. */
TEST(two_batches_are_a_loop) {
    product p;
    if (!open_library()) return;
    rows(&p, HN_F32, 4, 5, 6, 7);
    p.params[HN_MATMUL_BATCH + 2] = 2;
    strides(&p, A, 7, 28, 1);
    strides(&p, B, 7, 1, 28);
    p.params[HN_MATMUL_A + 2] = 140;
    p.params[HN_MATMUL_B + 2] = 168;
    p.params[HN_MATMUL_OUT + 2] = 120;
    check_taken(&p, 2, 4, HN_LT_EPILOGUE_DEFAULT);
}

TEST(what_is_refused) {
    product p;
    if (!open_library()) return;
    rows(&p, HN_F32, 1, 5, 6, 7);
    strides(&p, A, 0, 14, 2);
    check_refused(&p, "neither by rows nor by columns");
    rows(&p, HN_F32, 1, 5, 6, 7);
    strides(&p, B, 0, 0, 1); /* one row, repeated */
    check_refused(&p, "neither by rows nor by columns");
    rows(&p, HN_F32, 1, 5, 6, 0);
    check_refused(&p, "it adds nothing up");
    rows(&p, HN_F32, 1, 5, 6, 7);
    p.params[HN_MATMUL_EPILOGUE] = HN_EPILOGUE_SILU;
    check_refused(&p, "does not end a product with this function");
    rows(&p, HN_F32, 1, 5, 6, 7);
    p.params[HN_MATMUL_EPILOGUE] = HN_EPILOGUE_GELU_TANH;
    check_refused(&p, "does not end a product with this function");
    rows(&p, HN_F64, 1, 5, 6, 7);
    strides(&p, BIAS, 0, 0, 1);
    check_refused(&p, "CUBLAS_STATUS_NOT_SUPPORTED");
    rows(&p, HN_F32, 2, 5, 6, 7);
    strides(&p, RESIDUAL, 0, 6, 1);
    check_refused(&p, "the batch has no stride of its own");
    EXPECT_INT(standin->objects, 1);
}

TEST(nothing_to_do) {
    product p;
    if (!open_library()) return;
    reset();
    rows(&p, HN_F32, 1, 0, 6, 7);
    fill(&p);
    EXPECT_OK(run_library(&p));
    EXPECT_INT(standin->calls, 0);
    end(&p);
}

/* ---- options and alignment ---- */

TEST(tf32_only_when_asked_for) {
    product p;
    void *args[OPERANDS];
    if (!open_library()) return;
    for (int tf32 = 0; tf32 < 2; tf32++) {
        const hn_lt_options options = {.tf32 = tf32};
        hn_lt_matmul *m = NULL;
        rows(&p, HN_F32, 1, 5, 6, 7);
        fill(&p);
        EXPECT_OK(hn_lt_matmul_create(&lt, handle, &options, &p.call, &m));
        args_of(&p, args);
        if (m) EXPECT_OK(hn_lt_matmul_run(m, args, NULL, NULL));
        EXPECT_INT(standin->compute_type, tf32 ? 77 : 68);
        hn_lt_matmul_destroy(m);
        end(&p);
    }
}

/* Of the stand-in's three. Each is chosen once for equal calls. */
TEST(a_candidate_of_the_heuristic) {
    hn_lt_choices choices;
    product p;
    void *args[OPERANDS];
    uint8_t *scratch = aligned_alloc(256, 1024);
    if (!open_library()) return;
    hn_lt_choices_init(&choices);
    rows(&p, HN_F32, 1, 5, 6, 7);
    fill(&p);
    run_reference(&p);
    args_of(&p, args);
    reset();
    for (uint32_t k = 0; k < 8; k++) {
        const hn_lt_options options = {
            .workspace_bytes = 1 << 20, .candidate = k % 4, .choices = &choices};
        hn_lt_matmul *m = NULL;
        EXPECT_OK(hn_lt_matmul_create(&lt, handle, &options, &p.call, &m));
        if (m) EXPECT_OK(hn_lt_matmul_run(m, args, scratch, NULL));
        EXPECT_INT(standin->last_candidate, k % 4 ? k % 4 : 1);
        hn_lt_matmul_destroy(m);
    }
    EXPECT_INT(standin->choices, 3);
    for (uint32_t k = 4; k < 40; k += 29) {
        const hn_lt_options options = {.candidate = k, .choices = &choices};
        hn_lt_matmul *m = NULL;
        EXPECT_ERROR(hn_lt_matmul_create(&lt, handle, &options, &p.call, &m), HN_UNSUPPORTED,
                     k == 4 ? "cuBLASLt has 3 ways for the product, not 4" : "32 ways at most");
    }
    EXPECT_STR(standin->misuse, "");
    EXPECT_INT(standin->objects, 1);
    hn_lt_choices_deinit(&choices);
    end(&p);
    free(scratch);
}

/* Addresses that are less aligned than the program's memory are another choice, made once. */
TEST(addresses_of_a_caller) {
    const hn_lt_options options = {.workspace_bytes = 1 << 20};
    product p;
    hn_lt_matmul *m = NULL;
    void *args[OPERANDS];
    uint8_t *scratch = aligned_alloc(256, 1024);
    if (!open_library()) return;
    rows(&p, HN_F32, 1, 5, 6, 7);
    strides(&p, BIAS, 0, 0, 1);
    fill(&p);
    reset();
    EXPECT_OK(hn_lt_matmul_create(&lt, handle, &options, &p.call, &m));
    args_of(&p, args);
    for (int k = 0; m && k < 4; k++) {
        args[A] = p.memory[A] + (k & 1 ? 4 : 0);
        EXPECT_OK(hn_lt_matmul_run(m, args, scratch, NULL));
        EXPECT_INT(standin->last_align_a, k & 1 ? 4 : 16);
    }
    EXPECT_INT(standin->choices, 2);
    EXPECT_STR(standin->misuse, "");
    hn_lt_matmul_destroy(m);
    end(&p);
    free(scratch);
}

/* ---- errors ---- */

TEST(each_call_of_the_library_fails) {
    static const struct {
        uint32_t code;
        hn_code status;
    } codes[] = {{HN_LT_EXECUTION_FAILED, HN_DEVICE},
                 {HN_LT_ALLOC_FAILED, HN_OUT_OF_MEMORY},
                 {HN_LT_NOT_SUPPORTED, HN_UNSUPPORTED}};
    if (!open_library()) return;
    for (size_t c = 0; c < HN_COUNT_OF(codes); c++) {
        bool failed = true;
        for (uint32_t n = 1; failed && n < 100; n++) {
            product p;
            rows(&p, HN_F16, 2, 5, 6, 7);
            strides(&p, BIAS, 0, 0, 1);
            fill(&p);
            reset();
            standin->fail_at = n;
            standin->fail_code = codes[c].code;
            hn_status status = run_library(&p);
            failed = standin->calls >= n;
            if (failed) {
                EXPECT_INT(hn_status_code(status), codes[c].status);
                EXPECT(strstr(hn_status_message(status), "cuBLASLt: cublasLt") != NULL);
            } else {
                EXPECT(n > 15 && !status);
            }
            EXPECT_INT(standin->objects, 1);
            hn_status_free(status);
            end(&p);
        }
        EXPECT(!failed);
    }
    reset();
}

TEST(without_the_library) {
    hn_cublaslt none;
    setenv("HENRY_CUBLASLT", "off", 1);
    EXPECT_ERROR(hn_cublaslt_load(&none), HN_NOT_FOUND, "switched off");
    setenv("HENRY_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    EXPECT_ERROR(hn_cublaslt_load(&none), HN_NOT_FOUND, "cannot load '/nowhere/libcublasLt.so'");
    setenv("HENRY_CUBLASLT", "libm.so.6", 1);
    EXPECT_ERROR(hn_cublaslt_load(&none), HN_INCOMPATIBLE, "has no function 'cublasLtCreate'");
    unsetenv("HENRY_CUBLASLT");
}

TEST_MAIN
