/* remote_url.c: the address of a remote cache. */
#include "cache/remote_internal.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdlib.h>

static bool parse_number(const char *text, int64_t *out) {
    char *end = NULL;
    errno = 0;
    *out = *text ? strtoll(text, &end, 10) : -1;
    return end && !*end && !errno;
}

static hn_status set_option(hn_remote_config *config, char *word) {
    const struct {
        const char *name;
        int64_t *value;
        int64_t least, most;
        bool is_size;
    } rows[] = {
        {"connect_ms", &config->connect_ms, 1, 60000, false},
        {"command_ms", &config->command_ms, 1, 60000, false},
        {"lease_ms", &config->lease_ms, 100, 600000, false},
        {"ttl_s", &config->ttl_s, 0, INT32_MAX, false},
        {"max_bytes", &config->max_bytes, 1024, 512 << 20, true},
        {"db", &config->db, 0, 1 << 20, false},
    };
    char *equals = strchr(word, '=');
    if (equals) *equals++ = 0;
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        if (strcmp(rows[k].name, word) != 0) continue;
        int64_t number = -1;
        bool good = equals && (rows[k].is_size ? hn_size_parse(equals, &number)
                                               : parse_number(equals, &number));
        if (!good || number < rows[k].least || number > rows[k].most)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "option '%s' of the remote cache takes %lld to %lld", word,
                            (long long)rows[k].least, (long long)rows[k].most);
        *rows[k].value = number;
        return NULL;
    }
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "the remote cache has no option '%s'; there are connect_ms, command_ms, lease_ms, ttl_s, "
        "max_bytes and db",
        word);
}

static hn_status set_options(hn_remote_config *config, char *text) {
    char *save = NULL;
    for (char *word = strtok_r(text, "&", &save); word; word = strtok_r(NULL, "&", &save))
        HN_TRY(set_option(config, word));
    return NULL;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "%40" -> "@", in place: a password may hold any character. */
static void unescape(char *text) {
    char *to = text;
    for (const char *at = text; *at; at++) {
        int high = at[0] == '%' ? hex_value(at[1]) : -1, low = high >= 0 ? hex_value(at[2]) : -1;
        if (low >= 0) at += 2;
        *to++ = (char)(low >= 0 ? high << 4 | low : *at);
    }
    *to = 0;
}

static void take_credentials(hn_remote_address *out, char **rest) {
    char *at = strrchr(*rest, '@');
    if (!at) return;
    *at = 0;
    char *colon = strchr(*rest, ':');
    if (colon) {
        *colon = 0;
        if (**rest) out->user = *rest;
        out->password = colon + 1;
    } else {
        out->password = *rest; /* as old clients write it */
    }
    if (out->user) unescape(*rest);
    unescape(colon ? colon + 1 : *rest);
    *rest = at + 1;
}

static hn_status take_host(hn_remote_address *out, char *rest) {
    char *end = rest + strcspn(rest, ":");
    if (*rest == '[') { /* an address with colons in it */
        char *bracket = strchr(++rest, ']');
        if (!bracket)
            return HN_ERROR(HN_INVALID_ARGUMENT, "the address of the remote cache lacks a ']'");
        *bracket = 0;
        end = bracket + 1;
    }
    out->port = "6379";
    if (*end == ':' && end[1]) out->port = end + 1;
    if (*end) *end = 0;
    out->host = *rest ? rest : "127.0.0.1";
    if (out->port[strspn(out->port, "0123456789")] || atol(out->port) < 1 ||
        atol(out->port) > 65535)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is no port of a remote cache", out->port);
    return NULL;
}

static hn_status take_server(hn_remote_address *out, char *rest) {
    char db[40] = "db=";
    char *at = strrchr(rest, '@'), *slash = strchr(at ? at : rest, '/');
    if (slash) {
        *slash = 0;
        if (strlen(slash + 1) + sizeof("db=") > sizeof(db))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "the number of the remote cache's database is too long");
        strcat(db, slash + 1);
        if (slash[1]) HN_TRY(set_option(&out->config, db));
    }
    take_credentials(out, &rest);
    return take_host(out, rest);
}

hn_status hn_remote_address_parse(const char *url, hn_remote_address *out) {
    static const char tcp[] = "redis://", local[] = "unix://";
    *out = (hn_remote_address){.config = {.connect_ms = 250,
                                          .command_ms = 1000,
                                          .lease_ms = 5000,
                                          .ttl_s = 30 * 24 * 3600,
                                          .max_bytes = 64 << 20}};
    if (strlen(url) >= sizeof(out->storage))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the address of the remote cache is too long");
    strcpy(out->storage, url);
    char *options = strchr(out->storage, '?');
    if (options) {
        *options++ = 0;
        HN_TRY(set_options(&out->config, options));
    }
    if (strncmp(url, tcp, strlen(tcp)) == 0) return take_server(out, out->storage + strlen(tcp));
    if (strncmp(url, local, strlen(local)) != 0)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "the address of the remote cache starts neither with redis:// nor with unix://");
    char *rest = out->storage + strlen(local);
    if (*rest != '/') take_credentials(out, &rest);
    out->path = rest;
    if (*rest != '/')
        return HN_ERROR(HN_INVALID_ARGUMENT, "unix:// of the remote cache needs an absolute path");
    return NULL;
}

void hn_remote_address_name(const hn_remote_address *address, char out[256]) {
    if (address->path) snprintf(out, 256, "unix://%s", address->path);
    else
        snprintf(out, 256, "redis://%s:%s/%lld", address->host, address->port,
                 (long long)address->config.db);
}
