/* variants.h: the programs of one graph by the sizes that they take.
 *
 * A compilation may decide something by the sizes that it expects, and then guards it: "s0 == 1",
 * "s0 % 4 == 0". Calls that break a guard need another program of the same graph. A table lists
 * each variant with its guards, the oldest first. Its bytes are the value of an entry of the store.
 * What guards say is for driver/graph_guards.h: here equal bytes are equal guards. */
#ifndef HN_CACHE_VARIANTS_H
#define HN_CACHE_VARIANTS_H

#include "base/hash.h"
#include "base/str.h"

/* The oldest ones go when there are more, but not the default one: a lookup compares one after the
 * other. */
enum { HN_VARIANTS_MAX = 256 };

typedef struct hn_variant {
    hn_digest key;   /* of the program */
    bool is_default; /* the one for callers that say no sizes */
    hn_str guards;   /* borrowed from the table */
} hn_variant;

/* Appends the table `old` (may be empty) with one more variant. One with the same guards is
 * replaced, at its place. A table that cannot be read counts as empty. Errors: out-of-memory. */
hn_status hn_variants_add(hn_str old, const hn_variant *variant, hn_strbuf *out) HN_MUST_USE;
/* Appends the union of two tables; of equal guards those in `newer` win. */
hn_status hn_variants_merge(hn_str older, hn_str newer, hn_strbuf *out) HN_MUST_USE;

/* Whether the bytes are a whole table. */
bool hn_variants_is_table(hn_str bytes);
/* The next variant: `at` is 0 first. False at the end, and at once for bytes that are no table. */
bool hn_variants_next(hn_str table, size_t *at, hn_variant *out);

#endif
