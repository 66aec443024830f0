/* opencl_program.c: see opencl_program.h. */
#include "base/opencl_program.h"

enum { VERSION = 1 };

void hn_opencl_program_write(const hn_opencl_program *p, hn_strbuf *out) {
    hn_opencl_program_header header = {.magic = HN_OPENCL_PROGRAM_MAGIC,
                                       .version = VERSION,
                                       .options_len = (uint32_t)p->options.len,
                                       .source_len = (uint32_t)p->source.len,
                                       .binary_count = p->binary_count};
    out->failed |= p->options.len > UINT32_MAX || p->source.len > UINT32_MAX;
    hn_strbuf_append(out, (const char *)&header, sizeof header);
    hn_strbuf_append(out, p->options.ptr, p->options.len);
    hn_strbuf_append(out, "", 1);
    hn_strbuf_append(out, p->source.ptr, p->source.len);
    hn_strbuf_append(out, "", 1);
    for (uint32_t k = 0; k < p->binary_count; k++) {
        const hn_opencl_binary *b = &p->binaries[k];
        const hn_opencl_binary_header lens = {(uint32_t)b->identity.len, (uint32_t)b->bytes.len};
        out->failed |= b->identity.len > UINT32_MAX || b->bytes.len > UINT32_MAX;
        hn_strbuf_append(out, (const char *)&lens, sizeof lens);
        hn_strbuf_append(out, b->identity.ptr, b->identity.len);
        hn_strbuf_append(out, b->bytes.ptr, b->bytes.len);
    }
}

/* Takes bytes off the front of what is left. */
static bool take(hn_str *rest, size_t len, hn_str *out) {
    if (rest->len < len) return false;
    *out = (hn_str){rest->ptr, len};
    *rest = (hn_str){rest->ptr + len, rest->len - len};
    return true;
}

static bool take_copy(hn_str *rest, void *out, size_t len) {
    hn_str bytes;
    if (!take(rest, len, &bytes)) return false;
    memcpy(out, bytes.ptr, len);
    return true;
}

/* A text without a NUL in it, and one behind it. */
static bool take_text(hn_str *rest, size_t len, hn_str *out) {
    hn_str end;
    return take(rest, len, out) && take(rest, 1, &end) && !end.ptr[0] &&
           !memchr(out->ptr, 0, out->len);
}

static bool take_binary(hn_str *rest, hn_opencl_binary *out) {
    hn_opencl_binary_header lens;
    return take_copy(rest, &lens, sizeof lens) && take(rest, lens.identity_len, &out->identity) &&
           take(rest, lens.binary_len, &out->bytes);
}

static hn_status damaged(const char *what) {
    return HN_ERROR(HN_CORRUPT, "an OpenCL program is damaged: %s", what);
}

hn_status hn_opencl_program_parse(hn_str bytes, hn_opencl_program *out) {
    hn_opencl_program_header header;
    out->binary_count = 0;
    if (!take_copy(&bytes, &header, sizeof header) ||
        memcmp(header.magic, HN_OPENCL_PROGRAM_MAGIC, sizeof header.magic) != 0)
        return damaged("it does not begin as one");
    if (header.version != VERSION)
        return HN_ERROR(HN_INCOMPATIBLE, "an OpenCL program has version %u, not %d", header.version,
                        VERSION);
    if (!take_text(&bytes, header.options_len, &out->options)) return damaged("its options");
    if (!take_text(&bytes, header.source_len, &out->source)) return damaged("its source");
    if (header.binary_count > HN_OPENCL_BINARIES_MAX) return damaged("the number of its binaries");
    for (uint32_t k = 0; k < header.binary_count; k++)
        if (!take_binary(&bytes, &out->binaries[k])) return damaged("its binaries");
    if (bytes.len) return damaged("there are bytes behind it");
    out->binary_count = header.binary_count;
    return NULL;
}

const hn_opencl_binary *hn_opencl_program_binary(const hn_opencl_program *p, hn_str identity) {
    for (uint32_t k = 0; k < p->binary_count; k++)
        if (hn_str_eq(p->binaries[k].identity, identity)) return &p->binaries[k];
    return NULL;
}
