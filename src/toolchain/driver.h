/* driver.h: what rows share that run a compiler: the environment it gets, a directory for its
 * files, what its end means, which headers it read. Not for other folders. */
#ifndef HN_TOOLCHAIN_DRIVER_H
#define HN_TOOLCHAIN_DRIVER_H

#include "toolchain/tool.h"
#include "toolchain/toolchain.h"

#include <limits.h>

/* ---- the environment ---- */

/* What every tool gets: little, fixed, and the job's own list. `storage` keeps the strings.
 * `temp_dir` NULL: the host's TMPDIR. */
enum { HN_DRIVER_ENV_ITEMS = 32 };
void hn_driver_environment(hn_str job_env, const char *temp_dir, hn_strbuf *storage,
                           const char *out_items[HN_DRIVER_ENV_ITEMS + 1]);

/* ---- failures ---- */

/* How a tool ended, when that was no success: exit is not 0. */
typedef struct hn_tool_failure {
    const char *tool;
    int exit;
    hn_strbuf errors;
} hn_tool_failure;

/* Only a diagnosis of the source is sure to come again; a lack of memory or disk, or a crash, is
 * not. */
bool hn_tool_failure_is_deterministic(const hn_tool_failure *failure);
/* A toolchain error: the first error lines and `command`, as a person would type it. Empty:
 * hn_toolchain_compile adds that of the job. */
hn_status hn_tool_failure_status(const hn_tool_failure *failure, hn_str command) HN_MUST_USE;
/* Appends `henry kernel compile SOURCE ...`, which compiles the source at `path` (NULL: a word that
 * stands for it) as the job does and writes nothing. Lists are those of hn_toolchain_job; of `env`
 * the job's own. */
typedef struct hn_job_command {
    const char *language, *path;
    hn_str entries, target, flags, env;
} hn_job_command;
void hn_job_command_print(const hn_job_command *command, hn_strbuf *out);
/* Appends up to three lines that say "error", or the first lines when none does, joined by "; ". */
void hn_first_errors(hn_str text, hn_strbuf *out);

/* ---- one run of a driver, or several, in a directory of its own ---- */

typedef struct hn_driver {
    const hn_toolchain_job *job;
    int64_t deadline_ns; /* monotonic; 0: none */
    int64_t begin_ns;    /* CLOCK_REALTIME */
    char dir[PATH_MAX - 32];
    hn_strbuf env_text;
    const char *env[HN_DRIVER_ENV_ITEMS + 1];
    hn_tool_failure failure;
} hn_driver;

/* Makes the directory, which is TMPDIR for the tools too, so that nothing of theirs outlives it.
 * After an error hn_driver_end must not be called. */
hn_status hn_driver_begin(hn_driver *driver, const hn_toolchain_job *job,
                          int64_t deadline_ns) HN_MUST_USE;
void hn_driver_end(hn_driver *driver);
hn_status hn_driver_write(const hn_driver *driver, const char *name, hn_str text) HN_MUST_USE;
hn_status hn_driver_read(const hn_driver *driver, const char *name, hn_strbuf *out) HN_MUST_USE;
/* The same of what the tool that ran last was to write. Errors: toolchain when it wrote nothing. */
hn_status hn_driver_read_output(const hn_driver *driver, const char *name,
                                hn_strbuf *out) HN_MUST_USE;
/* Runs a tool in the directory. Whether it succeeded is in `driver->failure`. */
hn_status hn_driver_run(hn_driver *driver, const hn_tool_args *args) HN_MUST_USE;
bool hn_driver_has(const hn_driver *driver, const char *name);
/* Notes the files that the Make rules in the files `names` (NULL-terminated) tell, but those of the
 * directory. `dirs` as in hn_headers_note. `out_is_empty`: there are none. */
hn_status hn_driver_headers(const hn_driver *driver, const char *const *names, hn_str dirs,
                            bool *out_is_empty, hn_strbuf *out) HN_MUST_USE;

/* ---- looking for programs ---- */

/* An absolute path to `name`: itself when it has a slash, else the first in PATH. */
bool hn_program_find(const char *name, char out[PATH_MAX]);
bool hn_is_program(const char *path);
/* "size:mtime" of a file, or "" when it is not there. */
enum { HN_STAMP_BYTES = 80 };
void hn_file_stamp(const char *path, char out[HN_STAMP_BYTES]);

/* Asks a program for its version or the like: runs it with one option and takes its first
 * `HN_ANSWER_BYTES`. Its exit status is in `out_exit`. */
hn_status hn_program_ask(const char *program, const char *option, hn_strbuf *out,
                         int *out_exit) HN_MUST_USE;

/* Findings about a program that `subject`, a record, identifies: those in the store when
 * `is_current` accepts them, or fresh ones of `ask`, which are then stored. */
typedef struct hn_findings {
    hn_str subject;
    /* NULL: any that are not empty; the subject names all that can change */
    bool (*is_current)(hn_str findings);
    hn_status (*ask)(const void *context, hn_strbuf *out);
    const void *context;
} hn_findings;
hn_status hn_findings_learn(hn_store *store, const hn_findings *query, hn_strbuf *out) HN_MUST_USE;

/* A value of a record that is a C string; NULL when it is not one. */
const char *hn_record_string(hn_str record, const char *name);
void hn_record_add_string(hn_strbuf *record, const char *name, const char *value);

#endif
