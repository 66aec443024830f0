/* guard.c: the process between a program and a tool of a job that runs in the program itself, where the system gives no PID
 * namespace (toolchain/tool.h). It waits for the tool. When the program ends before, the signal of its death ends this process
 * as it ends a worker: with all that was started below it. */
#include "service/worker.h"

#include "base/process.h"
#include "base/process_tree.h"
#include "toolchain/tool.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { HUNT_LIMIT_MS = 500 };

int hn_guard_main(char *const *command) {
    pid_t pid;
    int exit_status = 127;
    if (!command[0][0]) return HN_TOOL_GUARD_IS_ONE;
    syscall(SYS_close_range, 3u, ~0u, 0u);
    const hn_spawn tool = {.argv = (const char *const *)command, .stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2};
    hn_status status = hn_process_spawn(&tool, &pid);
    if (!status) status = hn_process_wait(pid, &exit_status);
    hn_status_free(status); /* 127 tells as much */
    hn_process_tree_kill(getpid(), NULL, 0, HUNT_LIMIT_MS);
    return exit_status;
}
