/* oserror.c: errno to status. */
#include "base/oserror.h"

#include "base/str.h"

#include <errno.h>
#include <stdarg.h>

static hn_code code_of(int err) {
    switch (err) {
    case ENOENT:
    case ENOTDIR: return HN_NOT_FOUND;
    case ENOMEM: return HN_OUT_OF_MEMORY;
    default: return HN_IO;
    }
}

hn_status hn_os_error_make(int err, const char *file, int line, const char *fmt, ...) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    va_list args;
    va_start(args, fmt);
    hn_strbuf_vprintf(&text, fmt, args);
    va_end(args);
    char scratch[128];
    const char *reason = strerror_r(err, scratch, sizeof(scratch));
    hn_status status = text.failed
                           ? hn_status_make(code_of(err), file, line, "%s", reason)
                           : hn_status_make(code_of(err), file, line, "%s: %s", text.ptr, reason);
    hn_strbuf_deinit(&text);
    return status;
}
