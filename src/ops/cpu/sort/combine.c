/* combine.c: a scatter whose places were sorted. On a CPU a scatter is a loop, which needs no sorted
 * places; this is for programs of a GPU whose kernels the host stands in for, and says what those
 * kernels (codegen/cuda/combine_sorted.cu) have to give, bit for bit. One element after the other,
 * on one thread. */
#include "ops/cpu/sort/combine.h"

#include "henry/tensor.h"
#include "ops/cpu/elements.h"

#include <inttypes.h>
#include <string.h>

enum { OUT = 0, X = 1, PLACES = 2, ORDER = 3, VALUES = 4 };

/* Of zeros -0 is the lesser one. */
static bool is_less(double a, double b) { return a < b || (a == b && signbit(a) && !signbit(b)); }
static double least(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : is_less(a, b) ? a : b;
}
static double most(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : is_less(a, b) ? b : a;
}

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

static hn_status combine_run(const hn_ext_call *call, void *scratch) {
    const int64_t *p = call->params, *order = call->operands[ORDER];
    const uint8_t dtype = call->dtypes[OUT];
    const size_t bytes = hn_scalar_type_bytes((hn_scalar_type)dtype);
    uint8_t *out = call->operands[OUT];
    const uint8_t *values = call->operands[VALUES];
    (void)scratch;
    if (p[HN_COMBINE_PLACES]) memcpy(out, call->operands[X], (size_t)p[HN_COMBINE_PLACES] * bytes);
    for (int64_t j = 0; j < p[HN_COMBINE_N]; j++) {
        const int64_t at = order[j],
                      place =
                          (int64_t)hn_ext_load(call->dtypes[PLACES], call->operands[PLACES], j).u;
        if (place < 0 || place >= p[HN_COMBINE_PLACES])
            return outside("place", place, p[HN_COMBINE_PLACES]);
        if (at < 0 || at >= p[HN_COMBINE_N]) return outside("position", at, p[HN_COMBINE_N]);
        if (p[HN_COMBINE_MODE] == HN_COMBINE_SET) {
            memcpy(out + (size_t)place * bytes, values + (size_t)at * bytes, bytes);
            continue;
        }
        const double sum = combined(p[HN_COMBINE_MODE], hn_ext_load(dtype, out, place).f,
                                    hn_ext_load(dtype, values, at).f);
        hn_ext_store(dtype, out, place, (hn_ext_number){.f = sum});
    }
    return NULL;
}

static hn_status combine_prepare(hn_ext_call *call) {
    call->scratch_bytes = 0;
    return NULL;
}

const hn_ext_impl hn_ext_combine = {
    .name = "combine sorted", .prepare = combine_prepare, .run = combine_run};
