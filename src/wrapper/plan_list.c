/* plan_list.c: see plan_list.h. */
#include "wrapper/plan_list.h"

#include "wrapper/lifetime.h"
#include "wrapper/slots.h"

static int64_t hint(const hn_wrapper *w, hn_expr e) {
    const int64_t value = e ? hn_sym_hint(w->sym, e, 0) : 0;
    return value > 0 ? value : 0;
}

static hn_str node_name(const hn_wrapper *w, const hn_line *line) {
    const uint32_t origin = hn_wrapper_origin(w, line->origin);
    return w->graph && origin ? w->graph->origins.items[origin].node : HN_STR("");
}

static void find_names(const hn_wrapper *w, hn_plan_box *boxes) {
    for (uint32_t i = w->lines.count; i-- > 0;) {
        const hn_line *line = &w->lines.items[i];
        for (uint32_t k = 0; k < line->operand_count; k++)
            if (line->operands[k].written)
                boxes[hn_wrapper_root(w, line->operands[k].buffer)].node = node_name(w, line);
        if (line->workspace) boxes[line->workspace].node = node_name(w, line);
        if (line->kind == HN_LINE_COPY)
            boxes[hn_wrapper_root(w, line->buffer)].node = node_name(w, line);
    }
    for (hn_wbuf b = 1; b < w->buffers.count; b++) {
        const hn_wbuffer *f = &w->buffers.items[b];
        if (f->name.len || f->node.len) boxes[b].node = f->name.len ? f->name : f->node;
    }
}

static void find_place(const hn_wrapper *w, const hn_memory_plan *plan, hn_plan_box *x) {
    if (!plan->offsets[x->buffer] || !x->is_used) return;
    x->space = plan->pools[x->buffer] ? HN_DEVICE_KIND_COUNT + plan->pools[x->buffer]
                                      : 1 + (uint32_t)w->buffers.items[x->buffer].device;
    x->at = hint(w, plan->offsets[x->buffer]);
    x->bytes = hint(w, hn_wrapper_placed_bytes(w, x->buffer));
}

hn_status hn_memory_plan_boxes(const hn_wrapper *w, const hn_memory_plan *plan, hn_arena *arena,
                               hn_plan_box **out) {
    hn_wlives lives;
    hn_plan_box *boxes;
    HN_NEW(arena, boxes, w->buffers.count);
    HN_TRY(hn_wrapper_lives(w, arena, &lives));
    find_names(w, boxes);
    for (hn_wbuf b = 1; b < w->buffers.count; b++) {
        const hn_wlife *life = &lives.buffers[b];
        boxes[b].buffer = b;
        boxes[b].is_used = life->used;
        boxes[b].first = life->first, boxes[b].end = life->end;
        find_place(w, plan, &boxes[b]);
    }
    *out = boxes;
    return NULL;
}
