/* lex.h: reading tokens of text forms, with positions in errors. */
#ifndef HN_IR_LEX_H
#define HN_IR_LEX_H

#include "base/arena.h"
#include "base/str.h"
#include "sym/sym.h"

/* A place in a text. Copying it saves the place. */
typedef struct hn_lex {
    hn_arena *arena; /* strings with their escapes resolved */
    const char *start, *p, *end;
} hn_lex;

/* invalid-argument: "line 3, column 7: <what>". */
hn_status hn_lex_fail(const hn_lex *lex, const char *where, const char *what) HN_MUST_USE;
/* An error of another module, told as one of the text. Owns: takes and returns `status`; NULL stays
 * NULL. */
hn_status hn_lex_blame(const hn_lex *lex, const char *where, hn_status status) HN_MUST_USE;

/* White space and comments are skipped in front of every token. */
const char *hn_lex_here(hn_lex *lex);
char hn_lex_peek(hn_lex *lex); /* 0 at the end */
bool hn_lex_accept(hn_lex *lex, char c);
hn_status hn_lex_expect(hn_lex *lex, char c) HN_MUST_USE;

/* Letters, digits, '_' and '.'; empty when there is none. */
hn_str hn_lex_peek_word(hn_lex *lex);
bool hn_lex_accept_word(hn_lex *lex, const char *word);
hn_status hn_lex_expect_word(hn_lex *lex, const char *word) HN_MUST_USE;
hn_status hn_lex_word(hn_lex *lex, const char *what, hn_str *out) HN_MUST_USE;
/* Letters, digits, '_', '.', '+' and '-', which are read: a number in any spelling. */
hn_str hn_lex_number(hn_lex *lex);
hn_status hn_lex_i64(hn_lex *lex, int64_t *out) HN_MUST_USE;
hn_status hn_lex_u32(hn_lex *lex, uint32_t *out) HN_MUST_USE;
hn_status hn_lex_string(hn_lex *lex, hn_str *out) HN_MUST_USE; /* Owns: in the arena */
/* Exactly `count` bytes as two lower-case hexadecimal digits each. */
hn_status hn_lex_hex(hn_lex *lex, size_t count, uint8_t **out) HN_MUST_USE;

/* The text of an expression: up to a delimiter outside of its own parentheses, on this line. */
hn_str hn_lex_expr_text(hn_lex *lex);
hn_status hn_lex_expr(hn_lex *lex, hn_sym *sym, hn_expr *out) HN_MUST_USE;

#endif
