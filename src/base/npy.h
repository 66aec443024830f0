/* npy.h: NumPy's .npy files. base knows nothing of tensors, so element types are the file's own
 * descr strings ("<f4"); callers map them to dtypes.
 *
 * Read: versions 1.0, 2.0 and 3.0, little endian, row-major and Fortran order. Written: version
 * 1.0, row-major. Threads: safe; no state. */
#ifndef HN_BASE_NPY_H
#define HN_BASE_NPY_H

#include "henry/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HN_NPY_MAX_RANK 32

typedef struct hn_npy {
    /* normal form, static: "<f8" "<f4" "<f2" "<i8" "<i4" "<i2" "|i1" "|u1" "|b1" */
    const char *descr;
    uint32_t rank;
    int64_t sizes[HN_NPY_MAX_RANK];
    int64_t strides[HN_NPY_MAX_RANK]; /* elements; those of Fortran order when the file says so */
    bool fortran_order;
    size_t elem_bytes;
    size_t numel;
    const uint8_t *data; /* borrowed from the span, numel * elem_bytes; may be unaligned */
} hn_npy;

/* Bytes of an element; 0 when `descr` (in its normal form) is not one of the above. */
size_t hn_npy_elem_bytes(const char *descr);

/* Looks at a whole file in memory. `out->data` points into `bytes`.
 * Errors: corrupt for what is not an .npy file or is cut short, unsupported for element types and
 * byte orders that Henry lacks, saying how to convert. */
hn_status hn_npy_parse(const void *bytes, size_t len, hn_npy *out) HN_MUST_USE;

/* Copies the elements in row-major order to `out_bytes` (numel * elem_bytes). */
void hn_npy_copy(const hn_npy *npy, void *out_bytes);

/* Writes a version 1.0 file of row-major elements, atomically (see hn_file_write_atomic).
 * Errors: invalid-argument for an unknown descr, a negative size or a rank above the limit; io. */
hn_status hn_npy_write(const char *path, const char *descr, uint32_t rank, const int64_t *sizes,
                       const void *data) HN_MUST_USE;

#endif
