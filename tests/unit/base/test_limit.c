/* test_limit.c: the counter by which a pass does only its first rewrites. */
#include "unit/harness.h"

#include "base/limit.h"

TEST(without_a_limit_everything_is_allowed) {
    EXPECT(hn_limit_is_open(NULL));
    for (uint32_t k = 0; k < 100; k++) EXPECT(hn_limit_allows(NULL, "rule", k, 0));
}

TEST(the_first_rewrites_are_allowed) {
    hn_limit limit = {.most = 2};
    EXPECT(hn_limit_is_open(&limit));
    EXPECT(hn_limit_allows(&limit, "one", 11, 0));
    EXPECT(hn_limit_is_open(&limit));
    EXPECT(hn_limit_allows(&limit, "two", 12, 13));
    EXPECT(!hn_limit_is_open(&limit));
    EXPECT(!hn_limit_allows(&limit, "three", 14, 0));
    EXPECT(!hn_limit_allows(&limit, "four", 15, 0));
    EXPECT_INT(limit.count, 2);
}

/* The one that makes a result wrong is the last that was allowed: what was refused leaves no trace. */
TEST(the_last_allowed_rewrite_is_named) {
    hn_limit limit = {.most = 1};
    EXPECT(hn_limit_allows(&limit, "one", 11, 12));
    EXPECT(!hn_limit_allows(&limit, "two", 13, 14));
    EXPECT_STR(limit.rule, "one");
    EXPECT_INT(limit.origin, 11);
    EXPECT_INT(limit.other, 12);
}

TEST(no_rewrites_at_all) {
    hn_limit none = {.most = 0};
    EXPECT(!hn_limit_is_open(&none));
    EXPECT(!hn_limit_allows(&none, "one", 1, 0));
    EXPECT(none.rule == NULL && none.count == 0);
}

/* With all allowed it counts how many there are, which halving begins with. */
TEST(counting_all) {
    hn_limit all = {.most = UINT32_MAX};
    for (uint32_t k = 0; k < 1000; k++) EXPECT(hn_limit_allows(&all, "rule", k, 0));
    EXPECT_INT(all.count, 1000);
    EXPECT_INT(all.origin, 999);
}

TEST_MAIN
