/* store_gc.c: what looks at all entries: eviction, verification, clearing, usage, reasons.
 *
 * A walk sees a moving target: other processes publish, evict and quarantine meanwhile, so a file
 * that is gone is never an error. One process evicts at a time (an advisory lock on "gc.lock"); the
 * lock saves work and nothing depends on it. */
#include "cache/store_internal.h"

#include "base/file.h"
#include "base/oserror.h"
#include "cache/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    /* where locks do not tell: a writer takes milliseconds, older files belong to dead ones */
    STALE_S = 3600,
    KEEP_SIDE_FILES_S = 7 * 24 * 3600, /* quarantined entries and failed sources */
};

static hn_status need_disk(const hn_store *store) {
    return store->dir_fd >= 0
               ? NULL
               : HN_ERROR(HN_NOT_FOUND, "there is no cache on disk; set HENRY_CACHE_DIR");
}

hn_status hn_store_usage_get(hn_store *store, hn_store_usage *out_usage) {
    *out_usage = (hn_store_usage){.max_bytes = store->max_bytes};
    HN_TRY(need_disk(store));
    hn_walk_list list;
    HN_TRY(hn_store_walk(store, &list));
    for (size_t i = 0; i < list.count; i++) {
        const hn_walk_file *file = &list.files[i];
        out_usage->total_bytes += file->bytes;
        out_usage->quarantined += file->area == HN_AREA_QUARANTINE;
        if (file->area >= HN_STORE_NS_COUNT) continue;
        out_usage->entries[file->area]++;
        out_usage->bytes[file->area] += file->bytes;
    }
    free(list.files);
    return NULL;
}

/* The key that the name of an entry spells, or false. */
static bool key_of_name(const char *name, hn_digest *out_key) {
    const char *at = strchr(name, '/');
    if (!at || strlen(at) != 1 + 2 + 1 + 62 || at[3] != '/') return false;
    char hex[HN_DIGEST_HEX_BYTES];
    snprintf(hex, sizeof(hex), "%.2s%s", at + 1, at + 4);
    return hn_store_key_parse(hex, out_key);
}

static void verify_file(hn_store *store, hn_store_ns ns, const char *name,
                        hn_store_verify_report *report) {
    struct stat info;
    int fd = hn_store_entry_open(store, name, &info);
    int err = fd < 0 ? errno : 0;
    if (err && err != ELOOP) {
        report->unread += err != ENOENT; /* evicted meanwhile */
        return;
    }
    hn_digest key;
    hn_store_entry entry;
    hn_entry_footer footer;
    hn_status status = fd < 0 || !key_of_name(name, &key)
                           ? HN_ERROR(HN_CORRUPT, "not the name of an entry")
                           : hn_store_entry_read(store, fd, &info, ns, &key, &entry, &footer);
    if (!status) {
        hn_store_entry_deinit(&entry);
        report->good++;
        return;
    }
    if (fd >= 0) close(fd);
    hn_code code = hn_status_code(status);
    report->other_version += code == HN_INCOMPATIBLE;
    report->bad += code == HN_CORRUPT;
    report->unread += code != HN_INCOMPATIBLE && code != HN_CORRUPT;
    if (code == HN_CORRUPT) hn_store_quarantine(store, name);
    hn_status_free(status);
}

hn_status hn_store_verify(hn_store *store, hn_store_verify_report *out_report) {
    *out_report = (hn_store_verify_report){0};
    HN_TRY(need_disk(store));
    hn_walk_list list;
    HN_TRY(hn_store_walk(store, &list));
    for (size_t i = 0; i < list.count; i++)
        if (list.files[i].area < HN_STORE_NS_COUNT)
            verify_file(store, (hn_store_ns)list.files[i].area, list.files[i].name, out_report);
    free(list.files);
    return NULL;
}

static int by_age(const void *a, const void *b) {
    const hn_walk_file *x = a, *y = b;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static bool is_old(const hn_walk_file *file, int64_t now_s) {
    int64_t age_s = now_s - file->used_ns / 1000000000;
    if (file->area == HN_AREA_TEMP || file->area == HN_AREA_LEASE) return age_s > STALE_S;
    return file->area > HN_AREA_TEMP && age_s > KEEP_SIDE_FILES_S;
}

/* An unfinished file or a lease whose owner died; one that is locked stays. */
static bool remove_unlocked(const hn_store *store, const char *name) {
    int fd = openat(store->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool removed = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(store->dir_fd, name, 0) == 0;
    close(fd);
    return removed;
}

/* Locks on a network file system need not reach other machines, so there only age tells that an
 * owner is dead. */
static bool remove_leftover(const hn_store *store, const hn_walk_file *file, int64_t now_s) {
    bool old = is_old(file, now_s);
    if (file->area == HN_AREA_LEASE || (file->area == HN_AREA_TEMP && !old))
        return (old || store->is_mappable) && remove_unlocked(store, file->name);
    return old && unlinkat(store->dir_fd, file->name, 0) == 0;
}

/* Removes leftovers, then the oldest files, until `max_bytes` are left. Files of live writers
 * stay. */
static uint64_t evict(hn_store *store, hn_walk_list *list, uint64_t max_bytes,
                      int64_t usage_before) {
    uint64_t total = 0, removed = 0;
    int64_t now_s = time(NULL);
    if (list->count) qsort(list->files, list->count, sizeof(*list->files), by_age);
    for (size_t i = 0; i < list->count; i++) total += list->files[i].bytes;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < list->count; i++) {
            hn_walk_file *file = &list->files[i];
            if (!file->name[0]) continue;
            bool is_gone = pass == 0 ? remove_leftover(store, file, now_s)
                                     : total > max_bytes && file->area != HN_AREA_TEMP &&
                                           file->area != HN_AREA_LEASE &&
                                           unlinkat(store->dir_fd, file->name, 0) == 0;
            if (!is_gone) continue;
            file->name[0] = 0;
            total -= file->bytes;
            removed++;
        }
    }
    hn_store_usage_set(store, (int64_t)total, usage_before);
    atomic_fetch_add(&store->evicted, removed);
    return removed;
}

/* Runs `evict` unless another process is at it. */
static hn_status evict_locked(hn_store *store, uint64_t max_bytes, uint64_t *out_removed) {
    int lock = openat(store->dir_fd, "gc.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0) return HN_OS_ERROR(errno, "cannot open '%s/gc.lock'", store->dir);
    hn_status status = NULL;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
        hn_walk_list list;
        int64_t usage_before = hn_store_usage_add(store, 0);
        status = hn_store_walk(store, &list);
        if (!status) {
            *out_removed = evict(store, &list, max_bytes, usage_before);
            free(list.files);
        }
    }
    close(lock);
    return status;
}

hn_status hn_store_gc(hn_store *store, uint64_t max_bytes, uint64_t *out_removed) {
    *out_removed = 0;
    HN_TRY(need_disk(store));
    return evict_locked(store, max_bytes ? max_bytes : store->max_bytes / 5 * 4, out_removed);
}

/* Folders with names of their form, and nothing else. */
static hn_status clear_pchs(const hn_store *store) {
    hn_status status = NULL;
    int fd = openat(store->dir_fd, HN_STORE_PCH, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (!list) {
        if (fd >= 0) close(fd);
        return NULL;
    }
    for (const struct dirent *entry; !status && (entry = readdir(list));) {
        char path[PATH_MAX + 64];
        struct stat info;
        bool is_ours = strlen(entry->d_name) == HN_STORE_PCH_DIGITS &&
                       strspn(entry->d_name, "0123456789abcdef") == HN_STORE_PCH_DIGITS &&
                       fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISDIR(info.st_mode);
        if (!is_ours) continue;
        snprintf(path, sizeof(path), "%s/" HN_STORE_PCH "/%.32s", store->dir, entry->d_name);
        status = hn_dir_remove(path);
    }
    closedir(list);
    unlinkat(store->dir_fd, HN_STORE_PCH, AT_REMOVEDIR); /* unless there is something else in it */
    return status;
}

hn_status hn_store_clear(hn_store *store, uint64_t *out_removed) {
    *out_removed = 0;
    HN_TRY(need_disk(store));
    HN_TRY(clear_pchs(store));
    return evict_locked(store, 0, out_removed);
}

/* ---- reasons ---- */

typedef struct candidate {
    hn_store_entry entry;
    uint32_t differences;
    int64_t used_ns;
    bool is_set;
} candidate;

/* False for one that does not verify: the next read of that entry deals with it. */
static bool look_at(hn_store *store, const hn_walk_file *file, hn_store_entry *out) {
    struct stat info;
    hn_entry_footer footer;
    int fd = hn_store_entry_open(store, file->name, &info);
    if (fd < 0) return false;
    hn_status status =
        hn_store_entry_read(store, fd, &info, (hn_store_ns)file->area, NULL, out, &footer);
    if (status) close(fd);
    hn_status_free(status);
    return !status;
}

static void consider(hn_store *store, const hn_walk_file *file, hn_str wanted, candidate *best) {
    candidate found = {.used_ns = file->used_ns, .is_set = true};
    if (!look_at(store, file, &found.entry)) return;
    found.differences = hn_record_diff(found.entry.record, wanted, NULL);
    bool is_better = !best->is_set || found.differences < best->differences ||
                     (found.differences == best->differences && found.used_ns > best->used_ns);
    if (!found.entry.record.len || !is_better) {
        hn_store_entry_deinit(&found.entry);
        return;
    }
    if (best->is_set) hn_store_entry_deinit(&best->entry);
    *best = found;
}

hn_status hn_store_each(hn_store *store, hn_store_ns ns,
                        void (*visit)(void *user, const hn_store_entry *entry), void *user) {
    hn_walk_list list = {0};
    hn_store_entry entry;
    HN_TRY(need_disk(store));
    hn_status status = hn_store_walk_area(store, (int)ns, &list);
    for (size_t i = 0; !status && i < list.count; i++) {
        if (!look_at(store, &list.files[i], &entry)) continue;
        if (!entry.is_failure) visit(user, &entry);
        hn_store_entry_deinit(&entry);
    }
    free(list.files);
    return status;
}

hn_status hn_store_why(hn_store *store, hn_store_ns ns, hn_str record, hn_strbuf *out) {
    HN_TRY(need_disk(store));
    hn_walk_list list = {0};
    candidate best = {.is_set = false};
    hn_strbuf wanted;
    hn_strbuf_init(&wanted);
    hn_status status = hn_record_summarise(record, &wanted);
    if (!status) status = hn_store_walk_area(store, (int)ns, &list);
    for (size_t i = 0; !status && i < list.count; i++)
        consider(store, &list.files[i], hn_strbuf_str(&wanted), &best);
    free(list.files);
    if (best.is_set) {
        if (!hn_record_diff(best.entry.record, hn_strbuf_str(&wanted), out))
            hn_strbuf_puts(out, "no field differs: the entry is there\n");
        hn_store_entry_deinit(&best.entry);
    } else if (!status) {
        status = HN_ERROR(HN_NOT_FOUND, "nothing is stored under '%s' yet", hn_store_ns_name(ns));
    }
    hn_strbuf_deinit(&wanted);
    return status ? status : hn_strbuf_status(out);
}
