/* pt2.c: the importer's row, and opening an archive: which generation, which root folder, which
 * models. */
#include "front/pt2/archive.h"

#include <stdlib.h>

static hn_str arena_join(hn_arena *arena, hn_str a, const char *b, hn_str c, const char *d) {
    char *text =
        hn_arena_printf(arena, HN_STR_FMT "%s" HN_STR_FMT "%s", HN_STR_ARG(a), b, HN_STR_ARG(c), d);
    return text ? (hn_str){text, a.len + strlen(b) + c.len + strlen(d)} : HN_STR("");
}

hn_zip_entry *hn_pt2_record(hn_pt2 *file, const char *prefix, hn_str name, const char *suffix) {
    return hn_zip_find(&file->zip, arena_join(&file->arena, file->root, prefix, name, suffix));
}

static hn_str trim_right(hn_str text) {
    while (text.len && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r' ||
                        text.ptr[text.len - 1] == ' '))
        text.len--;
    return text;
}

/* The text of a small record; empty when it is missing. */
static hn_status text_read(hn_pt2 *file, const char *name, hn_str *out) {
    hn_zip_entry *entry = hn_pt2_record(file, name, HN_STR(""), "");
    *out = HN_STR("");
    if (!entry) return NULL;
    HN_TRY(hn_zip_read(&file->zip, entry, HN_ZIP_CHECK_CRC, out, NULL));
    *out = trim_right(*out);
    return NULL;
}

static hn_status model_add(hn_pt2 *file, hn_str name) {
    HN_PUSH(&file->arena, &file->models, name);
    return NULL;
}

/* "ROOT/models/NAME.json" */
static hn_status models_list(hn_pt2 *file) {
    hn_str folder = arena_join(&file->arena, file->root, "models/", HN_STR(""), "");
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        hn_str name = file->zip.entries.items[k].name;
        if (!hn_str_starts_with(name, folder) || name.len < folder.len + 6) continue;
        hn_str base = {name.ptr + folder.len, name.len - folder.len - 5};
        if (memcmp(base.ptr + base.len, ".json", 5) == 0) HN_TRY(model_add(file, base));
    }
    return NULL;
}

static bool has_folder(hn_pt2 *file, const char *folder) {
    hn_str prefix = arena_join(&file->arena, file->root, folder, HN_STR(""), "");
    for (uint32_t k = 0; k < file->zip.entries.count; k++)
        if (hn_str_starts_with(file->zip.entries.items[k].name, prefix)) return true;
    return false;
}

static hn_status no_models(hn_pt2 *file) {
    if (has_folder(file, "data/aotinductor/"))
        return HN_ERROR(
            HN_UNSUPPORTED,
            "archive holds only compiled AOTInductor code and no graph; export it with torch.export.save");
    return HN_ERROR(HN_CORRUPT, "archive holds no models/*.json; was it written to the end?");
}

/* Up to PyTorch 2.7. */
static hn_status flat_open(hn_pt2 *file) {
    hn_str version;
    file->generation = HN_PT2_FLAT;
    HN_TRY(text_read(file, "version", &version));
    if (version.len < 3 || version.ptr[0] != '8' || version.ptr[1] != '.')
        return HN_ERROR(HN_INCOMPATIBLE, "schema version is '" HN_STR_FMT "'; henry reads 8.*",
                        HN_STR_ARG(version));
    return model_add(file, HN_STR("model"));
}

static hn_status rooted_open(hn_pt2 *file) {
    hn_str version, order;
    HN_TRY(text_read(file, "archive_version", &version));
    if (version.len && !hn_str_eq(version, HN_STR("0")))
        return HN_ERROR(HN_INCOMPATIBLE, "archive version is '" HN_STR_FMT "'; henry reads 0",
                        HN_STR_ARG(version));
    HN_TRY(text_read(file, "byteorder", &order));
    if (order.len && !hn_str_eq(order, HN_STR("little")))
        return HN_ERROR(HN_UNSUPPORTED,
                        "byte order of the weights is '" HN_STR_FMT "'; henry reads little",
                        HN_STR_ARG(order));
    HN_TRY(models_list(file));
    file->generation = HN_PT2_RAW;
    return file->models.count ? NULL : no_models(file);
}

/* The root is the first record's first folder, or nothing. */
static hn_status root_find(hn_pt2 *file, bool *out_found) {
    *out_found = false;
    if (!file->zip.entries.count) return NULL;
    hn_str first = file->zip.entries.items[0].name;
    const char *slash = memchr(first.ptr, '/', first.len);
    for (int attempt = 0; attempt < 2 && !*out_found; attempt++) {
        hn_str format;
        file->root = attempt == 0 && slash ? (hn_str){first.ptr, (size_t)(slash - first.ptr) + 1}
                                           : HN_STR("");
        HN_TRY(text_read(file, "archive_format", &format));
        *out_found = hn_str_eq(format, HN_STR("pt2"));
    }
    return NULL;
}

static hn_status archive_open(hn_pt2 *file, const void *bytes, size_t len) {
    bool rooted = false;
    HN_TRY(hn_zip_open(&file->zip, &file->arena, bytes, len));
    if (hn_zip_find(&file->zip, HN_STR("version")) &&
        hn_zip_find(&file->zip, HN_STR("serialized_exported_program.json")))
        return flat_open(file);
    HN_TRY(root_find(file, &rooted));
    if (rooted) return rooted_open(file);
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "zip archive is not a .pt2: it has no archive_format record; write one with torch.export.save");
}

/* ---- the row ---- */

/* Of bytes of no known kind: an archive without its end. */
static bool claims(const void *bytes, size_t len) {
    return len >= 2 && memcmp(bytes, "PK", 2) == 0;
}

static void file_close(hn_model_file *base) {
    hn_pt2 *file = hn_pt2_of(base);
    hn_arena_deinit(&file->arena);
    free(file);
}

static hn_status file_open(const void *bytes, size_t len, hn_model_file **out) {
    hn_pt2 *file = calloc(1, sizeof *file);
    if (!file) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an archive");
    hn_arena_init(&file->arena);
    hn_status status = archive_open(file, bytes, len);
    if (status) {
        file_close(&file->base);
        return status;
    }
    file->base.models = file->models.items;
    file->base.model_count = file->models.count;
    file->base.has_checksums = file->zip.has_checksums;
    file->base.may_share = hn_pt2_may_share(file);
    *out = &file->base;
    return NULL;
}

const hn_importer hn_importer_pt2 = {
    .name = "pt2",
    .kind = HN_KIND_PT2,
    .claims = claims,
    .open = file_open,
    .close = file_close,
    .import = hn_pt2_import,
    .look = hn_pt2_look,
    .forget_reads = hn_pt2_forget_reads,
    .verify_begin = hn_pt2_verify_begin,
    .verify_end = hn_pt2_verify_end,
    .verify_all = hn_pt2_verify_all,
    .key_parts = hn_pt2_key_parts,
    .key_check = hn_pt2_key_check,
    .reads = hn_pt2_reads,
    .values_digest = hn_pt2_values_digest,
    .places_digest = hn_pt2_places_digest,
};
