/* importer.c: the table of importers, and opening a model with the right one. This is the only file
 * outside of an importer's folder that names it. */
#include "front/importer.h"

#include "base/compiler.h"
#include "front/hnir/hnir.h"
#include "front/pt2/pt2.h"

static const hn_importer *const importers[] = {&hn_importer_pt2, &hn_importer_hnir};

void hn_importer_kinds(const char *joiner, hn_strbuf *out) {
    for (size_t k = 0; k < HN_COUNT_OF(importers); k++)
        hn_strbuf_printf(out, "%s%s", k ? joiner : "", hn_kind_name(importers[k]->kind));
}

static hn_status refuse(hn_kind kind) {
    hn_strbuf wanted;
    hn_strbuf_init(&wanted);
    hn_importer_kinds(" or ", &wanted);
    hn_status status = hn_strbuf_status(&wanted);
    if (!status) status = hn_kind_refuse_to_compile(kind, wanted.ptr);
    hn_strbuf_deinit(&wanted);
    return status;
}

hn_status hn_importer_find(const void *bytes, size_t len, const hn_importer **out) {
    hn_kind kind = hn_kind_of(bytes, len);
    for (size_t k = 0; k < HN_COUNT_OF(importers); k++) {
        *out = importers[k];
        if (kind == importers[k]->kind ||
            (kind == HN_KIND_UNKNOWN && importers[k]->claims(bytes, len)))
            return NULL;
    }
    return refuse(kind);
}

hn_status hn_model_open_memory(const void *bytes, size_t len, hn_model_file **out) {
    const hn_importer *importer;
    HN_TRY(hn_importer_find(bytes, len, &importer));
    HN_TRY(importer->open(bytes, len, out));
    (*out)->importer = importer;
    return NULL;
}

hn_status hn_model_open(const char *path, hn_model_file **out) {
    hn_file_map map;
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_model_open_memory(map.data, map.size_bytes, out);
    if (!status) {
        (*out)->map = map;
        return NULL;
    }
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "cannot open '%s'", path);
}

void hn_model_close(hn_model_file *file) {
    if (!file) return;
    hn_file_map map = file->map;
    file->importer->close(file);
    if (map.data) hn_file_map_deinit(&map);
}
