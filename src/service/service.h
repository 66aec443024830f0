/* service.h: what the rest of Henry may ask of a service beyond henry/kernel.h. */
#ifndef HN_SERVICE_SERVICE_H
#define HN_SERVICE_SERVICE_H

#include "cache/cache.h"
#include "henry/kernel.h"

#include <sys/types.h>

/* The store of the service, for graphs and for `henry cache`. Borrowed. */
hn_store *hn_service_store(const hn_service *service);

/* The levels below memory: disk and remote cache. Borrowed; of this process, as long as it does not
 * fork. Errors: out-of-memory. */
hn_status hn_service_cache(hn_service *service, hn_cache **out_cache) HN_MUST_USE;

/* Waits until the results of all finished jobs are on the disk and with the server: from then on
 * the statistics count them. */
void hn_service_wait_stored(hn_service *service);

/* Whether jobs run in this process. */
bool hn_service_is_inline(hn_service *service);

/* Process ids of the workers that live now, at most `cap`; returns how many. For tests and
 * reports. */
uint32_t hn_service_worker_pids(hn_service *service, pid_t *out_pids, uint32_t cap);

/* Appends the key record that `source` would have: what `henry cache why` compares. */
hn_status hn_service_key_record(hn_service *service, const hn_source *source,
                                hn_strbuf *out) HN_MUST_USE;

/* Appends the identity of the compiler of a language, probed once by the service, as
 * hn_toolchain_identity_print has it: part of the key of whatever is made with it. Errors:
 * not-found when no compiler is installed; toolchain. */
hn_status hn_service_toolchain_identity(hn_service *service, const char *language,
                                        hn_strbuf *out) HN_MUST_USE;
/* Appends the environment that compilers of a language may read, as a list: part of that key, too.
 * Asks for no compiler. */
hn_status hn_service_environment(const char *language, hn_strbuf *out) HN_MUST_USE;

/* Appends the statistics as one line of text. */
void hn_service_stats_print(const hn_service_stats *stats, hn_strbuf *out);

#endif
