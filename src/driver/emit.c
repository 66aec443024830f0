/* emit.c: the schedule as wrapper IR: buffers, kernel calls, extern calls, outputs. */
#include "driver/driver.h"

#include "base/map.h"

#include <string.h>

typedef struct emitter {
    hn_driver *d;
    hn_wrapper *w;
    hn_wbuf *buffers;     /* per loop IR buffer */
    uint32_t *user_input; /* per graph input: its number among the wrapper's inputs */
    hn_strmap kernels;    /* digests on all levels -> kernel of the wrapper */
    struct { uint32_t *items; uint32_t count, cap; } branches; /* open conditionals: their lines */
} emitter;

static const hn_value_info *value_of(emitter *e, hn_value v) { return hn_graph_value(e->d->graph, v); }

static hn_status contiguous(emitter *e, const hn_value_info *vi, const hn_expr **out) {
    hn_expr *strides;
    HN_NEW(e->w->arena, strides, vi->rank);
    hn_contiguous_strides(e->d->sym, vi->sizes, vi->rank, strides);
    *out = strides;
    return NULL;
}

static hn_status add_user_input(emitter *e, uint32_t index) {
    const hn_input *in = &e->d->graph->inputs.items[index];
    hn_winput input = {.name = in->name};
    e->user_input[index] = e->w->inputs.count;
    if (in->kind == HN_INPUT_SCALAR) {
        input.is_scalar = true;
        input.scalar = in->scalar;
    } else if (value_of(e, in->value)->kind == HN_VALUE_SYM_INT) {
        input.is_scalar = true;
        input.scalar = hn_arg_expr(value_of(e, in->value)->expr);
    } else {
        const hn_value_info *vi = value_of(e, in->value);
        input.dtype = vi->dtype;
        input.rank = vi->rank;
        input.sizes = vi->sizes;
        input.strides = vi->strides;
        if (!vi->strides) HN_TRY(contiguous(e, vi, &input.strides));
        hn_wbuffer buffer = {.kind = HN_WBUF_INPUT, .dtype = vi->dtype, .source = e->w->inputs.count, .name = in->name};
        HN_TRY(hn_wrapper_add_buffer(e->w, buffer, &input.buffer));
    }
    HN_PUSH(e->w->arena, &e->w->inputs, input);
    return NULL;
}

static hn_status buffer_of(emitter *e, hn_buf b, hn_wbuf *out) {
    *out = b ? e->buffers[b] : 0;
    if (!b || *out) return NULL;
    const hn_buffer *buffer = &e->d->program->buffers.items[b];
    const hn_dtype_info *facts = hn_dtype_facts(buffer->dtype);
    hn_wbuffer made = {.dtype = buffer->dtype};
    if (buffer->kind == HN_BUFFER_INPUT) {
        const hn_input *in = &e->d->graph->inputs.items[buffer->input];
        if (in->kind == HN_INPUT_USER) {
            *out = e->buffers[b] = e->w->inputs.items[e->user_input[buffer->input]].buffer;
            return NULL;
        }
        made.kind = HN_WBUF_CONSTANT;
        made.source = in->storage;
        made.byte_offset = (uint64_t)in->storage_offset_elems * facts->size_bytes;
        made.name = in->name;
    } else {
        made.kind = buffer->kind == HN_BUFFER_OUTPUT ? HN_WBUF_OUTPUT : HN_WBUF_TEMP;
        made.bytes = hn_sym_mul(e->d->sym, buffer->extent, hn_sym_int(e->d->sym, facts->size_bytes));
    }
    HN_TRY(hn_wrapper_add_buffer(e->w, made, out));
    e->buffers[b] = *out;
    return NULL;
}

/* The symbol and the object of a printed kernel. */
static hn_wkernel_info code_of(const hn_driver_level *level, const hn_kernel_code *kernel) {
    hn_wkernel_info info = {.name = hn_str_of(kernel->name)};
    for (uint32_t k = 0; k < level->unique.count; k++)
        if (memcmp(&level->unique.items[k]->digest, &kernel->digest, sizeof kernel->digest) == 0) info.object = level->unit_of[k];
    return info;
}

/* The kernel of a step: those are one whose texts are equal on every level. */
static hn_status kernel_of(emitter *e, uint32_t step, hn_wkernel *out) {
    hn_digest digests[HN_LEVELS_MAX];
    hn_wkernel_info info = {0}, *others = NULL;
    for (uint32_t l = 0; l < e->d->level_count; l++) digests[l] = e->d->levels[l].step_kernels[step].digest;
    size_t bytes = e->d->level_count * sizeof *digests;
    char *key = hn_arena_strndup(&e->d->scratch, (const char *)digests, bytes);
    if (!key) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the kernels of a program");
    const uint64_t *known = hn_strmap_get(&e->kernels, (hn_str){key, bytes});
    if (known) {
        *out = (hn_wkernel)*known;
        return NULL;
    }
    HN_NEW(e->w->arena, others, e->d->level_count);
    for (uint32_t l = 0; l < e->d->level_count; l++) {
        hn_wkernel_info *place = l ? &others[l - 1] : &info;
        *place = code_of(&e->d->levels[l], &e->d->levels[l].step_kernels[step]);
    }
    info.others = e->d->level_count > 1 ? others : NULL;
    HN_TRY(hn_wrapper_add_kernel(e->w, info, out));
    return hn_strmap_put(&e->kernels, (hn_str){key, bytes}, *out);
}

/* How another level's kernel wants the operands of `first`. */
static hn_status order_of(const hn_kernel_code *first, const hn_kernel_code *own, uint32_t *order) {
    if (own->buffer_count != first->buffer_count) return HN_ERROR(HN_INTERNAL, "a kernel has other arguments on another CPU");
    for (uint32_t k = 0; k < own->buffer_count; k++) {
        uint32_t at = 0;
        while (at < first->buffer_count && (first->buffers[at] != own->buffers[k] || first->offsets[at] != own->offsets[k])) at++;
        if (at == first->buffer_count || first->written[at] != own->written[k])
            return HN_ERROR(HN_INTERNAL, "a kernel has other arguments on another CPU");
        order[k] = at;
    }
    return NULL;
}

/* May argument b of the first level's kernel lie where `in` lies, also as this level's kernel goes about it? */
static bool is_over(const hn_kernel_code *own, const uint32_t *order, uint32_t b, uint32_t in) {
    uint32_t own_b = 0, own_in = 0;
    for (uint32_t k = 0; k < own->buffer_count; k++) {
        if (order[k] == b) own_b = k;
        if (order[k] == in) own_in = k;
    }
    return own->over[own_b] >> own_in & 1;
}

static hn_status add_launches(emitter *e, uint32_t step, hn_woperand *operands, hn_line *line) {
    const hn_kernel_code *first = &e->d->levels[0].step_kernels[step];
    hn_wlaunch *launches;
    HN_NEW(e->w->arena, launches, e->d->level_count);
    for (uint32_t l = 1; l < e->d->level_count; l++) {
        const hn_kernel_code *own = &e->d->levels[l].step_kernels[step];
        uint32_t *order;
        HN_NEW(e->w->arena, order, own->buffer_count);
        HN_TRY(order_of(first, own, order));
        for (uint32_t b = 0; b < first->buffer_count; b++)
            for (uint32_t in = 0; in < first->buffer_count && in < 64; in++)
                if (operands[b].over >> in & 1 && !is_over(own, order, b, in)) operands[b].over &= ~(UINT64_C(1) << in);
        launches[l - 1] = (hn_wlaunch){.order = order, .param_count = own->size_count, .params = own->sizes, .extent = own->extent,
                                       .grain = own->grain, .scratch_bytes = own->scratch_bytes};
    }
    if (e->d->level_count > 1) line->others = launches;
    return NULL;
}

/* The argument that has the indices of a check: what is loaded, perhaps in another type. */
static uint32_t operand_of_index(const hn_kernel_code *kernel, const hn_body *body, hn_sid s) {
    const hn_sop *op = &body->items[body->items[s].args[0]];
    while (op->kind == HN_SOP_CAST) op = &body->items[op->args[0]];
    for (uint32_t k = 0; op->kind == HN_SOP_LOAD && k < kernel->buffer_count; k++)
        if (kernel->buffers[k] == op->buffer) return k;
    return UINT32_MAX;
}

static uint32_t origin_of_index(const emitter *e, hn_expr symbol) {
    const hn_program *p = e->d->program;
    for (uint32_t k = 0; k < p->index_origins.count; k++)
        if (p->index_origins.items[k].symbol == symbol) return p->index_origins.items[k].origin;
    return 0;
}

static hn_status add_checks(emitter *e, const hn_kernel *k, const hn_kernel_code *kernel, hn_line *line) {
    struct { hn_wcheck *items; uint32_t count, cap; } checks = {0};
    for (uint32_t i = 0; i < k->phases.count; i++) {
        const hn_body *body = &k->phases.items[i].body;
        for (hn_sid s = 1; s < body->count; s++) {
            const hn_sop *op = &body->items[s];
            if (op->kind != HN_SOP_INDIRECT) continue;
            hn_wcheck check = {operand_of_index(kernel, body, s), hn_sym_symbol_extent(e->d->sym, op->index), op->imm.i & 1, origin_of_index(e, op->index)};
            HN_PUSH(e->w->arena, &checks, check);
        }
    }
    line->checks = checks.items;
    line->check_count = checks.count;
    return NULL;
}

static hn_status add_kernel_call(emitter *e, uint32_t step) {
    const hn_kernel *k = e->d->schedule.steps.items[step].kernel;
    const hn_kernel_code *kernel = &e->d->levels[0].step_kernels[step];
    hn_woperand *operands;
    HN_NEW(&e->d->scratch, operands, kernel->buffer_count);
    for (uint32_t b = 0; b < kernel->buffer_count; b++) {
        HN_TRY(buffer_of(e, kernel->buffers[b], &operands[b].buffer));
        operands[b].dtype = e->d->program->buffers.items[kernel->buffers[b]].dtype;
        operands[b].offset_elems = kernel->offsets[b];
        operands[b].written = kernel->written[b];
        operands[b].over = kernel->over[b];
    }
    hn_line line = {.kind = HN_LINE_KERNEL, .origin = k->origin, .operands = operands, .operand_count = kernel->buffer_count,
                    .params = kernel->sizes, .param_count = kernel->size_count, .extent = kernel->extent, .grain = kernel->grain,
                    .scratch_bytes = kernel->scratch_bytes};
    HN_TRY(add_checks(e, k, kernel, &line));
    HN_TRY(add_launches(e, step, operands, &line));
    HN_TRY(kernel_of(e, step, &line.kernel));
    return hn_wrapper_add_line(e->w, line);
}

static hn_status add_extern_call(emitter *e, const hn_item_info *item) {
    const hn_extern *ext = item->ext;
    hn_woperand operands[6] = {{0}};
    for (uint32_t k = 0; k < ext->operand_count; k++) {
        hn_buf b = ext->operands[k].buffer;
        HN_TRY(buffer_of(e, b, &operands[k].buffer));
        operands[k].dtype = b ? e->d->program->buffers.items[b].dtype : HN_DTYPE_NONE;
        operands[k].offset_elems = ext->operands[k].offset_elems;
        operands[k].written = ext->operands[k].written;
    }
    hn_line line = {.kind = HN_LINE_EXTERN, .origin = item->origin, .extern_kind = ext->kind, .operands = operands,
                    .operand_count = ext->operand_count, .params = ext->params, .param_count = ext->param_count};
    return hn_wrapper_add_line(e->w, line);
}

static hn_status add_assert(emitter *e, const hn_item_info *item) {
    hn_woperand operand = {.dtype = HN_DTYPE_BOOL};
    HN_TRY(buffer_of(e, item->cond, &operand.buffer));
    hn_line line = {.kind = HN_LINE_ASSERT, .origin = item->origin, .operands = &operand, .operand_count = 1, .text = item->message};
    return hn_wrapper_add_line(e->w, line);
}

static hn_status add_definition(emitter *e, const hn_item_info *item) {
    hn_woperand operand = {.dtype = e->d->program->buffers.items[item->cond].dtype};
    HN_TRY(buffer_of(e, item->cond, &operand.buffer));
    hn_line line = {.kind = HN_LINE_DEFINE, .origin = item->origin, .operands = &operand, .operand_count = 1, .symbol = item->symbol};
    return hn_wrapper_add_line(e->w, line);
}

/* The lines between this bracket of a conditional and the next one of the same level are counted when they are there. */
static hn_status open_branch(emitter *e, const hn_item_info *item) {
    hn_woperand operand = {.dtype = HN_DTYPE_BOOL};
    HN_TRY(buffer_of(e, item->cond, &operand.buffer));
    HN_PUSH(&e->d->scratch, &e->branches, e->w->lines.count);
    return hn_wrapper_add_line(e->w, (hn_line){.kind = HN_LINE_COND, .origin = item->origin, .operands = &operand, .operand_count = 1});
}

static hn_status add_other(emitter *e, const hn_item_info *item) {
    if (item->kind == HN_ITEM_ASSERT) return add_assert(e, item);
    if (item->kind == HN_ITEM_DEFINE) return add_definition(e, item);
    if (item->kind == HN_ITEM_BRANCH_THEN) return open_branch(e, item);
    uint32_t at = e->branches.items[e->branches.count - 1];
    hn_line *line = &e->w->lines.items[at];
    if (item->kind == HN_ITEM_BRANCH_ELSE) {
        line->then_count = e->w->lines.count - at - 1;
        return NULL;
    }
    line->otherwise_count = e->w->lines.count - at - 1 - line->then_count;
    e->branches.count--;
    return NULL;
}

static hn_status add_step(emitter *e, uint32_t k) {
    const hn_step *step = &e->d->schedule.steps.items[k];
    if (step->kind == HN_STEP_KERNEL) return add_kernel_call(e, k);
    const hn_item_info *item = &e->d->program->items.items[step->item];
    return step->kind == HN_STEP_EXTERN ? add_extern_call(e, item) : add_other(e, item);
}

static const hn_result *result_of(emitter *e, uint32_t output) {
    for (uint32_t k = 0; k < e->d->program->results.count; k++)
        if (e->d->program->results.items[k].output == output) return &e->d->program->results.items[k];
    return NULL;
}

static hn_status add_output(emitter *e, uint32_t index) {
    const hn_output *out = &e->d->graph->outputs.items[index];
    const hn_result *result = result_of(e, index);
    hn_woutput made = {.name = out->name, .target_input = -1};
    if (!result) {
        if (out->value && !value_of(e, out->value)->expr)
            return HN_ERROR(HN_UNSUPPORTED, "output %u is a number that nothing in the program computes", index);
        made.kind = HN_WOUTPUT_SCALAR;
        made.scalar = out->scalar;
        if (out->value) made.scalar = hn_arg_expr(value_of(e, out->value)->expr);
        HN_PUSH(e->w->arena, &e->w->outputs, made);
        return NULL;
    }
    made.kind = out->kind == HN_OUTPUT_MUTATION ? HN_WOUTPUT_MUTATION : HN_WOUTPUT_TENSOR;
    HN_TRY(buffer_of(e, result->buffer, &made.buffer));
    made.dtype = value_of(e, out->value)->dtype;
    made.rank = result->rank;
    made.sizes = result->sizes;
    made.strides = result->strides;
    made.offset_elems = result->offset;
    if (out->kind == HN_OUTPUT_MUTATION) {
        const hn_input *target = &e->d->graph->inputs.items[out->target];
        made.name = target->name;
        if (target->kind == HN_INPUT_USER) made.target_input = (int32_t)e->user_input[out->target];
    }
    HN_PUSH(e->w->arena, &e->w->outputs, made);
    return NULL;
}

hn_status hn_driver_emit(hn_driver *d, hn_wrapper **out) {
    emitter e = {.d = d};
    HN_TRY(hn_wrapper_create(&d->arena, d->sym, d->graph, &e.w));
    HN_NEW(&d->scratch, e.buffers, d->program->buffers.count);
    HN_NEW(&d->scratch, e.user_input, d->graph->inputs.count);
    hn_strmap_init(&e.kernels, &d->scratch);
    for (uint32_t k = 0; k < d->graph->inputs.count; k++) {
        hn_input_kind kind = d->graph->inputs.items[k].kind;
        if (kind == HN_INPUT_USER || kind == HN_INPUT_SCALAR) HN_TRY(add_user_input(&e, k));
    }
    for (uint32_t k = 0; k < d->schedule.steps.count; k++) HN_TRY(add_step(&e, k));
    for (uint32_t k = 0; k < d->graph->outputs.count; k++) HN_TRY(add_output(&e, k));
    *out = e.w;
    return hn_sym_status(d->sym);
}
