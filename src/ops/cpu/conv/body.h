/* body.h: the kernels of convolutions, for one instruction set. Included by kernels_body.h. */

/* ---- inputs as panels of a matrix product ---- */

/* Elements 0, 2, 4 ... of 2 * HN_LANES floats. */
HN_INLINE vec load_even(const float *p) {
#if HN_LANES == 4
    vec a = vec_load(p), b = vec_load(p + 4);
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#elif HN_LANES == 8
    vec a = vec_load(p), b = vec_load(p + 8);
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
    vec a = vec_load(p), b = vec_load(p + 16);
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#endif
}

HN_INLINE void gather_exact(const hn_ext_gather *g, const float *base, float *out) {
    for (int r = 0; r < g->run_count; r++) {
        const float *in = base + g->runs[r].from;
        for (int64_t i = 0; i < g->runs[r].count; i++) out[g->runs[r].to + i] = in[i * g->step];
    }
}

/* Whole panels whatever the length of a run: what is too much is overwritten by the next run or the
 * next row. */
HN_INLINE void gather_wide(const hn_ext_gather *g, const float *base, float *out, const int step) {
    for (int r = 0; r < g->run_count; r++) {
        const float *in = base + g->runs[r].from;
        float *to = out + g->runs[r].to;
        vec low = step == 1 ? vec_load(in) : load_even(in);
        vec high = step == 1 ? vec_load(in + HN_LANES) : load_even(in + 2 * HN_LANES);
        vec_store(to, low);
        vec_store(to + HN_LANES, high);
    }
}

static void gather(const hn_ext_gather *g) {
    int64_t tap = g->k_first % g->tap_count, last = 0;
    const float *channel = g->in + g->k_first / g->tap_count * g->in_channel;
    for (int r = 0; r < g->run_count; r++)
        if (g->runs[r].from > last) last = g->runs[r].from;
    float *out = g->out;
    for (int64_t k = 0; k < g->k; k++, out += TILE_COLS) {
        const float *base = channel + g->taps[tap];
        if (g->step > 2 || g->in_end - base < last + g->step * TILE_COLS)
            gather_exact(g, base, out);
        else if (g->step == 1) gather_wide(g, base, out, 1);
        else gather_wide(g, base, out, 2);
        if (++tap == g->tap_count) tap = 0, channel += g->in_channel;
    }
}

/* ---- depthwise ---- */

#ifndef HN_EXT_WITHOUT_DEPTHWISE

/* Where a block reads and writes; how many columns it has. */
typedef struct plane_place {
    const float *in;
    float *out;
    int64_t cols;
} plane_place;

/* What a row has too much is overwritten by the next one: blocks go from right to left, then
 * down. */
HN_INLINE void plane_store(const hn_ext_plane *p, const plane_place at, const vec acc[],
                           const int rows, const int vecs) {
    const float *end = p->out + p->rows * p->cols;
    const bool whole = at.cols >= vecs * HN_LANES, are_close = p->out_row == p->cols;
    float *out = at.out;
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++, out += p->out_row) {
        if (whole || (are_close && end - out >= vecs * HN_LANES)) {
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++)
                vec_store(out + v * HN_LANES, acc[r * vecs + v]);
            continue;
        }
        float rest[2 * HN_LANES];
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++)
            vec_store(rest + v * HN_LANES, acc[r * vecs + v]);
        for (int64_t i = 0; i < at.cols; i++) out[i] = rest[i];
    }
}

/* `rows` x `vecs` vectors of outputs at once: as many sums as hide the latency of an addition. */
HN_INLINE void plane_block(const hn_ext_plane *p, const plane_place at, const int rows,
                           const int vecs, const int step) {
    vec acc[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < rows * vecs; i++) acc[i] = vec_splat(p->bias);
    for (int64_t t = 0; t < p->tap_count; t++) {
        const vec w = vec_splat(p->weights[t]);
        const float *from = at.in + p->taps[t];
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[r * vecs + v] +=
                w *
                (step == 1 ? vec_load(from + v * HN_LANES) : load_even(from + v * 2 * HN_LANES));
            from += p->in_row;
        }
    }
    plane_store(p, at, acc, rows, vecs);
}

/* The last block of rows overlaps the one before: an epilogue comes only after all of them. */
HN_INLINE void plane_rows(const hn_ext_plane *p, const int rows, const int step) {
    const int64_t pairs = (p->cols - 1) / (2 * HN_LANES), rest = p->cols - pairs * 2 * HN_LANES;
    for (int64_t y = 0;; y = y + 2 * rows <= p->rows ? y + rows : p->rows - rows) {
        const float *in = p->in + y * p->in_row;
        float *out = p->out + y * p->out_row;
        int64_t x = pairs * 2 * HN_LANES;
        const plane_place last = {in + x * step, out + x, rest};
        if (rest > HN_LANES) plane_block(p, last, rows, 2, step);
        else plane_block(p, last, rows, 1, step);
        while ((x -= 2 * HN_LANES) >= 0)
            plane_block(p, (plane_place){in + x * step, out + x, 2 * HN_LANES}, rows, 2, step);
        if (y + rows >= p->rows) return;
    }
}

static void plane(const hn_ext_plane *p) {
    if (p->rows == 0 || p->cols == 0) return;
    if (p->step == 1) {
        if (p->rows >= 4) plane_rows(p, 4, 1);
        else plane_rows(p, 1, 1);
    } else if (p->step == 2) {
        if (p->rows >= 4) plane_rows(p, 4, 2);
        else plane_rows(p, 1, 2);
    } else {
        for (int64_t y = 0; y < p->rows; y++)
            for (int64_t x = 0; x < p->cols; x++) {
                float sum = p->bias;
                for (int64_t t = 0; t < p->tap_count; t++)
                    sum += p->weights[t] * p->in[y * p->in_row + x * p->step + p->taps[t]];
                p->out[y * p->out_row + x] = sum;
            }
    }
    if (p->out_row == p->cols) epilogue_rows(p->epilogue, p->out, 1, 0, p->rows * p->cols);
    else epilogue_rows(p->epilogue, p->out, p->rows, p->out_row, p->cols);
}

#endif

/* ---- Winograd ---- */

#ifndef HN_EXT_WITHOUT_WINOGRAD

/* The points are 0, +-3/4, +-3/2 and infinity for m = 4; 0, +-1 and infinity for m = 2. Of the
 * symmetric choices with few bits these lose the least: 2.5 times the error of direct sums, where
 * the usual 0, +-1, +-2 lose twice as much. */
#define WINO_A 0.75f
#define WINO_B 1.5f

typedef vec8 wino_vec;

HN_INLINE void wino_in_1d(const int m, const wino_vec *d, wino_vec *v) {
    if (m == 2) {
        v[0] = d[2] - d[0];
        v[1] = d[2] + d[1];
        v[2] = d[2] - d[1];
        v[3] = d[3] - d[1];
        return;
    }
    const float a = WINO_A, b = WINO_B, a2 = a * a, b2 = b * b;
    wino_vec even_a = d[4] - d[2] * b2, odd_a = d[3] - d[1] * b2;
    wino_vec even_b = d[4] - d[2] * a2, odd_b = d[3] - d[1] * a2;
    /* each product beside its sum: gcc makes one instruction of both from afar, too, clang of one
     * expression only, and results are to be equal */
    v[0] = d[0] * (a2 * b2) - d[2] * (a2 + b2) + d[4];
    v[1] = even_a + odd_a * a;
    v[2] = even_a - odd_a * a;
    v[3] = even_b + odd_b * b;
    v[4] = even_b - odd_b * b;
    v[5] = d[1] * (a2 * b2) - d[3] * (a2 + b2) + d[5];
}

HN_INLINE void wino_out_1d(const int m, const wino_vec *p, wino_vec *y) {
    if (m == 2) {
        y[0] = p[0] + p[1] + p[2];
        y[1] = p[1] - p[2] + p[3];
        return;
    }
    const float a = WINO_A, b = WINO_B;
    wino_vec sum_a = p[1] + p[2], diff_a = p[1] - p[2], sum_b = p[3] + p[4], diff_b = p[3] - p[4];
    y[0] = p[0] + sum_a + sum_b;
    y[1] = diff_a * a + diff_b * b;
    y[2] = sum_a * (a * a) + sum_b * (b * b);
    y[3] = diff_a * (a * a * a) + diff_b * (b * b * b) + p[5];
}

/* Two of the m + 2 inputs along a row, of 8 tiles: from p on, and every m floats further. */
HN_INLINE void wino_pairs(const float *p, wino_vec d[2]) {
    const vec8 low = *(const vec8_unaligned *)p, high = *(const vec8_unaligned *)(p + 8);
    d[0] = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
    d[1] = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
}

/* The tiles of the lanes: 0 2 4 6 1 3 5 7, as within halves of vectors everything moves at once. */
#define WINO_ORDER(v) __builtin_shufflevector(v, v, 0, 4, 1, 5, 2, 6, 3, 7)

/* Four of them with m = 4, or the first two; v: 4 vectors from the first on. */
HN_INLINE void wino_quads(const wino_vec *v, wino_vec *d, const int count) {
    const vec8 ab = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const vec8 ef = __builtin_shufflevector(v[2], v[3], 0, 8, 1, 9, 4, 12, 5, 13);
    d[0] = __builtin_shufflevector(ab, ef, 0, 1, 8, 9, 4, 5, 12, 13);
    d[1] = __builtin_shufflevector(ab, ef, 2, 3, 10, 11, 6, 7, 14, 15);
    d[0] = WINO_ORDER(d[0]), d[1] = WINO_ORDER(d[1]);
    if (count == 2) return;
    const vec8 cd = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const vec8 gh = __builtin_shufflevector(v[2], v[3], 2, 10, 3, 11, 6, 14, 7, 15);
    d[2] = __builtin_shufflevector(cd, gh, 0, 1, 8, 9, 4, 5, 12, 13);
    d[3] = __builtin_shufflevector(cd, gh, 2, 3, 10, 11, 6, 7, 14, 15);
    d[2] = WINO_ORDER(d[2]), d[3] = WINO_ORDER(d[3]);
}

/* How many of the 8 floats are stored for each point; some: w->count. */
typedef enum wino_width { WINO_WHOLE, WINO_HALF, WINO_SOME } wino_width;

HN_INLINE void wino_store(float *out, const wino_vec *v, const wino_width width, int count) {
    if (width == WINO_WHOLE) {
        *(vec8_unaligned *)out = *v;
    } else if (width == WINO_HALF) {
        *(vec4_unaligned *)out = __builtin_shufflevector(*v, *v, 0, 1, 2, 3);
    } else {
        float lanes[8];
        memcpy(lanes, v, sizeof lanes);
        for (int i = 0; i < count; i++) out[i] = lanes[i];
    }
}

/* First along the columns, where neighbours are vectors, then along each row. What was just stored
 * is read in the same pieces: others would have to wait until it is in the cache. */
HN_INLINE void winograd_in_m(const hn_ext_winograd_in *w, const int m, const wino_width width) {
    const int n = m + 2, count = w->count;
    const int64_t in_row = w->in_row, out_point = w->out_point;
    const float *in = w->in;
    float *out = w->out;
    wino_vec rows[6][5];
    for (int x = 0; x < m + 1; x++) {
        wino_vec d[6], v[6];
        _Pragma("GCC unroll 6") for (int i = 0; i < n; i++) d[i] =
            *(const vec8_unaligned *)(in + i * in_row + x * 8);
        wino_in_1d(m, d, v);
        _Pragma("GCC unroll 6") for (int i = 0; i < n; i++) rows[i][x] = v[i];
    }
    for (int i = 0; i < n; i++, out += n * out_point) {
        const wino_vec *row = rows[i];
        wino_vec d[6], v[6];
        if (m == 2) {
            wino_pairs((const float *)row, d);
            wino_pairs((const float *)row + 2, d + 2);
        } else {
            wino_vec shifted[4];
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) shifted[j] =
                __builtin_shufflevector(row[j], row[j + 1], 4, 5, 6, 7, 8, 9, 10, 11);
            wino_quads(row, d, 4);
            wino_quads(shifted, d + 4, 2);
        }
        wino_in_1d(m, d, v);
        _Pragma("GCC unroll 6") for (int j = 0; j < n; j++)
            wino_store(out + j * out_point, &v[j], width, count);
    }
}

static void winograd_in(const hn_ext_winograd_in *w) {
    const wino_width width = w->count <= 4 && w->room >= 4 ? WINO_HALF
                             : w->room >= 8                ? WINO_WHOLE
                                                           : WINO_SOME;
    if (w->m == 2) {
        if (width == WINO_WHOLE) winograd_in_m(w, 2, WINO_WHOLE);
        if (width == WINO_HALF) winograd_in_m(w, 2, WINO_HALF);
        if (width == WINO_SOME) winograd_in_m(w, 2, WINO_SOME);
    } else {
        if (width == WINO_WHOLE) winograd_in_m(w, 4, WINO_WHOLE);
        if (width == WINO_HALF) winograd_in_m(w, 4, WINO_HALF);
        if (width == WINO_SOME) winograd_in_m(w, 4, WINO_SOME);
    }
}

HN_INLINE void winograd_out_m(const hn_ext_winograd_out *w, const int m) {
    const int n = m + 2;
    wino_vec half[4][6];
    _Pragma("GCC unroll 6") for (int j = 0; j < n; j++) {
        wino_vec p[6], y[4];
        _Pragma("GCC unroll 6") for (int i = 0; i < n; i++) p[i] =
            *(const vec8_unaligned *)(w->in + (i * n + j) * w->in_point);
        wino_out_1d(m, p, y);
        _Pragma("GCC unroll 4") for (int i = 0; i < m; i++) half[i][j] = y[i];
    }
    vec8 bias = (vec8){0} + w->bias;
    for (int i = 0; i < m; i++) {
        wino_vec y[4];
        wino_out_1d(m, half[i], y);
        float *out = w->out + i * m; /* of the first tile; the others are m * m further each */
        _Pragma("GCC unroll 4") for (int j = 0; j < m; j++) y[j] += bias;
        if (m == 2) {
            for (int t = 0; t < 8; t++) out[t * 4] = y[0][t], out[t * 4 + 1] = y[1][t];
            continue;
        }
        vec8 t0 = __builtin_shufflevector(y[0], y[1], 0, 8, 1, 9, 4, 12, 5, 13);
        vec8 t1 = __builtin_shufflevector(y[0], y[1], 2, 10, 3, 11, 6, 14, 7, 15);
        vec8 t2 = __builtin_shufflevector(y[2], y[3], 0, 8, 1, 9, 4, 12, 5, 13);
        vec8 t3 = __builtin_shufflevector(y[2], y[3], 2, 10, 3, 11, 6, 14, 7, 15);
        /* tiles 0 and 4 */
        vec8 q[4] = {__builtin_shufflevector(t0, t2, 0, 1, 8, 9, 4, 5, 12, 13),
                     __builtin_shufflevector(t0, t2, 2, 3, 10, 11, 6, 7, 14, 15), /* 1 and 5 */
                     __builtin_shufflevector(t1, t3, 0, 1, 8, 9, 4, 5, 12, 13),
                     __builtin_shufflevector(t1, t3, 2, 3, 10, 11, 6, 7, 14, 15)};
        _Pragma("GCC unroll 4") for (int t = 0; t < 4; t++) {
            *(vec4_unaligned *)(out + t * 16) = __builtin_shufflevector(q[t], q[t], 0, 1, 2, 3);
            *(vec4_unaligned *)(out + (t + 4) * 16) =
                __builtin_shufflevector(q[t], q[t], 4, 5, 6, 7);
        }
    }
    if (w->epilogue) epilogue_apply(w->epilogue, w->out, 8 * m * m);
}

static void winograd_out(const hn_ext_winograd_out *w) {
    if (w->m == 2) winograd_out_m(w, 2);
    else winograd_out_m(w, 4);
}
#endif
