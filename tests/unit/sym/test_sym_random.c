/* Random expressions against their direct evaluation.
 *
 * A tree of operations is built twice: through the constructors, which simplify, and as it stands.
 * For many assignments that respect the symbols' facts, both must give the same value wherever the
 * plain tree has one, the value must lie in the claimed range and be a multiple of the claimed
 * divisor, and every relation that was proved must hold. Printing must parse back to the same id,
 * and substituting values for symbols must agree with evaluating.
 *
 * Re-run one seed: test_sym_random with HN_SYM_SEED=<seed> in the environment; HN_SYM_ROUNDS for
 * more. */
#include "unit/harness.h"

#include "base/checked.h"
#include "sym/sym.h"

#include <stdlib.h>

enum { SYMBOLS = 12, NODES_MAX = 24, SAMPLES = 60, ROUNDS = 1500 };

static uint64_t rng_state;
static uint32_t rng(uint32_t below) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rng_state >> 33) % below);
}

/* --- the plain tree --- */

typedef enum op {
    OP_CONST,
    OP_SYMBOL,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_CEIL,
    OP_MIN,
    OP_MAX
} op;

typedef struct tree {
    op op;
    int64_t value; /* or the symbol's number */
    int a, b;
} tree;

typedef struct world {
    hn_arena arena;
    hn_sym *sym;
    hn_expr symbols[SYMBOLS];
    tree nodes[NODES_MAX];
    hn_expr exprs[NODES_MAX];
    int count;
} world;

/* What exceeds this is no test of simplification but of overflow: not compared. */
#define MAGNITUDE_MAX ((int64_t)1 << 40)

static bool plain_eval(const tree *nodes, int at, const int64_t *values, int64_t *out) {
    tree t = nodes[at];
    int64_t a, b, r;
    if (t.op == OP_CONST || t.op == OP_SYMBOL) {
        *out = t.op == OP_CONST ? t.value : values[t.value];
        return true;
    }
    if (!plain_eval(nodes, t.a, values, &a) || !plain_eval(nodes, t.b, values, &b)) return false;
    if ((t.op == OP_DIV || t.op == OP_MOD || t.op == OP_CEIL) && b == 0) return false;
    switch (t.op) {
    case OP_ADD: r = a + b; break;
    case OP_SUB: r = a - b; break;
    case OP_MUL:
        if (!hn_mul_i64(a, b, &r)) return false;
        break;
    case OP_DIV: r = hn_floor_div(a, b); break;
    case OP_MOD: r = hn_floor_mod(a, b); break;
    case OP_CEIL: r = -hn_floor_div(-a, b); break;
    case OP_MIN: r = a < b ? a : b; break;
    default: r = a > b ? a : b; break;
    }
    *out = r;
    return r <= MAGNITUDE_MAX && r >= -MAGNITUDE_MAX;
}

static void plain_print(const world *w, int at, hn_strbuf *out) {
    static const char *const names[] = {"",   "",  " + ",    " - ",   "*",
                                        "//", "%", " ceil ", " min ", " max "};
    tree t = w->nodes[at];
    if (t.op == OP_CONST) {
        hn_strbuf_i64(out, t.value);
    } else if (t.op == OP_SYMBOL) {
        hn_str name = hn_sym_symbol_name(w->sym, w->symbols[t.value]);
        hn_strbuf_append(out, name.ptr, name.len);
    } else {
        hn_strbuf_putc(out, '(');
        plain_print(w, t.a, out);
        hn_strbuf_puts(out, names[t.op]);
        plain_print(w, t.b, out);
        hn_strbuf_putc(out, ')');
    }
}

/* --- the world --- */

static void add_symbols(world *w) {
    hn_sym *s = w->sym;
    hn_expr *x = w->symbols;
    x[0] = hn_sym_symbol(s, HN_STR("s0"), HN_SYMBOL_SIZE, 0, HN_SYM_MAX);
    x[1] = hn_sym_symbol(s, HN_STR("s1"), HN_SYMBOL_SIZE, 2, HN_SYM_MAX);
    x[2] = hn_sym_symbol(s, HN_STR("s2"), HN_SYMBOL_SIZE, 4, 128);
    hn_sym_assume_divisor(s, x[2], 4);
    x[3] = hn_sym_symbol(s, HN_STR("u0"), HN_SYMBOL_DATA, HN_SYM_MIN, HN_SYM_MAX);
    x[4] = hn_sym_index(s, 0, x[0]);
    x[5] = hn_sym_index(s, 1, x[1]);
    x[6] = hn_sym_index(s, 2, hn_sym_int(s, 6));
    x[7] = hn_sym_index(s, 3, hn_sym_mul(s, x[0], x[1]));
    x[8] = hn_sym_index(s, 4, hn_sym_ceildiv(s, x[2], hn_sym_int(s, 3)));
    x[9] = hn_sym_indirect(s, hn_sym_add(s, x[1], hn_sym_int(s, 1)));
    x[10] = hn_sym_index(s, 5, hn_sym_int(s, 4));
    x[11] = hn_sym_symbol(s, HN_STR("u1"), HN_SYMBOL_DATA, -5, 40);
}

static const int64_t size_values[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 31, 64, 97, 1009};

static int64_t below(int64_t extent) { /* an index, the ends more often than not */
    uint32_t pick = rng(4);
    return pick == 0 ? 0 : pick == 1 ? extent - 1 : (int64_t)rng((uint32_t)extent);
}

/* False when some loop would have no iterations. */
static bool draw(int64_t v[SYMBOLS]) {
    v[0] = size_values[rng(14)];
    v[1] = size_values[2 + rng(12)];
    v[2] = 4 * (1 + (int64_t)rng(32));
    v[3] = (int64_t)rng(2001) - 1000;
    v[11] = (int64_t)rng(46) - 5;
    int64_t extents[SYMBOLS] = {[4] = v[0],           [5] = v[1],     [6] = 6, [7] = v[0] * v[1],
                                [8] = (v[2] + 2) / 3, [9] = v[1] + 1, [10] = 4};
    for (int k = 4; k <= 10; k++) {
        if (extents[k] <= 0) return false;
        v[k] = below(extents[k]);
    }
    return true;
}

static int64_t small_const(void) {
    static const int64_t values[] = {0, 1, 2, 3, 4, 6, 8, 12, -1, -2, -4, 5, 16, 24};
    return values[rng(14)];
}

static hn_expr construct(hn_sym *s, op o, hn_expr a, hn_expr b) {
    switch (o) {
    case OP_ADD: return hn_sym_add(s, a, b);
    case OP_SUB: return hn_sym_sub(s, a, b);
    case OP_MUL: return hn_sym_mul(s, a, b);
    case OP_DIV: return hn_sym_floordiv(s, a, b);
    case OP_MOD: return hn_sym_mod(s, a, b);
    case OP_CEIL: return hn_sym_ceildiv(s, a, b);
    case OP_MIN: return hn_sym_min(s, a, b);
    default: return hn_sym_max(s, a, b);
    }
}

/* Divisors are mostly what divides indices in practice: constants and sizes. */
static int pick_operand(world *w, bool divisor) {
    tree leaf = {.op = OP_SYMBOL};
    uint32_t kind = rng(divisor ? 8 : 10);
    if (kind >= 5 && w->count > 0) return (int)rng((uint32_t)w->count);
    if (kind < 2 || (divisor && kind < 3)) {
        leaf = (tree){.op = OP_CONST, .value = small_const()};
        if (divisor && leaf.value == 0) leaf.value = 3;
    } else {
        leaf.value = rng(divisor ? 4 : SYMBOLS);
    }
    w->nodes[w->count] = leaf;
    w->exprs[w->count] =
        leaf.op == OP_CONST ? hn_sym_int(w->sym, leaf.value) : w->symbols[leaf.value];
    return w->count++;
}

static void grow_tree(world *w) {
    static const op ops[] = {OP_ADD, OP_ADD, OP_SUB, OP_MUL,  OP_MUL, OP_DIV,
                             OP_DIV, OP_MOD, OP_MOD, OP_CEIL, OP_MIN, OP_MAX};
    w->count = 0;
    while (w->count < NODES_MAX - 3) {
        tree t = {.op = ops[rng(12)]};
        t.a = pick_operand(w, false);
        t.b = pick_operand(w, t.op == OP_DIV || t.op == OP_MOD || t.op == OP_CEIL);
        hn_expr b = w->exprs[t.b];
        if ((t.op == OP_DIV || t.op == OP_MOD || t.op == OP_CEIL) && hn_sym_is_value(w->sym, b, 0))
            continue;
        hn_expr e = construct(w->sym, t.op, w->exprs[t.a], b);
        if (!e) return;
        w->exprs[w->count] = e;
        w->nodes[w->count++] = t;
    }
}

/* --- checks --- */

static void report(const world *w, int at, const int64_t *v, const char *what, int64_t got,
                   int64_t want) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    plain_print(w, at, &out);
    hn_strbuf_puts(&out, "\n  as ");
    hn_sym_print(w->sym, w->exprs[at], &out);
    for (int k = 0; v && k < SYMBOLS; k++) {
        hn_str name = hn_sym_symbol_name(w->sym, w->symbols[k]);
        hn_strbuf_printf(&out, "%s%.*s=%lld", k ? " " : "\n  ", (int)name.len, name.ptr,
                         (long long)v[k]);
    }
    HN_TEST_FAIL("%s: %lld, expected %lld: %s", what, (long long)got, (long long)want, out.ptr);
    hn_strbuf_deinit(&out);
}

static void check_value(const world *w, int at, const int64_t *v) {
    int64_t want, got = 0, lo, hi;
    if (!plain_eval(w->nodes, at, v, &want)) return;
    hn_expr e = w->exprs[at];
    if (!hn_sym_eval(w->sym, e, w->symbols, v, SYMBOLS, &got) || got != want)
        report(w, at, v, "value", got, want);
    hn_sym_range(w->sym, e, &lo, &hi);
    if (want < lo) report(w, at, v, "lower bound", lo, want);
    if (want > hi) report(w, at, v, "upper bound", hi, want);
    int64_t d = hn_sym_divisor(w->sym, e);
    if (d == 0 ? want != 0 : want % d != 0) report(w, at, v, "divisor", d, want);
}

static void check_text(world *w, int at) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_sym_print(w->sym, w->exprs[at], &out);
    hn_expr back = 0;
    EXPECT_OK(hn_sym_parse(w->sym, hn_strbuf_str(&out), &back));
    if (back != w->exprs[at]) report(w, at, NULL, "parsed back", back, w->exprs[at]);
    hn_strbuf_deinit(&out);
}

/* Some symbols replaced by their values: the rest must evaluate to the same. */
static void check_subst(world *w, int at, const int64_t *v) {
    hn_expr from[SYMBOLS], to[SYMBOLS];
    uint32_t count = 0;
    int64_t want, got = 0;
    if (!plain_eval(w->nodes, at, v, &want)) return;
    uint32_t all = rng(2);
    for (int k = 0; k < SYMBOLS; k++)
        if (all || rng(2)) {
            from[count] = w->symbols[k];
            to[count++] = hn_sym_int(w->sym, v[k]);
        }
    hn_expr e = hn_sym_subst(w->sym, w->exprs[at], from, to, count);
    if (!e || !hn_sym_eval(w->sym, e, w->symbols, v, SYMBOLS, &got) || got != want)
        report(w, at, v, "substituted", got, want);
    if (all && !hn_sym_is_value(w->sym, e, want))
        report(w, at, v, "all substituted, not constant", got, want);
}

typedef struct claims {
    bool lt, le, eq, ne;
} claims;

static void check_claims(const world *w, int a, int b, claims c, const int64_t *v) {
    int64_t x, y;
    if (!plain_eval(w->nodes, a, v, &x) || !plain_eval(w->nodes, b, v, &y)) return;
    if (c.lt && !(x < y))
        report(w, a, v, "proved less than", x, y), report(w, b, v, "the other", y, x);
    if (c.le && !(x <= y))
        report(w, a, v, "proved at most", x, y), report(w, b, v, "the other", y, x);
    if (c.eq && x != y) report(w, a, v, "proved equal", x, y), report(w, b, v, "the other", y, x);
    if (c.ne && x == y) report(w, a, v, "proved unequal", x, y), report(w, b, v, "the other", y, x);
}

static long proved_count, value_count;

static void check_proofs(world *w, int64_t (*samples)[SYMBOLS], int sample_count) {
    for (int k = 0; k < 6; k++) {
        int a = (int)rng((uint32_t)w->count), b = (int)rng((uint32_t)w->count);
        hn_expr ea = w->exprs[a], eb = w->exprs[b];
        claims c = {hn_sym_prove_lt(w->sym, ea, eb), hn_sym_prove_le(w->sym, ea, eb),
                    hn_sym_prove_eq(w->sym, ea, eb), hn_sym_prove_ne(w->sym, ea, eb)};
        proved_count += c.lt || c.le || c.ne;
        for (int s = 0; s < sample_count; s++) check_claims(w, a, b, c, samples[s]);
    }
}

static void run_round(uint64_t seed) {
    world w = {0};
    rng_state = seed * 2654435769u + 1;
    hn_arena_init(&w.arena);
    EXPECT_OK(hn_sym_create(&w.arena, &w.sym));
    add_symbols(&w);
    grow_tree(&w);
    EXPECT_OK(hn_sym_status(w.sym));
    int64_t samples[SAMPLES][SYMBOLS];
    int sample_count = 0;
    for (int k = 0; k < SAMPLES; k++) sample_count += draw(samples[sample_count]);
    for (int at = 0; at < w.count; at++) {
        for (int k = 0; k < sample_count; k++) check_value(&w, at, samples[k]);
        value_count += sample_count;
        check_text(&w, at);
        if (sample_count) check_subst(&w, at, samples[rng((uint32_t)sample_count)]);
    }
    check_proofs(&w, samples, sample_count);
    hn_arena_deinit(&w.arena);
}

TEST(simplified_equals_plain) {
    const char *seed_text = getenv("HN_SYM_SEED"), *rounds_text = getenv("HN_SYM_ROUNDS");
    uint64_t first = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    uint64_t rounds = seed_text ? 1 : rounds_text ? strtoull(rounds_text, NULL, 10) : ROUNDS;
    for (uint64_t k = 0; k < rounds; k++) {
        int before = hn_test_failures;
        run_round(first + k);
        if (hn_test_failures != before)
            fprintf(stderr, "seed %llu\n", (unsigned long long)(first + k));
        if (hn_test_failures > 10) return;
    }
    /* A test that compares nothing would pass too. */
    if (rounds == ROUNDS) EXPECT(value_count > 100000 && proved_count > 500);
}

TEST_MAIN
