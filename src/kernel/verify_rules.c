/* verify_rules.c: what must hold of a statement by itself: where its kind may stand, what may be
 * said of it, that the steps of a LANES are some, and what a group of several blocks has. */
#include "kernel/check.h"
#include "kernel/text.h"

#define BAD(...) HN_ERROR(HN_INTERNAL, __VA_ARGS__)

/* --- where statements may stand --- */

typedef struct kind_rule {
    const char *name;
    unsigned where; /* regions */
} kind_rule;

static const kind_rule kind_rules[HN_FORM_KIND_COUNT] = {
    [HN_FORM_FOR] = {"for", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_LANES},
    [HN_FORM_IF] = {"if", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_LANES},
    [HN_FORM_LET] = {"let", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_LANES},
    [HN_FORM_VALUE] = {"value", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_VECTOR},
    [HN_FORM_STORE] = {"store", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_VECTOR},
    [HN_FORM_INIT] = {"init", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_LANES},
    [HN_FORM_STEP] = {"step", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_VECTOR},
    [HN_FORM_BARRIER] = {"barrier", HN_FORM_IN_GROUP},
    [HN_FORM_SET] = {"set", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_VECTOR},
    [HN_FORM_BLOCK] = {"block", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE | HN_FORM_IN_LANES},
    [HN_FORM_LANES] = {"lanes", HN_FORM_IN_RANGE},
    [HN_FORM_VECTOR] = {"vector", HN_FORM_IN_LANES},
    [HN_FORM_ACROSS] = {"across", HN_FORM_IN_GROUP | HN_FORM_IN_RANGE},
    [HN_FORM_BEFORE] = {"before", HN_FORM_IN_GROUP},
    [HN_FORM_MOVE] = {"move", HN_FORM_IN_GROUP},
    [HN_FORM_AWAIT] = {"await", HN_FORM_IN_GROUP},
    [HN_FORM_PREFETCH] = {"prefetch", HN_FORM_IN_RANGE | HN_FORM_IN_VECTOR},
    [HN_FORM_TRANSPOSE] = {"transpose", HN_FORM_IN_RANGE},
    [HN_FORM_IF_ALIGNED] = {"aligned", HN_FORM_IN_RANGE},
};

static const char *region_name(hn_form_region r) {
    switch (r) {
    case HN_FORM_IN_GROUP: return "in a form of groups";
    case HN_FORM_IN_RANGE: return "outside of lanes";
    case HN_FORM_IN_LANES: return "in lanes, but in no vector";
    default: return "in a vector";
    }
}

hn_status hn_form_check_place(const hn_form_stmt *stmt, hn_form_region region) {
    if ((uint32_t)stmt->kind >= HN_FORM_KIND_COUNT) return BAD("no kind of statement");
    const kind_rule *rule = &kind_rules[stmt->kind];
    if (!(rule->where & region)) return BAD("a '%s' %s", rule->name, region_name(region));
    if (stmt->body && !hn_form_kind_opens(stmt->kind)) return BAD("a body where there is none");
    if (stmt->otherwise && !hn_form_kind_branches(stmt->kind))
        return BAD("an else where there is none");
    return NULL;
}

/* --- what may be said of them --- */

static bool is_elem(const hn_form_stmt *stmt, hn_op op) {
    return stmt->kind == HN_FORM_VALUE && stmt->op.kind == HN_SOP_ELEM && stmt->op.op == op &&
           hn_dtype_is_float(stmt->op.dtype);
}

hn_status hn_form_check_attributes(const hn_form_stmt *stmt) {
    bool stores = stmt->kind == HN_FORM_STORE;
    if (stmt->rounded && !is_elem(stmt, HN_OP_MUL)) return BAD("it is rounded, but no product");
    if (stmt->not_positive && !is_elem(stmt, HN_OP_EXP))
        return BAD("its argument is not positive, but it is no exp");
    if (stmt->quiet && (stmt->kind != HN_FORM_VALUE || stmt->op.kind != HN_SOP_INDIRECT))
        return BAD("it is quiet, but no checked index");
    if ((stmt->streams || stmt->is_aligned || stmt->in_order) && !stores)
        return BAD("it streams, is aligned or in order, but is no store");
    if ((stmt->is_apart || stmt->is_atomic) && !stores)
        return BAD("it is apart or atomic, but is no store");
    return NULL;
}

/* What never runs has no place in a text. */
hn_status hn_form_check_steps(const hn_form_stmt *stmt) {
    const hn_form_lanes *lanes = &stmt->lanes;
    if (!stmt->unroll) return BAD("a step has no vectors");
    if ((uint32_t)lanes->rest > HN_FORM_REST_MASKED_STEP) return BAD("no kind of rest");
    if (!lanes->whole && !lanes->single && lanes->rest == HN_FORM_REST_NONE)
        return BAD("it has no steps");
    if (lanes->single && lanes->rest == HN_FORM_REST_MASKED_STEP)
        return BAD("one step leaves nothing to single vectors");
    if (lanes->whole && lanes->single && stmt->unroll == 1)
        return BAD("whole steps of one vector leave nothing to single ones");
    if (stmt->unroll > 1 && !lanes->whole && lanes->rest != HN_FORM_REST_MASKED_STEP)
        return BAD("no step has %u vectors", stmt->unroll);
    return NULL;
}

/* Shared memory would be that of one block. */
hn_status hn_form_check_blocks(const hn_form *f) {
    if (!f->blocks || f->blocks & (f->blocks - 1) || f->blocks > HN_FORM_BLOCKS_MOST)
        return BAD("a group is %u blocks, which is no power of two up to %d", f->blocks,
                   HN_FORM_BLOCKS_MOST);
    if (f->threads % f->blocks)
        return BAD("%u threads do not make %u equal blocks", f->threads, f->blocks);
    for (hn_fmem m = 1; m < f->memories.count && f->blocks > 1; m++) {
        const hn_space space = f->memories.items[m].space;
        if (space == HN_SPACE_SHARED || space == HN_SPACE_SCRATCH || space == HN_SPACE_STAGED)
            return BAD("m%u is %s memory, which a group of several blocks does not have", m,
                       hn_space_names[space]);
    }
    return NULL;
}
