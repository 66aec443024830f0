/* What a module tells before a run: names, symbols, guards, sizes of outputs. */
#include "unit/runtime/module_fixture.h"

#define SYMBOLS                                                                                                                   \
    "symbol size s0 in [1, 64] hint 4 symbol size s1 in [0, none] guard s0 != 13 \"unlucky\" guard s0 <= 4*s1 \"\" "              \
    "buffer b1 : input f32[s0] source 0 buffer b2 : input f32[2*s1 + 3] source 1 buffer b3 : output f32[s0] bytes(4*s0) " KERNELS \
    "input \"x\" : f32[s0] strides [1] in b1 input \"mask\" : f32[2*s1 + 3] strides [1] in b2 "                                   \
    "call k4(b1 f32, out b3 f32) extent(s0) "                                                                                     \
    "output tensor \"z\" : f32[s0] strides [1] in b3 output scalar \"count\" : int(s1) "

TEST(inputs_and_outputs_by_name) {
    hn_module *m = load_text(SYMBOLS, NULL);
    uint32_t index = 99;
    EXPECT_OK(hn_module_input_find(m, "mask", &index));
    EXPECT_INT(index, 1);
    EXPECT_OK(hn_module_output_find(m, "count", &index));
    EXPECT_INT(index, 1);
    EXPECT_ERROR(hn_module_input_find(m, "maks", &index), HN_NOT_FOUND,
                 "the model has no input 'maks'; did you mean 'mask'?");
    EXPECT_ERROR(hn_module_input_find(m, "", &index), HN_NOT_FOUND, "no input ''");
    EXPECT_ERROR(hn_module_output_find(m, "logits", &index), HN_NOT_FOUND,
                 "the model has no output 'logits'; there are: 'z', 'count'");
    EXPECT_ERROR(hn_module_input_find(NULL, "x", &index), HN_INVALID_ARGUMENT,
                 "hn_module_input_find: 'module' is NULL");
    EXPECT_ERROR(hn_module_input_find(m, NULL, &index), HN_INVALID_ARGUMENT, "'name' is NULL");
    EXPECT_ERROR(hn_module_output_find(m, "z", NULL), HN_INVALID_ARGUMENT, "'out_index' is NULL");
    hn_module_release(m);
}

TEST(names_that_several_have) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2] source 0 input \"x\" : f32[2] strides [1] in b1 "
        "output tensor \"z\" : f32[2] strides [1] in b1 output tensor \"y\" : f32[2] strides [1] in b1 "
        "output tensor \"z\" : f32[2] strides [1] in b1",
        NULL);
    uint32_t index = 0;
    EXPECT_ERROR(hn_module_output_find(m, "z", &index), HN_INVALID_ARGUMENT,
                 "the outputs 0 and 2 are both called 'z'; take them by index");
    EXPECT_OK(hn_module_output_find(m, "y", &index));
    EXPECT_INT(index, 1);
    hn_module_release(m);
}

TEST(symbols_and_guards) {
    hn_module *m = load_text(SYMBOLS, NULL);
    hn_module_symbol_info symbol;
    hn_module_guard_info guard;
    hn_module_value_info value;
    EXPECT_INT(hn_module_symbol_count(m), 2);
    EXPECT_OK(hn_module_symbol_info_get(m, 0, &symbol));
    EXPECT_STR(symbol.name, "s0");
    EXPECT_STR(symbol.text, "s0");
    EXPECT(symbol.min == 1 && symbol.max == 64 && symbol.has_hint && symbol.hint == 4 &&
           !symbol.is_data);
    EXPECT(symbol.input == 0 && symbol.dim == 0);
    EXPECT_OK(hn_module_symbol_info_get(m, 1, &symbol));
    EXPECT_STR(symbol.text, "2*s1 + 3");
    EXPECT(symbol.min == 0 && symbol.max == INT64_MAX && !symbol.has_hint && symbol.input == 1);
    EXPECT_ERROR(hn_module_symbol_info_get(m, 2, &symbol), HN_INVALID_ARGUMENT,
                 "there is no symbol 2; the module has 2");
    EXPECT_INT(hn_module_guard_count(m), 2);
    EXPECT_OK(hn_module_guard_info_get(m, 0, &guard));
    EXPECT_STR(guard.text, "s0 != 13");
    EXPECT_STR(guard.reason, "unlucky");
    EXPECT(!guard.is_data);
    EXPECT_OK(hn_module_guard_info_get(m, 1, &guard));
    EXPECT_STR(guard.text, "s0 <= 4*s1");
    EXPECT_STR(guard.reason, "");
    EXPECT_ERROR(hn_module_guard_info_get(m, 2, &guard), HN_INVALID_ARGUMENT,
                 "there is no guard 2");
    EXPECT_OK(hn_module_input_info(m, 0, &value));
    EXPECT_INT(value.sizes[0].hint, 4);
    EXPECT(!value.is_changed);
    EXPECT_OK(hn_module_input_info(m, 1, &value));
    EXPECT_INT(value.sizes[0].hint, -1); /* s1 has none */
    EXPECT_INT(value.strides[0].hint, 1);
    hn_module_release(m);
}

static hn_input_sizes sizes1(const int64_t *size) {
    return (hn_input_sizes){.rank = 1, .sizes = size};
}

TEST(sizes_of_outputs) {
    hn_module *m = load_text(SYMBOLS, NULL);
    int64_t x = 5, mask = 7;
    hn_input_sizes in[2] = {sizes1(&x), sizes1(&mask)};
    hn_output_sizes out[2];
    EXPECT_OK(hn_module_output_sizes(m, in, 2, out, 2));
    EXPECT(out[0].rank == 1 && out[0].sizes[0] == 5 && out[1].rank == 0);
    x = 13;
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "break the constraint s0 != 13: s0 is 13 (unlucky)");
    x = 65;
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "input 'x' dimension 0 is 65, must be at most 64");
    x = -1;
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "input 'x' dimension 0 is -1, must not be negative");
    x = 5, mask = 8;
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "input 'mask' dimension 0 is 8, must be 2*s1 + 3");
    in[1].rank = 2;
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "input 'mask' has 2 dimensions, must have 1");
    in[1] = sizes1(NULL);
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "the sizes of input 'mask' are NULL");
    EXPECT_ERROR(hn_module_output_sizes(m, in, 1, out, 2), HN_INVALID_ARGUMENT,
                 "takes 2 inputs, got 1");
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 1), HN_INVALID_ARGUMENT,
                 "gives 2 outputs, there is room for 1");
    EXPECT_ERROR(hn_module_output_sizes(m, NULL, 2, out, 2), HN_INVALID_ARGUMENT,
                 "'inputs' is NULL");
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, NULL, 2), HN_INVALID_ARGUMENT,
                 "'outputs' is NULL");
    EXPECT_ERROR(hn_module_output_sizes(NULL, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "'module' is NULL");
    hn_module_stats stats;
    hn_module_stats_get(m, &stats);
    EXPECT(stats.runs == 0 && stats.shapes_bound == 0);
    hn_module_release(m);
}

TEST(sizes_from_whole_numbers) {
    hn_module *m =
        load_text("symbol size s0 in [1, 9] hint 2 buffer b1 : output f32[s0] bytes(4*s0) " KERNELS
                  "input \"k\" : int(s0) input \"n\" : int(3) call k6(out b1 f32) extent(1) "
                  "output tensor \"y\" : f32[s0, 1] strides [1, 1] in b1",
                  NULL);
    hn_input_sizes in[2] = {{.has_value = true, .value = 6}, {0}};
    hn_output_sizes out[1];
    hn_module_symbol_info symbol;
    EXPECT_OK(hn_module_output_sizes(m, in, 2, out, 1));
    EXPECT(out[0].rank == 2 && out[0].sizes[0] == 6 && out[0].sizes[1] == 1);
    in[1] = (hn_input_sizes){.has_value = true, .value = 4};
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 1), HN_INVALID_ARGUMENT,
                 "input 'n' is 4, must be 3");
    in[0].has_value = false;
    EXPECT_ERROR(hn_module_output_sizes(m, in, 2, out, 1), HN_INVALID_ARGUMENT,
                 "input 'k' is a whole number that sizes depend on");
    EXPECT_OK(hn_module_symbol_info_get(m, 0, &symbol));
    EXPECT(symbol.input == 0 && symbol.dim == HN_DIM_VALUE);
    hn_module_release(m);
}

TEST(sizes_that_only_data_tells) {
    hn_module *m = load_text(
        "symbol size s0 in [0, 4096] hint 8 symbol data u0 in [1, 7] guard u0 <= s0 \"\" "
        "buffer b1 : input bool[s0] source 0 buffer b2 : temp i64[1] bytes(8) buffer b3 : output f32[u0] bytes(4*u0) " KERNELS
        "input \"m\" : bool[s0] strides [1] in b1 call k7(b1 bool, out b2 i64) params [s0] extent(1) "
        "define(b2 i64) symbol(u0) call k6(out b3 f32) extent(u0) "
        "output tensor \"y\" : f32[u0] strides [1] in b3 output tensor \"m\" : bool[s0] strides [1] in b1",
        NULL);
    int64_t n = 6;
    hn_input_sizes in[1] = {sizes1(&n)};
    hn_output_sizes out[2];
    hn_module_symbol_info symbol;
    hn_module_guard_info guard;
    EXPECT_OK(hn_module_output_sizes(m, in, 1, out, 2));
    EXPECT(out[0].sizes[0] == -1 && out[1].sizes[0] == 6);
    EXPECT_OK(hn_module_symbol_info_get(m, 1, &symbol));
    EXPECT(symbol.is_data && symbol.min == 1 && symbol.max == 7 && !symbol.has_hint);
    EXPECT_OK(hn_module_guard_info_get(m, 0, &guard));
    EXPECT(guard.is_data);
    hn_module_release(m);
}

TEST(inputs_that_a_run_changes) {
    hn_module *m = load_text(
        "buffer b1 : input f32[2] source 0 buffer b2 : input f32[2] source 1 input \"x\" : f32[2] strides [1] in b1 "
        "input \"y\" : f32[2] strides [1] in b2 output mutation \"y\" target 1 : f32[2] strides [1] in b1",
        NULL);
    hn_module_value_info info;
    EXPECT_OK(hn_module_input_info(m, 0, &info));
    EXPECT(!info.is_changed);
    EXPECT_OK(hn_module_input_info(m, 1, &info));
    EXPECT(info.is_changed);
    hn_module_release(m);
}

TEST_MAIN
