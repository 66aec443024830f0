/* combine.c: a scatter whose places were sorted. On a CPU a scatter is a loop, which needs no sorted
 * places; this is for programs of a GPU whose kernels the host stands in for, and says what those
 * kernels (codegen/cuda/combine.c) have to give, bit for bit. One element after the other, on one
 * thread. */
#include "ops/cpu/sort/combine.h"

#include "henry/tensor.h"
#include "ops/cpu/elements.h"

#include <inttypes.h>
#include <string.h>

enum { OUT = 0, PLACES = 1, ORDER = 2, VALUES = 3, X = 4 };

/* As loops of the CPU do it (codegen/c/snippets.c). */
static double least(double a, double b) { return a < b || isnan(a) ? a : b; }
static double most(double a, double b) { return a > b || isnan(a) ? a : b; }

/* Of numbers of 32 and fewer bits, sums and products of doubles round to those of the dtype. */
static double combined(int64_t mode, double a, double b) {
    switch (mode) {
    case HN_COMBINE_ADD: return a + b;
    case HN_COMBINE_MUL: return a * b;
    case HN_COMBINE_MIN: return least(a, b);
    default: return most(a, b);
    }
}

static hn_status outside(const char *what, int64_t value, int64_t limit) {
    return HN_ERROR(HN_INTERNAL, "%s %" PRId64 " of a sorted scatter is not in [0, %" PRId64 ")",
                    what, value, limit);
}

static void begin(const hn_ext_call *call, size_t row_bytes) {
    const size_t bytes = (size_t)call->params[HN_COMBINE_PLACES] * row_bytes;
    if (!bytes) return;
    if (call->dtypes[X] != HN_NO_TYPE) memcpy(call->operands[OUT], call->operands[X], bytes);
    else memset(call->operands[OUT], 0, bytes);
}

static void combine_row(const hn_ext_call *call, int64_t place, int64_t at) {
    const int64_t columns = call->params[HN_COMBINE_COLUMNS], mode = call->params[HN_COMBINE_MODE];
    const uint8_t dtype = call->dtypes[OUT];
    for (int64_t c = 0; c < columns; c++) {
        const hn_ext_number x = hn_ext_load(dtype, call->operands[OUT], place * columns + c),
                            y = hn_ext_load(dtype, call->operands[VALUES], at * columns + c),
                            z = {.f = combined(mode, x.f, y.f)};
        hn_ext_store(dtype, call->operands[OUT], place * columns + c, z);
    }
}

static hn_status combine_run(const hn_ext_call *call, void *scratch) {
    const int64_t *p = call->params, *order = call->operands[ORDER];
    const size_t row_bytes =
        (size_t)p[HN_COMBINE_COLUMNS] * hn_scalar_type_bytes((hn_scalar_type)call->dtypes[OUT]);
    (void)scratch;
    begin(call, row_bytes);
    for (int64_t j = 0; j < p[HN_COMBINE_N]; j++) {
        const hn_ext_number number = hn_ext_load(call->dtypes[PLACES], call->operands[PLACES], j);
        const int64_t at = order[j], place = (int64_t)number.u;
        if (place < 0 || place >= p[HN_COMBINE_PLACES])
            return outside("place", place, p[HN_COMBINE_PLACES]);
        if (at < 0 || at >= p[HN_COMBINE_N]) return outside("position", at, p[HN_COMBINE_N]);
        if (p[HN_COMBINE_MODE] != HN_COMBINE_SET) combine_row(call, place, at);
        else
            memcpy((uint8_t *)call->operands[OUT] + (size_t)place * row_bytes,
                   (const uint8_t *)call->operands[VALUES] + (size_t)at * row_bytes, row_bytes);
    }
    return NULL;
}

static hn_status combine_prepare(hn_ext_call *call) {
    call->scratch_bytes = 0;
    return NULL;
}

const hn_ext_impl hn_ext_combine = {
    .name = "combine sorted", .prepare = combine_prepare, .run = combine_run};
