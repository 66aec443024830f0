/* safetensors_read.c: the table of a safetensors file. The header is JSON of a fixed form, so that
 * a small reader is enough; it believes nothing. Source: the format's own description, version
 * 0.4. */
#include "bundle/safetensors.h"

#include "base/checked.h"
#include "bundle/format.h"
#include "bundle/view.h"

#include <string.h>

enum { HEADER_MAX = 100000000 }; /* bytes: the limit of the format's own library */

typedef struct reader {
    const char *begin, *at, *end;
    hn_arena *arena;
    const uint8_t *data; /* behind the header */
    uint64_t data_bytes;
    struct {
        hn_safetensor *items;
        uint32_t count, cap;
    } tensors;
} reader;

static hn_status damaged(const reader *r, const char *what) {
    return HN_ERROR(HN_CORRUPT, "the safetensors header is damaged at byte %zu: %s",
                    (size_t)(r->at - r->begin), what);
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static bool accept(reader *r, char c) {
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static hn_status expect(reader *r, char c) {
    const char text[] = {'\'', c, '\'', ' ', 'i', 's', ' ', 'm', 'i', 's', 's', 'i', 'n', 'g', 0};
    return accept(r, c) ? NULL : damaged(r, text);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hexadecimal digits. */
static hn_status read_unit(reader *r, uint32_t *out) {
    *out = 0;
    if (r->end - r->at < 4) return damaged(r, "an escape is cut short");
    for (int k = 0; k < 4; k++) {
        int digit = hex_digit(*r->at++);
        if (digit < 0) return damaged(r, "an escape has no four hexadecimal digits");
        *out = *out << 4 | (uint32_t)digit;
    }
    return NULL;
}

static hn_status read_code(reader *r, char **to) {
    uint32_t code, low;
    HN_TRY(read_unit(r, &code));
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return damaged(r, "half of a surrogate pair");
        r->at += 2;
        HN_TRY(read_unit(r, &low));
        if (low < 0xdc00 || low > 0xdfff) return damaged(r, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    char *at = *to;
    if (code < 0x80) *at++ = (char)code;
    else if (code < 0x800) *at++ = (char)(0xc0 | code >> 6), *at++ = (char)(0x80 | (code & 63));
    else if (code < 0x10000)
        *at++ = (char)(0xe0 | code >> 12), *at++ = (char)(0x80 | (code >> 6 & 63)),
        *at++ = (char)(0x80 | (code & 63));
    else
        *at++ = (char)(0xf0 | code >> 18), *at++ = (char)(0x80 | (code >> 12 & 63)),
        *at++ = (char)(0x80 | (code >> 6 & 63)), *at++ = (char)(0x80 | (code & 63));
    *to = at;
    return NULL;
}

/* An escape is never shorter than what it stands for. */
static hn_status read_text(reader *r, hn_str *out) {
    static const char escapes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    HN_TRY(expect(r, '"'));
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= r->end) return damaged(r, "a text has no end");
    char *text = hn_arena_alloc(r->arena, (size_t)(close - r->at) + 1), *to = text;
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the names of weights");
    while (*r->at != '"') {
        if (*r->at != '\\') {
            *to++ = *r->at++;
            continue;
        }
        const char *which = strchr(escapes, r->at[1]);
        r->at += 2;
        if (r->at[-1] == 'u') HN_TRY(read_code(r, &to));
        else if (which && *which) *to++ = values[which - escapes];
        else return damaged(r, "an unknown escape");
        if (r->at > close) return damaged(r, "an escape is cut short");
    }
    r->at++;
    *to = 0;
    *out = (hn_str){text, (size_t)(to - text)};
    return strlen(text) == out->len ? NULL : damaged(r, "a name with a zero byte");
}

static hn_status read_number(reader *r, int64_t *out) {
    *out = 0;
    skip_space(r);
    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return damaged(r, "a whole number is missing");
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (!hn_mul_i64(*out, 10, out) || !hn_add_i64(*out, *r->at - '0', out))
            return damaged(r, "a number is too large");
    return NULL;
}

static hn_status read_list(reader *r, int64_t *items, uint32_t most, uint32_t *out_count) {
    *out_count = 0;
    HN_TRY(expect(r, '['));
    if (accept(r, ']')) return NULL;
    do {
        if (*out_count == most) return damaged(r, "a list is too long");
        HN_TRY(read_number(r, &items[(*out_count)++]));
    } while (accept(r, ','));
    return expect(r, ']');
}

static hn_status read_type(reader *r, const hn_safetensor *t, uint32_t *out) {
    hn_str word;
    HN_TRY(read_text(r, &word));
    for (*out = 1; *out < HN_SCALAR_TYPE_COUNT; ++*out)
        if (hn_str_eq(word, hn_str_of(hn_safetensors_types[*out]))) return NULL;
    return HN_ERROR(HN_UNSUPPORTED,
                    "weight '" HN_STR_FMT "' has type '" HN_STR_FMT "', which Henry lacks",
                    HN_STR_ARG(t->name), HN_STR_ARG(word));
}

static hn_status check_tensor(const reader *r, const hn_safetensor *t, const int64_t *range) {
    int64_t bytes = hn_bundle_dtype_bytes(t->dtype);
    bool ok = t->dtype && range[0] <= range[1] && (uint64_t)range[1] <= r->data_bytes;
    for (uint32_t d = 0; d < t->rank; d++) ok = ok && hn_mul_i64(bytes, t->sizes[d], &bytes);
    if (ok && bytes == range[1] - range[0]) return NULL;
    return HN_ERROR(HN_CORRUPT,
                    "the safetensors file is damaged: weight '" HN_STR_FMT
                    "' lies outside, or has not the bytes of its shape",
                    HN_STR_ARG(t->name));
}

static hn_status read_tensor(reader *r, hn_str name) {
    hn_safetensor t = {.name = name};
    int64_t sizes[HN_TENSOR_MAX_RANK], range[2], *kept;
    uint32_t pair = 0;
    bool has_shape = false;
    HN_TRY(expect(r, '{'));
    do {
        hn_str key;
        HN_TRY(read_text(r, &key));
        HN_TRY(expect(r, ':'));
        if (hn_str_eq(key, HN_STR("dtype"))) HN_TRY(read_type(r, &t, &t.dtype));
        else if (hn_str_eq(key, HN_STR("shape")))
            HN_TRY(read_list(r, sizes, HN_TENSOR_MAX_RANK, &t.rank));
        else if (hn_str_eq(key, HN_STR("data_offsets"))) HN_TRY(read_list(r, range, 2, &pair));
        else return damaged(r, "an unknown key of a tensor");
        has_shape |= hn_str_eq(key, HN_STR("shape"));
    } while (accept(r, ','));
    HN_TRY(expect(r, '}'));
    if (!has_shape || pair != 2) return damaged(r, "a tensor without a shape or without its place");
    HN_NEW(r->arena, kept, (size_t)t.rank + 1);
    memcpy(kept, sizes, t.rank * sizeof *sizes);
    t.sizes = kept;
    HN_TRY(check_tensor(r, &t, range));
    t.bytes = r->data + range[0], t.len = (uint64_t)(range[1] - range[0]),
    t.offset = (uint64_t)range[0];
    HN_PUSH(r->arena, &r->tensors, t);
    return NULL;
}

/* Names and texts, for people. */
static hn_status skip_metadata(reader *r) {
    hn_str ignored;
    HN_TRY(expect(r, '{'));
    if (accept(r, '}')) return NULL;
    do {
        HN_TRY(read_text(r, &ignored));
        HN_TRY(expect(r, ':'));
        HN_TRY(read_text(r, &ignored));
    } while (accept(r, ','));
    return expect(r, '}');
}

static hn_status read_entries(reader *r) {
    if (accept(r, '}')) return NULL;
    do {
        hn_str name;
        HN_TRY(read_text(r, &name));
        HN_TRY(expect(r, ':'));
        HN_TRY(hn_str_eq(name, HN_STR("__metadata__")) ? skip_metadata(r) : read_tensor(r, name));
    } while (accept(r, ','));
    return expect(r, '}');
}

static hn_status read_table(reader *r) {
    HN_TRY(expect(r, '{'));
    HN_TRY(read_entries(r));
    skip_space(r);
    return r->at == r->end ? NULL : damaged(r, "more follows");
}

hn_status hn_safetensors_read(const uint8_t *file, size_t file_bytes, hn_arena *arena,
                              hn_safetensor **out_tensors, uint32_t *out_count) {
    uint64_t header = 0;
    if (file_bytes >= sizeof header) memcpy(&header, file, sizeof header);
    if (file_bytes < sizeof header || header > HEADER_MAX || header > file_bytes - sizeof header)
        return HN_ERROR(HN_CORRUPT, "this is no safetensors file, or it is cut short: %zu bytes",
                        file_bytes);
    const char *text = (const char *)file + sizeof header;
    reader r = {.begin = text,
                .at = text,
                .end = text + header,
                .arena = arena,
                .data = file + sizeof header + header,
                .data_bytes = file_bytes - sizeof header - header};
    HN_TRY(read_table(&r));
    *out_tensors = r.tensors.items;
    *out_count = r.tensors.count;
    return NULL;
}
