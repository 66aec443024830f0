/* fill.c: what is in the memory of a run before the first step. Nothing may depend on it; for who looks
 * for a read of memory that was never written, it can be filled with zeros, or with bytes that are NaN
 * as any float.
 *
 * That is the workspaces with what lies in them, slots when their size is known, and output buffers
 * and pools, but not memory that the caller brings. */
#include "runtime/module_impl.h"

#include "base/compiler.h"
#include "base/nearest.h"

#include <stdlib.h>

static const char *const names[] = {
    [HN_FILL_OFF] = "off", [HN_FILL_ONCE] = "once", [HN_FILL_ZERO] = "zero", [HN_FILL_NAN] = "nan"};

static hn_status read_text(const char *text, hn_fill *out) {
    char near[HN_NEAREST_TEXT_BYTES];
    hn_nearest nearest;
    hn_nearest_begin(&nearest, hn_str_of(text));
    for (uint32_t k = 0; k < HN_COUNT_OF(names); k++) {
        *out = (hn_fill)k;
        if (strcmp(text, names[k]) == 0) return NULL;
        hn_nearest_offer(&nearest, hn_str_of(names[k]));
    }
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "'%s' is nothing to fill memory with (off, once, zero, nan)%s", text,
                    hn_nearest_text(&nearest, near));
}

hn_status hn_fill_init(hn_module *m, const char *text) {
    const char *given = text ? text : getenv("HENRY_POOL_FILL");
    m->fill = HN_FILL_OFF;
    if (!given || !*given) return NULL;
    hn_status status = read_text(given, &m->fill);
    return text ? status : hn_status_annotate(status, "HENRY_POOL_FILL");
}

static hn_status fill(const hn_module *m, const hn_context *c, uint32_t place, void *to,
                      size_t bytes) {
    const uint8_t byte = m->fill == HN_FILL_NAN ? 0xff : 0;
    if (!to || !bytes) return NULL;
    return hn_place_dev(m, place)->ops->fill(c->places[place].queue, to, byte, bytes);
}

hn_status hn_fill_made(const hn_module *m, const hn_context *c, hn_dev *dev, hn_kept *kept) {
    uint32_t place = 0;
    while (place < m->place_count && hn_place_dev(m, place) != dev) place++;
    if (m->fill != HN_FILL_ONCE || place == m->place_count) return NULL;
    return fill(m, c, place, kept->memory, kept->cap);
}

/* Fresh memory for output buffer `s`; NULL: it is the caller's, or part of a pool. */
static void *output_memory(const hn_module *m, const hn_context *c, uint32_t s) {
    if (hn_buffer_is_remote(m, m->output_buffers[s])) {
        void *at = c->io[m->view.inputs_count + s];
        const bool is_own = at && at == c->remote[s].memory;
        const bool is_block = c->device_output_blocks[s] && !m->output_pools[s];
        return is_own || is_block ? at : NULL;
    }
    return c->blocks[s] && !m->output_pools[s] ? hn_block_data(c->blocks[s]) : NULL;
}

static hn_status fill_buffer(const hn_module *m, const hn_context *c, uint32_t buffer) {
    const hnb_buffer *f = &m->view.buffers[buffer];
    const hn_place place = hn_place_of(m, f->device);
    if (f->kind == HNB_BUFFER_SLOT)
        return fill(m, c, place, c->slots[f->source].memory,
                    (size_t)hn_bound_value(c->bounds[0], f->bytes));
    if (f->kind != HNB_BUFFER_OUTPUT && f->kind != HNB_BUFFER_POOL) return NULL;
    const uint32_t s = m->io_of[buffer] - m->view.inputs_count;
    return fill(m, c, place, output_memory(m, c, s), (size_t)c->bounds[0]->block_bytes[s]);
}

hn_status hn_fill_stage(const hn_module *m, const hn_context *c, uint32_t stage) {
    const hn_bound *bound = c->bounds[0];
    if (m->fill != HN_FILL_ZERO && m->fill != HN_FILL_NAN) return NULL;
    for (uint32_t k = 0; k < m->place_count && !stage; k++) {
        const hn_context_place *place = &c->places[k];
        HN_TRY(fill(m, c, k, place->workspace.memory, bound->workspace_bytes[k]));
        HN_TRY(fill(m, c, k, place->scratch.memory, bound->scratch_bytes[k]));
    }
    for (uint32_t b = 1; b < m->view.buffers_count; b++)
        if (hn_stage_of(&m->stages.buffers, b) == stage) HN_TRY(fill_buffer(m, c, b));
    return NULL;
}
