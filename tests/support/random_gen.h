/* random_gen.h: the state of the generator of random graphs, shared by random_graph.c,
 * random_steps.c, random_contract.c, random_loops.c, random_shared.c and random_rare.c. */
#ifndef HN_TESTS_RANDOM_GEN_H
#define HN_TESTS_RANDOM_GEN_H

#include "ir/build.h"

#include <math.h>
#include <string.h>

enum { MAX_VALUES = 64, MAX_NUMEL = 20000 };

/* What the generator knows of a value. */
typedef struct known {
    hn_value v;
    /* every element is a small multiple of 1/8 (or an integer): no rounding happened */
    bool exact;
    double maxabs; /* bound on finite elements */
    double error;  /* relative error that a correct kernel may have */
    bool may_nan;
} known;

typedef struct gen {
    uint64_t state;
    hn_graph *g;
    hn_sym *sym;
    hn_arena *arena;
    known values[MAX_VALUES];
    uint32_t count;
    uint32_t first_input; /* of the graph, when it holds several */
    bool symbolic;        /* sizes of inputs may be symbols */
    uint32_t depth;       /* of bodies around this graph, */
    int64_t rounds;       /* and how often the innermost may run */
} gen;

static inline uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
static inline uint32_t below(gen *r, uint32_t n) { return n ? (uint32_t)(next(&r->state) % n) : 0; }
static inline bool chance(gen *r, uint32_t percent) { return below(r, 100) < percent; }

static const hn_value_info *info(gen *r, hn_value v) { return hn_graph_value(r->g, v); }
static inline int64_t size(gen *r, hn_value v, uint32_t d) {
    return hn_sym_hint(r->sym, info(r, v)->sizes[d], 0);
}
static inline int64_t numel(gen *r, hn_value v) {
    int64_t n = 1;
    for (uint32_t d = 0; d < info(r, v)->rank; d++) n *= size(r, v, d);
    return n;
}
static inline hn_expr num(gen *r, int64_t n) { return hn_sym_int(r->sym, n); }
static inline bool is_float(gen *r, hn_value v) { return hn_dtype_is_float(info(r, v)->dtype); }

static inline void add(gen *r, known k) {
    if (k.v && numel(r, k.v) <= MAX_NUMEL && r->count < MAX_VALUES) r->values[r->count++] = k;
}

static inline known pick(gen *r) {
    return r->values[chance(r, 60) ? r->count - 1 - below(r, r->count < 6 ? r->count : 6)
                                   : below(r, r->count)];
}

static inline int64_t pick_size(gen *r) {
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 64, 65, 0};
    return sizes[below(r, sizeof sizes / sizeof *sizes - (chance(r, 85) ? 1 : 0))];
}

static inline double unit_error(hn_dtype d) {
    return d == HN_DTYPE_F64    ? 1e-14
           : d == HN_DTYPE_F32  ? 3e-7
           : d == HN_DTYPE_F16  ? 1e-3
           : d == HN_DTYPE_BF16 ? 8e-3
                                : 0;
}

static inline hn_value constant(gen *r, double value, hn_value like) {
    return hn_b_scalar(r->g, value, info(r, like)->dtype);
}

/* random_graph.c */
/* x cast so that arithmetic on it is well behaved; v is 0 when it cannot be. */
known hn_gen_as_dtype(gen *r, known x, hn_dtype dtype);
/* An I64 value of x's shape (or its own) with 0 <= element < n. */
hn_value hn_gen_indices(gen *r, hn_value like, int64_t n);

/* One more input of the graph. */
hn_value hn_gen_input(gen *r, hn_dtype dtype, const hn_expr *sizes, uint32_t rank);
/* A size that is only known when the program is called; n itself when the name is taken. */
hn_expr hn_gen_symbol(gen *r, int64_t n);

/* One more node or a few. */
void hn_gen_step(gen *r);

/* random_steps.c */
/* The same of the rarer kinds. */
void hn_gen_step_rarer(gen *r);
/* Small multiples of 1/4 that look random. */
hn_value hn_gen_weight(gen *r, const hn_expr *sizes, uint32_t rank, hn_dtype dtype);
/* Makes a value that has an input's shape and dtype the new content of that input; *out_input is
 * its place. 0: there is none. */
hn_value hn_gen_mutation(gen *r, uint32_t *out_input, known *out_value);

/* random_contract.c: a contraction with what stands in front of it and behind it; or nothing, when
 * the sizes that it drew are too large */
void hn_gen_step_contraction(gen *r);

/* random_shared.c: inputs over the same few dims, in different orders; a node or a few over these. */
void hn_gen_inputs_shared(gen *r);
void hn_gen_step_shared(gen *r);
void hn_gen_step_pieces(gen *r); /* a concatenation */

/* random_rare.c: long rows; a loss or a scan of them, or a node or a few as above. */
void hn_gen_inputs_rare(gen *r);
void hn_gen_step_rare(gen *r);
void hn_gen_step_weights(gen *r); /* a product with a weight that is computed from weights */

/* random_loops.c: a loop or a conditional with bodies of several nodes, which may hold others. */
void hn_gen_step_control(gen *r);

#endif
