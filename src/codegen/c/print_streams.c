/* print_streams.c: split streams (kernel/cpu_rows.c): row q of each part of a thread's rows is read together. */
#include "codegen/c/internal.h"

/* One step of every stream, `vectors` wide. */
static void put_step(printer *pr, const char *outer, uint32_t vectors, bool tail) {
    for (uint32_t u = 0; u < pr->plan->split.streams; u++)
        for (uint32_t v = 0; v < vectors; v++) {
            char head[128];
            snprintf(head, sizeof head, "const ll %s = row + %u * q, j = at + %u%s; (void)j;", outer, u, v * pr->lanes,
                     tail ? ", n = imin(VF, hi - at)" : "");
            c_put_vector(pr, head, 0, u * pr->plan->split.accumulators + v, tail);
        }
}

/* The results of stream u, and what is made of them. */
static void put_results(printer *pr, const char *outer, uint32_t u) {
    const hn_kernel_reduce *reduce = &pr->k->phases.items[0].reduces.items[0];
    uint32_t sums = pr->plan->split.accumulators;
    c_open_block(pr, "");
    c_put_line(pr, "const ll %s = row + %u * q; (void)%s;", outer, u, outer);
    c_put_line(pr, "%s r%u;", c_lane_type(reduce->dtype), reduce->slot);
    c_open_block(pr, "");
    for (uint32_t v = 0; v < sums && u; v++)
        c_put_line(pr, "%s a%u_%u = a%u_%u;", c_lane_type(reduce->dtype), reduce->slot, v, reduce->slot, u * sums + v);
    pr->at = &pr->plan->phases[0];
    c_put_reduce_finish(pr, reduce, sums);
    c_close_block(pr);
    for (uint32_t f = 1; f < pr->k->phases.count; f++) c_put_phase_inner(pr, &pr->plan->phases[f]);
    c_close_block(pr);
}

void c_put_split_rows(printer *pr) {
    const hn_kernel_reduce *reduce = &pr->k->phases.items[0].reduces.items[0];
    uint32_t streams = pr->plan->split.streams, vectors = pr->plan->split.accumulators, step = vectors * pr->lanes;
    char outer[24];
    snprintf(outer, sizeof outer, "i%u", hn_sym_index_ordinal(pr->sym, pr->k->vars[0]));
    pr->at = &pr->plan->phases[0];
    c_put_line(pr, "const ll q = (end - begin) / %u;", streams);
    c_open_block(pr, "for (ll row = begin; row < begin + q; row++) ");
    for (uint32_t u = 0; u < streams * vectors; u++) c_put_reduce_init(pr, reduce, u);
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "const ll hi = ");
    c_put_index(pr, extent_of(pr, pr->at->lane));
    hn_strbuf_puts(&pr->out, ";\n");
    c_put_line(pr, "ll at = 0;");
    c_put_line(pr, "for (; at + %u <= hi; at += %u) {", step, step);
    pr->indent++;
    put_step(pr, outer, vectors, false);
    c_close_block(pr);
    if (!pr->plan->split.is_whole) {
        c_open_block(pr, "for (; at < hi; at += VF) ");
        put_step(pr, outer, 1, true);
        c_close_block(pr);
    }
    for (uint32_t u = 0; u < streams; u++) put_results(pr, outer, u);
    c_close_block(pr);
    c_put_line(pr, "begin += %u * q; /* the last rows, one by one */", streams);
}
