/* optimizer.c: the step of AdamW for many parameters beside a loop by hand.
 *
 *     optimizer MODEL.pt2 [THREADS [ROUNDS]]
 *
 * MODEL is what make_optimizer.py exports. Results are compared first. Then the model and two loops
 * take turns, on the same tensors, with THREADS (2) threads, in ROUNDS (15) rounds: the loops read
 * four streams and write three, one with the arithmetic of AdamW, the other one with as good as
 * none. One JSON object on stdout: medians, and parts of the loops' speed (medians over rounds). */
#include "bench/hand_vectors.h"
#include "bench/median.h"

#include "base/team.h"
#include "base/trace.h"
#include "henry/henry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TENSORS_MOST = 1024, ROUNDS_MOST = 100, LISTS = 5, PARTS_MOST = 64 };
enum { PARAMETERS, GRADIENTS, FIRST, SECOND, STEPS };
enum { NEW_PARAMETERS, NEW_FIRST, NEW_SECOND, NEW_STEPS, RESULTS };

static const float beta1 = 0.9f, beta2 = 0.999f, rate = 1e-3f, decay = 0.01f, epsilon = 1e-8f,
                   step_before = 3;

typedef struct subject {
    hn_module *module;
    hn_compile_stats stats;
    hn_metrics metrics;
    hn_tensor *inputs[LISTS * TENSORS_MOST], *outputs[RESULTS * TENSORS_MOST];
    uint32_t count; /* of parameters */
    int64_t elems;  /* of all */
    int threads;
    hn_team team;
} subject;

static void must(hn_status status) {
    if (!status) return;
    fprintf(stderr, "optimizer: %s\n", hn_status_message(status));
    exit(1);
}

static float *in(const subject *s, uint32_t list, uint32_t k) {
    return hn_tensor_data(s->inputs[list * s->count + k]);
}
static float *out(const subject *s, uint32_t list, uint32_t k) {
    return hn_tensor_data(s->outputs[list * s->count + k]);
}
static int64_t length(const subject *s, uint32_t k) {
    return hn_tensor_numel(s->inputs[PARAMETERS * s->count + k]);
}

/* ---- the model ---- */

static void load_model(subject *s, const char *path) {
    hn_compiled *compiled;
    must(hn_compile_file(path, &(hn_compile_options){.threads = s->threads}, &compiled));
    hn_compiled_stats_get(compiled, &s->stats);
    must(hn_compiled_load(compiled, &(hn_module_options){.threads = s->threads}, &s->module));
    hn_compiled_metrics_get(compiled, &s->metrics);
    hn_compiled_release(compiled);
    s->count = hn_module_input_count(s->module) / LISTS;
    if (!s->count || s->count > TENSORS_MOST ||
        hn_module_output_count(s->module) != RESULTS * s->count)
        must(HN_ERROR(HN_INVALID_ARGUMENT, "not the step of an optimiser"));
}

/* Small numbers; second moments are not negative. */
static void fill(float *data, int64_t count, bool positive) {
    uint32_t state = 1;
    for (int64_t k = 0; k < count; k++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(state >> 8) / (float)(1 << 24);
        data[k] = positive ? 1e-4f * x : 0.02f * (x - 0.5f);
    }
}

static void make_inputs(subject *s) {
    for (uint32_t k = 0; k < LISTS * s->count; k++) {
        hn_module_value_info info;
        int64_t sizes[HN_TENSOR_MAX_RANK];
        must(hn_module_input_info(s->module, k, &info));
        for (uint32_t d = 0; d < info.rank; d++) sizes[d] = info.sizes[d].value;
        must(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32, .rank = info.rank, .sizes = sizes},
                              &s->inputs[k]));
        const uint32_t list = k / s->count;
        float *data = hn_tensor_data(s->inputs[k]);
        const int64_t count = hn_tensor_numel(s->inputs[k]);
        if (list == STEPS) data[0] = step_before;
        else fill(data, count, list == SECOND);
        if (list == PARAMETERS) s->elems += count;
    }
}

static double run_model(subject *s) {
    const int64_t begin = hn_now_ns();
    must(hn_module_run(s->module, s->inputs, LISTS * s->count, s->outputs, RESULTS * s->count));
    return (double)(hn_now_ns() - begin) / 1e6;
}

static void compare_one(const subject *s, uint32_t k, int64_t i) {
    const double step = step_before + 1, g = in(s, GRADIENTS, k)[i],
                 m = in(s, FIRST, k)[i] * (double)beta1 + g * (1 - (double)beta1),
                 v = in(s, SECOND, k)[i] * (double)beta2 + g * g * (1 - (double)beta2),
                 size = rate / (1 - pow(beta1, step)), root = sqrt(1 - pow(beta2, step)),
                 p = in(s, PARAMETERS, k)[i] * (1 - (double)rate * decay) -
                     size * m / (sqrt(v) / root + epsilon);
    const double got = out(s, NEW_PARAMETERS, k)[i];
    if (fabs(got - p) <= 1e-6 + 1e-4 * fabs(p)) return;
    must(HN_ERROR(HN_INTERNAL, "element %lld of parameter %u is %g, expected %g", (long long)i, k,
                  got, p));
}

static void compare(const subject *s) {
    for (uint32_t k = 0; k < s->count; k++)
        for (int64_t i = 0; i < length(s, k); i += 1 + length(s, k) / 97) compare_one(s, k, i);
}

/* ---- the loops by hand ---- */

typedef struct constants {
    vf beta1, beta2, rest1, rest2, keep, size, root, epsilon;
} constants;

static constants constants_of(void) {
    const float step = step_before + 1;
    return (constants){.beta1 = splat(beta1),
                       .beta2 = splat(beta2),
                       .rest1 = splat(1 - beta1),
                       .rest2 = splat(1 - beta2),
                       .keep = splat(1 - rate * decay),
                       .size = splat(rate / (1 - powf(beta1, step))),
                       .root = splat(1 / sqrtf(1 - powf(beta2, step))),
                       .epsilon = splat(epsilon)};
}

INLINE vf square_root(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#else
    for (int k = 0; k < W; k++) x[k] = sqrtf(x[k]);
    return x;
#endif
}

/* Elements [begin, end) of a parameter, multiples of vectors from its first one on. */
INLINE void update(const subject *s, uint32_t k, int64_t begin, int64_t end, const bool plain) {
    const float *p = in(s, PARAMETERS, k), *g = in(s, GRADIENTS, k), *m = in(s, FIRST, k),
                *v = in(s, SECOND, k);
    float *new_p = out(s, NEW_PARAMETERS, k), *new_m = out(s, NEW_FIRST, k),
          *new_v = out(s, NEW_SECOND, k);
    const constants c = constants_of();
    for (int64_t i = begin; i + W <= end; i += W) {
        const vf grad = load(g + i);
        const vf first = load(m + i) * c.beta1 + grad * c.rest1;
        const vf second = load(v + i) * c.beta2 + grad * grad * c.rest2;
        const vf change =
            plain ? first : c.size * first / (square_root(second) * c.root + c.epsilon);
        store(new_m + i, first, true);
        store(new_v + i, second, true);
        store(new_p + i, load(p + i) * c.keep - change, true);
    }
}

typedef struct hand_job {
    const subject *s;
    bool plain;
} hand_job;

/* A part of all elements, by lines of memory. What fills no vector is left out. */
static void run_part(void *context, int part) {
    const hand_job *j = context;
    const subject *s = j->s;
    const int64_t first = s->elems * part / s->threads, last = s->elems * (part + 1) / s->threads;
    int64_t at = 0;
    for (uint32_t k = 0; k < s->count; at += length(s, k++)) {
        const int64_t count = length(s, k);
        int64_t begin = first > at ? first - at : 0, end = last - at < count ? last - at : count;
        begin = (begin + 15) / 16 * 16;
        if (end < count) end = (end + 15) / 16 * 16;
        if (j->plain) update(s, k, begin, end, true);
        else update(s, k, begin, end, false);
    }
    fence(true);
}

static double run_hand(subject *s, bool plain) {
    const int64_t begin = hn_now_ns();
    hn_team_run(&s->team, s->threads, run_part, &(hand_job){s, plain});
    hn_team_end(&s->team); /* or it counts as a caller beside Henry's */
    return (double)(hn_now_ns() - begin) / 1e6;
}

/* ---- the whole ---- */

static void measure(subject *s, int rounds) {
    double model[ROUNDS_MOST], hand[ROUNDS_MOST], plain[ROUNDS_MOST], of_hand[ROUNDS_MOST],
        of_plain[ROUNDS_MOST];
    for (int r = 0; r < rounds; r++) {
        model[r] = run_model(s);
        hand[r] = run_hand(s, false);
        plain[r] = run_hand(s, true);
        of_hand[r] = hand[r] / model[r];
        of_plain[r] = plain[r] / model[r];
    }
    const size_t n = (size_t)rounds;
    printf("{\"parameters\": %u, \"elements\": %lld, \"threads\": %d, \"kernels\": %u, "
           "\"segments\": %lld, \"nodes\": %u, \"to_source_ms\": %.3f, ",
           s->count, (long long)s->elems, s->threads, s->stats.kernels_generated,
           (long long)hn_metrics_value(&s->metrics, "segments"), s->stats.nodes_imported,
           (double)(s->stats.import_ns + s->stats.opt_ns + s->stats.lower_ns + s->stats.sched_ns +
                    s->stats.codegen_ns) /
               1e6);
    printf("\"ms\": %.3f, \"hand_ms\": %.3f, \"plain_ms\": %.3f, \"of_hand\": %.4f, "
           "\"of_plain\": %.4f}\n",
           median(model, n), median(hand, n), median(plain, n), median(of_hand, n),
           median(of_plain, n));
}

int main(int argc, char **argv) {
    static subject s;
    const int rounds = argc > 3 ? atoi(argv[3]) : 15;
    s.threads = argc > 2 ? atoi(argv[2]) : 2;
    if (argc < 2 || s.threads < 1 || s.threads > PARTS_MOST || rounds < 1 || rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: optimizer MODEL.pt2 [THREADS [ROUNDS]]\n");
        return 2;
    }
    load_model(&s, argv[1]);
    make_inputs(&s);
    (void)run_model(&s);
    compare(&s);
    measure(&s, rounds);
    hn_module_release(s.module);
    for (uint32_t k = 0; k < LISTS * s.count; k++) hn_tensor_release(s.inputs[k]);
    for (uint32_t k = 0; k < RESULTS * s.count; k++) hn_tensor_release(s.outputs[k]);
    return 0;
}
