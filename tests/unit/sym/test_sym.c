/* Unit tests of sym/: canonical forms, simplification, facts, proofs, guards, errors. */
#include "unit/harness.h"

#include "sym/sym.h"

#include <stdlib.h>

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_expr s0, s1, s2, u0; /* sizes >= 2, >= 0, >= 1; a value from data */
} fixture;

static void begin(fixture *f) {
    hn_arena_init(&f->arena);
    f->sym = NULL;
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    f->s0 = hn_sym_symbol(f->sym, HN_STR("s0"), HN_SYMBOL_SIZE, 2, HN_SYM_MAX);
    f->s1 = hn_sym_symbol(f->sym, HN_STR("s1"), HN_SYMBOL_SIZE, 0, HN_SYM_MAX);
    f->s2 = hn_sym_symbol(f->sym, HN_STR("s2"), HN_SYMBOL_SIZE, 1, HN_SYM_MAX);
    f->u0 = hn_sym_symbol(f->sym, HN_STR("u0"), HN_SYMBOL_DATA, HN_SYM_MIN, HN_SYM_MAX);
}

static void end(fixture *f) {
    EXPECT_OK(hn_sym_status(f->sym));
    hn_arena_deinit(&f->arena);
}

static hn_expr parse(fixture *f, const char *text) {
    hn_expr e = 0;
    EXPECT_OK(hn_sym_parse(f->sym, hn_str_of(text), &e));
    return e;
}

/* `text` simplifies to exactly `want`, which parses back to the same id. */
static void expect_form(fixture *f, const char *text, const char *want) {
    hn_expr e = parse(f, text);
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_sym_print(f->sym, e, &out);
    if (!out.ptr || strcmp(out.ptr, want) != 0)
        HN_TEST_FAIL("'%s' became '%s', expected '%s'", text, out.ptr ? out.ptr : "", want);
    if (parse(f, want) != e) HN_TEST_FAIL("'%s' does not parse back to the same expression", want);
    hn_strbuf_deinit(&out);
}

/* Loop variables i0 < s0, i1 < s1, i2 < 4, i3 < 12, i4 < s0*s1, i5 < s0 + 1. */
static void add_variables(fixture *f) {
    hn_sym_index(f->sym, 0, f->s0);
    hn_sym_index(f->sym, 1, f->s1);
    hn_sym_index(f->sym, 2, hn_sym_int(f->sym, 4));
    hn_sym_index(f->sym, 3, hn_sym_int(f->sym, 12));
    hn_sym_index(f->sym, 4, hn_sym_mul(f->sym, f->s0, f->s1));
    hn_sym_index(f->sym, 5, hn_sym_add(f->sym, f->s0, hn_sym_int(f->sym, 1)));
}

TEST(sums_are_canonical) {
    fixture f;
    begin(&f);
    expect_form(&f, "s0 + s0", "2*s0");
    expect_form(&f, "s1 + s0 - s1", "s0");
    expect_form(&f, "s0 - s0", "0");
    expect_form(&f, "3 + s0*2 - 1", "2*s0 + 2");
    expect_form(&f, "-s0 + s1", "s1 - s0");
    expect_form(&f, "-s0 - 1", "-s0 - 1");
    expect_form(&f, "(s0 + 1)*(s1 - 1)", "s1 - s0 + s0*s1 - 1");
    expect_form(&f, "(s0 + 1)**2 - s0*s0", "2*s0 + 1");
    expect_form(&f, "s0*s1 - s1*s0", "0");
    expect_form(&f, "-(-s0)", "s0");
    expect_form(&f, "0*s0", "0");
    EXPECT(parse(&f, "s0*s1*s2") == parse(&f, "s2*(s1*s0)"));
    EXPECT(parse(&f, "s0 + (s1 + s2)") == parse(&f, "(s2 + s1) + s0"));
    end(&f);
}

TEST(constants_divide_like_python) {
    fixture f;
    begin(&f);
    expect_form(&f, "7//2", "3");
    expect_form(&f, "-7//2", "-4");
    expect_form(&f, "7//-2", "-4");
    expect_form(&f, "-7//-2", "3");
    expect_form(&f, "-7%3", "2");
    expect_form(&f, "7%-3", "-2");
    expect_form(&f, "-9223372036854775808 + 1", "-9223372036854775807");
    expect_form(&f, "s0 + -9223372036854775808", "s0 + -9223372036854775808");
    end(&f);
}

TEST(divisions_by_constants) {
    fixture f;
    begin(&f);
    add_variables(&f);
    expect_form(&f, "(6*s0 + 4)//2", "3*s0 + 2");
    expect_form(&f, "(4*s0)//6", "(2*s0)//3");
    expect_form(&f, "(4*s0)%6", "2*((2*s0)%3)");
    expect_form(&f, "(4*s0 + 5)//4", "s0 + 1");
    expect_form(&f, "(8*s0 + s1)//4", "2*s0 + s1//4");
    expect_form(&f, "(8*s0 + s1)%4", "s1%4");
    expect_form(&f, "(4*s0 + i2)//4", "s0");
    expect_form(&f, "(4*s0 + i2)%4", "i2");
    expect_form(&f, "(4*s0 + i2)//8", "s0//2");
    expect_form(&f, "(4*s0 + i2)%8", "i2 + 4*(s0%2)");
    expect_form(&f, "i2//4", "0");
    expect_form(&f, "i2%4", "i2");
    expect_form(&f, "i3//12", "0");
    expect_form(&f, "(s0//4)//3", "s0//12");
    expect_form(&f, "(s0%12)%4", "s0%4");
    expect_form(&f, "(s0%12)//4", "(s0//4)%3");
    expect_form(&f, "(i3//4)%3", "i3//4");
    expect_form(&f, "s0//1", "s0");
    expect_form(&f, "s0%1", "0");
    expect_form(&f, "s0//-4", "-((s0 + 3)//4)");
    expect_form(&f, "-((-s0)//4)", "(s0 + 3)//4");
    expect_form(&f, "s0%-4", "-((-s0)%4)");
    expect_form(&f, "(s0 - 1)//4 + 1", "(s0 + 3)//4");
    end(&f);
}

TEST(divisions_recombine) {
    fixture f;
    begin(&f);
    add_variables(&f);
    expect_form(&f, "4*(s0//4) + s0%4", "s0");
    expect_form(&f, "12*(s0//4) + 3*(s0%4) + s1", "3*s0 + s1");
    expect_form(&f, "s1*4*(s0//4) + s1*(s0%4)", "s0*s1");
    expect_form(&f, "12*(s0//12) + 4*((s0//4)%3) + s0%4", "s0");
    expect_form(&f, "4*((s0//4)%3) + s0%4", "s0%12");
    expect_form(&f, "s1*(u0//s1) + u0%s1", "u0");
    expect_form(&f, "4*((8*s1 + s0)//4) + (8*s1 + s0)%4", "s0 + 8*s1");
    /* A size known to be a multiple of 8. */
    hn_sym_assume_divisor(f.sym, f.s2, 8);
    expect_form(&f, "s2%4", "0");
    expect_form(&f, "4*(s2//4)", "s2");
    expect_form(&f, "(s2 + i2)//4", "s2//4");
    expect_form(&f, "(3*s2)//8", "3*(s2//8)");
    expect_form(&f, "(3*s2)%8", "0");
    end(&f);
}

TEST(divisions_by_symbols) {
    fixture f;
    begin(&f);
    add_variables(&f);
    expect_form(&f, "(u0*s1 + i1)//s1", "u0");
    expect_form(&f, "(u0*s1 + i1)%s1", "i1");
    expect_form(&f, "i0//s0", "0");
    expect_form(&f, "i0%s0", "i0");
    expect_form(&f, "(i0*s1 + i1)//s1", "i0");
    expect_form(&f, "(i0*s1 + i1)//(s0*s1)", "0");
    expect_form(&f, "(i0*s1 + i1)%(s0*s1)", "i1 + s1*i0");
    expect_form(&f, "(u0*s1 + i1)//(s0*s1)", "u0//s0");
    expect_form(&f, "(s0*s1)//s1", "s0");
    expect_form(&f, "s0//s0", "1");
    expect_form(&f, "(s0*s1*6)//(s0*4)", "s1 + s1//2");
    expect_form(&f, "(u0//s0)//s1", "u0//(s0*s1)");
    expect_form(&f, "(u0%(s0*s1))//s1", "(u0//s1)%s0");
    expect_form(&f, "(u0%(s0*s1))%s1", "u0%s1");
    expect_form(&f, "i4//(s0*s1)", "0");
    expect_form(&f, "(u0*(s0 + 1) + i5)//(s0 + 1)", "u0");
    expect_form(&f, "(u0*(s0 + 1) + i5)%(s0 + 1)", "i5");
    expect_form(&f, "u0//(-s0)", "(-u0)//s0");
    expect_form(&f, "-1//s0", "-1");
    expect_form(&f, "-1%s0", "s0 - 1");
    expect_form(&f, "-1//s1", "-1");
    expect_form(&f, "(i4//s1)%s0", "i4//s1");
    expect_form(&f, "s1*(i4//s1) + i4%s1", "i4");
    expect_form(&f, "((i0*s1 + i1)//4)*4 + (i0*s1 + i1)%4", "i1 + s1*i0");
    expect_form(&f, "(i0*s1*s2 + i4)//s2", "s1*i0 + i4//s2");
    end(&f);
}

TEST(minimum_and_maximum) {
    fixture f;
    begin(&f);
    add_variables(&f);
    expect_form(&f, "Min(s0, 1)", "1");
    expect_form(&f, "Max(s0, 1)", "s0");
    expect_form(&f, "Min(s0, s0 + 1)", "s0");
    expect_form(&f, "Max(i0, s0)", "s0");
    expect_form(&f, "Max(Min(s0, s1), s0)", "s0");
    expect_form(&f, "Min(u0, Min(s1, u0))", "Min(s1, u0)");
    EXPECT(parse(&f, "Min(s0, Min(s1, u0))") == parse(&f, "Min(Min(u0, s0), s1)"));
    EXPECT(parse(&f, "Max(s0, s1, u0)") == parse(&f, "Max(u0, s1, s0)"));
    end(&f);
}

static bool lt(fixture *f, const char *a, const char *b) {
    return hn_sym_prove_lt(f->sym, parse(f, a), parse(f, b));
}
static bool le(fixture *f, const char *a, const char *b) {
    return hn_sym_prove_le(f->sym, parse(f, a), parse(f, b));
}

TEST(proofs) {
    fixture f;
    begin(&f);
    add_variables(&f);
    EXPECT(lt(&f, "i0", "s0"));
    EXPECT(!lt(&f, "i0", "s0 - 1"));
    EXPECT(le(&f, "i0", "s0 - 1"));
    EXPECT(!lt(&f, "i0", "s1"));
    EXPECT(lt(&f, "i0*s1 + i1", "s0*s1"));
    EXPECT(!lt(&f, "i0*s1 + i1", "s0*s1 - 1"));
    EXPECT(lt(&f, "(i0*s1 + i1)*4 + i2", "s0*s1*4"));
    EXPECT(lt(&f, "i0//4", "(s0 + 3)//4"));
    EXPECT(lt(&f, "u0%s0", "s0"));
    EXPECT(lt(&f, "(u0%s0)*s1 + i1", "s0*s1"));
    EXPECT(le(&f, "0", "u0%s0"));
    EXPECT(le(&f, "2*(s1//2)", "s1"));
    EXPECT(le(&f, "s1//2", "s1"));
    EXPECT(!le(&f, "u0//2", "u0"));
    EXPECT(le(&f, "s1", "s0*s1"));
    EXPECT(le(&f, "Min(s0, s1)", "s0"));
    EXPECT(le(&f, "s0", "Max(s0, u0)"));
    EXPECT(le(&f, "Min(s0, s1)", "Max(s0, s1)"));
    EXPECT(!le(&f, "Max(s0, s1)", "Min(s0, s1)"));
    EXPECT(hn_sym_prove_ne(f.sym, parse(&f, "2*u0 + 1"), parse(&f, "4*s0")));
    EXPECT(hn_sym_prove_ne(f.sym, f.s0, parse(&f, "1")));
    EXPECT(!hn_sym_prove_ne(f.sym, f.s1, parse(&f, "0")));
    EXPECT(hn_sym_prove_eq(f.sym, parse(&f, "s0*2"), parse(&f, "s0 + s0")));
    EXPECT(!hn_sym_prove_eq(f.sym, f.s0, f.s1));
    end(&f);
}

TEST(facts) {
    fixture f;
    begin(&f);
    add_variables(&f);
    int64_t lo, hi;
    hn_sym_range(f.sym, parse(&f, "3*i2 - 2"), &lo, &hi);
    EXPECT_INT(lo, -2);
    EXPECT_INT(hi, 7);
    hn_sym_range(f.sym, parse(&f, "u0%4"), &lo, &hi);
    EXPECT_INT(lo, 0);
    EXPECT_INT(hi, 3);
    hn_sym_range(f.sym, parse(&f, "(4*s0)%8"), &lo, &hi);
    EXPECT_INT(hi, 4);
    hn_sym_range(f.sym, parse(&f, "i2 - i3"), &lo, &hi);
    EXPECT_INT(lo, -11);
    EXPECT_INT(hi, 3);
    EXPECT_INT(hn_sym_divisor(f.sym, parse(&f, "6*s0 + 9")), 3);
    EXPECT_INT(hn_sym_divisor(f.sym, parse(&f, "6*s0*u0")), 6);
    EXPECT_INT(hn_sym_divisor(f.sym, parse(&f, "0")), 0);
    EXPECT_INT(hn_sym_divisor(f.sym, parse(&f, "-12")), 12);
    hn_sym_assume_range(f.sym, f.s1, 3, 100);
    hn_sym_range(f.sym, parse(&f, "2*s1"), &lo, &hi);
    EXPECT_INT(lo, 6);
    EXPECT_INT(hi, 200);
    hn_sym_assume_range(f.sym, parse(&f, "2*s1 + 1"), HN_SYM_MIN, 50); /* s1 <= 24 */
    hn_sym_range(f.sym, f.s1, &lo, &hi);
    EXPECT_INT(lo, 3);
    EXPECT_INT(hi, 24);
    hn_sym_assume_divisor(f.sym, f.s1, 4);
    hn_sym_assume_divisor(f.sym, f.s1, 6);
    EXPECT_INT(hn_sym_divisor(f.sym, f.s1), 12);
    end(&f);
}

TEST(contradicting_facts_latch) {
    fixture f;
    begin(&f);
    hn_sym_assume_range(f.sym, f.s0, HN_SYM_MIN, 1);
    EXPECT_ERROR(hn_sym_status(f.sym), HN_INVALID_ARGUMENT, "'s0'");
    EXPECT_INT(hn_sym_add(f.sym, f.s0, f.s1), 0);
    hn_arena_deinit(&f.arena);
}

TEST(affine_parts) {
    fixture f;
    begin(&f);
    add_variables(&f);
    hn_expr i0 = parse(&f, "i0"), coeff = 0, rest = 0;
    EXPECT(hn_sym_affine(f.sym, parse(&f, "i0*s1*4 + i1 + i0 - 3"), i0, &coeff, &rest));
    EXPECT(coeff == parse(&f, "4*s1 + 1"));
    EXPECT(rest == parse(&f, "i1 - 3"));
    EXPECT(hn_sym_affine(f.sym, f.s1, i0, &coeff, &rest));
    EXPECT(hn_sym_is_value(f.sym, coeff, 0) && rest == f.s1);
    EXPECT(!hn_sym_affine(f.sym, parse(&f, "i0*i0"), i0, &coeff, &rest));
    EXPECT(!hn_sym_affine(f.sym, parse(&f, "i0//4 + i0"), i0, &coeff, &rest));
    EXPECT(!hn_sym_affine(f.sym, parse(&f, "i0*(i0%3)"), i0, &coeff, &rest));
    end(&f);
}

TEST(symbols_and_views) {
    fixture f;
    begin(&f);
    add_variables(&f);
    hn_expr out[2], e = parse(&f, "s1*(i0//4) + s0*u0 + s1");
    EXPECT_INT(hn_sym_symbols(f.sym, e, out, 2), 4);
    EXPECT(hn_sym_uses(f.sym, e, f.u0));
    EXPECT(!hn_sym_uses(f.sym, e, f.s2));
    hn_sum sum = hn_sym_sum(f.sym, parse(&f, "3*s0 + 7"));
    EXPECT_INT(sum.constant, 7);
    EXPECT_INT(sum.count, 1);
    EXPECT(sum.terms[0] == f.s0 && sum.coeffs[0] == 3);
    sum = hn_sym_sum(f.sym, f.s0);
    EXPECT(sum.count == 1 && sum.terms[0] == f.s0 && sum.coeffs[0] == 1 && sum.constant == 0);
    sum = hn_sym_sum(f.sym, hn_sym_int(f.sym, -5));
    EXPECT(sum.count == 0 && sum.constant == -5);
    hn_expr i0 = hn_sym_index(f.sym, 0, f.s0);
    EXPECT(hn_sym_symbol_extent(f.sym, i0) == f.s0);
    EXPECT(hn_sym_index(f.sym, 0, f.s1) != i0);
    EXPECT(hn_str_eq(hn_sym_symbol_name(f.sym, i0), HN_STR("i0")));
    hn_expr t0 = hn_sym_indirect(f.sym, f.s0), t1 = hn_sym_indirect(f.sym, f.s0);
    EXPECT(t0 != t1 && hn_sym_prove_lt(f.sym, t1, f.s0));
    expect_form(&f, "t1 + t0", "t0 + t1");
    end(&f);
}

TEST(parse_errors) {
    fixture f;
    begin(&f);
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "expected a value"},
        {"s0 +", "expected a value"},
        {"(s0", "expected ')'"},
        {"s0 s1", "expected an operator"},
        {"zz", "unknown symbol"},
        {"Min(s0", "expected ')'"},
        {"Mod(s0)", "two arguments"},
        {"FloorDiv(s0, 2, 3)", "too many"},
        {"9223372036854775808", "64 bits"},
        {"99999999999999999999", "64 bits"},
        {"s0//0", "zero"},
        {"s0%(s1 - s1)", "zero"},
        {"3s0", "ends in a letter"},
        {"s0**99", "exponent"},
        {"9223372036854775807 + 1", "overflow"},
        {"9223372036854775807*s0 + s0", "overflow"},
        {"4611686018427387904*4", "overflow"},
        {"s0 / 2", "operator"},
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        hn_expr e = 0;
        EXPECT_ERROR(hn_sym_parse(f.sym, hn_str_of(cases[k].text), &e), HN_INVALID_ARGUMENT,
                     cases[k].message);
        EXPECT_INT(e, 0);
    }
    end(&f); /* none of them latched */
}

TEST(nesting_is_limited) {
    fixture f;
    begin(&f);
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (int k = 0; k < 100000; k++) hn_strbuf_putc(&text, '(');
    hn_expr e = 0;
    EXPECT_ERROR(hn_sym_parse(f.sym, hn_strbuf_str(&text), &e), HN_INVALID_ARGUMENT, "nested");
    hn_strbuf_reset(&text);
    for (int k = 0; k < 10000; k++) hn_strbuf_puts(&text, "s0%7//3*");
    hn_strbuf_puts(&text, "s0");
    EXPECT_ERROR(hn_sym_parse(f.sym, hn_strbuf_str(&text), &e), HN_INVALID_ARGUMENT, "large");
    hn_strbuf_deinit(&text);
    e = f.s0;
    for (int k = 0; k < 100 && e; k++) e = hn_sym_mod(f.sym, hn_sym_mul(f.sym, e, e), f.u0);
    EXPECT_INT(e, 0);
    EXPECT_ERROR(hn_sym_status(f.sym), HN_UNSUPPORTED, "large");
    hn_arena_deinit(&f.arena);
}

TEST(invalid_passes_through) {
    fixture f;
    begin(&f);
    EXPECT_INT(hn_sym_add(f.sym, 0, f.s0), 0);
    EXPECT_INT(hn_sym_mul(f.sym, f.s0, 0), 0);
    EXPECT_INT(hn_sym_min(f.sym, 0, 0), 0);
    EXPECT_INT(hn_sym_index(f.sym, 0, 0), 0);
    EXPECT_OK(hn_sym_status(f.sym));
    EXPECT_INT(hn_sym_floordiv(f.sym, f.s0, hn_sym_int(f.sym, 0)), 0);
    EXPECT_ERROR(hn_sym_status(f.sym), HN_INVALID_ARGUMENT, "zero");
    EXPECT_INT(hn_sym_int(f.sym, 3), 0);
    EXPECT_INT(hn_sym_hint(f.sym, 0, 17), 17);
    hn_arena_deinit(&f.arena);
}

TEST(symbol_names_are_checked) {
    static const char *const names[] = {"", "1a", "a b", "i3", "t0", "Min"};
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        fixture f;
        begin(&f);
        EXPECT_INT(hn_sym_symbol(f.sym, hn_str_of(names[k]), HN_SYMBOL_SIZE, 0, 9), 0);
        EXPECT_ERROR(hn_sym_status(f.sym), HN_INVALID_ARGUMENT, "cannot name");
        hn_arena_deinit(&f.arena);
    }
}

TEST(hints) {
    fixture f;
    begin(&f);
    add_variables(&f);
    hn_sym_set_hint(f.sym, f.s0, 10);
    EXPECT_INT(hn_sym_hint(f.sym, parse(&f, "3*s0 + 1"), 0), 31);
    /* s2 has none: 0 is below its range */
    EXPECT_INT(hn_sym_hint(f.sym, parse(&f, "s0*s2"), 0), 10);
    EXPECT_INT(hn_sym_hint(f.sym, parse(&f, "u0//s0"), 55), 5);
    EXPECT_INT(hn_sym_hint(f.sym, parse(&f, "i0"), 0), 4);
    EXPECT_INT(hn_sym_hint(f.sym, parse(&f, "u0*u0*u0"), INT64_MAX), INT64_MAX);
    EXPECT_INT(hn_sym_hint(f.sym, parse(&f, "s0%u0"), 0), 0);
    end(&f);
}

TEST(guards) {
    fixture f;
    begin(&f);
    uint32_t count;
    hn_sym_set_hint(f.sym, f.s0, 16);
    EXPECT(hn_sym_guard(f.sym, HN_REL_LE, hn_sym_int(f.sym, 2), f.s0, "proved"));
    hn_sym_guards(f.sym, &count);
    EXPECT_INT(count, 0);
    EXPECT(hn_sym_guard(f.sym, HN_REL_EQ, hn_sym_mod(f.sym, f.s0, hn_sym_int(f.sym, 8)),
                        hn_sym_int(f.sym, 0), "even"));
    EXPECT(!hn_sym_guard(f.sym, HN_REL_EQ, f.s0, f.s1, "broadcast"));
    EXPECT(hn_sym_guard(f.sym, HN_REL_NE, f.s1, f.s0, "the same"));
    EXPECT(hn_sym_guard(f.sym, HN_REL_LT, f.s0, hn_sym_int(f.sym, 100), "small"));
    const hn_guard *guards = hn_sym_guards(f.sym, &count);
    EXPECT_INT(count, 3);
    EXPECT(guards[0].relation == HN_REL_EQ && hn_sym_is_value(f.sym, guards[0].rhs, 0));
    EXPECT(guards[1].relation == HN_REL_NE && guards[1].lhs == f.s0 && guards[1].rhs == f.s1);
    EXPECT_STR(guards[1].reason, "broadcast");
    EXPECT(guards[2].relation == HN_REL_LT);
    /* What was recorded is known from then on. */
    EXPECT(hn_sym_prove_le(f.sym, f.s0, hn_sym_int(f.sym, 99)));
    EXPECT(!hn_sym_guard(f.sym, HN_REL_LE, hn_sym_int(f.sym, 100), f.s0, "contrary"));
    /* Data without a hint counts as large. */
    EXPECT(hn_sym_guard(f.sym, HN_REL_LT, hn_sym_int(f.sym, 1000), f.u0, "big"));
    hn_sym_require(f.sym, HN_REL_LE, f.s1, f.s2, "fits");
    hn_sym_require(f.sym, HN_REL_LE, f.s1, f.s2, "fits again");
    hn_sym_guards(f.sym, &count);
    EXPECT_INT(count, 5);
    /* An order the other way round is another guard. */
    hn_sym_require(f.sym, HN_REL_LE, f.s2, f.s1, "fits both ways");
    hn_sym_guards(f.sym, &count);
    EXPECT_INT(count, 6);
    /* One that never holds is recorded for the program to report, and teaches nothing. */
    hn_sym_require(f.sym, HN_REL_LT, f.s0, hn_sym_int(f.sym, 1), "impossible");
    hn_sym_guards(f.sym, &count);
    EXPECT_INT(count, 7);
    EXPECT(!hn_sym_prove_lt(f.sym, f.s0, hn_sym_int(f.sym, 1)));
    end(&f);
}

TEST(equations_teach) {
    fixture f;
    begin(&f);
    uint32_t count;
    /* one symbol: its value */
    hn_sym_require(f.sym, HN_REL_EQ, hn_sym_int(f.sym, 19), parse(&f, "3*s0 - 2"), "seven");
    EXPECT(hn_sym_prove_eq(f.sym, parse(&f, "s0*s0"), hn_sym_int(f.sym, 49)));
    /* no whole number solves it: nothing is learnt, the program reports it */
    hn_sym_require(f.sym, HN_REL_EQ, parse(&f, "2*s1"), hn_sym_int(f.sym, 7), "odd");
    EXPECT(!hn_sym_prove_eq(f.sym, f.s1, hn_sym_int(f.sym, 3)));
    /* two symbols: multiples of the equation */
    hn_sym_require(f.sym, HN_REL_EQ, parse(&f, "s1 + 1"), f.s2, "next");
    hn_sym_guards(f.sym, &count);
    EXPECT_INT(count, 3);
    EXPECT(hn_sym_guarded_eq(f.sym, f.s2, parse(&f, "s1 + 1")));
    EXPECT(hn_sym_guarded_eq(f.sym, parse(&f, "3*s2 + 4"), parse(&f, "3*s1 + 7")));
    EXPECT(hn_sym_guarded_eq(f.sym, parse(&f, "s1 - s2"), hn_sym_int(f.sym, -1)));
    EXPECT(!hn_sym_guarded_eq(f.sym, parse(&f, "3*s2 + 4"), parse(&f, "3*s1 + 6")));
    EXPECT(!hn_sym_guarded_eq(f.sym, parse(&f, "3*s2"), parse(&f, "2*s1 + 2")));
    end(&f);
}

TEST(long_products_stay_products) {
    fixture f;
    begin(&f);
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (int side = 0; side < 3; side++) {
        hn_strbuf_puts(&text, side ? ")*(1" : "(1");
        for (int k = 0; k < 12 - 3 * side; k++)
            hn_strbuf_printf(&text, " + s%d", 10 + 20 * side + k);
    }
    hn_strbuf_puts(&text, ")*s0*3");
    hn_expr e = parse(&f, text.ptr);
    hn_strbuf printed;
    hn_strbuf_init(&printed);
    hn_sym_print(f.sym, e, &printed);
    EXPECT(parse(&f, printed.ptr) == e);
    hn_strbuf_deinit(&printed);
    hn_strbuf_deinit(&text);
    end(&f);
}

TEST_MAIN
