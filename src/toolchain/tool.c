/* tool.c: see tool.h. Files in memory stand in for temporary files and pipes: nothing to clean up,
 * nothing to drain while a tool runs, and a tool that dies leaves nothing behind. */
#include "toolchain/tool.h"

#include "base/oserror.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    POLL_STEP_MS = 5,              /* where the kernel has no process descriptors */
    GUARD_LIMIT_MS = 2000,         /* for one that says nothing */
    GUARD_END_MS = 1000,           /* for what it does before it ends */
    ERRORS_PART_BYTES = 128 << 10, /* kept of the beginning, and of the end */
    TRIM_BYTES = 4 << 20,
};

void hn_tool_args_add(hn_tool_args *args, const char *item) {
    if (args->count == HN_TOOL_ARGS) {
        args->is_full = true;
        return;
    }
    args->items[args->count++] = item;
    args->items[args->count] = NULL;
}

void hn_tool_args_add_all(hn_tool_args *args, const char *const *items) {
    for (; *items; items++) hn_tool_args_add(args, *items);
}

static bool is_plain(const char *text) {
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%";
    return text[0] && text[strspn(text, safe)] == 0;
}

void hn_tool_args_print(const hn_tool_args *args, hn_strbuf *out) {
    for (int i = 0; i < args->count; i++) {
        const char *item = args->items[i];
        if (i) hn_strbuf_putc(out, ' ');
        if (is_plain(item)) {
            hn_strbuf_puts(out, item);
            continue;
        }
        hn_strbuf_putc(out, '\'');
        for (; *item; item++) {
            if (*item == '\'') hn_strbuf_puts(out, "'\\''");
            else hn_strbuf_putc(out, *item);
        }
        hn_strbuf_putc(out, '\'');
    }
}

hn_status hn_tool_memory_file(const char *name, int *out_fd) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && fd < 3) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        close(fd);
        fd = high;
    }
    if (fd < 0) return HN_OS_ERROR(errno, "cannot make a file in memory");
    *out_fd = fd;
    return NULL;
}

hn_status hn_tool_write_all(int fd, const void *bytes, size_t len) {
    const char *at = bytes;
    while (len) {
        ssize_t done = write(fd, at, len);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return HN_OS_ERROR(errno, "cannot write a file in memory");
        at += done;
        len -= (size_t)done;
    }
    return NULL;
}

/* At most `limit` bytes from `at` on. */
static hn_status read_range(int fd, off_t at, size_t limit, hn_strbuf *out) {
    char bytes[16384];
    while (limit) {
        size_t want = limit < sizeof(bytes) ? limit : sizeof(bytes);
        ssize_t got = pread(fd, bytes, want, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return HN_OS_ERROR(errno, "cannot read a file in memory");
        if (got == 0) break;
        hn_strbuf_append(out, bytes, (size_t)got);
        at += got;
        limit -= (size_t)got;
    }
    return hn_strbuf_status(out);
}

void hn_tool_messages_trim(int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0 || info.st_size < TRIM_BYTES) return;
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ERRORS_PART_BYTES,
              info.st_size - 2 * ERRORS_PART_BYTES);
}

static hn_status read_messages(int fd, hn_strbuf *out) {
    struct stat info;
    if (fstat(fd, &info) != 0 || info.st_size <= 2 * ERRORS_PART_BYTES)
        return read_range(fd, 0, 2 * ERRORS_PART_BYTES, out);
    HN_TRY(read_range(fd, 0, ERRORS_PART_BYTES, out));
    hn_strbuf_printf(out, "\n[%lld bytes left out]\n",
                     (long long)info.st_size - 2 * ERRORS_PART_BYTES);
    return read_range(fd, info.st_size - ERRORS_PART_BYTES, ERRORS_PART_BYTES, out);
}

hn_status hn_tool_read_errors(int fd, hn_strbuf *errors) {
    hn_strbuf raw;
    hn_strbuf_init(&raw);
    hn_status status = read_messages(fd, &raw);
    if (!status) hn_strbuf_clean(errors, hn_strbuf_str(&raw), false);
    hn_strbuf_deinit(&raw);
    return status ? status : hn_strbuf_status(errors);
}

/* All lines at one stroke: others write to the same file. */
void hn_tool_log_messages(hn_tool_log log, const char *name, int fd) {
    hn_strbuf said, lines;
    char when[32];
    struct timespec now;
    struct tm local;
    if (!log.pid) return;
    hn_strbuf_init(&said);
    hn_strbuf_init(&lines);
    const char *base = strrchr(name, '/');
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    hn_status status = hn_tool_read_errors(fd, &said);
    for (size_t at = 0, len; !status && at < said.len; at += len + 1) {
        const char *end = memchr(said.ptr + at, '\n', said.len - at);
        len = end ? (size_t)(end - (said.ptr + at)) : said.len - at;
        hn_strbuf_printf(&lines, "%s.%03ld [%d] %s: ", when, now.tv_nsec / 1000000, log.pid,
                         base ? base + 1 : name);
        hn_strbuf_append(&lines, said.ptr + at, len);
        hn_strbuf_putc(&lines, '\n');
    }
    if (!status && lines.len) status = hn_tool_write_all(log.fd, lines.ptr, lines.len);
    hn_status_free(status); /* a full disk costs the copy */
    hn_strbuf_deinit(&said);
    hn_strbuf_deinit(&lines);
}

hn_status hn_tool_read_all(int fd, hn_strbuf *out) { return read_range(fd, 0, SIZE_MAX, out); }

/* Set from outside: it needs no helper between spawn and exec, and the tool has run for
 * microseconds only. */
static void limit(pid_t pid, const hn_tool_run *run) {
    const struct rlimit output = {HN_TOOL_OUTPUT_LIMIT_BYTES, HN_TOOL_OUTPUT_LIMIT_BYTES};
    const struct rlimit memory = {run->memory_bytes, run->memory_bytes},
                        cpu = {run->cpu_seconds, run->cpu_seconds};
    prlimit(pid, RLIMIT_FSIZE, &output, NULL);
    if (run->memory_bytes) prlimit(pid, RLIMIT_AS, &memory, NULL);
    if (run->cpu_seconds) prlimit(pid, RLIMIT_CPU, &cpu, NULL);
}

hn_status hn_tool_messages_file(const hn_tool_run *run, int *out_fd) {
    if (run->messages_fd <= 0) return hn_tool_memory_file("henry-errors", out_fd);
    if (ftruncate(run->messages_fd, 0) != 0 || lseek(run->messages_fd, 0, SEEK_SET) != 0)
        return HN_OS_ERROR(errno, "cannot empty a file in memory");
    *out_fd = fcntl(run->messages_fd, F_DUPFD_CLOEXEC, 3);
    return *out_fd < 0 ? HN_OS_ERROR(errno, "cannot duplicate a descriptor") : NULL;
}

static bool is_guard(hn_tool_guard *guard, const char *parent) {
    const char *const argv[] = {guard->path, "--worker", parent, "", NULL};
    int exit_status;
    if (!atomic_load(&guard->answer)) {
        const hn_spawn ask = {.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
        hn_strbuf text;
        hn_strbuf_init(&text);
        hn_status_free(hn_process_run(&ask, GUARD_LIMIT_MS, &text, &exit_status));
        atomic_store(&guard->answer,
                     hn_str_eq(hn_strbuf_str(&text), HN_STR(HN_TOOL_GUARD_IS_ONE)) ? 1 : -1);
        hn_strbuf_deinit(&text);
    }
    return atomic_load(&guard->answer) > 0;
}

/* A guard lives under the limits of its tool. With a sanitizer in it, it takes more address space
 * than any limit leaves. */
static bool has_room_for_guard(const hn_tool_run *run) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return !run->memory_bytes;
#else
    (void)run;
    return true;
#endif
}

/* Below a guard. False, with nothing started: there is no guard, or the tool cannot be run, which
 * is reported better without one. */
static bool start_guarded(const hn_tool_run *run, const hn_spawn *spawn, bool reports,
                          hn_child *out_child) {
    char parent[24];
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    if (!strchr(run->args->items[0], '/') || access(run->args->items[0], X_OK) != 0) return false;
    if (!run->guard || !has_room_for_guard(run) || !is_guard(run->guard, parent)) return false;
    const char *argv[HN_TOOL_ARGS + 5] = {run->guard->path, "--worker", parent,
                                          HN_TOOL_GUARD_REPORTS};
    memcpy(argv + (reports ? 4 : 3), run->args->items,
           (size_t)(run->args->count + 1) * sizeof(*argv));
    hn_spawn guarded = *spawn;
    guarded.argv = argv;
    if (reports && hn_process_spawn_isolated(&guarded, out_child)) return true;
    hn_status status = hn_process_spawn(&guarded, out_child);
    bool ok = !status;
    hn_status_free(status);
    return ok;
}

/* A tool that is not below a worker must not outlive this process: as the first process of a
 * namespace it ends, with all that it started, when this thread does, which waits for it. */
static hn_status start_tied(const hn_tool_run *run, const hn_spawn *spawn, hn_tool_process *out) {
    if (run->own_group) {
        out->is_reported = run->guard && atomic_load(&run->guard->reports) &&
                           start_guarded(run, spawn, true, &out->child);
        if (out->is_reported || hn_process_spawn_isolated(spawn, &out->child)) return NULL;
        out->is_guarded = start_guarded(run, spawn, false, &out->child);
        if (out->is_guarded) return NULL;
    }
    return hn_process_spawn(spawn, &out->child);
}

hn_status hn_tool_start(const hn_tool_run *run, hn_tool_process *out) {
    if (run->args->is_full)
        return HN_ERROR(HN_INVALID_ARGUMENT, "more than %d arguments for '%s'", HN_TOOL_ARGS,
                        run->args->items[0]);
    *out = (hn_tool_process){.name = run->args->items[0],
                             .cancel_fd = run->cancel_fd,
                             .log = run->log,
                             .deadline_ns = run->deadline_ns,
                             .own_group = run->own_group};
    HN_TRY(hn_tool_messages_file(run, &out->stderr_fd));
    const hn_spawn spawn = {
        .argv = run->args->items,
        .env = run->env,
        .cwd = run->cwd,
        .stdin_fd = run->stdin_fd,
        .stdout_fd = run->stdout_fd,
        .stderr_fd = out->stderr_fd,
        .new_group = run->own_group,
    };
    hn_status status = start_tied(run, &spawn, out);
    if (status) {
        close(out->stderr_fd);
        return status;
    }
    limit(out->child.pid, run);
    return NULL;
}

/* -1: no limit. */
static int left_ms(const hn_tool_process *process) {
    if (!process->deadline_ns && process->child.fd >= 0) return -1;
    int64_t left = process->deadline_ns ? (process->deadline_ns - hn_now_ns() + 999999) / 1000000
                                        : POLL_STEP_MS;
    if (left < 0) left = 0;
    if (process->child.fd < 0 && left > POLL_STEP_MS) left = POLL_STEP_MS;
    return left > 1000000 ? 1000000 : (int)left;
}

/* Sleeps until the process ends, its time is over, or nobody wants it any more. */
static hn_code wait_end(const hn_tool_process *process) {
    while (process->deadline_ns || process->cancel_fd) {
        /* negative ones are passed over */
        struct pollfd items[2] = {
            {.fd = process->child.fd, .events = POLLIN},
            {.fd = process->cancel_fd ? process->cancel_fd : -1, .events = POLLIN}};
        int ready = poll(items, 2, left_ms(process));
        if (ready > 0 && items[0].revents) return HN_OK;
        if (hn_process_has_ended(&process->child)) return HN_OK;
        if (ready > 0) return HN_CANCELLED;
        if (process->deadline_ns && hn_now_ns() >= process->deadline_ns) return HN_TIMEOUT;
    }
    return HN_OK;
}

/* Takes what a guard has appended to the tool's messages off them. */
static void take_report(int fd, int *out_exit) {
    hn_tool_report report;
    struct stat info;
    *out_exit = HN_EXIT_UNKNOWN;
    if (fstat(fd, &info) != 0 || info.st_size < (off_t)sizeof(report)) return;
    off_t at = info.st_size - (off_t)sizeof(report);
    if (pread(fd, &report, sizeof(report), at) != sizeof(report) ||
        memcmp(report.mark, HN_TOOL_REPORT_MARK, sizeof(report.mark)) != 0)
        return;
    if (ftruncate(fd, at) == 0) *out_exit = report.exit_status;
}

/* A guard gets time to find processes that have left its group. */
static void kill_tool(const hn_tool_process *process) {
    int64_t until_ns = hn_now_ns() + GUARD_END_MS * 1000000LL;
    if (process->is_guarded) hn_process_signal(&process->child, SIGTERM);
    while (process->is_guarded && !hn_process_has_ended(&process->child) && hn_now_ns() < until_ns)
        poll(&(struct pollfd){.fd = process->child.fd, .events = POLLIN}, process->child.fd >= 0,
             POLL_STEP_MS);
    if (process->own_group) hn_process_signal_group(&process->child, SIGKILL);
    hn_process_signal(&process->child, SIGKILL);
}

hn_status hn_tool_finish(hn_tool_process *process, hn_strbuf *errors, int *out_exit) {
    hn_code end = wait_end(process);
    if (end != HN_OK) kill_tool(process);
    hn_status status = hn_process_wait(&process->child, out_exit);
    if (!status && end == HN_OK && process->is_reported) take_report(process->stderr_fd, out_exit);
    if (end != HN_OK) {
        hn_status_free(status);
        status =
            end == HN_TIMEOUT
                ? HN_ERROR(HN_TIMEOUT, "'%s' ran too long and was killed", process->name)
                : HN_ERROR(HN_CANCELLED, "'%s' was killed: nobody waits for it", process->name);
    }
    hn_tool_log_messages(process->log, process->name, process->stderr_fd);
    if (!status && errors) status = hn_tool_read_errors(process->stderr_fd, errors);
    close(process->stderr_fd);
    return status;
}

static hn_status run_once(const hn_tool_run *run, hn_strbuf *errors, int *out_exit) {
    hn_tool_process process;
    HN_TRY(hn_tool_start(run, &process));
    return hn_tool_finish(&process, errors, out_exit);
}

static void rewind_file(int fd, off_t at, bool is_output) {
    if (fd < 0 || at < 0) return;
    /* no file: a tool that minds fails */
    if ((is_output && ftruncate(fd, at) != 0) || lseek(fd, at, SEEK_SET) < 0) return;
}

hn_status hn_tool_run_wait(const hn_tool_run *run, hn_strbuf *errors, int *out_exit) {
    off_t in_at = run->stdin_fd >= 0 ? lseek(run->stdin_fd, 0, SEEK_CUR) : -1;
    off_t out_at = run->stdout_fd >= 0 ? lseek(run->stdout_fd, 0, SEEK_CUR) : -1;
    size_t errors_len = errors ? errors->len : 0;
    HN_TRY(run_once(run, errors, out_exit));
    if (*out_exit == HN_EXIT_UNKNOWN && run->guard &&
        !atomic_exchange(&run->guard->reports, true)) {
        if (errors) errors->len = errors_len;
        rewind_file(run->stdin_fd, in_at, false);
        rewind_file(run->stdout_fd, out_at, true);
        HN_TRY(run_once(run, errors, out_exit));
    }
    if (*out_exit != HN_EXIT_UNKNOWN) return NULL;
    return HN_ERROR(
        HN_TOOLCHAIN,
        "cannot learn whether '%s' succeeded: this program takes or ignores the exit status of its children "
        "(SIGCHLD), and this Linux does not keep it; let henry-worker be found (HENRY_WORKER)",
        run->args->items[0]);
}
