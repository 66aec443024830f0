/* test_standby.c: tools that stand by, with a tool of the test's own that shows all it can see of
 * earlier jobs, and with the parts of the C compiler. */
#include "toolchain/standby.h"

#include "base/process.h"
#include "base/process_tree.h"
#include "toolchain/driver.h"
#include "unit/toolchain/fixture.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Opens its output and then its input, as ld does; tells what it finds, and then does what its
 * input says. */
static const char tool_text[] =
    "#define _GNU_SOURCE\n"
    "#include <fcntl.h>\n#include <pthread.h>\n#include <sched.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <sys/mman.h>\n#include <sys/prctl.h>\n#include <sys/resource.h>\n#include <sys/syscall.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
    "static int counter;\nstatic char zeros[100000], filled[100000] = {1};\nstatic char *heap, *mapped;\n"
    "static long sum(const char *p, long n) { long s = 0; while (n--) s += *p++; return s; }\n"
    "static int deep(int n) { volatile char part[1000]; memset((char *)part, n, sizeof part); return n ? deep(n - 1) + part[7] : 0; }\n"
    "static void *sleeper(void *x) { sleep(60); return x; }\n"
    "static pid_t self;\n"
    "static void stay(void) { prctl(PR_SET_PDEATHSIG, 9); if (getppid() == self) pause(); _exit(0); }\n"
    "static void *map(long n) { return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }\n"
    "static void change(void) {\n"
    "    counter++, memset(zeros, 1, sizeof zeros), memset(filled, 2, sizeof filled), memset(heap, 3, 100000);\n"
    "    setenv(\"LATER\", \"1\", 1), deep(500), close(0);\n"
    "    for (int i = 0; i < 5; i++) open(\"/dev/zero\", O_RDONLY);\n"
    "    free(heap), memset(malloc(50 << 20), 4, 50 << 20), free(malloc(1 << 20));\n"
    "    munmap(mapped, 1 << 20), memset(map(3 << 20), 5, 3 << 20), memset(map(60 << 20), 6, 60 << 20);\n"
    "}\n"
    "int main(int argc, char **argv) {\n"
    "    char what[32] = \"\";\n    struct rlimit cpu, file;\n    int files = 0;\n"
    "    heap = malloc(200000), memset(heap, 7, 100000), mapped = map(1 << 20), memset(mapped, 8, 1000);\n"
    "    FILE *out = fopen(argv[2], \"w\"), *in = fopen(argv[1], \"r\");\n"
    "    if (!out || !in || argc != 3 || !fgets(what, sizeof what, in)) return 9;\n    self = getpid();\n"
    "    getrlimit(RLIMIT_CPU, &cpu), getrlimit(RLIMIT_FSIZE, &file);\n"
    "    for (int fd = 0; fd < 3; fd++) files += fcntl(fd, F_GETFD) >= 0;\n"
    "    char *fresh = map(2 << 20), *block = malloc(3000000), *cleared = calloc(300000, 1);\n"
    "    fprintf(out, \"%d %ld %ld %ld %ld %ld %ld %ld %d %d %p %p %s %ld %ld\\n\", counter, sum(zeros, sizeof zeros), sum(filled, sizeof filled),\n"
    "            sum(heap, 100000), sum(mapped, 1 << 20), sum(fresh, 2 << 20), sum(cleared, 300000), sum(block + 2000000, 1000000),\n"
    "            files, dup(0), (void *)fresh, (void *)block, getenv(\"LATER\") ? \"later\" : \"first\", (long)cpu.rlim_cur, (long)file.rlim_cur);\n"
    "    pthread_t thread;\n"
    "    if (!strcmp(what, \"change\")) change();\n"
    "    if (!strcmp(what, \"fail\")) { fputs(\"it went wrong\", stderr); return 3; }\n"
    "    if (!strcmp(what, \"leave\")) { fflush(out); _exit(0); }\n"
    "    if (!strcmp(what, \"abort\")) abort();\n"
    "    if (!strcmp(what, \"thread\")) pthread_create(&thread, NULL, sleeper, NULL);\n"
    "    if (!strcmp(what, \"child\") && fork() == 0) stay();\n"
    /* one that sends no SIGCHLD */
    "    if (!strcmp(what, \"quiet child\") && syscall(SYS_clone, 0, 0, 0, 0, 0) == 0) stay();\n"
    "    if (!strcmp(what, \"sibling\") && syscall(SYS_clone, CLONE_PARENT, 0, 0, 0, 0) == 0) { prctl(PR_SET_PDEATHSIG, 9); pause(); }\n"
    "    if (!strcmp(what, \"reaped\")) { fflush(out); if (fork() == 0) exit(7); wait(NULL); }\n"
    "    if (!strcmp(what, \"need\")) fputs((block = malloc(1 << 30)) ? \"enough\" : \"too little\", stderr), write(2, block, 0);\n"
    "    return 0;\n"
    "}\n";

typedef struct bench {
    char dir[PATH_MAX - 64], program[PATH_MAX];
    hn_standby *standby;
    bool is_there;
} bench;

static void bench_begin(bench *b) {
    const char *named = getenv("HENRY_CC");
    char cc[PATH_MAX], source[PATH_MAX];
    int exit_status = 1;
    EXPECT_OK(hn_dir_temp(b->dir, sizeof(b->dir)));
    snprintf(b->program, sizeof(b->program), "%s/tool", b->dir);
    snprintf(source, sizeof(source), "%s/tool.c", b->dir);
    EXPECT_OK(hn_file_write_atomic(source, tool_text, sizeof(tool_text) - 1, false));
    b->is_there = hn_program_find(named && named[0] ? named : "cc", cc);
    if (!b->is_there) hn_test_lack("a C compiler for the tool");
    const char *const argv[] = {cc, "-O1", "-o", b->program, source, "-pthread", NULL};
    const hn_spawn compile = {.argv = argv, .stdin_fd = -1, .stdout_fd = 1, .stderr_fd = 2};
    if (b->is_there) EXPECT_OK(hn_process_run(&compile, 0, NULL, &exit_status));
    if (b->is_there) EXPECT_INT(exit_status, 0);
    EXPECT_OK(hn_standby_create(&b->standby));
}

static void bench_end(bench *b) {
    hn_standby_destroy(b->standby);
    EXPECT_OK(hn_dir_remove(b->dir));
}

/* What one job gave. */
typedef struct outcome {
    bool is_done;
    int exit_status;
    hn_strbuf output, errors;
} outcome;

static void outcome_begin(outcome *o) {
    *o = (outcome){.exit_status = -1};
    hn_strbuf_init(&o->output);
    hn_strbuf_init(&o->errors);
}

static void outcome_end(outcome *o) {
    hn_strbuf_deinit(&o->output);
    hn_strbuf_deinit(&o->errors);
}

static void run(const bench *b, const char *what, uint64_t memory_bytes, outcome *out) {
    static const char *const env[] = {"A=b", NULL};
    hn_tool_args args = {.count = 0};
    int in_fd, out_fd;
    hn_tool_args_add_all(
        &args, (const char *const[]){b->program, HN_STANDBY_INPUT, HN_STANDBY_OUTPUT, NULL});
    EXPECT_OK(hn_tool_memory_file("in", &in_fd));
    EXPECT_OK(hn_tool_memory_file("out", &out_fd));
    EXPECT_OK(hn_tool_write_all(in_fd, what, strlen(what)));
    const hn_tool_run job = {.args = &args,
                             .env = env,
                             .cwd = "/",
                             .stdin_fd = in_fd,
                             .stdout_fd = out_fd,
                             .memory_bytes = memory_bytes,
                             .cpu_seconds = 5};
    out->is_done = hn_standby_run(b->standby, &job, NULL, &out->errors, &out->exit_status);
    EXPECT_OK(hn_tool_read_all(out_fd, &out->output));
    close(in_fd), close(out_fd);
}

static pid_t only_pid(const bench *b) {
    pid_t pids[HN_STANDBY_TOOLS];
    return hn_standby_pids(b->standby, pids) == 1 ? pids[0] : 0;
}

/* Runs a job and expects that it is done and finds what `first`, a first job, found; but for
 * addresses with another tool. */
static void expect_done(const bench *b, const char *what, outcome *first, bool is_same_tool) {
    outcome o;
    outcome_begin(&o);
    run(b, what, 0, &o);
    EXPECT(o.is_done);
    EXPECT_INT(o.exit_status, 0);
    EXPECT(first->output.len > 0 && o.output.len > 0);
    if (!is_same_tool)
        first->output.ptr[strcspn(first->output.ptr, "x")] =
            o.output.ptr[strcspn(o.output.ptr, "x")] = 0;
    if (first->output.len && o.output.len) EXPECT_STR(o.output.ptr, first->output.ptr);
    outcome_end(&o);
}

TEST(a_job_finds_what_the_first_one_found) {
    bench b;
    outcome first;
    bench_begin(&b);
    outcome_begin(&first);
    if (b.is_there) {
        run(&b, "change", 0, &first);
        EXPECT(first.is_done);
        EXPECT(
            hn_str_starts_with(hn_strbuf_str(&first.output), HN_STR("0 0 1 700000 8000 0 0 0 3 ")));
        EXPECT(strstr(first.output.ptr, " first 5 536870912\n") != NULL);
        pid_t pid = only_pid(&b);
        EXPECT(pid != 0);
        for (int i = 0; i < 5; i++) expect_done(&b, i % 2 ? "plain" : "change", &first, true);
        expect_done(&b, "leave", &first, true); /* _exit is an end like any other */
        expect_done(&b, "reaped", &first, true);
        expect_done(&b, "change", &first, true);
        EXPECT_INT(only_pid(&b), pid);
    }
    outcome_end(&first);
    bench_end(&b);
}

/* Threads end with the job, and what it leaves behind is no child of the tool. A job that fails
 * does not touch the tool either. */
TEST(what_a_job_leaves_or_spoils_is_nothing_to_the_next) {
    static const char *const odd[] = {"thread", "child", "quiet child"};
    bench b;
    outcome first, failed;
    bench_begin(&b);
    outcome_begin(&first);
    outcome_begin(&failed);
    if (b.is_there) run(&b, "plain", 0, &first);
    pid_t pid = b.is_there ? only_pid(&b) : 0;
    for (int i = 0; b.is_there && i < 3; i++) {
        expect_done(&b, odd[i], &first, true);
        EXPECT_INT(hn_process_tree_count(pid, 10), 0);
        expect_done(&b, "plain", &first, true);
    }
    if (b.is_there) {
        run(&b, "fail", 0, &failed);
        EXPECT(failed.is_done);
        EXPECT_INT(failed.exit_status, 3);
        EXPECT(hn_str_eq(hn_strbuf_str(&failed.errors), HN_STR("it went wrong")));
        expect_done(&b, "plain", &first, true);
        EXPECT_INT(only_pid(&b), pid);
    }
    outcome_end(&failed);
    outcome_end(&first);
    bench_end(&b);
}

/* A child that a job gives to the tool itself could outlive the job: the tool ends, and another one
 * does the next job. */
TEST(a_tool_that_is_given_a_child_is_replaced) {
    bench b;
    outcome first, odd;
    bench_begin(&b);
    outcome_begin(&first);
    outcome_begin(&odd);
    if (b.is_there) {
        run(&b, "plain", 0, &first);
        run(&b, "sibling", 0, &odd);
        EXPECT(!odd.is_done);
        EXPECT_INT(only_pid(&b), 0);
        expect_done(&b, "plain", &first, false);
    }
    outcome_end(&odd);
    outcome_end(&first);
    bench_end(&b);
}

static void expect_not_done(const bench *b, const char *what) {
    outcome o;
    outcome_begin(&o);
    run(b, what, 0, &o);
    EXPECT(!o.is_done);
    EXPECT_INT(only_pid(b), 0);
    outcome_end(&o);
}

TEST(a_tool_that_dies_leaves_its_job_to_others) {
    bench b;
    outcome first;
    bench_begin(&b);
    outcome_begin(&first);
    if (b.is_there) {
        run(&b, "plain", 0, &first);
        kill(only_pid(&b), SIGKILL);
        expect_not_done(&b, "plain");
        expect_done(&b, "plain", &first, false);
        for (int i = 0; i < 3; i++) expect_not_done(&b, "abort");
        expect_not_done(&b, "plain"); /* three in a row are enough */
    }
    outcome_end(&first);
    bench_end(&b);
}

TEST(a_limit_is_that_of_one_job) {
    bench b;
    pid_t pid = 0;
    bench_begin(&b);
    for (int i = 0; b.is_there && i < 4; i++) {
        outcome o;
        outcome_begin(&o);
        bool is_tight = i % 2;
        run(&b, "need", is_tight ? (uint64_t)256 << 20 : 0, &o);
        EXPECT(o.is_done);
        EXPECT_INT(o.exit_status, 0);
        EXPECT(hn_str_eq(hn_strbuf_str(&o.errors),
                         is_tight ? HN_STR("too little") : HN_STR("enough")));
        if (!i) pid = only_pid(&b);
        EXPECT_INT(only_pid(&b), pid);
        outcome_end(&o);
    }
    bench_end(&b);
}

/* ---- the parts of the C compiler ---- */

static const char *const texts[] = {
    "int f(int x) { return x; }\n",
    "static int a[] = {1, 2, 3};\nint f(int x) { return a[x] + __LINE__ + __COUNTER__; }\n",
    "struct s { int a; struct s *next; };\nint f(struct s *p) { int n = 0; for (; p; p = p->next) n += p->a; return n; }\n",
    "typedef float v8 __attribute__((vector_size(32)));\nv8 f(v8 a, v8 b) { return a * b + (v8)(a > b); }\n",
    "extern float expf(float);\nvoid f(float *restrict p, const float *restrict q, long n) {\n"
    "    for (long i = 0; i < n; i++) p[i] = expf(q[i]) / (1.0f + q[i]);\n}\n",
    "#define X(n) int f##n(int x) { switch (x) { case 1: return n; case 2: return x * n; case 3: return 9; case 4: return 8; } return x; }\n"
    "X(1) X(2) X(3) X(4) X(5)\n#define int long\nint g(int x) { return x / 3; }\n",
    "int f(int x) { int y[x]; for (int i = 0; i < x; i++) y[i] = i * x; return y[x / 2]; }\n",
    "double f(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i] * x[i]; return s; }\n",
};
enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

static void compile(const language *l, const char *text, hn_standby *standby, hn_strbuf *out) {
    hn_toolchain_result result;
    const hn_toolchain_job job = {
        .text = hn_str_of(text), .flags = HN_STR("-O2\0"), .standby = standby};
    EXPECT_OK(hn_toolchain_compile(&l->toolchain, &job, &result));
    hn_strbuf_append(out, result.bytes.ptr, result.bytes.len);
    hn_toolchain_result_deinit(&result);
}

/* Whatever came before, also a text that is wrong. */
TEST(the_bytes_do_not_depend_on_the_jobs_before) {
    language l;
    hn_standby *standby = NULL;
    hn_strbuf alone[TEXTS], after;
    if (!language_begin(&l, "c")) return language_end(&l);
    EXPECT_OK(hn_standby_create(&standby));
    for (int t = 0; t < TEXTS; t++) {
        hn_strbuf_init(&alone[t]);
        compile(&l, texts[t], NULL, &alone[t]);
    }
    for (int i = 0; i < 3 * TEXTS; i++) {
        int t = i * 5 % TEXTS;
        hn_strbuf_init(&after);
        compile(&l, texts[t], standby, &after);
        EXPECT(after.len > 0 && hn_str_eq(hn_strbuf_str(&after), hn_strbuf_str(&alone[t])));
        hn_strbuf_deinit(&after);
        if (i != 2 * TEXTS) continue;
        hn_toolchain_result result;
        const hn_toolchain_job wrong = {.text = HN_STR("int f(void) { return missing; }\n"),
                                        .flags = HN_STR("-O2\0"),
                                        .standby = standby};
        EXPECT_ERROR(hn_toolchain_compile(&l.toolchain, &wrong, &result), HN_TOOLCHAIN,
                     "kernel.c:1:");
        hn_toolchain_result_deinit(&result);
    }
    for (int t = 0; t < TEXTS; t++) hn_strbuf_deinit(&alone[t]);
    hn_standby_destroy(standby);
    language_end(&l);
}

TEST_MAIN
