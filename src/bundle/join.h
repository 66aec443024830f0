/* join.h: several programs of one model into one file. */
#ifndef HN_BUNDLE_JOIN_H
#define HN_BUNDLE_JOIN_H

#include "base/file.h"
#include "bundle/view.h"

/* A bundle with one program, and the bytes of the weights file that it refers to (an empty map when
 * there is none). */
typedef struct hn_join_part {
    hn_bundle bundle;
    hn_file_map weights;
} hn_join_part;

/* Appends a file with these programs, two or more, each for another device, to `out`, which must be
 * empty. The first is the one that runs when nobody asks for a device. Weights and constants with
 * equal bytes are stored once: those of the first part's weights file stay there; with
 * `embed_weights` they move into the file. What another part's weights file has beyond that is
 * embedded. Errors: invalid-argument for two programs for one device; corrupt. */
hn_status hn_bundle_join(const hn_join_part *parts, uint32_t count, bool embed_weights,
                         hn_strbuf *out) HN_MUST_USE;

#endif
