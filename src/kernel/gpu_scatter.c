/* gpu_scatter.c: scatters, by many threads. Indices from data may meet. Two kinds of layouts:
 *
 * - Atomic: a thread for each element that is scattered. Those that meet combine one after the
 *   other in any order, so that sums of floats may differ in their last bits from run to run.
 * - Parts: an element that is written belongs to one thread, which comes to all that is scattered
 *   there, in order. So results are those of one thread, bit for bit. A thread has a point of the
 *   variables that follow from the element (the columns of an embedding's gradient), and one of
 *   `parts` parts of what data decides (its rows). It walks over all other variables, looks at
 *   each index, and passes over those of other parts:
 *       thread = part * columns + column
 *       for k in [0, indices) { row = checked index k; if row % parts == part { add } }
 *   Threads that are neighbours have neighbouring columns. An index is read once for each part,
 *   most often from a cache; with `parts` parts a thread has to wait for that many times fewer
 *   elements. */
#include "kernel/gpu_costs.h"
#include "kernel/gpu_names.h"

#include <string.h>

typedef hn_gpu_planner planner;
typedef hn_gpu_layout layout;

enum { DIGITS_MAX = 2 * HN_MAX_RANK, GROUP = 256, SHORT_GROUP = 64, UNROLL = 4 };

/* Rough, for comparisons: instructions of a look at an index that belongs to another part, and how
 * long the threads of a warp take for one if nothing else holds them up. One more atomic operation
 * on the same element. */
enum { LOOK_OPS = 8 };
static const double look_ns = 4, meet_ns = 2;

/* ---- what an element tells ---- */

/* A symbol of the index of a store, and how far apart the elements of neighbouring values are. */
typedef struct digit {
    hn_expr symbol, pitch;
} digit;

typedef struct digits {
    digit items[DIGITS_MAX]; /* the least pitch first */
    uint32_t count;
} digits;

static bool is_of_sizes(const planner *pl, hn_expr e) {
    hn_expr symbols[DIGITS_MAX];
    const uint32_t count = hn_sym_symbols(pl->sym, e, symbols, DIGITS_MAX);
    for (uint32_t k = 0; k < count && k < DIGITS_MAX; k++) {
        const hn_symbol_kind kind = hn_sym_symbol_kind(pl->sym, symbols[k]);
        if (kind == HN_SYMBOL_INDEX || kind == HN_SYMBOL_INDIRECT) return false;
    }
    return count <= DIGITS_MAX;
}

static double hint(const planner *pl, hn_expr e) { return (double)hn_sym_hint(pl->sym, e, 1024); }

static void add_digit(const planner *pl, digits *all, digit d) {
    uint32_t at = all->count++;
    for (; at > 0 && hint(pl, all->items[at - 1].pitch) > hint(pl, d.pitch); at--)
        all->items[at] = all->items[at - 1];
    all->items[at] = d;
}

static bool list_digits(const planner *pl, hn_expr index, digits *out) {
    hn_expr symbols[DIGITS_MAX];
    const uint32_t count = hn_sym_symbols(pl->sym, index, symbols, DIGITS_MAX);
    for (uint32_t k = 0; k < count && k < DIGITS_MAX; k++) {
        digit d = {.symbol = symbols[k]};
        hn_expr rest;
        if (is_of_sizes(pl, d.symbol)) continue;
        if (!hn_sym_affine(pl->sym, index, d.symbol, &d.pitch, &rest) || !is_of_sizes(pl, d.pitch))
            return false;
        add_digit(pl, out, d);
    }
    return count <= DIGITS_MAX;
}

/* Whether each element of the store tells what all symbols of its index are: as the digits of a
 * number, each is worth more than all values of those below it. */
static bool tells_symbols(const planner *pl, hn_expr index, digits *out) {
    hn_expr span = hn_gpu_num(pl, 1);
    out->count = 0;
    if (!list_digits(pl, index, out)) return false;
    for (uint32_t k = 0; k < out->count; k++) {
        const digit *d = &out->items[k];
        if (!hn_sym_prove_le(pl->sym, span, d->pitch)) return false;
        span = hn_sym_mul(pl->sym, d->pitch, hn_gpu_extent(pl, d->symbol));
    }
    return true;
}

/* How threads share out a scatter. */
typedef struct shares {
    hn_expr own[HN_MAX_RANK], walked[HN_MAX_RANK]; /* variables of a thread; those it walks over */
    uint32_t own_count, walked_count;
    hn_expr key,
        keys; /* elements of different parts differ in key % parts; how many keys: 0: none */
} shares;

static bool has_digit(const digits *all, hn_expr symbol) {
    for (uint32_t k = 0; k < all->count; k++)
        if (all->items[k].symbol == symbol) return true;
    return false;
}

/* The checked indices, row-major. */
static void add_keys(const planner *pl, const digits *all, shares *out) {
    for (uint32_t k = all->count; k-- > 0;) {
        const hn_expr symbol = all->items[k].symbol, extent = hn_gpu_extent(pl, symbol);
        if (hn_sym_symbol_kind(pl->sym, symbol) != HN_SYMBOL_INDIRECT) continue;
        out->key =
            out->key ? hn_sym_add(pl->sym, hn_sym_mul(pl->sym, out->key, extent), symbol) : symbol;
        out->keys = out->keys ? hn_sym_mul(pl->sym, out->keys, extent) : extent;
    }
}

static shares shares_of(const planner *pl) {
    const hn_kernel_phase *phase = &pl->k->phases.items[0];
    const hn_kernel_store *store = &phase->stores.items[0];
    digits all;
    const bool tells = tells_symbols(pl, store->index, &all);
    shares out = {0};
    for (uint32_t d = 0; d < phase->rank; d++) {
        if (tells && has_digit(&all, phase->vars[d])) out.own[out.own_count++] = phase->vars[d];
        else out.walked[out.walked_count++] = phase->vars[d];
    }
    if (tells) {
        add_keys(pl, &all, &out);
    } else { /* the element itself */
        out.key = store->index;
        out.keys = pl->p->buffers.items[store->buffer].extent;
    }
    return out;
}

/* ---- the layouts ---- */

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

static hn_dtype dtype_of(const planner *pl, const hn_kernel_store *store) {
    return pl->p->buffers.items[store->buffer].dtype;
}

/* Whether processors have an instruction for it; others are repeated until no thread came
 * between. */
static bool is_one_instruction(const planner *pl, const hn_kernel_store *store) {
    const bool is_word = hn_gpu_size_of(pl, store->buffer) >= 4,
               is_float = hn_dtype_is_float(dtype_of(pl, store));
    return is_word && (store->mode == HN_STORE_ADD || (!is_float && store->mode != HN_STORE_MUL));
}

static double atomic_ns(const planner *pl, double elems) {
    const hn_kernel_store *store = &pl->k->phases.items[0].stores.items[0];
    const hn_gpu_facts *facts = pl->facts;
    double each = is_one_instruction(pl, store) ? meet_ns : facts->latency_ns,
           places = most(1, hint(pl, pl->p->buffers.items[store->buffer].extent));
    if (store->mode == HN_STORE_SET) each = 0;
    return facts->launch_ns + 2 * facts->latency_ns + 2 * pl->work.bytes / facts->bytes_per_ns +
           elems / places * each;
}

static double parts_ns(const planner *pl, double own, double walked, double parts) {
    const hn_gpu_facts *facts = pl->facts;
    const double issued = walked * LOOK_OPS * own * parts / facts->ops_per_ns,
                 looks = parts > 1 ? most(issued, walked * look_ns) : 0,
                 mixed = least(parts, most(1, facts->warp / own)), /* parts of one warp */
        hits = walked / parts * mixed;
    return facts->launch_ns + looks + hits * facts->latency_ns / 2 +
           pl->work.bytes / facts->cache_bytes_per_ns;
}

static uint32_t group_for(const planner *pl, double threads) {
    const bool is_short = threads < (double)GROUP * pl->facts->multiprocessors;
    const uint32_t group = is_short ? SHORT_GROUP : GROUP;
    return group < pl->facts->threads_max ? group : pl->facts->threads_max;
}

/* What threads share, at the hints. */
typedef struct scatter_info {
    double own, walked, keys;
    bool may_meet;
} scatter_info;

static scatter_info info_of(const planner *pl) {
    const hn_kernel_store *store = &pl->k->phases.items[0].stores.items[0];
    const shares s = shares_of(pl);
    return (scatter_info){.own = most(1, hint(pl, hn_gpu_extents(pl, s.own, s.own_count))),
                          .walked = hint(pl, hn_gpu_extents(pl, s.walked, s.walked_count)),
                          .keys = s.key ? hint(pl, s.keys) : 1,
                          .may_meet = !pl->k->in_order &&
                                      hn_gpu_size_of(pl, store->buffer) <= pl->facts->atomic_bytes};
}

static double expected_ns(const planner *pl, const scatter_info *info, uint32_t parts) {
    return parts ? parts_ns(pl, info->own, info->walked, parts)
                 : atomic_ns(pl, info->own * info->walked);
}

/* A layout that somebody names, whatever sizes are expected. */
static uint32_t list_wished(const planner *pl, const scatter_info *info, layout l, layout *items) {
    uint32_t count = 0;
    const bool is_right = l.parts ? hn_gpu_is_power_of_two(l.parts) : info->may_meet;
    if (!is_right || !hn_gpu_is_power_of_two(l.width) || l.width > pl->facts->threads_max) return 0;
    const layout plain = {.width = l.width, .parts = l.parts, .ns = expected_ns(pl, info, l.parts)};
    hn_gpu_keep_layout(pl, items, &count, plain);
    return count;
}

uint32_t hn_gpu_list_scatter(planner *pl, layout items[HN_GPU_PLANS_MAX]) {
    const scatter_info info = info_of(pl);
    const double room = (double)pl->facts->multiprocessors * pl->facts->resident;
    uint32_t count = 0;
    if (hn_gpu_wished(pl)) return list_wished(pl, &info, *hn_gpu_wished(pl), items);
    if (info.may_meet) {
        const uint32_t width = group_for(pl, info.own * info.walked);
        hn_gpu_keep_layout(pl, items, &count,
                           (layout){.width = width, .ns = expected_ns(pl, &info, 0)});
    }
    for (uint32_t parts = 1; parts == 1 || (parts / 2 < info.keys && info.own * parts <= room);
         parts *= 2)
        hn_gpu_keep_layout(pl, items, &count,
                           (layout){.width = group_for(pl, info.own * parts),
                                    .parts = parts,
                                    .ns = expected_ns(pl, &info, parts)});
    return count;
}

/* ---- forms ---- */

/* Thread number `at` of those that there are; closed by hn_form_close. */
static hn_expr open_threads(planner *pl, hn_expr count) {
    const hn_expr width = hn_gpu_num(pl, pl->layout->width),
                  at = hn_sym_add(pl->sym, hn_sym_mul(pl->sym, pl->f->group, width), pl->f->thread);
    if (hn_sym_divisor(pl->sym, count) % pl->layout->width == 0) hn_form_block(pl->f);
    else hn_form_if(pl->f, at, count);
    return at;
}

static hn_status begin_form(planner *pl, hn_arena *arena, hn_expr threads) {
    const uint32_t width = pl->layout->width;
    HN_TRY(hn_form_create(pl->p, arena, width,
                          hn_sym_ceildiv(pl->sym, threads, hn_gpu_num(pl, width)), &pl->f));
    return hn_gpu_begin_phase(pl, &pl->k->phases.items[0]);
}

/* The ops that the phase needs, or of these only those that `which` has, or only the others. */
static void emit_ops(planner *pl, const bool *which, bool has) {
    for (hn_sid s = 1; s < pl->phase->body.count; s++)
        if (pl->live[s] && (!which || which[s] == has)) hn_gpu_emit_sop(pl, s);
}

static void emit_store(planner *pl, bool is_atomic) {
    const hn_kernel_store *store = &pl->phase->stores.items[0];
    hn_expr index = store->index;
    hn_fmem memory = hn_gpu_place(pl, store->buffer, true, &index);
    hn_form_scatter(pl->f, memory, index, pl->values[store->value], store->mode, is_atomic);
}

static hn_status plan_atomic(planner *pl, hn_arena *arena) {
    const hn_kernel_phase *phase = &pl->k->phases.items[0];
    const hn_expr elems = hn_gpu_extents(pl, phase->vars, phase->rank);
    HN_TRY(begin_form(pl, arena, elems));
    hn_gpu_emit_coordinates(pl, open_threads(pl, elems), phase->vars, phase->rank);
    emit_ops(pl, NULL, true);
    emit_store(pl, true);
    hn_form_close(pl->f);
    return NULL;
}

/* The ops that the key needs. */
static hn_status mark_early(planner *pl, hn_expr key, bool **out) {
    bool *all = pl->live;
    HN_NEW(pl->scratch, pl->live, pl->phase->body.count + 1);
    hn_gpu_mark_index(pl, key);
    *out = pl->live;
    pl->live = all;
    return NULL;
}

/* Looks at the key first: all else is for elements of the own part. */
static hn_status emit_picked(planner *pl, const shares *s, hn_expr part) {
    const hn_expr parts = hn_gpu_num(pl, pl->layout->parts), one = hn_gpu_num(pl, 1),
                  found = hn_form_symbol(pl->f, parts);
    bool *early;
    HN_TRY(mark_early(pl, s->key, &early));
    emit_ops(pl, early, true);
    hn_form_let(pl->f, found, hn_sym_mod(pl->sym, s->key, parts));
    hn_form_if(pl->f, found, hn_sym_add(pl->sym, part, one));
    hn_form_if(pl->f, part, hn_sym_add(pl->sym, found, one));
    emit_ops(pl, early, false);
    emit_store(pl, false);
    hn_form_close(pl->f);
    hn_form_close(pl->f);
    return NULL;
}

static void open_walk(planner *pl, const shares *s) {
    for (uint32_t d = 0; d < s->walked_count; d++)
        (void)hn_form_add(pl->f, (hn_form_stmt){.kind = HN_FORM_FOR,
                                                .var = s->walked[d],
                                                .begin = hn_gpu_num(pl, 0),
                                                .end = hn_gpu_extent(pl, s->walked[d]),
                                                .step = 1,
                                                .unroll = d + 1 == s->walked_count ? UNROLL : 0});
}

static hn_status plan_parts(planner *pl, hn_arena *arena) {
    const shares s = shares_of(pl);
    const hn_expr parts = hn_gpu_num(pl, pl->layout->parts);
    hn_expr own = hn_gpu_extents(pl, s.own, s.own_count), part = 0;
    HN_TRY(begin_form(pl, arena, hn_sym_mul(pl->sym, own, parts)));
    hn_expr at = open_threads(pl, hn_sym_mul(pl->sym, own, parts));
    if (hn_sym_is_value(pl->sym, own, 0)) own = hn_gpu_num(pl, 1); /* there are no threads */
    if (pl->layout->parts > 1) {
        part = hn_form_symbol(pl->f, parts);
        hn_form_let(pl->f, part, hn_sym_floordiv(pl->sym, at, own));
        at = hn_sym_mod(pl->sym, at, own);
    }
    hn_gpu_emit_coordinates(pl, at, s.own, s.own_count);
    open_walk(pl, &s);
    if (part) {
        HN_TRY(emit_picked(pl, &s, part));
    } else {
        emit_ops(pl, NULL, true);
        emit_store(pl, false);
    }
    for (uint32_t d = 0; d < s.walked_count; d++) hn_form_close(pl->f);
    hn_form_close(pl->f);
    return NULL;
}

hn_status hn_gpu_plan_scatter(planner *pl, hn_arena *arena) {
    return pl->layout->parts ? plan_parts(pl, arena) : plan_atomic(pl, arena);
}
