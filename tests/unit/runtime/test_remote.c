/* test_remote.c: programs for a device whose memory is not the host's: what is copied when, runs
 * that are begun and ended, and what happens when the device fails. That programs compute the same
 * there is shown by the other tests of the runtime, which are built a second time for this
 * device. */
#define HN_FIXTURE_REMOTE
#include "unit/runtime/module_fixture.h"

#include "runtime/module_impl.h"
#include "tests/support/imaginary_device.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_nothing_left(void) {
    EXPECT_INT(atomic_load(&imaginary.memory), 0);
    EXPECT_INT(atomic_load(&imaginary.open), 0);
    EXPECT_INT(atomic_load(&imaginary.queues), 0);
    EXPECT_INT(atomic_load(&imaginary.programs), 0);
    EXPECT_INT(atomic_load(&imaginary.events), 0);
    EXPECT_INT(atomic_load(&imaginary.operations), 0);
}

/* ---- what is copied ---- */

#define SCALED                                                                                                            \
    "buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16) buffer b3 : output f32[4] bytes(16) " KERNELS    \
    "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) call k4(b2 f32, out b3 f32) extent(4) " \
    "output tensor \"y\" : f32[4] strides [1] in b3"

TEST(inputs_and_outputs_are_copied_and_nothing_else) {
    imaginary_reset();
    hn_module *m = load_text(SCALED, NULL);
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {F32(y, 4)};
    hn_module_stats stats;
    if (!m) return;
    for (int k = 0; k < 3; k++) EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(y[0] == 4 && y[3] == 16);
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.bytes_to_device, 3 * 16);
    EXPECT_INT(stats.bytes_from_device, 3 * 16);
    EXPECT_INT(atomic_load(&imaginary.launches), 6);
    EXPECT_INT(atomic_load(&imaginary.finishes), 3); /* one for each run */
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
    expect_nothing_left();
}

/* Outputs that stay are inputs of a later run; a device whose addresses mean nothing to callers
 * cannot keep them. */
TEST(outputs_that_stay) {
    const hn_run_options stay = {.device_outputs = true};
    imaginary_reset();
    hn_module *m = load_text(SCALED, NULL);
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    hn_tensor *in[1] = {F32(x, 4)}, *between[1] = {NULL}, *out[1] = {F32(y, 4)};
    if (!m) return;
    EXPECT_OK(hn_module_run_with(m, &stay, in, 1, between, 1));
    EXPECT(between[0] && hn_tensor_device(between[0]).kind == HN_DEVICE_OPENCL);
    EXPECT_OK(hn_module_run(m, between, 1, out, 1));
    EXPECT(y[0] == 16 && y[3] == 64);
    hn_tensor_release(between[0]);
    between[0] = NULL;
    m->device->facts.has_addresses = false;
    EXPECT_ERROR(hn_module_run_with(m, &stay, in, 1, between, 1), HN_UNSUPPORTED,
                 "outputs of runs on opencl are on cpu");
    EXPECT(!between[0]);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
    expect_nothing_left();
}

/* Memory that has become too small is given back before there is more: the device need not have
 * room for both. And a run that found none leaves nothing of it behind. */
TEST(memory_grows_in_its_own_place) {
    enum { SMALL = 1024, LARGE = 2048, BYTES = 3 * 4 * LARGE + 1024 };
    static float x[2 * LARGE], y[2 * LARGE];
    imaginary_reset();
    hn_module *m = load_text(
        "symbol size s0 in [1, 4096] hint 4 buffer b1 : input f32[s0] source 0 "
        "buffer b2 : temp f32[s0] bytes(4*s0) buffer b3 : output f32[s0] bytes(4*s0) " KERNELS
        "input \"x\" : f32[s0] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(s0) "
        "call k4(b2 f32, out b3 f32) extent(s0) output tensor \"y\" : f32[s0] strides [1] in b3",
        NULL);
    static const struct {
        int64_t count;
        size_t memory_max;
        hn_code code;
    } runs[] = {{SMALL, BYTES, HN_OK},
                {LARGE, BYTES, HN_OK},
                {LARGE + 1000, BYTES, HN_OUT_OF_MEMORY},
                {SMALL, BYTES, HN_OK},
                {LARGE, BYTES, HN_OK}};
    for (size_t k = 0; m && k < HN_COUNT_OF(runs); k++) {
        hn_tensor *in[1] = {F32(x, runs[k].count)}, *out[1] = {F32(y, runs[k].count)};
        x[runs[k].count - 1] = (float)(k + 1);
        atomic_store(&imaginary.memory_max, runs[k].memory_max);
        hn_status status = hn_module_run(m, in, 1, out, 1);
        EXPECT_INT(hn_status_code(status), runs[k].code);
        if (!status) EXPECT(y[runs[k].count - 1] == 4 * (float)(k + 1));
        hn_status_free(status);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
    expect_nothing_left();
}

#define PRODUCT_PARAMS                                                                             \
    "params [1, 1, 1, 1, 2, 2, 2, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, " \
    "0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0] "
#define PRODUCT_OF_SCALED(name, where)                                                                                \
    "buffer b1 : input f32[2, 2] source 0 buffer b2 : temp f32[2, 2] bytes(16) buffer b3 : temp f32[2, 2] bytes(16) " \
    "buffer b4 : output f32[2, 2] bytes(16) " KERNELS                                                                 \
    "input \"x\" : f32[2, 2] strides [2, 1] in b1 call k4(b1 f32, out b2 f32) extent(4) "                             \
    "extern " name "(out b3 f32, b2 f32, b2 f32, none, none) " PRODUCT_PARAMS where                                   \
    "call k4(b3 f32, out b4 f32) extent(4) output tensor \"y\" : f32[2, 2] strides [2, 1] in b4"

/* An operation of the host: its operands are copied, and waited for once. One of the device:
 * neither. */
static void check_product(const char *text, uint64_t copies, uint64_t host_steps) {
    imaginary_reset();
    hn_module *m = load_text(text, NULL);
    float x[4] = {1, 2, 3, 4};
    hn_tensor *in[1] = {F32(x, 2, 2)}, *out[1] = {NULL};
    hn_module_stats stats;
    if (!m) return;
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        const float *y = hn_tensor_data(out[0]);
        EXPECT(y && y[0] == 8 * 7 && y[1] == 8 * 10 && y[2] == 8 * 15 && y[3] == 8 * 22);
        hn_tensor_release(out[0]), out[0] = NULL;
    }
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.bytes_to_device, 2 * 16 * copies);
    EXPECT_INT(stats.bytes_from_device, 2 * 16 * copies);
    EXPECT_INT(stats.host_steps, host_steps);
    EXPECT_INT(atomic_load(&imaginary.operation_runs), 2 * (1 - host_steps));
    EXPECT_INT(atomic_load(&imaginary.kinds), host_steps ? 0 : 1 << HN_EXTERN_MATMUL);
    EXPECT_INT(atomic_load(&imaginary.finishes), 2 * copies);
    hn_tensor_release(in[0]);
    hn_module_release(m);
    expect_nothing_left();
}

TEST(operations_of_the_host) { check_product(PRODUCT_OF_SCALED("matmul", ""), 2, 1); }
TEST(operations_of_the_device) { check_product(PRODUCT_OF_SCALED("matmul", "on opencl "), 1, 0); }

/* Where the device refuses an operation, the step's kernel does it, if there is one. */
#define OR_KERNEL PRODUCT_OF_SCALED("matmul or k9", "extent(1) threads 1 on opencl ")
TEST(operations_that_may_be_a_kernel) { check_product(OR_KERNEL, 1, 0); }

/* Scratch memory of an operation lies between the temporaries that are alive then, where there is
 * room: b5 is not any more. It is what the plan needs at least, if that is more. */
#define BESIDE_OTHERS                                                                              \
    "buffer b1 : input f32[2, 2] source 0 buffer b2 : temp f32[2, 2] bytes(16) "                   \
    "buffer b3 : temp f32[2, 2] bytes(16) buffer b4 : output f32[2, 2] bytes(16) "                 \
    "buffer b5 : temp f32[65536] bytes(262144) buffer b6 : temp f32[2, 2] bytes(16) " KERNELS      \
    "input \"x\" : f32[2, 2] strides [2, 1] in b1 call k4(b1 f32, out b6 f32) extent(4) "          \
    "call k4(b6 f32, out b5 f32) extent(4) call k4(b5 f32, out b2 f32) extent(4) "                 \
    "extern matmul(out b3 f32, b2 f32, b2 f32, none, none) " PRODUCT_PARAMS "on opencl "           \
    "call k1(b3 f32, b6 f32, out b4 f32) extent(4) "                                               \
    "output tensor \"y\" : f32[2, 2] strides [2, 1] in b4"

static void run_beside_others(size_t scratch, hn_module_stats *stats) {
    imaginary_reset();
    *stats = (hn_module_stats){0};
    hn_module *m = load_text(BESIDE_OTHERS, NULL);
    float x[4] = {1, 2, 3, 4};
    hn_tensor *in[1] = {F32(x, 2, 2)}, *out[1] = {NULL};
    if (!m) return;
    atomic_store(&imaginary.scratch, scratch);
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        const float *y = hn_tensor_data(out[0]);
        EXPECT(y && y[0] == 64 * 7 + 2 && y[1] == 64 * 10 + 4 && y[2] == 64 * 15 + 6 &&
               y[3] == 64 * 22 + 8);
        hn_tensor_release(out[0]), out[0] = NULL;
    }
    hn_module_stats_get(m, stats);
    EXPECT_INT(stats->scratch_bytes, 0);
    hn_tensor_release(in[0]);
    hn_module_release(m);
    expect_nothing_left();
}

TEST(scratch_memory_of_operations) {
    enum { IO = 2 * 16, LARGE = 262144, MORE = 1 << 20 };
    hn_module_stats stats;
    run_beside_others(4096, &stats);
    EXPECT_INT(stats.plan_bytes, IO + LARGE + 2 * 64);
    EXPECT_INT(stats.plan_least_bytes, IO + LARGE + 2 * 16);
    run_beside_others(MORE, &stats);
    EXPECT(stats.plan_least_bytes >= IO + 3 * 16 + MORE);
    EXPECT(stats.plan_bytes > stats.plan_least_bytes);
}

TEST(operations_that_the_device_refuses) {
    imaginary_reset();
    for (int has_kernel = 0; has_kernel < 2; has_kernel++) {
        hn_module *m =
            load_text(has_kernel ? OR_KERNEL : PRODUCT_OF_SCALED("matmul", "on opencl "), NULL);
        float x[4] = {1, 2, 3, 4}, y[4] = {0};
        hn_tensor *in[1] = {F32(x, 2, 2)}, *out[1] = {F32(y, 2, 2)};
        if (!m) return;
        atomic_store(&imaginary.refuses, true);
        if (has_kernel) EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        else
            EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_UNSUPPORTED,
                         "extern operation 'matmul': the imaginary device refuses operations");
        if (has_kernel) EXPECT(y[0] == 8 * 7 && y[1] == 8 * 10 && y[2] == 8 * 15 && y[3] == 8 * 22);
        EXPECT_INT(atomic_load(&imaginary.launches), has_kernel ? 3 : 0);
        EXPECT_INT(atomic_load(&imaginary.operation_runs), 0);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
        hn_module_release(m);
    }
    expect_nothing_left();
}

static const float weights[4] = {10, 20, 30, 40};

/* A call of the device is asked for a form by its table; its kernel, where the device refuses it,
 * has none. */
#define FORMED                                                                                     \
    "symbol size s0 in [1, 64] hint 2 buffer b1 : input f32[s0, 2] strides [2, 1] source 0 "       \
    "buffer b2 : constant f32[2, 2] source 1 "                                                     \
    "buffer b3 : output f32[2*s0] bytes(8*s0) " KERNELS                                            \
    "input \"x\" : f32[s0, 2] strides [2, 1] in b1 "                                               \
    "extern matmul or k9(out b3 f32, b1 f32, b2 f32, none, none) params [1, 1, 1, 1, s0, 2, 2, "   \
    "0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "   \
    "0, 0] extent(1) threads 1 form \"library candidate=3\" on opencl "                            \
    "or form \"own\" or form \"library candidate=2\" choose [s0] else 1 [2 in [4, 7], 0 in "       \
    "[8, none]] output tensor \"y\" : f32[s0, 2] strides [2, 1] in b3"

TEST(operations_of_the_device_have_forms) {
    static const struct {
        int64_t rows;
        int candidate;
    } cases[] = {{2, 0}, {4, 2}, {8, 3}, {64, 3}, {1, 0}};
    const fixture_weight weight = {"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, weights};
    imaginary_reset();
    for (int refused = 0; refused < 2; refused++) {
        hn_module *m = load_weights(FORMED, &weight, 1, NULL);
        if (!m) return;
        atomic_store(&imaginary.refuses, refused);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            float x[128] = {1, 2};
            hn_tensor *in[1] = {F32(x, cases[k].rows, 2)}, *out[1] = {NULL};
            EXPECT_OK(hn_module_run(m, in, 1, out, 1));
            const float *y = out[0] ? hn_tensor_data(out[0]) : NULL;
            EXPECT(y && y[0] == 10 + 2 * 30 && y[1] == 20 + 2 * 40);
            if (!refused) EXPECT_INT(atomic_load(&imaginary.candidate), cases[k].candidate);
            hn_tensor_release(in[0]), hn_tensor_release(out[0]);
        }
        hn_module_release(m);
    }
    expect_nothing_left();
}

/* Only the run knows that there are three true elements, not two. */
TEST(an_operation_that_its_operands_make_impossible) {
    imaginary_reset();
    hn_module *m = load_text(
        "buffer b1 : input bool[4] source 0 buffer b2 : output i64[2, 1] bytes(16) " KERNELS
        "input \"x\" : bool[4] strides [1] in b1 extern nonzero(out b2 i64, b1 bool) params "
        "[2, 1, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] on opencl "
        "output tensor \"y\" : i64[2, 1] strides [1, 1] in b2",
        NULL);
    uint8_t x[4] = {1, 0, 1, 1};
    hn_tensor *in[1] = {tensor_of(HN_BOOL, 1, (int64_t[]){4}, NULL, x)}, *out[1] = {NULL};
    if (!m) return;
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_INVALID_ARGUMENT,
                 "the operation 'nonzero' cannot be done with the data of its operands");
    x[3] = 0;
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && ((int64_t *)hn_tensor_data(out[0]))[1] == 2);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
    expect_nothing_left();
}

/* y = x + w, for w of 4 numbers */
#define WEIGHTED                                                                                                          \
    "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : output f32[4] bytes(16) " KERNELS \
    "input \"x\" : f32[4] strides [1] in b1 call k1(b1 f32, b2 f32, out b3 f32) extent(4) "                               \
    "output tensor \"y\" : f32[4] strides [1] in b3"

static float run_weighted(hn_module *m) {
    float x[4] = {1, 1, 1, 1}, y[4] = {NAN};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {F32(y, 4)};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    return y[3];
}

static void *run_weighted_often(void *m) {
    for (int k = 0; k < 50; k++) EXPECT(run_weighted(m) == 41);
    return NULL;
}

TEST(weights_are_copied_once) {
    imaginary_reset();
    hn_module *m = load_weights(
        WEIGHTED, &(fixture_weight){"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, weights}, 1, NULL);
    pthread_t threads[4];
    hn_module_stats stats;
    if (!m) return;
    for (int k = 0; k < 4; k++)
        EXPECT(pthread_create(&threads[k], NULL, run_weighted_often, m) == 0);
    for (int k = 0; k < 4; k++) pthread_join(threads[k], NULL);
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.weights_uploaded_bytes, 16);
    /* of x: no run's bytes are lost or counted twice */
    EXPECT_INT(stats.bytes_to_device, 4 * 50 * 16);
    EXPECT_INT(stats.bytes_from_device, 4 * 50 * 16);
    float other[4] = {0, 0, 0, 1};
    hn_tensor *w = F32(other, 4);
    EXPECT_OK(hn_module_weights_replace(m, &(hn_named_tensor){"w", w}, 1, true));
    EXPECT(run_weighted(m) == 2);
    other[3] = 5; /* the same memory with another content, when no run needs the old one */
    EXPECT_OK(hn_module_weights_replace(m, &(hn_named_tensor){"w", w}, 1, true));
    EXPECT(run_weighted(m) == 6);
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.weights_uploaded_bytes, 48);
    hn_tensor_release(w);
    hn_module_release(m);
    expect_nothing_left();
}

static hn_module *load_weighted(const hn_module_options *options) {
    return load_weights(
        WEIGHTED, &(fixture_weight){"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, weights}, 1, options);
}

static uint64_t uploaded(hn_module *m) {
    hn_module_stats stats;
    hn_module_stats_get(m, &stats);
    return stats.weights_uploaded_bytes;
}

/* By a thread, before there is a run. */
TEST(weights_are_copied_when_a_module_is_opened) {
    imaginary_reset();
    hn_module *m = load_weighted(NULL);
    if (!m) return;
    for (int k = 0; k < 10000 && !uploaded(m); k++) usleep(1000);
    EXPECT_INT(uploaded(m), 16);
    EXPECT(run_weighted(m) == 41);
    EXPECT_INT(uploaded(m), 16);
    hn_module_release(m);
    expect_nothing_left();
    for (int k = 0; k < 20; k++) hn_module_release(load_weighted(NULL)); /* perhaps under way */
    expect_nothing_left();
}

/* Perhaps while the old ones are under way. */
TEST(weights_are_exchanged_before_the_first_run) {
    float other[4] = {0, 0, 0, 1};
    hn_tensor *w = F32(other, 4);
    imaginary_reset();
    for (int k = 0; k < 20; k++) {
        hn_module *m = load_weighted(NULL);
        if (!m) break;
        EXPECT_OK(hn_module_weights_replace(m, &(hn_named_tensor){"w", w}, 1, true));
        EXPECT(run_weighted(m) == 2);
        hn_module_release(m);
    }
    hn_tensor_release(w);
    expect_nothing_left();
}

/* A child has no thread that copies weights: it is told, and does not wait. */
TEST(weights_cannot_be_exchanged_in_a_forked_child) {
#ifdef __SANITIZE_THREAD__
    hn_test_skip("ThreadSanitizer cannot follow a fork of a program with threads");
    return;
#endif
    float other[4] = {0, 0, 0, 1};
    hn_tensor *w = F32(other, 4);
    imaginary_reset();
    hn_module *m = load_weighted(NULL);
    if (!m) return;
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        hn_status status = hn_module_weights_replace(m, &(hn_named_tensor){"w", w}, 1, true);
        _exit(status && strstr(hn_status_message(status), "forked") ? 0 : 1);
    }
    int result = -1;
    EXPECT(waitpid(child, &result, 0) == child && result == 0);
    hn_module_release(m);
    hn_tensor_release(w);
    expect_nothing_left();
}

static void run_in_turn(void *context, int count, void (*task)(void *data, int k), void *data) {
    (void)context;
    for (int k = 0; k < count; k++) task(data, k);
}

/* Who brings threads gets no other one: the first run copies. */
TEST(weights_of_a_module_with_an_executor) {
    const hn_executor executor = {.run = run_in_turn, .threads = 2};
    imaginary_reset();
    hn_module *m = load_weighted(&(hn_module_options){.executor = &executor});
    if (!m) return;
    EXPECT_INT(atomic_load(&imaginary.queues), 0);
    EXPECT_INT(uploaded(m), 0);
    EXPECT(run_weighted(m) == 41);
    EXPECT_INT(uploaded(m), 16);
    hn_module_release(m);
    expect_nothing_left();
}

/* What the thread could not copy a run tries again, and tells what is wrong. */
TEST(weights_that_cannot_be_copied) {
    float x[4] = {1, 1, 1, 1};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    imaginary_reset();
    atomic_store(&imaginary.fail_copies, true);
    hn_module *m = load_weighted(NULL);
    if (!m) return;
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_DEVICE,
                 "weights of 16 bytes: the imaginary device fails in 'copy_in'");
    atomic_store(&imaginary.fail_copies, false);
    EXPECT(run_weighted(m) == 41);
    hn_tensor_release(in[0]);
    hn_module_release(m);
    expect_nothing_left();
}

/* ---- which device ---- */

TEST(the_device_by_name_and_number) {
    static const struct {
        const char *device, *error;
    } cases[] = {
        {"opencl", NULL},
        {"opencl:0", NULL},
        {"opencl:1", NULL},
        {"opencl:2", "there is no device opencl:2"},
        {"cpu", "the program was compiled for opencl and does not run on cpu"},
        {"gpu", "'gpu' is no device; give one of cpu, cuda, opencl"},
        {"opencl:", "'opencl:' is no device"},
        {"opencl:1x", "'opencl:1x' is no device"},
        {"opencl:99999999999999999999", "is no device"},
    };
    imaginary_reset();
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        program p;
        hn_strbuf image;
        hn_module *m = NULL;
        program_init(&p);
        EXPECT_OK(program_image(&p, SCALED, NULL, &image));
        hn_status status = hn_module_load_memory(
            image.ptr, image.len, false, &(hn_module_options){.device = cases[k].device}, &m);
        if (cases[k].error) EXPECT(status && strstr(hn_status_message(status), cases[k].error));
        else EXPECT(!status);
        hn_status_free(status);
        hn_module_release(m);
        hn_strbuf_deinit(&image);
        program_deinit(&p);
    }
    expect_nothing_left();
}

/* ---- hooks ---- */

typedef struct seen {
    void *queue;
    int64_t kernel_ns;
} seen;

static hn_status see(void *user, const hn_step_info *step, uint64_t *note) {
    seen *s = user;
    (void)note;
    if (step->kind != HN_MODULE_STEP_KERNEL) return NULL;
    EXPECT(step->device.kind == HN_DEVICE_OPENCL && step->device.number == 1);
    s->queue = step->queue;
    s->kernel_ns = step->device_ns;
    return NULL;
}

TEST(hooks_see_queue_and_time) {
    imaginary_reset();
    for (int profile = 0; profile < 2; profile++) {
        hn_module *m =
            load_text(SCALED, &(hn_module_options){.device = "opencl:1", .profile = profile});
        float x[4] = {1, 2, 3, 4};
        hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
        seen s = {NULL, -1};
        hn_module_step_profile step;
        if (!m) return;
        EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){NULL, see, &s}));
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        EXPECT(s.queue != NULL);
        EXPECT_INT(s.kernel_ns, profile ? 1010 : 0);
        EXPECT_OK(hn_module_profile(m, 0, &step));
        if (profile) EXPECT_INT(step.total_ns, 1010);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
        hn_module_release(m);
    }
    expect_nothing_left();
}

/* ---- runs that are begun and ended ---- */

TEST(a_run_that_is_begun) {
    imaginary_reset();
    hn_module *m = load_text(SCALED, NULL);
    float x[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, y[4] = {0};
    hn_tensor *in[2] = {F32(x[0], 4), F32(x[1], 4)}, *given[1] = {F32(y, 4)}, *made[1] = {NULL};
    hn_run *first = NULL, *second = NULL;
    if (!m) return;
    EXPECT_OK(hn_run_begin(m, NULL, &in[0], 1, given, 1, &first));
    EXPECT_OK(hn_run_begin(m, NULL, &in[1], 1, made, 1, &second));
    hn_tensor_release(in[0]), hn_tensor_release(in[1]); /* the runs keep them */
    EXPECT(y[0] == 0 && !made[0]);
    EXPECT_OK(hn_run_end(second));
    EXPECT(made[0] && ((float *)hn_tensor_data(made[0]))[0] == 20);
    EXPECT(y[0] == 0);
    hn_module_release(m); /* so they do the module */
    EXPECT_OK(hn_run_end(first));
    EXPECT(y[0] == 4 && y[3] == 16);
    EXPECT_OK(hn_run_end(NULL));
    hn_tensor_release(given[0]), hn_tensor_release(made[0]);
    expect_nothing_left();
}

/* y = w; w = w + x */
#define COUNTER                                                                                                   \
    "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : output f32[4] bytes(16) " \
    "buffer b4 : output f32[4] bytes(16) " KERNELS "input \"x\" : f32[4] strides [1] in b1 "                      \
    "call k1(b1 f32, b2 f32, out b3 f32) extent(4) call k1(b3 f32, b2 f32, out b4 f32) extent(4) "                \
    "output mutation \"w\" : f32[4] strides [1] in b3 output tensor \"y\" : f32[4] strides [1] in b2"
static const fixture_weight counter_weight = {"w", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, weights};

TEST(one_run_for_each_state) {
    imaginary_reset();
    hn_module *m = load_weights(COUNTER, &counter_weight, 1, NULL);
    hn_state *other = NULL;
    float x[4] = {1, 1, 1, 1};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL}, *more[1] = {NULL}, *w = NULL;
    hn_run *first = NULL, *second = NULL;
    if (!m) return;
    EXPECT_OK(hn_state_create(m, &other));
    EXPECT_OK(hn_run_begin(m, NULL, in, 1, out, 1, &first));
    EXPECT_ERROR(hn_run_begin(m, NULL, in, 1, more, 1, &second), HN_INVALID_ARGUMENT,
                 "this thread has begun a run with the state");
    EXPECT_ERROR(hn_state_reset(hn_module_state(m)), HN_INVALID_ARGUMENT, "end it first");
    EXPECT_OK(hn_run_begin(m, &(hn_run_options){.state = other}, in, 1, more, 1, &second));
    EXPECT_OK(hn_run_end(first));
    EXPECT_OK(hn_run_end(second));
    EXPECT_OK(hn_state_read(other, "w", &w));
    EXPECT(w && ((float *)hn_tensor_data(w))[0] == 11);
    hn_state_destroy(other);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]), hn_tensor_release(more[0]),
        hn_tensor_release(w);
    hn_module_release(m);
    expect_nothing_left();
}

static void *end_elsewhere(void *run) {
    EXPECT_ERROR(hn_run_end(run), HN_INVALID_ARGUMENT, "was begun in another thread; end it there");
    return NULL;
}

TEST(a_run_is_ended_where_it_was_begun) {
    imaginary_reset();
    hn_module *m = load_weights(COUNTER, &counter_weight, 1, NULL);
    float x[4] = {1, 1, 1, 1};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    hn_run *run = NULL;
    pthread_t thread;
    if (!m) return;
    EXPECT_OK(hn_run_begin(m, NULL, in, 1, out, 1, &run));
    EXPECT(pthread_create(&thread, NULL, end_elsewhere, run) == 0);
    pthread_join(thread, NULL);
    EXPECT_OK(hn_run_end(run));
    EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[0] == 10);
    hn_tensor_release(out[0]), out[0] = NULL;
    EXPECT_OK(hn_module_run(m, in, 1, out, 1)); /* the state is free again */
    EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[0] == 11);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
    expect_nothing_left();
}

TEST(a_run_that_is_cancelled) {
    imaginary_reset();
    hn_module *m = load_weights(COUNTER, &counter_weight, 1, NULL);
    hn_cancel *token = NULL;
    float x[4] = {1, 1, 1, 1};
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL}, *w = NULL;
    hn_run *run = NULL;
    if (!m) return;
    EXPECT_OK(hn_cancel_create(&token));
    EXPECT_OK(hn_run_begin(m, &(hn_run_options){.cancel = token}, in, 1, out, 1, &run));
    hn_cancel_set(token);
    EXPECT_ERROR(hn_run_end(run), HN_CANCELLED, "the run was cancelled");
    EXPECT_ERROR(hn_run_begin(m, &(hn_run_options){.cancel = token}, in, 1, out, 1, &run),
                 HN_CANCELLED, "the run was cancelled");
    EXPECT_OK(hn_module_buffer_read(m, "w", &w));
    EXPECT(w && ((float *)hn_tensor_data(w))[0] == 10 && !out[0]);
    hn_cancel_destroy(token);
    hn_tensor_release(in[0]), hn_tensor_release(w);
    hn_module_release(m);
    expect_nothing_left();
}

/* ---- a device that fails ---- */

/* Of everything something: sizes from the data, a conditional, an assertion, operations of the host
 * and of the device, a state, weights, a temporary and a slot. n is the number of true elements of
 * p. */
#define EVERYTHING                                                                                                            \
    "symbol data u0 in [0, 8] buffer b1 : input f32[2, 2] source 0 buffer b2 : input bool[4] source 1 "                       \
    "buffer b3 : constant f32[4] source 1 buffer b4 : constant f32[4] source 2 buffer b5 : temp f32[2, 2] bytes(16) "         \
    "buffer b6 : temp f32[2, 2] bytes(16) buffer b7 : temp i64[] bytes(8) buffer b8 : output f32[u0] bytes(4*u0) "            \
    "buffer b9 : output f32[4] bytes(16) buffer b10 : temp f32[4] bytes(16) buffer b11 : temp f32[2, 2] bytes(16) " KERNELS   \
    "input \"x\" : f32[2, 2] strides [2, 1] in b1 input \"p\" : bool[4] strides [1] in b2 "                                   \
    "call k7(b2 bool, out b7 i64) params [4] extent(1) assert(b2 bool) text \"the first is true\" define(b7 i64) symbol(u0) " \
    "call k4(b1 f32, out b5 f32) extent(4) "                                                                                  \
    "extern matmul(out b6 f32, b5 f32, b1 f32, none, none) " PRODUCT_PARAMS                                                   \
    "extern matmul(out b11 f32, b6 f32, b1 f32, none, none) " PRODUCT_PARAMS "on opencl "                                     \
    "cond(b2 bool) { call k1(b11 f32, b3 f32, out b10 f32) extent(4) } else { copy b10 from b11 } "                           \
    "call k4(b10 f32, out b8 f32) extent(u0) call k1(b4 f32, b10 f32, out b9 f32) extent(4) "                                 \
    "output tensor \"y\" : f32[u0] strides [1] in b8 output mutation \"s\" : f32[4] strides [1] in b9 "

static const float zeros[4];
static const fixture_weight everything_weights[2] = {
    {"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, weights},
    {"s", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, zeros}};

static hn_status load_everything(hn_module **out) {
    static hn_strbuf image;
    if (!image.len) {
        program p;
        program_init(&p);
        for (uint32_t k = 0; k < 2; k++) program_add_weight(&p, &everything_weights[k]);
        EXPECT_OK(program_image(&p, EVERYTHING, NULL, &image));
        program_deinit(&p);
    }
    return hn_module_load_memory(image.ptr, image.len, false, &(hn_module_options){.profile = true},
                                 out);
}

/* One run, y of which must be right when it says so. */
static hn_status run_everything(hn_module *m) {
    float x[4] = {1, 2, 3, 4};
    uint8_t p[4] = {1, 0, 1, 1};
    hn_tensor *in[2] = {F32(x, 2, 2), tensor_of(HN_BOOL, 1, (int64_t[]){4}, NULL, p)},
              *out[1] = {NULL};
    hn_status status = hn_module_run(m, in, 2, out, 1);
    EXPECT((out[0] != NULL) == !status);
    if (out[0]) {
        const float *y = hn_tensor_data(out[0]);
        EXPECT_INT(hn_tensor_numel(out[0]), 3); /* 2 * (2 * x @ x @ x + w) */
        EXPECT(y[0] == 2 * (74 + 10) && y[1] == 2 * (108 + 20) && y[2] == 2 * (162 + 30));
    }
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    return status;
}

static float state_of(hn_module *m) {
    hn_tensor *s = NULL;
    float value = NAN;
    EXPECT_OK(hn_module_buffer_read(m, "s", &s));
    if (s) value = *(float *)hn_tensor_data(s);
    hn_tensor_release(s);
    return value;
}

static void expect_device_error(hn_status status) {
    const int code = (int)hn_status_code(status);
    EXPECT(code == HN_DEVICE || code == HN_OUT_OF_MEMORY || code == HN_TOOLCHAIN);
    hn_status_free(status);
}

/* Loads and runs twice; then, when the device is well again, once more. Whether it came to the call
 * that is to fail; a time that the profile does not get is no failure of the run. */
static bool try_everything(uint32_t *out_good) {
    hn_module *m = NULL;
    uint32_t good = 0;
    hn_status status = load_everything(&m);
    const bool is_loaded = !status;
    if (status) expect_device_error(status);
    for (int k = 0; is_loaded && k < 2; k++) {
        status = run_everything(m);
        good += !status;
        if (status) expect_device_error(status);
    }
    const bool came_so_far = atomic_load(&imaginary.calls) >= atomic_load(&imaginary.fail_at);
    imaginary_reset();
    if (is_loaded) EXPECT_OK(run_everything(m));
    /* as many runs as were well have changed it */
    if (is_loaded) EXPECT(state_of(m) == 84 * (float)(good + 1));
    hn_module_release(m);
    expect_nothing_left();
    *out_good = good;
    return came_so_far;
}

TEST(each_call_of_the_table_fails_once) {
    uint32_t n = 0, good;
    do {
        imaginary_reset();
        atomic_store(&imaginary.fail_at, ++n);
    } while (try_everything(&good) && n < 1000);
    EXPECT(n > 100 && n < 1000 && good == 2);
}

TEST(the_device_is_lost) {
    uint32_t n = 0, good;
    do {
        imaginary_reset();
        atomic_store(&imaginary.stays_lost, true);
        atomic_store(&imaginary.fail_at, ++n);
    } while (try_everything(&good) && n < 1000);
    EXPECT(n > 100 && n < 1000 && good == 2);
}

TEST(memory_runs_out) {
    size_t bytes = 0;
    uint32_t good;
    do {
        imaginary_reset();
        atomic_store(&imaginary.memory_max, bytes += 256);
        (void)try_everything(&good);
    } while (good < 2 && bytes < 1 << 20);
    EXPECT(bytes > 1024 && bytes < 1 << 20);
}

/* a, b = b, a; what is taken aside of one is there before the other is written */
#define SWAP                                                                                                                 \
    "buffer b1 : constant f32[4] source 1 buffer b2 : constant f32[4] source 2 buffer b3 : output f32[4] bytes(16) " KERNELS \
    "call k1(b1 f32, b2 f32, out b3 f32) extent(4) output mutation \"a\" : f32[4] strides [1] in b2 "                        \
    "output mutation \"b\" : f32[4] strides [1] in b1 output tensor \"y\" : f32[4] strides [1] in b3"

TEST(mutations_that_fail_halfway) {
    static const fixture_weight both[2] = {{"a", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, weights},
                                           {"b", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, weights}};
    uint32_t n = 0;
    bool came_so_far;
    do {
        imaginary_reset();
        hn_module *m = load_weights(SWAP, both, 2, NULL);
        hn_tensor *out[1] = {NULL};
        if (!m) return;
        const uint32_t loaded = atomic_load(&imaginary.calls);
        atomic_store(&imaginary.fail_at, loaded + ++n);
        hn_status status = hn_module_run(m, NULL, 0, out, 1);
        came_so_far = atomic_load(&imaginary.calls) >= loaded + n;
        if (status) expect_device_error(status);
        hn_tensor_release(out[0]), out[0] = NULL;
        imaginary_reset();
        EXPECT_OK(hn_module_run(m, NULL, 0, out, 1));
        hn_tensor_release(out[0]);
        hn_module_release(m);
        expect_nothing_left();
    } while (came_so_far && n < 100);
    EXPECT(n > 5 && n < 100);
}

/* The host has the size; a kernel with scratch memory is at work when the next one wants more. */
TEST(scratch_memory_that_grows_stays_until_it_is_not_used) {
    imaginary_reset();
    hn_module *m = load_text(
        "symbol data u0 in [1, 4096] buffer b1 : input f32[4] source 0 buffer b2 : input i64[] source 1 "
        "buffer b3 : temp f32[4] bytes(16) buffer b4 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
        "call k2(b1 f32, out b3 f32) params [1] extent(4) scratch(64) define(b2 i64) symbol(u0) "
        "call k2(b3 f32, out b4 f32) params [1] extent(4) scratch(64*u0) "
        "output tensor \"y\" : f32[4] strides [1] in b4 output scalar \"n\" : int(u0)",
        NULL);
    float x[4] = {1, 2, 3, 4};
    int64_t n = 4000;
    hn_tensor *in[2] = {F32(x, 4), tensor_of(HN_I64, 0, NULL, NULL, &n)}, *out[2] = {NULL, NULL};
    if (!m) return;
    EXPECT_OK(hn_module_run(m, in, 2, out, 2));
    EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[3] == 4);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]),
        hn_tensor_release(out[1]);
    hn_module_release(m);
    expect_nothing_left();
}

/* ---- indices ---- */

/* Indices in a temporary, whose memory another one takes over (b5) or none. */
#define CHOSEN(behind)                                                                                                 \
    "buffer b1 : input f32[4] source 0 buffer b2 : input i64[4] source 1 buffer b3 : temp i64[4] bytes(32) "           \
    "buffer b4 : temp f32[4] bytes(16) buffer b5 : temp f32[4] bytes(16) buffer b6 : output f32[4] bytes(16) " KERNELS \
    "input \"x\" : f32[4] strides [1] in b1 input \"at\" : i64[4] strides [1] in b2 copy b3 from b2 "                  \
    "call k3(b1 f32, b3 i64, out b4 f32) params [4] extent(4) origin 1 " behind                                        \
    "output tensor \"y\" : f32[4] strides [1] in b6"

static void add_check(hn_wrapper *w) {
    static hn_wcheck check = {.operand = 1, .origin = 1};
    check.extent = hn_sym_int(w->sym, 4);
    for (uint32_t k = 0; k < w->lines.count; k++)
        if (w->lines.items[k].kind == HN_LINE_KERNEL && w->lines.items[k].param_count) {
            w->lines.items[k].checks = &check;
            w->lines.items[k].check_count = 1;
        }
}

TEST(indices_out_of_bounds_that_were_overwritten) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {CHOSEN("call k4(b4 f32, out b6 f32) extent(4) "),
         "index 7 is out of bounds; valid indices are 0 to 3"},
        {CHOSEN("call k4(b4 f32, out b5 f32) extent(4) call k4(b5 f32, out b6 f32) extent(4) "),
         "an index is out of bounds; valid indices are 0 to 3"},
    };
    imaginary_reset();
    fixture_edit = add_check;
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        hn_module *m = load_text(cases[k].text, NULL);
        float x[4] = {1, 2, 3, 4};
        int64_t at[4] = {3, 2, 7, 1};
        hn_tensor *in[2] = {F32(x, 4), tensor_of(HN_I64, 1, (int64_t[]){4}, NULL, at)},
                  *out[1] = {NULL};
        if (!m) break;
        EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT, cases[k].error);
        at[2] = 0;
        EXPECT_OK(hn_module_run(m, in, 2, out, 1));
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
        hn_module_release(m);
    }
    fixture_edit = NULL;
    expect_nothing_left();
}

TEST_MAIN
