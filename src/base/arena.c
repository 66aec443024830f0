/* arena.c: bump allocation out of a list of chunks that grow geometrically.
 *
 * Under AddressSanitizer everything not handed out is poisoned and each allocation is followed by a
 * red zone, so an overflow inside an arena is reported like one on the heap. */
#include "base/arena.h"

#include "base/checked.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(ptr, bytes)   ASAN_POISON_MEMORY_REGION((ptr), (bytes))
#define UNPOISON(ptr, bytes) ASAN_UNPOISON_MEMORY_REGION((ptr), (bytes))
enum { RED_ZONE_BYTES = 16 };
#else
#define POISON(ptr, bytes)   ((void)(ptr), (void)(bytes))
#define UNPOISON(ptr, bytes) ((void)(ptr), (void)(bytes))
enum { RED_ZONE_BYTES = 0 };
#endif

enum {
    ARENA_ALIGN = 16,
    FIRST_CHUNK_BYTES = 4 << 10,
    LAST_CHUNK_BYTES = 1 << 20, /* growth stops here: beyond, malloc costs nothing noticeable */
    FIRST_VECTOR_CAP = 8,
};

struct hn_arena_chunk {
    hn_arena_chunk *next;
    size_t size_bytes, used_bytes;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

void hn_arena_init(hn_arena *arena) { *arena = (hn_arena){0}; }

static void chunk_free(hn_arena_chunk *chunk) {
    UNPOISON(chunk->data, chunk->size_bytes);
    free(chunk);
}

void hn_arena_deinit(hn_arena *arena) {
    hn_arena_chunk *chunk = arena->head;
    while (chunk) {
        hn_arena_chunk *next = chunk->next;
        chunk_free(chunk);
        chunk = next;
    }
    hn_arena_init(arena);
}

void hn_arena_reset(hn_arena *arena) {
    hn_arena_chunk *kept = arena->head;
    for (hn_arena_chunk *chunk = arena->head; chunk; chunk = chunk->next)
        if (chunk->size_bytes > kept->size_bytes) kept = chunk;
    for (hn_arena_chunk *chunk = arena->head, *next; chunk; chunk = next) {
        next = chunk->next;
        if (chunk != kept) chunk_free(chunk);
    }
    hn_arena_init(arena);
    if (!kept) return;
    kept->next = NULL;
    kept->used_bytes = 0;
    POISON(kept->data, kept->size_bytes);
    arena->head = kept;
}

/* A chunk with room for `need` bytes, linked into the arena; NULL without memory. */
static hn_arena_chunk *chunk_add(hn_arena *arena, size_t need) {
    hn_arena_chunk *head = arena->head;
    size_t size = head ? head->size_bytes * 2 : FIRST_CHUNK_BYTES;
    if (size > LAST_CHUNK_BYTES) size = LAST_CHUNK_BYTES;
    /* A big allocation gets a chunk of its own behind the head, whose rest stays in use. */
    bool own = head && need > size / 2;
    if (own || size < need) size = need;
    size_t total;
    if (!hn_add_size(size, sizeof(hn_arena_chunk), &total) || total > PTRDIFF_MAX) return NULL;
    hn_arena_chunk *chunk = malloc(total);
    if (!chunk) return NULL;
    chunk->size_bytes = size;
    chunk->used_bytes = 0;
    POISON(chunk->data, size);
    if (own) {
        chunk->next = head->next;
        head->next = chunk;
    } else {
        chunk->next = head;
        arena->head = chunk;
    }
    return chunk;
}

/* Like hn_arena_alloc, without zeroing. */
static void *take(hn_arena *arena, size_t bytes) {
    size_t need;
    /* Zero bytes still use a slot, so that two empty allocations differ. */
    if (!hn_add_size(bytes ? bytes : 1, ARENA_ALIGN - 1 + RED_ZONE_BYTES, &need)) return NULL;
    need -= need % ARENA_ALIGN;
    hn_arena_chunk *chunk = arena->head;
    if (!chunk || chunk->size_bytes - chunk->used_bytes < need) chunk = chunk_add(arena, need);
    if (!chunk) return NULL;
    void *result = chunk->data + chunk->used_bytes;
    chunk->used_bytes += need;
    arena->total_bytes += bytes;
    UNPOISON(result, bytes);
    return result;
}

void *hn_arena_alloc(hn_arena *arena, size_t bytes) {
    void *result = take(arena, bytes);
    return result ? memset(result, 0, bytes) : NULL;
}

hn_status hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out) {
    size_t bytes;
    if (!hn_mul_size(count, elem_bytes, &bytes))
        return HN_ERROR(HN_OUT_OF_MEMORY,
                        "cannot allocate %zu elements of %zu bytes: the size overflows", count,
                        elem_bytes);
    void *array = hn_arena_alloc(arena, bytes);
    if (!array) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memcpy(out, &array, sizeof(array)); /* `out` points to a pointer of some other type */
    return NULL;
}

char *hn_arena_strndup(hn_arena *arena, const char *text, size_t len) {
    size_t bytes;
    if (!hn_add_size(len, 1, &bytes)) return NULL;
    char *copy = take(arena, bytes);
    if (!copy) return NULL;
    if (len) memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *hn_arena_printf(hn_arena *arena, const char *fmt, ...) {
    char small[256];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    if (len < 0) return NULL;
    if ((size_t)len < sizeof(small)) return hn_arena_strndup(arena, small, (size_t)len);
    char *text = take(arena, (size_t)len + 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}

hn_status hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t count, uint32_t need,
                        size_t elem_bytes) {
    /* HN_PUSH asks for count + 1, which is 0 when the vector is full. */
    if (need < count)
        return HN_ERROR(HN_OUT_OF_MEMORY, "cannot grow a vector beyond %u elements", count);
    if (need <= *cap) return NULL;
    uint32_t wanted = *cap > UINT32_MAX / 2 ? UINT32_MAX : *cap * 2;
    if (wanted < FIRST_VECTOR_CAP) wanted = FIRST_VECTOR_CAP;
    if (wanted < need) wanted = need;
    void *grown, *old;
    HN_TRY(hn_arena_array(arena, wanted, elem_bytes, &grown));
    /* through memcpy: `items` points to a pointer of some other type */
    memcpy(&old, items, sizeof(old));
    if (count) memcpy(grown, old, (size_t)count * elem_bytes);
    memcpy(items, &grown, sizeof(grown));
    *cap = wanted;
    return NULL;
}
