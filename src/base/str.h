/* str.h: borrowed strings and a growing text buffer. */
#ifndef HN_BASE_STR_H
#define HN_BASE_STR_H

#include "henry/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A borrowed byte string; not NUL-terminated unless its owner says so. */
typedef struct hn_str {
    const char *ptr;
    size_t len;
} hn_str;

#define HN_STR(literal) ((hn_str){(literal), sizeof(literal) - 1})
#define HN_STR_FMT      "%.*s"
#define HN_STR_ARG(s)   (int)(s).len, (s).ptr

static inline hn_str hn_str_of(const char *text) { return (hn_str){text, text ? strlen(text) : 0}; }
static inline bool hn_str_eq(hn_str a, hn_str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
bool hn_str_starts_with(hn_str text, hn_str prefix);
/* Whether the whole text is as the pattern says: '*' is any bytes, '?' one. */
bool hn_str_matches(hn_str pattern, hn_str text);

/* A heap buffer of text that grows. It latches: after a failed allocation appends do nothing and
 * hn_strbuf_status reports it. Always NUL-terminated once anything was appended. */
typedef struct hn_strbuf {
    char *ptr; /* owned; NULL while empty */
    size_t len, cap;
    bool failed;
} hn_strbuf;

void hn_strbuf_init(hn_strbuf *buf);
void hn_strbuf_deinit(hn_strbuf *buf);
void hn_strbuf_reset(hn_strbuf *buf); /* empty, keeps storage */
void hn_strbuf_append(hn_strbuf *buf, const char *bytes, size_t len);
void hn_strbuf_puts(hn_strbuf *buf, const char *text);
void hn_strbuf_putc(hn_strbuf *buf, char c);
void hn_strbuf_printf(hn_strbuf *buf, const char *fmt, ...) HN_PRINTF(2, 3);
void hn_strbuf_vprintf(hn_strbuf *buf, const char *fmt, va_list args) HN_PRINTF(2, 0);
/* Room for `more` bytes and a NUL after the text; whoever fills it adds to `len` and writes the
 * NUL. NULL, and latched, without memory. */
char *hn_strbuf_reserve(hn_strbuf *buf, size_t more);
void hn_strbuf_i64(hn_strbuf *buf, int64_t value); /* decimal; much faster than printf */
/* "…" with JSON escapes; a byte that is not UTF-8 becomes \ufffd. */
void hn_strbuf_json(hn_strbuf *buf, hn_str text);
/* Appends text from outside so that it steers no terminal and is UTF-8: control characters and
 * bytes that are not UTF-8 become \xNN. Tabs stay, and line ends too, unless `one_line`: then they
 * become \n. */
void hn_strbuf_clean(hn_strbuf *buf, hn_str text, bool one_line);
/* The length of `text` cut to at most `most` bytes, not within a character. */
size_t hn_str_cut(hn_str text, size_t most);
hn_status hn_strbuf_status(const hn_strbuf *buf) HN_MUST_USE;
static inline hn_str hn_strbuf_str(const hn_strbuf *buf) {
    return (hn_str){buf->ptr ? buf->ptr : "", buf->len};
}

/* A number of bytes as people write it: digits, and perhaps K, M, G or T (KiB, MiB, ... is the
 * same), each 1024 times the one before. Small letters will do. False for anything else, and for
 * more than INT64_MAX. */
bool hn_size_parse(const char *text, int64_t *out_bytes);

#endif
