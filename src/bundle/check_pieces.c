/* check_pieces.c: storages that are made of others. A reader copies what the pieces say without
 * looking again, so nothing may lie outside either side. */
#include "bundle/internal.h"

static hn_status damaged(const char *what, uint32_t k) {
    return HN_ERROR(HN_CORRUPT, "bundle is damaged: %s %u", what, k);
}

static bool has_bytes(const hn_bundle *b, uint32_t storage) {
    const hnb_storage *s = &b->storages[storage];
    return storage && s->where != HNB_STORAGE_MADE && !s->is_mutable;
}

/* `*left`: bytes of the storage that no earlier piece may have written. */
static bool lies_ok(const hn_bundle *b, const hnb_piece *p, uint64_t *left) {
    uint64_t from_end, to_end, bytes;
    const hn_box box = hn_bundle_piece_box(b, p);
    if (!hn_box_reach(&box, &from_end, &to_end, &bytes) ||
        from_end > b->storages[p->source].bytes || to_end > b->storages[p->storage].bytes ||
        bytes > *left)
        return false;
    *left -= bytes;
    return true;
}

static hn_status check_piece(const hn_bundle *b, uint32_t i, uint64_t *left) {
    const hnb_piece *p = &b->pieces[i];
    const uint32_t before = i ? b->pieces[i - 1].storage : 0;
    if (!p->storage || p->storage >= b->storages_count || p->source >= b->storages_count ||
        b->storages[p->storage].where != HNB_STORAGE_MADE || !has_bytes(b, p->source) ||
        p->storage < before || p->rank > HN_BOX_MAX_RANK ||
        (uint64_t)p->dims + p->rank > b->piece_dims_count)
        return damaged("piece", i);
    if (p->storage != before) *left = b->storages[p->storage].bytes;
    if (!lies_ok(b, p, left)) return damaged("piece", i);
    return NULL;
}

/* Its pieces are where it says: pieces are in the order of storages. */
static bool made_ok(const hn_bundle *b, uint32_t k) {
    const hnb_storage *s = &b->storages[k];
    return !s->is_mutable && s->bytes <= INT64_MAX && hn_bundle_has_piece(b, k, s->offset) &&
           (!s->offset || !hn_bundle_has_piece(b, k, s->offset - 1));
}

hn_status hn_bundle_check_pieces(const hn_bundle *b) {
    uint64_t left = 0;
    for (uint32_t i = 0; i < b->pieces_count; i++) HN_TRY(check_piece(b, i, &left));
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (b->storages[k].where == HNB_STORAGE_MADE && !made_ok(b, k))
            return damaged("storage", k);
    return NULL;
}
