/* test_hash.c: known digests, streaming, hex; and checked arithmetic. */
#include "unit/harness.h"

#include "base/checked.h"
#include "base/hash.h"

static void expect_hex(hn_digest digest, const char *expected) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(&digest, hex);
    EXPECT_STR(hex, expected);
}

/* The values of `b2sum -l 256`. A change would orphan every cache and bundle. */
TEST(digests_are_blake2b_256) {
    expect_hex(hn_digest_of(NULL, 0),
               "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    expect_hex(hn_digest_of("abc", 3),
               "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(streaming_equals_one_shot) {
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (unsigned char)(i * 7);
    hn_digest whole = hn_digest_of(bytes, sizeof(bytes));
    for (size_t step = 1; step < sizeof(bytes); step = step * 3 + 1) {
        hn_digest_state state;
        hn_digest_begin(&state);
        hn_digest_update(&state, NULL, 0);
        for (size_t at = 0; at < sizeof(bytes); at += step)
            hn_digest_update(&state, bytes + at,
                             step < sizeof(bytes) - at ? step : sizeof(bytes) - at);
        hn_digest parts = hn_digest_end(&state);
        EXPECT(memcmp(&parts, &whole, sizeof(whole)) == 0);
    }
    bytes[500] ^= 1;
    hn_digest other = hn_digest_of(bytes, sizeof(bytes));
    EXPECT(memcmp(&other, &whole, sizeof(whole)) != 0);
}

TEST(hash64_depends_on_bytes_length_and_seed) {
    EXPECT(hn_hash64("abc", 3, 0) == hn_hash64("abcd", 3, 0));
    EXPECT(hn_hash64("abc", 3, 0) != hn_hash64("abd", 3, 0));
    EXPECT(hn_hash64("abc", 3, 0) != hn_hash64("abc", 2, 0));
    EXPECT(hn_hash64("abc", 3, 0) != hn_hash64("abc", 3, 1));
    EXPECT(hn_hash64(NULL, 0, 0) == hn_hash64("x", 0, 0));
}

TEST(arithmetic_reports_overflow) {
    int64_t i = 5;
    size_t s = 5;
    EXPECT(hn_add_i64(1, 2, &i) && i == 3);
    EXPECT(hn_sub_i64(INT64_MIN, -1, &i) && i == INT64_MIN + 1);
    EXPECT(hn_mul_i64(-4, 5, &i) && i == -20);
    EXPECT(!hn_add_i64(INT64_MAX, 1, &i));
    EXPECT_INT(i, -20); /* left alone */
    EXPECT(!hn_sub_i64(INT64_MIN, 1, &i));
    EXPECT(!hn_mul_i64(INT64_MIN, -1, &i));
    EXPECT(hn_add_size(SIZE_MAX, 0, &s) && s == SIZE_MAX);
    EXPECT(!hn_add_size(SIZE_MAX, 1, &s));
    EXPECT(!hn_mul_size(SIZE_MAX / 2 + 1, 2, &s));
    EXPECT(s == SIZE_MAX);
    EXPECT_INT(hn_align_up(17, 16), 32);
    EXPECT_INT(hn_align_up(32, 16), 32);
    EXPECT_INT(hn_align_up(0, 64), 0);
}

TEST(division_rounds_down) {
    for (int64_t a = -20; a <= 20; a++)
        for (int64_t b = -5; b <= 5; b++) {
            if (!b) continue;
            int64_t q = hn_floor_div(a, b), r = hn_floor_mod(a, b);
            EXPECT(q * b + r == a);
            EXPECT(q == (int64_t)floor((double)a / (double)b));
            EXPECT(r == 0 || (r < 0) == (b < 0));
        }
    int64_t out = 5;
    EXPECT_INT(hn_floor_div(INT64_MIN, -1), INT64_MIN);
    EXPECT_INT(hn_floor_mod(INT64_MIN, -1), 0);
    EXPECT(!hn_floor_div_i64(INT64_MIN, -1, &out) && !hn_floor_div_i64(1, 0, &out) && out == 5);
    EXPECT(hn_floor_div_i64(-7, 2, &out) && out == -4);
}

TEST_MAIN
