/* fuse_saved.c: which groups a loop has buffers in common with, and how many bytes it need not move
 * when it joins one.
 *
 * A buffer that both read is read once. One that the group makes is not read at all, and not written
 * either if nobody else reads it. So
 *
 *     bytes(loop, group) = sum over buffers b that both touch: bytes that the loop reads of b
 *                          (twice, if the group makes b for this loop alone)
 *
 * Each buffer remembers the few groups that touched it last: a loop meets a bounded number of groups,
 * and fusion stays linear. */
#include "sched/fuse.h"

#include <string.h>

enum { TOUCHED_MAX = FUSE_TOUCHED_MAX };

static void count_read(sched *s, hn_buf b, uint32_t item) {
    if (!b || s->seen[b] == item) return;
    s->seen[b] = item;
    s->item_readers[b]++;
}

static void count_item(sched *s, const hn_item_info *item, uint32_t number) {
    count_read(s, item->cond, number);
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->operand_count; k++)
        if (!item->ext->operands[k].written) count_read(s, item->ext->operands[k].buffer, number);
    if (item->kind != HN_ITEM_LOOP) return;
    const hn_loop *loop = item->loop;
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD)
            count_read(s, loop->body.items[k].buffer, number);
    if (loop->kind == HN_LOOP_SCATTER) count_read(s, loop->store.buffer, number);
}

hn_status fuse_saved_begin(sched *s) {
    /* Picking and splitting add at most one buffer an item each; or splitting a scan two. */
    const uint32_t most = s->p->buffers.count + 2 * s->p->items.count;
    HN_NEW(s->scratch, s->writer_group, most);
    HN_NEW(s->scratch, s->reader_group, most);
    HN_NEW(s->scratch, s->touched, most);
    HN_NEW(s->scratch, s->item_readers, most);
    HN_NEW(s->scratch, s->seen, most);
    for (hn_item i = 1; i < s->p->items.count; i++) count_item(s, &s->p->items.items[i], i);
    memset(s->seen, 0, most * sizeof *s->seen);
    return NULL;
}

/* The newest one comes first; each is there once. */
static void touch(sched *s, hn_buf b, uint32_t index) {
    uint32_t *list = s->touched[b].groups, at = 0;
    while (at + 1 < TOUCHED_MAX && list[at] && list[at] != index + 1) at++;
    memmove(&list[1], list, at * sizeof *list);
    list[0] = index + 1;
}

void fuse_note_read(sched *s, hn_buf b, uint32_t index) {
    if (!b) return;
    if (s->reader_group[b] <= index) s->reader_group[b] = index + 1;
    touch(s, b, index);
}

void fuse_note_write(sched *s, hn_buf b, uint32_t index) {
    if (!b) return;
    s->writer_group[b] = index + 1;
    touch(s, b, index);
}

void fuse_note_access(sched *s, const hn_loop *loop, uint32_t index) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD)
            fuse_note_read(s, loop->body.items[k].buffer, index);
    if (loop->kind == HN_LOOP_SCATTER) fuse_note_read(s, loop->store.buffer, index);
    fuse_note_write(s, loop->store.buffer, index);
    fuse_note_write(s, loop->indices.buffer, index);
}

uint32_t fuse_newest_needed(const sched *s, const hn_loop *loop) {
    uint32_t newest = s->writer_group[loop->store.buffer];
    if (s->reader_group[loop->store.buffer] > newest) newest = s->reader_group[loop->store.buffer];
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD && s->writer_group[op->buffer] > newest)
            newest = s->writer_group[op->buffer];
    }
    return newest;
}

/* ---- candidates ---- */

static int64_t saved_by(sched *s, const hn_loop *loop, const hn_sop *load, uint32_t index) {
    const hn_buf b = load->buffer;
    const int64_t bytes = loop_access_bytes(s, loop, b, load->index);
    const bool is_made_for_it = s->writer_group[b] == index + 1 && s->item_readers[b] == 1 &&
                                s->p->buffers.items[b].kind == HN_BUFFER_TEMP;
    return is_made_for_it ? 2 * bytes : bytes;
}

static void add_shared(fuse_candidate *c, hn_buf b, int64_t bytes) {
    c->bytes += bytes;
    if (c->shared_count < HN_REFUSAL_SHARED_MAX) c->shared[c->shared_count++] = b;
}

/* NULL: there is no place for another one. */
static fuse_candidate *candidate_of(fuse_candidates *all, uint32_t index) {
    for (uint32_t k = 0; k < all->count; k++)
        if (all->items[k].group == index) return &all->items[k];
    if (all->count == FUSE_CANDIDATES_MAX) return NULL;
    all->items[all->count] = (fuse_candidate){.group = index};
    return &all->items[all->count++];
}

static void add_load(sched *s, const hn_loop *loop, const hn_sop *load, uint32_t least,
                     fuse_candidates *all) {
    for (uint32_t k = 0; k < TOUCHED_MAX && s->touched[load->buffer].groups[k]; k++) {
        const uint32_t index = s->touched[load->buffer].groups[k] - 1;
        fuse_candidate *c = index + 1 >= least ? candidate_of(all, index) : NULL;
        if (c) add_shared(c, load->buffer, saved_by(s, loop, load, index));
    }
}

static bool comes_first(const fuse_candidate *a, const fuse_candidate *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->group > b->group;
}

static void sort(fuse_candidates *all) {
    for (uint32_t k = 1; k < all->count; k++) {
        const fuse_candidate c = all->items[k];
        uint32_t at = k;
        for (; at && comes_first(&c, &all->items[at - 1]); at--)
            all->items[at] = all->items[at - 1];
        all->items[at] = c;
    }
}

/* Each buffer counts once, by its first load. */
static bool is_first(sched *s, const hn_sop *op) {
    if (op->kind != HN_SOP_LOAD || s->seen[op->buffer] == s->seen_now) return false;
    s->seen[op->buffer] = s->seen_now;
    return true;
}

void fuse_find_candidates(sched *s, const hn_loop *loop, fuse_candidates *out) {
    const uint32_t newest = fuse_newest_needed(s, loop),
                   least = newest > s->barrier ? newest : s->barrier + 1;
    out->count = 0;
    s->seen_now++;
    if (newest > s->barrier) (void)candidate_of(out, newest - 1);
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (is_first(s, &loop->body.items[k])) add_load(s, loop, &loop->body.items[k], least, out);
    sort(out);
}

static bool has_touched(const sched *s, hn_buf b, uint32_t index) {
    for (uint32_t k = 0; k < TOUCHED_MAX; k++)
        if (s->touched[b].groups[k] == index + 1) return true;
    return false;
}

fuse_candidate fuse_common_with(sched *s, const hn_loop *loop, uint32_t index) {
    fuse_candidate c = {.group = index};
    s->seen_now++;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (is_first(s, op) && has_touched(s, op->buffer, index))
            add_shared(&c, op->buffer, saved_by(s, loop, op, index));
    }
    return c;
}

/* ---- memory ---- */

enum { ALIVE_FACTOR = 4 }; /* bytes that may stay alive longer, for each byte that is saved */

bool fuse_costs_memory(const sched *s, int64_t longer_alive, int64_t saved) {
    return longer_alive > s->options->limits->again_min_bytes &&
           longer_alive / ALIVE_FACTOR > saved;
}

bool fuse_is_too_early(sched *s, const hn_loop *loop, const fuse_candidate *c) {
    const hn_buf made = loop->store.buffer;
    int64_t longer = 0;
    if (c->group + 1 == s->groups.count || s->p->buffers.items[made].kind != HN_BUFFER_TEMP)
        return false;
    longer = loop_access_bytes(s, loop, made, loop->store.index);
    s->seen_now++;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (is_first(s, op) && s->item_readers[op->buffer] == 1 &&
            s->p->buffers.items[op->buffer].kind == HN_BUFFER_TEMP)
            longer -= loop_access_bytes(s, loop, op->buffer, op->index);
    }
    return fuse_costs_memory(s, longer, c->bytes);
}
