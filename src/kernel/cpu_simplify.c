/* cpu_simplify.c: what the form of a kernel allows to compute more cheaply than op by op. */
#include "kernel/cpu_internal.h"
#include "kernel/reduced.h"

#include <string.h>

static const hn_sop *sop_of(const hn_cpu_phase *ph, hn_sid s) { return &ph->phase->body.items[s]; }

static bool is_op(const hn_sop *sop, hn_op op) { return sop->kind == HN_SOP_ELEM && sop->op == op; }

/* x / s may be x * (1 / s) when s is one number for a whole loop and 1 / s cannot overflow: s is a
 * square root, or a sum of exponentials (those of f32 have no subnormal results). That is one
 * rounding more: an error of 1.5 instead of 0.5 ulp, for which a row of divisions, the slowest of
 * the vector instructions, becomes multiplications. */
bool hn_cpu_divides_once(const hn_cpu_phase *ph, const hn_sop *op) {
    hn_sid s = op->args[1];
    if (!is_op(op, HN_OP_DIV) || op->dtype != HN_DTYPE_F32 || ph->ops[s].varying ||
        ph->plan->lanes_are_rows)
        return false;
    if (ph->ops[s].level >= ph->ops[op->args[0]].level) return false;
    const hn_sop *by = sop_of(ph, s);
    if (by->kind == HN_SOP_ELEM) return by->op == HN_OP_SQRT;
    const hn_kernel_reduce *reduce = NULL;
    const hn_kernel_phase *phase =
        by->kind == HN_SOP_RESULT ? hn_kernel_phase_of_slot(ph->plan->kernel, by->imm.i, &reduce)
                                  : NULL;
    if (!phase || reduce->op != HN_OP_SUM) return false;
    const hn_sop *summed = &phase->body.items[reduce->value];
    return is_op(summed, HN_OP_EXP) && summed->dtype == HN_DTYPE_F32;
}

/* Of x * sigmoid(x), x; else 0. */
static hn_sid gated_by_sigmoid(const hn_cpu_phase *ph, const hn_sop *op) {
    if (!is_op(op, HN_OP_MUL) || op->dtype != HN_DTYPE_F32) return 0;
    for (uint32_t a = 0; a < 2; a++) {
        const hn_sop *gate = sop_of(ph, op->args[a]);
        if (is_op(gate, HN_OP_SIGMOID) && gate->args[0] == op->args[1 - a]) return gate->args[0];
    }
    return 0;
}

/* ---- indices in lanes of 32 bits: twice as many in a register, and no detour to those of floats
 * ---- */

static bool uses_indirect(const hn_cpu_phase *ph, hn_expr e) {
    const hn_body *body = &ph->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT &&
            hn_sym_uses(ph->plan->sym, e, body->items[s].index))
            return true;
    return false;
}

/* A number or an index that 32 bits hold in every lane, those beyond the end of a row included. */
static bool is_narrow(const hn_cpu_phase *ph, const hn_sop *op) {
    enum { LIMIT = 1 << 29 };
    int64_t lo, hi;
    hn_expr step;
    if (op->kind == HN_SOP_CONST)
        return op->dtype == HN_DTYPE_I64 && op->imm.i > -LIMIT && op->imm.i < LIMIT;
    if (op->kind != HN_SOP_INDEX || uses_indirect(ph, op->index)) return false;
    hn_sym_range(ph->plan->sym, op->index, &lo, &hi);
    return lo > -LIMIT && hi < LIMIT &&
           hn_cpu_access_of(ph, op->index, &step) <= HN_ACCESS_CONTIGUOUS;
}

/* A comparison of indices, or the cast of one to floats. */
static bool is_of_indices(const hn_cpu_phase *ph, const hn_sop *op) {
    const hn_sop *a = sop_of(ph, op->args[0]), *b = sop_of(ph, op->args[1]);
    if (op->kind == HN_SOP_CAST)
        return hn_lane_of(op->dtype) == HN_LANE_F32 && a->kind == HN_SOP_INDEX && is_narrow(ph, a);
    if (op->kind != HN_SOP_ELEM || hn_op_facts(op->op)->op_class != HN_OPC_COMPARE) return false;
    return is_narrow(ph, a) && is_narrow(ph, b);
}

/* Words: an index made from them is checked as them; what is too large for one is outside either
 * way. */
bool hn_cpu_is_narrow_indirect(const hn_cpu_phase *ph, const hn_sop *op) {
    const hn_sop *cast = sop_of(ph, op->args[0]);
    int64_t lo, hi;
    hn_sym_range(ph->plan->sym, hn_sym_symbol_extent(ph->plan->sym, op->index), &lo, &hi);
    if (cast->kind != HN_SOP_CAST || hi > INT32_MAX) return false;
    hn_lane_kind from = hn_lane_of(sop_of(ph, cast->args[0])->dtype);
    return from == HN_LANE_I32 || from == HN_LANE_F32;
}

hn_rewrite hn_cpu_rewrite_of(const hn_cpu_phase *ph, const hn_sop *op, hn_sid *out_gate) {
    if (hn_kernel_is_below_largest(ph->plan->kernel, &ph->phase->body, op))
        return HN_REWRITE_EXP_NOT_POSITIVE;
    if ((*out_gate = gated_by_sigmoid(ph, op))) return HN_REWRITE_GATE;
    return is_of_indices(ph, op) ? HN_REWRITE_NARROW_INDICES : HN_REWRITE_NONE;
}

/* ---- NaN in softmax ---- */

/* The reduction of `phase` that sums op `s`; NULL: none. */
static const hn_kernel_reduce *sum_of(const hn_kernel_phase *phase, hn_sid s) {
    const hn_kernel_reduce *found = NULL;
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        if (phase->reduces.items[k].op == HN_OP_SUM && phase->reduces.items[k].value == s)
            found = &phase->reduces.items[k];
    return found;
}

/* In phase `of`, result `largest` serves only e^(x - largest), of which all are summed. Sets
 * *out_sum to the sum's slot if there. */
static bool serves_softmax(const hn_kernel_phase *of, int64_t largest, const hn_kernel_phase *from,
                           hn_sid summed, int64_t *out_sum) {
    const hn_body *body = &of->body;
    for (hn_sid s = 1; s < body->count; s++) {
        const hn_sop *op = &body->items[s];
        for (uint32_t a = 0; a < 3; a++) {
            const hn_sop *arg = &body->items[op->args[a]], *inner = &body->items[arg->args[1]];
            if (!op->args[a]) continue;
            bool is_largest = arg->kind == HN_SOP_RESULT && arg->imm.i == largest;
            bool is_distance =
                is_op(arg, HN_OP_SUB) && inner->kind == HN_SOP_RESULT && inner->imm.i == largest;
            bool subtracts = a == 1 && is_op(op, HN_OP_SUB);
            if (is_largest &&
                !(subtracts && hn_body_same_value(body, op->args[0], &from->body, summed)))
                return false;
            if (!is_distance) continue;
            const hn_kernel_reduce *sum = is_op(op, HN_OP_EXP) ? sum_of(of, s) : NULL;
            if (!sum) return false;
            *out_sum = sum->slot;
        }
    }
    return true;
}

/* Whether all that the phase writes to arguments is divided by result `sum`. */
static bool stores_quotients(const hn_cpu_plan *pl, const hn_kernel_phase *phase, int64_t sum) {
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        if (hn_cpu_is_local(pl, phase->stores.items[k].buffer)) continue;
        const hn_sop *op = &phase->body.items[phase->stores.items[k].value],
                     *by = &phase->body.items[op->args[1]];
        if (!is_op(op, HN_OP_DIV) || by->kind != HN_SOP_RESULT || by->imm.i != sum) return false;
    }
    return true;
}

/* A NaN among the elements reaches every result even if the largest of them loses it: in e^(x -
 * largest) / sum, the element's own e^NaN makes the sum NaN. Then one instruction a vector takes
 * the place of three. */
bool hn_cpu_nan_comes_back(const hn_cpu_plan *pl, const hn_kernel_reduce *r) {
    const hn_kernel_reduce *found = NULL;
    const hn_kernel_phase *from = hn_kernel_phase_of_slot(pl->kernel, r->slot, &found);
    int64_t sum = -1;
    if (r->op != HN_OP_AMAX || r->dtype != HN_DTYPE_F32 || pl->lanes_are_rows || !from ||
        from->scan)
        return false;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++)
        if (!serves_softmax(&pl->kernel->phases.items[f], r->slot, from, r->value, &sum))
            return false;
    for (uint32_t f = 0; f < pl->kernel->phases.count; f++)
        if (!stores_quotients(pl, &pl->kernel->phases.items[f], sum)) return false;
    return sum >= 0;
}
