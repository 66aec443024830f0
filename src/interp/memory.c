/* memory.c: see memory.h. */
#include "interp/memory.h"

#include "wrapper/slots.h"

#include <stdlib.h>
#include <string.h>

/* ---- pieces ---- */

/* What nobody has written: NaN for floats, else numbers that are no index of anything. */
static void spoil(hn_dtype dtype, const hn_line_memory *memory) {
    if (memory->bytes)
        memset(memory->bytes, hn_dtype_is_float(dtype) ? 0xff : 0xa5, (size_t)memory->len);
}

static hn_status make(int64_t len, hn_line_memory *out) {
    out->len = len > 0 ? len : 0;
    out->bytes = calloc((size_t)out->len + 64, 1);
    return out->bytes ? NULL
                      : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %lld bytes of a program",
                                 (long long)len);
}

/* The bytes of a buffer that the program makes. */
static hn_status size_of(const hn_imem *m, hn_wbuf b, int64_t *out) {
    HN_TRY(hn_ref_eval(m->at, m->w->buffers.items[b].bytes, out));
    if (*out < 0) *out = 0;
    return NULL;
}

static hn_status make_own(hn_imem *m, hn_wbuf b) {
    int64_t len;
    HN_TRY(size_of(m, b, &len));
    HN_TRY(make(len, &m->buffers[b].memory));
    m->buffers[b].is_own = true;
    return NULL;
}

/* ---- the life of a program's memory ---- */

static hn_status set_constant(hn_imem *m, hn_wbuf b, hn_arena *arena) {
    const hn_wbuffer *buffer = &m->w->buffers.items[b];
    const hn_graph *g = m->w->graph;
    if (!g || !buffer->source || buffer->source >= g->storages.count)
        return HN_ERROR(HN_INTERNAL, "buffer %u is in storage %u, which the graph does not have", b,
                        buffer->source);
    const size_t bytes = g->storages.items[buffer->source].size_bytes;
    const uint8_t *data;
    HN_TRY(hn_graph_storage_data(g, buffer->source, arena, &data));
    if (!data && bytes)
        return HN_ERROR(HN_UNSUPPORTED, "the graph has no bytes of storage %u", buffer->source);
    if (buffer->byte_offset > bytes)
        return HN_ERROR(HN_INTERNAL, "buffer %u begins behind its storage", b);
    /* constants are read only: no line writes them */
    m->buffers[b] = (hn_imem_buffer){.state = HN_IMEM_LIVE,
                                     .memory = {.bytes = (uint8_t *)data + buffer->byte_offset,
                                                .len = (int64_t)(bytes - buffer->byte_offset)}};
    return NULL;
}

static hn_status make_space(hn_imem *m, hn_expr bytes, hn_line_memory *out) {
    int64_t len;
    HN_TRY(hn_ref_eval(m->at, bytes, &len));
    HN_TRY(make(len, out));
    spoil(HN_DTYPE_F32, out);
    return NULL;
}

static hn_status make_workspaces(hn_imem *m) {
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        if (m->plan->workspaces[d])
            HN_TRY(make_space(m, m->plan->workspaces[d], &m->workspaces[d]));
    return NULL;
}

/* Those that are the memory of inputs are there with the inputs. */
static hn_status make_pools(hn_imem *m, hn_arena *arena) {
    HN_NEW(arena, m->pools, m->plan->pool_list.count);
    for (uint32_t k = 0; k < m->plan->pool_list.count; k++)
        if (!m->plan->pool_list.items[k].input)
            HN_TRY(make_space(m, m->plan->pool_list.items[k].bytes, &m->pools[k]));
    return NULL;
}

hn_status hn_imem_init(hn_imem *m, const hn_wrapper *w, const hn_memory_plan *plan,
                       const hn_ref_bindings *at, hn_arena *arena) {
    *m = (hn_imem){.w = w, .plan = plan, .at = at};
    HN_NEW(arena, m->buffers, w->buffers.count);
    for (uint32_t i = 0; i < w->lines.count; i++)
        m->has_lines |= w->lines.items[i].kind == HN_LINE_ALLOCATE;
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        if (w->buffers.items[b].kind == HN_WBUF_CONSTANT) HN_TRY(set_constant(m, b, arena));
    if (!plan) return NULL;
    HN_NEW(arena, m->slots, plan->slot_count);
    HN_TRY(make_workspaces(m));
    return make_pools(m, arena);
}

void hn_imem_deinit(hn_imem *m) {
    for (hn_wbuf b = 1; m->buffers && b < m->w->buffers.count; b++)
        if (m->buffers[b].is_own) free(m->buffers[b].memory.bytes);
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++) free(m->workspaces[d].bytes);
    for (uint32_t s = 0; m->slots && s < m->plan->slot_count; s++) free(m->slots[s].bytes);
    for (uint32_t k = 0; m->pools && k < m->plan->pool_list.count; k++)
        if (!m->plan->pool_list.items[k].input) free(m->pools[k].bytes);
}

/* ---- inputs ---- */

static int64_t reach(uint32_t rank, const int64_t *sizes, const int64_t *strides) {
    int64_t last = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] <= 0) return 0;
        last += (sizes[d] - 1) * strides[d];
    }
    return last;
}

static int64_t place_of(uint32_t rank, const int64_t *at, const int64_t *strides) {
    int64_t place = 0;
    for (uint32_t d = 0; d < rank; d++) place += at[d] * strides[d];
    return place;
}

static hn_status fill_input(hn_imem *m, hn_wbuf b, const hn_ref_tensor *given) {
    const hn_wbuffer *buffer = &m->w->buffers.items[b];
    const int64_t size = hn_dtype_facts(buffer->dtype)->size_bytes;
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK], at[HN_MAX_RANK] = {0};
    hn_imem_buffer *own = &m->buffers[b];
    if (given->dtype != buffer->dtype || given->rank != buffer->rank)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input %u has another dtype or rank", buffer->source);
    HN_TRY(hn_ref_eval_sizes(m->at, buffer->rank, buffer->sizes, sizes));
    HN_TRY(hn_ref_eval_sizes(m->at, buffer->rank, buffer->strides, strides));
    for (uint32_t d = 0; d < buffer->rank; d++)
        if (sizes[d] != given->sizes[d])
            return HN_ERROR(HN_INVALID_ARGUMENT, "input %u has another size in dimension %u",
                            buffer->source, d);
    HN_TRY(make(reach(buffer->rank, sizes, strides) * size, &own->memory));
    own->is_own = true;
    own->state = HN_IMEM_LIVE;
    spoil(buffer->dtype, &own->memory);
    for (int64_t n = 0; n < given->numel; n++, hn_ref_next(at, sizes, buffer->rank))
        hn_ref_elem_write(buffer->dtype, hn_ref_get(given, n),
                          own->memory.bytes + place_of(buffer->rank, at, strides) * size);
    return NULL;
}

hn_status hn_imem_set_input(hn_imem *m, uint32_t input, const hn_ref_tensor *given) {
    for (hn_wbuf b = 1; b < m->w->buffers.count; b++)
        if (m->w->buffers.items[b].kind == HN_WBUF_INPUT && m->w->buffers.items[b].source == input)
            HN_TRY(fill_input(m, b, given));
    return NULL;
}

/* ---- lines ---- */

/* The workspace of its device, or its pool. What begins in the memory of an input ends the
 * input. */
static hn_status space_of(hn_imem *m, hn_wbuf b, hn_line_memory *out) {
    *out = m->workspaces[m->w->buffers.items[b].device];
    if (!m->plan->pools[b]) return NULL;
    const uint32_t pool = m->plan->pools[b] - 1;
    const hn_wbuf input = m->plan->pool_list.items[pool].input;
    *out = input ? m->buffers[input].memory : m->pools[pool];
    if (!input) return NULL;
    if (m->buffers[input].state == HN_IMEM_NONE)
        return HN_ERROR(HN_INTERNAL, "buffer %u lies in an input that has no memory", b);
    m->buffers[input].state = HN_IMEM_FREED;
    return NULL;
}

static hn_status place(hn_imem *m, hn_wbuf b) {
    hn_line_memory space;
    int64_t at, len;
    if (!m->plan->offsets[b])
        return HN_ERROR(HN_INTERNAL, "the plan has no place for buffer %u", b);
    HN_TRY(space_of(m, b, &space));
    HN_TRY(hn_ref_eval(m->at, m->plan->offsets[b], &at));
    HN_TRY(size_of(m, b, &len));
    if (at < 0 || at > space.len || len > space.len - at)
        return HN_ERROR(HN_INTERNAL, "buffer %u is at %lld and has %lld bytes, in a %s of %lld", b,
                        (long long)at, (long long)len, m->plan->pools[b] ? "pool" : "workspace",
                        (long long)space.len);
    m->buffers[b].memory = (hn_line_memory){space.bytes + at, len};
    return NULL;
}

static bool is_placed(const hn_imem *m, hn_wbuf b) {
    return m->plan && (hn_wbuf_is_inner(m->w->buffers.items[b].kind) || m->plan->pools[b]);
}

static hn_status allocate(hn_imem *m, hn_wbuf b) {
    hn_imem_buffer *own = &m->buffers[b];
    if (own->state == HN_IMEM_LIVE) return HN_ERROR(HN_INTERNAL, "buffer %u has memory already", b);
    if (is_placed(m, b) && m->plan->slots[b]) {
        if (!own->memory.bytes)
            return HN_ERROR(HN_INTERNAL, "buffer %u begins before its size is known", b);
    } else if (is_placed(m, b)) {
        HN_TRY(place(m, b));
    } else {
        if (own->is_own) free(own->memory.bytes);
        own->is_own = false;
        HN_TRY(make_own(m, b));
    }
    own->state = HN_IMEM_LIVE;
    return NULL;
}

static hn_status check_live(const hn_imem *m, hn_wbuf b) {
    if (m->buffers[b].state == HN_IMEM_LIVE || m->buffers[b].state == HN_IMEM_GIVEN) return NULL;
    return HN_ERROR(HN_INTERNAL, "buffer %u %s", b,
                    m->buffers[b].state == HN_IMEM_FREED ? "is freed" : "has no memory");
}

/* The line behind may still read `from`. */
static hn_status reuse(hn_imem *m, const hn_line *line) {
    HN_TRY(check_live(m, line->from));
    HN_TRY(allocate(m, line->buffer));
    if (is_placed(m, line->buffer) &&
        m->buffers[line->buffer].memory.bytes != m->buffers[line->from].memory.bytes)
        return HN_ERROR(HN_INTERNAL, "buffer %u does not lie where buffer %u lies", line->buffer,
                        line->from);
    m->buffers[line->from].state = HN_IMEM_GIVEN;
    return NULL;
}

static hn_status release(hn_imem *m, hn_wbuf b) {
    HN_TRY(check_live(m, b));
    if (m->buffers[b].state == HN_IMEM_GIVEN)
        return HN_ERROR(HN_INTERNAL, "buffer %u is freed, and its memory is another one's", b);
    m->buffers[b].state = HN_IMEM_FREED;
    spoil(m->w->buffers.items[b].dtype, &m->buffers[b].memory);
    return NULL;
}

hn_status hn_imem_line(hn_imem *m, const hn_line *line) {
    if (line->kind == HN_LINE_FREE) return release(m, line->buffer);
    if (line->kind == HN_LINE_REUSE) return reuse(m, line);
    HN_TRY(allocate(m, line->buffer));
    spoil(m->w->buffers.items[line->buffer].dtype, &m->buffers[line->buffer].memory);
    return NULL;
}

/* The slot's memory is made anew, which ends what was in it. */
static hn_status begin_slot(hn_imem *m, hn_wbuf b) {
    hn_line_memory *slot = &m->slots[m->plan->slots[b] - 1], old = *slot;
    int64_t len;
    HN_TRY(size_of(m, b, &len));
    HN_TRY(make(len, slot));
    for (hn_wbuf o = 1; o < m->w->buffers.count; o++)
        if (m->plan->slots[o] == m->plan->slots[b]) m->buffers[o].memory = (hn_line_memory){0};
    free(old.bytes);
    m->buffers[b].memory = *slot;
    return NULL;
}

/* Without lines that say so: a buffer of an earlier round ends when its size is another one. */
static void end_own(hn_imem *m, hn_expr symbol) {
    for (hn_wbuf b = 1; !m->has_lines && b < m->w->buffers.count; b++) {
        hn_imem_buffer *own = &m->buffers[b];
        if (!own->is_own || !m->w->buffers.items[b].bytes ||
            !hn_sym_uses(m->w->sym, m->w->buffers.items[b].bytes, symbol))
            continue;
        free(own->memory.bytes);
        *own = (hn_imem_buffer){.state = HN_IMEM_NONE};
    }
}

hn_status hn_imem_defined(hn_imem *m, hn_expr symbol) {
    end_own(m, symbol);
    for (hn_wbuf b = 1; m->plan && b < m->w->buffers.count; b++) {
        const hn_wbuffer *buffer = &m->w->buffers.items[b];
        int64_t len;
        if (!m->plan->slots[b] || !hn_sym_uses(m->w->sym, buffer->bytes, symbol) ||
            !hn_sym_eval(m->w->sym, buffer->bytes, m->at->symbols.items, m->at->values.items,
                         m->at->symbols.count, &len))
            continue;
        HN_TRY(begin_slot(m, b));
    }
    return NULL;
}

hn_status hn_imem_get(hn_imem *m, hn_wbuf at, hn_line_memory *out) {
    const hn_wbuf b = hn_wrapper_root(m->w, at);
    *out = (hn_line_memory){0};
    if (!b) return NULL;
    if (m->buffers[b].state == HN_IMEM_NONE && !m->has_lines) {
        HN_TRY(allocate(m, b)); /* zeros */
        if (!m->w->buffers.items[b].zeroed)
            spoil(m->w->buffers.items[b].dtype, &m->buffers[b].memory);
    }
    HN_TRY(check_live(m, b));
    *out = m->buffers[b].memory;
    return NULL;
}

/* ---- the end ---- */

static bool is_kept(const hn_wrapper *w, hn_wbuf b) {
    for (uint32_t k = 0; k < w->outputs.count; k++)
        if (hn_wrapper_root(w, w->outputs.items[k].buffer) == b) return true;
    for (uint32_t i = 0; i < w->lines.count; i++)
        if (w->lines.items[i].kind == HN_LINE_COPY &&
            (w->lines.items[i].buffer == b || w->lines.items[i].from == b))
            return true;
    return false;
}

hn_status hn_imem_check_freed(const hn_imem *m) {
    for (hn_wbuf b = 1; m->has_lines && b < m->w->buffers.count; b++)
        if (hn_wbuf_is_inner(m->w->buffers.items[b].kind) &&
            m->w->buffers.items[b].zeroed != HN_WZEROED_ONCE &&
            m->buffers[b].state == HN_IMEM_LIVE && !is_kept(m->w, b))
            return HN_ERROR(HN_INTERNAL, "buffer %u is never freed", b);
    return NULL;
}
