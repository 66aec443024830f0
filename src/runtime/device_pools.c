/* device_pools.c: pools in memory of the device that runs the program. A pool is
 *
 * - the memory of an input on the device that the caller gives up for this run;
 * - the copy that the run has made of an input on the host: nobody else reads that, so it needs no
 *   leave, but it is the context's, and no output may stay in it;
 * - a block, to which each output that stays on the device holds a reference;
 * - or memory that the context keeps, when all outputs go to the host.
 *
 * An output for which the caller has brought memory on the device lies there, and not in the pool. */
#include "runtime/module_impl.h"

#include "base/checked.h"

static void **io_of(hn_context *c, const hn_module *m, uint32_t s) {
    return &c->io[m->view.inputs_count + s];
}

/* ---- the pool ---- */

/* Whether an output in it is to be a new tensor on the device. */
static bool has_outputs(const hn_module *m, const hn_context *c, uint32_t pool) {
    for (uint32_t s = 0; c->device_outputs && s < m->output_buffer_count; s++)
        if (m->output_pools[s] == pool + 1 && hn_device_output_stays(m, c, s)) return true;
    return false;
}

/* Where kernels find an input on the device; NULL: they do not read it. */
static void *uploaded(const hn_module *m, const hn_context *c, uint32_t input, uint8_t **out_copy) {
    uint32_t u = 0;
    while (u < m->upload_count && m->uploads[u] != input) u++;
    if (u == m->upload_count) return NULL;
    *out_copy = c->remote[m->output_buffer_count + u].memory;
    return c->io[m->view.inputs_count + m->output_buffer_count + u];
}

/* Whether the memory of an input can be this call's: an output of a run is used again behind the work
 * of one stream of the caller's, which becomes the call's. */
static bool follows(const hn_context *c, const hn_tensor *t) {
    hn_block *block = c->has_stream ? hn_tensor_block(t) : NULL;
    return !block || hn_block_follow(block, c->stream);
}

/* Finds the place of a pool that is to be in the memory of an input; leaves `*io` NULL if it cannot
 * be there. */
static hn_status place_in_input(const hn_module *m, hn_context *c, uint32_t s, uint32_t input) {
    const hn_tensor *t = c->inputs[input];
    uint8_t *copy = NULL;
    void *at = uploaded(m, c, input, &copy);
    if (!at || !hn_tensor_numel(t) ||
        c->bounds[0]->block_bytes[s] > c->bounds[0]->input_bytes[input])
        return NULL;
    if (at == copy) {
        if (!has_outputs(m, c, s)) *io_of(c, m, s) = at;
    } else if (c->is_donated[input] && at == hn_tensor_data(t)) {
        HN_TRY(hn_donation_check(m, c, input));
        if (!follows(c, t)) return NULL;
        c->owners[s] = c->inputs[input];
        *io_of(c, m, s) = at;
    }
    return NULL;
}

hn_status hn_device_pool_place(hn_module *m, hn_context *c, uint32_t s) {
    const hnb_buffer *pool = &m->view.buffers[m->output_buffers[s]];
    const size_t bytes = (size_t)c->bounds[0]->block_bytes[s];
    void **io = io_of(c, m, s);
    *io = NULL;
    if (pool->source) HN_TRY(place_in_input(m, c, s, pool->source - 1));
    if (*io) return NULL;
    if (has_outputs(m, c, s)) {
        HN_TRY(hn_device_block_make(m, c, (int64_t)bytes, &c->device_output_blocks[s]));
        *io = hn_block_data(c->device_output_blocks[s]);
        return NULL;
    }
    HN_TRY(hn_kept_grow(m, c, m->device, &c->remote[s], bytes ? bytes : 1));
    *io = c->remote[s].memory;
    return NULL;
}

/* ---- what lies in it ---- */

hn_status hn_device_pool_share(const hn_module *m, hn_context *c, uint32_t s) {
    const uint32_t pool = m->output_pools[s] - 1;
    if (!*io_of(c, m, pool))
        return HN_ERROR(HN_CORRUPT, "buffer %u lies in a pool that is not there yet",
                        m->output_buffers[s]);
    *io_of(c, m, s) =
        hn_address(*io_of(c, m, pool),
                   hn_bound_value(c->bounds[0], m->view.buffers[m->output_buffers[s]].offset));
    if (c->device_output_blocks[s] || !hn_device_output_stays(m, c, s)) return NULL;
    c->owners[s] = c->owners[pool];
    c->device_output_blocks[s] = c->device_output_blocks[pool];
    if (c->device_output_blocks[s]) hn_block_retain(c->device_output_blocks[s]);
    return NULL;
}
