/* to_bundle_records.c: what steps are made of. */
#include "codegen/codegen.h"
#include "wrapper/to_bundle_impl.h"

/* Numbers have no node: the record has them. */
static uint32_t node_of(const bundle_emitter *e, hn_expr expr) {
    return expr && !hn_sym_is_int(e->sym, expr, NULL) ? hn_wnumbering_node(&e->numbering, expr) : 0;
}

static hn_status put_sizes(bundle_emitter *e, const hn_work_record *work, uint32_t *out_dims) {
    *out_dims = e->out.dims.count;
    for (uint32_t d = 0; d < work->rank; d++) {
        uint32_t node;
        HN_TRY(hn_emit_expr(e, work->sizes[d], &node));
        HN_PUSH(e->out.arena, &e->out.dims, node);
    }
    return NULL;
}

static hn_status set_form(bundle_emitter *e, const hn_work_record *work, const hn_form_record *form,
                          hnb_record *out) {
    out->flags |= HNB_RECORD_HAS_FORM | (form->is_vectorized ? HNB_RECORD_VECTORIZED : 0);
    out->arguments = form->arguments;
    out->loads = form->loads, out->stores = form->stores, out->atomics = form->atomics;
    out->loops = form->loops, out->barriers = form->barriers;
    out->reductions = form->reductions;
    out->lanes = form->lanes, out->threads = form->threads;
    out->accessed_bytes = (int64_t)form->cost.bytes;
    out->predicted_ns = (int64_t)form->cost.ns;
    out->direction = (uint32_t)work->direction;
    out->fused_loops = work->fused_loops;
    out->phases = work->phases, out->local_buffers = work->locals;
    return hn_emit_str(e, hn_str_of(form->shape ? form->shape : ""), &out->form);
}

static uint32_t flags_of(const hn_work_record *work) {
    const bool is_known =
        work->traffic.read_expr && work->traffic.written_expr && work->operations_expr;
    return (work->traffic.is_bound ? HNB_RECORD_BOUND : 0) | (is_known ? 0 : HNB_RECORD_HINTS);
}

/* One for each target, or, of a call, one for all. */
hn_status hn_emit_records(bundle_emitter *e, uint32_t line, uint32_t step) {
    const hn_wrecord *r = e->w->lines.items[line].record;
    if (!r) return NULL;
    const hn_traffic *traffic = &r->work->traffic;
    hnb_record record = {.step = step,
                         .category = (uint32_t)r->work->category,
                         .flags = r->part ? 0 : flags_of(r->work),
                         .part = r->part,
                         .row_rank = r->work->row_rank,
                         .rank = r->work->rank,
                         .read_expr = node_of(e, traffic->read_expr),
                         .written_expr = node_of(e, traffic->written_expr),
                         .operations_expr = node_of(e, r->work->operations_expr),
                         .read_bytes = traffic->read_bytes,
                         .written_bytes = traffic->written_bytes,
                         .operations = r->work->operations};
    HN_TRY(put_sizes(e, r->work, &record.dims));
    for (uint32_t t = 0; t < (r->forms ? e->target_count : 1); t++) {
        hnb_record own = record;
        own.target = t;
        if (r->forms) HN_TRY(set_form(e, r->work, r->forms[t], &own));
        HN_PUSH(e->out.arena, &e->out.records, own);
    }
    return NULL;
}
