/* lease.h: who compiles, when several processes want the same entry at once.
 *
 * A lease is a lock on a file below the cache directory, which the system releases when its holder
 * dies, and, with a remote cache, a value there that expires unless its holder renews it. Holding
 * one means "I am making this entry; look for it instead of making it too". It only saves work:
 * without a lease, after any error and after waiting too long, a process makes the entry itself,
 * and entries are the same whoever made them.
 *
 * No deadlock. A lease is taken without waiting, right before the work, by somebody who holds no
 * other lease for that piece of work and is ready to begin at once; who does not get it holds
 * nothing while it waits. Of the two locks of a lease the file comes first, and is given back when
 * the remote one is somebody else's. So no chain of waiters can close.
 *
 * Threads: safe. Fork: a child makes an object of its own and abandons the inherited one; until
 * then the child of a holder that died would keep the file locked. */
#ifndef HN_CACHE_LEASE_H
#define HN_CACHE_LEASE_H

#include "cache/remote.h"
#include "cache/store.h"

typedef struct hn_leases hn_leases;

/* `store` and `remote` are borrowed; `remote` may be NULL. Errors: out-of-memory. */
hn_status hn_leases_create(hn_store *store, hn_remote *remote, hn_leases **out_leases) HN_MUST_USE;
/* Releases what is still held. NULL is allowed. */
void hn_leases_destroy(hn_leases *leases);
/* In a forked child: closes the inherited descriptors. The object itself is leaked. */
void hn_leases_abandon(hn_leases *leases);

/* 0: none. */
typedef int32_t hn_lease;

typedef enum hn_lease_answer {
    /* `*out_lease` may be 0: there is nothing to hold (no disk, say), and nobody to wait for */
    HN_LEASE_MINE,
    HN_LEASE_THEIRS,
} hn_lease_answer;

/* Never waits for the holder; may wait for the remote cache within its limits. `is_shared`: other
 * machines can use the entry too. */
hn_lease_answer hn_lease_try(hn_leases *leases, hn_store_ns ns, const hn_digest *key,
                             bool is_shared, hn_lease *out_lease);
/* 0 is allowed. To be called after the entry was published. */
void hn_lease_release(hn_leases *leases, hn_lease lease);

/* How many are held, for tests. */
uint32_t hn_leases_held(hn_leases *leases);

#endif
