/* test_descent.c: the search over points of a grid whose times are functions: it ends at the
 * minimum of convex ones, times no point twice, and takes nothing for a gain that is none. */
#include "tune/descent.h"

#include "unit/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16, POINTS = SIDE * SIDE };

/* Point k is (k % SIDE, k / SIDE): powers of two, say, of two parameters. */
typedef struct toy {
    double (*ns)(double x, double y);
    uint32_t timed[POINTS]; /* in races, but as the one at hand */
    uint32_t races, budget, listed_most;
    hn_status failure;
    bool is_repeating; /* lists points that it has listed before */
} toy;

static double at(const toy *t, uint32_t p) { return t->ns(p % SIDE, p / SIDE); }

static hn_status list(void *user, const hn_descent_memo *memo, uint32_t from, uint32_t radius,
                      uint32_t most, uint32_t *out, uint32_t *out_count) {
    toy *t = user;
    const int x = (int)(from % SIDE), y = (int)(from / SIDE), r = (int)radius;
    *out_count = 0;
    if (most > t->listed_most) t->listed_most = most;
    for (int j = y - r; j <= y + r; j++)
        for (int i = x - r; i <= x + r; i++) {
            const bool is_near = abs(i - x) + abs(j - y) <= r;
            if (!is_near || i < 0 || j < 0 || i >= SIDE || j >= SIDE || *out_count == most)
                continue;
            const uint32_t p = (uint32_t)(j * SIDE + i);
            if (t->is_repeating || !hn_descent_is_known(memo, p)) out[(*out_count)++] = p;
        }
    return NULL;
}

static hn_status race(void *user, const uint32_t *points, uint32_t count, double *out_ns,
                      uint32_t *out_winner) {
    toy *t = user;
    *out_winner = 0;
    t->races++;
    EXPECT(count > 1);
    for (uint32_t k = 0; k < count; k++) {
        out_ns[k] = at(t, points[k]);
        t->timed[points[k]] += k > 0;
        if (out_ns[k] > 0 && out_ns[k] < out_ns[*out_winner]) *out_winner = k;
    }
    hn_status status = t->failure;
    t->failure = NULL;
    return status;
}

static bool may_go_on(void *user) {
    const toy *t = user;
    return t->races < t->budget;
}

static uint32_t descend(toy *t, uint32_t from, uint32_t radius, uint32_t *out_steps) {
    uint32_t pick = from;
    const hn_descent d = {.steps_most = 64,
                          .near_most = 12,
                          .radius = radius,
                          .user = t,
                          .may_go_on = may_go_on,
                          .list = list,
                          .race = race};
    EXPECT_OK(hn_descent_run(&d, &pick, out_steps));
    EXPECT(t->listed_most <= 12);
    for (uint32_t p = 0; p < POINTS; p++) EXPECT(t->timed[p] <= 1);
    EXPECT_INT(t->timed[from], 0);
    return pick;
}

static double bowl(double x, double y) { return 100 + (x - 11) * (x - 11) + (y - 4) * (y - 4); }
static double ridge(double x, double y) { return 100 + fabs(x - 9) + 3 * fabs(y - 12); }
/* Along the diagonal alone it goes down: no neighbour in one parameter is better. */
static double valley(double x, double y) { return 100 + 40 * fabs(x - y) + fabs(x - 13); }
static double flat(double x, double y) { return 100 + 0 * (x + y); }
static double tiny(double x, double y) { return 100 - 0.05 * (x + 0 * y); } /* 0.05 % a step */
static double small(double x, double y) { return 100 - 0.2 * (x + 0 * y); }
static double broken(double x, double y) { return x > 8 ? 0 : 100 - x + 0 * y; }

#define TOY(f)                                                                                     \
    { .ns = (f), .budget = 1000 }

TEST(convex_functions_end_at_their_minimum) {
    for (uint32_t from = 0; from < POINTS; from += 7) {
        toy b = TOY(bowl), r = TOY(ridge);
        uint32_t steps;
        const uint32_t x = from % SIDE, y = from / SIDE;
        EXPECT_INT(descend(&b, from, 1, &steps), 4 * SIDE + 11);
        EXPECT_INT(steps, (x > 11 ? x - 11 : 11 - x) + (y > 4 ? y - 4 : 4 - y));
        EXPECT_INT(descend(&r, from, 1, &steps), 12 * SIDE + 9);
    }
}

TEST(several_parameters_at_once) {
    toy one = TOY(valley), two = TOY(valley);
    uint32_t steps;
    EXPECT_INT(descend(&one, 2 * SIDE + 2, 1, &steps), 2 * SIDE + 2);
    EXPECT_INT(steps, 0);
    EXPECT_INT(descend(&two, 2 * SIDE + 2, 2, &steps), 13 * SIDE + 13);
    EXPECT_INT(steps, 11);
}

TEST(what_is_no_gain_is_none) {
    toy f = TOY(flat), t = TOY(tiny), s = TOY(small), dropped = TOY(broken);
    uint32_t steps;
    EXPECT_INT(descend(&f, 5, 2, &steps), 5);
    EXPECT_INT(f.races, 2);
    EXPECT_INT(descend(&t, 5, 1, &steps), 5);
    EXPECT_INT(descend(&s, 5, 1, &steps), SIDE - 1);
    /* who cannot run wins nothing */
    EXPECT_INT(descend(&dropped, 5, 2, &steps), 8);
}

TEST(points_that_are_known_are_not_timed_again) {
    toy b = TOY(bowl);
    uint32_t steps;
    b.is_repeating = true;
    EXPECT_INT(descend(&b, 0, 2, &steps), 4 * SIDE + 11);
}

TEST(a_search_ends_with_its_budget_and_its_steps) {
    toy b = TOY(bowl), s = TOY(bowl);
    uint32_t steps, pick = 0;
    b.budget = 3;
    descend(&b, 0, 1, &steps);
    EXPECT_INT(b.races, 3);
    EXPECT_INT(steps, 3);
    const hn_descent d = {
        .steps_most = 2, .near_most = 100, .user = &s, .list = list, .race = race};
    EXPECT_OK(hn_descent_run(&d, &pick, &steps));
    EXPECT_INT(s.races, 2);
    EXPECT_INT(s.listed_most, HN_DESCENT_NEAR_MAX);
}

TEST(an_error_ends_a_search) {
    toy b = TOY(bowl);
    uint32_t steps, pick = 0;
    const hn_descent d = {.steps_most = 2, .near_most = 4, .user = &b, .list = list, .race = race};
    b.failure = HN_ERROR(HN_DEVICE, "the device is gone");
    EXPECT_ERROR(hn_descent_run(&d, &pick, &steps), HN_DEVICE, "gone");
    EXPECT_INT(pick, 0);
}

TEST_MAIN
