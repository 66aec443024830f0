/* text.c: printing and reading the tokens that text forms share. */
#include "ir/text.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* Numbers must not follow the application's locale (a decimal comma), so they are read in the C
 * locale and a printed comma is mended. Made once, never freed. */
static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static double read_double(const char *text, char **end) {
    (void)pthread_once(&c_locale_once, make_c_locale);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}

static void print_digits(double value, char *buffer, size_t bytes) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buffer, bytes, "%.*g", digits, value);
        for (char *c = buffer; *c; c++)
            if (!hn_text_is_label_char(*c) && *c != '-' && *c != '+') *c = '.';
        if (read_double(buffer, NULL) == value) return;
    }
}

void hn_text_print_float(double value, hn_strbuf *out) {
    char buffer[40];
    if (isnan(value)) {
        hn_strbuf_puts(out, "nan");
        return;
    }
    print_digits(value, buffer, sizeof buffer);
    hn_strbuf_puts(out, buffer);
    if (!strpbrk(buffer, ".en")) hn_strbuf_puts(out, ".0");
}

bool hn_text_read_float(hn_str text, double *out) {
    char buffer[64], *end;
    if (!text.len || text.len >= sizeof buffer) return false;
    memcpy(buffer, text.ptr, text.len);
    buffer[text.len] = 0;
    const char *digits = buffer + (buffer[0] == '-' || buffer[0] == '+');
    bool word = strcmp(digits, "inf") == 0 || strcmp(digits, "nan") == 0;
    /* No hexadecimal floats, and nothing that is a plain integer. */
    if (!word && (strspn(digits, "0123456789.e+-") != strlen(digits) || !strpbrk(digits, ".e")))
        return false;
    if (!word && !hn_text_is_digit(digits[0]) && digits[0] != '.') return false;
    double value = read_double(buffer, &end);
    if (end == buffer || *end) return false;
    *out = value;
    return true;
}

void hn_text_print_string(hn_str text, hn_strbuf *out) {
    static const char escaped[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    hn_strbuf_putc(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        const char *at = c ? strchr(escaped, c) : NULL;
        if (at) {
            hn_strbuf_putc(out, '\\');
            hn_strbuf_putc(out, letters[at - escaped]);
        } else if ((unsigned char)c < 0x20 || c == 0x7f) {
            hn_strbuf_printf(out, "\\x%02x", (unsigned char)c);
        } else {
            hn_strbuf_putc(out, c);
        }
    }
    hn_strbuf_putc(out, '"');
}

bool hn_text_is_name(hn_str text) {
    if (!text.len || !hn_text_is_letter(text.ptr[0])) return false;
    for (size_t i = 1; i < text.len; i++)
        if (!hn_text_is_label_char(text.ptr[i])) return false;
    return !hn_str_eq(text, HN_STR("_"));
}
