/* entry.c: see entry.h. */
#include "cache/entry.h"

#include "cache/record.h"

#include <time.h>
#include <xxhash.h>

enum { RECORD_LIMIT_BYTES = 1 << 20 };

void hn_entry_summarise(hn_str record, hn_strbuf *out) {
    hn_status status = hn_record_summarise(record, out);
    /* an entry without reasons */
    if (status || out->len > RECORD_LIMIT_BYTES) hn_strbuf_reset(out);
    hn_status_free(status);
}

/* A checksum of the checksums of the three parts; the footer's own field is not part of it. */
static void checksum_of(const void *payload, size_t payload_len, hn_str record,
                        const hn_entry_footer *footer, uint8_t out[16]) {
    hn_entry_footer rest = *footer;
    memset(rest.checksum, 0, sizeof(rest.checksum));
    const XXH128_hash_t parts[3] = {
        XXH3_128bits(payload, payload_len),
        XXH3_128bits(record.ptr, record.len),
        XXH3_128bits(&rest, sizeof(rest)),
    };
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(parts, sizeof(parts)));
    memcpy(out, canonical.digest, sizeof(canonical.digest));
}

void hn_entry_seal(const hn_store_put_args *args, hn_str summary, hn_entry_footer *out) {
    int64_t now = time(NULL);
    *out = (hn_entry_footer){
        .payload_bytes = args->len,
        .record_bytes = summary.len,
        .created_s = now,
        .expires_s = args->lifetime_s > 0 ? now + args->lifetime_s : 0,
        .ns = (uint32_t)args->ns,
        .flags = args->is_failure ? HN_ENTRY_FLAG_FAILURE : 0,
        .version = HN_ENTRY_VERSION,
        .made_us =
            args->made_ns / 1000 < UINT32_MAX ? (uint32_t)(args->made_ns / 1000) : UINT32_MAX,
    };
    memcpy(out->key, args->key->bytes, sizeof(out->key));
    memcpy(out->magic, HN_ENTRY_MAGIC, sizeof(out->magic));
    checksum_of(args->bytes, args->len, summary, out, out->checksum);
}

void hn_entry_encode(const hn_store_put_args *args, hn_strbuf *out) {
    hn_strbuf summary;
    hn_entry_footer footer;
    hn_strbuf_init(&summary);
    hn_entry_summarise(args->record, &summary);
    hn_entry_seal(args, hn_strbuf_str(&summary), &footer);
    hn_strbuf_append(out, args->bytes, args->len);
    hn_strbuf_append(out, hn_strbuf_str(&summary).ptr, summary.len);
    hn_strbuf_append(out, (const char *)&footer, sizeof(footer));
    hn_strbuf_deinit(&summary);
}

hn_status hn_entry_verify(const void *bytes, size_t len, hn_store_ns ns, const hn_digest *key,
                          hn_entry_footer *out_footer) {
    hn_entry_footer *f = out_footer;
    if (len < sizeof(*f)) return HN_ERROR(HN_CORRUPT, "entry is cut short");
    memcpy(f, (const char *)bytes + len - sizeof(*f), sizeof(*f));
    if (memcmp(f->magic, HN_ENTRY_MAGIC, sizeof(f->magic)) != 0)
        return HN_ERROR(HN_CORRUPT, "entry does not end as one; it was cut short or is no entry");
    if (f->version != HN_ENTRY_VERSION)
        return HN_ERROR(HN_INCOMPATIBLE, "entry has format %u, this is format %u", f->version,
                        HN_ENTRY_VERSION);
    size_t body = len - sizeof(*f);
    if (f->payload_bytes > body || f->record_bytes != body - f->payload_bytes)
        return HN_ERROR(HN_CORRUPT, "lengths in the entry do not add up to its size");
    uint8_t checksum[16];
    hn_str record = {(const char *)bytes + f->payload_bytes, (size_t)f->record_bytes};
    checksum_of(bytes, (size_t)f->payload_bytes, record, f, checksum);
    if (memcmp(checksum, f->checksum, sizeof(checksum)) != 0)
        return HN_ERROR(HN_CORRUPT, "checksum of the entry does not match its bytes");
    if (key && memcmp(key->bytes, f->key, sizeof(f->key)) != 0)
        return HN_ERROR(HN_CORRUPT, "entry is for another key");
    if (f->ns >= HN_STORE_NS_COUNT || (ns != HN_STORE_NS_COUNT && f->ns != (uint32_t)ns))
        return HN_ERROR(HN_CORRUPT, "entry is of another kind");
    return NULL;
}

void hn_entry_view(const void *bytes, const hn_entry_footer *footer, hn_store_entry *out) {
    size_t len = (size_t)footer->payload_bytes;
    *out = (hn_store_entry){
        .bytes = bytes,
        .len = len,
        .record = {(const char *)bytes + len, (size_t)footer->record_bytes},
        .is_failure = (footer->flags & HN_ENTRY_FLAG_FAILURE) != 0,
        .created_s = footer->created_s,
        .expires_s = footer->expires_s,
        .made_ns = (int64_t)footer->made_us * 1000,
        .fd = -1,
    };
}

bool hn_entry_is_expired(const hn_entry_footer *footer) {
    return footer->expires_s && footer->expires_s <= time(NULL);
}
