/* prelude.h: the functions that a unit must define before its kernels: those that they call, and
 * those that these call. */
#ifndef HN_CODEGEN_PRELUDE_H
#define HN_CODEGEN_PRELUDE_H

#include "base/str.h"

/* A function of a language's prelude. */
typedef struct hn_snippet {
    const char *name, *text;
} hn_snippet;

typedef struct hn_snippet_source {
    /* its number from 0; -1: no function of the prelude */
    int (*find)(const char *name, size_t len);
    void (*expand)(int number, hn_strbuf *out);
} hn_snippet_source;

/* Appends the functions that `text` calls, each after those that it calls itself. `done`: a zero
 * for each number. */
void hn_prelude_put(hn_str text, const hn_snippet_source *source, uint8_t *done, hn_strbuf *out);

#endif
