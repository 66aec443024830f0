/* sym.h: integer expressions over size and index symbols.
 *
 * Expressions are interned in a context: after simplification two equal expressions have the same
 * id, so equality is `==`. Every expression carries a range and a known divisor. Division and
 * modulo are Python's (floor). The context latches: after a failure (memory, overflow of a
 * constant) every constructor returns 0, which every constructor accepts and passes on;
 * hn_sym_status tells why.
 * Threads: a context belongs to one thread at a time.
 *
 * Three questions have three functions: hn_sym_hint (a likely value; never guards),
 * hn_sym_prove_* (true only if it follows from the facts; never guards), hn_sym_guard_* (decides by
 * the hint and records a guard that a program checks at each call). */
#ifndef HN_SYM_SYM_H
#define HN_SYM_SYM_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "henry/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t hn_expr; /* 0: invalid */
typedef struct hn_sym hn_sym;

typedef enum hn_expr_kind {
    HN_EXPR_INVALID,
    HN_EXPR_CONST,
    HN_EXPR_SYMBOL,
    HN_EXPR_ADD,      /* n-ary: constant part + sum of coefficient * term, see hn_sym_terms */
    HN_EXPR_MUL,      /* n-ary product of non-constant, non-sum factors (sums are distributed) */
    HN_EXPR_FLOORDIV, /* args[0] // args[1] */
    HN_EXPR_MOD,      /* args[0] % args[1], sign of the divisor */
    HN_EXPR_MIN,      /* two arguments */
    HN_EXPR_MAX
} hn_expr_kind;

/* What a symbol stands for; decides its printing and what may appear in kernels. */
typedef enum hn_symbol_kind {
    HN_SYMBOL_SIZE,    /* a dimension of an input, bound at call time: "s77" */
    HN_SYMBOL_DATA,    /* data-dependent ("unbacked"): "u0" */
    HN_SYMBOL_INDEX,   /* a loop variable of loop IR */
    HN_SYMBOL_INDIRECT /* a value loaded from memory and used as an index */
} hn_symbol_kind;

#define HN_SYM_MIN INT64_MIN /* "no lower bound" */
#define HN_SYM_MAX INT64_MAX /* "no upper bound" */

hn_status hn_sym_create(hn_arena *arena, hn_sym **out) HN_MUST_USE; /* Owns: lives in the arena */
/* a fresh copy of the latched error */
hn_status hn_sym_status(const hn_sym *sym) HN_MUST_USE;

hn_expr hn_sym_int(hn_sym *sym, int64_t value);
/* The symbol `name`; made with this kind and the range [lo, hi] when new, else returned as it is. A
 * name is an identifier. i<N> and t<N> are kept for loop variables: as SIZE or DATA symbols they
 * are refused. */
hn_expr hn_sym_symbol(hn_sym *sym, hn_str name, hn_symbol_kind kind, int64_t lo, int64_t hi);
/* A symbol whose name nothing has yet: `stem` with a number behind it. */
hn_expr hn_sym_fresh(hn_sym *sym, const char *stem, hn_symbol_kind kind, int64_t lo, int64_t hi);
/* The loop variable number `ordinal` of a loop of `extent` iterations: 0 <= i < extent. One symbol
 * per (ordinal, extent), so that equal loops have equal index expressions. Printed "i0", "i1"... by
 * ordinal, and "i0" parses to the one of that ordinal asked for last. It stays a symbol when the
 * extent is 1. */
hn_expr hn_sym_index(hn_sym *sym, uint32_t ordinal, hn_expr extent);
/* A fresh indirect index with 0 <= t < extent. Named "t<N>". */
hn_expr hn_sym_indirect(hn_sym *sym, hn_expr extent);
/* The indirect index "t<number>", for reading texts: made when new; 0, unlatched, when it has
 * another extent. */
hn_expr hn_sym_indirect_named(hn_sym *sym, uint32_t number, hn_expr extent);

hn_expr hn_sym_add(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_sym_sub(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_sym_neg(hn_sym *sym, hn_expr a);
hn_expr hn_sym_mul(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_sym_floordiv(hn_sym *sym, hn_expr a, hn_expr b); /* b provably 0: invalid, latched */
hn_expr hn_sym_ceildiv(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_sym_mod(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_sym_min(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_sym_max(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_sym_product(hn_sym *sym, const hn_expr *factors, uint32_t count); /* 1 for none */

/* --- looking at expressions --- */
hn_expr_kind hn_sym_kind(const hn_sym *sym, hn_expr e);
bool hn_sym_is_int(const hn_sym *sym, hn_expr e, int64_t *out_value); /* out may be NULL */
bool hn_sym_is_value(const hn_sym *sym, hn_expr e, int64_t value);
hn_symbol_kind hn_sym_symbol_kind(const hn_sym *sym, hn_expr symbol);
hn_str hn_sym_symbol_name(const hn_sym *sym, hn_expr symbol);
/* The loop extent of an index symbol, the limit of an indirect one, 0 otherwise. */
hn_expr hn_sym_symbol_extent(const hn_sym *sym, hn_expr symbol);
uint32_t hn_sym_index_ordinal(const hn_sym *sym, hn_expr symbol);
/* Arguments of MUL, FLOORDIV, MOD, MIN, MAX. For others count 0. */
const hn_expr *hn_sym_args(const hn_sym *sym, hn_expr e, uint32_t *out_count);

/* A sum seen as constant + sum(coeffs[k] * terms[k]); any expression can be seen so (count 1 or 0).
 * A term is never a sum nor a constant; the pointers are valid until the next constructor call. */
typedef struct hn_sum {
    int64_t constant;
    uint32_t count;
    const hn_expr *terms;
    const int64_t *coeffs;
} hn_sum;
hn_sum hn_sym_sum(const hn_sym *sym, hn_expr e);

/* `e` = *out_coeff * symbol + *out_rest with both free of `symbol`. False when `e` is not affine in
 * it. */
bool hn_sym_affine(hn_sym *sym, hn_expr e, hn_expr symbol, hn_expr *out_coeff, hn_expr *out_rest);
bool hn_sym_uses(const hn_sym *sym, hn_expr e, hn_expr symbol);
/* Each distinct symbol in `e`, in order of first appearance; at most `cap` are written, all are
 * counted. */
uint32_t hn_sym_symbols(const hn_sym *sym, hn_expr e, hn_expr *out, uint32_t cap);
/* Replaces symbols from[k] by to[k], simultaneously, and simplifies again. `e` was simplified with
 * the facts of from[k], so to[k] must respect them: an index i < n may become any expression in
 * 0..n-1, no other. */
hn_expr hn_sym_subst(hn_sym *sym, hn_expr e, const hn_expr *from, const hn_expr *to,
                     uint32_t count);

/* --- facts --- */
void hn_sym_range(const hn_sym *sym, hn_expr e, int64_t *out_lo, int64_t *out_hi);
/* largest known divisor, >= 1; 0 for the constant 0 */
int64_t hn_sym_divisor(const hn_sym *sym, hn_expr e);
/* Narrows the facts of a symbol, or of any expression that is known to be in a range. Expressions
 * made earlier keep their old, wider facts until a constructor gives them again. An empty range
 * latches. */
void hn_sym_assume_range(hn_sym *sym, hn_expr symbol, int64_t lo, int64_t hi);
void hn_sym_assume_divisor(hn_sym *sym, hn_expr symbol, int64_t divisor);
void hn_sym_set_hint(hn_sym *sym, hn_expr symbol, int64_t value);
/* Whether one is set, and which. */
bool hn_sym_has_hint(const hn_sym *sym, hn_expr symbol, int64_t *out_value);
void hn_sym_drop_hint(hn_sym *sym, hn_expr symbol);

/* The value with each symbol at its hint: the one set, about half the extent of an index, else
 * `fallback` clamped to the symbol's range. Saturates on overflow; `fallback` where the value is
 * undefined. */
int64_t hn_sym_hint(const hn_sym *sym, hn_expr e, int64_t fallback);

bool hn_sym_prove_eq(hn_sym *sym, hn_expr a, hn_expr b);
bool hn_sym_prove_ne(hn_sym *sym, hn_expr a, hn_expr b);
bool hn_sym_prove_lt(hn_sym *sym, hn_expr a, hn_expr b);
bool hn_sym_prove_le(hn_sym *sym, hn_expr a, hn_expr b);

/* A recorded relation `lhs REL rhs`, checked at each call. `reason` is for the message. */
typedef enum hn_relation { HN_REL_EQ, HN_REL_NE, HN_REL_LT, HN_REL_LE } hn_relation;
typedef struct hn_guard {
    hn_relation relation;
    hn_expr lhs, rhs;
    const char *reason; /* borrowed, lives in the arena */
} hn_guard;
/* Records that the relation must hold (no decision taken). Provable ones are not recorded. */
void hn_sym_require(hn_sym *sym, hn_relation relation, hn_expr lhs, hn_expr rhs,
                    const char *reason);
/* Whether a == b wherever the recorded guards hold: one of them says so, or says it of multiples
 * (2*s0 + 2 == 8 where s0 == 3). */
bool hn_sym_guarded_eq(hn_sym *sym, hn_expr a, hn_expr b);
/* Decides `lhs REL rhs` by proof or else by the hints (8192 where there is none), recording what
 * was assumed. A recorded relation between a bare symbol and a constant narrows the symbol's range,
 * and so does an equation in one symbol. */
bool hn_sym_guard(hn_sym *sym, hn_relation relation, hn_expr lhs, hn_expr rhs, const char *reason);
/* Whether two numbers are so related. */
bool hn_relation_holds(hn_relation relation, int64_t lhs, int64_t rhs);
const hn_guard *hn_sym_guards(const hn_sym *sym, uint32_t *out_count);
/* A number that rises whenever what is known of a symbol becomes narrower. */
uint32_t hn_sym_epoch(const hn_sym *sym);

/* Exact value with `values[k]` for `symbols[k]`. False when a symbol is missing, on overflow, on
 * division by 0. */
bool hn_sym_eval(const hn_sym *sym, hn_expr e, const hn_expr *symbols, const int64_t *values,
                 uint32_t count, int64_t *out);

/* --- text --- */
/* "2*s0 + i1//4"; parses back to the same id. */
void hn_sym_print(const hn_sym *sym, hn_expr e, hn_strbuf *out);
/* Infix with + - * // % ** ( ) Min() Max() Mod() FloorDiv() and names of known symbols or of the
 * form s<N>/u<N> (made as SIZE / DATA symbols with no bounds). Errors: invalid-argument, with
 * position; the context is not latched. */
hn_status hn_sym_parse(hn_sym *sym, hn_str text, hn_expr *out) HN_MUST_USE;

#endif
