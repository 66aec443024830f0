/* test_nearest.c: which name is offered for a mistyped one. */
#include "unit/harness.h"

#include "base/nearest.h"

static const char *const names[] = {"compile", "run",       "cache",    "bench",
                                    "inspect", "--threads", "--repeat", "-o"};

static const char *suggest(const char *word) {
    static char text[HN_NEAREST_TEXT_BYTES];
    hn_nearest nearest;
    hn_nearest_begin(&nearest, hn_str_of(word));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        hn_nearest_offer(&nearest, hn_str_of(names[k]));
    return hn_nearest_text(&nearest, text);
}

TEST(a_typing_error_finds_its_name) {
    EXPECT_STR(suggest("compiel"), "; did you mean 'compile'?");
    EXPECT_STR(suggest("comple"), "; did you mean 'compile'?");
    EXPECT_STR(suggest("urn"), "; did you mean 'run'?");
    EXPECT_STR(suggest("RUN"), "; did you mean 'run'?");
    EXPECT_STR(suggest("--thread"), "; did you mean '--threads'?");
}

TEST(what_is_far_off_finds_none) {
    EXPECT_STR(suggest("frobnicate"), "");
    EXPECT_STR(suggest(""), "");
    EXPECT_STR(suggest("x"), "");
    EXPECT_STR(suggest("a word that is much longer than any name of a command could ever be"), "");
}

TEST_MAIN
