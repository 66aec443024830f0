/* transfer.h: entries in one portable file, for a machine without network, an image of a container,
 * a shipped cache.
 *
 * A file is a header (magic, version, count, lengths), the entries as they lie in the store, each
 * behind its length, and a checksum over all of it. Import verifies the file and every entry before
 * it publishes anything. The checksums find damage; as with every cache, import only what comes
 * from somebody whose code you would run. */
#ifndef HN_CACHE_TRANSFER_H
#define HN_CACHE_TRANSFER_H

#include "cache/cache.h"

typedef struct hn_entry_ref {
    hn_store_ns ns;
    hn_digest key;
} hn_entry_ref;

/* A list without repetitions. Latches, like a strbuf. */
typedef struct hn_entry_list {
    hn_entry_ref *items; /* owned */
    uint32_t count, cap;
    bool failed;
} hn_entry_list;

void hn_entry_list_deinit(hn_entry_list *list);
void hn_entry_list_add(hn_entry_list *list, hn_store_ns ns, const hn_digest *key);
hn_status hn_entry_list_status(const hn_entry_list *list) HN_MUST_USE; /* out-of-memory, or NULL */

/* Finds the entries on the disk whose key begins with these hexadecimal digits (at least 8), and
 * appends them. Errors: invalid-argument when it is no such word or fits several keys;
 * not-found. */
hn_status hn_store_find(hn_store *store, const char *digits, hn_entry_list *out) HN_MUST_USE;

typedef struct hn_transfer_report {
    uint64_t entries[HN_STORE_NS_COUNT], bytes; /* in the file */
    uint64_t missing;                           /* export: listed, but in no cache any more */
    uint64_t existing;                          /* import: that were there already */
} hn_transfer_report;

/* Writes the entries of the list to a file, replacing it atomically. An entry of a program that is
 * gone (evicted, say) is left out and counted. Errors: not-found when none is there; io. */
hn_status hn_cache_export(hn_cache *cache, const hn_entry_list *list, const char *path,
                          hn_transfer_report *out_report) HN_MUST_USE;

/* Publishes the entries of a file in the store. Expired ones are left out. Errors: not-found, io;
 * corrupt, naming the file, and then nothing was published; incompatible for another version; io
 * when the disk refuses entries. */
hn_status hn_store_import(hn_store *store, const char *path,
                          hn_transfer_report *out_report) HN_MUST_USE;

#endif
