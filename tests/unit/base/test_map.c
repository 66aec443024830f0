/* test_map.c: maps against a plain search, insertion order, growth. */
#include "unit/harness.h"

#include "base/map.h"

TEST(an_empty_map_has_nothing) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_map map;
    hn_strmap strmap;
    hn_map_init(&map, &arena);
    hn_strmap_init(&strmap, &arena);
    EXPECT(hn_map_get(&map, 0) == NULL);
    EXPECT(hn_strmap_get(&strmap, HN_STR("")) == NULL);
    EXPECT_INT(map.count + strmap.count, 0);
    hn_arena_deinit(&arena);
}

TEST(put_replaces_and_keeps_the_place) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_map map;
    hn_map_init(&map, &arena);
    EXPECT_OK(hn_map_put(&map, 0, 10));
    EXPECT_OK(hn_map_put(&map, UINT64_MAX, 20));
    EXPECT_OK(hn_map_put(&map, 0, 30));
    EXPECT_INT(map.count, 2);
    EXPECT_INT(map.entries[0].key, 0);
    EXPECT_INT(map.entries[0].value, 30);
    EXPECT_INT(*hn_map_get(&map, UINT64_MAX), 20);
    *hn_map_get(&map, 0) = 40;
    EXPECT_INT(*hn_map_get(&map, 0), 40);
    EXPECT(hn_map_get(&map, 1) == NULL);
    hn_arena_deinit(&arena);
}

/* Key patterns that a weak hash turns into one long chain. */
static uint64_t key_of(int pattern, uint64_t i) {
    switch (pattern) {
    case 0: return i;
    case 1: return i << 32;
    case 2: return i * 4096;
    default: return UINT64_MAX - i * 16;
    }
}

TEST(many_numbers_in_insertion_order) {
    enum { COUNT = 20000 };
    for (int pattern = 0; pattern < 4; pattern++) {
        hn_arena arena;
        hn_arena_init(&arena);
        hn_map map;
        hn_map_init(&map, &arena);
        for (uint64_t i = 0; i < COUNT; i++) EXPECT_OK(hn_map_put(&map, key_of(pattern, i), i));
        EXPECT_INT(map.count, COUNT);
        EXPECT(map.slot_count >= 2 * COUNT && (map.slot_count & (map.slot_count - 1)) == 0);
        for (uint64_t i = 0; i < COUNT; i++) {
            const uint64_t *value = hn_map_get(&map, key_of(pattern, i));
            if (!value || *value != i || map.entries[i].key != key_of(pattern, i))
                HN_TEST_FAIL("pattern %d loses key %llu", pattern, (unsigned long long)i);
        }
        EXPECT(hn_map_get(&map, key_of(pattern, COUNT)) == NULL);
        hn_arena_deinit(&arena);
    }
}

TEST(random_puts_match_a_plain_search) {
    enum { KEYS = 300, PUTS = 4000 };
    uint64_t expected[KEYS] = {0}, state = 1;
    bool present[KEYS] = {false};
    hn_arena arena;
    hn_arena_init(&arena);
    hn_map map;
    hn_map_init(&map, &arena);
    for (int i = 0; i < PUTS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t key = (state >> 33) % KEYS;
        expected[key] = state;
        present[key] = true;
        EXPECT_OK(hn_map_put(&map, key, state));
        uint64_t asked = (state >> 12) % KEYS;
        const uint64_t *value = hn_map_get(&map, asked);
        EXPECT((value != NULL) == present[asked] && (!value || *value == expected[asked]));
    }
    hn_arena_deinit(&arena);
}

TEST(string_keys_are_bytes) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_strmap map;
    hn_strmap_init(&map, &arena);
    EXPECT_OK(hn_strmap_put(&map, (hn_str){"a\0b", 3}, 1));
    EXPECT_OK(hn_strmap_put(&map, HN_STR("a"), 2));
    EXPECT_OK(hn_strmap_put(&map, HN_STR(""), 3));
    EXPECT_OK(hn_strmap_put(&map, hn_str_of("a"), 4));
    EXPECT_INT(map.count, 3);
    EXPECT_INT(*hn_strmap_get(&map, (hn_str){"a\0b", 3}), 1);
    EXPECT_INT(*hn_strmap_get(&map, HN_STR("a")), 4);
    EXPECT_INT(*hn_strmap_get(&map, hn_str_of(NULL)), 3);
    EXPECT(hn_strmap_get(&map, (hn_str){"a\0c", 3}) == NULL);
    hn_arena_deinit(&arena);
}

TEST(many_strings_in_insertion_order) {
    enum { COUNT = 10000 };
    hn_arena arena;
    hn_arena_init(&arena);
    hn_strmap map;
    hn_strmap_init(&map, &arena);
    for (int i = 0; i < COUNT; i++)
        EXPECT_OK(hn_strmap_put(&map, hn_str_of(hn_arena_printf(&arena, "layer.%d.weight", i)),
                                (uint64_t)i));
    EXPECT_INT(map.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        char name[64];
        snprintf(name, sizeof(name), "layer.%d.weight", i);
        const uint64_t *value = hn_strmap_get(&map, hn_str_of(name));
        EXPECT(value && *value == (uint64_t)i && hn_str_eq(map.entries[i].key, hn_str_of(name)));
    }
    EXPECT(hn_strmap_get(&map, HN_STR("layer.10000.weight")) == NULL);
    hn_arena_deinit(&arena);
}

TEST_MAIN
