/* Expressions of .pt2 files in their three spellings. */
#include "unit/harness.h"

#include "front/pt2/expr.h"

#include <stdlib.h>

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_pt2_expr_env env;
} fixture;

static hn_expr make_symbol(void *user, hn_str name, int64_t lo) {
    fixture *f = user;
    if (name.len < 2 || !strchr("su", name.ptr[0])) return 0;
    return hn_sym_symbol(f->sym, name, name.ptr[0] == 'u' ? HN_SYMBOL_DATA : HN_SYMBOL_SIZE,
                         lo < 0 ? 0 : lo, 4096);
}
/* Size k of every input is the symbol s<k>; its stride s1<k>; an integer input is s9. */
static hn_expr find_input(void *user, hn_str path, bool stride, int64_t dim) {
    char name[32];
    if (!hn_str_eq(path, HN_STR("x")) && !hn_str_eq(path, HN_STR("d_a_0"))) return 0;
    snprintf(name, sizeof name, dim < 0 ? "s9" : stride ? "s1%d" : "s%d", (int)dim);
    return make_symbol(user, hn_str_of(name), 0);
}

static void begin(fixture *f) {
    hn_arena_init(&f->arena);
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    f->env = (hn_pt2_expr_env){
        .sym = f->sym, .scratch = &f->arena, .user = f, .symbol = make_symbol, .input = find_input};
}
static void end(fixture *f) { hn_arena_deinit(&f->arena); }

/* The expression must be the one that `expected` is in the library's own spelling. */
static void expect_expr(const char *text, const char *expected) {
    fixture f;
    hn_expr got = 0, want = 0;
    begin(&f);
    hn_status status = hn_pt2_expr_parse(&f.env, hn_str_of(text), &got);
    if (status) HN_TEST_FAIL("%s: %s", text, hn_status_message(status));
    hn_status_free(status);
    EXPECT_OK(hn_sym_parse(f.sym, hn_str_of(expected), &want));
    if (got != want) {
        hn_strbuf printed;
        hn_strbuf_init(&printed);
        hn_sym_print(f.sym, got, &printed);
        HN_TEST_FAIL("%s is %s, expected %s", text, printed.ptr, expected);
        hn_strbuf_deinit(&printed);
    }
    end(&f);
}

#define S "Symbol('s0', positive=True, integer=True)"
#define T "Symbol('s1', integer=True)"

TEST(srepr) {
    expect_expr("Integer(-3)", "-3");
    expect_expr(S, "s0");
    expect_expr("Add(Mul(Integer(2), " S "), Integer(-1))", "2*s0 - 1");
    expect_expr("Mul(Rational(1, 2), Add(Mul(Integer(4), " S "), Integer(6)))", "2*s0 + 3");
    expect_expr("Mul(Rational(1, 2), " S ")", "s0//2");
    expect_expr("Add(Mul(Rational(1, 3), " S "), Mul(Rational(2, 3), " S "))", "s0");
    expect_expr("Add(Mul(Rational(1, 2), " S "), Mul(Rational(1, 3), " S "))", "(5*s0)//6");
    expect_expr("Pow(" S ", Integer(2))", "s0*s0");
    expect_expr("floor(Mul(" S ", Pow(" T ", Integer(-1))))", "s0//s1");
    expect_expr("ceiling(Mul(Rational(1, 2), " S "))", "(s0 + 1)//2");
    expect_expr("FloorDiv(" S ", Integer(3))", "s0//3");
    expect_expr("FloorDiv(Mul(Rational(1, 2), " S "), Integer(3))", "s0//6");
    expect_expr("CleanDiv(" S ", Integer(3))", "s0//3");
    expect_expr("CeilToInt(IntTrueDiv(" S ", Integer(4)))", "(s0 + 3)//4");
    expect_expr("TruncToInt(FloatTrueDiv(ToFloat(" S "), Integer(4)))", "s0//4");
    expect_expr("Mod(" S ", Integer(4))", "s0 % 4");
    expect_expr("PythonMod(" S ", Integer(4))", "s0 % 4");
    expect_expr("ModularIndexing(" S ", Integer(4), Integer(8))", "(s0//4) % 8");
    expect_expr("Max(Integer(1), " S ", " T ")", "Max(Max(1, s0), s1)");
    expect_expr("Min(Integer(9), " S ")", "Min(9, s0)");
    expect_expr("Identity(LShift(" S ", Integer(3)))", "8*s0");
    expect_expr("RShift(" S ", Integer(3))", "s0//8");
    expect_expr("Symbol('u3', integer=True, nonnegative=True)", "u3");
}

static void expect_unsupported_expr(const char *text, const char *part) {
    fixture f;
    hn_expr got = 0;
    begin(&f);
    hn_status status = hn_pt2_expr_parse(&f.env, hn_str_of(text), &got);
    if (hn_status_code(status) != HN_UNSUPPORTED || !strstr(hn_status_message(status), part))
        HN_TEST_FAIL("%s: %s", text, status ? hn_status_message(status) : "was read");
    hn_status_free(status);
    end(&f);
}

/* trunc(c * s) as doubles compute it, against the fraction that the reader took. */
static void expect_floor_of_product(const char *text, double c, int64_t num, int64_t den) {
    char srepr[128], expected[64];
    snprintf(srepr, sizeof srepr, "TruncToInt(Mul(Float('%s', precision=53), ToFloat(" S ")))",
             text);
    snprintf(expected, sizeof expected, "%lld*s0//%lld", (long long)num, (long long)den);
    expect_expr(srepr, expected);
    int64_t s = 0;
    while (s < 100000 && (int64_t)(c * (double)s) == num * s / den) s++;
    if (s < 100000) HN_TEST_FAIL("%s * %lld", text, (long long)s);
}

TEST(floats) {
    expect_floor_of_product("0.5", 0.5, 1, 2);
    expect_floor_of_product("1.5", 1.5, 3, 2);
    expect_floor_of_product("0.10000000000000001", 0.10000000000000001, 1, 10);
    expect_floor_of_product("1.3", 1.3, 13, 10);
    expect_floor_of_product("0.33333333333333331", 1.0 / 3, 1, 3);
    expect_expr("TruncToInt(Mul(Float('2.0', precision=53), ToFloat(" S ")))", "2*s0");
    /* 0.7 * 90 < 63 */
    expect_unsupported_expr("TruncToInt(Mul(Float('0.69999999999999996', precision=53), ToFloat(" S
                            ")))",
                            "round below");
    expect_unsupported_expr("TruncToInt(Mul(Float('0.56999999999999995', precision=53), ToFloat(" S
                            ")))",
                            "round below");
    expect_unsupported_expr(
        "TruncToInt(Mul(Float('0.1', precision=53), Float('0.1', precision=53)))",
        "product of floats");
    expect_unsupported_expr("Add(Float('0.1', precision=53), " S ")", "float as an argument");
    expect_unsupported_expr("Mul(Float('0.1', precision=53), " S ")",
                            "float where an integer belongs");
    expect_unsupported_expr("Float('3.1415926535897931', precision=53)", "no small fraction");
}

TEST(infix) {
    expect_expr("2*s0 - 1", "2*s0 - 1");
    expect_expr("(s0//2)", "s0//2");
    expect_expr("s0/2 + s0/2", "s0");
    expect_expr("-s0 + 3*(s1 - 2)", "3*s1 - s0 - 6");
    expect_expr("s0**2*s1", "s0*s0*s1");
    expect_expr("-2**2", "-4");
    expect_expr("s0 % 8 // 2", "(s0 % 8)//2");
    expect_expr("Max(1, s0)", "Max(1, s0)");
    expect_expr("9223372036854775807", "9223372036854775807");
    expect_expr("L['x'].size()[1] + L['x'].shape[0]", "s0 + s1");
    expect_expr("L['d']['a'][0].stride()[2] * L['x']", "s12*s9");
}

/* "s0 - 1 < 3*s1; ..." with the relations in order */
static void expect_condition(const char *text, const char *expected) {
    static const char *const signs[] = {
        [HN_REL_EQ] = "==", [HN_REL_NE] = "!=", [HN_REL_LT] = "<", [HN_REL_LE] = "<="};
    fixture f;
    const hn_pt2_relation *relations = NULL;
    uint32_t count = 0;
    hn_strbuf printed;
    begin(&f);
    hn_strbuf_init(&printed);
    hn_strbuf_puts(&printed, "");
    hn_status status = hn_pt2_condition_parse(&f.env, hn_str_of(text), &relations, &count);
    if (status) hn_strbuf_puts(&printed, hn_status_message(status));
    hn_status_free(status);
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(&printed, "; ");
        hn_sym_print(f.sym, relations[k].lhs, &printed);
        hn_strbuf_printf(&printed, " %s ", signs[relations[k].relation]);
        hn_sym_print(f.sym, relations[k].rhs, &printed);
    }
    EXPECT_STR(printed.ptr ? printed.ptr : "", expected);
    hn_strbuf_deinit(&printed);
    end(&f);
}

TEST(conditions) {
    expect_condition("L['x'].size()[0] == ((1 + L['x'].size()[1]) // 2)", "s0 == (s1 + 1)//2");
    expect_condition("(L['x'].size()[0] % 2) == 0", "s0%2 == 0");
    expect_condition("2 <= s0 <= 64", "2 <= s0; s0 <= 64");
    expect_condition("s0 > 2 and not s1 >= 5", "2 < s0; s1 < 5");
    expect_condition("Ne(s0, 3)", "s0 != 3");
    expect_condition("And(StrictLessThan(" S ", Integer(4)), GreaterThan(" T ", Integer(1)))",
                     "s0 < 4; 1 <= s1");
    expect_condition("Not(Equality(" S ", " T "))", "s0 != s1");
    expect_condition("Mul(Rational(1, 2), " S ") < Integer(4)", "s0 < 8");
    expect_condition("true", "");
    expect_condition("false", "0 == 1");
    expect_condition("Or(false, s0 < 4)", "s0 < 4");
    expect_condition("s0 < 4 or True", "");
}

TEST(errors) {
    static const struct {
        const char *text;
        hn_code code;
        const char *message;
    } cases[] = {
        {"", HN_INVALID_ARGUMENT, "ends too early"},
        {"s0 +", HN_INVALID_ARGUMENT, "ends too early"},
        {"s0 s1", HN_INVALID_ARGUMENT, "text after the expression"},
        {"Add(s0", HN_INVALID_ARGUMENT, "comma or a closing"},
        {"Mod(s0)", HN_INVALID_ARGUMENT, "too few arguments for 'Mod'"},
        {"floor(s0, s1)", HN_INVALID_ARGUMENT, "too many arguments for 'floor'"},
        {"s0 // 0", HN_INVALID_ARGUMENT, "division by zero"},
        {"Mod(s0, 0)", HN_INVALID_ARGUMENT, "remainder by zero"},
        {"Pow(0, -1)", HN_INVALID_ARGUMENT, "division by zero"},
        {"s0 < 3", HN_INVALID_ARGUMENT, "a condition where a number"},
        {"99999999999999999999", HN_INVALID_ARGUMENT, "64 bits"},
        {"Symbol(s0)", HN_INVALID_ARGUMENT, "quoted name"},
        {"Symbol('s0', real=Maybe)", HN_INVALID_ARGUMENT, "True or False"},
        {"1.5", HN_UNSUPPORTED, "fraction"},
        {"Piecewise(s0, s1)", HN_UNSUPPORTED, "function 'Piecewise'"},
        {"x", HN_UNSUPPORTED, "unknown name 'x'"},
        {"Pow(s0, s1)", HN_UNSUPPORTED, "exponent"},
        {"L['y'].size()[0]", HN_UNSUPPORTED, "no tensor of this graph"},
        {"L['x'].dtype", HN_UNSUPPORTED, "attribute 'dtype'"},
        {"s0 < 3 or s0 > 5", HN_UNSUPPORTED, "'or'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fixture f;
        hn_expr e;
        begin(&f);
        EXPECT_ERROR(hn_pt2_expr_parse(&f.env, hn_str_of(cases[k].text), &e), cases[k].code,
                     cases[k].message);
        end(&f);
    }
}

TEST(depth_is_limited) {
    enum { LEVELS = 100000 };
    char *text = malloc(LEVELS + 1);
    static const char starts[] = "(-";
    for (size_t k = 0; k < 2; k++) {
        fixture f;
        hn_expr e;
        memset(text, starts[k], LEVELS);
        text[LEVELS] = 0;
        begin(&f);
        EXPECT_ERROR(hn_pt2_expr_parse(&f.env, hn_str_of(text), &e), HN_INVALID_ARGUMENT,
                     "nested too deep");
        end(&f);
    }
    free(text);
}

TEST_MAIN
