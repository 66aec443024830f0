/* sample.c: calls of one candidate, and the time that they take. */
#include "tune/race.h"

#include "base/log.h"
#include "base/trace.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CLOCK_READS = 64 };
enum { CALLS_MAX = 1 << 20, SPLIT_CALLS_MAX = 16 };
/* How often a disturbed sample is taken again. */
enum { TRIES = 3 };
/* Of the warm-up: the shortest of so many calls says how long one takes, unless calls take long. */
enum { WARM_CALLS = 3, WARM_CALLS_MAX = 1000, WARM_LONG = 10 };
/* The system counts stolen time in units of 10 ms. */
#define STOLEN_EVERY_NS INT64_C(10000000)

/* ---- the clock ---- */

static int64_t system_now(void *user) {
    (void)user;
    return hn_now_ns();
}

/* The eighth number behind "cpu": of all processors, since the start. 0: not known. */
static uint64_t read_stolen(int fd) {
    char text[512];
    const ssize_t len = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (len < 4 || memcmp(text, "cpu ", 4) != 0) return 0;
    text[len] = '\0';
    char *at = text + 4, *end;
    for (int k = 0; k < 7; k++, at = end) (void)strtoull(at, &end, 10);
    return strtoull(at, NULL, 10);
}

static uint64_t disturbances(hn_bench_clock *c) {
    struct rusage use;
    if (c->disturbances) return c->disturbances(c->user);
    const int64_t now = hn_bench_now(c);
    if (now - c->asked_ns >= STOLEN_EVERY_NS) {
        c->stolen = read_stolen(c->stat_fd);
        c->asked_ns = now;
    }
    return c->stolen + (getrusage(RUSAGE_SELF, &use) ? 0 : (uint64_t)use.ru_nivcsw);
}

/* The least step of the clock. */
static int64_t grain_of(const hn_bench_clock *c) {
    int64_t least = 0, last = hn_bench_now(c);
    for (int k = 0; k < CLOCK_READS; k++) {
        const int64_t now = hn_bench_now(c), step = now - last;
        if (step > 0 && (!least || step < least)) least = step;
        last = now;
    }
    return least ? least : 1;
}

void hn_bench_clock_init(hn_bench_clock *c, const hn_bench_options *o) {
    *c = (hn_bench_clock){.now_ns = o->now_ns ? o->now_ns : system_now,
                          .disturbances = o->disturbances,
                          .user = o->clock_user,
                          .stat_fd = -1};
    if (!o->disturbances) c->stat_fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    c->stolen = read_stolen(c->stat_fd);
    c->asked_ns = hn_bench_now(c);
    c->grain_ns = grain_of(c);
}

void hn_bench_clock_deinit(hn_bench_clock *c) {
    if (c->stat_fd >= 0) (void)close(c->stat_fd);
}

/* ---- calls ---- */

bool hn_runner_is_split(const hn_race *race, const hn_runner *r) {
    return race->options.flush || r->candidate.restore;
}

static hn_status call(hn_status (*fn)(void *), void *user) { return fn ? fn(user) : NULL; }

/* `calls` of them, one behind the other. */
static hn_status time_calls(hn_race *race, const hn_bench_candidate *c, uint32_t calls,
                            double *out_ns, bool *out_is_disturbed) {
    const uint64_t before = disturbances(&race->clock);
    if (c->run_timed) {
        HN_TRY(c->run_timed(c->user, calls, out_ns));
    } else {
        const int64_t begin = hn_bench_now(&race->clock);
        for (uint32_t k = 0; k < calls; k++) HN_TRY(c->run(c->user));
        *out_ns = (double)(hn_bench_now(&race->clock) - begin);
    }
    *out_is_disturbed |= disturbances(&race->clock) != before;
    return NULL;
}

/* With what is done around each call. */
static hn_status time_split(hn_race *race, const hn_bench_candidate *c, uint32_t calls,
                            double *out_ns, bool *out_is_disturbed) {
    *out_ns = 0;
    for (uint32_t k = 0; k < calls; k++) {
        double ns;
        if (race->options.flush) race->options.flush(race->options.flush_user);
        HN_TRY(time_calls(race, c, 1, &ns, out_is_disturbed));
        HN_TRY(call(c->restore, c->user));
        *out_ns += ns;
    }
    return NULL;
}

/* `*out_ns`: of one call. */
static hn_status take(hn_race *race, const hn_runner *r, uint32_t calls, double *out_ns,
                      bool *out_is_disturbed) {
    const hn_bench_candidate *c = &r->candidate;
    *out_is_disturbed = false;
    HN_TRY(call(c->prepare, c->user));
    HN_TRY(hn_runner_is_split(race, r) ? time_split(race, c, calls, out_ns, out_is_disturbed)
                                       : time_calls(race, c, calls, out_ns, out_is_disturbed));
    *out_ns /= calls;
    return NULL;
}

/* ---- the warm-up ---- */

static uint32_t calls_of(const hn_race *race, const hn_runner *r) {
    const uint32_t most = hn_runner_is_split(race, r) ? SPLIT_CALLS_MAX : CALLS_MAX;
    const double ns = r->warm_ns > 1 ? r->warm_ns : 1, calls = (double)race->options.sample_ns / ns;
    return calls >= most ? most : calls <= 1 ? 1 : (uint32_t)calls + (calls > (uint32_t)calls);
}

/* The first call, whose result is looked at before it is given back. */
static hn_status call_first(hn_race *race, const hn_runner *r) {
    const hn_bench_candidate *c = &r->candidate;
    double ns;
    bool is_disturbed = false;
    HN_TRY(call(c->prepare, c->user));
    HN_TRY(time_calls(race, c, 1, &ns, &is_disturbed));
    HN_TRY(call(c->check, c->user));
    return call(c->restore, c->user);
}

hn_status hn_runner_warm(hn_race *race, hn_runner *r) {
    const int64_t begin = hn_bench_now(&race->clock);
    hn_status started = call(r->candidate.start, r->candidate.user);
    race->start_ns += hn_bench_now(&race->clock) - begin;
    HN_TRY(started);
    HN_TRY(call_first(race, r));
    double spent = 0;
    for (uint32_t k = 0; k < WARM_CALLS_MAX; k++) {
        double ns;
        bool is_disturbed;
        HN_TRY(take(race, r, 1, &ns, &is_disturbed));
        if (k == 0 || ns < r->warm_ns) r->warm_ns = ns;
        spent += ns;
        const double warm = (double)race->options.warmup_ns;
        if (spent >= WARM_LONG * warm || (k + 1 >= WARM_CALLS && spent >= warm)) break;
    }
    r->calls = calls_of(race, r);
    return NULL;
}

hn_status hn_runner_warm_again(hn_race *race, hn_runner *r) {
    double ns;
    bool is_disturbed;
    HN_TRY(take(race, r, 1, &ns, &is_disturbed));
    if (ns < r->warm_ns) r->warm_ns = ns;
    r->calls = calls_of(race, r);
    return NULL;
}

hn_status hn_runner_sample(hn_race *race, hn_runner *r) {
    const uint32_t round = race->rounds - 1;
    for (int k = 0; k < TRIES; k++) {
        bool is_disturbed;
        HN_TRY(take(race, r, r->calls, &r->samples[round], &is_disturbed));
        race->timed_calls += r->calls;
        r->marks[round] = is_disturbed ? HN_BENCH_DISTURBED : HN_BENCH_CLEAN;
        r->disturbed += is_disturbed;
        if (!is_disturbed) break;
    }
    return NULL;
}
