/* remote.c: when to ask the server, what to ask it, and what to count.
 *
 * Two gates keep a server in trouble from costing time again and again: one for everything, and one
 * for storing, since a full server still answers questions. A gate closes at a failure, for 1 s,
 * then 2, 4 ... 60 s; then one thread tries, with a shorter limit, while the others go on
 * without. */
#include "cache/remote_internal.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    COOL_DOWN_FIRST_S = 1,
    COOL_DOWN_MAX_S = 60,
    SLOW_PART = 10,    /* an answer is slow after this part of the time limit, */
    SLOW_IN_A_ROW = 3, /* and that many of them are as good as none */
    KEY_BYTES = 128,
};

typedef struct gate {
    int64_t cool_down_s; /* 0: open */
    int64_t retry_at_ns, failed_at_ns;
    int32_t slow_count;
    bool is_trying;
} gate;

struct hn_remote {
    hn_remote_address address;
    char name[256];
    pid_t pid; /* of the process that made it */
    hn_redis *redis;
    pthread_mutex_t lock; /* of the gates and the counts; never held while waiting for the server */
    gate all, storing;
    hn_remote_stats stats;
};

hn_status hn_remote_open(const char *url, hn_remote **out_remote) {
    hn_remote *remote = calloc(1, sizeof(*remote));
    if (!remote) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a remote cache");
    hn_status status = hn_remote_address_parse(url, &remote->address);
    if (!status) status = hn_redis_create(&remote->address, &remote->redis);
    if (!status && pthread_mutex_init(&remote->lock, NULL)) {
        hn_redis_destroy(remote->redis);
        status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a remote cache");
    }
    if (status) {
        free(remote);
        return status;
    }
    hn_remote_address_name(&remote->address, remote->name);
    remote->pid = getpid();
    *out_remote = remote;
    return NULL;
}

void hn_remote_close(hn_remote *remote) {
    if (!remote) return;
    hn_redis_destroy(remote->redis);
    pthread_mutex_destroy(&remote->lock);
    free(remote);
}

void hn_remote_abandon(hn_remote *remote) {
    if (remote) hn_redis_abandon(remote->redis);
}

const char *hn_remote_name(const hn_remote *remote) { return remote->name; }
int64_t hn_remote_lease_ms(const hn_remote *remote) { return remote->address.config.lease_ms; }

void hn_remote_stats_get(const hn_remote *remote, hn_remote_stats *out_stats) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&remote->lock;
    *out_stats = (hn_remote_stats){0};
    if (remote->pid != getpid()) return;
    hn_lock(lock);
    *out_stats = remote->stats;
    hn_unlock(lock);
}

/* ---- gates ---- */

/* With the lock held. */
static bool gate_enter(gate *g, int64_t now_ns, bool *out_is_trial) {
    *out_is_trial = g->cool_down_s > 0;
    if (!*out_is_trial) return true;
    if (g->is_trying || now_ns < g->retry_at_ns) return false;
    g->is_trying = true;
    return true;
}

/* With the lock held. Threads that failed together have failed once. True when that is news. */
static bool gate_fail(gate *g, int64_t begin_ns, int64_t now_ns) {
    if (begin_ns < g->failed_at_ns) return false;
    int64_t longer = g->cool_down_s ? g->cool_down_s * 2 : COOL_DOWN_FIRST_S;
    g->cool_down_s = longer < COOL_DOWN_MAX_S ? longer : COOL_DOWN_MAX_S;
    g->failed_at_ns = now_ns;
    g->retry_at_ns = now_ns + g->cool_down_s * 1000000000;
    g->slow_count = 0;
    return true;
}

/* One operation from start to end. */
typedef struct operation {
    hn_remote *remote;
    bool is_storing, is_trial, is_storing_trial;
    int64_t begin_ns, limit_ms;
    size_t sent_bytes;
} operation;

static bool operation_begin(hn_remote *remote, bool is_storing, operation *out) {
    *out = (operation){.remote = remote, .is_storing = is_storing, .begin_ns = hn_now_ns()};
    /* the lock may be held by a thread that does not exist here */
    if (remote->pid != getpid()) return false;
    hn_lock(&remote->lock);
    bool ok = gate_enter(&remote->all, out->begin_ns, &out->is_trial);
    if (ok && is_storing && !gate_enter(&remote->storing, out->begin_ns, &out->is_storing_trial)) {
        ok = false;
        if (out->is_trial) remote->all.is_trying = false;
    }
    remote->stats.skipped += !ok;
    hn_unlock(&remote->lock);
    const hn_remote_config *config = &remote->address.config;
    out->limit_ms = config->command_ms;
    if (out->is_trial && config->connect_ms < config->command_ms)
        out->limit_ms = config->connect_ms;
    return ok;
}

static bool is_slow(const operation *op, int64_t spent_ns, size_t moved_bytes) {
    int64_t allowed_ms = op->limit_ms / SLOW_PART + (int64_t)(moved_bytes / HN_REMOTE_BYTES_PER_MS);
    return spent_ns > (allowed_ms > 0 ? allowed_ms : 1) * 1000000;
}

/* With the lock held. True when the gate closed just now. */
static bool settle_gates(operation *op, hn_remote_result result, int64_t now_ns,
                         size_t moved_bytes) {
    hn_remote *remote = op->remote;
    gate *all = &remote->all, *storing = &remote->storing;
    if (op->is_trial) all->is_trying = false;
    if (op->is_storing_trial) storing->is_trying = false;
    bool is_lost = result == HN_RESULT_LOST || (result == HN_RESULT_REFUSED && !op->is_storing);
    if (is_lost) return gate_fail(all, op->begin_ns, now_ns);
    bool slow = is_slow(op, now_ns - op->begin_ns, moved_bytes);
    all->slow_count = slow ? all->slow_count + 1 : 0;
    if (all->slow_count >= SLOW_IN_A_ROW) return gate_fail(all, op->begin_ns, now_ns);
    if (op->is_trial) all->cool_down_s = 0;
    if (op->is_storing && result == HN_RESULT_REFUSED)
        return gate_fail(storing, op->begin_ns, now_ns);
    if (op->is_storing_trial) storing->cool_down_s = 0;
    return false;
}

static void operation_end(operation *op, hn_remote_result result, const hn_strbuf *answer,
                          bool has_connected) {
    hn_remote *remote = op->remote;
    int64_t now_ns = hn_now_ns(), spent_ns = now_ns - op->begin_ns;
    hn_lock(&remote->lock);
    hn_remote_stats *stats = &remote->stats;
    size_t received = result == HN_RESULT_VALUE ? answer->len : 0;
    bool is_news = settle_gates(op, result, now_ns, received + op->sent_bytes);
    stats->failures += result == HN_RESULT_LOST;
    stats->refused += result == HN_RESULT_REFUSED;
    stats->connects += has_connected;
    stats->received_bytes += received;
    stats->sent_bytes += op->sent_bytes;
    stats->total_ns += spent_ns;
    if (spent_ns > stats->longest_ns) stats->longest_ns = spent_ns;
    bool is_back = op->is_trial && remote->all.cool_down_s == 0;
    hn_unlock(&remote->lock);
    hn_str why = answer->len && result != HN_RESULT_VALUE ? hn_strbuf_str(answer)
                                                          : HN_STR("its answers are slow");
    if (is_news && op->is_storing && result == HN_RESULT_REFUSED)
        hn_warn_once("cache", "remote-full",
                     "cannot store in remote cache '%s': " HN_STR_FMT "; going on without",
                     remote->name, HN_STR_ARG(why));
    else if (is_news)
        hn_warn_once("cache", "remote-away", "going on without remote cache '%s': " HN_STR_FMT,
                     remote->name, HN_STR_ARG(why));
    if (is_back) hn_log("cache", HN_LOG_INFO, "remote cache '%s' answers again", remote->name);
}

/* Runs one command. The answer, or the reason for its absence, is appended to `answer`, which was
 * empty. */
static hn_remote_result run(hn_remote *remote, bool is_storing, const hn_str *words, int count,
                            hn_strbuf *answer) {
    operation op;
    if (!operation_begin(remote, is_storing, &op)) {
        hn_strbuf_puts(answer, "it is not tried for a while after a failure");
        return HN_RESULT_LOST;
    }
    for (int i = 0; i < count; i++) op.sent_bytes += words[i].len;
    bool has_connected;
    hn_remote_result result =
        hn_redis_command(remote->redis, words, count, op.limit_ms, answer, &has_connected);
    operation_end(&op, result, answer, has_connected);
    return result;
}

static void count(hn_remote *remote, uint64_t *counter) {
    hn_lock(&remote->lock);
    ++*counter;
    hn_unlock(&remote->lock);
}

/* ---- values ---- */

/* "henry:1:kernel:<64 digits>"; leases have one more word. The number is the format of an entry, so
 * that two versions that share a server do not meet. */
static hn_str key_text(char out[KEY_BYTES], const char *kind, hn_store_ns ns,
                       const hn_digest *key) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(key, hex);
    int len = snprintf(out, KEY_BYTES, "henry:1:%s%s:%s", kind, hn_store_ns_name(ns), hex);
    return (hn_str){out, (size_t)len};
}

hn_remote_answer hn_remote_get(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                               hn_strbuf *out) {
    char name[KEY_BYTES];
    hn_strbuf answer;
    const hn_str words[] = {HN_STR("GET"), key_text(name, "", ns, key)};
    hn_strbuf_init(&answer);
    hn_remote_result result = run(remote, false, words, 2, &answer);
    if (result == HN_RESULT_VALUE && answer.failed) result = HN_RESULT_LOST;
    if (result == HN_RESULT_VALUE && !out->ptr) {
        *out = answer; /* megabytes: not copied */
        hn_strbuf_init(&answer);
    } else if (result == HN_RESULT_VALUE) {
        hn_strbuf_append(out, hn_strbuf_str(&answer).ptr, answer.len);
    }
    hn_strbuf_deinit(&answer);
    if (result == HN_RESULT_WRONG_KIND) hn_remote_reject(remote, ns, key);
    if (result == HN_RESULT_VALUE) return HN_REMOTE_YES;
    return result == HN_RESULT_NIL || result == HN_RESULT_WRONG_KIND ? HN_REMOTE_NO
                                                                     : HN_REMOTE_AWAY;
}

bool hn_remote_takes(hn_remote *remote, size_t len) {
    bool takes = len <= (size_t)remote->address.config.max_bytes;
    if (!takes && remote->pid == getpid()) count(remote, &remote->stats.too_large);
    return takes;
}

hn_remote_answer hn_remote_put(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                               hn_str value, int64_t lifetime_s) {
    const hn_remote_config *config = &remote->address.config;
    if (!hn_remote_takes(remote, value.len)) return HN_REMOTE_NO;
    char name[KEY_BYTES], seconds[24];
    int64_t ttl_s = lifetime_s > 0 ? lifetime_s : config->ttl_s;
    snprintf(seconds, sizeof(seconds), "%lld", (long long)ttl_s);
    const hn_str words[] = {HN_STR("SET"), key_text(name, "", ns, key), value, HN_STR("EX"),
                            hn_str_of(seconds)};
    hn_strbuf answer;
    hn_strbuf_init(&answer);
    hn_remote_result result = run(remote, true, words, ttl_s > 0 ? 5 : 3, &answer);
    hn_strbuf_deinit(&answer);
    if (result == HN_RESULT_VALUE) count(remote, &remote->stats.puts);
    return result == HN_RESULT_VALUE     ? HN_REMOTE_YES
           : result == HN_RESULT_REFUSED ? HN_REMOTE_NO
                                         : HN_REMOTE_AWAY;
}

void hn_remote_count_get(hn_remote *remote, hn_remote_answer answer) {
    if (remote->pid != getpid() || answer == HN_REMOTE_AWAY) return;
    count(remote, answer == HN_REMOTE_YES ? &remote->stats.hits : &remote->stats.misses);
}

void hn_remote_reject(hn_remote *remote, hn_store_ns ns, const hn_digest *key) {
    char name[KEY_BYTES];
    const hn_str words[] = {HN_STR("DEL"), key_text(name, "", ns, key)};
    hn_strbuf answer;
    hn_strbuf_init(&answer);
    if (remote->pid == getpid()) count(remote, &remote->stats.damaged);
    (void)run(remote, false, words, 2, &answer);
    hn_strbuf_deinit(&answer);
}

/* ---- leases ---- */

static void make_token(hn_remote_token *out) {
    uint64_t numbers[2];
    if (getrandom(numbers, sizeof(numbers), GRND_NONBLOCK) != sizeof(numbers)) {
        numbers[0] = (uint64_t)hn_now_ns();
        numbers[1] = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)out;
    }
    snprintf(out->text, sizeof(out->text), "%016llx%016llx", (unsigned long long)numbers[0],
             (unsigned long long)numbers[1]);
}

/* Runs a script on a lease, so that nobody else's is touched between the look and the change. YES:
 * the script returned 1. */
static hn_remote_answer if_lease(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                                 const hn_remote_token *token, const char *script) {
    char name[KEY_BYTES], ms[24];
    hn_strbuf answer;
    snprintf(ms, sizeof(ms), "%lld", (long long)remote->address.config.lease_ms);
    const hn_str words[] = {
        HN_STR("EVAL"),         hn_str_of(script), HN_STR("1"), key_text(name, "lease:", ns, key),
        hn_str_of(token->text), hn_str_of(ms)};
    hn_strbuf_init(&answer);
    hn_remote_result result = run(remote, false, words, 6, &answer);
    bool is_so = result == HN_RESULT_VALUE && hn_str_eq(hn_strbuf_str(&answer), HN_STR("1"));
    hn_strbuf_deinit(&answer);
    if (result == HN_RESULT_WRONG_KIND) return HN_REMOTE_NO;
    return result != HN_RESULT_VALUE ? HN_REMOTE_AWAY : is_so ? HN_REMOTE_YES : HN_REMOTE_NO;
}

/* A value under the name of a lease that does not expire, or is of another kind, is no lease: no
 * holder will ever give it back. It is removed, which is counted. */
static bool remove_odd_lease(hn_remote *remote, hn_store_ns ns, const hn_digest *key) {
    static const hn_remote_token nobody = {""};
    if (if_lease(
            remote, ns, key, &nobody,
            "if redis.call('pttl', KEYS[1]) == -1 then return redis.call('del', KEYS[1]) else return 0 end") !=
        HN_REMOTE_YES)
        return false;
    count(remote, &remote->stats.damaged);
    return true;
}

static hn_remote_result take_lease(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                                   const hn_remote_token *token) {
    char name[KEY_BYTES], ms[24];
    hn_strbuf answer;
    snprintf(ms, sizeof(ms), "%lld", (long long)remote->address.config.lease_ms);
    const hn_str words[] = {HN_STR("SET"),          key_text(name, "lease:", ns, key),
                            hn_str_of(token->text), HN_STR("NX"),
                            HN_STR("PX"),           hn_str_of(ms)};
    hn_strbuf_init(&answer);
    /* It is of no use to lead for a server that stores nothing. */
    hn_remote_result result = run(remote, true, words, 6, &answer);
    hn_strbuf_deinit(&answer);
    return result;
}

hn_remote_answer hn_remote_lease(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                                 hn_remote_token *out_token) {
    make_token(out_token);
    hn_remote_result result = take_lease(remote, ns, key, out_token);
    if (result == HN_RESULT_NIL && remove_odd_lease(remote, ns, key))
        result = take_lease(remote, ns, key, out_token);
    if (result == HN_RESULT_VALUE) count(remote, &remote->stats.leases);
    if (result == HN_RESULT_NIL) count(remote, &remote->stats.leases_busy);
    return result == HN_RESULT_VALUE ? HN_REMOTE_YES
           : result == HN_RESULT_NIL ? HN_REMOTE_NO
                                     : HN_REMOTE_AWAY;
}

hn_remote_answer hn_remote_renew(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                                 const hn_remote_token *token) {
    return if_lease(remote, ns, key, token,
                    "if redis.call('get', KEYS[1]) == ARGV[1] then "
                    "return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end");
}

void hn_remote_release(hn_remote *remote, hn_store_ns ns, const hn_digest *key,
                       const hn_remote_token *token) {
    (void)if_lease(remote, ns, key, token,
                   "if redis.call('get', KEYS[1]) == ARGV[1] then "
                   "return redis.call('del', KEYS[1]) else return 0 end");
}

/* ---- for people ---- */

hn_status hn_remote_ping(hn_remote *remote, int64_t *out_ns) {
    const hn_str words[] = {HN_STR("PING")};
    bool has_connected;
    hn_strbuf answer;
    hn_strbuf_init(&answer);
    int64_t begin_ns = hn_now_ns();
    hn_remote_result result = hn_redis_command(
        remote->redis, words, 1, remote->address.config.command_ms, &answer, &has_connected);
    *out_ns = hn_now_ns() - begin_ns;
    hn_status status = NULL;
    if (result != HN_RESULT_VALUE || !hn_str_eq(hn_strbuf_str(&answer), HN_STR("PONG")))
        status = HN_ERROR(HN_IO, "remote cache '%s' cannot be used: " HN_STR_FMT, remote->name,
                          HN_STR_ARG(hn_strbuf_str(&answer)));
    hn_strbuf_deinit(&answer);
    return status;
}
