/* file.c: the public functions that look at bundle files. */
#include "henry/bundle.h"

#include "base/file.h"
#include "bundle/view.h"
#include "bundle/weights.h"

#include <stdlib.h>

static hn_status open_file(const char *path, hn_file_map *map, hn_bundle *b) {
    HN_TRY(hn_file_map_init(map, path));
    hn_status status = hn_bundle_open(map->data, map->size_bytes, true, b);
    if (status) hn_file_map_deinit(map);
    return hn_status_annotate(status, "'%s'", path);
}

hn_status hn_bundle_verify_file(const char *path, bool weights) {
    hn_file_map map, weight_map;
    hn_bundle b;
    HN_TRY(open_file(path, &map, &b));
    hn_status status = hn_bundle_weights_check(&b, weights);
    if (!status && weights) {
        status = hn_bundle_weights_open(&b, path, NULL, true, &weight_map);
        if (!status) hn_file_map_deinit(&weight_map);
    }
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "'%s'", path);
}

hn_status hn_bundle_describe_file(const char *path, hn_bundle_format format, char **out_text, size_t *out_len) {
    hn_file_map map;
    hn_bundle b;
    hn_strbuf text;
    HN_TRY(open_file(path, &map, &b));
    hn_strbuf_init(&text);
    if (format == HN_BUNDLE_JSON) hn_bundle_describe_json(&b, &text);
    else hn_bundle_describe_text(&b, &text);
    hn_file_map_deinit(&map);
    hn_status status = hn_strbuf_status(&text);
    if (status) {
        hn_strbuf_deinit(&text);
        return status;
    }
    *out_text = text.ptr;
    *out_len = text.len;
    return NULL;
}

void hn_bundle_text_free(char *text) { free(text); }

hn_status hn_bundle_object_extract(const char *path, unsigned index, const char *out_path) {
    hn_file_map map;
    hn_bundle b;
    HN_TRY(open_file(path, &map, &b));
    hn_status status = NULL;
    if (index >= b.objects_count)
        status = HN_ERROR(HN_INVALID_ARGUMENT, "'%s' has no object %u; it has %u", path, index, b.objects_count);
    else if (b.objects[index].kind != HNB_OBJECT_EMBEDDED)
        status = HN_ERROR(HN_INVALID_ARGUMENT, "object %u of '%s' is not in the bundle", index, path);
    else
        status = hn_file_write_atomic(out_path, b.blob + b.objects[index].offset, b.objects[index].len, false);
    hn_file_map_deinit(&map);
    return status;
}
