/* map.c: open addressing with linear probing over a dense array of entries.
 *
 * Slots hold entry indices, so iteration is a walk over `entries` in insertion order and growing
 * the table moves four bytes an entry. At most half of the slots are used. */
#include "base/map.h"

#include "base/hash.h"

enum { FIRST_SLOT_COUNT = 16 };

/* Whether one more entry needs a bigger table. */
static bool is_full(uint32_t count, uint32_t slot_count) { return count >= slot_count / 2; }

/* A zeroed table of twice the size in `*out_slots`. */
static hn_status slots_double(hn_arena *arena, uint32_t slot_count, uint32_t **out_slots,
                              uint32_t *out_count) {
    if (slot_count > UINT32_MAX / 2)
        return HN_ERROR(HN_OUT_OF_MEMORY, "cannot grow a map beyond %u slots", slot_count);
    uint32_t grown = slot_count ? slot_count * 2 : FIRST_SLOT_COUNT;
    HN_TRY(hn_arena_array(arena, grown, sizeof(uint32_t), out_slots));
    *out_count = grown;
    return NULL;
}

/* Links entry `entry_idx` with hash `hash` into the first free slot. */
static void slots_link(uint32_t *slots, uint32_t slot_count, uint64_t hash, uint32_t entry_idx) {
    uint32_t mask = slot_count - 1, at = (uint32_t)hash & mask;
    while (slots[at]) at = (at + 1) & mask;
    slots[at] = entry_idx + 1;
}

/* Ids and pointers are regular in their low bits: multiply-xorshift spreads them (murmur3's
 * finalizer). */
static uint64_t mix(uint64_t key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdu;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53u;
    return key ^ key >> 33;
}

void hn_map_init(hn_map *map, hn_arena *arena) { *map = (hn_map){.arena = arena}; }

uint64_t *hn_map_get(const hn_map *map, uint64_t key) {
    if (!map->slot_count) return NULL;
    uint32_t mask = map->slot_count - 1;
    for (uint32_t at = (uint32_t)mix(key) & mask; map->slots[at]; at = (at + 1) & mask) {
        struct hn_map_entry *entry = &map->entries[map->slots[at] - 1];
        if (entry->key == key) return &entry->value;
    }
    return NULL;
}

static hn_status map_rehash(hn_map *map) {
    uint32_t *slots, slot_count;
    HN_TRY(slots_double(map->arena, map->slot_count, &slots, &slot_count));
    for (uint32_t i = 0; i < map->count; i++)
        slots_link(slots, slot_count, mix(map->entries[i].key), i);
    map->slots = slots;
    map->slot_count = slot_count;
    return NULL;
}

hn_status hn_map_put(hn_map *map, uint64_t key, uint64_t value) {
    uint64_t *found = hn_map_get(map, key);
    if (found) {
        *found = value;
        return NULL;
    }
    if (is_full(map->count, map->slot_count)) HN_TRY(map_rehash(map));
    if (map->count == map->cap)
        HN_TRY(hn_arena_grow(map->arena, &map->entries, &map->cap, map->count, map->count + 1,
                             sizeof(*map->entries)));
    slots_link(map->slots, map->slot_count, mix(key), map->count);
    map->entries[map->count++] = (struct hn_map_entry){.key = key, .value = value};
    return NULL;
}

void hn_strmap_init(hn_strmap *map, hn_arena *arena) { *map = (hn_strmap){.arena = arena}; }

static uint64_t *strmap_find(const hn_strmap *map, hn_str key, uint64_t hash) {
    if (!map->slot_count) return NULL;
    uint32_t mask = map->slot_count - 1;
    for (uint32_t at = (uint32_t)hash & mask; map->slots[at]; at = (at + 1) & mask) {
        struct hn_strmap_entry *entry = &map->entries[map->slots[at] - 1];
        if (entry->hash == hash && hn_str_eq(entry->key, key)) return &entry->value;
    }
    return NULL;
}

uint64_t *hn_strmap_get(const hn_strmap *map, hn_str key) {
    if (!map->slot_count) return NULL;
    return strmap_find(map, key, hn_hash64(key.ptr, key.len, 0));
}

static hn_status strmap_rehash(hn_strmap *map) {
    uint32_t *slots, slot_count;
    HN_TRY(slots_double(map->arena, map->slot_count, &slots, &slot_count));
    for (uint32_t i = 0; i < map->count; i++)
        slots_link(slots, slot_count, map->entries[i].hash, i);
    map->slots = slots;
    map->slot_count = slot_count;
    return NULL;
}

hn_status hn_strmap_put(hn_strmap *map, hn_str key, uint64_t value) {
    uint64_t hash = hn_hash64(key.ptr, key.len, 0);
    uint64_t *found = strmap_find(map, key, hash);
    if (found) {
        *found = value;
        return NULL;
    }
    if (is_full(map->count, map->slot_count)) HN_TRY(strmap_rehash(map));
    if (map->count == map->cap)
        HN_TRY(hn_arena_grow(map->arena, &map->entries, &map->cap, map->count, map->count + 1,
                             sizeof(*map->entries)));
    slots_link(map->slots, map->slot_count, hash, map->count);
    map->entries[map->count++] = (struct hn_strmap_entry){.key = key, .hash = hash, .value = value};
    return NULL;
}
