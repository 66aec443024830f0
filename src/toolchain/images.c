/* images.c: see images.h. */
#include "toolchain/images.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 24, ROW_BYTES = 48, ALIGNMENT = 64 };

static const char magic[] = "HNIMAGE1";

static void put_number(hn_strbuf *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) hn_strbuf_putc(out, (char)(value >> 8 * i & 0xff));
}

static uint64_t get_number(const char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)(unsigned char)at[i] << 8 * i;
    return value;
}

static uint64_t align(uint64_t offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint32_t count_strings(hn_str list) {
    uint32_t count = 0;
    for (size_t i = 0; i < list.len; i++) count += list.ptr[i] == 0;
    return count;
}

/* ---- writing ---- */

static void pad(hn_strbuf *out, size_t begin, uint64_t offset) {
    while (!out->failed && out->len - begin < offset) hn_strbuf_putc(out, 0);
}

static void write_row(const hn_image *image, uint64_t offset, hn_strbuf *out) {
    char arch[HN_IMAGE_ARCH_BYTES] = "";
    memcpy(arch, image->arch, strlen(image->arch)); /* its length was checked */
    hn_strbuf_append(out, arch, sizeof(arch));
    put_number(out, image->kind, 4);
    put_number(out, 0, 4);
    put_number(out, offset, 8);
    put_number(out, image->len, 8);
}

hn_status hn_images_write(const hn_images_source *source, hn_strbuf *out) {
    size_t begin = out->len;
    if (source->image_count > HN_IMAGES_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u architectures in one job, at most %d", source->image_count,
                        HN_IMAGES_MAX);
    uint64_t first = align(HEADER_BYTES + (uint64_t)source->image_count * ROW_BYTES + source->names.len),
             end = first;
    for (uint32_t i = 0; i < source->image_count; i++) {
        if (strlen(source->images[i].arch) >= HN_IMAGE_ARCH_BYTES)
            return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is too long for an architecture",
                            source->images[i].arch);
        end = align(end) + source->images[i].len + 1;
    }
    hn_strbuf_append(out, magic, 8);
    put_number(out, source->image_count, 4);
    put_number(out, count_strings(source->names) / 2, 4);
    put_number(out, end, 8);
    uint64_t offset = first;
    for (uint32_t i = 0; i < source->image_count; i++) {
        offset = align(offset);
        write_row(&source->images[i], offset, out);
        offset += source->images[i].len + 1;
    }
    hn_strbuf_append(out, source->names.ptr, source->names.len);
    pad(out, begin, first);
    for (uint32_t i = 0; i < source->image_count; i++) {
        pad(out, begin, align(out->len - begin));
        hn_strbuf_append(out, source->images[i].bytes, source->images[i].len);
        hn_strbuf_putc(out, 0);
    }
    return hn_strbuf_status(out);
}

/* ---- reading ---- */

bool hn_images_are(hn_str bytes) {
    return bytes.len >= HEADER_BYTES && memcmp(bytes.ptr, magic, 8) == 0;
}

uint32_t hn_images_count(hn_str bytes) {
    return (uint32_t)get_number(bytes.ptr + 8, 4);
}

void hn_images_get(hn_str bytes, uint32_t idx, hn_image *out) {
    const char *row = bytes.ptr + HEADER_BYTES + (size_t)idx * ROW_BYTES;
    *out = (hn_image){
        .arch = row,
        .kind = (hn_image_kind)get_number(row + 24, 4),
        .bytes = bytes.ptr + get_number(row + 32, 8),
        .len = (size_t)get_number(row + 40, 8),
    };
}

static bool row_is_good(hn_str bytes, uint32_t idx) {
    const char *row = bytes.ptr + HEADER_BYTES + (size_t)idx * ROW_BYTES;
    uint64_t kind = get_number(row + 24, 4), offset = get_number(row + 32, 8), len = get_number(row + 40, 8);
    if (!memchr(row, 0, HN_IMAGE_ARCH_BYTES) || kind >= HN_IMAGE_KIND_COUNT || offset % ALIGNMENT)
        return false;
    return offset < bytes.len && len < bytes.len - offset && bytes.ptr[offset + len] == 0;
}

hn_status hn_images_check(hn_str bytes) {
    bool good = hn_images_are(bytes) && get_number(bytes.ptr + 16, 8) == bytes.len;
    uint64_t images = good ? get_number(bytes.ptr + 8, 4) : 0,
             entries = good ? get_number(bytes.ptr + 12, 4) : 0;
    uint64_t at = HEADER_BYTES + images * ROW_BYTES;
    good = good && images <= HN_IMAGES_MAX && entries <= HN_ENTRIES_MAX && at <= bytes.len;
    for (uint32_t i = 0; good && i < images; i++) good = row_is_good(bytes, i);
    for (uint64_t i = 0; good && i < entries * 2; i++) {
        const char *end = at < bytes.len ? memchr(bytes.ptr + at, 0, bytes.len - at) : NULL;
        good = end != NULL;
        if (good) at = (uint64_t)(end - bytes.ptr) + 1;
    }
    return good ? NULL : HN_ERROR(HN_CORRUPT, "%zu bytes that are no images of device code", bytes.len);
}

const char *hn_images_symbol(hn_str bytes, const char *entry) {
    uint64_t entries = get_number(bytes.ptr + 12, 4);
    const char *at = bytes.ptr + HEADER_BYTES + (size_t)hn_images_count(bytes) * ROW_BYTES;
    for (uint64_t i = 0; i < entries; i++) {
        const char *symbol = at + strlen(at) + 1;
        if (strcmp(at, entry) == 0) return symbol;
        at = symbol + strlen(symbol) + 1;
    }
    return NULL;
}

/* ---- which image fits ---- */

bool hn_arch_parse(const char *arch, bool *out_is_ptx, int *out_number, char *out_suffix) {
    size_t prefix = strncmp(arch, "sm_", 3) == 0 ? 3 : strncmp(arch, "compute_", 8) == 0 ? 8 : 0;
    const char *digits = arch + prefix;
    size_t count = strspn(digits, "0123456789");
    if (!prefix || count < 2 || count > 4) return false;
    const char *rest = digits + count;
    if (*rest && ((*rest != 'a' && *rest != 'f') || rest[1])) return false;
    *out_is_ptx = prefix == 8;
    *out_number = atoi(digits);
    *out_suffix = *rest;
    return true;
}

/* How well code for `arch` fits a device of `number`: the higher the better, -1 not at all. */
static int fitness(const char *arch, int number) {
    bool is_ptx;
    int own;
    char suffix;
    if (!hn_arch_parse(arch, &is_ptx, &own, &suffix) || own > number) return -1;
    bool is_same_major = own / 10 == number / 10;
    if (suffix == 'a' && own != number) return -1;
    if (suffix == 'f' && !is_same_major) return -1;
    if (!is_ptx && !is_same_major) return -1;
    /* Code made for the machine before code that the driver has yet to translate; then the nearest; then the
     * most special. */
    return (is_ptx ? 0 : 1 << 20) + own * 4 + (suffix == 'a' ? 2 : suffix == 'f');
}

bool hn_images_find(hn_str bytes, const char *arch, hn_image *out) {
    bool is_ptx;
    int number, best = -1;
    char suffix;
    hn_image image;
    for (uint32_t i = 0; i < hn_images_count(bytes); i++) {
        hn_images_get(bytes, i, &image);
        if (strcmp(image.arch, arch) != 0) continue;
        *out = image;
        return true;
    }
    if (!hn_arch_parse(arch, &is_ptx, &number, &suffix) || is_ptx) return false;
    for (uint32_t i = 0; i < hn_images_count(bytes); i++) {
        hn_images_get(bytes, i, &image);
        int fit = fitness(image.arch, number);
        if (fit <= best) continue;
        best = fit;
        *out = image;
    }
    return best >= 0;
}
