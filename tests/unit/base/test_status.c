/* test_status.c: error objects: codes, messages, annotations, lack of memory. */
#include "unit/harness.h"

#include "base/oserror.h"

#include <errno.h>
#include <stdlib.h>

static hn_status fail_with(hn_code code) { return HN_ERROR(code, "bad crc in '%s'", "x"); }

static hn_status tries(hn_status inner, int *reached) {
    HN_TRY(inner);
    *reached = 1;
    return NULL;
}

TEST(null_is_ok) {
    int line = 7;
    EXPECT_INT(hn_status_code(NULL), HN_OK);
    EXPECT_STR(hn_status_message(NULL), "");
    EXPECT_STR(hn_status_where(NULL, &line), "");
    EXPECT_INT(line, 0);
    EXPECT(hn_status_annotate(NULL, "context") == NULL);
    hn_status_free(NULL);
}

TEST(an_error_carries_code_message_and_place) {
    int line = 0, here = __LINE__ + 1;
    hn_status status = HN_ERROR(HN_CORRUPT, "record '%s' has %d bytes", "w", 3);
    EXPECT_INT(hn_status_code(status), HN_CORRUPT);
    EXPECT_STR(hn_status_message(status), "record 'w' has 3 bytes");
    EXPECT(strstr(hn_status_where(status, &line), "test_status.c") != NULL);
    EXPECT_INT(line, here);
    EXPECT_STR(hn_status_where(status, NULL), __FILE__);
    hn_status_free(status);
}

TEST(the_file_name_is_copied) {
    char file[] = "worker.c";
    hn_status status = hn_status_make(HN_IO, file, 5, "x");
    file[0] = 'W';
    EXPECT_STR(hn_status_where(status, NULL), "worker.c");
    hn_status_free(status);
}

TEST(annotations_come_newest_first) {
    hn_status status = fail_with(HN_CORRUPT);
    status = hn_status_annotate(status, "record %d", 4);
    status = hn_status_annotate(status, "cannot load '%s'", "m.pt2");
    EXPECT_STR(hn_status_message(status), "cannot load 'm.pt2': record 4: bad crc in 'x'");
    EXPECT_INT(hn_status_code(status), HN_CORRUPT);
    EXPECT(strstr(hn_status_where(status, NULL), "test_status.c") != NULL);
    hn_status_free(status);
}

TEST(an_annotation_may_quote_the_message_itself) {
    hn_status status = HN_ERROR(HN_IO, "100%% full");
    status = hn_status_annotate(status, "<%s>", hn_status_message(status));
    EXPECT_STR(hn_status_message(status), "<100% full>: 100% full");
    hn_status_free(status);
}

TEST(long_messages_are_kept_whole) {
    enum { BYTES = 100000 };
    char *text = malloc(BYTES + 1);
    memset(text, 'a', BYTES);
    text[BYTES] = '\0';
    hn_status status = hn_status_annotate(HN_ERROR(HN_TOOLCHAIN, "%s", text), "cc");
    EXPECT_INT(strlen(hn_status_message(status)), BYTES + 4);
    hn_status_free(status);
    free(text);
}

TEST(an_error_never_reads_as_ok) {
    const int codes[] = {HN_OK, -1, HN_CODE_COUNT, 1000};
    for (size_t i = 0; i < 4; i++)
        EXPECT_ERROR(fail_with((hn_code)codes[i]), HN_INTERNAL, "bad crc");
}

TEST(codes_have_distinct_names) {
    for (int i = 0; i < HN_CODE_COUNT; i++) {
        EXPECT(hn_code_name((hn_code)i)[0] != '\0');
        for (int j = 0; j < i; j++)
            EXPECT(strcmp(hn_code_name((hn_code)i), hn_code_name((hn_code)j)) != 0);
    }
    EXPECT_STR(hn_code_name(HN_INVALID_ARGUMENT), "invalid-argument");
    EXPECT_STR(hn_code_name(HN_INTERNAL), "internal");
    EXPECT_STR(hn_code_name((hn_code)99), "unknown");
    EXPECT_STR(hn_code_name((hn_code)-1), "unknown");
}

TEST(try_returns_early) {
    int reached = 0;
    EXPECT_ERROR(tries(fail_with(HN_DEVICE), &reached), HN_DEVICE, "bad crc");
    EXPECT_INT(reached, 0);
    EXPECT_OK(tries(NULL, &reached));
    EXPECT_INT(reached, 1);
}

TEST(errno_becomes_a_status) {
    EXPECT_ERROR(HN_OS_ERROR(ENOENT, "cannot open '%s'", "f"), HN_NOT_FOUND,
                 "cannot open 'f': No such file or directory");
    EXPECT_ERROR(HN_OS_ERROR(ENOTDIR, "cannot open"), HN_NOT_FOUND, "Not a directory");
    EXPECT_ERROR(HN_OS_ERROR(ENOMEM, "cannot map"), HN_OUT_OF_MEMORY, "memory");
    EXPECT_ERROR(HN_OS_ERROR(EACCES, "cannot open"), HN_IO, "Permission denied");
    int line = 0, here = __LINE__ + 1;
    hn_status status = HN_OS_ERROR(EIO, "x");
    EXPECT_STR(hn_status_where(status, &line), __FILE__);
    EXPECT_INT(line, here);
    hn_status_free(status);
}

TEST_MAIN
