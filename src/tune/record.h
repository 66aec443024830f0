/* record.h: tuning records: what was measured of the forms of one kernel at one set of sizes on one
 * device, and which form was picked. docs/tuning.md describes the text form, one record a line.
 *
 * A record is good for the kernel, the set of forms and the device that it names. The set are the
 * forms that the planner had to offer; a form that a search found besides is `is_extra` and no part
 * of the set, so that a search does not make its own record stale. */
#ifndef HN_TUNE_RECORD_H
#define HN_TUNE_RECORD_H

#include "base/arena.h"
#include "base/hash.h"

enum {
    HN_TUNING_VERSION = 1, /* of the text form: raised when a field changes its meaning */
    HN_TUNING_FORMS_MAX = 64,
    HN_TUNING_SIZES_MAX = 8,  /* symbols of one kernel */
    HN_TUNING_TEXT_MAX = 240, /* bytes of a name, of parameters, of a field of the device */
    HN_TUNING_LINE_MAX = 64 << 10
};

/* Takes the next line off the front of a device. False at its end, and in front of what is no such
 * line: then `rest->len` is not 0. */
bool hn_device_field_next(hn_str *rest, hn_str *out_name, hn_str *out_value);
void hn_device_field_add(hn_strbuf *device, hn_str name, hn_str value);

/* A form of a kernel: its kind, and what the planner chose within it. All texts of a record are
 * printable ASCII; the name has no blanks. */
typedef struct hn_form_name {
    hn_str name;       /* "rows" */
    hn_str parameters; /* "lanes=16 grain=4096"; may be empty */
} hn_form_name;

/* Units: nanoseconds of one run of the kernel. */
typedef struct hn_form_timing {
    hn_form_name form;
    /* the median of the samples and an interval of confidence around it; all 0: not timed */
    double median_ns, low_ns, high_ns;
    uint32_t samples; /* 0: not timed */
    /* its time over that of the form that won, in the same rounds of a race, and the interval that
     * it lies in; the winner's are all 1, so a pick whose are not was changed by somebody. All 0:
     * not known */
    double ratio, ratio_low, ratio_high;
    double predicted_ns; /* by the cost model; 0: it has no opinion */
    bool is_extra;       /* found by a search, no part of the set */
    hn_str dropped;      /* why it takes no part: "does not build: ..."; empty: it does */
} hn_form_timing;

typedef enum hn_tuning_how {
    HN_TUNING_MODEL,   /* by the cost model; nothing was timed */
    HN_TUNING_TIMED,   /* the fastest of the set */
    HN_TUNING_DESCENT, /* the fastest of those that a search found */
    HN_TUNING_FORCED,  /* somebody said so: it need not have been timed, and nothing else counts */
    HN_TUNING_HOW_COUNT
} hn_tuning_how;
const char *hn_tuning_how_name(hn_tuning_how how); /* "timed" */

typedef struct hn_tuning_record {
    hn_str kernel;    /* for people: "softmax"; no part of the identity */
    hn_digest digest; /* of the kernel, whatever its form: driver/variants.h */
    /* the values of the kernel's size symbols, in the order of the digest; names are for people */
    uint32_t size_count;
    int64_t sizes[HN_TUNING_SIZES_MAX];
    hn_str symbols[HN_TUNING_SIZES_MAX];
    hn_str device; /* what tells it from others, as lines "name=value": device.h */
    hn_form_timing *forms;
    uint32_t form_count; /* 1 or more */
    uint32_t pick;       /* of `forms` */
    hn_tuning_how how;
    hn_str tool; /* "henry 0.1.0", which wrote it */
} hn_tuning_record;

/* Everything that a record must hold, wherever it comes from. Errors: invalid-argument, naming
 * what. */
hn_status hn_tuning_record_check(const hn_tuning_record *r) HN_MUST_USE;

/* The digest of the set of forms: independent of their order, and of extra ones. */
hn_digest hn_form_set_digest(const hn_form_name *forms, uint32_t count);
hn_digest hn_tuning_record_set(const hn_tuning_record *r);
bool hn_form_name_eq(const hn_form_name *a, const hn_form_name *b);
/* "rows lanes=16 grain=4096". */
void hn_form_name_print(const hn_form_name *form, hn_strbuf *out);
/* Of kernel, set, device and sizes: of two records with the same one the later replaces the
 * other. */
hn_digest hn_tuning_record_identity(const hn_tuning_record *r);

/* Whether the pick is the form that won, as its ratios say. */
bool hn_tuning_record_has_winner(const hn_tuning_record *r);
/* Whether the pick is certain: every other form that was timed certainly takes longer, by ratios
 * where they are known, else by intervals that do not meet. `out_margin`: how much longer the
 * second one takes, 0.25 is a quarter; 0 with one. */
bool hn_tuning_record_is_certain(const hn_tuning_record *r, double *out_margin);

/* Appends the record as one line, fields in a fixed order. */
void hn_tuning_record_print(const hn_tuning_record *r, hn_strbuf *out);
/* Reads one line. Unknown fields are left out. A pick that was not timed, or did not win, is
 * "forced", whatever the line says.
 * Owns: strings and lists live in `arena` or in `line`. Errors: corrupt, naming the byte and what
 * was expected; incompatible for a later version; out-of-memory. */
hn_status hn_tuning_record_parse(hn_arena *arena, hn_str line, hn_tuning_record *out) HN_MUST_USE;

#endif
