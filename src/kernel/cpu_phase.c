/* cpu_phase.c: what the ops of a phase are: which are needed, in which loop each stands, and how
 * they differ from lane to lane. */
#include "kernel/cpu_internal.h"
#include "kernel/lanes.h"

hn_lane_kind hn_lane_of(hn_dtype dtype) {
    switch (dtype) {
    case HN_DTYPE_F64: return HN_LANE_F64;
    case HN_DTYPE_F32:
    case HN_DTYPE_F16:
    case HN_DTYPE_BF16: return HN_LANE_F32;
    case HN_DTYPE_I64: return HN_LANE_I64;
    case HN_DTYPE_BOOL: return HN_LANE_MASK;
    default: return HN_LANE_I32;
    }
}

int64_t hn_cpu_known(const hn_cpu_plan *plan, hn_expr e) {
    int64_t value;
    return hn_sym_is_int(plan->sym, e, &value) ? value : -1;
}

bool hn_cpu_is_local(const hn_cpu_plan *plan, hn_buf b) {
    for (uint32_t k = 0; k < plan->kernel->locals.count; k++)
        if (plan->kernel->locals.items[k].buffer == b) return true;
    return false;
}

bool hn_cpu_writes(const hn_cpu_plan *plan, hn_buf b) {
    for (uint32_t f = 0; f < plan->kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &plan->kernel->phases.items[f];
        for (uint32_t k = 0; k < phase->stores.count; k++)
            if (phase->stores.items[k].buffer == b) return true;
        for (uint32_t k = 0; k < phase->columns.count; k++)
            if (phase->columns.items[k].buffer == b) return true;
    }
    return false;
}

bool hn_cpu_has_indirect(const hn_kernel_phase *phase) {
    for (hn_sid s = 1; s < phase->body.count; s++)
        if (phase->body.items[s].kind == HN_SOP_INDIRECT) return true;
    return false;
}

/* ---- how an index moves over lanes ---- */

static bool uses_varying_index(const void *context, hn_expr e) {
    const hn_cpu_phase *ph = context;
    const hn_body *body = &ph->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && ph->ops[s].varying &&
            hn_sym_uses(ph->plan->sym, e, body->items[s].index))
            return true;
    return false;
}

static hn_lane_view view_of(const hn_cpu_phase *ph) {
    return (hn_lane_view){
        .sym = ph->plan->sym, .lane = ph->lane, .varies = uses_varying_index, .context = ph};
}

bool hn_cpu_uses_lane(const hn_cpu_phase *ph, hn_expr e) {
    const hn_lane_view view = view_of(ph);
    return hn_lane_uses(&view, e);
}

hn_access hn_cpu_access_of(const hn_cpu_phase *ph, hn_expr e, hn_expr *out_step) {
    const hn_lane_view view = view_of(ph);
    return hn_lane_access(&view, e, out_step);
}

/* ---- which ops are needed, and where they change ---- */

static void mark_live(hn_cpu_phase *ph, hn_sid s) {
    if (!s || ph->ops[s].live) return;
    hn_cpu_op *op = &ph->ops[s];
    const hn_sop *sop = &ph->phase->body.items[s];
    op->live = true;
    op->rewrite = hn_cpu_rewrite_of(ph, sop, &op->gate);
    if (op->rewrite == HN_REWRITE_GATE) mark_live(ph, op->gate);
    if (op->rewrite == HN_REWRITE_GATE || op->rewrite == HN_REWRITE_NARROW_INDICES) return;
    for (uint32_t a = 0; a < 3; a++) mark_live(ph, sop->args[a]);
}

/* The op that binds each indirect symbol in a live index is live too. */
static void mark_index(hn_cpu_phase *ph, hn_expr e) {
    const hn_body *body = &ph->phase->body;
    for (hn_sid s = 1; e && s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT &&
            hn_sym_uses(ph->plan->sym, e, body->items[s].index))
            mark_live(ph, s);
}

static void mark_all_live(hn_cpu_phase *ph) {
    const hn_kernel_phase *phase = ph->phase;
    for (uint32_t k = 0; k < phase->stores.count; k++) {
        mark_live(ph, phase->stores.items[k].value);
        mark_index(ph, phase->stores.items[k].index);
    }
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        mark_live(ph, phase->reduces.items[k].value);
    for (uint32_t k = 0; k < phase->columns.count; k++)
        mark_live(ph, phase->columns.items[k].value);
    for (hn_sid s = phase->body.count; s-- > 1;)
        if (ph->ops[s].live && phase->body.items[s].kind != HN_SOP_INDIRECT)
            mark_index(ph, phase->body.items[s].index);
}

static uint32_t index_level(const hn_cpu_phase *ph, hn_expr e) {
    const hn_sym *sym = ph->plan->sym;
    const hn_body *body = &ph->phase->body;
    uint32_t level = 0;
    for (uint32_t d = 0; d < ph->phase->rank; d++)
        if (hn_sym_uses(sym, e, ph->phase->vars[d])) level = d + 1;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && ph->ops[s].level > level &&
            hn_sym_uses(sym, e, body->items[s].index))
            level = ph->ops[s].level;
    return level;
}

static void set_level(hn_cpu_phase *ph, hn_sid s) {
    const hn_sop *sop = &ph->phase->body.items[s];
    hn_cpu_op *op = &ph->ops[s];
    for (uint32_t a = 0; a < 3; a++) {
        const hn_cpu_op *arg = &ph->ops[sop->args[a]];
        if (arg->level > op->level) op->level = arg->level;
        op->varying |= arg->varying;
    }
    /* a result of its own in each lane */
    if (sop->kind == HN_SOP_RESULT && ph->plan->lanes_are_rows) op->varying = true;
    if (sop->kind == HN_SOP_INDIRECT || !sop->index) return;
    uint32_t level = index_level(ph, sop->index);
    if (level > op->level) op->level = level;
    op->varying |= hn_cpu_uses_lane(ph, sop->index);
}

/* A compiler would add to a product before it is rounded, in one kernel and not in the next: the
 * floor of a position could be one number where an element is looked up and another where its
 * weight is computed, and x * x - y * y of equal ones not 0. */
static void mark_rounded(hn_cpu_phase *ph) {
    const hn_sop *ops = ph->phase->body.items;
    for (hn_sid s = 1; s < ph->phase->body.count; s++) {
        if (ops[s].kind != HN_SOP_ELEM || (ops[s].op != HN_OP_ADD && ops[s].op != HN_OP_SUB))
            continue;
        for (uint32_t a = 0; a < 2; a++) {
            hn_sid x = ops[s].args[a];
            while (ops[x].kind == HN_SOP_ELEM && ops[x].op == HN_OP_NEG) x = ops[x].args[0];
            ph->ops[x].rounded = ops[x].kind == HN_SOP_ELEM && ops[x].op == HN_OP_MUL &&
                                 hn_dtype_is_float(ops[x].dtype);
        }
    }
}

static void set_accesses(hn_cpu_phase *ph) {
    for (hn_sid s = 1; s < ph->phase->body.count; s++) {
        const hn_sop *sop = &ph->phase->body.items[s];
        if (sop->kind == HN_SOP_LOAD || sop->kind == HN_SOP_INDEX)
            ph->ops[s].access = hn_cpu_access_of(ph, sop->index, &ph->ops[s].step);
        if (sop->kind == HN_SOP_INDIRECT)
            ph->ops[s].narrow = ph->ops[s].varying && hn_cpu_is_narrow_indirect(ph, sop);
    }
    for (uint32_t k = 0; k < ph->phase->stores.count; k++) {
        hn_expr step;
        ph->stores[k].access = hn_cpu_access_of(ph, ph->phase->stores.items[k].index, &step);
    }
}

static hn_expr lane_of(const hn_cpu_plan *pl, const hn_kernel_phase *phase) {
    if (pl->lanes_are_rows) return pl->kernel->rank ? pl->kernel->vars[pl->kernel->rank - 1] : 0;
    return phase->rank ? phase->vars[phase->rank - 1] : 0;
}

hn_status hn_cpu_analyse(hn_cpu_plan *pl, uint32_t f) {
    hn_cpu_phase *ph = &pl->phases[f];
    const hn_kernel_phase *phase = &pl->kernel->phases.items[f];
    ph->plan = pl;
    ph->phase = phase;
    ph->lane = lane_of(pl, phase);
    ph->cost = hn_cpu_phase_cost(phase);
    HN_NEW(pl->arena, ph->ops, phase->body.count + 1);
    HN_NEW(pl->arena, ph->stores, phase->stores.count);
    HN_NEW(pl->arena, ph->reduces, phase->reduces.count);
    mark_all_live(ph);
    for (hn_sid s = 1; s < phase->body.count; s++) set_level(ph, s);
    for (hn_sid s = 1; s < phase->body.count; s++) {
        if (!ph->ops[s].live || !hn_cpu_divides_once(ph, &phase->body.items[s])) continue;
        ph->ops[s].rewrite = HN_REWRITE_RECIPROCAL;
        ph->ops[phase->body.items[s].args[1]].is_divisor = true;
    }
    mark_rounded(ph);
    set_accesses(ph);
    for (uint32_t k = 0; k < phase->reduces.count; k++)
        ph->reduces[k].loses_nan = hn_cpu_nan_comes_back(pl, &phase->reduces.items[k]);
    return NULL;
}
