/* weights.c: finding and checking weights. A zip archive (.pt2) ends with a directory of checksums,
 * so its first and last bytes tell two models apart without reading the weights. */
#include "bundle/weights.h"

#include <limits.h>
#include <sys/stat.h>

static bool same_digest(const hn_digest *digest, const uint8_t expected[32]) {
    return memcmp(digest->bytes, expected, sizeof digest->bytes) == 0;
}

static bool has_time(const char *path, int64_t mtime_ns) {
    struct stat st;
    return mtime_ns && stat(path, &st) == 0 &&
           (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == mtime_ns;
}

static hn_status check_file(const hnb_weight_file *file, const hn_file_map *map, const char *path,
                            bool full) {
    if (map->size_bytes != file->bytes)
        return HN_ERROR(
            HN_INCOMPATIBLE,
            "'%s' is not the file that the program was compiled with: it has %zu bytes, expected %llu",
            path, map->size_bytes, (unsigned long long)file->bytes);
    if (full || !has_time(path, file->mtime_ns)) {
        hn_digest digest = hn_bundle_ends_digest(map->data, map->size_bytes);
        if (!same_digest(&digest, file->ends_digest))
            return HN_ERROR(
                HN_INCOMPATIBLE,
                "'%s' is not the file that the program was compiled with: its content differs",
                path);
    }
    if (!full) return NULL;
    if (hn_bundle_digest_is_unknown(file->full_digest))
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "cannot verify: the bundle records no digest of its weights; compile it again, or verify '%s' itself",
            path);
    hn_digest digest = hn_digest_of(map->data, map->size_bytes);
    if (!same_digest(&digest, file->full_digest))
        return HN_ERROR(HN_CORRUPT, "the weights in '%s' are damaged", path);
    return NULL;
}

static hn_status open_at(const hnb_weight_file *file, const char *path, bool full,
                         hn_file_map *out) {
    HN_TRY(hn_file_map_init(out, path));
    hn_status status = check_file(file, out, path, full);
    if (status) {
        hn_file_map_deinit(out);
        *out = (hn_file_map){0};
    }
    return status;
}

/* Whether the file there is the right one. If not, the first such error is kept in `*status`: that
 * of the likeliest place. */
static bool try_at(const hnb_weight_file *file, const char *path, bool full, hn_file_map *out,
                   hn_status *status) {
    hn_status failed = open_at(file, path, full, out);
    if (failed && *status) hn_status_free(failed);
    else if (failed) *status = failed;
    if (failed) return false;
    hn_status_free(*status);
    *status = NULL;
    return true;
}

/* "<folder of bundle_path>/<name>" when that file exists. */
static bool beside(const char *bundle_path, const char *name, char out[PATH_MAX]) {
    const char *slash = bundle_path ? strrchr(bundle_path, '/') : NULL;
    int folder = slash ? (int)(slash - bundle_path) + 1 : 0;
    if (!bundle_path || name[0] == '/') return false;
    int len = snprintf(out, PATH_MAX, "%.*s%s", folder, bundle_path, name);
    return len > 0 && len < PATH_MAX && hn_file_exists(out);
}

hn_status hn_bundle_weights_open(const hn_bundle *b, const char *bundle_path,
                                 const char *given_path, bool full, hn_file_map *out) {
    char path[PATH_MAX];
    *out = (hn_file_map){0};
    if (!b->weight_files_count) return NULL;
    const hnb_weight_file *file = &b->weight_files[0];
    const char *hint = hn_bundle_text(b, file->path), *slash = strrchr(hint, '/'),
               *name = slash ? slash + 1 : hint;
    hn_status status = NULL;
    if (given_path) return open_at(file, given_path, full, out);
    if (beside(bundle_path, name, path) && try_at(file, path, full, out, &status)) return NULL;
    if (beside(bundle_path, hint, path) && try_at(file, path, full, out, &status)) return NULL;
    if (hn_file_exists(hint) && try_at(file, hint, full, out, &status)) return NULL;
    if (status) return status;
    return HN_ERROR(HN_NOT_FOUND,
                    "the weights file '%s' is not there; put it beside the bundle or give its path",
                    hint);
}

hn_status hn_bundle_weights_check(const hn_bundle *b, bool full) {
    const hnb_header *h = b->header;
    if (!h->weights_bytes) return NULL;
    if (b->len < h->file_bytes) return HN_ERROR(HN_CORRUPT, "the bundle's weights are cut off");
    const uint8_t *weights = b->bytes + h->weights_offset;
    if (!full) return NULL;
    if (hn_bundle_digest_is_unknown(b->info->weights_digest))
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "cannot verify: the bundle records no digest of its weights; compile it again");
    hn_digest digest = hn_digest_of(weights, h->weights_bytes);
    return same_digest(&digest, b->info->weights_digest)
               ? NULL
               : HN_ERROR(HN_CORRUPT, "the bundle's weights are damaged");
}

static void patch(const hn_bundle *b, uint8_t *bytes, const uint8_t place[32],
                  const hn_digest *digest) {
    memcpy(bytes + (place - b->bytes), digest->bytes, sizeof digest->bytes);
}

hn_status hn_bundle_weights_record(const hn_bundle *b, uint8_t *bytes, const char *bundle_path,
                                   const char *given_path) {
    hnb_header *header = (hnb_header *)(void *)bytes;
    hn_file_map map;
    if (b->header->weights_bytes && hn_bundle_digest_is_unknown(b->info->weights_digest)) {
        hn_digest digest =
            hn_digest_of(b->bytes + b->header->weights_offset, b->header->weights_bytes);
        patch(b, bytes, b->info->weights_digest, &digest);
    } else if (b->header->weights_bytes) {
        HN_TRY(hn_bundle_weights_check(b, true));
    }
    if (b->weight_files_count) {
        bool is_known = !hn_bundle_digest_is_unknown(b->weight_files[0].full_digest);
        HN_TRY(hn_bundle_weights_open(b, bundle_path, given_path, is_known, &map));
        hn_digest digest = is_known ? (hn_digest){{0}} : hn_digest_of(map.data, map.size_bytes);
        if (!is_known) patch(b, bytes, b->weight_files[0].full_digest, &digest);
        hn_file_map_deinit(&map);
    }
    hn_digest meta = hn_bundle_meta_digest(bytes, header->meta_bytes);
    memcpy(header->digest, meta.bytes, sizeof header->digest);
    return NULL;
}

static hnb_section *section_of(uint8_t *image, uint32_t kind) {
    hnb_section *table = (void *)(image + sizeof(hnb_header));
    for (uint32_t k = 0; k < ((hnb_header *)(void *)image)->section_count; k++)
        if (table[k].kind == kind) return &table[k];
    return NULL;
}

bool hn_bundle_weight_file_set(void *image, const char *path, const uint8_t *data, size_t bytes) {
    hnb_header *header = image;
    hnb_section *files = section_of(image, HNB_WEIGHT_FILE),
                *strings = section_of(image, HNB_STRINGS);
    struct stat st;
    if (!files || !files->count) return true;
    if (!strings || !path || stat(path, &st) != 0) return false;
    hnb_weight_file *file = (void *)((uint8_t *)image + files->offset);
    char *text = (char *)image + strings->offset + file->path.offset;
    int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    size_t len = strlen(path),
           room = file->path.len < HNB_PATH_ROOM ? HNB_PATH_ROOM - 1 : file->path.len;
    bool same_path = len == file->path.len && memcmp(text, path, len) == 0;
    if (same_path && file->bytes == bytes && file->mtime_ns == mtime_ns) return true;
    if (len > room || (uint64_t)file->path.offset + room >= strings->count) return false;
    memset(text, 0, room);
    memcpy(text, path, len);
    hn_digest ends = hn_bundle_ends_digest(data, bytes);
    file->path.len = (uint32_t)len;
    file->bytes = bytes;
    file->mtime_ns = mtime_ns;
    memcpy(file->ends_digest, ends.bytes, sizeof file->ends_digest);
    memset(file->full_digest, 0, sizeof file->full_digest);
    hn_digest digest = hn_bundle_meta_digest(image, header->meta_bytes);
    memcpy(header->digest, digest.bytes, sizeof header->digest);
    return true;
}
