/* in_place.c: which arguments of a kernel may lie in the same memory: what is written over what is read.
 *
 * Argument B may be written over argument A when every element is read by the last of its readers before it is written. That
 * follows from four facts, all of which are seen in the kernel's form:
 *   1. B has one store, in phase f, that sets; every load of A has the very index expression of that store;
 *   2. each of these loads stands in phase f or an earlier one;
 *   3. no two points of the outer variables and of f's own give the same index: so all readers of an element belong to the
 *      parallel iteration, and in f to the vector, that writes it;
 *   4. a parallel iteration runs its phases one after the other, and a vector its loads before its stores (print.c,
 *      print_column.c; that print_streams.c takes turns between iterations does not matter, by 3). In print_pipelined.c the last
 *      phase of a row runs in the next row's turn; the first turn stores early, over its own row, and the last one reads a row
 *      again: both store, step by step, only what that step and all phases before have read. Scans, scatters, tiles and rows
 *      that end in repeated elements have an order of their own: here the answer is no.
 * Elements have one type, hence one size, and indices count from their buffer's first byte, wherever an argument begins
 * (bases.c): what holds for elements holds for bytes. Nothing in the text promises the C compiler that arguments are apart (no restrict), so the text is the same
 * whether they are or not. Prefetches, and the indices that print_prefetch.c reads ahead and bounds to aim them, change no result.
 * A kernel that stores round the caches may be in place, too: it was measured to cost nothing. */
#include "codegen/c/internal.h"

enum { MAX_SYMBOLS = 16, MAX_VARS = 2 * HN_MAX_RANK };

static bool only_sizes(printer *pr, hn_expr e) {
    hn_expr symbols[MAX_SYMBOLS];
    uint32_t count = hn_sym_symbols(pr->sym, e, symbols, MAX_SYMBOLS);
    for (uint32_t k = 0; k < count && k < MAX_SYMBOLS; k++) {
        hn_symbol_kind kind = hn_sym_symbol_kind(pr->sym, symbols[k]);
        if (kind != HN_SYMBOL_SIZE && kind != HN_SYMBOL_DATA) return false;
    }
    return count <= MAX_SYMBOLS;
}

typedef struct stride {
    hn_expr step, extent;
} stride;

/* The strides of `index` over the variables that have more than one value. False when it is no sum of such. */
static bool strides_of(printer *pr, const hn_kernel_phase *phase, hn_expr index, stride *out, uint32_t *out_count) {
    uint32_t count = 0, total = pr->k->rank + phase->rank;
    for (uint32_t v = 0; v < total; v++) {
        hn_expr var = v < pr->k->rank ? pr->k->vars[v] : phase->vars[v - pr->k->rank], rest;
        stride s = {.extent = extent_of(pr, var)};
        if (!hn_sym_affine(pr->sym, index, var, &s.step, &rest) || !only_sizes(pr, s.step)) return false;
        index = rest;
        if (!hn_sym_is_value(pr->sym, s.extent, 1)) out[count++] = s;
    }
    *out_count = count;
    return only_sizes(pr, index);
}

/* Whether no two points share an index: in some order each stride is at least the reach of all before it. */
static bool is_injective(printer *pr, const hn_kernel_phase *phase, hn_expr index) {
    stride strides[MAX_VARS];
    uint32_t count;
    if (!strides_of(pr, phase, index, strides, &count)) return false;
    for (hn_expr reach = hn_sym_int(pr->sym, 1); count;) {
        uint32_t next = count;
        for (uint32_t k = 0; k < count; k++) {
            if (strides[k].step != reach && !hn_sym_prove_le(pr->sym, reach, strides[k].step)) return false;
            if (next == count || hn_sym_prove_le(pr->sym, strides[k].step, strides[next].step)) next = k;
        }
        reach = hn_sym_mul(pr->sym, strides[next].step, strides[next].extent);
        strides[next] = strides[--count];
    }
    return true;
}

/* The phase and the index of the only store to `b`. */
static bool only_store(const printer *pr, hn_buf b, uint32_t *out_phase, hn_expr *out_index) {
    uint32_t found = 0;
    for (uint32_t f = 0; f < pr->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pr->k->phases.items[f];
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
static bool reads_before(const printer *pr, hn_buf a, uint32_t last_phase, hn_expr index) {
    for (uint32_t f = 0; f < pr->k->phases.count; f++) {
        const hn_body *body = &pr->k->phases.items[f].body;
        for (hn_sid s = 1; s < body->count; s++)
            if (body->items[s].kind == HN_SOP_LOAD && body->items[s].buffer == a &&
                (f > last_phase || body->items[s].index != index))
                return false;
    }
    return true;
}

static bool keeps_order(const printer *pr) {
    for (uint32_t f = 0; f < pr->k->phases.count; f++)
        if (pr->k->phases.items[f].scan) return false;
    return !pr->k->serial && !pr->tile && !pr->repeats;
}

hn_status find_in_place(printer *pr, hn_kernel_code *out) {
    uint64_t *over;
    HN_NEW(pr->arena, over, pr->buffers.count);
    out->over = over;
    if (!keeps_order(pr)) return NULL;
    for (uint32_t b = 0; b < pr->buffers.count; b++) {
        uint32_t phase = 0;
        hn_expr index = 0;
        if (!pr->written.items[b] || !only_store(pr, pr->buffers.items[b], &phase, &index)) continue;
        if (!is_injective(pr, &pr->k->phases.items[phase], index)) continue;
        for (uint32_t a = 0; a < pr->buffers.count && a < 64; a++) {
            hn_buf from = pr->buffers.items[a], to = pr->buffers.items[b];
            if (!pr->written.items[a] && pr->p->buffers.items[from].dtype == pr->p->buffers.items[to].dtype &&
                reads_before(pr, from, phase, index))
                over[b] |= (uint64_t)1 << a;
        }
    }
    return NULL;
}
