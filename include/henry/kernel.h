/* henry/kernel.h: the compile service: give it kernel source in some language, get a future.
 *
 * This is for programs with kernels of their own. To compile a PyTorch model, use hn_compile_file
 * of henry/program.h, which uses a service itself; this header is not needed for that, and
 * henry/henry.h does not include it.
 *
 * A service compiles in worker processes, caches results in memory and on disk, and compiles equal
 * jobs that run at the same time only once. Submitting never waits for a compiler. A result depends
 * only on the job record (language, text, entries, flags, target, compiler, the environment it may
 * read), never on the number of workers.
 *
 *     hn_service_create(NULL, &service);          hn_scope_create(service, &scope);
 *     hn_compile_submit(scope, &source, &future); ... more ...   hn_scope_wait(scope, NULL, NULL);
 *     hn_future_wait(future, -1, &artifact);      hn_artifact_load(artifact, &library);
 *     hn_library_symbol(library, "my_kernel", &address);
 *
 * Threads: everything is safe from many threads, unless stated. Fork: a child starts over with an
 * empty service; scopes and futures made before the fork give a cancelled error in the child and
 * are not to be destroyed there. */
#ifndef HENRY_KERNEL_H
#define HENRY_KERNEL_H

#include "henry/cache.h"
#include "henry/progress.h"
#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hn_service hn_service;
typedef struct hn_scope hn_scope;
typedef struct hn_future hn_future;
typedef struct hn_artifact hn_artifact;
typedef struct hn_library hn_library;

/* ---- service ---- */

typedef struct hn_service_options {
    /* jobs at once. 0: HENRY_COMPILE_THREADS, else CPUs in the affinity mask, at most 32. 1: no
     * workers, jobs run in this process when somebody waits for them */
    int32_t threads;
    /* NULL: HENRY_WORKER, else henry-worker next to the program or in ../libexec/henry from there,
     * else next to the library or in ../libexec/henry from there, else by the henry in PATH. "": no
     * workers */
    const char *worker_path;
    /* NULL: HENRY_CACHE_DIR, else the user's cache; "": nothing on disk */
    const char *cache_dir;
    const char *remote_url;   /* of a remote cache: redis:// or unix://, docs/cache.md. NULL:
                                  HENRY_REDIS_URL; "": none */
    uint64_t cache_max_bytes; /* 0: 2 GiB */
    /* part of the key of every job: results of one tag are not found under another. NULL:
     * HENRY_CACHE_TAG, else none */
    const char *cache_tag;
    int64_t job_timeout_ms; /* 0: 300 s; < 0: none */
    /* address space of each compiler process; 0: 8 GiB; UINT64_MAX: no limit */
    uint64_t job_memory_bytes;
    /* limit of simultaneous processes of a job; 0: 256. With workers only */
    uint32_t job_processes;
    int64_t idle_ms; /* a worker without work ends after this; 0: 60 s; < 0: never */
    bool warm;       /* start all workers now, as hn_service_warm does */
    /* start the programs of the C compiler for each job, and do not keep them ready in the workers.
     * The results are the same. false: HENRY_STANDBY=off does the same */
    bool no_standby;
    /* a job that takes longer is reported as a warning, and again after each such interval
     * (henry/log.h). 0: HENRY_SLOW_JOBS (seconds), else 60 s; < 0: never */
    int64_t slow_job_ms;
    /* a JSON file with the compile time of each kernel, sorted by name, written when the service
     * ends or becomes idle. NULL: HENRY_COMPILE_TIMES; "": none */
    const char *compile_times_path;
    /* the output of workers and compilers is appended to this file, with time and process id. NULL:
     * HENRY_WORKER_LOG; "": none, and workers print to standard error */
    const char *worker_log_path;
} hn_service_options;

/* Makes a service. Workers start with the first job that has to be compiled, or now if `warm` is
 * set. Until the first worker is ready, jobs that are waited for without a time limit run in this
 * process. `options` may be NULL. Owns: the caller destroys it.
 * Errors: out-of-memory. */
HN_API hn_status hn_service_create(const hn_service_options *options,
                                   hn_service **out_service) HN_MUST_USE;

/* Ends the service: unfinished jobs are cancelled and their processes killed; takes well under a
 * second. Scopes must have been destroyed; artifacts and libraries stay valid. NULL is allowed. A
 * process may exit without calling it. */
HN_API void hn_service_destroy(hn_service *service);

/* Starts the workers now, so that the first job finds them ready. Returns at once. Errors:
 * out-of-memory. */
HN_API hn_status hn_service_warm(hn_service *service) HN_MUST_USE;
/* Waits until no job runs or waits, results are on disk, and all workers have ended; at most
 * `timeout_ms` (< 0: no limit). This includes jobs that are submitted meanwhile. Jobs are not
 * cancelled. The next job, or hn_service_warm, starts workers again. Without workers, this does not
 * wait for jobs that no thread waits for, since nothing would start them. Threads: safe, but not
 * from a progress callback. Errors: timeout if something is left; out-of-memory. */
HN_API hn_status hn_service_quiesce(hn_service *service, int64_t timeout_ms) HN_MUST_USE;

/* Clears the results in memory. Later requests read them from disk, or compile again. Running and
 * waiting jobs, futures and artifacts are not affected. */
HN_API void hn_service_clear(hn_service *service);

/* ---- jobs ---- */

typedef struct hn_source {
    const char *name; /* of the kernel, for messages and traces; not part of the key */
    /* "c", "c++", "python", "cuda" or "nvcc": docs/compile-service.md says what each needs and
     * produces, and what `entries`, `flags` and `target` mean for it */
    const char *language;
    const char *text;
    size_t text_len;
    /* functions that the result must have: one that is missing is an error */
    const char *const *entries;
    size_t entry_count;
    /* one compiler flag each; docs/compile-service.md lists the allowed ones */
    const char *const *flags;
    size_t flag_count;
    /* CPU features such as "avx2", GPUs such as "sm_90", or "name=value" */
    const char *const *target;
    size_t target_count;
    /* "SOURCE_DATE_EPOCH=VALUE" and "LD_RUN_PATH=VALUE", part of the key; other variables are
     * refused */
    const char *const *env;
    size_t env_count;
} hn_source;

/* A scope holds the futures of one piece of work. Owns: the caller destroys it, before the service.
 * Errors: out-of-memory. */
HN_API hn_status hn_scope_create(hn_service *service, hn_scope **out_scope) HN_MUST_USE;
/* Cancels what is not finished and frees the futures of the scope. NULL is allowed. No other thread
 * may be using the scope or its futures. */
HN_API void hn_scope_destroy(hn_scope *scope);

/* Submits a kernel's source for compilation; for a model see hn_compile_file (henry/program.h).
 * Copies `source`. Owns: the future belongs to the scope. Errors: invalid-argument, unsupported
 * language, toolchain if there is no compiler, out-of-memory. The compiler's own errors are
 * reported by the future. */
HN_API hn_status hn_compile_submit(hn_scope *scope, const hn_source *source,
                                   hn_future **out_future) HN_MUST_USE;

/* Waits for one future, at most `timeout_ms` (< 0: no limit; 0: only asks, and does not start the
 * job without workers). After a timeout the job continues. Owns: the caller releases
 * `*out_artifact`; `out_artifact` may be NULL. Errors: those of the job, annotated with the
 * kernel's name; cancelled; timeout if it is still compiling (wait again). Further calls report the
 * same outcome. */
HN_API hn_status hn_future_wait(hn_future *future, int64_t timeout_ms,
                                hn_artifact **out_artifact) HN_MUST_USE;
/* Whether hn_future_wait would return at once. Without workers this does not start the job. */
HN_API bool hn_future_is_done(hn_future *future);
/* Cancels the future: it is done at once, with a cancelled error. If no other future needs the job,
 * it is removed from the queue or, if it is running, killed together with its compiler. */
HN_API void hn_future_cancel(hn_future *future);

/* Waits for every future of the scope. Errors: that of the first failed future in the order of
 * submission, with the number of other failures; the futures keep their own outcomes. `progress`
 * may be NULL. */
HN_API hn_status hn_scope_wait(hn_scope *scope, hn_scope_progress_fn progress,
                               void *context) HN_MUST_USE;

/* ---- results ---- */

/* How a future was answered. */
typedef enum hn_hit_level {
    HN_HIT_NONE,     /* no hit: it was compiled */
    HN_HIT_INFLIGHT, /* the same job was being compiled already */
    HN_HIT_MEMORY,
    HN_HIT_DISK,
    HN_HIT_REMOTE, /* the remote cache */
    HN_HIT_LEVEL_COUNT
} hn_hit_level;

/* Immutable compiled code, reference counted: release each reference that you retain. */
HN_API hn_artifact *hn_artifact_retain(hn_artifact *artifact);
HN_API void hn_artifact_release(hn_artifact *artifact); /* NULL is allowed */
/* Borrowed bytes, valid as long as the artifact. */
HN_API const void *hn_artifact_bytes(const hn_artifact *artifact, size_t *out_len);
/* 64 hexadecimal digits: the digest of the job record. Borrowed. */
HN_API const char *hn_artifact_key(const hn_artifact *artifact);
/* Known when the future is done: until then a job that another process compiles counts as
 * HN_HIT_NONE. */
HN_API hn_hit_level hn_future_hit_level(const hn_future *future);

/* Loads the code into this process. Errors: toolchain with the loader's message; unsupported for
 * device code and Python extensions; the message says what to do instead. */
HN_API hn_status hn_artifact_load(const hn_artifact *artifact,
                                  hn_library **out_library) HN_MUST_USE;
/* Errors: not-found. */
HN_API hn_status hn_library_symbol(const hn_library *library, const char *symbol,
                                   void **out_address) HN_MUST_USE;
/* Unloads; none of its code may be running. NULL is allowed. */
HN_API void hn_library_close(hn_library *library);

/* ---- device code ---- */

typedef enum hn_image_kind { HN_IMAGE_CUBIN, HN_IMAGE_PTX, HN_IMAGE_KIND_COUNT } hn_image_kind;

/* Code for one architecture; borrowed from its artifact. A NUL follows the bytes, as loaders of PTX
 * need it. */
typedef struct hn_image {
    const char *arch; /* "sm_90", or "compute_90" for PTX */
    hn_image_kind kind;
    const void *bytes;
    size_t len;
} hn_image;

/* The number of images in the artifact: 0 unless it is device code. */
HN_API uint32_t hn_artifact_image_count(const hn_artifact *artifact);
/* Image `idx`, in the order of the names of the job's targets. Errors: not-found. */
HN_API hn_status hn_artifact_image(const hn_artifact *artifact, uint32_t idx,
                                   hn_image *out_image) HN_MUST_USE;
/* The best image for a device of architecture `arch` ("sm_90"): its own, else a cubin of a lower
 * minor number of the same major number, else PTX that is not newer. Errors: not-found; the message
 * lists the images. */
HN_API hn_status hn_artifact_image_find(const hn_artifact *artifact, const char *arch,
                                        hn_image *out_image) HN_MUST_USE;
/* The name of an entry of the job in the images: the mangled name if it has no C linkage. Borrowed.
 * Errors: not-found. */
HN_API hn_status hn_artifact_image_symbol(const hn_artifact *artifact, const char *entry,
                                          const char **out_symbol) HN_MUST_USE;

/* ---- tuning records: a caller's measurements, cached and shared like compiled code ---- */

/* The key of a tuning record: the candidates that were compared, the sizes, the device of the
 * measurement. Each fact is "name=value"; their order is part of the key. */
typedef struct hn_tuning_key {
    const char *const *facts;
    size_t fact_count;
} hn_tuning_key;

/* Stores a tuning record, in any form, on disk and in the remote cache; a later one for the same
 * key replaces it. If disk or server do not accept it, that is no error. Errors: invalid-argument,
 * out-of-memory. */
HN_API hn_status hn_service_tuning_put(hn_service *service, const hn_tuning_key *key,
                                       const void *tuning, size_t len) HN_MUST_USE;
/* `*out_len` is its length; at most `bytes` bytes are written to `out`. Errors: not-found,
 * invalid-argument, out-of-memory. */
HN_API hn_status hn_service_tuning_get(hn_service *service, const hn_tuning_key *key, void *out,
                                       size_t bytes, size_t *out_len) HN_MUST_USE;

/* ---- statistics ---- */

enum { HN_SERVICE_LANGUAGES = 16, HN_SERVICE_SLOWEST = 10 };

typedef struct hn_service_stats {
    uint64_t pools; /* pools started: 0 until a worker was needed; more than 1 after a fork only */
    uint64_t workers_started, workers_now, workers_ready; /* ready: for jobs */
    uint64_t workers_idled;                               /* ended because they were idle */
    uint64_t submitted;                                   /* futures asked for */
    uint64_t hits[HN_HIT_LEVEL_COUNT]; /* how they were answered, including cached failures */
    uint64_t failure_hits;             /* of these, cached failures */
    /* sum of the compile times of hits, except jobs joined in flight */
    int64_t time_saved_ns;
    uint64_t bypasses[HN_BYPASS_COUNT]; /* results that were not kept, by reason */
    /* jobs; enqueued = dequeued + cancelled + waiting now */
    uint64_t enqueued, dequeued, cancelled;
    uint64_t compiled, failed, crashed, timed_out;
    /* killed while running, since all their futures were cancelled; not counted as failed */
    uint64_t abandoned;
    uint64_t overgrown;        /* of the crashed: their compilers started too many processes */
    uint64_t waited_elsewhere; /* jobs that waited for another process to compile them */
    uint64_t depth_now, depth_max;
    /* from submit to start; p95 is 0 below 20 jobs */
    int64_t wait_longest_ns, wait_p50_ns, wait_p95_ns;
    struct {
        const char *language;
        uint64_t count;
        int64_t total_ns, longest_ns; /* time at the compiler */
    } service_time[HN_SERVICE_LANGUAGES];
    uint32_t language_count;
    struct {
        char kernel[64];           /* the beginning of its name */
        int64_t ns;                /* at the compiler */
    } slowest[HN_SERVICE_SLOWEST]; /* compiled or failed here; the longest first */
    uint32_t slowest_count;
    struct {
        uint64_t hits, misses, puts;
        /* values that did not verify, were not sent, were not accepted */
        uint64_t damaged, too_large, refused;
        /* no answer in time; requests not made during the pause after that */
        uint64_t failures, skipped;
        uint64_t received_bytes, sent_bytes;
        int64_t total_ns, longest_ns; /* spent waiting for it */
        bool is_on;                   /* a remote cache is configured */
    } remote;
} hn_service_stats;

HN_API void hn_service_stats_get(hn_service *service, hn_service_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
