/* cache.c: see cache.h. */
#include "cache/cache.h"

#include "base/log.h"
#include "cache/store_internal.h"

#include <stdlib.h>
#include <time.h>

static hn_status open_remote(const char *url, hn_remote **out_remote) {
    *out_remote = NULL;
    if (!url) url = getenv("HENRY_REDIS_URL");
    if (!url || !url[0]) return NULL;
    hn_status status = hn_remote_open(url, out_remote);
    if (!status || hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    hn_warn_once("cache", "remote-url", "going on without a remote cache: %s",
                 hn_status_message(status));
    hn_status_free(status);
    *out_remote = NULL;
    return NULL;
}

hn_status hn_cache_init(hn_store *store, const char *url, hn_cache *out_cache) {
    *out_cache = (hn_cache){.store = store};
    hn_status status = open_remote(url, &out_cache->remote);
    if (!status) status = hn_leases_create(store, out_cache->remote, &out_cache->leases);
    if (status) hn_cache_deinit(out_cache);
    return status;
}

const char *hn_cache_tag(const char *given) {
    const char *tag = given ? given : getenv("HENRY_CACHE_TAG");
    return tag ? tag : "";
}

void hn_cache_deinit(hn_cache *cache) {
    hn_leases_destroy(cache->leases);
    hn_remote_close(cache->remote);
    *cache = (hn_cache){.store = cache->store};
}

void hn_cache_abandon(hn_cache *cache) {
    hn_leases_abandon(cache->leases);
    hn_remote_abandon(cache->remote);
}

/* ---- reading ---- */

/* Bytes of the remote cache, verified. */
static bool fetch(hn_cache *cache, hn_store_ns ns, const hn_digest *key, bool is_counted,
                  hn_strbuf *bytes, hn_entry_footer *footer) {
    hn_remote_answer answer = hn_remote_get(cache->remote, ns, key, bytes);
    hn_status status =
        answer == HN_REMOTE_YES ? hn_entry_verify(bytes->ptr, bytes->len, ns, key, footer) : NULL;
    if (status) {
        hn_log("cache", HN_LOG_WARN, "entry of remote cache '%s' not used: %s",
               hn_remote_name(cache->remote), hn_status_message(status));
        if (hn_status_code(status) == HN_CORRUPT) hn_remote_reject(cache->remote, ns, key);
        hn_status_free(status);
        return false;
    }
    bool is_hit = answer == HN_REMOTE_YES && !hn_entry_is_expired(footer);
    if (is_hit || is_counted)
        hn_remote_count_get(cache->remote,
                            is_hit || answer == HN_REMOTE_AWAY ? answer : HN_REMOTE_NO);
    return is_hit;
}

static bool get_remote(hn_cache *cache, hn_store_ns ns, const hn_digest *key, bool is_counted,
                       hn_store_entry *out_entry) {
    hn_strbuf bytes;
    hn_entry_footer footer;
    hn_strbuf_init(&bytes);
    if (!fetch(cache, ns, key, is_counted, &bytes, &footer)) {
        hn_strbuf_deinit(&bytes);
        return false;
    }
    /* Code in a file is loaded without a copy; where there is none, these bytes are the entry. */
    if (hn_store_put_bytes(cache->store, ns, key, bytes.ptr, bytes.len) &&
        hn_store_peek(cache->store, ns, key, out_entry)) {
        hn_strbuf_deinit(&bytes);
        return true;
    }
    hn_entry_view(bytes.ptr, &footer, out_entry);
    out_entry->storage = bytes.ptr;
    return true;
}

/* What describes this machine only stays on it. */
static bool is_shared(const hn_cache *cache, hn_store_ns ns) {
    return cache->remote && ns != HN_STORE_TOOLCHAIN;
}

hn_cache_level hn_cache_get(hn_cache *cache, hn_store_ns ns, const hn_digest *key,
                            hn_store_entry *out_entry) {
    if (hn_store_get(cache->store, ns, key, out_entry)) return HN_LEVEL_DISK;
    return is_shared(cache, ns) && get_remote(cache, ns, key, true, out_entry) ? HN_LEVEL_REMOTE
                                                                               : HN_LEVEL_NONE;
}

hn_cache_level hn_cache_look_again(hn_cache *cache, hn_store_ns ns, const hn_digest *key,
                                   hn_store_entry *out_entry) {
    if (hn_store_peek(cache->store, ns, key, out_entry)) return HN_LEVEL_DISK;
    return is_shared(cache, ns) && get_remote(cache, ns, key, false, out_entry) ? HN_LEVEL_REMOTE
                                                                                : HN_LEVEL_NONE;
}

bool hn_cache_get_remote(hn_cache *cache, hn_store_ns ns, const hn_digest *key,
                         hn_store_entry *out_entry) {
    hn_strbuf bytes;
    hn_entry_footer footer;
    hn_strbuf_init(&bytes);
    if (!is_shared(cache, ns) || !fetch(cache, ns, key, true, &bytes, &footer)) {
        hn_strbuf_deinit(&bytes);
        return false;
    }
    hn_entry_view(bytes.ptr, &footer, out_entry);
    out_entry->storage = bytes.ptr;
    return true;
}

/* ---- publishing ---- */

void hn_cache_put(hn_cache *cache, const hn_store_put_args *args) {
    if (!is_shared(cache, args->ns)) {
        (void)hn_store_put(cache->store, args); /* it counts and warns itself */
        return;
    }
    hn_strbuf bytes;
    hn_strbuf_init(&bytes);
    if (hn_remote_takes(cache->remote, args->len)) hn_entry_encode(args, &bytes);
    if (bytes.failed || !bytes.len) {
        (void)hn_store_put(cache->store, args);
    } else {
        (void)hn_store_put_bytes(cache->store, args->ns, args->key, bytes.ptr, bytes.len);
        (void)hn_remote_put(cache->remote, args->ns, args->key, hn_strbuf_str(&bytes),
                            args->lifetime_s);
    }
    hn_strbuf_deinit(&bytes);
}

/* ---- tuning records ---- */

static bool take_tuning(hn_store_entry *entry, hn_strbuf *out) {
    hn_strbuf_append(out, (const char *)entry->bytes, entry->len);
    hn_store_entry_deinit(entry);
    return !out->failed;
}

bool hn_tuning_get(hn_cache *cache, const hn_digest *key, hn_strbuf *out) {
    hn_store_entry entry;
    return hn_cache_get(cache, HN_STORE_TUNING, key, &entry) != HN_LEVEL_NONE &&
           take_tuning(&entry, out);
}

bool hn_tuning_get_local(hn_cache *cache, const hn_digest *key, hn_strbuf *out) {
    hn_store_entry entry;
    return hn_store_get(cache->store, HN_STORE_TUNING, key, &entry) && take_tuning(&entry, out);
}

void hn_tuning_put(hn_cache *cache, const hn_digest *key, hn_str tuning, hn_str key_record) {
    hn_cache_put(cache, &(hn_store_put_args){.ns = HN_STORE_TUNING,
                                             .key = key,
                                             .bytes = tuning.ptr,
                                             .len = tuning.len,
                                             .record = key_record});
}
