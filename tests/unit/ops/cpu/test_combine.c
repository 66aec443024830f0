/* test_combine.c: COMBINE_SORTED on the CPU: values that were computed by hand, and wrong calls. The
 * kernels of a GPU are compared with it by tests/cuda/test_others.c. */
#include "ops/cpu/ext.h"

#include "henry/tensor.h"
#include "unit/harness.h"

#include <math.h>
#include <string.h>

typedef struct combination {
    hn_ext_call call;
    int64_t params[HN_COMBINE_PARAM_COUNT], order[4];
    int32_t places[4];
    float out[6], x[6], values[8];
} combination;

/* Rows 3, 1, 0, 2 of the values, in this order, go to rows 0, 2, 2, 2 of three. */
static void begin(combination *c, hn_combine_mode mode) {
    *c = (combination){.params = {3, 2, 4, mode},
                       .order = {3, 1, 0, 2},
                       .places = {0, 2, 2, 2},
                       .x = {1, 2, 3, 4, 5, 6},
                       .values = {10, 20, 1, 2, 100, 200, 7, 8}};
    c->call = (hn_ext_call){.kind = HN_EXTERN_COMBINE_SORTED,
                            .dtypes = {HN_F32, HN_I32, HN_I64, HN_F32, HN_F32},
                            .params = c->params,
                            .param_count = HN_COMBINE_PARAM_COUNT,
                            .threads = 2,
                            .operands = {c->out, c->places, c->order, c->values, c->x}};
}

static hn_status run(combination *c) {
    HN_TRY(hn_ext_shared_create(&c->call.shared));
    hn_status status = hn_ext_prepare(&c->call);
    if (!status) {
        status = hn_ext_run(&c->call, NULL);
        hn_ext_release(&c->call);
    }
    hn_ext_shared_destroy(c->call.shared);
    return status;
}

static void check(hn_combine_mode mode, bool has_x, const float *expected) {
    combination c;
    begin(&c, mode);
    if (!has_x) c.call.dtypes[4] = HN_NO_TYPE;
    EXPECT_OK(run(&c));
    EXPECT(memcmp(c.out, expected, sizeof c.out) == 0);
}

TEST(values) {
    check(HN_COMBINE_SET, true, (const float[]){7, 8, 3, 4, 100, 200});
    check(HN_COMBINE_ADD, true, (const float[]){8, 10, 3, 4, 116, 228});
    check(HN_COMBINE_ADD, false, (const float[]){7, 8, 0, 0, 111, 222});
    check(HN_COMBINE_MUL, true, (const float[]){7, 16, 3, 4, 5000, 48000});
    check(HN_COMBINE_MIN, true, (const float[]){1, 2, 3, 4, 1, 2});
    check(HN_COMBINE_MAX, true, (const float[]){7, 8, 3, 4, 100, 200});
}

TEST(nan_stays) {
    combination c;
    begin(&c, HN_COMBINE_MIN);
    c.values[0] = NAN; /* in the middle of those of row 2 */
    EXPECT_OK(run(&c));
    EXPECT(isnan(c.out[4]));
    EXPECT(c.out[5] == 2);
}

static void refused(const combination *c, hn_code code, const char *text) {
    combination own = *c;
    own.call.params = own.params;
    own.call.operands[1] = own.places, own.call.operands[2] = own.order;
    EXPECT_ERROR(run(&own), code, text);
}

TEST(wrong_calls) {
    combination c;
    begin(&c, HN_COMBINE_ADD);
    c.places[3] = 3;
    refused(&c, HN_INTERNAL, "place 3 of a sorted scatter is not in [0, 3)");
    c.places[3] = 2, c.order[1] = -1;
    refused(&c, HN_INTERNAL, "position -1 of a sorted scatter is not in [0, 4)");
    c.order[1] = 1, c.call.dtypes[1] = HN_F32;
    refused(&c, HN_INVALID_ARGUMENT, "places are f32 and their order i64");
    c.call.dtypes[1] = HN_I32, c.call.dtypes[3] = HN_F16;
    refused(&c, HN_INVALID_ARGUMENT, "operand 3 is f16, but operand 0 is f32");
    c.call.dtypes[0] = c.call.dtypes[3] = c.call.dtypes[4] = HN_I32;
    refused(&c, HN_INVALID_ARGUMENT, "mode 1 needs floats, operand 0 is i32");
    c.params[HN_COMBINE_MODE] = 5;
    refused(&c, HN_INVALID_ARGUMENT, "parameter 3 is 5");
    c.params[HN_COMBINE_MODE] = 0, c.params[HN_COMBINE_N] = -1;
    refused(&c, HN_INVALID_ARGUMENT, "parameter 2 is -1");
    c.params[HN_COMBINE_N] = 4, c.params[HN_COMBINE_COLUMNS] = INT64_MAX;
    refused(&c, HN_INVALID_ARGUMENT, "operand 0 is too large");
}

TEST_MAIN
