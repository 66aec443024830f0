/* equivalence.h: a graph before and after passes must say the same. Both are interpreted on the
 * same inputs: random ones, edge values (zeros of both signs, infinities, NaN, the limits of
 * integers), all bools true, all false. */
#ifndef HN_TESTS_EQUIVALENCE_H
#define HN_TESTS_EQUIVALENCE_H

#include "base/compiler.h"
#include "ir/interp.h"
#include "opt/pass.h"
#include "unit/harness.h"

#include <stdlib.h>

enum { EQ_ROUNDS = 5, EQ_MAX_INPUTS = 16, EQ_MAX_OUTPUTS = 32 };

typedef struct eq_options {
    double rtol, atol;  /* both 0: the same bits, any NaN for a NaN */
    bool finite;        /* no infinities and NaN, but in inputs named "mask.." */
    bool small_indices; /* integer inputs are 0 or 1 in every round */
} eq_options;

typedef struct eq_graph {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_graph *g;
} eq_graph;

static inline void eq_begin(eq_graph *e) {
    hn_arena_init(&e->arena);
    hn_arena_init(&e->scratch);
    e->g = NULL;
    EXPECT_OK(hn_sym_create(&e->arena, &e->sym));
}

static inline void eq_end(eq_graph *e) {
    if (e->g) hn_graph_deinit(e->g);
    hn_arena_deinit(&e->scratch);
    hn_arena_deinit(&e->arena);
}

static inline bool eq_parse(eq_graph *e, const char *text) {
    eq_begin(e);
    EXPECT_OK(hn_graph_parse(&e->arena, e->sym, hn_str_of(text), &e->g));
    return e->g != NULL;
}

typedef struct eq_pass {
    const char *name;
    hn_pass_fn run;
} eq_pass;

static const eq_pass eq_passes[] = {
    {"functionalize", hn_pass_functionalize},
    {"decompose", hn_pass_decompose},
    {"cse", hn_pass_cse},
    {"fold", hn_pass_fold},
    {"patterns", hn_pass_patterns},
    {"dce", hn_pass_dce},
    {"weights", hn_pass_weights},
};

/* Runs one pass and verifies. */
static inline hn_status eq_run_pass(eq_graph *e, hn_pass_fn pass, bool metadata_only) {
    hn_pass_context context = {.scratch = &e->scratch, .metadata_only = metadata_only};
    hn_status status = pass(e->g, &context);
    if (!status) status = hn_graph_status(e->g);
    if (!status) status = hn_sym_status(e->sym);
    if (!status) status = hn_graph_verify(e->g, HN_LEGAL_PRIMITIVE);
    hn_arena_reset(&e->scratch);
    return status;
}

static inline uint32_t eq_count(const hn_graph *g, hn_op op) {
    uint32_t count = 0;
    for (hn_node n = 1; n < g->nodes.count; n++) count += g->nodes.items[n].op == op;
    return count;
}

static inline const hn_node_info *eq_find(const hn_graph *g, hn_op op) {
    for (hn_node n = 1; n < g->nodes.count; n++)
        if (g->nodes.items[n].op == op) return &g->nodes.items[n];
    return NULL;
}

/* --- inputs --- */

static inline uint64_t eq_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline double eq_float(uint64_t *state, uint32_t round, bool finite, bool is_mask) {
    static const double edges[] = {0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-3, 3.0, 7.5, -0.25};
    static const double wild[] = {INFINITY, -INFINITY, NAN,  65504.0, -3.4028234663852886e38,
                                  1e-45,    0.0,       -0.0, 1.0};
    uint64_t r = eq_random(state);
    if (is_mask && round >= 1) return round == 3 || r % 2 ? -INFINITY : 0;
    if (round == 2 && !finite) return wild[r % HN_COUNT_OF(wild)];
    if (round == 1) return edges[r % HN_COUNT_OF(edges)];
    return (double)(r >> 11) * 0x1p-53 * 4 - 2;
}

static inline int64_t eq_int(uint64_t *state, uint32_t round, hn_dtype dtype, bool small) {
    uint64_t r = eq_random(state);
    unsigned bits = hn_dtype_facts(dtype)->size_bytes * 8u;
    if (dtype == HN_DTYPE_BOOL) return round == 1 ? 1 : round == 3 ? 0 : (int64_t)(r & 1);
    if (small) return (int64_t)(r & 1);
    if (round == 2) {
        int64_t high = (int64_t)(UINT64_MAX >> (65 - bits)),
                edges[] = {high, -high - 1, -1, 0, 1, 255, 128, -128};
        return edges[r % HN_COUNT_OF(edges)];
    }
    return (int64_t)(r % 9) - 4;
}

/* Loaded from memory, so that the values are ones of the dtype. */
static inline void eq_fill(hn_arena *arena, hn_ref_tensor *t, uint64_t *state, uint32_t round,
                           const eq_options *o, bool is_mask) {
    hn_ref_tensor wide, like = *t;
    EXPECT_OK(hn_ref_tensor_init(arena, t->dtype, t->rank, t->sizes, &wide));
    for (int64_t k = 0; k < wide.numel; k++) {
        if (hn_dtype_is_float(t->dtype))
            wide.data.f[k] = eq_float(state, round, o->finite, is_mask);
        else wide.data.i[k] = eq_int(state, round, t->dtype, o->small_indices);
    }
    void *bytes = hn_arena_alloc(arena, (size_t)wide.numel * 8 + 8);
    hn_ref_tensor_store(&wide, bytes);
    EXPECT_OK(hn_ref_tensor_load(arena, like.dtype, like.rank, like.sizes, NULL, bytes, t));
}

/* The sizes of an input with each symbol at its hint. */
static inline void eq_describe(const hn_graph *g, hn_value v, hn_ref_tensor *t) {
    const hn_value_info *info = hn_graph_value(g, v);
    *t = (hn_ref_tensor){.dtype = info->dtype, .rank = info->rank, .numel = 1};
    for (uint32_t d = 0; d < info->rank; d++)
        t->numel *= t->sizes[d] = hn_sym_hint(g->sym, info->sizes[d], 5);
}

static inline uint32_t eq_inputs(hn_arena *arena, const hn_graph *g, uint64_t seed, uint32_t round,
                                 const eq_options *o, hn_ref_tensor out[EQ_MAX_INPUTS]) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < g->inputs.count && count < EQ_MAX_INPUTS; k++) {
        const hn_input *in = &g->inputs.items[k];
        if (in->kind != HN_INPUT_USER) continue;
        eq_describe(g, in->value, &out[count]);
        eq_fill(arena, &out[count++], &seed, round, o,
                in->name.len >= 4 && memcmp(in->name.ptr, "mask", 4) == 0);
    }
    return count;
}

/* Storages that a text names without bytes get some: positive numbers below 2, as weights and
 * variances may be. */
static inline void eq_fill_storages(hn_arena *arena, hn_graph *g) {
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        const hn_input *in = &g->inputs.items[k];
        hn_storage *storage = in->storage ? &g->storages.items[in->storage] : NULL;
        if (!storage || storage->data || storage->computed) continue;
        hn_dtype dtype = hn_graph_value(g, in->value)->dtype;
        int64_t count = (int64_t)(storage->size_bytes / hn_dtype_facts(dtype)->size_bytes);
        uint64_t state = k;
        hn_ref_tensor t;
        EXPECT_OK(hn_ref_tensor_init(arena, dtype, 1, &count, &t));
        for (int64_t i = 0; i < count; i++) {
            uint64_t r = eq_random(&state);
            if (hn_dtype_is_float(dtype)) t.data.f[i] = (double)(r >> 11) * 0x1p-53 * 1.75 + 0.25;
            else t.data.i[i] = (int64_t)(r & 1);
        }
        uint8_t *bytes = hn_arena_alloc(arena, storage->size_bytes + 8);
        hn_ref_tensor_store(&t, bytes);
        storage->data = bytes;
    }
}

/* --- comparison --- */

static inline bool eq_same_bits(const hn_ref_tensor *a, const hn_ref_tensor *b, hn_strbuf *why) {
    bool same = a->dtype == b->dtype && a->rank == b->rank &&
                memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
    if (!same) {
        hn_strbuf_puts(why, "other dtype or sizes");
        return false;
    }
    for (int64_t k = 0; k < a->numel; k++) {
        bool is_float = hn_dtype_is_float(a->dtype);
        if (a->data.i[k] == b->data.i[k] ||
            (is_float && isnan(a->data.f[k]) && isnan(b->data.f[k])))
            continue;
        if (is_float)
            hn_strbuf_printf(why, "element %lld is %.17g, was %.17g", (long long)k, a->data.f[k],
                             b->data.f[k]);
        else
            hn_strbuf_printf(why, "element %lld is %lld, was %lld", (long long)k,
                             (long long)a->data.i[k], (long long)b->data.i[k]);
        return false;
    }
    return true;
}

static inline bool eq_compare(const hn_ref_tensor *after, const hn_ref_tensor *before,
                              const eq_options *o, hn_strbuf *why) {
    if (before->dtype == HN_DTYPE_NONE) return after->dtype == HN_DTYPE_NONE;
    return o->rtol == 0 && o->atol == 0 ? eq_same_bits(after, before, why)
                                        : hn_ref_compare(after, before, o->rtol, o->atol, why);
}

static inline void eq_round(eq_graph *before, eq_graph *after, const char *what, uint32_t round,
                            const eq_options *o) {
    hn_arena arena;
    hn_ref_tensor inputs[EQ_MAX_INPUTS], was[EQ_MAX_OUTPUTS], is[EQ_MAX_OUTPUTS];
    hn_arena_init(&arena);
    uint32_t count = eq_inputs(&arena, before->g, 77 + round, round, o, inputs);
    hn_status status = hn_interpret(&arena, before->g, inputs, count, was);
    if (!status) status = hn_interpret(&arena, after->g, inputs, count, is);
    if (status) HN_TEST_FAIL("%s, round %u: %s", what, round, hn_status_message(status));
    for (uint32_t k = 0; !status && k < before->g->outputs.count; k++) {
        hn_strbuf why;
        hn_strbuf_init(&why);
        if (!eq_compare(&is[k], &was[k], o, &why))
            HN_TEST_FAIL("%s, round %u, output %u: %s", what, round, k, why.ptr ? why.ptr : "");
        hn_strbuf_deinit(&why);
    }
    hn_status_free(status);
    hn_arena_deinit(&arena);
}

/* Both graphs have the same inputs and outputs. `what` begins the messages. */
static inline void eq_expect_same(eq_graph *before, eq_graph *after, const char *what,
                                  const eq_options *o) {
    EXPECT_INT(after->g->outputs.count, before->g->outputs.count);
    if (after->g->outputs.count != before->g->outputs.count ||
        before->g->outputs.count > EQ_MAX_OUTPUTS)
        return;
    eq_fill_storages(&before->arena, before->g);
    eq_fill_storages(&after->arena, after->g);
    for (uint32_t round = 0; round < EQ_ROUNDS; round++) eq_round(before, after, what, round, o);
}

#endif
