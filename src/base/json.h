/* json.h: a pull reader over JSON text. It builds no tree: the caller asks for the value that it
 * expects next, and a value that it does not want is skipped at memory speed.
 *
 * A reader is a plain struct: copying it marks a place to come back to (`hn_json mark = *json`).
 *
 *     HN_TRY(hn_json_object(json));
 *     for (hn_str key; hn_json_key(json, &key);) {
 *         if (hn_str_eq(key, HN_STR("name"))) HN_TRY(hn_json_string(json, &name));
 *         else HN_TRY(hn_json_skip(json));
 *     }
 *     HN_TRY(hn_json_status(json));
 *
 * hn_json_key and hn_json_item end their loop at the closing bracket and on errors alike; the error
 * stays in the reader and every later call returns it, so one hn_json_status after the loop is
 * enough. */
#ifndef HN_BASE_JSON_H
#define HN_BASE_JSON_H

#include "base/arena.h"
#include "base/str.h"
#include "henry/status.h"

#include <stdbool.h>
#include <stdint.h>

#define HN_JSON_MAX_DEPTH 200

typedef enum hn_json_kind {
    HN_JSON_END, /* nothing left, or a byte that begins no value */
    HN_JSON_OBJECT,
    HN_JSON_ARRAY,
    HN_JSON_STRING,
    HN_JSON_NUMBER, /* NaN, Infinity and -Infinity as bare words included */
    HN_JSON_BOOL,
    HN_JSON_NULL
} hn_json_kind;

typedef struct hn_json {
    const char *begin, *at, *end;
    hn_arena *arena;     /* decoded strings */
    const char *problem; /* static text of the first error, NULL while fine */
    uint32_t depth;
    bool fresh; /* just after an opening bracket: no comma expected */
} hn_json;

void hn_json_init(hn_json *json, hn_arena *arena, hn_str text);

/* The error so far, naming the byte. */
hn_status hn_json_status(const hn_json *json) HN_MUST_USE;
/* An error at the current place, for callers that dislike a well-formed value. */
hn_status hn_json_error(const hn_json *json, const char *problem) HN_MUST_USE;

hn_json_kind hn_json_peek(hn_json *json);

hn_status hn_json_object(hn_json *json) HN_MUST_USE;
bool hn_json_key(hn_json *json, hn_str *out);
hn_status hn_json_array(hn_json *json) HN_MUST_USE;
bool hn_json_item(hn_json *json);

/* The string, in place when it has no escapes, else decoded into the arena. */
hn_status hn_json_string(hn_json *json, hn_str *out) HN_MUST_USE;
/* The string as it is written, escapes and all: for looking into it without paying for the
 * decoding. */
hn_status hn_json_raw_string(hn_json *json, hn_str *out) HN_MUST_USE;
/* A 64-bit integer, exact; a fraction or an exponent is an error. */
hn_status hn_json_int(hn_json *json, int64_t *out) HN_MUST_USE;
/* Any number, a bare NaN or [-]Infinity, or one of those as a string. Correctly rounded. */
hn_status hn_json_float(hn_json *json, double *out) HN_MUST_USE;
hn_status hn_json_bool(hn_json *json, bool *out) HN_MUST_USE;
/* Consumes a null and returns true, or leaves another value alone. */
bool hn_json_null(hn_json *json);
/* Any value. Inside skipped containers only strings and nesting are looked at. */
hn_status hn_json_skip(hn_json *json) HN_MUST_USE;
/* Nothing but white space may be left. */
hn_status hn_json_finish(hn_json *json) HN_MUST_USE;

/* Decimal text to double, correctly rounded and independent of the locale. False when it is no
 * number. */
bool hn_text_to_double(hn_str text, double *out);

#endif
