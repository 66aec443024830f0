/* lives.c: who touches a buffer, and where the peak of memory is. One pass over the groups. */
#include "sched/lives.h"

static void touch(life *u, uint32_t g) {
    if (u->first == LIVES_NONE || g < u->first) u->first = g;
    if (u->last == LIVES_NONE || g > u->last) u->last = g;
}

/* Readers are in order, the last one first. */
hn_status lives_add_read(lives *l, hn_buf b, uint32_t g) {
    life *u = &l->of[b];
    uint32_t behind = 0, at = u->readers;
    if (!b) return NULL;
    touch(u, g);
    for (; at && l->reads.items[at - 1].group > g; at = l->reads.items[at - 1].next) behind = at;
    if (at && l->reads.items[at - 1].group == g) return NULL;
    HN_PUSH(l->s->scratch, &l->reads, ((reading){g, at}));
    if (behind) l->reads.items[behind - 1].next = l->reads.count;
    else u->readers = l->reads.count;
    return NULL;
}

static void add_write(lives *l, hn_buf b, uint32_t g, uint32_t m) {
    life *u = &l->of[b];
    if (!b) return;
    u->last_write = g;
    u->member = m;
    u->writers++;
    touch(u, g);
}

static hn_status add_loop(lives *l, const hn_loop *loop, uint32_t g, uint32_t m) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD)
            HN_TRY(lives_add_read(l, loop->body.items[k].buffer, g));
    if (loop->kind == HN_LOOP_SCATTER) HN_TRY(lives_add_read(l, loop->store.buffer, g));
    add_write(l, loop->indices.buffer, g, m);
    add_write(l, loop->store.buffer, g, m);
    return NULL;
}

static hn_status add_item(lives *l, const hn_item_info *item, uint32_t g) {
    HN_TRY(lives_add_read(l, item->cond, g));
    add_write(l, item->to, g, 0);
    if (item->kind != HN_ITEM_EXTERN) return NULL;
    for (uint32_t k = 0; k < item->ext->operand_count; k++) {
        const struct hn_extern_operand *o = &item->ext->operands[k];
        if (o->written) add_write(l, o->buffer, g, 0);
        else HN_TRY(lives_add_read(l, o->buffer, g));
    }
    return NULL;
}

static bool is_bracket(const hn_item_info *item) {
    return item->kind != HN_ITEM_EXTERN && item->kind != HN_ITEM_ASSERT &&
           item->kind != HN_ITEM_DEFINE && item->kind != HN_ITEM_COPY;
}

static hn_status add_groups(lives *l) {
    const sched *s = l->s;
    for (uint32_t g = 0; g < s->groups.count; g++) {
        const group *own = &s->groups.items[g];
        const hn_item_info *item = own->is_loop ? NULL : &s->p->items.items[own->item];
        l->region[g] = item && is_bracket(item) ? g + 1 : g ? l->region[g - 1] : 0;
        if (item) HN_TRY(add_item(l, item, g));
        for (uint32_t m = 0; m < own->members.count; m++)
            HN_TRY(add_loop(l, own->members.items[m].loop, g, m));
    }
    return NULL;
}

static int64_t bytes_of(const hn_program *p, hn_buf b) {
    const hn_buffer *f = &p->buffers.items[b];
    const int64_t elems = f->kind == HN_BUFFER_TEMP ? hn_sym_hint(p->sym, f->extent, 0) : 0;
    return elems > 0 && elems < INT64_MAX >> 16 ? elems * hn_dtype_facts(f->dtype)->size_bytes : 0;
}

static hn_status find_peak(lives *l) {
    int64_t *step, live = 0;
    HN_NEW(l->s->scratch, step, (size_t)l->s->groups.count + 1);
    for (hn_buf b = 1; b < l->s->p->buffers.count; b++) {
        const life *u = &l->of[b];
        if (u->first == LIVES_NONE || !life_is_in_memory(u)) continue;
        step[u->first] += u->bytes;
        step[u->last + 1] -= u->bytes;
    }
    for (uint32_t g = 0; g < l->s->groups.count; g++) {
        live += step[g];
        if (live > l->peak) l->peak = live, l->peak_at = g;
    }
    return NULL;
}

hn_status lives_find(sched *s, lives *out) {
    *out = (lives){.s = s};
    HN_NEW(s->scratch, out->of, s->p->buffers.count);
    HN_NEW(s->scratch, out->region, s->groups.count);
    for (hn_buf b = 0; b < s->p->buffers.count; b++)
        out->of[b] = (life){.first = LIVES_NONE,
                            .last = LIVES_NONE,
                            .last_write = LIVES_NONE,
                            .bytes = b ? bytes_of(s->p, b) : 0};
    HN_TRY(add_groups(out));
    return find_peak(out);
}
