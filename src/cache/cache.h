/* cache.h: the levels below memory, in order: the store on disk, the remote cache. And who makes
 * what is in neither.
 *
 * Threads: safe. One object belongs to one process: after a fork the child makes its own (the
 * service does). */
#ifndef HN_CACHE_CACHE_H
#define HN_CACHE_CACHE_H

#include "cache/lease.h"
#include "cache/remote.h"
#include "cache/store.h"

typedef struct hn_cache {
    hn_store *store;   /* borrowed; may be without a disk */
    hn_remote *remote; /* owned; NULL: none */
    hn_leases *leases; /* owned */
} hn_cache;

/* `url` of the remote cache: NULL for HENRY_REDIS_URL, "" for none. A URL that cannot be used is
 * one warning.
 * Errors: out-of-memory. */
hn_status hn_cache_init(hn_store *store, const char *url, hn_cache *out_cache) HN_MUST_USE;
void hn_cache_deinit(hn_cache *cache);
/* The user's tag, a part of every key: `given`, else HENRY_CACHE_TAG, else "". Borrowed. */
const char *hn_cache_tag(const char *given);
/* In a forked child: closes the inherited descriptors; nothing of the cache may be used
 * afterwards. */
void hn_cache_abandon(hn_cache *cache);

typedef enum hn_cache_level { HN_LEVEL_NONE, HN_LEVEL_DISK, HN_LEVEL_REMOTE } hn_cache_level;

/* Looks an entry up. What the remote cache had is verified, and written to the disk. Unless the
 * answer is HN_LEVEL_NONE, `*out_entry` must be deinited. */
hn_cache_level hn_cache_get(hn_cache *cache, hn_store_ns ns, const hn_digest *key,
                            hn_store_entry *out_entry);
/* The same; a miss is not counted. For those who wait for somebody else to make the entry. */
hn_cache_level hn_cache_look_again(hn_cache *cache, hn_store_ns ns, const hn_digest *key,
                                   hn_store_entry *out_entry);

/* What the remote cache has, verified; nothing is written to the disk. For entries that change. */
bool hn_cache_get_remote(hn_cache *cache, hn_store_ns ns, const hn_digest *key,
                         hn_store_entry *out_entry);

/* Publishes an entry on the disk, then in the remote cache: the same bytes. */
void hn_cache_put(hn_cache *cache, const hn_store_put_args *args);

/* ---- tuning records: what was measured of several candidates that compute the same ---- */

/* `key`: digest of a record of the candidates, the sizes and the device that they were measured on.
 * Appends the tuning record. */
bool hn_tuning_get(hn_cache *cache, const hn_digest *key, hn_strbuf *out);
/* Without asking the remote cache. */
bool hn_tuning_get_local(hn_cache *cache, const hn_digest *key, hn_strbuf *out);
/* `key_record`: so that `henry cache why` can compare; may be empty. A later tuning record replaces
 * an earlier one. */
void hn_tuning_put(hn_cache *cache, const hn_digest *key, hn_str tuning, hn_str key_record);

#endif
