/* Boxes: copies of parts against copies of single bytes, and boxes that are made simpler. */
#include "base/box.h"
#include "unit/harness.h"

#include <string.h>

enum { BYTES = 4096, DIMS = 3 };

static uint32_t seed = 1;
static uint32_t random_below(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* Byte by byte, as the header says it. */
static void copy_slowly(const hn_box *box, uint32_t d, uint64_t from, uint64_t to,
                        const uint8_t *source, uint8_t *target) {
    if (d == box->rank) {
        for (uint64_t k = 0; k < box->run_bytes; k++) target[to + k] = source[from + k];
        return;
    }
    for (uint64_t k = 0; k < box->dims[d].size; k++)
        copy_slowly(box, d + 1, from + k * box->dims[d].from_stride,
                    to + k * box->dims[d].to_stride, source, target);
}

/* A tensor with some order of its dimensions on each side, perhaps with gaps. */
static void make_box(hn_box_dim *dims, hn_box *out) {
    static const uint32_t orders[6][DIMS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                             {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const uint64_t runs[] = {1, 2, 3, 4, 8, 12};
    const uint32_t *from = orders[random_below(6)], *to = orders[random_below(6)];
    const uint64_t run = runs[random_below(6)];
    uint64_t from_step = run + random_below(2) * run, to_step = run + random_below(2) * run;
    for (uint32_t d = 0; d < DIMS; d++) dims[d].size = 1 + random_below(5);
    for (uint32_t d = 0; d < DIMS; d++) {
        dims[from[d]].from_stride = from_step;
        from_step *= dims[from[d]].size;
        dims[to[d]].to_stride = to_step;
        to_step *= dims[to[d]].size;
    }
    *out = (hn_box){.rank = DIMS,
                    .dims = dims,
                    .run_bytes = run,
                    .from = random_below(16),
                    .to = random_below(16)};
}

static void expect_parts(const hn_box *box, const uint8_t *source, const uint8_t *wanted,
                         size_t part) {
    static uint8_t got[BYTES];
    memset(got, 0xee, sizeof got);
    for (size_t at = 0; at < sizeof got; at += part) {
        const size_t left = sizeof got - at;
        hn_box_copy(box, source, at, left < part ? left : part, got + at, NULL);
    }
    EXPECT(memcmp(got, wanted, sizeof got) == 0);
}

TEST(parts_of_boxes) {
    static uint8_t source[BYTES], wanted[BYTES];
    for (int k = 0; k < BYTES; k++) source[k] = (uint8_t)(k * 7 + k / 256);
    for (int round = 0; round < 2000; round++) {
        hn_box_dim dims[DIMS];
        uint64_t from_end, to_end, bytes;
        hn_box box;
        make_box(dims, &box);
        EXPECT(hn_box_reach(&box, &from_end, &to_end, &bytes));
        if (from_end > BYTES || to_end > BYTES) continue;
        EXPECT_INT(bytes, dims[0].size * dims[1].size * dims[2].size * box.run_bytes);
        memset(wanted, 0xee, sizeof wanted);
        copy_slowly(&box, 0, box.from, box.to, source, wanted);
        expect_parts(&box, source, wanted, BYTES);
        expect_parts(&box, source, wanted, 1 + random_below(300));
        hn_box_simplify(dims, &box.rank, &box.run_bytes);
        expect_parts(&box, source, wanted, BYTES);
        expect_parts(&box, source, wanted, 64);
    }
}

TEST(dimensions_that_follow_each_other_are_one) {
    /* [4, 1, 6] numbers of 2 bytes, as they are */
    hn_box_dim whole[3] = {{1, 99, 7}, {6, 2, 2}, {4, 12, 12}};
    uint32_t rank = 3;
    uint64_t run = 2;
    hn_box_simplify(whole, &rank, &run);
    EXPECT_INT(rank, 0);
    EXPECT_INT(run, 48);
    /* into longer rows */
    hn_box_dim rows[2] = {{4, 12, 32}, {6, 2, 2}};
    rank = 2, run = 2;
    hn_box_simplify(rows, &rank, &run);
    EXPECT_INT(rank, 1);
    EXPECT_INT(run, 12);
    EXPECT(rows[0].size == 4 && rows[0].from_stride == 12 && rows[0].to_stride == 32);
}

typedef struct reads {
    int count;
    size_t bytes;
} reads;

static void read(const void *user, void *to, const void *from, size_t bytes) {
    reads *r = (reads *)(uintptr_t)user;
    r->count++, r->bytes += bytes;
    memcpy(to, from, bytes);
}

TEST(long_runs_are_read) {
    enum { LONG = 100000 };
    static uint8_t source[LONG], target[LONG];
    reads r = {0};
    const hn_box_reader reader = {read, &r};
    hn_box box = {.run_bytes = LONG};
    for (int k = 0; k < LONG; k++) source[k] = (uint8_t)(k / 3);
    for (size_t at = 0; at < LONG; at += 40000)
        hn_box_copy(&box, source, at, at + 40000 < LONG ? 40000 : LONG - at, target + at, &reader);
    EXPECT(memcmp(source, target, LONG) == 0);
    EXPECT_INT(r.count, 3);
    EXPECT_INT(r.bytes, LONG);
    box.run_bytes = 100;
    hn_box_copy(&box, source, 0, LONG, target, &reader);
    EXPECT_INT(r.count, 3);
}

TEST(what_is_no_box) {
    uint64_t from, to, bytes;
    const hn_box_dim none = {0, 4, 4}, far = {3, UINT64_MAX / 2 + 1, 4}, wide = {3, 4, UINT64_MAX},
                     many[2] = {{1ull << 40, 0, 0}, {1ull << 40, 0, 0}};
    EXPECT(!hn_box_reach(&(hn_box){0}, &from, &to, &bytes));
    EXPECT(!hn_box_reach(&(hn_box){1, &none, 4, 0, 0}, &from, &to, &bytes));
    EXPECT(!hn_box_reach(&(hn_box){1, &far, 4, 0, 0}, &from, &to, &bytes));
    EXPECT(!hn_box_reach(&(hn_box){1, &wide, 4, 0, 0}, &from, &to, &bytes));
    EXPECT(!hn_box_reach(&(hn_box){2, many, 4, 0, 0}, &from, &to, &bytes));
    EXPECT(!hn_box_reach(&(hn_box){HN_BOX_MAX_RANK + 1, &none, 4, 0, 0}, &from, &to, &bytes));
    EXPECT(!hn_box_reach(&(hn_box){0, NULL, 4, UINT64_MAX, 0}, &from, &to, &bytes));
    EXPECT(!hn_box_reach(&(hn_box){0, NULL, 4, 0, UINT64_MAX}, &from, &to, &bytes));
}

TEST_MAIN
