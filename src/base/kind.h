/* kind.h: what a file is by its first bytes, so that the message about a wrong one can name it and say what to do. */
#ifndef HN_BASE_KIND_H
#define HN_BASE_KIND_H

#include "henry/status.h"

#define HN_KIND_BUNDLE_MAGIC "\x89HNB\r\n\x1a\n" /* 8 bytes; shows text conversion and 7-bit transport */

typedef enum hn_kind {
    HN_KIND_UNKNOWN,
    HN_KIND_EMPTY,
    HN_KIND_BUNDLE,
    HN_KIND_PT2,
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

/* Reads the ends of the bytes only. A hostile file may pass for any kind: this is for messages. */
hn_kind hn_kind_of(const void *bytes, size_t len);

/* The error for bytes that are not what the caller needs, HN_KIND_BUNDLE or HN_KIND_PT2: what they are, and the right call and command.
 * NULL when they are of the kind that is needed, or of none that is known: then the reader's own message says more. Errors:
 * invalid-argument. */
hn_status hn_kind_refuse(const void *bytes, size_t len, hn_kind needed) HN_MUST_USE;

#endif
