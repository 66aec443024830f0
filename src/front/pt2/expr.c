/* expr.c: recursive descent over the grammar below; see expr.h.
 *
 *     condition  = conjunct { ("or" | "|") conjunct }
 *     conjunct   = negation { ("and" | "&") negation }
 *     negation   = "not" negation | comparison
 *     comparison = sum { ("==" | "!=" | "<" | "<=" | ">" | ">=") sum }
 *     sum        = product { ("+" | "-") product }
 *     product    = unary { ("*" | "/" | "//" | "%") unary }
 *     unary      = ("-" | "+") unary | power
 *     power      = primary [ "**" unary ]
 *     primary    = integer | name | name "(" arguments ")" | "(" condition ")" | "L" input */
#include "front/pt2/expr_terms.h"

#include "base/checked.h"
#include "base/compiler.h"

#include <ctype.h>

enum { MAX_DEPTH = 200 };

typedef struct parser {
    hn_pt2_calc calc;
    const char *begin, *at, *end;
    uint32_t depth;
} parser;

static bool condition(parser *p, hn_pt2_term *out);
static bool unary(parser *p, hn_pt2_term *out);

static bool fail(parser *p, hn_code code, const char *problem, hn_str subject) {
    return hn_pt2_calc_fail(&p->calc, code, problem, subject);
}
static bool malformed(parser *p, const char *problem) {
    return fail(p, HN_INVALID_ARGUMENT, problem, HN_STR(""));
}

/* --- tokens --- */

static void skip_space(parser *p) {
    while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
}

static bool take(parser *p, const char *token) {
    skip_space(p);
    size_t len = strlen(token);
    if ((size_t)(p->end - p->at) < len || memcmp(p->at, token, len) != 0) return false;
    p->at += len;
    return true;
}

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static hn_str name_peek(parser *p) {
    skip_space(p);
    const char *q = p->at;
    if (q < p->end && !isdigit((unsigned char)*q))
        while (q < p->end && is_name_char(*q)) q++;
    return (hn_str){p->at, (size_t)(q - p->at)};
}

static bool take_word(parser *p, const char *word) {
    hn_str name = name_peek(p);
    if (!hn_str_eq(name, hn_str_of(word))) return false;
    p->at += name.len;
    return true;
}

static bool integer(parser *p, int64_t *out) {
    skip_space(p);
    if (p->at == p->end || !isdigit((unsigned char)*p->at))
        return malformed(p, "expected an integer");
    int64_t value = 0;
    for (; p->at < p->end && isdigit((unsigned char)*p->at); p->at++)
        if (!hn_mul_i64(value, 10, &value) || !hn_add_i64(value, *p->at - '0', &value))
            return malformed(p, "integer does not fit 64 bits");
    if (p->at < p->end && *p->at == '.')
        return fail(p, HN_UNSUPPORTED, "fraction in an integer expression", HN_STR(""));
    *out = value;
    return true;
}

static bool quoted(parser *p, hn_str *out) {
    skip_space(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"'))
        return malformed(p, "expected a quoted name");
    const char *begin = p->at + 1, *close = memchr(begin, *p->at, (size_t)(p->end - begin));
    if (!close) return malformed(p, "name without a closing quote");
    *out = (hn_str){begin, (size_t)(close - begin)};
    p->at = close + 1;
    return true;
}

/* "a, b)": the opening bracket is behind us. */
static bool arguments(parser *p, hn_str name, const hn_pt2_function *f, hn_pt2_term *args,
                      uint32_t *out_count) {
    uint32_t count = 0;
    while (!take(p, ")")) {
        if (count && !take(p, ","))
            return malformed(p, "expected a comma or a closing parenthesis");
        if (count == f->max_args)
            return fail(p, HN_INVALID_ARGUMENT, "too many arguments for", name);
        if (!condition(p, &args[count])) return false;
        if (args[count++].is_condition != f->of_conditions)
            return fail(p, HN_INVALID_ARGUMENT,
                        "a number where a condition belongs, or the reverse, in", name);
        if (args[count - 1].is_near && !f->takes_near)
            return fail(p, HN_UNSUPPORTED, "a float as an argument of", name);
    }
    if (count < f->min_args) return fail(p, HN_INVALID_ARGUMENT, "too few arguments for", name);
    *out_count = count;
    return true;
}

static bool symbol_make(parser *p, hn_str name, int64_t lo, hn_pt2_term *out) {
    hn_expr symbol = p->calc.env->symbol(p->calc.env->user, name, lo);
    if (!symbol) return fail(p, HN_UNSUPPORTED, "unknown name", name);
    *out = hn_pt2_term_of(&p->calc, symbol);
    return true;
}

/* "'s77', positive=True, integer=True)" */
static bool symbol_call(parser *p, hn_pt2_term *out) {
    hn_str name;
    int64_t lo = HN_SYM_MIN;
    if (!quoted(p, &name)) return false;
    while (!take(p, ")")) {
        if (!take(p, ",")) return malformed(p, "expected a comma or a closing parenthesis");
        hn_str key = name_peek(p);
        p->at += key.len;
        if (!take(p, "=")) return malformed(p, "expected '='");
        bool value = take_word(p, "True");
        if (!value && !take_word(p, "False") && !take_word(p, "None"))
            return malformed(p, "expected True or False");
        if (value && hn_str_eq(key, HN_STR("positive"))) lo = 1;
        if (value && hn_str_eq(key, HN_STR("nonnegative")) && lo < 0) lo = 0;
    }
    return symbol_make(p, name, lo, out);
}

/* "'0.5', precision=53)" */
static bool float_call(parser *p, hn_pt2_term *out) {
    hn_str text;
    int64_t bits = 53;
    if (!quoted(p, &text)) return false;
    if (take(p, ",") && !(take(p, "precision") && take(p, "=") && integer(p, &bits)))
        return malformed(p, "expected a precision");
    if (!take(p, ")")) return malformed(p, "expected a closing parenthesis");
    if (bits != 53) return fail(p, HN_UNSUPPORTED, "a float that is no double,", text);
    return hn_pt2_term_float(&p->calc, text, out);
}

static bool call(parser *p, hn_str name, hn_pt2_term *out) {
    if (hn_str_eq(name, HN_STR("Symbol"))) return symbol_call(p, out);
    if (hn_str_eq(name, HN_STR("Float"))) return float_call(p, out);
    const hn_pt2_function *f = hn_pt2_function_find(name);
    if (!f) return fail(p, HN_UNSUPPORTED, "function", name);
    hn_pt2_term small[4], *args = small;
    uint32_t count = 0;
    if (f->max_args > 4 &&
        !(args = hn_arena_alloc(p->calc.env->scratch, HN_PT2_MAX_ARGS * sizeof *args)))
        return fail(p, HN_OUT_OF_MEMORY, "no memory", HN_STR(""));
    return arguments(p, name, f, args, &count) && f->apply(&p->calc, args, count, out);
}

/* --- L['x'].size()[0] --- */

typedef struct path {
    char text[256];
    size_t len;
} path;

static bool path_append(parser *p, path *to, hn_str part) {
    if (to->len + part.len + 1 >= sizeof to->text)
        return fail(p, HN_UNSUPPORTED, "long input path", HN_STR(""));
    if (to->len) to->text[to->len++] = '_';
    memcpy(to->text + to->len, part.ptr, part.len);
    to->len += part.len;
    return true;
}

static bool subscript(parser *p, path *to) {
    skip_space(p);
    hn_str part = {p->at, 0};
    int64_t index = 0;
    if (p->at < p->end && isdigit((unsigned char)*p->at)) {
        if (!integer(p, &index)) return false;
        part.len = (size_t)(p->at - part.ptr);
    } else if (!quoted(p, &part)) {
        return false;
    }
    return take(p, "]") ? path_append(p, to, part) : malformed(p, "expected ']'");
}

/* The graph names nested inputs by joining their keys: L['d']['a'] is d_a. */
static bool input(parser *p, hn_pt2_term *out) {
    path name = {.len = 0};
    while (take(p, "["))
        if (!subscript(p, &name)) return false;
    if (!p->calc.env->input || name.len == 0)
        return fail(p, HN_UNSUPPORTED, "reference to an input", HN_STR(""));
    int64_t dim = -1;
    bool stride = false;
    if (take(p, ".")) {
        hn_str what = name_peek(p);
        p->at += what.len;
        stride = hn_str_eq(what, HN_STR("stride"));
        if (!stride && !hn_str_eq(what, HN_STR("size")) && !hn_str_eq(what, HN_STR("shape")))
            return fail(p, HN_UNSUPPORTED, "attribute", what);
        if (take(p, "(") && !take(p, ")")) return malformed(p, "expected ')'");
        if (!take(p, "[") || !integer(p, &dim) || !take(p, "]"))
            return malformed(p, "expected a dimension in brackets");
    }
    hn_expr value =
        p->calc.env->input(p->calc.env->user, (hn_str){name.text, name.len}, stride, dim);
    if (!value)
        return fail(p, HN_UNSUPPORTED, "reference to an input that is no tensor of this graph",
                    HN_STR(""));
    *out = hn_pt2_term_of(&p->calc, value);
    return true;
}

/* --- the grammar --- */

static bool named(parser *p, hn_str name, hn_pt2_term *out) {
    p->at += name.len;
    if (hn_str_eq(name, HN_STR("L"))) return input(p, out);
    if (take(p, "(")) return call(p, name, out);
    if (hn_str_eq(name, HN_STR("true")) || hn_str_eq(name, HN_STR("True")))
        return hn_pt2_term_bool(&p->calc, true, out);
    if (hn_str_eq(name, HN_STR("false")) || hn_str_eq(name, HN_STR("False")))
        return hn_pt2_term_bool(&p->calc, false, out);
    if (hn_str_eq(name, HN_STR("oo")) || hn_str_eq(name, HN_STR("int_oo"))) {
        *out = hn_pt2_term_int(&p->calc, HN_SYM_MAX);
        return true;
    }
    return symbol_make(p, name, HN_SYM_MIN, out);
}

static bool primary(parser *p, hn_pt2_term *out) {
    skip_space(p);
    if (p->at == p->end) return malformed(p, "expression ends too early");
    if (isdigit((unsigned char)*p->at)) {
        int64_t value = 0;
        if (!integer(p, &value)) return false;
        *out = hn_pt2_term_int(&p->calc, value);
        return true;
    }
    if (take(p, "(")) return condition(p, out) && (take(p, ")") || malformed(p, "expected ')'"));
    hn_str name = name_peek(p);
    return name.len ? named(p, name, out) : malformed(p, "expected a number, a name or '('");
}

static bool want_number(parser *p, const hn_pt2_term *t) {
    if (t->is_near) return fail(p, HN_UNSUPPORTED, "a float where an integer belongs", HN_STR(""));
    return !t->is_condition || malformed(p, "a condition where a number belongs");
}
static bool want_condition(parser *p, const hn_pt2_term *t) {
    return t->is_condition || malformed(p, "a number where a condition belongs");
}

static bool power_or_primary(parser *p, hn_pt2_term *out) {
    hn_pt2_term base, exponent;
    if (!primary(p, &base)) return false;
    if (!take(p, "**")) {
        *out = base;
        return true;
    }
    return want_number(p, &base) && unary(p, &exponent) && want_number(p, &exponent) &&
           hn_pt2_term_power(&p->calc, &base, &exponent, out);
}

static bool unary(parser *p, hn_pt2_term *out) {
    if (++p->depth > MAX_DEPTH) return malformed(p, "nested too deep");
    bool minus = take(p, "-"), ok;
    hn_pt2_term inner;
    if (minus || take(p, "+")) {
        ok = unary(p, &inner) && want_number(p, &inner);
        if (ok) *out = minus ? hn_pt2_term_negate(&p->calc, &inner) : inner;
    } else {
        ok = power_or_primary(p, out);
    }
    p->depth--;
    return ok;
}

static bool product(parser *p, hn_pt2_term *out) {
    if (!unary(p, out)) return false;
    for (;;) {
        bool ok;
        hn_pt2_term left = *out, right;
        skip_space(p);
        char op = p->at < p->end ? *p->at : 0;
        bool whole = take(p, "//");
        if (!whole && !((op == '*' || op == '/' || op == '%') && ++p->at)) return true;
        if (!want_number(p, &left) || !unary(p, &right) || !want_number(p, &right)) return false;
        if (whole) ok = hn_pt2_term_floordiv(&p->calc, &left, &right, out);
        else if (op == '/') ok = hn_pt2_term_divide(&p->calc, &left, &right, out);
        else if (op == '%') ok = hn_pt2_term_mod(&p->calc, &left, &right, out);
        else ok = true, *out = hn_pt2_term_multiply(&p->calc, &left, &right);
        if (!ok) return false;
    }
}

static bool sum(parser *p, hn_pt2_term *out) {
    if (!product(p, out)) return false;
    for (;;) {
        bool minus = take(p, "-");
        if (!minus && !take(p, "+")) return true;
        hn_pt2_term left = *out, right;
        if (!want_number(p, &left) || !product(p, &right) || !want_number(p, &right)) return false;
        if (minus) right = hn_pt2_term_negate(&p->calc, &right);
        *out = hn_pt2_term_add(&p->calc, &left, &right);
    }
}

/* The relation after a sum, if any; ">" and ">=" are "<" and "<=" with their sides swapped. */
static bool relation_take(parser *p, hn_relation *out, bool *out_swapped) {
    static const struct {
        const char *token;
        hn_relation relation;
        bool swapped;
    } relations[] = {{"==", HN_REL_EQ, false}, {"!=", HN_REL_NE, false}, {"<=", HN_REL_LE, false},
                     {">=", HN_REL_LE, true},  {"<", HN_REL_LT, false},  {">", HN_REL_LT, true}};
    for (size_t k = 0; k < HN_COUNT_OF(relations); k++) {
        if (!take(p, relations[k].token)) continue;
        *out = relations[k].relation;
        *out_swapped = relations[k].swapped;
        return true;
    }
    return false;
}

/* Chains as in Python: a <= b <= c means both. */
static bool comparison(parser *p, hn_pt2_term *out) {
    hn_pt2_term left, right, link, both, so_far = {.is_condition = true};
    hn_relation relation;
    bool swapped;
    if (!sum(p, &left)) return false;
    for (uint32_t links = 0;; links++) {
        if (!relation_take(p, &relation, &swapped)) {
            *out = links ? so_far : left;
            return true;
        }
        if (!sum(p, &right) || !want_number(p, &left) || !want_number(p, &right)) return false;
        bool ok = hn_pt2_term_relate(&p->calc, relation, swapped ? &right : &left,
                                     swapped ? &left : &right, &link);
        if (!ok || !hn_pt2_term_and(&p->calc, &so_far, &link, &both)) return false;
        so_far = both;
        left = right;
    }
}

static bool negation(parser *p, hn_pt2_term *out) {
    hn_pt2_term inner;
    if (!take_word(p, "not")) return comparison(p, out);
    if (++p->depth > MAX_DEPTH) return malformed(p, "nested too deep");
    bool ok =
        negation(p, &inner) && want_condition(p, &inner) && hn_pt2_term_not(&p->calc, &inner, out);
    p->depth--;
    return ok;
}

static bool conjuncts(parser *p, hn_pt2_term *out) {
    if (!negation(p, out)) return false;
    while (take_word(p, "and") || take(p, "&")) {
        hn_pt2_term left = *out, right;
        if (!want_condition(p, &left) || !negation(p, &right) || !want_condition(p, &right))
            return false;
        if (!hn_pt2_term_and(&p->calc, &left, &right, out)) return false;
    }
    return true;
}

static bool condition(parser *p, hn_pt2_term *out) {
    if (!conjuncts(p, out)) return false;
    while (take_word(p, "or") || take(p, "|")) {
        hn_pt2_term left = *out, right;
        if (!want_condition(p, &left) || !conjuncts(p, &right) || !want_condition(p, &right))
            return false;
        if (!hn_pt2_term_or(&p->calc, &left, &right, out)) return false;
    }
    return true;
}

/* --- entry points --- */

static hn_status parse_all(const hn_pt2_expr_env *env, hn_str text, bool want, hn_pt2_term *out) {
    parser p = {.calc = {.env = env, .sym = env->sym},
                .begin = text.ptr,
                .at = text.ptr,
                .end = text.ptr + text.len};
    bool ok = condition(&p, out) && (want ? want_condition(&p, out) : want_number(&p, out));
    skip_space(&p);
    if (ok && p.at != p.end) malformed(&p, "text after the expression");
    hn_status latched = hn_sym_status(env->sym);
    /* A symbol that could not be made for want of memory is no unknown one. */
    if (p.calc.code == HN_OK || hn_status_code(latched) == HN_OUT_OF_MEMORY) return latched;
    hn_status_free(latched);
    const char *quote = p.calc.subject.len ? "'" : "";
    if (text.len > 200) text.len = 200;
    return HN_ERROR(p.calc.code,
                    "cannot read expression '" HN_STR_FMT "' at %zu: %s %s" HN_STR_FMT "%s",
                    HN_STR_ARG(text), (size_t)(p.at - p.begin), p.calc.problem, quote,
                    HN_STR_ARG(p.calc.subject), quote);
}

hn_status hn_pt2_expr_parse(const hn_pt2_expr_env *env, hn_str text, hn_expr *out) {
    hn_pt2_term value;
    HN_TRY(parse_all(env, text, false, &value));
    *out = hn_sym_floordiv(env->sym, value.num, value.den); /* exact: see the top of expr.h */
    return hn_sym_status(env->sym);
}

hn_status hn_pt2_whole_parse(const hn_pt2_expr_env *env, hn_str text, hn_expr *out) {
    hn_pt2_term value;
    HN_TRY(parse_all(env, text, false, &value));
    if (!hn_sym_is_value(env->sym, value.den, 1))
        return HN_ERROR(HN_UNSUPPORTED, "'" HN_STR_FMT "' is a fraction", HN_STR_ARG(text));
    *out = value.num;
    return hn_sym_status(env->sym);
}

hn_status hn_pt2_condition_parse(const hn_pt2_expr_env *env, hn_str text,
                                 const hn_pt2_relation **out, uint32_t *out_count) {
    hn_pt2_term value;
    HN_TRY(parse_all(env, text, true, &value));
    *out = value.relations;
    *out_count = value.count;
    return NULL;
}
