/* verify_impl.h: what the files of the verifier share. Internal to src/kernel. */
#ifndef HN_KERNEL_VERIFY_IMPL_H
#define HN_KERNEL_VERIFY_IMPL_H

#include "kernel/check.h"

typedef struct scope_symbol {
    hn_expr symbol;
    bool varies;   /* its value may differ between the threads of a group */
    bool is_fixed; /* a number, where the loops around are unrolled */
} scope_symbol;

typedef struct checker {
    const hn_form *f;
    hn_arena *scratch;
    hn_form_sizes *sizes;       /* to be listed; NULL: not now */
    hn_form_place place;        /* that is being checked */
    bool *reached;              /* per statement */
    bool *defined;              /* per statement: a VALUE in scope */
    bool *ready;                /* per register: after an INIT in scope */
    bool *is_read, *is_written; /* per memory */
    bool *across;               /* per register: an ACROSS combines its lanes */
    struct {
        scope_symbol *items;
        uint32_t count, cap;
    } symbols; /* in scope */
    struct {
        bool **items;
        uint32_t count, cap;
    } marks;        /* in `defined` and `ready`, set in the open blocks */
    hn_fid divides; /* the innermost IF or FOR around that threads may run differently; 0: none */
    uint32_t depth;
    hn_form_region region;
    const hn_form_stmt *lanes; /* around the statement at hand; NULL: none */
} checker;

#define BAD(...) HN_ERROR(HN_INTERNAL, __VA_ARGS__)

/* ---- verify_names.c ---- */

/* An expression that the kernel evaluates. *out_varies becomes true when threads may find different
 * values. */
hn_status hn_verify_expr(checker *c, hn_expr e, const char *what, bool *out_varies) HN_MUST_USE;
/* Registers have no addresses: which one is meant must be known. */
hn_status hn_verify_fixed(checker *c, hn_fmem m, hn_expr index) HN_MUST_USE;
hn_status hn_verify_unstaged(const checker *c, hn_fmem m) HN_MUST_USE;
hn_status hn_verify_plain(checker *c, hn_expr e, const char *what) HN_MUST_USE;
hn_status hn_verify_index(checker *c, hn_expr e) HN_MUST_USE;
/* An expression of sizes alone. */
hn_status hn_verify_size(checker *c, hn_expr e, const char *what) HN_MUST_USE;
hn_status hn_verify_define_symbol(checker *c, hn_expr symbol, bool varies) HN_MUST_USE;
/* The symbol of a FOR, LET or LANES. Its extent is a fact that simplification may have used; the
 * text form prints it. */
hn_status hn_verify_define_variable(checker *c, hn_expr var, bool varies) HN_MUST_USE;
/* Until the block closes. What is marked in a block around it stays marked. */
hn_status hn_verify_mark(checker *c, bool *flag) HN_MUST_USE;
hn_status hn_verify_value(const checker *c, hn_fid value, const char *what) HN_MUST_USE;
hn_dtype hn_verify_dtype_of(const checker *c, hn_fid value);
hn_status hn_verify_memory(checker *c, hn_fmem m) HN_MUST_USE;
/* Printers declare arguments by these marks: too many cost speed, too few are wrong. */
hn_status hn_verify_access(checker *c, hn_fmem m) HN_MUST_USE;
hn_status hn_verify_register(checker *c, hn_freg r) HN_MUST_USE;
hn_status hn_verify_combined(checker *c, hn_freg r) HN_MUST_USE;
hn_status hn_verify_register_id(const checker *c, int64_t r) HN_MUST_USE;
hn_status hn_verify_memory_id(const checker *c, hn_fmem m) HN_MUST_USE;
hn_status hn_verify_ready(const checker *c, hn_freg r) HN_MUST_USE;

/* ---- verify_stmts.c ---- */

hn_status hn_verify_value_stmt(checker *c, hn_fid s, const hn_sop *op) HN_MUST_USE;
hn_status hn_verify_store(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
/* STEP and SET. */
hn_status hn_verify_step(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
hn_status hn_verify_init(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
/* Where all threads of a group must come. */
hn_status hn_verify_together(const checker *c, const char *what) HN_MUST_USE;
hn_status hn_verify_let(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
hn_status hn_verify_before(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
hn_status hn_verify_across(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
hn_status hn_verify_move(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
hn_status hn_verify_prefetch(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;
hn_status hn_verify_transpose(checker *c, const hn_form_stmt *stmt) HN_MUST_USE;

#endif
