/* test_parent_kill.c: a program that compiles is killed with SIGKILL at a random moment, over and
 * over. Its workers, their compilers, and what those started, also in sessions of their own, must
 * all be gone within a second, and so must the directories of the workers.
 *
 * This process adopts orphans, so it knows of every descendant of the killed one: it waits until it
 * has no children left, and measures how long that takes. In every second round the compiler is a
 * bad one, which starts processes in sessions of their own and does not end; then the workers are
 * up when it begins. The same for a program that compiles in its own thread, without workers. By
 * turns with and without PID namespaces. */
#include "henry/kernel.h"
#include "service/worker.h"

#include "stress/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 6, LATEST_US = 120000, LIMIT_MS = 1000, GIVE_UP_MS = 5000 };

static char dir[PATH_MAX - 64];

/* A compiler that leaves a process behind in its group, one in a session of its own, and does not
 * end. */
static const char bad_compiler[] = "#!/bin/sh\n"
                                   "case \"$*\" in\n"
                                   "*--version*) exec gcc --version ;;\n"
                                   "esac\n"
                                   "sleep 100 &\n"
                                   "setsid sleep 101 &\n"
                                   "(setsid sh -c 'sleep 102 & sleep 103' &)\n"
                                   "sleep 104\n";

static void write_compiler(char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/compiler", dir);
    FILE *file = fopen(path, "w");
    EXPECT(file && fputs(bad_compiler, file) >= 0 && fclose(file) == 0 && chmod(path, 0700) == 0);
}

/* Until workers are ready, jobs run in the program itself. */
static void wait_for_workers(hn_service *service) {
    hn_service_stats stats = {0};
    for (int i = 0; i < 2000 && stats.workers_ready < 2; i++) {
        hn_service_stats_get(service, &stats);
        stress_sleep_us(1000);
    }
}

/* How the program compiles that is killed. */
typedef struct way {
    const char *compiler; /* NULL: the usual one */
    int32_t threads;      /* 1: without workers */
    bool no_namespaces;
} way;

/* That program: it never ends by itself. Writes to `ready_fd` when the time to kill it has come. */
static void compile_for_ever(uint64_t seed, way how, int ready_fd) {
    const char *compiler = how.compiler;
    hn_service *service = NULL;
    hn_scope *scope = NULL;
    char cache[PATH_MAX];
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    if (compiler) setenv("HENRY_CC", compiler, 1);
    setenv("TMPDIR", dir, 1);
    if (how.no_namespaces) setenv("HENRY_NAMESPACES", "off", 1);
    hn_status status = hn_service_create(&(hn_service_options){.threads = how.threads,
                                                               .worker_path = "/proc/self/exe",
                                                               .cache_dir = cache,
                                                               .remote_url = "",
                                                               /* for guards with a sanitizer */
                                                               .job_memory_bytes = UINT64_MAX,
                                                               .warm = compiler != NULL},
                                         &service);
    if (!status && compiler && how.threads > 1) wait_for_workers(service);
    if (write(ready_fd, "!", 1) != 1) _exit(4);
    for (uint64_t n = seed;; n += JOBS) {
        if (!status) status = hn_scope_create(service, &scope);
        for (uint64_t i = 0; !status && i < JOBS; i++) {
            char text[96];
            hn_future *future;
            snprintf(text, sizeof(text), "int f(int x); int f(int x) { return x + %d; }",
                     (int)(n + i) & 0xfffffff);
            status = hn_compile_submit(
                scope,
                &(hn_source){
                    .name = "kernel", .language = "c", .text = text, .text_len = strlen(text)},
                &future);
        }
        if (!status) status = hn_scope_wait(scope, NULL, NULL);
        if (status) break;
        hn_scope_destroy(scope);
    }
    fprintf(stderr, "%s\n", hn_status_message(status));
    _exit(3);
}

/* What is still there, for the message. */
static void name_survivors(void) {
    char command[128];
    snprintf(command, sizeof(command), "ps --ppid %d -o pid,ppid,stat,args >&2", (int)getpid());
    if (system(command) != 0) fputs("(no ps)\n", stderr);
}

/* Waits until no descendant is left; the time that took, or GIVE_UP_MS. `*reaped` counts them. */
static int64_t wait_for_all(pid_t parent, long *reaped, long *ended) {
    int64_t begin_ns = hn_now_ns(), give_up_ns = begin_ns + GIVE_UP_MS * 1000000LL;
    for (;;) {
        int how;
        pid_t pid = waitpid(-1, &how, WNOHANG);
        if (pid == parent) *ended += WIFEXITED(how);
        *reaped += pid > 0 && pid != parent;
        if (pid < 0 && errno == ECHILD) return hn_now_ns() - begin_ns;
        if (pid == 0 && hn_now_ns() > give_up_ns) break;
        if (pid == 0) stress_sleep_us(100);
    }
    name_survivors();
    return GIVE_UP_MS * 1000000LL;
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* One program begins, is killed at a random moment, and all that it started is awaited: how long
 * that took. */
static int64_t kill_one(way how, uint64_t *random, long *reaped, long *ended) {
    uint64_t seed = stress_next(random);
    int ready[2];
    char byte;
    EXPECT(pipe2(ready, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) compile_for_ever(seed, how, ready[1]);
    close(ready[1]);
    EXPECT(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    stress_sleep_us((int64_t)stress_below(random, LATEST_US));
    EXPECT(pid > 0 && kill(pid, SIGKILL) == 0);
    return wait_for_all(pid, reaped, ended);
}

/* Directories of workers that nobody needs any more. */
static long count_scratch(void) {
    long count = 0;
    DIR *list = opendir(dir);
    for (const struct dirent *entry; list && (entry = readdir(list));)
        count += strncmp(entry->d_name, "henry-worker-", 13) == 0;
    if (list) closedir(list);
    return count;
}

/* Every second round has the bad compiler. */
static void kill_many(const char *what, const char *asked, long rounds, bool is_inline) {
    char compiler[PATH_MAX];
    long reaped = 0, ended = 0, late = 0;
    int64_t *times = calloc((size_t)rounds, sizeof(*times));
    uint64_t random = stress.seed;
    EXPECT(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    write_compiler(compiler);
    stress_begin();
    for (long round = 0; round < rounds && late < 3; round++) {
        const way how = {.compiler = round % 2 == 1 ? compiler : NULL,
                         .threads = is_inline ? 1 : 2,
                         .no_namespaces = round % 4 >= 2};
        times[round] = kill_one(how, &random, &reaped, &ended);
        late += times[round] > LIMIT_MS * 1000000LL;
    }
    qsort(times, (size_t)rounds, sizeof(*times), by_time);
    EXPECT_INT(late, 0);
    EXPECT_INT(ended, 0);
    if (!is_inline) EXPECT_INT(count_scratch(), 0); /* the program itself cannot */
    EXPECT(reaped > rounds / 2);                    /* else nobody had descendants */
    stress_row(what, asked,
               "%ld times, %ld descendants, all gone after %.1f ms (median), %.1f (95 %%), %.1f "
               "(longest); %ld later than 1 s",
               rounds, reaped, (double)times[rounds / 2] / 1e6,
               (double)times[rounds * 95 / 100] / 1e6, (double)times[rounds - 1] / 1e6, late);
    free(times);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(descendants_of_a_killed_program) {
    kill_many("parent SIGKILLed while workers compile",
              "1,000 times, every descendant gone within a second", stress_rounds(1000, 20), false);
}

TEST(descendants_of_a_killed_program_without_workers) {
    kill_many("parent SIGKILLed while it compiles without workers",
              "400 times, every descendant gone within a second", stress_rounds(400, 20), true);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return stress_main(argc, argv);
}
