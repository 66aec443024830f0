/* to_source.h: prints a program as the C of a standalone project: `henry compile --emit source`.
 * The fixed parts of a project are share/source. */
#ifndef HN_WRAPPER_TO_SOURCE_H
#define HN_WRAPPER_TO_SOURCE_H

#include "wrapper/numbering.h"

enum { HN_SOURCE_HEAD_BYTES = 64 }; /* that weights.bin begins with */

typedef struct hn_to_source {
    const hn_wnumbering *numbering; /* of a wrapper for one target */
    hn_str model;                   /* its name for people; may be empty */
    hn_str target, kernel_flags; /* of the kernels: "x86-64-v3", "-O2 -fwrapv ... -mavx2 -mfma" */
    hn_str features;             /* that they need, each name closed by a NUL: "avx2\0fma\0" */
    uint32_t kernel_files;       /* kernels_0.c and on; 0: the kernels are for a device ... */
    const hn_str *targets;       /* ... and for these, the best first; of each ... */
    uint32_t target_count;
    const hn_str
        *code_files; /* ... files of machine code, by the numbers that kernels have as object */
    uint32_t code_count;
    const hn_str *stats_files; /* per target: machine code of the statistics of tensors */
    const uint64_t
        *weight_offsets; /* per storage of `numbering`: bytes behind the head of weights.bin */
    uint64_t weights_bytes, weights_id;
    hn_str runtime_files; /* "lib/runtime/copy.c ...": the C files that come along */
    hn_str extern_flags;  /* for them: which of their kernels the program needs */
    hn_arena *arena;
} hn_to_source;

/* The device that runs the kernels. */
hn_device_kind hn_source_device(const hn_wrapper *w);
/* Whether the host calls operations of the runtime. */
bool hn_source_has_externs(const hn_wrapper *w);
/* model.c */
hn_status hn_wrapper_to_source(const hn_to_source *source, hn_strbuf *out) HN_MUST_USE;
/* program.json: the same for tools, docs/program-json.md. */
void hn_wrapper_to_json(const hn_to_source *source, hn_strbuf *out);
/* A file of share/source with its words, @NAME@ and the like, filled in. Errors: internal for an
 * unknown word. */
hn_status hn_source_fill(const hn_to_source *source, hn_str text, hn_strbuf *out) HN_MUST_USE;

#endif
