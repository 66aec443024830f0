/* test_redis_faults.c: a model is compiled, with a disk cache that is empty each time and a real
 * Redis server, while something happens to the server: it is killed, hangs, is restarted, is full,
 * or all its values are damaged. The result must be the same, and the delay bounded: the time
 * beyond that of a compilation without a server.
 *
 * The bound follows from the limits of docs/cache.md: one command may take command_ms (1000) until
 * the server counts as away; then nobody asks for 1 s, 2 s, ..., and each later attempt may take
 * connect_ms (250). */
#include "henry/program.h"

#include "base/log.h"
#include "stress/stress.h"
#include "support/redis_server.h"

#include <pthread.h>

#define MODEL "examples/data/digits/model.pt2"

enum { LATEST_US = 150000, BOUND_MS = 1000 + 250, SLACK_MS = 400, BASE_ROUNDS = 5 };

typedef enum trouble {
    TROUBLE_KILLED,
    TROUBLE_HUNG,
    TROUBLE_RESTARTED,
    TROUBLE_FULL,
    TROUBLE_DAMAGED,
    TROUBLE_COUNT
} trouble;
static const char *const trouble_names[TROUBLE_COUNT] = {"killed", "hung", "restarted", "full",
                                                         "damaged values"};

static redis_server server;

/* ---- what happens to the server ---- */

static bool tell(const char *command) {
    char line[2 * PATH_MAX];
    snprintf(line, sizeof(line), "redis-cli -e -s %s %s >/dev/null 2>&1", server.socket, command);
    return system(line) == 0;
}

#define FOR_ALL_KEYS(what) "EVAL \"for _,k in ipairs(redis.call('keys','*')) do " what " end\" 0"

typedef struct event {
    trouble what;
    int64_t after_us;
} event;

static void *happen(void *context) {
    const event *e = context;
    stress_sleep_us(e->after_us);
    if (e->what == TROUBLE_KILLED || e->what == TROUBLE_RESTARTED) kill(server.pid, SIGKILL);
    if (e->what == TROUBLE_HUNG) kill(server.pid, SIGSTOP);
    return NULL;
}

/* Before the compilation: what needs the server's help. */
static void prepare(trouble what) {
    if (what == TROUBLE_FULL) EXPECT(tell("CONFIG SET maxmemory 1"));
    if (what == TROUBLE_DAMAGED)
        EXPECT(tell(FOR_ALL_KEYS(
            "if redis.call('type',k).ok=='string' then "
            "redis.call('setrange',k,math.floor(redis.call('strlen',k)/2),'damage') end")));
}

static void mend(void) {
    kill(server.pid, SIGCONT);
    redis_kill(&server);
    EXPECT(redis_start(&server, (const char *const[4]){"--maxmemory-policy", "noeviction"}));
}

/* ---- compiling ---- */

typedef struct result {
    char *image;
    size_t len;
    double ms;
    hn_compile_stats stats;
} result;

static result compile(const char *url) {
    char dir[PATH_MAX];
    result r = {0};
    hn_compiled *compiled = NULL;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    int64_t begin_ns = hn_now_ns();
    EXPECT_OK(hn_compile_file(
        MODEL, &(hn_compile_options){.cache_dir = dir, .remote_url = url, .threads = 2},
        &compiled));
    r.ms = (double)(hn_now_ns() - begin_ns) / 1e6;
    if (compiled) {
        const void *image = hn_compiled_image(compiled, &r.len);
        hn_compiled_stats_get(compiled, &r.stats);
        r.image = malloc(r.len);
        memcpy(r.image, image, r.len);
    }
    hn_compiled_release(compiled);
    EXPECT_OK(hn_dir_remove(dir));
    return r;
}

typedef struct tally {
    double worst_ms;
    long runs, wrong, late, damaged, hits;
} tally;

static void run_once(trouble what, const result *reference, double base_ms, uint64_t *random,
                     tally *sum) {
    pthread_t thread;
    event e = {what, (int64_t)stress_below(random, LATEST_US)};
    if (what == TROUBLE_DAMAGED || stress_below(random, 2))
        free(compile(server.url).image); /* so that it has the values */
    prepare(what);
    EXPECT(pthread_create(&thread, NULL, happen, &e) == 0);
    result r = compile(server.url);
    pthread_join(thread, NULL);
    sum->runs++;
    sum->wrong += r.len != reference->len || memcmp(r.image, reference->image, r.len) != 0;
    sum->damaged += (long)r.stats.remote.damaged;
    sum->hits += (long)r.stats.remote.hits;
    if (r.ms - base_ms > sum->worst_ms) sum->worst_ms = r.ms - base_ms;
    sum->late += r.ms - base_ms > BOUND_MS + SLACK_MS;
    free(r.image);
    if (what != TROUBLE_RESTARTED) mend();
    else {
        redis_kill(&server);
        EXPECT(redis_start(&server, NULL));
        result again = compile(server.url);
        sum->wrong +=
            again.len != reference->len || memcmp(again.image, reference->image, again.len) != 0;
        free(again.image);
    }
}

TEST(a_server_in_trouble) {
    if (!redis_exists()) {
        printf("row|Redis killed, hung, full, returning damaged values|same results, bounded "
               "delay|skipped: no redis-server|0|0\n");
        return;
    }
    long rounds = stress_rounds(100, 2);
    uint64_t random = stress.seed;
    char text[1024] = "";
    tally all = {0};
    hn_log_configure("off");
    EXPECT(redis_start(&server, (const char *const[4]){"--maxmemory-policy", "noeviction"}));
    double base_ms = 1e9;
    result reference = compile("");
    for (int i = 0; i < BASE_ROUNDS; i++) {
        result r = compile("");
        base_ms = r.ms < base_ms ? r.ms : base_ms;
        free(r.image);
    }
    stress_begin();
    for (int what = 0; what < TROUBLE_COUNT; what++) {
        tally sum = {0};
        for (long round = 0; round < rounds; round++)
            run_once((trouble)what, &reference, base_ms, &random, &sum);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %.0f ms", what ? ", " : "",
                 trouble_names[what], sum.worst_ms);
        EXPECT(what != TROUBLE_DAMAGED || sum.damaged > 0);
        all.runs += sum.runs;
        all.wrong += sum.wrong;
        all.late += sum.late;
    }
    EXPECT_INT(all.wrong, 0);
    EXPECT_INT(all.late, 0);
    stress_row("Redis killed, hung, full, returning damaged values", "same results, bounded delay",
               "%ld compilations, %ld with another result; longest delay beyond the %.0f ms "
               "without a server: %s (bound %d ms + %d ms for the machine)",
               all.runs, all.wrong, base_ms, text, BOUND_MS, SLACK_MS);
    free(reference.image);
    hn_log_configure(NULL);
    redis_end(&server);
}

int main(int argc, char **argv) { return stress_main(argc, argv); }
