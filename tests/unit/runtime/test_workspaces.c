/* test_workspaces.c: scratch memory that calls are given as a buffer, zeroed for each call or once.
 * Built for the CPU, for an imaginary device and for CUDA's stand-in. */
#include "bundle/view.h"
#include "unit/runtime/module_fixture.h"

/* The second kernel adds what it finds in b5 to what the first one made; `before` leaves numbers in
 * b5. y = 2x as long as b5 is zeros. */
#define PROGRAM(before, zeroed, behind)                                                            \
    "buffer b1 : input f32[8] source 0 buffer b2 : temp f32[8] bytes(32) "                         \
    "buffer b3 : output f32[8] bytes(32) buffer b5 : workspace f32[8] bytes(32) zeroed " zeroed    \
    " " KERNELS "input \"x\" : f32[8] strides [1] in b1 "                                          \
    "call k4(b1 f32, out b2 f32) extent(8) " before                                                \
    "call k1(b2 f32, out b5 f32, out b3 f32) extent(8) " behind                                    \
    "output tensor \"y\" : f32[8] strides [1] in b3 "
#define SPOIL "call k4(b2 f32, out b5 f32) extent(8) "

/* Buffers are numbered in order. */
static hn_module *load(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; (at = strstr(at, "b5"));) at[1] = '4';
    hn_module *m = load_text(copy, NULL);
    free(copy);
    return m;
}

static void check(const char *text, float factor) {
    hn_module *m = load(text);
    for (int run = 0; m && run < 4; run++) { /* the third is a CUDA graph, where there are some */
        float x[8];
        for (int i = 0; i < 8; i++) x[i] = (float)(run + i);
        hn_tensor *in = F32(x, 8), *out = NULL;
        EXPECT_OK(hn_module_run(m, &in, 1, &out, 1));
        for (int i = 0; out && i < 8; i++)
            EXPECT(((float *)hn_tensor_data(out))[i] == factor * x[i]);
        hn_tensor_release(in), hn_tensor_release(out);
    }
    hn_module_release(m);
}

TEST(zeros_in_front_of_each_call) {
    check(PROGRAM("", "each", ""), 2);
    check(PROGRAM(SPOIL, "each", ""), 2);
    check(PROGRAM(SPOIL, "never", ""), 6); /* kernels of one operation */
}

/* In front of each run: what a call leaves there, the next one of the run finds. */
TEST(zeros_once) {
    check(PROGRAM("", "once", ""), 2);
    check(PROGRAM(SPOIL, "once", ""), 6);
    check(PROGRAM("", "once", SPOIL), 2);
}

/* What `henry inspect` prints of such steps. */
TEST(steps_as_text) {
    program p;
    hn_strbuf image, text;
    hn_bundle b;
    program_init(&p);
    hn_strbuf_init(&text);
    EXPECT_OK(program_image(&p,
                            "buffer b1 : input f32[8] source 0 buffer b2 : output f32[8] bytes(32) "
                            "buffer b3 : workspace u8[96] bytes(96) zeroed each " KERNELS
                            "input \"x\" : f32[8] strides [1] in b1 "
                            "call k1(b1 f32, out b3 f32, out b2 f32) extent(8) scratch(64) "
                            "output tensor \"y\" : f32[8] strides [1] in b2",
                            NULL, &image));
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    hn_bundle_describe_text(&b, &text);
    EXPECT(text.ptr && strstr(text.ptr, "zero b3") != NULL);
    EXPECT(!strstr(text.ptr, "scratch in b4") == !FIXTURE_IS_REMOTE);
    hn_strbuf_deinit(&text), hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST_MAIN
