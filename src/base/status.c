/* status.c: error objects. One allocation holds the object, the file name and the message, so that
 * an error outlives the library or the worker message that made it. */
#include "henry/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hn_status_s {
    hn_code code;
    int line;
    const char *file;    /* in `storage` */
    const char *message; /* in `storage` */
    char storage[];
};

/* Returned when there is no memory to describe an error: never written to, never freed. */
static const struct hn_status_s oom_status = {
    .code = HN_OUT_OF_MEMORY,
    .line = __LINE__,
    .file = __FILE__,
    .message = "out of memory",
};

static const char *const code_names[] = {
    [HN_OK] = "ok",
    [HN_INVALID_ARGUMENT] = "invalid-argument",
    [HN_UNSUPPORTED] = "unsupported",
    [HN_NOT_FOUND] = "not-found",
    [HN_OUT_OF_MEMORY] = "out-of-memory",
    [HN_IO] = "io",
    [HN_CORRUPT] = "corrupt",
    [HN_INCOMPATIBLE] = "incompatible",
    [HN_DEVICE] = "device",
    [HN_TOOLCHAIN] = "toolchain",
    [HN_TIMEOUT] = "timeout",
    [HN_CANCELLED] = "cancelled",
    [HN_INTERNAL] = "internal",
};
_Static_assert(sizeof(code_names) / sizeof(code_names[0]) == HN_CODE_COUNT,
               "one name for each code");

static hn_status oom(void) { return (hn_status)&oom_status; }

/* `fmt` and `args`, followed by `tail`, in a new object; NULL without memory. */
static hn_status build(hn_code code, const char *file, int line, const char *tail, const char *fmt,
                       va_list args) HN_PRINTF(5, 0);
static hn_status build(hn_code code, const char *file, int line, const char *tail, const char *fmt,
                       va_list args) {
    va_list measured;
    va_copy(measured, args);
    int text_len = vsnprintf(NULL, 0, fmt, measured);
    va_end(measured);
    static const char unprintable[] = "(unprintable message)";
    size_t head_bytes = text_len < 0 ? sizeof(unprintable) - 1 : (size_t)text_len;
    size_t tail_bytes = strlen(tail) + 1, file_bytes = strlen(file) + 1;
    hn_status status = malloc(sizeof(*status) + head_bytes + tail_bytes + file_bytes);
    if (!status) return NULL;
    char *message = status->storage, *where = message + head_bytes + tail_bytes;
    if (text_len < 0) memcpy(message, unprintable, head_bytes);
    else vsnprintf(message, head_bytes + 1, fmt, args);
    memcpy(message + head_bytes, tail, tail_bytes);
    memcpy(where, file, file_bytes);
    status->code = code;
    status->line = line;
    status->file = where;
    status->message = message;
    return status;
}

hn_code hn_status_code(hn_status status) { return status ? status->code : HN_OK; }

const char *hn_code_name(hn_code code) {
    return (unsigned)code < HN_CODE_COUNT ? code_names[code] : "unknown";
}

const char *hn_status_message(hn_status status) { return status ? status->message : ""; }

const char *hn_status_where(hn_status status, int *out_line) {
    if (out_line) *out_line = status ? status->line : 0;
    return status ? status->file : "";
}

void hn_status_free(hn_status status) {
    if (status != oom()) free(status);
}

hn_status hn_status_make(hn_code code, const char *file, int line, const char *fmt, ...) {
    /* A code read from a worker's message may be anything; an error must never read as ok. */
    if (code <= HN_OK || code >= HN_CODE_COUNT) code = HN_INTERNAL;
    va_list args;
    va_start(args, fmt);
    hn_status status = build(code, file ? file : "", line, "", fmt, args);
    va_end(args);
    return status ? status : oom();
}

hn_status hn_status_annotate(hn_status status, const char *fmt, ...) {
    if (!status) return NULL;
    size_t tail_bytes = strlen(status->message) + 3;
    char *tail = malloc(tail_bytes);
    if (!tail) return status;
    snprintf(tail, tail_bytes, ": %s", status->message);
    va_list args;
    va_start(args, fmt);
    hn_status longer = build(status->code, status->file, status->line, tail, fmt, args);
    va_end(args);
    free(tail);
    if (!longer) return status; /* the error itself matters more than its context */
    hn_status_free(status);
    return longer;
}
