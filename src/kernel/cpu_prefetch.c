/* cpu_prefetch.c: prefetches: what a kernel asks of memory before it needs it.
 *
 * The processor's own prefetchers follow a stream within a page of 4 KiB, and a window of
 * instructions that is full of arithmetic does not reach far ahead. So kernels whose data is not in
 * the caches prefetch it:
 * - a kernel of rows in several phases prefetches, in its costliest phase, what the phases will
 *   load some KiB later;
 * - one of slabs from memory has several arrays to read: its phases share them, so that memory has
 *   work all the time, and they come into the second cache, as the first one is full of the row at
 *   hand and of the columns' partial results;
 * - rows that an index picks (an embedding) are prefetched as soon as their index can be read; of a
 *   row that a gather reads here and there, all of the row a few rows on;
 * - a flat kernel of several operands prefetches them some elements ahead: rows of memory banks
 *   stay open longer.
 * An address may be past the end of a buffer: prefetching it does nothing.
 * Source: bench_ceilings, the loops "ahead" against "no prefetches". */
#include "kernel/cpu_internal.h"

/* The phase that prefetches, and for which row. */
typedef struct prefetcher {
    hn_cpu_phase *ph;
    const hn_cpu_plan *pl;
    hn_sym *sym;
    int64_t rows; /* ahead */
} prefetcher;

static bool is_plain(const hn_cpu_plan *pl, const hn_kernel_phase *phase) {
    return phase->rank == 1 && !phase->scan && phase->vars[0] &&
           pl->kernel->mode == HN_VECTOR_INNER;
}

/* The phase in which a kernel of several prefetches its next rows. */
static const hn_kernel_phase *busiest(const hn_cpu_plan *pl) {
    const hn_kernel_phase *best = NULL,
                          *last = &pl->kernel->phases.items[pl->kernel->phases.count - 1];
    uint32_t most = 0;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
        uint32_t cost = hn_cpu_phase_cost(phase);
        if (is_plain(pl, phase) && cost >= pl->facts->busy_cost && cost > most)
            best = phase, most = cost;
    }
    return best ? best : is_plain(pl, last) && !last->reduces.count ? last : NULL;
}

/* The element that will bind indirect symbol `s` some rows on. False when it is not one of an array
 * that only this row's number picks. */
static bool source_of(const prefetcher *a, hn_sid s, hn_cpu_index_ahead *out) {
    const hn_body *body = &a->ph->phase->body;
    const hn_sop *op = &body->items[body->items[s].args[0]];
    if (op->kind == HN_SOP_CAST && hn_dtype_is_int(body->items[op->args[0]].dtype))
        op = &body->items[op->args[0]];
    hn_expr outer = a->pl->kernel->vars[a->pl->kernel->rank - 1], pitch, rest;
    if (op->kind != HN_SOP_LOAD || hn_cpu_is_local(a->pl, op->buffer) ||
        hn_cpu_writes(a->pl, op->buffer))
        return false;
    if (hn_cpu_uses_lane(a->ph, op->index) ||
        !hn_sym_affine(a->sym, op->index, outer, &pitch, &rest))
        return false;
    if (hn_sym_is_value(a->sym, pitch, 0)) return false;
    for (hn_sid q = 1; q < body->count; q++)
        if (body->items[q].kind == HN_SOP_INDIRECT &&
            hn_sym_uses(a->sym, op->index, body->items[q].index))
            return false;
    hn_expr last = hn_sym_sub(a->sym, hn_cpu_extent(a->pl, outer), hn_sym_int(a->sym, 1));
    hn_expr row = hn_sym_min(a->sym, hn_sym_add(a->sym, outer, hn_sym_int(a->sym, a->rows)), last);
    hn_expr index = hn_sym_add(a->sym, rest, hn_sym_mul(a->sym, pitch, row));
    *out = (hn_cpu_index_ahead){.op = s, .buffer = op->buffer, .access = op->index, .index = index};
    return index != 0;
}

/* A gathered index as the lane's number, so that the whole row is prefetched; 0: the row is too
 * long for the elements used. */
static hn_expr without_gather(const prefetcher *a, const hn_sop *op, hn_expr e) {
    hn_expr coeff, rest;
    int64_t wide = hn_sym_hint(a->sym, hn_sym_symbol_extent(a->sym, op->index), INT32_MAX);
    int64_t seen = hn_cpu_hint(a->pl, a->ph->lane, 0);
    if (wide > a->pl->facts->gather_sparseness * seen ||
        !hn_sym_affine(a->sym, e, op->index, &coeff, &rest))
        return 0;
    return hn_sym_is_value(a->sym, coeff, 1) ? hn_sym_add(a->sym, rest, a->ph->lane) : 0;
}

/* What takes the place of the indirect symbols in an index; 0: it cannot be known ahead. */
static hn_expr without_indirect(const prefetcher *a, const hn_body *body, hn_expr e,
                                bool *out_by_index) {
    for (hn_sid q = 1; q < body->count; q++) {
        const hn_sop *op = &body->items[q];
        hn_cpu_index_ahead from;
        if (op->kind != HN_SOP_INDIRECT || !hn_sym_uses(a->sym, e, op->index)) continue;
        if (body != &a->ph->phase->body) return 0;
        if (a->ph->ops[q].varying) {
            if (!(e = without_gather(a, op, e))) return 0;
            continue;
        }
        if (!source_of(a, q, &from)) return 0;
        *out_by_index = true;
    }
    return e;
}

/* The element that a load of `body` will want in its turn; 0: none worth asking for. */
static hn_expr wanted(const prefetcher *a, const hn_body *body, const hn_sop *op) {
    hn_expr step, pitch, rest, e = op->index;
    bool by_index = false;
    if (op->kind != HN_SOP_LOAD || hn_cpu_is_local(a->pl, op->buffer)) return 0;
    if (a->pl->form == HN_CPU_FLAT) {
        bool moves = hn_cpu_access_of(a->ph, e, &step) == HN_ACCESS_CONTIGUOUS;
        return moves ? hn_sym_add(a->sym, e, hn_sym_int(a->sym, a->rows)) : 0;
    }
    e = without_indirect(a, body, e, &by_index);
    if (!e || hn_cpu_access_of(a->ph, e, &step) != HN_ACCESS_CONTIGUOUS) return 0;
    if (!hn_sym_affine(a->sym, e, a->pl->kernel->vars[a->pl->kernel->rank - 1], &pitch, &rest))
        return 0;
    if (hn_sym_is_value(a->sym, pitch, 0) && !by_index) return 0;
    return hn_sym_add(a->sym, e, hn_sym_mul(a->sym, pitch, hn_sym_int(a->sym, a->rows)));
}

/* Each line of memory is prefetched once. */
static void add(const prefetcher *a, hn_cpu_prefetch request) {
    hn_cpu_phase *ph = a->ph;
    uint32_t line = a->pl->facts->line_bytes,
             bytes = (uint32_t)hn_cpu_elem_bytes(a->pl, request.buffer),
             vector = bytes * a->pl->lanes;
    if (ph->prefetch_count == HN_CPU_PREFETCHES_MAX) return;
    for (uint32_t k = 0; k < ph->prefetch_count && request.fetch != HN_FETCH_WRITE; k++)
        if (ph->prefetches[k].buffer == request.buffer && ph->prefetches[k].index == request.index)
            return;
    request.line_elems = line / bytes;
    request.lines = vector < line ? 1 : vector / line;
    request.every = vector < line ? line / vector : 1;
    ph->prefetches[ph->prefetch_count++] = request;
}

/* What later phases write into this row: with ordinary stores a line is first brought near. */
static void list_written(const prefetcher *a) {
    for (uint32_t f = 1; f < a->pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &a->pl->kernel->phases.items[f];
        if (phase <= a->ph->phase || !is_plain(a->pl, phase)) continue;
        for (uint32_t k = 0; k < phase->stores.count; k++) {
            const hn_kernel_store *st = &phase->stores.items[k];
            hn_expr step;
            if (hn_cpu_is_local(a->pl, st->buffer) ||
                hn_cpu_access_of(a->ph, st->index, &step) != HN_ACCESS_CONTIGUOUS)
                continue;
            add(a, (hn_cpu_prefetch){.buffer = st->buffer,
                                     .index = st->index,
                                     .access = st->index,
                                     .fetch = HN_FETCH_WRITE});
        }
    }
}

/* The kernel's list. */
static void list_wanted(const prefetcher *a) {
    a->ph->prefetch_count = 0;
    for (uint32_t f = 0; f < a->pl->kernel->phases.count; f++) {
        const hn_body *body = &a->pl->kernel->phases.items[f].body;
        for (hn_sid s = 1; s < body->count; s++) {
            hn_expr e = wanted(a, body, &body->items[s]);
            if (e)
                add(a, (hn_cpu_prefetch){.buffer = body->items[s].buffer,
                                         .index = e,
                                         .access = body->items[s].index});
        }
    }
    if (!a->pl->nontemporal && a->pl->kernel->phases.count > 1) list_written(a);
}

/* How many rows make up the distance. */
static int64_t rows_ahead(const prefetcher *a) {
    const hn_cpu_facts *facts = a->pl->facts;
    int64_t elems = hn_cpu_hint(a->pl, a->ph->lane, 1024), row = 0;
    for (uint32_t k = 0; k < a->ph->prefetch_count; k++)
        row += elems * hn_cpu_elem_bytes(a->pl, a->ph->prefetches[k].buffer);
    bool picked = a->pl->kernel->phases.count == 1 && hn_cpu_has_indirect(a->ph->phase);
    int64_t distance = !a->pl->nontemporal ? facts->ahead_cached_bytes
                       : picked            ? facts->ahead_picked_bytes
                                           : facts->ahead_memory_bytes;
    int64_t rows = !row ? 1 : distance / row;
    if (a->pl->choice.ahead) return a->pl->choice.ahead;
    return rows < 1 ? 1 : rows > facts->rows_ahead_max ? facts->rows_ahead_max : rows;
}

/* Whether all phases of a kernel of slabs share the prefetches: they are loops over the same rows. */
static bool phases_share(const hn_cpu_plan *pl) {
    hn_expr lane = 0;
    if (pl->form != HN_CPU_ROWS_SLABS || !pl->nontemporal) return false;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
        if (hn_cpu_has_indirect(phase)) return false;
        if (!is_plain(pl, phase)) continue;
        if (lane && phase->vars[0] != lane) return false;
        lane = phase->vars[0];
    }
    return lane != 0;
}

/* Every so manieth is this phase's. */
static void keep_share(hn_cpu_phase *ph) {
    uint32_t phases = 0, own = 0, kept = 0;
    for (uint32_t f = 0; f < ph->plan->kernel->phases.count; f++) {
        if (&ph->plan->phases[f] == ph) own = phases;
        phases += is_plain(ph->plan, &ph->plan->kernel->phases.items[f]);
    }
    for (uint32_t k = own; k < ph->prefetch_count; k += phases) {
        ph->prefetches[kept] = ph->prefetches[k];
        ph->prefetches[kept++].fetch = HN_FETCH_FAR;
    }
    ph->prefetch_count = kept;
}

/* Few rows, or rows that the first cache holds, are there before a prefetch has helped. */
static bool has_many_rows(const hn_cpu_plan *pl) {
    const int64_t rows = hn_cpu_hint(pl, pl->kernel->vars[pl->kernel->rank - 1], 1024);
    return rows >= pl->facts->picked_rows_min &&
           pl->written_bytes > (double)pl->facts->first_cache_bytes;
}

/* Whether the phase is where a kernel of rows asks. What the first cache holds needs no asking;
 * what the others hold is worth it under arithmetic only. */
static bool prefetches_here(const hn_cpu_phase *ph) {
    const hn_cpu_plan *pl = ph->plan;
    if (!pl->kernel->rank || !is_plain(pl, ph->phase)) return false;
    if (phases_share(pl)) return true;
    if (pl->choice.ahead) return pl->kernel->phases.count == 1 || ph->phase == busiest(pl);
    if (pl->kernel->phases.count == 1)
        return pl->nontemporal || (hn_cpu_has_indirect(ph->phase) && has_many_rows(pl));
    if (ph->phase != busiest(pl)) return false;
    return pl->nontemporal || (pl->written_bytes > (double)pl->facts->first_cache_bytes &&
                               ph->cost >= pl->facts->busy_cost);
}

/* The index of a row ahead, for each INDIRECT that is one number for the row. */
static hn_status list_indices_ahead(const prefetcher *a) {
    const hn_body *body = &a->ph->phase->body;
    for (hn_sid s = 1; s < body->count; s++) {
        bool used = false;
        hn_cpu_index_ahead from = {0};
        if (body->items[s].kind != HN_SOP_INDIRECT) continue;
        for (uint32_t k = 0; k < a->ph->prefetch_count; k++)
            used |= hn_sym_uses(a->sym, a->ph->prefetches[k].index, body->items[s].index);
        if (used && source_of(a, s, &from)) HN_PUSH(a->pl->arena, &a->ph->indices_ahead, from);
    }
    return NULL;
}

/* Of a flat kernel the distance is in elements. */
static hn_status choose_flat(hn_cpu_phase *ph, prefetcher *a) {
    a->rows = a->pl->choice.ahead ? a->pl->choice.ahead : a->pl->facts->ahead_flat_elems;
    if (!a->pl->choice.ahead && !a->pl->nontemporal) return NULL;
    list_wanted(a);
    if (ph->prefetch_count < 2) ph->prefetch_count = 0; /* a single stream is followed without */
    ph->ahead = ph->prefetch_count ? (uint32_t)a->rows : 0;
    return NULL;
}

static hn_status choose_rows(hn_cpu_phase *ph, prefetcher *a) {
    const hn_cpu_plan *pl = ph->plan;
    if (!prefetches_here(ph)) return NULL;
    list_wanted(a);
    bool one_pass = pl->kernel->phases.count == 1 && !hn_cpu_has_indirect(ph->phase);
    if (one_pass && ph->prefetch_count < 2) ph->prefetch_count = 0;
    if (!ph->prefetch_count) return NULL;
    a->rows = rows_ahead(a);
    list_wanted(a);
    if (phases_share(pl)) keep_share(ph);
    ph->ahead = (uint32_t)a->rows;
    return list_indices_ahead(a);
}

hn_status hn_cpu_choose_prefetches(hn_cpu_phase *ph) {
    const hn_cpu_plan *pl = ph->plan;
    prefetcher a = {.ph = ph, .pl = pl, .sym = pl->sym, .rows = 1};
    if (pl->kernel->serial || pl->choice.ahead == HN_CPU_AHEAD_NONE) return NULL;
    return pl->form == HN_CPU_FLAT ? choose_flat(ph, &a) : choose_rows(ph, &a);
}
