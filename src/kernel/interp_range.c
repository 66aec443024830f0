/* interp_range.c: runs forms of ranges. What stands outside of VECTORs is done once; a VECTOR runs
 * all lanes that count of all vectors of a step in lockstep, each statement for all of them before
 * the next. What the form says of lanes (hn_form_lane_facts) is checked on the way. */
#include "kernel/interp_impl.h"

#include "base/compiler.h"

#include <inttypes.h>
#include <math.h>

/* --- preparation --- */

/* `vectors`: of the LANES around; 0: none. */
static void prepare_block(hn_run *r, hn_fid first, uint32_t vectors, bool in_vector) {
    for (hn_fid s = first; s; s = hn_run_stmt_of(r, s)->next) {
        const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
        uint32_t inner = stmt->kind == HN_FORM_LANES ? stmt->unroll : vectors;
        bool changes = in_vector && (stmt->kind == HN_FORM_STEP || stmt->kind == HN_FORM_SET);
        r->stmts[s].is_uniform = !in_vector;
        if (changes && r->vectors[stmt->reg] < vectors) r->vectors[stmt->reg] = vectors;
        if (r->width < inner * r->f->lanes) r->width = inner * r->f->lanes;
        prepare_block(r, stmt->body, inner, in_vector || stmt->kind == HN_FORM_VECTOR);
        prepare_block(r, stmt->otherwise, inner, in_vector);
    }
}

hn_status hn_run_prepare_lanes(hn_run *r) {
    HN_NEW(r->arena, r->vectors, r->f->registers.count);
    for (hn_freg reg = 1; reg < r->f->registers.count; reg++) r->vectors[reg] = 1;
    r->width = r->f->lanes;
    prepare_block(r, r->f->body, 0, false);
    return NULL;
}

/* --- what the form says of lanes --- */

static bool is_same(hn_dtype dtype, hn_ref_elem a, hn_ref_elem b) {
    if (!hn_dtype_is_float(dtype)) return a.i == b.i;
    return a.f == b.f || (isnan(a.f) && isnan(b.f));
}

hn_status hn_run_check_result(const hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    hn_freg reg = (hn_freg)stmt->op.imm.i;
    const hn_ref_reduction *states = hn_run_registers(r, reg);
    hn_dtype dtype = r->f->registers.items[reg].dtype;
    bool position = stmt->op.op == HN_OP_ARGMAX;
    if (!position && r->value_lost[reg])
        return HN_ERROR(HN_INTERNAL, "r%u has lost its value: its lanes were combined", reg);
    if (stmt->in_lanes.varies) return NULL;
    for (uint32_t t = 1; t < r->vectors[reg] * r->f->lanes; t++)
        if (position ? states[t].position != states[0].position
                     : !is_same(dtype, states[t].value, states[0].value))
            return HN_ERROR(HN_INTERNAL, "the lanes of r%u differ", reg);
    return NULL;
}

static hn_status check_uniform(const hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    const hn_ref_elem *values = r->stmts[s].values;
    if (stmt->in_lanes.varies) return NULL;
    for (uint32_t t = 1; t < r->count; t++)
        if (!is_same(stmt->op.dtype, values[t], values[0]))
            return HN_ERROR(HN_INTERNAL,
                            "statement %u, range %u: lanes %u and 0 differ, but are said not to", s,
                            r->group, t);
    return NULL;
}

/* From lane `first` to lane `last` an index goes by `stride`. */
static hn_status check_step(const hn_run *r, hn_expr index, uint32_t first, uint32_t last,
                            int64_t stride) {
    int64_t from, to;
    HN_TRY(hn_run_eval(r, index, first, &from));
    HN_TRY(hn_run_eval(r, index, last, &to));
    if (to - from == stride * (int64_t)(last - first)) return NULL;
    return HN_ERROR(HN_INTERNAL,
                    "the index is %" PRId64 " in lane %u and %" PRId64
                    " in lane %u, which is no stride of %" PRId64,
                    from, first, to, last, stride);
}

/* Where neither the first lane of a whole vector nor the last one is clamped, none is. */
static hn_status check_clamp(const hn_run *r, const hn_form_clamp *c, hn_expr index,
                             uint32_t first) {
    int64_t stride, clamp[2], inside[2], plain, real;
    const uint32_t last = first + r->f->lanes - 1, ends[2] = {first, last};
    for (int k = 0; k < 2; k++) {
        HN_TRY(hn_run_eval(r, c->clamp, ends[k], &clamp[k]));
        HN_TRY(hn_run_eval(r, c->inside, ends[k], &inside[k]));
    }
    if (clamp[0] != inside[0] || clamp[1] != inside[1]) return NULL;
    HN_TRY(hn_run_eval(r, c->stride, first, &stride));
    HN_TRY(hn_run_eval(r, c->plain, first, &plain));
    HN_TRY(hn_run_eval(r, index, first, &real));
    if (plain != real || (c->access == HN_ACCESS_CONTIGUOUS && stride != 1))
        return HN_ERROR(HN_INTERNAL, "an index without its clamp is another one");
    for (uint32_t t = first + 1; t <= last; t++) HN_TRY(check_step(r, index, first, t, stride));
    return NULL;
}

static hn_status check_access(const hn_run *r, const hn_form_lane_facts *facts, hn_expr index) {
    int64_t stride = facts->access == HN_ACCESS_CONTIGUOUS;
    const uint32_t last = r->count - 1;
    if (facts->access == HN_ACCESS_STRIDED) HN_TRY(hn_run_eval(r, facts->stride, 0, &stride));
    for (uint32_t t = 0; facts->clamp && t + r->f->lanes <= r->count; t += r->f->lanes)
        HN_TRY(check_clamp(r, facts->clamp, index, t));
    if (facts->access == HN_ACCESS_GATHER) return NULL;
    HN_TRY(check_step(r, index, 0, last / 2, stride));
    return check_step(r, index, 0, last, stride);
}

/* Whole vectors begin at multiples of their bytes. */
static hn_status check_aligned(const hn_run *r, const hn_form_stmt *stmt) {
    const uint32_t lanes = r->f->lanes;
    const int64_t bytes = hn_dtype_facts(r->f->memories.items[stmt->memory].dtype)->size_bytes;
    for (uint32_t t = 0; stmt->is_aligned && t + lanes <= r->count; t += lanes) {
        int64_t index;
        HN_TRY(hn_run_eval(r, stmt->index, t, &index));
        if (index * bytes % (4 * (int64_t)lanes))
            return HN_ERROR(HN_INTERNAL, "a vector at element %" PRId64 " is not aligned", index);
    }
    return NULL;
}

static hn_status check_facts(const hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    hn_status status = NULL;
    bool loads = stmt->kind == HN_FORM_VALUE &&
                 (stmt->op.kind == HN_SOP_LOAD || stmt->op.kind == HN_SOP_INDEX);
    if (loads) status = check_access(r, &stmt->in_lanes, stmt->op.index);
    if (stmt->kind == HN_FORM_STORE) status = check_access(r, &stmt->in_lanes, stmt->index);
    if (!status && stmt->kind == HN_FORM_STORE) status = check_aligned(r, stmt);
    if (!status) return NULL;
    return hn_status_annotate(status, "statement %u, range %u", s, r->group);
}

/* --- vectors --- */

static hn_status each_lane(hn_run *r, hn_fid s, uint32_t count, hn_run_fn fn) {
    for (uint32_t t = 0; t < count; t++) {
        hn_status status = fn(r, s, t);
        if (status)
            return hn_status_annotate(status, "statement %u, range %u, lane %u", s, r->group, t);
    }
    return NULL;
}

static hn_status run_prefetch(hn_run *r, hn_fid s, uint32_t thread) {
    int64_t ignored;
    return hn_run_eval(r, hn_run_stmt_of(r, s)->index, thread, &ignored);
}

/* Of the whole vectors, the first of so many asks. */
static hn_status run_prefetches(hn_run *r, hn_fid s) {
    const uint32_t lanes = r->f->lanes, every = hn_run_stmt_of(r, s)->every;
    for (uint32_t t = 0; t + lanes <= r->count; t += lanes)
        if (t / lanes % every == 0) HN_TRY(run_prefetch(r, s, t));
    return NULL;
}

/* Of padded memory a printer may read and write whole vectors where the first lanes count. */
static hn_status find_padding(const hn_run *r, hn_fmem m, const hn_form_lane_facts *facts,
                              hn_expr index, int64_t *out, bool *out_any) {
    *out_any = r->count < r->room && facts->access == HN_ACCESS_CONTIGUOUS &&
               r->f->memories.items[m].padded;
    if (!*out_any) return NULL;
    HN_TRY(hn_run_eval(r, index, 0, out));
    if (*out + r->room <= r->memories[m].end) return NULL;
    return HN_ERROR(HN_INTERNAL,
                    "range %u: whole vectors at element %" PRId64
                    " of memory m%u, which has %" PRId64,
                    r->group, *out, m, r->memories[m].end);
}

static hn_status check_padding(const hn_run *r, const hn_form_stmt *stmt) {
    int64_t ignored;
    bool any;
    if (stmt->op.kind != HN_SOP_LOAD) return NULL;
    return find_padding(r, stmt->op.buffer, &stmt->in_lanes, stmt->op.index, &ignored, &any);
}

/* The lanes that do not count write anything. */
static hn_status spill(hn_run *r, const hn_form_stmt *stmt) {
    int64_t first;
    bool any;
    HN_TRY(find_padding(r, stmt->memory, &stmt->in_lanes, stmt->index, &first, &any));
    for (uint32_t t = r->count; any && t < r->room; t++) {
        const hn_run_access a = {
            .does = "spills over", .m = stmt->memory, .at = first + t, .thread = t};
        HN_TRY(hn_run_write(r, &a, hn_run_odd_number(r->memories[a.m].info->dtype, a.at)));
    }
    return NULL;
}

static hn_status run_value_in_vector(hn_run *r, hn_fid s) {
    HN_TRY(check_padding(r, hn_run_stmt_of(r, s)));
    HN_TRY(each_lane(r, s, r->count, hn_run_value));
    return check_uniform(r, s);
}

static hn_status run_store_in_vector(hn_run *r, hn_fid s) {
    HN_TRY(each_lane(r, s, r->count, hn_run_store));
    return spill(r, hn_run_stmt_of(r, s));
}

static hn_status run_in_vector(hn_run *r, hn_fid s) {
    HN_TRY(check_facts(r, s));
    switch (hn_run_stmt_of(r, s)->kind) {
    case HN_FORM_VALUE: return run_value_in_vector(r, s);
    case HN_FORM_STORE: return run_store_in_vector(r, s);
    case HN_FORM_STEP: return each_lane(r, s, r->count, hn_run_step);
    case HN_FORM_SET: return each_lane(r, s, r->count, hn_run_set);
    case HN_FORM_PREFETCH: return run_prefetches(r, s);
    default: return HN_ERROR(HN_INTERNAL, "statement %u may not be in a vector", s);
    }
}

static hn_status bind_lane(hn_run *r, hn_fid s, uint32_t thread) {
    (void)s;
    return hn_run_define(r, r->lanes, thread, hn_run_stmt_of(r, r->lanes)->var, r->at + thread);
}

static hn_status run_vector(hn_run *r, hn_fid vector) {
    r->time++;
    r->in_vector = true;
    HN_TRY(each_lane(r, vector, r->count, bind_lane));
    for (hn_fid s = hn_run_stmt_of(r, vector)->body; s; s = hn_run_stmt_of(r, s)->next)
        HN_TRY(run_in_vector(r, s));
    r->in_vector = false;
    r->time++;
    return NULL;
}

/* --- steps of a LANES --- */

static hn_status run_block(hn_run *r, hn_fid first);

/* One of so many vectors, for at most `left` elements from `at` on. */
static hn_status take_step(hn_run *r, hn_fid s, int64_t at, int64_t left, uint32_t vectors) {
    r->lanes = s;
    r->at = at;
    r->room = vectors * r->f->lanes;
    r->count = left < r->room ? (uint32_t)left : r->room;
    return run_block(r, hn_run_stmt_of(r, s)->body);
}

static hn_status elements_left(const hn_run *r, hn_fid s, int64_t left) {
    return HN_ERROR(HN_INTERNAL, "statement %u, range %u: %" PRId64 " elements are left over", s,
                    r->group, left);
}

static hn_status run_overlapping(hn_run *r, hn_fid s, int64_t begin, int64_t at, int64_t end) {
    const int64_t lanes = r->f->lanes, last = end - lanes;
    if (at < end && last < begin)
        return HN_ERROR(HN_INTERNAL,
                        "statement %u, range %u: %" PRId64 " elements are no vector to overlap", s,
                        r->group, end - begin);
    for (; at < end; at += lanes) HN_TRY(take_step(r, s, at < last ? at : last, lanes, 1));
    return NULL;
}

static hn_status run_rest(hn_run *r, hn_fid s, int64_t begin, int64_t at, int64_t end) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    const int64_t lanes = r->f->lanes;
    switch (stmt->lanes.rest) {
    case HN_FORM_REST_NONE: return at < end ? elements_left(r, s, end - at) : NULL;
    case HN_FORM_REST_OVERLAPPING: return run_overlapping(r, s, begin, at, end);
    case HN_FORM_REST_MASKED:
        for (; at < end; at += lanes) HN_TRY(take_step(r, s, at, end - at, 1));
        return NULL;
    case HN_FORM_REST_MASKED_STEP: break;
    }
    return HN_ERROR(HN_INTERNAL, "statement %u has no kind of rest", s);
}

static hn_status run_lanes(hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    const int64_t lanes = r->f->lanes, step = lanes * stmt->unroll;
    int64_t begin, end;
    HN_TRY(hn_run_eval(r, stmt->begin, 0, &begin));
    HN_TRY(hn_run_eval(r, stmt->end, 0, &end));
    int64_t at = begin;
    if (stmt->lanes.rest == HN_FORM_REST_MASKED_STEP)
        return at < end ? take_step(r, s, at, end - at < step ? end - at : step, stmt->unroll)
                        : NULL;
    for (; stmt->lanes.whole && end - at >= step; at += step)
        HN_TRY(take_step(r, s, at, step, stmt->unroll));
    for (; stmt->lanes.single && end - at >= lanes; at += lanes)
        HN_TRY(take_step(r, s, at, lanes, 1));
    return run_rest(r, s, begin, at, end);
}

/* --- what is done once --- */

static hn_status once(hn_run *r, hn_fid s, hn_run_fn fn) {
    hn_status status = fn(r, s, 0);
    return status ? hn_status_annotate(status, "statement %u, range %u", s, r->group) : NULL;
}

/* All lanes of all vectors get the same number. */
static hn_status in_all_lanes(hn_run *r, hn_fid s, hn_run_fn fn) {
    return each_lane(r, s, r->width, fn);
}

static hn_status run_for(hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    int64_t begin, end;
    HN_TRY(hn_run_eval(r, stmt->begin, 0, &begin));
    HN_TRY(hn_run_eval(r, stmt->end, 0, &end));
    for (int64_t value = begin; value < end; value += stmt->step) {
        hn_status status = hn_run_define(r, s, 0, stmt->var, value);
        if (status) return hn_status_annotate(status, "statement %u, range %u", s, r->group);
        HN_TRY(run_block(r, stmt->body));
    }
    return NULL;
}

static hn_status run_if(hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    int64_t left, right;
    HN_TRY(hn_run_eval(r, stmt->begin, 0, &left));
    HN_TRY(hn_run_eval(r, stmt->end, 0, &right));
    return run_block(r, left < right ? stmt->body : stmt->otherwise);
}

static hn_status run_if_aligned(hn_run *r, hn_fid s) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    return run_block(r, r->group % 2 ? stmt->otherwise : stmt->body);
}

/* The lanes of all its vectors are combined into one number for all. */
static hn_status run_across(hn_run *r, hn_fid s) {
    const hn_freg reg = hn_run_stmt_of(r, s)->reg;
    const hn_form_register *info = &r->f->registers.items[reg];
    hn_ref_reduction *states = hn_run_registers(r, reg);
    for (uint32_t t = 1; t < r->vectors[reg] * r->f->lanes; t++)
        HN_TRY(hn_ref_reduction_step(info->op, info->dtype, states[t].value, states[t].position,
                                     states));
    for (uint32_t t = 1; t < r->width; t++) states[t] = states[0];
    r->value_lost[reg] = hn_op_keeps_position(info->op);
    return NULL;
}

/* One element of a square. */
static hn_status move(hn_run *r, hn_fmem from, int64_t read, hn_fmem to, int64_t written) {
    hn_run_access in = {.does = "reads", .m = from}, out = {.does = "writes", .m = to};
    hn_ref_elem value;
    HN_TRY(hn_run_find(r, from, read, 0, &in.at));
    HN_TRY(hn_run_read(r, &in, &value));
    HN_TRY(hn_run_find(r, to, written, 0, &out.at));
    return hn_run_write(r, &out, value);
}

static hn_status run_transpose(hn_run *r, hn_fid s, uint32_t thread) {
    const hn_form_stmt *stmt = hn_run_stmt_of(r, s);
    const hn_form_transpose *t = stmt->transpose;
    int64_t to, from, stride, rows, columns;
    HN_TRY(hn_run_eval(r, stmt->index, thread, &to));
    HN_TRY(hn_run_eval(r, t->from_index, thread, &from));
    HN_TRY(hn_run_eval(r, t->stride, thread, &stride));
    HN_TRY(hn_run_eval(r, t->rows, thread, &rows));
    HN_TRY(hn_run_eval(r, t->columns, thread, &columns));
    for (int64_t u = 0; u < rows; u++)
        for (int64_t v = 0; v < columns; v++)
            HN_TRY(move(r, t->from, from + stride * v + u, stmt->memory, to + t->pitch * u + v));
    return NULL;
}

static hn_status run_stmt(hn_run *r, hn_fid s) {
    switch (hn_run_stmt_of(r, s)->kind) {
    case HN_FORM_FOR: return run_for(r, s);
    case HN_FORM_IF: return run_if(r, s);
    case HN_FORM_LET: return once(r, s, hn_run_let);
    case HN_FORM_VALUE: return once(r, s, hn_run_value);
    case HN_FORM_STORE: return once(r, s, hn_run_store);
    case HN_FORM_INIT: return in_all_lanes(r, s, hn_run_init);
    case HN_FORM_STEP: return in_all_lanes(r, s, hn_run_step);
    case HN_FORM_SET: return in_all_lanes(r, s, hn_run_set);
    case HN_FORM_BLOCK: return run_block(r, hn_run_stmt_of(r, s)->body);
    case HN_FORM_LANES: return run_lanes(r, s);
    case HN_FORM_VECTOR: return run_vector(r, s);
    case HN_FORM_ACROSS: return run_across(r, s);
    case HN_FORM_PREFETCH: return once(r, s, run_prefetch);
    case HN_FORM_TRANSPOSE: return once(r, s, run_transpose);
    case HN_FORM_IF_ALIGNED: return run_if_aligned(r, s);
    case HN_FORM_BARRIER:
    case HN_FORM_BEFORE:
    case HN_FORM_MOVE:
    case HN_FORM_AWAIT:
    case HN_FORM_KIND_COUNT: break;
    }
    return HN_ERROR(HN_INTERNAL, "statement %u is of no kind", s);
}

static hn_status run_block(hn_run *r, hn_fid first) {
    for (hn_fid s = first; s; s = hn_run_stmt_of(r, s)->next) HN_TRY(run_stmt(r, s));
    return NULL;
}

/* --- ranges --- */

hn_status hn_run_ranges(hn_run *r) {
    int64_t grid;
    if (!hn_run_eval_size(r, r->f->grid, &grid)) return hn_run_no_value(r, r->f->grid);
    if (grid < 0) return HN_ERROR(HN_INTERNAL, "%" PRId64 " iterations", grid);
    const int64_t first = (grid + 3) / 4, second = first + (grid - first + 1) / 2;
    const int64_t cuts[] = {0, first, second, grid}, whole[] = {0, grid};
    const bool one_thread = r->f->grain == INT64_MAX;
    const int64_t *ends = one_thread ? whole : cuts;
    const uint32_t count = one_thread ? HN_COUNT_OF(whole) : HN_COUNT_OF(cuts);
    for (r->group = 0; r->group + 1 < count; r->group++) {
        if (ends[r->group] == ends[r->group + 1]) continue;
        r->time++;
        hn_run_bind(r, 0, ends[r->group]);
        hn_run_bind(r, 1, ends[r->group + 1]);
        HN_TRY(run_block(r, r->f->body));
    }
    return NULL;
}
