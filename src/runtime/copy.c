/* copy.c: strided copies. Dimensions of size 1 are dropped, neighbours that are one run of memory
 * in both blocks are merged, and the dimension with the smallest steps goes innermost, so that most
 * copies end in memcpy. */
#include "runtime/copy.h"

#include "henry/tensor.h"

#include <string.h>

typedef struct dim {
    int64_t size, to, from; /* strides in elements */
} dim;

/* Row loop for one element width: the compiler vectorises it when a stride is 1. */
#define DEFINE_ROW(name, type)                                                                     \
    static void name(type *to, int64_t to_stride, const type *from, int64_t from_stride,           \
                     int64_t n) {                                                                  \
        if (to_stride == 1)                                                                        \
            for (int64_t i = 0; i < n; i++) to[i] = from[i * from_stride];                         \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i * to_stride] = from[i * from_stride];             \
    }
DEFINE_ROW(copy_row_1, uint8_t)
DEFINE_ROW(copy_row_2, uint16_t)
DEFINE_ROW(copy_row_4, uint32_t)
DEFINE_ROW(copy_row_8, uint64_t)

static void copy_row(uint8_t *to, const uint8_t *from, const dim *d, size_t elem_bytes) {
    if (d->to == 1 && d->from == 1) {
        memcpy(to, from, (size_t)d->size * elem_bytes);
        return;
    }
    /* User memory may be unaligned: then bytes are moved one element at a time. */
    bool aligned = ((uintptr_t)to | (uintptr_t)from) % elem_bytes == 0;
    if (elem_bytes == 1) {
        copy_row_1(to, d->to, from, d->from, d->size);
    } else if (aligned && elem_bytes == 2) {
        copy_row_2((uint16_t *)to, d->to, (const uint16_t *)from, d->from, d->size);
    } else if (aligned && elem_bytes == 4) {
        copy_row_4((uint32_t *)to, d->to, (const uint32_t *)from, d->from, d->size);
    } else if (aligned && elem_bytes == 8) {
        copy_row_8((uint64_t *)to, d->to, (const uint64_t *)from, d->from, d->size);
    } else {
        for (int64_t i = 0; i < d->size; i++)
            memcpy(to + i * d->to * (int64_t)elem_bytes, from + i * d->from * (int64_t)elem_bytes,
                   elem_bytes);
    }
}

static uint32_t simplify(dim *dims, const int64_t *to_strides, const int64_t *from_strides,
                         const int64_t *sizes, uint32_t rank) {
    uint32_t n = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] == 1) continue;
        /* Insertion sort, outermost first: by the target's steps, then the source's. */
        dim next = {sizes[d], to_strides[d], from_strides[d]};
        uint32_t k = n++;
        for (; k > 0 && (dims[k - 1].to < next.to ||
                         (dims[k - 1].to == next.to && dims[k - 1].from < next.from));
             k--)
            dims[k] = dims[k - 1];
        dims[k] = next;
    }
    uint32_t out = 0;
    for (uint32_t d = 0; d < n; d++) {
        if (out && dims[out - 1].to == dims[d].to * dims[d].size &&
            dims[out - 1].from == dims[d].from * dims[d].size) {
            dims[out - 1] = (dim){dims[out - 1].size * dims[d].size, dims[d].to, dims[d].from};
        } else {
            dims[out++] = dims[d];
        }
    }
    return out;
}

void hn_packed_strides(const int64_t *sizes, uint32_t rank, int64_t *out_strides) {
    int64_t step = 1;
    for (uint32_t d = rank; d-- > 0; step *= sizes[d]) out_strides[d] = step;
}

void hn_copy_strided(void *to, const int64_t *to_strides, const void *from,
                     const int64_t *from_strides, const int64_t *sizes, uint32_t rank,
                     size_t elem_bytes) {
    dim dims[HN_TENSOR_MAX_RANK];
    int64_t index[HN_TENSOR_MAX_RANK] = {0};
    for (uint32_t d = 0; d < rank; d++)
        if (sizes[d] == 0) return;
    uint32_t n = simplify(dims, to_strides, from_strides, sizes, rank);
    if (!n) {
        memcpy(to, from, elem_bytes);
        return;
    }
    uint8_t *to_at = to;
    const uint8_t *from_at = from;
    for (;;) {
        copy_row(to_at, from_at, &dims[n - 1], elem_bytes);
        int32_t d = (int32_t)n - 2;
        for (; d >= 0; d--) {
            to_at += dims[d].to * (int64_t)elem_bytes;
            from_at += dims[d].from * (int64_t)elem_bytes;
            if (++index[d] < dims[d].size) break;
            to_at -= dims[d].to * dims[d].size * (int64_t)elem_bytes;
            from_at -= dims[d].from * dims[d].size * (int64_t)elem_bytes;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}
