/* interp_groups.c: runs forms of groups: the threads of a group in lockstep, each statement for all
 * of them before the next. */
#include "kernel/interp_impl.h"

#include <inttypes.h>

static hn_status each_thread(hn_run *r, hn_fid s, const bool *active, hn_run_fn fn) {
    for (uint32_t t = 0; t < r->width; t++) {
        hn_status status = active[t] ? fn(r, s, t) : NULL;
        if (status)
            return hn_status_annotate(status, "statement %u, group %u, thread %u", s, r->group, t);
    }
    return NULL;
}

static hn_status run_block(hn_run *r, hn_fid first, const bool *active);

/* A block for the threads that are active, if there are any. */
static hn_status run_inner(hn_run *r, hn_fid first, const bool *active) {
    for (uint32_t t = 0; t < r->width; t++)
        if (active[t]) return run_block(r, first, active);
    return NULL;
}

static hn_status enter_for(hn_run *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    HN_TRY(hn_run_eval(r, stmt->begin, thread, &r->stmts[s].next[thread]));
    return hn_run_eval(r, stmt->end, thread, &r->stmts[s].end[thread]);
}

static hn_status take_step(hn_run *r, hn_fid s, uint32_t thread) {
    hn_run_stmt *state = &r->stmts[s];
    int64_t value = state->next[thread];
    state->next[thread] += hn_run_stmt_of(r, s)->step;
    return hn_run_define(r, s, thread, hn_run_stmt_of(r, s)->var, value);
}

static hn_status run_for(hn_run *r, hn_fid s, const bool *active) {
    hn_run_stmt *state = &r->stmts[s];
    HN_TRY(each_thread(r, s, active, enter_for));
    for (bool any = true; any;) {
        any = false;
        for (uint32_t t = 0; t < r->width; t++)
            any |= state->active[t] = active[t] && state->next[t] < state->end[t];
        HN_TRY(each_thread(r, s, state->active, take_step));
        HN_TRY(run_inner(r, hn_run_stmt_of(r, s)->body, state->active));
    }
    return NULL;
}

static hn_status decide(hn_run *r, hn_fid s, uint32_t thread) {
    int64_t left, right;
    HN_TRY(hn_run_eval(r, hn_run_stmt_of(r, s)->begin, thread, &left));
    HN_TRY(hn_run_eval(r, hn_run_stmt_of(r, s)->end, thread, &right));
    r->stmts[s].active[thread] = left < right;
    r->stmts[s].otherwise[thread] = left >= right;
    return NULL;
}

static hn_status run_if(hn_run *r, hn_fid s, const bool *active) {
    hn_run_stmt *state = &r->stmts[s];
    for (uint32_t t = 0; t < r->width; t++) state->active[t] = state->otherwise[t] = false;
    HN_TRY(each_thread(r, s, active, decide));
    HN_TRY(run_inner(r, hn_run_stmt_of(r, s)->body, state->active));
    return run_inner(r, hn_run_stmt_of(r, s)->otherwise, state->otherwise);
}

static hn_status expect_all(const hn_run *r, hn_fid s, const bool *active, const char *what) {
    for (uint32_t t = 0; t < r->width; t++)
        if (!active[t])
            return HN_ERROR(HN_INTERNAL, "statement %u, group %u: %s that thread %u does not reach",
                            s, r->group, what, t);
    return NULL;
}

static hn_status run_barrier(hn_run *r, hn_fid s, const bool *active) {
    HN_TRY(expect_all(r, s, active, "a barrier"));
    r->time++;
    return NULL;
}

/* The threads of the row whose first one is `first`. */
static hn_status combine_row(hn_run *r, const hn_form_stmt *stmt, uint32_t first) {
    const hn_form_register *info = &r->f->registers.items[stmt->reg];
    hn_ref_reduction *states = hn_run_registers(r, stmt->reg) + first;
    for (uint32_t k = 1; k < stmt->width; k++) {
        const hn_ref_reduction *other = &states[k * stmt->pitch];
        HN_TRY(hn_ref_reduction_step(info->op, info->dtype, other->value, other->position, states));
    }
    for (uint32_t k = 1; k < stmt->width; k++) states[k * stmt->pitch] = states[0];
    return NULL;
}

static hn_status run_across(hn_run *r, hn_fid s, const bool *active) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    HN_TRY(expect_all(r, s, active, "an across"));
    for (uint32_t t = 0; t < r->width; t++)
        if (t / stmt->pitch % stmt->width == 0) HN_TRY(combine_row(r, stmt, t));
    return NULL;
}

/* The row whose first thread is `first`: each gets what was combined before its own. */
static hn_status scan_row(hn_run *r, const hn_form_stmt *stmt, uint32_t first) {
    const hn_form_register *info = &r->f->registers.items[stmt->reg];
    hn_ref_reduction *states = hn_run_registers(r, stmt->reg) + first,
                     *all = hn_run_registers(r, stmt->all) + first, so_far = all[0];
    for (uint32_t k = 0; k < stmt->width; k++) {
        const hn_ref_reduction own = states[k * stmt->pitch];
        states[k * stmt->pitch] = so_far;
        HN_TRY(hn_ref_reduction_step(info->op, info->dtype, own.value, own.position, &so_far));
    }
    for (uint32_t k = 0; k < stmt->width; k++) all[k * stmt->pitch] = so_far;
    return NULL;
}

static hn_status run_before(hn_run *r, hn_fid s, const bool *active) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    HN_TRY(expect_all(r, s, active, "a before"));
    for (uint32_t t = 0; t < r->width; t++)
        if (t / stmt->pitch % stmt->width == 0) HN_TRY(scan_row(r, stmt, t));
    return NULL;
}

static hn_status run_stmt(hn_run *r, hn_fid s, const bool *active) {
    switch (hn_run_stmt_of(r, s)->kind) {
    case HN_FORM_FOR: return run_for(r, s, active);
    case HN_FORM_IF: return run_if(r, s, active);
    case HN_FORM_LET: return each_thread(r, s, active, hn_run_let);
    case HN_FORM_VALUE: return each_thread(r, s, active, hn_run_value);
    case HN_FORM_STORE: return each_thread(r, s, active, hn_run_store);
    case HN_FORM_INIT: return each_thread(r, s, active, hn_run_init);
    case HN_FORM_STEP: return each_thread(r, s, active, hn_run_step);
    case HN_FORM_SET: return each_thread(r, s, active, hn_run_set);
    case HN_FORM_BARRIER: return run_barrier(r, s, active);
    case HN_FORM_MOVE: return each_thread(r, s, active, hn_run_move);
    case HN_FORM_AWAIT: return each_thread(r, s, active, hn_run_await);
    case HN_FORM_ACROSS: return run_across(r, s, active);
    case HN_FORM_BEFORE: return run_before(r, s, active);
    case HN_FORM_BLOCK: return run_block(r, hn_run_stmt_of(r, s)->body, active);
    default: return HN_ERROR(HN_INTERNAL, "statement %u is of no kind", s);
    }
}

static hn_status run_block(hn_run *r, hn_fid first, const bool *active) {
    for (hn_fid s = first; s; s = hn_run_stmt_of(r, s)->next) HN_TRY(run_stmt(r, s, active));
    return NULL;
}

hn_status hn_run_groups(hn_run *r) {
    int64_t grid;
    bool *all;
    if (!hn_run_eval_size(r, r->f->grid, &grid)) return hn_run_no_value(r, r->f->grid);
    if (grid < 0 || grid >= HN_RUN_NOBODY) return HN_ERROR(HN_INTERNAL, "%" PRId64 " groups", grid);
    HN_NEW(r->arena, all, r->width);
    for (uint32_t t = 0; t < r->width; t++) all[t] = true;
    for (r->group = 0; r->group < grid; r->group++) {
        r->time++;
        hn_run_bind(r, 0, r->group);
        HN_TRY(run_block(r, r->f->body, all));
    }
    return NULL;
}
