/* fuzz_sym_parse.c: any text either fails to parse or gives an expression that prints, parses back,
 * and has the value that its range, its divisor and substitution say.
 *
 * Where a limit of the simplifier was hit the text may come back in another form, so ids are
 * compared only for short inputs. */
#include "sym/sym.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SYMBOLS = 8, EXACT_BYTES = 64 };

static void declare(hn_sym *sym, hn_expr symbols[SYMBOLS], int64_t values[SYMBOLS]) {
    symbols[0] = hn_sym_symbol(sym, HN_STR("s0"), HN_SYMBOL_SIZE, 2, HN_SYM_MAX);
    symbols[1] = hn_sym_symbol(sym, HN_STR("s1"), HN_SYMBOL_SIZE, 0, HN_SYM_MAX);
    symbols[2] = hn_sym_symbol(sym, HN_STR("s2"), HN_SYMBOL_SIZE, 8, 64);
    hn_sym_assume_divisor(sym, symbols[2], 8);
    symbols[3] = hn_sym_symbol(sym, HN_STR("u0"), HN_SYMBOL_DATA, HN_SYM_MIN, HN_SYM_MAX);
    symbols[4] = hn_sym_index(sym, 0, symbols[0]);
    symbols[5] = hn_sym_index(sym, 1, symbols[1]);
    symbols[6] = hn_sym_index(sym, 2, hn_sym_int(sym, 4));
    symbols[7] = hn_sym_index(sym, 3, hn_sym_mul(sym, symbols[0], symbols[1]));
    static const int64_t fixed[SYMBOLS] = {5, 7, 24, -13, 3, 6, 2, 34};
    for (int k = 0; k < SYMBOLS; k++) values[k] = fixed[k];
}

static void check(bool condition) {
    if (!condition) abort();
}

static void check_round_trip(hn_sym *sym, hn_expr e, size_t size) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_sym_print(sym, e, &text);
    hn_expr back = 0;
    hn_status status = hn_sym_parse(sym, hn_strbuf_str(&text), &back);
    check(size > EXACT_BYTES || (!status && back == e));
    hn_status_free(status);
    hn_strbuf_deinit(&text);
}

static void check_facts(hn_sym *sym, hn_expr e, const hn_expr *symbols, const int64_t *values) {
    int64_t lo, hi, value;
    hn_sym_range(sym, e, &lo, &hi);
    if (!hn_sym_eval(sym, e, symbols, values, SYMBOLS, &value)) return;
    check(lo <= value && value <= hi);
    int64_t divisor = hn_sym_divisor(sym, e);
    check(divisor ? value % divisor == 0 : value == 0);
    hn_expr constants[SYMBOLS];
    for (int k = 0; k < SYMBOLS; k++) constants[k] = hn_sym_int(sym, values[k]);
    hn_expr folded = hn_sym_subst(sym, e, symbols, constants, SYMBOLS);
    check(!folded || hn_sym_is_value(sym, folded, value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_sym *sym;
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) {
        hn_expr symbols[SYMBOLS], e = 0;
        int64_t values[SYMBOLS];
        declare(sym, symbols, values);
        status = hn_sym_parse(sym, (hn_str){(const char *)data, size}, &e);
        check((status == NULL) == (e != 0));
        if (e) check_round_trip(sym, e, size);
        if (e) check_facts(sym, e, symbols, values);
    }
    hn_status_free(status);
    hn_arena_deinit(&arena);
    return 0;
}
