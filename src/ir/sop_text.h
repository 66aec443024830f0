/* sop_text.h: the text of scalar ops and of stores, which loop IR and kernel forms share. They
 * differ in one letter: loops read and write buffers, b1, and forms memories, m1. */
#ifndef HN_IR_SOP_TEXT_H
#define HN_IR_SOP_TEXT_H

#include "ir/lex.h"
#include "ir/loop.h"

/* "b3[4*i0 + i1]" */
void hn_sop_print_access(const hn_sym *sym, char letter, uint32_t memory, hn_expr index,
                         hn_strbuf *out);
/* What is behind "=": "add(%1, %2) : f32". */
void hn_sop_print(const hn_sym *sym, char letter, const hn_sop *op, hn_strbuf *out);
/* "b4[i0] += %3" */
void hn_sop_print_store(const hn_sym *sym, char letter, const hn_loop_store *store, hn_strbuf *out);

/* What a text may refer to. */
typedef struct hn_sop_reader {
    hn_lex *lex;
    hn_sym *sym;
    char letter;             /* of memories */
    const char *memory_name; /* "buffer", "memory": for messages */
    uint32_t memory_count;   /* those below this number are declared */
    uint32_t value_count;    /* %1 to below this number are there */
} hn_sop_reader;

/* The reverse of printing. Errors: invalid-argument, with line and column. */
hn_status hn_sop_read(const hn_sop_reader *r, hn_sop *out) HN_MUST_USE;
hn_status hn_sop_read_access(const hn_sop_reader *r, uint32_t *out_memory,
                             hn_expr *out_index) HN_MUST_USE;
hn_status hn_sop_read_store(const hn_sop_reader *r, hn_loop_store *out) HN_MUST_USE;
/* "b3" */
hn_status hn_sop_read_memory(const hn_sop_reader *r, uint32_t *out) HN_MUST_USE;
/* "%3" */
hn_status hn_sop_read_value(const hn_sop_reader *r, hn_sid *out) HN_MUST_USE;

/* An expression of sizes alone. */
hn_status hn_text_read_size(hn_lex *lex, hn_sym *sym, hn_expr *out) HN_MUST_USE;
hn_status hn_text_read_dtype(hn_lex *lex, hn_dtype *out) HN_MUST_USE;
/* The place of the next word in a list, and the word is read; `count` when it is not there. */
uint32_t hn_text_accept_one_of(hn_lex *lex, const char *const *words, uint32_t count);
/* b12, i0, t3: a letter and a number. `peek` reads nothing; `what` is the error. */
bool hn_text_peek_numbered(hn_lex *lex, char letter, uint32_t *out);
hn_status hn_text_read_numbered(hn_lex *lex, char letter, const char *what,
                                uint32_t *out) HN_MUST_USE;

#endif
