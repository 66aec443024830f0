/* record.c: see record.h. */
#include "kernel/record.h"

static bool is_argument(const hn_form *f, hn_fmem m) {
    return f->memories.items[m].space == HN_SPACE_ARGUMENT;
}

static void count_move(const hn_form *f, const hn_form_stmt *stmt, hn_form_record *r) {
    r->loads += is_argument(f, stmt->from);
    r->stores += is_argument(f, stmt->memory);
    r->is_vectorized |= stmt->count > 1;
}

static void count_stmt(const hn_form *f, const hn_form_stmt *stmt, hn_form_record *r) {
    switch (stmt->kind) {
    case HN_FORM_VALUE:
        r->loads += stmt->op.kind == HN_SOP_LOAD && is_argument(f, stmt->op.buffer);
        break;
    case HN_FORM_STORE:
        r->stores += is_argument(f, stmt->memory);
        r->atomics += stmt->is_atomic;
        break;
    case HN_FORM_TRANSPOSE:
        r->loads += is_argument(f, stmt->transpose->from);
        r->stores += is_argument(f, stmt->memory);
        r->is_vectorized = true;
        break;
    case HN_FORM_MOVE: count_move(f, stmt, r); break;
    case HN_FORM_FOR: r->loops++; break;
    case HN_FORM_LANES:
        r->loops++;
        r->is_vectorized |= f->lanes > 1;
        break;
    case HN_FORM_BARRIER: r->barriers++; break;
    default: break;
    }
}

hn_form_record hn_form_record_of(const hn_form *f) {
    hn_form_record r = {.shape = f->shape,
                        .lanes = f->lanes,
                        .threads = f->threads,
                        .reductions = f->registers.count ? f->registers.count - 1 : 0,
                        .cost = f->cost};
    for (hn_fmem m = 1; m < f->memories.count; m++) r.arguments += is_argument(f, m);
    if (f->segments.count) r.arguments *= f->segments.count;
    for (hn_fid s = 1; s < f->stmts.count; s++) count_stmt(f, &f->stmts.items[s], &r);
    return r;
}
