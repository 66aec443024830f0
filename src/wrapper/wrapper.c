/* wrapper.c: building wrapper IR. */
#include "wrapper/wrapper.h"

hn_status hn_wrapper_create(hn_arena *arena, hn_sym *sym, const hn_graph *graph, hn_wrapper **out) {
    hn_wrapper *w;
    HN_NEW(arena, w, 1);
    *w = (hn_wrapper){.arena = arena, .sym = sym, .graph = graph, .target_count = 1};
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

static hn_status copy_list(hn_arena *arena, const void *items, uint32_t count, size_t elem_bytes,
                           void *out) {
    void *copy;
    HN_TRY(hn_arena_array(arena, count, elem_bytes, &copy));
    if (count) memcpy(copy, items, count * elem_bytes);
    memcpy(out, &copy, sizeof copy);
    return NULL;
}

hn_status hn_wrapper_add_line(hn_wrapper *w, hn_line line) {
    HN_TRY(copy_list(w->arena, line.operands, line.operand_count, sizeof *line.operands,
                     &line.operands));
    HN_TRY(copy_list(w->arena, line.params, line.param_count, sizeof *line.params, &line.params));
    HN_TRY(
        copy_list(w->arena, line.origins, line.origin_count, sizeof *line.origins, &line.origins));
    if (line.order)
        HN_TRY(copy_list(w->arena, line.order, line.arg_count, sizeof *line.order, &line.order));
    HN_PUSH(w->arena, &w->lines, line);
    return NULL;
}

hn_wlaunch hn_line_launch(const hn_line *line, uint32_t variant, uint32_t target) {
    if (variant) return line->variants[variant - 1].launches[target];
    if (target && line->others) return line->others[target - 1];
    return (hn_wlaunch){.arg_count = line->order ? line->arg_count : line->operand_count,
                        .order = line->order,
                        .form = line->form,
                        .param_count = line->param_count,
                        .params = line->params,
                        .extent = line->extent,
                        .grain = line->grain,
                        .threads = line->threads,
                        .shared_bytes = line->shared_bytes,
                        .scratch_bytes = line->scratch_bytes};
}

/* Broken IR is printed, too. */
static hn_device_kind device_of(const hn_wrapper *w, hn_wbuf buffer) {
    return buffer < w->buffers.count ? w->buffers.items[buffer].device : HN_DEVICE_CPU;
}

hn_expr hn_wrapper_offset(const hn_wrapper *w, hn_wbuf b, hn_dtype dtype, hn_expr offset_elems) {
    const hn_wbuffer *view = &w->buffers.items[b];
    const uint32_t bytes = hn_dtype_facts(dtype)->size_bytes,
                   own = hn_dtype_facts(view->dtype)->size_bytes;
    if (view->kind != HN_WBUF_VIEW || !view->offset_elems) return offset_elems;
    hn_expr begin = view->offset_elems;
    if (own != bytes)
        begin = hn_sym_floordiv(w->sym, hn_sym_mul(w->sym, begin, hn_sym_int(w->sym, own)),
                                hn_sym_int(w->sym, bytes));
    return offset_elems ? hn_sym_add(w->sym, begin, offset_elems) : begin;
}

hn_device_kind hn_line_device(const hn_wrapper *w, const hn_line *line) {
    const hn_device_kind to = device_of(w, line->buffer);
    switch (line->kind) {
    case HN_LINE_COPY: return to == HN_DEVICE_CPU ? device_of(w, line->from) : to;
    case HN_LINE_ZERO: return to;
    case HN_LINE_ASSERT:
    case HN_LINE_DEFINE:
    case HN_LINE_COND:
    case HN_LINE_LOOP:
        return line->operand_count ? device_of(w, line->operands[0].buffer) : HN_DEVICE_CPU;
    default: return line->device;
    }
}

bool hn_line_is_step(hn_line_kind kind) {
    switch (kind) {
    case HN_LINE_COMMENT:
    case HN_LINE_ALLOCATE:
    case HN_LINE_REUSE:
    case HN_LINE_FREE:
    case HN_LINE_VIEW: return false;
    case HN_LINE_KERNEL:
    case HN_LINE_EXTERN:
    case HN_LINE_COPY:
    case HN_LINE_ZERO:
    case HN_LINE_WAIT:
    case HN_LINE_ASSERT:
    case HN_LINE_DEFINE:
    case HN_LINE_COND:
    case HN_LINE_LOOP: break;
    }
    return true;
}

uint32_t hn_wrapper_count_steps(const hn_wrapper *w, uint32_t first, uint32_t count) {
    uint32_t steps = 0;
    for (uint32_t i = first; i < first + count; i++)
        steps += hn_line_is_step(w->lines.items[i].kind);
    return steps;
}

const uint32_t *hn_line_origins(const hn_line *line, uint32_t *out_count) {
    *out_count = line->origin_count ? line->origin_count : line->origin != 0;
    return line->origin_count ? line->origins : &line->origin;
}

uint32_t hn_wrapper_origin(const hn_wrapper *w, uint32_t origin) {
    return w->graph && origin < w->graph->origins.count ? origin : 0;
}
