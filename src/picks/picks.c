/* picks.c: finding tuning records, and keeping them. An entry of the cache has all records of one
 * kernel, set of forms and device, a line each, the oldest first. */
#include "picks/picks.h"

#include "cache/record.h"

#include <time.h>

enum { ENTRY_REVISION = 1, LEASE_ATTEMPTS = 2000 };

const char *hn_picks_place_name(hn_picks_place place) {
    static const char *const names[] = {
        [HN_PICKS_FILE] = "the file",   [HN_PICKS_BUNDLE] = "the bundle",
        [HN_PICKS_LOCAL] = "the cache", [HN_PICKS_REMOTE] = "the remote cache",
        [HN_PICKS_NOWHERE] = "nowhere",
    };
    return names[place];
}

/* ---- entries ---- */

static void add_hex(hn_strbuf *out, const char *name, const hn_digest *digest) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(digest, hex);
    hn_record_add(out, name, hn_str_of(hex));
}

void hn_picks_key_record(const hn_digest *digest, const hn_digest *set, hn_str device,
                         hn_strbuf *out) {
    hn_record_add_i64(out, "picks", ENTRY_REVISION);
    add_hex(out, "kernel", digest);
    add_hex(out, "forms", set);
    hn_record_add(out, "device", device);
}

static hn_digest key_of(const hn_digest *digest, const hn_digest *set, hn_str device) {
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_picks_key_record(digest, set, device, &record);
    const hn_digest key = hn_digest_of(hn_strbuf_str(&record).ptr, record.len);
    hn_strbuf_deinit(&record);
    return key;
}

bool hn_picks_is_of(const hn_store_entry *entry, const hn_digest *kernel) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_str value;
    hn_digest_hex(kernel, hex);
    return hn_record_find_i64(entry->record, "picks", 0) == ENTRY_REVISION &&
           hn_record_find(entry->record, "kernel", &value) && hn_str_eq(value, hn_str_of(hex));
}

hn_status hn_picks_read(const hn_store_entry *entry, hn_tuning_list *out) {
    hn_tuning_damage damage;
    char *copy = hn_arena_strndup(out->arena, (const char *)entry->bytes, entry->len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for tuning records");
    HN_TRY(hn_tuning_list_parse(out, (hn_str){copy, entry->len}, &damage));
    hn_tuning_damage_warn(&damage, "the cache");
    return NULL;
}

/* ---- finding ---- */

static bool counts(const hn_tuning_record *r, const hn_picks_wanted *w, const hn_digest *set) {
    const hn_digest own = hn_tuning_record_set(r);
    return memcmp(&r->digest, &w->digest, sizeof r->digest) == 0 &&
           hn_str_eq(r->device, w->device) && memcmp(&own, set, sizeof own) == 0 &&
           (!w->sample_count || r->size_count == w->size_count);
}

/* Those that are not there yet. */
static hn_status add_from(const hn_tuning_list *from, const hn_picks_wanted *w,
                          const hn_digest *set, hn_tuning_list *out) {
    uint32_t at = 0;
    for (const hn_tuning_record *r; (r = hn_tuning_list_next(from, &w->digest, &at));) {
        if (!counts(r, w, set)) continue;
        const hn_digest identity = hn_tuning_record_identity(r);
        if (!hn_tuning_list_find(out, &identity)) HN_TRY(hn_tuning_list_add(out, r));
    }
    return NULL;
}

static bool has_sizes(const hn_tuning_list *list, const hn_picks_wanted *w, const int64_t *sizes) {
    uint32_t at = 0;
    for (const hn_tuning_record *r; (r = hn_tuning_list_next(list, &w->digest, &at));)
        if (r->size_count == w->size_count &&
            (!w->size_count || memcmp(r->sizes, sizes, w->size_count * sizeof *sizes) == 0))
            return true;
    return false;
}

bool hn_picks_cover(const hn_tuning_list *list, const hn_picks_wanted *w) {
    for (uint32_t k = 0; k < w->sample_count; k++)
        if (!has_sizes(list, w, w->size_count ? w->sizes + (size_t)k * w->size_count : NULL))
            return false;
    return true;
}

static bool is_enough(const hn_tuning_list *list, const hn_picks_wanted *w) {
    return list->count && hn_picks_cover(list, w);
}

/* Adds what an entry has; `out_list` gets all of it. */
static hn_status add_entry(hn_store_entry *entry, const hn_picks_wanted *w, const hn_digest *set,
                           hn_tuning_list *all, hn_tuning_list *out) {
    hn_status status = hn_picks_read(entry, all);
    hn_store_entry_deinit(entry);
    return status ? status : add_from(all, w, set, out);
}

/* A line for each, without the oldest that are too many. */
static void put_entry(hn_cache *cache, const hn_digest *key, hn_str record,
                      const hn_tuning_list *all, bool is_for_all) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    const uint32_t first = all->count > HN_PICKS_SIZES_MAX ? all->count - HN_PICKS_SIZES_MAX : 0;
    for (uint32_t k = first; k < all->count; k++) hn_tuning_record_print(&all->items[k], &text);
    if (!text.failed && is_for_all) {
        hn_tuning_put(cache, key, hn_strbuf_str(&text), record);
    } else if (!text.failed) {
        (void)hn_store_put(cache->store, &(hn_store_put_args){.ns = HN_STORE_TUNING,
                                                              .key = key,
                                                              .bytes = hn_strbuf_str(&text).ptr,
                                                              .len = text.len,
                                                              .record = record});
    }
    hn_strbuf_deinit(&text);
}

/* What another machine has measured is written to this disk, beside what is there. */
static hn_status add_remote(hn_cache *cache, const hn_digest *key, const hn_picks_wanted *w,
                            const hn_digest *set, hn_tuning_list *all, hn_tuning_list *out) {
    hn_store_entry entry;
    hn_strbuf record;
    const uint32_t before = out->count;
    if (!hn_cache_get_remote(cache, HN_STORE_TUNING, key, &entry)) return NULL;
    HN_TRY(add_entry(&entry, w, set, all, out));
    if (out->count == before) return NULL;
    hn_strbuf_init(&record);
    hn_picks_key_record(&w->digest, set, w->device, &record);
    if (!record.failed) put_entry(cache, key, hn_strbuf_str(&record), all, false);
    hn_strbuf_deinit(&record);
    return NULL;
}

static hn_status add_cache(hn_cache *cache, const hn_picks_wanted *w, const hn_digest *set,
                           hn_tuning_list *out, hn_picks_place *out_place) {
    const hn_digest key = key_of(&w->digest, set, w->device);
    const uint32_t before = out->count;
    hn_store_entry entry;
    hn_tuning_list all;
    hn_tuning_list_init(&all, out->arena);
    const hn_cache_level level = hn_cache_get(cache, HN_STORE_TUNING, &key, &entry);
    *out_place = level == HN_LEVEL_REMOTE ? HN_PICKS_REMOTE : HN_PICKS_LOCAL;
    if (level != HN_LEVEL_NONE) HN_TRY(add_entry(&entry, w, set, &all, out));
    if (level != HN_LEVEL_DISK || is_enough(out, w)) return NULL;
    if (out->count == before) *out_place = HN_PICKS_REMOTE;
    return add_remote(cache, &key, w, set, &all, out);
}

hn_status hn_picks_find(const hn_picks *picks, const hn_picks_wanted *w, hn_tuning_list *out,
                        hn_picks_place *out_place) {
    hn_picks_place place = HN_PICKS_NOWHERE;
    *out_place = HN_PICKS_NOWHERE;
    if (w->form_count < 2) return NULL;
    const hn_digest set = hn_form_set_digest(w->forms, w->form_count);
    if (picks->file) HN_TRY(add_from(picks->file, w, &set, out));
    if (out->count) *out_place = HN_PICKS_FILE;
    if (picks->bundle && !is_enough(out, w)) HN_TRY(add_from(picks->bundle, w, &set, out));
    if (out->count && *out_place == HN_PICKS_NOWHERE) *out_place = HN_PICKS_BUNDLE;
    if (picks->cache && !is_enough(out, w)) HN_TRY(add_cache(picks->cache, w, &set, out, &place));
    if (out->count && *out_place == HN_PICKS_NOWHERE) *out_place = place;
    return NULL;
}

/* ---- keeping ---- */

/* Waits a little for whoever adds to the same entry; without a lease one of two additions may be
 * lost, and is measured again. */
static hn_lease take_lease(hn_cache *cache, const hn_digest *key) {
    hn_lease lease = 0;
    for (int k = 0; k < LEASE_ATTEMPTS; k++) {
        if (hn_lease_try(cache->leases, HN_STORE_TUNING, key, true, &lease) == HN_LEASE_MINE)
            return lease;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return 0;
}

/* Nothing to choose from. */
static bool is_alone(const hn_tuning_record *r) { return r->form_count < 2; }

static bool is_of_entry(const hn_tuning_record *r, const hn_tuning_record *first) {
    const hn_digest a = hn_tuning_record_set(r), b = hn_tuning_record_set(first);
    return memcmp(&r->digest, &first->digest, sizeof r->digest) == 0 &&
           memcmp(&a, &b, sizeof a) == 0 && hn_str_eq(r->device, first->device);
}

/* What is there, then what is new. */
static hn_status merge(hn_cache *cache, const hn_digest *key,
                       const hn_tuning_record *const *records, uint32_t count,
                       hn_tuning_list *all) {
    hn_store_entry entry;
    hn_status status = NULL;
    if (hn_cache_get_remote(cache, HN_STORE_TUNING, key, &entry)) {
        status = hn_picks_read(&entry, all);
        hn_store_entry_deinit(&entry);
    }
    if (!status && hn_store_get(cache->store, HN_STORE_TUNING, key, &entry)) {
        status = hn_picks_read(&entry, all);
        hn_store_entry_deinit(&entry);
    }
    for (uint32_t k = 0; !status && k < count; k++)
        if (is_of_entry(records[k], records[0])) status = hn_tuning_list_add(all, records[k]);
    return status;
}

/* The entry of the first record, with all others that belong there. */
static hn_status keep_entry(hn_cache *cache, const hn_tuning_record *const *records,
                            uint32_t count) {
    const hn_digest set = hn_tuning_record_set(records[0]);
    const hn_digest key = key_of(&records[0]->digest, &set, records[0]->device);
    hn_arena arena;
    hn_tuning_list all;
    hn_strbuf record;
    hn_arena_init(&arena);
    hn_tuning_list_init(&all, &arena);
    hn_strbuf_init(&record);
    hn_picks_key_record(&records[0]->digest, &set, records[0]->device, &record);
    const hn_lease lease = take_lease(cache, &key);
    hn_status status = hn_strbuf_status(&record);
    if (!status) status = merge(cache, &key, records, count, &all);
    if (!status) put_entry(cache, &key, hn_strbuf_str(&record), &all, true);
    hn_lease_release(cache->leases, lease);
    hn_strbuf_deinit(&record);
    hn_arena_deinit(&arena);
    return status;
}

hn_status hn_picks_keep(hn_cache *cache, const hn_tuning_record *const *records, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) HN_TRY(hn_tuning_record_check(records[k]));
    for (uint32_t k = 0; k < count; k++) {
        bool is_done = is_alone(records[k]);
        for (uint32_t j = 0; !is_done && j < k; j++) is_done = is_of_entry(records[k], records[j]);
        if (!is_done) HN_TRY(keep_entry(cache, records + k, count - k));
    }
    return NULL;
}
