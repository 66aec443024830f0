/* limit.h: lets a pass do only the first of its rewrites. Who looks for a wrong one runs the pass
 * again and again, each time with another limit. A pass asks before each rewrite; without a limit
 * (NULL) everything is allowed, and asking costs a comparison. */
#ifndef HN_BASE_LIMIT_H
#define HN_BASE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hn_limit {
    uint32_t most;  /* so many rewrites may be done */
    uint32_t count; /* have been done */
    /* Of the last one that was done: the rule, static storage, and the nodes that it was about
     * (hn_graph.origins), `other` 0 when it was about one. */
    const char *rule;
    uint32_t origin, other;
} hn_limit;

/* Whether rewrites are left: a pass may spare itself the work of finding one. */
static inline bool hn_limit_is_open(const hn_limit *limit) {
    return !limit || limit->count < limit->most;
}

/* Asked once for each rewrite that is about to be done. */
static inline bool hn_limit_allows(hn_limit *limit, const char *rule, uint32_t origin,
                                   uint32_t other) {
    if (!limit) return true;
    if (limit->count >= limit->most) return false;
    limit->count++;
    limit->rule = rule;
    limit->origin = origin;
    limit->other = other;
    return true;
}

#endif
