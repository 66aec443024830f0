/* test_choice.c: decision tables against a plain evaluation; what is refused; the printed forms. */
#include "base/choice.h"
#include "base/json.h"
#include "base/trace.h"
#include "unit/harness.h"

#include <stdlib.h>

static uint32_t seed = 1;
static uint32_t random_below(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* ---- random tables ---- */

/* A bound of a grid, so that boxes touch; the outermost ones are none. */
enum { CUTS = 6 };
static const int64_t cuts[CUTS] = {INT64_MIN, -3, 1, 17, 1000, INT64_C(1) << 40};

/* The cells of a grid, in ascending order, some of them left out, some as broad as the whole axis. */
static void make_table(hn_choice_table *t, uint32_t axes) {
    *t = (hn_choice_table){.head = {.axis_count = axes, .variant_count = 5}};
    t->head.fallback = random_below(5);
    uint32_t at[HN_CHOICE_AXES] = {0};
    const bool is_whole[HN_CHOICE_AXES] = {false, random_below(2), random_below(2)};
    for (bool is_done = false; !is_done;) {
        if (t->head.box_count < HN_CHOICE_BOXES && random_below(3)) {
            hn_choice_box *box = &t->boxes[t->head.box_count++];
            box->variant = random_below(5);
            for (uint32_t d = 0; d < axes; d++) {
                box->lo[d] = is_whole[d] ? INT64_MIN : cuts[at[d]];
                box->hi[d] = is_whole[d] || at[d] + 1 == CUTS ? INT64_MAX : cuts[at[d] + 1] - 1;
            }
        }
        is_done = true;
        for (uint32_t d = axes; d-- > 0;) {
            if (!is_whole[d] && ++at[d] < CUTS) {
                is_done = false;
                break;
            }
            at[d] = 0;
        }
    }
}

/* As the header says it. */
static uint32_t find_slowly(const hn_choice_table *t, const int64_t *values) {
    for (uint32_t k = 0; k < t->head.box_count; k++) {
        bool inside = true;
        for (uint32_t d = 0; d < t->head.axis_count; d++)
            inside = inside && values[d] >= t->boxes[k].lo[d] && values[d] <= t->boxes[k].hi[d];
        if (inside) return t->boxes[k].variant;
    }
    return t->head.fallback;
}

static int64_t random_size(void) {
    const int64_t near = cuts[random_below(CUTS)];
    switch (random_below(4)) {
    case 0: return near == INT64_MIN ? INT64_MIN : near - 1;
    case 1: return near;
    case 2: return random_below(2) ? INT64_MAX : near + 1;
    default: return (int64_t)random_below(1 << 20) - 10;
    }
}

TEST(picks_are_those_of_a_plain_evaluation) {
    bool is_seen[5] = {false};
    for (int round = 0; round < 3000; round++) {
        hn_choice_table t;
        int64_t values[HN_CHOICE_AXES];
        make_table(&t, 1 + random_below(HN_CHOICE_AXES));
        EXPECT_OK(hn_choice_check(&t.head, t.boxes));
        for (int k = 0; k < 60; k++) {
            for (int d = 0; d < HN_CHOICE_AXES; d++) values[d] = random_size();
            const uint32_t pick = hn_choice_pick(&t, values);
            if (pick != find_slowly(&t, values)) {
                EXPECT_INT(pick, find_slowly(&t, values));
                return;
            }
            is_seen[pick] = true;
        }
    }
    for (int k = 0; k < 5; k++) EXPECT(is_seen[k]);
}

TEST(a_table_without_boxes_falls_back) {
    const hn_choice_table t = {.head = {.variant_count = 3, .fallback = 2}};
    EXPECT_OK(hn_choice_check(&t.head, t.boxes));
    EXPECT_INT(hn_choice_pick(&t, NULL), 2);
}

/* ---- what is refused ---- */

static hn_choice_table two_boxes(void) {
    return (hn_choice_table){
        .head = {.axis_count = 2, .variant_count = 3, .box_count = 2},
        .boxes = {{.lo = {1, 1}, .hi = {96, 64}, .variant = 1},
                  {.lo = {97, INT64_MIN}, .hi = {512, INT64_MAX}, .variant = 2}}};
}

#define EXPECT_REFUSED(change, text)                                                               \
    do {                                                                                           \
        hn_choice_table t = two_boxes();                                                           \
        change;                                                                                    \
        EXPECT_ERROR(hn_choice_check(&t.head, t.boxes), HN_CORRUPT, text);                         \
    } while (0)

TEST(damaged_tables_are_refused) {
    const hn_choice_table good = two_boxes();
    EXPECT_OK(hn_choice_check(&good.head, good.boxes));
    EXPECT_REFUSED(t.head.axis_count = 4, "4 sizes");
    EXPECT_REFUSED(t.head.axis_count = 0, "no sizes");
    EXPECT_REFUSED(t.head.axis_count = 1, "more than 1 sizes");
    EXPECT_REFUSED(t.head.box_count = HN_CHOICE_BOXES + 1, "33 boxes");
    EXPECT_REFUSED(t.head.box_count = UINT32_MAX, "boxes");
    EXPECT_REFUSED(t.head.box_count = 3, "box 2 of");
    EXPECT_REFUSED(t.head.variant_count = 0, "variant 0 of 0");
    EXPECT_REFUSED(t.head.variant_count = HN_CHOICE_VARIANTS + 1, "of 65");
    EXPECT_REFUSED(t.head.fallback = 3, "falls back on variant 3 of 3");
    EXPECT_REFUSED(t.head.variant_count = 2, "box 1 of a decision table has variant 2 of 2");
    EXPECT_REFUSED(t.boxes[1].variant = UINT32_MAX, "box 1");
    EXPECT_REFUSED(t.boxes[0].reserved = 1, "unknown mark");
    EXPECT_REFUSED(t.boxes[0].hi[1] = 0, "box 0 of a decision table is empty");
    EXPECT_REFUSED(t.boxes[0].lo[2] = 1, "box 0 of a decision table has more than 2 sizes");
    EXPECT_REFUSED(t.boxes[0].hi[0] = 97, "boxes 0 and 1 of a decision table overlap");
    EXPECT_REFUSED(t.boxes[1].lo[0] = -5;
                   t.boxes[1].hi[0] = 0, "box 1 of a decision table is not behind");
}

/* ---- printed ---- */

static const hn_str axes[] = {{"s0", 2}, {"s1", 2}};
static const hn_str variants[] = {{"looped", 6}, {"persistent", 10}, {"split", 5}};
static const hn_choice_names names = {axes, variants};

TEST(tables_are_printed) {
    hn_choice_table t = two_boxes();
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_choice_print(&t.head, t.boxes, &names, &out);
    t.boxes[0].lo[0] = 96, t.boxes[1].hi[0] = INT64_MAX;
    hn_choice_print(&t.head, t.boxes, &names, &out);
    t.head.box_count = 0;
    hn_choice_print(&t.head, t.boxes, &names, &out);
    EXPECT_STR(hn_strbuf_str(&out).ptr, "s0 1..96, s1 1..64: persistent\n"
                                        "s0 97..512, s1 *: split\n"
                                        "all others: looped\n"
                                        "s0 96, s1 1..64: persistent\n"
                                        "s0 97.., s1 *: split\n"
                                        "all others: looped\n"
                                        "all: looped\n");
    hn_strbuf_deinit(&out);
}

TEST(tables_are_json) {
    const hn_choice_table t = two_boxes();
    hn_arena arena;
    hn_json json;
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_choice_json(&t.head, t.boxes, &names, &out);
    EXPECT_STR(hn_strbuf_str(&out).ptr,
               "{\"axes\":[\"s0\",\"s1\"],\"fallback\":\"looped\",\"boxes\":["
               "{\"variant\":\"persistent\",\"sizes\":[[1,96],[1,64]]},"
               "{\"variant\":\"split\",\"sizes\":[[97,512],[null,null]]}]}");
    hn_arena_init(&arena);
    hn_json_init(&json, &arena, hn_strbuf_str(&out));
    EXPECT_OK(hn_json_skip(&json));
    EXPECT_OK(hn_json_finish(&json));
    hn_arena_deinit(&arena);
    hn_strbuf_deinit(&out);
}

/* With an argument: what a pick takes, of a full table whose last box is the one; the best of many
 * rounds. */
static void print_time(void) {
    enum { ROUNDS = 1000, PICKS = 2000 };
    hn_choice_table t = {
        .head = {.axis_count = 3, .variant_count = 2, .box_count = HN_CHOICE_BOXES}};
    for (int k = 0; k < HN_CHOICE_BOXES; k++)
        t.boxes[k] = (hn_choice_box){.lo = {INT64_MIN, 1, k}, .hi = {100, 9, k}, .variant = 1};
    int64_t best = INT64_MAX;
    uint64_t sum = 0;
    for (int r = 0; r < ROUNDS; r++) {
        const int64_t begin = hn_now_ns();
        for (int k = 0; k < PICKS; k++)
            sum += hn_choice_pick(&t, (int64_t[]){7, 1 + (k & 7), HN_CHOICE_BOXES - 1});
        const int64_t took = hn_now_ns() - begin;
        if (took < best) best = took;
    }
    printf("%.1f ns a pick, %d boxes of 3 sizes (%llu)\n", (double)best / PICKS, HN_CHOICE_BOXES,
           (unsigned long long)sum);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--time") == 0) return print_time(), 0;
    return hn_test_main(argc, argv);
}
