/* plan_print.h: a memory plan for people and tools. */
#ifndef HN_WRAPPER_PLAN_PRINT_H
#define HN_WRAPPER_PLAN_PRINT_H

#include "wrapper/wrapper.h"

typedef enum hn_memory_plan_form {
    HN_MEMORY_PLAN_SVG,
    HN_MEMORY_PLAN_JSON,
    HN_MEMORY_PLAN_TEXT /* comments to stand in front of the program's text: sizes as expressions */
} hn_memory_plan_form;

/* Of a planned wrapper, at the hints of its sizes. "pool N bytes, lower bound N bytes, ratio R"
 * stands in it once: in a comment of the picture or the text, as the field "summary" of the
 * JSON. */
hn_status hn_memory_plan_print(const hn_wrapper *w, const hn_memory_plan *plan,
                               hn_memory_plan_form form, hn_strbuf *out) HN_MUST_USE;

#endif
