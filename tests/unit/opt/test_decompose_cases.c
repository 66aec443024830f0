/* Every stored operator case through decompose and the reference interpreter. */
#include "ops/cases.h"
#include "unit/harness.h"

TEST(all_operator_cases_match_pytorch) {
    case_totals totals = {0};
    EXPECT_OK(case_run_folder("tests/ops/cases", case_interpret, NULL, &totals));
    EXPECT_INT(totals.failed, 0);
    EXPECT_INT(totals.unsupported, 0);
    EXPECT(totals.passed > 1500);
}

/* The runner itself must be able to fail. */
TEST(a_wrong_value_fails) {
    hn_arena arena;
    hn_arena_init(&arena);
    EXPECT_OK(case_run(
        &arena,
        HN_STR(
            "{\"op\":\"aten.neg.default\",\"in\":[{\"d\":\"f32\",\"v\":[1,NaN]}],\"args\":[{\"t\":0}],"
            "\"out\":[{\"d\":\"f32\",\"v\":[-1,NaN]}]}"),
        case_interpret, NULL, NULL));
    EXPECT_ERROR(
        case_run(
            &arena,
            HN_STR(
                "{\"op\":\"aten.neg.default\",\"in\":[{\"d\":\"f32\",\"v\":[1]}],\"args\":[{\"t\":0}],"
                "\"out\":[{\"d\":\"f32\",\"v\":[-1.001]}]}"),
            case_interpret, NULL, NULL),
        HN_INTERNAL, "-1.001");
    EXPECT_ERROR(
        case_run(
            &arena,
            HN_STR(
                "{\"op\":\"aten.neg.default\",\"in\":[{\"d\":\"f32\",\"v\":[1]}],\"args\":[{\"t\":0}],"
                "\"out\":[{\"d\":\"f64\",\"v\":[-1]}]}"),
            case_interpret, NULL, NULL),
        HN_UNSUPPORTED, "aten.neg.default");
    hn_arena_deinit(&arena);
}

TEST_MAIN
