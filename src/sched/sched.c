/* sched.c: the entry: fuse, count readers and writers, plan each group, join alike
 * kernels. */
#include "sched/sched.h"

#include "sched/fuse.h"

static const hn_sched_rewrite_kind rewrite_kinds[] = {
#define HN_SCHED_REWRITE(id, name, sentence) {name, sentence},
#include "sched/rewrites.def"
#undef HN_SCHED_REWRITE
};

const hn_sched_rewrite_kind *hn_sched_rewrite_kind_of(hn_sched_rewrite rewrite) {
    return &rewrite_kinds[rewrite];
}

static void count_loop(sched *s, const hn_loop *loop) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind != HN_SOP_LOAD) continue;
        bool seen = false;
        for (hn_sid e = 1; e < k && !seen; e++)
            seen =
                loop->body.items[e].kind == HN_SOP_LOAD && loop->body.items[e].buffer == op->buffer;
        if (!seen) s->readers[op->buffer]++;
    }
    s->writers[loop->store.buffer]++;
    if (loop->kind == HN_LOOP_SCATTER) s->readers[loop->store.buffer]++;
}

static void count_item(sched *s, const hn_item_info *item) {
    if (item->cond) s->readers[item->cond]++;
    if (item->to) s->writers[item->to]++;
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->operand_count; k++)
        (item->ext->operands[k].written ? s->writers : s->readers)[item->ext->operands[k].buffer]++;
}

static hn_status count_uses(sched *s) {
    HN_NEW(s->scratch, s->readers, s->p->buffers.count);
    HN_NEW(s->scratch, s->writers, s->p->buffers.count);
    for (uint32_t k = 0; k < s->groups.count; k++) {
        const group *g = &s->groups.items[k];
        if (!g->is_loop) count_item(s, &s->p->items.items[g->item]);
        for (uint32_t m = 0; m < g->members.count; m++) count_loop(s, g->members.items[m].loop);
    }
    return NULL;
}

static hn_status plan_group(sched *s, group *g) {
    hn_step step = {.item = g->item};
    if (g->is_loop && !g->members.count) return NULL; /* all have moved to another group */
    if (g->is_loop) HN_TRY(sched_plan(s, g, &step));
    else
        step.kind =
            s->p->items.items[g->item].kind == HN_ITEM_EXTERN ? HN_STEP_EXTERN : HN_STEP_OTHER;
    HN_PUSH(s->arena, &s->out->steps, step);
    return NULL;
}

/* Groups read less, or more, than when they were formed. */
static hn_status merge_changed(sched *s) { return s->changed ? fuse_merge_groups(s, true) : NULL; }

hn_status hn_schedule_program(hn_program *program, const hn_sched_options *options, hn_arena *arena,
                              hn_arena *scratch, hn_schedule *out) {
    *out = (hn_schedule){0};
    sched s = {.p = program,
               .sym = program->sym,
               .arena = arena,
               .scratch = scratch,
               .options = options,
               .out = out};
    HN_TRY(sched_calls(&s));
    HN_TRY(sched_pieces(&s));
    HN_TRY(sched_crossed(&s));
    HN_TRY(sched_fuse(&s));
    HN_TRY(sched_remade(&s));
    HN_TRY(sched_again(&s));
    HN_TRY(merge_changed(&s));
    if (options->fused) hn_program_print(program, options->fused);
    HN_TRY(count_uses(&s));
    for (uint32_t k = 0; k < s.groups.count; k++) HN_TRY(plan_group(&s, &s.groups.items[k]));
    HN_TRY(fuse_refused_end(&s));
    HN_TRY(sched_foreach(&s));
    return hn_sym_status(s.sym);
}
