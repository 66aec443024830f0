/* test_publish_faults.c: every system call of what changes or reads the store x {killed before it,
 * killed after it, ENOSPC, EIO, EINTR, ENOSPC and EIO from there on, fewer bytes than asked for}.
 * Afterwards what was stored before is still there and right, what was being stored is right or
 * missing, the process that was harmed believed nothing wrong, the next gc leaves nothing
 * unfinished, and the store takes entries again. */
#include "cache/cache.h"
#include "cache/store_internal.h"
#include "cache/transfer.h"

#include "base/log.h"
#include "stress/stress.h"
#include "stress/syscall_faults.h"

enum { OLD = 1, NEW = 2, OTHERS = 10, OTHER_COUNT = 40, SMALL_BYTES = 5000, BIG_BYTES = 300 << 10 };

typedef struct scene scene;
struct scene {
    const char *name;
    bool (*act)(const scene *s); /* in the child; false: it saw something wrong */
    size_t len;                  /* of the new entry */
    uint64_t max_bytes;
    bool has_new;    /* an entry of the new key is there already, with other bytes */
    bool is_empty;   /* there is nothing, not even folders */
    bool is_damaged; /* the entry of the new key is damaged */
    bool sync;
};

static char dir[PATH_MAX - 64], file[PATH_MAX - 32];
static hn_store *store; /* of the process that acts */

static hn_digest key_of(int n) { return hn_digest_of(&n, sizeof(n)); }

static hn_store *open_store(const scene *s) {
    hn_store *out = NULL;
    hn_status status = hn_store_open(
        &(hn_store_options){.dir = dir, .max_bytes = s->max_bytes, .sync = s->sync}, &out);
    hn_status_free(status);
    return out;
}

/* Versions of one key differ in their bytes. */
static bool put(hn_store *to, int n, int version, size_t len) {
    static uint8_t bytes[BIG_BYTES];
    hn_digest key = key_of(n);
    stress_fill(bytes, len, (uint64_t)(n * 10 + version));
    return hn_store_put(
        to,
        &(hn_store_put_args){
            .ns = HN_STORE_KERNEL, .key = &key, .bytes = bytes, .len = len, .record = HN_STR("")});
}

/* -1: wrong bytes; 0: a miss; else the version. */
static int get(hn_store *from, int n, size_t len) {
    static uint8_t expected[BIG_BYTES];
    hn_digest key = key_of(n);
    hn_store_entry entry;
    if (!hn_store_get(from, HN_STORE_KERNEL, &key, &entry)) return 0;
    uint64_t seed;
    memcpy(&seed, entry.bytes, sizeof(seed));
    stress_fill(expected, len, seed);
    bool ok =
        entry.len == len && memcmp(entry.bytes, expected, len) == 0 && seed / 10 == (uint64_t)n;
    hn_store_entry_deinit(&entry);
    return ok ? (int)(seed % 10) : -1;
}

/* ---- what is harmed ---- */

static bool act_put(const scene *s) {
    fault_mark();
    bool stored = put(store, NEW, 2, s->len);
    fault_mark();
    int version = get(store, NEW, s->len);
    return version >= 0 && (!stored || version == 2);
}

static bool act_open(const scene *s) {
    fault_mark();
    hn_store *mine = open_store(s);
    bool stored = mine && put(mine, NEW, 2, s->len);
    int old = mine ? get(mine, OLD, SMALL_BYTES) : 0;
    fault_mark();
    return old >= 0 && (!stored || get(store, NEW, s->len) == 2);
}

static bool act_get(const scene *s) {
    fault_mark();
    int old = get(store, OLD, SMALL_BYTES), new = get(store, NEW, s->len);
    bool stored = new > 0 || put(store, NEW, 2, s->len);
    fault_mark();
    return old >= 0 && new >= 0 && (!stored || get(store, NEW, s->len) > 0);
}

static bool act_lease(const scene *s) {
    hn_digest key = key_of(NEW);
    hn_leases *leases;
    hn_lease lease;
    hn_status status = hn_leases_create(store, NULL, &leases);
    if (status) return false;
    fault_mark();
    hn_lease_answer answer = hn_lease_try(leases, HN_STORE_KERNEL, &key, false, &lease);
    bool stored = put(store, NEW, 2, s->len);
    if (answer == HN_LEASE_MINE) hn_lease_release(leases, lease);
    fault_mark();
    hn_leases_destroy(leases);
    return !stored || get(store, NEW, s->len) == 2;
}

static bool act_gc(const scene *s) {
    uint64_t removed;
    fault_mark();
    hn_status status = hn_store_gc(store, 60000, &removed);
    fault_mark();
    hn_status_free(status);
    return get(store, NEW, s->len) >= 0;
}

static bool act_verify(const scene *s) {
    hn_store_verify_report report;
    hn_store_usage usage;
    fault_mark();
    hn_status status = hn_store_verify(store, &report);
    hn_status_free(status);
    status = hn_store_usage_get(store, &usage);
    fault_mark();
    hn_status_free(status);
    return get(store, OLD, SMALL_BYTES) >= 0 && get(store, NEW, s->len) >= 0;
}

static bool act_failed_source(const scene *s) {
    (void)s;
    hn_digest key = hn_digest_of("name", 4);
    fault_mark();
    hn_store_put_failed_source(store, &key, ".c", "int f;", 6);
    fault_mark();
    return true;
}

static bool act_export(const scene *s) {
    hn_cache cache;
    hn_entry_list list = {0};
    hn_transfer_report report;
    hn_digest key = key_of(OLD);
    hn_entry_list_add(&list, HN_STORE_KERNEL, &key);
    hn_status status = hn_cache_init(store, "", &cache);
    if (status) return false;
    fault_mark();
    status = hn_cache_export(&cache, &list, file, &report);
    fault_mark();
    bool exported = !status;
    hn_status_free(status);
    hn_entry_list_deinit(&list);
    hn_cache_deinit(&cache);
    status = exported ? hn_store_import(store, file, &report) : NULL;
    bool ok = !status;
    hn_status_free(status);
    (void)s;
    return ok;
}

/* The file holds NEW, version 3. */
static bool act_import(const scene *s) {
    hn_transfer_report report;
    fault_mark();
    hn_status status = hn_store_import(store, file, &report);
    fault_mark();
    bool imported = !status;
    hn_status_free(status);
    int version = get(store, NEW, s->len);
    return version >= 0 && (!imported || version == 3);
}

static const scene scenes[] = {
    {"publish", act_put, SMALL_BYTES, .sync = false},
    {"publish, replacing", act_put, SMALL_BYTES, .has_new = true},
    {"publish, the first", act_put, SMALL_BYTES, .is_empty = true},
    {"publish, with fdatasync", act_put, SMALL_BYTES, .sync = true},
    {"publish 300 KB", act_put, BIG_BYTES, .has_new = true},
    {"publish, evicting", act_put, SMALL_BYTES, .max_bytes = 200000},
    {"open, publish, read", act_open, SMALL_BYTES, .is_empty = true},
    {"read", act_get, BIG_BYTES, .has_new = true},
    {"read, quarantine, publish", act_get, SMALL_BYTES, .is_damaged = true},
    {"lease, publish, release", act_lease, SMALL_BYTES, .sync = false},
    {"gc", act_gc, SMALL_BYTES, .has_new = true},
    {"verify", act_verify, SMALL_BYTES, .is_damaged = true},
    {"source of a failure", act_failed_source, SMALL_BYTES, .sync = false},
    {"export", act_export, SMALL_BYTES, .sync = false},
    {"import", act_import, SMALL_BYTES, .sync = false},
};
enum { SCENE_COUNT = sizeof(scenes) / sizeof(scenes[0]) };

/* ---- before and after ---- */

static void damage(int n) {
    char path[PATH_MAX];
    hn_digest key = key_of(n);
    hn_store_entry_path(store, HN_STORE_KERNEL, &key, path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    EXPECT(fd >= 0 && pwrite(fd, "!", 1, 77) == 1);
    close(fd);
}

static void write_export(void) {
    hn_cache cache;
    hn_entry_list list = {0};
    hn_transfer_report report;
    hn_digest key = key_of(NEW);
    EXPECT(put(store, NEW, 3, SMALL_BYTES));
    hn_entry_list_add(&list, HN_STORE_KERNEL, &key);
    EXPECT_OK(hn_cache_init(store, "", &cache));
    EXPECT_OK(hn_cache_export(&cache, &list, file, &report));
    hn_store_remove(store, HN_STORE_KERNEL, &key); /* import keeps what is there */
    hn_entry_list_deinit(&list);
    hn_cache_deinit(&cache);
}

static void prepare(const scene *s) {
    EXPECT_OK(hn_dir_remove(dir));
    EXPECT_OK(hn_dir_create(dir));
    store = open_store(s);
    EXPECT(store && hn_store_dir(store)[0]);
    if (s->act == act_import) write_export();
    if (s->is_empty) return;
    EXPECT(put(store, OLD, 1, SMALL_BYTES));
    if (s->max_bytes || s->act == act_gc)
        for (int i = 0; i < OTHER_COUNT - 17; i++) EXPECT(put(store, OTHERS + i, 1, SMALL_BYTES));
    if (s->has_new || s->is_damaged) EXPECT(put(store, NEW, 1, s->len));
    if (s->is_damaged) damage(NEW);
}

static int child_body(void *context) {
    const scene *s = context;
    return s->act(s) ? 0 : 1;
}

typedef struct tally {
    long runs, calls, skipped, hits, misses;
} tally;

static void check_after(const scene *s, const fault_run *run, tally *sum) {
    int before = hn_test_failures;
    bool is_kill = run->what.kind == FAULT_KILL_BEFORE || run->what.kind == FAULT_KILL_AFTER;
    bool killed = WIFSIGNALED(run->status) && WTERMSIG(run->status) == SIGKILL;
    EXPECT(!run->is_late);
    EXPECT(is_kill ? killed : WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0);
    hn_store *after = open_store(s);
    hn_store_verify_report report;
    uint64_t removed;
    bool may_evict = s->max_bytes || s->act == act_gc;
    int old = get(after, OLD, SMALL_BYTES), new = get(after, NEW, s->len);
    EXPECT(old == 1 || (old == 0 && (may_evict || s->is_empty)));
    EXPECT(new >= 0);
    EXPECT(new > 0 || !s->has_new || may_evict);
    new > 0 ? sum->hits++ : sum->misses++;
    EXPECT_OK(hn_store_gc(after, 0, &removed));
    EXPECT_INT(stress_count_files(dir, "tmp") + stress_count_files(dir, "lease"), 0);
    EXPECT_OK(hn_store_verify(after, &report));
    EXPECT_INT(report.bad, 0);
    EXPECT(put(after, NEW, 4, s->len) && get(after, NEW, s->len) == 4);
    hn_store_close(after);
    if (hn_test_failures != before)
        fprintf(stderr, "  in: %s; call %ld (number %ld) %s; wait status %#x\n", s->name, run->at,
                run->number, run->what.name, (unsigned)run->status);
}

static bool is_chosen(const scene *s) {
    const char *only = getenv("HN_STRESS_SCENE"); /* to look at one */
    return !only || strcmp(only, s->name) == 0;
}

static long run_once(const scene *s, const fault *what, long at, tally *sum) {
    prepare(s);
    fault_run run = {.what = *what, .at = at};
    fault_trace(&run, child_body, (void *)s);
    if (what->kind == FAULT_NONE) {
        EXPECT(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0 && run.calls > 2);
    } else if (run.was_harmed) {
        check_after(s, &run, sum);
        sum->runs++;
    } else {
        sum->skipped++; /* nothing to shorten */
    }
    hn_store_close(store);
    return run.calls;
}

TEST(every_call_of_the_store) {
    tally sum = {0};
    char text[1024] = "";
    stress_begin();
    if (!fault_can_trace()) {
        stress_row("every system call of a publish", "all pass",
                   "skipped: no process may be traced here");
        return;
    }
    hn_log_configure("error");
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(file, sizeof(file), "%s.export", dir);
    for (int i = 0; i < SCENE_COUNT; i++) {
        if (!is_chosen(&scenes[i])) continue;
        long calls = run_once(&scenes[i], &(fault){FAULT_NONE, 0, ""}, 0, &sum);
        long step = stress.is_quick && calls > 40 ? 17 : 1;
        sum.calls += calls;
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %ld", i ? ", " : "",
                 scenes[i].name, calls);
        for (int f = 0; f < FAULT_COUNT; f++)
            for (long at = 0; at < calls; at += step)
                run_once(&scenes[i], &fault_table[f], at, &sum);
    }
    EXPECT(getenv("HN_STRESS_SCENE") || (sum.hits > 100 && sum.misses > 100));
    stress_row("every system call of a publish x {kill, ENOSPC, EIO, EINTR, short write}",
               "all pass",
               "%ld calls of %d operations x %d faults: %ld runs, %d failed (%ld without anything "
               "to shorten)",
               sum.calls, SCENE_COUNT, FAULT_COUNT, sum.runs, hn_test_failures, sum.skipped);
    fprintf(stderr, "system calls of: %s\n", text);
    hn_log_configure(NULL);
    EXPECT_OK(hn_dir_remove(dir));
    remove(file);
}

int main(int argc, char **argv) { return stress_main(argc, argv); }
