/* donate.h: inputs whose memory the caller may give up. Internal to src/wrapper and the driver. */
#ifndef HN_WRAPPER_DONATE_H
#define HN_WRAPPER_DONATE_H

#include "wrapper/lifetime.h"

/* Whether buffer `b` is that of a donated input. */
bool hn_wrapper_is_donated(const hn_wrapper *w, hn_wbuf b);
/* The bytes of an input whose elements lie one behind the other; 0 id: they do not. */
hn_expr hn_wrapper_input_bytes(const hn_wrapper *w, hn_wbuf b);
/* The last line behind which an input is not read. */
uint32_t hn_wrapper_input_end(const hn_wlives *lives, hn_wbuf input);
/* Why the memory of an input cannot be given up; NULL: it can. */
const char *hn_wrapper_donate_objection(const hn_wrapper *w, uint32_t input);
/* Marks an input as donated. Errors: unsupported, saying why it cannot be one. */
hn_status hn_wrapper_donate(hn_wrapper *w, uint32_t input) HN_MUST_USE;

#endif
