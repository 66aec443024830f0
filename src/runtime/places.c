/* places.c: where the memory of a program is: which devices it uses, which of its inputs, outputs
 * and storages are remote, and where the addresses of inputs and outputs stand in a context. */
#include "runtime/module_impl.h"

#include "base/device.h"

#include <stdlib.h>

static hn_status no_memory(void) {
    return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
}

/* ---- devices ---- */

/* This library has rows for these kinds only. */
static hn_status check_kind(uint32_t kind, const char *what, uint32_t number) {
    hn_strbuf kinds;
    if (hn_device_ops_of(kind)) return NULL;
    hn_strbuf_init(&kinds);
    hn_device_kinds_print(&kinds);
    hn_status status = HN_ERROR(
        HN_UNSUPPORTED, "%s %u of the program is on %s; this library runs programs on %s only",
        what, number, hn_device_name(kind), kinds.len ? kinds.ptr : "none");
    hn_strbuf_deinit(&kinds);
    return status;
}

/* One kind besides the host. */
static hn_status add_kind(uint32_t kind, const char *what, uint32_t number, uint32_t *found) {
    const uint32_t host = hn_device_ops_of_host()->kind;
    HN_TRY(check_kind(kind, what, number));
    if (kind == host || kind == *found) return NULL;
    if (*found != host)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "%s %u of the program is on %s, others are on %s; a program runs on one device", what,
            number, hn_device_name(kind), hn_device_name(*found));
    *found = kind;
    return NULL;
}

/* The kind of device that the program is for: the host only if it uses no other. */
static hn_status find_kind(const hn_bundle *b, uint32_t target, uint32_t *out) {
    *out = hn_device_ops_of_host()->kind;
    for (uint32_t k = 1; k < b->buffers_count; k++)
        HN_TRY(add_kind(b->buffers[k].device, "buffer", k, out));
    for (uint32_t k = 0; k < b->steps_count; k++)
        HN_TRY(add_kind(b->steps[k].device, "step", k, out));
    return b->kernels_count > 1
               ? add_kind(hn_bundle_target_device(b->targets[target].kind), "target", target, out)
               : NULL;
}

/* A device that is not the host does those operations that its row has. */
static hn_status check_operations(const hn_bundle *b, const hn_device_ops *ops) {
    for (uint32_t k = 0; k < b->steps_count; k++) {
        const hnb_step *s = &b->steps[k];
        if (s->kind == HNB_STEP_EXTERN && s->device == (uint32_t)ops->kind && !ops->operations)
            return HN_ERROR(
                HN_UNSUPPORTED,
                "step %u of the program is the operation '%s' on %s, where this library "
                "has no operations",
                k, hn_bundle_extern_name(s->extern_kind), hn_device_name(ops->kind));
    }
    return NULL;
}

hn_status hn_places_choose(hn_module *m, const hn_module_options *options) {
    const char *name;
    if (!options->device) return NULL;
    HN_TRY(hn_device_parse(options->device, &m->wanted, &name));
    m->has_wanted = true;
    const hn_device_ops *ops = hn_device_ops_of(m->wanted.kind);
    return name && ops && ops->number_of ? ops->number_of(name, &m->wanted.number) : NULL;
}

uint32_t hn_places_number_of(const hn_module *m, uint32_t kind) {
    return m->has_wanted && (uint32_t)m->wanted.kind == kind ? m->wanted.number : 0;
}

static hn_status check_wanted(const hn_module *m, uint32_t kind) {
    if (!m->has_wanted || (uint32_t)m->wanted.kind == kind) return NULL;
    hn_strbuf have;
    hn_strbuf_init(&have);
    hn_bundle_programs_print(&m->view, &have);
    hn_status status = HN_ERROR(
        HN_INVALID_ARGUMENT,
        "the program was compiled for %s and does not run on %s; the bundle has: %s; compile the "
        "model for it",
        hn_device_name(kind), hn_device_name(m->wanted.kind), have.len ? have.ptr : "none");
    hn_strbuf_deinit(&have);
    return status;
}

static hn_status check_callers(const hn_device_ops *ops, const hn_module_options *options) {
    if (ops->takes_callers || !(options->device_context || options->device_allocator)) return NULL;
    return HN_ERROR(HN_UNSUPPORTED,
                    "the program runs on %s, which takes no context and no device allocator of the "
                    "caller's",
                    hn_device_name(ops->kind));
}

/* On the host 0 is the only one: what is not there is told by `open`. */
static hn_status open_device(hn_module *m, const hn_device_ops *ops,
                             const hn_module_options *options, uint32_t number, hn_dev **out) {
    hn_device_options how = {.number = number,
                             .memory_limit = options->device_memory_bytes,
                             .context = options->device_context};
    if (options->allocator) how.allocator = *options->allocator;
    if (options->device_allocator) how.memory = *options->device_allocator;
    HN_TRY(hn_dev_open(ops, &how, &m->devices[ops->kind]));
    *out = m->devices[ops->kind];
    return NULL;
}

hn_status hn_places_open(hn_module *m, const hn_module_options *options) {
    const hn_device_ops *host = hn_device_ops_of_host();
    uint32_t kind;
    HN_TRY(find_kind(&m->view, m->target, &kind));
    HN_TRY(check_wanted(m, kind));
    HN_TRY(check_callers(hn_device_ops_of(kind), options));
    const uint32_t number = hn_places_number_of(m, kind);
    m->place_count = kind == (uint32_t)host->kind ? 1 : 2;
    HN_TRY(open_device(m, host, options, m->place_count == 1 ? number : 0, &m->host));
    m->device = m->host;
    if (m->place_count == 1) return NULL;
    HN_TRY(check_operations(&m->view, hn_device_ops_of(kind)));
    return open_device(m, hn_device_ops_of(kind), options, number, &m->device);
}

void hn_places_close(hn_module *m) {
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++) hn_dev_release(m->devices[k]);
}

/* ---- storages ---- */

/* What the program changes is in one place; other storages may be in both, as copies. */
hn_status hn_places_find_storages(hn_module *m) {
    const hn_bundle *b = &m->view;
    m->storage_is_remote = calloc(b->storages_count + 1u, sizeof *m->storage_is_remote);
    if (!m->storage_is_remote) return no_memory();
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_CONSTANT && hn_buffer_is_remote(m, k))
            m->storage_is_remote[b->buffers[k].source] = true;
    for (uint32_t k = 1; k < b->buffers_count; k++) {
        const hnb_buffer *f = &b->buffers[k];
        if (f->kind != HNB_BUFFER_CONSTANT || !b->storages[f->source].is_mutable) continue;
        if (hn_buffer_is_remote(m, k) != m->storage_is_remote[f->source])
            return HN_ERROR(HN_CORRUPT, "storage %u, which the program changes, is on two devices",
                            f->source);
    }
    return NULL;
}

/* ---- inputs and outputs ---- */

/* Room in `io` for an input on the device; once, if several buffers have it. */
static void add_upload(hn_module *m, uint32_t buffer) {
    const uint32_t input = m->view.buffers[buffer].source;
    uint32_t k = 0;
    while (k < m->upload_count && m->uploads[k] != input) k++;
    if (k == m->upload_count) m->uploads[m->upload_count++] = input;
    m->io_of[buffer] = m->view.inputs_count + m->output_buffer_count + k;
}

/* What of the inputs the host has to do with: its steps, outputs that are views of them, and those
 * that the program changes. */
static void find_inputs_of_host(hn_module *m) {
    const hn_bundle *b = &m->view;
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_INPUT && !hn_buffer_is_remote(m, k))
            m->input_is_hosts[b->buffers[k].source] = true;
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        if (o->is_mutation && o->target_input >= 0) m->input_is_hosts[o->target_input] = true;
        if (o->kind == HNB_VALUE_TENSOR && b->buffers[o->buffer].kind == HNB_BUFFER_INPUT)
            m->input_is_hosts[b->buffers[o->buffer].source] = true;
    }
}

static void number_output(hn_module *m, uint32_t buffer) {
    const hnb_buffer *f = &m->view.buffers[buffer];
    if (f->kind == HNB_BUFFER_OUTPUT && f->source) /* pools have their numbers */
        m->output_pools[m->output_buffer_count] = 1 + m->io_of[f->source] - m->view.inputs_count;
    m->io_of[buffer] = m->view.inputs_count + m->output_buffer_count;
    m->output_buffers[m->output_buffer_count++] = buffer;
}

/* How many tensors look into each output buffer, and whether the host needs it. */
static void look_at_output(hn_module *m, const hnb_output *o) {
    const hn_bundle *b = &m->view;
    m->output_number[o - b->outputs] = m->output_count;
    m->output_count += !o->is_mutation;
    m->changes_inputs |= o->is_mutation && o->target_input >= 0;
    if (o->kind != HNB_VALUE_TENSOR || b->buffers[o->buffer].kind != HNB_BUFFER_OUTPUT) return;
    const uint32_t s = m->io_of[o->buffer] - b->inputs_count;
    m->output_users[s]++;
    if (hn_mutation_is_remote(m, o)) return;
    m->output_comes_home[s] = true;
    m->mutation_comes_home[s] |= o->is_mutation;
}

hn_status hn_places_number(hn_module *m) {
    const hn_bundle *b = &m->view;
    m->io_of = calloc(b->buffers_count + 1u, sizeof *m->io_of);
    m->uploads = calloc(b->inputs_count + 1u, sizeof *m->uploads);
    m->slot_places = calloc(b->buffers_count + 1u, sizeof *m->slot_places);
    m->output_buffers = calloc(b->buffers_count + 1u, sizeof *m->output_buffers);
    m->output_users = calloc(b->buffers_count + 1u, sizeof *m->output_users);
    m->output_pools = calloc(b->buffers_count + 1u, sizeof *m->output_pools);
    m->output_comes_home = calloc(b->buffers_count + 1u, sizeof *m->output_comes_home);
    m->mutation_comes_home = calloc(b->buffers_count + 1u, sizeof *m->mutation_comes_home);
    m->output_number = calloc(b->outputs_count + 1u, sizeof *m->output_number);
    m->input_is_hosts = calloc(b->inputs_count + 1u, sizeof *m->input_is_hosts);
    if (!m->mutation_comes_home || !m->output_number || !m->io_of || !m->uploads ||
        !m->input_is_hosts || !m->slot_places || !m->output_buffers || !m->output_users ||
        !m->output_comes_home || !m->output_pools)
        return no_memory();
    for (uint32_t k = 0; k < b->inputs_count; k++)
        m->key_count += b->inputs[k].kind == HNB_VALUE_TENSOR ? b->inputs[k].rank : 1;
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_POOL) number_output(m, k);
    for (uint32_t k = 1; k < b->buffers_count; k++) {
        const hnb_buffer *f = &b->buffers[k];
        if (f->kind == HNB_BUFFER_INPUT) m->io_of[k] = f->source;
        if (f->kind == HNB_BUFFER_OUTPUT) number_output(m, k);
        if (f->kind == HNB_BUFFER_SLOT) m->slot_places[f->source] = hn_place_of(m, f->device);
    }
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_INPUT && hn_buffer_is_remote(m, k)) add_upload(m, k);
    m->io_count = b->inputs_count + m->output_buffer_count + m->upload_count;
    for (uint32_t k = 0; k < b->outputs_count; k++) look_at_output(m, &b->outputs[k]);
    find_inputs_of_host(m);
    return NULL;
}

void hn_places_deinit(hn_module *m) {
    free(m->io_of);
    free(m->uploads);
    free(m->input_is_hosts);
    free(m->slot_places);
    free(m->output_buffers);
    free(m->output_users);
    free(m->output_pools);
    free(m->output_comes_home);
    free(m->mutation_comes_home);
    free(m->output_number);
    free(m->storage_is_remote);
}
