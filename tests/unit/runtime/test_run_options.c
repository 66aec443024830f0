/* Runs with options: cancelling, threads, read-only memory; and what every public function of a
 * module refuses. */
#include "unit/runtime/module_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* ---- cancelling ---- */

static hn_cancel *token;
static int calls, cancel_at;

static void count_call(void) {
    if (++calls == cancel_at) hn_cancel_set(token);
}

enum { CALLS = 20 };

/* Calls the function whose address is the input CALLS times; then the buffer "w" becomes the
 * input. */
static hn_module *load_calls(void) {
    hn_strbuf text;
    static const int64_t initial = 5;
    hn_strbuf_init(&text);
    hn_strbuf_puts(
        &text,
        "buffer b1 : input i64[1] source 0 buffer b2 : constant i64[1] source 1 buffer b3 : output i64[1] bytes(8) " KERNELS
        "input \"x\" : i64[1] strides [1] in b1 ");
    for (int i = 0; i < CALLS; i++) hn_strbuf_puts(&text, "call k8(b1 i64, out b3 i64) extent(1) ");
    hn_strbuf_puts(
        &text,
        "output mutation \"w\" : i64[1] strides [1] in b1 output tensor \"y\" : i64[1] strides [1] in b3");
    hn_module *m =
        load_weights(text.ptr, &(fixture_weight){"w", HN_INPUT_BUFFER, HN_DTYPE_I64, 1, &initial},
                     1, &(hn_module_options){.threads = 1});
    hn_strbuf_deinit(&text);
    return m;
}

static hn_status run_calls(hn_module *m, const hn_cancel *cancel) {
    int64_t address = (int64_t)(uintptr_t)count_call;
    hn_tensor *in[1] = {tensor_of(HN_I64, 1, (int64_t[]){1}, NULL, &address)}, *out[1] = {NULL};
    calls = 0;
    hn_status status = hn_module_run_with(m, &(hn_run_options){.cancel = cancel}, in, 1, out, 1);
    EXPECT((out[0] != NULL) == (status == NULL));
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    return status;
}

static int64_t buffer_of(hn_module *m) {
    hn_tensor *w = NULL;
    int64_t value = -1;
    EXPECT_OK(hn_module_buffer_read(m, "w", &w));
    EXPECT_OK(hn_tensor_copy_out(w, &value));
    hn_tensor_release(w);
    return value;
}

TEST(a_cancelled_run_ends_within_a_step) {
    hn_module *m = load_calls();
    EXPECT_OK(hn_cancel_create(&token));
    cancel_at = 3;
    EXPECT_ERROR(run_calls(m, token), HN_CANCELLED, "the run was cancelled");
    EXPECT_INT(calls, 3);
    EXPECT(hn_cancel_is_set(token));
    EXPECT_INT(buffer_of(m), 5); /* the state has not changed */
    EXPECT_ERROR(run_calls(m, token), HN_CANCELLED, "the run was cancelled");
    EXPECT_INT(calls, 0); /* the token was set before the run */
    hn_cancel_reset(token);
    EXPECT(!hn_cancel_is_set(token));
    cancel_at = 0;
    EXPECT_OK(run_calls(m, token));
    EXPECT_INT(calls, CALLS);
    EXPECT(buffer_of(m) == (int64_t)(uintptr_t)count_call);
    hn_cancel_destroy(token);
    hn_module_release(m);
}

static void on_signal(int number) {
    (void)number;
    hn_cancel_set(token);
}

static void raise_signal(void) {
    if (++calls == 2) raise(SIGUSR1);
}

TEST(a_signal_handler_may_cancel) {
    hn_module *m = load_calls();
    int64_t address = (int64_t)(uintptr_t)raise_signal;
    hn_tensor *in[1] = {tensor_of(HN_I64, 1, (int64_t[]){1}, NULL, &address)}, *out[1] = {NULL};
    EXPECT_OK(hn_cancel_create(&token));
    void (*before)(int) = signal(SIGUSR1, on_signal);
    calls = 0;
    EXPECT_ERROR(hn_module_run_with(m, &(hn_run_options){.cancel = token}, in, 1, out, 1),
                 HN_CANCELLED, "cancelled");
    EXPECT_INT(calls, 2);
    (void)signal(SIGUSR1, before);
    hn_tensor_release(in[0]);
    hn_cancel_destroy(token);
    hn_module_release(m);
}

static void *set_token(void *user) {
    hn_cancel_set(user);
    return NULL;
}

static atomic_bool go_on;
static void wait_for_token(void) {
    calls++;
    atomic_store(&go_on, true);
    while (!hn_cancel_is_set(token)) continue;
}

static void *run_waiting(void *user) {
    int64_t address = (int64_t)(uintptr_t)wait_for_token;
    hn_tensor *in[1] = {tensor_of(HN_I64, 1, (int64_t[]){1}, NULL, &address)}, *out[1] = {NULL};
    EXPECT_ERROR(hn_module_run_with(user, &(hn_run_options){.cancel = token}, in, 1, out, 1),
                 HN_CANCELLED, "cancelled");
    hn_tensor_release(in[0]);
    return NULL;
}

TEST(another_thread_cancels) {
    hn_module *m = load_calls();
    pthread_t runner, setter;
    EXPECT_OK(hn_cancel_create(&token));
    calls = 0;
    EXPECT_INT(pthread_create(&runner, NULL, run_waiting, m), 0);
    while (!atomic_load(&go_on)) continue;
    EXPECT_INT(pthread_create(&setter, NULL, set_token, token), 0);
    pthread_join(setter, NULL), pthread_join(runner, NULL);
    EXPECT_INT(calls, 1);
    hn_cancel_destroy(token);
    hn_module_release(m);
}

TEST(tokens_that_are_null) {
    EXPECT_ERROR(hn_cancel_create(NULL), HN_INVALID_ARGUMENT,
                 "hn_cancel_create: 'out_cancel' is NULL");
    hn_cancel_set(NULL), hn_cancel_reset(NULL), hn_cancel_destroy(NULL);
    EXPECT(!hn_cancel_is_set(NULL));
}

/* ---- threads ---- */

static const char row_sums[] =
    "symbol size s0 in [1, none] symbol size s1 in [1, none] buffer b1 : input f32[s0, s1] strides [s1, 1] source 0 "
    "buffer b2 : output f32[s0] bytes(4*s0) " KERNELS
    "input \"x\" : f32[s0, s1] strides [s1, 1] in b1 "
    "call k2(b1 f32, out b2 f32) params [s1] extent(s0) grain 1 scratch(64) "
    "output tensor \"z\" : f32[s0] strides [1] in b2";

/* The device of a program for the CPU is the CPU. */
TEST(outputs_on_the_device_of_the_program) {
    float x[4] = {1, 2, 3, 4};
    hn_module *m =
        load_text("buffer b1 : input f32[4] source 0 buffer b2 : output f32[4] bytes(16) " KERNELS
                  "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) "
                  "output tensor \"y\" : f32[4] strides [1] in b2",
                  NULL);
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    if (!m) return;
    EXPECT_OK(hn_module_run_with(m, &(hn_run_options){.device_outputs = true}, in, 1, out, 1));
    EXPECT(out[0] && hn_tensor_device(out[0]).kind == HN_DEVICE_CPU &&
           ((float *)hn_tensor_data(out[0]))[3] == 8);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

TEST(threads_of_one_run) {
    hn_module *m = load_text(row_sums, &(hn_module_options){.threads = 3});
    float x[7 * 5];
    for (int i = 0; i < 35; i++) x[i] = (float)i;
    /* more than the module has: as many as it has */
    for (int threads = 0; threads <= 4; threads++) {
        hn_tensor *in[1] = {F32(x, 7, 5)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run_with(m, &(hn_run_options){.threads = threads}, in, 1, out, 1));
        for (int i = 0; out[0] && i < 7; i++)
            EXPECT_NEAR(((float *)hn_tensor_data(out[0]))[i], 25 * i + 10, 0);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    hn_module_stats stats;
    hn_module_stats_get(m, &stats);
    /* one for each number of threads: 3, which is 0 and 4 too, 1 and 2 */
    EXPECT_INT(stats.shapes_bound, 3);
    hn_module_release(m);
}

/* A product of the runtime's own takes its number of threads when it is bound. */
TEST(threads_of_one_run_with_a_product) {
    enum { N = 64 };
    static float a[N * N], b[N * N];
    hn_module *m = load_text(
        "buffer b1 : input f32[64, 64] strides [64, 1] source 0 buffer b2 : input f32[64, 64] strides [64, 1] source 1 buffer b3 : output f32[4096] bytes(16384) " KERNELS
        "input \"a\" : f32[64, 64] strides [64, 1] in b1 input \"b\" : f32[64, 64] strides [64, 1] in b2 "
        "extern matmul(out b3 f32, b1 f32, b2 f32, none, none) params [1, 1, 1, 1, 64, 64, 64, 0, 0, 0, 0, 64, 1, "
        "0, 0, 0, 0, 64, 1, 0, 0, 0, 0, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] "
        "output tensor \"y\" : f32[64, 64] strides [64, 1] in b3",
        &(hn_module_options){.threads = 3});
    for (int k = 0; k < N * N; k++) a[k] = (float)(k % 7), b[k] = k / N == k % N;
    for (int threads = 4; m && threads >= 0; threads--) {
        hn_tensor *in[2] = {F32(a, N, N), F32(b, N, N)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run_with(m, &(hn_run_options){.threads = threads}, in, 2, out, 1));
        for (int k = 0; out[0] && k < N * N; k++)
            EXPECT_NEAR(((float *)hn_tensor_data(out[0]))[k], a[k], 0);
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
}

/* A pool of the host that has one thread and goes backwards. */
static void run_backwards(void *context, int count, void (*task)(void *data, int k), void *data) {
    *(int *)context += count;
    for (int k = count - 1; k >= 0; k--) task(data, k);
}

TEST(a_pool_of_the_host_runs_the_tasks) {
    int tasks = 0;
    hn_executor executor = {.context = &tasks, .threads = 3, .run = run_backwards};
    hn_module *m = load_text(row_sums, &(hn_module_options){.executor = &executor});
    executor = (hn_executor){0}; /* it was copied */
    float x[7 * 5];
    for (int i = 0; i < 35; i++) x[i] = (float)i;
    /* parts, or as many tasks as the run may have threads, which take parts */
    for (int threads = 0; threads <= 4; threads++) {
        hn_tensor *in[1] = {F32(x, 7, 5)}, *out[1] = {NULL};
        tasks = 0;
        EXPECT_OK(hn_module_run_with(m, &(hn_run_options){.threads = threads}, in, 1, out, 1));
        EXPECT_INT(tasks, threads == 1 ? 0 : threads == 2 ? 2 : 3);
        for (int i = 0; out[0] && i < 7; i++)
            EXPECT_NEAR(((float *)hn_tensor_data(out[0]))[i], 25 * i + 10, 0);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
}

TEST(executors_that_cannot_run) {
    hn_module *none = NULL;
    EXPECT_ERROR(
        hn_module_load_memory(
            "", 0, false, &(hn_module_options){.executor = &(hn_executor){.threads = 2}}, &none),
        HN_INVALID_ARGUMENT,
        "an executor needs a function 'run' and 1 to 1024 threads; it has none and 2");
    EXPECT_ERROR(hn_module_load_memory(
                     "", 0, false,
                     &(hn_module_options){.executor = &(hn_executor){.run = run_backwards}}, &none),
                 HN_INVALID_ARGUMENT, "it has one and 0");
    EXPECT(!none);
}

TEST(absurd_numbers_of_threads) {
    hn_module *m = load_text(row_sums, NULL);
    float x[1] = {1};
    hn_tensor *in[1] = {F32(x, 1, 1)}, *out[1] = {NULL};
    EXPECT_ERROR(hn_module_run_with(m, &(hn_run_options){.threads = -1}, in, 1, out, 1),
                 HN_INVALID_ARGUMENT,
                 "-1 threads are not possible; give 1 to 1024, or 0 for the default");
    EXPECT_ERROR(hn_module_run_with(m, &(hn_run_options){.threads = 1025}, in, 1, out, 1),
                 HN_INVALID_ARGUMENT, "1025 threads");
    hn_tensor_release(in[0]);
    hn_module_release(m);
    hn_module *none = NULL;
    EXPECT_ERROR(hn_module_load_memory("", 0, false, &(hn_module_options){.threads = -7}, &none),
                 HN_INVALID_ARGUMENT, "-7 threads");
    EXPECT_ERROR(
        hn_module_load_memory("", 0, false, &(hn_module_options){.threads = 1 << 30}, &none),
        HN_INVALID_ARGUMENT, "1073741824 threads");
    EXPECT_ERROR(
        hn_module_load_memory("", 0, false, &(hn_module_options){.trusted_count = 2}, &none),
        HN_INVALID_ARGUMENT, "'trusted' is NULL");
    EXPECT(!none);
}

/* ---- read-only memory ---- */

TEST(read_only_inputs) {
    hn_module *m = load_text(row_sums, NULL);
    static const float x[2] = {3, 4};
    hn_tensor *in[1] = {NULL}, *out[1] = {NULL};
    EXPECT_OK(hn_tensor_create_const(
        &(hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = (int64_t[]){1, 2}}, x, &in[0]));
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && *(float *)hn_tensor_data(out[0]) == 7);
    hn_tensor_release(out[0]);
    EXPECT_OK(hn_tensor_create_const(
        &(hn_tensor_desc){.type = HN_F32, .rank = 1, .sizes = (int64_t[]){1}}, x, &out[0]));
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_INVALID_ARGUMENT,
                 "the tensor given for output 0 is read-only memory");
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

TEST(read_only_inputs_that_change) {
    hn_module *m =
        load_text("buffer b1 : input f32[2] source 0 buffer b2 : output f32[2] bytes(8) " KERNELS
                  "input \"x\" : f32[2] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(2) "
                  "output mutation \"x\" target 0 : f32[2] strides [1] in b2",
                  NULL);
    static const float fixed[2] = {3, 4};
    float memory[2] = {3, 4};
    hn_tensor *in[1] = {NULL};
    EXPECT_OK(hn_tensor_create_const(
        &(hn_tensor_desc){.type = HN_F32, .rank = 1, .sizes = (int64_t[]){2}}, fixed, &in[0]));
    EXPECT_ERROR(
        hn_module_run(m, in, 1, NULL, 0), HN_INVALID_ARGUMENT,
        "input 'x' is read-only memory, but the program writes to it; give writable memory");
    EXPECT(fixed[0] == 3);
    hn_tensor_release(in[0]);
    in[0] = F32(memory, 2);
    EXPECT_OK(hn_module_run(m, in, 1, NULL, 0));
    EXPECT(memory[0] == 6 && memory[1] == 8);
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

/* ---- NULL ---- */

TEST(null_is_refused) {
    hn_module *m = load_text(row_sums, NULL), *none = NULL;
    hn_tensor *t = NULL;
    hn_module_value_info info;
    hn_module_mutation_info mutation;
    hn_module_step_profile profile;
    hn_module_stats stats = {.runs = 9};
    EXPECT_ERROR(hn_module_load_file(NULL, NULL, &none), HN_INVALID_ARGUMENT,
                 "hn_module_load_file: 'path' is NULL");
    EXPECT_ERROR(hn_module_load_file("x.hnb", NULL, NULL), HN_INVALID_ARGUMENT,
                 "'out_module' is NULL");
    EXPECT_ERROR(hn_module_load_memory(NULL, 9, false, NULL, &none), HN_INVALID_ARGUMENT,
                 "hn_module_load_memory: 'bytes' is NULL");
    EXPECT_ERROR(hn_module_load_memory("", 0, false, NULL, NULL), HN_INVALID_ARGUMENT,
                 "'out_module' is NULL");
    EXPECT_ERROR(hn_module_run(NULL, &t, 1, &t, 1), HN_INVALID_ARGUMENT, "the module is NULL");
    EXPECT_ERROR(hn_module_run(m, NULL, 1, &t, 1), HN_INVALID_ARGUMENT, "'inputs' is NULL");
    EXPECT_ERROR(hn_module_run(m, &t, 1, NULL, 1), HN_INVALID_ARGUMENT, "'outputs' is NULL");
    EXPECT_ERROR(hn_module_run(m, &t, 1, &t, 1), HN_INVALID_ARGUMENT, "input 'x' is missing");
    EXPECT_ERROR(hn_module_input_info(NULL, 0, &info), HN_INVALID_ARGUMENT,
                 "hn_module_input_info: 'module' is NULL");
    EXPECT_ERROR(hn_module_input_info(m, 0, NULL), HN_INVALID_ARGUMENT, "'out' is NULL");
    EXPECT_ERROR(hn_module_output_info(NULL, 0, &info), HN_INVALID_ARGUMENT, "'module' is NULL");
    EXPECT_ERROR(hn_module_output_info(m, 0, NULL), HN_INVALID_ARGUMENT, "'out' is NULL");
    EXPECT_ERROR(hn_module_mutation_info_get(NULL, 0, &mutation), HN_INVALID_ARGUMENT,
                 "'module' is NULL");
    EXPECT_ERROR(hn_module_mutation_info_get(m, 0, NULL), HN_INVALID_ARGUMENT, "'out' is NULL");
    EXPECT_ERROR(hn_module_buffer_read(NULL, "x", &t), HN_INVALID_ARGUMENT, "'module' is NULL");
    EXPECT_ERROR(hn_module_buffer_read(m, NULL, &t), HN_INVALID_ARGUMENT, "'name' is NULL");
    EXPECT_ERROR(hn_module_buffer_read(m, "x", NULL), HN_INVALID_ARGUMENT, "'out_tensor' is NULL");
    EXPECT_ERROR(hn_module_buffer_write(NULL, "x", t), HN_INVALID_ARGUMENT, "'module' is NULL");
    EXPECT_ERROR(hn_module_profile(NULL, 0, &profile), HN_INVALID_ARGUMENT, "'module' is NULL");
    EXPECT_ERROR(hn_module_profile(m, 0, NULL), HN_INVALID_ARGUMENT, "'out' is NULL");
    hn_module_stats_get(m, NULL);
    hn_module_stats_get(NULL, &stats);
    EXPECT_INT(stats.runs, 0);
    EXPECT_INT(hn_module_input_count(NULL) + hn_module_output_count(NULL) +
                   hn_module_mutation_count(NULL) + hn_module_step_count(NULL),
               0);
    EXPECT(!hn_module_retain(NULL));
    hn_module_release(NULL);
    hn_module_release(m);
}

TEST_MAIN
