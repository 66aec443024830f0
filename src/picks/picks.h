/* picks.h: tuning records where they are kept: a file of the user, a bundle, the cache on this
 * disk, the remote cache. docs/tuning.md, "Where they are kept".
 *
 * A record counts for the kernel, the set of forms and the device that it names, and no other. With
 * one form there is nothing to know: nothing is looked up, and nothing is kept. */
#ifndef HN_PICKS_PICKS_H
#define HN_PICKS_PICKS_H

#include "cache/cache.h"
#include "tune/list.h"

enum { HN_PICKS_SIZES_MAX = 256 }; /* of one kernel, set and device in the cache: the oldest go */

/* In the order in which they are looked at. */
typedef enum hn_picks_place {
    HN_PICKS_FILE,
    HN_PICKS_BUNDLE,
    HN_PICKS_LOCAL,
    HN_PICKS_REMOTE,
    HN_PICKS_NOWHERE
} hn_picks_place;
/* "the file", "the bundle", "the cache", "the remote cache", "nowhere" */
const char *hn_picks_place_name(hn_picks_place place);

/* NULL, each by itself: there is no such place. Borrowed. */
typedef struct hn_picks {
    const hn_tuning_list *file, *bundle;
    hn_cache *cache;
} hn_picks;

typedef struct hn_picks_wanted {
    hn_str kernel; /* for people */
    hn_digest digest;
    const hn_form_name *forms; /* what the planner has to offer, in any order */
    uint32_t form_count;
    hn_str device; /* tune/device.h */
    /* sets of sizes, [sample_count][size_count]: further places are looked at until there is a
     * record for each; 0: until there is any */
    const int64_t *sizes;
    uint32_t size_count, sample_count;
} hn_picks_wanted;

/* Adds to `out` the records that count, of equal ones that of the first place. What the remote
 * cache had is written to the disk. `*out_place`: the first one that had any. Owns: everything
 * lives in the list's arena, or in the lists of `picks`. Errors: out-of-memory. */
hn_status hn_picks_find(const hn_picks *picks, const hn_picks_wanted *wanted, hn_tuning_list *out,
                        hn_picks_place *out_place) HN_MUST_USE;
/* Whether there is a record for each set of sizes. */
bool hn_picks_cover(const hn_tuning_list *list, const hn_picks_wanted *wanted);

/* Keeps records in the cache, beside those that are there; equal ones are replaced. Records of one
 * form are left out. What disk and server refuse is no error. Threads, processes: several may keep
 * records of the same kernel at once; each finds whole records. Errors: invalid-argument for a
 * record that is none; out-of-memory. */
hn_status hn_picks_keep(hn_cache *cache, const hn_tuning_record *const *records,
                        uint32_t count) HN_MUST_USE;

/* What `henry cache why` says: appends a line for each reason why there is no record that counts,
 * by the one of the same kernel that differs least; or where there is one. The remote cache is not
 * asked. Errors: out-of-memory. */
hn_status hn_picks_why(const hn_picks *picks, const hn_picks_wanted *wanted,
                       hn_strbuf *out) HN_MUST_USE;

/* ---- parts ---- */

/* The key record of the entry that has the records of a kernel, set and device. */
void hn_picks_key_record(const hn_digest *digest, const hn_digest *set, hn_str device,
                         hn_strbuf *out);
/* Whether the entry has records of this kernel. */
bool hn_picks_is_of(const hn_store_entry *entry, const hn_digest *kernel);
/* Adds the records of an entry, a copy. */
hn_status hn_picks_read(const hn_store_entry *entry, hn_tuning_list *out) HN_MUST_USE;

#endif
