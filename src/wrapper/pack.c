/* pack.c: dynamic storage allocation with known lifetimes. The problem is NP-hard; several greedy
 * orders are tried, the best result stays, and the first one that meets the lower bound ends the
 * search:
 *
 * - in the order of time: a sweep with a list of gaps, smallest gap that fits; cheap, often at the
 *   bound already
 * - by size, by area, by lifetime, largest first: each item goes into the smallest gap among the
 *   items placed before
 * - from the best of these orders, by repair: the first item that does not fit below the best
 *   extent moves forward in the order, and everything is placed again, until the effort is spent
 *
 * The last two kinds look at all pairs that overlap in time, so they are left out when there are
 * too many of them. The sweep looks at each gap for each item; programs have few gaps at a time.
 * Sources: greedy by size as in Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
 * Inference", 2020; repair as in Joslin and Clements, "Squeaky Wheel Optimization", 1999. */
#include "wrapper/pack.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* Overlapping pairs looked at: some ten for each item is what programs have; beyond 32 it would not
 * be near linear. */
enum { PAIRS_PER_ITEM = 32, PAIRS_ALWAYS = 100000, INSERTION_SORT_MAX = 24 };

/* Of the repair: neighbours looked at in all, some 10 ms; rounds without a better extent until it
 * begins anew, and how often it does. */
enum { REPAIR_EFFORT = 1000000, REPAIR_ROUNDS = 60, REPAIR_STARTS = 24 };

typedef struct span {
    int64_t begin, end; /* units */
} span;

/* An item in an order: sorted by key, then id, so that the result does not depend on the sort. */
typedef struct rank {
    double key;
    uint32_t id;
} rank;

typedef struct packer {
    hn_arena *scratch;
    const hn_pack_item *items;
    uint32_t count;
    rank *by_first, *by_last; /* increasing */
    uint32_t *edges;          /* neighbours of item i: edges[edge_begin[i] .. edge_begin[i + 1]) */
    uint32_t *edge_begin;
    uint64_t effort;  /* neighbours looked at */
    int64_t *offsets; /* being made; -1: not placed */
    span *spans;      /* room for count */
} packer;

static int compare_ranks(const void *left, const void *right) {
    const rank *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_spans(const void *left, const void *right) {
    const span *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static void sort_spans(span *spans, uint32_t count) {
    if (count > INSERTION_SORT_MAX) {
        qsort(spans, count, sizeof *spans, compare_spans);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        span s = spans[i];
        uint32_t k = i;
        for (; k > 0 && spans[k - 1].begin > s.begin; k--) spans[k] = spans[k - 1];
        spans[k] = s;
    }
}

static hn_status sort_by_time(packer *p) {
    HN_NEW(p->scratch, p->by_first, p->count);
    HN_NEW(p->scratch, p->by_last, p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        p->by_first[i] = (rank){p->items[i].first, i};
        p->by_last[i] = (rank){p->items[i].last, i};
    }
    qsort(p->by_first, p->count, sizeof *p->by_first, compare_ranks);
    qsort(p->by_last, p->count, sizeof *p->by_last, compare_ranks);
    return NULL;
}

/* The lower bound, and how many pairs overlap in time. */
static void measure(const packer *p, int64_t *out_bound, uint64_t *out_pairs) {
    int64_t live = 0;
    uint32_t ended = 0;
    *out_bound = 0;
    *out_pairs = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const hn_pack_item *item = &p->items[p->by_first[i].id];
        for (; p->items[p->by_last[ended].id].last < item->first; ended++)
            live -= p->items[p->by_last[ended].id].size;
        live += item->size;
        *out_pairs += i - ended;
        if (live > *out_bound) *out_bound = live;
    }
}

/* --- in the order of time --- */

/* Gaps below the top, by offset, no two adjacent. */
typedef struct gaps {
    span *items;
    uint32_t count;
    int64_t top;
} gaps;

static uint32_t first_gap_from(const gaps *g, int64_t offset) {
    uint32_t lo = 0, hi = g->count;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (g->items[middle].begin < offset) lo = middle + 1;
        else hi = middle;
    }
    return lo;
}

static void remove_gap(gaps *g, uint32_t at) {
    memmove(&g->items[at], &g->items[at + 1], (--g->count - at) * sizeof *g->items);
}

static void give_back(gaps *g, span s) {
    uint32_t at = first_gap_from(g, s.begin);
    if (at < g->count && g->items[at].begin == s.end) {
        s.end = g->items[at].end;
        remove_gap(g, at);
    }
    if (at > 0 && g->items[at - 1].end == s.begin) {
        s.begin = g->items[at - 1].begin;
        remove_gap(g, --at);
    }
    if (s.end == g->top) {
        g->top = s.begin;
        return;
    }
    memmove(&g->items[at + 1], &g->items[at], (g->count++ - at) * sizeof *g->items);
    g->items[at] = s;
}

static int64_t take_gap(gaps *g, int64_t size) {
    uint32_t best = g->count;
    for (uint32_t k = 0; k < g->count; k++) {
        int64_t room = g->items[k].end - g->items[k].begin;
        if (room >= size && (best == g->count || room < g->items[best].end - g->items[best].begin))
            best = k;
        if (best == k && room == size) break;
    }
    int64_t offset = g->top;
    if (best == g->count) {
        g->top += size;
        return offset;
    }
    offset = g->items[best].begin;
    g->items[best].begin += size;
    if (g->items[best].begin == g->items[best].end) remove_gap(g, best);
    return offset;
}

static int64_t place_in_time(packer *p) {
    gaps g = {.items = p->spans};
    int64_t extent = 0;
    uint32_t ended = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t id = p->by_first[i].id;
        for (; p->items[p->by_last[ended].id].last < p->items[id].first; ended++) {
            uint32_t done = p->by_last[ended].id;
            int64_t at = p->offsets[done];
            if (p->items[done].size) give_back(&g, (span){at, at + p->items[done].size});
        }
        p->offsets[id] = p->items[id].size ? take_gap(&g, p->items[id].size) : 0;
        if (g.top > extent) extent = g.top;
    }
    return extent;
}

/* --- by a key --- */

/* All pairs that overlap, in both directions. */
static hn_status find_edges(packer *p, uint64_t pairs) {
    uint32_t *active, active_count;
    HN_NEW(p->scratch, active, p->count);
    HN_NEW(p->scratch, p->edge_begin, (size_t)p->count + 2);
    HN_NEW(p->scratch, p->edges, 2 * pairs);
    for (int fill = 0; fill < 2; fill++) { /* first the degrees, then the edges */
        active_count = 0;
        for (uint32_t i = 0; i < p->count; i++) {
            uint32_t id = p->by_first[i].id, kept = 0;
            for (uint32_t k = 0; k < active_count; k++) {
                uint32_t other = active[k];
                if (p->items[other].last < p->items[id].first) continue;
                active[kept++] = other;
                if (fill) {
                    p->edges[p->edge_begin[other + 1]++] = id;
                    p->edges[p->edge_begin[id + 1]++] = other;
                } else {
                    p->edge_begin[other + 2]++;
                    p->edge_begin[id + 2]++;
                }
            }
            active_count = kept;
            active[active_count++] = id;
        }
        /* After this edge_begin[i + 1] is where item i begins; filling moves it to where it
         * ends. */
        for (uint32_t i = 2; !fill && i < p->count + 2; i++)
            p->edge_begin[i] += p->edge_begin[i - 1];
    }
    return NULL;
}

/* The smallest gap between the spans (sorted, may overlap) that holds `size`, or the end of the
 * last one. */
static int64_t best_gap(const span *spans, uint32_t count, int64_t size) {
    int64_t cursor = 0, best = -1, best_room = INT64_MAX;
    for (uint32_t k = 0; k < count; k++) {
        int64_t room = spans[k].begin - cursor;
        if (room >= size && room < best_room) {
            best = cursor;
            best_room = room;
        }
        if (spans[k].end > cursor) cursor = spans[k].end;
    }
    return best >= 0 ? best : cursor;
}

/* `limit`: an extent that is not worth reaching. `*out_stop`: the place in the order of the item
 * that reached it; `count` when none did. */
static int64_t place_in_order(packer *p, const rank *order, int64_t limit, uint32_t *out_stop) {
    int64_t extent = 0;
    for (uint32_t i = 0; i < p->count; i++) p->offsets[i] = -1;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t id = order[i].id, count = 0;
        p->effort += p->edge_begin[id + 1] - p->edge_begin[id] + 1;
        for (uint32_t k = p->edge_begin[id]; k < p->edge_begin[id + 1]; k++) {
            uint32_t other = p->edges[k];
            if (p->offsets[other] >= 0 && p->items[other].size)
                p->spans[count++] =
                    (span){p->offsets[other], p->offsets[other] + p->items[other].size};
        }
        sort_spans(p->spans, count);
        p->offsets[id] = p->items[id].size ? best_gap(p->spans, count, p->items[id].size) : 0;
        if (p->offsets[id] + p->items[id].size > extent)
            extent = p->offsets[id] + p->items[id].size;
        *out_stop = i;
        if (extent >= limit) return extent;
    }
    *out_stop = p->count;
    return extent;
}

typedef enum key_kind { KEY_SIZE, KEY_AREA, KEY_LIFETIME, KEY_COUNT } key_kind;

static double key_of(const hn_pack_item *item, key_kind kind) {
    double size = (double)item->size, life = (double)(item->last - item->first) + 1;
    switch (kind) {
    case KEY_AREA: return -size * life;
    case KEY_LIFETIME: return -life;
    case KEY_SIZE:
    case KEY_COUNT: break;
    }
    return -size;
}

static void keep(hn_pack_item *items, const packer *p, int64_t extent, hn_pack_result *out) {
    for (uint32_t i = 0; i < p->count; i++) items[i].offset = p->offsets[i];
    out->extent = extent;
}

static void sort_by_key(const packer *p, key_kind kind, rank *order) {
    /* Equal keys in the order of time. */
    for (uint32_t i = 0; i < p->count; i++)
        order[p->by_first[i].id] = (rank){key_of(&p->items[p->by_first[i].id], kind), i};
    qsort(order, p->count, sizeof *order, compare_ranks);
    for (uint32_t i = 0; i < p->count; i++) order[i].id = p->by_first[order[i].id].id;
}

static void move_forward(rank *order, uint32_t from, uint32_t to) {
    const rank moved = order[from];
    memmove(&order[to + 1], &order[to], (from - to) * sizeof *order);
    order[to] = moved;
}

/* One start: items that do not fit move forward, each by another part of the way. */
static void repair(packer *p, hn_pack_item *items, rank *order, uint64_t *seed,
                   hn_pack_result *out) {
    for (uint32_t round = 0; round < REPAIR_ROUNDS && out->extent > out->bound; round++) {
        uint32_t stop;
        if (p->effort > REPAIR_EFFORT) return;
        const int64_t extent = place_in_order(p, order, out->extent, &stop);
        if (stop == p->count) {
            keep(items, p, extent, out);
            round = 0;
            continue;
        }
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        move_forward(order, stop, (uint32_t)((*seed >> 33) % (stop + 1)));
    }
}

static hn_status try_orders(packer *p, hn_pack_item *items, uint64_t pairs, hn_pack_result *out) {
    rank *order, *starts;
    uint64_t seed = 1;
    uint32_t stop;
    HN_TRY(find_edges(p, pairs));
    HN_NEW(p->scratch, order, p->count);
    HN_NEW(p->scratch, starts, (size_t)KEY_COUNT * p->count);
    for (uint32_t kind = 0; kind < KEY_COUNT && out->extent > out->bound; kind++) {
        sort_by_key(p, (key_kind)kind, starts + (size_t)kind * p->count);
        int64_t extent = place_in_order(p, starts + (size_t)kind * p->count, out->extent, &stop);
        if (extent < out->extent) keep(items, p, extent, out);
    }
    for (uint32_t k = 0; k < REPAIR_STARTS && out->extent > out->bound; k++) {
        memcpy(order, starts + (size_t)(k % KEY_COUNT) * p->count, p->count * sizeof *order);
        repair(p, items, order, &seed, out);
    }
    return NULL;
}

hn_status hn_pack(hn_arena *scratch, hn_pack_item *items, uint32_t count, hn_pack_result *out) {
    packer p = {.scratch = scratch, .items = items, .count = count};
    uint64_t pairs;
    int64_t total = 0;
    *out = (hn_pack_result){0};
    if (!count) return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (items[i].size < 0 || !hn_add_i64(total, items[i].size, &total))
            return HN_ERROR(HN_UNSUPPORTED,
                            "temporary buffers of more bytes than a 64-bit number counts");
    HN_TRY(sort_by_time(&p));
    HN_NEW(scratch, p.offsets, count);
    HN_NEW(scratch, p.spans, (size_t)count + 1);
    measure(&p, &out->bound, &pairs);
    keep(items, &p, place_in_time(&p), out);
    uint64_t limit = (uint64_t)PAIRS_PER_ITEM * count;
    if (limit < PAIRS_ALWAYS) limit = PAIRS_ALWAYS;
    return out->extent > out->bound && pairs <= limit ? try_orders(&p, items, pairs, out) : NULL;
}
