/* henry/status.h: how every fallible Henry function reports.
 *
 * A `hn_status` is a pointer: NULL means ok, anything else is an owned error object that the caller
 * must handle: free it, return it, or annotate and return it. Threads: an error object belongs to
 * one thread at a time; creation is thread-safe. */
#ifndef HENRY_STATUS_H
#define HENRY_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HN_API                      __attribute__((visibility("default")))
#define HN_MUST_USE                 __attribute__((warn_unused_result))
#define HN_PRINTF(fmt_idx, arg_idx) __attribute__((format(printf, fmt_idx, arg_idx)))
#else
#define HN_API
#define HN_MUST_USE
#define HN_PRINTF(fmt_idx, arg_idx)
#endif

typedef struct hn_status_s *hn_status;

typedef enum hn_code {
    HN_OK = 0,
    HN_INVALID_ARGUMENT = 1, /* the caller's value is wrong: file content, option, shape */
    HN_UNSUPPORTED = 2,      /* well-formed, but Henry cannot do it (yet) */
    HN_NOT_FOUND = 3,
    HN_OUT_OF_MEMORY = 4,
    HN_IO = 5,           /* the operating system refused: errno is in the message */
    HN_CORRUPT = 6,      /* stored data does not verify */
    HN_INCOMPATIBLE = 7, /* another version, target or machine */
    HN_DEVICE = 8,
    HN_TOOLCHAIN = 9, /* a compiler failed or is missing */
    HN_TIMEOUT = 10,
    HN_CANCELLED = 11,
    HN_INTERNAL = 12, /* a broken invariant of Henry's own */
    HN_CODE_COUNT
} hn_code;

/* The code of `status`; HN_OK for NULL. */
HN_API hn_code hn_status_code(hn_status status);

/* A short name such as "invalid-argument". Never NULL. */
HN_API const char *hn_code_name(hn_code code);

/* The one-line message, newest annotation first: "cannot load 'm.pt2': record 'x': bad crc".
 * Owns: borrowed, valid until the status is freed. "" for NULL. */
HN_API const char *hn_status_message(hn_status status);

/* Where the error was made. `*out_line` may be NULL. Returns "" for NULL. */
HN_API const char *hn_status_where(hn_status status, int *out_line);

/* Frees an error. NULL is allowed. */
HN_API void hn_status_free(hn_status status);

/* Makes an error. Never returns NULL: without memory it returns a static out-of-memory status. */
HN_API hn_status hn_status_make(hn_code code, const char *file, int line, const char *fmt, ...)
    HN_PRINTF(4, 5) HN_MUST_USE;

/* Puts "<text>: " before the message. NULL stays NULL. Owns: takes and returns `status`. */
HN_API hn_status hn_status_annotate(hn_status status, const char *fmt, ...)
    HN_PRINTF(2, 3) HN_MUST_USE;

#define HN_ERROR(code, ...) hn_status_make((code), __FILE__, __LINE__, __VA_ARGS__)

/* Returns the error of `expr` to the caller, or goes on. */
#define HN_TRY(expr)                                                                               \
    do {                                                                                           \
        hn_status hn_try_status_ = (expr);                                                         \
        if (hn_try_status_) return hn_try_status_;                                                 \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
