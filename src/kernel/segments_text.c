/* segments_text.c: segments in the text form of a form, both ways. */
#include "ir/sop_text.h"
#include "ir/text.h"
#include "kernel/text.h"

#include <inttypes.h>

/* ---- printing ---- */

/* length length0 in [1, 768] divisor 64; */
void hn_form_print_length(const hn_form *f, hn_strbuf *out) {
    int64_t lo, hi;
    if (!f->segment_length) return;
    hn_sym_range(f->sym, f->segment_length, &lo, &hi);
    hn_strbuf_puts(out, "length ");
    hn_sym_print(f->sym, f->segment_length, out);
    hn_strbuf_printf(out, " in [%" PRId64 ", ", lo);
    if (hi == HN_SYM_MAX) hn_strbuf_puts(out, "none]");
    else hn_strbuf_printf(out, "%" PRId64 "]", hi);
    const int64_t divisor = hn_sym_divisor(f->sym, f->segment_length);
    if (divisor > 1) hn_strbuf_printf(out, " divisor %" PRId64, divisor);
    hn_strbuf_puts(out, "; ");
}

/* segment b1, b2 length 768 */
void hn_form_print_segments(const hn_form *f, hn_strbuf *out) {
    const uint32_t count = hn_form_argument_count(f);
    for (uint32_t s = 0; s < f->segments.count; s++) {
        const hn_form_segment *segment = &f->segments.items[s];
        hn_strbuf_puts(out, "  segment");
        for (uint32_t k = 0; k < count; k++)
            hn_strbuf_printf(out, "%s b%u", k ? "," : "", segment->buffers[k]);
        if (segment->length) {
            hn_strbuf_puts(out, " length ");
            hn_sym_print(f->sym, segment->length, out);
        }
        hn_strbuf_putc(out, '\n');
    }
}

/* ---- reading ---- */

static hn_status read_bound(hn_lex *lex, int64_t *out) {
    *out = HN_SYM_MAX;
    return hn_lex_accept_word(lex, "none") ? NULL : hn_lex_i64(lex, out);
}

hn_status hn_form_read_length(hn_lex *lex, hn_sym *sym, hn_expr *out) {
    hn_str name;
    int64_t lo, hi, divisor = 1;
    *out = 0;
    if (!hn_lex_accept_word(lex, "length")) return NULL;
    const char *where = hn_lex_here(lex);
    HN_TRY(hn_lex_word(lex, "expected the name of the length", &name));
    HN_TRY(hn_lex_expect_word(lex, "in"));
    HN_TRY(hn_lex_expect(lex, '['));
    HN_TRY(hn_lex_i64(lex, &lo));
    HN_TRY(hn_lex_expect(lex, ','));
    HN_TRY(read_bound(lex, &hi));
    HN_TRY(hn_lex_expect(lex, ']'));
    if (hn_lex_accept_word(lex, "divisor")) HN_TRY(hn_lex_i64(lex, &divisor));
    if (lo < 0 || lo > hi || divisor < 1)
        return hn_lex_fail(lex, where, "no range or divisor of a length");
    char *kept = hn_arena_strndup(lex->arena, name.ptr, name.len);
    if (!kept) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while reading a form");
    *out = hn_sym_symbol(sym, (hn_str){kept, name.len}, HN_SYMBOL_SIZE, lo, hi);
    if (divisor > 1) hn_sym_assume_divisor(sym, *out, divisor);
    HN_TRY(hn_lex_blame(lex, where, hn_sym_status(sym)));
    return hn_lex_expect(lex, ';');
}

static hn_status read_segment(hn_lex *lex, hn_form *f) {
    const uint32_t count = hn_form_argument_count(f);
    hn_buf *buffers;
    hn_expr length = 0;
    HN_NEW(lex->arena, buffers, count);
    for (uint32_t k = 0; k < count; k++) {
        if (k) HN_TRY(hn_lex_expect(lex, ','));
        HN_TRY(hn_text_read_numbered(lex, 'b', "expected a buffer", &buffers[k]));
    }
    if (hn_lex_accept_word(lex, "length")) HN_TRY(hn_lex_expr(lex, f->sym, &length));
    hn_form_segment_add(f, buffers, length);
    return NULL;
}

hn_status hn_form_read_segments(hn_lex *lex, hn_form *f) {
    while (hn_lex_accept_word(lex, "segment")) HN_TRY(read_segment(lex, f));
    return NULL;
}
