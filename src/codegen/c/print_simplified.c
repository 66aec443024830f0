/* print_simplified.c: what the form of a kernel allows to compute more cheaply than op by op. */
#include "codegen/c/internal.h"

#include "base/compiler.h"

#include <string.h>

static const hn_sop *sop(const printer *pr, hn_sid s) { return &pr->phase->body.items[s]; }

/* The reduction whose result RESULT number `slot` is. */
static const hn_kernel_phase *phase_of_slot(const printer *pr, int64_t slot, const hn_kernel_reduce **out) {
    for (uint32_t f = 0; f < pr->k->phases.count; f++)
        for (uint32_t k = 0; k < pr->k->phases.items[f].reduces.count; k++) {
            *out = &pr->k->phases.items[f].reduces.items[k];
            if ((*out)->slot == slot) return &pr->k->phases.items[f];
        }
    return NULL;
}

/* x / s may be x * (1 / s) when s is one number for a whole loop and 1 / s cannot overflow: s is a square root, or a sum of
 * exponentials (exp_f has no subnormal results). That is one rounding more: an error of 1.5 instead of 0.5 ulp, for
 * which a row of divisions, the slowest of the vector instructions, becomes multiplications. */
bool divides_once(const printer *pr, const hn_sop *op) {
    hn_sid s = op->args[1];
    if (op->kind != HN_SOP_ELEM || op->op != HN_OP_DIV || op->dtype != HN_DTYPE_F32 || pr->varying[s] || pr->column) return false;
    if (pr->level[s] >= pr->level[op->args[0]]) return false;
    const hn_sop *by = sop(pr, s);
    if (by->kind == HN_SOP_ELEM) return by->op == HN_OP_SQRT;
    const hn_kernel_reduce *reduce = NULL;
    const hn_kernel_phase *phase = by->kind == HN_SOP_RESULT ? phase_of_slot(pr, by->imm.i, &reduce) : NULL;
    if (!phase || reduce->op != HN_OP_SUM) return false;
    const hn_sop *summed = &phase->body.items[reduce->value];
    return summed->kind == HN_SOP_ELEM && summed->op == HN_OP_EXP && summed->dtype == HN_DTYPE_F32;
}

/* x * sigmoid(x): x, else 0. */
hn_sid gated_by_sigmoid(const printer *pr, const hn_sop *op) {
    if (op->kind != HN_SOP_ELEM || op->op != HN_OP_MUL || op->dtype != HN_DTYPE_F32) return 0;
    for (uint32_t a = 0; a < 2; a++) {
        const hn_sop *gate = sop(pr, op->args[a]);
        if (gate->kind == HN_SOP_ELEM && gate->op == HN_OP_SIGMOID && gate->args[0] == op->args[1 - a]) return gate->args[0];
    }
    return 0;
}

/* Whether two values are made in the same way from the same elements. */
static bool same_value(const hn_body *a, hn_sid x, const hn_body *b, hn_sid y, uint32_t depth) {
    const hn_sop *p = &a->items[x], *q = &b->items[y];
    if (depth > 8 || p->kind != q->kind || p->op != q->op || p->dtype != q->dtype || p->buffer != q->buffer || p->index != q->index) return false;
    if (p->kind != HN_SOP_ELEM && p->kind != HN_SOP_CAST && p->kind != HN_SOP_LOAD && p->kind != HN_SOP_CONST) return false;
    if (p->kind == HN_SOP_CONST && memcmp(&p->imm, &q->imm, sizeof p->imm) != 0) return false;
    for (uint32_t k = 0; k < 3; k++) {
        if (!p->args[k] != !q->args[k]) return false;
        if (p->args[k] && !same_value(a, p->args[k], b, q->args[k], depth + 1)) return false;
    }
    return true;
}

/* exp(x - m) where m is the largest of the x: the operand is not above 0 (or NaN), so that one limit can go. */
bool is_below_largest(const printer *pr, const hn_sop *op) {
    const hn_sop *difference = sop(pr, op->args[0]);
    if (op->op != HN_OP_EXP || op->dtype != HN_DTYPE_F32 || difference->kind != HN_SOP_ELEM || difference->op != HN_OP_SUB) return false;
    const hn_sop *largest = sop(pr, difference->args[1]);
    const hn_kernel_reduce *reduce = NULL;
    const hn_kernel_phase *phase = largest->kind == HN_SOP_RESULT ? phase_of_slot(pr, largest->imm.i, &reduce) : NULL;
    return phase && reduce->op == HN_OP_AMAX && same_value(&pr->phase->body, difference->args[0], &phase->body, reduce->value, 0);
}

/* --- indices in lanes of 32 bits: twice as many in a register, and no detour to those of floats --- */

static const char *sign_of(hn_op op) {
    static const struct {
        hn_op op;
        const char *text;
    } signs[] = {{HN_OP_EQ, "=="}, {HN_OP_NE, "!="}, {HN_OP_LT, "<"}, {HN_OP_LE, "<="}, {HN_OP_GT, ">"}, {HN_OP_GE, ">="}};
    for (uint32_t k = 0; k < HN_COUNT_OF(signs); k++)
        if (signs[k].op == op) return signs[k].text;
    return NULL;
}

static bool uses_indirect(const printer *pr, hn_expr e) {
    const hn_body *body = &pr->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && hn_sym_uses(pr->sym, e, body->items[s].index)) return true;
    return false;
}

/* A number or an index that 32 bits hold in every lane, those beyond the end of a row included. */
static bool is_narrow(printer *pr, const hn_sop *op) {
    enum { LIMIT = 1 << 29 };
    int64_t lo, hi;
    hn_expr step;
    if (op->kind == HN_SOP_CONST) return op->dtype == HN_DTYPE_I64 && op->imm.i > -LIMIT && op->imm.i < LIMIT;
    if (op->kind != HN_SOP_INDEX || uses_indirect(pr, op->index)) return false;
    hn_sym_range(pr->sym, op->index, &lo, &hi);
    return lo > -LIMIT && hi < LIMIT && walk_of(pr, op->index, &step) <= WALK_ONE;
}

static void put_narrow(printer *pr, const hn_sop *op) {
    hn_expr step;
    const bool moves = op->kind == HN_SOP_INDEX && walk_of(pr, op->index, &step) == WALK_ONE;
    hn_strbuf_puts(&pr->out, moves ? "(sp_i(" : "sp_i(");
    if (op->kind == HN_SOP_CONST)
        hn_strbuf_i64(&pr->out, op->imm.i);
    else
        put_index(pr, op->index);
    hn_strbuf_puts(&pr->out, moves ? ") + IOTA_I)" : ")");
}

bool is_of_indices(printer *pr, const hn_sop *op) {
    const hn_sop *a = sop(pr, op->args[0]), *b = sop(pr, op->args[1]);
    if (op->kind == HN_SOP_CAST) return lane_class(op->dtype) == 'f' && a->kind == HN_SOP_INDEX && is_narrow(pr, a);
    return op->kind == HN_SOP_ELEM && sign_of(op->op) && is_narrow(pr, a) && is_narrow(pr, b);
}

void put_of_indices(printer *pr, const hn_sop *op) {
    hn_strbuf_puts(&pr->out, op->kind == HN_SOP_CAST ? "i_f(" : "(vi)(");
    put_narrow(pr, sop(pr, op->args[0]));
    if (op->kind == HN_SOP_ELEM) {
        hn_strbuf_printf(&pr->out, " %s ", sign_of(op->op));
        put_narrow(pr, sop(pr, op->args[1]));
    }
    hn_strbuf_putc(&pr->out, ')');
}

/* In phase `of`, result `largest` serves only e^(x - largest), of which all are summed. Sets *out_sum to the sum's slot if there. */
static bool serves_softmax(const hn_kernel_phase *of, int64_t largest, const hn_kernel_phase *from, hn_sid summed, int64_t *out_sum) {
    const hn_body *body = &of->body;
    for (hn_sid s = 1; s < body->count; s++) {
        const hn_sop *op = &body->items[s];
        for (uint32_t a = 0; a < 3; a++) {
            const hn_sop *arg = &body->items[op->args[a]], *inner = &body->items[arg->args[1]];
            if (!op->args[a]) continue;
            bool is_largest = arg->kind == HN_SOP_RESULT && arg->imm.i == largest;
            bool is_distance = arg->kind == HN_SOP_ELEM && arg->op == HN_OP_SUB && inner->kind == HN_SOP_RESULT && inner->imm.i == largest;
            bool subtracts = a == 1 && op->kind == HN_SOP_ELEM && op->op == HN_OP_SUB;
            if (is_largest && !(subtracts && same_value(body, op->args[0], &from->body, summed, 0))) return false;
            if (!is_distance) continue;
            if (op->kind != HN_SOP_ELEM || op->op != HN_OP_EXP) return false;
            bool found = false;
            for (uint32_t k = 0; k < of->reduces.count; k++) {
                if (of->reduces.items[k].op != HN_OP_SUM || of->reduces.items[k].value != s) continue;
                *out_sum = of->reduces.items[k].slot;
                found = true;
            }
            if (!found) return false;
        }
    }
    return true;
}

/* Whether a NaN among the elements reaches every result even if the largest of them loses it: in e^(x - largest) / sum, the
 * element's own e^NaN makes the sum NaN. Then one instruction a vector takes the place of three. */
bool nan_comes_back(const printer *pr, const hn_kernel_reduce *r) {
    const hn_kernel_reduce *found = NULL;
    const hn_kernel_phase *from = phase_of_slot(pr, r->slot, &found);
    int64_t sum = -1;
    if (r->op != HN_OP_AMAX || r->dtype != HN_DTYPE_F32 || pr->column || !from || from->scan) return false;
    for (uint32_t f = 0; f < pr->k->phases.count; f++)
        if (!serves_softmax(&pr->k->phases.items[f], r->slot, from, r->value, &sum)) return false;
    for (uint32_t f = 0; f < pr->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pr->k->phases.items[f];
        for (uint32_t k = 0; k < phase->stores.count; k++) {
            if (is_local(pr, phase->stores.items[k].buffer)) continue;
            const hn_sop *op = &phase->body.items[phase->stores.items[k].value], *by = &phase->body.items[op->args[1]];
            if (op->kind != HN_SOP_ELEM || op->op != HN_OP_DIV || by->kind != HN_SOP_RESULT || by->imm.i != sum) return false;
        }
    }
    return sum >= 0;
}
