/* pack_cache.c: packed weights in the module's shared state. */
#include "ops/cpu/pack_cache.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

typedef struct packing {
    size_t bytes;
    void (*fill)(void *user, void *memory);
    void *user;
} packing;

static hn_status make_packed(void *user, hn_ext_entry *out) {
    const packing *p = user;
    const size_t align = p->bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
    if (p->bytes > SIZE_MAX - HUGE_PAGE)
        return HN_ERROR(HN_OUT_OF_MEMORY, "packed weights of %zu bytes are too large", p->bytes);
    size_t bytes = (p->bytes + align - 1) / align * align;
    void *memory = aligned_alloc(align, bytes ? bytes : align);
    if (!memory)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for %zu bytes of packed weights", p->bytes);
    /* Weights are read once per run: large pages save the table walks. Only advice, so a refusal is
     * no failure. */
    if (align == HUGE_PAGE) (void)madvise(memory, bytes, MADV_HUGEPAGE);
    p->fill(p->user, memory);
    *out = (hn_ext_entry){.value = memory, .free_value = free, .bytes = bytes};
    return NULL;
}

hn_status hn_ext_pack_get(hn_ext_call *call, const hn_ext_pack_key *key, size_t bytes,
                          void (*fill)(void *user, void *memory), void *user, void **out) {
    packing p = {.bytes = bytes, .fill = fill, .user = user};
    return hn_ext_shared_get(call->shared, key, sizeof *key, make_packed, &p, out);
}

static hn_status make_flag(void *user, hn_ext_entry *out) {
    (void)user;
    atomic_bool *flag = malloc(sizeof *flag);
    if (!flag) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the state of a weight");
    atomic_init(flag, false);
    *out = (hn_ext_entry){.value = flag, .free_value = free};
    return NULL;
}

hn_status hn_ext_pack_flag(hn_ext_call *call, const hn_ext_pack_key *key, atomic_bool **out) {
    hn_ext_pack_key own = *key;
    void *value = NULL;
    /* the kind of packing is in the last word, which no kind uses */
    own.words[0] = HN_EXT_PACK_SEEN;
    own.words[HN_EXT_PACK_KEY_WORDS - 1] = key->words[0];
    HN_TRY(hn_ext_shared_get(call->shared, &own, sizeof own, make_flag, NULL, &value));
    *out = value;
    return NULL;
}
