/* interp_scalar.c: the scalar ops of loop IR, and the running state of reductions and scans.
 *
 * Unlike the rows of graphs in interp_reduce.c, which sum in double and round at the end, a step
 * here rounds to the dtype: that is what a register of a kernel holds. */
#include "ir/interp_impl.h"
#include "ir/loop_interp.h"

static hn_status no_meaning(const char *what, hn_dtype dtype) {
    return HN_ERROR(HN_INTERNAL, "'%s' has no meaning for %s", what, hn_dtype_facts(dtype)->name);
}

/* --- ops --- */

static hn_ref_elem constant(const hn_sop *op) {
    if (hn_dtype_is_float(op->dtype))
        return (hn_ref_elem){.f = hn_ref_round_f(op->dtype, op->imm.f)};
    return (hn_ref_elem){.i = hn_ref_narrow_i(op->dtype, op->imm.i)};
}

hn_status hn_ref_scalar(const hn_sop *op, hn_dtype operand, const hn_ref_elem args[3],
                        int64_t index, hn_ref_elem *out) {
    switch (op->kind) {
    case HN_SOP_ELEM:
        return hn_ref_apply(op->op, operand, op->dtype, args, out)
                   ? NULL
                   : no_meaning(hn_op_facts(op->op)->name, operand);
    case HN_SOP_CAST: *out = hn_ref_cast(args[0], operand, op->dtype); return NULL;
    case HN_SOP_CONST: *out = constant(op); return NULL;
    case HN_SOP_INDEX: out->i = index; return NULL;
    case HN_SOP_RANDOM:
        return hn_ref_random_element((hn_random_kind)op->op, op->dtype, args[0].i, index, op->imm.i,
                                     out);
    default: return HN_ERROR(HN_INTERNAL, "an op of kind %d is no scalar", (int)op->kind);
    }
}

hn_status hn_ref_combine(hn_store_mode mode, hn_dtype dtype, hn_ref_elem old, hn_ref_elem *value) {
    static const hn_op rows[] = {[HN_STORE_ADD] = HN_OP_ADD,
                                 [HN_STORE_MUL] = HN_OP_MUL,
                                 [HN_STORE_MIN] = HN_OP_MIN,
                                 [HN_STORE_MAX] = HN_OP_MAX};
    const hn_ref_elem args[3] = {old, *value};
    bool known = hn_ref_apply(rows[mode], dtype, dtype, args, value);
    return known ? NULL : no_meaning("a store that combines", dtype);
}

bool hn_ref_checked_index(int64_t value, int64_t limit, bool wraps, int64_t *out) {
    if (wraps && value < 0) value += limit;
    *out = value;
    return value >= 0 && value < limit;
}

/* --- reductions and scans --- */

typedef enum reduction_start { START_ZERO, START_ONE, START_LEAST, START_GREATEST } reduction_start;

/* `combine` is the element-wise row that takes two values to one; NONE: see `search`, or a function
 * of its own. */
typedef struct reduction_row {
    hn_op combine;
    reduction_start start;
    bool needs_elements;
    bool search; /* for the largest (with START_LEAST) or smallest value */
    bool latest; /* of equals, the last wins */
} reduction_row;

static const reduction_row reduction_rows[HN_OP_COUNT] = {
    [HN_OP_SUM] = {.combine = HN_OP_ADD},
    [HN_OP_PROD] = {.combine = HN_OP_MUL, .start = START_ONE},
    [HN_OP_AMIN] = {.combine = HN_OP_MIN, .start = START_GREATEST, .needs_elements = true},
    [HN_OP_AMAX] = {.combine = HN_OP_MAX, .start = START_LEAST, .needs_elements = true},
    [HN_OP_ANY] = {.combine = HN_OP_OR},
    [HN_OP_ALL] = {.combine = HN_OP_AND, .start = START_ONE},
    [HN_OP_ARGMIN] = {.search = true, .start = START_GREATEST, .needs_elements = true},
    [HN_OP_ARGMAX] = {.search = true, .start = START_LEAST, .needs_elements = true},
    [HN_OP_CUMSUM] = {.combine = HN_OP_ADD},
    [HN_OP_CUMPROD] = {.combine = HN_OP_MUL, .start = START_ONE},
    [HN_OP_CUMMAX] = {.search = true, .latest = true, .start = START_LEAST},
    [HN_OP_CUMMIN] = {.search = true, .latest = true, .start = START_GREATEST},
    [HN_OP_LOGCUMSUMEXP] = {.start = START_LEAST},
};

static hn_ref_elem of_int(hn_dtype dtype, int64_t value) {
    return hn_dtype_is_float(dtype) ? (hn_ref_elem){.f = (double)value} : (hn_ref_elem){.i = value};
}

/* No element of the dtype is above it. What -1 narrows to tells whether the dtype has a sign, and
 * else is its largest value. */
static hn_ref_elem greatest(hn_dtype dtype) {
    if (hn_dtype_is_float(dtype)) return (hn_ref_elem){.f = INFINITY};
    int64_t ones = hn_ref_narrow_i(dtype, -1);
    return (hn_ref_elem){.i = ones < 0 ? INT64_MAX >> (64 - 8 * hn_dtype_facts(dtype)->size_bytes)
                                       : ones};
}

static hn_ref_elem least(hn_dtype dtype) {
    if (hn_dtype_is_float(dtype)) return (hn_ref_elem){.f = -INFINITY};
    return (hn_ref_elem){.i = hn_ref_narrow_i(dtype, -1) < 0 ? -greatest(dtype).i - 1 : 0};
}

hn_ref_reduction hn_ref_reduction_begin(hn_op op, hn_dtype dtype) {
    const reduction_row *row = &reduction_rows[op];
    hn_ref_reduction state = {.position = row->latest ? INT64_MIN : INT64_MAX};
    switch (row->start) {
    case START_ZERO: state.value = of_int(dtype, 0); break;
    case START_ONE: state.value = of_int(dtype, 1); break;
    case START_LEAST: state.value = least(dtype); break;
    case START_GREATEST: state.value = greatest(dtype); break;
    }
    return state;
}

bool hn_ref_reduction_needs_elements(hn_op op) { return reduction_rows[op].needs_elements; }

/* Whether a new value takes the place of an old one, at positions that tell which comes first. */
static bool takes(const reduction_row *row, hn_dtype dtype, hn_ref_elem value, int64_t position,
                  const hn_ref_reduction *old) {
    bool wins_ties = row->latest ? position > old->position : position < old->position,
         largest = row->start == START_LEAST;
    if (!hn_dtype_is_float(dtype)) {
        if (value.i == old->value.i) return wins_ties;
        return largest == (value.i > old->value.i);
    }
    bool nan = isnan(value.f), old_nan = isnan(old->value.f);
    if (nan != old_nan) return nan;
    if (nan || value.f == old->value.f) return wins_ties;
    return largest == (value.f > old->value.f);
}

static double log_sum_exp(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    double high = fmax(a, b);
    return isinf(high) ? high : high + log(exp(a - high) + exp(b - high));
}

hn_status hn_ref_reduction_step(hn_op op, hn_dtype dtype, hn_ref_elem value, int64_t position,
                                hn_ref_reduction *state) {
    const reduction_row *row = &reduction_rows[op];
    if (row->search) {
        if (takes(row, dtype, value, position, state)) *state = (hn_ref_reduction){value, position};
        return NULL;
    }
    if (op == HN_OP_LOGCUMSUMEXP && hn_dtype_is_float(dtype)) {
        state->value.f = hn_ref_round_f(dtype, log_sum_exp(state->value.f, value.f));
        return NULL;
    }
    const hn_ref_elem args[3] = {state->value, value};
    bool known = row->combine && hn_ref_apply(row->combine, dtype, dtype, args, &state->value);
    return known ? NULL : no_meaning(hn_op_facts(op)->name, dtype);
}
