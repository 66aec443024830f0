/* nonzero.c: the coordinates of the true elements of a mask.
 *
 * The program has counted them before, so that the result has its size. On one thread: the place of
 * a row depends on all elements before it, and what reads the result takes longer than this. */
#include "ops/cpu/sort/nonzero.h"

#include <inttypes.h>
#include <string.h>

enum { POSITIONS = 0, X = 1, WORD = 8 };

/* Writes the coordinates of `linear` + `coord` in front, which is the row's. */
static inline void put(int64_t *to, const int64_t *row, uint32_t rank, int64_t last) {
    for (uint32_t d = 0; d + 1 < rank; d++) to[d] = row[d];
    to[rank - 1] = last;
}

/* One row of the innermost dimension. The number of positions after it, or -1 when there are too
 * many. */
static int64_t scan_row(const uint8_t *x, int64_t n, const int64_t *row, uint32_t rank,
                        int64_t *out, int64_t at, int64_t count) {
    for (int64_t i = 0; i < n;) {
        uint64_t word = 1;
        if (i + WORD <= n) memcpy(&word, x + i, WORD);
        if (word == 0) { /* masks are sparse as often as not */
            i += WORD;
            continue;
        }
        int64_t end = i + WORD <= n ? i + WORD : n;
        for (; i < end; i++) {
            if (!x[i]) continue;
            if (at == count) return -1;
            put(out + at++ * rank, row, rank, i);
        }
    }
    return at;
}

static hn_status wrong_count(int64_t count) {
    return HN_ERROR(HN_INTERNAL,
                    "the mask has not %" PRId64 " true elements, as was counted before", count);
}

/* Rank 0: a row of no coordinates, nothing to write. */
static hn_status run_scalar(const hn_ext_call *call) {
    int64_t count = *(const uint8_t *)call->operands[X] != 0;
    return count == call->params[HN_NONZERO_COUNT] ? NULL
                                                   : wrong_count(call->params[HN_NONZERO_COUNT]);
}

static hn_status nonzero_run(const hn_ext_call *call, void *scratch) {
    const int64_t *p = call->params, *sizes = p + HN_NONZERO_SIZES;
    uint32_t rank = (uint32_t)p[HN_NONZERO_RANK];
    int64_t row[HN_NONZERO_RANK_MAX] = {0}, rows = 1, at = 0;
    (void)scratch;
    if (rank == 0) return run_scalar(call);
    const uint8_t *x = call->operands[X];
    for (uint32_t d = 0; d + 1 < rank; d++) rows *= sizes[d];
    for (int64_t r = 0; r < rows && at >= 0; r++, x += sizes[rank - 1]) {
        at = scan_row(x, sizes[rank - 1], row, rank, call->operands[POSITIONS], at,
                      p[HN_NONZERO_COUNT]);
        for (uint32_t d = rank - 1; d-- > 0 && ++row[d] == sizes[d];) row[d] = 0;
    }
    return at == p[HN_NONZERO_COUNT] ? NULL : wrong_count(p[HN_NONZERO_COUNT]);
}

static hn_status nonzero_prepare(hn_ext_call *call) {
    call->scratch_bytes = 0;
    return NULL;
}

const hn_ext_impl hn_ext_nonzero = {
    .name = "nonzero", .prepare = nonzero_prepare, .run = nonzero_run};
