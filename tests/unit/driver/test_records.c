/* test_records.c: what steps are made of, from the compiler to a module: at the hints, and in a run
 * for other sizes. */
#include "henry/record.h"
#include "unit/codegen/compile_fixture.h"
#include "unit/harness.h"

#include <string.h>

/* Two of its dimensions are known in a run only. */
static const char dynamic[] =
    "graph @g {\n  symbol size s0 in [1, 4096] hint 8\n  input user %x : f32[s0, 100] \"x\"\n"
    "  input user %w : f32[100, 24] \"w\"\n"
    "  %y = aten._softmax.default(%x, -1, false) : f32[s0, 100] at \"soft\" \"m.py:7\"\n"
    "  %z = aten.mm.default(%y, %w) : f32[s0, 24] at \"mm\" \"m.py:8\"\n  output user %z \"z\"\n}\n";

static hn_module *load(const char *text) {
    hn_module *m = NULL;
    EXPECT_OK(compile_text(hn_str_of(text), "x86-64-v3", 1, &m));
    return m;
}

/* The step of a category. */
static hn_step_record find(hn_module *m, hn_step_category category) {
    hn_step_record r = {0};
    for (uint32_t k = 0; k < hn_module_step_count(m); k++) {
        EXPECT_OK(hn_module_step_record(m, k, &r));
        if (r.category == category) return r;
    }
    HN_TEST_FAIL("no step is a %s", hn_step_category_name(category));
    return r;
}

TEST(a_record_has_the_numbers_of_the_kernel_and_of_its_form) {
    hn_module *m = load(dynamic);
    const hn_step_record r = find(m, HN_CATEGORY_REDUCTION);
    EXPECT_STR(r.category_name, "reduction");
    EXPECT(r.kind == HN_MODULE_STEP_KERNEL && *r.name && r.node_count == 1);
    EXPECT_STR(r.node, "soft"); /* not that of the product, which wants the value in memory */
    EXPECT(r.has_work && r.has_form && !r.is_bound && r.is_at_hint && !r.has_resources);
    EXPECT_INT(r.read_bytes, 8 * 100 * 4);
    EXPECT_INT(r.written_bytes, 8 * 100 * 4);
    /* the largest, the sum, a subtraction, an exponential of 14 and a division of 6 */
    EXPECT(r.operations >= 8 * 100 * (1 + 1 + 1 + 14 + 6));
    EXPECT_INT(r.arguments, 2);
    EXPECT(r.loads >= 1 && r.stores >= 1 && r.loops >= 3 && r.reductions == 2);
    EXPECT_INT(r.atomics, 0);
    EXPECT_INT(r.phases, 3);
    EXPECT(r.fused_loops > 1 && r.predicted_ns > 0 && r.accessed_bytes >= 8 * 100 * 4 * 2);
    EXPECT(r.is_vectorized && r.lanes == 8 && r.threads == 1);
    EXPECT_STR(r.form, "rows");
    EXPECT_INT(r.direction, HN_DIRECTION_INNER);
    EXPECT_INT(r.row_rank, 1);
    EXPECT_INT(r.rank, 2);
    EXPECT_INT(r.elements, 800);
    EXPECT_STR(r.sizes[0].text, "s0");
    EXPECT(!r.sizes[0].is_static && r.sizes[0].hint == 8);
    EXPECT(r.sizes[1].is_static && r.sizes[1].value == 100);
    hn_module_release(m);
}

/* A sum and a product for each element, and for each row one exponential of 14. */
TEST(what_a_row_computes_once_counts_once) {
    hn_module *m = load("graph @g {\n  input user %x : f32[8, 100] \"x\"\n"
                        "  %s = sum(%x, dims=[1], keepdim=true)\n  %e = exp(%s)\n"
                        "  %y = mul(%x, %e)\n  output user %y \"y\"\n}\n");
    EXPECT_INT(find(m, HN_CATEGORY_REDUCTION).operations, 8 * 100 * 2 + 8 * 14);
    hn_module_release(m);
}

TEST(a_call_has_bytes_and_operations) {
    hn_module *m = load(dynamic);
    const hn_step_record r = find(m, HN_CATEGORY_CALL);
    EXPECT_STR(r.name, "matmul");
    EXPECT(r.kind == HN_MODULE_STEP_EXTERN && r.has_work && !r.has_form && r.rank == 0);
    EXPECT_INT(r.operations, 2 * 8 * 100 * 24);
    EXPECT_INT(r.read_bytes, (8 * 100 + 100 * 24) * 4);
    EXPECT_INT(r.written_bytes, 8 * 24 * 4);
    hn_module_release(m);
}

/* ---- in a run ---- */

typedef struct seen {
    uint32_t steps;
    hn_step_record reduction, call;
} seen;

static hn_status look(void *user, const hn_step_info *step, uint64_t *note) {
    seen *s = user;
    hn_step_record r;
    (void)note;
    HN_TRY(hn_step_record_get(step, &r));
    s->steps++;
    if (r.category == HN_CATEGORY_REDUCTION) s->reduction = r;
    if (r.category == HN_CATEGORY_CALL) s->call = r;
    return NULL;
}

TEST(in_a_run_numbers_are_those_of_its_sizes) {
    static float x[50 * 100], w[100 * 24];
    hn_module *m = load(dynamic);
    hn_tensor *in[2], *out = NULL;
    seen s = {0};
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){
            .type = HN_F32, .rank = 2, .sizes = (const int64_t[]){50, 100}, .data = x},
        &in[0]));
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){
            .type = HN_F32, .rank = 2, .sizes = (const int64_t[]){100, 24}, .data = w},
        &in[1]));
    const hn_step_record hint = find(m, HN_CATEGORY_REDUCTION);
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){.before = look, .user = &s}));
    EXPECT_OK(hn_module_run(m, in, 2, &out, 1));
    EXPECT_INT(s.steps, hn_module_step_count(m));
    EXPECT(!s.reduction.is_at_hint && !s.call.is_at_hint);
    EXPECT_INT(s.reduction.read_bytes, 50 * 100 * 4);
    EXPECT_INT(s.reduction.written_bytes, 50 * 100 * 4);
    EXPECT_INT(s.reduction.operations, hint.operations / 8 * 50);
    EXPECT_INT(s.reduction.elements, 5000);
    EXPECT_INT(s.call.elements, 0);
    EXPECT_INT(s.call.operations, 2 * 50 * 100 * 24);
    EXPECT_INT(s.call.read_bytes, (50 * 100 + 100 * 24) * 4);
    for (int k = 0; k < 2; k++) hn_tensor_release(in[k]);
    hn_tensor_release(out);
    hn_module_release(m);
}

/* ---- categories ---- */

#define GRAPH(inputs, nodes) "graph @g {\n" inputs nodes "}\n"

TEST(each_category_has_a_step) {
    static const struct {
        hn_step_category category;
        const char *text;
    } cases[] = {
        {HN_CATEGORY_POINTWISE,
         GRAPH("  input user %x : f32[1000] \"x\"\n",
               "  %y = aten.relu.default(%x) : f32[1000]\n  output user %y \"y\"\n")},
        {HN_CATEGORY_SCAN,
         GRAPH("  input user %x : f32[64, 100] \"x\"\n",
               "  %y = aten.cumsum.default(%x, 1) : f32[64, 100]\n  output user %y \"y\"\n")},
        {HN_CATEGORY_MIXED_REDUCTION,
         GRAPH("  input user %x : f32[16384, 256] \"x\"\n",
               "  %s = aten.sum.dim_IntList(%x, [1], true) : f32[16384, 1]\n"
               "  %y = aten.mul.Tensor(%x, %s) : f32[16384, 256]\n"
               "  %c = aten.sum.dim_IntList(%x, [0]) : f32[256]\n"
               "  output user %y \"y\"\n  output user %c \"c\"\n")},
        {HN_CATEGORY_FOREACH,
         GRAPH(
             "  input user %a : f32[1000] \"a\"\n  input user %b : f32[3000] \"b\"\n"
             "  input user %c : f32[512] \"c\"\n",
             "  %x = aten.relu.default(%a) : f32[1000]\n  %y = aten.relu.default(%b) : f32[3000]\n"
             "  %z = aten.relu.default(%c) : f32[512]\n  output user %x \"x\"\n"
             "  output user %y \"y\"\n  output user %z \"z\"\n")},
        {HN_CATEGORY_SCATTER,
         GRAPH("  input user %x : f32[100] \"x\"\n  input user %i : i64[30] \"i\"\n"
               "  input user %v : f32[30] \"v\"\n",
               "  %y = aten.scatter_add.default(%x, 0, %i, %v) : f32[100]\n"
               "  output user %y \"y\"\n")},
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        hn_module *m = load(cases[k].text);
        const hn_step_record r = find(m, cases[k].category);
        EXPECT(r.has_form && r.has_work && !r.is_at_hint && r.read_bytes > 0);
        EXPECT_INT(r.is_bound, cases[k].category == HN_CATEGORY_SCATTER);
        hn_module_release(m);
    }
}

/* Of other sizes, and of the same ones. */
TEST(elements_of_a_kernel_of_several_loops_are_those_of_all) {
    static const struct {
        const char *text;
        int64_t elements;
    } cases[] = {
        {GRAPH(
             "  input user %a : f32[1000] \"a\"\n  input user %b : f32[3000] \"b\"\n",
             "  %x = aten.relu.default(%a) : f32[1000]\n  %y = aten.relu.default(%b) : f32[3000]\n"
             "  output user %x \"x\"\n  output user %y \"y\"\n"),
         4000},
        {GRAPH(
             "  input user %a : f32[1000] \"a\"\n  input user %b : f32[1000] \"b\"\n",
             "  %x = aten.relu.default(%a) : f32[1000]\n  %y = aten.relu.default(%b) : f32[1000]\n"
             "  output user %x \"x\"\n  output user %y \"y\"\n"),
         2000},
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        hn_module *m = load(cases[k].text);
        int64_t elements = 0, bytes = 0, operations = 0;
        for (uint32_t s = 0; s < hn_module_step_count(m); s++) {
            hn_step_record r;
            EXPECT_OK(hn_module_step_record(m, s, &r));
            elements += r.elements, bytes += r.read_bytes, operations += r.operations;
        }
        EXPECT_INT(elements, cases[k].elements);
        EXPECT_INT(operations, cases[k].elements);
        EXPECT_INT(bytes, 4 * cases[k].elements);
        hn_module_release(m);
    }
}

TEST(what_is_out_of_range_is_refused) {
    hn_module *m = load(dynamic);
    hn_step_record r;
    const char *node, *source;
    EXPECT_ERROR(hn_module_step_record(m, hn_module_step_count(m), &r), HN_INVALID_ARGUMENT,
                 "there is no step");
    EXPECT_ERROR(hn_module_step_record(NULL, 0, &r), HN_INVALID_ARGUMENT, "module");
    EXPECT_ERROR(hn_module_step_node_get(m, 0, 99, &node, NULL), HN_INVALID_ARGUMENT,
                 "there is no node 99");
    EXPECT_OK(hn_module_step_node_get(m, 0, 0, &node, &source));
    EXPECT_STR(node, "soft");
    EXPECT_STR(source, "m.py:7");
    hn_module_release(m);
}

TEST_MAIN
