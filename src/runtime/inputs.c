/* inputs.c: checking what a caller gives, and solving the size symbols from it. Messages name the
 * input, the dimension, the constraint and the value. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/device.h"

#include <inttypes.h>
#include <math.h>

#define BAD_INPUT(...) HN_ERROR(HN_INVALID_ARGUMENT, __VA_ARGS__)

const char *hn_input_name(const hn_bundle *b, uint32_t input) {
    const char *name = hn_bundle_text(b, b->inputs[input].name);
    return *name ? name : "?";
}

/* ---- types and ranks ---- */

/* A rank 0 tensor of any integer type as int64. */
static bool read_int(const hn_tensor *t, int64_t *out) {
    const void *data = hn_tensor_data(t);
    switch (hn_tensor_type(t)) {
    case HN_I64: memcpy(out, data, sizeof *out); return true;
    case HN_I32: {
        int32_t v;
        memcpy(&v, data, sizeof v);
        *out = v;
        return true;
    }
    case HN_I16: {
        int16_t v;
        memcpy(&v, data, sizeof v);
        *out = v;
        return true;
    }
    case HN_I8: *out = *(const int8_t *)data; return true;
    case HN_U8: *out = *(const uint8_t *)data; return true;
    default: return false;
    }
}

static hn_status check_float(const hn_bundle *b, uint32_t k, const hn_tensor *t) {
    double expected, actual;
    float single;
    memcpy(&expected, &b->inputs[k].bits, sizeof expected);
    if (hn_tensor_type(t) == HN_F64) {
        memcpy(&actual, hn_tensor_data(t), sizeof actual);
    } else if (hn_tensor_type(t) == HN_F32) {
        memcpy(&single, hn_tensor_data(t), sizeof single);
        actual = (double)single;
        expected = (double)(float)expected;
    } else {
        return BAD_INPUT("input '%s' is a float, got %s", hn_input_name(b, k),
                         hn_scalar_type_name(hn_tensor_type(t)));
    }
    if (actual == expected || (isnan(actual) && isnan(expected))) return NULL;
    return BAD_INPUT("input '%s' is %g, but the model was exported for %g", hn_input_name(b, k),
                     actual, expected);
}

/* A Python scalar of the signature: NULL, or the value that the model was exported with. */
static hn_status check_scalar(const hn_bundle *b, uint32_t k, const hn_tensor *t,
                              int64_t *out_value) {
    const hnb_input *in = &b->inputs[k];
    const char *name = hn_input_name(b, k);
    int64_t constant;
    *out_value = 0;
    if (!t) {
        if (in->kind != HNB_VALUE_INT || hn_bundle_expr_const(b, in->expr, out_value)) return NULL;
        return BAD_INPUT("input '%s' is missing: give an integer as a tensor of rank 0", name);
    }
    if (hn_tensor_rank(t) != 0)
        return BAD_INPUT("input '%s' has rank %u, must be a scalar", name, hn_tensor_rank(t));
    switch (in->kind) {
    case HNB_VALUE_INT:
        if (!read_int(t, out_value))
            return BAD_INPUT("input '%s' is an integer, got %s", name,
                             hn_scalar_type_name(hn_tensor_type(t)));
        if (!hn_bundle_expr_const(b, in->expr, &constant) || constant == *out_value) return NULL;
        return BAD_INPUT("input '%s' is %" PRId64 ", but the model was exported for %" PRId64, name,
                         *out_value, constant);
    case HNB_VALUE_FLOAT: return check_float(b, k, t);
    case HNB_VALUE_BOOL:
        if (hn_tensor_type(t) != HN_BOOL)
            return BAD_INPUT("input '%s' is a bool, got %s", name,
                             hn_scalar_type_name(hn_tensor_type(t)));
        if ((*(const uint8_t *)hn_tensor_data(t) != 0) == (in->bits != 0)) return NULL;
        return BAD_INPUT("input '%s' is %s, but the model was exported for %s", name,
                         in->bits ? "false" : "true", in->bits ? "true" : "false");
    default: return BAD_INPUT("input '%s' is no tensor in the model: pass none for it", name);
    }
}

static hn_status device_error(const hn_module *m, uint32_t k, const hn_tensor *t) {
    const char *name = hn_input_name(&m->view, k),
               *host = hn_device_name(hn_device_ops_of_host()->kind);
    char at[HN_DEVICE_TEXT_BYTES];
    hn_tensor_device_print(t, at);
    if (!hn_tensor_is_on_device(m, t))
        return HN_ERROR(HN_UNSUPPORTED, "input '%s' is on %s; give it on %s", name, at, host);
    return HN_ERROR(HN_UNSUPPORTED,
                    "input '%s' is on %s, but this program reads or writes it on %s, too; give "
                    "it there",
                    name, at, host);
}

/* Of a tensor that is not the host's: whether a run can take it. */
static hn_status check_device(const hn_module *m, uint32_t k, const hn_tensor *t) {
    const bool is_good = hn_tensor_is_on_device(m, t) &&
                         m->view.inputs[k].kind == HNB_VALUE_TENSOR && !m->input_is_hosts[k];
    return HN_LIKELY(is_good) ? NULL : device_error(m, k, t);
}

hn_status hn_inputs_check(const hn_module *m, hn_tensor *const *inputs, uint32_t count,
                          int64_t *out_key) {
    const hn_bundle *b = &m->view;
    if (count != b->inputs_count)
        return BAD_INPUT("the model takes %u inputs, got %u", b->inputs_count, count);
    for (uint32_t k = 0; k < count; k++) {
        const hnb_input *in = &b->inputs[k];
        const hn_tensor *t = inputs[k];
        if (HN_UNLIKELY(t && !hn_tensor_is_on_host(t))) HN_TRY(check_device(m, k, t));
        if (in->kind != HNB_VALUE_TENSOR) {
            HN_TRY(check_scalar(b, k, t, out_key++));
            continue;
        }
        if (!t) return BAD_INPUT("input '%s' is missing", hn_input_name(b, k));
        if ((uint32_t)hn_tensor_type(t) != in->dtype)
            return BAD_INPUT("input '%s' has type %s, must be %s", hn_input_name(b, k),
                             hn_scalar_type_name(hn_tensor_type(t)),
                             hn_bundle_dtype_name(in->dtype));
        if (hn_tensor_rank(t) != in->rank)
            return BAD_INPUT("input '%s' has %u dimensions, must have %u", hn_input_name(b, k),
                             hn_tensor_rank(t), in->rank);
        const int64_t *sizes = hn_tensor_sizes(t);
        for (uint32_t d = 0; d < in->rank; d++) *out_key++ = sizes[d];
    }
    return NULL;
}

/* ---- symbols ---- */

/* The dimension or value that a symbol is solved from. `key` was made by hn_inputs_check. */
static int64_t source_of(const hn_bundle *b, const hnb_symbol *s, const int64_t *key) {
    for (uint32_t k = 0; k < s->input; k++)
        key += b->inputs[k].kind == HNB_VALUE_TENSOR ? b->inputs[k].rank : 1;
    return s->dim == HNB_DIM_VALUE ? key[0] : key[s->dim];
}

static void print_place(const hn_bundle *b, const hnb_symbol *s, int64_t d, hn_strbuf *out) {
    hn_strbuf_printf(out, "input '%s'", hn_input_name(b, s->input));
    if (s->dim != HNB_DIM_VALUE) hn_strbuf_printf(out, " dimension %u", s->dim);
    hn_strbuf_printf(out, " is %" PRId64, d);
}

/* Takes the text. */
static hn_status text_error(hn_strbuf *text) {
    hn_status status = hn_strbuf_status(text);
    if (!status) status = BAD_INPUT("%s", text->ptr ? text->ptr : "");
    hn_strbuf_deinit(text);
    return status;
}

static hn_status range_error(const hn_bundle *b, const hnb_symbol *s, int64_t d, int64_t value) {
    hn_strbuf text;
    bool low = value < s->lo;
    hn_strbuf_init(&text);
    print_place(b, s, d, &text);
    if (d != value)
        hn_strbuf_printf(&text, ", so %s is %" PRId64, hn_bundle_text(b, s->name), value);
    hn_strbuf_printf(&text, ", must be at %s %" PRId64 " (%s)", low ? "least" : "most",
                     low ? s->lo : s->hi, hn_bundle_text(b, s->name));
    return text_error(&text);
}

static hn_status solve_error(const hn_bundle *b, const hnb_symbol *s, int64_t d) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    print_place(b, s, d, &text);
    hn_strbuf_printf(&text, ", must be %" PRId64 "*%s", s->coeff, hn_bundle_text(b, s->name));
    if (s->rest) hn_strbuf_puts(&text, " + "), hn_bundle_expr_print(b, s->rest, &text);
    return text_error(&text);
}

static hn_status solve_symbol(const hn_bundle *b, hn_bound *bound, uint32_t k) {
    const hnb_symbol *s = &b->symbols[k];
    int64_t d = source_of(b, s, bound->key), value = d;
    if (s->rest) {
        hn_bundle_eval(b, bound->symbols, k, bound->values, bound->bad);
        if (bound->bad[s->rest] || !hn_sub_i64(d, bound->values[s->rest], &value))
            return solve_error(b, s, d);
    }
    if (s->coeff != 1) {
        int64_t quotient;
        if (!hn_floor_div_i64(value, s->coeff, &quotient) || hn_floor_mod(value, s->coeff) != 0)
            return solve_error(b, s, d);
        value = quotient;
    }
    if (value < s->lo || value > s->hi) return range_error(b, s, d, value);
    bound->symbols[k] = value;
    return NULL;
}

/* ---- sizes and guards ---- */

static hn_status size_error(const hn_bundle *b, const hn_bound *bound, uint32_t input, uint32_t d,
                            uint32_t node, int64_t actual) {
    hn_strbuf text;
    int64_t constant;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "input '%s' dimension %u is %" PRId64 ", must be ",
                     hn_input_name(b, input), d, actual);
    if (bound->bad[node]) hn_strbuf_puts(&text, "a size that is too large to compute");
    else hn_strbuf_i64(&text, bound->values[node]);
    if (!hn_bundle_expr_const(b, node, &constant))
        hn_strbuf_puts(&text, " = "), hn_bundle_expr_print(b, node, &text);
    return text_error(&text);
}

static hn_status check_sizes(const hn_bundle *b, const hn_bound *bound) {
    const int64_t *key = bound->key;
    for (uint32_t k = 0; k < b->inputs_count; k++) {
        const hnb_input *in = &b->inputs[k];
        uint32_t rank = in->kind == HNB_VALUE_TENSOR ? in->rank : 0;
        for (uint32_t d = 0; d < rank; d++) {
            uint32_t node = b->dims[in->dims + d];
            if (bound->bad[node] || bound->values[node] != key[d])
                return size_error(b, bound, k, d, node, key[d]);
        }
        if (in->kind == HNB_VALUE_INT &&
            (bound->bad[in->expr] || bound->values[in->expr] != key[0]))
            return BAD_INPUT("input '%s' is %" PRId64 ", must be %" PRId64, hn_input_name(b, k),
                             key[0], bound->values[in->expr]);
        key += in->kind == HNB_VALUE_TENSOR ? rank : 1;
    }
    return NULL;
}

void hn_guard_print(const hn_bundle *b, const hnb_guard *g, hn_strbuf *out) {
    hn_bundle_expr_print(b, g->lhs, out);
    hn_strbuf_printf(out, " %s ", hn_bundle_relations[g->relation]);
    hn_bundle_expr_print(b, g->rhs, out);
}

static hn_status guard_error(const hn_bundle *b, const hn_bound *bound, const hnb_guard *g,
                             uint32_t stage) {
    const char *separator = ": ";
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, stage ? "what the data says breaks the constraint "
                                : "the sizes of the inputs break the constraint ");
    hn_guard_print(b, g, &text);
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t node = side ? g->rhs : g->lhs;
        int64_t constant;
        if (hn_bundle_expr_const(b, node, &constant)) continue;
        hn_strbuf_puts(&text, separator);
        hn_bundle_expr_print(b, node, &text);
        if (bound->bad[node]) hn_strbuf_puts(&text, " cannot be computed");
        else hn_strbuf_printf(&text, " is %" PRId64, bound->values[node]);
        separator = ", ";
    }
    if (g->reason.len) hn_strbuf_printf(&text, " (%s)", hn_bundle_text(b, g->reason));
    return text_error(&text);
}

hn_status hn_guards_check(const hn_module *m, const hn_bound *bound, uint32_t stage) {
    const hn_bundle *b = &m->view;
    for (uint32_t k = 0; k < b->guards_count; k++) {
        const hnb_guard *g = &b->guards[k];
        if (hn_stage_of(&m->stages.guards, k) != stage) continue;
        bool defined = !bound->bad[g->lhs] && !bound->bad[g->rhs];
        if (!defined ||
            !hn_bundle_relation_holds(g->relation, bound->values[g->lhs], bound->values[g->rhs]))
            return guard_error(b, bound, g, stage);
    }
    return NULL;
}

hn_status hn_inputs_bind(const hn_module *m, hn_bound *bound) {
    const hn_bundle *b = &m->view;
    uint32_t count = m->stages.first_symbol; /* the others have no value yet */
    for (uint32_t k = 0; k < count; k++) HN_TRY(solve_symbol(b, bound, k));
    hn_bundle_eval(b, bound->symbols, count, bound->values, bound->bad);
    HN_TRY(check_sizes(b, bound));
    return hn_guards_check(m, bound, 0);
}
