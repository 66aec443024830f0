/* str.c: the growing text buffer. */
#include "base/str.h"

#include "base/checked.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>

enum { FIRST_BUFFER_BYTES = 64 };

bool hn_str_starts_with(hn_str text, hn_str prefix) {
    return text.len >= prefix.len &&
           (prefix.len == 0 || memcmp(text.ptr, prefix.ptr, prefix.len) == 0);
}

/* A '*' that fails is tried again one byte further; only the last one needs that. */
bool hn_str_matches(hn_str pattern, hn_str text) {
    size_t p = 0, t = 0, star = SIZE_MAX, again = 0;
    while (t < text.len) {
        const char c = p < pattern.len ? pattern.ptr[p] : 0;
        if (p < pattern.len && c == '*') {
            star = p++;
            again = t;
        } else if (p < pattern.len && (c == '?' || c == text.ptr[t])) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++again;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.ptr[p] == '*') p++;
    return p == pattern.len;
}

void hn_strbuf_init(hn_strbuf *buf) { *buf = (hn_strbuf){0}; }

void hn_strbuf_deinit(hn_strbuf *buf) {
    free(buf->ptr);
    hn_strbuf_init(buf);
}

void hn_strbuf_reset(hn_strbuf *buf) {
    buf->len = 0;
    buf->failed = false;
    if (buf->ptr) buf->ptr[0] = '\0';
}

static char *fail(hn_strbuf *buf) {
    buf->failed = true;
    return NULL;
}

char *hn_strbuf_reserve(hn_strbuf *buf, size_t more) {
    if (buf->failed) return NULL;
    size_t need;
    if (!hn_add_size(buf->len, more, &need) || !hn_add_size(need, 1, &need)) return fail(buf);
    if (need > buf->cap) {
        size_t cap = buf->cap ? buf->cap : FIRST_BUFFER_BYTES;
        if (!hn_mul_size(cap, 2, &cap) || cap < need) cap = need;
        char *grown = realloc(buf->ptr, cap);
        if (!grown) return fail(buf);
        buf->ptr = grown;
        buf->cap = cap;
    }
    return buf->ptr + buf->len;
}

void hn_strbuf_append(hn_strbuf *buf, const char *bytes, size_t len) {
    char *end = hn_strbuf_reserve(buf, len);
    if (!end) return;
    if (len) memcpy(end, bytes, len);
    end[len] = '\0';
    buf->len += len;
}

void hn_strbuf_puts(hn_strbuf *buf, const char *text) { hn_strbuf_append(buf, text, strlen(text)); }

void hn_strbuf_putc(hn_strbuf *buf, char c) { hn_strbuf_append(buf, &c, 1); }

void hn_strbuf_vprintf(hn_strbuf *buf, const char *fmt, va_list args) {
    va_list first;
    va_copy(first, args);
    size_t room = buf->failed ? 0 : buf->cap - buf->len;
    int len = vsnprintf(room ? buf->ptr + buf->len : NULL, room, fmt, first);
    va_end(first);
    if (len >= 0 && (size_t)len < room) {
        buf->len += (size_t)len;
        return;
    }
    char *end = len < 0 ? fail(buf) : hn_strbuf_reserve(buf, (size_t)len);
    if (!end) {
        if (room) buf->ptr[buf->len] = '\0'; /* the first attempt wrote a part of it */
        return;
    }
    vsnprintf(end, (size_t)len + 1, fmt, args);
    buf->len += (size_t)len;
}

void hn_strbuf_printf(hn_strbuf *buf, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    hn_strbuf_vprintf(buf, fmt, args);
    va_end(args);
}

void hn_strbuf_i64(hn_strbuf *buf, int64_t value) {
    char digits[20], *end = digits + sizeof(digits), *at = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0) *--at = '-';
    hn_strbuf_append(buf, at, (size_t)(end - at));
}

/* The length of the well-formed UTF-8 sequence at `at`, or 0. */
static size_t utf8_len(const unsigned char *at, size_t left) {
    unsigned char lead = at[0];
    if (lead < 0x80) return 1;
    size_t len = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || left < len) return 0;
    for (size_t i = 1; i < len; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    /* The second byte tells over-long forms, surrogates and what lies beyond U+10FFFF. */
    if (lead == 0xe0 && at[1] < 0xa0) return 0;
    if (lead == 0xed && at[1] > 0x9f) return 0;
    if (lead == 0xf0 && at[1] < 0x90) return 0;
    if (lead == 0xf4 && at[1] > 0x8f) return 0;
    return len;
}

static void json_escape(hn_strbuf *buf, unsigned char c) {
    switch (c) {
    case '"': hn_strbuf_append(buf, "\\\"", 2); return;
    case '\\': hn_strbuf_append(buf, "\\\\", 2); return;
    case '\n': hn_strbuf_append(buf, "\\n", 2); return;
    case '\t': hn_strbuf_append(buf, "\\t", 2); return;
    case '\r': hn_strbuf_append(buf, "\\r", 2); return;
    default: hn_strbuf_printf(buf, "\\u%04x", c); return;
    }
}

void hn_strbuf_json(hn_strbuf *buf, hn_str text) {
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    size_t plain = 0, i = 0; /* [plain, i) waits to be copied as it is */
    hn_strbuf_putc(buf, '"');
    while (i < text.len) {
        unsigned char c = bytes[i];
        size_t len = utf8_len(bytes + i, text.len - i);
        if (len && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i += len;
            continue;
        }
        if (i > plain) hn_strbuf_append(buf, text.ptr + plain, i - plain);
        if (len) json_escape(buf, c);
        else hn_strbuf_append(buf, "\\ufffd", 6); /* not UTF-8, which JSON cannot carry */
        plain = ++i;
    }
    if (i > plain) hn_strbuf_append(buf, text.ptr + plain, i - plain);
    hn_strbuf_putc(buf, '"');
}

/* Of the character of `len` bytes at `at`; C1 controls are two bytes of UTF-8. */
static bool is_control(const unsigned char *at, size_t len) {
    return at[0] < 0x20 || at[0] == 0x7f || (len == 2 && at[0] == 0xc2 && at[1] < 0xa0);
}

void hn_strbuf_clean(hn_strbuf *buf, hn_str text, bool one_line) {
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    size_t plain = 0, i = 0; /* [plain, i) waits to be copied as it is */
    while (i < text.len) {
        size_t len = utf8_len(bytes + i, text.len - i);
        if (len &&
            (!is_control(bytes + i, len) || bytes[i] == '\t' || (bytes[i] == '\n' && !one_line))) {
            i += len;
            continue;
        }
        if (i > plain) hn_strbuf_append(buf, text.ptr + plain, i - plain);
        if (bytes[i] == '\n') hn_strbuf_puts(buf, "\\n");
        else
            for (size_t k = 0; k < (len ? len : 1); k++)
                hn_strbuf_printf(buf, "\\x%02x", bytes[i + k]);
        plain = i += len ? len : 1;
    }
    if (i > plain) hn_strbuf_append(buf, text.ptr + plain, i - plain);
}

size_t hn_str_cut(hn_str text, size_t most) {
    if (text.len <= most) return text.len;
    size_t len = most;
    while (len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80) len--;
    return len;
}

hn_status hn_strbuf_status(const hn_strbuf *buf) {
    if (!buf->failed) return NULL;
    return HN_ERROR(HN_OUT_OF_MEMORY, "cannot grow a text buffer beyond %zu bytes", buf->len);
}

bool hn_size_parse(const char *text, int64_t *out_bytes) {
    static const char units[] = "kmgt";
    char *end;
    if (*text < '0' || *text > '9') return false; /* strtoll takes spaces and signs */
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno) return false;
    int64_t scale = 1;
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    if (unit) {
        scale <<= 10 * (unit - units + 1);
        end++;
        if (strcasecmp(end, "iB") == 0) end += 2;
    }
    return !*end && !__builtin_mul_overflow(number, scale, out_bytes);
}
