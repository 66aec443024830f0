/* cpu_in_place.c: which arguments of a kernel may lie in the same memory: what is written over what
 * is read.
 *
 * Argument B may be written over argument A when every element is read by the last of its readers
 * before it is written. That follows from four facts, all of which are seen in the kernel's form:
 *   1. B has one store, in phase f, that sets; every load of A has the very index expression of
 *      that store;
 *   2. each of these loads stands in phase f or an earlier one;
 *   3. no two points of the outer variables and of f's own give the same index: so all readers of
 *      an element belong to the parallel iteration, and in f to the vector, that writes it;
 *   4. a parallel iteration runs its phases one after the other, and a vector its loads before its
 *      stores. That split streams take turns between iterations does not matter, by 3. In pipelined
 *      rows the last phase of a row runs in the next row's iteration; the first one stores early,
 *      over its own row, and the last one reads a row again: both store, step by step, only what
 *      that step and all phases before have read. Scans, scatters, tiles and rows that end in an
 *      overlapping vector have an order of their own: here the answer is no.
 * Elements have one type, hence one size, and indices count from their buffer's first byte,
 * wherever an argument begins (cpu_bases.c): what holds for elements holds for bytes. A printer
 * must not promise a compiler that arguments are apart. The text is the same whether they are or
 * not. Prefetches, and the indices that are read ahead and bounded to aim them, change no result. A
 * kernel whose stores bypass the caches may be in place, too: it was measured to cost nothing. */
#include "kernel/cpu_internal.h"

enum { MAX_SYMBOLS = 16, MAX_VARS = 2 * HN_MAX_RANK };

static bool only_sizes(const hn_cpu_plan *pl, hn_expr e) {
    hn_expr symbols[MAX_SYMBOLS];
    uint32_t count = hn_sym_symbols(pl->sym, e, symbols, MAX_SYMBOLS);
    for (uint32_t k = 0; k < count && k < MAX_SYMBOLS; k++) {
        hn_symbol_kind kind = hn_sym_symbol_kind(pl->sym, symbols[k]);
        if (kind != HN_SYMBOL_SIZE && kind != HN_SYMBOL_DATA) return false;
    }
    return count <= MAX_SYMBOLS;
}

typedef struct stride {
    hn_expr step, extent;
} stride;

/* The strides of `index` over the variables that have more than one value. False when it is no sum
 * of such. */
static bool strides_of(const hn_cpu_plan *pl, const hn_kernel_phase *phase, hn_expr index,
                       stride *out, uint32_t *out_count) {
    uint32_t count = 0, total = pl->kernel->rank + phase->rank;
    for (uint32_t v = 0; v < total; v++) {
        hn_expr var =
                    v < pl->kernel->rank ? pl->kernel->vars[v] : phase->vars[v - pl->kernel->rank],
                rest;
        stride s = {.extent = hn_cpu_extent(pl, var)};
        if (!hn_sym_affine(pl->sym, index, var, &s.step, &rest) || !only_sizes(pl, s.step))
            return false;
        index = rest;
        if (!hn_sym_is_value(pl->sym, s.extent, 1)) out[count++] = s;
    }
    *out_count = count;
    return only_sizes(pl, index);
}

/* Whether no two points share an index: in some order each stride is at least the reach of all
 * before it. */
static bool is_injective(const hn_cpu_plan *pl, const hn_kernel_phase *phase, hn_expr index) {
    stride strides[MAX_VARS];
    uint32_t count;
    if (!strides_of(pl, phase, index, strides, &count)) return false;
    for (hn_expr reach = hn_sym_int(pl->sym, 1); count;) {
        uint32_t next = count;
        for (uint32_t k = 0; k < count; k++) {
            if (strides[k].step != reach && !hn_sym_prove_le(pl->sym, reach, strides[k].step))
                return false;
            if (next == count || hn_sym_prove_le(pl->sym, strides[k].step, strides[next].step))
                next = k;
        }
        reach = hn_sym_mul(pl->sym, strides[next].step, strides[next].extent);
        strides[next] = strides[--count];
    }
    return true;
}

/* The phase and the index of the only store to `b`. */
static bool only_store(const hn_cpu_plan *pl, hn_buf b, uint32_t *out_phase, hn_expr *out_index) {
    uint32_t found = 0;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
        for (uint32_t s = 0; s < phase->stores.count; s++) {
            const hn_kernel_store *store = &phase->stores.items[s];
            if (store->buffer != b) continue;
            if (store->mode != HN_STORE_SET) return false;
            *out_phase = f;
            *out_index = store->index;
            found++;
        }
    }
    return found == 1;
}

/* Facts 1 and 2, for one argument that is read. */
static bool reads_before(const hn_cpu_plan *pl, hn_buf a, uint32_t last_phase, hn_expr index) {
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_body *body = &pl->kernel->phases.items[f].body;
        for (hn_sid s = 1; s < body->count; s++)
            if (body->items[s].kind == HN_SOP_LOAD && body->items[s].buffer == a &&
                (f > last_phase || body->items[s].index != index))
                return false;
    }
    return true;
}

static bool keeps_order(const hn_cpu_plan *pl) {
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++)
        if (pl->kernel->phases.items[f].scan || pl->phases[f].loop.rest == HN_CPU_REST_OVERLAPPING)
            return false;
    return !pl->kernel->serial && pl->form != HN_CPU_TILES && pl->form != HN_CPU_TILES_WIDE;
}

/* Whether store `index` in phase `f` may be made over what is read from `from`. */
static bool may_overwrite(const hn_cpu_plan *pl, hn_buf from, hn_buf to, uint32_t f,
                          hn_expr index) {
    if (hn_cpu_writes(pl, from) || hn_cpu_dtype(pl, from) != hn_cpu_dtype(pl, to)) return false;
    return reads_before(pl, from, f, index);
}

void hn_cpu_in_place(const hn_cpu_plan *plan, const hn_buf *buffers, uint32_t count,
                     uint64_t *out_may_alias) {
    if (!keeps_order(plan)) return;
    for (uint32_t b = 0; b < count; b++) {
        uint32_t phase = 0;
        hn_expr index = 0;
        if (!only_store(plan, buffers[b], &phase, &index) ||
            !is_injective(plan, &plan->kernel->phases.items[phase], index))
            continue;
        for (uint32_t a = 0; a < count && a < 64; a++)
            if (may_overwrite(plan, buffers[a], buffers[b], phase, index))
                out_may_alias[b] |= (uint64_t)1 << a;
    }
}
