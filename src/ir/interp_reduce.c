/* interp_reduce.c: reductions and scans.
 *
 * Floats accumulate in double and are rounded at the end; ints wrap. amin, amax, argmin and argmax
 * of nothing are errors. NaN wins in amin, amax, argmin, argmax, cummin and cummax, the first NaN
 * in the arg forms. In cummin and cummax the latest of equal elements gives the index, and so does
 * each further NaN (as eager PyTorch). any and all count NaN as true. */
#include "ir/interp_impl.h"

#include <inttypes.h>

/* --- reductions --- */

/* Running state over the elements of one result. `i` or `f` by the category of x; `at` for arg
 * forms. */
typedef struct accumulator {
    hn_ref_elem value;
    int64_t at;
    int64_t seen;
} accumulator;

/* Whether `e` takes the place of `best` for a search of the smallest (or largest). */
static bool better(const hn_ref_tensor *x, bool largest, hn_ref_elem e, hn_ref_elem best) {
    if (!hn_ref_is_float(x)) return largest ? e.i > best.i : e.i < best.i;
    if (isnan(best.f)) return false;
    return isnan(e.f) || (largest ? e.f > best.f : e.f < best.f);
}

static bool is_true(const hn_ref_tensor *x, hn_ref_elem e) {
    return hn_ref_is_float(x) ? e.f != 0 : e.i != 0;
}

typedef void (*reduce_step)(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e);

static void step_sum(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    if (hn_ref_is_float(x)) a->value.f += e.f;
    else a->value.i = (int64_t)((uint64_t)a->value.i + (uint64_t)e.i);
}

static void step_prod(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    if (hn_ref_is_float(x)) a->value.f *= e.f;
    else a->value.i = (int64_t)((uint64_t)a->value.i * (uint64_t)e.i);
}

static void step_best(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e, bool largest) {
    if (a->seen && !better(x, largest, e, a->value)) return;
    a->value = e;
    a->at = a->seen;
}

static void step_min(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    step_best(a, x, e, false);
}
static void step_max(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    step_best(a, x, e, true);
}
static void step_any(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    a->value.i |= is_true(x, e);
}
static void step_all(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    a->value.i &= is_true(x, e);
}

typedef enum reduce_result { RESULT_VALUE, RESULT_BOOL, RESULT_POSITION } reduce_result;

typedef struct reduction {
    reduce_step step;
    bool start_at_one;
    bool needs_elements;
    reduce_result result;
} reduction;

static const reduction reductions[HN_OP_COUNT] = {
    [HN_OP_SUM] = {step_sum, false, false, RESULT_VALUE},
    [HN_OP_PROD] = {step_prod, true, false, RESULT_VALUE},
    [HN_OP_AMIN] = {step_min, false, true, RESULT_VALUE},
    [HN_OP_AMAX] = {step_max, false, true, RESULT_VALUE},
    [HN_OP_ANY] = {step_any, false, false, RESULT_BOOL},
    [HN_OP_ALL] = {step_all, true, false, RESULT_BOOL},
    [HN_OP_ARGMIN] = {step_min, false, true, RESULT_POSITION},
    [HN_OP_ARGMAX] = {step_max, false, true, RESULT_POSITION},
};

static accumulator accumulator_start(const reduction *r, const hn_ref_tensor *x) {
    accumulator a = {0};
    if (r->result != RESULT_BOOL && hn_ref_is_float(x)) a.value.f = r->start_at_one;
    else a.value.i = r->start_at_one;
    return a;
}

/* The coordinates of x that are reduced into one result: those dims run, the others stand. Dims run
 * in ascending order whatever the order of the list, so "flat index over dims" is row-major. */
static accumulator reduce_one(const reduction *r, const hn_ref_tensor *x, const bool *reduced,
                              const int64_t *kept) {
    accumulator a = accumulator_start(r, x);
    int64_t coord[HN_MAX_RANK], loops[HN_MAX_RANK], run[HN_MAX_RANK] = {0}, total = 1;
    for (uint32_t d = 0; d < x->rank; d++) {
        loops[d] = reduced[d] ? x->sizes[d] : 1;
        total *= loops[d];
    }
    for (; a.seen < total; a.seen++, hn_ref_next(run, loops, x->rank)) {
        for (uint32_t d = 0; d < x->rank; d++) coord[d] = reduced[d] ? run[d] : kept[d];
        r->step(&a, x, hn_ref_get(x, hn_ref_offset(x, coord)));
    }
    return a;
}

/* sum and prod may record a wider dtype than x has (ints of bools, say). */
static void reduce_store(const reduction *r, const hn_ref_tensor *x, const accumulator *a,
                         hn_ref_tensor *out, int64_t at) {
    if (r->result == RESULT_POSITION) out->data.i[at] = a->at;
    else if (r->result == RESULT_BOOL) out->data.i[at] = a->value.i;
    else
        hn_ref_set(
            out, at,
            hn_ref_cast(a->value, hn_ref_is_float(x) ? HN_DTYPE_F64 : HN_DTYPE_I64, out->dtype));
}

typedef struct reduced_shape {
    bool reduced[HN_MAX_RANK];
    uint32_t rank;
    int64_t sizes[HN_MAX_RANK]; /* of the result */
    int64_t kept[HN_MAX_RANK];  /* of x, reduced dims as 1 */
} reduced_shape;

static hn_status shape_read(hn_ref_run *run, const hn_ref_tensor *x, reduced_shape *s) {
    int64_t dims[HN_MAX_RANK];
    uint32_t count;
    bool keepdim;
    *s = (reduced_shape){0};
    HN_TRY(hn_ref_arg_ints(run, "dims", dims, &count));
    HN_TRY(hn_ref_arg_bool(run, "keepdim", &keepdim));
    for (uint32_t k = 0; k < count; k++) {
        if (dims[k] < 0 || dims[k] >= x->rank || s->reduced[dims[k]])
            return HN_ERROR(HN_INTERNAL, "bad dims");
        s->reduced[dims[k]] = true;
    }
    for (uint32_t d = 0; d < x->rank; d++) {
        s->kept[d] = s->reduced[d] ? 1 : x->sizes[d];
        if (!s->reduced[d] || keepdim) s->sizes[s->rank++] = s->kept[d];
    }
    return NULL;
}

hn_status hn_ref_reduce(hn_ref_run *run) {
    const reduction *r = &reductions[run->node->op];
    const hn_ref_tensor *x;
    reduced_shape s;
    int64_t coord[HN_MAX_RANK] = {0};
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(shape_read(run, x, &s));
    hn_dtype dtype = r->result == RESULT_BOOL       ? HN_DTYPE_BOOL
                     : r->result == RESULT_POSITION ? HN_DTYPE_I64
                                                    : hn_ref_result_dtype(run, 0, x->dtype);
    HN_TRY(hn_ref_result(run, 0, dtype, s.rank, s.sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, s.kept, x->rank)) {
        accumulator a = reduce_one(r, x, s.reduced, coord);
        if (a.seen == 0 && r->needs_elements)
            return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' of no elements",
                            hn_op_facts(run->node->op)->name);
        reduce_store(r, x, &a, out, n);
    }
    return NULL;
}

/* --- scans --- */

static double log_add_exp(double a, double b) {
    double high = isnan(a) || a > b ? a : b, low = isnan(a) || a > b ? b : a;
    if (isnan(a) || isnan(b)) return NAN;
    if (isinf(high)) return high; /* -inf: both are; inf: nothing adds */
    return high + log1p(exp(low - high));
}

/* `a` holds the result so far, unrounded; element number a->seen is `e`. */
typedef void (*scan_step)(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e);

static void scan_logsumexp(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    (void)x;
    a->value.f = a->seen ? log_add_exp(a->value.f, e.f) : e.f;
}

/* Unlike the reductions the latest of equals wins, so "not worse" takes the place. */
static void scan_best(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e, bool largest) {
    bool nan_already = hn_ref_is_float(x) && isnan(a->value.f),
         nan_now = hn_ref_is_float(x) && isnan(e.f);
    bool takes = a->seen == 0 || nan_now || (!nan_already && !better(x, largest, a->value, e));
    if (!takes) return;
    a->value = e;
    a->at = a->seen;
}

static void scan_max(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    scan_best(a, x, e, true);
}
static void scan_min(accumulator *a, const hn_ref_tensor *x, hn_ref_elem e) {
    scan_best(a, x, e, false);
}

static const struct {
    scan_step step;
    bool start_at_one, indices, floats_only;
} scans[HN_OP_COUNT] = {
    [HN_OP_CUMSUM] = {step_sum, false, false, false},
    [HN_OP_CUMPROD] = {step_prod, true, false, false},
    [HN_OP_CUMMAX] = {scan_max, false, true, false},
    [HN_OP_CUMMIN] = {scan_min, false, true, false},
    [HN_OP_LOGCUMSUMEXP] = {scan_logsumexp, false, false, true},
};

static void scan_line(hn_op op, const hn_ref_tensor *x, int64_t first, int64_t count,
                      int64_t stride, hn_ref_tensor *out, hn_ref_tensor *positions) {
    accumulator a = {0};
    if (hn_ref_is_float(x)) a.value.f = scans[op].start_at_one;
    else a.value.i = scans[op].start_at_one;
    for (; a.seen < count; a.seen++) {
        int64_t at = first + a.seen * stride;
        scans[op].step(&a, x, hn_ref_get(x, at));
        hn_ref_set(
            out, at,
            hn_ref_cast(a.value, hn_ref_is_float(x) ? HN_DTYPE_F64 : HN_DTYPE_I64, out->dtype));
        if (positions) positions->data.i[at] = a.at;
    }
}

hn_status hn_ref_scan(hn_ref_run *run) {
    hn_op op = run->node->op;
    const hn_ref_tensor *x;
    uint32_t dim;
    int64_t lines[HN_MAX_RANK], coord[HN_MAX_RANK] = {0}, line_count, stride = 1;
    hn_ref_tensor *out, *positions = NULL;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_dim(run, "dim", x->rank, &dim));
    if (scans[op].floats_only && !hn_ref_is_float(x))
        return HN_ERROR(HN_UNSUPPORTED, "'%s' has no meaning for %s", hn_op_facts(op)->name,
                        hn_dtype_facts(x->dtype)->name);
    HN_TRY(hn_ref_result(run, 0, hn_ref_result_dtype(run, 0, x->dtype), x->rank, x->sizes, &out));
    if (scans[op].indices)
        HN_TRY(hn_ref_result(run, 1, HN_DTYPE_I64, x->rank, x->sizes, &positions));
    memcpy(lines, x->sizes, sizeof lines);
    lines[dim] = 1;
    HN_TRY(hn_ref_numel(x->rank, lines, &line_count));
    for (uint32_t d = dim + 1; d < x->rank; d++) stride *= x->sizes[d];
    for (int64_t n = 0; n < line_count; n++, hn_ref_next(coord, lines, x->rank))
        scan_line(op, x, hn_ref_offset(x, coord), x->sizes[dim], stride, out, positions);
    return NULL;
}
