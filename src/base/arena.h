/* arena.h: memory that is freed all at once.
 *
 * One arena lives as long as one compilation, one scratch arena as long as one pass. Nothing public
 * points into an arena. Threads: an arena belongs to one thread at a time. */
#ifndef HN_BASE_ARENA_H
#define HN_BASE_ARENA_H

#include "henry/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hn_arena_chunk hn_arena_chunk;

typedef struct hn_arena {
    hn_arena_chunk *head; /* newest chunk */
    size_t total_bytes;   /* handed out since init or reset */
} hn_arena;

void hn_arena_init(hn_arena *arena);
void hn_arena_deinit(hn_arena *arena);

/* Forgets every allocation, keeps the largest chunk for reuse. */
void hn_arena_reset(hn_arena *arena);

/* `bytes` zeroed bytes, aligned to 16. Zero bytes give a valid pointer. NULL without memory. */
void *hn_arena_alloc(hn_arena *arena, size_t bytes);

/* `count * elem_bytes` zeroed bytes in `*out`. Errors: out-of-memory, also when the product
 * overflows. */
hn_status hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out) HN_MUST_USE;

/* Copies `len` bytes and adds a NUL. NULL without memory. */
char *hn_arena_strndup(hn_arena *arena, const char *text, size_t len);

/* printf into the arena. NULL without memory. */
char *hn_arena_printf(hn_arena *arena, const char *fmt, ...) HN_PRINTF(2, 3);

/* Grows `*items` (capacity `*cap` elements of `elem_bytes`) to hold at least `need` elements. Old
 * storage stays in the arena until reset. Used through HN_PUSH. */
hn_status hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t count, uint32_t need,
                        size_t elem_bytes) HN_MUST_USE;

/* Allocates `count` elements for the pointer `ptr` and returns out-of-memory from the caller on
 * failure. */
#define HN_NEW(arena, ptr, count)                                                                  \
    HN_TRY(hn_arena_array((arena), (size_t)(count), sizeof(*(ptr)), &(ptr)))

/* Appends `value` to a vector: any struct with members `items`, `count`, `cap` (uint32_t). Returns
 * out-of-memory from the caller on failure. */
#define HN_PUSH(arena, vec, value)                                                                 \
    do {                                                                                           \
        if ((vec)->count == (vec)->cap)                                                            \
            HN_TRY(hn_arena_grow((arena), &(vec)->items, &(vec)->cap, (vec)->count,                \
                                 (vec)->count + 1, sizeof(*(vec)->items)));                        \
        (vec)->items[(vec)->count++] = (value);                                                    \
    } while (0)

#endif
