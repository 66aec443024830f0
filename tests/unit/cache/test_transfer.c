/* test_transfer.c: entries as one file, to another cache and back; damage of that file; locks on
 * files. */
#include "cache/entry.h"
#include "cache/store_internal.h"
#include "cache/transfer.h"

#include "base/file.h"
#include "base/log.h"
#include "unit/harness.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char root[PATH_MAX - 256], file[PATH_MAX];

static hn_cache cache_open(const char *name) {
    char dir[PATH_MAX];
    hn_store *store = NULL;
    hn_cache cache = {0};
    if (!root[0]) EXPECT_OK(hn_dir_temp(root, sizeof(root)));
    snprintf(file, sizeof(file), "%s/entries", root);
    snprintf(dir, sizeof(dir), "%s/%s", root, name);
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = dir}, &store));
    EXPECT_OK(hn_cache_init(store, "", &cache));
    return cache;
}

static void cache_close(hn_cache *cache) {
    hn_store *store = cache->store;
    hn_cache_deinit(cache);
    hn_store_close(store);
}

static void root_end(void) {
    EXPECT_OK(hn_dir_remove(root));
    root[0] = 0;
}

static hn_digest key_of(int n) { return hn_digest_of(&n, sizeof(n)); }

static void put(hn_cache *cache, hn_store_ns ns, int n, const char *text) {
    hn_digest key = key_of(n);
    hn_cache_put(cache,
                 &(hn_store_put_args){.ns = ns, .key = &key, .bytes = text, .len = strlen(text)});
}

static bool holds(hn_cache *cache, hn_store_ns ns, int n, const char *text) {
    hn_digest key = key_of(n);
    hn_store_entry entry;
    if (hn_cache_get(cache, ns, &key, &entry) == HN_LEVEL_NONE) return false;
    bool same = entry.len == strlen(text) && memcmp(entry.bytes, text, entry.len) == 0;
    hn_store_entry_deinit(&entry);
    return same;
}

static void add(hn_entry_list *list, hn_store_ns ns, int n) {
    hn_digest key = key_of(n);
    hn_entry_list_add(list, ns, &key);
}

/* Two entries in `file`. */
static void make_file(hn_cache *from) {
    hn_entry_list list = {0};
    hn_transfer_report report;
    put(from, HN_STORE_KERNEL, 1, "kernel");
    put(from, HN_STORE_GRAPH, 2, "graph");
    add(&list, HN_STORE_KERNEL, 1);
    add(&list, HN_STORE_GRAPH, 2);
    add(&list, HN_STORE_KERNEL, 1); /* once is enough */
    add(&list, HN_STORE_KERNEL, 3); /* gone */
    EXPECT_OK(hn_cache_export(from, &list, file, &report));
    EXPECT_INT(report.entries[HN_STORE_KERNEL], 1);
    EXPECT_INT(report.entries[HN_STORE_GRAPH], 1);
    EXPECT_INT(report.missing, 1);
    hn_entry_list_deinit(&list);
}

TEST(entries_travel_in_a_file) {
    hn_cache from = cache_open("from"), to = cache_open("to");
    hn_transfer_report report;
    make_file(&from);
    for (int round = 0; round < 2; round++) {
        EXPECT_OK(hn_store_import(to.store, file, &report));
        EXPECT_INT(report.existing, round ? 2 : 0);
        EXPECT(holds(&to, HN_STORE_KERNEL, 1, "kernel"));
        EXPECT(holds(&to, HN_STORE_GRAPH, 2, "graph"));
    }
    cache_close(&from);
    cache_close(&to);
    root_end();
}

TEST(nothing_to_export_is_an_error) {
    hn_cache from = cache_open("from");
    hn_entry_list list = {0};
    hn_transfer_report report;
    add(&list, HN_STORE_KERNEL, 1);
    EXPECT_ERROR(hn_cache_export(&from, &list, file, &report), HN_NOT_FOUND, "nothing to export");
    EXPECT(!hn_file_exists(file));
    hn_entry_list_deinit(&list);
    cache_close(&from);
    root_end();
}

/* Every byte of the file changed and every cut: one error, and nothing was published. */
TEST(a_damaged_file_imports_nothing) {
    hn_cache from = cache_open("from"), to = cache_open("to");
    hn_transfer_report report;
    hn_strbuf good;
    hn_strbuf_init(&good);
    make_file(&from);
    EXPECT_OK(hn_file_read(file, &good));
    int wrong = 0;
    for (size_t i = 0; i < 2 * good.len; i++) {
        bool is_cut = i >= good.len;
        if (!is_cut) good.ptr[i] = (char)(good.ptr[i] ^ 0x20);
        EXPECT_OK(hn_file_write_atomic(file, good.ptr, is_cut ? i - good.len : good.len, false));
        hn_status status = hn_store_import(to.store, file, &report);
        hn_code code = hn_status_code(status);
        wrong += code != HN_CORRUPT && code != HN_INCOMPATIBLE;
        wrong += strchr(hn_status_message(status), '\n') != NULL;
        hn_status_free(status);
        if (!is_cut) good.ptr[i] = (char)(good.ptr[i] ^ 0x20);
    }
    EXPECT_INT(wrong, 0);
    hn_store_usage usage;
    EXPECT_OK(hn_store_usage_get(to.store, &usage));
    EXPECT_INT(usage.entries[HN_STORE_KERNEL] + usage.entries[HN_STORE_GRAPH], 0);
    EXPECT_ERROR(hn_store_import(to.store, "/nix/nothing", &report), HN_NOT_FOUND,
                 "cannot import '/nix/nothing'");
    hn_strbuf_deinit(&good);
    cache_close(&from);
    cache_close(&to);
    root_end();
}

TEST(answers_about_tools_stay) {
    hn_cache from = cache_open("from"), to = cache_open("to");
    hn_entry_list list = {0};
    hn_transfer_report report;
    put(&from, HN_STORE_TOOLCHAIN, 1, "x");
    put(&from, HN_STORE_KERNEL, 2, "y");
    add(&list, HN_STORE_KERNEL, 2);
    add(&list, HN_STORE_TOOLCHAIN, 1);
    EXPECT_OK(hn_cache_export(&from, &list, file, &report));
    EXPECT_ERROR(hn_store_import(to.store, file, &report), HN_CORRUPT, "tools of one machine");
    EXPECT(!holds(&to, HN_STORE_KERNEL, 2, "y"));
    hn_entry_list_deinit(&list);
    cache_close(&from);
    cache_close(&to);
    root_end();
}

TEST(entries_are_found_by_their_first_digits) {
    hn_cache cache = cache_open("from");
    hn_entry_list list = {0};
    hn_digest key = key_of(1), parsed;
    char hex[HN_DIGEST_HEX_BYTES];
    put(&cache, HN_STORE_KERNEL, 1, "kernel");
    hn_digest_hex(&key, hex);
    EXPECT(hn_store_key_parse(hex, &parsed) && memcmp(&key, &parsed, sizeof(key)) == 0);
    EXPECT(!hn_store_key_parse("12", &parsed));
    for (size_t len = 7; len <= 64; len++) {
        char digits[65];
        snprintf(digits, sizeof(digits), "%.*s", (int)len, hex);
        if (len < 8)
            EXPECT_ERROR(hn_store_find(cache.store, digits, &list), HN_INVALID_ARGUMENT,
                         "first 8 to 64");
        else EXPECT_OK(hn_store_find(cache.store, digits, &list));
    }
    EXPECT_INT(list.count, 1);
    EXPECT_ERROR(hn_store_find(cache.store, "../../../etc", &list), HN_INVALID_ARGUMENT,
                 "neither a file");
    EXPECT_ERROR(hn_store_find(cache.store, "00000000", &list), HN_NOT_FOUND,
                 "begins with '00000000'");
    hn_entry_list_deinit(&list);
    cache_close(&cache);
    root_end();
}

/* ---- a directory as on a network file system ---- */

TEST(files_are_read_where_they_may_not_be_mapped) {
    char dir[PATH_MAX];
    hn_store *store;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = dir, .no_mapping = true}, &store));
    EXPECT(!hn_store_is_mappable(store));
    size_t len = 1 << 20;
    char *big = calloc(1, len);
    hn_digest key = key_of(1);
    hn_store_entry entry;
    EXPECT(hn_store_put(
        store, &(hn_store_put_args){.ns = HN_STORE_KERNEL, .key = &key, .bytes = big, .len = len}));
    EXPECT(hn_store_get(store, HN_STORE_KERNEL, &key, &entry) && entry.len == len);
    EXPECT_INT(entry.mapped_bytes, 0);
    /* What was read stays right when the file is cut under it. */
    char path[PATH_MAX];
    hn_store_entry_path(store, HN_STORE_KERNEL, &key, path);
    EXPECT(truncate(path, 0) == 0);
    EXPECT(memcmp(entry.bytes, big, len) == 0);
    hn_store_entry_deinit(&entry);
    free(big);
    hn_store_close(store);
    EXPECT_OK(hn_dir_remove(dir));
}

/* ---- leases without a server ---- */

TEST(a_lease_has_one_holder) {
    hn_cache a = cache_open("from"), b = cache_open("from");
    hn_digest key = key_of(1), other = key_of(2);
    hn_lease mine, theirs;
    EXPECT_INT(hn_lease_try(a.leases, HN_STORE_KERNEL, &key, true, &mine), HN_LEASE_MINE);
    EXPECT(mine != 0);
    EXPECT_INT(hn_lease_try(b.leases, HN_STORE_KERNEL, &key, true, &theirs), HN_LEASE_THEIRS);
    EXPECT_INT(hn_lease_try(a.leases, HN_STORE_KERNEL, &key, true, &theirs), HN_LEASE_THEIRS);
    /* another kind */
    EXPECT_INT(hn_lease_try(b.leases, HN_STORE_GRAPH, &key, true, &theirs), HN_LEASE_MINE);
    hn_lease_release(b.leases, theirs);
    EXPECT_INT(hn_lease_try(b.leases, HN_STORE_KERNEL, &other, true, &theirs), HN_LEASE_MINE);
    hn_lease_release(b.leases, theirs);
    hn_lease_release(a.leases, mine);
    EXPECT_INT(hn_lease_try(b.leases, HN_STORE_KERNEL, &key, true, &theirs), HN_LEASE_MINE);
    cache_close(&b); /* which gives it back */
    EXPECT_INT(hn_lease_try(a.leases, HN_STORE_KERNEL, &key, true, &mine), HN_LEASE_MINE);
    hn_lease_release(a.leases, mine);
    cache_close(&a);
    root_end();
}

/* In place of the C library's: what happens between opening a lock and taking it. */
static void (*before_lock)(void);

int flock(int fd, int operation) {
    void (*call)(void) = before_lock;
    before_lock = NULL;
    if (call) call();
    return (int)syscall(SYS_flock, fd, operation);
}

static hn_cache *leader;
static hn_lease led;
static void leader_ends(void) { hn_lease_release(leader->leases, led); }

/* The next one has opened the file of a leader who unlinks it this moment: a lock on that file
 * excludes nobody. */
TEST(the_lock_of_a_file_that_is_gone_leads_nobody) {
    hn_cache a = cache_open("from"), b = cache_open("from"), c = cache_open("from");
    hn_digest key = key_of(1);
    hn_lease second, third;
    EXPECT_INT(hn_lease_try(a.leases, HN_STORE_KERNEL, &key, true, &led), HN_LEASE_MINE);
    leader = &a;
    before_lock = leader_ends;
    EXPECT_INT(hn_lease_try(b.leases, HN_STORE_KERNEL, &key, true, &second), HN_LEASE_MINE);
    EXPECT(!before_lock && second != 0);
    EXPECT_INT(hn_lease_try(c.leases, HN_STORE_KERNEL, &key, true, &third), HN_LEASE_THEIRS);
    hn_lease_release(b.leases, second);
    EXPECT_INT(hn_lease_try(c.leases, HN_STORE_KERNEL, &key, true, &third), HN_LEASE_MINE);
    hn_lease_release(c.leases, third);
    cache_close(&a);
    cache_close(&b);
    cache_close(&c);
    root_end();
}

/* The files of leases that were given back are gone; those of dead processes go with the next
 * eviction. */
TEST(locks_leave_nothing_behind) {
    hn_cache a = cache_open("from");
    hn_digest key = key_of(1), dead = key_of(2);
    hn_lease lease;
    char path[PATH_MAX], hex[HN_DIGEST_HEX_BYTES], held[PATH_MAX];
    EXPECT_INT(hn_lease_try(a.leases, HN_STORE_KERNEL, &key, true, &lease), HN_LEASE_MINE);
    hn_digest_hex(&key, hex);
    snprintf(held, sizeof(held), "%s/lease/kernel-%s", hn_store_dir(a.store), hex);
    pid_t child = fork();
    if (child == 0) {
        hn_cache own = cache_open("from");
        hn_lease never;
        (void)hn_lease_try(own.leases, HN_STORE_KERNEL, &dead, true, &never);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    hn_digest_hex(&dead, hex);
    snprintf(path, sizeof(path), "%s/lease/kernel-%s", hn_store_dir(a.store), hex);
    EXPECT(hn_file_exists(path) && hn_file_exists(held));
    uint64_t removed;
    EXPECT_OK(hn_store_gc(a.store, 0, &removed));
    EXPECT(!hn_file_exists(path)); /* nobody locks it any more */
    EXPECT(hn_file_exists(held));
    hn_lease_release(a.leases, lease);
    EXPECT(!hn_file_exists(held));
    cache_close(&a);
    root_end();
}

/* Where no file can be made there is nothing to hold, and nobody to wait for. */
TEST(without_a_disk_everybody_leads) {
    hn_store *store;
    hn_cache cache;
    hn_digest key = key_of(1);
    hn_lease lease;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    EXPECT_OK(hn_cache_init(store, "", &cache));
    for (int i = 0; i < 2; i++) {
        EXPECT_INT(hn_lease_try(cache.leases, HN_STORE_KERNEL, &key, true, &lease), HN_LEASE_MINE);
        EXPECT_INT(lease, 0);
    }
    hn_lease_release(cache.leases, lease);
    hn_cache_deinit(&cache);
    hn_store_close(store);
}

/* A planted symbolic link is not followed. */
TEST(a_lock_is_no_link) {
    hn_cache a = cache_open("from");
    hn_digest key = key_of(1);
    hn_lease lease;
    char path[PATH_MAX], hex[HN_DIGEST_HEX_BYTES], target[PATH_MAX];
    hn_digest_hex(&key, hex);
    snprintf(path, sizeof(path), "%s/lease", hn_store_dir(a.store));
    EXPECT(mkdir(path, 0700) == 0);
    snprintf(path, sizeof(path), "%s/lease/kernel-%s", hn_store_dir(a.store), hex);
    snprintf(target, sizeof(target), "%s/target", root);
    EXPECT(symlink(target, path) == 0);
    EXPECT_INT(hn_lease_try(a.leases, HN_STORE_KERNEL, &key, true, &lease), HN_LEASE_MINE);
    EXPECT_INT(lease, 0);
    EXPECT(!hn_file_exists(target));
    cache_close(&a);
    root_end();
}

TEST_MAIN
