/* test_bench.c: races on a clock of the test's, where candidates say what a call takes. */
#include "henry/bench.h"

#include "henry/log.h"
#include "unit/harness.h"

#include <stdlib.h>

enum { CANDIDATES = 8, TIMES = 1024 };

typedef struct machine {
    int64_t now;
    uint64_t switches;
    char order[256]; /* of timed samples: the candidates' letters */
    uint32_t flushes, asked;
    uint32_t cancel_at; /* is_cancelled says so when it is asked for the nth time; 0: never */
} machine;

typedef struct way {
    machine *m;
    char letter;
    /* of the nth call; the last one of those given goes on */
    int64_t ns[TIMES];
    uint32_t count;
    uint32_t calls, starts, prepares, checks, restores;
    uint32_t fails_at;        /* this call, from 1 */
    uint32_t disturbed_at;    /* during this call others are at work, */
    uint32_t disturbed_until; /* and in those before this one */
    bool start_fails, check_fails, prepare_fails, restore_fails;
    bool is_dirty;  /* called and not restored */
    bool was_dirty; /* when it was called */
} way;

static int64_t now(void *user) { return ((machine *)user)->now; }
static uint64_t switches(void *user) { return ((machine *)user)->switches; }

static bool is_cancelled(void *user) {
    machine *m = user;
    return ++m->asked == m->cancel_at;
}

static void flush(void *user) {
    machine *m = user;
    m->flushes++;
    m->now += 1000000; /* not timed */
}

static int64_t ns_of(const way *w) { return w->ns[w->calls < w->count ? w->calls : w->count - 1]; }

static hn_status run(void *user) {
    way *w = user;
    w->was_dirty |= w->is_dirty;
    w->is_dirty = true;
    w->m->now += ns_of(w);
    w->calls++;
    if (w->calls >= w->disturbed_at && w->calls < w->disturbed_until) w->m->switches++;
    const size_t len = strlen(w->m->order);
    if (len + 1 < sizeof w->m->order) w->m->order[len] = w->letter;
    return w->calls == w->fails_at ? HN_ERROR(HN_DEVICE, "way %c fails", w->letter) : NULL;
}

static hn_status run_timed(void *user, uint32_t calls, double *out_ns) {
    way *w = user;
    *out_ns = 0;
    for (uint32_t k = 0; k < calls; k++) {
        *out_ns += (double)ns_of(w);
        w->calls++;
    }
    w->m->now += 5; /* the host does not wait long */
    return NULL;
}

static hn_status start(void *user) {
    way *w = user;
    w->starts++;
    w->m->now += 50000000;
    return w->start_fails ? HN_ERROR(HN_TOOLCHAIN, "way %c does not compile", w->letter) : NULL;
}

static hn_status prepare(void *user) {
    way *w = user;
    w->prepares++;
    w->m->now += 70000;
    return w->prepare_fails ? HN_ERROR(HN_OUT_OF_MEMORY, "no memory for way %c", w->letter) : NULL;
}

static hn_status check(void *user) {
    way *w = user;
    w->checks++;
    EXPECT(w->is_dirty); /* its result is there */
    EXPECT_INT(w->calls, 1);
    return w->check_fails ? HN_ERROR(HN_INTERNAL, "way %c is wrong", w->letter) : NULL;
}

static hn_status restore(void *user) {
    way *w = user;
    w->restores++;
    w->is_dirty = false;
    w->m->now += 300000;
    return w->restore_fails ? HN_ERROR(HN_IO, "way %c cannot be restored", w->letter) : NULL;
}

typedef struct fixture {
    machine m;
    way ways[CANDIDATES];
    char names[CANDIDATES][8];
    hn_bench_candidate candidates[CANDIDATES];
    uint32_t count;
    hn_bench_options options;
    hn_bench_report *report;
} fixture;

/* Ways that take so many ns, each time. */
static fixture *make(uint32_t count, const int64_t *ns) {
    fixture *f = calloc(1, sizeof *f);
    f->count = count;
    f->options = (hn_bench_options){.now_ns = now,
                                    .disturbances = switches,
                                    .clock_user = &f->m,
                                    .flush_user = &f->m,
                                    .cancel_user = &f->m,
                                    .sample_ns = 1000,
                                    .warmup_ns = 1000};
    for (uint32_t k = 0; k < count; k++) {
        f->ways[k] = (way){.m = &f->m, .letter = (char)('a' + k), .ns = {ns[k]}, .count = 1};
        snprintf(f->names[k], sizeof f->names[k], "way_%c", 'a' + k);
        f->candidates[k] =
            (hn_bench_candidate){.name = f->names[k], .user = &f->ways[k], .run = run};
    }
    return f;
}

/* Calls of way k take, from call `from` on, what fn says of the number of the call. */
static void set_times(way *w, int64_t (*fn)(uint32_t call)) {
    w->count = TIMES;
    for (uint32_t k = 0; k < TIMES; k++) w->ns[k] = fn(k);
}

static hn_status go(fixture *f) {
    return hn_bench(&f->options, f->candidates, f->count, &f->report);
}

static void end(fixture *f) {
    hn_bench_report_destroy(f->report);
    free(f);
}

/* ---- who wins ---- */

TEST(the_fastest_wins_and_the_race_ends_early) {
    fixture *f = make(3, (int64_t[]){1200, 1500, 1000});
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 2);
    EXPECT_INT(f->report->end, HN_BENCH_END_FIRST);
    EXPECT_INT(f->report->rounds, 8); /* the fewest for 0.99 */
    const hn_bench_result *r = f->report->results;
    EXPECT_STR(r[0].name, "way_a");
    EXPECT_INT(r[0].state, HN_BENCH_SLOWER);
    EXPECT_INT(r[1].state, HN_BENCH_SLOWER);
    EXPECT_INT(r[2].state, HN_BENCH_LEFT);
    EXPECT_INT(r[0].samples, 8);
    EXPECT_NEAR(r[0].median_ns, 1200, 0);
    EXPECT_NEAR(r[0].low_ns, 1200, 0);
    EXPECT_NEAR(r[0].high_ns, 1200, 0);
    EXPECT_NEAR(r[0].least_ns, 1200, 0);
    EXPECT_NEAR(r[0].ratio, 1.2, 1e-12);
    EXPECT_NEAR(r[0].ratio_low, 1.2, 1e-12);
    EXPECT_NEAR(r[1].ratio, 1.5, 1e-12);
    EXPECT_NEAR(r[2].ratio, 1, 0);
    EXPECT_NEAR(r[0].spread, 0, 0);
    EXPECT_STR(r[0].why, "");
    EXPECT_INT(f->report->timed_calls, 24);
    end(f);
}

/* The same work: whatever the injected times say, wins. */
TEST(injected_times_choose_either_way) {
    for (uint32_t fast = 0; fast < 2; fast++) {
        fixture *f = make(2, fast ? (int64_t[]){2000, 1000} : (int64_t[]){1000, 2000});
        EXPECT_OK(go(f));
        EXPECT_INT(f->report->winner, fast);
        end(f);
    }
}

TEST(of_equal_ones_the_first_wins) {
    fixture *f = make(3, (int64_t[]){1008, 1000, 1004});
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 0);
    EXPECT_INT(f->report->end, HN_BENCH_END_EQUAL);
    EXPECT_INT(f->report->rounds, 8);
    end(f);
}

TEST(a_negative_noise_lets_any_lead_count) {
    fixture *f = make(3, (int64_t[]){100800, 100000, 100000});
    f->options.noise = -1;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 1);
    end(f);
}

TEST(the_noise_is_the_callers) {
    for (int k = 0; k < 2; k++) {
        fixture *f = make(2, (int64_t[]){1040, 1000});
        f->options.noise = k ? 0.03 : 0.05;
        EXPECT_OK(go(f));
        EXPECT_INT(f->report->winner, k);
        end(f);
    }
}

/* Calls of a and b take turns being slow: in the median b is ahead, but not for certain. */
static int64_t uneven_a(uint32_t call) { return 1000 + 137 * (call * 7 % 10); }
static int64_t uneven_b(uint32_t call) { return 990 + 137 * (call * 3 % 10); }

TEST(an_uncertain_lead_is_none) {
    fixture *f = make(2, (int64_t[]){1, 1});
    set_times(&f->ways[0], uneven_a);
    set_times(&f->ways[1], uneven_b);
    f->options.max_rounds = 40;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 0);
    EXPECT_INT(f->report->end, HN_BENCH_END_ROUNDS);
    EXPECT_INT(f->report->rounds, 40);
    const hn_bench_result *r = &f->report->results[0];
    EXPECT(r->low_ns < r->median_ns && r->median_ns < r->high_ns);
    EXPECT(r->spread > 0.2);
    end(f);
}

/* The machine becomes three times as slow on the way: by the ratios in a round the order is as certain
 * as before. */
static int64_t slowing_a(uint32_t call) { return call < 7 ? 1000 : 3000; }
static int64_t slowing_b(uint32_t call) { return call < 7 ? 1100 : 3300; }

TEST(a_machine_that_slows_down_changes_nothing) {
    fixture *f = make(2, (int64_t[]){1, 1});
    set_times(&f->ways[1], slowing_a);
    set_times(&f->ways[0], slowing_b);
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 1);
    EXPECT_INT(f->report->end, HN_BENCH_END_FIRST);
    EXPECT_INT(f->report->rounds, 8);
    EXPECT_NEAR(f->report->results[0].ratio, 1.1, 1e-12);
    end(f);
}

/* In five rounds of nine b is a little ahead, in the others far behind: the median of its times is
 * larger, but not that of the ratios. */
static int64_t pairs_a(uint32_t call) {
    static const int64_t ns[] = {1000, 1000, 1000, 1000, 2300, 2400, 2500, 2600, 2700};
    return ns[(call + 5) % 9]; /* four calls come before the rounds */
}
static int64_t pairs_b(uint32_t call) {
    static const int64_t ns[] = {3000, 3000, 3000, 3000, 2250, 2350, 2450, 2550, 2650};
    return ns[(call + 5) % 9];
}

TEST(the_fastest_is_so_in_the_same_rounds) {
    fixture *f = make(2, (int64_t[]){1, 1});
    set_times(&f->ways[0], pairs_a);
    set_times(&f->ways[1], pairs_b);
    f->options.max_rounds = 9;
    EXPECT_OK(go(f));
    const hn_bench_result *r = f->report->results;
    EXPECT_NEAR(r[0].median_ns, 2300, 0);
    EXPECT_NEAR(r[1].median_ns, 2650, 0);
    EXPECT_NEAR(r[1].ratio, 1, 0);
    EXPECT_NEAR(r[0].ratio, 2700.0 / 2650, 1e-12);
    EXPECT_INT(f->report->winner, 0); /* nothing is certain */
    EXPECT_INT(f->report->end, HN_BENCH_END_ROUNDS);
    end(f);
}

/* Calls are longer than the warm-up, so that there is one: in b's, something is made. */
static int64_t late_a(uint32_t call) { return call < 2 ? 500000 : 60000; }
static int64_t late_b(uint32_t call) { return call < 2 ? 5000000 : 50000; }

TEST(one_long_call_of_the_warm_up_takes_nobody_out) {
    fixture *f = make(2, (int64_t[]){1, 1});
    set_times(&f->ways[0], late_a);
    set_times(&f->ways[1], late_b);
    f->options.max_rounds = 9;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 1);
    EXPECT_NEAR(f->report->results[0].ratio, 1.2, 1e-12);
    end(f);
}

TEST(winners_are_a_function_of_results) {
    hn_bench_result r[4] = {{.state = HN_BENCH_DROPPED, .ratio = 0.1, .ratio_low = 0},
                            {.state = HN_BENCH_LEFT, .ratio = 1.1, .ratio_low = 1.05},
                            {.state = HN_BENCH_LEFT, .ratio = 1.02, .ratio_low = 1.015},
                            {.state = HN_BENCH_LEFT, .ratio = 1, .ratio_low = 1}};
    EXPECT_INT(hn_bench_winner(r, 4, 0.01), 3);
    EXPECT_INT(hn_bench_winner(r, 4, 0.02), 2);
    EXPECT_INT(hn_bench_winner(r, 4, 0.06), 1);
    EXPECT_INT(hn_bench_winner(r, 4, -1), 3);
    r[3].state = HN_BENCH_SLOWER;
    EXPECT_INT(hn_bench_winner(r, 4, 0.01), 2);
    EXPECT_INT(hn_bench_winner(r, 1, 0.01), 1); /* nobody is left */
    EXPECT_INT(hn_bench_winner(r, 0, 0.01), 0);
}

/* ---- calls and rounds ---- */

TEST(one_candidate_is_never_called) {
    fixture *f = make(1, (int64_t[]){1000});
    f->candidates[0].start = start;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 0);
    EXPECT_INT(f->report->end, HN_BENCH_END_ALONE);
    EXPECT_INT(f->report->timed_calls, 0);
    EXPECT_INT(f->report->rounds, 0);
    EXPECT_INT(f->ways[0].calls + f->ways[0].starts, 0);
    EXPECT_INT(f->report->results[0].samples, 0);
    EXPECT_NEAR(f->report->results[0].ratio, 1, 0);
    end(f);
}

TEST(each_round_begins_with_another_candidate) {
    fixture *f = make(3, (int64_t[]){1000, 1000, 1000});
    f->options.max_rounds = 4;
    EXPECT_OK(go(f));
    /* warm-up: a first call, and three that are timed */
    EXPECT_STR(f->m.order, "aaaabbbbccccabcbcacababc");
    EXPECT_INT(f->report->end, HN_BENCH_END_ROUNDS);
    end(f);
}

TEST(short_calls_are_many_in_a_sample) {
    fixture *f = make(2, (int64_t[]){30, 60});
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->results[0].calls, 34); /* of 1000 ns */
    EXPECT_INT(f->report->results[1].calls, 17);
    EXPECT_NEAR(f->report->results[0].median_ns, 30, 1e-9);
    EXPECT_NEAR(f->report->results[1].median_ns, 60, 1e-9);
    end(f);
}

/* What is done around calls is not timed, and is done around each of them. */
TEST(calls_are_restored_outside_of_the_time) {
    fixture *f = make(2, (int64_t[]){400, 500});
    for (int k = 0; k < 2; k++) {
        f->candidates[k].prepare = prepare;
        f->candidates[k].check = check;
        f->candidates[k].restore = restore;
    }
    EXPECT_OK(go(f));
    for (int k = 0; k < 2; k++) {
        const way *w = &f->ways[k];
        EXPECT(!w->is_dirty && !w->was_dirty);
        EXPECT_INT(w->restores, w->calls);
        EXPECT_INT(w->checks, 1);
        EXPECT_INT(w->prepares, 4 + 8); /* the first call, three of the warm-up, eight samples */
        EXPECT_NEAR(f->report->results[k].median_ns, k ? 500 : 400, 1e-9);
    }
    EXPECT_INT(f->report->results[0].calls, 3);
    EXPECT_INT(f->ways[0].calls, 4 + 8 * 3);
    end(f);
}

TEST(caches_are_flushed_before_each_call) {
    fixture *f = make(2, (int64_t[]){500, 700});
    f->options.flush = flush;
    EXPECT_OK(go(f));
    EXPECT_NEAR(f->report->results[0].median_ns, 500, 1e-9);
    EXPECT_INT(f->m.flushes, f->ways[0].calls + f->ways[1].calls - 2); /* not the first ones */
    end(f);
}

TEST(a_candidate_may_have_its_own_clock) {
    fixture *f = make(2, (int64_t[]){1300, 1000});
    for (int k = 0; k < 2; k++) f->candidates[k].run = NULL, f->candidates[k].run_timed = run_timed;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 1);
    EXPECT_NEAR(f->report->results[0].median_ns, 1300, 1e-9);
    end(f);
}

TEST(who_is_far_behind_in_the_warm_up_runs_in_no_round) {
    fixture *f = make(3, (int64_t[]){90000, 1200, 1000});
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 2);
    EXPECT_INT(f->report->results[0].state, HN_BENCH_SLOWER);
    EXPECT_INT(f->report->results[0].samples, 0);
    EXPECT_NEAR(f->report->results[0].median_ns, 90000, 0);
    EXPECT_NEAR(f->report->results[0].ratio, 90, 1e-9);
    EXPECT(f->ways[0].calls <= 4);
    end(f);
}

/* Nobody is left to compare with. */
TEST(the_warm_up_may_decide_alone) {
    fixture *f = make(2, (int64_t[]){1000, 5000});
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 0);
    EXPECT_INT(f->report->end, HN_BENCH_END_FIRST);
    EXPECT_INT(f->report->rounds, 0);
    end(f);
}

/* ---- the budget ---- */

static int64_t nearly(uint32_t call) { return call % 2 ? 1000 : 1004; }

TEST(the_budget_ends_a_race) {
    fixture *f = make(2, (int64_t[]){1000, 1000});
    set_times(&f->ways[1], nearly);
    f->options.noise = -1; /* they are never equal for certain */
    f->options.budget_ns = 2 * 4 * 1000 + 25 * 1000;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->end, HN_BENCH_END_BUDGET);
    /* it is looked at before each sample */
    EXPECT(f->report->elapsed_ns >= f->options.budget_ns);
    EXPECT(f->report->elapsed_ns < f->options.budget_ns + 1004);
    EXPECT_INT(f->report->results[0].samples + f->report->results[1].samples, 25);
    EXPECT_INT(f->report->rounds, 13);
    end(f);
}

/* To compile takes 50 ms for each of them. */
TEST(the_budget_is_not_for_compilers) {
    fixture *f = make(2, (int64_t[]){1100, 1000});
    f->candidates[0].start = f->candidates[1].start = start;
    f->options.budget_ns = 1000000;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->end, HN_BENCH_END_FIRST);
    EXPECT_INT(f->report->winner, 1);
    EXPECT(f->report->elapsed_ns > 100000000);
    end(f);
}

/* One round is run in any case. Of so few, a lead of a quarter counts, and nothing below. */
TEST(a_budget_that_is_too_small_leaves_one_round) {
    for (int k = 0; k < 2; k++) {
        fixture *f = make(2, k ? (int64_t[]){1300, 1000} : (int64_t[]){1200, 1000});
        f->options.budget_ns = 1;
        EXPECT_OK(go(f));
        EXPECT_INT(f->report->end, HN_BENCH_END_BUDGET);
        EXPECT_INT(f->report->results[0].samples, 1);
        EXPECT_INT(f->report->results[1].samples, 1);
        EXPECT_NEAR(f->report->results[0].ratio_low, k ? 1.04 : 0.96, 1e-12);
        EXPECT_INT(f->report->winner, k);
        end(f);
    }
}

/* ---- others at work ---- */

TEST(a_disturbed_sample_is_taken_again) {
    fixture *f = make(2, (int64_t[]){1000, 1300});
    way *w = &f->ways[0];
    w->count = 20;
    for (int k = 0; k < 20; k++) w->ns[k] = k == 6 ? 90000 : 1000;
    w->disturbed_at = 7; /* the call that takes so long */
    w->disturbed_until = 8;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 0);
    EXPECT_INT(f->report->results[0].disturbed, 1);
    EXPECT(!f->report->results[0].is_disturbed);
    EXPECT_NEAR(f->report->results[0].high_ns, 1000, 0);
    EXPECT_INT(f->report->rounds, 8);
    end(f);
}

/* Of a sample that is disturbed each time the last try is kept, and does not count. */
TEST(a_sample_that_stays_disturbed_does_not_count) {
    fixture *f = make(2, (int64_t[]){1000, 1300});
    way *w = &f->ways[0];
    w->count = 20;
    for (int k = 0; k < 20; k++) w->ns[k] = k >= 6 && k < 9 ? 90000 : 1000;
    w->disturbed_at = 7;
    w->disturbed_until = 10;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 0);
    EXPECT_INT(f->report->results[0].disturbed, 3);
    EXPECT_INT(f->report->results[0].samples, f->report->rounds - 1);
    EXPECT_NEAR(f->report->results[0].high_ns, 1000, 0);
    end(f);
}

TEST(where_all_is_disturbed_all_counts) {
    fixture *f = make(2, (int64_t[]){1200, 1000});
    for (int k = 0; k < 2; k++) f->ways[k].disturbed_at = 1, f->ways[k].disturbed_until = 100000;
    EXPECT_OK(go(f));
    EXPECT_INT(f->report->winner, 1);
    EXPECT(f->report->results[0].is_disturbed);
    EXPECT_INT(f->report->results[0].samples, f->report->rounds);
    EXPECT_INT(f->report->results[0].disturbed, 3 * f->report->rounds);
    end(f);
}

/* ---- failures ---- */

static void expect_dropped(fixture *f, uint32_t k, const char *why) {
    EXPECT_OK(go(f));
    if (!f->report) return;
    EXPECT_INT(f->report->results[k].state, HN_BENCH_DROPPED);
    EXPECT_STR(f->report->results[k].why, why);
    EXPECT(f->report->winner != k && f->report->winner < f->count);
}

static char heard[256];
static void hear(void *user, const hn_log_line *line) {
    (void)user;
    snprintf(heard, sizeof heard, "%s: %s", line->area, line->text);
}

TEST(who_cannot_start_is_out_with_a_line) {
    fixture *f = make(3, (int64_t[]){1000, 2000, 3000});
    f->candidates[0].start = start;
    f->ways[0].start_fails = true;
    EXPECT_OK(hn_log_levels_set("warn"));
    EXPECT_OK(hn_log_sink_set(hear, NULL));
    expect_dropped(f, 0, "way a does not compile");
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    EXPECT_STR(heard, "tune: candidate 'way_a' is out: way a does not compile");
    EXPECT_INT(f->report->winner, 1);
    EXPECT_INT(f->ways[0].calls, 0);
    end(f);
}

TEST(who_is_wrong_is_out) {
    fixture *f = make(3, (int64_t[]){3000, 1000, 2000});
    f->candidates[1].check = check;
    f->ways[1].check_fails = true;
    expect_dropped(f, 1, "way b is wrong");
    EXPECT_INT(f->report->winner, 2);
    EXPECT_INT(f->ways[1].calls, 1);
    end(f);
}

TEST(who_fails_around_a_call_is_out) {
    fixture *f = make(3, (int64_t[]){1000, 1000, 2000});
    f->candidates[0].prepare = prepare;
    f->ways[0].prepare_fails = true;
    f->candidates[1].restore = restore;
    f->ways[1].restore_fails = true;
    expect_dropped(f, 0, "no memory for way a");
    EXPECT_INT(f->report->results[1].state, HN_BENCH_DROPPED);
    EXPECT_STR(f->report->results[1].why, "way b cannot be restored");
    /* nothing to compare: no timed call */
    EXPECT_INT(f->report->end, HN_BENCH_END_ALONE);
    EXPECT_INT(f->report->timed_calls, 0);
    end(f);
}

/* b is the fastest and takes a and c out of the race; then it fails, and they are back. */
TEST(who_left_for_one_that_fails_comes_back) {
    fixture *f = make(4, (int64_t[]){1500, 1000, 1300, 1005});
    f->options.noise = 0.001; /* b and d go on */
    f->options.sample_ns = 900;
    f->ways[3].count = TIMES;
    for (uint32_t k = 0; k < TIMES; k++) f->ways[3].ns[k] = k % 2 ? 995 : 1012;
    f->ways[1].fails_at = 4 + 12;
    expect_dropped(f, 1, "way b fails");
    EXPECT_INT(f->report->winner, 3);
    EXPECT_INT(f->report->results[0].state, HN_BENCH_SLOWER);
    EXPECT_INT(f->report->results[2].state, HN_BENCH_SLOWER);
    EXPECT_INT(f->report->results[2].samples, 9); /* behind b in the round in which b failed */
    end(f);
}

TEST(when_nobody_is_left_the_last_cause_is_told) {
    fixture *f = make(3, (int64_t[]){1000, 1000, 1000});
    for (int k = 0; k < 3; k++) f->ways[k].fails_at = 1;
    EXPECT_ERROR(go(f), HN_DEVICE, "none of 3 candidates is left: 'way_c': way c fails");
    EXPECT(f->report == NULL);
    end(f);
    f = make(2, (int64_t[]){1000, 1000});
    f->ways[1].fails_at = 1;
    f->candidates[0].check = check;
    f->ways[0].check_fails = true;
    EXPECT_ERROR(go(f), HN_DEVICE, "'way_b': way b fails");
    end(f);
}

TEST(a_race_can_be_cancelled) {
    for (uint32_t at = 1; at < 12; at += 3) {
        fixture *f = make(2, (int64_t[]){1000, 1100});
        f->options.is_cancelled = is_cancelled;
        f->m.cancel_at = at;
        EXPECT_ERROR(go(f), HN_CANCELLED, "cancelled");
        EXPECT(f->report == NULL);
        end(f);
    }
}

TEST(bad_options_are_refused) {
    fixture *f = make(2, (int64_t[]){1000, 1000});
    hn_bench_report *report;
    f->options.confidence = 1;
    EXPECT_ERROR(go(f), HN_INVALID_ARGUMENT, "confidence");
    f->options.confidence = 0.99;
    f->options.budget_ns = -1;
    EXPECT_ERROR(go(f), HN_INVALID_ARGUMENT, "below 0");
    f->options.budget_ns = 0;
    f->options.max_rounds = HN_BENCH_ROUNDS_MAX + 1;
    EXPECT_ERROR(go(f), HN_INVALID_ARGUMENT, "1000 rounds at most, not 1001");
    EXPECT_ERROR(hn_bench(NULL, f->candidates, 0, &report), HN_INVALID_ARGUMENT, "1 to 1024");
    EXPECT_ERROR(hn_bench(NULL, NULL, 1, &report), HN_INVALID_ARGUMENT, "'candidates' is NULL");
    f->candidates[1].run = NULL;
    EXPECT_ERROR(hn_bench(NULL, f->candidates, 2, &report), HN_INVALID_ARGUMENT, "candidate 1");
    end(f);
}

TEST(ends_have_names) {
    EXPECT_STR(hn_bench_end_name(HN_BENCH_END_EQUAL), "equal");
    EXPECT_STR(hn_bench_end_name(HN_BENCH_END_BUDGET), "budget");
    EXPECT_STR(hn_bench_end_name((hn_bench_end)99), "unknown");
}

TEST_MAIN
