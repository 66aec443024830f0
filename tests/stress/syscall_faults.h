/* syscall_faults.h: runs a child under ptrace and harms one of its system calls: the child is
 * killed before or after it, it fails with an error of choice, alone or with all that follow, or it
 * moves fewer bytes than asked for. x86-64 only; the caller skips elsewhere.
 *
 * The child marks the window that is of interest with fault_mark; calls of all its threads are
 * counted there. Processes that it starts are not followed. */
#ifndef HN_TESTS_SYSCALL_FAULTS_H
#define HN_TESTS_SYSCALL_FAULTS_H

#include "stress/stress.h"

#include <errno.h>
#include <linux/futex.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_KILL_BEFORE,
    FAULT_KILL_AFTER,
    FAULT_ERROR,      /* this call fails */
    FAULT_ERROR_FROM, /* this one and all later ones */
    FAULT_SHORT,      /* it moves half of what was asked for, one byte at least */
} fault_kind;

typedef struct fault {
    fault_kind kind;
    int error;
    const char *name;
} fault;

/* ENOSPC and EIO from a point on: a disk that is full, or dead, stays so for a while. */
static const fault fault_table[] = {
    {FAULT_KILL_BEFORE, 0, "killed before"},
    {FAULT_KILL_AFTER, 0, "killed after"},
    {FAULT_ERROR, ENOSPC, "ENOSPC"},
    {FAULT_ERROR, EIO, "EIO"},
    {FAULT_ERROR, EINTR, "EINTR"},
    {FAULT_ERROR_FROM, ENOSPC, "ENOSPC from here on"},
    {FAULT_ERROR_FROM, EIO, "EIO from here on"},
    {FAULT_SHORT, 0, "short"},
};
enum { FAULT_COUNT = sizeof(fault_table) / sizeof(fault_table[0]), FAULT_MARK = 0x5eed };

/* In the child: the window begins, or ends. */
static inline void fault_mark(void) { syscall(FAULT_MARK); }

typedef struct fault_run {
    fault what;
    long at; /* which call of the window, from 0 */
    /* results */
    long calls; /* in the window */
    int status; /* as waitpid gives it */
    bool was_harmed, is_late;
    long number; /* of the harmed call */
} fault_run;

#if defined(__x86_64__)

typedef struct fault_thread {
    pid_t tid;
    bool is_harmed; /* it is in the call that is harmed */
} fault_thread;

static bool fault_moves_bytes(long n) {
    return n == SYS_write || n == SYS_read || n == SYS_pread64 || n == SYS_pwrite64 ||
           n == SYS_writev;
}

/* Calls that have no errors: a number in place of an error would be a user or a process that is not
 * there, and a thread whose end fails tries again for ever. restart_syscall goes on with a call
 * that was stopped, mostly a futex. */
static bool fault_never_fails(long n) {
    return n == SYS_brk || n == SYS_getuid || n == SYS_geteuid || n == SYS_getgid ||
           n == SYS_getegid || n == SYS_getpid || n == SYS_getppid || n == SYS_gettid ||
           n == SYS_exit || n == SYS_exit_group || n == SYS_restart_syscall;
}

/* Of futex only a wait ends early, by a signal; the C library ends the program when waking
 * fails. */
static bool fault_is_wait(const struct user_regs_struct *regs, int error) {
    const unsigned long op = regs->rsi & FUTEX_CMD_MASK;
    return error == EINTR && (op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET);
}

/* Turns the call into one that moves half as much. False when there is nothing to halve. */
static bool fault_shorten(pid_t tid, struct user_regs_struct *regs) {
    if (!fault_moves_bytes((long)regs->orig_rax)) return false;
    if (regs->orig_rax == SYS_writev) {
        struct iovec first = {0}, local = {&first, sizeof(first)};
        struct iovec remote = {(void *)regs->rsi, sizeof(first)};
        for (; regs->rdx && !first.iov_len; regs->rdx--, regs->rsi += sizeof(first)) {
            remote.iov_base = (void *)regs->rsi;
            if (process_vm_readv(tid, &local, 1, &remote, 1, 0) != sizeof(first)) return false;
        }
        regs->orig_rax = SYS_write;
        regs->rsi = (unsigned long long)(uintptr_t)first.iov_base;
        regs->rdx = first.iov_len;
    }
    if (regs->rdx < 2) return false;
    regs->rdx /= 2;
    return ptrace(PTRACE_SETREGS, tid, NULL, regs) == 0;
}

/* At the entry of a counted call. */
static void fault_enter(fault_run *run, fault_thread *t, struct user_regs_struct *regs) {
    long index = run->calls++;
    bool from = run->what.kind == FAULT_ERROR_FROM;
    if (run->what.kind == FAULT_NONE || (from ? index < run->at : index != run->at)) return;
    if (index == run->at) run->number = (long)regs->orig_rax;
    bool was_harmed = run->was_harmed;
    run->was_harmed = true;
    t->is_harmed = true;
    switch (run->what.kind) {
    case FAULT_KILL_BEFORE: kill(t->tid, SIGKILL); break;
    case FAULT_ERROR:
    case FAULT_ERROR_FROM:
        if (regs->orig_rax == SYS_close) break; /* Linux closes the descriptor whatever it says */
        if (fault_never_fails((long)regs->orig_rax) ||
            (regs->orig_rax == SYS_futex && !fault_is_wait(regs, run->what.error))) {
            /* they never answer so */
            t->is_harmed = false;
            run->was_harmed = was_harmed; /* by an earlier call */
            break;
        }
        regs->orig_rax = (unsigned long long)-1;
        ptrace(PTRACE_SETREGS, t->tid, NULL, regs);
        break;
    case FAULT_SHORT: run->was_harmed = t->is_harmed = fault_shorten(t->tid, regs); break;
    default: break;
    }
}

/* At the exit of the harmed call. */
static void fault_leave(const fault_run *run, fault_thread *t, struct user_regs_struct *regs) {
    if (run->what.kind == FAULT_KILL_AFTER) {
        kill(t->tid, SIGKILL);
    } else if (run->what.kind != FAULT_SHORT) {
        regs->rax = (unsigned long long)-run->what.error;
        ptrace(PTRACE_SETREGS, t->tid, NULL, regs);
    }
    t->is_harmed = false;
}

static void fault_stop(fault_run *run, fault_thread *t, bool *is_open) {
    struct user_regs_struct regs;
    struct __ptrace_syscall_info info = {0};
    if (ptrace(PTRACE_GETREGS, t->tid, NULL, &regs) != 0) return;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, (void *)sizeof(info), &info) <= 0) return;
    bool is_entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
    if (is_entry && regs.orig_rax == FAULT_MARK) {
        *is_open = !*is_open;
    } else if (is_entry) {
        if (*is_open) fault_enter(run, t, &regs);
    } else if (t->is_harmed) {
        fault_leave(run, t, &regs);
    }
}

enum { FAULT_THREADS = 64 };

static fault_thread *fault_find(fault_thread threads[FAULT_THREADS], pid_t tid) {
    for (int i = 0; i < FAULT_THREADS; i++) {
        if (threads[i].tid == tid) return &threads[i];
        if (threads[i].tid) continue;
        threads[i] = (fault_thread){.tid = tid};
        return &threads[i];
    }
    return &threads[0];
}

/* Whether a child may be traced here: some containers forbid it. */
static bool fault_can_trace(void) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Runs `body` in a child of its own; the child ends with what it returns. One that takes two
 * minutes is killed and late. */
static void fault_trace(fault_run *run, int (*body)(void *), void *context) {
    fault_thread threads[FAULT_THREADS] = {{0}};
    bool is_open = false;
    run->calls = 0;
    run->was_harmed = run->is_late = false;
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        alarm(120);
        _exit(body(context));
    }
    waitpid(pid, &run->status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, NULL,
           (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
    ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
    for (;;) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0) break;
        if (!WIFSTOPPED(status)) {
            if (tid != pid) continue;
            run->status = status;
            run->is_late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
            break;
        }
        int number = WSTOPSIG(status);
        if (number == (SIGTRAP | 0x80)) fault_stop(run, fault_find(threads, tid), &is_open);
        bool is_signal = number != (SIGTRAP | 0x80) && number != SIGTRAP && number != SIGSTOP;
        ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(uintptr_t)(is_signal ? number : 0));
    }
}

#else
static bool fault_can_trace(void) { return false; }
static inline void fault_trace(fault_run *run, int (*body)(void *), void *context) {
    (void)body;
    (void)context;
    run->calls = 0;
}
#endif

#endif
