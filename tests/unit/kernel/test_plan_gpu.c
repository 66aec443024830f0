/* test_plan_gpu.c: every layout that the planner for groups of threads offers, run by the
 * interpreter, for sizes that fill vectors, threads and groups or do not; and what the forms
 * are. */
#include "unit/kernel/plan_gpu_check.h"

static const int row_counts[] = {0, 1, 3, 17},
                 lengths[] = {0, 1, 2, 7, 8, 16, 31, 33, 64, 65, 127, 128, 136, 257, 520, 1024};

/* A maximum of nothing is none: rows of at least `least` elements. */
static void check_all(const char *graph, int least) {
    for (size_t r = 0; r < HN_COUNT_OF(row_counts); r++)
        for (size_t c = 0; c < HN_COUNT_OF(lengths); c++)
            if (lengths[c] >= least) check_sizes(graph, row_counts[r], lengths[c]);
}

/* --- elements --- */

TEST(elements) {
    check_all("input user %%x : f32[%1$d, %2$d] \"x\"\ninput user %%b : f16[%2$d] \"b\"\n"
              "%%c = cast(%%b, dtype=f32)\n%%y = add(%%x, %%c)\noutput user %%y \"\"",
              0);
}

/* What does not go along the last dimension is read once for a vector. */
TEST(elements_that_share_a_number) {
    check_all("input user %%x : f32[%1$d, %2$d] \"x\"\ninput user %%b : f32[%1$d, 1] \"b\"\n"
              "%%y = mul(%%x, %%b)\noutput user %%y \"\"",
              0);
}

TEST(transposed_elements) {
    check_all("input user %%x : f32[%1$d, %2$d] \"x\"\ninput user %%b : f32[%2$d, %1$d] \"b\"\n"
              "%%t = permute(%%b, dims=[1, 0])\n%%y = add(%%x, %%t)\noutput user %%y \"\"",
              0);
}

/* --- rows --- */

TEST(softmax) {
    check_all("input user %%x : f32[%1$d, %2$d] \"x\"\n%%m = amax(%%x, dims=[1], keepdim=true)\n"
              "%%d = sub(%%x, %%m)\n%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n"
              "%%y = div(%%e, %%s)\noutput user %%y \"\"",
              1);
}

/* Values and places, and rows of a narrow dtype. */
TEST(argmax_and_sum) {
    for (size_t c = 1; c < HN_COUNT_OF(lengths); c++)
        check_sizes("input user %%x : i8[%1$d, %2$d] \"x\"\n"
                    "%%i = argmax(%%x, dims=[1], keepdim=false)\n%%f = cast(%%x, dtype=f32)\n"
                    "%%s = sum(%%f, dims=[1], keepdim=false)\noutput user %%i \"\"\n"
                    "output user %%s \"\"",
                    5, lengths[c]);
}

/* Rows too long to be kept: what is computed again, and the element that an index picks. */
TEST(cross_entropy) {
    static const int sizes[] = {1028};
    for (size_t c = 0; c < HN_COUNT_OF(sizes); c++)
        check_sizes("input user %%x : f32[%1$d, %2$d] \"x\"\ninput user %%t : i64[%1$d] \"t\"\n"
                    "%%m = amax(%%x, dims=[1], keepdim=true)\n%%d = sub(%%x, %%m)\n"
                    "%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n%%l = log(%%s)\n"
                    "%%z = full(value=0, sizes=[], dtype=i64)\n%%k = mul(%%t, %%z)\n"
                    "%%u = reshape(%%k, sizes=[%1$d, 1])\n%%g = gather(%%d, %%u, dim=1)\n"
                    "%%y = sub(%%l, %%g)\noutput user %%y \"\"",
                    300, sizes[c]);
}

/* The mean over the rows: what is picked of each is made where the row is. */
TEST(mean_of_cross_entropy) {
    const char *graph = "input user %%x : bf16[%1$d, %2$d] \"x\"\n"
                        "input user %%t : i64[%1$d] \"t\"\n%%f = cast(%%x, dtype=f32)\n"
                        "%%m = amax(%%f, dims=[1], keepdim=true)\n%%d = sub(%%f, %%m)\n"
                        "%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n%%l = log(%%s)\n"
                        "%%p = sub(%%d, %%l)\n%%z = full(value=0, sizes=[], dtype=i64)\n"
                        "%%k = mul(%%t, %%z)\n%%u = reshape(%%k, sizes=[%1$d, 1])\n"
                        "%%g = gather(%%p, %%u, dim=1)\n%%n = neg(%%g)\n"
                        "%%y = sum(%%n, dims=[0, 1], keepdim=false)\noutput user %%y \"\"";
    check_sizes(graph, 20, 1029);
    check_clusters(graph, 20, 1029);
}

/* Rows that begin anywhere: sums and maxima in vectors from the first aligned element on; what is
 * written goes along, what is the same for all rows is read element by element. */
TEST(rows_of_odd_lengths) {
    static const int odd[] = {257, 259, 263, 519, 1021, 2055};
    for (size_t c = 0; c < HN_COUNT_OF(odd); c++) {
        check_sizes("input user %%x : bf16[%1$d, %2$d] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
                    "%%m = amax(%%f, dims=[1], keepdim=true)\n%%d = sub(%%f, %%m)\n"
                    "%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n%%l = log(%%s)\n"
                    "%%y = add(%%l, %%m)\noutput user %%y \"\"",
                    19, odd[c]);
        check_sizes("input user %%x : f16[%1$d, %2$d] \"x\"\ninput user %%w : f16[%2$d] \"w\"\n"
                    "%%s = sum(%%x, dims=[1], keepdim=true)\n%%d = mul(%%x, %%s)\n"
                    "%%y = mul(%%d, %%w)\noutput user %%y \"\"",
                    5, odd[c]);
        chooser softmax = {0};
        check_plans("input user %%x : bf16[%1$d, %2$d] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
                    "%%m = amax(%%f, dims=[1], keepdim=true)\n%%d = sub(%%f, %%m)\n"
                    "%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n"
                    "%%p = div(%%e, %%s)\n%%y = cast(%%p, dtype=bf16)\noutput user %%y \"\"",
                    7, odd[c], &softmax);
        if (!softmax.any_wide) HN_TEST_FAIL("%d columns: no plan has vectors", odd[c]);
    }
}

/* The largest number of a row and the sum of exponentials below it in one walk. Threads, and with a
 * limit that nothing reaches whole rows, have seen nothing but -inf. */
TEST(largest_and_sum_in_one_walk) {
    static const char *const limits[] = {"-100.0", "1.5", "100.0"};
    static const int columns[] = {1029, 4097};
    for (size_t k = 0; k < HN_COUNT_OF(limits); k++)
        for (size_t c = 0; c < HN_COUNT_OF(columns); c++) {
            char text[1024];
            chooser online = {0};
            snprintf(text, sizeof text,
                     "input user %%%%x : bf16[%%1$d, %%2$d] \"x\"\n%%%%f = cast(%%%%x, dtype=f32)\n"
                     "%%%%t = full(value=%s, sizes=[], dtype=f32)\n%%%%c = gt(%%%%f, %%%%t)\n"
                     "%%%%n = full(value=-inf, sizes=[], dtype=f32)\n"
                     "%%%%w = where(%%%%c, %%%%f, %%%%n)\n"
                     "%%%%m = amax(%%%%w, dims=[1], keepdim=true)\n%%%%d = sub(%%%%w, %%%%m)\n"
                     "%%%%e = exp(%%%%d)\n%%%%s = sum(%%%%e, dims=[1], keepdim=true)\n"
                     "%%%%l = log(%%%%s)\n%%%%y = add(%%%%l, %%%%m)\noutput user %%%%y \"\"",
                     limits[k]);
            check_plans(text, 19, columns[c], &online);
            if (!online.is_online) HN_TEST_FAIL("%d columns: each plan walks twice", columns[c]);
        }
}

/* Rows that the registers of one block do not hold: those of several do. */
TEST(rows_of_several_blocks) {
    static const int columns[] = {2048, 4104};
    for (size_t c = 0; c < HN_COUNT_OF(columns); c++) {
        check_clusters("input user %%x : f32[%1$d, %2$d] \"x\"\n"
                       "%%m = amax(%%x, dims=[1], keepdim=true)\n%%d = sub(%%x, %%m)\n"
                       "%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n"
                       "%%y = div(%%e, %%s)\noutput user %%y \"\"",
                       3, columns[c]);
        check_clusters("input user %%x : bf16[%1$d, %2$d] \"x\"\n"
                       "input user %%w : f32[%2$d] \"w\"\n"
                       "%%i = argmax(%%x, dims=[1], keepdim=false)\n%%f = cast(%%x, dtype=f32)\n"
                       "%%s = sum(%%f, dims=[1], keepdim=true)\n%%d = sub(%%f, %%s)\n"
                       "%%y = mul(%%d, %%w)\noutput user %%i \"\"\noutput user %%y \"\"",
                       5, columns[c]);
    }
}

TEST(odd_rows_of_several_blocks) {
    check_clusters("input user %%x : bf16[%1$d, %2$d] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
                   "%%m = amax(%%f, dims=[1], keepdim=true)\n%%d = sub(%%f, %%m)\n"
                   "%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n%%l = log(%%s)\n"
                   "%%y = add(%%l, %%m)\noutput user %%y \"\"",
                   7, 4097);
}

/* --- scans --- */

TEST(scans) {
    for (size_t c = 1; c < HN_COUNT_OF(lengths); c++) {
        check_sizes("input user %%x : f16[%1$d, %2$d] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
                    "%%y = cumsum(%%f, dim=1)\noutput user %%y \"\"",
                    5, lengths[c]);
        check_sizes("input user %%x : i32[%2$d] \"x\"\n%%y, %%i = cummax(%%x, dim=0)\n"
                    "output user %%y \"\"\noutput user %%i \"\"",
                    1, lengths[c]);
        check_sizes("input user %%x : f32[%1$d, %2$d] \"x\"\n%%y, %%i = cummin(%%x, dim=1)\n"
                    "%%z = logcumsumexp(%%x, dim=1)\noutput user %%y \"\"\noutput user %%i \"\"\n"
                    "output user %%z \"\"",
                    3, lengths[c]);
    }
}

/* Lengths that no vector divides, and whose last step is short or nearly empty. */
TEST(scans_of_odd_rows) {
    static const int odd[] = {3, 13, 251, 257, 521, 1025, 2053};
    for (size_t c = 0; c < HN_COUNT_OF(odd); c++) {
        check_sizes("input user %%x : f32[%1$d, %2$d] \"x\"\n%%y = cumprod(%%x, dim=1)\n"
                    "output user %%y \"\"",
                    3, odd[c]);
        check_sizes("input user %%x : bf16[%1$d, %2$d] \"x\"\n%%y, %%i = cummax(%%x, dim=1)\n"
                    "output user %%y \"\"\noutput user %%i \"\"",
                    3, odd[c]);
    }
}

/* Rows that are neighbours, and several threads down each. */
TEST(scans_down_columns) {
    static const int down[] = {0, 1, 2, 13, 257}, across[] = {1, 33};
    for (size_t d = 0; d < HN_COUNT_OF(down); d++)
        for (size_t a = 0; a < HN_COUNT_OF(across); a++) {
            check_sizes("input user %%x : f16[%2$d, %1$d] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
                        "%%y = cumsum(%%f, dim=0)\noutput user %%y \"\"",
                        across[a], down[d]);
            check_sizes("input user %%x : i32[2, %2$d, %1$d] \"x\"\n"
                        "%%y, %%i = cummax(%%x, dim=1)\n"
                        "output user %%y \"\"\noutput user %%i \"\"",
                        across[a], down[d]);
            check_sizes("input user %%x : f32[%2$d, %1$d] \"x\"\n"
                        "%%y = logcumsumexp(%%x, dim=0)\noutput user %%y \"\"",
                        across[a], down[d]);
        }
    for (size_t d = 1; d < HN_COUNT_OF(down); d++)
        check_sizes("symbol size s0 in [1, 4096] hint %2$d\n"
                    "input user %%x : f32[s0, %1$d] \"x\"\n%%y = cumprod(%%x, dim=0)\n"
                    "output user %%y \"\"",
                    3, down[d]);
}

/* Few rows that are long enough: sums of pieces, their scan, the pieces and what is left. */
TEST(scans_in_pieces) {
    static const int lengths_of_rows[] = {4095, 4096, 4097, 5003, 8191, 8192};
    for (size_t c = 0; c < HN_COUNT_OF(lengths_of_rows); c++) {
        check_sizes("input user %%x : f16[%1$d, %2$d] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
                    "%%y = cumsum(%%f, dim=1)\n%%z = abs(%%y)\noutput user %%z \"\"",
                    1, lengths_of_rows[c]);
        check_sizes("input user %%x : i64[2, %2$d, %1$d] \"x\"\n%%y = cumprod(%%x, dim=1)\n"
                    "output user %%y \"\"",
                    3, lengths_of_rows[c]);
    }
}

TEST(scans_of_sizes_of_the_call) {
    for (size_t c = 1; c < HN_COUNT_OF(lengths); c += 2)
        check_sizes("symbol size s0 in [1, 4096] hint %2$d\n"
                    "input user %%x : f32[%1$d, 8*s0] \"x\"\n%%y = cumsum(%%x, dim=1)\n"
                    "output user %%y \"\"",
                    3, lengths[c]);
}

/* --- across rows --- */

TEST(sums_down_columns) {
    for (size_t c = 0; c < HN_COUNT_OF(lengths); c++) {
        check_sizes("input user %%x : f32[%1$d, %2$d] \"x\"\n"
                    "%%s = sum(%%x, dims=[0], keepdim=false)\noutput user %%s \"\"",
                    100, lengths[c]);
        check_sizes("input user %%x : f16[3, %1$d, %2$d] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
                    "%%s = sum(%%f, dims=[1], keepdim=true)\n"
                    "%%m = amax(%%f, dims=[1], keepdim=true)\n%%d = sub(%%f, %%m)\n"
                    "%%y = add(%%d, %%s)\noutput user %%y \"\"",
                    9, lengths[c]);
    }
}

TEST(argmax_down_columns) {
    for (size_t c = 1; c < HN_COUNT_OF(lengths); c++)
        check_sizes("input user %%x : i16[%1$d, %2$d] \"x\"\n"
                    "%%i = argmax(%%x, dims=[0], keepdim=false)\noutput user %%i \"\"",
                    33, lengths[c]);
}

/* Sizes that are known at run time only: of rows, and of their elements. */
TEST(sizes_of_the_call) {
    static const char *const graphs[] = {
        "symbol size s0 in [1, 4096] hint %1$d\ninput user %%x : f32[s0, %2$d] \"x\"\n",
        "symbol size s0 in [1, 4096] hint %2$d\ninput user %%x : f32[%1$d, s0] \"x\"\n",
        "symbol size s0 in [1, 4096] hint %2$d\ninput user %%x : f32[%1$d, 8*s0] \"x\"\n"};
    for (size_t g = 0; g < HN_COUNT_OF(graphs); g++)
        for (size_t c = 1; c < HN_COUNT_OF(lengths); c += 2) {
            char text[512];
            snprintf(text, sizeof text,
                     "%s%%%%s = sum(%%%%x, dims=[1], keepdim=true)\n%%%%d = sub(%%%%x, %%%%s)\n"
                     "%%%%y = relu(%%%%d)\noutput user %%%%y \"\"",
                     graphs[g]);
            check_sizes(text, 7, lengths[c]);
        }
}

/* Elements of such sizes: in order, beside a vector, beside a number for each row, and of one size
 * twice; in vectors where it is a multiple of them. */
TEST(elements_of_sizes_of_the_call) {
    static const char *const graphs[] = {
        "input user %%x : f32[%1$d, s0] \"x\"\n%%y = abs(%%x)\noutput user %%y \"\"",
        "input user %%x : f32[s0] \"x\"\n%%y = abs(%%x)\noutput user %%y \"\"",
        "input user %%x : f32[%1$d, s0] \"x\"\ninput user %%b : f16[s0] \"b\"\n"
        "%%c = cast(%%b, dtype=f32)\n%%y = add(%%x, %%c)\noutput user %%y \"\"",
        "input user %%x : f32[%1$d, s0] \"x\"\ninput user %%b : f32[%1$d, 1] \"b\"\n"
        "%%y = mul(%%x, %%b)\noutput user %%y \"\"",
        "input user %%x : f32[s0, s0] \"x\"\ninput user %%b : f32[s0] \"b\"\n"
        "%%y = add(%%x, %%b)\noutput user %%y \"\""};
    static const int sizes[] = {1, 8, 13, 64, 129, 136};
    for (size_t g = 0; g < HN_COUNT_OF(graphs); g++)
        for (size_t c = 0; c < HN_COUNT_OF(sizes); c++) {
            char text[512];
            snprintf(text, sizeof text, "symbol size s0 in [1, 4096] hint %%2$d\n%s", graphs[g]);
            check_sizes(text, 5, sizes[c]);
        }
}

/* What a scan writes others of the row's threads read. */
TEST(scans_that_are_read) {
    for (size_t c = 1; c < HN_COUNT_OF(lengths); c++) {
        check_sizes(
            "input user %%x : f32[%1$d, %2$d] \"x\"\n%%y = cumsum(%%x, dim=1)\n"
            "%%f = slice(%%y, dim=1, start=%2$d-1, size=%2$d, step=-1)\n%%z = add(%%y, %%f)\noutput user %%z \"\"",
            3, lengths[c]);
        check_sizes("input user %%x : f32[%1$d, %2$d] \"x\"\n%%y = cumsum(%%x, dim=1)\n"
                    "%%m = amax(%%y, dims=[1], keepdim=true)\n%%z = sub(%%y, %%m)\n"
                    "output user %%z \"\"",
                    3, lengths[c]);
        check_sizes(
            "input user %%x : f32[%1$d, %2$d] \"x\"\n%%y = cumsum(%%x, dim=1)\n"
            "%%f = slice(%%y, dim=1, start=%2$d-1, size=%2$d, step=-1)\n%%e = exp(%%f)\n%%m = sum(%%e, dims=[1], keepdim=true)\n"
            "%%z = sub(%%e, %%m)\noutput user %%z \"\"\noutput user %%y \"\"",
            3, lengths[c]);
    }
}

/* A call may have another size than the form was planned for: no multiple of its vectors. */
TEST(sizes_that_are_not_expected) {
    static const char *const graphs[] = {
        "input user %%x : f32[5, s0] \"x\"\n%%s = sum(%%x, dims=[1], keepdim=true)\n"
        "%%d = sub(%%x, %%s)\n%%y = relu(%%d)\noutput user %%y \"\"",
        "input user %%x : f16[5, s0] \"x\"\n%%f = cast(%%x, dtype=f32)\n"
        "%%m = amax(%%f, dims=[1], keepdim=true)\n%%d = sub(%%f, %%m)\n%%e = exp(%%d)\n"
        "%%s = sum(%%e, dims=[1], keepdim=true)\n%%y = div(%%e, %%s)\noutput user %%y \"\"",
        "input user %%x : f16[s0, 5] \"x\"\n%%y = abs(%%x)\noutput user %%y \"\"",
        "input user %%x : f32[5, s0] \"x\"\ninput user %%b : f32[s0] \"b\"\n"
        "%%y = add(%%x, %%b)\noutput user %%y \"\""};
    for (size_t g = 0; g < HN_COUNT_OF(graphs); g++)
        for (size_t k = 1; k < HN_COUNT_OF(lengths); k++) {
            char text[1024], symbol[64];
            chooser c = {.hint = lengths[k] % 8 ? 256 : 255, .any = true};
            snprintf(symbol, sizeof symbol, "symbol size s0 in [1, 4096] hint %d\n", lengths[k]);
            snprintf(text, sizeof text, graphs[g], 0);
            hn_strbuf all;
            hn_strbuf_init(&all);
            hn_strbuf_printf(&all, "%s%s", symbol, text);
            for (; c.any && c.number < HN_GPU_PLANS_MAX; c.number++) {
                c.any = false;
                EXPECT_OK(check(all.ptr, &c));
            }
            hn_strbuf_deinit(&all);
        }
}

/* --- what is chosen --- */

static uint32_t reads_of_best(const char *statements) {
    chooser c = {0};
    EXPECT_OK(check(statements, &c));
    return c.reads;
}

/* A row that registers hold is read once; one whose extent is not known in each phase. */
TEST(rows_are_read_once) {
#define NORM(size)                                                                                 \
    "symbol size s0 in [1, 4096] hint 64\ninput user %x : f32[64, " size "] \"x\"\n"               \
    "%m = amax(%x, dims=[1], keepdim=true)\n%d = sub(%x, %m)\n%e = abs(%d)\n"                      \
    "%s = sum(%e, dims=[1], keepdim=true)\n%y = add(%e, %s)\noutput user %y \"\""
    EXPECT_INT(reads_of_best(NORM("1024")), 1);
    EXPECT_INT(reads_of_best(NORM("136")), 1);
    EXPECT_INT(reads_of_best(NORM("257")), 1);
    EXPECT(reads_of_best(NORM("4*s0")) > 1);
}

static hn_status plan_only(const char *statements, hn_arena *arena, hn_arena *scratch,
                           hn_graph **graph, chooser *c) {
    const hn_sched_options how = {.threads = hn_test_gpu.multiprocessors,
                                  .limits = &hn_test_gpu.limits};
    hn_schedule schedule;
    hn_program *p;
    hn_sym *sym;
    hn_form *f;
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(hn_graph_parse(arena, sym, hn_str_of(statements), graph));
    HN_TRY(hn_lower(*graph, NULL, arena, scratch, &p));
    HN_TRY(hn_schedule_program(p, &how, arena, scratch, &schedule));
    if (schedule.steps.count != 1) return HN_ERROR(HN_INTERNAL, "it is not one kernel");
    return choose(c, p, schedule.steps.items[0].kernel, arena, scratch, &f);
}

/* The best plan for a graph of one kernel. */
static void plan_best(const char *graph_text, chooser *c) {
    hn_arena arena, scratch;
    hn_graph *graph = NULL;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    EXPECT_OK(plan_only(graph_text, &arena, &scratch, &graph, c));
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
}

static uint32_t wide_of_best(const char *graph_text) {
    chooser c = {0};
    plan_best(graph_text, &c);
    return c.wide;
}

/* What reads several vectors before it computes asks for registers to keep them in; the plan behind
 * it is the same without that. */
TEST(what_reads_ahead_says_how_many_groups_there_are) {
#define LONG(ops) "graph {\ninput user %x : f32[4096, 8192] \"x\"\n" ops "output user %y \"\"\n}\n"
    chooser best = {.facts = &hn_gpu_facts_sm_90}, second = best;
    second.number = 1;
    plan_best(LONG("%y = abs(%x)\n"), &best);
    plan_best(LONG("%y = abs(%x)\n"), &second);
    EXPECT(best.resident > 1);
    EXPECT_INT(second.resident, 0);
    plan_best(LONG("%y = cumsum(%x, dim=1)\n"), &best);
    EXPECT(best.resident > 1);
    plan_best(LONG("%y = amax(%x, dims=[1], keepdim=true)\n"), &best);
    EXPECT_INT(best.resident, 0);
}

/* Copies of a long body would take a compiler seconds. */
TEST(long_bodies_have_few_copies) {
    char text[8192] = "graph {\ninput user %x : f32[4096, 8192] \"x\"\n%v0 = abs(%x)\n";
    size_t at = strlen(text);
    for (int k = 0; k < 200; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%%v%d = %s(%%v%d)\n", k + 1,
                               k % 2 ? "abs" : "neg", k);
    snprintf(text + at, sizeof text - at, "output user %%v200 \"y\"\n}\n");
    chooser best = {.facts = &hn_gpu_facts_sm_90};
    plan_best(text, &best);
    EXPECT_INT(best.resident, 0); /* which says that several vectors are read at once */
}

/* Both branches of a form for some sizes of the call, and scans, take memory for what they
 * exchange. */
TEST(all_that_threads_exchange_fits) {
    static const char *const graphs[] = {
        "%s = sum(%x, dims=[1], keepdim=true)\n%d = sub(%x, %s)\n%y = amax(%d, dims=[1], keepdim=false)\n",
        "%y = cumsum(%x, dim=1)\n", "%y = cumsum(%x, dim=0)\n"};
    static const char *const lengths_of_rows[] = {"s0", "256", "256"};
    hn_gpu_facts facts = hn_test_gpu;
    facts.shuffle = 1;
    facts.shared_bytes = 2 << 10;
    for (size_t g = 0; g < HN_COUNT_OF(graphs); g++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph {\nsymbol size s0 in [1, 4096] hint 256\n"
                 "input user %%x : f32[128, %s] \"x\"\n%soutput user %%y \"\"\n}\n",
                 lengths_of_rows[g], graphs[g]);
        chooser c = {.facts = &facts, .any = true};
        for (; c.any && c.number <= HN_GPU_PLANS_MAX; c.number++) {
            c.any = false;
            plan_best(text, &c);
            if (c.shared > facts.shared_bytes)
                HN_TEST_FAIL("plan %u takes %" PRId64 " bytes of %" PRId64 "\n%s", c.number,
                             c.shared, (int64_t)facts.shared_bytes, text);
        }
    }
}

/* Elements whose last extent, or a factor of it, is a size of the call are taken in vectors. */
TEST(elements_of_sizes_have_vectors) {
#define SIZED(hint, shape)                                                                         \
    "graph {\nsymbol size s0 in [1, 65536] hint 64\nsymbol size s1 in [1, 65536] hint " hint       \
    "\ninput user %x : f32[" shape "] \"x\"\n%y = abs(%x)\noutput user %y \"\"\n}\n"
    EXPECT_INT(wide_of_best(SIZED("128", "s1")), 2);
    EXPECT_INT(wide_of_best(SIZED("128", "7, s1")), 2);
    EXPECT_INT(wide_of_best(SIZED("129", "s0, s1")), 2); /* s0 is a multiple */
    EXPECT_INT(wide_of_best(SIZED("129", "3, s1")), 0);
}

/* All elements in their order: the place in memory is the number of the vector, without
 * quotients. */
TEST(elements_in_order_have_one_number) {
    chooser c = {0};
    plan_best("graph {\ninput user %x : f32[60, 84] \"x\"\ninput user %b : f32[84] \"b\"\n"
              "%y = add(%x, %b)\noutput user %y \"\"\n}\n",
              &c);
    EXPECT_INT(c.in_order, 2); /* x and y; b needs a remainder */
}

/* A parameter that is a part of its storage: an access of 16 bytes there would be a fault. */
TEST(parameters_inside_of_their_storage_are_not_aligned) {
#define PARAMETER(offset)                                                                          \
    "graph {\nstorage 1 : 4352 bytes record \"w\"\n"                                               \
    "input parameter %w : f32[16, 64] storage 1 offset " offset " \"w\"\n%y = abs(%w)\n"           \
    "output user %y \"\"\n}\n"
    EXPECT_INT(wide_of_best(PARAMETER("0")), 2);
    EXPECT_INT(wide_of_best(PARAMETER("64")), 2);
    EXPECT_INT(wide_of_best(PARAMETER("1")), 0);
    EXPECT_INT(wide_of_best(PARAMETER("6")), 2);
#define TRANSPOSED(offset)                                                                         \
    "graph {\nstorage 1 : 65600 bytes record \"w\"\n"                                              \
    "input parameter %w : f32[128, 128] storage 1 offset " offset " \"w\"\n"                       \
    "input user %x : f32[128, 128] \"x\"\n%t = permute(%w, dims=[1, 0])\n%y = add(%x, %t)\n"       \
    "output user %y \"\"\n}\n"
    EXPECT(wide_of_best(TRANSPOSED("0")) > 0);
    EXPECT_INT(wide_of_best(TRANSPOSED("3")), 0);
}

/* Forms of few registers have single elements, one after the other, and no rows; whatever the
 * kernel. */
TEST(few_registers) {
    static const char *const graphs[] = {
        "input user %%x : f32[%1$d, %2$d] \"x\"\ninput user %%b : f16[%2$d] \"b\"\n"
        "%%c = cast(%%b, dtype=f32)\n%%y = add(%%x, %%c)\noutput user %%y \"\"",
        "input user %%x : f32[%1$d, %2$d] \"x\"\ninput user %%b : f32[%2$d, %1$d] \"b\"\n"
        "%%t = permute(%%b, dims=[1, 0])\n%%y = add(%%x, %%t)\noutput user %%y \"\"",
        "input user %%x : f32[%1$d, %2$d] \"x\"\n%%m = amax(%%x, dims=[1], keepdim=true)\n"
        "%%d = sub(%%x, %%m)\n%%e = exp(%%d)\n%%s = sum(%%e, dims=[1], keepdim=true)\n"
        "%%y = div(%%e, %%s)\noutput user %%y \"\"",
        "input user %%x : f32[%1$d, %2$d] \"x\"\n%%y = sum(%%x, dims=[0], keepdim=false)\n"
        "output user %%y \"\"",
        "input user %%x : f32[%1$d, %2$d] \"x\"\n%%y = cumsum(%%x, dim=1)\noutput user %%y \"\"",
        "input user %%x : f32[%1$d, %2$d] \"x\"\n%%y = cumsum(%%x, dim=0)\noutput user %%y \"\""};
    const hn_gpu_facts few = hn_gpu_facts_few_registers(&hn_test_gpu);
    bool any_wide = false;
    for (size_t g = 0; g < HN_COUNT_OF(graphs); g++) {
        chooser c = {.facts = &few}, all = {.facts = &hn_test_gpu};
        check_plans(graphs[g], 128, 256, &c);
        check_plans(graphs[g], 128, 256, &all);
        any_wide |= all.any_wide;
        if (c.any_wide || c.kept > 1 || c.resident || c.staged)
            HN_TEST_FAIL("graph %zu: %d wide, %d kept, %u resident, %u staged", g, (int)c.any_wide,
                         (int)c.kept, c.resident, c.staged);
    }
    EXPECT(any_wide);
}

TEST_MAIN
