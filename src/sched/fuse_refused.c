/* fuse_refused.c: the list of fusions that were looked at and refused, and what they would have saved. */
#include "sched/fuse.h"

#include <inttypes.h>

static const hn_refusal_kind kinds[] = {
#define HN_REFUSAL(id, name, sentence) {name, sentence},
#include "sched/refusals.def"
#undef HN_REFUSAL
};

const hn_refusal_kind *hn_refusal_kind_of(hn_refusal_reason why) { return &kinds[why]; }

hn_status sched_refuse(sched *s, const hn_refusal *refusal) {
    HN_PUSH(s->arena, &s->out->refusals, *refusal);
    return NULL;
}

static uint32_t origin_of(const sched *s, uint32_t index) {
    const group *g = &s->groups.items[index];
    return !g->is_loop        ? s->p->items.items[g->item].origin
           : g->members.count ? g->members.items[g->members.count - 1].origin
                              : 0;
}

hn_status fuse_refuse(sched *s, const fuse_candidate *c, const hn_loop *loop, uint32_t origin,
                      hn_refusal_reason why) {
    hn_refusal r = {.why = why,
                    .mismatch = loop ? fuse_mismatch(s, c, loop, why) : HN_MISMATCH_NONE,
                    .first = origin_of(s, c->group),
                    .second = origin,
                    .first_step = s->groups.items[c->group].id,
                    .second_step = 0, /* until it is placed */
                    .bytes = c->bytes,
                    .shared_count = c->shared_count};
    for (uint32_t k = 0; k < c->shared_count; k++) r.shared[k] = c->shared[k];
    return sched_refuse(s, &r);
}

void fuse_refused_place(sched *s, uint32_t from, uint32_t index) {
    for (uint32_t k = from; k < s->out->refusals.count; k++)
        if (s->out->refusals.items[k].second_step == 0)
            s->out->refusals.items[k].second_step = s->groups.items[index].id;
}

static void print(const sched *s, const hn_refusal *r) {
    hn_strbuf *out = s->options->explain;
    const hn_origin *origins = s->p->graph->origins.items;
    hn_strbuf_printf(out, HN_STR_FMT " -> " HN_STR_FMT ": %s", HN_STR_ARG(origins[r->first].node),
                     HN_STR_ARG(origins[r->second].node), kinds[r->why].sentence);
    if (r->mismatch) hn_strbuf_printf(out, " (%s)", hn_mismatch_kind_of(r->mismatch)->sentence);
    if (r->bytes) hn_strbuf_printf(out, "; %" PRId64 " bytes would be saved", r->bytes);
    hn_strbuf_printf(out, "\n");
}

/* Of the groups by their ids: those that are left without a loop have none. */
static hn_status number_steps(sched *s, uint32_t **out) {
    uint32_t step = 0;
    HN_NEW(s->scratch, *out, (size_t)s->groups.count + 1);
    for (uint32_t g = 0; g <= s->groups.count; g++) (*out)[g] = HN_REFUSAL_NO_STEP;
    for (uint32_t g = 0; g < s->groups.count; g++) {
        const group *own = &s->groups.items[g];
        if (own->is_loop && !own->members.count) continue;
        if (own->id) (*out)[own->id] = step;
        step++;
    }
    return NULL;
}

hn_status fuse_refused_end(sched *s) {
    uint32_t *steps, kept = 0;
    HN_TRY(number_steps(s, &steps));
    for (uint32_t k = 0; k < s->out->refusals.count; k++) {
        hn_refusal r = s->out->refusals.items[k];
        if (r.first_step != HN_REFUSAL_NO_STEP && r.first_step == r.second_step) continue;
        if (!r.second_step) r.second_step = HN_REFUSAL_NO_STEP;
        if (r.first_step != HN_REFUSAL_NO_STEP) r.first_step = steps[r.first_step];
        if (r.second_step != HN_REFUSAL_NO_STEP) r.second_step = steps[r.second_step];
        s->out->refusals.items[kept++] = r;
        if (s->options->explain) print(s, &r);
    }
    s->out->refusals.count = kept;
    return NULL;
}
