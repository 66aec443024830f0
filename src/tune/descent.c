/* descent.c: see descent.h. */
#include "tune/descent.h"

bool hn_descent_is_known(const hn_descent_memo *memo, uint32_t point) {
    for (uint32_t k = 0; k < memo->count; k++)
        if (memo->points[k] == point) return true;
    return false;
}

static void learn(hn_descent_memo *memo, uint32_t point) {
    if (!hn_descent_is_known(memo, point) && memo->count < HN_DESCENT_POINTS_MAX)
        memo->points[memo->count++] = point;
}

/* How many more points the search may time, in one race. */
static uint32_t room_of(const hn_descent *d, const hn_descent_memo *memo) {
    uint32_t room = HN_DESCENT_POINTS_MAX - memo->count;
    if (room > d->near_most) room = d->near_most;
    return room > HN_DESCENT_NEAR_MAX ? HN_DESCENT_NEAR_MAX : room;
}

/* Points that nothing is known of; those that are listed twice count once. */
static hn_status list(const hn_descent *d, hn_descent_memo *memo, uint32_t from, uint32_t radius,
                      uint32_t points[HN_DESCENT_NEAR_MAX + 1], uint32_t *out_count) {
    uint32_t found[HN_DESCENT_NEAR_MAX], count;
    points[0] = from;
    *out_count = 1;
    HN_TRY(d->list(d->user, memo, from, radius, room_of(d, memo), found, &count));
    for (uint32_t k = 0; k < count; k++) {
        if (hn_descent_is_known(memo, found[k])) continue;
        learn(memo, found[k]);
        points[(*out_count)++] = found[k];
    }
    return NULL;
}

/* A race around the point; `*pick` stays where no other one is faster. */
static hn_status step(const hn_descent *d, hn_descent_memo *memo, uint32_t radius, uint32_t *pick) {
    uint32_t points[HN_DESCENT_NEAR_MAX + 1], count, winner = 0;
    double ns[HN_DESCENT_NEAR_MAX + 1] = {0};
    HN_TRY(list(d, memo, *pick, radius, points, &count));
    if (count < 2) return NULL;
    HN_TRY(d->race(d->user, points, count, ns, &winner));
    if (winner < count && ns[winner] > 0 && ns[winner] < ns[0] * (1 - HN_DESCENT_LEAST_GAIN))
        *pick = points[winner];
    return NULL;
}

hn_status hn_descent_run(const hn_descent *d, uint32_t *pick, uint32_t *out_steps) {
    hn_descent_memo memo = {.count = 0};
    uint32_t radius = 1;
    *out_steps = 0;
    learn(&memo, *pick);
    for (uint32_t k = 0; k < d->steps_most; k++) {
        const uint32_t from = *pick;
        if (d->may_go_on && !d->may_go_on(d->user)) return NULL;
        HN_TRY(step(d, &memo, radius, pick));
        if (*pick != from) {
            ++*out_steps;
            radius = 1;
        } else if (radius == 1 && d->radius > 1) {
            radius = d->radius;
        } else {
            return NULL;
        }
    }
    return NULL;
}
