/* variants.c: see variants.h. Layout: magic, then for each variant its head and its guards. */
#include "cache/variants.h"

#include <stdlib.h>

#define TABLE_MAGIC "HNVARS2\n"
enum { MAGIC_BYTES = 8 };

typedef struct variant_head {
    hn_digest key;
    uint32_t is_default, guards_bytes;
} variant_head;

/* ---- reading ---- */

bool hn_variants_next(hn_str table, size_t *at, hn_variant *out) {
    variant_head head;
    if (!*at && (table.len < MAGIC_BYTES || memcmp(table.ptr, TABLE_MAGIC, MAGIC_BYTES) != 0))
        return false;
    if (!*at) *at = MAGIC_BYTES;
    if (table.len - *at < sizeof head) return false;
    memcpy(&head, table.ptr + *at, sizeof head); /* the bytes may stand anywhere */
    if (table.len - *at - sizeof head < head.guards_bytes) return false;
    *out = (hn_variant){
        head.key, head.is_default != 0, {table.ptr + *at + sizeof head, head.guards_bytes}};
    *at += sizeof head + head.guards_bytes;
    return true;
}

bool hn_variants_is_table(hn_str bytes) {
    size_t at = 0;
    uint32_t count = 0;
    hn_variant variant;
    while (hn_variants_next(bytes, &at, &variant)) count++;
    return at && at == bytes.len && count <= HN_VARIANTS_MAX;
}

/* ---- writing ---- */

/* More than a table holds, while it is made. */
typedef struct variants {
    hn_variant items[2 * HN_VARIANTS_MAX];
    uint32_t count;
} variants;

static void add(variants *all, const hn_variant *variant) {
    for (uint32_t k = 0; k < all->count; k++) {
        hn_variant *old = &all->items[k];
        if (!hn_str_eq(old->guards, variant->guards)) continue;
        old->key = variant->key;
        old->is_default |= variant->is_default;
        return;
    }
    all->items[all->count++] = *variant;
}

static void add_table(variants *all, hn_str table) {
    size_t at = 0;
    hn_variant variant;
    if (!hn_variants_is_table(table)) return;
    while (hn_variants_next(table, &at, &variant)) add(all, &variant);
}

static void put(const hn_variant *variant, hn_strbuf *out) {
    const variant_head head = {variant->key, variant->is_default, (uint32_t)variant->guards.len};
    hn_strbuf_append(out, (const char *)&head, sizeof head);
    hn_strbuf_append(out, variant->guards.ptr, variant->guards.len);
}

/* Without the oldest ones that are too many. */
static hn_status finish(const variants *all, hn_strbuf *out) {
    uint32_t surplus = all->count > HN_VARIANTS_MAX ? all->count - HN_VARIANTS_MAX : 0;
    hn_strbuf_append(out, TABLE_MAGIC, MAGIC_BYTES);
    for (uint32_t k = 0; k < all->count; k++) {
        bool is_dropped = surplus && !all->items[k].is_default;
        surplus -= is_dropped;
        if (!is_dropped) put(&all->items[k], out);
    }
    return hn_strbuf_status(out);
}

static hn_status create(variants **out) {
    *out = calloc(1, sizeof **out);
    return *out ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a table of variants");
}

hn_status hn_variants_add(hn_str old, const hn_variant *variant, hn_strbuf *out) {
    variants *all;
    HN_TRY(create(&all));
    add_table(all, old);
    add(all, variant);
    hn_status status = finish(all, out);
    free(all);
    return status;
}

hn_status hn_variants_merge(hn_str older, hn_str newer, hn_strbuf *out) {
    variants *all;
    HN_TRY(create(&all));
    add_table(all, older);
    add_table(all, newer);
    hn_status status = finish(all, out);
    free(all);
    return status;
}
