/* descent.h: a search from a point to its neighbours, as long as one of them is faster: over the
 * parameters of the forms of a kernel. It knows nothing of them: points are the caller's numbers,
 * and the caller times them. */
#ifndef HN_TUNE_DESCENT_H
#define HN_TUNE_DESCENT_H

#include "henry/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A point has to be faster by this part at least, whatever the race says. */
#define HN_DESCENT_LEAST_GAIN 0.001

enum {
    HN_DESCENT_NEAR_MAX = 32,   /* points of a step */
    HN_DESCENT_POINTS_MAX = 256 /* of a search: it ends with so many */
};

/* Points that were in a race: none is listed twice. */
typedef struct hn_descent_memo {
    uint32_t points[HN_DESCENT_POINTS_MAX];
    uint32_t count;
} hn_descent_memo;
bool hn_descent_is_known(const hn_descent_memo *memo, uint32_t point);

typedef struct hn_descent {
    uint32_t steps_most; /* races */
    uint32_t near_most;  /* points of one beside the one at hand; at most HN_DESCENT_NEAR_MAX */
    /* where no neighbour is faster: points within so many moves, of several parameters at once; at
     * most 1: the search ends there */
    uint32_t radius;
    void *user;
    /* Before each race: false ends the search, say when a budget is over. NULL: it goes on. */
    bool (*may_go_on)(void *user);
    /* Points within `radius` moves of `from`, those first that are expected to be the fastest: at
     * most `most` that is_known says no of, each once. */
    hn_status (*list)(void *user, const hn_descent_memo *memo, uint32_t from, uint32_t radius,
                      uint32_t most, uint32_t *out, uint32_t *out_count);
    /* Times `count` points beside each other, the first is the one at hand: ns of each, 0 for one
     * that cannot run; and which one is the fastest for certain, the first where none is. */
    hn_status (*race)(void *user, const uint32_t *points, uint32_t count, double *out_ns,
                      uint32_t *out_winner);
} hn_descent;

/* From `*pick`, which was timed, to where no neighbour is faster. `*out_steps`: how often it moved.
 * Errors: those of `list` and `race`. */
hn_status hn_descent_run(const hn_descent *d, uint32_t *pick, uint32_t *out_steps) HN_MUST_USE;

#endif
