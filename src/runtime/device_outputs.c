/* device_outputs.c: outputs that are made in memory of the device that runs the program. One that
 * lives in an output buffer is that buffer; any other, such as a view of a weight or of an input, is a
 * copy. Its block remembers the caller's queue, so that the memory is not used again before the work
 * that this has when the output is released. */
#include "runtime/module_impl.h"

hn_status hn_device_block_make(hn_module *m, hn_context *c, int64_t bytes, hn_block **out) {
    c->made_bytes += (size_t)bytes;
    return hn_block_create_for(m->device_output_blocks, (size_t)bytes,
                               c->places[HN_PLACE_KERNELS].queue, c->has_stream, c->stream, out);
}

/* ---- before the steps ---- */

static bool is_in_buffer(const hn_module *m, const hnb_output *o, uint32_t s) {
    return o->kind == HNB_VALUE_TENSOR && o->buffer == m->output_buffers[s];
}

bool hn_device_output_stays(const hn_module *m, const hn_context *c, uint32_t s) {
    for (uint32_t k = 0; c->device_outputs && k < m->view.outputs_count; k++)
        if (is_in_buffer(m, &m->view.outputs[k], s) && hn_output_stays(m, c, k)) return true;
    return false;
}

hn_status hn_device_output_place(hn_module *m, hn_context *c, uint32_t s, void **out) {
    *out = NULL;
    if (!hn_device_output_stays(m, c, s)) return NULL;
    HN_TRY(hn_device_block_make(m, c, c->bounds[0]->block_bytes[s], &c->device_output_blocks[s]));
    *out = hn_block_data(c->device_output_blocks[s]);
    return NULL;
}

/* The host needs it for a mutation, and for tensors of the caller's on the host. */
bool hn_device_output_comes_home(const hn_module *m, const hn_context *c, uint32_t s) {
    if (!c->device_outputs) return m->output_comes_home[s];
    bool comes = m->mutation_comes_home[s];
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        comes |= is_in_buffer(m, o, s) && !o->is_mutation && !hn_output_stays(m, c, k);
    }
    return comes;
}

/* ---- behind the steps ---- */

/* What keeps the memory of an output's tensor: the block of the buffer, which itself is the output;
 * the input in whose memory the buffer lies; or the block of a copy. */
typedef struct keeper {
    hn_block *block;
    hn_tensor *input;
} keeper;

static keeper keeper_of(const hn_module *m, const hn_context *c, const hnb_output *o) {
    if (m->view.buffers[o->buffer].kind != HNB_BUFFER_OUTPUT || !hn_buffer_is_remote(m, o->buffer))
        return (keeper){0};
    const uint32_t s = m->io_of[o->buffer] - m->view.inputs_count;
    return (keeper){c->device_output_blocks[s], c->owners[s]};
}
static bool is_buffer(keeper k) { return k.block || k.input; }

static hn_status copy_output(hn_module *m, hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_device_ops *ops = m->device->ops;
    const int64_t bytes = c->bounds[0]->outputs[k].extent_bytes;
    hn_block **block = &c->device_output_blocks[m->output_buffer_count + k];
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    HN_TRY(hn_device_block_make(m, c, bytes, block));
    if (!bytes) return NULL;
    if (hn_output_is_remote(m, o))
        return ops->copy(queue, hn_block_data(*block), hn_output_content(m, c, k), (size_t)bytes);
    c->bytes_in += (uint64_t)bytes;
    return ops->copy_in(queue, hn_block_data(*block), hn_output_content(m, c, k), (size_t)bytes);
}

hn_status hn_device_outputs_copy(hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++)
        if (hn_output_stays(m, c, k) && !is_buffer(keeper_of(m, c, &m->view.outputs[k])))
            HN_TRY(copy_output(m, c, k));
    return NULL;
}

hn_status hn_device_output_make(const hn_module *m, hn_context *c, uint32_t k, hn_tensor **out) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *bo = &c->bounds[0]->outputs[k];
    keeper by = keeper_of(m, c, o);
    const bool is_whole = is_buffer(by);
    if (!is_whole) by.block = c->device_output_blocks[m->output_buffer_count + k];
    HN_TRY(hn_tensor_create(
        &(hn_tensor_desc){.type = (hn_scalar_type)o->dtype,
                          .rank = o->rank,
                          .sizes = bo->sizes,
                          .strides = bo->strides,
                          .data = is_whole ? hn_output_content(m, c, k) : hn_block_data(by.block),
                          .free_data = by.block ? hn_block_release : hn_pool_release_input,
                          .free_user = by.block ? (void *)by.block : by.input,
                          .device = {m->device->ops->kind, m->device->number}},
        out));
    if (by.block) hn_block_retain(by.block);
    else hn_tensor_retain(by.input);
    return NULL;
}
