/* test_fill.c: what is in memory before a run, seen by kernels that read what nothing has written.
 * Built for the CPU, for an imaginary device and for CUDA's stand-in. */
#include "unit/runtime/module_fixture.h"

#include <math.h>

/* y = x + what was in the workspace, z is as it was. */
static const char unwritten[] =
    "buffer b1 : input f32[8] source 0 buffer b2 : workspace f32[8] bytes(32) "
    "buffer b3 : output f32[8] bytes(32) buffer b4 : output f32[8] bytes(32) " KERNELS
    "input \"x\" : f32[8] strides [1] in b1 "
    "call k1(b1 f32, out b2 f32, out b3 f32) extent(8) call k6(out b4 f32) extent(8) "
    "output tensor \"y\" : f32[8] strides [1] in b3 output tensor \"z\" : f32[8] strides [1] in b4 ";

static void run(hn_module *m, float y[8], float z[8]) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    hn_tensor *in = F32(x, 8), *out[2] = {NULL, NULL};
    EXPECT_OK(hn_module_run(m, &in, 1, out, 2));
    for (int i = 0; out[1] && i < 8; i++) {
        y[i] = ((float *)hn_tensor_data(out[0]))[i] - x[i];
        z[i] = ((float *)hn_tensor_data(out[1]))[i];
    }
    hn_tensor_release(in), hn_tensor_release(out[0]), hn_tensor_release(out[1]);
}

static hn_module *load(const char *fill, hn_pool_mode pool) {
    fixture_plan = (hn_plan_options){pool};
    return load_text(unwritten, &(hn_module_options){.threads = 2, .pool_fill = fill});
}

static const hn_pool_mode modes[] = {HN_POOL_INTERMEDIATES, HN_POOL_NONE, HN_POOL_OUTPUTS,
                                     HN_POOL_COMBINED};

TEST(before_each_run) {
    float y[8], z[8];
    for (size_t mode = 0; mode < HN_COUNT_OF(modes); mode++) {
        hn_module *zero = load("zero", modes[mode]), *nan = load("nan", modes[mode]);
        for (int n = 0; n < 3; n++) {
            run(zero, y, z);
            for (int i = 0; i < 8; i++) EXPECT(y[i] == 0 && z[i] == 0);
            run(nan, y, z);
            for (int i = 0; i < 8; i++) EXPECT(isnan(y[i]) && isnan(z[i]));
        }
        hn_module_release(zero), hn_module_release(nan);
    }
}

TEST(when_memory_is_made) {
    float y[8], z[8];
    hn_module *m = load("once", HN_POOL_INTERMEDIATES);
    run(m, y, z);
    for (int i = 0; i < 8; i++) EXPECT(y[i] == 0);
    hn_module_release(m);
}

/* Memory of a size that the data gives is filled when the size is known. */
TEST(sizes_that_come_late) {
    hn_module *m = load_text("symbol data u0 in [1, 100000] buffer b1 : input i64[] source 0 "
                             "buffer b2 : output f32[u0] bytes(4*u0) " KERNELS
                             "input \"n\" : i64[] strides [] in b1 "
                             "define(b1 i64) symbol(u0) call k6(out b2 f32) extent(u0) "
                             "output tensor \"y\" : f32[u0] strides [1] in b2",
                             &(hn_module_options){.threads = 1, .pool_fill = "nan"});
    for (int64_t n = 40; n <= 4000; n *= 10) {
        hn_tensor *in = tensor_of(HN_I64, 0, NULL, NULL, &n), *out = NULL;
        EXPECT_OK(hn_module_run(m, &in, 1, &out, 1));
        for (int64_t i = 0; out && i < n; i++) EXPECT(isnan(((float *)hn_tensor_data(out))[i]));
        hn_tensor_release(in), hn_tensor_release(out);
    }
    hn_module_release(m);
}

/* What the caller gives for an output stays as it is where no kernel writes. */
TEST(memory_of_the_caller) {
    hn_module *m = load("nan", HN_POOL_INTERMEDIATES);
    float x[8] = {0}, own[8] = {5, 5, 5, 5, 5, 5, 5, 5};
    hn_tensor *in = F32(x, 8), *out[2] = {NULL, F32(own, 8)};
    EXPECT_OK(hn_module_run(m, &in, 1, out, 2));
    for (int i = 0; !FIXTURE_IS_REMOTE && i < 8; i++) EXPECT(own[i] == 5);
    hn_tensor_release(in), hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    hn_module_release(m);
}

static hn_status try_load(const char *fill) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    program_init(&p);
    EXPECT_OK(program_image(&p, unwritten, NULL, &image));
    hn_status status = hn_module_load_memory(
        image.ptr, image.len, false, &(hn_module_options){.threads = 1, .pool_fill = fill}, &m);
    hn_module_release(m);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    return status;
}

TEST(words) {
    float y[8], z[8];
    EXPECT_ERROR(try_load("zeros"), HN_INVALID_ARGUMENT,
                 "'zeros' is nothing to fill memory with (off, once, zero, nan); did you mean "
                 "'zero'?");
    setenv("HENRY_POOL_FILL", "lunch", 1);
    EXPECT_ERROR(try_load(NULL), HN_INVALID_ARGUMENT, "HENRY_POOL_FILL: 'lunch' is nothing");
    EXPECT_OK(try_load("off"));
    setenv("HENRY_POOL_FILL", "nan", 1);
    hn_module *m = load(NULL, HN_POOL_INTERMEDIATES);
    run(m, y, z);
    for (int i = 0; i < 8; i++) EXPECT(isnan(y[i]) && isnan(z[i]));
    hn_module_release(m);
    unsetenv("HENRY_POOL_FILL");
}

TEST_MAIN
