/* tuning.c: tuning records: a caller's measurements of several candidates, kept where compiled code
 * is kept. */
#include "service/service.h"

#include "cache/record.h"

enum { TUNING_REVISION = 1 };

/* The facts in the order of the caller: they are part of a key, and `henry cache why` compares them
 * one by one. */
static hn_status build_key_record(const hn_tuning_key *key, hn_strbuf *out) {
    if (!key->fact_count)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "a tuning record needs facts; name the candidates, the sizes and the device");
    hn_record_add_i64(out, "tuning", TUNING_REVISION);
    for (size_t i = 0; i < key->fact_count; i++) {
        const char *fact = key->facts[i], *value = strchr(fact, '=');
        char name[64];
        if (!value || value == fact || (size_t)(value - fact) >= sizeof(name))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "fact '%.80s' is not \"name=value\" with a name of 1 to %zu bytes",
                            fact, sizeof(name) - 1);
        snprintf(name, sizeof(name), "%.*s", (int)(value - fact), fact);
        hn_record_add(out, name, hn_str_of(value + 1));
    }
    return hn_strbuf_status(out);
}

/* Owns: `key_record` is the caller's, whatever the status. */
static hn_status begin(hn_service *service, const hn_tuning_key *key, hn_strbuf *key_record,
                       hn_digest *digest, hn_cache **cache) {
    hn_strbuf_init(key_record);
    HN_TRY(build_key_record(key, key_record));
    *digest = hn_digest_of(key_record->ptr, key_record->len);
    return hn_service_cache(service, cache);
}

hn_status hn_service_tuning_put(hn_service *service, const hn_tuning_key *key, const void *tuning,
                                size_t len) {
    hn_strbuf key_record;
    hn_digest digest;
    hn_cache *cache;
    hn_status status = begin(service, key, &key_record, &digest, &cache);
    if (!status) hn_tuning_put(cache, &digest, (hn_str){tuning, len}, hn_strbuf_str(&key_record));
    hn_strbuf_deinit(&key_record);
    return status;
}

hn_status hn_service_tuning_get(hn_service *service, const hn_tuning_key *key, void *out,
                                size_t bytes, size_t *out_len) {
    hn_strbuf key_record, tuning;
    hn_digest digest;
    hn_cache *cache;
    hn_strbuf_init(&tuning);
    hn_status status = begin(service, key, &key_record, &digest, &cache);
    bool is_there = !status && hn_tuning_get(cache, &digest, &tuning);
    if (!status && tuning.failed) status = hn_strbuf_status(&tuning);
    if (!status && !is_there) status = HN_ERROR(HN_NOT_FOUND, "nothing was measured for this yet");
    if (!status) {
        *out_len = tuning.len;
        memcpy(out, hn_strbuf_str(&tuning).ptr, tuning.len < bytes ? tuning.len : bytes);
    }
    hn_strbuf_deinit(&key_record);
    hn_strbuf_deinit(&tuning);
    return status;
}
