/* toolchain.h: from source text to an artefact, one table row per language.
 *
 * probe finds the compiler of a language and gives it an identity; compile runs it; hn_library_*
 * loads what came out. A probed toolchain is plain data (a record), so that it travels to worker
 * processes, which never probe. Nothing here knows of queues or caches of results: that is
 * src/service. */
#ifndef HN_TOOLCHAIN_TOOLCHAIN_H
#define HN_TOOLCHAIN_TOOLCHAIN_H

#include "base/hash.h"
#include "base/library.h"
#include "base/str.h"
#include "cache/store.h"
#include "henry/kernel.h"
#include "henry/status.h"
#include "toolchain/rows.h"
#include "toolchain/tool.h"

#include <stdint.h>

typedef struct hn_toolchain_row hn_toolchain_row;
typedef struct hn_standby hn_standby; /* standby.h */

/* A compiler that was found. Owns its record. */
typedef struct hn_toolchain {
    const hn_toolchain_row *row;
    hn_digest
        /* of everything about the tools that can change what they produce; part of every key */
        identity;
    hn_strbuf record; /* tool paths and how to call them; "title": what people call the compiler */
} hn_toolchain;

/* What to compile. Lists are strings one after another, each with its NUL:
 * "-O2\0-fno-math-errno\0". */
typedef struct hn_toolchain_job {
    hn_str text;
    hn_str flags; /* list: compiler flags */
    /* list: CPU features or architectures, in the row's own terms; never "native" */
    hn_str target;
    hn_str entries; /* list: functions that the result must have, in the row's own terms */
    hn_str env;     /* list: NAME=VALUE, the only environment that may change the result */
    /* where the source will be kept when it fails, for the message; NULL: nowhere */
    const char *source_path;
    const char
        /* a directory that does not exist yet, for temporary files: made and removed by the job,
         * and by whoever named it when the job is killed. NULL: one of its own */
        *scratch_dir;
    /* for precompiled headers (pch.h), made when it is needed; NULL: none are kept */
    const char *pch_dir;
    int64_t timeout_ms;    /* 0: none. In a worker the pool keeps the time instead. */
    uint64_t memory_bytes; /* address space of each tool; 0: no limit */
    uint64_t cpu_seconds;  /* processor time of each tool; 0: no limit */
    hn_standby *standby;   /* of a worker; NULL: none */
    int messages_fd;       /* of a worker: a file in memory for what tools say; 0: none */
    hn_tool_log log;       /* gets a copy of what they say */
    /* not in a worker: can be read when nobody wants the result any more; 0: none */
    int cancel_fd;
    struct hn_tool_guard *guard; /* not in a worker: of its tools; NULL: none */
    /* tools get a process group of their own; false in a worker, which is one already: a row that
     * compiles in this process may set limits on it then */
    bool own_group;
} hn_toolchain_job;

typedef struct hn_toolchain_result {
    hn_strbuf bytes; /* the artefact */
    /* the files that were read, see headers.h; empty: none, or nobody can tell */
    hn_strbuf headers;
    bool is_deterministic; /* of a failure: the same job will fail again in the same way */
    /* more was read than the row's `reads` had said, and `headers` does not name it: not to be
     * kept */
    bool is_unlisted;
} hn_toolchain_result;

/* What a compilation reads besides its text. */
typedef enum hn_toolchain_reads {
    HN_READS_NOTHING,
    /* files that the compiler names afterwards: the result tells them in `headers` */
    HN_READS_HEADERS,
    HN_READS_FILES, /* files that nobody names: the result is not kept on disk */
} hn_toolchain_reads;

struct hn_toolchain_row {
    const char *language;
    /* NULL-terminated: ".c"; the first is for sources that are kept */
    const char *const *suffixes;
    /* NULL-terminated: variables that can change the result; part of the key */
    const char *const *env_names;
    hn_status (*probe)(hn_store *store, hn_toolchain *out);
    hn_status (*compile)(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                         hn_toolchain_result *out);
    hn_toolchain_reads (*reads)(hn_str text, hn_str flags);
    bool is_for_cpu; /* targets are levels and features of processors */
    /* that the command line adds when no flag says how to optimise; NULL: none */
    const char *default_flag;
    /* NULL: hn_artifact_load loads the artefact. Else what to do with it instead, as the end of a
     * sentence.
     */
    const char *load_advice;
};

/* The row of a language. Errors: unsupported, naming the languages that there are. */
hn_status hn_toolchain_row_find(hn_str language, const hn_toolchain_row **out_row) HN_MUST_USE;
#define HN_TOOLCHAIN_COUNT_ROW(row) +1
enum { HN_TOOLCHAIN_ROWS = 0 HN_TOOLCHAIN_ROW_LIST(HN_TOOLCHAIN_COUNT_ROW) };
#undef HN_TOOLCHAIN_COUNT_ROW
/* Row `idx` below HN_TOOLCHAIN_ROWS. */
const hn_toolchain_row *hn_toolchain_row_at(uint32_t idx);
uint32_t hn_toolchain_row_index(const hn_toolchain_row *row);

/* Appends the target of a job in its one form, so that equal targets are equal jobs: levels of
 * processors ("x86-64-v3") become their features, "cpu:" and "cuda:" in front are left out, and
 * members are sorted, each once; "no-X" comes last. */
hn_status hn_target_canonical(const hn_toolchain_row *row, const char *const *items, size_t count,
                              hn_strbuf *out) HN_MUST_USE;

/* Finds the compiler. What was learnt is remembered in `store` (may be without a disk) under the
 * files' identity (path, size, time, inode), so that a warm start runs no process. Errors:
 * not-found when none is installed; toolchain when the one that the user names is not there or does
 * not work. */
hn_status hn_toolchain_probe(const hn_toolchain_row *row, hn_store *store,
                             hn_toolchain *out) HN_MUST_USE;
/* A toolchain from its own record, as a worker gets it. */
hn_status hn_toolchain_from_record(const hn_toolchain_row *row, hn_str record,
                                   hn_toolchain *out) HN_MUST_USE;
void hn_toolchain_deinit(hn_toolchain *toolchain);
/* Appends the identity as records have it, for people and exactly: "gcc 12.2.0 (47af...)". */
void hn_toolchain_identity_print(const hn_toolchain *toolchain, hn_strbuf *out);

/* In front of the command that repeats a failure, in its message. */
#define HN_JOB_AGAIN "; to run it again: "
/* Compiles. Errors: toolchain (the compiler's first error lines and the command to run again),
 * timeout, invalid-argument for a flag that ties the result to this machine, io. The result is to
 * be deinited. */
hn_status hn_toolchain_compile(const hn_toolchain *toolchain, const hn_toolchain_job *job,
                               hn_toolchain_result *out) HN_MUST_USE;
void hn_toolchain_result_deinit(hn_toolchain_result *result);

/* ---- lists ---- */

/* Takes the next member off the front. False at the end, also when the last member lacks its
 * NUL. */
bool hn_list_next(hn_str *rest, const char **out_item);
void hn_list_add(hn_strbuf *list, const char *item);

#endif
