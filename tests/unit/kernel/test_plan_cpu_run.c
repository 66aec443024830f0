/* test_plan_cpu_run.c: every form that the planner for CPUs offers for small programs, run by the
 * interpreter of forms, for vectors of each length and for caches that the programs fill. The
 * programs are those that have a form of their own; random ones are tests/graphs/run_forms.c. */
#include "base/compiler.h"
#include "kernel/plan_cpu.h"
#include "tests/support/form_run.h"
#include "tests/support/imaginary_cpu.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

/* Which of a kernel's forms is run; the last one if it has fewer. */
typedef struct choice {
    uint32_t plan, vector_bytes;
    hn_cpu_facts facts;
} choice;

static hn_status choose(void *context, const hn_program *p, const hn_kernel *k, hn_arena *arena,
                        hn_arena *scratch, hn_form **out) {
    const choice *c = context;
    hn_form *forms[HN_CPU_PLANS_MAX];
    uint32_t count;
    HN_TRY(hn_form_plans_cpu(p, k, c->vector_bytes, &c->facts, c->plan + 1, arena, scratch, forms,
                             &count));
    *out = forms[count - 1];
    return NULL;
}

static hn_status run(const char *body, choice *c, bool splits, hn_arena *arena, hn_graph **out) {
    static const double tolerance[] = {1e-5, 1e-5};
    hn_sym *sym;
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    hn_forms_count count;
    const char *text = hn_arena_printf(arena, "graph {\n%s\n}\n", body);
    const hn_forms_check how = {
        .plan = choose,
        .context = c,
        .schedule = {.threads = 2, .limits = splits ? &hn_test_gpu.limits : &c->facts.limits}};
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(hn_graph_parse(arena, sym, hn_str_of(text), out));
    HN_TRY(hn_random_inputs(1, arena, *out, 0, inputs));
    return hn_check_forms(*out, inputs, tolerance, &how, &count);
}

static void check(const char *body) {
    for (uint32_t way = 0; way < 3 * 3 * 2 * 2; way++) {
        hn_arena arena;
        hn_graph *graph = NULL;
        choice c = {
            .plan = way % 3, .vector_bytes = 16u << way / 3 % 3, .facts = hn_test_cpu(way / 9 % 2)};
        hn_arena_init(&arena);
        EXPECT_OK(run(body, &c, way / 18, &arena, &graph));
        if (graph) hn_graph_deinit(graph);
        hn_arena_deinit(&arena);
    }
}

/* Rows of whole vectors, which are pipelined, and others. */
TEST(softmax) {
    check("input user %x : f32[9, 32] \"x\"\n %y = aten._softmax.default(%x, -1, false) : f32[9, "
          "32]\n output user %y \"y\"");
    check("input user %x : f32[2, 3, 32] \"x\"\n %y = aten._softmax.default(%x, -1, false) : "
          "f32[2, 3, 32]\n output user %y \"y\"");
    check("input user %x : f32[5, 37] \"x\"\n %y = aten._softmax.default(%x, -1, false) : f32[5, "
          "37]\n output user %y \"y\"");
    check("input user %x : f32[1, 64] \"x\"\n %y = aten._log_softmax.default(%x, -1, false) : "
          "f32[1, 64]\n output user %y \"y\"");
    check("input user %x : f32[12, 70] \"x\"\n %y = aten._softmax.default(%x, 0, false) : f32[12, "
          "70]\n output user %y \"y\"");
}

TEST(norms) {
    check("input user %x : f32[9, 40] \"x\"\n input user %w : f32[40] \"w\"\n input user %b : "
          "f32[40] \"b\"\n"
          " %y = aten.layer_norm.default(%x, [40], %w, %b, 1e-05, false) : f32[9, 40]\n output "
          "user %y \"y\"");
    check("input user %x : f32[4, 6, 35] \"x\"\n %s = mul(%x, %x)\n %m = sum(%s, dims=[0, 2], "
          "keepdim=true)\n %y = mul(%x, %m)\n output user %y \"y\"");
}

/* Rows that are read together, and what is made of their sums. */
TEST(sums_of_rows) {
    check("input user %x : f32[37, 50] \"x\"\n %s = sum(%x, dims=[1], keepdim=false)\n %y = "
          "neg(%s)\n output user %y \"y\"");
    check("input user %x : f32[3, 64] \"x\"\n %y = amax(%x, dims=[1], keepdim=false)\n output user "
          "%y \"y\"");
    check("input user %x : i64[21, 33] \"x\"\n %y = sum(%x, dims=[1], keepdim=false)\n output user "
          "%y \"y\"");
    check("input user %x : f32[21, 33] \"x\"\n %y = argmax(%x, dims=[1], keepdim=false)\n output "
          "user %y \"y\"");
}

TEST(sums_of_columns) {
    check("input user %x : f32[70, 40] \"x\"\n %y = sum(%x, dims=[0], keepdim=false)\n output user "
          "%y \"y\"");
    check("input user %x : f32[3, 69, 41] \"x\"\n %s = sum(%x, dims=[1], keepdim=true)\n %y = "
          "mul(%s, %s)\n output user %y \"y\"");
    check("input user %x : f64[66, 9] \"x\"\n %y = sum(%x, dims=[0], keepdim=false)\n output user "
          "%y \"y\"");
    check("input user %x : f32[40, 9] \"x\"\n %y = argmin(%x, dims=[0], keepdim=false)\n output "
          "user %y \"y\"");
}

TEST(scans) {
    check("input user %x : f32[17, 9] \"x\"\n %y = cumsum(%x, dim=0)\n output user %y \"y\"");
    check("input user %x : f32[5, 33] \"x\"\n %v, %i = cummax(%x, dim=1)\n output user %v \"v\"\n "
          "output user %i \"i\"");
    check("input user %x : f32[100] \"x\"\n %y = cumsum(%x, dim=0)\n output user %y \"y\"");
}

TEST(transposes) {
    check("input user %x : f32[130, 70] \"x\"\n %y = permute(%x, dims=[1, 0])\n %z = neg(%y)\n "
          "output user %z \"z\"");
    check("input user %x : f32[140, 150] \"x\"\n input user %b : f32[150, 140] \"b\"\n %t = "
          "permute(%x, dims=[1, 0])\n %y = add(%t, %b)\n"
          " output user %y \"y\"");
    check("input user %x : f64[3, 20, 10] \"x\"\n %y = permute(%x, dims=[0, 2, 1])\n %z = "
          "neg(%y)\n output user %z \"z\"");
    check("input user %x : bool[70, 9] \"x\"\n %y = permute(%x, dims=[1, 0])\n %z = not(%y)\n "
          "output user %z \"z\"");
}

/* Indices: of a row, of each element, and of a store. */
#define INDEX(count, limit)                                                                        \
    " %f = iota(start=3, step=5, size=" #count ", dtype=i64)\n %n = full(value=" #limit            \
    ", sizes=[], dtype=i64)\n"                                                                     \
    " %i = remainder(%f, %n)\n"

TEST(indices) {
    check("input user %x : f32[11, 40] \"x\"\n" INDEX(
        23, 11) " %y = aten.embedding.default(%x, %i, -1, false, false) : f32[23, 40]\n output "
                "user %y \"y\"");
    check("input user %x : f32[9, 33] \"x\"\n" INDEX(
        297, 33) " %j = reshape(%i, sizes=[9, 33])\n %y = gather(%x, %j, dim=1)\n"
                 " output user %y \"y\"");
    check("input user %x : f32[7, 5] \"x\"\n input user %s : f32[33, 5] \"s\"\n" INDEX(
        165, 7) " %j = reshape(%i, sizes=[33, 5])\n %y = scatter(%x, %j, %s, dim=0, "
                "mode=\"add\")\n output user %y \"y\"");
}

TEST(windows) {
    check("input user %x : f32[3, 19, 19] \"x\"\n %y = aten.avg_pool2d.default(%x, kernel_size=[3, "
          "3], stride=[1, 1], padding=[1, 1]) : f32[3, 19, 19]\n"
          " output user %y \"y\"");
    check("input user %x : f32[3, 20, 20] \"x\"\n %y = aten.max_pool2d.default(%x, kernel_size=[3, "
          "3], stride=[2, 2], padding=[1, 1]) : f32[3, 10, 10]\n"
          " output user %y \"y\"");
}

TEST(elements) {
    check("input user %x : f32[5000] \"x\"\n %s = sigmoid(%x)\n %y = mul(%s, %x)\n output user %y "
          "\"y\"");
    check("input user %x : f32[33, 17] \"x\"\n input user %b : f32[17] \"b\"\n %s = add(%x, %b)\n "
          "%y = aten.gelu.default(%s) : f32[33, 17]\n output user %y \"y\"");
    check("input user %x : f32[6, 12] \"x\"\n input user %b : f32[6, 7] \"b\"\n %y = cat([%x, %b], "
          "dim=1)\n output user %y \"y\"");
    check("input user %x : f32[] \"x\"\n %y = neg(%x)\n output user %y \"y\"");
}

TEST_MAIN
