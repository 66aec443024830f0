/* narrow_body.h: depthwise convolutions of 3 x 3 and 5 x 5 of planes that are narrower than a
 * vector, for one instruction set. Included by kernels_body.h.
 *
 * A vector of a strip (strip_body.h) has columns of one row, of which a narrow plane has few. So
 * the plane is copied with its border, rows one behind the other, and a vector of outputs goes on
 * where the row ends: of outputs of 3 x 3 and a kernel of 5 x 5
 *
 *     copy     .......... ..x x x ..x x x ..x x x ............     a row is 5 floats: zeros on its
 *     outputs  o o o - - o o o - - o o o                           right are those on the next one's left
 *
 * one vector has all of them, and a tap is one load for the whole plane. What stands for zeros is
 * computed as well, and dropped when rows are written. With stride 2 even and odd rows and columns
 * are four copies, and a tap reads from one of these. */

enum { NARROW_MAX = HN_EXT_NARROW_MAX, NARROW_TOGETHER = 4 };

/* A plane into the copies, whose zeros stay. What a row has too much is zeros, which the next row
 * of that copy overwrites. */
HN_INLINE void narrow_copy_by(const hn_ext_strip *p, const float *in, float *out,
                              const int stride) {
    const int64_t step = stride * HN_LANES, rest = (p->in_cols - 1) % step + 1,
                  whole = p->in_cols - rest, odd_left = p->left % 2;
    const ivec even = strip_tail(rest, stride, 0), odd = strip_tail(rest, stride, 1);
    for (int64_t y = 0; y < p->padded_rows; y++, in += p->in_row) {
        const int64_t row = p->top + y;
        if (stride == 1) {
            float *to = out + row * p->padded_row + p->left;
            for (int64_t x = 0; x < whole; x += step) vec_store(to + x, vec_load(in + x));
            vec_store(to + whole, (vec)((ivec)vec_load(in + whole) & even));
            continue;
        }
        float *copy = out + row % 2 * 2 * p->narrow_copy + row / 2 * p->padded_row,
              *first = copy + odd_left * p->narrow_copy + p->left / 2,
              *second = copy + (1 - odd_left) * p->narrow_copy + (p->left + 1) / 2;
        for (int64_t x = 0; x < whole; x += step) {
            vec_store(first + x / 2, order_pairs(load_pairs(in + x, 0)));
            vec_store(second + x / 2, order_pairs(load_pairs(in + x, 1)));
        }
        vec_store(first + whole / 2, (vec)((ivec)order_pairs(load_pairs(in + whole, 0)) & even));
        vec_store(second + whole / 2, (vec)((ivec)order_pairs(load_pairs(in + whole, 1)) & odd));
    }
}

static __attribute__((noinline)) void narrow_copy_1(const hn_ext_strip *p, const float *in,
                                                    float *out) {
    narrow_copy_by(p, in, out, 1);
}
static __attribute__((noinline)) void narrow_copy_2(const hn_ext_strip *p, const float *in,
                                                    float *out) {
    narrow_copy_by(p, in, out, 2);
}
HN_INLINE void narrow_copy(const hn_ext_strip *p, const float *in, float *out, const int stride) {
    if (stride == 1) narrow_copy_1(p, in, out);
    else narrow_copy_2(p, in, out);
}

/* `count` vectors of outputs. */
HN_INLINE void narrow_block(const hn_ext_strip *p, const float *in, const float *weights,
                            const vec bias, float *out, const int count, const int kernel,
                            const int stride) {
    vec acc[NARROW_TOGETHER];
    _Pragma("GCC unroll 4") for (int v = 0; v < count; v++) acc[v] = bias;
    _Pragma("GCC unroll 5") for (int i = 0; i < kernel; i++) {
        _Pragma("GCC unroll 5") for (int j = 0; j < kernel; j++) {
            const float *from = in + i / stride * p->padded_row + j / stride;
            if (stride == 2) from += (i % 2 * 2 + j % 2) * p->narrow_copy;
            const vec w = vec_splat(weights[i * kernel + j]);
            _Pragma("GCC unroll 4") for (int v = 0; v < count; v++) acc[v] +=
                vec_load(from + v * HN_LANES) * w;
        }
    }
    _Pragma("GCC unroll 4") for (int v = 0; v < count; v++) {
        if (p->epilogue == HN_EPILOGUE_RELU) acc[v] = vec_relu(acc[v]);
        else if (p->epilogue == HN_EPILOGUE_HARDSWISH) acc[v] = vec_hardswish(acc[v]);
        vec_store(out + v * HN_LANES, acc[v]);
    }
}

/* Channel c, whose copies are at `in`: outputs with what is between their rows. */
HN_INLINE void narrow_plane(const hn_ext_strip *p, const float *in, int64_t c, float *out,
                            const int kernel, const int stride) {
    const float *weights = p->weights + c * kernel * kernel;
    const vec bias = vec_splat(p->bias ? p->bias[c] : 0);
    int64_t left = p->narrow;
    for (; left >= NARROW_TOGETHER; left -= NARROW_TOGETHER) {
        narrow_block(p, in, weights, bias, out, NARROW_TOGETHER, kernel, stride);
        in += NARROW_TOGETHER * HN_LANES;
        out += NARROW_TOGETHER * HN_LANES;
    }
    if (left == 1) narrow_block(p, in, weights, bias, out, 1, kernel, stride);
    if (left == 2) narrow_block(p, in, weights, bias, out, 2, kernel, stride);
    if (left == 3) narrow_block(p, in, weights, bias, out, 3, kernel, stride);
}

/* The rows of channel c. What a vector has too much is overwritten by the next rows, if these are
 * the call's. */
HN_INLINE void narrow_write(const hn_ext_strip *p, const float *from, int64_t c) {
    float *out = p->out + c * p->out_plane;
    const bool is_dense = p->out_row == p->cols && p->out_plane == p->rows * p->cols;
    const float *end = p->out + p->planes * p->out_plane;
    for (int64_t y = 0; y < p->rows; y++, out += p->out_row, from += p->padded_row) {
        if (is_dense && p->cols <= HN_LANES && end - out >= HN_LANES)
            vec_store(out, vec_load(from));
        else
            for (int64_t x = 0; x < p->cols; x++) out[x] = from[x];
    }
}

/* One plane ahead, and rows one plane later: what was just stored is slow to load in other
 * pieces. */
HN_INLINE void narrow_all(const hn_ext_strip *p, const int kernel, const int stride) {
    float rows[2][(NARROW_MAX + 1) * HN_LANES];
    narrow_copy(p, p->in, p->padded, stride);
    for (int64_t c = 0; c < p->planes; c++) {
        float *next = p->padded + (c + 1) % 2 * p->padded_plane;
        if (c + 1 < p->planes) narrow_copy(p, p->in + (c + 1) * p->in_plane, next, stride);
        narrow_plane(p, p->padded + c % 2 * p->padded_plane, c, rows[c % 2], kernel, stride);
        if (c > 0) narrow_write(p, rows[(c - 1) % 2], c - 1);
    }
    narrow_write(p, rows[(p->planes - 1) % 2], p->planes - 1);
}

#define NARROW(NAME, KERNEL, STRIDE)                                                               \
    static __attribute__((noinline)) void NAME(const hn_ext_strip *p) {                            \
        narrow_all(p, KERNEL, STRIDE);                                                             \
    }
#if HN_EXT_HAS_STRIPS(3, 1, 1)
NARROW(narrow_3_1, 3, 1)
#else
#define narrow_3_1 NULL
#endif
#if HN_EXT_HAS_STRIPS(3, 2, 1)
NARROW(narrow_3_2, 3, 2)
#else
#define narrow_3_2 NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 1, 1)
NARROW(narrow_5_1, 5, 1)
#else
#define narrow_5_1 NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 2, 1)
NARROW(narrow_5_2, 5, 2)
#else
#define narrow_5_2 NULL
#endif

static void narrow(const hn_ext_strip *p) {
    static void (*const shapes[2][2])(const hn_ext_strip *p) = {{narrow_3_1, narrow_3_2},
                                                                {narrow_5_1, narrow_5_2}};
    shapes[p->kernel == 5][p->stride - 1](p);
}
