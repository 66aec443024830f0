/* Ops whose result sizes depend on the data, run through the interpreter. */
#include "unit/opt/opt_fixture.h"

/* Runs the graph on i64 vectors and checks output `k` against `want`. */
static void check_vector(const hn_ref_tensor *t, const int64_t *want, int64_t count) {
    EXPECT_INT(t->numel, count);
    for (int64_t i = 0; i < count && i < t->numel; i++) EXPECT_INT(t->data.i[i], want[i]);
}

static hn_ref_tensor vector_of(hn_arena *arena, const int64_t *values, int64_t count) {
    hn_ref_tensor t = {0};
    EXPECT_OK(hn_ref_tensor_init(arena, HN_DTYPE_I64, 1, &count, &t));
    for (int64_t i = 0; i < count; i++) t.data.i[i] = values[i];
    return t;
}

TEST(unique_consecutive_gives_values_runs_and_lengths) {
    opt_fixture f;
    opt_begin(
        &f,
        "graph { symbol data u0 in [1, 7]\ninput user %x : i64[7] \"x\"\n"
        "%v, %r, %c = aten.unique_consecutive.default(%x, true, true) : i64[u0], i64[7], i64[u0]\n"
        "output user %v \"\"\noutput user %r \"\"\noutput user %c \"\" }");
    EXPECT_OK(opt_decompose(&f));
    hn_ref_tensor x = vector_of(&f.arena, (int64_t[]){3, 3, 1, 1, 1, 3, 9}, 7), out[3] = {{0}};
    EXPECT_OK(hn_interpret(&f.arena, f.g, &x, 1, out));
    check_vector(&out[0], (int64_t[]){3, 1, 3, 9}, 4);
    check_vector(&out[1], (int64_t[]){0, 0, 1, 1, 1, 2, 3}, 7);
    check_vector(&out[2], (int64_t[]){2, 3, 1, 1}, 4);
    opt_end(&f);
}

TEST(repeat_interleave_counts_its_result) {
    opt_fixture f;
    opt_begin(
        &f,
        "graph { symbol data u0 in [0, 100]\ninput user %x : i64[3] \"x\"\ninput user %n : i64[3] \"n\"\n"
        "%a = aten.repeat_interleave.self_Tensor(%x, %n) : i64[u0]\n"
        "%b = aten.repeat_interleave.self_Tensor(%x, %n, 0, output_size=6) : i64[6]\n"
        "output user %a \"\"\noutput user %b \"\" }");
    EXPECT_OK(opt_decompose(&f));
    hn_ref_tensor in[2] = {vector_of(&f.arena, (int64_t[]){7, 8, 9}, 3),
                           vector_of(&f.arena, (int64_t[]){2, 0, 4}, 3)};
    hn_ref_tensor out[2] = {{0}};
    EXPECT_OK(hn_interpret(&f.arena, f.g, in, 2, out));
    check_vector(&out[0], (int64_t[]){7, 7, 9, 9, 9, 9}, 6);
    check_vector(&out[1], (int64_t[]){7, 7, 9, 9, 9, 9}, 6);
    opt_end(&f);
}

TEST(nonzero_and_an_index_from_data) {
    opt_fixture f;
    opt_begin(
        &f,
        "graph { symbol data u0 in [0, 3]\nsymbol data u1 in [-3, 2]\ninput user %x : i64[3] \"x\"\ninput user %k : i64[] \"k\"\n"
        "%a = aten.nonzero.default(%x) : i64[u0, 1]\n"
        "%i = aten.item.default(%k) : symint(u1)\n"
        "%b = aten.select.int(%x, 0, u1) : i64[]\n"
        "output user %a \"\"\noutput user %b \"\" }");
    EXPECT_OK(opt_decompose(&f));
    hn_ref_tensor in[2] = {vector_of(&f.arena, (int64_t[]){5, 0, 6}, 3), {0}}, out[2] = {{0}};
    EXPECT_OK(hn_ref_tensor_init(&f.arena, HN_DTYPE_I64, 0, NULL, &in[1]));
    in[1].data.i[0] = -3;
    EXPECT_OK(hn_interpret(&f.arena, f.g, in, 2, out));
    check_vector(&out[0], (int64_t[]){0, 2}, 2);
    check_vector(&out[1], (int64_t[]){5}, 1);
    opt_end(&f);
}

/* x[mask] = -x[mask]: the values tell how many places the mask chooses. */
TEST(a_mask_takes_as_many_values_as_it_chooses) {
    opt_fixture f;
    opt_begin(
        &f,
        "graph { symbol data u0 in [0, 4]\ninput user %x : i64[4] \"x\"\ninput user %z : i64[4] \"z\"\n"
        "%m = aten.gt.Scalar(%x, 0) : bool[4]\n%a = aten.index.Tensor(%x, [%m]) : i64[u0]\n"
        "%n = aten.neg.default(%a) : i64[u0]\n%y = aten.index_put.default(%x, [%m], %n) : i64[4]\n"
        "%k = aten.gt.Scalar(%z, 0) : bool[4]\n%w = aten.index_put.default(%z, [%k], %n) : i64[4]\n"
        "output user %y \"\"\noutput user %w \"\" }");
    EXPECT_OK(opt_decompose(&f));
    hn_ref_tensor in[2] = {vector_of(&f.arena, (int64_t[]){5, 0, 6, -1}, 4),
                           vector_of(&f.arena, (int64_t[]){0, 1, 1, 0}, 4)},
                  out[2] = {{0}};
    EXPECT_OK(hn_interpret(&f.arena, f.g, in, 2, out));
    check_vector(&out[0], (int64_t[]){-5, 0, -6, -1}, 4);
    check_vector(&out[1], (int64_t[]){0, -5, -6, 0}, 4);
    in[1].data.i[0] = 1; /* three places for two values */
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, in, 2, out), HN_INVALID_ARGUMENT, "u0");
    opt_end(&f);
}

TEST(a_failed_assertion_stops_the_call) {
    opt_fixture f;
    opt_begin(
        &f,
        "graph { input user %x : i64[] \"x\"\naten._assert_async.msg(%x, \"x is 0\")\noutput user %x \"\" }");
    EXPECT_OK(opt_decompose(&f));
    hn_ref_tensor x = {0}, out = {0};
    EXPECT_OK(hn_ref_tensor_init(&f.arena, HN_DTYPE_I64, 0, NULL, &x));
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, &x, 1, &out), HN_INVALID_ARGUMENT, "x is 0");
    x.data.i[0] = 1;
    EXPECT_OK(hn_interpret(&f.arena, f.g, &x, 1, &out));
    opt_end(&f);
}

TEST_MAIN
