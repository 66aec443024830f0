/* test_log.c: the setting, the form of lines, once-only warnings, several threads. */
#include "unit/harness.h"

#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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

TEST(warnings_are_the_default) {
    unsetenv("HENRY_LOG");
    hn_log_configure(NULL);
    EXPECT(hn_log_on("cache", HN_LOG_ERROR) && hn_log_on("cache", HN_LOG_WARN));
    EXPECT(!hn_log_on("cache", HN_LOG_INFO) && !hn_log_on("cache", HN_LOG_DEBUG));
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
    EXPECT_STR(text.ptr, "henry: cache: debug: hit 3 of k\nhenry: cache: warning: slow\nhenry: pass: error: bad\n");
    hn_strbuf_deinit(&text);
    hn_log_configure(NULL);
}

TEST(a_bad_setting_is_reported) {
    hn_strbuf text;
    capture_begin();
    hn_log_configure("cache:loud,verbose,:info,,pass:info");
    capture_end(&text);
    EXPECT(strstr(text.ptr, "ignoring 'cache:loud'") && strstr(text.ptr, "ignoring 'verbose'"));
    EXPECT(strstr(text.ptr, "ignoring ':info'") && !strstr(text.ptr, "''"));
    EXPECT(hn_log_on("pass", HN_LOG_INFO));
    EXPECT(!hn_log_on("other", HN_LOG_INFO));
    hn_strbuf_deinit(&text);
    hn_log_configure(NULL);
}

TEST(a_warning_is_given_once_for_each_key) {
    hn_strbuf text;
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
}

enum { THREADS = 4, LINES = 200 };

static void *log_lines(void *arg) {
    (void)arg;
    for (int i = 0; i < LINES; i++) {
        hn_log("t", HN_LOG_WARN, "%0600d", 7); /* longer than small buffers */
        hn_warn_once("t", "threads", "once");
        if (i % 50 == 0) hn_log_configure("t:warn");
    }
    return NULL;
}

TEST(lines_of_threads_do_not_mix) {
    pthread_t threads[THREADS];
    hn_strbuf text;
    capture_begin();
    for (int i = 0; i < THREADS; i++) EXPECT_INT(pthread_create(&threads[i], NULL, log_lines, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    capture_end(&text);
    int lines = 0, once = 0;
    for (char *line = text.ptr, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (strcmp(line, "henry: t: warning: once") == 0)
            once++;
        else if (end - line == 19 + 600 && strncmp(line, "henry: t: warning: 0000", 23) == 0 && end[-1] == '7')
            lines++;
        else
            HN_TEST_FAIL("mixed line: %s", line);
    }
    EXPECT_INT(lines, THREADS * LINES);
    EXPECT_INT(once, 1);
    hn_strbuf_deinit(&text);
    hn_log_configure(NULL);
}

TEST_MAIN
