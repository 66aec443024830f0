/* test_scratch.c: directories of workers: what goes away, and what is not to be touched; and the
 * spans of jobs. */
#include "service/scratch.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/trace.h"
#include "service_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[PATH_MAX - 256]; /* of the running test */

static void begin(void) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    setenv("TMPDIR", dir, 1);
}

static void end(void) {
    unsetenv("TMPDIR");
    EXPECT_OK(hn_dir_remove(dir));
}

static const char *in_dir(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%.200s", dir, name);
    return path;
}

static void set_age(const char *name, int64_t age_s) {
    const struct timespec times[2] = {{.tv_sec = time(NULL) - age_s},
                                      {.tv_sec = time(NULL) - age_s}};
    EXPECT(utimensat(AT_FDCWD, in_dir(name), times, AT_SYMLINK_NOFOLLOW) == 0);
}

static void make(const char *name, mode_t mode, int64_t age_s) {
    char inner[300];
    EXPECT(mkdir(in_dir(name), 0700) == 0);
    snprintf(inner, sizeof(inner), "%s/kernel.c", name);
    EXPECT_OK(hn_file_write_atomic(in_dir(inner), "x", 1, false));
    EXPECT(chmod(in_dir(name), mode) == 0);
    set_age(name, age_s);
}

static bool exists(const char *name) {
    struct stat info;
    return lstat(in_dir(name), &info) == 0;
}

TEST(names_are_new_each_time) {
    char a[PATH_MAX], b[PATH_MAX];
    begin();
    hn_scratch_name(a), hn_scratch_name(b);
    EXPECT(strncmp(a, in_dir("henry-worker-"), strlen(in_dir("henry-worker-"))) == 0 &&
           strcmp(a, b) != 0);
    end();
}

TEST(a_tree_is_removed_and_links_are_not_followed) {
    begin();
    make("kept", 0700, 0);
    make("henry-worker-a", 0700, 0);
    EXPECT(mkdir(in_dir("henry-worker-a/b"), 0700) == 0 &&
           mkdir(in_dir("henry-worker-a/b/c"), 0700) == 0);
    EXPECT_OK(hn_file_write_atomic(in_dir("henry-worker-a/b/c/d"), "x", 1, false));
    char target[PATH_MAX];
    snprintf(target, sizeof(target), "%s", in_dir("kept"));
    EXPECT(symlink(target, in_dir("henry-worker-a/b/link")) == 0);
    hn_scratch_remove(in_dir("henry-worker-a"), 100);
    EXPECT(!exists("henry-worker-a") && exists("kept/kernel.c"));
    hn_scratch_remove(in_dir("henry-worker-a"), 100); /* is gone */
    EXPECT(symlink(target, in_dir("link")) == 0);
    hn_scratch_remove(in_dir("link"), 0);
    EXPECT(exists("kept/kernel.c"));
    end();
}

static void make_candidates(void) {
    char target[PATH_MAX];
    make("henry-worker-0123456789abcdef", 0700, 7200);
    make("henry-worker-1123456789abcdef", 0700, 60);   /* in use, perhaps */
    make("henry-worker-2123456789abcdef", 0755, 7200); /* not made by a worker */
    make("henry-worker-mine", 0700, 7200);
    make("henry-worker-0123456789abcdefg", 0700, 7200);
    make("kept", 0700, 7200);
    snprintf(target, sizeof(target), "%s", in_dir("kept"));
    EXPECT(symlink(target, in_dir("henry-worker-3123456789abcdef")) == 0);
    set_age("henry-worker-3123456789abcdef", 7200);
}

static void expect_swept(void) {
    EXPECT(!exists("henry-worker-0123456789abcdef"));
    EXPECT(exists("henry-worker-1123456789abcdef") && exists("henry-worker-2123456789abcdef"));
    EXPECT(exists("henry-worker-mine/kernel.c") &&
           exists("henry-worker-0123456789abcdefg/kernel.c"));
    EXPECT(exists("kept/kernel.c") && exists("henry-worker-3123456789abcdef"));
}

TEST(a_sweep_takes_what_is_old_and_ours) {
    begin();
    make_candidates();
    hn_scratch_sweep(3600);
    expect_swept();
    hn_scratch_sweep(30);
    EXPECT(!exists("henry-worker-1123456789abcdef"));
    end();
}

static hn_future *submit(hn_scope *scope, const char *name, const char *text) {
    hn_future *future = NULL;
    const hn_source source = {
        .name = name, .language = "c", .text = text, .text_len = strlen(text)};
    EXPECT_OK(hn_compile_submit(scope, &source, &future));
    return future;
}

static hn_service *service_ready(void) {
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_service_stats stats = {0};
    EXPECT_OK(hn_service_warm(service));
    for (int i = 0; i < 2000 && stats.workers_ready < 2; i++) {
        usleep(5000);
        hn_service_stats_get(service, &stats);
    }
    return service;
}

TEST(the_first_worker_of_a_service_sweeps) {
    begin();
    make_candidates();
    hn_service *service = service_ready();
    hn_service_destroy(service);
    expect_swept();
    end();
}

/* Two jobs at once are on two lines, so that no viewer nests one in the other. */
TEST(jobs_of_two_workers_have_two_lines) {
    hn_strbuf text;
    begin();
    hn_service *service = service_ready();
    hn_scope *scope = NULL;
    hn_trace_start();
    EXPECT_OK(hn_scope_create(service, &scope));
    hn_future *futures[8];
    for (int i = 0; i < 8; i++) {
        char body[64];
        snprintf(body, sizeof(body), "int f(int x) { return x + %d; }\n", i);
        futures[i] = submit(scope, "traced", body);
    }
    for (int i = 0; i < 8; i++) EXPECT_OK(hn_future_wait(futures[i], 30000, NULL));
    EXPECT_OK(hn_trace_write(in_dir("trace.json")));
    hn_strbuf_init(&text);
    EXPECT_OK(hn_file_read(in_dir("trace.json"), &text));
    int64_t last_us[2] = {0, 0};
    int count = 0;
    for (const char *at = text.ptr; at && (at = strstr(at, "\"cat\":\"compile\"")); at++, count++) {
        double ts = -1, dur = -1;
        const char *tid = strstr(at, "\"tid\":"), *ts_at = strstr(at, "\"ts\":");
        if (!tid || !ts_at || sscanf(ts_at, "\"ts\":%lf,\"dur\":%lf", &ts, &dur) != 2) break;
        long line = strtol(tid + 6, NULL, 10) - 4194305;
        EXPECT(line == 0 || line == 1);
        if (line < 0 || line > 1) break;
        EXPECT((int64_t)(ts * 1000) >= last_us[line]);
        last_us[line] = (int64_t)((ts + dur) * 1000) - 2; /* of the fractions */
    }
    EXPECT_INT(count, 8);
    EXPECT(strstr(text.ptr, "\"ph\":\"b\",\"cat\":\"queued\",\"name\":\"traced\""));
    hn_strbuf_deinit(&text);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    end();
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
