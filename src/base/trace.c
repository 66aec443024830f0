/* trace.c: the clock, and spans gathered in memory until they are written as one file. */
#include "base/trace.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* Lines of workers are numbered above all threads: the kernel gives no number beyond 2^22. */
enum { WORKER_LINES = 1 << 22 };

typedef struct span {
    const char *category, *name;
    int64_t begin_ns, end_ns;
    int64_t line; /* a thread, or WORKER_LINES and the number of a worker */
    uint64_t id;  /* of one that may overlap others; 0: none */
} span;

/* The recording, guarded by `lock`; `is_on` alone is read without it. Process-wide by nature: a
 * trace shows all threads and compilations on one time line. */
static struct {
    pthread_mutex_t lock;
    atomic_bool is_on;
    hn_arena arena; /* names and spans */
    struct {
        span *items;
        uint32_t count, cap;
    } spans;
    uint64_t lost_count; /* spans dropped for lack of memory */
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t hn_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Forgets the recording. Call with the lock held. */
static void clear(void) {
    hn_arena_deinit(&trace.arena);
    trace.spans.items = NULL;
    trace.spans.count = trace.spans.cap = 0;
    trace.lost_count = 0;
}

void hn_trace_start(void) {
    pthread_mutex_lock(&trace.lock);
    clear();
    atomic_store(&trace.is_on, true);
    pthread_mutex_unlock(&trace.lock);
}

/* The names are the caller's. */
static hn_status record(const span *given) {
    span made = *given;
    made.category = hn_arena_strndup(&trace.arena, given->category, strlen(given->category));
    made.name = hn_arena_strndup(&trace.arena, given->name, strlen(given->name));
    if (!made.category || !made.name) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot record a span");
    HN_PUSH(&trace.arena, &trace.spans, made);
    return NULL;
}

static bool is_on(void) { return atomic_load_explicit(&trace.is_on, memory_order_relaxed); }

static void add(span given) {
    pthread_mutex_lock(&trace.lock);
    if (atomic_load(&trace.is_on)) {
        hn_status status = record(&given);
        if (status) trace.lost_count++;
        hn_status_free(status);
    }
    pthread_mutex_unlock(&trace.lock);
}

void hn_trace_span(const char *category, const char *name, int64_t begin_ns, int64_t end_ns) {
    if (is_on()) add((span){category, name, begin_ns, end_ns, .line = gettid()});
}

void hn_trace_span_worker(uint32_t worker, const char *category, const char *name, int64_t begin_ns,
                          int64_t end_ns) {
    if (is_on())
        add((span){category, name, begin_ns, end_ns, .line = WORKER_LINES + (int64_t)worker});
}

void hn_trace_span_free(uint64_t id, const char *category, const char *name, int64_t begin_ns,
                        int64_t end_ns) {
    if (is_on()) add((span){category, name, begin_ns, end_ns, .line = gettid(), .id = id});
}

/* Microseconds, the unit of the format, with the nanoseconds kept. */
static void put_us(hn_strbuf *json, const char *key, int64_t ns) {
    int64_t us = ns / 1000, rest = ns % 1000;
    const char *sign = ns < 0 ? "-" : "";
    hn_strbuf_printf(json, ",\"%s\":%s%lld.%03d", key, sign, (long long)(us < 0 ? -us : us),
                     (int)(rest < 0 ? -rest : rest));
}

/* `phase`: X, a whole span on its line; b and e, the two ends of one that viewers give a line of
 * its own. */
static void put_event(hn_strbuf *json, const span *s, int pid, char phase, int64_t at_ns) {
    hn_strbuf_printf(json, "{\"ph\":\"%c\",\"cat\":", phase);
    hn_strbuf_json(json, hn_str_of(s->category));
    hn_strbuf_puts(json, ",\"name\":");
    hn_strbuf_json(json, hn_str_of(s->name));
    put_us(json, "ts", at_ns);
    if (phase == 'X') put_us(json, "dur", s->end_ns - s->begin_ns);
    if (s->id) hn_strbuf_printf(json, ",\"id\":\"%llx\"", (unsigned long long)s->id);
    hn_strbuf_printf(json, ",\"pid\":%d,\"tid\":%lld}", pid, (long long)s->line);
}

static void put_span(hn_strbuf *json, const span *s, int pid) {
    put_event(json, s, pid, s->id ? 'b' : 'X', s->begin_ns);
    if (!s->id) return;
    hn_strbuf_puts(json, ",\n");
    put_event(json, s, pid, 'e', s->end_ns);
}

/* What viewers write beside the lines of workers. */
static void put_worker_names(hn_strbuf *json, int pid) {
    int64_t last = 0;
    for (uint32_t i = 0; i < trace.spans.count; i++) {
        int64_t worker = trace.spans.items[i].line - WORKER_LINES;
        if (worker > last) last = worker;
    }
    for (int64_t worker = 1; worker <= last; worker++)
        hn_strbuf_printf(json,
                         ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%lld,"
                         "\"args\":{\"name\":\"worker %lld\"}}",
                         pid, (long long)(WORKER_LINES + worker), (long long)worker);
}

/* The file's text. Call with the lock held. */
static void put_trace(hn_strbuf *json) {
    int pid = getpid();
    hn_strbuf_puts(json, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (uint32_t i = 0; i < trace.spans.count; i++) {
        if (i) hn_strbuf_puts(json, ",\n");
        put_span(json, &trace.spans.items[i], pid);
    }
    put_worker_names(json, pid); /* there are some only after spans */
    hn_strbuf_puts(json, "\n]}\n");
}

hn_status hn_trace_take(hn_strbuf *out) {
    pthread_mutex_lock(&trace.lock);
    bool was_on = atomic_exchange(&trace.is_on, false);
    uint64_t lost_count = trace.lost_count;
    if (was_on) put_trace(out);
    clear();
    pthread_mutex_unlock(&trace.lock);
    if (lost_count)
        hn_log("trace", HN_LOG_WARN, "%llu spans were lost for lack of memory",
               (unsigned long long)lost_count);
    return was_on ? hn_strbuf_status(out) : HN_ERROR(HN_INVALID_ARGUMENT, "no trace was started");
}

hn_status hn_trace_write(const char *path) {
    hn_strbuf json;
    hn_strbuf_init(&json);
    hn_status status = hn_trace_take(&json);
    if (!status) status = hn_file_write_atomic(path, json.ptr, json.len, false);
    else status = hn_status_annotate(status, "cannot write trace '%s'", path);
    hn_strbuf_deinit(&json);
    return status;
}
