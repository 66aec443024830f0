/* test_metrics.c: each counter of a compilation, with a graph where it is 0 and one where it is
 * not; sums of the process. No compiler is needed. */
#include "driver/driver.h"
#include "unit/harness.h"

#include <string.h>

#define GRAPH(inputs, nodes) "graph @g {\n" inputs nodes "}\n"

static const char relu[] =
    GRAPH("  input user %x : f32[1000] \"x\"\n",
          "  %y = aten.relu.default(%x) : f32[1000]\n  output user %y \"y\"\n");
/* A program of no node. */
static const char passed_on[] =
    GRAPH("  input user %x : f32[1000] \"x\"\n", "  output user %x \"y\"\n");
static const char softmax[] =
    GRAPH("  input user %x : f32[64, 1000] \"x\"\n",
          "  %y = aten._softmax.default(%x, -1, false) : f32[64, 1000]\n  output user %y \"y\"\n");
static const char sum[] = GRAPH("  input user %x : f32[1048576] \"x\"\n",
                                "  %y = aten.sum.default(%x) : f32[]\n  output user %y \"y\"\n");
static const char cast[] =
    GRAPH("  input user %x : bf16[1000] \"x\"\n",
          "  %y = cast(%x, dtype=f64) : f64[1000]\n  output user %y \"y\"\n");
static const char product[] =
    GRAPH("  input user %a : f32[64, 32] \"a\"\n  input user %b : f32[32, 48] \"b\"\n",
          "  %y = aten.mm.default(%a, %b) : f32[64, 48]\n  output user %y \"y\"\n");
/* A product of f16 whose rows a GPU wants aligned. */
static const char odd_rows[] =
    GRAPH("  input user %a : f16[1024, 768] \"a\"\n  input user %b : f16[50257, 768] \"b\"\n",
          "  %t = aten.t.default(%b) : f16[768, 50257]\n"
          "  %y = aten.mm.default(%a, %t) : f16[1024, 50257]\n"
          "  %z = aten.amax.default(%y, [-1]) : f16[1024]\n  output user %z \"z\"\n");
/* Rows are scaled by their sums; what they read is summed down columns, too. */
static const char rows_and_columns[] =
    GRAPH("  input user %x : f32[16384, 256] \"x\"\n",
          "  %s = aten.sum.dim_IntList(%x, [1], true) : f32[16384, 1]\n"
          "  %y = aten.mul.Tensor(%x, %s) : f32[16384, 256]\n"
          "  %c = aten.sum.dim_IntList(%x, [0]) : f32[256]\n"
          "  output user %y \"y\"\n  output user %c \"c\"\n");
/* Distances to the mean of a channel, over a batch: they are not made in rows of a channel. */
static const char variance[] =
    GRAPH("  input user %x : f32[8, 16, 400] \"x\"\n",
          "  %m = aten.mean.dim(%x, [0, 2], true) : f32[1, 16, 1]\n"
          "  %d = aten.sub.Tensor(%x, %m) : f32[8, 16, 400]\n"
          "  %q = aten.mul.Tensor(%d, %d) : f32[8, 16, 400]\n"
          "  %v = aten.sum.dim_IntList(%q, [0, 2], true) : f32[1, 16, 1]\n"
          "  %y = aten.mul.Tensor(%d, %v) : f32[8, 16, 400]\n  output user %y \"y\"\n");
/* Two outputs of other sizes: one loop cannot make both. */
static const char two_sizes[] = GRAPH("  input user %x : f32[64, 1000] \"x\"\n",
                                      "  %y = aten.cumsum.default(%x, 1) : f32[64, 1000]\n"
                                      "  %z = aten.sum.dim_IntList(%y, [0]) : f32[1000]\n"
                                      "  output user %y \"y\"\n  output user %z \"z\"\n");

static const char batch_norm[] =
    GRAPH("  input user %x : f32[4, 6, 32] \"x\"\n",
          "  %m = aten.sum.dim_IntList(%x, [0, 2], true) : f32[1, 6, 1]\n"
          "  %y = aten.sub.Tensor(%x, %m) : f32[4, 6, 32]\n  output user %y \"y\"\n");
/* Two that do not depend on each other. */
static const char two_updates[] =
    GRAPH("  input user %x : f32[1000] \"x\"\n  input user %y : f32[32] \"y\"\n",
          "  %a = aten.relu.default(%x) : f32[1000]\n"
          "  %b = aten.relu.default(%y) : f32[32]\n"
          "  output user %a \"a\"\n  output user %b \"b\"\n");

/* The sum takes what two kernels make that read nothing in common. */
static const char norm_backward[] =
    GRAPH("  input user %x : f32[64, 300] \"x\"\n  input user %g : f32[64, 300] \"g\"\n",
          "  %s = aten.sum.dim_IntList(%x, [1], true) : f32[64, 1]\n"
          "  %m = aten.mul.Tensor(%x, %s) : f32[64, 300]\n"
          "  %d = aten.relu.default(%g) : f32[64, 300]\n"
          "  %p = aten.mul.Tensor(%m, %d) : f32[64, 300]\n"
          "  %y = aten.sum.dim_IntList(%p, [1]) : f32[64]\n"
          "  output user %m \"m\"\n  output user %d \"d\"\n  output user %y \"y\"\n");
/* Both products read one number in common: the second one is not made before the first scan. */
static const char early[] =
    GRAPH("  input user %w : f32[1] \"w\"\n  input user %x : f32[4194304] \"x\"\n"
          "  input user %z : f32[4194304] \"z\"\n",
          "  %a = aten.mul.Tensor(%x, %w) : f32[4194304]\n"
          "  %b = aten.cumsum.default(%a, 0) : f32[4194304]\n"
          "  %e = aten.add.Tensor(%b, %a) : f32[4194304]\n"
          "  %c = aten.mul.Tensor(%z, %w) : f32[4194304]\n"
          "  %d = aten.cumsum.default(%c, 0) : f32[4194304]\n"
          "  %f = aten.add.Tensor(%d, %c) : f32[4194304]\n"
          "  output user %e \"e\"\n  output user %f \"f\"\n");

/* A 1 in each row, and the same into rows that are read. */
/* 8 rows of 16, their halves turned and multiplied; and a concatenation that leaves the program. */
static const char half_turned[] =
    "graph {\ninput user %x : f32[8, 16] \"x\"\ninput user %w : f32[8, 16] \"w\"\n"
    "%a = slice(%x, dim=1, start=8, size=8, step=1)\n%n = neg(%a)\n"
    "%b = slice(%x, dim=1, start=0, size=8, step=1)\n%c = cat([%n, %b], dim=1)\n"
    "%y = mul(%c, %w)\noutput user %y \"\"\n}";
static const char joined[] =
    "graph {\ninput user %x : f32[8, 16] \"x\"\n%n = neg(%x)\n%c = cat([%n, %x], dim=1)\n"
    "output user %c \"\"\n}";
static const char one_hot[] =
    GRAPH("  input user %i : i64[64, 1] \"i\"\n",
          "  %z = aten.full.default([64, 100], 0.0, dtype=f32) : f32[64, 100]\n"
          "  %y = aten.scatter.value(%z, 1, %i, 1.0) : f32[64, 100]\n  output user %y \"y\"\n");
static const char scattered[] =
    GRAPH("  input user %z : f32[64, 100] \"z\"\n  input user %i : i64[64, 1] \"i\"\n",
          "  %y = aten.scatter.value(%z, 1, %i, 1.0) : f32[64, 100]\n  output user %y \"y\"\n");

/* The exponential of a weight is computed once, and that of an input is not. */
#define EXP(kind)                                                                                  \
    GRAPH("  storage 1 : 65536 bytes\n  input " kind " \"w\"\n"                                    \
          "  input user %x : f32[64, 256] \"x\"\n",                                                \
          "  %e = aten.exp.default(%w) : f32[64, 256]\n"                                           \
          "  %y = aten.mul.Tensor(%x, %e) : f32[64, 256]\n  output user %y \"y\"\n")
static const char of_weights[] = EXP("parameter %w : f32[64, 256] storage 1 offset 0");
static const char of_inputs[] = EXP("user %w : f32[64, 256]");

/* Counts what a graph becomes, for a target and 8 threads. */
static void count(const char *text, const char *target, hn_metrics *out) {
    hn_arena arena;
    hn_graph *graph = NULL;
    hn_driver d;
    hn_sym *sym;
    hn_arena_init(&arena);
    hn_driver_init(&d, &(hn_compile_options){.threads = 8, .target = target}, NULL);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_graph_parse(&arena, sym, hn_str_of(text), &graph));
    d.graph = graph, d.sym = sym;
    EXPECT_OK(hn_driver_targets(&d));
    EXPECT_OK(hn_driver_passes(&d));
    EXPECT_OK(hn_driver_kernels(&d));
    EXPECT_OK(hn_driver_count(&d));
    *out = d.metrics;
    hn_driver_deinit(&d);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
}

TEST(a_counter_is_what_the_program_has_and_0_elsewhere) {
    static const struct {
        const char *name, *some, *none, *target;
        int64_t expected; /* of `some`; below 0: at least so many */
    } rows[] = {
        {"loops", relu, passed_on, "x86-64-v3", 1},
        {"nodes", relu, passed_on, "x86-64-v3", -1},
        {"steps_scheduled", relu, passed_on, "x86-64-v3", 1},
        {"kernels_generated", relu, product, "x86-64-v3", 1},
        {"kernels_unique", relu, product, "x86-64-v3", 1},
        {"kernels_vectorized", relu, product, "x86-64-v3", 1},
        {"kernels_extern", product, relu, "x86-64-v3", 1},
        {"loops_fused", softmax, relu, "x86-64-v3", -2},
        {"fusions_refused", two_sizes, relu, "x86-64-v3", -1},
        {"kernels_of_phases", softmax, relu, "x86-64-v3", 1},
        {"phases", softmax, relu, "x86-64-v3", -2},
        {"local_buffers", softmax, relu, "x86-64-v3", 1},
        {"casts", cast, relu, "x86-64-v3", -1},
        {"reductions_split", sum, softmax, "x86-64-v3", 1},
        {"reductions_mixed", rows_and_columns, softmax, "x86-64-v3", 1},
        {"layouts_padded", odd_rows, product, "sm_90a", 1},
        {"bytes_read", relu, product, "x86-64-v3", 4000},
        {"bytes_read", softmax, product, "x86-64-v3", 256000},
        {"bytes_written", relu, product, "x86-64-v3", 4000},
        {"bytes_written", softmax, product, "sm_90a", 256000},
        {"operations", relu, product, "x86-64-v3", -1000},
        {"predicted_ns", relu, product, "x86-64-v3", -1},
        {"bytes_saved", softmax, relu, "x86-64-v3", -1},
        {"loops_reordered", batch_norm, softmax, "x86-64-v3", -1},
        {"values_computed_again", variance, softmax, "x86-64-v3", 1},
        {"scatters_selected", one_hot, scattered, "x86-64-v3", 1},
        {"kernels_of_segments", two_updates, relu, "x86-64-v3", 1},
        {"segments", two_updates, relu, "sm_90a", 2},
        {"bytes_read", two_updates, product, "x86-64-v3", 4128},
        {"kernels_merged", norm_backward, softmax, "x86-64-v3", 1},
        {"weights_computed_once", of_weights, of_inputs, "x86-64-v3", 1},
        {"weights_computed_bytes", of_weights, of_inputs, "sm_90a", 65536},
        {"fusions_refused_for_memory", early, two_sizes, "x86-64-v3", -1},
        {"concatenations_cut", half_turned, joined, "x86-64-v3", 1},
        {"kernels_generated", half_turned, product, "x86-64-v3", 1},
        {"bytes_read", half_turned, product, "x86-64-v3", 1024},
        {"bytes_written", half_turned, product, "x86-64-v3", 512},
    };
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        hn_metrics m;
        count(rows[k].some, rows[k].target, &m);
        const int64_t got = hn_metrics_value(&m, rows[k].name), want = rows[k].expected;
        if (want < 0 ? got < -want : got != want)
            HN_TEST_FAIL("%s is %lld, expected %lld", rows[k].name, (long long)got,
                         (long long)want);
        if (!rows[k].none) continue;
        count(rows[k].none, rows[k].target, &m);
        if (hn_metrics_value(&m, rows[k].name))
            HN_TEST_FAIL("%s is %lld where there is none", rows[k].name,
                         (long long)hn_metrics_value(&m, rows[k].name));
    }
}

TEST(all_counters_have_a_name_of_their_own) {
    for (uint32_t k = 0; k < hn_metric_count(); k++) {
        const hn_metric *metric = hn_metric_get(k);
        EXPECT(metric->name[0] && metric->unit[0] && metric->meaning[0]);
        for (uint32_t j = 0; j < k; j++) EXPECT(strcmp(metric->name, hn_metric_get(j)->name) != 0);
    }
    EXPECT(!hn_metric_get(hn_metric_count()));
}

TEST(a_compilation_is_added_to_the_sums_of_the_process) {
    hn_metrics before, after, mine = {.values = {[HN_METRIC_NODES] = 7, [HN_METRIC_JOBS] = 2}};
    hn_metrics_snapshot(&before);
    hn_metrics_publish(&mine);
    hn_metrics_snapshot(&after);
    hn_metrics_difference(&after, &before, &after);
    EXPECT_INT(hn_metrics_value(&after, "nodes"), 7);
    EXPECT_INT(hn_metrics_value(&after, "jobs"), 2);
    EXPECT_INT(hn_metrics_value(&after, "loops"), 0);
    EXPECT_INT(hn_metrics_value(&after, "no such counter"), 0);
    EXPECT_INT(hn_metrics_value(&after, NULL), 0);
    hn_metrics_reset();
    hn_metrics_snapshot(&after);
    EXPECT_INT(hn_metrics_value(&after, "nodes"), 0);
}

TEST_MAIN
