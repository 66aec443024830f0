/* store.h: the content-addressed store on disk.
 *
 * An entry is a file found by (namespace, key digest). Its payload starts at offset 0, so that a
 * shared object in the store can be loaded as it lies; the key record and a footer (magic, version,
 * lengths, key, checksum over everything) follow. Entries are published by rename and verified on
 * every read; one that does not verify is moved to quarantine and is a miss. Nothing here can fail
 * a compilation: a disk that is full, read-only or unusable costs speed, one warning and a count,
 * which is why get and put return bool.
 *
 * The checksum (XXH3-128) finds damage. It proves nothing against somebody who can write to the
 * directory; the check of owner and mode on opening is for that.
 *
 * A directory is a cache when it has the store's marker (CACHEDIR.TAG). Files in it whose names no
 * store gives are never read, moved, counted or removed.
 *
 * Threads: every function is safe from many threads and many processes on one directory. */
#ifndef HN_CACHE_STORE_H
#define HN_CACHE_STORE_H

#include "base/hash.h"
#include "base/str.h"
#include "henry/cache.h"
#include "henry/status.h"

#include <stdint.h>

typedef struct hn_store hn_store;

typedef enum hn_store_ns {
    HN_STORE_KERNEL,
    HN_STORE_GRAPH,
    HN_STORE_TOOLCHAIN,
    HN_STORE_TUNING, /* what was measured of several candidates: tuning records */
    /* the programs of a graph by what they are guarded by; model files that were verified */
    HN_STORE_INDEX,
    HN_STORE_NS_COUNT
} hn_store_ns;

/* "kernel", "graph", "toolchain", "tuning", "index": the directory of the namespace. */
const char *hn_store_ns_name(hn_store_ns ns);

typedef struct hn_store_options {
    /* NULL: HENRY_CACHE_DIR, else $XDG_CACHE_HOME/henry, else ~/.cache/henry; "": no disk */
    const char *dir;
    uint64_t max_bytes; /* 0: 2 GiB. Eviction starts above it and stops at 80 % of it. */
    /* fdatasync before publishing. A torn entry never verifies, so this saves work only. */
    bool sync;
    /* treat the directory as one on a network file system: files are read, never mapped */
    bool no_mapping;
    /* without a directory that can be used there is an error, not a store without a disk */
    bool is_required;
} hn_store_options;

/* Opens the store, making its directory (0700) and the marker in it. A directory that cannot be
 * used, that another user could change, or that holds files which no store wrote and has no marker,
 * gives a store without a disk and one warning.
 * Errors: out-of-memory; with `is_required` also not-found, io, invalid-argument, and incompatible
 * for the cache of a newer version. */
hn_status hn_store_open(const hn_store_options *options, hn_store **out_store) HN_MUST_USE;
void hn_store_close(hn_store *store); /* NULL is allowed */

/* Why nothing can be kept here, whatever it is: off, no_folder, read_only; or none. */
hn_cache_bypass hn_store_bypass(const hn_store *store);

/* Absolute path of the directory; "" without a disk. Borrowed. */
const char *hn_store_dir(const hn_store *store);
/* The folder in it for precompiled headers (toolchain/pch.h), which bounds itself: each is a folder
 * whose name has so many hexadecimal digits. hn_store_clear removes those. */
#define HN_STORE_PCH "pch"
enum { HN_STORE_PCH_DIGITS = 32 };

/* Whether its files may be mapped: not on network file systems, where a map can end in SIGBUS. */
bool hn_store_is_mappable(const hn_store *store);

/* A verified entry. Owns its memory and descriptor until deinit. */
typedef struct hn_store_entry {
    const uint8_t *bytes; /* payload */
    size_t len;
    hn_str record;     /* summary of the key record; may be empty */
    bool is_failure;   /* a remembered failure: the payload tells it */
    int64_t created_s; /* Unix time */
    int64_t expires_s; /* the same; 0: never */
    int64_t made_ns;   /* how long it took to make; 0: unknown */
    /* the file that was verified, open for reading, payload at offset 0; -1: no file */
    int fd;
    void *storage; /* private: what deinit frees or unmaps */
    size_t mapped_bytes;
} hn_store_entry;

/* Looks an entry up. True: `*out_entry` must be deinited. */
bool hn_store_get(hn_store *store, hn_store_ns ns, const hn_digest *key, hn_store_entry *out_entry);
void hn_store_entry_deinit(hn_store_entry *entry);
/* Removes an entry: one that verifies, but turned out to be of no use. */
void hn_store_remove(hn_store *store, hn_store_ns ns, const hn_digest *key);
/* 64 hexadecimal digits. */
bool hn_store_key_parse(const char *digits, hn_digest *out_key);
/* Absolute path of an entry, whether or not it exists; "" without a disk. `out_path` has PATH_MAX
 * bytes. */
void hn_store_entry_path(const hn_store *store, hn_store_ns ns, const hn_digest *key,
                         char *out_path);

typedef struct hn_store_put_args {
    hn_store_ns ns;
    const hn_digest *key;
    const void *bytes;
    size_t len;
    hn_str record; /* the full key record, or empty; its summary is stored */
    bool is_failure;
    int64_t lifetime_s; /* 0: until evicted */
    int64_t made_ns;    /* how long it took to make, 0 to about an hour; 0: unknown */
} hn_store_put_args;

/* Publishes an entry, replacing one with the same key. False when the disk refused. */
bool hn_store_put(hn_store *store, const hn_store_put_args *args);

/* Writes a file beside the entries, for people: <dir>/failed/<key><suffix>. `suffix`: a point and
 * one to three small letters. False when the disk refused. */
bool hn_store_put_failed_source(hn_store *store, const hn_digest *key, const char *suffix,
                                const void *bytes, size_t len);

/* Since this store was opened, in this process. */
typedef struct hn_store_stats {
    uint64_t hits, misses, puts, put_failures, quarantined, evicted;
    uint64_t read_bytes, written_bytes;
    uint64_t bypasses[HN_BYPASS_COUNT]; /* kernels and programs that the disk refused */
} hn_store_stats;
void hn_store_stats_get(const hn_store *store, hn_store_stats *out_stats);

/* What lies on the disk, by scanning it. */
typedef struct hn_store_usage {
    uint64_t entries[HN_STORE_NS_COUNT], bytes[HN_STORE_NS_COUNT];
    uint64_t quarantined, total_bytes; /* the total includes quarantine and unfinished files */
    uint64_t max_bytes;
} hn_store_usage;
hn_status hn_store_usage_get(hn_store *store, hn_store_usage *out_usage) HN_MUST_USE;

/* Reads and verifies every entry; bad ones go to quarantine. What cannot be read now stays where it
 * is. */
typedef struct hn_store_verify_report {
    uint64_t good, bad, other_version;
    uint64_t unread; /* an I/O error, or no memory */
} hn_store_verify_report;
hn_status hn_store_verify(hn_store *store, hn_store_verify_report *out_report) HN_MUST_USE;

/* Removes least recently used entries until at most `max_bytes` are left (0: 80 % of the store's
 * bound), and leftovers of writers that died. Does nothing while another process does it. */
hn_status hn_store_gc(hn_store *store, uint64_t max_bytes, uint64_t *out_removed) HN_MUST_USE;

/* Removes every entry, quarantine included. Entries in use stay usable by their users. */
hn_status hn_store_clear(hn_store *store, uint64_t *out_removed) HN_MUST_USE;

/* Shows every entry of a namespace that verifies, in no order, but for remembered failures. */
hn_status hn_store_each(hn_store *store, hn_store_ns ns,
                        void (*visit)(void *user, const hn_store_entry *entry),
                        void *user) HN_MUST_USE;

/* Why is there no entry for this key record? Finds the stored record that differs in the fewest
 * fields (the newest of several) and appends a line for each difference. Errors: not-found when
 * nothing is stored. */
hn_status hn_store_why(hn_store *store, hn_store_ns ns, hn_str record, hn_strbuf *out) HN_MUST_USE;

#endif
