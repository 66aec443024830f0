/* test_sign.c: signatures: what verifies, and that nothing else does. */
#include "base/file.h"
#include "bundle/sign.h"
#include "bundle/weights.h"
#include "bundle/writer.h"
#include "unit/harness.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const float weight[4] = {1, 2, 3, 4};

typedef struct files {
    char dir[PATH_MAX], bundle[PATH_MAX + 16], beside[PATH_MAX + 16], secret[PATH_MAX + 16],
        public[PATH_MAX + 16];
    hn_public_key key;
} files;

/* A bundle with an object, and weights inside or in a file beside it. */
static void write_bundle(const files *f, bool inside) {
    hn_arena arena;
    hn_bundle_writer w;
    uint32_t target, object;
    uint64_t offset = 0;
    hn_arena_init(&arena);
    EXPECT_OK(hn_bundle_writer_init(&w, &arena));
    EXPECT_OK(hn_bundle_writer_target(&w, HNB_TARGET_CPU, HNB_MACHINE_HERE, HN_STR("generic"),
                                      HN_STR(""), &target));
    EXPECT_OK(hn_bundle_writer_object(&w, HNB_OBJECT_ELF, target, HN_STR("kernels"), "no code", 7,
                                      NULL, &object));
    if (inside) EXPECT_OK(hn_bundle_writer_piece(&w, &w.weights, weight, sizeof weight, &offset));
    hnb_storage storage = {.where = inside ? HNB_STORAGE_WEIGHTS : HNB_STORAGE_FILE,
                           .bytes = sizeof weight,
                           .offset = offset};
    hnb_storage storages[2] = {{0}, storage};
    w.storages.items = storages, w.storages.count = w.storages.cap = 2;
    hnb_weight_file file = {.bytes = sizeof weight};
    hn_digest ends = hn_bundle_ends_digest((const uint8_t *)weight, sizeof weight);
    memcpy(file.ends_digest, ends.bytes, sizeof ends.bytes);
    EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("weights"), &file.path));
    if (!inside) w.weight_files.items = &file, w.weight_files.count = w.weight_files.cap = 1;
    EXPECT_OK(hn_bundle_writer_save(&w, f->bundle));
    EXPECT_OK(hn_file_write_atomic(f->beside, weight, sizeof weight, false));
    hn_bundle_writer_deinit(&w);
    hn_arena_deinit(&arena);
}

static void begin(files *f) {
    EXPECT_OK(hn_dir_temp(f->dir, sizeof f->dir));
    snprintf(f->bundle, sizeof f->bundle, "%s/a.hnb", f->dir);
    snprintf(f->beside, sizeof f->beside, "%s/weights", f->dir);
    snprintf(f->secret, sizeof f->secret, "%s/a.key", f->dir);
    snprintf(f->public, sizeof f->public, "%s/a.pub", f->dir);
    EXPECT_OK(hn_bundle_keys_create(f->secret, f->public));
    EXPECT_OK(hn_public_key_read(f->public, &f->key));
}

TEST(what_is_signed_verifies) {
    files f;
    struct stat st;
    hn_public_key other = {{7}}, keys[2];
    begin(&f);
    EXPECT(stat(f.secret, &st) == 0 && (st.st_mode & 0777) == 0600);
    for (int inside = 0; inside < 2; inside++) {
        write_bundle(&f, inside);
        EXPECT_ERROR(hn_bundle_verify_signed(f.bundle, NULL, &f.key, 1), HN_INCOMPATIBLE,
                     "is not signed");
        EXPECT_OK(hn_bundle_sign_file(f.bundle, f.secret, NULL));
        EXPECT_OK(hn_bundle_verify_signed(f.bundle, NULL, &f.key, 1));
        EXPECT_OK(hn_bundle_verify_file(f.bundle, true));
        keys[0] = other, keys[1] = f.key;
        EXPECT_OK(hn_bundle_verify_signed(f.bundle, NULL, keys, 2));
        EXPECT_ERROR(hn_bundle_verify_signed(f.bundle, NULL, &other, 1), HN_INCOMPATIBLE,
                     "not among the trusted ones");
        EXPECT_ERROR(hn_bundle_verify_signed(f.bundle, NULL, NULL, 0), HN_INCOMPATIBLE,
                     "not among the trusted ones");
    }
    EXPECT_OK(hn_dir_remove(f.dir));
}

/* Whatever byte of a signed file is changed, also with a digest of part one that fits again: it
 * does not verify. */
TEST(what_was_changed_does_not) {
    files f;
    hn_strbuf image;
    begin(&f);
    write_bundle(&f, true);
    EXPECT_OK(hn_bundle_sign_file(f.bundle, f.secret, NULL));
    hn_strbuf_init(&image);
    EXPECT_OK(hn_file_read(f.bundle, &image));
    hnb_header *h = (hnb_header *)(void *)image.ptr;
    for (size_t at = 0; at < h->weights_offset + h->weights_bytes;
         at += at < h->code_offset + h->code_bytes ? 1 : 61) {
        for (int sealed = 0; sealed < 2; sealed++) {
            hnb_header before = *h;
            image.ptr[at] ^= 0x20;
            if (sealed && h->meta_bytes <= image.len) {
                hn_digest digest = hn_bundle_meta_digest(image.ptr, h->meta_bytes);
                memcpy(h->digest, digest.bytes, sizeof digest.bytes);
            }
            hn_bundle b;
            hn_status status = hn_bundle_open(image.ptr, image.len, true, &b);
            if (!status) status = hn_bundle_signature_check(&b, &f.key, 1);
            if (!status) status = hn_bundle_check_code(&b);
            if (!status) status = hn_bundle_weights_check(&b, true);
            if (!status && !(sealed && at >= offsetof(hnb_header, digest) &&
                             at < offsetof(hnb_header, signer)))
                HN_TEST_FAIL("a changed byte at %zu was accepted", at);
            hn_status_free(status);
            if (at >= sizeof *h) image.ptr[at] ^= 0x20;
            *h = before;
        }
    }
    hn_strbuf_deinit(&image);
    EXPECT_OK(hn_dir_remove(f.dir));
}

TEST(changed_weights_beside_are_refused) {
    files f;
    float changed[4] = {1, 2, 3, 5};
    begin(&f);
    write_bundle(&f, false);
    EXPECT_OK(hn_bundle_sign_file(f.bundle, f.secret, f.beside));
    EXPECT_OK(hn_file_write_atomic(f.beside, changed, sizeof changed, false));
    EXPECT_ERROR(hn_bundle_verify_signed(f.bundle, NULL, &f.key, 1), HN_INCOMPATIBLE,
                 "its content differs");
    EXPECT_ERROR(hn_bundle_sign_file(f.bundle, f.secret, NULL), HN_INCOMPATIBLE,
                 "its content differs");
    EXPECT_OK(hn_dir_remove(f.dir));
}

TEST(keys_that_are_none) {
    files f;
    hn_public_key key;
    begin(&f);
    write_bundle(&f, true);
    EXPECT_ERROR(hn_bundle_keys_create(f.secret, f.public), HN_IO, "cannot create the key file");
    EXPECT_ERROR(hn_public_key_read(f.secret, &key), HN_INVALID_ARGUMENT,
                 "is no file with a public key");
    EXPECT_ERROR(hn_public_key_read(f.bundle, &key), HN_INVALID_ARGUMENT, "public key");
    EXPECT_ERROR(hn_bundle_sign_file(f.bundle, f.public, NULL), HN_INVALID_ARGUMENT,
                 "others may read the secret key");
    EXPECT(chmod(f.public, 0600) == 0);
    EXPECT_ERROR(hn_bundle_sign_file(f.bundle, f.public, NULL), HN_INVALID_ARGUMENT,
                 "is no file with a secret key");
    EXPECT_OK(hn_file_write_atomic(f.public, "henry public key 1\nzz\n", 22, false));
    EXPECT_ERROR(hn_public_key_read(f.public, &key), HN_INVALID_ARGUMENT, "public key");
    EXPECT_OK(hn_dir_remove(f.dir));
}

TEST_MAIN
