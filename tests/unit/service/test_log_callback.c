/* test_log_callback.c: a log callback may call the service that speaks, though the line was logged
 * under the service's locks: none of them is held. */
#include "unit/service/service_fixture.h"

#include "henry/log.h"
#include "service/core.h"
#include "service/service.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 120 }; /* a deadlock ends the test */

typedef struct listener {
    hn_service *service;
    atomic_int warnings, locked;
} listener;

/* Other threads hold it for moments; for ever only the calling one. */
static bool comes_free(pthread_mutex_t *lock) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_S / 8;
    if (pthread_mutex_timedlock(lock, &until) != 0) return false;
    pthread_mutex_unlock(lock);
    return true;
}

static void call_back(void *context, const hn_log_line *line) {
    listener *l = context;
    hn_service_stats stats;
    hn_service_stats_get(l->service, &stats);
    hn_status_free(hn_service_warm(l->service));
    hn_core *core = atomic_load(&l->service->core);
    if (core && !comes_free(&core->lock)) atomic_fetch_add(&l->locked, 1);
    if (line->level == HN_LOG_WARN && strcmp(line->area, "service") == 0)
        atomic_fetch_add(&l->warnings, 1);
}

/* Workers that end at once: the pool gives up, and jobs run in the waiting thread. */
TEST(a_callback_may_call_the_service) {
    listener l = {.service = service_open((hn_service_options){.worker_path = "/bin/false"})};
    hn_artifact *artifact;
    alarm(LIMIT_S);
    EXPECT_OK(hn_log_sink_set(call_back, &l));
    EXPECT_OK(hn_log_levels_set("debug"));
    hn_scope *scope = scope_open(l.service);
    for (int k = 0; k < 4; k++) {
        char text[64];
        snprintf(text, sizeof text, "int k(void) { return %d; }", k);
        EXPECT_OK(hn_future_wait(submit_c(scope, text), -1, &artifact));
        hn_artifact_release(artifact);
    }
    hn_scope_destroy(scope);
    hn_service *service = l.service;
    /* the pool's thread may speak after the job is done */
    for (int k = 0; k < 1000 && !atomic_load(&l.warnings); k++) usleep(10000);
    EXPECT(atomic_load(&l.warnings) > 0);
    EXPECT_INT(atomic_load(&l.locked), 0);
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    EXPECT_OK(hn_log_levels_set(""));
    hn_service_destroy(service);
    alarm(0);
}

TEST_MAIN
