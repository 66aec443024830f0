/* buffers.c: the tensors in the buffers of a program, for the sizes of one bound: checked when the
 * sizes become known, and for whoever looks at the operands of a step. */
#include "runtime/module_impl.h"

#include "base/checked.h"

hn_status hn_extent_bytes(uint32_t rank, const int64_t *sizes, const int64_t *strides,
                          uint32_t elem_bytes, int64_t *out) {
    int64_t last = 1, span;
    *out = 0;
    for (uint32_t d = 0; d < rank; d++)
        if (sizes[d] == 0) return NULL;
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] < 2) continue;
        if (strides[d] < 0 || !hn_mul_i64(sizes[d] - 1, strides[d], &span) ||
            !hn_add_i64(last, span, &last))
            return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor is too large to be addressed");
    }
    if (!hn_mul_i64(last, elem_bytes, out))
        return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor is too large to be addressed");
    return NULL;
}

/* The value of an expression; false: it depends on data that is not there yet, or cannot be
 * computed. */
static bool value_of(const hn_bound *bound, uint32_t node, int64_t *out) {
    *out = bound->values[node];
    return !bound->bad[node];
}

static bool read_bytes(const hn_module *m, const hn_bound *bound, const hnb_buffer *f,
                       int64_t *out) {
    if (f->kind == HNB_BUFFER_INPUT) *out = bound->input_bytes[f->source];
    else if (f->kind == HNB_BUFFER_CONSTANT)
        *out = (int64_t)(m->view.storages[f->source].bytes - f->byte_offset);
    else return value_of(bound, f->bytes, out);
    return true;
}

static bool read_shape(const hn_module *m, const hn_bound *bound, const hnb_buffer *f,
                       hn_bound_buffer *out) {
    const uint32_t *dims = m->view.dims + f->dims;
    for (uint32_t d = 0; d < f->rank; d++) {
        if (!value_of(bound, dims[d], &out->sizes[d]) ||
            !value_of(bound, dims[f->rank + d], &out->strides[d]))
            return false;
        if (out->sizes[d] < 0) out->sizes[d] = 0;
    }
    return true;
}

static bool lies_inside(const hn_bound_buffer *b) {
    int64_t extent;
    hn_status status =
        hn_extent_bytes(b->rank, b->sizes, b->strides, hn_bundle_dtype_bytes(b->dtype), &extent);
    const bool is_inside = !status && extent <= b->bytes;
    hn_status_free(status);
    return is_inside;
}

/* Whether all sizes are known. */
static bool read_buffer(const hn_module *m, const hn_bound *bound, uint32_t buffer,
                        hn_bound_buffer *out) {
    const hnb_buffer *f = &m->view.buffers[buffer];
    *out = (hn_bound_buffer){.buffer = buffer,
                             .name = hn_bundle_text(&m->view, f->name),
                             .kind = (hnb_buffer_kind)f->kind,
                             .device = (hn_device_kind)f->device,
                             .dtype = (hn_scalar_type)f->dtype,
                             .rank = f->rank};
    return read_bytes(m, bound, f, &out->bytes) && read_shape(m, bound, f, out);
}

void hn_bound_buffer_get(const hn_module *m, const hn_bound *bound, uint32_t buffer,
                         hn_bound_buffer *out) {
    out->is_known = read_buffer(m, bound, buffer, out) && lies_inside(out);
}

hn_status hn_bound_buffer_check(const hn_module *m, const hn_bound *bound, uint32_t buffer) {
    hn_bound_buffer b;
    if (!read_buffer(m, bound, buffer, &b) || lies_inside(&b)) return NULL;
    return HN_ERROR(HN_CORRUPT, "the tensor in buffer %u reaches beyond its memory", buffer);
}

uint32_t hn_step_operand_count(const hnb_step *step) {
    return step->kind == HNB_STEP_COPY ? 2 : step->kind == HNB_STEP_ZERO ? 1 : step->operand_count;
}

/* A copy, and a filling with zeros, has no operands: the first argument is where it writes to. */
static hnb_operand own_operand(const hnb_step *step, uint32_t arg) {
    return (hnb_operand){.buffer = arg == 0 ? step->buffer : step->from, .written = arg == 0};
}

hnb_operand hn_step_operand_at(const hn_module *m, const hnb_step *step, uint32_t k) {
    if (k >= hn_step_operand_count(step)) return (hnb_operand){0};
    if (step->kind == HNB_STEP_COPY || step->kind == HNB_STEP_ZERO) return own_operand(step, k);
    return m->view.operands[step->operands + k];
}

uint32_t hn_bound_arg_count(const hn_module *m, const hn_bound *bound, uint32_t step) {
    const hnb_step *s = &m->view.steps[step];
    return s->kind == HNB_STEP_KERNEL ? bound->steps[step].arg_count : hn_step_operand_count(s);
}

hnb_operand hn_bound_operand(const hn_module *m, const hn_bound *bound, uint32_t step,
                             uint32_t arg) {
    const hnb_step *s = &m->view.steps[step];
    if (s->kind != HNB_STEP_KERNEL) return hn_step_operand_at(m, s, arg);
    const hn_run_step *run = &bound->steps[step];
    return arg < run->arg_count ? m->view.operands[run->called->operands + arg] : (hnb_operand){0};
}

bool hn_bound_arg_get(const hn_module *m, const hn_bound *bound, uint32_t step, uint32_t arg,
                      hn_bound_buffer *out) {
    const hnb_operand o = hn_bound_operand(m, bound, step, arg);
    int64_t offset = 0;
    if (!o.buffer) return false;
    hn_bound_buffer_get(m, bound, o.buffer, out);
    out->is_written = o.written;
    /* As bound.c places it: in memory without bytes there is no other place than the beginning. */
    if (o.offset && out->bytes && value_of(bound, o.offset, &offset))
        out->offset_bytes = offset * (int64_t)hn_bundle_dtype_bytes(o.dtype);
    return true;
}
