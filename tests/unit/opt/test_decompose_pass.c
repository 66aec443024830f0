/* The pass itself: names, places, reports, checks against the recorded metas, layouts of outputs,
 * subgraphs. */
#include "unit/opt/opt_fixture.h"

TEST(names_and_order_stay) {
    EXPECT_DECOMPOSES("input user %x : f32[2] \"x\"\n"
                      "%sum = aten.add.Tensor(%x, 1) : f32[2]\n"
                      "%out = aten.mul.Tensor(%sum, %x) : f32[2]\n"
                      "output user %out \"y\"\n",
                      "input user %x : f32[2] \"x\"\n"
                      "%1 = full(value=1.0, sizes=[], dtype=f32) : f32[]\n"
                      "%sum = add(%x, %1) : f32[2]\n"
                      "%out = mul(%sum, %x) : f32[2]\n"
                      "output user %out \"y\"\n");
}

TEST(primitives_stay) {
    EXPECT_DECOMPOSES("input user %x : f32[2] \"x\"\n"
                      "%e = exp(%x) : f32[2]\n"
                      "%y = aten.neg.default(%e) : f32[2]\n"
                      "output user %y \"\"\n",
                      "input user %x : f32[2] \"x\"\n"
                      "%e = exp(%x) : f32[2]\n"
                      "%y = neg(%e) : f32[2]\n"
                      "output user %y \"\"\n");
}

TEST(nodes_keep_their_places) {
    opt_fixture f;
    opt_begin(
        &f, "graph { input user %x : f32[2] \"x\"\n"
            "%y = aten.silu.default(%x) : f32[2] at \"act\" \"model.py:3\"\noutput user %y \"\" }");
    EXPECT_OK(opt_decompose(&f));
    for (uint32_t n = 1; n < f.g->nodes.count; n++) {
        hn_origin origin = f.g->origins.items[f.g->nodes.items[n].origin];
        EXPECT(hn_str_eq(origin.node, HN_STR("act")));
        EXPECT(hn_str_eq(origin.source, HN_STR("model.py:3")));
    }
    EXPECT_INT(f.g->nodes.count, 3);
    opt_end(&f);
}

TEST(what_cannot_be_rewritten_is_listed_once_an_operator) {
    EXPECT_REFUSES(
        "input user %x : f32[2] \"x\"\n"
        "%a = aten.random_.default(%x) : f32[2] at \"m1\" \"a.py:1\"\n"
        "%b = aten.random_.default(%x) : f32[2] at \"m2\" \"a.py:2\"\n"
        "%c = aten.polar.default(%x, %x) : f32[2] at \"p\" \"\"\n"
        "%d = aten.neg.default(%c) : f32[2]\n"
        "output user %d \"\"\noutput user %a \"\"\noutput user %b \"\"\n",
        HN_UNSUPPORTED,
        "cannot decompose 2 operators: 'aten.random_.default' (node 'm1', a.py:1) and 1 more; "
        "'aten.polar.default' (node 'p')");
    EXPECT_REFUSES(
        "input user %x : i64[2] \"x\"\n"
        "%y = aten.one_hot.default(%x) : i64[2, 3] at \"hot\" \"b.py:9\"\noutput user %y \"\"\n",
        HN_UNSUPPORTED, "'aten.one_hot.default' (node 'hot', b.py:9): num_classes is not given");
}

TEST(results_must_be_what_the_program_records) {
    EXPECT_REFUSES(
        "input user %x : f32[2, 3] \"x\"\n"
        "%y = aten.sum.dim_IntList(%x, [1]) : f32[3] at \"total\" \"m.py:7\"\noutput user %y \"\"\n",
        HN_UNSUPPORTED,
        "'aten.sum.dim_IntList' (node 'total', m.py:7): result 0 is f32[2] but the program records f32[3]; "
        "if the model runs in PyTorch, export it again with run_decompositions()");
    EXPECT_REFUSES("input user %x : f32[2] \"x\"\n"
                   "%y = aten.add.Tensor(%x, %x) : f64[2]\noutput user %y \"\"\n",
                   HN_UNSUPPORTED, "f32[2] but the program records f64[2]");
}

/* As PyTorch up to 2.11 records the states of an LSTM: [1, 1, 3, 2] for [1, 3, 2]. */
TEST(a_record_with_as_many_elements_gives_way) {
    EXPECT_DECOMPOSES("symbol size s0 in [1, 64]\ninput user %x : f32[2, s0] \"x\"\n"
                      "%y = aten.sum.dim_IntList(%x, [0]) : f32[1, s0, 1]\n"
                      "%z = aten.neg.default(%y) : f32[1, s0, 1]\noutput user %z \"\"\n",
                      "symbol size s0 in [1, 64]\ninput user %x : f32[2, s0] \"x\"\n"
                      "%y = sum(%x, dims=[0], keepdim=false) : f32[s0]\n"
                      "%z = neg(%y) : f32[s0]\noutput user %z \"\"\n");
}

TEST(a_record_of_an_unused_result_is_not_asked) {
    EXPECT_DECOMPOSES("input user %x : f32[2, 3] \"x\"\n"
                      "%y, %i = aten.max.dim(%x, 1) : f32[2], i64[7]\noutput user %y \"\"\n",
                      "input user %x : f32[2, 3] \"x\"\n"
                      "%y = amax(%x, dims=[1], keepdim=false) : f32[2]\n"
                      "%i = argmax(%x, dims=[1], keepdim=false) : i64[2]\noutput user %y \"\"\n");
    EXPECT_REFUSES(
        "input user %x : f32[2, 3] \"x\"\n"
        "%y, %i = aten.max.dim(%x, 1) : f32[2], i64[7]\noutput user %y \"\"\noutput user %i \"\"\n",
        HN_UNSUPPORTED, "result 1 is i64[2] but the program records i64[7]");
}

TEST(bad_arguments_name_themselves) {
    EXPECT_REFUSES("input user %x : f32[2, 3] \"x\"\n"
                   "%y = aten.sum.dim_IntList(%x, [2]) : f32[2]\noutput user %y \"\"\n",
                   HN_INVALID_ARGUMENT, "dimension 2 in 'dim' is out of range for rank 2");
    EXPECT_REFUSES("symbol data u0 in [0, inf]\ninput user %x : f32[2, 3] \"x\"\n"
                   "%y = aten.linspace.default(0, 1, u0) : f32[u0]\noutput user %y \"\"\n",
                   HN_UNSUPPORTED, "argument 'steps' must be a constant");
}

/* --- outputs --- */

TEST(an_output_has_the_recorded_strides) {
    EXPECT_DECOMPOSES(
        "input user %x : f32[2, 3] \"x\"\n"
        "%y = aten.t.default(%x) : f32[3, 2] strides [1, 3]\noutput user %y \"\"\n",
        "input user %x : f32[2, 3] \"x\"\n"
        "%y = permute(%x, dims=[1, 0]) : f32[3, 2] strides [1, 3]\noutput user %y \"\"\n");
}

TEST(an_input_that_is_returned_needs_nothing) {
    EXPECT_DECOMPOSES(
        "input user %x : f32[2, 3] strides [1, 2] \"x\"\n"
        "%y = aten.detach.default(%x) : f32[2, 3] strides [1, 2]\noutput user %y \"\"\n",
        "input user %x : f32[2, 3] strides [1, 2] \"x\"\n"
        "output user %x \"\"\n");
}

TEST(an_input_in_another_layout_is_copied) {
    EXPECT_DECOMPOSES("input user %x : f32[2, 3] strides [1, 2] \"x\"\n"
                      "%y = aten.contiguous.default(%x) : f32[2, 3]\noutput user %y \"\"\n",
                      "input user %x : f32[2, 3] strides [1, 2] \"x\"\n"
                      "%1 = cast(%x, dtype=f32) : f32[2, 3]\noutput user %1 \"\"\n");
}

TEST(one_value_in_two_layouts_is_copied) {
    EXPECT_DECOMPOSES(
        "input user %x : f32[2, 3] \"x\"\n"
        "%a = aten.exp.default(%x) : f32[2, 3]\n"
        "%b = aten.clone.default(%a, memory_format=\"channels_last\") : f32[2, 3] strides [1, 2]\n"
        "output user %a \"\"\noutput user %b \"\"\noutput user %b \"\"\n",
        "input user %x : f32[2, 3] \"x\"\n"
        "%a = exp(%x) : f32[2, 3]\n"
        "%2 = cast(%a, dtype=f32) : f32[2, 3] strides [1, 2]\n"
        "%3 = cast(%a, dtype=f32) : f32[2, 3] strides [1, 2]\n"
        "output user %a \"\"\noutput user %2 \"\"\noutput user %3 \"\"\n");
}

TEST(strides_of_size_1_dims_mean_nothing) {
    EXPECT_DECOMPOSES("input user %x : f32[2, 1] strides [1, 7] \"x\"\n"
                      "%y = aten.contiguous.default(%x) : f32[2, 1]\noutput user %y \"\"\n",
                      "input user %x : f32[2, 1] strides [1, 7] \"x\"\noutput user %x \"\"\n");
}

TEST(a_size_that_is_returned_is_a_scalar) {
    EXPECT_DECOMPOSES(
        "symbol size s0 in [2, 64]\ninput user %x : f32[s0] \"x\"\n"
        "%n = aten.sym_size.int(%x, 0) : symint(s0)\noutput user %n \"n\"\n",
        "symbol size s0 in [2, 64]\ninput user %x : f32[s0] \"x\"\noutput scalar \"n\" = s0\n");
}

/* --- control and data --- */

TEST(subgraphs_are_rewritten) {
    EXPECT_DECOMPOSES("input user %p : bool[] \"p\"\ninput user %x : f32[2] \"x\"\n"
                      "%y = cond(%p, graph { input user %a : f32[2] \"\"\n"
                      "%b = aten.neg.default(%a) : f32[2]\noutput user %b \"\" },"
                      "graph { input user %c : f32[2] \"\"\n"
                      "%d = aten.exp.default(%c) : f32[2]\noutput user %d \"\" }, [%x]) : f32[2]\n"
                      "output user %y \"\"\n",
                      "input user %p : bool[] \"p\"\ninput user %x : f32[2] \"x\"\n"
                      "%y = cond(%p, then=graph {\n"
                      "  input user %a : f32[2] \"\"\n"
                      "  %b = neg(%a) : f32[2]\n"
                      "  output user %b \"\"\n"
                      "}, otherwise=graph {\n"
                      "  input user %c : f32[2] \"\"\n"
                      "  %d = exp(%c) : f32[2]\n"
                      "  output user %d \"\"\n"
                      "}, [%x]) : f32[2]\n"
                      "output user %y \"\"\n");
}

TEST(numbers_read_from_tensors) {
    EXPECT_DECOMPOSES(
        "symbol data u0 in [0, 9]\ninput user %x : i64[1] \"x\"\ninput user %w : f32[4] \"w\"\n"
        "%n = aten.item.default(%x) : symint(u0)\n"
        "%f = aten.full.default([u0], %n, dtype=f32) : f32[u0]\n"
        "output user %f \"\"\n",
        "symbol data u0 in [0, 9]\ninput user %x : i64[1] \"x\"\ninput user %w : f32[4] \"w\"\n"
        "%n = item(%x) : symint(u0)\n"
        "%3 = reshape(%x, sizes=[]) : i64[]\n"
        "%4 = cast(%3, dtype=f32) : f32[]\n"
        "%5 = reshape(%4, sizes=[1]) : f32[1]\n"
        "%f = expand(%5, sizes=[u0]) : f32[u0]\n"
        "output user %f \"\"\n");
    EXPECT_DECOMPOSES("input user %x : f64[1] \"x\"\ninput user %w : bf16[4] \"w\"\n"
                      "%n = aten.item.default(%x) : symfloat\n"
                      "%y = aten.mul.Tensor(%w, %n) : bf16[4]\noutput user %y \"\"\n",
                      "input user %x : f64[1] \"x\"\ninput user %w : bf16[4] \"w\"\n"
                      "%n = item(%x) : symfloat\n"
                      "%3 = cast(%w, dtype=f32) : f32[4]\n"
                      "%4 = reshape(%x, sizes=[]) : f64[]\n"
                      "%5 = cast(%4, dtype=f32) : f32[]\n"
                      "%6 = mul(%3, %5) : f32[4]\n"
                      "%y = cast(%6, dtype=bf16) : bf16[4]\noutput user %y \"\"\n");
}

TEST(data_dependent_sizes) {
    EXPECT_DECOMPOSES(
        "symbol data u0 in [0, 6]\ninput user %x : f32[2, 3] \"x\"\ninput user %m : bool[3] \"m\"\n"
        "%y = aten.masked_select.default(%x, %m) : f32[u0]\noutput user %y \"\"\n",
        "symbol data u0 in [0, 6]\ninput user %x : f32[2, 3] \"x\"\ninput user %m : bool[3] \"m\"\n"
        "%2 = reshape(%m, sizes=[1, 3]) : bool[1, 3]\n"
        "%3 = expand(%2, sizes=[2, 3]) : bool[2, 3]\n"
        "%4 = nonzero(%3) : i64[u0, 2]\n"
        "%5 = slice(%4, dim=1, start=0, size=1, step=1) : i64[u0, 1]\n"
        "%6 = reshape(%5, sizes=[u0]) : i64[u0]\n"
        "%7 = slice(%4, dim=1, start=1, size=1, step=1) : i64[u0, 1]\n"
        "%8 = reshape(%7, sizes=[u0]) : i64[u0]\n"
        "%y = index(%x, [%6, %8], wrap=false) : f32[u0]\noutput user %y \"\"\n");
}

TEST(assertions_become_nodes) {
    EXPECT_DECOMPOSES("input user %x : i64[] \"x\"\n"
                      "aten._assert_async.msg(%x, \"x is 0\")\n"
                      "aten._assert_tensor_metadata.default(%x, dtype=i64)\noutput user %x \"\"\n",
                      "input user %x : i64[] \"x\"\n"
                      "%1 = cast(%x, dtype=bool) : bool[]\n"
                      "assert(%1, message=\"x is 0\")\noutput user %x \"\"\n");
}

TEST_MAIN
