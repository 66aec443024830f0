/* kind.h: what a file is by its first bytes: which reader takes it, or what the message about a
 * wrong one says. */
#ifndef HN_BASE_KIND_H
#define HN_BASE_KIND_H

#include "henry/status.h"

#define HN_KIND_BUNDLE_MAGIC                                                                       \
    "\x89HNB\r\n\x1a\n" /* 8 bytes; shows text conversion and 7-bit transport */

typedef enum hn_kind {
    HN_KIND_UNKNOWN,
    HN_KIND_EMPTY,
    HN_KIND_BUNDLE,
    HN_KIND_PT2,
    HN_KIND_GRAPH, /* graph IR in text form */
    HN_KIND_TORCHSCRIPT,
    HN_KIND_TORCH_SAVE,
    HN_KIND_PICKLE,
    HN_KIND_ZIP, /* none of the above */
    HN_KIND_SAFETENSORS,
    HN_KIND_ONNX,
    HN_KIND_GGUF,
    HN_KIND_HDF5,
    HN_KIND_NPY,
    HN_KIND_ELF,
    HN_KIND_GZIP,
    HN_KIND_LFS,
    HN_KIND_COUNT
} hn_kind;

/* Reads the ends of the bytes only. A hostile file may pass for any kind: this is for messages and
 * for the choice of a reader, which checks all. */
hn_kind hn_kind_of(const void *bytes, size_t len);

/* "a PyTorch model (.pt2)". Static storage. */
const char *hn_kind_name(hn_kind kind);

/* The error for a file of this kind where a bundle is needed: what it is, and the right call and
 * command. NULL for a bundle, and for bytes of no known kind: the reader's own message says more.
 * Errors: invalid-argument. */
hn_status hn_kind_refuse_to_load(hn_kind kind) HN_MUST_USE;
/* The same where a model is needed and no importer takes the file. `wanted`: what the importers
 * read. */
hn_status hn_kind_refuse_to_compile(hn_kind kind, const char *wanted) HN_MUST_USE;

#endif
