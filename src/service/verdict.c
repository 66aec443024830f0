/* verdict.c: what was measured, kept where compiled code is kept: for those who have several ways of computing the same. */
#include "service/service.h"

#include "cache/record.h"

enum { VERDICT_REVISION = 1 };

/* The facts in the order of the caller: they are part of a key, and `henry cache why` compares them one by one. */
static hn_status build_record(const hn_verdict_question *question, hn_strbuf *out) {
    if (!question->fact_count) return HN_ERROR(HN_INVALID_ARGUMENT, "a verdict is of no facts; name the ways, the sizes and the device");
    hn_record_add_i64(out, "verdict", VERDICT_REVISION);
    for (size_t i = 0; i < question->fact_count; i++) {
        const char *fact = question->facts[i], *value = strchr(fact, '=');
        char name[64];
        if (!value || value == fact || (size_t)(value - fact) >= sizeof(name))
            return HN_ERROR(HN_INVALID_ARGUMENT, "fact '%.80s' is not \"name=value\" with a name of 1 to %zu bytes", fact, sizeof(name) - 1);
        snprintf(name, sizeof(name), "%.*s", (int)(value - fact), fact);
        hn_record_add(out, name, hn_str_of(value + 1));
    }
    return hn_strbuf_status(out);
}

/* Owns: `record` is the caller's, whatever the status. */
static hn_status begin(hn_service *service, const hn_verdict_question *question, hn_strbuf *record, hn_digest *key, hn_cache **cache) {
    hn_strbuf_init(record);
    HN_TRY(build_record(question, record));
    *key = hn_digest_of(record->ptr, record->len);
    return hn_service_cache(service, cache);
}

hn_status hn_service_verdict_put(hn_service *service, const hn_verdict_question *question, const void *verdict, size_t len) {
    hn_strbuf record;
    hn_digest key;
    hn_cache *cache;
    hn_status status = begin(service, question, &record, &key, &cache);
    if (!status) hn_verdict_put(cache, &key, (hn_str){verdict, len}, hn_strbuf_str(&record));
    hn_strbuf_deinit(&record);
    return status;
}

hn_status hn_service_verdict_get(hn_service *service, const hn_verdict_question *question, void *out, size_t bytes, size_t *out_len) {
    hn_strbuf record, verdict;
    hn_digest key;
    hn_cache *cache;
    hn_strbuf_init(&verdict);
    hn_status status = begin(service, question, &record, &key, &cache);
    bool is_there = !status && hn_verdict_get(cache, &key, &verdict);
    if (!status && verdict.failed) status = hn_strbuf_status(&verdict);
    if (!status && !is_there) status = HN_ERROR(HN_NOT_FOUND, "nothing was measured for this yet");
    if (!status) {
        *out_len = verdict.len;
        memcpy(out, hn_strbuf_str(&verdict).ptr, verdict.len < bytes ? verdict.len : bytes);
    }
    hn_strbuf_deinit(&record);
    hn_strbuf_deinit(&verdict);
    return status;
}
