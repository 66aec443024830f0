/* layout_text.h: sizes, strides and device of a buffer as text. Shared by loop IR and wrapper
 * IR. */
#ifndef HN_IR_LAYOUT_TEXT_H
#define HN_IR_LAYOUT_TEXT_H

#include "base/device.h"
#include "ir/graph.h"
#include "ir/lex.h"

/* "[s0, 4] strides [1, s0]", without the strides where they are row-major. */
void hn_text_print_layout(hn_sym *sym, uint32_t rank, const hn_expr *sizes, const hn_expr *strides,
                          hn_strbuf *out);
/* "[s0, 4]": at most `cap` expressions of sizes alone. */
hn_status hn_text_read_sizes(hn_lex *lex, hn_sym *sym, hn_expr *out, uint32_t cap,
                             uint32_t *out_count) HN_MUST_USE;
/* What hn_text_print_layout prints. Owns: both lists live in the arena of `lex`.
 * Errors: invalid-argument, with line and column. */
hn_status hn_text_read_layout(hn_lex *lex, hn_sym *sym, uint32_t *out_rank,
                              const hn_expr **out_sizes, const hn_expr **out_strides) HN_MUST_USE;

/* " on cuda"; nothing for memory of the CPU. */
void hn_text_print_device(hn_device_kind device, hn_strbuf *out);
hn_status hn_text_read_device(hn_lex *lex, hn_device_kind *out) HN_MUST_USE;
/* "cuda": without the word before. */
hn_status hn_text_read_device_name(hn_lex *lex, hn_device_kind *out) HN_MUST_USE;

#endif
