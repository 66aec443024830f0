/* retable.c: see retable.h. */
#include "bundle/retable.h"

#include "base/checked.h"
#include "bundle/internal.h"

#include <string.h>

/* A section of the new file, and what is in it. */
typedef struct part {
    hnb_section section;
    const void *bytes;
} part;

typedef struct retabler {
    const hn_bundle *b;
    const hn_bundle_tables *tables;
    part parts[HNB_SECTION_KIND_COUNT];
    uint32_t count;
    hnb_header header;
} retabler;

static const void *bytes_of(const retabler *r, const hnb_section *s) {
    return r->b->bytes + s->offset;
}

static void add(retabler *r, uint32_t kind, const hnb_section *like, const void *bytes,
                uint64_t count) {
    const uint32_t extra = hn_bundle_sections[kind].is_extra ? HNB_SECTION_EXTRA : 0;
    hnb_section section = {
        .kind = kind | extra, .elem_bytes = hn_bundle_sections[kind].elem_bytes, .count = count};
    if (like) section.kind = like->kind, section.elem_bytes = like->elem_bytes;
    r->parts[r->count++] = (part){section, bytes};
}

/* The sections in their order; records stand in front of the key, as the writer has them. */
static void list_parts(retabler *r) {
    const hnb_section *sections =
        (const hnb_section *)(const void *)(r->b->bytes + sizeof(hnb_header));
    for (uint32_t k = 0; k < r->header.section_count; k++) {
        const hnb_section *s = &sections[k];
        const uint32_t kind = s->kind & ~HNB_SECTION_EXTRA;
        if (kind == HNB_TUNING) continue;
        if (kind == HNB_KEY && r->tables->tuning.len)
            add(r, HNB_TUNING, NULL, r->tables->tuning.ptr, r->tables->tuning.len);
        if (kind == HNB_CHOICES) add(r, kind, s, r->tables->choices, s->count);
        else if (kind == HNB_BOXES) add(r, kind, s, r->tables->boxes, r->tables->box_count);
        else add(r, kind, s, bytes_of(r, s), s->count);
    }
}

static void place_parts(retabler *r) {
    const hnb_header *was = r->b->header;
    uint64_t end = sizeof(hnb_header) + r->count * sizeof(hnb_section);
    for (uint32_t k = 0; k < r->count; k++) {
        hnb_section *s = &r->parts[k].section;
        s->offset = hn_align_up(end, HNB_ALIGN);
        end = s->offset + s->count * s->elem_bytes;
    }
    r->header.section_count = r->count;
    r->header.meta_bytes = end;
    if (was->code_offset) {
        r->header.code_offset = hn_align_up(end, HNB_ALIGN);
        end = r->header.code_offset + was->code_bytes;
    }
    if (was->weights_offset) {
        r->header.weights_offset = hn_align_up(end, HNB_WEIGHTS_ALIGN);
        end = r->header.weights_offset + was->weights_bytes;
    }
    r->header.file_bytes = end;
}

/* Padding is zeros. */
static void write_image(const retabler *r, uint8_t *image) {
    hnb_section *sections = (hnb_section *)(void *)(image + sizeof(hnb_header));
    memset(image, 0, r->header.file_bytes);
    memcpy(image, &r->header, sizeof r->header);
    for (uint32_t k = 0; k < r->count; k++) {
        const hnb_section *s = &r->parts[k].section;
        sections[k] = *s;
        if (s->count) memcpy(image + s->offset, r->parts[k].bytes, s->count * s->elem_bytes);
    }
    const hnb_header *was = r->b->header;
    if (was->code_bytes)
        memcpy(image + r->header.code_offset, r->b->bytes + was->code_offset, was->code_bytes);
    if (was->weights_bytes)
        memcpy(image + r->header.weights_offset, r->b->bytes + was->weights_offset,
               was->weights_bytes);
    const hn_digest digest = hn_bundle_meta_digest(image, r->header.meta_bytes);
    memcpy(((hnb_header *)(void *)image)->digest, digest.bytes, sizeof digest.bytes);
}

static hn_status check(const hn_bundle *b) {
    const hnb_header *h = b->header;
    /* of a program of such a file, the objects are the file's */
    const bool is_whole = h->code_bytes ? b->code == b->bytes + h->code_offset : !b->objects_count;
    if (hn_bundle_program_count(b) > 1 || !is_whole)
        return HN_ERROR(HN_UNSUPPORTED, "a bundle of several programs is not tuned; compile the "
                                        "model for one kind of device");
    if (h->file_bytes > b->len) return HN_ERROR(HN_UNSUPPORTED, "the bundle lacks its weights");
    return NULL;
}

hn_status hn_bundle_retable(const hn_bundle *b, const hn_bundle_tables *tables, hn_strbuf *out) {
    retabler r = {.b = b, .tables = tables, .header = *b->header};
    hn_bundle again;
    HN_TRY(check(b));
    if (out->len) return HN_ERROR(HN_INTERNAL, "the bundle image must start empty");
    memset(r.header.digest, 0, sizeof r.header.digest);
    memset(r.header.signer, 0, sizeof r.header.signer);
    memset(r.header.signature, 0, sizeof r.header.signature);
    list_parts(&r);
    place_parts(&r);
    uint8_t *image = (uint8_t *)hn_strbuf_reserve(out, r.header.file_bytes);
    if (!image) return hn_strbuf_status(out);
    write_image(&r, image);
    out->len = r.header.file_bytes;
    out->ptr[out->len] = 0;
    return hn_bundle_open(image, out->len, true, &again);
}
