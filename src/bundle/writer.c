/* writer.c: laying out a bundle image. */
#include "bundle/writer.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/oserror.h"
#include "bundle/internal.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

hn_status hn_bundle_writer_init(hn_bundle_writer *w, hn_arena *arena) {
    *w = (hn_bundle_writer){.arena = arena};
    hn_strbuf_init(&w->strings);
    hn_strmap_init(&w->string_map, arena);
    HN_TRY(hn_nodes_init(&w->nodes, arena));
    HN_PUSH(arena, &w->buffers, (hnb_buffer){0});
    HN_PUSH(arena, &w->kernels, (hnb_kernel){0});
    HN_PUSH(arena, &w->storages, (hnb_storage){0});
    HN_PUSH(arena, &w->origins, (hnb_origin){0});
    return NULL;
}

void hn_bundle_writer_deinit(hn_bundle_writer *w) { hn_strbuf_deinit(&w->strings); }

hn_status hn_bundle_writer_str(hn_bundle_writer *w, hn_str text, hnb_str *out) {
    *out = (hnb_str){0};
    if (!text.len) return NULL;
    uint64_t *known = hn_strmap_get(&w->string_map, text);
    if (known) {
        *out = (hnb_str){(uint32_t)*known, (uint32_t)text.len};
        return NULL;
    }
    if (text.len >= UINT32_MAX - 1 - w->strings.len)
        return HN_ERROR(HN_UNSUPPORTED, "bundle strings exceed 4 GiB");
    char *key = hn_arena_strndup(w->arena, text.ptr, text.len);
    if (!key) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a bundle's strings");
    *out = (hnb_str){(uint32_t)w->strings.len, (uint32_t)text.len};
    hn_strbuf_append(&w->strings, text.ptr, text.len);
    hn_strbuf_putc(&w->strings, 0);
    return hn_strmap_put(&w->string_map, (hn_str){key, text.len}, out->offset);
}

hn_status hn_bundle_writer_piece(hn_bundle_writer *w, struct hn_writer_pieces *area,
                                 const void *bytes, uint64_t len, uint64_t *out_offset) {
    struct hn_writer_piece piece = {bytes, len, hn_align_up(area->end, HNB_ALIGN)};
    if (len > INT64_MAX - HNB_WEIGHTS_ALIGN - piece.offset)
        return HN_ERROR(HN_UNSUPPORTED, "bundle is too large");
    HN_PUSH(w->arena, area, piece);
    area->end = piece.offset + len;
    *out_offset = piece.offset;
    return NULL;
}

hn_status hn_bundle_writer_target(hn_bundle_writer *w, hnb_target_kind kind, uint32_t machine,
                                  hn_str name, hn_str features, uint32_t *out_target) {
    hnb_target target = {.kind = kind, .machine = machine, .features = w->features.count};
    HN_TRY(hn_bundle_writer_str(w, name, &target.name));
    for (size_t at = 0, len; at < features.len; at += len + 1) {
        hnb_str feature;
        len = strnlen(features.ptr + at, features.len - at);
        HN_TRY(hn_bundle_writer_str(w, (hn_str){features.ptr + at, len}, &feature));
        if (len) HN_PUSH(w->arena, &w->features, feature);
    }
    target.feature_count = w->features.count - target.features;
    *out_target = w->targets.count;
    HN_PUSH(w->arena, &w->targets, target);
    return NULL;
}

hn_status hn_bundle_writer_object(hn_bundle_writer *w, hnb_object_kind kind, uint32_t target,
                                  hn_str name, const void *bytes, uint64_t len,
                                  const uint8_t *digest, uint32_t *out_object) {
    hnb_object object = {.kind = kind,
                         .target = target,
                         .where = bytes ? HNB_OBJECT_EMBEDDED : HNB_OBJECT_REFERENCE,
                         .len = len};
    HN_TRY(hn_bundle_writer_str(w, name, &object.name));
    if (bytes) {
        hn_digest own = hn_digest_of(bytes, len);
        memcpy(object.digest, own.bytes, sizeof own.bytes);
        HN_TRY(hn_bundle_writer_piece(w, &w->code, bytes, len, &object.offset));
        w->code.end++; /* the zero byte behind it */
    } else if (digest) {
        memcpy(object.digest, digest, sizeof object.digest);
    }
    *out_object = w->objects.count;
    HN_PUSH(w->arena, &w->objects, object);
    return NULL;
}

typedef struct layout {
    hnb_header header;
    hnb_section sections[HNB_SECTION_KIND_COUNT - 1];
    const void *data[HNB_SECTION_KIND_COUNT - 1];
} layout;

static void place(layout *l, uint32_t kind, const void *items, uint64_t count, uint64_t *end) {
    uint32_t at = l->header.section_count++;
    uint64_t offset = hn_align_up(*end, HNB_ALIGN);
    l->sections[at] =
        (hnb_section){kind | (hn_bundle_sections[kind].is_extra ? HNB_SECTION_EXTRA : 0),
                      hn_bundle_sections[kind].elem_bytes, offset, count};
    l->data[at] = items;
    *end = offset + count * hn_bundle_sections[kind].elem_bytes;
}

static void lay_out(const hn_bundle_writer *w, layout *l) {
    const bool is_single = !w->programs.count && !w->is_inner;
    const uint32_t sections = HNB_SECTION_KIND_COUNT - 1 - (w->programs.count ? 0 : 1) -
                              (w->pieces.count ? 0 : 2) - (w->records.count ? 0 : 1) -
                              (w->tuning.len ? 0 : 1) - (w->weights_program.count ? 0 : 2) -
                              (w->choices.count ? 0 : 3);
    uint64_t end = sizeof(hnb_header) + sections * sizeof(hnb_section);
    *l = (layout){.header = {.version = w->choices.count           ? HNB_VERSION_VARIANTS
                                        : w->weights_program.count ? HNB_VERSION_COMPUTED
                                        : is_single                ? HNB_VERSION_SINGLE
                                                                   : HNB_VERSION,
                             .kernel_abi = HN_KERNEL_ABI_VERSION,
                             .extern_abi = HN_EXTERN_ABI_VERSION}};
    memcpy(l->header.magic, HNB_MAGIC, sizeof l->header.magic);
    place(l, HNB_INFO, &w->info, 1, &end);
#define PLACE(KIND, member) place(l, KIND, w->member.items, w->member.count, &end)
    PLACE(HNB_NODES, nodes);
    PLACE(HNB_SYMBOLS, symbols);
    PLACE(HNB_GUARDS, guards);
    PLACE(HNB_INPUTS, inputs);
    PLACE(HNB_OUTPUTS, outputs);
    PLACE(HNB_DIMS, dims);
    PLACE(HNB_BUFFERS, buffers);
    PLACE(HNB_STEPS, steps);
    PLACE(HNB_OPERANDS, operands);
    PLACE(HNB_PARAMS, params);
    PLACE(HNB_KERNELS, kernels);
    PLACE(HNB_OBJECTS, objects);
    PLACE(HNB_STORAGES, storages);
    PLACE(HNB_WEIGHT_FILE, weight_files);
    PLACE(HNB_ORIGINS, origins);
    PLACE(HNB_STEP_ORIGINS, step_origins);
    PLACE(HNB_FEATURES, features);
    PLACE(HNB_TARGETS, targets);
    PLACE(HNB_CODES, codes);
    PLACE(HNB_ARGS, args);
    PLACE(HNB_LAUNCHES, launches);
    PLACE(HNB_TENSORS, tensors);
    PLACE(HNB_WORKSPACES, workspaces);
    if (w->programs.count) PLACE(HNB_PROGRAMS, programs);
    if (w->pieces.count) PLACE(HNB_PIECES, pieces);
    if (w->pieces.count) PLACE(HNB_PIECE_DIMS, piece_dims);
    if (w->records.count) PLACE(HNB_RECORDS, records);
    if (w->weights_program.count) PLACE(HNB_WEIGHTS_PROGRAM, weights_program);
    if (w->weights_program.count) PLACE(HNB_WEIGHTS_SOURCES, weights_sources);
    if (w->choices.count) PLACE(HNB_CHOICES, choices);
    if (w->choices.count) PLACE(HNB_VARIANTS, variants);
    if (w->choices.count) PLACE(HNB_BOXES, boxes);
#undef PLACE
    place(l, HNB_STRINGS, w->strings.ptr, w->strings.len, &end);
    place(l, HNB_BLOB, NULL, w->blob.end, &end);
    if (w->tuning.len) place(l, HNB_TUNING, w->tuning.ptr, w->tuning.len, &end);
    place(l, HNB_KEY, w->key.ptr, w->key.len, &end);
    l->header.meta_bytes = l->header.file_bytes = end;
    if (w->code.end) {
        l->header.code_offset = hn_align_up(end, HNB_ALIGN);
        l->header.code_bytes = w->code.end;
        l->header.file_bytes = end = l->header.code_offset + w->code.end;
    }
    if (w->weights.end) {
        l->header.weights_offset = hn_align_up(end, HNB_WEIGHTS_ALIGN);
        l->header.weights_bytes = w->weights.end;
        l->header.file_bytes = l->header.weights_offset + w->weights.end;
    }
}

static void put_bytes(uint8_t *image, uint64_t *at, uint64_t offset, const void *bytes,
                      uint64_t len) {
    memset(image + *at, 0, offset - *at); /* padding is part of the digest */
    if (len && bytes) memcpy(image + offset, bytes, len);
    if (bytes || !len) *at = offset + len;
    else *at = offset;
}

static void put_pieces(uint8_t *image, uint64_t *at, uint64_t base,
                       const struct hn_writer_pieces *area) {
    for (uint32_t i = 0; i < area->count; i++)
        put_bytes(image, at, base + area->items[i].offset,
                  area->items[i].len ? area->items[i].bytes : "", area->items[i].len);
}

/* Digests of part two go into the info, so they come before the meta part is written. */
static void digest_weights(hn_bundle_writer *w) {
    hn_digest_state state;
    static const uint8_t zeros[HNB_ALIGN];
    uint64_t at = 0;
    if (!w->weights.end || !w->weights_digest) return;
    hn_digest_begin(&state);
    for (uint32_t i = 0; i < w->weights.count; i++) {
        hn_digest_update(&state, zeros, w->weights.items[i].offset - at);
        hn_digest_update(&state, w->weights.items[i].bytes, w->weights.items[i].len);
        at = w->weights.items[i].offset + w->weights.items[i].len;
    }
    hn_digest digest = hn_digest_end(&state);
    memcpy(w->info.weights_digest, digest.bytes, sizeof digest.bytes);
}

/* Where the parts in front of the weights end. */
static uint64_t image_bytes(const layout *l) {
    return l->header.code_bytes ? l->header.code_offset + l->header.code_bytes
                                : l->header.meta_bytes;
}

/* Parts one and two. */
static void put_image(const hn_bundle_writer *w, layout *l, uint8_t *image) {
    uint64_t at = 0;
    put_bytes(image, &at, 0, &l->header, sizeof l->header);
    put_bytes(image, &at, sizeof l->header, l->sections,
              l->header.section_count * sizeof *l->sections);
    for (uint32_t i = 0; i < l->header.section_count; i++) {
        const hnb_section *s = &l->sections[i];
        if (s->kind == HNB_BLOB) put_pieces(image, &at, s->offset, &w->blob);
        else put_bytes(image, &at, s->offset, l->data[i], s->count * s->elem_bytes);
    }
    memset(image + at, 0, l->header.meta_bytes - at);
    hn_digest digest = hn_bundle_meta_digest(image, l->header.meta_bytes);
    memcpy(l->header.digest, digest.bytes, sizeof digest.bytes);
    memcpy(image, &l->header, sizeof l->header);
    at = l->header.meta_bytes;
    put_pieces(image, &at, l->header.code_offset, &w->code);
    memset(image + at, 0, image_bytes(l) - at);
}

hn_status hn_bundle_writer_finish(hn_bundle_writer *w, hn_strbuf *out) {
    layout l;
    HN_TRY(hn_strbuf_status(&w->strings));
    digest_weights(w);
    lay_out(w, &l);
    if (out->len) return HN_ERROR(HN_INTERNAL, "the bundle image must start empty");
    uint8_t *image = (uint8_t *)hn_strbuf_reserve(out, l.header.file_bytes);
    if (!image) return hn_strbuf_status(out);
    put_image(w, &l, image);
    uint64_t at = image_bytes(&l);
    put_pieces(image, &at, l.header.weights_offset, &w->weights);
    out->len = l.header.file_bytes;
    out->ptr[out->len] = 0;
    return NULL;
}

/* ---- into a file ---- */

static hn_status write_all(int fd, const void *bytes, size_t len) {
    const uint8_t *at = bytes;
    while (len) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return HN_OS_ERROR(errno, "cannot write the bundle");
        at += n;
        len -= (size_t)n;
    }
    return NULL;
}

static hn_status write_zeros(int fd, uint64_t count) {
    static const uint8_t zeros[4096];
    while (count) {
        size_t n = count < sizeof zeros ? count : sizeof zeros;
        HN_TRY(write_all(fd, zeros, n));
        count -= n;
    }
    return NULL;
}

static hn_status write_image(hn_bundle_writer *w, layout *l, int fd) {
    uint64_t at = image_bytes(l);
    uint8_t *image = malloc(at);
    if (!image)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a bundle of %llu bytes",
                        (unsigned long long)at);
    put_image(w, l, image);
    hn_status status = write_all(fd, image, at);
    free(image);
    for (uint32_t i = 0; !status && i < w->weights.count; i++) {
        uint64_t offset = l->header.weights_offset + w->weights.items[i].offset;
        status = write_zeros(fd, offset - at);
        if (!status) status = write_all(fd, w->weights.items[i].bytes, w->weights.items[i].len);
        at = offset + w->weights.items[i].len;
    }
    return status;
}

hn_status hn_bundle_writer_save(hn_bundle_writer *w, const char *path) {
    layout l;
    HN_TRY(hn_strbuf_status(&w->strings));
    digest_weights(w);
    lay_out(w, &l);
    size_t bytes = strlen(path) + sizeof ".henry-tmp-XXXXXX";
    char *temp = malloc(bytes);
    if (!temp) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to write '%s'", path);
    snprintf(temp, bytes, "%s.henry-tmp-XXXXXX", path);
    int fd = mkostemp(temp, 02000000 /* O_CLOEXEC */);
    hn_status status =
        fd < 0 ? HN_OS_ERROR(errno, "cannot create '%s'", temp) : write_image(w, &l, fd);
    if (fd >= 0 && close(fd) != 0 && !status)
        status = HN_OS_ERROR(errno, "cannot write '%s'", temp);
    if (!status && rename(temp, path) != 0)
        status = HN_OS_ERROR(errno, "cannot rename '%s' to '%s'", temp, path);
    if (status && fd >= 0) (void)unlink(temp);
    free(temp);
    return hn_status_annotate(status, "cannot save bundle '%s'", path);
}
