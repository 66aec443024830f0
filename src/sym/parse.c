/* parse.c: infix text to an expression.
 *
 *   sum     = product (("+" | "-") product)*
 *   product = unary (("*" | "//" | "%") unary)*
 *   unary   = "-"* power
 *   power   = atom ("**" number)?
 *   atom    = number | name | "(" sum ")" | call "(" sum ("," sum)* ")"
 *   call    = "Min" | "Max" | "Mod" | "FloorDiv"
 *
 * Building runs in trial mode: hostile text costs an error, not the context. */
#include "sym/internal.h"

enum { NESTING_MAX = HN_SYM_DEPTH_MAX + 16, POWER_MAX = 16 };

typedef struct parser {
    hn_sym *sym;
    hn_str text;
    size_t at;
    uint32_t nesting;
} parser;

static hn_status parse_sum(parser *p, hn_expr *out);

static hn_status fail(const parser *p, const char *what) {
    return HN_ERROR(HN_INVALID_ARGUMENT, "cannot parse expression '%.*s'%s at offset %zu: %s",
                    (int)(p->text.len < 80 ? p->text.len : 80), p->text.ptr ? p->text.ptr : "",
                    p->text.len > 80 ? "..." : "", p->at, what);
}

static void skip_space(parser *p) {
    while (p->at < p->text.len && strchr(" \t\r\n", p->text.ptr[p->at]) && p->text.ptr[p->at])
        p->at++;
}

static bool accept(parser *p, const char *token) {
    size_t len = strlen(token);
    skip_space(p);
    if (p->text.len - p->at < len || memcmp(p->text.ptr + p->at, token, len) != 0) return false;
    p->at += len;
    return true;
}

/* "*", but not the first half of "**". */
static bool accept_times(parser *p) {
    size_t at = p->at;
    if (accept(p, "**")) {
        p->at = at;
        return false;
    }
    return accept(p, "*");
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static hn_status check(const parser *p, hn_expr e) {
    if (e) return NULL;
    if (p->sym->failed) return hn_sym_status(p->sym);
    return fail(p, p->sym->trial_text[0] ? p->sym->trial_text : "the value is not valid here");
}

/* Up to 2^63, which only makes sense after a minus. */
static hn_status parse_number(parser *p, uint64_t *out) {
    uint64_t value = 0;
    size_t begin = p->at;
    for (; p->at < p->text.len && is_digit(p->text.ptr[p->at]); p->at++) {
        uint64_t digit = (uint64_t)(p->text.ptr[p->at] - '0');
        if (value > (((uint64_t)1 << 63) - digit) / 10)
            return fail(p, "the number does not fit in 64 bits");
        value = value * 10 + digit;
    }
    if (p->at == begin) return fail(p, "expected a number");
    if (p->at < p->text.len && is_name(p->text.ptr[p->at]))
        return fail(p, "a number ends in a letter");
    *out = value;
    return NULL;
}

/* <letter><digits>, the number in *out. */
static bool numbered(hn_str name, char letter, uint32_t *out) {
    uint64_t value = 0;
    if (name.len < 2 || name.len > 10 || name.ptr[0] != letter) return false;
    for (size_t k = 1; k < name.len; k++) {
        if (!is_digit(name.ptr[k])) return false;
        value = value * 10 + (uint64_t)(name.ptr[k] - '0');
    }
    *out = (uint32_t)value;
    return value <= UINT32_MAX;
}

static hn_expr name_find(parser *p, hn_str name) {
    uint32_t number;
    uint64_t *known = hn_strmap_get(&p->sym->names, name);
    if (!known && numbered(name, 'i', &number)) known = hn_map_get(&p->sym->latest, number);
    if (known) return (hn_expr)*known;
    if (numbered(name, 's', &number))
        return hn_sym_symbol(p->sym, name, HN_SYMBOL_SIZE, HN_SYM_MIN, HN_SYM_MAX);
    if (numbered(name, 'u', &number))
        return hn_sym_symbol(p->sym, name, HN_SYMBOL_DATA, HN_SYM_MIN, HN_SYM_MAX);
    return 0;
}

typedef hn_expr (*combine_fn)(hn_sym *, hn_expr, hn_expr);

static combine_fn call_find(hn_str name, bool *out_variadic) {
    static const struct {
        const char *name;
        combine_fn fn;
        bool variadic;
    } calls[] = {
        {"Min", hn_sym_min, true},
        {"Max", hn_sym_max, true},
        {"Mod", hn_sym_mod, false},
        {"FloorDiv", hn_sym_floordiv, false},
    };
    for (size_t k = 0; k < HN_COUNT_OF(calls); k++) {
        *out_variadic = calls[k].variadic;
        if (hn_str_eq(name, hn_str_of(calls[k].name))) return calls[k].fn;
    }
    return NULL;
}

static hn_status parse_call(parser *p, combine_fn fn, bool variadic, hn_expr *out) {
    uint32_t count = 1;
    if (!accept(p, "(")) return fail(p, "expected '('");
    HN_TRY(parse_sum(p, out));
    for (; accept(p, ","); count++) {
        hn_expr arg;
        if (!variadic && count == 2) return fail(p, "too many arguments");
        HN_TRY(parse_sum(p, &arg));
        *out = fn(p->sym, *out, arg);
        HN_TRY(check(p, *out));
    }
    if (!variadic && count != 2) return fail(p, "expected two arguments");
    return accept(p, ")") ? NULL : fail(p, "expected ')'");
}

static hn_status parse_name(parser *p, hn_expr *out) {
    size_t begin = p->at;
    while (p->at < p->text.len && is_name(p->text.ptr[p->at])) p->at++;
    hn_str name = {p->text.ptr + begin, p->at - begin};
    bool variadic;
    combine_fn fn = call_find(name, &variadic);
    if (fn) return parse_call(p, fn, variadic, out);
    *out = name_find(p, name);
    if (*out) return NULL;
    p->at = begin;
    return fail(p, "unknown symbol; expected a declared one, s<N> or u<N>");
}

static hn_status parse_atom(parser *p, hn_expr *out) {
    skip_space(p);
    if (p->at == p->text.len) return fail(p, "expected a value");
    char c = p->text.ptr[p->at];
    if (is_digit(c)) {
        uint64_t value;
        HN_TRY(parse_number(p, &value));
        if (value > (uint64_t)INT64_MAX) return fail(p, "the number does not fit in 64 bits");
        *out = hn_sym_int(p->sym, (int64_t)value);
        return check(p, *out);
    }
    if (is_name(c)) return parse_name(p, out);
    if (!accept(p, "(")) return fail(p, "expected a value");
    HN_TRY(parse_sum(p, out));
    return accept(p, ")") ? NULL : fail(p, "expected ')'");
}

static hn_status parse_power(parser *p, hn_expr *out) {
    HN_TRY(parse_atom(p, out));
    if (!accept(p, "**")) return NULL;
    uint64_t power;
    skip_space(p);
    HN_TRY(parse_number(p, &power));
    if (power > POWER_MAX) return fail(p, "the exponent is too large");
    hn_expr base = *out;
    *out = hn_sym_int(p->sym, 1);
    for (; power > 0; power--) *out = hn_sym_mul(p->sym, *out, base);
    return check(p, *out);
}

/* -2^63 is the one number whose magnitude alone does not fit. */
static bool accept_smallest(parser *p) {
    static const char digits[] = "9223372036854775808";
    size_t at = p->at, end;
    if (!accept(p, digits)) return false;
    end = p->at;
    skip_space(p);
    bool alone = end == p->text.len || !is_name(p->text.ptr[end]);
    if (alone && !accept(p, "**")) return true;
    p->at = at;
    return false;
}

static hn_status parse_unary(parser *p, hn_expr *out) {
    bool negative = false;
    while (accept(p, "-")) negative = !negative;
    if (negative && accept_smallest(p)) {
        *out = hn_sym_int(p->sym, INT64_MIN);
        return check(p, *out);
    }
    HN_TRY(parse_power(p, out));
    if (negative) *out = hn_sym_neg(p->sym, *out);
    return check(p, *out);
}

static hn_status parse_product(parser *p, hn_expr *out) {
    HN_TRY(parse_unary(p, out));
    for (;;) {
        combine_fn fn = NULL;
        if (accept_times(p)) fn = hn_sym_mul;
        else if (accept(p, "//")) fn = hn_sym_floordiv;
        else if (accept(p, "%")) fn = hn_sym_mod;
        if (!fn) return NULL;
        hn_expr right;
        HN_TRY(parse_unary(p, &right));
        *out = fn(p->sym, *out, right);
        HN_TRY(check(p, *out));
    }
}

static bool accept_sign(parser *p, int64_t *out_sign) {
    *out_sign = accept(p, "+") ? 1 : accept(p, "-") ? -1 : 0;
    return *out_sign != 0;
}

static hn_status parse_terms(parser *p, hn_expr *out) {
    hn_expr term;
    int64_t sign;
    HN_TRY(parse_product(p, out));
    if (!accept_sign(p, &sign)) return NULL;
    hn_sum_buf buf;
    hn_sum_init(&buf);
    hn_sum_add(p->sym, &buf, *out, 1);
    do {
        HN_TRY(parse_product(p, &term));
        hn_sum_add(p->sym, &buf, term, sign);
    } while (accept_sign(p, &sign));
    *out = hn_sum_finish(p->sym, &buf);
    return check(p, *out);
}

static hn_status parse_sum(parser *p, hn_expr *out) {
    if (p->nesting >= NESTING_MAX) return fail(p, "too deeply nested");
    p->nesting++;
    hn_status status = parse_terms(p, out);
    p->nesting--;
    return status;
}

hn_status hn_sym_parse(hn_sym *sym, hn_str text, hn_expr *out) {
    if (sym->failed) return hn_sym_status(sym);
    parser p = {.sym = sym, .text = text};
    hn_expr e = 0;
    sym->trial_text[0] = '\0';
    sym->trial++;
    hn_status status = parse_sum(&p, &e);
    sym->trial--;
    if (status) return status;
    skip_space(&p);
    if (p.at < text.len) return fail(&p, "expected an operator");
    *out = e;
    return NULL;
}
