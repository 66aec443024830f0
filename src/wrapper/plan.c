/* plan.c: the memory planner: places every temporary in the workspace of its device and writes the
 * memory lines. Each workspace is planned by itself.
 *
 * Sizes are constants, multiples of one symbolic term ("4096*s0"), or something else. The first two
 * are packed exactly: all constants in one region, all multiples of one term in a region of their
 * own whose unit is that term, so that one packing holds for every value of the symbol. The others
 * share slots: a slot is as large as the maximum of its buffers, as an expression, hence safe for
 * all sizes too.
 *
 * The packing itself is pack.c. */
#include "wrapper/lifetime.h"

#include "base/checked.h"
#include "wrapper/pack.h"
#include "wrapper/slots.h"

#include <stdlib.h>

enum {
    ALIGN = 64,
    /* Units of a symbolic term below which rounding to ALIGN units wastes more than 1/16. */
    TERM_UNITS_MIN = 1024,
};

typedef struct item {
    hn_wbuf buffer; /* the first of those that share the memory by REUSE */
    uint32_t first, end;
    int64_t units; /* size in the region's unit, a multiple of ALIGN */
    int64_t at;    /* result */
} item;

typedef struct region {
    hn_device_kind device;
    hn_expr term; /* 0: plain bytes */
    struct {
        item *items;
        uint32_t count, cap;
    } list;
    int64_t peak;
} region;

typedef struct slot {
    hn_device_kind device;
    hn_expr bytes;
    uint32_t end; /* of the last buffer in it */
    struct {
        item *items;
        uint32_t count, cap;
    } list;
} slot;

typedef struct planner {
    hn_wrapper *w;
    hn_sym *sym;
    hn_arena *arena;
    hn_wlives lives;
    hn_wbuf *root; /* buffers that share memory by REUSE have one root */
    hn_wlife *root_life;
    hn_expr *root_bytes;
    struct {
        region *items;
        uint32_t count, cap;
    } regions; /* the first of a device: plain bytes */
    struct {
        slot *items;
        uint32_t count, cap;
    } slots;
    struct {
        item *items;
        uint32_t count, cap;
    } odd; /* for slots */
    hn_memory_plan *plan;
} planner;

/* ---- which buffers ---- */

/* An output buffer that only feeds mutations never reaches the caller: it is a temporary. */
static hn_status demote_outputs(planner *p) {
    bool *returned;
    HN_NEW(p->arena, returned, p->w->buffers.count);
    for (uint32_t i = 0; i < p->w->outputs.count; i++)
        if (p->w->outputs.items[i].kind == HN_WOUTPUT_TENSOR)
            returned[hn_wrapper_root(p->w, p->w->outputs.items[i].buffer)] = true;
    for (uint32_t b = 1; b < p->w->buffers.count; b++)
        if (p->w->buffers.items[b].kind == HN_WBUF_OUTPUT && !returned[b])
            p->w->buffers.items[b].kind = HN_WBUF_TEMP;
    return NULL;
}

static hn_wbuf find_root(planner *p, hn_wbuf b) {
    while (p->root[b] != b) b = p->root[b] = p->root[p->root[b]];
    return b;
}

static hn_device_kind device_of(const planner *p, hn_wbuf b) {
    return p->w->buffers.items[b].device;
}
static bool is_temp(const planner *p, hn_wbuf b) {
    return b && p->w->buffers.items[b].kind == HN_WBUF_TEMP;
}

static hn_status join_reused(planner *p) {
    for (uint32_t i = 0; i < p->w->lines.count; i++) {
        const hn_line *line = &p->w->lines.items[i];
        if (line->kind != HN_LINE_REUSE) continue;
        if (!is_temp(p, line->buffer) || !is_temp(p, line->from))
            return HN_ERROR(HN_INTERNAL, "line %u: only temporaries can reuse memory", i);
        p->root[find_root(p, line->buffer)] = find_root(p, line->from);
    }
    return NULL;
}

/* Lives of different blocks are joined by going out to the whole program: reuse across blocks is
 * rare. */
static void join_life(hn_wlife *into, const hn_wlife *life, const planner *p) {
    if (!life->used) return;
    if (!into->used) {
        *into = *life;
        return;
    }
    if (into->block != life->block)
        *into = (hn_wlife){
            .used = true, .first = 0, .last = p->w->lines.count, .end = p->w->lines.count};
    if (life->first < into->first) into->first = life->first;
    if (life->last > into->last) into->last = life->last;
    if (life->end > into->end) into->end = life->end;
}

static hn_status gather_roots(planner *p) {
    HN_NEW(p->arena, p->root, p->w->buffers.count);
    HN_NEW(p->arena, p->root_life, p->w->buffers.count);
    HN_NEW(p->arena, p->root_bytes, p->w->buffers.count);
    for (uint32_t b = 0; b < p->w->buffers.count; b++) p->root[b] = b;
    HN_TRY(join_reused(p));
    for (uint32_t b = 1; b < p->w->buffers.count; b++) {
        if (!is_temp(p, b)) continue;
        hn_wbuf root = find_root(p, b);
        hn_expr bytes = hn_wrapper_placed_bytes(p->w, b);
        if (!bytes) continue; /* a slot */
        join_life(&p->root_life[root], &p->lives.buffers[b], p);
        p->root_bytes[root] =
            p->root_bytes[root] ? hn_sym_max(p->sym, p->root_bytes[root], bytes) : bytes;
    }
    return NULL;
}

/* ---- regions ---- */

static bool round_up(int64_t value, int64_t *out) {
    int64_t sum;
    if (value < 0 || !hn_add_i64(value, ALIGN - 1, &sum)) return false;
    *out = sum / ALIGN * ALIGN;
    return true;
}

static hn_status region_of(planner *p, hn_device_kind device, hn_expr term, region **out) {
    for (uint32_t i = 0; i < p->regions.count; i++) {
        *out = &p->regions.items[i];
        if ((*out)->device == device && (*out)->term == term) return NULL;
    }
    HN_PUSH(p->arena, &p->regions, ((region){.device = device, .term = term}));
    *out = &p->regions.items[p->regions.count - 1];
    return NULL;
}

static hn_status classify(planner *p, hn_wbuf b) {
    hn_expr bytes = p->root_bytes[b];
    const hn_wlife *life = &p->root_life[b];
    item it = {.buffer = b, .first = life->first, .end = life->end};
    hn_sum sum = hn_sym_sum(p->sym, bytes);
    int64_t value;
    region *r = NULL;
    if (hn_sym_is_int(p->sym, bytes, &value)) {
        if (!round_up(value, &it.units))
            return HN_ERROR(HN_INTERNAL, "buffer %u has %lld bytes", b, (long long)value);
        HN_TRY(region_of(p, device_of(p, b), 0, &r));
    } else if (sum.count == 1 && !sum.constant &&
               (sum.coeffs[0] >= TERM_UNITS_MIN || sum.coeffs[0] % ALIGN == 0) &&
               round_up(sum.coeffs[0], &it.units)) {
        HN_TRY(region_of(p, device_of(p, b), sum.terms[0], &r));
    } else {
        HN_PUSH(p->arena, &p->odd, it);
        return NULL;
    }
    HN_PUSH(p->arena, &r->list, it);
    return NULL;
}

/* ---- packing ---- */

static hn_status pack_region(planner *p, region *r) {
    hn_pack_item *items;
    hn_pack_result result;
    HN_NEW(p->arena, items, r->list.count);
    for (uint32_t i = 0; i < r->list.count; i++) {
        const item *it = &r->list.items[i];
        items[i] = (hn_pack_item){.first = it->first, .last = it->end, .size = it->units};
    }
    HN_TRY(hn_pack(p->arena, items, r->list.count, &result));
    for (uint32_t i = 0; i < r->list.count; i++) r->list.items[i].at = items[i].offset;
    r->peak = result.extent;
    return NULL;
}

/* In the order of time, so that a slot is free when its last buffer has ended. */
static int by_start(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* Prefers a slot of exactly this size, then the one nearest in size by the hints. */
static hn_status choose_slot(planner *p, const item *it) {
    hn_expr bytes = p->root_bytes[it->buffer];
    double hint = (double)hn_sym_hint(p->sym, bytes, ALIGN), best_cost = 0;
    slot *best = NULL;
    for (uint32_t s = 0; s < p->slots.count; s++) {
        slot *candidate = &p->slots.items[s];
        if (candidate->end >= it->first || candidate->device != device_of(p, it->buffer)) continue;
        double cost = (double)hn_sym_hint(p->sym, candidate->bytes, ALIGN) - hint;
        cost = candidate->bytes == bytes ? -1 : cost < 0 ? -cost : cost;
        if (!best || cost < best_cost) best = candidate, best_cost = cost;
    }
    if (!best) {
        HN_PUSH(p->arena, &p->slots, ((slot){.device = device_of(p, it->buffer), .bytes = bytes}));
        best = &p->slots.items[p->slots.count - 1];
    } else if (!hn_sym_prove_le(p->sym, bytes, best->bytes)) {
        best->bytes = hn_sym_max(p->sym, best->bytes, bytes);
    }
    best->end = it->end;
    HN_PUSH(p->arena, &best->list, *it);
    return NULL;
}

static hn_status fill_slots(planner *p) {
    if (p->odd.count) qsort(p->odd.items, p->odd.count, sizeof *p->odd.items, by_start);
    for (uint32_t i = 0; i < p->odd.count; i++) HN_TRY(choose_slot(p, &p->odd.items[i]));
    return NULL;
}

/* ---- results ---- */

static hn_expr aligned(hn_sym *sym, hn_expr bytes) {
    if (hn_sym_divisor(sym, bytes) % ALIGN == 0) return bytes;
    return hn_sym_mul(sym, hn_sym_ceildiv(sym, bytes, hn_sym_int(sym, ALIGN)),
                      hn_sym_int(sym, ALIGN));
}

static hn_expr scaled(hn_sym *sym, int64_t units, hn_expr term) {
    hn_expr number = hn_sym_int(sym, units);
    return term ? hn_sym_mul(sym, number, term) : number;
}

static hn_status lay_out_regions(planner *p) {
    for (uint32_t r = 0; r < p->regions.count; r++) {
        region *g = &p->regions.items[r];
        hn_expr *base = &p->plan->workspaces[g->device];
        HN_TRY(pack_region(p, g));
        for (uint32_t i = 0; i < g->list.count; i++)
            p->plan->offsets[g->list.items[i].buffer] =
                hn_sym_add(p->sym, *base, scaled(p->sym, g->list.items[i].at, g->term));
        *base = hn_sym_add(p->sym, *base, scaled(p->sym, g->peak, g->term));
    }
    return NULL;
}

static hn_status lay_out(planner *p) {
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        p->plan->workspaces[d] = hn_sym_int(p->sym, 0);
    HN_TRY(lay_out_regions(p));
    HN_TRY(fill_slots(p));
    for (uint32_t s = 0; s < p->slots.count; s++) {
        const slot *t = &p->slots.items[s];
        hn_expr *base = &p->plan->workspaces[t->device];
        for (uint32_t i = 0; i < t->list.count; i++)
            p->plan->offsets[t->list.items[i].buffer] = *base;
        *base = hn_sym_add(p->sym, *base, aligned(p->sym, t->bytes));
    }
    for (uint32_t b = 1; b < p->w->buffers.count; b++)
        if (is_temp(p, b)) p->plan->offsets[b] = p->plan->offsets[find_root(p, b)];
    return NULL;
}

/* The largest sum of live bytes over the lines, at the hints. */
static hn_status bound(planner *p) {
    int64_t *delta, sum = 0, most = 0;
    HN_NEW(p->arena, delta, (size_t)p->w->lines.count + 2);
    for (uint32_t b = 1; b < p->w->buffers.count; b++) {
        const hn_wlife *life = &p->root_life[b];
        int64_t bytes;
        if (!p->root_bytes[b] || !life->used ||
            !round_up(hn_sym_hint(p->sym, p->root_bytes[b], 0), &bytes))
            continue;
        delta[life->first] += bytes;
        delta[life->end + 1] -= bytes;
    }
    for (uint32_t i = 0; i <= p->w->lines.count; i++) {
        sum += delta[i];
        if (sum > most) most = sum;
    }
    p->plan->live_bound_bytes = hn_sym_int(p->sym, most);
    return NULL;
}

/* ---- memory lines ---- */

typedef struct rewriter {
    planner *p;
    /* per line: buffers that begin there; lists through per-buffer links */
    uint32_t *alloc_next, *alloc_head;
    uint32_t *free_next, *free_head; /* per line: buffers that end there */
    struct {
        hn_line *items;
        uint32_t count, cap;
    } out;
} rewriter;

static hn_status write_list(rewriter *r, const uint32_t *next, hn_wbuf buffer, hn_line_kind kind) {
    for (; buffer; buffer = next[buffer])
        HN_PUSH(r->p->w->arena, &r->out, ((hn_line){.kind = kind, .buffer = buffer}));
    return NULL;
}

static bool is_memory_line(hn_line_kind kind) {
    return kind == HN_LINE_ALLOCATE || kind == HN_LINE_FREE;
}

/* Recursion is bounded by the depth that hn_wrapper_lives accepts. */
static hn_status write_block(rewriter *r, uint32_t first, uint32_t end) {
    const hn_wrapper *w = r->p->w;
    for (uint32_t i = first; i < end; i = r->p->lives.line_end[i] + 1) {
        const hn_line *line = &w->lines.items[i];
        if (is_memory_line(line->kind)) continue;
        HN_TRY(write_list(r, r->alloc_next, r->alloc_head[i], HN_LINE_ALLOCATE));
        uint32_t at = r->out.count, middle = i + 1 + line->then_count;
        HN_PUSH(w->arena, &r->out, *line);
        if (hn_line_has_bodies(line->kind)) {
            HN_TRY(write_block(r, i + 1, middle));
            r->out.items[at].then_count = r->out.count - at - 1;
            uint32_t then_end = r->out.count;
            HN_TRY(write_block(r, middle, middle + line->otherwise_count));
            r->out.items[at].otherwise_count = r->out.count - then_end;
        }
        HN_TRY(write_list(r, r->free_next, r->free_head[i], HN_LINE_FREE));
    }
    return NULL;
}

static hn_status find_reusers(planner *p, bool **out_takes, bool **out_gives) {
    HN_NEW(p->arena, *out_takes, p->w->buffers.count);
    HN_NEW(p->arena, *out_gives, p->w->buffers.count);
    for (uint32_t i = 0; i < p->w->lines.count; i++) {
        if (p->w->lines.items[i].kind != HN_LINE_REUSE) continue;
        (*out_takes)[p->w->lines.items[i].buffer] = true;
        (*out_gives)[p->w->lines.items[i].from] = true;
    }
    return NULL;
}

static hn_status write_lines(planner *p) {
    hn_wrapper *w = p->w;
    rewriter r = {.p = p};
    bool *takes, *gives;
    HN_TRY(find_reusers(p, &takes, &gives));
    HN_NEW(p->arena, r.alloc_head, (size_t)w->lines.count + 1);
    HN_NEW(p->arena, r.free_head, (size_t)w->lines.count + 1);
    HN_NEW(p->arena, r.alloc_next, w->buffers.count);
    HN_NEW(p->arena, r.free_next, w->buffers.count);
    for (uint32_t b = w->buffers.count; b-- > 1;) {
        const hn_wlife *life = &p->lives.buffers[b];
        hn_wbuf_kind kind = w->buffers.items[b].kind;
        if (!life->used || (kind != HN_WBUF_TEMP && kind != HN_WBUF_OUTPUT)) continue;
        if (!takes[b]) r.alloc_next[b] = r.alloc_head[life->first], r.alloc_head[life->first] = b;
        if (kind == HN_WBUF_OUTPUT || gives[b] || life->last == w->lines.count) continue;
        r.free_next[b] = r.free_head[life->last];
        r.free_head[life->last] = b;
    }
    HN_TRY(write_block(&r, 0, w->lines.count));
    w->lines.items = r.out.items;
    w->lines.count = r.out.count;
    w->lines.cap = r.out.cap;
    return NULL;
}

static hn_status run(planner *p) {
    HN_TRY(demote_outputs(p));
    HN_TRY(hn_wrapper_lives(p->w, p->arena, &p->lives));
    HN_TRY(gather_roots(p));
    region *plain;
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        HN_TRY(region_of(p, (hn_device_kind)d, 0, &plain));
    for (uint32_t b = 1; b < p->w->buffers.count; b++)
        if (is_temp(p, b) && find_root(p, b) == b && p->root_life[b].used) HN_TRY(classify(p, b));
    HN_TRY(hn_wrapper_slots(p->w, &p->lives, p->arena, p->plan));
    HN_TRY(lay_out(p));
    HN_TRY(bound(p));
    HN_TRY(hn_sym_status(p->sym));
    return write_lines(p);
}

hn_status hn_wrapper_plan(hn_wrapper *w, hn_memory_plan *out) {
    hn_arena scratch;
    *out = (hn_memory_plan){0};
    HN_NEW(w->arena, out->offsets, w->buffers.count);
    hn_arena_init(&scratch);
    planner p = {.w = w, .sym = w->sym, .arena = &scratch, .plan = out};
    hn_status status = run(&p);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot plan memory");
}
