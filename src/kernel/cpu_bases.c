/* cpu_bases.c: from where in its buffers a kernel counts.
 *
 * An unrolled loop over the slices x[:, 0], x[:, 1], ... leads to kernels that differ in a literal
 * only. So what an index adds for the whole call, numbers and sizes, is left out of the text: the
 * argument points that many elements into the buffer, and one kernel does for all slices.
 *     b1[6400 * i0 + i1 + 3200]   ->   argument[6400 * i0 + i1], which begins at element 3200 of b1
 * Accesses of one buffer that are near each other, such as those of a window, share an argument and
 * keep their distance as a number. Those far apart have arguments of their own: the two directions
 * of a recurrent layer come nearer with each step. Nothing in a text relies on where a buffer
 * begins: vectors are read and written at any address, and stores that bypass the caches look at it
 * when they run. */
#include "kernel/cpu_internal.h"

#include <stdlib.h>

enum { MAX_SYMBOLS = 16 };

static bool only_sizes(const hn_cpu_plan *pl, hn_expr e) {
    hn_expr symbols[MAX_SYMBOLS];
    uint32_t count = hn_sym_symbols(pl->sym, e, symbols, MAX_SYMBOLS);
    for (uint32_t k = 0; k < count && k < MAX_SYMBOLS; k++)
        if (hn_sym_symbol_kind(pl->sym, symbols[k]) != HN_SYMBOL_SIZE) return false;
    return count <= MAX_SYMBOLS;
}

/* What an index adds for the whole call: terms of sizes, and a number. */
static hn_cpu_base fixed_part(const hn_cpu_plan *pl, hn_buf b, hn_expr index) {
    hn_cpu_base out = {.buffer = b, .sizes = hn_sym_int(pl->sym, 0)};
    hn_sum sum = hn_sym_sum(pl->sym, index);
    uint32_t count = sum.count;
    out.first = out.last = sum.constant;
    for (uint32_t k = 0; k < count; k++) {
        sum = hn_sym_sum(pl->sym, index); /* its lists do not outlive a constructor */
        hn_expr term = sum.terms[k];
        int64_t coeff = sum.coeffs[k];
        if (only_sizes(pl, term))
            out.sizes = hn_sym_add(pl->sym, out.sizes,
                                   hn_sym_mul(pl->sym, hn_sym_int(pl->sym, coeff), term));
    }
    return out;
}

static hn_status add_access(hn_cpu_plan *pl, hn_buf b, hn_expr index) {
    if (!hn_cpu_is_local(pl, b)) HN_PUSH(pl->arena, &pl->bases, fixed_part(pl, b, index));
    return NULL;
}

static hn_status list_accesses(hn_cpu_plan *pl) {
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
        for (hn_sid s = 1; s < phase->body.count; s++) {
            const hn_sop *op = &phase->body.items[s];
            if (op->kind == HN_SOP_LOAD) HN_TRY(add_access(pl, op->buffer, op->index));
        }
        for (uint32_t k = 0; k < phase->stores.count; k++)
            HN_TRY(add_access(pl, phase->stores.items[k].buffer, phase->stores.items[k].index));
    }
    return NULL;
}

static int by_place(const void *x, const void *y) {
    const hn_cpu_base *a = x, *b = y;
    if (a->buffer != b->buffer) return a->buffer < b->buffer ? -1 : 1;
    if (a->sizes != b->sizes) return a->sizes < b->sizes ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Joins those in [from, from + count), all of one buffer, that are at most `near` elements apart.
 * Returns how many remain. */
static uint32_t join(hn_cpu_base *items, uint32_t count, uint64_t near) {
    uint32_t at = 0;
    for (uint32_t k = 1; k < count; k++) {
        bool joins = items[k].sizes == items[at].sizes &&
                     (uint64_t)items[k].first - (uint64_t)items[at].last <= near;
        if (joins) items[at].last = items[k].last;
        else items[++at] = items[k];
    }
    return at + 1;
}

/* The elements of a buffer; an input's are those that its strides reach, and 0 when it may have
 * none at all. */
static hn_expr elements_of(const hn_cpu_plan *pl, const hn_buffer *b) {
    hn_expr one = hn_sym_int(pl->sym, 1), reach = one;
    if (b->kind != HN_BUFFER_INPUT) return b->extent;
    for (uint32_t d = 0; d < b->rank; d++) {
        if (!hn_sym_prove_le(pl->sym, one, b->sizes[d])) return hn_sym_int(pl->sym, 0);
        reach =
            hn_sym_add(pl->sym, reach,
                       hn_sym_mul(pl->sym, hn_sym_sub(pl->sym, b->sizes[d], one), b->strides[d]));
    }
    return reach;
}

/* How far into its buffer; 0: from its beginning, also when that many elements may be more than it
 * has. */
static hn_expr offset_of(const hn_cpu_plan *pl, const hn_cpu_base *at) {
    hn_expr offset = hn_sym_add(pl->sym, at->sizes, hn_sym_int(pl->sym, at->first)),
            none = hn_sym_int(pl->sym, 0);
    if (offset == none || !hn_sym_prove_le(pl->sym, none, offset)) return 0;
    return hn_sym_prove_le(pl->sym, offset,
                           elements_of(pl, &pl->program->buffers.items[at->buffer]))
               ? offset
               : 0;
}

hn_status hn_cpu_find_bases(hn_cpu_plan *pl) {
    uint32_t kept = 0;
    HN_TRY(list_accesses(pl));
    if (!pl->bases.count) return NULL;
    hn_cpu_base *items = pl->bases.items;
    qsort(items, pl->bases.count, sizeof *items, by_place);
    for (uint32_t from = 0, end; from < pl->bases.count; from = end) {
        for (end = from + 1; end < pl->bases.count && items[end].buffer == items[from].buffer;)
            end++;
        uint64_t near =
            pl->facts->near_access_bytes / (uint64_t)hn_cpu_elem_bytes(pl, items[from].buffer);
        uint32_t most = pl->facts->bases_max, count = join(&items[from], end - from, near);
        if (count > most) count = join(&items[from], count, UINT64_MAX);
        for (uint32_t k = 0; k < count; k++) {
            hn_cpu_base at = items[from + k];
            at.offset = count > most ? 0 : offset_of(pl, &at);
            items[kept++] = at;
        }
    }
    pl->bases.count = kept;
    return NULL;
}

hn_expr hn_cpu_base_of(const hn_cpu_plan *plan, hn_buf b, hn_expr access) {
    hn_cpu_base want = fixed_part(plan, b, access);
    for (uint32_t k = 0; k < plan->bases.count; k++) {
        const hn_cpu_base *at = &plan->bases.items[k];
        if (at->buffer == b && at->sizes == want.sizes && at->first <= want.first &&
            want.first <= at->last)
            return at->offset;
    }
    return 0;
}
