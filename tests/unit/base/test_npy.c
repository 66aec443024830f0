/* .npy files: what NumPy writes is read, what it could not have written is refused, what is written
 * is what NumPy would have written byte for byte. */
#include "base/compiler.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/str.h"
#include "unit/harness.h"

#include <limits.h>
#include <stdlib.h>

/* A file with this header text and data, version `major`.0, the header padded as NumPy pads it. */
static hn_strbuf file_of(int major, const char *header, const void *data, size_t data_bytes) {
    hn_strbuf file;
    hn_strbuf_init(&file);
    hn_strbuf_append(&file, "\x93NUMPY", 6);
    hn_strbuf_putc(&file, (char)major);
    hn_strbuf_putc(&file, 0);
    size_t prefix = major == 1 ? 10 : 12, len = strlen(header);
    size_t padded = (prefix + len + 1 + 63) / 64 * 64 - prefix;
    for (size_t k = 0; k < prefix - 8; k++) hn_strbuf_putc(&file, (char)(padded >> 8 * k & 0xff));
    hn_strbuf_append(&file, header, len);
    for (size_t k = len + 1; k < padded; k++) hn_strbuf_putc(&file, ' ');
    hn_strbuf_putc(&file, '\n');
    hn_strbuf_append(&file, data, data_bytes);
    return file;
}

/* From memory of the exact size, so that a sanitizer sees any byte read too many. */
static hn_status parse_exact(const hn_strbuf *file, size_t len, hn_npy *out, void **out_bytes) {
    *out_bytes = malloc(len ? len : 1);
    memcpy(*out_bytes, file->ptr, len);
    return hn_npy_parse(*out_bytes, len, out);
}

#define EXPECT_REFUSED(major, header, data_bytes, code, text)                                      \
    do {                                                                                           \
        hn_strbuf file_ =                                                                          \
            file_of((major), (header), "0123456789012345678901234567890123456789", (data_bytes));  \
        hn_npy npy_;                                                                               \
        void *bytes_;                                                                              \
        EXPECT_ERROR(parse_exact(&file_, file_.len, &npy_, &bytes_), (code), (text));              \
        free(bytes_);                                                                              \
        hn_strbuf_deinit(&file_);                                                                  \
    } while (0)

TEST(reads_row_major) {
    const float data[] = {1, 2, 3, 4, 5, 6};
    for (int major = 1; major <= 3; major++) {
        hn_strbuf file =
            file_of(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", data,
                    sizeof data);
        hn_npy npy;
        void *bytes;
        float copy[6] = {0};
        EXPECT_OK(parse_exact(&file, file.len, &npy, &bytes));
        EXPECT_STR(npy.descr, "<f4");
        EXPECT_INT(npy.rank, 2);
        EXPECT_INT(npy.sizes[1], 3);
        EXPECT_INT(npy.strides[0], 3);
        EXPECT_INT(npy.strides[1], 1);
        EXPECT_INT(npy.numel, 6);
        hn_npy_copy(&npy, copy);
        EXPECT(memcmp(copy, data, sizeof data) == 0);
        free(bytes);
        hn_strbuf_deinit(&file);
    }
}

TEST(reads_fortran_order) {
    const int16_t data[] = {1, 4, 2, 5, 3, 6}, want[] = {1, 2, 3, 4, 5, 6};
    hn_strbuf file =
        file_of(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", data, sizeof data);
    hn_npy npy;
    void *bytes;
    int16_t copy[6] = {0};
    EXPECT_OK(parse_exact(&file, file.len, &npy, &bytes));
    EXPECT_INT(npy.strides[0], 1);
    EXPECT_INT(npy.strides[1], 2);
    hn_npy_copy(&npy, copy);
    EXPECT(memcmp(copy, want, sizeof want) == 0);
    free(bytes);
    hn_strbuf_deinit(&file);
}

TEST(reads_scalars_and_empty_arrays) {
    const double one = 7;
    hn_strbuf file = file_of(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", &one, 8);
    hn_npy npy;
    void *bytes;
    double copy = 0;
    EXPECT_OK(parse_exact(&file, file.len, &npy, &bytes));
    EXPECT_INT(npy.rank, 0);
    EXPECT_INT(npy.numel, 1);
    hn_npy_copy(&npy, &copy);
    EXPECT(copy == 7);
    free(bytes);
    hn_strbuf_deinit(&file);

    file = file_of(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 0, 2), }", NULL, 0);
    EXPECT_OK(parse_exact(&file, file.len, &npy, &bytes));
    EXPECT_INT(npy.numel, 0);
    hn_npy_copy(&npy, &copy);
    EXPECT(copy == 7);
    free(bytes);
    hn_strbuf_deinit(&file);
}

/* Other spellings that are in use: any order of keys, no trailing commas, double quotes, Python 2's
 * 3L, '=' for the native byte order, byte orders on one-byte elements. */
TEST(reads_other_spellings) {
    static const struct {
        const char *header, *descr;
        size_t data_bytes;
    } spellings[] = {
        {"{\"shape\":(2,),\"descr\":\"<i8\",\"fortran_order\":False}", "<i8", 16},
        {"{'descr': '=i4', 'fortran_order': False, 'shape': (3L,)}", "<i4", 12},
        {"{'descr': '<u1', 'fortran_order': False, 'shape': (3,)}", "|u1", 3},
        {"{'descr': '>i1', 'fortran_order': False, 'shape': (3,)}", "|i1", 3},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (1, 1, 1, 3)}", "|b1", 3},
        {"  {  'descr'  :  '<f2'  ,  'fortran_order'  :  True  ,  'shape'  :  (  2  ,  2  ,  )  ,  }  ",
         "<f2", 8},
    };
    for (size_t k = 0; k < HN_COUNT_OF(spellings); k++) {
        hn_strbuf file =
            file_of(1, spellings[k].header, "................", spellings[k].data_bytes);
        hn_npy npy;
        void *bytes;
        EXPECT_OK(parse_exact(&file, file.len, &npy, &bytes));
        EXPECT_STR(npy.descr, spellings[k].descr);
        free(bytes);
        hn_strbuf_deinit(&file);
    }
}

TEST(refuses_other_element_types) {
    EXPECT_REFUSED(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8,
                   HN_UNSUPPORTED, "save with astype('<f4')");
    static const char *const others[] = {"<c8", "<u2", "<u4",     "<u8",  "|O", "|S5",
                                         "<U3", "|V2", "<M8[ns]", "<f16", "|f4"};
    for (size_t k = 0; k < HN_COUNT_OF(others); k++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }",
                 others[k]);
        EXPECT_REFUSED(1, header, 8, HN_UNSUPPORTED, others[k]);
    }
    EXPECT_REFUSED(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8,
                   HN_UNSUPPORTED, "structured");
}

TEST(refuses_bad_headers) {
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "'descr'",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
        "{'descr' '<f4'}",
        "{'descr': '<f4",
        "{'descr': '<f4\\'', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': 'f', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
    };
    for (size_t k = 0; k < HN_COUNT_OF(bad); k++)
        EXPECT_REFUSED(1, bad[k], 8, HN_CORRUPT, "bad .npy header");
}

TEST(refuses_sizes_that_lie) {
    EXPECT_REFUSED(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8, HN_CORRUPT,
                   "holds 8 bytes");
    EXPECT_REFUSED(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 8, HN_CORRUPT,
                   "asks for 4");
    EXPECT_REFUSED(1,
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
                   8, HN_CORRUPT, "overflows");
    EXPECT_REFUSED(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,), }",
                   8, HN_CORRUPT, "overflows");
    EXPECT_REFUSED(
        1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }", 0,
        HN_CORRUPT, "overflows");
    EXPECT_REFUSED(1,
                   "{'descr': '<f4', 'fortran_order': False, 'shape': "
                   "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
                   4, HN_UNSUPPORTED, "more than 32 dimensions");
}

TEST(refuses_other_files) {
    hn_npy npy;
    EXPECT_ERROR(hn_npy_parse("", 0, &npy), HN_CORRUPT, "not an .npy file");
    EXPECT_ERROR(hn_npy_parse("PK\x03\x04 a zip file..", 20, &npy), HN_CORRUPT, "not an .npy file");
    EXPECT_ERROR(hn_npy_parse("\x93NUMPY\x04\x00\x00\x00\x00\x00", 12, &npy), HN_UNSUPPORTED,
                 "version 4.0");
    EXPECT_ERROR(hn_npy_parse("\x93NUMPY\x01\x01\x00\x00\x00\x00", 12, &npy), HN_UNSUPPORTED,
                 "version 1.1");
    EXPECT_ERROR(hn_npy_parse("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, &npy), HN_UNSUPPORTED,
                 "4294967295 bytes");
    EXPECT_ERROR(hn_npy_parse("\x93NUMPY\x02\x00\x10\x00\x00", 11, &npy), HN_CORRUPT,
                 "ends within its header");
}

/* Every shorter file is refused, and none is read beyond its end. */
TEST(refuses_files_cut_short) {
    const float data[] = {1, 2};
    hn_strbuf file =
        file_of(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data, sizeof data);
    for (size_t len = 0; len < file.len; len++) {
        hn_npy npy;
        void *bytes;
        hn_status status = parse_exact(&file, len, &npy, &bytes);
        EXPECT_INT(hn_status_code(status), HN_CORRUPT);
        hn_status_free(status);
        free(bytes);
    }
    hn_strbuf_deinit(&file);
}

/* The bytes that np.save(np.arange(6, dtype='<f4').reshape(2, 3)) gives in NumPy 2. */
TEST(writes_what_numpy_writes) {
    char dir[PATH_MAX], path[PATH_MAX + 8];
    const float data[] = {0, 1, 2, 3, 4, 5};
    hn_strbuf file;
    hn_strbuf_init(&file);
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/a.npy", dir);
    EXPECT_OK(hn_npy_write(path, "<f4", 2, (int64_t[]){2, 3}, data));
    EXPECT_OK(hn_file_read(path, &file));
    EXPECT_INT(file.len, 128 + 24);
    EXPECT(file.len > 10 && memcmp(file.ptr, "\x93NUMPY\x01\x00\x76\x00", 10) == 0);
    const char *text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    EXPECT(file.len > 128 && memcmp(file.ptr + 10, text, strlen(text)) == 0 &&
           file.ptr[127] == '\n' && file.ptr[126] == ' ');
    hn_strbuf_deinit(&file);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(reads_what_it_wrote) {
    static const struct {
        uint32_t rank;
        int64_t sizes[3];
    } shapes[] = {{0, {0}}, {1, {5}}, {1, {0}}, {3, {2, 1, 3}}};
    static const char *const descrs[] = {"<f8", "<f4", "<f2", "<i8", "<i4",
                                         "<i2", "|i1", "|u1", "|b1"};
    uint8_t data[64];
    char dir[PATH_MAX], path[PATH_MAX + 8];
    for (size_t k = 0; k < sizeof data; k++) data[k] = (uint8_t)k;
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/a.npy", dir);
    for (size_t k = 0; k < HN_COUNT_OF(shapes) * HN_COUNT_OF(descrs); k++) {
        const char *descr = descrs[k % HN_COUNT_OF(descrs)];
        uint32_t rank = shapes[k / HN_COUNT_OF(descrs)].rank;
        const int64_t *sizes = shapes[k / HN_COUNT_OF(descrs)].sizes;
        hn_file_map map;
        hn_npy npy = {0};
        EXPECT_OK(hn_npy_write(path, descr, rank, sizes, data));
        EXPECT_OK(hn_file_map_init(&map, path));
        EXPECT_OK(hn_npy_parse(map.data, map.size_bytes, &npy));
        EXPECT_STR(npy.descr, descr);
        EXPECT_INT(npy.rank, rank);
        for (uint32_t d = 0; d < rank; d++) EXPECT_INT(npy.sizes[d], sizes[d]);
        EXPECT_INT((npy.data - map.data) % 64, 0);
        EXPECT(npy.numel == 0 || memcmp(npy.data, data, npy.numel * npy.elem_bytes) == 0);
        hn_file_map_deinit(&map);
    }
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(refuses_to_write_nonsense) {
    int64_t huge[] = {INT64_MAX, 2}, negative[] = {-1}, many[33] = {0};
    EXPECT_ERROR(hn_npy_write("/nowhere/a.npy", "<c8", 0, NULL, NULL), HN_INVALID_ARGUMENT,
                 "'<c8'");
    EXPECT_ERROR(hn_npy_write("/nowhere/a.npy", "<f4", 2, huge, NULL), HN_INVALID_ARGUMENT,
                 "overflows");
    EXPECT_ERROR(hn_npy_write("/nowhere/a.npy", "<f4", 1, negative, NULL), HN_INVALID_ARGUMENT,
                 "negative");
    EXPECT_ERROR(hn_npy_write("/nowhere/a.npy", "<f4", 33, many, NULL), HN_INVALID_ARGUMENT,
                 "rank 33");
    hn_status status = hn_npy_write("/nowhere/a.npy", "<f4", 0, NULL, "1234");
    EXPECT(status != NULL && strstr(hn_status_message(status), "/nowhere/a.npy"));
    hn_status_free(status);
}

TEST_MAIN
