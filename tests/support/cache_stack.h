/* cache_stack.h: a cache with a disk of its own and a shared server, for tests of the remote
 * cache. */
#ifndef HN_TESTS_CACHE_STACK_H
#define HN_TESTS_CACHE_STACK_H

#include "cache/cache.h"

#include "base/log.h"
#include "support/redis_server.h"
#include "unit/harness.h"

static redis_server server;
static bool has_redis;

/* One level stack: a store in a folder of its own, and the server. */
typedef struct stack {
    char dir[PATH_MAX - 128];
    hn_store *store;
    hn_cache cache;
} stack;

static void stack_open(stack *s, const char *url) {
    EXPECT_OK(hn_dir_temp(s->dir, sizeof(s->dir)));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = s->dir}, &s->store));
    EXPECT_OK(hn_cache_init(s->store, url, &s->cache));
}

static void stack_close(stack *s) {
    hn_cache_deinit(&s->cache);
    hn_store_close(s->store);
    EXPECT_OK(hn_dir_remove(s->dir));
}

static bool begin(const char *const options[4]) {
    if (!has_redis) return false;
    server = (redis_server){0};
    bool ok = redis_start(&server, options);
    EXPECT(ok);
    return ok;
}

static hn_digest key_of(int n) { return hn_digest_of(&n, sizeof(n)); }

__attribute__((unused)) static void put(stack *s, int n, const char *bytes, size_t len) {
    hn_digest key = key_of(n);
    hn_cache_put(
        &s->cache,
        &(hn_store_put_args){
            .ns = HN_STORE_KERNEL, .key = &key, .bytes = bytes, .len = len, .record = HN_STR("")});
}

/* The level at which entry `n` with these bytes was found; none when it was not, and -1 with other
 * bytes. */
__attribute__((unused)) static int find(stack *s, int n, const char *bytes, size_t len) {
    hn_digest key = key_of(n);
    hn_store_entry entry;
    hn_cache_level level = hn_cache_get(&s->cache, HN_STORE_KERNEL, &key, &entry);
    if (level == HN_LEVEL_NONE) return HN_LEVEL_NONE;
    bool same = entry.len == len && memcmp(entry.bytes, bytes, len) == 0;
    hn_store_entry_deinit(&entry);
    return same ? (int)level : -1;
}

__attribute__((unused)) static hn_remote_stats stats_of(const stack *s) {
    hn_remote_stats stats;
    hn_remote_stats_get(s->cache.remote, &stats);
    return stats;
}

__attribute__((unused)) static int64_t ms_since(int64_t begin_ns) {
    return (hn_now_ns() - begin_ns) / 1000000;
}

__attribute__((unused)) static void url_with(char out[PATH_MAX + 128], const char *options) {
    snprintf(out, PATH_MAX + 128, "%s?%s", server.url, options);
}

/* For main: HENRY_REDIS_URL of the user is none of ours. */
static int stack_main(int argc, char **argv) {
    unsetenv("HENRY_REDIS_URL");
    has_redis = redis_exists();
    if (!has_redis)
        fprintf(
            stderr,
            "redis-server is not installed: only a part of the tests runs (tools/setup.sh installs it)\n");
    return hn_test_main(argc, argv);
}

#endif
