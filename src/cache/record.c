/* record.c: writing, reading and comparing records. */
#include "cache/record.h"

#include "base/hash.h"

#include <limits.h>
#include <stdlib.h>

enum { HEADER_BYTES = 6 };

void hn_record_add(hn_strbuf *record, const char *name, hn_str value) {
    size_t name_len = strlen(name);
    if (name_len > UINT16_MAX || value.len > UINT32_MAX) {
        record->failed = true;
        return;
    }
    const char header[HEADER_BYTES] = {
        (char)name_len,         (char)(name_len >> 8),   (char)value.len,
        (char)(value.len >> 8), (char)(value.len >> 16), (char)(value.len >> 24),
    };
    hn_strbuf_append(record, header, sizeof(header));
    hn_strbuf_append(record, name, name_len);
    hn_strbuf_append(record, value.ptr, value.len);
}

void hn_record_add_i64(hn_strbuf *record, const char *name, int64_t value) {
    char text[24];
    int len = snprintf(text, sizeof(text), "%lld", (long long)value);
    hn_record_add(record, name, (hn_str){text, (size_t)len});
}

bool hn_record_next(hn_str *rest, hn_record_field *out_field) {
    if (rest->len < HEADER_BYTES) return false;
    const unsigned char *h = (const unsigned char *)rest->ptr;
    size_t name_len = (size_t)h[0] | (size_t)h[1] << 8;
    size_t value_len = (size_t)h[2] | (size_t)h[3] << 8 | (size_t)h[4] << 16 | (size_t)h[5] << 24;
    size_t left = rest->len - HEADER_BYTES;
    if (name_len > left || value_len > left - name_len) return false;
    const char *name = rest->ptr + HEADER_BYTES;
    *out_field = (hn_record_field){{name, name_len}, {name + name_len, value_len}};
    *rest = (hn_str){name + name_len + value_len, left - name_len - value_len};
    return true;
}

hn_status hn_record_check(hn_str record) {
    hn_record_field field;
    while (hn_record_next(&record, &field)) {
    }
    if (record.len)
        return HN_ERROR(HN_CORRUPT, "damaged record: %zu bytes at its end make no field",
                        record.len);
    return NULL;
}

bool hn_record_find(hn_str record, const char *name, hn_str *out_value) {
    hn_str wanted = hn_str_of(name);
    hn_record_field field;
    while (hn_record_next(&record, &field)) {
        if (!hn_str_eq(field.name, wanted)) continue;
        *out_value = field.value;
        return true;
    }
    *out_value = HN_STR("");
    return false;
}

int64_t hn_record_find_i64(hn_str record, const char *name, int64_t fallback) {
    hn_str value;
    char text[24];
    if (!hn_record_find(record, name, &value) || value.len == 0 || value.len >= sizeof(text))
        return fallback;
    memcpy(text, value.ptr, value.len);
    text[value.len] = 0;
    char *end;
    long long number = strtoll(text, &end, 10);
    return *end ? fallback : number;
}

static void summarise_value(hn_strbuf *out, const char *name, hn_str value) {
    char hex[HN_DIGEST_HEX_BYTES], text[HN_DIGEST_HEX_BYTES + 48];
    hn_digest digest = hn_digest_of(value.ptr, value.len);
    hn_digest_hex(&digest, hex);
    int len = snprintf(text, sizeof(text), "%zu bytes, digest %s", value.len, hex);
    hn_record_add(out, name, (hn_str){text, (size_t)len});
}

hn_status hn_record_summarise(hn_str record, hn_strbuf *out) {
    HN_TRY(hn_record_check(record));
    hn_record_field field;
    while (hn_record_next(&record, &field)) {
        char name[64];
        size_t len = field.name.len < sizeof(name) ? field.name.len : sizeof(name) - 1;
        memcpy(name, field.name.ptr, len);
        name[len] = 0;
        if (field.value.len > HN_RECORD_VALUE_BYTES) summarise_value(out, name, field.value);
        else hn_record_add(out, name, field.value);
    }
    return hn_strbuf_status(out);
}

/* Values are lists with NUL between the members, or text: NUL and line ends become spaces. */
static void print_value(hn_strbuf *out, hn_str value) {
    hn_strbuf_putc(out, '\'');
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c == 0 && i + 1 == value.len) break;
        hn_strbuf_putc(out, c < ' ' || c == 0x7f ? ' ' : (char)c);
    }
    hn_strbuf_putc(out, '\'');
}

static void print_difference(hn_strbuf *out, hn_str name, const hn_str *was, const hn_str *is) {
    if (!out) return;
    hn_strbuf_puts(out, "field ");
    print_value(out, name);
    if (was) {
        hn_strbuf_puts(out, " was ");
        print_value(out, *was);
    } else {
        hn_strbuf_puts(out, " did not exist");
    }
    hn_strbuf_puts(out, is ? ", is " : ", no longer exists");
    if (is) print_value(out, *is);
    hn_strbuf_putc(out, '\n');
}

void hn_record_print(hn_str record, hn_strbuf *out) {
    hn_record_field field;
    while (hn_record_next(&record, &field)) {
        hn_strbuf_puts(out, "field ");
        print_value(out, field.name);
        hn_strbuf_puts(out, " is ");
        print_value(out, field.value);
        hn_strbuf_putc(out, '\n');
    }
}

static bool find_field(hn_str record, hn_str name, hn_str *out_value) {
    hn_record_field field;
    while (hn_record_next(&record, &field)) {
        if (!hn_str_eq(field.name, name)) continue;
        *out_value = field.value;
        return true;
    }
    return false;
}

uint32_t hn_record_diff(hn_str old_record, hn_str new_record, hn_strbuf *out) {
    uint32_t count = 0;
    hn_record_field field;
    hn_str other;
    for (hn_str rest = new_record; hn_record_next(&rest, &field);) {
        bool is_old = find_field(old_record, field.name, &other);
        if (is_old && hn_str_eq(other, field.value)) continue;
        count++;
        print_difference(out, field.name, is_old ? &other : NULL, &field.value);
    }
    for (hn_str rest = old_record; hn_record_next(&rest, &field);) {
        if (find_field(new_record, field.name, &other)) continue;
        count++;
        print_difference(out, field.name, &field.value, NULL);
    }
    return count;
}
