/* compiler.h: the GNU extensions that Henry uses, in one place. */
#ifndef HN_BASE_COMPILER_H
#define HN_BASE_COMPILER_H

#define HN_UNUSED __attribute__((unused))
#define HN_NOINLINE                                                                                \
    __attribute__((noinline)) /* stays out of a loop that is measured in nanoseconds */
/* The result depends on nothing but the arguments: calls in a loop are made once. */
#define HN_CONST_FN        __attribute__((const))
#define HN_LIKELY(x)       __builtin_expect(!!(x), 1)
#define HN_UNLIKELY(x)     __builtin_expect(!!(x), 0)
#define HN_TYPE_OF(expr)   __typeof__(expr)
#define HN_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
