/* store_internal.h: what the files of the store share. Not for other folders. */
#ifndef HN_CACHE_STORE_INTERNAL_H
#define HN_CACHE_STORE_INTERNAL_H

#include "cache/entry.h"
#include "cache/store.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

struct hn_store {
    char dir[PATH_MAX]; /* absolute, "" without a disk */
    int dir_fd;         /* -1 without a disk */
    bool is_off;        /* the caller asked for none */
    bool is_writable;
    bool is_mappable; /* false on network file systems, where a map can end in SIGBUS */
    bool sync;
    uint64_t max_bytes;
    atomic_uint_fast64_t hits, misses, puts, put_failures, quarantined, evicted, read_bytes,
        written_bytes;
    atomic_uint_fast64_t bypasses[HN_BYPASS_COUNT];
};

/* "kernel/ab/cdef...": two digits fan out over directories. */
enum { HN_STORE_NAME_BYTES = 96 };
void hn_store_entry_name(hn_store_ns ns, const hn_digest *key, char out[HN_STORE_NAME_BYTES]);

/* Opens and checks the directory of `options`. Fills dir, dir_fd and the flags. */
hn_status hn_store_dir_open(hn_store *store, const hn_store_options *options) HN_MUST_USE;

/* Makes sure that the open directory is a cache (store_mark.c): it has the marker, or nothing but
 * what a store writes, and then it gets the marker. Errors: invalid-argument when it holds anything
 * else; incompatible for a newer layout; io. */
hn_status hn_store_mark_check(hn_store *store) HN_MUST_USE;

/* ---- the names that a store gives (store_walk.c) ----
 *
 * No other file is ever read, moved, counted or removed. */

/* Folders of the directory: the namespaces, and behind them these. */
typedef enum hn_store_area {
    HN_AREA_TEMP = HN_STORE_NS_COUNT,
    HN_AREA_QUARANTINE,
    HN_AREA_FAILED,
    HN_AREA_LEASE,
    HN_AREA_COUNT
} hn_store_area;

#define HN_STORE_MARKER "CACHEDIR.TAG"
const char *hn_store_area_name(int area);

typedef struct hn_walk_file {
    char name[HN_STORE_NAME_BYTES]; /* below the directory */
    int64_t used_ns;                /* time of last use */
    uint64_t bytes;                 /* as the disk counts them */
    int area;                       /* hn_store_ns or hn_store_area */
} hn_walk_file;

typedef struct hn_walk_list {
    hn_walk_file *files; /* owned: freed by the caller */
    size_t count, cap;
} hn_walk_list;

/* Lists the store's own files in one area, or in all of them. Symbolic links are not followed. On
 * failure the list is empty. */
hn_status hn_store_walk_area(const hn_store *store, int area, hn_walk_list *out_list) HN_MUST_USE;
hn_status hn_store_walk(const hn_store *store, hn_walk_list *out_list) HN_MUST_USE;
/* The name of something in the directory that no store wrote, "" when there is none. */
hn_status hn_store_find_foreign(const hn_store *store,
                                char out_name[HN_STORE_NAME_BYTES]) HN_MUST_USE;

/* Reads the whole entry open at `fd` and verifies that it is one of `ns`. `key` NULL: any key.
 * Errors: corrupt, incompatible (another version), io. */
hn_status hn_store_entry_read(hn_store *store, int fd, const struct stat *info, hn_store_ns ns,
                              const hn_digest *key, hn_store_entry *out_entry,
                              hn_entry_footer *out_footer) HN_MUST_USE;
/* Opens an entry by its name below the directory. -1 with errno when there is none. */
int hn_store_entry_open(const hn_store *store, const char *name, struct stat *out_info);
void hn_store_quarantine(hn_store *store, const char *name);

/* As hn_store_get. Does not count, so that looking again and again tells nothing false. */
bool hn_store_peek(hn_store *store, hn_store_ns ns, const hn_digest *key,
                   hn_store_entry *out_entry);
/* Publishes the bytes of an entry that were verified or sealed. False when the disk refused. */
bool hn_store_put_bytes(hn_store *store, hn_store_ns ns, const hn_digest *key, const void *bytes,
                        size_t len);

/* Publishes a file below the directory unless one of that name is there. False with errno; EEXIST
 * is such a file. */
bool hn_store_publish_new(const hn_store *store, const char *name, const void *bytes, size_t len);

/* 16 hex digits that no other writer has. */
void hn_store_random_name(char out[17]);

/* The persisted estimate of all bytes in the directory: adds `delta`, returns the new value. */
int64_t hn_store_usage_add(const hn_store *store, int64_t delta);
/* What a scan found; `before` is the estimate from before it, so that what others stored meanwhile
 * is not lost. */
void hn_store_usage_set(const hn_store *store, int64_t total, int64_t before);

#endif
