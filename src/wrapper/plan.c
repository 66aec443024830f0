/* plan.c: the memory planner: places every temporary in the workspace of its device and writes the
 * memory lines. Outputs may lie in a pool, with or without temporaries, and what begins when an
 * input that the caller gives up is needed no longer may lie in its memory (donate.c). Each
 * workspace and pool, a "space", is planned by itself.
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
#include "wrapper/plan_impl.h"
#include "wrapper/workspaces.h"

#include <stdlib.h>

/* Units of a symbolic term below which rounding to HN_PLAN_ALIGN units wastes more than 1/16. */
enum { TERM_UNITS_MIN = 1024 };

/* ---- which buffers ---- */

/* An output buffer that only feeds mutations never reaches the caller: it is a temporary. */
static hn_status demote_outputs(hn_planner *p) {
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

static hn_wbuf find_root(hn_planner *p, hn_wbuf b) {
    while (p->root[b] != b) b = p->root[b] = p->root[p->root[b]];
    return b;
}

static hn_wbuf_kind kind_of(const hn_planner *p, hn_wbuf b) { return p->w->buffers.items[b].kind; }

/* The pool of a device's outputs: these spaces come right behind the workspaces. */
static uint32_t output_space(const hn_planner *p, hn_device_kind device) {
    const uint32_t space = HN_DEVICE_KIND_COUNT + (uint32_t)device;
    return p->spaces.items[space].is_used ? space : HN_NO_SPACE;
}

/* The space of a buffer that is not joined with another one. */
static uint32_t own_space(const hn_planner *p, hn_wbuf b) {
    const hn_wbuffer *f = &p->w->buffers.items[b];
    if (hn_wbuf_is_inner(f->kind))
        return p->options->pool == HN_POOL_COMBINED ? output_space(p, f->device)
                                                    : (uint32_t)f->device;
    if (f->kind != HN_WBUF_OUTPUT || hn_wrapper_is_data(p->sym, f->bytes)) return HN_NO_SPACE;
    return output_space(p, f->device);
}

static bool is_temp(const hn_planner *p, hn_wbuf b) { return b && kind_of(p, b) == HN_WBUF_TEMP; }

static hn_status join_reused(hn_planner *p) {
    for (uint32_t i = 0; i < p->w->lines.count; i++) {
        const hn_line *line = &p->w->lines.items[i];
        if (line->kind != HN_LINE_REUSE) continue;
        const bool is_input = hn_wrapper_is_donated(p->w, line->from);
        if (!(is_temp(p, line->from) || is_input) ||
            !(is_temp(p, line->buffer) || (is_input && kind_of(p, line->buffer) == HN_WBUF_OUTPUT)))
            return HN_ERROR(HN_INTERNAL, "line %u: only temporaries can reuse memory", i);
        p->root[find_root(p, line->buffer)] = find_root(p, line->from);
    }
    return NULL;
}

/* Lives of different blocks are joined by going out to the whole program: reuse across blocks is
 * rare. */
static void join_life(hn_wlife *into, const hn_wlife *life, const hn_planner *p) {
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

static hn_status gather_roots(hn_planner *p) {
    const hn_wlife always = {.used = true, .last = p->w->lines.count, .end = p->w->lines.count};
    HN_TRY(join_reused(p));
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_wbuf root = find_root(p, b);
        const bool is_joined = kind_of(p, root) == HN_WBUF_INPUT && b != root;
        const uint32_t space = own_space(p, b);
        if ((space == HN_NO_SPACE && !is_joined) || !p->lives.buffers[b].used) continue;
        hn_expr bytes = hn_wrapper_placed_bytes(p->w, b);
        if (!bytes) continue; /* a slot */
        join_life(&p->root_life[root], &p->lives.buffers[b], p);
        if (p->options->pool == HN_POOL_NONE) p->root_life[root] = always;
        p->root_bytes[root] =
            p->root_bytes[root] ? hn_sym_max(p->sym, p->root_bytes[root], bytes) : bytes;
        p->root_space[root] = is_joined ? HN_NO_SPACE : space;
    }
    return NULL;
}

/* ---- regions ---- */

bool hn_plan_round_up(int64_t value, int64_t *out) {
    int64_t sum;
    if (value < 0 || !hn_add_i64(value, HN_PLAN_ALIGN - 1, &sum)) return false;
    *out = sum / HN_PLAN_ALIGN * HN_PLAN_ALIGN;
    return true;
}

static hn_status region_of(hn_planner *p, uint32_t space, hn_expr term, hn_region **out) {
    for (uint32_t i = 0; i < p->regions.count; i++) {
        *out = &p->regions.items[i];
        if ((*out)->space == space && (*out)->term == term) return NULL;
    }
    HN_PUSH(p->arena, &p->regions, ((hn_region){.space = space, .term = term}));
    *out = &p->regions.items[p->regions.count - 1];
    return NULL;
}

static hn_status classify(hn_planner *p, hn_wbuf b) {
    hn_expr bytes = p->root_bytes[b];
    const hn_wlife *life = &p->root_life[b];
    hn_plan_item it = {.buffer = b, .first = life->first, .end = life->end};
    hn_sum sum = hn_sym_sum(p->sym, bytes);
    int64_t value;
    hn_region *r = NULL;
    if (hn_sym_is_int(p->sym, bytes, &value)) {
        if (!hn_plan_round_up(value, &it.units))
            return HN_ERROR(HN_INTERNAL, "buffer %u has %lld bytes", b, (long long)value);
        HN_TRY(region_of(p, p->root_space[b], 0, &r));
    } else if (sum.count == 1 && !sum.constant &&
               (sum.coeffs[0] >= TERM_UNITS_MIN || sum.coeffs[0] % HN_PLAN_ALIGN == 0) &&
               hn_plan_round_up(sum.coeffs[0], &it.units)) {
        HN_TRY(region_of(p, p->root_space[b], sum.terms[0], &r));
    } else {
        HN_PUSH(p->arena, &p->odd, it);
        return NULL;
    }
    HN_PUSH(p->arena, &r->list, it);
    return NULL;
}

/* ---- packing ---- */

static hn_status pack_region(hn_planner *p, hn_region *r) {
    hn_pack_item *items;
    hn_pack_result result;
    HN_NEW(p->arena, items, r->list.count);
    for (uint32_t i = 0; i < r->list.count; i++) {
        const hn_plan_item *it = &r->list.items[i];
        items[i] = (hn_pack_item){.first = it->first, .last = it->end, .size = it->units};
    }
    HN_TRY(hn_pack(p->arena, items, r->list.count, &result));
    for (uint32_t i = 0; i < r->list.count; i++) r->list.items[i].at = items[i].offset;
    r->peak = result.extent;
    return NULL;
}

/* In the order of time, so that a slot is free when its last buffer has ended. */
static int by_start(const void *a, const void *b) {
    const hn_plan_item *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* Prefers a slot of exactly this size, then the one nearest in size by the hints. */
static hn_status choose_slot(hn_planner *p, const hn_plan_item *it) {
    hn_expr bytes = p->root_bytes[it->buffer];
    double hint = (double)hn_sym_hint(p->sym, bytes, HN_PLAN_ALIGN), best_cost = 0;
    hn_plan_slot *best = NULL;
    for (uint32_t s = 0; s < p->slots.count; s++) {
        hn_plan_slot *candidate = &p->slots.items[s];
        if (candidate->end >= it->first || candidate->space != p->root_space[it->buffer]) continue;
        double cost = (double)hn_sym_hint(p->sym, candidate->bytes, HN_PLAN_ALIGN) - hint;
        cost = candidate->bytes == bytes ? -1 : cost < 0 ? -cost : cost;
        if (!best || cost < best_cost) best = candidate, best_cost = cost;
    }
    if (!best) {
        HN_PUSH(p->arena, &p->slots,
                ((hn_plan_slot){.space = p->root_space[it->buffer], .bytes = bytes}));
        best = &p->slots.items[p->slots.count - 1];
    } else if (!hn_sym_prove_le(p->sym, bytes, best->bytes)) {
        best->bytes = hn_sym_max(p->sym, best->bytes, bytes);
    }
    best->end = it->end;
    HN_PUSH(p->arena, &best->list, *it);
    return NULL;
}

static hn_status fill_slots(hn_planner *p) {
    if (p->odd.count) qsort(p->odd.items, p->odd.count, sizeof *p->odd.items, by_start);
    for (uint32_t i = 0; i < p->odd.count; i++) HN_TRY(choose_slot(p, &p->odd.items[i]));
    return NULL;
}

/* ---- places ---- */

static hn_expr aligned(hn_sym *sym, hn_expr bytes) {
    if (hn_sym_divisor(sym, bytes) % HN_PLAN_ALIGN == 0) return bytes;
    return hn_sym_mul(sym, hn_sym_ceildiv(sym, bytes, hn_sym_int(sym, HN_PLAN_ALIGN)),
                      hn_sym_int(sym, HN_PLAN_ALIGN));
}

static hn_expr scaled(hn_sym *sym, int64_t units, hn_expr term) {
    hn_expr number = hn_sym_int(sym, units);
    return term ? hn_sym_mul(sym, number, term) : number;
}

static hn_status lay_out_regions(hn_planner *p) {
    for (uint32_t r = 0; r < p->regions.count; r++) {
        hn_region *g = &p->regions.items[r];
        hn_expr *base = &p->spaces.items[g->space].bytes;
        HN_TRY(pack_region(p, g));
        for (uint32_t i = 0; i < g->list.count; i++)
            p->root_at[g->list.items[i].buffer] =
                hn_sym_add(p->sym, *base, scaled(p->sym, g->list.items[i].at, g->term));
        *base = hn_sym_add(p->sym, *base, scaled(p->sym, g->peak, g->term));
    }
    return NULL;
}

static hn_status lay_out(hn_planner *p) {
    HN_TRY(lay_out_regions(p));
    HN_TRY(fill_slots(p));
    for (uint32_t s = 0; s < p->slots.count; s++) {
        const hn_plan_slot *t = &p->slots.items[s];
        hn_expr *base = &p->spaces.items[t->space].bytes;
        for (uint32_t i = 0; i < t->list.count; i++) p->root_at[t->list.items[i].buffer] = *base;
        *base = hn_sym_add(p->sym, *base, aligned(p->sym, t->bytes));
    }
    return NULL;
}

/* ---- results ---- */

/* Pools get their numbers; one that nothing lies in gets none. */
static hn_status list_pools(hn_planner *p) {
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        p->plan->workspaces[d] = p->spaces.items[d].bytes;
    for (uint32_t s = HN_DEVICE_KIND_COUNT; s < p->spaces.count; s++) {
        hn_plan_space *space = &p->spaces.items[s];
        if (!space->has_items) continue;
        HN_PUSH(p->w->arena, &p->plan->pool_list,
                ((hn_wpool){space->device, space->input, space->bytes}));
        space->number = p->plan->pool_list.count;
    }
    return NULL;
}

static hn_status tell_places(hn_planner *p) {
    HN_NEW(p->w->arena, p->plan->pools, p->w->buffers.count);
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++)
        if (p->root_at[b]) p->spaces.items[p->root_space[b]].has_items = true;
    HN_TRY(list_pools(p));
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_wbuf root = find_root(p, b);
        const bool is_placed = hn_wbuf_is_inner(kind_of(p, b)) || kind_of(p, b) == HN_WBUF_OUTPUT;
        if (!is_placed || !p->root_at[root] || !p->lives.buffers[b].used || p->plan->slots[b])
            continue;
        p->plan->offsets[b] = p->root_at[root];
        p->plan->pools[b] = p->spaces.items[p->root_space[root]].number;
    }
    return NULL;
}

/* The largest sum of live bytes over the lines, at the hints. */
static hn_status bound_of(hn_planner *p, uint32_t space, int64_t *delta, int64_t *out) {
    int64_t sum = 0;
    *out = 0;
    memset(delta, 0, ((size_t)p->w->lines.count + 2) * sizeof *delta);
    for (uint32_t b = 1; b < p->w->buffers.count; b++) {
        const hn_wlife *life = &p->root_life[b];
        int64_t bytes;
        if (!p->root_bytes[b] || !life->used || p->root_space[b] != space ||
            !hn_plan_round_up(hn_sym_hint(p->sym, p->root_bytes[b], 0), &bytes))
            continue;
        delta[life->first] += bytes;
        delta[life->end + 1] -= bytes;
    }
    for (uint32_t i = 0; i <= p->w->lines.count; i++) {
        sum += delta[i];
        if (sum > *out) *out = sum;
    }
    return NULL;
}

static hn_status bound(hn_planner *p) {
    int64_t *delta, all = 0, most;
    HN_NEW(p->arena, delta, (size_t)p->w->lines.count + 2);
    for (uint32_t s = 0; s < p->spaces.count; s++) {
        if (p->spaces.items[s].input) continue;
        HN_TRY(bound_of(p, s, delta, &most));
        all += most;
    }
    p->plan->live_bound_bytes = hn_sym_int(p->sym, all);
    return NULL;
}

int64_t hn_memory_plan_bytes(const hn_wrapper *w, const hn_memory_plan *plan) {
    int64_t sum = 0;
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        sum += hn_sym_hint(w->sym, plan->workspaces[d], 0);
    for (uint32_t k = 0; k < plan->pool_list.count; k++)
        if (!plan->pool_list.items[k].input)
            sum += hn_sym_hint(w->sym, plan->pool_list.items[k].bytes, 0);
    return sum;
}

/* ---- memory lines ---- */

typedef struct rewriter {
    hn_planner *p;
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
    return kind == HN_LINE_ALLOCATE || kind == HN_LINE_FREE || kind == HN_LINE_ZERO;
}

static hn_status write_zero(rewriter *r, hn_wbuf b) {
    HN_PUSH(r->p->w->arena, &r->out, ((hn_line){.kind = HN_LINE_ZERO, .buffer = b}));
    return NULL;
}

static hn_status write_zeros(rewriter *r, const hn_line *line) {
    const hn_wrapper *w = r->p->w;
    for (uint32_t k = 0; k <= line->operand_count; k++) {
        const hn_wbuf b = hn_line_workspace(w, line, k);
        if (b && w->buffers.items[b].zeroed == HN_WZEROED_EACH) HN_TRY(write_zero(r, b));
    }
    return NULL;
}

static bool is_zeroed_once(const hn_planner *p, hn_wbuf b) {
    return p->lives.buffers[b].used && p->w->buffers.items[b].zeroed == HN_WZEROED_ONCE;
}

/* In front of everything. */
static hn_status write_zeroed_once(rewriter *r) {
    const hn_wrapper *w = r->p->w;
    for (hn_wbuf b = 1; b < w->buffers.count; b++) {
        if (!is_zeroed_once(r->p, b)) continue;
        HN_PUSH(w->arena, &r->out, ((hn_line){.kind = HN_LINE_ALLOCATE, .buffer = b}));
        HN_TRY(write_zero(r, b));
    }
    return NULL;
}

/* Recursion is bounded by the depth that hn_wrapper_lives accepts. */
static hn_status write_block(rewriter *r, uint32_t first, uint32_t end) {
    const hn_wrapper *w = r->p->w;
    for (uint32_t i = first; i < end; i = r->p->lives.line_end[i] + 1) {
        const hn_line *line = &w->lines.items[i];
        if (is_memory_line(line->kind)) continue;
        HN_TRY(write_list(r, r->alloc_next, r->alloc_head[i], HN_LINE_ALLOCATE));
        HN_TRY(write_zeros(r, line));
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

static hn_status find_reusers(hn_planner *p, bool **out_takes, bool **out_gives) {
    HN_NEW(p->arena, *out_takes, p->w->buffers.count);
    HN_NEW(p->arena, *out_gives, p->w->buffers.count);
    for (uint32_t i = 0; i < p->w->lines.count; i++) {
        if (p->w->lines.items[i].kind != HN_LINE_REUSE) continue;
        (*out_takes)[p->w->lines.items[i].buffer] = true;
        (*out_gives)[p->w->lines.items[i].from] = true;
    }
    return NULL;
}

static hn_status write_lines(hn_planner *p) {
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
        if (!life->used || (!hn_wbuf_is_inner(kind) && kind != HN_WBUF_OUTPUT)) continue;
        if (is_zeroed_once(p, b)) continue;
        if (!takes[b]) r.alloc_next[b] = r.alloc_head[life->first], r.alloc_head[life->first] = b;
        if (kind == HN_WBUF_OUTPUT || gives[b] || life->last == w->lines.count) continue;
        r.free_next[b] = r.free_head[life->last];
        r.free_head[life->last] = b;
    }
    HN_TRY(write_zeroed_once(&r));
    HN_TRY(write_block(&r, 0, w->lines.count));
    w->lines.items = r.out.items;
    w->lines.count = r.out.count;
    w->lines.cap = r.out.cap;
    return NULL;
}

/* ---- all of it ---- */

/* Workspaces first, then the pools of outputs, for each device. */
static hn_status make_spaces(hn_planner *p) {
    const hn_pool_mode mode = p->options->pool;
    const bool has_pools = mode == HN_POOL_OUTPUTS || mode == HN_POOL_COMBINED;
    hn_region *plain;
    for (uint32_t s = 0; s < 2 * HN_DEVICE_KIND_COUNT; s++) {
        HN_PUSH(p->arena, &p->spaces,
                ((hn_plan_space){.bytes = hn_sym_int(p->sym, 0),
                                 .device = (hn_device_kind)(s % HN_DEVICE_KIND_COUNT),
                                 .is_used = has_pools && s >= HN_DEVICE_KIND_COUNT}));
        HN_TRY(region_of(p, s, 0, &plain));
    }
    return NULL;
}

static hn_status make_tables(hn_planner *p) {
    const uint32_t count = p->w->buffers.count;
    HN_NEW(p->arena, p->root, count);
    HN_NEW(p->arena, p->root_life, count);
    HN_NEW(p->arena, p->root_bytes, count);
    HN_NEW(p->arena, p->root_space, count);
    HN_NEW(p->arena, p->root_at, count);
    for (hn_wbuf b = 0; b < count; b++) p->root[b] = b, p->root_space[b] = HN_NO_SPACE;
    return NULL;
}

static hn_status run(hn_planner *p) {
    HN_TRY(hn_wrapper_lives(p->w, p->arena, &p->lives));
    HN_TRY(demote_outputs(p));
    HN_TRY(make_spaces(p));
    HN_TRY(make_tables(p));
    HN_TRY(gather_roots(p));
    HN_TRY(hn_plan_donate(p));
    for (uint32_t b = 1; b < p->w->buffers.count; b++)
        if (p->root_life[b].used && p->root_space[b] != HN_NO_SPACE && !p->root_at[b])
            HN_TRY(classify(p, b));
    HN_TRY(hn_wrapper_slots(p->w, &p->lives, p->arena, p->plan));
    HN_TRY(lay_out(p));
    HN_TRY(tell_places(p));
    HN_TRY(bound(p));
    HN_TRY(hn_sym_status(p->sym));
    return write_lines(p);
}

hn_status hn_wrapper_plan_with(hn_wrapper *w, const hn_plan_options *options, hn_memory_plan *out) {
    hn_arena scratch;
    *out = (hn_memory_plan){0};
    HN_NEW(w->arena, out->offsets, w->buffers.count);
    hn_arena_init(&scratch);
    hn_planner p = {.w = w, .sym = w->sym, .arena = &scratch, .options = options, .plan = out};
    hn_status status = run(&p);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot plan memory");
}

hn_status hn_wrapper_plan(hn_wrapper *w, hn_memory_plan *out) {
    return hn_wrapper_plan_with(w, &(hn_plan_options){0}, out);
}
