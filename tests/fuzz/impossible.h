/* impossible.h: what the text targets leave out. */
#ifndef HN_FUZZ_IMPOSSIBLE_H
#define HN_FUZZ_IMPOSSIBLE_H

#include "henry/status.h"

#include <stdbool.h>
#include <string.h>

/* Whether a text was refused because no sizes satisfy all its guards. A guard simplifies with the
 * facts that stand before it, so this may show only when the text is printed and read again, with
 * all ranges at its beginning: that is no fault of the text form. */
static inline bool hn_fuzz_is_impossible(const hn_status status) {
    const char *message = status ? hn_status_message(status) : "";
    return strstr(message, "the guards contradict each other") ||
           strstr(message, "divide a symbolic expression by zero") ||
           strstr(message, "a guard divides by 0");
}

#endif
