/* python.h: the binding that makes a Python module of C++ functions. Not for other folders. */
#ifndef HN_TOOLCHAIN_PYTHON_H
#define HN_TOOLCHAIN_PYTHON_H

#include "base/str.h"
#include "henry/status.h"

/* Appends the C++ text of the module to the user's text in `out`. `signatures`: a list of "[nogil]
 * RESULT NAME(TYPE, ...)". `has_headers`: the text includes headers, so it may throw standard
 * exceptions.
 * Errors: invalid-argument, telling what is wrong with a signature. */
hn_status hn_python_binding(const char *module, hn_str signatures, bool has_headers,
                            hn_strbuf *out) HN_MUST_USE;

#endif
