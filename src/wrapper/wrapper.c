/* wrapper.c: building wrapper IR. */
#include "wrapper/wrapper.h"

hn_status hn_wrapper_create(hn_arena *arena, hn_sym *sym, const hn_graph *graph, hn_wrapper **out) {
    hn_wrapper *w;
    HN_NEW(arena, w, 1);
    *w = (hn_wrapper){.arena = arena, .sym = sym, .graph = graph};
    HN_PUSH(arena, &w->buffers, (hn_wbuffer){0});
    HN_PUSH(arena, &w->kernels, (hn_wkernel_info){0});
    *out = w;
    return NULL;
}

hn_status hn_wrapper_add_buffer(hn_wrapper *w, hn_wbuffer buffer, hn_wbuf *out) {
    *out = w->buffers.count;
    HN_PUSH(w->arena, &w->buffers, buffer);
    return NULL;
}

hn_status hn_wrapper_add_kernel(hn_wrapper *w, hn_wkernel_info kernel, hn_wkernel *out) {
    *out = w->kernels.count;
    HN_PUSH(w->arena, &w->kernels, kernel);
    return NULL;
}

static hn_status copy_list(hn_arena *arena, const void *items, uint32_t count, size_t elem_bytes, void *out) {
    void *copy;
    HN_TRY(hn_arena_array(arena, count, elem_bytes, &copy));
    if (count) memcpy(copy, items, count * elem_bytes);
    memcpy(out, &copy, sizeof copy);
    return NULL;
}

hn_status hn_wrapper_add_line(hn_wrapper *w, hn_line line) {
    HN_TRY(copy_list(w->arena, line.operands, line.operand_count, sizeof *line.operands, &line.operands));
    HN_TRY(copy_list(w->arena, line.params, line.param_count, sizeof *line.params, &line.params));
    HN_PUSH(w->arena, &w->lines, line);
    return NULL;
}
