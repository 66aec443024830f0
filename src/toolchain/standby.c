/* standby.c: see standby.h. The other end is tools/worker/standby.c. */
#include "toolchain/standby.h"

#include "base/log.h"
#include "base/oserror.h"
#include "base/process.h"
#include "base/trace.h"
#include "toolchain/standby_code.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HELLO_LIMIT_MS = 10000,
    ENV_ITEMS = 64,
    ENV_ADDED = 3,
    /* of a tool that ended without an answer, one after the other: then it is left alone */
    ENDS_MAX = 3,
};

typedef struct slot {
    hn_strbuf command; /* arguments, environment and input_text, each with its NUL; empty: unused */
    hn_child child;    /* none: another is started unless there were too many ends */
    int fd, ends;
    uint64_t used;
} slot;

struct hn_standby {
    int code_fd; /* what is preloaded */
    uint64_t clock;
    slot slots[HN_STANDBY_TOOLS];
};

hn_status hn_standby_create(hn_standby **out) {
    hn_standby *s = calloc(1, sizeof(*s));
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for tools that stand by");
    s->code_fd = memfd_create("henry-standby", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    hn_status status = s->code_fd < 0 ? HN_OS_ERROR(errno, "cannot make a file in memory") : NULL;
    if (!status)
        status = hn_tool_write_all(s->code_fd, hn_standby_code,
                                   (size_t)(hn_standby_code_end - hn_standby_code));
    if (!status && fcntl(s->code_fd, F_ADD_SEALS,
                         F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        status = HN_OS_ERROR(errno, "cannot seal a file in memory");
    for (int i = 0; i < HN_STANDBY_TOOLS; i++) hn_strbuf_init(&s->slots[i].command);
    if (status) {
        hn_standby_destroy(s);
        return status;
    }
    *out = s;
    return NULL;
}

static void end_tool(slot *tool) {
    int ignored;
    if (!tool->child.pid) return;
    hn_process_signal(&tool->child, SIGKILL);
    hn_status_free(hn_process_wait(&tool->child, &ignored));
    close(tool->fd);
}

void hn_standby_destroy(hn_standby *standby) {
    if (!standby) return;
    for (int i = 0; i < HN_STANDBY_TOOLS; i++) {
        end_tool(&standby->slots[i]);
        hn_strbuf_deinit(&standby->slots[i].command);
    }
    if (standby->code_fd >= 0) close(standby->code_fd);
    free(standby);
}

uint32_t hn_standby_pids(const hn_standby *standby, pid_t out[HN_STANDBY_TOOLS]) {
    uint32_t count = 0;
    for (int i = 0; i < HN_STANDBY_TOOLS; i++)
        if (standby->slots[i].child.pid) out[count++] = standby->slots[i].child.pid;
    return count;
}

/* ---- starting ---- */

static void describe(const hn_tool_run *run, const char *input_text, hn_strbuf *out) {
    for (const char *const *item = run->args->items; *item; item++)
        hn_strbuf_append(out, *item, strlen(*item) + 1);
    hn_strbuf_append(out, "", 1);
    for (const char *const *item = run->env; *item; item++)
        hn_strbuf_append(out, *item, strlen(*item) + 1);
    hn_strbuf_append(out, "", 1);
    if (input_text) hn_strbuf_puts(out, input_text);
}

/* The environment of the job and three variables: functions that are looked up once are not looked
 * up in each job. False when it says itself what is to be preloaded, or is too long. */
static bool environment(const char *const *env, const char *out[ENV_ITEMS + ENV_ADDED + 1]) {
    int count = 0;
    for (; env[count]; count++) {
        if (count == ENV_ITEMS || strncmp(env[count], "LD_", 3) == 0) return false;
        out[count] = env[count];
    }
    out[count++] = "LD_PRELOAD=" HN_STANDBY_PRELOAD;
    out[count++] = "LD_BIND_NOW=1";
    out[count++] = HN_STANDBY_VARIABLE "=1";
    out[count] = NULL;
    return true;
}

static bool wait_hello(int fd) {
    struct pollfd item = {.fd = fd, .events = POLLIN};
    int32_t hello = 0;
    int64_t until_ns = hn_now_ns() + HELLO_LIMIT_MS * 1000000LL;
    for (;;) {
        int64_t left_ms = (until_ns - hn_now_ns()) / 1000000;
        int ready = left_ms > 0 ? poll(&item, 1, (int)left_ms) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        return recv(fd, &hello, sizeof(hello), MSG_DONTWAIT) == sizeof(hello) &&
               hello == HN_STANDBY_HELLO;
    }
}

static hn_status spawn(const hn_standby *s, const hn_tool_run *run, int input_fd, int fd,
                       hn_child *out_child) {
    const char *env[ENV_ITEMS + ENV_ADDED + 1];
    if (!environment(run->env, env))
        return HN_ERROR(HN_UNSUPPORTED, "an environment with preloaded code");
    const hn_spawn request = {.argv = run->args->items,
                              .env = env,
                              .cwd = run->cwd,
                              .stdin_fd = input_fd,
                              .stdout_fd = s->code_fd,
                              .stderr_fd = fd};
    return hn_process_spawn(&request, out_child);
}

static hn_status launch_tool(const hn_standby *s, slot *tool, const hn_tool_run *run,
                             const char *input_text) {
    int ends[2], input_fd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return HN_OS_ERROR(errno, "cannot make a socket for a tool");
    hn_status status = input_text ? hn_tool_memory_file("henry-standby-input", &input_fd) : NULL;
    if (!status && input_text) status = hn_tool_write_all(input_fd, input_text, strlen(input_text));
    if (!status && input_text) lseek(input_fd, 0, SEEK_SET);
    if (!status) status = spawn(s, run, input_fd, ends[1], &tool->child);
    if (input_fd >= 0) close(input_fd);
    close(ends[1]);
    tool->fd = ends[0];
    if (!status && !wait_hello(tool->fd)) {
        end_tool(tool);
        return HN_ERROR(HN_UNSUPPORTED, "'%s' cannot stand by", run->args->items[0]);
    }
    if (status) close(ends[0]);
    return status;
}

/* Starts the tool of a slot whose command is set; if that fails, the slot remembers it. */
static void start_tool(const hn_standby *s, slot *tool, const hn_tool_run *run,
                       const char *input_text) {
    hn_status status = launch_tool(s, tool, run, input_text);
    if (!status) return;
    tool->ends = ENDS_MAX;
    hn_log("toolchain", HN_LOG_INFO, "started for each job instead: %s", hn_status_message(status));
    hn_status_free(status);
}

/* The slot of a command; a new one takes the place of the one that was not used for longest. NULL
 * without memory. */
static slot *find_slot(hn_standby *s, const hn_tool_run *run, const char *input_text) {
    hn_strbuf command;
    slot *oldest = &s->slots[0];
    hn_strbuf_init(&command);
    describe(run, input_text, &command);
    for (int i = 0; i < HN_STANDBY_TOOLS; i++) {
        slot *tool = &s->slots[i];
        if (tool->used < oldest->used) oldest = tool;
        if (command.failed || !hn_str_eq(hn_strbuf_str(&command), hn_strbuf_str(&tool->command)))
            continue;
        hn_strbuf_deinit(&command);
        tool->used = ++s->clock;
        if (!tool->child.pid && tool->ends < ENDS_MAX) start_tool(s, tool, run, input_text);
        return tool;
    }
    if (command.failed) {
        hn_strbuf_deinit(&command);
        return NULL;
    }
    end_tool(oldest);
    hn_strbuf_deinit(&oldest->command);
    *oldest = (slot){.command = command, .used = ++s->clock};
    start_tool(s, oldest, run, input_text);
    return oldest;
}

/* ---- running ---- */

static bool send_request(int fd, const hn_standby_request *request,
                         const int fds[HN_STANDBY_FILES]) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(HN_STANDBY_FILES * sizeof(int))];
    } control = {.bytes = {0}};
    hn_standby_request copy = *request;
    struct iovec part = {&copy, sizeof(copy)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(HN_STANDBY_FILES * sizeof(int));
    memcpy(CMSG_DATA(head), fds, HN_STANDBY_FILES * sizeof(int));
    return sendmsg(fd, &message, MSG_NOSIGNAL) == sizeof(copy);
}

/* Until the job has ended: a worker has no deadline of its own, its pool kills it. */
static bool receive_reply(int fd, hn_standby_reply *reply) {
    ssize_t got;
    do got = recv(fd, reply, sizeof(*reply), 0);
    while (got < 0 && errno == EINTR);
    return got == sizeof(*reply);
}

static bool run_job(slot *tool, const hn_tool_run *run, int errors_fd, hn_strbuf *errors,
                    int *out_exit) {
    const hn_standby_request request = {.memory_bytes = run->memory_bytes,
                                        .file_bytes = HN_TOOL_OUTPUT_LIMIT_BYTES,
                                        .cpu_seconds = run->cpu_seconds};
    const int fds[HN_STANDBY_FILES] = {run->stdin_fd, run->stdout_fd, errors_fd};
    hn_standby_reply reply;
    bool is_done = send_request(tool->fd, &request, fds) && receive_reply(tool->fd, &reply);
    tool->ends = is_done ? 0 : tool->ends + 1;
    if (!is_done) {
        end_tool(tool);
        return false;
    }
    *out_exit = reply.exit_status;
    hn_tool_log_messages(run->log, run->args->items[0], errors_fd);
    hn_status status = hn_tool_read_errors(errors_fd, errors);
    bool ok = !status;
    hn_status_free(status);
    return ok;
}

bool hn_standby_run(hn_standby *standby, const hn_tool_run *run, const char *input_text,
                    hn_strbuf *errors, int *out_exit) {
    int errors_fd;
    if (run->own_group || run->args->is_full || !run->env) return false;
    slot *tool = find_slot(standby, run, input_text);
    if (!tool || !tool->child.pid) return false;
    hn_status status = hn_tool_messages_file(run, &errors_fd);
    if (status) {
        hn_status_free(status);
        return false;
    }
    bool done = run_job(tool, run, errors_fd, errors, out_exit);
    close(errors_fd);
    return done;
}
