/* list.h: many tuning records: a file of them, one a line, and what is known of one kernel. */
#ifndef HN_TUNE_LIST_H
#define HN_TUNE_LIST_H

#include "base/map.h"
#include "tune/record.h"

enum { HN_TUNING_RECORDS_MAX = 65536 };
#define HN_TUNING_BYTES_MAX ((size_t)256 << 20) /* of a file */

/* Owns: what records point to is borrowed; the lists are in `arena`. */
typedef struct hn_tuning_list {
    hn_arena *arena;
    hn_tuning_record *items;
    uint32_t count, cap;
    hn_strmap places;  /* identity of a record -> its index */
    hn_strmap kernels; /* digest of a kernel -> 1 + the index of its last record */
    struct {           /* of each record: 1 + the index of the one before of its kernel; 0: none */
        uint32_t *items;
        uint32_t count, cap;
    } before;
} hn_tuning_list;

void hn_tuning_list_init(hn_tuning_list *list, hn_arena *arena);

/* Lines that are no records, and are left out. */
typedef struct hn_tuning_damage {
    uint32_t lines; /* how many; 0: none, and the rest is not set */
    uint32_t first; /* the number of the first one, from 1 */
    char what[200]; /* of that one */
} hn_tuning_damage;

/* Reads the lines of a text; empty ones are nothing. Records follow those that are there. A later
 * one replaces an earlier one of the same identity. Lines that are no records, and what is behind
 * HN_TUNING_RECORDS_MAX, are left out.
 * Owns: strings live in the list's arena or in `text`. Errors: out-of-memory. */
hn_status hn_tuning_list_parse(hn_tuning_list *list, hn_str text,
                               hn_tuning_damage *out_damage) HN_MUST_USE;
/* The same of a file; damage is one warning. Owns: everything lives in the list's arena. Errors:
 * not-found, io; invalid-argument for a file that is too large. */
hn_status hn_tuning_list_read(hn_tuning_list *list, const char *path) HN_MUST_USE;
/* One warning; nothing without damage. `where`: "'tuning.json'". */
void hn_tuning_damage_warn(const hn_tuning_damage *damage, const char *where);

/* Adds one, or puts it in the place of the one that it replaces. Errors: out-of-memory. */
hn_status hn_tuning_list_add(hn_tuning_list *list, const hn_tuning_record *record) HN_MUST_USE;
/* The one with this identity; NULL: there is none. */
const hn_tuning_record *hn_tuning_list_find(const hn_tuning_list *list, const hn_digest *identity);
/* The records of a kernel, the last one first: `at` is 0 first; NULL behind the last. */
const hn_tuning_record *hn_tuning_list_next(const hn_tuning_list *list, const hn_digest *kernel,
                                            uint32_t *at);
/* A line for each: by name and digest of the kernel, device, set of forms and sizes. So the same
 * records are the same bytes, and a new one is a new line. Errors latch in `out`. */
void hn_tuning_list_print(const hn_tuning_list *list, hn_strbuf *out);
/* The same as a file, published by rename. Errors: io, out-of-memory. */
hn_status hn_tuning_list_write(const hn_tuning_list *list, const char *path) HN_MUST_USE;

#endif
