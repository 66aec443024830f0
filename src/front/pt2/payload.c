/* payload.c: the tables of weights and constants, and the storages behind them. Several tensors may
 * be views of one record (tied, transposed, sliced weights): it becomes one storage. */
#include "front/pt2/import.h"

#include "base/checked.h"

/* --- views --- */

/* Bytes that the view reaches in its record. False on overflow. */
static bool view_bytes(const hn_pt2_payload *p, int64_t *out) {
    int64_t last = p->offset_elems, step = 0, bytes = hn_dtype_facts(p->dtype)->size_bytes;
    bool empty = false;
    for (uint32_t k = 0; k < p->rank; k++) {
        if (p->sizes[k] < 0 || p->strides[k] < 0) return false;
        empty = empty || p->sizes[k] == 0;
    }
    *out = 0;
    if (empty) return true;
    for (uint32_t k = 0; k < p->rank; k++)
        if (!hn_mul_i64(p->sizes[k] - 1, p->strides[k], &step) || !hn_add_i64(last, step, &last))
            return false;
    return hn_add_i64(last, 1, &last) && hn_mul_i64(last, bytes, out);
}

hn_status hn_pt2_payload_add(hn_pt2_importer *im, hn_strmap *table, hn_pt2_payload payload) {
    int64_t bytes = 0;
    if (!payload.problem && (payload.offset_elems < 0 || !view_bytes(&payload, &bytes) ||
                             (uint64_t)bytes > payload.record->size_bytes))
        return HN_ERROR(HN_CORRUPT,
                        "tensor '" HN_STR_FMT "' reaches beyond its record of %llu bytes",
                        HN_STR_ARG(payload.name), (unsigned long long)payload.record->size_bytes);
    if (hn_strmap_get(table, payload.name))
        return HN_ERROR(HN_CORRUPT, "tensor '" HN_STR_FMT "' is stored twice",
                        HN_STR_ARG(payload.name));
    HN_TRY(hn_strmap_put(table, payload.name, im->payloads.count));
    HN_PUSH(im->scratch, &im->payloads, payload);
    return NULL;
}

/* --- the JSON tables of the raw generation --- */

static hn_status copy_ints(hn_arena *arena, const int64_t *from, uint32_t count,
                           const int64_t **out) {
    int64_t *copy = NULL;
    HN_TRY(hn_arena_array(arena, count, sizeof *copy, &copy));
    if (count) memcpy(copy, from, count * sizeof *copy);
    *out = copy;
    return NULL;
}

static hn_status payload_meta(hn_pt2_importer *im, hn_json *json, hn_pt2_payload *out) {
    hn_pt2_meta meta;
    if (hn_json_null(json)) {
        out->problem = "has no recorded shape";
        return NULL;
    }
    HN_TRY(hn_pt2_meta_read(im, json, &meta));
    out->dtype = meta.dtype;
    out->rank = meta.rank;
    out->offset_elems = meta.offset;
    if (!meta.constant || meta.offset < 0) {
        out->problem = "has a symbolic shape";
    } else if (!meta.dtype) {
        out->problem = hn_arena_printf(im->scratch, "has dtype %s, which henry does not support",
                                       hn_pt2_dtype_name(meta.dtype_code));
    }
    HN_TRY(copy_ints(im->scratch, meta.ints, meta.rank, &out->sizes));
    return copy_ints(im->scratch, meta.int_strides, meta.rank, &out->strides);
}

/* PayloadMeta: path_name, is_param, use_pickle, tensor_meta */
static hn_status payload_read(hn_pt2_importer *im, hn_json *json, const char *folder,
                              hn_strmap *table, hn_str name) {
    hn_pt2_payload payload = {.name = name, .zip = &im->file->zip};
    hn_str path = {0};
    bool pickled = false;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("path_name"))) HN_TRY(hn_json_string(json, &path));
        else if (hn_str_eq(key, HN_STR("use_pickle"))) HN_TRY(hn_json_bool(json, &pickled));
        else if (hn_str_eq(key, HN_STR("tensor_meta"))) HN_TRY(payload_meta(im, json, &payload));
        else HN_TRY(hn_json_skip(json));
    }
    HN_TRY(hn_json_status(json));
    if (pickled) payload.problem = "is a pickled Python object, not a plain tensor";
    payload.record = hn_pt2_record(im->file, folder, path, "");
    if (!payload.record && !payload.problem)
        return HN_ERROR(HN_CORRUPT,
                        "tensor '" HN_STR_FMT "' names the record '%s" HN_STR_FMT
                        "', which is missing",
                        HN_STR_ARG(name), folder, HN_STR_ARG(path));
    return hn_pt2_payload_add(im, table, payload);
}

static hn_status table_read(hn_pt2_importer *im, hn_json *json, const char *folder,
                            hn_strmap *table) {
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (!hn_str_eq(key, HN_STR("config"))) {
            HN_TRY(hn_json_skip(json));
            continue;
        }
        HN_TRY(hn_json_object(json));
        for (hn_str name; hn_json_key(json, &name);)
            HN_TRY(hn_status_annotate(payload_read(im, json, folder, table, name),
                                      "tensor '" HN_STR_FMT "'", HN_STR_ARG(name)));
        HN_TRY(hn_json_status(json));
    }
    return hn_json_finish(json);
}

/* Where one kind of tensors may be described: the current name, the one before, and the pickled
 * form. */
typedef struct table_names {
    const char *folder, *config, *old_config;
} table_names;
static const table_names weights_names = {"data/weights/", "_weights_config.json",
                                          "_model_param_config.json"};
static const table_names constants_names = {"data/constants/", "_constants_config.json",
                                            "_model_constants_config.json"};

static hn_status rooted_read(hn_pt2_importer *im, const table_names *names, hn_strmap *table) {
    hn_zip_entry *config = hn_pt2_record(im->file, names->folder, im->model, names->config);
    if (!config) config = hn_pt2_record(im->file, names->folder, im->model, names->old_config);
    hn_zip_entry *pickled =
        config ? NULL : hn_pt2_record(im->file, names->folder, im->model, ".pt");
    if (pickled) return hn_pt2_legacy_read(im, pickled, table);
    if (!config)
        /* a model without such tensors; a name that is needed and missing is an error there */
        return NULL;
    hn_str text;
    hn_json json;
    HN_TRY(hn_zip_read(&im->file->zip, config, HN_ZIP_CHECK_CRC, &text, NULL));
    hn_json_init(&json, im->scratch, text);
    return hn_status_annotate(table_read(im, &json, names->folder, table),
                              "record '" HN_STR_FMT "'", HN_STR_ARG(config->name));
}

static hn_status flat_read(hn_pt2_importer *im, const char *name, hn_strmap *table) {
    hn_zip_entry *entry = hn_pt2_record(im->file, name, HN_STR(""), "");
    return entry && entry->size_bytes ? hn_pt2_legacy_read(im, entry, table) : NULL;
}

hn_status hn_pt2_payloads_read(hn_pt2_importer *im) {
    hn_strmap_init(&im->weights, im->scratch);
    hn_strmap_init(&im->constants, im->scratch);
    hn_map_init(&im->storages, im->scratch);
    if (im->file->generation == HN_PT2_FLAT) {
        HN_TRY(flat_read(im, "serialized_state_dict.pt", &im->weights));
        return flat_read(im, "serialized_constants.pt", &im->constants);
    }
    HN_TRY(rooted_read(im, &weights_names, &im->weights));
    return rooted_read(im, &constants_names, &im->constants);
}

/* --- bytes --- */

/* Archives of Python's zipfile do not align records; kernels want at least an element's
 * alignment. */
static hn_status aligned(hn_pt2_importer *im, hn_str *bytes) {
    if (((uintptr_t)bytes->ptr & 15) == 0 || bytes->len == 0) return NULL;
    char *copy = hn_arena_alloc(&im->file->arena, bytes->len);
    if (!copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to align %zu bytes of weights", bytes->len);
    memcpy(copy, bytes->ptr, bytes->len);
    bytes->ptr = copy;
    return NULL;
}

hn_status hn_pt2_storage_of(hn_pt2_importer *im, hn_graph *graph, const hn_pt2_payload *payload,
                            uint32_t *out) {
    const uint64_t *known = hn_map_get(&im->storages, (uintptr_t)payload->record);
    if (known) {
        *out = (uint32_t)*known;
        return NULL;
    }
    hn_str bytes;
    uint64_t offset = 0;
    HN_TRY(hn_zip_read(payload->zip, payload->record, HN_ZIP_TRUST, &bytes, &offset));
    bool *was_read;
    HN_NEW(&im->file->arena, was_read, 1);
    /* or in the bytes of one, in memory */
    bool in_file = offset != 0 && payload->zip_offset != UINT64_MAX;
    HN_PUSH(&im->file->arena, &im->file->unread,
            ((hn_pt2_unread){payload->zip, payload->record, (const uint8_t *)bytes.ptr, was_read,
                             !in_file}));
    HN_TRY(aligned(im, &bytes));
    hn_storage storage = {.data = (const uint8_t *)bytes.ptr,
                          .size_bytes = bytes.len,
                          .file_record = HN_STR(""),
                          .was_read = was_read};
    if (in_file) {
        storage.file_record = payload->record->name;
        storage.file_offset = payload->zip_offset + offset;
    }
    *out = hn_graph_add_storage(graph, storage);
    if (!*out) return hn_graph_status(graph);
    return hn_map_put(&im->storages, (uintptr_t)payload->record, *out);
}
