/* test_metrics_jobs.c: the counters of compilations that fail, of the compile service and of
 * caches; and that no counter is without a test. */
#include "driver/driver.h"
#include "unit/harness.h"

#include "base/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static char dir[PATH_MAX - 64];

static void make_script(const char *name, const char *text, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
    EXPECT(chmod(path, 0700) == 0);
}

/* A compiler that a word in the text lets hang, or kill its worker. */
static void begin(void) {
    char path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    make_script("cc",
                "#!/bin/sh\ncase $1 in --version) exec gcc --version;; esac\n"
                "has() { grep -q $1 kernel.c 2>/dev/null; }\nif has HANG; then sleep 30; fi\n"
                "if has KILL; then kill -9 $PPID; sleep 30; fi\nexec gcc \"$@\"\n",
                path);
    setenv("HENRY_NAMESPACES", "off", 1);
    setenv("HENRY_CC", path, 1);
}

static void end(void) {
    unsetenv("HENRY_CC");
    unsetenv("HENRY_NAMESPACES");
    EXPECT_OK(hn_dir_remove(dir));
}

static void wait_for_workers(hn_service *service) {
    hn_service_stats stats = {0};
    EXPECT_OK(hn_service_warm(service));
    for (int k = 0; k < 2000 && stats.workers_ready < 2; k++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        hn_service_stats_get(service, &stats);
    }
    EXPECT_INT(stats.workers_ready, 2);
}

/* What a service counts that compiles one text. */
static void count_job(const char *text, hn_service_options options, hn_metrics *out) {
    const hn_source source = {.name = "k", .language = "c", .text = text, .text_len = strlen(text)};
    hn_service *service;
    hn_scope *scope;
    hn_future *future;
    options.cache_dir = options.remote_url = "";
    options.threads = 2;
    *out = (hn_metrics){.values = {0}};
    EXPECT_OK(hn_service_create(&options, &service));
    EXPECT_OK(hn_scope_create(service, &scope));
    wait_for_workers(service); /* without one the job would run in this process */
    EXPECT_OK(hn_compile_submit(scope, &source, &future));
    hn_status_free(hn_future_wait(future, 60000, NULL));
    hn_service_count(service, out);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

static void expect_jobs(const hn_metrics *m, int64_t failed, int64_t crashed, int64_t timed_out) {
    EXPECT_INT(hn_metrics_value(m, "jobs"), 1);
    EXPECT_INT(hn_metrics_value(m, "jobs_failed"), failed);
    EXPECT_INT(hn_metrics_value(m, "jobs_crashed"), crashed);
    EXPECT_INT(hn_metrics_value(m, "jobs_timed_out"), timed_out);
}

TEST(jobs_are_counted_by_how_they_end) {
    static const char good[] = "int f(int x) { return x; }\n";
    hn_metrics m;
    begin();
    count_job(good, (hn_service_options){0}, &m);
    expect_jobs(&m, 0, 0, 0);
    count_job("this is no C\n", (hn_service_options){0}, &m);
    expect_jobs(&m, 1, 0, 0);
    count_job("/* KILL */\n", (hn_service_options){0}, &m);
    expect_jobs(&m, 1, 1, 0);
    count_job("/* HANG */\n", (hn_service_options){.job_timeout_ms = 1000}, &m);
    expect_jobs(&m, 1, 0, 1);
    end();
}

/* A compilation has no counters of its own when it fails: the sums of the process have them. */
TEST(a_compilation_that_fails_is_in_the_sums) {
    static const char model[] = "examples/data/digits/model.pt2";
    char path[PATH_MAX];
    for (int fails = 0; fails < 2; fails++) {
        hn_compiled *c = NULL;
        hn_metrics before, after;
        begin();
        make_script("cc", "#!/bin/sh\ncase $1 in --version) exec gcc --version;; esac\nexit 1\n",
                    path);
        if (!fails) unsetenv("HENRY_CC");
        hn_metrics_snapshot(&before);
        hn_status status = hn_compile_file(model, &(hn_compile_options){.cache_dir = dir}, &c);
        EXPECT((status != NULL) == fails);
        hn_status_free(status);
        hn_metrics_snapshot(&after);
        hn_metrics_difference(&after, &before, &after);
        EXPECT_INT(hn_metrics_value(&after, "compilations_failed"), fails);
        EXPECT_INT(hn_metrics_value(&after, "compilations"), !fails);
        EXPECT((hn_metrics_value(&after, "jobs_failed") > 0) == fails);
        hn_compiled_release(c);
        end();
    }
}

/* tests/cli/cache_remote.sh has the same with a server. */
TEST(counters_of_caches_are_those_of_the_statistics) {
    hn_compiled none = {.stats = {.graph_cache = HN_CACHE_MISS}},
                some = {.stats = {.graph_cache = HN_CACHE_HIT,
                                  .graph_remote = true,
                                  .kernels_remote = 3,
                                  .time_saved_ns = 11,
                                  .total_ns = 12,
                                  .bypasses = {[HN_BYPASS_OFF] = 2, [HN_BYPASS_DISK_FULL] = 3}}};
    static const struct {
        const char *name;
        int64_t none, some;
    } rows[] = {
        {"compilations", 1, 1},       {"graph_cache_hits", 0, 1},
        {"graph_cache_misses", 1, 0}, {"graph_cache_remote_hits", 0, 1},
        {"kernels_remote", 0, 3},     {"cache_bypasses", 0, 5},
        {"time_saved_ns", 0, 11},     {"compile_ns", 0, 12},
    };
    hn_compiled_count(&none);
    hn_compiled_count(&some);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (hn_metrics_value(&none.metrics, rows[k].name) != rows[k].none ||
            hn_metrics_value(&some.metrics, rows[k].name) != rows[k].some)
            HN_TEST_FAIL("%s is %lld and %lld", rows[k].name,
                         (long long)hn_metrics_value(&none.metrics, rows[k].name),
                         (long long)hn_metrics_value(&some.metrics, rows[k].name));
    }
}

/* ---- no counter without a test ---- */

/* The files whose tests compare counters with numbers. */
static const char *const files[] = {"tests/unit/driver/test_metrics.c",
                                    "tests/unit/driver/test_metrics_jobs.c",
                                    "tests/unit/driver/test_tuning.c", "tests/cli/metrics.sh"};

/* As a word of its own: `nodes` is not in `nodes_imported`. */
static bool has_word(const char *text, const char *word) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const size_t len = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += len)
        if ((at == text || !strchr(letters, at[-1])) && (!at[len] || !strchr(letters, at[len])))
            return true;
    return false;
}

TEST(each_counter_has_a_test) {
    hn_strbuf all;
    hn_strbuf_init(&all);
    for (size_t k = 0; k < sizeof files / sizeof *files; k++)
        EXPECT_OK(hn_file_read(files[k], &all));
    for (uint32_t k = 0; k < hn_metric_count() && all.ptr; k++)
        if (!has_word(all.ptr, hn_metric_get(k)->name))
            HN_TEST_FAIL("no test names the counter '%s': give it a graph where it is 0 and one "
                         "where it is not",
                         hn_metric_get(k)->name);
    EXPECT(!has_word(all.ptr, "counters"
                              "_that_are_none"));
    hn_strbuf_deinit(&all);
}

TEST_MAIN
