/* form_lanes.c: what differs from lane to lane, and how. Statements of a LANES stand one behind the
 * other in the form, and those that define something before those that use it: one pass over them
 * is enough. */
#include "kernel/lanes.h"

#include "base/compiler.h"
#include "ir/sop.h"
#include "kernel/check.h"

/* --- indices --- */

bool hn_lane_uses(const hn_lane_view *view, hn_expr e) {
    return (view->lane && hn_sym_uses(view->sym, e, view->lane)) || view->varies(view->context, e);
}

hn_access hn_lane_access(const hn_lane_view *view, hn_expr e, hn_expr *out_stride) {
    hn_sym *sym = view->sym;
    hn_expr rest;
    if (!hn_lane_uses(view, e)) return HN_ACCESS_UNIFORM;
    if (!view->lane || !hn_sym_affine(sym, e, view->lane, out_stride, &rest))
        return HN_ACCESS_GATHER;
    if (hn_lane_uses(view, rest) || hn_lane_uses(view, *out_stride)) return HN_ACCESS_GATHER;
    return hn_sym_is_value(sym, *out_stride, 1) ? HN_ACCESS_CONTIGUOUS : HN_ACCESS_STRIDED;
}

static bool is_limited(hn_expr_kind kind) { return kind == HN_EXPR_MIN || kind == HN_EXPR_MAX; }

/* f of max(0, min(n, f)); 0 where another part than f differs from lane to lane, too. */
static hn_expr inside_of(const hn_lane_view *view, hn_expr clamp) {
    uint32_t count;
    while (is_limited(hn_sym_kind(view->sym, clamp))) {
        const hn_expr *args = hn_sym_args(view->sym, clamp, &count);
        if (count != 2) return 0;
        bool first = hn_lane_uses(view, args[0]), second = hn_lane_uses(view, args[1]);
        if (first == second) return 0;
        clamp = args[second];
    }
    return clamp;
}

bool hn_lane_find_clamp(const hn_lane_view *view, hn_expr index, hn_form_clamp *out) {
    hn_sym *sym = view->sym;
    int64_t coeff = 0;
    *out = (hn_form_clamp){0};
    const hn_sum sum = hn_sym_sum(sym, index);
    for (uint32_t k = 0; k < sum.count; k++) {
        if (!is_limited(hn_sym_kind(sym, sum.terms[k])) || !hn_lane_uses(view, sum.terms[k]))
            continue;
        if (out->clamp) return false;
        out->clamp = sum.terms[k];
        coeff = sum.coeffs[k];
    }
    if (out->clamp) out->inside = inside_of(view, out->clamp);
    if (!out->inside) return false;
    hn_expr difference = hn_sym_sub(sym, out->inside, out->clamp);
    out->plain = hn_sym_add(sym, index, hn_sym_mul(sym, hn_sym_int(sym, coeff), difference));
    out->access = hn_lane_access(view, out->plain, &out->stride);
    return out->access == HN_ACCESS_CONTIGUOUS || out->access == HN_ACCESS_STRIDED;
}

/* --- forms --- */

/* A LANES. */
typedef struct lanes {
    hn_form *f;
    hn_lane_view view;
    bool *moves; /* per register: its lanes may differ, for the LANES works on it */
    struct {
        hn_expr *items;
        uint32_t count, cap;
    } varying; /* checked indices of the VECTOR at hand that differ from lane to lane */
} lanes;

static bool uses_varying(const void *context, hn_expr e) {
    const lanes *l = context;
    for (uint32_t k = 0; k < l->varying.count; k++)
        if (hn_sym_uses(l->view.sym, e, l->varying.items[k])) return true;
    return false;
}

static bool value_varies(const lanes *l, hn_fid s) {
    const hn_sop *op = &l->f->stmts.items[s].op;
    if (op->kind == HN_SOP_RESULT)
        return op->imm.i > 0 && op->imm.i < l->f->registers.count && l->moves[op->imm.i];
    for (uint32_t a = 0; a < 3; a++)
        if (op->args[a] < s && l->f->stmts.items[op->args[a]].in_lanes.varies) return true;
    return hn_sop_has_index(op) && hn_lane_uses(&l->view, op->index);
}

/* A whole vector instead of a gather, for dtypes that printers load so. */
static hn_status set_clamp(lanes *l, hn_form_stmt *stmt) {
    hn_form_clamp clamp, *kept;
    hn_dtype dtype = stmt->op.dtype;
    if (dtype != HN_DTYPE_F32 && dtype != HN_DTYPE_F64) return NULL;
    if (!hn_lane_find_clamp(&l->view, stmt->op.index, &clamp)) return NULL;
    HN_NEW(l->f->arena, kept, 1);
    *kept = clamp;
    stmt->in_lanes.clamp = kept;
    return NULL;
}

static hn_status set_value(lanes *l, hn_fid s) {
    hn_form_stmt *stmt = &l->f->stmts.items[s];
    hn_form_lane_facts *facts = &stmt->in_lanes;
    facts->varies = value_varies(l, s);
    if (stmt->op.kind == HN_SOP_INDIRECT && facts->varies)
        HN_PUSH(l->f->arena, &l->varying, stmt->op.index);
    if (stmt->op.kind != HN_SOP_LOAD && stmt->op.kind != HN_SOP_INDEX) return NULL;
    if (facts->varies) facts->access = hn_lane_access(&l->view, stmt->op.index, &facts->stride);
    return stmt->op.kind == HN_SOP_LOAD && facts->access == HN_ACCESS_GATHER ? set_clamp(l, stmt)
                                                                             : NULL;
}

static hn_status set_stmt(lanes *l, hn_fid s) {
    hn_form_stmt *stmt = &l->f->stmts.items[s];
    if (stmt->kind == HN_FORM_VECTOR) l->varying.count = 0;
    if (stmt->kind == HN_FORM_STORE)
        stmt->in_lanes.access = hn_lane_access(&l->view, stmt->index, &stmt->in_lanes.stride);
    return stmt->kind == HN_FORM_VALUE ? set_value(l, s) : NULL;
}

static bool works_on_register(const hn_form_stmt *stmt) {
    return stmt->kind == HN_FORM_INIT || stmt->kind == HN_FORM_STEP || stmt->kind == HN_FORM_SET;
}

hn_status hn_form_set_lane_facts(hn_form *f, hn_fid owner) {
    lanes l = {.f = f,
               .view = {.sym = f->sym, .lane = f->stmts.items[owner].var, .varies = uses_varying}};
    l.view.context = &l;
    HN_NEW(f->arena, l.moves, f->registers.count);
    for (hn_fid s = owner + 1; s < f->stmts.count; s++) {
        const hn_form_stmt *stmt = &f->stmts.items[s];
        if (works_on_register(stmt) && stmt->reg < f->registers.count) l.moves[stmt->reg] = true;
    }
    for (hn_fid s = owner + 1; s < f->stmts.count; s++) HN_TRY(set_stmt(&l, s));
    return NULL;
}
