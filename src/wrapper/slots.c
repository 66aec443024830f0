/* slots.c: see slots.h. */
#include "wrapper/slots.h"

#include <stdlib.h>

enum {
    /* An upper bound of up to so many bytes is reserved: cheaper than memory of its own. */
    BOUND_BYTES_MAX = 64 << 10,
    MAX_SYMBOLS = 64
};

typedef struct late {
    hn_wbuf buffer;
    uint32_t first, end; /* lines */
} late;

typedef struct slot {
    hn_device_kind device;
    hn_expr bytes; /* of the last buffer in it */
    uint32_t end;
} slot;

bool hn_wrapper_is_data(hn_sym *sym, hn_expr e) {
    hn_expr symbols[MAX_SYMBOLS];
    if (!e || hn_sym_is_int(sym, e, NULL)) return false;
    uint32_t count = hn_sym_symbols(sym, e, symbols, MAX_SYMBOLS);
    for (uint32_t k = 0; k < count && k < MAX_SYMBOLS; k++)
        if (hn_sym_symbol_kind(sym, symbols[k]) == HN_SYMBOL_DATA) return true;
    return count > MAX_SYMBOLS; /* to be safe */
}

hn_expr hn_wrapper_placed_bytes(const hn_wrapper *w, hn_wbuf buffer) {
    hn_expr bytes = w->buffers.items[buffer].bytes;
    int64_t lo, hi;
    if (!hn_wrapper_is_data(w->sym, bytes)) return bytes;
    hn_sym_range(w->sym, bytes, &lo, &hi);
    return hi >= 0 && hi <= BOUND_BYTES_MAX ? hn_sym_int(w->sym, hi) : 0;
}

/* The line that defines the last of the symbols in the buffer's size; its first mention when none
 * does. */
static uint32_t known_from(const hn_wrapper *w, hn_wbuf buffer, uint32_t first_mention) {
    uint32_t at = UINT32_MAX;
    for (uint32_t i = 0; i < first_mention; i++) {
        const hn_line *line = &w->lines.items[i];
        if (line->kind == HN_LINE_DEFINE &&
            hn_sym_uses(w->sym, w->buffers.items[buffer].bytes, line->symbol))
            at = i;
    }
    return at == UINT32_MAX ? first_mention : at;
}

static int by_first(const void *a, const void *b) {
    const late *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

hn_status hn_wrapper_slots(const hn_wrapper *w, const hn_wlives *lives, hn_arena *scratch,
                           hn_memory_plan *plan) {
    struct {
        late *items;
        uint32_t count, cap;
    } list = {0};
    struct {
        slot *items;
        uint32_t count, cap;
    } slots = {0};
    HN_NEW(w->arena, plan->slots, w->buffers.count);
    for (uint32_t b = 1; b < w->buffers.count; b++) {
        const hn_wlife *life = &lives->buffers[b];
        if (!hn_wbuf_is_inner(w->buffers.items[b].kind) || !life->used ||
            hn_wrapper_placed_bytes(w, b))
            continue;
        late item = {.buffer = b, .first = known_from(w, b, life->first), .end = life->end};
        HN_PUSH(scratch, &list, item);
    }
    if (list.count) qsort(list.items, list.count, sizeof *list.items, by_first);
    for (uint32_t i = 0; i < list.count; i++) {
        const late *it = &list.items[i];
        const hn_expr bytes = w->buffers.items[it->buffer].bytes;
        const hn_device_kind device = w->buffers.items[it->buffer].device;
        uint32_t best = slots.count;
        for (uint32_t s = 0; s < slots.count; s++) {
            if (slots.items[s].end >= it->first || slots.items[s].device != device) continue;
            if (best == slots.count || slots.items[s].bytes == bytes) best = s;
        }
        if (best == slots.count) HN_PUSH(scratch, &slots, (slot){0});
        slots.items[best] = (slot){.device = device, .bytes = bytes, .end = it->end};
        plan->slots[it->buffer] = best + 1;
    }
    plan->slot_count = slots.count;
    return NULL;
}
