/* entry.h: the bytes of an entry: payload, summary of the key record, footer.
 *
 * The same bytes lie in a file of the store, in a value of a remote cache and in an exported file,
 * so what is verified here may come from anywhere. Not for other folders. */
#ifndef HN_CACHE_ENTRY_H
#define HN_CACHE_ENTRY_H

#include "cache/store.h"

/* The end of every entry. Integers are little-endian; `checksum` covers payload, record and the
 * footer up to itself. The magic comes last: a file cut short does not have it. */
typedef struct hn_entry_footer {
    uint64_t payload_bytes, record_bytes;
    int64_t created_s, expires_s; /* Unix time; expires_s 0: never */
    uint32_t ns, flags;
    uint8_t key[32];
    uint8_t checksum[16];
    uint32_t version;
    uint32_t made_us; /* how long it took to make; 0: unknown, as in entries from before */
    char magic[8];
} hn_entry_footer;
_Static_assert(sizeof(hn_entry_footer) == 104, "the footer has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the footer is written as it lies in memory");

#define HN_ENTRY_MAGIC "HNENTRY\n"
enum { HN_ENTRY_VERSION = 1, HN_ENTRY_FLAG_FAILURE = 1 };

/* Appends the summary of a key record that an entry stores; nothing when it would be too long. */
void hn_entry_summarise(hn_str record, hn_strbuf *out);

/* The footer of an entry made now, with its checksum. `summary`: as it will be stored. */
void hn_entry_seal(const hn_store_put_args *args, hn_str summary, hn_entry_footer *out);

/* Appends a whole entry. Latches in `out`. */
void hn_entry_encode(const hn_store_put_args *args, hn_strbuf *out);

/* Verifies the bytes of an entry. `key` NULL: any. `ns` HN_STORE_NS_COUNT: any. Errors: corrupt;
 * incompatible for another format. */
hn_status hn_entry_verify(const void *bytes, size_t len, hn_store_ns ns, const hn_digest *key,
                          hn_entry_footer *out_footer) HN_MUST_USE;

/* Fills the views of `out` (payload, record, times) into verified bytes; `fd` is -1, `storage`
 * stays NULL. */
void hn_entry_view(const void *bytes, const hn_entry_footer *footer, hn_store_entry *out);

bool hn_entry_is_expired(const hn_entry_footer *footer);

#endif
