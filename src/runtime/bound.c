/* bound.c: from the sizes of the inputs to resolved steps. Done once for each set of sizes that a
 * context sees; what depends on data (stages.c) is done again in each call, when the step that
 * defines the symbol has run.
 *
 * What the checks of src/bundle cannot know is checked here: that sizes are defined and not
 * negative, and that temporaries, outputs, operands and the tensors in buffers lie inside their
 * memory. */
#include "runtime/externs.h"
#include "runtime/kernels.h"
#include "runtime/lives.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/log.h"
#include "ops/cpu/forms.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct binder {
    hn_module *m;
    const hn_bundle *b;
    hn_bound *bound;
    hn_arena *arena;
    const hn_weights *weights;
    hn_team *team; /* of the context */
    /* NULL: before the first run, addresses of temporaries, inputs and outputs are patched in
     * later */
    hn_context *c;
    uint32_t stage; /* that is worked out */
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
    hn_status status =
        HN_ERROR(HN_INVALID_ARGUMENT, "the inputs are too large: %s cannot be computed",
                 text.ptr ? text.ptr : "a size");
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status need_size(const binder *x, uint32_t node, int64_t *out) {
    HN_TRY(need(x, node, out));
    return *out < 0 ? HN_ERROR(HN_INVALID_ARGUMENT, "a size is negative for these inputs: %" PRId64,
                               *out)
                    : NULL;
}

/* Into the list that is there from the last time. */
static hn_status read_dims(const binder *x, uint32_t first, uint32_t count, bool sizes,
                           int64_t **list) {
    if (!*list) HN_NEW(x->arena, *list, count);
    for (uint32_t d = 0; d < count; d++) {
        uint32_t node = x->b->dims[first + d];
        HN_TRY(sizes ? need_size(x, node, &(*list)[d]) : need(x, node, &(*list)[d]));
    }
    return NULL;
}

/* ---- memory ---- */

/* How many bytes a buffer has. */
static hn_status buffer_bytes(const binder *x, uint32_t buffer, int64_t *out) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    switch (f->kind) {
    case HNB_BUFFER_INPUT: *out = x->bound->input_bytes[f->source]; return NULL;
    case HNB_BUFFER_CONSTANT:
        *out = (int64_t)(x->b->storages[f->source].bytes - f->byte_offset);
        return NULL;
    default: return need_size(x, f->bytes, out);
    }
}

static hn_status bind_inputs(binder *x) {
    HN_NEW(x->arena, x->bound->input_strides, x->b->inputs_count);
    HN_NEW(x->arena, x->bound->input_bytes, x->b->inputs_count);
    for (uint32_t k = 0; k < x->b->inputs_count; k++) {
        const hnb_input *in = &x->b->inputs[k];
        int64_t *sizes = NULL;
        if (in->kind != HNB_VALUE_TENSOR) continue;
        HN_TRY(read_dims(x, in->dims, in->rank, true, &sizes));
        HN_TRY(read_dims(x, in->dims + in->rank, in->rank, false, &x->bound->input_strides[k]));
        HN_TRY(hn_extent_bytes(in->rank, sizes, x->bound->input_strides[k],
                               hn_bundle_dtype_bytes(in->dtype), &x->bound->input_bytes[k]));
    }
    return NULL;
}

static hn_status bind_output(binder *x, const hnb_output *o, hn_bound_output *out) {
    const char *name = hn_bundle_text(x->b, o->name);
    uint32_t elem = hn_bundle_dtype_bytes(o->dtype);
    int64_t capacity, end;
    HN_TRY(read_dims(x, o->dims, o->rank, true, &out->sizes));
    HN_TRY(read_dims(x, o->dims + o->rank, o->rank, false, &out->strides));
    HN_TRY(hn_extent_bytes(o->rank, out->sizes, out->strides, elem, &out->extent_bytes));
    HN_TRY(need_size(x, o->offset, &out->offset_bytes));
    HN_TRY(buffer_bytes(x, o->buffer, &capacity));
    if (!hn_mul_i64(out->offset_bytes, elem, &out->offset_bytes) ||
        !hn_add_i64(out->offset_bytes, out->extent_bytes, &end) ||
        (out->extent_bytes && end > capacity))
        return HN_ERROR(HN_CORRUPT, "output '%s' reaches beyond its buffer", name);
    if (!o->is_mutation || o->target_input >= 0) return NULL;
    int64_t target_bytes;
    HN_TRY(read_dims(x, o->dims + 2 * o->rank, o->rank, false, &out->target_strides));
    HN_TRY(hn_extent_bytes(o->rank, out->sizes, out->target_strides, elem, &target_bytes));
    HN_TRY(need_size(x, o->target_offset, &out->target_offset_bytes));
    if (!hn_mul_i64(out->target_offset_bytes, elem, &out->target_offset_bytes) ||
        !hn_add_i64(out->target_offset_bytes, target_bytes, &end) ||
        (target_bytes && (uint64_t)end > x->b->storages[o->target_storage].bytes))
        return HN_ERROR(HN_CORRUPT, "the program writes beyond the buffer '%s'", name);
    return NULL;
}

static hn_status bind_outputs(binder *x) {
    for (uint32_t k = 0; k < x->b->outputs_count; k++) {
        const hnb_output *o = &x->b->outputs[k];
        int64_t ignored;
        if (hn_stage_of(&x->m->stages.outputs, k) != x->stage) continue;
        if (o->kind == HNB_VALUE_TENSOR) HN_TRY(bind_output(x, o, &x->bound->outputs[k]));
        if (o->kind == HNB_VALUE_INT) HN_TRY(need(x, o->expr, &ignored));
    }
    return NULL;
}

static hn_status check_temp(const binder *x, uint32_t buffer, int64_t bytes) {
    int64_t offset, end;
    const hn_place place = hn_place_of(x->m, x->b->buffers[buffer].device);
    HN_TRY(need_size(x, x->b->buffers[buffer].offset, &offset));
    if (!hn_add_i64(offset, bytes, &end) || end > (int64_t)x->bound->workspace_bytes[place] ||
        offset % 64)
        return HN_ERROR(HN_CORRUPT, "buffer %u lies outside the workspace", buffer);
    return NULL;
}

/* Pools come behind what lies in them. */
static hn_status check_in_pool(const binder *x, uint32_t buffer, int64_t bytes) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    int64_t offset, end, capacity;
    HN_TRY(need_size(x, f->offset, &offset));
    HN_TRY(need_size(x, x->b->buffers[f->source].bytes, &capacity));
    if (!hn_add_i64(offset, bytes, &end) || end > capacity || offset % 64)
        return HN_ERROR(HN_CORRUPT, "buffer %u lies outside its pool", buffer);
    return NULL;
}

static hn_status size_buffer(binder *x, uint32_t buffer) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    int64_t bytes;
    HN_TRY(buffer_bytes(x, buffer, &bytes));
    HN_TRY(hn_bound_buffer_check(x->m, x->bound, buffer));
    if (f->kind == HNB_BUFFER_INPUT || f->kind == HNB_BUFFER_CONSTANT) return NULL;
    if (f->kind == HNB_BUFFER_TEMP) return check_temp(x, buffer, bytes);
    if (f->kind == HNB_BUFFER_OUTPUT && f->source) HN_TRY(check_in_pool(x, buffer, bytes));
    if (f->kind == HNB_BUFFER_SLOT) /* of a later stage: there is a context */
        return hn_context_grow_slot(x->m, x->c, f->source, bytes ? (size_t)bytes : 1);
    x->bound->block_bytes[x->m->io_of[buffer] - x->b->inputs_count] = bytes;
    return NULL;
}

static hn_status size_buffers(binder *x) {
    const hn_stage_list *list = &x->m->stages.buffers;
    for (uint32_t k = list->of ? list->first[x->stage] : 1;
         k < (list->of ? list->first[x->stage + 1] : x->b->buffers_count); k++)
        HN_TRY(size_buffer(x, list->of ? list->items[k] : k));
    return NULL;
}

/* ---- steps ---- */

/* Where in its buffer an operand starts, in bytes, and how many lie there and behind. */
static hn_status place_operand(const binder *x, uint32_t buffer, uint32_t offset_node,
                               uint32_t elem_bytes, hn_ext_room *out) {
    int64_t offset, capacity;
    HN_TRY(buffer_bytes(x, buffer, &capacity));
    if (capacity) HN_TRY(need_size(x, offset_node, &offset));
    /* of no elements the first may be anywhere: reversed, it is one before the beginning */
    else offset = 0;
    if (!hn_mul_i64(offset, elem_bytes, &offset) || offset > capacity)
        return HN_ERROR(HN_CORRUPT, "an operand starts beyond its buffer %u", buffer);
    *out = (hn_ext_room){.before = offset, .behind = capacity - offset};
    return NULL;
}

/* In the middle of a run all addresses are known. `at`: bytes from the beginning of the buffer. */
static void *address_now(const binder *x, uint32_t buffer, int64_t at) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    const hn_place place = hn_place_of(x->m, f->device);
    switch (f->kind) {
    case HNB_BUFFER_SLOT: return hn_address(x->c->slots[f->source].memory, at);
    case HNB_BUFFER_TEMP:
        return hn_address(x->c->places[place].workspace.memory, at + x->bound->values[f->offset]);
    case HNB_BUFFER_CONSTANT:
        return hn_address(hn_storage_at(x->m, x->weights, x->c->state, buffer),
                          at + (int64_t)f->byte_offset);
    default: return hn_address(x->c->io[x->m->io_of[buffer]], at);
    }
}

/* The bytes of a storage that the program does not change. */
static uint8_t *weights_at(const binder *x, uint32_t buffer) {
    const uint32_t storage = x->b->buffers[buffer].source;
    return hn_buffer_is_remote(x->m, buffer) ? hn_block_data(x->weights->copies[storage])
                                             : x->weights->storages[storage];
}

/* Writes the address of a buffer, now or by a patch. */
static hn_status resolve(binder *x, uint32_t buffer, uint32_t offset_node, uint32_t elem_bytes,
                         void **slot) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    hn_ext_room room;
    HN_TRY(place_operand(x, buffer, offset_node, elem_bytes, &room));
    const int64_t offset = room.before;
    if (x->c) { /* so it is for a slot, which is of a later stage */
        *slot = address_now(x, buffer, offset);
    } else if (f->kind == HNB_BUFFER_CONSTANT && x->b->storages[f->source].is_mutable) {
        HN_PUSH(x->arena, &x->bound->state_patches,
                ((hn_run_patch){slot, f->source, (int64_t)f->byte_offset + offset}));
    } else if (f->kind == HNB_BUFFER_CONSTANT) {
        *slot = hn_address(weights_at(x, buffer), (int64_t)f->byte_offset + offset);
    } else if (f->kind == HNB_BUFFER_TEMP) {
        HN_PUSH(x->arena, &x->bound->temp_patches,
                ((hn_run_patch){slot, hn_place_of(x->m, f->device),
                                x->bound->values[f->offset] + offset}));
    } else {
        HN_PUSH(x->arena, &x->bound->io_patches,
                ((hn_run_patch){slot, x->m->io_of[buffer], offset}));
    }
    return NULL;
}

static hn_status too_large(const char *what, size_t bytes) {
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "the inputs are too large: kernels need %zu bytes of scratch for each %s",
                    bytes, what);
}

/* How many groups there are in all; their scratch memory lies in the step's buffer. */
static hn_status count_groups(binder *x, const hnb_step *step, const int64_t *groups,
                              int64_t scratch, long long *out_count) {
    int64_t count = groups[0], all, have;
    if (!hn_mul_i64(count, groups[1], &count) || !hn_mul_i64(count, groups[2], &count) ||
        !hn_mul_i64(count, scratch, &all))
        return too_large("group", (size_t)scratch);
    *out_count = count;
    if (!all) return NULL;
    HN_TRY(buffer_bytes(x, step->buffer, &have));
    return have < all
               ? HN_ERROR(HN_CORRUPT, "buffer %u is too small for scratch memory", step->buffer)
               : NULL;
}

/* For the row's use from one run to the next; the launch is another one now. */
static hn_status reset_layout(binder *x, uint32_t step, hn_device_layout **layout) {
    if (!x->m->device->ops->keeps_layouts) return NULL;
    if (!*layout) {
        HN_NEW(x->arena, *layout, 1);
        HN_NEW(x->arena, (*layout)->entries, (size_t)x->m->ways[step].most_entries + 2);
    }
    (*layout)->ready_for = NULL;
    return NULL;
}

static void set_variant(const binder *x, hn_run_step *out, uint32_t variant) {
    const hn_bundle_call call = hn_bundle_call_by(x->b, &x->b->steps[out->index], x->m->target,
                                                  x->m->ways[out->index].choice, variant);
    out->variant = variant;
    out->kernel = call.kernel;
    out->called = call.launch;
    out->arg_count = call.arg_count;
}

/* Which variant of the step runs: for these sizes, or because the caller wants it. */
static void pick_variant(const binder *x, hn_run_step *out) {
    const hnb_choice *choice = x->m->ways[out->index].choice;
    const uint32_t wanted = x->bound->form;
    if (!choice) return;
    const uint32_t count = choice->head.variant_count;
    set_variant(x, out,
                wanted ? (wanted < count ? wanted : count) - 1
                       : hn_bundle_choice_pick(x->b, choice, x->bound->values, x->bound->bad));
}

/* What the table is asked to launch; nothing if the walk calls the kernel itself. */
static hn_status resolve_launch(binder *x, const hnb_step *step, int64_t scratch,
                                hn_run_step *out) {
    const hnb_launch *l = out->called;
    int64_t shared, groups[3], extent = out->extent;
    if (hn_kernel_is_direct(x->m, out)) return NULL;
    HN_TRY(need_size(x, l->shared, &shared));
    for (uint32_t d = 0; d < 3; d++) HN_TRY(need_size(x, l->grid[d], &groups[d]));
    if (l->block[0]) HN_TRY(count_groups(x, step, groups, scratch, &out->extent));
    if (!out->launch) HN_NEW(x->arena, out->launch, 1);
    hn_device_layout *layout = out->launch->layout;
    HN_TRY(reset_layout(x, out->index, &layout));
    *out->launch = (hn_device_launch){.step = out->index,
                                      .args = out->args,
                                      .arg_count = out->arg_count,
                                      .params = out->params,
                                      .param_count = l->param_count,
                                      .extent = extent,
                                      .parts = out->chunks,
                                      .shared_bytes = shared,
                                      .scratch_stride = (size_t)scratch,
                                      .layout = layout};
    memcpy(out->launch->groups, groups, sizeof groups);
    memcpy(out->launch->threads, l->block, sizeof out->launch->threads);
    return step->buffer ? resolve(x, step->buffer, 0, 1, &out->launch->scratch) : NULL;
}

static hn_status resolve_kernel(binder *x, const hnb_step *step, hn_run_step *out) {
    const hnb_launch *launch = out->called;
    int64_t extent, scratch, value;
    HN_TRY(need_size(x, launch->extent, &extent));
    HN_TRY(need_size(x, launch->scratch, &scratch));
    out->extent = extent;
    int64_t chunks = extent / launch->grain;
    out->chunks = chunks < 2                   ? 1
                  : chunks < x->bound->threads ? (uint32_t)chunks
                                               : (uint32_t)x->bound->threads;
    long long *params = x->bound->params + launch->params;
    out->params = params;
    for (uint32_t k = 0; k < launch->param_count; k++) {
        HN_TRY(need(x, x->b->params[launch->params + k], &value));
        params[k] = value;
    }
    if (!launch->block[0] && (size_t)scratch > x->bound->scratch_stride)
        x->bound->scratch_stride = (size_t)scratch;
    HN_TRY(resolve_launch(x, step, scratch, out));
    hn_kernel_set(x->m, out, __atomic_load_n(&x->m->kernels[out->kernel], __ATOMIC_ACQUIRE));
    return NULL;
}

/* Evaluates the parameters; whether they are those of the last call. */
static hn_status read_params(binder *x, const hnb_step *step, int64_t *params, bool *out_same) {
    *out_same = true;
    for (uint32_t k = 0; k < step->param_count; k++) {
        int64_t value;
        HN_TRY(need(x, x->b->params[step->params + k], &value));
        *out_same &= params[k] == value;
        params[k] = value;
    }
    return NULL;
}

/* What the step's memory is, and how much of it there is around the operands. */
static hn_status describe_operands(binder *x, const hnb_step *step, const hn_run_step *out,
                                   hn_ext_call *call) {
    const hn_bundle *b = x->b;
    for (uint32_t k = 0; k < step->operand_count; k++) {
        const hnb_operand *operand = &b->operands[step->operands + k];
        const hnb_buffer *f = &b->buffers[operand->buffer];
        if (!operand->buffer) continue;
        HN_TRY(place_operand(x, operand->buffer, operand->offset,
                             hn_bundle_dtype_bytes(operand->dtype), &call->rooms[k]));
        call->dtypes[k] = operand->dtype;
        if (f->kind == HNB_BUFFER_CONSTANT) call->begins[k] = (int64_t)f->byte_offset;
        call->is_constant[k] = f->kind == HNB_BUFFER_CONSTANT && !b->storages[f->source].is_mutable;
        if (call->is_constant[k]) call->operands[k] = out->args[k];
    }
    return NULL;
}

/* What the program asks for at these sizes is a wish: a form that there is no more, or that the
 * call cannot have here, is left to the operation. */
static void ask_for_form(binder *x, hn_run_step *out) {
    hn_run_extern *own = out->ext;
    if (!x->m->ways[out->index].choice) return;
    pick_variant(x, out);
    hn_status status = hn_ext_form_read(hn_run_step_form(x->m, out), &own->form);
    if (status) hn_log("run", HN_LOG_WARN, "%s", hn_status_message(status));
    else own->call.form = &own->form;
    hn_status_free(status);
}

static hn_status prepare_extern(binder *x, hn_run_step *out) {
    hn_run_extern *own = out->ext;
    ask_for_form(x, out);
    hn_status status = hn_extern_prepare(own);
    if (hn_status_code(status) != HN_UNSUPPORTED || !own->call.form) return status;
    hn_log("run", HN_LOG_WARN, "%s; it decides by itself", hn_status_message(status));
    hn_status_free(status);
    own->call.form = NULL;
    return hn_extern_prepare(own);
}

static hn_status resolve_extern(binder *x, const hnb_step *step, hn_run_step *out) {
    hn_run_extern *own = out->ext;
    int64_t *params = x->bound->ext_params + step->params;
    bool same;
    hn_ext_call call = {.kind = (hn_extern_kind)step->extern_kind,
                        .params = params,
                        .param_count = step->param_count,
                        .knows_rooms = true,
                        .threads = x->bound->threads,
                        .team = x->team,
                        .shared = x->weights->shared};
    HN_TRY(describe_operands(x, step, out, &call));
    HN_TRY(read_params(x, step, params, &same));
    same = same && memcmp(own->call.rooms, call.rooms, sizeof call.rooms) == 0;
    /* a later stage, with the same numbers as the last time */
    if (hn_extern_is_prepared(own) && same) return NULL;
    hn_extern_release(own);
    own->call = call;
    out->scratch_bytes = 0;
    hn_status status = prepare_extern(x, out);
    const hn_code code = hn_status_code(status);
    if ((code == HN_UNSUPPORTED || code == HN_DEVICE) && step->kernel) {
        hn_log("run", code == HN_DEVICE ? HN_LOG_WARN : HN_LOG_INFO, "a kernel does it: %s",
               hn_status_message(status));
        hn_status_free(status);
        own->has_kernel = true;
        return resolve_kernel(x, step, out);
    }
    if (status) return status;
    out->scratch_bytes = hn_extern_scratch_bytes(own);
    return NULL;
}

/* Which function of the table copies; the queue is that of the side that is not the host, if one is
 * not. */
static hn_copy_fn copy_of(const hn_module *m, uint32_t to, uint32_t from) {
    const bool to_host = !hn_buffer_is_remote(m, to), from_host = !hn_buffer_is_remote(m, from);
    if (to_host && from_host) return m->host->ops->copy;
    return to_host     ? m->device->ops->copy_out
           : from_host ? m->device->ops->copy_in
                       : m->device->ops->copy;
}

static hn_status resolve_copy(binder *x, const hnb_step *step, hn_run_step *out) {
    int64_t to, from;
    out->copy = copy_of(x->m, step->buffer, step->from);
    HN_TRY(resolve(x, step->buffer, 0, 1, &out->args[0]));
    HN_TRY(resolve(x, step->from, 0, 1, &out->args[1]));
    HN_TRY(buffer_bytes(x, step->buffer, &to));
    HN_TRY(buffer_bytes(x, step->from, &from));
    out->bytes = (size_t)(to < from ? to : from);
    return NULL;
}

static hn_status resolve_zero(binder *x, const hnb_step *step, hn_run_step *out) {
    int64_t bytes;
    HN_TRY(resolve(x, step->buffer, 0, 1, &out->args[0]));
    HN_TRY(buffer_bytes(x, step->buffer, &bytes));
    out->bytes = (size_t)bytes;
    return NULL;
}

/* The walk itself reads the element of ASSERT, COND, LOOP and DEFINE: it must be there. */
static hn_status check_element(const binder *x, const hnb_step *step) {
    const hnb_operand *o = &x->b->operands[step->operands];
    const uint32_t bytes = hn_bundle_dtype_bytes(o->dtype);
    hn_ext_room room;
    HN_TRY(place_operand(x, o->buffer, o->offset, bytes, &room));
    return room.behind < bytes
               ? HN_ERROR(HN_CORRUPT, "an operand of one element lies outside its buffer %u",
                          o->buffer)
               : NULL;
}

/* A loop has either rounds or the element that its test gives. */
static hn_status resolve_loop(binder *x, const hnb_step *step, hn_run_step *out) {
    out->rounds = -1;
    if (!step->param_count) return check_element(x, step);
    HN_TRY(need(x, x->b->params[step->params], &out->rounds));
    if (out->rounds < 0) out->rounds = 0;
    return NULL;
}

static hn_status resolve_operands(binder *x, const hnb_step *step, hn_run_step *out) {
    uint32_t first = step->operands, count = step->operand_count;
    if (step->kind == HNB_STEP_WAIT) return NULL;
    if (step->kind == HNB_STEP_KERNEL) {
        pick_variant(x, out);
        first = out->called->operands, count = out->arg_count;
    }
    for (uint32_t i = 0; i < count; i++) {
        const hnb_operand *operand = &x->b->operands[first + i];
        if (operand->buffer)
            HN_TRY(resolve(x, operand->buffer, operand->offset,
                           hn_bundle_dtype_bytes(operand->dtype), &out->args[i]));
    }
    if (step->kind == HNB_STEP_KERNEL) return resolve_kernel(x, step, out);
    if (step->kind == HNB_STEP_LOOP) return resolve_loop(x, step, out);
    return step->kind == HNB_STEP_EXTERN ? resolve_extern(x, step, out) : check_element(x, step);
}

static hn_status resolve_step(binder *x, uint32_t k) {
    const hnb_step *step = &x->b->steps[k];
    hn_run_step *out = &x->bound->steps[k];
    hn_status status = step->kind == HNB_STEP_COPY   ? resolve_copy(x, step, out)
                       : step->kind == HNB_STEP_ZERO ? resolve_zero(x, step, out)
                                                     : resolve_operands(x, step, out);
    /* a step that is not worked out does not run */
    out->kind = status ? HNB_STEP_NONE : step->kind;
    if (!status) return NULL;
    const char *node = hn_bundle_text(x->b, x->b->origins[step->origin].node);
    return *node ? hn_status_annotate(status, "node '%s'", node) : status;
}

/* Rooms for all steps, of later stages too. */
static hn_status number_steps(binder *x) {
    const hn_bundle *b = x->b;
    hn_bound *bound = x->bound;
    size_t arg_count = 1;
    for (uint32_t k = 0; k < b->steps_count; k++) arg_count += x->m->ways[k].most_args;
    HN_NEW(x->arena, bound->args, arg_count);
    HN_NEW(x->arena, bound->params, (size_t)b->params_count + 1);
    HN_NEW(x->arena, bound->ext_params, (size_t)b->params_count + 1);
    HN_NEW(x->arena, bound->steps, (size_t)b->steps_count + 1);
    HN_NEW(x->arena, bound->exts, (size_t)x->m->extern_count + 1);
    void **args = bound->args;
    for (uint32_t k = 0; k < b->steps_count; k++) {
        const hnb_step *step = &b->steps[k];
        const hn_place place = hn_place_of(x->m, step->device);
        hn_run_extern *ext = NULL;
        /* of others these numbers mean nothing */
        const bool has_bodies = step->kind == HNB_STEP_COND || step->kind == HNB_STEP_LOOP;
        if (step->kind == HNB_STEP_EXTERN) {
            ext = &bound->exts[bound->ext_count++];
            ext->dev = hn_place_dev(x->m, place);
        }
        bound->steps[k] =
            (hn_run_step){.index = k,
                          .args = args,
                          .ext = ext,
                          .place = place,
                          .scratch_at = -1,
                          .then_count = has_bodies ? step->then_count : 0,
                          .body_count = has_bodies ? step->then_count + step->otherwise_count : 0};
        set_variant(x, &bound->steps[k], 0);
        args += x->m->ways[k].most_args;
    }
    return NULL;
}

/* What an operation wants that has no place in the workspace. */
static void count_scratch(hn_bound *bound, const hn_run_step *s) {
    size_t *most = &bound->ext_scratch[s->place];
    if (s->kind == HNB_STEP_EXTERN && s->scratch_at < 0 && s->scratch_bytes > *most)
        *most = s->scratch_bytes;
}

/* What steps want in each place. */
static hn_status add_scratch(binder *x) {
    hn_bound *bound = x->bound;
    size_t stride = hn_align_up(bound->scratch_stride, 64), all;
    size_t *kernels = &bound->scratch_bytes[HN_PLACE_KERNELS];
    if (!hn_mul_size(stride, (size_t)bound->threads, &all) || all > SIZE_MAX / 4)
        return too_large("thread", stride);
    bound->scratch_stride = stride;
    *kernels = all;
    for (uint32_t k = 0; k < x->m->place_count; k++)
        if (bound->ext_scratch[k] > bound->scratch_bytes[k])
            bound->scratch_bytes[k] = bound->ext_scratch[k];
    return NULL;
}

static hn_status resolve_steps(binder *x) {
    const hn_stage_list *list = &x->m->stages.steps;
    const uint32_t first = list->of ? list->first[x->stage] : 0,
                   end = list->of ? list->first[x->stage + 1] : x->b->steps_count;
    for (uint32_t k = first; k < end; k++) HN_TRY(resolve_step(x, list->of ? list->items[k] : k));
    HN_TRY(hn_scratch_place(x->m, x->bound));
    for (uint32_t k = first; k < end; k++)
        count_scratch(x->bound, &x->bound->steps[list->of ? list->items[k] : k]);
    return add_scratch(x);
}

/* ---- bounds ---- */

static hn_status fill(binder *x, const int64_t *key) {
    const hn_bundle *b = x->b;
    HN_NEW(x->arena, x->bound->key, (size_t)x->m->key_count + 1);
    HN_NEW(x->arena, x->bound->symbols, (size_t)b->symbols_count + 1);
    HN_NEW(x->arena, x->bound->values, b->nodes_count);
    HN_NEW(x->arena, x->bound->bad, b->nodes_count);
    if (x->m->key_count) memcpy(x->bound->key, key, x->m->key_count * sizeof *key);
    HN_NEW(x->arena, x->bound->outputs, b->outputs_count);
    HN_NEW(x->arena, x->bound->block_bytes, x->m->output_buffer_count);
    if (x->m->stages.count) HN_NEW(x->arena, x->bound->stage_done, (size_t)x->m->stages.count + 1);
    if (x->m->stages.count) x->bound->stage_done[0] = 1;
    HN_TRY(hn_inputs_bind(x->m, x->bound));
    HN_TRY(bind_inputs(x));
    for (uint32_t k = 0; k < x->m->place_count; k++) {
        int64_t workspace;
        HN_TRY(need_size(x, hn_bundle_workspace(b, hn_place_dev(x->m, k)->ops->kind), &workspace));
        x->bound->workspace_bytes[k] = (size_t)workspace;
    }
    HN_TRY(size_buffers(x));
    HN_TRY(bind_outputs(x));
    HN_TRY(number_steps(x));
    return resolve_steps(x);
}

hn_status hn_bound_create(hn_module *m, hn_context *c, hn_bound **out) {
    hn_bound *bound = calloc(1, sizeof *bound);
    if (!bound) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an execution context");
    hn_arena_init(&bound->arena);
    bound->threads = c->threads;
    bound->form = c->form;
    binder x = {.m = m,
                .b = &m->view,
                .bound = bound,
                .arena = &bound->arena,
                .weights = c->weights,
                .team = &c->team};
    hn_status status = fill(&x, c->key);
    if (status) hn_bound_destroy(bound);
    else *out = bound;
    return status;
}

void hn_bound_destroy(hn_bound *bound) {
    if (!bound) return;
    hn_recordings_drop(&bound->recordings);
    for (uint32_t k = 0; k < bound->ext_count; k++) hn_extern_release(&bound->exts[k]);
    hn_arena_deinit(&bound->arena);
    free(bound);
}

void hn_bound_patch(hn_bound *bound, const hn_run_patch *patch, void *address) {
    if (HN_UNLIKELY((*patch->slot == NULL) != (address == NULL))) bound->has_stale_layouts = true;
    *patch->slot = address;
}

void hn_bound_renew_layouts(const hn_module *m, hn_bound *bound) {
    for (uint32_t k = 0; k < m->view.steps_count; k++) {
        const hn_run_step *s = &bound->steps[k];
        const bool has_kernel =
            s->kind == HNB_STEP_KERNEL || (s->kind == HNB_STEP_EXTERN && s->ext->has_kernel);
        if (has_kernel && s->launch && s->launch->layout) s->launch->layout->ready_for = NULL;
    }
    bound->has_stale_layouts = false;
}

/* ---- later stages ---- */

static hn_status check_value(const binder *x, uint32_t symbol, int64_t value) {
    const hnb_symbol *s = &x->b->symbols[symbol];
    const char *name = hn_bundle_text(x->b, s->name);
    int64_t before = x->bound->symbols[symbol];
    if (x->bound->stage_done[x->stage])
        return before == value ? NULL
                               : HN_ERROR(HN_INVALID_ARGUMENT,
                                          "%s is %" PRId64 " here, but was %" PRId64
                                          " before; both must be equal",
                                          name, value, before);
    if (value >= s->lo && value <= s->hi) return NULL;
    bool low = value < s->lo;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "%s, which depends on data, is %" PRId64 ", must be at %s %" PRId64, name,
                    value, low ? "least" : "most", low ? s->lo : s->hi);
}

hn_status hn_bound_define(hn_module *m, hn_context *c, uint32_t symbol, int64_t value) {
    hn_bound *bound = c->bounds[0];
    const hn_stage_list *nodes = &m->stages.nodes;
    binder x = {.m = m,
                .b = &m->view,
                .bound = bound,
                .arena = &bound->arena,
                .team = &c->team,
                .c = c,
                .weights = c->weights,
                .stage = symbol - m->stages.first_symbol + 1};
    HN_TRY(check_value(&x, symbol, value));
    if (bound->stage_done[x.stage]) return NULL;
    bound->stage_done[x.stage] = 1;
    bound->symbols[symbol] = value;
    for (uint32_t k = nodes->first[x.stage]; k < nodes->first[x.stage + 1]; k++)
        hn_bundle_eval_range(x.b, bound->symbols, x.b->symbols_count, nodes->items[k],
                             nodes->items[k] + 1, bound->values, bound->bad);
    HN_TRY(hn_guards_check(m, bound, x.stage));
    HN_TRY(size_buffers(&x));
    HN_TRY(bind_outputs(&x));
    HN_TRY(hn_outputs_place(m, c, x.stage));
    if (HN_UNLIKELY(m->fill != HN_FILL_OFF)) HN_TRY(hn_fill_stage(m, c, x.stage));
    HN_TRY(resolve_steps(&x));
    return hn_context_grow_scratch(m, c);
}
