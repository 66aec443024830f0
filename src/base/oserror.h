/* oserror.h: the one place where an errno becomes a status. */
#ifndef HN_BASE_OSERROR_H
#define HN_BASE_OSERROR_H

#include "henry/status.h"

/* "<text>: <errno's text>", for example HN_OS_ERROR(errno, "cannot open '%s'", path). The code is
 * not-found for a missing file, out-of-memory for lack of memory, otherwise io. */
#define HN_OS_ERROR(err, ...) hn_os_error_make((err), __FILE__, __LINE__, __VA_ARGS__)

hn_status hn_os_error_make(int err, const char *file, int line, const char *fmt, ...)
    HN_PRINTF(4, 5) HN_MUST_USE;

#endif
