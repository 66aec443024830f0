/* process.h: child processes by posix_spawn, never by fork from a big parent. */
#ifndef HN_BASE_PROCESS_H
#define HN_BASE_PROCESS_H

#include "base/str.h"
#include "henry/status.h"

#include <stdint.h>
#include <sys/types.h>

/* What to start. All descriptors but 0..2 must be close-on-exec in the parent. */
typedef struct hn_spawn {
    /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *const *argv;
    const char *const *env;             /* NULL: inherit */
    const char *cwd;                    /* NULL: inherit */
    int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null */
    /* at once, threads counted; 0: no limit. Only kept by the kernel in a user namespace, see
     * hn_process_spawn_isolated */
    uint32_t processes;
    /* own process group, so that hn_process_signal_group reaches grandchildren */
    bool new_group;
} hn_spawn;

/* A child of this process. Owns: whoever started it waits for it, which closes the descriptor. */
typedef struct hn_child {
    pid_t pid; /* 0: none, or waited for */
    int fd;    /* its process descriptor; -1: the kernel has none */
} hn_child;

/* The exit status of a child that somebody else in this process has waited for, or that the kernel
 * does not keep since the program ignores SIGCHLD, on a kernel before 6.15. */
enum { HN_EXIT_UNKNOWN = -1 };

/* The child has default signal handling and an empty signal mask. Errors: not-found for the program
 * or `cwd`. Owns: the caller must wait for the child. */
hn_status hn_process_spawn(const hn_spawn *spec, hn_child *out_child) HN_MUST_USE;

/* The same for the first process of a PID namespace of its own: when it ends, or the calling thread
 * does, the kernel ends at one stroke all that it started, wherever that moved to. Its own process
 * id is 1, of its children any; /proc shows the numbers from outside. Signals of its own namespace
 * that it has no handler for do not reach it, SIGKILL included. False, with nothing started: not
 * permitted here, HENRY_NAMESPACES=off, or no such program; then hn_process_spawn tells more. */
bool hn_process_spawn_isolated(const hn_spawn *spec, hn_child *out_child) HN_MUST_USE;

/* ---- process_child.c ---- */

/* For a child that was just started otherwise. */
void hn_child_init(hn_child *out, pid_t pid);
/* Waits. `*out_exit` is the exit status, 128 + signal, or HN_EXIT_UNKNOWN. Errors: invalid-argument
 * when there is none. */
hn_status hn_process_wait(hn_child *child, int *out_exit) HN_MUST_USE;
/* The same, but at most `limit_ms`. False: it still runs. */
bool hn_process_wait_for(hn_child *child, int64_t limit_ms, int *out_exit) HN_MUST_USE;
/* Whether it has ended, be it waited for or not. */
bool hn_process_has_ended(const hn_child *child);
/* A signal to the child, or to the group of one that was started with `new_group`. One that has
 * ended gets none. */
void hn_process_signal(const hn_child *child, int number);
void hn_process_signal_group(const hn_child *child, int number);

/* Runs until the child ends, gathering stdout and stderr together in `output` (at most 16 MiB are
 * kept; when NULL, the descriptors of `spec` are used). A grandchild that keeps the pipe open is
 * not waited for. `timeout_ms` <= 0: none; else the child gets its own group, and on expiry the
 * group is killed and the result is a timeout error, with what was gathered still in `output`.
 * `*out_exit` as in hn_process_wait. */
hn_status hn_process_run(const hn_spawn *spec, int64_t timeout_ms, hn_strbuf *output,
                         int *out_exit) HN_MUST_USE;

/* Absolute path of the running executable's directory, or "" . */
const char *hn_process_exe_dir(void);

#endif
