/* test_job.c: the record of a job, which is its key, and the messages between a pool and its
 * workers. */
#include "service/job.h"

#include "cache/record.h"
#include "unit/harness.h"

#include <stdlib.h>

static const char *const env_names[] = {"HENRY_TEST_SEEN", NULL};

/* The digest of the record of `source`, for a toolchain that reads one variable of the host. */
static hn_digest key_of(const hn_source *source) {
    static const hn_toolchain_row row = {.language = "c", .env_names = env_names};
    hn_toolchain toolchain = {.row = &row};
    hn_strbuf record;
    hn_strbuf_init(&record);
    EXPECT_OK(hn_job_key_record(source, &toolchain, &record));
    hn_digest key = hn_digest_of(record.ptr, record.len);
    hn_strbuf_deinit(&record);
    return key;
}

static bool same(hn_digest a, hn_digest b) { return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0; }

static hn_source source_with(const char *const *env, size_t count) {
    return (hn_source){.name = "k",
                       .language = "c",
                       .text = "int x;",
                       .text_len = 6,
                       .env = env,
                       .env_count = count};
}

TEST(the_order_of_variables_means_nothing) {
    static const char *const one[] = {"SOURCE_DATE_EPOCH=1", "LD_RUN_PATH=/x"},
                             *const other[] = {"LD_RUN_PATH=/x", "SOURCE_DATE_EPOCH=1"},
                             *const third[] = {"LD_RUN_PATH=/x", "SOURCE_DATE_EPOCH=2"};
    hn_source a = source_with(one, 2), b = source_with(other, 2), c = source_with(third, 2);
    EXPECT(same(key_of(&a), key_of(&b)));
    EXPECT(!same(key_of(&a), key_of(&c)));
}

static hn_source source_for(const char *const *target, size_t count) {
    return (hn_source){.name = "k",
                       .language = "c",
                       .text = "int x;",
                       .text_len = 6,
                       .target = target,
                       .target_count = count};
}

static hn_digest key_for(const char *const *target, size_t count, bool is_for_cpu) {
    static const hn_toolchain_row rows[2] = {
        {.language = "cuda", .env_names = env_names},
        {.language = "c", .env_names = env_names, .is_for_cpu = true}};
    const hn_toolchain toolchain = {.row = &rows[is_for_cpu]};
    const hn_source source = source_for(target, count);
    hn_strbuf record;
    hn_strbuf_init(&record);
    EXPECT_OK(hn_job_key_record(&source, &toolchain, &record));
    hn_digest key = hn_digest_of(record.ptr, record.len);
    hn_strbuf_deinit(&record);
    return key;
}

#define KEY(is_for_cpu, ...)                                                                       \
    key_for((const char *const[]){__VA_ARGS__},                                                    \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), is_for_cpu)

TEST(the_order_of_targets_means_nothing) {
    EXPECT(same(KEY(true, "avx2", "fma"), KEY(true, "fma", "avx2")));
    EXPECT(same(KEY(true, "avx2", "fma"), KEY(true, "fma", "avx2", "fma")));
    EXPECT(same(KEY(true, "avx2", "no-fma"), KEY(true, "no-fma", "avx2")));
    EXPECT(!same(KEY(true, "avx2"), KEY(true, "avx2", "fma")));
    EXPECT(
        same(KEY(false, "sm_90", "compute_90", "host"), KEY(false, "host", "sm_90", "compute_90")));
    EXPECT(same(KEY(false, "cuda:sm_90a"), KEY(false, "sm_90a")));
}

TEST(levels_of_processors_are_their_features) {
    EXPECT(same(KEY(true, "x86-64-v3"), KEY(true, "fma", "bmi2", "avx2", "f16c")));
    EXPECT(same(KEY(true, "cpu:x86-64-v3"), KEY(true, "x86-64-v3", "avx2")));
    EXPECT(same(KEY(true, "avx512"), KEY(true, "x86-64-v4")));
    EXPECT(same(KEY(true, "generic"), KEY(true, "x86-64")));
    /* a feature of that name is the feature */
    EXPECT(!same(KEY(true, "avx2"), KEY(true, "x86-64-v3")));
    /* no job means one machine */
    EXPECT(!same(KEY(true, "host"), KEY(true, "x86-64-v3")) &&
           !same(KEY(true, "host"), KEY(true, "x86-64-v4")));
}

TEST(a_variable_of_the_host_is_part_of_the_key) {
    hn_source source = source_with(NULL, 0);
    hn_digest keys[3];
    static const char *const host[3] = {NULL, "", "theirs"};
    for (int k = 0; k < 3; k++) {
        if (host[k]) setenv("HENRY_TEST_SEEN", host[k], 1);
        else unsetenv("HENRY_TEST_SEEN");
        keys[k] = key_of(&source);
    }
    unsetenv("HENRY_TEST_SEEN");
    EXPECT(!same(keys[0], keys[1]) && !same(keys[0], keys[2]) && !same(keys[1], keys[2]));
}

TEST(the_name_is_no_part_of_the_key) {
    hn_source a = source_with(NULL, 0), b = a;
    b.name = "another";
    EXPECT(same(key_of(&a), key_of(&b)));
    b.text = "int y;";
    EXPECT(!same(key_of(&a), key_of(&b)));
}

/* A worker of another installation may know another compiler command: it must not make what is then
 * kept under our key. */
TEST(a_job_of_another_version_is_refused) {
    hn_strbuf key, request;
    hn_job_outcome outcome;
    hn_strbuf_init(&key);
    hn_strbuf_init(&request);
    hn_job_outcome_init(&outcome);
    hn_record_add_i64(&key, "job_revision", HN_JOB_REVISION + 1);
    hn_record_add(&key, "language", HN_STR("c"));
    hn_job_request_write(hn_strbuf_str(&key), HN_STR(""), &(hn_job_limits){.processes = 0},
                         &request);
    hn_job_request_run(hn_strbuf_str(&request), NULL, &outcome);
    EXPECT_INT(outcome.code, HN_TOOLCHAIN);
    EXPECT(strstr(hn_strbuf_str(&outcome.message).ptr, "another version of Henry") != NULL);
    EXPECT(!outcome.is_deterministic);
    hn_job_outcome_deinit(&outcome);
    hn_strbuf_deinit(&request);
    hn_strbuf_deinit(&key);
}

/* Frames come in pieces; one that announces more than a frame may have is nonsense, not something
 * to wait for. */
TEST(frames) {
    hn_strbuf out;
    hn_frame_header header;
    hn_str payload;
    size_t used;
    bool whole;
    hn_strbuf_init(&out);
    hn_frame_write(&out, HN_FRAME_JOB, 7, HN_STR("hello"));
    for (size_t len = 0; len < out.len; len++) {
        EXPECT_OK(hn_frame_read((hn_str){out.ptr, len}, &whole, &header, &payload, &used));
        EXPECT(!whole);
    }
    EXPECT_OK(hn_frame_read(hn_strbuf_str(&out), &whole, &header, &payload, &used));
    EXPECT(whole && header.kind == HN_FRAME_JOB && header.job == 7 &&
           hn_str_eq(payload, HN_STR("hello")) && used == out.len);
    memcpy(&header, out.ptr, sizeof header);
    header.len = HN_FRAME_LIMIT_BYTES + 1;
    memcpy(out.ptr, &header, sizeof header);
    EXPECT_ERROR(hn_frame_read(hn_strbuf_str(&out), &whole, &header, &payload, &used), HN_CORRUPT,
                 "no message");
    memcpy(&header, out.ptr, sizeof header);
    header.len = 5, header.magic ^= 1;
    memcpy(out.ptr, &header, sizeof header);
    EXPECT_ERROR(hn_frame_read(hn_strbuf_str(&out), &whole, &header, &payload, &used), HN_CORRUPT,
                 "no message");
    hn_strbuf_deinit(&out);
}

TEST_MAIN
