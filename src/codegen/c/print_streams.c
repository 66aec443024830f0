/* print_streams.c: split streams, for reductions of rows that come from memory.
 *
 * A loop that only reads is bound by how soon each page's lines are asked for, and the prefetchers start anew on every
 * page. Four rows far apart are four streams whose starts overlap: a thread's rows are cut in quarters, and row q of each
 * quarter is read together. Rows next to each other do less: when one ends, its next page is another stream's.
 * Source: bench_ceilings sums. */
#include "codegen/c/internal.h"

enum { STREAMS = 4, READ_BYTES = 16 << 20, MAX_COST = 8 };

static bool has_position(hn_op op) { return op == HN_OP_ARGMAX || op == HN_OP_ARGMIN; }

/* How much the kernel's first phase reads in rows of their own, as far as sizes are known. */
static double read_bytes(printer *pr, const hn_kernel_phase *phase) {
    hn_expr outer = pr->k->vars[0], coeff, rest;
    double elems = (double)hn_sym_hint(pr->sym, extent_of(pr, outer), 1024) * (double)hn_sym_hint(pr->sym, extent_of(pr, phase->vars[0]), 1024);
    double bytes = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (op->kind != HN_SOP_LOAD || !hn_sym_affine(pr->sym, op->index, outer, &coeff, &rest) || hn_sym_is_value(pr->sym, coeff, 0)) continue;
        bytes += elems * hn_dtype_facts(pr->p->buffers.items[op->buffer].dtype)->size_bytes;
    }
    return bytes;
}

bool reads_in_quarters(printer *pr) {
    const hn_kernel *k = pr->k;
    const hn_kernel_phase *phase = &k->phases.items[0];
    if (k->mode != HN_VECTOR_INNER || k->serial || k->rank != 1 || k->locals.count || phase->rank != 1 || phase->scan) return false;
    if (phase->reduces.count != 1 || phase->stores.count || phase_cost(phase) > MAX_COST || has_position(phase->reduces.items[0].op)) return false;
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_INDIRECT) return false;
    for (uint32_t f = 1; f < k->phases.count; f++)
        if (k->phases.items[f].rank) return false;
    return read_bytes(pr, phase) > READ_BYTES;
}

/* Vectors of a stream's step; each has a sum of its own: shorter chains, smaller errors. Eight sums leave registers. */
static uint32_t accumulators(const printer *pr) { return pr->lanes < 16 ? 2 : 1; }

/* One step of every stream, `vectors` wide. */
static void put_step(printer *pr, const char *outer, uint32_t vectors, bool tail) {
    for (uint32_t u = 0; u < STREAMS; u++)
        for (uint32_t v = 0; v < vectors; v++) {
            char head[128];
            snprintf(head, sizeof head, "const ll %s = row + %u * q, j = at + %u%s; (void)j;", outer, u, v * pr->lanes,
                     tail ? ", n = imin(VF, hi - at)" : "");
            put_vector(pr, head, 0, u * accumulators(pr) + v, tail);
        }
}

/* The results of stream u, and what is made of them. */
static hn_status put_results(printer *pr, const char *outer, uint32_t u) {
    const hn_kernel_phase *phase = &pr->k->phases.items[0];
    const hn_kernel_reduce *reduce = &phase->reduces.items[0];
    open_block(pr, "");
    put_line(pr, "const ll %s = row + %u * q; (void)%s;", outer, u, outer);
    put_line(pr, "%s r%u;", lane_type(reduce->dtype), reduce->slot);
    open_block(pr, "");
    for (uint32_t v = 0; v < accumulators(pr) && u; v++)
        put_line(pr, "%s a%u_%u = a%u_%u;", lane_type(reduce->dtype), reduce->slot, v, reduce->slot, u * accumulators(pr) + v);
    pr->phase = phase;
    put_reduce_finish(pr, reduce, accumulators(pr));
    close_block(pr);
    for (uint32_t f = 1; f < pr->k->phases.count; f++) HN_TRY(put_phase_inner(pr, &pr->k->phases.items[f]));
    close_block(pr);
    return NULL;
}

hn_status put_quarters(printer *pr) {
    const hn_kernel_phase *phase = &pr->k->phases.items[0];
    char outer[24];
    snprintf(outer, sizeof outer, "i%u", hn_sym_index_ordinal(pr->sym, pr->k->vars[0]));
    pr->phase = phase;
    pr->lane = phase->vars[0];
    HN_TRY(analyse_phase(pr));
    int64_t extent = known(pr, extent_of(pr, pr->lane));
    uint32_t vectors = accumulators(pr);
    put_line(pr, "const ll q = (end - begin) / %d;", STREAMS);
    open_block(pr, "for (ll row = begin; row < begin + q; row++) ");
    for (uint32_t u = 0; u < STREAMS * vectors; u++) put_reduce_init(pr, &phase->reduces.items[0], u);
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll hi = ");
    put_index(pr, extent_of(pr, pr->lane));
    hn_strbuf_puts(&pr->out, ";\n");
    put_line(pr, "ll at = 0;");
    put_line(pr, "for (; at + %u <= hi; at += %u) {", vectors * pr->lanes, vectors * pr->lanes);
    pr->indent++;
    put_step(pr, outer, vectors, false);
    close_block(pr);
    if (!(extent >= 0 && extent % (vectors * pr->lanes) == 0)) {
        put_line(pr, "for (; at < hi; at += VF) {");
        pr->indent++;
        put_step(pr, outer, 1, true);
        close_block(pr);
    }
    for (uint32_t u = 0; u < STREAMS; u++) HN_TRY(put_results(pr, outer, u));
    close_block(pr);
    put_line(pr, "begin += %d * q; /* the last rows, one by one */", STREAMS);
    return NULL;
}
