/* outputs.c: memory of outputs, and what happens after the last step: outputs become tensors, mutations are
 * written.
 *
 * An output buffer is a fresh block, or the caller's own memory when one output alone lives in it and the
 * caller gave a tensor of the same layout. Outputs that look into an input, a weight or a temporary are copied.
 * Mutations are written last; what they take from memory that another mutation writes is taken aside first. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/device.h"
#include "runtime/copy.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- before the run ---- */

/* Runs write to memory of the host only. */
static hn_status device_error(uint32_t output, const hn_tensor *t) {
    char at[HN_DEVICE_TEXT_BYTES];
    hn_tensor_device_print(t, at);
    return HN_ERROR(HN_UNSUPPORTED, "the tensor given for output %u is on %s; give one on %s", output, at,
                    hn_device_name(hn_device_ops_of_host()->kind));
}

static hn_status check_given(const hn_module *m, const hn_bound *bound, uint32_t output, uint32_t k,
                             const hn_tensor *t) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *out = &bound->outputs[k];
    if (o->kind != HNB_VALUE_TENSOR)
        return HN_ERROR(HN_INVALID_ARGUMENT, "output %u is a scalar: pass none for it", output);
    if (HN_UNLIKELY(!hn_tensor_is_on_host(t))) return device_error(output, t);
    if ((uint32_t)hn_tensor_type(t) != o->dtype)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the tensor given for output %u has type %s, the result has %s",
                        output, hn_scalar_type_name(hn_tensor_type(t)), hn_bundle_dtype_name(o->dtype));
    if (hn_tensor_rank(t) != o->rank)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the tensor given for output %u has %u dimensions, the result has %u", output,
                        hn_tensor_rank(t), o->rank);
    for (uint32_t d = 0; d < o->rank; d++)
        if (hn_tensor_sizes(t)[d] != out->sizes[d])
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "the tensor given for output %u has size %" PRId64
                            " in dimension %u, the result has %" PRId64,
                            output, hn_tensor_sizes(t)[d], d, out->sizes[d]);
    return NULL;
}

/* Whether kernels may write straight into this memory. */
static bool is_direct(const hn_module *m, const hn_bound *bound, uint32_t k, const hn_tensor *t) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *out = &bound->outputs[k];
    if (m->view.buffers[o->buffer].kind != HNB_BUFFER_OUTPUT || out->offset_bytes) return false;
    uint32_t slot = m->io_of[o->buffer] - m->view.inputs_count;
    if (m->output_users[slot] != 1 || bound->block_bytes[slot] > out->extent_bytes) return false;
    if ((uintptr_t)hn_tensor_data(t) % hn_bundle_dtype_bytes(o->dtype)) return false;
    for (uint32_t d = 0; d < o->rank; d++)
        if (out->sizes[d] > 1 && hn_tensor_strides(t)[d] != out->strides[d]) return false;
    return true;
}

/* The caller's own memory, where it can be written to directly. */
static hn_status place_given(const hn_module *m, hn_context *c, uint32_t output, uint32_t k) {
    const hn_tensor *t = c->given[output];
    if (!t) return NULL;
    HN_TRY(check_given(m, c->bounds[0], output, k, t));
    if (!is_direct(m, c->bounds[0], k, t)) return NULL;
    void **io = &c->io[m->io_of[m->view.outputs[k].buffer]];
    if (!*io) *io = hn_tensor_data(t); /* a buffer that an earlier stage has placed stays where it is */
    return NULL;
}

static hn_status place_block(const hn_module *m, hn_context *c, uint32_t s) {
    void **io = c->io + m->view.inputs_count;
    int64_t bytes = c->bounds[0]->block_bytes[s];
    if (io[s]) return NULL;
    c->blocks[s] = hn_block_create(m->blocks, (size_t)bytes);
    if (!c->blocks[s]) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an output of %" PRId64 " bytes", bytes);
    io[s] = hn_block_data(c->blocks[s]);
    return NULL;
}

hn_status hn_outputs_begin(hn_module *m, hn_context *c, hn_tensor *const *given) {
    void **io = c->io + m->view.inputs_count;
    c->given = given;
    for (uint32_t s = 0; s < m->output_buffer_count; s++) io[s] = NULL;
    return hn_outputs_place(m, c, 0);
}

hn_status hn_outputs_place(hn_module *m, hn_context *c, uint32_t stage) {
    uint32_t output = 0;
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        if (m->view.outputs[k].is_mutation) continue;
        if (hn_stage_of(&m->stages.outputs, k) == stage) HN_TRY(place_given(m, c, output, k));
        output++;
    }
    for (uint32_t s = 0; s < m->output_buffer_count; s++)
        if (hn_stage_of(&m->stages.buffers, m->output_buffers[s]) == stage) HN_TRY(place_block(m, c, s));
    return NULL;
}

/* ---- after the run ---- */

/* Where the content of a bundle output lies now. */
static uint8_t *content(const hn_module *m, const hn_context *c, uint32_t k) {
    const hnb_buffer *f = &m->view.buffers[m->view.outputs[k].buffer];
    const hn_bound *bound = c->bounds[0];
    const int64_t offset = bound->outputs[k].offset_bytes;
    switch (f->kind) {
    case HNB_BUFFER_CONSTANT: return hn_address(hn_storage_at(c->weights, c->state, f->source), (int64_t)f->byte_offset + offset);
    case HNB_BUFFER_TEMP: return hn_address(c->workspace, hn_bound_value(bound, f->offset) + offset);
    case HNB_BUFFER_SLOT: return hn_address(c->slots[f->source], offset);
    default: return hn_address(c->io[m->io_of[m->view.outputs[k].buffer]], offset);
    }
}

/* A tensor in a block of its own. */
static hn_status own_tensor(const hn_module *m, hn_tensor_desc desc, int64_t bytes, hn_tensor **out) {
    hn_block *block = hn_block_create(m->blocks, (size_t)bytes);
    if (!block) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an output of %" PRId64 " bytes", bytes);
    desc.data = hn_block_data(block);
    desc.free_data = hn_block_release;
    desc.free_user = block;
    hn_status status = hn_tensor_create(&desc, out);
    if (status) hn_block_release(block);
    return status;
}

static hn_status make_scalar(const hn_module *m, const hn_bound *bound, const hnb_output *o, hn_tensor **out) {
    int64_t value = hn_bound_value(bound, o->expr);
    uint8_t truth = o->bits != 0;
    hn_tensor_desc desc = {.rank = 0};
    const void *bytes = &value;
    switch (o->kind) {
    case HNB_VALUE_INT: desc.type = HN_I64; break;
    case HNB_VALUE_FLOAT: desc.type = HN_F64, bytes = &o->bits; break;
    case HNB_VALUE_BOOL: desc.type = HN_BOOL, bytes = &truth; break;
    default: return NULL; /* strings and None have no tensor */
    }
    HN_TRY(own_tensor(m, desc, (int64_t)hn_scalar_type_bytes(desc.type), out));
    memcpy(hn_tensor_data(*out), bytes, hn_scalar_type_bytes(desc.type));
    return NULL;
}

static hn_status make_tensor(const hn_module *m, hn_context *c, uint32_t k, hn_tensor **out) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *bo = &c->bounds[0]->outputs[k];
    hn_tensor_desc desc = {
        .type = (hn_scalar_type)o->dtype, .rank = o->rank, .sizes = bo->sizes, .strides = bo->strides};
    bool own = m->view.buffers[o->buffer].kind == HNB_BUFFER_OUTPUT;
    hn_block *block = own ? c->blocks[m->io_of[o->buffer] - m->view.inputs_count] : NULL;
    if (block) {
        desc.data = content(m, c, k);
        desc.free_data = hn_block_release;
        desc.free_user = block;
        HN_TRY(hn_tensor_create(&desc, out));
        hn_block_retain(block);
        return NULL;
    }
    HN_TRY(own_tensor(m, desc, bo->extent_bytes, out));
    hn_copy_strided(hn_tensor_data(*out), bo->strides, content(m, c, k), bo->strides, bo->sizes, o->rank,
                    hn_bundle_dtype_bytes(o->dtype));
    return NULL;
}

/* Makes new tensors; fills given ones that the kernels did not write to themselves. */
static hn_status make_outputs(const hn_module *m, hn_context *c, hn_tensor *const *given) {
    uint32_t output = 0;
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        if (o->is_mutation) continue;
        hn_tensor *t = given[output];
        if (o->kind != HNB_VALUE_TENSOR) {
            HN_TRY(make_scalar(m, c->bounds[0], o, &c->made[output]));
        } else if (!t) {
            HN_TRY(make_tensor(m, c, k, &c->made[output]));
        } else if (content(m, c, k) != hn_tensor_data(t)) {
            hn_copy_strided(hn_tensor_data(t), hn_tensor_strides(t), content(m, c, k),
                            c->bounds[0]->outputs[k].strides, hn_tensor_sizes(t), o->rank,
                            hn_bundle_dtype_bytes(o->dtype));
        }
        output++;
    }
    return NULL;
}

/* New content that lies in an input or a buffer: another mutation may write there. */
static hn_status stage_mutations(const hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        uint32_t kind = m->view.buffers[o->buffer].kind;
        if (!o->is_mutation || (kind != HNB_BUFFER_INPUT && kind != HNB_BUFFER_CONSTANT)) continue;
        size_t bytes = (size_t)c->bounds[0]->outputs[k].extent_bytes;
        c->staged[k] = hn_dev_alloc(m->device, bytes);
        if (!c->staged[k]) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to copy %zu bytes", bytes);
        if (bytes) memcpy(c->staged[k], content(m, c, k), bytes);
    }
    return NULL;
}

static void write_mutation(const hn_module *m, const hn_context *c, uint32_t k, hn_tensor *const *inputs) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *bo = &c->bounds[0]->outputs[k];
    const void *from = c->staged[k] ? c->staged[k] : content(m, c, k);
    void *to;
    const int64_t *strides;
    if (o->target_input >= 0) {
        to = hn_tensor_data(inputs[o->target_input]);
        strides = hn_tensor_strides(inputs[o->target_input]);
    } else {
        to = hn_address(c->state->storages[o->target_storage], bo->target_offset_bytes);
        strides = bo->target_strides;
    }
    hn_copy_strided(to, strides, from, bo->strides, bo->sizes, o->rank, hn_bundle_dtype_bytes(o->dtype));
}

/* The new content of an input has the input's sizes: the program would write beyond the caller's memory
 * otherwise. */
static hn_status check_targets(const hn_module *m, const hn_context *c, hn_tensor *const *inputs) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        if (!o->is_mutation || o->target_input < 0) continue;
        for (uint32_t d = 0; d < o->rank; d++)
            if (c->bounds[0]->outputs[k].sizes[d] != hn_tensor_sizes(inputs[o->target_input])[d])
                return HN_ERROR(HN_CORRUPT, "the program changes the size of input '%s'",
                                hn_input_name(&m->view, (uint32_t)o->target_input));
    }
    return NULL;
}

/* Outputs whose size no step has told: the program is not one that this compiler made. */
static hn_status check_known(const hn_module *m, const hn_context *c) {
    for (uint32_t k = 0; m->stages.count && k < m->view.outputs_count; k++)
        if (!c->bounds[0]->stage_done[m->stages.outputs.of[k]])
            return HN_ERROR(HN_CORRUPT, "output '%s' depends on a number that no step has defined",
                            hn_bundle_text(&m->view, m->view.outputs[k].name));
    return NULL;
}

hn_status hn_outputs_end(hn_module *m, hn_context *c, hn_tensor *const *inputs, hn_tensor **outputs) {
    HN_TRY(check_known(m, c));
    HN_TRY(check_targets(m, c, inputs));
    HN_TRY(make_outputs(m, c, outputs));
    HN_TRY(stage_mutations(m, c));
    /* Nothing can fail from here on. */
    for (uint32_t k = 0; k < m->view.outputs_count; k++)
        if (m->view.outputs[k].is_mutation) write_mutation(m, c, k, inputs);
    for (uint32_t output = 0; output < m->output_count; output++) {
        if (!outputs[output]) outputs[output] = c->made[output];
        else hn_tensor_release(c->made[output]);
        c->made[output] = NULL;
    }
    return NULL;
}

void hn_outputs_reset(hn_module *m, hn_context *c) {
    for (uint32_t s = 0; s < m->output_buffer_count; s++) {
        hn_block_release(c->blocks[s]);
        c->blocks[s] = NULL;
    }
    for (uint32_t output = 0; output < m->output_count; output++) {
        hn_tensor_release(c->made[output]);
        c->made[output] = NULL;
    }
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        hn_dev_free(m->device, c->staged[k]);
        c->staged[k] = NULL;
    }
}
