/* henry/program.h: compile a PyTorch model into a program that a module can run (henry/module.h).
 *
 * hn_compile_file takes a .pt2 file, or hn_compile_memory its bytes. hn_compile_submit of henry/kernel.h is something else: it
 * compiles source text of single kernels. Link libhenry; a program that only runs bundles needs libhenry_rt and no function from
 * here.
 *
 *     hn_compiled *compiled;
 *     HN_TRY(hn_compile_file("model.pt2", NULL, &compiled));
 *     hn_module *module;
 *     HN_TRY(hn_compiled_load(compiled, NULL, &module));
 *     hn_compiled_release(compiled);          the module does not need it
 *
 * Threads: separate compilations may run at the same time; one hn_compiled is read-only once made. */
#ifndef HENRY_PROGRAM_H
#define HENRY_PROGRAM_H

#include "henry/cache.h"
#include "henry/module.h"
#include "henry/progress.h"
#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zeros mean defaults. Strings are borrowed for the call. */
typedef struct hn_compile_options {
    const char *model;      /* which model of an archive with several; NULL: the only one, or "model" */
    const char *cache_dir;  /* NULL: HENRY_CACHE_DIR, else the user's cache */
    const char *remote_url; /* of a cache that machines share: redis:// or unix://; NULL: HENRY_REDIS_URL; "": none */
    const char *cache_tag;  /* part of the key of the program and of its kernels: what was compiled under one tag is not found under
                               another, so tags keep users apart, and a new tag compiles anew. NULL: HENRY_CACHE_TAG, else none */
    bool no_cache;          /* neither read nor write any cache */
    bool no_fusion;         /* one kernel for each loop nest: slow, for finding errors */
    int32_t compile_threads; /* compilers at once; 0: HENRY_COMPILE_THREADS, else one a CPU */
    int32_t threads;        /* threads that the program is planned for; 0: one a CPU */
    const char *target_cpu; /* "x86-64-v3" and the like; NULL: this machine's */
    bool verify;            /* compare every record of the file with its checksum, also when the graph cache has the program */
    bool embed_weights;     /* put the weights into the image; otherwise it refers to the model file, or to ... */
    const char *safetensors; /* ... this file, which is written, in the safetensors format; not with embed_weights. The image finds it
                                beside itself, under its last name. NULL: none */
    /* Sizes that the program must take, of all inputs in the order of hn_module_run, or of the tensors alone; NULL: any. A
     * compilation decides some things by the sizes that the model was exported with and guards them. Where these sizes
     * break such a guard, the program is compiled for them instead; the cache keeps both. Sizes that the model itself
     * forbids change nothing: hn_module_run tells. */
    const hn_input_sizes *inputs;
    uint32_t input_count;
    const char *dump_after; /* name of a pass, or "import", "lower", "fusion" (refused ones), "sched", "codegen": its result goes to `dump` */
    void (*dump)(void *context, const char *text);
    void *dump_context;
    const char *source_dir; /* write the program as a C project into this folder; the hn_compiled is empty then and cannot be loaded.
                               henry-manifest.txt in the folder lists what was written. A file that is not listed there, or that was edited
                               since, is not replaced: invalid-argument, and nothing is written. `dump` gets a line for each file: "written
                               model.c"; also "unchanged", "removed" (from an earlier export) and "kept" (the same, but edited) */
    hn_scope_progress_fn progress; /* called while waiting for compilers, about files of kernels. NULL: nobody is told */
    void *progress_context;
} hn_compile_options;

typedef enum hn_cache_state { HN_CACHE_OFF, HN_CACHE_MISS, HN_CACHE_HIT } hn_cache_state;

/* Nanoseconds of each phase and counts of what was made. After a graph cache hit the counts are those of the compilation
 * that filled the cache, and the phases that did not run are 0. */
typedef struct hn_compile_stats {
    int64_t import_ns, opt_ns, lower_ns, sched_ns, codegen_ns, compile_ns, bundle_ns, total_ns;
    uint32_t nodes_imported, nodes, loops;
    uint32_t kernels_generated; /* launches of generated kernels in the program */
    uint32_t kernels_unique;    /* that differ in their text */
    uint32_t kernels_compiled, kernels_cached; /* of the unique ones: by a compiler now, from a cache */
    uint32_t kernels_extern;    /* calls of the runtime's own operations */
    uint32_t kernels_remote; /* of the cached ones: from the remote cache */
    bool graph_remote;       /* a hit of the graph cache that came from the remote cache */
    hn_cache_state graph_cache;
    int64_t time_saved_ns; /* how long the program took to make when it was compiled; without a hit of the graph cache, the same of
                              the kernels that were found, added up */
    uint64_t bypasses[HN_BYPASS_COUNT]; /* of the program and of its kernels: how often each reason kept one out of the cache */
    struct {
        bool is_on;
        uint64_t hits, misses, puts, damaged, failures, skipped; /* as in hn_service_stats */
        int64_t total_ns;
    } remote;
} hn_compile_stats;

typedef struct hn_compiled hn_compiled;

/* Compiles a .pt2 file. Weights are compared with the checksums of the file, unless the graph cache has the program and the
 * file was compared on this machine and not changed since (`verify` compares all the same). Files with equal graphs and other
 * weights share programs. Owns: the caller releases `*out`. Errors: those of the importer (the message names file, node and
 * what to do), unsupported, toolchain, out-of-memory. A cache that cannot be used is a warning, not an error. */
HN_API hn_status hn_compile_file(const char *path, const hn_compile_options *options, hn_compiled **out) HN_MUST_USE;

/* The same for the bytes of a .pt2 file. They are read during the call only. Since there is no file that the program could refer
 * to, `embed_weights` is taken as set, unless `safetensors` names a file for the weights. Finding the program in the cache takes a
 * digest of all bytes. Errors: as hn_compile_file. */
HN_API hn_status hn_compile_memory(const void *bytes, size_t len, const hn_compile_options *options, hn_compiled **out) HN_MUST_USE;

/* Loads the program into this process. `options` may be NULL. Owns: one reference, which needs `compiled` no longer. Errors: as
 * hn_module_load_file. */
HN_API hn_status hn_compiled_load(const hn_compiled *compiled, const hn_module_options *options, hn_module **out) HN_MUST_USE;

/* Writes the program as a bundle (.hnb) that runs without the compiler and, with embed_weights, without the model file. The
 * bundle records a digest of its weights, for hn_bundle_verify_file; to compute it takes about a second for each gigabyte.
 * A file that is there is replaced. Errors: io; not-found or incompatible when the weights that it refers to are gone or changed. */
HN_API hn_status hn_compiled_save(const hn_compiled *compiled, const char *path) HN_MUST_USE;

/* The image itself. Borrowed. Of NULL: NULL and 0 bytes; the statistics are zeros. */
HN_API const void *hn_compiled_image(const hn_compiled *compiled, size_t *out_len);
HN_API void hn_compiled_stats_get(const hn_compiled *compiled, hn_compile_stats *out);
HN_API void hn_compiled_release(hn_compiled *compiled); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
