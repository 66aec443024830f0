/* body.h: the kernels of attention, for one instruction set. Included by kernels_body.h.
 *
 * Lanes are queries, so maxima and sums over keys need no shuffles. */

/* The larger one; NaN wins over b's number when it is b. */
HN_INLINE vec larger(vec a, vec b) { return vec_select(a > b, a, b); }

HN_INLINE vec add_mask(vec score, vec mask) {
    const vec hidden = vec_splat(-__builtin_inff());
    return vec_select(mask == hidden, hidden, score + mask);
}

/* Adds the masks, and returns the maxima. */
HN_INLINE void softmax_masks(const hn_ext_softmax *s, const bool by_query, const bool by_key,
                             vec max[2]) {
    float *x = s->scores;
    for (int64_t k = 0; k < s->keys; k++, x += TILE_COLS)
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) {
            vec score = vec_load(x + v * HN_LANES);
            if (by_query) score = add_mask(score, vec_load(s->mask + k * TILE_COLS + v * HN_LANES));
            if (by_key) score = add_mask(score, vec_splat(s->key_mask[k]));
            if (by_query || by_key) vec_store(x + v * HN_LANES, score);
            max[v] = larger(max[v], score);
        }
}

/* e^x for x <= 0; what is below the least normal number is 0. */
HN_INLINE vec exp_of_negative(vec x) {
    const vec least = vec_splat(-87.33654f), magic = vec_splat(0x1.8p23f);
    const vec kept = vec_select(x < least, least, x); /* NaN stays */
    vec shifted, p = exp_mantissa(kept, &shifted);
    p *= (vec)(((ivec)shifted - (ivec)magic + 127) << 23);
    return vec_select(x < least, vec_splat(0), p);
}

static void softmax(const hn_ext_softmax *s) {
    vec max[2], old[2], sum[2];
    for (int v = 0; v < 2; v++) max[v] = old[v] = vec_load(s->max + v * HN_LANES);
    if (s->mask) softmax_masks(s, true, false, max);
    else if (s->key_mask) softmax_masks(s, false, true, max);
    else softmax_masks(s, false, false, max);
    for (int v = 0; v < 2; v++) {
        vec_store(s->max + v * HN_LANES, max[v]);
        /* A row without a key so far: the difference below must not be -inf - -inf. */
        max[v] = vec_select(max[v] == vec_splat(-__builtin_inff()), vec_splat(0), max[v]);
        vec rescale = vec_exp(old[v] - max[v]);
        vec_store(s->rescale + v * HN_LANES, rescale);
        sum[v] = vec_load(s->sum + v * HN_LANES) * rescale;
    }
    float *x = s->scores;
    for (int64_t k = 0; k < s->keys; k++, x += TILE_COLS)
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) {
            vec weight = exp_of_negative(vec_load(x + v * HN_LANES) - max[v]);
            sum[v] += weight;
            vec_store(x + v * HN_LANES, weight);
        }
    for (int v = 0; v < 2; v++) vec_store(s->sum + v * HN_LANES, sum[v]);
}

static void transpose(const float *x, int64_t rows, int64_t cols, const float *factor, float *out,
                      int64_t out_row) {
    for (int64_t c = 0; c < cols; c += 8) {
        const vec8 f = *(const vec8_unaligned *)(factor + c);
        const int64_t count = cols - c < 8 ? cols - c : 8;
        int64_t r = 0;
        for (; r + 8 <= rows && count == 8; r += 8) {
            vec8 block[8];
            _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) block[i] =
                *(const vec8_unaligned *)(x + (r + i) * TILE_COLS + c) * f;
            transpose_8x8(block);
            _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) *
                (vec8_unaligned *)(out + (c + i) * out_row + r) = block[i];
        }
        for (; r < rows; r++)
            for (int64_t i = c; i < c + count; i++)
                out[i * out_row + r] = x[r * TILE_COLS + i] * factor[i];
    }
}

static void scale(float *x, int64_t rows, const float *factor) {
    const vec low = vec_load(factor), high = vec_load(factor + HN_LANES);
    for (int64_t r = 0; r < rows; r++, x += TILE_COLS) {
        vec_store(x, vec_load(x) * low);
        vec_store(x + HN_LANES, vec_load(x + HN_LANES) * high);
    }
}

/* Scores to weights e^(x - max), in place. */
static float weights_of(float *x, int64_t count, float *out_max) {
    vec max = vec_splat(-__builtin_inff()), sum = vec_splat(0), rest = max;
    int64_t i = 0;
    for (; i + HN_LANES <= count; i += HN_LANES) max = vec_max(vec_load(x + i), max);
    for (int64_t j = i; j < count; j++) rest[j - i] = x[j];
    max = vec_max(rest, max);
    float most = max[0];
    for (int l = 1; l < HN_LANES; l++) most = max[l] > most ? max[l] : most;
    *out_max = most;
    /* the difference must not be -inf - -inf */
    const vec origin = vec_splat(most == -__builtin_inff() ? 0 : most);
    for (int64_t j = 0; j < i; j += HN_LANES) {
        const vec weight = exp_of_negative(vec_load(x + j) - origin);
        sum += weight;
        vec_store(x + j, weight);
    }
    rest = exp_of_negative(rest - origin); /* lanes beyond the last one: e^-inf */
    for (int64_t j = i; j < count; j++) x[j] = rest[j - i];
    return vec_total(sum + rest);
}
