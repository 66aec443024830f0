/* test_store.c: the store: publish and read, damage, trust, full disks, eviction, reasons, many
 * processes. */
#include "cache/record.h"
#include "cache/store.h"

#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"
#include "unit/harness.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char root[PATH_MAX - 128];

static hn_store *open_store(const char *dir, uint64_t max_bytes) {
    hn_store *store = NULL;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = dir, .max_bytes = max_bytes}, &store));
    return store;
}

static hn_store *open_fresh(void) {
    EXPECT_OK(hn_dir_temp(root, sizeof(root)));
    return open_store(root, 0);
}

static void close_fresh(hn_store *store) {
    hn_store_close(store);
    EXPECT_OK(hn_dir_remove(root));
}

static hn_digest key_of(int n) { return hn_digest_of(&n, sizeof(n)); }

static bool put(hn_store *store, int n, const void *bytes, size_t len) {
    hn_digest key = key_of(n);
    return hn_store_put(
        store,
        &(hn_store_put_args){
            .ns = HN_STORE_KERNEL, .key = &key, .bytes = bytes, .len = len, .record = HN_STR("")});
}

/* Whether entry `n` is there and holds exactly these bytes. */
static bool holds(hn_store *store, int n, const void *bytes, size_t len) {
    hn_digest key = key_of(n);
    hn_store_entry entry;
    if (!hn_store_get(store, HN_STORE_KERNEL, &key, &entry)) return false;
    bool same = entry.len == len && memcmp(entry.bytes, bytes, len) == 0;
    hn_store_entry_deinit(&entry);
    return same;
}

static void path_of(int n, char out[PATH_MAX]) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest key = key_of(n);
    hn_digest_hex(&key, hex);
    snprintf(out, PATH_MAX, "%s/kernel/%.2s/%s", root, hex, hex + 2);
}

static void write_file(const char *path, const void *bytes, size_t len) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

TEST(what_is_put_is_got) {
    hn_store *store = open_fresh();
    EXPECT(!holds(store, 1, "abc", 3));
    EXPECT(put(store, 1, "abc", 3));
    EXPECT(put(store, 2, "", 0));
    EXPECT(holds(store, 1, "abc", 3));
    EXPECT(holds(store, 2, "", 0));
    EXPECT(put(store, 1, "other", 5)); /* replaces */
    EXPECT(holds(store, 1, "other", 5));
    size_t len = 1 << 20; /* large enough to be mapped */
    char *big = malloc(len);
    for (size_t i = 0; i < len; i++) big[i] = (char)(i * 7 >> 3);
    EXPECT(put(store, 3, big, len));
    EXPECT(holds(store, 3, big, len));
    free(big);
    hn_store_stats stats;
    hn_store_stats_get(store, &stats);
    EXPECT_INT(stats.puts, 4);
    EXPECT_INT(stats.hits, 4);
    EXPECT_INT(stats.misses, 1);
    hn_store_usage usage;
    EXPECT_OK(hn_store_usage_get(store, &usage));
    EXPECT_INT(usage.entries[HN_STORE_KERNEL], 3);
    EXPECT_INT(usage.entries[HN_STORE_GRAPH], 0);
    struct stat info;
    EXPECT(stat(root, &info) == 0 && (info.st_mode & 0777) == 0700);
    close_fresh(store);
}

TEST(namespaces_are_apart) {
    hn_store *store = open_fresh();
    hn_digest key = key_of(1);
    hn_store_entry entry;
    EXPECT(put(store, 1, "abc", 3));
    EXPECT(!hn_store_get(store, HN_STORE_GRAPH, &key, &entry));
    close_fresh(store);
}

TEST(the_descriptor_of_an_entry_starts_with_the_payload) {
    hn_store *store = open_fresh();
    hn_digest key = key_of(1);
    hn_store_entry entry;
    char got[4] = "";
    EXPECT(put(store, 1, "\177ELF", 4));
    EXPECT(hn_store_get(store, HN_STORE_KERNEL, &key, &entry));
    EXPECT(pread(entry.fd, got, 4, 0) == 4 && memcmp(got, "\177ELF", 4) == 0);
    hn_store_entry_deinit(&entry);
    close_fresh(store);
}

/* Every single byte of an entry flipped, and every cut: never a hit, always replaceable. */
TEST(any_damage_is_a_miss) {
    hn_store *store = open_fresh();
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_record_add(&record, "flags", HN_STR("-O2"));
    hn_digest key = key_of(1);
    const hn_store_put_args args = {.ns = HN_STORE_KERNEL,
                                    .key = &key,
                                    .bytes = "payload",
                                    .len = 7,
                                    .record = hn_strbuf_str(&record)};
    EXPECT(hn_store_put(store, &args));
    char path[PATH_MAX];
    path_of(1, path);
    hn_strbuf good;
    hn_strbuf_init(&good);
    EXPECT_OK(hn_file_read(path, &good));
    int hits = 0;
    hn_log_configure("error");
    for (size_t i = 0; i < good.len; i++) {
        good.ptr[i] ^= 0x10;
        write_file(path, good.ptr, good.len);
        hits += holds(store, 1, "payload", 7);
        good.ptr[i] ^= 0x10;
        write_file(path, good.ptr, i);
        hits += holds(store, 1, "payload", 7);
        EXPECT(!hn_file_exists(path) ||
               i / 4 >= (good.len - 16) / 4); /* an unknown version stays, as a miss */
    }
    hn_log_configure(NULL);
    EXPECT_INT(hits, 0);
    write_file(path, good.ptr, good.len);
    EXPECT(holds(store, 1, "payload", 7));
    hn_store_stats stats;
    hn_store_stats_get(store, &stats);
    EXPECT(stats.quarantined >= 2 * good.len - 8);
    hn_strbuf_deinit(&good);
    hn_strbuf_deinit(&record);
    close_fresh(store);
}

TEST(an_entry_under_a_wrong_name_is_a_miss) {
    hn_store *store = open_fresh();
    char a[PATH_MAX], b[PATH_MAX];
    EXPECT(put(store, 1, "one", 3) && put(store, 2, "two", 3));
    path_of(1, a), path_of(2, b);
    EXPECT(rename(a, b) == 0);
    hn_log_configure("error");
    EXPECT(!holds(store, 2, "one", 3));
    EXPECT(!hn_file_exists(b));
    hn_log_configure(NULL);
    close_fresh(store);
}

/* Puts kernel `n` and moves it to where a program with the same key would lie: `graph`. */
static void put_astray(hn_store *store, int n, char graph[PATH_MAX]) {
    char kernel[PATH_MAX], dir[PATH_MAX];
    EXPECT(put(store, n, "one", 3));
    path_of(n, kernel);
    const char *at = strstr(kernel, "/kernel/");
    EXPECT(at != NULL);
    if (!at) return;
    snprintf(graph, PATH_MAX, "%.*s/graph/%s", (int)(at - kernel), kernel, at + strlen("/kernel/"));
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(graph, '/') - graph), graph);
    EXPECT_OK(hn_dir_create(dir));
    EXPECT(rename(kernel, graph) == 0);
}

/* An entry says what it is for: a kernel's bytes in the place of a program with the same key are
 * none. */
TEST(an_entry_in_a_wrong_namespace_is_a_miss) {
    hn_store *store = open_fresh();
    char graph[PATH_MAX] = "";
    hn_digest key = key_of(1);
    hn_store_entry entry;
    put_astray(store, 1, graph);
    hn_log_configure("error");
    EXPECT(!hn_store_get(store, HN_STORE_GRAPH, &key, &entry));
    EXPECT(!hn_file_exists(graph));
    hn_log_configure(NULL);
    close_fresh(store);
}

TEST(links_and_odd_files_are_refused) {
    hn_store *store = open_fresh();
    char path[PATH_MAX], elsewhere[PATH_MAX + 16];
    EXPECT(put(store, 1, "one", 3));
    path_of(1, path);
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", root);
    hn_log_configure("error");
    EXPECT(link(path, elsewhere) == 0);
    EXPECT(!holds(store, 1, "one", 3)); /* hard link */
    EXPECT(symlink(elsewhere, path) == 0);
    EXPECT(!holds(store, 1, "one", 3)); /* symbolic link */
    EXPECT(access(path, F_OK) != 0);
    EXPECT(mkfifo(path, 0600) == 0);
    EXPECT(!holds(store, 1, "one", 3)); /* must not block */
    hn_log_configure(NULL);
    close_fresh(store);
}

TEST(verify_finds_what_lies_in_a_wrong_namespace) {
    hn_store *store = open_fresh();
    char graph[PATH_MAX] = "";
    hn_store_verify_report report;
    put_astray(store, 1, graph);
    EXPECT(put(store, 2, "two", 3));
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.good, 1);
    EXPECT_INT(report.bad, 1);
    EXPECT(!hn_file_exists(graph));
    close_fresh(store);
}

TEST(an_entry_tells_how_long_it_took_to_make) {
    static const struct {
        int64_t given_ns, kept_ns;
    } cases[] = {{0, 0}, {999, 0}, {1500000, 1500000}, {INT64_MAX, UINT32_MAX * 1000ll}};
    hn_store *store = open_fresh();
    for (int i = 0; i < (int)(sizeof(cases) / sizeof(cases[0])); i++) {
        hn_digest key = key_of(i);
        hn_store_entry entry;
        EXPECT(hn_store_put(store, &(hn_store_put_args){.ns = HN_STORE_KERNEL,
                                                        .key = &key,
                                                        .bytes = "x",
                                                        .len = 1,
                                                        .made_ns = cases[i].given_ns}));
        EXPECT(hn_store_get(store, HN_STORE_KERNEL, &key, &entry));
        EXPECT_INT(entry.made_ns, cases[i].kept_ns);
        hn_store_entry_deinit(&entry);
    }
    close_fresh(store);
}

TEST(what_is_not_kept_is_counted_by_reason) {
    static char huge[300000];
    hn_store_stats stats;
    hn_store *store = open_fresh();
    hn_store_close(store);
    store = open_store(root, 200000);
    hn_log_configure("error");
    EXPECT(!put(store, 1, huge, sizeof(huge)));
    EXPECT_INT(hn_store_bypass(store), HN_BYPASS_NONE);
    hn_store_stats_get(store, &stats);
    EXPECT_INT(stats.bypasses[HN_BYPASS_TOO_LARGE], 1);
    close_fresh(store);
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    EXPECT_INT(hn_store_bypass(store), HN_BYPASS_OFF);
    hn_store_close(store);
    store = open_store("/proc/no/such/place", 0);
    EXPECT_INT(hn_store_bypass(store), HN_BYPASS_NO_FOLDER);
    hn_store_close(store);
    hn_log_configure(NULL);
    EXPECT_STR(hn_cache_bypass_name(HN_BYPASS_DISK_ERROR), "disk_error");
    EXPECT_STR(hn_cache_bypass_name((hn_cache_bypass)99), "none");
}

TEST(verify_finds_the_bad_one) {
    hn_store *store = open_fresh();
    char path[PATH_MAX];
    for (int i = 0; i < 5; i++) EXPECT(put(store, i, "some bytes", 10));
    path_of(3, path);
    write_file(path, "damaged", 7);
    hn_store_verify_report report;
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.good, 4);
    EXPECT_INT(report.bad, 1);
    EXPECT(!hn_file_exists(path));
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.bad, 0);
    uint64_t removed;
    EXPECT_OK(hn_store_clear(store, &removed));
    EXPECT_INT(removed, 5); /* four entries and the quarantined one */
    EXPECT(!holds(store, 1, "some bytes", 10));
    close_fresh(store);
}

static void age(int n, int seconds) {
    char path[PATH_MAX];
    path_of(n, path);
    const struct timespec times[2] = {{.tv_sec = time(NULL) - seconds},
                                      {.tv_sec = time(NULL) - seconds}};
    EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0);
}

TEST(the_least_recently_used_goes_first) {
    hn_store *store = open_fresh();
    static char bytes[8000]; /* two blocks with the footer */
    for (int i = 0; i < 10; i++) EXPECT(put(store, i, bytes, sizeof(bytes)));
    for (int i = 0; i < 10; i++) age(i, 1000 - 10 * i);
    EXPECT(holds(store, 0, bytes, sizeof(bytes))); /* a use makes it the youngest */
    hn_store_usage usage;
    EXPECT_OK(hn_store_usage_get(store, &usage));
    uint64_t each = usage.bytes[HN_STORE_KERNEL] / 10, removed;
    EXPECT_OK(hn_store_gc(store, usage.total_bytes - 4 * each, &removed));
    EXPECT_INT(removed, 4);
    for (int i = 0; i < 10; i++) {
        char path[PATH_MAX];
        path_of(i, path);
        EXPECT_INT(hn_file_exists(path), i == 0 || i > 4);
    }
    close_fresh(store);
}

TEST(the_bound_is_kept_while_putting) {
    EXPECT_OK(hn_dir_temp(root, sizeof(root)));
    hn_store *store = open_store(root, 200000);
    static char bytes[8000];
    for (int i = 0; i < 200; i++) EXPECT(put(store, i, bytes, sizeof(bytes)));
    hn_store_usage usage;
    EXPECT_OK(hn_store_usage_get(store, &usage));
    EXPECT(usage.total_bytes <= 210000);
    EXPECT(usage.entries[HN_STORE_KERNEL] >= 15);
    EXPECT(holds(store, 199, bytes, sizeof(bytes)));
    static char huge[300000]; /* more than the bound: refused, evicts nothing */
    hn_log_configure("error");
    EXPECT(!put(store, 1000, huge, sizeof(huge)));
    hn_log_configure(NULL);
    EXPECT(holds(store, 199, bytes, sizeof(bytes)));
    close_fresh(store);
}

TEST(leftovers_of_dead_writers_go) {
    hn_store *store = open_fresh();
    char path[PATH_MAX + 16];
    EXPECT(put(store, 1, "x", 1));
    snprintf(path, sizeof(path), "%s/tmp/0000000000000001", root);
    write_file(path, "x", 1);
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0);
    char young[PATH_MAX + 16], held[PATH_MAX + 16];
    snprintf(young, sizeof(young), "%s/tmp/0000000000000002", root);
    write_file(young, "x", 1);
    snprintf(held, sizeof(held), "%s/tmp/0000000000000003", root); /* as a live writer holds it */
    write_file(held, "x", 1);
    int fd = open(held, O_RDWR | O_CLOEXEC);
    EXPECT(fd >= 0 && flock(fd, LOCK_EX) == 0);
    uint64_t removed;
    EXPECT_OK(hn_store_gc(store, 0, &removed));
    EXPECT_INT(removed, 2);
    EXPECT(!hn_file_exists(young) && hn_file_exists(held));
    close(fd);
    EXPECT_OK(hn_store_gc(store, 0, &removed));
    EXPECT_INT(removed, 1);
    EXPECT(!hn_file_exists(path) && !hn_file_exists(held));
    EXPECT(holds(store, 1, "x", 1));
    close_fresh(store);
}

TEST(failures_expire) {
    hn_store *store = open_fresh();
    hn_digest key = key_of(1);
    hn_store_put_args args = {.ns = HN_STORE_KERNEL,
                              .key = &key,
                              .bytes = "why",
                              .len = 3,
                              .record = HN_STR(""),
                              .is_failure = true,
                              .lifetime_s = 1000};
    hn_store_entry entry;
    EXPECT(hn_store_put(store, &args));
    EXPECT(hn_store_get(store, HN_STORE_KERNEL, &key, &entry));
    EXPECT(entry.is_failure);
    hn_store_entry_deinit(&entry);
    args.lifetime_s = 1;
    EXPECT(hn_store_put(store, &args));
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    EXPECT(!hn_store_get(store, HN_STORE_KERNEL, &key, &entry));
    close_fresh(store);
}

TEST(why_names_the_field) {
    hn_store *store = open_fresh();
    static const char *const flags[] = {"-O1", "-O2"};
    static const char *const texts[] = {"aaa", "bbb"};
    hn_strbuf record, out;
    hn_strbuf_init(&record), hn_strbuf_init(&out);
    EXPECT_ERROR(hn_store_why(store, HN_STORE_KERNEL, HN_STR(""), &out), HN_NOT_FOUND,
                 "nothing is stored");
    for (int i = 0; i < 2; i++) {
        hn_strbuf_reset(&record);
        hn_record_add(&record, "flags", hn_str_of(flags[i]));
        hn_record_add(&record, "text", hn_str_of(texts[i]));
        hn_digest key = hn_digest_of(record.ptr, record.len);
        EXPECT(hn_store_put(store, &(hn_store_put_args){.ns = HN_STORE_KERNEL,
                                                        .key = &key,
                                                        .bytes = "x",
                                                        .len = 1,
                                                        .record = hn_strbuf_str(&record)}));
    }
    EXPECT_OK(hn_store_why(store, HN_STORE_KERNEL, hn_strbuf_str(&record), &out));
    EXPECT_STR(out.ptr, "no field differs: the entry is there\n");
    hn_strbuf_reset(&record), hn_strbuf_reset(&out);
    hn_record_add(&record, "flags", HN_STR("-O3"));
    hn_record_add(&record, "text", HN_STR("aaa"));
    EXPECT_OK(hn_store_why(store, HN_STORE_KERNEL, hn_strbuf_str(&record), &out));
    EXPECT_STR(out.ptr, "field 'flags' was '-O1', is '-O3'\n");
    hn_strbuf_deinit(&record), hn_strbuf_deinit(&out);
    close_fresh(store);
}

TEST(a_directory_that_others_can_write_to_is_not_used) {
    EXPECT_OK(hn_dir_temp(root, sizeof(root)));
    EXPECT(chmod(root, 0777) == 0);
    hn_log_configure("error");
    hn_store *store = open_store(root, 0);
    EXPECT_STR(hn_store_dir(store), "");
    EXPECT(!put(store, 1, "x", 1));
    EXPECT(!holds(store, 1, "x", 1));
    hn_store_close(store);
    /* The same when only a directory above can be written to. */
    char below[PATH_MAX + 8];
    snprintf(below, sizeof(below), "%s/below", root);
    store = open_store(below, 0);
    EXPECT_STR(hn_store_dir(store), "");
    hn_store_close(store);
    EXPECT(chmod(root, 0700) == 0);
    store = open_store(below, 0);
    EXPECT(hn_store_dir(store)[0] == '/');
    EXPECT(put(store, 1, "x", 1));
    hn_log_configure(NULL);
    close_fresh(store);
}

TEST(a_foreign_directory_is_not_used) {
    if (geteuid() != 0) {
        hn_test_skip("only root can make a directory that belongs to somebody else");
        return;
    }
    EXPECT_OK(hn_dir_temp(root, sizeof(root)));
    EXPECT(chown(root, 12345, 12345) == 0);
    hn_log_configure("error");
    hn_store *store = open_store(root, 0);
    EXPECT_STR(hn_store_dir(store), "");
    hn_log_configure(NULL);
    close_fresh(store);
}

TEST(a_path_that_cannot_be_made_is_no_error) {
    hn_log_configure("error");
    hn_store *store = open_store("/proc/no/such/place", 0);
    EXPECT(!put(store, 1, "x", 1));
    EXPECT(!holds(store, 1, "x", 1));
    hn_store_usage usage;
    EXPECT_ERROR(hn_store_usage_get(store, &usage), HN_NOT_FOUND, "no cache on disk");
    hn_store_close(store);
    hn_log_configure(NULL);
}

TEST(a_full_disk_is_no_error) {
    hn_store *store = open_fresh();
    static char bytes[100000];
    EXPECT(put(store, 1, "x", 1));
    /* A file size limit fails in the middle of a write, as a full disk does, and raises SIGXFSZ
     * besides. */
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){.rlim_cur = 50000, .rlim_max = old.rlim_max};
    EXPECT(setrlimit(RLIMIT_FSIZE, &small) == 0);
    hn_log_configure("error");
    EXPECT(!put(store, 2, bytes, sizeof(bytes)));
    hn_log_configure(NULL);
    EXPECT(setrlimit(RLIMIT_FSIZE, &old) == 0);
    hn_store_stats stats;
    hn_store_stats_get(store, &stats);
    EXPECT_INT(stats.put_failures, 1);
    hn_store_usage usage;
    EXPECT_OK(hn_store_usage_get(store, &usage));
    EXPECT_INT(usage.entries[HN_STORE_KERNEL], 1);
    EXPECT(usage.total_bytes <= 8192); /* the unfinished file is gone */
    EXPECT(put(store, 2, bytes, sizeof(bytes)));
    close_fresh(store);
}

/* Writers, readers and evictors on one small directory: no wrong byte, no crash. */
static void contend(int seed) {
    hn_store *store = open_store(root, 120000);
    char bytes[9000];
    unsigned state = (unsigned)seed;
    for (int round = 0; round < 300; round++) {
        state = state * 1103515245u + 12345u;
        int n = (int)(state >> 16) % 24;
        hn_digest key = key_of(n);
        hn_store_entry entry;
        memset(bytes, n, sizeof(bytes));
        if (hn_store_get(store, HN_STORE_KERNEL, &key, &entry)) {
            if (entry.len != sizeof(bytes) || memcmp(entry.bytes, bytes, sizeof(bytes)) != 0)
                _exit(3);
            hn_store_entry_deinit(&entry);
        } else {
            put(store, n, bytes, sizeof(bytes));
        }
    }
    hn_store_stats stats;
    hn_store_stats_get(store, &stats);
    _exit(stats.quarantined || stats.put_failures ? 4 : 0);
}

TEST(many_processes_share_a_directory) {
    EXPECT_OK(hn_dir_temp(root, sizeof(root)));
    pid_t pids[8];
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        if (pids[i] == 0) contend(i + 1);
    }
    for (int i = 0; i < 8; i++) {
        int status = -1;
        EXPECT(waitpid(pids[i], &status, 0) == pids[i]);
        EXPECT_INT(status, 0);
    }
    hn_store *store = open_store(root, 120000);
    hn_store_verify_report report;
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.bad, 0);
    EXPECT(report.good > 0);
    close_fresh(store);
}

TEST_MAIN
