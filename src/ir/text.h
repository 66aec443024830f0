/* text.h: tokens that text forms share. */
#ifndef HN_IR_TEXT_H
#define HN_IR_TEXT_H

#include "base/str.h"
#include "sym/sym.h"

/* 15 to 17 digits, as few of these as read back exactly, always with a mark of a float: "1.0",
 * "1e-05", "-inf", "nan". */
void hn_text_print_float(double value, hn_strbuf *out);
/* Whether all of `text` is a float: has a point, an exponent, inf or nan. */
bool hn_text_read_float(hn_str text, double *out);

/* "..." with \" \\ \n \t \r and \xNN for other control bytes; any bytes survive. */
void hn_text_print_string(hn_str text, hn_strbuf *out);

static inline bool hn_text_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline bool hn_text_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool hn_text_is_label_char(char c) {
    return hn_text_is_letter(c) || hn_text_is_digit(c) || c == '.';
}
/* A letter, then letters, digits and dots: what may stand behind % and @ without quotes. */
bool hn_text_is_name(hn_str text);

/* An expression so that it parses back, its commutative arguments in an order that depends on what
 * they are and not on when they were made: "2*s0 + s1//4 + 1". */
void hn_text_print_expr(const hn_sym *sym, hn_expr e, hn_strbuf *out);

#endif
