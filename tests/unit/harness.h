/* harness.h: the unit test harness. A test program defines tests with TEST and ends with TEST_MAIN.
 * It runs all of them, or those whose name contains argv[1], and closes with "N passed, N
 * failed", and ", N skipped" if some lacked something. */
#ifndef HN_TESTS_HARNESS_H
#define HN_TESTS_HARNESS_H

#include "henry/status.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct hn_test {
    const char *name;
    void (*run)(void);
    struct hn_test *next;
} hn_test;

static hn_test *hn_test_first, **hn_test_last = &hn_test_first;
static int hn_test_failures;
static bool hn_test_is_skipped; /* the test that runs now, or a part of it */

#define TEST(name)                                                                                 \
    static void name(void);                                                                        \
    static hn_test name##_entry = {#name, name, NULL};                                             \
    __attribute__((constructor)) static void name##_register(void) {                               \
        *hn_test_last = &name##_entry;                                                             \
        hn_test_last = &name##_entry.next;                                                         \
    }                                                                                              \
    static void name(void)

#define HN_TEST_FAIL(...)                                                                          \
    do {                                                                                           \
        hn_test_failures++;                                                                        \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
    } while (0)

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) HN_TEST_FAIL("expected: %s", #cond);                                          \
    } while (0)
#define EXPECT_INT(actual, expected)                                                               \
    do {                                                                                           \
        long long a_ = (long long)(actual), e_ = (long long)(expected);                            \
        if (a_ != e_) HN_TEST_FAIL("%s is %lld, expected %lld", #actual, a_, e_);                  \
    } while (0)
#define EXPECT_STR(actual, expected)                                                               \
    do {                                                                                           \
        const char *a_ = (actual), *e_ = (expected);                                               \
        if (!a_ || strcmp(a_, e_) != 0)                                                            \
            HN_TEST_FAIL("%s is\n\"%s\", expected\n\"%s\"", #actual, a_ ? a_ : "(null)", e_);      \
    } while (0)
#define EXPECT_NEAR(actual, expected, tolerance)                                                   \
    do {                                                                                           \
        double a_ = (actual), e_ = (expected);                                                     \
        if (!(fabs(a_ - e_) <= (tolerance)))                                                       \
            HN_TEST_FAIL("%s is %.17g, expected %.17g", #actual, a_, e_);                          \
    } while (0)
#define EXPECT_OK(expr)                                                                            \
    do {                                                                                           \
        hn_status s_ = (expr);                                                                     \
        if (s_) HN_TEST_FAIL("%s: %s", #expr, hn_status_message(s_));                              \
        hn_status_free(s_);                                                                        \
    } while (0)
/* The call must fail with this code, and its message must contain `text`. */
#define EXPECT_ERROR(expr, want_code, text)                                                        \
    do {                                                                                           \
        hn_status s_ = (expr);                                                                     \
        if (hn_status_code(s_) != (want_code) || !strstr(hn_status_message(s_), (text)))           \
            HN_TEST_FAIL("%s: got %s: \"%s\", expected %s with \"%s\"", #expr,                     \
                         hn_code_name(hn_status_code(s_)), hn_status_message(s_),                  \
                         hn_code_name(want_code), (text));                                         \
        hn_status_free(s_);                                                                        \
    } while (0)

/* The test, or a part of it, cannot run on this machine: it counts as skipped. */
__attribute__((unused)) static void hn_test_skip(const char *why) {
    fprintf(stderr, "skipped: %s\n", why);
    hn_test_is_skipped = true;
}

/* Likewise of what tests/run.sh installs where it can: with CI=true that is a failure. */
__attribute__((unused)) static void hn_test_lack(const char *what) {
    const char *ci = getenv("CI");
    if (ci && !strcmp(ci, "true")) HN_TEST_FAIL("missing, though CI=true: %s", what);
    else hn_test_skip(what);
}

/* ... of what `why`, if it is an error, says. Owns: it is freed. */
__attribute__((unused)) static bool hn_test_lacks(hn_status why) {
    const bool lacks = why != NULL;
    if (lacks) hn_test_lack(hn_status_message(why));
    hn_status_free(why);
    return lacks;
}

static int hn_test_main(int argc, char **argv) {
    int passed = 0, failed = 0, skipped = 0;
    for (hn_test *t = hn_test_first; t; t = t->next) {
        if (argc > 1 && !strstr(t->name, argv[1])) continue;
        int before = hn_test_failures;
        hn_test_is_skipped = false;
        t->run();
        if (hn_test_failures == before) ++*(hn_test_is_skipped ? &skipped : &passed);
        else failed++, fprintf(stderr, "FAILED %s (re-run: %s %s)\n", t->name, argv[0], t->name);
    }
    printf("%d passed, %d failed", passed, failed);
    if (skipped) printf(", %d skipped", skipped);
    putchar('\n');
    return failed != 0;
}
#define TEST_MAIN                                                                                  \
    int main(int argc, char **argv) { return hn_test_main(argc, argv); }

#endif
