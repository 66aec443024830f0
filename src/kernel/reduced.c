/* reduced.c: see the header. */
#include "kernel/reduced.h"

#include <string.h>

const hn_kernel_phase *hn_kernel_phase_of_slot(const hn_kernel *k, int64_t slot,
                                               const hn_kernel_reduce **out) {
    for (uint32_t f = 0; f < k->phases.count; f++) {
        const hn_kernel_phase *phase = &k->phases.items[f];
        for (uint32_t r = 0; r < phase->reduces.count; r++) {
            *out = &phase->reduces.items[r];
            if ((*out)->slot == slot) return phase;
        }
    }
    return NULL;
}

static bool is_op(const hn_sop *sop, hn_op op) { return sop->kind == HN_SOP_ELEM && sop->op == op; }

static bool is_same_op(const hn_sop *p, const hn_sop *q) {
    return p->kind == q->kind && p->op == q->op && p->dtype == q->dtype && p->buffer == q->buffer &&
           p->index == q->index;
}

static bool same_value(const hn_body *a, hn_sid x, const hn_body *b, hn_sid y, uint32_t depth) {
    const hn_sop *p = &a->items[x], *q = &b->items[y];
    if (depth > 8 || !is_same_op(p, q)) return false;
    if (p->kind != HN_SOP_ELEM && p->kind != HN_SOP_CAST && p->kind != HN_SOP_LOAD &&
        p->kind != HN_SOP_CONST)
        return false;
    if (p->kind == HN_SOP_CONST && memcmp(&p->imm, &q->imm, sizeof p->imm) != 0) return false;
    for (uint32_t k = 0; k < 3; k++) {
        if (!p->args[k] != !q->args[k]) return false;
        if (p->args[k] && !same_value(a, p->args[k], b, q->args[k], depth + 1)) return false;
    }
    return true;
}

bool hn_body_same_value(const hn_body *a, hn_sid x, const hn_body *b, hn_sid y) {
    return same_value(a, x, b, y, 0);
}

bool hn_kernel_is_below_largest(const hn_kernel *k, const hn_body *body, const hn_sop *op) {
    const hn_sop *difference = &body->items[op->args[0]];
    if (!is_op(op, HN_OP_EXP) || op->dtype != HN_DTYPE_F32 || !is_op(difference, HN_OP_SUB))
        return false;
    const hn_sop *largest = &body->items[difference->args[1]];
    const hn_kernel_reduce *reduce = NULL;
    const hn_kernel_phase *phase =
        largest->kind == HN_SOP_RESULT ? hn_kernel_phase_of_slot(k, largest->imm.i, &reduce) : NULL;
    return phase && reduce->op == HN_OP_AMAX &&
           hn_body_same_value(body, difference->args[0], &phase->body, reduce->value);
}
