/* to_bundle.h: prints a planned wrapper as a bundle (src/bundle). Running at once, a graph cache
 * entry and a shipped file are all this one form. */
#ifndef HN_WRAPPER_TO_BUNDLE_H
#define HN_WRAPPER_TO_BUNDLE_H

#include "base/hash.h"
#include "codegen/codegen.h"
#include "wrapper/wrapper.h"

/* The artefact of one unit. hn_wkernel_info.object is an index into `items`. */
typedef struct hn_bundle_object {
    hn_str name;       /* for messages; may be empty */
    const void *bytes; /* NULL: only referred to, by `digest`; the host finds it at load */
    size_t len;
    hn_digest digest; /* of bytes that are given it is computed */
    uint32_t target;
    bool is_ptx; /* text that the device's driver compiles */
} hn_bundle_object;

/* What a set of objects is for. */
typedef struct hn_bundle_target {
    hn_str name;
    hn_str features; /* list, each with its NUL, in gcc's names: "avx2\0fma\0"; checked at load */
    hn_device_kind device; /* that runs them */
} hn_bundle_target;

typedef struct hn_bundle_objects {
    const hn_bundle_object *items;
    uint32_t count;
    /* the best first; none: one with the features of the options */
    const hn_bundle_target *targets;
    uint32_t target_count;
} hn_bundle_objects;

typedef struct hn_to_bundle_options {
    hn_str model;        /* name for people; may be empty */
    hn_str cpu_features; /* of the one target, when hn_bundle_objects names none */
    /* Storages that lie in a file (hn_storage.file_record not empty) are put into the bundle when
     * embed_weights is set or weights_path is empty, else referred to in this file by their
     * file_offset. Bytes made by passes are always put in. */
    bool embed_weights;
    hn_str weights_path; /* stored as the hint where to look */
    /* that file, mapped: for its digests and size. Needed when weights_path is used */
    const uint8_t *weights_data;
    size_t weights_bytes;
    int64_t weights_mtime_ns; /* 0: unknown */
    /* Not NULL: storages that lie in a file are written to this safetensors file and referred to
     * there, by `weights_path`. */
    const char *safetensors;
    /* record of what the program was compiled under (cache/record.h); may be empty */
    hn_str key;
    hn_str tuning; /* lines of tuning records; may be empty */
    /* the image of the program of weights that the graph has. Empty: storages that it computes are
     * computed now, by the interpreter, and put in as bytes that passes made */
    hn_str weights_program;
    /* the image is such a program: its storages are those of the program around it */
    bool is_of_weights;
    /* digest all weight bytes (some 0.7 s for each GB), for `verify_weights` at load */
    bool full_digest;
} hn_to_bundle_options;

/* Appends the image to `out_image`, which must be empty. Only storages that the program uses go in.
 * Errors: unsupported (a size that no input determines; a storage without bytes), internal,
 * out-of-memory. */
hn_status hn_wrapper_to_bundle(const hn_wrapper *w, const hn_memory_plan *plan,
                               const hn_bundle_objects *objects,
                               const hn_to_bundle_options *options,
                               hn_strbuf *out_image) HN_MUST_USE;
/* The same into a file, atomically, without gathering the weights in memory. Errors: also io. */
hn_status hn_wrapper_save_bundle(const hn_wrapper *w, const hn_memory_plan *plan,
                                 const hn_bundle_objects *objects,
                                 const hn_to_bundle_options *options, const char *path) HN_MUST_USE;

#endif
