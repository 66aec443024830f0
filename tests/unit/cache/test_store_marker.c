/* test_store_marker.c: which folders a store takes over, and that files of others in them are left
 * alone. */
#include "cache/record.h"
#include "cache/store.h"

#include "base/file.h"
#include "base/log.h"
#include "unit/harness.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char root[PATH_MAX - 256];

static const char *below(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static void make_folder(const char *name) { EXPECT_OK(hn_dir_create(below(name))); }

static void make_file(const char *name, const char *text) {
    EXPECT_OK(hn_file_write_atomic(below(name), text, strlen(text), false));
}

static bool has(const char *name, const char *text) {
    hn_strbuf bytes;
    hn_strbuf_init(&bytes);
    hn_status status = hn_file_read(below(name), &bytes);
    bool same = !status && bytes.len == strlen(text) &&
                memcmp(hn_strbuf_str(&bytes).ptr, text, bytes.len) == 0;
    hn_status_free(status);
    hn_strbuf_deinit(&bytes);
    return same;
}

static hn_status open_root(hn_store **out) {
    return hn_store_open(&(hn_store_options){.dir = root, .is_required = true}, out);
}

static void expect_refused(hn_code code, const char *text) {
    hn_store *store = NULL;
    EXPECT_ERROR(open_root(&store), code, text);
    EXPECT(!store);
    /* Who can do without gets no disk, and one warning. */
    hn_log_configure("error");
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = root}, &store));
    EXPECT_STR(hn_store_dir(store), "");
    hn_log_configure(NULL);
    hn_store_close(store);
}

static void expect_opened(void) {
    hn_store *store = NULL;
    EXPECT_OK(open_root(&store));
    hn_store_close(store);
}

static void put_one(hn_store *store, hn_store_ns ns) {
    hn_digest key = hn_digest_of("one", 3);
    EXPECT(hn_store_put(
        store,
        &(hn_store_put_args){.ns = ns, .key = &key, .bytes = "x", .len = 1, .record = HN_STR("")}));
}

static void begin(void) { EXPECT_OK(hn_dir_temp(root, sizeof(root))); }
static void end(void) { EXPECT_OK(hn_dir_remove(root)); }

TEST(an_empty_folder_gets_the_marker) {
    begin();
    expect_opened();
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(hn_file_read(below("CACHEDIR.TAG"), &text));
    EXPECT(hn_str_starts_with(hn_strbuf_str(&text),
                              HN_STR("Signature: 8a477f597d28d172789f06886806bc55\n")));
    EXPECT(strstr(hn_strbuf_str(&text).ptr, "\n# henry cache layout: 1\n"));
    hn_strbuf_deinit(&text);
    expect_opened();
    end();
}

TEST(a_folder_with_files_of_others_is_refused) {
    static const char *const names[] = {
        "notes",         ".git",           "kernel/foo.c",         "graph/ab/foo",    "tmp/x",
        "failed/main.c", "lease/kernel-1", "quarantine/photo.jpg", "kernel/ab/cd/ef", "usage"};
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        char folder[64];
        begin();
        snprintf(folder, sizeof(folder), "%s", names[k]);
        if (strchr(folder, '/')) {
            *strrchr(folder, '/') = 0;
            make_folder(folder);
        }
        make_file(names[k], "mine, and nobody else's");
        expect_refused(HN_INVALID_ARGUMENT, "which henry did not write");
        EXPECT(has(names[k], "mine, and nobody else's"));
        EXPECT(!hn_file_exists(below("CACHEDIR.TAG")));
        end();
    }
}

TEST(links_instead_of_folders_are_refused) {
    char elsewhere[PATH_MAX];
    for (int has_marker = 0; has_marker < 2; has_marker++) {
        begin();
        if (has_marker) expect_opened();
        EXPECT_OK(hn_dir_temp(elsewhere, sizeof(elsewhere)));
        EXPECT(symlink(elsewhere, below("kernel")) == 0);
        expect_refused(HN_INVALID_ARGUMENT,
                       has_marker ? "/kernel' is not a folder" : "it holds 'kernel'");
        EXPECT_OK(hn_dir_remove(elsewhere));
        end();
    }
}

TEST(a_cache_from_before_is_adopted) {
    hn_store *store = NULL;
    begin();
    EXPECT_OK(open_root(&store));
    for (int ns = 0; ns < HN_STORE_NS_COUNT; ns++) put_one(store, (hn_store_ns)ns);
    hn_digest key = hn_digest_of("one", 3);
    EXPECT(hn_store_put_failed_source(store, &key, ".cpp", "int", 3));
    uint64_t removed;
    EXPECT_OK(hn_store_gc(store, 1 << 30, &removed)); /* makes gc.lock */
    hn_store_close(store);
    make_folder("lease");
    make_file("lease/kernel-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "");
    make_folder("quarantine");
    make_file("quarantine/0123456789abcdef", "bad");
    make_folder("lost+found"); /* of a disk for the cache alone */
    EXPECT(unlink(below("CACHEDIR.TAG")) == 0);
    expect_opened();
    EXPECT(hn_file_exists(below("CACHEDIR.TAG")));
    make_file("CACHEDIR.TAG", ""); /* as after a power cut */
    expect_opened();
    end();
}

TEST(a_read_only_cache_from_before_is_used) {
    hn_store *store = NULL;
    hn_store_entry entry;
    hn_digest key = hn_digest_of("one", 3);
    begin();
    EXPECT_OK(open_root(&store));
    put_one(store, HN_STORE_KERNEL);
    hn_store_close(store);
    EXPECT(unlink(below("CACHEDIR.TAG")) == 0 && chmod(root, 0500) == 0);
    EXPECT_OK(open_root(&store));
    EXPECT(hn_store_get(store, HN_STORE_KERNEL, &key, &entry));
    hn_store_entry_deinit(&entry);
    hn_store_close(store);
    EXPECT(chmod(root, 0700) == 0);
    end();
}

TEST(markers_of_others_and_of_newer_versions) {
    begin();
    make_file("CACHEDIR.TAG",
              "Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n");
    expect_refused(HN_INVALID_ARGUMENT, "it holds 'CACHEDIR.TAG'");
    make_file("CACHEDIR.TAG",
              "Signature: 8a477f597d28d172789f06886806bc55\n# henry cache layout: 2\n");
    expect_refused(HN_INCOMPATIBLE, "newer version of henry");
    make_file("CACHEDIR.TAG",
              "Signature: 8a477f597d28d172789f06886806bc55\n# henry cache layout: 1\n");
    expect_opened();
    end();
}

/* Files that a user keeps inside a cache: with its marker it is one, and these are none of its
 * business. */
TEST(files_of_others_inside_a_cache_stay) {
    static const char *const names[] = {"mine.txt",
                                        "kernel/foo.c",
                                        "kernel/ab/foo.c",
                                        "kernel/abc/0123",
                                        "graph/notes",
                                        "tmp/old",
                                        "failed/main.c",
                                        "lease/notes",
                                        "quarantine/photo.jpg",
                                        ".henry-tmp-0123456789abcdef"};
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    hn_store *store = NULL;
    hn_store_verify_report report;
    hn_store_usage usage;
    uint64_t removed;
    begin();
    EXPECT_OK(open_root(&store));
    put_one(store, HN_STORE_KERNEL);
    static const char *const folders[] = {"kernel/ab", "kernel/abc", "graph",     "tmp",
                                          "failed",    "lease",      "quarantine"};
    for (size_t k = 0; k < sizeof(folders) / sizeof(folders[0]); k++) make_folder(folders[k]);
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        make_file(names[k], names[k]);
        EXPECT(utimensat(AT_FDCWD, below(names[k]), old, 0) == 0);
    }
    EXPECT_OK(hn_store_usage_get(store, &usage));
    EXPECT_INT(usage.entries[HN_STORE_KERNEL], 1);
    EXPECT_INT(usage.quarantined, 0);
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.good, 1);
    EXPECT_INT(report.bad, 0);
    EXPECT_OK(hn_store_gc(store, 1, &removed));
    EXPECT_INT(removed, 1);
    put_one(store, HN_STORE_GRAPH);
    EXPECT_OK(hn_store_clear(store, &removed));
    EXPECT_INT(removed, 1);
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) EXPECT(has(names[k], names[k]));
    hn_store_close(store);
    end();
}

TEST(what_a_link_leads_to_stays) {
    char elsewhere[PATH_MAX - 128], target[PATH_MAX];
    hn_store *store = NULL;
    uint64_t removed;
    begin();
    EXPECT_OK(hn_dir_temp(elsewhere, sizeof(elsewhere)));
    snprintf(target, sizeof(target), "%s/%062d", elsewhere, 0);
    EXPECT_OK(hn_file_write_atomic(target, "mine", 4, false));
    EXPECT_OK(open_root(&store));
    make_folder("kernel");
    EXPECT(symlink(elsewhere, below("kernel/ab")) == 0);
    hn_store_verify_report report;
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.bad, 0);
    EXPECT_OK(hn_store_clear(store, &removed));
    EXPECT(hn_file_exists(target) && hn_file_exists(below("kernel/ab")));
    hn_store_close(store);
    EXPECT_OK(hn_dir_remove(elsewhere));
    end();
}

TEST(a_users_file_usage_is_not_written_to) {
    hn_store *store = NULL;
    begin();
    expect_opened();
    make_file("usage", "how to use this folder");
    EXPECT_OK(open_root(&store));
    put_one(store, HN_STORE_KERNEL);
    EXPECT(has("usage", "how to use this folder"));
    hn_store_close(store);
    end();
}

TEST(many_processes_make_one_cache) {
    enum { PROCESSES = 64, ROUNDS = 4 };
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[PROCESSES];
        for (int i = 0; i < PROCESSES; i++) {
            pids[i] = fork();
            if (pids[i] != 0) continue;
            hn_store *store = NULL;
            hn_digest key = hn_digest_of(&i, sizeof(i));
            hn_status status = open_root(&store);
            bool ok = !status &&
                      hn_store_put(store,
                                   &(hn_store_put_args){
                                       .ns = HN_STORE_KERNEL, .key = &key, .bytes = "x", .len = 1});
            if (status) fprintf(stderr, "%s\n", hn_status_message(status));
            _exit(ok ? 0 : 1);
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status = -1;
            EXPECT(waitpid(pids[i], &status, 0) == pids[i]);
            EXPECT_INT(status, 0);
        }
        EXPECT(hn_file_exists(below("CACHEDIR.TAG")));
        /* next round: a cache from before, adopted by all at once */
        EXPECT(unlink(below("CACHEDIR.TAG")) == 0);
    }
    end();
}

TEST_MAIN
