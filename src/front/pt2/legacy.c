/* legacy.c: weights of older files: a torch.save archive inside the archive. Its records become
 * payloads like those of current files. */
#include "front/pt2/import.h"
#include "front/pt2/pickle.h"

/* The folder of the inner archive: "archive/" as a rule, the file's stem at times. */
static hn_zip_entry *pickle_find(hn_zip *zip, hn_str *out_root) {
    static const hn_str suffix = HN_STR("data.pkl");
    for (uint32_t k = 0; k < zip->entries.count; k++) {
        hn_str name = zip->entries.items[k].name;
        if (name.len < suffix.len ||
            memcmp(name.ptr + name.len - suffix.len, suffix.ptr, suffix.len) != 0)
            continue;
        *out_root = (hn_str){name.ptr, name.len - suffix.len};
        return &zip->entries.items[k];
    }
    return NULL;
}

static hn_zip_entry *record_find(hn_pt2_importer *im, hn_zip *zip, hn_str root, const char *folder,
                                 hn_str key) {
    char *name = hn_arena_printf(im->scratch, HN_STR_FMT "%s" HN_STR_FMT, HN_STR_ARG(root), folder,
                                 HN_STR_ARG(key));
    return name ? hn_zip_find(zip, (hn_str){name, root.len + strlen(folder) + key.len}) : NULL;
}

static hn_status byte_order_check(hn_pt2_importer *im, hn_zip *zip, hn_str root) {
    hn_zip_entry *entry = record_find(im, zip, root, "byteorder", HN_STR(""));
    hn_str text;
    if (!entry) return NULL;
    HN_TRY(hn_zip_read(zip, entry, HN_ZIP_CHECK_CRC, &text, NULL));
    if (hn_str_starts_with(text, HN_STR("little"))) return NULL;
    return HN_ERROR(HN_UNSUPPORTED,
                    "byte order of the weights is '" HN_STR_FMT "'; henry reads little",
                    HN_STR_ARG(text));
}

static hn_status tensor_add(hn_pt2_importer *im, hn_strmap *table, hn_zip *zip, uint64_t zip_offset,
                            hn_str root, const hn_pickle_tensor *t) {
    hn_pt2_payload payload = {.name = t->name,
                              .dtype = t->dtype,
                              .rank = t->rank,
                              .sizes = t->sizes,
                              .strides = t->strides,
                              .offset_elems = t->offset_elems,
                              .zip = zip,
                              .zip_offset = zip_offset};
    if (!t->dtype)
        payload.problem = hn_arena_printf(im->scratch, "has dtype %s, which henry does not support",
                                          t->dtype_name);
    if (t->rank > HN_MAX_RANK) payload.problem = "has more than 16 dimensions";
    payload.record = record_find(im, zip, root, "data/", t->storage);
    if (!payload.record)
        return HN_ERROR(HN_CORRUPT,
                        "tensor '" HN_STR_FMT "' names storage '" HN_STR_FMT "', which is missing",
                        HN_STR_ARG(t->name), HN_STR_ARG(t->storage));
    return hn_pt2_payload_add(im, table, payload);
}

static hn_status archive_read(hn_pt2_importer *im, hn_str bytes, uint64_t offset,
                              hn_strmap *table) {
    hn_zip *zip = NULL;
    hn_str root, text;
    hn_pickle_tensors tensors = {0};
    HN_NEW(&im->file->arena, zip, 1); /* storages keep pointing into it */
    HN_TRY(hn_zip_open(zip, &im->file->arena, bytes.ptr, bytes.len));
    hn_zip_entry *entry = pickle_find(zip, &root);
    if (!entry) return HN_ERROR(HN_CORRUPT, "no data.pkl inside");
    HN_TRY(byte_order_check(im, zip, root));
    HN_TRY(hn_zip_read(zip, entry, HN_ZIP_CHECK_CRC, &text, NULL));
    HN_TRY(hn_pickle_read(im->scratch, text, &tensors));
    for (uint32_t k = 0; k < tensors.count; k++)
        HN_TRY(tensor_add(im, table, zip, offset, root, &tensors.items[k]));
    return NULL;
}

hn_status hn_pt2_legacy_read(hn_pt2_importer *im, hn_zip_entry *archive, hn_strmap *table) {
    hn_str bytes;
    uint64_t offset = 0;
    HN_TRY(hn_zip_read(&im->file->zip, archive, HN_ZIP_TRUST, &bytes, &offset));
    if (offset == 0) offset = UINT64_MAX; /* inflated: its records have no place in the file */
    return hn_status_annotate(archive_read(im, bytes, offset, table), "record '" HN_STR_FMT "'",
                              HN_STR_ARG(archive->name));
}
