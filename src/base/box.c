/* box.c: see box.h. */
#include "base/box.h"

#include <string.h>

/* ---- reach ---- */

static bool add_span(uint64_t *end, uint64_t size, uint64_t stride) {
    uint64_t span;
    return !__builtin_mul_overflow(size - 1, stride, &span) &&
           !__builtin_add_overflow(*end, span, end);
}

bool hn_box_reach(const hn_box *box, uint64_t *out_from_end, uint64_t *out_to_end,
                  uint64_t *out_bytes) {
    if (!box->run_bytes || box->rank > HN_BOX_MAX_RANK ||
        __builtin_add_overflow(box->from, box->run_bytes, out_from_end) ||
        __builtin_add_overflow(box->to, box->run_bytes, out_to_end))
        return false;
    *out_bytes = box->run_bytes;
    for (uint32_t d = 0; d < box->rank; d++) {
        const hn_box_dim *dim = &box->dims[d];
        if (!dim->size || !add_span(out_from_end, dim->size, dim->from_stride) ||
            !add_span(out_to_end, dim->size, dim->to_stride) ||
            __builtin_mul_overflow(*out_bytes, dim->size, out_bytes))
            return false;
    }
    return true;
}

/* ---- copies ---- */

/* Shorter runs are read faster from a map of a file than by a call. */
enum { READ_LEAST = 16 << 10 };

typedef struct copier {
    const hn_box *box;
    const uint8_t *from;
    uint8_t *to;
    uint64_t begin, end; /* of the part, on the side of the target */
    const hn_box_reader *reader;
    /* from the first byte of one element of a dimension to one past the last, on the same side */
    uint64_t extents[HN_BOX_MAX_RANK + 1];
} copier;

static void copy_run(const copier *c, uint64_t from, uint64_t to, uint64_t bytes) {
    if (to < c->begin) {
        const uint64_t cut = c->begin - to;
        if (cut >= bytes) return;
        from += cut, to += cut, bytes -= cut;
    }
    if (to >= c->end) return;
    if (bytes > c->end - to) bytes = c->end - to;
    uint8_t *at = c->to + (to - c->begin);
    if (c->reader && bytes >= READ_LEAST)
        c->reader->read(c->reader->user, at, c->from + from, (size_t)bytes);
    else memcpy(at, c->from + from, (size_t)bytes);
}

#define COPY_NUMBERS(type)                                                                         \
    for (uint64_t k = 0; k < count; k++) {                                                         \
        type number;                                                                               \
        memcpy(&number, from + k * from_stride, sizeof number);                                    \
        memcpy(to + k * to_stride, &number, sizeof number);                                        \
    }                                                                                              \
    return true

/* Runs that are numbers, all of them inside the part. */
static bool copy_numbers(const uint8_t *from, uint8_t *to, uint64_t count, uint64_t from_stride,
                         uint64_t to_stride, uint64_t bytes) {
    switch (bytes) {
    case 1: COPY_NUMBERS(uint8_t);
    case 2: COPY_NUMBERS(uint16_t);
    case 4: COPY_NUMBERS(uint32_t);
    case 8: COPY_NUMBERS(uint64_t);
    default: return false;
    }
}

/* The elements [*first, *behind) of a dimension that lie in the part, or reach into it. */
static void clip(const copier *c, uint32_t d, uint64_t to, uint64_t *first, uint64_t *behind) {
    const hn_box_dim *dim = &c->box->dims[d];
    const uint64_t extent = c->extents[d + 1], stride = dim->to_stride;
    *first = 0, *behind = dim->size;
    if (to >= c->end || (!stride && to + extent <= c->begin)) *behind = 0;
    if (!stride || !*behind) return;
    if (to + extent <= c->begin) *first = (c->begin - to - extent) / stride + 1;
    const uint64_t inside = (c->end - to - 1) / stride + 1;
    if (inside < *behind) *behind = inside;
}

static void copy_dim(const copier *c, uint32_t d, uint64_t from, uint64_t to) {
    const hn_box *box = c->box;
    uint64_t first, behind;
    if (d == box->rank) {
        copy_run(c, from, to, box->run_bytes);
        return;
    }
    const hn_box_dim *dim = &box->dims[d];
    clip(c, d, to, &first, &behind);
    if (first >= behind) return;
    from += first * dim->from_stride, to += first * dim->to_stride;
    const uint64_t count = behind - first, last = to + (count - 1) * dim->to_stride;
    if (d + 1 == box->rank && to >= c->begin && last + box->run_bytes <= c->end &&
        copy_numbers(c->from + from, c->to + (to - c->begin), count, dim->from_stride,
                     dim->to_stride, box->run_bytes))
        return;
    for (uint64_t k = 0; k < count; k++)
        copy_dim(c, d + 1, from + k * dim->from_stride, to + k * dim->to_stride);
}

void hn_box_copy(const hn_box *box, const void *from, uint64_t begin, size_t bytes, void *to,
                 const hn_box_reader *reader) {
    copier c = {
        .box = box, .from = from, .to = to, .begin = begin, .end = begin + bytes, .reader = reader};
    if (!bytes) return;
    c.extents[box->rank] = box->run_bytes;
    for (uint32_t d = box->rank; d-- > 0;)
        c.extents[d] = c.extents[d + 1] + (box->dims[d].size - 1) * box->dims[d].to_stride;
    copy_dim(&c, 0, box->from, box->to);
}

/* ---- simpler boxes ---- */

static uint32_t drop_and_order(hn_box_dim *dims, uint32_t rank) {
    uint32_t kept = 0;
    for (uint32_t d = 0; d < rank; d++) {
        const hn_box_dim dim = dims[d];
        uint32_t k = kept;
        if (dim.size == 1) continue;
        for (; k > 0 && dims[k - 1].to_stride < dim.to_stride; k--) dims[k] = dims[k - 1];
        dims[k] = dim;
        kept++;
    }
    return kept;
}

static bool follows(const hn_box_dim *outer, const hn_box_dim *inner) {
    return outer->from_stride == inner->size * inner->from_stride &&
           outer->to_stride == inner->size * inner->to_stride;
}

void hn_box_simplify(hn_box_dim *dims, uint32_t *rank, uint64_t *run_bytes) {
    const uint32_t count = drop_and_order(dims, *rank);
    uint32_t kept = 0;
    for (uint32_t d = 0; d < count; d++) {
        hn_box_dim *outer = kept ? &dims[kept - 1] : NULL;
        if (outer && follows(outer, &dims[d]))
            *outer =
                (hn_box_dim){outer->size * dims[d].size, dims[d].from_stride, dims[d].to_stride};
        else dims[kept++] = dims[d];
    }
    if (kept && dims[kept - 1].from_stride == *run_bytes &&
        dims[kept - 1].to_stride == *run_bytes) {
        kept--;
        *run_bytes *= dims[kept].size;
    }
    *rank = kept;
}
