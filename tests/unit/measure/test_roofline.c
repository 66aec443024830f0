/* test_roofline.c: the steps of a program beside a machine of round numbers. */
#include "measure/roofline.h"

#include "unit/codegen/compile_fixture.h"
#include "unit/harness.h"

#include <stdlib.h>

/* Bytes a ns, and operations: everything from memory, one of each. */
static const hn_ceilings machine = {.device = {.kind = HN_DEVICE_CPU},
                                    .threads = 2,
                                    .level_count = 1,
                                    .levels = {{"memory", INT64_MAX, 2, 2, 2}},
                                    .math = {10, 100, 1000, 50}};

static hn_module *load(const char *text) {
    hn_module *m = NULL;
    EXPECT_OK(compile_text_with(hn_str_of(text), "x86-64-v3",
                                &(hn_module_options){.threads = 2, .profile = true}, &m));
    return m;
}

typedef struct fixture {
    hn_module *module;
    hn_tensor *inputs[3], *outputs[2];
    float *data[3];
    hn_roofline roofline;
} fixture;

static void begin_on(const hn_ceilings *ceilings, fixture *f, const char *text) {
    *f = (fixture){.module = load(text)};
    const uint32_t count = hn_module_input_count(f->module);
    for (uint32_t k = 0; k < count && k < 3; k++) {
        hn_module_value_info info;
        int64_t sizes[4], elems = 1;
        EXPECT_OK(hn_module_input_info(f->module, k, &info));
        for (uint32_t d = 0; d < info.rank; d++) elems *= sizes[d] = info.sizes[d].value;
        f->data[k] = calloc((size_t)elems + 16, sizeof(double));
        EXPECT_OK(hn_tensor_create(
            &(hn_tensor_desc){
                .type = info.type, .rank = info.rank, .sizes = sizes, .data = f->data[k]},
            &f->inputs[k]));
    }
    const hn_roofline_run run = {.module = f->module,
                                 .inputs = f->inputs,
                                 .input_count = count,
                                 .outputs = f->outputs,
                                 .output_count = hn_module_output_count(f->module),
                                 .ceilings = {.threads = 2, .known = ceilings, .known_count = 1}};
    EXPECT_OK(hn_module_run(f->module, f->inputs, count, f->outputs, run.output_count));
    EXPECT_OK(hn_roofline_make(&run, &f->roofline));
}

static void begin(fixture *f, const char *text) { begin_on(&machine, f, text); }

static void end(fixture *f) {
    hn_roofline_deinit(&f->roofline);
    for (int k = 0; k < 2; k++) hn_tensor_release(f->outputs[k]);
    for (int k = 0; k < 3; k++) hn_tensor_release(f->inputs[k]), free(f->data[k]);
    hn_module_release(f->module);
}

TEST(steps_have_their_limits) {
    static fixture f;
    begin(&f,
          "graph @g {\n  input user %x : f32[64, 100] \"x\"\n  input user %w : f32[100, 24] \"w\"\n"
          "  %y = aten._softmax.default(%x, -1, false) : f32[64, 100]\n"
          "  %z = aten.mm.default(%y, %w) : f32[64, 24]\n  output user %z \"z\"\n}\n");
    const hn_roofline *r = &f.roofline;
    EXPECT_INT(r->count, 2);
    EXPECT_INT(r->device_count, 1);
    if (r->count == 2) {
        const hn_roofline_step *soft = &r->steps[0], *mm = &r->steps[1];
        EXPECT_STR(soft->category, "reduction");
        EXPECT_NEAR(soft->roof.move_ns, 2 * 64 * 100 * 4 / 2.0, 1e-6);
        EXPECT_NEAR(soft->roof.math_ns, soft->work.operations / 10, 1e-6);
        EXPECT_STR(mm->category, "call");
        EXPECT_INT(mm->work.math, HN_CEILING_PRODUCTS);
        EXPECT_NEAR(mm->roof.math_ns, 2 * 64 * 24 * 100 / 100.0, 1e-6);
        EXPECT_NEAR(mm->roof.move_ns, (64 * 100 + 100 * 24 + 64 * 24) * 4 / 2.0, 1e-6);
        EXPECT_STR(mm->roof.limit, "memory");
        for (uint32_t k = 0; k < 2; k++) {
            const hn_roofline_step *s = &r->steps[k];
            EXPECT(s->is_known && s->calls == 1 && s->ns > 0 && !s->is_bound);
            EXPECT_NEAR(s->lost_ns, s->ns > s->roof.ns ? s->ns - s->roof.ns : 0, 1e-6);
        }
        EXPECT_NEAR(r->ns, soft->ns + mm->ns, 1e-6);
        EXPECT_NEAR(r->roof_ns + r->lost_ns, r->ns, 1e-6);
        EXPECT_NEAR(r->lost_ns, soft->lost_ns + mm->lost_ns, 1e-6);
        /* as one step: x and w, and z */
        EXPECT_NEAR(r->whole.move_ns, (64 * 100 + 100 * 24 + 64 * 24) * 4 / 2.0, 1e-6);
        EXPECT_NEAR(r->whole.math_ns, soft->roof.math_ns + mm->roof.math_ns, 1e-6);
    }
    end(&f);
}

/* Ceilings that were measured while the machine was busy: no step loses anything, and the sums do
 * not say that there is more to gain than there is. */
TEST(steps_that_are_faster_than_their_ceilings_lose_nothing) {
    static fixture f;
    hn_ceilings busy = machine;
    busy.levels[0] = (hn_ceiling_level){"memory", INT64_MAX, 1e-6, 1e-6, 1e-6};
    begin_on(
        &busy, &f,
        "graph @g {\n  input user %x : f32[64, 100] \"x\"\n"
        "  %y = aten._softmax.default(%x, -1, false) : f32[64, 100]\n  output user %y \"y\"\n}\n");
    const hn_roofline *r = &f.roofline;
    EXPECT(r->count == 1 && r->ns > 0 && r->steps[0].roof.ns > r->ns);
    EXPECT_NEAR(r->lost_ns, 0, 1e-9);
    EXPECT_NEAR(r->roof_ns, r->ns, 1e-6);
    end(&f);
}

/* Which rows of the table are read depends on data: bytes are a bound, and of the table no more is
 * touched than is read. */
TEST(a_table_of_which_some_rows_are_read) {
    static fixture f;
    begin(&f, "graph @g {\n  input user %t : f32[5000, 16] \"t\"\n  input user %i : i64[8] \"i\"\n"
              "  %y = aten.embedding.default(%t, %i, -1, false, false) : f32[8, 16]\n"
              "  output user %y \"y\"\n}\n");
    EXPECT_INT(f.roofline.count, 1);
    if (f.roofline.count == 1) {
        const hn_roofline_step *s = &f.roofline.steps[0];
        EXPECT(s->is_known && s->is_bound);
        EXPECT(s->work.read_bytes <= 8 * 16 * 4 + 8 * 8);
        EXPECT_INT(s->work.written_bytes, 8 * 16 * 4);
        EXPECT(f.roofline.whole.move_ns < 5000);
    }
    end(&f);
}

TEST(without_steps_there_is_nothing) {
    static fixture f;
    begin(
        &f,
        "graph @g {\n  input user %x : f32[0, 7] \"x\"\n  %y = add(%x, %x)\n  output user %y \"y\"\n}\n");
    EXPECT_NEAR(f.roofline.roof_ns, 0, 1e-9);
    EXPECT(f.roofline.lost_ns >= 0);
    end(&f);
}

TEST_MAIN
