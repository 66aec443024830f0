/* print_pipelined.c: software pipelining: stores a row while it computes the next one.
 *
 * A kernel of rows from memory whose last phase only takes up what the phase before left in a local buffer (softmax: the
 * division) has a pass of pure stores round the caches after one of pure arithmetic: neither the stores' ports nor the others
 * have work all the time. Folded, row i is computed while row i - 1 is stored. The first turn stores what the scratch memory
 * holds, over a row that the second turn stores again; the last turn computes the last row once more, for nothing: one row too
 * many for a thread, and no condition in the loop. That holds for the stores' alignment, too: it is asked once for all.
 *     for row in [begin, end]:  phases of row `now`; in the last but one, each step is followed by its last phase for `before`
 * Local buffers are double: l<k> for `now`, k<k> for `before`; p<slot> keeps the results of `before`.
 * Source: bench_ceilings softmax. */
#include "codegen/c/internal.h"

/* Cheaper phases are no arithmetic to speak of. */
enum { MIN_COST = 12 };

/* Whether the phase uses nothing but local buffers, results and constants. */
static bool takes_up(printer *pr, const hn_kernel_phase *phase) {
    if (phase->rank != 1 || phase->scan || phase->reduces.count || phase->stores.count != 1) return false;
    if (is_local(pr, phase->stores.items[0].buffer)) return false;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        const hn_sop *op = &phase->body.items[s];
        bool own = op->kind == HN_SOP_CONST || op->kind == HN_SOP_ELEM || op->kind == HN_SOP_CAST || op->kind == HN_SOP_RESULT;
        if (!own && !(op->kind == HN_SOP_LOAD && is_local(pr, op->buffer))) return false;
    }
    return true;
}

static bool stays_in_row(printer *pr, const hn_kernel_phase *phase) {
    if (phase->scan || phase->rank > 1) return false;
    for (uint32_t k = 0; k < phase->stores.count; k++)
        if (!is_local(pr, phase->stores.items[k].buffer)) return false;
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        if (phase->reduces.items[k].op == HN_OP_ARGMAX || phase->reduces.items[k].op == HN_OP_ARGMIN) return false;
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_INDIRECT || phase->body.items[s].kind == HN_SOP_RANDOM) return false;
    return true;
}

/* Whether every row begins at a whole vector of its buffer. */
static bool rows_of_vectors(printer *pr, const hn_kernel_phase *phase) {
    hn_expr e = phase->stores.items[0].index, coeff;
    if (pr->p->buffers.items[phase->stores.items[0].buffer].dtype != HN_DTYPE_F32) return false;
    for (uint32_t d = 0; d < pr->k->rank; d++) {
        if (!hn_sym_affine(pr->sym, e, pr->k->vars[d], &coeff, &e)) return false;
        int64_t pitch = known(pr, coeff);
        if (pitch < 0 || pitch % pr->lanes) return false;
    }
    return e == phase->vars[0];
}

bool folds_last_pass(printer *pr) {
    const hn_kernel *k = pr->k;
    uint32_t count = k->phases.count;
    if (!pr->may_stream || k->mode != HN_VECTOR_INNER || k->serial || pr->tile || !k->rank || count < 2 || !k->locals.count) return false;
    const hn_kernel_phase *last = &k->phases.items[count - 1], *busy = last - 1;
    if (!takes_up(pr, last) || !rows_of_vectors(pr, last) || busy->rank != 1 || phase_cost(busy) < MIN_COST) return false;
    if (extent_of(pr, last->vars[0]) != extent_of(pr, busy->vars[0])) return false;
    for (uint32_t f = 0; f + 1 < count; f++)
        if (!stays_in_row(pr, &k->phases.items[f])) return false;
    return true;
}

/* For each result: `text` with the type and twice its number. */
static void put_each_result(printer *pr, const char *text, bool with_type) {
    for (uint32_t f = 0; f < pr->k->phases.count; f++)
        for (uint32_t k = 0; k < pr->k->phases.items[f].reduces.count; k++) {
            const hn_kernel_reduce *r = &pr->k->phases.items[f].reduces.items[k];
            put_begin(pr);
            if (with_type) hn_strbuf_printf(&pr->out, "%s ", lane_type(r->dtype));
            hn_strbuf_printf(&pr->out, text, r->slot, r->slot);
        }
}

void put_last_pass(printer *pr, const char *head, bool tail) {
    printer busy = *pr;
    pr->tail = tail;
    pr->phase = pr->folded;
    pr->folded = NULL;
    pr->lane = pr->phase->vars[0];
    hn_status status = analyse_phase(pr);
    if (status) fail_with(pr, status);
    open_block(pr, "");
    put_line(pr, "%s", head);
    put_rows(pr, "before", pr->k->rank);
    for (uint32_t k = 0; k < pr->k->locals.count; k++)
        put_line(pr, "const %s *l%u = k%u;", hn_dtype_facts(pr->p->buffers.items[pr->k->locals.items[k].buffer].dtype)->c_type, k, k);
    put_each_result(pr, "r%u = p%u;\n", true);
    put_level_range(pr, 0, 1);
    put_phase_effects(pr);
    close_block(pr);
    pr->phase = busy.phase, pr->folded = busy.folded, pr->lane = busy.lane;
    pr->tail = false;
    pr->live = busy.live, pr->varying = busy.varying, pr->divisor = busy.divisor, pr->rounded = busy.rounded, pr->level = busy.level;
}

hn_status put_folded_rows(printer *pr) {
    uint32_t count = pr->k->phases.count;
    put_begin(pr);
    hn_strbuf_puts(&pr->out, "if (((unsigned long long)");
    const hn_kernel_store *store = &pr->k->phases.items[count - 1].stores.items[0];
    put_base(pr, store->buffer, store->index, true);
    hn_strbuf_puts(&pr->out, " & (4 * VF - 1)) == 0) {\n");
    pr->indent++;
    for (uint32_t f = 0; f < count; f++)
        for (uint32_t k = 0; k < pr->k->phases.items[f].reduces.count; k++) {
            const hn_kernel_reduce *r = &pr->k->phases.items[f].reduces.items[k];
            char c = lane_class(r->dtype);
            put_line(pr, "%s p%u = sp_%c(1);", lane_type(r->dtype), r->slot, c == 'm' ? 'i' : c);
        }
    open_block(pr, "for (ll row = begin; row <= end && begin < end; row++) ");
    put_line(pr, "const ll now = row < end ? row : end - 1, before = row > begin ? row - 1 : begin;");
    for (uint32_t k = 0; k < pr->k->locals.count; k++) {
        const hn_local *local = &pr->k->locals.items[k];
        const hn_dtype_info *info = hn_dtype_facts(pr->p->buffers.items[local->buffer].dtype);
        long long pitch = (long long)(local_bytes(pr, k) / info->size_bytes);
        put_line(pr, "%s *l%u = m%u + (row & 1) * %lld, *k%u = m%u + (~row & 1) * %lld;", info->c_type, k, k, pitch, k, k, pitch);
    }
    put_rows(pr, "now", pr->k->rank);
    pr->aligned = true;
    for (uint32_t f = 0; f + 1 < count; f++) {
        pr->folded = f + 2 == count ? &pr->k->phases.items[f + 1] : NULL;
        HN_TRY(put_phase_inner(pr, &pr->k->phases.items[f]));
    }
    pr->folded = NULL;
    pr->aligned = false;
    put_each_result(pr, "p%u = r%u;\n", false);
    close_block(pr);
    close_block(pr);
    open_block(pr, "else ");
    for (uint32_t k = 0; k < pr->k->locals.count; k++)
        put_line(pr, "%s *l%u = m%u;", hn_dtype_facts(pr->p->buffers.items[pr->k->locals.items[k].buffer].dtype)->c_type, k, k);
    return NULL;
}
