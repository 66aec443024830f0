/* process.h: child processes by posix_spawn, never by fork from a big parent. */
#ifndef HN_BASE_PROCESS_H
#define HN_BASE_PROCESS_H

#include "base/str.h"
#include "henry/status.h"

#include <stdint.h>
#include <sys/types.h>

/* What to start. All descriptors but 0..2 must be close-on-exec in the parent. */
typedef struct hn_spawn {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *const *env;  /* NULL: inherit */
    const char *cwd;         /* NULL: inherit */
    int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null */
    bool new_group;          /* own process group, so that hn_process_kill_group reaches grandchildren */
} hn_spawn;

/* The child has default signal handling and an empty signal mask. Errors: not-found for the program or
 * `cwd`. Owns: the caller must wait for the child. */
hn_status hn_process_spawn(const hn_spawn *spec, pid_t *out_pid) HN_MUST_USE;

/* Waits. `*out_exit` is the exit status, or 128 + signal. */
hn_status hn_process_wait(pid_t pid, int *out_exit) HN_MUST_USE;
/* SIGKILL to the group of a child started with `new_group` and not yet waited for. */
void hn_process_kill_group(pid_t pid);

/* Runs until the child ends, gathering stdout and stderr together in `output` (at most 16 MiB are kept;
 * when NULL, the descriptors of `spec` are used). A grandchild that keeps the pipe open is not waited
 * for. `timeout_ms` <= 0: none; else the child gets its own group, and on expiry the group is killed
 * and the result is a timeout error, with what was gathered still in `output`. */
hn_status hn_process_run(const hn_spawn *spec, int64_t timeout_ms, hn_strbuf *output, int *out_exit) HN_MUST_USE;

/* Absolute path of the running executable's directory, or "" . */
const char *hn_process_exe_dir(void);

#endif
