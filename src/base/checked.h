/* checked.h: integer arithmetic that reports overflow. Each returns false and leaves *out on overflow. */
#ifndef HN_BASE_CHECKED_H
#define HN_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool hn_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool hn_sub_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_sub_overflow(a, b, out); }
static inline bool hn_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool hn_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool hn_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

/* Python's // and %, and rounding up to a multiple. `b` must not be 0. */
static inline int64_t hn_floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static inline int64_t hn_floor_mod(int64_t a, int64_t b) {
    int64_t r = a % b;
    return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
static inline size_t hn_align_up(size_t value, size_t align) { return (value + align - 1) / align * align; }

#endif
