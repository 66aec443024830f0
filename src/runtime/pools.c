/* pools.c: memory in which several outputs of a run lie, and maybe temporaries: a block of its own,
 * or the memory of an input that the caller gives up for this run. Each output tensor holds a
 * reference to it, so they are released in any order.
 *
 * An input's memory is taken only if the program was compiled for that, the run's options name the
 * input, and kernels read the tensor where it lies. Otherwise the pool is a block, as large, and
 * nobody writes to the input. Pools on a device: device_pools.c. */
#include "runtime/module_impl.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>

enum { POOL_ALIGN = 64 };

/* ---- what the caller gives up ---- */

static hn_status check_index(const hn_module *m, hn_tensor *const *inputs, uint32_t k) {
    if (k >= m->view.inputs_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input %u is to be given up, but there are %u inputs",
                        k, m->view.inputs_count);
    if (m->view.inputs[k].kind != HNB_VALUE_TENSOR)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input '%s' cannot be given up: it is no tensor",
                        hn_input_name(&m->view, k));
    if (inputs[k] && hn_tensor_is_const(inputs[k]))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "input '%s' cannot be given up: it is read-only memory",
                        hn_input_name(&m->view, k));
    return NULL;
}

hn_status hn_donations_take(const hn_module *m, hn_context *c, const hn_run_options *options,
                            uint32_t input_count) {
    memset(c->is_donated, 0, m->view.inputs_count);
    if (!options->donated_count) return NULL;
    if (!options->donated)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'donated' is NULL, but 'donated_count' is %u",
                        options->donated_count);
    if (input_count != m->view.inputs_count) return NULL; /* told when the inputs are checked */
    for (uint32_t k = 0; k < options->donated_count; k++) {
        HN_TRY(check_index(m, c->inputs, options->donated[k]));
        c->is_donated[options->donated[k]] = true;
    }
    return NULL;
}

typedef struct range {
    uintptr_t begin, end;
} range;

static range range_of(const hn_tensor *t) {
    int64_t bytes = 0;
    range none = {0};
    if (!t || hn_tensor_numel(t) == 0) return none;
    hn_status status = hn_extent_bytes(hn_tensor_rank(t), hn_tensor_sizes(t), hn_tensor_strides(t),
                                       (uint32_t)hn_scalar_type_bytes(hn_tensor_type(t)), &bytes);
    const uintptr_t at = (uintptr_t)hn_tensor_data(t);
    if (status) { /* negative strides: it is somewhere around */
        hn_status_free(status);
        return (range){0, UINTPTR_MAX};
    }
    return (range){at, at + (uintptr_t)bytes};
}

static bool meet(range a, range b) { return a.begin < b.end && b.begin < a.end; }

/* Addresses of the host and of the device say nothing of each other. */
static bool are_of_one_side(const hn_tensor *a, const hn_tensor *b) {
    return b && hn_tensor_is_on_host(a) == hn_tensor_is_on_host(b);
}

hn_status hn_donation_check(const hn_module *m, const hn_context *c, uint32_t k) {
    const range own = range_of(c->inputs[k]);
    for (uint32_t i = 0; i < m->view.inputs_count; i++)
        if (i != k && m->view.inputs[i].kind == HNB_VALUE_TENSOR &&
            are_of_one_side(c->inputs[k], c->inputs[i]) && meet(own, range_of(c->inputs[i])))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "input '%s' cannot be given up: input '%s' has the same memory",
                            hn_input_name(&m->view, k), hn_input_name(&m->view, i));
    for (uint32_t i = 0; i < m->output_count; i++)
        if (are_of_one_side(c->inputs[k], c->outputs[i]) && meet(own, range_of(c->outputs[i])))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "input '%s' cannot be given up: the tensor given for output %u has the "
                            "same memory",
                            hn_input_name(&m->view, k), i);
    return NULL;
}

/* Whether the pool is the memory of its input in this call. */
static bool takes_input(const hn_module *m, const hn_context *c, uint32_t s, uint32_t k) {
    const hn_tensor *t = c->inputs[k];
    return c->is_donated[k] && hn_tensor_is_on_host(t) && hn_tensor_numel(t) &&
           c->io[k] == hn_tensor_data(t) && (uintptr_t)c->io[k] % POOL_ALIGN == 0 &&
           c->bounds[0]->block_bytes[s] <= c->bounds[0]->input_bytes[k] &&
           m->view.inputs[k].kind == HNB_VALUE_TENSOR;
}

/* ---- places ---- */

hn_status hn_pool_place(hn_module *m, hn_context *c, uint32_t s) {
    const uint32_t source = m->view.buffers[m->output_buffers[s]].source;
    const int64_t bytes = c->bounds[0]->block_bytes[s];
    c->owners[s] = NULL;
    if (source && takes_input(m, c, s, source - 1)) {
        HN_TRY(hn_donation_check(m, c, source - 1));
        c->owners[s] = c->inputs[source - 1];
        c->io[m->view.inputs_count + s] = hn_tensor_data(c->owners[s]);
        return NULL;
    }
    c->blocks[s] = hn_block_create(m->blocks, (size_t)bytes);
    c->made_bytes += (size_t)bytes;
    if (!c->blocks[s])
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for outputs of %" PRId64 " bytes", bytes);
    c->io[m->view.inputs_count + s] = hn_block_data(c->blocks[s]);
    return NULL;
}

hn_status hn_pool_share(const hn_module *m, hn_context *c, uint32_t s, void **home) {
    const uint32_t pool = m->output_pools[s] - 1;
    void *base = c->io[m->view.inputs_count + pool];
    if (!base)
        return HN_ERROR(HN_CORRUPT, "buffer %u lies in a pool that is not there yet",
                        m->output_buffers[s]);
    *home = hn_address(base,
                       hn_bound_value(c->bounds[0], m->view.buffers[m->output_buffers[s]].offset));
    c->owners[s] = c->owners[pool];
    c->blocks[s] = c->blocks[pool];
    if (c->blocks[s]) hn_block_retain(c->blocks[s]);
    return NULL;
}

void hn_pool_release_input(void *tensor) { hn_tensor_release(tensor); }
