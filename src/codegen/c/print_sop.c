/* print_sop.c: scalar ops, loads, stores and reductions as vector statements. A value is always a vector;
 * one that is the same in every lane is a splat. */
#include "codegen/c/internal.h"

#include "base/compiler.h"

#include <math.h>

typedef struct c_op {
    const char *f32, *f64, *ints, *mask;
} c_op;

static const c_op c_ops[HN_OP_COUNT] = {
#define C_OP(name, f32, f64, ints, mask) [HN_OP_##name] = {f32, f64, ints, mask},
#include "codegen/c/ops.def"
#undef C_OP
};

char c_lane_class(hn_dtype d) {
    static const char letters[] = {[HN_LANE_F32] = 'f', [HN_LANE_F64] = 'd', [HN_LANE_I32] = 'i', [HN_LANE_I64] = 'l', [HN_LANE_MASK] = 'm'};
    return letters[hn_lane_of(d)];
}

const char *c_lane_type(hn_dtype d) {
    static const char *const types[] = {[HN_LANE_F32] = "vf", [HN_LANE_F64] = "vd", [HN_LANE_I32] = "vi", [HN_LANE_I64] = "vl", [HN_LANE_MASK] = "vi"};
    return types[hn_lane_of(d)];
}

const char *c_result_type(const hn_kernel_reduce *r) { return hn_op_has(r->op, HN_TRAIT_POSITION) ? "vl" : c_lane_type(r->dtype); }

static const hn_sop *sop(const printer *pr, hn_sid s) { return &pr->at->phase->body.items[s]; }

static void put_const(printer *pr, const hn_sop *op) {
    char c = c_lane_class(op->dtype);
    hn_strbuf *out = &pr->out;
    if (c != 'f' && c != 'd') {
        if (c == 'm')
            hn_strbuf_printf(out, "sp_i(%d)", op->imm.i ? -1 : 0);
        else if (op->imm.i == INT64_MIN)
            hn_strbuf_puts(out, "sp_l(-9223372036854775807LL - 1)");
        else
            hn_strbuf_printf(out, "sp_%c(%lld%s)", c, (long long)op->imm.i, c == 'l' ? "LL" : "");
        return;
    }
    const char *suffix = c == 'f' ? "f" : "";
    if (isnan(op->imm.f))
        hn_strbuf_printf(out, "sp_%c(__builtin_nan%s(\"\"))", c, suffix);
    else if (isinf(op->imm.f) || (c == 'f' && isinf((float)op->imm.f)))
        hn_strbuf_printf(out, "sp_%c(%s__builtin_inf%s())", c, op->imm.f < 0 ? "-" : "", suffix);
    else if (c == 'f')
        hn_strbuf_printf(out, "sp_f(%af)", (double)(float)op->imm.f); /* hexadecimal: exact, and always a float constant */
    else
        hn_strbuf_printf(out, "sp_d(%a)", op->imm.f);
}

static void put_template(printer *pr, const char *text, char letter, const hn_sop *op) {
    for (const char *c = text; *c; c++) {
        if (*c == '#')
            hn_strbuf_putc(&pr->out, letter);
        else if (*c == '$')
            hn_strbuf_printf(&pr->out, "s%u", op->args[*++c - '0']);
        else
            hn_strbuf_putc(&pr->out, *c);
    }
}

/* Narrow ints are computed in 32 bits and cut to their width. */
static const char *wrap_of(hn_dtype d) {
    return d == HN_DTYPE_I16 ? "wrap_i16(" : d == HN_DTYPE_I8 ? "wrap_i8(" : d == HN_DTYPE_U8 ? "wrap_u8(" : NULL;
}

/* 16-bit floats live in lanes of 32 bits. */
static void put_bitcast(printer *pr, const hn_sop *op) {
    hn_dtype from = sop(pr, op->args[0])->dtype, to = op->dtype;
    const char *text = from == HN_DTYPE_F16    ? "wrap_i16(f_h(s%u))"
                       : from == HN_DTYPE_BF16 ? "((vi)round_bf16(s%u) >> 16)"
                       : to == HN_DTYPE_F16    ? "h_f(s%u)"
                       : to == HN_DTYPE_BF16   ? "(vf)(s%u << 16)"
                       : from == HN_DTYPE_F32  ? "(vi)s%u"
                       : to == HN_DTYPE_F32    ? "(vf)s%u"
                       : from == HN_DTYPE_F64  ? "(vl)s%u"
                                               : "(vd)s%u";
    hn_strbuf_printf(&pr->out, text, op->args[0]);
}

/* What the plan found a cheaper way for. */
static bool put_rewritten(printer *pr, hn_sid s, const hn_sop *op) {
    hn_sid gate = pr->at->ops[s].gate;
    switch (pr->at->ops[s].rewrite) {
    case HN_REWRITE_NONE: return false;
    case HN_REWRITE_EXP_NOT_POSITIVE: hn_strbuf_printf(&pr->out, "exp0_f(s%u)", op->args[0]); return true;
    case HN_REWRITE_GATE: hn_strbuf_printf(&pr->out, "(s%u / (sp_f(1) + exp_f(-s%u)))", gate, gate); return true;
    case HN_REWRITE_RECIPROCAL: hn_strbuf_printf(&pr->out, "(s%u * d%u)", op->args[0], op->args[1]); return true;
    case HN_REWRITE_NARROW_INDICES: c_put_of_indices(pr, op); return true;
    }
    return false;
}

static void put_elem(printer *pr, hn_sid s, const hn_sop *op) {
    const c_op *row = &c_ops[op->op];
    if (op->op == HN_OP_BITCAST) {
        put_bitcast(pr, op);
        return;
    }
    if (put_rewritten(pr, s, op)) return;
    bool select = op->op == HN_OP_WHERE;
    hn_dtype operand = sop(pr, op->args[select ? 1 : 0])->dtype;
    char letter = c_lane_class(operand);
    const char *text = letter == 'f' ? row->f32 : letter == 'd' ? row->f64 : letter == 'm' ? row->mask : row->ints;
    if (!text) {
        c_fail_with(pr, HN_ERROR(HN_UNSUPPORTED, "op '%s' has no C form for dtype %s", hn_op_facts(op->op)->name,
                                 hn_dtype_facts(operand)->name));
        return;
    }
    const char *wrap = op->dtype == HN_DTYPE_BOOL ? NULL : wrap_of(op->dtype);
    bool cast_mask = op->dtype == HN_DTYPE_BOOL && letter != 'm';
    if (wrap) hn_strbuf_puts(&pr->out, wrap);
    if (cast_mask) hn_strbuf_puts(&pr->out, "(vi)");
    if (pr->at->ops[s].rounded) hn_strbuf_printf(&pr->out, "rounded_%c", letter); /* the template has the brackets */
    put_template(pr, text, letter, op);
    if (wrap) hn_strbuf_putc(&pr->out, ')');
}

static void put_cast(printer *pr, hn_sid s, const hn_sop *op) {
    char from = c_lane_class(sop(pr, op->args[0])->dtype), to = c_lane_class(op->dtype);
    const char *wrap = wrap_of(op->dtype);
    if (op->dtype == HN_DTYPE_F16) wrap = "round_f16(";
    if (op->dtype == HN_DTYPE_BF16) wrap = "round_bf16(";
    if (wrap) hn_strbuf_puts(&pr->out, wrap);
    bool done = put_rewritten(pr, s, op);
    if (!done && from == to)
        hn_strbuf_printf(&pr->out, "s%u", op->args[0]);
    else if (!done)
        hn_strbuf_printf(&pr->out, "%c_%c(s%u)", from, to, op->args[0]);
    if (wrap) hn_strbuf_putc(&pr->out, ')');
}

static void put_index_value(printer *pr, hn_expr e) {
    hn_expr step;
    hn_walk walk = hn_cpu_walk_of(pr->at, e, &step);
    if (walk == HN_WALK_GATHER) {
        hn_strbuf_puts(&pr->out, "({ vl o; LANES o[k] = ");
        pr->in_lane_loop = true;
        c_put_index(pr, e);
        pr->in_lane_loop = false;
        hn_strbuf_puts(&pr->out, "; o; })");
        return;
    }
    hn_strbuf_puts(&pr->out, "(sp_l(");
    c_put_index(pr, e);
    hn_strbuf_puts(&pr->out, ")");
    if (walk != HN_WALK_UNIFORM) hn_strbuf_puts(&pr->out, " + IOTA_L");
    if (walk == HN_WALK_STRIDED) {
        hn_strbuf_puts(&pr->out, " * sp_l(");
        c_put_index(pr, step);
        hn_strbuf_puts(&pr->out, ")");
    }
    hn_strbuf_puts(&pr->out, ")");
}

static const char *element_type(hn_dtype d) { return d == HN_DTYPE_I64 ? "ll" : hn_dtype_facts(d)->c_type; }

/* "vl o; ..." the offsets of a scattering store, as a statement expression argument. */
static void put_offsets(printer *pr, const hn_kernel_store *st) {
    hn_strbuf_puts(&pr->out, "({ vl o; LANES o[k] = ");
    pr->in_lane_loop = true;
    c_put_element(pr, st->buffer, st->index, st->index);
    pr->in_lane_loop = false;
    hn_strbuf_puts(&pr->out, "; o; })");
}

/* Element by element. Words go straight into the lanes: a detour over memory would wait for the stores. */
static void put_gather(printer *pr, const hn_sop *op, hn_dtype dtype) {
    bool words = dtype == HN_DTYPE_F32 || dtype == HN_DTYPE_I32 || dtype == HN_DTYPE_F64 || dtype == HN_DTYPE_I64;
    bool direct = words && !pr->tail;
    if (direct)
        hn_strbuf_printf(&pr->out, "({ %s t; LANES t[k] = ", c_lane_type(dtype));
    else
        hn_strbuf_printf(&pr->out, "({ %s t[VF]%s; %s t[k] = ", element_type(dtype), pr->tail ? " = {0}" : "",
                         pr->tail ? "for (ll k = 0; k < n; k++)" : "LANES");
    c_put_base(pr, op->buffer, op->index);
    hn_strbuf_putc(&pr->out, '[');
    pr->in_lane_loop = true;
    c_put_element(pr, op->buffer, op->index, op->index);
    pr->in_lane_loop = false;
    if (direct)
        hn_strbuf_puts(&pr->out, "]; t; })");
    else
        hn_strbuf_printf(&pr->out, "]; ld_%s(t); })", hn_dtype_facts(dtype)->name);
}

/* A whole vector of elements `step` apart. Every second one by two loads and a shuffle: a detour over memory waits for its
 * stores. */
static void put_vector_load(printer *pr, hn_buf buffer, hn_expr access, hn_expr index, hn_walk walk, hn_expr step) {
    const hn_dtype dtype = pr->p->buffers.items[buffer].dtype;
    const bool second = walk == HN_WALK_STRIDED && dtype == HN_DTYPE_F32 && pr->lanes >= 8 && hn_sym_is_value(pr->sym, step, 2);
    const char *name = walk == HN_WALK_UNIFORM ? "lp" : walk == HN_WALK_CONTIGUOUS ? "ld" : second ? "lds2" : "lds";
    hn_strbuf_printf(&pr->out, "%s_%s(", name, hn_dtype_facts(dtype)->name);
    c_put_base(pr, buffer, access);
    hn_strbuf_puts(&pr->out, " + ");
    c_put_element(pr, buffer, access, index);
    if (walk == HN_WALK_STRIDED && !second) {
        hn_strbuf_puts(&pr->out, ", ");
        c_put_index(pr, step);
    }
    hn_strbuf_putc(&pr->out, ')');
}

/* "a == b", in the last lane or in the first. */
static void put_unclamped(printer *pr, const hn_cpu_clamp *c, bool last) {
    pr->in_lane_loop = last;
    hn_strbuf_puts(&pr->out, last ? "({ const ll k = VF - 1; " : "");
    c_put_index(pr, c->clamp);
    hn_strbuf_puts(&pr->out, " == ");
    c_put_index(pr, c->inside);
    hn_strbuf_puts(&pr->out, last ? "; })" : "");
    pr->in_lane_loop = false;
}

/* Whole vectors but at the ends of a row, where lanes differ. */
static void put_clamped(printer *pr, const hn_sop *op, hn_dtype dtype, const hn_cpu_clamp *c) {
    hn_strbuf_printf(&pr->out, "({ %s r; if (", c_lane_type(dtype));
    put_unclamped(pr, c, false);
    hn_strbuf_puts(&pr->out, " && ");
    put_unclamped(pr, c, true);
    hn_strbuf_puts(&pr->out, ") r = ");
    put_vector_load(pr, op->buffer, op->index, c->plain, c->walk, c->step);
    hn_strbuf_puts(&pr->out, "; else r = ");
    put_gather(pr, op, dtype);
    hn_strbuf_puts(&pr->out, "; r; })");
}

static void put_load(printer *pr, hn_sid s, const hn_sop *op) {
    if (c_put_tile_load(pr, s, op)) return;
    static const char *const tails[3] = {"lp", "ldn", "ldsn"};
    hn_expr step = pr->at->ops[s].step;
    hn_walk walk = pr->at->ops[s].walk;
    hn_dtype dtype = pr->p->buffers.items[op->buffer].dtype;
    hn_cpu_clamp c;
    if (walk == HN_WALK_GATHER) {
        const bool is_float = dtype == HN_DTYPE_F32 || dtype == HN_DTYPE_F64;
        if (is_float && !pr->tail && hn_cpu_find_clamp(pr->at, op->index, &c))
            put_clamped(pr, op, dtype, &c);
        else
            put_gather(pr, op, dtype);
        return;
    }
    if (!pr->tail) {
        put_vector_load(pr, op->buffer, op->index, op->index, walk, step);
        return;
    }
    hn_strbuf_printf(&pr->out, "%s_%s(", tails[walk], hn_dtype_facts(dtype)->name);
    c_put_address(pr, op->buffer, op->index);
    if (walk == HN_WALK_STRIDED) {
        hn_strbuf_puts(&pr->out, ", ");
        c_put_index(pr, step);
    }
    hn_strbuf_puts(&pr->out, walk != HN_WALK_UNIFORM ? ", n)" : ")");
}

/* One number for all lanes, as a scalar: it becomes an address. */
static void put_fixed_indirect(printer *pr, hn_sid s, const hn_sop *op) {
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "ll t%u = s%u[0]; { const ll e = ", s, op->args[0]);
    c_put_index(pr, hn_sym_symbol_extent(pr->sym, op->index));
    hn_strbuf_puts(&pr->out, "; ");
    if (op->imm.i & 1) hn_strbuf_printf(&pr->out, "if (t%u < 0) t%u += e; ", s, s);
    hn_strbuf_printf(&pr->out, "if (t%u < 0 || t%u >= e) { if (e <= 0) return 1; err = 1; t%u = 0; } }\n", s, s, s);
}

/* Words: an index made from them is checked as them; what is too large for one is outside either way. No branch: a compiler would
 * have to follow one for each lane. */
static void put_narrow_indirect(printer *pr, hn_sid s, const hn_sop *op) {
    hn_sid from = sop(pr, op->args[0])->args[0];
    hn_strbuf_printf(&pr->out, c_lane_class(sop(pr, from)->dtype) == 'f' ? "vi x = f_i(s%u); " : "vi x = s%u; ", from);
    if (op->imm.i & 1) hn_strbuf_puts(&pr->out, "x += (vi)(x < sp_i(0)) & sp_i(e); ");
    hn_strbuf_puts(&pr->out, "const vi q = (vi)(x < sp_i(0)) | (vi)(x >= sp_i(e)); ");
    hn_strbuf_printf(&pr->out, "outside |= %s; *(viu *)t%u = x & ~q; }\n", pr->tail ? "q & lanes_below(n)" : "q", s);
}

/* Lane by lane: compilers compare vectors of 64 bit so where the machine has none of that length, and then by way of memory.
 * With a branch, which is foreseen, no address waits for a check. */
static void put_wide_indirect(printer *pr, hn_sid s, const hn_sop *op) {
    hn_strbuf_printf(&pr->out, "LANES { ll x = s%u[k]; ", op->args[0]);
    if (op->imm.i & 1) hn_strbuf_puts(&pr->out, "x += x < 0 ? e : 0; ");
    hn_strbuf_printf(&pr->out, "if (OUTSIDE(x, e)%s) { err = 1; x = 0; } t%u[k] = x; } }\n", pr->tail ? " && k < n" : "", s);
}

/* Binds t<s>: wrapped, checked; a bad index becomes 0 and the call reports it. */
static void put_indirect(printer *pr, hn_sid s, const hn_sop *op) {
    if (!pr->at->ops[s].varying) {
        put_fixed_indirect(pr, s, op);
        return;
    }
    hn_expr limit = hn_sym_symbol_extent(pr->sym, op->index);
    bool narrow = pr->at->ops[s].narrow;
    int64_t lo, hi;
    hn_sym_range(pr->sym, limit, &lo, &hi);
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "%s t%u[VF]; { const %s e = ", narrow ? "int" : "ll", s, narrow ? "int" : "ll");
    c_put_index(pr, limit);
    hn_strbuf_puts(&pr->out, lo <= 0 ? "; if (e <= 0) return 1; " : "; ");
    if (narrow)
        put_narrow_indirect(pr, s, op);
    else
        put_wide_indirect(pr, s, op);
}

/* How many high bits of a word a uniform number of the dtype keeps, so that it stays below 1 (ir/interp_random.c). */
static int uniform_bits(hn_dtype d) {
    return d == HN_DTYPE_F64 ? 32 : d == HN_DTYPE_F16 ? 11 : d == HN_DTYPE_BF16 ? 8 : 24;
}

static void put_random(printer *pr, const hn_sop *op) {
    static const char *const names[] = {"uniform", "normal", "bits"};
    char c = c_lane_class(op->dtype);
    const char *wrap = wrap_of(op->dtype), *element = c == 'f' ? "float" : c == 'd' ? "double" : c == 'l' ? "ll" : "int";
    if (wrap) hn_strbuf_puts(&pr->out, wrap);
    hn_strbuf_printf(&pr->out, "({ %s r; for (int k = 0; k < VF; k++) r[k] = %s(%s)random_%s(s%u[k], ", c_lane_type(op->dtype),
                     c == 'm' ? "-(1 & " : "", element, names[op->op], op->args[0]);
    pr->in_lane_loop = true;
    c_put_index(pr, op->index);
    pr->in_lane_loop = false;
    hn_strbuf_printf(&pr->out, ", %lld", (long long)op->imm.i);
    if (op->op == (hn_op)HN_RANDOM_UNIFORM) hn_strbuf_printf(&pr->out, ", %d", uniform_bits(op->dtype));
    hn_strbuf_printf(&pr->out, ")%s; r; })%s", c == 'm' ? ")" : "", wrap ? ")" : "");
}

/* The variable of a reduction's result; per copy when lanes are rows. */
static void put_result_name(printer *pr, const hn_sop *op) {
    char kind = op->op == HN_OP_ARGMAX ? 'x' : pr->at->phase->scan ? 'a' : 'r';
    bool is_number = pr->at->phase->scan && op->dtype == HN_DTYPE_BOOL && hn_op_keeps_position(pr->at->phase->reduces.items[0].op);
    hn_strbuf_printf(&pr->out, is_number ? "(vi)(sp_i(0) < %c%lld" : "%c%lld", kind, (long long)op->imm.i);
    if (pr->at->phase->scan)
        hn_strbuf_puts(&pr->out, is_number ? "_0)" : "_0");
    else if (pr->plan->lanes_are_rows)
        hn_strbuf_printf(&pr->out, "_%u", pr->copy);
}

void c_put_sop(printer *pr, hn_sid s) {
    const hn_sop *op = sop(pr, s);
    if (op->kind == HN_SOP_INDIRECT) {
        put_indirect(pr, s, op);
        return;
    }
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "const %s s%u = ", c_lane_type(op->dtype), s);
    switch (op->kind) {
    case HN_SOP_ELEM: put_elem(pr, s, op); break;
    case HN_SOP_CAST: put_cast(pr, s, op); break;
    case HN_SOP_CONST: put_const(pr, op); break;
    case HN_SOP_LOAD: put_load(pr, s, op); break;
    case HN_SOP_INDEX: put_index_value(pr, op->index); break;
    case HN_SOP_RANDOM: put_random(pr, op); break;
    default: put_result_name(pr, op); break;
    }
    hn_strbuf_puts(&pr->out, ";\n");
    if (pr->at->ops[s].is_divisor) c_put_line(pr, "const vf d%u = sp_f(1) / s%u;", s, s);
}

/* --- stores --- */

static void put_store_scatter(printer *pr, const hn_kernel_store *st, hn_dtype dtype) {
    const char *name = hn_dtype_facts(dtype)->name, *type = element_type(dtype);
    char c = c_lane_class(dtype), splat = c == 'm' ? 'i' : c;
    static const char *const combine[] = {"y", "(x + y)", "(x * y)", "min_%c(x, y)", "max_%c(x, y)"};
    char text[32];
    snprintf(text, sizeof text, combine[st->mode], c);
    if (c == 'm') snprintf(text, sizeof text, "%s", st->mode == HN_STORE_SET ? "y" : st->mode == HN_STORE_ADD || st->mode == HN_STORE_MAX ? "(x | y)" : "(x & y)");
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "for (int k = 0; k < %s; k++) { %s *q = ", !pr->at->lane ? "1" : pr->tail ? "(int)n" : "VF", type);
    pr->in_lane_loop = true;
    c_put_address(pr, st->buffer, st->index);
    pr->in_lane_loop = false;
    hn_strbuf_printf(&pr->out, "; %s x = lp_%s(q), y = sp_%c(s%u[k]); (void)x; s1_%s(q, %s); }\n", c_lane_type(dtype), name,
                     splat, st->value, name, text);
}

void c_put_store(printer *pr, uint32_t number) {
    const hn_kernel_store *st = &pr->at->phase->stores.items[number];
    hn_dtype dtype = pr->p->buffers.items[st->buffer].dtype;
    if (pr->k->serial) {
        put_store_scatter(pr, st, dtype);
        return;
    }
    hn_walk walk = pr->at->stores[number].walk;
    hn_expr step = pr->at->stores[number].step;
    static const char *const names[4][2] = {{"s1", "s1"}, {"st", "stn"}, {"sts", "sts"}, {"stg", "stg"}};
    bool past_caches = pr->at->stores[number].nontemporal && !pr->tail;
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "%s_%s(", past_caches ? (pr->aligned ? "na" : "nt") : names[walk][pr->tail], hn_dtype_facts(dtype)->name);
    c_put_base(pr, st->buffer, st->index);
    hn_strbuf_puts(&pr->out, walk == HN_WALK_GATHER ? ", " : " + ");
    if (walk == HN_WALK_GATHER)
        put_offsets(pr, st);
    else
        c_put_element(pr, st->buffer, st->index, st->index);
    if (walk == HN_WALK_STRIDED) {
        hn_strbuf_puts(&pr->out, ", ");
        c_put_index(pr, step);
    }
    hn_strbuf_printf(&pr->out, ", s%u%s);\n", st->value,
                     walk == HN_WALK_UNIFORM || (walk == HN_WALK_CONTIGUOUS && !pr->tail) ? "" : pr->tail ? ", n" : ", VF");
}

/* --- reductions --- */

/* The value that changes nothing, as an element of the class. */
static const char *identity(const hn_kernel_reduce *r) {
    char c = c_lane_class(r->dtype);
    bool lowest = r->op == HN_OP_AMAX || r->op == HN_OP_ARGMAX || r->op == HN_OP_CUMMAX || r->op == HN_OP_LOGCUMSUMEXP;
    bool highest = r->op == HN_OP_AMIN || r->op == HN_OP_ARGMIN || r->op == HN_OP_CUMMIN;
    if (r->op == HN_OP_PROD || r->op == HN_OP_CUMPROD) return c == 'm' ? "-1" : "1";
    if (r->op == HN_OP_ALL) return "-1";
    if (!lowest && !highest) return "0";
    if (c == 'f') return lowest ? "-__builtin_inff()" : "__builtin_inff()";
    if (c == 'd') return lowest ? "-__builtin_inf()" : "__builtin_inf()";
    if (c == 'l') return lowest ? "-9223372036854775807LL - 1" : "9223372036854775807LL";
    if (c == 'm' && hn_op_keeps_position(r->op)) return lowest ? "-1" : "2"; /* compared as the numbers 0 and 1 */
    if (c == 'm') return lowest ? "0" : "-1";
    return lowest ? "-2147483647 - 1" : "2147483647";
}

static char splat_class(hn_dtype d) {
    char c = c_lane_class(d);
    return c == 'm' ? 'i' : c;
}

void c_put_reduce_init(printer *pr, const hn_kernel_reduce *r, uint32_t copy) {
    c_put_line(pr, "%s a%u_%u = sp_%c(%s);", c_lane_type(r->dtype), r->slot, copy, splat_class(r->dtype), identity(r));
    if (hn_op_keeps_position(r->op)) c_put_line(pr, "vl x%u_%u = sp_l(9223372036854775807LL);", r->slot, copy);
}

/* Statement that combines `v` into accumulator `a`. */
static void put_combine(printer *pr, const hn_kernel_reduce *r, const char *a, const char *v) {
    char c = c_lane_class(r->dtype);
    bool grows = r->op == HN_OP_SUM || r->op == HN_OP_PROD || r->op == HN_OP_CUMSUM || r->op == HN_OP_CUMPROD;
    const char *wrap = grows ? wrap_of(r->dtype) : NULL; /* a minimum stays in range, but its start value is none of it */
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "%s = %s", a, wrap ? wrap : "");
    switch (r->op) {
    case HN_OP_SUM: case HN_OP_CUMSUM: hn_strbuf_printf(&pr->out, c == 'm' ? "%s | %s" : "%s + %s", a, v); break;
    case HN_OP_PROD: case HN_OP_CUMPROD: hn_strbuf_printf(&pr->out, c == 'm' ? "%s & %s" : "%s * %s", a, v); break;
    case HN_OP_ANY: hn_strbuf_printf(&pr->out, "%s | %s", a, v); break;
    case HN_OP_ALL: hn_strbuf_printf(&pr->out, "%s & %s", a, v); break;
    case HN_OP_LOGCUMSUMEXP: hn_strbuf_printf(&pr->out, "lse_%c(%s, %s)", c, a, v); break;
    case HN_OP_AMIN:
        if (c == 'm')
            hn_strbuf_printf(&pr->out, "%s & %s", a, v);
        else
            hn_strbuf_printf(&pr->out, "min_%c(%s, %s)", c, a, v);
        break;
    default:
        if (c == 'm')
            hn_strbuf_printf(&pr->out, "%s | %s", a, v);
        else if (pr->at->reduces[r - pr->at->phase->reduces.items].loses_nan)
            hn_strbuf_printf(&pr->out, "larger_f(%s, %s)", a, v);
        else
            hn_strbuf_printf(&pr->out, "max_%c(%s, %s)", c, a, v);
        break;
    }
    hn_strbuf_puts(&pr->out, wrap ? ");\n" : ";\n");
}

static const char *position_fn(hn_op op) {
    return op == HN_OP_ARGMAX ? "argmax" : op == HN_OP_ARGMIN ? "argmin" : op == HN_OP_CUMMAX ? "cummax" : "cummin";
}

void c_put_reduce_step(printer *pr, const hn_kernel_reduce *r) {
    char a[24], v[64];
    char c = splat_class(r->dtype);
    snprintf(a, sizeof a, "a%u_%u", r->slot, pr->copy);
    const char *sign = c_lane_class(r->dtype) == 'm' && hn_op_keeps_position(r->op) ? "-" : "";
    snprintf(v, sizeof v, "(%ss%u)", sign, r->value);
    if (pr->tail && !pr->plan->lanes_are_rows) /* dead lanes must not count */
        snprintf(v, sizeof v, "sel_%c(live, %ss%u, sp_%c(%s))", c, sign, r->value, c, identity(r));
    if (!hn_op_keeps_position(r->op)) {
        put_combine(pr, r, a, v);
        return;
    }
    c_put_begin(pr);
    hn_strbuf_printf(&pr->out, "%s_%c(&%s, &x%u_%u, %s, ", position_fn(r->op), c, a, r->slot, pr->copy, v);
    if (pr->tail && !pr->plan->lanes_are_rows) hn_strbuf_puts(&pr->out, "sel_l(live, ");
    put_index_value(pr, r->position);
    if (pr->tail && !pr->plan->lanes_are_rows) hn_strbuf_puts(&pr->out, ", sp_l(9223372036854775807LL))");
    hn_strbuf_puts(&pr->out, ");\n");
}

/* r<slot> = the accumulators taken together, in every lane. In column mode each copy is a result of its own. */
void c_put_reduce_finish(printer *pr, const hn_kernel_reduce *r, uint32_t copies) {
    char c = c_lane_class(r->dtype);
    if (pr->plan->lanes_are_rows) {
        for (uint32_t u = 0; u < copies; u++)
            c_put_line(pr, hn_op_keeps_position(r->op) ? "r%u_%u = x%u_%u;" : "r%u_%u = a%u_%u;", r->slot, u, r->slot, u);
        return;
    }
    char first[24], other[24];
    snprintf(first, sizeof first, "a%u_0", r->slot);
    for (uint32_t u = 1; u < copies; u++) {
        snprintf(other, sizeof other, "a%u_%u", r->slot, u);
        if (hn_op_keeps_position(r->op))
            c_put_line(pr, "%s_%c(&%s, &x%u_0, %s, x%u_%u);", position_fn(r->op), splat_class(r->dtype), first, r->slot, other, r->slot, u);
        else
            put_combine(pr, r, first, other);
    }
    if (hn_op_keeps_position(r->op)) {
        c_put_line(pr, "r%u = sp_l(h%s_%c(%s, x%u_0));", r->slot, position_fn(r->op), splat_class(r->dtype), first, r->slot);
        return;
    }
    const char *fn = r->op == HN_OP_SUM ? (c == 'm' ? "hor" : "hsum") : r->op == HN_OP_PROD ? (c == 'm' ? "hand" : "hprod")
                     : r->op == HN_OP_AMIN ? (c == 'm' ? "hand" : "hmin") : r->op == HN_OP_AMAX ? (c == 'm' ? "hor" : "hmax")
                     : r->op == HN_OP_ANY ? "hor" : "hand";
    const char *wrap = wrap_of(r->dtype);
    c_put_line(pr, "r%u = %ssp_%c(%s_%c(%s))%s;", r->slot, wrap ? wrap : "", splat_class(r->dtype), fn, c, first, wrap ? ")" : "");
}
