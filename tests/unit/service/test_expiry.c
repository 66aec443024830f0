/* test_expiry.c: the table of a process: absent, compiling, ready, failed until. What failed is
 * asked for again when its time is over, in memory as on the disk. */
#include "henry/kernel.h"
#include "service/core.h"
#include "service/service.h"

#include "base/file.h"
#include "unit/harness.h"

#include <limits.h>
#include <time.h>

static char dir[PATH_MAX - 256];

static hn_service *open_service(const char *cache_dir) {
    hn_service *service = NULL;
    EXPECT_OK(hn_service_create(
        &(hn_service_options){.cache_dir = cache_dir, .remote_url = "", .threads = 1}, &service));
    return service;
}

/* The code of compiling `text`, and whether a compiler was asked. */
static hn_code compile(hn_service *service, const char *text, bool *out_compiled) {
    const hn_source source = {.name = "k", .language = "c", .text = text, .text_len = strlen(text)};
    hn_scope *scope = NULL;
    hn_future *future = NULL;
    hn_artifact *artifact = NULL;
    EXPECT_OK(hn_scope_create(service, &scope));
    EXPECT_OK(hn_compile_submit(scope, &source, &future));
    hn_status status = hn_future_wait(future, -1, &artifact);
    hn_code code = hn_status_code(status);
    *out_compiled = hn_future_hit_level(future) == HN_HIT_NONE;
    hn_status_free(status);
    hn_artifact_release(artifact);
    hn_scope_destroy(scope);
    return code;
}

/* Sets when the only job of the process is forgotten; how many there are. */
static uint32_t set_expiry(hn_service *service, int64_t seconds) {
    hn_core *core;
    uint32_t count = 0;
    EXPECT_OK(hn_core_current(service, &core));
    pthread_mutex_lock(&core->lock);
    for (uint32_t k = 0; k < core->bucket_count; k++) {
        for (hn_job *job = core->buckets[k]; job; job = job->hash_next) {
            count++;
            EXPECT(job->state == HN_JOB_DONE);
            EXPECT(job->expires_s > time(NULL) + HN_FAILURE_LIFETIME_S / 2);
            job->expires_s = time(NULL) + seconds;
        }
    }
    pthread_mutex_unlock(&core->lock);
    return count;
}

TEST(a_failure_is_remembered_until_its_time_is_over) {
    bool compiled;
    hn_service *service = open_service("");
    EXPECT(compile(service, "int f(void) { return oops; }", &compiled) != HN_OK);
    EXPECT(compiled);
    EXPECT(compile(service, "int f(void) { return oops; }", &compiled) != HN_OK);
    EXPECT(!compiled);
    EXPECT_INT(set_expiry(service, 1000), 1);
    EXPECT(compile(service, "int f(void) { return oops; }", &compiled) != HN_OK);
    EXPECT(!compiled);
    hn_service_destroy(service);
    service = open_service("");
    EXPECT(compile(service, "int f(void) { return oops; }", &compiled) != HN_OK);
    EXPECT_INT(set_expiry(service, 0), 1);
    EXPECT(compile(service, "int f(void) { return oops; }", &compiled) != HN_OK);
    EXPECT(compiled);
    hn_service_destroy(service);
}

/* Another process finds the failure on the disk, with the time that is left of it. */
TEST(the_disk_keeps_the_time) {
    bool compiled;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    hn_service *service = open_service(dir);
    EXPECT(compile(service, "int f(void) { return oops; }", &compiled) != HN_OK);
    hn_service_wait_stored(service);
    hn_service_destroy(service);
    service = open_service(dir);
    EXPECT(compile(service, "int f(void) { return oops; }", &compiled) != HN_OK);
    EXPECT(!compiled);
    EXPECT_INT(set_expiry(service, 1000), 1); /* checks that it has about a day */
    hn_service_destroy(service);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(what_was_made_never_expires) {
    bool compiled;
    hn_core *core;
    hn_service *service = open_service("");
    EXPECT_INT(compile(service, "int f(void) { return 1; }", &compiled), HN_OK);
    EXPECT_OK(hn_core_current(service, &core));
    pthread_mutex_lock(&core->lock);
    for (uint32_t k = 0; k < core->bucket_count; k++)
        for (hn_job *job = core->buckets[k]; job; job = job->hash_next)
            EXPECT_INT(job->expires_s, 0);
    pthread_mutex_unlock(&core->lock);
    EXPECT_INT(compile(service, "int f(void) { return 1; }", &compiled), HN_OK);
    EXPECT(!compiled);
    hn_service_destroy(service);
}

TEST_MAIN
