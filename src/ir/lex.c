/* lex.c: tokens of text forms. Positions are found by counting lines only when an error is made. */
#include "ir/lex.h"

#include "base/checked.h"
#include "ir/text.h"

hn_status hn_lex_fail(const hn_lex *lex, const char *where, const char *what) {
    int line = 1;
    const char *line_start = lex->start;
    for (const char *c = lex->start; c < where; c++)
        if (*c == '\n') line++, line_start = c + 1;
    return HN_ERROR(HN_INVALID_ARGUMENT, "line %d, column %d: %s", line,
                    (int)(where - line_start) + 1, what);
}

hn_status hn_lex_blame(const hn_lex *lex, const char *where, hn_status status) {
    if (!status || hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    hn_status here = hn_lex_fail(lex, where, hn_status_message(status));
    hn_status_free(status);
    return here;
}

const char *hn_lex_here(hn_lex *lex) {
    for (; lex->p < lex->end; lex->p++) {
        if (*lex->p == '#')
            while (lex->p + 1 < lex->end && lex->p[1] != '\n') lex->p++;
        else if (*lex->p != ' ' && *lex->p != '\t' && *lex->p != '\n' && *lex->p != '\r') break;
    }
    return lex->p;
}

char hn_lex_peek(hn_lex *lex) { return hn_lex_here(lex) < lex->end ? *lex->p : 0; }

bool hn_lex_accept(hn_lex *lex, char c) {
    if (!c || hn_lex_peek(lex) != c) return false;
    lex->p++;
    return true;
}

hn_status hn_lex_expect(hn_lex *lex, char c) {
    char message[] = "expected '?'";
    message[10] = c;
    return hn_lex_accept(lex, c) ? NULL : hn_lex_fail(lex, lex->p, message);
}

hn_str hn_lex_peek_word(hn_lex *lex) {
    const char *c = hn_lex_here(lex);
    while (c < lex->end && hn_text_is_label_char(*c)) c++;
    return (hn_str){lex->p, (size_t)(c - lex->p)};
}

bool hn_lex_accept_word(hn_lex *lex, const char *word) {
    hn_str have = hn_lex_peek_word(lex);
    if (!hn_str_eq(have, hn_str_of(word))) return false;
    lex->p += have.len;
    return true;
}

hn_status hn_lex_expect_word(hn_lex *lex, const char *word) {
    if (hn_lex_accept_word(lex, word)) return NULL;
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "expected '%s'", word);
    return hn_lex_blame(lex, lex->p, status);
}

hn_status hn_lex_word(hn_lex *lex, const char *what, hn_str *out) {
    *out = hn_lex_peek_word(lex);
    if (!out->len) return hn_lex_fail(lex, lex->p, what);
    lex->p += out->len;
    return NULL;
}

hn_str hn_lex_number(hn_lex *lex) {
    const char *begin = hn_lex_here(lex);
    while (lex->p < lex->end &&
           (hn_text_is_label_char(*lex->p) || *lex->p == '-' || *lex->p == '+'))
        lex->p++;
    return (hn_str){begin, (size_t)(lex->p - begin)};
}

hn_status hn_lex_i64(hn_lex *lex, int64_t *out) {
    const char *where = hn_lex_here(lex);
    bool negative = hn_lex_accept(lex, '-');
    int64_t value = 0;
    if (lex->p >= lex->end || !hn_text_is_digit(*lex->p))
        return hn_lex_fail(lex, where, "expected an integer");
    for (; lex->p < lex->end && hn_text_is_digit(*lex->p); lex->p++) {
        int digit = *lex->p - '0';
        if (!hn_mul_i64(value, 10, &value) || !hn_add_i64(value, negative ? -digit : digit, &value))
            return hn_lex_fail(lex, where, "the integer exceeds 64 bits");
    }
    *out = value;
    return NULL;
}

hn_status hn_lex_u32(hn_lex *lex, uint32_t *out) {
    const char *where = hn_lex_here(lex);
    int64_t value;
    HN_TRY(hn_lex_i64(lex, &value));
    if (value < 0 || value >= UINT32_MAX)
        return hn_lex_fail(lex, where, "the number is out of range");
    *out = (uint32_t)value;
    return NULL;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a string behind a backslash. */
static hn_status read_escape(hn_lex *lex, char *out) {
    static const char letters[] = "\"\\ntr", meant[] = "\"\\\n\t\r";
    char c = lex->p < lex->end ? *lex->p : 0;
    const char *at = c ? strchr(letters, c) : NULL;
    if (at) {
        *out = meant[at - letters];
        lex->p++;
        return NULL;
    }
    if (c != 'x' || lex->end - lex->p < 3 || hex_digit(lex->p[1]) < 0 || hex_digit(lex->p[2]) < 0)
        return hn_lex_fail(lex, lex->p, "unknown escape in a string");
    *out = (char)(hex_digit(lex->p[1]) * 16 + hex_digit(lex->p[2]));
    lex->p += 3;
    return NULL;
}

hn_status hn_lex_string(hn_lex *lex, hn_str *out) {
    HN_TRY(hn_lex_expect(lex, '"'));
    const char *close = lex->p;
    while (close < lex->end && *close != '"' && *close != '\n') close += 1 + (*close == '\\');
    if (close >= lex->end || *close != '"')
        return hn_lex_fail(lex, lex->p, "the string does not end on its line");
    char *text = NULL;
    size_t len = 0;
    HN_TRY(hn_arena_array(lex->arena, (size_t)(close - lex->p) + 1, 1, &text));
    while (lex->p < close) {
        char c = *lex->p++;
        if (c == '\\') HN_TRY(read_escape(lex, &c));
        text[len++] = c;
    }
    lex->p = close + 1;
    *out = (hn_str){text, len};
    return NULL;
}

hn_status hn_lex_hex(hn_lex *lex, size_t count, uint8_t **out) {
    hn_str word = hn_lex_peek_word(lex);
    if (word.len / 2 != count || word.len % 2)
        return hn_lex_fail(lex, lex->p, "the number of bytes differs from the size");
    uint8_t *bytes = NULL;
    HN_TRY(hn_arena_array(lex->arena, count, 1, &bytes));
    for (size_t i = 0; i < count; i++, lex->p += 2) {
        int high = hex_digit(lex->p[0]), low = hex_digit(lex->p[1]);
        if (high < 0 || low < 0) return hn_lex_fail(lex, lex->p, "expected a hexadecimal digit");
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    *out = bytes;
    return NULL;
}

hn_str hn_lex_expr_text(hn_lex *lex) {
    const char *c = hn_lex_here(lex);
    int depth = 0;
    for (; c < lex->end; c++) {
        if (*c == '(') depth++;
        if (*c == ')' && depth-- == 0) break;
        if (*c == ',' && depth) continue;
        if (strchr(",;[]{}\"=!<#\n", *c)) break;
    }
    while (c > lex->p && (c[-1] == ' ' || c[-1] == '\t' || c[-1] == '\r')) c--;
    return (hn_str){lex->p, (size_t)(c - lex->p)};
}

hn_status hn_lex_expr(hn_lex *lex, hn_sym *sym, hn_expr *out) {
    hn_str text = hn_lex_expr_text(lex);
    if (!text.len) return hn_lex_fail(lex, lex->p, "expected an expression");
    HN_TRY(hn_lex_blame(lex, lex->p, hn_sym_parse(sym, text, out)));
    lex->p += text.len;
    return NULL;
}
