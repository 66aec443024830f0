/* test_arena.c: arenas, arrays, vectors. */
#include "unit/harness.h"

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

typedef struct int_vec {
    int *items;
    uint32_t count, cap;
} int_vec;

static bool is_zero(const unsigned char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (bytes[i]) return false;
    return true;
}

TEST(memory_is_zeroed_aligned_and_apart) {
    hn_arena arena;
    hn_arena_init(&arena);
    unsigned char *last = NULL;
    for (size_t bytes = 0; bytes < 3000; bytes += 7) {
        unsigned char *p = hn_arena_alloc(&arena, bytes);
        EXPECT(p && p != last && (uintptr_t)p % 16 == 0);
        EXPECT(is_zero(p, bytes));
        memset(p, 0xab, bytes);
        last = p;
    }
    hn_arena_deinit(&arena);
    EXPECT(arena.head == NULL && arena.total_bytes == 0);
}

TEST(earlier_allocations_survive_later_ones) {
    enum { COUNT = 200 };
    hn_arena arena;
    hn_arena_init(&arena);
    unsigned char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        size_t bytes = (size_t)(i % 10 == 0 ? 20000 : 50);
        blocks[i] = hn_arena_alloc(&arena, bytes);
        memset(blocks[i], i, bytes);
    }
    for (int i = 0; i < COUNT; i++) EXPECT_INT(blocks[i][i % 10 == 0 ? 19999 : 49], i);
    hn_arena_deinit(&arena);
}

TEST(a_big_block_leaves_the_small_chunk_in_use) {
    hn_arena arena;
    hn_arena_init(&arena);
    char *before = hn_arena_alloc(&arena, 16);
    memset(hn_arena_alloc(&arena, 4 << 20), 1, 4 << 20);
    char *after = hn_arena_alloc(&arena, 16);
    EXPECT(after > before && after - before < 4096);
    hn_arena_deinit(&arena);
}

TEST(reset_gives_zeroed_memory_again) {
    hn_arena arena;
    hn_arena_init(&arena);
    for (int round = 0; round < 3; round++) {
        unsigned char *p = hn_arena_alloc(&arena, 100000);
        EXPECT(is_zero(p, 100000));
        memset(p, 0xff, 100000);
        memset(hn_arena_alloc(&arena, 64), 0xff, 64);
        EXPECT_INT(arena.total_bytes, 100064);
        hn_arena_reset(&arena);
        EXPECT_INT(arena.total_bytes, 0);
        EXPECT(arena.head != NULL);
    }
    hn_arena_reset(&arena);
    hn_arena_deinit(&arena);
    hn_arena_reset(&arena);
    EXPECT(arena.head == NULL);
}

TEST(impossible_sizes_are_out_of_memory) {
    hn_arena arena;
    hn_arena_init(&arena);
    void *p = &arena;
    EXPECT(hn_arena_alloc(&arena, SIZE_MAX) == NULL);
    EXPECT(hn_arena_alloc(&arena, SIZE_MAX - 16) == NULL);
    EXPECT(hn_arena_alloc(&arena, SIZE_MAX - 64) == NULL);
    EXPECT(hn_arena_strndup(&arena, "", SIZE_MAX) == NULL);
    EXPECT_ERROR(hn_arena_array(&arena, SIZE_MAX / 4, 8, &p), HN_OUT_OF_MEMORY, "overflows");
    EXPECT(p == &arena); /* untouched on failure */
    EXPECT_OK(hn_arena_array(&arena, 0, 8, &p));
    EXPECT(p != NULL && p != &arena);
    EXPECT(hn_arena_alloc(&arena, 100) != NULL);
    hn_arena_deinit(&arena);
}

TEST(text_is_copied) {
    hn_arena arena;
    hn_arena_init(&arena);
    EXPECT_STR(hn_arena_strndup(&arena, "abcdef", 3), "abc");
    EXPECT_STR(hn_arena_strndup(&arena, NULL, 0), "");
    EXPECT_STR(hn_arena_printf(&arena, "%s-%d", "x", 12), "x-12");
    for (int width = 250; width < 260; width++) { /* across the size of the inner buffer */
        const char *text = hn_arena_printf(&arena, "%*d", width, 7);
        EXPECT(text && strlen(text) == (size_t)width && text[width - 1] == '7');
    }
    hn_arena_deinit(&arena);
}

static hn_status push_many(hn_arena *arena, int_vec *vec, int count) {
    for (int i = 0; i < count; i++) HN_PUSH(arena, vec, i * 3);
    return NULL;
}

TEST(push_appends_and_doubles) {
    hn_arena arena;
    hn_arena_init(&arena);
    int_vec vec = {0};
    EXPECT_OK(push_many(&arena, &vec, 9));
    EXPECT_INT(vec.cap, 16);
    EXPECT_OK(push_many(&arena, &vec, 5000));
    EXPECT_INT(vec.count, 5009);
    EXPECT_INT(vec.cap, 8192);
    EXPECT_INT(vec.items[8], 24);
    for (int i = 0; i < 5000; i++) EXPECT_INT(vec.items[9 + i], i * 3);
    hn_arena_deinit(&arena);
}

static hn_status push_own_element(hn_arena *arena, int_vec *vec) {
    HN_PUSH(arena, vec, vec->items[0]);
    return NULL;
}

TEST(push_of_an_own_element_while_growing) {
    hn_arena arena;
    hn_arena_init(&arena);
    int_vec vec = {0};
    EXPECT_OK(push_many(&arena, &vec, 8));
    vec.items[0] = 77;
    EXPECT_OK(push_own_element(&arena, &vec));
    EXPECT_INT(vec.items[8], 77);
    hn_arena_deinit(&arena);
}

TEST(grow_meets_need_and_reports_the_limit) {
    hn_arena arena;
    hn_arena_init(&arena);
    int_vec vec = {0};
    EXPECT_OK(hn_arena_grow(&arena, &vec.items, &vec.cap, 0, 100, sizeof(int)));
    EXPECT_INT(vec.cap, 100);
    int *kept = vec.items;
    EXPECT_OK(hn_arena_grow(&arena, &vec.items, &vec.cap, 100, 100, sizeof(int)));
    EXPECT(vec.items == kept);
    uint32_t full = UINT32_MAX;
    EXPECT_ERROR(hn_arena_grow(&arena, &vec.items, &full, full, full + 1, sizeof(int)),
                 HN_OUT_OF_MEMORY, "vector");
    EXPECT(vec.items == kept && full == UINT32_MAX);
    uint32_t cap = 100;
    EXPECT_ERROR(hn_arena_grow(&arena, &vec.items, &cap, 100, 101, SIZE_MAX / 16), HN_OUT_OF_MEMORY,
                 "overflows");
    EXPECT(vec.items == kept && cap == 100);
    hn_arena_deinit(&arena);
}

static hn_status new_longs(hn_arena *arena, size_t count, int64_t **out) {
    int64_t *longs;
    HN_NEW(arena, longs, count);
    *out = longs;
    return NULL;
}

TEST(new_allocates_elements) {
    hn_arena arena;
    hn_arena_init(&arena);
    int64_t *longs = NULL;
    EXPECT_OK(new_longs(&arena, 10, &longs));
    EXPECT(longs && longs[0] == 0 && longs[9] == 0);
    EXPECT_ERROR(new_longs(&arena, SIZE_MAX, &longs), HN_OUT_OF_MEMORY, "overflows");
    hn_arena_deinit(&arena);
}

#ifdef HAS_ASAN
TEST(what_is_not_handed_out_is_poisoned) {
    hn_arena arena;
    hn_arena_init(&arena);
    char *p = hn_arena_alloc(&arena, 13);
    char *q = hn_arena_alloc(&arena, 8);
    EXPECT(!__asan_region_is_poisoned(p, 13));
    EXPECT(__asan_address_is_poisoned(p + 13));
    EXPECT(q - p >= 29 && __asan_address_is_poisoned(q - 1));
    EXPECT(__asan_address_is_poisoned(q + 8));
    hn_arena_reset(&arena);
    EXPECT(__asan_address_is_poisoned(p));
    hn_arena_deinit(&arena);
}
#endif

TEST_MAIN
