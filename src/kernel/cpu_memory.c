/* cpu_memory.c: how much a kernel writes, and which stores bypass the caches. */
#include "kernel/cpu_internal.h"

double hn_cpu_written_bytes(const hn_cpu_plan *pl) {
    double bytes = 0, rows = 1;
    for (uint32_t d = 0; d < pl->kernel->rank; d++)
        rows *= (double)hn_cpu_hint(pl, pl->kernel->vars[d], 1024);
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
        double elems = rows;
        for (uint32_t d = 0; d < phase->rank; d++)
            elems *= (double)hn_cpu_hint(pl, phase->vars[d], 1024);
        for (uint32_t k = 0; k < phase->stores.count; k++)
            bytes += elems * (double)hn_cpu_elem_bytes(pl, phase->stores.items[k].buffer);
    }
    return bytes;
}

static bool kernel_reads(const hn_cpu_plan *pl, hn_buf b) {
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_body *body = &pl->kernel->phases.items[f].body;
        for (hn_sid s = 1; s < body->count; s++)
            if (body->items[s].kind == HN_SOP_LOAD && body->items[s].buffer == b) return true;
    }
    return false;
}

/* The kernel writes so much that nobody will find it in the caches, does not read it itself, and
 * writes whole vectors in a row, of elements that have such stores. */
static bool is_nontemporal(const hn_cpu_plan *pl, const hn_kernel_store *store, hn_access access) {
    if (!pl->nontemporal || pl->kernel->serial || access != HN_ACCESS_CONTIGUOUS) return false;
    return hn_cpu_elem_bytes(pl, store->buffer) >= 2 && !hn_cpu_is_local(pl, store->buffer) &&
           !kernel_reads(pl, store->buffer);
}

/* Whether the phase has whole vectors at all: rows may be shorter. */
static bool has_vectors(const hn_cpu_phase *ph) {
    return !hn_cpu_has_lane_loop(ph->plan->form) || ph->loop.has_unrolled || ph->loop.has_single ||
           ph->loop.rest == HN_CPU_REST_OVERLAPPING;
}

void hn_cpu_choose_stores(hn_cpu_plan *pl) {
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        hn_cpu_phase *ph = &pl->phases[f];
        for (uint32_t k = 0; k < ph->phase->stores.count; k++) {
            ph->stores[k].nontemporal =
                has_vectors(ph) &&
                is_nontemporal(pl, &ph->phase->stores.items[k], ph->stores[k].access);
        }
    }
}
