/* segments.c: see segments.h. */
#include "kernel/segments.h"

/* The buffer of a segment that stands in the place of one of the kernel's. */
static hn_buf buffer_in(const hn_kernel *kernel, const hn_kernel_segment *segment, hn_buf b) {
    for (uint32_t k = 0; k < kernel->segment_buffer_count; k++)
        if (kernel->segment_buffers[k] == b) return segment->buffers[k];
    return 0; /* the verifier refuses it */
}

hn_status hn_form_set_segments(hn_form *f, const hn_kernel *kernel) {
    hn_buf *buffers;
    HN_NEW(f->arena, buffers, f->memories.count);
    f->segment_length = kernel->segment_length;
    for (uint32_t s = 0; s < kernel->segments.count; s++) {
        const hn_kernel_segment *segment = &kernel->segments.items[s];
        uint32_t count = 0;
        for (hn_fmem m = 1; m < f->memories.count; m++) {
            const hn_form_memory *memory = &f->memories.items[m];
            if (memory->space == HN_SPACE_ARGUMENT)
                buffers[count++] = buffer_in(kernel, segment, memory->buffer);
        }
        hn_form_segment_add(f, buffers, kernel->segment_length ? segment->length : 0);
    }
    return NULL;
}
