/* bound.c: from the sizes of the inputs to resolved steps. Done once for each set of sizes that a context sees.
 *
 * What the checks of src/bundle cannot know is checked here: that sizes are defined and not negative, and that
 * temporaries, outputs and operands lie inside their memory. */
#include "runtime/module_impl.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct binder {
    hn_module *m;
    const hn_bundle *b;
    hn_bound *bound;
    hn_arena *arena;
    void **args;         /* next free operand address */
    long long *params;   /* of all kernel steps, by the bundle's index */
    int64_t *ext_params; /* of all extern steps */
    size_t ext_scratch;
} binder;

/* The value of a node that is needed. */
static hn_status need(const binder *x, uint32_t node, int64_t *out) {
    *out = 0;
    if (!node) return NULL;
    *out = x->bound->values[node];
    if (!x->bound->bad[node]) return NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_bundle_expr_print(x->b, node, &text);
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "the inputs are too large: %s cannot be computed",
                                text.ptr ? text.ptr : "a size");
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status need_size(const binder *x, uint32_t node, int64_t *out) {
    HN_TRY(need(x, node, out));
    return *out < 0 ? HN_ERROR(HN_INVALID_ARGUMENT, "a size is negative for these inputs: %" PRId64, *out) : NULL;
}

/* Bytes from the first element to one past the last; strides may have any sign only when the block is empty. */
static hn_status extent_bytes(uint32_t rank, const int64_t *sizes, const int64_t *strides, uint32_t elem_bytes,
                              int64_t *out) {
    int64_t last = 1, span;
    bool empty = false;
    for (uint32_t d = 0; d < rank; d++) {
        empty |= sizes[d] == 0;
        if (sizes[d] < 2) continue;
        if (strides[d] < 0 || !hn_mul_i64(sizes[d] - 1, strides[d], &span) || !hn_add_i64(last, span, &last))
            return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor is too large to be addressed");
    }
    if (!hn_mul_i64(empty ? 0 : last, elem_bytes, out))
        return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor is too large to be addressed");
    return NULL;
}

static hn_status read_dims(const binder *x, uint32_t first, uint32_t count, bool sizes, const int64_t **out) {
    int64_t *list;
    HN_NEW(x->arena, list, count);
    for (uint32_t d = 0; d < count; d++)
        HN_TRY(sizes ? need_size(x, x->b->dims[first + d], &list[d]) : need(x, x->b->dims[first + d], &list[d]));
    *out = list;
    return NULL;
}

/* ---- memory ---- */

/* How many bytes a buffer has. */
static hn_status buffer_bytes(const binder *x, uint32_t buffer, int64_t *out) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    switch (f->kind) {
    case HNB_BUFFER_INPUT: *out = x->bound->input_bytes[f->source]; return NULL;
    case HNB_BUFFER_CONSTANT: *out = (int64_t)(x->b->storages[f->source].bytes - f->byte_offset); return NULL;
    default: return need_size(x, f->bytes, out);
    }
}

static hn_status bind_inputs(binder *x) {
    HN_NEW(x->arena, x->bound->input_strides, x->b->inputs_count);
    HN_NEW(x->arena, x->bound->input_bytes, x->b->inputs_count);
    for (uint32_t k = 0; k < x->b->inputs_count; k++) {
        const hnb_input *in = &x->b->inputs[k];
        const int64_t *sizes;
        if (in->kind != HNB_VALUE_TENSOR) continue;
        HN_TRY(read_dims(x, in->dims, in->rank, true, &sizes));
        HN_TRY(read_dims(x, in->dims + in->rank, in->rank, false, &x->bound->input_strides[k]));
        HN_TRY(extent_bytes(in->rank, sizes, x->bound->input_strides[k], hn_bundle_dtype_bytes(in->dtype),
                            &x->bound->input_bytes[k]));
    }
    return NULL;
}

static hn_status bind_output(binder *x, const hnb_output *o, hn_bound_output *out) {
    const char *name = hn_bundle_text(x->b, o->name);
    uint32_t elem = hn_bundle_dtype_bytes(o->dtype);
    int64_t capacity, end;
    HN_TRY(read_dims(x, o->dims, o->rank, true, &out->sizes));
    HN_TRY(read_dims(x, o->dims + o->rank, o->rank, false, &out->strides));
    HN_TRY(extent_bytes(o->rank, out->sizes, out->strides, elem, &out->extent_bytes));
    HN_TRY(need_size(x, o->offset, &out->offset_bytes));
    HN_TRY(buffer_bytes(x, o->buffer, &capacity));
    if (!hn_mul_i64(out->offset_bytes, elem, &out->offset_bytes) ||
        !hn_add_i64(out->offset_bytes, out->extent_bytes, &end) || (out->extent_bytes && end > capacity))
        return HN_ERROR(HN_CORRUPT, "output '%s' reaches beyond its buffer", name);
    if (!o->is_mutation || o->target_input >= 0) return NULL;
    int64_t target_bytes;
    HN_TRY(read_dims(x, o->dims + 2 * o->rank, o->rank, false, &out->target_strides));
    HN_TRY(extent_bytes(o->rank, out->sizes, out->target_strides, elem, &target_bytes));
    HN_TRY(need_size(x, o->target_offset, &out->target_offset_bytes));
    if (!hn_mul_i64(out->target_offset_bytes, elem, &out->target_offset_bytes) ||
        !hn_add_i64(out->target_offset_bytes, target_bytes, &end) ||
        (target_bytes && (uint64_t)end > x->b->storages[o->target_storage].bytes))
        return HN_ERROR(HN_CORRUPT, "the program writes beyond the buffer '%s'", name);
    return NULL;
}

static hn_status bind_outputs(binder *x) {
    HN_NEW(x->arena, x->bound->outputs, x->b->outputs_count);
    HN_NEW(x->arena, x->bound->block_bytes, x->m->output_buffer_count);
    for (uint32_t k = 0; k < x->m->output_buffer_count; k++)
        HN_TRY(need_size(x, x->b->buffers[x->m->output_buffers[k]].bytes, &x->bound->block_bytes[k]));
    for (uint32_t k = 0; k < x->b->outputs_count; k++) {
        const hnb_output *o = &x->b->outputs[k];
        int64_t ignored;
        if (o->kind == HNB_VALUE_TENSOR) HN_TRY(bind_output(x, o, &x->bound->outputs[k]));
        if (o->kind == HNB_VALUE_INT) HN_TRY(need(x, o->expr, &ignored));
    }
    return NULL;
}

static hn_status check_workspace(binder *x) {
    int64_t workspace, offset, bytes, end;
    HN_TRY(need_size(x, x->b->info->workspace, &workspace));
    for (uint32_t k = 1; k < x->b->buffers_count; k++) {
        const hnb_buffer *f = &x->b->buffers[k];
        if (f->kind != HNB_BUFFER_TEMP) continue;
        HN_TRY(need_size(x, f->offset, &offset));
        HN_TRY(need_size(x, f->bytes, &bytes));
        if (!hn_add_i64(offset, bytes, &end) || end > workspace || offset % 64)
            return HN_ERROR(HN_CORRUPT, "buffer %u lies outside the workspace", k);
    }
    x->bound->workspace_bytes = (size_t)workspace;
    return NULL;
}

/* ---- steps ---- */

/* Writes the address of a buffer, now or by a patch. `capacity`: bytes behind it. */
static hn_status resolve(binder *x, uint32_t buffer, uint32_t offset_node, uint32_t elem_bytes, void **slot) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    int64_t offset, capacity;
    HN_TRY(need_size(x, offset_node, &offset));
    HN_TRY(buffer_bytes(x, buffer, &capacity));
    if (!hn_mul_i64(offset, elem_bytes, &offset) || offset > capacity)
        return HN_ERROR(HN_CORRUPT, "an operand starts beyond its buffer %u", buffer);
    if (f->kind == HNB_BUFFER_CONSTANT) {
        *slot = x->m->storages[f->source] + f->byte_offset + offset;
    } else if (f->kind == HNB_BUFFER_TEMP) {
        HN_PUSH(x->arena, &x->bound->temp_patches,
                ((hn_run_patch){slot, 0, x->bound->values[f->offset] + offset}));
    } else {
        HN_PUSH(x->arena, &x->bound->io_patches, ((hn_run_patch){slot, x->m->io_of[buffer], offset}));
    }
    return NULL;
}

static hn_status resolve_kernel(binder *x, const hnb_step *step, hn_run_step *out) {
    int64_t extent, scratch, value;
    HN_TRY(need_size(x, step->extent, &extent));
    HN_TRY(need_size(x, step->scratch, &scratch));
    out->fn = x->m->kernels[step->kernel];
    out->extent = extent;
    int64_t chunks = extent / step->grain;
    out->chunks = chunks < 2 ? 1 : chunks < x->m->threads ? (uint32_t)chunks : (uint32_t)x->m->threads;
    out->params = x->params + step->params;
    for (uint32_t k = 0; k < step->param_count; k++) {
        HN_TRY(need(x, x->b->params[step->params + k], &value));
        x->params[step->params + k] = value;
    }
    if ((size_t)scratch > x->bound->scratch_stride) x->bound->scratch_stride = (size_t)scratch;
    return NULL;
}

static hn_status resolve_extern(binder *x, const hnb_step *step, hn_run_step *out) {
    const hn_bundle *b = x->b;
    hn_ext_call *call = &x->bound->exts[x->bound->ext_count];
    *call = (hn_ext_call){.kind = (hn_extern_kind)step->extern_kind,
                          .params = x->ext_params + step->params,
                          .param_count = step->param_count,
                          .threads = x->m->threads,
                          .shared = x->m->shared};
    if (step->operand_count != hn_ext_operand_count(call->kind) ||
        step->param_count != hn_ext_param_count(call->kind))
        return HN_ERROR(HN_CORRUPT, "an extern call has %u operands and %u parameters", step->operand_count,
                        step->param_count);
    for (uint32_t k = 0; k < step->param_count; k++)
        HN_TRY(need(x, b->params[step->params + k], &x->ext_params[step->params + k]));
    for (uint32_t k = 0; k < step->operand_count; k++) {
        const hnb_operand *operand = &b->operands[step->operands + k];
        const hnb_buffer *f = &b->buffers[operand->buffer];
        if (!operand->buffer) continue;
        call->dtypes[k] = operand->dtype;
        call->is_constant[k] = f->kind == HNB_BUFFER_CONSTANT && !b->storages[f->source].is_mutable;
        if (call->is_constant[k]) call->operands[k] = out->args[k];
    }
    HN_TRY(hn_ext_prepare(call));
    x->bound->ext_count++;
    out->ext = call;
    if (call->scratch_bytes > x->ext_scratch) x->ext_scratch = call->scratch_bytes;
    return NULL;
}

static hn_status resolve_copy(binder *x, const hnb_step *step, hn_run_step *out) {
    int64_t to, from;
    HN_TRY(resolve(x, step->buffer, 0, 1, &out->args[0]));
    HN_TRY(resolve(x, step->from, 0, 1, &out->args[1]));
    HN_TRY(buffer_bytes(x, step->buffer, &to));
    HN_TRY(buffer_bytes(x, step->from, &from));
    out->bytes = (size_t)(to < from ? to : from);
    x->args += 2;
    return NULL;
}

static hn_status resolve_step(binder *x, uint32_t k) {
    const hnb_step *step = &x->b->steps[k];
    hn_run_step *out = &x->bound->steps[k];
    *out = (hn_run_step){.kind = step->kind,
                         .index = k,
                         .args = x->args,
                         .then_count = step->then_count,
                         .otherwise_count = step->otherwise_count};
    if (step->kind == HNB_STEP_COPY) return resolve_copy(x, step, out);
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const hnb_operand *operand = &x->b->operands[step->operands + i];
        if (operand->buffer)
            HN_TRY(resolve(x, operand->buffer, operand->offset, hn_bundle_dtype_bytes(operand->dtype),
                           &out->args[i]));
    }
    x->args += step->operand_count;
    if (step->kind == HNB_STEP_KERNEL) return resolve_kernel(x, step, out);
    if (step->kind == HNB_STEP_EXTERN) return resolve_extern(x, step, out);
    return NULL;
}

static size_t count_args(const hn_bundle *b) {
    size_t count = 1;
    for (uint32_t k = 0; k < b->steps_count; k++)
        count += b->steps[k].kind == HNB_STEP_COPY ? 2 : b->steps[k].operand_count;
    return count;
}

static hn_status resolve_steps(binder *x) {
    const hn_bundle *b = x->b;
    HN_NEW(x->arena, x->args, count_args(b));
    HN_NEW(x->arena, x->params, (size_t)b->params_count + 1);
    HN_NEW(x->arena, x->ext_params, (size_t)b->params_count + 1);
    HN_NEW(x->arena, x->bound->steps, (size_t)b->steps_count + 1);
    HN_NEW(x->arena, x->bound->exts, (size_t)x->m->extern_count + 1);
    for (uint32_t k = 0; k < b->steps_count; k++) {
        hn_status status = resolve_step(x, k);
        if (!status) continue;
        const char *node = hn_bundle_text(b, b->origins[b->steps[k].origin].node);
        return *node ? hn_status_annotate(status, "node '%s'", node) : status;
    }
    size_t stride = hn_align_up(x->bound->scratch_stride, 64), all;
    if (!hn_mul_size(stride, (size_t)x->m->threads, &all) || all > SIZE_MAX / 4)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the inputs are too large: kernels need %zu bytes of scratch for each thread", stride);
    x->bound->scratch_stride = stride;
    x->bound->scratch_bytes = all > x->ext_scratch ? all : x->ext_scratch;
    return NULL;
}

/* ---- bounds ---- */

static hn_status fill(binder *x, const int64_t *key) {
    const hn_bundle *b = x->b;
    HN_NEW(x->arena, x->bound->key, (size_t)x->m->key_count + 1);
    HN_NEW(x->arena, x->bound->symbols, (size_t)b->symbols_count + 1);
    HN_NEW(x->arena, x->bound->values, b->nodes_count);
    HN_NEW(x->arena, x->bound->bad, b->nodes_count);
    if (x->m->key_count) memcpy(x->bound->key, key, x->m->key_count * sizeof *key);
    HN_TRY(hn_inputs_bind(x->m, x->bound));
    HN_TRY(bind_inputs(x));
    HN_TRY(bind_outputs(x));
    HN_TRY(check_workspace(x));
    return resolve_steps(x);
}

hn_status hn_bound_create(hn_module *m, const int64_t *key, hn_bound **out) {
    hn_bound *bound = calloc(1, sizeof *bound);
    if (!bound) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an execution context");
    hn_arena_init(&bound->arena);
    binder x = {.m = m, .b = &m->view, .bound = bound, .arena = &bound->arena};
    hn_status status = fill(&x, key);
    if (status) hn_bound_destroy(bound);
    else *out = bound;
    return status;
}

void hn_bound_destroy(hn_bound *bound) {
    if (!bound) return;
    for (uint32_t k = 0; k < bound->ext_count; k++) hn_ext_release(&bound->exts[k]);
    hn_arena_deinit(&bound->arena);
    free(bound);
}
