/* tool_guard.c: the process between a program and a tool of a job that runs in the program itself,
 * where the system has no PID namespaces (toolchain/tool.h). It waits for the tool. If the program
 * ends first, the signal of its parent's death ends this process, as it ends a worker, with all
 * that was started below it.
 *
 * Where exit statuses of children may get lost (a program that ignores or reaps SIGCHLD), the
 * guard, whose children nobody else waits for, also reports the tool's: at the end of the file with
 * the tool's messages. */
#include "service/worker.h"

#include "base/process.h"
#include "base/process_tree.h"
#include "toolchain/tool.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KILL_LIMIT_MS = 500 };

static void report(int exit_status) {
    hn_tool_report message = {.mark = HN_TOOL_REPORT_MARK, .exit_status = exit_status};
    /* without it nobody knows, and that is said */
    hn_status_free(hn_tool_write_all(2, &message, sizeof(message)));
}

int hn_tool_guard_main(char *const *command) {
    hn_child child;
    int exit_status = 127;
    if (!command[0][0]) return write(1, HN_TOOL_GUARD_IS_ONE, strlen(HN_TOOL_GUARD_IS_ONE)) < 0;
    bool reports = strcmp(command[0], HN_TOOL_GUARD_REPORTS) == 0 && command[1];
    syscall(SYS_close_range, 3u, ~0u, 0u);
    const hn_spawn tool = {.argv = (const char *const *)command + reports,
                           .stdin_fd = 0,
                           .stdout_fd = 1,
                           .stderr_fd = 2};
    hn_status status = hn_process_spawn(&tool, &child);
    if (!status) status = hn_process_wait(&child, &exit_status);
    hn_status_free(status); /* 127 tells as much */
    hn_process_tree_kill(getpid(), NULL, 0, KILL_LIMIT_MS);
    if (reports) report(exit_status);
    return exit_status;
}
