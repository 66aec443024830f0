/* names.h: words of the text and JSON forms, shared by printers and parser. Internal to
 * src/wrapper. */
#ifndef HN_WRAPPER_NAMES_H
#define HN_WRAPPER_NAMES_H

#include "wrapper/wrapper.h"

/* NULL: there is no such kind. Printers of text and JSON write its number then. */
const char *hn_wline_kind_name(hn_line_kind kind);
extern const char *const hn_wbuf_kind_names[HN_WBUF_KIND_COUNT]; /* by hn_wbuf_kind */
extern const char *const hn_wzeroed_names[HN_WZEROED_COUNT];     /* by hn_wzeroed */
extern const char *const hn_wextern_names[HN_EXTERN_KIND_COUNT]; /* by hn_extern_kind */
extern const char *const hn_wrelation_names[4];                  /* by hn_relation */

/* Distinct size and data symbols in the wrapper and its guards, in order of name. In `arena`. */
hn_status hn_wrapper_symbols(const hn_wrapper *w, hn_arena *arena, hn_expr **out,
                             uint32_t *out_count) HN_MUST_USE;

#endif
