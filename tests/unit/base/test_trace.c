/* test_trace.c: the clock and the file of spans. */
#include "unit/harness.h"

#include "base/file.h"
#include "base/trace.h"

#include <limits.h>
#include <pthread.h>

/* Reads and removes the trace in `dir`. */
static void read_trace(const char *path, hn_strbuf *out) {
    hn_strbuf_init(out);
    EXPECT_OK(hn_file_read(path, out));
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at++) count++;
    return count;
}

static char dir[PATH_MAX], path[PATH_MAX + 16];

static void enter(void) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/trace.json", dir);
}

TEST(the_clock_goes_forward) {
    int64_t last_ns = hn_now_ns();
    EXPECT(last_ns > 0);
    for (int i = 0; i < 1000; i++) {
        int64_t now_ns = hn_now_ns();
        EXPECT(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

TEST(spans_are_written_in_microseconds) {
    enter();
    hn_strbuf text;
    hn_trace_span("pass", "before the start", 1, 2);
    hn_trace_start();
    char name[] = "fold \"x\"";
    hn_trace_span("pass", name, 1234567, 1235600);
    name[0] = 'g'; /* names are copied */
    hn_trace_span("job", "cc", 2000000, 2000000);
    EXPECT_OK(hn_trace_write(path));
    hn_trace_span("pass", "after the end", 1, 2);
    read_trace(path, &text);
    EXPECT(strstr(
        text.ptr,
        "{\"ph\":\"X\",\"cat\":\"pass\",\"name\":\"fold \\\"x\\\"\",\"ts\":1234.567,\"dur\":1.033,\"pid\":"));
    EXPECT(strstr(text.ptr, "\"name\":\"cc\",\"ts\":2000.000,\"dur\":0.000,"));
    EXPECT_INT(count_of(text.ptr, "\"ph\""), 2);
    EXPECT_INT(count_of(text.ptr, "},\n{"), 1);
    hn_strbuf_deinit(&text);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(spans_of_workers_have_lines_and_free_ones_ids) {
    enter();
    hn_strbuf text;
    hn_trace_start();
    hn_trace_span_worker(2, "compile", "a", 1000, 3000);
    hn_trace_span_free(0xab, "queued", "b", 1000, 2000);
    EXPECT_OK(hn_trace_write(path));
    read_trace(path, &text);
    EXPECT(strstr(text.ptr, "\"name\":\"a\",\"ts\":1.000,\"dur\":2.000,\"pid\":"));
    EXPECT_INT(count_of(text.ptr, "\"tid\":4194306"), 2); /* the span, and the name of its line */
    EXPECT(strstr(text.ptr, "\"tid\":4194306,\"args\":{\"name\":\"worker 2\"}}"));
    EXPECT(strstr(
        text.ptr,
        "{\"ph\":\"b\",\"cat\":\"queued\",\"name\":\"b\",\"ts\":1.000,\"id\":\"ab\",\"pid\":"));
    EXPECT(strstr(
        text.ptr,
        "{\"ph\":\"e\",\"cat\":\"queued\",\"name\":\"b\",\"ts\":2.000,\"id\":\"ab\",\"pid\":"));
    EXPECT_INT(count_of(text.ptr, "},\n{"), 4); /* a; b twice; two names of lines */
    hn_strbuf_deinit(&text);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(starting_again_forgets) {
    enter();
    hn_strbuf text;
    hn_trace_start();
    hn_trace_span("a", "old", 1, 2);
    hn_trace_start();
    EXPECT_OK(hn_trace_write(path));
    read_trace(path, &text);
    EXPECT_STR(text.ptr, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n\n]}\n");
    hn_strbuf_deinit(&text);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(writing_without_a_trace_or_a_place_fails) {
    EXPECT_ERROR(hn_trace_write("/tmp/unused.json"), HN_INVALID_ARGUMENT, "no trace was started");
    hn_trace_start();
    hn_trace_span("a", "b", 1, 2);
    EXPECT_ERROR(hn_trace_write("/nowhere/trace.json"), HN_NOT_FOUND, "/nowhere/trace.json");
}

enum { THREADS = 4, SPANS = 500 };

static void *record_spans(void *arg) {
    (void)arg;
    for (int i = 0; i < SPANS; i++) hn_trace_span("t", "work", i, i + 1);
    return NULL;
}

TEST(all_threads_record) {
    enter();
    hn_strbuf text;
    pthread_t threads[THREADS];
    hn_trace_start();
    for (int i = 0; i < THREADS; i++)
        EXPECT_INT(pthread_create(&threads[i], NULL, record_spans, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    EXPECT_OK(hn_trace_write(path));
    read_trace(path, &text);
    EXPECT_INT(count_of(text.ptr, "\"ph\""), THREADS * SPANS);
    hn_strbuf_deinit(&text);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(the_text_can_be_taken) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_ERROR(hn_trace_take(&text), HN_INVALID_ARGUMENT, "no trace was started");
    hn_trace_start();
    hn_trace_span("phase", "import", 1000, 3000);
    EXPECT_OK(hn_trace_take(&text));
    EXPECT(strstr(text.ptr, "\"cat\":\"phase\",\"name\":\"import\",\"ts\":1.000,\"dur\":2.000"));
    hn_strbuf_deinit(&text);
    hn_strbuf_init(&text);
    EXPECT_ERROR(hn_trace_take(&text), HN_INVALID_ARGUMENT,
                 "no trace was started"); /* it has stopped */
    hn_strbuf_deinit(&text);
}

TEST_MAIN
