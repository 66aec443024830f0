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

/* Takes a line of 64 bytes out of all caches. Without such an instruction it stays. */
#if defined(__x86_64__)
#define HN_EVICT_LINE(at) __builtin_ia32_clflush(at)
#elif defined(__aarch64__)
#define HN_EVICT_LINE(at) __asm__ volatile("dc civac, %0" : : "r"(at) : "memory")
#else
#define HN_EVICT_LINE(at) ((void)(at))
#endif

#endif
