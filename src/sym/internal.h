/* internal.h: the context behind sym.h, shared by the files of this folder.
 *
 * Nodes lie in one dense array and are found through an open-addressing table. Their argument lists
 * are in the arena and never move, so a view of a node (hn_sym_sum) outlives later constructor
 * calls here.
 *
 * Trial mode (`sym->trial` > 0) is for rewrites that may fail: an overflow or a limit gives 0
 * without latching, and the caller falls back to the plain node. Running out of memory always
 * latches. */
#ifndef HN_SYM_INTERNAL_H
#define HN_SYM_INTERNAL_H

#include "base/checked.h"
#include "base/compiler.h"
#include "sym/sym.h"

/* Limits that keep every walk over an expression cheap and its recursion shallow, whatever the
 * input. */
enum {
    HN_SYM_DEPTH_MAX = 256,     /* nesting */
    HN_SYM_SIZE_MAX = 1 << 16,  /* nodes when written out as a tree */
    HN_SYM_TERMS_MAX = 4096,    /* of one sum */
    HN_SYM_FACTORS_MAX = 64,    /* of one product */
    HN_SYM_DISTRIBUTE_MAX = 64, /* terms that multiplying two sums out may give */
};

enum {
    HN_NODE_HAS_DIV = 1, /* FLOORDIV, or a product with such a factor */
    HN_NODE_HAS_MOD = 2,
    HN_NODE_HAS_SUM = 4, /* a product with a sum as a factor: too big to be multiplied out */
};

typedef struct hn_sym_node {
    uint8_t kind;  /* hn_expr_kind */
    uint8_t flags; /* HN_NODE_* */
    uint16_t depth;
    uint32_t count; /* of args */
    hn_expr self;
    /* CONST: the value; ADD: the constant part; SYMBOL: index into symbols */
    int64_t constant;
    const hn_expr *args;   /* ADD: the terms, ascending; MUL: the factors, ascending */
    const int64_t *coeffs; /* ADD only */
    int64_t lo, hi, divisor;
    uint64_t mask;   /* bit (symbol index % 64) of each symbol inside */
    uint32_t size;   /* nodes of the tree */
    uint64_t digest; /* of the expression as written: the same whatever was interned before it */
    uint32_t epoch;  /* of the facts */
} hn_sym_node;

typedef struct hn_sym_symbol_info {
    hn_str name;
    hn_symbol_kind kind;
    uint32_t ordinal;
    hn_expr extent;
    int64_t hint;
    bool has_hint;
} hn_sym_symbol_info;

/* Operations in the memo table. */
typedef enum hn_memo_op {
    HN_MEMO_NONE,
    HN_MEMO_ADD,
    HN_MEMO_MUL,
    HN_MEMO_FLOORDIV,
    HN_MEMO_MOD,
    HN_MEMO_MIN,
    HN_MEMO_MAX,
    HN_MEMO_NONNEG,
    HN_MEMO_OP_COUNT = 8
} hn_memo_op;

enum { HN_MEMO_SLOTS = 4096 };

typedef struct hn_sym_memo {
    hn_expr a, b;
    uint32_t tag; /* op + HN_MEMO_OP_COUNT * epoch */
    uint32_t result;
} hn_sym_memo;

enum { HN_SMALL_MIN = -16, HN_SMALL_MAX = 128 };

/* Scratch of hn_sym_symbols: which symbols this walk has met. Behind a pointer: the walk is
 * const. */
typedef struct hn_sym_marks {
    uint32_t stamp, cap;
    uint32_t *of_symbol;
} hn_sym_marks;

struct hn_sym {
    hn_arena *arena;
    hn_sym_node *nodes; /* [0] is the invalid one */
    uint32_t node_count, node_cap;
    uint64_t *slots;     /* hash << 32 | node id, 0 empty: a miss does not touch the node */
    uint32_t slot_count; /* power of two */
    hn_sym_symbol_info *symbols;
    uint32_t symbol_count, symbol_cap;
    hn_strmap names; /* name -> expression */
    hn_map indices;  /* ordinal, extent -> index symbol */
    /* ordinal -> the index symbol asked for last: what "i0" means to the parser */
    hn_map latest;
    uint32_t indirect_count;
    hn_expr small[HN_SMALL_MAX - HN_SMALL_MIN + 1];
    hn_sym_memo *memo;
    hn_sym_marks *marks;
    uint32_t epoch; /* raised when facts narrow */
    uint32_t trial;
    uint32_t proof_depth, fuel; /* see prove.c */
    uint32_t recombine_depth;   /* see sum.c */
    uint32_t cuts;              /* how often a limit of a proof or of nesting was hit */
    hn_guard *guards;
    uint32_t guard_count, guard_cap;
    hn_map guard_keys;
    bool failed;
    hn_code error_code;
    int error_line;
    const char *error_file;
    char error_text[192];
    char trial_text[192]; /* why the last trial failed */
};

static inline const hn_sym_node *hn_sym_at(const hn_sym *sym, hn_expr e) { return &sym->nodes[e]; }
static inline bool hn_sym_is_const(const hn_sym *sym, hn_expr e) {
    return sym->nodes[e].kind == HN_EXPR_CONST;
}
static inline int64_t hn_sym_const(const hn_sym *sym, hn_expr e) { return sym->nodes[e].constant; }

/* --- sym.c --- */
/* Latches the error, or in trial mode only notes it. Always 0. */
hn_expr hn_sym_fail_at(hn_sym *sym, hn_code code, const char *file, int line, const char *fmt, ...)
    HN_PRINTF(5, 6);
#define hn_sym_fail(sym, code, ...) hn_sym_fail_at((sym), (code), __FILE__, __LINE__, __VA_ARGS__)
/* Latches a status of another module, taking it; trial mode does not matter. Always 0. */
hn_expr hn_sym_fail_status(hn_sym *sym, hn_status status);

/* The node with exactly this content; no simplification. */
hn_expr hn_sym_intern(hn_sym *sym, hn_expr_kind kind, int64_t constant, const hn_expr *args,
                      const int64_t *coeffs, uint32_t count);
hn_expr hn_sym_intern2(hn_sym *sym, hn_expr_kind kind, hn_expr a, hn_expr b);

/* Results of earlier calls; a lookup gives 0 when unknown. A result is not kept when `cuts`
 * (sym->cuts from before it was computed) has changed: a limit was hit, and elsewhere it might come
 * out simpler. */
uint32_t hn_sym_memo_get(const hn_sym *sym, hn_memo_op op, hn_expr a, hn_expr b);
void hn_sym_memo_put(hn_sym *sym, hn_memo_op op, hn_expr a, hn_expr b, uint32_t result,
                     uint32_t cuts);

/* --- facts.c --- */
/* Fills range, divisor and epoch of `node` from its arguments. */
void hn_sym_facts_compute(const hn_sym *sym, hn_sym_node *node);
/* The range of coeff * e, and of the sum of two ranges; INT64_MIN and INT64_MAX are the
 * infinities. */
typedef struct hn_range {
    int64_t lo, hi;
} hn_range;
hn_range hn_range_scaled(const hn_sym *sym, hn_expr e, int64_t coeff);
hn_range hn_range_add(hn_range a, hn_range b);
static inline bool hn_range_finite(hn_range r) { return r.lo != HN_SYM_MIN && r.hi != HN_SYM_MAX; }

/* --- sum.c --- */
enum { HN_SUM_INLINE = 24 };

/* A sum under construction. Terms are neither sums nor constants; finish sorts and merges them. */
typedef struct hn_sum_buf {
    int64_t constant;
    uint32_t count, cap;
    bool sorted; /* strictly ascending, no zero coefficient */
    bool failed; /* overflow or no memory; finish reports */
    hn_expr *terms;
    int64_t *coeffs;
    hn_expr inline_terms[HN_SUM_INLINE];
    int64_t inline_coeffs[HN_SUM_INLINE];
} hn_sum_buf;

void hn_sum_init(hn_sum_buf *buf);
/* += scale * value */
void hn_sum_const(hn_sum_buf *buf, int64_t value, int64_t scale);
/* += coeff * term */
void hn_sum_push(hn_sym *sym, hn_sum_buf *buf, hn_expr term, int64_t coeff);
void hn_sum_add(hn_sym *sym, hn_sum_buf *buf, hn_expr e,
                int64_t scale); /* += scale * any expression; 0 fails */
/* 0 when it failed */
hn_expr hn_sum_finish(hn_sym *sym, hn_sum_buf *buf);
hn_expr hn_sym_scale(hn_sym *sym, hn_expr e, int64_t factor);

/* `e` is coeff * term, both written; a constant and a sum are not. */
bool hn_sym_is_monomial(const hn_sym *sym, hn_expr e, int64_t *out_coeff, hn_expr *out_term);

/* --- mul.c --- */
/* The factors of a term: those of a product, else the term itself. */
const hn_expr *hn_term_factors(const hn_sym *sym, hn_expr term, uint32_t *out_count);
hn_expr hn_term_mul(hn_sym *sym, hn_expr a, hn_expr b); /* of two terms, or const 1 */
/* term / part when every factor of `part` (a term or const 1) is in `term`; 0 otherwise. */
hn_expr hn_term_div(hn_sym *sym, hn_expr term, hn_expr part);
/* What the factors of two terms have in common; const 1 when nothing. */
hn_expr hn_term_gcd(hn_sym *sym, hn_expr a, hn_expr b);

/* --- div_const.c, div_expr.c: simplification of // and %; 0: no rule applies --- */
hn_expr hn_div_const(hn_sym *sym, hn_expr a, int64_t c);
hn_expr hn_mod_const(hn_sym *sym, hn_expr a, int64_t c);
hn_expr hn_div_expr(hn_sym *sym, hn_expr a, hn_expr b);
hn_expr hn_mod_expr(hn_sym *sym, hn_expr a, hn_expr b);

/* --- prove.c --- */
bool hn_sym_nonneg(hn_sym *sym, hn_expr d); /* provably d >= 0 */

#endif
