/* retable.h: a bundle with other tables that say which variants run: what a tuning of it writes. */
#ifndef HN_BUNDLE_RETABLE_H
#define HN_BUNDLE_RETABLE_H

#include "bundle/view.h"

typedef struct hn_bundle_tables {
    const hnb_choice *choices; /* as many as the bundle has; of the same variants */
    const hn_choice_box *boxes;
    uint32_t box_count;
    hn_str tuning; /* records */
} hn_bundle_tables;

/* Appends the file of `b` with these tables and records to `out`, which must be empty. All else is
 * the same byte for byte, but offsets, and the digest; nobody has signed it. `b` has all parts of
 * its file. Errors: unsupported for a file of several programs; corrupt for tables that the bundle
 * cannot have. */
hn_status hn_bundle_retable(const hn_bundle *b, const hn_bundle_tables *tables,
                            hn_strbuf *out) HN_MUST_USE;

#endif
