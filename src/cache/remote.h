/* remote.h: entries and leases in a server that several machines share.
 *
 * Values are exactly the bytes of a store entry; whoever gets one verifies it (cache.c does).
 * Nothing here can fail a compilation: a server that is away, hangs, is slow, full or talks
 * nonsense costs a bounded delay, one warning and counts. After a failure no operation is tried for
 * 1 s, then 2, 4 ... 60 s, and the first one after that has a shorter time limit; slow answers
 * count as failures when they come in a row.
 *
 * The checksums in the values find damage. They prove nothing against somebody who can write to the
 * server: whoever can, can run code in every process that reads from it.
 *
 * Threads: safe; operations of several threads run at once, each on a connection of its own, and
 * nobody waits for another's. Fork: a child makes a remote of its own and calls hn_remote_abandon
 * on the inherited one; until then every operation in the child answers that the server is away. */
#ifndef HN_CACHE_REMOTE_H
#define HN_CACHE_REMOTE_H

#include "cache/store.h"

typedef struct hn_remote hn_remote;

/* redis://[[USER]:PASSWORD@]HOST[:PORT][/DB][?OPTION=N&...], or unix:///PATH/TO/SOCKET[?db=N&...].
 * Options, in milliseconds where not said otherwise: connect_ms (250), command_ms (1000), lease_ms
 * (5000), ttl_s (seconds that an entry lives after it was stored; default 30 days, 0 for ever),
 * max_bytes (of one value, 64 MiB). Connects to nothing yet. Errors: invalid-argument, without the
 * password; out-of-memory. */
hn_status hn_remote_open(const char *url, hn_remote **out_remote) HN_MUST_USE;
void hn_remote_close(hn_remote *remote); /* NULL is allowed */
/* In a forked child: closes the inherited descriptors. The object itself is leaked. */
void hn_remote_abandon(hn_remote *remote);

/* The address without password, for messages. Borrowed. */
const char *hn_remote_name(const hn_remote *remote);

typedef enum hn_remote_answer {
    HN_REMOTE_YES,
    /* the server answered: there is no such value, or somebody else has the lease */
    HN_REMOTE_NO,
    HN_REMOTE_AWAY, /* no answer, or none that can be used */
} hn_remote_answer;

/* Appends the value. The bytes are not verified; whoever did so counts the answer as hit or miss,
 * or rejects it. A key that holds a list, a hash or the like is deleted, counted as damaged, and
 * NO. */
hn_remote_answer hn_remote_get(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                               hn_strbuf *out);
/* Whether a value of about this size would be sent; counts one that is too large. */
bool hn_remote_takes(hn_remote *remote, size_t len);
void hn_remote_count_get(hn_remote *remote, hn_remote_answer answer);
/* Stores a value; `lifetime_s` 0: the default of the URL. NO: too large, or the server is full. */
hn_remote_answer hn_remote_put(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                               hn_str value, int64_t lifetime_s);
/* Deletes a value that did not verify, and counts it. */
void hn_remote_reject(hn_remote *remote, hn_store_ns ns, const hn_digest *key);

/* A lease is held by whoever knows its token, until it is released or not renewed for lease_ms. */
typedef struct hn_remote_token {
    char text[33];
} hn_remote_token;
hn_remote_answer hn_remote_lease(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                                 hn_remote_token *out_token);
/* NO: the lease was lost. */
hn_remote_answer hn_remote_renew(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                                 const hn_remote_token *token);
void hn_remote_release(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                       const hn_remote_token *token);
int64_t hn_remote_lease_ms(const hn_remote *remote);

/* One round trip, now, for somebody who wants to know. Nothing is counted. Errors: io, saying what
 * is wrong. */
hn_status hn_remote_ping(hn_remote *remote, int64_t *out_ns) HN_MUST_USE;

typedef struct hn_remote_stats {
    uint64_t hits, misses, puts;
    /* values that did not verify, and keys that held something else than a value */
    uint64_t damaged;
    uint64_t too_large; /* values that were not sent */
    uint64_t refused;   /* the server answered with an error: full, say */
    uint64_t failures;  /* no usable answer in time */
    uint64_t skipped;   /* not tried, after a failure */
    uint64_t connects, leases, leases_busy;
    uint64_t received_bytes, sent_bytes;
    int64_t total_ns, longest_ns; /* spent in operations */
} hn_remote_stats;
void hn_remote_stats_get(const hn_remote *remote, hn_remote_stats *out_stats);

#endif
