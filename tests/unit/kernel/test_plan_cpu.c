/* test_plan_cpu.c: forms of ranges that the planner makes of kernels, for vectors of 32 bytes.
 * Those of well-known kernels as text, of others what matters. The graphs are those of
 * tests/kernels. */
#include "base/compiler.h"
#include "base/file.h"
#include "driver/driver.h"
#include "kernel/plan_cpu.h"
#include "lower/lower.h"
#include "unit/harness.h"

#include <string.h>

/* A program, and the forms of its last kernel. */
typedef struct fixture {
    hn_arena arena, scratch;
    hn_strbuf text;
    hn_graph *graph;
    hn_program *program;
    hn_schedule schedule;
    hn_form *forms[HN_CPU_PLANS_MAX];
    uint32_t count;
} fixture;

static void begin(fixture *fx) {
    *fx = (fixture){.count = 0};
    hn_arena_init(&fx->arena);
    hn_arena_init(&fx->scratch);
    hn_strbuf_init(&fx->text);
}

static void end(fixture *fx) {
    if (fx->graph) hn_graph_deinit(fx->graph);
    hn_strbuf_deinit(&fx->text);
    hn_arena_deinit(&fx->scratch);
    hn_arena_deinit(&fx->arena);
}

static hn_status plan_last(fixture *fx, uint32_t vector_bytes, const hn_cpu_facts *facts,
                           uint32_t most) {
    hn_sched_options options = {.threads = 2, .limits = &facts->limits};
    HN_TRY(hn_schedule_program(fx->program, &options, &fx->arena, &fx->scratch, &fx->schedule));
    const hn_kernel *kernel = fx->schedule.steps.items[fx->schedule.steps.count - 1].kernel;
    return hn_form_plans_cpu(fx->program, kernel, vector_bytes, facts, most, &fx->arena,
                             &fx->scratch, fx->forms, &fx->count);
}

/* The program of graph tests/kernels/<name>.hnir. */
static hn_status load_graph(fixture *fx, const char *name) {
    char path[128];
    hn_sym *sym;
    snprintf(path, sizeof path, "tests/kernels/%s.hnir", name);
    HN_TRY(hn_file_read(path, &fx->text));
    HN_TRY(hn_sym_create(&fx->arena, &sym));
    HN_TRY(hn_graph_parse(&fx->arena, sym, hn_strbuf_str(&fx->text), &fx->graph));
    for (uint32_t k = 0; hn_driver_pass_name(k); k++)
        HN_TRY(hn_driver_pass_run(fx->graph, hn_driver_pass_name(k), &fx->scratch));
    return hn_lower(fx->graph, &(hn_lower_options){.operations = &hn_operations_all}, &fx->arena,
                    &fx->scratch, &fx->program);
}

static hn_status load_loops(fixture *fx, const char *body) {
    hn_sym *sym;
    hn_strbuf_printf(&fx->text, "program {\n%s\n}\n", body);
    HN_TRY(hn_sym_create(&fx->arena, &sym));
    return hn_program_parse(&fx->arena, sym, hn_strbuf_str(&fx->text), &fx->program);
}

/* Without the cost. */
static void expect_text(hn_form *f, const char *expected) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    f->cost = (hn_form_cost){0};
    hn_form_print(f, &text);
    EXPECT_STR(text.ptr ? text.ptr : "", expected);
    hn_strbuf_deinit(&text);
}

static void check_graph(const char *name, const char *expected) {
    fixture fx;
    begin(&fx);
    EXPECT_OK(load_graph(&fx, name));
    EXPECT_OK(plan_last(&fx, 32, &hn_cpu_facts_common, 1));
    EXPECT_INT(fx.count, 1);
    if (fx.count) expect_text(fx.forms[0], expected);
    end(&fx);
}

static void check_loops(const char *body, const char *expected) {
    fixture fx;
    begin(&fx);
    EXPECT_OK(load_loops(&fx, body));
    EXPECT_OK(plan_last(&fx, 32, &hn_cpu_facts_common, 1));
    EXPECT_INT(fx.count, 1);
    if (fx.count) expect_text(fx.forms[0], expected);
    end(&fx);
}

TEST(flat) {
    check_graph("silu", "form (range i64 to i65 of 64; lanes 8; grain 1) {\n"
                        "  m1 : argument b1 f32 read\n"
                        "  m2 : argument b2 f32 read\n"
                        "  m3 : argument b3 f32 read\n"
                        "  m4 : argument b5 f32 write over m1, m2, m3\n"
                        "  lanes i0 in [1024*i64, 1024*i65) unroll 2 whole extent 65536 {\n"
                        "    vector {\n"
                        "      %3 = m1[i0] : f32\n"
                        "      %4 = m2[i0] : f32\n"
                        "      %5 = mul(%3, %4) : f32 rounded\n"
                        "      %6 = m3[i0] : f32\n"
                        "      %7 = add(%5, %6) : f32\n"
                        "      %8 = const 1.0 : f32\n"
                        "      %9 = neg(%7) : f32\n"
                        "      %10 = exp(%9) : f32\n"
                        "      %11 = add(%8, %10) : f32\n"
                        "      %12 = div(%7, %11) : f32\n"
                        "      m4[i0] = %12\n"
                        "    }\n"
                        "  }\n"
                        "}\n");
}

TEST(sum_of_rows) {
    check_graph("sum_rows", "form (range i64 to i65 of 64; lanes 8; grain 19) {\n"
                            "  m1 : argument b1 f32 read\n"
                            "  m2 : argument b2 f32 write\n"
                            "  r1 : sum f32 across\n"
                            "  for i66 in [i64, i65) extent 64 {\n"
                            "    let i0 < 64 = i66\n"
                            "    init r1\n"
                            "    lanes i8 in [0, 1024) unroll 4 whole {\n"
                            "      vector {\n"
                            "        %6 = m1[1024*i0 + i8] : f32\n"
                            "        step r1 %6\n"
                            "      }\n"
                            "    }\n"
                            "    across r1\n"
                            "    %9 = result r1 : f32\n"
                            "    m2[i0] = %9\n"
                            "  }\n"
                            "}\n");
}

TEST(softmax) {
    check_graph("softmax", "form (range i64 to i65 of 64; lanes 8; grain 1) {\n"
                           "  m1 : scratch f32[1040] read write\n"
                           "  m2 : argument b1 f32 read\n"
                           "  m3 : argument b5 f32 write over m2\n"
                           "  r1 : amax f32 across loses_nan\n"
                           "  r2 : sum f32 across\n"
                           "  for i66 in [i64, i65) extent 64 {\n"
                           "    let i0 < 64 = i66\n"
                           "    init r1\n"
                           "    lanes i8 in [0, 1024) unroll 4 whole {\n"
                           "      vector {\n"
                           "        %6 = m2[1024*i0 + i8] : f32\n"
                           "        step r1 %6\n"
                           "      }\n"
                           "    }\n"
                           "    across r1\n"
                           "    init r2\n"
                           "    %10 = result r1 : f32\n"
                           "    lanes i8 in [0, 1024) unroll 2 whole {\n"
                           "      vector {\n"
                           "        %13 = m2[1024*i0 + i8] : f32\n"
                           "        %14 = sub(%13, %10) : f32\n"
                           "        %15 = exp(%14) : f32 not_positive\n"
                           "        step r2 %15\n"
                           "        m1[i8] = %15\n"
                           "        prefetch m2[1024*i0 + i8 + 1024] every 2\n"
                           "        prefetch m3[1024*i0 + i8] write every 2\n"
                           "      }\n"
                           "    }\n"
                           "    across r2\n"
                           "    %21 = result r2 : f32\n"
                           "    %22 = reciprocal(%21) : f32\n"
                           "    lanes i8 in [0, 1024) single {\n"
                           "      vector {\n"
                           "        %25 = m1[i8] : f32\n"
                           "        %26 = mul(%25, %22) : f32\n"
                           "        m3[1024*i0 + i8] = %26\n"
                           "      }\n"
                           "    }\n"
                           "  }\n"
                           "}\n");
}

/* A row that an index picks: the next one's index is read ahead, without an error if it is
 * outside. */
TEST(index_ahead) {
    check_graph("embedding", "form (range i64 to i65 of 64; lanes 8; grain 5) {\n"
                             "  m1 : argument b2 i64 read\n"
                             "  m2 : argument b1 f32 read\n"
                             "  m3 : argument b3 f32 write\n"
                             "  for i66 in [i64, i65) extent 64 {\n"
                             "    let i0 < 64 = i66\n"
                             "    %3 = m1[i0] : i64\n"
                             "    %4 = t0 := check(%3 < 50257) : i64\n"
                             "    %5 = m1[Min(63, i0 + 1)] : i64\n"
                             "    %6 = t1 := check(wrap %5 < 50257) : i64 quiet\n"
                             "    lanes i1 in [0, 1024) unroll 2 whole {\n"
                             "      vector {\n"
                             "        %9 = m2[i1 + 1024*t0] : f32\n"
                             "        m3[1024*i0 + i1] = %9\n"
                             "        prefetch m2[i1 + 1024*t1] every 2\n"
                             "      }\n"
                             "    }\n"
                             "  }\n"
                             "}\n");
}

/* Where a loop may have no iteration, what is hoisted out of it must not run. An argument begins
 * where all its accesses do. */
TEST(guard_and_base) {
    check_loops(
        "symbol size s0 in [0, 64] hint 8\n b1 : input 0 f32[64, s0]\n b2 : input 1 f32[64, 8]\n b3 : output f32[64, s0] extent 64*s0\n"
        "pointwise (i0 < 64, i1 < s0;) { %1 = b1[s0*i0 + i1] : f32 %2 = b2[8*i0 + 3] : f32 %3 = add(%1, %2) : f32 b3[s0*i0 + i1] = %3 }",
        "form (range i64 to i65 of 64; lanes 8; grain 1250) {\n"
        "  m1 : argument b2[3] f32 read\n"
        "  m2 : argument b1 f32 read\n"
        "  m3 : argument b3 f32 write\n"
        "  for i66 in [i64, i65) extent 64 {\n"
        "    let i0 < 64 = i66\n"
        "    if 0 < s0 {\n"
        "      %4 = m1[8*i0] : f32\n"
        "      lanes i1 in [0, s0) single masked {\n"
        "        vector {\n"
        "          %7 = m2[i1 + i0*s0] : f32\n"
        "          %8 = add(%7, %4) : f32\n"
        "          m3[i1 + i0*s0] = %8\n"
        "        }\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n");
}

/* Lanes are columns. The sums of a block have a register of their own. */
TEST(narrow_columns) {
    check_loops("b1 : input 0 f32[256, 100]\n b2 : output f32[100] extent 100\n"
                "reduce sum (i0 < 100; i1 < 256) { %1 = b1[100*i1 + i0] : f32 b2[i0] = %1 }",
                "form (range i64 to i65 of 2; lanes 8; grain 1) {\n"
                "  m1 : argument b1 f32 read\n"
                "  m2 : argument b2 f32 write\n"
                "  r1 : sum f32\n"
                "  r2 : sum f32\n"
                "  for i66 in [i64, i65) extent 3 {\n"
                "    let i67 < 100 = 64*(i66%2)\n"
                "    lanes i0 in [i67, 100) unroll 8 whole masked_step {\n"
                "      init r1\n"
                "      for i68 in [0, 256) step 32 {\n"
                "        init r2\n"
                "        for i8 in [i68, Min(256, i68 + 32)) extent 256 {\n"
                "          vector {\n"
                "            %9 = m1[i0 + 100*i8] : f32\n"
                "            step r2 %9\n"
                "          }\n"
                "        }\n"
                "        vector {\n"
                "          %12 = result r2 : f32\n"
                "          step r1 %12\n"
                "        }\n"
                "      }\n"
                "      vector {\n"
                "        %15 = result r1 : f32\n"
                "        m2[i0] = %15\n"
                "      }\n"
                "    }\n"
                "  }\n"
                "}\n");
}

/* Results of a scan are stored as it goes. Without columns there are no lanes. */
TEST(scan) {
    check_loops("b1 : input 0 f32[100]\n b2 : output f32[100] extent 100\n"
                "scan cumsum (; i0 < 100) { %1 = b1[i0] : f32 b2[i0] = %1 }",
                "form (range i64 to i65 of 1; lanes 8; grain 16) {\n"
                "  m1 : argument b1 f32 read\n"
                "  m2 : argument b2 f32 write\n"
                "  r1 : cumsum f32\n"
                "  for i66 in [i64, i65) extent 1 {\n"
                "    init r1\n"
                "    for i8 in [0, 100) {\n"
                "      %4 = m1[i8] : f32\n"
                "      step r1 %4\n"
                "      %6 = result r1 : f32\n"
                "      m2[i8] = %6\n"
                "    }\n"
                "  }\n"
                "}\n");
}

/* A scatter is one iteration, in order. */
TEST(scatter) {
    check_loops(
        "b1 : input 0 i64[100]\n b2 : input 1 f32[100]\n b3 : output f32[10] extent 10\n"
        "pointwise (i0 < 10;) { %1 = const 0.0 : f32 b3[i0] = %1 }\n"
        "scatter (i0 < 100;) { %1 = b1[i0] : i64 %2 = t0 := check(%1 < 10) : i64 %3 = b2[i0] : f32 b3[t0] += %3 }",
        "form (range i64 to i65 of 1; lanes 8; grain 9223372036854775807) {\n"
        "  m1 : argument b1 i64 read\n"
        "  m2 : argument b2 f32 read\n"
        "  m3 : argument b3 f32 read write\n"
        "  for i66 in [0, 1) {\n"
        "    lanes i0 in [0, 100) single masked {\n"
        "      vector {\n"
        "        %4 = m1[i0] : i64\n"
        "        %5 = t0 := check(%4 < 10) : i64\n"
        "        %6 = m2[i0] : f32\n"
        "        m3[t0] += %6 in_order\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n");
}

/* ---- the choice ---- */

/* What the forms of ranges have that no other has; "": nothing. */
static const char *mark_of(const hn_form *f, hn_strbuf *text) {
    static const char *const marks[] = {"if aligned", "block {", "masked_step", "shared",
                                        "scratch"};
    hn_strbuf_reset(text);
    hn_form_print(f, text);
    for (uint32_t k = 0; k < HN_COUNT_OF(marks); k++)
        if (strstr(text->ptr, marks[k])) return marks[k];
    return "";
}

/* The marks of all forms, the best first; each is expected to be slower than the one before. */
static void check_forms(const char *name, const hn_cpu_facts *facts, const char *expected) {
    fixture fx;
    hn_strbuf marks, text;
    begin(&fx);
    hn_strbuf_init(&marks);
    hn_strbuf_init(&text);
    EXPECT_OK(load_graph(&fx, name));
    EXPECT_OK(plan_last(&fx, 32, facts, HN_CPU_PLANS_MAX));
    for (uint32_t k = 0; k < fx.count; k++) {
        hn_strbuf_printf(&marks, "[%s]", mark_of(fx.forms[k], &text));
        if (k) EXPECT(fx.forms[k]->cost.ns > fx.forms[k - 1]->cost.ns);
    }
    EXPECT_STR(marks.ptr ? marks.ptr : "", expected);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&marks);
    end(&fx);
}

TEST(choices) {
    check_forms("silu", &hn_cpu_facts_common, "[]");
    check_forms("softmax", &hn_cpu_facts_common, "[scratch][if aligned]");
    check_forms("softmax_long", &hn_cpu_facts_common, "[if aligned][scratch]");
    check_forms("sum_rows", &hn_cpu_facts_common, "[][block {]");
    check_forms("sum_rows_long", &hn_cpu_facts_common, "[block {][]");
    check_forms("sum_columns", &hn_cpu_facts_common, "[scratch][]");
    check_forms("transpose", &hn_cpu_facts_common, "[shared][scratch][]");
    check_forms("add_transposed_long", &hn_cpu_facts_common, "[scratch][shared][]");
}

/* From where on a form pays is a fact of the processor. */
TEST(facts) {
    hn_cpu_facts facts = hn_cpu_facts_common;
    facts.nontemporal_bytes = 0;
    facts.split_min_bytes = 0;
    facts.strip_min_rows = 1000;
    facts.tile_min_elems = 5000;
    check_forms("softmax", &facts, "[if aligned][scratch]");
    check_forms("sum_rows", &facts, "[block {][]");
    check_forms("sum_columns", &facts, "[][scratch]");
    check_forms("transpose", &facts, "[][shared][scratch]");
}

TEST(cost) {
    fixture fx;
    begin(&fx);
    EXPECT_OK(load_graph(&fx, "softmax"));
    EXPECT_OK(plan_last(&fx, 32, &hn_cpu_facts_common, 1));
    EXPECT_INT(fx.count, 1);
    if (fx.count) {
        /* read twice, written; the local buffer does not count */
        EXPECT_INT(fx.forms[0]->cost.bytes, 64 * 1024 * 4 * 3);
        EXPECT_INT(fx.forms[0]->cost.operations, 64 * 1024 * 3);
    }
    end(&fx);
}

/* Whatever the length of vectors, every form verifies. */
TEST(lengths) {
    static const char *const names[] = {"softmax",     "softmax_long",        "sum_rows_long",
                                        "sum_columns", "add_transposed_long", "gather",
                                        "cat_pieces"};
    for (uint32_t bytes = 16; bytes <= 64; bytes *= 2)
        for (uint32_t k = 0; k < HN_COUNT_OF(names); k++) {
            fixture fx;
            begin(&fx);
            EXPECT_OK(load_graph(&fx, names[k]));
            EXPECT_OK(plan_last(&fx, bytes, &hn_cpu_facts_common, HN_CPU_PLANS_MAX));
            for (uint32_t n = 0; n < fx.count; n++) EXPECT_INT(fx.forms[n]->lanes, bytes / 4);
            end(&fx);
        }
}

TEST_MAIN
