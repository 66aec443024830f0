/* elementwise.c: identities of point-wise ops. Only those that hold for every value: x + 0.0 is not
 * among them, because it turns -0.0 into 0.0; x + (-0.0) and x - 0.0 are. What a NaN carries
 * besides being one is not kept.
 *
 *   %1 = full(1.0)  %2 = mul(%x, %1)      ->      %x
 *   %1 = not(%b)  %2 = not(%1)            ->      %b */
#include "opt/fold/fold.h"

#include "base/compiler.h"

#include <math.h>

/* --- constant operands --- */

typedef enum number {
    NUMBER_ZERO, /* of ints and bool */
    NUMBER_PLUS_ZERO,
    NUMBER_MINUS_ZERO,
    NUMBER_ONE,
    NUMBER_ALL_ONES, /* true, -1, 255 */
    NUMBER_LOWEST,   /* -inf, the smallest int, false */
    NUMBER_HIGHEST
} number;

enum { ON_BOOL = 1, ON_INT = 2, ON_FLOAT = 4, ON_EXACT = ON_BOOL | ON_INT, ON_ALL = 7 };
typedef enum side { SIDE_RIGHT, SIDE_EITHER } side;
typedef enum outcome { GIVES_OTHER, GIVES_NUMBER, GIVES_ZERO, GIVES_NOT_OTHER } outcome;

typedef struct identity {
    hn_op op;
    side side;
    unsigned categories;
    number number;
    outcome outcome;
} identity;

static const identity identities[] = {
    {HN_OP_ADD, SIDE_EITHER, ON_EXACT, NUMBER_ZERO, GIVES_OTHER},
    {HN_OP_ADD, SIDE_EITHER, ON_BOOL, NUMBER_ONE, GIVES_NUMBER},
    {HN_OP_ADD, SIDE_EITHER, ON_FLOAT, NUMBER_MINUS_ZERO, GIVES_OTHER},
    {HN_OP_SUB, SIDE_RIGHT, ON_INT, NUMBER_ZERO, GIVES_OTHER},
    {HN_OP_SUB, SIDE_RIGHT, ON_FLOAT, NUMBER_PLUS_ZERO, GIVES_OTHER},
    {HN_OP_MUL, SIDE_EITHER, ON_ALL, NUMBER_ONE, GIVES_OTHER},
    {HN_OP_MUL, SIDE_EITHER, ON_EXACT, NUMBER_ZERO, GIVES_NUMBER},
    {HN_OP_DIV, SIDE_RIGHT, ON_INT | ON_FLOAT, NUMBER_ONE, GIVES_OTHER},
    {HN_OP_FLOORDIV, SIDE_RIGHT, ON_INT, NUMBER_ONE, GIVES_OTHER},
    {HN_OP_REMAINDER, SIDE_RIGHT, ON_INT, NUMBER_ONE, GIVES_ZERO},
    {HN_OP_FMOD, SIDE_RIGHT, ON_INT, NUMBER_ONE, GIVES_ZERO},
    {HN_OP_POW, SIDE_RIGHT, ON_INT | ON_FLOAT, NUMBER_ONE, GIVES_OTHER},
    {HN_OP_MIN, SIDE_EITHER, ON_ALL, NUMBER_HIGHEST, GIVES_OTHER},
    {HN_OP_MIN, SIDE_EITHER, ON_EXACT, NUMBER_LOWEST, GIVES_NUMBER},
    {HN_OP_MAX, SIDE_EITHER, ON_ALL, NUMBER_LOWEST, GIVES_OTHER},
    {HN_OP_MAX, SIDE_EITHER, ON_EXACT, NUMBER_HIGHEST, GIVES_NUMBER},
    {HN_OP_AND, SIDE_EITHER, ON_EXACT, NUMBER_ALL_ONES, GIVES_OTHER},
    {HN_OP_AND, SIDE_EITHER, ON_EXACT, NUMBER_ZERO, GIVES_NUMBER},
    {HN_OP_OR, SIDE_EITHER, ON_EXACT, NUMBER_ZERO, GIVES_OTHER},
    {HN_OP_OR, SIDE_EITHER, ON_EXACT, NUMBER_ALL_ONES, GIVES_NUMBER},
    {HN_OP_XOR, SIDE_EITHER, ON_EXACT, NUMBER_ZERO, GIVES_OTHER},
    {HN_OP_XOR, SIDE_EITHER, ON_EXACT, NUMBER_ALL_ONES, GIVES_NOT_OTHER},
    {HN_OP_SHL, SIDE_RIGHT, ON_INT, NUMBER_ZERO, GIVES_OTHER},
    {HN_OP_SHR, SIDE_RIGHT, ON_INT, NUMBER_ZERO, GIVES_OTHER},
    {HN_OP_EQ, SIDE_EITHER, ON_BOOL, NUMBER_ONE, GIVES_OTHER},
    {HN_OP_EQ, SIDE_EITHER, ON_BOOL, NUMBER_ZERO, GIVES_NOT_OTHER},
    {HN_OP_NE, SIDE_EITHER, ON_BOOL, NUMBER_ZERO, GIVES_OTHER},
    {HN_OP_NE, SIDE_EITHER, ON_BOOL, NUMBER_ONE, GIVES_NOT_OTHER},
};

static unsigned category(hn_dtype dtype) {
    return hn_dtype_is_float(dtype) ? ON_FLOAT : hn_dtype_is_int(dtype) ? ON_INT : ON_BOOL;
}

static int64_t int_limit(hn_dtype dtype, bool highest) {
    if (dtype == HN_DTYPE_BOOL) return highest;
    unsigned bits = hn_dtype_facts(dtype)->size_bytes * 8u;
    if (dtype == HN_DTYPE_U8) return highest ? 255 : 0;
    int64_t high = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    return highest ? high : -high - 1;
}

static bool is_number(hn_dtype dtype, hn_ref_elem e, number n) {
    bool is_float = hn_dtype_is_float(dtype);
    switch (n) {
    case NUMBER_ZERO: return !is_float && e.i == 0;
    case NUMBER_PLUS_ZERO: return is_float && e.f == 0 && !signbit(e.f);
    case NUMBER_MINUS_ZERO: return is_float && e.f == 0 && signbit(e.f);
    case NUMBER_ONE: return is_float ? e.f == 1 : e.i == 1;
    case NUMBER_ALL_ONES:
        return !is_float && e.i == (dtype == HN_DTYPE_BOOL ? 1 : dtype == HN_DTYPE_U8 ? 255 : -1);
    case NUMBER_LOWEST: return is_float ? e.f == -INFINITY : e.i == int_limit(dtype, false);
    case NUMBER_HIGHEST: return is_float ? e.f == INFINITY : e.i == int_limit(dtype, true);
    }
    return false;
}

/* `x` with the sizes of the result. */
static hn_value as_result(hn_fold *f, const hn_node_info *n, hn_value x) {
    const hn_value_info *to = hn_fold_result(f, n);
    return hn_v_expand(f->g, x, to->sizes, to->rank);
}

static hn_value filled(hn_fold *f, const hn_node_info *n, int64_t value) {
    const hn_value_info *to = hn_fold_result(f, n);
    hn_ref_elem e = hn_dtype_is_float(to->dtype) ? (hn_ref_elem){.f = (double)value}
                                                 : (hn_ref_elem){.i = value};
    return hn_full_like(f->g, e, to);
}

static hn_value apply_identity(hn_fold *f, const hn_node_info *n, outcome gives, hn_value constant,
                               hn_value other) {
    switch (gives) {
    case GIVES_OTHER: return as_result(f, n, other);
    case GIVES_NUMBER: return as_result(f, n, constant);
    case GIVES_ZERO: return filled(f, n, 0);
    case GIVES_NOT_OTHER: return as_result(f, n, hn_b_unary(f->g, HN_OP_NOT, other));
    }
    return 0;
}

static hn_value fold_with_number(hn_fold *f, const hn_node_info *n, uint32_t constant) {
    hn_value x = n->args[constant].as.value;
    hn_ref_elem e;
    if (!hn_uniform(f->g, x, &e)) return 0;
    hn_dtype dtype = hn_graph_value(f->g, x)->dtype;
    for (size_t k = 0; k < HN_COUNT_OF(identities); k++) {
        const identity *row = &identities[k];
        if (row->op != n->op || (constant == 0 && row->side == SIDE_RIGHT)) continue;
        if (!(row->categories & category(dtype)) || !is_number(dtype, e, row->number)) continue;
        return apply_identity(f, n, row->outcome, x, n->args[1 - constant].as.value);
    }
    return 0;
}

/* --- equal operands --- */

static hn_value fold_equal_operands(hn_fold *f, const hn_node_info *n) {
    hn_value x = n->args[0].as.value;
    unsigned kind = category(hn_graph_value(f->g, x)->dtype);
    switch (n->op) {
    case HN_OP_AND:
    case HN_OP_OR:
    case HN_OP_MIN:
    case HN_OP_MAX: return x;
    case HN_OP_SUB: return kind == ON_INT ? filled(f, n, 0) : 0;
    case HN_OP_XOR: return filled(f, n, 0);
    case HN_OP_EQ:
    case HN_OP_LE:
    case HN_OP_GE: return kind != ON_FLOAT ? filled(f, n, 1) : 0; /* NaN != NaN */
    case HN_OP_NE:
    case HN_OP_LT:
    case HN_OP_GT: return kind != ON_FLOAT ? filled(f, n, 0) : 0;
    default: return 0;
    }
}

/* --- comparisons of positions --- */

/* Affine operands: whether lo <= a - b <= hi decides. Empty tensors may be filled with anything. */
static hn_value fold_affine_compare(hn_fold *f, const hn_node_info *n) {
    hn_sym *sym = f->g->sym;
    const hn_value_info *to = hn_fold_result(f, n);
    hn_affine d;
    hn_expr lo, hi, zero = hn_sym_int(sym, 0);
    if (!hn_affine_difference(&f->facts, n->args[0].as.value, n->args[1].as.value, to->rank, &d))
        return 0;
    if (!hn_affine_bounds(sym, &d, to->sizes, to->rank, &lo, &hi)) return 0;
    bool below = hn_sym_prove_lt(sym, hi, zero), above = hn_sym_prove_lt(sym, zero, lo);
    bool not_above = below || hn_sym_prove_le(sym, hi, zero),
         not_below = above || hn_sym_prove_le(sym, zero, lo);
    bool equal = not_above && not_below, differ = below || above;
    bool yes = false, no = false;
    switch (n->op) {
    case HN_OP_EQ: yes = equal, no = differ; break;
    case HN_OP_NE: yes = differ, no = equal; break;
    case HN_OP_LT: yes = below, no = not_below; break;
    case HN_OP_LE: yes = not_above, no = above; break;
    case HN_OP_GT: yes = above, no = not_above; break;
    case HN_OP_GE: yes = not_below, no = below; break;
    default: return 0;
    }
    return yes || no ? filled(f, n, yes) : 0;
}

/* --- one operand --- */

static const hn_node_info *maker(const hn_fold *f, hn_value v) {
    hn_node n = hn_graph_value(f->g, v)->producer;
    return n ? hn_graph_node(f->g, n) : NULL;
}

/* not(a < b) is a >= b but for NaN. */
static hn_op opposite(hn_op compare, bool is_float) {
    static const hn_op pairs[][2] = {
        {HN_OP_EQ, HN_OP_NE}, {HN_OP_LT, HN_OP_GE}, {HN_OP_LE, HN_OP_GT}};
    for (size_t k = 0; k < HN_COUNT_OF(pairs) && (k == 0 || !is_float); k++)
        for (size_t i = 0; i < 2; i++)
            if (pairs[k][i] == compare) return pairs[k][1 - i];
    return HN_OP_NONE;
}

static hn_value fold_not(hn_fold *f, const hn_node_info *inner) {
    if (inner->op == HN_OP_NOT) return inner->args[0].as.value;
    if (hn_op_facts(inner->op)->op_class != HN_OPC_COMPARE) return 0;
    hn_value x = inner->args[0].as.value, y = inner->args[1].as.value;
    hn_op op = opposite(inner->op, hn_dtype_is_float(hn_graph_value(f->g, x)->dtype));
    return op ? hn_b_binary(f->g, op, x, y) : 0;
}

static hn_value fold_unary(hn_fold *f, const hn_node_info *n) {
    hn_value x = n->args[0].as.value;
    hn_dtype dtype = hn_graph_value(f->g, x)->dtype;
    if (hn_op_has(n->op, HN_TRAIT_ROUNDS) && !hn_dtype_is_float(dtype)) return x;
    if ((n->op == HN_OP_ISNAN || n->op == HN_OP_ISINF) && !hn_dtype_is_float(dtype))
        return filled(f, n, 0);
    const hn_node_info *inner = maker(f, x);
    if (!inner) return 0;
    if (hn_op_has(n->op, HN_TRAIT_ROUNDS) && hn_op_has(inner->op, HN_TRAIT_ROUNDS)) return x;
    switch (n->op) {
    case HN_OP_NOT: return fold_not(f, inner);
    case HN_OP_NEG: return inner->op == HN_OP_NEG ? inner->args[0].as.value : 0;
    case HN_OP_ABS:
        if (inner->op == HN_OP_NEG && dtype != HN_DTYPE_U8)
            return hn_b_unary(f->g, HN_OP_ABS, inner->args[0].as.value);
        return inner->op == HN_OP_ABS ? x : 0;
    case HN_OP_RELU:
    case HN_OP_SIGN: return inner->op == n->op ? x : 0;
    default: return 0;
    }
}

/* --- where --- */

static hn_value fold_where(hn_fold *f, const hn_node_info *n) {
    hn_value cond = n->args[0].as.value, x = n->args[1].as.value, y = n->args[2].as.value;
    hn_dtype dtype = hn_graph_value(f->g, x)->dtype;
    hn_ref_elem c, a, b;
    if (hn_uniform(f->g, cond, &c)) return as_result(f, n, c.i ? x : y);
    if (x == y) return as_result(f, n, x);
    if (hn_uniform(f->g, x, &a) && hn_uniform(f->g, y, &b)) {
        /* compared as bits: 0.0 and -0.0 differ, a NaN equals itself */
        if (a.i == b.i) return hn_full_like(f->g, a, hn_fold_result(f, n));
        if (dtype == HN_DTYPE_BOOL)
            return as_result(f, n, a.i ? cond : hn_b_unary(f->g, HN_OP_NOT, cond));
    }
    const hn_node_info *not = hn_made_by(f->g, cond, HN_OP_NOT);
    return not ? hn_b_where(f->g, not ->args[0].as.value, y, x) : 0;
}

/* --- all operands are numbers --- */

static hn_value fold_numbers(hn_fold *f, const hn_node_info *n) {
    hn_ref_elem args[3], out;
    uint32_t count = 0;
    for (uint32_t k = 0; k < n->arg_count; k++) {
        if (n->args[k].kind != HN_ARG_VALUE) continue;
        if (count == HN_COUNT_OF(args) || !hn_uniform(f->g, n->args[k].as.value, &args[count++]))
            return 0;
    }
    if (!count) return 0;
    const hn_value_info *to = hn_fold_result(f, n);
    hn_dtype operand = hn_graph_value(f->g, n->args[n->op == HN_OP_WHERE ? 1 : 0].as.value)->dtype;
    return hn_ref_apply(n->op, operand, to->dtype, args, &out) ? hn_full_like(f->g, out, to) : 0;
}

hn_value hn_fold_elementwise(hn_fold *f, const hn_node_info *n) {
    hn_value found = fold_numbers(f, n);
    hn_op_class class = hn_op_facts(n->op)->op_class;
    if (found) return found;
    if (class == HN_OPC_CAST) return n->op == HN_OP_CAST ? hn_fold_cast(f, n) : 0;
    if (class == HN_OPC_SELECT) return fold_where(f, n);
    if (class == HN_OPC_UNARY || class == HN_OPC_PREDICATE) return fold_unary(f, n);
    if ((found = fold_with_number(f, n, 1)) || (found = fold_with_number(f, n, 0))) return found;
    if (n->args[0].as.value == n->args[1].as.value && (found = fold_equal_operands(f, n)))
        return found;
    return class == HN_OPC_COMPARE ? fold_affine_compare(f, n) : 0;
}
