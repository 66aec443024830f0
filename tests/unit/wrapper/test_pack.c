/* test_pack.c: packing of intervals: nothing overlaps, and little is wasted, for random and for
 * regular ones. */
#include "base/checked.h"
#include "unit/harness.h"
#include "wrapper/pack.h"

#include <stdlib.h>

enum { MOST = 3000 };

typedef struct fixture {
    hn_arena arena;
    uint64_t seed;
    hn_pack_item items[MOST];
    uint32_t count;
    hn_pack_result result;
} fixture;

static fixture *setup(uint64_t seed) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) abort();
    f->seed = seed * 0x9e3779b97f4a7c15ull + 1;
    hn_arena_init(&f->arena);
    return f;
}

static void teardown(fixture *f) {
    hn_arena_deinit(&f->arena);
    free(f);
}

static uint32_t draw(fixture *f, uint32_t limit) {
    f->seed = f->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(f->seed >> 33) % limit;
}

static void add(fixture *f, uint32_t first, uint32_t last, int64_t size) {
    f->items[f->count++] = (hn_pack_item){.first = first, .last = last, .size = size, .offset = -7};
}

/* By definition: all pairs. Also the bound, the long way. */
static void check(const fixture *f) {
    int64_t extent = 0, bound = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const hn_pack_item *a = &f->items[i];
        int64_t live = 0;
        EXPECT(a->offset >= 0);
        if (a->offset + a->size > extent) extent = a->offset + a->size;
        for (uint32_t k = 0; k < f->count; k++) {
            const hn_pack_item *b = &f->items[k];
            if (b->first <= a->first && a->first <= b->last) live += b->size;
            if (k <= i || a->first > b->last || b->first > a->last) continue;
            if (a->offset < b->offset + b->size && b->offset < a->offset + a->size) {
                EXPECT(!"two live items share units");
                return;
            }
        }
        if (live > bound) bound = live;
    }
    EXPECT_INT(f->result.bound, bound);
    EXPECT(f->result.extent >= extent);
    EXPECT(f->result.extent <= extent || !f->count);
}

static double pack_and_check(fixture *f) {
    EXPECT_OK(hn_pack(&f->arena, f->items, f->count, &f->result));
    check(f);
    return f->result.bound ? (double)f->result.extent / (double)f->result.bound : 1;
}

/* What a program looks like: items begin one after the other and most live for a few steps. */
TEST(random_programs) {
    double worst = 0, sum = 0;
    enum { PROGRAMS = 150 };
    for (uint32_t seed = 0; seed < PROGRAMS; seed++) {
        fixture *f = setup(seed);
        uint32_t count = 10 + draw(f, 600);
        for (uint32_t i = 0; i < count; i++)
            add(f, i, i + 1 + draw(f, draw(f, 10) ? 6 : 100),
                64 * (int64_t)(1 + draw(f, 1u << draw(f, 14))));
        double ratio = pack_and_check(f);
        if (ratio > worst) worst = ratio;
        sum += ratio;
        teardown(f);
    }
    printf("pack: extent over lower bound: mean %.4f, worst %.4f\n", sum / PROGRAMS, worst);
    EXPECT(sum / PROGRAMS < 1.01);
    EXPECT(worst < 1.15);
}

/* ---- against exact search ---- */

typedef struct search {
    const fixture *f;
    int64_t offsets[12];
    bool placed[12];
    int64_t best;
} search;

static bool meet(const hn_pack_item *a, const hn_pack_item *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Pushed down as far as they go, items of an optimal packing lie each on another one, or at 0.
 * Placed in the order of their offsets, each is on top of all those before that it meets. */
static void place_next(search *s, uint32_t done, int64_t lowest, int64_t extent) {
    const fixture *f = s->f;
    if (extent >= s->best) return;
    if (done == f->count) {
        s->best = extent;
        return;
    }
    for (uint32_t i = 0; i < f->count && s->best > f->result.bound; i++) {
        int64_t at = 0;
        if (s->placed[i]) continue;
        for (uint32_t k = 0; k < f->count; k++)
            if (s->placed[k] && meet(&f->items[i], &f->items[k]) &&
                s->offsets[k] + f->items[k].size > at)
                at = s->offsets[k] + f->items[k].size;
        if (at < lowest) continue;
        s->placed[i] = true;
        s->offsets[i] = at;
        const int64_t top = at + f->items[i].size;
        place_next(s, done + 1, at, top > extent ? top : extent);
        s->placed[i] = false;
    }
}

/* No program of up to 12 buffers needs more than 1.10 of what the best of all packings needs. */
TEST(small_programs_against_exact_search) {
    enum { PROGRAMS = 1000 };
    double worst = 0, sum = 0;
    for (uint32_t seed = 0; seed < PROGRAMS; seed++) {
        fixture *f = setup(5000 + seed);
        const uint32_t count = 2 + draw(f, 11), times = 3 + draw(f, 12);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t first = draw(f, times);
            add(f, first, first + 1 + draw(f, 6), 64 * (int64_t)(1 + draw(f, 1u << draw(f, 8))));
        }
        (void)pack_and_check(f);
        search s = {.f = f, .best = f->result.extent};
        place_next(&s, 0, 0, 0);
        const double ratio = (double)f->result.extent / (double)s.best;
        if (ratio > worst) worst = ratio;
        sum += ratio;
        teardown(f);
    }
    printf("pack: extent over the best possible: mean %.4f, worst %.4f\n", sum / PROGRAMS, worst);
    EXPECT(worst <= 1.10);
}

TEST(arbitrary_intervals) {
    for (uint32_t seed = 0; seed < 150; seed++) {
        fixture *f = setup(1000 + seed);
        uint32_t count = draw(f, 120), times = 1 + draw(f, 60);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t first = draw(f, times);
            add(f, first, first + draw(f, times), draw(f, 5) ? (int64_t)draw(f, 1000) : 0);
        }
        (void)pack_and_check(f);
        teardown(f);
    }
}

TEST(a_chain_needs_its_largest_pair) {
    fixture *f = setup(1);
    for (uint32_t i = 0; i < 1000; i++) add(f, i, i + 1, i % 2 ? 128 : 64);
    (void)pack_and_check(f);
    EXPECT_INT(f->result.extent, 192);
    teardown(f);
}

/* More overlapping pairs than are looked at: the sweep alone has to do. */
TEST(all_alive_at_once) {
    fixture *f = setup(2);
    int64_t sum = 0;
    for (uint32_t i = 0; i < MOST; i++) {
        int64_t size = 64 * (int64_t)draw(f, 100);
        add(f, draw(f, 10), 10 + draw(f, 10), size);
        sum += size;
    }
    (void)pack_and_check(f);
    EXPECT_INT(f->result.extent, sum);
    teardown(f);
}

TEST(the_order_of_the_items_does_not_matter_to_the_extent) {
    fixture *f = setup(3), *g = setup(3);
    for (uint32_t i = 0; i < 200; i++)
        add(f, i, i + 1 + draw(f, 20), 64 * (int64_t)(1 + draw(f, 64)));
    for (uint32_t i = 200; i-- > 0;) add(g, f->items[i].first, f->items[i].last, f->items[i].size);
    (void)pack_and_check(f);
    (void)pack_and_check(g);
    EXPECT_INT(f->result.extent, g->result.extent);
    teardown(f);
    teardown(g);
}

TEST(nothing_and_empty_items) {
    fixture *f = setup(4);
    (void)pack_and_check(f);
    EXPECT_INT(f->result.extent, 0);
    for (uint32_t i = 0; i < 10; i++) add(f, 0, 5, 0);
    add(f, 0, 5, 64);
    (void)pack_and_check(f);
    EXPECT_INT(f->result.extent, 64);
    teardown(f);
}

TEST(sizes_beyond_64_bits_are_refused) {
    fixture *f = setup(5);
    add(f, 0, 1, INT64_MAX);
    add(f, 5, 6, 1);
    EXPECT_ERROR(hn_pack(&f->arena, f->items, f->count, &f->result), HN_UNSUPPORTED, "64-bit");
    f->count = 0;
    add(f, 0, 1, -1);
    EXPECT_ERROR(hn_pack(&f->arena, f->items, f->count, &f->result), HN_UNSUPPORTED, "64-bit");
    teardown(f);
}

TEST_MAIN
