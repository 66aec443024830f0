/* test_tuning.c: a tuning record is found again by its key. */
#include "base/file.h"
#include "service/service.h"
#include "service_fixture.h"

#include <limits.h>

static const char *const facts[] = {"ways=row, column", "m=17", "device=a"};
static const hn_tuning_key key = {facts, 3};

/* A service of its own for each call: nothing is remembered but on the disk. */
static hn_status get(const char *dir, hn_tuning_key asked, char *out, size_t bytes, size_t *len) {
    hn_service *service = service_open((hn_service_options){.cache_dir = dir});
    hn_status status = hn_service_tuning_get(service, &asked, out, bytes, len);
    hn_service_destroy(service);
    return status;
}

static void put(const char *dir, const char *tuning) {
    hn_service *service = service_open((hn_service_options){.cache_dir = dir});
    EXPECT_OK(hn_service_tuning_put(service, &key, tuning, strlen(tuning) + 1));
    hn_service_destroy(service);
}

TEST(the_same_key_has_the_latest_record) {
    char dir[PATH_MAX], got[32] = "";
    size_t len = 0;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    EXPECT_ERROR(get(dir, key, got, sizeof(got), &len), HN_NOT_FOUND, "nothing was measured");
    put(dir, "row, 17 us");
    EXPECT_OK(get(dir, key, got, sizeof(got), &len));
    EXPECT_STR(got, "row, 17 us");
    put(dir, "column");
    EXPECT_OK(get(dir, key, got, sizeof(got), &len));
    EXPECT_STR(got, "column");
    EXPECT_INT(len, 7);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(another_key_has_none) {
    char dir[PATH_MAX], got[32];
    size_t len;
    static const char *const sizes[] = {"ways=row, column", "m=18", "device=a"},
                             *const order[] = {"m=17", "ways=row, column", "device=a"},
                             *const border[] = {"ways=row, column", "m=17", "device=", "a=a"};
    const hn_tuning_key others[] = {{sizes, 3}, {order, 3}, {border, 4}, {facts, 2}};
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    put(dir, "row");
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        EXPECT_ERROR(get(dir, others[i], got, sizeof(got), &len), HN_NOT_FOUND,
                     "nothing was measured");
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(a_long_record_is_cut_and_its_length_told) {
    char dir[PATH_MAX], got[4] = "xxx";
    size_t len = 0;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    put(dir, "column");
    EXPECT_OK(get(dir, key, got, 2, &len));
    EXPECT_STR(got, "cox");
    EXPECT_INT(len, 7);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(without_a_place_nothing_is_kept_and_nothing_fails) {
    char got[8];
    size_t len;
    put("", "row");
    EXPECT_ERROR(get("", key, got, sizeof(got), &len), HN_NOT_FOUND, "nothing was measured");
}

TEST(what_is_no_key) {
    size_t len;
    char got[8];
    const char *const bad[] = {"m17", "=17"};
    char long_name[80];
    memset(long_name, 'n', sizeof(long_name) - 3),
        memcpy(long_name + sizeof(long_name) - 3, "=1", 3);
    const char *const too_long[] = {long_name};
    EXPECT_ERROR(get("", (hn_tuning_key){bad, 1}, got, sizeof(got), &len), HN_INVALID_ARGUMENT,
                 "fact 'm17'");
    EXPECT_ERROR(get("", (hn_tuning_key){bad + 1, 1}, got, sizeof(got), &len), HN_INVALID_ARGUMENT,
                 "fact '=17'");
    EXPECT_ERROR(get("", (hn_tuning_key){too_long, 1}, got, sizeof(got), &len), HN_INVALID_ARGUMENT,
                 "1 to 63 bytes");
    EXPECT_ERROR(get("", (hn_tuning_key){NULL, 0}, got, sizeof(got), &len), HN_INVALID_ARGUMENT,
                 "needs facts");
}

TEST_MAIN
