/* test_module.c: a whole model on an OpenCL device, through the public interface: the same results
 * as on the CPU, from several threads and by runs that are begun and waited for later; and what a
 * caller gets when the driver fails. */
#include "henry/henry.h"

#include "support/opencl_faults.h"
#include "support/opencl_host.h"
#include "unit/harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The linker lets the library call the first in place of the second. */
hn_status __wrap_hn_opencl_load(hn_opencl *out);
hn_status __real_hn_opencl_load(hn_opencl *out);

hn_status __wrap_hn_opencl_load(hn_opencl *out) {
    HN_TRY(__real_hn_opencl_load(out));
    opencl_faults_wrap(out);
    return NULL;
}

enum { PIXELS = 64, DIGITS = 10, BATCH = 3 };

static hn_compiled *programs[2]; /* the same model: for the CPU, for OpenCL */

static hn_status compile_model(const char *target, hn_compiled **out) {
    return hn_compile_file("examples/data/digits/model.pt2",
                           &(hn_compile_options){.target = target, .embed_weights = true}, out);
}

static void fill(float image[BATCH * PIXELS], int seed) {
    for (int k = 0; k < BATCH * PIXELS; k++) image[k] = (float)((k * 37 + seed * 11) % 17) / 17;
}

static hn_status make_input(float *image, hn_tensor **out) {
    static const int64_t sizes[] = {BATCH, 1, 8, 8};
    return hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 4, .sizes = sizes, .data = image}, out);
}

static hn_status run(hn_module *m, int seed, float out[BATCH * DIGITS]) {
    float image[BATCH * PIXELS];
    hn_tensor *input, *output = NULL;
    fill(image, seed);
    HN_TRY(make_input(image, &input));
    hn_status status = hn_module_run(m, &input, 1, &output, 1);
    if (!status) memcpy(out, hn_tensor_data(output), BATCH * DIGITS * sizeof *out);
    hn_tensor_release(input), hn_tensor_release(output);
    return status;
}

static bool is_near(const float *a, const float *b) {
    for (int k = 0; k < BATCH * DIGITS; k++)
        if (!(fabsf(a[k] - b[k]) < 1e-5f)) return false;
    return true;
}

static hn_module *load(int program) {
    hn_module *m = NULL;
    EXPECT_OK(hn_compiled_load(programs[program], NULL, &m));
    return m;
}

TEST(results_are_those_of_the_cpu) {
    hn_module *cpu = load(0), *opencl = load(1);
    float expected[BATCH * DIGITS], got[BATCH * DIGITS];
    hn_module_stats stats;
    for (int seed = 0; seed < 3; seed++) {
        EXPECT_OK(run(cpu, seed, expected));
        EXPECT_OK(run(opencl, seed, got));
        EXPECT(is_near(expected, got));
    }
    hn_module_stats_get(opencl, &stats); /* weights once, then nothing but inputs and outputs */
    EXPECT_INT(stats.bytes_to_device, 3 * BATCH * PIXELS * sizeof(float));
    EXPECT_INT(stats.bytes_from_device, 3 * BATCH * DIGITS * sizeof(float));
    hn_module_release(cpu), hn_module_release(opencl);
}

/* ---- threads, and runs that are begun ---- */

enum { THREADS = 4, ROUNDS = 10 };

typedef struct worker {
    pthread_t thread;
    hn_module *m;
    float expected[2][BATCH * DIGITS];
    int wrong;
    hn_status status;
} worker;

static void *run_rounds(void *context) {
    worker *w = context;
    float got[BATCH * DIGITS];
    for (int round = 0; round < ROUNDS && !w->status; round++) {
        w->status = run(w->m, round % 2, got);
        w->wrong += !w->status && !is_near(got, w->expected[round % 2]);
    }
    return NULL;
}

/* Two modules, each with a context of the driver, run by several threads at a time. */
TEST(threads_and_modules_share_a_device) {
    hn_module *modules[2] = {load(1), load(1)}, *cpu = load(0);
    worker workers[THREADS] = {0};
    for (int k = 0; k < THREADS; k++) {
        workers[k].m = modules[k % 2];
        for (int seed = 0; seed < 2; seed++) EXPECT_OK(run(cpu, seed, workers[k].expected[seed]));
        EXPECT_INT(pthread_create(&workers[k].thread, NULL, run_rounds, &workers[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        pthread_join(workers[k].thread, NULL);
        EXPECT_OK(workers[k].status);
        EXPECT_INT(workers[k].wrong, 0);
    }
    hn_module_release(modules[0]), hn_module_release(modules[1]), hn_module_release(cpu);
}

/* Outputs outlive the module and the device. */
TEST(runs_that_are_begun_end_in_any_order) {
    hn_module *m = load(1), *cpu = load(0);
    float images[2][BATCH * PIXELS], expected[BATCH * DIGITS];
    hn_tensor *inputs[2], *outputs[2] = {NULL, NULL};
    hn_run *runs[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) {
        fill(images[k], k);
        EXPECT_OK(make_input(images[k], &inputs[k]));
        EXPECT_OK(hn_run_begin(m, NULL, &inputs[k], 1, &outputs[k], 1, &runs[k]));
    }
    for (int k = 1; k >= 0; k--) EXPECT_OK(hn_run_end(runs[k]));
    hn_module_release(m);
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(run(cpu, k, expected));
        EXPECT(outputs[k] && is_near(hn_tensor_data(outputs[k]), expected));
        hn_tensor_release(inputs[k]), hn_tensor_release(outputs[k]);
    }
    hn_module_release(cpu);
}

/* ---- fork ---- */

enum { CHILD_SECONDS = 20 };

/* In a child of a process that has loaded and run the module: the driver's threads are not
 * there. */
static int run_in_child(hn_module *m) {
    float got[BATCH * DIGITS];
    alarm(CHILD_SECONDS); /* instead of waiting for ever */
    hn_status status = run(m, 1, got);
    const bool is_right =
        hn_status_code(status) == HN_DEVICE && strstr(hn_status_message(status), "forked");
    hn_status_free(status);
    hn_module_release(m);
    status = hn_compiled_load(programs[1], NULL, &m);
    const bool is_refused =
        hn_status_code(status) == HN_DEVICE && strstr(hn_status_message(status), "forked");
    hn_status_free(status);
    return is_right && is_refused ? 0 : 1;
}

TEST(a_forked_child_gets_an_error) {
    hn_module *m = load(1);
    float expected[BATCH * DIGITS], got[BATCH * DIGITS];
    int wait_status = -1;
    EXPECT_OK(run(m, 1, expected));
    const pid_t child = fork();
    if (child == 0) _exit(run_in_child(m));
    EXPECT(child > 0 && waitpid(child, &wait_status, 0) == child);
    EXPECT_INT(wait_status, 0);
    EXPECT_OK(run(m, 1, got)); /* whatever the child did */
    EXPECT(is_near(got, expected));
    hn_module_release(m);
}

/* ---- failures of the driver ---- */

/* An error of the right kind, which names the call. */
static void expect_failure(hn_status status, hn_code code) {
    const char *call = opencl_faults_failed();
    if (!status) HN_TEST_FAIL("a failure of %s went unnoticed", call);
    else if (hn_status_code(status) == HN_OUT_OF_MEMORY && strcmp(call, "clCreateBuffer") == 0)
        return;
    else if (hn_status_code(status) != code || !strstr(hn_status_message(status), call))
        HN_TEST_FAIL("%s failed: %s", call, hn_status_message(status));
}

/* Every call of a run fails once; the run after it is right. */
static void every_call_of_a_run_fails(cl_int driver_code, hn_code code) {
    hn_module *m = load(1);
    float expected[BATCH * DIGITS], got[BATCH * DIGITS];
    EXPECT_OK(run(m, 1, expected));
    opencl_faults_set(0, 0, false);
    EXPECT_OK(run(m, 1, got));
    const long calls = opencl_faults_calls();
    EXPECT(calls > 20);
    fprintf(stderr, "note: %ld calls of a run\n", calls);
    for (long k = 1; k <= calls; k++) {
        opencl_faults_set(k, driver_code, false);
        hn_status status = run(m, 1, got);
        expect_failure(status, code);
        hn_status_free(status);
        memset(got, 0, sizeof got);
        EXPECT_OK(run(m, 1, got));
        EXPECT(is_near(got, expected));
    }
    opencl_faults_set(0, 0, false);
    hn_module_release(m);
}

TEST(each_call_of_a_run_fails_once) { every_call_of_a_run_fails(CL_OUT_OF_RESOURCES, HN_DEVICE); }
TEST(memory_runs_out_in_each_call_of_a_run) {
    every_call_of_a_run_fails(CL_MEM_OBJECT_ALLOCATION_FAILURE, HN_OUT_OF_MEMORY);
}

/* From loading to the end of the first run, which loads kernels and weights. */
static hn_status load_and_run(float *out) {
    hn_module *m;
    HN_TRY(hn_compiled_load(programs[1], NULL, &m));
    hn_status status = run(m, 1, out);
    hn_module_release(m);
    return status;
}

static void every_call_fails(cl_int driver_code, bool is_lost) {
    float expected[BATCH * DIGITS], got[BATCH * DIGITS];
    opencl_faults_set(0, 0, false);
    EXPECT_OK(load_and_run(expected));
    const long calls = opencl_faults_calls();
    uint32_t errors = 0;
    fprintf(stderr, "note: %ld calls from loading to the end of a run\n", calls);
    for (long k = 1; k <= calls; k++) {
        opencl_faults_set(k, driver_code, is_lost);
        hn_status status =
            load_and_run(got); /* of names of devices and of binaries the program can do without */
        errors += status != NULL;
        if (!status) EXPECT(is_near(got, expected));
        hn_status_free(status);
    }
    EXPECT(errors > calls / 2);
    opencl_faults_set(0, 0, false);
    EXPECT_OK(load_and_run(got));
    EXPECT(is_near(got, expected));
}

/* A callback may call the module that logs: here that a binary of its own was refused by the
 * driver. */
typedef struct listener {
    hn_module *m;
    int lines;
} listener;

static void ask_module(void *context, const hn_log_line *line) {
    listener *l = context;
    hn_module_stats stats;
    if (!strstr(line->text, "is built from its text")) return;
    hn_module_stats_get(l->m, &stats);
    l->lines++;
}

TEST(a_log_callback_calls_the_module) {
    listener l = {NULL, 0};
    float got[BATCH * DIGITS];
    EXPECT_OK(hn_log_levels_set("run:info"));
    EXPECT_OK(hn_log_sink_set(ask_module, &l));
    alarm(CHILD_SECONDS);
    for (long k = 1; !l.lines && k < 100; k++) {
        l.m = load(1);
        opencl_faults_set(k, CL_INVALID_BINARY, false);
        hn_status_free(run(l.m, 1, got));
        hn_module_release(l.m);
    }
    alarm(0);
    EXPECT_INT(l.lines, 1);
    opencl_faults_set(0, 0, false);
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    EXPECT_OK(hn_log_levels_set(""));
}

TEST(each_call_since_loading_fails_once) { every_call_fails(CL_OUT_OF_HOST_MEMORY, false); }
TEST(the_device_is_lost_at_each_call) { every_call_fails(CL_DEVICE_NOT_AVAILABLE, true); }

/* ---- the tensor debugger ---- */

typedef struct told {
    uint32_t lines, stats, troubles;
    uint64_t bytes; /* of tensors on the device, each as often as it was told */
} told;

static hn_status tell(void *user, const hn_debug_event *e) {
    told *t = user;
    t->lines++;
    t->stats += e->stats != NULL;
    t->troubles += strstr(e->line, " cannot be looked at: ") != NULL;
    if (e->tensor && e->tensor->device.kind == HN_DEVICE_OPENCL)
        t->bytes += (uint64_t)e->tensor->bytes;
    return NULL;
}

static hn_module *load_told(hn_debug_level level, told *t) {
    hn_module *m = load(1);
    hn_debug *d;
    EXPECT_OK(hn_debug_attach(m, &(hn_debug_options){.level = level, .sink = tell, .user = t}, &d));
    return m;
}

/* A record of 72 bytes for each tensor, in place of the tensor. */
TEST(statistics_are_made_where_the_tensors_are) {
    enum { RECORD = 72, OUTPUT = BATCH * DIGITS * 4 };
    float out[BATCH * DIGITS];
    hn_module_stats stats;
    told t = {0}, none = {0};
    hn_module *m = load_told(HN_DEBUG_STATS, &t), *checked = load_told(HN_DEBUG_CHECK, &none);
    opencl_faults_set(0, 0, false);
    EXPECT_OK(run(m, 1, out));
    hn_module_stats_get(m, &stats);
    const unsigned long long read = opencl_faults_read_bytes(),
                             words = stats.steps * sizeof(cl_int);
    fprintf(stderr, "note: %u tensors of %llu bytes, %llu bytes read\n", t.stats,
            (unsigned long long)t.bytes, read);
    EXPECT(t.stats == t.lines && t.troubles == 0);
    EXPECT(read <= OUTPUT + words + t.stats * RECORD && t.bytes > 10 * read);
    opencl_faults_set(0, 0, false);
    EXPECT_OK(run(checked, 1, out));
    EXPECT(opencl_faults_read_bytes() <= OUTPUT + words + t.stats * RECORD && none.lines == 0);
    hn_module_release(m), hn_module_release(checked);
}

/* What fails while the debugger looks is said or done without; what fails in the run itself ends
 * it. All other tensors are told. */
TEST(each_call_fails_once_while_tensors_are_looked_at) {
    float expected[BATCH * DIGITS], got[BATCH * DIGITS];
    told t = {0};
    uint32_t good = 0, failed = 0;
    hn_module *m = load_told(HN_DEBUG_STATS, &t);
    EXPECT_OK(run(m, 1, expected)); /* weights are told once */
    t = (told){0};
    opencl_faults_set(0, 0, false);
    EXPECT_OK(run(m, 1, got));
    const long calls = opencl_faults_calls();
    const uint32_t lines = t.lines;
    for (long k = 1; k <= calls; k++) {
        t = (told){0};
        opencl_faults_set(k, CL_OUT_OF_RESOURCES, false);
        hn_status status = run(m, 1, got);
        if (status) {
            expect_failure(status, HN_DEVICE);
            failed++;
        } else {
            good++;
            EXPECT(is_near(got, expected));
            EXPECT_INT(t.lines, lines);
            EXPECT(t.stats + t.troubles == lines && t.troubles <= 1);
        }
        hn_status_free(status);
    }
    fprintf(stderr, "note: of %ld calls %u failed without harm, %u ended the run\n", calls, good,
            failed);
    EXPECT(good > failed && failed > 20);
    opencl_faults_set(0, 0, false);
    hn_module_release(m);
}

int main(int argc, char **argv) {
    static const char *const targets[2] = {NULL, "opencl"};
    opencl_host *host;
    int code = opencl_host_open_or_skip(&host);
    if (code >= 0) return code;
    opencl_host_close(host);
    for (int k = 0; k < 2; k++) EXPECT_OK(compile_model(targets[k], &programs[k]));
    code = hn_test_failures ? 1 : hn_test_main(argc, argv);
    for (int k = 0; k < 2; k++) hn_compiled_release(programs[k]);
    return code;
}
