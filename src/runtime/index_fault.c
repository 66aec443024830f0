/* index_fault.c: looks through the indices of a kernel for one that is out of bounds. See
 * index_fault.h.
 *
 * All of the buffer is looked at, also where the kernel reads a part of it. What is found there
 * would be blamed although another value was at fault; both are out of bounds, and no other index
 * is. */
#include "runtime/index_fault.h"

#include "base/checked.h"

static bool is_integer(uint32_t type) {
    return type == HN_I64 || type == HN_I32 || type == HN_I16 || type == HN_I8 || type == HN_U8 ||
           type == HN_BOOL;
}

/* The address that the kernel was given for an operand of the step: another target or variant may
 * take them in another order, or not at all. */
static const uint8_t *address_of(const hn_module *m, const hn_run_step *s,
                                 const hnb_operand *operand) {
    const hnb_operand *given = &m->view.operands[s->called->operands];
    for (uint32_t k = 0; k < s->arg_count; k++)
        if (given[k].buffer == operand->buffer && given[k].offset == operand->offset)
            return s->args[k];
    return NULL;
}

static bool value_of(const hn_bound *bound, uint32_t node, int64_t *out) {
    *out = bound->bad[node] ? 0 : bound->values[node];
    return !bound->bad[node];
}

/* Elements from the operand's address to the end of its buffer; 0 when that is not known. */
static int64_t count_of(const hn_module *m, const hn_bound *bound, const hnb_operand *operand) {
    const hnb_buffer *buffer = &m->view.buffers[operand->buffer];
    int64_t bytes = 0, offset = 0, elem = hn_bundle_dtype_bytes(operand->dtype);
    if (buffer->kind == HNB_BUFFER_INPUT) bytes = bound->input_bytes[buffer->source];
    else if (!buffer->bytes || !value_of(bound, buffer->bytes, &bytes)) return 0;
    if (operand->offset && !value_of(bound, operand->offset, &offset)) return 0;
    return elem > 0 ? bytes / elem - offset : 0;
}

static const char *input_of(const hn_module *m, const hnb_operand *operand) {
    const hnb_buffer *buffer = &m->view.buffers[operand->buffer];
    return buffer->kind == HNB_BUFFER_INPUT
               ? hn_bundle_text(&m->view, m->view.inputs[buffer->source].name)
               : "";
}

/* Whether one of `count` numbers is out of bounds. */
static bool search_some(const uint8_t *at, int64_t count, uint32_t type, hn_index_fault *out) {
    for (int64_t k = 0; k < count && !out->is_found; k++) {
        out->value = hn_number_read(at + (size_t)k * hn_bundle_dtype_bytes(type), type);
        out->is_found = out->value < out->lo || out->value > out->hi;
    }
    return out->is_found;
}

/* The steps [*first, *end) of the outermost loop around a step; as they were, if there is none. */
static void widen_to_loop(const hn_module *m, const hn_context *c, uint32_t step, uint32_t *first,
                          uint32_t *end) {
    for (uint32_t k = 0; k <= step;) {
        const uint32_t behind = k + 1 + c->bounds[0]->steps[k].body_count;
        if (step < behind && m->view.steps[k].kind == HNB_STEP_LOOP) {
            *first = k;
            if (behind > *end) *end = behind;
            return;
        }
        k = step < behind ? k + 1 : behind;
    }
}

/* Whether a step behind `s` may have written to memory: a device tells of the fault when it has
 * done more, and temporaries take turns in one workspace. In a loop every step of it may have been
 * done since, unless `s` is the last that was. */
static bool is_overwritten(const hn_module *m, const hn_context *c, const hn_run_step *s,
                           uint32_t until, const uint8_t *at, int64_t bytes) {
    uint32_t first = s->index + 1;
    if (until != s->index) widen_to_loop(m, c, s->index, &first, &until);
    for (uint32_t k = first; k < until; k++) {
        const hn_run_step *later = &c->bounds[0]->steps[k];
        for (uint32_t arg = 0;
             later->kind != HNB_STEP_NONE && arg < hn_bound_arg_count(m, c->bounds[0], k); arg++) {
            hn_bound_buffer b;
            if (!hn_bound_arg_get(m, c->bounds[0], k, arg, &b) || !b.is_written) continue;
            const uint8_t *begin = hn_address(later->args[arg], -b.offset_bytes);
            if (begin < at + bytes && at < begin + b.bytes) return true;
        }
    }
    return false;
}

/* Piece by piece: the memory may be a device's. */
static void search(const hn_module *m, const hn_context *c, const hn_run_step *s,
                   const hnb_operand *operand, uint32_t until, hn_index_fault *out) {
    enum { PIECE = 512 };
    uint64_t piece[PIECE];
    const uint8_t *at = address_of(m, s, operand);
    const int64_t count = count_of(m, c->bounds[0], operand),
                  elem = hn_bundle_dtype_bytes(operand->dtype);
    if (!at || is_overwritten(m, c, s, until, at, count * elem)) return;
    for (int64_t k = 0; k < count; k += PIECE) {
        const int64_t some = count - k < PIECE ? count - k : PIECE;
        hn_status status = m->device->ops->read(c->places[HN_PLACE_KERNELS].queue, piece,
                                                at + k * elem, (size_t)(some * elem));
        const bool is_read = !status;
        hn_status_free(status);
        if (!is_read || search_some((const uint8_t *)piece, some, operand->dtype, out)) break;
    }
    if (out->is_found) out->input = input_of(m, operand);
}

bool hn_index_fault_find(const hn_module *m, const hn_context *c, const hn_run_step *s, uint32_t at,
                         uint32_t until, hn_index_fault *out) {
    const hnb_step *step = &m->view.steps[s->index];
    const uint32_t *params = &m->view.params[step->params + at];
    const hn_bound *bound = c->bounds[0];
    int64_t operand, extent, wraps, origin;
    *out = (hn_index_fault){.input = ""};
    if (!value_of(bound, params[0], &operand) || !value_of(bound, params[1], &extent) ||
        !value_of(bound, params[2], &wraps) || !value_of(bound, params[3], &origin) || origin < 0 ||
        origin >= m->view.origins_count || extent < 0)
        return false;
    out->origin = (uint32_t)origin;
    out->lo = wraps ? -extent : 0;
    out->hi = extent - 1;
    if (operand >= 0 && operand < step->operand_count) {
        const hnb_operand *o = &m->view.operands[step->operands + (uint32_t)operand];
        if (o->buffer && is_integer(o->dtype)) search(m, c, s, o, until, out);
    }
    return out->is_found || step->param_count == HNB_CHECK_PARAMS;
}
