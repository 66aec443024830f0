/* print_pipelined.c: software pipelining (kernel/cpu_rows.c): stores row i - 1 while it computes row i.
 *
 *     for row in [begin, end]:  phases of row `now`; in the last but one, each step is followed by its last phase for `before`
 * Local buffers are double: l<k> for `now`, k<k> for `before`; p<slot> keeps the results of `before`. There is no condition in the
 * loop, and the alignment of what is stored is asked for once before it. */
#include "codegen/c/internal.h"

/* For each result: `text` with the type and twice its number. */
static void put_each_result(printer *pr, const char *text, bool with_type) {
    for (uint32_t f = 0; f < pr->k->phases.count; f++)
        for (uint32_t k = 0; k < pr->k->phases.items[f].reduces.count; k++) {
            const hn_kernel_reduce *r = &pr->k->phases.items[f].reduces.items[k];
            c_put_begin(pr);
            if (with_type) hn_strbuf_printf(&pr->out, "%s ", c_lane_type(r->dtype));
            hn_strbuf_printf(&pr->out, text, r->slot, r->slot);
        }
}

static const char *local_type(const printer *pr, uint32_t k) {
    return hn_dtype_facts(pr->p->buffers.items[pr->k->locals.items[k].buffer].dtype)->c_type;
}

void c_put_follower(printer *pr, const char *head, bool tail) {
    const hn_cpu_phase *busy = pr->at;
    pr->at = pr->follower;
    pr->tail = tail;
    c_open_block(pr, "");
    c_put_line(pr, "%s", head);
    c_put_rows(pr, "before", pr->k->rank);
    for (uint32_t k = 0; k < pr->k->locals.count; k++) c_put_line(pr, "const %s *l%u = k%u;", local_type(pr, k), k, k);
    put_each_result(pr, "r%u = p%u;\n", true);
    c_put_level_range(pr, 0, 1);
    c_put_phase_effects(pr);
    c_close_block(pr);
    pr->tail = false;
    pr->at = busy;
}

/* The phases of row `now`, with the last one for `before`. */
static void put_turn(printer *pr) {
    uint32_t count = pr->k->phases.count;
    c_put_line(pr, "const ll now = row < end ? row : end - 1, before = row > begin ? row - 1 : begin;");
    for (uint32_t k = 0; k < pr->k->locals.count; k++) {
        const hn_dtype_info *info = hn_dtype_facts(pr->p->buffers.items[pr->k->locals.items[k].buffer].dtype);
        long long pitch = (long long)(pr->plan->locals[k].bytes / info->size_bytes);
        c_put_line(pr, "%s *l%u = m%u + (row & 1) * %lld, *k%u = m%u + (~row & 1) * %lld;", info->c_type, k, k, pitch, k, k, pitch);
    }
    c_put_rows(pr, "now", pr->k->rank);
    pr->aligned = true;
    for (uint32_t f = 0; f + 1 < count; f++) {
        pr->follower = f + 2 == count ? &pr->plan->phases[f + 1] : NULL;
        c_put_phase_inner(pr, &pr->plan->phases[f]);
    }
    pr->follower = NULL;
    pr->aligned = false;
    put_each_result(pr, "p%u = r%u;\n", false);
}

void c_put_pipelined_rows(printer *pr) {
    uint32_t count = pr->k->phases.count;
    c_put_begin(pr);
    hn_strbuf_puts(&pr->out, "if (((unsigned long long)");
    const hn_kernel_store *store = &pr->k->phases.items[count - 1].stores.items[0];
    c_put_base(pr, store->buffer, store->index);
    hn_strbuf_puts(&pr->out, " & (4 * VF - 1)) == 0) {\n");
    pr->indent++;
    for (uint32_t f = 0; f < count; f++)
        for (uint32_t k = 0; k < pr->k->phases.items[f].reduces.count; k++) {
            const hn_kernel_reduce *r = &pr->k->phases.items[f].reduces.items[k];
            char c = c_lane_class(r->dtype);
            c_put_line(pr, "%s p%u = sp_%c(1);", c_lane_type(r->dtype), r->slot, c == 'm' ? 'i' : c);
        }
    c_open_block(pr, "for (ll row = begin; row <= end && begin < end; row++) ");
    put_turn(pr);
    c_close_block(pr);
    c_close_block(pr);
    c_open_block(pr, "else ");
    for (uint32_t k = 0; k < pr->k->locals.count; k++) c_put_line(pr, "%s *l%u = m%u;", local_type(pr, k), k, k);
}
