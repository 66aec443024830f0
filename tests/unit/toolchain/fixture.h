/* fixture.h: a toolchain of one language with an empty store, for tests. */
#ifndef HN_TESTS_TOOLCHAIN_FIXTURE_H
#define HN_TESTS_TOOLCHAIN_FIXTURE_H

#include "base/file.h"
#include "toolchain/toolchain.h"
#include "unit/harness.h"

#include <limits.h>
#include <stdlib.h>

typedef struct language {
    char dir[PATH_MAX - 64];
    hn_store *store;
    hn_toolchain toolchain;
    bool is_there;
} language;

/* Compilers that nobody installs for the tests. */
static bool is_optional(const char *name) {
    return !strcmp(name, "nvcc") || !strcmp(name, "python");
}

/* False, and the test is skipped, when the language's compiler is missing here. */
static bool language_begin(language *l, const char *name) {
    const hn_toolchain_row *row = NULL;
    *l = (language){.store = NULL};
    EXPECT_OK(hn_dir_temp(l->dir, sizeof(l->dir)));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = l->dir}, &l->store));
    EXPECT_OK(hn_toolchain_row_find(hn_str_of(name), &row));
    hn_status status = hn_toolchain_probe(row, l->store, &l->toolchain);
    l->is_there = !status;
    if (status && is_optional(name)) hn_test_skip(hn_status_message(status));
    else if (status) hn_test_lack(hn_status_message(status));
    hn_status_free(status);
    return l->is_there;
}

static void language_end(language *l) {
    if (l->is_there) hn_toolchain_deinit(&l->toolchain);
    hn_store_close(l->store);
    EXPECT_OK(hn_dir_remove(l->dir));
}

#endif
