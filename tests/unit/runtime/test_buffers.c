/* test_buffers.c: what the runtime knows of the tensors in a program's buffers, and what it
 * refuses. */
#include "unit/runtime/module_fixture.h"

#include "runtime/module_impl.h"

/* The context of the last run, which has its sizes. */
static const hn_bound *last_bound(const hn_module *m) {
    return m->idle ? m->idle->bounds[0] : NULL;
}

static void expect_arg(const hn_module *m, uint32_t step, uint32_t arg, hnb_buffer_kind kind,
                       hn_scalar_type dtype, uint32_t rank, const int64_t *sizes,
                       const int64_t *strides) {
    hn_bound_buffer b;
    const hn_bound *bound = last_bound(m);
    if (!bound || !hn_bound_arg_get(m, bound, step, arg, &b)) {
        HN_TEST_FAIL("step %u has no argument %u", step, arg);
        return;
    }
    EXPECT(b.is_known);
    EXPECT_INT(b.kind, kind);
    EXPECT_INT(b.device, HN_DEVICE_CPU);
    EXPECT_INT(b.dtype, dtype);
    EXPECT_INT(b.rank, rank);
    for (uint32_t d = 0; d < rank && d < b.rank; d++) {
        EXPECT_INT(b.sizes[d], sizes[d]);
        EXPECT_INT(b.strides[d], strides[d]);
    }
}
#define LIST(...) ((int64_t[]){__VA_ARGS__})

TEST(operands_of_symbolic_sizes) {
    hn_module *m = load_text(
        "symbol size s0 in [0, none] buffer b1 : input f32[s0, 4] source 0 name \"x\" "
        "buffer b2 : temp f32[s0, 4] strides [1, s0] bytes(16*s0) buffer b3 : output f32[4*s0] "
        "bytes(16*s0) " KERNELS "input \"x\" : f32[s0, 4] strides [4, 1] in b1 call k4(b1 f32, out "
        "b2 f32) extent(4*s0) copy b3 from b2 "
        "output tensor \"y\" : f32[s0, 4] strides [4, 1] in b3",
        NULL);
    float x[20] = {0};
    hn_bound_buffer b;
    for (int64_t n = 0; m && n <= 5; n++) {
        hn_tensor *in[1] = {F32(x, n, 4)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        expect_arg(m, 0, 0, HNB_BUFFER_INPUT, HN_F32, 2, LIST(n, 4), LIST(4, 1));
        expect_arg(m, 0, 1, HNB_BUFFER_TEMP, HN_F32, 2, LIST(n, 4), LIST(1, n));
        /* of a copy: where to, from where */
        expect_arg(m, 1, 0, HNB_BUFFER_OUTPUT, HN_F32, 1, LIST(4 * n), LIST(1));
        expect_arg(m, 1, 1, HNB_BUFFER_TEMP, HN_F32, 2, LIST(n, 4), LIST(1, n));
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    if (m && last_bound(m)) {
        EXPECT(!hn_bound_arg_get(m, last_bound(m), 0, 2, &b) &&
               !hn_bound_arg_get(m, last_bound(m), 1, 2, &b));
        hn_bound_buffer_get(m, last_bound(m), 1, &b);
        EXPECT_STR(b.name, "x");
        EXPECT_INT(b.bytes, 80);
    }
    hn_module_release(m);
}

/* An operation of the runtime, with an operand that is absent. */
TEST(operands_that_are_absent) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2, 2] source 0 buffer b2 : output f32[2, 2] bytes(16) " KERNELS
        "input \"x\" : f32[2, 2] strides [2, 1] in b1 "
        "extern matmul(out b2 f32, b1 f32, b1 f32, none, none) params [1, 1, 1, 1, 2, 2, 2, 0, 0, "
        "0, 0, 2, 1, 0, 0, 0, 0, 2, 1, "
        "0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0] "
        "output tensor \"y\" : f32[2, 2] strides [2, 1] in b2",
        NULL);
    float x[4] = {1, 2, 3, 4};
    hn_bound_buffer b;
    hn_tensor *in[1] = {F32(x, 2, 2)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    expect_arg(m, 0, 0, HNB_BUFFER_OUTPUT, HN_F32, 2, LIST(2, 2), LIST(2, 1));
    EXPECT(last_bound(m) && !hn_bound_arg_get(m, last_bound(m), 0, 3, &b));
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

/* A part of a buffer that the program changes: an operation is told where in its memory that begins,
 * before there is an address. */
TEST(operands_in_parts_of_a_state) {
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    hn_module *m = load_weights(
        "buffer b1 : input f32[2, 2] source 0 buffer b2 : constant f32[2, 2] source 1 offset 4 "
        "buffer b3 : output f32[2, 2] bytes(16) buffer b4 : constant f32[6] source 1 "
        "buffer b5 : output f32[6] bytes(24) " KERNELS
        "input \"x\" : f32[2, 2] strides [2, 1] in b1 "
        "extern matmul(out b3 f32, b1 f32, b2 f32, none, none) params [1, 1, 1, 1, 2, 2, 2, 0, 0, "
        "0, 0, 2, 1, 0, 0, 0, 0, 2, 1, "
        "0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0] "
        "call k4(b4 f32, out b5 f32) extent(6) output mutation \"w\" : f32[6] strides [1] in b5 "
        "output tensor \"y\" : f32[2, 2] strides [2, 1] in b3",
        &(fixture_weight){"w", HN_INPUT_BUFFER, HN_DTYPE_F32, 6, w}, 1, NULL);
    float x[4] = {1, 0, 0, 1};
    hn_tensor *in[1] = {F32(x, 2, 2)}, *out[1] = {NULL};
    if (!m) return;
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[3] == 5);
    const hn_ext_call *call = &last_bound(m)->exts[0].call;
    EXPECT_INT(call->begins[2], 4);
    EXPECT_INT(call->begins[1], 0);
    EXPECT_INT(call->rooms[2].before, 0);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

/* A size that the data tells is unknown until the step that defines it has run, and again in the
 * next call. */
TEST(sizes_from_the_data) {
    hn_module *m =
        load_text("symbol data u0 in [0, none] buffer b1 : input f32[8] source 0 buffer b2 : input "
                  "i64[] source 1 "
                  "buffer b3 : output f32[u0, 2] bytes(8*u0) " KERNELS
                  "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
                  "define(b2 i64) symbol(u0) call k4(b1 f32, out b3 f32) extent(2*u0) "
                  "output tensor \"y\" : f32[u0, 2] strides [2, 1] in b3",
                  NULL);
    float x[8] = {0};
    int64_t n = 3;
    hn_bound_buffer b;
    hn_tensor *in[2] = {F32(x, 8), tensor_of(HN_I64, 0, NULL, NULL, &n)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    expect_arg(m, 0, 0, HNB_BUFFER_INPUT, HN_I64, 0, NULL, NULL);
    expect_arg(m, 1, 1, HNB_BUFFER_OUTPUT, HN_F32, 2, LIST(3, 2), LIST(2, 1));
    hn_bound_forget(m, m->idle->bounds[0]); /* as a call does that begins */
    EXPECT(hn_bound_arg_get(m, last_bound(m), 1, 1, &b) && !b.is_known && b.rank == 2 &&
           b.dtype == HN_F32);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

/* A size of 0 or less, known when the program runs: there are no elements, whatever the other
 * numbers are. */
TEST(sizes_below_zero) {
    hn_module *m = load_text("symbol size s0 in [1, none] buffer b1 : input f32[s0] source 0 "
                             "buffer b2 : temp f32[5, s0 - 3] bytes(64) "
                             "buffer b3 : output f32[s0] bytes(4*s0) " KERNELS
                             "input \"x\" : f32[s0] strides [1] in b1 call k4(b1 f32, out b2 f32) "
                             "extent(1) copy b3 from b1 "
                             "output tensor \"y\" : f32[s0] strides [1] in b3",
                             NULL);
    float x[8] = {0};
    for (int64_t n = 1; m && n <= 6; n++) {
        hn_tensor *in[1] = {F32(x, n)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 1, out, 1)); /* at most 5 * 3 floats */
        expect_arg(m, 0, 1, HNB_BUFFER_TEMP, HN_F32, 2, LIST(5, n > 3 ? n - 3 : 0), LIST(n - 3, 1));
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    hn_tensor *in[1] = {F32(x, 7)}, *out[1] = {NULL};
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_CORRUPT,
                 "the tensor in buffer 2 reaches beyond its memory");
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

/* Two buffers in one slot that are used at the same time, which no compiler makes: the second makes
 * the slot grow, and the first is read afterwards. Its memory must still be there. */
TEST(slots_that_grow_under_a_buffer) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    program_init(&p);
    EXPECT_OK(program_image(
        &p,
        "symbol data u0 in [0, none] symbol data u1 in [0, none] "
        "buffer b1 : input f32[8] source 0 buffer b2 : input i64[] source 1 buffer b3 : input i64[] source 2 "
        "buffer b4 : temp f32[u0] bytes(4*u0) buffer b5 : temp f32[u1] bytes(4*u1) "
        "buffer b6 : output f32[u0] bytes(4*u0) " KERNELS
        "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 input \"k\" : i64[] strides [] in b3 "
        "define(b2 i64) symbol(u0) call k4(b1 f32, out b4 f32) extent(u0) "
        "define(b3 i64) symbol(u1) call k6(b1 f32, out b5 f32) extent(1) "
        "call k6(b5 f32, out b6 f32) extent(1) copy b6 from b4 "
        "output tensor \"y\" : f32[u0] strides [1] in b6",
        NULL, &image));
    for (uint32_t k = 4; k <= 5; k++) {
        hnb_buffer *b = entry_of(&image, HNB_BUFFERS, k);
        EXPECT_INT(b->kind, HNB_BUFFER_SLOT);
        b->source = 0;
    }
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false,
                                    &(hn_module_options){.threads = 1, .skip_digest = true}, &m));
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int64_t n = 8, k = 1000;
    hn_tensor *in[3] = {F32(x, 8), tensor_of(HN_I64, 0, NULL, NULL, &n),
                        tensor_of(HN_I64, 0, NULL, NULL, &k)};
    for (k = 1000; m && k < 1000000; k *= 30) {
        hn_tensor *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 3, out, 1));
        for (int i = 0; out[0] && i < 8; i++)
            EXPECT(((float *)hn_tensor_data(out[0]))[i] == 2 * x[i]);
        hn_tensor_release(out[0]);
    }
    for (int i = 0; i < 3; i++) hn_tensor_release(in[i]);
    hn_module_release(m);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

/* Only conditionals have branches. */
TEST(branches_of_other_steps) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    float x[2] = {1, 2};
    hn_tensor *in[1] = {F32(x, 2)}, *out[1] = {NULL};
    program_init(&p);
    EXPECT_OK(program_image(
        &p,
        "buffer b1 : input f32[2] source 0 buffer b2 : output f32[2] bytes(8) " KERNELS
        "input \"x\" : f32[2] strides [1] in b1 copy b2 from b1 "
        "call k4(b1 f32, out b2 f32) extent(2) "
        "output tensor \"y\" : f32[2] strides [1] in b2",
        NULL, &image));
    hnb_step *copy = entry_of(&image, HNB_STEPS, 0);
    copy->then_count = 1;
    copy->otherwise_count = UINT32_MAX - 1;
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false,
                                    &(hn_module_options){.threads = 1, .skip_digest = true}, &m));
    if (m) EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[1] == 4); /* the second step has run */
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

/* Outputs get their memory once: none is sized by a number that each round of a loop defines. */
TEST(outputs_sized_by_rounds_are_refused) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    program_init(&p);
    EXPECT_OK(program_image(
        &p,
        "symbol data u0 in [0, 1000000] hint 8 "
        "buffer b1 : input f32[50000] source 0 buffer b2 : input i64[] source 1 "
        "buffer b3 : temp i64[] bytes(8) buffer b4 : temp f32[u0] bytes(4*u0) "
        "buffer b5 : output i64[] bytes(8) " KERNELS
        "input \"x\" : f32[50000] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
        "copy b3 from b2 copy b5 from b2 "
        "loop rounds(2) { define(b3 i64) symbol(u0) call k4(b1 f32, out b4 f32) extent(u0) } "
        "output tensor \"y\" : i64[] strides [] in b5",
        NULL, &image));
    hnb_buffer *late = entry_of(&image, HNB_BUFFERS, 4);
    const hn_module_options options = {.threads = 1, .skip_digest = true};
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false, &options, &m));
    hn_module_release(m);
    m = NULL;
    EXPECT_INT(late->kind, HNB_BUFFER_SLOT);
    late->kind = HNB_BUFFER_OUTPUT;
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false, &options, &m), HN_CORRUPT,
                 "buffer 4, which rounds of a loop size");
    hn_module_release(m);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

/* The image of a program with the devices of its buffers changed. */
TEST(two_other_devices_are_refused) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    program_init(&p);
    EXPECT_OK(program_image(&p,
                            "buffer b1 : input f32[2] source 0 buffer b2 : input f32[2] source 1 "
                            "input \"x\" : f32[2] strides [1] in b1 "
                            "input \"y\" : f32[2] strides [1] in b2 "
                            "output tensor \"z\" : f32[2] strides [1] in b2",
                            NULL, &image));
    ((hnb_buffer *)entry_of(&image, HNB_BUFFERS, 1))->device = HN_DEVICE_CUDA;
    ((hnb_buffer *)entry_of(&image, HNB_BUFFERS, 2))->device = HN_DEVICE_OPENCL;
    EXPECT_ERROR(
        hn_module_load_memory(image.ptr, image.len, false,
                              &(hn_module_options){.skip_digest = true}, &m),
        HN_UNSUPPORTED,
        "buffer 2 of the program is on opencl, others are on cuda; a program runs on one device");
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false, NULL, &m), HN_CORRUPT,
                 "digest");
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST_MAIN
