/* Suggestions for mistyped names. */
#include "base/near.h"
#include "unit/harness.h"

static const char *name_at(const void *user, uint32_t k) { return ((const char *const *)user)[k]; }

static void expect(const char *wanted, const char *const *names, uint32_t count, const char *text) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_near_print(&out, wanted, count, name_at, names);
    EXPECT_STR(out.ptr, text);
    hn_strbuf_deinit(&out);
}

TEST(near_names_first) {
    static const char *const names[] = {"input_ids", "attention_mask", "token_type_ids", NULL, ""};
    expect("input_id", names, 5, "did you mean 'input_ids'?");
    expect("imput_ids", names, 5, "did you mean 'input_ids'?");
    /* two letters changed places: one step */
    expect("attention_maks", names, 5, "did you mean 'attention_mask'?");
    expect("hidden", names, 5, "there are: 'input_ids', 'attention_mask', 'token_type_ids'");
    expect("x", names, 0, "there are none");
    expect("", names + 3, 2, "there are none");
}

TEST(the_nearest_three) {
    static const char *const names[] = {"fc3.weight", "fc1.bias", "fc1.weight", "fc2.weight",
                                        "fc12.weight"};
    expect("fc1.weigth", names, 5, "did you mean 'fc1.weight', 'fc3.weight' or 'fc2.weight'?");
}

TEST(long_lists_are_cut) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    expect("something", names, 10, "there are: 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', ...");
    expect("something", names, 8, "there are: 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'");
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    expect(longest, names, 1, "there are: 'a'");
}

TEST_MAIN
