/* gpu_online.c: the largest of a row's numbers and the sum of their exponentials in one walk.
 *
 * Softmax and cross entropy have a phase for the largest number, and one for the sum of exp(x - largest).
 * Where registers cannot keep the row, each would read it from memory. So a thread keeps the largest
 * of its own numbers so far, and the sum that belongs to it. A step first looks for a larger one;
 * then what has been summed is scaled to it, one exponential for all elements of the step:
 *
 *     init largest, sum
 *     for each step {
 *         move the elements of the step
 *         %old = result largest
 *         for each element { step largest %x }
 *         set sum result sum * exp(%old - result largest)
 *         for each element { step sum exp(%x - result largest) } }
 *     across largest; set sum result sum * exp(own largest - result largest); across sum
 *
 * A thread that has seen nothing but -inf has the lowest finite number in place of the largest: the
 * difference of two infinite ones would be NaN. Source: Milakov and Gimelshein, Online normalizer
 * calculation for softmax, 2018. */
#include "kernel/gpu_internal.h"
#include "kernel/reduced.h"

#include <float.h>

static const hn_kernel_reduce *only_reduce(const hn_kernel_phase *phase, hn_op op) {
    const hn_kernel_reduce *r = phase->reduces.items;
    const bool alone = phase->reduces.count == 1 && !phase->stores.count && !phase->columns.count &&
                       !phase->scan && phase->rank;
    return alone && r->op == op && r->dtype == HN_DTYPE_F32 ? r : NULL;
}

static bool walk_alike(const hn_kernel_phase *a, const hn_kernel_phase *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->vars[d] != b->vars[d]) return false;
    return true;
}

bool hn_gpu_is_online(const hn_gpu_planner *pl, uint32_t f) {
    if (f + 1 >= pl->k->phases.count || pl->is_across || pl->k->slabs) return false;
    const hn_kernel_phase *first = &pl->k->phases.items[f], *second = first + 1;
    const hn_kernel_reduce *largest = only_reduce(first, HN_OP_AMAX),
                           *sum = only_reduce(second, HN_OP_SUM);
    if (!largest || !sum || !walk_alike(first, second)) return false;
    const hn_sop *exp = &second->body.items[sum->value];
    if (!hn_kernel_is_below_largest(pl->k, &second->body, exp)) return false;
    const hn_sop *by = &second->body.items[second->body.items[exp->args[0]].args[1]];
    return by->imm.i == largest->slot;
}

/* ---- the phase at hand is one of the two ---- */

static hn_gpu_at at_hand(const hn_gpu_planner *pl) {
    return (hn_gpu_at){pl->phase, pl->live, pl->varies, pl->values};
}

static void go_to(hn_gpu_planner *pl, const hn_gpu_at *at) {
    pl->phase = at->phase;
    pl->live = at->live;
    pl->varies = at->varies;
    pl->values = at->values;
}

static hn_freg add_register(hn_gpu_planner *pl, const hn_kernel_reduce *r) {
    pl->registers[r->slot] = hn_form_add_register(pl->f, r->op, r->dtype);
    hn_form_init(pl->f, pl->registers[r->slot]);
    return pl->registers[r->slot];
}

hn_status hn_gpu_begin_online(hn_gpu_planner *pl, const hn_kernel_phase *largest,
                              hn_gpu_online *out) {
    const hn_kernel_phase *sum = largest + 1;
    HN_TRY(hn_gpu_begin_phase(pl, sum));
    out->sum = at_hand(pl);
    HN_TRY(hn_gpu_begin_phase(pl, largest));
    out->largest = at_hand(pl);
    out->slot = largest->reduces.items[0].slot;
    out->largest_register = add_register(pl, &largest->reduces.items[0]);
    out->sum_register = add_register(pl, &sum->reduces.items[0]);
    return NULL;
}

static hn_fid emit_f32(hn_gpu_planner *pl, hn_op op, hn_fid a, hn_fid b) {
    return hn_form_value(
        pl->f, (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = HN_DTYPE_F32, .args = {a, b}});
}

/* The largest so far, finite unless it is inf or NaN. */
static hn_fid emit_largest(hn_gpu_planner *pl, const hn_gpu_online *o) {
    hn_fid lowest = hn_form_value(
        pl->f, (hn_sop){.kind = HN_SOP_CONST, .dtype = HN_DTYPE_F32, .imm.f = -(double)FLT_MAX});
    return emit_f32(pl, HN_OP_MAX, hn_form_result(pl->f, o->largest_register, false), lowest);
}

/* The sum was for `old`, and is for `now` from here on. The factor. */
static hn_fid emit_scale(hn_gpu_planner *pl, const hn_gpu_online *o, hn_fid old, hn_fid now) {
    hn_fid factor = emit_f32(pl, HN_OP_EXP, emit_f32(pl, HN_OP_SUB, old, now), 0),
           sum = hn_form_result(pl->f, o->sum_register, false);
    hn_form_set(pl->f, o->sum_register, emit_f32(pl, HN_OP_MUL, sum, factor), 0);
    return factor;
}

void hn_gpu_emit_online_step(hn_gpu_planner *pl, const hn_gpu_run *run,
                             void (*elements)(hn_gpu_planner *pl, const hn_gpu_run *run)) {
    const hn_gpu_online *o = pl->online;
    hn_fid old = emit_largest(pl, o);
    go_to(pl, &o->largest);
    elements(pl, run);
    hn_fid now = emit_largest(pl, o);
    hn_fid factor = emit_scale(pl, o, old, now);
    pl->f->stmts.items[factor].not_positive = true;
    go_to(pl, &o->sum);
    pl->results[o->slot] = now;
    pl->holds_step = true;
    elements(pl, run);
    pl->holds_step = false;
    go_to(pl, &o->largest);
}

static hn_fid emit_across(hn_gpu_planner *pl, hn_freg reg) {
    const hn_gpu_layout *l = pl->layout;
    if (l->width > 1) hn_form_across_threads(pl->f, reg, l->width, hn_gpu_pitch(pl, l->rows));
    return hn_form_result(pl->f, reg, false);
}

/* Of a row of -inf alone the sum is NaN, as it would be in two walks: 0 times exp(inf). */
void hn_gpu_combine_online(hn_gpu_planner *pl) {
    const hn_gpu_online *o = pl->online;
    hn_fid own = emit_largest(pl, o), all = emit_across(pl, o->largest_register);
    pl->results[o->slot] = all;
    (void)emit_scale(pl, o, own, all);
    pl->results[o->sum.phase->reduces.items[0].slot] = emit_across(pl, o->sum_register);
}
