/* remote_redis.c: commands to a Redis server and their answers, within a time limit.
 *
 * hiredis formats commands and parses answers; the sockets are our own, because a limit for the
 * whole command (not for each read), no SIGPIPE in a host program and a bound on what a hostile
 * server may send are all beyond its blocking calls. Connections are kept in slots that threads
 * take and give back without a lock. */
#include "cache/remote_internal.h"

#include "base/oserror.h"
#include "base/checked.h"
#include "base/trace.h"

#include <errno.h>
#include <hiredis/read.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SLOTS = 32, /* commands at once in one process; more are not sent */
    READ_BYTES = 64 << 10,
    ANSWER_SLACK_BYTES = 64, /* of the protocol, around the largest value */
};

typedef struct connection {
    atomic_bool is_taken;
    atomic_int fd;       /* -1: none. Atomic for hn_redis_abandon and for choosing a slot. */
    redisReader *reader; /* NULL when fd is -1 */
} connection;

struct hn_redis {
    hn_remote_address address;
    connection slots[SLOTS];
};

/* One command on its way. */
typedef struct exchange {
    connection *link;
    int64_t begin_ns, limit_ms;
    size_t moved_bytes; /* both ways: a large value may take longer */
    bool has_answer_begun;
    bool has_large; /* the answer, a long string, was read into `out` */
    hn_strbuf *out;
} exchange;

hn_status hn_redis_create(const hn_remote_address *address, hn_redis **out) {
    hn_redis *redis = calloc(1, sizeof(*redis));
    if (!redis) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a remote cache");
    for (int i = 0; i < SLOTS; i++) atomic_init(&redis->slots[i].fd, -1);
    /* The address points into its own storage. */
    redis->address = *address;
    const char **pieces[] = {&redis->address.user, &redis->address.password, &redis->address.host,
                             &redis->address.port, &redis->address.path};
    const char *from = address->storage, *end = from + sizeof(address->storage);
    for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++)
        if (*pieces[k] >= from && *pieces[k] < end)
            *pieces[k] = redis->address.storage + (*pieces[k] - from);
    *out = redis;
    return NULL;
}

static void disconnect(connection *link) {
    int fd = atomic_exchange(&link->fd, -1);
    if (fd >= 0) close(fd);
    if (link->reader) redisReaderFree(link->reader);
    link->reader = NULL;
}

void hn_redis_destroy(hn_redis *redis) {
    if (!redis) return;
    for (int i = 0; i < SLOTS; i++) disconnect(&redis->slots[i]);
    free(redis);
}

void hn_redis_abandon(hn_redis *redis) {
    for (int i = 0; i < SLOTS; i++) {
        int fd = atomic_exchange(&redis->slots[i].fd, -1);
        if (fd >= 0) close(fd);
    }
}

/* ---- time ---- */

static int left_ms(const exchange *x) {
    int64_t limit_ns =
        x->limit_ms * 1000000 + (int64_t)(x->moved_bytes / HN_REMOTE_BYTES_PER_MS) * 1000000;
    int64_t left_ns = x->begin_ns + limit_ns - hn_now_ns();
    return left_ns <= 0              ? 0
           : left_ns > 1000000000000 ? 1000000
                                     : (int)((left_ns + 999999) / 1000000);
}

/* A message instead of an answer. */
static bool lost(const exchange *x, const char *what, int err) {
    char text[128];
    hn_strbuf_reset(x->out);
    hn_strbuf_puts(x->out, what);
    if (err) hn_strbuf_printf(x->out, ": %s", strerror_r(err, text, sizeof(text)));
    return false;
}

static bool wait_for(const exchange *x, int fd, short events) {
    for (;;) {
        int left = left_ms(x);
        struct pollfd poll_fd = {.fd = fd, .events = events};
        int ready = left > 0 ? poll(&poll_fd, 1, left) : 0;
        if (ready > 0) return true;
        if (ready < 0 && errno == EINTR) continue;
        return ready < 0 ? lost(x, "cannot wait for it", errno) : lost(x, "no answer in time", 0);
    }
}

/* ---- connecting ---- */

static bool connect_to(const exchange *x, const struct sockaddr *address, socklen_t len,
                       int *out_fd) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0) return lost(x, "cannot make a socket", errno);
    if (address->sa_family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    int err = connect(fd, address, len) == 0 ? 0 : errno;
    bool ok = true;
    if (err == EINPROGRESS) {
        socklen_t size = sizeof(err);
        ok = wait_for(x, fd, POLLOUT);
        if (ok && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) != 0) err = errno;
    }
    if (ok && err) ok = lost(x, "cannot connect", err);
    if (ok) *out_fd = fd;
    else close(fd);
    return ok;
}

static bool connect_local(const exchange *x, const char *path, int *out_fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return lost(x, "the path of its socket is too long", 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect_to(x, (const struct sockaddr *)&address, sizeof(address), out_fd);
}

/* Looking a name up has the system's own limits; addresses in digits need none. */
static bool connect_tcp(const exchange *x, const hn_remote_address *address, int *out_fd) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(address->host, address->port, &hints, &list);
    if (rc != 0) return lost(x, gai_strerror(rc), rc == EAI_SYSTEM ? errno : 0);
    bool ok = false;
    for (struct addrinfo *at = list; at && !ok && left_ms(x) > 0; at = at->ai_next)
        ok = connect_to(x, at->ai_addr, at->ai_addrlen, out_fd);
    freeaddrinfo(list);
    return ok;
}

/* ---- sending and receiving ---- */

static bool send_all(exchange *x, const char *bytes, size_t len) {
    int fd = atomic_load(&x->link->fd);
    for (size_t at = 0; at < len;) {
        ssize_t done = send(fd, bytes + at, len - at, MSG_NOSIGNAL);
        if (done > 0) {
            at += (size_t)done;
            x->moved_bytes += (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {
            if (!wait_for(x, fd, POLLOUT)) return false;
        } else if (done == 0 || errno != EINTR) {
            return lost(x, "cannot send", done < 0 ? errno : EPIPE);
        }
    }
    return true;
}

/* Only these four kinds of answer are ever asked for; lists are not, and a list can promise a
 * million members. */
static bool is_answer(char first) {
    return first == '+' || first == '-' || first == ':' || first == '$';
}

/* Whether an answer that begins with these bytes is a string longer than a read:
 * "$LENGTH\r\n...". */
static bool is_large(const char *bytes, size_t len, size_t *out_head, size_t *out_value) {
    size_t at = 1, value = 0;
    if (!len || bytes[0] != '$') return false;
    for (; at < len && bytes[at] >= '0' && bytes[at] <= '9'; at++)
        if (!hn_mul_size(value, 10, &value) ||
            !hn_add_size(value, (size_t)(bytes[at] - '0'), &value))
            return false;
    if (at + 2 > len || bytes[at] != '\r' || bytes[at + 1] != '\n' || value < READ_BYTES)
        return false;
    *out_head = at + 2;
    *out_value = value;
    return true;
}

/* Reads the rest of a long string into its place: the reader would copy it twice, into memory that
 * is new each time. */
static bool receive_large(exchange *x, const char *bytes, size_t len, size_t value) {
    int fd = atomic_load(&x->link->fd);
    char *to = hn_strbuf_reserve(x->out, value + 2), *end;
    if (!to) return lost(x, "no memory for its answer", 0);
    memcpy(to, bytes, len);
    for (size_t at = len; at < value + 2;) {
        ssize_t got = recv(fd, to + at, value + 2 - at, 0);
        if (got > 0) {
            at += (size_t)got;
            x->moved_bytes += (size_t)got;
        } else if (got < 0 && errno == EAGAIN) {
            if (!wait_for(x, fd, POLLIN)) return false;
        } else if (got == 0 || errno != EINTR) {
            return lost(x, "the connection ended", got < 0 ? errno : 0);
        }
    }
    end = to + value;
    if (end[0] != '\r' || end[1] != '\n') return lost(x, "it does not speak the Redis protocol", 0);
    *end = 0;
    x->out->len += value;
    x->has_large = true;
    return true;
}

static bool receive_some(exchange *x, size_t limit_bytes, size_t *received) {
    char bytes[READ_BYTES];
    int fd = atomic_load(&x->link->fd);
    /* The answer is hardly ever there at once: waiting first saves a call. */
    if (!x->has_answer_begun && !wait_for(x, fd, POLLIN)) return false;
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
    if (got < 0 && errno == EINTR) return true;
    if (got < 0 && errno == EAGAIN) return wait_for(x, fd, POLLIN);
    if (got <= 0) return lost(x, "the connection ended", got < 0 ? errno : 0);
    size_t head, value;
    bool is_first = !x->has_answer_begun;
    if (is_first && !is_answer(bytes[0])) return lost(x, "it does not speak the Redis protocol", 0);
    x->has_answer_begun = true;
    x->moved_bytes += (size_t)got;
    if (is_first && is_large(bytes, (size_t)got, &head, &value)) {
        if (value > limit_bytes) return lost(x, "its answer is too large", 0);
        return receive_large(x, bytes + head, (size_t)got - head, value);
    }
    *received += (size_t)got;
    if (*received > limit_bytes) return lost(x, "its answer is too large", 0);
    if (redisReaderFeed(x->link->reader, bytes, (size_t)got) != REDIS_OK)
        return lost(x, "no memory for its answer", 0);
    return true;
}

/* `*out_reply` stays NULL when the answer is in `out` already. */
static bool receive_answer(exchange *x, size_t limit_bytes, redisReply **out_reply) {
    void *reply = NULL;
    x->has_large = false;
    for (size_t received = 0; !x->has_large;) {
        if (redisReaderGetReply(x->link->reader, &reply) != REDIS_OK)
            return lost(x, "it does not speak the Redis protocol", 0);
        if (reply) break;
        if (!receive_some(x, limit_bytes, &received)) return false;
    }
    *out_reply = reply;
    return true;
}

static hn_remote_result take_reply(const redisReply *reply, hn_strbuf *out) {
    switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        hn_strbuf_append(out, reply->str, (size_t)reply->len);
        return HN_RESULT_VALUE;
    case REDIS_REPLY_INTEGER: hn_strbuf_i64(out, reply->integer); return HN_RESULT_VALUE;
    case REDIS_REPLY_NIL: return HN_RESULT_NIL;
    case REDIS_REPLY_ERROR:
        hn_strbuf_reset(out);
        hn_strbuf_append(out, reply->str, (size_t)reply->len);
        /* In front, or inside the text when a script met it. */
        return memmem(reply->str, (size_t)reply->len, "WRONGTYPE", 9) ? HN_RESULT_WRONG_KIND
                                                                      : HN_RESULT_REFUSED;
    default: return HN_RESULT_LOST;
    }
}

/* One command over a connection that stands. */
static hn_remote_result exchange_command(hn_redis *redis, exchange *x, const hn_str *words,
                                         int count) {
    enum { WORDS_MAX = 8 };
    const char *pieces[WORDS_MAX];
    size_t lengths[WORDS_MAX];
    if (count > WORDS_MAX) return lost(x, "the command has too many words", 0), HN_RESULT_LOST;
    for (int i = 0; i < count; i++) pieces[i] = words[i].ptr, lengths[i] = words[i].len;
    char *command = NULL;
    int len = redisFormatCommandArgv(&command, count, pieces, lengths);
    if (len < 0) return lost(x, "no memory for a command", 0), HN_RESULT_LOST;
    size_t limit_bytes = (size_t)redis->address.config.max_bytes + ANSWER_SLACK_BYTES;
    redisReply *reply = NULL;
    bool ok = send_all(x, command, (size_t)len) && receive_answer(x, limit_bytes, &reply);
    redisFreeCommand(command);
    if (!ok) return HN_RESULT_LOST;
    if (!reply) return x->out->failed ? HN_RESULT_LOST : HN_RESULT_VALUE;
    hn_remote_result result = take_reply(reply, x->out);
    freeReplyObject(reply);
    if (result == HN_RESULT_LOST) lost(x, "it does not speak the Redis protocol", 0);
    return result;
}

/* Who we are and which database we want. */
static bool introduce(hn_redis *redis, exchange *x) {
    const hn_remote_address *address = &redis->address;
    char db[24];
    snprintf(db, sizeof(db), "%lld", (long long)address->config.db);
    const hn_str auth[3] = {HN_STR("AUTH"),
                            hn_str_of(address->user ? address->user : address->password),
                            hn_str_of(address->password)};
    const hn_str select_db[2] = {HN_STR("SELECT"), hn_str_of(db)};
    hn_remote_result result = HN_RESULT_VALUE;
    if (address->password) result = exchange_command(redis, x, auth, address->user ? 3 : 2);
    if (result == HN_RESULT_VALUE && address->config.db) {
        x->has_answer_begun = false;
        result = exchange_command(redis, x, select_db, 2);
    }
    if (result == HN_RESULT_VALUE) hn_strbuf_reset(x->out);
    x->has_answer_begun = false;
    return result == HN_RESULT_VALUE;
}

static bool connect_link(hn_redis *redis, exchange *x) {
    const hn_remote_config *config = &redis->address.config;
    exchange dial = *x;
    int fd = -1;
    if (config->connect_ms < dial.limit_ms) dial.limit_ms = config->connect_ms;
    dial.begin_ns = hn_now_ns();
    bool ok = redis->address.path ? connect_local(&dial, redis->address.path, &fd)
                                  : connect_tcp(&dial, &redis->address, &fd);
    if (!ok) return false;
    atomic_store(&x->link->fd, fd);
    x->link->reader = redisReaderCreate();
    if (!x->link->reader) return lost(x, "no memory for a connection", 0);
    return introduce(redis, x);
}

/* ---- slots ---- */

static bool try_take(connection *link) {
    bool expected = false;
    return atomic_compare_exchange_strong(&link->is_taken, &expected, true);
}

/* One that is connected, if there is one. */
static connection *take_slot(hn_redis *redis) {
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&redis->slots[i].fd) >= 0 && try_take(&redis->slots[i]))
            return &redis->slots[i];
    for (int i = 0; i < SLOTS; i++)
        if (try_take(&redis->slots[i])) return &redis->slots[i];
    return NULL;
}

/* A server that was restarted, or that ends idle connections, has closed its end. Nothing is due on
 * an idle one, so anything that can be read is a reason to start again. */
static bool is_usable(const connection *link) {
    int fd = atomic_load(&link->fd);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN | POLLRDHUP};
    return fd >= 0 && link->reader && poll(&poll_fd, 1, 0) == 0;
}

/* Bytes beyond the answer would be taken for the next one. */
static bool is_clean(const connection *link) {
    return link->reader && link->reader->pos == link->reader->len && !link->reader->err;
}

hn_remote_result hn_redis_command(hn_redis *redis, const hn_str *words, int count, int64_t limit_ms,
                                  hn_strbuf *out, bool *out_connected) {
    exchange x = {
        .begin_ns = hn_now_ns(), .limit_ms = limit_ms, .out = out, .link = take_slot(redis)};
    *out_connected = false;
    if (!x.link) return lost(&x, "too many commands at once", 0), HN_RESULT_LOST;
    bool is_reused = is_usable(x.link);
    hn_remote_result result = HN_RESULT_LOST;
    if (is_reused) {
        result = exchange_command(redis, &x, words, count);
        /* It may have been closed after the look at it: then a new connection says more. */
        is_reused = result != HN_RESULT_LOST || x.has_answer_begun || left_ms(&x) <= 0;
    }
    if (!is_reused) {
        disconnect(x.link);
        *out_connected = true;
        result =
            connect_link(redis, &x) ? exchange_command(redis, &x, words, count) : HN_RESULT_LOST;
    }
    if (result == HN_RESULT_LOST || !is_clean(x.link)) disconnect(x.link);
    atomic_store(&x.link->is_taken, false);
    return result;
}
