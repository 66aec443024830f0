/* remote_internal.h: what remote.c (when to ask) and a kind of server (how to ask) share. Not for
 * other folders. A further kind is one file and one row of the table in remote.c. */
#ifndef HN_CACHE_REMOTE_INTERNAL_H
#define HN_CACHE_REMOTE_INTERNAL_H

#include "cache/remote.h"

typedef struct hn_remote_config {
    int64_t connect_ms, command_ms, lease_ms, ttl_s, max_bytes, db;
} hn_remote_config;

/* A parsed URL: pieces of `storage`. */
typedef struct hn_remote_address {
    char storage[1024];
    const char *user, *password; /* NULL: none */
    const char *host, *port;     /* of a TCP server; NULL for a socket */
    const char *path;            /* of a socket */
    hn_remote_config config;
} hn_remote_address;

/* remote_url.c. Errors: invalid-argument; the message never quotes the password. */
hn_status hn_remote_address_parse(const char *url, hn_remote_address *out) HN_MUST_USE;
/* "redis://host:port/db" or "unix:///path". */
void hn_remote_address_name(const hn_remote_address *address, char out[256]);

/* What a command came to. */
typedef enum hn_remote_result {
    HN_RESULT_VALUE, /* bytes, a status line or a number, appended to the output */
    HN_RESULT_NIL,
    /* the key holds a list, a hash or the like, which no Henry wrote; the connection is good */
    HN_RESULT_WRONG_KIND,
    HN_RESULT_REFUSED, /* the server's error text is in the output; the connection is good */
    HN_RESULT_LOST,    /* no answer in time, or nonsense; a message is in the output */
} hn_remote_result;

/* Redis over hiredis' formatter and parser (remote_redis.c). */
typedef struct hn_redis hn_redis;
hn_status hn_redis_create(const hn_remote_address *address, hn_redis **out) HN_MUST_USE;
void hn_redis_destroy(hn_redis *redis);
void hn_redis_abandon(hn_redis *redis);
/* Sends one command and waits for its answer, at most `limit_ms` plus what `HN_REMOTE_BYTES_PER_MS`
 * allows for what goes over the wire; connects first when there is no idle connection
 * (`*out_connected`). */
enum { HN_REMOTE_BYTES_PER_MS = 10 << 10 };
hn_remote_result hn_redis_command(hn_redis *redis, const hn_str *words, int count, int64_t limit_ms,
                                  hn_strbuf *out, bool *out_connected);

#endif
