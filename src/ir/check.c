/* check.c: arguments against rows, and what is known of two sizes. */
#include "ir/check.h"

#include "base/compiler.h"
#include "ir/text.h"

static const char *const arg_kind_names[] = {
    [HN_ARG_NONE] = "none",     [HN_ARG_VALUE] = "value", [HN_ARG_VALUES] = "list of values",
    [HN_ARG_INT] = "int",       [HN_ARG_INTS] = "ints",   [HN_ARG_FLOAT] = "float",
    [HN_ARG_FLOATS] = "floats", [HN_ARG_BOOL] = "bool",   [HN_ARG_STRING] = "string",
    [HN_ARG_DTYPE] = "dtype",   [HN_ARG_GRAPH] = "graph",
};
static const char *const param_kind_names[] = {
    [HN_PARAM_TENSOR] = "tensor", [HN_PARAM_TENSORS] = "list of tensors",
    [HN_PARAM_INT] = "int",       [HN_PARAM_INTS] = "ints",
    [HN_PARAM_FLOAT] = "float",   [HN_PARAM_FLOATS] = "floats",
    [HN_PARAM_BOOL] = "bool",     [HN_PARAM_STRING] = "string",
    [HN_PARAM_DTYPE] = "dtype",   [HN_PARAM_SCALAR] = "scalar",
    [HN_PARAM_GRAPH] = "graph",
};

const char *hn_arg_kind_name(hn_arg_kind kind) {
    return (size_t)kind < HN_COUNT_OF(arg_kind_names) ? arg_kind_names[kind] : "?";
}
const char *hn_param_kind_name(hn_param_kind kind) {
    return (size_t)kind < HN_COUNT_OF(param_kind_names) ? param_kind_names[kind] : "?";
}

/* --- kinds --- */

enum {
    K_TENSOR = 1u << 16,
    K_SYM = 1u << 17,
    K_TENSORS = 1u << 18,
    K_SYMS = 1u << 19,
    K_HOLES = 1u << 20
};
#define K(kind) (1u << HN_ARG_##kind)

/* The argument as one bit; values and lists by what they hold. */
static uint32_t arg_bits(const hn_graph *g, const hn_arg *arg) {
    if (arg->kind == HN_ARG_VALUE) {
        if (!arg->as.value || arg->as.value >= g->values.count) return 0;
        return hn_graph_value(g, arg->as.value)->kind == HN_VALUE_TENSOR ? K_TENSOR : K_SYM;
    }
    if (arg->kind != HN_ARG_VALUES) return 1u << arg->kind;
    uint32_t bits = 0;
    for (uint32_t i = 0; i < arg->count; i++) {
        hn_value v = arg->as.values[i];
        if (v >= g->values.count) return 0;
        if (!v) bits |= K_HOLES;
        else bits |= hn_graph_value(g, v)->kind == HN_VALUE_TENSOR ? K_TENSORS : K_SYMS;
    }
    return bits ? bits : K_TENSORS;
}

static uint32_t primitive_bits(hn_op op, const hn_param *p) {
    static const uint32_t bits[] = {
        [HN_PARAM_TENSOR] = K_TENSOR, [HN_PARAM_TENSORS] = K_TENSORS,
        [HN_PARAM_INT] = K(INT),      [HN_PARAM_INTS] = K(INTS),
        [HN_PARAM_FLOAT] = K(FLOAT),  [HN_PARAM_FLOATS] = K(FLOATS),
        [HN_PARAM_BOOL] = K(BOOL),    [HN_PARAM_STRING] = K(STRING),
        [HN_PARAM_DTYPE] = K(DTYPE),  [HN_PARAM_SCALAR] = K(INT) | K(FLOAT) | K(BOOL),
        [HN_PARAM_GRAPH] = K(GRAPH),
    };
    uint32_t allowed = bits[p->kind] | (p->optional ? K(NONE) : 0);
    /* Conditions and what subgraphs take may be symbolic scalars. */
    if (hn_op_facts(op)->op_class != HN_OPC_CONTROL) return allowed;
    if (allowed & K_TENSOR) allowed |= K_SYM;
    return allowed & K_TENSORS ? allowed | K_SYMS : allowed;
}

static uint32_t aten_bits(const hn_param *p) {
    static const uint32_t number = K(INT) | K(FLOAT) | K(BOOL) | K_SYM | K_TENSOR;
    static const uint32_t bits[] = {
        [HN_PARAM_TENSOR] = K_TENSOR | K_SYM | K(INT) | K(FLOAT) | K(BOOL),
        [HN_PARAM_TENSORS] = K_TENSORS | K_SYMS,
        [HN_PARAM_INT] = K(INT) | K(BOOL) | K_SYM,
        [HN_PARAM_INTS] = K(INTS) | K(INT) | K_SYMS | K_SYM,
        [HN_PARAM_FLOAT] = number,
        [HN_PARAM_FLOATS] = K(FLOATS) | K(INTS) | K(FLOAT) | K(INT) | K_SYMS,
        [HN_PARAM_BOOL] = K(BOOL) | K(INT) | K_SYM,
        [HN_PARAM_STRING] = K(STRING) | K(INT),
        [HN_PARAM_DTYPE] = K(DTYPE),
        [HN_PARAM_SCALAR] = number,
        [HN_PARAM_GRAPH] = K(GRAPH),
    };
    uint32_t allowed =
        bits[p->kind] | (p->optional ? K(NONE) : 0) | (p->optional_elems ? K_HOLES : 0);
    if (p->kind == HN_PARAM_TENSOR && p->mutated) allowed = K_TENSOR;
    if (p->kind == HN_PARAM_STRING || p->kind == HN_PARAM_DTYPE) allowed |= K(NONE);
    /* An empty list shows no element kind. */
    return allowed & (K(INTS) | K(FLOATS)) ? allowed | K_TENSORS : allowed;
}

static bool arg_is_whole(const hn_arg *arg) {
    switch (arg->kind) {
    case HN_ARG_INT: return arg->as.expr != 0;
    case HN_ARG_GRAPH: return arg->as.graph != NULL;
    case HN_ARG_DTYPE:
        return (uint32_t)arg->as.dtype < HN_DTYPE_COUNT && arg->as.dtype != HN_DTYPE_NONE;
    case HN_ARG_INTS:
        for (uint32_t i = 0; i < arg->count; i++)
            if (!arg->as.exprs[i]) return false;
        return true;
    default: return true;
    }
}

hn_status hn_args_check(const hn_graph *g, hn_op op, const hn_arg *args, uint32_t arg_count) {
    uint32_t count;
    const hn_param *params = hn_op_params(op, &count);
    if (count != arg_count)
        return HN_ERROR(HN_INTERNAL, "'%s' has %u arguments instead of %u", hn_op_facts(op)->name,
                        arg_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const hn_param *p = &params[i];
        uint32_t have = arg_bits(g, &args[i]);
        uint32_t allowed = hn_op_is_aten(op) ? aten_bits(p) : primitive_bits(op, p);
        if (!have || (have & ~allowed) || !arg_is_whole(&args[i]))
            return HN_ERROR(
                HN_INTERNAL,
                "argument '" HN_STR_FMT "' of '%s' does not fit: a %s was given, a %s%s is wanted",
                HN_STR_ARG(p->name), hn_op_facts(op)->name, hn_arg_kind_name(args[i].kind),
                hn_param_kind_name(p->kind), p->optional ? " or none" : "");
    }
    return NULL;
}

/* --- sizes --- */

void hn_sizes_print(const hn_graph *g, hn_dtype dtype, const hn_expr *sizes, uint32_t rank,
                    hn_strbuf *out) {
    hn_strbuf_puts(out, hn_dtype_facts(dtype)->name);
    hn_strbuf_putc(out, '[');
    for (uint32_t i = 0; i < rank; i++) {
        if (i) hn_strbuf_puts(out, ", ");
        hn_text_print_expr(g->sym, sizes[i], out);
    }
    hn_strbuf_putc(out, ']');
}

static bool has_guard(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(g->sym, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (guards[i].relation != relation) continue;
        if (guards[i].lhs == a && guards[i].rhs == b) return true;
        if (relation == HN_REL_EQ && guards[i].lhs == b && guards[i].rhs == a) return true;
    }
    return false;
}

bool hn_sizes_agree(const hn_graph *g, hn_expr a, hn_expr b) {
    if (!a || !b) return false;
    return a == b || hn_sym_prove_eq(g->sym, a, b) || hn_sym_guarded_eq(g->sym, a, b);
}

bool hn_size_stretches(const hn_graph *g, hn_expr a, hn_expr b) {
    enum { UNKNOWN = 8192 }; /* hn_sym_guard's guess, so that both see the same */
    if (!a || !b || hn_sym_is_int(g->sym, a, NULL) || hn_sym_is_value(g->sym, b, 1) ||
        hn_sizes_agree(g, a, b))
        return false;
    hn_expr one = hn_sym_int(g->sym, 1);
    if (hn_sizes_agree(g, a, one)) return true;
    if (hn_sym_hint(g->sym, a, UNKNOWN) != 1 || hn_sym_hint(g->sym, b, UNKNOWN) == 1) return false;
    return hn_sym_guard(g->sym, HN_REL_EQ, a, one, "a size that is broadcast is 1");
}

bool hn_size_proved(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b) {
    switch (relation) {
    case HN_REL_EQ: return a == b || hn_sym_prove_eq(g->sym, a, b);
    case HN_REL_NE: return hn_sym_prove_ne(g->sym, a, b);
    case HN_REL_LT: return hn_sym_prove_lt(g->sym, a, b);
    case HN_REL_LE: return a == b || hn_sym_prove_le(g->sym, a, b);
    }
    return false;
}

bool hn_size_refuted(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b) {
    switch (relation) {
    case HN_REL_EQ: return hn_sym_prove_ne(g->sym, a, b);
    case HN_REL_NE: return hn_size_proved(g, HN_REL_EQ, a, b);
    case HN_REL_LT: return hn_size_proved(g, HN_REL_LE, b, a);
    case HN_REL_LE: return hn_sym_prove_lt(g->sym, b, a);
    }
    return false;
}

static hn_status relation_error(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b,
                                const char *what) {
    static const char *const signs[] = {
        [HN_REL_EQ] = "==", [HN_REL_NE] = "!=", [HN_REL_LT] = "<", [HN_REL_LE] = "<="};
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_text_print_expr(g->sym, a, &text);
    hn_strbuf_printf(&text, " %s ", signs[relation]);
    hn_text_print_expr(g->sym, b, &text);
    hn_status status =
        HN_ERROR(HN_INTERNAL, "%s: %s does not hold", what, text.ptr ? text.ptr : "the relation");
    hn_strbuf_deinit(&text);
    return status;
}

void hn_guard_add(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b,
                  const char *reason) {
    if (!has_guard(g, relation, a, b)) hn_sym_require(g->sym, relation, a, b, reason);
}

hn_status hn_size_require(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b,
                          const char *what) {
    if (!a || !b) {
        HN_TRY(hn_sym_status(g->sym));
        return HN_ERROR(HN_INTERNAL, "%s: a size is invalid", what);
    }
    if (hn_size_proved(g, relation, a, b)) return NULL;
    if (hn_size_refuted(g, relation, a, b)) return relation_error(g, relation, a, b, what);
    hn_guard_add(g, relation, a, b, what);
    return NULL;
}
