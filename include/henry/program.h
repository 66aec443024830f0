/* henry/program.h: compile a PyTorch model into a program that a module can run (henry/module.h).
 *
 * hn_compile_file takes a .pt2 file, hn_compile_memory its bytes. Do not confuse them with
 * hn_compile_submit of henry/kernel.h, which compiles source text of single kernels. Link libhenry.
 * A program that only runs bundles links libhenry_rt and needs no function from here.
 *
 *     hn_compiled *compiled;
 *     HN_TRY(hn_compile_file("model.pt2", NULL, &compiled));
 *     hn_module *module;
 *     HN_TRY(hn_compiled_load(compiled, NULL, &module));
 *     hn_compiled_release(compiled);          the module does not need it
 *
 * Threads: separate compilations may run at the same time; one hn_compiled is read-only once
 * made. */
#ifndef HENRY_PROGRAM_H
#define HENRY_PROGRAM_H

#include "henry/cache.h"
#include "henry/metrics.h"
#include "henry/module.h"
#include "henry/progress.h"
#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What of a program's memory is shared. */
typedef enum hn_memory_pool {
    /* temporaries that are not alive together; each output has memory of its own */
    HN_MEMORY_POOL_INTERMEDIATES = 0,
    /* nothing: every temporary has its own bytes, and no kernel works in place. For finding errors:
     * after a run each still has its content */
    HN_MEMORY_POOL_NONE = 1,
    /* as the first; and outputs lie side by side in one block */
    HN_MEMORY_POOL_OUTPUTS = 2,
    /* temporaries and outputs in one block, so that temporaries use bytes of outputs that are not
     * there yet: the lowest peak, for training steps for example */
    HN_MEMORY_POOL_COMBINED = 3
    /* A block of outputs is freed when the last of them is released. Each device has its own block.
     * Outputs whose size depends on data have memory of their own */
} hn_memory_pool;

/* Which form a kernel gets where it has several: henry/tune.h. */
typedef enum hn_tune_mode {
    HN_TUNE_KNOWN = 0,   /* what was measured for this model decides; nothing is timed */
    HN_TUNE_MISSING = 1, /* what is not known is timed, and kept in the cache */
    HN_TUNE_AGAIN = 2    /* everything is timed */
} hn_tune_mode;

/* Zeros mean defaults. Strings are borrowed for the call. */
typedef struct hn_compile_options {
    /* which model of an archive with several; NULL: the only one, or "model" */
    const char *model;
    const char *cache_dir; /* NULL: HENRY_CACHE_DIR, else the user's cache */
    /* of a remote cache: redis:// or unix://; NULL: HENRY_REDIS_URL; "": none */
    const char *remote_url;
    /* part of the key of the program and of its kernels. Results of one tag are not found under
     * another, so tags separate users, and a new tag compiles everything again. NULL:
     * HENRY_CACHE_TAG, else none */
    const char *cache_tag;
    bool no_cache;           /* neither read nor write any cache */
    bool no_fusion;          /* one kernel per loop nest: slow, for debugging */
    int32_t compile_threads; /* compilers at once; 0: HENRY_COMPILE_THREADS, else one per CPU */
    /* as in hn_service_options: start the programs of the compiler for each kernel */
    bool no_standby;
    int32_t threads; /* threads that the program is planned for; 0: one per CPU */
    /* names separated by commas: levels of CPUs ("x86-64-v3,generic"), architectures of NVIDIA's
     * GPUs ("sm_90a,sm_80"), "opencl". With several kinds of these the result has a program for
     * each kind, and hn_module_options.device chooses. NULL: this machine's CPU */
    const char *target;
    /* compare every record of the file with its checksum, even if the graph cache has the
     * program */
    bool verify;
    /* put the weights into the image; otherwise it refers to the model file, or to ... */
    bool embed_weights;
    /* ... this file, which is written, in the safetensors format; not with embed_weights. The image
     * finds it in its own folder, by its file name. NULL: none */
    const char *safetensors;
    /* Sizes that the program must accept, of all inputs in the order of hn_module_run, or of the
     * tensors only; NULL: any. The compiler makes some decisions for the sizes of the export, and
     * guards them. If these sizes break such a guard, Henry compiles a second variant for them and
     * caches both. Sizes that the model itself forbids change nothing here; hn_module_run reports
     * them. */
    const hn_input_sizes *inputs;
    uint32_t input_count;
    /* name of a pass, or "import", "lower", "fusion" (rejected fusions), "sched", "codegen",
     * "wrapper" (the program as wrapper IR), "plan" (the same with its memory plan), "memory-svg",
     * "memory-json" (the plan alone, of one kind of device): its result is passed to `dump` */
    const char *dump_after;
    void (*dump)(void *context, const char *text);
    void *dump_context;
    /* write the program as a C project into this folder; the hn_compiled is empty then and cannot
     * be loaded. henry-manifest.txt in the folder lists what was written. A file that is not listed
     * there, or that was edited since, is not replaced: invalid-argument, and nothing is written.
     * `dump` gets a line for each file: "written model.c"; also "unchanged", "removed" (from an
     * earlier export) and "kept" (the same, but edited) */
    const char *source_dir;
    /* called while waiting for compilers, with counts of kernel files. NULL: no progress */
    hn_scope_progress_fn progress;
    void *progress_context;
    /* on GPUs: the same bits each time, also where values of floats are added up at indices from
     * data (scatter_add, index_add, gradients of embeddings, ...), or several are put at one index:
     * the last one is there, and sums are in order. Otherwise threads add as they come. Slower;
     * other results, and all of CPUs, are the same each time without it */
    bool deterministic;
    /* what lies in the same memory; no part of the results */
    hn_memory_pool memory_pool;
    /* Inputs, by name or by number ("0"), whose memory runs may use behind the last use of the
     * input, if the run says so, too: hn_run_options.donated. Errors: not-found; unsupported for an
     * input that is no contiguous tensor, that the program changes, or that two devices read */
    const char *const *donated;
    uint32_t donated_count;
    /* Metric tables (henry/metrics.h) to which this compilation adds rows: names with commas
     * between them, "all", with .csv (the default) or .jsonl behind each. The graph cache is left
     * out then, since a program that is there has no passes and kernels to tell of. NULL:
     * HENRY_METRIC_TABLES; "": none. Errors: invalid-argument for other names, and for files with
     * other columns; io */
    const char *metric_tables;
    /* the folder of their files, which is made. NULL: HENRY_METRIC_DIR, else the current folder */
    const char *metric_dir;
    /* What depends on weights alone is computed once, when a module is opened or its weights are
     * exchanged, where calls save time by it; the results have at most so many bytes in all. 0: as
     * many as the weights of the model, or 16 MiB; less than 0: none, each call computes
     * everything */
    int64_t computed_weights_bytes;
    /* Timing needs a compiler and the device, and takes seconds. Not with `deterministic`: there
     * the model of costs decides. */
    hn_tune_mode tune;
    /* a file of tuning records (docs/tuning.md), which count before those of the cache. "": no
     * records, the cache's neither; the model of costs decides. NULL: those of the cache alone.
     * Errors: not-found, io */
    const char *tuning;
    int64_t tune_budget_ns; /* for all kernels together, compilers included; 0: 30 seconds */
    /* Sizes at which forms of kernels are compared, of symbols that they depend on:
     * "s0=64,256,4096"; with `tune` they are timed there. Others: that of the export, and powers of
     * four. Errors: invalid-argument */
    const char *const *tune_hints;
    uint32_t tune_hint_count;
    /* How far the search around a kernel's fastest form looks where no neighbour is faster, which
     * differs in one parameter: forms within so many steps, of several parameters at once; at most
     * 4. 0, 1: it ends there. */
    int32_t tune_radius;
    /* With `tune`: also whether loops that would share a kernel are faster in kernels of their own,
     * where the model of costs expects little of a difference */
    bool tune_fusion;
    /* Forms that kernels and calls of operations are to have, whatever was measured or is expected,
     * as "softmax=persistent; linear*=skinny" (docs/tuning.md): a kernel or call has the form of
     * the first pattern that its name or one of its nodes matches. A pattern that matches none is a
     * warning. NULL: HENRY_FORM; "": none. Errors: not-found for a form that cannot be had, naming
     * those that can; invalid-argument */
    const char *forms;
    /* called before the forms of a kernel are timed. NULL: no progress */
    hn_tune_progress_fn tune_progress;
    void *tune_progress_context;
    /* The program has so many forms of each kernel, those that are expected to be the fastest at
     * some size, and hn_module_tune chooses among them where it runs. 0, 1: only those that run; at
     * most 32. A larger program: most of it is code */
    int32_t forms_shipped;
} hn_compile_options;

typedef enum hn_cache_state { HN_CACHE_OFF, HN_CACHE_MISS, HN_CACHE_HIT } hn_cache_state;

/* Nanoseconds of each phase and counts of what was made. After a graph cache hit the counts are
 * those of the compilation that filled the cache, and the phases that did not run are 0. */
typedef struct hn_compile_stats {
    int64_t import_ns, opt_ns, lower_ns, sched_ns, codegen_ns, compile_ns, bundle_ns, total_ns;
    int64_t count_ns; /* of the counters and the records of steps, between codegen and compile */
    uint32_t nodes_imported, nodes;
    /* after lowering, before calls of operations take theirs */
    uint32_t loops;
    uint32_t kernels_generated; /* launches of generated kernels in the program */
    uint32_t kernels_unique;    /* with different text */
    /* of the unique ones: compiled now, found in a cache */
    uint32_t kernels_compiled, kernels_cached;
    uint32_t kernels_extern; /* calls of the runtime's own operations */
    uint32_t kernels_remote; /* of the cached ones: from the remote cache */
    bool graph_remote;       /* a hit of the graph cache that came from the remote cache */
    hn_cache_state graph_cache;
    /* on a hit of the graph cache, the time that the program's compilation took; otherwise the sum
     * of the compile times of the kernels that were found */
    int64_t time_saved_ns;
    /* how often the program or a kernel was not cached, for each reason */
    uint64_t bypasses[HN_BYPASS_COUNT];
    struct {
        bool is_on;
        uint64_t hits, misses, puts, damaged, failures, skipped; /* as in hn_service_stats */
        int64_t total_ns;
    } remote;
} hn_compile_stats;

typedef struct hn_compiled hn_compiled;

/* Compiles a .pt2 file. Weights are compared with the checksums of the file. This is skipped if the
 * graph cache has the program and the file was verified on this machine and is unchanged, unless
 * `verify` is set. Files with equal graphs and different weights share programs. Owns: the caller
 * releases `*out`. Errors: those of the importer (the message names file, node and what to do),
 * unsupported, toolchain, out-of-memory. A cache that cannot be used is a warning, not an error. */
HN_API hn_status hn_compile_file(const char *path, const hn_compile_options *options,
                                 hn_compiled **out) HN_MUST_USE;

/* The same for the bytes of a .pt2 file. They are read during the call only. Since the program can
 * refer to no file, `embed_weights` is taken as set, unless `safetensors` names a file for the
 * weights. A lookup in the cache computes a digest of all bytes. Errors: as hn_compile_file. */
HN_API hn_status hn_compile_memory(const void *bytes, size_t len, const hn_compile_options *options,
                                   hn_compiled **out) HN_MUST_USE;

/* Loads the program into this process. `options` may be NULL. Owns: one reference; `compiled` may
 * be released. Errors: as hn_module_load_file. */
HN_API hn_status hn_compiled_load(const hn_compiled *compiled, const hn_module_options *options,
                                  hn_module **out) HN_MUST_USE;

/* Writes the program as a bundle (.hnb) that runs without the compiler and, with embed_weights,
 * without the model file. The bundle records a digest of its weights, for hn_bundle_verify_file;
 * this takes about a second per gigabyte. An existing file is replaced. Errors: io; not-found or
 * incompatible if the weights that it refers to are missing or changed. */
HN_API hn_status hn_compiled_save(const hn_compiled *compiled, const char *path) HN_MUST_USE;

/* The image itself. Borrowed. For NULL: NULL and 0 bytes; the statistics are zeros. */
HN_API const void *hn_compiled_image(const hn_compiled *compiled, size_t *out_len);
HN_API void hn_compiled_stats_get(const hn_compiled *compiled, hn_compile_stats *out);
/* The counters of this compilation (henry/metrics.h). Zeros for NULL. */
HN_API void hn_compiled_metrics_get(const hn_compiled *compiled, hn_metrics *out);
HN_API void hn_compiled_release(hn_compiled *compiled); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
