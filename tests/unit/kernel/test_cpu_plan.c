/* test_cpu_plan.c: what is decided about kernels for a CPU with vectors of 32 bytes: the form, and
 * for each phase the loop over lanes. The graphs are those of tests/kernels, whose generated text
 * shows the same decisions. */
#include "base/file.h"
#include "driver/driver.h"
#include "kernel/cpu.h"
#include "lower/lower.h"
#include "unit/harness.h"

static const char *form_name(hn_cpu_form form) {
    static const char *const names[] = {[HN_CPU_FLAT] = "flat",
                                        [HN_CPU_ROWS] = "rows",
                                        [HN_CPU_ROWS_PIPELINED] = "pipelined",
                                        [HN_CPU_ROWS_SPLIT] = "split",
                                        [HN_CPU_ROWS_SLABS] = "slabs",
                                        [HN_CPU_COLUMNS_NARROW] = "narrow columns",
                                        [HN_CPU_COLUMNS_WIDE] = "wide columns",
                                        [HN_CPU_TILES] = "tiles",
                                        [HN_CPU_TILES_WIDE] = "wide tiles"};
    return names[form];
}

/* "[4x masked 2 prefetched]"; "[]" for one without lanes. */
static void describe_phase(const hn_cpu_phase *ph, hn_strbuf *out) {
    static const char *const rests[] = {"whole", "masked", "overlapping"};
    hn_strbuf_puts(out, " [");
    if (ph->loop.unroll) hn_strbuf_printf(out, "%ux %s", ph->loop.unroll, rests[ph->loop.rest]);
    if (ph->prefetch_count) hn_strbuf_printf(out, " %u prefetched", ph->prefetch_count);
    if (ph->indices_ahead.count) hn_strbuf_printf(out, " %u by index", ph->indices_ahead.count);
    if (ph->maybe_empty) hn_strbuf_puts(out, " guarded");
    if (ph->sums_in_blocks) hn_strbuf_puts(out, "sums in blocks");
    hn_strbuf_putc(out, ']');
}

static bool has_nontemporal_stores(const hn_cpu_plan *plan) {
    bool found = false;
    for (uint32_t f = 0; f < plan->kernel->phases.count; f++)
        for (uint32_t k = 0; k < plan->kernel->phases.items[f].stores.count; k++)
            found |= plan->phases[f].stores[k].nontemporal;
    return found;
}

static void describe_plan(const hn_cpu_plan *plan, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s%s", out->len ? "; " : "", form_name(plan->form));
    if (plan->tiles.var)
        hn_strbuf_printf(out, " of %u%s", plan->tiles.block,
                         plan->tiles.prefetches ? " prefetched" : "");
    if (plan->columns.copies)
        hn_strbuf_printf(out, " of %u, %u rows", plan->columns.copies, plan->columns.width);
    if (plan->split.streams)
        hn_strbuf_printf(out, " in %u, %u sums each", plan->split.streams,
                         plan->split.accumulators);
    if (has_nontemporal_stores(plan)) hn_strbuf_puts(out, " non-temporal");
    for (uint32_t f = 0; f < plan->kernel->phases.count; f++) describe_phase(&plan->phases[f], out);
}

/* The plans of all kernels of a program, in the text of describe_plan(). */
static hn_status plan_program(hn_program *program, const hn_cpu_facts *facts, hn_arena *arena,
                              hn_arena *scratch, hn_strbuf *out) {
    hn_schedule schedule = {0};
    const hn_sched_options options = {.threads = 2, .limits = &facts->limits};
    HN_TRY(hn_schedule_program(program, &options, arena, scratch, &schedule));
    for (uint32_t k = 0; k < schedule.steps.count; k++) {
        hn_cpu_plan *plan;
        if (schedule.steps.items[k].kind != HN_STEP_KERNEL) continue;
        HN_TRY(
            hn_cpu_plan_create(program, schedule.steps.items[k].kernel, 32, facts, arena, &plan));
        describe_plan(plan, out);
    }
    return NULL;
}

static hn_status plan_graph(hn_graph *graph, hn_arena *arena, hn_arena *scratch, hn_strbuf *out) {
    hn_program *program;
    for (uint32_t k = 0; hn_driver_pass_name(k); k++)
        HN_TRY(hn_driver_pass_run(graph, hn_driver_pass_name(k), scratch));
    HN_TRY(hn_lower(graph, NULL, arena, scratch, &program));
    return plan_program(program, &hn_cpu_facts_common, arena, scratch, out);
}

static void check(const char *name, const char *expected) {
    char path[128];
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_graph *graph;
    hn_strbuf text, plans;
    snprintf(path, sizeof path, "tests/kernels/%s.hnir", name);
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_init(&plans);
    EXPECT_OK(hn_file_read(path, &text));
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_graph_parse(&arena, sym, hn_strbuf_str(&text), &graph));
    EXPECT_OK(plan_graph(graph, &arena, &scratch, &plans));
    EXPECT_STR(plans.ptr ? plans.ptr : "", expected);
    hn_graph_deinit(graph);
    hn_strbuf_deinit(&plans);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
}

TEST(elements) {
    check("silu", "flat [2x whole]");
    check("silu_long", "flat non-temporal [2x whole 3 prefetched]");
    check("index_select_long", "flat non-temporal [2x whole 2 prefetched]");
    check("gelu_bias", "rows [2x masked]");
    check("cat", "rows [1x whole]");
    check("cat_pieces",
          "narrow columns of 1, 8 rows [] [] []; rows [1x masked] [] [1x masked] [1x masked]");
    check("gather", "rows [2x whole 2 prefetched]");
    check("gather_long", "rows non-temporal [2x whole 2 prefetched]");
    check("gathers", "rows [1x whole 5 prefetched]");
    check("embedding", "rows [2x whole 1 prefetched 1 by index]");
    check("avg_pool", "rows [1x overlapping]");
    check("max_pool", "rows [2x whole]");
}

TEST(rows) {
    check("softmax", "rows [4x whole] [2x whole 2 prefetched] [1x whole]");
    check("softmax_long", "pipelined non-temporal [4x whole] [2x whole 1 prefetched] [2x whole]");
    check("layer_norm", "rows [4x whole] [2x whole] [2x whole 1 prefetched]");
    check("argmax", "rows [4x masked] []");
    check("sum_rows", "rows [4x whole] []");
    check("sum_rows_long", "split in 4, 2 sums each [4x whole] []");
}

/* From memory each phase prefetches one of the two arrays; bf16 of the other graph is in a
 * cache. */
TEST(slabs) {
    static const char both[] =
        "slabs non-temporal [2x whole 1 prefetched] [2x whole 1 prefetched]; "
        "wide columns of 2, 512 rows [] []";
    check("rms_norm_backward", both); /* 16 MiB */
    check("rms_norm_backward_long", both);
}

TEST(columns) {
    check("sum_columns", "wide columns of 2, 512 rows [] []");
    check("sum_columns_long",
          "wide columns of 2, 2048 rows [] []; wide columns of 2, 512 rows [] []");
}

TEST(tiles) {
    check("transpose", "tiles of 64 []");
    check("add_transposed", "tiles of 64 []");
    check("add_transposed_long", "wide tiles of 128 non-temporal []");
}

static void check_program(const char *body, const hn_cpu_facts *facts, const char *expected) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program;
    hn_strbuf text, plans;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_init(&plans);
    hn_strbuf_printf(&text, "program {\n%s\n}\n", body);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program));
    EXPECT_OK(plan_program(program, facts, &arena, &scratch, &plans));
    EXPECT_STR(plans.ptr ? plans.ptr : "", expected);
    hn_strbuf_deinit(&plans);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
}

/* Sizes that are known when the kernel runs: a loop may have no iteration, and its rest any number
 * of elements. */
TEST(unknown_sizes) {
    check_program(
        "symbol size s0 in [0, 64] hint 8\n symbol size s1 in [0, 64] hint 8\n"
        "b1 : input 0 f32[s0, s1]\n b2 : input 1 f32[s0]\n b3 : output f32[s0, s1] extent s0*s1\n"
        "pointwise (i0 < s0, i1 < s1;) { %1 = b1[s1*i0 + i1] : f32 %2 = b2[i0] : f32 %3 = add(%1, %2) : f32 b3[s1*i0 + i1] = %3 }",
        &hn_cpu_facts_common, "rows [1x masked guarded]");
}

#define COLUMNS(rows, columns)                                                                     \
    "b1 : input 0 f32[" #rows ", " #columns "]\n b2 : output f32[" #columns "] extent " #columns   \
    "\n"                                                                                           \
    "reduce sum (i0 < " #columns "; i1 < " #rows ") { %1 = b1[" #columns                           \
    "*i1 + i0] : f32 b2[i0] = %1 }"

/* Few columns, or few rows, are no strips. */
TEST(strips) {
    check_program(COLUMNS(256, 100), &hn_cpu_facts_common,
                  "narrow columns of 8, 64 rows [sums in blocks] []");
    check_program(COLUMNS(40, 256), &hn_cpu_facts_common, "narrow columns of 8, 64 rows [] []");
    check_program(COLUMNS(256, 256), &hn_cpu_facts_common, "wide columns of 2, 512 rows [] []");
}

#define COPY                                                                                       \
    "b1 : input 0 f32[4096]\n b2 : output f32[4096] extent 4096\n"                                 \
    "pointwise (i0 < 4096;) { %1 = b1[i0] : f32 %2 = neg(%1) : f32 b2[i0] = %2 }"

/* What is a lot of memory is a fact of the processor. */
TEST(facts) {
    hn_cpu_facts small = hn_cpu_facts_common;
    small.nontemporal_bytes = 8 << 10;
    check_program(COPY, &hn_cpu_facts_common, "flat [1x whole]");
    check_program(COPY, &small, "flat non-temporal [2x whole]");
    small.line_bytes = 128;
    check_program(COPY, &small, "flat non-temporal [4x whole]");
}

/* How many vectors go side by side is a fact, by what an element costs. */
TEST(cost_steps) {
    hn_cpu_facts few = hn_cpu_facts_common;
    few.column_vectors.rows[0].count = 2;
    check_program(COLUMNS(40, 256), &few, "narrow columns of 2, 16 rows [] []");
    few.chain_cost_min = 1;
    check_program(COPY, &few, "flat [2x whole]");
    few.strip_vectors.rows[0].count = 1;
    check_program(COLUMNS(256, 256), &few, "wide columns of 1, 512 rows [] []");
}

#define MATRICES                                                                                   \
    "b1 : input 0 f32[8, 256, 256]\n b2 : output f32[8, 256] extent 2048\n"                        \
    "reduce sum (i0 < 8, i1 < 256; i2 < 256) {\n"                                                  \
    "%1 = b1[65536*i0 + i1 + 256*i2] : f32 b2[256*i0 + i1] = %1 }"

/* The schedule counts strips, and the planner makes them: from one number. */
TEST(strips_are_those_of_the_schedule) {
    hn_cpu_facts narrow = hn_cpu_facts_common;
    check_program(MATRICES, &narrow, "wide columns of 2, 2048 rows [] []");
    narrow.limits.column_strip = 1024;
    check_program(MATRICES, &narrow, "wide columns of 2, 1024 rows [] []");
}

TEST_MAIN
