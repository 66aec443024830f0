/* exprs.c: see exprs.h. The order decides the numbers of expressions in bundles and emitted
 * projects. */
#include "wrapper/exprs.h"

typedef struct walker {
    const hn_wrapper *w;
    const hn_memory_plan *plan;
    const hn_wplaces *places;
    hn_wexpr_visitor visit;
    void *context;
} walker;

static hn_status visit(const walker *x, hn_expr e) { return e ? x->visit(x->context, e) : NULL; }

static hn_status visit_list(const walker *x, const hn_expr *list, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) HN_TRY(visit(x, list[k]));
    return NULL;
}

static hn_status visit_scalar(const walker *x, const hn_arg *scalar) {
    return scalar->kind == HN_ARG_INT ? visit(x, scalar->as.expr) : NULL;
}

static hn_status visit_inputs(const walker *x) {
    for (uint32_t i = 0; i < x->w->inputs.count; i++) {
        const hn_winput *in = &x->w->inputs.items[i];
        if (in->is_scalar) {
            HN_TRY(visit_scalar(x, &in->scalar));
            continue;
        }
        HN_TRY(visit_list(x, in->sizes, in->rank));
        HN_TRY(visit_list(x, in->strides, in->rank));
    }
    return NULL;
}

static hn_status visit_buffers(const walker *x) {
    for (hn_wbuf b = 1; b < x->w->buffers.count; b++) {
        const hn_wbuffer *buffer = &x->w->buffers.items[b];
        HN_TRY(visit(x, buffer->bytes));
        if (!x->places) HN_TRY(visit(x, buffer->offset_elems));
        if (!x->places) {
            HN_TRY(visit_list(x, buffer->sizes, buffer->rank));
            HN_TRY(visit_list(x, buffer->strides, buffer->rank));
            continue;
        }
        HN_TRY(visit(x, x->places->buffers[b].bytes));
        HN_TRY(visit(x, x->places->buffers[b].offset));
    }
    if (!x->plan) return NULL;
    if (x->plan->pool_list.count) HN_TRY(visit(x, hn_sym_int(x->w->sym, 1))); /* their stride */
    for (uint32_t k = 0; k < x->plan->pool_list.count; k++)
        HN_TRY(visit(x, x->plan->pool_list.items[k].bytes));
    return visit_list(x, x->plan->workspaces, HN_DEVICE_KIND_COUNT);
}

static hn_status visit_outputs(const walker *x) {
    for (uint32_t i = 0; i < x->w->outputs.count; i++) {
        const hn_woutput *o = &x->w->outputs.items[i];
        if (o->kind == HN_WOUTPUT_SCALAR) {
            HN_TRY(visit_scalar(x, &o->scalar));
            continue;
        }
        HN_TRY(visit_list(x, o->sizes, o->rank));
        HN_TRY(visit_list(x, o->strides, o->rank));
        HN_TRY(visit(x, hn_woutput_offset(x->w, o)));
        if (!x->places || !x->places->targets[i].storage) continue;
        HN_TRY(visit_list(x, x->places->targets[i].strides, o->rank));
        HN_TRY(visit(x, x->places->targets[i].offset_elems));
    }
    return NULL;
}

static hn_status visit_weights(const walker *x) {
    const hn_graph *g = x->w->graph;
    for (uint32_t k = 0; g && x->places && k < g->weights.count; k++) {
        hn_expr dims[2 * HN_MAX_RANK];
        bool is_fixed;
        HN_TRY(hn_wrapper_weight_dims(x->w->sym, &g->weights.items[k], dims, &is_fixed));
        if (is_fixed) HN_TRY(visit_list(x, dims, 2 * g->weights.items[k].rank));
    }
    return NULL;
}

static hn_status visit_shared(const walker *x, uint32_t bytes) {
    return x->places && bytes ? visit(x, hn_sym_int(x->w->sym, bytes)) : NULL;
}

static hn_status visit_launch(const walker *x, const hn_wlaunch *l) {
    HN_TRY(visit_list(x, l->params, l->param_count));
    HN_TRY(visit(x, l->extent));
    HN_TRY(visit(x, l->scratch_bytes));
    return visit_shared(x, l->shared_bytes);
}

static hn_status visit_variants(const walker *x, const hn_line *line) {
    const uint32_t targets = x->places ? x->w->target_count : 1;
    for (uint32_t v = 1; v < hn_line_variants(line); v++)
        for (uint32_t t = 0; t < targets; t++) {
            const hn_wlaunch l = hn_line_launch(line, v, t);
            HN_TRY(visit_launch(x, &l));
        }
    for (uint32_t t = 0; line->choices && t < targets; t++)
        HN_TRY(visit_list(x, line->choices[t].axes, line->choices[t].head.axis_count));
    return NULL;
}

static hn_status visit_launches(const walker *x, const hn_line *line) {
    if (x->places && line->threads) HN_TRY(visit(x, hn_sym_int(x->w->sym, 1))); /* of the grid */
    HN_TRY(visit_shared(x, line->shared_bytes));
    HN_TRY(visit_list(x, line->params, line->param_count));
    HN_TRY(visit(x, line->extent));
    HN_TRY(visit(x, line->scratch_bytes));
    for (uint32_t t = 1; line->others && x->places && t < x->w->target_count; t++)
        HN_TRY(visit_launch(x, &line->others[t - 1]));
    return visit_variants(x, line);
}

void hn_wcheck_exprs(const hn_wrapper *w, const hn_wcheck *check, hn_expr out[HNB_CHECK_PARAMS]) {
    out[0] = hn_sym_int(w->sym, check->operand);
    out[1] = check->extent;
    out[2] = hn_sym_int(w->sym, check->wraps);
    out[3] = hn_sym_int(w->sym, hn_wrapper_origin(w, check->origin));
}

static hn_status visit_checks(const walker *x, const hn_line *line) {
    for (uint32_t k = 0; x->places && k < line->check_count; k++) {
        hn_expr fields[HNB_CHECK_PARAMS];
        hn_wcheck_exprs(x->w, &line->checks[k], fields);
        HN_TRY(visit_list(x, fields, HNB_CHECK_PARAMS));
    }
    return NULL;
}

/* A printed program has no views: what is in one is in its root. */
static hn_status visit_operand(const walker *x, const hn_woperand *o) {
    return visit(x, x->places ? hn_woperand_offset(x->w, o) : o->offset_elems);
}

static hn_status visit_line(const walker *x, const hn_line *line) {
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].buffer) HN_TRY(visit_operand(x, &line->operands[k]));
    HN_TRY(visit_launches(x, line));
    HN_TRY(visit(x, line->rounds));
    return visit_checks(x, line);
}

hn_status hn_wrapper_each_expr(const hn_wrapper *w, const hn_memory_plan *plan,
                               const hn_wplaces *places, hn_wexpr_visitor visitor, void *context) {
    const walker x = {w, plan, places, visitor, context};
    HN_TRY(visit_inputs(&x));
    HN_TRY(visit_buffers(&x));
    HN_TRY(visit_outputs(&x));
    HN_TRY(visit_weights(&x));
    for (uint32_t i = 0; i < w->lines.count; i++) HN_TRY(visit_line(&x, &w->lines.items[i]));
    return NULL;
}
