/* test_roof.c: where the memory of steps is, and the least time that steps can take. */
#include "measure/roof.h"

#include "unit/harness.h"

#include <stdlib.h>

static hn_ceilings machine(void) {
    return (hn_ceilings){.level_count = 3,
                         .levels = {{"L1", 100, 100, 100, 100},
                                    {"L2", 1000, 10, 10, 10},
                                    {"memory", INT64_MAX, 1, 1, 0.5}},
                         .math = {2, 8, 16, 4}};
}

#define READ(s, at, n)                                                                             \
    { .step = (s), .address = (at), .bytes = (n) }
#define WRITTEN(s, at, n)                                                                          \
    { .step = (s), .address = (at), .bytes = (n), .is_written = true }

static void reuse(const hn_touch *touches, uint32_t count, uint32_t steps, hn_reuse *out,
                  hn_footprint *all) {
    const hn_ceilings c = machine();
    EXPECT_OK(hn_reuse_of(touches, count, steps, &c, out, all));
}

/* ---- reuse ---- */

TEST(what_the_step_before_wrote_is_near) {
    const hn_touch touches[] = {READ(0, 0, 500), WRITTEN(0, 1000, 50), READ(1, 1000, 50),
                                WRITTEN(1, 2000, 10)};
    hn_reuse r[2];
    hn_footprint all;
    reuse(touches, 4, 2, r, &all);
    /* 500 and 50 of the step that wrote them: the first level holds 100 of these */
    EXPECT_NEAR(r[1].read[0], 50 * 100 / 550.0, 1e-9);
    EXPECT_NEAR(r[1].read[1], 50 * 450 / 550.0, 1e-9);
    EXPECT_NEAR(r[0].read[0] + r[0].read[1], 500, 1e-9);
    EXPECT(r[0].read[2] == 0);
    EXPECT(all.bytes == 560 && all.given_bytes == 500);
}

TEST(a_small_loop_stays_in_the_first_level) {
    const hn_touch touches[] = {READ(0, 0, 40), WRITTEN(0, 64, 40), READ(1, 64, 40),
                                WRITTEN(1, 0, 20)};
    hn_reuse r[2];
    hn_footprint all;
    reuse(touches, 4, 2, r, &all);
    EXPECT(r[0].read[0] == 40 && r[0].written[0] == 40 && r[1].read[0] == 40 &&
           r[1].written[0] == 20);
    EXPECT(all.bytes == 80 && all.given_bytes == 40);
}

/* Of weights larger than the caches little is left from the run before. */
TEST(weights_of_a_large_model_come_from_memory) {
    enum { STEPS = 20, ALL = 200 * STEPS + 10 };
    hn_touch touches[2 * STEPS];
    hn_reuse r[STEPS];
    hn_footprint all;
    for (uint32_t k = 0; k < STEPS; k++) {
        touches[2 * k] = (hn_touch)READ(k, 10000 + 200 * k, 200);
        touches[2 * k + 1] = (hn_touch)WRITTEN(k, 0, 10);
    }
    reuse(touches, 2 * STEPS, STEPS, r, &all);
    for (uint32_t k = 0; k < STEPS; k++) {
        EXPECT_NEAR(r[k].read[0], 200 * 100.0 / ALL, 1e-9);
        EXPECT_NEAR(r[k].read[1], 200 * 900.0 / ALL, 1e-9);
        EXPECT_NEAR(r[k].read[2], 200 * (ALL - 1000.0) / ALL, 1e-9);
        EXPECT_NEAR(r[k].written[0] + r[k].written[1], 10, 1e-9);
    }
    EXPECT(all.given_bytes == 200 * STEPS);
}

/* A view of a part; pieces are cut where others begin. */
TEST(parts_of_memory_have_distances_of_their_own) {
    const hn_touch touches[] = {WRITTEN(0, 0, 2000), READ(1, 500, 30), READ(2, 490, 60)};
    hn_reuse r[3];
    hn_footprint all;
    reuse(touches, 3, 3, r, &all);
    EXPECT_NEAR(r[1].read[2], 30 * 0.5, 1e-9);
    EXPECT_NEAR(r[2].read[0], 30 + 30 * 100 / 2000.0, 1e-9);
    EXPECT(all.bytes == 2000 && all.given_bytes == 0);
}

TEST(steps_in_disorder_are_refused) {
    const hn_ceilings c = machine();
    const hn_touch back[] = {READ(1, 0, 8), READ(0, 0, 8)}, beyond[] = {READ(2, 0, 8)};
    hn_reuse r[2];
    hn_footprint all;
    EXPECT_ERROR(hn_reuse_of(back, 2, 2, &c, r, &all), HN_INVALID_ARGUMENT, "out of order");
    EXPECT_ERROR(hn_reuse_of(beyond, 1, 2, &c, r, &all), HN_INVALID_ARGUMENT, "out of order");
    EXPECT_OK(hn_reuse_of(NULL, 0, 2, &c, r, &all));
}

/* Against a list of all bytes, each with the steps since it was touched. */
enum { BYTES = 300, RANDOM_STEPS = 12, RANDOM_TOUCHES = 30 };

static uint64_t seed;
static uint32_t random_below(uint32_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static void add_byte(const int *last, int byte, double *out) {
    const hn_ceilings c = machine();
    int far = 0;
    for (int k = 0; k < BYTES; k++) far += last[k] >= last[byte];
    const double first = far <= c.levels[0].bytes ? 1 : (double)c.levels[0].bytes / far;
    out[0] += first;
    out[1] += 1 - first; /* it holds all bytes there are */
}

static void play(const hn_touch *touches, uint32_t count, int *last, int base, hn_reuse *out) {
    for (uint32_t step = 0; step < RANDOM_STEPS; step++) {
        for (uint32_t k = 0; k < count; k++)
            for (int64_t b = 0; touches[k].step == step && b < touches[k].bytes; b++) {
                double *at = touches[k].is_written ? out[step].written : out[step].read;
                add_byte(last, (int)touches[k].address + (int)b, at);
            }
        for (uint32_t k = 0; k < count; k++)
            for (int64_t b = 0; touches[k].step == step && b < touches[k].bytes; b++)
                last[touches[k].address + (uint64_t)b] = base + (int)step;
    }
}

TEST(random_runs_agree_with_a_list_of_bytes) {
    for (seed = 1; seed < 60; seed++) {
        const uint64_t kept = seed;
        hn_touch touches[RANDOM_TOUCHES];
        hn_reuse got[RANDOM_STEPS], want[RANDOM_STEPS], ignored[RANDOM_STEPS];
        hn_footprint all;
        int last[BYTES];
        uint32_t step = 0, count = 0;
        for (; count < RANDOM_TOUCHES && step < RANDOM_STEPS; count++) {
            const uint32_t at = random_below(BYTES);
            touches[count] = (hn_touch){.step = step,
                                        .address = at,
                                        .bytes = random_below(BYTES - at + 1),
                                        .is_written = random_below(2)};
            step += random_below(3) == 0;
        }
        for (int k = 0; k < BYTES; k++) last[k] = -1;
        memset(want, 0, sizeof want), memset(ignored, 0, sizeof ignored);
        play(touches, count, last, 0, ignored);
        play(touches, count, last, RANDOM_STEPS, want);
        reuse(touches, count, RANDOM_STEPS, got, &all);
        for (int s = 0; s < RANDOM_STEPS; s++)
            for (int l = 0; l < HN_CEILING_LEVELS; l++) {
                EXPECT_NEAR(got[s].read[l], want[s].read[l], 1e-6);
                EXPECT_NEAR(got[s].written[l], want[s].written[l], 1e-6);
            }
        seed = kept;
    }
}

/* ---- roofs ---- */

TEST(the_longer_of_the_two_is_the_limit) {
    const hn_ceilings c = machine();
    hn_reuse far = {.read = {0, 0, 10}, .written = {0, 0, 10}};
    hn_roof r = hn_roof_of(&c, &(hn_roof_work){.read_bytes = 100, .operations = 20}, &far);
    EXPECT(r.move_ns == 100 && r.math_ns == 10 && r.ns == 100);
    EXPECT_STR(r.limit, "memory");
    r = hn_roof_of(
        &c, &(hn_roof_work){.read_bytes = 100, .operations = 2000, .math = HN_CEILING_PRODUCTS},
        &far);
    EXPECT(r.math_ns == 250 && r.ns == 250);
    EXPECT_STR(r.limit, "compute");
    r = hn_roof_of(&c, &(hn_roof_work){.operations = 0}, &far);
    EXPECT(r.ns == 0);
    EXPECT_STR(r.limit, "");
}

TEST(bytes_are_shared_out_as_operands_are) {
    const hn_ceilings c = machine();
    /* half of what is read is near; of what is written nothing is known, so it is as what is read */
    hn_reuse half = {.read = {0, 500, 500}};
    hn_roof r = hn_roof_of(&c, &(hn_roof_work){.read_bytes = 100}, &half);
    EXPECT_NEAR(r.move_ns, 50 / 10.0 + 50, 1e-9);
    r = hn_roof_of(&c, &(hn_roof_work){.written_bytes = 100}, &half);
    EXPECT_NEAR(r.move_ns, 50 / 10.0 + 50 / 0.5, 1e-9);
    EXPECT_STR(r.limit, "memory");
    /* nothing at all is known: memory */
    r = hn_roof_of(&c, &(hn_roof_work){.read_bytes = 100}, &(hn_reuse){.read = {0}});
    EXPECT(r.move_ns == 100);
}

TEST(a_whole_run_is_as_far_as_it_is_large) {
    const hn_ceilings c = machine();
    EXPECT(hn_roof_of_run(&c, 50, 50, 0).ns == 1);
    EXPECT(hn_roof_of_run(&c, 500, 0, 0).ns == 50);
    EXPECT(hn_roof_of_run(&c, 5000, 0, 0).ns == 5000);
    EXPECT_STR(hn_roof_of_run(&c, 5000, 0, 6000).limit, "compute");
}

TEST(math_by_type) {
    EXPECT_INT(hn_ceiling_math_of(HN_BF16), HN_CEILING_PRODUCTS_HALF);
    EXPECT_INT(hn_ceiling_math_of(HN_F64), HN_CEILING_PRODUCTS_F64);
    EXPECT_INT(hn_ceiling_math_of(HN_F32), HN_CEILING_PRODUCTS);
}

TEST_MAIN
