/* cpu_loop.c: the loop over the lanes of a phase: how many vectors at a time, and what is done with
 * the rest of a row. */
#include "kernel/cpu_internal.h"

/* Whether the innermost loop only moves elements. */
static bool is_copy(const hn_cpu_phase *ph) {
    const hn_body *body = &ph->phase->body;
    uint32_t cost = 0;
    for (hn_sid s = 1; s < body->count; s++)
        if (ph->ops[s].live && ph->ops[s].level == ph->phase->rank)
            cost += hn_cpu_sop_cost(&body->items[s]);
    if (cost > ph->plan->facts->copy_cost_max) return false;
    return ph->phase->stores.count == 1 && !ph->phase->reduces.count;
}

/* Whether the innermost loop fetches many single elements: their loads, not a chain, are what a
 * vector waits for. */
static bool is_gather(const hn_cpu_phase *ph) {
    const hn_body *body = &ph->phase->body;
    uint32_t gathers = 0;
    for (hn_sid s = 1; s < body->count; s++)
        gathers += ph->ops[s].live && body->items[s].kind == HN_SOP_LOAD &&
                   ph->ops[s].access == HN_ACCESS_GATHER;
    return gathers >= ph->plan->facts->many_gathers;
}

/* Accumulators of a reduction; otherwise chains of ops that go on side by side. */
static uint32_t vectors_for_cost(const hn_cpu_phase *ph) {
    const hn_cpu_facts *facts = ph->plan->facts;
    if (ph->phase->reduces.count) return hn_count_for_cost(&facts->accumulators, ph->cost);
    return ph->cost >= facts->chain_cost_min && ph->cost <= facts->chain_cost_max ? 2 : 1;
}

/* `extent`: of the loop, or -1. */
static uint32_t choose_unroll(const hn_cpu_phase *ph, int64_t extent) {
    const hn_cpu_plan *pl = ph->plan;
    const hn_cpu_facts *facts = pl->facts;
    uint32_t line = facts->line_bytes / 4; /* lanes */
    bool reduces = ph->phase->reduces.count;
    if (!pl->choice.vectors && !reduces && is_gather(ph)) return 1;
    uint32_t unroll = pl->choice.vectors ? pl->choice.vectors : vectors_for_cost(ph);
    bool is_cheap = ph->cost <= facts->whole_lines_cost_max;
    bool by_lines = ph->prefetch_count || (pl->nontemporal && !reduces && is_cheap);
    if (by_lines && unroll * pl->lanes < line) unroll = line / pl->lanes;
    if (by_lines && is_copy(ph) && !ph->prefetch_count && !pl->choice.vectors)
        unroll = facts->copy_vectors;
    while (unroll > 1 && extent >= 0 && extent < (int64_t)(pl->lanes * unroll)) unroll /= 2;
    return unroll;
}

/* Whether every store of the phase may be done twice: it sets, a whole vector in a row, what the
 * phase does not read. */
static bool stores_may_repeat(const hn_cpu_phase *ph) {
    const hn_kernel_phase *phase = ph->phase;
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        const hn_kernel_store *store = &phase->stores.items[k];
        if (store->mode != HN_STORE_SET || ph->stores[k].access != HN_ACCESS_CONTIGUOUS)
            return false;
        for (hn_sid s = 1; s < phase->body.count; s++)
            if (phase->body.items[s].kind == HN_SOP_LOAD &&
                phase->body.items[s].buffer == store->buffer)
                return false;
    }
    return true;
}

/* Whether the last vector of a row may begin where the row still has a whole one, and do some
 * elements again. It does where lanes are collected or skip elements: single ones cost as much as
 * vectors there. No result may depend on how often an element is computed; kernels in which this is
 * done are never in place (cpu_in_place.c). */
static bool overlaps(const hn_cpu_phase *ph, int64_t extent) {
    const hn_cpu_plan *pl = ph->plan;
    const hn_kernel_phase *phase = ph->phase;
    /* rank 0: threads may share a row */
    if (pl->kernel->rank == 0 || extent < pl->lanes || extent % pl->lanes == 0) return false;
    if (phase->reduces.count || phase->columns.count || phase->scan || pl->nontemporal ||
        ph->prefetch_count || !stores_may_repeat(ph))
        return false;
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (ph->ops[s].live && phase->body.items[s].kind == HN_SOP_LOAD &&
            ph->ops[s].access >= HN_ACCESS_STRIDED)
            return true;
    return false;
}

static uint32_t maybe_empty(const hn_cpu_phase *ph) {
    uint32_t bits = 0;
    for (uint32_t d = 0; d < ph->phase->rank; d++) {
        int64_t lo, hi;
        hn_sym_range(ph->plan->sym, hn_cpu_extent(ph->plan, ph->phase->vars[d]), &lo, &hi);
        bits |= (uint32_t)(lo <= 0) << d;
    }
    return bits;
}

void hn_cpu_choose_loop(hn_cpu_phase *ph) {
    hn_cpu_lane_loop *loop = &ph->loop;
    uint32_t lanes = ph->plan->lanes;
    const hn_expr elems = hn_cpu_extent(ph->plan, ph->lane);
    int64_t extent = hn_cpu_known(ph->plan, elems);
    loop->unroll = choose_unroll(ph, extent);
    if (extent == 0) extent = -1; /* the body is there all the same: it names the buffers */
    uint32_t step = lanes * loop->unroll;
    loop->has_unrolled = loop->unroll > 1 && !(extent >= 0 && extent < step);
    loop->has_single =
        !(extent >= 0 && (extent < lanes || (loop->unroll > 1 && extent % step == 0)));
    const int64_t divisor = hn_sym_divisor(ph->plan->sym, elems);
    loop->rest = divisor && divisor % lanes == 0 ? HN_CPU_REST_NONE : HN_CPU_REST_MASKED;
    if (overlaps(ph, extent)) loop->rest = HN_CPU_REST_OVERLAPPING, loop->has_single = false;
    ph->maybe_empty = maybe_empty(ph);
}
