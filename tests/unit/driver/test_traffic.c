/* test_traffic.c: which kernels' bytes are known without marking a single element, and that both
 * ways of counting say the same. run_forms holds the numbers against what forms really access. */
#include "unit/driver/scheduled.h"

#include "kernel/traffic.h"

/* The traffic of all kernels of a graph, with `points` that may be marked. */
static hn_traffic traffic_of(const char *statements, int64_t points) {
    const hn_compile_options options = {.target = "x86-64-v3"};
    hn_traffic all = {0};
    scheduled x;
    scheduled_begin(&x, statements, &options);
    for (uint32_t k = 0; k < x.d.schedule.steps.count; k++) {
        const hn_step *step = &x.d.schedule.steps.items[k];
        hn_traffic own = {0};
        if (step->kind != HN_STEP_KERNEL) continue;
        EXPECT_OK(hn_kernel_traffic(x.d.program, step->kernel, &x.d.scratch, &points, &own));
        all.read_bytes += own.read_bytes, all.written_bytes += own.written_bytes;
        all.is_bound |= own.is_bound;
    }
    scheduled_end(&x);
    return all;
}

static void expect(const char *statements, int64_t read, int64_t written) {
    const hn_traffic t = traffic_of(statements, 0);
    EXPECT_INT(t.read_bytes, read);
    EXPECT_INT(t.written_bytes, written);
    EXPECT(!t.is_bound);
}

/* Four loads of every second element of every second row: together all of the image. */
TEST(windows_that_interleave_are_counted_by_a_formula) {
    expect("input user %x : f32[2, 8, 16] \"x\"\n"
           "%a, %i = aten.max_pool2d_with_indices.default(%x, [2, 2], [2, 2]) : f32[2, 4, 8], "
           "i64[2, 4, 8]\noutput user %a \"a\"\n",
           2 * 8 * 16 * 4, 2 * 4 * 8 * 4);
}

/* Even elements and odd ones that begin later: no region is both. */
TEST(windows_with_holes_are_counted_as_they_are) {
    const char *text = "input user %x : f32[64] \"x\"\n"
                       "%a = slice(%x, dim=0, start=0, size=20, step=2)\n"
                       "%b = slice(%x, dim=0, start=3, size=20, step=2)\n"
                       "%c = add(%a, %b)\noutput user %c \"c\"\n";
    expect(text, 40 * 4, 20 * 4);
}

/* The mean is taken of what the kernel has stored for another user. */
TEST(what_a_kernel_has_stored_is_not_read_again) {
    expect("input user %x : f32[16, 64] \"x\"\ninput user %y : f32[16, 64] \"y\"\n"
           "%a = add(%x, %y)\n%s = sum(%a, dims=[1], keepdim=true)\n%d = sub(%a, %s)\n"
           "output user %a \"a\"\noutput user %d \"d\"\n",
           2 * 16 * 64 * 4, 2 * 16 * 64 * 4);
}

/* An index that is a quotient has no formula: 20 elements, each read three times. */
TEST(a_quotient_is_walked_and_bounded_without_an_allowance) {
    const char *text =
        "input user %x : f32[20] \"x\"\ninput user %z : f32[100] \"z\"\n"
        "%u = reshape(%x, sizes=[1, 20])\n%e = expand(%u, sizes=[3, 20])\n%p = permute(%e, dims=[1, 0])\n"
        "%r = reshape(%p, sizes=[60])\n%w = slice(%z, dim=0, start=1, size=60, step=1)\n"
        "%y = add(%r, %w)\noutput user %y \"y\"\n";
    const hn_traffic walked = traffic_of(text, 10000), bound = traffic_of(text, 0);
    EXPECT_INT(walked.read_bytes, (20 + 60) * 4);
    EXPECT(!walked.is_bound);
    EXPECT(bound.is_bound && bound.read_bytes >= walked.read_bytes);
    EXPECT_INT(bound.written_bytes, walked.written_bytes);
}

TEST_MAIN
