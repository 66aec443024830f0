/* text.h: words of the text form, one list for printing and for reading; internal to src/kernel. */
#ifndef HN_KERNEL_TEXT_H
#define HN_KERNEL_TEXT_H

#include "kernel/form.h"

/* Indexed by hn_space. */
extern const char *const hn_space_names[];

/* Indexed by hn_form_rest; the first one has none. */
extern const char *const hn_rest_names[];

/* What may stand behind a value or a store. */
typedef struct hn_attribute {
    const char *name;
    hn_form_kind kind;
    size_t offset; /* of its bool in hn_form_stmt */
} hn_attribute;
enum { HN_ATTRIBUTE_COUNT = 8 };
extern const hn_attribute hn_attributes[HN_ATTRIBUTE_COUNT];

#endif
