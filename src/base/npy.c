/* npy.c: the .npy reader and writer of npy.h.
 *
 * A file is the magic "\x93NUMPY", two version bytes, the header length (2 bytes little endian in
 * version 1, 4 in 2 and 3), the header, and the elements. The header is a Python dict literal with
 * exactly the keys descr, fortran_order and shape, padded with blanks to a newline. */
#include "base/npy.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/str.h"

#include <inttypes.h>

/* NumPy itself refuses more than 10000 by default; only structured types, which we lack, come
 * near. */
#define MAX_HEADER_BYTES 65535
#define MAGIC            "\x93NUMPY"
#define MAGIC_BYTES      6

typedef struct npy_type {
    const char *descr;
    size_t elem_bytes;
} npy_type;

static const npy_type types[] = {
    {"<f8", 8}, {"<f4", 4}, {"<f2", 2}, {"<i8", 8}, {"<i4", 4},
    {"<i2", 2}, {"|i1", 1}, {"|u1", 1}, {"|b1", 1},
};

size_t hn_npy_elem_bytes(const char *descr) {
    for (size_t k = 0; k < HN_COUNT_OF(types); k++)
        if (strcmp(types[k].descr, descr) == 0) return types[k].elem_bytes;
    return 0;
}

/* --- header text --- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_blanks(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool take_char(cursor *c, char want) {
    skip_blanks(c);
    if (c->at == c->end || *c->at != want) return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word) {
    skip_blanks(c);
    size_t len = strlen(word);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0) return false;
    c->at += len;
    return true;
}

/* A quoted string without escapes: none of the values that we accept has one. */
static bool take_string(cursor *c, hn_str *out) {
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    const char *start = c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\') c->at++;
    if (c->at == c->end || *c->at != quote) return false;
    *out = (hn_str){start, (size_t)(c->at - start)};
    c->at++;
    return true;
}

static bool take_size(cursor *c, int64_t *out) {
    skip_blanks(c);
    const char *start = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!hn_mul_i64(value, 10, &value) || !hn_add_i64(value, *c->at - '0', &value))
            return false;
    if (c->at == start) return false;
    if (c->at < c->end && *c->at == 'L') c->at++; /* Python 2 wrote long integers so */
    *out = value;
    return true;
}

static hn_status bad_header(const char *what) {
    return HN_ERROR(HN_CORRUPT, "bad .npy header: %s", what);
}

static hn_status take_shape(cursor *c, hn_npy *out) {
    if (!take_char(c, '(')) return bad_header("'shape' is not a tuple");
    while (!take_char(c, ')')) {
        if (out->rank == HN_NPY_MAX_RANK)
            return HN_ERROR(HN_UNSUPPORTED, "the .npy array has more than %d dimensions",
                            HN_NPY_MAX_RANK);
        if (!take_size(c, &out->sizes[out->rank]))
            return bad_header("a size in 'shape' is not a number within 63 bits");
        out->rank++;
        if (take_char(c, ',')) continue;
        if (out->rank == 1) return bad_header("'shape' is a number in parentheses, not a tuple");
        if (!take_char(c, ')')) return bad_header("'shape' does not end");
        break;
    }
    return NULL;
}

static hn_status find_type(hn_str descr, hn_npy *out) {
    if (descr.len < 2 || !strchr("<>|=", descr.ptr[0]) || descr.ptr[0] == 0)
        return HN_ERROR(HN_CORRUPT, "bad .npy header: element type '" HN_STR_FMT "'",
                        HN_STR_ARG(descr));
    hn_str kind = {descr.ptr + 1, descr.len - 1};
    for (size_t k = 0; k < HN_COUNT_OF(types); k++) {
        if (!hn_str_eq(kind, hn_str_of(types[k].descr + 1))) continue;
        /* One-byte types have no byte order; "=" is native, which is little endian here. */
        if (descr.ptr[0] == '>' && types[k].elem_bytes > 1)
            return HN_ERROR(HN_UNSUPPORTED,
                            "the .npy elements '" HN_STR_FMT
                            "' are big endian; save with astype('%s')",
                            HN_STR_ARG(descr), types[k].descr);
        if (descr.ptr[0] == '|' && types[k].elem_bytes > 1) break;
        out->descr = types[k].descr;
        out->elem_bytes = types[k].elem_bytes;
        return NULL;
    }
    return HN_ERROR(HN_UNSUPPORTED,
                    "the .npy element type '" HN_STR_FMT
                    "' is not supported; save as float64, float32, float16, int64, "
                    "int32, int16, int8, uint8 or bool (bfloat16 as float32)",
                    HN_STR_ARG(descr));
}

static hn_status take_descr(cursor *c, hn_npy *out) {
    hn_str descr;
    skip_blanks(c);
    if (c->at < c->end && (*c->at == '[' || *c->at == '('))
        return HN_ERROR(
            HN_UNSUPPORTED,
            "the .npy array has structured elements; save each field as an array of its own");
    if (!take_string(c, &descr)) return bad_header("'descr' is not a string");
    return find_type(descr, out);
}

static hn_status take_order(cursor *c, hn_npy *out) {
    if (take_word(c, "True")) out->fortran_order = true;
    else if (!take_word(c, "False")) return bad_header("'fortran_order' is neither True nor False");
    return NULL;
}

static hn_status parse_header(hn_str text, hn_npy *out) {
    static const struct {
        const char *key;
        hn_status (*take)(cursor *, hn_npy *);
    } fields[] = {{"descr", take_descr}, {"fortran_order", take_order}, {"shape", take_shape}};
    cursor c = {text.ptr, text.ptr + text.len};
    unsigned seen = 0;
    if (!take_char(&c, '{')) return bad_header("it does not begin with '{'");
    while (!take_char(&c, '}')) {
        hn_str key;
        size_t k = 0;
        if (!take_string(&c, &key)) return bad_header("a key is missing");
        while (k < HN_COUNT_OF(fields) && !hn_str_eq(key, hn_str_of(fields[k].key))) k++;
        if (k == HN_COUNT_OF(fields) || seen & 1u << k || !take_char(&c, ':'))
            return HN_ERROR(HN_CORRUPT,
                            "bad .npy header: key '" HN_STR_FMT
                            "' is unknown, repeated or without a value",
                            HN_STR_ARG(key));
        HN_TRY(fields[k].take(&c, out));
        seen |= 1u << k;
        if (take_char(&c, ',')) continue;
        if (!take_char(&c, '}')) return bad_header("it does not end with '}'");
        break;
    }
    skip_blanks(&c);
    if (c.at != c.end) return bad_header("text follows the '}'");
    if (seen != (1u << HN_COUNT_OF(fields)) - 1)
        return bad_header("'descr', 'fortran_order' or 'shape' is missing");
    return NULL;
}

/* --- the file --- */

static hn_status find_header(const uint8_t *bytes, size_t len, hn_str *out_text,
                             size_t *out_data_at) {
    if (len < MAGIC_BYTES + 4 || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
        return HN_ERROR(HN_CORRUPT, "not an .npy file: it does not begin with \\x93NUMPY");
    uint8_t major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0)
        return HN_ERROR(HN_UNSUPPORTED, "the .npy version %u.%u is not 1.0, 2.0 or 3.0", major,
                        minor);
    size_t at = major == 1 ? 10 : 12;
    if (len < at) return HN_ERROR(HN_CORRUPT, "the .npy file ends within its header");
    size_t header_bytes = bytes[8] | (size_t)bytes[9] << 8;
    if (major > 1) header_bytes |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (header_bytes > MAX_HEADER_BYTES)
        return HN_ERROR(HN_UNSUPPORTED, "the .npy header has %zu bytes, more than %d", header_bytes,
                        MAX_HEADER_BYTES);
    if (header_bytes > len - at)
        return HN_ERROR(HN_CORRUPT, "the .npy file ends within its header");
    *out_text = (hn_str){(const char *)bytes + at, header_bytes};
    *out_data_at = at + header_bytes;
    return NULL;
}

/* Product of the sizes. A zero size makes it 0 even beside sizes whose product overflows, as in
 * NumPy, but strides are computed from the sizes, so that those must fit, zeros counted as ones. */
static bool count_elems(const hn_npy *npy, int64_t *out_numel) {
    int64_t span = 1;
    bool empty = false;
    for (uint32_t d = 0; d < npy->rank; d++) {
        empty |= npy->sizes[d] == 0;
        if (!hn_mul_i64(span, npy->sizes[d] ? npy->sizes[d] : 1, &span)) return false;
    }
    *out_numel = empty ? 0 : span;
    return true;
}

static void fill_strides(hn_npy *npy) {
    int64_t stride = 1;
    for (uint32_t k = 0; k < npy->rank; k++) {
        uint32_t d = npy->fortran_order ? k : npy->rank - 1 - k;
        npy->strides[d] = stride;
        stride *= npy->sizes[d] ? npy->sizes[d] : 1;
    }
}

hn_status hn_npy_parse(const void *bytes, size_t len, hn_npy *out) {
    hn_str text = {0};
    size_t data_at = 0, data_bytes;
    int64_t numel;
    memset(out, 0, sizeof *out);
    HN_TRY(find_header(bytes, len, &text, &data_at));
    HN_TRY(parse_header(text, out));
    if (!count_elems(out, &numel) || !hn_mul_size((size_t)numel, out->elem_bytes, &data_bytes))
        return HN_ERROR(HN_CORRUPT, "bad .npy header: the product of the sizes overflows");
    if (data_bytes != len - data_at)
        return HN_ERROR(HN_CORRUPT,
                        "the .npy file holds %zu bytes of elements, but its header asks for %zu",
                        len - data_at, data_bytes);
    out->numel = (size_t)numel;
    out->data = (const uint8_t *)bytes + data_at;
    fill_strides(out);
    return NULL;
}

void hn_npy_copy(const hn_npy *npy, void *out_bytes) {
    uint8_t *to = out_bytes;
    int64_t coord[HN_NPY_MAX_RANK] = {0};
    if (npy->numel == 0) return;
    if (!npy->fortran_order) {
        memcpy(to, npy->data, npy->numel * npy->elem_bytes);
        return;
    }
    for (size_t n = 0; n < npy->numel; n++, to += npy->elem_bytes) {
        int64_t from = 0;
        for (uint32_t d = 0; d < npy->rank; d++) from += coord[d] * npy->strides[d];
        memcpy(to, npy->data + (size_t)from * npy->elem_bytes, npy->elem_bytes);
        for (uint32_t d = npy->rank; d-- > 0 && ++coord[d] == npy->sizes[d];) coord[d] = 0;
    }
}

static void put_header(hn_strbuf *file, const char *descr, uint32_t rank, const int64_t *sizes) {
    /* the length is filled in below */
    hn_strbuf_append(file, MAGIC "\x01\x00\x00\x00", MAGIC_BYTES + 4);
    hn_strbuf_printf(file, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t d = 0; d < rank; d++)
        hn_strbuf_printf(file, d ? ", %" PRId64 : "%" PRId64, sizes[d]);
    hn_strbuf_puts(file, rank == 1 ? ",), }" : "), }");
    /* elements start at a multiple of 64 */
    while (!file->failed && file->len % 64 != 63) hn_strbuf_putc(file, ' ');
    hn_strbuf_putc(file, '\n');
    if (file->failed) return;
    size_t header_bytes = file->len - MAGIC_BYTES - 4;
    file->ptr[8] = (char)(header_bytes & 0xff);
    file->ptr[9] = (char)(header_bytes >> 8);
}

hn_status hn_npy_write(const char *path, const char *descr, uint32_t rank, const int64_t *sizes,
                       const void *data) {
    hn_npy npy = {.rank = rank, .elem_bytes = hn_npy_elem_bytes(descr)};
    int64_t numel;
    size_t data_bytes;
    if (!npy.elem_bytes)
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot write '%s': unknown .npy element type '%s'",
                        path, descr);
    if (rank > HN_NPY_MAX_RANK)
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot write '%s': rank %u is above %d", path, rank,
                        HN_NPY_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] < 0)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "cannot write '%s': size %" PRId64 " of dimension %u is negative", path,
                            sizes[d], d);
        npy.sizes[d] = sizes[d];
    }
    if (!count_elems(&npy, &numel) || !hn_mul_size((size_t)numel, npy.elem_bytes, &data_bytes))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot write '%s': the product of the sizes overflows", path);
    hn_strbuf file;
    hn_strbuf_init(&file);
    put_header(&file, descr, rank, sizes);
    if (data_bytes) hn_strbuf_append(&file, data, data_bytes);
    hn_status status = hn_strbuf_status(&file);
    if (!status) status = hn_file_write_atomic(path, file.ptr, file.len, false);
    hn_strbuf_deinit(&file);
    return status;
}
