/* device_outputs.c: outputs that are made in memory of the device that runs the program. One that
 * lives in an output buffer is that buffer; any other, such as a view of a weight or of an input, is a
 * copy. Its block remembers the caller's queue, so that the memory is not used again before the work
 * that this has when the output is released. */
#include "runtime/module_impl.h"

static hn_status make_block(hn_module *m, hn_context *c, int64_t bytes, hn_block **out) {
    c->made_bytes += (size_t)bytes;
    return hn_block_create_for(m->device_output_blocks, (size_t)bytes,
                               c->places[HN_PLACE_KERNELS].queue, c->has_stream, c->stream, out);
}

/* ---- before the steps ---- */

static bool is_in_buffer(const hn_module *m, const hnb_output *o, uint32_t s) {
    return o->kind == HNB_VALUE_TENSOR && o->buffer == m->output_buffers[s];
}

hn_status hn_device_output_place(hn_module *m, hn_context *c, uint32_t s, void **out) {
    bool stays = false;
    *out = NULL;
    for (uint32_t k = 0; c->device_outputs && k < m->view.outputs_count; k++)
        stays |= is_in_buffer(m, &m->view.outputs[k], s) && hn_output_stays(m, c, k);
    if (!stays) return NULL;
    HN_TRY(make_block(m, c, c->bounds[0]->block_bytes[s], &c->device_output_blocks[s]));
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

/* The buffer itself is the output. */
static hn_block *block_of_buffer(const hn_module *m, const hn_context *c, const hnb_output *o) {
    return m->view.buffers[o->buffer].kind == HNB_BUFFER_OUTPUT
               ? c->device_output_blocks[m->io_of[o->buffer] - m->view.inputs_count]
               : NULL;
}

static hn_status copy_output(hn_module *m, hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_device_ops *ops = m->device->ops;
    const int64_t bytes = c->bounds[0]->outputs[k].extent_bytes;
    hn_block **block = &c->device_output_blocks[m->output_buffer_count + k];
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    HN_TRY(make_block(m, c, bytes, block));
    if (!bytes) return NULL;
    if (hn_output_is_remote(m, o))
        return ops->copy(queue, hn_block_data(*block), hn_output_content(m, c, k), (size_t)bytes);
    c->bytes_in += (uint64_t)bytes;
    return ops->copy_in(queue, hn_block_data(*block), hn_output_content(m, c, k), (size_t)bytes);
}

hn_status hn_device_outputs_copy(hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++)
        if (hn_output_stays(m, c, k) && !block_of_buffer(m, c, &m->view.outputs[k]))
            HN_TRY(copy_output(m, c, k));
    return NULL;
}

hn_status hn_device_output_make(const hn_module *m, hn_context *c, uint32_t k, hn_tensor **out) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *bo = &c->bounds[0]->outputs[k];
    hn_block *whole = block_of_buffer(m, c, o);
    hn_block *block = whole ? whole : c->device_output_blocks[m->output_buffer_count + k];
    uint8_t *data = hn_block_data(block);
    HN_TRY(hn_tensor_create(&(hn_tensor_desc){.type = (hn_scalar_type)o->dtype,
                                              .rank = o->rank,
                                              .sizes = bo->sizes,
                                              .strides = bo->strides,
                                              .data = whole ? data + bo->offset_bytes : data,
                                              .free_data = hn_block_release,
                                              .free_user = block,
                                              .device = {m->device->ops->kind, m->device->number}},
                            out));
    hn_block_retain(block);
    return NULL;
}
