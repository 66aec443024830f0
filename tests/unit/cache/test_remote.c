/* test_remote.c: the remote cache with a real server: addresses, values, damage, leases, threads
 * and forks. */
#include "cache/entry.h"
#include "cache/remote_internal.h"

#include "support/cache_stack.h"

#include <pthread.h>

/* ---- addresses ---- */

static void expect_address(const char *url, const char *name, const char *user,
                           const char *password) {
    hn_remote_address address;
    char got[256];
    EXPECT_OK(hn_remote_address_parse(url, &address));
    hn_remote_address_name(&address, got);
    EXPECT_STR(got, name);
    EXPECT_STR(address.user ? address.user : "-", user);
    EXPECT_STR(address.password ? address.password : "-", password);
}

TEST(addresses) {
    expect_address("redis://", "redis://127.0.0.1:6379/0", "-", "-");
    expect_address("redis://host", "redis://host:6379/0", "-", "-");
    expect_address("redis://host:77/3", "redis://host:77/3", "-", "-");
    expect_address("redis://:secret@host:77/", "redis://host:77/0", "-", "secret");
    expect_address("redis://secret@host", "redis://host:6379/0", "-", "secret");
    expect_address("redis://me:a%40b%2Fc@host/1?ttl_s=5", "redis://host:6379/1", "me", "a@b/c");
    expect_address("redis://[::1]:5?db=2", "redis://::1:5/2", "-", "-");
    expect_address("unix:///a/b@c", "unix:///a/b@c", "-", "-");
    expect_address("unix://:pw@/a/b?db=1", "unix:///a/b", "-", "pw");
    static const char *const bad[] = {"http://secret@x",           "",
                                      "redis://secret@h:port",     "redis://secret@h:0",
                                      "redis://secret@h/x",        "unix://x",
                                      "redis://secret@[::1",       "redis://h?ttl_s=",
                                      "redis://secret@h?ttl_s=-1", "redis://h?nix=1",
                                      "redis://h?lease_ms=1x"};
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        hn_remote *remote = NULL;
        hn_status status = hn_remote_open(bad[k], &remote);
        EXPECT_INT(hn_status_code(status), HN_INVALID_ARGUMENT);
        EXPECT(!strstr(hn_status_message(status), "secret"));
        hn_status_free(status);
    }
}

/* ---- with a server ---- */

TEST(what_one_machine_puts_another_gets) {
    if (!begin(NULL)) return;
    stack a, b;
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    EXPECT_INT(find(&b, 1, "abc", 3), HN_LEVEL_NONE);
    put(&a, 1, "abc", 3);
    put(&a, 2, "", 0);
    EXPECT_INT(find(&a, 1, "abc", 3), HN_LEVEL_DISK);
    EXPECT_INT(find(&b, 1, "abc", 3), HN_LEVEL_REMOTE);
    EXPECT_INT(find(&b, 1, "abc", 3), HN_LEVEL_DISK); /* it was written there */
    EXPECT_INT(find(&b, 2, "", 0), HN_LEVEL_REMOTE);
    hn_remote_stats stats = stats_of(&b);
    EXPECT_INT(stats.hits, 2);
    EXPECT_INT(stats.misses, 1);
    EXPECT_INT(stats.failures, 0);
    EXPECT_INT(stats_of(&a).puts, 2);
    EXPECT_INT(stats.connects, 1); /* kept open */
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

/* One key, two kinds: neither hides, replaces nor damages the other. */
TEST(kinds_of_entries_are_apart) {
    if (!begin(NULL)) return;
    stack a, b, c;
    hn_digest key = key_of(1);
    hn_store_entry entry;
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    stack_open(&c, server.url);
    put(&a, 1, "kernel", 6);
    EXPECT(!hn_cache_get_remote(&b.cache, HN_STORE_GRAPH, &key, &entry));
    EXPECT_INT(stats_of(&b).damaged, 0);
    hn_cache_put(
        &a.cache,
        &(hn_store_put_args){
            .ns = HN_STORE_GRAPH, .key = &key, .bytes = "graph", .len = 5, .record = HN_STR("")});
    EXPECT_INT(find(&b, 1, "kernel", 6), HN_LEVEL_REMOTE);
    bool got = hn_cache_get_remote(&c.cache, HN_STORE_GRAPH, &key, &entry);
    EXPECT(got && entry.len == 5 && memcmp(entry.bytes, "graph", 5) == 0);
    if (got) hn_store_entry_deinit(&entry);
    hn_remote_token kernel, graph;
    EXPECT_INT(hn_remote_lease(a.cache.remote, HN_STORE_KERNEL, &key, &kernel), HN_REMOTE_YES);
    EXPECT_INT(hn_remote_lease(b.cache.remote, HN_STORE_GRAPH, &key, &graph), HN_REMOTE_YES);
    hn_remote_release(b.cache.remote, HN_STORE_GRAPH, &key, &graph);
    EXPECT_INT(hn_remote_lease(c.cache.remote, HN_STORE_KERNEL, &key, &graph), HN_REMOTE_NO);
    stack_close(&a);
    stack_close(&b);
    stack_close(&c);
    redis_end(&server);
}

TEST(the_value_is_the_entry_byte_for_byte) {
    if (!begin(NULL)) return;
    stack a;
    hn_digest key = key_of(1);
    char path[PATH_MAX];
    hn_strbuf file, value;
    hn_strbuf_init(&file);
    hn_strbuf_init(&value);
    stack_open(&a, server.url);
    put(&a, 1, "abc", 3);
    hn_store_entry_path(a.store, HN_STORE_KERNEL, &key, path);
    EXPECT_OK(hn_file_read(path, &file));
    EXPECT_INT(hn_remote_get(a.cache.remote, HN_STORE_KERNEL, &key, &value), HN_REMOTE_YES);
    EXPECT(hn_str_eq(hn_strbuf_str(&file), hn_strbuf_str(&value)));
    hn_strbuf_deinit(&file);
    hn_strbuf_deinit(&value);
    stack_close(&a);
    redis_end(&server);
}

TEST(without_a_disk_the_remote_is_enough) {
    if (!begin(NULL)) return;
    hn_store *store;
    hn_cache cache;
    stack a;
    stack_open(&a, server.url);
    put(&a, 1, "abc", 3);
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    EXPECT_OK(hn_cache_init(store, server.url, &cache));
    hn_digest key = key_of(1);
    hn_store_entry entry;
    EXPECT_INT(hn_cache_get(&cache, HN_STORE_KERNEL, &key, &entry), HN_LEVEL_REMOTE);
    EXPECT(entry.len == 3 && memcmp(entry.bytes, "abc", 3) == 0 && entry.fd < 0);
    hn_store_entry_deinit(&entry);
    hn_lease lease;
    EXPECT_INT(hn_lease_try(cache.leases, HN_STORE_KERNEL, &key, true, &lease), HN_LEASE_MINE);
    EXPECT(lease != 0);
    hn_lease_release(cache.leases, lease);
    hn_cache_deinit(&cache);
    hn_store_close(store);
    stack_close(&a);
    redis_end(&server);
}

TEST(toolchain_answers_stay_on_their_machine) {
    if (!begin(NULL)) return;
    stack a, b;
    hn_digest key = key_of(1);
    hn_store_entry entry;
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    hn_cache_put(&a.cache, &(hn_store_put_args){
                               .ns = HN_STORE_TOOLCHAIN, .key = &key, .bytes = "x", .len = 1});
    EXPECT_INT(hn_cache_get(&b.cache, HN_STORE_TOOLCHAIN, &key, &entry), HN_LEVEL_NONE);
    EXPECT_INT(stats_of(&a).puts, 0);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

TEST(tuning_records_travel) {
    if (!begin(NULL)) return;
    stack a, b;
    hn_digest key = key_of(1);
    hn_strbuf tuning;
    hn_strbuf_init(&tuning);
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    EXPECT(!hn_tuning_get(&b.cache, &key, &tuning));
    hn_tuning_put(&a.cache, &key, HN_STR("variant 3, 17 us"), HN_STR(""));
    EXPECT(hn_tuning_get(&b.cache, &key, &tuning));
    EXPECT_STR(hn_strbuf_str(&tuning).ptr, "variant 3, 17 us");
    hn_tuning_put(&b.cache, &key, HN_STR("variant 4"), HN_STR(""));
    hn_strbuf_reset(&tuning);
    EXPECT(hn_tuning_get(&b.cache, &key, &tuning)); /* the later one */
    EXPECT_STR(hn_strbuf_str(&tuning).ptr, "variant 4");
    hn_strbuf_deinit(&tuning);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

/* Every byte of a value changed, and every cut: a miss each time, deleted on the server, and
 * replaceable. */
TEST(any_damage_is_a_miss_and_deleted) {
    if (!begin(NULL)) return;
    stack a, b;
    hn_digest key = key_of(1);
    hn_strbuf value, rest;
    hn_strbuf_init(&value);
    hn_strbuf_init(&rest);
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    put(&a, 1, "abcdefgh", 8);
    EXPECT_INT(hn_remote_get(a.cache.remote, HN_STORE_KERNEL, &key, &value), HN_REMOTE_YES);
    hn_log_configure("off");
    size_t wrong = 0;
    for (size_t i = 0; i < 2 * value.len; i++) {
        hn_strbuf bad;
        hn_strbuf_init(&bad);
        bool is_cut = i >= value.len;
        hn_strbuf_append(&bad, value.ptr, is_cut ? i - value.len : value.len);
        if (!is_cut) bad.ptr[i] = (char)(bad.ptr[i] ^ (1 << i % 8));
        EXPECT_INT(hn_remote_put(a.cache.remote, HN_STORE_KERNEL, &key, hn_strbuf_str(&bad), 0),
                   HN_REMOTE_YES);
        wrong += find(&b, 1, "abcdefgh", 8) != HN_LEVEL_NONE;
        hn_strbuf_reset(&rest);
        hn_remote_answer left = hn_remote_get(b.cache.remote, HN_STORE_KERNEL, &key, &rest);
        /* Another format is no damage: a newer version may have put it there. */
        bool is_other_format = !is_cut && i >= value.len - 16 && i < value.len - 12;
        wrong += left != (is_other_format ? HN_REMOTE_YES : HN_REMOTE_NO);
        hn_strbuf_deinit(&bad);
    }
    hn_log_configure(NULL);
    EXPECT_INT(wrong, 0);
    EXPECT_INT(stats_of(&b).damaged, 2 * value.len - 4);
    put(&a, 1, "abcdefgh", 8);
    EXPECT_INT(find(&b, 1, "abcdefgh", 8), HN_LEVEL_REMOTE);
    /* An entry under the key of another, and of another kind. */
    hn_digest other = key_of(2);
    hn_store_entry entry;
    EXPECT_INT(hn_remote_put(a.cache.remote, HN_STORE_KERNEL, &other, hn_strbuf_str(&value), 0),
               HN_REMOTE_YES);
    EXPECT_INT(hn_cache_get(&b.cache, HN_STORE_KERNEL, &other, &entry), HN_LEVEL_NONE);
    EXPECT_INT(hn_remote_put(a.cache.remote, HN_STORE_GRAPH, &key, hn_strbuf_str(&value), 0),
               HN_REMOTE_YES);
    EXPECT_INT(hn_cache_get(&b.cache, HN_STORE_GRAPH, &key, &entry), HN_LEVEL_NONE);
    hn_strbuf_deinit(&value);
    hn_strbuf_deinit(&rest);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

/* Sends one command as another program would. */
static void command(const char *a, const char *b, const char *c, const char *d) {
    hn_remote_address address;
    hn_redis *redis = NULL;
    bool has_connected;
    hn_strbuf answer;
    const hn_str words[] = {hn_str_of(a), hn_str_of(b), hn_str_of(c), hn_str_of(d)};
    hn_strbuf_init(&answer);
    EXPECT_OK(hn_remote_address_parse(server.url, &address));
    EXPECT_OK(hn_redis_create(&address, &redis));
    EXPECT_INT(hn_redis_command(redis, words, *d ? 4 : 3, 1000, &answer, &has_connected),
               HN_RESULT_VALUE);
    hn_redis_destroy(redis);
    hn_strbuf_deinit(&answer);
}

/* Another program wrote a list under the key of an entry: it is replaced, and the rest of the cache
 * goes on. */
TEST(a_key_of_another_kind_is_replaced) {
    if (!begin(NULL)) return;
    stack a, b;
    char hex[HN_DIGEST_HEX_BYTES], name[HN_DIGEST_HEX_BYTES + 32];
    hn_digest key = key_of(1);
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    put(&a, 2, "other", 5);
    hn_digest_hex(&key, hex);
    snprintf(name, sizeof(name), "henry:1:kernel:%s", hex);
    command("RPUSH", name, "x", "");
    EXPECT_INT(find(&b, 1, "abcdefgh", 8), HN_LEVEL_NONE);
    EXPECT_INT(find(&b, 2, "other", 5), HN_LEVEL_REMOTE);
    EXPECT_INT(stats_of(&b).damaged, 1);
    EXPECT_INT(stats_of(&b).misses, 1);
    EXPECT_INT(stats_of(&b).failures + stats_of(&b).refused + stats_of(&b).skipped, 0);
    put(&b, 1, "abcdefgh", 8);
    EXPECT_INT(find(&a, 1, "abcdefgh", 8), HN_LEVEL_REMOTE);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

/* What lies under the name of a lease and never ends is no lease. */
TEST(a_lease_of_another_kind_is_replaced) {
    if (!begin(NULL)) return;
    stack a, b;
    char hex[HN_DIGEST_HEX_BYTES], name[HN_DIGEST_HEX_BYTES + 32];
    hn_lease lease, theirs;
    stack_open(&a, server.url);
    stack_open(&b, server.url);
    for (int n = 1; n <= 2; n++) {
        hn_digest key = key_of(n);
        hn_digest_hex(&key, hex);
        snprintf(name, sizeof(name), "henry:1:lease:kernel:%s", hex);
        command(n == 1 ? "RPUSH" : "SET", name, "x", "");
        EXPECT_INT(hn_lease_try(a.cache.leases, HN_STORE_KERNEL, &key, true, &lease),
                   HN_LEASE_MINE);
        EXPECT_INT(hn_lease_try(b.cache.leases, HN_STORE_KERNEL, &key, true, &theirs),
                   HN_LEASE_THEIRS);
        /* Its holder loses it to another program, and goes on. */
        command("DEL", name, name, "");
        command("RPUSH", name, "x", "");
        hn_remote_token token = {"00000000000000000000000000000000"};
        EXPECT_INT(hn_remote_renew(a.cache.remote, HN_STORE_KERNEL, &key, &token), HN_REMOTE_NO);
        hn_lease_release(a.cache.leases, lease);
    }
    EXPECT_INT(stats_of(&a).damaged, 2);
    EXPECT_INT(stats_of(&a).failures + stats_of(&a).refused + stats_of(&a).skipped, 0);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

TEST(a_large_value_travels_and_a_larger_one_stays) {
    if (!begin(NULL)) return;
    stack a, b;
    char url[PATH_MAX + 128];
    size_t len = 3 << 20;
    char *big = malloc(len);
    for (size_t i = 0; i < len; i++) big[i] = (char)(i * 31 >> 4);
    url_with(url, "max_bytes=976K");
    stack_open(&a, server.url);
    stack_open(&b, url);
    put(&a, 1, big, len);
    put(&b, 2, big, len);
    EXPECT_INT(stats_of(&b).too_large, 1);
    EXPECT_INT(find(&a, 2, big, len), HN_LEVEL_NONE);
    EXPECT_INT(find(&b, 1, big, len), HN_LEVEL_NONE); /* the server may not send it either */
    EXPECT_INT(stats_of(&b).failures, 1);
    stack_close(&b);
    stack_open(&b, server.url);
    EXPECT_INT(find(&b, 1, big, len), HN_LEVEL_REMOTE);
    free(big);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

TEST(entries_expire) {
    if (!begin(NULL)) return;
    stack a, b;
    char url[PATH_MAX + 128];
    url_with(url, "ttl_s=1");
    stack_open(&a, url);
    stack_open(&b, url);
    put(&a, 1, "abc", 3);
    pause_ms(1200);
    EXPECT_INT(find(&b, 1, "abc", 3), HN_LEVEL_NONE);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

TEST(passwords_and_databases) {
    static const char *const options[4] = {"--requirepass", "pa:ss@1"};
    if (!begin(options)) return;
    stack good, bad, elsewhere;
    char url[PATH_MAX + 128];
    snprintf(url, sizeof(url), "unix://:pa%%3Ass%%401@%s?db=3", server.socket);
    stack_open(&good, url);
    put(&good, 1, "abc", 3);
    EXPECT_INT(stats_of(&good).puts, 1);
    snprintf(url, sizeof(url), "unix://:pa%%3Ass%%401@%s?db=4", server.socket);
    stack_open(&elsewhere, url);
    EXPECT_INT(find(&elsewhere, 1, "abc", 3), HN_LEVEL_NONE);
    EXPECT_INT(stats_of(&elsewhere).misses, 1);
    snprintf(url, sizeof(url), "unix://:wrong@%s", server.socket);
    stack_open(&bad, url);
    int64_t ping_ns;
    EXPECT_ERROR(hn_remote_ping(bad.cache.remote, &ping_ns), HN_IO, "WRONGPASS");
    hn_log_configure("off");
    EXPECT_INT(find(&bad, 1, "abc", 3), HN_LEVEL_NONE);
    hn_log_configure(NULL);
    EXPECT_INT(stats_of(&bad).failures, 1);
    stack_close(&good);
    stack_close(&bad);
    stack_close(&elsewhere);
    redis_end(&server);
}

/* ---- leases ---- */

TEST(a_remote_lease_has_one_holder) {
    if (!begin(NULL)) return;
    stack a, b;
    char url[PATH_MAX + 128];
    hn_digest key = key_of(1);
    hn_lease mine, theirs;
    url_with(url, "lease_ms=300");
    stack_open(&a, url);
    stack_open(&b, url);
    EXPECT_INT(hn_lease_try(a.cache.leases, HN_STORE_KERNEL, &key, true, &mine), HN_LEASE_MINE);
    EXPECT_INT(hn_lease_try(b.cache.leases, HN_STORE_KERNEL, &key, true, &theirs), HN_LEASE_THEIRS);
    EXPECT_INT(hn_leases_held(b.cache.leases), 0); /* the lock of the file was given back */
    pause_ms(900);                                 /* it is renewed meanwhile */
    EXPECT_INT(hn_lease_try(b.cache.leases, HN_STORE_KERNEL, &key, true, &theirs), HN_LEASE_THEIRS);
    hn_lease_release(a.cache.leases, mine);
    EXPECT_INT(hn_lease_try(b.cache.leases, HN_STORE_KERNEL, &key, true, &theirs), HN_LEASE_MINE);
    /* Somebody else's is neither renewed nor released. */
    hn_remote_token token = {"00000000000000000000000000000000"};
    EXPECT_INT(hn_remote_renew(a.cache.remote, HN_STORE_KERNEL, &key, &token), HN_REMOTE_NO);
    hn_remote_release(a.cache.remote, HN_STORE_KERNEL, &key, &token);
    EXPECT_INT(hn_lease_try(a.cache.leases, HN_STORE_KERNEL, &key, true, &mine), HN_LEASE_THEIRS);
    hn_lease_release(b.cache.leases, theirs);
    stack_close(&a);
    stack_close(&b);
    redis_end(&server);
}

TEST(a_lease_of_a_dead_holder_expires) {
    if (!begin(NULL)) return;
    stack a;
    char url[PATH_MAX + 128];
    hn_digest key = key_of(1);
    hn_remote_token token;
    hn_lease lease;
    url_with(url, "lease_ms=200");
    stack_open(&a, url);
    /* never renewed */
    EXPECT_INT(hn_remote_lease(a.cache.remote, HN_STORE_KERNEL, &key, &token), HN_REMOTE_YES);
    EXPECT_INT(hn_lease_try(a.cache.leases, HN_STORE_KERNEL, &key, true, &lease), HN_LEASE_THEIRS);
    pause_ms(250);
    EXPECT_INT(hn_lease_try(a.cache.leases, HN_STORE_KERNEL, &key, true, &lease), HN_LEASE_MINE);
    hn_lease_release(a.cache.leases, lease);
    stack_close(&a);
    redis_end(&server);
}

/* ---- threads and forks ---- */

enum { THREADS = 8, ROUNDS = 40 };

typedef struct thread_job {
    stack *s;
    int id, wrong;
} thread_job;

static void *thread_main(void *argument) {
    thread_job *job = argument;
    for (int round = 0; round < ROUNDS; round++) {
        char text[32];
        int n = round * THREADS + job->id;
        hn_digest key = key_of(n);
        hn_lease lease;
        int len = snprintf(text, sizeof(text), "value %d", n);
        job->wrong += hn_lease_try(job->s->cache.leases, HN_STORE_KERNEL, &key, true, &lease) !=
                      HN_LEASE_MINE;
        put(job->s, n, text, (size_t)len);
        hn_lease_release(job->s->cache.leases, lease);
        job->wrong += find(job->s, n, text, (size_t)len) != HN_LEVEL_DISK;
        job->wrong += find(job->s, n + 1000000, "", 0) != HN_LEVEL_NONE;
    }
    return NULL;
}

TEST(many_threads_share_one_remote) {
    if (!begin(NULL)) return;
    stack a;
    pthread_t threads[THREADS];
    thread_job jobs[THREADS];
    stack_open(&a, server.url);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (thread_job){&a, i, 0};
        pthread_create(&threads[i], NULL, thread_main, &jobs[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        EXPECT_INT(jobs[i].wrong, 0);
    }
    hn_remote_stats stats = stats_of(&a);
    EXPECT_INT(stats.puts, THREADS * ROUNDS);
    EXPECT_INT(stats.misses, THREADS * ROUNDS);
    EXPECT_INT(stats.leases, THREADS * ROUNDS);
    EXPECT_INT(stats.failures, 0);
    EXPECT(stats.connects <= THREADS + 1);
    EXPECT_INT(hn_leases_held(a.cache.leases), 0);
    stack_close(&a);
    redis_end(&server);
}

/* In a child the inherited remote does nothing: two processes on one connection would read each
 * other's answers. */
TEST(a_child_does_not_touch_the_connections) {
    if (!begin(NULL)) return;
    stack a;
    stack_open(&a, server.url);
    put(&a, 1, "abc", 3);
    pid_t child = fork();
    if (child == 0) {
        hn_digest key = key_of(1);
        hn_strbuf value;
        hn_strbuf_init(&value);
        bool ok = hn_remote_get(a.cache.remote, HN_STORE_KERNEL, &key, &value) == HN_REMOTE_AWAY;
        hn_strbuf_deinit(&value);
        hn_cache_abandon(&a.cache);
        hn_cache fresh;
        hn_store_entry entry;
        hn_status status = hn_cache_init(a.store, server.url, &fresh);
        ok = ok && !status &&
             hn_remote_get(fresh.remote, HN_STORE_KERNEL, &key, &value) == HN_REMOTE_YES;
        ok = ok && hn_cache_get(&fresh, HN_STORE_KERNEL, &key, &entry) == HN_LEVEL_DISK;
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_INT(status, 0);
    put(&a, 2, "abc", 3);
    EXPECT_INT(stats_of(&a).puts, 2);
    EXPECT_INT(stats_of(&a).connects, 1);
    stack_close(&a);
    redis_end(&server);
}

int main(int argc, char **argv) { return stack_main(argc, argv); }
