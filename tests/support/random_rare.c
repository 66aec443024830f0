/* random_rare.c: graphs of what the others have seldom or never: losses of classifiers with their
 * gradients, scans of few long rows, and weights that are computed from others. */
#include "tests/support/random_gen.h"

/* ---- losses and scans ---- */

/* Rows of an F32 value whose size calls do not bring, in the range where exponentials are tame. */
static known any_rows(gen *r) {
    for (uint32_t attempt = 0; attempt < 8; attempt++) {
        known x = pick(r);
        int64_t n;
        if (info(r, x.v)->dtype == HN_DTYPE_F32 && info(r, x.v)->rank == 2 && !x.may_nan &&
            x.maxabs <= 16 && x.error < 1e-4 && hn_sym_is_int(r->sym, info(r, x.v)->sizes[1], &n) &&
            n > 0)
            return x;
    }
    return (known){0};
}

static known log_softmax(gen *r, known x) {
    const uint32_t d = 1;
    const hn_value top = hn_b_reduce(r->g, HN_OP_AMAX, x.v, &d, 1, true),
                   less = hn_b_binary(r->g, HN_OP_SUB, x.v, top),
                   sum =
                       hn_b_reduce(r->g, HN_OP_SUM, hn_b_unary(r->g, HN_OP_EXP, less), &d, 1, true);
    return (known){.v = hn_b_binary(r->g, HN_OP_SUB, less, hn_b_unary(r->g, HN_OP_LOG, sum)),
                   .maxabs = 2 * x.maxabs + 10,
                   .error = (x.error + unit_error(HN_DTYPE_F32)) * 16};
}

/* An element of each row by an index: their sum; and each row with a number less there. */
static void step_loss(gen *r) {
    known x = any_rows(r);
    if (!x.v) return;
    const known p = log_softmax(r, x);
    const int64_t rows = size(r, x.v, 0), n = size(r, x.v, 1);
    const hn_value one = hn_b_slice(r->g, x.v, 1, num(r, 0), num(r, 1), 1),
                   at = hn_gen_indices(r, one, n), picked = hn_b_gather(r->g, p.v, at, 1);
    add(r, (known){.v = hn_b_reduce(r->g, HN_OP_SUM, picked, (uint32_t[]){0, 1}, 2, chance(r, 50)),
                   .maxabs = p.maxabs * (double)(rows + 1),
                   .error = p.error * 4});
    if (chance(r, 80)) {
        const hn_value zero = hn_b_full(r->g, hn_scalar_f(chance(r, 70) ? 0 : 0.5),
                                        info(r, x.v)->sizes, 2, HN_DTYPE_F32),
                       less =
                           hn_b_full(r->g, hn_scalar_f(-1), info(r, one)->sizes, 2, HN_DTYPE_F32),
                       hot = hn_b_scatter(r->g, zero, at, less, 1, chance(r, 50) ? "set" : "add");
        add(r, (known){.v = hn_b_binary(r->g, HN_OP_ADD, hn_b_unary(r->g, HN_OP_EXP, p.v), hot),
                       .maxabs = 2,
                       .error = p.error * (1 + p.maxabs)});
    }
}

/* Sums that no order of additions rounds. */
static void step_scan(gen *r) {
    known x = pick(r);
    const double most = 1 << 20, m = x.maxabs * (double)(numel(r, x.v) + 1);
    if (!x.exact || x.may_nan || m > most || !numel(r, x.v) || info(r, x.v)->rank > 2) return;
    if (info(r, x.v)->dtype != HN_DTYPE_F32 && info(r, x.v)->dtype != HN_DTYPE_I64) return;
    const int64_t rows = numel(r, x.v) % 2 == 0 && chance(r, 30) ? 2 : 1;
    const hn_expr sizes[2] = {num(r, rows), num(r, numel(r, x.v) / rows)};
    x.v = hn_b_reshape(r->g, x.v, sizes, 2);
    if (chance(r, 20)) x.v = hn_b_transpose(r->g, x.v, 0, 1);
    x.v = hn_b_scan(r->g, HN_OP_CUMSUM, x.v, size(r, x.v, 0) <= 2, NULL);
    x.maxabs = m;
    add(r, x);
}

void hn_gen_inputs_rare(gen *r) {
    static const int64_t lengths[] = {3, 17, 64, 1025, 1100, 1537, 2048, 2100};
    for (uint32_t inputs = 1 + below(r, 2); inputs > 0; inputs--) {
        const int64_t rows = 1 + below(r, 9), n = lengths[below(r, 8)];
        const hn_expr sizes[2] = {r->symbolic && rows > 1 && chance(r, 50) ? hn_gen_symbol(r, rows)
                                                                           : num(r, rows),
                                  num(r, n)};
        const hn_dtype dtype = chance(r, 80) ? HN_DTYPE_F32 : HN_DTYPE_I64;
        add(r, (known){.v = hn_gen_input(r, dtype, sizes, 2), .exact = true, .maxabs = 4});
    }
}

void hn_gen_step_rare(gen *r) {
    static void (*const steps[])(gen *) = {step_loss, step_loss, step_loss,
                                           step_scan, step_scan, hn_gen_step_shared};
    steps[below(r, sizeof steps / sizeof *steps)](r);
}

/* ---- weights ---- */

enum { WEIGHT_STEPS = 9 }; /* weights are -4/16 to 4/16 */

static const uint8_t *weight_bytes(gen *r, size_t count) {
    float *data = hn_arena_alloc(r->arena, count * sizeof *data + 1);
    for (size_t k = 0; k < count && data; k++)
        data[k] = ((float)(int32_t)(next(&r->state) % WEIGHT_STEPS) - 4) / 16;
    return (const uint8_t *)data;
}

static hn_value add_weight(gen *r, int64_t rows, int64_t cols) {
    const hn_expr sizes[2] = {num(r, rows), num(r, cols)};
    const size_t count = (size_t)(rows * cols);
    hn_input in = {.kind = chance(r, 80) ? HN_INPUT_PARAMETER : HN_INPUT_BUFFER};
    in.name = hn_str_of(hn_arena_printf(r->arena, "w%u", r->g->inputs.count));
    in.value = hn_graph_add_tensor(r->g, HN_DTYPE_F32, 2, sizes, NULL, in.name);
    in.storage = hn_graph_add_storage(r->g, (hn_storage){.data = weight_bytes(r, count),
                                                         .size_bytes = count * sizeof(float),
                                                         .file_record = HN_STR("")});
    hn_status s = hn_graph_add_input(r->g, in);
    if (s) hn_graph_fail(r->g, s);
    return in.value;
}

/* Rows of one length, in another scale. */
static hn_value unit_rows(gen *r, hn_value w, hn_value scale) {
    const uint32_t d = 1;
    const hn_value squares = hn_b_binary(r->g, HN_OP_MUL, w, w),
                   sum = hn_b_reduce(r->g, HN_OP_SUM, squares, &d, 1, true),
                   more = hn_b_binary(r->g, HN_OP_ADD, sum, constant(r, 1, sum));
    return hn_b_binary(r->g, HN_OP_MUL,
                       hn_b_binary(r->g, HN_OP_DIV, w, hn_b_unary(r->g, HN_OP_SQRT, more)), scale);
}

/* y = x @ f(w + b @ a), and perhaps what else reads that. */
void hn_gen_step_weights(gen *r) {
    enum { RANK = 4 };
    static const int64_t sizes[] = {33, 64, 65, 96, 101};
    const int64_t n = sizes[below(r, 5)], rows = 2 + below(r, 3);
    const hn_expr shape[2] = {r->symbolic && chance(r, 50) ? hn_gen_symbol(r, rows) : num(r, rows),
                              num(r, n)};
    const hn_value x = hn_gen_input(r, HN_DTYPE_F32, shape, 2), w = add_weight(r, n, n),
                   a = add_weight(r, RANK, n), b = add_weight(r, n, RANK);
    const double error = unit_error(HN_DTYPE_F32) * 16;
    hn_value v = hn_b_binary(r->g, HN_OP_ADD, w, hn_b_matmul(r->g, b, a, 0));
    if (chance(r, 50)) v = unit_rows(r, v, add_weight(r, n, 1));
    if (chance(r, 50)) v = hn_b_transpose(r->g, v, 0, 1);
    if (chance(r, 40)) add(r, (known){.v = v, .maxabs = 1, .error = error});
    if (chance(r, 40)) {
        const hn_value top = hn_b_reduce(r->g, HN_OP_AMAX, v, (uint32_t[]){0}, 1, true);
        add(r, (known){hn_b_binary(r->g, HN_OP_MUL, x, top), false, 4, error, false});
    }
    add(r, (known){hn_b_matmul(r->g, x, v, 0), false, 4 * (double)n, error, false});
}
