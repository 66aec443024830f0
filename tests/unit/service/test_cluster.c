/* test_cluster.c: several processes and machines that want the same kernels: compiled once, shared,
 * and taken over when a process dies. Machines are cache directories of their own that share one
 * Redis.
 *
 * The test program is its own worker. The compiler is a script that notes each kernel that it
 * compiles, so that double work can be counted. */
#include "henry/kernel.h"
#include "service/service.h"
#include "service/worker.h"

#include "base/log.h"
#include "support/redis_server.h"
#include "unit/harness.h"

#include <fcntl.h>
#include <sys/stat.h>

static redis_server server;
static bool has_redis;
static char root[PATH_MAX - 256]; /* of the running test: the script, its notes, the caches */

static void root_begin(void) {
    char cc[PATH_MAX];
    EXPECT_OK(hn_dir_temp(root, sizeof(root)));
    snprintf(cc, sizeof(cc), "%s/cc", root);
    FILE *file = fopen(cc, "w");
    EXPECT(file != NULL);
    if (!file) return;
    fprintf(
        file,
        "#!/bin/sh\n"
        "case $1 in --version) exec gcc --version;; esac\n"
        "name=$(sed -n 's/.*COUNT \\([a-z0-9]*\\).*/\\1/p' kernel.c 2>/dev/null)\n"
        "if [ -n \"$name\" ]; then echo \"$name $PPID\" >>%s/notes; fi\n"
        "if grep -q SLOW kernel.c 2>/dev/null; then sleep 0.4; fi\n"
        "if grep -q HANG kernel.c 2>/dev/null && [ ! -e %s/hung ]; then : >%s/hung; sleep 30; fi\n"
        "exec gcc \"$@\"\n",
        root, root, root);
    fclose(file);
    EXPECT(chmod(cc, 0700) == 0);
    setenv("HENRY_CC", cc, 1);
    setenv("TMPDIR", root, 1);
}

static void root_end(void) {
    unsetenv("HENRY_CC");
    unsetenv("TMPDIR");
    EXPECT_OK(hn_dir_remove(root));
}

/* How many times kernels were compiled whose note begins with `name`. */
static int compiled(const char *name) {
    char path[PATH_MAX], line[256];
    int count = 0;
    snprintf(path, sizeof(path), "%s/notes", root);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(line, sizeof(line), file)) count += strncmp(line, name, strlen(name)) == 0;
    fclose(file);
    return count;
}

static bool exists(const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    return access(path, F_OK) == 0;
}

/* A process of the cluster: which machine it is on, and how it works. */
typedef struct member {
    int machine, threads;
    const char *remote; /* NULL: none */
    int64_t job_timeout_ms;
} member;

static hn_service *service_open(const member *m) {
    char dir[PATH_MAX];
    hn_service *service = NULL;
    snprintf(dir, sizeof(dir), "%s/cache%d", root, m->machine);
    const hn_service_options options = {.threads = m->threads ? m->threads : 2,
                                        .worker_path = "/proc/self/exe",
                                        .cache_dir = m->machine < 0 ? "" : dir,
                                        .remote_url = m->remote ? m->remote : "",
                                        .job_timeout_ms = m->job_timeout_ms};
    EXPECT_OK(hn_service_create(&options, &service));
    return service;
}

static hn_future *submit(hn_scope *scope, const char *word, const char *name) {
    char text[256];
    hn_future *future = NULL;
    int len = snprintf(text, sizeof(text), "int %s(int x) { return 2 * x; } /* %s COUNT %s */\n",
                       name, word, name);
    EXPECT_OK(hn_compile_submit(
        scope, &(hn_source){.name = name, .language = "c", .text = text, .text_len = (size_t)len},
        &future));
    return future;
}

static hn_service_stats stats_of(hn_service *service) {
    hn_service_stats stats;
    hn_service_stats_get(service, &stats);
    return stats;
}

/* Compiles `count` kernels k0, k1 ... in a process of its own; it exits with 0 when all are
 * right. */
static pid_t member_start(const member *m, const char *word, const char *prefix, int count) {
    pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int wrong = 0;
    hn_service *service = service_open(m);
    hn_scope *scope = NULL;
    EXPECT_OK(hn_scope_create(service, &scope));
    hn_future *futures[32];
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s%d", prefix, i);
        futures[i] = submit(scope, word, name);
    }
    hn_status status = hn_scope_wait(scope, NULL, NULL);
    if (status) fprintf(stderr, "%s\n", hn_status_message(status));
    wrong += status != NULL;
    hn_status_free(status);
    for (int i = 0; i < count && !wrong; i++) {
        char name[32];
        void *address = NULL;
        hn_artifact *artifact = NULL;
        hn_library *library = NULL;
        snprintf(name, sizeof(name), "%s%d", prefix, i);
        EXPECT_OK(hn_future_wait(futures[i], -1, &artifact));
        EXPECT_OK(hn_artifact_load(artifact, &library));
        EXPECT_OK(hn_library_symbol(library, name, &address));
        wrong += !address || ((int (*)(int))address)(21) != 42;
        hn_library_close(library);
        hn_artifact_release(artifact);
    }
    hn_service_stats stats = stats_of(service);
    wrong += stats.enqueued != stats.dequeued + stats.cancelled;
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    _exit(wrong || hn_test_failures ? 1 : 0);
}

static int member_end(pid_t pid) {
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid);
    return status;
}

/* `count` members at once; every kernel is to be compiled exactly once among them. */
static void check_once(const member *members, int count, const char *word, int kernels) {
    pid_t pids[8];
    for (int i = 0; i < count; i++) pids[i] = member_start(&members[i], word, "k", kernels);
    for (int i = 0; i < count; i++) EXPECT_INT(member_end(pids[i]), 0);
    EXPECT_INT(compiled("k"), kernels);
}

/* ---- one machine: locks on files ---- */

TEST(two_processes_compile_once) {
    root_begin();
    const member members[2] = {{.machine = 0}, {.machine = 0}};
    check_once(members, 2, "SLOW", 1);
    root_end();
}

TEST(eight_processes_share_the_work) {
    root_begin();
    const member members[8] = {{.threads = 2}, {.threads = 1}, {.threads = 2}, {.threads = 1},
                               {.threads = 3}, {.threads = 1}, {.threads = 2}, {.threads = 1}};
    check_once(members, 8, "", 12);
    root_end();
}

/* With one worker each, and each the leader of what the other waits for: both go on. */
TEST(crossed_waits_end) {
    for (int threads = 1; threads <= 2; threads++) {
        root_begin();
        const member members[2] = {{.threads = threads}, {.threads = threads}};
        check_once(members, 2, "SLOW", 6);
        root_end();
    }
}

/* The leader is killed while its compiler runs; the lock ends with it, and a follower compiles. */
static void check_takeover(const member *leader, const member *follower, int64_t limit_ms) {
    pid_t first = member_start(leader, "HANG", "k", 1);
    for (int i = 0; i < 500 && !exists("hung"); i++) pause_ms(10);
    EXPECT(exists("hung"));
    pid_t second = member_start(follower, "HANG", "k", 1);
    pause_ms(200);
    EXPECT_INT(compiled("k"), 1); /* the follower waits */
    int64_t begin_ns = hn_now_ns();
    kill(first, SIGKILL);
    member_end(first);
    EXPECT_INT(member_end(second), 0);
    EXPECT((hn_now_ns() - begin_ns) / 1000000 < limit_ms);
    EXPECT_INT(compiled("k"), 2);
}

TEST(a_killed_leader_is_replaced) {
    for (int threads = 1; threads <= 2; threads++) {
        root_begin();
        const member m = {.threads = threads};
        check_takeover(&m, &m, 2000);
        root_end();
    }
}

/* A leader that lives but does not move, as after SIGSTOP: followers lose patience and compile. */
TEST(a_stopped_leader_is_overtaken) {
    root_begin();
    const member leader = {.threads = 1, .job_timeout_ms = 60000},
                 follower = {.threads = 2, .job_timeout_ms = 1500};
    pid_t first = member_start(&leader, "HANG", "k", 1);
    for (int i = 0; i < 500 && !exists("hung"); i++) pause_ms(10);
    kill(first, SIGSTOP);
    int64_t begin_ns = hn_now_ns();
    EXPECT_INT(member_end(member_start(&follower, "HANG", "k", 1)), 0);
    int64_t spent_ms = (hn_now_ns() - begin_ns) / 1000000;
    EXPECT(spent_ms >= 1400 && spent_ms < 4000);
    kill(first, SIGKILL);
    member_end(first);
    root_end();
}

typedef struct seen {
    uint32_t elsewhere, calls;
} seen;

static bool look(void *context, const hn_scope_progress *progress) {
    seen *s = context;
    s->calls++;
    if (progress->elsewhere > s->elsewhere) s->elsewhere = progress->elsewhere;
    return true;
}

/* The follower tells that it waits, and where its result came from. */
TEST(a_follower_reports_what_it_waits_for) {
    for (int threads = 1; threads <= 2; threads++) {
        root_begin();
        const member m = {.threads = threads};
        pid_t first = member_start(&m, "SLOW", "k", 1);
        for (int i = 0; i < 500 && !compiled("k"); i++) pause_ms(5);
        hn_service *service = service_open(&m);
        hn_scope *scope = NULL;
        seen s = {0};
        EXPECT_OK(hn_scope_create(service, &scope));
        hn_future *future = submit(scope, "SLOW", "k0");
        EXPECT_OK(hn_scope_wait(scope, look, &s));
        EXPECT_INT(s.elsewhere, 1);
        EXPECT_INT(hn_future_hit_level(future), HN_HIT_DISK);
        hn_service_stats stats = stats_of(service);
        EXPECT_INT(stats.waited_elsewhere, 1);
        EXPECT_INT(stats.compiled, 0);
        EXPECT_INT(stats.hits[HN_HIT_NONE], 0);
        EXPECT_INT(stats.hits[HN_HIT_DISK], 1);
        EXPECT_INT(stats.enqueued, 1);
        EXPECT_INT(stats.dequeued, 1);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
        EXPECT_INT(member_end(first), 0);
        EXPECT_INT(compiled("k"), 1);
        root_end();
    }
}

/* A parked job can be cancelled, waited for with a limit, and left behind. */
TEST(a_parked_job_is_like_a_queued_one) {
    for (int threads = 1; threads <= 2; threads++) {
        root_begin();
        const member m = {.threads = threads};
        pid_t first = member_start(&m, "HANG", "k", 1);
        for (int i = 0; i < 500 && !exists("hung"); i++) pause_ms(10);
        hn_service *service = service_open(&m);
        hn_scope *scope = NULL;
        EXPECT_OK(hn_scope_create(service, &scope));
        hn_future *parked = submit(scope, "HANG", "k0"), *other = submit(scope, "", "other");
        EXPECT_ERROR(hn_future_wait(parked, 150, NULL), HN_TIMEOUT, "still being compiled");
        EXPECT(!hn_future_is_done(parked));
        EXPECT_OK(hn_future_wait(other, 5000, NULL)); /* it does not block the worker */
        hn_future_cancel(parked);
        EXPECT_ERROR(hn_future_wait(parked, 1000, NULL), HN_CANCELLED, "cancelled");
        hn_future *again = submit(scope, "HANG", "k0");
        EXPECT_ERROR(hn_future_wait(again, 50, NULL), HN_TIMEOUT, "still being compiled");
        hn_scope_destroy(scope);
        int64_t begin_ns = hn_now_ns();
        hn_service_destroy(service);
        EXPECT(hn_now_ns() - begin_ns < 1000000000);
        kill(first, SIGKILL);
        member_end(first);
        root_end();
    }
}

/* What fails in one process because of the source fails in all of them, with one compilation. */
TEST(a_failure_is_shared) {
    root_begin();
    for (int round = 0; round < 2; round++) {
        const member m = {.threads = 2};
        hn_service *service = service_open(&m);
        hn_scope *scope = NULL;
        hn_future *future = NULL;
        static const char text[] = "int bad(int x) { return missing; } /* COUNT bad0 */\n";
        EXPECT_OK(hn_scope_create(service, &scope));
        EXPECT_OK(hn_compile_submit(
            scope,
            &(hn_source){
                .name = "bad", .language = "c", .text = text, .text_len = sizeof(text) - 1},
            &future));
        EXPECT_ERROR(hn_future_wait(future, -1, NULL), HN_TOOLCHAIN, "missing");
        EXPECT_INT(stats_of(service).failure_hits, (uint64_t)round);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    EXPECT_INT(compiled("bad"), 1);
    root_end();
}

/* ---- several machines: Redis ---- */

static bool begin(void) {
    root_begin();
    server = (redis_server){0};
    bool ok = has_redis && redis_start(&server, NULL);
    EXPECT(ok || !has_redis);
    if (!ok) root_end();
    return ok;
}

static void end(void) {
    redis_end(&server);
    root_end();
}

TEST(machines_compile_once) {
    if (!begin()) return;
    const member members[6] = {{.machine = 0, .threads = 2, .remote = server.url},
                               {.machine = 1, .threads = 1, .remote = server.url},
                               {.machine = 2, .threads = 2, .remote = server.url},
                               {.machine = 0, .threads = 1, .remote = server.url},
                               {.machine = -1, .threads = 2, .remote = server.url},
                               {.machine = -1, .threads = 1, .remote = server.url}};
    check_once(members, 6, "", 8);
    /* A machine that comes later compiles nothing. */
    const member late = {.machine = 3, .remote = server.url};
    EXPECT_INT(member_end(member_start(&late, "", "k", 8)), 0);
    EXPECT_INT(compiled("k"), 8);
    end();
}

TEST(a_killed_leader_on_another_machine_is_replaced) {
    if (!begin()) return;
    char url[PATH_MAX + 128];
    snprintf(url, sizeof(url), "%s?lease_ms=600", server.url);
    const member leader = {.machine = 0, .remote = url}, follower = {.machine = 1, .remote = url};
    check_takeover(&leader, &follower, 4000);
    end();
}

TEST(a_remote_hit_says_so) {
    if (!begin()) return;
    const member first = {.machine = 0, .remote = server.url},
                 second = {.machine = 1, .remote = server.url};
    EXPECT_INT(member_end(member_start(&first, "", "k", 1)), 0);
    for (int round = 0; round < 2; round++) {
        hn_service *service = service_open(&second);
        hn_scope *scope = NULL;
        EXPECT_OK(hn_scope_create(service, &scope));
        hn_future *future = submit(scope, "", "k0");
        EXPECT_OK(hn_future_wait(future, -1, NULL));
        EXPECT_INT(hn_future_hit_level(future), round ? HN_HIT_DISK : HN_HIT_REMOTE);
        hn_service_stats stats = stats_of(service);
        EXPECT_INT(stats.hits[HN_HIT_REMOTE], !round);
        EXPECT_INT(stats.remote.hits, !round);
        EXPECT_INT(stats.remote.is_on, 1);
        EXPECT_INT(stats.pools, 0);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    end();
}

/* The server dies, or stops, while kernels are compiled: same results, within a bounded time. */
TEST(the_loss_of_the_server_costs_time_only) {
    for (int hangs = 0; hangs < 2; hangs++) {
        if (!begin()) return;
        char url[PATH_MAX + 128];
        snprintf(url, sizeof(url), "%s?command_ms=300", server.url);
        hn_log_configure("off");
        const member members[2] = {{.machine = 0, .remote = url}, {.machine = 1, .remote = url}};
        int64_t begin_ns = hn_now_ns();
        pid_t pids[2];
        for (int i = 0; i < 2; i++) pids[i] = member_start(&members[i], "SLOW", "k", 4);
        for (int i = 0; i < 500 && !compiled("k"); i++) pause_ms(5);
        kill(server.pid, hangs ? SIGSTOP : SIGKILL);
        for (int i = 0; i < 2; i++) EXPECT_INT(member_end(pids[i]), 0);
        int64_t spent_ms = (hn_now_ns() - begin_ns) / 1000000;
        EXPECT(spent_ms < 10000);
        EXPECT(compiled("k") >= 4 && compiled("k") <= 8);
        hn_log_configure(NULL);
        end();
    }
}

/* A child of a process with a service has a remote of its own, and what the child inherited does
 * not keep leases alive. */
TEST(a_fork_starts_over) {
#ifdef __SANITIZE_THREAD__
    return; /* it does not support threads in the child of a process with threads */
#endif
    if (!begin()) return;
    const member m = {.machine = 0, .threads = 1, .remote = server.url};
    hn_service *service = service_open(&m);
    hn_scope *scope = NULL;
    EXPECT_OK(hn_scope_create(service, &scope));
    EXPECT_OK(hn_future_wait(submit(scope, "", "k0"), -1, NULL));
    pid_t child = fork();
    if (child == 0) {
        hn_scope *own = NULL;
        EXPECT_OK(hn_scope_create(service, &own));
        EXPECT_OK(hn_future_wait(submit(own, "", "k1"), -1, NULL));
        EXPECT_INT(stats_of(service).remote.puts, 1);
        hn_scope_destroy(own);
        hn_service_destroy(service);
        _exit(hn_test_failures ? 1 : 0);
    }
    EXPECT_INT(member_end(child), 0);
    EXPECT_OK(hn_future_wait(submit(scope, "", "k2"), -1, NULL));
    EXPECT_INT(stats_of(service).remote.puts, 2);
    EXPECT_INT(stats_of(service).remote.failures, 0);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    end();
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    unsetenv("HENRY_REDIS_URL");
    has_redis = redis_exists();
    if (!has_redis)
        fprintf(
            stderr,
            "redis-server is not installed: only a part of the tests runs (tools/setup.sh installs it)\n");
    return hn_test_main(argc, argv);
}
