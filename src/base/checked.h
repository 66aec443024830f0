/* checked.h: integer arithmetic that reports overflow: each function returns false and leaves *out.
 * And addresses. */
#ifndef HN_BASE_CHECKED_H
#define HN_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool hn_add_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t result;
    return !__builtin_add_overflow(a, b, &result) && (*out = result, true);
}
static inline bool hn_sub_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t result;
    return !__builtin_sub_overflow(a, b, &result) && (*out = result, true);
}
static inline bool hn_mul_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t result;
    return !__builtin_mul_overflow(a, b, &result) && (*out = result, true);
}
static inline bool hn_add_size(size_t a, size_t b, size_t *out) {
    size_t result;
    return !__builtin_add_overflow(a, b, &result) && (*out = result, true);
}
static inline bool hn_mul_size(size_t a, size_t b, size_t *out) {
    size_t result;
    return !__builtin_mul_overflow(a, b, &result) && (*out = result, true);
}

/* `memory + offset` in bytes, also where there is no memory: C does not define NULL + 0. */
static inline uint8_t *hn_address(const void *memory, int64_t offset_bytes) {
    return (uint8_t *)((uintptr_t)memory + (uint64_t)offset_bytes);
}

/* Python's // and %. `b` must not be 0. INT64_MIN // -1, which does not fit, wraps to INT64_MIN:
 * the division instruction would kill the process; where it matters, ask hn_floor_div_i64. */
static inline int64_t hn_floor_div(int64_t a, int64_t b) {
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static inline int64_t hn_floor_mod(int64_t a, int64_t b) {
    if (b == -1) return 0;
    int64_t r = a % b;
    return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
/* False also when `b` is 0. */
static inline bool hn_floor_div_i64(int64_t a, int64_t b, int64_t *out) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
    *out = hn_floor_div(a, b);
    return true;
}

/* The greatest common divisor, of 0 and 0 it is 0. */
static inline int64_t hn_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    /* 2^63 has no int64_t; half of it divides whatever it divides. */
    return x > (uint64_t)INT64_MAX ? INT64_C(1) << 62 : (int64_t)x;
}

/* Rounds up to a multiple. `align` must not be 0, `value + align` must fit. */
static inline size_t hn_align_up(size_t value, size_t align) {
    return (value + align - 1) / align * align;
}

#endif
