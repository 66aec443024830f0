/* verify_buffers.h: the table of buffers, checked by itself. Internal to src/wrapper. */
#ifndef HN_WRAPPER_VERIFY_BUFFERS_H
#define HN_WRAPPER_VERIFY_BUFFERS_H

#include "wrapper/wrapper.h"

/* Each buffer has a kind, a dtype, a device, memory where its kind needs it, and a tensor that does
 * not provably reach beyond it; one of an input is the input's tensor; a view has a root. Errors:
 * internal. */
hn_status hn_wrapper_buffers_verify(const hn_wrapper *w) HN_MUST_USE;
/* The tensor in `b`, which messages call buffer `i`, does not provably reach beyond its memory. The
 * root of a view is known. Errors: internal. */
hn_status hn_wrapper_shape_verify(const hn_wrapper *w, const hn_wbuffer *b, uint32_t i) HN_MUST_USE;

#endif
