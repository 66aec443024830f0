/* known.h: what a model was tuned with: the tuning records of its kernels on this machine, as one
 * entry of the cache. A later compilation of the model makes the same program of them, without a
 * look at what other models have measured since: its key has their digest. */
#ifndef HN_DRIVER_KNOWN_H
#define HN_DRIVER_KNOWN_H

#include "driver/driver.h"
#include "front/importer.h"

typedef struct hn_known_tuning {
    hn_digest key; /* of the entry */
    hn_strbuf key_record;
    hn_strbuf text;   /* of the entry; empty: the model was not tuned */
    hn_str records;   /* in it */
    bool is_complete; /* for the hints of the options: nothing is left to be timed */
} hn_known_tuning;

void hn_known_tuning_init(hn_known_tuning *known);
void hn_known_tuning_deinit(hn_known_tuning *known);
/* Of the model in `file`. `record`: the key of its program, without what was measured; where
 * weights and memory lie does not count. Errors: those of the importer's key_parts;
 * out-of-memory. */
hn_status hn_known_tuning_find(hn_driver *d, hn_cache *cache, hn_model_file *file, hn_str record,
                               hn_known_tuning *out) HN_MUST_USE;
/* Sets the records and what is said of them by the text; none where it is damaged. Errors:
 * out-of-memory. */
hn_status hn_known_tuning_read(hn_driver *d, hn_known_tuning *known) HN_MUST_USE;
/* Keeps what a tuning came to. What disk and server refuse is no error. */
hn_status hn_known_tuning_keep(hn_driver *d, hn_cache *cache, hn_known_tuning *known,
                               hn_str records, bool is_complete) HN_MUST_USE;
/* Whether the model was tuned before, with whatever options, on whatever device. */
bool hn_known_tuning_was_ever(hn_cache *cache, const hn_known_tuning *known);
/* For a graph that the passes have left: appends a line for each kernel of several forms: at which
 * sizes it was tuned, or why no record counts. Errors: those of planning; out-of-memory. */
hn_status hn_driver_why_tuning(hn_driver *d, hn_strbuf *out) HN_MUST_USE;
/* Appends the field of the key that stands for these records and the file that the options name;
 * nothing where the model of costs decides. Errors: those of reading the file. */
hn_status hn_known_tuning_add_field(hn_driver *d, hn_str records, hn_strbuf *record) HN_MUST_USE;

#endif
