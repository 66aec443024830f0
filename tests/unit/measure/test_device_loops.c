/* test_device_loops.c: the kernels that measure a device do all of their work: one that leaves
 * something out would be fast. By OpenCL; skipped where there is no device. */
#include "measure/ceilings.h"

#include "runtime/device/device.h"
#include "unit/harness.h"

#include <stdlib.h>

extern const char hn_ceilings_text[];

enum {
    THREADS = 8,
    GROUPS = 5,
    STEPS = 3,
    QUADS = GROUPS * STEPS * 4 * THREADS,
    WORDS = 4 * QUADS
};

typedef struct fixture {
    hn_dev *dev;
    hn_queue *queue;
    hn_device_program *program;
    void *from, *to;
    uint32_t x[WORDS], y[WORDS];
} fixture;

static hn_status load(fixture *f) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "#define THREADS %d\n", THREADS);
    hn_strbuf_puts(&text, hn_ceilings_text);
    hn_status status = f->dev->ops->load_text(f->dev, text.ptr, "ceilings", &f->program);
    hn_strbuf_deinit(&text);
    return status;
}

static bool begin(fixture *f) {
    const hn_device_ops *ops = hn_device_ops_of(HN_DEVICE_OPENCL);
    *f = (fixture){.dev = NULL};
    hn_status status = hn_dev_open(ops, &(hn_device_options){.number = 0}, &f->dev);
    if (hn_status_code(status) == HN_NOT_FOUND) {
        hn_test_lacks(status);
        return false;
    }
    EXPECT_OK(status);
    if (!f->dev) return false;
    EXPECT_OK(ops->queue_create(f->dev, &(hn_queue_options){.step_count = 1}, &f->queue));
    EXPECT_OK(load(f));
    f->from = ops->alloc(f->dev, sizeof f->x);
    f->to = ops->alloc(f->dev, sizeof f->y);
    for (int k = 0; k < WORDS; k++) f->x[k] = (uint32_t)k * 2654435761u, f->y[k] = 7;
    return f->queue && f->program && f->from && f->to;
}

static void end(fixture *f) {
    if (!f->dev) return;
    hn_dev_free(f->dev, f->from);
    hn_dev_free(f->dev, f->to);
    hn_dev_unload(f->dev, f->program);
    hn_queue_destroy(f->queue);
    hn_dev_release(f->dev);
}

static hn_status run(fixture *f, const char *name, int64_t groups, int64_t third, int64_t fourth) {
    const hn_device_ops *ops = f->dev->ops;
    const long long params[] = {groups, STEPS, third, fourth};
    void *args[] = {f->from, f->to}, *kernel;
    hn_device_fault fault;
    HN_TRY(ops->find(f->program, name, &kernel));
    HN_TRY(ops->copy_in(f->queue, f->from, f->x, sizeof f->x));
    HN_TRY(ops->copy_in(f->queue, f->to, f->y, sizeof f->y));
    HN_TRY(ops->launch(f->queue,
                       &(hn_device_launch){.kernel = kernel,
                                           .args = args,
                                           .arg_count = 2,
                                           .params = params,
                                           .param_count = 4,
                                           .extent = groups,
                                           .parts = 1,
                                           .groups = {groups, 1, 1},
                                           .threads = {THREADS, 1, 1}},
                       &fault));
    HN_TRY(ops->copy_out(f->queue, f->y, f->to, sizeof f->y));
    return ops->finish(f->queue, &fault);
}

TEST(a_copy_copies_all) {
    static fixture f;
    if (begin(&f)) {
        EXPECT_OK(run(&f, "hn_ceiling_copy", GROUPS, 1, 0));
        EXPECT(memcmp(f.x, f.y, sizeof f.x) == 0);
    }
    end(&f);
}

static int count_at_most(const uint32_t *x, uint32_t most) {
    int count = 0;
    for (int k = 0; k < WORDS; k++) count += x[k] <= most;
    return count;
}

/* Each pass writes its number, and groups need not be in the same one. */
TEST(a_fill_fills_all) {
    static fixture f;
    if (begin(&f)) {
        EXPECT_OK(run(&f, "hn_ceiling_fill", GROUPS, 1, 0));
        EXPECT_INT(count_at_most(f.y, 0), WORDS);
        EXPECT_OK(run(&f, "hn_ceiling_fill", GROUPS, 3, 0));
        EXPECT_INT(count_at_most(f.y, 2), WORDS);
    }
    end(&f);
}

/* Of one group each thread tells what it has read. */
TEST(a_read_reads_all) {
    static fixture f;
    uint32_t want[THREADS] = {0};
    if (begin(&f)) {
        EXPECT_OK(run(&f, "hn_ceiling_read", 1, 2, 1));
        for (int q = 0; q < STEPS * 4 * THREADS; q += 2 * THREADS)
            for (int t = 0; t < THREADS; t++) {
                uint32_t all = 0;
                for (int k = 0; k < 2; k++)
                    for (int w = 0; w < 4; w++) all ^= f.x[4 * (q + k * THREADS + t) + w];
                want[t] += 2 * all;
            }
        for (int t = 0; t < THREADS; t++) EXPECT_INT(f.y[t], want[t]);
    }
    end(&f);
}

TEST(a_read_writes_nothing) {
    static fixture f;
    if (begin(&f)) {
        EXPECT_OK(run(&f, "hn_ceiling_read", GROUPS, 2, 0));
        EXPECT_INT(count_at_most(f.y, 7) - count_at_most(f.y, 6), WORDS);
    }
    end(&f);
}

TEST(additions_are_all_made) {
    static fixture f;
    if (begin(&f)) {
        EXPECT_OK(run(&f, "hn_ceiling_add", 1, 10, 1));
        for (int t = 0; t < THREADS; t++) {
            float got;
            memcpy(&got, &f.y[t], sizeof got);
            EXPECT_NEAR(got, 8 * (t + STEPS * 10) + 28, 0);
        }
    }
    end(&f);
}

TEST(noise_has_the_given_bits) {
    static fixture f;
    if (begin(&f)) {
        uint32_t either = 0, both = UINT32_MAX;
        EXPECT_OK(run(&f, "hn_ceiling_noise", GROUPS, 0x3f800000, 0x807fffff));
        for (int k = 0; k < GROUPS * STEPS * THREADS; k++) either |= f.y[k], both &= f.y[k];
        EXPECT_INT(either, 0xbfffffff);
        EXPECT_INT(both, 0x3f800000);
        EXPECT_INT(f.y[GROUPS * STEPS * THREADS], 7);
    }
    end(&f);
}

TEST_MAIN
