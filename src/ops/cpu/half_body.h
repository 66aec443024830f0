/* half_body.h: f16 and bf16 to and from float, for one instruction set. Included by
 * kernels_body.h. */

typedef uint16_t hvec __attribute__((vector_size(HN_LANES * 2)));
typedef uint16_t hvec_unaligned __attribute__((vector_size(HN_LANES * 2), aligned(2), may_alias));
typedef uint32_t uvec __attribute__((vector_size(HN_LANES * 4)));

/* The exponent is off by 127 - 15 after the shift, which a product repairs also for subnormals;
 * infinity and NaN have none. */
HN_INLINE vec half_to_vec(uvec h) {
    uvec magnitude = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16;
    uvec special = (uvec)(magnitude >= 0x0f800000) & 0x7f800000;
    uvec scaled = (uvec)((vec)magnitude * 0x1p112f);
    return (vec)(sign | special | ((uvec)(magnitude >= 0x0f800000) & magnitude) |
                 (~(uvec)(magnitude >= 0x0f800000) & scaled));
}

/* Small results are rounded by an addition that pushes the surplus bits out, the others in the
 * integer; what is too large and NaN are then put in their place. */
HN_INLINE uvec half_from_vec(vec x) {
    uvec bits = (uvec)x, sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uvec normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    uvec small = (uvec)((vec)magnitude + 0.5f) - 0x3f000000;
    uvec is_small = (uvec)(magnitude < 0x38800000), is_large = (uvec)(magnitude >= 0x477ff000),
         is_nan = (uvec)(magnitude > 0x7f800000);
    uvec result = (is_small & small) | (~is_small & normal);
    result = (is_large & 0x7c00) | (~is_large & result);
    return sign | (is_nan & 0x7e00) | (~is_nan & result);
}

HN_INLINE uvec bf16_from_vec(vec x) {
    uvec bits = (uvec)x, is_nan = (uvec)((bits & 0x7fffffff) > 0x7f800000);
    uvec rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (is_nan & (bits >> 16 | 0x40)) | (~is_nan & rounded);
}

HN_INLINE void from_half_lanes(bool is_bf16, const uint16_t *in, float *out) {
    uvec h = __builtin_convertvector(*(const hvec_unaligned *)in, uvec);
    vec_store(out, is_bf16 ? (vec)(h << 16) : half_to_vec(h));
}
HN_INLINE void to_half_lanes(bool is_bf16, const float *in, uint16_t *out) {
    vec x = vec_load(in);
    *(hvec_unaligned *)out =
        __builtin_convertvector(is_bf16 ? bf16_from_vec(x) : half_from_vec(x), hvec);
}

#ifndef HN_EXT_WITHOUT_HALF
static void from_half(bool is_bf16, const uint16_t *in, float *out, int64_t count) {
    int64_t i = 0;
    for (; i + HN_LANES <= count; i += HN_LANES) from_half_lanes(is_bf16, in + i, out + i);
    if (i == count) return;
    uint16_t rest[HN_LANES] = {0};
    float floats[HN_LANES];
    memcpy(rest, in + i, (size_t)(count - i) * sizeof *in);
    from_half_lanes(is_bf16, rest, floats);
    memcpy(out + i, floats, (size_t)(count - i) * sizeof *out);
}

static void to_half(bool is_bf16, const float *in, uint16_t *out, int64_t count) {
    int64_t i = 0;
    for (; i + HN_LANES <= count; i += HN_LANES) to_half_lanes(is_bf16, in + i, out + i);
    if (i == count) return;
    float rest[HN_LANES] = {0};
    uint16_t halves[HN_LANES];
    memcpy(rest, in + i, (size_t)(count - i) * sizeof *in);
    to_half_lanes(is_bf16, rest, halves);
    memcpy(out + i, halves, (size_t)(count - i) * sizeof *out);
}
#endif
