/* test_kind.c: files of other kinds are named, and the advice fits what was asked for. */
#include "unit/harness.h"

#include "base/compiler.h"
#include "base/kind.h"
#include "henry/henry.h"
#include "unit/front/zip_writer.h"

#include <stdio.h>

/* A literal with its NULs. */
#define BYTES(text) text, sizeof(text) - 1

static void expect_kind(hn_kind wanted, const void *bytes, size_t len) {
    hn_kind kind = hn_kind_of(bytes, len);
    if (kind != wanted) HN_TEST_FAIL("kind %d, expected %d", (int)kind, (int)wanted);
}

static void expect_zip(hn_kind wanted, const char *const *names, bool cut) {
    zip_writer z = {0};
    for (; *names; names++) zip_writer_add(&z, *names, "x", 1, false);
    zip_writer_end(&z);
    expect_kind(wanted, z.bytes, cut ? z.len - 10 : z.len);
    free(z.bytes);
}

#define ZIP(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(zip_archives_are_told_apart) {
    expect_zip(HN_KIND_PT2, ZIP("m/archive_format", "m/models/model.json"), false);
    expect_zip(HN_KIND_PT2, ZIP("version", "serialized_exported_program.json"), false);
    expect_zip(HN_KIND_TORCHSCRIPT, ZIP("m/data.pkl", "m/code/__torch__.py", "m/constants.pkl"),
               false);
    expect_zip(HN_KIND_TORCH_SAVE, ZIP("archive/data.pkl", "archive/data/0"), false);
    expect_zip(HN_KIND_ZIP, ZIP("word/document.xml"), false);
    expect_zip(HN_KIND_UNKNOWN, ZIP("m/archive_format"), true); /* its reader tells more */
    expect_kind(HN_KIND_UNKNOWN, BYTES("PK\3\4"));
}

/* As torch.save writes it: zip64 records behind the directory, whose size stands in the plain
 * record all the same. */
TEST(the_first_name_before_zip64_records) {
    zip_writer z = {.zip64 = true};
    zip_writer_add(&z, "m/archive_format", "x", 1, false);
    size_t begin = z.len;
    zip_writer_end(&z);
    uint32_t size = (uint32_t)(z.len - begin - 76 - 22);
    memcpy(z.bytes + z.len - 10, &size, sizeof size);
    expect_kind(HN_KIND_PT2, z.bytes, z.len);
    zip_writer_free(&z);
}

TEST(other_files_are_recognised) {
    expect_kind(HN_KIND_EMPTY, NULL, 0);
    expect_kind(HN_KIND_BUNDLE, BYTES(HN_KIND_BUNDLE_MAGIC "rest"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("\x89HNB"));
    expect_kind(HN_KIND_TORCH_SAVE,
                BYTES("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."));
    expect_kind(HN_KIND_PICKLE, BYTES("\x80\x02}q\0."));
    expect_kind(HN_KIND_PICKLE, BYTES("\x80\x04\x95\x0b\0\0\0\0\0\0\0}."));
    expect_kind(HN_KIND_SAFETENSORS, BYTES("\2\0\0\0\0\0\0\0{}"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("\xff\0\0\0\0\0\0\0{}")); /* a header longer than the file */
    expect_kind(HN_KIND_GGUF, BYTES("GGUF\3\0\0\0"));
    expect_kind(HN_KIND_HDF5, BYTES("\x89HDF\r\n\x1a\n"));
    expect_kind(HN_KIND_NPY, BYTES("\x93NUMPY\1\0"));
    expect_kind(HN_KIND_ELF, BYTES("\x7f"
                                   "ELF\2\1\1"));
    expect_kind(HN_KIND_GZIP, BYTES("\x1f\x8b\x08"));
    expect_kind(HN_KIND_LFS, BYTES("version https://git-lfs.github.com/spec/v1\n"));
    expect_kind(HN_KIND_GRAPH, BYTES("graph {}"));
    expect_kind(HN_KIND_GRAPH, BYTES("\n# graph of a test\n \tgraph @m {"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("graph"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("graphs {}"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("# graph @m {}"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("text"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("{\"a\": 1}      "));
}

TEST(onnx_is_recognised_by_its_fields) {
    /* IR version, producer, its version, graph */
    expect_kind(HN_KIND_ONNX, BYTES("\x08\x08\x12\x07pytorch\x1a\x05"
                                    "2.9.0:\x03\x0a\x01x"));
    expect_kind(HN_KIND_ONNX, BYTES("\x08\x0a:\0"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("\x08\x08\x12\x07pytorch")); /* no graph */
    /* a graph beyond the end */
    expect_kind(HN_KIND_UNKNOWN, BYTES("\x08\x08:\x7f"
                                       "short"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("\x08\x00:\x00"));
    expect_kind(HN_KIND_UNKNOWN, BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
}

static void expect_refused(hn_status status, hn_code code, const char *part) {
    EXPECT_INT(hn_status_code(status), code);
    if (!strstr(hn_status_message(status), part))
        HN_TEST_FAIL("'%s' lacks '%s'", hn_status_message(status), part);
    hn_status_free(status);
}

/* Through the calls that programs make, from memory. */
TEST(calls_name_the_kind_and_the_right_call) {
    static const struct {
        const char *bytes;
        size_t len;
        const char *load, *compile;
    } cases[] = {
        {BYTES("\x08\x0a:\0"),
         "it is an ONNX model, not a bundle (.hnb); export the model with torch.export.export",
         "it is an ONNX model, not a PyTorch model (.pt2) or a graph as text (.hnir); export the model with torch.export.export"},
        {BYTES("\2\0\0\0\0\0\0\0{}"),
         "it is a safetensors file, which holds weights and no program, not a bundle (.hnb); load the bundle and name",
         "it is a safetensors file"},
        {BYTES("\x80\x02}q\0."), "it is a Python pickle", "it is a Python pickle"},
        {BYTES(HN_KIND_BUNDLE_MAGIC), "not a bundle: 8 bytes",
         "it is compiled already: load it with hn_module_load_file, or 'henry run'"},
        {BYTES(""), "it is empty", "it is empty"},
    };
    hn_module *m;
    hn_compiled *c;
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        hn_status loaded = hn_module_load_memory(cases[k].bytes, cases[k].len, false, NULL, &m);
        expect_refused(loaded,
                       hn_status_code(loaded) == HN_CORRUPT ? HN_CORRUPT : HN_INVALID_ARGUMENT,
                       cases[k].load);
        expect_refused(hn_compile_memory(cases[k].bytes, cases[k].len, NULL, &c),
                       HN_INVALID_ARGUMENT, cases[k].compile);
    }
    expect_refused(
        hn_module_load_file("examples/data/digits/model.pt2", NULL, &m), HN_INVALID_ARGUMENT,
        "it is a PyTorch model (.pt2), not a bundle (.hnb); compile it first, with hn_compile_file or 'henry compile'");
}

TEST(paths_that_are_folders_or_null) {
    hn_module *m;
    hn_compiled *c;
    char *text;
    size_t len;
    expect_refused(hn_module_load_file("examples", NULL, &m), HN_INVALID_ARGUMENT,
                   "it is a folder, not a file");
    expect_refused(hn_compile_file("examples", NULL, &c), HN_INVALID_ARGUMENT,
                   "it is a folder, not a file");
    expect_refused(hn_bundle_describe_file("examples", HN_BUNDLE_TEXT, &text, &len),
                   HN_INVALID_ARGUMENT, "it is a folder, not a file");
    expect_refused(hn_module_load_file(NULL, NULL, &m), HN_INVALID_ARGUMENT, "NULL");
    expect_refused(hn_module_load_memory(NULL, 0, false, NULL, &m), HN_INVALID_ARGUMENT, "NULL");
    expect_refused(hn_compile_file(NULL, NULL, &c), HN_INVALID_ARGUMENT,
                   "hn_compile_file: 'path' is NULL");
    expect_refused(hn_compile_memory(NULL, 5, NULL, &c), HN_INVALID_ARGUMENT, "NULL");
    expect_refused(hn_bundle_verify_file(NULL, true), HN_INVALID_ARGUMENT, "'path' is NULL");
    expect_refused(hn_bundle_describe_file(NULL, HN_BUNDLE_TEXT, &text, &len), HN_INVALID_ARGUMENT,
                   "'path' is NULL");
    expect_refused(hn_bundle_object_extract(NULL, 0, "x"), HN_INVALID_ARGUMENT, "'path' is NULL");
    expect_refused(hn_bundle_sign_file(NULL, "x", NULL), HN_INVALID_ARGUMENT, "'path' is NULL");
}

TEST_MAIN
