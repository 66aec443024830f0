/* test_variants.c: calls with several variants: the one that the table says runs, in programs of a
 * bundle. Variants of these tests compute different things, so that the result tells which one
 * ran. */
#include "unit/runtime/module_fixture.h"

#include "bundle/view.h"

#include <inttypes.h>
#include <malloc.h>

#define INPUTS                                                                                     \
    "symbol size s0 in [0, none] hint 8 symbol size s1 in [0, none] hint 8 "                       \
    "buffer b1 : input f32[s0] source 0 buffer b2 : input f32[s1] source 1 "                       \
    "buffer b3 : output f32[s0] bytes(4*s0) "
#define AND                                                                                        \
    KERNELS "input \"x\" : f32[s0] strides [1] in b1 input \"y\" : f32[s1] strides [1] in b2 "
#define RESULT "output tensor \"z\" : f32[s0] strides [1] in b3"

/* Variant 0 gives 2 * x, 1 gives x, with a parameter and scratch memory, 2 gives x + x, with one
 * argument twice. */
static const char *const three = INPUTS AND
    "call k4(b1 f32, out b3 f32) extent(s0) grain 4 form \"scaled\" "
    "or k2 params [1] extent(s0) grain 2 scratch(64) form \"rows\" "
    "or k1 takes [0, 0, 1] extent(s0) grain 2 form \"sums\" "
    "choose [s0, s1] else 0 [1 in [1, 10] and [none, none], 2 in [11, 20] and [5, none], "
    "1 in [33, 33] and [33, 33]] origin 1 " RESULT;

static float expected(uint32_t variant, float x) { return variant == 1 ? x : 2 * x; }

/* Runs with s0 and s1 in a form (0: that of the sizes), and checks all elements. */
static void check_run_as(hn_module *m, uint32_t form, int64_t s0, int64_t s1, uint32_t variant) {
    float *x = calloc((size_t)(s0 + s1) + 1, sizeof *x);
    hn_tensor *out[1] = {NULL};
    for (int64_t k = 0; k < s0; k++) x[k] = (float)(k % 7) / 4;
    hn_tensor *in[2] = {F32(x, s0), F32(x, s1)};
    EXPECT_OK(hn_module_run_with(m, &(hn_run_options){.form = form}, in, 2, out, 1));
    const float *z = out[0] ? hn_tensor_data(out[0]) : NULL;
    for (int64_t k = 0; z && k < s0; k++)
        if (z[k] != expected(variant, x[k])) {
            HN_TEST_FAIL("sizes %" PRId64 " and %" PRId64 ": element %" PRId64 " is %g", s0, s1, k,
                         (double)z[k]);
            break;
        }
    for (int k = 0; k < 2; k++) hn_tensor_release(in[k]);
    hn_tensor_release(out[0]);
    free(x);
}

static void check_run(hn_module *m, int64_t s0, int64_t s1, uint32_t variant) {
    check_run_as(m, 0, s0, s1, variant);
}

static uint32_t variant_of(int64_t s0, int64_t s1) {
    if (s0 >= 1 && s0 <= 10) return 1;
    if (s0 >= 11 && s0 <= 20 && s1 >= 5) return 2;
    return s0 == 33 && s1 == 33;
}

TEST(the_table_says_which) {
    hn_module *m = load_text(three, NULL);
    /* also sizes that a context remembers, and forgets */
    for (int round = 0; m && round < 2; round++)
        for (int64_t s0 = 0; s0 < 36; s0++)
            for (int64_t s1 = 3; s1 < 36; s1 += s1 < 7 ? 1 : 13)
                check_run(m, s0, s1, variant_of(s0, s1));
    check_run(m, 33, 33, 1), check_run(m, 100000, 0, 0), check_run(m, 33, 34, 0);
    hn_module_release(m);
}

static hn_status note_variant(void *user, const hn_step_info *step, uint64_t *note) {
    (void)note;
    *(uint32_t *)user = step->variant;
    return NULL;
}

/* Whatever the sizes are; in turns with runs in which these decide. */
TEST(the_caller_says_which) {
    uint32_t ran = 0;
    hn_module *m = load_text(three, NULL);
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){.before = note_variant, .user = &ran}));
    for (int64_t s0 = 1; m && s0 < 36; s0 += 8)
        for (uint32_t form = 1; form <= 5; form++) {
            const uint32_t variant = form < 3 ? form - 1 : 2;
            check_run_as(m, form, s0, 9, variant);
            EXPECT_INT(ran, variant);
            check_run(m, s0, 9, variant_of(s0, 9));
            EXPECT_INT(ran, variant_of(s0, 9));
        }
    hn_module_release(m);
}

/* Of the heap; 0 where another allocator is in its place. */
static size_t allocated_bytes(void) {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* As many as a service may see: a context remembers a few, and forgets the others. 9000 more take
 * no more memory than 1000, but for what is as large as the last one. */
TEST(many_sizes) {
    enum { FIRST = 1000, ALL = 10000, MORE_BYTES = 64 << 10 };
    hn_module *m = load_text(three, NULL);
    size_t before = 0;
    for (int64_t s0 = 0; m && s0 < ALL; s0++) {
        if (s0 == FIRST) before = allocated_bytes();
        check_run(m, s0 % 997, s0 / 997, variant_of(s0 % 997, s0 / 997));
    }
    const size_t after = allocated_bytes();
    if (after > before + MORE_BYTES)
        HN_TEST_FAIL("%zu bytes after %d sizes, %zu after %d", before, FIRST, after, ALL);
    hn_module_release(m);
}

TEST(one_thread_and_several) {
    for (int threads = 1; threads <= 4; threads++) {
        hn_module *m = load_text(three, &(hn_module_options){.threads = threads});
        for (int64_t s0 = 0; m && s0 < 40; s0++) check_run(m, s0, 9, variant_of(s0, 9));
        hn_module_release(m);
    }
}

/* No ranges: one for all sizes. */
TEST(a_table_without_ranges) {
    hn_module *m = load_text(
        INPUTS AND
        "call k4(b1 f32, out b3 f32) extent(s0) form \"a\" or k2 params [1] extent(s0) scratch(8) form \"b\" "
        "choose [s1] else 1 [] " RESULT,
        NULL);
    for (int64_t s0 = 0; m && s0 < 5; s0++) check_run(m, s0, s0, 1);
    hn_module_release(m);
}

/* A size that overflows is in no range. */
TEST(sizes_that_cannot_be_computed) {
    hn_module *m = load_text(
        INPUTS AND
        "call k4(b1 f32, out b3 f32) extent(s0) form \"a\" or k2 params [1] extent(s0) scratch(8) form \"b\" "
        "choose [9223372036854775807*s1] else 0 [1 in [none, none]] " RESULT,
        NULL);
    check_run(m, 4, 1, 1), check_run(m, 4, 3, 0), check_run(m, 4, 0, 1);
    hn_module_release(m);
}

/* Memory that one variant alone uses, and threads' scratch memory of one alone. */
TEST(memory_of_one_variant) {
    static const char *const text =
        INPUTS "buffer b4 : temp f32[s0] bytes(4*s0) buffer b5 : temp f32[s0] bytes(4*s0) " AND
               "call k5(b1 f32, out b5 f32) extent(s0) call k4(b1 f32, out b4 f32) extent(s0) "
               "call k4(b5 f32, out b3 f32, b4 f32) takes [0, 1] extent(s0) form \"a\" "
               "or k1 takes [2, 0, 1] extent(s0) form \"b\" "
               "or k2 takes [0, 1] params [1] extent(s0) grain 1 scratch(64) form \"c\" "
               "choose [s0] else 0 [2 in [1, 8], 1 in [50, 99], 2 in [100, 200]] "
               "output tensor \"z\" : f32[s0] strides [1] in b3";
    hn_module *m = load_text(text, NULL);
    for (int64_t s0 = 0; m && s0 < 220; s0++) {
        float *x = calloc((size_t)s0 + 1, sizeof *x);
        hn_tensor *in[2] = {F32(x, s0), F32(x, 1)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 2, out, 1));
        const float want = (s0 >= 1 && s0 <= 8) || (s0 >= 50 && s0 <= 200) ? 1 : 2;
        for (int64_t k = 0; out[0] && k < s0; k++)
            EXPECT(((float *)hn_tensor_data(out[0]))[k] == want);
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
        free(x);
    }
    hn_module_release(m);
}

/* ---- sizes from data ---- */

/* The size is known in the middle of a run, and another one in the next. */
TEST(sizes_from_data) {
    static const char *const text =
        "symbol data u0 in [0, 64] buffer b1 : input i64[] source 0 buffer b2 : input f32[64] source 1 "
        "buffer b3 : output f32[64] bytes(256) " KERNELS
        "input \"n\" : i64[] strides [] in b1 input \"x\" : f32[64] strides [1] in b2 "
        "define(b1 i64) symbol(u0) "
        "call k4(b2 f32, out b3 f32) extent(64) form \"a\" "
        "or k2 params [1] extent(64) grain 8 scratch(16) form \"b\" "
        "or k1 takes [0, 0, 1] extent(64) form \"c\" "
        "choose [u0] else 0 [1 in [10, 20], 2 in [30, none]] "
        "output tensor \"z\" : f32[64] strides [1] in b3";
    hn_module *m = load_text(text, NULL);
    float x[64];
    for (int k = 0; k < 64; k++) x[k] = (float)(k % 5) / 4;
    for (int64_t n = 0; m && n <= 64; n++) {
        int64_t size = n * 37 % 65;
        hn_tensor *in[2] = {tensor_of(HN_I64, 0, NULL, NULL, &size), F32(x, 64)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 2, out, 1));
        const uint32_t variant = size >= 10 && size <= 20;
        for (int k = 0; out[0] && k < 64; k++)
            EXPECT(((float *)hn_tensor_data(out[0]))[k] == expected(variant, x[k]));
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
}

/* ---- what is told ---- */

typedef struct notes {
    uint32_t variant, count, operands;
    char form[16], name[16], profile[16], record[16];
    bool is_same[3]; /* operands 0 and 1 are one buffer; ... */
} notes;

static hn_status note(void *user, const hn_step_info *step, uint64_t *unused) {
    notes *n = user;
    hn_step_record record;
    hn_step_operand a, b;
    (void)unused;
    if (step->kind != HN_MODULE_STEP_KERNEL) return NULL;
    n->variant = step->variant, n->count = step->variant_count, n->operands = step->operand_count;
    snprintf(n->form, sizeof n->form, "%s", step->form);
    snprintf(n->name, sizeof n->name, "%s", step->name);
    HN_TRY(hn_step_record_get(step, &record));
    snprintf(n->record, sizeof n->record, "%s", record.name);
    HN_TRY(hn_step_operand_get(step, 0, &a));
    HN_TRY(hn_step_operand_get(step, 1, &b));
    n->is_same[0] = a.buffer == b.buffer && a.data == b.data;
    n->is_same[1] = b.is_written;
    return NULL;
}

static void check_notes(hn_module *m, notes *n, int64_t s0, const notes *want) {
    float x[40] = {0};
    hn_tensor *in[2] = {F32(x, s0), F32(x, 6)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    EXPECT_INT(n->variant, want->variant);
    EXPECT_INT(n->count, want->count);
    EXPECT_INT(n->operands, want->operands);
    EXPECT_STR(n->form, want->form);
    EXPECT_STR(n->name, want->name);
    EXPECT_STR(n->record, want->name);
    EXPECT(n->is_same[0] == want->is_same[0] && n->is_same[1] == want->is_same[1]);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
}

TEST(hooks_see_the_variant) {
    notes n;
    hn_module *m = load_text(three, &(hn_module_options){.threads = 2, .profile = true});
    const hn_step_hook hook = {.after = note, .user = &n};
    EXPECT_OK(hn_module_hook_add(m, &hook));
    check_notes(m, &n, 40,
                &(notes){.count = 3,
                         .operands = 2,
                         .form = "scaled",
                         .name = "scale2",
                         .is_same = {false, true}});
    check_notes(m, &n, 4,
                &(notes){.variant = 1,
                         .count = 3,
                         .operands = 2,
                         .form = "rows",
                         .name = "row_sum",
                         .is_same = {false, true}});
    check_notes(m, &n, 14,
                &(notes){.variant = 2,
                         .count = 3,
                         .operands = 3,
                         .form = "sums",
                         .name = "add",
                         .is_same = {true, false}});
    for (uint32_t k = 0; k < hn_module_step_count(m); k++) {
        hn_module_step_profile p;
        EXPECT_OK(hn_module_profile(m, k, &p));
        if (strcmp(p.name, "add") == 0) EXPECT_STR(p.form, "sums");
        else EXPECT_STR(p.form, "");
    }
    hn_module_release(m);
}

static hn_status keep_line(void *user, const hn_debug_event *event) {
    char *line = user;
    if (event->step->kind == HN_MODULE_STEP_KERNEL) snprintf(line, 200, "%s", event->line);
    return NULL;
}

TEST(the_debugger_says_the_form) {
    char line[200] = "";
    float x[4] = {0};
    hn_debug *debug;
    hn_module *m = load_text(three, NULL);
    EXPECT_OK(hn_debug_attach(
        m, &(hn_debug_options){.level = HN_DEBUG_NAMES, .sink = keep_line, .user = line}, &debug));
    hn_tensor *in[2] = {F32(x, 4), F32(x, 4)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    EXPECT(strstr(line, "kernel row_sum as rows") != NULL);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

/* What went wrong is found by the arguments of the variant that ran. */
TEST(indices_out_of_bounds) {
    static const char *const text =
        "symbol size s0 in [1, none] buffer b1 : input i64[s0] source 0 buffer b2 : input f32[8] source 1 "
        "buffer b3 : output f32[s0] bytes(4*s0) buffer b4 : temp f32[8] bytes(32) " KERNELS
        "input \"at\" : i64[s0] strides [1] in b1 input \"x\" : f32[8] strides [1] in b2 "
        "call k4(b2 f32, out b4 f32) extent(8) "
        "call k4(b1 i64, b2 f32, out b3 f32, b4 f32) takes [1, 2] extent(0) form \"none\" "
        "or k3 takes [3, 0, 2] params [8] extent(s0) form \"gather\" choose [s0] else 0 [1 in [2, 9]] origin 1 "
        "output tensor \"y\" : f32[s0] strides [1] in b3";
    hn_module *m = load_text(text, NULL);
    int64_t at[4] = {3, 7, 8, 1};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int64_t n = 1; m && n <= 4; n++) {
        hn_tensor *in[2] = {tensor_of(HN_I64, 1, &n, NULL, at), F32(x, 8)}, *out[1] = {NULL};
        hn_status status = hn_module_run(m, in, 2, out, 1);
        if (n > 2) EXPECT_ERROR(status, HN_INVALID_ARGUMENT, "an index is out of bounds");
        else EXPECT_OK(status);
        if (n == 2 && out[0])
            EXPECT(((float *)hn_tensor_data(out[0]))[0] == 8 &&
                   ((float *)hn_tensor_data(out[0]))[1] == 16);
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
}

/* ---- the file ---- */

static hn_status open_image(const hn_strbuf *image) {
    hn_bundle b;
    return hn_bundle_open(image->ptr, image->len, false, &b);
}

/* Changes a number of the image, must be refused, and puts it back. */
static void refuse(hn_strbuf *image, void *at, uint32_t value, const char *message) {
    uint32_t before;
    memcpy(&before, at, sizeof before);
    memcpy(at, &value, sizeof value);
    EXPECT_ERROR(open_image(image), HN_CORRUPT, message);
    memcpy(at, &before, sizeof before);
}

TEST(damaged_bundles) {
    program p;
    hn_strbuf image;
    program_init(&p);
    EXPECT_OK(program_image(&p, three, NULL, &image));
    EXPECT_OK(open_image(&image));
    EXPECT_INT(((hnb_header *)(void *)image.ptr)->version, HNB_VERSION_VARIANTS);
    hnb_choice *c = entry_of(&image, HNB_CHOICES, 0);
    hnb_variant *v = entry_of(&image, HNB_VARIANTS, 1);
    hn_choice_box *box = entry_of(&image, HNB_BOXES, 1);
    hnb_kernel *kernels = entry_of(&image, HNB_KERNELS, 0);
    refuse(&image, &c->step, 7, "has no launch and no choice of variants");
    refuse(&image, &c->target, 1, "has no launch and no choice of variants");
    refuse(&image, &c->variants, 1, "choice 0");
    refuse(&image, &c->variants, UINT32_MAX, "choice 0");
    refuse(&image, &c->boxes, 1, "choice 0");
    refuse(&image, &c->head.box_count, 33, "choice 0");
    refuse(&image, &c->head.variant_count, 4, "choice 0");
    refuse(&image, &c->head.variant_count, 2, "has variant 2 of 2");
    refuse(&image, &c->head.variant_count, 0, "falls back on variant 0 of 0");
    refuse(&image, &c->head.fallback, 3, "falls back on variant 3 of 3");
    refuse(&image, &c->head.axis_count, 4, "a decision table has 4 sizes");
    refuse(&image, &c->head.axis_count, 1, "more than 1 sizes");
    refuse(&image, &c->axes[0], 0, "sizes of choice 0");
    refuse(&image, &c->axes[0], 100000, "sizes of choice 0");
    refuse(&image, &c->axes[2], 1, "sizes of choice 0");
    refuse(&image, &c->reserved, 1, "choice 0");
    refuse(&image, &box->variant, 3, "has variant 3 of 3");
    refuse(&image, &box->reserved, 1, "unknown mark");
    refuse(&image, (uint8_t *)&box->lo[0], 5, "overlap");
    refuse(&image, &v->kernel, 0, "variant 1 of step");
    refuse(&image, &v->kernel, 99, "variant 1 of step");
    refuse(&image, &v->launch, 99, "variant 1 of step");
    refuse(&image, &v->arg_count, 3, "variant 1 of step");
    refuse(&image, &v->reserved, 1, "variant 1 of step");
    refuse(&image, &v->form.len, 0, "variant 1 of step");
    refuse(&image, &v->form.offset, UINT32_MAX, "variant 1 of step");
    refuse(&image, &kernels[2].arg_count, 1, "variant 1 of step");
    refuse(&image, &((hnb_header *)(void *)image.ptr)->version, HNB_VERSION_SINGLE,
           "has a section 'choices'");
    EXPECT_OK(open_image(&image));
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

/* A bundle without variants is what it was before there were any. */
TEST(no_variants_no_sections) {
    program p;
    hn_strbuf image;
    program_init(&p);
    EXPECT_OK(program_image(
        &p, INPUTS AND "call k4(b1 f32, out b3 f32) extent(s0) form \"a\" " RESULT, NULL, &image));
    EXPECT_INT(((hnb_header *)(void *)image.ptr)->version, HNB_VERSION_SINGLE);
    EXPECT(!entry_of(&image, HNB_CHOICES, 0) && !entry_of(&image, HNB_VARIANTS, 0));
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST(people_see_the_table) {
    static const char *const lines[] = {" in 3 variants",
                                        "  variant 0 scaled kernel scale2",
                                        "  variant 2 sums kernel add",
                                        "  for s0 1..10, s1 *: rows\n",
                                        "  for s0 11..20, s1 5..: sums\n",
                                        "  for s0 33, s1 33: rows\n",
                                        "  for all others: scaled\n"};
    program p;
    hn_strbuf image, text;
    hn_bundle b;
    program_init(&p);
    hn_strbuf_init(&text);
    EXPECT_OK(program_image(&p, three, NULL, &image));
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    hn_bundle_describe_text(&b, &text);
    for (size_t k = 0; k < HN_COUNT_OF(lines); k++)
        if (!strstr(hn_strbuf_str(&text).ptr, lines[k])) HN_TEST_FAIL("no line '%s'", lines[k]);
    hn_strbuf_reset(&text);
    hn_bundle_describe_json(&b, &text);
    EXPECT(
        strstr(hn_strbuf_str(&text).ptr,
               "\"variants\":[{\"form\":\"scaled\",\"kernel\":\"scale2\"},"
               "{\"form\":\"rows\",\"kernel\":\"row_sum\"},{\"form\":\"sums\",\"kernel\":\"add\"}],"
               "\"table\":{\"axes\":[\"s0\",\"s1\"],\"fallback\":\"scaled\"") != NULL);
    EXPECT(strstr(hn_strbuf_str(&text).ptr, "\"form\":\"sums\"") != NULL);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST_MAIN
