/* log.c: the HENRY_LOG setting and the writing of lines.
 *
 * A setting never changes once it is published, so hn_log_on is one atomic load and a short walk. A
 * replaced setting stays linked behind its successor: a reader may still be walking it, and settings
 * are replaced a few times in the life of a process. */
#include "base/log.h"

#include "base/arena.h"
#include "base/compiler.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEVEL_OFF = -1, LEVEL_BAD = -2, LEVEL_DEFAULT = HN_LOG_WARN };

typedef struct area_level {
    hn_str area; /* in the setting's `spec` */
    int level;
} area_level;

typedef struct setting {
    struct setting *previous;
    int level; /* of areas that are not listed */
    uint32_t area_count;
    area_level *areas;
    char spec[];
} setting;

static _Atomic(setting *) current;

static const char *const level_names[] = {
    [HN_LOG_ERROR] = "error", [HN_LOG_WARN] = "warning", [HN_LOG_INFO] = "info", [HN_LOG_DEBUG] = "debug"};

/* One write, so that lines of several threads and processes do not mix. There is nobody to tell when
 * it fails. */
static void emit(const hn_strbuf *line) {
    size_t done = 0;
    while (done < line->len) {
        ssize_t wrote = write(STDERR_FILENO, line->ptr + done, line->len - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return;
        done += (size_t)wrote;
    }
}

static void vlog(const char *area, hn_log_level level, const char *fmt, va_list args) HN_PRINTF(3, 0);
static void vlog(const char *area, hn_log_level level, const char *fmt, va_list args) {
    int saved = errno; /* logging between a failure and its report must not change the report */
    hn_strbuf line;
    hn_strbuf_init(&line);
    hn_strbuf_printf(&line, "henry: %s: %s: ", area, level_names[level]);
    hn_strbuf_vprintf(&line, fmt, args);
    hn_strbuf_putc(&line, '\n');
    emit(&line); /* what fitted, when memory ran out */
    hn_strbuf_deinit(&line);
    errno = saved;
}

static void log_always(const char *area, hn_log_level level, const char *fmt, ...) HN_PRINTF(3, 4);
static void log_always(const char *area, hn_log_level level, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vlog(area, level, fmt, args);
    va_end(args);
}

static int level_of(hn_str text) {
    static const struct {
        hn_str name;
        int level;
    } known[] = {
        {{"off", 3}, LEVEL_OFF},         {{"error", 5}, HN_LOG_ERROR}, {{"warn", 4}, HN_LOG_WARN},
        {{"warning", 7}, HN_LOG_WARN},   {{"info", 4}, HN_LOG_INFO},   {{"debug", 5}, HN_LOG_DEBUG},
    };
    for (size_t i = 0; i < HN_COUNT_OF(known); i++)
        if (hn_str_eq(text, known[i].name)) return known[i].level;
    return LEVEL_BAD;
}

static hn_str trim(hn_str text) {
    while (text.len && text.ptr[0] == ' ') text.ptr++, text.len--;
    while (text.len && text.ptr[text.len - 1] == ' ') text.len--;
    return text;
}

/* Takes the text before the next `sep` off the front of `rest`. */
static hn_str split(hn_str *rest, char sep) {
    const char *end = rest->len ? memchr(rest->ptr, sep, rest->len) : NULL;
    size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
    hn_str part = {rest->ptr, len};
    rest->ptr += len + (end != NULL);
    rest->len -= len + (end != NULL);
    return part;
}

/* One item: "level" or "area:level". */
static void parse_item(setting *made, hn_str item) {
    if (!item.len) return;
    bool has_area = memchr(item.ptr, ':', item.len) != NULL;
    hn_str rest = item, area = has_area ? trim(split(&rest, ':')) : HN_STR("");
    int level = level_of(trim(rest));
    if (level == LEVEL_BAD || (has_area && !area.len)) {
        log_always("log", HN_LOG_WARN,
                   "ignoring '" HN_STR_FMT "': write a level or area:level; levels are off, error, warn, info, debug",
                   HN_STR_ARG(item));
    } else if (has_area) {
        made->areas[made->area_count++] = (area_level){area, level};
    } else {
        made->level = level;
    }
}

/* NULL without memory. */
static setting *parse(const char *spec) {
    size_t len = strlen(spec), item_count = 1;
    for (size_t i = 0; i < len; i++) item_count += spec[i] == ',';
    setting *made = calloc(1, sizeof(*made) + len + 1);
    area_level *areas = calloc(item_count, sizeof(*areas));
    if (!made || !areas) {
        free(made);
        free(areas);
        return NULL;
    }
    memcpy(made->spec, spec, len);
    made->level = LEVEL_DEFAULT;
    made->areas = areas;
    hn_str rest = {made->spec, len};
    while (rest.len) parse_item(made, trim(split(&rest, ',')));
    return made;
}

static void publish(setting *made) {
    made->previous = atomic_load(&current);
    while (!atomic_compare_exchange_weak(&current, &made->previous, made)) continue;
}

void hn_log_configure(const char *spec) {
    if (!spec) spec = getenv("HENRY_LOG");
    setting *made = parse(spec ? spec : "");
    if (made)
        publish(made);
    else
        log_always("log", HN_LOG_WARN, "out of memory: the log setting stays as it was");
}

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static void read_environment(void) {
    if (!atomic_load(&current)) hn_log_configure(NULL); /* else hn_log_configure came first */
}

bool hn_log_on(const char *area, hn_log_level level) {
    const setting *now = atomic_load_explicit(&current, memory_order_acquire);
    if (!now) {
        pthread_once(&environment_once, read_environment);
        now = atomic_load_explicit(&current, memory_order_acquire);
        if (!now) return (int)level <= LEVEL_DEFAULT;
    }
    hn_str name = hn_str_of(area);
    for (uint32_t i = now->area_count; i-- > 0;) /* the last mention of an area counts */
        if (hn_str_eq(now->areas[i].area, name)) return (int)level <= now->areas[i].level;
    return (int)level <= now->level;
}

void hn_log(const char *area, hn_log_level level, const char *fmt, ...) {
    if (!hn_log_on(area, level)) return;
    va_list args;
    va_start(args, fmt);
    vlog(area, level, fmt, args);
    va_end(args);
}

/* The warnings given so far, guarded by `lock`; once per process is process-wide by nature. */
static struct {
    pthread_mutex_t lock;
    hn_arena arena;
    hn_strmap keys;
} warned = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Adds `name` to the keys unless it is there. Call with the lock held. */
static hn_status add_warned(hn_str name, bool *out_first) {
    warned.keys.arena = &warned.arena;
    *out_first = !hn_strmap_get(&warned.keys, name);
    if (!*out_first) return NULL;
    hn_str kept = {hn_arena_strndup(&warned.arena, name.ptr, name.len), name.len};
    if (!kept.ptr) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot remember a warning");
    return hn_strmap_put(&warned.keys, kept, 1);
}

/* Whether (area, key) is new. Without memory a warning is rather given twice than never. */
static bool is_first_warning(const char *area, const char *key) {
    bool is_first = true;
    hn_strbuf name;
    hn_strbuf_init(&name);
    hn_strbuf_printf(&name, "%s:%s", area, key);
    if (!name.failed) {
        pthread_mutex_lock(&warned.lock);
        hn_status_free(add_warned(hn_strbuf_str(&name), &is_first));
        pthread_mutex_unlock(&warned.lock);
    }
    hn_strbuf_deinit(&name);
    return is_first;
}

void hn_warn_once(const char *area, const char *key, const char *fmt, ...) {
    if (!hn_log_on(area, HN_LOG_WARN) || !is_first_warning(area, key)) return;
    va_list args;
    va_start(args, fmt);
    vlog(area, HN_LOG_WARN, fmt, args);
    va_end(args);
}
