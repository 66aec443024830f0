/* log_sink.c: where lines go: the program's callback or standard error.
 *
 * A sink never changes once it is published, and stays linked behind its successor: a thread may
 * have taken it up and not counted itself yet. Sinks are replaced a few times in the life of a
 * process. */
#include "base/log.h"

#include "base/str.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct sink {
    struct sink *previous;
    hn_log_fn callback; /* NULL: none */
    void *context;
    pid_t pid; /* of the process that installed it: `users` counts its threads */
    atomic_int users;
} sink;

static _Atomic(sink *) current;

/* A line that was logged under a lock. */
typedef struct kept_line {
    struct kept_line *next;
    hn_log_line line;
    char text[]; /* of the area, a NUL, of the line */
} kept_line;

static _Thread_local unsigned held_count;
static _Thread_local kept_line *kept_first, *kept_last;
static _Thread_local bool is_in_callback;

static const char *const level_names[HN_LOG_LEVEL_COUNT] = {[HN_LOG_ERROR] = "error",
                                                            [HN_LOG_WARN] = "warning",
                                                            [HN_LOG_INFO] = "info",
                                                            [HN_LOG_DEBUG] = "debug"};

const char *hn_log_level_name(hn_log_level level) {
    return (unsigned)level < HN_LOG_LEVEL_COUNT ? level_names[level] : "unknown";
}

/* One write, so that lines of several threads and processes do not mix. There is nobody to tell
 * when it fails. */
static void write_all(const hn_strbuf *line) {
    size_t done = 0;
    while (done < line->len) {
        ssize_t wrote = write(STDERR_FILENO, line->ptr + done, line->len - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return;
        done += (size_t)wrote;
    }
}

void hn_log_to_stderr(void *context, const hn_log_line *line) {
    hn_strbuf text;
    (void)context;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "henry: %s: %s: %s\n", line->area, hn_log_level_name(line->level),
                     line->text);
    write_all(&text); /* what fitted, when memory ran out */
    hn_strbuf_deinit(&text);
}

/* ---- the callback ---- */

bool hn_log_has_sink(void) {
    const sink *now = atomic_load(&current);
    return now && now->callback;
}

/* The sink, which hn_log_sink_set does not take away meanwhile. */
static sink *sink_take(void) {
    for (;;) {
        sink *now = atomic_load(&current);
        if (!now) return NULL;
        atomic_fetch_add(&now->users, 1);
        if (atomic_load(&current) == now) return now;
        atomic_fetch_sub(&now->users, 1); /* replaced just now */
    }
}

static void hand_over(const hn_log_line *line) {
    sink *now = sink_take();
    is_in_callback = true;
    if (now && now->callback) now->callback(now->context, line);
    else hn_log_to_stderr(NULL, line);
    is_in_callback = false;
    if (now) atomic_fetch_sub(&now->users, 1);
}

/* Threads that were in a callback when the process forked do not exist in the child. */
static void wait_for_users(const sink *old) {
    const struct timespec moment = {.tv_nsec = 100000};
    while (old->pid == getpid() && atomic_load(&old->users)) nanosleep(&moment, NULL);
}

hn_status hn_log_sink_set(hn_log_fn callback, void *context) {
    sink *made = calloc(1, sizeof *made);
    if (!made) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a log callback");
    made->callback = callback;
    made->context = context;
    made->pid = getpid();
    made->previous = atomic_load(&current);
    while (!atomic_compare_exchange_weak(&current, &made->previous, made)) continue;
    for (const sink *old = made->previous; old && !is_in_callback; old = old->previous)
        wait_for_users(old);
    return NULL;
}

/* ---- lines that are logged under a lock ---- */

/* Without memory the line is lost: handing it over now could hang the program. */
static void keep(const hn_log_line *line) {
    size_t area_bytes = strlen(line->area) + 1, text_bytes = strlen(line->text) + 1;
    kept_line *kept = malloc(sizeof *kept + area_bytes + text_bytes);
    if (!kept) return;
    memcpy(kept->text, line->area, area_bytes);
    memcpy(kept->text + area_bytes, line->text, text_bytes);
    kept->line = (hn_log_line){line->level, kept->text, kept->text + area_bytes};
    kept->next = NULL;
    if (kept_last) kept_last->next = kept;
    else kept_first = kept;
    kept_last = kept;
}

void hn_log_deliver(const hn_log_line *line) {
    if (is_in_callback) return;
    if (held_count) keep(line);
    else hand_over(line);
}

void hn_log_hold(void) { held_count++; }

void hn_log_release(void) {
    /* a callback may take locks: the loop below is under way then */
    if (--held_count || !kept_first || is_in_callback) return;
    int saved = errno;
    while (kept_first) {
        kept_line *kept = kept_first;
        kept_first = kept->next;
        if (!kept_first) kept_last = NULL;
        hand_over(&kept->line);
        free(kept);
    }
    errno = saved;
}
