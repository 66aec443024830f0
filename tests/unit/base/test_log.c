/* test_log.c: the levels, the form of lines, once-only warnings, callbacks, lines under locks,
 * several threads. */
#include "unit/harness.h"

#include "base/file.h"
#include "base/compiler.h"
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static int saved_stderr;
static char capture_dir[PATH_MAX];

static void capture_begin(void) {
    char path[PATH_MAX + 8];
    EXPECT_OK(hn_dir_temp(capture_dir, sizeof(capture_dir)));
    snprintf(path, sizeof(path), "%s/log", capture_dir);
    fflush(stderr);
    saved_stderr = dup(2);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, 2);
    close(fd);
}

/* What went to stderr since capture_begin. */
static void capture_end(hn_strbuf *out) {
    char path[PATH_MAX + 8];
    dup2(saved_stderr, 2);
    close(saved_stderr);
    snprintf(path, sizeof(path), "%s/log", capture_dir);
    hn_strbuf_init(out);
    EXPECT_OK(hn_file_read(path, out));
    EXPECT_OK(hn_dir_remove(capture_dir));
}

/* ---- a sink for the tests ---- */

typedef struct heard {
    char text[4096];
    size_t len;
    int count;
} heard;

static void hear(void *context, const hn_log_line *line) {
    heard *h = context;
    h->count++;
    h->len += (size_t)snprintf(h->text + h->len, sizeof h->text - h->len, "%s %s %s\n", line->area,
                               hn_log_level_name(line->level), line->text);
}

TEST(silence_is_the_default_of_the_library) {
    hn_strbuf text;
    unsetenv("HENRY_LOG");
    hn_log_configure(NULL);
    EXPECT(!hn_log_on("cache", HN_LOG_ERROR) && !hn_log_on("cache", HN_LOG_WARN));
    capture_begin();
    hn_log("cache", HN_LOG_ERROR, "nobody asked");
    hn_warn_once("cache", "silent", "nobody asked");
    capture_end(&text);
    EXPECT_INT(text.len, 0);
    hn_strbuf_deinit(&text);
}

TEST(a_callback_gets_warnings) {
    heard h = {0};
    hn_strbuf text;
    hn_log_configure(NULL);
    EXPECT_OK(hn_log_sink_set(hear, &h));
    EXPECT(hn_log_on("cache", HN_LOG_ERROR) && hn_log_on("cache", HN_LOG_WARN));
    EXPECT(!hn_log_on("cache", HN_LOG_INFO) && !hn_log_on("cache", HN_LOG_DEBUG));
    capture_begin();
    errno = EIO;
    hn_log("cache", HN_LOG_WARN, "slow %d", 1);
    EXPECT_INT(errno, EIO);
    hn_log("cache", HN_LOG_INFO, "not wanted");
    hn_warn_once("cache", "silent", "a warning that nobody heard before");
    EXPECT_OK(hn_log_levels_set("run:debug"));
    hn_log("run", HN_LOG_DEBUG, "a");
    hn_log("pass", HN_LOG_INFO, "not wanted");
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    hn_log_configure(NULL);
    hn_log("run", HN_LOG_ERROR, "nobody");
    capture_end(&text);
    EXPECT_INT(text.len, 0);
    EXPECT_STR(
        h.text,
        "cache warning slow 1\ncache warning a warning that nobody heard before\nrun debug a\n");
    hn_strbuf_deinit(&text);
}

/* A callback that calls the library, which locks and logs. */
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static void call_back(void *context, const hn_log_line *line) {
    hn_lock(&library_lock);
    hn_log("run", HN_LOG_WARN, "dropped");
    hn_unlock(&library_lock);
    hear(context, line);
}

TEST(no_lock_is_held_while_a_callback_runs) {
    heard h = {0};
    pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
    EXPECT_OK(hn_log_sink_set(call_back, &h));
    hn_lock(&outer);
    hn_lock(&library_lock);
    hn_log("service", HN_LOG_WARN, "first");
    EXPECT_INT(h.count, 0);
    hn_unlock(&library_lock);
    hn_log("service", HN_LOG_WARN, "second");
    EXPECT_INT(h.count, 0);
    hn_unlock(&outer);
    EXPECT_STR(h.text, "service warning first\nservice warning second\n");
    EXPECT(hn_trylock(&library_lock));
    hn_log("service", HN_LOG_WARN, "third");
    EXPECT_INT(h.count, 2);
    hn_unlock(&library_lock);
    EXPECT_INT(h.count, 3);
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
}

/* Whether a thread is in the callback, which takes its time. */
static atomic_bool is_inside, may_go;

static void linger(void *context, const hn_log_line *line) {
    (void)line;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_go)) sched_yield();
    *(int *)context += 1;
}

static void *log_one(void *arg) {
    (void)arg;
    hn_log("run", HN_LOG_WARN, "x");
    return NULL;
}

static void *release_soon(void *arg) {
    (void)arg;
    usleep(20000);
    atomic_store(&may_go, true);
    return NULL;
}

TEST(a_callback_that_was_replaced_is_called_no_more) {
    pthread_t speaker, releaser;
    int *calls = calloc(1, sizeof *calls), seen;
    EXPECT_OK(hn_log_sink_set(linger, calls));
    EXPECT_INT(pthread_create(&speaker, NULL, log_one, NULL), 0);
    while (!atomic_load(&is_inside)) sched_yield();
    EXPECT_INT(pthread_create(&releaser, NULL, release_soon, NULL), 0);
    EXPECT_OK(hn_log_sink_set(NULL, NULL)); /* waits for the speaker */
    seen = *calls;
    free(calls);
    EXPECT_INT(seen, 1);
    pthread_join(speaker, NULL);
    pthread_join(releaser, NULL);
}

static void remove_itself(void *context, const hn_log_line *line) {
    hear(context, line);
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
}

TEST(a_callback_may_remove_itself) {
    heard h = {0};
    EXPECT_OK(hn_log_sink_set(remove_itself, &h));
    hn_log("run", HN_LOG_WARN, "x");
    hn_log("run", HN_LOG_WARN, "x");
    EXPECT_INT(h.count, 1);
}

TEST(areas_have_levels) {
    hn_log_configure("cache:debug, pass:info");
    EXPECT(hn_log_on("cache", HN_LOG_DEBUG));
    EXPECT(hn_log_on("pass", HN_LOG_INFO) && !hn_log_on("pass", HN_LOG_DEBUG));
    EXPECT(hn_log_on("other", HN_LOG_WARN) && !hn_log_on("other", HN_LOG_INFO));
    EXPECT(!hn_log_on("cach", HN_LOG_INFO) && !hn_log_on("caches", HN_LOG_INFO));
    hn_log_configure("info,cache:error,cache:debug,pass:off");
    EXPECT(hn_log_on("other", HN_LOG_INFO) && !hn_log_on("other", HN_LOG_DEBUG));
    EXPECT(hn_log_on("cache", HN_LOG_DEBUG)); /* the last mention counts */
    EXPECT(!hn_log_on("pass", HN_LOG_ERROR));
    hn_log_configure("off");
    EXPECT(!hn_log_on("cache", HN_LOG_ERROR));
    hn_log_configure(NULL);
}

TEST(the_environment_is_the_fallback) {
    setenv("HENRY_LOG", "debug", 1);
    hn_log_configure("error");
    EXPECT(!hn_log_on("x", HN_LOG_WARN));
    hn_log_configure(NULL);
    EXPECT(hn_log_on("x", HN_LOG_DEBUG));
    unsetenv("HENRY_LOG");
    hn_log_configure(NULL);
    EXPECT(!hn_log_on("x", HN_LOG_INFO));
}

TEST(lines_have_area_and_level) {
    hn_strbuf text;
    hn_log_configure("cache:debug");
    capture_begin();
    errno = EIO;
    hn_log("cache", HN_LOG_DEBUG, "hit %d of %s", 3, "k");
    EXPECT_INT(errno, EIO);
    hn_log("cache", HN_LOG_WARN, "slow");
    hn_log("pass", HN_LOG_INFO, "not wanted");
    hn_log("pass", HN_LOG_ERROR, "bad");
    capture_end(&text);
    EXPECT_STR(
        text.ptr,
        "henry: cache: debug: hit 3 of k\nhenry: cache: warning: slow\nhenry: pass: error: bad\n");
    hn_strbuf_deinit(&text);
    hn_log_configure(NULL);
}

TEST(unknown_names_are_refused) {
    static const char *const wrong[][2] = {
        {"cache:loud",
         "unknown log level 'loud'; write a level or area:level; levels are off, error, warn, info, debug"},
        {"pass:info,verbose", "unknown log level 'verbose'"},
        {"cahce:debug", "unknown log area 'cahce'; areas are cache, "},
        {":info", "unknown log area ''"},
    };
    hn_log_configure("pass:info");
    for (size_t k = 0; k < HN_COUNT_OF(wrong); k++) {
        hn_status status = hn_log_levels_set(wrong[k][0]);
        EXPECT_INT(hn_status_code(status), HN_INVALID_ARGUMENT);
        EXPECT(strstr(hn_status_message(status), wrong[k][1]));
        hn_status_free(status);
    }
    EXPECT(hn_log_on("pass", HN_LOG_INFO)); /* as it was */
    EXPECT_OK(hn_log_levels_set(" cache : debug ,, run:off"));
    EXPECT(hn_log_on("cache", HN_LOG_DEBUG) && !hn_log_on("run", HN_LOG_ERROR));
    setenv("HENRY_LOG", "lots", 1);
    hn_status status = hn_log_levels_set(NULL);
    EXPECT(strstr(hn_status_message(status), "HENRY_LOG is 'lots': unknown log level 'lots'"));
    hn_status_free(status);
    unsetenv("HENRY_LOG");
    hn_log_configure(NULL);
}

TEST(areas_are_listed) {
    uint32_t count = 0;
    while (hn_log_area_name(count)) count++;
    EXPECT(count > 5);
    EXPECT_STR(hn_log_level_name(HN_LOG_WARN), "warning");
    EXPECT_STR(hn_log_level_name((hn_log_level)77), "unknown");
}

TEST(a_warning_is_given_once_for_each_key) {
    hn_strbuf text;
    hn_log_configure("warn");
    capture_begin();
    for (int i = 0; i < 3; i++) {
        hn_warn_once("gemm", "fallback", "warning %d", i);
        hn_warn_once("gemm", "other", "other %d", i);
        hn_warn_once("conv", "fallback", "conv %d", i);
    }
    capture_end(&text);
    EXPECT_STR(text.ptr, "henry: gemm: warning: warning 0\nhenry: gemm: warning: other 0\n"
                         "henry: conv: warning: conv 0\n");
    hn_strbuf_deinit(&text);
    hn_log_configure(NULL);
}

enum { THREADS = 4, LINES = 200 };

static void *log_lines(void *arg) {
    (void)arg;
    for (int i = 0; i < LINES; i++) {
        hn_log("t", HN_LOG_WARN, "%0600d", 7); /* longer than small buffers */
        hn_warn_once("t", "threads", "once");
        if (i % 50 == 0) hn_log_configure("run:warn");
    }
    return NULL;
}

TEST(lines_of_threads_do_not_mix) {
    pthread_t threads[THREADS];
    hn_strbuf text;
    hn_log_configure("run:warn");
    capture_begin();
    for (int i = 0; i < THREADS; i++)
        EXPECT_INT(pthread_create(&threads[i], NULL, log_lines, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    capture_end(&text);
    int lines = 0, once = 0;
    for (char *line = text.ptr, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (strcmp(line, "henry: t: warning: once") == 0) once++;
        else if (end - line == 19 + 600 && strncmp(line, "henry: t: warning: 0000", 23) == 0 &&
                 end[-1] == '7')
            lines++;
        else HN_TEST_FAIL("mixed line: %s", line);
    }
    EXPECT_INT(lines, THREADS * LINES);
    EXPECT_INT(once, 1);
    hn_strbuf_deinit(&text);
    hn_log_configure(NULL);
}

TEST_MAIN
