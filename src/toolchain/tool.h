/* tool.h: running one program of a toolchain on descriptors, with limits. Not for other folders. */
#ifndef HN_TOOLCHAIN_TOOL_H
#define HN_TOOLCHAIN_TOOL_H

#include "base/process.h"
#include "base/str.h"
#include "henry/status.h"

#include <stdatomic.h>
#include <stdint.h>

/* An argument vector that is built step by step. It latches `is_full`. Arguments are borrowed. */
enum { HN_TOOL_ARGS = 256 };
typedef struct hn_tool_args {
    const char *items[HN_TOOL_ARGS + 1];
    int count;
    bool is_full;
} hn_tool_args;
void hn_tool_args_add(hn_tool_args *args, const char *item);
void hn_tool_args_add_all(hn_tool_args *args, const char *const *items); /* NULL-terminated */
/* Appends the arguments as one line that a shell takes. */
void hn_tool_args_print(const hn_tool_args *args, hn_strbuf *out);

/* A program that is called with "--worker", the id of its parent, and a command: it runs the
 * command, and ends it with all that it started when the parent ends. HENRY_WORKER may name any
 * program, so it is asked before its first use whether it is a guard. Threads: safe. */
#define HN_TOOL_GUARD_IS_ONE "henry-guard\n" /* what it prints when the command is "" */
typedef struct hn_tool_guard {
    const char *path;
    _Atomic int answer; /* 0: not asked yet; 1: it is one; -1: it is none */
    /* exit statuses get lost in this process: the guard of each tool reports the tool's */
    _Atomic bool reports;
} hn_tool_guard;
/* Before the command: the guard appends the tool's exit status, in this form, to the tool's
 * messages. */
#define HN_TOOL_GUARD_REPORTS "--report"
typedef struct hn_tool_report {
    char mark[12]; /* HN_TOOL_REPORT_MARK */
    int32_t exit_status;
} hn_tool_report;
#define HN_TOOL_REPORT_MARK "\0exit status"

/* Where a copy of what tools say goes, with the time and the process that does the job. */
typedef struct hn_tool_log {
    int fd, pid; /* pid 0: nowhere */
} hn_tool_log;

typedef struct hn_tool_run {
    const hn_tool_args *args; /* args->items[0]: the program, a path or a name in PATH */
    const char *const *env;   /* NULL: inherit */
    const char *cwd;          /* NULL: inherit */
    /* of a file in memory that gets stderr, emptied before; 0: one of its own */
    int messages_fd;
    hn_tool_log log;
    /* -1: /dev/null; files are read and written from their current offset */
    int stdin_fd, stdout_fd;
    int64_t deadline_ns;   /* monotonic; 0: none */
    int cancel_fd;         /* when it can be read, the tool is killed; 0: none */
    uint64_t memory_bytes; /* RLIMIT_AS; 0: no limit */
    uint64_t cpu_seconds;  /* RLIMIT_CPU; 0: no limit */
    /* the tool is not below a worker: it and all below it must end when this process does */
    bool own_group;
    hn_tool_guard *guard; /* with own_group, where there are no namespaces; NULL: none */
} hn_tool_run;

enum { HN_TOOL_OUTPUT_LIMIT_BYTES = 512 << 20 }; /* of any file that a tool writes */

/* A started tool: what it writes to stderr goes to a file in memory. */
typedef struct hn_tool_process {
    const char *name;
    hn_child child;
    int stderr_fd, cancel_fd;
    hn_tool_log log;
    int64_t deadline_ns;
    bool own_group, is_reported;
    bool is_guarded; /* the child is a guard, which ends all below it on SIGTERM */
} hn_tool_process;

hn_status hn_tool_start(const hn_tool_run *run, hn_tool_process *out) HN_MUST_USE;
/* Waits for the end and appends its stderr to `errors` (may be NULL). `*out_exit` as in
 * hn_process_wait: it may be unknown.
 * Errors: timeout or cancelled after killing it, io. */
hn_status hn_tool_finish(hn_tool_process *process, hn_strbuf *errors, int *out_exit) HN_MUST_USE;
/* Both of them, with an exit status that is known: where it got lost the tool runs once more, below
 * its guard. Errors: those of the two; toolchain when there is no guard. */
hn_status hn_tool_run_wait(const hn_tool_run *run, hn_strbuf *errors, int *out_exit) HN_MUST_USE;

/* A file in memory, close-on-exec, numbered above the standard descriptors. */
hn_status hn_tool_memory_file(const char *name, int *out_fd) HN_MUST_USE;
hn_status hn_tool_write_all(int fd, const void *bytes, size_t len) HN_MUST_USE;
/* What becomes standard error of a tool; the caller closes it. */
hn_status hn_tool_messages_file(const hn_tool_run *run, int *out_fd) HN_MUST_USE;
/* Gives back the memory of what is neither the beginning nor the end of a tool's messages, while
 * the tool runs: the file keeps its size. */
void hn_tool_messages_trim(int fd);
/* Appends what a tool said, cleaned (hn_strbuf_clean): of much the beginning and the end, and how
 * much was left out. */
hn_status hn_tool_read_errors(int fd, hn_strbuf *errors) HN_MUST_USE;
/* Copies what the tool `name` said to the log, if there is one: a line each, with time, process and
 * tool. */
void hn_tool_log_messages(hn_tool_log log, const char *name, int fd);
/* Appends the whole file, whatever its offset. */
hn_status hn_tool_read_all(int fd, hn_strbuf *out) HN_MUST_USE;

#endif
