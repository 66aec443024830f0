/* view.c: opening a bundle: header, digest, section table. What is inside the sections is check.c.
 * Objects are compared with their digests when they are taken out. */
#include "bundle/internal.h"

#include "base/checked.h"
#include "base/kind.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"

#include <string.h>

const hn_section_facts hn_bundle_sections[HNB_SECTION_KIND_COUNT] = {
    [HNB_STRINGS] = {"strings", 1, 0, UINT32_MAX},
    [HNB_INFO] = {"info", sizeof(hnb_info), 1, 1},
    [HNB_NODES] = {"nodes", sizeof(hnb_node), 1, UINT32_MAX},
    [HNB_SYMBOLS] = {"symbols", sizeof(hnb_symbol), 0, UINT32_MAX},
    [HNB_GUARDS] = {"guards", sizeof(hnb_guard), 0, UINT32_MAX},
    [HNB_INPUTS] = {"inputs", sizeof(hnb_input), 0, UINT32_MAX},
    [HNB_OUTPUTS] = {"outputs", sizeof(hnb_output), 0, UINT32_MAX},
    [HNB_DIMS] = {"dims", sizeof(uint32_t), 0, UINT32_MAX},
    [HNB_BUFFERS] = {"buffers", sizeof(hnb_buffer), 1, UINT32_MAX},
    [HNB_STEPS] = {"steps", sizeof(hnb_step), 0, UINT32_MAX},
    [HNB_OPERANDS] = {"operands", sizeof(hnb_operand), 0, UINT32_MAX},
    [HNB_PARAMS] = {"params", sizeof(uint32_t), 0, UINT32_MAX},
    [HNB_KERNELS] = {"kernels", sizeof(hnb_kernel), 1, UINT32_MAX},
    [HNB_OBJECTS] = {"objects", sizeof(hnb_object), 0, UINT32_MAX},
    [HNB_BLOB] = {"blob", 1, 0, UINT32_MAX},
    [HNB_STORAGES] = {"storages", sizeof(hnb_storage), 1, UINT32_MAX},
    [HNB_WEIGHT_FILE] = {"weight file", sizeof(hnb_weight_file), 0, 1},
    [HNB_ORIGINS] = {"origins", sizeof(hnb_origin), 1, UINT32_MAX},
    [HNB_FEATURES] = {"features", sizeof(hnb_str), 0, UINT32_MAX},
    [HNB_TARGETS] = {"targets", sizeof(hnb_target), 0, HNB_MAX_TARGETS},
    [HNB_CODES] = {"codes", sizeof(hnb_code), 0, UINT32_MAX},
    [HNB_ARGS] = {"args", sizeof(hnb_arg), 0, UINT32_MAX},
    [HNB_LAUNCHES] = {"launches", sizeof(hnb_launch), 0, UINT32_MAX},
    [HNB_TENSORS] = {"tensors", sizeof(hnb_tensor), 0, UINT32_MAX},
    [HNB_KEY] = {"key", 1, 0, UINT32_MAX},
    [HNB_WORKSPACES] = {"workspaces", sizeof(hnb_workspace), 0, HN_DEVICE_KIND_COUNT},
    [HNB_PROGRAMS] = {"programs", sizeof(hnb_program), 2, HN_DEVICE_KIND_COUNT},
    [HNB_STEP_ORIGINS] = {"step origins", sizeof(uint32_t), 0, UINT32_MAX},
    [HNB_PIECES] = {"pieces", sizeof(hnb_piece), 1, UINT32_MAX},
    [HNB_PIECE_DIMS] = {"piece dimensions", sizeof(hn_box_dim), 0, UINT32_MAX},
    [HNB_RECORDS] = {"records", sizeof(hnb_record), 0, UINT32_MAX, .is_extra = true},
    [HNB_TUNING] = {"tuning", 1, 0, UINT32_MAX, .is_extra = true},
    [HNB_WEIGHTS_PROGRAM] = {"program of weights", sizeof(hnb_weights_program), 1, 1},
    [HNB_WEIGHTS_SOURCES] = {"sources of weights", sizeof(uint32_t), 1, UINT32_MAX},
    [HNB_CHOICES] = {"choices", sizeof(hnb_choice), 1, UINT32_MAX},
    [HNB_VARIANTS] = {"variants", sizeof(hnb_variant), 1, UINT32_MAX},
    [HNB_BOXES] = {"boxes", sizeof(hn_choice_box), 0, UINT32_MAX},
};

bool hn_bundle_digest_is_unknown(const uint8_t digest[32]) {
    static const uint8_t zeros[32];
    return memcmp(digest, zeros, sizeof zeros) == 0;
}

hn_digest hn_bundle_meta_digest(const void *bytes, size_t meta_bytes) {
    hnb_header header;
    hn_digest_state state;
    memcpy(&header, bytes, sizeof header);
    memset(header.digest, 0, sizeof header.digest);
    memset(header.signer, 0, sizeof header.signer);
    memset(header.signature, 0, sizeof header.signature);
    hn_digest_begin(&state);
    hn_digest_update(&state, &header, sizeof header);
    hn_digest_update(&state, (const uint8_t *)bytes + sizeof header, meta_bytes - sizeof header);
    return hn_digest_end(&state);
}

hn_digest hn_bundle_ends_digest(const uint8_t *bytes, size_t len) {
    size_t head = len < HNB_HEAD_BYTES ? len : HNB_HEAD_BYTES,
           tail = len < HNB_TAIL_BYTES ? len : HNB_TAIL_BYTES;
    hn_digest_state state;
    hn_digest_begin(&state);
    hn_digest_update(&state, bytes, head);
    hn_digest_update(&state, bytes + len - tail, tail);
    return hn_digest_end(&state);
}

static bool version_ok(const hnb_header *h) {
    return h->version == HNB_VERSION_SINGLE || h->version == HNB_VERSION ||
           h->version == HNB_VERSION_COMPUTED || h->version == HNB_VERSION_VARIANTS;
}

static hn_status check_versions(const hnb_header *h) {
    if (!version_ok(h))
        return HN_ERROR(
            HN_INCOMPATIBLE,
            "bundle format version %u, this library reads %d to %d; compile the model again",
            h->version, HNB_VERSION_SINGLE, HNB_VERSION_VARIANTS);
    if (h->kernel_abi != HN_KERNEL_ABI_VERSION || h->extern_abi != HN_EXTERN_ABI_VERSION)
        return HN_ERROR(
            HN_INCOMPATIBLE,
            "bundle has kernel ABI %u and extern ABI %u, this library %d and %d; compile the model again",
            h->kernel_abi, h->extern_abi, HN_KERNEL_ABI_VERSION, HN_EXTERN_ABI_VERSION);
    return NULL;
}

/* Part [offset, offset + bytes) at a multiple of `align` behind `*end`, which moves; none: both are
 * 0. */
static bool part_ok(uint64_t offset, uint64_t bytes, uint64_t align, uint64_t *end) {
    if (!bytes) return offset == 0;
    if (offset % align || offset < *end || offset - *end >= align) return false;
    return !__builtin_add_overflow(offset, bytes, end);
}

static hn_status check_parts(const hnb_header *h, size_t len) {
    uint64_t table_bytes = (uint64_t)h->section_count * sizeof(hnb_section), end = h->meta_bytes,
             image;
    bool ok = h->meta_bytes >= sizeof *h + table_bytes &&
              part_ok(h->code_offset, h->code_bytes, HNB_ALIGN, &end);
    image = end;
    ok = ok && part_ok(h->weights_offset, h->weights_bytes, HNB_WEIGHTS_ALIGN, &end) &&
         end == h->file_bytes;
    if (!ok)
        return HN_ERROR(
            HN_CORRUPT,
            "bundle header: tables of %llu bytes, code of %llu at %llu, weights of %llu at %llu in a file of %llu",
            (unsigned long long)h->meta_bytes, (unsigned long long)h->code_bytes,
            (unsigned long long)h->code_offset, (unsigned long long)h->weights_bytes,
            (unsigned long long)h->weights_offset, (unsigned long long)h->file_bytes);
    if (len != h->file_bytes && len != image)
        return HN_ERROR(HN_CORRUPT,
                        "bundle has %zu bytes, its header says %llu: cut short or appended to", len,
                        (unsigned long long)h->file_bytes);
    return NULL;
}

/* The version decides what the header means, so it is judged before its size. */
static hn_status check_header(const void *bytes, size_t len) {
    const hnb_header *h = bytes;
    HN_TRY(hn_kind_refuse_to_load(hn_kind_of(bytes, len)));
    if (len < offsetof(hnb_header, section_count))
        return HN_ERROR(HN_CORRUPT, "not a bundle: %zu bytes", len);
    if (memcmp(h->magic, HNB_MAGIC, sizeof h->magic) != 0)
        return HN_ERROR(HN_CORRUPT, "not a bundle: wrong magic number");
    if (!version_ok(h) || len >= sizeof *h) HN_TRY(check_versions(h));
    if (len < sizeof *h)
        return HN_ERROR(HN_CORRUPT, "bundle has %zu bytes, fewer than its header: cut short", len);
    return check_parts(h, len);
}

static void set_section(hn_bundle *b, uint32_t kind, const void *at, uint64_t count) {
    switch (kind) {
#define HN_SET(KIND, member)                                                                       \
    case KIND: b->member = at, b->member##_count = (uint32_t)count; break;
        HN_SET(HNB_NODES, nodes)
        HN_SET(HNB_SYMBOLS, symbols)
        HN_SET(HNB_GUARDS, guards)
        HN_SET(HNB_INPUTS, inputs)
        HN_SET(HNB_OUTPUTS, outputs)
        HN_SET(HNB_DIMS, dims)
        HN_SET(HNB_BUFFERS, buffers)
        HN_SET(HNB_STEPS, steps)
        HN_SET(HNB_OPERANDS, operands)
        HN_SET(HNB_PARAMS, params)
        HN_SET(HNB_KERNELS, kernels)
        HN_SET(HNB_OBJECTS, objects)
        HN_SET(HNB_STORAGES, storages)
        HN_SET(HNB_WEIGHT_FILE, weight_files)
        HN_SET(HNB_ORIGINS, origins)
        HN_SET(HNB_STEP_ORIGINS, step_origins)
        HN_SET(HNB_FEATURES, features)
        HN_SET(HNB_TARGETS, targets)
        HN_SET(HNB_CODES, codes)
        HN_SET(HNB_ARGS, args)
        HN_SET(HNB_LAUNCHES, launches)
        HN_SET(HNB_TENSORS, tensors)
        HN_SET(HNB_WORKSPACES, workspaces)
        HN_SET(HNB_PROGRAMS, programs)
        HN_SET(HNB_PIECES, pieces)
        HN_SET(HNB_PIECE_DIMS, piece_dims)
        HN_SET(HNB_RECORDS, records)
        HN_SET(HNB_WEIGHTS_PROGRAM, weights_program)
        HN_SET(HNB_WEIGHTS_SOURCES, weights_sources)
        HN_SET(HNB_CHOICES, choices)
        HN_SET(HNB_VARIANTS, variants)
        HN_SET(HNB_BOXES, boxes)
#undef HN_SET
    case HNB_INFO: b->info = at; break;
    case HNB_STRINGS: b->strings = at, b->strings_bytes = count; break;
    case HNB_BLOB: b->blob = at, b->blob_bytes = count; break;
    case HNB_TUNING: b->tuning = at, b->tuning_bytes = count; break;
    case HNB_KEY: b->key = at, b->key_bytes = count; break;
    default: break;
    }
}

static bool may_be_missing(uint32_t kind) {
    return kind == HNB_KEY || kind == HNB_PROGRAMS || kind == HNB_PIECES ||
           kind == HNB_PIECE_DIMS || kind == HNB_WEIGHTS_PROGRAM || kind == HNB_WEIGHTS_SOURCES ||
           kind == HNB_CHOICES || kind == HNB_VARIANTS || kind == HNB_BOXES ||
           hn_bundle_sections[kind].is_extra;
}

static bool lies_inside(const hn_bundle *b, const hnb_section *s) {
    size_t bytes, end;
    return s->offset % HNB_ALIGN == 0 && hn_mul_size(s->count, s->elem_bytes, &bytes) &&
           hn_add_size(s->offset, bytes, &end) && end <= b->header->meta_bytes;
}

/* Of a later version, and nothing that one must know. */
static bool may_be_left_out(const hnb_section *s) {
    const uint32_t kind = s->kind & ~HNB_SECTION_EXTRA;
    if (!(s->kind & HNB_SECTION_EXTRA)) return false;
    return kind >= HNB_SECTION_KIND_COUNT || hn_bundle_sections[kind].elem_bytes != s->elem_bytes;
}

static hn_status open_section(hn_bundle *b, const hnb_section *s, bool *seen) {
    const uint32_t kind = s->kind & ~HNB_SECTION_EXTRA;
    const bool is_extra = s->kind != kind;
    if (may_be_left_out(s))
        return lies_inside(b, s)
                   ? NULL
                   : HN_ERROR(HN_CORRUPT, "bundle section of kind %u lies outside the file", kind);
    if (kind == 0 || kind >= HNB_SECTION_KIND_COUNT ||
        is_extra != hn_bundle_sections[kind].is_extra)
        return HN_ERROR(HN_CORRUPT, "bundle has a section of unknown kind %u", s->kind);
    const hn_section_facts *facts = &hn_bundle_sections[kind];
    if (seen[kind]) return HN_ERROR(HN_CORRUPT, "bundle has section '%s' twice", facts->name);
    if (kind == HNB_PROGRAMS && b->header->version == HNB_VERSION_SINGLE)
        return HN_ERROR(HN_CORRUPT, "bundle of version %u has a section '%s'", HNB_VERSION_SINGLE,
                        facts->name);
    if ((kind == HNB_WEIGHTS_PROGRAM && b->header->version < HNB_VERSION_COMPUTED) ||
        (kind == HNB_CHOICES && b->header->version < HNB_VERSION_VARIANTS))
        return HN_ERROR(HN_CORRUPT, "bundle of version %u has a section '%s'", b->header->version,
                        facts->name);
    seen[kind] = true;
    if (s->elem_bytes != facts->elem_bytes)
        return HN_ERROR(HN_CORRUPT, "bundle section '%s' has elements of %u bytes, must be %u",
                        facts->name, s->elem_bytes, facts->elem_bytes);
    if (!lies_inside(b, s))
        return HN_ERROR(HN_CORRUPT, "bundle section '%s' lies outside the file", facts->name);
    if (s->elem_bytes > 1 && (s->count < facts->min_count || s->count > facts->max_count))
        return HN_ERROR(HN_CORRUPT, "bundle section '%s' has %llu elements", facts->name,
                        (unsigned long long)s->count);
    set_section(b, kind, b->bytes + s->offset, s->count);
    return NULL;
}

static hn_status open_sections(hn_bundle *b) {
    bool seen[HNB_SECTION_KIND_COUNT] = {false};
    const hnb_section *table = (const void *)(b->bytes + sizeof *b->header);
    for (uint32_t i = 0; i < b->header->section_count; i++)
        HN_TRY(open_section(b, &table[i], seen));
    for (uint32_t kind = 1; kind < HNB_SECTION_KIND_COUNT; kind++)
        if (!seen[kind] && !may_be_missing(kind))
            return HN_ERROR(HN_CORRUPT, "bundle lacks section '%s'", hn_bundle_sections[kind].name);
    return NULL;
}

/* With the weights of the file that it is in, if it is one of several programs. */
static void set_weights(hn_bundle *b, const hn_bundle *file) {
    const hnb_header *h = b->header;
    if (file) {
        b->blob = file->blob, b->blob_bytes = file->blob_bytes;
        b->weights = file->weights, b->weights_bytes = file->weights_bytes;
        b->weight_file_bytes = file->weight_file_bytes;
        return;
    }
    b->weights = b->bytes + (b->len == h->file_bytes ? h->weights_offset : 0);
    b->weights_bytes = h->weights_bytes;
    b->weight_file_bytes = b->weight_files_count ? b->weight_files[0].bytes : 0;
}

/* One of several programs has no weights of its own, no signature and no programs in it. */
static hn_status check_inner(const hn_bundle *b) {
    const hnb_header *h = b->header;
    bool ok = h->version != HNB_VERSION_SINGLE && h->file_bytes == b->len && !h->weights_bytes &&
              !b->blob_bytes && !b->weight_files_count && !b->programs_count &&
              hn_bundle_digest_is_unknown(h->signer) && hn_bundle_digest_is_unknown(h->signature) &&
              hn_bundle_digest_is_unknown(h->signature + 32);
    return ok ? NULL : HN_ERROR(HN_CORRUPT, "it has what only a file has");
}

hn_status hn_bundle_open_in(const hn_bundle *file, const void *bytes, size_t len, bool check_digest,
                            bool is_of_weights, hn_bundle *out) {
    *out = (hn_bundle){.bytes = bytes, .len = len, .header = bytes, .is_of_weights = is_of_weights};
    if ((uintptr_t)bytes % 8)
        return HN_ERROR(HN_INVALID_ARGUMENT, "bundle bytes are not 8-byte aligned");
    HN_TRY(check_header(bytes, len));
    if (out->header->code_bytes) out->code = out->bytes + out->header->code_offset;
    if (check_digest) {
        hn_digest digest = hn_bundle_meta_digest(bytes, out->header->meta_bytes);
        if (memcmp(digest.bytes, out->header->digest, sizeof digest.bytes) != 0)
            return HN_ERROR(HN_CORRUPT, "bundle is damaged: its digest does not match");
    }
    HN_TRY(open_sections(out));
    if (file) HN_TRY(check_inner(out));
    set_weights(out, file);
    return hn_bundle_check(out);
}

hn_status hn_bundle_open(const void *bytes, size_t len, bool check_digest, hn_bundle *out) {
    return hn_bundle_open_in(NULL, bytes, len, check_digest, false, out);
}

hn_status hn_bundle_object_get(const hn_bundle *b, uint32_t object, bool verify, hn_str *out) {
    if (object >= b->objects_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the bundle has no object %u; it has %u", object,
                        b->objects_count);
    const hnb_object *o = &b->objects[object];
    if (o->where != HNB_OBJECT_EMBEDDED)
        return HN_ERROR(HN_INVALID_ARGUMENT, "object %u is not in the bundle", object);
    *out = (hn_str){(const char *)b->code + o->offset, o->len};
    if (!verify) return NULL;
    hn_digest digest = hn_digest_of(out->ptr, out->len);
    if (memcmp(digest.bytes, o->digest, sizeof digest.bytes) == 0 && !out->ptr[out->len])
        return NULL;
    return HN_ERROR(HN_CORRUPT, "bundle is damaged: object %u ('%s') does not match its digest",
                    object, hn_bundle_text(b, o->name));
}

static hn_status check_zeros(const hn_bundle *b, uint64_t from, uint64_t to) {
    static const uint8_t zeros[4096];
    for (uint64_t at = from, len; at < to; at += len) {
        len = to - at < sizeof zeros ? to - at : sizeof zeros;
        if (memcmp(b->bytes + at, zeros, len) != 0)
            return HN_ERROR(HN_CORRUPT, "bundle is damaged: the gap behind byte %llu is not zeros",
                            (unsigned long long)at);
    }
    return NULL;
}

/* check.c has seen that objects and programs are in order and apart. Objects of other programs are
 * checked with these. */
hn_status hn_bundle_check_own_code(const hn_bundle *b) {
    const hnb_header *h = b->header;
    uint64_t end = h->meta_bytes;
    for (uint32_t i = 0; i < b->objects_count; i++) {
        hn_str bytes;
        if (b->objects[i].where != HNB_OBJECT_EMBEDDED) continue;
        uint64_t offset = h->code_offset + b->objects[i].offset;
        HN_TRY(hn_bundle_object_get(b, i, true, &bytes));
        HN_TRY(check_zeros(b, end, offset));
        end = offset + b->objects[i].len;
    }
    for (uint32_t k = 0; k < b->weights_program_count; k++) {
        uint64_t offset = h->code_offset + b->weights_program[k].offset;
        HN_TRY(check_zeros(b, end, offset));
        end = offset + b->weights_program[k].len;
    }
    for (uint32_t k = 1; k < b->programs_count; k++) {
        uint64_t offset = h->code_offset + b->programs[k].offset;
        HN_TRY(check_zeros(b, end, offset));
        end = offset + b->programs[k].len;
    }
    if (h->code_bytes) {
        HN_TRY(check_zeros(b, end, h->code_offset + h->code_bytes));
        end = h->code_offset + h->code_bytes;
    }
    return b->len == h->file_bytes && h->weights_bytes ? check_zeros(b, end, h->weights_offset)
                                                       : NULL;
}

bool hn_bundle_code_use(const hn_bundle *b, const hnb_code *code, hn_cubin_use *out) {
    if (code->object == HNB_NO_OBJECT) return false;
    const hnb_object *o = &b->objects[code->object];
    if (o->kind != HNB_OBJECT_CUBIN || o->where != HNB_OBJECT_EMBEDDED) return false;
    const hn_str cubin = {(const char *)b->code + o->offset, o->len};
    return hn_cubin_use_find(cubin, hn_bundle_text(b, code->symbol), out);
}
