/* copy.h: copying strided elements. Internal to src/runtime. */
#ifndef HN_RUNTIME_COPY_H
#define HN_RUNTIME_COPY_H

#include <stddef.h>
#include <stdint.h>

/* Row-major strides of `sizes`, in elements. */
void hn_packed_strides(const int64_t *sizes, uint32_t rank, int64_t *out_strides);
/* Copies every element of a `rank`-dimensional block; strides in elements. The two blocks must not
 * overlap. */
void hn_copy_strided(void *to, const int64_t *to_strides, const void *from,
                     const int64_t *from_strides, const int64_t *sizes, uint32_t rank,
                     size_t elem_bytes);

#endif
