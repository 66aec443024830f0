/* record.h: lists of (field name, value) in one canonical byte form.
 *
 * A key record names everything that a result depends on, in a fixed order; the digest of its bytes
 * is the key of the result. The same form carries jobs to workers. Layout: for each field a 16-bit
 * name length, a 32-bit value length (both little-endian), the name, the value. Records that are
 * read may come from a disk or another process, so every length is checked. */
#ifndef HN_CACHE_RECORD_H
#define HN_CACHE_RECORD_H

#include "base/str.h"
#include "henry/status.h"

#include <stdint.h>

/* Appends a field. Errors latch in `record`: too long a name (64 KiB) or value (4 GiB) fails it. */
void hn_record_add(hn_strbuf *record, const char *name, hn_str value);
void hn_record_add_i64(hn_strbuf *record, const char *name, int64_t value);

typedef struct hn_record_field {
    hn_str name, value; /* borrowed from the record */
} hn_record_field;

/* Takes the next field off the front of `*rest`. False at the end; then `rest->len` is 0 unless the
 * record is damaged. */
bool hn_record_next(hn_str *rest, hn_record_field *out_field);

/* Errors: corrupt when the lengths do not add up. */
hn_status hn_record_check(hn_str record) HN_MUST_USE;

/* The first field called `name`. False when there is none; then `*out_value` is empty. */
bool hn_record_find(hn_str record, const char *name, hn_str *out_value);
/* A decimal field; `fallback` when missing or not a number. */
int64_t hn_record_find_i64(hn_str record, const char *name, int64_t fallback);

/* The record with every value longer than HN_RECORD_VALUE_BYTES replaced by its length and digest:
 * small enough to be stored beside each entry, exact enough to tell which field changed. */
enum { HN_RECORD_VALUE_BYTES = 256 };
hn_status hn_record_summarise(hn_str record, hn_strbuf *out) HN_MUST_USE;

/* How many fields differ between two summaries; with `out`, one line for each: "field 'flags' was
 * '-O2', is '-O3'". A field that only one of them has counts. */
uint32_t hn_record_diff(hn_str old_record, hn_str new_record, hn_strbuf *out);

/* One line for each field: "field 'flags' is '-O2'". */
void hn_record_print(hn_str record, hn_strbuf *out);

#endif
