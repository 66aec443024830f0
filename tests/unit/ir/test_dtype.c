/* Element types: the table, and the 16-bit conversions against a search among all 65536 values. */
#include "ir/dtype.h"
#include "unit/harness.h"

#include <math.h>
#include <stdlib.h>

static uint32_t float_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}
static double double_of(uint64_t bits) {
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

/* What 16 bits mean, by the definition of the format. */
static double decode(uint16_t bits, int mantissa_bits) {
    int exponent_bits = 15 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1),
        fraction = bits & ((1 << mantissa_bits) - 1);
    double value;
    if (exponent == (1 << exponent_bits) - 1) value = fraction ? NAN : INFINITY;
    else if (exponent)
        value = ldexp((1 << mantissa_bits) + fraction, exponent - bias - mantissa_bits);
    else value = ldexp(fraction, 1 - bias - mantissa_bits);
    return bits & 0x8000 ? -value : value;
}

/* The nearest of all non-negative values, ties to the even pattern. The value one step beyond the
 * largest finite one stands for infinity, as IEEE 754 says. */
static uint16_t nearest(double value, int mantissa_bits) {
    uint16_t sign = signbit(value) ? 0x8000 : 0,
             infinity = (uint16_t)(0x7fff >> mantissa_bits << mantissa_bits);
    double magnitude = fabs(value);
    double beyond = 2 * decode((uint16_t)(infinity - (1 << mantissa_bits)), mantissa_bits);
    uint16_t low = 0, high = infinity; /* decode(low) <= magnitude < decode(high) */
    if (isinf(magnitude)) return sign | infinity;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (decode(middle, mantissa_bits) <= magnitude) low = middle;
        else high = middle;
    }
    double above = high == infinity ? beyond : decode(high, mantissa_bits);
    double down = magnitude - decode(low, mantissa_bits), up = above - magnitude;
    if (down == up) return sign | (low & 1 ? high : low);
    return sign | (down < up ? low : high);
}

static uint64_t random_state = 12345;
static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

TEST(widening_is_exact_for_all_patterns) {
    for (uint32_t i = 0; i < 65536; i++) {
        double f16 = decode((uint16_t)i, 10), bf16 = decode((uint16_t)i, 7);
        float a = hn_f16_to_f32((uint16_t)i), b = hn_bf16_to_f32((uint16_t)i);
        if (isnan(f16) ? !isnan(a) : (double)a != f16 || !signbit(a) != !signbit(f16))
            HN_TEST_FAIL("f16 %04x gives %a", i, (double)a);
        if (isnan(bf16) ? !isnan(b) : (double)b != bf16 || !signbit(b) != !signbit(bf16))
            HN_TEST_FAIL("bf16 %04x gives %a", i, (double)b);
    }
}

TEST(narrowing_inverts_widening) {
    for (uint32_t i = 0; i < 65536; i++) {
        bool nan16 = (i & 0x7fff) > 0x7c00, nan_b = (i & 0x7fff) > 0x7f80;
        uint32_t quiet16 = nan16 ? i | 0x200 : i, quiet_b = nan_b ? i | 0x40 : i;
        EXPECT_INT(hn_f32_to_f16(hn_f16_to_f32((uint16_t)i)), quiet16);
        EXPECT_INT(hn_f32_to_bf16(hn_bf16_to_f32((uint16_t)i)), quiet_b);
        if (!nan16) EXPECT_INT(hn_f64_to_f16(decode((uint16_t)i, 10)), i);
        if (!nan_b) EXPECT_INT(hn_f64_to_bf16(decode((uint16_t)i, 7)), i);
    }
}

static void check_double(double value) {
    if (isnan(value)) return;
    uint16_t f16 = hn_f64_to_f16(value), bf16 = hn_f64_to_bf16(value);
    if (f16 != nearest(value, 10))
        HN_TEST_FAIL("f16 of %a is %04x, expected %04x", value, f16, nearest(value, 10));
    if (bf16 != nearest(value, 7))
        HN_TEST_FAIL("bf16 of %a is %04x, expected %04x", value, bf16, nearest(value, 7));
    float narrow = (float)value;
    if (hn_f32_to_f16(narrow) != nearest((double)narrow, 10))
        HN_TEST_FAIL("f16 of float %a", (double)narrow);
    if (hn_f32_to_bf16(narrow) != nearest((double)narrow, 7))
        HN_TEST_FAIL("bf16 of float %a", (double)narrow);
}

TEST(rounds_to_nearest_even) {
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = next_random();
        check_double(double_of(bits)); /* any exponent */
        uint64_t near16 =
            (bits & 0x800fffffffffffffull) | (uint64_t)(1023 - 30 + (int)(bits >> 52 & 63)) << 52;
        check_double(double_of(near16)); /* about the range of f16 */
    }
}

TEST(rounds_ties_and_their_neighbours) {
    for (uint32_t i = 0; i < 0x7f80; i++)
        for (int mantissa_bits = 7; mantissa_bits <= 10; mantissa_bits += 3) {
            double a = decode((uint16_t)i, mantissa_bits),
                   b = decode((uint16_t)(i + 1), mantissa_bits);
            if (isnan(a) || isinf(a) || isinf(b) || isnan(b)) continue;
            double middle = (a + b) / 2;
            check_double(middle);
            check_double(-middle);
            check_double(nextafter(middle, 0));
            check_double(nextafter(middle, INFINITY));
        }
}

TEST(rounds_once) {
    /* To float first this is a tie, which goes the other way. */
    double value = 1 + 0x1p-11 + 0x1p-40;
    EXPECT_INT(hn_f64_to_f16(value), 0x3c01);
    EXPECT_INT(hn_f32_to_f16((float)value), 0x3c00);
    value = 1 + 0x1p-8 + 0x1p-40;
    EXPECT_INT(hn_f64_to_bf16(value), 0x3f81);
    EXPECT_INT(hn_f32_to_bf16((float)value), 0x3f80);
}

TEST(known_values) {
    EXPECT_INT(hn_f32_to_f16(65504.0f), 0x7bff);
    EXPECT_INT(hn_f32_to_f16(65519.996f), 0x7bff);
    EXPECT_INT(hn_f32_to_f16(65520.0f), 0x7c00);
    EXPECT_INT(hn_f32_to_f16(-1e30f), 0xfc00);
    EXPECT_INT(hn_f64_to_f16(0x1p-24), 1);
    EXPECT_INT(hn_f64_to_f16(0x1p-25), 0);
    EXPECT_INT(hn_f64_to_f16(0x1.000001p-25), 1);
    EXPECT_INT(hn_f64_to_f16(-0.0), 0x8000);
    EXPECT_INT(hn_f64_to_f16(4.9e-324), 0);
    EXPECT_INT(hn_f64_to_bf16(0x1p-133), 1);
    EXPECT_INT(hn_f64_to_bf16(3.4e38), 0x7f80);
    EXPECT_INT(hn_f32_to_bf16(3.3895314e38f), 0x7f7f);
    EXPECT_INT(hn_f32_to_f16(NAN) & 0x7fff, 0x7e00);
    EXPECT_INT(hn_f64_to_bf16(NAN) & 0x7fff, 0x7fc0);
    EXPECT_INT(hn_f32_to_bf16(hn_bf16_to_f32(0xff81)), 0xffc1); /* sign and payload stay */
    EXPECT_INT(float_bits(hn_f16_to_f32(0xfc01)), 0xffc02000);
    /* A NaN whose payload lies below what is kept must not become infinity. */
    EXPECT_INT(hn_f64_to_f16(double_of(0x7ff0000000000001ull)), 0x7e00);
    EXPECT_INT(hn_f64_to_bf16(double_of(0xfff0000000000001ull)), 0xffc0);
}

TEST(table_is_consistent) {
    for (int d = 1; d < HN_DTYPE_COUNT; d++) {
        const hn_dtype_info *facts = hn_dtype_facts((hn_dtype)d);
        EXPECT(facts->size_bytes > 0 && facts->category != HN_CATEGORY_NONE);
        EXPECT_INT(hn_dtype_parse(hn_str_of(facts->name)), d);
        EXPECT_INT(hn_dtype_from_pt2(facts->pt2_code), d);
        EXPECT(hn_dtype_is_float((hn_dtype)d) == (facts->rtol > 0));
    }
}

TEST(table_facts) {
    EXPECT_INT(hn_dtype_facts(HN_DTYPE_NONE)->size_bytes, 0);
    EXPECT_INT(hn_dtype_facts((hn_dtype)999)->size_bytes, 0);
    EXPECT_INT(hn_dtype_facts((hn_dtype)-1)->size_bytes, 0);
    EXPECT_INT(hn_dtype_parse(HN_STR("f33")), HN_DTYPE_NONE);
    EXPECT_INT(hn_dtype_parse(HN_STR("")), HN_DTYPE_NONE);
    EXPECT_INT(hn_dtype_from_pt2(7), HN_DTYPE_F32);
    EXPECT_INT(hn_dtype_from_pt2(1), HN_DTYPE_U8);
    EXPECT_INT(hn_dtype_from_pt2(0), HN_DTYPE_NONE);
    EXPECT_INT(hn_dtype_from_pt2(9), HN_DTYPE_NONE);
    EXPECT_INT(hn_dtype_from_pt2(-1), HN_DTYPE_NONE);
    EXPECT(!hn_dtype_is_int(HN_DTYPE_BOOL) && hn_dtype_is_int(HN_DTYPE_U8));
}

TEST_MAIN
