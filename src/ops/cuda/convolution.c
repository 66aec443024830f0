/* convolution.c: see convolution.h. Of a dimension of one element a program may say any stride; a
 * library tells the order of dimensions by the strides. So these get the strides that they would
 * have in packed memory. */
#include "ops/cuda/convolution.h"

#include "base/checked.h"

enum { N, C, PLACES, SPATIAL_MAX = 3 };

static hn_status refuse(const char *why) {
    return HN_ERROR(HN_UNSUPPORTED, "the convolution is not one of the library's: %s", why);
}

/* ---- reading the call ---- */

/* Whether the first of three spatial dimensions is none. */
static bool is_plane(const int64_t *p) {
    return p[HN_CONV_IN] == 1 && p[HN_CONV_KERNEL] == 1 && p[HN_CONV_OUTSIZE] == 1 &&
           p[HN_CONV_STRIDE] == 1 && p[HN_CONV_PADDING] == 0;
}

/* [n, c, spatial..] of five strides and three sizes of places. */
static void put(hn_convolution *out, hn_convolution_tensor k, int64_t n, int64_t c,
                const int64_t *places, const int64_t *strides) {
    const uint32_t skip = SPATIAL_MAX - out->spatial;
    hn_convolution_shape *shape = &out->of[k];
    *shape = (hn_convolution_shape){
        .is_there = true, .sizes = {n, c}, .strides = {strides[N], strides[C]}};
    for (uint32_t s = 0; s < out->spatial; s++) {
        shape->sizes[PLACES + s] = places[skip + s];
        shape->strides[PLACES + s] = strides[PLACES + skip + s];
    }
}

static void read_call(const hn_ext_call *call, hn_convolution *out) {
    static const int64_t one[SPATIAL_MAX] = {1, 1, 1}, next[HN_CONVOLUTION_DIMS] = {0, 1};
    const int64_t *p = call->params;
    const int64_t images = p[HN_CONV_N], outputs = p[HN_CONV_O];
    *out = (hn_convolution){.spatial = is_plane(p) ? 2 : 3,
                            .relu = p[HN_CONV_EPILOGUE] == HN_EPILOGUE_RELU};
    const uint32_t skip = SPATIAL_MAX - out->spatial;
    for (uint32_t s = 0; s < out->spatial; s++) {
        out->stride[s] = p[HN_CONV_STRIDE + skip + s];
        out->padding[s] = p[HN_CONV_PADDING + skip + s];
        out->dilation[s] = p[HN_CONV_DILATION + skip + s];
    }
    put(out, HN_CONVOLUTION_OUT, images, outputs, &p[HN_CONV_OUTSIZE], &p[HN_CONV_OUT]);
    put(out, HN_CONVOLUTION_X, images, p[HN_CONV_C], &p[HN_CONV_IN], &p[HN_CONV_X]);
    put(out, HN_CONVOLUTION_W, outputs, p[HN_CONV_C] / p[HN_CONV_GROUPS], &p[HN_CONV_KERNEL],
        &p[HN_CONV_W]);
    if (call->dtypes[HN_CONVOLUTION_BIAS]) put(out, HN_CONVOLUTION_BIAS, 1, outputs, one, next);
    if (call->dtypes[HN_CONVOLUTION_RESIDUAL])
        put(out, HN_CONVOLUTION_RESIDUAL, images, outputs, &p[HN_CONV_OUTSIZE],
            &p[HN_CONV_RESIDUAL]);
}

static bool is_empty(const hn_convolution *out) {
    const hn_convolution_shape *shape = &out->of[HN_CONVOLUTION_OUT];
    for (uint32_t d = 0; d < PLACES + out->spatial; d++)
        if (!shape->sizes[d]) return true;
    return false;
}

static bool sums_nothing(const hn_convolution *out) {
    const hn_convolution_shape *shape = &out->of[HN_CONVOLUTION_W];
    for (uint32_t d = C; d < PLACES + out->spatial; d++)
        if (!shape->sizes[d]) return true;
    return false;
}

/* ---- the order of dimensions ---- */

/* Dimension number `k` of a shape, the innermost first. */
static uint32_t dim_at(const hn_convolution *out, bool channels_last, uint32_t k) {
    const uint32_t last = PLACES + out->spatial - 1;
    if (k == last) return N;
    if (!channels_last) return k < out->spatial ? last - k : C;
    return k == 0 ? C : last + 1 - k;
}

/* Whether the dimensions of a tensor that have several elements lie in this order; then the others'
 * strides become those of packed memory. */
static bool order(const hn_convolution *out, hn_convolution_shape *shape, bool channels_last) {
    int64_t step = 1;
    for (uint32_t k = 0; k < PLACES + out->spatial; k++) {
        const uint32_t d = dim_at(out, channels_last, k);
        if (shape->sizes[d] == 1) shape->strides[d] = step;
        else if (shape->strides[d] < step || (k == 0 && shape->strides[d] != 1)) return false;
        if (!hn_mul_i64(shape->strides[d], shape->sizes[d], &step)) return false;
    }
    return true;
}

static bool order_all(hn_convolution *out, bool channels_last) {
    hn_convolution ordered = *out;
    for (uint32_t k = 0; k < HN_CONVOLUTION_TENSORS; k++)
        if (ordered.of[k].is_there && !order(&ordered, &ordered.of[k], channels_last)) return false;
    *out = ordered;
    out->channels_last = channels_last;
    return true;
}

/* ---- entry ---- */

static hn_status check(const hn_ext_call *call, const hn_convolution *out) {
    const int64_t epilogue = call->params[HN_CONV_EPILOGUE];
    const bool has_bias = out->of[HN_CONVOLUTION_BIAS].is_there;
    if (call->params[HN_CONV_TRANSPOSED]) return refuse("it is transposed");
    if (call->dtypes[HN_CONVOLUTION_TENSORS]) return refuse("it scales channels");
    if (epilogue != HN_EPILOGUE_NONE && !out->relu) return refuse("it ends with another function");
    if (!has_bias && (out->relu || out->of[HN_CONVOLUTION_RESIDUAL].is_there))
        return refuse("something follows the sum, and there is no bias");
    return sums_nothing(out) ? refuse("it adds nothing up") : NULL;
}

hn_status hn_convolution_of(const hn_ext_call *call, hn_convolution *out) {
    read_call(call, out);
    out->is_empty = is_empty(out);
    if (out->is_empty) return NULL;
    HN_TRY(check(call, out));
    return order_all(out, true) || order_all(out, false)
               ? NULL
               : refuse("its operands lie neither all with channels last nor all with planes");
}
