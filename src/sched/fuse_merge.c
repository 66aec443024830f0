/* fuse_merge.c: groups become one after all loops have their groups.
 *
 * A loop joins when it comes, and what it reads of two groups keeps these apart, though nothing
 * else does:
 *
 *   group 0: m = a * r[row]                   group 0: m = a * r[row], d = g * w,
 *   group 1: d = g * w, s = sum(d * m)   ->            s = sum(d * m)
 *
 * Groups are looked at in order, each with those before it that it has most bytes in common with.
 * Two of them may be one if no third one depends on the first and is needed by the second. Then all
 * between that does not depend on the first is moved in front of it, and all that does comes
 * behind. An assertion may move up, and what stands behind it stays there: it may be safe only by
 * what the assertion checks. All loops of the second group join a copy of the first, or nothing
 * happens. Where that would keep much more alive for the groups between than it saves, it does not
 * happen either; nor, once the peak of memory has been lowered (again.c), where that would be
 * clearly higher then.
 *
 * Only groups that are near each other are looked at, a bounded number of pairs for each: linear.
 * But a group waits for the first one that reads what it makes, however far that is, and becomes
 * part of it, if no more memory is alive between the two then. So a backward pass has what it
 * begins with, where that needs nothing but the forward pass and was put there. Source: horizontal
 * fusion of TorchInductor's scheduler, and its rule against peaks of memory. */
#include "sched/lives.h"

#include "sched/fuse.h"

#include <string.h>

enum {
    NEAR = 64,       /* groups between two that become one */
    TRIED_MAX = 3,   /* pairs for a group */
    READERS_MAX = 8, /* of what a group makes that waits */
    PEAK_PARTS = 32 /* the peak stays, but for one part of so many: again.c makes nothing of less */
};

/* A buffer that a group touches. */
typedef struct use {
    hn_buf buffer;
    bool reads, writes;
    int64_t bytes; /* of the largest access by a loop */
} use;

typedef struct uses {
    use *items;
    uint32_t count, cap;
} uses;

typedef struct merge {
    sched *s;
    uses *of;         /* per group */
    uint32_t *order;  /* groups in execution order, */
    uint32_t *place;  /* and where in it each of them is, */
    uint32_t *joined; /* or the one that its loops have joined; or itself */
    uint32_t *region; /* per group: groups of different ones have a bracket between them */
    struct mark {
        uint32_t read, written;         /* by what depends on the first group: its stamp */
        uint32_t own_read, own_written; /* by the first group itself */
        uint32_t at;                    /* in the list of uses that is being made */
        uint32_t met;                   /* in a window: its stamp, */
        uint32_t from, to;              /* and at which places of it */
    } * marks;                          /* per buffer */
    lives l;                            /* by places in the order, in place of groups */
    int64_t *alive; /* per place: bytes that are needed from before it to it, or behind it */
    bool keeps_peak;
    uint32_t stamp;
} merge;

/* ---- what groups touch ---- */

static hn_status add_use(merge *m, uint32_t g, hn_buf b, bool writes, int64_t bytes) {
    if (!b) return NULL;
    uses *list = &m->of[g];
    uint32_t at = m->marks[b].at;
    if (at >= list->count || list->items[at].buffer != b) {
        at = m->marks[b].at = list->count;
        HN_PUSH(m->s->scratch, list, ((use){.buffer = b}));
    }
    use *u = &list->items[at];
    u->reads |= !writes;
    u->writes |= writes;
    if (bytes > u->bytes) u->bytes = bytes;
    return NULL;
}

static hn_status add_loop(merge *m, uint32_t g, const hn_loop *loop) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD)
            HN_TRY(add_use(m, g, op->buffer, false,
                           loop_access_bytes(m->s, loop, op->buffer, op->index)));
    }
    if (loop->kind == HN_LOOP_SCATTER) HN_TRY(add_use(m, g, loop->store.buffer, false, 0));
    HN_TRY(add_use(m, g, loop->indices.buffer, true, 0));
    return add_use(m, g, loop->store.buffer, true,
                   loop->store.buffer
                       ? loop_access_bytes(m->s, loop, loop->store.buffer, loop->store.index)
                       : 0);
}

static hn_status add_group(merge *m, uint32_t g) {
    const group *own = &m->s->groups.items[g];
    m->of[g].count = 0;
    for (uint32_t k = 0; k < own->members.count; k++)
        HN_TRY(add_loop(m, g, own->members.items[k].loop));
    if (own->is_loop) return NULL;
    const hn_item_info *item = &m->s->p->items.items[own->item];
    HN_TRY(add_use(m, g, item->cond, false, 0));
    HN_TRY(add_use(m, g, item->to, true, 0));
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->operand_count; k++) {
        const struct hn_extern_operand *o = &item->ext->operands[k];
        HN_TRY(add_use(m, g, o->buffer, o->written, 0));
    }
    return NULL;
}

static bool is_bracket(const merge *m, uint32_t g) {
    const group *own = &m->s->groups.items[g];
    const hn_item_kind kind = own->is_loop ? HN_ITEM_LOOP : m->s->p->items.items[own->item].kind;
    return kind != HN_ITEM_LOOP && kind != HN_ITEM_EXTERN && kind != HN_ITEM_ASSERT;
}

static hn_status find_alive(merge *m) {
    HN_NEW(m->s->scratch, m->alive, (size_t)m->s->groups.count + 1);
    for (hn_buf b = 1; b < m->s->p->buffers.count; b++) {
        const life *u = &m->l.of[b];
        if (u->first == LIVES_NONE || !life_is_in_memory(u)) continue;
        m->alive[u->first + 1] += u->bytes;
        m->alive[u->last + 1] -= u->bytes;
    }
    for (uint32_t k = 0; k < m->s->groups.count; k++) m->alive[k + 1] += m->alive[k];
    return NULL;
}

static hn_status begin(merge *m) {
    const uint32_t count = m->s->groups.count, buffers = m->s->p->buffers.count;
    HN_NEW(m->s->scratch, m->of, count);
    HN_NEW(m->s->scratch, m->order, count);
    HN_NEW(m->s->scratch, m->place, count);
    HN_NEW(m->s->scratch, m->joined, count);
    HN_NEW(m->s->scratch, m->region, count);
    HN_NEW(m->s->scratch, m->marks, buffers);
    HN_TRY(lives_find(m->s, &m->l));
    for (uint32_t g = 0; g < count; g++) {
        m->order[g] = m->place[g] = m->joined[g] = g;
        m->region[g] = (g ? m->region[g - 1] : 0) + is_bracket(m, g);
        HN_TRY(add_group(m, g));
    }
    return find_alive(m);
}

/* ---- whether two may be one ---- */

static bool may_change(const merge *m, uint32_t g) {
    const group *own = &m->s->groups.items[g];
    return own->is_loop && own->members.count && own->form != GROUP_SINGLE;
}

/* Whether something that the marks tell of must come before the group. */
static bool depends(const merge *m, uint32_t g, bool on_first) {
    for (uint32_t k = 0; k < m->of[g].count; k++) {
        const use *u = &m->of[g].items[k];
        const struct mark *w = &m->marks[u->buffer];
        if (w->written == m->stamp || (u->writes && w->read == m->stamp)) return true;
        if (on_first && (w->own_written == m->stamp || (u->writes && w->own_read == m->stamp)))
            return true;
    }
    return false;
}

static void mark(merge *m, uint32_t g, bool is_first) {
    for (uint32_t k = 0; k < m->of[g].count; k++) {
        const use *u = &m->of[g].items[k];
        struct mark *w = &m->marks[u->buffer];
        if (u->reads) *(is_first ? &w->own_read : &w->read) = m->stamp;
        if (u->writes) *(is_first ? &w->own_written : &w->written) = m->stamp;
    }
}

static bool is_assertion(const merge *m, uint32_t g) {
    const group *own = &m->s->groups.items[g];
    return !own->is_loop && m->s->p->items.items[own->item].kind == HN_ITEM_ASSERT;
}

/* The groups between the places `a` and `b` that depend on that at `a`, and all behind an assertion that
 * does: `out_behind`, by their distance. False if that at `b` needs one of them. */
static bool find_behind(merge *m, uint32_t a, uint32_t b, bool *out_behind) {
    bool is_checked = false;
    m->stamp++;
    mark(m, m->order[a], true);
    for (uint32_t at = a + 1; at < b; at++) {
        const uint32_t g = m->order[at];
        out_behind[at - a] = is_checked || depends(m, g, true);
        is_checked |= out_behind[at - a] && is_assertion(m, g);
        if (out_behind[at - a]) mark(m, g, false);
    }
    return !is_checked && !depends(m, m->order[b], false);
}

/* Bytes of temporaries that would be alive for what is between the two, more than now: what the second
 * makes if it comes earlier, less what it reads last. */
static int64_t longer_alive(const merge *m, uint32_t b) {
    const uses *its = &m->of[m->order[b]];
    int64_t bytes = 0;
    for (uint32_t k = 0; k < its->count; k++) {
        const use *u = &its->items[k];
        if (m->s->p->buffers.items[u->buffer].kind != HN_BUFFER_TEMP) continue;
        if (u->writes && m->l.of[u->buffer].last > b) bytes += u->bytes;
        else if (u->reads && !u->writes && m->l.of[u->buffer].last == b) bytes -= u->bytes;
    }
    return bytes;
}

/* The groups of the places from `a` to `b` as they would run: `out_new` by distance, where the two that
 * become one have the same. */
static void renumber(const bool *behind, uint32_t distance, uint32_t *out_new) {
    uint32_t at = 0;
    for (uint32_t k = 1; k < distance; k++)
        if (!behind[k]) out_new[k] = at++;
    out_new[0] = out_new[distance] = at++;
    for (uint32_t k = 1; k < distance; k++)
        if (behind[k]) out_new[k] = at++;
}

static void meet(merge *m, uint32_t g, uint32_t at) {
    for (uint32_t k = 0; k < m->of[g].count; k++) {
        struct mark *w = &m->marks[m->of[g].items[k].buffer];
        if (w->met != m->stamp || at < w->from) w->from = at;
        if (w->met != m->stamp || at > w->to) w->to = at;
        w->met = m->stamp;
    }
}

/* Whether clearly more memory would be needed at one of the places from `a` to `b` than was at any in the
 * beginning. */
static bool raises_peak(merge *m, uint32_t a, uint32_t b, const bool *behind) {
    uint32_t at[NEAR + 1];
    int64_t step[NEAR + 2] = {0}, alive = m->alive[a];
    const int64_t most = m->l.peak + m->l.peak / PEAK_PARTS;
    renumber(behind, b - a, at);
    m->stamp++;
    for (uint32_t k = a; k <= b; k++) meet(m, m->order[k], at[k - a]);
    for (uint32_t k = a; k <= b; k++)
        for (uint32_t e = 0; e < m->of[m->order[k]].count; e++) {
            const hn_buf buffer = m->of[m->order[k]].items[e].buffer;
            const life *u = &m->l.of[buffer];
            struct mark *w = &m->marks[buffer];
            const bool was = u->first<a, is_later = u->last> b;
            if (w->met != m->stamp) continue;
            w->met = 0;
            if (!was && !is_later && w->from == w->to) continue;
            if (!was) step[w->from] += u->bytes;
            if (!is_later) step[w->to + 1] -= u->bytes;
        }
    for (uint32_t k = 0; k < b - a; k++)
        if ((alive += step[k]) > most) return true;
    return false;
}

/* ---- candidates ---- */

typedef struct pair {
    uint32_t at; /* the place of the first group */
    fuse_candidate what;
} pair;

/* What both groups touch; bytes as in fuse_saved.c. The second one's buffers have marks. */
static pair common(const merge *m, uint32_t a, uint32_t second) {
    pair p = {.at = a, .what = {.group = m->order[a]}};
    const uses *one = &m->of[m->order[a]], *other = &m->of[second];
    for (uint32_t k = 0; k < one->count; k++) {
        const use *u = &one->items[k];
        const struct mark *w = &m->marks[u->buffer];
        const use *v = w->read == m->stamp ? &other->items[w->at] : NULL;
        if (!v) continue;
        p.what.bytes += u->bytes < v->bytes ? u->bytes : v->bytes;
        if (p.what.shared_count < HN_REFUSAL_SHARED_MAX)
            p.what.shared[p.what.shared_count++] = u->buffer;
    }
    return p;
}

/* So that what it reads is found by its buffer. */
static void mark_reads(merge *m, uint32_t g) {
    m->stamp++;
    for (uint32_t k = 0; k < m->of[g].count; k++) {
        const use *u = &m->of[g].items[k];
        if (!u->reads) continue;
        m->marks[u->buffer].read = m->stamp;
        m->marks[u->buffer].at = k;
    }
}

static void keep_best(pair *best, uint32_t *count, const pair *p) {
    uint32_t at = TRIED_MAX - 1;
    if (*count < TRIED_MAX) at = (*count)++;
    else if (best[at].what.bytes >= p->what.bytes) return;
    for (; at && best[at - 1].what.bytes < p->what.bytes; at--) best[at] = best[at - 1];
    best[at] = *p;
}

/* Places of groups before that at `b`, which touch what it reads: those with most bytes in common. */
static uint32_t find_pairs(merge *m, uint32_t b, pair *out) {
    uint32_t count = 0;
    const uint32_t g = m->order[b];
    mark_reads(m, g);
    for (uint32_t a = b; a-- > 0 && b - a <= NEAR && m->region[m->order[a]] == m->region[g];) {
        if (!may_change(m, m->order[a])) continue;
        const pair p = common(m, a, g);
        if (p.what.bytes) keep_best(out, &count, &p);
    }
    return count;
}

/* ---- merging ---- */

static hn_status join_all(merge *m, uint32_t first, uint32_t second, hn_refusal_reason *out_why) {
    sched *s = m->s;
    group trial, *into = &s->groups.items[first], *from = &s->groups.items[second];
    *out_why = HN_REFUSED_FULL;
    if (into->members.count + from->members.count > MAX_MEMBERS || from->slabs) return NULL;
    HN_TRY(fuse_group_copy(s, into, &trial));
    for (uint32_t k = 0; k < from->members.count; k++) {
        const member *moved = &from->members.items[k];
        hn_loop *loop;
        HN_NEW(s->arena, loop, 1);
        HN_TRY(loop_copy(s, moved->loop, loop));
        HN_TRY(fuse_join(s, &trial, loop, moved->origin, false, out_why));
        if (*out_why) return NULL;
    }
    fuse_group_commit(into, &trial);
    from->members.count = 0;
    return NULL;
}

/* The loops of the second group, which have joined the first, are its own now. */
static hn_status note_merged(merge *m, const pair *p, uint32_t second) {
    HN_TRY(add_group(m, p->what.group));
    m->of[second].count = 0;
    m->joined[second] = p->what.group;
    sched_done(m->s, HN_SCHED_MERGE);
    m->s->out->saved_bytes += p->what.bytes;
    return NULL;
}

/* Who touches what at the places from `a` to `b`, in their new order. */
static void note_window(merge *m, uint32_t a, uint32_t b) {
    for (uint32_t k = a; k <= b; k++)
        for (uint32_t e = 0; e < m->of[m->order[k]].count; e++) {
            life *u = &m->l.of[m->of[m->order[k]].items[e].buffer];
            if (u->last <= b) u->last = k;
        }
    for (uint32_t k = b + 1; k-- > a;)
        for (uint32_t e = 0; e < m->of[m->order[k]].count; e++) {
            life *u = &m->l.of[m->of[m->order[k]].items[e].buffer];
            if (u->first >= a) u->first = k;
        }
    for (uint32_t k = a; k < b; k++) {
        m->alive[k + 1] = m->alive[k];
        for (uint32_t e = 0; e < m->of[m->order[k]].count; e++) {
            const life *u = &m->l.of[m->of[m->order[k]].items[e].buffer];
            if (!life_is_in_memory(u)) continue;
            if (u->first == k) m->alive[k + 1] += u->bytes;
            if (u->last == k) m->alive[k + 1] -= u->bytes;
        }
    }
}

/* Both groups are at the place where all that depends on the first begins. */
static void move(merge *m, uint32_t a, uint32_t b, const bool *behind) {
    uint32_t kept[NEAR], count = 0, at = a;
    const uint32_t first = m->order[a], second = m->order[b];
    for (uint32_t k = a + 1; k < b; k++)
        if (behind[k - a]) kept[count++] = m->order[k];
        else m->order[at++] = m->order[k];
    m->order[at++] = first;
    m->order[at++] = second; /* which is empty */
    memcpy(&m->order[at], kept, count * sizeof *kept);
    for (uint32_t k = a; k <= b; k++) m->place[m->order[k]] = k;
    note_window(m, a, b);
}

static hn_status try_pair(merge *m, const pair *p, uint32_t b, bool *out_merged) {
    bool behind[NEAR + 1];
    const uint32_t first = p->what.group, second = m->order[b];
    const group *g = &m->s->groups.items[second];
    const uint32_t origin = g->members.items[g->members.count - 1].origin;
    hn_refusal_reason why = HN_REFUSED_NONE;
    if (!find_behind(m, p->at, b, behind)) return NULL;
    const int64_t longer = b - p->at > 1 ? longer_alive(m, b) : 0;
    if (fuse_costs_memory(m->s, longer, p->what.bytes) ||
        (m->keeps_peak && raises_peak(m, p->at, b, behind)))
        why = HN_REFUSED_MEMORY;
    if (!why) HN_TRY(join_all(m, first, second, &why));
    *out_merged = !why;
    if (why == HN_REFUSED_MEMORY) return fuse_refuse(m->s, &p->what, NULL, origin, why);
    if (why) return NULL;
    HN_TRY(note_merged(m, p, second));
    move(m, p->at, b, behind);
    return NULL;
}

/* ---- groups far behind the first ---- */

/* Where the loops are that group `g` had in the beginning. */
static uint32_t place_of(const merge *m, uint32_t g) {
    while (m->joined[g] != g) g = m->joined[g] = m->joined[m->joined[g]];
    return m->place[g];
}

/* Whether the group at `a` alone makes it, and nobody else reads it in front of the place `b`. */
static bool is_made_for(const merge *m, hn_buf made, uint32_t a, uint32_t b) {
    const life *x = &m->l.of[made];
    uint32_t count = 0;
    if (x->writers != 1) return false;
    for (uint32_t r = x->readers; r; r = m->l.reads.items[r - 1].next) {
        const uint32_t at = place_of(m, m->l.reads.items[r - 1].group);
        if (count++ == READERS_MAX || (at != a && at < b)) return false;
    }
    return true;
}

/* Whether it is the same at all places behind its writer: no input that is changed, say. */
static bool stays(const merge *m, hn_buf read) {
    const life *x = &m->l.of[read];
    return !x->writers || (x->writers == 1 && m->s->p->buffers.items[read].kind == HN_BUFFER_TEMP);
}

/* Whether the group at `a` may run as late as that at `b`, without more memory alive between them:
 * `out_longer`, bytes that are alive there and were not, less those that were. */
static bool may_wait(const merge *m, uint32_t a, uint32_t b, int64_t *out_longer) {
    const uses *own = &m->of[m->order[a]];
    *out_longer = 0;
    for (uint32_t k = 0; k < own->count; k++) {
        const use *u = &own->items[k];
        const life *x = &m->l.of[u->buffer];
        if (u->writes ? !is_made_for(m, u->buffer, a, b) : !stays(m, u->buffer)) return false;
        if (u->writes && life_is_in_memory(x)) *out_longer -= x->bytes;
        if (!u->writes && x->last == a) *out_longer += x->bytes;
    }
    return *out_longer <= 0;
}

/* Of the bytes that are alive, only those at the last places are needed any more. */
static void wait(merge *m, uint32_t a, uint32_t b, int64_t longer) {
    const uint32_t first = m->order[a], second = m->order[b];
    m->order[a] = second; /* which is empty */
    m->order[b] = first;
    m->place[first] = b;
    m->place[second] = a;
    for (uint32_t k = 0; k < m->of[first].count; k++) {
        const use *u = &m->of[first].items[k];
        life *x = &m->l.of[u->buffer];
        if (u->writes && x->first == a) x->first = b;
        if (x->last < b) x->last = b;
    }
    for (uint32_t k = b; k > a && b - k <= NEAR; k--) m->alive[k] += longer;
}

/* The group at `a`, if it may, waits for that at `b` and takes its loops. */
static hn_status try_wait(merge *m, uint32_t a, uint32_t b, bool *out_merged) {
    const uint32_t first = m->order[a], second = m->order[b];
    int64_t longer;
    hn_refusal_reason why;
    *out_merged = false;
    if (!may_change(m, first) || m->region[first] != m->region[second] ||
        !may_wait(m, a, b, &longer))
        return NULL;
    HN_TRY(join_all(m, first, second, &why));
    if (why) return NULL;
    mark_reads(m, second);
    const pair p = common(m, a, second);
    HN_TRY(note_merged(m, &p, second));
    wait(m, a, b, longer);
    *out_merged = true;
    return NULL;
}

static hn_status try_waiting(merge *m, uint32_t b) {
    const uint32_t g = m->order[b];
    bool merged = !may_change(m, g);
    for (uint32_t k = 0, tried = 0; k < m->of[g].count && tried < TRIED_MAX && !merged; k++) {
        const life *x = &m->l.of[m->of[g].items[k].buffer];
        if (x->writers != 1 || x->first >= b || b - x->first <= NEAR) continue;
        tried++;
        HN_TRY(try_wait(m, x->first, b, &merged));
    }
    return NULL;
}

static hn_status reorder_groups(merge *m) {
    sched *s = m->s;
    group *items;
    if (!s->out->rewrites[HN_SCHED_MERGE]) return NULL;
    HN_NEW(s->arena, items, s->groups.count);
    for (uint32_t k = 0; k < s->groups.count; k++) items[k] = s->groups.items[m->order[k]];
    s->groups.items = items;
    s->groups.cap = s->groups.count;
    return NULL;
}

hn_status fuse_merge_groups(sched *s, bool keeps_peak) {
    merge m = {.s = s, .keeps_peak = keeps_peak};
    if (s->options->no_fusion || s->groups.count < 2) return NULL;
    HN_TRY(begin(&m));
    for (uint32_t b = 1; b < s->groups.count; b++) {
        pair pairs[TRIED_MAX];
        bool merged = false;
        const uint32_t g = m.order[b], count = may_change(&m, g) ? find_pairs(&m, b, pairs) : 0;
        for (uint32_t k = 0; k < count && !merged; k++) HN_TRY(try_pair(&m, &pairs[k], b, &merged));
        HN_TRY(try_waiting(&m, place_of(&m, g)));
    }
    return reorder_groups(&m);
}
