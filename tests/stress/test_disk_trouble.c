/* test_disk_trouble.c: a disk that is full, read-only, mounted noexec, vanishes, or that others
 * could write to; too few descriptors; no processes to be had. Kernels are compiled, loaded and
 * called all the same: the result is right, at most one warning tells of the disk, and nothing that
 * a shortage broke is remembered.
 *
 * Each condition holds in a child of its own, which leaves the host as it is: mounts are made in
 * its own name space. */
#include "service/worker.h"

#include "cache/store.h"
#include "henry/log.h"
#include "stress/one_kernel.h"
#include "stress/stress.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNELS = 4, MANY_KERNELS = 24, SKIPPED = 77, LIMIT_S = 60 };

static char dir[PATH_MAX - 128]; /* of the condition; the cache is below it */
static char cache[PATH_MAX - 64];

/* ---- compiling ---- */

static hn_service *open_service(int threads) {
    hn_service *service = NULL;
    hn_status status = hn_service_create(&(hn_service_options){.threads = threads,
                                                               .worker_path = "/proc/self/exe",
                                                               .cache_dir = cache,
                                                               .remote_url = "",
                                                               .job_timeout_ms = 20000},
                                         &service);
    hn_status_free(status);
    return service;
}

/* Compiles, loads and calls kernel `number`. Owns: the caller frees the status, which is internal
 * for a wrong result. */
static hn_status compile(hn_service *service, int number) {
    hn_scope *scope;
    bool right;
    hn_status status = hn_scope_create(service, &scope);
    if (status) return status;
    status = one_kernel(scope, "kernel", number, &right);
    if (!status && !right) status = hn_status_make(HN_INTERNAL, __FILE__, __LINE__, "wrong result");
    hn_scope_destroy(scope);
    return status;
}

/* How many of `count` kernels did not come out right. */
static int failures(hn_service *service, int first, int count) {
    int failed = 0;
    for (int i = 0; i < count; i++) {
        hn_status status = compile(service, first + i);
        if (status) printf("# kernel %d: %s\n", first + i, hn_status_message(status));
        failed += status != NULL;
        hn_status_free(status);
    }
    return failed;
}

/* With workers and in this process; a service each, so that nothing is in memory. */
static int all_fail_count(int first) {
    int failed = 0;
    for (int threads = 1; threads <= 2; threads++) {
        hn_service *service = open_service(threads);
        failed += failures(service, first, KERNELS);
        hn_service_destroy(service);
    }
    return failed;
}

static uint64_t hits_of(int first) {
    hn_service *service = open_service(1);
    hn_service_stats stats;
    failures(service, first, KERNELS);
    hn_service_stats_get(service, &stats);
    hn_service_destroy(service);
    return stats.hits[HN_HIT_DISK];
}

/* ---- conditions: 0 is well ---- */

static bool mount_here(const char *options, unsigned long flags) {
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", dir, "tmpfs", flags, options) == 0;
}

static int in_full_disk(void) {
    char filler[PATH_MAX];
    static const char zeros[4096];
    if (!mount_here("size=256k,mode=0700", 0)) return SKIPPED;
    int failed = all_fail_count(0); /* the disk fills while kernels are stored */
    snprintf(filler, sizeof(filler), "%s/filler", dir);
    int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return 1;
    while (write(fd, zeros, sizeof(zeros)) > 0) {
    }
    close(fd);
    failed += all_fail_count(100);
    remove(filler); /* the space comes back */
    failed += all_fail_count(200);
    return failed || hits_of(200) == 0;
}

static int in_small_files(void) {
    const struct rlimit limit = {4096, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return SKIPPED;
    return all_fail_count(0);
}

static int in_noexec_mount(void) {
    if (!mount_here("size=64m,mode=0700", MS_NOEXEC)) return SKIPPED;
    return all_fail_count(0) || hits_of(0) != KERNELS;
}

static int in_read_only_mount(void) {
    if (!mount_here("size=64m,mode=0700", 0)) return SKIPPED;
    int failed = all_fail_count(0);
    if (mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) return SKIPPED;
    return failed || all_fail_count(0) || hits_of(0) != KERNELS || all_fail_count(100) ||
           hits_of(100) != 0;
}

/* As another user than root, whom modes do not stop. */
static int in_read_only_dir(void) {
    if (mkdir(cache, 0500) != 0 ||
        (getuid() == 0 && (chmod(dir, 0755) || chown(dir, 65534, 65534) ||
                           chown(cache, 65534, 65534) || setgid(65534) || setuid(65534))))
        return SKIPPED;
    return all_fail_count(0) || hits_of(0) != 0;
}

static int in_vanishing_dir(void) {
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            hn_status_free(hn_dir_remove(cache));
            stress_sleep_us(1000);
        }
    }
    int failed = 0;
    for (int threads = 1; threads <= 2; threads++) {
        hn_service *service = open_service(threads);
        failed += failures(service, threads * 100, MANY_KERNELS);
        hn_service_destroy(service);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return failed || all_fail_count(0) || hits_of(0) != KERNELS;
}

static int in_foreign_dir(void) {
    if (mkdir(cache, 0700) != 0 || chown(cache, 1, 1) != 0) return SKIPPED;
    return all_fail_count(0) || stress_count_files(cache, ".") != 0;
}

static int in_world_writable_dir(void) {
    if (mkdir(cache, 0700) != 0 || chmod(cache, 0777) != 0) return SKIPPED;
    return all_fail_count(0) || stress_count_files(cache, ".") != 0;
}

static int below_world_writable_dir(void) {
    if (chmod(dir, 0777) != 0) return SKIPPED;
    int failed = all_fail_count(0) || stress_count_files(cache, "kernel") != 0;
    return chmod(dir, 0700) != 0 || failed;
}

/* The link may be the user's own; what counts is where it leads. */
static int in_linked_dir(void) {
    char target[PATH_MAX];
    snprintf(target, sizeof(target), "%s/elsewhere", dir);
    if (mkdir(target, 0700) != 0 || symlink(target, cache) != 0) return SKIPPED;
    int failed = all_fail_count(0) || hits_of(0) != KERNELS;
    return failed || chmod(target, 0777) != 0 || hits_of(0) != 0;
}

/* Every entry is replaced by a link to a copy of it outside. */
static int in_linked_entries(void) {
    char command[3 * PATH_MAX];
    for (int hard = 0; hard < 2; hard++) {
        if (all_fail_count(100 * hard)) return 1;
        snprintf(command, sizeof(command),
                 "cd %s && for f in cache/kernel/*/*; do n=%s/away-%d-$(basename $f); %s; done",
                 dir, dir, hard, hard ? "ln $f $n" : "mv $f $n && ln -s $n $f");
        if (system(command) != 0 || hits_of(100 * hard) != 0 || hits_of(100 * hard) != KERNELS)
            return 1;
    }
    return stress_count_files(cache, "quarantine") != 2 * KERNELS;
}

/* From so few descriptors that nothing works to enough: right, or an error that says so; then right
 * without a limit. */
static int with_few_descriptors(void) {
    int refused = 0;
    for (rlim_t most = 6; most < 40; most += stress.is_quick ? 4 : 1) {
        struct rlimit old, limit;
        for (int threads = 1; threads <= 2; threads++) {
            getrlimit(RLIMIT_NOFILE, &old);
            limit = (struct rlimit){most, old.rlim_max};
            hn_service *service = open_service(threads);
            setrlimit(RLIMIT_NOFILE, &limit);
            hn_status status = compile(service, (int)most * 10 + threads);
            setrlimit(RLIMIT_NOFILE, &old);
            if (hn_status_code(status) == HN_INTERNAL)
                printf("# %d descriptors: %s\n", (int)most, hn_status_message(status));
            if (hn_status_code(status) == HN_INTERNAL) return 1;
            refused += status != NULL;
            hn_status_free(status);
            hn_service_destroy(service);
            service = open_service(threads);
            if (failures(service, (int)most * 10 + threads, 1)) return 1;
            hn_service_destroy(service);
        }
    }
    return refused == 0;
}

/* fork and the like fail with EAGAIN. */
static int without_processes(void) {
    if (getuid() == 0 && (chown(dir, 65534, 65534) || setgid(65534) || setuid(65534)))
        return SKIPPED;
    struct rlimit old;
    getrlimit(RLIMIT_NPROC, &old);
    for (int threads = 1; threads <= 2; threads++) {
        const struct rlimit none = {1, old.rlim_max};
        hn_service *service = open_service(threads);
        setrlimit(RLIMIT_NPROC, &none);
        hn_status status = compile(service, threads);
        setrlimit(RLIMIT_NPROC, &old);
        if (!status || hn_status_code(status) == HN_INTERNAL)
            return printf("# an error was expected: %s\n", hn_status_message(status)) > 0;
        hn_status_free(status);
        hn_service_destroy(service);
        service = open_service(threads);
        if (failures(service, threads, 1)) return 1; /* the failure was not remembered */
        hn_service_destroy(service);
    }
    return 0;
}

typedef struct condition {
    const char *name;
    int (*run)(void);
    int most_warnings; /* one for each service of its own process would be too many: they are once a
                          process */
} condition;

static const condition conditions[] = {
    {"full disk (tmpfs of 256 KB)", in_full_disk, 1},
    {"RLIMIT_FSIZE of 4 KB", in_small_files, 1},
    {"noexec mount", in_noexec_mount, 0},
    {"read-only mount", in_read_only_mount, 0},
    {"read-only directory", in_read_only_dir, 1},
    {"directory that vanishes", in_vanishing_dir, 1},
    {"foreign directory", in_foreign_dir, 1},
    {"world-writable directory", in_world_writable_dir, 1},
    {"below a world-writable directory", below_world_writable_dir, 1},
    {"symbolic link to the directory", in_linked_dir, 1},
    {"links as entries", in_linked_entries, 2 * KERNELS},
    {"6 to 39 descriptors", with_few_descriptors, 200},
    {"EAGAIN on starting processes", without_processes, 200},
};
enum { CONDITIONS = sizeof(conditions) / sizeof(conditions[0]) };

/* ---- running them ---- */

static int count_warnings(int fd, bool show) {
    char bytes[65536];
    int lines = 0;
    ssize_t got = pread(fd, bytes, sizeof(bytes) - 1, 0);
    if (got < 0) return 0;
    bytes[got] = 0;
    for (const char *at = bytes; (at = strchr(at, '\n')); at++) lines++;
    if (show) fputs(bytes, stderr);
    return lines;
}

/* True unless it was skipped. */
static bool run_condition(const condition *c) {
    int how = 0, log = memfd_create("log", MFD_CLOEXEC);
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(log, 2);
        alarm(LIMIT_S);
        hn_status heard = hn_log_sink_set(hn_log_to_stderr, NULL);
        int result = heard ? 1 : c->run();
        fflush(NULL);
        _exit(result);
    }
    waitpid(pid, &how, 0);
    bool skipped = WIFEXITED(how) && WEXITSTATUS(how) == SKIPPED;
    bool failed = !skipped && (!WIFEXITED(how) || WEXITSTATUS(how) != 0);
    int warnings = count_warnings(log, failed);
    if (failed) HN_TEST_FAIL("%s: wait status %#x", c->name, (unsigned)how);
    if (!skipped && warnings > c->most_warnings) {
        count_warnings(log, true);
        HN_TEST_FAIL("%s: %d lines of warnings", c->name, warnings);
    }
    close(log);
    hn_status status = hn_dir_remove(dir);
    hn_status_free(status);
    return !skipped;
}

TEST(a_disk_in_trouble) {
    char text[1024] = "";
    const char *only = getenv("HN_STRESS_SCENE"); /* to look at one */
    int ran = 0;
    stress_begin();
    for (int i = 0; i < CONDITIONS; i++) {
        if (only && strcmp(only, conditions[i].name) != 0) continue;
        bool ok = run_condition(&conditions[i]);
        ran += ok;
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s", i ? ", " : "",
                 conditions[i].name, ok ? "" : " (skipped)");
    }
    stress_row(
        "disk full, noexec, read-only, vanishing, foreign, world-writable, linked; EMFILE; EAGAIN",
        "right results, one warning, nothing wrong remembered", "%d conditions, %d failed: %s", ran,
        hn_test_failures, text);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return stress_main(argc, argv);
}
