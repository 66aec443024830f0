/* text.h: words of the text form, one list for printing and for reading; internal to src/kernel. */
#ifndef HN_KERNEL_TEXT_H
#define HN_KERNEL_TEXT_H

#include "ir/lex.h"
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

/* segments_text.c: of the header; and a line for each segment. */
void hn_form_print_length(const hn_form *f, hn_strbuf *out);
void hn_form_print_segments(const hn_form *f, hn_strbuf *out);
/* `*out` is 0 when there is none. */
hn_status hn_form_read_length(hn_lex *lex, hn_sym *sym, hn_expr *out) HN_MUST_USE;
/* Behind the memories. */
hn_status hn_form_read_segments(hn_lex *lex, hn_form *f) HN_MUST_USE;

#endif
