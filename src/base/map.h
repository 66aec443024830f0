/* map.h: hash maps that live in an arena. Keys are 64-bit numbers or byte strings, values
 * 64-bit. */
#ifndef HN_BASE_MAP_H
#define HN_BASE_MAP_H

#include "base/arena.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Number -> number. Open addressing; iteration order is insertion order. */
typedef struct hn_map {
    hn_arena *arena;
    struct hn_map_entry {
        uint64_t key, value;
    } * entries;         /* dense, insertion order */
    uint32_t *slots;     /* entry index + 1, 0 empty; power of two */
    uint32_t count, cap; /* entries */
    uint32_t slot_count;
} hn_map;

void hn_map_init(hn_map *map, hn_arena *arena);
/* Finds `key`; NULL when absent. The pointer is valid until the next put. */
uint64_t *hn_map_get(const hn_map *map, uint64_t key);
/* Sets `key` to `value`, replacing. */
hn_status hn_map_put(hn_map *map, uint64_t key, uint64_t value) HN_MUST_USE;

/* String -> number. Keys are borrowed: they must outlive the map. */
typedef struct hn_strmap {
    hn_arena *arena;
    struct hn_strmap_entry {
        hn_str key;
        uint64_t hash, value;
    } * entries;
    uint32_t *slots;
    uint32_t count, cap;
    uint32_t slot_count;
} hn_strmap;

void hn_strmap_init(hn_strmap *map, hn_arena *arena);
uint64_t *hn_strmap_get(const hn_strmap *map, hn_str key);
hn_status hn_strmap_put(hn_strmap *map, hn_str key, uint64_t value) HN_MUST_USE;

#endif
