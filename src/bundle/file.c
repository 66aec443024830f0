/* file.c: the public functions that look at bundle files. */
#include "henry/bundle.h"

#include "base/file.h"
#include "base/require.h"
#include "bundle/sign.h"
#include "bundle/weights.h"

#include <stdlib.h>
#include <string.h>

static hn_status open_file(const char *path, hn_file_map *map, hn_bundle *b) {
    HN_TRY(hn_file_map_init(map, path));
    hn_status status = hn_bundle_open(map->data, map->size_bytes, true, b);
    if (!status) status = hn_bundle_programs_check(b, true);
    if (status) hn_file_map_deinit(map);
    return hn_status_annotate(status, "'%s'", path);
}

static hn_status check_all(const hn_bundle *b, const char *path, const char *weights_path,
                           bool weights) {
    hn_file_map map;
    HN_TRY(hn_bundle_check_code(b));
    HN_TRY(hn_bundle_weights_check(b, weights));
    if (!weights) return NULL;
    HN_TRY(hn_bundle_weights_open(b, path, weights_path, true, &map));
    hn_file_map_deinit(&map);
    return NULL;
}

/* The digest does not cover the fields of the signature: none, or one that is right for the key
 * beside it. */
static hn_status check_signature(const hn_bundle *b) {
    const uint8_t *signature = b->header->signature;
    hn_public_key own;
    memcpy(own.bytes, b->header->signer, sizeof own.bytes);
    if (!hn_bundle_digest_is_unknown(own.bytes)) return hn_bundle_signature_check(b, &own, 1);
    if (hn_bundle_digest_is_unknown(signature) && hn_bundle_digest_is_unknown(signature + 32))
        return NULL;
    return HN_ERROR(HN_CORRUPT, "the bundle has a signature, but not whose");
}

static hn_status verify(const char *path, const char *weights_path, bool weights) {
    hn_file_map map;
    hn_bundle b;
    HN_TRY(open_file(path, &map, &b));
    hn_status status = check_signature(&b);
    if (!status) status = check_all(&b, path, weights_path, weights);
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "'%s'", path);
}

hn_status hn_bundle_verify_file(const char *path, bool weights) {
    HN_REQUIRE(path, "path");
    return verify(path, NULL, weights);
}

hn_status hn_bundle_verify_with(const char *path, const char *weights_path) {
    return verify(path, weights_path, true);
}

hn_status hn_bundle_verify_signed(const char *path, const char *weights_path,
                                  const hn_public_key *trusted, uint32_t trusted_count) {
    hn_file_map map;
    hn_bundle b;
    HN_REQUIRE(path, "path");
    if (trusted_count) HN_REQUIRE(trusted, "trusted");
    HN_TRY(open_file(path, &map, &b));
    hn_status status = hn_bundle_signature_check(&b, trusted, trusted_count);
    if (!status) status = check_all(&b, path, weights_path, true);
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "'%s'", path);
}

hn_status hn_bundle_describe_file(const char *path, hn_bundle_format format, char **out_text,
                                  size_t *out_len) {
    hn_file_map map;
    hn_bundle b;
    hn_strbuf text;
    HN_REQUIRE(path, "path");
    HN_REQUIRE(out_text, "out_text");
    HN_REQUIRE(out_len, "out_len");
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

/* `index` counts the objects of all programs. */
static hn_status find_object(const hn_bundle *file, uint32_t index, hn_str *out) {
    hn_bundle program;
    uint32_t k = hn_bundle_program_count(file) - 1;
    while (k && file->programs[k].first_object > index) k--;
    HN_TRY(hn_bundle_program_open(file, k, true, &program));
    return hn_bundle_object_get(&program, index - program.first_object, true, out);
}

hn_status hn_bundle_object_extract(const char *path, unsigned index, const char *out_path) {
    hn_file_map map;
    hn_bundle b;
    HN_REQUIRE(path, "path");
    HN_REQUIRE(out_path, "out_path");
    HN_TRY(open_file(path, &map, &b));
    hn_str bytes;
    hn_status status = hn_status_annotate(find_object(&b, index, &bytes), "'%s'", path);
    if (!status) status = hn_file_write_atomic(out_path, bytes.ptr, bytes.len, false);
    hn_file_map_deinit(&map);
    return status;
}
