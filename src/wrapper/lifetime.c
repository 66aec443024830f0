/* lifetime.c: blocks and lifetimes, see lifetime.h. */
#include "wrapper/lifetime.h"

enum { MAX_COND_DEPTH = 64 };

static hn_status find_blocks(const hn_wrapper *w, hn_arena *arena, hn_wlives *l, uint32_t first,
                             uint32_t end, uint32_t block) {
    if (l->blocks.items[block].depth > MAX_COND_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "conditionals and loops nested more than %d deep",
                        MAX_COND_DEPTH);
    for (uint32_t i = first; i < end; i = l->line_end[i] + 1) {
        const hn_line *line = &w->lines.items[i];
        l->line_block[i] = block;
        l->line_end[i] = i;
        if (!hn_line_has_bodies(line->kind)) continue;
        uint64_t body_end = (uint64_t)i + 1 + line->then_count + line->otherwise_count;
        if (body_end > end)
            return HN_ERROR(HN_INTERNAL,
                            "line %u: the bodies of a conditional or loop reach beyond their block",
                            i);
        l->line_end[i] = (uint32_t)body_end - 1;
        hn_wblock inner = {.line = i, .parent = block, .depth = l->blocks.items[block].depth + 1};
        uint32_t then_block = l->blocks.count, middle = i + 1 + line->then_count;
        HN_PUSH(arena, &l->blocks, inner);
        HN_PUSH(arena, &l->blocks, inner);
        HN_TRY(find_blocks(w, arena, l, i + 1, middle, then_block));
        HN_TRY(find_blocks(w, arena, l, middle, (uint32_t)body_end, then_block + 1));
    }
    return NULL;
}

/* Moves (block, line) one block outwards. */
static void climb(const hn_wlives *l, uint32_t *block, uint32_t *line) {
    *line = l->blocks.items[*block].line;
    *block = l->blocks.items[*block].parent;
}

/* A view is a mention of its root. */
static void mention(const hn_wrapper *w, hn_wlives *l, hn_wbuf b, uint32_t line) {
    const hn_wbuf buffer = hn_wrapper_root(w, b);
    hn_wlife *life = &l->buffers[buffer];
    uint32_t block = l->line_block[line];
    if (!buffer) return;
    if (!life->used) *life = (hn_wlife){.used = true, .block = block, .first = line, .last = line};
    while (block != life->block) {
        if (l->blocks.items[block].depth >= l->blocks.items[life->block].depth) {
            climb(l, &block, &line);
        } else {
            life->first = life->last = l->blocks.items[life->block].line;
            life->block = l->blocks.items[life->block].parent;
        }
    }
    if (line < life->first) life->first = line;
    if (line > life->last) life->last = line;
    life->end = l->line_end[life->last];
}

static void mention_to_end(const hn_wrapper *w, hn_wlives *l, hn_wbuf b) {
    const hn_wbuf buffer = hn_wrapper_root(w, b);
    hn_wlife *life = &l->buffers[buffer];
    if (!buffer || !life->used) return;
    while (life->block) {
        life->first = life->last = l->blocks.items[life->block].line;
        life->block = l->blocks.items[life->block].parent;
    }
    life->last = life->end = w->lines.count;
}

/* An input that is returned as it is may be in no line. */
static void mention_output(const hn_wrapper *w, hn_wlives *l, const hn_woutput *o) {
    const hn_wbuf buffer = hn_wrapper_root(w, o->buffer);
    hn_wlife *life = &l->buffers[buffer];
    if (buffer && !life->used && w->buffers.items[buffer].kind == HN_WBUF_INPUT)
        *life = (hn_wlife){.used = true};
    mention_to_end(w, l, buffer);
}

/* What is zeroed once is left as zeros by one call for the next. */
static void mention_always(const hn_wrapper *w, hn_wlives *l) {
    for (hn_wbuf b = 1; b < w->buffers.count; b++) {
        if (w->buffers.items[b].zeroed != HN_WZEROED_ONCE || !l->buffers[b].used) continue;
        mention_to_end(w, l, b);
        l->buffers[b].first = 0;
    }
}

/* ---- copies that a device makes ---- */

/* For each line of the program the first WAIT line behind it that runs whenever the line does: in
 * its block, or in one around it, behind the conditional. UINT32_MAX: there is none. Lines are gone
 * through from the last to the first. */
typedef struct waits {
    const hn_wlives *lives;
    uint32_t (*next)[HN_DEVICE_KIND_COUNT]; /* per block: behind the line at hand */
    bool *is_known;                         /* per block */
} waits;

static void find_behind(waits *x, uint32_t block) {
    uint32_t chain[MAX_COND_DEPTH + 2], depth = 0;
    for (uint32_t b = block; !x->is_known[b]; b = x->lives->blocks.items[b].parent)
        chain[depth++] = b;
    while (depth) {
        const uint32_t b = chain[--depth], parent = x->lives->blocks.items[b].parent;
        memcpy(x->next[b], x->next[parent], sizeof x->next[b]);
        x->is_known[b] = true;
    }
}

static void mention_until(hn_wlives *l, const hn_wrapper *w, hn_wbuf buffer, uint32_t wait) {
    const bool lives_to_end = l->buffers[buffer].last == w->lines.count;
    if (w->buffers.items[buffer].device != HN_DEVICE_CPU || lives_to_end) return;
    if (wait == UINT32_MAX) mention_to_end(w, l, buffer);
    else mention(w, l, buffer, wait);
}

static hn_status mention_waits(const hn_wrapper *w, hn_arena *arena, hn_wlives *l) {
    waits x = {.lives = l};
    HN_NEW(arena, x.next, l->blocks.count);
    HN_NEW(arena, x.is_known, l->blocks.count);
    memset(x.next[0], 0xff, sizeof x.next[0]);
    x.is_known[0] = true;
    for (uint32_t i = w->lines.count; i-- > 0;) {
        const hn_line *line = &w->lines.items[i];
        const hn_device_kind device = hn_line_device(w, line);
        uint32_t *next = x.next[l->line_block[i]];
        find_behind(&x, l->line_block[i]);
        if (line->kind == HN_LINE_WAIT) next[device] = i;
        if (line->kind != HN_LINE_COPY || device == HN_DEVICE_CPU) continue;
        mention_until(l, w, line->buffer, next[device]);
        mention_until(l, w, line->from, next[device]);
    }
    return NULL;
}

/* ---- programs that nobody has verified ---- */

static hn_status check_buffer(const hn_wrapper *w, const char *what, uint32_t number, hn_wbuf b) {
    if (b < w->buffers.count && hn_wrapper_root(w, b) < w->buffers.count) return NULL;
    return HN_ERROR(HN_INTERNAL, "%s %u names buffer %u, which there is not", what, number, b);
}

static hn_status check_line(const hn_wrapper *w, uint32_t i) {
    const hn_line *line = &w->lines.items[i];
    HN_TRY(check_buffer(w, "line", i, line->buffer));
    HN_TRY(check_buffer(w, "line", i, line->from));
    HN_TRY(check_buffer(w, "line", i, line->workspace));
    for (uint32_t k = 0; k < line->operand_count; k++)
        HN_TRY(check_buffer(w, "line", i, line->operands[k].buffer));
    return NULL;
}

static hn_status check_buffers(const hn_wrapper *w) {
    for (uint32_t i = 0; i < w->lines.count; i++) HN_TRY(check_line(w, i));
    for (uint32_t i = 0; i < w->inputs.count; i++)
        HN_TRY(check_buffer(w, "input", i, w->inputs.items[i].buffer));
    for (uint32_t i = 0; i < w->outputs.count; i++)
        HN_TRY(check_buffer(w, "output", i, w->outputs.items[i].buffer));
    return NULL;
}

hn_status hn_wrapper_lives(const hn_wrapper *w, hn_arena *arena, hn_wlives *out) {
    *out = (hn_wlives){0};
    HN_TRY(check_buffers(w));
    HN_NEW(arena, out->line_block, w->lines.count);
    HN_NEW(arena, out->line_end, w->lines.count);
    HN_NEW(arena, out->buffers, w->buffers.count);
    HN_PUSH(arena, &out->blocks, ((hn_wblock){.line = UINT32_MAX}));
    HN_TRY(find_blocks(w, arena, out, 0, w->lines.count, 0));
    for (uint32_t i = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        if (line->kind == HN_LINE_REUSE || line->kind == HN_LINE_COPY) {
            mention(w, out, line->buffer, i);
            mention(w, out, line->from, i);
        }
        for (uint32_t k = 0; k < line->operand_count; k++)
            mention(w, out, line->operands[k].buffer, i);
        mention(w, out, line->workspace, i);
    }
    mention_always(w, out);
    HN_TRY(mention_waits(w, arena, out));
    for (uint32_t i = 0; i < w->outputs.count; i++) mention_output(w, out, &w->outputs.items[i]);
    return NULL;
}
