/* random_loops.c: loops and conditionals of the generator of random graphs. Loops run a number of
 * rounds that is constant, a size, or told by the data, none included; they walk over the elements
 * of tensors and fill tensors, hand values on, exchange them, and hold others.
 *
 * What is carried goes around any number of times, so it is brought back to whole numbers of at
 * most 4 in each round: errors do not grow, and what has jumps may read it. What the rounds collect
 * is free. */
#include "tests/support/random_gen.h"

#include "base/compiler.h"

enum { MAX_DEPTH = 3, MAX_ROUNDS = 200, MAX_CARRIED = 6, MAX_OPERANDS = 16 };

/* A subgraph on its way. Its operands are values of the graph around it. */
typedef struct block {
    gen *r;
    hn_value operands[MAX_OPERANDS], inputs[MAX_OPERANDS];
    uint32_t count;
} block;

static void latch(gen *r, hn_status status) {
    if (status) hn_graph_fail(r->g, status);
}

static bool block_begin(gen *outer, int64_t rounds, block *out) {
    *out = (block){0};
    hn_status s = hn_arena_array(outer->arena, 1, sizeof *out->r, &out->r);
    if (!s) {
        *out->r = (gen){.state = next(&outer->state),
                        .sym = outer->sym,
                        .arena = outer->arena,
                        .depth = outer->depth + 1,
                        .rounds = outer->rounds * (rounds > 0 ? rounds : 1)};
        s = hn_graph_create(outer->arena, outer->sym, &out->r->g);
    }
    latch(outer, s);
    return !s;
}

/* One more operand: `outside` is what it begins with, `inside` what is known of it in the body. */
static hn_value block_operand(gen *outer, block *b, hn_value outside, known inside) {
    if (!outside || b->count == MAX_OPERANDS) return 0;
    const hn_value_info vi = *info(outer, outside);
    const hn_value v = hn_graph_add_tensor(b->r->g, vi.dtype, vi.rank, vi.sizes, NULL, HN_STR(""));
    latch(b->r, hn_graph_add_input(
                    b->r->g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = HN_STR("b")}));
    b->operands[b->count] = outside;
    b->inputs[b->count++] = v;
    inside.v = v;
    if (inside.maxabs >= 0) add(b->r, inside);
    return v;
}

static void block_output(block *b, hn_value v) {
    if (!v) return;
    latch(b->r, hn_graph_add_output(b->r->g, (hn_output){.kind = HN_OUTPUT_USER, .value = v}));
}

/* Whether everything so far is right; what went wrong inside is an error of the whole. */
static bool block_end(gen *outer, const block *b) {
    hn_status s = hn_graph_status(b->r->g);
    latch(outer, s);
    return !s && !hn_graph_status(outer->g);
}

static void block_steps(block *b) {
    for (uint32_t n = 1 + below(b->r, 4); n > 0 && b->r->count; n--) {
        if (b->r->depth < MAX_DEPTH && chance(b->r, 25)) hn_gen_step_control(b->r);
        else hn_gen_step(b->r);
    }
}

/* ---- what is carried ---- */

static bool is_carried(gen *r, const known *x) {
    return x->v && x->exact && !x->may_nan && numel(r, x->v) <= 2000;
}

/* Whole numbers from -4 to 4, with the dtype and sizes of v. */
static hn_value bounded(gen *r, hn_value v) {
    const hn_dtype dtype = info(r, v)->dtype;
    if (dtype == HN_DTYPE_BOOL) return v;
    if (!hn_dtype_is_float(dtype)) return hn_b_binary(r->g, HN_OP_REMAINDER, v, constant(r, 5, v));
    v = hn_b_unary(r->g, HN_OP_FLOOR, v);
    v = hn_b_binary(r->g, HN_OP_MIN, v, constant(r, 4, v));
    return hn_b_binary(r->g, HN_OP_MAX, v, constant(r, -4, v));
}

static bool same_meta(const hn_value_info *a, const hn_value_info *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           (!a->rank || memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0);
}

static bool spreads_over(gen *r, hn_value y, hn_value x) {
    const hn_value_info *a = info(r, x), *b = info(r, y);
    bool fits = b->rank <= a->rank;
    for (uint32_t d = 1; fits && d <= b->rank; d++)
        fits = b->sizes[b->rank - d] == a->sizes[a->rank - d] ||
               hn_sym_is_value(r->sym, b->sizes[b->rank - d], 1);
    return fits;
}

/* A value like `x`, a value of this graph: of the last ones made, or x with one of them. */
static hn_value made_like(gen *r, hn_value x) {
    static const hn_op ops[] = {HN_OP_ADD, HN_OP_MIN, HN_OP_MAX, HN_OP_ADD};
    for (uint32_t tries = 0; tries < 8; tries++) {
        known y = pick(r);
        if (!is_carried(r, &y)) continue;
        y = hn_gen_as_dtype(r, y, info(r, x)->dtype);
        if (!y.v || !y.exact) continue;
        if (same_meta(info(r, y.v), info(r, x)) && y.v != x) return bounded(r, y.v);
        if (spreads_over(r, y.v, x)) return bounded(r, hn_b_binary(r->g, ops[below(r, 4)], x, y.v));
    }
    return bounded(r, hn_b_binary(r->g, HN_OP_ADD, x, constant(r, 1, x)));
}

static known of_carried(void) { return (known){.exact = true, .maxabs = 4}; }

static uint32_t add_carried(gen *outer, block *b, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t tries = 0; tries < 2 * most && count < most; tries++) {
        known x = pick(outer);
        if (!is_carried(outer, &x)) continue;
        block_operand(outer, b, bounded(outer, x.v), of_carried());
        count++;
    }
    return count;
}

static void add_others(gen *outer, block *b) {
    for (uint32_t n = below(outer, 3); n > 0; n--) {
        const known x = pick(outer);
        block_operand(outer, b, x.v, x);
    }
}

/* What the body hands on for inputs [first, first + count): new values, the old ones, or those of
 * its neighbours. */
static void hand_on(block *b, uint32_t first, uint32_t count, hn_value *out) {
    gen *r = b->r;
    for (uint32_t k = 0; k < count; k++)
        out[k] = chance(r, 12) ? b->inputs[first + k] : made_like(r, b->inputs[first + k]);
    for (uint32_t k = 0; k + 1 < count; k++) {
        if (!same_meta(info(r, out[k]), info(r, out[k + 1])) || !chance(r, 50)) continue;
        const hn_value kept = out[k];
        out[k] = chance(r, 50) ? b->inputs[first + k + 1] : out[k + 1];
        if (chance(r, 70)) out[k + 1] = chance(r, 50) ? b->inputs[first + k] : kept;
    }
}

/* ---- conditionals ---- */

static hn_value predicate(gen *r) {
    for (uint32_t tries = 0; tries < 6; tries++) {
        const known p = pick(r);
        uint32_t dims[HN_MAX_RANK];
        if (!p.exact) continue;
        for (uint32_t k = 0; k < HN_MAX_RANK; k++) dims[k] = k;
        const hn_value truth = hn_b_binary(r->g, HN_OP_GT, p.v, constant(r, 0, p.v));
        return hn_b_reduce(r->g, chance(r, 50) ? HN_OP_ANY : HN_OP_ALL, truth, dims,
                           info(r, p.v)->rank, false);
    }
    return hn_b_scalar(r->g, 1, HN_DTYPE_BOOL);
}

static void step_branches(gen *r) {
    block b[2];
    const hn_value pred = predicate(r);
    known picked[4];
    hn_value out[2];
    const uint32_t operands = 1 + below(r, 4), results = 1 + below(r, operands < 2 ? operands : 2);
    for (uint32_t k = 0; k < operands; k++) {
        picked[k] = pick(r);
        if (k < results && !is_carried(r, &picked[k])) return;
    }
    for (int side = 0; side < 2; side++) {
        if (!block_begin(r, 1, &b[side])) return;
        for (uint32_t k = 0; k < operands; k++) block_operand(r, &b[side], picked[k].v, picked[k]);
        block_steps(&b[side]);
        for (uint32_t k = 0; k < results; k++)
            block_output(&b[side], made_like(b[side].r, b[side].inputs[k]));
        if (!block_end(r, &b[side])) return;
    }
    hn_b_cond(r->g, pred, b[0].r->g, b[1].r->g, b[0].operands, operands, out, results);
    for (uint32_t k = 0; k < results; k++) {
        known x = of_carried();
        x.v = out[k];
        add(r, x);
    }
}

/* ---- loops ---- */

static hn_value number(gen *r, int64_t n) { return hn_b_scalar(r->g, (double)n, HN_DTYPE_I64); }

static bool fits_in(const gen *r, int64_t rounds) { return rounds * r->rounds <= MAX_ROUNDS; }

/* A constant, or the size of something, and less. */
static hn_expr pick_rounds(gen *r, int64_t *out_rounds) {
    const known x = pick(r);
    hn_expr e = num(r, below(r, 5));
    if (chance(r, 60) && info(r, x.v)->rank)
        e = hn_sym_sub(r->sym, info(r, x.v)->sizes[0], num(r, below(r, 4)));
    *out_rounds = hn_sym_hint(r->sym, e, 0);
    if (fits_in(r, *out_rounds)) return e;
    *out_rounds = 2;
    return num(r, 2);
}

static void finish_loop(gen *r, block *b, hn_graph *test, hn_expr rounds, uint32_t carried,
                        const known *results) {
    hn_value out[MAX_OPERANDS];
    if (!block_end(r, b)) return;
    const hn_b_loop_parts parts = {.rounds = rounds,
                                   .test = test,
                                   .body = b->r->g,
                                   .operands = b->operands,
                                   .carried_count = carried,
                                   .other_count = b->count - carried};
    hn_b_loop(r->g, &parts, out);
    for (uint32_t k = 0; k < carried; k++) {
        known x = results[k];
        x.v = out[k];
        if (x.maxabs >= 0) add(r, x);
    }
}

static void step_counted(gen *r) {
    block b;
    int64_t count;
    const hn_expr rounds = pick_rounds(r, &count);
    hn_value handed[MAX_CARRIED];
    known results[MAX_CARRIED];
    if (!block_begin(r, count, &b)) return;
    const uint32_t carried = add_carried(r, &b, 1 + below(r, 4));
    if (!carried) return;
    add_others(r, &b);
    block_steps(&b);
    hand_on(&b, 0, carried, handed);
    for (uint32_t k = 0; k < carried; k++) {
        block_output(&b, handed[k]);
        results[k] = of_carried();
    }
    finish_loop(r, &b, NULL, rounds, carried, results);
}

/* A whole number from 0 to 4 that the data tells. */
static hn_value counted_in_data(gen *r) {
    uint32_t dims[HN_MAX_RANK];
    for (uint32_t k = 0; k < HN_MAX_RANK; k++) dims[k] = k;
    for (uint32_t tries = 0; tries < 6; tries++) {
        known x = pick(r);
        if (!is_carried(r, &x)) continue;
        x = hn_gen_as_dtype(r, x, HN_DTYPE_I64);
        if (!x.v || !numel(r, x.v)) continue;
        const hn_value top = hn_b_reduce(r->g, HN_OP_AMAX, x.v, dims, info(r, x.v)->rank, false);
        return hn_b_binary(r->g, HN_OP_REMAINDER, top, number(r, 5));
    }
    return number(r, 1);
}

/* The test: the number of the round, operand 0, is below the last one, and what the data says. */
static hn_graph *make_test(gen *r, const block *body) {
    block b;
    if (!block_begin(r, 1, &b)) return NULL;
    for (uint32_t k = 0; k < body->count; k++)
        block_operand(r, &b, body->operands[k], (known){.maxabs = -1});
    hn_value goes_on = hn_b_binary(b.r->g, HN_OP_LT, b.inputs[0], b.inputs[body->count - 1]);
    const hn_value_info *vi = info(b.r, b.inputs[1]);
    if (chance(r, 50) && vi->dtype != HN_DTYPE_BOOL) {
        uint32_t dims[HN_MAX_RANK];
        for (uint32_t k = 0; k < HN_MAX_RANK; k++) dims[k] = k;
        const hn_value less =
            hn_b_binary(b.r->g, HN_OP_LT, b.inputs[1], constant(b.r, 3, b.inputs[1]));
        goes_on = hn_b_binary(b.r->g, HN_OP_AND, goes_on,
                              hn_b_reduce(b.r->g, HN_OP_ANY, less, dims, vi->rank, false));
    }
    block_output(&b, goes_on);
    return block_end(r, &b) ? b.r->g : NULL;
}

static void step_while(gen *r) {
    block b;
    hn_value handed[MAX_CARRIED];
    known results[1 + MAX_CARRIED];
    if (!fits_in(r, 5) || !block_begin(r, 5, &b)) return;
    const known counter = {.exact = true, .maxabs = 5};
    const hn_value begin = chance(r, 50) ? number(r, 0) : counted_in_data(r);
    block_operand(r, &b, begin, counter);
    const uint32_t carried = add_carried(r, &b, 1 + below(r, 3));
    if (!carried) return;
    add_others(r, &b);
    block_operand(r, &b, chance(r, 30) ? number(r, below(r, 5)) : counted_in_data(r), counter);
    hn_graph *test = make_test(r, &b);
    if (!test) return;
    block_steps(&b);
    hand_on(&b, 1, carried, handed);
    block_output(&b, hn_b_binary(b.r->g, HN_OP_ADD, b.inputs[0], number(b.r, 1)));
    results[0] = counter;
    for (uint32_t k = 0; k < carried; k++) {
        block_output(&b, handed[k]);
        results[1 + k] = of_carried();
    }
    finish_loop(r, &b, test, 0, 1 + carried, results);
}

/* ---- walks ---- */

/* Element `at` of tensor x. */
static known element(gen *r, known x, hn_value at) {
    x.v = hn_b_index(r->g, x.v, &at, 1, false);
    return x;
}

/* A tensor of `length` times what is like `each`, a value of the body, with zeros. */
static hn_value room_for(gen *r, const hn_value_info *each, hn_expr length) {
    hn_expr sizes[HN_MAX_RANK];
    sizes[0] = length;
    for (uint32_t d = 0; d < each->rank; d++) sizes[d + 1] = each->sizes[d];
    return hn_b_full(r->g, hn_scalar_i(num(r, 0)), sizes, each->rank + 1, each->dtype);
}

/* The elements of x are looked up one by one, and results put side by side: scan, and map, which
 * carries nothing. Operands are the number of the round, what is carried, what is filled, x, and the
 * others. */
typedef struct walk {
    block b;
    hn_expr length;
    uint32_t carried, filled;
    known x, taken;        /* taken: the element */
    hn_value_info each[2]; /* what is collected: like an element of x, and a number */
} walk;

static bool walk_begin(gen *r, walk *w) {
    for (uint32_t tries = 0; tries < 8; tries++) {
        w->x = pick(r);
        if (info(r, w->x.v)->rank && fits_in(r, size(r, w->x.v, 0))) break;
        w->x.v = 0;
    }
    if (!w->x.v || !block_begin(r, size(r, w->x.v, 0), &w->b)) return false;
    w->length = info(r, w->x.v)->sizes[0];
    return true;
}

static void walk_inputs(gen *r, walk *w) {
    const known hidden = {.maxabs = -1}, number_of_round = {.exact = true, .maxabs = MAX_ROUNDS};
    const hn_value_info of_x = *info(r, w->x.v);
    block_operand(r, &w->b, number(r, 0), number_of_round);
    w->carried = chance(r, 40) ? 0 : add_carried(r, &w->b, 1 + below(r, 2));
    w->filled = 1 + below(r, 2);
    for (uint32_t k = 0; k < w->filled; k++) {
        w->each[k] = of_x;
        w->each[k].rank = k ? 0 : of_x.rank - 1;
        w->each[k].sizes = of_x.sizes + 1;
        block_operand(r, &w->b, room_for(r, &w->each[k], w->length), hidden);
    }
    w->taken = w->x;
    w->taken.v = block_operand(r, &w->b, w->x.v, hidden);
    w->taken = element(w->b.r, w->taken, w->b.inputs[0]);
    add(w->b.r, w->taken);
    add_others(r, &w->b);
}

/* What a round puts into tensor k of those that are filled. */
static known collected(walk *w, uint32_t k) {
    for (uint32_t tries = 0; tries < 8; tries++) {
        const known y = pick(w->b.r);
        if (same_meta(info(w->b.r, y.v), &w->each[k])) return y;
    }
    if (!k) return w->taken;
    known one = of_carried();
    one.v = hn_b_scalar(w->b.r->g, 1, w->each[k].dtype);
    return one;
}

static void step_walk(gen *r) {
    walk w = {0};
    block *b = &w.b;
    hn_value handed[MAX_CARRIED], filled[2];
    known results[1 + MAX_CARRIED + 2];
    uint32_t count = 0;
    if (!walk_begin(r, &w)) return;
    walk_inputs(r, &w);
    block_steps(b);
    hand_on(b, 1, w.carried, handed);
    results[count++] = (known){.maxabs = -1};
    for (uint32_t k = 0; k < w.carried; k++) results[count++] = of_carried();
    for (uint32_t k = 0; k < w.filled; k++) {
        const hn_value room = b->inputs[count];
        results[count] = collected(&w, k);
        filled[k] = hn_b_index_put(b->r->g, room, b->inputs, 1, results[count].v, "set", false);
        count++;
    }
    block_output(b, hn_b_binary(b->r->g, HN_OP_ADD, b->inputs[0], number(b->r, 1)));
    for (uint32_t k = 0; k < w.carried; k++) block_output(b, handed[k]);
    for (uint32_t k = 0; k < w.filled; k++) block_output(b, filled[k]);
    finish_loop(r, b, NULL, w.length, count, results);
}

void hn_gen_step_control(gen *r) {
    static void (*const steps[])(gen *) = {step_branches, step_counted, step_while,
                                           step_while,    step_walk,    step_walk};
    if (r->count) steps[below(r, HN_COUNT_OF(steps))](r);
}
