/* cost.c: what an op costs. */
#include "kernel/cpu_internal.h"

/* Of one element on a vector, in additions. */
static const uint16_t costs[HN_OP_COUNT] = {
    [HN_OP_NEG] = 1, [HN_OP_ABS] = 1, [HN_OP_SIGN] = 3, [HN_OP_FLOOR] = 2, [HN_OP_CEIL] = 2,
    [HN_OP_TRUNC] = 2, [HN_OP_ROUND] = 2, [HN_OP_SQRT] = 8, [HN_OP_RSQRT] = 12,
    [HN_OP_RECIPROCAL] = 6, [HN_OP_EXP] = 14, [HN_OP_EXP2] = 40, [HN_OP_EXPM1] = 60,
    [HN_OP_LOG] = 18, [HN_OP_LOG2] = 60, [HN_OP_LOG10] = 60, [HN_OP_LOG1P] = 60, [HN_OP_SIN] = 20,
    [HN_OP_COS] = 20, [HN_OP_TAN] = 80, [HN_OP_ASIN] = 80, [HN_OP_ACOS] = 80, [HN_OP_ATAN] = 80,
    [HN_OP_SINH] = 80, [HN_OP_COSH] = 80, [HN_OP_TANH] = 20, [HN_OP_ASINH] = 80, [HN_OP_ACOSH] = 80,
    [HN_OP_ATANH] = 80, [HN_OP_ERF] = 22, [HN_OP_ERFC] = 80, [HN_OP_ERFINV] = 120,
    [HN_OP_LGAMMA] = 120, [HN_OP_DIGAMMA] = 120, [HN_OP_SIGMOID] = 20, [HN_OP_RELU] = 1,
    [HN_OP_NOT] = 1, [HN_OP_ISNAN] = 1, [HN_OP_ISINF] = 2, [HN_OP_ADD] = 1, [HN_OP_SUB] = 1,
    [HN_OP_MUL] = 1, [HN_OP_DIV] = 6, [HN_OP_FLOORDIV] = 40, [HN_OP_REMAINDER] = 40,
    [HN_OP_FMOD] = 40, [HN_OP_POW] = 100, [HN_OP_MIN] = 2, [HN_OP_MAX] = 2, [HN_OP_FMIN] = 2,
    [HN_OP_FMAX] = 2, [HN_OP_ATAN2] = 120, [HN_OP_HYPOT] = 60, [HN_OP_COPYSIGN] = 2,
    [HN_OP_AND] = 1, [HN_OP_OR] = 1, [HN_OP_XOR] = 1, [HN_OP_SHL] = 2, [HN_OP_SHR] = 2,
    [HN_OP_GCD] = 200, [HN_OP_ZETA] = 400, [HN_OP_EQ] = 1, [HN_OP_NE] = 1, [HN_OP_LT] = 1,
    [HN_OP_LE] = 1, [HN_OP_GT] = 1, [HN_OP_GE] = 1, [HN_OP_WHERE] = 1,
};

uint32_t hn_cpu_sop_cost(const hn_sop *op) {
    switch (op->kind) {
    case HN_SOP_ELEM: return costs[op->op];
    case HN_SOP_LOAD: return 1;
    case HN_SOP_RANDOM: return 200;
    case HN_SOP_CAST: return 1;
    case HN_SOP_INDIRECT: return 4;
    default: return 0;
    }
}

uint32_t hn_cpu_phase_cost(const hn_kernel_phase *phase) {
    uint32_t cost = 0;
    for (hn_sid s = 1; s < phase->body.count; s++) cost += hn_cpu_sop_cost(&phase->body.items[s]);
    return cost + phase->stores.count + phase->reduces.count;
}
