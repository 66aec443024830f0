/* workspaces.c: see workspaces.h. */
#include "wrapper/workspaces.h"

#include "wrapper/lifetime.h"
#include "wrapper/slots.h"

#define BAD(...) HN_ERROR(HN_INTERNAL, "wrapper: " __VA_ARGS__)

/* ---- what is wanted ---- */

hn_workspace hn_workspace_merge(hn_sym *sym, hn_workspace a, hn_workspace b) {
    return (hn_workspace){
        .bytes = !a.bytes   ? b.bytes
                 : !b.bytes ? a.bytes
                            : hn_sym_max(sym, a.bytes, b.bytes),
        .zeroed = a.zeroed > b.zeroed ? a.zeroed : b.zeroed,
    };
}

static hn_workspace of_launch(hn_sym *sym, hn_expr groups, hn_expr scratch_bytes) {
    return (hn_workspace){.bytes = scratch_bytes ? hn_sym_mul(sym, groups, scratch_bytes) : 0};
}

hn_workspace hn_workspace_of_groups(const hn_wrapper *w, const hn_line *line) {
    hn_workspace all = {0};
    if (!line->threads) return all;
    for (uint32_t v = 0; v < hn_line_variants(line); v++)
        for (uint32_t t = 0; t < w->target_count; t++) {
            const hn_wlaunch l = hn_line_launch(line, v, t);
            all = hn_workspace_merge(w->sym, all, of_launch(w->sym, l.extent, l.scratch_bytes));
        }
    return all;
}

hn_status hn_wrapper_add_workspace(hn_wrapper *w, hn_device_kind device, hn_workspace wanted,
                                   hn_wbuf *out) {
    hn_expr *dims;
    *out = 0;
    if (!wanted.bytes) return NULL;
    HN_NEW(w->arena, dims, 2);
    dims[0] = wanted.bytes, dims[1] = hn_sym_int(w->sym, 1);
    return hn_wrapper_add_buffer(w,
                                 (hn_wbuffer){.kind = HN_WBUF_WORKSPACE,
                                              .dtype = HN_DTYPE_U8,
                                              .device = device,
                                              .rank = 1,
                                              .sizes = dims,
                                              .strides = dims + 1,
                                              .bytes = wanted.bytes,
                                              .zeroed = wanted.zeroed},
                                 out);
}

hn_wbuf hn_line_workspace(const hn_wrapper *w, const hn_line *line, uint32_t k) {
    if (k >= line->operand_count) return k == line->operand_count ? line->workspace : 0;
    const hn_wbuf b = line->operands[k].buffer;
    return w->buffers.items[b].kind == HN_WBUF_WORKSPACE ? b : 0;
}

/* ---- checks ---- */

/* Where a workspace was used last. */
typedef struct use {
    bool is_used;
    uint32_t step, block; /* counted; of hn_wlives */
} use;

typedef struct checker {
    const hn_wrapper *w;
    hn_wlives lives;
    use *uses; /* per buffer */
    uint32_t step;
} checker;

/* Kernels of one operation stand one behind the other. Zeros and copies in between are for those
 * behind. */
static bool stands_between(hn_line_kind kind) {
    return kind == HN_LINE_ZERO || kind == HN_LINE_COPY || kind == HN_LINE_WAIT;
}

static hn_status note_use(checker *c, hn_wbuf b, uint32_t i) {
    const use now = {true, c->step, c->lives.line_block[i]};
    const use *last = &c->uses[b];
    const bool is_always = c->w->buffers.items[b].zeroed == HN_WZEROED_ONCE;
    if (last->is_used && !is_always && (last->step + 1 < now.step || last->block != now.block))
        return BAD("line %u uses workspace %u, which another line had before", i, b);
    c->uses[b] = now;
    return NULL;
}

/* Of calls in groups. */
static hn_status check_groups(const hn_wrapper *w, const hn_line *line, uint32_t i) {
    const hn_expr need = hn_workspace_of_groups(w, line).bytes;
    HN_TRY(hn_sym_status(w->sym)); /* numbers that overflow */
    if (line->workspace && !line->threads)
        return BAD("line %u has a workspace and no groups of threads", i);
    if (!line->workspace)
        return need ? BAD("line %u: groups have scratch memory and no workspace for it", i) : NULL;
    if (line->workspace >= w->buffers.count ||
        w->buffers.items[line->workspace].kind != HN_WBUF_WORKSPACE)
        return BAD("line %u: buffer %u is no workspace", i, line->workspace);
    const hn_wbuffer *b = &w->buffers.items[line->workspace];
    if (b->device != line->device)
        return BAD("line %u runs on %s and has a workspace on %s", i, hn_device_name(line->device),
                   hn_device_name(b->device));
    return need && b->bytes != need && hn_sym_prove_lt(w->sym, b->bytes, need)
               ? BAD("line %u: workspace %u is too small", i, line->workspace)
               : NULL;
}

static hn_status check_line(checker *c, const hn_line *line, uint32_t i) {
    const hn_wrapper *w = c->w;
    if (line->kind == HN_LINE_KERNEL) HN_TRY(check_groups(w, line, i));
    else if (line->workspace) return BAD("line %u has a workspace and is no kernel's", i);
    const bool has_pair = line->kind == HN_LINE_COPY || line->kind == HN_LINE_REUSE;
    const hn_wbuf pair[] = {has_pair ? line->buffer : 0, has_pair ? line->from : 0};
    for (uint32_t k = 0; k < 2; k++)
        if (w->buffers.items[pair[k]].kind == HN_WBUF_WORKSPACE)
            return BAD("line %u uses workspace %u and is no call", i, pair[k]);
    if (line->kind == HN_LINE_ZERO && w->buffers.items[line->buffer].kind != HN_WBUF_WORKSPACE)
        return BAD("line %u: buffer %u is no workspace, and not zeroed", i, line->buffer);
    for (uint32_t k = 0; k <= line->operand_count; k++) {
        const hn_wbuf b = hn_line_workspace(w, line, k);
        if (!b) continue;
        if (k < line->operand_count && (line->kind != HN_LINE_KERNEL || !line->operands[k].written))
            return BAD("line %u reads workspace %u", i, b);
        HN_TRY(note_use(c, b, i));
    }
    return NULL;
}

static hn_status check_buffer(const hn_wrapper *w, hn_wbuf i) {
    const hn_wbuffer *b = &w->buffers.items[i];
    if ((uint32_t)b->zeroed >= HN_WZEROED_COUNT || (b->zeroed && b->kind != HN_WBUF_WORKSPACE))
        return BAD("buffer %u is zeroed in way %d, and no workspace", i, (int)b->zeroed);
    if (b->kind == HN_WBUF_VIEW && w->buffers.items[b->root].kind == HN_WBUF_WORKSPACE)
        return BAD("buffer %u is a view of workspace %u", i, b->root);
    if (b->zeroed == HN_WZEROED_ONCE && hn_wrapper_is_data(w->sym, b->bytes))
        return BAD("workspace %u is zeroed once, and its size depends on data", i);
    return NULL;
}

hn_status hn_wrapper_workspaces_verify(const hn_wrapper *w, hn_arena *arena) {
    checker c = {.w = w};
    HN_TRY(hn_wrapper_lives(w, arena, &c.lives));
    HN_NEW(arena, c.uses, w->buffers.count);
    for (hn_wbuf b = 1; b < w->buffers.count; b++) HN_TRY(check_buffer(w, b));
    for (uint32_t i = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        HN_TRY(check_line(&c, line, i));
        if (!stands_between(line->kind)) c.step += hn_line_is_step(line->kind);
    }
    for (uint32_t i = 0; i < w->outputs.count; i++)
        if (w->buffers.items[w->outputs.items[i].buffer].kind == HN_WBUF_WORKSPACE)
            return BAD("output %u is in workspace %u", i, w->outputs.items[i].buffer);
    return NULL;
}
