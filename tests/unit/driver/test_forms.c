/* test_forms.c: every form that the planner has for a kernel, compiled and run on made-up
 * arguments: all are right by the reference, so none is out of the race. The clock is the test's:
 * all are equally fast, and the first one wins. */
#include "driver/forms.h"

#include "runtime/device/device.h"
#include "unit/driver/scheduled.h"

/* Drivers of OpenCL take seconds for each form. */
enum { FORMS = 6, DEVICE_FORMS = 2 };

typedef struct fixture {
    scheduled m;
    uint32_t kernels, forms; /* seen */
} fixture;

static const hn_compile_options host = {.threads = 2};

static void begin(fixture *x, const char *statements, const hn_compile_options *options) {
    *x = (fixture){.kernels = 0};
    scheduled_begin(&x->m, statements, options);
}

static void end(fixture *x) { scheduled_end(&x->m); }

static void expect_all_right(const hn_bench_report *report, bool has_clock) {
    for (uint32_t k = 0; k < report->count; k++)
        if (report->results[k].state == HN_BENCH_DROPPED)
            HN_TEST_FAIL("form %s: %s", report->results[k].name, report->results[k].why);
    if (!has_clock) EXPECT_INT(report->winner, 0);
}

static void race(fixture *x, const hn_kernel *kernel, const hn_ref_sizes *sizes,
                 const hn_forms_over *over) {
    const hn_target *target = &x->m.d.levels[0].target;
    const hn_device device = {.kind = target->kind->device};
    int64_t now = 0;
    const hn_bench_options bench = {.now_ns = ticks,
                                    .disturbances = nobody,
                                    .clock_user = &now,
                                    .sample_ns = 1,
                                    .warmup_ns = 1,
                                    .max_rounds = 2};
    hn_form *forms[FORMS];
    hn_bench_report *report = NULL;
    uint32_t count = 0;
    EXPECT_OK(target->kind->plan(x->m.d.program, kernel, target,
                                 device.kind == HN_DEVICE_CPU ? FORMS : DEVICE_FORMS, &x->m.arena,
                                 &x->m.d.scratch, forms, &count));
    const hn_forms_options options = {.sizes = *sizes,
                                      .forms = (const hn_form *const *)forms,
                                      .count = count,
                                      .overs = over,
                                      .over_count = over != NULL,
                                      .device = device,
                                      .threads = 2,
                                      .bench = &bench};
    EXPECT_OK(hn_forms_bench(&x->m.d, target, kernel, &options, &report));
    x->kernels++;
    x->forms += count;
    if (!report) return;
    expect_all_right(report, device.kind != HN_DEVICE_CPU);
    EXPECT(report->timed_calls == 0 || count > 1);
    hn_bench_report_destroy(report);
}

/* All kernels, which have so many forms at least. */
static void check_with(const hn_compile_options *compile, const char *statements, uint32_t forms,
                       const int64_t *value) {
    fixture x;
    hn_ref_sizes sizes = {.count = 0};
    hn_expr symbol;
    begin(&x, statements, compile);
    if (value) {
        symbol = hn_sym_symbol(x.m.d.sym, hn_str_of("s0"), HN_SYMBOL_SIZE, 1, 4096);
        sizes = (hn_ref_sizes){.symbols = &symbol, .values = value, .count = 1};
    }
    for (uint32_t k = 0; k < x.m.d.schedule.steps.count; k++)
        if (x.m.d.schedule.steps.items[k].kind == HN_STEP_KERNEL)
            race(&x, x.m.d.schedule.steps.items[k].kernel, &sizes, NULL);
    EXPECT(x.kernels > 0);
    if (x.forms < forms) HN_TEST_FAIL("%u forms of\n%s", x.forms, statements);
    end(&x);
}
static void check(const char *statements, uint32_t forms) {
    check_with(&host, statements, forms, NULL);
}

TEST(rows) {
    check("input user %x : f32[37, 65] \"x\"\n %y = aten._softmax.default(%x, -1, false) : f32[37, "
          "65]\n output user %y \"y\"",
          1);
    check("input user %x : bf16[9, 40] \"x\"\n input user %w : bf16[40] \"w\"\n %y = "
          "aten.layer_norm.default(%x, [40], %w, %w, 1e-05, false) : bf16[9, 40]\n output user %y "
          "\"y\"",
          1);
}

TEST(columns) {
    check("input user %x : f32[70, 40] \"x\"\n %y = sum(%x, dims=[0], keepdim=false)\n output user "
          "%y \"y\"",
          2);
    check("input user %x : f32[3, 69, 41] \"x\"\n %s = sum(%x, dims=[1], keepdim=true)\n %y = "
          "mul(%s, %s)\n output user %y \"y\"",
          2);
}

TEST(transposes) {
    check("input user %x : f32[140, 150] \"x\"\n input user %b : f32[150, 140] \"b\"\n %t = "
          "permute(%x, dims=[1, 0])\n %y = add(%t, %b)\n output user %y \"y\"",
          2);
}

/* Indices that come in are checked by the kernel; made-up ones are in range. */
TEST(indices) {
    check("input user %x : f32[11, 40] \"x\"\n input user %i : i64[23] \"i\"\n %y = "
          "aten.embedding.default(%x, %i, -1, false, false) : f32[23, 40]\n output user %y \"y\"",
          1);
    check(
        "input user %x : f32[9, 33] \"x\"\n input user %i : i64[9, 5] \"i\"\n %y = gather(%x, %i, "
        "dim=1)\n output user %y \"y\"",
        1);
    check("input user %x : f32[7, 5] \"x\"\n input user %s : f32[33, 5] \"s\"\n input user %i : "
          "i64[33, 5] \"i\"\n %y = scatter(%x, %i, %s, dim=0, mode=\"add\")\n output user %y \"y\"",
          1);
}

TEST(elements_of_all_kinds) {
    check(
        "input user %x : f32[33, 17] \"x\"\n input user %m : bool[33, 17] \"m\"\n %z = neg(%x)\n %y "
        "= where(%m, %x, %z)\n output user %y \"y\"",
        1);
    check("input user %x : i64[33, 17] \"x\"\n input user %d : i64[17] \"d\"\n %y = remainder(%x, "
          "%d)\n output user %y \"y\"",
          1);
    check("input user %x : f16[5, 100] \"x\"\n %y = cumsum(%x, dim=1)\n output user %y \"y\"", 1);
    check("input user %x : f32[] \"x\"\n %y = exp(%x)\n output user %y \"y\"", 1);
    check("input user %x : f32[0, 4] \"x\"\n %y = exp(%x)\n output user %y \"y\"", 1);
}

/* The first kernel of a program as a subject. */
static void describe(fixture *x, hn_forms_subject *out) {
    uint32_t k = 0;
    while (x->m.d.schedule.steps.items[k].kind != HN_STEP_KERNEL) k++;
    EXPECT_OK(hn_forms_subject_init(x->m.d.program, x->m.d.schedule.steps.items[k].kernel,
                                    &(hn_ref_sizes){.count = 0}, &x->m.d.levels[0].step_kernels[k],
                                    1, &x->m.arena, out));
}

TEST(subjects_say_what_arguments_are) {
    fixture x;
    hn_forms_subject s;
    uint32_t indices = 0, written = 0, gaps = 0;
    begin(
        &x,
        "input user %x : f32[11, 40] strides [64, 1] \"x\"\n input user %i : i32[23] \"i\"\n %j = "
        "cast(%i, dtype=i64)\n %y = aten.embedding.default(%x, %j, -1, false, false) : f32[23, "
        "40]\n output user %y \"y\"",
        &host);
    describe(&x, &s);
    EXPECT_INT(s.face.arg_count, 3);
    for (uint32_t k = 0; k < s.face.arg_count; k++) {
        const hn_bench_arg *a = &s.face.args[k];
        indices += a->type == HN_I32 && a->rank == 1 && a->sizes[0] == 23 && a->index_limit == 11;
        written += a->access == HN_BENCH_WRITE && a->sizes[0] == 23 && a->sizes[1] == 40;
        gaps += a->access == HN_BENCH_READ && a->strides[0] == 64 && s.arg_bytes[k] == 4 * 680;
    }
    EXPECT_INT(indices, 1);
    EXPECT_INT(written, 1);
    EXPECT_INT(gaps, 1);
    EXPECT_ERROR(hn_forms_subject_share(&s, (hn_forms_over){s.buffers[0], s.buffers[0]}),
                 HN_INVALID_ARGUMENT, "no such result in place");
    end(&x);
}

/* A size that is not known. */
TEST(sizes_have_to_be_given) {
    fixture x;
    hn_forms_subject s;
    const hn_ref_sizes none = {.count = 0};
    begin(&x,
          "symbol size s0 in [1, 64] hint 8\n input user %x : f32[s0, 3] \"x\"\n %y = exp(%x)\n "
          "output user %y \"y\"",
          &host);
    EXPECT_ERROR(hn_forms_subject_init(x.m.d.program, x.m.d.schedule.steps.items[0].kernel, &none,
                                       &x.m.d.levels[0].step_kernels[0], 1, &x.m.arena, &s),
                 HN_UNSUPPORTED, "a size of the kernel");
    end(&x);
}

/* The same kernel at several sizes. */
TEST(sizes_are_the_callers) {
    static const int64_t rows[] = {1, 2, 31, 257};
    for (int k = 0; k < 4; k++)
        check_with(&host,
                   "symbol size s0 in [1, 4096] hint 8\n input user %x : f32[s0, 33] \"x\"\n %y = "
                   "sum(%x, dims=[0], keepdim=false)\n output user %y \"y\"",
                   2, &rows[k]);
}

/* y = x + 1 over x, as where nobody needs x any more. */
TEST(results_in_place) {
    fixture x;
    begin(&x,
          "input user %x : f32[70, 40] \"x\"\n %e = exp(%x)\n %y = aten._softmax.default(%e, -1, "
          "false) : f32[70, 40]\n output user %y \"y\"",
          &host);
    for (uint32_t k = 0; k < x.m.d.schedule.steps.count; k++) {
        const hn_kernel_code *code = &x.m.d.levels[0].step_kernels[k];
        if (x.m.d.schedule.steps.items[k].kind != HN_STEP_KERNEL) continue;
        for (uint32_t b = 0; b < code->buffer_count; b++)
            for (uint32_t a = 0; code->written[b] && a < code->buffer_count; a++) {
                if (!(code->over[b] >> a & 1)) continue;
                const hn_forms_over over = {code->buffers[b], code->buffers[a]};
                race(&x, x.m.d.schedule.steps.items[k].kernel, &(hn_ref_sizes){.count = 0}, &over);
            }
    }
    EXPECT(x.kernels > 0);
    end(&x);
}

/* Forms of groups, on a device with a clock of its own. */
TEST(forms_of_a_device) {
    const hn_compile_options opencl = {.threads = 2, .target = "opencl"};
    const hn_device_ops *ops = hn_device_ops_of(HN_DEVICE_OPENCL);
    hn_dev *dev;
    if (hn_test_lacks(hn_dev_open(ops, &(hn_device_options){.number = 0}, &dev))) return;
    check_with(&opencl,
               "input user %x : f32[37, 65] \"x\"\n %y = aten._softmax.default(%x, -1, false) : "
               "f32[37, 65]\n output user %y \"y\"",
               2, NULL);
    hn_dev_release(dev);
}

TEST_MAIN
