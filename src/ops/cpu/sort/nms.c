/* nms.c: which of a list of boxes stay when those that overlap an earlier one that stays are
 * dropped.
 *
 * Each box that stays is compared with all behind it, dropped ones included, so that the loop over
 * them has no branches and becomes vectors; for that the coordinates are copied to arrays of their
 * own. On one thread: what is compared depends on what was compared before. */
#include "ops/cpu/sort/nms.h"

#include "base/checked.h"
#include "henry/tensor.h"

#include <math.h>
#include <string.h>

enum { KEEP = 0, BOXES = 1, ARRAYS = 5 }; /* x1, y1, x2, y2, area */

/* A ratio of f32 exceeds a double when it exceeds the next f32 below it. */
static float below_f32(double threshold) {
    float t = (float)threshold;
    return (double)t > threshold ? nextafterf(t, -INFINITY) : t;
}
static double below_f64(double threshold) { return threshold; }

/* The order of operations is that of the operator in torchvision: whether a ratio exceeds the
 * threshold depends on it. */
#define NMS(NAME, TYPE, BELOW)                                                                     \
    static void NAME(const TYPE *boxes, int64_t n, double threshold, TYPE *scratch,                \
                     uint8_t *restrict keep) {                                                     \
        const TYPE limit = BELOW(threshold);                                                       \
        TYPE *restrict x1 = scratch, *restrict y1 = x1 + n, *restrict x2 = y1 + n,                 \
                       *restrict y2 = x2 + n, *restrict area = y2 + n;                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            x1[i] = boxes[4 * i], y1[i] = boxes[4 * i + 1], x2[i] = boxes[4 * i + 2],              \
            y2[i] = boxes[4 * i + 3];                                                              \
            area[i] = (x2[i] - x1[i]) * (y2[i] - y1[i]);                                           \
        }                                                                                          \
        memset(keep, 1, (size_t)n);                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            if (!keep[i]) continue;                                                                \
            const TYPE l = x1[i], t = y1[i], r = x2[i], b = y2[i], own = area[i];                  \
            for (int64_t j = i + 1; j < n; j++) {                                                  \
                const TYPE left = l < x1[j] ? x1[j] : l, top = t < y1[j] ? y1[j] : t;              \
                const TYPE right = x2[j] < r ? x2[j] : r, bottom = y2[j] < b ? y2[j] : b;          \
                const TYPE w = right - left, h = bottom - top;                                     \
                const TYPE common = (w > 0 ? w : 0) * (h > 0 ? h : 0);                             \
                keep[j] &= !(common / (own + area[j] - common) > limit);                           \
            }                                                                                      \
        }                                                                                          \
    }
NMS(nms_f32, float, below_f32)
NMS(nms_f64, double, below_f64)
#undef NMS

static hn_status nms_run(const hn_ext_call *call, void *scratch) {
    const int64_t n = call->params[HN_NMS_N];
    double threshold;
    memcpy(&threshold, &call->params[HN_NMS_THRESHOLD], sizeof threshold);
    if (n < 1) return NULL;
    if (call->dtypes[BOXES] == HN_F32)
        nms_f32(call->operands[BOXES], n, threshold, scratch, call->operands[KEEP]);
    else nms_f64(call->operands[BOXES], n, threshold, scratch, call->operands[KEEP]);
    return NULL;
}

static hn_status nms_prepare(hn_ext_call *call) {
    int64_t bytes;
    if (!hn_mul_i64(call->params[HN_NMS_N],
                    ARRAYS * (int64_t)hn_scalar_type_bytes((hn_scalar_type)call->dtypes[BOXES]),
                    &bytes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the work space exceeds 63 bits");
    call->scratch_bytes = (size_t)bytes;
    return NULL;
}

const hn_ext_impl hn_ext_nms = {.name = "nms", .prepare = nms_prepare, .run = nms_run};
