/* json.c: the pull reader behind json.h. */
#include "base/json.h"

#include "base/compiler.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

void hn_json_init(hn_json *json, hn_arena *arena, hn_str text) {
    *json =
        (hn_json){.begin = text.ptr, .at = text.ptr, .end = text.ptr + text.len, .arena = arena};
}

hn_status hn_json_error(const hn_json *json, const char *problem) {
    return HN_ERROR(HN_CORRUPT, "bad JSON at byte %zu: %s", (size_t)(json->at - json->begin),
                    problem);
}

hn_status hn_json_status(const hn_json *json) {
    return json->problem ? hn_json_error(json, json->problem) : NULL;
}

static hn_status fail(hn_json *json, const char *problem) {
    if (!json->problem) json->problem = problem;
    return hn_json_status(json);
}

static void skip_space(hn_json *json) {
    const char *p = json->at;
    while (p < json->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    json->at = p;
}

hn_json_kind hn_json_peek(hn_json *json) {
    if (json->problem) return HN_JSON_END;
    skip_space(json);
    if (json->at == json->end) return HN_JSON_END;
    switch (*json->at) {
    case '{': return HN_JSON_OBJECT;
    case '[': return HN_JSON_ARRAY;
    case '"': return HN_JSON_STRING;
    case 't':
    case 'f': return HN_JSON_BOOL;
    case 'n': return HN_JSON_NULL;
    case '-':
    case 'N':
    case 'I':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return HN_JSON_NUMBER;
    default: return HN_JSON_END;
    }
}

static bool literal(hn_json *json, const char *word, size_t len) {
    if ((size_t)(json->end - json->at) < len || memcmp(json->at, word, len) != 0) return false;
    json->at += len;
    json->fresh = false;
    return true;
}

/* --- containers --- */

static hn_status container(hn_json *json, hn_json_kind kind, const char *problem) {
    if (hn_json_peek(json) != kind) return fail(json, problem);
    if (json->depth == HN_JSON_MAX_DEPTH) return fail(json, "nested too deep");
    json->depth++;
    json->at++;
    json->fresh = true;
    return NULL;
}

/* Steps to the next member: false at the closing bracket (consumed) and on errors. */
static bool member(hn_json *json, char close) {
    if (json->problem) return false;
    skip_space(json);
    if (json->at < json->end && *json->at == close) {
        json->at++;
        json->depth--;
        json->fresh = false;
        return false;
    }
    if (!json->fresh) {
        if (json->at == json->end || *json->at != ',') {
            json->problem = "expected a comma or a closing bracket";
            return false;
        }
        json->at++;
        skip_space(json);
    }
    json->fresh = false;
    return true;
}

hn_status hn_json_object(hn_json *json) {
    return container(json, HN_JSON_OBJECT, "expected an object");
}
hn_status hn_json_array(hn_json *json) {
    return container(json, HN_JSON_ARRAY, "expected an array");
}
bool hn_json_item(hn_json *json) { return member(json, ']'); }

static bool string_read(hn_json *json, hn_str *out);

bool hn_json_key(hn_json *json, hn_str *out) {
    if (!member(json, '}')) return false;
    if (!string_read(json, out)) return false;
    skip_space(json);
    if (json->at == json->end || *json->at != ':') {
        json->problem = "expected a colon";
        return false;
    }
    json->at++;
    return true;
}

/* --- strings --- */

/* The closing quote of the string whose inside begins at `p`; NULL when there is none. */
static const char *string_end(const char *p, const char *end, bool *out_escaped) {
    const char *begin = p;
    while (p < end) {
        const char *quote = memchr(p, '"', (size_t)(end - p));
        if (!quote) return NULL;
        const char *back = quote;
        while (back > begin && back[-1] == '\\') back--;
        if ((quote - back) % 2 == 0) {
            if (out_escaped) *out_escaped = memchr(begin, '\\', (size_t)(quote - begin)) != NULL;
            return quote;
        }
        p = quote + 1;
    }
    return NULL;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool hex4(const char *p, const char *end, uint32_t *out) {
    if (end - p < 4) return false;
    uint32_t value = 0;
    for (int k = 0; k < 4; k++) {
        int digit = hex_digit(p[k]);
        if (digit < 0) return false;
        value = value << 4 | (uint32_t)digit;
    }
    *out = value;
    return true;
}

static char *utf8_put(char *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 63));
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    }
    return out;
}

/* `p` is behind "\u". Returns what follows the escape, NULL when it is malformed. A lone surrogate
 * becomes U+FFFD: Python writes such names for undecodable bytes. */
static const char *unicode_escape(const char *p, const char *end, char **out) {
    uint32_t code = 0, low = 0;
    if (!hex4(p, end, &code)) return NULL;
    p += 4;
    if (code >= 0xd800 && code < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' &&
        hex4(p + 2, end, &low) && low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    } else if (code >= 0xd800 && code < 0xe000) {
        code = 0xfffd;
    }
    *out = utf8_put(*out, code);
    return p;
}

/* Decodes the inside of a string; the result is never longer than the source. */
static const char *string_decode(hn_arena *arena, const char *p, const char *end, hn_str *out) {
    char *text = hn_arena_alloc(arena, (size_t)(end - p) + 1), *to = text;
    if (!text) return "no memory for a string";
    while (p < end) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        static const char from_chars[] = "\"\\/bfnrt", to_chars[] = "\"\\/\b\f\n\r\t";
        char kind = p[1]; /* the byte before the closing quote is no lone backslash: string_end */
        const char *found = kind ? strchr(from_chars, kind) : NULL;
        if (found) {
            *to++ = to_chars[found - from_chars];
            p += 2;
        } else {
            p = kind == 'u' ? unicode_escape(p + 2, end, &to) : NULL;
            if (!p) return "bad escape in a string";
        }
    }
    *out = (hn_str){text, (size_t)(to - text)};
    return NULL;
}

static bool string_read(hn_json *json, hn_str *out) {
    if (hn_json_peek(json) != HN_JSON_STRING) {
        if (!json->problem) json->problem = "expected a string";
        return false;
    }
    bool escaped = false;
    const char *begin = json->at + 1, *end = string_end(begin, json->end, &escaped);
    if (!end) json->problem = "string without an end";
    else if (escaped) json->problem = string_decode(json->arena, begin, end, out);
    else *out = (hn_str){begin, (size_t)(end - begin)};
    if (json->problem) return false;
    json->at = end + 1;
    json->fresh = false;
    return true;
}

hn_status hn_json_string(hn_json *json, hn_str *out) {
    return string_read(json, out) ? NULL : hn_json_status(json);
}

hn_status hn_json_raw_string(hn_json *json, hn_str *out) {
    if (hn_json_peek(json) != HN_JSON_STRING) return fail(json, "expected a string");
    const char *begin = json->at + 1, *end = string_end(begin, json->end, NULL);
    if (!end) return fail(json, "string without an end");
    *out = (hn_str){begin, (size_t)(end - begin)};
    json->at = end + 1;
    json->fresh = false;
    return NULL;
}

/* --- scalars --- */

hn_status hn_json_int(hn_json *json, int64_t *out) {
    if (hn_json_peek(json) != HN_JSON_NUMBER) return fail(json, "expected an integer");
    const char *p = json->at;
    bool negative = *p == '-';
    p += negative;
    if (p == json->end || *p < '0' || *p > '9') return fail(json, "expected an integer");
    int64_t value = 0; /* counted downwards: -INT64_MIN does not fit */
    for (; p < json->end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, *p - '0', &value))
            return fail(json, "integer does not fit 64 bits");
    if (p < json->end && (*p == '.' || *p == 'e' || *p == 'E'))
        return fail(json, "expected an integer, not a fraction");
    if (!negative && __builtin_sub_overflow((int64_t)0, value, &value))
        return fail(json, "integer does not fit 64 bits");
    json->at = p;
    json->fresh = false;
    *out = value;
    return NULL;
}

/* Up to 15 digits and a power of ten up to 22 are exact in double, so one operation rounds
 * correctly.
 * Source: Clinger, How to read floating point numbers accurately, 1990. */
static bool double_fast(const char *p, const char *end, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool negative = p < end && *p == '-', point = false, exp_negative = false;
    int digits = 0, exponent = 0, written = 0;
    uint64_t mantissa = 0;
    for (p += negative; p < end && (*p == '.' || (*p >= '0' && *p <= '9')); p++) {
        if (*p == '.') {
            if (point) return false;
            point = true;
            continue;
        }
        mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        digits += mantissa != 0;
        exponent -= point;
        if (digits > 15 || exponent < -100) return false;
        written++;
    }
    if (written == 0) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        exp_negative = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        if (p == end) return false;
        int power = 0;
        for (; p < end && *p >= '0' && *p <= '9' && power < 1000; p++)
            power = power * 10 + (*p - '0');
        exponent += exp_negative ? -power : power;
    }
    if (p != end || exponent < -22 || exponent > 22) return false;
    double value = (double)mantissa;
    value = exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
    *out = negative ? -value : value;
    return true;
}

bool hn_text_to_double(hn_str text, double *out) {
    if (double_fast(text.ptr, text.ptr + text.len, out)) return true;
    static const struct {
        hn_str name;
        double value;
    } words[] = {{HN_STR("NaN"), NAN},           {HN_STR("nan"), NAN},
                 {HN_STR("Infinity"), INFINITY}, {HN_STR("-Infinity"), -INFINITY},
                 {HN_STR("inf"), INFINITY},      {HN_STR("-inf"), -INFINITY}};
    for (size_t k = 0; k < HN_COUNT_OF(words); k++) {
        if (!hn_str_eq(text, words[k].name)) continue;
        *out = words[k].value;
        return true;
    }
    char copy[512]; /* strtod wants a NUL; no writer of doubles needs more */
    if (text.len == 0 || text.len >= sizeof copy) return false;
    for (size_t k = 0; k < text.len; k++) /* strtod also reads hexadecimal, spaces and words */
        if (!strchr("0123456789+-.eE", text.ptr[k]) || !text.ptr[k]) return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return false;
    char *end = NULL;
    *out = strtod_l(copy, &end, plain);
    freelocale(plain);
    return end == copy + text.len;
}

hn_status hn_json_float(hn_json *json, double *out) {
    hn_json_kind kind = hn_json_peek(json);
    if (kind == HN_JSON_STRING) {
        hn_str text;
        HN_TRY(hn_json_string(json, &text));
        if (!hn_text_to_double(text, out) || (!isnan(*out) && !isinf(*out)))
            return fail(json, "expected a number");
        return NULL;
    }
    if (kind != HN_JSON_NUMBER) return fail(json, "expected a number");
    const char *p = json->at;
    while (p < json->end && (*p == '+' || *p == '-' || *p == '.' || (*p >= '0' && *p <= '9') ||
                             ((*p | 32) >= 'a' && (*p | 32) <= 'z')))
        p++;
    if (!hn_text_to_double((hn_str){json->at, (size_t)(p - json->at)}, out))
        return fail(json, "malformed number");
    json->at = p;
    json->fresh = false;
    return NULL;
}

hn_status hn_json_bool(hn_json *json, bool *out) {
    if (hn_json_peek(json) == HN_JSON_BOOL) {
        *out = *json->at == 't';
        if (*out ? literal(json, "true", 4) : literal(json, "false", 5)) return NULL;
    }
    return fail(json, "expected true or false");
}

bool hn_json_null(hn_json *json) {
    return hn_json_peek(json) == HN_JSON_NULL && literal(json, "null", 4);
}

/* --- skipping --- */

static hn_status container_skip(hn_json *json) {
    uint32_t depth = 0;
    const char *p = json->at, *end = json->end;
    while (p < end) {
        char c = *p++;
        if (c == '"') {
            p = string_end(p, end, NULL);
            if (!p) return fail(json, "string without an end");
            p++;
        } else if (c == '{' || c == '[') {
            if (++depth + json->depth > HN_JSON_MAX_DEPTH) return fail(json, "nested too deep");
        } else if ((c == '}' || c == ']') && --depth == 0) {
            json->at = p;
            json->fresh = false;
            return NULL;
        }
    }
    return fail(json, "value without an end");
}

hn_status hn_json_skip(hn_json *json) {
    switch (hn_json_peek(json)) {
    case HN_JSON_OBJECT:
    case HN_JSON_ARRAY: return container_skip(json);
    case HN_JSON_STRING: {
        hn_str ignored;
        return hn_json_raw_string(json, &ignored);
    }
    case HN_JSON_BOOL: {
        bool ignored;
        return hn_json_bool(json, &ignored);
    }
    case HN_JSON_NULL: return hn_json_null(json) ? NULL : fail(json, "expected a value");
    case HN_JSON_NUMBER: {
        double ignored;
        return hn_json_float(json, &ignored);
    }
    case HN_JSON_END: break;
    }
    return fail(json, "expected a value");
}

hn_status hn_json_finish(hn_json *json) {
    HN_TRY(hn_json_status(json));
    skip_space(json);
    return json->at == json->end ? NULL : fail(json, "text after the value");
}
