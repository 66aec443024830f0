/* test_solve.c: from which dimension of which input symbols get their values, by which formula. */
#include "unit/harness.h"
#include "wrapper/solve.h"

/* "s0=in0[1]" for each symbol in order; "s1=(in2[0] - (s0))/3" for an affine one, "s0=in2" for the
 * value of a number, "u0=line" for one that a line defines. */
static void print_symbol(const hn_wrapper *w, const hn_wsymbol *s, hn_strbuf *out) {
    hn_str name = hn_sym_symbol_name(w->sym, s->symbol);
    hn_strbuf_printf(out, "%s" HN_STR_FMT "=", out->len ? " " : "", HN_STR_ARG(name));
    if (s->by_line) {
        hn_strbuf_puts(out, "line");
        return;
    }
    const bool is_plain = s->coeff == 1 && hn_sym_is_value(w->sym, s->rest, 0);
    hn_strbuf_printf(out, "%sin%u", is_plain ? "" : "(", s->input);
    if (s->dim != HN_WDIM_VALUE) hn_strbuf_printf(out, "[%u]", s->dim);
    if (is_plain) return;
    hn_strbuf_puts(out, " - (");
    hn_sym_print(w->sym, s->rest, out);
    hn_strbuf_printf(out, "))/%d", (int)s->coeff);
}

static void expect_solved(const char *text, const char *expected, uint32_t solved_count) {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    hn_wsymbols symbols;
    hn_strbuf out;
    hn_arena_init(&arena);
    hn_strbuf_init(&out);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_wrapper_parse(&arena, sym, hn_str_of(text), &w));
    EXPECT_OK(hn_wrapper_solve(w, &arena, &symbols));
    for (uint32_t k = 0; k < symbols.count; k++) {
        uint32_t place = UINT32_MAX;
        EXPECT(hn_wsymbols_find(&symbols, symbols.items[k].symbol, &place));
        EXPECT_INT(place, k);
        print_symbol(w, &symbols.items[k], &out);
    }
    EXPECT_STR(out.ptr ? out.ptr : "", expected);
    EXPECT_INT(symbols.solved_count, solved_count);
    hn_strbuf_deinit(&out);
    hn_arena_deinit(&arena);
}

#define SYMBOLS " symbol size s0 in [1, 64] symbol size s1 in [1, 64] symbol size s2 in [1, 64]"

TEST(a_dimension_that_is_the_symbol_comes_first) {
    expect_solved("wrapper {" SYMBOLS "  input \"x\" : f32[2*s0 + 1, s1] strides [s1, 1]"
                  "  input \"y\" : f32[s1, s0] strides [s0, 1] }",
                  "s1=in0[1] s0=in1[1]", 2);
}

TEST(affine_dimensions_use_symbols_that_are_solved) {
    expect_solved("wrapper {" SYMBOLS
                  "  input \"x\" : f32[s2 + 2*s1] strides [1]" /* needs s2, which comes later */
                  "  input \"y\" : f32[3*s2 - s0 + 4] strides [1]"
                  "  input \"z\" : f32[s0] strides [1] }",
                  "s0=in2[0] s2=(in1[0] - (-s0 + 4))/3 s1=(in0[0] - (s2))/2", 3);
}

TEST(integer_inputs_and_lines_give_values) {
    expect_solved("wrapper { symbol data u0 in [0, 8] symbol size s0 in [1, 64]"
                  "  buffer b1 : input i64[4] source 0"
                  "  input \"x\" : i64[4] strides [1] in b1"
                  "  input \"n\" : int(s0)"
                  "  define(b1 i64) symbol(u0) }",
                  "s0=in1 u0=line", 1);
}

TEST(what_no_dimension_determines_is_left_out) {
    expect_solved("wrapper {" SYMBOLS "  input \"x\" : f32[s0*s0, s1 + s2] strides [s1 + s2, 1] }",
                  "", 0);
}

/* Inputs of one dimension, each a symbol of its own. */
static hn_status add_inputs(hn_wrapper *w, hn_arena *arena, uint32_t count) {
    hn_expr *sizes;
    HN_NEW(arena, sizes, count);
    for (uint32_t k = 0; k < count; k++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", k);
        sizes[k] = hn_sym_symbol(w->sym, hn_str_of(name), HN_SYMBOL_SIZE, 1, 64);
        hn_winput input = {.rank = 1, .sizes = &sizes[k], .strides = &sizes[k]};
        HN_PUSH(arena, &w->inputs, input);
    }
    return NULL;
}

TEST(many_symbols_are_refused) {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    hn_wsymbols symbols;
    hn_arena_init(&arena);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_wrapper_create(&arena, sym, NULL, &w));
    EXPECT_OK(add_inputs(w, &arena, 4097));
    EXPECT_ERROR(hn_wrapper_solve(w, &arena, &symbols), HN_UNSUPPORTED, "more than 4096");
    w->inputs.count = 4096;
    EXPECT_OK(hn_wrapper_solve(w, &arena, &symbols));
    EXPECT_INT(symbols.count, 4096);
    hn_arena_deinit(&arena);
}

TEST_MAIN
