/* sop.c: the rules for one scalar op. */
#include "ir/sop.h"

static uint32_t elem_arity(hn_op op) {
    switch (hn_op_facts(op)->op_class) {
    case HN_OPC_UNARY:
    case HN_OPC_PREDICATE: return 1;
    case HN_OPC_BINARY:
    case HN_OPC_COMPARE: return 2;
    case HN_OPC_SELECT: return 3;
    case HN_OPC_CAST: return op == HN_OP_BITCAST ? 1 : 0; /* a cast is an op kind of its own */
    default: return 0;                                    /* not element-wise */
    }
}

static const char *check_arity(const hn_sop *op, const hn_dtype args[3]) {
    static const uint32_t arity[] = {
        [HN_SOP_CAST] = 1, [HN_SOP_INDIRECT] = 1, [HN_SOP_RANDOM] = 1, [HN_SOP_RESULT] = 0};
    uint32_t want = op->kind == HN_SOP_ELEM ? elem_arity(op->op) : arity[op->kind];
    if (op->kind == HN_SOP_ELEM && !want) return "not an element-wise op";
    for (uint32_t a = 0; a < 3; a++)
        if ((a < want) != (args[a] != HN_DTYPE_NONE)) return "wrong number of arguments";
    return NULL;
}

static const char *check_elem(const hn_sop *op, const hn_dtype args[3]) {
    hn_op_class class = hn_op_facts(op->op)->op_class;
    bool truth = class == HN_OPC_COMPARE || class == HN_OPC_PREDICATE,
         select = class == HN_OPC_SELECT;
    hn_dtype first = args[select];
    if (select && args[0] != HN_DTYPE_BOOL) return "a condition that is no bool";
    for (uint32_t a = select; a < 3 && args[a]; a++)
        if (args[a] != first) return "arguments of different dtypes";
    if (!hn_op_takes(op->op, first)) return "arguments of a dtype that the op is not defined on";
    if (op->op == HN_OP_BITCAST) {
        bool same = hn_dtype_facts(first)->size_bytes == hn_dtype_facts(op->dtype)->size_bytes;
        return same && hn_dtype_is_float(first) != hn_dtype_is_float(op->dtype)
                   ? NULL
                   : "no bit cast of these dtypes";
    }
    return op->dtype == (truth ? HN_DTYPE_BOOL : first)
               ? NULL
               : "a result of another dtype than the arguments";
}

static const char *check_indirect(const hn_sym *sym, const hn_sop *op, const hn_dtype args[3]) {
    if (args[0] != HN_DTYPE_I64 || op->dtype != HN_DTYPE_I64) return "an index that is no i64";
    return hn_sym_symbol_kind(sym, op->index) == HN_SYMBOL_INDIRECT ? NULL : "no indirect symbol";
}

const char *hn_sop_check(const hn_sym *sym, const hn_sop *op, const hn_dtype args[3]) {
    if ((uint32_t)op->kind > HN_SOP_RESULT) return "no scalar op";
    if (op->dtype == HN_DTYPE_NONE || op->dtype >= HN_DTYPE_COUNT) return "no dtype";
    const char *wrong = check_arity(op, args);
    if (wrong) return wrong;
    if (op->kind == HN_SOP_ELEM) return check_elem(op, args);
    if (op->kind == HN_SOP_INDIRECT) return check_indirect(sym, op, args);
    if (op->kind == HN_SOP_RANDOM && args[0] != HN_DTYPE_I64) return "a seed that is no i64";
    if (op->kind == HN_SOP_RANDOM && (uint32_t)op->op > HN_RANDOM_BITS)
        return "no kind of random numbers";
    return hn_sop_has_index(op) && !op->index ? "no index" : NULL;
}
