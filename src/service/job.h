/* job.h: what a job depends on, as bytes; and the messages between a pool and its workers.
 *
 * The key record of a job names everything that its result depends on; its digest is the key
 * everywhere. A worker gets the key record itself and what is needed besides to carry it out, so it
 * knows nothing else. */
#ifndef HN_SERVICE_JOB_H
#define HN_SERVICE_JOB_H

#include "base/str.h"
#include "henry/kernel.h"
#include "henry/status.h"
#include "toolchain/toolchain.h"

#include <stdint.h>
#include <sys/types.h>

/* Raised when the meaning of a key record changes; a worker takes no jobs of another one. */
enum { HN_JOB_REVISION = 3 };
enum { HN_JOB_VARIABLES = 16 }; /* of its own environment */

/* Appends the variables that the compilers of a language may read and that are set, as a list
 * (toolchain.h); one that is not set is left out, so that unset and empty differ. */
void hn_job_environment(const hn_toolchain_row *row, hn_strbuf *out);

/* Appends the key record of `source` for a probed toolchain. Errors: invalid-argument. */
hn_status hn_job_key_record(const hn_source *source, const hn_toolchain *toolchain,
                            hn_strbuf *out) HN_MUST_USE;

/* How to carry a job out; none of it changes the result. */
typedef struct hn_job_limits {
    hn_str source_path; /* where the source goes if it fails; empty: nowhere */
    hn_str scratch_dir; /* for temporary files, see toolchain.h; empty: none is named */
    hn_str pch_dir;     /* for precompiled headers; empty: none are kept */
    int64_t timeout_ms;
    uint64_t memory_bytes, cpu_seconds;
    uint32_t processes; /* at once; 0: nobody counts here */
    bool own_group;
    bool no_standby; /* the tools are started for this job, also where others stand by */
    /* of the process that does the job, as others see it: what tools say goes to the log; 0: it
     * does not */
    pid_t log_pid;
} hn_job_limits;

/* How many processes the job of a message may have at once. */
uint32_t hn_job_request_processes(hn_str request);
/* Appends a job message: key record, toolchain and limits. */
void hn_job_request_write(hn_str key_record, hn_str toolchain_record, const hn_job_limits *limits,
                          hn_strbuf *out);

/* What came out of a job. Owns its buffers. */
typedef struct hn_job_outcome {
    hn_code code;      /* HN_OK: `bytes` is the artefact */
    hn_strbuf message; /* of a failure */
    hn_strbuf bytes;
    hn_strbuf headers;      /* what was read besides the text, see toolchain/headers.h */
    bool is_deterministic;  /* of a failure */
    bool is_unlisted;       /* as in hn_toolchain_result */
    bool needs_replacement; /* the worker has grown and wants to be replaced */
    int64_t service_ns;     /* at the compiler */
} hn_job_outcome;
void hn_job_outcome_init(hn_job_outcome *outcome);
void hn_job_outcome_deinit(hn_job_outcome *outcome);
/* Makes `outcome` a failure. Owns: takes `status`. */
void hn_job_outcome_fail(hn_job_outcome *outcome, hn_status status);

/* What a worker, or a thread that runs a job itself, has for its jobs. */
typedef struct hn_job_context {
    hn_standby *standby;         /* may be NULL */
    int messages_fd;             /* where its pool finds what tools have said; 0: nowhere */
    int cancel_fd;               /* can be read when the job is to end; 0: none */
    int log_fd;                  /* for what tools say, if the job asks for it */
    struct hn_tool_guard *guard; /* of the tools of a job that runs inline; NULL: none */
} hn_job_context;

/* Carries a job message out, here and now: the same code for a worker and for a job that runs
 * inline. Whatever goes wrong is in the outcome. `context` may be NULL. */
void hn_job_request_run(hn_str request, const hn_job_context *context, hn_job_outcome *out);

void hn_job_outcome_write(const hn_job_outcome *outcome, hn_strbuf *out);
/* Errors: corrupt. */
hn_status hn_job_outcome_read(hn_str bytes, hn_job_outcome *out) HN_MUST_USE;

/* ---- frames on the socket ---- */

typedef enum hn_frame_kind {
    HN_FRAME_HELLO = 1,
    HN_FRAME_JOB,
    HN_FRAME_OUTCOME,
    /* the job has started too many processes: the pool ends the worker */
    HN_FRAME_TOO_MANY_PROCESSES,
} hn_frame_kind;

/* In front of every message, in the machine's own byte order: both ends run on one machine. */
typedef struct hn_frame_header {
    uint32_t magic, kind;
    uint64_t job, len;
} hn_frame_header;
#define HN_FRAME_MAGIC       0x484e4a31u
#define HN_FRAME_LIMIT_BYTES ((uint64_t)1 << 30)

/* Puts a frame at the end of `out`. */
void hn_frame_write(hn_strbuf *out, hn_frame_kind kind, uint64_t job, hn_str payload);
/* Whether `in` starts with a whole frame: then `*out_payload` is its payload and `*out_used` its
 * length with header. Errors: corrupt. */
hn_status hn_frame_read(hn_str in, bool *out_whole, hn_frame_header *out_header,
                        hn_str *out_payload, size_t *out_used) HN_MUST_USE;

#endif
