/* kind.c: see kind.h.
 *
 * Sources: the formats' own descriptions (safetensors README, onnx.proto, GGUF, APPNOTE.TXT of
 * zip); torch/serialization.py for the number that older files of torch.save begin with. */
#include "base/kind.h"

#include "base/str.h"

#include <stdint.h>

/* ---- zip archives: the names in the directory at the end tell them apart ---- */

enum {
    ZIP_END_BYTES = 22,
    ZIP64_LOCATOR_BYTES = 20,
    ZIP64_ENDS_BYTES = 76,
    ZIP_COMMENT_MAX = 65535,
    ZIP_DIRECTORY_MAX = 4 << 20
};

static uint64_t read_le(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int k = bytes; k-- > 0;) value = value << 8 | at[k];
    return value;
}

/* The directory of the archive, or the end of the file where it must be. */
static hn_str zip_directory(const uint8_t *bytes, size_t len) {
    size_t first =
        len > ZIP_END_BYTES + ZIP_COMMENT_MAX ? len - ZIP_END_BYTES - ZIP_COMMENT_MAX : 0;
    for (size_t at = len >= ZIP_END_BYTES ? len - ZIP_END_BYTES : 0; at > first; at--) {
        if (memcmp(bytes + at, "PK\5\6", 4) != 0) continue;
        uint64_t size = read_le(bytes + at + 12, 4);
        bool is_64 =
            at >= ZIP64_ENDS_BYTES && memcmp(bytes + at - ZIP64_LOCATOR_BYTES, "PK\6\7", 4) == 0;
        size_t end = is_64 ? at - ZIP64_ENDS_BYTES : at;
        /* also a size that only zip64 can give */
        if (size > end) size = end < ZIP_DIRECTORY_MAX ? end : ZIP_DIRECTORY_MAX;
        return (hn_str){(const char *)bytes + end - size, size};
    }
    return HN_STR("");
}

static bool has(hn_str text, const char *part) {
    return text.len && memmem(text.ptr, text.len, part, strlen(part));
}

static hn_kind zip_kind(const uint8_t *bytes, size_t len) {
    hn_str names = zip_directory(bytes, len);
    if (!names.len) return HN_KIND_UNKNOWN; /* cut short: the reader of archives says so */
    if (has(names, "archive_format") || has(names, "serialized_exported_program.json"))
        return HN_KIND_PT2;
    if (has(names, "/constants.pkl") || has(names, "/code/")) return HN_KIND_TORCHSCRIPT;
    return has(names, "/data.pkl") ? HN_KIND_TORCH_SAVE : HN_KIND_ZIP;
}

/* ---- ONNX has no magic number: fields of its message ModelProto, of which the graph is one
 * ---- */

static bool read_varint(const uint8_t *bytes, size_t len, size_t *at, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && *at < len; shift += 7) {
        uint8_t byte = bytes[(*at)++];
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool is_onnx(const uint8_t *bytes, size_t len) {
    enum {
        IR_VERSION = 1 << 3,
        MODEL_VERSION = 5 << 3,
        GRAPH = 7 << 3 | 2,
        LENGTH = 2,
        IR_VERSION_MAX = 100,
        FIELD_MAX = 31
    };
    size_t at = 0;
    uint64_t tag, value;
    if (!read_varint(bytes, len, &at, &tag) || tag != IR_VERSION) return false;
    if (!read_varint(bytes, len, &at, &value) || value == 0 || value > IR_VERSION_MAX) return false;
    while (read_varint(bytes, len, &at, &tag) && read_varint(bytes, len, &at, &value)) {
        if (tag == MODEL_VERSION) continue;
        if ((tag & 7) != LENGTH || tag >> 3 > FIELD_MAX || value > len - at) return false;
        if (tag == GRAPH) return true;
        at += value;
    }
    return false;
}

/* ---- text ---- */

/* Behind white space and comments, the word "graph" and what may follow it. */
static bool is_graph(const uint8_t *bytes, size_t len) {
    enum { COMMENTS_MAX = 64 << 10 };
    const size_t most = len < COMMENTS_MAX ? len : COMMENTS_MAX;
    size_t at = 0;
    for (bool in_comment = false; at < most; at++) {
        if (bytes[at] == '\n') in_comment = false;
        else if (bytes[at] == '#') in_comment = true;
        else if (!in_comment && !strchr(" \t\r", bytes[at])) break;
    }
    if (len - at < 6 || memcmp(bytes + at, "graph", 5) != 0) return false;
    return bytes[at + 5] && strchr(" \t\r\n@{#", bytes[at + 5]);
}

/* ---- all ---- */

static bool is_safetensors(const uint8_t *bytes, size_t len) {
    return len > 9 && read_le(bytes, 8) <= len - 8 && bytes[8] == '{';
}

static bool starts(const uint8_t *bytes, size_t len, const char *magic, size_t magic_len) {
    return len >= magic_len && memcmp(bytes, magic, magic_len) == 0;
}

hn_kind hn_kind_of(const void *from, size_t len) {
    static const struct {
        const char *magic;
        size_t len;
        hn_kind kind;
    } known[] = {
        {HN_KIND_BUNDLE_MAGIC, 8, HN_KIND_BUNDLE},
        {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14, HN_KIND_TORCH_SAVE},
        {"\x80\x02", 2, HN_KIND_PICKLE},
        {"\x80\x03", 2, HN_KIND_PICKLE},
        {"\x80\x04\x95", 3, HN_KIND_PICKLE},
        {"\x80\x05\x95", 3, HN_KIND_PICKLE},
        {"GGUF", 4, HN_KIND_GGUF},
        {"\x89HDF\r\n\x1a\n", 8, HN_KIND_HDF5},
        {"\x93NUMPY", 6, HN_KIND_NPY},
        {"\x7f"
         "ELF",
         4, HN_KIND_ELF},
        {"\x1f\x8b", 2, HN_KIND_GZIP},
        {"version https://git-lfs", 23, HN_KIND_LFS},
    };
    const uint8_t *bytes = from;
    if (!len) return HN_KIND_EMPTY;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (starts(bytes, len, known[k].magic, known[k].len)) return known[k].kind;
    if (starts(bytes, len, "PK\3\4", 4) || starts(bytes, len, "PK\5\6", 4))
        return zip_kind(bytes, len);
    if (is_safetensors(bytes, len)) return HN_KIND_SAFETENSORS;
    if (is_graph(bytes, len)) return HN_KIND_GRAPH;
    return is_onnx(bytes, len) ? HN_KIND_ONNX : HN_KIND_UNKNOWN;
}

#define EXPORT_IT                                                                                  \
    "export the model with torch.export.export and torch.export.save, and compile the .pt2"

/* What each kind is called, and what to do about it where a bundle or a model is needed. NULL: it
 * is not refused there. */
static const struct {
    const char *name, *for_bundle, *for_model;
} kinds[HN_KIND_COUNT] = {
    [HN_KIND_UNKNOWN] = {"of no known kind", NULL, EXPORT_IT},
    [HN_KIND_EMPTY] = {"empty", "was it written to the end?", "was it written to the end?"},
    [HN_KIND_BUNDLE] = {"a bundle (.hnb)", NULL,
                        "it is compiled already: load it with hn_module_load_file, or 'henry run'"},
    [HN_KIND_PT2] = {"a PyTorch model (.pt2)",
                     "compile it first, with hn_compile_file or 'henry compile'", NULL},
    [HN_KIND_GRAPH] = {"a graph as text (.hnir)",
                       "compile it first, with hn_compile_file or 'henry compile'", NULL},
    [HN_KIND_TORCHSCRIPT] = {"a TorchScript archive", EXPORT_IT, EXPORT_IT},
    [HN_KIND_TORCH_SAVE] = {"a file of torch.save (.pt)", EXPORT_IT, EXPORT_IT},
    [HN_KIND_PICKLE] = {"a Python pickle", EXPORT_IT, EXPORT_IT},
    [HN_KIND_ZIP] = {"a zip archive of another kind", EXPORT_IT, EXPORT_IT},
    [HN_KIND_SAFETENSORS] =
        {"a safetensors file, which holds weights and no program",
         "load the bundle and name this file as hn_module_options.weights_path, or with --weights",
         EXPORT_IT},
    [HN_KIND_ONNX] = {"an ONNX model", EXPORT_IT, EXPORT_IT},
    [HN_KIND_GGUF] = {"a GGUF file, which holds weights and no program", EXPORT_IT, EXPORT_IT},
    [HN_KIND_HDF5] = {"an HDF5 file", EXPORT_IT, EXPORT_IT},
    [HN_KIND_NPY] = {"a NumPy array", "arrays are inputs: 'henry run MODEL --input FILE'",
                     "arrays are inputs: 'henry run MODEL --input FILE'"},
    [HN_KIND_ELF] = {"a program or a shared library", EXPORT_IT, EXPORT_IT},
    [HN_KIND_GZIP] = {"a gzip file", "unpack it first", "unpack it first"},
    [HN_KIND_LFS] = {"a pointer of Git LFS", "fetch the file itself with 'git lfs pull'",
                     "fetch the file itself with 'git lfs pull'"},
};

const char *hn_kind_name(hn_kind kind) { return kinds[kind].name; }

static hn_status refuse(hn_kind kind, const char *wanted, const char *advice) {
    if (!advice) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "it is %s, not %s; %s", kinds[kind].name, wanted, advice);
}

hn_status hn_kind_refuse_to_load(hn_kind kind) {
    return refuse(kind, kinds[HN_KIND_BUNDLE].name, kinds[kind].for_bundle);
}

hn_status hn_kind_refuse_to_compile(hn_kind kind, const char *wanted) {
    return refuse(kind, wanted, kinds[kind].for_model);
}
