/* internal.h: shared by the files of src/bundle. */
#ifndef HN_BUNDLE_INTERNAL_H
#define HN_BUNDLE_INTERNAL_H

#include "bundle/view.h"

/* What each section is: its struct's size, the fewest elements, and where its pointer and count lie
 * in the view. */
typedef struct hn_section_facts {
    const char *name;
    uint32_t elem_bytes;
    uint32_t min_count, max_count; /* UINT32_MAX: no limit of its own */
    bool is_extra;                 /* HNB_SECTION_EXTRA */
} hn_section_facts;
extern const hn_section_facts hn_bundle_sections[HNB_SECTION_KIND_COUNT];

/* names.c: words of both descriptions. */
extern const char *const hn_bundle_value_kinds[HNB_VALUE_KIND_COUNT];
extern const char *const hn_bundle_buffer_kinds[HNB_BUFFER_KIND_COUNT];
extern const char *const hn_bundle_places[HNB_STORAGE_WHERE_COUNT],
    *const hn_bundle_target_kinds[HNB_TARGET_KIND_COUNT];
/* Of what kind of target an object is. `kind` is in range. */
hnb_target_kind hn_bundle_object_target(uint32_t kind);
double hn_bundle_double(uint64_t bits);

/* Checks every index and enum of an opened view whose sections are in bounds. */
hn_status hn_bundle_check(const hn_bundle *b) HN_MUST_USE;

/* check_pieces.c: storages that are made of others, when all storages are good by themselves. */
hn_status hn_bundle_check_pieces(const hn_bundle *b) HN_MUST_USE;

/* records.c: every record, when steps and expressions are good. */
hn_status hn_bundle_check_records(const hn_bundle *b) HN_MUST_USE;
/* "records": a list, in front of which stands a comma. */
void hn_bundle_records_json(const hn_bundle *b, hn_strbuf *out);

/* tuning.c: a line for each tuning record; and "tuning": a list, in front of which stands a comma,
 * where there are any. Lines that are no JSON are left out. */
void hn_bundle_tuning_text(const hn_bundle *b, hn_strbuf *out);
void hn_bundle_tuning_json(const hn_bundle *b, hn_strbuf *out);

/* describe.c: how a kernel is called: " [s0] extent s0 grain 8". */
void hn_bundle_launch_text(const hn_bundle *b, const hnb_launch *l, hn_strbuf *out);
/* describe_variants.c: of a step with variants, lines for each target: how they are called, and
 * when; and "choices": a list, in front of which stands a comma, where there are any. */
void hn_bundle_variants_text(const hn_bundle *b, uint32_t step, hn_strbuf *out);
void hn_bundle_choices_json(const hn_bundle *b, hn_strbuf *out);

/* hn_bundle_open of a program of `file`; NULL: of a file. */
hn_status hn_bundle_open_in(const hn_bundle *file, const void *bytes, size_t len, bool check_digest,
                            bool is_of_weights, hn_bundle *out) HN_MUST_USE;
/* hn_bundle_check_code without the objects of other programs. */
hn_status hn_bundle_check_own_code(const hn_bundle *b) HN_MUST_USE;
/* weights_program.c: where it is, and storages that are its outputs, or those of a program around
 * it, when all else of the storages is good. `*behind`: where the objects end in part two, and then
 * the program. */
hn_status hn_bundle_check_computed(const hn_bundle *b, uint64_t *behind) HN_MUST_USE;
/* Opens the program of weights, if there is one. */
hn_status hn_bundle_weights_program_check(const hn_bundle *b, bool check_digest) HN_MUST_USE;
/* programs.c: the table of programs. What is in them is checked when one is opened. `behind`: where
 * the objects end in part two. */
hn_status hn_bundle_check_programs(const hn_bundle *b, uint64_t behind) HN_MUST_USE;

#endif
