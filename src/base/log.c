/* log.c: which lines are wanted.
 *
 * A setting never changes once it is published, so hn_log_on is one atomic load and a short walk. A
 * replaced setting stays linked behind its successor: a reader may still be walking it, and
 * settings are replaced a few times in the life of a process. */
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

enum { LEVEL_OFF = -1, LEVEL_BAD = -2, LEVEL_DEFAULT = HN_LOG_WARN };

/* Every area that src/ logs under: tests/environment.sh compares. */
static const char *const areas[] = {"cache", "log",     "metrics",   "pass",  "pt2",
                                    "run",   "service", "toolchain", "trace", "tune"};

typedef struct area_level {
    hn_str area; /* in the setting's `spec` */
    int level;
} area_level;

typedef struct setting {
    struct setting *previous;
    bool is_given; /* levels were asked for */
    int level;     /* of areas that are not listed */
    uint32_t area_count;
    area_level *areas;
    char spec[];
} setting;

static _Atomic(setting *) current;

static void vlog(const char *area, hn_log_level level, const char *fmt, va_list args)
    HN_PRINTF(3, 0);
static void vlog(const char *area, hn_log_level level, const char *fmt, va_list args) {
    int saved = errno; /* logging between a failure and its report must not change the report */
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_vprintf(&text, fmt, args);
    /* what fitted, when memory ran out */
    hn_log_deliver(&(hn_log_line){level, area, text.ptr ? text.ptr : "out of memory"});
    hn_strbuf_deinit(&text);
    errno = saved;
}

static void log_always(const char *area, hn_log_level level, const char *fmt, ...) HN_PRINTF(3, 4);
static void log_always(const char *area, hn_log_level level, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vlog(area, level, fmt, args);
    va_end(args);
}

const char *hn_log_area_name(uint32_t index) {
    return index < HN_COUNT_OF(areas) ? areas[index] : NULL;
}

/* ---- settings ---- */

static int level_of(hn_str text) {
    static const struct {
        hn_str name;
        int level;
    } known[] = {
        {{"off", 3}, LEVEL_OFF},       {{"error", 5}, HN_LOG_ERROR}, {{"warn", 4}, HN_LOG_WARN},
        {{"warning", 7}, HN_LOG_WARN}, {{"info", 4}, HN_LOG_INFO},   {{"debug", 5}, HN_LOG_DEBUG},
    };
    for (size_t i = 0; i < HN_COUNT_OF(known); i++)
        if (hn_str_eq(text, known[i].name)) return known[i].level;
    return LEVEL_BAD;
}

static bool is_area(hn_str text) {
    for (size_t i = 0; i < HN_COUNT_OF(areas); i++)
        if (hn_str_eq(text, hn_str_of(areas[i]))) return true;
    return false;
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

static hn_status unknown_area(hn_str area) {
    hn_strbuf list;
    hn_strbuf_init(&list);
    for (size_t i = 0; i < HN_COUNT_OF(areas); i++)
        hn_strbuf_printf(&list, "%s%s", i ? ", " : "", areas[i]);
    hn_status status =
        HN_ERROR(HN_INVALID_ARGUMENT, "unknown log area '" HN_STR_FMT "'; areas are %s",
                 HN_STR_ARG(area), list.ptr ? list.ptr : "");
    hn_strbuf_deinit(&list);
    return status;
}

/* One item: "level" or "area:level". */
static hn_status parse_item(setting *made, hn_str item) {
    if (!item.len) return NULL;
    bool has_area = memchr(item.ptr, ':', item.len) != NULL;
    hn_str rest = item, area = has_area ? trim(split(&rest, ':')) : HN_STR("");
    int level = level_of(trim(rest));
    if (level == LEVEL_BAD)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "unknown log level '" HN_STR_FMT
                        "'; write a level or area:level; levels are off, error, warn, info, debug",
                        HN_STR_ARG(trim(rest)));
    if (has_area && !is_area(area)) return unknown_area(area);
    if (has_area) made->areas[made->area_count++] = (area_level){area, level};
    else made->level = level;
    made->is_given = true;
    return NULL;
}

static hn_status parse_items(setting *made, size_t len) {
    hn_str rest = {made->spec, len};
    while (rest.len) HN_TRY(parse_item(made, trim(split(&rest, ','))));
    return NULL;
}

static void discard(setting *made) {
    if (!made) return;
    free(made->areas);
    free(made);
}

static hn_status parse(const char *spec, setting **out) {
    size_t len = strlen(spec), item_count = 1;
    for (size_t i = 0; i < len; i++) item_count += spec[i] == ',';
    setting *made = calloc(1, sizeof(*made) + len + 1);
    if (made) made->areas = calloc(item_count, sizeof(*made->areas));
    if (!made || !made->areas) {
        discard(made);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for log levels");
    }
    memcpy(made->spec, spec, len);
    made->level = LEVEL_DEFAULT;
    hn_status status = parse_items(made, len);
    if (status) discard(made);
    else *out = made;
    return status;
}

static void publish(setting *made) {
    made->previous = atomic_load(&current);
    while (!atomic_compare_exchange_weak(&current, &made->previous, made)) continue;
}

hn_status hn_log_levels_set(const char *levels) {
    setting *made = NULL;
    const char *variable = levels ? NULL : getenv("HENRY_LOG");
    hn_status status = parse(levels ? levels : variable ? variable : "", &made);
    if (status)
        return levels ? status
                      : hn_status_annotate(status, "HENRY_LOG is '%s'", variable ? variable : "");
    publish(made);
    return NULL;
}

void hn_log_configure(const char *levels) {
    hn_status status = hn_log_levels_set(levels);
    if (status) log_always("log", HN_LOG_WARN, "%s; ignored", hn_status_message(status));
    hn_status_free(status);
}

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;
/* until somebody has told it: not inside the once, where a callback might come again */
static _Atomic(hn_status) environment_problem;

static void read_environment(void) {
    if (atomic_load(&current)) return; /* hn_log_levels_set came first */
    hn_status status = hn_log_levels_set(NULL);
    if (!status) return;
    atomic_store(&environment_problem, status);
    hn_status_free(hn_log_levels_set(""));
}

static const setting *setting_of_environment(void) {
    pthread_once(&environment_once, read_environment);
    hn_status problem = atomic_exchange(&environment_problem, NULL);
    if (problem) log_always("log", HN_LOG_WARN, "%s; ignored", hn_status_message(problem));
    hn_status_free(problem);
    return atomic_load_explicit(&current, memory_order_acquire);
}

bool hn_log_on(const char *area, hn_log_level level) {
    const setting *now = atomic_load_explicit(&current, memory_order_acquire);
    if (!now || atomic_load_explicit(&environment_problem, memory_order_relaxed))
        now = setting_of_environment();
    if (!now || !now->is_given) return (int)level <= LEVEL_DEFAULT && hn_log_has_sink();
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
