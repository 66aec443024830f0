/* Pooling, indexing, scattering and resizing: views where views will do, and what is refused. */
#include "unit/opt/decompose_forms.h"

#define Y "output user %y \"\"\n"
#define X "input user %x : f32[2, 3, 8, 8] \"x\"\n"

TEST(pooling_reduces_windows) {
    EXPECT_OPS(X "%y = aten.max_pool2d.default(%x, [2, 2]) : f32[2, 3, 4, 4]\n" Y,
               "amax window window");
    EXPECT_OPS(
        X
        "%y, %i = aten.max_pool2d_with_indices.default(%x, [3, 3], [2, 2], [1, 1]) : f32[2, 3, 4, 4], i64[2, 3, 4, 4]\n" Y,
        "amax pad window window");
    EXPECT_OPS(X "%y = aten.avg_pool2d.default(%x, [3, 3], [2, 2], [1, 1]) : f32[2, 3, 4, 4]\n" Y,
               "div pad sum window window");
    EXPECT_OPS(X "%y = aten.adaptive_avg_pool2d.default(%x, [1, 1]) : f32[2, 3, 1, 1]\n" Y,
               "div sum");
    EXPECT_OPS(X "%y = aten.adaptive_avg_pool2d.default(%x, [4, 8]) : f32[2, 3, 4, 8]\n" Y,
               "div reshape sum");
}

TEST(the_gradient_of_an_average_gathers) {
    EXPECT_OPS(
        X
        "input user %g : f32[2, 3, 4, 4] \"g\"\n"
        "%y = aten.avg_pool2d_backward.default(%g, %x, [2, 2], [2, 2], [0, 0], false, true, none) : f32[2, 3, 8, 8]\n" Y,
        "div pad pad pad pad reshape reshape reshape reshape sum sum window window");
}

TEST(whole_factors_repeat_by_views) {
    EXPECT_OPS(X "%y = aten.upsample_nearest2d.vec(%x, none, [2.0, 2.0]) : f32[2, 3, 16, 16]\n" Y,
               "expand expand reshape reshape reshape reshape");
    EXPECT_OPS("symbol size s0 in [2, 64] hint 8\ninput user %x : f32[1, 3, s0, s0] \"x\"\n"
               "%y = aten.upsample_nearest2d.vec(%x, none, [2.0, 2.0]) : f32[1, 3, 2*s0, 2*s0]\n" Y,
               "expand expand reshape reshape reshape reshape");
}

TEST(masks_that_choose_one_value_need_no_data_dependent_size) {
    EXPECT_OPS(X "input user %m : bool[2, 3, 8, 8] \"m\"\ninput user %v : f32[] \"v\"\n"
                 "%y = aten.index_put.default(%x, [%m], %v) : f32[2, 3, 8, 8]\n" Y,
               "where");
    EXPECT_REFUSES(X "input user %m : bool[2, 3, 8, 8] \"m\"\ninput user %v : f32[5] \"v\"\n"
                     "%y = aten.index_put.default(%x, [%m], %v) : f32[2, 3, 8, 8]\n" Y,
                   HN_UNSUPPORTED, "mask");
    EXPECT_REFUSES(
        X "input user %m : bool[2] \"m\"\n%y = aten.index.Tensor(%x, [%m]) : f32[1, 3, 8, 8]\n" Y,
        HN_UNSUPPORTED, "mask");
}

/* x[:, mask, i]: the mask is two indices of its own */
TEST(a_mask_reads_what_it_chooses) {
    opt_fixture f;
    opt_begin(
        &f,
        "graph { symbol data u0 in [0, 4]\ninput user %x : i64[2, 2, 2, 2] \"x\"\ninput user %m : bool[2, 2] \"m\"\n"
        "input user %i : i64[1] \"i\"\n"
        "%y = aten.index.Tensor(%x, [none, %m, %i]) : i64[2, u0]\noutput user %y \"\" }");
    EXPECT_OK(opt_decompose(&f));
    hn_ref_tensor in[3], out = {0};
    const int64_t sizes[4] = {2, 2, 2, 2}, choice[4] = {0, 1, 0, 1};
    EXPECT_OK(hn_ref_tensor_init(&f.arena, HN_DTYPE_I64, 4, sizes, &in[0]));
    EXPECT_OK(hn_ref_tensor_init(&f.arena, HN_DTYPE_BOOL, 2, sizes, &in[1]));
    EXPECT_OK(hn_ref_tensor_init(&f.arena, HN_DTYPE_I64, 1, (int64_t[]){1}, &in[2]));
    for (int64_t k = 0; k < 16; k++) in[0].data.i[k] = k;
    memcpy(in[1].data.i, choice, sizeof choice);
    in[2].data.i[0] = -1;
    EXPECT_OK(hn_interpret(&f.arena, f.g, in, 3, &out));
    EXPECT_INT(out.numel, 4);
    const int64_t want[4] = {3, 7, 11, 15};
    for (int64_t k = 0; k < 4 && k < out.numel; k++) EXPECT_INT(out.data.i[k], want[k]);
    opt_end(&f);
}

TEST(index_tensors_that_are_neighbours_stay_in_place) {
    EXPECT_OPS(
        X
        "input user %i : i64[5] \"i\"\n%y = aten.index.Tensor(%x, [none, %i, %i]) : f32[2, 5, 8]\n" Y,
        "index permute permute");
    EXPECT_OPS(
        X
        "input user %i : i64[5] \"i\"\n%y = aten.index.Tensor(%x, [none, %i, none, %i]) : f32[5, 2, 8]\n" Y,
        "index permute");
    EXPECT_OPS(
        X "input user %i : i64[5] \"i\"\n%y = aten.embedding.default(%x, %i) : f32[5, 3, 8, 8]\n" Y,
        "index");
}

TEST(writes_at_known_places_do_not_scatter) {
    EXPECT_OPS("input user %x : f32[8, 4] \"x\"\ninput user %s : f32[2, 4] \"s\"\n"
               "%y = aten.slice_scatter.default(%x, %s, 0, 3, 5) : f32[8, 4]\n" Y,
               "and ge iota lt pad reshape sub where");
    EXPECT_OPS("input user %x : f32[8, 4] \"x\"\ninput user %s : f32[8, 4] \"s\"\n"
               "%y = aten.slice_scatter.default(%x, %s) : f32[8, 4]\noutput user %y \"\"\n",
               "");
}

TEST(a_padding_beyond_half_of_the_kernel_is_refused) {
    EXPECT_REFUSES(X
                   "%y = aten.max_pool2d.default(%x, [2, 2], [2, 2], [2, 2]) : f32[2, 3, 6, 6]\n" Y,
                   HN_UNSUPPORTED, "half of the kernel");
    EXPECT_REFUSES(
        X
        "%y = aten.avg_pool2d.default(%x, [2, 2], [2, 2], [0, 0], false, true, 0) : f32[2, 3, 4, 4]\n" Y,
        HN_UNSUPPORTED, "divisor");
}

TEST(every_random_op_has_a_stream_and_all_share_the_seed) {
    EXPECT_DECOMPOSES(
        "input user %x : f32[8] \"x\"\n"
        "%y = aten.rand_like.default(%x) : f32[8]\n%z = aten.rand_like.default(%x) : f32[8]\n"
        "output user %y \"\"\noutput user %z \"\"\n",
        "storage 1 : 8 bytes hex 0000000000000000\ninput user %x : f32[8] \"x\"\ninput constant %1 : i64[] storage 1 offset 0 \"\"\n"
        "%y = random(kind=\"uniform\", sizes=[8], dtype=f32, %1, stream=0) : f32[8]\n"
        "%z = random(kind=\"uniform\", sizes=[8], dtype=f32, %1, stream=1) : f32[8]\n"
        "output user %y \"\"\noutput user %z \"\"\n");
}

TEST_MAIN
