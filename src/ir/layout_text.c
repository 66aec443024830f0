/* layout_text.c: see layout_text.h. */
#include "ir/layout_text.h"

#include "ir/sop_text.h"
#include "ir/text.h"

static void print_list(const hn_sym *sym, const hn_expr *list, uint32_t count, hn_strbuf *out) {
    hn_strbuf_putc(out, '[');
    for (uint32_t k = 0; k < count; k++) {
        hn_strbuf_puts(out, k ? ", " : "");
        if (list[k]) hn_text_print_expr(sym, list[k], out);
        else hn_strbuf_putc(out, '?'); /* broken IR prints, too */
    }
    hn_strbuf_putc(out, ']');
}

/* Strides that follow from the sizes are left out. */
static bool is_row_major(hn_sym *sym, uint32_t rank, const hn_expr *sizes, const hn_expr *strides) {
    hn_expr expected[HN_MAX_RANK];
    hn_contiguous_strides(sym, sizes, rank, expected);
    for (uint32_t d = 0; d < rank; d++)
        if (strides[d] != expected[d]) return false;
    return true;
}

void hn_text_print_layout(hn_sym *sym, uint32_t rank, const hn_expr *sizes, const hn_expr *strides,
                          hn_strbuf *out) {
    print_list(sym, sizes, rank, out);
    if (!strides || (rank <= HN_MAX_RANK && is_row_major(sym, rank, sizes, strides))) return;
    hn_strbuf_puts(out, " strides ");
    print_list(sym, strides, rank, out);
}

hn_status hn_text_read_sizes(hn_lex *lex, hn_sym *sym, hn_expr *out, uint32_t cap,
                             uint32_t *out_count) {
    *out_count = 0;
    HN_TRY(hn_lex_expect(lex, '['));
    if (hn_lex_accept(lex, ']')) return NULL;
    do {
        if (*out_count == cap) return hn_lex_fail(lex, lex->p, "too many expressions in a list");
        HN_TRY(hn_text_read_size(lex, sym, &out[(*out_count)++]));
    } while (hn_lex_accept(lex, ','));
    return hn_lex_expect(lex, ']');
}

hn_status hn_text_read_layout(hn_lex *lex, hn_sym *sym, uint32_t *out_rank,
                              const hn_expr **out_sizes, const hn_expr **out_strides) {
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK], *kept;
    uint32_t count;
    HN_TRY(hn_text_read_sizes(lex, sym, sizes, HN_MAX_RANK, out_rank));
    if (hn_lex_accept_word(lex, "strides")) {
        HN_TRY(hn_text_read_sizes(lex, sym, strides, HN_MAX_RANK, &count));
        if (count != *out_rank)
            return hn_lex_fail(lex, lex->p, "sizes and strides differ in number");
    } else {
        hn_contiguous_strides(sym, sizes, *out_rank, strides);
        HN_TRY(hn_lex_blame(lex, lex->p, hn_sym_status(sym)));
    }
    HN_NEW(lex->arena, kept, 2 * *out_rank);
    memcpy(kept, sizes, *out_rank * sizeof *kept);
    memcpy(kept + *out_rank, strides, *out_rank * sizeof *kept);
    *out_sizes = kept;
    *out_strides = kept + *out_rank;
    return NULL;
}

void hn_text_print_device(hn_device_kind device, hn_strbuf *out) {
    if (device != HN_DEVICE_CPU) hn_strbuf_printf(out, " on %s", hn_device_name(device));
}

hn_status hn_text_read_device(hn_lex *lex, hn_device_kind *out) {
    *out = HN_DEVICE_CPU;
    return hn_lex_accept_word(lex, "on") ? hn_text_read_device_name(lex, out) : NULL;
}

hn_status hn_text_read_device_name(hn_lex *lex, hn_device_kind *out) {
    hn_str word;
    HN_TRY(hn_lex_word(lex, "expected a device", &word));
    *out = hn_device_named(word);
    return *out < HN_DEVICE_KIND_COUNT ? NULL : hn_lex_fail(lex, word.ptr, "not a device");
}
