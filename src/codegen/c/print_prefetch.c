/* print_prefetch.c: what a kernel asks of memory before it needs it.
 *
 * The processor's own prefetchers follow a stream within a page of 4 KiB, and a window of instructions that is full of
 * arithmetic does not reach far ahead. So kernels whose data is not in the caches ask for it:
 * - a kernel of rows in several phases asks, in its costliest phase, for what the phases will load AHEAD_BYTES later;
 * - rows that an index picks (an embedding) are asked for as soon as their index can be read; of a row that a gather reads
 *   here and there, all of the row a few rows on;
 * - a flat kernel of several operands asks for them FLAT_AHEAD elements ahead: rows of memory banks stay open longer.
 * An address may be past the end of a buffer: asking for it does nothing.
 * Source: bench_ceilings, the loops "ahead" beside "nothing asked for ahead". */
#include "codegen/c/internal.h"

/* How far ahead: NEAR_BYTES for rows that are in some cache; AHEAD_BYTES, which the first cache keeps beside the row at hand, for
 * rows from memory; PICKED_BYTES for those that an index picks and one pass copies. Source: bench_ceilings. */
enum { AHEAD_BYTES = 8 << 10, NEAR_BYTES = 4 << 10, PICKED_BYTES = 16 << 10, FLAT_AHEAD = 512, MAX_ROWS_AHEAD = 64 };

enum { FIRST_CACHE_BYTES = 32 << 10, LINE_BYTES = 64 };

/* A phase with this cost of arithmetic has room for fetches; before it comes to that, the last one, which stores, has. */
enum { BUSY_COST = 12 };

/* A gathered row of up to this many times the loop's length is fetched whole. */
enum { GATHER_SPARSENESS = 2 };

static bool is_plain(printer *pr, const hn_kernel_phase *phase) {
    return phase->rank == 1 && !phase->scan && phase->vars[0] && pr->k->mode == HN_VECTOR_INNER;
}

/* The phase in which a kernel of several asks for its next rows. */
static const hn_kernel_phase *busiest(printer *pr) {
    const hn_kernel_phase *best = NULL, *last = &pr->k->phases.items[pr->k->phases.count - 1];
    for (uint32_t f = 0; f < pr->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pr->k->phases.items[f];
        if (is_plain(pr, phase) && phase_cost(phase) >= BUSY_COST && (!best || phase_cost(phase) > phase_cost(best))) best = phase;
    }
    return best ? best : is_plain(pr, last) && !last->reduces.count ? last : NULL;
}

static bool kernel_writes(const printer *pr, hn_buf b) {
    for (uint32_t f = 0; f < pr->k->phases.count; f++)
        for (uint32_t k = 0; k < pr->k->phases.items[f].stores.count; k++)
            if (pr->k->phases.items[f].stores.items[k].buffer == b) return true;
    return false;
}

/* The element that will bind indirect symbol `s` a few rows on; 0: not one of an array that only this row's number picks. */
static hn_expr source_of(printer *pr, hn_sid s, fetch *out) {
    const hn_body *body = &pr->phase->body;
    const hn_sop *op = &body->items[body->items[s].args[0]];
    if (op->kind == HN_SOP_CAST && hn_dtype_is_int(body->items[op->args[0]].dtype)) op = &body->items[op->args[0]];
    hn_expr outer = pr->k->vars[pr->k->rank - 1], pitch, rest;
    if (op->kind != HN_SOP_LOAD || is_local(pr, op->buffer) || kernel_writes(pr, op->buffer)) return 0;
    if (uses_lane(pr, op->index) || !hn_sym_affine(pr->sym, op->index, outer, &pitch, &rest)) return 0;
    if (hn_sym_is_value(pr->sym, pitch, 0)) return 0;
    for (hn_sid q = 1; q < body->count; q++)
        if (body->items[q].kind == HN_SOP_INDIRECT && hn_sym_uses(pr->sym, op->index, body->items[q].index)) return 0;
    hn_expr last = hn_sym_sub(pr->sym, extent_of(pr, outer), hn_sym_int(pr->sym, 1));
    hn_expr row = hn_sym_min(pr->sym, hn_sym_add(pr->sym, outer, hn_sym_int(pr->sym, pr->rows_ahead)), last);
    *out = (fetch){.buffer = op->buffer, .access = op->index};
    return out->index = hn_sym_add(pr->sym, rest, hn_sym_mul(pr->sym, pitch, row));
}

/* What takes the place of the indirect symbols in an index; 0: it cannot be known ahead. */
static hn_expr without_indirect(printer *pr, const hn_body *body, hn_expr e, bool *out_by_index) {
    for (hn_sid q = 1; q < body->count; q++) {
        const hn_sop *op = &body->items[q];
        hn_expr coeff, rest;
        fetch from;
        if (op->kind != HN_SOP_INDIRECT || !hn_sym_uses(pr->sym, e, op->index)) continue;
        if (body != &pr->phase->body) return 0;
        if (!pr->varying[q]) {
            if (!source_of(pr, q, &from)) return 0;
            *out_by_index = true;
            continue;
        }
        int64_t wide = hn_sym_hint(pr->sym, hn_sym_symbol_extent(pr->sym, op->index), INT32_MAX);
        int64_t seen = hn_sym_hint(pr->sym, extent_of(pr, pr->lane), 0);
        if (wide > GATHER_SPARSENESS * seen || !hn_sym_affine(pr->sym, e, op->index, &coeff, &rest)) return 0;
        if (!hn_sym_is_value(pr->sym, coeff, 1)) return 0;
        e = hn_sym_add(pr->sym, rest, pr->lane);
    }
    return e;
}

/* The element that a load of `body` will want in its turn, pr->rows_ahead rows on; 0: none worth asking for. */
static hn_expr wanted(printer *pr, const hn_body *body, const hn_sop *op) {
    hn_expr step, pitch, rest, e = op->index;
    bool by_index = false;
    if (op->kind != HN_SOP_LOAD || is_local(pr, op->buffer)) return 0;
    if (pr->k->mode == HN_VECTOR_FLAT) return walk_of(pr, e, &step) == WALK_ONE ? hn_sym_add(pr->sym, e, hn_sym_int(pr->sym, FLAT_AHEAD)) : 0;
    e = without_indirect(pr, body, e, &by_index);
    if (!e || walk_of(pr, e, &step) != WALK_ONE) return 0;
    if (!hn_sym_affine(pr->sym, e, pr->k->vars[pr->k->rank - 1], &pitch, &rest)) return 0;
    if (hn_sym_is_value(pr->sym, pitch, 0) && !by_index) return 0;
    return hn_sym_add(pr->sym, e, hn_sym_mul(pr->sym, pitch, hn_sym_int(pr->sym, pr->rows_ahead)));
}

/* What later phases write into this row: with ordinary stores a line is first brought near. */
static void list_written(printer *pr) {
    for (uint32_t f = 1; f < pr->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pr->k->phases.items[f];
        if (phase <= pr->phase || !is_plain(pr, phase)) continue;
        for (uint32_t k = 0; k < phase->stores.count && pr->wanted_count < MAX_WANTED; k++) {
            const hn_kernel_store *st = &phase->stores.items[k];
            hn_expr step;
            if (is_local(pr, st->buffer) || walk_of(pr, st->index, &step) != WALK_ONE) continue;
            pr->wanted[pr->wanted_count++] = (fetch){.buffer = st->buffer, .index = st->index, .access = st->index, .to_write = true};
        }
    }
}

/* The kernel's list: each address once. */
static void list_wanted(printer *pr) {
    pr->wanted_count = 0;
    for (uint32_t f = 0; f < pr->k->phases.count; f++) {
        const hn_body *body = &pr->k->phases.items[f].body;
        for (hn_sid s = 1; s < body->count && pr->wanted_count < MAX_WANTED; s++) {
            hn_expr e = wanted(pr, body, &body->items[s]);
            bool first = e != 0;
            for (uint32_t k = 0; k < pr->wanted_count && first; k++)
                first = pr->wanted[k].buffer != body->items[s].buffer || pr->wanted[k].index != e;
            if (first) pr->wanted[pr->wanted_count++] = (fetch){.buffer = body->items[s].buffer, .index = e, .access = body->items[s].index};
        }
    }
    if (!pr->may_stream && pr->k->phases.count > 1) list_written(pr);
}

static uint32_t bytes_of(const printer *pr, hn_buf b) { return (uint32_t)hn_dtype_facts(pr->p->buffers.items[b].dtype)->size_bytes; }

static bool has_index(const hn_kernel_phase *phase) {
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_INDIRECT) return true;
    return false;
}

/* How many rows make up the distance. */
static int64_t rows_ahead(printer *pr) {
    int64_t elems = hn_sym_hint(pr->sym, extent_of(pr, pr->lane), 1024), row = 0;
    for (uint32_t k = 0; k < pr->wanted_count; k++) row += elems * bytes_of(pr, pr->wanted[k].buffer);
    bool picked = pr->k->phases.count == 1 && has_index(pr->phase);
    int64_t rows = !row ? 1 : (!pr->may_stream ? NEAR_BYTES : picked ? PICKED_BYTES : AHEAD_BYTES) / row;
    return rows < 1 ? 1 : rows > MAX_ROWS_AHEAD ? MAX_ROWS_AHEAD : rows;
}

/* Whether the phase at hand is where a kernel of rows asks. What the first cache holds needs no asking; what the others hold
 * is worth it under arithmetic only. */
static bool asks_here(printer *pr) {
    const hn_kernel *k = pr->k;
    if (!k->rank || !is_plain(pr, pr->phase)) return false;
    if (k->phases.count == 1) return pr->may_stream || has_index(pr->phase);
    if (pr->phase != busiest(pr)) return false;
    return pr->may_stream || (pr->written_bytes > FIRST_CACHE_BYTES && phase_cost(pr->phase) >= BUSY_COST);
}

void choose_fetches(printer *pr) {
    bool flat = pr->k->mode == HN_VECTOR_FLAT;
    pr->wanted_count = 0;
    pr->rows_ahead = 1;
    if (pr->k->serial || (flat ? !pr->may_stream : !asks_here(pr))) return;
    list_wanted(pr);
    bool one_pass = flat || (pr->k->phases.count == 1 && !has_index(pr->phase));
    if (one_pass && pr->wanted_count < 2) pr->wanted_count = 0; /* a single stream is followed without */
    if (flat || !pr->wanted_count) return;
    pr->rows_ahead = rows_ahead(pr);
    list_wanted(pr);
}

/* f<s>: the index of a row ahead, for each t<s> that is one number for the row. */
void put_indices_ahead(printer *pr) {
    const hn_body *body = &pr->phase->body;
    for (hn_sid s = 1; s < body->count; s++) {
        bool used = false;
        fetch from;
        if (body->items[s].kind != HN_SOP_INDIRECT) continue;
        for (uint32_t k = 0; k < pr->wanted_count; k++) used |= hn_sym_uses(pr->sym, pr->wanted[k].index, body->items[s].index);
        if (!used) continue;
        (void)source_of(pr, s, &from);
        put_begin(pr);
        hn_strbuf_printf(&pr->out, "const ll f%u = bounded(", s);
        put_base(pr, from.buffer, from.access, false);
        hn_strbuf_putc(&pr->out, '[');
        put_element(pr, from.buffer, from.access, from.index);
        hn_strbuf_puts(&pr->out, "], ");
        put_index(pr, hn_sym_symbol_extent(pr->sym, body->items[s].index));
        hn_strbuf_puts(&pr->out, ");\n");
    }
}

/* The requests of one vector: each line of memory once. */
void put_fetches(printer *pr) {
    for (uint32_t k = 0; k < pr->wanted_count; k++) {
        uint32_t bytes = bytes_of(pr, pr->wanted[k].buffer), vector = bytes * pr->lanes;
        if (vector < LINE_BYTES && pr->copy * vector % LINE_BYTES) continue;
        for (uint32_t at = 0; at < vector; at += LINE_BYTES) {
            put_begin(pr);
            hn_strbuf_puts(&pr->out, "__builtin_prefetch(");
            put_base(pr, pr->wanted[k].buffer, pr->wanted[k].access, pr->wanted[k].to_write);
            hn_strbuf_puts(&pr->out, " + ");
            pr->ahead = true;
            put_element(pr, pr->wanted[k].buffer, pr->wanted[k].access, pr->wanted[k].index);
            pr->ahead = false;
            if (at) hn_strbuf_printf(&pr->out, " + %u", at / bytes);
            hn_strbuf_puts(&pr->out, pr->wanted[k].to_write ? ", 1);\n" : ");\n");
        }
    }
}
