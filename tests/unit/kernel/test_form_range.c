/* test_form_range.c: forms of ranges in their interpreter: each kind of statement gives what it
 * should, and each fault is found. */
#include "base/compiler.h"
#include "form_fixture.h"

enum { ROWS = 7, COLUMNS = 21 };

/* Memory of the fixture's program: b1 is 0, 1, 2 ... and b4 the row numbers. */
typedef struct setting {
    fixture x;
    hn_form *f;
    hn_ref_buffer buffers[7];
    bool index_fault;
} setting;

/* "@" in the text stands for the header of a form of 4 lanes over the rows. */
static void begin(setting *t, const char *text) {
    static const int64_t elems[] = {0, ROWS * COLUMNS, ROWS, ROWS, ROWS, ROWS * COLUMNS, ROWS};
    char whole[4096];
    bool has_header = *text != '@';
    snprintf(whole, sizeof whole, "%s%s",
             has_header ? "" : "form (range i64 to i65 of s0; lanes 4; grain 1) {\n",
             text + !has_header);
    *t = (setting){0};
    EXPECT_OK(fixture_init(&t->x));
    for (hn_buf b = 1; b < HN_COUNT_OF(elems); b++)
        EXPECT_OK(hn_ref_buffer_init(&t->x.arena, t->x.program->buffers.items[b].dtype, elems[b],
                                     &t->buffers[b]));
    fixture_fill(&t->buffers[1], true);
    fixture_fill(&t->buffers[4], false);
    EXPECT_OK(hn_form_parse(t->x.program, &t->x.arena, hn_str_of(whole), &t->f));
}

static hn_status run(setting *t) {
    const hn_expr symbols[] = {t->x.rows, t->x.columns};
    const int64_t values[] = {ROWS, COLUMNS};
    if (!t->f) return HN_ERROR(HN_INTERNAL, "the text did not parse");
    return hn_form_run(t->f, &(hn_ref_sizes){symbols, values, 2}, t->buffers, &t->index_fault);
}

static void end(setting *t) { fixture_deinit(&t->x); }

/* Runs a form, whose results are looked at next. */
static void begin_run(setting *t, const char *text) {
    begin(t, text);
    EXPECT_OK(run(t));
    EXPECT(!t->index_fault);
}

static void expect_fault(const char *text, const char *message) {
    setting t;
    begin(&t, text);
    EXPECT_ERROR(run(&t), HN_INTERNAL, message);
    end(&t);
}

static double result(const setting *t, hn_buf b, int64_t at) {
    EXPECT(t->buffers[b].is_set[at]);
    return t->buffers[b].items[at].f;
}

/* --- what lanes compute --- */

static double row_sum(int64_t row) {
    double sum = 0;
    for (int64_t k = 0; k < COLUMNS; k++) sum += (double)(row * COLUMNS + k);
    return sum;
}

static const char row_sums[] = "@"
                               "  m1 : argument b1 f32 read\n"
                               "  m2 : argument b2 f32 write\n"
                               "  r1 : sum f32 across\n"
                               "  for i66 in [i64, i65) extent s0 {\n"
                               "    init r1\n"
                               "    lanes i67 in [0, s1) %s {\n"
                               "      vector {\n"
                               "        %%5 = m1[i67 + s1*i66] : f32\n"
                               "        prefetch m1[i67 + s1*i66 + 1000000] far every 2\n"
                               "        step r1 %%5\n"
                               "      }\n"
                               "    }\n"
                               "    across r1\n"
                               "    %%9 = result r1 : f32\n"
                               "    m2[i66] = %%9\n"
                               "  }\n"
                               "}\n";

/* 21 columns in vectors of 4: all kinds of steps. */
TEST(steps_reach_each_element_once) {
    static const char *const ways[] = {
        "unroll 2 whole single masked", "unroll 2 whole masked", "single masked", "masked",
        "unroll 6 whole masked_step",   "unroll 8 masked_step"};
    for (size_t k = 0; k < HN_COUNT_OF(ways); k++) {
        char text[2048];
        setting t;
        snprintf(text, sizeof text, row_sums, ways[k]);
        begin_run(&t, text);
        for (int64_t row = 0; row < ROWS; row++) EXPECT(result(&t, 2, row) == row_sum(row));
        end(&t);
    }
}

TEST(elements_that_no_step_reaches_are_found) {
    static const struct {
        const char *way, *left;
    } ways[] = {{"unroll 2 whole single", "1 elements are left over"},
                {"unroll 2 whole", "5 elements are left over"},
                {"single", "1 elements are left over"}};
    for (size_t k = 0; k < HN_COUNT_OF(ways); k++) {
        char text[2048];
        snprintf(text, sizeof text, row_sums, ways[k].way);
        expect_fault(text, ways[k].left);
    }
}

static const char copy[] = "@"
                           "  m1 : argument b1 f32 read\n"
                           "  m2 : argument b5 f32 write\n"
                           "  for i66 in [i64, i65) extent s0 {\n"
                           "    lanes i67 in [0, %s) %s overlapping extent s1 {\n"
                           "      vector {\n"
                           "        %%4 = m1[i67 + s1*i66] : f32\n"
                           "        m2[i67 + s1*i66] = %%4\n"
                           "      }\n"
                           "    }\n"
                           "  }\n"
                           "}\n";

TEST(the_last_vector_may_overlap) {
    static const char *const ways[] = {"single", "", "unroll 4 whole"};
    char text[1024];
    for (size_t k = 0; k < HN_COUNT_OF(ways); k++) {
        setting t;
        snprintf(text, sizeof text, copy, "s1", ways[k]);
        begin_run(&t, text);
        for (int64_t at = 0; at < ROWS * COLUMNS; at++) EXPECT(result(&t, 5, at) == (double)at);
        end(&t);
    }
    snprintf(text, sizeof text, copy, "3", "");
    expect_fault(text, "3 elements are no vector to overlap");
}

TEST(positions_are_combined_across_lanes) {
    setting t;
    begin_run(&t, "@"
                  "  m1 : argument b1 f32 read\n"
                  "  m2 : argument b3 i64 write\n"
                  "  r1 : argmax f32 across\n"
                  "  for i66 in [i64, i65) extent s0 {\n"
                  "    init r1\n"
                  "    lanes i67 in [0, s1) unroll 2 whole masked {\n"
                  "      vector {\n"
                  "        %5 = m1[Min(i67, 13) + s1*i66] : f32\n"
                  "        %6 = index(i67) : i64\n"
                  "        step r1 %5 at %6\n"
                  "      }\n"
                  "    }\n"
                  "    across r1\n"
                  "    %9 = position r1 : i64\n"
                  "    m2[i66] = %9\n"
                  "  }\n"
                  "}\n");
    for (int64_t row = 0; row < ROWS; row++) EXPECT_INT(t.buffers[3].items[row].i, 13);
    end(&t);
}

/* A strip of sums in memory: the first block of rows begins, others go on. */
TEST(registers_may_be_set) {
    setting t;
    begin_run(&t, "form (range i64 to i65 of s1; lanes 4; grain 1) {\n"
                  "  m1 : argument b1 f32 read\n"
                  "  m2 : argument b5 f32 write\n"
                  "  m3 : scratch f32[s1] read write stale\n"
                  "  r1 : sum f32\n"
                  "  for i66 in [0, s0) step 3 {\n"
                  "    lanes i1 in [i64, i65) unroll 2 whole masked_step extent s1 {\n"
                  "      init r1\n"
                  "      if 0 < i66 {\n"
                  "        vector {\n"
                  "          %6 = m3[i1] : f32\n"
                  "          set r1 %6\n"
                  "        }\n"
                  "      }\n"
                  "      for i67 in [i66, Min(s0, i66 + 3)) extent s0 {\n"
                  "        vector {\n"
                  "          %10 = m1[i1 + s1*i67] : f32\n"
                  "          step r1 %10\n"
                  "        }\n"
                  "      }\n"
                  "      vector {\n"
                  "        %13 = result r1 : f32\n"
                  "        m3[i1] = %13\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "  lanes i1 in [i64, i65) single masked extent s1 {\n"
                  "    vector {\n"
                  "      %17 = m3[i1] : f32\n"
                  "      m2[i1] = %17\n"
                  "    }\n"
                  "  }\n"
                  "}\n");
    for (int64_t column = 0; column < COLUMNS; column++) {
        double sum = 0;
        for (int64_t row = 0; row < ROWS; row++) sum += (double)(row * COLUMNS + column);
        EXPECT(result(&t, 5, column) == sum);
    }
    end(&t);
}

/* What is set outside of LANES is the same in all lanes. */
TEST(registers_outside_of_lanes_are_uniform) {
    setting t;
    begin_run(&t, "@"
                  "  m1 : argument b2 f32 write\n"
                  "  r1 : sum f32\n"
                  "  for i66 in [i64, i65) extent s0 {\n"
                  "    %2 = const 2.0 : f32\n"
                  "    init r1\n"
                  "    step r1 %2\n"
                  "    step r1 %2\n"
                  "    %6 = result r1 : f32\n"
                  "    m1[i66] = %6\n"
                  "  }\n"
                  "}\n");
    for (int64_t row = 0; row < ROWS; row++) EXPECT(result(&t, 2, row) == 4.0);
    end(&t);
}

static const char padded[] = "form (range i64 to i65 of s0; lanes 8; grain 1) {\n"
                             "  m1 : argument b1 f32 read\n"
                             "  m2 : argument b2 f32 write\n"
                             "  m3 : scratch f32[%s] read write padded\n"
                             "  for i66 in [i64, i65) extent s0 {\n"
                             "    lanes i67 in [0, 5) masked extent s1 {\n"
                             "      vector {\n"
                             "        %%4 = m1[i67 + s1*i66] : f32\n"
                             "        m3[i67] = %%4\n"
                             "      }\n"
                             "    }\n"
                             "    %%6 = m3[%d] : f32\n"
                             "    m2[i66] = %%6\n"
                             "  }\n"
                             "}\n";

/* A vector of 8 lanes, of which 5 count, may be written as a whole. */
TEST(padding_holds_anything) {
    char text[1024];
    setting t;
    snprintf(text, sizeof text, padded, "8", 4);
    begin_run(&t, text);
    for (int64_t row = 0; row < ROWS; row++)
        EXPECT(result(&t, 2, row) == (double)(row * COLUMNS + 4));
    end(&t);
    snprintf(text, sizeof text, padded, "8", 7);
    begin_run(&t, text);
    EXPECT(result(&t, 2, 1) != (double)(COLUMNS + 7));
    end(&t);
    snprintf(text, sizeof text, padded, "7", 4);
    expect_fault(text, "range 0: whole vectors at element 0 of memory m3, which has 7");
}

/* --- whole squares --- */

TEST(squares_are_transposed) {
    setting t;
    begin_run(&t, "form (range i64 to i65 of s1//3; lanes 4; grain 1) {\n"
                  "  m1 : argument b1 f32 read\n"
                  "  m2 : argument b5 f32 write\n"
                  "  m3 : shared f32[64] read write\n"
                  "  for i66 in [i64, i65) extent s1//3 {\n"
                  "    transpose m3[2] pitch 9 = m1[3*i66] stride s1, rows 3, columns s0\n"
                  "    for i67 in [0, 3) {\n"
                  "      lanes i68 in [0, s0) single masked {\n"
                  "        vector {\n"
                  "          %6 = m3[9*i67 + i68 + 2] : f32\n"
                  "          m2[3*s0*i66 + i68 + s0*i67] = %6\n"
                  "        }\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "}\n");
    for (int64_t column = 0; column < COLUMNS; column++)
        for (int64_t row = 0; row < ROWS; row++)
            EXPECT(result(&t, 5, column * ROWS + row) == (double)(row * COLUMNS + column));
    end(&t);
}

TEST(both_ways_of_aligned_are_taken) {
    setting t;
    int ways[2] = {0};
    begin_run(&t, "@"
                  "  m1 : argument b2 f32 write\n"
                  "  for i66 in [i64, i65) extent s0 {\n"
                  "    if aligned m1 {\n"
                  "      %3 = const 0.0 : f32\n"
                  "      m1[i66] = %3\n"
                  "    } else {\n"
                  "      block {\n"
                  "        %6 = const 1.0 : f32\n"
                  "        m1[i66] = %6\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "}\n");
    for (int64_t row = 0; row < ROWS; row++) ways[result(&t, 2, row) == 1.0]++;
    EXPECT(ways[0] && ways[1]);
    end(&t);
}

/* --- indices --- */

static const char pick[] = "@"
                           "  m1 : argument b1 f32 read\n"
                           "  m2 : argument b4 i64 read\n"
                           "  m3 : argument b2 f32 write\n"
                           "  lanes i66 in [i64, i65) single masked extent s0 {\n"
                           "    vector {\n"
                           "      %%3 = m2[i66] : i64\n"
                           "      %%4 = cast(%%3) : i32\n"
                           "      %%5 = t0 := check(%%4 < %s) : i32%s\n"
                           "      %%6 = m1[s1*t0] : f32\n"
                           "      m3[i66] = %%6\n"
                           "    }\n"
                           "  }\n"
                           "}\n";

TEST(words_may_be_indices) {
    setting t;
    char text[1024];
    snprintf(text, sizeof text, pick, "s0", "");
    begin_run(&t, text);
    for (int64_t row = 0; row < ROWS; row++) EXPECT(result(&t, 2, row) == (double)(row * COLUMNS));
    end(&t);
}

TEST(a_quiet_index_reports_nothing) {
    for (int quiet = 0; quiet < 2; quiet++) {
        setting t;
        char text[1024];
        snprintf(text, sizeof text, pick, "3", quiet ? " quiet" : "");
        begin(&t, text);
        EXPECT_OK(run(&t));
        EXPECT(t.index_fault == !quiet);
        EXPECT(result(&t, 2, 2) == 2.0 * COLUMNS);
        EXPECT(result(&t, 2, 3) == 0.0);
        end(&t);
    }
}

static const char scatter[] =
    "form (range i64 to i65 of s0; lanes 4; grain 9223372036854775807) {\n"
    "  m1 : argument b2 f32%s write\n"
    "  lanes i66 in [i64, i65) unroll 2 masked_step extent s0 {\n"
    "    vector {\n"
    "      %%3 = index(i66 + 1) : i32\n"
    "      %%4 = cast(%%3) : f32\n"
    "      m1[i66//3] %s\n"
    "    }\n"
    "  }\n"
    "}\n";

TEST(stores_in_order_may_meet) {
    setting t;
    char text[1024];
    snprintf(text, sizeof text, scatter, "", "= %4 in_order");
    begin_run(&t, text);
    EXPECT(result(&t, 2, 0) == 3.0 && result(&t, 2, 1) == 6.0 && result(&t, 2, 2) == 7.0);
    end(&t);
    snprintf(text, sizeof text, scatter, "", "= %4");
    expect_fault(text, "a race: lane 1 writes element 0 of memory m1, which lane 0 writes in the "
                       "same vector");
}

TEST(stores_that_combine_may_meet) {
    setting t;
    char text[1024];
    snprintf(text, sizeof text, scatter, " read", "+= %4");
    begin(&t, text);
    fixture_fill(&t.buffers[2], true);
    EXPECT_OK(run(&t));
    EXPECT(result(&t, 2, 0) == 6.0 && result(&t, 2, 1) == 16.0 && result(&t, 2, 2) == 9.0);
    end(&t);
}

/* --- faults --- */

TEST(lanes_must_not_see_each_other) {
    expect_fault("@"
                 "  m1 : argument b5 f32 read write\n"
                 "  lanes i66 in [i64, i65) single masked extent s0 {\n"
                 "    vector {\n"
                 "      %3 = const 1.0 : f32\n"
                 "      m1[i66] = %3\n"
                 "      %5 = m1[Max(0, i66 - 1)] : f32\n"
                 "      m1[i66] = %5\n"
                 "    }\n"
                 "  }\n"
                 "}\n",
                 "statement 5, range 0, lane 1: a race: lane 1 reads element 0 of memory m1, which "
                 "lane 0 writes in the same vector");
}

/* Of one VECTOR the next one may see all lanes. */
TEST(vectors_follow_each_other) {
    setting t;
    begin_run(&t, "form (range i64 to i65 of 1; lanes 4; grain 1) {\n"
                  "  m1 : scratch f32[s0] read write\n"
                  "  m2 : argument b2 f32 write\n"
                  "  lanes i66 in [0, s0) unroll 2 masked_step {\n"
                  "    vector {\n"
                  "      %3 = index(i66) : i64\n"
                  "      %4 = cast(%3) : f32\n"
                  "      m1[i66] = %4\n"
                  "    }\n"
                  "    vector {\n"
                  "      %7 = m1[s0 - i66 - 1] : f32\n"
                  "      m2[i66] = %7\n"
                  "    }\n"
                  "  }\n"
                  "}\n");
    for (int64_t row = 0; row < ROWS; row++) EXPECT(result(&t, 2, row) == (double)(ROWS - 1 - row));
    end(&t);
}

TEST(ranges_must_not_see_each_other) {
    expect_fault(
        "@"
        "  m1 : argument b2 f32 write\n"
        "  %1 = const 1.0 : f32\n"
        "  m1[0] = %1\n"
        "}\n",
        "statement 2, range 1: a race: range 1 writes element 0 of memory m1, which range 0 writes");
    expect_fault("@"
                 "  m1 : scratch f32[1] read write\n"
                 "  %1 = const 1.0 : f32\n"
                 "  if i64 < 1 {\n"
                 "    m1[0] = %1\n"
                 "  }\n"
                 "  %4 = m1[0] : f32\n"
                 "}\n",
                 "statement 4, range 1: element 0 of memory m1 is read before it is written");
}

TEST(a_result_needs_equal_lanes) {
    static const char text[] = "@"
                               "  m1 : argument b1 f32 read\n"
                               "  m2 : argument b2 f32 write\n"
                               "  r1 : %s f32%s\n"
                               "  init r1\n"
                               "  lanes i67 in [0, s1) single masked {\n"
                               "    vector {\n"
                               "      %%4 = m1[i67] : f32\n"
                               "      %%5 = index(i67) : i64\n"
                               "      step r1 %%4%s\n"
                               "    }\n"
                               "  }\n"
                               "%s"
                               "  m2[i64] = %%%d\n"
                               "}\n";
    char whole[1024];
    snprintf(whole, sizeof whole, text, "sum", "", "", "  %7 = result r1 : f32\n", 7);
    expect_fault(whole, "statement 7, range 0: the lanes of r1 differ");
    snprintf(whole, sizeof whole, text, "argmax", " across", " at %5",
             "  across r1\n  %8 = result r1 : f32\n", 8);
    expect_fault(whole, "statement 8, range 0: r1 has lost its value: its lanes were combined");
}

TEST(what_a_form_promises_must_hold) {
    expect_fault("@"
                 "  lanes i66 in [i64, i65) single masked extent s0 {\n"
                 "    vector {\n"
                 "      %3 = index(i66) : i64\n"
                 "      %4 = cast(%3) : f32\n"
                 "      %5 = exp(%4) : f32 not_positive\n"
                 "    }\n"
                 "  }\n"
                 "}\n",
                 "statement 5, range 0, lane 1: the argument of an exp is 1, but is said not to be "
                 "positive");
    expect_fault("@"
                 "  %1 = index(3000000000*s0) : i32\n"
                 "}\n",
                 "an index of 21000000000 in an i32");
    expect_fault("form (range i64 to i65 of 1; lanes 4; grain 1) {\n"
                 "  m1 : argument b5 f32 write\n"
                 "  lanes i66 in [2, s0) single masked {\n"
                 "    vector {\n"
                 "      %3 = const 1.0 : f32\n"
                 "      m1[i66] = %3 streams aligned\n"
                 "    }\n"
                 "  }\n"
                 "}\n",
                 "statement 4, range 0: a vector at element 2 is not aligned");
    expect_fault("@"
                 "  m1 : shared f32[4] read write\n"
                 "  m2 : shared f32[4] read write\n"
                 "  %1 = const 1.0 : f32\n"
                 "  m1[0] = %1\n"
                 "  transpose m2[0] pitch 2 = m1[0] stride 1, rows 2, columns 1\n"
                 "  transpose m1[0] pitch 2 = m2[0] stride 1, rows 2, columns 1\n"
                 "}\n",
                 "statement 3, range 0: element 1 of memory m1 is read before it is written");
    expect_fault("@"
                 "  lanes i66 in [0, s1) single masked extent s0 {\n"
                 "    vector {\n"
                 "    }\n"
                 "  }\n"
                 "}\n",
                 "statement 2, range 0, lane 3: i66 is 7, but its extent is 7");
}

/* What the form says of lanes is looked at, too. */
TEST(wrong_facts_of_lanes_are_found) {
    static const char text[] = "@"
                               "  m1 : argument b1 f32 read\n"
                               "  lanes i66 in [i64, i65) single masked extent s0 {\n"
                               "    vector {\n"
                               "      %3 = m1[2*i66] : f32\n"
                               "    }\n"
                               "  }\n"
                               "}\n";
    for (int k = 0; k < 4; k++) {
        setting t;
        begin(&t, text);
        hn_form_lane_facts *facts = &t.f->stmts.items[3].in_lanes;
        if (k == 1) facts->access = HN_ACCESS_CONTIGUOUS;
        if (k == 2) facts->varies = false;
        if (k == 3) facts->stride = hn_sym_int(t.x.sym, 3);
        hn_status status = run(&t);
        EXPECT(!status == !k);
        hn_status_free(status);
        end(&t);
    }
}

TEST_MAIN
