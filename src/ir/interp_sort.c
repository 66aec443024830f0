/* interp_sort.c: sort and topk.
 *
 * NaN is larger than everything: last when ascending, first when descending. Equal elements keep
 * their order in both directions, also when the node does not ask for a stable sort, and topk takes
 * the first of equals; without `sorted` it still gives the largest (smallest) first. */
#include "ir/interp_impl.h"

#include <inttypes.h>

typedef struct line {
    const hn_ref_tensor *x;
    int64_t first, count, stride;
    bool descending;
} line;

static bool less(const hn_ref_tensor *x, hn_ref_elem a, hn_ref_elem b) {
    if (!hn_ref_is_float(x)) return a.i < b.i;
    return isnan(b.f) ? !isnan(a.f) : a.f < b.f;
}

/* Whether position q must stand before position p, which came first. */
static bool goes_before(const line *l, int64_t q, int64_t p) {
    hn_ref_elem a = hn_ref_get(l->x, l->first + q * l->stride),
                b = hn_ref_get(l->x, l->first + p * l->stride);
    return l->descending ? less(l->x, b, a) : less(l->x, a, b);
}

/* Stable merge sort of the positions order[0..count). `spare` is as long. */
static void positions_sort(const line *l, int64_t *order, int64_t *spare, int64_t count) {
    if (count < 2) return;
    int64_t half = count / 2, left = 0, right = half;
    positions_sort(l, order, spare, half);
    positions_sort(l, order + half, spare, count - half);
    for (int64_t n = 0; n < count; n++) {
        bool take_right =
            left == half || (right < count && goes_before(l, order[right], order[left]));
        spare[n] = take_right ? order[right++] : order[left++];
    }
    memcpy(order, spare, (size_t)count * sizeof *order);
}

/* The first `keep` of every line along `dim`, in order, as results 0 (values) and 1 (positions). */
static hn_status sort_lines(hn_ref_run *run, const hn_ref_tensor *x, uint32_t dim, bool descending,
                            int64_t keep) {
    int64_t sizes[HN_MAX_RANK], lines[HN_MAX_RANK], coord[HN_MAX_RANK] = {0}, line_count, *order,
                                                    *spare;
    hn_ref_tensor *values, *positions;
    line l = {.x = x, .count = x->sizes[dim], .stride = 1, .descending = descending};
    for (uint32_t d = dim + 1; d < x->rank; d++) l.stride *= x->sizes[d];
    memcpy(sizes, x->sizes, sizeof sizes);
    memcpy(lines, x->sizes, sizeof lines);
    sizes[dim] = keep;
    lines[dim] = 1;
    HN_TRY(hn_ref_result(run, 0, x->dtype, x->rank, sizes, &values));
    HN_TRY(hn_ref_result(run, 1, HN_DTYPE_I64, x->rank, sizes, &positions));
    HN_TRY(hn_ref_numel(x->rank, lines, &line_count));
    HN_NEW(run->scratch, order, l.count + 1);
    HN_NEW(run->scratch, spare, l.count + 1);
    for (int64_t n = 0; n < line_count; n++, hn_ref_next(coord, lines, x->rank)) {
        l.first = hn_ref_offset(x, coord);
        for (int64_t p = 0; p < l.count; p++) order[p] = p;
        positions_sort(&l, order, spare, l.count);
        int64_t to = hn_ref_offset(values, coord);
        for (int64_t p = 0; p < keep; p++, to += l.stride) {
            hn_ref_move(values, to, x, l.first + order[p] * l.stride);
            positions->data.i[to] = order[p];
        }
    }
    return NULL;
}

hn_status hn_ref_sort(hn_ref_run *run) {
    const hn_ref_tensor *x;
    uint32_t dim;
    bool descending;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_dim(run, "dim", x->rank, &dim));
    HN_TRY(hn_ref_arg_bool(run, "descending", &descending));
    return sort_lines(run, x, dim, descending, x->sizes[dim]);
}

hn_status hn_ref_topk(hn_ref_run *run) {
    const hn_ref_tensor *x;
    uint32_t dim;
    bool largest;
    int64_t k;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    HN_TRY(hn_ref_arg_dim(run, "dim", x->rank, &dim));
    HN_TRY(hn_ref_arg_int(run, "k", &k));
    HN_TRY(hn_ref_arg_bool(run, "largest", &largest));
    if (k < 0 || k > x->sizes[dim])
        return HN_ERROR(HN_INVALID_ARGUMENT, "k is %" PRId64 ", must be in [0, %" PRId64 "]", k,
                        x->sizes[dim]);
    return sort_lines(run, x, dim, largest, k);
}

/* --- suppression of overlapping boxes --- */

/* In the boxes' own precision: whether a ratio exceeds the threshold depends on how it is rounded.
 * A NaN never exceeds. */
#define SHARES_MORE(NAME, TYPE)                                                                    \
    static bool NAME(const double *p, const double *q, double threshold) {                         \
        TYPE a[4], b[4];                                                                           \
        for (int k = 0; k < 4; k++) a[k] = (TYPE)p[k], b[k] = (TYPE)q[k];                          \
        TYPE left = a[0] < b[0] ? b[0] : a[0], top = a[1] < b[1] ? b[1] : a[1];                    \
        TYPE right = b[2] < a[2] ? b[2] : a[2], bottom = b[3] < a[3] ? b[3] : a[3];                \
        TYPE w = right - left, h = bottom - top;                                                   \
        TYPE common = (w > 0 ? w : 0) * (h > 0 ? h : 0);                                           \
        TYPE both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);                 \
        return (double)(common / (both - common)) > threshold;                                     \
    }
SHARES_MORE(shares_more_f32, float)
SHARES_MORE(shares_more_f64, double)
#undef SHARES_MORE

hn_status hn_ref_nms(hn_ref_run *run) {
    const hn_ref_tensor *boxes;
    double threshold;
    hn_ref_tensor *keep;
    HN_TRY(hn_ref_arg_tensor(run, "boxes", &boxes));
    HN_TRY(hn_ref_arg_float(run, "threshold", &threshold));
    if (boxes->rank != 2 || boxes->sizes[1] != 4 ||
        (boxes->dtype != HN_DTYPE_F32 && boxes->dtype != HN_DTYPE_F64))
        return HN_ERROR(HN_INTERNAL, "'boxes' must be f32 or f64 of [n, 4]");
    HN_TRY(hn_ref_result(run, 0, HN_DTYPE_BOOL, 1, boxes->sizes, &keep));
    const double *all = boxes->data.f;
    for (int64_t i = 0; i < keep->numel; i++) {
        keep->data.i[i] = 1;
        for (int64_t j = 0; j < i && keep->data.i[i]; j++)
            if (keep->data.i[j] && (boxes->dtype == HN_DTYPE_F32
                                        ? shares_more_f32
                                        : shares_more_f64)(all + 4 * j, all + 4 * i, threshold))
                keep->data.i[i] = 0;
    }
    return NULL;
}
