/* test_oom.c: the Nth allocation fails, for every N: each operation reports it or does without, and
 * nothing is left behind. Sanitizers own malloc, so under them there is nothing to run. */
#include "unit/harness.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define HAS_OWN_MALLOC 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define HAS_OWN_MALLOC 1
#endif

#ifdef HAS_OWN_MALLOC

TEST(skipped) { hn_test_skip("malloc cannot be replaced in this build"); }

#else

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/process.h"
#include "base/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

static long allocs_left = -1; /* until one fails; negative: none fails */
static bool has_failed;

static bool fails_now(void) {
    if (allocs_left < 0 || allocs_left-- > 0) return false;
    has_failed = true;
    allocs_left = -1; /* one failure at a time */
    errno = ENOMEM;
    return true;
}

/* Visible, so that libc's own calls come here too. */
#define VISIBLE __attribute__((visibility("default")))
VISIBLE void *malloc(size_t bytes) { return fails_now() ? NULL : __libc_malloc(bytes); }
VISIBLE void *calloc(size_t count, size_t bytes) {
    return fails_now() ? NULL : __libc_calloc(count, bytes);
}
VISIBLE void *realloc(void *old, size_t bytes) {
    return fails_now() ? NULL : __libc_realloc(old, bytes);
}

/* Calls `run` with the Nth allocation failing, N from 0, until it needs no more than N. It must
 * give out-of-memory, or NULL where it can do without. */
static void fail_each(hn_status (*run)(void)) {
    for (long n = 0; n < 100; n++) {
        allocs_left = n;
        has_failed = false;
        hn_status status = run();
        allocs_left = -1;
        if (!has_failed) {
            EXPECT(n > 0); /* else nothing was tried */
            EXPECT_OK(status);
            return;
        }
        if (status) EXPECT_INT(hn_status_code(status), HN_OUT_OF_MEMORY);
        hn_status_free(status);
    }
    HN_TEST_FAIL("100 allocations are not enough");
}

TEST(an_error_without_memory_is_static) {
    allocs_left = 0;
    hn_status status = HN_ERROR(HN_CORRUPT, "bad crc");
    EXPECT_INT(hn_status_code(status), HN_OUT_OF_MEMORY);
    EXPECT_STR(hn_status_message(status), "out of memory");
    EXPECT(hn_status_where(status, NULL)[0] != '\0');
    hn_status_free(status);
    hn_status_free(status); /* it stays */
    EXPECT_STR(hn_status_message(status), "out of memory");
    status = hn_status_annotate(status, "cannot load '%s'", "m");
    EXPECT_STR(hn_status_message(status), "cannot load 'm': out of memory");
    hn_status_free(status);
}

TEST(an_annotation_without_memory_keeps_the_error) {
    for (long n = 0; n < 2; n++) {
        hn_status status = HN_ERROR(HN_CORRUPT, "bad crc");
        allocs_left = n;
        status = hn_status_annotate(status, "record");
        EXPECT_STR(hn_status_message(status), "bad crc");
        EXPECT_INT(hn_status_code(status), HN_CORRUPT);
        hn_status_free(status);
    }
}

static hn_status use_map(void) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_strmap map;
    hn_strmap_init(&map, &arena);
    static const char keys[1000];
    hn_status status = NULL;
    for (size_t len = 0; len < sizeof(keys) && !status; len++) {
        status = hn_strmap_put(&map, (hn_str){keys, len}, len);
        if (!status && !hn_strmap_get(&map, (hn_str){keys, len}))
            status = HN_ERROR(HN_INTERNAL, "lost a key");
    }
    hn_arena_deinit(&arena);
    return status;
}
TEST(maps) { fail_each(use_map); }

static hn_status use_strbuf(void) {
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    for (int i = 0; i < 200; i++) hn_strbuf_printf(&buf, "%d,", i);
    hn_strbuf_json(&buf, HN_STR("\x01\x02\xff"));
    hn_status status = hn_strbuf_status(&buf);
    if (!status && buf.len != 690 + 20) status = HN_ERROR(HN_INTERNAL, "lost text");
    hn_strbuf_deinit(&buf);
    return status;
}
TEST(text_buffers) { fail_each(use_strbuf); }

static char dir[PATH_MAX], path[PATH_MAX + 16];

static hn_status use_file(void) {
    HN_TRY(hn_file_write_atomic(path, "abc", 3, true));
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    hn_status status = hn_file_read(path, &buf);
    hn_strbuf_deinit(&buf);
    if (!status) status = hn_dir_create(dir);
    if (!status) status = hn_dir_remove(path);
    return status;
}

static hn_status remove_tree(void) {
    char below[PATH_MAX + 32];
    snprintf(below, sizeof(below), "%s/a/b", path);
    HN_TRY(hn_dir_create(below));
    return hn_dir_remove(path);
}

TEST(files_leave_nothing_behind) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/f", dir);
    fail_each(use_file);
    EXPECT_OK(hn_dir_remove(path));
    fail_each(remove_tree);
    EXPECT_OK(hn_dir_remove(path));
    EXPECT_INT(rmdir(dir), 0); /* it is empty */
}

static hn_status use_process(void) {
    static const char *const argv[] = {"/bin/echo", "x", NULL};
    hn_strbuf output;
    hn_strbuf_init(&output);
    int code = -1;
    const hn_spawn spec = {.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
    hn_status status = hn_process_run(&spec, 20000, &output, &code);
    if (!status && (code != 0 || output.len != 2)) status = HN_ERROR(HN_INTERNAL, "lost output");
    hn_strbuf_deinit(&output);
    return status;
}
TEST(processes) { fail_each(use_process); }

static hn_status use_trace(void) {
    hn_trace_start();
    for (int i = 0; i < 100; i++) hn_trace_span("category", "name", i, i + 1);
    return hn_trace_write(path);
}

TEST(traces) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/f", dir);
    hn_log_configure("off"); /* a lost span is a warning, and meant to happen here */
    fail_each(use_trace);
    hn_log_configure(NULL);
    EXPECT_OK(hn_dir_remove(dir));
}

static hn_status use_log(void) {
    hn_log_configure("off,cache:off");
    if (!has_failed && hn_log_on("cache", HN_LOG_ERROR))
        return HN_ERROR(HN_INTERNAL, "the setting is lost");
    return NULL;
}

TEST(log_settings) {
    fail_each(use_log);
    hn_log_configure(NULL);
}

#endif

TEST_MAIN
