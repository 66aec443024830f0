/* Checksums of a real archive: a byte changed in any record is found. */
#include "unit/harness.h"

#include "base/file.h"
#include "front/pt2/archive.h"

#include <stdlib.h>

static const char model_path[] = "examples/data/digits/model.pt2";

typedef struct bytes {
    uint8_t *ptr;
    size_t len;
} bytes;

static bytes model_read(void) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(hn_file_read(model_path, &text));
    return (bytes){(uint8_t *)text.ptr, text.len}; /* taken */
}

/* Imports, as a compilation does, and verifies what the import did not read. */
static hn_status used_verify(const bytes *b, uint32_t threads) {
    hn_arena arena;
    hn_sym *sym;
    hn_model_file *file = NULL;
    hn_graph *graph = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_model_open_memory(b->ptr, b->len, &file);
    if (!status) status = file->importer->import(file, NULL, &arena, sym, &graph);
    if (!status) status = file->importer->verify_begin(file, threads);
    if (!status) status = file->importer->verify_end(file);
    hn_graph_deinit(graph);
    hn_model_close(file);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status all_verify(const bytes *b, uint32_t threads) {
    hn_model_file *file = NULL;
    hn_status status = hn_model_open_memory(b->ptr, b->len, &file);
    if (!status) status = file->importer->verify_all(file, threads);
    hn_model_close(file);
    return status;
}

/* Where the bytes of record `k` lie, how many they are, and whether a model's compilation depends
 * on them. */
static size_t record_place(const bytes *b, uint32_t k, size_t *out_len, bool *out_used,
                           uint32_t *out_count) {
    hn_model_file *file = NULL;
    hn_str text = {0};
    uint64_t offset = 0;
    EXPECT_OK(hn_model_open_memory(b->ptr, b->len, &file));
    hn_zip *zip = &hn_pt2_of(file)->zip;
    hn_zip_entry *entry = &zip->entries.items[k];
    EXPECT_OK(hn_zip_read(zip, entry, HN_ZIP_TRUST, &text, &offset));
    char name[200];
    snprintf(name, sizeof name, HN_STR_FMT, HN_STR_ARG(entry->name));
    *out_len = text.len;
    *out_used = !strstr(name, "sample_inputs") && !strstr(name, ".data/");
    *out_count = zip->entries.count;
    hn_model_close(file);
    return offset;
}

TEST(a_good_archive_passes) {
    bytes b = model_read();
    for (uint32_t threads = 0; threads < 6; threads++) {
        EXPECT_OK(used_verify(&b, threads));
        EXPECT_OK(all_verify(&b, threads));
    }
    free(b.ptr);
}

TEST(a_changed_byte_in_any_record_is_found) {
    bytes b = model_read();
    uint32_t count = 1, found = 0;
    for (uint32_t k = 0; k < count; k++) {
        size_t len = 0;
        bool used = false;
        size_t at = record_place(&b, k, &len, &used, &count);
        for (size_t step = 0; step < 3; step++) {
            size_t place = at + (step == 0 ? 0 : step == 1 ? len / 2 : len - 1);
            b.ptr[place] ^= 0x04;
            hn_status all = all_verify(&b, 2), part = used_verify(&b, 2);
            EXPECT(all != NULL);
            /* small texts are trimmed, or not looked at */
            EXPECT((part != NULL) == used || len < 4);
            found += part != NULL;
            hn_status_free(all);
            hn_status_free(part);
            b.ptr[place] ^= 0x04;
        }
    }
    EXPECT(found >= 3 * 18); /* the weights at least */
    free(b.ptr);
}

/* A file: its pages are given back while they are read, and come again. */
TEST(mapped_files) {
    hn_model_file *file = NULL;
    EXPECT_OK(hn_model_open(model_path, &file));
    if (!file) return;
    for (int round = 0; round < 3; round++) EXPECT_OK(file->importer->verify_all(file, 2));
    hn_model_close(file);
}

TEST_MAIN
