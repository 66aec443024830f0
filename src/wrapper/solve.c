/* solve.c: see solve.h. Rounds over all dimensions of inputs, until one finds nothing new. */
#include "wrapper/solve.h"

enum { MAX_SYMBOLS = 4096, MAX_IN_DIM = 64 };

typedef struct solver {
    const hn_wrapper *w;
    hn_sym *sym;
    hn_arena *arena;
    hn_wsymbols *out;
} solver;

bool hn_wsymbols_find(const hn_wsymbols *symbols, hn_expr symbol, uint32_t *out_place) {
    const uint64_t *place = hn_map_get(&symbols->places, symbol);
    if (place) *out_place = (uint32_t)*place;
    return place != NULL;
}

static bool is_known(const solver *s, hn_expr symbol) {
    return hn_map_get(&s->out->places, symbol) != NULL;
}

static bool is_size_symbol(const solver *s, hn_expr x) {
    return hn_sym_kind(s->sym, x) == HN_EXPR_SYMBOL &&
           hn_sym_symbol_kind(s->sym, x) == HN_SYMBOL_SIZE;
}

static hn_status add(solver *s, hn_wsymbol made) {
    if (is_known(s, made.symbol)) return NULL;
    if (s->out->count == MAX_SYMBOLS)
        return HN_ERROR(HN_UNSUPPORTED, "program has more than %d size symbols", MAX_SYMBOLS);
    HN_TRY(hn_map_put(&s->out->places, made.symbol, s->out->count));
    HN_PUSH(s->arena, s->out, made);
    return NULL;
}

/* The one symbol in `x` that is not solved yet; 0 when there are none or several. */
static hn_expr lone_symbol(const solver *s, hn_expr x) {
    hn_expr symbols[MAX_IN_DIM], found = 0;
    uint32_t count = hn_sym_symbols(s->sym, x, symbols, MAX_IN_DIM);
    if (count > MAX_IN_DIM) return 0;
    for (uint32_t k = 0; k < count; k++) {
        if (is_known(s, symbols[k])) continue;
        if (found || !is_size_symbol(s, symbols[k])) return 0;
        found = symbols[k];
    }
    return found;
}

typedef hn_status (*dim_visitor)(solver *s, hn_expr x, uint32_t input, uint32_t dim);

static hn_status solve_direct(solver *s, hn_expr x, uint32_t input, uint32_t dim) {
    if (!is_size_symbol(s, x)) return NULL;
    const hn_expr zero = hn_sym_int(s->sym, 0);
    return add(s, (hn_wsymbol){.symbol = x, .input = input, .dim = dim, .coeff = 1, .rest = zero});
}

static hn_status solve_affine(solver *s, hn_expr x, uint32_t input, uint32_t dim) {
    hn_wsymbol made = {.symbol = lone_symbol(s, x), .input = input, .dim = dim};
    hn_expr coeff;
    if (!made.symbol || !hn_sym_affine(s->sym, x, made.symbol, &coeff, &made.rest)) return NULL;
    if (!hn_sym_is_int(s->sym, coeff, &made.coeff) || !made.coeff) return NULL;
    return add(s, made);
}

static hn_status each_dim(solver *s, dim_visitor visit) {
    for (uint32_t i = 0; i < s->w->inputs.count; i++) {
        const hn_winput *in = &s->w->inputs.items[i];
        if (in->is_scalar) {
            if (in->scalar.kind == HN_ARG_INT)
                HN_TRY(visit(s, in->scalar.as.expr, i, HN_WDIM_VALUE));
            continue;
        }
        for (uint32_t d = 0; d < in->rank; d++) HN_TRY(visit(s, in->sizes[d], i, d));
    }
    return NULL;
}

static hn_status add_defined(solver *s) {
    for (uint32_t i = 0; i < s->w->lines.count; i++) {
        const hn_line *line = &s->w->lines.items[i];
        if (line->kind == HN_LINE_DEFINE)
            HN_TRY(add(s, (hn_wsymbol){.symbol = line->symbol, .by_line = true}));
    }
    return NULL;
}

hn_status hn_wrapper_solve(const hn_wrapper *w, hn_arena *arena, hn_wsymbols *out) {
    solver s = {.w = w, .sym = w->sym, .arena = arena, .out = out};
    *out = (hn_wsymbols){0};
    hn_map_init(&out->places, arena);
    HN_TRY(each_dim(&s, solve_direct));
    for (uint32_t before = UINT32_MAX; before != out->count;) {
        before = out->count;
        HN_TRY(each_dim(&s, solve_affine));
    }
    out->solved_count = out->count;
    return add_defined(&s);
}
