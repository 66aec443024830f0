/* picks_print.h: what bench_picks and bench_picks_calls say alike of a form, for picks.py. */
#ifndef HN_BENCH_PICKS_PRINT_H
#define HN_BENCH_PICKS_PRINT_H

#include "henry/bench.h"

#include <stdio.h>

/* The rest of a form's JSON object: its times, unless it is out of the race. */
static inline void picks_print_time(const hn_bench_result *r) {
    if (r->state != HN_BENCH_DROPPED)
        printf(", \"ns\": %.1f, \"least\": %.1f, \"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f, "
               "\"rounds\": %u",
               r->median_ns, r->least_ns, r->ratio, r->ratio_low,
               r->ratio_high < 1e6 ? r->ratio_high : 1e6, r->samples);
    printf("}");
}

#endif
