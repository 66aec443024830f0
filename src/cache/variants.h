/* variants.h: the programs of one graph by the sizes that they take.
 *
 * A compilation may decide something by the sizes that it expects, and then guards it: "s0 == 1", "s0 % 4 == 0". Calls
 * that break a guard need another program of the same graph. The bytes of a table of variants are the value of an entry of
 * the store; looking a variant up reads nothing else.
 *
 * Every guard is a condition on one expression: its value lies in an interval, or is not a certain number. The expressions
 * of all variants are in the table once each and evaluated once a lookup. The variants are sorted by their intervals on the
 * expression that tells most of them apart, with the furthest upper end of each half beside (an interval tree laid over
 * the sorted array): the ones whose interval holds the value are found in logarithmic time, and only they have their other
 * conditions compared. */
#ifndef HN_CACHE_VARIANTS_H
#define HN_CACHE_VARIANTS_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"

/* Expressions are straight-line programs: operands come before the node that uses them, node 0 is none. */
typedef enum hn_vop {
    HN_VOP_NONE,
    HN_VOP_CONST,  /* b */
    HN_VOP_SYMBOL, /* symbol a */
    HN_VOP_ADD,    /* nodes a, b */
    HN_VOP_MUL,
    HN_VOP_FLOORDIV,
    HN_VOP_MOD, /* sign of the divisor */
    HN_VOP_MIN,
    HN_VOP_MAX,
    HN_VOP_COUNT
} hn_vop;

typedef struct hn_vnode {
    uint32_t op, a;
    int64_t b;
} hn_vnode;

/* A size symbol = (d - rest) / coeff, where d is a dimension of an input, or its value. `rest` uses earlier symbols. */
enum { HN_VDIM_VALUE = UINT32_MAX, HN_VINPUT_NONE = UINT32_MAX };
typedef struct hn_vsymbol {
    uint32_t input;  /* number among all inputs; HN_VINPUT_NONE: only the data tells, nothing can be asked of it */
    uint32_t tensor; /* number among the inputs that are tensors */
    uint32_t dim;
    uint32_t rest;   /* node, 0: nothing */
    int64_t coeff;   /* not 0 */
} hn_vsymbol;

typedef enum hn_vrelation { HN_VREL_EQ, HN_VREL_NE, HN_VREL_LT, HN_VREL_LE, HN_VREL_COUNT } hn_vrelation;
typedef struct hn_vguard {
    uint32_t relation, lhs, rhs;
} hn_vguard;

/* What one program takes. Borrowed arrays; nodes[0] is a filler. */
typedef struct hn_variant_guards {
    const hn_vsymbol *symbols;
    const hn_vnode *nodes;
    const hn_vguard *guards;
    uint32_t symbol_count, node_count, guard_count;
    uint32_t input_count, tensor_count;
} hn_variant_guards;

/* The guards in a form that depends on nothing but what they say: equal ones give equal bytes. Guards on symbols that
 * only the data tells are left out. Errors: invalid-argument for indices out of range; out-of-memory. */
hn_status hn_variant_canonical(const hn_variant_guards *guards, hn_strbuf *out) HN_MUST_USE;
/* The same for people: "s0 == 1, s1 % 4 == 0" with symbols by their inputs; "any size" for none. */
hn_status hn_variant_describe(hn_str canonical, hn_strbuf *out) HN_MUST_USE;

/* Appends the table `old` (may be empty) with one more variant: the program `key`, for these canonical guards. A variant
 * with the same guards is replaced. `is_default`: the one for callers that say no sizes. At most HN_VARIANTS_MAX are kept,
 * the youngest. A table that cannot be read counts as empty. Errors: corrupt guards, out-of-memory. */
enum { HN_VARIANTS_MAX = 4096 };
hn_status hn_variants_add(hn_str old, hn_str canonical, const hn_digest *key, bool is_default, hn_strbuf *out) HN_MUST_USE;
/* Appends the union of two tables; of equal guards those in `newer` win. */
hn_status hn_variants_merge(hn_str older, hn_str newer, hn_strbuf *out) HN_MUST_USE;

/* Whether the bytes are a table. */
bool hn_variants_is_table(hn_str bytes);

/* The sizes of one input. */
typedef struct hn_variant_input {
    uint32_t rank;
    const int64_t *sizes;
    bool has_value; /* an integer: `value` */
    int64_t value;
} hn_variant_input;

typedef struct hn_variants_found {
    hn_digest key;
    bool is_default;
    uint32_t variants, compared; /* in the table; how many of them were looked at */
} hn_variants_found;

/* A variant whose guards these sizes satisfy: the default one before others, older before younger. `inputs` NULL: the
 * default variant. `count`: of all inputs, or of the tensors alone. False: none. A damaged table has none. */
bool hn_variants_find(hn_str table, const hn_variant_input *inputs, uint32_t count, hn_variants_found *out);

/* Each variant in the table, oldest first: `canonical` and `key` are borrowed for the call. */
typedef void (*hn_variant_visitor)(void *user, hn_str canonical, const hn_digest *key, bool is_default);
hn_status hn_variants_each(hn_str table, hn_variant_visitor visit, void *user) HN_MUST_USE;

#endif
