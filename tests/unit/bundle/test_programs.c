/* test_programs.c: several programs in one file: one copy of the weights, each program found by its
 * device; damaged and hostile files are refused with a reason. */
#include "base/device.h"
#include "base/file.h"
#include "bundle/join.h"
#include "bundle/sign.h"
#include "bundle/weights.h"
#include "unit/bundle/image_fixture.h"

#include <stdlib.h>

enum { PROGRAMS = 3 };

/* The fixture's programs for a CPU, CUDA and OpenCL, which have the same weight. */
static void make_file(hn_strbuf *out) {
    static const code_cases *const cases[PROGRAMS] = {&levels, &cuda, &opencl};
    hn_strbuf images[PROGRAMS];
    hn_join_part parts[PROGRAMS] = {0};
    for (int k = 0; k < PROGRAMS; k++) {
        make_image_of(cases[k], &images[k]);
        EXPECT_OK(hn_bundle_open(images[k].ptr, images[k].len, true, &parts[k].bundle));
    }
    hn_strbuf_init(out);
    EXPECT_OK(hn_bundle_join(parts, PROGRAMS, false, out));
    for (int k = 0; k < PROGRAMS; k++) hn_strbuf_deinit(&images[k]);
}

static hn_status verify_all(const void *bytes, size_t len) {
    hn_bundle b;
    HN_TRY(hn_bundle_open(bytes, len, true, &b));
    HN_TRY(hn_bundle_check_code(&b));
    return hn_bundle_weights_check(&b, true);
}

TEST(each_program_is_there_with_the_weights_of_the_file) {
    static const float weight[4] = {1, 2, 3, 4};
    static const uint32_t targets[PROGRAMS] = {2, 2, 1}, objects[PROGRAMS] = {0, 2, 4};
    hn_strbuf image;
    hn_bundle file, b;
    uint32_t program;
    make_file(&image);
    EXPECT_OK(verify_all(image.ptr, image.len));
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &file));
    EXPECT_INT(file.header->version, 13);
    EXPECT_INT(file.header->weights_bytes, sizeof weight); /* once */
    EXPECT_INT(hn_bundle_program_count(&file), PROGRAMS);
    EXPECT_OK(hn_bundle_programs_check(&file, true));
    for (uint32_t device = 0; device < PROGRAMS; device++) {
        EXPECT(hn_bundle_program_find(&file, device, &program));
        EXPECT_INT(program, device); /* in the order of make_file */
        EXPECT_OK(hn_bundle_program_open(&file, program, true, &b));
        EXPECT_INT(b.targets_count, targets[program]);
        EXPECT_INT(b.first_object, objects[program]);
        EXPECT_INT(b.storages[1].where, HNB_STORAGE_WEIGHTS);
        EXPECT(memcmp(b.weights + b.storages[1].offset, weight, sizeof weight) == 0);
        EXPECT(b.key_bytes == 7 && memcmp(b.key, "the key", 7) == 0);
    }
    hn_strbuf_deinit(&image);
}

TEST(one_program_is_a_file_that_older_readers_know) {
    hn_strbuf image;
    hn_bundle b;
    uint32_t program;
    make_image(&image);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    EXPECT_INT(b.header->version, 12);
    EXPECT_INT(hn_bundle_program_count(&b), 1);
    EXPECT(hn_bundle_program_find(&b, HN_DEVICE_CPU, &program) && program == 0);
    EXPECT(!hn_bundle_program_find(&b, HN_DEVICE_CUDA, &program));
    hn_strbuf_deinit(&image);
}

TEST(they_are_described) {
    hn_strbuf image, text, json;
    hn_bundle b;
    make_file(&image);
    hn_strbuf_init(&text);
    hn_strbuf_init(&json);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    hn_bundle_describe_text(&b, &text);
    EXPECT(strstr(text.ptr, "programs: cpu (x86-64-v3, generic), cuda (sm_90, compute_80), "
                            "opencl (opencl)\n"));
    EXPECT(strstr(text.ptr, "\nprogram 1 for cuda\ntarget 0 cuda sm_90,"));
    EXPECT(strstr(text.ptr, "object 3 'kernels' ptx for compute_80"));
    EXPECT(strstr(text.ptr, "opencl object 4"));
    hn_bundle_describe_json(&b, &json);
    EXPECT(strstr(json.ptr, "\"device\":\"cpu\",\"programs\":[{\"device\":\"cuda\",\"targets\":"));
    EXPECT(strstr(json.ptr, "{\"device\":\"opencl\""));
    hn_strbuf_deinit(&json);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&image);
}

TEST(two_programs_for_one_device_are_refused) {
    hn_strbuf image, out;
    hn_join_part parts[2] = {0};
    make_image(&image);
    for (int k = 0; k < 2; k++)
        EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &parts[k].bundle));
    hn_strbuf_init(&out);
    EXPECT_ERROR(hn_bundle_join(parts, 2, false, &out), HN_INVALID_ARGUMENT,
                 "two programs for one device");
    hn_strbuf_deinit(&out);
    hn_strbuf_deinit(&image);
}

/* As in a file with one program, every byte is covered by a digest or is zero. */
TEST(every_damaged_byte_is_found) {
    hn_strbuf image;
    make_file(&image);
    for (size_t at = 0; at < image.len; at++) {
        if (at >= offsetof(hnb_header, signer) && at < sizeof(hnb_header)) continue;
        image.ptr[at] ^= (char)(1 << at % 8);
        hn_status status = verify_all(image.ptr, image.len);
        if (!status) HN_TEST_FAIL("a changed byte at %zu was accepted", at);
        hn_status_free(status);
        image.ptr[at] ^= (char)(1 << at % 8);
    }
    for (size_t len = 1; len < image.len; len++) {
        char *cut = malloc(len); /* of the exact size, for tools that watch memory */
        memcpy(cut, image.ptr, len);
        hn_status status = verify_all(cut, len);
        EXPECT_INT(hn_status_code(status), HN_CORRUPT);
        hn_status_free(status);
        free(cut);
    }
    EXPECT_OK(verify_all(image.ptr, image.len));
    hn_strbuf_deinit(&image);
}

/* ---- files made to hurt: all digests are right ---- */

static const hnb_section *section_of(const char *image, uint32_t kind) {
    const hnb_header *h = (const hnb_header *)(const void *)image;
    const hnb_section *table = (const hnb_section *)(const void *)(image + sizeof *h);
    for (uint32_t k = 0; k < h->section_count; k++)
        if (table[k].kind == kind) return &table[k];
    return NULL;
}

static hnb_program *programs_of(hn_strbuf *image) {
    return (hnb_program *)(void *)(image->ptr + section_of(image->ptr, HNB_PROGRAMS)->offset);
}

TEST(hostile_tables_are_refused) {
    static const struct {
        uint32_t program;
        size_t offset;
        uint32_t value;
    } cases[] = {
        {0, offsetof(hnb_program, device), HN_DEVICE_CUDA},
        {1, offsetof(hnb_program, device), HN_DEVICE_CPU},
        {1, offsetof(hnb_program, device), HN_DEVICE_KIND_COUNT},
        {0, offsetof(hnb_program, offset), 64},
        {0, offsetof(hnb_program, len), 64},
        {0, offsetof(hnb_program, digest), 1},
        {1, offsetof(hnb_program, offset), 0}, /* in the objects */
        {1, offsetof(hnb_program, offset), 65},
        {2, offsetof(hnb_program, offset), 128}, /* in the program before it */
        {1, offsetof(hnb_program, offset) + 4, UINT32_MAX},
        {1, offsetof(hnb_program, len), 0},
        {2, offsetof(hnb_program, len), 1 << 20},
        {2, offsetof(hnb_program, len) + 4, UINT32_MAX},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        hn_strbuf image;
        hn_bundle b;
        make_file(&image);
        memcpy((char *)&programs_of(&image)[cases[k].program] + cases[k].offset, &cases[k].value,
               sizeof cases[k].value);
        seal(&image);
        EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT,
                     "bundle is damaged: program ");
        hn_strbuf_deinit(&image);
    }
}

/* Changes the image of program 1, and all digests that cover it. */
static void change_program(hn_strbuf *image, void (*change)(char *program, size_t len)) {
    const hnb_header *h = (const hnb_header *)(void *)image->ptr;
    hnb_program *p = &programs_of(image)[1];
    char *program = image->ptr + h->code_offset + p->offset;
    change(program, p->len);
    const hnb_header *own = (const hnb_header *)(void *)program;
    hn_digest digest = hn_bundle_meta_digest(program, own->meta_bytes);
    memcpy(program + offsetof(hnb_header, digest), digest.bytes, sizeof digest.bytes);
    memcpy(p->digest, digest.bytes, sizeof p->digest);
    seal(image);
}

static void set_version(char *program, size_t len) {
    (void)len;
    ((hnb_header *)(void *)program)->version = HNB_VERSION_SINGLE;
}
static void set_signer(char *program, size_t len) {
    (void)len;
    ((hnb_header *)(void *)program)->signer[3] = 1;
}
static void set_signature(char *program, size_t len) {
    (void)len;
    ((hnb_header *)(void *)program)->signature[63] = 1;
}
static void set_bytes(char *program, size_t len) {
    ((hnb_header *)(void *)program)->file_bytes = len + 64;
}
static void set_blob(char *program, size_t len) {
    (void)len;
    ((hnb_section *)(void *)(uintptr_t)section_of(program, HNB_BLOB))->count = 1;
}
/* Behind the end of part three of the file. */
static void set_storage(char *program, size_t len) {
    (void)len;
    const hnb_section *s = section_of(program, HNB_STORAGES);
    ((hnb_storage *)(void *)(program + s->offset))[1].offset += 1;
}
static void set_target(char *program, size_t len) {
    (void)len;
    const hnb_section *s = section_of(program, HNB_TARGETS);
    for (uint32_t t = 0; t < s->count; t++)
        ((hnb_target *)(void *)(program + s->offset))[t].kind = HNB_TARGET_OPENCL;
}
static void set_magic(char *program, size_t len) {
    (void)len;
    program[0] = 'x';
}

TEST(hostile_programs_are_refused) {
    static void (*const changes[])(char *, size_t) = {set_version, set_signer, set_signature,
                                                      set_bytes,   set_blob,   set_storage,
                                                      set_target,  set_magic};
    for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
        hn_strbuf image;
        hn_bundle file, b;
        make_file(&image);
        change_program(&image, changes[k]);
        EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &file));
        EXPECT_ERROR(hn_bundle_program_open(&file, 1, true, &b), HN_CORRUPT, "program 1, for cuda");
        EXPECT_OK(hn_bundle_program_open(&file, 2, true, &b)); /* others do not suffer */
        EXPECT_ERROR(hn_bundle_programs_check(&file, true), HN_CORRUPT, "program 1, for cuda");
        hn_strbuf_deinit(&image);
    }
}

/* A program of another file has a digest of its own, which is right. */
TEST(a_program_that_was_exchanged_is_refused) {
    hn_strbuf image;
    hn_bundle file, b;
    make_file(&image);
    const hnb_header *h = (const hnb_header *)(void *)image.ptr;
    const hnb_program *p = &programs_of(&image)[1];
    char *program = image.ptr + h->code_offset + p->offset;
    hnb_header *own = (hnb_header *)(void *)program;
    program[section_of(program, HNB_KEY)->offset] ^= 1;
    hn_digest digest = hn_bundle_meta_digest(program, own->meta_bytes);
    memcpy(own->digest, digest.bytes, sizeof digest.bytes);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &file));
    EXPECT_ERROR(hn_bundle_program_open(&file, 1, true, &b), HN_CORRUPT, "not the recorded one");
    hn_strbuf_deinit(&image);
}

TEST(a_file_of_the_older_version_has_one_program) {
    hn_strbuf image;
    hn_bundle b;
    make_file(&image);
    ((hnb_header *)(void *)image.ptr)->version = HNB_VERSION_SINGLE;
    seal(&image);
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT,
                 "bundle of version 12 has a section 'programs'");
    hn_strbuf_deinit(&image);
}

/* ---- storages ---- */

/* A program without code that has one constant or weight of some bytes. */
static void make_weight(hnb_storage_where where, hnb_target_kind kind, const char *bytes,
                        hn_strbuf *out) {
    hn_arena arena;
    hn_bundle_writer w;
    uint32_t target;
    hnb_storage storages[2] = {{0}, {.where = where, .bytes = strlen(bytes)}};
    const hn_digest ends = hn_bundle_ends_digest((const uint8_t *)bytes, strlen(bytes));
    hnb_weight_file file = {.bytes = strlen(bytes)};
    hn_arena_init(&arena);
    hn_strbuf_init(out);
    memcpy(file.ends_digest, ends.bytes, sizeof ends.bytes);
    EXPECT_OK(hn_bundle_writer_init(&w, &arena));
    EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("w.bin"), &file.path));
    EXPECT_OK(hn_bundle_writer_target(&w, kind, 0, HN_STR("t"), HN_STR(""), &target));
    if (where == HNB_STORAGE_FILE)
        w.weight_files.items = &file, w.weight_files.count = w.weight_files.cap = 1;
    else
        EXPECT_OK(hn_bundle_writer_piece(&w, where == HNB_STORAGE_BLOB ? &w.blob : &w.weights,
                                         bytes, strlen(bytes), &storages[1].offset));
    w.storages.items = storages, w.storages.count = w.storages.cap = 2;
    EXPECT_OK(hn_bundle_writer_finish(&w, out));
    hn_bundle_writer_deinit(&w);
    hn_arena_deinit(&arena);
}

typedef struct weights_case {
    hnb_storage_where where[2];
    const char *bytes[2];
    bool embed;
    hnb_storage_where want[2];
    uint64_t blob_bytes, weights_bytes;
    bool has_file;
} weights_case;

static void check_weights(const weights_case *c) {
    static const hnb_target_kind kinds[2] = {HNB_TARGET_CPU, HNB_TARGET_OPENCL};
    hn_strbuf images[2], out;
    hn_join_part parts[2] = {0};
    hn_bundle file, b;
    for (uint32_t k = 0; k < 2; k++) {
        make_weight(c->where[k], kinds[k], c->bytes[k], &images[k]);
        EXPECT_OK(hn_bundle_open(images[k].ptr, images[k].len, true, &parts[k].bundle));
        if (c->where[k] == HNB_STORAGE_FILE)
            parts[k].weights = (hn_file_map){.data = (const uint8_t *)c->bytes[k],
                                             .size_bytes = strlen(c->bytes[k])};
    }
    hn_strbuf_init(&out);
    EXPECT_OK(hn_bundle_join(parts, 2, c->embed, &out));
    EXPECT_OK(hn_bundle_open(out.ptr, out.len, true, &file));
    EXPECT_INT(file.blob_bytes, c->blob_bytes);
    EXPECT_INT(file.weights_bytes, c->weights_bytes);
    EXPECT_INT(file.weight_files_count, c->has_file);
    for (uint32_t k = 0; k < 2; k++) {
        EXPECT_OK(hn_bundle_program_open(&file, k, true, &b));
        const hnb_storage *s = &b.storages[1];
        const uint8_t *base = s->where == HNB_STORAGE_BLOB ? b.blob : b.weights;
        EXPECT_INT(s->where, c->want[k]);
        if (s->where != HNB_STORAGE_FILE)
            EXPECT(memcmp(base + s->offset, c->bytes[k], strlen(c->bytes[k])) == 0);
    }
    for (uint32_t k = 0; k < 2; k++) hn_strbuf_deinit(&images[k]);
    hn_strbuf_deinit(&out);
}

TEST(equal_bytes_are_stored_once) {
#define BLOB   HNB_STORAGE_BLOB
#define INSIDE HNB_STORAGE_WEIGHTS
#define BESIDE HNB_STORAGE_FILE
    static const weights_case cases[] = {
        {{BLOB, BLOB}, {"same", "same"}, false, {BLOB, BLOB}, 4, 0, false},
        {{BLOB, BLOB}, {"one", "other"}, false, {BLOB, BLOB}, 64 + 5, 0, false},
        {{INSIDE, INSIDE}, {"same", "same"}, false, {INSIDE, INSIDE}, 0, 4, false},
        {{INSIDE, INSIDE}, {"some", "more"}, false, {INSIDE, INSIDE}, 0, 64 + 4, false},
        /* one program lays a weight out anew, and it is what the other reads */
        {{INSIDE, BLOB}, {"same", "same"}, false, {INSIDE, INSIDE}, 0, 4, false},
        {{BESIDE, BESIDE}, {"same", "same"}, false, {BESIDE, BESIDE}, 0, 0, true},
        {{BESIDE, BESIDE}, {"same", "same"}, true, {INSIDE, INSIDE}, 0, 4, false},
        {{BLOB, BESIDE}, {"one", "other"}, false, {BLOB, BESIDE}, 3, 0, true},
        {{BLOB, BESIDE}, {"one", "other"}, true, {BLOB, INSIDE}, 3, 5, false},
        /* another file of weights: what the first lacks is a constant */
        {{BESIDE, BESIDE}, {"one", "other"}, false, {BESIDE, BLOB}, 5, 0, true},
        {{BESIDE, INSIDE}, {"same", "same"}, false, {BESIDE, BESIDE}, 0, 0, true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check_weights(&cases[k]);
}

/* ---- signatures ---- */

TEST(a_signature_covers_every_program) {
    char dir[200], secret[300], public[300], path[300];
    hn_strbuf image, damaged;
    hn_public_key key;
    make_file(&image);
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(secret, sizeof secret, "%s/k.key", dir);
    snprintf(public, sizeof public, "%s/k.pub", dir);
    snprintf(path, sizeof path, "%s/m.hnb", dir);
    EXPECT_OK(hn_bundle_keys_create(secret, public));
    EXPECT_OK(hn_public_key_read(public, &key));
    EXPECT_OK(hn_file_write_atomic(path, image.ptr, image.len, false));
    EXPECT_OK(hn_bundle_sign_file(path, secret, NULL));
    EXPECT_OK(hn_bundle_verify_signed(path, NULL, &key, 1));
    for (uint32_t k = 1; k < PROGRAMS; k++) {
        hn_strbuf_init(&damaged);
        EXPECT_OK(hn_file_read(path, &damaged));
        const hnb_header *h = (const hnb_header *)(void *)damaged.ptr;
        const hnb_program *p = &programs_of(&damaged)[k];
        damaged.ptr[h->code_offset + p->offset + p->len - 2] ^= 1; /* its code */
        EXPECT_OK(hn_file_write_atomic(path, damaged.ptr, damaged.len, false));
        EXPECT_ERROR(hn_bundle_verify_signed(path, NULL, &key, 1), HN_CORRUPT, "digest");
        damaged.ptr[h->code_offset + p->offset + p->len - 2] ^= 1;
        EXPECT_OK(hn_file_write_atomic(path, damaged.ptr, damaged.len, false));
        hn_strbuf_deinit(&damaged);
    }
    EXPECT_OK(hn_bundle_verify_signed(path, NULL, &key, 1));
    EXPECT_OK(hn_dir_remove(dir));
    hn_strbuf_deinit(&image);
}

TEST_MAIN
