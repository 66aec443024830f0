/* interp_bind.c: gives size symbols their values from the shapes of the inputs, and checks what the
 * graph demands of them.
 *
 * Plain symbols are bound first, from the first input that shows them. A symbol that shows up only
 * in sums, such as 2*s77 + 1, is solved for next. Every recorded size is then evaluated and
 * compared, and the guards are checked. Data-dependent symbols are bound by the ops that make
 * them. */
#include "base/checked.h"
#include "ir/interp_impl.h"

#include <inttypes.h>

static bool binding_find(const hn_ref_bindings *b, hn_expr symbol, int64_t *out) {
    for (uint32_t k = 0; k < b->symbols.count; k++) {
        if (b->symbols.items[k] != symbol) continue;
        if (out) *out = b->values.items[k];
        return true;
    }
    return false;
}

#define MAX_SYMBOLS_SEEN 64 /* in one expression; more are only less well explained */

/* The first symbol of `e` without a value; 0 when all have one. */
static hn_expr unbound_in(const hn_ref_bindings *b, hn_expr e) {
    hn_expr symbols[MAX_SYMBOLS_SEEN];
    uint32_t count = hn_sym_symbols(b->sym, e, symbols, MAX_SYMBOLS_SEEN);
    for (uint32_t k = 0; k < count && k < MAX_SYMBOLS_SEEN; k++)
        if (!binding_find(b, symbols[k], NULL)) return symbols[k];
    return 0;
}

static bool eval(const hn_ref_bindings *b, hn_expr e, int64_t *out) {
    return hn_sym_is_int(b->sym, e, out) ||
           hn_sym_eval(b->sym, e, b->symbols.items, b->values.items, b->symbols.count, out);
}

hn_status hn_ref_eval(const hn_ref_bindings *b, hn_expr e, int64_t *out) {
    if (e == 0) return HN_ERROR(HN_INTERNAL, "an invalid expression");
    if (eval(b, e, out)) return NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_sym_print(b->sym, e, &text);
    hn_expr missing = unbound_in(b, e);
    hn_str name = missing ? hn_sym_symbol_name(b->sym, missing) : HN_STR("");
    hn_status status =
        missing
            ? HN_ERROR(HN_INVALID_ARGUMENT,
                       "cannot evaluate '%s': no input or node gives '" HN_STR_FMT "'",
                       text.ptr ? text.ptr : "?", HN_STR_ARG(name))
            : HN_ERROR(HN_INVALID_ARGUMENT, "cannot evaluate '%s': it overflows or divides by zero",
                       text.ptr ? text.ptr : "?");
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_ref_eval_sizes(const hn_ref_bindings *b, uint32_t rank, const hn_expr *sizes,
                            int64_t *out) {
    for (uint32_t d = 0; d < rank; d++) HN_TRY(hn_ref_eval(b, sizes[d], &out[d]));
    return NULL;
}

static hn_status check_range(const hn_ref_bindings *b, hn_expr symbol, int64_t value,
                             const char *what) {
    int64_t lo, hi;
    hn_sym_range(b->sym, symbol, &lo, &hi);
    if (value >= lo && value <= hi) return NULL;
    hn_str name = hn_sym_symbol_name(b->sym, symbol);
    if (hi == HN_SYM_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "%s is %" PRId64 ", must be at least %" PRId64 " ('" HN_STR_FMT "')", what,
                        value, lo, HN_STR_ARG(name));
    if (lo == HN_SYM_MIN)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "%s is %" PRId64 ", must be at most %" PRId64 " ('" HN_STR_FMT "')", what,
                        value, hi, HN_STR_ARG(name));
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "%s is %" PRId64 ", must be in [%" PRId64 ", %" PRId64 "] ('" HN_STR_FMT "')",
                    what, value, lo, hi, HN_STR_ARG(name));
}

static hn_status binding_add(hn_ref_bindings *b, hn_expr symbol, int64_t value, const char *what) {
    HN_TRY(check_range(b, symbol, value, what));
    HN_PUSH(b->arena, &b->symbols, symbol);
    HN_PUSH(b->arena, &b->values, value);
    return NULL;
}

static hn_status does_not_fit(const hn_ref_bindings *b, hn_expr e, int64_t value, int64_t want,
                              const char *what) {
    if (hn_sym_is_int(b->sym, e, NULL))
        return HN_ERROR(HN_INVALID_ARGUMENT, "%s is %" PRId64 ", must be %" PRId64, what, value,
                        want);
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_sym_print(b->sym, e, &text);
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "%s is %" PRId64 ", must be %s = %" PRId64,
                                what, value, text.ptr ? text.ptr : "?", want);
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_ref_bind(hn_ref_bindings *b, hn_expr e, int64_t value, const char *what) {
    int64_t want;
    if (e && hn_sym_kind(b->sym, e) == HN_EXPR_SYMBOL && !binding_find(b, e, NULL))
        return binding_add(b, e, value, what);
    HN_TRY(hn_ref_eval(b, e, &want));
    return want == value ? NULL : does_not_fit(b, e, value, want, what);
}

void hn_ref_unbind(hn_ref_bindings *b, hn_expr symbol) {
    for (uint32_t k = 0; k < b->symbols.count; k++) {
        if (b->symbols.items[k] != symbol) continue;
        b->symbols.items[k] = b->symbols.items[--b->symbols.count];
        b->values.items[k] = b->values.items[--b->values.count];
        return;
    }
}

/* --- guards --- */

static hn_status guard_failed(const hn_ref_bindings *b, const hn_guard *guard, int64_t lhs,
                              int64_t rhs) {
    static const char *const signs[] = {
        [HN_REL_EQ] = "==", [HN_REL_NE] = "!=", [HN_REL_LT] = "<", [HN_REL_LE] = "<="};
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_sym_print(b->sym, guard->lhs, &text);
    hn_strbuf_printf(&text, " %s ", signs[guard->relation]);
    hn_sym_print(b->sym, guard->rhs, &text);
    bool has_reason = guard->reason && guard->reason[0];
    hn_status status = HN_ERROR(
        HN_INVALID_ARGUMENT, "the inputs break the guard '%s': %" PRId64 " and %" PRId64 "%s%s%s",
        text.ptr ? text.ptr : "?", lhs, rhs, has_reason ? " (" : "",
        has_reason ? guard->reason : "", has_reason ? ")" : "");
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_ref_check_guards(const hn_ref_bindings *b, hn_expr symbol) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(b->sym, &count);
    for (uint32_t k = 0; k < count; k++) {
        const hn_guard *guard = &guards[k];
        int64_t lhs, rhs;
        if (symbol && !hn_sym_uses(b->sym, guard->lhs, symbol) &&
            !hn_sym_uses(b->sym, guard->rhs, symbol))
            continue;
        if (unbound_in(b, guard->lhs) || unbound_in(b, guard->rhs))
            continue; /* checked when the symbol gets its value */
        HN_TRY(hn_status_annotate(hn_ref_eval(b, guard->lhs, &lhs), "in a guard"));
        HN_TRY(hn_status_annotate(hn_ref_eval(b, guard->rhs, &rhs), "in a guard"));
        if (!hn_relation_holds(guard->relation, lhs, rhs)) return guard_failed(b, guard, lhs, rhs);
    }
    return NULL;
}

/* --- inputs --- */

/* Walks the recorded sizes and scalar values of the USER inputs. */
typedef hn_status (*demand_fn)(hn_ref_bindings *b, hn_expr e, int64_t value, const char *what);

static hn_status each_demand(hn_ref_bindings *b, hn_graph *graph,
                             const hn_ref_tensor *const *inputs, demand_fn visit) {
    uint32_t k = 0;
    for (uint32_t n = 0; n < graph->inputs.count; n++) {
        const hn_input *input = &graph->inputs.items[n];
        if (input->kind != HN_INPUT_USER) continue;
        const hn_value_info *info = hn_graph_value(graph, input->value);
        const hn_ref_tensor *given = inputs[k++];
        char what[160];
        if (info->kind == HN_VALUE_SYM_INT) {
            snprintf(what, sizeof what, "input '" HN_STR_FMT "'", HN_STR_ARG(input->name));
            HN_TRY(visit(b, info->expr, given->data.i[0], what));
        }
        for (uint32_t d = 0; info->kind == HN_VALUE_TENSOR && d < info->rank; d++) {
            snprintf(what, sizeof what, "input '%.*s' dimension %u",
                     (int)(input->name.len < 100 ? input->name.len : 100), input->name.ptr, d);
            HN_TRY(visit(b, info->sizes[d], given->sizes[d], what));
        }
    }
    return NULL;
}

static hn_status demand_plain(hn_ref_bindings *b, hn_expr e, int64_t value, const char *what) {
    if (e == 0 || hn_sym_kind(b->sym, e) != HN_EXPR_SYMBOL || binding_find(b, e, NULL)) return NULL;
    return binding_add(b, e, value, what);
}

/* e = constant + sum(coeff * term) with one term that is an unbound symbol and every other term
 * known. */
static hn_status demand_solve(hn_ref_bindings *b, hn_expr e, int64_t value, const char *what) {
    int64_t rest, coeff = 0, term, part;
    hn_expr symbol = 0;
    if (e == 0 || !unbound_in(b, e)) return NULL;
    hn_sum sum = hn_sym_sum(b->sym, e);
    if (!hn_sub_i64(value, sum.constant, &rest)) return NULL;
    for (uint32_t k = 0; k < sum.count; k++) {
        if (!unbound_in(b, sum.terms[k])) {
            if (!eval(b, sum.terms[k], &term) || !hn_mul_i64(term, sum.coeffs[k], &part) ||
                !hn_sub_i64(rest, part, &rest))
                return NULL;
        } else if (symbol || hn_sym_kind(b->sym, sum.terms[k]) != HN_EXPR_SYMBOL) {
            return NULL;
        } else {
            symbol = sum.terms[k];
            coeff = sum.coeffs[k];
        }
    }
    if (!symbol || coeff == 0 || (coeff == -1 && rest == INT64_MIN)) return NULL;
    if (rest % coeff != 0) {
        hn_str name = hn_sym_symbol_name(b->sym, symbol);
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "%s is %" PRId64 ", must be %" PRId64 " plus a multiple of %" PRId64
                        " (of '" HN_STR_FMT "')",
                        what, value, value - rest, coeff, HN_STR_ARG(name));
    }
    return binding_add(b, symbol, rest / coeff, what);
}

/* What each kind of input value takes. */
static hn_status check_meta(const hn_input *input, const hn_value_info *info,
                            const hn_ref_tensor *given) {
    static const hn_dtype scalar_dtypes[] = {[HN_VALUE_SYM_INT] = HN_DTYPE_I64,
                                             [HN_VALUE_SYM_FLOAT] = HN_DTYPE_F64,
                                             [HN_VALUE_SYM_BOOL] = HN_DTYPE_BOOL};
    hn_dtype dtype = info->kind == HN_VALUE_TENSOR ? info->dtype : scalar_dtypes[info->kind];
    uint32_t rank = info->kind == HN_VALUE_TENSOR ? info->rank : 0;
    if (given->dtype != dtype)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input '" HN_STR_FMT "' has dtype %s, must be %s",
                        HN_STR_ARG(input->name), hn_dtype_facts(given->dtype)->name,
                        hn_dtype_facts(dtype)->name);
    if (given->rank != rank)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input '" HN_STR_FMT "' has rank %u, must be %u",
                        HN_STR_ARG(input->name), given->rank, rank);
    return NULL;
}

hn_status hn_ref_bind_inputs(hn_ref_bindings *b, hn_graph *graph,
                             const hn_ref_tensor *const *inputs, uint32_t input_count) {
    uint32_t users = 0;
    for (uint32_t n = 0; n < graph->inputs.count; n++) {
        const hn_input *input = &graph->inputs.items[n];
        if (input->kind != HN_INPUT_USER) continue;
        if (users < input_count)
            HN_TRY(check_meta(input, hn_graph_value(graph, input->value), inputs[users]));
        users++;
    }
    if (users != input_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u inputs given, must be %u", input_count, users);
    HN_TRY(each_demand(b, graph, inputs, demand_plain));
    for (uint32_t before = b->symbols.count + 1;
         before != b->symbols.count;) { /* each symbol solved may solve another */
        before = b->symbols.count;
        HN_TRY(each_demand(b, graph, inputs, demand_solve));
    }
    HN_TRY(each_demand(b, graph, inputs, hn_ref_bind));
    return hn_ref_check_guards(b, 0);
}
