/* facts.h: what the texts of graphs and of loop programs say of symbols: `symbol` and `guard`
 * statements; internal to src/ir. */
#ifndef HN_IR_FACTS_H
#define HN_IR_FACTS_H

#include "base/map.h"
#include "ir/graph.h"
#include "ir/lex.h"

/* --- printing: collect every expression of the text, then print --- */

typedef struct hn_text_facts {
    hn_sym *sym;
    hn_map seen_exprs, symbols; /* expr -> 1, in order of appearance */
    hn_arena *scratch;
} hn_text_facts;

void hn_text_facts_init(hn_text_facts *facts, hn_sym *sym, hn_arena *scratch);
/* 0 is no expression. Loop variables and indirect indices count as what they range over. */
hn_status hn_text_facts_collect(hn_text_facts *facts, hn_expr e) HN_MUST_USE;
/* list may be NULL */
hn_status hn_text_facts_collect_list(hn_text_facts *facts, const hn_expr *list,
                                     uint32_t count) HN_MUST_USE;
/* The statements, `depth` levels deep: symbols that were collected or occur in guards, then all
 * guards. */
hn_status hn_text_facts_print(hn_text_facts *facts, const hn_graph *g, int depth,
                              hn_strbuf *out) HN_MUST_USE;

/* --- reading --- */

/* What `symbol` statements say, held back until the guards on bare symbols are recorded: those
 * guards may be where a range comes from, and once the range is known they would look proved and be
 * lost. */
typedef struct hn_symbol_facts {
    hn_expr symbol;
    int64_t lo, hi, divisor;
} hn_symbol_facts;

typedef struct hn_text_facts_reader {
    hn_lex *lex;
    hn_graph *g; /* records the guards */
    struct {
        hn_symbol_facts *items;
        uint32_t count, cap;
    } pending;
    /* guards, and hn_sym_epoch, when all guards were last found to be possible together */
    uint32_t checked, epoch;
} hn_text_facts_reader;

/* One statement if the text has one here; `*out_found` tells. */
hn_status hn_text_facts_read(hn_text_facts_reader *r, bool *out_found) HN_MUST_USE;
/* To be called in front of every other statement and at the end. Errors: guards that contradict
 * each other or the ranges. */
hn_status hn_text_facts_apply(hn_text_facts_reader *r) HN_MUST_USE;

#endif
