/* test_worker_faults.c: workers that are killed, stopped, silent, that talk rubbish or end without
 * a word, and compilers that spin, eat memory, write without end, start processes without end, or
 * hide processes in sessions of their own: over and over. The job fails with an error that names
 * the kernel, within its limit; the other jobs are unharmed; when the service has ended no process
 * is left.
 *
 * The compiler is a script that does what a flag of the job tells it, else it is gcc. This process
 * adopts orphans, so it sees whatever is left. */
#include "henry/kernel.h"
#include "service/job.h"
#include "service/service.h"
#include "service/worker.h"

#include "base/log.h"
#include "base/process.h"
#include "stress/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    GOOD_JOBS = 3,
    LIMIT_MS = 1000,
    PROCESSES = 48,
    SLACK_MS = 1000, /* for a machine that does other things */
};
#define MEMORY_BYTES ((uint64_t)256 << 20)

static const char script[] =
    "#!/bin/sh\n"
    "case \"$*\" in\n"
    "*--version*) exec gcc --version ;;\n"
    "*STRESS=hang*) read _ _ _ parent _ </proc/self/stat; echo $parent > \"$0.tmp\"; mv \"$0.tmp\" "
    "\"$0.started\"; echo waiting >&2; sleep 1000 ;;\n"
    "*STRESS=spin*) while :; do :; done ;;\n"
    "*STRESS=memory*) tail /dev/zero; exit 1 ;;\n"
    "*STRESS=output*) yes some text without end >&2; exit 1 ;;\n"
    "*STRESS=fork*) while :; do sleep 1000 & done ;;\n"
    "*STRESS=bomb*) bomb() { bomb & bomb; }; bomb ;;\n"
    "*STRESS=hide*) setsid sleep 1001 & (setsid sh -c 'sleep 1002 & sleep 1003' &) ; sleep 1004 "
    ";;\n"
    "*STRESS=leave*) setsid sleep 1005 & (setsid sh -c 'sleep 1006 & sleep 1007' &) ; exit 1 ;;\n"
    "*) exec gcc \"$@\" ;;\n"
    "esac\n";

typedef struct fault {
    const char *name;
    const char *flag;   /* of the job */
    const char *worker; /* what the worker does; NULL: it is a real one */
    int signal;         /* that its worker gets when the job runs; 0: none */
    bool has_limit;     /* found by the time limit of the job */
    bool needs_sweep;   /* where there are no namespaces, which is tried too */
    /* to the machine: only in namespaces, or when asked for by HN_STRESS_SCENE */
    bool is_dangerous;
} fault;

static const fault faults[] = {
    {"worker killed", "-DSTRESS=hang", NULL, SIGKILL, false, true, false},
    {"worker stopped", "-DSTRESS=hang", NULL, SIGSTOP, true, false, false},
    {"worker silent", "-DSTRESS=no", "silent", 0, true, false, false},
    {"worker talks rubbish", "-DSTRESS=no", "rubbish", 0, false, false, false},
    {"worker ends without a word", "-DSTRESS=no", "exit", 0, false, false, false},
    {"compiler spins", "-DSTRESS=spin", NULL, 0, true, false, false},
    {"compiler hangs", "-DSTRESS=hang", NULL, 0, true, false, false},
    {"compiler eats memory", "-DSTRESS=memory", NULL, 0, true, false, false},
    {"compiler writes without end", "-DSTRESS=output", NULL, 0, true, false, false},
    {"compiler forks without end", "-DSTRESS=fork", NULL, 0, false, true, false},
    {"fork bomb", "-DSTRESS=bomb", NULL, 0, false, false, true},
    {"compiler hides processes and hangs", "-DSTRESS=hide", NULL, 0, true, true, false},
    {"compiler leaves processes behind", "-DSTRESS=leave", NULL, 0, false, true, false},
};
enum { FAULT_COUNT = sizeof(faults) / sizeof(faults[0]) };

static char dir[PATH_MAX - 64], compiler[PATH_MAX], started[PATH_MAX + 16];

/* ---- a worker that misbehaves ---- */

static void send_bytes(hn_str bytes) {
    while (bytes.len) {
        ssize_t done = send(0, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (done <= 0) _exit(0);
        bytes = (hn_str){bytes.ptr + done, bytes.len - (size_t)done};
    }
}

static void send_frame(hn_frame_kind kind, uint64_t job, hn_str payload) {
    hn_strbuf frame;
    hn_strbuf_init(&frame);
    hn_frame_write(&frame, kind, job, payload);
    send_bytes(hn_strbuf_str(&frame));
    hn_strbuf_deinit(&frame);
}

static void misbehave(const char *how) {
    if (strcmp(how, "exit") == 0) _exit(0);
    if (strcmp(how, "rubbish") == 0)
        send_bytes(
            HN_STR("this is not what you expect, and it is long enough to be taken for a header"));
    for (;;) pause();
}

static void answer(uint64_t job, hn_str request) {
    hn_job_outcome outcome;
    hn_strbuf message;
    hn_job_outcome_init(&outcome);
    hn_strbuf_init(&message);
    hn_job_request_run(request, NULL, &outcome);
    hn_job_outcome_write(&outcome, &message);
    send_frame(HN_FRAME_OUTCOME, job, hn_strbuf_str(&message));
    hn_job_outcome_deinit(&outcome);
    hn_strbuf_deinit(&message);
}

/* Does good jobs well. */
static int fake_worker(const char *how) {
    hn_strbuf in;
    char bytes[65536];
    hn_strbuf_init(&in);
    send_frame(HN_FRAME_HELLO, 0, HN_STR(""));
    for (;;) {
        bool whole;
        hn_frame_header header;
        hn_str payload;
        size_t used;
        if (hn_frame_read(hn_strbuf_str(&in), &whole, &header, &payload, &used)) return 1;
        if (!whole) {
            ssize_t got = recv(0, bytes, sizeof(bytes), 0);
            if (got <= 0) return 0;
            hn_strbuf_append(&in, bytes, (size_t)got);
            continue;
        }
        if (memmem(payload.ptr, payload.len, "faulty", 6)) misbehave(how);
        answer(header.job, payload);
        memmove(in.ptr, in.ptr + used, in.len - used);
        in.len -= used;
    }
}

/* ---- a round ---- */

static void write_compiler(void) {
    snprintf(compiler, sizeof(compiler), "%s/compiler", dir);
    snprintf(started, sizeof(started), "%s.started", compiler);
    FILE *file = fopen(compiler, "w");
    EXPECT(file && fputs(script, file) >= 0 && fclose(file) == 0 && chmod(compiler, 0700) == 0);
    setenv("HENRY_CC", compiler, 1);
}

static hn_service *open_service(void) {
    hn_service *service = NULL;
    hn_service_stats stats = {0};
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 2,
                                                      .worker_path = "/proc/self/exe",
                                                      .cache_dir = dir,
                                                      .remote_url = "",
                                                      .job_timeout_ms = LIMIT_MS,
                                                      .job_memory_bytes = MEMORY_BYTES,
                                                      .job_processes = PROCESSES,
                                                      .warm = true},
                                &service));
    for (int i = 0; i < 3000 && stats.workers_ready < 2; i++) {
        hn_service_stats_get(service, &stats);
        stress_sleep_us(1000);
    }
    EXPECT_INT(stats.workers_ready, 2);
    return service;
}

static hn_future *submit(hn_scope *scope, const char *name, const char *flag, long number) {
    char text[128];
    hn_future *future = NULL;
    const char *flags[] = {flag};
    snprintf(text, sizeof(text), "int %s(int x); int %s(int x) { return x + %ld; }\n", name, name,
             number);
    EXPECT_OK(hn_compile_submit(scope,
                                &(hn_source){.name = name,
                                             .language = "c",
                                             .text = text,
                                             .text_len = strlen(text),
                                             .flags = flags,
                                             .flag_count = 1},
                                &future));
    return future;
}

/* The worker that runs the job which hangs; 0: none came. */
static pid_t wait_for_start(void) {
    for (int i = 0; i < 5000; i++) {
        FILE *file = fopen(started, "r");
        int pid = 0;
        if (file && fscanf(file, "%d", &pid) != 1) pid = 0;
        if (file) fclose(file);
        if (pid > 0) return (pid_t)pid;
        stress_sleep_us(200);
    }
    return 0;
}

/* Descendants that are still there a second after the service has ended. */
static long count_left(void) {
    int64_t until_ns = hn_now_ns() + 1000000000;
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) return 0;
        if (pid == 0 && hn_now_ns() > until_ns) break;
        if (pid == 0) stress_sleep_us(200);
    }
    return 1;
}

/* What is left would disturb the next round. */
static void show_left(void) {
    char command[128];
    snprintf(command, sizeof(command), "ps --ppid %d -o pid,ppid,stat,args >&2", (int)getpid());
    if (system(command) != 0) fputs("(no ps)\n", stderr);
}

typedef struct tally {
    double sum_ms, longest_ms;
    long rounds, unharmed, left, late;
} tally;

static void run_round(const fault *f, long round, tally *sum) {
    static long number;
    hn_future *good[GOOD_JOBS];
    hn_scope *scope = NULL;
    remove(started);
    if (f->worker) setenv("HN_STRESS_WORKER", f->worker, 1);
    hn_service *service = open_service();
    unsetenv("HN_STRESS_WORKER");
    EXPECT_OK(hn_scope_create(service, &scope));
    int64_t begin_ns = hn_now_ns();
    hn_future *faulty = submit(scope, "faulty", f->flag, ++number);
    for (int i = 0; i < GOOD_JOBS; i++) good[i] = submit(scope, "good", "-DSTRESS=no", ++number);
    if (f->signal) {
        pid_t pid = wait_for_start();
        int64_t now_ns = hn_now_ns();
        if (!f->has_limit) begin_ns = now_ns; /* else the limit counts from the start of the job */
        EXPECT(pid > 1 && kill(pid, f->signal) == 0);
    }
    hn_status status = hn_future_wait(faulty, LIMIT_MS + 10000, NULL);
    double ms = (double)(hn_now_ns() - begin_ns) / 1e6 - (f->has_limit ? LIMIT_MS : 0);
    if (ms < 0) ms = 0; /* another limit came first */
    hn_code code = hn_status_code(status);
    if ((code != HN_TOOLCHAIN && code != HN_TIMEOUT) ||
        !strstr(hn_status_message(status), "'faulty'") || round == 0)
        fprintf(stderr, "%s: %s: %.300s\n", f->name, hn_code_name(code), hn_status_message(status));
    EXPECT(code == HN_TOOLCHAIN || code == HN_TIMEOUT);
    EXPECT(strstr(hn_status_message(status), "'faulty'") != NULL);
    hn_status_free(status);
    for (int i = 0; i < GOOD_JOBS; i++) {
        status = hn_future_wait(good[i], 20000, NULL);
        if (status)
            fprintf(stderr, "%s: a good job failed: %s\n", f->name, hn_status_message(status));
        sum->unharmed += status == NULL;
        hn_status_free(status);
    }
    hn_scope_destroy(scope);
    int64_t end_ns = hn_now_ns();
    hn_service_destroy(service);
    EXPECT(hn_now_ns() - end_ns < 1000000000);
    long left = count_left();
    if (left) show_left();
    sum->left += left;
    sum->rounds++;
    sum->sum_ms += ms;
    sum->late += ms > SLACK_MS;
    if (ms > sum->longest_ms) sum->longest_ms = ms;
}

/* All rounds of one scene. False when processes are left: they would disturb the next one. */
static bool run_scene(const fault *f, const char *suffix) {
    char what[128], asked[160];
    tally sum = {0};
    long rounds = stress_rounds(30, 1);
    stress_begin();
    for (long round = 0; round < rounds && !sum.left; round++) run_round(f, round, &sum);
    EXPECT_INT(sum.left, 0);
    EXPECT_INT(sum.late, 0);
    EXPECT_INT(sum.unharmed, sum.rounds * GOOD_JOBS);
    snprintf(what, sizeof(what), "%s%s", f->name, suffix);
    snprintf(asked, sizeof(asked), "reported within the limit%s, 0 processes left, others unharmed",
             f->has_limit ? " (1 s)" : "");
    stress_row(what, asked,
               "%ld times: reported after %.1f ms%s (mean), %.1f (longest); %ld times processes "
               "left; %ld of %ld other jobs unharmed",
               sum.rounds, sum.sum_ms / (double)(sum.rounds ? sum.rounds : 1),
               f->has_limit ? " beyond it" : "", sum.longest_ms, sum.left, sum.unharmed,
               sum.rounds * GOOD_JOBS);
    return !sum.left;
}

static bool has_namespaces(void) {
    hn_child child;
    int code = -1;
    const char *const argv[] = {"true", NULL};
    if (!hn_process_spawn_isolated(
            &(hn_spawn){.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1}, &child))
        return false;
    EXPECT_OK(hn_process_wait(&child, &code));
    return code == 0;
}

TEST(workers_and_compilers_that_misbehave) {
    const char *only = getenv("HN_STRESS_SCENE"); /* to look at one */
    bool are_isolated = has_namespaces(), ok = true;
    EXPECT(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    write_compiler();
    hn_log_configure("error");
    if (!are_isolated) fprintf(stderr, "no namespaces here: no fork bomb\n");
    for (int i = 0; i < FAULT_COUNT && ok; i++) {
        if (only ? strcmp(only, faults[i].name) != 0 : faults[i].is_dangerous && !are_isolated)
            continue;
        ok = run_scene(&faults[i], "");
    }
    setenv("HENRY_NAMESPACES", "off", 1);
    for (int i = 0; i < FAULT_COUNT && ok && are_isolated && !only; i++)
        if (faults[i].needs_sweep) ok = run_scene(&faults[i], " (no namespaces)");
    unsetenv("HENRY_NAMESPACES");
    hn_log_configure(NULL);
    EXPECT_OK(hn_dir_remove(dir));
}

int main(int argc, char **argv) {
    const char *how = getenv("HN_STRESS_WORKER");
    bool is_worker = argc >= 3 && strcmp(argv[1], "--worker") == 0;
    if (is_worker && how) return fake_worker(how);
    if (is_worker) return hn_worker_main(argc, argv);
    return stress_main(argc, argv);
}
