/* test_plan_norms.c: layouts that the planner for groups of threads offers for rows and reductions
 * down their columns: the backward passes of norms. */
#include "unit/kernel/plan_gpu_check.h"

#include <stdlib.h>

/* The backward pass of a layer norm; of an RMS norm but for what is between the marks. */
#define NORM_BACKWARD_OF(dy_type, x_type, columns_first)                                           \
    "input user %%dy0 : " dy_type "[%1$d, %2$d] \"dy\"\n"                                          \
    "input user %%x0 : " x_type "[%1$d, %2$d] \"x\"\n"                                             \
    "input user %%w0 : " x_type "[%2$d] \"w\"\ninput user %%r : f32[%1$d, 1] \"r\"\n"              \
    "%%dy = cast(%%dy0, dtype=f32)\n%%x = cast(%%x0, dtype=f32)\n%%w = cast(%%w0, dtype=f32)\n"    \
    "%%n = mul(%%x, %%r)\n%%g = mul(%%dy, %%w)\n%%dn = mul(%%dy, %%n)\n" columns_first             \
    "%%gn = mul(%%g, %%n)\n%%a = sum(%%g, dims=[1], keepdim=true)\n"                               \
    "%%b = sum(%%gn, dims=[1], keepdim=true)\n%%nb = mul(%%n, %%b)\n%%d1 = sub(%%g, %%a)\n"        \
    "%%d2 = sub(%%d1, %%nb)\n%%d3 = mul(%%d2, %%r)\n%%dx = cast(%%d3, dtype=" x_type ")\n"
#define DW  "%%dw = sum(%%dn, dims=[0], keepdim=false)\n"
#define OUT "output user %%dx \"\"\noutput user %%dw \"\"\n"
#define DB  "%%db = sum(%%dy, dims=[0], keepdim=false)\noutput user %%db \"\"\n"

static const char *const norm_backwards[] = {
    NORM_BACKWARD_OF("f32", "f32", "") DW OUT, NORM_BACKWARD_OF("bf16", "bf16", DW) OUT,
    NORM_BACKWARD_OF("f32", "bf16", DW) DB OUT, NORM_BACKWARD_OF("f16", "f32", "") DW DB OUT};

/* Every size with every graph, in half of the pairs of sizes; HENRY_TEST_ALL=1: all pairs. */
static bool tries_pair(size_t row, size_t column) {
    return (row + column) % 2 == 0 || getenv("HENRY_TEST_ALL");
}

TEST(norm_backward) {
    static const int rows[] = {0, 1, 2, 31, 97}, columns[] = {1, 2, 7, 8, 48, 384, 768, 1031};
    for (size_t g = 0; g < HN_COUNT_OF(norm_backwards); g++)
        for (size_t r = 0; r < HN_COUNT_OF(rows); r++)
            for (size_t c = 0; c < HN_COUNT_OF(columns); c++)
                if (rows[r] * columns[c] < 32 * 1031 && tries_pair(g + r, c))
                    check_sizes(norm_backwards[g], rows[r], columns[c]);
    check_sizes(norm_backwards[1], 5, 4096);
    check_sizes(norm_backwards[2], 4, 4097);
}

/* Long rows are on their way to staged memory while others are computed: one row, or two. */
static void check_staged(const char *graph, int rows, int columns, bool is_staged) {
    hn_gpu_facts small = HN_TEST_GPU(64, 1); /* threads: so few plans that all are tried */
    chooser c = {.facts = &small};
    small.limits.long_row_elems = columns; /* a few long rows are a row kernel */
    small.staged_bytes = 64 << 10;
    small.staged_row_elems = 256;
    check_plans(graph, rows, columns, &c);
    if ((c.staged > 1) != is_staged)
        HN_TEST_FAIL("%d x %d: %u plans are staged", rows, columns, c.staged);
}

TEST(norm_backward_in_stages) {
    static const int rows[] = {3, 4, 17};
    for (size_t g = 0; g < 2; g++)
        for (size_t r = 0; r < HN_COUNT_OF(rows); r++) {
            check_staged(norm_backwards[g], rows[r], 512, true);
            check_staged(norm_backwards[g], rows[r], 776, true); /* vectors that threads lack */
            check_staged(norm_backwards[g], rows[r], 248, false);
            check_staged(norm_backwards[g], rows[r], 513, false);
        }
    check_staged(norm_backwards[2], 3, 512, false); /* pieces of 8 bytes */
}

#define SOFTMAX                                                                                    \
    "input user %%x : f32[%1$d, %2$d] \"x\"\n%%m = amax(%%x, dims=[1], keepdim=true)\n"            \
    "%%d = sub(%%x, %%m)\n%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n"                \
    "%%y = div(%%e, %%s)\noutput user %%y \"y\"\n"
#define RMS_NORM                                                                                   \
    "input user %%x0 : bf16[%1$d, %2$d] \"x\"\ninput user %%w0 : bf16[%2$d] \"w\"\n"               \
    "%%x = cast(%%x0, dtype=f32)\n%%w = cast(%%w0, dtype=f32)\n%%q = mul(%%x, %%x)\n"              \
    "%%a = sum(%%q, dims=[1], keepdim=true)\n%%r = rsqrt(%%a)\n%%n = mul(%%x, %%r)\n"              \
    "%%z = mul(%%n, %%w)\n%%y = cast(%%z, dtype=bf16)\noutput user %%y \"y\"\n"                    \
    "output user %%r \"r\"\n"

/* Rows that no column goes down: each group takes several of them, and moves the next ones
 * meanwhile. */
TEST(rows_in_stages) {
    static const char *const graphs[] = {SOFTMAX, RMS_NORM};
    static const int rows[] = {1, 3, 17};
    for (size_t g = 0; g < HN_COUNT_OF(graphs); g++)
        for (size_t r = 0; r < HN_COUNT_OF(rows); r++) {
            check_staged(graphs[g], rows[r], 512, true);
            check_staged(graphs[g], rows[r], 776, true);
            check_staged(graphs[g], rows[r], 248, false);
            check_staged(graphs[g], rows[r], 513, false);
        }
}

/* Registers and stages have room for a length that is known: others have other plans. */
TEST(rows_in_stages_have_a_known_length) {
    static const int lengths[] = {64, 97, 150};
    hn_gpu_facts small = HN_TEST_GPU(64, 1);
    small.staged_bytes = 64 << 10;
    small.staged_row_elems = 256;
    for (size_t c = 0; c < HN_COUNT_OF(lengths); c++) {
        chooser how = {.facts = &small, .hint = 64};
        check_plans("symbol size s0 in [1, 4096] hint %2$d\n"
                    "input user %%x : f32[%1$d, 8*s0] \"x\"\n"
                    "%%m = amax(%%x, dims=[1], keepdim=true)\n%%d = sub(%%x, %%m)\n"
                    "%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n"
                    "%%y = div(%%e, %%s)\noutput user %%y \"y\"\n",
                    3, lengths[c], &how);
        EXPECT(how.staged == 0);
    }
}

/* Calls with more rows, or fewer, than were expected. */
TEST(any_rows_in_stages) {
    static const int rows[] = {0, 1, 5, 17};
    hn_gpu_facts small = HN_TEST_GPU(64, 1);
    small.staged_bytes = 64 << 10;
    small.staged_row_elems = 256;
    for (size_t r = 0; r < HN_COUNT_OF(rows); r++) {
        chooser how = {.facts = &small, .hint = 3};
        check_plans("symbol size s0 in [0, 4096] hint %1$d\n"
                    "input user %%x : f32[s0, %2$d] \"x\"\n"
                    "%%s = sum(%%x, dims=[1], keepdim=true)\n%%y = sub(%%x, %%s)\n"
                    "output user %%y \"y\"\n",
                    rows[r], 512, &how);
        if (!(how.staged > 0 && how.slabs > 3))
            HN_TEST_FAIL("%d rows: %u plans are staged, of %lld slabs", rows[r], how.staged,
                         (long long)how.slabs);
    }
}

/* Three dimensions, of which the first one is known at run time only. */
TEST(norm_backward_of_any_rows) {
    static const int lengths[] = {1, 7, 16, 33, 65, 128, 257, 1024};
    for (size_t c = 0; c < HN_COUNT_OF(lengths); c++)
        check_sizes("symbol size s0 in [0, 4096] hint %1$d\n"
                    "input user %%x : f32[s0, 3, %2$d] \"x\"\n"
                    "input user %%g : f32[s0, 3, %2$d] \"g\"\n%%p = mul(%%x, %%g)\n"
                    "%%s = sum(%%p, dims=[2], keepdim=true)\n%%d = sub(%%g, %%s)\n"
                    "%%w = sum(%%p, dims=[0, 1], keepdim=false)\n"
                    "%%b = sum(%%g, dims=[0, 1], keepdim=true)\noutput user %%d \"\"\n"
                    "output user %%w \"\"\noutput user %%b \"\"",
                    11, lengths[c]);
}

/* Where other forms have more values than registers. */
TEST(norm_backward_of_few_registers) {
    static const int lengths[] = {1, 48, 1031};
    const hn_gpu_facts few = hn_gpu_facts_few_registers(&hn_test_gpu);
    bool has_slabs = false;
    for (size_t c = 0; c < HN_COUNT_OF(lengths); c++) {
        chooser how = {.facts = &few};
        check_plans(norm_backwards[3], 31, lengths[c], &how);
        EXPECT(!how.any_wide && !how.staged);
        has_slabs |= how.has_slabs;
    }
    EXPECT(has_slabs);
}

/* A sum of rows beside columns of another length, which need not be the expected one. */
#define ROWS_BESIDE_COLUMNS(size)                                                                  \
    "symbol size s0 in [1, 4096] hint %2$d\n"                                                      \
    "input user %%a : f32[%1$d, " size "] \"a\"\ninput user %%x : f32[%1$d, 48] \"x\"\n"           \
    "input user %%n : f32[s0] \"n\"\n%%r = sum(%%a, dims=[1], keepdim=true)\n"                     \
    "%%d = mul(%%x, %%r)\n%%w = sum(%%d, dims=[0], keepdim=false)\noutput user %%d \"\"\n"         \
    "output user %%w \"\"\noutput user %%n \"\"\n"

TEST(rows_are_of_any_length_beside_columns) {
    static const int lengths[] = {1, 48, 65, 1031}, hints[] = {1, 4096};
    const hn_gpu_facts small = HN_TEST_GPU(64, 1);
    for (size_t c = 0; c < HN_COUNT_OF(lengths); c++)
        for (size_t h = 0; h < HN_COUNT_OF(hints); h++) {
            chooser how = {.facts = &small, .hint = hints[h]};
            check_plans(ROWS_BESIDE_COLUMNS("s0"), 37, lengths[c], &how);
            EXPECT(how.has_slabs);
            chooser even = {.facts = &small, .hint = hints[h]};
            check_plans(ROWS_BESIDE_COLUMNS("4*s0"), 5, lengths[c], &even);
            EXPECT(even.has_slabs);
        }
    /* more than the registers of a group could keep */
    chooser how = {.facts = &small};
    check_plans(ROWS_BESIDE_COLUMNS("20001"), 37, 1, &how);
    EXPECT(how.has_slabs);
}

/* Threads of a group of the first kernel, which an H200 would run. */
static uint32_t threads_of_first(const char *graph_text) {
    const hn_gpu_facts *facts = &hn_gpu_facts_sm_90;
    const hn_sched_options how = {.threads = facts->multiprocessors, .limits = &facts->limits};
    hn_arena arena, scratch;
    hn_graph *graph = NULL;
    hn_schedule schedule;
    hn_program *p;
    hn_sym *sym;
    hn_form *f = NULL;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_graph_parse(&arena, sym, hn_str_of(graph_text), &graph));
    EXPECT_OK(hn_lower(graph, NULL, &arena, &scratch, &p));
    EXPECT_OK(hn_schedule_program(p, &how, &arena, &scratch, &schedule));
    EXPECT_OK(hn_form_plan_gpu(p, schedule.steps.items[0].kernel, facts, &arena, &scratch, &f));
    const uint32_t threads = f->threads;
    hn_graph_deinit(graph);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return threads;
}

/* A row of 4096 f32 would be a vector for each of 1024 threads. But then 32 warps read what 32 of
 * them have added up, twice, which takes longer than memory. */
TEST(rows_have_no_more_warps_than_pay) {
    char text[2048];
    snprintf(text, sizeof text, "graph {\n" NORM_BACKWARD_OF("f32", "f32", "") DW DB OUT "}\n",
             32768, 4096);
    EXPECT(threads_of_first(text) <= 512);
}

TEST_MAIN
