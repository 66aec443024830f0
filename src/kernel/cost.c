/* cost.c: what a scalar op and a phase cost, by the facts of ir/ops.def. */
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
