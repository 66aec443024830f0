/* test_cuda_row.c: the row of CUDA: code, launches, queues, threads and contexts. With the stand-in
 * for the driver, or on a GPU (cuda_row.h). tests/unit/runtime/test_device.c has what all rows must
 * do. */
#include "unit/runtime/cuda_row.h"

#include <elf.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- code ---- */

TEST(errors_of_code) {
    fixture f;
    hn_device_program *code = NULL;
    void *kernel = NULL;
    static const char text[] = ".version 8.4\n.target sm_80\nnothing\n", none[] = "no code";
    if (!begin(&f)) return end(&f);
    EXPECT_ERROR(f.ops->find(f.code, "gathers", &kernel), HN_NOT_FOUND,
                 "'kernels' has no kernel 'gathers'");
    EXPECT_ERROR(f.ops->load(f.dev, text, sizeof text - 1, "unit 3", &code), HN_TOOLCHAIN,
                 "cannot load 'unit 3': CUDA: cuModuleLoadDataEx failed: CUDA_ERROR_");
    EXPECT_ERROR(f.ops->load(f.dev, none, sizeof none - 1, "unit 3", &code), HN_TOOLCHAIN,
                 "cannot load 'unit 3'");
    Elf64_Ehdr cut = {.e_ident = ELFMAG "\2", .e_shoff = 1 << 30, .e_shnum = 3, .e_shentsize = 64};
    for (size_t len = 5; len <= sizeof cut; len += sizeof cut - 5)
        EXPECT_ERROR(f.ops->load(f.dev, &cut, len, "unit 3", &code), HN_TOOLCHAIN,
                     "cannot load 'unit 3': a part of the machine code is missing");
    EXPECT(!code && !kernel && !f.ops->direct);
    end(&f);
    expect_nothing_left();
}

/* ---- launches ---- */

TEST(launches) {
    fixture f;
    gather_memory m;
    const float x[4] = {1, 2, 3, 4};
    long long index[LONG];
    float y[LONG] = {0};
    for (int k = 0; k < LONG; k++) index[k] = k * 3 % 4;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(gather_begin(&f, f.queue, x, index, &m));
    EXPECT_OK(gather(&f, f.queue, &m, 0, 4));
    EXPECT_OK(f.ops->copy_out(f.queue, y, m.args[2], sizeof y));
    EXPECT_OK(finish(&f, f.queue, -1));
    for (int k = 0; k < LONG; k++) EXPECT(y[k] == x[k * 3 % 4]);
    /* of a kernel with scratch memory */
    long long count = 2;
    hn_device_fault fault;
    hn_device_launch launch = {.kernel = f.sum,
                               .step = 1,
                               .args = (void *[]){m.args[2], m.args[0]},
                               .arg_count = 2,
                               .params = &count,
                               .param_count = 1,
                               .extent = 4,
                               .groups = {4, 1, 1},
                               .threads = {1, 1, 1},
                               .scratch = m.args[1],
                               .scratch_stride = 64};
    EXPECT_OK(f.ops->launch(f.queue, &launch, &fault));
    EXPECT_OK(f.ops->read(f.queue, y + 4, m.args[0], 4 * sizeof *y));
    for (int k = 0; k < 4; k++) EXPECT(y[4 + k] == x[k * 6 % 4] + x[(k * 6 + 3) % 4]);
    launch.groups[0] = 0; /* no group: nothing */
    EXPECT_OK(f.ops->launch(f.queue, &launch, &fault));
    launch.groups[0] = 4, launch.arg_count = 1;
    if (((cuda_dev *)f.dev)->cuda.cuFuncGetParamInfo)
        EXPECT_ERROR(f.ops->launch(f.queue, &launch, &fault), HN_CORRUPT,
                     "kernel 'sum' has 5 arguments, where 3 or 4 are given");
    launch.arg_count = 2, launch.groups[1] = 65536;
    EXPECT_ERROR(f.ops->launch(f.queue, &launch, &fault), HN_INVALID_ARGUMENT, "too many groups");
    EXPECT_OK(finish(&f, f.queue, -1));
    f.ops->free(f.dev, m.whole);
    end(&f);
    expect_nothing_left();
}

/* NULL stands for memory without elements, of which a failed check reads the first one. */
TEST(no_memory_is_an_argument) {
    fixture f;
    hn_device_fault fault;
    long long count = 0, index[4] = {0};
    if (!begin(&f)) return end(&f);
    void *there = f.ops->alloc(f.dev, sizeof index), *y = f.ops->alloc(f.dev, 16);
    EXPECT_OK(f.ops->copy_in(f.queue, there, index, sizeof index));
    EXPECT_OK(f.ops->launch(f.queue,
                            &(hn_device_launch){.kernel = f.gather,
                                                .step = 4,
                                                .args = (void *[]){NULL, there, y},
                                                .arg_count = 3,
                                                .params = &count,
                                                .param_count = 1,
                                                .extent = 4,
                                                .groups = {1, 1, 1},
                                                .threads = {4, 1, 1}},
                            &fault));
    EXPECT_OK(finish(&f, f.queue, 4));
    f.ops->free(f.dev, there), f.ops->free(f.dev, y);
    end(&f);
    expect_nothing_left();
}

/* ---- what a group may have ---- */

TEST(shared_memory) {
    fixture f;
    float y[32] = {0};
    if (!begin(&f)) return end(&f);
    const int64_t most = (int64_t)((cuda_dev *)f.dev)->shared_max;
    void *m = f.ops->alloc(f.dev, sizeof y);
    EXPECT(most > 50000);
    EXPECT_OK(launch_one(&f, "wide", m, 32, 1000));
    EXPECT_OK(launch_one(&f, "wide", m, 32, 50000));
    EXPECT_OK(launch_one(&f, "wide", m, 32, most));
    EXPECT_OK(launch_one(&f, "wide", m, 32, 60000));
    EXPECT_ERROR(launch_one(&f, "wide", m, 32, most + 1), HN_UNSUPPORTED,
                 "out of resource: kernel 'wide' wants");
    EXPECT_ERROR(launch_one(&f, "wide", m, 32, 100000000), HN_UNSUPPORTED,
                 "kernel 'wide' wants 100000000 bytes of shared memory for a group of threads, ");
    char has[64];
    snprintf(has, sizeof has, "has %lld; compile the program for this device", (long long)most);
    EXPECT_ERROR(launch_one(&f, "wide", m, 32, 100000000), HN_UNSUPPORTED, has);
    EXPECT_ERROR(launch_one(&f, "narrow", m, 128, 0), HN_UNSUPPORTED,
                 "out of resource: kernel 'narrow' wants groups of 128 threads");
    EXPECT_OK(f.ops->copy_out(f.queue, y, m, sizeof y));
    EXPECT_OK(finish(&f, f.queue, -1));
    for (int k = 0; k < 32 && !cuda_standin_find(); k++) EXPECT(y[k] == (float)(31 - k));
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
}

TEST(the_first_step_with_a_fault_is_told_once) {
    fixture f;
    gather_memory m;
    const float x[4] = {1, 2, 3, 4};
    long long index[LONG] = {0};
    index[LONG - 1] = 3;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(gather_begin(&f, f.queue, x, index, &m));
    EXPECT_OK(gather(&f, f.queue, &m, 5, 4));
    EXPECT_OK(gather(&f, f.queue, &m, 6, 3)); /* 3 is outside */
    EXPECT_OK(gather(&f, f.queue, &m, 7, 3));
    EXPECT_OK(gather(&f, f.queue, &m, 3, 2));
    EXPECT_OK(finish(&f, f.queue, 3));
    EXPECT_OK(finish(&f, f.queue, -1));
    for (uint32_t step = 0; step < 8; step++)
        EXPECT_OK(gather(&f, f.queue, &m, step, 4)); /* nothing is left of it */
    EXPECT_OK(finish(&f, f.queue, -1));
    EXPECT_OK(gather(&f, f.queue, &m, 7, 3));
    EXPECT_OK(finish(&f, f.queue, 7));
    EXPECT_ERROR(gather(&f, f.queue, &m, 8, 4), HN_INTERNAL, "a queue of 8 steps gets step 8");
    f.ops->free(f.dev, m.whole);
    end(&f);
}

/* ---- queues, threads, contexts ---- */

/* What one queue computes slowly, another takes when it is done, without the host. */
TEST(a_queue_waits_for_another) {
    fixture f;
    hn_queue *second = NULL;
    hn_event *event = NULL;
    hn_device_fault fault;
    float y = 8, got = 0;
    long long count = 3000000;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 1}, &second));
    void *a = f.ops->alloc(f.dev, sizeof y), *b = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(f.ops->copy_in(f.queue, a, &y, sizeof y));
    EXPECT_OK(f.ops->launch(f.queue,
                            &(hn_device_launch){.kernel = f.spin,
                                                .args = &a,
                                                .arg_count = 1,
                                                .params = &count,
                                                .param_count = 1,
                                                .extent = 1,
                                                .groups = {1, 1, 1},
                                                .threads = {1, 1, 1}},
                            &fault));
    EXPECT_OK(f.ops->record(f.queue, &event));
    EXPECT_OK(f.ops->wait(second, event));
    EXPECT_OK(f.ops->copy(second, b, a, sizeof y));
    EXPECT_OK(f.ops->read(second, &got, b, sizeof got));
    EXPECT_NEAR(got, 2, 1e-6);
    EXPECT_OK(finish(&f, f.queue, -1));
    f.ops->event_free(event);
    f.ops->queue_destroy(second);
    f.ops->free(f.dev, a), f.ops->free(f.dev, b);
    end(&f);
}

TEST(events_have_times) {
    fixture f;
    hn_queue *queue = NULL;
    hn_event *before = NULL, *after = NULL;
    hn_device_fault fault;
    int64_t begin_ns = 0, end_ns = 0;
    float y = 8;
    long long count = 3000000;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(
        f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 1, .profile = true}, &queue));
    EXPECT(f.ops->handle(queue) && f.ops->handle(queue) != f.ops->handle(f.queue));
    void *a = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(f.ops->copy_in(queue, a, &y, sizeof y));
    EXPECT_OK(f.ops->record(queue, &before));
    EXPECT_OK(f.ops->launch(queue,
                            &(hn_device_launch){.kernel = f.spin,
                                                .args = &a,
                                                .arg_count = 1,
                                                .params = &count,
                                                .param_count = 1,
                                                .extent = 1,
                                                .groups = {1, 1, 1},
                                                .threads = {1, 1, 1}},
                            &fault));
    EXPECT_OK(f.ops->record(queue, &after));
    EXPECT_OK(finish(&f, queue, -1));
    EXPECT_OK(f.ops->event_time(before, &begin_ns));
    EXPECT_OK(f.ops->event_time(after, &end_ns));
    /* on a device it takes 10 ms and more */
    EXPECT(end_ns - begin_ns >= (cuda_standin_find() ? 1000 : 1000000));
    f.ops->event_free(before), f.ops->event_free(after);
    EXPECT_OK(f.ops->record(f.queue, &before)); /* of a queue without times */
    EXPECT_ERROR(f.ops->event_time(before, &begin_ns), HN_INTERNAL, "of a queue without times");
    f.ops->event_free(before);
    f.ops->queue_destroy(queue);
    f.ops->free(f.dev, a);
    end(&f);
}

typedef struct worker {
    pthread_t thread;
    const fixture *f;
    int number, wrong;
    hn_status status;
} worker;

enum { THREADS = 4, ROUNDS = 60 };

static hn_status work(worker *w, hn_queue *queue) {
    const float x[4] = {(float)w->number, 10, 20, 30};
    long long index[LONG] = {0};
    float y[LONG];
    gather_memory m;
    for (int k = 0; k < LONG; k++) index[k] = (k + w->number) % 4;
    hn_status status = gather_begin(w->f, queue, x, index, &m);
    for (int round = 0; !status && round < ROUNDS; round++) {
        hn_device_fault fault;
        const bool is_bad = (round + w->number) % 5 == 0;
        status = gather(w->f, queue, &m, (uint32_t)round % 8, is_bad ? 2 : 4);
        if (!status) status = w->f->ops->copy_out(queue, y, m.args[2], sizeof y);
        if (!status) status = w->f->ops->finish(queue, &fault);
        if (status) break;
        w->wrong += fault.is_set != is_bad;
        for (int k = 0; k < LONG && !is_bad; k++) w->wrong += y[k] != x[index[k]];
    }
    w->f->ops->free(w->f->dev, m.whole);
    return status;
}

static void *run_worker(void *context) {
    worker *w = context;
    hn_queue *queue = NULL;
    w->status = w->f->ops->queue_create(w->f->dev, &(hn_queue_options){.step_count = 8}, &queue);
    if (!w->status) w->status = work(w, queue);
    w->f->ops->queue_destroy(queue);
    return NULL;
}

/* Each has a queue and memory of its own; device, program and kernel are shared. */
TEST(threads_share_a_device_and_its_kernels) {
    fixture f, other;
    worker workers[THREADS] = {0};
    if (!begin(&f)) return end(&f);
    EXPECT(begin(&other)); /* and there is a second device, with a context of its own */
    for (int k = 0; k < THREADS; k++) {
        workers[k] = (worker){.f = k % 4 == 3 ? &other : &f, .number = k};
        EXPECT_INT(pthread_create(&workers[k].thread, NULL, run_worker, &workers[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        pthread_join(workers[k].thread, NULL);
        EXPECT_OK(workers[k].status);
        EXPECT_INT(workers[k].wrong, 0);
    }
    end(&other);
    end(&f);
}

/* ---- the host's own use of CUDA ---- */

/* A thread that has no context has none afterwards, and one that has another keeps it. */
TEST(the_current_context_stays) {
    fixture f;
    hn_cuda_context before = NULL, now = NULL, other = NULL;
    float y;
    void *m;
    if (!begin(&f)) return end(&f);
    const hn_cuda *cuda = &((cuda_dev *)f.dev)->cuda;
    (void)cuda->cuCtxGetCurrent(&before);
    EXPECT(!before);
    int count = 0;
    if (cuda->cuDeviceGetCount(&count) == 0 && count > 1 &&
        cuda->cuDevicePrimaryCtxRetain(&other, 1) == 0)
        EXPECT_INT(cuda->cuCtxPushCurrent(other), 0);
    for (int k = 0; k < 2; k++) {
        hn_queue_enter(f.queue); /* around all calls of a run */
        m = f.ops->alloc(f.dev, sizeof y);
        EXPECT_OK(f.ops->copy_in(f.queue, m, &y, sizeof y));
        EXPECT_OK(launch_one(&f, "narrow", m, 1, 0));
        EXPECT_OK(f.ops->read(f.queue, &y, m, sizeof y));
        EXPECT_OK(finish(&f, f.queue, -1));
        hn_queue_leave(f.queue);
        f.ops->free(f.dev, m);
        (void)cuda->cuCtxGetCurrent(&now);
        EXPECT(now == (k == 0 ? other : NULL));
        if (k == 0 && other) (void)cuda->cuCtxPopCurrent(&before);
    }
    if (other) (void)cuda->cuDevicePrimaryCtxRelease(1);
    end(&f);
    expect_nothing_left();
}

/* ---- recordings ---- */

/* A fill, a kernel and a copy: y is 0 and then gathered, z is y. */
static hn_status give_three(const fixture *f, const gather_memory *m, void *z) {
    const size_t bytes = LONG * sizeof(float);
    HN_TRY(f->ops->fill(f->queue, m->args[2], 0, bytes));
    HN_TRY(gather(f, f->queue, m, 2, 4));
    return f->ops->copy(f->queue, z, m->args[2], bytes);
}

static void expect_gathered(const fixture *f, void *z, float factor) {
    float got[LONG] = {0};
    EXPECT_OK(f->ops->copy_out(f->queue, got, z, sizeof got));
    EXPECT_OK(finish(f, f->queue, -1));
    for (int k = 0; k < LONG; k++) EXPECT(got[k] == factor * (float)(k % 4 + 1));
}

/* A recording gets other addresses, or another one is made of it; neither records again. */
TEST(recordings_with_other_addresses) {
    fixture f;
    gather_memory m[3];
    long long index[LONG];
    hn_recording *r[2] = {NULL, NULL};
    void *z[3];
    if (!begin(&f)) return end(&f);
    for (int k = 0; k < LONG; k++) index[k] = k % 4;
    for (int k = 0; k < 3; k++) {
        const float n = (float)(k + 1), x[4] = {n, 2 * n, 3 * n, 4 * n};
        EXPECT_OK(gather_begin(&f, f.queue, x, index, &m[k]));
        z[k] = f.ops->alloc(f.dev, 256);
    }
    EXPECT_OK(give_three(&f, &m[0], z[0])); /* loads what the recording wants */
    EXPECT_OK(f.ops->recording_begin(f.queue));
    EXPECT_OK(give_three(&f, &m[0], z[0]));
    EXPECT_OK(f.ops->recording_end(f.queue, true, &r[0]));
    for (int k = 1; k < 3 && r[0]; k++) {
        hn_recording *other = r[0];
        EXPECT(f.ops->patch_begin(f.queue, r[0]));
        EXPECT_OK(give_three(&f, &m[k], z[k]));
        EXPECT(f.ops->patch_end(f.queue, true, k == 2, &other));
        r[k - 1] = other;
    }
    EXPECT(r[0] && r[1] && r[0] != r[1]);
    for (int round = 0; round < 2 && r[0] && r[1]; round++)
        for (int k = 1; k < 3; k++) {
            EXPECT_OK(f.ops->fill(f.queue, z[k], 0xff, LONG * sizeof(float)));
            EXPECT_OK(f.ops->replay(f.queue, r[k - 1]));
            expect_gathered(&f, z[k], (float)(k + 1));
        }
    for (int k = 0; k < 2; k++) hn_recording_free(r[k]);
    for (int k = 0; k < 3; k++) f.ops->free(f.dev, m[k].whole), f.ops->free(f.dev, z[k]);
    end(&f);
    expect_nothing_left();
}

/* ---- many arguments ---- */

/* y, 150 memories, the status word, 47 numbers, scratch memory. */
enum { MEMORIES = 150, NUMBERS = 47, ARGUMENTS = 1 + MEMORIES + 1 + NUMBERS + 1 };

typedef struct many {
    void *args[1 + MEMORIES], *entries[ARGUMENTS + 1];
    long long numbers[NUMBERS];
    uint64_t elements[2 + MEMORIES]; /* y, memories, scratch: 8 bytes each, scratch behind 64 */
} many;

/* Memory, and what the kernel makes of it in `round`. */
static uint64_t fill_many(const fixture *f, many *m, uint8_t *memory, uint64_t round) {
    const uint64_t scratch = UINT64_C(1) << 60;
    uint64_t sum = scratch;
    for (uint64_t k = 0; k <= MEMORIES; k++) {
        m->args[k] = memory + 64 + 8 * (round % 2 ? MEMORIES - k : k);
        m->elements[round % 2 ? MEMORIES - k : k] = (k + round) * UINT64_C(0x100000001);
        if (k) sum += k * (k + round) * UINT64_C(0x100000001);
    }
    for (uint64_t k = 0; k < NUMBERS; k++) {
        m->numbers[k] = (long long)(k * UINT64_C(0x10000000000)) - 7;
        sum += (MEMORIES + 2 + k) * (uint64_t)m->numbers[k];
    }
    EXPECT_OK(f->ops->copy_in(f->queue, memory, &scratch, sizeof scratch));
    EXPECT_OK(f->ops->copy_in(f->queue, memory + 64, m->elements, 8 * (1 + MEMORIES)));
    return sum;
}

/* Each of 200 arguments comes where it belongs, in launches that are given once, and in those whose
 * layout is kept while addresses change. */
TEST(two_hundred_arguments) {
    static const char code[] = "standin\nweigh_150 200 0 1024\n";
    fixture f;
    hn_device_program *program = NULL;
    hn_device_fault fault;
    hn_device_layout layout = {.ready_for = NULL};
    void *kernel = NULL;
    if (!cuda_standin_find() || !begin(&f)) return;
    many *m = calloc(1, sizeof *m);
    EXPECT(m && ARGUMENTS == 200);
    uint8_t *memory = f.ops->alloc(f.dev, 64 + sizeof m->elements);
    EXPECT_OK(f.ops->load(f.dev, code, sizeof code, "many", &program));
    EXPECT_OK(f.ops->find(program, "weigh_150", &kernel));
    layout.entries = m->entries;
    for (uint64_t round = 0; kernel && round < 6; round++) {
        const uint64_t expected = fill_many(&f, m, memory, round);
        uint64_t y = 0;
        const hn_device_launch launch = {.kernel = kernel,
                                         .step = 5,
                                         .args = m->args,
                                         .arg_count = 1 + MEMORIES,
                                         .params = m->numbers,
                                         .param_count = NUMBERS,
                                         .extent = 1,
                                         .groups = {1, 1, 1},
                                         .threads = {1, 1, 1},
                                         .scratch = memory,
                                         .layout = round < 2 ? NULL : &layout};
        EXPECT_OK(f.ops->launch(f.queue, &launch, &fault));
        EXPECT_OK(f.ops->copy_out(f.queue, &y, m->args[0], sizeof y));
        EXPECT_OK(finish(&f, f.queue, 5)); /* the status word is that of the step */
        EXPECT(y == expected);
    }
    f.ops->unload(program);
    f.ops->free(f.dev, memory);
    free(m);
    end(&f);
    expect_nothing_left();
}

/* ---- what the stand-in refuses ---- */

/* Whether the launch of sum with these addresses ends the program: in a child. */
static bool ends(const fixture *f, void *x, void *y, void *scratch) {
    int how = 0;
    const pid_t child = fork();
    if (child == 0) {
        void *args[2] = {x, y};
        const long long count = 4;
        hn_device_fault fault;
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        hn_status status = f->ops->launch(f->queue,
                                          &(hn_device_launch){.kernel = f->sum,
                                                              .args = args,
                                                              .arg_count = 2,
                                                              .params = &count,
                                                              .param_count = 1,
                                                              .extent = 1,
                                                              .groups = {1, 1, 1},
                                                              .threads = {1, 1, 1},
                                                              .scratch = scratch},
                                          &fault);
        _exit(status != NULL);
    }
    EXPECT(child > 0 && waitpid(child, &how, 0) == child);
    if (!WIFSIGNALED(how)) EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

/* Elements by their size, scratch memory by 64 bytes: what a GPU would not forgive, or not
 * always. */
TEST(arguments_that_are_not_aligned) {
    fixture f;
    if (!cuda_standin_find() || !begin(&f)) return;
    uint8_t *m = f.ops->alloc(f.dev, 1024);
    EXPECT(m);
    EXPECT(!ends(&f, m + 256, m, m + 512));
    EXPECT(!ends(&f, m + 260, m, m + 512 + 64));
    EXPECT(ends(&f, m + 258, m, m + 512));
    EXPECT(ends(&f, m + 256, m, m + 512 + 32));
    EXPECT(ends(&f, m + 256, m, m + 512 + 4));
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
}

TEST(a_forked_child_is_refused) {
    fixture f;
    hn_dev *dev = NULL;
    if (!begin(&f)) return end(&f);
    const pid_t child = fork();
    if (child == 0) {
        hn_status status = hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &dev);
        const bool is_told =
            status && strstr(hn_status_message(status), "before this process was forked");
        hn_status_free(status);
        hn_dev_release(f.dev); /* nothing of the driver is called */
        const pid_t grandchild = fork();
        if (grandchild == 0) _exit(hn_dev_is_here(f.dev));
        int there = -1;
        const bool is_ended = waitpid(grandchild, &there, 0) == grandchild;
        _exit(is_told && is_ended && there == 0 && !hn_dev_is_here(f.dev) ? 0 : 1);
    }
    EXPECT(hn_dev_is_here(f.dev));
    int result = -1;
    EXPECT(waitpid(child, &result, 0) == child && result == 0);
    end(&f);
    expect_nothing_left();
}

TEST_MAIN
