/* limit.h: lets a pass do only some of its rewrites: the first ones, for who looks for a wrong one
 * and runs the pass again and again, each time with another limit; or those that somebody allows. A
 * pass asks before each rewrite; without a limit (NULL) everything is allowed, and asking costs a
 * comparison. */
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
    /* Asked about each rewrite that is about to be done, with the nodes. NULL: all may be */
    bool (*may)(void *user, uint32_t origin, uint32_t other);
    void *user;
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
    if (limit->may && !limit->may(limit->user, origin, other)) return false;
    limit->count++;
    limit->rule = rule;
    limit->origin = origin;
    limit->other = other;
    return true;
}

#endif
