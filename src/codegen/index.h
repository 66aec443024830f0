/* index.h: integer expressions (sym/sym.h) in languages with C's operators. Operands that may stand
 * in any order stand in that of their text: the order that sums and products have in the context of
 * symbols is that in which their terms were made, and depends on what else was compiled. */
#ifndef HN_CODEGEN_INDEX_H
#define HN_CODEGEN_INDEX_H

#include "base/str.h"
#include "sym/sym.h"

/* What such expressions are made of; they are of 64 bits. */
typedef struct hn_index_words {
    const char *suffix;                     /* of a number that 32 bits cannot hold: "LL" */
    const char *floordiv, *mod, *min, *max; /* functions; the first two as in sym.h */
} hn_index_words;

typedef struct hn_index_printer {
    const hn_sym *sym;
    const hn_index_words *words;
    void (*put_symbol)(void *user, hn_expr symbol, hn_strbuf *out);
    void *user;
} hn_index_printer;

/* Errors: internal, for 0. */
hn_status hn_index_put(const hn_index_printer *printer, hn_expr e, hn_strbuf *out) HN_MUST_USE;

#endif
