/* Views, reductions and creation with symbolic sizes. */
#include "unit/opt/opt_fixture.h"

#define X "symbol size s0 in [2, 64] hint 8\ninput user %x : f32[s0, 4] \"x\"\n"
#define Y "output user %y \"\"\n"

TEST(reshape_takes_recorded_sizes) {
    EXPECT_DECOMPOSES(X "%y = aten.view.default(%x, [-1]) : f32[4*s0]\n" Y,
                      X "%y = reshape(%x, sizes=[4*s0]) : f32[4*s0]\n" Y);
    EXPECT_DECOMPOSES(X "%y = aten.flatten.using_ints(%x) : f32[4*s0]\n" Y,
                      X "%y = reshape(%x, sizes=[4*s0]) : f32[4*s0]\n" Y);
}

TEST(slices_clamp_only_where_they_must) {
    EXPECT_DECOMPOSES(X "%y = aten.slice.Tensor(%x, 0, 1) : f32[s0 - 1, 4]\n" Y,
                      X "%y = slice(%x, dim=0, start=1, size=s0 - 1, step=1) : f32[s0 - 1, 4]\n" Y);
    EXPECT_DECOMPOSES(X "%y = aten.slice.Tensor(%x, 0, -1) : f32[1, 4]\n" Y,
                      X "%y = slice(%x, dim=0, start=s0 - 1, size=1, step=1) : f32[1, 4]\n" Y);
    EXPECT_DECOMPOSES(X "%y = aten.slice.Tensor(%x, 0, 0, s0) : f32[s0, 4]\n" Y,
                      X "output user %x \"\"\n");
    EXPECT_DECOMPOSES(
        X "%y = aten.slice.Tensor(%x, 0, 0, 9223372036854775807, 2) : f32[(s0 + 1)//2, 4]\n" Y,
        X "%y = slice(%x, dim=0, start=0, size=(s0 + 1)//2, step=2) : f32[(s0 + 1)//2, 4]\n" Y);
}

TEST(select_counts_from_the_end) {
    EXPECT_DECOMPOSES(
        X "%y = aten.select.int(%x, 0, -1) : f32[4]\n" Y, X
        "%1 = slice(%x, dim=0, start=s0 - 1, size=1, step=1) : f32[1, 4]\n%y = reshape(%1, sizes=[4]) : f32[4]\n" Y);
}

TEST(split_and_cat) {
    EXPECT_DECOMPOSES(X "%a, %b = aten.split.Tensor(%x, 2, -1) : f32[s0, 2], f32[s0, 2]\n"
                        "%y = aten.cat.default([%b, %a], -1) : f32[s0, 4]\n" Y,
                      X "%a = slice(%x, dim=1, start=0, size=2, step=1) : f32[s0, 2]\n"
                        "%b = slice(%x, dim=1, start=2, size=2, step=1) : f32[s0, 2]\n"
                        "%y = cat([%b, %a], dim=1) : f32[s0, 4]\n" Y);
}

TEST(mean_divides_by_a_symbolic_count) {
    EXPECT_DECOMPOSES(X "%y = aten.mean.dim(%x, [0]) : f32[4]\n" Y,
                      X "%1 = sum(%x, dims=[0], keepdim=false) : f32[4]\n"
                        "%2 = full(value=s0, sizes=[], dtype=f32) : f32[]\n"
                        "%y = div(%1, %2) : f32[4]\n" Y);
}

TEST(arange_and_sizes_as_numbers) {
    EXPECT_DECOMPOSES(X "%y = aten.arange.default(s0) : i64[s0]\n" Y,
                      X "%y = iota(start=0, step=1, size=s0, dtype=i64) : i64[s0]\n" Y);
    EXPECT_DECOMPOSES(
        X "%y = aten.mul.Tensor(%x, s0) : f32[s0, 4]\n" Y,
        X "%1 = full(value=s0, sizes=[], dtype=f32) : f32[]\n%y = mul(%x, %1) : f32[s0, 4]\n" Y);
}

TEST(broadcasts_of_unlike_symbols_leave_a_guard) {
    EXPECT_DECOMPOSES("symbol size s0 in [2, 64] hint 8\nsymbol size s1 in [2, 64] hint 8\n"
                      "input user %x : f32[s0] \"x\"\ninput user %z : f32[s1] \"z\"\n"
                      "%y = aten.add.Tensor(%x, %z) : f32[s0]\n" Y,
                      "symbol size s0 in [2, 64] hint 8\nsymbol size s1 in [2, 64] hint 8\n"
                      "guard s0 == s1 \"sizes that meet in a broadcast are equal\"\n"
                      "input user %x : f32[s0] \"x\"\ninput user %z : f32[s1] \"z\"\n"
                      "%y = add(%x, %z) : f32[s0]\n" Y);
}

TEST(a_slice_that_leaves_one_element_broadcasts) {
#define HEAD "symbol size s0 in [0, inf] hint 8\n"
    EXPECT_DECOMPOSES(
        HEAD "input user %x : f32[s0] \"x\"\ninput user %z : f32[1] \"z\"\n"
             "%1 = aten.slice.Tensor(%z, 0, Max(0, 1 - s0)) : f32[1 - Max(0, 1 - s0)]\n"
             "%y = aten.add.Tensor(%x, %1) : f32[s0]\n" Y,
        HEAD
        "guard -Max(0, -s0 + 1) + 1 == 1 \"a size that is broadcast is 1\"\n"
        "guard 1 <= -Max(0, -s0 + 1) + 1 \"a slice ends within its dimension\"\n"
        "input user %x : f32[s0] \"x\"\ninput user %z : f32[1] \"z\"\n"
        "%2 = slice(%z, dim=0, start=Max(0, -s0 + 1), size=-Max(0, -s0 + 1) + 1, step=1) : f32[-Max(0, -s0 + 1) + 1]\n"
        "%3 = slice(%2, dim=0, start=0, size=1, step=1) : f32[1]\n"
        "%y = add(%x, %3) : f32[s0]\n" Y);
#undef HEAD
}

TEST(diagonal_of_a_symbolic_matrix_is_strided) {
    EXPECT_DECOMPOSES("symbol size s0 in [2, 64] hint 8\ninput user %x : f32[s0, s0] \"x\"\n"
                      "%y = aten.diagonal.default(%x) : f32[s0]\n" Y,
                      "symbol size s0 in [2, 64] hint 8\ninput user %x : f32[s0, s0] \"x\"\n"
                      "%y = as_strided(%x, sizes=[s0], strides=[s0 + 1], offset=0) : f32[s0]\n" Y);
}

/* --- as_strided reads memory, not values --- */

TEST(as_strided_undoes_views) {
    EXPECT_DECOMPOSES("input user %x : f32[2, 3] \"x\"\n"
                      "%t = aten.t.default(%x) : f32[3, 2] strides [1, 3]\n"
                      "%y = aten.as_strided.default(%t, [3], [2], 1) : f32[3]\n" Y,
                      "input user %x : f32[2, 3] \"x\"\n"
                      "%t = permute(%x, dims=[1, 0]) : f32[3, 2]\n"
                      "%y = as_strided(%x, sizes=[3], strides=[2], offset=1) : f32[3]\n" Y);
    EXPECT_DECOMPOSES("input user %x : f32[2, 3] strides [1, 2] \"x\"\n"
                      "%y = aten.as_strided.default(%x, [3, 2], [2, 1]) : f32[3, 2]\n" Y,
                      "input user %x : f32[2, 3] strides [1, 2] \"x\"\n"
                      "%y = permute(%x, dims=[1, 0]) : f32[3, 2]\n" Y);
}

TEST(as_strided_refuses_what_it_cannot_place) {
    EXPECT_REFUSES("input user %x : f32[4, 3] \"x\"\n"
                   "%s = aten.slice.Tensor(%x, 0, 1) : f32[3, 3]\n"
                   "%y = aten.as_strided.default(%s, [3], [1]) : f32[3]\n" Y,
                   HN_UNSUPPORTED, "around a slice");
    EXPECT_REFUSES("input user %x : f32[2, 3] \"x\"\n"
                   "%t = aten.t.default(%x) : f32[3, 2] strides [1, 3]\n"
                   "%r = aten.reshape.default(%t, [6]) : f32[6]\n"
                   "%y = aten.as_strided.default(%r, [3], [1]) : f32[3]\n" Y,
                   HN_UNSUPPORTED, "a view or a copy");
    EXPECT_REFUSES("input user %x : f32[2, 3] strides [8, 1] \"x\"\n"
                   "%y = aten.as_strided.default(%x, [3], [1]) : f32[3]\n" Y,
                   HN_UNSUPPORTED, "gaps or overlaps");
}

TEST_MAIN
