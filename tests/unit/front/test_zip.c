/* The zip reader on archives made here: right ones, and each way of being wrong that it refuses. */
#include "unit/harness.h"

#include "front/pt2/zip.h"
#include "unit/front/zip_writer.h"

typedef struct fixture {
    hn_arena arena;
    hn_zip zip;
} fixture;

static hn_status open_writer(fixture *f, zip_writer *w) {
    zip_writer_end(w);
    hn_arena_init(&f->arena);
    return hn_zip_open(&f->zip, &f->arena, w->bytes, w->len);
}
static void done(fixture *f, zip_writer *w) {
    hn_arena_deinit(&f->arena);
    zip_writer_free(w);
}

static void two_records(zip_writer *w) {
    static const char long_text[2000] = "abc";
    zip_writer_add(w, "m/a", "hello", 5, false);
    zip_writer_add(w, "m/b.json", long_text, sizeof long_text, true);
}

static void expect_record(fixture *f, const char *name, const char *begin, size_t size) {
    hn_zip_entry *entry = hn_zip_find(&f->zip, hn_str_of(name));
    EXPECT(entry != NULL);
    if (!entry) return;
    hn_str bytes = {0};
    uint64_t offset = 0;
    EXPECT_OK(hn_zip_read(&f->zip, entry, HN_ZIP_CHECK_CRC, &bytes, &offset));
    EXPECT_INT(bytes.len, size);
    EXPECT(bytes.ptr && memcmp(bytes.ptr, begin, strlen(begin)) == 0);
    if (entry->method == 0) EXPECT((const char *)f->zip.data + offset == bytes.ptr);
    else EXPECT_INT(offset, 0);
}

TEST(stored_and_deflated) {
    fixture f;
    zip_writer w = {0};
    two_records(&w);
    EXPECT_OK(open_writer(&f, &w));
    expect_record(&f, "m/a", "hello", 5);
    expect_record(&f, "m/b.json", "abc", 2000);
    expect_record(&f, "m/b.json", "abc", 2000); /* the second time from memory */
    EXPECT(hn_zip_find(&f.zip, HN_STR("m/c")) == NULL);
    done(&f, &w);
}

TEST(zip64_fields) {
    fixture f;
    zip_writer w = {.zip64 = true};
    two_records(&w);
    EXPECT_OK(open_writer(&f, &w));
    expect_record(&f, "m/a", "hello", 5);
    expect_record(&f, "m/b.json", "abc", 2000);
    done(&f, &w);
}

TEST(folders_and_empty_archives) {
    fixture f;
    zip_writer w = {0}, none = {0};
    zip_writer_add(&w, "m/", "", 0, false);
    zip_writer_add(&w, "m/empty", "", 0, false);
    EXPECT_OK(open_writer(&f, &w));
    EXPECT_INT(f.zip.entries.count, 1);
    expect_record(&f, "m/empty", "", 0);
    done(&f, &w);
    EXPECT_OK(open_writer(&f, &none));
    EXPECT_INT(f.zip.entries.count, 0);
    done(&f, &none);
}

TEST(not_a_zip) {
    fixture f;
    hn_arena_init(&f.arena);
    EXPECT_ERROR(hn_zip_open(&f.zip, &f.arena, "PK", 2), HN_CORRUPT, "only 2 bytes");
    EXPECT_ERROR(hn_zip_open(&f.zip, &f.arena, "0123456789012345678901234567890123456789", 40),
                 HN_CORRUPT, "no end record");
    hn_arena_deinit(&f.arena);
}

TEST(every_cut_is_refused) {
    zip_writer w = {.zip64 = true};
    two_records(&w);
    zip_writer_end(&w);
    for (size_t len = 0; len < w.len; len++) {
        hn_arena arena;
        hn_zip zip;
        uint8_t *cut = malloc(len ? len : 1); /* exact size: a sanitizer sees reads behind it */
        memcpy(cut, w.bytes, len);
        hn_arena_init(&arena);
        hn_status status = hn_zip_open(&zip, &arena, cut, len);
        EXPECT(status != NULL);
        hn_status_free(status);
        hn_arena_deinit(&arena);
        free(cut);
    }
    zip_writer_free(&w);
}

TEST(unsafe_names) {
    static const char *const names[] = {"../x", "m/../x", "m/..", "/etc/x", "m\\x"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        fixture f;
        zip_writer w = {0};
        zip_writer_add(&w, names[k], "x", 1, false);
        EXPECT_ERROR(open_writer(&f, &w), HN_CORRUPT, "unsafe name");
        done(&f, &w);
    }
}

TEST(duplicates) {
    fixture f;
    zip_writer w = {0};
    zip_writer_add(&w, "m/a", "x", 1, false);
    zip_writer_add(&w, "m/a", "y", 1, false);
    EXPECT_ERROR(open_writer(&f, &w), HN_CORRUPT, "'m/a' appears twice");
    done(&f, &w);
}

TEST(overlaps) {
    fixture f;
    zip_writer w = {0};
    two_records(&w);
    w.entries[1].offset = w.entries[0].offset;
    EXPECT_ERROR(open_writer(&f, &w), HN_CORRUPT, "overlaps");
    done(&f, &w);
}

/* The directory's sizes fit, the local header's extra field pushes the data into the next
 * record. */
TEST(overlap_by_local_extra) {
    fixture f;
    zip_writer w = {0};
    two_records(&w);
    w.bytes[28]++; /* by one byte: still far from the end of the file */
    EXPECT_OK(open_writer(&f, &w));
    hn_str bytes;
    EXPECT_ERROR(hn_zip_read(&f.zip, &f.zip.entries.items[0], HN_ZIP_TRUST, &bytes, NULL),
                 HN_CORRUPT, "overlaps");
    done(&f, &w);
}

TEST(outside_the_file) {
    fixture f;
    zip_writer w = {0};
    two_records(&w);
    w.entries[0].packed = w.entries[0].size = 1u << 30;
    EXPECT_ERROR(open_writer(&f, &w), HN_CORRUPT, "'m/a' lies outside");
    done(&f, &w);
}

TEST(bad_checksum_and_wrong_header) {
    fixture f;
    zip_writer w = {0};
    hn_str bytes;
    two_records(&w);
    w.entries[0].crc ^= 1;
    w.bytes[w.entries[1].offset + 30] ^= 1;
    EXPECT_OK(open_writer(&f, &w));
    EXPECT_ERROR(hn_zip_read(&f.zip, &f.zip.entries.items[0], HN_ZIP_CHECK_CRC, &bytes, NULL),
                 HN_CORRUPT, "checksum");
    EXPECT_OK(hn_zip_read(&f.zip, &f.zip.entries.items[0], HN_ZIP_TRUST, &bytes, NULL));
    EXPECT_ERROR(hn_zip_read(&f.zip, &f.zip.entries.items[1], HN_ZIP_TRUST, &bytes, NULL),
                 HN_CORRUPT, "its own header");
    done(&f, &w);
}

TEST(encrypted_and_other_methods) {
    fixture f;
    zip_writer w = {0}, e = {0};
    hn_str bytes;
    two_records(&w);
    w.entries[1].method = 12;
    EXPECT_OK(open_writer(&f, &w));
    EXPECT_ERROR(hn_zip_read(&f.zip, &f.zip.entries.items[1], HN_ZIP_TRUST, &bytes, NULL),
                 HN_UNSUPPORTED, "method 12");
    done(&f, &w);
    two_records(&e);
    e.entries[0].flags |= 1;
    EXPECT_ERROR(open_writer(&f, &e), HN_UNSUPPORTED, "encrypted");
    done(&f, &e);
}

TEST(bombs_and_wrong_sizes) {
    static const struct {
        uint32_t size;
        const char *text;
    } cases[] = {{UINT32_MAX - 1, "more than an archive"},
                 {1999, "does not inflate"},
                 {2001, "does not inflate"}};
    for (size_t k = 0; k < 3; k++) {
        fixture f;
        zip_writer w = {0};
        hn_str bytes;
        two_records(&w);
        w.entries[1].size = cases[k].size;
        EXPECT_OK(open_writer(&f, &w));
        EXPECT_ERROR(hn_zip_read(&f.zip, &f.zip.entries.items[1], HN_ZIP_TRUST, &bytes, NULL),
                     HN_CORRUPT, cases[k].text);
        done(&f, &w);
    }
}

/* Bytes between the end of the deflated data and the end of the record: nobody says what they
 * are. */
TEST(bytes_behind_deflated_data) {
    fixture f;
    zip_writer w = {0};
    hn_str bytes;
    two_records(&w);
    zip_writer_int(&w, 0, 3);
    w.entries[1].packed += 3;
    EXPECT_OK(open_writer(&f, &w));
    EXPECT_ERROR(hn_zip_read(&f.zip, &f.zip.entries.items[1], HN_ZIP_TRUST, &bytes, NULL),
                 HN_CORRUPT, "does not inflate");
    done(&f, &w);
}

/* Each record would fit into what an archive may inflate to, all of them together do not. */
TEST(the_budget_is_for_all_records) {
    enum { SIZE = 100 << 20 };
    fixture f;
    zip_writer w = {0};
    hn_str bytes;
    char *zeros = calloc(1, SIZE), name[2] = "a";
    for (int k = 0; k < 3; k++, name[0]++) zip_writer_add(&w, name, zeros, SIZE, true);
    free(zeros);
    EXPECT_OK(open_writer(&f, &w));
    EXPECT_OK(hn_zip_read(&f.zip, &f.zip.entries.items[0], HN_ZIP_TRUST, &bytes, NULL));
    EXPECT_OK(hn_zip_read(&f.zip, &f.zip.entries.items[1], HN_ZIP_TRUST, &bytes, NULL));
    /* it is there: costs nothing */
    EXPECT_OK(hn_zip_read(&f.zip, &f.zip.entries.items[1], HN_ZIP_TRUST, &bytes, NULL));
    EXPECT_ERROR(hn_zip_read(&f.zip, &f.zip.entries.items[2], HN_ZIP_TRUST, &bytes, NULL),
                 HN_CORRUPT, "more than an archive");
    done(&f, &w);
}

TEST(stored_with_two_sizes) {
    fixture f;
    zip_writer w = {0};
    two_records(&w);
    w.entries[0].size = 4;
    EXPECT_ERROR(open_writer(&f, &w), HN_CORRUPT, "two sizes");
    done(&f, &w);
}

TEST_MAIN
