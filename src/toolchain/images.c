/* images.c: see images.h. The format is src/bundle's: one table of objects for what is cached and
 * what is shipped. */
#include "toolchain/images.h"

#include "bundle/view.h"
#include "bundle/writer.h"

#include <stdlib.h>
#include <string.h>

static const hnb_object_kind object_kinds[] = {
    [HN_IMAGE_CUBIN] = HNB_OBJECT_CUBIN, [HN_IMAGE_PTX] = HNB_OBJECT_PTX};

/* ---- writing ---- */

static hn_status put_images(hn_bundle_writer *w, const hn_images_source *source) {
    for (uint32_t i = 0; i < source->image_count; i++) {
        const hn_image *image = &source->images[i];
        uint32_t target, object;
        HN_TRY(hn_bundle_writer_target(w, HNB_TARGET_CUDA, 0, hn_str_of(image->arch), HN_STR(""),
                                       &target));
        HN_TRY(hn_bundle_writer_object(w, object_kinds[image->kind], target, HN_STR(""),
                                       image->bytes ? image->bytes : "", image->len, NULL,
                                       &object));
    }
    return NULL;
}

/* A kernel for each entry; every image has it under the same symbol. */
static hn_status put_entries(hn_bundle_writer *w, const hn_images_source *source) {
    const char *at = source->names.ptr, *end = at + source->names.len;
    while (at < end) {
        const char *symbol = at + strlen(at) + 1;
        hnb_kernel kernel = {.codes = w->codes.count};
        hnb_code code = {.object = 0};
        if (symbol >= end) return HN_ERROR(HN_INTERNAL, "an entry of device code has no symbol");
        HN_TRY(hn_bundle_writer_str(w, hn_str_of(at), &kernel.name));
        HN_TRY(hn_bundle_writer_str(w, hn_str_of(symbol), &code.symbol));
        HN_PUSH(w->arena, &w->kernels, kernel);
        for (; code.object < source->image_count; code.object++) HN_PUSH(w->arena, &w->codes, code);
        at = symbol + strlen(symbol) + 1;
    }
    return NULL;
}

hn_status hn_images_write(const hn_images_source *source, hn_strbuf *out) {
    if (source->image_count > HN_IMAGES_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u architectures in one job, at most %d",
                        source->image_count, HN_IMAGES_MAX);
    hn_arena arena;
    hn_bundle_writer w;
    hn_strbuf image;
    hn_arena_init(&arena);
    hn_strbuf_init(&image);
    hn_status status = hn_bundle_writer_init(&w, &arena);
    if (!status) status = put_images(&w, source);
    if (!status) status = put_entries(&w, source);
    if (!status) status = hn_bundle_writer_finish(&w, &image);
    if (!status) hn_strbuf_append(out, image.ptr, image.len);
    hn_bundle_writer_deinit(&w);
    hn_strbuf_deinit(&image);
    hn_arena_deinit(&arena);
    return status ? status : hn_strbuf_status(out);
}

/* ---- reading ---- */

bool hn_images_are(hn_str bytes) {
    return bytes.len >= sizeof(hnb_header) && memcmp(bytes.ptr, HNB_MAGIC, 8) == 0;
}

hn_status hn_images_check(hn_str bytes) {
    hn_bundle b;
    hn_status status = hn_bundle_open(bytes.ptr, bytes.len, true, &b);
    if (!status) status = hn_bundle_check_code(&b);
    for (uint32_t i = 0; !status && i < b.objects_count; i++)
        if (b.objects[i].kind == HNB_OBJECT_ELF || b.objects[i].where != HNB_OBJECT_EMBEDDED)
            status = HN_ERROR(HN_CORRUPT, "object %u is no device code", i);
    if (hn_status_code(status) == HN_INVALID_ARGUMENT) { /* no bundle at all */
        hn_status_free(status);
        return HN_ERROR(HN_CORRUPT, "%zu bytes that are no images of device code", bytes.len);
    }
    return hn_status_annotate(status, "%zu bytes that are no images of device code", bytes.len);
}

/* Of bytes that were checked. */
static bool view_of(hn_str bytes, hn_bundle *out) {
    hn_status status = hn_bundle_open(bytes.ptr, bytes.len, false, out);
    hn_status_free(status);
    return !status;
}

static void image_of(const hn_bundle *b, uint32_t idx, hn_image *out) {
    const hnb_object *o = &b->objects[idx];
    *out = (hn_image){.arch = hn_bundle_text(b, b->targets[o->target].name),
                      .kind = o->kind == HNB_OBJECT_PTX ? HN_IMAGE_PTX : HN_IMAGE_CUBIN,
                      .bytes = b->code + o->offset,
                      .len = o->len};
}

uint32_t hn_images_count(hn_str bytes) {
    hn_bundle b;
    return view_of(bytes, &b) ? b.objects_count : 0;
}

void hn_images_get(hn_str bytes, uint32_t idx, hn_image *out) {
    hn_bundle b;
    *out = (hn_image){.arch = ""};
    if (view_of(bytes, &b) && idx < b.objects_count) image_of(&b, idx, out);
}

const char *hn_images_symbol(hn_str bytes, const char *entry) {
    hn_bundle b;
    if (!view_of(bytes, &b) || !b.targets_count) return NULL;
    for (uint32_t k = 1; k < b.kernels_count; k++)
        if (strcmp(hn_bundle_text(&b, b.kernels[k].name), entry) == 0)
            return hn_bundle_text(&b, hn_bundle_code(&b, k, 0)->symbol);
    return NULL;
}

/* ---- which image fits ---- */

bool hn_images_find(hn_str bytes, const char *arch, hn_image *out) {
    bool is_ptx;
    int number, best = -1;
    char suffix;
    hn_image image;
    hn_bundle b;
    if (!view_of(bytes, &b)) return false;
    for (uint32_t i = 0; i < b.objects_count; i++) {
        image_of(&b, i, &image);
        if (strcmp(image.arch, arch) != 0) continue;
        *out = image;
        return true;
    }
    if (!hn_arch_parse(arch, &is_ptx, &number, &suffix) || is_ptx) return false;
    for (uint32_t i = 0; i < b.objects_count; i++) {
        image_of(&b, i, &image);
        int fit = hn_arch_fitness(image.arch, number);
        if (fit <= best) continue;
        best = fit;
        *out = image;
    }
    return best >= 0;
}
