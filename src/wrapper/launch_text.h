/* launch_text.h: how kernels are called, in the text form of wrapper IR. Internal to
 * src/wrapper. */
#ifndef HN_WRAPPER_LAUNCH_TEXT_H
#define HN_WRAPPER_LAUNCH_TEXT_H

#include "ir/lex.h"
#include "wrapper/wrapper.h"

/* ` params [s0] extent(s0) grain 8`: what stands behind the operands. The fields of a line are
 * those of its first launch. */
void hn_launch_print(const hn_wrapper *w, const hn_wlaunch *launch, hn_strbuf *out);
hn_status hn_launch_parse(hn_lex *lex, hn_sym *sym, hn_wlaunch *out) HN_MUST_USE;

/* ` or k2 ... choose [s0] else 0 [1 in [1, 96]]`: the other variants of a line and its table, for
 * the first target; nothing of a line that has none. */
void hn_variants_print(const hn_wrapper *w, const hn_line *line, hn_strbuf *out);
hn_status hn_variants_parse(hn_lex *lex, hn_sym *sym, hn_line *line) HN_MUST_USE;

/* parse.c: "k3" is 3. */
hn_status hn_wrapper_label_parse(hn_lex *lex, char letter, uint32_t *out) HN_MUST_USE;

#endif
