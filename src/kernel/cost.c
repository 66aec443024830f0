/* cost.c: what a scalar op, a phase and a kernel cost, by the facts of ir/ops.def. */
#include "kernel/cost.h"

#include "kernel/cpu_internal.h"

/* Of what is no op of that table. An indirect index is bound and checked before it is used. */
enum { LOAD_COST = 1, INDIRECT_COST = 4 };

uint32_t hn_cpu_sop_cost(const hn_sop *op) {
    switch (op->kind) {
    case HN_SOP_ELEM: return hn_op_facts(op->op)->cost;
    case HN_SOP_RANDOM: return hn_op_facts(HN_OP_RANDOM)->cost;
    case HN_SOP_CAST: return hn_op_facts(HN_OP_CAST)->cost;
    case HN_SOP_LOAD: return LOAD_COST;
    case HN_SOP_INDIRECT: return INDIRECT_COST;
    default: return 0;
    }
}

uint32_t hn_cpu_phase_cost(const hn_kernel_phase *phase) {
    uint32_t cost = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) cost += hn_cpu_sop_cost(&phase->body.items[s]);
    return cost + phase->stores.count + phase->reduces.count;
}

static bool is_local(const hn_kernel *k, hn_buf b) {
    for (uint32_t l = 0; l < k->locals.count; l++)
        if (k->locals.items[l].buffer == b) return true;
    return false;
}

static double hint_of(const hn_program *p, const hn_expr *vars, uint32_t count) {
    double elems = 1;
    for (uint32_t d = 0; d < count; d++)
        elems *= (double)hn_sym_hint(p->sym, hn_sym_symbol_extent(p->sym, vars[d]), 1024);
    return elems;
}

/* What an access of a buffer moves for an element. */
static double bytes_of(const hn_program *p, const hn_kernel *k, hn_buf b) {
    return is_local(k, b) ? 0 : (double)hn_dtype_facts(p->buffers.items[b].dtype)->size_bytes;
}

static hn_form_cost work_of(const hn_program *program, const hn_kernel *kernel) {
    hn_form_cost work = {.bytes = 0};
    double rows = hint_of(program, kernel->vars, kernel->rank);
    for (uint32_t f = 0; f < kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &kernel->phases.items[f];
        double elems = rows * hint_of(program, phase->vars, phase->rank);
        for (hn_sid s = 1; s < phase->body.count; s++) {
            const hn_sop *op = &phase->body.items[s];
            work.operations += op->kind == HN_SOP_ELEM ? elems : 0;
            work.bytes +=
                op->kind == HN_SOP_LOAD ? elems * bytes_of(program, kernel, op->buffer) : 0;
        }
        for (uint32_t s = 0; s < phase->stores.count; s++)
            work.bytes += elems * bytes_of(program, kernel, phase->stores.items[s].buffer);
        for (uint32_t s = 0; s < phase->columns.count; s++) {
            double each = hint_of(program, phase->vars, phase->rank) * kernel->slabs;
            work.bytes += each * bytes_of(program, kernel, phase->columns.items[s].buffer);
            work.operations += elems;
        }
    }
    return work;
}

hn_form_cost hn_kernel_work(const hn_program *program, const hn_kernel *kernel) {
    hn_form_cost work = {.bytes = 0};
    if (!kernel->segments.count) return work_of(program, kernel);
    for (uint32_t s = 0; s < kernel->segments.count; s++) {
        const hn_form_cost own = work_of(program, kernel->segments.items[s].alone);
        work.bytes += own.bytes;
        work.operations += own.operations;
    }
    return work;
}
