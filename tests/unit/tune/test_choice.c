/* test_choice.c: decision tables that are made of times: at the sizes that were timed, between
 * them, within limits, and of many sizes. */
#include "tune/choice.h"

#include "unit/harness.h"
#include "unit/tune/records.h"

static uint32_t seed = 3;
static uint32_t random_below(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static hn_choice_time exactly(double ns) { return (hn_choice_time){ns, ns, ns}; }

/* Makes a table of its own. */
static hn_choice_made make(const hn_choice_times *t) {
    hn_arena arena;
    hn_choice_made made;
    hn_arena_init(&arena);
    EXPECT_OK(hn_choice_make(t, &arena, &made));
    hn_arena_deinit(&arena);
    return made;
}

/* For all sizes of the kernel. */
static uint32_t pick(const hn_choice_made *made, const int64_t *sizes) {
    int64_t values[HN_CHOICE_AXES];
    for (uint32_t d = 0; d < made->table.head.axis_count; d++) values[d] = sizes[made->axes[d]];
    return hn_choice_pick(&made->table, values);
}

/* ---- one size ---- */

/* Variant 0 starts slowly and is fast then, variant 1 the other way round: they meet at 90. */
static double crossing(uint32_t variant, int64_t n) {
    return variant ? 10 + 2.0 * (double)n : 100 + (double)n;
}

TEST(the_border_lies_between_two_sizes) {
    static const int64_t sizes[] = {4096, 16, 64, 1024, 256};
    hn_choice_time times[10];
    for (int k = 0; k < 10; k++) times[k] = exactly(crossing((uint32_t)k % 2, sizes[k / 2]));
    const hn_choice_times t = {.size_count = 1,
                               .variant_count = 2,
                               .sample_count = 5,
                               .sizes = sizes,
                               .times = times,
                               .fallback = 0};
    const hn_choice_made made = make(&t);
    EXPECT_INT(made.table.head.box_count, 1);
    EXPECT_INT(made.table.head.fallback, 0);
    EXPECT(made.table.boxes[0].lo[0] == INT64_MIN && made.table.boxes[0].hi[0] == 128);
    EXPECT_INT(pick(&made, &(int64_t){-1}), 1);
    EXPECT_INT(pick(&made, &(int64_t){128}), 1);
    EXPECT_INT(pick(&made, &(int64_t){129}), 0);
    EXPECT_INT(pick(&made, &(int64_t){INT64_MAX}), 0);
}

TEST(a_small_gain_is_none) {
    static const int64_t sizes[] = {16, 256};
    hn_choice_time times[] = {exactly(100), exactly(98.5), exactly(100), exactly(120)};
    hn_choice_times t = {.size_count = 1,
                         .variant_count = 2,
                         .sample_count = 2,
                         .sizes = sizes,
                         .times = times,
                         .fallback = HN_CHOICE_ANY};
    EXPECT_INT(make(&t).table.head.box_count, 0);
    times[1] = exactly(95);
    EXPECT_INT(make(&t).table.head.box_count, 1);
    times[1] = (hn_choice_time){95, 80, 101}, times[0] = (hn_choice_time){100, 99, 104};
    EXPECT_INT(make(&t).table.head.box_count, 0); /* they may be equal */
    times[1] = (hn_choice_time){80, 40, 101};
    EXPECT_INT(make(&t).table.head.box_count, 1); /* but a quarter is no noise */
    times[1] = exactly(95), t.least_gain = 0.1;
    EXPECT_INT(make(&t).table.head.box_count, 0);
}

TEST(one_size_needs_no_table) {
    static const int64_t size = 1000;
    const hn_choice_time times[] = {exactly(9), exactly(0), exactly(3)};
    hn_choice_times t = {.size_count = 1,
                         .variant_count = 3,
                         .sample_count = 1,
                         .sizes = &size,
                         .times = times,
                         .fallback = 0};
    hn_choice_made made = make(&t);
    EXPECT_INT(made.table.head.fallback, 2);
    EXPECT_INT(made.table.head.axis_count, 0);
    t.size_count = 0, made = make(&t); /* a static kernel */
    EXPECT_INT(made.table.head.fallback, 2);
    t.sample_count = 0, made = make(&t);
    EXPECT_INT(made.table.head.fallback, 0);
    t.fallback = HN_CHOICE_ANY, made = make(&t);
    EXPECT_INT(made.table.head.fallback, 0);
}

TEST(limits_are_kept_between_sizes) {
    static const int64_t sizes[] = {64, 1024, 4096};
    const hn_choice_time times[] = {exactly(9), exactly(3), exactly(9),
                                    exactly(3), exactly(9), exactly(0)};
    const hn_choice_limit limits[] = {{.lo = {INT64_MIN}, .hi = {INT64_MAX}},
                                      {.lo = {1}, .hi = {1024}}};
    hn_choice_times t = {.size_count = 1,
                         .variant_count = 2,
                         .sample_count = 3,
                         .sizes = sizes,
                         .times = times,
                         .limits = limits,
                         .fallback = HN_CHOICE_ANY};
    hn_choice_made made = make(&t);
    EXPECT_INT(made.table.head.fallback, 0);
    EXPECT_INT(pick(&made, &(int64_t){0}), 0);
    EXPECT_INT(pick(&made, &(int64_t){1}), 1);
    EXPECT_INT(pick(&made, &(int64_t){1024}), 1);
    EXPECT_INT(pick(&made, &(int64_t){1025}), 0);
    t.sample_count = 1, made = make(&t); /* one size was timed, and all the same */
    EXPECT_INT(pick(&made, &(int64_t){1024}), 1);
    EXPECT_INT(pick(&made, &(int64_t){1025}), 0);
}

/* Medians of times that were not taken together say nothing against the verdict of a race. */
TEST(a_pick_stays_where_it_was_picked) {
    static const int64_t sizes[] = {4096, 16};
    static const uint32_t picks[] = {1, 0};
    hn_choice_time times[] = {exactly(100), exactly(80), exactly(100), exactly(82)};
    hn_choice_times t = {.size_count = 1,
                         .variant_count = 2,
                         .sample_count = 2,
                         .sizes = sizes,
                         .times = times,
                         .picks = picks,
                         .fallback = HN_CHOICE_ANY};
    hn_choice_made made = make(&t);
    EXPECT_INT(pick(&made, &(int64_t){16}), 0);
    EXPECT_INT(pick(&made, &(int64_t){4096}), 1);
    t.picks = NULL, made = make(&t);
    EXPECT_INT(pick(&made, &(int64_t){16}), 1);
}

TEST(what_is_as_fast_as_a_pick_will_do) {
    static const int64_t sizes[] = {16, 4096};
    static const uint32_t picks[] = {1, 0};
    hn_choice_time times[] = {{103, 99.5, 107}, exactly(100), exactly(100), exactly(300)};
    hn_choice_times t = {.size_count = 1,
                         .variant_count = 2,
                         .sample_count = 2,
                         .sizes = sizes,
                         .times = times,
                         .picks = picks,
                         .fallback = HN_CHOICE_ANY};
    EXPECT_INT(make(&t).table.head.box_count, 0); /* variant 0 for all of them */
    times[0].low_ns = 100.5;
    EXPECT_INT(make(&t).table.head.box_count, 1); /* it certainly takes longer */
    times[0] = (hn_choice_time){94, 90, 99};
    EXPECT_INT(make(&t).table.head.box_count, 1); /* as if it did: the race has it so */
    times[0] = (hn_choice_time){112, 99, 120};
    EXPECT_INT(make(&t).table.head.box_count, 1); /* what may be a tenth is no noise */
}

TEST(a_pick_is_one_of_the_variants) {
    static const int64_t size = 5;
    const hn_choice_time times[] = {exactly(1), exactly(2), exactly(0)};
    uint32_t picks[] = {3};
    const hn_choice_times t = {.size_count = 1,
                               .variant_count = 3,
                               .sample_count = 1,
                               .sizes = &size,
                               .times = times,
                               .picks = picks,
                               .fallback = HN_CHOICE_ANY};
    hn_arena arena;
    hn_choice_made made;
    hn_arena_init(&arena);
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "picks variant 3 of 3");
    picks[0] = 2; /* it has no time, so it may not be one that runs */
    EXPECT_INT(make(&t).table.head.fallback, 0);
    hn_arena_deinit(&arena);
}

/* ---- several sizes ---- */

enum { MOST_SAMPLES = 216, MOST_VARIANTS = 6 };
typedef struct problem {
    int64_t sizes[MOST_SAMPLES * 3];
    hn_choice_time times[MOST_SAMPLES * MOST_VARIANTS];
    hn_choice_limit limits[MOST_VARIANTS];
    hn_choice_times t;
} problem;

/* All combinations of some sizes, or some of them. */
static void make_sizes(problem *p, uint32_t per_axis, bool all) {
    p->t.sample_count = 0;
    uint32_t at[3] = {0}, cells = 1;
    for (uint32_t d = 0; d < p->t.size_count; d++) cells *= per_axis;
    for (uint32_t c = 0; c < cells; c++) {
        for (uint32_t d = 0, rest = c; d < p->t.size_count; d++)
            at[d] = rest % per_axis, rest /= per_axis;
        if (!all && random_below(3)) continue;
        for (uint32_t d = 0; d < p->t.size_count; d++)
            p->sizes[p->t.sample_count * p->t.size_count + d] = (INT64_C(1) << 2 * at[d]) + d;
        p->t.sample_count++;
    }
}

static void make_problem(problem *p, bool all, bool with_limits) {
    const uint32_t sizes = 1 + random_below(3), variants = 2 + random_below(MOST_VARIANTS - 1);
    p->t = (hn_choice_times){.size_count = sizes,
                             .variant_count = variants,
                             .sizes = p->sizes,
                             .times = p->times,
                             .limits = with_limits ? p->limits : NULL,
                             .fallback = random_below(2) ? HN_CHOICE_ANY : 0};
    make_sizes(p, 2 + random_below(sizes == 3 ? 2 : 4), all);
    for (uint32_t k = 0; k < p->t.sample_count * variants; k++)
        p->times[k] = random_below(12) ? exactly(100 + random_below(100)) : exactly(0);
    for (uint32_t v = 0; v < variants; v++)
        for (uint32_t d = 0; d < HN_TUNING_SIZES_MAX; d++) {
            const bool is_limited = v && d < sizes && random_below(3) == 0;
            p->limits[v].lo[d] = is_limited ? random_below(20) : INT64_MIN;
            p->limits[v].hi[d] = is_limited ? p->limits[v].lo[d] + random_below(300) : INT64_MAX;
        }
}

static bool may_run(const problem *p, uint32_t v, const int64_t *sizes) {
    for (uint32_t d = 0; p->t.limits && d < p->t.size_count; d++)
        if (sizes[d] < p->limits[v].lo[d] || sizes[d] > p->limits[v].hi[d]) return false;
    return true;
}

/* What is timed and may run takes at most 2 % less than the pick. */
static bool is_good(const problem *p, uint32_t sample, uint32_t picked) {
    const hn_choice_time *times = &p->times[sample * p->t.variant_count];
    const int64_t *sizes = &p->sizes[sample * p->t.size_count];
    double best = 0;
    for (uint32_t v = 0; v < p->t.variant_count; v++)
        if (times[v].ns > 0 && may_run(p, v, sizes) && (best == 0 || times[v].ns < best))
            best = times[v].ns;
    return best == 0 || (times[picked].ns > 0 && times[picked].ns <= 1.02 * best);
}

TEST(at_timed_sizes_the_pick_is_the_fastest) {
    uint32_t full = 0;
    for (int round = 0; round < 2000; round++) {
        static problem p;
        make_problem(&p, round % 2, round % 3 == 0);
        const hn_choice_made made = make(&p.t);
        full += made.table.head.box_count == HN_CHOICE_BOXES;
        for (uint32_t k = 0; k < p.t.sample_count; k++) {
            const int64_t *sizes = &p.sizes[k * p.t.size_count];
            const uint32_t picked = pick(&made, sizes);
            EXPECT(may_run(&p, picked, sizes));
            if (made.table.head.box_count < HN_CHOICE_BOXES && !is_good(&p, k, picked)) {
                EXPECT_INT(picked, -1);
                return;
            }
        }
    }
    EXPECT(full < 200); /* most problems have all the boxes that they need */
}

TEST(everywhere_the_pick_may_run) {
    for (int round = 0; round < 1000; round++) {
        static problem p;
        make_problem(&p, false, true);
        const hn_choice_made made = make(&p.t);
        for (int k = 0; k < 100; k++) {
            int64_t sizes[3];
            for (int d = 0; d < 3; d++)
                sizes[d] = (int64_t)random_below(1u << random_below(20)) - 2;
            EXPECT(may_run(&p, pick(&made, sizes), sizes));
        }
    }
}

TEST(the_order_of_samples_does_not_matter) {
    for (int round = 0; round < 300; round++) {
        static problem p, q;
        make_problem(&p, false, round % 2);
        q = p, q.t.sizes = q.sizes, q.t.times = q.times;
        if (q.t.limits) q.t.limits = q.limits;
        for (uint32_t k = 0; k < p.t.sample_count; k++) {
            const uint32_t from = p.t.sample_count - 1 - k, s = p.t.size_count,
                           v = p.t.variant_count;
            memcpy(&q.sizes[k * s], &p.sizes[from * s], s * sizeof *p.sizes);
            memcpy(&q.times[k * v], &p.times[from * v], v * sizeof *p.times);
        }
        const hn_choice_made a = make(&p.t), b = make(&q.t);
        EXPECT_INT(a.table.head.box_count, b.table.head.box_count);
        EXPECT(memcmp(a.table.boxes, b.table.boxes, sizeof a.table.boxes) == 0);
    }
}

/* Only the diagonal was timed: elsewhere the nearest one counts. */
TEST(what_was_not_timed_is_like_the_nearest) {
    static const int64_t sizes[] = {16, 16, 256, 256, 4096, 4096};
    const hn_choice_time times[] = {exactly(1), exactly(5), exactly(5),
                                    exactly(1), exactly(5), exactly(1)};
    const hn_choice_times t = {.size_count = 2,
                               .variant_count = 2,
                               .sample_count = 3,
                               .sizes = sizes,
                               .times = times,
                               .fallback = 1};
    const hn_choice_made made = make(&t);
    EXPECT_INT(pick(&made, (int64_t[]){16, 16}), 0);
    EXPECT_INT(pick(&made, (int64_t[]){30, 20}), 0);
    EXPECT_INT(pick(&made, (int64_t[]){256, 4096}), 1);
    EXPECT_INT(pick(&made, (int64_t[]){4096, 256}), 1);
}

TEST(three_sizes_of_many_are_looked_at) {
    enum { SIZES = 6, SAMPLES = 24 };
    int64_t sizes[SAMPLES * SIZES];
    hn_choice_time times[SAMPLES * 2];
    for (int k = 0; k < SAMPLES; k++) {
        for (int s = 0; s < SIZES; s++)
            sizes[k * SIZES + s] = s == 4 ? 1 << k % 8 : s == 1 ? 1 + k % 3 : s == 2 ? k % 2 : 7;
        times[2 * k] = exactly(k % 8 < 4 ? 1 : 3), times[2 * k + 1] = exactly(2);
    }
    const hn_choice_times t = {.size_count = SIZES,
                               .variant_count = 2,
                               .sample_count = SAMPLES,
                               .sizes = sizes,
                               .times = times,
                               .fallback = 1};
    const hn_choice_made made = make(&t);
    EXPECT_INT(made.table.head.axis_count, 3);
    EXPECT_INT(made.axes[0], 1);
    EXPECT_INT(made.axes[1], 2);
    EXPECT_INT(made.axes[2], 4);
    for (int k = 0; k < SAMPLES; k++) EXPECT_INT(pick(&made, &sizes[k * SIZES]), k % 8 >= 4);
}

TEST(many_sizes_make_a_small_table) {
    enum { SAMPLES = 10000 };
    static int64_t sizes[SAMPLES];
    static hn_choice_time times[SAMPLES * 3];
    for (int k = 0; k < SAMPLES; k++) {
        sizes[k] = 1 + (int64_t)k * 37;
        times[3 * k] = exactly(100 + (double)random_below(3) / 10);
        times[3 * k + 1] = exactly(sizes[k] < 5000 ? 50 : 200);
        times[3 * k + 2] = exactly(50 + random_below(1000)); /* noise */
    }
    hn_choice_times t = {.size_count = 1,
                         .variant_count = 3,
                         .sample_count = SAMPLES,
                         .sizes = sizes,
                         .times = times,
                         .fallback = 0};
    const hn_choice_made made = make(&t);
    EXPECT(made.table.head.box_count <= HN_CHOICE_BOXES);
    for (int64_t n = 1; n < 4000; n += 100) EXPECT_INT(pick(&made, &n), 1);
    t.sample_count = 65537;
    hn_arena arena;
    hn_choice_made none;
    hn_arena_init(&arena);
    EXPECT_ERROR(hn_choice_make(&t, &arena, &none), HN_INVALID_ARGUMENT, "65537 samples");
    hn_arena_deinit(&arena);
}

/* ---- what is refused, records ---- */

TEST(what_is_no_problem_is_refused) {
    static const int64_t size = 5;
    hn_choice_time times[] = {exactly(1), exactly(2)};
    hn_choice_limit limits[2] = {{.lo = {1}, .hi = {9}}, {.lo = {2}, .hi = {INT64_MAX}}};
    const hn_choice_times good = {.size_count = 1,
                                  .variant_count = 2,
                                  .sample_count = 1,
                                  .sizes = &size,
                                  .times = times,
                                  .fallback = HN_CHOICE_ANY};
    hn_arena arena;
    hn_choice_made made;
    hn_arena_init(&arena);
    hn_choice_times t = good;
    t.variant_count = 0;
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "for 0 variants");
    t = good, t.size_count = 9;
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "over 9 sizes");
    t = good, t.fallback = 2;
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "variant 2 of 2");
    t = good, t.limits = limits;
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "runs at every size");
    t.fallback = 1;
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "runs at every size");
    t = good, times[1].low_ns = 3;
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "variant 1 has no time");
    times[1] = exactly(-1);
    EXPECT_ERROR(hn_choice_make(&t, &arena, &made), HN_INVALID_ARGUMENT, "variant 1 has no time");
    hn_arena_deinit(&arena);
}

TEST(records_become_tables) {
    enum { COUNT = 4 };
    hn_form_timing forms[COUNT][3];
    hn_tuning_record records[COUNT];
    const hn_tuning_record *list[COUNT];
    const hn_form_name variants[] = {{HN_STR("tiles"), HN_STR("lanes=16 grain=64")},
                                     {HN_STR("rows"), HN_STR("lanes=16")},
                                     {HN_STR("streams"), HN_STR("")}};
    hn_arena arena;
    hn_choice_times times;
    hn_choice_made made;
    hn_arena_init(&arena);
    for (int k = 0; k < COUNT; k++) {
        records[k] = test_record(forms[k], 1, INT64_C(1) << 3 * (k + 1));
        list[k] = &records[k];
    }
    records[1].how = HN_TUNING_FORCED, records[1].pick = 0; /* rows, which are slower */
    records[2].how = HN_TUNING_MODEL, forms[2][2].dropped = HN_STR("");
    forms[2][0].predicted_ns = 2, forms[2][1].predicted_ns = 3, forms[2][2].predicted_ns = 1;
    EXPECT_OK(hn_choice_times_of(list, COUNT, variants, 3, &arena, &times));
    EXPECT_INT(times.sample_count, COUNT);
    EXPECT_OK(hn_choice_make(&times, &arena, &made));
    EXPECT_INT(pick(&made, &(int64_t){8}), 0);
    EXPECT_INT(pick(&made, &(int64_t){64}), 1);
    EXPECT_INT(pick(&made, &(int64_t){512}), 2);
    EXPECT_INT(pick(&made, &(int64_t){4096}), 0);
    hn_arena_deinit(&arena);
}

/* Of rows and tiles; streams do not build. */
static hn_choice_made table_of(const hn_tuning_record *records, uint32_t count, hn_arena *arena) {
    static const hn_form_name variants[] = {{{"rows", 4}, {"lanes=16", 8}},
                                            {{"tiles", 5}, {"lanes=16 grain=64", 17}}};
    const hn_tuning_record *list[4];
    hn_choice_times times;
    hn_choice_made made = {.axes = {0}};
    for (uint32_t k = 0; k < count; k++) list[k] = &records[k];
    EXPECT_OK(hn_choice_times_of(list, count, variants, 2, arena, &times));
    EXPECT_OK(hn_choice_make(&times, arena, &made));
    return made;
}

static void set_ratio(hn_form_timing *f, double ratio, double low, double high) {
    f->ratio = ratio, f->ratio_low = low, f->ratio_high = high;
}

/* The medians of test_record say that tiles are the fastest, everywhere. */
TEST(ratios_decide_and_medians_do_not) {
    hn_form_timing forms[2][3];
    hn_tuning_record records[] = {test_record(forms[0], 1, 8), test_record(forms[1], 1, 512)};
    hn_arena arena;
    hn_arena_init(&arena);
    records[0].pick = 0;
    set_ratio(&forms[0][0], 1, 1, 1), set_ratio(&forms[0][1], 1.08, 1.03, 1.12);
    set_ratio(&forms[1][0], 1.5, 1.4, 1.6), set_ratio(&forms[1][1], 1, 1, 1);
    hn_choice_made made = table_of(records, 2, &arena);
    EXPECT_INT(pick(&made, &(int64_t){8}), 0);
    EXPECT_INT(pick(&made, &(int64_t){512}), 1);
    set_ratio(&forms[0][1], 1.005, 0.98, 1.03); /* tiles will do there, too */
    made = table_of(records, 2, &arena);
    EXPECT_INT(pick(&made, &(int64_t){8}), 1);
    EXPECT_INT(made.table.head.box_count, 0);
    hn_arena_deinit(&arena);
}

/* Of earlier versions: the pick counts, whatever the medians say. */
TEST(records_without_ratios_have_their_pick) {
    hn_form_timing forms[2][3];
    hn_tuning_record records[] = {test_record(forms[0], 1, 8), test_record(forms[1], 1, 512)};
    hn_arena arena;
    hn_arena_init(&arena);
    records[0].pick = 0;
    const hn_choice_made made = table_of(records, 2, &arena);
    EXPECT_INT(pick(&made, &(int64_t){8}), 0);
    EXPECT_INT(pick(&made, &(int64_t){512}), 1);
    hn_arena_deinit(&arena);
}

TEST_MAIN
