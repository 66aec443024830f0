/* outputs.c: memory of outputs, and what happens after the last step: outputs become tensors,
 * mutations are written.
 *
 * An output buffer is a fresh block, or the caller's own memory when one output alone lives in it
 * and the caller gave a tensor of the same layout. Outputs that look into an input, a weight or a
 * temporary are copied. Mutations are written last; what they take from memory that another
 * mutation writes is taken aside first.
 *
 * Of a program for a device, output buffers are on the device; their content is copied to where the
 * host would have had them, and what else is to be seen on the host to memory for the time of the
 * call. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/device.h"
#include "runtime/copy.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- before the run ---- */

/* Runs write to memory of the host, and of the device that runs the kernels. */
static hn_status device_error(uint32_t output, const hn_tensor *t) {
    char at[HN_DEVICE_TEXT_BYTES];
    hn_tensor_device_print(t, at);
    return HN_ERROR(HN_UNSUPPORTED, "the tensor given for output %u is on %s; give one on %s",
                    output, at, hn_device_name(hn_device_ops_of_host()->kind));
}

static hn_status check_given(const hn_module *m, const hn_bound *bound, uint32_t output, uint32_t k,
                             const hn_tensor *t) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *out = &bound->outputs[k];
    if (o->kind != HNB_VALUE_TENSOR)
        return HN_ERROR(HN_INVALID_ARGUMENT, "output %u is a scalar: pass none for it", output);
    if (HN_UNLIKELY(!hn_tensor_is_on_host(t)) && !hn_tensor_is_on_device(m, t))
        return device_error(output, t);
    if ((uint32_t)hn_tensor_type(t) != o->dtype)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the tensor given for output %u has type %s, the result has %s", output,
                        hn_scalar_type_name(hn_tensor_type(t)), hn_bundle_dtype_name(o->dtype));
    if (hn_tensor_rank(t) != o->rank)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the tensor given for output %u has %u dimensions, the result has %u",
                        output, hn_tensor_rank(t), o->rank);
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

/* Where the host gets the content of output buffer `s`: kernels of the host write it there
 * themselves. */
static void **home_of(const hn_module *m, hn_context *c, uint32_t s) {
    return hn_buffer_is_remote(m, m->output_buffers[s]) ? &c->homes[s]
                                                        : &c->io[m->view.inputs_count + s];
}

/* Memory of the caller's on the device, which the kernels write to. */
static hn_status place_on_device(const hn_module *m, hn_context *c, uint32_t output, uint32_t k,
                                 const hn_tensor *t) {
    const hnb_output *o = &m->view.outputs[k];
    char at[HN_DEVICE_TEXT_BYTES];
    if (hn_tensor_numel(t) == 0) return NULL;
    if (!is_direct(m, c->bounds[0], k, t) || !hn_buffer_is_remote(m, o->buffer) ||
        !hn_device_memory_fits(hn_tensor_data(t))) {
        hn_tensor_device_print(t, at);
        return HN_ERROR(HN_UNSUPPORTED,
                        "the tensor given for output %u on %s cannot take the result: that shares "
                        "its memory, is made by the host, or has another layout, or the address is "
                        "no multiple of 64; give one on %s",
                        output, at, hn_device_name(hn_device_ops_of_host()->kind));
    }
    c->given[m->io_of[o->buffer] - m->view.inputs_count] = hn_tensor_data(t);
    return NULL;
}

/* The caller's own memory, where it can be written to directly. */
static hn_status place_given(const hn_module *m, hn_context *c, uint32_t output, uint32_t k) {
    const hn_tensor *t = c->outputs[output];
    if (!t) return NULL;
    HN_TRY(check_given(m, c->bounds[0], output, k, t));
    if (HN_UNLIKELY(!hn_tensor_is_on_host(t))) return place_on_device(m, c, output, k, t);
    if (!is_direct(m, c->bounds[0], k, t)) return NULL;
    void **home = home_of(m, c, m->io_of[m->view.outputs[k].buffer] - m->view.inputs_count);
    /* a buffer that an earlier stage has placed stays where it is */
    if (!*home) *home = hn_tensor_data(t);
    return NULL;
}

static hn_status place_home(hn_module *m, hn_context *c, uint32_t s) {
    void **home = home_of(m, c, s);
    int64_t bytes = c->bounds[0]->block_bytes[s];
    if (m->view.buffers[m->output_buffers[s]].kind == HNB_BUFFER_POOL)
        return hn_pool_place(m, c, s);
    if (*home) return NULL;
    if (m->output_pools[s] && !hn_buffer_is_remote(m, m->output_buffers[s]))
        return hn_pool_share(m, c, s, home);
    c->blocks[s] = hn_block_create(m->blocks, (size_t)bytes);
    c->made_bytes += (size_t)bytes;
    if (!c->blocks[s])
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an output of %" PRId64 " bytes", bytes);
    *home = hn_block_data(c->blocks[s]);
    return NULL;
}

/* Memory for the kernels, and for the host where it needs the content. */
static hn_status place_buffer(hn_module *m, hn_context *c, uint32_t s) {
    const size_t bytes = (size_t)c->bounds[0]->block_bytes[s];
    if (!hn_buffer_is_remote(m, m->output_buffers[s])) return place_home(m, c, s);
    if (m->view.buffers[m->output_buffers[s]].kind == HNB_BUFFER_POOL)
        return hn_device_pool_place(m, c, s);
    c->io[m->view.inputs_count + s] = c->given[s];
    if (c->given[s]) return NULL;
    if (hn_device_output_comes_home(m, c, s)) HN_TRY(place_home(m, c, s));
    if (m->output_pools[s]) return hn_device_pool_share(m, c, s);
    HN_TRY(hn_device_output_place(m, c, s, &c->io[m->view.inputs_count + s]));
    if (c->io[m->view.inputs_count + s]) return NULL;
    HN_TRY(hn_kept_grow(m, c, m->device, &c->remote[s], bytes ? bytes : 1));
    c->io[m->view.inputs_count + s] = c->remote[s].memory;
    return NULL;
}

hn_status hn_outputs_begin(hn_module *m, hn_context *c) {
    c->made_bytes = 0;
    for (uint32_t s = 0; s < m->output_buffer_count; s++) {
        *home_of(m, c, s) = NULL;
        c->given[s] = NULL;
        c->owners[s] = NULL;
    }
    return hn_outputs_place(m, c, 0);
}

/* ---- memory of the caller's on the device ---- */

typedef struct range {
    uintptr_t begin, end;
    bool is_written;
} range;

static int by_begin(const void *a, const void *b) {
    const range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static uint32_t list_ranges(const hn_module *m, const hn_context *c, range *out) {
    const hn_bound *bound = c->bounds[0];
    uint32_t count = 0;
    for (uint32_t k = 0; k < m->view.inputs_count; k++) {
        const uintptr_t at = (uintptr_t)hn_tensor_data(c->inputs[k]);
        if (bound->input_strides[k] && !hn_tensor_is_on_host(c->inputs[k]) && bound->input_bytes[k])
            out[count++] = (range){at, at + (uintptr_t)bound->input_bytes[k], false};
    }
    for (uint32_t s = 0; s < m->output_buffer_count; s++) {
        const uintptr_t at = (uintptr_t)c->given[s];
        if (at) out[count++] = (range){at, at + (uintptr_t)bound->block_bytes[s], true};
    }
    return count;
}

static bool are_apart(range *ranges, uint32_t count) {
    uintptr_t end = 0, written_end = 0; /* of those before */
    qsort(ranges, count, sizeof *ranges, by_begin);
    for (uint32_t k = 0; k < count; k++) {
        const range *r = &ranges[k];
        if (r->begin < (r->is_written ? end : written_end)) return false;
        if (r->end > end) end = r->end;
        if (r->is_written && r->end > written_end) written_end = r->end;
    }
    return true;
}

/* Kernels rely on it that nobody else reads or writes what they write. */
static hn_status check_apart(const hn_module *m, const hn_context *c) {
    uint32_t given = 0;
    for (uint32_t s = 0; s < m->output_buffer_count; s++) given += c->given[s] != NULL;
    if (!given) return NULL;
    range few[16];
    const size_t most = (size_t)m->view.inputs_count + given;
    range *ranges = most <= HN_COUNT_OF(few) ? few : calloc(most, sizeof *ranges);
    if (!ranges) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to look at the outputs");
    const bool are_good = are_apart(ranges, list_ranges(m, c, ranges));
    if (ranges != few) free(ranges);
    return are_good ? NULL
                    : HN_ERROR(HN_INVALID_ARGUMENT,
                               "a tensor given for an output on %s overlaps with an input or with "
                               "another output",
                               hn_device_name(m->device->ops->kind));
}

hn_status hn_outputs_place(hn_module *m, hn_context *c, uint32_t stage) {
    uint32_t output = 0;
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        if (m->view.outputs[k].is_mutation) continue;
        if (hn_stage_of(&m->stages.outputs, k) == stage) HN_TRY(place_given(m, c, output, k));
        output++;
    }
    HN_TRY(check_apart(m, c));
    for (uint32_t s = 0; s < m->output_buffer_count; s++)
        if (hn_stage_of(&m->stages.buffers, m->output_buffers[s]) == stage)
            HN_TRY(place_buffer(m, c, s));
    return NULL;
}

/* ---- where the content of an output is ---- */

/* Whether it is in memory that the host cannot read. Of an input the host has the content itself,
 * and of a storage that nobody changes. */
bool hn_output_is_remote(const hn_module *m, const hnb_output *o) {
    const hnb_buffer *f = &m->view.buffers[o->buffer];
    if (m->place_count == 1 || f->kind == HNB_BUFFER_INPUT) return false;
    if (f->kind == HNB_BUFFER_CONSTANT && !m->view.storages[f->source].is_mutable) return false;
    return hn_buffer_is_remote(m, o->buffer);
}

/* As the steps left it. */
uint8_t *hn_output_content(const hn_module *m, const hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    const hnb_buffer *f = &m->view.buffers[o->buffer];
    const hn_bound *bound = c->bounds[0];
    const int64_t offset = bound->outputs[k].offset_bytes;
    switch (f->kind) {
    case HNB_BUFFER_INPUT: return hn_address(c->io[f->source], offset);
    case HNB_BUFFER_CONSTANT:
        return hn_address(m->view.storages[f->source].is_mutable ? c->state->storages[f->source]
                                                                 : c->weights->storages[f->source],
                          (int64_t)f->byte_offset + offset);
    case HNB_BUFFER_TEMP:
        return hn_address(c->places[hn_place_of(m, f->device)].workspace.memory,
                          hn_bound_value(bound, f->offset) + offset);
    case HNB_BUFFER_SLOT: return hn_address(c->slots[f->source].memory, offset);
    default: return hn_address(c->io[m->io_of[o->buffer]], offset);
    }
}

/* On the host, once it was fetched. */
static uint8_t *home_content(const hn_module *m, hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    if (!hn_output_is_remote(m, o)) return hn_output_content(m, c, k);
    if (c->staged[k].memory) return c->staged[k].memory;
    return hn_address(c->homes[m->io_of[o->buffer] - m->view.inputs_count],
                      c->bounds[0]->outputs[k].offset_bytes);
}

/* ---- behind the last step ---- */

/* The new content of an input has the input's sizes: the program would write beyond the caller's
 * memory otherwise. */
static hn_status check_targets(const hn_module *m, const hn_context *c) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        if (!o->is_mutation || o->target_input < 0) continue;
        for (uint32_t d = 0; d < o->rank; d++)
            if (c->bounds[0]->outputs[k].sizes[d] != hn_tensor_sizes(c->inputs[o->target_input])[d])
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

static hn_status stage_memory(hn_context *c, uint32_t k, hn_dev *dev, size_t bytes) {
    c->staged[k] = (hn_device_memory){dev, hn_dev_alloc(dev, bytes)};
    return c->staged[k].memory ? NULL
                               : HN_ERROR(HN_OUT_OF_MEMORY, "no memory to copy %zu bytes", bytes);
}

/* Whether the elements have the same order in both layouts, one behind the other: then they can be
 * copied as bytes. */
static bool is_one_block(const hn_bound_output *o, uint32_t rank, uint32_t elem_bytes) {
    int64_t bytes = elem_bytes;
    for (uint32_t d = 0; d < rank; d++) {
        if (o->sizes[d] > 1 && o->strides[d] != o->target_strides[d]) return false;
        bytes *= o->sizes[d]; /* at most that of the buffer */
    }
    return bytes == o->extent_bytes;
}

/* A mutation of a storage on the device that the device can do alone. */
static bool is_device_copy(const hn_module *m, const hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    return hn_mutation_is_remote(m, o) && hn_output_is_remote(m, o) &&
           is_one_block(&c->bounds[0]->outputs[k], o->rank, hn_bundle_dtype_bytes(o->dtype));
}

/* To memory of the host; of an output buffer only once, all of it. */
static hn_status fetch(hn_module *m, hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    const size_t bytes = (size_t)c->bounds[0]->outputs[k].extent_bytes;
    if (o->kind != HNB_VALUE_TENSOR || !hn_output_is_remote(m, o) || is_device_copy(m, c, k) ||
        hn_output_stays(m, c, k))
        return NULL;
    if (m->view.buffers[o->buffer].kind == HNB_BUFFER_OUTPUT &&
        (c->homes[m->io_of[o->buffer] - m->view.inputs_count] ||
         c->given[m->io_of[o->buffer] - m->view.inputs_count]))
        return NULL;
    HN_TRY(stage_memory(c, k, m->host, bytes));
    if (bytes)
        HN_TRY(m->device->ops->copy_out(c->places[HN_PLACE_KERNELS].queue, c->staged[k].memory,
                                        hn_output_content(m, c, k), bytes));
    c->bytes_out += bytes;
    return NULL;
}

static hn_status fetch_buffer(hn_module *m, hn_context *c, uint32_t s) {
    const size_t bytes = (size_t)c->bounds[0]->block_bytes[s];
    if (!c->homes[s] || !bytes) return NULL;
    c->bytes_out += bytes;
    return m->device->ops->copy_out(c->places[HN_PLACE_KERNELS].queue, c->homes[s],
                                    c->io[m->view.inputs_count + s], bytes);
}

hn_status hn_outputs_fetch(hn_module *m, hn_context *c) {
    HN_TRY(check_known(m, c));
    if (m->changes_inputs) HN_TRY(check_targets(m, c));
    if (m->place_count == 1) return NULL;
    for (uint32_t s = 0; s < m->output_buffer_count; s++) HN_TRY(fetch_buffer(m, c, s));
    for (uint32_t k = 0; k < m->view.outputs_count; k++) HN_TRY(fetch(m, c, k));
    return c->device_outputs ? hn_device_outputs_copy(m, c) : NULL;
}

/* ---- outputs ---- */

/* A tensor in a block of its own. */
static hn_status own_tensor(const hn_module *m, hn_tensor_desc desc, int64_t bytes,
                            hn_tensor **out) {
    hn_block *block = hn_block_create(m->blocks, (size_t)bytes);
    if (!block)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an output of %" PRId64 " bytes", bytes);
    desc.data = hn_block_data(block);
    desc.free_data = hn_block_release;
    desc.free_user = block;
    hn_status status = hn_tensor_create(&desc, out);
    if (status) hn_block_release(block);
    return status;
}

static hn_status make_scalar(const hn_module *m, const hn_bound *bound, const hnb_output *o,
                             hn_tensor **out) {
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

/* A tensor in the memory of an input that the caller has given up. */
static hn_status share_input(const hn_module *m, hn_context *c, uint32_t k, hn_tensor_desc *desc,
                             hn_tensor **out) {
    hn_tensor *owner = c->owners[m->io_of[m->view.outputs[k].buffer] - m->view.inputs_count];
    desc->data = home_content(m, c, k);
    desc->free_data = hn_pool_release_input;
    desc->free_user = owner;
    HN_TRY(hn_tensor_create(desc, out));
    hn_tensor_retain(owner);
    return NULL;
}

static hn_status make_tensor(const hn_module *m, hn_context *c, uint32_t k, hn_tensor **out) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *bo = &c->bounds[0]->outputs[k];
    hn_tensor_desc desc = {.type = (hn_scalar_type)o->dtype,
                           .rank = o->rank,
                           .sizes = bo->sizes,
                           .strides = bo->strides};
    bool own = m->view.buffers[o->buffer].kind == HNB_BUFFER_OUTPUT;
    hn_block *block = own ? c->blocks[m->io_of[o->buffer] - m->view.inputs_count] : NULL;
    if (block) {
        desc.data = home_content(m, c, k);
        desc.free_data = hn_block_release;
        desc.free_user = block;
        HN_TRY(hn_tensor_create(&desc, out));
        hn_block_retain(block);
        return NULL;
    }
    if (own && c->owners[m->io_of[o->buffer] - m->view.inputs_count])
        return share_input(m, c, k, &desc, out);
    c->made_bytes += (size_t)bo->extent_bytes;
    HN_TRY(own_tensor(m, desc, bo->extent_bytes, out));
    hn_copy_strided(hn_tensor_data(*out), bo->strides, home_content(m, c, k), bo->strides,
                    bo->sizes, o->rank, hn_bundle_dtype_bytes(o->dtype));
    return NULL;
}

/* Makes new tensors; fills given ones that the kernels did not write to themselves. */
static hn_status make_outputs(const hn_module *m, hn_context *c) {
    uint32_t output = 0;
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        const hnb_output *o = &m->view.outputs[k];
        if (o->is_mutation) continue;
        hn_tensor *t = c->outputs[output];
        if (o->kind != HNB_VALUE_TENSOR) {
            HN_TRY(make_scalar(m, c->bounds[0], o, &c->made[output]));
        } else if (!t) {
            HN_TRY(c->device_outputs ? hn_device_output_make(m, c, k, &c->made[output])
                                     : make_tensor(m, c, k, &c->made[output]));
        } else if (hn_tensor_is_on_host(t) && home_content(m, c, k) != hn_tensor_data(t)) {
            hn_copy_strided(hn_tensor_data(t), hn_tensor_strides(t), home_content(m, c, k),
                            c->bounds[0]->outputs[k].strides, hn_tensor_sizes(t), o->rank,
                            hn_bundle_dtype_bytes(o->dtype));
        }
        output++;
    }
    return NULL;
}

/* ---- mutations ---- */

/* New content that lies in an input or a buffer: another mutation may write there. */
static hn_status stage_mutation(hn_module *m, hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    if (!o->is_mutation || c->staged[k].memory) return NULL;
    const uint32_t kind = m->view.buffers[o->buffer].kind;
    const size_t bytes = (size_t)c->bounds[0]->outputs[k].extent_bytes;
    const bool stays_remote = hn_output_is_remote(m, o); /* or it had been fetched */
    if (kind != HNB_BUFFER_INPUT && kind != HNB_BUFFER_CONSTANT) return NULL;
    HN_TRY(stage_memory(c, k, stays_remote ? m->device : m->host, bytes));
    if (!bytes) return NULL;
    if (stays_remote)
        return m->device->ops->copy(c->places[HN_PLACE_KERNELS].queue, c->staged[k].memory,
                                    hn_output_content(m, c, k), bytes);
    memcpy(c->staged[k].memory, hn_output_content(m, c, k), bytes);
    return NULL;
}

/* Where a mutation of a storage writes. */
static uint8_t *target_of(const hn_module *m, const hn_context *c, uint32_t k) {
    return hn_address(c->state->storages[m->view.outputs[k].target_storage],
                      c->bounds[0]->outputs[k].target_offset_bytes);
}

/* Elements that do not lie one behind the other in a storage on the device: the host puts them
 * between the others. */
static hn_status write_strided(const hn_module *m, hn_context *c, uint32_t k, const uint8_t *from) {
    const hnb_output *o = &m->view.outputs[k];
    const hn_bound_output *bo = &c->bounds[0]->outputs[k];
    const hn_device_ops *ops = m->device->ops;
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    hn_device_fault fault;
    int64_t bytes;
    HN_TRY(hn_extent_bytes(o->rank, bo->sizes, bo->target_strides, hn_bundle_dtype_bytes(o->dtype),
                           &bytes));
    if (!bytes) return NULL;
    uint8_t *all = malloc((size_t)bytes);
    if (!all) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to copy %" PRId64 " bytes", bytes);
    hn_status status = ops->read(queue, all, target_of(m, c, k), (size_t)bytes);
    if (!status) {
        hn_copy_strided(all, bo->target_strides, from, bo->strides, bo->sizes, o->rank,
                        hn_bundle_dtype_bytes(o->dtype));
        status = ops->copy_in(queue, target_of(m, c, k), all, (size_t)bytes);
        hn_status end = ops->finish(queue, &fault);
        if (status) hn_status_free(end);
        else status = end;
        c->bytes_out += (uint64_t)bytes;
        c->bytes_in += (uint64_t)bytes;
    }
    free(all);
    return status;
}

static hn_status write_remote(const hn_module *m, hn_context *c, uint32_t k) {
    const size_t bytes = (size_t)c->bounds[0]->outputs[k].extent_bytes;
    if (!is_device_copy(m, c, k))
        return write_strided(m, c, k,
                             c->staged[k].memory ? c->staged[k].memory : home_content(m, c, k));
    const uint8_t *from = c->staged[k].memory ? c->staged[k].memory : hn_output_content(m, c, k);
    return bytes ? m->device->ops->copy(c->places[HN_PLACE_KERNELS].queue, target_of(m, c, k), from,
                                        bytes)
                 : NULL;
}

/* All that the device changes. If it fails here, the state that it was writing is lost. */
static hn_status write_remotes(const hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++)
        if (hn_mutation_is_remote(m, &m->view.outputs[k])) HN_TRY(write_remote(m, c, k));
    return NULL;
}

static void write_mutation(const hn_module *m, hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    if (!o->is_mutation || hn_mutation_is_remote(m, o)) return;
    const hn_bound_output *bo = &c->bounds[0]->outputs[k];
    const void *from = c->staged[k].memory ? c->staged[k].memory : home_content(m, c, k);
    const int64_t *strides;
    void *to;
    if (o->target_input >= 0) {
        to = hn_tensor_data(c->inputs[o->target_input]);
        strides = hn_tensor_strides(c->inputs[o->target_input]);
    } else {
        to = target_of(m, c, k);
        strides = bo->target_strides;
    }
    hn_copy_strided(to, strides, from, bo->strides, bo->sizes, o->rank,
                    hn_bundle_dtype_bytes(o->dtype));
}

static hn_status stage_mutations(hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < m->view.outputs_count; k++) HN_TRY(stage_mutation(m, c, k));
    return NULL;
}

static hn_status write_mutations(hn_module *m, hn_context *c) {
    hn_status status = stage_mutations(m, c);
    if (m->place_count > 1 && m->has_state) /* copies were begun, also if one failed */
        status = hn_steps_finish(m, c, status ? status : write_remotes(m, c));
    HN_TRY(status);
    /* Nothing can fail from here on. */
    for (uint32_t k = 0; k < m->view.outputs_count; k++) write_mutation(m, c, k);
    return NULL;
}

hn_status hn_outputs_end(hn_module *m, hn_context *c) {
    HN_TRY(make_outputs(m, c));
    if (m->view.outputs_count > m->output_count) HN_TRY(write_mutations(m, c));
    for (uint32_t output = 0; output < m->output_count; output++) {
        if (!c->outputs[output]) c->outputs[output] = c->made[output];
        else hn_tensor_release(c->made[output]);
        c->made[output] = NULL;
    }
    hn_context_count_made(m, c);
    return NULL;
}

void hn_outputs_reset(hn_module *m, hn_context *c) {
    for (uint32_t s = 0; s < m->output_buffer_count; s++) {
        hn_block_release(c->blocks[s]);
        c->blocks[s] = NULL;
    }
    for (uint32_t k = 0; c->device_outputs && k < m->output_buffer_count + m->view.outputs_count;
         k++) {
        hn_block_release(c->device_output_blocks[k]);
        c->device_output_blocks[k] = NULL;
    }
    for (uint32_t output = 0; output < m->output_count; output++) {
        hn_tensor_release(c->made[output]);
        c->made[output] = NULL;
    }
    for (uint32_t k = 0; k < m->view.outputs_count; k++) {
        if (c->staged[k].memory) hn_dev_free(c->staged[k].dev, c->staged[k].memory);
        c->staged[k].memory = NULL;
    }
}
